#include "sim/stranger.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/bytes.h"
#include "base/port_datagram.h"
#include "base/prng.h"
#include "base/span.h"
#include "link/datagram/sim.h"
#include "sim/node.h"
#include "sim/oracle_memory.h"
#include "sim/pair.h"
#include "sim/params.h"
#include "sim/path.h"
#include "sim/sim.h"
#include "wire/bth.h"
#include "wire/roce.h"

enum { PAYLOAD_MAX = 4096, PSN_MASK = 0xffffff, QKEY = 0x11111111 };

#define OWN_HOST 0x0a424242 // 10.66.66.66

struct in_addr sim_stranger_addr(void)
{
    return (struct in_addr){.s_addr = htonl(OWN_HOST)};
}

static struct in6_addr own_addr(const struct sim *sim)
{
    const struct in_addr addr = sim_stranger_addr();
    return sim_path_addr(&sim->path, &addr);
}

bool sim_stranger_init(struct sim *sim)
{
    const struct in6_addr addr = own_addr(sim);
    if (sim->path.datagrams == NULL) {
        return true;
    }
    sim->stranger.link = datagram_net_attach(sim->path.datagrams, &addr, 1);
    return sim->stranger.link != NULL;
}

void sim_stranger_fini(struct sim *sim)
{
    if (sim->stranger.link != NULL) {
        datagram_destroy(sim->stranger.link);
        sim->stranger.link = NULL;
    }
}

static struct sim_side *draw_target(struct sim *sim)
{
    struct sim_pair *pair = &sim->pair[prng_below(&sim->rng, sim->params.pairs)];
    struct sim_side *side = &pair->side[prng_below(&sim->rng, 2)];
    return pair->phase != SIM_PHASE_NONE && side->qp != NULL ? side : NULL;
}

// What is known of its memory to who has everything.
static void name_memory(struct sim *sim, struct roce_packet *p, const struct sim_side *side)
{
    const struct sim_block *block = &side->node->block[prng_below(&sim->rng, SIM_BLOCK_OPEN_COUNT)];
    uint64_t va = block->iova + prng_below(&sim->rng, block->len);
    p->reth =
        (struct reth){.va = va, .rkey = block->stag, .dma_len = prng_below(&sim->rng, PAYLOAD_MAX)};
    p->atomiceth = (struct atomiceth){
        .va = va & ~UINT64_C(7), .rkey = block->stag, .swap_add = prng_next(&sim->rng)};
    p->ieth.rkey = side->window.rkey;
}

static void draw_packet(struct sim *sim, struct roce_packet *p, const struct sim_side *side,
                        bool is_spoofed)
{
    static const uint8_t transports[] = {ROCE_RC, ROCE_RC, ROCE_RC, ROCE_RC, ROCE_UC, ROCE_UD};
    uint8_t opcode;
    do {
        opcode = transports[prng_below(&sim->rng, sizeof transports)] |
                 (uint8_t)prng_below(&sim->rng, ROCE_OPERATION_MASK);
        opcode = sim_draw(sim, 16) ? ROCE_CNP : opcode;
    } while (!roce_opcode_facts(opcode)->is_known);
    name_memory(sim, p, side);
    p->reth.rkey ^= is_spoofed ? 1U + prng_below(&sim->rng, UINT32_MAX) : 0;
    p->atomiceth.rkey ^= is_spoofed ? 1U + prng_below(&sim->rng, UINT32_MAX) : 0;
    p->ieth.rkey ^= is_spoofed ? 1U + prng_below(&sim->rng, UINT32_MAX) : 0;
    p->aeth = (struct aeth){.syndrome = (uint8_t)prng_next(&sim->rng),
                            .msn = (uint32_t)prng_next(&sim->rng) & PSN_MASK};
    p->deth = (struct deth){.qkey = QKEY, .src_qp = side->qp_num};
    p->bth = (struct bth){
        .opcode = opcode,
        .pkey = BTH_PKEY_DEFAULT,
        .dest_qp = side->qp_num,
        .ack_req = sim_draw(sim, 2),
        .psn = (uint32_t)prng_next(&sim->rng) & PSN_MASK,
    };
}

static void put(struct sim *sim, const struct roce_packet *packet, const struct datagram_path *path)
{
    static const uint8_t octets[PAYLOAD_MAX] = {0x66, 0x66, 0x66};
    struct roce_packet p = *packet;
    uint8_t head[ROCE_HEAD_MAX_LEN];
    uint32_t len = sim_draw(sim, 2) ? 0 : prng_below(&sim->rng, sim->params.roce.path_mtu + 1);
    p.bth.pad_len = roce_pad_len(len);
    const struct span payload = span_of(octets, len);
    size_t head_len = roce_head_emit(&p, head);
    if (sim_draw(sim, 8)) { // cut short
        head_len = BTH_LEN + prng_below(&sim->rng, (uint32_t)(head_len - BTH_LEN) + 1);
    }
    const struct datagram_tx tx = {
        .path = path,
        .head = span_of(head, head_len),
        .pieces = &payload,
        .piece_count = len > 0,
        .pad_len = p.bth.pad_len,
    };
    datagram_put(sim->stranger.link, &tx);
    datagram_flush(sim->stranger.link);
}

// What somebody else has sent, changed, as what follows it, and from its own address.
static void imitate(struct sim *sim)
{
    uint8_t octets[DATAGRAM_LEN_MAX];
    struct datagram_path path;
    size_t len =
        datagram_net_overhear(sim->path.datagrams, prng_below(&sim->rng, 8), octets, &path);
    if (len == 0) {
        return;
    }
    uint32_t psn = get_be32(octets + BTH_OFF_PSN - 1);
    put_be32(octets + BTH_OFF_PSN - 1,
             (psn & ~(uint32_t)PSN_MASK) | ((psn + prng_below(&sim->rng, 3)) & PSN_MASK));
    octets[len - 1 - prng_below(&sim->rng, (uint32_t)len - BTH_LEN + 1)] ^= 1;
    path.local = own_addr(sim);
    const struct datagram_tx tx = {.path = &path, .head = span_of(octets, len)};
    sim_trace(sim, "a stranger imitates a packet to %06x", get_be32(octets + BTH_OFF_DEST_QP - 1));
    datagram_put(sim->stranger.link, &tx);
    datagram_flush(sim->stranger.link);
}

static void invent(struct sim *sim)
{
    struct sim_side *side = draw_target(sim);
    struct roce_packet p = {0};
    if (side == NULL) {
        return;
    }
    bool is_spoofed = sim->params.faults > 0 && sim_draw(sim, 2);
    draw_packet(sim, &p, side, is_spoofed);
    const struct datagram_path path = {
        .local = is_spoofed ? sim_path_addr(&sim->path, &sim_side_peer(side)->node->addr)
                            : own_addr(sim),
        .remote = sim_path_addr(&sim->path, &side->node->addr),
        .source_port = 0xc000,
        .traffic_class = (uint8_t)prng_below(&sim->rng, 4),
    };
    side->pair->is_disturbed |= is_spoofed;
    sim_trace(sim, "a stranger sends opcode %02x to pair %u.%u%s", p.bth.opcode, side->pair->index,
              side->index, is_spoofed ? " as its peer" : "");
    put(sim, &p, &path);
}

void sim_stranger_act(struct sim *sim)
{
    sim->faults++;
    if (sim_draw(sim, 2)) {
        imitate(sim);
    } else {
        invent(sim);
    }
}
