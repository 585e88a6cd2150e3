// Meetings: how two queue pairs are connected without a connection manager. Each program tells its
// queue pair the address (GID) and the number of the other one, as on InfiniBand, and goes on at
// once; what it posts waits. Of the two ends the one with the lower address (then the lower number)
// connects to the other's point (meet/point.h) and names both queue pairs in its MPA Request; the
// other end accepts it if it has been told the same (meet/request.h). From there on it is a stream
// like any other. A queue pair that is told its own address and number has its stream led back to
// it: nobody is asked.
//
//   meeting_init           what it was told
//   meeting_next           what is to be done now, until nothing is
//   meeting_on_not_now     it could not be done: again a little later
//   meeting_on_*           what has come of it
//   meeting_next_deadline  when to ask again
//
// No I/O, no clock, no allocation; one thread at a time per object. States: meet/state.h.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "meet/state.h"

#define MEETING_COUNTERS(X)                                                             \
    X(begun, "queue pairs told whom to meet")                                           \
    X(met, "of them connected")                                                         \
    X(tries_failed, "connections that failed before, and were tried again")             \
    X(gave_up, "queue pairs whose work waited in vain")                                 \
    X(kept, "Requests that came before their queue pair was told of them")              \
    X(kept_in_vain, "of them let go, as it was not told in time")                       \
    X(refused_malformed, "Requests refused: no meeting's private data")                 \
    X(refused_no_queue_pair, "Requests refused: there is no queue pair of that number") \
    X(refused_not_expected, "Requests refused: the queue pair expects nobody to ask")   \
    X(refused_other_peer, "Requests refused: the queue pair expects another peer")      \
    X(refused_answering, "Requests refused: the queue pair has accepted another already")

struct meeting_counters {
#define X(name, text) uint64_t name;
    MEETING_COUNTERS(X)
#undef X
};

enum meeting_role {
    MEETING_ROLE_FIRST,  // connects
    MEETING_ROLE_SECOND, // listens
    MEETING_ROLE_ITSELF, // both are the same queue pair
};

// Before the next try. Meanwhile the peer's program may bring its queue pair to where it listens.
#define MEETING_PAUSE_NS (100 * NS_PER_MS)

struct meeting_config {
    struct in6_addr own_addr, peer_addr; // as they stand in a GID
    uint32_t own_qp_num, peer_qp_num;
    duration_ns patience_ns; // how long work may wait
    struct meeting_counters *counters;
};

struct meeting {
    struct meeting_config config;
    enum meeting_role role;
    enum meeting_state state;
    instant_ns try_at_ns;     // in MEETING_DUE
    instant_ns give_up_at_ns; // INSTANT_NEVER: no work waits
};

void meeting_init(struct meeting *m, const struct meeting_config *config, instant_ns now);

enum meeting_action {
    MEETING_DO_NOTHING,
    MEETING_DO_CONNECT, // to the peer's point
    MEETING_DO_REFLECT, // lead the stream back
    MEETING_DO_LISTEN,  // at the own point, and answer those who were kept
    MEETING_DO_GIVE_UP, // it is over: the oldest work request fails
};
// What is due. It is taken as done unless meeting_on_not_now follows.
enum meeting_action meeting_next(struct meeting *m, instant_ns now);
void meeting_on_not_now(struct meeting *m, instant_ns now);

// The connection has come to full operation, or ended before, or behind that.
void meeting_on_established(struct meeting *m);
void meeting_on_failed(struct meeting *m, instant_ns now);
void meeting_on_broken(struct meeting *m);
// Work waits for the peer from now on.
void meeting_on_work(struct meeting *m, instant_ns now);

// Neither met nor over.
static inline bool meeting_is_waiting(const struct meeting *m)
{
    return m->state < MEETING_MET;
}

// INSTANT_NEVER when no time is running.
instant_ns meeting_next_deadline(const struct meeting *m);
// Stops the program unless the invariants hold.
void meeting_check(const struct meeting *m);
