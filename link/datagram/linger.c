// Looking on for a while before a sleep. If something comes, that saves the wake-up, and its sender
// the call of the scheduler; if not, it has kept a processor from others, perhaps from whoever was
// to send. So it is done as long as it pays, and tried now and then.

#include <sys/epoll.h>

#include "base/time.h"
#include "link/datagram/udp_link.h"
#include "link/sys.h"

enum {
    LOSSES_MAX = 4,  // so often in a row it may have been for nothing
    WAITS_UNTIL = 16 // ... then it is tried before every 16th sleep
};

static bool is_worth_it(struct datagram_linger *l)
{
    return l->losses < LOSSES_MAX || l->waits++ % WAITS_UNTIL == WAITS_UNTIL - 1;
}

static instant_ns now_of(const struct datagram_udp *d)
{
    return d->config.clock(d->config.clock_ctx);
}

int datagram_linger(struct datagram_udp *d, struct epoll_event *ret, int max,
                    duration_ns timeout_ns)
{
    struct datagram_linger *l = &d->linger;
    const duration_ns limit_ns = instant_min(d->config.linger_ns, timeout_ns);
    int count = 0;
    if (limit_ns == 0 || !is_worth_it(l)) {
        return 0;
    }
    const instant_ns until_ns = instant_after(now_of(d), limit_ns);
    while (count == 0 && now_of(d) < until_ns) {
        count = sys_epoll_wait(d->epoll_fd, ret, max, 0);
    }
    l->losses = count != 0 ? 0 : l->losses + (l->losses < LOSSES_MAX);
    return count;
}
