// Two devices are made, connected, used and taken down, and the Nth allocation fails, for every N:
// whoever asked says -ENOMEM or does without, and nothing is left behind.

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "link/sim.h"
#include "rnic/create.h"
#include "tests/failing_memory.h"

enum { PORT = 4791, MEMORY_LEN = 4096, STEPS_MAX = 4000, ALLOCATIONS_MAX = 2000 };

/* ---- one life -------------------------------------------------------------------------------- */

struct end {
    struct rnic *rnic;
    struct rnic_cq *cq;
    struct rnic_qp *qp;
    struct rnic_ep *ep;
    uint32_t pd, stag;
    bool is_established, has_ended;
    uint8_t memory[MEMORY_LEN];
};

static struct life {
    instant_ns now_ns;
    struct sim_net *net;
    struct rnic_ep *listener;
    struct end end[2];
    unsigned completions;
} life;

static instant_ns life_clock(void *ctx)
{
    return life.now_ns;
}

static void on_end_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct end *e = ctx;
    e->is_established |= event->type == RNIC_EP_ESTABLISHED;
    e->has_ended |= event->type >= RNIC_EP_REJECTED;
}

static void on_request(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    life.end[1].ep = event->new_ep;
    *event->new_ep_port = (struct rnic_ep_port){.on_event = on_end_event, .ctx = &life.end[1]};
}

static void on_cq_event(void *ctx)
{
}

static struct sockaddr_in addr_of(unsigned host)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(PORT),
                                .sin_addr.s_addr = htonl(0x0a000001 + host)};
}

static int end_create(struct end *e, unsigned host)
{
    struct in_addr addr = addr_of(host).sin_addr;
    struct rnic_parts parts = {
        .config = {.crc = true,
                   .read_contexts = 16,
                   .extensions = host == 0, // so that both ways of framing have their turn
                   .peer_to_peer = true,
                   .mpa_revision = 2,
                   .rnr_store_len = 8192,
                   .rnr_timeout_ns = NS_PER_S,
                   .mpa_timeout_ns = NS_PER_S},
        .link = sim_net_attach(life.net, &addr, 1),
        .clock = life_clock,
        .is_simulated = true,
    };
    struct cq_port port = {.on_event = on_cq_event};
    int error = parts.link != NULL ? rnic_create(&parts, &e->rnic) : -ENOMEM;
    error = error != 0 ? error : rnic_pd_alloc(e->rnic, &e->pd);
    error = error != 0
                ? error
                : rnic_region_register(e->rnic, e->pd, e->memory, MEMORY_LEN, 0, 7, &e->stag);
    error = error != 0 ? error : rnic_cq_create(e->rnic, 64, &port, &e->cq);
    struct rnic_qp_init init = {.pd = e->pd,
                                .send_cq = e->cq,
                                .recv_cq = e->cq,
                                .max_send_wr = 8,
                                .max_recv_wr = 8,
                                .max_send_sge = 2,
                                .max_recv_sge = 2};
    return error != 0 ? error : rnic_qp_create(e->rnic, &init, &e->qp);
}

static void end_destroy(struct end *e)
{
    if (e->ep != NULL) {
        rnic_ep_destroy(e->ep);
    }
    if (e->qp != NULL) {
        rnic_qp_destroy(e->qp);
    }
    if (e->cq != NULL) {
        assert_int_equal(rnic_cq_destroy(e->cq), 0);
    }
    if (e->stag != 0) {
        assert_int_equal(rnic_region_deregister(e->rnic, e->stag), 0);
    }
    if (e->pd != 0) {
        assert_int_equal(rnic_pd_dealloc(e->rnic, e->pd), 0);
    }
    if (e->rnic != NULL) {
        struct rnic_live live = rnic_live(e->rnic);
        assert_int_equal(
            live.pds + live.regions + live.sinks + live.qps + live.cqs + live.endpoints, 0);
        rnic_destroy(e->rnic);
    }
}

