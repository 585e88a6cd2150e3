// The socket link's octets, interest and waiting.

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <string.h>

#include "base/port_link.h"
#include "base/time.h"
#include "link/socket_stream.h"
#include "link/sys.h"

enum {
    SEND_IOV_MAX = 1024,   // the kernel's UIO_MAXIOV
    SEND_RECORDS_MAX = 64, // records in one system call
    POLL_MAX = 64,         // reports in one system call
};

/* ---- receiving ------------------------------------------------------------------------------- */

static ssize_t broken(struct socket_stream *s, int error)
{
    s->is_broken = true;
    socket_watch(s);
    return error;
}

// Of enum in netinet/tcp.h, or -1.
static int tcp_state(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    int error = sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
    return error == 0 ? info.tcpi_state : -1;
}

// The peer's FIN was reported before, and here is the stream again: either somebody merely looked,
// or the connection has broken since, which recv(2) does not tell any more.
static ssize_t recv_behind_fin(struct socket_stream *s)
{
    int error = 0;
    if (sys_getsockopt_int(s->fd, SOL_SOCKET, SO_ERROR, &error) == 0 && error != 0) {
        return broken(s, -error);
    }
    return tcp_state(s->fd) == TCP_CLOSE ? broken(s, -EPIPE) : 0;
}

ssize_t socket_recv(struct link_stream *stream, struct mspan into)
{
    struct socket_stream *s = socket_stream_of(stream);
    ssize_t len = sys_recv(s->fd, into.ptr, into.len, MSG_DONTWAIT);
    if (len > 0 || len == -EAGAIN) {
        return len;
    }
    if (len == -EINTR) {
        return -EAGAIN;
    }
    if (len < 0) {
        return broken(s, (int)len);
    }
    if (s->has_fin) {
        return recv_behind_fin(s);
    }
    s->has_fin = true;
    socket_watch(s);
    return 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

// Octets taken, or a negative errno. `wanted`: how many were offered. What lies in one piece, as
// short messages do, is told to the kernel in registers: it copies neither header nor list.
static ssize_t send_stream(int fd, const struct iovec *iov, unsigned count, size_t *ret_wanted)
{
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    if (count == 1) {
        *ret_wanted = iov->iov_len;
        return sys_sendto(fd, iov->iov_base, iov->iov_len, flags, NULL, 0);
    }
    struct msghdr msg = {.msg_iov = (struct iovec *)iov};
    msg.msg_iovlen = count > SEND_IOV_MAX ? SEND_IOV_MAX : count;
    *ret_wanted = 0;
    for (unsigned i = 0; i < msg.msg_iovlen; i++) {
        *ret_wanted += iov[i].iov_len;
    }
    return sys_sendmsg(fd, &msg, flags);
}

// The kernel stops behind the first record that it does not take whole, so the octets taken are
// always a prefix.
static ssize_t send_records(int fd, const struct link_tx *tx, unsigned first, unsigned count,
                            size_t *ret_wanted)
{
    struct mmsghdr msgs[SEND_RECORDS_MAX];
    unsigned at = first == 0 ? 0 : tx->record_ends[first - 1];
    *ret_wanted = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned end = tx->record_ends[first + i];
        msgs[i] = (struct mmsghdr){
            .msg_hdr = {.msg_iov = (struct iovec *)tx->iov + at, .msg_iovlen = end - at}};
        for (; at < end; at++) {
            *ret_wanted += tx->iov[at].iov_len;
        }
    }
    int sent = sys_sendmmsg(fd, msgs, count, MSG_DONTWAIT | MSG_NOSIGNAL | MSG_EOR);
    if (sent < 0) {
        return sent;
    }
    ssize_t taken = 0;
    for (int i = 0; i < sent; i++) {
        taken += msgs[i].msg_len;
    }
    return taken;
}

// The next bite that one system call takes, and how far it goes.
static ssize_t send_some(int fd, const struct link_tx *tx, unsigned *at, size_t *ret_wanted)
{
    if (tx->record_count == 0) {
        unsigned first = *at;
        *at = tx->iov_count - first > SEND_IOV_MAX ? first + SEND_IOV_MAX : tx->iov_count;
        return send_stream(fd, tx->iov + first, *at - first, ret_wanted);
    }
    unsigned count = tx->record_count - *at;
    count = count > SEND_RECORDS_MAX ? SEND_RECORDS_MAX : count;
    *at += count;
    return send_records(fd, tx, *at - count, count, ret_wanted);
}

