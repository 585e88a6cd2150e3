// Sending and receiving: the calls of sockets over the stream.

#include <limits.h>

#include "rsocket/rsocket.h"

/* ---- sending --------------------------------------------------------------------------------- */

// How many octets were sent; -1 with errno when none could be.
static ssize_t send_all(struct rs *rs, struct rs_source *source, bool is_nonblocking)
{
    size_t total = source->left;
    // Transfers grow, so that the first is under way while the next one is copied.
    size_t limit = RS_SEND_LOW_WATER;
    while (source->left > 0) {
        if (rs_await_sendable(rs, is_nonblocking) != 0 || rs_stream_send(rs, source, limit) < 0) {
            return source->left < total ? (ssize_t)(total - source->left) : -1;
        }
        limit = limit < RS_TRANSFER_MAX ? 2 * limit : limit;
    }
    return (ssize_t)total;
}

static ssize_t stream_send(struct rs *rs, struct rs_source *source, int flags)
{
    bool is_nonblocking = rs_is_nonblocking(rs, flags);
    if (rs_await_connected(rs, is_nonblocking) != 0 || rs_iomap_flush(rs, is_nonblocking) != 0) {
        return -1;
    }
    return send_all(rs, source, is_nonblocking);
}

// Whither; only datagrams can be told. NULL: to the peer that the socket is connected to.
struct destination {
    const struct sockaddr *addr;
    socklen_t len;
};

static ssize_t datagram_send(struct rs *rs, struct rs_source *source, int flags,
                             const struct sockaddr *to)
{
    bool is_nonblocking = rs_is_nonblocking(rs, flags);
    if (!rs_datagrams_may_send(rs) &&
        rs_wait_until(rs, is_nonblocking, rs_datagrams_may_send) != 0) {
        return -1;
    }
    return rs_datagrams_send(rs, source, is_nonblocking, to);
}

static ssize_t send_from(struct rs *rs, struct rs_source *source, int flags,
                         const struct destination *to)
{
    bool has_address = to->addr != NULL || to->len != 0;
    if (!rs_is_datagram(rs)) {
        return has_address ? rs_fail(EISCONN) : stream_send(rs, source, flags);
    }
    if (has_address && (sockaddr_len(to->addr) == 0 || to->len < sockaddr_len(to->addr))) {
        return rs_fail(EINVAL);
    }
    return datagram_send(rs, source, flags, to->addr);
}

static ssize_t send_parts(int socket, const struct iovec *parts, size_t count, int flags,
                          struct destination to)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return -1;
    }
    struct rs_source source = {.part = parts};
    for (size_t i = 0; i < count; i++) {
        source.left += parts[i].iov_len;
    }
    ssize_t sent = send_from(rs, &source, flags, &to);
    rs_leave(rs);
    return sent;
}

static const struct destination its_peer;

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    return send_parts(socket, &part, 1, flags, its_peer);
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
                const struct sockaddr *dest_addr, socklen_t addrlen)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct destination to = {dest_addr, addrlen};
    return send_parts(socket, &part, 1, flags, to);
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
    if (msg->msg_control != NULL && msg->msg_controllen > 0) {
        return rs_fail(ENOTSUP);
    }
    struct destination to = {msg->msg_name, msg->msg_name != NULL ? msg->msg_namelen : 0};
    return send_parts(socket, msg->msg_iov, msg->msg_iovlen, flags, to);
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
    return rsend(socket, buf, count, 0);
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
    return iovcnt < 0 || iovcnt > IOV_MAX ? rs_fail(EINVAL)
                                          : send_parts(socket, iov, (size_t)iovcnt, 0, its_peer);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static bool has_data_or_over(const struct rs *rs)
{
    return rs->rx.ready_len > 0 || rs->state != RS_CONNECTED || !rs->may_read;
}

// What nothing means: the end of the stream, or that it was cut off.
static ssize_t tell_end(const struct rs *rs)
{
    return rs->state == RS_BROKEN ? rs_fail(rs->error != 0 ? rs->error : ECONNRESET) : 0;
}

// What has arrived, waiting for the first of it; 0 at the end of the stream.
static ssize_t receive_part(struct rs *rs, const struct iovec *part, bool is_nonblocking,
                            bool wants_all)
{
    uint8_t *to = part->iov_base;
    size_t done = 0;
    do {
        if (rs_wait_until(rs, is_nonblocking, has_data_or_over) != 0) {
            return done > 0 ? (ssize_t)done : -1;
        }
        size_t count = rs_stream_read(rs, to + done, part->iov_len - done);
        if (count == 0 && done == 0) {
            return tell_end(rs);
        }
        done += count;
        wants_all = wants_all && count > 0;
    } while (wants_all && done < part->iov_len);
    return (ssize_t)done;
}