static int connect_begin(void)
{
    struct sockaddr_in addr = addr_of(1);
    struct rnic_ep_port on_listener = {.on_event = on_request};
    struct rnic_ep_port port = {.on_event = on_end_event, .ctx = &life.end[0]};
    struct rnic_ep_params params = {.ird = 4, .ord = 4};
    int error =
        rnic_ep_bind(life.end[1].rnic, (struct sockaddr *)&addr, 0, &on_listener, &life.listener);
    error = error != 0 ? error : rnic_ep_listen(life.listener, 4);
    error = error != 0 ? error : rnic_ep_bind(life.end[0].rnic, NULL, 0, &port, &life.end[0].ep);
    return error != 0
               ? error
               : rnic_ep_connect(life.end[0].ep, (struct sockaddr *)&addr, life.end[0].qp, &params);
}

static void post_read(void)
{
    struct end *e = &life.end[0];
    struct send_wqe *wqe = wq_send_slot(e->qp->wq, 0);
    wqe->wr_id = 1;
    wqe->opcode = WQE_RDMA_READ;
    wqe->flags = WQE_SIGNALED;
    wqe->rkey = life.end[1].stag;
    wqe->remote_addr = 0;
    wqe->length = MEMORY_LEN;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){.addr = 0, .length = MEMORY_LEN, .lkey = e->stag};
    wq_send_commit(e->qp->wq, 1);
    rnic_qp_ring_sq(e->qp);
}

// Everything moves until the read is complete, or somebody has given up.
static void run(void)
{
    struct rnic_ep_params params = {.ird = 4, .ord = 4};
    bool is_answered = false, is_posted = false;
    struct cqe cqe;
    for (unsigned i = 0; i < STEPS_MAX && life.completions == 0; i++) {
        bool moved = sim_net_advance(life.net);
        moved |= rnic_step(life.end[0].rnic);
        moved |= rnic_step(life.end[1].rnic);
        if (life.end[1].ep != NULL && !is_answered) {
            is_answered = true;
            rnic_ep_accept(life.end[1].ep, life.end[1].qp, &params);
        }
        if (life.end[0].is_established && !is_posted) {
            is_posted = true;
            post_read();
        }
        life.completions += (unsigned)rnic_cq_poll(life.end[0].cq, &cqe, 1);
        if (!moved) {
            instant_ns at_ns = instant_min(sim_net_next_event(life.net),
                                           instant_min(rnic_next_deadline(life.end[0].rnic),
                                                       rnic_next_deadline(life.end[1].rnic)));
            if (at_ns == INSTANT_NEVER) {
                return;
            }
            life.now_ns = at_ns > life.now_ns ? at_ns : life.now_ns;
        }
    }
}

static void live_and_die(void)
{
    life = (struct life){.now_ns = NS_PER_S};
    life.net = sim_net_create(&(struct sim_net_config){.seed = 1,
                                                       .clock = life_clock,
                                                       .delay_max_ns = 1000,
                                                       .window_len = 8192,
                                                       .piece_max_len = 3000,
                                                       .emss = 1460,
                                                       .peer_timeout_ns = NS_PER_S});
    if (life.net == NULL) {
        return;
    }
    if (end_create(&life.end[0], 0) == 0 && end_create(&life.end[1], 1) == 0 &&
        connect_begin() == 0) {
        run();
    }
    memory_fails_at = 0;
    if (life.listener != NULL) {
        rnic_ep_destroy(life.listener);
    }
    end_destroy(&life.end[0]);
    end_destroy(&life.end[1]);
    sim_net_destroy(life.net);
}

static void without_failures_the_read_completes(void **state)
{
    live_and_die();
    assert_int_equal(life.completions, 1);
    assert_true(life.end[1].is_established);
}

static void any_allocation_may_fail_and_nothing_is_left_behind(void **state)
{
    memory_fail_at(0);
    live_and_die();
    uint64_t count = memory_calls;
    assert_in_range(count, 20, ALLOCATIONS_MAX);
    for (uint64_t n = 1; n <= count; n++) {
        int64_t before = memory_blocks;
        memory_fail_at(n);
        live_and_die();
        memory_fail_at(0);
        if (memory_blocks != before) {
            fail_msg("allocation %ju of %ju failed, and %jd blocks are left", (uintmax_t)n,
                     (uintmax_t)count, (intmax_t)(memory_blocks - before));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_failures_the_read_completes),
        cmocka_unit_test(any_allocation_may_fail_and_nothing_is_left_behind),
    };
    return cmocka_run_group_tests_name("sim/allocation", tests, NULL, NULL);
}
