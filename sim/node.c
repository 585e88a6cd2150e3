#include "sim/node.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "sim/pair.h"
#include "sim/params.h"
#include "sim/path.h"
#include "sim/sim.h"
#include "sim/tamper.h"

enum {
    ACCESS_LOCAL_WRITE = 1, // values of IBV_ACCESS_*
    ACCESS_ALL = 1 | 2 | 4 | 8 | 16,
    SRQ_LEN = 64,
    HOST_FIRST = 0x0a000001, // 10.0.0.1
};

/* ---- making ---------------------------------------------------------------------------------- */

static instant_ns sim_clock(void *ctx)
{
    return ((const struct sim *)ctx)->now_ns;
}

static bool rnic_make(struct sim_node *node)
{
    struct sim *sim = node->sim;
    const struct sim_params *p = &sim->params;
    struct rnic_parts parts = {
        .config =
            {
                .crc = p->crc[node->index],
                .markers = p->markers[node->index],
                .extensions = p->extensions[node->index],
                .peer_to_peer = p->peer_to_peer,
                .write_flush = p->write_flush,
                .tx_copy = p->tx_copy,
                .placement = p->placement,
                .oneshot = p->oneshot,
                .oneshot_parts = p->oneshot_parts,
                .mpa_revision = p->mpa_revision,
                .read_contexts = p->read_contexts,
                .read_allotment_len = p->read_allotment_len,
                .read_depth = p->read_depth,
                .read_turn_len = p->read_turn_len,
                .read_timeout_ns = 20 * NS_PER_S,
                .rnr_timeout_ns = 10 * NS_PER_S,
                .mpa_timeout_ns = 10 * NS_PER_S,
                .rnr_store_len = p->rnr_store_len,
            },
        .clock = sim_clock,
        .clock_ctx = sim,
        .trace = &sim->trace,
        .qp_num_first = (uint32_t)prng_next(&sim->rng),
        .is_simulated = true,
    };
    uint64_t key[2] = {prng_next(&sim->rng), prng_next(&sim->rng)};
    memcpy(parts.stag_key, key, sizeof parts.stag_key);
    return sim_path_attach(&sim->path, &node->addr, &parts) &&
           rnic_create(&parts, &node->rnic) == 0;
}

static void on_cq_event(void *ctx)
{
    ((struct sim_node *)ctx)->cq_events++;
}

static void on_no_event(void *ctx)
{
}

bool sim_node_register(struct sim_node *node, struct sim_block *block)
{
    uint64_t iova = (uintptr_t)block->octets;
    if (sim_draw(node->sim, 3)) {
        iova = prng_next(&node->sim->rng) >> 1 & ~UINT64_C(7); // a numbering of its own
    }
    block->iova = iova;
    int error = rnic_region_register(node->rnic, block->pd, block->octets, block->len, iova,
                                     block->access, &block->stag);
    if (error != 0) {
        sim_fail(node->sim, "node %u: registering %u octets gives %d", node->index, block->len,
                 error);
    }
    return error == 0;
}

// Twice what the receives of all sides take, so that a place is soon found.
static uint32_t block_len(const struct sim_params *p, unsigned index)
{
    uint32_t receives = 2 * p->pairs * p->recvs + (p->use_srq ? SIM_SRQ_POSTED_MAX : 0);
    return index == SIM_BLOCK_RECEIVES ? 2 * receives * p->message_max_len : p->block_len;
}

// Of RoCE, Writes to some blocks are placed beyond holes.
static uint32_t block_access(const struct sim_node *node, unsigned index)
{
    if (index == SIM_BLOCK_PRIVATE || index == SIM_BLOCK_RECEIVES) {
        return ACCESS_LOCAL_WRITE;
    }
    const bool is_relaxed = node->sim->params.wire == SIM_WIRE_ROCE && sim_draw(node->sim, 2);
    return ACCESS_ALL | (is_relaxed ? (uint32_t)SIM_ACCESS_RELAXED : 0U);
}

static bool blocks_make(struct sim_node *node)
{
    for (unsigned i = 0; i < SIM_BLOCK_COUNT; i++) {
        struct sim_block *block = &node->block[i];
        if (!sim_block_init(block, block_len(&node->sim->params, i), &node->sim->rng)) {
            return false;
        }
        block->pd = i == SIM_BLOCK_FOREIGN ? node->foreign_pd : node->pd;
        block->access = block_access(node, i);
        if (!sim_node_register(node, block)) {
            return false;
        }
    }
    return true;
}

