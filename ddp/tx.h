// DDP send side: one message is cut into segments, each with its header. What the ULP octets mean
// is not DDP's business.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ddp.h"

struct ddp_tx {
    struct ddp_header header; // of the next segment; `to` and `mo` move with it
    uint64_t length;          // octets of the message
    uint64_t offset;          // octets of it that are in segments already
    bool is_done;             // the last segment has been made
};

// `header`: `to` or `mo` (0) is that of the first octet; `last` is not looked at.
void ddp_tx_init(struct ddp_tx *tx, const struct ddp_header *header, uint64_t length);

// Octets of the message that go into the next segment, when a ULPDU has at most `mulpdu` octets.
static inline size_t ddp_tx_next_len(const struct ddp_tx *tx, size_t mulpdu)
{
    size_t room = mulpdu - ddp_header_len(&tx->header);
    uint64_t left = tx->length - tx->offset;
    return left < room ? (size_t)left : room;
}

// Makes the header of the next segment, which carries the next `len` octets of the message, into
// `buf` (room for DDP_HEADER_MAX_LEN octets); returns its length.
size_t ddp_tx_emit(struct ddp_tx *tx, size_t len, uint8_t *buf);
