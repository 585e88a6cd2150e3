// The data allotment of one connection: how many octets one request for a read may fetch, and so
// how many one answer holds. Each node has a wish of its own; both know both, and the smaller one
// holds. A wish of 0 stands for "undivided": then nothing is agreed, and either node cuts its own
// requests as it wishes.
//
//     this node                                   its peer
//     wish changes; says so ──── notice ────────▶ its requests and its answers follow at once
//     its own requests follow                     says so
//     at once                ◀─── taken ───────── (requests behind this follow the new value)
//     its answers follow
//
// A node whose pipe holds more, or whose only reader would gain by more, cannot raise the value
// alone. So a node that nothing presses follows such a notice: its own wish becomes the peer's, as
// long as that is larger.
//
// So every request is answered by the value under which it was made: requests that are out keep the
// old one. One notice is out at a time; a wish that changes meanwhile is told when it was taken.
//
// No time: what is to be said is asked for and said by the caller.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/allotment_event.h"

enum {
    ALLOTMENT_PIPE_MAX_LEN = 16 << 20, // no pipe raises it beyond
    ALLOTMENT_PEER_MIN_LEN = 256,      // a peer's smaller one counts as this, at both nodes: it
                                       // must not have one request made for each octet
};

const char *allotment_event_name(enum allotment_event event); // "operator"

struct allotment {
    uint32_t wish_len;  // this node's, octets; 0: undivided
    bool may_follow;    // ... but more will do
    bool is_pulled;     // the peer's pipe, or its only reader, wants more
    uint32_t told_len;  // of these, what the peer was told last
    uint32_t taken_len; // ... and what it has said to have taken
    uint32_t peer_len;  // the peer's wish
    bool is_shared;     // the peer is one that takes notices
    bool is_taken_awaited;
    bool is_taken_due;
};

// Before a connection, or to a peer that knows nothing of allotments: the wish alone counts.
void allotment_init(struct allotment *a, uint32_t wish_len, bool may_follow);
// With a peer that takes notices; both were told at start-up: `told_len` and `peer_len`.
void allotment_share(struct allotment *a, uint32_t told_len, uint32_t peer_len);

// The most that one request of ours may fetch; 0: no bound.
uint32_t allotment_request_len(const struct allotment *a);
// The most that one answer of ours holds; 0: no bound. Not more than the request it answers allows.
uint32_t allotment_answer_len(const struct allotment *a);
// May a request name more than it may fetch, since the answer will be cut?
bool allotment_may_name_rest(const struct allotment *a);

void allotment_wish(struct allotment *a, uint32_t wish_len, bool may_follow);

enum allotment_word {
    ALLOTMENT_SAY_NOTHING,
    ALLOTMENT_SAY_TAKEN,
    ALLOTMENT_SAY_NOTICE,
};
// What is to be said next, with its value.
enum allotment_word allotment_next_word(const struct allotment *a, uint32_t *ret_len);
void allotment_said(struct allotment *a, enum allotment_word word);

// The peer said so. False: it was not asked, or says that it took something else.
void allotment_on_notice(struct allotment *a, uint32_t len, enum allotment_event event);
bool allotment_on_taken(struct allotment *a, uint32_t len);
