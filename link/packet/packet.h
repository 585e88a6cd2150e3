// A link with a TCP of our own (tcp/, net/) over a device that moves segments.
//
//   packet.c           the link: what it is made of, looking, time
//   state.h     the life of a stream, as a table
//   stream.c    streams: bound, listening, connected, closed and lingering
//   io.c        octets
//   events.c    what the device has come by
//   cut.c       segments, as a device moves them, of what TCP sends
//   ready.c     which streams are ready, and for what
//   counters.c  what was counted
//
// What a user of the link can rely on beyond base/port_link.h:
//   - A record that is sent begins a segment, and ends inside one that it fits in.
//   - `send` copies. Closing in an orderly way goes on behind the user's back: what was sent, then
//     FIN, then the peer's, then TIME-WAIT; for `linger_ns` at most until the peer has answered.
//   - Reports are made of what is known: a stream that is reported has something, or had it before
//     the look at it.
#pragma once

#include "base/port_link.h"
#include "base/siphash.h"
#include "base/time.h"
#include "base/trace.h"
#include "link/device/device.h"
#include "tcp/tcp.h"

struct link_packet_config {
    struct tcp_config tcp; // of every connection; ports, mss and place port are filled in
    instant_ns (*clock)(void *ctx);
    void *clock_ctx;
    uint8_t secret[SIPHASH_KEY_LEN];
    duration_ns linger_ns; // how long a closed connection waits for its peer
    // `send` copies, and a process that ends takes the copy with it: octets are unsettled until
    // they are acknowledged. For peers that acknowledge at once; others may take their time.
    bool settles_when_acknowledged;
    // A segment that finds no program behind the port it goes to is answered by the device's own
    // network, not by a reset (UDP): the peer may be gone, as after a reset, and is asked.
    bool refusal_is_reset;
    // A SYN is answered once, by what is no longer than itself: nobody has more sent to an address
    // that is not his than he sends. The peer asks again if the answer was lost.
    bool answers_once;
    struct trace *trace; // may be NULL
};

// What TCP is told where the peer is weft: it acknowledges at its next look, so that what the
// program answers meanwhile carries it, and work requests complete when they are acknowledged; and
// so a time-out need not wait for a peer that waits.
void link_packet_tune(struct tcp_config *tcp);

// The device is the link's from now on; on failure too, it is destroyed. -ENOMEM.
int link_packet_create(const struct link_packet_config *config, struct device *device,
                       struct link **ret);
