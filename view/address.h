// The addresses of this host that stand in GID tables: an IPv4 address is mapped into IPv6
// (::ffff:a.b.c.d).
#pragma once

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>

#include "view/identity.h"

enum { VIEW_ADDRESS_MAX = 16 };

struct view_address {
    struct in6_addr addr;
    uint32_t scope_id; // of a link-local address, which says nothing without it; 0: another
    char interface[IF_NAMESIZE];
};

// Asked anew in every call: addresses come and go.
//
// Those of a device, in the order of its GID table; returns how many, at least one. Of the
// interfaces that are up IPv4 comes first, then IPv6, then what is link-local. Loopback addresses
// stand there only where there are none but link-local ones beside them, and come first then: a
// peer elsewhere has the same. Interfaces whose packets are shorter than those of the first one's
// are left out, and IPv6 addresses that somebody else may have (duplicate address detection). A
// device of streams has the first alone.
unsigned view_addresses_find(const struct identity *identity,
                             struct view_address ret[VIEW_ADDRESS_MAX]);
// The first of them.
void view_address_find(struct view_address *ret);

// Which of these, in ret[].addr, does the host still have, on an interface that is up: what else is
// known of it; of one that is gone the interface is "". False: that cannot be found out.
bool view_addresses_look(struct view_address ret[], unsigned count);

// The MTU of a network interface, in octets; 0: it is not there.
unsigned view_interface_mtu(const char *interface);
