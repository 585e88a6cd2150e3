// The GID table: addresses of the host. Those of an open device of packets are the ones that it has
// open, at places that they keep, so that between them some may be empty; one of streams has one,
// asked for anew now and then.

#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "base/port_datagram.h"
#include "verbs/front.h"
#include "verbs/versions.h"
#include "view/address.h"

enum { FLOW_LABEL_MAX = 0xfffff, IPV4_AT = 12 };

// Who makes connections by the thousand asks for each of them, and to ask the system takes a dozen
// system calls.
static const duration_ns own_addr_fresh_ns = 100 * NS_PER_MS;

/* ---- our own --------------------------------------------------------------------------------- */

static struct rnic_addr own_addr_ask(void)
{
    struct view_address own;
    view_address_find(&own);
    return (struct rnic_addr){.addr = own.addr, .interface = if_nametoindex(own.interface)};
}

// Who does not get the lock asks the system: a fork may have left it behind with another thread.
static struct rnic_addr own_addr(struct front_context *front)
{
    if (pthread_mutex_trylock(&front->own_addr_lock) != 0) {
        return own_addr_ask();
    }
    const instant_ns now = rnic_now(front->rnic);
    if (now >= front->own_addr_until_ns) {
        front->own_addr = own_addr_ask();
        front->own_addr_until_ns = instant_after(now, own_addr_fresh_ns);
    }
    const struct rnic_addr own = front->own_addr;
    pthread_mutex_unlock(&front->own_addr_lock);
    return own;
}

// As it is now.
static struct rnic_port table_of(const struct ibv_context *context)
{
    struct front_context *front = front_context_of((struct ibv_context *)context);
    struct rnic_port port = rnic_port(front->rnic);
    if (port.addr_count == 0) {
        port.addrs[port.addr_count++] = own_addr(front);
    }
    return port;
}

// False: there is no such place, or it is empty.
static bool own_find(const struct ibv_context *context, unsigned index, struct rnic_addr *ret)
{
    const struct rnic_port table = table_of(context);
    if (index >= table.addr_count || !rnic_addr_is_set(&table.addrs[index])) {
        return false;
    }
    *ret = table.addrs[index];
    return true;
}

int front_gid_find(const struct ibv_context *context, const struct in6_addr *addr)
{
    const struct rnic_port table = table_of(context);
    return rnic_port_find(&table, addr);
}

int front_gid_of_family(const struct ibv_context *context, const struct in6_addr *addr)
{
    const struct rnic_port table = table_of(context);
    for (unsigned i = 0; i < table.addr_count; i++) {
        const struct rnic_addr *own = &table.addrs[i];
        if (rnic_addr_is_set(own) &&
            IN6_IS_ADDR_V4MAPPED(&own->addr) == IN6_IS_ADDR_V4MAPPED(addr)) {
            return (int)i;
        }
    }
    return -1;
}

/* ---- GIDs of programs ------------------------------------------------------------------------ */

static bool is_of_a_host(const struct in6_addr *addr)
{
    static const struct in6_addr no_ipv4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    return !IN6_IS_ADDR_UNSPECIFIED(addr) && !IN6_IS_ADDR_MULTICAST(addr) &&
           !IN6_ARE_ADDR_EQUAL(addr, &no_ipv4);
}

// A link-local address says nothing without an interface, which our own link-local one has.
static bool may_reach(const struct in6_addr *own, const struct in6_addr *addr)
{
    return IN6_IS_ADDR_V4MAPPED(addr) == IN6_IS_ADDR_V4MAPPED(own) &&
           (!IN6_IS_ADDR_LINKLOCAL(addr) || IN6_IS_ADDR_LINKLOCAL(own));
}

static bool host_read(const union ibv_gid *gid, const struct in6_addr *own, struct in6_addr *ret)
{
    memcpy(ret, gid->raw, sizeof *ret);
    return is_of_a_host(ret) && may_reach(own, ret);
}

// An IPv4 group stands in a GID mapped like an address, or as the scoped IPv6 group
// ffXX::ffff:a.b.c.d, which programs make of it.
bool front_gid_as_group(const union ibv_gid *gid, bool is_ipv4, struct in6_addr *ret)
{
    const uint8_t *ipv4 = gid->raw + IPV4_AT;
    const bool has_ipv4 = gid->raw[10] == 0xff && gid->raw[11] == 0xff && (ipv4[0] & 0xf0) == 0xe0;
    memcpy(ret, gid->raw, sizeof *ret);
    if (!is_ipv4) {
        return IN6_IS_ADDR_MULTICAST(ret);
    }
    if (IN6_IS_ADDR_MULTICAST(ret)) {
        memset(ret, 0, IPV4_AT - 2);
    }
    return has_ipv4 && IN6_IS_ADDR_V4MAPPED(ret);
}

