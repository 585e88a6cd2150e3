// Memory that costs nothing until it is touched, also where the allocator writes into all that it
// gives (MALLOC_PERTURB_, which meson sets): for a volume or a pool of which a case uses little.
// Whoever reads or writes before it or beyond its end is ended there.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <cmocka.h>

enum { PAGES_GUARD_LEN = 4096 }; // a page of x86-64

// Zeroes; `len` is a multiple of a page's.
static inline uint8_t *pages_create(size_t len)
{
    assert_int_equal(len % PAGES_GUARD_LEN, 0);
    uint8_t *pages = mmap(NULL, len + 2 * PAGES_GUARD_LEN, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(mprotect(pages + PAGES_GUARD_LEN, len, PROT_READ | PROT_WRITE), 0);
    return pages + PAGES_GUARD_LEN;
}

static inline void pages_destroy(uint8_t *pages, size_t len)
{
    assert_int_equal(munmap(pages - PAGES_GUARD_LEN, len + 2 * PAGES_GUARD_LEN), 0);
}
