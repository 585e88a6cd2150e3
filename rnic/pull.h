// Copies out of the memory of other processes of this host, for Reads of the queue pairs of a
// shard, and into it, for Writes (base/port_push.h). No lock is held during one: the peer's pages
// may have to be fetched.
//
//     a program's thread that posts, polls or drives has the lock, as the shard's *puller*
//         a queue pair begins a copy: it is the puller's now, one at a time
//     it lets the lock go, copies, takes the lock, and tells the queue pair
//
// While a copy is under way its queue pair is not destroyed or reset, and no region that it fills
// or takes octets from is taken back: who wants to waits.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/port_push.h"
#include "rnic/rnic.h"

struct puller;
struct shard;

// Without any lock: copies what has begun for this puller, and what follows from that.
void shard_pull(struct shard *shard, struct puller *puller);

// Lock held, and let go meanwhile. No copy for this queue pair begins any more, until
// qp->pull.is_barred is taken back, and when this returns none is under way.
void shard_bar_pulls(struct shard *shard, struct rnic_qp *qp);
// ... when none is that fills this local region, or takes octets from it.
void shard_await_copies_of(struct shard *shard, uint32_t lkey);

// Without any lock: returns when no peer writes by the key of this generation, which was withdrawn
// (0: none was), or the leaver of that number has come out (0: there is none). Nobody else waits
// for that.
void shard_await_writers(struct shard *shard, uint64_t generation);
void shard_await_leaver(struct shard *shard, uint64_t leaver);
