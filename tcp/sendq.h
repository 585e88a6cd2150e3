// What was given to send and is not acknowledged yet: a queue of pieces, each a copy in a ring or a
// reference to the user's memory, some of them the beginning of a record (an FPDU). Segments are
// cut from it, again and again if need be, until TCP says that the octets have arrived.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/carve.h"
#include "tcp/seq.h"

struct tcp_piece {
    tcp_seq seq; // of its first octet
    const uint8_t *octets;
    uint32_t len;
    bool is_copy;
    bool starts_record;
};

#define TCP_SENDQ_NO_HINT UINT_MAX

struct tcp_sendq {
    tcp_seq begin; // the first octet that is kept
    tcp_seq end;   // behind the last

    struct tcp_piece *piece; // a ring
    unsigned piece_first, piece_count, piece_max;

    uint8_t *copies; // a ring
    uint32_t copies_first, copies_len, copies_max;
};

// Its rings lie in `memory`. An empty one begins at its beginning again: of a connection that never
// has much to send not more is touched.
void tcp_sendq_init(struct tcp_sendq *q, uint32_t copies_max, unsigned piece_max,
                    struct carve *memory);

// The first octet will have this sequence number. The queue must be empty.
void tcp_sendq_begin(struct tcp_sendq *q, tcp_seq seq);

size_t tcp_sendq_room(const struct tcp_sendq *q, unsigned piece_count, unsigned flags);
// As tcp_send.
size_t tcp_sendq_put(struct tcp_sendq *q, const struct iovec *iov, unsigned iov_count,
                     unsigned flags);

// Forgets what stands before `seq`.
void tcp_sendq_ack(struct tcp_sendq *q, tcp_seq seq);

// How long a segment that begins at `seq` should be, `limit` octets at most: up to the end of the
// queue if that fits, else up to the last beginning of a record within the limit, else `limit`.
// `*hint` makes a row of cuts, each behind the one before, cost no search but the first; it begins
// as TCP_SENDQ_NO_HINT and is worth nothing once the queue has changed.
uint32_t tcp_sendq_cut(const struct tcp_sendq *q, tcp_seq seq, uint32_t limit, unsigned *hint);

// Where `len` octets from `seq` on lie. Returns how many of them `*iov_count` elements (at most)
// hold, and sets `*iov_count` to how many were filled.
uint32_t tcp_sendq_gather(const struct tcp_sendq *q, tcp_seq seq, uint32_t len, struct iovec *iov,
                          unsigned *iov_count);

void tcp_sendq_check(const struct tcp_sendq *q);
