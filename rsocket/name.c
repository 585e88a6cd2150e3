// Who is at either end: the addresses of a socket and of its peer.

#include "rsocket/rsocket.h"

void rs_addr_copy(const struct sockaddr *from, struct sockaddr *addr, socklen_t *addrlen)
{
    socklen_t len = sockaddr_len(from);
    memcpy(addr, from, *addrlen < len ? *addrlen : len);
    *addrlen = len;
}

// Programs tell by it whether what they have begun is connected: none before that.
static int stream_peer(struct rs *rs, struct sockaddr *addr, socklen_t *addrlen)
{
    const struct sockaddr *peer = rdma_get_peer_addr(rs->id);
    if (rs->state == RS_CONNECTING) {
        rs_progress(rs);
    }
    if (sockaddr_len(peer) == 0 || rs->state == RS_CONNECTING || rs->state == RS_FAILED) {
        return rs_fail(ENOTCONN);
    }
    rs_addr_copy(peer, addr, addrlen);
    return 0;
}

static int stream_name(const struct rs *rs, struct sockaddr *addr, socklen_t *addrlen)
{
    rs_addr_copy(rdma_get_local_addr(rs->id), addr, addrlen);
    return 0;
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return -1;
    }
    int result =
        rs_is_datagram(rs) ? getpeername(rs->fd, addr, addrlen) : stream_peer(rs, addr, addrlen);
    rs_leave(rs);
    return result;
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return -1;
    }
    int result =
        rs_is_datagram(rs) ? getsockname(rs->fd, addr, addrlen) : stream_name(rs, addr, addrlen);
    rs_leave(rs);
    return result;
}
