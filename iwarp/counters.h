// What a queue pair counts. Messages and octets are counted when the last segment of a message was
// put, or delivered; a refusal when it happens.
#pragma once

#include <stdint.h>

#include "base/counter.h"
#include "rdmap/refusal.h"
#include "rdmap/terminate.h"
#include "wire/rdmap.h"
#include "wq/counters.h"

#define QP_COUNTERS(X)                                                              \
    X(pushed_writes, "Writes that were put into the peer's memory past the stream") \
    X(pulled_reads, "Reads, or parts of them, copied out of the peer's memory")     \
    X(rnr_stored, "messages that came before their receive and were stored")        \
    X(rnr_stalls, "times that the store was full and reading stopped")              \
    X(held_requests, "requests that waited as Sends before them did")               \
    X(rnr_timeouts, "times that no receive was posted for too long")                \
    X(allotment_changes, "times that the octets of one request changed")            \
    X(cut_responses, "responses that hold less than their request names")           \
    X(invalidations, "STags invalidated by the peer")                               \
    X(oneshot_received, "STags that the peer advertised")                           \
    X(oneshot_answered, "Sends that close an STag of the peer's")                   \
    X(early_writes, "segments of Writes placed beyond a hole")                      \
    X(early_sends, "segments for receives placed beyond a hole")                    \
    X(early_requests, "requests put into their slots beyond a hole")                \
    X(early_responses, "segments of responses placed beyond a hole")                \
    X(early_put_off, "segments beyond a hole that are met again in order")          \
    X(early_no_receive, "segments beyond a hole dropped for want of a receive")     \
    X(early_no_slot, "requests beyond a hole dropped, more than IRD")               \
    X(doorbells, "times that a closing hole rang for requests")                     \
    X(released_requests, "requests started by a doorbell of a closing hole")        \
    X(released_sends, "completions of receives that a closing hole let appear")     \
    X(released_responses, "requests of ours completed by a closing hole")

struct qp_message_counter {
    uint64_t messages;
    uint64_t octets; // of payload
};

struct qp_counters {
    struct wq_counters wq;
#define X(name, text) uint64_t name;
    QP_COUNTERS(X)
#undef X
    struct qp_message_counter in[RDMAP_OPCODE_COUNT];
    struct qp_message_counter out[RDMAP_OPCODE_COUNT];
    uint64_t refusals[RDMAP_REFUSAL_COUNT];
    uint64_t terminates_in[TERM_CAUSE_COUNT]; // TERM_NONE: numbers that no RFC gives
    uint64_t terminates_out[TERM_CAUSE_COUNT];
};

// Adds what a queue pair that goes has counted to those before it.
void qp_counters_add(struct qp_counters *total, const struct qp_counters *counters);

// Calls `each` for every counter: "rnr_stored", "in.send.messages", "refused.ddp_bounds",
// "terminate_out.ddp_bounds" ...
void qp_counters_each(const struct qp_counters *counters, counter_each each, void *ctx);
