// Copies out of the memory of other processes of this host (base/port_push.h), for Reads of the
// queue pairs of a shard. No lock is held during one: the peer's pages may have to be fetched.
//
//     a program's thread that posts or polls has the lock, as the shard's *puller*
//         a queue pair begins a pull: it is the puller's now, one at a time
//     it lets the lock go, copies, takes the lock, and tells the queue pair
//
// The background thread pulls nothing, since all connections need it: while it drives, Reads go by
// the stream. While a copy is under way its queue pair is not destroyed or reset, and no region
// that it fills is taken back: who wants to waits.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/port_push.h"
#include "rnic/rnic.h"

struct shard;

enum { PULLER_TURN_LEN = 1 << 20 }; // octets, before the program sees what has come

// A thread that drives, as far as it pulls.
struct puller {
    struct rnic_qp *qp; // whose pull has begun; NULL: none
    uint64_t turn_len;  // octets that it has copied in this turn
};

static inline bool puller_is_free(const struct puller *puller)
{
    return puller->qp == NULL && puller->turn_len < PULLER_TURN_LEN;
}

// Without any lock: copies what has begun for this puller, and what follows from that.
void shard_pull(struct shard *shard, struct puller *puller);

// Lock held, and let go meanwhile. No copy for this queue pair begins any more, until
// qp->pull.is_barred is taken back, and when this returns none is under way.
void shard_bar_pulls(struct shard *shard, struct rnic_qp *qp);
// ... when none is that fills this local region.
void shard_await_pulls_into(struct shard *shard, uint32_t lkey);
