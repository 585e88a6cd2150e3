#include "node/bus/residual.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/serial.h"

enum {
    // Frames looked at in one call: another side that never stops sending must not keep the caller.
    RECEIVE_MAX = 4096,
};

// Longer than a tick of the kernel's. Who sleeps until then does so behind a timer that is not the
// processor's next one, and need not be programmed; in a virtual machine that takes some 10 us when
// the sleep begins, and as much when it ends early.
static const duration_ns lazy_ns = 20 * NS_PER_MS;
static const duration_ns timeout_first_ns = 200 * NS_PER_MS;
static const duration_ns timeout_last_ns = 5 * NS_PER_S;

struct residual_store *residual_create(struct frame_port port, uint32_t window,
                                       void (*on_ack)(void *ctx, const struct frame *frame),
                                       void *ctx)
{
    CHECK(window != 0 && (window & (window - 1)) == 0);
    struct residual_store *store = calloc(1, sizeof *store);
    struct frame *frames = calloc(window, sizeof *frames);
    if (store == NULL || frames == NULL) {
        free(store);
        free(frames);
        return NULL;
    }
    *store = (struct residual_store){
        .port = port, .on_ack = on_ack, .ctx = ctx, .frames = frames, .window = window};
    residual_reset(store);
    return store;
}

void residual_destroy(struct residual_store *store)
{
    if (store != NULL) {
        free(store->frames);
        free(store);
    }
}

void residual_reset(struct residual_store *store)
{
    store->una = store->unsent = store->nxt = 1;
    store->rcv_nxt = 1;
    store->owes_ack = store->ack_is_urgent = store->should_ring = false;
    store->ring_at_ns = store->resend_at_ns = INSTANT_NEVER;
    store->timeout_ns = timeout_first_ns;
}

/* ---- sending --------------------------------------------------------------------------------- */

bool residual_can_send(const struct residual_store *store)
{
    return store->nxt - store->una < store->window;
}

static struct frame *kept(struct residual_store *store, uint32_t number)
{
    return &store->frames[number & (store->window - 1)];
}

static bool put(struct residual_store *store, struct frame *frame)
{
    frame->ack = store->rcv_nxt - 1;
    if (!store->port.send(store->port.ctx, frame)) {
        return false;
    }
    store->owes_ack = false;
    return true;
}

static void put_unsent(struct residual_store *store)
{
    while (store->unsent != store->nxt && put(store, kept(store, store->unsent))) {
        store->unsent++;
    }
}

void residual_send(struct residual_store *store, struct frame frame, bool is_lazy, instant_ns now)
{
    CHECK(residual_can_send(store));
    frame.sequence = store->nxt;
    *kept(store, store->nxt) = frame;
    store->nxt++;
    store->should_ring |= !is_lazy;
    store->ring_at_ns = instant_min(store->ring_at_ns, instant_after(now, lazy_ns));
    if (store->resend_at_ns == INSTANT_NEVER) {
        store->resend_at_ns = instant_after(now, store->timeout_ns);
    }
    put_unsent(store);
}

static void ring(struct residual_store *store)
{
    store->port.ring(store->port.ctx);
    store->should_ring = false;
    store->ring_at_ns = INSTANT_NEVER;
}

void residual_flush(struct residual_store *store)
{
    put_unsent(store);
    if (store->owes_ack) {
        struct frame ack = {.kind = FRAME_ACK};
        put(store, &ack);
    }
    if (store->ack_is_urgent && !store->owes_ack) {
        store->ack_is_urgent = false;
        store->should_ring = true;
    }
    if (store->should_ring) {
        ring(store);
    }
}

void residual_hurry(struct residual_store *store)
{
    struct frame please = {.kind = FRAME_ACK, .flags = FRAME_WANTS_ACK};
    put_unsent(store);
    if (store->una != store->nxt && put(store, &please)) {
        store->should_ring = true;
    }
    residual_flush(store);
}

/* ---- receiving ------------------------------------------------------------------------------- */

// An old acknowledgement says nothing new; one beyond all that has a number is a lie.
static bool take_ack(struct residual_store *store, uint32_t ack, instant_ns now)
{
    if (!serial_before(ack, store->nxt)) {
        store->counters.refusals++;
        return false;
    }
    if (serial_before(ack, store->una)) {
        return true;
    }
    while (store->una != ack + 1) {
        struct frame frame = *kept(store, store->una);
        store->una++;
        store->on_ack(store->ctx, &frame);
    }
    if (serial_before(store->unsent, store->una)) {
        store->unsent = store->una;
    }
    bool is_all = store->una == store->nxt;
    store->timeout_ns = timeout_first_ns;
    store->resend_at_ns = is_all ? INSTANT_NEVER : instant_after(now, store->timeout_ns);
    store->ring_at_ns = is_all ? INSTANT_NEVER : store->ring_at_ns;
    return true;
}

// Is it the next in order? What is not is dropped, and acknowledged as far as it goes.
static bool take_number(struct residual_store *store, uint32_t sequence)
{
    store->owes_ack = true;
    if (sequence == store->rcv_nxt) {
        store->rcv_nxt++;
        return true;
    }
    if (serial_before(sequence, store->rcv_nxt)) {
        store->counters.duplicates++;
    } else {
        store->counters.gaps++;
    }
    return false;
}

enum residual_verdict residual_receive(struct residual_store *store, struct frame *ret,
                                       instant_ns now)
{
    for (unsigned i = 0; i < RECEIVE_MAX && store->port.receive(store->port.ctx, ret); i++) {
        if (ret->kind == 0 || ret->kind >= FRAME_KIND_COUNT) {
            store->counters.refusals++;
            return RESIDUAL_BROKEN;
        }
        if (!take_ack(store, ret->ack, now)) {
            return RESIDUAL_BROKEN;
        }
        if ((ret->flags & FRAME_WANTS_ACK) != 0) {
            store->owes_ack = store->ack_is_urgent = true;
            ret->flags &= (uint16_t)~FRAME_WANTS_ACK;
        }
        if (ret->kind != FRAME_ACK && take_number(store, ret->sequence)) {
            return RESIDUAL_FRAME;
        }
    }
    return RESIDUAL_NOTHING;
}

/* ---- time ------------------------------------------------------------------------------------ */

instant_ns residual_next_deadline(const struct residual_store *store)
{
    return instant_min(store->ring_at_ns, store->resend_at_ns);
}

void residual_on_deadline(struct residual_store *store, instant_ns now)
{
    if (now >= store->resend_at_ns) {
        store->counters.resent += store->unsent - store->una;
        store->unsent = store->una;
        store->timeout_ns *= 2;
        if (store->timeout_ns > timeout_last_ns) {
            store->timeout_ns = timeout_last_ns;
        }
        store->resend_at_ns = instant_after(now, store->timeout_ns);
        put_unsent(store);
        ring(store);
    } else if (now >= store->ring_at_ns) {
        ring(store);
    }
}
