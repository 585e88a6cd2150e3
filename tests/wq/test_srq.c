// Shared receive queues: slots wander from the program to queue pairs and back, in any order.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/prng.h"
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
    (void)state;
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
    (void)state;
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
    (void)state;
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
    (void)state;
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
    srq_destroy(srq);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_queue_has_no_slot),
        cmocka_unit_test(several_slots_are_committed_in_order),
        cmocka_unit_test(the_limit_is_reported_once),
        cmocka_unit_test(slots_freed_in_any_order_come_back_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