static bool queues_make(struct sim_node *node)
{
    struct cq_port port = {.on_event = on_cq_event, .ctx = node};
    struct cq_port silent = {.on_event = on_no_event};
    const struct sim_params *p = &node->sim->params;
    return rnic_cq_create(node->rnic, SIM_CQ_LEN, &silent, &node->send_cq) == 0 &&
           rnic_cq_create(node->rnic, SIM_CQ_LEN, &port, &node->recv_cq) == 0 &&
           (!p->use_srq || rnic_srq_create(node->rnic, node->pd, SRQ_LEN, p->sge_max,
                                           &(struct rnic_async_port){0}, &node->srq) == 0);
}

bool sim_node_init(struct sim_node *node, struct sim *sim, unsigned index)
{
    *node = (struct sim_node){.sim = sim, .index = index};
    node->addr.s_addr = htonl(HOST_FIRST + index);
    list_init(&node->srq_recvs);
    node->mailbox = calloc(SIM_MAILBOX_LEN, sizeof *node->mailbox);
    if (node->mailbox == NULL || !rnic_make(node) || rnic_pd_alloc(node->rnic, &node->pd) != 0 ||
        rnic_pd_alloc(node->rnic, &node->foreign_pd) != 0 || !blocks_make(node) ||
        !queues_make(node)) {
        sim_fail(sim, "node %u: cannot be made", index);
        return false;
    }
    return true;
}

/* ---- taking down ----------------------------------------------------------------------------- */

static void srq_recvs_forget(struct sim_node *node)
{
    struct list_link *l;
    while ((l = list_pop_head(&node->srq_recvs)) != NULL) {
        struct sim_recv *recv = LIST_ENTRY(l, struct sim_recv, link);
        sim_claims_settle(recv->claim, recv->count);
        free(recv);
    }
}

static void expect(struct sim_node *node, int result, const char *what)
{
    if (result != 0) {
        sim_fail(node->sim, "node %u: %s gives %d at the end", node->index, what, result);
    }
}

static void check_live(struct sim_node *node)
{
    struct rnic_live live = rnic_live(node->rnic);
    uint32_t objects = live.pds + live.regions + live.windows + live.qps + live.cqs + live.srqs;
    if (objects + live.oneshots + live.sinks + live.endpoints != 0) {
        sim_fail(node->sim,
                 "node %u: alive at the end: pds %u regions %u windows %u oneshots %u sinks %u "
                 "qps %u cqs %u srqs %u endpoints %u",
                 node->index, live.pds, live.regions, live.windows, live.oneshots, live.sinks,
                 live.qps, live.cqs, live.srqs, live.endpoints);
    }
}

static void objects_fini(struct sim_node *node)
{
    if (node->srq != NULL) {
        expect(node, rnic_srq_destroy(node->srq), "destroying the SRQ");
    }
    if (node->send_cq != NULL) {
        expect(node, rnic_cq_destroy(node->send_cq), "destroying the send CQ");
    }
    if (node->recv_cq != NULL) {
        expect(node, rnic_cq_destroy(node->recv_cq), "destroying the receive CQ");
    }
    for (unsigned i = 0; i < SIM_BLOCK_COUNT; i++) {
        if (node->block[i].stag != 0) {
            expect(node, rnic_region_deregister(node->rnic, node->block[i].stag), "deregistering");
        }
    }
    if (node->foreign_pd != 0 && !sim_tamper_is(node->sim, SIM_TAMPER_LEAK)) {
        expect(node, rnic_pd_dealloc(node->rnic, node->foreign_pd), "deallocating a domain");
    }
    if (node->pd != 0) {
        expect(node, rnic_pd_dealloc(node->rnic, node->pd), "deallocating a domain");
    }
}

void sim_node_fini(struct sim_node *node)
{
    srq_recvs_forget(node);
    if (node->rnic != NULL) {
        objects_fini(node);
        check_live(node);
        rnic_destroy(node->rnic);
    }
    for (unsigned i = 0; i < SIM_BLOCK_COUNT; i++) {
        sim_block_fini(&node->block[i]);
    }
    free(node->mailbox);
}

void sim_node_check_memory(struct sim_node *node)
{
    char text[SIM_BLOCK_FAULT_TEXT_LEN];
    for (unsigned i = 0; i < SIM_BLOCK_COUNT; i++) {
        if (!sim_block_check(&node->block[i], text)) {
            sim_fail(node->sim, "node %u block %u: %s", node->index, i, text);
        }
    }
}
