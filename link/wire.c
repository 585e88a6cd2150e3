#include "link/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/prng.h"
#include "base/time.h"
#include "link/device/ip_device.h"
#include "net/addr.h"
#include "net/iface.h"
#include "wire/ip.h"

enum { PREFIX_LEN = 8 };

struct wire {
    struct wire_config config;
    struct fault_model model;
    struct list_link ends;
    struct list_link under_way; // the earliest first
    uint64_t overflows, marks;
};

struct wire_end {
    struct ip_device ip;
    struct wire *wire;
    struct list_link link; // in the wire's
    struct list_link arrived;
    bool is_read;             // what has arrived is asked for
    struct packet *handed_up; // by the last `next`
    instant_ns free_at_ns;    // when what it has sent will have left
};

struct packet {
    struct list_link link; // of the wire, then of the end that it came to
    struct wire_end *to;
    instant_ns at_ns;
    size_t len;
    uint8_t octets[];
};

static struct wire_end *end_of(const struct device *d)
{
    return (struct wire_end *)d;
}

static instant_ns now_of(const struct wire *w)
{
    return w->config.clock(w->config.clock_ctx);
}

/* ---- the wire -------------------------------------------------------------------------------- */

struct wire *wire_create(const struct wire_config *config)
{
    struct wire *w = calloc(1, sizeof *w);
    if (w != NULL) {
        w->config = *config;
        fault_model_init(&w->model, &config->faults);
        list_init(&w->ends);
        list_init(&w->under_way);
    }
    return w;
}

static void packets_free(struct list_link *packets)
{
    struct list_link *l;
    while ((l = list_pop_head(packets)) != NULL) {
        free(LIST_ENTRY(l, struct packet, link));
    }
}

void wire_destroy(struct wire *w)
{
    if (w != NULL) {
        packets_free(&w->under_way);
        free(w);
    }
}

instant_ns wire_next_event(const struct wire *w)
{
    return list_is_empty(&w->under_way) ? INSTANT_NEVER
                                        : LIST_ENTRY(w->under_way.next, struct packet, link)->at_ns;
}

bool wire_advance(struct wire *w)
{
    instant_ns now = now_of(w);
    bool has_moved = false;
    while (wire_next_event(w) <= now) {
        struct packet *p = LIST_ENTRY(list_pop_head(&w->under_way), struct packet, link);
        list_push_tail(&p->to->arrived, &p->link);
        has_moved = true;
    }
    return has_moved;
}

void wire_set_faults(struct wire *w, const struct fault_config *faults)
{
    w->model.config = *faults;
    w->model.is_losing = false;
}

const struct fault_counters *wire_counters(const struct wire *w)
{
    return &w->model.counters;
}

uint64_t wire_overflows(const struct wire *w)
{
    return w->overflows;
}

uint64_t wire_marks(const struct wire *w)
{
    return w->marks;
}

/* ---- sending --------------------------------------------------------------------------------- */

static struct wire_end *end_find(const struct wire *w, const uint8_t *ipv4)
{
    struct net_addr addr = net_addr_from_ipv4(ipv4);
    for (const struct list_link *l = w->ends.next; l != &w->ends; l = l->next) {
        struct wire_end *e = LIST_ENTRY(l, struct wire_end, link);
        if (net_iface_has_addr(&e->ip.iface, &addr)) {
            return e;
        }
    }
    return NULL;
}

// In the order of their times; of the same time, in the order of their sending.
static void put_under_way(struct wire *w, struct packet *p)
{
    struct list_link *at = &w->under_way;
    while (at->prev != &w->under_way &&
           LIST_ENTRY(at->prev, struct packet, link)->at_ns > p->at_ns) {
        at = at->prev;
    }
    list_push_tail(at, &p->link);
}

static void packet_send(struct wire_end *to, const struct net_frame *frame, size_t len,
                        bool is_to_be_marked, instant_ns at_ns)
{
    struct packet *p = malloc(sizeof *p + len);
    size_t at = 0;
    if (p == NULL) {
        return; // lost
    }
    *p = (struct packet){.to = to, .at_ns = at_ns, .len = len};
    for (unsigned i = 0; i < frame->iov_count; i++) {
        memcpy(p->octets + at, frame->iov[i].iov_base, frame->iov[i].iov_len);
        at += frame->iov[i].iov_len;
    }
    to->wire->marks += is_to_be_marked && ipv4_mark(p->octets);
    fault_model_corrupt(&to->wire->model, mspan_of(p->octets, len));
    put_under_way(to->wire, p);
}

// Octets that leave before what is sent now.
static uint64_t waiting_len(const struct wire_end *e, instant_ns now)
{
    return e->free_at_ns > now ? (e->free_at_ns - now) * e->wire->config.rate / NS_PER_S : 0;
}

// When the last octet will have left, behind those that wait; INSTANT_NEVER: there is no room for
// that.
static instant_ns leave_at(struct wire_end *e, size_t len, uint64_t waiting, instant_ns now)
{
    const struct wire_config *c = &e->wire->config;
    if (c->rate == 0) {
        return now;
    }
    instant_ns begin_ns = e->free_at_ns > now ? e->free_at_ns : now;
    if (c->queue_len > 0 && waiting + len > c->queue_len) {
        return INSTANT_NEVER;
    }
    e->free_at_ns = begin_ns + len * NS_PER_S / c->rate;
    return e->free_at_ns;
}

