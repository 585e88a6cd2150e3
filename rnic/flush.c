// The end of a process: what was posted still leaves. The background thread does it, since the
// thread that exits may do so within a signal handler, and hold whatever its program was in the
// middle of: the shard's lock, one of the fronts', the allocator's. It only waits, and gives up
// when the other gets no further.

#include <time.h>

#include "rnic/carrier.h"
#include "rnic/create.h"
#include "rnic/internal.h"

/* ---- in the background thread ---------------------------------------------------------------- */

// Steps until `is_busy` says no, but not beyond the deadline.
static void step_while(struct rnic *rnic, bool (*is_busy)(struct rnic *), instant_ns deadline_ns)
{
    while (is_busy(rnic) && rnic_now(rnic) < deadline_ns) {
        atomic_fetch_add_explicit(&rnic->flush.turn_count, 1, memory_order_relaxed);
        if (!rnic_step(rnic)) {
            struct timespec pause = {.tv_nsec = (long)(50 * NS_PER_US)};
            nanosleep(&pause, NULL);
        }
    }
}

static bool is_ending(struct rnic *rnic)
{
    rnic_enter(rnic);
    bool is_ending = rnic->shard.carrier->link->is_ending(&rnic->shard);
    rnic_leave(rnic, 0);
    return is_ending;
}

static bool end_all(struct rnic *rnic)
{
    rnic_enter(rnic);
    bool is_awaited = rnic->shard.carrier->end(&rnic->shard);
    rnic_leave(rnic, 0);
    return is_awaited;
}

void rnic_flush_in_thread(struct rnic *rnic)
{
    const struct rnic_flush *flush = &rnic->flush;
    step_while(rnic, rnic_has_output, instant_after(rnic_now(rnic), flush->handing_ns));
    if (end_all(rnic)) {
        step_while(rnic, is_ending, instant_after(rnic_now(rnic), flush->acking_ns));
    }
}

/* ---- in the thread that exits ---------------------------------------------------------------- */

static bool thread_has_ended(struct shard *shard)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until); // the only clock that this call knows
    until.tv_nsec += (long)(10 * NS_PER_MS);
    if (until.tv_nsec >= (long)NS_PER_S) {
        until.tv_nsec -= (long)NS_PER_S;
        until.tv_sec++;
    }
    return pthread_timedjoin_np(shard->thread, NULL, &until) == 0;
}

// False: the thread has made no turn for `patience_ns`.
static bool wait_for_thread(struct rnic *rnic, duration_ns patience_ns)
{
    instant_ns moved_at_ns = rnic_now(rnic);
    unsigned seen = 0;
    while (!thread_has_ended(&rnic->shard)) {
        unsigned turns = atomic_load_explicit(&rnic->flush.turn_count, memory_order_relaxed);
        instant_ns now = rnic_now(rnic);
        if (turns != seen) {
            seen = turns;
            moved_at_ns = now;
        } else if (now >= instant_after(moved_at_ns, patience_ns)) {
            return false;
        }
    }
    rnic->shard.has_thread = false;
    return true;
}

bool rnic_flush(struct rnic *rnic, duration_ns handing_ns, duration_ns acking_ns)
{
    struct shard *shard = &rnic->shard;
    if (shard_is_held(shard)) {
        return false; // whoever would flush waits for us
    }
    rnic->flush.handing_ns = handing_ns;
    rnic->flush.acking_ns = acking_ns;
    rnic->flush.is_wanted = true;
    atomic_store_explicit(&shard->is_stopping, true, memory_order_release);
    shard_thread_rouse(shard);
    return wait_for_thread(rnic, handing_ns);
}
