#include "tests/sim/crowd.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "iwarp/qp.h"

enum {
    PORT = 7,
    ORD = 8,
    FENCE = 0xfe,
    WINDOW_LEN = 4 << 20,
    WINDOWS_LEN = 1 << 30, // of all connections: a test must do with little address space
};

static instant_ns crowd_clock(void *ctx)
{
    return ((const struct crowd *)ctx)->now_ns;
}

static struct sockaddr_in addr_of(unsigned host)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(PORT),
                                .sin_addr.s_addr = htonl(0x0a000001 + host)};
}

struct rnic_config crowd_config(uint32_t contexts, uint32_t allotment_len)
{
    return (struct rnic_config){
        .crc = true,
        .extensions = true,
        .mpa_revision = 2,
        .rnr_store_len = 4096,
        .rnr_timeout_ns = NS_PER_S,
        .mpa_timeout_ns = 10 * NS_PER_S,
        .read_contexts = contexts,
        .read_allotment_len = allotment_len,
        .read_timeout_ns = 30 * NS_PER_S,
    };
}

/* ---- making ---------------------------------------------------------------------------------- */

static void on_end_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    ((struct crowd_end *)ctx)->is_established |= event->type == RNIC_EP_ESTABLISHED;
}

static void on_request(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct crowd *c = ctx;
    struct crowd_end *e = &c->end[1][c->accepted++];
    e->ep = event->new_ep;
    *event->new_ep_port = (struct rnic_ep_port){.on_event = on_end_event, .ctx = e};
}

static void on_cq_event(void *ctx)
{
}

static void nic_open(struct crowd *c, unsigned side, const struct rnic_config *config)
{
    struct crowd_nic *nic = &c->nic[side];
    struct in_addr addr = addr_of(side).sin_addr;
    struct rnic_parts parts = {
        .config = *config,
        .clock = crowd_clock,
        .clock_ctx = c,
        .stag_key = {(uint8_t)(side + 1)},
        .is_simulated = true,
    };
    const struct cq_port port = {.on_event = on_cq_event};
    assert_true(sim_path_attach(&c->path, &addr, &parts));
    assert_int_equal(rnic_create(&parts, &nic->rnic), 0);
    assert_int_equal(rnic_pd_alloc(nic->rnic, &nic->pd), 0);
    nic->crowd = c;
    nic->memory_len =
        side == 1 ? CROWD_SOURCE_LEN : (size_t)c->count * (CROWD_PLACE_LEN + 2 * CROWD_FENCE_LEN);
    nic->memory = malloc(nic->memory_len);
    assert_non_null(nic->memory);
    memset(nic->memory, FENCE, nic->memory_len);
    uint32_t access = MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_READ;
    assert_int_equal(rnic_region_register(nic->rnic, nic->pd, nic->memory, nic->memory_len,
                                          (uintptr_t)nic->memory, access, &nic->stag),
                     0);
    assert_int_equal(rnic_cq_create(nic->rnic, 8192, &port, &nic->cq), 0);
}

static void end_open(struct crowd *c, unsigned side, unsigned i)
{
    struct crowd_end *e = &c->end[side][i];
    struct crowd_nic *nic = &c->nic[side];
    const struct rnic_qp_init init = {
        .pd = nic->pd,
        .send_cq = nic->cq,
        .recv_cq = nic->cq,
        .max_send_wr = 4,
        .max_recv_wr = 4,
        .max_send_sge = 2,
        .max_recv_sge = 1,
    };
    e->nic = nic;
    e->index = i;
    assert_int_equal(rnic_qp_create(nic->rnic, &init, &e->qp), 0);
}

static void connect_one(struct crowd *c, unsigned i)
{
    const struct rnic_ep_params params = {.ird = ORD, .ord = ORD};
    struct sockaddr_in addr = addr_of(1);
    struct crowd_end *a = &c->end[0][i], *b = &c->end[1][i];
    struct rnic_ep_port port = {.on_event = on_end_event, .ctx = a};
    assert_int_equal(rnic_ep_bind(a->nic->rnic, NULL, 0, &port, &a->ep), 0);
    assert_int_equal(rnic_ep_connect(a->ep, (struct sockaddr *)&addr, a->qp, &params), 0);
    bool is_answered = false;
    while (!a->is_established || !b->is_established) {
        assert_true(crowd_step(c));
        if (b->ep != NULL && !is_answered) {
            is_answered = true;
            assert_int_equal(rnic_ep_accept(b->ep, b->qp, &params), 0);
        }
    }
}

static void path_make(struct crowd *c, const struct crowd_options *o)
{
    uint32_t share_len = WINDOWS_LEN / (2 * o->count);
    const struct sim_params params = {
        .delay_max_ns = o->delay_max_ns > 0 ? o->delay_max_ns : NS_PER_US,
        .window_len = share_len < WINDOW_LEN ? share_len : WINDOW_LEN,
        .piece_max_len = 64 << 10,
        .emss = 16384,
        .has_packets = o->is_lossy,
        .packet_loss = o->is_lossy ? 20000 : 0,
        .packet_mtu = 1500,
        .packet_window_len = 1 << 20,
        .packet_buffer_len = 1 << 20,
        .packet_range_max = 64,
    };
    assert_true(sim_path_make(&c->path, &params, o->seed, crowd_clock, c));
}