static ssize_t receive_all(struct rs *rs, const struct iovec *iov, size_t count, int flags)
{
    const bool is_nonblocking = rs_is_nonblocking(rs, flags);
    const bool wants_all = (flags & MSG_WAITALL) != 0;
    ssize_t done = 0;
    for (size_t i = 0; i < count; i++) {
        if (iov[i].iov_len == 0) {
            continue;
        }
        // Only the first part is worth waiting for.
        bool waits = done == 0 || wants_all;
        ssize_t got = receive_part(rs, &iov[i], is_nonblocking || !waits, wants_all);
        if (got < 0) {
            return done > 0 ? done : -1;
        }
        done += got;
        if ((size_t)got < iov[i].iov_len) {
            break;
        }
    }
    if (done > 0) {
        rs_progress(rs); // room was made: the peer is to learn of it
    }
    return done;
}

static ssize_t peek(struct rs *rs, const struct iovec *iov, size_t count, int flags)
{
    size_t len = 0, done = 0;
    for (size_t i = 0; i < count; i++) {
        len += iov[i].iov_len;
    }
    if (len > 0 && rs_wait_until(rs, rs_is_nonblocking(rs, flags), has_data_or_over) != 0) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        done += rs_stream_peek(rs, done, iov[i].iov_base, iov[i].iov_len);
    }
    return len > 0 && done == 0 ? tell_end(rs) : (ssize_t)done;
}

static ssize_t stream_receive(struct rs *rs, const struct iovec *iov, size_t count, int flags)
{
    if (rs_await_connected(rs, rs_is_nonblocking(rs, flags)) != 0) {
        return -1;
    }
    return flags & MSG_PEEK ? peek(rs, iov, count, flags) : receive_all(rs, iov, count, flags);
}

// From whom, and what else there is to tell of it.
struct origin {
    struct sockaddr_storage addr; // AF_UNSPEC: nobody
    int flags;                    // MSG_TRUNC
};

static ssize_t receive_parts(int socket, const struct iovec *iov, size_t count, int flags,
                             struct origin *ret)
{
    struct rs *rs = rs_enter(socket);
    *ret = (struct origin){0};
    if (rs == NULL) {
        return -1;
    }
    ssize_t done = -1;
    if (rs_is_datagram(rs)) {
        if (rs_wait_until(rs, rs_is_nonblocking(rs, flags), rs_datagrams_may_receive) == 0) {
            done = rs_datagrams_receive(rs, iov, count, flags, &ret->addr, &ret->flags);
        }
    } else {
        done = stream_receive(rs, iov, count, flags);
        memcpy(&ret->addr, rdma_get_peer_addr(rs->id), sockaddr_len(rdma_get_peer_addr(rs->id)));
    }
    rs_leave(rs);
    return done;
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
    struct iovec part = {.iov_base = buf, .iov_len = len};
    struct origin from;
    return receive_parts(socket, &part, 1, flags, &from);
}

ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
                  socklen_t *addrlen)
{
    struct iovec part = {.iov_base = buf, .iov_len = len};
    struct origin from;
    ssize_t got = receive_parts(socket, &part, 1, flags, &from);
    if (got >= 0 && src_addr != NULL && addrlen != NULL) {
        rs_addr_copy((struct sockaddr *)&from.addr, src_addr, addrlen);
    }
    return got;
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
    if (msg->msg_control != NULL && msg->msg_controllen > 0) {
        return rs_fail(ENOTSUP);
    }
    struct origin from;
    ssize_t got = receive_parts(socket, msg->msg_iov, msg->msg_iovlen, flags, &from);
    if (got >= 0) {
        msg->msg_flags = from.flags;
        msg->msg_controllen = 0;
    }
    if (got >= 0 && msg->msg_name != NULL) {
        rs_addr_copy((struct sockaddr *)&from.addr, msg->msg_name, &msg->msg_namelen);
    }
    return got;
}

ssize_t rread(int socket, void *buf, size_t count)
{
    return rrecv(socket, buf, count, 0);
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
    struct origin from;
    return iovcnt < 0 || iovcnt > IOV_MAX ? rs_fail(EINVAL)
                                          : receive_parts(socket, iov, (size_t)iovcnt, 0, &from);
}
