// Which sockets have a UDP port of this host, as the system lists them: by sock_diag(7), or where
// its kernel has no udp_diag in /proc/net/udp.
#pragma once

#include <netinet/in.h>
#include <stdint.h>

// How many are bound to exactly this address and port; 0: none, or the system does not say.
unsigned datagram_port_sockets(const struct in6_addr *addr, uint16_t port);
