// Calls of the verbs in any order, with right values and wrong ones, objects of both devices mixed:
// nothing but an errno comes of a wrong one. SEED=n runs that seed alone.
#include "tests/seeds.h"
#include "tests/verbs/any_thing.h"

enum { SEEDS = 6, SEEDS_SOAK = 2000, STEPS = 1500, CHAIN_MAX = 4 };

static unsigned posted, completed; // of all seeds

static void destroy_one(void)
{
    const enum kind kind = below(KIND_COUNT);
    void **slot = &w.things[kind][below(SLOTS)];
    const int error = *slot != NULL ? destroy(kind, *slot) : EBUSY;
    if (error == 0) {
        *slot = NULL;
    } else {
        assert_int_equal(error, EBUSY);
    }
}

/* ---- what changes ---------------------------------------------------------------------------- */

static union ibv_gid any_group(void)
{
    union ibv_gid group = w.gid[any_device()];
    group.raw[12] = 239;
    return group;
}

static struct ibv_qp_attr any_attr(enum ibv_qp_state state)
{
    const struct ibv_qp *peer = any(QUEUE_PAIR);
    return (struct ibv_qp_attr){
        .qp_state = state,
        .cur_qp_state = (enum ibv_qp_state)below(8),
        .path_mtu = (enum ibv_mtu)mostly(1 + below(5)),
        .qkey = mostly(QKEY),
        .rq_psn = mostly(5),
        .sq_psn = mostly(5),
        .dest_qp_num = peer != NULL && !wrong(6) ? peer->qp_num : edge(),
        .qp_access_flags = mostly(EVERYTHING),
        .ah_attr = any_path(),
        .pkey_index = (uint16_t)mostly(0),
        .max_rd_atomic = (uint8_t)mostly_below(17),
        .max_dest_rd_atomic = (uint8_t)mostly_below(17),
        .min_rnr_timer = (uint8_t)below(32),
        .port_num = (uint8_t)mostly(1),
        .timeout = (uint8_t)mostly_below(9),
        .retry_cnt = (uint8_t)below(9),
        .rnr_retry = (uint8_t)below(9),
    };
}

// What IBV_QPS_INIT, _RTR and _RTS want of each kind of queue pair.
static int usual_mask(enum ibv_qp_type type, enum ibv_qp_state state)
{
    static const int of_datagrams[] = {[IBV_QPS_INIT] = IBV_QP_STATE | IBV_QP_PKEY_INDEX |
                                                        IBV_QP_PORT | IBV_QP_QKEY,
                                       [IBV_QPS_RTR] = IBV_QP_STATE,
                                       [IBV_QPS_RTS] = IBV_QP_STATE | IBV_QP_SQ_PSN};
    static const int reliable[] = {[IBV_QPS_INIT] = MEET_MASK_INIT,
                                   [IBV_QPS_RTR] = MEET_MASK_RTR,
                                   [IBV_QPS_RTS] = MEET_MASK_RTS};
    static const int reliable_alone = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
                                      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                      IBV_QP_MAX_QP_RD_ATOMIC;
    const int mask = type == IBV_QPT_UD ? of_datagrams[state] : reliable[state];
    return type == IBV_QPT_UC ? mask & ~reliable_alone : mask;
}

static void modify_queue_pair(struct ibv_qp *qp)
{
    const enum ibv_qp_state state = (enum ibv_qp_state)mostly(below(7));
    struct ibv_qp_attr attr = any_attr(state);
    const bool is_usual = state >= IBV_QPS_INIT && state <= IBV_QPS_RTS && !wrong(3);
    int mask = is_usual ? usual_mask(qp->qp_type, state) : IBV_QP_STATE;
    mask ^= wrong(3) ? (int)prng_next(&w.dice) : 0;
    expect_errno(ibv_modify_qp(qp, &attr, mask));
}

static void make_ready(struct ibv_qp *qp)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    expect_errno(ibv_modify_qp(qp, &reset, IBV_QP_STATE));
    for (enum ibv_qp_state state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
        struct ibv_qp_attr attr = any_attr(state);
        expect_errno(ibv_modify_qp(qp, &attr, usual_mask(qp->qp_type, state)));
    }
}

static void ask_queue_pair(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    expect_errno(ibv_query_qp(qp, &attr, (int)prng_next(&w.dice), &init));
}

static void join_or_leave(struct ibv_qp *qp)
{
    const union ibv_gid group = any_group();
    expect_errno(one_in(2) ? ibv_attach_mcast(qp, &group, (uint16_t)mostly(0))
                           : ibv_detach_mcast(qp, &group, (uint16_t)mostly(0)));
}

