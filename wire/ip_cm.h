// The RDMA IP CM Service (InfiniBand Architecture volume 1, annex A11): how a connection manager
// that knows service ids serves programs that know IP addresses and ports. A service id stands for
// a port, and the private data of a REQ or SIDR_REQ begin with the addresses.
//
//   OFFSET SIZE FIELD (private data)         service id: 00 00 00 00 01, protocol (1), port (2)
//    0      1   version, 0                   The protocol is an IP protocol's number, and with the
//    1      1   IP version (4), 4 reserved   octet before it what rdma_cm calls a port space.
//    2      2   source port
//    4     16   source address               An IPv4 address stands in the last four octets, behind
//   20     16   destination address          zeros.
//   36          the program's own
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

enum {
    IP_CM_OFF_VERSION = 0,
    IP_CM_OFF_IP_VERSION = 1,
    IP_CM_OFF_SOURCE_PORT = 2,
    IP_CM_OFF_SOURCE = 4,
    IP_CM_OFF_DESTINATION = 20,
    IP_CM_HEADER_LEN = 36,
};
STATIC_CHECK(IP_CM_OFF_DESTINATION + 16 == IP_CM_HEADER_LEN);

enum ip_cm_port_space {
    IP_CM_PS_TCP = 0x0106,
    IP_CM_PS_UDP = 0x0111,
    IP_CM_PS_IB = 0x013f,
};

#define IP_CM_QKEY 0x01234567U // of queue pairs of the UDP port space

static inline uint64_t ip_cm_service_id(enum ip_cm_port_space ps, uint16_t port)
{
    return (uint64_t)ps << 16 | port;
}

static inline uint16_t ip_cm_port(uint64_t service_id)
{
    return (uint16_t)service_id;
}

struct ip_cm_header {
    bool is_ipv6;
    uint16_t source_port;
    struct in6_addr source, destination; // IPv4 mapped: ::ffff:a.b.c.d
};

enum ip_cm_verdict {
    IP_CM_OK,
    IP_CM_TOO_SHORT,  // shorter than the header
    IP_CM_VERSION,    // another version of the header
    IP_CM_IP_VERSION, // neither IPv4 nor IPv6
    IP_CM_VERDICT_COUNT,
};

// Reads the header in front of `private_data`. `*ret` holds with IP_CM_OK only.
enum ip_cm_verdict ip_cm_header_parse(struct span private_data, struct ip_cm_header *ret);

// Writes IP_CM_HEADER_LEN octets and returns that number.
size_t ip_cm_header_emit(const struct ip_cm_header *h, uint8_t *buf);

// One trace line: "192.0.2.1 port 5000 > 192.0.2.2". Returns `buf`.
const char *ip_cm_header_format(const struct ip_cm_header *h, char *buf, size_t len);

const char *ip_cm_verdict_name(enum ip_cm_verdict verdict);
