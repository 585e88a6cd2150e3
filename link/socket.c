#include "link/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/errno_name.h"
#include "base/list.h"
#include "base/sockaddr.h"
#include "link/link_none.h"
#include "link/rest.h"
#include "link/socket_stream.h"
#include "link/sys.h"

enum {
    ACCEPT_TRIES = 16, // connections that ended while they waited, passed over in one call
    EMSS_MIN = 536,    // RFC 9293 section 3.7.1, when the kernel cannot tell
    TCP_CONGESTION_NAME_LEN = 16, // the kernel's TCP_CA_NAME_MAX
};

/* ---- addresses ------------------------------------------------------------------------------- */

static bool is_family_known(int family)
{
    return family == AF_INET || family == AF_INET6;
}

/* ---- options --------------------------------------------------------------------------------- */

static int tos_apply(int fd, int family, int tos)
{
    if (family == AF_INET6) {
        sys_setsockopt_int(fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
    }
    return sys_setsockopt_int(fd, IPPROTO_IP, IP_TOS, tos);
}

static int at_least_1(uint64_t n)
{
    return n < 1 ? 1 : (int)(n > INT16_MAX ? INT16_MAX : n);
}

// Unacknowledged data, and a closed window, are bounded by the user time-out; an idle connection is
// asked after half the time and then at every sixth, and ends at the first unanswered question
// after the whole of it (tcp(7): TCP_USER_TIMEOUT overrides the count of questions).
static void peer_timeout_apply(int fd, duration_ns timeout_ns)
{
    if (timeout_ns == 0) {
        return;
    }
    uint64_t ms = timeout_ns / NS_PER_MS;
    uint64_t s = timeout_ns / NS_PER_S;
    sys_setsockopt_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, ms > INT32_MAX ? INT32_MAX : (int)ms);
    sys_setsockopt_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, at_least_1(s / 2));
    sys_setsockopt_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, at_least_1(s / 6));
    sys_setsockopt_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

// A failure here leaves the kernel's own value, with which the stream works as well. Accepted
// connections inherit all of it from their listener.
static void options_apply(int fd, const struct link_socket_config *config)
{
    sys_setsockopt_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (config->sndbuf_len != 0) {
        sys_setsockopt_int(fd, SOL_SOCKET, SO_SNDBUF, (int)config->sndbuf_len);
    }
    if (config->rcvbuf_len != 0) {
        sys_setsockopt_int(fd, SOL_SOCKET, SO_RCVBUF, (int)config->rcvbuf_len);
    }
    peer_timeout_apply(fd, config->peer_timeout_ns);
}

static bool is_same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
    return a->ss_family == AF_INET ? a4->sin_addr.s_addr == b4->sin_addr.s_addr
                                   : IN6_ARE_ADDR_EQUAL(&a6->sin6_addr, &b6->sin6_addr);
}

static bool is_within_host(int fd)
{
    struct sockaddr_storage own, peer;
    return sys_getpeername(fd, &peer) == 0 && sys_getsockname(fd, &own) == 0 &&
           is_same_address(&own, &peer);
}

// BBR has a timer for each segment, and on the way within a host, where nothing is congested and
// segments hold 64 KiB, that costs a sender as much processor time as the octets do. Reno is in
// every kernel, and for everybody. All others are the operator's choice.
void socket_forgo_pacing(int fd)
{
    char name[TCP_CONGESTION_NAME_LEN];
    socklen_t len = sizeof name;
    if (sys_getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) == 0 &&
        strncmp(name, "bbr", strlen("bbr")) == 0 && is_within_host(fd)) {
        sys_setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
    }
}

/* ---- streams: made, watched, closed ---------------------------------------------------------- */

