// The GID table: one entry, the host's IPv4 address mapped into IPv6 (::ffff:a.b.c.d).

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "verbs/front.h"

enum {
    GID_COUNT = 1,
    GID_PREFIX_LEN = 12, // octets before the IPv4 address
};

static const struct ifaddrs *first_outward(const struct ifaddrs *list)
{
    for (; list != NULL; list = list->ifa_next) {
        if (list->ifa_addr != NULL && list->ifa_addr->sa_family == AF_INET &&
            (list->ifa_flags & IFF_UP) && !(list->ifa_flags & IFF_LOOPBACK)) {
            return list;
        }
    }
    return NULL;
}

static struct in_addr host_addr(unsigned *ret_ifindex)
{
    struct in_addr addr = {.s_addr = htonl(INADDR_LOOPBACK)};
    const char *name = "lo";
    struct ifaddrs *list = NULL;
    const struct ifaddrs *outward = getifaddrs(&list) == 0 ? first_outward(list) : NULL;
    if (outward != NULL) {
        addr = ((const struct sockaddr_in *)(const void *)outward->ifa_addr)->sin_addr;
        name = outward->ifa_name;
    }
    *ret_ifindex = if_nametoindex(name);
    freeifaddrs(list);
    return addr;
}

struct in_addr front_gid_addr(void)
{
    unsigned ifindex;
    return host_addr(&ifindex);
}

bool front_gid_parse(const union ibv_gid *gid, struct in_addr *ret)
{
    static const uint8_t prefix[GID_PREFIX_LEN] = {[10] = 0xff, [11] = 0xff};
    memcpy(ret, gid->raw + GID_PREFIX_LEN, sizeof *ret);
    return memcmp(gid->raw, prefix, sizeof prefix) == 0 && ret->s_addr != 0;
}

static void gid_entry_fill(struct ibv_gid_entry *entry)
{
    unsigned ifindex;
    const struct in_addr addr = host_addr(&ifindex);
    *entry = (struct ibv_gid_entry){
        .gid_index = 0,
        .port_num = FRONT_PORT_NUM,
        .gid_type = IBV_GID_TYPE_IB,
        .ndev_ifindex = ifindex,
    };
    entry->gid.raw[10] = 0xff;
    entry->gid.raw[11] = 0xff;
    memcpy(entry->gid.raw + GID_PREFIX_LEN, &addr, sizeof addr);
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
