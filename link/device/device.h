// What a link with a transport of our own stands on: a device that moves segments (net/segment.h),
// whosever they are. The packet link (link/packet/packet.h) is above it, and is the same for all:
// UDP sockets, a tap device, a simulated net. Wrappers (faults, captures) stand between the two and
// are devices as well.
//
// A *channel* is what a stream has of its device: a socket, or just its port. Everything runs in
// the thread that drives the link; `wait` and `wake` alone may be called beside. A device calls
// nobody above it: what it has come by is asked for, event by event.
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/counter.h"
#include "base/port_journal.h"
#include "base/port_link.h"
#include "base/span.h"
#include "base/time.h"
#include "net/addr.h"
#include "net/segment.h"
#include "wire/ip.h"

struct device;
struct fault_model;

// A device embeds this first. `owner` is whatever the user wants to find again.
struct channel {
    void *owner;
};

// What a device has come by.
enum device_event_kind {
    // `octets` have arrived: header and payload, nothing wrong with them as far as the device can
    // tell. The ports of the flow need not be filled in. They stay until the next `next`.
    DEVICE_EVENT_SEGMENT,
    DEVICE_EVENT_READABLE, // something waits to be read with `receive`
    DEVICE_EVENT_MORE,     // as much was read as `receive` asked for, and more may be there
    DEVICE_EVENT_ROOM,     // there is room again for what `send` did not take
    // The network speaks of a segment of the flow, the beginning of which it quotes, NET_QUOTED_LEN
    // octets or more, until the next `next`: segments of so many octets fit its path; or it cannot
    // be reached, a negative errno.
    DEVICE_EVENT_PATH,
    DEVICE_EVENT_UNREACHABLE,
};

struct device_event {
    enum device_event_kind kind;
    struct channel *channel; // NULL: none in particular; ROOM: all of them
    struct net_flow flow;
    struct span octets;
    enum ip_ecn ecn; // of the packet that they came in
    struct span quoted;
    uint32_t segment_len_max;
    int error;
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

    // Octets, header and payload, of the longest segment that fits the path of this flow: what is
    // left of a packet behind the headers of those below.
    uint32_t (*segment_len_max)(struct device *d, struct channel *channel,
                                const struct net_flow *flow);
    int (*route)(struct device *d, const struct net_addr *remote, uint32_t scope,
                 struct net_addr *ret_local);

    // Returns how many segments were taken, from the first on; fewer than all: on_room follows.
    unsigned (*send)(struct device *d, struct channel *channel, const struct net_flow *flow,
                     const struct net_segments *segments, instant_ns now);
    // Looks what is ready and what is due. False: nothing; else `next` tells of it.
    bool (*poll)(struct device *d, instant_ns now);
    // Reads what has arrived, at most about `max_len` octets: `next` tells of it. NULL: on no
    // channel in particular.
    void (*receive)(struct device *d, struct channel *channel, size_t max_len);
    // What has come by the calls above, one after the other; false: that was all. Whoever called
    // one of them asks until then.
    bool (*next)(struct device *d, instant_ns now, struct device_event *ret);
    // What arrives is changed by this model before anything is looked at.
    void (*corrupt)(struct device *d, struct fault_model *model);

    // What became of packets, those of the devices behind it included.
    void (*counters)(const struct device *d, counter_each each, void *ctx);

    instant_ns (*next_deadline)(struct device *d);
    void (*wait)(struct device *d, duration_ns timeout_ns);
    void (*wake)(struct device *d);
    int (*descriptor)(const struct device *d); // as that of a link (base/port_link.h)
    void (*abandon)(struct device *d); // closes descriptors, tells nobody: the child of a fork
    void (*destroy)(struct device *d);
};

// A device embeds this first.
struct device {
    const struct device_ops *ops;
    bool takes_runs;         // cuts a run of segments alike itself (struct net_segment)
    struct journal *journal; // for records beside its segments; NULL: nobody has asked for them
};

/* ---- calls, as above ------------------------------------------------------------------------- */

static inline int device_open(struct device *d, struct net_flow *place, unsigned flags,
                              struct channel **ret)
{
    return d->ops->open(d, place, flags, ret);
}

static inline int device_connect(struct device *d, struct channel *channel, struct net_flow *flow)
{
    return d->ops->connect(d, channel, flow);
}

static inline int device_accept(struct device *d, struct channel *listener,
                                const struct net_flow *flow, struct channel **ret)
{
    return d->ops->accept(d, listener, flow, ret);
}

static inline void device_close(struct device *d, struct channel *channel)
{
    d->ops->close(d, channel);
}

static inline void device_set_tos(struct device *d, struct channel *channel, uint8_t tos)
{
    d->ops->set_tos(d, channel, tos);
}

static inline uint32_t device_segment_len_max(struct device *d, struct channel *channel,
                                              const struct net_flow *flow)
{
    return d->ops->segment_len_max(d, channel, flow);
}

static inline int device_route(struct device *d, const struct net_addr *remote, uint32_t scope,
                               struct net_addr *ret_local)
{
    return d->ops->route(d, remote, scope, ret_local);
}

static inline unsigned device_send(struct device *d, struct channel *channel,
                                   const struct net_flow *flow, const struct net_segments *segments,
                                   instant_ns now)
{
    return d->ops->send(d, channel, flow, segments, now);
}

static inline bool device_poll(struct device *d, instant_ns now)
{
    return d->ops->poll(d, now);
}

static inline void device_receive(struct device *d, struct channel *channel, size_t max_len)
{
    d->ops->receive(d, channel, max_len);
}

static inline bool device_next(struct device *d, instant_ns now, struct device_event *ret)
{
    return d->ops->next(d, now, ret);
}

static inline void device_corrupt(struct device *d, struct fault_model *model)
{
    d->ops->corrupt(d, model);
}

static inline void device_counters(const struct device *d, counter_each each, void *ctx)
{
    d->ops->counters(d, each, ctx);
}

static inline instant_ns device_next_deadline(struct device *d)
{
    return d->ops->next_deadline(d);
}

static inline void device_wait(struct device *d, duration_ns timeout_ns)
{
    d->ops->wait(d, timeout_ns);
}

static inline void device_wake(struct device *d)
{
    d->ops->wake(d);
}

static inline int device_descriptor(const struct device *d)
{
    return d->ops->descriptor(d);
}

static inline void device_abandon(struct device *d)
{
    d->ops->abandon(d);
}

static inline void device_destroy(struct device *d)
{
    d->ops->destroy(d);
}
