// Meetings: how two queue pairs are connected without a connection manager. Each program tells its
// queue pair the GID and the number of the other one (ibv_modify_qp to RTR), as on InfiniBand, and
// goes on at once; what it posts waits. Of the two ends the one with the lower address (then the
// lower number) connects to the other's place (rnic/place.h) and names both queue pairs in its MPA
// Request; the other end accepts the Request if it has been told the same, keeps it if its program
// has not come so far, and resets the connection otherwise. From there on it is a stream like any
// other.
//
//     waiting ──stream established──▶ met
//        │ a try has failed: another, a little later
//        └ work has waited for the MPA time-out ──▶ error; the oldest says RETRY_EXC
//
// As on InfiniBand the end of the peer is noticed only by who has something to ask of it: FIN is no
// end of a stream on which nothing is under way (ep_on_llp_end).
//
// Everything here runs under the shard's lock.
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "base/span.h"
#include "base/time.h"
#include "rnic/rnic.h"

struct rnic_ep;

#define MEETING_COUNTERS(X)                                                                 \
    X(begun, "queue pairs told whom to meet")                                               \
    X(met, "of them connected")                                                             \
    X(tries_failed, "connections that failed before, and were tried again")                 \
    X(gave_up, "queue pairs whose work waited in vain")                                     \
    X(kept, "Requests that came before their queue pair was told of them")                  \
    X(kept_in_vain, "of them let go, as it was not told in time")                           \
    X(refused_malformed, "Requests refused: no meeting's private data")                     \
    X(refused_no_queue_pair, "Requests refused: there is no queue pair of that number")     \
    X(refused_not_expected, "Requests refused: the queue pair expects no meeting any more") \
    X(refused_other_peer, "Requests refused: the queue pair expects another peer")

struct meeting_counters {
#define X(name, text) uint64_t name;
    MEETING_COUNTERS(X)
#undef X
};

struct meeting {
    struct list_link link; // in rnic->meetings while it waits
    struct rnic_qp *qp;
    struct rnic_meeting with;
    bool is_active;
    instant_ns try_at_ns;     // connects, or listens, then; INSTANT_NEVER: it is at it
    instant_ns give_up_at_ns; // INSTANT_NEVER: nothing has been posted yet
};

// To RTR, with this peer. -EOPNOTSUPP: its number names no place; -EINVAL: its own peer, it has had
// one since the last reset, or it is in no state for that; -ENOMEM.
int meeting_begin(struct rnic_qp *qp, const struct rnic_meeting *with, instant_ns now);
// The queue pair leaves the states in which it has a peer. Harmless without a meeting.
void meeting_end(struct rnic_qp *qp, instant_ns now);
// The queue pair goes: who waits for it waits no longer.
void meeting_forget(struct rnic_qp *qp, instant_ns now);

// Sends may have been posted.
void meeting_on_doorbell(struct rnic_qp *qp, instant_ns now);
void meetings_on_deadline(struct rnic *rnic, instant_ns now);
// A place was asked: `ep` has a Request with this private data.
void meeting_on_request(struct rnic_ep *ep, struct span private_data, instant_ns now);
// It was kept for the MPA time-out and is let go, so that strangers do not fill the place's backlog
// for ever; a peer in earnest asks again.
void meeting_drop_kept(struct rnic_ep *ep, instant_ns now);
