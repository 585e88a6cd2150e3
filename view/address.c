#include "view/address.h"

#include <ifaddrs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IPV4_PREFIX_LEN = 12 }; // octets before the IPv4 address

// The one of the highest rank, and of these the first.
enum rank { RANK_NONE, RANK_IPV6_LOOPBACK, RANK_IPV4_LOOPBACK, RANK_IPV6, RANK_IPV4 };

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

void view_address_find(struct view_address *ret)
{
    struct ifaddrs *list = NULL;
    enum rank best = RANK_NONE;
    *ret = (struct view_address){.addr = mapped((struct in_addr){htonl(INADDR_LOOPBACK)}),
                                 .interface = "lo"};
    if (getifaddrs(&list) != 0) {
        return;
    }
    for (const struct ifaddrs *ifa = list; ifa != NULL; ifa = ifa->ifa_next) {
        struct in6_addr addr;
        const enum rank rank = rank_of(ifa, &addr);
        if (rank > best) {
            best = rank;
            ret->addr = addr;
            snprintf(ret->interface, sizeof ret->interface, "%s", ifa->ifa_name);
        }
    }
    freeifaddrs(list);
}

void view_address_of(const struct in6_addr *addr, struct view_address *ret)
{
    struct ifaddrs *list = NULL;
    *ret = (struct view_address){.addr = *addr};
    if (getifaddrs(&list) != 0) {
        return;
    }
    for (const struct ifaddrs *ifa = list; ifa != NULL && ret->interface[0] == '\0';
         ifa = ifa->ifa_next) {
        struct in6_addr it;
        if (rank_of(ifa, &it) != RANK_NONE && IN6_ARE_ADDR_EQUAL(&it, addr)) {
            snprintf(ret->interface, sizeof ret->interface, "%s", ifa->ifa_name);
        }
    }
    freeifaddrs(list);
}

// By ioctl: /sys may show the interfaces of another network namespace than the caller's.
unsigned view_interface_mtu(const char *interface)
{
    struct ifreq request = {.ifr_mtu = 0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return 0;
    }
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    int error = ioctl(fd, SIOCGIFMTU, &request);
    close(fd);
    return error == 0 && request.ifr_mtu > 0 ? (unsigned)request.ifr_mtu : 0;
}
