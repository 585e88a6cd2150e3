// A packet of each opcode, with every header that it has; each field of a value of its own.
#pragma once

#include <endian.h>
#include <string.h>

#include "wire/roce.h"

enum { SAMPLE_MAX_LEN = ROCE_HEAD_MAX_LEN + 8 };

static inline struct roce_packet roce_sample(uint8_t opcode)
{
    return (struct roce_packet){
        .bth = {.opcode = opcode, .pkey = BTH_PKEY_DEFAULT, .dest_qp = 0x112233, .psn = 0x445566},
        .deth = {.qkey = 0xd1d2d3d4, .src_qp = 0xd5d6d7},
        .reth = {.va = 0x0102030405060708, .rkey = 0xe1e2e3e4, .dma_len = 0xe5e6},
        .atomiceth = {.va = 0x1112131415161718,
                      .rkey = 0xa1a2a3a4,
                      .swap_add = 0xb1b2b3b4b5b6b7b8,
                      .compare = 0xc1c2c3c4c5c6c7c8},
        .aeth = {.syndrome = AETH_SYNDROME_ACK, .msn = 0xf1f2f3},
        .atomicacketh = {.original = 0x2122232425262728},
        .immdt = {.imm_data = htobe32(0x31323334)},
        .ieth = {.rkey = 0x41424344},
    };
}

// A packet of this opcode, with five octets of payload where it may have some. Returns its length.
static inline size_t roce_sample_emit(uint8_t opcode, uint8_t *buf)
{
    struct roce_packet p = roce_sample(opcode);
    size_t payload_len = roce_opcode_facts(opcode)->payload == ROCE_PAYLOAD_NONE ? 0 : 5;
    p.bth.pad_len = roce_pad_len(payload_len);
    size_t len = roce_head_emit(&p, buf);
    memset(buf + len, 0x5a, payload_len);
    memset(buf + len + payload_len, 0, p.bth.pad_len);
    return len + payload_len + p.bth.pad_len;
}
