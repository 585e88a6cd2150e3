#include "link/datagram/socket_list.h"

#include <linux/sock_diag.h>
#include <sys/socket.h>

#include "link/sys.h"

enum { ANSWER_LEN = 32 * 1024 };

enum list_state { LIST_GOES_ON, LIST_IS_OVER, LIST_IS_REFUSED };

struct list {
    size_t socket_len;
    void (*each)(void *ctx, const struct nlmsghdr *socket);
    void *ctx;
};

static bool ask(int fd, const struct nlmsghdr *request)
{
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    return sys_sendto(fd, request, request->nlmsg_len, 0, (const struct sockaddr *)&kernel,
                      sizeof kernel) == (ssize_t)request->nlmsg_len;
}

static enum list_state part_read(const struct list *list, const void *octets, unsigned len)
{
    for (const struct nlmsghdr *m = octets; NLMSG_OK(m, len); m = NLMSG_NEXT(m, len)) {
        if (m->nlmsg_type == NLMSG_DONE) {
            return LIST_IS_OVER;
        }
        if (m->nlmsg_type != SOCK_DIAG_BY_FAMILY || m->nlmsg_len < NLMSG_LENGTH(list->socket_len)) {
            return LIST_IS_REFUSED;
        }
        list->each(list->ctx, m);
    }
    return LIST_GOES_ON;
}

bool socket_list_each(const struct nlmsghdr *request, size_t socket_len,
                      void (*each)(void *ctx, const struct nlmsghdr *socket), void *ctx)
{
    const struct list list = {.socket_len = socket_len, .each = each, .ctx = ctx};
    _Alignas(struct nlmsghdr) char answer[ANSWER_LEN];
    const int fd = sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0) {
        return false;
    }
    enum list_state state = ask(fd, request) ? LIST_GOES_ON : LIST_IS_REFUSED;
    while (state == LIST_GOES_ON) {
        const ssize_t len = sys_recv(fd, answer, sizeof answer, 0);
        state = len > 0 ? part_read(&list, answer, (unsigned)len) : LIST_IS_REFUSED;
    }
    sys_close(fd);
    return state == LIST_IS_OVER;
}
