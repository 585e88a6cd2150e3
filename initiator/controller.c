// A controller's life: its queues are connected, it is enabled and identified; then it takes what
// comes, until the program or the target ends it.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "initiator/agent.h"

enum {
    DEPTH_DEFAULT = 32,
    KEEP_ALIVE_DEFAULT_MS = 5000,
    TIMEOUT_DEFAULT_MS = 10000,
    READY_COUNT = 4,       // descriptors in the epoll set
    LOOK_EVERY_POLLS = 64, // at them, also while there are completions
    STRANGE_MAX = 64,      // answers to nothing, in a row
};

instant_ns initiator_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

/* ---- the end of it --------------------------------------------------------------------------- */

// I/O under way will not be answered.
static void queue_abandon(struct initiator_queue *queue, int error)
{
    for (unsigned i = 0; queue->slots != NULL && i < queue->depth; i++) {
        struct initiator_slot *slot = &queue->slots[i];
        slot->awaits_send = false;
        if (slot->awaits_answer) {
            slot->awaits_answer = false;
            if (slot->io != NULL) {
                initiator_io_complete(slot, NVME_OK, error);
            } else {
                initiator_slot_release(slot);
            }
        }
    }
}

void initiator_lose(struct weft_nvme *nvme, int error, const char *format, ...)
{
    if (nvme->is_lost) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    why_say_args(&nvme->lost_why, format, arguments);
    va_end(arguments);
    nvme->is_lost = true;
    nvme->lost_error = error;
    // First nobody reaches the program's memory any more, then it hears of it.
    nvme->carrier->end(&nvme->admin);
    for (unsigned i = 0; i < nvme->queue_count; i++) {
        nvme->carrier->end(&nvme->queues[i]);
    }
    queue_abandon(&nvme->admin, error);
    for (unsigned i = 0; i < nvme->queue_count; i++) {
        queue_abandon(&nvme->queues[i], error);
    }
}

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

