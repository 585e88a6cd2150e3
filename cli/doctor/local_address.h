// The addresses of this host, as `weft doctor` tries them one by one.
#pragma once

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "text/address.h"

enum { LOCAL_ADDRESS_MAX = 32 };

struct local_address {
    struct sockaddr_storage name; // the port is 0
    socklen_t name_len;
    struct in6_addr addr; // IPv4 mapped into IPv6
    bool is_loopback, is_link_local;
    char interface[IF_NAMESIZE];
    char text[TEXT_ADDRESS_MAX]; // the number alone
};

// Of the interfaces that are up, in the order of the system; the first LOCAL_ADDRESS_MAX.
unsigned local_addresses_find(struct local_address ret[LOCAL_ADDRESS_MAX]);
// The same name with a port.
struct sockaddr_storage local_address_at(const struct local_address *address, uint16_t port);
