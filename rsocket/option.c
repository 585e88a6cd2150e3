// Options and rfcntl. Many options of TCP have no meaning here and are only kept.

#include <limits.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <string.h>

#include "rsocket/rsocket.h"

/* ---- flags ----------------------------------------------------------------------------------- */

int rfcntl(int socket, int cmd, ...)
{
    struct rs *rs = rs_enter(socket);
    va_list args;
    if (rs == NULL) {
        return -1;
    }
    int result = 0;
    va_start(args, cmd);
    switch (cmd) {
    case F_GETFL:
        result = rs->flags;
        break;
    case F_SETFL:
        rs->flags = va_arg(args, int);
        break;
    case F_GETFD:
        result = rs->descriptor_flags;
        break;
    case F_SETFD:
        rs->descriptor_flags = va_arg(args, int) & FD_CLOEXEC;
        break;
    default:
        result = rs_fail(ENOTSUP);
        break;
    }
    va_end(args);
    rs_leave(rs);
    return result;
}

/* ---- setting --------------------------------------------------------------------------------- */

static void bit_set(uint32_t *bits, int option, bool is_on)
{
    uint32_t bit = 1U << option;
    *bits = is_on ? *bits | bit : *bits & ~bit;
}

// Sockets double what is asked for, and show the double.
static uint32_t ring_len_fit(int asked)
{
    uint64_t len = asked > 0 ? 2 * (uint64_t)asked : 0;
    len &= ~(uint64_t)1;
    return len < RS_RING_MIN ? RS_RING_MIN : len > RS_RING_MAX ? RS_RING_MAX : (uint32_t)len;
}

// What concerns its port or its family, at rdma_cm or at the UDP socket.
static int set_address_option(struct rs *rs, int level, int name, int number)
{
    if (rs_is_datagram(rs)) {
        return setsockopt(rs->fd, level, name, &number, sizeof number);
    }
    return rdma_set_option(rs->id, RDMA_OPTION_ID,
                           level == SOL_SOCKET ? RDMA_OPTION_ID_REUSEADDR : RDMA_OPTION_ID_AFONLY,
                           &number, sizeof number);
}

// Its buffers have their sizes.
static bool is_open(const struct rs *rs)
{
    return rs_is_datagram(rs) ? rs_datagrams_has_path(rs) : rs->tx.ring != NULL;
}

static int set_socket_option(struct rs *rs, int name, const void *value, int number)
{
    int linger_s;
    switch (name) {
    case SO_REUSEADDR:
        if (set_address_option(rs, SOL_SOCKET, SO_REUSEADDR, number) != 0) {
            return -1;
        }
        break;
    case SO_RCVBUF:
        rs->options.recv_ring_len = is_open(rs) ? rs->options.recv_ring_len : ring_len_fit(number);
        return 0;
    case SO_SNDBUF:
        rs->options.send_ring_len = is_open(rs) ? rs->options.send_ring_len : ring_len_fit(number);
        return 0;
    case SO_LINGER:
        number = ((const struct linger *)value)->l_onoff;
        linger_s = ((const struct linger *)value)->l_linger;
        rs->options.linger_s = linger_s >= 0 ? linger_s : INT_MAX; // as Linux has it
        break;
    case SO_KEEPALIVE: // a silent peer is found in any case
    case SO_OOBINLINE:
        break;
    default:
        return rs_fail(ENOTSUP);
    }
    bit_set(&rs->options.so, name, number != 0);
    return 0;
}

// Of a stream; rdma_cm has it as an octet. The lowest two bits are the network's (RFC 3168).
static int set_tos(struct rs *rs, int number)
{
    enum { ECN = 3 };
    uint8_t tos = (uint8_t)number & (uint8_t)~ECN;
    if (rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos) != 0) {
        return -1;
    }
    rs->options.tos = tos;
    return 0;
}

static int set_tcp_option(struct rs *rs, int name, int number)
{
    switch (name) {
    case TCP_KEEPIDLE:
        if (number <= 0) {
            return rs_fail(EINVAL);
        }
        rs->options.keep_idle_s = number;
        return 0;
    case TCP_NODELAY:
    case TCP_KEEPCNT:
    case TCP_KEEPINTVL:
    case TCP_MAXSEG:
        bit_set(&rs->options.tcp, name, number != 0);
        return 0;
    default:
        return rs_fail(ENOTSUP);
    }
}

