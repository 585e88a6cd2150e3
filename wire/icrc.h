// The ICRC of RoCEv2 (InfiniBand Architecture volume 1, annex A17): the CRC-32 of Ethernet, by
// ISA-L, over all that no router changes.
//
//     8 octets 0xff | IP header | UDP header | BTH | other headers, payload, pad | ICRC
//                     TOS, TTL,   checksum     FECN, BECN
//                     checksum                 and what stands beside them
//
// What stands below counts as ones; so do traffic class, flow label and hop limit of IPv6. All else
// of the IP header counts as sent: length, identification, flags, both addresses.
//
// A running state starts at icrc_begin() and is the value behind icrc_finish(), which has all of
// the packet; on the wire it stands least significant octet first (icrc_put). Packets of one way
// that are equally long begin alike, but for IPv4's identification (icrc_ids_part).
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/span.h"

enum { ICRC_LEN = 4 };

// What stands in front of the BTH, as far as it counts. Both addresses are mapped (IPv4), or
// neither is; IPv4's header has no options, IPv6's no extension headers.
struct icrc_outer {
    const struct in6_addr *src, *dst;
    uint16_t id;       // IPv4: identification
    uint16_t fragment; // IPv4: flags and fragment offset; ICRC_DF in every packet of weft's
    uint16_t src_port, dst_port;
    uint16_t udp_len; // octets, UDP header and ICRC included
};
enum { ICRC_DF = 0x4000 };

// The state in front of the BTH.
uint32_t icrc_begin(const struct icrc_outer *outer);

// Carries `state` on over a packet from its BTH to what is in front of the ICRC, at least BTH_LEN
// octets, in one piece. What counts as ones is ones meanwhile.
uint32_t icrc_finish(uint32_t state, uint8_t *packet, size_t len);

// Carries `state` on over `len` octets (at most 2^31 - 1). No alignment needed.
uint32_t icrc_update(uint32_t state, const void *octets, size_t len);

// The ICRC of an IP packet: `packet` begins with the IP header and ends in front of the ICRC.
// False: this is no IPv4 header without options, and no IPv6 header, with UDP and a BTH behind it.
bool icrc_of_packet(struct span packet, uint32_t *ret);

static inline void icrc_put(uint8_t *p, uint32_t icrc)
{
    put_le32(p, icrc);
}

static inline uint32_t icrc_get(const uint8_t *p)
{
    return get_le32(p);
}
