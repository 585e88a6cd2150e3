// What a bad path costs one connection, and what placing beyond holes changes about it.
//
//     bench-paths PLACEMENT FAULTS OP LEN COUNT BUFFER [LINK]
//
// Two devices over a simulated wire (link/wire.h): 10 Gbit/s, 50 us each way, packets of 1500
// octets, a TCP window of 1 MiB and a buffer of BUFFER octets for what cannot be placed. PLACEMENT
// is early, strict or off, FAULTS as in WEFT_FAULT ("" for none), OP write, send or read: COUNT
// messages of LEN octets, DEPTH of them posted at a time. LINK is tap or udp, tap if it is not
// said: what the TCP is told there (link_packet_tune); the packets are the same. Time is virtual:
// it has no noise, and no processor. Prints one line of JSON:
//
//     octets_per_s                goodput, until the last message was delivered
//     p50_us, p99_us, max_us      from post to delivery; of a Write, to that of the Send behind it,
//                                 of a Read, to its completion
//     buffered_share              octets copied into TCP's buffer, per octet of the stream
//     buffered_peak               most octets in that buffer at a time
//     early_share                 octets placed beyond holes, per octet of the stream
//     retransmits, spurious, recoveries, timeouts     of the sender
//     overflows                   packets that the queue had no room for
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bench/measure.h"
#include "link/packet/internal.h"
#include "link/packet/packet.h"
#include "link/wire.h"
#include "rnic/create.h"
#include "rnic/ep/ep.h"
#include "rnic/internal.h"

enum {
    PORT = 7471,
    MTU = 1500,
    DEPTH = 16,
    QUEUE_LEN = 1 << 20,
    COUNT_MAX = 1 << 20,
    BUF_LEN = 4 << 20,
    PATIENCE_S = 3600, // of virtual time
};
static const uint64_t rate = 1250000000;
static const duration_ns delay_ns = 50 * NS_PER_US;

struct side {
    struct rnic *rnic;
    struct rnic_ep *ep;
    struct rnic_qp *qp;
    struct rnic_cq *cq;
    uint32_t pd, stag;
    uint8_t *buf;
    struct rnic_ep *asking; // the connection that asks
    bool is_established;
};

static struct world {
    instant_ns now;
    struct wire *wire;
    struct side side[2]; // 0 sends, 1 receives
} w;

/* ---- the world ------------------------------------------------------------------------------- */

static instant_ns clock_of(void *ctx)
{
    (void)ctx;
    return w.now;
}

static struct sockaddr_in addr_of(unsigned index)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(PORT),
                                .sin_addr.s_addr = htonl(0x0a000001 + index)};
}

static void on_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct side *side = ctx;
    if (event->status != 0)
        fprintf(stderr, "type %d status %d now %lld\n", event->type, event->status,
                (long long)w.now);
    CHECK(event->status == 0);
    if (event->type == RNIC_EP_CONNECT_REQUEST) {
        side->asking = event->new_ep;
        *event->new_ep_port = (struct rnic_ep_port){.on_event = on_event, .ctx = side};
    }
    side->is_established |= event->type == RNIC_EP_ESTABLISHED;
}

// Everything that is due, then on to the next instant at which something is.
static void step(void)
{
    bool moved = true;
    while (moved) {
        moved = wire_advance(w.wire);
        moved = rnic_step(w.side[0].rnic) || moved;
        moved = rnic_step(w.side[1].rnic) || moved;
    }
    instant_ns at_ns = wire_next_event(w.wire);
    for (unsigned i = 0; i < 2; i++) {
        at_ns = instant_min(at_ns, rnic_next_deadline(w.side[i].rnic));
    }
    CHECK(at_ns != INSTANT_NEVER);
    w.now = at_ns > w.now ? at_ns : w.now;
    CHECK(w.now < PATIENCE_S * NS_PER_S);
}

static void wire_make(const char *link, const char *faults, uint32_t buffer_len)
{
    struct wire_config config = {
        .clock = clock_of,
        .rate = rate,
        .queue_len = QUEUE_LEN,
        .mtu = MTU,
        .tcp = tcp_config_default,
        .linger_ns = NS_PER_S,
    };
    config.tcp.buffer_len = buffer_len;
    if (strcmp(link, "udp") == 0) {
        link_packet_tune(&config.tcp);
    }
    CHECK(fault_config_parse(faults, &config.faults));
    config.faults.delay_ns += delay_ns;
    w.now = NS_PER_S;
    w.wire = wire_create(&config);
    CHECK(w.wire != NULL);
}

