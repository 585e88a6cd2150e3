// The lanes of a UDP datagram link (lane.h): to and from the other processes of this user that have
// its port on this host.
//
// Who has sent some packets to a process by UDP makes a lane to it: memory and a socket, which it
// hands over by that process's slot (share.h). It goes on by UDP until the other one says in the
// memory that it reads; what leaves from then on goes by the lane. So nobody waits for an answer,
// and to a process that takes none of it packets go by UDP as ever. Each lane leads one way.
//
// The socket wakes who sleeps, by an octet, and ends with the process at its other end.
//
//   out   to the process in a slot     none → offered → open → none
//   in    from the process in a slot   none → fresh → open → over → none
//
// Fresh is a lane from which nothing was taken: what its sender sent by UDP before is taken first,
// since packets of an unreliable connection that overtake others are lost.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lingering.h"
#include "base/list.h"
#include "base/time.h"
#include "link/datagram/lane.h"
#include "link/datagram/share.h"

#define DATAGRAM_LANE_COUNTERS(X)                                                            \
    X(local_lanes_made, "ways through memory to another process of this host")               \
    X(local_lanes_taken, "... that another process made to this one")                        \
    X(local_lanes_refused, "... of those, not taken: switched off, malformed, there is one") \
    X(local_lanes_failed, "... not made for want of memory or descriptors")                  \
    X(local_lanes_broken, "... closed because the other process wrote nonsense")             \
    X(local_packets_out, "packets put into memory")                                          \
    X(local_packets_in, "packets taken out of it")                                           \
    X(local_full, "packets lost because the other process takes nothing")                    \
    X(local_strays, "packets that came so to an address or a number of nobody here")         \
    X(local_bells, "times that a sleeping process was woken so")                             \
    X(local_pushes, "Writes put into the memory of another process, past them")              \
    X(local_pushed_octets, "... octets of them")                                             \
    X(local_pushes_streamed, "Writes behind others, left to packets")                        \
    X(local_pushes_failed, "Writes that could have been, and went by packets")               \
    X(local_pushes_forbidden, "processes whose memory the kernel lets nobody reach")         \
    X(local_revocations_long, "keys or rights taken back that another process held for long")

struct datagram_lane_counters {
#define X(name, text) uint64_t name;
    DATAGRAM_LANE_COUNTERS(X)
#undef X
};