static struct socket_stream *stream_new(struct socket_link *l, void *owner)
{
    struct list_link *rested = rest_take(&l->rest);
    struct socket_stream *s =
        rested != NULL ? LIST_ENTRY(rested, struct socket_stream, link) : malloc(sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    *s = (struct socket_stream){.base = {.link = &l->base, .owner = owner, .facts = l->base.facts},
                                .fd = -1,
                                .tos = -1,
                                .wants_in = true};
    list_push_tail(&l->streams, &s->link);
    list_init(&s->starved_link);
    return s;
}

static void stream_rest(struct socket_stream *s)
{
    s->base.owner = NULL;
    list_remove(&s->starved_link);
    list_remove(&s->link);
    rest_put(&socket_link_of(s->base.link)->rest, &s->link);
}

static int stream_open(struct socket_stream *s, int family)
{
    int fd = sys_socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0) {
        return fd;
    }
    s->fd = fd;
    s->family = family;
    options_apply(fd, &socket_link_of(s->base.link)->config);
    if (s->tos >= 0) {
        tos_apply(fd, family, s->tos);
    }
    return 0;
}

int socket_watch(struct socket_stream *s)
{
    uint32_t events = 0;
    if (s->wants_in && !s->has_fin) {
        events |= EPOLLIN;
    }
    if (s->wants_out && !s->is_shut) {
        events |= EPOLLOUT;
    }
    // A stream that is over on our side and not listened to would report its end for ever.
    bool watch = s->fd >= 0 && (s->is_listener || s->is_connected) && !s->is_broken &&
                 (events != 0 || !s->is_shut);
    int epoll_fd = socket_link_of(s->base.link)->epoll_fd;
    struct epoll_event event = {.events = events, .data.ptr = s};
    int error = 0;
    if (watch && !s->is_watched) {
        error = sys_epoll_ctl(epoll_fd, EPOLL_CTL_ADD, s->fd, &event);
    } else if (watch && events != s->watched) {
        error = sys_epoll_ctl(epoll_fd, EPOLL_CTL_MOD, s->fd, &event);
    } else if (!watch && s->is_watched) {
        sys_epoll_ctl(epoll_fd, EPOLL_CTL_DEL, s->fd, &event);
    }
    if (error == 0) {
        s->is_watched = watch;
        s->watched = events;
    }
    return error;
}

// A descriptor has come free: the listeners that lacked one look again.
static void feed_starved(struct socket_link *l)
{
    struct list_link *waiting;
    while ((waiting = list_pop_head(&l->starved)) != NULL) {
        struct socket_stream *s = LIST_ENTRY(waiting, struct socket_stream, starved_link);
        s->wants_in = true;
        socket_watch(s);
    }
}

// Throws away what has arrived, without copying it, within a bound. The kernel does not touch the
// buffer; tools that watch system calls want one.
static void discard_input(int fd)
{
    enum { DISCARD_LEN = 1 << 16, DISCARD_TURNS = 128 };
    static uint8_t untouched[DISCARD_LEN];
    for (int i = 0; i < DISCARD_TURNS; i++) {
        if (sys_recv(fd, untouched, sizeof untouched, MSG_TRUNC | MSG_DONTWAIT) <= 0) {
            return;
        }
    }
}

static void reset_and_close(int fd)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    sys_close(fd);
}

static void socket_close(struct link_stream *stream, bool abort)
{
    struct socket_stream *s = socket_stream_of(stream);
    struct socket_link *l = socket_link_of(stream->link);
    if (s->fd >= 0) {
        // Leaves the epoll set by hand, and sends FIN by hand: a child of a fork may still hold the
        // same connection, and then close() does neither.
        if (s->is_watched) {
            sys_epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
        }
        if (s->is_adopted) {
            sys_close(s->fd);
        } else if (abort && s->is_connected) {
            reset_and_close(s->fd);
        } else {
            socket_yield_port(s->fd); // it may be connected and nobody has looked yet
            if (s->is_connected && !s->is_broken) {
                // Octets that nobody reads would turn the kernel's FIN into a reset, and that takes
                // with it what the peer has not received yet.
                discard_input(s->fd);
            }
            if (s->is_connected && !s->is_shut && !s->is_broken) {
                sys_shutdown(s->fd, SHUT_WR);
            }
            sys_close(s->fd);
        }
    }
    stream_rest(s);
    feed_starved(l);
}

