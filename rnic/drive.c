// Loops of programs that drive the device in place of its background thread: what comes then needs
// no hand-over from that thread to the program's. The thread stands by (thread.c), so nothing
// depends on a loop that is away.

#include <errno.h>

#include "link/sys.h"
#include "rnic/carrier.h"
#include "rnic/internal.h"
#include "rnic/pull.h"
#include "rnic/puller.h"

// The first one's is kept.
static void take_rouse_fd(struct shard *shard, int *rouse_fd)
{
    shard_lock(shard);
    if (shard->rouse_fd < 0) {
        shard->rouse_fd = *rouse_fd;
        *rouse_fd = -1;
    }
    shard_unlock(shard);
    sys_close_fd(rouse_fd);
}

int rnic_drive_begin(struct rnic *rnic, int rouse_fd, int *ret_fd)
{
    struct shard *shard = &rnic->shard;
    int fd = shard->carrier->link->descriptor(shard);
    if (fd < 0 || !shard->has_thread) {
        sys_close_fd(&rouse_fd);
        return -EOPNOTSUPP;
    }
    take_rouse_fd(shard, &rouse_fd);
    atomic_fetch_add_explicit(&shard->loop_count, 1, memory_order_seq_cst);
    shard_thread_rouse(shard);
    *ret_fd = fd;
    return 0;
}

void rnic_drive_end(struct rnic *rnic)
{
    struct shard *shard = &rnic->shard;
    atomic_fetch_sub_explicit(&shard->loop_count, 1, memory_order_release);
    shard_thread_rouse(shard);
}

void rnic_drive_pass(struct rnic *rnic)
{
    struct shard *shard = &rnic->shard;
    struct puller puller;
    puller_begin(&puller);
    atomic_fetch_add_explicit(&shard->loop_pass_count, 1, memory_order_relaxed);
    shard_pass_awake(shard, &puller);
    shard_pull(shard, &puller);
    // Nobody rings for who is awake: the thread is to see whether this one goes on.
    shard_thread_mind(shard, instant_after(rnic_now(rnic), SHARD_NAP_NS));
}

void rnic_drive_rise(struct rnic *rnic)
{
    shard_rise(&rnic->shard);
}

bool rnic_drive_sleep(struct rnic *rnic)
{
    struct shard *shard = &rnic->shard;
    atomic_fetch_add_explicit(&shard->loop_pass_count, 1, memory_order_relaxed);
    instant_ns until_ns = shard_fall_asleep(shard, true);
    if (until_ns != INSTANT_NEVER && until_ns != 0) { // deadlines are the thread's
        shard_thread_mind(shard, until_ns);
    }
    return until_ns != 0;
}
