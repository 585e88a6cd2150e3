// Reliable connections that share a line: senders with a link each, or of one process, and one link
// of 10 Gbit/s that they all send to, or read from, whose queue drops what it does not hold. Time
// is virtual. What they bring over it, and how fair, is measured after a while.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "congestion/share.h"
#include "link/datagram/sim.h"
#include "roce/rc.h"
#include "wq/wq.h"
#include "wq/wqe.h"

enum {
    LINE_FLOWS_MAX = 64,
    LINE_LINKS_MAX = 33,    // the last that there are is the one that all share
    LINE_RATE = 1250000000, // octets in a second
};

struct line_config {
    unsigned flows;
    bool is_one_process; // all senders have one link
    bool is_plain;       // one end of each connection, as a stranger would be
    unsigned loss;       // of 1,000
    duration_ns rtt_ns;
    uint32_t queue_len;          // octets; 0: no limit
    uint32_t mark_len;           // 0: nothing is marked
    uint32_t receive_buffer_len; // of each link; 0: no limit
    uint64_t room_len;           // that the queue pairs of a link share; 0: they know of no other
    duration_ns nap_ns;          // between two looks at what has come; 0: it is looked at at once
};

// One queue pair on its link.
struct side {
    struct rc *rc;
    struct transport *t;
    struct datagram_link *link;
    uint32_t qp_num;
    struct cq *cq;
};

struct line {
    struct line_config config;
    instant_ns now, wakes_ns;
    struct datagram_net *net;
    struct datagram_link *links[LINE_LINKS_MAX];
    struct congestion_share shares[LINE_LINKS_MAX];
    unsigned near_links, shared_link;
    struct mem_table *mem;
    uint32_t pd, key;
    uint8_t *memory;
    struct rc_store *store;
    struct side near[LINE_FLOWS_MAX], far[LINE_FLOWS_MAX];
    uint64_t completed[LINE_FLOWS_MAX]; // messages
    unsigned failed;                    // work requests; their queue pair posts no more
};

struct outcome {
    double goodput; // of the line
    double jain;
    unsigned failed;    // work requests
    uint64_t overflows; // packets that a receive buffer had no room for
};

extern struct line line;

void open_line(const struct line_config *config);
void close_line(void);
// These queue pairs, line.near or line.far, do nothing else.
struct outcome measure(struct side *sides, enum wqe_opcode opcode);
