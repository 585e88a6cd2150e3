// The GID table: one entry, an address of the host. An IPv4 address stands in it mapped into IPv6
// (::ffff:a.b.c.d).

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "verbs/front.h"

enum {
    GID_COUNT = 1,
    IPV4_PREFIX_LEN = 12, // octets before the IPv4 address
};

/* ---- an address of the host ------------------------------------------------------------------ */

// The one of the highest rank, and of these the first.
enum rank { RANK_NONE, RANK_IPV6_LOOPBACK, RANK_IPV4_LOOPBACK, RANK_IPV6, RANK_IPV4 };

struct host_addr {
    struct in6_addr addr;
    const char *interface;
};

static struct in6_addr mapped(struct in_addr ipv4)
{
    struct in6_addr addr = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(addr.s6_addr + IPV4_PREFIX_LEN, &ipv4, sizeof ipv4);
    return addr;
}

// A link-local address says nothing without the name of an interface, which a GID cannot hold.
static enum rank rank_of(const struct ifaddrs *ifa, struct in6_addr *ret)
{
    const bool is_loopback = (ifa->ifa_flags & IFF_LOOPBACK) != 0;
    if (ifa->ifa_addr == NULL || !(ifa->ifa_flags & IFF_UP)) {
        return RANK_NONE;
    }
    if (ifa->ifa_addr->sa_family == AF_INET) {
        *ret = mapped(((const struct sockaddr_in *)(const void *)ifa->ifa_addr)->sin_addr);
        return is_loopback ? RANK_IPV4_LOOPBACK : RANK_IPV4;
    }
    if (ifa->ifa_addr->sa_family == AF_INET6) {
        *ret = ((const struct sockaddr_in6 *)(const void *)ifa->ifa_addr)->sin6_addr;
        return IN6_IS_ADDR_LINKLOCAL(ret) ? RANK_NONE
               : is_loopback              ? RANK_IPV6_LOOPBACK
                                          : RANK_IPV6;
    }
    return RANK_NONE;
}

static struct host_addr best_of(const struct ifaddrs *list)
{
    struct host_addr best = {.addr = mapped((struct in_addr){htonl(INADDR_LOOPBACK)}),
                             .interface = "lo"};
    enum rank best_rank = RANK_NONE;
    for (; list != NULL; list = list->ifa_next) {
        struct in6_addr addr;
        enum rank rank = rank_of(list, &addr);
        if (rank > best_rank) {
            best_rank = rank;
            best = (struct host_addr){.addr = addr, .interface = list->ifa_name};
        }
    }
    return best;
}

static struct in6_addr host_addr(unsigned *ret_ifindex)
{
    struct ifaddrs *list = NULL;
    const struct host_addr best = best_of(getifaddrs(&list) == 0 ? list : NULL);
    *ret_ifindex = if_nametoindex(best.interface);
    freeifaddrs(list);
    return best.addr;
}

/* ---- GIDs of programs ------------------------------------------------------------------------ */

struct in6_addr front_gid_addr(void)
{
    unsigned ifindex;
    return host_addr(&ifindex);
}

static bool is_of_a_host(const struct in6_addr *addr)
{
    static const struct in6_addr no_ipv4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    return !IN6_IS_ADDR_UNSPECIFIED(addr) && !IN6_IS_ADDR_MULTICAST(addr) &&
           !IN6_IS_ADDR_LINKLOCAL(addr) && !IN6_ARE_ADDR_EQUAL(addr, &no_ipv4);
}

bool front_gid_parse(const union ibv_gid *gid, const struct in6_addr *own, struct in6_addr *ret)
{
    memcpy(ret, gid->raw, sizeof *ret);
    return is_of_a_host(ret) && IN6_IS_ADDR_V4MAPPED(ret) == IN6_IS_ADDR_V4MAPPED(own);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void gid_entry_fill(struct ibv_gid_entry *entry)
{
    unsigned ifindex;
    const struct in6_addr addr = host_addr(&ifindex);
    *entry = (struct ibv_gid_entry){
        .gid_index = 0,
        .port_num = FRONT_PORT_NUM,
        .gid_type = IBV_GID_TYPE_IB,
        .ndev_ifindex = ifindex,
    };
    memcpy(entry->gid.raw, &addr, sizeof addr);
}

// The structure as the program's header knew it, longer or shorter than ours.
static void gid_entry_copy(void *to, size_t to_len)
{
    struct ibv_gid_entry entry;
    gid_entry_fill(&entry);
    memset(to, 0, to_len);
    memcpy(to, &entry, to_len < sizeof entry ? to_len : sizeof entry);
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    if (flags != 0) {
        return front_fail(EOPNOTSUPP);
    }
    if (port_num != FRONT_PORT_NUM || gid_index >= GID_COUNT || entry_size == 0) {
        return front_fail(EINVAL);
    }
    gid_entry_copy(entry, entry_size);
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                             size_t max_entries, uint32_t flags, size_t entry_size)
{
    if (flags != 0) {
        return -front_fail(EOPNOTSUPP);
    }
    if (max_entries < GID_COUNT || entry_size == 0) {
        return -front_fail(EINVAL);
    }
    gid_entry_copy(entries, entry_size);
    return GID_COUNT;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
    struct ibv_gid_entry entry;
    if (index < 0 ||
        _ibv_query_gid_ex(context, port_num, (uint32_t)index, &entry, 0, sizeof entry) != 0) {
        errno = EINVAL;
        return -1;
    }
    *gid = entry.gid;
    return 0;
}

// 0 stands for InfiniBand, RoCE v1 and, as the kernel's iWARP drivers have it, iWARP.
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type)
{
    if (port_num != FRONT_PORT_NUM || index >= GID_COUNT) {
        errno = EINVAL;
        return -1;
    }
    *type = 0;
    return 0;
}
