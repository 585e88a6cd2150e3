// Which of two ways to move many octets is faster, where that depends on the machine, and on which
// of its processors both ends run: it is measured, now and then.
//
//   settled    one way, for long
//   trial      both ways in turn, FASTER_STRETCHES stretches in all; what is moved at the beginning
//              of each is not measured, as what went the other way is still under way
//
// The fastest stretch of a way counts, since pauses and other programs only make one slower. The
// other way is settled for if it was faster by an eighth; if not, the next trial is twice as far
// away. The clock is looked at twice in a stretch, and not at all while settled. A way that costs
// something else beside time has a toll to make good.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

enum {
    FASTER_STRETCHES = 8,          // of a trial
    FASTER_LEAD_LEN = 512 << 10,   // octets of a stretch before those that are measured
    FASTER_MEASURED_LEN = 1 << 20, // ... and those
    FASTER_SETTLED_MIN = 64 << 20, // octets between two trials
    FASTER_SETTLED_MAX = 1024 << 20,
};

enum faster_phase { FASTER_SETTLED, FASTER_LEADS, FASTER_MEASURES };

// Zeroed: by way 0, and the first octets begin a trial. Each connection has one, so it is small.
struct faster {
    uint8_t way; // 0 or 1: by which octets go now
    uint8_t settled_way;
    uint8_t phase;   // enum faster_phase
    uint8_t stretch; // of the trial
    uint32_t toll;   // what way 1 takes counts for so many sixteenths more
    uint32_t moved_len, phase_len;
    uint32_t settled_len; // octets from the last trial to the next; 0: there was none
    uint32_t change_count;
    uint32_t best_ns[2]; // of the trial, by each way: for 4 KiB; 0: none yet
    instant_ns begun_ns; // the measured part of a stretch
};

// So many octets have gone by f->way. True: a phase is over, faster_on_phase_end follows.
static inline bool faster_note(struct faster *f, uint32_t len)
{
    f->moved_len += len < FASTER_SETTLED_MAX ? len : FASTER_SETTLED_MAX;
    return f->moved_len >= f->phase_len;
}

void faster_on_phase_end(struct faster *f, instant_ns now);
// What is moved next does not follow what was moved last: a stretch that has begun begins again.
void faster_on_pause(struct faster *f);
