// What the files of the simulated net of datagrams share.
#pragma once

#include <string.h>

#include "base/list.h"
#include "base/time.h"
#include "link/datagram/alone.h"
#include "link/datagram/sim.h"
#include "link/fault_model.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/udp_header.h"

struct datagram_net {
    struct datagram_net_config config;
    struct fault_model model;
    struct list_link ends;
    struct list_link under_way; // the earliest first
    uint64_t overflows, marks;
};

struct datagram_sim {
    struct datagram_alone alone;
    struct datagram_net *net;
    struct list_link link;           // in the net's
    struct list_link staged;         // put, not flushed
    instant_ns sent_at_ns;           // when all that was put will have left
    bool was_full;                   // a packet was not taken
    instant_ns free_at_ns;           // when the queue to it will be empty
    struct list_link arrived, taken; // to be received; handed out by the last `receive`
    uint64_t arrived_len;
    struct {
#define X(name, text) uint64_t name;
        DATAGRAM_SIM_COUNTERS(X)
#undef X
    } counters;
};

// Where a packet is: behind its sender, and then in the queue to its receiver.
enum datagram_sim_stage { DATAGRAM_SIM_LEFT, DATAGRAM_SIM_QUEUED };

struct datagram_sim_packet {
    struct list_link link;
    struct datagram_sim *to;
    instant_ns at_ns;
    enum datagram_sim_stage stage;
    bool is_changed;
    struct datagram_path path; // its sender's
    size_t len;
    uint8_t octets[];
};

static inline uint32_t datagram_sim_headers_len(const struct in6_addr *addr)
{
    return UDP_HEADER_LEN + (IN6_IS_ADDR_V4MAPPED(addr) ? IPV4_HEADER_LEN : IPV6_HEADER_LEN);
}

// Octets of the IP packet.
static inline uint64_t datagram_sim_wire_len(const struct datagram_sim_packet *p)
{
    return datagram_sim_headers_len(&p->path.remote) + p->len + ICRC_LEN;
}

static inline duration_ns datagram_sim_time(uint64_t len, uint64_t rate)
{
    return rate == 0 ? 0 : len * NS_PER_S / rate;
}

static inline instant_ns datagram_net_now(const struct datagram_net *net)
{
    return net->config.clock(net->config.clock_ctx);
}

// sim_net.c

// Puts copies under way to whose it is; the packet stays the caller's.
void datagram_net_send(struct datagram_net *net, const struct datagram_sim_packet *p);
void datagram_sim_packets_free(struct list_link *packets);