static bool wire_send(void *ctx, const struct net_frame *frame)
{
    struct wire_end *e = ctx;
    struct wire *w = e->wire;
    const uint8_t *ip = frame->iov[0].iov_base;
    size_t len = 0;
    for (unsigned i = 0; i < frame->iov_count; i++) {
        len += frame->iov[i].iov_len;
    }
    instant_ns now = now_of(w);
    uint64_t waiting = waiting_len(e, now);
    bool is_to_be_marked = w->config.mark_len > 0 && waiting > w->config.mark_len;
    instant_ns left_ns = leave_at(e, len, waiting, now);
    struct wire_end *to = end_find(w, ip + IPV4_OFF_DST);
    if (left_ns == INSTANT_NEVER) {
        w->overflows++;
        return true;
    }
    struct fault_fate fate = fault_model_draw(&w->model, now);
    for (unsigned i = 0; to != NULL && i < fate.count; i++) {
        packet_send(to, frame, len, is_to_be_marked, left_ns + fate.delay_ns[i]);
    }
    return true;
}

/* ---- an end ---------------------------------------------------------------------------------- */

static void end_receive(struct device *d, struct channel *channel, size_t max_len)
{
    end_of(d)->is_read = true;
}

static bool next_arrived(struct wire_end *e, instant_ns now, struct device_event *ret)
{
    struct list_link *l;
    while ((l = list_pop_head(&e->arrived)) != NULL) {
        struct packet *p = e->handed_up = LIST_ENTRY(l, struct packet, link);
        if (ip_device_on_frame(&e->ip, mspan_of(p->octets, p->len), false, now, ret)) {
            return true;
        }
        free(p);
        e->handed_up = NULL;
    }
    e->is_read = false;
    return false;
}

static bool end_next(struct device *d, instant_ns now, struct device_event *ret)
{
    struct wire_end *e = end_of(d);
    if (e->handed_up != NULL) {
        free(e->handed_up);
        e->handed_up = NULL;
    }
    return (e->is_read && next_arrived(e, now, ret)) || ip_device_next(&e->ip, ret);
}

static bool end_poll(struct device *d, instant_ns now)
{
    struct wire_end *e = end_of(d);
    ip_device_poll(&e->ip, now);
    if (!list_is_empty(&e->arrived)) {
        e->ip.news |= IP_DEVICE_READABLE;
    }
    return e->ip.news != 0;
}

static instant_ns end_next_deadline(struct device *d)
{
    return ip_device_next_deadline(&end_of(d)->ip);
}

static void end_wait(struct device *d, duration_ns timeout_ns)
{
}

static void end_wake(struct device *d)
{
}

static int end_descriptor(const struct device *d)
{
    return -EOPNOTSUPP;
}

static void end_abandon(struct device *d)
{
}

static void end_destroy(struct device *d)
{
    struct wire_end *e = end_of(d);
    struct list_link *l = e->wire->under_way.next;
    while (l != &e->wire->under_way) {
        struct packet *p = LIST_ENTRY(l, struct packet, link);
        l = l->next;
        if (p->to == e) {
            list_remove(&p->link);
            free(p);
        }
    }
    packets_free(&e->arrived);
    free(e->handed_up);
    list_remove(&e->link);
    ip_device_fini(&e->ip);
    free(e);
}

static const struct device_ops end_ops = {
    .name = "wire",
    .open = ip_device_open,
    .connect = ip_device_connect,
    .accept = ip_device_accept,
    .close = ip_device_close,
    .set_tos = ip_device_set_tos,
    .segment_len_max = ip_device_segment_len_max,
    .route = ip_device_route,
    .send = ip_device_send,
    .poll = end_poll,
    .receive = end_receive,
    .next = end_next,
    .corrupt = ip_device_corrupt,
    .counters = ip_device_counters,
    .next_deadline = end_next_deadline,
    .wait = end_wait,
    .wake = end_wake,
    .descriptor = end_descriptor,
    .abandon = end_abandon,
    .destroy = end_destroy,
};

struct device *wire_end_create(struct wire *w, const struct in_addr *addrs, unsigned count)
{
    struct wire_end *e = calloc(1, sizeof *e);
    struct net_iface_config config = {
        .addr_count = count, .mtu = w->config.mtu, .port = {.send = wire_send, .ctx = e}};
    if (e == NULL) {
        return NULL;
    }
    for (unsigned i = 0; i < count; i++) {
        config.addrs[i].addr = net_addr_from_ipv4((const uint8_t *)&addrs[i]);
        config.addrs[i].prefix_len = PREFIX_LEN;
    }
    e->wire = w;
    list_init(&e->arrived);
    list_push_tail(&w->ends, &e->link);
    ip_device_init(&e->ip, &end_ops, &config, prng_next(&w->model.rng));
    return &e->ip.base;
}

void wire_draw(struct wire *w, struct mspan ret)
{
    for (size_t i = 0; i < ret.len; i++) {
        ret.ptr[i] = (uint8_t)prng_next(&w->model.rng);
    }
}

const struct wire_config *wire_config_of(const struct wire *w)
{
    return &w->config;
}
