// Completion queues while the Nth allocation fails: made whole or not at all, and one that cannot
// be resized keeps what is in it.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cq/cq.h"
#include "tests/failing_memory.h"

enum { ALLOCATIONS_MAX = 100 };

static void queue_is_made_whole_or_not_at_all(void **state)
{
    int64_t before = memory_blocks;
    struct cq *cq = NULL;
    unsigned n = 1;
    for (; cq == NULL && n < ALLOCATIONS_MAX; n++) {
        memory_fail_at(n);
        cq = cq_create(64, (struct cq_port){0});
        memory_fail_at(0);
        assert_true(cq != NULL || memory_blocks == before);
    }
    assert_non_null(cq);
    assert_true(n > 2); // the queue and its ring
    assert_true(cq_check(cq));
    cq_destroy(cq);
    assert_int_equal(memory_blocks, before);
}

static void queue_that_cannot_be_resized_keeps_what_is_in_it(void **state)
{
    int64_t before = memory_blocks;
    struct cq *cq = cq_create(4, (struct cq_port){0});
    struct cqe cqe;
    for (unsigned i = 0; i < 4; i++) {
        assert_true(cq_push(cq, &(struct cqe){.wr_id = i}));
    }
    memory_fail_at(1);
    assert_int_equal(cq_resize(cq, 64), -ENOMEM);
    memory_fail_at(0);
    assert_true(cq_check(cq));
    assert_int_equal(cq_resize(cq, 64), 0);
    assert_true(cq_push(cq, &(struct cqe){.wr_id = 4}));
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(cq_poll(cq, &cqe, 1), 1);
        assert_int_equal(cqe.wr_id, i);
    }
    cq_destroy(cq);
    assert_int_equal(memory_blocks, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_is_made_whole_or_not_at_all),
        cmocka_unit_test(queue_that_cannot_be_resized_keeps_what_is_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
