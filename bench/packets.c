// What an operation on RoCE costs in instructions: two devices with a reliable connection between
// them over a simulated net (link/datagram/sim.h), whose time is virtual and which loses nothing.
//
//     bench-packets OP LEN COUNT
//
// OP write, send or read: COUNT messages of LEN octets at path MTU 1024, DEPTH of them posted at a
// time. It prints nothing: who wants to know counts what it executes (tools/cost).
//
//     bench-packets OP LEN COUNT PATH_MTU
//
// The same over UDP sockets of this host, both ends in turn in one thread: the processor time of
// each end for a packet, its system calls included, which says more than a speed where others want
// the processors too.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/qp_state.h"
#include "base/time.h"
#include "bench/measure.h"
#include "link/datagram/sim.h"
#include "link/datagram/udp.h"
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
    PORT = 34793,
    ROUNDS = 50, // over UDP: the figure is one that a fifth of them is better than
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
    struct datagram_net *net; // NULL: UDP
    uint32_t path_mtu;
    struct side side[2]; // 0 posts, 1 has what it posts for
} w;

struct work {
    enum wqe_opcode opcode;
    uint32_t len;
    uint64_t count, posted, done, received;
};

/* ---- the world ------------------------------------------------------------------------------- */

static instant_ns clock_now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

static instant_ns clock_of(void *ctx)
{
    (void)ctx;
    return w.net != NULL ? w.now : clock_now(CLOCK_MONOTONIC);
}

// Both have it, as two processes of a host: no line whose pace is kept is between them.
static const struct in6_addr address = {
    .s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};

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

static struct datagram_link *link_make(void)
{
    const struct datagram_udp_config config = {.port = PORT, .clock = clock_of};
    struct datagram_link *link = NULL;
    if (w.net != NULL) {
        return datagram_net_attach(w.net, &address, 1);
    }
    CHECK(datagram_udp_create(&config, &link) == 0);
    return link;
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
        .datagrams = link_make(),
        .port = {.addrs = {{.addr = address}}, .addr_count = 1, .path_mtu = w.path_mtu},
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
                                .path_mtu = w.path_mtu,
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

/* ---- over UDP -------------------------------------------------------------------------------- */

// Each end takes what has come until nothing has. The processor time of the target's.
static duration_ns take_turns(struct work *work)
{
    while (rnic_step(w.side[0].rnic)) {
    }
    poll_poster(work);
    const instant_ns since = clock_now(CLOCK_THREAD_CPUTIME_ID);
    while (rnic_step(w.side[1].rnic)) {
    }
    poll_target(work);
    return clock_now(CLOCK_THREAD_CPUTIME_ID) - since;
}

// ns per packet, of the one that posts and of its target.
static void round_measure(struct work *work, uint64_t count, double ret_ns[2])
{
    const instant_ns since = clock_now(CLOCK_THREAD_CPUTIME_ID);
    const double packets = (double)count * (double)((work->len + w.path_mtu - 1) / w.path_mtu);
    duration_ns of_target = 0;
    for (work->count += count; work->done < work->count;) {
        for (; work->posted < work->count && work->posted - work->done < DEPTH; work->posted++) {
            post(work);
        }
        of_target += take_turns(work);
    }
    const duration_ns all = clock_now(CLOCK_THREAD_CPUTIME_ID) - since;
    ret_ns[0] = (double)(all - of_target) / packets;
    ret_ns[1] = (double)of_target / packets;
}

static void run_over_udp(struct work *work)
{
    const uint64_t count = work->count;
    double ns[2][ROUNDS];
    for (uint64_t i = 0; i < DEPTH; i++) {
        post_receive(i, work->len);
    }
    work->count = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        double of_round[2];
        round_measure(work, count, of_round);
        ns[0][i] = of_round[0];
        ns[1][i] = of_round[1];
    }
    for (unsigned i = 0; i < 2; i++) {
        qsort(ns[i], ROUNDS, sizeof ns[i][0], compare_double);
    }
    printf("{\"poster_ns\": %.1f, \"target_ns\": %.1f}\n", ns[0][ROUNDS / 5], ns[1][ROUNDS / 5]);
}

// The second end asks the first for sockets, which has to answer meanwhile.
static void *answer(void *is_over)
{
    while (!atomic_load((atomic_bool *)is_over)) {
        rnic_step(w.side[0].rnic);
    }
    return NULL;
}

static void devices_make_over_udp(void)
{
    atomic_bool is_over = false;
    pthread_t thread;
    device_make(&w.side[0]);
    CHECK(pthread_create(&thread, NULL, answer, &is_over) == 0);
    device_make(&w.side[1]);
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
}

/* ---- the program ----------------------------------------------------------------------------- */

static enum wqe_opcode opcode_of(const char *word)
{
    return strcmp(word, "write") == 0  ? WQE_RDMA_WRITE
           : strcmp(word, "read") == 0 ? WQE_RDMA_READ
                                       : WQE_SEND;
}

int main(int argc, char **argv)
{
    const bool is_udp = argc == 5;
    if (argc != 4 && !is_udp) {
        fprintf(stderr, "usage: bench-packets OP LEN COUNT [PATH_MTU]\n");
        return 2;
    }
    w.path_mtu = is_udp ? (uint32_t)strtoul(argv[4], NULL, 10) : PATH_MTU;
    struct work work = {
        .opcode = opcode_of(argv[1]),
        .len = (uint32_t)strtoul(argv[2], NULL, 10),
        .count = strtoul(argv[3], NULL, 10),
    };
    CHECK(work.len <= BUF_LEN / DEPTH);
    if (is_udp) {
        devices_make_over_udp();
    } else {
        net_make();
        device_make(&w.side[0]);
        device_make(&w.side[1]);
    }
    connect_one(0);
    connect_one(1);
    (is_udp ? run_over_udp : run)(&work);
    return 0; // the end of the process takes the rest down
}