/* ---- the passive side ------------------------------------------------------------------------ */

// The port may be held by ended connections only (TIME-WAIT), which then let themselves be replaced
// because they ended with SO_REUSEADDR, see socket_yield_port and socket_listen; who is merely
// bound, or connected, has not set it.
static int bind_port(int fd, const struct sockaddr *addr, bool reuse)
{
    if (reuse) {
        sys_setsockopt_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    }
    int error = sys_bind(fd, addr, sockaddr_len(addr));
    if (error != -EADDRINUSE || reuse) {
        return error;
    }
    sys_setsockopt_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    error = sys_bind(fd, addr, sockaddr_len(addr));
    sys_setsockopt_int(fd, SOL_SOCKET, SO_REUSEADDR, 0);
    return error;
}

static int socket_bind(struct link *link, const struct sockaddr *addr, unsigned flags, void *owner,
                       struct link_stream **ret)
{
    if (addr != NULL && !is_family_known(addr->sa_family)) {
        return -EAFNOSUPPORT;
    }
    struct socket_stream *s = stream_new(socket_link_of(link), owner);
    if (s == NULL) {
        return -ENOMEM;
    }
    int error = addr == NULL ? 0 : stream_open(s, addr->sa_family);
    if (error == 0 && addr != NULL) {
        if (addr->sa_family == AF_INET6) {
            bool v6_only = (flags & LINK_BIND_V6_ONLY) != 0;
            sys_setsockopt_int(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, v6_only);
        }
        error = bind_port(s->fd, addr, (flags & LINK_BIND_REUSE) != 0);
    }
    if (error != 0) {
        socket_close(&s->base, false);
        return error;
    }
    *ret = &s->base;
    return 0;
}

static int socket_listen(struct link_stream *stream, int backlog)
{
    struct socket_stream *s = socket_stream_of(stream);
    if (s->fd < 0) {
        return -EINVAL;
    }
    // What is accepted inherits it and keeps it in TIME-WAIT: the next server gets the port.
    sys_setsockopt_int(s->fd, SOL_SOCKET, SO_REUSEADDR, 1);
    int error = sys_listen(s->fd, backlog > 0 ? backlog : SOMAXCONN);
    if (error != 0) {
        return error;
    }
    s->is_listener = true;
    return socket_watch(s);
}

static bool is_want_of_means(int error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
}

// Takes the waiting connection with the spare descriptor and resets it, so that its peer learns the
// truth and the listener is not reported for ever. If even that fails the listener rests until a
// stream is closed.
static void refuse_for_want_of_means(struct socket_link *l, struct socket_stream *listener)
{
    if (l->spare_fd >= 0) {
        sys_close(l->spare_fd);
    }
    int fd = sys_accept(listener->fd, SOCK_CLOEXEC);
    if (fd >= 0) {
        reset_and_close(fd);
    } else if (is_want_of_means(fd) && list_is_empty(&listener->starved_link)) {
        listener->wants_in = false;
        socket_watch(listener);
        list_push_tail(&l->starved, &listener->starved_link);
    }
    l->spare_fd = sys_dup(l->wake_fd);
}

// Errors that accept(2) hands on from the connection it was about to return.
static bool is_of_the_connection(int error)
{
    switch (error) {
    case -ECONNABORTED:
    case -EINTR:
    case -EPROTO:
    case -ENETDOWN:
    case -ENOPROTOOPT:
    case -EHOSTDOWN:
    case -ENONET:
    case -EHOSTUNREACH:
    case -EOPNOTSUPP:
    case -ENETUNREACH:
        return true;
    default:
        return false;
    }
}

