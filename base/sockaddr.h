// Addresses of IPv4 and IPv6 as sockets have them, and as the sixteen octets that a GID has.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

// Octets that an address of its family takes; 0 for one of another family, and for NULL.
socklen_t sockaddr_len(const struct sockaddr *addr);

// In network byte order, as it stands in the address; 0 for one of another family.
in_port_t sockaddr_port(const struct sockaddr *addr);
// An address of another family stays as it is.
void sockaddr_set_port(struct sockaddr *addr, in_port_t port);

// The interface of a link-local address; 0 for IPv4.
uint32_t sockaddr_scope_id(const struct sockaddr *addr);

// Octets as they stand in a GID: of 127.0.0.0/8, mapped, or ::1.
static inline bool gid_octets_are_loopback(const struct in6_addr *octets)
{
    return IN6_IS_ADDR_LOOPBACK(octets) ||
           (IN6_IS_ADDR_V4MAPPED(octets) && octets->s6_addr[12] == IN_LOOPBACKNET);
}

bool sockaddr_is_any(const struct sockaddr *addr);
bool sockaddr_is_loopback(const struct sockaddr *addr);
// The same end: family, address and port. The scope of a link-local address is not looked at.
bool sockaddr_is_same(const struct sockaddr *a, const struct sockaddr *b);

// As the sixteen octets stand in a GID: an IPv4 address is mapped (::ffff:a.b.c.d). All zero: it
// is of neither family.
struct in6_addr sockaddr_octets(const struct sockaddr *addr);
// In the family that the octets are of: a mapped IPv4 address is AF_INET.
struct sockaddr_storage sockaddr_of_octets(const struct in6_addr *octets, in_port_t port);
// As it was, but for an IPv4 address that a socket of both families has mapped: that is AF_INET.
struct sockaddr_storage sockaddr_unmapped(const struct sockaddr *addr);
// The other way round: as a socket of IPv6 has it.
struct sockaddr_storage sockaddr_mapped(const struct sockaddr *addr);
