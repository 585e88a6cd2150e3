#include "link/datagram/door.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/sockaddr.h"
#include "link/datagram/slot.h"
#include "link/sys.h"
#include "wire/bth.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
    RCVBUF_DEFAULT = 4 << 20,
    RCVBUF_OF_NOBODY = 1,   // the least that the kernel allows
    RCVBUF_LEFT_MAX = 4096, // ... and makes more of
    DRAIN_MAX = 1 << 14,    // datagrams that are thrown away
    IPV4_OFF_IN_MAPPED = 12,
};

/* ---- addresses ------------------------------------------------------------------------------- */

socklen_t datagram_sockaddr(const struct in6_addr *addr, uint32_t scope_id, uint16_t port,
                            struct sockaddr_storage *ret)
{
    if (IN6_IS_ADDR_V4MAPPED(addr)) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&in.sin_addr, addr->s6_addr + IPV4_OFF_IN_MAPPED, sizeof in.sin_addr);
        memcpy(ret, &in, sizeof in);
        return sizeof in;
    }
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                               .sin6_port = htons(port),
                               .sin6_addr = *addr,
                               .sin6_scope_id = scope_id};
    memcpy(ret, &in6, sizeof in6);
    return sizeof in6;
}

void datagram_addr(const struct sockaddr_storage *from, struct in6_addr *ret,
                   uint32_t *ret_scope_id, uint16_t *ret_port)
{
    const struct sockaddr *addr = (const struct sockaddr *)from;
    *ret = sockaddr_octets(addr);
    *ret_scope_id = sockaddr_scope_id(addr);
    *ret_port = ntohs(sockaddr_port(addr));
}

/* ---- sockets --------------------------------------------------------------------------------- */

// No fragments and no connection: then the kernel numbers its IPv4 packets 0, and the ICRC, which
// covers the identification, can be made.
int datagram_socket(const struct in6_addr *addr)
{
    bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(addr);
    int fd = sys_socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                        IPPROTO_UDP);
    if (fd < 0) {
        return fd;
    }
    int error = is_ipv4 ? sys_setsockopt_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
                        : sys_setsockopt_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    if (error == 0 && !is_ipv4) {
        error = sys_setsockopt_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    }
    if (error != 0) {
        sys_close(fd);
        return error;
    }
    return fd;
}

static int bind_to(int fd, const struct in6_addr *addr, uint32_t scope_id, uint16_t port)
{
    struct sockaddr_storage name;
    socklen_t len = datagram_sockaddr(addr, scope_id, port, &name);
    return sys_bind(fd, (const struct sockaddr *)&name, len);
}

// Nobody has the port: who shares it with everybody cannot be told from us.
static int ask_for_it_alone(const struct in6_addr *addr, uint32_t scope_id, uint16_t port)
{
    int fd = datagram_socket(addr);
    if (fd < 0) {
        return fd;
    }
    int error = bind_to(fd, addr, scope_id, port);
    sys_close(fd);
    return error;
}

static int member_make(const struct in6_addr *addr, uint32_t scope_id, uint16_t port)
{
    int fd = datagram_socket(addr);
    if (fd < 0) {
        return fd;
    }
    int error = sys_setsockopt_int(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (error == 0) {
        error = bind_to(fd, addr, scope_id, port);
    }
    if (error != 0) {
        sys_close(fd);
        return error;
    }
    datagram_door_leave(fd);
    return fd;
}

// The filter sees the datagram from BTH on, and answers with a place in the group. What is too
// short for it goes to the first, which counts it. It replaces the one before.
static int filter_attach(const struct datagram_door *door)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BTH_OFF_DEST_QP - 1),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, DATAGRAM_QP_NUM_MASK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BTH_QP_GSI, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, DATAGRAM_DOOR_MANAGEMENT),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, DATAGRAM_SLOT_SHIFT),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, door->count - DATAGRAM_DOOR_SLOTS, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, DATAGRAM_DOOR_SINK),
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, DATAGRAM_DOOR_SLOTS),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog program;
    memset(&program, 0, sizeof program); // what lies between its fields, too
    program.len = sizeof code / sizeof code[0];
    program.filter = code;
    return sys_setsockopt(door->fds[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
                          sizeof program);
}

