// A shard: one link, the endpoints on it, and the lock under which all of them make progress.
// Whoever holds the lock drives: the background thread, or a program's thread that posts or
// polls.
//
//     post  -> shard_ring: doorbell, then drive if the lock is free
//     poll  -> shard_drive: a whole pass, if the lock is free
//     other -> shard_lock / shard_unlock around a call on the objects
//
// What says "Lock held" ends the process without it.
//
// No doorbell is lost: who lets go of the lock looks at the doorbell list behind that, and takes
// the lock again if something was rung meanwhile. No caller waits for a driver longer than one
// pass: drivers that found the lock free stand back while somebody waits for it.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/deadlines.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/port_link.h"
#include "base/span.h"
#include "base/thread.h"
#include "base/time.h"
#include "base/trace.h"
#include "report/farewell.h"
#include "rnic/gathering.h"
#include "rnic/packet/packet.h"

struct carrier_ops;
struct rnic;
struct rnic_ep;
struct rnic_qp;
struct batch;
struct puller;

enum {
    SHARD_STAGING_LEN = 128 * 1024, // what one read takes in at most: stays in the L2 cache
    SHARD_HOT_COUNT = 4,            // endpoints that are read without asking the link first
    SHARD_READY_MAX = 64,           // readiness reports taken at once
    SHARD_FEW_MAX = 512,            // endpoints whose lines lie in a processor's own caches
};

// So long the thread leaves what there is to loops of programs that drive.
#define SHARD_NAP_NS (10 * NS_PER_MS)

struct shard {
    pthread_mutex_t lock;
    const void *_Atomic holder;   // the thread that has the lock; NULL: nobody
    atomic_uint waiter_count;     // threads that wait for the lock
    struct rnic_qp *_Atomic rung; // doorbell list: QPs with something posted, LIFO
    const struct carrier_ops *carrier;
    struct link *link;          // of streams; NULL: packets
    struct packet_side packets; // ... theirs
    struct rnic *rnic;

    // Everything below is guarded by the lock.
    struct list_link endpoints; // all of them
    unsigned endpoint_count;    // doomed ones among them
    struct list_link doomed;    // those that are freed when the lock is let go
    struct list_link due;       // those that a door has moved: settled before the lock is let go
    struct list_link runnable;  // those that stopped at a bound, not for want of work
    struct list_link starved;   // those whose QP waits for a receive to be posted
    struct list_link moderated; // CQs with moderation
    struct list_link pulls;     // of queue pairs: copies that are under way without the lock
    unsigned pull_waiter_count; // threads that wait for the end of one
    pthread_cond_t pull_ended;
    struct puller *puller;        // who has the lock and may copy; NULL: he may not
    struct list_link left;        // endpoints whose Read waits for one that may (rnic/puller.h)
    duration_ns pull_patience_ns; // so long it does
    bool keeps_events;            // more may come with the same batch (rnic/events.h)
    struct list_link kept_events; // ... of CQs
    struct list_link farewells;   // to be said when the lock is let go
    struct deadlines deadlines;   // of endpoints; the link has its own
    instant_ns noted_ns;          // not later than what else is to be done by itself
    struct rnic_ep *hot[SHARD_HOT_COUNT];
    unsigned hot_next;
    bool is_crowded; // who comes is mostly not among them: the link is asked instead
    unsigned turn_count;
    struct mspan staging;
    struct list_link batches; // idle ones; each borrowed while an endpoint has output
    struct list_link carries; // idle ones; each borrowed while an endpoint has a part of an FPDU
    unsigned idle_carry_count;

    _Atomic instant_ns pulled_at_ns; // when a thread that may copy was last there; 0: none is

    // The background thread; none in a simulation.
    pthread_t thread;
    bool has_thread;
    atomic_bool is_stopping;
    _Atomic instant_ns polled_at_ns; // when a program's polling last drove the shard
    atomic_bool is_polled;           // a program polls so often that the thread stands back
    atomic_bool is_standing_back;    // ... and it does, until `polling_ended` at most
    pthread_mutex_t standing_lock;   // of that alone
    pthread_cond_t polling_ended;
    _Atomic instant_ns asleep_until_ns; // who drives sleeps until then; 0: it is awake
    struct gathering gathering;         // of posts, on streams

    // Loops of programs that drive in the thread's place (drive.c).
    atomic_uint loop_count;
    atomic_uint loop_pass_count;   // what they have done: the thread sees that they go on
    atomic_bool is_thread_in_link; // ... and a wake is for it
    int rouse_fd; // an eventfd that the thread looks at while they do; -1: none ever has
    _Atomic instant_ns thread_until_ns; // it does not look before that; 0: it is awake
};

// In shard->carrier's place, with the link of one of them, which stays the caller's on failure.
int shard_init(struct shard *shard, struct rnic *rnic, struct link *link,
               struct datagram_link *datagrams);
void shard_fini(struct shard *shard);
int shard_thread_start(struct shard *shard);
void shard_thread_stop(struct shard *shard);
// The thread looks what there is to be done, whether it sleeps, stands by or naps. Also from within
// signal handlers.
void shard_thread_rouse(struct shard *shard);
// Who has polled is about to sleep: the thread no longer stands back for him. Without the lock.
void shard_end_polling(struct shard *shard);
// There is something to be done at `at_ns`: it looks then at the latest.
void shard_thread_mind(struct shard *shard, instant_ns at_ns);