static int socket_accept(struct link_stream *listener, struct link_stream **ret)
{
    struct socket_stream *from = socket_stream_of(listener);
    struct socket_link *l = socket_link_of(listener->link);
    int fd = -ECONNABORTED;
    for (int i = 0; i < ACCEPT_TRIES && is_of_the_connection(fd); i++) {
        fd = sys_accept(from->fd, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    if (fd < 0) {
        if (is_want_of_means(fd)) {
            TRACE(l->config.trace, TRACE_LINK, "accept refused: %s", errno_name(-fd));
            refuse_for_want_of_means(l, from);
        }
        return is_of_the_connection(fd) ? -EAGAIN : fd;
    }
    struct socket_stream *s = stream_new(l, NULL);
    if (s == NULL) {
        reset_and_close(fd);
        return -ENOMEM;
    }
    s->fd = fd;
    s->family = from->family;
    s->is_connected = s->is_up = true;
    socket_forgo_pacing(fd);
    int error = socket_watch(s);
    if (error != 0) {
        socket_close(&s->base, true);
        return error;
    }
    *ret = &s->base;
    return 0;
}

/* ---- the active side ------------------------------------------------------------------------- */

static int socket_connect(struct link_stream *stream, const struct sockaddr *peer)
{
    struct socket_stream *s = socket_stream_of(stream);
    if (!is_family_known(peer->sa_family)) {
        return -EAFNOSUPPORT;
    }
    if (s->is_connected || s->is_listener) {
        return -EISCONN;
    }
    int error = s->fd < 0 ? stream_open(s, peer->sa_family) : 0;
    if (error != 0) {
        return error;
    }
    error = sys_connect(s->fd, peer, sockaddr_len(peer));
    if (error != 0 && error != -EINPROGRESS && error != -EINTR) {
        return error;
    }
    // Done at once or not: LINK_READY_OUT tells.
    s->is_connected = true;
    s->wants_out = true;
    error = socket_watch(s);
    return error != 0 ? error : -EINPROGRESS;
}

static int socket_route(struct link *link, const struct sockaddr *peer,
                        struct sockaddr_storage *ret_src)
{
    if (!is_family_known(peer->sa_family)) {
        return -EAFNOSUPPORT;
    }
    int fd = sys_socket(peer->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP);
    if (fd < 0) {
        return fd;
    }
    // A datagram socket's connect sends nothing; it only asks the routing table.
    struct sockaddr_storage to;
    memcpy(&to, peer, sockaddr_len(peer));
    sockaddr_set_port((struct sockaddr *)&to, htons(9));
    int error = sys_connect(fd, (const struct sockaddr *)&to, sockaddr_len(peer));
    if (error == 0) {
        error = sys_getsockname(fd, ret_src);
    }
    sys_close(fd);
    sockaddr_set_port((struct sockaddr *)ret_src, 0);
    return error;
}

/* ---- facts ----------------------------------------------------------------------------------- */

static int socket_local_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    const struct socket_stream *s = socket_stream_of(stream);
    return s->fd < 0 ? -ENOTCONN : sys_getsockname(s->fd, ret);
}

static int socket_peer_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    const struct socket_stream *s = socket_stream_of(stream);
    return s->fd < 0 ? -ENOTCONN : sys_getpeername(s->fd, ret);
}

// The kernel's current segment size, options of each segment deducted.
static uint32_t socket_emss(const struct link_stream *stream)
{
    const struct socket_stream *s = socket_stream_of(stream);
    int emss = 0;
    if (s->fd < 0 || sys_getsockopt_int(s->fd, IPPROTO_TCP, TCP_MAXSEG, &emss) != 0 || emss <= 0) {
        return EMSS_MIN;
    }
    return (uint32_t)emss;
}

static int socket_set_tos(struct link_stream *stream, uint8_t tos)
{
    struct socket_stream *s = socket_stream_of(stream);
    s->tos = tos;
    return s->fd < 0 ? 0 : tos_apply(s->fd, s->family, tos);
}

/* ---- the link -------------------------------------------------------------------------------- */

static int socket_descriptor(const struct link *link)
{
    return ((const struct socket_link *)link)->epoll_fd;
}

