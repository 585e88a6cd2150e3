#include "link/device/ip_device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/port_link.h"
#include "base/span.h"
#include "base/time.h"
#include "net/addr.h"
#include "net/segment.h"

enum {
    PORT_FIRST = 32768, // drawn from here on
    PORT_COUNT = 28232,
    LOOPED_LEN_MAX = 512 * 1024,
};

struct ip_channel {
    struct channel base;
    struct list_link link;
    struct net_flow place; // the local end
    uint8_t tos;
    bool is_v6_only;
    bool is_accepted; // it shares its listener's port
};

struct looped {
    struct list_link link;
    struct channel *via;
    struct net_flow flow; // as its receiver sees it
    size_t len;
    uint8_t octets[];
};

static struct ip_device *ip_device_of(const struct device *d)
{
    return (struct ip_device *)d;
}

static struct ip_channel *ip_channel_of(const struct channel *c)
{
    return (struct ip_channel *)c;
}

/* ---- made, and gone -------------------------------------------------------------------------- */

void ip_device_init(struct ip_device *d, const struct device_ops *ops,
                    const struct net_iface_config *config, uint64_t seed)
{
    *d = (struct ip_device){.base = {.ops = ops, .takes_runs = config->offloads}};
    net_iface_init(&d->iface, config);
    prng_init(&d->rng, seed);
    list_init(&d->channels);
    list_init(&d->looped);
    list_init(&d->looped_due);
}

static void looped_free(struct list_link *looped)
{
    struct list_link *l;
    while ((l = list_pop_head(looped)) != NULL) {
        free(LIST_ENTRY(l, struct looped, link));
    }
}

void ip_device_fini(struct ip_device *d)
{
    struct list_link *l;
    while ((l = list_pop_head(&d->channels)) != NULL) {
        free(LIST_ENTRY(l, struct ip_channel, link));
    }
    looped_free(&d->looped);
    looped_free(&d->looped_due);
    free(d->handed_up);
}

/* ---- ports ----------------------------------------------------------------------------------- */

static bool covers_ipv4(const struct ip_channel *c)
{
    return net_addr_is_ipv4(&c->place.local) ||
           (net_addr_is_any(&c->place.local) && !c->is_v6_only);
}

static bool covers_ipv6(const struct ip_channel *c)
{
    return !net_addr_is_ipv4(&c->place.local);
}

// Could a segment be for either of the two?
static bool overlap(const struct ip_channel *a, const struct ip_channel *b)
{
    if (!net_addr_is_any(&a->place.local) && !net_addr_is_any(&b->place.local)) {
        return net_addr_equal(&a->place.local, &b->place.local);
    }
    return (covers_ipv4(a) && covers_ipv4(b)) || (covers_ipv6(a) && covers_ipv6(b));
}

static bool is_taken(const struct ip_device *d, const struct ip_channel *wanted)
{
    for (const struct list_link *l = d->channels.next; l != &d->channels; l = l->next) {
        const struct ip_channel *c = LIST_ENTRY(l, const struct ip_channel, link);
        if (c->place.local_port == wanted->place.local_port && !c->is_accepted &&
            overlap(c, wanted)) {
            return true;
        }
    }
    return false;
}

static bool draw_port(struct ip_device *d, struct ip_channel *c)
{
    uint32_t first = prng_below(&d->rng, PORT_COUNT);
    for (uint32_t i = 0; i < PORT_COUNT; i++) {
        c->place.local_port = (uint16_t)(PORT_FIRST + (first + i) % PORT_COUNT);
        if (!is_taken(d, c)) {
            return true;
        }
    }
    return false;
}

static struct ip_channel *channel_new(struct ip_device *d, const struct net_flow *place)
{
    struct ip_channel *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->place.local = place->local;
        c->place.local_port = place->local_port;
    }
    return c;
}

int ip_device_open(struct device *device, struct net_flow *place, unsigned flags,
                   struct channel **ret)
{
    struct ip_device *d = ip_device_of(device);
    if (!net_addr_is_any(&place->local) && !net_iface_has_addr(&d->iface, &place->local)) {
        return -EADDRNOTAVAIL;
    }
    struct ip_channel *c = channel_new(d, place);
    if (c == NULL) {
        return -ENOMEM;
    }
    c->is_v6_only = (flags & LINK_BIND_V6_ONLY) != 0;
    if (place->local_port == 0 ? !draw_port(d, c) : is_taken(d, c)) {
        free(c);
        return -EADDRINUSE;
    }
    place->local_port = c->place.local_port;
    list_push_tail(&d->channels, &c->link);
    *ret = &c->base;
    return 0;
}

