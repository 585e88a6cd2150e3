// The GID table: one entry, an address of the host.

#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "base/port_datagram.h"
#include "verbs/front.h"
#include "view/address.h"

enum { GID_COUNT = 1, FLOW_LABEL_MAX = 0xfffff, IPV4_AT = 12 };

/* ---- GIDs of programs ------------------------------------------------------------------------ */

static void own_find(const struct ibv_context *context, struct view_address *ret)
{
    const struct rnic_port *port = rnic_port(front_context_of((struct ibv_context *)context)->rnic);
    if (port->addr_count > 0) {
        view_address_of(&port->addrs[0].addr, ret);
    } else {
        view_address_find(ret);
    }
}

struct in6_addr front_gid_addr(const struct ibv_context *context)
{
    struct view_address own;
    own_find(context, &own);
    return own.addr;
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

// An IPv4 group stands in a GID mapped like an address, or as the scoped IPv6 group
// ffXX::ffff:a.b.c.d, which programs make of it.
bool front_gid_group(const union ibv_gid *gid, const struct in6_addr *own, struct in6_addr *ret)
{
    const uint8_t *ipv4 = gid->raw + IPV4_AT;
    const bool has_ipv4 = gid->raw[10] == 0xff && gid->raw[11] == 0xff && (ipv4[0] & 0xf0) == 0xe0;
    memcpy(ret, gid->raw, sizeof *ret);
    if (!IN6_IS_ADDR_V4MAPPED(own)) {
        return IN6_IS_ADDR_MULTICAST(ret);
    }
    if (IN6_IS_ADDR_MULTICAST(ret)) {
        memset(ret, 0, IPV4_AT - 2);
    }
    return has_ipv4 && IN6_IS_ADDR_V4MAPPED(ret);
}

static bool way_fill(const struct ibv_context *context, const struct ibv_ah_attr *attr,
                     struct datagram_path *ret)
{
    *ret = (struct datagram_path){
        .local = front_gid_addr(context),
        .flow_label = attr->grh.flow_label & FLOW_LABEL_MAX,
        .traffic_class = attr->grh.traffic_class,
        .hop_limit = attr->grh.hop_limit,
    };
    return attr->is_global && attr->port_num == FRONT_PORT_NUM && attr->grh.sgid_index < GID_COUNT;
}

int front_path_fill(const struct ibv_context *context, const struct ibv_ah_attr *attr,
                    struct datagram_path *ret)
{
    return way_fill(context, attr, ret) &&
                   front_gid_parse(&attr->grh.dgid, &ret->local, &ret->remote)
               ? 0
               : EINVAL;
}

int front_datagram_path_fill(const struct ibv_context *context, const struct ibv_ah_attr *attr,
                             struct datagram_path *ret)
{
    return way_fill(context, attr, ret) &&
                   (front_gid_group(&attr->grh.dgid, &ret->local, &ret->remote) ||
                    front_gid_parse(&attr->grh.dgid, &ret->local, &ret->remote))
               ? 0
               : EINVAL;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void gid_entry_fill(const struct ibv_context *context, struct ibv_gid_entry *entry)
{
    struct view_address own;
    own_find(context, &own);
    *entry = (struct ibv_gid_entry){
        .gid_index = 0,
        .port_num = FRONT_PORT_NUM,
        .gid_type = front_identity_of(context)->gid_type,
        .ndev_ifindex = if_nametoindex(own.interface),
    };
    memcpy(entry->gid.raw, &own.addr, sizeof own.addr);
}

// The structure as the program's header knew it, longer or shorter than ours.
static void gid_entry_copy(const struct ibv_context *context, void *to, size_t to_len)
{
    struct ibv_gid_entry entry;
    gid_entry_fill(context, &entry);
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
    gid_entry_copy(context, entry, entry_size);
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
    gid_entry_copy(context, entries, entry_size);
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

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type)
{
    if (port_num != FRONT_PORT_NUM || index >= GID_COUNT) {
        errno = EINVAL;
        return -1;
    }
    *type = front_identity_of(context)->gid_type_sysfs;
    return 0;
}
