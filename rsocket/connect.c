// Sockets come and go: bind, listen, connect, accept, shutdown, close.

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/retries.h"
#include "descriptor/descriptor.h"
#include "rsocket/rsocket.h"

enum {
    RESOLVE_TIMEOUT_MS = 2000,
    END_TIMEOUT_MS = 3000,
};

static struct rs_options options_of(int domain)
{
    struct rs_options options = rs_defaults()->options;
    options.domain = domain;
    return options;
}

static int stream_new(int domain)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id;
    if (channel == NULL) {
        return -1;
    }
    if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0) {
        rdma_destroy_event_channel(channel);
        return -1;
    }
    id->route.addr.src_addr.sa_family = (sa_family_t)domain; // for rgetsockname
    const struct rs_options options = options_of(domain);
    struct rs *rs;
    return rs_open(channel, id, &options, &rs) == 0 ? rs->fd : -1;
}

static int datagrams_new(int domain)
{
    int fd = descriptor_of_socket(domain, SOCK_DGRAM, 0);
    struct rs_datagrams *datagrams = fd >= 0 ? rs_datagrams_create(fd) : NULL;
    const struct rs_options options = options_of(domain);
    struct rs *rs;
    if (datagrams != NULL) {
        return rs_open_datagrams(fd, datagrams, &options, &rs) == 0 ? fd : -1;
    }
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    return rs_fail(error);
}

int rsocket(int domain, int type, int protocol)
{
    const int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
    const bool is_stream = kind == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP);
    const bool is_datagram = kind == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP);
    if ((domain != AF_INET && domain != AF_INET6) || (!is_stream && !is_datagram)) {
        return rs_fail(ENOTSUP);
    }
    int fd = is_stream ? stream_new(domain) : datagrams_new(domain);
    if (fd >= 0 && (type & SOCK_NONBLOCK) != 0) {
        rfcntl(fd, F_SETFL, O_NONBLOCK);
    }
    if (fd >= 0 && (type & SOCK_CLOEXEC) != 0) {
        rfcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return fd;
}

static int stream_bind(struct rs *rs, const struct sockaddr *addr)
{
    if (rdma_bind_addr(rs->id, (struct sockaddr *)(uintptr_t)addr) != 0) {
        return -1;
    }
    rs_move(rs, RS_ON_BIND);
    rs->is_bound = true;
    return 0;
}

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return -1;
    }
    int result;
    if (addrlen < sockaddr_len(addr)) {
        result = rs_fail(EINVAL);
    } else {
        result = rs_is_datagram(rs) ? bind(rs->fd, addr, addrlen) : stream_bind(rs, addr);
    }
    rs_leave(rs);
    return result;
}

static int stream_listen(struct rs *rs, int backlog)
{
    int result = rs->state == RS_LISTENING ? 0 : rdma_listen(rs->id, backlog);
    if (result == 0) {
        rs_move(rs, RS_ON_LISTEN);
    }
    return result;
}

int rlisten(int socket, int backlog)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return -1;
    }
    int result = rs_is_datagram(rs) ? rs_fail(EOPNOTSUPP) : stream_listen(rs, backlog);
    rs_leave(rs);
    return result;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static int connect_begin(struct rs *rs)
{
    uint8_t octets[RS_HELLO_LEN];
    // For the peer's ready-to-receive indication an iWARP device may have to read once.
    struct rdma_conn_param param = {.private_data = octets,
                                    .private_data_len = sizeof octets,
                                    .initiator_depth = 1,
                                    .responder_resources = 1,
                                    .retry_count = RETRIES_MAX,
                                    .rnr_retry_count = RETRIES_MAX};
    if (rdma_resolve_route(rs->id, RESOLVE_TIMEOUT_MS) != 0 || rs_stream_open(rs) != 0) {
        return -1;
    }
    struct rs_hello hello = rs_stream_hello(rs);
    rs_hello_emit(&hello, octets);
    return rdma_connect(rs->id, &param);
}

// Once, as the kernel's sockets do; who connects behind that tries anew.
static int tell_failure(struct rs *rs)
{
    rs->is_failure_told = true;
    return rs_fail(rs->error != 0 ? rs->error : ECONNABORTED);
}

// EINPROGRESS to who does not wait for it.
static int tell_outcome(struct rs *rs)
{
    if (rs_await_connected(rs, rs_is_nonblocking(rs, 0)) == 0) {
        return 0;
    }
    if (rs->state == RS_FAILED) {
        return tell_failure(rs);
    }
    return errno == EAGAIN ? rs_fail(EINPROGRESS) : -1;
}

// What an id was told of the program's options goes with it.
static int options_repeat(const struct rs *rs, struct rdma_cm_id *id)
{
    int reuse_addr = (rs->options.so >> SO_REUSEADDR & 1) != 0;
    int v6_only = (rs->options.ipv6 >> IPV6_V6ONLY & 1) != 0;
    uint8_t tos = rs->options.tos;
    return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse_addr,
                           sizeof reuse_addr) == 0 &&
                   rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &v6_only,
                                   sizeof v6_only) == 0 &&
                   (tos == 0 ||
                    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos) == 0)
               ? 0
               : -1;
}

