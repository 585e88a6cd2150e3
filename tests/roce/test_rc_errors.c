// What ends work requests and connections: silence, refusals, answers that are none, memory that
// goes. Time is virtual.
#include "tests/roce/rc_end.h"
#include "wire/psn.h"

enum { PMTU = 256, REMOTE_KEY = 0x1234, TIMEOUT = 10, RETRIES = 3 };

static const uint64_t remote = 0x100000;
static const duration_ns timeout_ns = 4096ULL << TIMEOUT;

static void drop_all(struct rc_end *e)
{
    e->first = e->count = 0;
}

static void expect_over(struct rc_end *e, uint64_t wr_id, uint32_t status)
{
    rc_end_completed(e->send_cq, wr_id, status);
    assert_int_equal(rc_end_state(e), QP_ERR);
    rc_end_post(e, 99, WQE_SEND, 0, 4, 0, 0);
    rc_end_completed(e->send_cq, 99, WC_WR_FLUSH_ERR);
    assert_true(e->t->ops->next_deadline(e->t) == INSTANT_NEVER);
}

static struct rc_end *open_patient(void)
{
    return rc_end_open(&(struct rc_end_options){
        .pmtu = PMTU, .timeout = TIMEOUT, .retry_count = RETRIES, .rnr_retry_count = 2});
}

/* ---- silence --------------------------------------------------------------------------------- */

// How long it waits each time: InfiniBand allows four times the time-out.
static const unsigned patience[RETRIES + 1] = {1, 2, 4, 4};
static const duration_ns patience_ns = (1 + 2 + 4 + 4) * (4096ULL << TIMEOUT);

static void silence_ends_it_after_so_many_times(void **state)
{
    struct rc_end *e = open_patient();
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    rc_end_post(e, 2, WQE_SEND, 0, 4, 0, 0);
    for (unsigned i = 0; i <= RETRIES; i++) {
        rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
        if (i == 0) { // afterwards one at a time
            rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN + 1);
        }
        rc_end_left_none(e);
        rc_end_completed_none(e->send_cq);
        assert_true(e->t->ops->next_deadline(e->t) == e->now + patience[i] * timeout_ns);
        rc_end_wait(e, e->now + patience[i] * timeout_ns);
    }
    rc_end_completed(e->send_cq, 1, WC_RETRY_EXC_ERR);
    expect_over(e, 2, WC_WR_FLUSH_ERR);
    assert_int_equal(rc_end_counters(e)->timeouts, RETRIES + 1);
    rc_end_close(e);
}

static void progress_begins_the_count_anew(void **state)
{
    struct rc_end *e = open_patient();
    rc_end_post(e, 1, WQE_SEND, 0, 20 * PMTU, 0, 0);
    for (unsigned i = 0; i < 19; i++) {
        rc_end_wait(e, e->now + patience_ns - 1);
        rc_end_take_ack(e, RC_END_PSN + i, AETH_SYNDROME_ACK);
        drop_all(e);
    }
    assert_int_equal(rc_end_state(e), QP_RTS);
    rc_end_wait(e, e->now + patience_ns);
    expect_over(e, 1, WC_RETRY_EXC_ERR);
    rc_end_close(e);
}

static void expect_patience(uint8_t timeout, duration_ns expected_ns)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){
        .pmtu = PMTU, .timeout = timeout, .ack_timeout_min_ns = timeout_ns});
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    assert_true(e->t->ops->next_deadline(e->t) ==
                (expected_ns == 0 ? INSTANT_NEVER : e->now + expected_ns));
    rc_end_close(e);
}

static void it_waits_no_less_than_the_device_needs(void **state)
{
    expect_patience(1, timeout_ns);
    expect_patience(TIMEOUT, timeout_ns);
    expect_patience(TIMEOUT + 1, 2 * timeout_ns);
    expect_patience(0, 0); // for ever
}

static void with_timeout_zero_it_waits_for_ever(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    assert_true(e->t->ops->next_deadline(e->t) == INSTANT_NEVER);
    rc_end_close(e);
}

static void nothing_is_waited_for_when_all_is_acknowledged(void **state)
{
    struct rc_end *e = open_patient();
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    assert_true(e->t->ops->next_deadline(e->t) != INSTANT_NEVER);
    rc_end_take_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    assert_true(e->t->ops->next_deadline(e->t) == INSTANT_NEVER);
    rc_end_close(e);
}

/* ---- a peer without a receive ---------------------------------------------------------------- */

static void a_peer_that_is_not_ready_says_when(void **state)
{
    struct rc_end *e = open_patient();
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    drop_all(e);
    rc_end_take_ack(e, RC_END_PSN, 0x20 | 14); // 1 ms
    rc_end_post(e, 2, WQE_SEND, 0, 4, 0, 0);
    rc_end_wait(e, e->now + aeth_rnr_timer_ns(14) - 1);
    rc_end_left_none(e);
    rc_end_take_ack(e, RC_END_PSN, 0x20 | 14); // the net has it twice
    rc_end_wait(e, e->now + 1);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN + 1);
    assert_int_equal(rc_end_counters(e)->not_ready_in, 1);
    rc_end_close(e);
}

