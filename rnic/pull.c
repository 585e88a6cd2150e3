// Who waits for the end of copies: rnic/lock.c makes ours, rnic/ep/push.c and rnic/packet/push.c
// begin and end them; those of peers into our memory are the link's to know of.

#include "rnic/pull.h"

#include <pthread.h>
#include <time.h>

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "base/trace.h"
#include "link/sys.h"
#include "rnic/carrier.h"
#include "rnic/internal.h"
#include "rnic/shard.h"
#include "wq/wq.h"

// A copy takes microseconds. One that takes so long is said to be waited for.
static const duration_ns long_wait_ns = 100 * NS_PER_MS;
// Between two looks whether a peer has come out, who tells nobody (link/local/gate.c).
static const duration_ns nap_ns = 20 * NS_PER_US;

static bool is_out(const struct rnic_qp *qp)
{
    return !list_is_empty(&qp->pull.link);
}

static struct rnic_qp *find_user(const struct shard *shard, uint32_t lkey)
{
    for (const struct list_link *l = shard->pulls.next; l != &shard->pulls; l = l->next) {
        struct rnic_qp *qp = LIST_ENTRY(l, struct rnic_qp, pull.link);
        if (qp->pull.is_pushing ? wq_next_reads_from(qp->wq, lkey) : wq_reads_into(qp->wq, lkey)) {
            return qp;
        }
    }
    return NULL;
}

static void wait_for_end(struct shard *shard, const struct rnic_qp *qp, bool *is_said)
{
    struct timespec until;
    const uint32_t qp_num = qp->qp_num;
    const int process = qp->pull.process;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)long_wait_ns;
    until.tv_sec += until.tv_nsec / NS_PER_S;
    until.tv_nsec %= NS_PER_S;
    shard->pull_waiter_count++;
    int error = shard_wait(shard, &shard->pull_ended, &until);
    shard->pull_waiter_count--;
    if (error != 0 && !*is_said) {
        *is_said = true;
        TRACE(shard->rnic->trace, TRACE_ERROR,
              "QP %u: waiting for a thread that copies from or to the memory of process %d", qp_num,
              process);
    }
}

// The child of a fork has the lists, and none of the threads.
void shard_bar_pulls(struct shard *shard, struct rnic_qp *qp)
{
    CHECK(shard_is_held(shard));
    qp->pull.is_barred = true;
    bool is_said = false;
    while (is_out(qp) && rnic_is_alive(shard->rnic)) {
        wait_for_end(shard, qp, &is_said);
    }
}

void shard_await_copies_of(struct shard *shard, uint32_t lkey)
{
    bool is_said = false;
    const struct rnic_qp *qp;
    CHECK(shard_is_held(shard));
    while (rnic_is_alive(shard->rnic) && (qp = find_user(shard, lkey)) != NULL) {
        wait_for_end(shard, qp, &is_said);
    }
}

/* ---- those of peers -------------------------------------------------------------------------- */

// The child of a fork has none of its parent's peers.
static void await_peer(struct shard *shard, bool (*is_over)(struct shard *shard, uint64_t what),
                       uint64_t what)
{
    for (bool is_out = false; !is_out;) {
        sys_nap(nap_ns);
        shard_lock(shard);
        is_out = !rnic_is_alive(shard->rnic) || is_over(shard, what);
        shard_unlock(shard);
    }
}

void shard_await_writers(struct shard *shard, uint64_t generation)
{
    if (generation != 0) {
        await_peer(shard, shard->carrier->link->is_key_free, generation);
    }
}

void shard_await_leaver(struct shard *shard, uint64_t leaver)
{
    if (leaver != 0) {
        await_peer(shard, shard->carrier->link->is_leaver_out, leaver);
    }
}
