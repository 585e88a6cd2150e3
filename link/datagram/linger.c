// Looking on for a while before a sleep, as long as that pays (base/lingering.h). If something
// comes, it saves the wake-up, and its sender the call of the scheduler.

#include <sys/epoll.h>

#include "base/lingering.h"
#include "base/time.h"
#include "link/datagram/udp_link.h"
#include "link/sys.h"

static instant_ns now_of(const struct datagram_udp *d)
{
    return d->config.clock(d->config.clock_ctx);
}

int datagram_linger(struct datagram_udp *d, struct epoll_event *ret, int max,
                    duration_ns timeout_ns)
{
    const duration_ns limit_ns = instant_min(d->config.linger_ns, timeout_ns);
    int count = 0;
    if (limit_ns == 0 || !lingering_is_worth_it(&d->lingering)) {
        return 0;
    }
    const instant_ns until_ns = instant_after(now_of(d), limit_ns);
    while (count == 0 && now_of(d) < until_ns) {
        count = sys_epoll_wait(d->epoll_fd, ret, max, 0);
    }
    lingering_note(&d->lingering, count != 0);
    return count;
}
