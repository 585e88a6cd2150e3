// Devices whose queue pairs are carried by packets, over a net on virtual time.
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "link/datagram_sim.h"
#include "rnic/packet.h"
#include "rnic/post.h"
#include "roce/address.h"
#include "tests/rnic/device.h"
#include "wire/grh.h"
#include "wq/status.h"

enum { DEPTH = 32, MTU = 1024, QKEY = 0x11111111, BUF_LEN = 64 * 1024 };

// Nothing is waited for that may not come: virtual time ends first.
#define PATIENCE_NS (5 * NS_PER_S)

struct world {
    instant_ns now;
    struct datagram_net *net;
    struct device devices[2];
    struct rnic_qp *qps[2];
    bool is_one_gone;
};

static struct world w;

static instant_ns clock_of(void *ctx)
{
    return ((struct world *)ctx)->now;
}

/* ---- devices on a net ------------------------------------------------------------------------ */

static struct in6_addr addr_of(unsigned i)
{
    struct in6_addr addr = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10}};
    addr.s6_addr[15] = (uint8_t)(1 + i);
    return addr;
}

static struct rnic_parts parts_of(unsigned i)
{
    const struct in6_addr addr = addr_of(i);
    struct rnic_parts parts = {
        .config = device_config(),
        .datagrams = datagram_net_attach(w.net, &addr, 1),
        .port = {.addrs = {{.addr = addr}}, .addr_count = 1, .path_mtu = MTU},
        .clock = clock_of,
        .clock_ctx = &w,
        .is_simulated = true,
    };
    memset(parts.stag_key, (int)(i + 1), sizeof parts.stag_key);
    return parts;
}

static void open_devices(const struct datagram_net_config *config)
{
    struct datagram_net_config with_clock = *config;
    w = (struct world){.now = NS_PER_S};
    with_clock.clock = clock_of;
    with_clock.clock_ctx = &w;
    w.net = datagram_net_create(&with_clock);
    assert_non_null(w.net);
    for (unsigned i = 0; i < 2; i++) {
        const struct rnic_parts parts = parts_of(i);
        assert_non_null(parts.datagrams);
        device_open_parts(&w.devices[i], &parts);
    }
}

static struct rnic_qp *qp_create_of(struct device *d, enum rnic_qp_type type)
{
    const struct rnic_qp_init init = {.type = type,
                                      .pd = d->pd,
                                      .send_cq = d->cq,
                                      .recv_cq = d->cq,
                                      .max_send_wr = DEPTH,
                                      .max_recv_wr = DEPTH,
                                      .max_send_sge = 1,
                                      .max_recv_sge = 1};
    struct rnic_qp *qp;
    assert_int_equal(rnic_qp_create(d->rnic, &init, &qp), 0);
    return qp;
}

static void move(struct rnic_qp *qp, struct qp_change change)
{
    change.mask |= QP_CHANGE_STATE;
    assert_int_equal(rnic_qp_change(qp, &change), 0);
}

static void ud_to_rts(struct rnic_qp *qp)
{
    move(qp, (struct qp_change){.state = QP_INIT, .mask = QP_CHANGE_QKEY, .qkey = QKEY});
    move(qp, (struct qp_change){.state = QP_RTR});
    move(qp, (struct qp_change){.state = QP_RTS, .mask = QP_CHANGE_SQ_PSN, .sq_psn = 0xfffff0});
}

static void rc_to_rts(unsigned i)
{
    move(w.qps[i], (struct qp_change){.state = QP_INIT,
                                      .mask = QP_CHANGE_RIGHTS,
                                      .rights = MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_READ});
    move(w.qps[i],
         (struct qp_change){.state = QP_RTR,
                            .mask = QP_CHANGE_PATH | QP_CHANGE_PATH_MTU | QP_CHANGE_DEST_QP_NUM |
                                    QP_CHANGE_RQ_PSN | QP_CHANGE_MAX_DEST_RD_ATOMIC |
                                    QP_CHANGE_MIN_RNR_TIMER,
                            .path = {.local = addr_of(i), .remote = addr_of(1 - i)},
                            .path_mtu = MTU,
                            .dest_qp_num = w.qps[1 - i]->qp_num,
                            .rq_psn = 0xfffff0,
                            .max_dest_rd_atomic = 4,
                            .min_rnr_timer = 12});
    move(w.qps[i], (struct qp_change){.state = QP_RTS,
                                      .mask = QP_CHANGE_TIMEOUT | QP_CHANGE_RETRY_COUNT |
                                              QP_CHANGE_RNR_RETRY_COUNT | QP_CHANGE_SQ_PSN |
                                              QP_CHANGE_MAX_RD_ATOMIC,
                                      .timeout = 14,
                                      .retry_count = 7,
                                      .rnr_retry_count = 7,
                                      .sq_psn = 0xfffff0,
                                      .max_rd_atomic = 4});
}

