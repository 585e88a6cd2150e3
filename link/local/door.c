#include "link/local/door.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "link/sys.h"
#include "wire/ip.h"

static const char magic[8] = {'w', 'e', 'f', 't', '-', 'm', 'e', 'm'};

enum { VERSION = 3, BACKLOG = LOCAL_DOOR_LOOK };

/* ---- names ----------------------------------------------------------------------------------- */

// The name of a place, behind the zero octet that makes it abstract.
static socklen_t name_of(const struct net_addr *addr, uint32_t scope, uint16_t port,
                         struct sockaddr_un *ret)
{
    char text[2 * IPV6_ADDR_LEN + 1];
    for (unsigned i = 0; i < IPV6_ADDR_LEN; i++) {
        snprintf(text + 2 * i, 3, "%02x", addr->octets[i]);
    }
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "weft-stream/%s/%u/%u", text,
                       scope, port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static bool is_of_this_user(int fd, pid_t *ret_process)
{
    struct ucred who;
    socklen_t len = sizeof who;
    if (sys_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0 || who.uid != geteuid()) {
        return false;
    }
    *ret_process = who.pid;
    return true;
}

/* ---- who listens ----------------------------------------------------------------------------- */

int local_door_open(struct local_door *door, const struct net_flow *place)
{
    struct sockaddr_un name;
    socklen_t len = name_of(&place->local, place->scope, place->local_port, &name);
    int fd = sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = fd < 0 ? fd : sys_bind(fd, (const struct sockaddr *)&name, len);
    if (error == 0) {
        error = sys_listen(fd, BACKLOG);
    }
    if (error != 0 && fd >= 0) {
        sys_close(fd);
    }
    *door = (struct local_door){.fd = error != 0 ? -1 : fd};
    return error;
}

void local_door_close(struct local_door *door)
{
    while (door->knocking_count > 0) {
        sys_close(door->knocking[--door->knocking_count]);
    }
    if (door->fd >= 0) {
        sys_close(door->fd);
    }
    door->fd = -1;
}

static void forget_knocking(struct local_door *door, unsigned index)
{
    sys_close(door->knocking[index]);
    door->knocking_count--;
    memmove(&door->knocking[index], &door->knocking[index + 1],
            (door->knocking_count - index) * sizeof door->knocking[0]);
}

// Whoever has come in since the last look; who has said nothing for longest makes room. Others may
// come in, or be sent away, faster than they are looked at.
static void let_in(struct local_door *door, unsigned *left)
{
    int fd;
    pid_t process;
    while (*left > 0 && (fd = sys_accept(door->fd, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        (*left)--;
        if (!is_of_this_user(fd, &process)) {
            door->stranger_count++;
            sys_close(fd);
            continue;
        }
        if (door->knocking_count == LOCAL_DOOR_KNOCKING_MAX) {
            forget_knocking(door, 0);
        }
        door->knocking[door->knocking_count++] = fd;
        if (door->knocking_count == LOCAL_DOOR_KNOCKING_MAX) {
            return; // the others wait in the socket until these have been heard
        }
    }
}

static int offer_read(const uint8_t *octets, const int *fds, struct local_offer *ret)
{
    if (memcmp(octets + LOCAL_OFFER_MAGIC, magic, sizeof magic) != 0 ||
        get_be32(octets + LOCAL_OFFER_VERSION) != VERSION) {
        return -EPROTO;
    }
    memcpy(&ret->flow, octets + LOCAL_OFFER_FLOW, sizeof ret->flow);
    ret->means = (struct local_channel_means){
        .id = get_be64(octets + LOCAL_OFFER_CHANNEL), .memory_fd = fds[1], .socket_fd = fds[2]};
    return local_memory_adopt(fds[0], get_be32(octets + LOCAL_OFFER_RING_LEN), &ret->memory);
}

// Descriptors that came with a message: how many were kept; all others are closed.
static unsigned take_descriptors(struct msghdr *msg, int *kept, unsigned max)
{
    unsigned kept_count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        bool is_rights = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS;
        size_t count = is_rights ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (kept_count < max) {
                kept[kept_count++] = fd;
            } else {
                sys_close(fd);
            }
        }
    }
    return kept_count;
}

// One message, if it is there. -EAGAIN: it has said nothing yet.
static int hear(int from, struct local_offer *ret)
{
    uint8_t octets[LOCAL_OFFER_LEN + 1]; // one more: a longer one is no offer
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(4 * sizeof(int))];
    struct iovec iov = {octets, sizeof octets};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t len = sys_recvmsg(from, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (len < 0) {
        return (int)len;
    }
    int fds[LOCAL_OFFER_DESCRIPTORS];
    unsigned count = take_descriptors(&msg, fds, LOCAL_OFFER_DESCRIPTORS);
    bool is_whole = len == LOCAL_OFFER_LEN && count == LOCAL_OFFER_DESCRIPTORS &&
                    is_of_this_user(from, &ret->process);
    int error = is_whole ? offer_read(octets, fds, ret) : -EPROTO;
    sys_close_fds(fds, error != 0 ? count : 1);
    return error;
}

int local_door_take(struct local_door *door, unsigned *left, struct local_offer *ret)
{
    let_in(door, left);
    for (unsigned i = 0; i < door->knocking_count; i++) {
        int error = hear(door->knocking[i], ret);
        if (error != -EAGAIN) {
            forget_knocking(door, i);
            return error;
        }
    }
    return -EAGAIN;
}

/* ---- who connects ---------------------------------------------------------------------------- */

static int knock_at(const struct net_addr *addr, uint32_t scope, uint16_t port, pid_t *ret_process)
{
    struct sockaddr_un name;
    socklen_t len = name_of(addr, scope, port, &name);
    int fd = sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = fd < 0 ? fd : sys_connect(fd, (const struct sockaddr *)&name, len);
    if (error == 0 && !is_of_this_user(fd, ret_process)) {
        error = -EPERM;
    }
    if (error != 0 && fd >= 0) {
        sys_close(fd);
    }
    return error != 0 ? error : fd;
}

// Who listens has the address itself, or one that stands for all of a family.
int local_door_knock(const struct net_flow *flow, pid_t *ret_process)
{
    static const uint8_t any_ipv4[IPV4_ADDR_LEN];
    const struct net_addr any[] = {net_addr_from_ipv4(any_ipv4), {{0}}};
    int fd = knock_at(&flow->remote, flow->scope, flow->remote_port, ret_process);
    for (unsigned i = net_addr_is_ipv4(&flow->remote) ? 0 : 1; i < 2 && fd == -ECONNREFUSED; i++) {
        fd = knock_at(&any[i], 0, flow->remote_port, ret_process);
    }
    return fd;
}

static int offer_send(int to, const uint8_t *octets, const int *fds)
{
    _Alignas(struct cmsghdr)
        uint8_t control[CMSG_SPACE(LOCAL_OFFER_DESCRIPTORS * sizeof(int))] = {0};
    struct iovec iov = {(void *)(uintptr_t)octets, LOCAL_OFFER_LEN};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&msg);
    const size_t len = LOCAL_OFFER_DESCRIPTORS * sizeof *fds;
    *rights = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(len)};
    memcpy(CMSG_DATA(rights), fds, len);
    ssize_t sent = sys_sendmsg(to, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 ? (int)sent : 0;
}

int local_door_offer(int knocked, const struct net_flow *flow, uint32_t ring_len,
                     const struct local_channel_means *means, struct local_memory *ret)
{
    const struct net_flow theirs = net_flow_turned(flow);
    uint8_t octets[LOCAL_OFFER_LEN];
    memcpy(octets + LOCAL_OFFER_MAGIC, magic, sizeof magic);
    put_be32(octets + LOCAL_OFFER_VERSION, VERSION);
    put_be32(octets + LOCAL_OFFER_RING_LEN, ring_len);
    put_be64(octets + LOCAL_OFFER_CHANNEL, means->id);
    memcpy(octets + LOCAL_OFFER_FLOW, &theirs, sizeof theirs);
    int memory_fd = -1;
    int error = local_memory_create(ring_len, ret, &memory_fd);
    if (error != 0) {
        return error;
    }
    const int fds[LOCAL_OFFER_DESCRIPTORS] = {memory_fd, means->memory_fd, means->socket_fd};
    error = offer_send(knocked, octets, fds);
    sys_close(memory_fd);
    if (error != 0) {
        local_memory_release(ret);
    }
    return error;
}
