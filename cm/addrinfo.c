// rdma_getaddrinfo: libc's getaddrinfo, told what the hints mean for sockets, and its first answer
// told back in RDMA's terms. Names and services are libc's business.

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"

static int socktype_of(int qp_type)
{
    switch (qp_type) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
        return SOCK_STREAM;
    case IBV_QPT_UD:
        return SOCK_DGRAM;
    default:
        return 0;
    }
}

static int protocol_of(int port_space, int socktype)
{
    switch (port_space) {
    case RDMA_PS_TCP:
        return IPPROTO_TCP;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
        return IPPROTO_UDP;
    case RDMA_PS_IB:
        return socktype == SOCK_STREAM ? IPPROTO_TCP : socktype == SOCK_DGRAM ? IPPROTO_UDP : 0;
    default:
        return 0;
    }
}

static struct addrinfo hints_for_libc(const struct rdma_addrinfo *hints)
{
    struct addrinfo ai = {.ai_family = hints->ai_family};
    ai.ai_flags = ((hints->ai_flags & RAI_PASSIVE) != 0 ? AI_PASSIVE : 0) |
                  ((hints->ai_flags & RAI_NUMERICHOST) != 0 ? AI_NUMERICHOST : 0);
    ai.ai_socktype = socktype_of(hints->ai_qp_type);
    ai.ai_protocol = protocol_of(hints->ai_port_space, ai.ai_socktype);
    return ai;
}

static int copy_addr(struct sockaddr **ret, socklen_t *ret_len, const struct sockaddr *addr,
                     socklen_t len)
{
    *ret = malloc(len);
    if (*ret == NULL) {
        return cm_fail(ENOMEM);
    }
    memcpy(*ret, addr, len);
    *ret_len = len;
    return 0;
}

// What libc found, as the passive side's source or the active side's destination.
static int answer_fill(struct rdma_addrinfo *res, const struct rdma_addrinfo *hints,
                       const struct addrinfo *ai)
{
    bool is_datagram = ai->ai_socktype == SOCK_DGRAM;
    res->ai_flags = hints->ai_flags & RAI_PASSIVE;
    res->ai_family = ai->ai_family;
    res->ai_qp_type = hints->ai_qp_type;
    if (res->ai_qp_type == 0) {
        res->ai_qp_type = is_datagram ? IBV_QPT_UD : IBV_QPT_RC;
    }
    res->ai_port_space = hints->ai_port_space;
    if (res->ai_port_space == 0) {
        res->ai_port_space = ai->ai_protocol == IPPROTO_UDP ? RDMA_PS_UDP : RDMA_PS_TCP;
    }
    return (res->ai_flags & RAI_PASSIVE) != 0
               ? copy_addr(&res->ai_src_addr, &res->ai_src_len, ai->ai_addr, ai->ai_addrlen)
               : copy_addr(&res->ai_dst_addr, &res->ai_dst_len, ai->ai_addr, ai->ai_addrlen);
}

static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
                   struct rdma_addrinfo *res)
{
    struct addrinfo libc_hints = hints_for_libc(hints);
    struct addrinfo *ai;
    int error = getaddrinfo(node, service, &libc_hints, &ai);
    if (error != 0) {
        return error;
    }
    error = answer_fill(res, hints, ai);
    freeaddrinfo(ai);
    return error;
}

// Nothing to look up: the hints' own addresses are the answer.
static int echo(const struct rdma_addrinfo *hints, struct rdma_addrinfo *res)
{
    res->ai_flags = hints->ai_flags;
    res->ai_family = hints->ai_family;
    res->ai_qp_type = hints->ai_qp_type;
    res->ai_port_space = hints->ai_port_space;
    return hints->ai_dst_len == 0 ? 0
                                  : copy_addr(&res->ai_dst_addr, &res->ai_dst_len,
                                              hints->ai_dst_addr, hints->ai_dst_len);
}

// Returns 0, -1 with errno, or a value of getaddrinfo's own (EAI_*), as rdma-core's does.
int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                     struct rdma_addrinfo **ret)
{
    static const struct rdma_addrinfo no_hints;
    if (node == NULL && service == NULL && hints == NULL) {
        return cm_fail(EINVAL);
    }
    if (hints == NULL) {
        hints = &no_hints;
    }
    struct rdma_addrinfo *res = calloc(1, sizeof *res);
    if (res == NULL) {
        return cm_fail(ENOMEM);
    }
    int error =
        node != NULL || service != NULL ? look_up(node, service, hints, res) : echo(hints, res);
    if (error == 0 && res->ai_src_len == 0 && hints->ai_src_len != 0) {
        error =
            copy_addr(&res->ai_src_addr, &res->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
    }
    if (error != 0) {
        rdma_freeaddrinfo(res);
        return error;
    }
    *ret = res;
    return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
    while (res != NULL) {
        struct rdma_addrinfo *next = res->ai_next;
        free(res->ai_src_addr);
        free(res->ai_dst_addr);
        free(res->ai_src_canonname);
        free(res->ai_dst_canonname);
        free(res->ai_route);
        free(res->ai_connect);
        free(res);
        res = next;
    }
}
