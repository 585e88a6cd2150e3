// The address of this host that stands in the GID table: an IPv4 address is mapped into IPv6
// (::ffff:a.b.c.d).
#pragma once

#include <net/if.h>
#include <netinet/in.h>

struct view_address {
    struct in6_addr addr;
    char interface[IF_NAMESIZE];
};

// Asked anew in every call: addresses come and go.
void view_address_find(struct view_address *ret);

// The interface that has this address; "" if none has. One address may stand on several: the first.
void view_address_of(const struct in6_addr *addr, struct view_address *ret);

// The MTU of a network interface, in octets; 0: it is not there.
unsigned view_interface_mtu(const char *interface);
