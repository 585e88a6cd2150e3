// Which process has a queue pair: the top octet of its number. Processes that share an address have
// a slot each, and all numbers in it; the first slot has the numbers 0 and 1 too, which belong to
// no program.
#pragma once

#include <stdint.h>

#include "base/bytes.h"
#include "base/port_datagram.h"

enum {
    DATAGRAM_SLOT_LEN = 1 << 16,      // numbers of a slot
    DATAGRAM_QP_NUM_FIRST = 2,        // 0 and 1 are for management
    DATAGRAM_OFF_DEST_QP = 5,         // in a packet: three octets, the first is the slot
    DATAGRAM_LEN_MIN = 12,            // BTH
    DATAGRAM_QP_NUM_GROUP = 0xffffff, // all queue pairs of a multicast group
};

static inline uint32_t datagram_dest_qp(struct span octets)
{
    return get_be32(octets.ptr + DATAGRAM_OFF_DEST_QP - 1) & 0xffffff;
}

// The numbers that a program's queue pairs may have in `slot`, below 255.
static inline void datagram_slot_take(struct datagram_link *link, unsigned slot)
{
    uint32_t skipped = slot == 0 ? DATAGRAM_QP_NUM_FIRST : 0;
    link->qp_num_first = slot * DATAGRAM_SLOT_LEN + skipped;
    link->qp_num_count = DATAGRAM_SLOT_LEN - skipped;
}

static inline bool datagram_slot_has(const struct datagram_link *link, uint32_t qp_num)
{
    return qp_num / DATAGRAM_SLOT_LEN == link->qp_num_first / DATAGRAM_SLOT_LEN;
}
