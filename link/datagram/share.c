#include "link/datagram/share.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/span.h"
#include "link/datagram/names.h"
#include "link/sys.h"

// What stands before a message's octets; both ends are of one host and one build.
struct share_header {
    uint32_t magic; // of this layout
    uint32_t kind;
    struct in6_addr local, remote; // ASK, GIVE, NONE: `local` alone
    uint32_t scope_id;
    uint32_t first, count; // ASK, GIVE
    uint32_t flow_label;
    uint16_t source_port;
    uint8_t traffic_class, hop_limit;
    uint8_t is_checked;
};
enum { SHARE_MAGIC = 0x77656604 };

/* ---- names ----------------------------------------------------------------------------------- */

static socklen_t name_make(const struct datagram_share *s, const char *what,
                           struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "weft-roce.%u.%u.%s",
                       (unsigned)s->uid, s->port, what);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static socklen_t slot_name(const struct datagram_share *s, unsigned slot, struct sockaddr_un *ret)
{
    char number[16];
    snprintf(number, sizeof number, "%u", slot);
    return name_make(s, number, ret);
}

// DATAGRAM_SHARE_SLOTS: it is no slot's.
static unsigned slot_of_name(const struct datagram_share *s, const struct sockaddr_un *name,
                             socklen_t len)
{
    struct sockaddr_un it;
    for (unsigned slot = 0; slot < DATAGRAM_SHARE_SLOTS; slot++) {
        if (slot_name(s, slot, &it) == len && memcmp(&it, name, len) == 0) {
            return slot;
        }
    }
    return DATAGRAM_SHARE_SLOTS;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static int slot_claim(struct datagram_share *s)
{
    struct sockaddr_un name;
    for (s->slot = 0; s->slot < DATAGRAM_SHARE_SLOTS; s->slot++) {
        socklen_t len = slot_name(s, s->slot, &name);
        int error = sys_bind(s->fd, (const struct sockaddr *)&name, len);
        if (error != -EADDRINUSE) {
            return error;
        }
    }
    return -EUSERS;
}

int datagram_share_init(struct datagram_share *s, uint16_t port)
{
    *s = (struct datagram_share){.uid = geteuid(), .port = port};
    s->fd = sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0) {
        return s->fd;
    }
    int error = sys_setsockopt_int(s->fd, SOL_SOCKET, SO_PASSCRED, 1);
    if (error == 0) {
        error = slot_claim(s);
    }
    if (error != 0) {
        datagram_share_fini(s);
    }
    return error;
}

void datagram_share_fini(struct datagram_share *s)
{
    if (s->fd >= 0) {
        sys_close(s->fd);
    }
    s->fd = -1;
}

int datagram_share_lock(const struct datagram_share *s)
{
    struct sockaddr_un name;
    socklen_t len = name_make(s, "making", &name);
    int fd = sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return fd;
    }
    int error = sys_bind(fd, (const struct sockaddr *)&name, len);
    if (error != 0) {
        sys_close(fd);
        return error == -EADDRINUSE ? -EAGAIN : error;
    }
    return fd;
}

// It is taken, but by nobody of ours: it says nothing of us.
static bool is_of_stranger(const struct sockaddr_un *name)
{
    char found[DATAGRAM_NAME_LEN];
    unsigned uid;
    return datagram_names_stranger(name->sun_path + 1, false, found, &uid);
}

bool datagram_share_is_locked_out(const struct datagram_share *s)
{
    struct sockaddr_un name;
    name_make(s, "making", &name);
    return is_of_stranger(&name);
}

bool datagram_share_stranger(uint16_t port, struct why *ret)
{
    char prefix[32], name[DATAGRAM_NAME_LEN];
    unsigned uid;
    snprintf(prefix, sizeof prefix, "weft-roce.%u.%u.", (unsigned)geteuid(), port);
    if (!datagram_names_stranger(prefix, true, name, &uid)) {
        return false;
    }
    why_say(ret, "the name %s, by which your processes share UDP port %u, is held by user %u", name,
            port, uid);
    return true;
}

/* ---- services -------------------------------------------------------------------------------- */

static socklen_t service_name(const struct datagram_share *s, uint64_t service,
                              const struct in6_addr *local, struct sockaddr_un *ret)
{
    char what[16 + 1 + INET6_ADDRSTRLEN + sizeof "serves."], addr[INET6_ADDRSTRLEN];
    inet_ntop(AF_INET6, local, addr, sizeof addr);
    snprintf(what, sizeof what, "serves.%llx.%s", (unsigned long long)service, addr);
    return name_make(s, what, ret);
}

