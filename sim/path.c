#include "sim/path.h"

#include <string.h>

#include "rnic/create.h"
#include "tcp/tcp.h"

static const duration_ns peer_timeout_ns = 10 * NS_PER_S;

static bool net_make(struct sim_path *path, const struct sim_params *p, uint64_t seed,
                     instant_ns (*clock)(void *ctx), void *clock_ctx)
{
    struct sim_net_config config = {
        .seed = seed,
        .clock = clock,
        .clock_ctx = clock_ctx,
        .delay_max_ns = p->delay_max_ns,
        .window_len = p->window_len,
        .piece_max_len = p->piece_max_len,
        .emss = p->emss,
        .peer_timeout_ns = peer_timeout_ns,
    };
    path->net = sim_net_create(&config);
    return path->net != NULL;
}

static bool wire_make(struct sim_path *path, const struct sim_params *p, uint64_t seed,
                      instant_ns (*clock)(void *ctx), void *clock_ctx)
{
    struct wire_config config = {
        .clock = clock,
        .clock_ctx = clock_ctx,
        .faults = {.loss = p->packet_loss,
                   .burst = 1,
                   .reorder = p->packet_reorder,
                   .duplicate = p->packet_duplicate,
                   .delay_ns = 1,
                   .jitter_ns = p->delay_max_ns / 8,
                   .reorder_ns = p->delay_max_ns,
                   .seed = seed},
        .mtu = (uint16_t)p->packet_mtu,
        .tcp = tcp_config_default,
        .linger_ns = peer_timeout_ns,
    };
    config.tcp.window_len = p->packet_window_len;
    config.tcp.buffer_len = p->packet_buffer_len;
    config.tcp.range_max = (uint16_t)p->packet_range_max;
    config.tcp.connect_timeout_ns = peer_timeout_ns;
    config.tcp.time_wait_ns = NS_PER_S;
    path->wire = wire_create(&config);
    return path->wire != NULL;
}

static bool datagrams_make(struct sim_path *path, const struct sim_params *p, uint64_t seed,
                           instant_ns (*clock)(void *ctx), void *clock_ctx)
{
    const struct sim_roce_params *r = &p->roce;
    struct datagram_net_config config = {
        .clock = clock,
        .clock_ctx = clock_ctx,
        .faults = {.loss = p->packet_loss,
                   .burst = 1,
                   .reorder = p->packet_reorder,
                   .duplicate = p->packet_duplicate,
                   .corrupt = r->corrupt,
                   .delay_ns = p->delay_max_ns / 4,
                   .jitter_ns = p->packet_reorder > 0 ? p->delay_max_ns / 8 : 0,
                   .reorder_ns = p->delay_max_ns,
                   .seed = seed},
        .is_unchecked = r->is_unchecked,
        .rate = r->rate,
        .queue_len = r->queue_len,
        .mark_len = r->mark_len,
        .send_rate = r->rate,
        .send_buffer_len = r->send_buffer_len,
        .receive_buffer_len = r->receive_buffer_len,
    };
    path->faults = config.faults;
    path->datagrams = datagram_net_create(&config);
    return path->datagrams != NULL;
}

bool sim_path_make(struct sim_path *path, const struct sim_params *params, uint64_t seed,
                   instant_ns (*clock)(void *ctx), void *clock_ctx)
{
    *path = (struct sim_path){.path_mtu = params->roce.path_mtu,
                              .has_ipv6 = params->roce.has_ipv6,
                              .cut_until = INSTANT_NEVER};
    if (params->wire == SIM_WIRE_ROCE) {
        return datagrams_make(path, params, seed, clock, clock_ctx);
    }
    return params->has_packets ? wire_make(path, params, seed, clock, clock_ctx)
                               : net_make(path, params, seed, clock, clock_ctx);
}

void sim_path_end(struct sim_path *path)
{
    sim_net_destroy(path->net);
    wire_destroy(path->wire);
    datagram_net_destroy(path->datagrams);
}

struct in6_addr sim_path_addr(const struct sim_path *path, const struct in_addr *addr)
{
    static const struct in6_addr prefixes[] = {
        {.s6_addr = {[10] = 0xff, [11] = 0xff}},
        {.s6_addr = {0xfd}},
    };
    struct in6_addr ret = prefixes[path->has_ipv6];
    memcpy(&ret.s6_addr[12], addr, sizeof *addr);
    return ret;
}

static bool attach_datagrams(struct sim_path *path, const struct in_addr *addr,
                             struct rnic_parts *parts)
{
    const struct in6_addr addr6 = sim_path_addr(path, addr);
    parts->datagrams = datagram_net_attach(path->datagrams, &addr6, 1);
    parts->port =
        (struct rnic_port){.addrs = {{.addr = addr6}}, .addr_count = 1, .path_mtu = path->path_mtu};
    return parts->datagrams != NULL;
}

bool sim_path_attach(struct sim_path *path, const struct in_addr *addr, struct rnic_parts *parts)
{
    if (path->datagrams != NULL) {
        return attach_datagrams(path, addr, parts);
    }
    parts->link =
        path->wire != NULL ? wire_attach(path->wire, addr, 1) : sim_net_attach(path->net, addr, 1);
    return parts->link != NULL;
}

instant_ns sim_path_next_event(const struct sim_path *path)
{
    if (path->datagrams != NULL) {
        return instant_min(path->cut_until, datagram_net_next_event(path->datagrams));
    }
    return path->wire != NULL ? wire_next_event(path->wire) : sim_net_next_event(path->net);
}

static void mend(struct sim_path *path, instant_ns now)
{
    if (path->cut_until <= now) {
        path->cut_until = INSTANT_NEVER;
        datagram_net_set_faults(path->datagrams, &path->faults);
    }
}

void sim_path_cut(struct sim_path *path, instant_ns until)
{
    const struct fault_config all_lost = {.loss = FAULT_ONE, .burst = 1};
    path->cut_until = until;
    datagram_net_set_faults(path->datagrams, &all_lost);
}

bool sim_path_advance(struct sim_path *path, instant_ns now)
{
    if (path->datagrams != NULL) {
        mend(path, now);
        return datagram_net_advance(path->datagrams);
    }
    return path->wire != NULL ? wire_advance(path->wire) : sim_net_advance(path->net);
}

bool sim_path_strike(struct sim_path *path, enum sim_fault fault, const struct sockaddr_in *end)
{
    return path->net != NULL && sim_net_strike(path->net, fault, end);
}