static int set_rdma_option(struct rs *rs, int name, int number)
{
    if (is_open(rs) ||
        (rs->state != RS_NEW && rs->state != RS_BOUND && rs->state != RS_LISTENING)) {
        return rs_fail(EINVAL);
    }
    uint32_t wanted = number > 0 ? (uint32_t)number : 0;
    uint16_t size = (uint16_t)(wanted < RS_QP_SIZE_MAX ? wanted : RS_QP_SIZE_MAX);
    switch (name) {
    case RDMA_SQSIZE:
        rs->options.sq_size = size;
        return 0;
    case RDMA_RQSIZE:
        rs->options.rq_size = size;
        return 0;
    case RDMA_INLINE:
        rs->options.inline_len = wanted < RS_INLINE_MAX ? wanted : RS_INLINE_MAX;
        return 0;
    case RDMA_IOMAPSIZE:
        rs->options.iomap_count = rs_iomap_count_fit(wanted);
        return 0;
    default:
        return rs_fail(ENOTSUP);
    }
}

static int set_number(struct rs *rs, int level, int name, const void *value, int number)
{
    switch (level) {
    case SOL_SOCKET:
        return set_socket_option(rs, name, value, number);
    case IPPROTO_IP:
        return name == IP_TOS && !rs_is_datagram(rs) ? set_tos(rs, number) : rs_fail(ENOTSUP);
    case IPPROTO_TCP:
        return set_tcp_option(rs, name, number);
    case IPPROTO_IPV6:
        if (name != IPV6_V6ONLY) {
            return rs_fail(ENOTSUP);
        }
        if (set_address_option(rs, IPPROTO_IPV6, IPV6_V6ONLY, number) != 0) {
            return -1;
        }
        bit_set(&rs->options.ipv6, name, number != 0);
        return 0;
    case SOL_RDMA:
        return set_rdma_option(rs, name, number);
    default:
        return rs_fail(ENOTSUP);
    }
}

// Which congestion control there is the device says: any name is taken, and means nothing.
static bool is_text(int level, int name)
{
    return level == IPPROTO_TCP && name == TCP_CONGESTION;
}

// Options of IP may be an octet, as the kernel has it.
static size_t least_len(int level, int name)
{
    return level == SOL_SOCKET && name == SO_LINGER ? sizeof(struct linger)
           : level == IPPROTO_IP                    ? sizeof(uint8_t)
                                                    : sizeof(int);
}

// What is not known here is, of datagrams, their UDP socket's, of whatever length.
static bool may_be_of_udp(struct rs *rs, int level)
{
    return rs_is_datagram(rs) && level != SOL_RDMA;
}

static int set_locked(struct rs *rs, int level, int name, const void *value, socklen_t len)
{
    int number = 0, result = -1;
    bool has_udp = may_be_of_udp(rs, level);
    bool is_whole = value != NULL && len >= least_len(level, name);
    if (value != NULL && is_text(level, name) && !has_udp) {
        return 0;
    }
    if (is_whole) {
        memcpy(&number, value, len < sizeof number ? sizeof(uint8_t) : sizeof number);
        result = set_number(rs, level, name, value, number);
    } else if (!has_udp) {
        return rs_fail(EINVAL);
    }
    bool is_of_udp = has_udp && result != 0 && (!is_whole || errno == ENOTSUP);
    return is_of_udp ? setsockopt(rs->fd, level, name, value, len) : result;
}

int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return -1;
    }
    int result = set_locked(rs, level, optname, optval, optlen);
    rs_leave(rs);
    return result;
}

/* ---- getting --------------------------------------------------------------------------------- */

static int bit_get(uint32_t bits, int option)
{
    return (bits >> option & 1) != 0;
}

bool rs_lingers(const struct rs *rs)
{
    return bit_get(rs->options.so, SO_LINGER);
}

static int protocol_of(const struct rs *rs)
{
    return rs_is_datagram(rs) ? IPPROTO_UDP : IPPROTO_TCP;
}

// SO_ERROR tells an error once.
static int take_error(struct rs *rs)
{
    int error = rs->error;
    rs->error = 0;
    return error;
}

static int get_socket_option(struct rs *rs, int name, int *ret)
{
    switch (name) {
    case SO_REUSEADDR:
    case SO_KEEPALIVE:
    case SO_OOBINLINE:
    case SO_LINGER:
        *ret = bit_get(rs->options.so, name);
        return 0;
    case SO_RCVBUF:
        *ret = (int)rs->options.recv_ring_len;
        return 0;
    case SO_SNDBUF:
        *ret = (int)rs->options.send_ring_len;
        return 0;
    case SO_ERROR:
        rs_progress(rs);
        *ret = take_error(rs);
        return 0;
    case SO_TYPE:
        *ret = rs_is_datagram(rs) ? SOCK_DGRAM : SOCK_STREAM;
        return 0;
    case SO_ACCEPTCONN:
        *ret = rs->state == RS_LISTENING;
        return 0;
    case SO_DOMAIN:
        *ret = rs->options.domain;
        return 0;
    case SO_PROTOCOL:
        *ret = protocol_of(rs);
        return 0;
    case SO_BROADCAST: // a stream's is never on
        return rs_is_datagram(rs) ? rs_fail(ENOTSUP) : 0;
    default:
        return rs_fail(ENOTSUP);
    }
}

