// Event channels: a queue of events behind an eventfd that counts them, so that the descriptor is
// readable exactly while events wait, can be polled, and blocks or not by the program's own flag.
// An event that goes away undelivered takes its count with it.
//
// Events are posted by whatever thread drives the RNIC, under its lock. The program may cancel that
// thread, so nothing here is a cancellation point: the system calls are made without libc's
// wrappers.

#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"
#include "cm/cm.h"
#include "descriptor/descriptor.h"

struct rdma_event_channel *rdma_create_event_channel(void)
{
    cm_fork_prepare();
    struct cm_channel *channel = calloc(1, sizeof *channel);
    if (channel == NULL) {
        return NULL;
    }
    channel->channel.fd = descriptor_above_standard(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
    if (channel->channel.fd < 0) {
        free(channel);
        return NULL;
    }
    channel->generation = cm_generation();
    list_init(&channel->events);
    list_init(&channel->ids);
    return &channel->channel;
}

bool cm_channel_is_alive(const struct cm_channel *channel)
{
    return channel->generation == cm_generation();
}

// A program's event thread may be on its way back to rdma_get_cm_event while another thread
// destroys the channel (rping ends that way). It shall find a channel on which nothing comes any
// more, as if it had begun to wait earlier, and not memory of somebody else: the last few are
// kept.
void cm_channel_bury(struct cm_channel *channel)
{
    enum { GRAVE_COUNT = 64 };
    static struct cm_channel *graves[GRAVE_COUNT];
    static unsigned next;
    int fd = channel->channel.fd;
    atomic_store(&channel->is_destroyed, true);
    cm_lock();
    struct cm_channel *oldest = graves[next];
    graves[next] = channel;
    next = (next + 1) % GRAVE_COUNT;
    cm_unlock();
    free(oldest);
    close(fd);
}

void cm_channel_post(struct cm_channel *channel, struct cm_event *event)
{
    CHECK(cm_lock_is_held());
    list_push_tail(&channel->events, &event->link);
    // Cannot block: the count would have to reach 2^64 - 1.
    uint64_t one = 1;
    syscall(SYS_write, channel->channel.fd, &one, sizeof one);
}

void cm_channel_withdraw(struct cm_channel *channel, struct cm_event *event)
{
    CHECK(cm_lock_is_held());
    list_remove(&event->link);
    // If it would block, a reader has the count already; it will find the queue shorter, and wait
    // again. The descriptor itself may be a blocking one: only this read is not to wait.
    uint64_t count;
    struct iovec iov = {.iov_base = &count, .iov_len = sizeof count};
    syscall(SYS_preadv2, channel->channel.fd, &iov, 1, -1L, -1L, RWF_NOWAIT);
}