ssize_t socket_send(struct link_stream *stream, const struct link_tx *tx)
{
    struct socket_stream *s = socket_stream_of(stream);
    unsigned end = tx->record_count != 0 ? tx->record_count : tx->iov_count;
    unsigned at = 0; // records, or elements, offered so far
    size_t taken = 0;
    while (at < end) {
        size_t wanted;
        ssize_t len = send_some(s->fd, tx, &at, &wanted);
        if (len < 0) {
            len = len == -EINTR ? -EAGAIN : len;
            return taken > 0 ? (ssize_t)taken : len;
        }
        taken += (size_t)len;
        if ((size_t)len < wanted) {
            break;
        }
    }
    return (ssize_t)taken;
}

/* ---- interest -------------------------------------------------------------------------------- */

void socket_want_out(struct link_stream *stream, bool wanted)
{
    struct socket_stream *s = socket_stream_of(stream);
    s->wants_out = wanted;
    socket_watch(s);
}

void socket_want_in(struct link_stream *stream, bool wanted)
{
    struct socket_stream *s = socket_stream_of(stream);
    s->wants_in = wanted;
    socket_watch(s);
}

int socket_shutdown(struct link_stream *stream)
{
    struct socket_stream *s = socket_stream_of(stream);
    socket_yield_port(s->fd);
    int error = sys_shutdown(s->fd, SHUT_WR);
    s->is_shut = true;
    socket_watch(s);
    return error;
}

int socket_connect_result(struct link_stream *stream)
{
    struct socket_stream *s = socket_stream_of(stream);
    int pending = 0;
    int error = sys_getsockopt_int(s->fd, SOL_SOCKET, SO_ERROR, &pending);
    if (error != 0 || pending != 0) {
        return (int)broken(s, error != 0 ? error : -pending);
    }
    if (tcp_state(s->fd) == TCP_SYN_SENT) {
        return -EINPROGRESS;
    }
    if (!s->is_up) { // afterwards the wish is the user's
        s->is_up = true;
        s->wants_out = false;
        socket_forgo_pacing(s->fd);
    }
    return socket_watch(s);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static unsigned what_of(uint32_t events)
{
    unsigned what = 0;
    // HUP without ERR is the orderly end of both directions: recv tells.
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLRDHUP)) != 0) {
        what |= LINK_READY_IN;
    }
    if ((events & EPOLLOUT) != 0) {
        what |= LINK_READY_OUT;
    }
    if ((events & EPOLLERR) != 0) {
        what |= LINK_READY_ERR;
    }
    return what;
}

int socket_poll(struct link *link, struct link_ready *ret, unsigned max)
{
    struct socket_link *l = socket_link_of(link);
    struct epoll_event events[POLL_MAX + 1]; // one more: a wake's report is left for `wait`
    unsigned room = (max > POLL_MAX ? POLL_MAX : max) + 1;
    int count = sys_epoll_wait(l->epoll_fd, events, (int)room, 0);
    if (count < 0) {
        return count == -EINTR ? 0 : count;
    }
    int ready = 0;
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr != NULL && (unsigned)ready < max) {
            struct socket_stream *s = events[i].data.ptr;
            ret[ready++] = (struct link_ready){&s->base, what_of(events[i].events)};
        }
    }
    return ready;
}

// No stream is touched here: this may run beside calls that change them. Who does not wait wants a
// wake taken, if there is one.
void socket_wait(struct link *link, duration_ns timeout_ns)
{
    struct socket_link *l = socket_link_of(link);
    struct epoll_event events[2]; // one more: behind a stream that is ready, a wake may stand
    if (!atomic_exchange(&l->has_wake, false) && timeout_ns == 0) {
        return;
    }
    int count = sys_epoll_wait(l->epoll_fd, events, 2, timeout_ns);
    for (int i = 0; i < count; i++) {
        uint64_t times;
        if (events[i].data.ptr == NULL) {
            sys_read(l->wake_fd, &times, sizeof times);
        }
    }
}

void socket_wake(struct link *link)
{
    uint64_t once = 1;
    struct socket_link *l = socket_link_of(link);
    sys_write(l->wake_fd, &once, sizeof once);
    atomic_store(&l->has_wake, true); // last: else one could be believed taken that comes now
}