int ip_device_connect(struct device *device, struct channel *channel, struct net_flow *flow)
{
    struct ip_channel *c = ip_channel_of(channel);
    if (net_addr_is_any(&flow->local)) {
        int error = ip_device_route(device, &flow->remote, flow->scope, &flow->local);
        if (error != 0) {
            return error;
        }
        c->place.local = flow->local;
    }
    return net_addr_is_ipv4(&flow->local) == net_addr_is_ipv4(&flow->remote) ? 0 : -ENETUNREACH;
}

int ip_device_accept(struct device *device, struct channel *listener, const struct net_flow *flow,
                     struct channel **ret)
{
    struct ip_device *d = ip_device_of(device);
    struct ip_channel *c = channel_new(d, flow);
    if (c == NULL) {
        return -ENOMEM;
    }
    c->is_accepted = true;
    list_push_tail(&d->channels, &c->link);
    *ret = &c->base;
    return 0;
}

static void forget_channel(struct list_link *looped, const struct channel *channel)
{
    for (struct list_link *l = looped->next; l != looped; l = l->next) {
        struct looped *one = LIST_ENTRY(l, struct looped, link);
        one->via = one->via == channel ? NULL : one->via;
    }
}

void ip_device_close(struct device *device, struct channel *channel)
{
    struct ip_device *d = ip_device_of(device);
    forget_channel(&d->looped, channel);
    forget_channel(&d->looped_due, channel);
    list_remove(&ip_channel_of(channel)->link);
    free(ip_channel_of(channel));
}

void ip_device_set_tos(struct device *device, struct channel *channel, uint8_t tos)
{
    ip_channel_of(channel)->tos = tos;
}

/* ---- paths ----------------------------------------------------------------------------------- */

uint32_t ip_device_segment_len_max(struct device *device, struct channel *channel,
                                   const struct net_flow *flow)
{
    bool is_known = !net_addr_is_any(&flow->remote);
    return net_iface_segment_len_max(&ip_device_of(device)->iface,
                                     is_known ? &flow->remote : &flow->local);
}

int ip_device_route(struct device *device, const struct net_addr *remote, uint32_t scope,
                    struct net_addr *ret_local)
{
    struct net_iface *iface = &ip_device_of(device)->iface;
    if (net_iface_has_addr(iface, remote)) {
        *ret_local = *remote;
        return 0;
    }
    return net_iface_route(iface, remote, ret_local) ? 0 : -ENETUNREACH;
}

/* ---- to ourselves ---------------------------------------------------------------------------- */

static bool loop_segment(struct ip_device *d, struct channel *channel, const struct net_flow *flow,
                         const struct net_segment *segment)
{
    if (d->looped_len + segment->len > LOOPED_LEN_MAX) {
        return false;
    }
    struct looped *one = malloc(sizeof *one + segment->len);
    if (one == NULL) {
        return true; // lost
    }
    *one = (struct looped){.via = channel, .flow = net_flow_turned(flow), .len = segment->len};
    net_segment_copy(segment, one->octets);
    list_push_tail(&d->looped, &one->link);
    d->looped_len += segment->len;
    return true;
}

static unsigned loop_segments(struct ip_device *d, struct channel *channel,
                              const struct net_flow *flow, const struct net_segments *segments)
{
    unsigned i = 0;
    while (i < segments->count && loop_segment(d, channel, flow, &segments->at[i])) {
        i++;
    }
    return i;
}

// What was there when the look began: an answer waits for the next.
static bool next_looped(struct ip_device *d, struct device_event *ret)
{
    struct list_link *l = list_pop_head(&d->looped_due);
    free(d->handed_up);
    d->handed_up = NULL;
    if (l == NULL) {
        d->news &= ~(unsigned)IP_DEVICE_LOOPED;
        return false;
    }
    struct looped *one = LIST_ENTRY(l, struct looped, link);
    *ret = (struct device_event){.kind = DEVICE_EVENT_SEGMENT,
                                 .channel = one->via,
                                 .flow = one->flow,
                                 .octets = span_of(one->octets, one->len)};
    d->handed_up = one;
    d->news |= IP_DEVICE_ROOM;
    return true;
}

