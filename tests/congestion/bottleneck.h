// Flows through one bottleneck, on virtual time: a line of one rate behind a queue of so many
// packets, which drops what comes when it is full. Packets of all flows are of one length; there is
// always something to send; acknowledgements travel beside the queue and are not lost.
//
//     senders --> queue --> line --> receivers
//        ^-------- half a round trip ---'
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "base/time.h"
#include "congestion/window.h"
#include "tcp/cc.h"

enum { FLOWS_MAX = 64, SENT_RING = 1 << 14 };

enum flow_kind {
    FLOW_CONTROLLED, // congestion/, over a transport that goes back N, as RC does
    FLOW_FIXED,      // the mutant: the same transport, CONGESTION_WINDOW_STRANGER packets always
    FLOW_TCP,        // tcp/cc.h, over a transport that sends again what was lost, and no more
};

struct bottleneck_config {
    duration_ns packet_ns; // that one packet takes on the line
    duration_ns rtt_ns;    // without queue
    unsigned queue_max;    // packets
    duration_ns stall_ns;  // one answer in 64 is kept for up to so long; 0: none
    duration_ns late_ns;   // by which who sleeps until a packet is due wakes up too late
};

// One end to end way. Marks count packets from 0.
struct flow {
    enum flow_kind kind;
    instant_ns starts_at;
    uint64_t delivered;              // packets, in order and once
    uint64_t delivered_at_mark;      // ... when measuring began
    unsigned timeouts, timeouts_max; // in a row

    // The sender.
    struct congestion congestion;
    struct tcp_cc tcp;
    uint64_t sent, acked, asked; // next to send, next to be acknowledged, last that asked
    uint64_t sent_once_from;     // what is below was sent again
    uint64_t recovered_from;     // TCP: what is sent below belongs to a recovery under way
    duration_ns srtt_ns;         // TCP
    instant_ns sent_at[SENT_RING];
    instant_ns wakes_at;    // a wake-up is under way
    instant_ns progress_at; // of the retransmission timer

    // The receiver.
    instant_ns answered_at;
    bool has_refused; // a NAK stands for what is missing
};

struct event {
    instant_ns at;
    uint64_t order; // of making, where instants are the same
    uint32_t flow;
    uint16_t kind;
    bool asks;
    uint64_t number;
};

struct bottleneck {
    struct bottleneck_config config;
    struct prng prng;
    instant_ns now, line_free_at;
    uint64_t dropped, carried;
    unsigned flow_count;
    struct flow flows[FLOWS_MAX];
    struct event *events; // a heap, the earliest first
    uint64_t event_count, event_room, event_order;
};

void bottleneck_init(struct bottleneck *b, const struct bottleneck_config *config);
void bottleneck_fini(struct bottleneck *b);
void bottleneck_add(struct bottleneck *b, enum flow_kind kind, instant_ns starts_at);
// Lets time pass until `until`.
void bottleneck_run(struct bottleneck *b, instant_ns until);
// Measuring begins now.
void bottleneck_mark(struct bottleneck *b);

// Packets of flow `i` delivered since measuring began.
uint64_t bottleneck_goodput(const struct bottleneck *b, unsigned i);
