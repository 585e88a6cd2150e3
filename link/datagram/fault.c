#include "link/datagram/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/span.h"
#include "base/time.h"
#include "link/datagram/forward.h"
#include "link/datagram/octets.h"

enum { HELD_MAX = 8192, BATCH = 32 };

struct datagram_fault {
    struct datagram_forward forward;
    struct fault_model model;
    instant_ns now_ns;                  // of the last look: putting has no time
    struct list_link held_out, held_in; // the earliest first
    struct list_link handed_up;         // by the last `receive`
    unsigned held_count;
};

// A packet that waits for its time.
struct held_packet {
    struct list_link link;
    instant_ns at_ns;
    struct datagram_path path; // of one that goes out
    struct datagram_rx rx;     // of one that comes in
    size_t len;
    uint8_t octets[];
};

static struct datagram_fault *fault_of(const struct datagram_link *link)
{
    return (struct datagram_fault *)link;
}

/* ---- waiting --------------------------------------------------------------------------------- */

// In the order of their times; of the same time, in the order of their coming.
static void hold(struct datagram_fault *f, struct list_link *list, struct held_packet *h)
{
    struct list_link *at = list;
    while (at->prev != list && LIST_ENTRY(at->prev, struct held_packet, link)->at_ns > h->at_ns) {
        at = at->prev;
    }
    list_push_tail(at, &h->link);
    f->held_count++;
}

static struct held_packet *held_new(struct datagram_fault *f, size_t len, instant_ns at_ns)
{
    struct held_packet *h = f->held_count < HELD_MAX ? malloc(sizeof *h + len) : NULL;
    if (h != NULL) {
        *h = (struct held_packet){.at_ns = at_ns, .len = len};
    }
    return h;
}

static void held_free_all(struct list_link *list)
{
    struct list_link *l;
    while ((l = list_pop_head(list)) != NULL) {
        free(LIST_ENTRY(l, struct held_packet, link));
    }
}

static instant_ns first_of(const struct list_link *list)
{
    return list_is_empty(list) ? INSTANT_NEVER
                               : LIST_ENTRY(list->next, struct held_packet, link)->at_ns;
}

/* ---- out ------------------------------------------------------------------------------------- */

static void hold_out(struct datagram_fault *f, const struct datagram_tx *tx, duration_ns delay_ns)
{
    instant_ns at_ns = instant_after(f->now_ns, delay_ns);
    struct held_packet *h = held_new(f, datagram_tx_len(tx), at_ns);
    if (h == NULL) {
        return; // lost
    }
    datagram_tx_copy(tx, h->octets);
    h->path = *tx->path;
    hold(f, &f->held_out, h);
}

static bool fault_put(struct datagram_link *link, const struct datagram_tx *tx)
{
    struct datagram_fault *f = fault_of(link);
    if ((f->model.config.sides & FAULT_SIDE_OUT) == 0) {
        return datagram_put(f->forward.inner, tx);
    }
    struct fault_model before = f->model;
    struct fault_fate fate = fault_model_draw(&f->model, f->now_ns);
    for (unsigned i = 0; i < fate.count; i++) {
        if (fate.delay_ns[i] > 0) {
            hold_out(f, tx, fate.delay_ns[i]);
        } else if (!datagram_put(f->forward.inner, tx) && i == 0) {
            f->model = before; // it will be put again, and meet the same
            return false;
        }
    }
    return true;
}

// True: some was put.
static bool release_out(struct datagram_fault *f)
{
    bool is_any = false;
    while (first_of(&f->held_out) <= f->now_ns) {
        struct held_packet *h = LIST_ENTRY(f->held_out.next, struct held_packet, link);
        struct datagram_tx tx = {.path = &h->path, .head = span_of(h->octets, h->len)};
        if (!datagram_put(f->forward.inner, &tx)) {
            break;
        }
        list_remove(&h->link);
        f->held_count--;
        free(h);
        is_any = true;
    }
    return is_any;
}

/* ---- in -------------------------------------------------------------------------------------- */

static void hold_in(struct datagram_fault *f, const struct datagram_rx *rx, duration_ns delay_ns)
{
    struct held_packet *h = held_new(f, rx->octets.len, instant_after(f->now_ns, delay_ns));
    if (h != NULL) {
        memcpy(h->octets, rx->octets.ptr, rx->octets.len);
        h->rx = *rx;
        h->rx.octets.ptr = h->octets;
        hold(f, &f->held_in, h);
    }
}

