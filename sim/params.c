#include "sim/params.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    RECEIVE_OCTETS = 64 * 1024, // that the receives of one queue take, about
    BULK_ONE_IN = 32,
    ROCE_MESSAGE_MAX = 128 * 1024,
};

static bool draw_bool(struct prng *rng, uint32_t one_in)
{
    return prng_below(rng, one_in) == 0;
}

// Evenly over the orders of magnitude, both ends included.
static uint32_t draw_log(struct prng *rng, uint32_t min, uint32_t max)
{
    uint32_t doublings = 0;
    while (max >> doublings > min) {
        doublings++;
    }
    uint32_t shift = prng_below(rng, doublings + 1);
    uint64_t low = (uint64_t)min << shift;
    uint64_t high = low * 2 < max ? low * 2 : max;
    return low < high ? (uint32_t)(low + prng_below(rng, (uint32_t)(high - low) + 1)) : max;
}

static void draw_house(struct sim_params *p, struct prng *rng)
{
    p->nodes = 2 + prng_below(rng, SIM_NODE_MAX - 1);
    p->pairs = 1 + prng_below(rng, SIM_PAIR_MAX);
    p->connections = p->pairs + prng_below(rng, 6);
    p->ops = draw_log(rng, 5, 120);
    p->block_len = draw_log(rng, 8 * 1024, 256 * 1024) & ~7U;
    p->message_max_len = draw_log(rng, 64, p->block_len / 8);
    p->think_max_ns = draw_log(rng, 100, 50000);
}

static void draw_net(struct sim_params *p, struct prng *rng)
{
    p->delay_max_ns = draw_log(rng, 100, 1000000);
    p->window_len = draw_log(rng, 2048, 512 * 1024);
    p->piece_max_len = draw_log(rng, 64, 64 * 1024);
    p->emss = draw_log(rng, 256, 16384);
}

// Now and then little of much: batches and buffers overflow.
static void draw_bulk(struct sim_params *p, struct prng *rng)
{
    p->ops = 4 + prng_below(rng, 12);
    p->block_len = 8 * 1024 * 1024;
    p->message_max_len = 1024 * 1024;
    p->window_len = draw_log(rng, 64 * 1024, 4 * 1024 * 1024);
    p->piece_max_len = p->window_len;
    p->pairs = 1;
    p->connections = 2;
}

static void draw_devices(struct sim_params *p, struct prng *rng)
{
    for (unsigned i = 0; i < SIM_NODE_MAX; i++) {
        p->crc[i] = !draw_bool(rng, 6);
        p->markers[i] = draw_bool(rng, 4);
        p->extensions[i] = !draw_bool(rng, 4);
    }
    p->peer_to_peer = !draw_bool(rng, 4);
    p->write_flush = draw_bool(rng, 4);
    p->tx_copy = draw_bool(rng, 3);
    p->mpa_revision = draw_bool(rng, 4) ? 1 : 2;
    p->rnr_store_len = draw_log(rng, 1024, 256 * 1024);
    p->oneshot = draw_bool(rng, 3) ? 2 : draw_bool(rng, 4) ? 0 : 1; // flags most often
    p->oneshot_parts = draw_bool(rng, 4) ? prng_below(rng, 3) : 0;
}

// The largest Read takes some dozens of requests at most.
static void draw_reads(struct sim_params *p, struct prng *rng)
{
    uint32_t allotment_min = 16 + p->message_max_len / 32;
    p->read_contexts = draw_log(rng, 1, 64);
    p->read_allotment_len = draw_bool(rng, 4) ? 0 : draw_log(rng, allotment_min, 256 * 1024);
    p->read_depth = draw_bool(rng, 4);
    p->read_turn_len = draw_bool(rng, 4) ? 0 : draw_log(rng, 512, 256 * 1024);
    p->retunes = draw_bool(rng, 3) ? draw_log(rng, 1, 200) : 0;
}

