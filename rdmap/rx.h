// RDMAP receive side. A segment is checked first (nothing changes), then placed by one of the
// rdmap_place_ functions, then accepted: the stream moves on. What its last segment delivers is the
// queue pair's to do, with the facts of the arrival.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "ddp/place.h"
#include "ddp/rx.h"
#include "rdmap/refusal.h"
#include "rdmap/stream.h"
#include "wire/extension.h"
#include "wire/oneshot.h"
#include "wire/rdmap.h"

struct rdmap_arrival {
    enum rdmap_opcode opcode; // a marked Send is RDMAP_SEND or RDMAP_SEND_SE in either encoding
    enum oneshot_mark mark;   // `send_stag` is advertised, or closed
    bool is_first;            // untagged: the message begins here
    bool is_last;             // the message ends here
    bool is_solicited;        // the peer wants a solicited event
    bool invalidates;         // `send_stag` is to be invalidated
    bool has_immediate;       // `immediate` counts
    bool has_reference;       // `reference` was found in the message: queue pairs see to that
    uint32_t send_stag;       // Sends: what the header's STag field holds
    uint32_t immediate;       // as it came, network order
    uint64_t reference;
    uint32_t msn, mo;     // untagged
    uint32_t stag;        // tagged
    uint64_t to;          // tagged
    uint64_t written_len; // Immediate Data: octets of the Write that it follows
    struct span payload;  // behind the DDP header
    struct ddp_segment segment;
};

// Validates DDP's fields, then the RDMAP version and opcode, then what the opcode fixes (RFC 5040
// section 7.2). Memory and buffers are not looked at yet. `*ret` holds if RDMAP_ACCEPTED.
enum rdmap_refusal rdmap_rx_check(const struct rdmap_stream *stream, struct span ulpdu,
                                  struct rdmap_arrival *ret);

// The same for a segment beyond a hole (rdmap/early.h).
enum rdmap_refusal rdmap_rx_check_early(const struct rdmap_stream *stream, struct span ulpdu,
                                        struct rdmap_arrival *ret);

// The arrival was taken. Fills in what only the stream knows (`written_len`).
void rdmap_rx_accept(struct rdmap_stream *stream, struct rdmap_arrival *arrival);

/* ---- placement ------------------------------------------------------------------------------- */

enum rdmap_refusal rdmap_place_write(struct rdmap_stream *stream,
                                     const struct rdmap_arrival *arrival);

// What a Read Response must continue.
struct rdmap_expected_response {
    uint32_t sink_stag;
    uint64_t sink_to;
    uint32_t length;      // octets that it may fill: RDMARDSZ, or less where the responder cuts
    uint32_t arrived_len; // of it so far
    uint32_t least_len;   // with how many it may end: `length`, or less where it is cut
};
enum rdmap_refusal rdmap_place_response(struct rdmap_stream *stream,
                                        const struct rdmap_arrival *arrival,
                                        const struct rdmap_expected_response *expected);

/* ---- what requests ask for ------------------------------------------------------------------- */

// The memory that a Read Request names, to be read; `len` > 0. At most SGE_COUNT_MAX pieces, which
// together may be less than `len`: what is behind them is asked for by itself.
enum rdmap_refusal rdmap_request_memory(const struct rdmap_stream *stream, uint32_t stag,
                                        uint64_t to, uint64_t len, struct mspan *ret_pieces,
                                        unsigned *ret_count);

// Executes an atomic operation; `*ret_original` is the value before it (RFC 7306 section 5.1;
// atomic.c).
enum rdmap_refusal rdmap_atomic_execute(const struct rdmap_stream *stream,
                                        const struct rdmap_atomic_request *request,
                                        uint64_t *ret_original);

// The content of a Read Request, an atomic request or response, whose length rdmap_rx_check knows.
struct rdmap_read_request rdmap_read_request_of(const struct rdmap_arrival *arrival);
struct rdmap_atomic_request rdmap_atomic_request_of(const struct rdmap_arrival *arrival);
struct rdmap_atomic_response rdmap_atomic_response_of(const struct rdmap_arrival *arrival);
// False: it cannot be understood.
bool rdmap_extension_of(const struct rdmap_arrival *arrival, struct extension_message *ret);

// The peer takes an STag back (Send with Invalidate).
enum rdmap_refusal rdmap_invalidate(const struct rdmap_stream *stream, uint32_t stag);
