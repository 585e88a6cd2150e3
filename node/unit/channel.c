#include "node/unit/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union ancillary {
    struct cmsghdr header;
    char octets[CMSG_SPACE(sizeof(int))];
};

int channel_pair(int ret_fds[2])
{
    int type = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
    return socketpair(AF_UNIX, type, 0, ret_fds) == 0 ? 0 : -errno;
}

int channel_send(int fd, const struct unit_message *message, int keepsake)
{
    union ancillary ancillary = {.octets = {0}};
    struct iovec iov = {.iov_base = (void *)message, .iov_len = sizeof *message};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    if (keepsake >= 0) {
        header.msg_control = ancillary.octets;
        header.msg_controllen = sizeof ancillary.octets;
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof keepsake);
        memcpy(CMSG_DATA(c), &keepsake, sizeof keepsake);
    }
    ssize_t sent = sendmsg(fd, &header, MSG_NOSIGNAL);
    if (sent < 0) {
        return -errno;
    }
    return (size_t)sent == sizeof *message ? 0 : -EMSGSIZE;
}

static int descriptor_in(struct msghdr *header)
{
    int fd = -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(header);
    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof fd)) {
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    }
    return fd;
}

int channel_receive(int fd, struct unit_message *ret, int *ret_keepsake)
{
    union ancillary ancillary;
    struct iovec iov = {.iov_base = ret, .iov_len = sizeof *ret};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = ancillary.octets,
                            .msg_controllen = sizeof ancillary.octets};
    ssize_t got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
    if (got < 0) {
        return errno == ECONNRESET ? 0 : -errno;
    }
    *ret_keepsake = descriptor_in(&header);
    if (got == 0) {
        return 0;
    }
    if ((size_t)got != sizeof *ret || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        if (*ret_keepsake >= 0) {
            close(*ret_keepsake);
        }
        return -EPROTO;
    }
    // Texts of another process are ended here, whatever it sent.
    ret->why[sizeof ret->why - 1] = '\0';
    if (ret->kind == UNIT_OPEN) {
        ret->uri[sizeof ret->uri - 1] = '\0';
    }
    return 1;
}
