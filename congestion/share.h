// What all senders of a device together may have in the network. A receiver has one buffer for all
// that its queue pairs get, so windows that fit one by one need not fit together: neither what is
// sent to a peer, which is taken to have as much as we have, nor the answers to what was asked for,
// which come to us.
//
// Each member is told how many packets its window may have: its part of the room, the same for all
// who have something out, or had lately: all of them may have nothing out for a moment. Where that
// is less than a packet, members wait in line. Numbers are told as totals: what a member has out
// now, whatever it was before.
//
// Of members whose peers are silent nothing comes back, and what they sent lies in no buffer any
// more: if there is no room and nothing has come back for a while, all that is out is written off.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"

#define CONGESTION_WRITE_OFF_NS (100 * NS_PER_MS)

struct congestion_share {
    uint64_t room_len;                        // octets that may be out
    uint64_t out_len;                         // ... that are
    uint32_t active;                          // members that have something out, or wait
    uint32_t most_active, most_active_before; // at a time: in this period, and in the one before
    instant_ns period_began;
    uint32_t epoch; // how often all was written off
    instant_ns moved_at;
    struct list_link waiting; // members, in the order of their coming
};

struct congestion_member {
    struct congestion_share *share; // NULL: there is none, and all the room that it wants
    struct list_link link;          // of those who wait
    uint64_t out_len;               // of this epoch
    uint64_t wanted_len;            // while it waits: what it would have out
    uint32_t epoch;
    bool is_active;
    void (*on_room)(void *ctx); // it need not wait any more; must not call back
    void *ctx;
};

// `room_len` UINT64_MAX: no bound.
void congestion_share_init(struct congestion_share *s, uint64_t room_len);

void congestion_member_init(struct congestion_member *m, struct congestion_share *s,
                            void (*on_room)(void *ctx), void *ctx);
// It has so many octets out now; 0: nothing, and it is not counted. Who waits may be told.
void congestion_member_set(struct congestion_member *m, uint64_t out_len, instant_ns now);
// May it have so many octets out? Not before those who wait.
bool congestion_member_may(const struct congestion_member *m, uint64_t out_len, instant_ns now);
// So many it may at most, where others have something out; 0: it is not its turn.
uint64_t congestion_member_most(const struct congestion_member *m);
// It wants to have so many, and may not: it is told when it may.
void congestion_member_wait(struct congestion_member *m, uint64_t out_len);
// It has what it wanted, or wants nothing any more.
void congestion_member_leave(struct congestion_member *m);
static inline bool congestion_member_waits(const struct congestion_member *m)
{
    return !list_is_empty(&m->link);
}
// When the one that waits may go on, whatever comes back; INSTANT_NEVER: it does not wait.
instant_ns congestion_member_until(const struct congestion_member *m);
// Packets of this length in its window at most; 1 at least.
uint32_t congestion_member_packets(const struct congestion_member *m, uint32_t packet_len);
