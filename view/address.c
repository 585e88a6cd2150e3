#include "view/address.h"

#include <ifaddrs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "descriptor/descriptor.h"

enum { IPV4_PREFIX_LEN = 12 }; // octets before the IPv4 address

// The higher come first, and of one rank in the order of the system.
enum rank {
    RANK_NONE,
    RANK_LINK_LOCAL,
    RANK_IPV6_LOOPBACK,
    RANK_IPV4_LOOPBACK,
    RANK_IPV6,
    RANK_IPV4
};

static struct in6_addr mapped(struct in_addr ipv4)
{
    struct in6_addr addr = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(addr.s6_addr + IPV4_PREFIX_LEN, &ipv4, sizeof ipv4);
    return addr;
}

static enum rank rank_of(const struct ifaddrs *ifa, struct view_address *ret)
{
    const bool is_loopback = (ifa->ifa_flags & IFF_LOOPBACK) != 0;
    if (ifa->ifa_addr == NULL || !(ifa->ifa_flags & IFF_UP)) {
        return RANK_NONE;
    }
    *ret = (struct view_address){.scope_id = 0};
    snprintf(ret->interface, sizeof ret->interface, "%s", ifa->ifa_name);
    if (ifa->ifa_addr->sa_family == AF_INET) {
        ret->addr = mapped(((const struct sockaddr_in *)(const void *)ifa->ifa_addr)->sin_addr);
        return is_loopback ? RANK_IPV4_LOOPBACK : RANK_IPV4;
    }
    if (ifa->ifa_addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)ifa->ifa_addr;
        const bool is_link_local = IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
        ret->addr = in6->sin6_addr;
        ret->scope_id = is_link_local ? in6->sin6_scope_id : 0;
        return is_link_local ? RANK_LINK_LOCAL : is_loopback ? RANK_IPV6_LOOPBACK : RANK_IPV6;
    }
    return RANK_NONE;
}

static bool is_known(const struct view_address *all, unsigned count, const struct in6_addr *addr)
{
    for (unsigned i = 0; i < count; i++) {
        if (IN6_ARE_ADDR_EQUAL(&all[i].addr, addr)) {
            return true;
        }
    }
    return false;
}

// The first of the system's that is this one.
static struct view_address found(const struct ifaddrs *list, const struct in6_addr *addr)
{
    struct view_address is;
    for (const struct ifaddrs *ifa = list; ifa != NULL; ifa = ifa->ifa_next) {
        if (rank_of(ifa, &is) != RANK_NONE && IN6_ARE_ADDR_EQUAL(&is.addr, addr)) {
            return is;
        }
    }
    return (struct view_address){.addr = *addr};
}

bool view_addresses_look(struct view_address ret[], unsigned count)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0) {
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        ret[i] = found(list, &ret[i].addr);
    }
    freeifaddrs(list);
    return true;
}

// Not while the kernel asks whether somebody else has an IPv6 address (RFC 4862 section 5.4), nor
// when it has found that somebody has: it is in no GID table of a card then, and cannot be bound.
static bool is_settled(const struct view_address *address)
{
    const struct sockaddr_in6 name = {
        .sin6_family = AF_INET6, .sin6_addr = address->addr, .sin6_scope_id = address->scope_id};
    if (IN6_IS_ADDR_V4MAPPED(&address->addr)) {
        return true;
    }
    const int fd = descriptor_of_socket(AF_INET6, SOCK_DGRAM, 0);
    const bool is_bound = fd >= 0 && bind(fd, (const struct sockaddr *)&name, sizeof name) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return is_bound;
}

// Those of one rank behind the `count` that are there; one address on several interfaces is the
// first's. Returns how many there are now.
static unsigned rank_add(const struct ifaddrs *list, enum rank rank, struct view_address *ret,
                         unsigned count)
{
    for (const struct ifaddrs *ifa = list; ifa != NULL && count < VIEW_ADDRESS_MAX;
         ifa = ifa->ifa_next) {
        if (rank_of(ifa, &ret[count]) == rank && !is_known(ret, count, &ret[count].addr) &&
            is_settled(&ret[count])) {
            count++;
        }
    }
    return count;
}

// Loopback addresses: only where no other can be first.
static unsigned all_find(struct view_address ret[VIEW_ADDRESS_MAX])
{
    struct ifaddrs *list = NULL;
    unsigned count = 0;
    if (getifaddrs(&list) == 0) {
        count = rank_add(list, RANK_IPV4, ret, count);
        count = rank_add(list, RANK_IPV6, ret, count);
        if (count == 0) {
            count = rank_add(list, RANK_IPV4_LOOPBACK, ret, count);
            count = rank_add(list, RANK_IPV6_LOOPBACK, ret, count);
        }
        count = count > 0 ? rank_add(list, RANK_LINK_LOCAL, ret, count) : 0;
        freeifaddrs(list);
    }
    if (count > 0) {
        return count;
    }
    ret[0] = (struct view_address){.addr = mapped((struct in_addr){htonl(INADDR_LOOPBACK)}),
                                   .interface = "lo"};
    return 1;
}

unsigned view_addresses_find(const struct identity *identity,
                             struct view_address ret[VIEW_ADDRESS_MAX])
{
    const unsigned count = all_find(ret);
    if (identity->has_streams) {
        return 1;
    }
    const enum ibv_mtu mtu = identity_active_mtu(identity, view_interface_mtu(ret[0].interface));
    unsigned kept = 1;
    for (unsigned i = 1; i < count; i++) {
        if (identity_active_mtu(identity, view_interface_mtu(ret[i].interface)) >= mtu) {
            ret[kept++] = ret[i];
        }
    }
    return kept;
}

void view_address_find(struct view_address *ret)
{
    struct view_address all[VIEW_ADDRESS_MAX];
    all_find(all);
    *ret = all[0];
}

// By ioctl: /sys may show the interfaces of another network namespace than the caller's.
unsigned view_interface_mtu(const char *interface)
{
    struct ifreq request = {.ifr_mtu = 0};
    int fd = descriptor_of_socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0) {
        return 0;
    }
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    int error = ioctl(fd, SIOCGIFMTU, &request);
    close(fd);
    return error == 0 && request.ifr_mtu > 0 ? (unsigned)request.ifr_mtu : 0;
}
