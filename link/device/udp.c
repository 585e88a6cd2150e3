#include "link/device/udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/list.h"
#include "base/port_link.h"
#include "base/time.h"
#include "link/device/udp_channel.h"
#include "link/rest.h"
#include "link/sys.h"
#include "net/addr.h"

enum { BUFFER_LEN_DEFAULT = 4 << 20 };
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* ---- sockets --------------------------------------------------------------------------------- */

static void buffer_apply(int fd, int option, int forced, uint32_t len)
{
    // With the privilege to do so the system's limit is passed by.
    if (sys_setsockopt_int(fd, SOL_SOCKET, forced, (int)len) != 0) {
        sys_setsockopt_int(fd, SOL_SOCKET, option, (int)len);
    }
}

// All of these make something better that works without as well.
static void options_apply(const struct udp_device *d, int fd, int family)
{
    uint32_t snd = d->config.sndbuf_len, rcv = d->config.rcvbuf_len;
    buffer_apply(fd, SO_SNDBUF, SO_SNDBUFFORCE, snd != 0 ? snd : BUFFER_LEN_DEFAULT);
    buffer_apply(fd, SO_RCVBUF, SO_RCVBUFFORCE, rcv != 0 ? rcv : BUFFER_LEN_DEFAULT);
    sys_setsockopt_int(fd, IPPROTO_UDP, UDP_GRO, 1);
    sys_setsockopt_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    sys_setsockopt_int(fd, IPPROTO_IP, IP_RECVERR, 1);
    sys_setsockopt_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
    if (family == AF_INET6) {
        sys_setsockopt_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
        sys_setsockopt_int(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
        sys_setsockopt_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
        sys_setsockopt_int(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    } else {
        sys_setsockopt_int(fd, IPPROTO_IP, IP_PKTINFO, 1);
    }
}

static void udp_close(struct device *device, struct channel *channel)
{
    struct udp_device *d = udp_device_of(device);
    struct udp_channel *c = udp_channel_of(channel);
    if (c->fd >= 0) {
        sys_epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL); // a child may still hold it open
        sys_close(c->fd);
        c->fd = -1;
    }
    c->base.owner = NULL;
    udp_input_forget(&d->in, c);
    list_remove(&c->link);
    rest_put(&d->rest, &c->link);
}

static int channel_create(struct udp_device *d, int family, struct udp_channel **ret)
{
    struct list_link *rested = rest_take(&d->rest);
    struct udp_channel *c =
        rested != NULL ? LIST_ENTRY(rested, struct udp_channel, link) : malloc(sizeof *c);
    if (c == NULL) {
        return -ENOMEM;
    }
    *c = (struct udp_channel){.family = family};
    list_push_tail(&d->channels, &c->link);
    c->fd = sys_socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    int error = c->fd < 0 ? c->fd : sys_epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
    if (error != 0) {
        udp_close(&d->base, &c->base);
        return error;
    }
    options_apply(d, c->fd, family);
    *ret = c;
    return 0;
}

/* ---- places ---------------------------------------------------------------------------------- */

static int socket_bind(const struct udp_channel *c, const struct net_flow *place)
{
    struct sockaddr_storage addr;
    net_addr_to_sockaddr(&place->local, place->local_port, place->scope, c->family, &addr);
    return sys_bind(c->fd, (struct sockaddr *)&addr, udp_sockaddr_len(c->family));
}

// Two sockets may share a port when both say so. Connections on a listener's port always do, and
// the listener only while one is made. So a port is free for a new listener when only connections
// are left on it, and for nobody else.
static int bind_port(const struct udp_channel *c, const struct net_flow *place)
{
    int error = socket_bind(c, place);
    if (error == -EADDRINUSE) {
        sys_setsockopt_int(c->fd, SOL_SOCKET, SO_REUSEADDR, 1);
        error = socket_bind(c, place);
        sys_setsockopt_int(c->fd, SOL_SOCKET, SO_REUSEADDR, 0);
    }
    return error;
}

// What the kernel filled in.
static int place_read(const struct udp_channel *c, struct net_flow *ret)
{
    struct sockaddr_storage addr;
    int error = sys_getsockname(c->fd, &addr);
    if (error == 0) {
        net_addr_from_sockaddr((struct sockaddr *)&addr, &ret->local, &ret->local_port,
                               &ret->scope);
    }
    return error;
}

static int udp_open(struct device *device, struct net_flow *place, unsigned flags,
                    struct channel **ret)
{
    struct udp_device *d = udp_device_of(device);
    struct udp_channel *c;
    int family = net_addr_is_ipv4(&place->local) ? AF_INET : AF_INET6;
    int error = channel_create(d, family, &c);
    if (error != 0) {
        return error;
    }
    if (family == AF_INET6) {
        sys_setsockopt_int(c->fd, IPPROTO_IPV6, IPV6_V6ONLY, (flags & LINK_BIND_V6_ONLY) != 0);
    }
    error = bind_port(c, place);
    if (error == 0) {
        error = place_read(c, place);
    }
    if (error != 0) {
        udp_close(device, &c->base);
        return error;
    }
    c->place = *place;
    *ret = &c->base;
    return 0;
}

static int channel_connect(struct udp_channel *c, const struct net_flow *flow)
{
    struct sockaddr_storage addr;
    net_addr_to_sockaddr(&flow->remote, flow->remote_port, flow->scope, c->family, &addr);
    return sys_connect(c->fd, (struct sockaddr *)&addr, udp_sockaddr_len(c->family));
}

static int udp_connect(struct device *device, struct channel *channel, struct net_flow *flow)
{
    struct udp_channel *c = udp_channel_of(channel);
    int error = channel_connect(c, flow);
    if (error == 0) {
        error = place_read(c, flow);
    }
    if (error == 0) {
        c->place = *flow;
        c->is_connected = true;
    }
    return error;
}

static int udp_accept(struct device *device, struct channel *listener, const struct net_flow *flow,
                      struct channel **ret)
{
    struct udp_device *d = udp_device_of(device);
    struct udp_channel *from = udp_channel_of(listener), *c;
    int error = channel_create(d, net_addr_is_ipv4(&flow->local) ? AF_INET : AF_INET6, &c);
    if (error != 0) {
        return error;
    }
    // What arrives between the two calls stays in the new socket's queue, whoever sent it, and is
    // told apart by its flow as everything is.
    sys_setsockopt_int(c->fd, SOL_SOCKET, SO_REUSEADDR, 1);
    sys_setsockopt_int(from->fd, SOL_SOCKET, SO_REUSEADDR, 1);
    error = socket_bind(c, flow);
    sys_setsockopt_int(from->fd, SOL_SOCKET, SO_REUSEADDR, 0);
    if (error == 0) {
        error = channel_connect(c, flow);
    }
    if (error != 0) {
        udp_close(device, &c->base);
        return error;
    }
    c->place = *flow;
    c->is_connected = true;
    *ret = &c->base;
    return 0;
}

static void udp_set_tos(struct device *device, struct channel *channel, uint8_t tos)
{
    struct udp_channel *c = udp_channel_of(channel);
    c->tos = tos;
    if (c->family == AF_INET6) {
        sys_setsockopt_int(c->fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
    }
    sys_setsockopt_int(c->fd, IPPROTO_IP, IP_TOS, tos);
}

/* ---- paths ----------------------------------------------------------------------------------- */

// A socket of its own asks the routing table: connecting it sends nothing. Of the flow the remote
// end alone is looked at; the local address is filled in, and the octets of an IP packet on the
// path, as far as they are known.
static int path_ask(struct net_flow *flow, uint32_t *ret_mtu)
{
    int family = net_addr_is_ipv4(&flow->remote) ? AF_INET : AF_INET6;
    struct udp_channel probe = {.fd = sys_socket(family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP),
                                .family = family,
                                .place = *flow};
    if (probe.fd < 0) {
        return probe.fd;
    }
    int error = channel_connect(&probe, flow);
    if (error == 0) {
        error = place_read(&probe, flow);
    }
    *ret_mtu = error == 0 ? udp_path_mtu(&probe) : UDP_MTU_DEFAULT;
    sys_close(probe.fd);
    return error;
}

// A listener's socket is on no path, those who ask are.
static uint32_t udp_segment_len_max(struct device *device, struct channel *channel,
                                    const struct net_flow *flow)
{
    struct udp_channel *c = udp_channel_of(channel);
    struct net_flow asked = *flow;
    uint32_t mtu = UDP_MTU_DEFAULT;
    if (c->is_connected) {
        mtu = udp_path_mtu(c);
    } else if (!net_addr_is_any(&flow->remote)) {
        path_ask(&asked, &mtu); // on failure it is the usual
    }
    return udp_segment_len_of_mtu(mtu, flow);
}

static int udp_route(struct device *device, const struct net_addr *remote, uint32_t scope,
                     struct net_addr *ret_local)
{
    enum { DISCARD_PORT = 9 };
    struct net_flow flow = {.remote = *remote, .remote_port = DISCARD_PORT, .scope = scope};
    uint32_t mtu;
    int error = path_ask(&flow, &mtu);
    *ret_local = flow.local;
    return error;
}

static void udp_corrupt(struct device *device, struct fault_model *model)
{
    udp_device_of(device)->faults = model;
}

/* ---- the device ------------------------------------------------------------------------------ */

static void udp_counters_each(const struct device *device, counter_each each, void *ctx)
{
    const struct udp_counters *c = &((const struct udp_device *)device)->counters;
#define X(name, text) each(ctx, #name, c->name);
    UDP_COUNTERS(X)
#undef X
}

static instant_ns udp_next_deadline(struct device *device)
{
    return udp_device_of(device)->trouble.error != 0 ? 0 : INSTANT_NEVER;
}

static void udp_wait(struct device *device, duration_ns timeout_ns)
{
    struct udp_device *d = udp_device_of(device);
    struct epoll_event events[2]; // one more: behind a channel that is ready, a wake may stand
    int count = sys_epoll_wait(d->epoll_fd, events, 2, timeout_ns);
    for (int i = 0; i < count; i++) {
        uint64_t times;
        if (events[i].data.ptr == NULL) {
            sys_read(d->wake_fd, &times, sizeof times);
        }
    }
}

static void udp_wake(struct device *device)
{
    uint64_t once = 1;
    sys_write(udp_device_of(device)->wake_fd, &once, sizeof once);
}

static int udp_descriptor(const struct device *device)
{
    return udp_device_of(device)->epoll_fd;
}

static void udp_abandon(struct device *device)
{
    struct udp_device *d = udp_device_of(device);
    for (struct list_link *at = d->channels.next; at != &d->channels; at = at->next) {
        sys_close_fd(&LIST_ENTRY(at, struct udp_channel, link)->fd);
    }
    sys_close_fd(&d->epoll_fd);
    sys_close_fd(&d->wake_fd);
}

static void udp_destroy(struct device *device)
{
    struct udp_device *d = udp_device_of(device);
    struct list_link *at;
    while (!list_is_empty(&d->channels)) {
        udp_close(device, &LIST_ENTRY(d->channels.next, struct udp_channel, link)->base);
    }
    while ((at = list_pop_head(&d->rest.streams)) != NULL) {
        free(LIST_ENTRY(at, struct udp_channel, link));
    }
    sys_close_fd(&d->epoll_fd);
    sys_close_fd(&d->wake_fd);
    free(d->in.buffers);
    free(d);
}

static const struct device_ops udp_ops = {
    .name = "udp",
    .open = udp_open,
    .connect = udp_connect,
    .accept = udp_accept,
    .close = udp_close,
    .set_tos = udp_set_tos,
    .segment_len_max = udp_segment_len_max,
    .route = udp_route,
    .send = udp_send,
    .poll = udp_poll,
    .receive = udp_receive,
    .next = udp_next,
    .corrupt = udp_corrupt,
    .counters = udp_counters_each,
    .next_deadline = udp_next_deadline,
    .wait = udp_wait,
    .wake = udp_wake,
    .descriptor = udp_descriptor,
    .abandon = udp_abandon,
    .destroy = udp_destroy,
};

int device_udp_create(const struct device_udp_config *config, struct device **ret)
{
    struct udp_device *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return -ENOMEM;
    }
    d->base.ops = &udp_ops;
    d->config = *config;
    d->has_gso = true;
    list_init(&d->channels);
    rest_init(&d->rest);
    d->epoll_fd = sys_epoll_create(EPOLL_CLOEXEC);
    d->wake_fd = sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    d->in.buffers = malloc((size_t)UDP_BATCH * UDP_DATAGRAM_MAX);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    int error = d->epoll_fd < 0  ? d->epoll_fd
                : d->wake_fd < 0 ? d->wake_fd
                : d->in.buffers == NULL
                    ? -ENOMEM
                    : sys_epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, d->wake_fd, &event);
    if (error != 0) {
        udp_destroy(&d->base);
        return error;
    }
    *ret = &d->base;
    return 0;
}
