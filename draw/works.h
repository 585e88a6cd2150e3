// Records of a connection's ends as a story: work requests posted, and what came of them; read
// contexts that one of them holds; one-shot STags lent and taken back; holes of what it receives.
// Each stands beside the time line of whom it concerns, where no packet shows it.
//
// A work request lasts from its post to its completion. One without a completion of its own is over
// when one posted behind it is complete: completions keep the order of posting.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/port_journal.h"
#include "draw/story.h"

enum { WORKS_SEND_MAX = 1024, WORKS_CONTEXT_MAX = 256, WORKS_HOLE_MAX = 256 };

struct works_send {
    uint64_t wr_id;
    uint32_t span;
};

// Contexts are a device's: those of one side, whichever connection has them.
struct works_context {
    uint32_t span;
    uint64_t wr_id, rest_len; // of whom had it last, and what of its Read was not asked for
    unsigned connection;
    bool is_held;
};

struct works_hole {
    bool is_open;
    uint32_t number, span;
    uint64_t len;
};

struct works_side {
    struct works_send send[WORKS_SEND_MAX]; // a ring
    uint32_t send_first, send_count;
    uint32_t receive_count;                 // posted in a run
    struct works_hole hole[WORKS_HOLE_MAX]; // by number
};

// All zero to begin with.
struct works {
    struct works_side side[STORY_CONNECTION_MAX][2];
    struct works_context context[2][WORKS_CONTEXT_MAX]; // by side and number
};

// Of a queue pair of datagrams, which has many partners: is the record of what it has with this
// one? A receive that waits, and one that failed, may be of any.
bool works_is_of(const struct works *w, unsigned connection, unsigned side, uint32_t peer_qp_num,
                 const struct journal_record *record);

// The story stands at the record (story_on_record); `side` is whose queue pair it is of.
void works_on_record(struct works *w, struct story *s, unsigned side,
                     const struct journal_record *record);
