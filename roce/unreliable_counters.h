// What queue pairs of the unreliable services count. A service counts what it has; the rest is 0.
#pragma once

#include <stdint.h>

#include "base/counter.h"
#include "wq/counters.h"

#define UNRELIABLE_COUNTERS(X)                                                   \
    X(packets_out, "packets that the link has taken")                            \
    X(octets_out, "octets of payload in them")                                   \
    X(packets_in, "packets that were placed")                                    \
    X(octets_in, "octets of payload in them")                                    \
    X(multicast_in, "datagrams that came to a group")                            \
    X(sink_full, "times that the link had no room for a packet")                 \
    X(sq_errors, "times that a work request that failed stopped the send queue") \
    X(gaps, "messages that began behind packets that were lost")                 \
    X(cut_messages, "messages that were dropped when a part of them was here")

// Why a packet was dropped.
#define UNRELIABLE_REFUSALS(X)                                                              \
    X(STATE, "the queue pair takes none: before RTR, or in error")                          \
    X(MALFORMED, "its length, version or opcode cannot be")                                 \
    X(SERVICE, "an opcode of another service")                                              \
    X(QP_NUM, "for another queue pair")                                                     \
    X(PKEY, "a P_Key of another partition")                                                 \
    X(ADDRESS, "a connection: from or to an address that is not the path's")                \
    X(NOT_ATTACHED, "a datagram: to a group that the queue pair is not attached to")        \
    X(QKEY, "a datagram: another Q_Key than the queue pair's")                              \
    X(LENGTH, "more or less payload than its opcode and the path MTU allow")                \
    X(PSN, "a connection: not the packet that was expected, nor one that begins a message") \
    X(SEQUENCE, "a connection: it goes on with a message that has not begun")               \
    X(NO_RECEIVE, "no receive was posted")                                                  \
    X(TOO_LONG, "it does not fit the receive")                                              \
    X(RECEIVE_MEMORY, "the memory of the receive was not usable")                           \
    X(ACCESS, "a Write to what the peer may not write")

enum unreliable_refusal {
    UNRELIABLE_ACCEPTED,
#define X(name, text) UNRELIABLE_REFUSED_##name,
    UNRELIABLE_REFUSALS(X)
#undef X
        UNRELIABLE_REFUSAL_COUNT,
};
const char *unreliable_refusal_text(enum unreliable_refusal refusal); // for traces

struct unreliable_counters {
    struct wq_counters wq;
#define X(name, text) uint64_t name;
    UNRELIABLE_COUNTERS(X)
#undef X
    uint64_t refusals[UNRELIABLE_REFUSAL_COUNT];
};

// Adds what a queue pair that goes has counted to those before it.
void unreliable_counters_sum(struct unreliable_counters *total,
                             const struct unreliable_counters *counters);
// Calls `each` for every counter: "packets_out", "refused.qkey" ...
void unreliable_counters_tell(const struct unreliable_counters *counters, counter_each each,
                              void *ctx);
