#include "node/rta/dma.h"

#include "base/check.h"
#include "node/interface/request.h"

void dma_init(struct dma *dma, void *pool, uint64_t pool_len)
{
    *dma = (struct dma){.pool = pool, .pool_len = pool_len};
}

bool dma_obtain(struct dma *dma, const struct frame *request, void **ret_data)
{
    *ret_data = NULL;
    if (request->buffer_len == 0) {
        return true;
    }
    if (!node_range_is_within(request->buffer_offset, request->buffer_len, dma->pool_len)) {
        return false;
    }
    *ret_data = dma->pool + request->buffer_offset;
    dma->held_count++;
    dma->held_len += request->buffer_len;
    return true;
}

void dma_fill(const struct frame *request, uint32_t answer_len, struct frame *result)
{
    CHECK(answer_len <= request->buffer_len);
    result->buffer_offset = request->buffer_offset;
    result->buffer_len = answer_len;
}

void dma_release(struct dma *dma, const struct frame *request)
{
    if (request->buffer_len > 0) {
        CHECK(dma->held_count > 0);
        dma->held_count--;
        dma->held_len -= request->buffer_len;
    }
}