static void open_pair(enum rnic_qp_type type, const struct datagram_net_config *config)
{
    open_devices(config);
    for (unsigned i = 0; i < 2; i++) {
        w.qps[i] = qp_create_of(&w.devices[i], type);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (type == RNIC_QP_UD) {
            ud_to_rts(w.qps[i]);
        } else {
            rc_to_rts(i);
        }
    }
}

static void close_pair(void)
{
    for (unsigned i = 0; i < 2; i++) {
        if (!(i == 1 && w.is_one_gone)) {
            rnic_qp_destroy(w.qps[i]);
            device_close(&w.devices[i]);
        }
    }
    datagram_net_destroy(w.net);
}

/* ---- virtual time ---------------------------------------------------------------------------- */

static bool step_all(void)
{
    bool moved = datagram_net_advance(w.net);
    for (unsigned i = 0; i < 2; i++) {
        moved |= !(i == 1 && w.is_one_gone) && rnic_step(w.devices[i].rnic);
    }
    return moved;
}

// To the next instant at which anything happens. False: nothing will.
static bool pass_time(void)
{
    instant_ns next = datagram_net_next_event(w.net);
    for (unsigned i = 0; i < 2; i++) {
        if (!(i == 1 && w.is_one_gone)) {
            next = instant_min(next, rnic_next_deadline(w.devices[i].rnic));
        }
    }
    if (next == INSTANT_NEVER || next > NS_PER_S + PATIENCE_NS) {
        return false;
    }
    w.now = next > w.now ? next : w.now;
    return true;
}

static void run_until_quiet(void)
{
    do {
        while (step_all()) {
        }
    } while (pass_time());
}

static struct cqe completion_of(unsigned i)
{
    struct cqe cqe;
    int count = 0;
    do {
        while (step_all()) {
        }
        count = rnic_cq_poll(w.devices[i].cq, &cqe, 1);
    } while (count == 0 && pass_time());
    assert_int_equal(count, 1);
    return cqe;
}

/* ---- posting --------------------------------------------------------------------------------- */

static void post_recv(unsigned i, uint32_t offset, uint32_t len)
{
    struct rnic_rq_cursor cursor;
    rnic_rq_begin(&cursor, w.qps[i]);
    struct recv_wqe *wqe = rnic_rq_slot(&cursor);
    assert_non_null(wqe);
    wqe->wr_id = offset;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){
        .addr = (uintptr_t)w.devices[i].buf + offset, .length = len, .lkey = w.devices[i].stag};
    rnic_rq_commit(&cursor);
    rnic_rq_end(&cursor);
}

static struct send_wqe *fill(struct rnic_sq_cursor *cursor, unsigned i, enum wqe_opcode opcode,
                             uint32_t offset, uint32_t len)
{
    rnic_sq_begin(cursor, w.qps[i]);
    struct send_wqe *wqe = rnic_sq_slot(cursor);
    assert_non_null(wqe);
    wqe->wr_id = offset;
    wqe->opcode = opcode;
    wqe->flags = WQE_SIGNALED;
    wqe->imm_or_inv = 0;
    wqe->sge_count = 1;
    wqe->length = len;
    wqe->sge[0] = (struct sge){
        .addr = (uintptr_t)w.devices[i].buf + offset, .length = len, .lkey = w.devices[i].stag};
    return wqe;
}

static void post_datagram(unsigned i, uint32_t to_qp_num, uint32_t offset, uint32_t len)
{
    struct rnic_sq_cursor cursor;
    struct send_wqe *wqe = fill(&cursor, i, WQE_SEND, offset, len);
    *rnic_sq_address(&cursor, wqe) = (struct roce_address){
        .path = {.local = addr_of(i), .remote = addr_of(1 - i)}, .qpn = to_qp_num, .qkey = QKEY};
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
}

static void post_to_peer(unsigned i, enum wqe_opcode opcode, uint32_t offset, uint32_t len,
                         uint32_t remote_offset)
{
    struct rnic_sq_cursor cursor;
    struct send_wqe *wqe = fill(&cursor, i, opcode, offset, len);
    wqe->rkey = w.devices[1 - i].stag;
    wqe->remote_addr = (uintptr_t)w.devices[1 - i].buf + remote_offset;
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
}

static void fill_octets(uint8_t *octets, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        octets[i] = (uint8_t)(i * 7 + i / 256);
    }
}

/* ---- datagrams ------------------------------------------------------------------------------- */

static const struct datagram_net_config clean = {0};

