// What work requests, binds and destructions come to, as tables, on queue pairs that were connected
// by rdma_cm and on such that ibv_modify_qp told their peer: on the iWARP device, and, with the
// argument `roce`, on that of packets. docs/verbs.md has it for readers.
#include <errno.h>
#include <stdlib.h>

#include "tests/cm/loopback.h"
#include "tests/verbs/roce.h"

enum { LEN = 64, FULL = 0xf | IBV_ACCESS_MW_BIND };

struct side {
    struct ibv_qp *qp;
    struct ibv_mr *mr;   // of buf, all rights
    struct ibv_mr *poor; // of buf, no right but that of the owner to read
    _Alignas(8) uint8_t buf[4 * LEN];
};

static bool is_roce;
static struct loopback loopback;
static struct bench bench;
static struct ibv_qp *peer;
static struct side a, b; // a asks

/* ---- the two ways to a connection ------------------------------------------------------------ */

static void side_init(struct side *s, struct ibv_qp *qp)
{
    s->qp = qp;
    s->mr = ibv_reg_mr(qp->pd, s->buf, sizeof s->buf, FULL);
    s->poor = ibv_reg_mr(qp->pd, s->buf, sizeof s->buf, 0);
    assert_non_null(s->mr);
    assert_non_null(s->poor);
}

static void side_fini(struct side *s)
{
    assert_int_equal(ibv_dereg_mr(s->mr), 0);
    assert_int_equal(ibv_dereg_mr(s->poor), 0);
}

static void connect_by_cm(void)
{
    memset(&loopback, 0, sizeof loopback);
    loopback_open(&loopback);
    side_init(&a, loopback.active.id->qp);
    side_init(&b, loopback.passive->qp);
}

static void disconnect_by_cm(void)
{
    side_fini(&a);
    side_fini(&b);
    loopback_close(&loopback);
}

static void tell(struct ibv_qp *qp, uint32_t peer_num)
{
    union ibv_gid gid;
    assert_int_equal(ibv_query_gid(bench.context, 1, 0, &gid), 0);
    struct ibv_qp_attr attr = {
        .port_num = 1,
        .qp_access_flags = 0xf,
        .path_mtu = IBV_MTU_1024,
        .max_dest_rd_atomic = 1,
        .max_rd_atomic = 1,
        .dest_qp_num = peer_num,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}},
    };
    const int masks[] = {
        [IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        [IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
        [IBV_QPS_RTS] = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC,
    };
    for (enum ibv_qp_state to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++) {
        attr.qp_state = to;
        assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | masks[to]), 0);
    }
}

static void connect_by_modify(void)
{
    bench_init(&bench);
    struct ibv_qp_init_attr attr = bench_qp_attr(bench.cq);
    attr.send_cq = attr.recv_cq = ibv_create_cq(bench.context, 64, NULL, NULL, 0);
    peer = ibv_create_qp(bench.pd, &attr);
    assert_non_null(peer);
    tell(bench.qp, peer->qp_num);
    tell(peer, bench.qp->qp_num);
    side_init(&a, bench.qp);
    side_init(&b, peer);
}