bool front_gid_group(const struct ibv_context *context, const union ibv_gid *gid,
                     struct in6_addr *ret)
{
    return (front_gid_as_group(gid, true, ret) && front_gid_of_family(context, ret) >= 0) ||
           (front_gid_as_group(gid, false, ret) && front_gid_of_family(context, ret) >= 0);
}

static bool way_fill(const struct ibv_context *context, const struct ibv_ah_attr *attr,
                     struct datagram_path *ret)
{
    struct rnic_addr own;
    if (!attr->is_global || attr->port_num != FRONT_PORT_NUM ||
        !own_find(context, attr->grh.sgid_index, &own)) {
        return false;
    }
    *ret = (struct datagram_path){
        .local = own.addr,
        .scope_id = own.scope_id,
        .flow_label = attr->grh.flow_label & FLOW_LABEL_MAX,
        .traffic_class = attr->grh.traffic_class,
        .hop_limit = attr->grh.hop_limit,
    };
    return true;
}

int front_path_fill(const struct ibv_context *context, const struct ibv_ah_attr *attr,
                    struct datagram_path *ret)
{
    return way_fill(context, attr, ret) && host_read(&attr->grh.dgid, &ret->local, &ret->remote)
               ? 0
               : EINVAL;
}

int front_datagram_path_fill(const struct ibv_context *context, const struct ibv_ah_attr *attr,
                             struct datagram_path *ret)
{
    return way_fill(context, attr, ret) &&
                   (front_gid_as_group(&attr->grh.dgid, IN6_IS_ADDR_V4MAPPED(&ret->local),
                                       &ret->remote) ||
                    host_read(&attr->grh.dgid, &ret->local, &ret->remote))
               ? 0
               : EINVAL;
}

/* ---- the table ------------------------------------------------------------------------------- */

// The structure as the program's header knew it, longer or shorter than ours.
static void gid_entry_copy(const struct ibv_context *context, const struct rnic_port *table,
                           unsigned index, void *to, size_t to_len)
{
    const struct rnic_addr *own = &table->addrs[index];
    struct ibv_gid_entry entry = {
        .gid_index = index,
        .port_num = FRONT_PORT_NUM,
        .gid_type = front_identity_of(context)->gid_type,
        .ndev_ifindex = own->interface,
    };
    memcpy(entry.gid.raw, &own->addr, sizeof own->addr);
    memset(to, 0, to_len);
    memcpy(to, &entry, to_len < sizeof entry ? to_len : sizeof entry);
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    if (flags != 0) {
        return front_fail(EOPNOTSUPP);
    }
    const struct rnic_port table = table_of(context);
    if (port_num != FRONT_PORT_NUM || gid_index >= table.addr_count || entry_size == 0) {
        return front_fail(EINVAL);
    }
    if (!rnic_addr_is_set(&table.addrs[gid_index])) {
        return front_fail(ENODATA);
    }
    gid_entry_copy(context, &table, gid_index, entry, entry_size);
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                             size_t max_entries, uint32_t flags, size_t entry_size)
{
    const struct rnic_port table = table_of(context);
    size_t count = 0;
    if (flags != 0) {
        return -front_fail(EOPNOTSUPP);
    }
    for (unsigned i = 0; i < table.addr_count; i++) {
        count += rnic_addr_is_set(&table.addrs[i]);
    }
    if (max_entries < count || entry_size == 0) {
        return -front_fail(EINVAL);
    }
    uint8_t *to = (uint8_t *)entries;
    for (unsigned i = 0; i < table.addr_count; i++) {
        if (rnic_addr_is_set(&table.addrs[i])) {
            gid_entry_copy(context, &table, i, to, entry_size);
            to += entry_size;
        }
    }
    return (ssize_t)count;
}

// This one says of an empty place that its GID is all zero, as rdma-core's does.
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
    struct ibv_gid_entry entry = {.gid_index = 0};
    int error =
        index < 0 ? EINVAL
                  : _ibv_query_gid_ex(context, port_num, (uint32_t)index, &entry, 0, sizeof entry);
    if (error != 0 && error != ENODATA) {
        errno = EINVAL;
        return -1;
    }
    *gid = entry.gid;
    return 0;
}

static int query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
                          int *type)
{
    if (port_num != FRONT_PORT_NUM || index >= table_of(context).addr_count) {
        errno = EINVAL;
        return -1;
    }
    *type = front_identity_of(context)->gid_type_sysfs;
    return 0;
}

VERSIONS_PRIVATE(ibv_query_gid_type, query_gid_type)
