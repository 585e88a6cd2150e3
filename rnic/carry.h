// Carry buffers of MPA: where an FPDU that comes in pieces is collected. An endpoint has one while
// it waits for the rest of an FPDU, and none while it is idle; a shard keeps some that nobody uses.
#pragma once

#include <stdint.h>

#include "base/list.h"
#include "mpa/rx.h"

struct shard;

struct fpdu_carry {
    struct list_link idle_link;
    uint8_t octets[MPA_RX_CARRY_LEN];
};

// Lock held. NULL: no memory; and back.
struct fpdu_carry *shard_carry_borrow(struct shard *shard);
void shard_carry_return(struct shard *shard, struct fpdu_carry *carry);
// At the end of the shard: none is borrowed.
void shard_carries_free(struct shard *shard);
