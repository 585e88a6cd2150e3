// The multicast groups of the UDP datagram link.

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "link/datagram/door.h"
#include "link/datagram/udp_link.h"
#include "link/sys.h"

enum { IPV4_OFF_IN_MAPPED = 12 };

static struct datagram_group *group_find(const struct datagram_udp *d, const struct in6_addr *group,
                                         const struct in6_addr *local)
{
    for (struct list_link *l = d->groups.next; l != &d->groups; l = l->next) {
        struct datagram_group *g = LIST_ENTRY(l, struct datagram_group, link);
        if (datagram_addr_is(&g->inlet.local, group) && datagram_addr_is(&g->local, local)) {
            return g;
        }
    }
    return NULL;
}

// Of the interface that has the address; 0: there is none.
static unsigned index_of_addr(const struct in6_addr *addr)
{
    struct ifaddrs *list = NULL;
    unsigned index = 0;
    if (getifaddrs(&list) != 0) {
        return 0;
    }
    for (const struct ifaddrs *i = list; i != NULL && index == 0; i = i->ifa_next) {
        if (i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET6) {
            struct sockaddr_in6 in6;
            memcpy(&in6, i->ifa_addr, sizeof in6);
            index = datagram_addr_is(&in6.sin6_addr, addr) ? if_nametoindex(i->ifa_name) : 0;
        }
    }
    freeifaddrs(list);
    return index;
}

// An IPv6 group lives on an interface, whose address need not tell which; an IPv4 one is joined by
// the address.
static uint32_t interface_of(const struct in6_addr *local, uint32_t scope_id)
{
    return scope_id != 0 || IN6_IS_ADDR_V4MAPPED(local) ? scope_id : index_of_addr(local);
}

static int membership_add(int fd, const struct in6_addr *group, const struct in6_addr *local,
                          uint32_t interface)
{
    if (IN6_IS_ADDR_V4MAPPED(group)) {
        struct ip_mreq request;
        memcpy(&request.imr_multiaddr, group->s6_addr + IPV4_OFF_IN_MAPPED,
               sizeof request.imr_multiaddr);
        memcpy(&request.imr_interface, local->s6_addr + IPV4_OFF_IN_MAPPED,
               sizeof request.imr_interface);
        return sys_setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
    }
    struct ipv6_mreq request = {.ipv6mr_multiaddr = *group, .ipv6mr_interface = interface};
    return sys_setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request);
}

// A socket that is bound to the group receives what is sent to that alone, as every other does that
// is: here nothing is steered.
static int group_open(struct datagram_udp *d, struct datagram_group *g,
                      const struct in6_addr *group, uint32_t interface)
{
    struct sockaddr_storage name;
    datagram_inlet_init(&g->inlet, DATAGRAM_INLET_GROUP, datagram_socket(group), group);
    if (g->inlet.fd < 0) {
        return g->inlet.fd;
    }
    int error = sys_setsockopt_int(g->inlet.fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (error == 0) {
        socklen_t len = datagram_sockaddr(group, interface, d->config.port, &name);
        error = sys_bind(g->inlet.fd, (const struct sockaddr *)&name, len);
    }
    if (error == 0) {
        error = membership_add(g->inlet.fd, group, &g->local, interface);
    }
    datagram_door_enter(g->inlet.fd, d->config.rcvbuf_len);
    return error == 0 ? datagram_inlet_watch(d, &g->inlet) : error;
}

void datagram_group_free(struct datagram_udp *d, struct datagram_group *g)
{
    datagram_inlet_forget(d, &g->inlet);
    if (g->inlet.fd >= 0) {
        sys_close(g->inlet.fd);
    }
    list_remove(&g->link);
    free(g);
}

int datagram_udp_join(struct datagram_link *link, const struct in6_addr *group,
                      const struct in6_addr *local, uint32_t scope_id)
{
    struct datagram_udp *d = datagram_udp_of(link);
    struct datagram_group *g = group_find(d, group, local);
    if (g != NULL) {
        g->joined++;
        return 0;
    }
    if (datagram_place_find(d, local) == NULL) {
        return -EADDRNOTAVAIL;
    }
    g = calloc(1, sizeof *g);
    if (g == NULL) {
        return -ENOMEM;
    }
    g->local = *local;
    list_push_tail(&d->groups, &g->link);
    int error = group_open(d, g, group, interface_of(local, scope_id));
    if (error != 0) {
        datagram_group_free(d, g);
        return error;
    }
    g->joined = 1;
    return 0;
}

void datagram_udp_leave(struct datagram_link *link, const struct in6_addr *group,
                        const struct in6_addr *local, uint32_t scope_id)
{
    struct datagram_udp *d = datagram_udp_of(link);
    struct datagram_group *g = group_find(d, group, local);
    if (g != NULL && --g->joined == 0) {
        datagram_group_free(d, g);
    }
}
