// Every operation of the verbs between two queue pairs of one process.
#include <errno.h>
#include <poll.h>

#include <weft/oneshot.h>
#include <weft/reads.h>

#include "tests/verbs/pair.h"

enum { LEN = 1024 };

static struct pair pair;

static int setup(void **state)
{
    pair_init(&pair);
    pair_connect(&pair);
    for (int i = 0; i < LEN; i++) {
        pair.a.buf[i] = (uint8_t)(i * 7 + 1);
    }
    *state = &pair;
    return 0;
}

static int teardown(void **state)
{
    pair_fini(*state);
    return 0;
}

static void expect_payload(const uint8_t *buf, uint32_t len)
{
    assert_memory_equal(buf, pair.a.buf, len);
}

static struct ibv_send_wr to_peer(enum ibv_wr_opcode opcode, const struct bench *peer)
{
    struct ibv_send_wr wr = {.wr_id = 42, .opcode = opcode};
    wr.wr.rdma.remote_addr = (uintptr_t)peer->buf;
    wr.wr.rdma.rkey = peer->mr->rkey;
    return wr;
}

static void send_fills_the_posted_receive(void **state)
{
    struct pair *p = *state;
    pair_post_recv(&p->b, 7, 0, LEN);
    pair_post_send(&p->a, (struct ibv_send_wr){.opcode = IBV_WR_SEND}, bench_sge(&p->a, 0, LEN));
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.wr_id, 7);
    assert_int_equal(wc.byte_len, LEN);
    assert_int_equal(wc.qp_num, p->b.qp->qp_num);
    expect_payload(p->b.buf, LEN);
}

// Inline data may be overwritten as soon as the call returns, and needs no key.
static void inline_data_is_taken_at_the_call(void **state)
{
    struct pair *p = *state;
    char text[] = "hello";
    struct ibv_sge sge = {.addr = (uintptr_t)text, .length = sizeof text};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1},
                       *bad;
    assert_int_equal(ibv_post_send(p->a.qp, &wr, &bad), 0);
    memset(text, 0, sizeof text);
    pair_post_recv(&p->b, 1, 0, LEN);
    assert_int_equal(bench_poll(p->b.cq).byte_len, sizeof text);
    assert_string_equal((char *)p->b.buf, "hello");
    assert_int_equal(bench_poll(p->a.cq).status, IBV_WC_SUCCESS);
}

static void immediate_data_arrives_with_a_send(void **state)
{
    struct pair *p = *state;
    pair_post_recv(&p->b, 1, 0, LEN);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(0x12345678)};
    pair_post_send(&p->a, wr, bench_sge(&p->a, 0, LEN));
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
    assert_int_equal(ntohl(wc.imm_data), 0x12345678);
    expect_payload(p->b.buf, LEN);
}

static void write_is_silent_at_the_peer(void **state)
{
    struct pair *p = *state;
    struct ibv_wc wc;
    pair_post_send(&p->a, to_peer(IBV_WR_RDMA_WRITE, &p->b), bench_sge(&p->a, 0, LEN));
    pair_post_recv(&p->b, 1, LEN, 8);
    pair_post_send(&p->a, (struct ibv_send_wr){.opcode = IBV_WR_SEND}, bench_sge(&p->a, 0, 8));
    bench_poll(p->b.cq); // the Send; whatever was before it has been placed
    expect_payload(p->b.buf, LEN);
    assert_int_equal(ibv_poll_cq(p->b.cq, 1, &wc), 0);
}

static void write_with_immediate_consumes_a_receive(void **state)
{
    struct pair *p = *state;
    struct ibv_send_wr wr = to_peer(IBV_WR_RDMA_WRITE_WITH_IMM, &p->b);
    wr.imm_data = htonl(99);
    pair_post_recv(&p->b, 5, LEN, 8);
    pair_post_send(&p->a, wr, bench_sge(&p->a, 0, LEN));
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_int_equal(wc.wr_id, 5);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(ntohl(wc.imm_data), 99);
    expect_payload(p->b.buf, LEN);
}

static void read_brings_the_peers_memory(void **state)
{
    struct pair *p = *state;
    struct ibv_wc wc =
        pair_post_send(&p->b, to_peer(IBV_WR_RDMA_READ, &p->a), bench_sge(&p->b, 0, LEN));
    assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
    assert_int_equal(wc.byte_len, LEN);
    expect_payload(p->b.buf, LEN);
}

