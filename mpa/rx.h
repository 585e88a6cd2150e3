// MPA receive side: a TCP stream in order becomes ULPDUs. Length and CRC of an FPDU are checked
// before its ULPDU is handed up (RFC 5044 section 6).
//
// An FPDU that lies whole in the input is checked and handed up where it is. One that straddles two
// inputs is collected in the carry buffer, each octet copied once; so are the octets of an FPDU
// with markers inside, since the layer above is to see contiguous ULPDUs.
//
// No I/O; one thread at a time per object.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/port_ulpdu.h"
#include "base/span.h"
#include "mpa/fpdu.h"
#include "wire/mpa.h"
#include "wire/terminate.h"

enum mpa_rx_verdict {
    MPA_RX_OK,      // all input is consumed
    MPA_RX_STALLED, // the layer above did not take an FPDU: offer it again with mpa_rx_on_input
    MPA_RX_STOPPED, // the layer above ended the stream; nothing more is taken
    MPA_RX_CRC,     // an FPDU's CRC is wrong; nothing more is taken
    MPA_RX_MARKER,  // a marker does not point to the start of its FPDU; nothing more is taken
    MPA_RX_VERDICT_COUNT,
};

const char *mpa_rx_verdict_name(enum mpa_rx_verdict verdict);

// TERM_MPA_CRC, TERM_MPA_MARKER, or TERM_NONE.
enum terminate_cause mpa_rx_verdict_cause(enum mpa_rx_verdict verdict);

#define MPA_RX_COUNTERS(X)                                             \
    X(fpdus, "FPDUs taken by the layer above")                         \
    X(octets, "octets of the stream in these FPDUs, markers included") \
    X(markers, "markers received")                                     \
    X(crc_errors, "FPDUs with a wrong CRC")                            \
    X(marker_errors, "FPDUs with a marker that points elsewhere")      \
    X(carried, "FPDUs that were collected in the carry buffer")        \
    X(stalls, "times that the layer above did not take an FPDU")

struct mpa_rx_counters {
#define X(name, text) uint64_t name;
    MPA_RX_COUNTERS(X)
#undef X
};

enum mpa_rx_markers {
    MPA_RX_MARKERS_NONE,
    MPA_RX_MARKERS,
    MPA_RX_MARKERS_IF_SEEN, // the first two octets tell: zero is a marker, since no ULPDU is empty
};

struct mpa_rx {
    struct ulpdu_port port;
    struct mpa_framing framing;
    bool is_framing_open;        // MPA_RX_MARKERS_IF_SEEN, and too few octets have been seen
    enum mpa_rx_verdict verdict; // other than OK and STALLED: the stream has ended

    uint64_t position; // octets of the stream that were consumed, markers included
    uint8_t *carry;    // the current FPDU as it lies in the stream, or the ULPDU that is held
    size_t carry_len;  // octets of that FPDU so far; 0: none is carried
    bool is_held;      // a ULPDU waits to be taken
    struct span held;
    size_t held_fpdu_len; // octets of the stream that it took

    struct mpa_rx_counters counters;
};

// Room for the longest FPDU with its markers.
enum { MPA_RX_CARRY_LEN = MPA_FPDU_MAX_LEN + (MPA_FPDU_MAX_LEN / 508 + 1) * MPA_MARKER_LEN };

// `carry` must have room for MPA_RX_CARRY_LEN octets and live as long as `rx`.
void mpa_rx_init(struct mpa_rx *rx, bool crc, enum mpa_rx_markers markers, struct mspan carry,
                 struct ulpdu_port port);

// Between FPDUs: another buffer of that length, or NULL, which is none until the next input.
void mpa_rx_use_carry(struct mpa_rx *rx, uint8_t *carry);

// Takes the next octets of the stream and hands up the ULPDUs that they complete. With MPA_RX_OK
// all octets are consumed. With MPA_RX_STALLED the FPDU that was not taken is consumed and kept,
// and the octets behind `*ret_consumed` are to be given again; an empty input then offers just that
// FPDU. Otherwise the stream has ended and the same verdict comes for ever.
enum mpa_rx_verdict mpa_rx_on_input(struct mpa_rx *rx, struct span stream, size_t *ret_consumed);

// The same for octets that another process may change while they are looked at, without CRC and
// markers: an FPDU's length is read once, a short ULPDU is copied out as a whole, and of a long one
// the layer above must look at nothing twice. Of an FPDU that is not all there nothing is consumed,
// unless no more can follow side by side (`is_cut`): then it is carried.
enum mpa_rx_verdict mpa_rx_on_lent(struct mpa_rx *rx, struct span stream, bool is_cut,
                                   size_t *ret_consumed);

// The stream ends here, with an error that was found outside: MPA_RX_CRC or MPA_RX_MARKER.
void mpa_rx_end(struct mpa_rx *rx, enum mpa_rx_verdict verdict);

// An FPDU at `position` was taken by the layer above beyond a hole: it counts.
void mpa_rx_note_early(struct mpa_rx *rx, uint64_t position, size_t fpdu_len);

// The peer may have closed here: no FPDU has been begun and none waits.
bool mpa_rx_is_between_fpdus(const struct mpa_rx *rx);

// Stops the program unless the invariants hold.
void mpa_rx_check(const struct mpa_rx *rx);
