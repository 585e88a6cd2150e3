// Who may copy octets out of the memory of other processes, and into it (rnic/pull.h), and how long
// what is to be copied waits for him.
//
// The background thread copies nothing, since all connections need it. What it finds it
// *leaves* for a program's thread, if one was there lately, and so does a puller whose turn is
// over. Where nobody comes within the time that a thread takes to wake up, it goes by the
// stream: the program is at something else. Who comes back each time is waited for longer: he is
// away because somebody else has his processor, and the thread would only be one more who wants it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/port_push.h"
#include "base/time.h"

struct rnic_qp;
struct shard;

enum { PULLER_TURN_LEN = 1 << 20 }; // octets, before the program sees what has come

// So long he is waited for: twice as long each time that he came.
#define PULLER_PATIENCE_MIN_NS (50 * NS_PER_US)
#define PULLER_PATIENCE_MAX_NS (3200 * NS_PER_US)
#define PULLER_COPY_NS         (200 * NS_PER_US) // ... not less while he copies
// The thread stays within reach for who comes back, who then need not wake it.
#define PULLER_REACH_NS (200 * NS_PER_US)

// A thread that drives, as far as it copies.
struct puller {
    struct rnic_qp *qp;         // whose copies have begun; NULL: nobody's
    uint64_t turn_len;          // octets that it has copied in this turn
    const struct push_ops *ops; // the link's
    bool (*put)(const struct push_aimed *push);
    bool is_pushing; // a Write has begun; else Reads
    struct pull_run run;
    struct push_aimed push;
};

// The run is left as it is: most that look find nothing to copy.
static inline void puller_begin(struct puller *puller)
{
    puller->qp = NULL;
    puller->turn_len = 0;
}

static inline bool puller_is_free(const struct puller *puller)
{
    return puller->qp == NULL && puller->turn_len < PULLER_TURN_LEN;
}

// Without the lock: those that have begun. So many from the first on are whole.
static inline unsigned puller_copy(const struct puller *puller)
{
    return puller->is_pushing ? puller->put(&puller->push) : puller->ops->copy(&puller->run);
}

// Also by who could not have the lock: a program's thread is there, as a puller or not (NULL).
void puller_note_look(struct shard *shard, const struct puller *puller, instant_ns now);

// All below: lock held.

// What the puller has in its push, or else in its run, has begun for this queue pair.
void puller_note_begun(struct puller *puller, struct rnic_qp *qp, bool is_pushing);
// One has come for what was left, or none has.
void puller_note_return(struct shard *shard, bool has_returned);
// Until when one is expected; no later than now: none is.
instant_ns puller_expected_until(const struct shard *shard);
// ... if anything is left for him; INSTANT_NEVER: nothing is.
instant_ns puller_awaited_until(const struct shard *shard);
// Whether the thread is to stay within reach.
bool puller_returns(const struct shard *shard, instant_ns now);
