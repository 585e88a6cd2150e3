// The Base Transport Header (InfiniBand Architecture volume 1, chapter 9), first in every RoCE
// packet.
//
//   OFFSET SIZE FIELD
//    0      1   opcode: transport (3 bits), operation (5); see wire/roce.h
//    1      1   SE, MigReq, PadCnt (2 bits), TVer (4)
//    2      2   P_Key
//    4      1   FECN, BECN, reserved (6 bits)
//    5      3   destination QP
//    8      1   AckReq, reserved (7 bits): 0, or a greeting (wire/greeting.h)
//    9      3   PSN
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "wire/roce_verdict.h"

enum {
    BTH_OFF_OPCODE = 0,
    BTH_OFF_FLAGS = 1,
    BTH_OFF_PKEY = 2,
    BTH_OFF_ECN = 4,
    BTH_OFF_DEST_QP = 5,
    BTH_OFF_ACK_REQ = 8,
    BTH_OFF_PSN = 9,
    BTH_LEN = 12,
};
STATIC_CHECK(BTH_OFF_PSN + 3 == BTH_LEN);

// Octets 1, 4 and 8.
enum {
    BTH_SE = 0x80,
    BTH_MIG_REQ = 0x40,
    BTH_PAD_MASK = 0x30,
    BTH_PAD_SHIFT = 4,
    BTH_TVER_MASK = 0x0f,
    BTH_FECN = 0x80,
    BTH_BECN = 0x40,
    BTH_ACK_REQ = 0x80,
    BTH_GREETING_MASK = 0x7f,
};

enum {
    BTH_PKEY_DEFAULT = 0xffff, // the one partition of RoCE, full member
    BTH_QP_GSI = 1,
    BTH_QP_MULTICAST = 0xffffff,
};

struct bth {
    uint8_t opcode;
    bool solicited;  // SE: raises a solicited event at the receiver
    bool mig_req;    // MigReq: hardware sends 1, others 0; nothing hangs on it
    uint8_t pad_len; // PadCnt, 0..3: octets of zero behind the payload
    uint16_t pkey;
    bool fecn;        // met congestion on its way
    bool becn;        // a packet of the other direction did
    uint32_t dest_qp; // 24 bits
    bool ack_req;     // AckReq: the responder is to acknowledge
    uint8_t greeting; // 7 bits, which InfiniBand reserves; 0: none
    uint32_t psn;     // 24 bits; wire/psn.h
};

// Reads the header at the start of `packet`; other reserved bits are passed over. Answers OK,
// TOO_SHORT, or TVER. `*ret` is complete on OK, otherwise untouched.
enum roce_parse_verdict bth_parse(struct span packet, struct bth *ret);

// Writes BTH_LEN octets and returns that number.
size_t bth_emit(const struct bth *h, uint8_t *buf);

// One trace line, without a newline, cut at `len`; returns `buf`.
const char *bth_format(const struct bth *h, char *buf, size_t len);
