// Shared receive queues: slots wander from the program to queue pairs and back, in any order.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/prng.h"
#include "base/sge.h"
#include "wq/srq.h"

static void count_limit(void *ctx)
{
    ++*(unsigned *)ctx;
}

static struct srq *make(uint32_t max_wr, unsigned *limits)
{
    struct srq *srq;
    struct srq_config config = {
        .pd = 3, .max_wr = max_wr, .max_sge = 2, .port = {count_limit, limits}};
    assert_int_equal(srq_create(&config, &srq), 0);
    return srq;
}

static void post(struct srq *srq, uint64_t wr_id)
{
    struct recv_wqe *wqe = srq_slot(srq, 0);
    assert_non_null(wqe);
    wqe->wr_id = wr_id;
    wqe->sge_count = 0;
    srq_commit(srq, 1);
}

static void a_full_queue_has_no_slot(void **state)
{
    unsigned limits = 0;
    struct srq *srq = make(3, &limits);
    assert_int_equal(srq_max_wr(srq), 4);
    assert_int_equal(srq_pd(srq), 3);
    assert_null(srq_slot(srq, 4));
    for (unsigned i = 0; i < 4; i++) {
        post(srq, i);
    }
    assert_null(srq_slot(srq, 0));
    struct recv_wqe *wqe = srq_claim(srq);
    assert_null(srq_slot(srq, 0)); // claimed is not free
    srq_free(srq, wqe);
    assert_non_null(srq_slot(srq, 0));
    assert_null(srq_slot(srq, 1));
    assert_true(srq_check(srq));
    srq_destroy(srq);
}

static void several_slots_are_committed_in_order(void **state)
{
    unsigned limits = 0;
    struct srq *srq = make(8, &limits);
    for (unsigned i = 0; i < 3; i++) {
        srq_slot(srq, i)->wr_id = i;
    }
    assert_int_equal(srq_posted_count(srq), 0);
    assert_null(srq_claim(srq));
    srq_commit(srq, 3);
    for (unsigned i = 0; i < 3; i++) {
        struct recv_wqe *wqe = srq_claim(srq);
        assert_int_equal(wqe->wr_id, i);
        srq_free(srq, wqe);
    }
    srq_destroy(srq);
}

static void the_limit_is_reported_once(void **state)
{
    unsigned limits = 0;
    struct srq *srq = make(8, &limits);
    for (unsigned i = 0; i < 4; i++) {
        post(srq, i);
    }
    srq_set_limit(srq, 3);
    assert_int_equal(srq_limit(srq), 3);
    srq_free(srq, srq_claim(srq));
    assert_int_equal(limits, 0);
    srq_free(srq, srq_claim(srq));
    assert_int_equal(limits, 1);
    srq_free(srq, srq_claim(srq));
    assert_int_equal(limits, 1);
    srq_set_limit(srq, 2); // one is posted: at once
    assert_int_equal(limits, 2);
    srq_destroy(srq);
}

static void slots_freed_in_any_order_come_back_once(void **state)
{
    unsigned limits = 0;
    struct srq *srq = make(16, &limits);
    struct recv_wqe *claimed[16];
    unsigned claimed_count = 0;
    uint64_t posted = 0, expected = 0;
    struct prng prng;
    prng_init(&prng, 5);
    for (unsigned i = 0; i < 20000; i++) {
        uint32_t choice = prng_below(&prng, 3);
        if (choice == 0 && srq_slot(srq, 0) != NULL) {
            post(srq, posted++);
        } else if (choice == 1 && srq_posted_count(srq) > 0) {
            claimed[claimed_count] = srq_claim(srq);
            assert_int_equal(claimed[claimed_count]->wr_id, expected++);
            claimed_count++;
        } else if (choice == 2 && claimed_count > 0) {
            unsigned which = prng_below(&prng, claimed_count);
            srq_free(srq, claimed[which]);
            claimed[which] = claimed[--claimed_count];
        }
        assert_true(srq_check(srq));
        assert_true(srq_posted_count(srq) + claimed_count <= 16);
    }
    assert_true(expected > 1000);
    while (srq_posted_count(srq) > 0) {
        claimed[claimed_count++] = srq_claim(srq);
    }
    while (claimed_count > 0) {
        srq_free(srq, claimed[--claimed_count]);
    }
    assert_non_null(srq_slot(srq, 15)); // none is lost
    assert_null(srq_slot(srq, 16));
    srq_destroy(srq);
}

static void a_queue_is_of_a_size_that_there_is(void **state)
{
    static const struct {
        uint32_t max_wr, max_sge;
        int error;
        uint32_t capacity;
    } rows[] = {
        {0, 1, -EINVAL, 0},
        {(1U << 30) + 1, 1, -EINVAL, 0},
        {4, SGE_COUNT_MAX + 1, -EINVAL, 0},
        {1, 0, 0, 1},
        {1, SGE_COUNT_MAX, 0, 1},
        {2, 1, 0, 2},
        {3, 1, 0, 4},
        {4, 1, 0, 4},
        {5, 1, 0, 8},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct srq *srq = NULL;
        const struct srq_config config = {.max_wr = rows[i].max_wr, .max_sge = rows[i].max_sge};
        assert_int_equal(srq_create(&config, &srq), rows[i].error);
        if (rows[i].error == 0) {
            assert_int_equal(srq_max_wr(srq), rows[i].capacity);
            assert_non_null(srq_slot(srq, rows[i].capacity - 1));
            assert_null(srq_slot(srq, rows[i].capacity));
        }
        srq_destroy(srq); // NULL is none
    }
}

// Each slot has room for its elements, at the beginning of a line of the processor's.
static void slots_do_not_overlap(void **state)
{
    for (uint32_t max_sge = 0; max_sge <= SGE_COUNT_MAX; max_sge++) {
        enum { SLOTS = 4, LINE_LEN = 64 };
        struct srq *srq;
        const struct srq_config config = {.max_wr = SLOTS, .max_sge = max_sge};
        const uint8_t *end = NULL;
        assert_int_equal(srq_create(&config, &srq), 0);
        for (unsigned i = 0; i < SLOTS; i++) {
            const struct recv_wqe *wqe = srq_slot(srq, i);
            const uint8_t *begin = (const uint8_t *)wqe;
            assert_int_equal((uintptr_t)begin % LINE_LEN, 0);
            assert_true(end == NULL || begin >= end);
            assert_true(end == NULL || begin - end < LINE_LEN); // and nothing is wasted
            end = (const uint8_t *)&wqe->sge[max_sge];
        }
        srq_destroy(srq);
    }
}

// A slot that nobody has claimed cannot be out.
static void what_is_claimed_and_posted_is_no_more_than_there_is(void **state)
{
    unsigned limits = 0;
    struct srq *srq = make(2, &limits);
    struct recv_wqe *claimed[2];
    for (unsigned i = 0; i < 2; i++) {
        post(srq, i);
        claimed[i] = srq_claim(srq);
        assert_non_null(claimed[i]);
    }
    assert_true(srq_check(srq));
    assert_null(srq_slot(srq, 0));
    srq_commit(srq, 1); // which the program has not got
    assert_false(srq_check(srq));
    srq_destroy(srq);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_queue_has_no_slot),
        cmocka_unit_test(several_slots_are_committed_in_order),
        cmocka_unit_test(the_limit_is_reported_once),
        cmocka_unit_test(a_queue_is_of_a_size_that_there_is),
        cmocka_unit_test(slots_do_not_overlap),
        cmocka_unit_test(what_is_claimed_and_posted_is_no_more_than_there_is),
        cmocka_unit_test(slots_freed_in_any_order_come_back_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