struct crowd *crowd_open(const struct crowd_options *o)
{
    struct crowd *c = calloc(1, sizeof *c);
    c->now_ns = NS_PER_S;
    c->count = o->count;
    prng_init(&c->prng, o->seed);
    path_make(c, o);
    for (unsigned side = 0; side < 2; side++) {
        nic_open(c, side, &o->nic[side]);
        c->end[side] = calloc(o->count, sizeof c->end[side][0]);
        for (unsigned i = 0; i < o->count; i++) {
            end_open(c, side, i);
        }
    }
    for (size_t i = 0; i < CROWD_SOURCE_LEN; i++) {
        c->nic[1].memory[i] = (uint8_t)prng_next(&c->prng);
    }
    struct sockaddr_in addr = addr_of(1);
    struct rnic_ep_port port = {.on_event = on_request, .ctx = c};
    assert_int_equal(rnic_ep_bind(c->nic[1].rnic, (struct sockaddr *)&addr, 0, &port, &c->listener),
                     0);
    assert_int_equal(rnic_ep_listen(c->listener, 4), 0);
    for (unsigned i = 0; i < o->count; i++) {
        connect_one(c, i);
    }
    return c;
}

void crowd_close(struct crowd *c)
{
    rnic_ep_destroy(c->listener);
    for (unsigned side = 0; side < 2; side++) {
        struct crowd_nic *nic = &c->nic[side];
        for (unsigned i = 0; i < c->count; i++) {
            rnic_ep_destroy(c->end[side][i].ep);
            rnic_qp_destroy(c->end[side][i].qp);
        }
        assert_int_equal(rnic_cq_destroy(nic->cq), 0);
        assert_int_equal(rnic_region_deregister(nic->rnic, nic->stag), 0);
        assert_int_equal(rnic_pd_dealloc(nic->rnic, nic->pd), 0);
        const struct rnic_live live = rnic_live(nic->rnic);
        assert_int_equal(live.sinks + live.qps + live.cqs + live.regions + live.endpoints, 0);
        assert_int_equal(rnic_reads(nic->rnic).contexts_in_use, 0);
        rnic_destroy(nic->rnic);
        free(nic->memory);
        free(c->end[side]);
    }
    sim_path_end(&c->path);
    free(c);
}

/* ---- reading --------------------------------------------------------------------------------- */

static uint8_t *place_of(const struct crowd *c, unsigned i)
{
    size_t stride = CROWD_PLACE_LEN + 2 * CROWD_FENCE_LEN;
    return c->nic[0].memory + i * stride + CROWD_FENCE_LEN;
}

void crowd_read(struct crowd *c, unsigned i, uint32_t len)
{
    struct crowd_end *e = &c->end[0][i];
    assert_false(crowd_is_reading(c, i));
    assert_true(len > 0 && len <= CROWD_PLACE_LEN);
    e->len = len;
    e->from = prng_below(&c->prng, CROWD_SOURCE_LEN - len + 1);
    e->posted_ns = c->now_ns;
    memset(place_of(c, i), FENCE, CROWD_PLACE_LEN);
    struct send_wqe *wqe = wq_send_slot(e->qp->wq, 0);
    wqe->wr_id = i;
    wqe->opcode = WQE_RDMA_READ;
    wqe->flags = WQE_SIGNALED;
    wqe->rkey = c->nic[1].stag;
    wqe->remote_addr = (uintptr_t)c->nic[1].memory + e->from;
    wqe->length = len;
    uint32_t first = prng_below(&c->prng, len + 1); // two elements
    wqe->sge_count = 2;
    wqe->sge[0] = (struct sge){(uintptr_t)place_of(c, i), first, c->nic[0].stag};
    wqe->sge[1] = (struct sge){(uintptr_t)place_of(c, i) + first, len - first, c->nic[0].stag};
    wq_send_commit(e->qp->wq, 1);
    rnic_qp_ring_sq(e->qp);
}

bool crowd_is_reading(const struct crowd *c, unsigned i)
{
    return c->end[0][i].len > 0;
}

static void expect_fence(const uint8_t *octets, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(octets[i], FENCE);
    }
}

static void take_completion(struct crowd *c, const struct cqe *cqe)
{
    struct crowd_end *e = &c->end[0][cqe->wr_id];
    uint8_t *place = place_of(c, e->index);
    assert_true(e->len > 0); // once
    if (cqe->status == 0) {
        assert_memory_equal(place, c->nic[1].memory + e->from, e->len);
        e->completed++;
        e->octets += e->len;
    } else {
        e->failed++;
    }
    expect_fence(place - CROWD_FENCE_LEN, CROWD_FENCE_LEN);
    expect_fence(place + e->len, CROWD_PLACE_LEN - e->len + CROWD_FENCE_LEN);
    duration_ns took_ns = c->now_ns - e->posted_ns;
    e->worst_ns = took_ns > e->worst_ns ? took_ns : e->worst_ns;
    e->len = 0;
}

bool crowd_step(struct crowd *c)
{
    bool moved = sim_path_advance(&c->path, c->now_ns);
    instant_ns at_ns = sim_path_next_event(&c->path);
    for (unsigned side = 0; side < 2; side++) {
        struct cqe cqe;
        moved |= rnic_step(c->nic[side].rnic);
        while (rnic_cq_poll(c->nic[side].cq, &cqe, 1) == 1) {
            moved = true;
            take_completion(c, &cqe);
        }
        at_ns = instant_min(at_ns, rnic_next_deadline(c->nic[side].rnic));
    }
    if (!moved && at_ns != INSTANT_NEVER && at_ns > c->now_ns) {
        c->now_ns = at_ns;
    }
    return moved || at_ns != INSTANT_NEVER;
}

uint32_t crowd_request_len(const struct crowd *c, unsigned side, unsigned i)
{
    return qp_query(qp_of_transport(c->end[side][i].qp->transport)).request_len;
}
