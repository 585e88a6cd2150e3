// The RDMA Extended Transport Header (InfiniBand Architecture volume 1, chapter 9): in the
// first packet of an RDMA Write and in a Read Request.
//
//   OFFSET SIZE FIELD
//    0      8   virtual address
//    8      4   R_Key
//   12      4   DMA length: octets of the whole message
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "wire/roce_verdict.h"

enum {
    RETH_OFF_VA = 0,
    RETH_OFF_RKEY = 8,
    RETH_OFF_DMA_LEN = 12,
    RETH_LEN = 16,
};
STATIC_CHECK(RETH_OFF_DMA_LEN + 4 == RETH_LEN);

struct reth {
    uint64_t va;
    uint32_t rkey;
    uint32_t dma_len; // octets; 2^31 at most is legal: the receiver checks
};

// Reads the header at the start of `octets`. Answers OK or TOO_SHORT.
enum roce_parse_verdict reth_parse(struct span octets, struct reth *ret);
// Writes RETH_LEN octets and returns that number.
size_t reth_emit(const struct reth *h, uint8_t *buf);
const char *reth_format(const struct reth *h, char *buf, size_t len);
