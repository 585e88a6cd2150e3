// One FPDU as it lies in the stream (RFC 5044 sections 4.1 to 4.4):
//
//     [marker] ULPDU length, ULPDU, pad, CRC          markers in between, every 512 octets
//
// A marker just before the length field belongs to the FPDU; all lengths here count markers in. No
// state: the position in the stream of the full operation phase goes in, a length or a verdict
// comes out. So octets in order and octets beyond a hole go through the same functions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "wire/mpa.h"

// What the two sides agreed on for one direction.
struct mpa_framing {
    bool crc;     // the CRC field counts
    bool markers; // they come
};

// Octets up to and including the ULPDU length of an FPDU that begins at `position`.
static inline size_t mpa_fpdu_head_len(struct mpa_framing framing, uint64_t position)
{
    bool is_led = framing.markers && position % MPA_MARKER_INTERVAL == 0;
    return (is_led ? MPA_MARKER_LEN : 0) + MPA_LENGTH_LEN;
}

// The length of the FPDU that begins at `position` with these octets; 0: its head is not all there.
size_t mpa_fpdu_measure(struct mpa_framing framing, uint64_t position, struct span octets);

enum mpa_fpdu_verdict {
    MPA_FPDU_OK,
    MPA_FPDU_CRC,    // the CRC is wrong: octets were changed
    MPA_FPDU_MARKER, // a marker does not point to the start of this FPDU
};

// Checks a whole FPDU, CRC first, which may be the very reason for a wrong marker (RFC 5044
// section 8, code 3). With MPA_FPDU_OK `*ret_ulpdu` is the ULPDU, contiguous: where it lies, or if
// markers part it, copied to `into`, which has room for it and may be the FPDU's own memory.
enum mpa_fpdu_verdict mpa_fpdu_unwrap(struct mpa_framing framing, uint64_t position,
                                      struct span fpdu, uint8_t *into, struct span *ret_ulpdu);

// Markers in an FPDU of `fpdu_len` octets at `position`.
unsigned mpa_fpdu_marker_count(uint64_t position, size_t fpdu_len);

// Where in `octets`, which need not begin with an FPDU, the first one begins that a marker points
// to. Nothing but the sender's MPA can have written that marker: payload never stands in its place.
// False: no marker in them tells.
bool mpa_fpdu_find(uint64_t position, struct span octets, size_t *ret_offset);
