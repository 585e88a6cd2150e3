// How who connects hands the memory of a stream to who listens: a door is a socket of the host
// (AF_UNIX, SOCK_SEQPACKET) beside a listening one, at an abstract name made of the same address
// and port. Such names are a network namespace's, as ports are.
//
// An offer is one message: what it is (figure below), and three descriptors: the stream's memory,
// the channel's, and the channel's socket. It is sent after TCP has connected and before the first
// octet, and nobody waits for an answer, so a door needs no looking after until octets have come.
//
//      0   8  "weft-mem"
//      8   4  version, 3
//     12   4  octets of a ring
//     16   8  the channel
//     24  40  the connection, as its passive side sees it (struct net_flow)
#pragma once

#include <stdint.h>

#include "link/local/channel.h"
#include "link/local/memory.h"
#include "net/addr.h"

enum local_offer_offset {
    LOCAL_OFFER_MAGIC = 0,
    LOCAL_OFFER_VERSION = 8,
    LOCAL_OFFER_RING_LEN = 12,
    LOCAL_OFFER_CHANNEL = 16,
    LOCAL_OFFER_FLOW = 24,
    LOCAL_OFFER_LEN = LOCAL_OFFER_FLOW + sizeof(struct net_flow),
    LOCAL_OFFER_DESCRIPTORS = 3,
};

enum {
    LOCAL_DOOR_KNOCKING_MAX = 16, // who has come in and said nothing yet
    LOCAL_DOOR_LOOK = 4096,       // who waits at a time: so many were there before a look began
};

struct local_door {
    int fd; // -1: none
    int knocking[LOCAL_DOOR_KNOCKING_MAX];
    unsigned knocking_count;
    uint64_t stranger_count; // other users' processes, sent away
};

struct local_offer {
    struct net_flow flow; // as the passive side sees it
    struct local_memory memory;
    struct local_channel_means means; // whose descriptors are the taker's to close
    pid_t process;                    // whose it is; 0: of another PID namespace
};

// The door of who listens at `place` (its `local` end alone). 0 or a negative errno; -EADDRINUSE:
// somebody has taken the name.
int local_door_open(struct local_door *door, const struct net_flow *place);
// Harmless when there is none.
void local_door_close(struct local_door *door);

// Knocks at the door of who listens for a connection, `flow` as its active side sees it: a
// descriptor, the caller's to close, and whose door it is. -ECONNREFUSED: there is none; -EPERM: it
// is another user's; or another negative errno.
int local_door_knock(const struct net_flow *flow, pid_t *ret_process);
// Makes memory, and hands it over with the channel's means where somebody has knocked. 0 or a
// negative errno.
int local_door_offer(int knocked, const struct net_flow *flow, uint32_t ring_len,
                     const struct local_channel_means *means, struct local_memory *ret);
// Takes in the next offer: 0, -EAGAIN (there is none), or why it was refused: -EPROTO (malformed),
// or as local_memory_adopt has it. Other users' processes are not heard at all. `left` is how many
// may still come in at this look, LOCAL_DOOR_LOOK at its beginning; those behind them wait.
int local_door_take(struct local_door *door, unsigned *left, struct local_offer *ret);