// For calls that change objects: waits for the lock, for at most one pass of a driver.
void shard_lock(struct shard *shard);
void shard_unlock(struct shard *shard);
// The lock for a driver: only if it is free and nobody waits for it.
bool shard_trylock(struct shard *shard);
// Behind what has taken it as the puller. What he has to copy begins before he lets go.
void shard_unlock_as_puller(struct shard *shard, instant_ns now);
// Unlocks without serving anybody.
void shard_let_go(struct shard *shard);
// What is looked at of an endpoint lies in no cache, and is asked for in advance (base/fetch.h).
static inline bool shard_has_many(const struct shard *shard)
{
    return shard->endpoint_count > SHARD_FEW_MAX;
}

// Has the calling thread the lock? What says "Lock held" checks it, a flush asks. Threads are told
// apart by their thread pointers: that is no call.
static inline bool shard_is_held(const struct shard *shard)
{
    return atomic_load_explicit(&shard->holder, memory_order_relaxed) == thread_pointer();
}
// Lock held. Who drives falls asleep by it alone, so he is not asleep before we let go if he is not
// now.
static inline bool shard_is_driver_asleep(const struct shard *shard)
{
    return atomic_load_explicit(&shard->asleep_until_ns, memory_order_seq_cst) != 0;
}
// Lock held, and let go meanwhile: waits for the condition, or until then (CLOCK_MONOTONIC). 0 or
// ETIMEDOUT.
int shard_wait(struct shard *shard, pthread_cond_t *condition, const struct timespec *until);
// The same for the engine's objects, which know of no lock.
struct guard shard_guard(const struct shard *shard);

// Notes that `qp` has something posted and drives it if the lock is free, unless that waits for
// company (rnic/gathering.h).
void shard_ring(struct shard *shard, struct rnic_qp *qp);
// Posts that wait for company are sent: by who has the lock, if it is not free.
void shard_send_waiting(struct shard *shard);
// Lock held. One pass: doorbells, what the link says is ready, output, deadlines. True if anything
// moved.
bool shard_run(struct shard *shard, instant_ns now);
// A pass of who has been woken at the link's descriptor, or does not sleep there yet. `puller` as
// below.
void shard_pass_awake(struct shard *shard, struct puller *puller);
// Who slept at that descriptor is awake for something else: it was not readable.
void shard_rise(struct shard *shard);
// From now on the caller sleeps at that descriptor: until when at most, or 0: there is something to
// be done, by somebody who may copy if he may.
instant_ns shard_fall_asleep(struct shard *shard, bool may_pull);
enum shard_look {
    SHARD_TAKEN, // another thread has the lock, or waits for it
    SHARD_STILL, // nothing has come, and nothing was left to be gone on with
    SHARD_MOVED,
};

// For a program's thread that polls: makes a pass, unless another thread has the lock.
// It reads the endpoints that were busy lately and asks the link only now and then: that saves
// the spinning program a system call per turn. `*ret_now`: when, read under the lock, so that time
// never goes back for who is behind it. What `puller` holds behind this is to be run, without any
// lock; NULL: this thread can do no such thing.
enum shard_look shard_drive(struct shard *shard, struct puller *puller, instant_ns *ret_now);

// Lock held. Serves every QP that was rung.
void shard_serve_doorbells(struct shard *shard, instant_ns now);
// Lock held. ... if posts wait for company: what comes now comes behind them.
void shard_serve_waiting(struct shard *shard);
// Lock held. ... and what they have leaves, so that of what was posted before all that completes by
// leaving has completed: a bell that found the lock taken waits for who lets go of it.
void shard_catch_up(struct shard *shard);

/* ---- agenda.c: what is still to be done. Lock held, but where it says otherwise. ------------- */

// The endpoint stopped at a bound and goes on in the next pass.
void shard_run_again(struct shard *shard, struct rnic_ep *ep);
// Its Read is left for a thread that may copy; the shard wakes up when none has come.
void shard_leave_read(struct shard *shard, struct rnic_ep *ep);
// ... and one has: this Read is copied, or all that were left run in this pass.
void shard_take_left(struct shard *shard, struct rnic_ep *ep);
void shard_recall_reads(struct shard *shard);
// Something has moved the endpoint on; what follows is settled before the lock is let go.
void shard_settle_later(struct shard *shard, struct rnic_ep *ep);
// The endpoint has something to do at `at_ns`; INSTANT_NEVER: nothing by itself.
void shard_arm(struct shard *shard, struct rnic_ep *ep, instant_ns at_ns);
// There will be something else to do at `deadline_ns`.
void shard_note_deadline(struct shard *shard, instant_ns deadline_ns);
// Completions come in any call: the thread must know until when an event may be held back.
void shard_note_moderated(struct shard *shard);
// The earliest of the endpoints', completion queues' and the link's.
instant_ns shard_next_deadline(const struct shard *shard);
// Wakes the thread if it would sleep beyond `deadline_ns`.
void shard_wake_before(struct shard *shard, instant_ns deadline_ns);
// Without the lock, behind the bell of a post that would wait: will the thread be awake at `at_ns`?
// If it falls asleep meanwhile, either it sees the bell or this sees that. One that sleeps for
// longer is woken, for the posts that follow.
bool shard_is_awake_by(struct shard *shard, instant_ns at_ns);
// Takes an endpoint whose stream is gone out of every list but that of all.
void shard_unlist(struct shard *shard, struct rnic_ep *ep);
// It is said when the lock is let go; not at all if there is no memory.
void shard_note_farewell(struct shard *shard, const struct farewell *farewell);
