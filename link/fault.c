#include "link/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "link/forward.h"
#include "net/cut.h"

enum { HELD_MAX = 8192 }; // packets that wait; one more is lost

struct fault_device {
    struct device_forward forward;
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
        f->forward.base.up.on_segment(f->forward.base.up.ctx, h->channel, &h->flow,
                                      span_of(h->octets, h->len));
        return;
    }
    struct iovec iov = {h->octets, h->len};
    struct tcp_batch batch = {.header = h->header,
                              .segment_count = 1,
                              .segment_len = (uint32_t)h->len,
                              .payload_len = (uint32_t)h->len,
                              .iov = &iov,
                              .iov_count = h->len > 0};
    f->forward.inner->ops->send(f->forward.inner, h->channel, &h->flow, &batch, now);
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
        return f->forward.inner->ops->send(f->forward.inner, channel, flow, batch, now);
    }
    net_cut_init(&cut, batch);
    while (net_cut_next(&cut, 1, &piece)) {
        struct fault_fate fate = fault_model_draw(&f->model, now);
        struct tcp_batch one = net_piece_batch(&piece, batch);
        for (unsigned i = 0; i < fate.count; i++) {
            if (fate.delay_ns[i] > 0) {
                hold_piece(f, channel, flow, &piece, instant_after(now, fate.delay_ns[i]));
            } else if (f->forward.inner->ops->send(f->forward.inner, channel, flow, &one, now) ==
                       0) {
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
    struct device_up *up = &f->forward.base.up;
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

static void fault_poll(struct device *d, instant_ns now)
{
    struct fault_device *f = fault_of(d);
    f->now_ns = now;
    f->forward.inner->ops->poll(f->forward.inner, now);
    release_due(f, now);
}

static bool fault_receive(struct device *d, struct channel *channel, size_t max_len, instant_ns now)
{
    struct fault_device *f = fault_of(d);
    f->now_ns = now;
    bool has_more = f->forward.inner->ops->receive(f->forward.inner, channel, max_len, now);
    release_due(f, now);
    return has_more;
}

static instant_ns fault_next_deadline(struct device *d)
{
    struct fault_device *f = fault_of(d);
    instant_ns at_ns = f->forward.inner->ops->next_deadline(f->forward.inner);
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
    f->forward.inner->ops->close(f->forward.inner, channel);
}

static void fault_counters(const struct device *d, counter_each each, void *ctx)
{
    const struct fault_device *f = (const struct fault_device *)d;
#define X(name, text) each(ctx, "faults." #name, f->model.counters.name);
    FAULT_COUNTERS(X)
#undef X
    f->forward.inner->ops->counters(f->forward.inner, each, ctx);
}

static void fault_destroy(struct device *d)
{
    struct fault_device *f = fault_of(d);
    while (!list_is_empty(&f->held)) {
        held_free(f, LIST_ENTRY(f->held.next, struct held, link));
    }
    f->forward.inner->ops->destroy(f->forward.inner);
    free(f);
}

static const struct device_ops fault_ops = {
    .name = "fault",
    .close = fault_close,
    .send = fault_send,
    .poll = fault_poll,
    .receive = fault_receive,
    .counters = fault_counters,
    .next_deadline = fault_next_deadline,
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
    device_forward_init(&f->forward, &fault_ops,
                        &(struct device_up){.on_octets = config->corrupt > 0 ? on_octets : NULL,
                                            .on_segment = on_segment},
                        inner);
    *ret = &f->forward.base;
    return 0;
}

const struct fault_counters *device_fault_counters(const struct device *d)
{
    return &fault_of(d)->model.counters;
}