/* ---- frames ---------------------------------------------------------------------------------- */

unsigned ip_device_send(struct device *device, struct channel *channel, const struct net_flow *flow,
                        const struct net_segments *segments, instant_ns now)
{
    struct ip_device *d = ip_device_of(device);
    uint8_t tos = channel == NULL ? 0 : ip_channel_of(channel)->tos;
    unsigned count;
    if (net_iface_has_addr(&d->iface, &flow->remote)) {
        return loop_segments(d, channel, flow, segments);
    }
    if (net_iface_send(&d->iface, flow, tos, segments, now, &count) == NET_SENT_UNREACHABLE) {
        d->news |= IP_DEVICE_UNREACHABLE;
        d->unreachable_flow = *flow;
        memcpy(d->unreachable_quoted, net_segment_header(&segments->at[0]).ptr, NET_QUOTED_LEN);
    }
    return count;
}

void ip_device_corrupt(struct device *device, struct fault_model *model)
{
    ip_device_of(device)->faults = model;
}

bool ip_device_on_frame(struct ip_device *d, struct mspan frame, bool is_checked, instant_ns now,
                        struct device_event *ret)
{
    static const enum device_event_kind kinds[] = {
        [NET_ARRIVAL_SEGMENT] = DEVICE_EVENT_SEGMENT,
        [NET_ARRIVAL_PATH] = DEVICE_EVENT_PATH,
        [NET_ARRIVAL_UNREACHABLE] = DEVICE_EVENT_UNREACHABLE,
        [NET_ARRIVAL_ROOM] = DEVICE_EVENT_ROOM,
    };
    struct net_arrival a;
    if (d->faults != NULL) {
        fault_model_corrupt(d->faults, frame);
        is_checked = false;
    }
    net_iface_on_frame(&d->iface, mspan_read(frame), is_checked, now, &a);
    if (a.kind == NET_ARRIVAL_NOTHING) {
        return false;
    }
    *ret = (struct device_event){.kind = kinds[a.kind],
                                 .flow = a.flow,
                                 .octets = a.segment,
                                 .ecn = a.ecn,
                                 .quoted = a.quoted,
                                 .segment_len_max = a.segment_len_max,
                                 .error = a.error};
    return true;
}

void ip_device_poll(struct ip_device *d, instant_ns now)
{
    CHECK(list_is_empty(&d->looped_due)); // all of the last look was asked for
    if (!list_is_empty(&d->looped)) {
        list_move_all(&d->looped_due, &d->looped);
        d->looped_len = 0;
        d->news |= IP_DEVICE_LOOPED;
    }
    if (now >= net_iface_next_deadline(&d->iface) && net_iface_on_deadline(&d->iface, now)) {
        d->news |= IP_DEVICE_ROOM;
    }
}

// Is it to be told? It is told now.
static bool take_news(struct ip_device *d, enum ip_device_news what)
{
    bool is_news = (d->news & what) != 0;
    d->news &= ~(unsigned)what;
    return is_news;
}

bool ip_device_tell(struct ip_device *d, struct device_event *ret)
{
    if ((d->news & IP_DEVICE_LOOPED) != 0 && next_looped(d, ret)) {
        return true;
    }
    *ret = (struct device_event){.kind = DEVICE_EVENT_ROOM};
    if (take_news(d, IP_DEVICE_UNREACHABLE)) {
        ret->kind = DEVICE_EVENT_UNREACHABLE;
        ret->flow = d->unreachable_flow;
        ret->quoted = span_of(d->unreachable_quoted, NET_QUOTED_LEN);
        ret->error = -EHOSTUNREACH;
        return true;
    }
    if (take_news(d, IP_DEVICE_ROOM)) {
        return true;
    }
    ret->kind = DEVICE_EVENT_READABLE;
    return take_news(d, IP_DEVICE_READABLE);
}

void ip_device_counters(const struct device *device, counter_each each, void *ctx)
{
    const struct net_iface_counters *c = &((const struct ip_device *)device)->iface.counters;
#define X(name, text) each(ctx, #name, c->name);
    NET_IFACE_COUNTERS(X)
#undef X
}

instant_ns ip_device_next_deadline(const struct ip_device *d)
{
    bool is_due = d->news != 0 || !list_is_empty(&d->looped);
    return is_due ? 0 : net_iface_next_deadline(&d->iface);
}