static void change_queues(void)
{
    struct ibv_cq *cq = any_cq();
    struct ibv_srq *srq = any(SHARED_QUEUE);
    struct ibv_srq_attr attr = {
        .max_wr = mostly_below(200), .max_sge = edge(), .srq_limit = mostly_below(50)};
    if (cq != NULL) {
        expect_errno(ibv_resize_cq(cq, (int)mostly_below(300)));
    }
    if (srq != NULL) {
        expect_errno(ibv_modify_srq(srq, &attr, (int)mostly_below(4)));
        expect_errno(ibv_query_srq(srq, &attr));
    }
}

static void change_region(void)
{
    struct ibv_mr *mr = any(REGION);
    struct ibv_pd *pd = any(DOMAIN);
    const uint32_t offset = GUARD_LEN + below(AREA_LEN - 2 * GUARD_LEN);
    const size_t length = below(AREA_LEN - GUARD_LEN - offset + 1);
    if (mr != NULL && pd != NULL) {
        const int answer = ibv_rereg_mr(mr, (int)mostly_below(8), pd, area + offset, length,
                                        one_in(3) ? (int)below(16) : EVERYTHING);
        w.refused += answer != 0; // IBV_REREG_MR_ERR_*
    }
}

/* ---- work ------------------------------------------------------------------------------------ */

static struct ibv_mw_bind_info any_bind(void)
{
    return (struct ibv_mw_bind_info){.mr = any(REGION),
                                     .addr = any_address(),
                                     .length = mostly_below(5000),
                                     .mw_access_flags = below(1 << 6)};
}

static struct ibv_send_wr any_request(const struct ibv_qp *qp, struct ibv_sge *sges)
{
    struct ibv_send_wr wr = {
        .wr_id = prng_next(&w.dice),
        .sg_list = sges,
        .num_sge = any_sges(sges),
        .opcode = (enum ibv_wr_opcode)mostly(below(IBV_WR_TSO)),
        .send_flags = mostly(below(IBV_SEND_IP_CSUM << 1)),
        .imm_data = any_key(), // or what is to be invalidated
    };
    const struct ibv_qp *peer = any(QUEUE_PAIR);
    if (qp->qp_type == IBV_QPT_UD) {
        wr.wr.ud.ah = any(ADDRESS);
        wr.wr.ud.remote_qpn = peer != NULL ? mostly(peer->qp_num) : 0xffffff;
        wr.wr.ud.remote_qkey = mostly(QKEY);
    } else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = any_address() & ~(wrong(3) ? 0ULL : 7ULL);
        wr.wr.atomic.rkey = any_key();
        sges[0].length = mostly(8);
    } else {
        wr.wr.rdma.remote_addr = any_address();
        wr.wr.rdma.rkey = any_key();
    }
    if (wr.opcode == IBV_WR_BIND_MW) {
        wr.bind_mw.mw = any(WINDOW);
        wr.bind_mw.rkey = any_key();
        wr.bind_mw.bind_info = any_bind();
    }
    if (wr.send_flags & IBV_SEND_INLINE) { // what is not too long for it is read
        for (int i = 0; i < SGES_MAX; i++) {
            sges[i] = (struct ibv_sge){.addr = (uintptr_t)area, .length = mostly_below(100)};
            sges[i].length = sges[i].length > AREA_LEN ? UINT32_MAX : sges[i].length;
        }
    }
    return wr;
}

static void post_sends(struct ibv_qp *qp)
{
    struct ibv_sge sges[CHAIN_MAX][SGES_MAX];
    struct ibv_send_wr wr[CHAIN_MAX], *bad = NULL;
    const unsigned count = 1 + below(CHAIN_MAX);
    for (unsigned i = 0; i < count; i++) {
        wr[i] = any_request(qp, sges[i]);
        wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
    }
    const int error = ibv_post_send(qp, wr, &bad);
    expect_errno(error);
    assert_true(error == 0 || (bad >= wr && bad < wr + count));
    posted += bad != wr;
}

static void build_payload(struct ibv_qp_ex *qp)
{
    struct ibv_sge sges[SGES_MAX];
    const struct ibv_data_buf bufs[] = {{area, below(50)}, {area + 64, below(50)}, {area, 0}};
    switch (below(5)) {
    case 0:
        sges[0] = any_sge();
        ibv_wr_set_sge(qp, sges[0].lkey, sges[0].addr, sges[0].length);
        break;
    case 1:
        ibv_wr_set_sge_list(qp, (size_t)any_sges(sges), sges);
        break;
    case 2:
        ibv_wr_set_inline_data(qp, area, mostly_below(100) % AREA_LEN);
        break;
    case 3:
        ibv_wr_set_inline_data_list(qp, below(4), bufs);
        break;
    default:
        break;
    }
}

