// What two weft ends say to each other about the extensions, which no RFC knows: the block that a
// responder appends to the private data of its Reply, and the extension message, an RDMAP message
// of opcode 0xE on untagged queue 4. See mpa/startup.h for who sends what when.
//
//   OFFSET SIZE FIELD                         block, the last 24 octets of the private data
//    0      8   magic "weft\r\n\x1a\x01"
//    8      4   CRC32C of the whole Request frame that this answers, as a big-endian number
//   12      1   version
//   13      1   one-shot encodings and parts that the responder understands, one bit each
//   14      1   flags: 0x01 the responder wishes markers
//   15      1   reserved, 0
//   16      4   read allotment that the responder offers, octets; 0: none
//   20      4   reserved, 0
//
//   OFFSET SIZE FIELD                         extension message, behind the untagged DDP header
//    0      1   version
//    1      1   kind: 1 choices (the initiator's first FPDU), 2 allotment changed,
//                 3 allotment taken: the answer to kind 2, with its value
//    2      1   the one-shot encoding chosen, one bit, and the parts; or 0; kind 1 only
//    3      1   why: enum allotment_event, or a number that says nothing; kind 2 only
//    4      4   read allotment, octets; 0: none
//    8      8   reserved, 0
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/allotment_event.h" // what `why` says
#include "base/check.h"
#include "base/span.h"

enum {
    EXTENSION_OFF_MAGIC = 0,
    EXTENSION_OFF_REQUEST_CRC = 8,
    EXTENSION_OFF_VERSION = 12,
    EXTENSION_OFF_ENCODINGS = 13,
    EXTENSION_OFF_FLAGS = 14,
    EXTENSION_OFF_ALLOTMENT = 16,
    EXTENSION_OFF_RESERVED = 20,
    EXTENSION_BLOCK_LEN = 24,

    EXTENSION_MESSAGE_OFF_VERSION = 0,
    EXTENSION_MESSAGE_OFF_KIND = 1,
    EXTENSION_MESSAGE_OFF_ENCODING = 2,
    EXTENSION_MESSAGE_OFF_WHY = 3,
    EXTENSION_MESSAGE_OFF_ALLOTMENT = 4,
    EXTENSION_MESSAGE_OFF_RESERVED = 8,
    EXTENSION_MESSAGE_LEN = 16,
};
STATIC_CHECK(EXTENSION_OFF_RESERVED + 4 == EXTENSION_BLOCK_LEN);
STATIC_CHECK(EXTENSION_MESSAGE_OFF_RESERVED + 8 == EXTENSION_MESSAGE_LEN);

enum { EXTENSION_VERSION = 1 };

// One-shot RDMA (wire/oneshot.h): how the STag stands in a Send's header, and which of its two
// parts are wanted. A set is right if it is empty, or has one encoding and at least one part.
enum {
    EXTENSION_ONESHOT_FLAGS = 0x01,     // encoding: bits of the DDP control word
    EXTENSION_ONESHOT_OPCODE = 0x02,    // encoding: RDMAP opcodes, in place of RFC 7306
    EXTENSION_ONESHOT_ADVERTISE = 0x10, // part: a Send may advertise
    EXTENSION_ONESHOT_CLOSE = 0x20,     // part: a Send may close
    EXTENSION_ONESHOT_ENCODINGS = EXTENSION_ONESHOT_FLAGS | EXTENSION_ONESHOT_OPCODE,
    EXTENSION_ONESHOT_PARTS = EXTENSION_ONESHOT_ADVERTISE | EXTENSION_ONESHOT_CLOSE,
};

// What the extensions put into struct ddp_header.rsvd, bits 10 to 13 of the 16-bit DDP/RDMAP
// control word: what the STag field of a Send holds in place of nothing.
enum {
    EXTENSION_RSVD_IMMEDIATE = 1 << 0, // immediate data
    EXTENSION_RSVD_ADVERTISE = 1 << 2, // bit 12: an STag that the sender advertises
    EXTENSION_RSVD_CLOSE = 1 << 3,     // bit 13: an STag of the receiver that this Send closes
};

struct extension_block {
    uint32_t request_crc;   // CRC32C of the Request frame
    uint8_t encodings;      // EXTENSION_ONESHOT_ bits, parts too
    bool marker_wish;       // the responder would like markers in what it receives
    uint32_t allotment_len; // octets, 0: none
};

enum extension_verdict {
    EXTENSION_OK,
    EXTENSION_ABSENT,        // the private data is shorter than the block
    EXTENSION_BAD_MAGIC,     // the octets where it would stand are something else
    EXTENSION_VERSION_OTHER, // a version that we do not speak
    EXTENSION_WRONG_REQUEST, // it answers another Request: an echo, or a replay
    EXTENSION_VERDICT_COUNT,
};

// Looks for the block at the end of a Reply's private data (without the enhanced octets).
// `request_crc` is the CRC32C of the Request that was sent. `*ret` holds with EXTENSION_OK only.
enum extension_verdict extension_block_parse(struct span private_data, uint32_t request_crc,
                                             struct extension_block *ret);

// Writes EXTENSION_BLOCK_LEN octets and returns that number.
size_t extension_block_emit(const struct extension_block *b, uint8_t *buf);

enum extension_kind {
    EXTENSION_CHOICES = 1,   // the initiator's choices, its first FPDU
    EXTENSION_ALLOTMENT = 2, // either side's wish for the allotment is a new one from here on
    EXTENSION_TAKEN = 3,     // ... and what its sender asks for from here on follows it
};

struct extension_message {
    enum extension_kind kind;
    uint8_t encoding;       // EXTENSION_CHOICES: a right set of EXTENSION_ONESHOT_ bits
    uint8_t why;            // EXTENSION_ALLOTMENT: enum allotment_event, or a number unknown
    uint32_t allotment_len; // octets, 0: none
};

enum extension_message_verdict {
    EXTENSION_MESSAGE_OK,
    EXTENSION_MESSAGE_BAD_LEN, // not exactly EXTENSION_MESSAGE_LEN octets
    EXTENSION_MESSAGE_VERSION,
    EXTENSION_MESSAGE_KIND,     // neither of the two kinds
    EXTENSION_MESSAGE_ENCODING, // no right set of EXTENSION_ONESHOT_ bits, or one in kind 2
    EXTENSION_MESSAGE_VERDICT_COUNT,
};

// Reads the message's payload. `*ret` holds with EXTENSION_MESSAGE_OK only.
enum extension_message_verdict extension_message_parse(struct span payload,
                                                       struct extension_message *ret);

// Writes EXTENSION_MESSAGE_LEN octets and returns that number.
size_t extension_message_emit(const struct extension_message *m, uint8_t *buf);

// The most that both of two sets understand, as a right set. `flags` is the encoding if both have
// it, since it leaves RFC 7306 its opcodes.
uint8_t extension_oneshot_common(uint8_t ours, uint8_t theirs);

// One trace line each. They return `buf`.
const char *extension_block_format(const struct extension_block *b, char *buf, size_t len);
const char *extension_message_format(const struct extension_message *m, char *buf, size_t len);

const char *extension_verdict_name(enum extension_verdict verdict);
const char *extension_message_verdict_name(enum extension_message_verdict verdict);
