// What lasts: Reads from their request to their answer, and STags from their advertisement, or
// their first use, to their invalidation. Either wire tells of both by the same words, so they are
// kept here for both: a key is an STag (iWARP), or an R_Key (RoCE).
//
// A Read is divided when requests follow each other for the same source; they are parts of one
// Read, and have one number, when
//
//   both ask for all up to the same end (between weft ends: an answer has an allotment at most), or
//   one begins where the other ended, at the source and at the sink, where a sink of its own for
//   each part counts from 0 (weft towards others: each asks for one allotment at most).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "draw/story.h"

enum { LIVES_READ_MAX = 64, LIVES_KEY_MAX = 256 };

struct lives_read {
    bool is_active;
    uint64_t name;  // iWARP: the sink STag; RoCE: the PSN. What answers have
    uint64_t begin; // iWARP: the sink TO; RoCE: the PSN
    uint64_t len;   // octets; RoCE: PSNs
    uint64_t got;   // of them answered
    bool has_last;  // … the last of them too
    uint32_t span;
};

struct lives_chain {
    uint32_t sink_key, source_key;
    uint64_t begin, end;    // of the last request, at the source
    uint64_t sink_end;      // … at the sink
    uint32_t number, parts; // number 0: free
};

struct lives_key {
    uint32_t key;
    bool is_there;
    uint32_t span, first_use;
};

struct lives_side {
    struct lives_read read[LIVES_READ_MAX]; // that this side asked for
    struct lives_chain chain[LIVES_READ_MAX];
    struct lives_key key[LIVES_KEY_MAX]; // of this side's memory
    unsigned next_read, next_chain, next_key;
    uint32_t read_count;
};

// All zero to begin with.
struct lives {
    struct lives_side side[2];
};

struct lives_request {
    uint32_t sink_key, source_key;
    uint64_t sink_to, source_to;
    uint32_t len; // octets
    uint64_t name, begin, extent;
};

struct lives_part {
    uint32_t read, part; // both from 1
};

// The last event is a Read Request that `side` sent; which part of which of its Reads.
struct lives_part lives_on_request(struct lives *l, struct story *s, unsigned side,
                                   const struct lives_request *request);
// The last event is part of an answer to `side`: `len` at `at`, as the request's `begin` and
// `extent` count. `is_last`: nothing of the answer is behind it.
void lives_on_response(struct lives *l, struct story *s, unsigned side, uint64_t name, uint64_t at,
                       uint32_t len, bool is_last);

// The last event advertises a key of `side`, whose own message it is.
void lives_on_advertise(struct lives *l, struct story *s, unsigned side, uint32_t key);
// The last event uses memory of `side`.
void lives_on_use(struct lives *l, struct story *s, unsigned side, uint32_t key);
// The last event ends a key of `side`; `how`: "closed", "invalidated".
void lives_on_end(struct lives *l, struct story *s, unsigned side, uint32_t key, const char *how);
