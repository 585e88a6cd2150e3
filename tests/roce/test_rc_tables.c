// What the book has as tables, code by code, on virtual time: the timers of an RNR NAK (volume 1,
// table 45), credits (table 46), the Local ACK Timeout (9.7.6.1.3) and both retry counts
// (9.9.2.1). The tables stand here once more, as they are printed.
#include "tests/roce/rc_end.h"
#include "wire/aeth.h"
#include "wq/status.h"

enum { RNR_NAK = 0x20, UNIT_NS = 10 * NS_PER_US, FOR_EVER = 7, MANY = 30 };

static const uint32_t rnr_timers[32] = { // of 0.01 ms
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

static const uint32_t credits[31] = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

static unsigned take_all(struct rc_end *e)
{
    const unsigned count = e->count;
    e->first = e->count = 0;
    return count;
}

static void post_send(struct rc_end *e, uint64_t wr_id)
{
    rc_end_post(e, wr_id, WQE_SEND, 0, 8, 0, 0);
}

/* ---- RNR ------------------------------------------------------------------------------------- */

static void each_timer_of_a_refusal_is_waited_for_to_its_end(void **state)
{
    for (unsigned code = 0; code < 32; code++) {
        struct rc_end *e = rc_end_open(&(struct rc_end_options){.rnr_retry_count = FOR_EVER});
        post_send(e, 1);
        rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
        rc_end_take_ack(e, RC_END_PSN, (uint8_t)(RNR_NAK | code));
        const instant_ns until = e->now + (instant_ns)rnr_timers[code] * UNIT_NS;
        rc_end_wait(e, until - 1);
        rc_end_left_none(e);
        rc_end_wait(e, until);
        rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
        rc_end_close(e);
    }
}

static void each_timer_is_told_as_it_was_set(void **state)
{
    for (unsigned code = 0; code < 32; code++) {
        struct rc_end *e = rc_end_open(&(struct rc_end_options){.min_rnr_timer = (uint8_t)code});
        const struct roce_packet p = rc_end_make(ROCE_SEND_ONLY, RC_END_PSN);
        rc_end_take(e, &p, "hello", 5);
        rc_end_left_ack(e, RC_END_PSN, (uint8_t)(RNR_NAK | code));
        rc_end_close(e);
    }
}

static void a_refusal_is_borne_as_often_as_was_set_and_seven_is_for_ever(void **state)
{
    for (unsigned retries = 0; retries <= FOR_EVER; retries++) {
        struct rc_end *e =
            rc_end_open(&(struct rc_end_options){.rnr_retry_count = (uint8_t)retries});
        unsigned times = 0;
        post_send(e, 1);
        while (take_all(e) == 1 && times < MANY) {
            times++;
            rc_end_take_ack(e, RC_END_PSN, RNR_NAK | 1);
            rc_end_wait(e, e->now + UNIT_NS);
        }
        assert_int_equal(times, retries == FOR_EVER ? MANY : retries + 1);
        if (retries < FOR_EVER) {
            rc_end_completed(e->send_cq, 1, WC_RNR_RETRY_EXC_ERR);
        } else {
            rc_end_completed_none(e->send_cq);
        }
        rc_end_close(e);
    }
}

/* ---- silence --------------------------------------------------------------------------------- */

// InfiniBand allows T to 4 T: here T, 2 T, and 4 T from then on.
static void each_time_out_is_what_its_code_says(void **state)
{
    static const unsigned factors[] = {1, 2, 4, 4};
    for (unsigned code = 1; code < 32; code++) {
        struct rc_end *e = rc_end_open(
            &(struct rc_end_options){.timeout = (uint8_t)code, .retry_count = FOR_EVER});
        post_send(e, 1);
        rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
        for (unsigned i = 0; i < 4; i++) {
            const instant_ns until = e->now + factors[i] * (4096ULL << code);
            rc_end_wait(e, until - 1);
            rc_end_left_none(e);
            rc_end_wait(e, until);
            rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
        }
        rc_end_close(e);
    }
}

static void without_a_time_out_nothing_is_due(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.timeout = 0});
    post_send(e, 1);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    assert_true(e->t->ops->next_deadline(e->t) == INSTANT_NEVER);
    rc_end_close(e);
}