static void draw_packets(struct sim_params *p, struct prng *rng)
{
    p->has_packets = draw_bool(rng, 4);
    p->packet_loss = draw_bool(rng, 3) ? 0 : draw_log(rng, 100, 30000);
    p->packet_reorder = draw_bool(rng, 3) ? 0 : draw_log(rng, 1000, 200000);
    p->packet_duplicate = draw_bool(rng, 3) ? 0 : draw_log(rng, 1000, 50000);
    p->packet_mtu = draw_log(rng, 576, 9000);
    p->packet_window_len = draw_log(rng, 8 * 1024, 1024 * 1024);
    p->packet_buffer_len = draw_bool(rng, 3) ? 4096 : p->packet_window_len;
    p->packet_range_max = draw_log(rng, 4, 256);
    p->placement = prng_below(rng, 4) % 3; // PLACEMENT_EARLY twice as often
}

// Whoever waits for an acknowledgement waits no less than the way there and back takes at its
// worst, half of it now and then: then packets come twice that nobody has lost.
static uint8_t draw_timeout(const struct sim_params *p, struct prng *rng)
{
    const struct sim_roce_params *r = &p->roce;
    duration_ns queued_ns =
        r->rate == 0 ? 0 : (uint64_t)(r->queue_len + r->send_buffer_len) * NS_PER_S / r->rate;
    duration_ns trip_ns = 3 * p->delay_max_ns + 2 * queued_ns;
    uint8_t timeout = 4;
    while (UINT64_C(4096) << timeout < trip_ns) {
        timeout++;
    }
    return (uint8_t)(timeout + prng_below(rng, 4) - 1);
}

static void draw_roce(struct sim_params *p, struct prng *rng)
{
    struct sim_roce_params *r = &p->roce;
    r->has_ipv6 = draw_bool(rng, 2);
    r->by_hand = draw_bool(rng, 3) ? 0 : draw_log(rng, 100, 1024);
    r->path_mtu = 256U << prng_below(rng, 5);
    r->corrupt = draw_bool(rng, 2) ? 0 : draw_log(rng, 100, 10000);
    if (draw_bool(rng, 2)) {
        r->rate = draw_log(rng, 50 * 1000 * 1000, 2000 * 1000 * 1000);
        r->queue_len = draw_log(rng, 32 * 1024, 512 * 1024);
        r->mark_len = draw_bool(rng, 2) ? 0 : r->queue_len / 4;
        r->send_buffer_len = draw_log(rng, 16 * 1024, 256 * 1024);
    }
    r->receive_buffer_len = draw_bool(rng, 2) ? 0 : draw_log(rng, 32 * 1024, 512 * 1024);
    r->timeout = draw_timeout(p, rng);
    r->min_rnr_timer = (uint8_t)(1 + prng_below(rng, 20));
    r->strangers = draw_bool(rng, 3) ? draw_log(rng, 1, 200) : 0;
    r->flows = draw_bool(rng, 2) ? 0 : 1 + prng_below(rng, 3);
    if (p->message_max_len > ROCE_MESSAGE_MAX) { // in as many packets as it takes
        p->message_max_len = ROCE_MESSAGE_MAX;
        p->block_len = 8 * ROCE_MESSAGE_MAX;
    }
    // Of streams alone.
    p->oneshot = p->oneshot_parts = 0;
    p->write_flush = false;
}

