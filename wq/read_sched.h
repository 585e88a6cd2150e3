// The read scheduler: which task's request gets a read context next. A device has one, with N
// contexts; every queue pair is a flow in it.
//
//     flow     read_flow_post, in the order of posting      read_sched_take ──▶ request on its way
//     device   ring of flows that wait ◀── no context free      │
//                                                        answer │
//              context to the flow whose turn it is ◀── read_sched_answer
//
// Within a flow tasks are served in order: the next one begins when all of the one before has been
// asked for. But what may pass goes before what is left of Reads: a Read whose program said so, and
// an atomic, if more than READ_STAYS_BEHIND_LEN octets were to be asked for first. A read has at
// most max(2 allotments, twice rate * RTT) octets out at a time, and one request while other flows
// wait for a context.
//
// Between flows: deficit round robin. A flow whose turn has come gets a quantum of octets (the
// largest allotment of the device) to spend on contexts, then it goes to the end of the ring. So
// no flow waits for ever: of the flows before it in the ring each is granted one quantum, those
// that come later wait behind it. A request costs its octets, but at least READ_COST_MIN_LEN.
//
// When an answer is complete and the read is not, its context is taken from it if somebody waits
// (pre-emption), used for another request (re-activation), and the read goes on with another
// context when its turn comes (continuation). If nobody waits it keeps the context.
//
// No threads, no allocation after creation.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "wq/read_context.h"
#include "wq/read_pace.h"
#include "wq/read_patience.h"
#include "wq/read_task.h"

enum {
    READ_COST_MIN_LEN = 1024,
    READ_STAYS_BEHIND_LEN = 1 << 20,
    READ_LONG_LEN = 1 << 16, // shorter ones tell nothing of how long a request lasts
};

#define READ_SCHED_COUNTERS(X)                                                     \
    X(first_requests, "tasks that got their first context")                        \
    X(subsidiary_requests, "further requests of a task that was divided")          \
    X(partial_answers, "answers shorter than their window")                        \
    X(waits, "times that a flow had to wait for a context")                        \
    X(passes, "tasks that went before what was left of Reads of their queue pair") \
    X(preemptions, "contexts taken from unfinished reads")                         \
    X(reactivations, "contexts so taken that were used for another request")       \
    X(continuations, "reads without a context that went on after a pre-emption")   \
    X(depth_reductions, "times that a read got no second request, as others waited")

struct read_sched_counters {
#define X(name, text) uint64_t name;
    READ_SCHED_COUNTERS(X)
#undef X
};

struct read_sched;

// One queue pair's reads. Lives in the queue pair.
struct read_flow {
    struct list_link link;    // in the ring, while it waits for a context
    struct list_link tasks;   // of which something has not been asked for, oldest first
    struct list_link granted; // contexts whose requests are to be issued, oldest first
    struct read_sched *sched;
    uint64_t unasked_len;   // octets of Reads that no request has asked for
    uint32_t pending_count; // tasks posted and not complete
    uint32_t context_count; // contexts that are its own: granted, or out
    uint32_t context_max;   // of them at most (ORD); 0: none, but for start-up's own
    uint32_t allotment_len; // octets of a window at most; 0: undivided
    bool may_name_rest;     // requests name all that remains, the answer is cut
    bool keeps_contexts;    // undivided, though the transport cuts: none is taken before its Read
                            // is complete
    uint64_t deficit_len;   // what is left of its quantum
    bool is_served;         // it has its quantum
    struct read_pace pace;
    struct read_patience patience; // with the oldest request
    void (*on_granted)(void *ctx); // a context came while somebody else was served; may not call
    void *ctx;                     // back into the scheduler
    // A context, the one with this number of all, has become the flow's, or is about to be so no
    // longer. NULL: nobody wants to know.
    void (*on_moved)(const struct read_flow *flow, const struct read_context *context,
                     uint32_t number, bool is_granted);
};

// `context_count`: at least 1. `depth`: requests of one read that are out at a time; 0: as many as
// the pipe needs; 1: each is made when the one before has been answered. NULL: no memory.
struct read_sched *read_sched_create(uint32_t context_count, uint32_t depth);
// All contexts must be back. NULL is allowed.
void read_sched_destroy(struct read_sched *sched);

// Octets that a flow may spend per turn; 0: one request, whatever its length.
void read_sched_set_quantum(struct read_sched *sched, uint32_t quantum_len);

uint32_t read_sched_context_count(const struct read_sched *sched);
uint32_t read_sched_in_use(const struct read_sched *sched);        // contexts granted or out
uint32_t read_sched_waiting_count(const struct read_sched *sched); // flows in the ring
uint32_t read_sched_reader_count(const struct read_sched *sched);  // flows that are not idle

// What has been seen since the last time that this was asked: the largest of each.
struct read_sched_seen {
    uint64_t pipe_len;     // octets that one request must fetch so that its pipe is full
    uint64_t lasting_len;  // ... so that it lasts READ_LASTS_NS; of a flow that was alone
    uint32_t reader_count; // flows that were not idle at one time
};
struct read_sched_seen read_sched_take_seen(struct read_sched *sched);
const struct read_sched_counters *read_sched_counters(const struct read_sched *sched);

void read_flow_init(struct read_flow *flow, struct read_sched *sched, void (*on_granted)(void *ctx),
                    void *ctx);
// Every field of the task that says what is wanted has been filled: kind, remote_key, remote_addr,
// initial_len, may_pass, cookie.
void read_flow_post(struct read_flow *flow, struct read_task *task);
// No task is there: a queue pair that reads nothing asks no more than this.
static inline bool read_flow_is_idle(const struct read_flow *flow)
{
    return flow->pending_count == 0;
}
// Is read_sched_take worth calling? Never false when it would give a context.
bool read_flow_wants_take(const struct read_flow *flow);
// It issues nothing more: leaves the ring, gives back what was granted.
void read_flow_stop(struct read_flow *flow, instant_ns now);
// Forgets every task. The contexts that are out have been given back by read_sched_abandon.
void read_flow_forget(struct read_flow *flow, instant_ns now);

// Why there is no context now.
enum read_take {
    READ_TAKE_CONTEXT, // there is one
    READ_TAKE_NOTHING, // nothing is to be asked for
    READ_TAKE_DEPTH,   // enough of this read is out
    READ_TAKE_ORD,     // the peer takes no more requests
    READ_TAKE_WAIT,    // none is free: the flow waits in the ring, on_granted follows
};

// A context for the next request of the flow: with its task, window and remote names. The caller
// issues the request and calls read_sched_issued.
enum read_take read_sched_take(struct read_flow *flow, instant_ns now, struct read_context **ret);
void read_sched_issued(struct read_flow *flow, struct read_context *context, instant_ns now);
// The same of one that was said to be issued and was not: the allotment may have changed since.
void read_sched_issued_at_last(struct read_flow *flow, struct read_context *context,
                               instant_ns now);

// The answer is complete: `context->arrived_len` octets, more than 0 unless the window is empty.
// True: the window is filled, the context is no longer the caller's, and `task->is_pending` tells
// whether the task is complete. False: the answer was partial, and the context, whose window is now
// the rest, is granted to its flow again.
bool read_sched_answer(struct read_flow *flow, struct read_context *context, instant_ns now);
// The request will not be answered.
void read_sched_abandon(struct read_flow *flow, struct read_context *context, instant_ns now);

// Verifies the invariants; false when one is broken.
bool read_flow_check(const struct read_flow *flow);
bool read_sched_check(const struct read_sched *sched);
