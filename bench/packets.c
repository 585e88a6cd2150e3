// What an operation on RoCE costs in instructions: two devices with a reliable connection between
// them over a simulated net (link/datagram/sim.h), whose time is virtual and which loses nothing.
//
//     bench-packets OP LEN COUNT
//
// OP write, send or read: COUNT messages of LEN octets at path MTU 1024, DEPTH of them posted at a
// time. It prints nothing: who wants to know counts what it executes (tools/cost).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/qp_state.h"
#include "base/time.h"
#include "link/datagram/sim.h"
#include "rnic/create.h"
#include "rnic/post.h"
#include "rnic/rnic.h"
#include "wq/wqe.h"

enum {
    PATH_MTU = 1024,
    DEPTH = 16,
    READS_MAX = 16,
    BUF_LEN = 4 << 20,
    RECEIVE_BUFFER_LEN = 4 << 20,
    FIRST_PSN = 1000,
};
static const duration_ns delay_ns = 10 * NS_PER_US;

struct side {
    struct rnic *rnic;
    struct rnic_qp *qp;
    struct rnic_cq *cq;
    uint32_t pd, stag;
    uint8_t *buf;
};

static struct world {
    instant_ns now;
    struct datagram_net *net;
    struct side side[2]; // 0 posts, 1 has what it posts for
} w;

struct work {
    enum wqe_opcode opcode;
    uint32_t len;
    uint64_t count, posted, done, received;
};

/* ---- the world ------------------------------------------------------------------------------- */

static instant_ns clock_of(void *ctx)
{
    (void)ctx;
    return w.now;
}

// Both have it, as two processes of a host: no line whose pace is kept is between them.
static const struct in6_addr address = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}};

// Everything that is due, then on to the next instant at which something is.
static void step(void)
{
    bool moved = true;
    while (moved) {
        moved = datagram_net_advance(w.net);
        moved = rnic_step(w.side[0].rnic) || moved;
        moved = rnic_step(w.side[1].rnic) || moved;
    }
    instant_ns at_ns = datagram_net_next_event(w.net);
    for (unsigned i = 0; i < 2; i++) {
        at_ns = instant_min(at_ns, rnic_next_deadline(w.side[i].rnic));
    }
    CHECK(at_ns != INSTANT_NEVER);
    w.now = at_ns > w.now ? at_ns : w.now;
}

static void net_make(void)
{
    struct datagram_net_config config = {.clock = clock_of,
                                         .faults = {.delay_ns = delay_ns},
                                         .receive_buffer_len = RECEIVE_BUFFER_LEN};
    w.now = NS_PER_S;
    w.net = datagram_net_create(&config);
    CHECK(w.net != NULL);
}

static void device_make(struct side *side)
{
    const struct cq_port quiet = {0};
    const uint32_t rights =
        MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_READ;
    struct rnic_parts parts = {
        .config = {.extensions = true, .read_contexts = 128, .read_allotment_len = 128 << 10},
        .datagrams = datagram_net_attach(w.net, &address, 1),
        .port = {.addrs = {{.addr = address}}, .addr_count = 1, .path_mtu = PATH_MTU},
        .clock = clock_of,
        .is_simulated = true,
    };
    CHECK(parts.datagrams != NULL);
    CHECK(rnic_create(&parts, &side->rnic) == 0);
    side->buf = calloc(1, BUF_LEN);
    CHECK(side->buf != NULL);
    CHECK(rnic_pd_alloc(side->rnic, &side->pd) == 0);
    CHECK(rnic_region_register(side->rnic, side->pd, side->buf, BUF_LEN, (uintptr_t)side->buf,
                               rights, &side->stag) == 0);
    CHECK(rnic_cq_create(side->rnic, 4 * DEPTH, &quiet, &side->cq) == 0);
    const struct rnic_qp_init init = {.type = RNIC_QP_RC,
                                      .pd = side->pd,
                                      .send_cq = side->cq,
                                      .recv_cq = side->cq,
                                      .max_send_wr = DEPTH,
                                      .max_recv_wr = 2 * DEPTH,
                                      .max_send_sge = 1,
                                      .max_recv_sge = 1};
    CHECK(rnic_qp_create(side->rnic, &init, &side->qp) == 0);
}

static void move(struct rnic_qp *qp, struct qp_change change)
{
    change.mask |= QP_CHANGE_STATE;
    CHECK(rnic_qp_change(qp, &change) == 0);
}