void sim_params_draw(struct sim_params *ret, uint64_t seed, enum sim_wire wire)
{
    struct prng rng;
    prng_init(&rng, seed);
    prng_next(&rng); // small seeds have little to say in their first number
    *ret = (struct sim_params){.seed = seed, .wire = wire};
    draw_house(ret, &rng);
    draw_net(ret, &rng);
    draw_devices(ret, &rng);
    if (draw_bool(&rng, BULK_ONE_IN)) {
        draw_bulk(ret, &rng);
    }
    draw_reads(ret, &rng);
    ret->sq_len = draw_log(&rng, 2, 64);
    ret->rq_len = draw_log(&rng, 1, 64);
    ret->recvs = RECEIVE_OCTETS / ret->message_max_len;
    ret->recvs = ret->recvs < 3 ? 3 : ret->recvs > 24 ? 24 : ret->recvs;
    ret->sge_max = draw_log(&rng, 1, SIM_SGE_MAX);
    ret->inline_max_len = draw_bool(&rng, 4) ? 0 : draw_log(&rng, 16, 512);
    ret->reads = draw_log(&rng, 1, 32);
    ret->sq_sig_all = draw_bool(&rng, 4);
    ret->use_srq = draw_bool(&rng, 3);
    if (!draw_bool(&rng, 2)) {
        ret->faults = draw_log(&rng, 1, 20);
        ret->mistakes = draw_log(&rng, 1, 20);
        ret->turmoil = draw_log(&rng, 1, 20);
        ret->refusals = draw_log(&rng, 1, 400);
    }
    draw_packets(ret, &rng);
    if (wire == SIM_WIRE_ROCE) {
        draw_roce(ret, &rng);
    }
}

static void print_roce(const struct sim_roce_params *r, char *into, size_t len)
{
    snprintf(into, len,
             "  roce: IPv%u by hand %u path_mtu %u corrupt %u rate %" PRIu64
             " queue %u mark %u send_buffer %u receive_buffer %u\n"
             "  timeout %u rnr_timer %u flows %u strangers %u\n",
             r->has_ipv6 ? 6 : 4, r->by_hand, r->path_mtu, r->corrupt, r->rate, r->queue_len,
             r->mark_len, r->send_buffer_len, r->receive_buffer_len, r->timeout, r->min_rnr_timer,
             r->flows, r->strangers);
}

void sim_params_print(const struct sim_params *p, char *into, size_t len)
{
    int used = snprintf(
        into, len,
        "SEED=%" PRIu64 "\n"
        "  nodes %u pairs %u connections %u ops %u block %u message %u think %" PRIu64 " ns\n"
        "  delay %" PRIu64 " ns window %u piece %u emss %u\n"
        "  packets %d loss %u reorder %u duplicate %u of a million, mtu %u window %u buffer %u"
        " ranges %u placement %u\n"
        "  crc %d%d%d markers %d%d%d extensions %d%d%d p2p %d revision %u write_flush %d tx_copy %d"
        " rnr_store %u oneshot %u parts %u\n"
        "  read contexts %u allotment %u depth %u turn %u retunes %u\n"
        "  sq %u rq %u sge %u inline %u reads %u sig_all %d srq %d\n"
        "  faults %u mistakes %u turmoil %u refusals %u\n",
        p->seed, p->nodes, p->pairs, p->connections, p->ops, p->block_len, p->message_max_len,
        p->think_max_ns, p->delay_max_ns, p->window_len, p->piece_max_len, p->emss, p->has_packets,
        p->packet_loss, p->packet_reorder, p->packet_duplicate, p->packet_mtu, p->packet_window_len,
        p->packet_buffer_len, p->packet_range_max, p->placement, p->crc[0], p->crc[1], p->crc[2],
        p->markers[0], p->markers[1], p->markers[2], p->extensions[0], p->extensions[1],
        p->extensions[2], p->peer_to_peer, p->mpa_revision, p->write_flush, p->tx_copy,
        p->rnr_store_len, p->oneshot, p->oneshot_parts, p->read_contexts, p->read_allotment_len,
        p->read_depth, p->read_turn_len, p->retunes, p->sq_len, p->rq_len, p->sge_max,
        p->inline_max_len, p->reads, p->sq_sig_all, p->use_srq, p->faults, p->mistakes, p->turmoil,
        p->refusals);
    if (p->wire == SIM_WIRE_ROCE && used > 0 && (size_t)used < len) {
        print_roce(&p->roce, into + used, len - (size_t)used);
    }
}
