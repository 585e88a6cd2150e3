// A controller's life: its queues are connected, it is enabled and identified, and ended.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "descriptor/descriptor.h"
#include "initiator/agent.h"

enum {
    DEPTH_DEFAULT = 32,
    KEEP_ALIVE_DEFAULT_MS = 5000,
    TIMEOUT_DEFAULT_MS = 10000,
};

/* ---- the end of it --------------------------------------------------------------------------- */

static void close_if_open(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

static void queue_free(struct initiator_queue *queue)
{
    queue->nvme->carrier->destroy(queue);
    free(queue->slots);
}

static void controller_free(struct weft_nvme *nvme)
{
    initiator_lose(nvme, -ECANCELED, "disconnected");
    for (unsigned i = 0; i < nvme->queue_count; i++) {
        queue_free(&nvme->queues[i]);
    }
    queue_free(&nvme->admin);
    nvme->carrier->close(nvme);
    close_if_open(nvme->epoll_fd);
    close_if_open(nvme->timer_fd);
    free(nvme->admin_data);
    free(nvme->queues);
    free(nvme);
}

void weft_nvme_disconnect(struct weft_nvme *nvme)
{
    if (nvme == NULL) {
        return;
    }
    if (!nvme->is_lost) {
        initiator_admin_shut_down(nvme);
    }
    controller_free(nvme);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static int descriptors_open(struct weft_nvme *nvme, struct why *ret_why)
{
    nvme->epoll_fd = descriptor_above_standard(epoll_create1(EPOLL_CLOEXEC));
    nvme->timer_fd =
        descriptor_above_standard(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (nvme->epoll_fd < 0 || nvme->timer_fd < 0) {
        return initiator_why(ret_why, -errno, "no descriptors: %s", strerror(errno));
    }
    if (!initiator_watch(nvme, nvme->timer_fd)) {
        return initiator_why(ret_why, -errno, "descriptors cannot be waited for: %s",
                             strerror(errno));
    }
    return nvme->carrier->open(nvme, ret_why);
}

static bool is_kept(const struct weft_nvme_attr *attr)
{
    return (attr->flags & WEFT_NVME_PERSISTENT) != 0;
}

static int attr_take(struct weft_nvme *nvme, const struct weft_nvme_attr *attr, struct why *ret_why)
{
    struct weft_nvme_attr *own = &nvme->attr;
    *own = *attr;
    nvme->address = *attr->address;
    own->depth = own->depth > 0 ? own->depth : DEPTH_DEFAULT;
    own->queue_count = own->queue_count > 0 ? own->queue_count : 1;
    own->timeout_ms = own->timeout_ms > 0 ? own->timeout_ms : TIMEOUT_DEFAULT_MS;
    own->keep_alive_ms = own->keep_alive_ms > 0 ? own->keep_alive_ms : KEEP_ALIVE_DEFAULT_MS;
    if (nvme->address.nqn[0] == '\0') {
        own->queue_count = 0;
        own->keep_alive_ms = is_kept(own) ? own->keep_alive_ms : 0;
    }
    if (own->depth > WEFT_NVME_DEPTH_MAX || own->queue_count > WEFT_NVME_QUEUE_MAX) {
        return initiator_why(ret_why, -EINVAL, "at most %d commands on each of %d queues",
                             WEFT_NVME_DEPTH_MAX, WEFT_NVME_QUEUE_MAX);
    }
    snprintf(nvme->info.nqn, sizeof nvme->info.nqn, "%s",
             nvme->address.nqn[0] != '\0' ? nvme->address.nqn : WEFT_NVME_DISCOVERY_NQN);
    initiator_identity_choose(nvme);
    return 0;
}

static int queue_open(struct initiator_queue *queue, struct why *ret_why)
{
    if (initiator_slots_create(queue) != 0) {
        return initiator_why(ret_why, -ENOMEM, "no memory for %u commands", queue->depth);
    }
    return queue->nvme->carrier->meet(queue, ret_why);
}

static int admin_open(struct weft_nvme *nvme, struct why *ret_why)
{
    nvme->admin.depth = nvme->admin.limit = ADMIN_DEPTH;
    nvme->admin.capsule_len = NVME_SQE_LEN;
    int error = queue_open(&nvme->admin, ret_why);
    if (error != 0) {
        return error;
    }
    nvme->admin_piece = (struct iovec){nvme->admin_data, ADMIN_DATA_LEN};
    if ((error = initiator_admin_connect(&nvme->admin, ret_why)) != 0 ||
        (error = initiator_admin_enable(nvme, ret_why)) != 0) {
        return error;
    }
    if ((error = initiator_identify_controller(nvme, ret_why)) != 0) {
        return error;
    }
    if (nvme->attr.queue_count == 0 && is_kept(&nvme->attr)) {
        return initiator_admin_watch_begin(nvme, ret_why);
    }
    return nvme->access.is_known ? initiator_admin_access_begin(nvme, ret_why) : 0;
}

// Asks for I/O queues; gets as many as the target gives.
static int queues_ask(struct weft_nvme *nvme, unsigned *ret_count, struct why *ret_why)
{
    uint32_t wish = nvme->attr.queue_count - 1;
    uint64_t given;
    const struct initiator_admin_command command = {.opcode = NVME_ADMIN_SET_FEATURES,
                                                    .cdw10 = NVME_FEATURE_NUMBER_OF_QUEUES,
                                                    .cdw11 = wish | wish << 16,
                                                    .name = "Set Features, number of queues"};
    int error = initiator_admin_demand(nvme, &command, &given, ret_why);
    if (error == 0) {
        uint32_t submission = (uint16_t)given, completion = (uint16_t)(given >> 16);
        uint32_t least = submission < completion ? submission : completion;
        *ret_count = least < wish ? least + 1 : wish + 1;
    }
    return error;
}

// How many commands a queue may have outstanding: what the program, CAP and the controller say.
static unsigned depth_choose(const struct weft_nvme *nvme, unsigned max_cmd)
{
    unsigned depth = nvme->attr.depth;
    unsigned entries =
        nvme->capabilities & NVME_CAP_MQES_MASK; // less 1: as many may be outstanding
    depth = entries > 0 && entries < depth ? entries : depth;
    return max_cmd > 0 && max_cmd < depth ? max_cmd : depth;
}

static int queues_open(struct weft_nvme *nvme, struct why *ret_why)
{
    unsigned count;
    int error = queues_ask(nvme, &count, ret_why);
    if (error != 0) {
        return error;
    }
    nvme->queues = calloc(count, sizeof *nvme->queues);
    if (nvme->queues == NULL) {
        return initiator_why(ret_why, -ENOMEM, "no memory for %u queues", count);
    }
    nvme->info.is_oneshot = true;
    for (unsigned i = 0; i < count; i++) {
        struct initiator_queue *queue = &nvme->queues[nvme->queue_count++];
        *queue = (struct initiator_queue){.nvme = nvme,
                                          .number = (uint16_t)(i + 1),
                                          .depth = depth_choose(nvme, nvme->info.depth),
                                          .capsule_len = NVME_SQE_LEN + nvme->info.in_capsule_len};
        if ((error = queue_open(queue, ret_why)) != 0 ||
            (error = initiator_admin_connect(queue, ret_why)) != 0) {
            return error;
        }
        nvme->info.is_oneshot &= queue->is_oneshot;
    }
    nvme->info.queue_count = count;
    nvme->info.depth = 0;
    for (unsigned i = 0; i < count; i++) {
        nvme->info.depth += nvme->queues[i].limit;
    }
    return 0;
}

static void keep_alive_begin(struct weft_nvme *nvme)
{
    uint64_t every_ms = nvme->attr.keep_alive_ms / 2;
    struct timespec every = {.tv_sec = (time_t)(every_ms / 1000),
                             .tv_nsec = (long)(every_ms % 1000 * NS_PER_MS)};
    struct itimerspec times = {.it_interval = every, .it_value = every};
    if (every_ms > 0) {
        timerfd_settime(nvme->timer_fd, 0, &times, NULL);
    }
}

static int controller_open(const struct weft_nvme_attr *attr, struct weft_nvme **ret,
                           struct why *ret_why)
{
    struct weft_nvme *nvme = calloc(1, sizeof *nvme);
    if (nvme == NULL) {
        return initiator_why(ret_why, -ENOMEM, "no memory");
    }
    nvme->epoll_fd = nvme->timer_fd = nvme->drive_fd = -1;
    nvme->admin.nvme = nvme;
    nvme->carrier =
        attr->address->transport == WEFT_NVME_TCP ? &initiator_by_tcp : &initiator_by_rdma;
    int error = attr_take(nvme, attr, ret_why);
    if (error == 0) {
        error = descriptors_open(nvme, ret_why);
    }
    if (error == 0) {
        error = admin_open(nvme, ret_why);
    }
    if (error == 0 && nvme->attr.queue_count > 0) {
        error = queues_open(nvme, ret_why);
    }
    if (error != 0) {
        controller_free(nvme);
        return error;
    }
    if (nvme->carrier->begin != NULL) {
        nvme->carrier->begin(nvme);
    }
    keep_alive_begin(nvme);
    *ret = nvme;
    return 0;
}

int weft_nvme_connect(const struct weft_nvme_attr *attr, struct weft_nvme **ret, char *ret_why)
{
    struct why why = {""};
    return initiator_tell(ret_why, &why, controller_open(attr, ret, &why));
}

void weft_nvme_info(const struct weft_nvme *nvme, struct weft_nvme_info *ret)
{
    *ret = nvme->info;
}

void weft_nvme_counters(const struct weft_nvme *nvme, struct weft_nvme_counters *ret)
{
    *ret = nvme->counters;
}

const char *weft_nvme_why(const struct weft_nvme *nvme)
{
    return nvme->is_lost ? nvme->lost_why.text : NULL;
}

void weft_nvme_send(struct weft_nvme *nvme)
{
    if (nvme->carrier->send_waiting != NULL) {
        nvme->carrier->send_waiting(nvme);
    }
}

int weft_nvme_lend(struct weft_nvme *nvme, void *ptr, size_t len)
{
    return nvme->carrier->lend(nvme, ptr, len);
}

void weft_nvme_take_back(struct weft_nvme *nvme, void *ptr)
{
    nvme->carrier->take_back(nvme, ptr);
}

int weft_nvme_fd(const struct weft_nvme *nvme)
{
    return nvme->epoll_fd;
}
