#include "link/datagram/numbering.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/time.h"
#include "link/datagram/door.h"
#include "link/sys.h"
#include "wire/udp_header.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum { IPV4_OFF_ID = 4, SEGMENT_LEN = 16, SEGMENTS = 3 };
static const duration_ns patience_ns = 500 * NS_PER_MS; // over loopback it is there at once
static const struct in6_addr here = {.s6_addr = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};

// Who takes only packets whose identification is what stands first in their payload. A negative
// errno.
static int taker_make(struct sockaddr_storage *ret_name)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, UDP_HEADER_LEN),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, (uint32_t)SKF_NET_OFF + IPV4_OFF_ID),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT16_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    int fd = datagram_socket(&here);
    if (fd < 0) {
        return fd;
    }
    socklen_t len = datagram_sockaddr(&here, 0, 0, ret_name);
    int error = sys_setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
    error = error != 0 ? error : sys_bind(fd, (const struct sockaddr *)ret_name, len);
    error = error != 0 ? error : sys_getsockname(fd, ret_name);
    if (error != 0) {
        sys_close(fd);
        return error;
    }
    return fd;
}

// So many segments in one message; false: the system does not send it.
static bool message_send(int fd, const struct sockaddr_storage *to, unsigned segments)
{
    uint8_t octets[SEGMENTS * SEGMENT_LEN] = {0};
    const uint16_t segment_len = SEGMENT_LEN;
    union {
        struct cmsghdr header;
        uint8_t octets[CMSG_SPACE(sizeof segment_len)];
    } control = {.header = {.cmsg_level = IPPROTO_UDP,
                            .cmsg_type = UDP_SEGMENT,
                            .cmsg_len = CMSG_LEN(sizeof segment_len)}};
    struct iovec iov = {octets, (size_t)segments * SEGMENT_LEN};
    struct msghdr msg = {.msg_name = (void *)to,
                         .msg_namelen = sizeof(struct sockaddr_in),
                         .msg_iov = &iov,
                         .msg_iovlen = 1};
    memcpy(CMSG_DATA(&control.header), &segment_len, sizeof segment_len);
    if (segments > 1) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof control;
    }
    for (unsigned i = 0; i < segments; i++) {
        put_be16(octets + (size_t)i * SEGMENT_LEN, (uint16_t)i);
    }
    return sys_sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)iov.iov_len;
}

static bool come(int fd, unsigned segments)
{
    uint8_t octets[SEGMENT_LEN];
    for (unsigned i = 0; i < segments; i++) {
        if (!sys_wait_in(fd, patience_ns) ||
            sys_recv(fd, octets, sizeof octets, MSG_DONTWAIT) != SEGMENT_LEN) {
            return false;
        }
    }
    return true;
}

enum datagram_numbering datagram_numbering_of(int fd)
{
    struct sockaddr_storage to;
    int taker = taker_make(&to);
    enum datagram_numbering result = DATAGRAM_NUMBERING_UNKNOWN;
    if (taker < 0) {
        return result;
    }
    if (message_send(fd, &to, 1)) {
        result = come(taker, 1) ? DATAGRAM_NUMBERED : DATAGRAM_NUMBERED_OTHERWISE;
    }
    if (result == DATAGRAM_NUMBERED && message_send(fd, &to, SEGMENTS)) {
        result = come(taker, SEGMENTS) ? DATAGRAM_NUMBERED : DATAGRAM_NUMBERED_SINGLY;
    }
    sys_close(taker);
    return result;
}

enum datagram_numbering datagram_numbering_find(void)
{
    int fd = datagram_socket(&here);
    if (fd < 0) {
        return DATAGRAM_NUMBERING_UNKNOWN;
    }
    enum datagram_numbering result = datagram_numbering_of(fd);
    sys_close(fd);
    return result;
}
