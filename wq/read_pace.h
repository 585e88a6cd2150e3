// How many octets a reader must have asked for so that the pipe to its peer stays full: what it
// gets per time, multiplied by the time that an answer needs. Both are measured on the answers;
// numbers in, a number out.
//
// What is measured under a limit never exceeds the limit, so twice the product is allowed: behind a
// long pipe the limit doubles with every round trip until the rate grows no more.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

// How long a request should last where nobody is kept waiting by it: what each further one costs,
// some microseconds, is little beside that.
enum { READ_LASTS_NS = 200000 };

struct read_pace {
    uint64_t delivered_len;   // octets answered since the start
    duration_ns rtt_ns;       // shortest time to a first octet, lately; 0: none measured
    duration_ns rtt_next_ns;  // ... in the window that runs
    instant_ns rtt_window_ns; // when that window began
    uint64_t pipe_len;        // twice rate * RTT, by the last answers
};

// The first octet of the answer to a request that was issued at `issued_ns`. Only who was alone may
// say that the way has become longer: behind others the queue is measured too, which grows with the
// limit.
void read_pace_on_first_octet(struct read_pace *pace, instant_ns issued_ns, bool is_alone,
                              instant_ns now);
// `len` octets were answered, to a request that was issued when `delivered_len` stood at
// `delivered_then_len`.
void read_pace_on_answer(struct read_pace *pace, uint32_t len, uint64_t delivered_then_len,
                         instant_ns issued_ns, instant_ns now);
// Behind that: what comes in READ_LASTS_NS, by this answer.
uint64_t read_pace_lasting_len(const struct read_pace *pace, uint64_t delivered_then_len,
                               instant_ns issued_ns, instant_ns now);
