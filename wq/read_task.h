// One task of a queue pair that needs requests to the peer: a read of any size, or an atomic, or a
// request of no octets. A read that is larger than the data allotment runs as a first request and
// subsidiary requests, each made from what is still missing:
//
//     remaining = initial - completed
//     the next request starts after completed + outstanding
//
// The task lives in its work request, so that it survives the loss of its read contexts
// (read_sched.h).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum read_kind {
    READ_KIND_READ,   // fills local memory
    READ_KIND_ATOMIC, // brings back eight octets
    READ_KIND_FLUSH,  // no octets: its answer proves that a write has been placed
    READ_KIND_READY,  // no octets, no work request: tells the peer that it may send
};

struct read_task {
    struct list_link link; // in its flow, while something of it has not been asked for
    enum read_kind kind : 8;
    bool is_pending;   // posted and not complete
    bool is_preempted; // a context was taken from it, and it has got none since
    bool may_pass;     // ... what is left of Reads that were posted before it
    uint32_t remote_key;
    uint64_t remote_addr;
    uint64_t initial_len;       // octets, 0 to 2^31
    uint64_t completed_len;     // of them: answered
    uint64_t outstanding_len;   // of them: asked for and not answered
    uint32_t outstanding_count; // requests without their answer
    uint32_t request_count;     // requests so far: the first and the subsidiary ones
    void *cookie;               // whose it is
};

// What the next request fetches: [offset, offset + length) of the task.
struct read_part {
    uint64_t offset;
    uint32_t length;
};

static inline uint64_t read_task_remaining_len(const struct read_task *task)
{
    return task->initial_len - task->completed_len;
}

// Is there something that no request has asked for?
static inline bool read_task_has_rest(const struct read_task *task)
{
    return task->request_count == 0 ||
           task->outstanding_len < read_task_remaining_len(task); // never of kinds without octets
}

// The next request's part, at most `allotment_len` octets; 0: undivided. Only reads are divided.
struct read_part read_task_next(const struct read_task *task, uint32_t allotment_len);

// A request for this many octets was made; was answered with `answered_len` of them, which leaves
// the rest to be asked for again by whoever holds its context.
void read_task_request(struct read_task *task, uint32_t length);
void read_task_answer(struct read_task *task, uint32_t length, uint32_t answered_len);

// completed + outstanding never pass initial, and what is outstanding is out in some request.
bool read_task_check(const struct read_task *task);
