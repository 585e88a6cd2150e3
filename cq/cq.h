// A completion queue: a ring between one producer (the engine, serialised by its shard) and one
// consumer (the poller, serialised by a lock above), without a lock between the two.
//
// Sides. P: called by the producer only. C: by the consumer only. A: by any thread. X: both sides
// are excluded by the caller.
//
// Arming. A consumer that wants to sleep arms, then polls until the queue is empty, then waits. The
// next completion pushed after the arming raises one event through the port, or the poll finds it:
// no completion falls between the two (the argument stands in cq.c). An event disarms.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/guard.h"
#include "base/time.h"
#include "cq/cqe.h"

enum { CQ_CAPACITY_MAX = 1 << 22 }; // entries

// Port: called by the producer. Each may be NULL.
struct cq_port {
    void (*on_event)(void *ctx);   // inside cq_push or cq_on_deadline, at most once per arming
    void (*on_overrun)(void *ctx); // inside the first cq_push that is refused
    void *ctx;
    struct guard guard; // checked by what is marked P or X
};

static inline void cq_port_tell(const struct cq_port *port)
{
    if (port->on_event != NULL) {
        port->on_event(port->ctx);
    }
}

struct cq;

// `capacity`: entries wanted, 1..CQ_CAPACITY_MAX; rounded up to a power of two. NULL: no memory.
struct cq *cq_create(uint32_t capacity, struct cq_port port);
void cq_destroy(struct cq *cq); // X; NULL is allowed

// A. Entries that fit at the same time.
uint32_t cq_capacity(const struct cq *cq);

// P. Copies the entry, publishes it, stamped no earlier than the one before, and raises an event if
// one is due. False: the queue is full;
// the entry is lost and the queue is in error for good, as the verbs want it: every further push is
// refused, what is inside can still be polled.
bool cq_push(struct cq *cq, const struct cqe *cqe);

// A. A push was refused; the port has been told.
bool cq_has_overflowed(const struct cq *cq);

// C. Takes up to `max` entries, oldest first; returns how many.
unsigned cq_poll(struct cq *cq, struct cqe *ret, unsigned max);

// C. The entry `i` places behind the oldest, or NULL; it stays the queue's until popped.
const struct cqe *cq_peek(struct cq *cq, uint32_t i);

// C. Drops the `count` oldest entries; as many must be there.
void cq_pop(struct cq *cq, uint32_t count);

// A. Asks for one event at the next completion, or (`solicited_only`) at the next that is solicited
// or unsuccessful. A pending wish for any completion is not weakened by a later solicited one.
void cq_arm(struct cq *cq, bool solicited_only);

// X. Holds an event back until `count` completions have asked for it, `period_ns` after the first
// of them at most. count below 2 or period 0: every event at once (the initial state).
// Time is that of the entries: cqe.timestamp_ns of the first.
void cq_moderate(struct cq *cq, uint32_t count, duration_ns period_ns);

// P. When a held event becomes due; INSTANT_NEVER if none is held.
instant_ns cq_next_deadline(const struct cq *cq);
void cq_on_deadline(struct cq *cq, instant_ns now);

// X. Entries move to a ring of the new capacity. -EINVAL: capacity out of range, or the entries
// present do not fit; -ENOMEM. On failure nothing has changed.
int cq_resize(struct cq *cq, uint32_t capacity);

// X. Removes the entries of one queue pair, order kept (it is being destroyed). Returns how many.
uint32_t cq_purge(struct cq *cq, uint32_t qp_num);

// X. The entries of this queue pair no longer need their sources, which are about to go.
void cq_detach(struct cq *cq, uint32_t qp_num);

struct cq_counters {
    uint64_t pushed;
    uint64_t polled;
    uint64_t purged;
    uint64_t events;
    uint64_t overflows; // pushes refused
};

// A. Each number is exact, but they are not of one instant while both sides run.
struct cq_counters cq_counters(const struct cq *cq);

// X. Verifies the invariants; false when one is broken.
bool cq_check(const struct cq *cq);
