#include "link/device/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/span.h"
#include "base/time.h"
#include "link/device/forward.h"
#include "net/segment.h"

enum { HELD_MAX = 8192 }; // packets that wait; one more is lost

struct fault_device {
    struct device_forward forward;
    struct fault_model model;
    struct list_link held; // the earliest first
    unsigned held_count;
    struct held *handed_up;    // by the last `next`
    struct device_event again; // what that handed up comes so many times more
    unsigned again_count;
};

// A packet that waits for its time.
struct held {
    struct list_link link;
    instant_ns at_ns;
    struct channel *channel;
    struct net_flow flow;
    bool is_incoming;
    enum ip_ecn ecn;
    const struct net_transport *transport; // of one that goes out
    size_t header_len;                     // likewise
    size_t len;
    uint8_t octets[]; // NET_HEADROOM, then all its own
};

static struct fault_device *fault_of(const struct device *d)
{
    return (struct fault_device *)d;
}

/* ---- waiting --------------------------------------------------------------------------------- */

// In the order of their times; of the same time, in the order of their coming.
static void hold(struct fault_device *f, struct held *h)
{
    struct list_link *at = &f->held;
    while (at->prev != &f->held && LIST_ENTRY(at->prev, struct held, link)->at_ns > h->at_ns) {
        at = at->prev;
    }
    list_push_tail(at, &h->link);
    f->held_count++;
}

static struct held *held_new(struct fault_device *f, struct channel *channel,
                             const struct net_flow *flow, size_t len, instant_ns at_ns)
{
    struct held *h = f->held_count < HELD_MAX ? malloc(sizeof *h + NET_HEADROOM + len) : NULL;
    if (h != NULL) {
        *h = (struct held){.at_ns = at_ns, .channel = channel, .flow = *flow, .len = len};
    }
    return h;
}

static void held_free(struct fault_device *f, struct held *h)
{
    list_remove(&h->link);
    f->held_count--;
    free(h);
}

static void release_out(struct fault_device *f, struct held *h, instant_ns now)
{
    uint8_t *octets = h->octets + NET_HEADROOM;
    size_t payload_len = h->len - h->header_len;
    struct iovec iov[] = {{octets, h->header_len}, {octets + h->header_len, payload_len}};
    struct net_segment segment = {.iov = iov,
                                  .iov_count = payload_len > 0 ? 2 : 1,
                                  .len = (uint32_t)h->len,
                                  .part_count = 1,
                                  .part_len = (uint32_t)payload_len};
    struct net_segments one = {h->transport, &segment, 1, h->ecn};
    device_send(f->forward.inner, h->channel, &h->flow, &one, now);
    free(h);
}

static void release_in(struct fault_device *f, struct held *h, struct device_event *ret)
{
    *ret = (struct device_event){.kind = DEVICE_EVENT_SEGMENT,
                                 .channel = h->channel,
                                 .flow = h->flow,
                                 .ecn = h->ecn,
                                 .octets = span_of(h->octets + NET_HEADROOM, h->len)};
    f->handed_up = h;
}

// False: nothing more is due that comes in.
static bool release_due(struct fault_device *f, instant_ns now, struct device_event *ret)
{
    while (!list_is_empty(&f->held)) {
        struct held *h = LIST_ENTRY(f->held.next, struct held, link);
        if (h->at_ns > now) {
            return false;
        }
        list_remove(&h->link);
        f->held_count--;
        if (h->is_incoming) {
            release_in(f, h, ret);
            return true;
        }
        release_out(f, h, now);
    }
    return false;
}

/* ---- out ------------------------------------------------------------------------------------- */

static void hold_segment(struct fault_device *f, struct channel *channel,
                         const struct net_flow *flow, const struct net_segments *one,
                         instant_ns at_ns)
{
    struct held *h = held_new(f, channel, flow, one->at->len, at_ns);
    if (h != NULL) {
        h->transport = one->transport;
        h->ecn = one->ecn;
        h->header_len = net_segment_header(one->at).len;
        net_segment_copy(one->at, h->octets + NET_HEADROOM);
        hold(f, h);
    }
}

static unsigned fault_send(struct device *d, struct channel *channel, const struct net_flow *flow,
                           const struct net_segments *segments, instant_ns now)
{
    struct fault_device *f = fault_of(d);
    if ((f->model.config.sides & FAULT_SIDE_OUT) == 0) {
        return device_send(f->forward.inner, channel, flow, segments, now);
    }
    for (unsigned i = 0; i < segments->count; i++) {
        struct fault_fate fate = fault_model_draw(&f->model, now);
        struct net_segments one = {segments->transport, &segments->at[i], 1, segments->ecn};
        for (unsigned k = 0; k < fate.count; k++) {
            if (fate.delay_ns[k] > 0) {
                hold_segment(f, channel, flow, &one, instant_after(now, fate.delay_ns[k]));
            } else if (device_send(f->forward.inner, channel, flow, &one, now) == 0) {
                return i;
            }
        }
    }
    return segments->count;
}

