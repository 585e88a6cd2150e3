#include "link/datagram/names.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/sys.h"

enum { ANSWER_LEN = 32 * 1024, EVERY_STATE = -1 };

// What is looked for, and what was found.
struct search {
    const char *name;
    bool is_prefix, is_found;
    char *ret_name;
    unsigned *ret_uid;
};

static bool ask(int fd)
{
    const struct {
        struct nlmsghdr header;
        struct unix_diag_req what;
    } question = {
        .header = {.nlmsg_len = sizeof question,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .what = {.sdiag_family = AF_UNIX,
                 .udiag_states = (uint32_t)EVERY_STATE,
                 .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID},
    };
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    return sys_sendto(fd, &question, sizeof question, 0, (const struct sockaddr *)&kernel,
                      sizeof kernel) == (ssize_t)sizeof question;
}

// The name without the octet before it that makes it abstract; empty: it has another, or none.
static void name_copy(const struct rtattr *attr, char ret[DATAGRAM_NAME_LEN])
{
    const char *octets = RTA_DATA(attr);
    size_t len = RTA_PAYLOAD(attr);
    ret[0] = '\0';
    if (len > 1 && len <= DATAGRAM_NAME_LEN && octets[0] == '\0') {
        memcpy(ret, octets + 1, len - 1);
        ret[len - 1] = '\0';
    }
}

static bool is_it(const struct search *s, const char *name)
{
    return s->is_prefix ? strncmp(name, s->name, strlen(s->name)) == 0 : strcmp(name, s->name) == 0;
}

static void look_at(struct search *s, const struct nlmsghdr *socket)
{
    const struct unix_diag_msg *message = NLMSG_DATA(socket);
    unsigned len = (unsigned)(socket->nlmsg_len - NLMSG_LENGTH(sizeof *message));
    char name[DATAGRAM_NAME_LEN] = "";
    uint32_t uid = geteuid();
    for (const struct rtattr *a = (const struct rtattr *)(message + 1); RTA_OK(a, len);
         a = RTA_NEXT(a, len)) {
        if (a->rta_type == UNIX_DIAG_NAME) {
            name_copy(a, name);
        } else if (a->rta_type == UNIX_DIAG_UID && RTA_PAYLOAD(a) == sizeof uid) {
            memcpy(&uid, RTA_DATA(a), sizeof uid);
        }
    }
    if (!s->is_found && uid != geteuid() && is_it(s, name)) {
        s->is_found = true;
        *s->ret_uid = uid;
        memcpy(s->ret_name, name, sizeof name);
    }
}

// False: that was the last part of the answer.
static bool part_read(struct search *s, const void *octets, unsigned len)
{
    for (const struct nlmsghdr *m = octets; NLMSG_OK(m, len); m = NLMSG_NEXT(m, len)) {
        if (m->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
            m->nlmsg_len < NLMSG_LENGTH(sizeof(struct unix_diag_msg))) {
            return false;
        }
        look_at(s, m);
    }
    return true;
}

bool datagram_names_stranger(const char *name, bool is_prefix, char ret_name[DATAGRAM_NAME_LEN],
                             unsigned *ret_uid)
{
    struct search s = {
        .name = name, .is_prefix = is_prefix, .ret_name = ret_name, .ret_uid = ret_uid};
    _Alignas(struct nlmsghdr) char answer[ANSWER_LEN];
    const int fd = sys_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0) {
        return false;
    }
    ssize_t len = ask(fd) ? 1 : 0;
    while (len > 0) {
        len = sys_recv(fd, answer, sizeof answer, 0);
        len = len > 0 && part_read(&s, answer, (unsigned)len) ? len : 0;
    }
    sys_close(fd);
    return s.is_found;
}
