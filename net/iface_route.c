// An interface's addresses, and which way is to others.

#include "net/addr.h"
#include "net/iface_internal.h"
#include "wire/ip.h"

bool iface_is_no_host(const struct net_iface *iface, const struct net_addr *remote)
{
    for (unsigned i = 0; i < iface->config.addr_count; i++) {
        const struct net_iface_addr *own = &iface->config.addrs[i];
        if (net_addr_is_broadcast(remote, &own->addr, own->prefix_len)) {
            return true;
        }
    }
    return net_addr_is_any(remote) || net_addr_is_multicast(remote);
}

static const struct net_addr *gateway_for(const struct net_iface *iface,
                                          const struct net_addr *remote)
{
    const struct net_addr *gateway =
        net_addr_is_ipv4(remote) ? &iface->config.gateway_ipv4 : &iface->config.gateway_ipv6;
    return net_addr_is_any(gateway) ? NULL : gateway;
}

// The address of ours whose network `remote` is in; of several the smallest. NULL: in none.
static const struct net_addr *on_link_source(const struct net_iface *iface,
                                             const struct net_addr *remote)
{
    const struct net_iface_addr *best = NULL;
    for (unsigned i = 0; i < iface->config.addr_count; i++) {
        const struct net_iface_addr *a = &iface->config.addrs[i];
        if (net_addr_has_prefix(remote, &a->addr, a->prefix_len) &&
            (best == NULL || a->prefix_len > best->prefix_len)) {
            best = a;
        }
    }
    return best == NULL ? NULL : &best->addr;
}

bool iface_is_solicited_node(const struct net_iface *iface, const struct net_addr *group)
{
    for (unsigned i = 0; i < iface->config.addr_count; i++) {
        const struct net_addr *own = &iface->config.addrs[i].addr;
        const struct net_addr theirs = iface_solicited_node(own);
        if (!net_addr_is_ipv4(own) && net_addr_equal(group, &theirs)) {
            return true;
        }
    }
    return false;
}

bool iface_is_on_link(const struct net_iface *iface, const struct net_addr *remote)
{
    return on_link_source(iface, remote) != NULL;
}

bool iface_next_hop(const struct net_iface *iface, const struct net_addr *remote,
                    struct net_addr *ret)
{
    const struct net_addr *gateway = gateway_for(iface, remote);
    bool is_on_link = iface_is_on_link(iface, remote);
    if (is_on_link || gateway != NULL) {
        *ret = is_on_link ? *remote : *gateway;
    }
    return is_on_link || gateway != NULL;
}

bool net_iface_route(const struct net_iface *iface, const struct net_addr *remote,
                     struct net_addr *ret_local)
{
    struct net_addr hop;
    if (iface_is_no_host(iface, remote) || net_iface_has_addr(iface, remote) ||
        !iface_next_hop(iface, remote, &hop)) {
        return false;
    }
    const struct net_addr *source = on_link_source(iface, &hop);
    if (source != NULL) {
        *ret_local = *source;
    }
    return source != NULL;
}

uint32_t net_iface_segment_len_max(const struct net_iface *iface, const struct net_addr *remote)
{
    return iface->config.mtu - (net_addr_is_ipv4(remote) ? IPV4_HEADER_LEN : IPV6_HEADER_LEN);
}