// False: it is not handed up now.
static bool suffer(struct datagram_fault *f, const struct datagram_rx *rx)
{
    struct fault_fate fate = fault_model_draw(&f->model, f->now_ns);
    bool is_now = false;
    for (unsigned i = 0; i < fate.count; i++) {
        if (fate.delay_ns[i] == 0 && !is_now) {
            is_now = true;
        } else {
            hold_in(f, rx, fate.delay_ns[i]);
        }
    }
    return is_now;
}

static unsigned release_in(struct datagram_fault *f, struct datagram_rx *ret, unsigned max)
{
    unsigned count = 0;
    while (count < max && first_of(&f->held_in) <= f->now_ns) {
        struct held_packet *h = LIST_ENTRY(list_pop_head(&f->held_in), struct held_packet, link);
        f->held_count--;
        list_push_tail(&f->handed_up, &h->link);
        ret[count++] = h->rx;
    }
    return count;
}

static unsigned fault_receive(struct datagram_link *link, struct datagram_rx *ret, unsigned max,
                              instant_ns now)
{
    struct datagram_fault *f = fault_of(link);
    struct datagram_rx rx[BATCH];
    f->now_ns = now;
    held_free_all(&f->handed_up);
    if ((f->model.config.sides & FAULT_SIDE_IN) == 0) {
        return datagram_receive(f->forward.inner, ret, max, now);
    }
    unsigned count = release_in(f, ret, max);
    unsigned room = max - count < BATCH ? max - count : BATCH;
    unsigned some = room > 0 ? datagram_receive(f->forward.inner, rx, room, now) : 0;
    for (unsigned i = 0; i < some; i++) {
        if (suffer(f, &rx[i])) {
            ret[count++] = rx[i];
        }
    }
    return count;
}

static unsigned fault_poll(struct datagram_link *link, instant_ns now)
{
    struct datagram_fault *f = fault_of(link);
    f->now_ns = now;
    if (release_out(f)) {
        datagram_flush(f->forward.inner);
    }
    unsigned ready = datagram_poll(f->forward.inner, now);
    return ready | (first_of(&f->held_in) <= now ? DATAGRAM_READY_IN : 0);
}

static instant_ns fault_next_deadline(struct datagram_link *link)
{
    struct datagram_fault *f = fault_of(link);
    return instant_min(datagram_next_deadline(f->forward.inner),
                       instant_min(first_of(&f->held_out), first_of(&f->held_in)));
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void fault_counters(const struct datagram_link *link, counter_each each, void *ctx)
{
    const struct datagram_fault *f = fault_of(link);
    each(ctx, "faults.packets", f->model.counters.packets);
    each(ctx, "faults.lost", f->model.counters.lost);
    each(ctx, "faults.reordered", f->model.counters.reordered);
    each(ctx, "faults.duplicated", f->model.counters.duplicated);
    datagram_counters(f->forward.inner, each, ctx);
}

static void fault_destroy(struct datagram_link *link)
{
    struct datagram_fault *f = fault_of(link);
    held_free_all(&f->held_out);
    held_free_all(&f->held_in);
    held_free_all(&f->handed_up);
    datagram_destroy(f->forward.inner);
    free(f);
}

static const struct datagram_link_ops datagram_fault_ops = {
    .name = "fault",
    .open = datagram_forward_open,
    .close = datagram_forward_close,
    .route = datagram_forward_route,
    .len_max = datagram_forward_len_max,
    .join = datagram_forward_join,
    .leave = datagram_forward_leave,
    .serve = datagram_forward_serve,
    .unserve = datagram_forward_unserve,
    .is_served = datagram_forward_is_served,
    .bequeath = datagram_forward_bequeath,
    .revoke = datagram_forward_revoke,
    .has_room = datagram_forward_has_room,
    .put = fault_put,
    .flush = datagram_forward_flush,
    .look_around = datagram_forward_look_around,
    .poll = fault_poll,
    .receive = fault_receive,
    .hand_on = datagram_forward_hand_on,
    .receive_buffer_len = datagram_forward_receive_buffer_len,
    .next_deadline = fault_next_deadline,
    .may_wait = datagram_forward_may_wait,
    .wait = datagram_forward_wait,
    .wake = datagram_forward_wake,
    .counters = fault_counters,
    .abandon = datagram_forward_abandon,
    .destroy = fault_destroy,
};

int datagram_fault_wrap(struct datagram_link *inner, const struct fault_config *config,
                        struct datagram_link **ret)
{
    struct datagram_fault *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return -ENOMEM;
    }
    datagram_forward_init(&f->forward, &datagram_fault_ops, inner);
    fault_model_init(&f->model, config);
    list_init(&f->held_out);
    list_init(&f->held_in);
    list_init(&f->handed_up);
    *ret = &f->forward.base;
    return 0;
}
