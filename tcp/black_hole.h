// Paths that swallow long packets and say nothing: no ICMP message comes through, or none is made
// (RFC 2923 section 2.1). Time-outs in, the segment size out; it knows no connection.
//
// A full-stop time-out (RFC 4821 section 7.7) is taken for one: three time-outs in a row (R1 of
// RFC 9293 section 3.8.3), a second or more from the first to the last, with the same long segment
// in front. Shorter ones leave then, and full ones are tried again later, ever more rarely: a peer
// that merely was away for a while costs some seconds of shorter segments, and a hole that is there
// a full stop each time. There are no probes that search for what fits.
#pragma once

#include <stdint.h>

#include "base/time.h"
#include "tcp/seq.h"

struct tcp_black_hole {
    uint16_t full_mss; // to be tried again at `raise_at`; 0: nothing is amiss
    instant_ns raise_at;
    duration_ns wait_ns; // what it was that last time; 0: there was none
    tcp_seq una;         // of the time-outs in a row,
    unsigned timeouts;   // how many they are,
    instant_ns since;    // and when the first was
};

// A time-out while the segment at `una` is the first outstanding, `segment_len` octets of MSS long.
// Every path takes `least_mss`. Returns the MSS from now on, or 0: it stays `mss`.
uint16_t tcp_black_hole_on_timeout(struct tcp_black_hole *h, tcp_seq una, uint32_t segment_len,
                                   uint16_t mss, uint16_t least_mss, instant_ns now);

// The path has said what it takes.
void tcp_black_hole_on_path_mss(struct tcp_black_hole *h, uint16_t mss);

// The last time-outs were for what was only late: full segments are due at once.
void tcp_black_hole_on_late(struct tcp_black_hole *h);

// Full segments are due again: returns their MSS, or 0.
uint16_t tcp_black_hole_raise(struct tcp_black_hole *h, instant_ns now);