int datagram_share_serve(const struct datagram_share *s, uint64_t service,
                         const struct in6_addr *local)
{
    struct sockaddr_un name;
    const socklen_t len = service_name(s, service, local, &name);
    const int fd = sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return fd;
    }
    const int error = sys_bind(fd, (const struct sockaddr *)&name, len);
    if (error == 0) {
        return fd;
    }
    sys_close(fd);
    return error == -EADDRINUSE && is_of_stranger(&name) ? -EPERM : error;
}

bool datagram_share_is_served(const struct datagram_share *s, uint64_t service,
                              const struct in6_addr *local)
{
    struct sockaddr_un name;
    const socklen_t len = service_name(s, service, local, &name);
    const int fd = sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return true;
    }
    const int error = sys_connect(fd, (const struct sockaddr *)&name, len);
    sys_close(fd);
    return error != -ECONNREFUSED && !is_of_stranger(&name);
}

/* ---- messages -------------------------------------------------------------------------------- */

static int message_send(const struct datagram_share *s, unsigned slot,
                        const struct share_header *header, struct span octets, const int *fds,
                        unsigned fd_count)
{
    union {
        struct cmsghdr header;
        uint8_t octets[CMSG_SPACE(sizeof(int) * DATAGRAM_SHARE_FDS)];
    } control = {.octets = {0}}; // what fills it up is said, too
    struct sockaddr_un name;
    struct iovec iov[] = {{(void *)header, sizeof *header}, {(void *)octets.ptr, octets.len}};
    struct msghdr msg = {.msg_name = &name,
                         .msg_namelen = slot_name(s, slot, &name),
                         .msg_iov = iov,
                         .msg_iovlen = 2};
    if (fd_count > 0) {
        control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS,
                                          .cmsg_len = CMSG_LEN(fd_count * sizeof *fds)};
        memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof *fds);
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(fd_count * sizeof *fds);
    }
    ssize_t len = sys_sendmsg(s->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    return len < 0 ? (int)len : 0;
}

int datagram_share_ask(const struct datagram_share *s, unsigned slot, const struct in6_addr *addr,
                       uint32_t scope_id, unsigned has)
{
    struct share_header header = {.magic = SHARE_MAGIC,
                                  .kind = DATAGRAM_SHARE_ASK,
                                  .local = *addr,
                                  .scope_id = scope_id,
                                  .first = has};
    return message_send(s, slot, &header, span_of(NULL, 0), NULL, 0);
}

int datagram_share_give(const struct datagram_share *s, unsigned slot, const struct in6_addr *addr,
                        uint32_t scope_id, unsigned first, const int *fds, unsigned count)
{
    struct share_header header = {.magic = SHARE_MAGIC,
                                  .kind = count > 0 ? DATAGRAM_SHARE_GIVE : DATAGRAM_SHARE_NONE,
                                  .local = *addr,
                                  .scope_id = scope_id,
                                  .first = first,
                                  .count = count};
    return message_send(s, slot, &header, span_of(NULL, 0), fds, count);
}

int datagram_share_come(const struct datagram_share *s, unsigned slot)
{
    const struct share_header header = {.magic = SHARE_MAGIC, .kind = DATAGRAM_SHARE_HERE};
    return message_send(s, slot, &header, span_of(NULL, 0), NULL, 0);
}

int datagram_share_show(const struct datagram_share *s, unsigned slot,
                        const int fds[DATAGRAM_SHARE_WILL_FDS])
{
    const struct share_header header = {.magic = SHARE_MAGIC, .kind = DATAGRAM_SHARE_WILL};
    return message_send(s, slot, &header, span_of(NULL, 0), fds, DATAGRAM_SHARE_WILL_FDS);
}

int datagram_share_lane(const struct datagram_share *s, unsigned slot, unsigned layout,
                        unsigned offer, const int fds[DATAGRAM_SHARE_LANE_FDS])
{
    const struct share_header header = {
        .magic = SHARE_MAGIC, .kind = DATAGRAM_SHARE_LANE, .first = offer, .count = layout};
    return message_send(s, slot, &header, span_of(NULL, 0), fds, DATAGRAM_SHARE_LANE_FDS);
}

int datagram_share_taken(const struct datagram_share *s, unsigned slot, unsigned offer)
{
    const struct share_header header = {
        .magic = SHARE_MAGIC, .kind = DATAGRAM_SHARE_TAKEN, .first = offer};
    return message_send(s, slot, &header, span_of(NULL, 0), NULL, 0);
}

int datagram_share_hand_on(const struct datagram_share *s, unsigned slot,
                           const struct datagram_rx *rx)
{
    struct share_header header = {.magic = SHARE_MAGIC,
                                  .kind = DATAGRAM_SHARE_PACKET,
                                  .local = rx->local,
                                  .remote = rx->remote,
                                  .scope_id = rx->scope_id,
                                  .flow_label = rx->flow_label,
                                  .source_port = rx->source_port,
                                  .traffic_class = rx->traffic_class,
                                  .hop_limit = rx->hop_limit,
                                  .is_checked = rx->is_checked};
    return message_send(s, slot, &header, rx->octets, NULL, 0);
}

