// The DMA manager of an RTA: obtains the buffers that requests bring with them from the shared
// pool, holds them while a device may read or write there, has the message frame say where the
// valid data are before it goes back, and releases them when the CTA says that the client has what
// it wanted.
//
// The books of the pool are the CTA's: here is only checked that a buffer lies within the pool, and
// counted what is held, so that a buffer that was never released is seen: in weft status, and in
// what a drained RTA says at its end.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/interface/cta_rta.h"

struct dma {
    uint8_t *pool;
    uint64_t pool_len;
    uint64_t held_count; // buffers
    uint64_t held_len;   // octets
};

void dma_init(struct dma *dma, void *pool, uint64_t pool_len);

// The buffer that a request was lent. False: it is not within the pool. A request without a buffer
// obtains NULL.
bool dma_obtain(struct dma *dma, const struct frame *request, void **ret_data);

// A result's reference to what the device put into the buffer.
void dma_fill(const struct frame *request, uint32_t answer_len, struct frame *result);

void dma_release(struct dma *dma, const struct frame *request);