static void a_read_may_say_that_it_passes_others(void **state)
{
    struct pair *p = *state;
    struct ibv_send_wr wr = to_peer(IBV_WR_RDMA_READ, &p->a);
    wr.send_flags = WEFT_READ_MAY_PASS;
    pair_post_send(&p->b, wr, bench_sge(&p->b, 0, LEN));
    expect_payload(p->b.buf, LEN);
}

static void atomics_change_and_return_the_old_value(void **state)
{
    struct pair *p = *state;
    uint64_t *target = (uint64_t *)(void *)p->b.buf, *result = (uint64_t *)(void *)p->a.buf;
    *target = 100;
    struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};
    wr.wr.atomic.remote_addr = (uintptr_t)target;
    wr.wr.atomic.rkey = p->b.mr->rkey;
    wr.wr.atomic.compare_add = 11;
    assert_int_equal(pair_post_send(&p->a, wr, bench_sge(&p->a, 0, 8)).opcode, IBV_WC_FETCH_ADD);
    assert_int_equal(*result, 100);
    assert_int_equal(*target, 111);
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic.compare_add = 111;
    wr.wr.atomic.swap = 5;
    assert_int_equal(pair_post_send(&p->a, wr, bench_sge(&p->a, 0, 8)).opcode, IBV_WC_COMP_SWAP);
    assert_int_equal(*result, 111);
    assert_int_equal(*target, 5);
}

/* ---- windows --------------------------------------------------------------------------------- */

static void window_of_type_1_admits_and_moves(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = ibv_alloc_mw(p->b.pd, IBV_MW_TYPE_1);
    assert_non_null(mw);
    const uint32_t unbound_rkey = mw->rkey;
    struct ibv_mw_bind bind = {.wr_id = 3,
                               .send_flags = IBV_SEND_SIGNALED,
                               .bind_info = {.mr = p->b.mr,
                                             .addr = (uintptr_t)p->b.buf,
                                             .length = LEN,
                                             .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
    assert_int_equal(ibv_bind_mw(p->b.qp, mw, &bind), 0);
    assert_int_equal(mw->rkey, ibv_inc_rkey(unbound_rkey));
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
    assert_int_equal(wc.wr_id, 3);
    struct ibv_send_wr wr = to_peer(IBV_WR_RDMA_WRITE, &p->b);
    wr.wr.rdma.rkey = mw->rkey;
    pair_post_send(&p->a, wr, bench_sge(&p->a, 0, LEN));
    assert_int_equal(ibv_dereg_mr(p->b.mr), EBUSY); // a window is bound to it
    bind.bind_info = (struct ibv_mw_bind_info){0};
    assert_int_equal(ibv_bind_mw(p->b.qp, mw, &bind), 0);
    assert_int_equal(bench_poll(p->b.cq).status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static uint32_t bind_type_2(struct bench *b, struct ibv_mw *mw)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW};
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = b->mr,
                                                     .addr = (uintptr_t)b->buf,
                                                     .length = LEN,
                                                     .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    pair_post_send(b, wr, (struct ibv_sge){0});
    return wr.bind_mw.rkey;
}

static void window_of_type_2_is_invalidated_by_the_peer(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = ibv_alloc_mw(p->b.pd, IBV_MW_TYPE_2);
    const uint32_t rkey = bind_type_2(&p->b, mw);
    struct ibv_send_wr wr = to_peer(IBV_WR_RDMA_WRITE, &p->b);
    wr.wr.rdma.rkey = rkey;
    pair_post_send(&p->a, wr, bench_sge(&p->a, 0, LEN));
    pair_post_recv(&p->b, 1, LEN, 8);
    wr = (struct ibv_send_wr){.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = rkey};
    pair_post_send(&p->a, wr, (struct ibv_sge){0});
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_true(wc.wc_flags & IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, rkey);
    expect_payload(p->b.buf, LEN);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void window_of_type_2_is_invalidated_locally(void **state)
{
    struct pair *p = *state;
    struct ibv_mw *mw = ibv_alloc_mw(p->b.pd, IBV_MW_TYPE_2);
    const uint32_t rkey = bind_type_2(&p->b, mw);
    struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey};
    assert_int_equal(pair_post_send(&p->b, wr, (struct ibv_sge){0}).opcode, IBV_WC_LOCAL_INV);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* ---- extended completion queue --------------------------------------------------------------- */

static struct ibv_cq_ex *extended;

// The completions of `b` come to an extended queue.
static int setup_extended(void **state)
{
    struct ibv_cq_init_attr_ex init = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS};
    pair_init(&pair);
    assert_int_equal(ibv_destroy_qp(pair.b.qp), 0);
    extended = ibv_create_cq_ex(pair.b.context, &init);
    assert_non_null(extended);
    struct ibv_qp_init_attr attr = bench_qp_attr(ibv_cq_ex_to_cq(extended));
    pair.b.qp = ibv_create_qp(pair.b.pd, &attr);
    assert_non_null(pair.b.qp);
    pair_connect(&pair);
    *state = &pair;
    return 0;
}

static int teardown_extended(void **state)
{
    struct pair *p = *state;
    assert_int_equal(ibv_destroy_qp(p->b.qp), 0);
    p->b.qp = NULL;
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(extended)), 0);
    pair_fini(p);
    return 0;
}