static void disconnect_by_modify(void)
{
    struct ibv_cq *cq = peer->send_cq;
    side_fini(&a);
    side_fini(&b);
    assert_int_equal(ibv_destroy_qp(peer), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    bench_fini(&bench);
}

static const struct door {
    const char *name;
    void (*connect)(void), (*disconnect)(void);
} doors[] = {
    {"rdma_cm", connect_by_cm, disconnect_by_cm},
    {"ibv_modify_qp", connect_by_modify, disconnect_by_modify},
};
enum { DOOR_COUNT = sizeof doors / sizeof doors[0] };

/* ---- work requests --------------------------------------------------------------------------- */

enum fault {
    SOUND,
    REMOTE_KEY,    // names nothing
    REMOTE_RANGE,  // leaves the region
    REMOTE_RIGHT,  // the region gives the peer none
    UNALIGNED,     // remote address
    LOCAL_KEY,     // names nothing
    RECEIVE_SHORT, // shorter than the message
    RECEIVE_KEY,   // names nothing
    RECEIVE_LONG,  // ends beyond its region, the message does not
};

enum { NONE = -1 };

// `status`: of the asker's completion; `received`: of the peer's; `event`: at the peer.
static const struct work {
    enum ibv_wr_opcode opcode;
    enum fault fault;
    enum ibv_wc_status status;
    int received, event;
} works[] = {
    {IBV_WR_SEND, SOUND, IBV_WC_SUCCESS, IBV_WC_SUCCESS, NONE},
    {IBV_WR_SEND, LOCAL_KEY, IBV_WC_LOC_PROT_ERR, NONE, NONE},
    {IBV_WR_SEND, RECEIVE_SHORT, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR, NONE},
    {IBV_WR_SEND, RECEIVE_KEY, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR, NONE},
    {IBV_WR_SEND, RECEIVE_LONG, IBV_WC_SUCCESS, IBV_WC_SUCCESS, NONE},
    {IBV_WR_RDMA_WRITE, SOUND, IBV_WC_SUCCESS, NONE, NONE},
    {IBV_WR_RDMA_WRITE, LOCAL_KEY, IBV_WC_LOC_PROT_ERR, NONE, NONE},
    {IBV_WR_RDMA_WRITE, REMOTE_KEY, IBV_WC_REM_ACCESS_ERR, NONE, IBV_EVENT_QP_ACCESS_ERR},
    {IBV_WR_RDMA_WRITE, REMOTE_RANGE, IBV_WC_REM_ACCESS_ERR, NONE, IBV_EVENT_QP_ACCESS_ERR},
    {IBV_WR_RDMA_WRITE, REMOTE_RIGHT, IBV_WC_REM_ACCESS_ERR, NONE, IBV_EVENT_QP_ACCESS_ERR},
    {IBV_WR_RDMA_READ, SOUND, IBV_WC_SUCCESS, NONE, NONE},
    {IBV_WR_RDMA_READ, LOCAL_KEY, IBV_WC_LOC_PROT_ERR, NONE, NONE},
    {IBV_WR_RDMA_READ, REMOTE_KEY, IBV_WC_REM_ACCESS_ERR, NONE, IBV_EVENT_QP_ACCESS_ERR},
    {IBV_WR_RDMA_READ, REMOTE_RANGE, IBV_WC_REM_ACCESS_ERR, NONE, IBV_EVENT_QP_ACCESS_ERR},
    {IBV_WR_RDMA_READ, REMOTE_RIGHT, IBV_WC_REM_ACCESS_ERR, NONE, IBV_EVENT_QP_ACCESS_ERR},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, SOUND, IBV_WC_SUCCESS, NONE, NONE},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, REMOTE_KEY, IBV_WC_REM_ACCESS_ERR, NONE, IBV_EVENT_QP_ACCESS_ERR},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, REMOTE_RIGHT, IBV_WC_REM_ACCESS_ERR, NONE,
     IBV_EVENT_QP_ACCESS_ERR},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, UNALIGNED, IBV_WC_REM_INV_REQ_ERR, NONE, IBV_EVENT_QP_REQ_ERR},
    {IBV_WR_ATOMIC_CMP_AND_SWP, SOUND, IBV_WC_SUCCESS, NONE, NONE},
    {IBV_WR_ATOMIC_CMP_AND_SWP, UNALIGNED, IBV_WC_REM_INV_REQ_ERR, NONE, IBV_EVENT_QP_REQ_ERR},
};
enum { WORK_COUNT = sizeof works / sizeof works[0] };

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

static void post_receive(enum fault fault)
{
    struct ibv_sge sge = {.addr = (uintptr_t)b.buf,
                          .length = fault == RECEIVE_SHORT  ? LEN - 1
                                    : fault == RECEIVE_LONG ? sizeof b.buf + 1
                                                            : LEN,
                          .lkey = fault == RECEIVE_KEY ? ~b.mr->lkey : b.mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_recv(b.qp, &wr, &bad), 0);
}

