#include "host/pressure.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/poll_ms.h"
#include "cgroup/memory.h"
#include "descriptor/descriptor.h"
#include "link/sys.h"

// 100 ms of standstill within 2 s; without privilege the kernel allows no shorter window, and
// it tells at most once in each.
static const char trigger[] = "some 100000 2000000";
// A shortage that comes back soon lasts twice as long each time, so that Reads do not swing.
static const duration_ns calm_first_ns = 5 * NS_PER_S, calm_most_ns = 120 * NS_PER_S;
static const duration_ns quiet_ns = 300 * NS_PER_S;

static int trigger_open(const char *path)
{
    int fd = descriptor_above_standard(open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (fd >= 0 && syscall(SYS_write, fd, trigger, sizeof trigger) != sizeof trigger) {
        sys_close_fd(&fd);
    }
    return fd;
}

void pressure_open(struct pressure *p, const struct cgroup_memory *group)
{
    *p = (struct pressure){.fds = {-1, -1}, .events = {.fd = -1, .stall_fd = -1}};
    if (group->folder[0] != '\0' && !group->is_version_1) {
        char path[CGROUP_FOLDER_LEN + 32];
        snprintf(path, sizeof path, "%s/memory.pressure", group->folder);
        p->fds[PRESSURE_GROUP] = trigger_open(path);
        if (p->fds[PRESSURE_GROUP] >= 0) {
            return; // its tasks stand still for want of the machine's memory too
        }
        pressure_events_open(&p->events, group->folder);
    }
    p->fds[PRESSURE_MACHINE] = trigger_open("/proc/pressure/memory");
}

void pressure_close(struct pressure *p)
{
    for (unsigned i = 0; i < PRESSURE_EVENTS; i++) {
        sys_close_fd(&p->fds[i]);
    }
    pressure_events_close(&p->events);
}

bool pressure_is_told(const struct pressure *p)
{
    return p->fds[PRESSURE_MACHINE] >= 0 || p->fds[PRESSURE_GROUP] >= 0 || p->events.fd >= 0;
}

void pressure_poll_set(const struct pressure *p, struct pollfd ret[PRESSURE_SOURCE_COUNT])
{
    for (unsigned i = 0; i < PRESSURE_SOURCE_COUNT; i++) {
        int fd = i == PRESSURE_EVENTS ? pressure_events_poll_fd(&p->events) : p->fds[i];
        ret[i] = (struct pollfd){.fd = fd, .events = POLLPRI};
    }
}

int pressure_timeout_ms(const struct pressure *p, instant_ns now)
{
    instant_ns due_ns = p->is_short ? p->calm_at_ns : 0;
    if (p->events.window_end_ns != 0 && (due_ns == 0 || p->events.window_end_ns < due_ns)) {
        due_ns = p->events.window_end_ns;
    }
    if (due_ns == 0) {
        return -1;
    }
    return poll_ms(now, due_ns);
}

// A group that is gone, as its last process was moved to another, reports each poll for ever.
static bool trigger_is_dead(int fd, short revents)
{
    char octet;
    return (revents & POLLPRI) != 0 ? syscall(SYS_pread64, fd, &octet, sizeof octet, 0L) < 0
                                    : (revents & (POLLERR | POLLNVAL)) != 0;
}

// Is a shortage told? That of the machine may be other groups': where this one is looked at, it is
// a reason to do so.
static bool sources_look(struct pressure *p, const struct pollfd polled[PRESSURE_SOURCE_COUNT],
                         instant_ns now)
{
    bool is_told = false;
    for (unsigned i = 0; i < PRESSURE_EVENTS; i++) {
        const short revents = p->fds[i] >= 0 ? polled[i].revents : 0;
        if (trigger_is_dead(p->fds[i], revents)) {
            sys_close_fd(&p->fds[i]);
        } else if ((revents & POLLPRI) != 0) {
            is_told = true;
        }
    }
    if (p->events.fd < 0) {
        return is_told;
    }
    return pressure_events_look(&p->events, is_told || polled[PRESSURE_EVENTS].revents != 0, now);
}

// Shortage begins: calm after as long as the first time, if that was long ago.
static void shortage_begin(struct pressure *p, instant_ns now)
{
    bool is_back = p->calm_after_ns != 0 && now < instant_after(p->calm_at_ns, quiet_ns);
    p->is_short = true;
    p->calm_after_ns = is_back ? 2 * p->calm_after_ns : calm_first_ns;
    if (p->calm_after_ns > calm_most_ns) {
        p->calm_after_ns = calm_most_ns;
    }
}

bool pressure_look(struct pressure *p, const struct pollfd polled[PRESSURE_SOURCE_COUNT],
                   instant_ns now)
{
    const bool was_short = p->is_short;
    if (sources_look(p, polled, now)) {
        if (!was_short) {
            shortage_begin(p, now);
        }
        p->calm_at_ns = instant_after(now, p->calm_after_ns);
    }
    if (p->is_short && now >= p->calm_at_ns) {
        p->is_short = false;
    }
    return p->is_short != was_short;
}
