// The ICRC of an IPv4 packet whose identification is not known, because a UDP socket does not show
// it. A CRC is linear: what the sixteen unknown bits add to it is the same whatever the packet, but
// for its length. So the identification can be found from the difference between the ICRC that came
// and the one of identification 0; what cannot be found had octets changed. Of 2^16 damaged packets
// one passes, where a known identification lets 1 of 2^32 pass.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/port_datagram.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/udp_header.h"

enum {
    ICRC_ID_UDP_LEN_MIN = UDP_HEADER_LEN + BTH_LEN + ICRC_LEN,
    ICRC_ID_UDP_LEN_MAX = UDP_HEADER_LEN + DATAGRAM_LEN_MAX + ICRC_LEN,
    ICRC_ID_LEN_COUNT = (ICRC_ID_UDP_LEN_MAX - ICRC_ID_UDP_LEN_MIN) / 4 + 1,
};

enum { ICRC_ID_DIGITS = 4, ICRC_ID_DIGIT_COUNT = 16 }; // of an identification, in hexadecimal

struct icrc_ids {
    // For each length, what takes a difference back to where the identification stood.
    uint32_t factors[ICRC_ID_LEN_COUNT];
    // What each digit, the lowest first, adds to the state in front of the BTH.
    uint32_t parts[ICRC_ID_DIGITS][ICRC_ID_DIGIT_COUNT];
};

void icrc_ids_init(struct icrc_ids *ids);

// What an identification changes of icrc_begin(), which is that of 0: to be combined by XOR.
static inline uint32_t icrc_ids_part(const struct icrc_ids *ids, uint16_t id)
{
    return ids->parts[0][id & 0xf] ^ ids->parts[1][id >> 4 & 0xf] ^ ids->parts[2][id >> 8 & 0xf] ^
           ids->parts[3][id >> 12];
}

// Looks for the identification of a packet of `udp_len` octets (UDP header and ICRC included) from
// `difference`: the ICRC that came XOR the one computed with identification 0. False: there is
// none, or the length is none of a packet that is padded to four octets.
bool icrc_ids_find(const struct icrc_ids *ids, size_t udp_len, uint32_t difference,
                   uint16_t *ret_id);
