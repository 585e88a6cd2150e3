#include "cli/doctor/local_address.h"

#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>

#include "base/sockaddr.h"

enum { IPV4_OFF_IN_MAPPED = 12 };

static bool address_read(const struct ifaddrs *from, struct local_address *ret)
{
    *ret = (struct local_address){.is_loopback = (from->ifa_flags & IFF_LOOPBACK) != 0};
    if (from->ifa_addr == NULL || (from->ifa_flags & IFF_UP) == 0) {
        return false;
    }
    snprintf(ret->interface, sizeof ret->interface, "%s", from->ifa_name);
    if (from->ifa_addr->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, from->ifa_addr, sizeof in);
        ret->addr = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
        memcpy(ret->addr.s6_addr + IPV4_OFF_IN_MAPPED, &in.sin_addr, sizeof in.sin_addr);
        ret->name_len = sizeof in;
    } else if (from->ifa_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, from->ifa_addr, sizeof in6);
        ret->addr = in6.sin6_addr;
        ret->is_link_local = IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr);
        ret->name_len = sizeof in6;
    } else {
        return false;
    }
    memcpy(&ret->name, from->ifa_addr, ret->name_len);
    return text_address_host(from->ifa_addr, ret->text);
}

unsigned local_addresses_find(struct local_address ret[LOCAL_ADDRESS_MAX])
{
    struct ifaddrs *list = NULL;
    unsigned count = 0;
    if (getifaddrs(&list) != 0) {
        return 0;
    }
    for (const struct ifaddrs *i = list; i != NULL && count < LOCAL_ADDRESS_MAX; i = i->ifa_next) {
        count += address_read(i, &ret[count]);
    }
    freeifaddrs(list);
    return count;
}

struct sockaddr_storage local_address_at(const struct local_address *address, uint16_t port)
{
    struct sockaddr_storage name = address->name;
    sockaddr_set_port((struct sockaddr *)&name, htons(port));
    return name;
}
