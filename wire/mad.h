// The Management Datagram and its common header (InfiniBand Architecture volume 1, section 13.4.3):
// what queue pair 1 speaks. Always 256 octets, whatever it says.
//
//   OFFSET SIZE FIELD
//    0      1   base version, 1
//    1      1   management class: 7 for the connection manager
//    2      1   class version
//    3      1   R, method (7 bits): 3 is Send
//    4      2   status
//    6      2   class-specific
//    8      8   transaction id
//   16      2   attribute id: which message of the class
//   18      2   reserved
//   20      4   attribute modifier
//   24    232   data of the class
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"

enum {
    MAD_OFF_BASE_VERSION = 0,
    MAD_OFF_CLASS = 1,
    MAD_OFF_CLASS_VERSION = 2,
    MAD_OFF_METHOD = 3,
    MAD_OFF_STATUS = 4,
    MAD_OFF_CLASS_SPECIFIC = 6,
    MAD_OFF_TRANSACTION_ID = 8,
    MAD_OFF_ATTRIBUTE = 16,
    MAD_OFF_RESERVED = 18,
    MAD_OFF_MODIFIER = 20,
    MAD_HEADER_LEN = 24,
    MAD_DATA_LEN = 232,
    MAD_LEN = MAD_HEADER_LEN + MAD_DATA_LEN,
};
STATIC_CHECK(MAD_OFF_MODIFIER + 4 == MAD_HEADER_LEN);
STATIC_CHECK(MAD_LEN == 256);

enum {
    MAD_BASE_VERSION = 1,
    MAD_CLASS_CM = 0x07,
    MAD_CLASS_VERSION_CM = 2,
    MAD_METHOD_SEND = 0x03,
};

#define MAD_QKEY 0x80010000U // of queue pair 1, which alone takes MADs

struct mad_header {
    uint8_t management_class;
    uint8_t class_version;
    uint8_t method; // R included
    uint16_t status;
    uint64_t transaction_id;
    uint16_t attribute;
    uint32_t modifier;
};

enum mad_verdict {
    MAD_OK,
    MAD_BAD_LEN,     // not exactly 256 octets
    MAD_BAD_VERSION, // another base version
    MAD_VERDICT_COUNT,
};

// `*ret` holds with MAD_OK only. What the class is to have is the class's business.
enum mad_verdict mad_parse(struct span mad, struct mad_header *ret);

// Writes MAD_HEADER_LEN octets and returns that number.
size_t mad_emit(const struct mad_header *h, uint8_t *buf);

// One trace line. Returns `buf`.
const char *mad_format(const struct mad_header *h, char *buf, size_t len);

const char *mad_verdict_name(enum mad_verdict verdict);