static void socket_abandon(struct link *link)
{
    struct socket_link *l = socket_link_of(link);
    for (struct list_link *at = l->streams.next; at != &l->streams; at = at->next) {
        struct socket_stream *s = LIST_ENTRY(at, struct socket_stream, link);
        sys_close_fd(&s->fd);
        s->is_watched = false;
    }
    sys_close_fd(&l->epoll_fd);
    sys_close_fd(&l->wake_fd);
    sys_close_fd(&l->spare_fd);
}

static void free_streams(struct list_link *streams)
{
    struct list_link *at;
    while ((at = list_pop_head(streams)) != NULL) {
        free(LIST_ENTRY(at, struct socket_stream, link));
    }
}

static void socket_destroy(struct link *link)
{
    struct socket_link *l = socket_link_of(link);
    while (!list_is_empty(&l->streams)) {
        socket_close(&LIST_ENTRY(l->streams.next, struct socket_stream, link)->base, true);
    }
    free_streams(&l->rest.streams);
    sys_close_fd(&l->epoll_fd);
    sys_close_fd(&l->wake_fd);
    sys_close_fd(&l->spare_fd);
    free(l);
}

static const struct link_ops socket_ops = {
    .name = "socket",
    .bind = socket_bind,
    .listen = socket_listen,
    .accept = socket_accept,
    .connect = socket_connect,
    .connect_result = socket_connect_result,
    .recv = socket_recv,
    .borrow = link_none_borrow,
    .give_back = link_none_give_back,
    .set_place = link_none_set_place,
    .resume = link_none_resume,
    .send = socket_send,
    .unsettled = link_none_unsettled,
    .want_out = socket_want_out,
    .want_in = socket_want_in,
    .shutdown = socket_shutdown,
    .close = socket_close,
    .local_addr = socket_local_addr,
    .peer_addr = socket_peer_addr,
    .emss = socket_emss,
    .set_tos = socket_set_tos,
    .route = socket_route,
    .poll = socket_poll,
    .next_deadline = link_none_next_deadline,
    .may_wait = link_none_may_wait,
    .wait = socket_wait,
    .rise = link_rise_by_wait,
    .wake = socket_wake,
    .descriptor = socket_descriptor,
    .stream_counters = link_none_stream_counters,
    .packet_counters = link_none_packet_counters,
    .is_busy = link_none_is_busy,
    .abandon = socket_abandon,
    .destroy = socket_destroy,
};

int link_socket_adopt(struct link *link, int fd, void *owner, struct link_stream **ret)
{
    struct socket_stream *s = stream_new(socket_link_of(link), owner);
    if (s == NULL) {
        return -ENOMEM;
    }
    s->fd = fd;
    s->is_connected = s->is_up = s->is_adopted = true;
    s->base.facts |= LINK_IS_OF_HOST;
    int error = socket_watch(s);
    if (error != 0) {
        stream_rest(s);
        return error;
    }
    *ret = &s->base;
    return 0;
}

void link_socket_release(struct link_stream *stream)
{
    socket_close(stream, false);
}

int link_socket_create(const struct link_socket_config *config, struct link **ret)
{
    struct socket_link *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return -ENOMEM;
    }
    l->base.ops = &socket_ops;
    l->config = *config;
    list_init(&l->streams);
    list_init(&l->starved);
    rest_init(&l->rest);
    l->epoll_fd = sys_epoll_create(EPOLL_CLOEXEC);
    l->wake_fd = sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->spare_fd = l->wake_fd < 0 ? -1 : sys_dup(l->wake_fd);

    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    int error = l->epoll_fd < 0   ? l->epoll_fd
                : l->wake_fd < 0  ? l->wake_fd
                : l->spare_fd < 0 ? l->spare_fd
                                  : sys_epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->wake_fd, &event);
    if (error < 0) {
        socket_destroy(&l->base);
        return error;
    }
    *ret = &l->base;
    return 0;
}