static void every_part_of_a_completion_is_read(void **state)
{
    struct pair *p = *state;
    struct ibv_poll_cq_attr poll_attr = {0};
    pair_post_recv(&p->b, 31, 0, LEN);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(0x12345678)};
    pair_post_send(&p->a, wr, bench_sge(&p->a, 0, 100));
    while (ibv_start_poll(extended, &poll_attr) == ENOENT) {
    }
    assert_int_equal(extended->wr_id, 31);
    assert_int_equal(extended->status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_wc_read_opcode(extended), IBV_WC_RECV);
    assert_int_equal(ibv_wc_read_byte_len(extended), 100);
    assert_int_equal(ibv_wc_read_imm_data(extended), htonl(0x12345678));
    assert_int_equal(ibv_wc_read_wc_flags(extended), IBV_WC_WITH_IMM);
    assert_int_equal(ibv_wc_read_qp_num(extended), p->b.qp->qp_num);
    assert_int_equal(ibv_wc_read_vendor_err(extended), 0);
    assert_int_equal(ibv_wc_read_src_qp(extended), 0);
    assert_int_equal(ibv_wc_read_slid(extended), 0);
    assert_int_equal(ibv_wc_read_sl(extended), 0);
    assert_int_equal(ibv_wc_read_dlid_path_bits(extended), 0);
    ibv_end_poll(extended);
}

// Why a completion failed, in the device's own words, however it is read.
static void failed_completion_says_why_in_both_ways(void **state)
{
    struct pair *p = *state;
    struct ibv_poll_cq_attr poll_attr = {0};
    pair_post_recv(&p->b, 31, 0, 4);
    struct ibv_sge sge = bench_sge(&p->a, 0, 100);
    struct ibv_send_wr *bad,
        wr = {
            .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1};
    assert_int_equal(ibv_post_send(p->a.qp, &wr, &bad), 0);
    while (ibv_start_poll(extended, &poll_attr) == ENOENT) {
    }
    assert_int_equal(extended->status, IBV_WC_LOC_LEN_ERR);
    struct ibv_wc wc;
    assert_int_equal(weft_cq_ex_read_wc(extended, &wc), 0);
    assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
    assert_int_equal(wc.vendor_err, ibv_wc_read_vendor_err(extended));
    ibv_end_poll(extended);
}

// What the peer's Terminate says is more than the status can.
static void what_the_peer_said_of_a_failure_is_in_vendor_err(void **state)
{
    struct pair *p = *state;
    struct ibv_poll_cq_attr poll_attr = {0};
    struct ibv_sge sge = bench_sge(&p->b, 0, 8);
    struct ibv_send_wr *bad,
        wr = {.opcode = IBV_WR_RDMA_READ,
              .send_flags = IBV_SEND_SIGNALED,
              .sg_list = &sge,
              .num_sge = 1,
              .wr.rdma = {.remote_addr = (uintptr_t)p->a.buf, .rkey = p->a.mr->rkey ^ 0x5a5a5a00}};
    struct ibv_wc wc;
    assert_int_equal(ibv_post_send(p->b.qp, &wr, &bad), 0);
    while (ibv_start_poll(extended, &poll_attr) == ENOENT) {
    }
    assert_int_equal(extended->status, IBV_WC_REM_ACCESS_ERR);
    assert_int_not_equal(ibv_wc_read_vendor_err(extended), 0);
    assert_int_equal(weft_cq_ex_read_wc(extended, &wc), 0);
    assert_int_equal(wc.vendor_err, ibv_wc_read_vendor_err(extended));
    ibv_end_poll(extended);
}