/* ---- in -------------------------------------------------------------------------------------- */

static void hold_arrival(struct fault_device *f, const struct device_event *e, instant_ns at_ns)
{
    struct held *h = held_new(f, e->channel, &e->flow, e->octets.len, at_ns);
    if (h != NULL) {
        h->is_incoming = true;
        h->ecn = e->ecn;
        memcpy(h->octets + NET_HEADROOM, e->octets.ptr, e->octets.len);
        hold(f, h);
    }
}

// False: none of it is handed up now.
static bool suffer(struct fault_device *f, const struct device_event *e, instant_ns now)
{
    struct fault_fate fate = fault_model_draw(&f->model, now);
    unsigned count_now = 0;
    for (unsigned i = 0; i < fate.count; i++) {
        if (fate.delay_ns[i] == 0) {
            count_now++;
        } else {
            hold_arrival(f, e, instant_after(now, fate.delay_ns[i]));
        }
    }
    if (count_now > 1) {
        f->again = *e;
        f->again_count = count_now - 1;
    }
    return count_now > 0;
}

static bool fault_next(struct device *d, instant_ns now, struct device_event *ret)
{
    struct fault_device *f = fault_of(d);
    free(f->handed_up);
    f->handed_up = NULL;
    if (f->again_count > 0) {
        f->again_count--;
        *ret = f->again;
        return true;
    }
    while (device_next(f->forward.inner, now, ret)) {
        bool may_suffer =
            ret->kind == DEVICE_EVENT_SEGMENT && (f->model.config.sides & FAULT_SIDE_IN) != 0;
        if (!may_suffer || suffer(f, ret, now)) {
            return true;
        }
    }
    return release_due(f, now, ret);
}

static bool fault_poll(struct device *d, instant_ns now)
{
    struct fault_device *f = fault_of(d);
    bool has_news = device_poll(f->forward.inner, now);
    return has_news || !list_is_empty(&f->held);
}

static instant_ns fault_next_deadline(struct device *d)
{
    struct fault_device *f = fault_of(d);
    instant_ns at_ns = device_next_deadline(f->forward.inner);
    if (!list_is_empty(&f->held)) {
        at_ns = instant_min(at_ns, LIST_ENTRY(f->held.next, struct held, link)->at_ns);
    }
    return at_ns;
}

/* ---- the rest -------------------------------------------------------------------------------- */

// What waits on the channel is lost with it.
static void fault_close(struct device *d, struct channel *channel)
{
    struct fault_device *f = fault_of(d);
    struct list_link *at = f->held.next;
    while (at != &f->held) {
        struct held *h = LIST_ENTRY(at, struct held, link);
        at = at->next;
        if (h->channel == channel) {
            held_free(f, h);
        }
    }
    f->again_count = f->again.channel == channel ? 0 : f->again_count;
    device_close(f->forward.inner, channel);
}

static void fault_counters(const struct device *d, counter_each each, void *ctx)
{
    const struct fault_device *f = (const struct fault_device *)d;
#define X(name, text) each(ctx, "faults." #name, f->model.counters.name);
    FAULT_COUNTERS(X)
#undef X
    device_counters(f->forward.inner, each, ctx);
}

static void fault_destroy(struct device *d)
{
    struct fault_device *f = fault_of(d);
    while (!list_is_empty(&f->held)) {
        held_free(f, LIST_ENTRY(f->held.next, struct held, link));
    }
    free(f->handed_up);
    device_destroy(f->forward.inner);
    free(f);
}

static const struct device_ops fault_ops = {
    .name = "fault",
    .open = device_forward_open,
    .connect = device_forward_connect,
    .accept = device_forward_accept,
    .close = fault_close,
    .set_tos = device_forward_set_tos,
    .segment_len_max = device_forward_segment_len_max,
    .route = device_forward_route,
    .send = fault_send,
    .poll = fault_poll,
    .receive = device_forward_receive,
    .next = fault_next,
    .corrupt = device_forward_corrupt,
    .counters = fault_counters,
    .next_deadline = fault_next_deadline,
    .wait = device_forward_wait,
    .wake = device_forward_wake,
    .descriptor = device_forward_descriptor,
    .abandon = device_forward_abandon,
    .destroy = fault_destroy,
};

int device_fault_wrap(struct device *inner, const struct fault_config *config, struct device **ret)
{
    struct fault_device *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return -ENOMEM;
    }
    list_init(&f->held);
    fault_model_init(&f->model, config);
    f->forward = (struct device_forward){.base = {.ops = &fault_ops, .journal = inner->journal},
                                         .inner = inner};
    // Each segment meets its own fate.
    f->forward.base.takes_runs = inner->takes_runs && (config->sides & FAULT_SIDE_OUT) == 0;
    if (config->corrupt > 0) { // before anything is looked at, which the inner device does
        device_corrupt(inner, &f->model);
    }
    *ret = &f->forward.base;
    return 0;
}

const struct fault_counters *device_fault_counters(const struct device *d)
{
    return &fault_of(d)->model.counters;
}
