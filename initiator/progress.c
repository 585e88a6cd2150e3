// What has come, and what is due.

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "clock/clock.h"
#include "initiator/agent.h"

enum {
    READY_COUNT = 4,       // descriptors in the epoll set
    LOOK_EVERY_POLLS = 64, // at them, also while there are completions
    STRANGE_MAX = 64,      // answers to nothing, in a row
};

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

// A keep-alive that has not been answered by the time of the next one: nobody is there.
static void on_timer(struct weft_nvme *nvme)
{
    uint64_t times;
    if (read(nvme->timer_fd, &times, sizeof times) != sizeof times || nvme->is_lost) {
        return;
    }
    instant_ns now = clock_now();
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
    instant_ns now = clock_now();
    if (nvme->drive_fd < 0 || !awaits_io(nvme) ||
        !lookout_goes_on(lookout, nvme->counters.commands, now) || !lookout_gives_way(lookout)) {
        return false;
    }
    return lookout_turn(lookout, now, clock_now, sched_yield);
}

static int poll_device(struct weft_nvme *nvme, bool looks_on)
{
    int completed = initiator_queues_send(nvme);
    unsigned wc_count;
    if (nvme->is_armed && nvme->drive_fd >= 0) {
        if (looks_on) { // nobody has said that the RNIC's descriptor is readable
            nvme->drive.rise(nvme->completions);
        }
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
    if (completed >= 0) {
        initiator_admin_follow(nvme);
    }
    return completed;
}

int weft_nvme_poll(struct weft_nvme *nvme)
{
    return progress(nvme, nvme->carrier->poll);
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
