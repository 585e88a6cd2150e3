// Cuts a batch of TCP segments (tcp/tcp.h) into its segments, or runs of them.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tcp/tcp.h"

struct net_cut {
    const struct tcp_batch *batch;
    unsigned next;           // segment
    const struct iovec *iov; // where its payload begins ...
    size_t skip;             // ... behind so many octets of that
};

// One or more segments. The payload lies where the batch's lies.
struct net_piece {
    struct tcp_header header;
    unsigned segment_count;
    size_t payload_len;
    struct iovec iov[TCP_BATCH_IOV_MAX];
    unsigned iov_count;
};

void net_cut_init(struct net_cut *cut, const struct tcp_batch *batch);
// The next segments, at most `count`; false: there are no more.
bool net_cut_next(struct net_cut *cut, unsigned count, struct net_piece *ret);
// A piece as a batch of its own; it refers to `piece`.
struct tcp_batch net_piece_batch(const struct net_piece *piece, const struct tcp_batch *of);
// The checksum of one segment whose header, with a checksum of 0, is `header`.
uint16_t net_piece_checksum(const struct net_piece *piece, struct span header, uint64_t pseudo_sum);
