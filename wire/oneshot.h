// One-shot RDMA in the header of a Send: the four octets in which Send with Invalidate has its STag
// hold one that the sender advertises, or one of the receiver's that this Send closes. Which of the
// two it is stands in either of two encodings; a connection has one (wire/extension.h).
//
//   OFFSET SIZE FIELD                           flags                 opcode
//    0      1   T=0 L Rsvd(4) DV(2)             0x10 advertise,       Rsvd = 0
//                                               0x20 close
//    1      1   RDMAP control octet             Send, Send with SE    0x48 advertise, 0x4c close
//    2      4   STag
//    6     12   QN = 0, MSN, MO
//
// 0x10 and 0x20 of the first octet are bits 12 and 13 of the 16-bit DDP/RDMAP control word, counted
// from the lowest. The opcodes come with a solicited event, and take the place of RFC 7306: on such
// a connection there is no Immediate Data and no atomic.
#pragma once

#include <stdint.h>

#include "wire/ddp.h"
#include "wire/rdmap.h"

// EXTENSION_ONESHOT_OPCODE: what stands in place of RFC 7306.
enum {
    ONESHOT_OPCODE_ADVERTISE = 0x8,
    ONESHOT_OPCODE_CLOSE = 0xC,
};

enum oneshot_mark {
    ONESHOT_NONE,      // a Send as RFC 5040 has it
    ONESHOT_ADVERTISE, // its STag field names memory of the sender
    ONESHOT_CLOSE,     // its STag field names memory of the receiver, which is detached at delivery
};
const char *oneshot_mark_name(enum oneshot_mark mark);

enum oneshot_verdict {
    ONESHOT_OK,
    ONESHOT_BOTH,       // advertises and closes
    ONESHOT_STAG_TAKEN, // the STag field has another meaning: Send with Invalidate, immediate data
    ONESHOT_UNAGREED,   // this part of one-shot RDMA was not agreed
    ONESHOT_RFC7306,    // `opcode` is agreed: this opcode has no meaning here
};

struct oneshot_send {
    enum oneshot_mark mark;
    enum rdmap_opcode opcode; // as RFC 5040 has it: what remains without the mark
};

// What the control word of a segment says where `agreed` (EXTENSION_ONESHOT_ bits, 0: none) holds.
// Messages that are no Sends come out as they are, whatever their reserved bits.
enum oneshot_verdict oneshot_read(uint8_t agreed, const struct ddp_header *h,
                                  struct oneshot_send *ret);

// Marks a Send or Send with SE. `agreed` has the part. With `opcode` it becomes one with SE.
void oneshot_write(uint8_t agreed, enum oneshot_mark mark, uint32_t stag, struct ddp_header *h);
