// Addresses of both families in one form, and the four numbers that name a connection.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "tcp/isn.h"
#include "wire/ip.h"

// An IPv6 address; an IPv4 one stands in it as ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2).
struct net_addr {
    uint8_t octets[IPV6_ADDR_LEN];
};

// A connection as seen from here, or, with the remote end all zero, the place of a listener. Equal
// flows have equal octets.
struct net_flow {
    struct net_addr local, remote;
    uint32_t scope; // the interface of link-local addresses, else 0
    uint16_t local_port, remote_port;
};
STATIC_CHECK(sizeof(struct net_flow) == TCP_TUPLE_MAX);

enum { NET_FLOW_TEXT_LEN = 112 };

struct net_addr net_addr_from_ipv4(const uint8_t octets[IPV4_ADDR_LEN]);
struct net_addr net_addr_from_ipv6(const uint8_t octets[IPV6_ADDR_LEN]);
// "10.0.0.1" or "fd00::1". False: it is neither.
bool net_addr_parse(const char *text, struct net_addr *ret);
bool net_addr_is_ipv4(const struct net_addr *a);
bool net_addr_is_any(const struct net_addr *a);        // of either family, or all zero
bool net_addr_is_multicast(const struct net_addr *a);  // or IPv4's limited broadcast
bool net_addr_is_link_local(const struct net_addr *a); // IPv6's: it needs a scope
bool net_addr_is_all_hosts(const struct net_addr *a);  // 224.0.0.1 or ff02::1
static inline bool net_addr_equal(const struct net_addr *a, const struct net_addr *b)
{
    return memcmp(a->octets, b->octets, IPV6_ADDR_LEN) == 0;
}
// All hosts of the IPv4 network that `own` is in (RFC 919).
bool net_addr_is_broadcast(const struct net_addr *a, const struct net_addr *own, unsigned len);
// Whether the first `len` bits are the same; of IPv4 addresses the bits behind ::ffff count.
bool net_addr_has_prefix(const struct net_addr *a, const struct net_addr *prefix, unsigned len);
static inline const uint8_t *net_addr_ipv4(const struct net_addr *a)
{
    return a->octets + IPV6_ADDR_LEN - IPV4_ADDR_LEN;
}

// False: another family than IPv4 and IPv6. `ret_scope` may be NULL.
bool net_addr_from_sockaddr(const struct sockaddr *from, struct net_addr *ret, uint16_t *ret_port,
                            uint32_t *ret_scope);
// In this family; an IPv4 address in AF_INET6 is mapped, any other IPv6 one has no AF_INET form and
// comes as AF_INET6.
void net_addr_to_sockaddr(const struct net_addr *a, uint16_t port, uint32_t scope, int family,
                          struct sockaddr_storage *ret);

struct tcp_tuple net_flow_tuple(const struct net_flow *flow);
struct net_flow net_flow_of_tuple(const struct tcp_tuple *tuple);
// The same connection as its other end sees it.
struct net_flow net_flow_turned(const struct net_flow *flow);
// "10.0.0.1:7471 > 10.0.0.2:40000". Returns `buf`, NET_FLOW_TEXT_LEN octets.
const char *net_flow_format(const struct net_flow *flow, char *buf);

// The sum of the pseudo-header of a segment of `len` octets that leaves on this flow, for
// tcp_checksum_put; turned, for tcp_checksum_is_good.
uint64_t net_flow_pseudo_sum(const struct net_flow *flow, uint8_t protocol, uint32_t len);

// What the header of IP says of a packet beside where it goes.
struct net_packet {
    uint8_t tos, protocol, hops;
    uint16_t ipv4_id;
    uint32_t flow_label; // IPv6
    size_t body_len;     // octets behind the header
    bool has_alert;      // for routers
};

enum { NET_IP_HEADER_MAX = IPV6_HEADER_LEN }; // without an alert

// The header of a packet that leaves on this flow, of its family. Returns its length, at most
// NET_IP_HEADER_MAX.
size_t net_flow_ip_emit(const struct net_flow *flow, const struct net_packet *packet, uint8_t *buf);