static void build_request(struct ibv_qp_ex *qp)
{
    struct ibv_mw *mw = any(WINDOW);
    const struct ibv_mw_bind_info info = any_bind();
    const uint64_t remote_addr = any_address();
    const uint32_t key = any_key();
    switch (below(10)) {
    case 0:
        ibv_wr_send(qp);
        break;
    case 1:
        ibv_wr_send_imm(qp, key);
        break;
    case 2:
        ibv_wr_send_inv(qp, key);
        break;
    case 3:
        ibv_wr_rdma_write(qp, key, remote_addr);
        break;
    case 4:
        ibv_wr_rdma_write_imm(qp, key, remote_addr, 1);
        break;
    case 5:
        ibv_wr_rdma_read(qp, key, remote_addr);
        break;
    case 6:
        ibv_wr_atomic_cmp_swp(qp, key, remote_addr, 1, 2);
        break;
    case 7:
        ibv_wr_atomic_fetch_add(qp, key, remote_addr & ~7ULL, 1);
        break;
    case 8:
        ibv_wr_local_inv(qp, key);
        break;
    default:
        ibv_wr_bind_mw(qp, mw, key, &info);
    }
}

static void build_sequence(struct ibv_qp *plain)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(plain);
    if (qp == NULL) {
        return;
    }
    ibv_wr_start(qp);
    for (unsigned count = below(CHAIN_MAX); count > 0; count--) {
        qp->wr_id = prng_next(&w.dice);
        qp->wr_flags = mostly(below(16));
        build_request(qp);
        if (one_in(2)) {
            ibv_wr_set_ud_addr(qp, any(ADDRESS), plain->qp_num, QKEY);
        }
        build_payload(qp);
    }
    if (one_in(6)) {
        ibv_wr_abort(qp);
    } else {
        expect_errno(ibv_wr_complete(qp));
    }
}

static void post_receives(struct ibv_qp *qp, struct ibv_srq *srq)
{
    struct ibv_sge sges[CHAIN_MAX][SGES_MAX];
    struct ibv_recv_wr wr[CHAIN_MAX], *bad = NULL;
    const unsigned count = 1 + below(CHAIN_MAX);
    for (unsigned i = 0; i < count; i++) {
        wr[i] = (struct ibv_recv_wr){.wr_id = i,
                                     .next = i + 1 < count ? &wr[i + 1] : NULL,
                                     .sg_list = sges[i],
                                     .num_sge = any_sges(sges[i])};
    }
    const int error = srq != NULL ? ibv_post_srq_recv(srq, wr, &bad) : ibv_post_recv(qp, wr, &bad);
    expect_errno(error);
    assert_true(error == 0 || (bad >= wr && bad < wr + count));
}

static void bind_window(struct ibv_qp *qp)
{
    struct ibv_mw_bind bind = {.wr_id = 1, .send_flags = mostly_below(32), .bind_info = any_bind()};
    struct ibv_mw *mw = any(WINDOW);
    if (mw != NULL) {
        expect_errno(ibv_bind_mw(qp, mw, &bind));
    }
}

static void poll_plain(void)
{
    struct ibv_wc wc[16];
    struct ibv_cq *cq = any(CQ);
    const int count = cq != NULL ? ibv_poll_cq(cq, (int)below(17), wc) : 0;
    assert_true(count <= 16);
    completed += count > 0 ? (unsigned)count : 0;
}

static void poll_extended(void)
{
    struct ibv_cq_ex *cq = any(CQ_EX);
    struct ibv_poll_cq_attr attr = {.comp_mask = mostly(0)};
    if (cq == NULL || ibv_start_poll(cq, &attr) != 0) {
        return;
    }
    do {
        (void)ibv_wc_read_vendor_err(cq);
        (void)ibv_wc_read_opcode(cq);
        (void)ibv_wc_read_wc_flags(cq);
        completed++;
    } while (!one_in(6) && ibv_next_poll(cq) == 0);
    ibv_end_poll(cq);
}