static void it_is_asked_so_many_times(void **state)
{
    struct rc_end *e = open_patient();
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    for (unsigned i = 0; i < 2; i++) {
        rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
        rc_end_take_ack(e, RC_END_PSN, 0x21);
        rc_end_wait(e, e->now + aeth_rnr_timer_ns(1));
    }
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_take_ack(e, RC_END_PSN, 0x21);
    expect_over(e, 1, WC_RNR_RETRY_EXC_ERR);
    rc_end_close(e);
}

static void seven_times_is_for_ever(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){
        .pmtu = PMTU, .timeout = TIMEOUT, .retry_count = 0, .rnr_retry_count = 7});
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    for (unsigned i = 0; i < 100; i++) {
        rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
        rc_end_take_ack(e, RC_END_PSN, 0x21);
        rc_end_wait(e, e->now + aeth_rnr_timer_ns(1));
    }
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_take_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_close(e);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void each_code_of_a_refusal_has_its_status(void **state)
{
    static const struct {
        uint8_t syndrome;
        enum wc_status status;
    } codes[] = {
        {0x61, WC_REM_INV_REQ_ERR},
        {0x62, WC_REM_ACCESS_ERR},
        {0x63, WC_REM_OP_ERR},
        {0x64, WC_REM_INV_REQ_ERR},
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct rc_end *e = open_patient();
        rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
        rc_end_post(e, 2, WQE_SEND, 0, 3 * PMTU, 0, 0);
        rc_end_post(e, 3, WQE_SEND, 0, 4, 0, 0);
        rc_end_take_ack(e, RC_END_PSN + 2, codes[i].syndrome);
        rc_end_completed(e->send_cq, 1, WC_SUCCESS);
        struct cqe cqe;
        assert_int_equal(cq_poll(e->send_cq, &cqe, 1), 1);
        assert_int_equal(cqe.status, codes[i].status);
        assert_int_equal(cqe.vendor_err, codes[i].syndrome);
        expect_over(e, 3, WC_WR_FLUSH_ERR);
        rc_end_close(e);
    }
}

static void answer_read(struct rc_end *e, uint8_t operation, uint32_t psn, size_t len)
{
    static const uint8_t octets[2 * PMTU];
    struct roce_packet p = rc_end_make(operation, psn);
    p.aeth.syndrome = AETH_SYNDROME_ACK;
    rc_end_take(e, &p, octets, len);
}

// Its answer was lost, and the peer goes on to give it: it is asked for before the refusal counts.
static void a_read_before_what_is_refused_is_answered_first(void **state)
{
    struct rc_end *e = open_patient();
    rc_end_post(e, 1, WQE_RDMA_READ, 0, 4, remote, REMOTE_KEY);
    rc_end_post(e, 2, WQE_RDMA_WRITE, 0, 4, remote, REMOTE_KEY);
    rc_end_post(e, 3, WQE_RDMA_WRITE, 0, 4, remote, REMOTE_KEY);
    drop_all(e);
    rc_end_take_ack(e, RC_END_PSN + 2, 0x62);
    rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN);
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 1);
    rc_end_left_none(e); // what is refused does not leave again
    answer_read(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN, 4);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_take_ack(e, RC_END_PSN + 2, 0x62);
    rc_end_completed(e->send_cq, 2, WC_SUCCESS);
    expect_over(e, 3, WC_REM_ACCESS_ERR);
    rc_end_close(e);
}

// A peer that says no more after it has refused: the refusal is still the reason.
static void who_refuses_and_falls_silent_has_refused(void **state)
{
    struct rc_end *e = open_patient();
    rc_end_post(e, 1, WQE_RDMA_READ, 0, 4, remote, REMOTE_KEY);
    rc_end_post(e, 2, WQE_RDMA_WRITE, 0, 4, remote, REMOTE_KEY);
    rc_end_take_ack(e, RC_END_PSN + 1, 0x62);
    rc_end_wait(e, e->now + patience_ns);
    rc_end_completed(e->send_cq, 1, WC_WR_FLUSH_ERR);
    expect_over(e, 2, WC_REM_ACCESS_ERR);
    rc_end_close(e);
}

/* ---- answers that are none ------------------------------------------------------------------- */

static void an_answer_that_does_not_fit_ends_it(void **state)
{
    static const struct {
        uint8_t operation;
        size_t len;
    } wrong[] = {
        {ROCE_READ_RESPONSE_ONLY, PMTU},      // there is more
        {ROCE_READ_RESPONSE_LAST, PMTU},      // likewise
        {ROCE_READ_RESPONSE_FIRST, PMTU - 4}, // shorter
        {ROCE_READ_RESPONSE_FIRST, PMTU + 4}, // longer
        {ROCE_READ_RESPONSE_MIDDLE, 0},       // nothing
        {ROCE_ATOMIC_ACKNOWLEDGE, 0},         // of something else
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct rc_end *e = open_patient();
        rc_end_post(e, 1, WQE_RDMA_READ, 0, 3 * PMTU, remote, REMOTE_KEY);
        answer_read(e, wrong[i].operation, RC_END_PSN, wrong[i].len);
        expect_over(e, 1, WC_BAD_RESP_ERR);
        rc_end_close(e);
    }
}