static void connect_one(unsigned index)
{
    struct rnic_qp *qp = w.side[index].qp;
    move(qp, (struct qp_change){.state = QP_INIT,
                                .mask = QP_CHANGE_RIGHTS,
                                .rights = MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_READ});
    move(qp, (struct qp_change){.state = QP_RTR,
                                .mask = QP_CHANGE_PATH | QP_CHANGE_PATH_MTU |
                                        QP_CHANGE_DEST_QP_NUM | QP_CHANGE_RQ_PSN |
                                        QP_CHANGE_MAX_DEST_RD_ATOMIC | QP_CHANGE_MIN_RNR_TIMER,
                                .path = {.local = address, .remote = address},
                                .path_mtu = PATH_MTU,
                                .dest_qp_num = w.side[1 - index].qp->qp_num,
                                .rq_psn = FIRST_PSN,
                                .max_dest_rd_atomic = READS_MAX,
                                .min_rnr_timer = 12});
    move(qp, (struct qp_change){.state = QP_RTS,
                                .mask = QP_CHANGE_TIMEOUT | QP_CHANGE_RETRY_COUNT |
                                        QP_CHANGE_RNR_RETRY_COUNT | QP_CHANGE_SQ_PSN |
                                        QP_CHANGE_MAX_RD_ATOMIC,
                                .timeout = 14,
                                .retry_count = 7,
                                .rnr_retry_count = 7,
                                .sq_psn = FIRST_PSN,
                                .max_rd_atomic = READS_MAX});
}

/* ---- the work -------------------------------------------------------------------------------- */

static struct sge sge_of(const struct side *side, uint64_t index, uint32_t len)
{
    return (struct sge){(uintptr_t)side->buf + index % DEPTH * len, len, side->stag};
}

static void post_receive(uint64_t wr_id, uint32_t len)
{
    struct rnic_rq_cursor cursor;
    rnic_rq_begin(&cursor, w.side[1].qp);
    struct recv_wqe *wqe = rnic_rq_slot(&cursor);
    CHECK(wqe != NULL);
    wqe->wr_id = wr_id;
    wqe->sge_count = 1;
    wqe->sge[0] = sge_of(&w.side[1], wr_id, len);
    rnic_rq_commit(&cursor);
    rnic_rq_end(&cursor);
}

static void post(const struct work *work)
{
    const struct side *b = &w.side[1];
    struct rnic_sq_cursor cursor;
    rnic_sq_begin(&cursor, w.side[0].qp);
    struct send_wqe *wqe = rnic_sq_slot(&cursor);
    CHECK(wqe != NULL);
    wqe->wr_id = work->posted;
    wqe->opcode = work->opcode;
    wqe->flags = WQE_SIGNALED;
    wqe->imm_or_inv = 0;
    wqe->rkey = b->stag;
    wqe->remote_addr = (uintptr_t)b->buf + work->posted % DEPTH * work->len;
    wqe->sge_count = 1;
    wqe->length = work->len;
    wqe->sge[0] = sge_of(&w.side[0], work->posted, work->len);
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
}

static void poll_poster(struct work *work)
{
    struct cqe cqe;
    while (rnic_cq_poll(w.side[0].cq, &cqe, 1) == 1) {
        CHECK(cqe.status == CQE_STATUS_SUCCESS);
        CHECK(cqe.wr_id == work->done);
        work->done++;
    }
}

static void poll_target(struct work *work)
{
    struct cqe cqe;
    while (rnic_cq_poll(w.side[1].cq, &cqe, 1) == 1) {
        CHECK(cqe.status == CQE_STATUS_SUCCESS);
        post_receive(work->received++ + DEPTH, work->len);
    }
}

static void run(struct work *work)
{
    for (uint64_t i = 0; i < DEPTH; i++) {
        post_receive(i, work->len);
    }
    while (work->done < work->count) {
        for (; work->posted < work->count && work->posted - work->done < DEPTH; work->posted++) {
            post(work);
        }
        step();
        poll_poster(work);
        poll_target(work);
    }
}

static enum wqe_opcode opcode_of(const char *word)
{
    return strcmp(word, "write") == 0  ? WQE_RDMA_WRITE
           : strcmp(word, "read") == 0 ? WQE_RDMA_READ
                                       : WQE_SEND;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: bench-packets OP LEN COUNT\n");
        return 2;
    }
    struct work work = {
        .opcode = opcode_of(argv[1]),
        .len = (uint32_t)strtoul(argv[2], NULL, 10),
        .count = strtoul(argv[3], NULL, 10),
    };
    CHECK(work.len <= BUF_LEN / DEPTH);
    net_make();
    for (unsigned i = 0; i < 2; i++) {
        device_make(&w.side[i]);
    }
    connect_one(0);
    connect_one(1);
    run(&work);
    return 0; // the end of the process takes the rest down
}
