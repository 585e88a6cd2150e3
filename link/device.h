// What a link with a TCP of our own stands on: a device that moves segments. The packet link
// (link/packet.h) is above it, and is the same for all: UDP sockets, a tap device, a simulated net.
// Wrappers (faults, captures) stand between the two and are devices as well.
//
// A *channel* is what a stream has of its device: a socket, or just its port. Everything runs in
// the thread that drives the link; `wait` and `wake` alone may be called beside.
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/counter.h"
#include "base/port_link.h"
#include "base/span.h"
#include "base/time.h"
#include "net/addr.h"
#include "tcp/tcp.h"

struct device;

// A device embeds this first. `owner` is whatever the user wants to find again.
struct channel {
    void *owner;
};

// What a device calls, from within `poll` and `receive` alone.
struct device_up {
    // What has arrived, before anything is looked at. NULL: nobody cares.
    void (*on_octets)(void *ctx, struct mspan octets);
    // `octets`: TCP header and payload, nothing wrong with them as far as the device can tell. The
    // ports of the flow need not be filled in.
    void (*on_segment)(void *ctx, struct channel *via, const struct net_flow *flow,
                       struct span octets);
    // Something waits to be read with `receive`; NULL: on no channel in particular.
    void (*on_readable)(void *ctx, struct channel *channel);
    // There is room again for what `send` did not take; NULL: on every channel.
    void (*on_room)(void *ctx, struct channel *channel);
    // The network speaks of a segment of `flow` with this sequence number: so many octets behind a
    // TCP header fit its path; or it cannot be reached, a negative errno.
    void (*on_path_mss)(void *ctx, const struct net_flow *flow, uint32_t quoted_seq, uint16_t mss);
    void (*on_unreachable)(void *ctx, const struct net_flow *flow, uint32_t quoted_seq, int error);
    void *ctx;
};

struct device_ops {
    const char *name;

    // Takes a local place: an address, or any of a family, and a port (0: a free one), which is
    // filled in. `flags`: enum link_bind_flags. 0 or a negative errno, as all that return int.
    int (*open)(struct device *d, struct net_flow *place, unsigned flags, struct channel **ret);
    // The channel is for this flow from now on, whose local end is filled in.
    int (*connect)(struct device *d, struct channel *channel, struct net_flow *flow);
    // A channel for a flow that came to a listener's.
    int (*accept)(struct device *d, struct channel *listener, const struct net_flow *flow,
                  struct channel **ret);
    void (*close)(struct device *d, struct channel *channel);
    void (*set_tos)(struct device *d, struct channel *channel, uint8_t tos);

    // Octets behind a TCP header without options that a segment of this flow may have.
    uint16_t (*mss)(struct device *d, struct channel *channel, const struct net_flow *flow);
    int (*route)(struct device *d, const struct net_addr *remote, uint32_t scope,
                 struct net_addr *ret_local);

    // Returns how many segments were taken, from the first on; fewer than all: on_room follows.
    unsigned (*send)(struct device *d, struct channel *channel, const struct net_flow *flow,
                     const struct tcp_batch *batch, instant_ns now);
    // Looks what is ready and what is due.
    void (*poll)(struct device *d, instant_ns now);
    // Reads what has arrived, at most about `max_len` octets. NULL: on no channel in particular.
    // False: nothing more is there.
    bool (*receive)(struct device *d, struct channel *channel, size_t max_len, instant_ns now);

    // What became of packets, those of the devices behind it included.
    void (*counters)(const struct device *d, counter_each each, void *ctx);

    instant_ns (*next_deadline)(struct device *d);
    void (*wait)(struct device *d, duration_ns timeout_ns);
    void (*wake)(struct device *d);
    void (*abandon)(struct device *d); // closes descriptors, tells nobody: the child of a fork
    void (*destroy)(struct device *d);
};

// A device embeds this first. Whoever uses it sets `up`.
struct device {
    const struct device_ops *ops;
    struct device_up up;
};
