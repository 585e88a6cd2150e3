// Who has a UDP port, as the system lists it, and where it is free.

#include "link/datagram/holder.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/why.h"
#include "link/datagram/door.h"
#include "link/datagram/share.h"
#include "link/datagram/socket_list.h"
#include "link/datagram/udp.h"
#include "link/sys.h"
#include "text/socket_row.h"

enum { LINE_LEN = 512, LOOPBACKS_MAX = 8, PROC_LOOKS = 4, EVERY_STATE = -1 };

/* ---- who has it ------------------------------------------------------------------------------ */

// Each socket of a list.
static void list_each(const char *path, void (*each)(void *ctx, const struct text_socket_row *it),
                      void *ctx)
{
    char line[LINE_LEN];
    struct text_socket_row it;
    FILE *list = fopen(path, "re");
    while (list != NULL && fgets(line, sizeof line, list) != NULL) {
        if (text_socket_row_parse(line, &it)) {
            each(ctx, &it);
        }
    }
    if (list != NULL) {
        fclose(list);
    }
}

static void all_each(void (*each)(void *ctx, const struct text_socket_row *it), void *ctx)
{
    list_each("/proc/net/udp", each, ctx);
    list_each("/proc/net/udp6", each, ctx);
}

struct search {
    const struct in6_addr *addr;
    unsigned port, uid;
    bool is_found;
    uint64_t inodes[DATAGRAM_SHARE_FDS]; // of those that are bound to just this address
    unsigned exact;
};

static void note_exact(struct search *s, uint64_t inode)
{
    unsigned i = 0;
    while (i < s->exact && s->inodes[i] != inode) {
        i++;
    }
    if (i == s->exact && s->exact < DATAGRAM_SHARE_FDS) {
        s->inodes[s->exact++] = inode;
    }
}

static void look_at(void *ctx, const struct text_socket_row *it)
{
    struct search *s = ctx;
    if (it->port != s->port || !text_socket_row_is_at(it, s->addr)) {
        return;
    }
    if (IN6_ARE_ADDR_EQUAL(&it->addr, s->addr)) {
        note_exact(s, it->inode);
    }
    s->uid = s->is_found ? s->uid : it->uid;
    s->is_found = true;
}

struct count {
    const struct in6_addr *addr;
    uint16_t port;
    bool is_ipv4;
    unsigned count;
};

static void count_one(void *ctx, const struct nlmsghdr *socket)
{
    struct count *c = ctx;
    const struct inet_diag_msg *it = NLMSG_DATA(socket);
    const void *bound = it->id.idiag_src;
    const uint8_t *wanted = c->addr->s6_addr;
    const size_t len = c->is_ipv4 ? sizeof(struct in_addr) : sizeof *c->addr;
    c->count += it->id.idiag_sport == htons(c->port) &&
                memcmp(bound, wanted + sizeof *c->addr - len, len) == 0;
}

// Of one family; false: the system does not list them so.
static bool count_listed(const struct in6_addr *addr, uint16_t port, unsigned *ret_count)
{
    const bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(addr);
    const struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 what;
    } request = {
        .header = {.nlmsg_len = sizeof request,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .what = {.sdiag_family = is_ipv4 ? AF_INET : AF_INET6,
                 .sdiag_protocol = IPPROTO_UDP,
                 .idiag_states = (uint32_t)EVERY_STATE,
                 .id.idiag_sport = htons(port)},
    };
    struct count c = {.addr = addr, .port = port, .is_ipv4 = is_ipv4};
    if (!socket_list_each(&request.header, sizeof(struct inet_diag_msg), count_one, &c)) {
        return false;
    }
    *ret_count = c.count;
    return true;
}

// A page leaves out what another's going has moved to the one before, or has it again: so what is
// seen in any of several looks is counted once.
static unsigned count_shown(const struct in6_addr *addr, uint16_t port)
{
    struct search s = {.addr = addr, .port = port};
    for (unsigned i = 0; i < PROC_LOOKS; i++) {
        all_each(look_at, &s);
    }
    return s.exact;
}