static int get_tcp_option(const struct rs *rs, int name, int *ret)
{
    enum { SEGMENT_LEN = 2048 }; // the usual MTU of rsockets; nothing depends on it
    switch (name) {
    case TCP_KEEPCNT:
    case TCP_KEEPINTVL:
        *ret = 1;
        return 0;
    case TCP_KEEPIDLE:
        *ret = rs->options.keep_idle_s;
        return 0;
    case TCP_NODELAY:
        *ret = bit_get(rs->options.tcp, name);
        return 0;
    case TCP_MAXSEG:
        *ret = SEGMENT_LEN;
        return 0;
    default:
        return rs_fail(ENOTSUP);
    }
}

static int get_rdma_option(const struct rs *rs, int name, int *ret)
{
    switch (name) {
    case RDMA_SQSIZE:
        *ret = rs->options.sq_size;
        return 0;
    case RDMA_RQSIZE:
        *ret = rs->options.rq_size;
        return 0;
    case RDMA_INLINE:
        *ret = (int)rs->options.inline_len;
        return 0;
    case RDMA_IOMAPSIZE:
        *ret = rs->options.iomap_count;
        return 0;
    default:
        return rs_fail(ENOTSUP);
    }
}

static int get_number(struct rs *rs, int level, int name, int *ret)
{
    switch (level) {
    case SOL_SOCKET:
        return get_socket_option(rs, name, ret);
    case IPPROTO_IP:
        *ret = rs->options.tos;
        return name == IP_TOS && !rs_is_datagram(rs) ? 0 : rs_fail(ENOTSUP);
    case IPPROTO_TCP:
        return get_tcp_option(rs, name, ret);
    case IPPROTO_IPV6:
        *ret = bit_get(rs->options.ipv6, IPV6_V6ONLY);
        return name == IPV6_V6ONLY ? 0 : rs_fail(ENOTSUP);
    case SOL_RDMA:
        return get_rdma_option(rs, name, ret);
    default:
        return rs_fail(ENOTSUP);
    }
}

// What an option is told as.
struct answer {
    socklen_t len;
    union {
        int number;
        struct linger linger;
        struct tcp_info info;
        char text[16];
    } as;
};

static struct tcp_info info_of(struct rs *rs)
{
    rs_progress(rs);
    return (struct tcp_info){.tcpi_state = rs->state == RS_CONNECTED ? TCP_ESTABLISHED : TCP_CLOSE,
                             .tcpi_snd_cwnd = rs->options.sq_size};
}

static int answer_find(struct rs *rs, int level, int name, struct answer *ret)
{
    *ret = (struct answer){.len = sizeof ret->as.number};
    if (is_text(level, name)) {
        *ret = (struct answer){.len = sizeof ret->as.text, .as.text = ""};
        return 0;
    }
    if (level == IPPROTO_TCP && name == TCP_INFO && !rs_is_datagram(rs)) {
        *ret = (struct answer){.len = sizeof ret->as.info, .as.info = info_of(rs)};
        return 0;
    }
    int number = 0;
    if (get_number(rs, level, name, &number) != 0) {
        return -1;
    }
    ret->as.number = number;
    if (level == SOL_SOCKET && name == SO_LINGER) {
        ret->len = sizeof ret->as.linger;
        ret->as.linger = (struct linger){.l_onoff = number, .l_linger = rs->options.linger_s};
    }
    return 0;
}

int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
    struct rs *rs = rs_enter(socket);
    if (rs == NULL) {
        return -1;
    }
    struct answer answer;
    int result = answer_find(rs, level, optname, &answer);
    bool is_of_udp = result != 0 && errno == ENOTSUP && may_be_of_udp(rs, level);
    if (is_of_udp) {
        result = getsockopt(rs->fd, level, optname, optval, optlen);
    }
    rs_leave(rs);
    if (result != 0 || is_of_udp) {
        return result;
    }
    // Who has less room gets the beginning, as of the kernel's sockets.
    if (*optlen > INT_MAX) {
        return rs_fail(EINVAL);
    }
    *optlen = *optlen < answer.len ? *optlen : answer.len;
    memcpy(optval, &answer.as, *optlen);
    return 0;
}
