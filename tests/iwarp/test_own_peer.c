// A queue pair whose stream leads back to itself: it works like any other, and what it refuses it
// hears of at once, for there is nobody else to be told.
#include "tests/iwarp/pair.h"

static const struct qp_stream own_stream = {
    .mulpdu = 1000,
    .ird = 4,
    .ord = 4,
    .is_initiator = true,
    .may_send = true,
    .peer_is_weft = true,
    .is_own_peer = true,
    .choices = {.kind = EXTENSION_CHOICES},
};

static struct pair *open_own(void)
{
    struct pair *p = pair_open(&(struct pair_options){.is_unconnected = true});
    qp_on_established(p->a.qp, &own_stream, p->now);
    return p;
}

// What a puts arrives at a.
static void run_own(struct pair *p)
{
    while (pair_output(p, &p->a)) {
        while (pair_hand(p, &p->a)) {
            struct unit_queue *q = &p->a.stream;
            struct unit *u = q->units[(q->head + q->count - 1) % PAIR_UNIT_MAX];
            pair_inject(p, &p->a, u->octets, u->len);
        }
    }
}

static void post_to_itself(struct pair *p, uint64_t wr_id, enum wqe_opcode opcode, size_t offset,
                           uint32_t len, size_t remote)
{
    struct send_wqe *wqe = pair_send_slot(&p->a, wr_id, opcode, WQE_SIGNALED);
    pair_set_sge(&p->a, wqe, offset, len);
    wqe->remote_addr = (uintptr_t)p->a.memory + remote;
    wqe->rkey = p->a.stag;
    pair_post(p, &p->a);
}

// Neither the choices, which both ends know, nor an indication that it is ready.
static void nothing_is_told_to_oneself(void **state)
{
    struct pair *p = open_own();
    assert_int_equal(qp_state_of(p->a.qp), QP_RTS);
    assert_false(qp_has_output(p->a.qp));
    assert_false(pair_output(p, &p->a));
    pair_close(p);
}

static void octets_and_messages_come_back(void **state)
{
    struct pair *p = open_own();
    pair_fill(&p->a, 0, 3000, 1);
    post_to_itself(p, 1, WQE_RDMA_WRITE, 0, 3000, 8000);
    post_to_itself(p, 2, WQE_RDMA_READ, 16000, 3000, 8000);
    run_own(p);
    pair_expect_filled(&p->a, 16000, 3000, 1);
    pair_post_receive(p, &p->a, 70, 24000, 3000);
    struct send_wqe *wqe = pair_send_slot(&p->a, 3, WQE_SEND_WITH_IMM, WQE_SIGNALED);
    pair_set_sge(&p->a, wqe, 0, 3000);
    wqe->imm_or_inv = 99; // the extensions are agreed
    pair_post(p, &p->a);
    run_own(p);
    pair_expect_filled(&p->a, 24000, 3000, 1);
    assert_int_equal(pair_poll(p->a.recv_cq).imm_data, 99);
    for (unsigned i = 1; i <= 3; i++) {
        pair_expect(p->a.send_cq, i, WC_SUCCESS);
    }
    pair_close(p);
}

static void expect_over(struct pair *p)
{
    bool abort;
    assert_int_equal(qp_state_of(p->a.qp), QP_ERR);
    assert_int_equal(qp_stream_state(p->a.qp), QP_STREAM_ERROR);
    assert_false(qp_has_output(p->a.qp));
    assert_true(qp_wants_close(p->a.qp, &abort));
    assert_int_equal(qp_next_deadline(p->a.qp), INSTANT_NEVER);
}

// The work request that was refused is the one that fails, as if a Terminate had named it.
static void what_it_refuses_itself_fails_the_work_request(void **state)
{
    struct pair *p = open_own();
    post_to_itself(p, 1, WQE_RDMA_READ, 0, 64, PAIR_MEMORY_LEN);
    post_to_itself(p, 2, WQE_RDMA_READ, 0, 64, 0);
    run_own(p);
    pair_expect(p->a.send_cq, 1, WC_REM_ACCESS_ERR);
    pair_expect(p->a.send_cq, 2, WC_WR_FLUSH_ERR);
    assert_int_equal(p->a.event_count[QP_EVENT_ACCESS_ERR], 1);
    assert_int_equal(p->a.event_count[QP_EVENT_FATAL], 0); // the completion tells
    const struct qp_counters *counters = qp_counters(p->a.qp);
    assert_int_equal(counters->terminates_out[TERM_RDMAP_BOUNDS], 1);
    assert_int_equal(counters->terminates_in[TERM_RDMAP_BOUNDS], 1);
    expect_over(p);
    pair_close(p);
}

// What failed before it left has its own status, which no Terminate changes.
static void what_failed_before_it_left_keeps_its_status(void **state)
{
    struct pair *p = open_own();
    struct send_wqe *wqe = pair_send_slot(&p->a, 1, WQE_RDMA_WRITE, 0);
    pair_set_sge(&p->a, wqe, 0, 64);
    wqe->sge[0].lkey = p->a.stag + 1;
    wqe->remote_addr = (uintptr_t)p->a.memory;
    wqe->rkey = p->a.stag;
    pair_post(p, &p->a);
    post_to_itself(p, 2, WQE_RDMA_READ, 0, 64, 0);
    run_own(p);
    assert_int_equal(p->a.position, 0); // nothing left
    pair_expect(p->a.send_cq, 1, WC_LOC_PROT_ERR);
    pair_expect(p->a.send_cq, 2, WC_WR_FLUSH_ERR);
    for (unsigned cause = 0; cause < TERM_CAUSE_COUNT; cause++) {
        assert_int_equal(qp_counters(p->a.qp)->terminates_in[cause], 0);
    }
    for (unsigned event = 0; event < QP_EVENT_COUNT; event++) {
        assert_int_equal(p->a.event_count[event], 0);
    }
    assert_null(qp_terminate_received(p->a.qp));
    expect_over(p);
    pair_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_told_to_oneself),
        cmocka_unit_test(octets_and_messages_come_back),
        cmocka_unit_test(what_it_refuses_itself_fails_the_work_request),
        cmocka_unit_test(what_failed_before_it_left_keeps_its_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
