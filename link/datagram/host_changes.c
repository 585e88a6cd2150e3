// Whether addresses of this host come or go: the system tells it (rtnetlink(7)), and until it does
// nothing is asked.

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "base/list.h"
#include "link/datagram/udp_link.h"
#include "link/sys.h"

enum { MESSAGE_LEN = 4096 };

void datagram_host_watch(struct datagram_udp *d)
{
    static const struct in6_addr nowhere;
    const struct sockaddr_nl name = {.nl_family = AF_NETLINK,
                                     .nl_groups =
                                         RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    const int fd = sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (fd < 0) {
        return; // addresses stay as they are then
    }
    datagram_inlet_init(&d->host_inlet, DATAGRAM_INLET_HOST, fd, &nowhere);
    if (sys_bind(fd, (const struct sockaddr *)&name, sizeof name) != 0 ||
        datagram_inlet_watch(d, &d->host_inlet) != 0) {
        sys_close_fd(&d->host_inlet.fd);
    }
    d->has_host_changed = true; // perhaps, since somebody looked at the addresses
}

// What was told is read and not looked into: some of it may be lost, and who has been told looks at
// the addresses themselves.
void datagram_host_take(struct datagram_udp *d)
{
    uint8_t message[MESSAGE_LEN];
    while (sys_recv(d->host_inlet.fd, message, sizeof message, MSG_DONTWAIT) > 0) {
    }
    d->has_host_changed = true;
}
