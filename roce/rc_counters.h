// What a queue pair of RC counts. Packets are counted when they were put, or taken; a refusal when
// it happens; a packet that is dropped by the one reason why.
#pragma once

#include <stdint.h>

#include "base/counter.h"
#include "roce/rc_refusal.h"
#include "wq/counters.h"

#define RC_COUNTERS(X)                                                                  \
    X(packets_out, "packets put, answers and repeated ones too")                        \
    X(packets_in, "packets that came from the peer, well-formed")                       \
    X(peers_known, "peers that turned out to be weft ends too")                         \
    X(octets_out, "octets of payload in them, going out")                               \
    X(octets_in, "octets of payload in them, coming in")                                \
    X(allotment_changes, "times that another allotment held for Reads")                 \
    X(requests_again, "packets of requests put again")                                  \
    X(resumed_inside, "times that sending again began inside a message")                \
    X(sequence_naks_in, "times that the peer missed packets")                           \
    X(answers_missed, "times that an answer of the peer's was missing before another")  \
    X(not_ready_in, "times that the peer had no receive")                               \
    X(timeouts, "times that nothing came for too long")                                 \
    X(tail_probes, "packets put again since nothing came for two round trips")          \
    X(tail_losses, "times that such a packet, and nothing behind it, was acknowledged") \
    X(refused_by_peer, "requests of ours that the peer refused for good")               \
    X(acks_out, "acknowledgements put")                                                 \
    X(naks_out, "refusals put, for want of packets or receives or for good")            \
    X(duplicates, "packets of Sends and Writes that had been here before")              \
    X(reads_again, "Reads answered again from memory")                                  \
    X(atomics_again, "atomics answered again, from what they answered before")          \
    X(answers_forgotten, "repeated Reads and atomics that are not remembered: dropped") \
    X(answers_revoked, "repeated Reads whose memory is the peer's no more: dropped")    \
    X(dropped_address, "packets from or to another address than the peer's or ours")    \
    X(dropped_malformed, "packets that are none")                                       \
    X(dropped_service, "packets of another service than RC")                            \
    X(dropped_partition, "packets with another P_Key")                                  \
    X(dropped_state, "packets for which it is not in the right state")                  \
    X(dropped_hole, "packets behind a hole that the peer has been told of")             \
    X(held, "packets kept beyond a hole")                                               \
    X(held_again, "packets beyond a hole that were kept already")                       \
    X(held_none, "packets beyond a hole that could not be kept")                        \
    X(sacks_out, "refusals put that said what had come beyond a hole")                  \
    X(sacks_in, "refusals that said what the peer has beyond a hole")                   \
    X(early_writes, "packets of Writes placed beyond a hole, where order is relaxed")   \
    X(early_answers, "packets of answers placed beyond one that was missing")           \
    X(repeated_alone, "packets put again alone, since the peer has those behind")       \
    X(dropped_old_answer, "answers to what is answered already")                        \
    X(dropped_strange_answer, "answers to what was never sent, or of no known kind")    \
    X(marked_in, "packets that met congestion on their way")                            \
    X(cnps_out, "congestion notifications put")                                         \
    X(cnps_in, "congestion notifications that came")                                    \
    X(pushed_writes, "Writes that were put into the peer's memory past packets")        \
    X(invalidations, "keys taken back by the peer")                                     \
    X(oneshot_answered, "Sends that close an STag of the peer's")

struct rc_counters {
    struct wq_counters wq;
#define X(name, text) uint64_t name;
    RC_COUNTERS(X)
#undef X
    uint64_t refusals[RC_REFUSAL_COUNT];
};

// Adds what a queue pair that goes has counted to those before it.
void rc_counters_add(struct rc_counters *total, const struct rc_counters *counters);
// Calls `each` for every counter: "packets_out", "refused.not_ready" ...
void rc_counters_each(const struct rc_counters *counters, counter_each each, void *ctx);