// An id connects once: the next try has one of its own, at the address that the program has bound.
static int begin_anew(struct rs *rs)
{
    const struct sockaddr_storage local = rs->id->route.addr.src_storage;
    struct rdma_cm_id *id;
    if (rdma_create_id(rs->channel, &id, NULL, RDMA_PS_TCP) != 0) {
        return -1;
    }
    rs_stream_close(rs);
    rdma_destroy_id(rs->id);
    rs->id = id;
    rs->error = 0;
    id->route.addr.src_addr.sa_family = (sa_family_t)rs->options.domain;
    if (options_repeat(rs, id) != 0) {
        return -1;
    }
    return rs->is_bound ? rdma_bind_addr(id, (struct sockaddr *)(uintptr_t)&local) : 0;
}

// Who connects once more asks what has come of it. Of a connected socket that is 0, not EISCONN,
// and of one that connects EINPROGRESS, not EALREADY: librspreload takes every other errno for a
// network without RDMA, and goes on with TCP.
static int stream_connect(struct rs *rs, const struct sockaddr *addr)
{
    if (rs->state == RS_CONNECTED) {
        return 0;
    }
    if (rs->state == RS_CONNECTING) {
        return tell_outcome(rs);
    }
    if (rs->state == RS_FAILED && !rs->is_failure_told) {
        return tell_failure(rs);
    }
    if (rs->state != RS_NEW && rs->state != RS_BOUND && rs->state != RS_FAILED) {
        return rs_fail(rs->state == RS_LISTENING ? EINVAL : EISCONN);
    }
    if (rs->state == RS_FAILED && begin_anew(rs) != 0) {
        return -1;
    }
    // An address that leads nowhere leaves the socket as it was, for another one.
    if (rdma_resolve_addr(rs->id, NULL, (struct sockaddr *)(uintptr_t)addr, RESOLVE_TIMEOUT_MS) !=
        0) {
        return -1;
    }
    if (connect_begin(rs) != 0) {
        rs_failed(rs, errno);
        return tell_failure(rs);
    }
    rs_move(rs, RS_ON_CONNECT);
    return tell_outcome(rs);
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return -1;
    }
    int result;
    if (addrlen < sockaddr_len(addr)) {
        result = rs_fail(EINVAL);
    } else {
        result = rs_is_datagram(rs) ? rs_datagrams_connect(rs, addr) : stream_connect(rs, addr);
    }
    rs_leave(rs);
    return result;
}

/* ---- accepting ------------------------------------------------------------------------------- */

static bool has_request(const struct rs *rs)
{
    struct pollfd request = {.fd = rs->fd, .events = POLLIN};
    return poll(&request, 1, 0) == 1;
}

static int answer(struct rs *rs, const struct rdma_conn_param *asked)
{
    uint8_t octets[RS_HELLO_LEN];
    struct rdma_conn_param param = {.private_data = octets,
                                    .private_data_len = sizeof octets,
                                    .initiator_depth = asked->initiator_depth > 0,
                                    .responder_resources = asked->responder_resources > 0,
                                    .rnr_retry_count = RETRIES_MAX};
    if (rs_stream_open(rs) != 0) {
        return -1;
    }
    struct rs_hello hello = rs_stream_hello(rs);
    rs_hello_emit(&hello, octets);
    if (rdma_accept(rs->id, &param) != 0) {
        return -1;
    }
    rs_move(rs, RS_ON_ANSWER);
    return 0;
}

// A socket of its own for the connection that asks, inheriting the listener's options; -1: none,
// and the peer was turned away.
static int accept_request(const struct rs *listener, const struct rdma_cm_event *event)
{
    struct rdma_cm_id *id = event->id;
    struct rs_hello peer;
    struct rdma_event_channel *channel = NULL;
    int error =
        rs_hello_parse(event->param.conn.private_data, event->param.conn.private_data_len, &peer);
    if (error == 0) {
        channel = rdma_create_event_channel();
        error = channel == NULL || rdma_migrate_id(id, channel) != 0 ? errno : 0;
    }
    if (error != 0) {
        rdma_reject(id, NULL, 0);
        rdma_destroy_id(id);
        if (channel != NULL) {
            rdma_destroy_event_channel(channel);
        }
        return rs_fail(error);
    }
    struct rs *rs;
    if (rs_open(channel, id, &listener->options, &rs) != 0) {
        return -1;
    }
    rs->peer = peer;
    if (answer(rs, &event->param.conn) != 0) {
        error = errno;
        rs_close(rs);
        return rs_fail(error);
    }
    return rs->fd;
}