// What came beside the octets: descriptors, and from which user.
struct share_control {
    int fds[DATAGRAM_SHARE_FDS];
    unsigned fd_count;
    uid_t uid;
    pid_t process;
};

// The kernel gives as many descriptors as there is room for, what aligns the room included.
STATIC_CHECK(CMSG_SPACE(sizeof(int) * DATAGRAM_SHARE_FDS) ==
             CMSG_LEN(sizeof(int) * DATAGRAM_SHARE_FDS));

static void control_read(struct msghdr *msg, struct share_control *ret)
{
    *ret = (struct share_control){.uid = (uid_t)-1};
    for (struct cmsghdr *at = CMSG_FIRSTHDR(msg); at != NULL; at = CMSG_NXTHDR(msg, at)) {
        if (at->cmsg_level != SOL_SOCKET) {
            continue;
        }
        if (at->cmsg_type == SCM_CREDENTIALS) {
            struct ucred from;
            memcpy(&from, CMSG_DATA(at), sizeof from);
            ret->uid = from.uid;
            ret->process = from.pid;
        } else if (at->cmsg_type == SCM_RIGHTS) {
            ret->fd_count = (unsigned)((at->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            memcpy(ret->fds, CMSG_DATA(at), ret->fd_count * sizeof(int));
        }
    }
}

static void control_close(const struct share_control *control)
{
    for (unsigned i = 0; i < control->fd_count; i++) {
        sys_close(control->fds[i]);
    }
}

static bool message_read(const struct share_header *header, size_t len,
                         struct datagram_share_message *ret)
{
    if (header->magic != SHARE_MAGIC) {
        return false;
    }
    ret->kind = header->kind;
    ret->addr = header->local;
    ret->scope_id = header->scope_id;
    ret->first = header->first;
    ret->count = header->count;
    ret->rx = (struct datagram_rx){.local = header->local,
                                   .remote = header->remote,
                                   .scope_id = header->scope_id,
                                   .flow_label = header->flow_label,
                                   .source_port = header->source_port,
                                   .traffic_class = header->traffic_class,
                                   .hop_limit = header->hop_limit,
                                   .is_checked = header->is_checked,
                                   .is_copy = true,
                                   .octets = span_of(ret->buffer, len)};
    return header->kind >= DATAGRAM_SHARE_ASK && header->kind <= DATAGRAM_SHARE_TAKEN;
}

static void message_take(struct datagram_share *s, struct datagram_share_message *ret)
{
    union {
        struct cmsghdr header;
        uint8_t
            octets[CMSG_SPACE(sizeof(int) * DATAGRAM_SHARE_FDS) + CMSG_SPACE(sizeof(struct ucred))];
    } room;
    struct share_header header;
    struct share_control control;
    struct sockaddr_un name;
    struct iovec iov[] = {{&header, sizeof header}, {ret->buffer, sizeof ret->buffer}};
    struct msghdr msg = {.msg_name = &name,
                         .msg_namelen = sizeof name,
                         .msg_iov = iov,
                         .msg_iovlen = 2,
                         .msg_control = &room,
                         .msg_controllen = sizeof room};
    ssize_t len = sys_recvmsg(s->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (len < 0) {
        return;
    }
    control_read(&msg, &control);
    ret->from = slot_of_name(s, &name, msg.msg_namelen);
    ret->process = control.process;
    if (control.uid != s->uid || ret->from == DATAGRAM_SHARE_SLOTS || (size_t)len < sizeof header ||
        (msg.msg_flags & MSG_TRUNC) != 0 ||
        !message_read(&header, (size_t)len - sizeof header, ret)) {
        s->strangers++;
        ret->kind = DATAGRAM_SHARE_DROPPED;
    }
    const bool has_fds = ret->kind == DATAGRAM_SHARE_GIVE || ret->kind == DATAGRAM_SHARE_WILL ||
                         ret->kind == DATAGRAM_SHARE_LANE;
    if (has_fds && ret->fds != NULL) {
        memcpy(ret->fds, control.fds, control.fd_count * sizeof(int));
        ret->fd_count = control.fd_count;
    } else {
        control_close(&control);
    }
}

void datagram_share_receive(struct datagram_share *s, duration_ns timeout_ns,
                            struct datagram_share_message *ret)
{
    datagram_share_await(s, &timeout_ns, ret);
}

void datagram_share_await(struct datagram_share *s, duration_ns *left_ns,
                          struct datagram_share_message *ret)
{
    ret->kind = DATAGRAM_SHARE_NOTHING;
    ret->fd_count = 0;
    if (*left_ns == 0 || sys_wait_in_left(s->fd, left_ns)) {
        message_take(s, ret);
    }
}