static void take_events(void)
{
    struct ibv_comp_channel *channel = any(CHANNEL);
    struct ibv_async_event event;
    struct ibv_cq *cq = any_cq();
    void *context;
    if (cq != NULL) {
        expect_errno(ibv_req_notify_cq(cq, (int)below(3)));
    }
    if (channel != NULL && ibv_get_cq_event(channel, &cq, &context) == 0) {
        assert_ptr_equal(context, cq->cq_context);
        ibv_ack_cq_events(cq, 1);
    }
    for (unsigned i = 0; i < DEVICES; i++) {
        while (ibv_get_async_event(w.context[i], &event) == 0) {
            ibv_ack_async_event(&event);
        }
    }
}

/* ---- a seed ---------------------------------------------------------------------------------- */

static void use_queue_pair(struct ibv_qp *qp)
{
    static void (*const use[])(struct ibv_qp *) = {
        make_ready, modify_queue_pair, ask_queue_pair, join_or_leave,
        post_sends, post_sends,        build_sequence, bind_window};
    const unsigned count = sizeof use / sizeof *use, which = below(count + 1);
    if (which < count) {
        use[which](qp);
    } else {
        post_receives(qp, one_in(2) ? any(SHARED_QUEUE) : NULL);
    }
}

static void step(void)
{
    static void (*const others[])(void) = {destroy_one, change_queues, change_region,
                                           poll_plain,  poll_extended, take_events};
    w.here = below(DEVICES);
    w.is_careful = !one_in(3);
    struct ibv_qp *qp = any(QUEUE_PAIR);
    errno = 0;
    if (one_in(3)) {
        make_one();
    } else if (qp != NULL && !one_in(3)) {
        use_queue_pair(qp);
    } else {
        others[below(sizeof others / sizeof *others)]();
    }
}

static void leave_groups(struct ibv_qp *qp)
{
    for (unsigned i = 0; i < DEVICES; i++) {
        union ibv_gid group = w.gid[i];
        group.raw[12] = 239;
        while (ibv_detach_mcast(qp, &group, 0) == 0) {
        }
    }
}

// All that is there can be destroyed: nothing is in use by what is gone.
static void destroy_all(void)
{
    take_events();
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        for (unsigned i = 0; i < SLOTS; i++) {
            if (w.things[kind][i] != NULL && kind == QUEUE_PAIR) {
                leave_groups(w.things[kind][i]);
            }
            if (w.things[kind][i] != NULL) {
                assert_int_equal(destroy(kind, w.things[kind][i]), 0);
            }
            w.things[kind][i] = NULL;
        }
    }
}

static void expect_guards(void)
{
    uint8_t guard[GUARD_LEN];
    memset(guard, GUARD_OCTET, sizeof guard);
    assert_memory_equal(area, guard, sizeof guard);
    assert_memory_equal(area + AREA_LEN - GUARD_LEN, guard, sizeof guard);
}

static void run_seed(uint64_t seed)
{
    printf("# seed %llu\n", (unsigned long long)seed);
    prng_init(&w.dice, seed);
    memset(area, GUARD_OCTET, sizeof area);
    for (unsigned i = 0; i < STEPS; i++) {
        step();
    }
    destroy_all();
    expect_guards();
}

static void wrong_calls_come_to_an_errno_and_leave_nothing_behind(void **state)
{
    const struct seeds *seeds = *state;
    seeds_each(state);
    const uint64_t last = seeds->seed - 1;
    if (getenv("SEED") == NULL) { // right and wrong are both there
        assert_true(w.made > 100 * last && w.refused > 100 * last);
        assert_true(posted > 10 * last && completed > last);
    }
}

static int setup(void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_device_attr attr;
    assert_non_null(list);
    roce_port_of_own();
    for (unsigned i = 0; i < DEVICES; i++) {
        assert_non_null(list[i]);
        w.context[i] = roce_open_patiently(list[i]);
        assert_non_null(w.context[i]);
        assert_int_equal(fcntl(w.context[i]->async_fd, F_SETFL, O_NONBLOCK), 0);
        assert_int_equal(ibv_query_gid(w.context[i], 1, 0, &w.gid[i]), 0);
        assert_int_equal(ibv_query_device(w.context[i], &attr), 0);
        assert_true(attr.max_sge <= SGES_MAX);
    }
    ibv_free_device_list(list);
    return 0;
}

static int teardown(void **state)
{
    for (unsigned i = 0; i < DEVICES; i++) {
        assert_int_equal(ibv_close_device(w.context[i]), 0);
    }
    return seeds_name_the_failed(state);
}

int main(void)
{
    struct seeds seeds = {.run = run_seed,
                          .count = getenv("WEFT_SOAK") != NULL ? SEEDS_SOAK : SEEDS};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(
            wrong_calls_come_to_an_errno_and_leave_nothing_behind, setup, teardown, &seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
