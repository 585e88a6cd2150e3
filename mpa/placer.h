// MPA's end of the receive port of TCP (base/port_place.h): octets in order go to mpa/rx; octets
// beyond a hole become ULPDUs too, where the FPDU around them can be told.
//
//   with markers     a marker says where an FPDU begins (RFC 5044 section 4.3)
//   without          an FPDU begins where a segment does, if the lengths in it lead to its end and
//                    the CRC is right (RFC 5044 appendix A.3); then also where the one before ends
//   neither          without CRC as well: octets wait in TCP and are looked at in order
//
// What is not a whole FPDU of certain place waits in TCP's buffer (PLACE_BUFFER). A wrong CRC is no
// reason to end the stream yet: the octets are not acknowledged, and the peer sends them again.
//
// If a guess was wrong after all, or the peer meant it so, octets in order will not end where the
// ones placed begin: the stream ends with MPA_RX_MARKER, length and place do not agree.
//
// When the layer above can take again the ULPDU that it did not take, offer it with mpa_rx_on_input
// and no octets, then resume the transport.
//
// No I/O; one thread at a time per object.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/port_place.h"
#include "base/span.h"
#include "mpa/rx.h"

const char *mpa_placement_name(enum placement placement); // "early" ...

#define MPA_PLACER_COUNTERS(X)                                                        \
    X(early_fpdus, "FPDUs placed beyond a hole")                                      \
    X(early_octets, "octets of the stream in these FPDUs")                            \
    X(early_buffered, "pieces beyond a hole in which no FPDU could be told")          \
    X(early_unwanted, "FPDUs beyond a hole that the layer above wants in order")      \
    X(early_dropped, "FPDUs beyond a hole that the layer above had no room for")      \
    X(early_crc_errors, "FPDUs beyond a hole with a wrong CRC: the peer sends again") \
    X(advances, "holes closed before FPDUs placed early")                             \
    X(misplaced, "streams ended: octets in order did not lead up to the placed ones")

struct mpa_placer_counters {
#define X(name, text) uint64_t name;
    MPA_PLACER_COUNTERS(X)
#undef X
};

struct mpa_placer {
    struct mpa_rx *rx;
    enum placement placement;
    uint64_t base;     // position of the full operation phase's first octet in the stream
    uint64_t boundary; // in that phase: here the last FPDU placed early, or refused, ends
    uint8_t *scratch;  // for ULPDUs that markers part
    struct mpa_placer_counters counters;
};

// `rx` is in full operation: `position` is that of the next octet in TCP's stream. `scratch` has
// room for MPA_ULPDU_MAX_LEN octets and may be shared, it is used during a call only.
void mpa_placer_init(struct mpa_placer *placer, struct mpa_rx *rx, enum placement placement,
                     uint64_t position, struct mspan scratch);

// The functions of the port; `ctx` is the placer. Whether the stream has ended with an error is to
// be seen in rx->verdict: then whatever comes is thrown away.
struct place_port mpa_placer_port(struct mpa_placer *placer);

// Stops the program unless the invariants hold.
void mpa_placer_check(const struct mpa_placer *placer);