/* ---- shared receive queue -------------------------------------------------------------------- */

static struct ibv_srq *shared;

static int setup_shared(void **state)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
    pair_init(&pair);
    assert_int_equal(ibv_destroy_qp(pair.b.qp), 0);
    shared = ibv_create_srq(pair.b.pd, &init);
    assert_non_null(shared);
    struct ibv_qp_init_attr attr = bench_qp_attr(pair.b.cq);
    attr.srq = shared;
    pair.b.qp = ibv_create_qp(pair.b.pd, &attr);
    assert_non_null(pair.b.qp);
    pair_connect(&pair);
    *state = &pair;
    return 0;
}

static int teardown_shared(void **state)
{
    assert_int_equal(ibv_destroy_qp(pair.b.qp), 0);
    pair.b.qp = NULL;
    assert_int_equal(ibv_destroy_srq(shared), 0);
    return teardown(state);
}

static void post_shared(struct pair *p, uint64_t wr_id)
{
    struct ibv_sge sge = bench_sge(&p->b, 0, LEN);
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_srq_recv(shared, &wr, &bad), 0);
}

static void shared_queue_feeds_its_queue_pair(void **state)
{
    struct pair *p = *state;
    post_shared(p, 8);
    pair_post_send(&p->a, (struct ibv_send_wr){.opcode = IBV_WR_SEND}, bench_sge(&p->a, 0, LEN));
    struct ibv_wc wc = bench_poll(p->b.cq);
    assert_int_equal(wc.wr_id, 8);
    assert_int_equal(wc.byte_len, LEN);
    expect_payload(p->b.buf, LEN);
}

// The Send waits; the receive that is posted late finds it.
static void receive_may_be_posted_late(void **state)
{
    struct pair *p = *state;
    pair_post_send(&p->a, (struct ibv_send_wr){.opcode = IBV_WR_SEND}, bench_sge(&p->a, 0, LEN));
    post_shared(p, 9);
    assert_int_equal(bench_poll(p->b.cq).wr_id, 9);
    expect_payload(p->b.buf, LEN);
}

/* ---- errors, events, the end ----------------------------------------------------------------- */

