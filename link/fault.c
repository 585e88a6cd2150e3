#include "link/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "net/cut.h"

enum { HELD_MAX = 8192 }; // packets that wait; one more is lost

struct fault_device {
    struct device base;
    struct device *inner;
    struct fault_model model;
    struct list_link held; // the earliest first
    unsigned held_count;
    instant_ns now_ns; // of the present look
};

// A packet that waits for its time.
struct held {
    struct list_link link;
    instant_ns at_ns;
    struct channel *channel;
    struct net_flow flow;
    bool is_incoming;
    struct tcp_header header; // of one that goes out
    size_t len;
    uint8_t octets[]; // its payload; of one that comes in, all
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
    struct held *h = f->held_count < HELD_MAX ? malloc(sizeof *h + len) : NULL;
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

static void release(struct fault_device *f, struct held *h, instant_ns now)
{
    if (h->is_incoming) {
        f->base.up.on_segment(f->base.up.ctx, h->channel, &h->flow, span_of(h->octets, h->len));
        return;
    }
    struct iovec iov = {h->octets, h->len};
    struct tcp_batch batch = {.header = h->header,
                              .segment_count = 1,
                              .segment_len = (uint32_t)h->len,
                              .payload_len = (uint32_t)h->len,
                              .iov = &iov,
                              .iov_count = h->len > 0};
    f->inner->ops->send(f->inner, h->channel, &h->flow, &batch, now);
}

static void release_due(struct fault_device *f, instant_ns now)
{
    while (!list_is_empty(&f->held)) {
        struct held *h = LIST_ENTRY(f->held.next, struct held, link);
        if (h->at_ns > now) {
            return;
        }
        list_remove(&h->link); // handing it up may close its channel
        f->held_count--;
        release(f, h, now);
        free(h);
    }
}

/* ---- out ------------------------------------------------------------------------------------- */

static void hold_piece(struct fault_device *f, struct channel *channel, const struct net_flow *flow,
                       const struct net_piece *piece, instant_ns at_ns)
{
    struct held *h = held_new(f, channel, flow, piece->payload_len, at_ns);
    size_t at = 0;
    if (h == NULL) {
        return;
    }
    h->header = piece->header;
    for (unsigned i = 0; i < piece->iov_count; i++) {
        memcpy(h->octets + at, piece->iov[i].iov_base, piece->iov[i].iov_len);
        at += piece->iov[i].iov_len;
    }
    hold(f, h);
}

static unsigned fault_send(struct device *d, struct channel *channel, const struct net_flow *flow,
                           const struct tcp_batch *batch, instant_ns now)
{
    struct fault_device *f = fault_of(d);
    struct net_cut cut;
    struct net_piece piece;
    if ((f->model.config.sides & FAULT_SIDE_OUT) == 0) {
        return f->inner->ops->send(f->inner, channel, flow, batch, now);
    }
    net_cut_init(&cut, batch);
    while (net_cut_next(&cut, 1, &piece)) {
        struct fault_fate fate = fault_model_draw(&f->model, now);
        struct tcp_batch one = net_piece_batch(&piece, batch);
        for (unsigned i = 0; i < fate.count; i++) {
            if (fate.delay_ns[i] > 0) {
                hold_piece(f, channel, flow, &piece, instant_after(now, fate.delay_ns[i]));
            } else if (f->inner->ops->send(f->inner, channel, flow, &one, now) == 0) {
                return cut.next - 1;
            }
        }
    }
    return batch->segment_count;
}

/* ---- in -------------------------------------------------------------------------------------- */

static void on_octets(void *ctx, struct mspan octets)
{
    fault_model_corrupt(&((struct fault_device *)ctx)->model, octets);
}

static void on_segment(void *ctx, struct channel *via, const struct net_flow *flow,
                       struct span octets)
{
    struct fault_device *f = ctx;
    struct device_up *up = &f->base.up;
    if ((f->model.config.sides & FAULT_SIDE_IN) == 0) {
        up->on_segment(up->ctx, via, flow, octets);
        return;
    }
    struct fault_fate fate = fault_model_draw(&f->model, f->now_ns);
    for (unsigned i = 0; i < fate.count; i++) {
        if (fate.delay_ns[i] == 0) {
            up->on_segment(up->ctx, via, flow, octets);
            continue;
        }
        struct held *h =
            held_new(f, via, flow, octets.len, instant_after(f->now_ns, fate.delay_ns[i]));
        if (h != NULL) {
            h->is_incoming = true;
            memcpy(h->octets, octets.ptr, octets.len);
            hold(f, h);
        }
    }
}

static void on_readable(void *ctx, struct channel *channel)
{
    struct fault_device *f = ctx;
    f->base.up.on_readable(f->base.up.ctx, channel);
}

static void on_room(void *ctx, struct channel *channel)
{
    struct fault_device *f = ctx;
    f->base.up.on_room(f->base.up.ctx, channel);
}

static void on_path_mss(void *ctx, const struct net_flow *flow, uint32_t quoted_seq, uint16_t mss)
{
    struct fault_device *f = ctx;
    f->base.up.on_path_mss(f->base.up.ctx, flow, quoted_seq, mss);
}

static void on_unreachable(void *ctx, const struct net_flow *flow, uint32_t quoted_seq, int error)
{
    struct fault_device *f = ctx;
    f->base.up.on_unreachable(f->base.up.ctx, flow, quoted_seq, error);
}

static void fault_poll(struct device *d, instant_ns now)
{
    struct fault_device *f = fault_of(d);
    f->now_ns = now;
    f->inner->ops->poll(f->inner, now);
    release_due(f, now);
}

static bool fault_receive(struct device *d, struct channel *channel, size_t max_len, instant_ns now)
{
    struct fault_device *f = fault_of(d);
    f->now_ns = now;
    bool has_more = f->inner->ops->receive(f->inner, channel, max_len, now);
    release_due(f, now);
    return has_more;
}

static instant_ns fault_next_deadline(struct device *d)
{
    struct fault_device *f = fault_of(d);
    instant_ns at_ns = f->inner->ops->next_deadline(f->inner);
    if (!list_is_empty(&f->held)) {
        at_ns = instant_min(at_ns, LIST_ENTRY(f->held.next, struct held, link)->at_ns);
    }
    return at_ns;
}

/* ---- what is handed on ----------------------------------------------------------------------- */

static int fault_open(struct device *d, struct net_flow *place, unsigned flags,
                      struct channel **ret)
{
    struct device *inner = fault_of(d)->inner;
    return inner->ops->open(inner, place, flags, ret);
}

static int fault_connect(struct device *d, struct channel *channel, struct net_flow *flow)
{
    struct device *inner = fault_of(d)->inner;
    return inner->ops->connect(inner, channel, flow);
}

static int fault_accept(struct device *d, struct channel *listener, const struct net_flow *flow,
                        struct channel **ret)
{
    struct device *inner = fault_of(d)->inner;
    return inner->ops->accept(inner, listener, flow, ret);
}

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
    f->inner->ops->close(f->inner, channel);
}