// Those from place `kept` on, the last first: so none takes the place of another.
static void close_from(struct datagram_door *door, unsigned kept)
{
    while (door->count > kept) {
        sys_close(door->fds[--door->count]);
    }
}

int datagram_door_extend(struct datagram_door *door, const struct in6_addr *addr, uint32_t scope_id,
                         uint16_t port, unsigned slot)
{
    const unsigned before = door->count, wanted = DATAGRAM_DOOR_SLOTS + slot + 1;
    int error = 0;
    while (door->count < wanted && error == 0) {
        int fd = member_make(addr, scope_id, port);
        if (fd >= 0) {
            door->fds[door->count++] = fd;
        } else {
            error = fd;
        }
    }
    if (error == 0 && door->count > before) {
        error = filter_attach(door);
    }
    if (error != 0) {
        close_from(door, before);
    }
    return error;
}

int datagram_door_make(struct datagram_door *door, const struct in6_addr *addr, uint32_t scope_id,
                       uint16_t port, unsigned slot)
{
    int error = ask_for_it_alone(addr, scope_id, port);
    return error == 0 ? datagram_door_extend(door, addr, scope_id, port, slot) : error;
}

void datagram_door_take(struct datagram_door *door, unsigned first, const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        bool is_next = first <= door->count && door->count - first == i;
        if (is_next && door->count < DATAGRAM_DOOR_FDS) {
            door->fds[door->count++] = fds[i];
        } else {
            sys_close(fds[i]);
        }
    }
}

void datagram_door_close(struct datagram_door *door)
{
    close_from(door, 0);
}

/* ---- reading at one -------------------------------------------------------------------------- */

static void drain(int fd)
{
    uint8_t octet;
    for (unsigned i = 0; i < DRAIN_MAX; i++) {
        if (sys_recv(fd, &octet, sizeof octet, MSG_DONTWAIT | MSG_TRUNC) == -EAGAIN) {
            break;
        }
    }
}

// Those that the family does not have are refused, and not needed.
void datagram_door_enter(int fd, uint32_t rcvbuf_len)
{
    int len = rcvbuf_len != 0 ? (int)rcvbuf_len : RCVBUF_DEFAULT;
    drain(fd);
    if (sys_setsockopt_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, len) != 0) {
        sys_setsockopt_int(fd, SOL_SOCKET, SO_RCVBUF, len);
    }
    sys_setsockopt_int(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    sys_setsockopt_int(fd, IPPROTO_UDP, UDP_GRO, 1);
    // The ICRC checks more: RoCE's packets have no sum of UDP's, over IPv6 too.
    sys_setsockopt_int(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
    sys_setsockopt_int(fd, IPPROTO_IP, IP_RECVTTL, 1);
    sys_setsockopt_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
    sys_setsockopt_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    sys_setsockopt_int(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
    sys_setsockopt_int(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
}

void datagram_door_leave(int fd)
{
    sys_setsockopt_int(fd, SOL_SOCKET, SO_RCVBUF, RCVBUF_OF_NOBODY);
}

bool datagram_door_fill(int fd, uint32_t *ret_taken, uint32_t *ret_most)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t len = sizeof info;
    if (sys_getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len) != 0) {
        return false;
    }
    *ret_taken = info[SK_MEMINFO_RMEM_ALLOC];
    *ret_most = info[SK_MEMINFO_RCVBUF];
    return *ret_most > RCVBUF_LEFT_MAX;
}

uint64_t datagram_door_sunk(int sink_fd)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t len = sizeof info;
    sys_getsockopt(sink_fd, SOL_SOCKET, SO_MEMINFO, info, &len);
    return info[SK_MEMINFO_DROPS];
}
