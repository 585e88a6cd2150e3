// Where the units of an MPA stream end: the start-up frame first, then FPDU after FPDU, with or
// without markers. Wireshark finds an FPDU surely only where it begins a segment. A stream that is
// not MPA has no units: each piece of it is one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "wire/mpa.h"

enum pcap_cut_phase {
    PCAP_CUT_FRAME_HEADER, // the fixed part of the start-up frame
    PCAP_CUT_FRAME,        // its private data
    PCAP_CUT_FPDU_LENGTH,
    PCAP_CUT_FPDU,
    PCAP_CUT_UNKNOWN, // not MPA
};

struct pcap_cut {
    enum pcap_cut_phase phase;
    uint8_t head[MPA_STARTUP_HEADER_LEN];
    size_t head_len;
    size_t left;       // octets of the unit still to come, markers not counted
    uint64_t position; // octets of full operation so far
    bool has_markers;  // the first two octets of full operation were zero: no ULPDU is empty
};

// A direction begins all zero. Goes on to the end of the unit, at most to the end of `in`; returns
// the octets gone over, and whether the unit ended there.
size_t pcap_cut_next(struct pcap_cut *c, struct span in, bool *ret_end);
