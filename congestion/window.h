// How much a sender may have in the network, and how fast it may send: numbers in, a window and a
// pace out. It knows no packet and no connection; what counts is packets, and time. What all of a
// device may have together is congestion/share.h.
//
//     in   congestion_on_sent, _on_ack, _on_rtt, _on_loss, _on_timeout, _on_cnp, congestion_limit
//     out  congestion_window        packets that may be unacknowledged
//          congestion_not_before    when the next may leave
//          congestion_ack_interval  how many may leave until one asks for an acknowledgement
//          congestion_timeout       how long to wait for one
//
// The window follows delay, in the manner of Swift (Kumar and others, SIGCOMM 2020): what a packet
// waits in queues is what its round trip takes longer than the shortest. Once in a round trip:
// below a target the window grows by one packet; above it the window is cut to what empties the
// queue, so that all who share it see the shortest round trip, and the same one. A queue that does
// not empty is filled by somebody who goes by loss alone, and before whom a window by delay would
// vanish: then it goes by loss too, for a while. docs/roce.md has the figures.
//
//     SLOW_START --threshold, loss, CNP, or a long wait in queues--> AVOIDANCE
//     AVOIDANCE  --cut by delay twice, and the queue still stood---> COMPETING
//     COMPETING  --so many losses, or the queue is empty-----------> AVOIDANCE
//     any        --time-out----------------------------------------> SLOW_START, to half the window
//
// Who drives it keeps to three rules. A round trip is measured from a packet that was sent once. A
// loss is told before anything is sent again. A packet counts as sent each time it is.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

enum {
    CONGESTION_WINDOW_INITIAL = 10,
    CONGESTION_WINDOW_STRANGER = 128, // what others are known to bear: rxe itself has as many
    CONGESTION_ACK_INTERVAL_MAX = 16,
};
#define CONGESTION_TARGET_NS (50 * NS_PER_US)

struct congestion_config {
    duration_ns target_ns; // of waiting in queues; 0: CONGESTION_TARGET_NS
    uint32_t window_max;   // packets; 0: CONGESTION_WINDOW_STRANGER
    bool has_no_line;      // within one host there are no queues but the receiver's buffer: what
                           // takes long waits for a processor, and loss alone counts
};

enum congestion_phase {
    CONGESTION_SLOW_START, // grows by one packet per packet acknowledged
    CONGESTION_AVOIDANCE,  // by one per round trip; cut by delay and by loss
    CONGESTION_COMPETING,  // by one per round trip; cut by loss
    CONGESTION_PHASE_COUNT,
};

struct congestion {
    struct congestion_config config;
    enum congestion_phase phase;
    uint32_t limit;        // packets: what others leave of the receiver's buffer
    double window;         // packets; a fraction below one is held to by pacing
    double threshold;      // slow start ends here
    unsigned timeouts;     // since something was acknowledged
    instant_ns not_before; // when the next packet is due at this pace

    duration_ns srtt_ns;                   // 0: no sample yet
    duration_ns least_ns, least_before_ns; // the shortest of this epoch, and of the one before
    instant_ns epoch_began;
    duration_ns round_ns; // the shortest of this round trip; INSTANT_NEVER: no sample yet
    instant_ns round_began;
    bool is_above_target; // so was the last round trip
    bool was_limited;     // window or pace held the sender back in this one

    bool was_cut; // ever
    instant_ns cut_at;
    double window_before;     // ... the cut by delay that is being judged
    unsigned rounds_to_judge; // until the queue should be empty; 0: nothing to judge
    unsigned strikes;         // cuts by delay in a row that did not empty it
    unsigned losses_left;     // COMPETING: until delay is tried again
};

// The window is CONGESTION_WINDOW_INITIAL, or window_max if that is less.
void congestion_init(struct congestion *c, const struct congestion_config *config);

/* ---- in -------------------------------------------------------------------------------------- */

// So many packets leave now.
void congestion_on_sent(struct congestion *c, uint32_t packets, instant_ns now);
// So many packets are newly acknowledged. `is_limited`: window or pace held the sender back;
// otherwise a window of one and more does not grow, nor does delay cut it.
void congestion_on_ack(struct congestion *c, uint32_t packets, bool is_limited);
// A packet that was sent once was acknowledged this long after it left. What no clock can have
// measured (0, or longer than there has been time) is passed over.
void congestion_on_rtt(struct congestion *c, duration_ns sample_ns, instant_ns now);
// Packets are missing at the peer. Counts once per round trip.
void congestion_on_loss(struct congestion *c, instant_ns now);
// Nothing was heard for congestion_timeout.
void congestion_on_timeout(struct congestion *c, instant_ns now);
// A packet of ours was marked on its way. Counts once per round trip.
void congestion_on_cnp(struct congestion *c, instant_ns now);

// It bears more than was known when it began: the window may grow to so many packets.
void congestion_widen(struct congestion *c, uint32_t window_max);
// At most so many packets, 1 at least, whatever the network bears: the window is as it was when the
// limit goes.
void congestion_limit(struct congestion *c, uint32_t packets);

/* ---- out ------------------------------------------------------------------------------------- */

// At least 1, at most window_max and the limit.
uint32_t congestion_window(const struct congestion *c);

// Nothing leaves before. A window leaves a little faster than one per shortest round trip; below a
// window of one, a packet takes the present round trip and more. What was due on the average may
// leave together, so that they share a system call: as many packets as the ACK interval, or what is
// due in 5 us. Where there is no line a window of one and more is not paced.
instant_ns congestion_not_before(const struct congestion *c);

// Is each packet to be asked for anew, since the next may not leave at once?
bool congestion_is_paced(const struct congestion *c);

// Every so many packets one asks for an acknowledgement: four times in a window, so that it moves
// on evenly, and at most CONGESTION_ACK_INTERVAL_MAX.
uint32_t congestion_ack_interval(const struct congestion *c);

// `timeout_ns`, doubled for every time-out since something was acknowledged, six times at most.
duration_ns congestion_timeout(const struct congestion *c, duration_ns timeout_ns);

const char *congestion_phase_name(enum congestion_phase phase);
