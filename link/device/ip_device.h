// What devices that carry IP packets have in common: a tap device (link/device/tap.h) and the end
// of a simulated wire (link/wire.h) embed this and have only to move frames.
//
// Ports are taken here, since no kernel does: two channels share one only if both are connections
// of a listener's, or their addresses differ. A port of 0 is drawn at random (RFC 6056 section
// 3.3.1). Segments between two of our own addresses never become frames.
#pragma once

#include "base/list.h"
#include "base/prng.h"
#include "base/time.h"
#include "link/device/device.h"
#include "link/fault_model.h"
#include "net/iface.h"
#include "net/segment.h"

struct looped;

enum ip_device_news {
    IP_DEVICE_LOOPED = 1,      // segments to ourselves are due, or the last is handed up
    IP_DEVICE_UNREACHABLE = 2, // a neighbour that does not answer was to get a segment
    IP_DEVICE_ROOM = 4,
    IP_DEVICE_READABLE = 8,
};

struct ip_device {
    struct device base;
    struct net_iface iface;
    struct prng rng;
    struct list_link channels;
    struct list_link looped;          // segments to ourselves that wait for the next look,
    size_t looped_len;                // their octets, and ...
    struct list_link looped_due;      // ... those that are handed up in this
    struct looped *handed_up;         // by the last `next`
    struct fault_model *faults;       // changes what arrives; NULL: nobody does
    unsigned news;                    // enum ip_device_news: what is to be told
    struct net_flow unreachable_flow; // UNREACHABLE: the segment of this flow ...
    uint8_t unreachable_quoted[NET_QUOTED_LEN]; // ... that begins so
};

// `ops`: those below, and the device's own. `config`: its frame port is the device's.
void ip_device_init(struct ip_device *d, const struct device_ops *ops,
                    const struct net_iface_config *config, uint64_t seed);
void ip_device_fini(struct ip_device *d);

// To be called in every poll: what goes to ourselves, and what is due.
void ip_device_poll(struct ip_device *d, instant_ns now);
// One of its news; false: nothing more.
bool ip_device_tell(struct ip_device *d, struct device_event *ret);
static inline bool ip_device_next(struct ip_device *d, struct device_event *ret)
{
    return d->news != 0 && ip_device_tell(d, ret);
}
// A frame has arrived. False: nothing of it is for those above.
bool ip_device_on_frame(struct ip_device *d, struct mspan frame, bool is_checked, instant_ns now,
                        struct device_event *ret);
void ip_device_counters(const struct device *d, counter_each each, void *ctx);
instant_ns ip_device_next_deadline(const struct ip_device *d);

// As in struct device_ops.
int ip_device_open(struct device *device, struct net_flow *place, unsigned flags,
                   struct channel **ret);
int ip_device_connect(struct device *device, struct channel *channel, struct net_flow *flow);
int ip_device_accept(struct device *device, struct channel *listener, const struct net_flow *flow,
                     struct channel **ret);
void ip_device_close(struct device *device, struct channel *channel);
void ip_device_set_tos(struct device *device, struct channel *channel, uint8_t tos);
uint32_t ip_device_segment_len_max(struct device *device, struct channel *channel,
                                   const struct net_flow *flow);
int ip_device_route(struct device *device, const struct net_addr *remote, uint32_t scope,
                    struct net_addr *ret_local);
void ip_device_corrupt(struct device *device, struct fault_model *model);
unsigned ip_device_send(struct device *device, struct channel *channel, const struct net_flow *flow,
                        const struct net_segments *segments, instant_ns now);
