#include "tests/rnic/packet_world.h"

#include <stdlib.h>
#include <string.h>

#include "rnic/post.h"
#include "wq/status.h"

enum { QKEY = WORLD_QKEY, MTU = WORLD_MTU };

// Nothing is waited for that may not come: virtual time ends first.
#define PATIENCE_NS (60 * NS_PER_S)

struct world w;

static instant_ns clock_of(void *ctx)
{
    return ((struct world *)ctx)->now;
}

/* ---- devices on a net ------------------------------------------------------------------------ */

struct in6_addr world_addr(unsigned i)
{
    struct in6_addr addr = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10}};
    addr.s6_addr[15] = (uint8_t)(1 + i);
    return addr;
}

static bool has_no_extensions;

void world_offer_extensions(bool offer)
{
    has_no_extensions = !offer;
}

static struct rnic_parts parts_of(unsigned i)
{
    const struct in6_addr addr = world_addr(i);
    struct rnic_parts parts = {
        .config = device_config(),
        .datagrams = datagram_net_attach(w.net, &addr, 1),
        .port = {.addrs = {{.addr = addr}}, .addr_count = 1, .path_mtu = MTU},
        .clock = clock_of,
        .clock_ctx = &w,
        .is_simulated = true,
    };
    parts.config.extensions = !has_no_extensions;
    memset(parts.stag_key, (int)(i + 1), sizeof parts.stag_key);
    return parts;
}

void world_open(const struct datagram_net_config *config)
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

struct rnic_qp *world_qp(struct device *d, enum rnic_qp_type type)
{
    const struct rnic_qp_init init = {.type = type,
                                      .pd = d->pd,
                                      .send_cq = d->cq,
                                      .recv_cq = d->cq,
                                      .max_send_wr = WORLD_QUEUE_LEN,
                                      .max_recv_wr = WORLD_QUEUE_LEN,
                                      .max_send_sge = 1,
                                      .max_recv_sge = 1};
    struct rnic_qp *qp;
    assert_int_equal(rnic_qp_create(d->rnic, &init, &qp), 0);
    return qp;
}

static void world_move(struct rnic_qp *qp, struct qp_change change)
{
    change.mask |= QP_CHANGE_STATE;
    assert_int_equal(rnic_qp_change(qp, &change), 0);
}

static void ud_to_rts(struct rnic_qp *qp)
{
    world_move(qp, (struct qp_change){.state = QP_INIT, .mask = QP_CHANGE_QKEY, .qkey = QKEY});
    world_move(qp, (struct qp_change){.state = QP_RTR});
    world_move(qp,
               (struct qp_change){.state = QP_RTS, .mask = QP_CHANGE_SQ_PSN, .sq_psn = 0xfffff0});
}

static void rc_to_rts(unsigned i)
{
    world_move(w.qps[i],
               (struct qp_change){.state = QP_INIT,
                                  .mask = QP_CHANGE_RIGHTS,
                                  .rights = MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_READ});
    world_move(w.qps[i],
               (struct qp_change){.state = QP_RTR,
                                  .mask = QP_CHANGE_PATH | QP_CHANGE_PATH_MTU |
                                          QP_CHANGE_DEST_QP_NUM | QP_CHANGE_RQ_PSN |
                                          QP_CHANGE_MAX_DEST_RD_ATOMIC | QP_CHANGE_MIN_RNR_TIMER,
                                  .path = {.local = world_addr(i), .remote = world_addr(1 - i)},
                                  .path_mtu = MTU,
                                  .dest_qp_num = w.qps[1 - i]->qp_num,
                                  .rq_psn = 0xfffff0,
                                  .max_dest_rd_atomic = 4,
                                  .min_rnr_timer = 12});
    world_move(w.qps[i], (struct qp_change){.state = QP_RTS,
                                            .mask = QP_CHANGE_TIMEOUT | QP_CHANGE_RETRY_COUNT |
                                                    QP_CHANGE_RNR_RETRY_COUNT | QP_CHANGE_SQ_PSN |
                                                    QP_CHANGE_MAX_RD_ATOMIC,
                                            .timeout = 14,
                                            .retry_count = 7,
                                            .rnr_retry_count = 7,
                                            .sq_psn = 0xfffff0,
                                            .max_rd_atomic = 4});
}

void world_make_pair(enum rnic_qp_type type)
{
    for (unsigned i = 0; i < 2; i++) {
        w.qps[i] = world_qp(&w.devices[i], type);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (type == RNIC_QP_UD) {
            ud_to_rts(w.qps[i]);
        } else {
            rc_to_rts(i);
        }
    }
}

void world_open_pair(enum rnic_qp_type type, const struct datagram_net_config *config)
{
    world_open(config);
    world_make_pair(type);
}

void world_close(void)
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

bool world_step(void)
{
    bool moved = datagram_net_advance(w.net);
    for (unsigned i = 0; i < 2; i++) {
        moved |= !(i == 1 && w.is_one_gone) && rnic_step(w.devices[i].rnic);
    }
    return moved;
}

// To the next instant at which anything happens. False: nothing will.
bool world_pass_time(void)
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

void world_run(void)
{
    do {
        while (world_step()) {
        }
    } while (world_pass_time());
}

struct cqe world_completion(unsigned i)
{
    struct cqe cqe;
    int count = 0;
    do {
        while (world_step()) {
        }
        count = rnic_cq_poll(w.devices[i].cq, &cqe, 1);
    } while (count == 0 && world_pass_time());
    assert_int_equal(count, 1);
    return cqe;
}

/* ---- posting --------------------------------------------------------------------------------- */

void world_post_recv(unsigned i, uint32_t offset, uint32_t len)
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

struct send_wqe *world_slot(struct rnic_sq_cursor *cursor, unsigned i, enum wqe_opcode opcode,
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

void world_post(unsigned i, enum wqe_opcode opcode, uint32_t offset, uint32_t len,
                uint32_t remote_offset)
{
    struct rnic_sq_cursor cursor;
    struct send_wqe *wqe = world_slot(&cursor, i, opcode, offset, len);
    wqe->rkey = w.devices[1 - i].stag;
    wqe->remote_addr = (uintptr_t)w.devices[1 - i].buf + remote_offset;
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
}

void world_fill(uint8_t *octets, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        octets[i] = (uint8_t)(i * 7 + i / 256);
    }
}