unsigned datagram_port_sockets(const struct in6_addr *addr, uint16_t port)
{
    unsigned count;
    return count_listed(addr, port, &count) ? count : count_shown(addr, port);
}

/* ---- where it is free ------------------------------------------------------------------------ */

static bool is_free(const struct in6_addr *addr, uint16_t port)
{
    struct sockaddr_storage name;
    int fd = datagram_socket(addr);
    socklen_t len = datagram_sockaddr(addr, 0, port, &name);
    bool it_is = fd >= 0 && sys_bind(fd, (const struct sockaddr *)&name, len) == 0;
    if (fd >= 0) {
        sys_close(fd);
    }
    return it_is;
}

static bool free_of_interfaces(uint16_t port, struct in6_addr *ret)
{
    struct ifaddrs *list = NULL;
    bool is_found = false;
    if (getifaddrs(&list) != 0) {
        return false;
    }
    for (const struct ifaddrs *i = list; i != NULL && !is_found; i = i->ifa_next) {
        if (i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET) {
            struct sockaddr_storage name = {0};
            uint32_t scope_id;
            uint16_t none;
            memcpy(&name, i->ifa_addr, sizeof(struct sockaddr_in));
            datagram_addr(&name, ret, &scope_id, &none);
            is_found = is_free(ret, port);
        }
    }
    freeifaddrs(list);
    return is_found;
}

// All of 127.0.0.0/8 is of this host.
static bool free_of_loopback(uint16_t port, struct in6_addr *ret)
{
    for (uint32_t i = 0; i < LOOPBACKS_MAX; i++) {
        uint32_t addr = htonl(INADDR_LOOPBACK + i);
        *ret = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
        memcpy(ret->s6_addr + sizeof *ret - sizeof addr, &addr, sizeof addr);
        if (is_free(ret, port)) {
            return true;
        }
    }
    return false;
}

/* ---- in words -------------------------------------------------------------------------------- */

static const char *addr_format(const struct in6_addr *addr, char *buf, socklen_t len)
{
    bool is_ipv4 = IN6_IS_ADDR_V4MAPPED(addr);
    const uint8_t *octets = addr->s6_addr + (is_ipv4 ? sizeof *addr - sizeof(struct in_addr) : 0);
    return inet_ntop(is_ipv4 ? AF_INET : AF_INET6, octets, buf, len);
}

static const char *who_it_is(unsigned uid)
{
    if (uid == geteuid()) {
        return ", which is you: a program that does not share it, or that does not answer";
    }
    return uid == 0 && access("/sys/module/rdma_rxe", F_OK) == 0 ? ", perhaps the kernel's rxe"
                                                                 : "";
}

void datagram_udp_holder(const struct in6_addr *addr, uint16_t port, struct why *ret)
{
    char held[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN], advice[INET6_ADDRSTRLEN + 32] = "";
    struct in6_addr free_addr;
    struct search s = {.addr = addr};
    port = port != 0 ? port : DATAGRAM_UDP_PORT;
    addr_format(addr, held, sizeof held);
    if (free_of_interfaces(port, &free_addr) || free_of_loopback(port, &free_addr)) {
        snprintf(advice, sizeof advice, "; %s is free",
                 addr_format(&free_addr, other, sizeof other));
    }
    s.port = port;
    all_each(look_at, &s);
    if (s.is_found) {
        why_say(ret, "UDP port %u at %s is held by user %u%s%s", port, held, s.uid,
                who_it_is(s.uid), advice);
    } else {
        why_say(ret, "UDP port %u at %s is held by somebody that the system does not list%s", port,
                held, advice);
    }
}

bool datagram_udp_stranger(uint16_t port, struct why *ret)
{
    return datagram_share_stranger(port != 0 ? port : DATAGRAM_UDP_PORT, ret);
}