bool initiator_watch(const struct weft_nvme *nvme, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(nvme->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool initiator_set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

static int descriptors_open(struct weft_nvme *nvme, struct why *ret_why)
{
    nvme->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    nvme->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
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

// From here on whoever waits for the controller is woken by the RNIC itself, not by its thread.
// Where it cannot be so, that does it.
void initiator_drive_begin(struct weft_nvme *nvme)
{
    if (weft_drive_find(&nvme->drive)) {
        nvme->drive_fd = nvme->drive.begin(nvme->completions);
    }
    if (nvme->drive_fd >= 0 && !initiator_watch(nvme, nvme->drive_fd)) {
        nvme->drive.end(nvme->completions);
        nvme->drive_fd = -1;
    }
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

/* ---- progress -------------------------------------------------------------------------------- */

// A keep-alive that has not been answered by the time of the next one: nobody is there.
static void on_timer(struct weft_nvme *nvme)
{
    uint64_t times;
    if (read(nvme->timer_fd, &times, sizeof times) != sizeof times || nvme->is_lost) {
        return;
    }
    instant_ns now = initiator_clock();
    if (!nvme->awaits_keep_alive) {
        nvme->keep_alive_at = now;
        nvme->awaits_keep_alive = initiator_admin_keep_alive(nvme);
    } else if (now - nvme->keep_alive_at >= nvme->attr.keep_alive_ms * NS_PER_MS) {
        initiator_lose(nvme, -ETIMEDOUT, "%s has not answered for %u ms", nvme->info.nqn,
                       nvme->attr.keep_alive_ms);
    }
}

static void on_cq_event(struct weft_nvme *nvme)
{
    struct ibv_cq *cq;
    void *context;
    if (ibv_get_cq_event(nvme->completions, &cq, &context) == 0) {
        initiator_on_event(nvme, cq);
    }
}

// What has come at the RNIC is done here and now.
static void drive(struct weft_nvme *nvme)
{
    struct ibv_cq *cq;
    void *context;
    nvme->drive.pass(nvme->completions);
    while (nvme->drive.event(nvme->completions, &cq, &context) == 0) {
        initiator_on_event(nvme, cq);
    }
}

static bool may_wait(struct weft_nvme *nvme)
{
    return nvme->drive_fd < 0 || nvme->drive.may_wait(nvme->completions) != 0;
}

// What the descriptors tell.
static void look(struct weft_nvme *nvme)
{
    struct epoll_event events[READY_COUNT];
    int count = epoll_wait(nvme->epoll_fd, events, READY_COUNT, 0);
    bool is_alive = true, is_due = false;
    for (int i = 0; i < count; i++) {
        if (nvme->completions != NULL && events[i].data.fd == nvme->completions->fd) {
            on_cq_event(nvme);
        } else if (events[i].data.fd == nvme->timer_fd) {
            is_due = true;
        } else if (events[i].data.fd == nvme->drive_fd) {
            drive(nvme);
        } else {
            is_alive &= initiator_on_cm_events(nvme);
        }
    }
    if (!is_alive) {
        unsigned wc_count;
        initiator_queues_poll(nvme, &wc_count); // answers that came before the end
        initiator_lose(nvme, -ECONNRESET, "%s", initiator_ended_why(nvme));
    }
    if (is_due) {
        on_timer(nvme);
    }
}

static bool awaits_io(const struct weft_nvme *nvme)
{
    for (unsigned i = 0; i < nvme->queue_count; i++) {
        if (nvme->queues[i].taken > 0) {
            return true;
        }
    }
    return false;
}

// Behind each command its answer is looked for. While others want the processor the link does it,
// and for less long.
static bool goes_on_looking(struct weft_nvme *nvme)
{
    struct lookout *lookout = &nvme->lookout;
    instant_ns now = initiator_clock();
    if (nvme->drive_fd < 0 || !awaits_io(nvme) ||
        !lookout_goes_on(lookout, nvme->counters.commands, now) || !lookout_gives_way(lookout)) {
        return false;
    }
    return lookout_turn(lookout, now, initiator_clock, sched_yield);
}

static int poll_device(struct weft_nvme *nvme, bool looks_on)
{
    int completed = initiator_queues_send(nvme);
    unsigned wc_count;
    if (nvme->is_armed && nvme->drive_fd >= 0) {
        drive(nvme); // most often it is the RNIC, and then nothing else need be asked
    }
    if ((nvme->is_armed && !looks_on) || ++nvme->polls % LOOK_EVERY_POLLS == 0) {
        look(nvme);
    }
    for (;;) {
        int result = nvme->is_lost ? nvme->lost_error : initiator_queues_poll(nvme, &wc_count);
        if (result < 0) {
            return result;
        }
        completed += result;
        bool is_all = wc_count == 0 && initiator_queues_are_armed(nvme);
        bool goes_on = is_all && looks_on && completed == 0 && goes_on_looking(nvme);
        if (completed > 0 || (is_all && !goes_on && may_wait(nvme))) {
            return completed;
        }
        if (is_all) {
            drive(nvme);
        } else if (wc_count == 0) {
            initiator_queues_arm(nvme);
        }
    }
}

int initiator_poll_device(struct weft_nvme *nvme)
{
    return poll_device(nvme, false);
}

int initiator_look_on_device(struct weft_nvme *nvme)
{
    return poll_device(nvme, true);
}

// An answer to nothing is counted; who sends nothing else would keep the caller for ever.
int initiator_poll_by_taking(struct weft_nvme *nvme)
{
    struct initiator_arrival arrival;
    struct why why = {""};
    int completed = 0, result = 1;
    unsigned strange = 0; // in a row
    nvme->polls++;
    while (!nvme->is_lost && (result = nvme->carrier->take(nvme, &arrival, &why)) > 0) {
        uint64_t before = nvme->counters.strange;
        completed += initiator_on_arrival(&arrival);
        strange = nvme->counters.strange > before ? strange + 1 : 0;
        if (strange > STRANGE_MAX) {
            initiator_lose(nvme, -EPROTO, "it answers what nobody asked, again and again");
        }
    }
    if (result < 0) {
        initiator_lose(nvme, result, "%s", why.text);
    } else if (completed == 0 || nvme->polls % LOOK_EVERY_POLLS == 0) {
        on_timer(nvme);
    }
    return nvme->is_lost ? nvme->lost_error : completed;
}

static int progress(struct weft_nvme *nvme, int (*poll)(struct weft_nvme *nvme))
{
    int completed = poll(nvme);
    if (completed >= 0 && nvme->access.is_known) {
        initiator_admin_access_follow(nvme);
    }
    if (completed >= 0) {
        initiator_admin_watch_follow(nvme);
    }
    return completed;
}

int weft_nvme_poll(struct weft_nvme *nvme)
{
    return progress(nvme, nvme->carrier->poll);
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

void initiator_sleep(const struct weft_nvme *nvme, int timeout_ms)
{
    struct pollfd ready = {.fd = nvme->epoll_fd, .events = POLLIN};
    if (!nvme->is_lost) {
        poll(&ready, 1, timeout_ms);
    }
}

int weft_nvme_wait(struct weft_nvme *nvme, int timeout_ms)
{
    int completed = progress(nvme, nvme->carrier->look_on);
    if (completed != 0 || timeout_ms == 0) {
        return completed;
    }
    initiator_sleep(nvme, timeout_ms);
    return weft_nvme_poll(nvme);
}
