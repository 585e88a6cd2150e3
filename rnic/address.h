// Addresses in the forms that they come in: a GID's sixteen octets, a socket address.
#pragma once

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

// As the sixteen octets stand in a GID: an IPv4 address is mapped (::ffff:a.b.c.d). All zero: it is
// of neither family.
struct in6_addr address_octets(const struct sockaddr_storage *addr);

// In the family that the octets are of: a mapped IPv4 address is AF_INET.
struct sockaddr_storage address_of_octets(const struct in6_addr *octets, uint16_t port);

// As it was, but for an IPv4 address that a socket of both families has mapped: that is AF_INET.
struct sockaddr_storage address_unmapped(const struct sockaddr_storage *addr);

uint16_t address_port(const struct sockaddr_storage *addr);