static void wrong_key_ends_the_connection(void **state)
{
    struct pair *p = *state;
    struct ibv_async_event event;
    struct ibv_send_wr wr = to_peer(IBV_WR_RDMA_READ, &p->b), *bad;
    struct ibv_sge sge = bench_sge(&p->a, 0, 8);
    wr.wr.rdma.rkey ^= 0x100;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    assert_int_equal(ibv_post_send(p->a.qp, &wr, &bad), 0);
    assert_int_equal(bench_poll(p->a.cq).status, IBV_WC_REM_ACCESS_ERR);
    PAIR_WAIT(p, p->disconnected_count == 2);
    assert_int_equal(ibv_get_async_event(p->b.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
    assert_ptr_equal(event.element.qp, p->b.qp);
    ibv_ack_async_event(&event);
}

static bool is_readable(int fd)
{
    struct pollfd fds = {.fd = fd, .events = POLLIN};
    return poll(&fds, 1, 0) == 1;
}

static void solicited_only_waits_for_a_solicited_send(void **state)
{
    struct pair *p = *state;
    struct ibv_cq *cq;
    void *context;
    pair_post_recv(&p->b, 1, 0, 8);
    pair_post_recv(&p->b, 2, 8, 8);
    assert_int_equal(ibv_req_notify_cq(p->b.cq, 1), 0);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    pair_post_send(&p->a, wr, bench_sge(&p->a, 0, 8));
    assert_int_equal(bench_poll(p->b.cq).wr_id, 1);
    assert_false(is_readable(p->b.channel->fd));
    wr.send_flags = IBV_SEND_SOLICITED;
    pair_post_send(&p->a, wr, bench_sge(&p->a, 0, 8));
    assert_int_equal(ibv_get_cq_event(p->b.channel, &cq, &context), 0);
    assert_int_equal(bench_poll(p->b.cq).wr_id, 2);
    ibv_ack_cq_events(cq, 1);
}

static void orderly_end_completes_what_was_posted(void **state)
{
    struct pair *p = *state;
    struct ibv_sge sge = bench_sge(&p->a, 0, LEN);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1},
                       *bad;
    pair_post_recv(&p->b, 1, 0, LEN);
    pair_post_recv(&p->b, 2, 0, LEN);
    assert_int_equal(ibv_post_send(p->a.qp, &wr, &bad), 0);
    assert_int_equal(bench_modify(p->a.qp, IBV_QPS_SQD), 0);
    assert_int_equal(bench_poll(p->b.cq).status, IBV_WC_SUCCESS);
    assert_int_equal(bench_poll(p->a.cq).status, IBV_WC_SUCCESS);
    PAIR_WAIT(p, p->disconnected_count == 2);
    assert_int_equal(bench_poll(p->b.cq).status, IBV_WC_WR_FLUSH_ERR);
}

// The program has no more use for the receives: it is not woken for completions that it will not
// find.
static void destroying_a_connected_queue_pair_raises_no_event(void **state)
{
    struct pair *p = *state;
    struct pollfd fd = {.fd = p->b.channel->fd, .events = POLLIN};
    pair_post_recv(&p->b, 1, 0, LEN);
    assert_int_equal(ibv_req_notify_cq(p->b.cq, 0), 0);
    assert_int_equal(ibv_destroy_qp(p->b.qp), 0);
    p->b.qp = NULL;
    assert_int_equal(poll(&fd, 1, 0), 0);
}

static void destroying_a_connected_queue_pair_overruns_no_queue(void **state)
{
    enum { FILLER_COUNT = 4 }; // they fill it
    struct pair *p = *state;
    struct ibv_qp_init_attr attr = bench_qp_attr(p->b.cq);
    struct ibv_qp *fillers[FILLER_COUNT], *connected = p->b.qp;
    struct ibv_wc wc;
    pair_post_recv(&p->b, 1, 0, LEN);
    for (unsigned i = 0; i < FILLER_COUNT; i++) {
        fillers[i] = p->b.qp = ibv_create_qp(p->b.pd, &attr);
        for (unsigned k = 0; k < BENCH_DEPTH; k++) {
            pair_post_recv(&p->b, 2, 0, LEN);
        }
        bench_fail(fillers[i]);
    }
    p->b.qp = NULL;
    assert_int_equal(ibv_destroy_qp(connected), 0);
    for (unsigned i = 0; i < FILLER_COUNT * BENCH_DEPTH; i++) {
        assert_int_equal(ibv_poll_cq(p->b.cq, 1, &wc), 1);
    }
    assert_int_equal(ibv_poll_cq(p->b.cq, 1, &wc), 0);
    for (unsigned i = 0; i < FILLER_COUNT; i++) {
        assert_int_equal(ibv_destroy_qp(fillers[i]), 0);
    }
}

#define CASE(name)          cmocka_unit_test_setup_teardown(name, setup, teardown)
#define CASE_EXTENDED(name) cmocka_unit_test_setup_teardown(name, setup_extended, teardown_extended)
#define CASE_SHARED(name)   cmocka_unit_test_setup_teardown(name, setup_shared, teardown_shared)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(send_fills_the_posted_receive),
        CASE(inline_data_is_taken_at_the_call),
        CASE(immediate_data_arrives_with_a_send),
        CASE(write_is_silent_at_the_peer),
        CASE(write_with_immediate_consumes_a_receive),
        CASE(read_brings_the_peers_memory),
        CASE(a_read_may_say_that_it_passes_others),
        CASE(atomics_change_and_return_the_old_value),
        CASE(window_of_type_1_admits_and_moves),
        CASE(window_of_type_2_is_invalidated_by_the_peer),
        CASE(window_of_type_2_is_invalidated_locally),
        CASE_EXTENDED(every_part_of_a_completion_is_read),
        CASE_EXTENDED(failed_completion_says_why_in_both_ways),
        CASE_EXTENDED(what_the_peer_said_of_a_failure_is_in_vendor_err),
        CASE_SHARED(shared_queue_feeds_its_queue_pair),
        CASE_SHARED(receive_may_be_posted_late),
        CASE(wrong_key_ends_the_connection),
        CASE(solicited_only_waits_for_a_solicited_send),
        CASE(orderly_end_completes_what_was_posted),
        CASE(destroying_a_connected_queue_pair_raises_no_event),
        CASE(destroying_a_connected_queue_pair_overruns_no_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
