// A manager is made while the Nth allocation fails, for every N: it says so, and what it had taken
// is given back. One that was made gives all of it back when it is destroyed.
#include <errno.h>

#include "tests/failing_memory.h"
#include "tests/manager/bench.h"

enum { CALLS_MAX = 20 };

static void who_gets_no_memory_says_so_and_keeps_none(void **state)
{
    struct bench *bench = *state;
    const struct weft_rdma_manager_attr attr = {.qp = &bench->fake.qp};
    const int64_t before = memory_blocks;
    int error = -ENOMEM;
    unsigned call = 0;
    while (error == -ENOMEM && call < CALLS_MAX) {
        memory_fail_at(++call);
        error = weft_rdma_manager_create(&attr, &bench->manager);
        memory_fail_at(0);
        assert_true(error == 0 || error == -ENOMEM);
        assert_int_equal(error == 0, bench->manager != NULL);
        assert_true(error == 0 || memory_blocks == before);
    }
    assert_int_equal(error, 0);
    assert_true(call > 3); // the manager, its scratch, its slots
    assert_int_equal(weft_rdma_manager_destroy(bench->manager), 0);
    bench->manager = NULL;
    assert_int_equal(memory_blocks, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {BENCH_TEST(who_gets_no_memory_says_so_and_keeps_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