static void device_make(struct side *side, unsigned index, uint32_t placement)
{
    const struct cq_port quiet = {0};
    struct in_addr addr = addr_of(index).sin_addr;
    struct rnic_parts parts = {
        .config = {.crc = true,
                   .extensions = true,
                   .peer_to_peer = true,
                   .placement = placement,
                   .mpa_revision = 2,
                   .rnr_store_len = 256 * 1024,
                   .read_contexts = 128,
                   .read_timeout_ns = 30 * NS_PER_S,
                   .rnr_timeout_ns = 8 * NS_PER_S,
                   .mpa_timeout_ns = 10 * NS_PER_S},
        .link = wire_attach(w.wire, &addr, 1),
        .clock = clock_of,
        .qp_num_first = 100 + index,
        .is_simulated = true,
    };
    CHECK(parts.link != NULL);
    CHECK(rnic_create(&parts, &side->rnic) == 0);
    side->buf = calloc(1, BUF_LEN);
    CHECK(side->buf != NULL);
    CHECK(rnic_pd_alloc(side->rnic, &side->pd) == 0);
    CHECK(rnic_region_register(side->rnic, side->pd, side->buf, BUF_LEN, (uintptr_t)side->buf,
                               MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE |
                                   MEM_ACCESS_REMOTE_READ,
                               &side->stag) == 0);
    CHECK(rnic_cq_create(side->rnic, 4 * DEPTH, &quiet, &side->cq) == 0);
    const struct rnic_qp_init init = {.pd = side->pd,
                                      .send_cq = side->cq,
                                      .recv_cq = side->cq,
                                      .max_send_wr = DEPTH,
                                      .max_recv_wr = 2 * DEPTH,
                                      .max_send_sge = 1,
                                      .max_recv_sge = 1};
    CHECK(rnic_qp_create(side->rnic, &init, &side->qp) == 0);
}

static void connect_both(void)
{
    struct side *a = &w.side[0], *b = &w.side[1];
    struct rnic_ep_params params = {.ird = DEPTH, .ord = DEPTH};
    struct rnic_ep_port port_a = {on_event, a}, port_b = {on_event, b};
    struct sockaddr_in to = addr_of(1);
    struct rnic_ep *listener;
    CHECK(rnic_ep_bind(b->rnic, (struct sockaddr *)&to, 0, &port_b, &listener) == 0);
    CHECK(rnic_ep_listen(listener, 1) == 0);
    CHECK(rnic_ep_bind(a->rnic, NULL, 0, &port_a, &a->ep) == 0);
    CHECK(rnic_ep_connect(a->ep, (struct sockaddr *)&to, a->qp, &params) == 0);
    while (b->asking == NULL) {
        step();
    }
    b->ep = b->asking;
    CHECK(rnic_ep_accept(b->ep, b->qp, &params) == 0);
    while (!a->is_established || !b->is_established) {
        step();
    }
}

/* ---- the work -------------------------------------------------------------------------------- */

static void post_receive(uint64_t wr_id, uint32_t len)
{
    struct side *b = &w.side[1];
    struct recv_wqe *wqe = wq_receive_slot(b->qp->wq, 0);
    CHECK(wqe != NULL);
    wqe->wr_id = wr_id;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){(uintptr_t)b->buf + wr_id % DEPTH * len, len, b->stag};
    wq_receive_commit(b->qp->wq, 1);
    rnic_qp_ring_rq(b->qp);
}

static void post(enum wqe_opcode opcode, uint64_t wr_id, uint32_t len)
{
    struct side *a = &w.side[0], *b = &w.side[1];
    struct send_wqe *wqe = wq_send_slot(a->qp->wq, 0);
    CHECK(wqe != NULL);
    *wqe = (struct send_wqe){.wr_id = wr_id,
                             .opcode = opcode,
                             .flags = WQE_SIGNALED,
                             .rkey = b->stag,
                             .remote_addr = (uintptr_t)b->buf + wr_id % DEPTH * len,
                             .sge_count = 1,
                             .length = len};
    wqe->sge[0] = (struct sge){(uintptr_t)a->buf + wr_id % DEPTH * len, len, a->stag};
    wq_send_commit(a->qp->wq, 1);
    rnic_qp_ring_sq(a->qp);
}

struct work {
    enum wqe_opcode opcode;
    uint32_t len;
    uint64_t count, posted, received;
    instant_ns *posted_at_ns;
    double *latency_us;
};

static void note_delivery(struct work *work, const struct cqe *cqe)
{
    CHECK(cqe->wr_id == work->received); // in order, each once
    double us = (double)(w.now - work->posted_at_ns[cqe->wr_id]) / NS_PER_US;
    work->latency_us[work->received++] = us;
}

static void poll_sender(struct work *work)
{
    struct cqe cqe;
    while (rnic_cq_poll(w.side[0].cq, &cqe, 1) == 1) {
        CHECK(cqe.status == CQE_STATUS_SUCCESS);
        if (work->opcode == WQE_RDMA_READ) {
            note_delivery(work, &cqe);
        }
    }
}