static enum ibv_wc_status ask(enum ibv_wr_opcode opcode, enum fault fault)
{
    const bool is_atomic =
        opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    const uint64_t at = (uintptr_t)b.buf + (fault == REMOTE_RANGE ? sizeof b.buf - 1
                                            : fault == UNALIGNED  ? 4
                                                                  : 0);
    const uint32_t rkey = fault == REMOTE_KEY     ? ~b.mr->rkey
                          : fault == REMOTE_RIGHT ? b.poor->rkey
                                                  : b.mr->rkey;
    struct ibv_sge sge = {.addr = (uintptr_t)a.buf,
                          .length = is_atomic ? 8 : LEN,
                          .lkey = fault == LOCAL_KEY ? ~a.mr->lkey : a.mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 2,
                             .opcode = opcode,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    if (is_atomic) {
        wr.wr.atomic.remote_addr = at;
        wr.wr.atomic.rkey = rkey;
    } else {
        wr.wr.rdma.remote_addr = at;
        wr.wr.rdma.rkey = rkey;
    }
    assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
    struct ibv_wc wc = bench_poll(a.qp->send_cq);
    assert_int_equal(wc.wr_id, 2);
    return wc.status;
}

static void expect_event(struct ibv_qp *qp, int type)
{
    struct ibv_async_event event;
    do {
        assert_int_equal(ibv_get_async_event(qp->context, &event), 0);
        ibv_ack_async_event(&event);
    } while (event.element.qp != qp || event.event_type == IBV_EVENT_COMM_EST);
    assert_int_equal(event.event_type, type);
}

// A Send or Write is complete when TCP has taken it, which may be before the peer's word comes.
static bool is_as_said(const struct work *w, enum ibv_wc_status status)
{
    const bool is_untold = w->opcode == IBV_WR_SEND || w->opcode == IBV_WR_RDMA_WRITE;
    const bool may_succeed = !is_roce && is_untold && w->fault != LOCAL_KEY;
    return status == w->status || (may_succeed && status == IBV_WC_SUCCESS);
}

static void wait_for_error(struct ibv_qp *qp)
{
    struct ibv_wc wc;
    while (state_of(qp) != IBV_QPS_ERR) {
        ibv_poll_cq(a.qp->send_cq, 1, &wc);
    }
}

// An error ends the connection at both ends; but over packets nobody tells the peer of one that is
// the asker's alone.
static void expect_ends(const struct work *w)
{
    const bool is_sound = w->status == IBV_WC_SUCCESS;
    const bool is_heard = !is_sound && !(is_roce && w->fault == LOCAL_KEY);
    if (!is_sound) {
        wait_for_error(a.qp);
    }
    if (is_heard) {
        wait_for_error(b.qp);
    }
    assert_int_equal(state_of(a.qp), is_sound ? IBV_QPS_RTS : IBV_QPS_ERR);
    assert_int_equal(state_of(b.qp), is_heard ? IBV_QPS_ERR : IBV_QPS_RTS);
    if (!is_sound) {
        assert_int_equal(ask(IBV_WR_RDMA_WRITE, SOUND), IBV_WC_WR_FLUSH_ERR);
    }
}

static void work_requests_come_to_what_the_table_says(void **state)
{
    for (int d = 0; d < DOOR_COUNT; d++) {
        for (int i = 0; i < WORK_COUNT; i++) {
            const struct work *w = &works[i];
            doors[d].connect();
            if (w->opcode == IBV_WR_SEND) {
                post_receive(w->fault);
            }
            enum ibv_wc_status status = ask(w->opcode, w->fault);
            if (!is_as_said(w, status)) {
                fail_msg("%s, row %d: %s", doors[d].name, i, ibv_wc_status_str(status));
            }
            if (w->received != NONE) {
                assert_int_equal(bench_poll(b.qp->recv_cq).status, w->received);
            }
            if (w->event != NONE) {
                expect_event(b.qp, w->event);
            }
            expect_ends(w);
            doors[d].disconnect();
        }
    }
}

// Some post what they have room for: of a place of more than eight octets the first are meant.
static void an_atomic_may_have_room_for_more_than_it_brings(void **state)
{
    for (int d = 0; d < DOOR_COUNT; d++) {
        doors[d].connect();
        const uint64_t before = 41;
        memcpy(b.buf, &before, sizeof before);
        memset(a.buf, 0x5a, sizeof a.buf);
        struct ibv_sge places[] = {
            {.addr = (uintptr_t)a.buf, .length = 5, .lkey = a.mr->lkey},
            {.addr = (uintptr_t)a.buf + 8, .length = LEN, .lkey = a.mr->lkey},
        };
        struct ibv_send_wr wr = {.wr_id = 3,
                                 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                                 .sg_list = &places[1],
                                 .num_sge = 1,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .wr.atomic = {.remote_addr = (uintptr_t)b.buf,
                                               .compare_add = 1,
                                               .rkey = b.mr->rkey}},
                           *bad;
        assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
        struct ibv_wc wc = bench_poll(a.qp->send_cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.byte_len, 8);
        assert_memory_equal(a.buf + 8, &before, sizeof before);
        assert_int_equal(a.buf[16], 0x5a);
        assert_int_equal(b.buf[0], before + 1);
        wr.sg_list = places; // too few
        assert_int_equal(ibv_post_send(a.qp, &wr, &bad), EINVAL);
        doors[d].disconnect();
    }
}

/* ---- windows --------------------------------------------------------------------------------- */

static const struct binding {
    const char *what;
    uint64_t offset, length;
    unsigned rights; // of the window
    unsigned region; // rights of the region
    bool is_bound;   // already
    enum ibv_wc_status status;
} bindings[] = {
    {"all of a region", 0, LEN, IBV_ACCESS_REMOTE_WRITE, FULL, false, IBV_WC_SUCCESS},
    {"its last octet", LEN - 1, 1, IBV_ACCESS_REMOTE_READ, FULL, false, IBV_WC_SUCCESS},
    {"numbered from 0", 0, LEN, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED, FULL, false,
     IBV_WC_SUCCESS},
    {"a region to read", 0, LEN, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_MW_BIND, false, IBV_WC_SUCCESS},
    {"and to write", 0, LEN, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_MW_BIND, false,
     IBV_WC_MW_BIND_ERR},
    {"and for atomics", 0, LEN, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_MW_BIND, false,
     IBV_WC_MW_BIND_ERR},
    {"a region not for windows", 0, LEN, IBV_ACCESS_REMOTE_READ, 0xf, false, IBV_WC_MW_BIND_ERR},
    {"a region numbered from 0", 0, LEN, IBV_ACCESS_REMOTE_READ, FULL | IBV_ACCESS_ZERO_BASED,
     false, IBV_WC_MW_BIND_ERR},
    {"an octet too many", 1, LEN, IBV_ACCESS_REMOTE_READ, FULL, false, IBV_WC_MW_BIND_ERR},
    {"nothing", 0, 0, IBV_ACCESS_REMOTE_READ, FULL, false, IBV_WC_MW_BIND_ERR},
    {"a bound window", 0, LEN, IBV_ACCESS_REMOTE_READ, FULL, true, IBV_WC_MW_BIND_ERR},
};

static enum ibv_wc_status bind_once(struct ibv_mw *mw, struct ibv_mr *mr, const struct binding *row)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = mr,
                                                     .addr = (uintptr_t)a.buf + row->offset,
                                                     .length = row->length,
                                                     .mw_access_flags = row->rights};
    assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
    return bench_poll(a.qp->send_cq).status;
}

