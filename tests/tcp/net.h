// Two connections and a virtual link between them that loses, duplicates, delays and reorders, all
// drawn from one seed. Each side sends a stream of known octets and places what it receives by a
// policy of its own; a naive receiver that is fed the same segments says what may be delivered.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/prng.h"
#include "tcp/isn.h"
#include "tcp/listen.h"
#include "tcp/tcb.h"
#include "tcp/tcp.h"

enum { NET_STREAM_MAX = 1 << 20, NET_PACKETS_MAX = 1 << 14 };

// Chances are per 1024.
struct net_faults {
    unsigned loss, duplicate, late, mark;
    duration_ns late_ns; // how much later at most

    // Segments wait for each other at a bottleneck, both ways, `octets_per_s`, and are lost where
    // more than `queue_len` octets wait; 0: there is none.
    uint64_t octets_per_s;
    uint32_t queue_len;

    // What has more octets than this behind IP's header is swallowed without a word; 0: nothing.
    uint32_t swallowed_beyond;

    // The path stands still, both ways, for the last `still_ns` of each `each_ns`; 0: never.
    duration_ns each_ns, still_ns;
};

// How a side answers offers; chances per 1024.
struct net_policy {
    unsigned buffer, drop, partial, stall, refuse_advance;
};

struct net_packet {
    instant_ns at;
    uint64_t number; // breaks ties
    unsigned to;
    struct tcp_header header;
    enum ip_ecn ecn;
    uint32_t len;
    uint8_t *octets;
};

struct net_side {
    struct net *net;
    struct tcb *tcb;
    struct net_policy policy;
    uint64_t send_len; // octets of its stream
    uint64_t sent;
    uint32_t record_len; // 0: no records
    bool uses_references;
    bool closes_last; // not before the other's FIN
    bool has_closed;

    uint8_t *is_placed; // of the stream it receives: 0, 1 in order, 2 early
    uint64_t handed;
    uint64_t released;     // messages, by counts
    uint64_t placed_early; // messages
    bool has_fin;
    bool is_over;

    uint8_t *naive; // 1: arrived, in the window
    uint64_t naive_prefix;
};

struct net {
    struct prng prng;
    struct net_faults faults;
    duration_ns delay_ns;
    instant_ns now;
    instant_ns faults_end;
    instant_ns idle_at[2]; // of the bottleneck to each side: what waits there has left
    uint64_t overflows;    // segments that found its queue full
    struct tcp_listener *listener;
    struct net_side side[2]; // 0 connects, 1 listens
    // Looks at a side when what happened to it has been dealt with. May be NULL.
    void (*watch)(void *ctx, const struct net_side *side);
    void *watch_ctx;
    struct net_packet *heap[NET_PACKETS_MAX];
    unsigned packet_count;
    uint64_t packets;
    struct tcp_config config;
    uint8_t *stream; // what references point to: both sides send the same octets
};

void net_init(struct net *net, uint64_t seed);
void net_fini(struct net *net);

// Connects and lets both sides send `send_len` octets each and close. Stops the test if anything is
// wrong, or if it takes longer than `limit_ns` of virtual time.
void net_run(struct net *net, duration_ns limit_ns);

bool net_chance(struct net *net, unsigned per_1024);
