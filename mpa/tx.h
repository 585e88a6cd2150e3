// MPA send side: ULPDUs become FPDUs in a batch, one iovec array for one sendmsg.
//
// The octets that MPA and DDP add (length, header, markers, pad, CRC) lie in the batch's arena.
// Payload is referenced where the user has it, or copied into the arena: when the caller asks for
// it (the memory may change before TCP has read it), when it is short, and when markers must be put
// between its octets. What is lent is referenced too, as long as nobody holds it against a CRC, and
// copied only as far as it cannot be written at once. What lies side by side in the arena is one
// iovec element, across FPDUs too.
//
// No I/O, no allocation; one thread at a time per object.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/span.h"
#include "wire/mpa.h"

enum {
    MPA_BATCH_IOV_MAX = 256, // elements in one batch
    MPA_TX_HEADER_MAX = 96,  // octets of DDP header and fixed RDMAP header together
    MPA_TX_COPY_BELOW = 512, // payload up to this is always copied
};

struct mpa_batch {
    uint8_t *arena;
    size_t arena_capacity;
    size_t arena_len;
    size_t lent_len;    // kept free behind it, for what is lent
    size_t octets_left; // not yet written
    bool record_per_fpdu;
    unsigned iov_first; // elements before it are written
    unsigned iov_count;
    unsigned record_first; // record_per_fpdu: records before it are written
    unsigned record_count;
    uint16_t record_end[MPA_BATCH_IOV_MAX]; // element behind the record
    struct iovec iov[MPA_BATCH_IOV_MAX];
    bool is_lent[MPA_BATCH_IOV_MAX]; // of each element, while lent_len > 0
};

// An empty batch over `arena`, which must live as long as the batch and should hold a few of the
// longest FPDUs (MPA_FPDU_MAX_LEN each, with markers 520 more). `record_per_fpdu`: FPDUs share no
// element, and each is a record (towards peers that need one send with MSG_EOR per FPDU).
void mpa_batch_init(struct mpa_batch *b, struct mspan arena, bool record_per_fpdu);

static inline bool mpa_batch_is_empty(const struct mpa_batch *b)
{
    return b->octets_left == 0;
}

// The elements that are to be written, `*ret_count` of them. Valid until the batch changes.
static inline struct iovec *mpa_batch_iov(struct mpa_batch *b, unsigned *ret_count)
{
    *ret_count = b->iov_count - b->iov_first;
    return b->iov + b->iov_first;
}

// record_per_fpdu only: how many records are not wholly written ...
static inline unsigned mpa_batch_record_count(const struct mpa_batch *b)
{
    return b->record_count - b->record_first;
}

// ... and the elements of the one with this index among them, what is left of it.
struct iovec *mpa_batch_record(struct mpa_batch *b, unsigned index, unsigned *ret_count);

// `written` octets have gone to TCP. An empty batch starts anew: its arena is free again.
void mpa_batch_advance(struct mpa_batch *b, size_t written);

// What is lent and not written is copied: its memory may go.
void mpa_batch_own(struct mpa_batch *b);

// Forgets everything that is not written, when the connection is over.
void mpa_batch_clear(struct mpa_batch *b);

// Stops the program unless the invariants hold.
void mpa_batch_check(const struct mpa_batch *b);

#define MPA_TX_COUNTERS(X)                                             \
    X(fpdus, "FPDUs put into a batch")                                 \
    X(octets, "octets of the stream in these FPDUs, markers included") \
    X(markers, "markers inserted")                                     \
    X(copied, "FPDUs whose payload was copied")

struct mpa_tx_counters {
#define X(name, text) uint64_t name;
    MPA_TX_COUNTERS(X)
#undef X
};

struct mpa_tx {
    bool crc;
    bool markers;
    size_t mulpdu;     // longest ULPDU that the layer above should make
    uint64_t position; // octets of the stream so far, markers included
    struct mpa_tx_counters counters;
};

// `mulpdu`: mpa_mulpdu(emss, markers) towards foreign peers; mpa_tx_mulpdu_max(markers) between
// weft ends. Where markers may be agreed on later, it is that with markers.
void mpa_tx_init(struct mpa_tx *tx, bool crc, bool markers, size_t mulpdu);

// The longest ULPDU that MPA can carry; with markers the 16 bits of FPDUPTR limit it further.
size_t mpa_tx_mulpdu_max(bool markers);

// Before the first FPDU: markers were agreed on after all, as `mulpdu` has it.
void mpa_tx_use_markers(struct mpa_tx *tx);
// Before the first FPDU: the peer is one that takes such ULPDUs.
void mpa_tx_use_mulpdu(struct mpa_tx *tx, size_t mulpdu);

enum mpa_payload {
    MPA_PAYLOAD_REFERENCE, // read where it is, by TCP, until the batch has been written
    MPA_PAYLOAD_COPY,      // done with when mpa_tx_put returns
    MPA_PAYLOAD_LENT,      // may change; read until mpa_batch_own, which is called before it may go
};

// Whether mpa_tx_put may be called for a ULPDU of `ulpdu_len` octets in `piece_count` pieces.
bool mpa_tx_has_room(const struct mpa_tx *tx, const struct mpa_batch *b, size_t ulpdu_len,
                     unsigned piece_count, enum mpa_payload payload);

// Frames one ULPDU: `header` (at most MPA_TX_HEADER_MAX octets, always copied), then the payload in
// `pieces`. There must be room. Returns the stream position behind the FPDU.
uint64_t mpa_tx_put(struct mpa_tx *tx, struct mpa_batch *b, struct span header,
                    const struct span *pieces, unsigned piece_count, enum mpa_payload payload);
