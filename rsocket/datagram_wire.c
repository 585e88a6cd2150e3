// What goes before the octets of a datagram: on its way over UDP, where the sender's queue pair is
// told to who may not know it yet; and on its way between two queue pairs, where the sender's
// address and port are told. All numbers are in network byte order.

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <string.h>

#include "rsocket/datagram.h"
#include "rsocket/rsocket.h"

//   over UDP                                      between queue pairs
//   OFFSET SIZE FIELD                             OFFSET SIZE FIELD
//    0      4   tag: 0x55555555                    0      1   version: 4 or 6
//    4      1   version of IP: 4 or 6              1      1   octets of this header: 8 or 24
//    5      1   0 data, 7 answer without any       2      2   UDP port of the sender
//    6      1   octets of this header: 16 or 28    4      4   IPv4 address, or flow information
//    7      1   reserved                           8     16   IPv6 address behind that
//    8      4   queue pair of the sender
//   12  4, 16   address of the sender
enum {
    UDP_OFF_VERSION = 4,
    UDP_OFF_OP = 5,
    UDP_OFF_LEN = 6,
    UDP_OFF_QPN = 8,
    UDP_OFF_ADDR = 12,
    OFF_VERSION = 0,
    OFF_LEN = 1,
    OFF_PORT = 2,
    OFF_ADDR_4 = 4,
    OFF_ADDR_6 = 8,
};

enum { LEN_4 = 8, LEN_6 = 24, UDP_LEN_4 = 16, UDP_LEN_6 = 28, VERSION_4 = 4, VERSION_6 = 6 };

static const uint8_t udp_tag[4] = {0x55, 0x55, 0x55, 0x55};

static bool is_6(const struct sockaddr *addr)
{
    return addr->sa_family == AF_INET6;
}

static void octets_copy(uint8_t *to, const struct sockaddr *addr)
{
    if (is_6(addr)) {
        memcpy(to, &((const struct sockaddr_in6 *)addr)->sin6_addr, sizeof(struct in6_addr));
    } else {
        memcpy(to, &((const struct sockaddr_in *)addr)->sin_addr, sizeof(struct in_addr));
    }
}

/* ---- over UDP -------------------------------------------------------------------------------- */

size_t rs_udp_header_len(const struct sockaddr *own)
{
    return is_6(own) ? UDP_LEN_6 : UDP_LEN_4;
}

size_t rs_udp_header_emit(const struct rs_udp_header *header, const struct sockaddr *own,
                          uint8_t buf[RS_UDP_HEADER_MAX])
{
    const uint32_t qpn = htobe32(header->qpn & RS_QPN_MASK);
    const size_t len = rs_udp_header_len(own);
    memset(buf, 0, len);
    memcpy(buf, udp_tag, sizeof udp_tag);
    buf[UDP_OFF_VERSION] = is_6(own) ? VERSION_6 : VERSION_4;
    buf[UDP_OFF_OP] = (uint8_t)header->op;
    buf[UDP_OFF_LEN] = (uint8_t)len;
    memcpy(buf + UDP_OFF_QPN, &qpn, sizeof qpn);
    octets_copy(buf + UDP_OFF_ADDR, own);
    return len;
}

size_t rs_udp_header_parse(const uint8_t *octets, size_t len, const struct sockaddr *sender,
                           struct rs_udp_header *ret)
{
    const size_t header_len = rs_udp_header_len(sender);
    if (len < header_len || memcmp(octets, udp_tag, sizeof udp_tag) != 0 ||
        octets[UDP_OFF_VERSION] != (is_6(sender) ? VERSION_6 : VERSION_4) ||
        octets[UDP_OFF_LEN] != header_len ||
        (octets[UDP_OFF_OP] != RS_OP_DATA && octets[UDP_OFF_OP] != RS_OP_CONTROL)) {
        return 0;
    }
    uint32_t qpn;
    memcpy(&qpn, octets + UDP_OFF_QPN, sizeof qpn);
    ret->op = (enum rs_op)octets[UDP_OFF_OP];
    ret->qpn = be32toh(qpn) & RS_QPN_MASK;
    return header_len;
}

/* ---- between queue pairs --------------------------------------------------------------------- */

size_t rs_datagram_header_emit(const struct sockaddr *own, uint8_t buf[RS_DATAGRAM_HEADER_MAX])
{
    const size_t len = is_6(own) ? LEN_6 : LEN_4;
    const in_port_t port = sockaddr_port(own);
    memset(buf, 0, len);
    buf[OFF_VERSION] = is_6(own) ? VERSION_6 : VERSION_4;
    buf[OFF_LEN] = (uint8_t)len;
    memcpy(buf + OFF_PORT, &port, sizeof port);
    octets_copy(buf + (is_6(own) ? OFF_ADDR_6 : OFF_ADDR_4), own);
    return len;
}

static size_t parse_4(const uint8_t *octets, struct sockaddr_in *ret)
{
    ret->sin_family = AF_INET;
    memcpy(&ret->sin_port, octets + OFF_PORT, sizeof ret->sin_port);
    memcpy(&ret->sin_addr, octets + OFF_ADDR_4, sizeof ret->sin_addr);
    return LEN_4;
}

static size_t parse_6(const uint8_t *octets, struct sockaddr_in6 *ret)
{
    ret->sin6_family = AF_INET6;
    memcpy(&ret->sin6_port, octets + OFF_PORT, sizeof ret->sin6_port);
    memcpy(&ret->sin6_addr, octets + OFF_ADDR_6, sizeof ret->sin6_addr);
    return LEN_6;
}

size_t rs_datagram_header_parse(const uint8_t *octets, size_t len, struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof *ret);
    if (len >= LEN_4 && octets[OFF_VERSION] == VERSION_4 && octets[OFF_LEN] == LEN_4) {
        return parse_4(octets, (struct sockaddr_in *)ret);
    }
    if (len >= LEN_6 && octets[OFF_VERSION] == VERSION_6 && octets[OFF_LEN] == LEN_6) {
        return parse_6(octets, (struct sockaddr_in6 *)ret);
    }
    return 0;
}
