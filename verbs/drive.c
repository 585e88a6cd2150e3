// A program's loop drives: <weft/drive.h> on the objects of this room.

#include <pthread.h>
#include <sys/eventfd.h>

#include <weft/drive.h>

#include "descriptor/descriptor.h"
#include "rnic/rnic.h"
#include "verbs/event.h"
#include "verbs/front.h"

// Whose loop is within a pass in this thread: the events that come by it need no descriptor.
static _Thread_local const struct front_channel *passing;

bool front_drives(const struct front_channel *channel)
{
    return passing == channel;
}

static struct front_channel *front_of(struct ibv_comp_channel *channel)
{
    return (struct front_channel *)channel;
}

static struct rnic *rnic_of(const struct front_channel *channel)
{
    return front_context_of(channel->channel.context)->rnic;
}

// Says whether that changed anything.
static bool set_driver(struct front_channel *channel, bool is_driver)
{
    struct ibv_context *context = channel->channel.context;
    pthread_mutex_lock(&context->mutex);
    bool has_changed = channel->is_driver != is_driver;
    channel->is_driver = is_driver;
    pthread_mutex_unlock(&context->mutex);
    return has_changed;
}

int weft_drive_begin(struct ibv_comp_channel *ibv_channel)
{
    struct front_channel *channel = front_of(ibv_channel);
    int fd;
    if (!front_is_alive(ibv_channel->context)) {
        errno = EIO;
        return -1;
    }
    if (!set_driver(channel, true)) {
        errno = EBUSY;
        return -1;
    }
    int rouse_fd = descriptor_above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    int error = rouse_fd < 0 ? -errno : rnic_drive_begin(rnic_of(channel), rouse_fd, &fd);
    if (error != 0) {
        set_driver(channel, false);
        errno = -error;
        return -1;
    }
    return fd;
}

void weft_drive_end(struct ibv_comp_channel *ibv_channel)
{
    struct front_channel *channel = front_of(ibv_channel);
    if (front_is_alive(ibv_channel->context) && set_driver(channel, false)) {
        rnic_drive_end(rnic_of(channel));
        event_raise_told(&channel->events);
    }
}

void front_drive_forget(struct front_channel *channel)
{
    weft_drive_end(&channel->channel);
}

void weft_drive_pass(struct ibv_comp_channel *channel)
{
    if (front_is_alive(channel->context)) {
        passing = front_of(channel);
        rnic_drive_pass(rnic_of(passing));
        passing = NULL;
    }
}

void weft_drive_rise(struct ibv_comp_channel *channel)
{
    if (front_is_alive(channel->context)) {
        rnic_drive_rise(rnic_of(front_of(channel)));
    }
}

int weft_drive_event(struct ibv_comp_channel *channel, struct ibv_cq **ret_cq, void **ret_context)
{
    struct front_cq_event event;
    bool is_alive = front_is_alive(channel->context);
    if (!is_alive ||
        event_take(&front_of(channel)->events, front_completion_taken, &event) == NULL) {
        errno = is_alive ? EAGAIN : EIO;
        return -1;
    }
    *ret_cq = event.cq;
    *ret_context = event.cq_context;
    return 0;
}

int weft_drive_may_wait(struct ibv_comp_channel *channel)
{
    struct front_channel *front = front_of(channel);
    return !front_is_alive(channel->context) ||
           (!event_is_told(&front->events) && rnic_drive_sleep(rnic_of(front)));
}
