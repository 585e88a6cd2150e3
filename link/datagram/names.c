#include "link/datagram/names.h"

#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/datagram/socket_list.h"

enum { EVERY_STATE = -1 };

// What is looked for, and what was found.
struct search {
    const char *name;
    bool is_prefix, is_found;
    char *ret_name;
    unsigned *ret_uid;
};

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

static void look_at(void *ctx, const struct nlmsghdr *socket)
{
    struct search *s = ctx;
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

bool datagram_names_stranger(const char *name, bool is_prefix, char ret_name[DATAGRAM_NAME_LEN],
                             unsigned *ret_uid)
{
    const struct {
        struct nlmsghdr header;
        struct unix_diag_req what;
    } request = {
        .header = {.nlmsg_len = sizeof request,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .what = {.sdiag_family = AF_UNIX,
                 .udiag_states = (uint32_t)EVERY_STATE,
                 .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID},
    };
    struct search s = {
        .name = name, .is_prefix = is_prefix, .ret_name = ret_name, .ret_uid = ret_uid};
    socket_list_each(&request.header, sizeof(struct unix_diag_msg), look_at, &s);
    return s.is_found;
}