static void a_datagram_arrives_and_says_from_whom(void **state)
{
    open_pair(RNIC_QP_UD, &clean);
    fill_octets(w.devices[0].buf, 100);
    post_recv(1, 0, GRH_LEN + MTU);
    post_datagram(0, w.qps[1]->qp_num, 0, 100);
    assert_int_equal(completion_of(0).status, WC_SUCCESS);
    const struct cqe received = completion_of(1);
    assert_int_equal(received.status, WC_SUCCESS);
    assert_int_equal(received.byte_len, GRH_LEN + 100);
    assert_int_equal(received.src_qp, w.qps[0]->qp_num);
    assert_memory_equal(w.devices[1].buf + GRH_LEN, w.devices[0].buf, 100);
    close_pair();
}

static void a_datagram_to_a_number_that_nobody_has_is_counted(void **state)
{
    open_pair(RNIC_QP_UD, &clean);
    post_datagram(0, w.qps[1]->qp_num ^ 1, 0, 100);
    assert_int_equal(completion_of(0).status, WC_SUCCESS);
    run_until_quiet();
    assert_int_equal(device_count(&w.devices[1], "unknown_qp"), 1);
    close_pair();
}

static void numbers_are_those_that_the_link_has(void **state)
{
    struct rnic_qp *qps[DEPTH];
    open_devices(&clean);
    for (unsigned i = 0; i < DEPTH; i++) {
        const struct datagram_link *link = w.devices[0].rnic->shard.packets.link;
        qps[i] = qp_create_of(&w.devices[0], RNIC_QP_UD);
        assert_in_range(qps[i]->qp_num, link->qp_num_first,
                        link->qp_num_first + link->qp_num_count - 1);
        assert_ptr_equal(rnic_qp_find(w.devices[0].rnic, qps[i]->qp_num), qps[i]);
    }
    for (unsigned i = 0; i < DEPTH; i++) {
        rnic_qp_destroy(qps[i]);
    }
    device_close(&w.devices[0]);
    device_close(&w.devices[1]);
    datagram_net_destroy(w.net);
}

static void more_than_the_link_takes_at_a_time_leaves_when_there_is_room(void **state)
{
    const struct datagram_net_config narrow = {.send_rate = 10 * 1000 * 1000,
                                               .send_buffer_len = 4 * 1200};
    open_pair(RNIC_QP_UD, &narrow);
    for (uint32_t i = 0; i < DEPTH; i++) {
        post_recv(1, i * 1200, GRH_LEN + MTU);
        post_datagram(0, w.qps[1]->qp_num, i * 1024, MTU);
    }
    for (unsigned i = 0; i < DEPTH; i++) {
        assert_int_equal(completion_of(1).byte_len, GRH_LEN + MTU);
    }
    run_until_quiet();
    assert_true(device_count(&w.devices[0], "room_waits") > 0);
    close_pair();
}

static void a_device_goes_with_packets_on_their_way_to_it(void **state)
{
    open_pair(RNIC_QP_UD, &clean);
    post_recv(1, 0, GRH_LEN + MTU);
    post_datagram(0, w.qps[1]->qp_num, 0, 100);
    rnic_qp_destroy(w.qps[1]);
    device_close(&w.devices[1]);
    w.is_one_gone = true;
    assert_int_equal(completion_of(0).status, WC_SUCCESS);
    run_until_quiet();
    close_pair();
}

static struct in6_addr group_of(uint8_t last)
{
    return (struct in6_addr){
        .s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1, [15] = last}};
}

static void post_to_group(unsigned i, uint8_t last, uint32_t offset, uint32_t len)
{
    struct rnic_sq_cursor cursor;
    struct send_wqe *wqe = fill(&cursor, i, WQE_SEND, offset, len);
    *rnic_sq_address(&cursor, wqe) =
        (struct roce_address){.path = {.local = addr_of(i), .remote = group_of(last)},
                              .qpn = ROCE_QPN_MULTICAST,
                              .qkey = QKEY};
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
}

static void a_group_reaches_who_is_attached_as_long_as_it_is(void **state)
{
    const struct in6_addr group = group_of(1), not_one = addr_of(1);
    open_pair(RNIC_QP_UD, &clean);
    assert_int_equal(rnic_qp_attach(w.qps[1], &not_one), -EINVAL);
    assert_int_equal(rnic_qp_attach(w.qps[1], &group), 0);
    assert_int_equal(rnic_qp_attach(w.qps[1], &group), 0); // it comes once all the same
    assert_int_equal(rnic_qp_detach(w.qps[1], &group), 0);
    post_recv(1, 0, GRH_LEN + MTU);
    post_recv(1, 8192, GRH_LEN + MTU);
    post_to_group(0, 2, 0, 90);
    post_to_group(0, 1, 0, 100);
    assert_int_equal(completion_of(1).byte_len, GRH_LEN + 100);
    assert_int_equal(rnic_qp_detach(w.qps[1], &group), 0);
    assert_int_equal(rnic_qp_detach(w.qps[1], &group), -EINVAL);
    post_to_group(0, 1, 0, 110);
    post_datagram(0, w.qps[1]->qp_num, 0, 120);
    assert_int_equal(completion_of(1).byte_len, GRH_LEN + 120);
    close_pair();
}

