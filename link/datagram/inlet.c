// Descriptors that the UDP datagram link waits for.

#include <sys/epoll.h>

#include "base/list.h"
#include "link/datagram/udp_link.h"
#include "link/sys.h"

int datagram_inlet_watch(struct datagram_udp *d, struct datagram_inlet *inlet)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = inlet};
    return sys_epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, inlet->fd, &event);
}

void datagram_inlet_init(struct datagram_inlet *inlet, enum datagram_inlet_kind kind, int fd,
                         const struct in6_addr *local)
{
    *inlet = (struct datagram_inlet){.kind = kind, .fd = fd, .local = *local};
    list_init(&inlet->ready);
}

void datagram_inlet_wake(struct datagram_udp *d)
{
    const uint64_t once = 1;
    sys_write(d->wake_fd, &once, sizeof once);
}

// What was read of it, and not handed up, is dropped.
void datagram_inlet_forget(struct datagram_udp *d, struct datagram_inlet *inlet)
{
    list_remove(&inlet->ready);
    if (d->in.last == inlet) {
        d->in.last = NULL;
    }
    for (unsigned i = d->in.at; i < d->in.count; i++) {
        if (datagram_addr_is(&d->in.arrivals[i].rx.local, &inlet->local)) {
            d->in.arrivals[i].left.len = 0;
        }
    }
    if (inlet->fd >= 0) {
        sys_epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, inlet->fd, NULL); // others hold it open
    }
}