static int accept_locked(struct rs *listener)
{
    for (;;) {
        struct rdma_cm_event *event;
        if (rs_wait_until(listener, rs_is_nonblocking(listener, 0), has_request) != 0) {
            return -1;
        }
        if (rdma_get_cm_event(listener->channel, &event) != 0) {
            continue; // it was withdrawn
        }
        int fd = accept_request(listener, event);
        rdma_ack_cm_event(event);
        if (fd >= 0) {
            return fd;
        }
    }
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    struct rs *listener = rs_enter(socket);
    if (listener == NULL) {
        return -1;
    }
    int fd = rs_fail(rs_is_datagram(listener) ? EOPNOTSUPP : EINVAL);
    if (listener->state == RS_LISTENING) {
        fd = accept_locked(listener);
    }
    rs_leave(listener);
    if (fd >= 0 && addr != NULL && addrlen != NULL) {
        rgetpeername(fd, addr, addrlen);
    }
    return fd;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static bool may_control_or_over(const struct rs *rs)
{
    return rs->state != RS_CONNECTED || rs_stream_may_control(rs);
}

static bool is_idle_or_over(const struct rs *rs)
{
    return rs->state == RS_BROKEN || rs_stream_is_idle(rs);
}

// Says so to the peer, behind all data. After DISCONNECT nothing flows any more.
static int say(struct rs *rs, enum rs_control control, int64_t until_ns)
{
    if (rs_wait_within(rs, until_ns, may_control_or_over) != 0) {
        return -1;
    }
    if (rs->state != RS_CONNECTED) {
        return 0;
    }
    int result = rs_stream_send_control(rs, control);
    if (result == 0 && control == RS_CONTROL_DISCONNECT) {
        result = rs_wait_within(rs, until_ns, is_idle_or_over);
        rs_move(rs, RS_ON_GOODBYE);
    }
    return result;
}

static bool is_not_accepting(const struct rs *rs)
{
    return rs->state != RS_ACCEPTING;
}

// A peer that was just accepted is told when it has gone on: what is sent before, it cannot take.
static int stream_shutdown(struct rs *rs, int how, int64_t until_ns)
{
    if (rs->state == RS_ACCEPTING && rs_wait_within(rs, until_ns, is_not_accepting) != 0) {
        return -1;
    }
    if (rs->state != RS_CONNECTED) {
        return rs->state == RS_DISCONNECTED ? 0 : rs_fail(ENOTCONN);
    }
    if (how != SHUT_WR) {
        rs->may_read = false;
    }
    if (how == SHUT_RD && rs->may_write) {
        return 0; // the peer need not know
    }
    rs->may_write = false;
    return say(rs, rs->may_read ? RS_CONTROL_SHUTDOWN : RS_CONTROL_DISCONNECT, until_ns);
}

int rshutdown(int socket, int how)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return -1;
    }
    int result;
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) {
        result = rs_fail(EINVAL);
    } else {
        result = rs_is_datagram(rs) ? rs_datagrams_shutdown(rs, how)
                                    : stream_shutdown(rs, how, INT64_MAX);
        rs_wake(rs);
    }
    rs_leave(rs);
    return result;
}

// TCP's orderly end: the QP must not be destroyed before it, since that would cut off what is still
// under way.
static void disconnect(struct rs *rs)
{
    struct pollfd event_waits = {.fd = rs->fd, .events = POLLIN};
    struct rdma_cm_event *event;
    if (rdma_disconnect(rs->id) != 0) {
        return;
    }
    while (poll(&event_waits, 1, END_TIMEOUT_MS) == 1 &&
           rdma_get_cm_event(rs->channel, &event) == 0) {
        enum rdma_cm_event_type type = event->event;
        rdma_ack_cm_event(event);
        if (type == RDMA_CM_EVENT_DISCONNECTED) {
            return;
        }
    }
}

// How long a peer is waited for to take what was sent. One that takes nothing more is broken off:
// no socket outlives its rclose, as the kernel's do, so by default it is waited for as long as
// those are (tcp_fin_timeout).
static int64_t linger_until(const struct rs *rs)
{
    enum { LINGER_DEFAULT_S = 60 };
    const int64_t s = rs_lingers(rs) ? rs->options.linger_s : LINGER_DEFAULT_S;
    return rs_now_ns() + s * 1000000000;
}

// With SO_LINGER and no time the connection is broken off at once.
static void stream_end(struct rs *rs, int64_t until_ns)
{
    if (rs_is_starting(rs)) {
        rs_progress(rs);
    }
    if (rs_lingers(rs) && rs->options.linger_s == 0) {
        return;
    }
    if (rs->state == RS_CONNECTED || rs->state == RS_ACCEPTING) {
        stream_shutdown(rs, SHUT_RDWR, until_ns);
    }
    if (rs->state == RS_DISCONNECTED && rs_wait_within(rs, until_ns, is_idle_or_over) == 0) {
        disconnect(rs);
    }
}

int rclose(int socket)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return rs_epoll_close(socket);
    }
    const int64_t until_ns = linger_until(rs);
    if (rs_is_datagram(rs)) {
        rs_wait_within(rs, until_ns, rs_datagrams_are_sent);
    } else {
        stream_end(rs, until_ns);
    }
    rs->is_closing = true;
    rs_wake(rs);
    rs_leave(rs);
    rs_close(rs);
    return 0;
}
