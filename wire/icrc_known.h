// Where ICRCs begin, of headers that were made or read lately: the packets of an exchange have one
// peer and few lengths, and what stands in front of their BTH costs as much as a short packet.
#pragma once

#include <netinet/in.h>
#include <stdint.h>

#include "wire/icrc.h"

enum { ICRC_KNOWN_COUNT = 32 };

struct icrc_known {
    struct icrc_known_entry {
        struct in6_addr src, dst;
        uint16_t id, fragment, src_port, dst_port;
        uint16_t udp_len; // 0: of no packet
        uint32_t state;
    } entries[ICRC_KNOWN_COUNT]; // all zero at first
};

// What icrc_begin gives.
uint32_t icrc_known_begin(struct icrc_known *k, const struct icrc_outer *outer);