static void binds_come_to_what_the_table_says(void **state)
{
    for (int d = 0; d < DOOR_COUNT; d++) {
        for (size_t i = 0; i < sizeof bindings / sizeof bindings[0]; i++) {
            const struct binding *row = &bindings[i];
            doors[d].connect();
            struct ibv_mr *mr = ibv_reg_mr(a.qp->pd, a.buf, LEN, (int)row->region);
            struct ibv_mw *mw = ibv_alloc_mw(a.qp->pd, IBV_MW_TYPE_2);
            assert_non_null(mr);
            if (row->is_bound) {
                assert_int_equal(bind_once(mw, mr, row), IBV_WC_SUCCESS);
            }
            enum ibv_wc_status status = bind_once(mw, mr, row);
            if (status != row->status) {
                fail_msg("%s, %s: %s", doors[d].name, row->what, ibv_wc_status_str(status));
            }
            assert_int_equal(ibv_dealloc_mw(mw), 0);
            assert_int_equal(ibv_dereg_mr(mr), 0);
            doors[d].disconnect();
        }
    }
}

/* ---- what is in use stays -------------------------------------------------------------------- */

static void objects_in_use_are_not_destroyed(void **state)
{
    for (int d = 0; d < DOOR_COUNT; d++) {
        doors[d].connect();
        struct ibv_mw *mw = ibv_alloc_mw(a.qp->pd, IBV_MW_TYPE_2);
        assert_int_equal(bind_once(mw, a.mr, &bindings[0]), IBV_WC_SUCCESS);
        assert_int_equal(ibv_dereg_mr(a.mr), EBUSY);
        assert_int_equal(ibv_dealloc_mw(mw), 0);
        assert_int_equal(ibv_dealloc_pd(a.qp->pd), EBUSY);
        assert_int_equal(ibv_destroy_cq(a.qp->send_cq), EBUSY);
        if (a.qp->send_cq->channel != NULL) {
            assert_int_equal(ibv_destroy_comp_channel(a.qp->send_cq->channel), EBUSY);
        }
        doors[d].disconnect();
    }
}

