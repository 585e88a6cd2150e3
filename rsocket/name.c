// Who is at either end: the addresses of a socket and of its peer.

#include "rsocket/rsocket.h"

socklen_t rs_addr_len(const struct sockaddr *addr)
{
    switch (addr != NULL ? addr->sa_family : AF_UNSPEC) {
    case AF_INET:
        return sizeof(struct sockaddr_in);
    case AF_INET6:
        return sizeof(struct sockaddr_in6);
    default:
        return 0;
    }
}

static void copy_name(const struct sockaddr *from, struct sockaddr *addr, socklen_t *addrlen)
{
    socklen_t len = rs_addr_len(from);
    memcpy(addr, from, *addrlen < len ? *addrlen : len);
    *addrlen = len;
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return -1;
    }
    const struct sockaddr *peer = rdma_get_peer_addr(rs->id);
    int result = rs_addr_len(peer) == 0 ? rs_fail(ENOTCONN) : 0;
    if (result == 0) {
        copy_name(peer, addr, addrlen);
    }
    rs_leave(rs);
    return result;
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return -1;
    }
    copy_name(rdma_get_local_addr(rs->id), addr, addrlen);
    rs_leave(rs);
    return 0;
}
