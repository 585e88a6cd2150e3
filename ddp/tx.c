#include "ddp/tx.h"

#include "base/check.h"

void ddp_tx_init(struct ddp_tx *tx, const struct ddp_header *header, uint64_t length)
{
    *tx = (struct ddp_tx){.header = *header, .length = length};
}

size_t ddp_tx_emit(struct ddp_tx *tx, size_t len, uint8_t *buf)
{
    CHECK(!tx->is_done);
    CHECK(len <= tx->length - tx->offset);
    tx->header.last = tx->offset + len == tx->length;
    size_t header_len = ddp_header_emit(&tx->header, buf);
    tx->offset += len;
    if (tx->header.tagged) {
        tx->header.to += len;
    } else {
        tx->header.mo += (uint32_t)len;
    }
    tx->is_done = tx->header.last;
    return header_len;
}
