// The Datagram Extended Transport Header (InfiniBand Architecture volume 1, chapter 9): in
// every packet between datagram queue pairs.
//
//   OFFSET SIZE FIELD
//    0      4   Q_Key
//    4      1   reserved
//    5      3   source QP
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "wire/roce_verdict.h"

enum {
    DETH_OFF_QKEY = 0,
    DETH_OFF_RESERVED = 4,
    DETH_OFF_SRC_QP = 5,
    DETH_LEN = 8,
};
STATIC_CHECK(DETH_OFF_SRC_QP + 3 == DETH_LEN);

enum { DETH_QKEY_GSI = 0x80010000U }; // of QP 1, everywhere

struct deth {
    uint32_t qkey;
    uint32_t src_qp; // 24 bits
};

// Reads the header at the start of `octets`. Answers OK or TOO_SHORT.
enum roce_parse_verdict deth_parse(struct span octets, struct deth *ret);
// Writes DETH_LEN octets and returns that number.
size_t deth_emit(const struct deth *h, uint8_t *buf);
const char *deth_format(const struct deth *h, char *buf, size_t len);