// Seven is seven.
static void silence_is_borne_as_often_as_was_set(void **state)
{
    for (unsigned retries = 0; retries <= FOR_EVER; retries++) {
        struct rc_end *e =
            rc_end_open(&(struct rc_end_options){.timeout = 8, .retry_count = (uint8_t)retries});
        post_send(e, 1);
        rc_end_wait(e, e->now + 100 * NS_PER_S);
        assert_int_equal(take_all(e), retries + 1);
        rc_end_completed(e->send_cq, 1, WC_RETRY_EXC_ERR);
        assert_int_equal(rc_end_state(e), QP_ERR);
        rc_end_close(e);
    }
}

// What was acknowledged in between begins the count anew.
static void who_answers_in_time_is_never_given_up(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.timeout = 8, .retry_count = 1});
    for (uint32_t i = 0; i < 4; i++) {
        post_send(e, i);
        rc_end_wait(e, e->now + (4096ULL << 8));
        assert_int_equal(take_all(e), 2);
        rc_end_take_ack(e, RC_END_PSN + i, AETH_SYNDROME_ACK);
        rc_end_completed(e->send_cq, i, WC_SUCCESS);
    }
    rc_end_close(e);
}

/* ---- credits --------------------------------------------------------------------------------- */

// Told once, by a peer that never says more: two are posted at any time, and how often both leave
// is counted.
static uint32_t sends_that_leave_together(uint8_t code)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.rnr_retry_count = FOR_EVER});
    uint32_t psn = RC_END_PSN, count = 0;
    post_send(e, 0);
    take_all(e);
    rc_end_take_ack(e, psn++, code);
    for (;;) {
        struct cqe cqe;
        while (cq_poll(e->send_cq, &cqe, 1) == 1) {
        }
        for (unsigned i = 0; i < 2; i++) {
            struct send_wqe *wqe = rc_end_slot(e, i, WQE_SEND);
            wqe->sge_count = 0;
            wq_send_commit(rc_wq(e->rc), 1);
        }
        e->t->ops->on_send_posted(e->t, e->now);
        rc_end_output(e);
        const unsigned left = take_all(e);
        if (left < 2 || count > 40000) {
            // One is left of an odd number; or it is the one that asks, without a receive.
            rc_end_close(e);
            return count;
        }
        count += left;
        psn += left;
        rc_end_take_ack(e, psn - 1, 0);
        e->now += NS_PER_MS;
    }
}

static void each_code_of_credits_is_so_many_sends(void **state)
{
    for (unsigned code = 0; code < 31; code++) {
        assert_int_equal(sends_that_leave_together((uint8_t)code), credits[code] & ~1U);
    }
}

static void a_number_of_receives_is_told_by_the_code_below(void **state)
{
    for (unsigned code = 0; code < 31; code++) {
        assert_int_equal(aeth_syndrome_ack(credits[code]), code);
        if (code > 0) {
            assert_int_equal(aeth_syndrome_ack(credits[code] - 1), code - 1);
        }
        assert_int_equal(aeth_credits((uint8_t)code), credits[code]);
    }
    assert_int_equal(aeth_syndrome_ack(UINT32_MAX), 30);
    assert_int_equal(aeth_credits(31), UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_timer_of_a_refusal_is_waited_for_to_its_end),
        cmocka_unit_test(each_timer_is_told_as_it_was_set),
        cmocka_unit_test(a_refusal_is_borne_as_often_as_was_set_and_seven_is_for_ever),
        cmocka_unit_test(each_time_out_is_what_its_code_says),
        cmocka_unit_test(without_a_time_out_nothing_is_due),
        cmocka_unit_test(silence_is_borne_as_often_as_was_set),
        cmocka_unit_test(who_answers_in_time_is_never_given_up),
        cmocka_unit_test(each_code_of_credits_is_so_many_sends),
        cmocka_unit_test(a_number_of_receives_is_told_by_the_code_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
