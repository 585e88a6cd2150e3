// How who connects hands the memory of a stream to who listens: a door is a socket of the host
// (AF_UNIX, SOCK_SEQPACKET) beside a listening one, at an abstract name made of the same address
// and port. Such names are a network namespace's, as ports are.
//
// An offer is one message: what it is (figure below), and the memory's descriptor. It is sent after
// TCP has connected and before the first octet, and nobody waits for an answer, so a door needs no
// looking after until octets have come.
//
//      0   8  "weft-mem"
//      8   4  version, 1
//     12   4  octets of a ring
//     16  40  the connection, as its passive side sees it (struct net_flow)
#pragma once

#include <stdint.h>

#include "link/local/memory.h"
#include "net/addr.h"

enum local_offer_offset {
    LOCAL_OFFER_MAGIC = 0,
    LOCAL_OFFER_VERSION = 8,
    LOCAL_OFFER_RING_LEN = 12,
    LOCAL_OFFER_FLOW = 16,
    LOCAL_OFFER_LEN = LOCAL_OFFER_FLOW + sizeof(struct net_flow),
};

enum { LOCAL_DOOR_KNOCKING_MAX = 16 }; // who has come in and said nothing yet

struct local_door {
    int fd; // -1: none
    int knocking[LOCAL_DOOR_KNOCKING_MAX];
    unsigned knocking_count;
    uint64_t stranger_count; // other users' processes, sent away
};

struct local_offer {
    struct net_flow flow; // as the passive side sees it
    struct local_memory memory;
    pid_t process; // whose it is; 0: of another PID namespace
};

// The door of who listens at `place` (its `local` end alone). 0 or a negative errno; -EADDRINUSE:
// somebody has taken the name.
int local_door_open(struct local_door *door, const struct net_flow *place);
// Harmless when there is none.
void local_door_close(struct local_door *door);

// Hands memory over for a connection, `flow` as its active side sees it. -ECONNREFUSED: there is no
// door; -EPERM: it is another user's; or another negative errno.
int local_door_offer(const struct net_flow *flow, uint32_t ring_len, struct local_memory *ret,
                     pid_t *ret_process);
// Takes in the next offer: 0, -EAGAIN (there is none), or why it was refused: -EPROTO (malformed),
// or as local_memory_adopt has it. Other users' processes are not heard at all.
int local_door_take(struct local_door *door, struct local_offer *ret);
