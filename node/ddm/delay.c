// delay: keeps commands for a while before the next DDM sees them.

#include <errno.h>

#include "base/list.h"
#include "base/time.h"
#include "node/ddm/drivers.h"
#include "node/ddm/filter.h"
#include "node/ddm/parameters.h"
#include "node/interface/request.h"
#include "node/interface/rta_ddm.h"

struct delay {
    struct ddm ddm;
    duration_ns by_operation[NODE_DEVICE_OPERATION_COUNT];
    struct list_link held; // commands in the order of their time, else in that they came
};

static const char *const keys[] = {"delay", "delay.read", "delay.write", "delay.flush", NULL};

static int delay_open(const struct ddm_target *target, const struct ddm_host *host,
                      struct ddm *next, struct ddm **ret, struct why *ret_why)
{
    duration_ns all = 0, read, write, flush;
    int error = parameter_duration(target, "delay", &all, ret_why);
    read = write = flush = all;
    if (error != 0 || (error = parameter_duration(target, "delay.read", &read, ret_why)) != 0 ||
        (error = parameter_duration(target, "delay.write", &write, ret_why)) != 0 ||
        (error = parameter_duration(target, "delay.flush", &flush, ret_why)) != 0) {
        return error;
    }
    struct ddm *ddm = filter_create(sizeof(struct delay), &ddm_delay, host, next);
    if (ddm == NULL) {
        return -ENOMEM;
    }
    struct delay *delay = (struct delay *)ddm;
    list_init(&delay->held);
    for (unsigned i = 0; i < NODE_DEVICE_OPERATION_COUNT; i++) {
        delay->by_operation[i] = all;
    }
    delay->by_operation[NODE_READ] = read;
    delay->by_operation[NODE_WRITE] = write;
    delay->by_operation[NODE_FLUSH] = flush;
    *ret = ddm;
    return 0;
}

static instant_ns due(const struct delay *delay, const struct ddm_command *command)
{
    return instant_after(command->submitted_at_ns, delay->by_operation[command->operation]);
}

static int delay_submit(struct ddm *ddm, struct ddm_command *command)
{
    struct delay *delay = (struct delay *)ddm;
    if (delay->by_operation[command->operation] == 0) {
        return filter_submit(ddm, command);
    }
    struct list_link *behind = delay->held.prev; // only other operations' may be later
    while (behind != &delay->held &&
           due(delay, LIST_ENTRY(behind, struct ddm_command, link)) > due(delay, command)) {
        behind = behind->prev;
    }
    list_push_head(behind, &command->link);
    return 0;
}

static struct ddm_command *earliest(const struct delay *delay)
{
    const struct list_link *held = &delay->held;
    return list_is_empty(held) ? NULL : LIST_ENTRY(held->next, struct ddm_command, link);
}

static instant_ns delay_next_deadline(struct ddm *ddm)
{
    const struct delay *delay = (const struct delay *)ddm;
    const struct ddm_command *first = earliest(delay);
    instant_ns at = filter_next_deadline(ddm);
    return first != NULL ? instant_min(at, due(delay, first)) : at;
}

static void release(struct delay *delay, instant_ns now)
{
    struct ddm_command *command;
    while ((command = earliest(delay)) != NULL && due(delay, command) <= now) {
        list_remove(&command->link);
        int error = filter_submit(&delay->ddm, command);
        if (error == -EAGAIN) {
            list_push_head(&delay->held, &command->link);
            break;
        }
        if (error != 0) {
            ddm_command_finish(command, NODE_INTERNAL, (uint32_t)-error);
        }
    }
    filter_flush_queue(&delay->ddm);
}

static void delay_poll(struct ddm *ddm, instant_ns now)
{
    filter_poll(ddm, now);
    release((struct delay *)ddm, now);
}

static void delay_drain(struct ddm *ddm)
{
    struct delay *delay = (struct delay *)ddm;
    do {
        release(delay, INSTANT_NEVER);
        filter_drain(ddm);
    } while (!list_is_empty(&delay->held));
}

static const char *const calls[] = {NULL};

const struct ddm_driver ddm_delay = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "delay",
    .summary = "keeps commands for a while",
    .fence = "that of the next",
    .parameters = keys,
    .is_filter = true,
    .calls = calls,
    .open = delay_open,
    .probe = filter_probe,
    .submit = delay_submit,
    .flush_queue = filter_flush_queue,
    .poll_fd = filter_poll_fd,
    .next_deadline = delay_next_deadline,
    .poll = delay_poll,
    .drain = delay_drain,
    .close = filter_close,
};
