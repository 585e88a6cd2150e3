// A connection of RoCE, told from its packets: the connection manager's messages, requests and
// answers with their PSNs, acknowledgements, and what came again or out of turn.
//
// A hole is PSNs of requests that are missing while later ones have come. A Read takes as many PSNs
// as its answer has packets, by the path MTU: that of the REQ, or of the first packet as long as
// it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "draw/frame.h"
#include "draw/lives.h"
#include "draw/story.h"

enum { ROCE_HOLE_MAX = 32, ROCE_TOLD_AGREED_MAX = 160 };

struct roce_hole {
    uint32_t begin, end; // PSNs; equal: free
    uint32_t span;
    uint32_t count; // of packets that were missing
    bool is_there;
};

struct roce_side {
    bool has_next;
    uint32_t next; // PSN of this side's next request
    struct roce_hole hole[ROCE_HOLE_MAX];
    uint32_t message, message_first, message_packets; // under way; 0: none
    uint64_t message_len;
    uint32_t answer, answer_first, answer_packets; // of a Read, likewise
    uint64_t answer_len;
};

struct roce_connection {
    struct story *story;
    struct lives lives;
    struct roce_side side[2];
    uint32_t pmtu; // 0: not known
    char agreed[ROCE_TOLD_AGREED_MAX];
};

// Begins all zero, but for the story. A packet that `side` sent.
void roce_on_packet(struct roce_connection *c, unsigned side, const struct frame *f);
