// Which process has a queue pair: the top octet of its number. Processes that share an address have
// a slot each, and all numbers in it; the first slot has the numbers 0 and 1 too, which belong to
// no program.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/port_datagram.h"
#include "base/span.h"
#include "wire/bth.h"

enum {
    DATAGRAM_SLOT_LEN = 1 << 16, // numbers of a slot
    DATAGRAM_SLOT_SHIFT = 16,
    DATAGRAM_QP_NUM_MASK = 0xffffff,
};

// Of a packet, a BTH at least.
static inline uint32_t datagram_dest_qp(struct span octets)
{
    return get_be32(octets.ptr + BTH_OFF_DEST_QP - 1) & DATAGRAM_QP_NUM_MASK;
}

// The numbers that a program's queue pairs may have in `slot`, below 255.
static inline void datagram_slot_take(struct datagram_link *link, unsigned slot)
{
    uint32_t skipped = slot == 0 ? BTH_QP_GSI + 1 : 0;
    link->qp_num_first = slot * DATAGRAM_SLOT_LEN + skipped;
    link->qp_num_count = DATAGRAM_SLOT_LEN - skipped;
}

static inline bool datagram_slot_has(const struct datagram_link *link, uint32_t qp_num)
{
    return qp_num >> DATAGRAM_SLOT_SHIFT == link->qp_num_first >> DATAGRAM_SLOT_SHIFT;
}