static void answers_to_what_was_never_sent_are_dropped(void **state)
{
    struct rc_end *e = open_patient();
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    rc_end_take_ack(e, RC_END_PSN + 1, AETH_SYNDROME_ACK);
    rc_end_take_ack(e, RC_END_PSN + 1, 0x62);
    rc_end_take_ack(e, RC_END_PSN + 1, 0x21);
    rc_end_take_ack(e, RC_END_PSN + 2, 0x60);
    rc_end_take_ack(e, RC_END_PSN, 0x40); // of no known kind
    rc_end_take_ack(e, RC_END_PSN, 0x65); // of no known code
    answer_read(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN + 3, 4);
    assert_int_equal(rc_end_counters(e)->dropped_strange_answer, 7);
    rc_end_take_ack(e, RC_END_PSN - 1, AETH_SYNDROME_ACK);
    assert_int_equal(rc_end_counters(e)->dropped_old_answer, 1);
    rc_end_completed_none(e->send_cq);
    rc_end_take_ack(e, RC_END_PSN + 1, 0x60); // all of it was there
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_close(e);
}

static void a_read_into_memory_that_went_ends_it(void **state)
{
    struct rc_end *e = open_patient();
    rc_end_post(e, 1, WQE_RDMA_READ, 0, 4, remote, REMOTE_KEY);
    assert_int_equal(mem_region_deregister(e->mem, e->key), 0);
    answer_read(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN, 4);
    expect_over(e, 1, WC_LOC_PROT_ERR);
    rc_end_close(e);
}

// Looked at again, it is not there any more.
static void a_send_whose_memory_went_before_it_left_again_ends_it(void **state)
{
    struct rc_end *e = open_patient();
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    assert_int_equal(mem_region_deregister(e->mem, e->key), 0);
    rc_end_wait(e, e->now + timeout_ns);
    expect_over(e, 1, WC_LOC_PROT_ERR);
    rc_end_close(e);
}

/* ---- the program's side ---------------------------------------------------------------------- */

static void a_full_completion_queue_ends_it(void **state)
{
    struct rc_end *e = open_patient();
    for (unsigned i = 0; i < 600 && rc_end_state(e) == QP_RTS; i++) {
        rc_end_post(e, i, WQE_SEND, 0, 0, 0, 0);
        rc_end_take_ack(e, RC_END_PSN + i, AETH_SYNDROME_ACK);
        drop_all(e);
    }
    assert_int_equal(rc_end_state(e), QP_ERR);
    assert_int_equal(e->events[QP_EVENT_FATAL], 1);
    rc_end_close(e);
}

static void the_last_entry_of_a_shared_queue_is_told(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.has_srq = true});
    rc_end_post_receive(e, 7, 0, 1000);
    struct roce_packet p = rc_end_make(ROCE_SEND_FIRST, RC_END_PSN);
    uint8_t octets[PMTU] = {0};
    rc_end_take(e, &p, octets, PMTU); // it has claimed it
    rc_end_modify(e, QP_ERR);
    assert_int_equal(e->events[QP_EVENT_LAST_WQE_REACHED], 1);
    rc_end_completed(e->recv_cq, 7, WC_WR_FLUSH_ERR);
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_ends_it_after_so_many_times),
        cmocka_unit_test(progress_begins_the_count_anew),
        cmocka_unit_test(it_waits_no_less_than_the_device_needs),
        cmocka_unit_test(with_timeout_zero_it_waits_for_ever),
        cmocka_unit_test(nothing_is_waited_for_when_all_is_acknowledged),
        cmocka_unit_test(a_peer_that_is_not_ready_says_when),
        cmocka_unit_test(it_is_asked_so_many_times),
        cmocka_unit_test(seven_times_is_for_ever),
        cmocka_unit_test(each_code_of_a_refusal_has_its_status),
        cmocka_unit_test(a_read_before_what_is_refused_is_answered_first),
        cmocka_unit_test(who_refuses_and_falls_silent_has_refused),
        cmocka_unit_test(an_answer_that_does_not_fit_ends_it),
        cmocka_unit_test(answers_to_what_was_never_sent_are_dropped),
        cmocka_unit_test(a_read_into_memory_that_went_ends_it),
        cmocka_unit_test(a_send_whose_memory_went_before_it_left_again_ends_it),
        cmocka_unit_test(a_full_completion_queue_ends_it),
        cmocka_unit_test(the_last_entry_of_a_shared_queue_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