static void a_queue_pair_that_goes_leaves_its_groups(void **state)
{
    const struct in6_addr group = group_of(1);
    open_pair(RNIC_QP_UD, &clean);
    struct rnic_qp *other = qp_create_of(&w.devices[1], RNIC_QP_UD);
    assert_int_equal(rnic_qp_attach(w.qps[1], &group), 0);
    assert_int_equal(rnic_qp_attach(other, &group), 0);
    rnic_qp_destroy(other);
    post_recv(1, 0, GRH_LEN + MTU);
    post_to_group(0, 1, 0, 100);
    assert_int_equal(completion_of(1).byte_len, GRH_LEN + 100);
    assert_int_equal(rnic_qp_detach(w.qps[1], &group), 0);
    close_pair();
}

/* ---- reliable connections -------------------------------------------------------------------- */

static void a_send_of_many_packets_arrives_whole(void **state)
{
    open_pair(RNIC_QP_RC, &clean);
    fill_octets(w.devices[0].buf, 20000);
    post_recv(1, 0, 20000);
    post_to_peer(0, WQE_SEND, 0, 20000, 0);
    const struct cqe received = completion_of(1);
    assert_int_equal(received.status, WC_SUCCESS);
    assert_int_equal(received.byte_len, 20000);
    assert_int_equal(completion_of(0).status, WC_SUCCESS);
    assert_memory_equal(w.devices[1].buf, w.devices[0].buf, 20000);
    close_pair();
}

static void what_is_lost_comes_again(void **state)
{
    const struct datagram_net_config lossy = {
        .faults = {.seed = 7, .loss = FAULT_ONE / 20, .burst = 1}};
    open_pair(RNIC_QP_RC, &lossy);
    fill_octets(w.devices[0].buf, BUF_LEN);
    post_to_peer(0, WQE_RDMA_WRITE, 0, BUF_LEN, 0);
    assert_int_equal(completion_of(0).status, WC_SUCCESS);
    assert_memory_equal(w.devices[1].buf, w.devices[0].buf, BUF_LEN);
    memset(w.devices[0].buf, 0, BUF_LEN);
    post_to_peer(0, WQE_RDMA_READ, 0, BUF_LEN, 0);
    assert_int_equal(completion_of(0).status, WC_SUCCESS);
    assert_memory_equal(w.devices[1].buf, w.devices[0].buf, BUF_LEN);
    close_pair();
}

static void a_peer_that_is_gone_is_given_up(void **state)
{
    open_pair(RNIC_QP_RC, &clean);
    rnic_qp_destroy(w.qps[1]);
    device_close(&w.devices[1]);
    w.is_one_gone = true;
    post_to_peer(0, WQE_RDMA_WRITE, 0, 100, 0);
    assert_int_equal(completion_of(0).status, WC_RETRY_EXC_ERR);
    close_pair();
}

/* ---- unreliable connections ------------------------------------------------------------------ */

static void an_unreliable_connection_carries_sends_and_writes(void **state)
{
    open_pair(RNIC_QP_UC, &clean);
    fill_octets(w.devices[0].buf, 20000);
    post_recv(1, 0, 20000);
    post_to_peer(0, WQE_SEND, 0, 20000, 0);
    assert_int_equal(completion_of(0).status, WC_SUCCESS);
    assert_int_equal(completion_of(1).byte_len, 20000);
    assert_memory_equal(w.devices[1].buf, w.devices[0].buf, 20000);
    post_to_peer(0, WQE_RDMA_WRITE, 0, 100, 20000);
    assert_int_equal(completion_of(0).status, WC_SUCCESS);
    run_until_quiet();
    assert_memory_equal(w.devices[1].buf + 20000, w.devices[0].buf, 100);
    close_pair();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_datagram_arrives_and_says_from_whom),
        cmocka_unit_test(a_datagram_to_a_number_that_nobody_has_is_counted),
        cmocka_unit_test(numbers_are_those_that_the_link_has),
        cmocka_unit_test(more_than_the_link_takes_at_a_time_leaves_when_there_is_room),
        cmocka_unit_test(a_device_goes_with_packets_on_their_way_to_it),
        cmocka_unit_test(a_group_reaches_who_is_attached_as_long_as_it_is),
        cmocka_unit_test(a_queue_pair_that_goes_leaves_its_groups),
        cmocka_unit_test(a_send_of_many_packets_arrives_whole),
        cmocka_unit_test(what_is_lost_comes_again),
        cmocka_unit_test(a_peer_that_is_gone_is_given_up),
        cmocka_unit_test(an_unreliable_connection_carries_sends_and_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
