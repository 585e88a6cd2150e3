// Posts that wait for company. A system call for each costs more than the octets of a short message
// do, and wakes the peer as often; so posts that come one close behind the other leave together.
//
// A *look* is a poll that finds nothing, or arming: it sends what waits. A post waits for it if
//
//   - the queue pair has posted since the last look: who posts one message and waits for what comes
//     of it has it sent at once;
//   - the program is known to come back soon: behind so many posts in a row the next or a look came
//     within GATHERING_SOON_NS. Who posts and then spins on memory never gets there;
//   - fewer than GATHERING_COUNT_MAX of the queue pair wait, the first for less than
//     GATHERING_WAIT_MAX_NS;
//   - the thread is awake, or will be within GATHERING_REACH_NS, since a program may change its
//     ways: then the thread sends what waits, and it takes twice as many posts until one may wait
//     again.
//
// Programs' threads ask without a lock: what they see of each other may be old, and costs a guess.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/time.h"

#define GATHERING_SOON_NS     (4 * NS_PER_US)
#define GATHERING_WAIT_MAX_NS (20 * NS_PER_US)
#define GATHERING_REACH_NS    (200 * NS_PER_US)
// A program that the thread finds away for less may be so because the thread has its core.
#define GATHERING_AWAY_NS (100 * NS_PER_US)
// Behind the last post for so long the thread stays within reach.
#define GATHERING_IDLE_NS (1 * NS_PER_MS)

enum {
    GATHERING_COUNT_MAX = 64,
    GATHERING_TRUST_MIN = 16,      // posts in a row behind which the program came back soon ...
    GATHERING_TRUST_MAX = 1 << 20, // ... twice as many each time that it did not
    GATHERING_FORGIVEN = 1024,     // ... and half as many each time that it did so often in a row
};

// Of all queue pairs of a shard.
struct gathering {
    _Atomic instant_ns left_at_ns; // the last post was over
    atomic_uint round;             // grows with each look behind a post
    atomic_uint soon_count;        // in a row
    atomic_uint trusted_from;      // so many of them
    atomic_uint post_count;        // in this round: 0, 1, or more
    atomic_bool has_waiting;
};

struct gathering_queue {
    atomic_uint round; // of its last post
    atomic_uint count; // that wait
    _Atomic instant_ns since_ns;
};

void gathering_init(struct gathering *g);

// A post of this queue pair. True: the first of all behind a look. It is sent at once, and nobody
// asks for the time: a round trip would pay for that.
bool gathering_begins(struct gathering *g, struct gathering_queue *queue);
// Any other: may it wait? The thread is the caller's to ask.
bool gathering_may_wait(struct gathering *g, struct gathering_queue *queue, instant_ns now);
// Behind it: it waits, or was sent; that is noted if it is timed.
void gathering_note_waiting(struct gathering *g, instant_ns now);
bool gathering_is_timed(const struct gathering *g);
void gathering_note_sent(struct gathering *g, instant_ns now);

void gathering_on_look(struct gathering *g, instant_ns now);
// All that waits is being sent, whoever does it.
void gathering_on_served(struct gathering *g);
// The thread finds posts that wait.
void gathering_on_found(struct gathering *g, instant_ns now);

bool gathering_has_waiting(const struct gathering *g);
// Posts may come that wait for the thread: it is to stay within reach.
bool gathering_is_likely(const struct gathering *g, instant_ns now);
