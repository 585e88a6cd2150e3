#include "wire/reth.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/bytes.h"

enum roce_parse_verdict reth_parse(struct span octets, struct reth *ret)
{
    if (octets.len < RETH_LEN) {
        return ROCE_PARSE_TOO_SHORT;
    }
    *ret = (struct reth){
        .va = get_be64(octets.ptr + RETH_OFF_VA),
        .rkey = get_be32(octets.ptr + RETH_OFF_RKEY),
        .dma_len = get_be32(octets.ptr + RETH_OFF_DMA_LEN),
    };
    return ROCE_PARSE_OK;
}

size_t reth_emit(const struct reth *h, uint8_t *buf)
{
    put_be64(buf + RETH_OFF_VA, h->va);
    put_be32(buf + RETH_OFF_RKEY, h->rkey);
    put_be32(buf + RETH_OFF_DMA_LEN, h->dma_len);
    return RETH_LEN;
}

const char *reth_format(const struct reth *h, char *buf, size_t len)
{
    snprintf(buf, len, "va=0x%" PRIx64 " rkey=0x%08x dma_len=%u", h->va, h->rkey, h->dma_len);
    return buf;
}
