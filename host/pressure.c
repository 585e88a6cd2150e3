#include "host/pressure.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

// 100 ms of standstill within 2 s; without privilege the kernel allows no shorter window, and it
// tells at most once in each.
static const char trigger[] = "some 100000 2000000";
static const duration_ns calm_after_ns = 5 * NS_PER_S;

void pressure_open(struct pressure *p)
{
    *p = (struct pressure){.fd = open("/proc/pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC)};
    if (p->fd >= 0 && syscall(SYS_write, p->fd, trigger, sizeof trigger) != sizeof trigger) {
        pressure_close(p);
    }
}

void pressure_close(struct pressure *p)
{
    if (p->fd >= 0) {
        syscall(SYS_close, p->fd);
        p->fd = -1;
    }
}

int pressure_timeout_ms(const struct pressure *p, instant_ns now)
{
    if (!p->is_short) {
        return -1;
    }
    return now < p->calm_at_ns ? (int)((p->calm_at_ns - now) / NS_PER_MS) + 1 : 0;
}

bool pressure_look(struct pressure *p, short revents, instant_ns now)
{
    bool was_short = p->is_short;
    if ((revents & POLLPRI) != 0) {
        p->is_short = true;
        p->calm_at_ns = instant_after(now, calm_after_ns);
    } else if ((revents & (POLLERR | POLLNVAL)) != 0) {
        pressure_close(p);
    }
    if (p->is_short && now >= p->calm_at_ns) {
        p->is_short = false;
    }
    return p->is_short != was_short;
}
