// The headers of atomic operations (InfiniBand Architecture volume 1, chapter 9):
// AtomicETH in the request, AtomicAckETH in the answer.
//
//   OFFSET SIZE FIELD of AtomicETH               OFFSET SIZE FIELD of AtomicAckETH
//    0      8   virtual address                   0      8   value before the operation
//    8      4   R_Key
//   12      8   swap (CmpSwap), add (FetchAdd)
//   20      8   compare (CmpSwap); 0 in FetchAdd
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "wire/roce_verdict.h"

enum {
    ATOMICETH_OFF_VA = 0,
    ATOMICETH_OFF_RKEY = 8,
    ATOMICETH_OFF_SWAP_ADD = 12,
    ATOMICETH_OFF_COMPARE = 20,
    ATOMICETH_LEN = 28,

    ATOMICACKETH_OFF_ORIGINAL = 0,
    ATOMICACKETH_LEN = 8,
};
STATIC_CHECK(ATOMICETH_OFF_COMPARE + 8 == ATOMICETH_LEN);
STATIC_CHECK(ATOMICACKETH_OFF_ORIGINAL + 8 == ATOMICACKETH_LEN);

struct atomiceth {
    uint64_t va; // a multiple of 8: the receiver checks
    uint32_t rkey;
    uint64_t swap_add;
    uint64_t compare;
};

struct atomicacketh {
    uint64_t original;
};

// Read the header at the start of `octets`. Answer OK or TOO_SHORT.
enum roce_parse_verdict atomiceth_parse(struct span octets, struct atomiceth *ret);
enum roce_parse_verdict atomicacketh_parse(struct span octets, struct atomicacketh *ret);
// Write ATOMICETH_LEN or ATOMICACKETH_LEN octets and return that number.
size_t atomiceth_emit(const struct atomiceth *h, uint8_t *buf);
size_t atomicacketh_emit(const struct atomicacketh *h, uint8_t *buf);
const char *atomiceth_format(const struct atomiceth *h, char *buf, size_t len);
const char *atomicacketh_format(const struct atomicacketh *h, char *buf, size_t len);