static void fault_set_tos(struct device *d, struct channel *channel, uint8_t tos)
{
    struct device *inner = fault_of(d)->inner;
    inner->ops->set_tos(inner, channel, tos);
}

static uint16_t fault_mss(struct device *d, struct channel *channel, const struct net_flow *flow)
{
    struct device *inner = fault_of(d)->inner;
    return inner->ops->mss(inner, channel, flow);
}

static int fault_route(struct device *d, const struct net_addr *remote, uint32_t scope,
                       struct net_addr *ret_local)
{
    struct device *inner = fault_of(d)->inner;
    return inner->ops->route(inner, remote, scope, ret_local);
}

static void fault_counters(const struct device *d, counter_each each, void *ctx)
{
    const struct fault_device *f = (const struct fault_device *)d;
#define X(name, text) each(ctx, "faults." #name, f->model.counters.name);
    FAULT_COUNTERS(X)
#undef X
    f->inner->ops->counters(f->inner, each, ctx);
}

static void fault_wait(struct device *d, duration_ns timeout_ns)
{
    struct device *inner = fault_of(d)->inner;
    inner->ops->wait(inner, timeout_ns);
}

static void fault_wake(struct device *d)
{
    struct device *inner = fault_of(d)->inner;
    inner->ops->wake(inner);
}

static void fault_abandon(struct device *d)
{
    struct device *inner = fault_of(d)->inner;
    inner->ops->abandon(inner);
}

static void fault_destroy(struct device *d)
{
    struct fault_device *f = fault_of(d);
    while (!list_is_empty(&f->held)) {
        held_free(f, LIST_ENTRY(f->held.next, struct held, link));
    }
    f->inner->ops->destroy(f->inner);
    free(f);
}

static const struct device_ops fault_ops = {
    .name = "fault",
    .open = fault_open,
    .connect = fault_connect,
    .accept = fault_accept,
    .close = fault_close,
    .set_tos = fault_set_tos,
    .mss = fault_mss,
    .route = fault_route,
    .send = fault_send,
    .poll = fault_poll,
    .receive = fault_receive,
    .counters = fault_counters,
    .next_deadline = fault_next_deadline,
    .wait = fault_wait,
    .wake = fault_wake,
    .abandon = fault_abandon,
    .destroy = fault_destroy,
};

int device_fault_wrap(struct device *inner, const struct fault_config *config, struct device **ret)
{
    struct fault_device *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return -ENOMEM;
    }
    f->base.ops = &fault_ops;
    f->inner = inner;
    list_init(&f->held);
    fault_model_init(&f->model, config);
    inner->up = (struct device_up){.on_octets = config->corrupt > 0 ? on_octets : NULL,
                                   .on_segment = on_segment,
                                   .on_readable = on_readable,
                                   .on_room = on_room,
                                   .on_path_mss = on_path_mss,
                                   .on_unreachable = on_unreachable,
                                   .ctx = f};
    *ret = &f->base;
    return 0;
}

const struct fault_counters *device_fault_counters(const struct device *d)
{
    return &fault_of(d)->model.counters;
}