/* ---- states by the door of rdma_cm ----------------------------------------------------------- */

static void connection_manager_leads_through_the_states(void **state)
{
    struct loopback l = {0};
    loopback_request(&l);
    assert_int_equal(state_of(l.active.id->qp), IBV_QPS_INIT);
    qp_open(l.passive);
    assert_int_equal(state_of(l.passive->qp), IBV_QPS_INIT);
    assert_int_equal(rdma_accept(l.passive, NULL), 0);
    event_take(l.listener.channel, RDMA_CM_EVENT_ESTABLISHED);
    event_take(l.active.channel, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(state_of(l.active.id->qp), IBV_QPS_RTS);
    assert_int_equal(state_of(l.passive->qp), IBV_QPS_RTS);
    assert_int_equal(rdma_disconnect(l.active.id), 0);
    event_take(l.active.channel, RDMA_CM_EVENT_DISCONNECTED);
    event_take(l.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(state_of(l.active.id->qp), IBV_QPS_ERR);
    // The peer's end leaves a queue pair on packets to its program, as Linux does.
    assert_int_equal(state_of(l.passive->qp), is_roce ? IBV_QPS_RTS : IBV_QPS_ERR);
    assert_int_equal(rdma_disconnect(l.passive), 0);
    assert_int_equal(state_of(l.passive->qp), IBV_QPS_ERR);
    loopback_close(&l);
}

int main(int argc, char **argv)
{
    is_roce = argc > 1 && strcmp(argv[1], "roce") == 0;
    if (is_roce) {
        setenv("WEFT_WIRE", "roce", 1);
        roce_port_of_own();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_requests_come_to_what_the_table_says),
        cmocka_unit_test(an_atomic_may_have_room_for_more_than_it_brings),
        cmocka_unit_test(binds_come_to_what_the_table_says),
        cmocka_unit_test(objects_in_use_are_not_destroyed),
        cmocka_unit_test(connection_manager_leads_through_the_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
