// The background thread of a shard: it drives what no program's thread does, since the target of
// RDMA Writes and Reads makes no call at all. While a program polls hard the thread stands back and
// looks every 100 us, up to 500 us when it goes on for long, whether the polling has ended; while
// nothing is to be done it sleeps in the link, without a time-out if there is no deadline.

#include <signal.h>
#include <time.h>

#include "rnic/carrier.h"
#include "rnic/internal.h"
#include "rnic/shard.h"

enum { THREAD_STACK_LEN = 256 * 1024 };

// A program that has not polled for so long has stopped polling.
static const duration_ns polling_gap_ns = 100 * NS_PER_US;

static const duration_ns stand_back_max_ns = 500 * NS_PER_US;

static bool program_drives(struct shard *shard, instant_ns now)
{
    if (!atomic_load_explicit(&shard->is_polled, memory_order_acquire)) {
        return false;
    }
    instant_ns at = atomic_load_explicit(&shard->polled_at_ns, memory_order_relaxed);
    if (now < instant_after(at, polling_gap_ns)) {
        return true;
    }
    atomic_store_explicit(&shard->is_polled, false, memory_order_release);
    return false;
}

// The longer the program has polled without a break, the longer it is left alone: each look costs
// it a preemption where there is no processor to spare.
static void stand_back(duration_ns polled_for_ns)
{
    duration_ns gap_ns = polled_for_ns / 16;
    gap_ns = gap_ns < polling_gap_ns ? polling_gap_ns : instant_min(gap_ns, stand_back_max_ns);
    struct timespec gap = {.tv_nsec = (long)gap_ns};
    nanosleep(&gap, NULL);
}

// Sleeps in the link until something is ready. What it finds is left for the pass under the lock,
// since a stream may be closed between the two.
static void sleep_in_link(struct shard *shard, instant_ns deadline_ns)
{
    instant_ns now = rnic_now(shard->rnic);
    if (deadline_ns <= now) {
        return;
    }
    duration_ns timeout_ns = deadline_ns == INSTANT_NEVER ? INSTANT_NEVER : deadline_ns - now;
    shard->carrier->link->sleep(shard, timeout_ns);
}

// Lock held. Posts that wait for company count on the thread.
static instant_ns wake_up_at(const struct shard *shard)
{
    const instant_ns now = rnic_now(shard->rnic), deadline_ns = shard_next_deadline(shard);
    return gathering_is_likely(&shard->gathering, now)
               ? instant_min(deadline_ns, instant_after(now, GATHERING_REACH_NS))
               : deadline_ns;
}

static void *thread_main(void *arg)
{
    struct shard *shard = arg;
    instant_ns polled_since_ns = 0;
    while (!atomic_load_explicit(&shard->is_stopping, memory_order_acquire)) {
        instant_ns now = rnic_now(shard->rnic);
        if (program_drives(shard, now)) {
            polled_since_ns = polled_since_ns == 0 ? now : polled_since_ns;
            stand_back(now - polled_since_ns);
            continue;
        }
        polled_since_ns = 0;
        shard_lock(shard);
        bool moved = shard_run(shard, rnic_now(shard->rnic));
        bool is_busy =
            moved || !list_is_empty(&shard->runnable) || !shard->carrier->link->may_sleep(shard);
        instant_ns until_ns = is_busy ? 0 : wake_up_at(shard);
        atomic_store_explicit(&shard->asleep_until_ns, until_ns, memory_order_seq_cst);
        shard_unlock(shard);
        sleep_in_link(shard, until_ns);
        atomic_store_explicit(&shard->asleep_until_ns, 0, memory_order_seq_cst);
    }
    if (shard->rnic->flush.is_wanted) {
        rnic_flush_in_thread(shard->rnic);
    }
    return NULL;
}

int shard_thread_start(struct shard *shard)
{
    sigset_t all, before;
    pthread_attr_t attr;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, THREAD_STACK_LEN);
    // The program's signals are the program's: the thread takes none.
    pthread_sigmask(SIG_SETMASK, &all, &before);
    shard->has_thread = true; // which the thread itself may ask
    int error = pthread_create(&shard->thread, &attr, thread_main, shard);
    if (error != 0) {
        shard->has_thread = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return -error;
}

void shard_thread_stop(struct shard *shard)
{
    if (!shard->has_thread) {
        return;
    }
    atomic_store_explicit(&shard->is_stopping, true, memory_order_release);
    shard->carrier->link->wake(shard);
    pthread_join(shard->thread, NULL);
    shard->has_thread = false;
}
