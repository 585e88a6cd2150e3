#include "tests/congestion/bottleneck.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum event_kind { EVENT_START, EVENT_WAKE, EVENT_TIMER, EVENT_ARRIVAL, EVENT_ACK, EVENT_NAK };

enum { TCP_MSS = 1024 };
#define TIMEOUT_NS (4096 * 1024 * UINT64_C(1)) // timeout 10 of ibv_modify_qp

void bottleneck_init(struct bottleneck *b, const struct bottleneck_config *config)
{
    memset(b, 0, sizeof *b);
    b->config = *config;
    prng_init(&b->prng, 1);
    b->event_room = 1 << 16;
    b->events = calloc(b->event_room, sizeof *b->events);
    CHECK(b->events != NULL);
}

void bottleneck_fini(struct bottleneck *b)
{
    free(b->events);
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool is_earlier(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void event_put(struct bottleneck *b, struct event e)
{
    CHECK(b->event_count < b->event_room);
    e.order = b->event_order++;
    uint64_t i = b->event_count++;
    for (; i > 0 && is_earlier(&e, &b->events[(i - 1) / 2]); i = (i - 1) / 2) {
        b->events[i] = b->events[(i - 1) / 2];
    }
    b->events[i] = e;
}

static struct event event_take(struct bottleneck *b)
{
    struct event first = b->events[0], last = b->events[--b->event_count];
    uint64_t i = 0;
    for (uint64_t child; (child = 2 * i + 1) < b->event_count; i = child) {
        if (child + 1 < b->event_count && is_earlier(&b->events[child + 1], &b->events[child])) {
            child++;
        }
        if (!is_earlier(&b->events[child], &last)) {
            break;
        }
        b->events[i] = b->events[child];
    }
    b->events[i] = last;
    return first;
}

/* ---- the line -------------------------------------------------------------------------------- */

// A packet comes to the queue: it is dropped, or arrives at its receiver.
static void line_put(struct bottleneck *b, uint32_t flow, uint64_t number, bool asks)
{
    const struct bottleneck_config *config = &b->config;
    instant_ns free_at = b->line_free_at > b->now ? b->line_free_at : b->now;
    if ((free_at - b->now) / config->packet_ns >= config->queue_max) {
        b->dropped++;
        return;
    }
    b->carried++;
    b->line_free_at = free_at + config->packet_ns;
    event_put(b, (struct event){.at = b->line_free_at + config->rtt_ns / 2,
                                .flow = flow,
                                .kind = EVENT_ARRIVAL,
                                .number = number,
                                .asks = asks});
}

// An answer travels beside the queue. A host that is busy keeps some of them, and what follows.
static void answer(struct bottleneck *b, const struct event *e, enum event_kind kind,
                   uint64_t number)
{
    struct flow *f = &b->flows[e->flow];
    instant_ns at = b->now + b->config.rtt_ns / 2;
    if (b->config.stall_ns != 0 && prng_below(&b->prng, 64) == 0) {
        at += prng_below(&b->prng, (uint32_t)b->config.stall_ns);
    }
    f->answered_at = at > f->answered_at ? at : f->answered_at;
    event_put(
        b, (struct event){.at = f->answered_at, .flow = e->flow, .kind = kind, .number = number});
}

/* ---- senders --------------------------------------------------------------------------------- */

static uint32_t window_of(const struct flow *f)
{
    switch (f->kind) {
    case FLOW_CONTROLLED:
        return congestion_window(&f->congestion);
    case FLOW_TCP:
        return f->tcp.cwnd / TCP_MSS;
    default:
        return CONGESTION_WINDOW_STRANGER;
    }
}

// Whether this packet asks for an acknowledgement, as RC's requester does.
static bool asks(const struct flow *f, uint32_t window)
{
    uint32_t interval = f->kind == FLOW_CONTROLLED ? congestion_ack_interval(&f->congestion)
                                                   : CONGESTION_ACK_INTERVAL_MAX;
    return f->kind == FLOW_TCP || f->sent + 1 - f->asked >= interval ||
           f->sent + 1 - f->acked >= window;
}

static void send_one(struct bottleneck *b, uint32_t i, bool is_asking)
{
    struct flow *f = &b->flows[i];
    f->sent_at[f->sent % SENT_RING] = b->now;
    f->asked = is_asking ? f->sent + 1 : f->asked;
    f->progress_at = f->sent == f->acked ? b->now : f->progress_at;
    line_put(b, i, f->sent++, is_asking);
    if (f->kind == FLOW_CONTROLLED) {
        congestion_on_sent(&f->congestion, 1, b->now);
    }
}

// Sends what window and pace allow.
static void send_all(struct bottleneck *b, uint32_t i)
{
    struct flow *f = &b->flows[i];
    uint32_t window = window_of(f);
    instant_ns not_before = f->kind == FLOW_CONTROLLED ? congestion_not_before(&f->congestion) : 0;
    while (f->sent - f->acked < window && not_before <= b->now) {
        send_one(b, i, asks(f, window));
        not_before = f->kind == FLOW_CONTROLLED ? congestion_not_before(&f->congestion) : 0;
    }
    if (f->sent - f->acked < window && f->wakes_at <= b->now) {
        f->wakes_at = not_before;
        event_put(
            b, (struct event){.at = not_before + b->config.late_ns, .flow = i, .kind = EVENT_WAKE});
    }
}

static duration_ns timeout_of(const struct flow *f)
{
    return f->kind == FLOW_CONTROLLED ? congestion_timeout(&f->congestion, TIMEOUT_NS) : TIMEOUT_NS;
}

static void go_back(struct flow *f)
{
    f->sent_once_from = f->sent > f->sent_once_from ? f->sent : f->sent_once_from;
    f->sent = f->asked = f->acked;
}

static void on_timer(struct bottleneck *b, uint32_t i)
{
    struct flow *f = &b->flows[i];
    if (f->sent > f->acked && b->now >= f->progress_at + timeout_of(f)) {
        f->timeouts++;
        f->timeouts_max = f->timeouts > f->timeouts_max ? f->timeouts : f->timeouts_max;
        f->progress_at = b->now;
        if (f->kind == FLOW_TCP) {
            tcp_cc_on_timeout(&f->tcp, (uint32_t)(f->sent - f->acked) * TCP_MSS, f->timeouts == 1);
            f->acked = f->sent;
            f->recovered_from = f->sent;
        } else {
            congestion_on_timeout(&f->congestion, b->now);
            go_back(f);
        }
        send_all(b, i);
    }
    instant_ns from = f->sent > f->acked ? f->progress_at : b->now;
    event_put(b, (struct event){.at = from + timeout_of(f), .flow = i, .kind = EVENT_TIMER});
}

static void on_progress(struct bottleneck *b, struct flow *f)
{
    f->timeouts = 0;
    f->progress_at = b->now;
}

// Everything below `end` has arrived; the packet before `end` is what brought the answer.
static void on_acked(struct bottleneck *b, struct flow *f, uint64_t end, bool is_ack)
{
    if (end <= f->acked) {
        return;
    }
    on_progress(b, f);
    uint32_t packets = (uint32_t)(end - f->acked);
    f->acked = end;
    f->sent = f->sent > end ? f->sent : end;
    f->asked = f->asked > end ? f->asked : end;
    if (is_ack && end - 1 >= f->sent_once_from) {
        congestion_on_rtt(&f->congestion, b->now - f->sent_at[(end - 1) % SENT_RING], b->now);
    }
    congestion_on_ack(&f->congestion, packets, true);
}

static void on_nak(struct bottleneck *b, struct flow *f, uint64_t expected)
{
    on_acked(b, f, expected, false);
    if (expected == f->acked && f->sent > expected) {
        congestion_on_loss(&f->congestion, b->now);
        go_back(f);
    }
}

// TCP: `number` is a transmission. The way keeps its order, so those before it were lost.
static void on_tcp_acked(struct bottleneck *b, struct flow *f, uint64_t number)
{
    if (number < f->acked) {
        return;
    }
    on_progress(b, f);
    bool has_lost = number > f->acked;
    duration_ns sample_ns = b->now - f->sent_at[number % SENT_RING];
    f->srtt_ns = f->srtt_ns == 0 ? sample_ns : f->srtt_ns - f->srtt_ns / 8 + sample_ns / 8;
    if (has_lost && number >= f->recovered_from) {
        tcp_cc_on_loss(&f->tcp, (uint32_t)(f->sent - f->acked) * TCP_MSS);
        tcp_cc_on_recovered(&f->tcp);
        f->recovered_from = f->sent;
    } else if (number >= f->recovered_from) {
        tcp_cc_on_ack(&f->tcp, TCP_MSS, true, f->srtt_ns, b->now);
    }
    f->acked = number + 1;
}

/* ---- receivers ------------------------------------------------------------------------------- */

static void on_arrival(struct bottleneck *b, const struct event *e)
{
    struct flow *f = &b->flows[e->flow];
    if (f->kind == FLOW_TCP) {
        f->delivered++;
        answer(b, e, EVENT_ACK, e->number);
    } else if (e->number > f->delivered) {
        if (!f->has_refused) {
            f->has_refused = true;
            answer(b, e, EVENT_NAK, f->delivered);
        }
    } else {
        f->has_refused = e->number < f->delivered && f->has_refused;
        f->delivered += e->number == f->delivered;
        if (e->asks) {
            answer(b, e, EVENT_ACK, f->delivered - 1);
        }
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

void bottleneck_add(struct bottleneck *b, enum flow_kind kind, instant_ns starts_at)
{
    CHECK(b->flow_count < FLOWS_MAX);
    struct flow *f = &b->flows[b->flow_count];
    const struct congestion_config config = {0};
    f->kind = kind;
    congestion_init(&f->congestion, &config);
    tcp_cc_init(&f->tcp, TCP_CC_CUBIC, TCP_MSS);
    event_put(b, (struct event){.at = starts_at, .flow = b->flow_count++, .kind = EVENT_START});
}

static void step(struct bottleneck *b)
{
    struct event e = event_take(b);
    struct flow *f = &b->flows[e.flow];
    b->now = e.at;
    switch ((enum event_kind)e.kind) {
    case EVENT_START:
        on_timer(b, e.flow);
        break;
    case EVENT_WAKE:
        break;
    case EVENT_TIMER:
        on_timer(b, e.flow);
        return;
    case EVENT_ARRIVAL:
        on_arrival(b, &e);
        return;
    case EVENT_ACK:
        if (f->kind == FLOW_TCP) {
            on_tcp_acked(b, f, e.number);
        } else {
            on_acked(b, f, e.number + 1, true);
        }
        break;
    case EVENT_NAK:
        on_nak(b, f, e.number);
        break;
    }
    send_all(b, e.flow);
}

void bottleneck_run(struct bottleneck *b, instant_ns until)
{
    while (b->event_count > 0 && b->events[0].at < until) {
        step(b);
    }
    b->now = until;
}

void bottleneck_mark(struct bottleneck *b)
{
    for (unsigned i = 0; i < b->flow_count; i++) {
        b->flows[i].delivered_at_mark = b->flows[i].delivered;
    }
}

uint64_t bottleneck_goodput(const struct bottleneck *b, unsigned i)
{
    return b->flows[i].delivered - b->flows[i].delivered_at_mark;
}
