// What the two halves of the lossy transport share: lossy.c is the requester and has the doors,
// lossy_responder.c takes what arrives.
#pragma once

#include "tests/transport/transport.h"

enum {
    CELL_LEN = 64,
    CELL_MAX = PACKET_LEN_MAX / CELL_LEN, // of a packet
    WINDOW = 64,                          // cells that are not acknowledged
    OUT_MAX = 2 * WINDOW,
    REPLAY_MAX = 16, // atomics whose answers are kept
    RETRY_MAX = 60,  // in a row without any progress
};

enum lossy_kind { KIND_CELLS, KIND_ANSWER, KIND_ACK, KIND_GAP, KIND_NOT_READY, KIND_FAULT };

// What is out: a message, or a request with its context until it is answered.
struct out {
    struct message message;
    uint32_t handle;
    struct read_context *context;
    bool is_answered; // or nothing of the kind is awaited
    uint64_t psn, end;
};

struct replay {
    uint64_t psn, original;
};

struct lossy {
    struct wq wq;
    struct wq_counters counters;
    struct end *end;
    bool is_over;
    // Requester.
    struct out out[OUT_MAX]; // a ring
    unsigned head, count;
    uint64_t next_psn;  // of the next message
    uint64_t send_psn;  // of the next cell to leave, again perhaps
    uint64_t sent_psn;  // all before have left at least once
    uint64_t acked_psn; // the peer has all before
    instant_ns retry_at;
    unsigned retry_count;
    // Responder.
    struct inbound in;
    uint64_t expected_psn;
    bool has_told_gap;
    enum wc_status fault; // nothing new is taken
    struct replay replays[REPLAY_MAX];
    unsigned replay_count;
};

void lossy_send_packet(struct lossy *l, struct packet *packet);
void lossy_send_word(struct lossy *l, enum lossy_kind kind, uint64_t psn);
void lossy_flush(struct lossy *l); // the connection is over here
void lossy_on_cells(struct lossy *l, const struct packet *packet);
