// Which memory may be registered: asked of the kernel by its query, and where there is none, of the
// text of /proc/self/maps. Both must say the same.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/mapping.h"

// Pages in a row: none, two to read and write, one to read, a hole, one to write only, none.
enum { CLOSED, PLAIN, PLAIN_2, CONSTANT, HOLE, BLIND, CLOSED_2, PAGE_COUNT };

static uint8_t *memory;
static size_t page_len;

static int setup(void **state)
{
    page_len = (size_t)sysconf(_SC_PAGESIZE);
    memory = mmap(NULL, PAGE_COUNT * page_len, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ||
           mprotect(memory + PLAIN * page_len, 2 * page_len, PROT_READ | PROT_WRITE) != 0 ||
           mprotect(memory + CONSTANT * page_len, page_len, PROT_READ) != 0 ||
           munmap(memory + HOLE * page_len, page_len) != 0 ||
           mprotect(memory + BLIND * page_len, page_len, PROT_WRITE) != 0;
}

static const struct {
    unsigned from_page; // and `skip` octets of it
    size_t skip;
    unsigned to_page; // to before it, and `more` octets of it
    size_t more;
    bool writable;
    int result;
} rows[] = {
    {PLAIN, 0, CONSTANT, 0, true, 0},
    {PLAIN, 0, CONSTANT, 0, false, 0},
    {PLAIN_2, 17, PLAIN_2, 18, true, 0},
    {PLAIN, 5, HOLE, 0, false, 0}, // two mappings
    {CONSTANT, 0, HOLE, 0, false, 0},
    {CONSTANT, 0, HOLE, 0, true, -EFAULT},
    {PLAIN, 0, CONSTANT, 1, true, -EFAULT}, // only the last octet is wrong
    {PLAIN, 0, HOLE, 1, false, -EFAULT},    // the hole's first
    {HOLE, 0, BLIND, 0, false, -EFAULT},    // nothing but the hole
    {CLOSED, 0, PLAIN, 1, false, -EFAULT},  // only the first page is wrong
    {BLIND, 0, CLOSED_2, 0, true, -EFAULT}, // nobody could send from there
    {CLOSED_2, 0, PAGE_COUNT, 0, false, -EFAULT},
    {HOLE, 9, HOLE, 9, true, 0}, // nothing of it
};

static int probe(struct mapping *mapping, unsigned row, struct mspan *known)
{
    uint8_t *from = memory + rows[row].from_page * page_len + rows[row].skip;
    uint8_t *to = memory + rows[row].to_page * page_len + rows[row].more;
    return mapping_probe(mapping, from, (size_t)(to - from), rows[row].writable, known);
}

static void expect_all(struct mapping *mapping)
{
    struct mspan known;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int result = probe(mapping, i, &known);
        if (result != rows[i].result) {
            fail_msg("row %u: %d", i, result);
        }
    }
}

static void memory_is_judged_by_what_the_process_may_do_with_it(void **state)
{
    struct mapping mapping;
    mapping_init(&mapping);
    expect_all(&mapping);
    mapping_fini(&mapping);
}

// PROCMAP_QUERY is of Linux 6.11: /dev/zero stands for a file without it.
static void kernel_without_the_query_gives_the_same_answers(void **state)
{
    struct mapping mapping;
    struct mspan known;
    mapping_init(&mapping);
    int other = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    assert_true(dup2(other, mapping.maps_fd) >= 0);
    close(other);
    expect_all(&mapping);
    assert_true(atomic_load(&mapping.has_no_query)); // it is not asked again
    assert_int_equal(probe(&mapping, 2, &known), 0);
    assert_ptr_equal(known.ptr, memory + PLAIN_2 * page_len + 17);
    assert_int_equal(known.len, 1);
    mapping_fini(&mapping);
}

// What is known is not asked for again, so it may be more than was asked for, but nothing else.
static void whole_mappings_are_known_from_one_question(void **state)
{
    struct mapping mapping;
    struct mspan known;
    mapping_init(&mapping);
    assert_int_equal(probe(&mapping, 2, &known), 0);
    if (atomic_load(&mapping.has_no_query)) {
        print_message("SKIP: this kernel has no PROCMAP_QUERY\n");
        skip();
    }
    assert_ptr_equal(known.ptr, memory + PLAIN * page_len);
    assert_int_equal(known.len, 2 * page_len);
    assert_int_equal(probe(&mapping, 3, &known), 0); // the constant page too
    assert_ptr_equal(known.ptr, memory + PLAIN * page_len);
    assert_int_equal(known.len, 3 * page_len);
    assert_int_equal(probe(&mapping, 7, &known), -EFAULT);
    assert_ptr_equal(known.ptr, memory + PLAIN * page_len);
    assert_int_equal(known.len, 3 * page_len + 1);    // what was asked for
    assert_false(atomic_load(&mapping.has_no_query)); // to refuse is an answer too
    mapping_fini(&mapping);
}

// Out of descriptors, or without /proc: a program is worth more than its mistakes being found.
static void who_cannot_ask_believes_the_program(void **state)
{
    struct mapping mapping;
    struct mspan known;
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    mapping_init(&mapping);
    int result = probe(&mapping, 8, &known);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(mapping.maps_fd, -1);
    assert_int_equal(result, 0);
    assert_ptr_equal(known.ptr, memory + HOLE * page_len);
    assert_int_equal(known.len, page_len);
    mapping_fini(&mapping);
    mapping_init(&mapping);
    atomic_store(&mapping.has_no_query, true); // and the text cannot be opened
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    result = probe(&mapping, 8, &known);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(result, 0);
    mapping_fini(&mapping);
}

static void descriptor_is_closed_at_exec_and_at_the_end(void **state)
{
    struct mapping mapping;
    mapping_init(&mapping);
    int fd = mapping.maps_fd;
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    mapping_fini(&mapping);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_judged_by_what_the_process_may_do_with_it),
        cmocka_unit_test(kernel_without_the_query_gives_the_same_answers),
        cmocka_unit_test(whole_mappings_are_known_from_one_question),
        cmocka_unit_test(who_cannot_ask_believes_the_program),
        cmocka_unit_test(descriptor_is_closed_at_exec_and_at_the_end),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
