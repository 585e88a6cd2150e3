// What crosses between MPA and DDP. Up: one whole ULPDU at a time, its CRC already good, in order
// or beyond a hole of the stream. Down: one ULPDU at a time, into whatever MPA batches.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/port_place.h"
#include "base/port_push.h"
#include "base/span.h"

enum { MULPDU_MIN = 128 }; // RFC 5044 section 4.5: however short the peer's segments are

enum ulpdu_answer {
    ULPDU_TAKEN, // done with its octets; the next one may come
    ULPDU_STALL, // not taken, nothing done: the same ULPDU is offered again later
    ULPDU_STOP,  // taken, and the stream ends here: nothing more is handed up
};

struct ulpdu_port {
    // `ulpdu` is contiguous, at most 65535 octets, and readable during the call only.
    enum ulpdu_answer (*on_ulpdu)(void *ctx, struct span ulpdu);

    // Streams that place beyond holes only; else NULL.
    //
    // A ULPDU that lies beyond a hole, whose FPDU ends at `end` in the full operation phase.
    // PLACED: its octets are where they belong, and `counts` says what it holds back. Otherwise
    // nothing is done: it is to come again in order (BUFFER), or from the peer (DROP).
    enum place_verdict (*on_early_ulpdu)(void *ctx, struct span ulpdu, uint64_t end,
                                         struct place_counts *counts);
    // Everything before `end` is there now, and what early ULPDUs behind the last in order hold
    // back is `counts`: deliver it. False: not now; to be called again, and nothing before that.
    bool (*on_advance)(void *ctx, uint64_t end, const struct place_counts *counts);
    void *ctx;
};

struct ulpdu_sink {
    // May `put` be called for a ULPDU of `ulpdu_len` octets, its payload in `piece_count` pieces?
    bool (*has_room)(void *ctx, size_t ulpdu_len, unsigned piece_count);
    // Takes a ULPDU: `header` (copied), then the pieces in order, none of them empty. The octets in
    // the pieces stay as they are until the transport has taken them. With `is_lent` they may
    // change at any time, and can be read no longer than what called for output has the lock: what
    // is sent behind that is a copy, and a CRC is always that of what is sent. Returns the stream
    // position behind the FPDU: it grows from call to call.
    uint64_t (*put)(void *ctx, struct span header, const struct span *pieces, unsigned piece_count,
                    bool is_lent);
    void *ctx;
    // A whole Write past the stream, or what a Read asks for, behind all that was put (struct
    // push_ops). NULL: none goes so. What has begun is copied outside of this call, and of the
    // caller's; what begins in the same call of the caller's is copied together.
    enum past_answer (*push)(void *ctx, const struct push *push);
    enum past_answer (*pull)(void *ctx, const struct pull *pull);
};

// How a stream ended, as what stands on it is told.
enum qp_close_reason {
    QP_CLOSE_PEER,    // the peer's FIN, between two FPDUs
    QP_CLOSE_RESET,   // the peer's reset, or an end inside an FPDU
    QP_CLOSE_TIMEOUT, // the peer has been silent for too long
    QP_CLOSE_LOCAL,   // this side closed or aborted
    QP_CLOSE_REASON_COUNT,
};
