// Memory that costs nothing until it is touched, also where the allocator writes into all that it
// gives (MALLOC_PERTURB_, which meson sets): for a volume or a pool of which a case uses little.
// Whoever reads or writes beyond its end is ended there.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <cmocka.h>

enum { PAGES_GUARD_LEN = 4096 };

// Zeroes; `len` is a multiple of a page's.
static inline uint8_t *pages_create(size_t len)
{
    assert_int_equal(len % PAGES_GUARD_LEN, 0);
    uint8_t *pages = mmap(NULL, len + PAGES_GUARD_LEN, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(mprotect(pages, len, PROT_READ | PROT_WRITE), 0);
    return pages;
}

static inline void pages_destroy(uint8_t *pages, size_t len)
{
    assert_int_equal(munmap(pages, len + PAGES_GUARD_LEN), 0);
}
