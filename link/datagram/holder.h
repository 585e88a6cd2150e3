// Which sockets have a UDP port of this host, as the system lists them (/proc/net/udp).
#pragma once

#include <netinet/in.h>
#include <stdint.h>

// How many are bound to exactly this address and port; 0: none, or the system does not say.
unsigned datagram_port_sockets(const struct in6_addr *addr, uint16_t port);
