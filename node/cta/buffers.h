// The books of a part of the pool: which octets are free, in the CTA's private memory. A buddy
// allocator, so that requests of any size up to NODE_TRANSFER_MAX get one run of octets, and free
// ones join again. What was released last is taken first: it is warm.
//
// Memory: taken in create. One thread at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/interface/request.h"

enum { BUFFERS_UNIT_LEN = 4096 };

struct buffers;

// `pool_len`: a multiple of NODE_TRANSFER_MAX. NULL without memory.
struct buffers *buffers_create(uint64_t pool_len);
void buffers_destroy(struct buffers *buffers);

// A buffer of `len` octets, 1 .. NODE_TRANSFER_MAX, at a multiple of BUFFERS_UNIT_LEN. False: none
// is free.
bool buffers_obtain(struct buffers *buffers, uint32_t len, struct node_buffer *ret);

// How many octets of the pool a buffer of `len` octets takes.
uint64_t buffers_run_len(uint32_t len);

// Gives back what buffers_obtain gave.
void buffers_release(struct buffers *buffers, struct node_buffer buffer);

// Octets that are taken, in whole units.
uint64_t buffers_taken_len(const struct buffers *buffers);

// What is free in runs of at least so many octets.
void buffers_each_free(const struct buffers *buffers, uint32_t least_len,
                       void (*on_free)(void *ctx, uint64_t offset, uint64_t len), void *ctx);

// Verifies the books; costs a walk over all of them.
bool buffers_check(const struct buffers *buffers);