// A Write tells nobody at its target: each is followed by what does (an empty Send).
static void poll_receiver(struct work *work)
{
    struct cqe cqe;
    while (rnic_cq_poll(w.side[1].cq, &cqe, 1) == 1) {
        CHECK(cqe.status == CQE_STATUS_SUCCESS);
        note_delivery(work, &cqe);
        post_receive(cqe.wr_id + DEPTH, work->len);
    }
}

static void post_more(struct work *work)
{
    unsigned each = work->opcode == WQE_RDMA_WRITE ? 2 : 1;
    while (work->posted < work->count && work->posted - work->received < DEPTH / each &&
           wq_send_slot(w.side[0].qp->wq, each - 1) != NULL) {
        work->posted_at_ns[work->posted] = w.now;
        post(work->opcode, work->posted, work->len);
        if (work->opcode == WQE_RDMA_WRITE) {
            post(WQE_SEND, work->posted, 0);
        }
        work->posted++;
    }
}

static duration_ns run(struct work *work)
{
    instant_ns from_ns = w.now;
    for (uint64_t i = 0; i < DEPTH; i++) {
        post_receive(i, work->len);
    }
    while (work->received < work->count) {
        post_more(work);
        step();
        poll_sender(work);
        poll_receiver(work);
    }
    return w.now - from_ns;
}

static const struct tcp_counters *counters_of(const struct side *side)
{
    struct tcp_info info;
    tcp_get_info(packet_stream_of(side->ep->stream)->connection.tcb, &info);
    return info.counters;
}

static void print(const struct work *work, duration_ns took_ns)
{
    // Of the end that the data came from, and of the one that it came to.
    unsigned to = work->opcode == WQE_RDMA_READ ? 0 : 1;
    const struct tcp_counters *s = counters_of(&w.side[1 - to]), *c = counters_of(&w.side[to]);
    qsort(work->latency_us, work->count, sizeof work->latency_us[0], compare_double);
    printf("{\"octets_per_s\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f, "
           "\"buffered_share\": %.5f, \"buffered_peak\": %llu, \"early_share\": %.5f, ",
           1e9 * (double)(work->count * work->len) / (double)took_ns,
           work->latency_us[work->count / 2], work->latency_us[work->count * 99 / 100],
           work->latency_us[work->count - 1], (double)c->octets_buffered / (double)c->octets_in,
           (unsigned long long)c->buffered_peak,
           (double)c->octets_placed_early / (double)c->octets_in);
    printf("\"retransmits\": %llu, \"spurious\": %llu, \"recoveries\": %llu, \"timeouts\": %llu, "
           "\"overflows\": %llu}\n",
           (unsigned long long)s->retransmits, (unsigned long long)s->spurious_retransmits,
           (unsigned long long)s->recoveries, (unsigned long long)s->timeouts,
           (unsigned long long)wire_overflows(w.wire));
}

static uint32_t placement_of(const char *word)
{
    for (uint32_t i = 0; i < PLACEMENT_COUNT; i++) {
        if (strcmp(mpa_placement_name((enum placement)i), word) == 0) {
            return i;
        }
    }
    fprintf(stderr, "bench-paths: no placement is called %s\n", word);
    exit(2);
}

static enum wqe_opcode opcode_of(const char *word)
{
    return strcmp(word, "write") == 0  ? WQE_RDMA_WRITE
           : strcmp(word, "read") == 0 ? WQE_RDMA_READ
                                       : WQE_SEND;
}

int main(int argc, char **argv)
{
    if (argc != 7 && argc != 8) {
        fprintf(stderr, "usage: bench-paths PLACEMENT FAULTS OP LEN COUNT BUFFER [LINK]\n");
        return 2;
    }
    struct work work = {
        .opcode = opcode_of(argv[3]),
        .len = (uint32_t)strtoul(argv[4], NULL, 10),
        .count = strtoul(argv[5], NULL, 10),
    };
    CHECK(work.count > 0);
    CHECK(work.count < COUNT_MAX);
    CHECK(work.len <= BUF_LEN / DEPTH);
    work.posted_at_ns = calloc(work.count, sizeof work.posted_at_ns[0]);
    work.latency_us = calloc(work.count, sizeof work.latency_us[0]);
    CHECK(work.posted_at_ns != NULL);
    CHECK(work.latency_us != NULL);
    wire_make(argc == 8 ? argv[7] : "tap", argv[2], (uint32_t)strtoul(argv[6], NULL, 10));
    for (unsigned i = 0; i < 2; i++) {
        device_make(&w.side[i], i, placement_of(argv[1]));
    }
    connect_both();
    print(&work, run(&work));
    return 0; // the end of the process takes the rest down
}
