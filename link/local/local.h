// A link before the kernel's TCP that carries connections within one host through memory of both
// processes (docs/one-host.md).
//
//   local.c          the link, streams: bound, listening, accepted, connected, closed
//   path.c     whether a stream's octets go by TCP or through memory, and from where on
//   io.c       octets
//   wait.c     who is ready, and who sleeps
//   bells.c    who is told that there is news, and who tells
//   channels.c what all streams between two links share: channel.h, doorbell.h
//   gate.c     who may go past the stream, into the memory of whom: keys.h
//   push.c     Writes into the peer's memory: slot.h, thread.h
//   pull.c     Reads out of it
//   memory.h   the memory of one stream: two rings (octet_ring.h) and four words
//   door.h     how who connects hands it to who listens
//
// TCP connects, listens and accepts as ever, carries the first octets of who connects, and is there
// as long as the stream: its end tells of a process that is gone. So a stream has no descriptor of
// its own beside the socket.
//
//   who connects    hands memory over at the listener's door, if there is one, and goes on by TCP
//                   without waiting for an answer
//   who accepts     looks for it behind the door when the first octets have come, which were sent
//                   after it, and says in it, once and for all, whether it will be used; if so,
//                   everything that it sends goes that way
//   who connects    follows as soon as it sees that, and says how many octets went by TCP before
//
// Both processes must be of one user. What lies in the memory is hostile: octet_ring.h says how it
// is looked at. A peer that writes nonsense there breaks its own connection, with -EPROTO, and is
// counted.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/port_link.h"
#include "base/time.h"
#include "base/trace.h"

enum { LINK_LOCAL_RING_LEN = 512 * 1024 };
#define LINK_LOCAL_LINGER_NS (20 * NS_PER_US)

struct link_local_config {
    uint32_t ring_len; // octets of a ring, one for each direction: a power of two, a page at least
    // A peer that takes nothing for so long is taken as gone, as by TCP: -ETIMEDOUT. 0: never.
    duration_ns peer_timeout_ns;
    // How long `may_wait` still says no after octets have moved, if that has paid lately.
    duration_ns linger_ns;
    instant_ns (*clock)(void *ctx);
    void *clock_ctx;
    unsigned rights; // enum key_right: what may be done past streams, by the peers and to them
    // A key is to be taken back, and this thread of a peer has not left our memory for long. May be
    // NULL.
    void (*on_long_revocation)(pid_t process, pid_t thread);
    struct trace *trace; // may be NULL
};

#define LINK_LOCAL_COUNTERS(X)                                                               \
    X(streams, "streams that went over to memory")                                           \
    X(offers_sent, "memory handed over at a door")                                           \
    X(offers_received, "... that came in at ours")                                           \
    X(offers_refused, "... that was not taken: another user's, malformed, or too much")      \
    X(looks_cut, "looks at a door that ended while others were still coming")                \
    X(offers_failed, "streams left to TCP for want of memory or descriptors")                \
    X(bells_sent, "times that a sleeping peer was woken")                                    \
    X(bells_received, "octets that came as bells")                                           \
    X(marks_idle, "news of streams that are not there")                                      \
    X(broken, "streams ended because the peer wrote nonsense into the memory")               \
    X(near_octets, "octets put into rings through this processor's caches")                  \
    X(far_octets, "... and those past them, or in pieces that are short")                    \
    X(stores_changed, "times that the other one of both has proved faster")                  \
    X(pushes, "Writes put into the memory of a peer's process")                              \
    X(pushed_octets, "... octets of them")                                                   \
    X(pushes_streamed, "Writes behind others, left to the ring, which takes many at a time") \
    X(pushes_failed, "Writes that could have been, and went by the stream")                  \
    X(pushes_forbidden, "processes whose memory the kernel lets nobody reach")               \
    X(pulls, "Reads, or parts of them, copied out of the memory of a peer's process")        \
    X(pulled_octets, "... octets of them")                                                   \
    X(pull_calls, "... in so many system calls")                                             \
    X(pulls_failed, "Reads that could have been, and went by the stream")                    \
    X(revocations_long, "keys taken back that a peer's thread held for long")

// Wraps `inner`, a link of the kernel's TCP, which now belongs to *ret and is destroyed with it; on
// failure (-ENOMEM) it stays the caller's.
int link_local_wrap(struct link *inner, const struct link_local_config *config, struct link **ret);
