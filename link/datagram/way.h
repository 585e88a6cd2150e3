// Past a lane: Writes into the memory of the process that it leads to (base/port_packet_push.h,
// link/local/slot.h).
//
//   lane_gate.c   whose memory it is: who is let in, by which key and queue pair, and is he out
//   lane_push.c   who writes
//
// In the memory of a lane stand the gate, by which its reader says how his memory is reached, and
// the slots in which its writer says that he is about to write there: one for each thread of his
// that does so at a time. Whose memory it is the gate does not say: who has taken the lane sends
// its maker a message, of which the kernel says from which process it is (share.h). Otherwise a
// process could have us write into one that lets us and not it. Which queue pairs of the reader's
// take Writes stands in his mirror (base/gate_mirror.h).
//
// Who writes holds no lock. So what is looked at meanwhile, a *way*, stays until he is out, also
// when the lane has ended; and its socket stays open as long, so that the reader, who hears of the
// lane's end by that, knows that nobody is in any more.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "link/datagram/lane.h"
#include "link/local/keys.h"
#include "link/local/push_run.h"
#include "link/local/slot.h"

struct datagram_lane_in;
struct datagram_lane_out;
struct datagram_share_message;
struct datagram_udp;
struct datagram_way;

extern const struct packet_push_ops datagram_push_ops;

struct datagram_way_user {
    struct datagram_way *way;
    struct local_pusher pusher;
};

struct datagram_way {
    struct list_link link; // among those whose lane has ended
    struct datagram_udp *d;
    struct local_peer_keys keys; // without a mirror: nothing is written so
    struct push_run run;
    uint32_t used; // a bit for each user: a Write that is under way
    struct datagram_way_user users[LANE_SLOTS];
    // Of the lane that has ended.
    uint8_t *memory;
    int fd;
};

/* ---- lane_push.c ----------------------------------------------------------------------------- */

// The lane ends. True: its memory and its socket are the way's now.
bool datagram_way_keep(struct datagram_udp *d, struct datagram_lane_out *lane);
void datagram_ways_abandon(struct datagram_udp *d); // the child of a fork
enum past_answer datagram_push_aim(struct datagram_link *link, const struct packet_push *push,
                                   struct push_aimed *ret);
bool datagram_push_put(const struct push_aimed *push);
void datagram_push_conclude(const struct push_aimed *push, bool is_done);

/* ---- lane_gate.c ----------------------------------------------------------------------------- */

// Who writes into this lane may write past it.
void datagram_lane_let_in(struct datagram_udp *d, struct datagram_lane_in *lane,
                          const struct datagram_share_message *m);
// Says to him that it was taken, and so whose memory it leads to, unless he has been told.
void datagram_lane_tell(struct datagram_udp *d, struct datagram_lane_in *lane);
// The lane is broken: he hears that it has ended, and begins no Write any more. One that has begun
// may come in yet, and look at nothing but the mirror; it is over when he hangs up too.
void datagram_lane_shut(struct datagram_lane_in *lane);
