// The congestion notification packet (InfiniBand Architecture volume 1, annex A17): tells a sender
// that a packet of the other direction was marked on its way. BTH of opcode ROCE_CNP with BECN, PSN
// 0, then 16 reserved octets; no payload.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/bth.h"

enum {
    CNP_RESERVED_LEN = 16,
    CNP_LEN = BTH_LEN + CNP_RESERVED_LEN,
};

// The BTH of a CNP to this queue pair.
struct bth cnp_bth(uint32_t dest_qp);

// Writes CNP_LEN octets and returns that number.
size_t cnp_emit(uint32_t dest_qp, uint8_t *buf);
