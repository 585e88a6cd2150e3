// One queue pair, many peers: each work request says in its address to which end it goes. It is
// done when it was sent; who has no receive for it drops it. What goes wrong here stops the send
// queue alone, until the program has it go on.
#include <stdlib.h>

#include "tests/transport/transport.h"

enum {
    OUT_MAX = 4, // put, and not sent yet
    DATAGRAM_LEN_MAX = PACKET_LEN_MAX,
};

static const duration_ns gap_ns = 100; // between two that are sent: a rate

struct out {
    struct message message;
    struct end *to;
    uint32_t handle;
    uint64_t end_mark;
};

struct datagram {
    struct wq wq;
    struct wq_counters counters;
    struct end *end;
    bool is_stopped; // the send queue
    struct out out[OUT_MAX];
    unsigned count;
    uint64_t mark;
    struct inbound in;
};

static struct datagram *datagram_of(const struct end *end)
{
    return end->transport;
}

static void stop(struct datagram *d)
{
    d->is_stopped = true;
    d->count = 0;
    wq_close(&d->wq);
    wq_flush_sends(&d->wq);
}

// False: it fails.
static bool put(struct datagram *d, const struct transport_work *work)
{
    if (work->wqe->length > DATAGRAM_LEN_MAX) {
        wq_fail(&d->wq, WC_LOC_LEN_ERR);
        return false;
    }
    uint32_t to;
    memcpy(&to, wq_send_address(&d->wq, work->wqe), sizeof to);
    d->out[d->count++] = (struct out){
        .message = message_of(work->wqe),
        .to = &d->end->world->ends[to],
        .handle = work->handle,
        .end_mark = ++d->mark,
    };
    wq_message_put(&d->wq, d->mark);
    return true;
}

static void pump(struct datagram *d)
{
    struct transport_work work;
    enum transport_next next = TRANSPORT_MESSAGE;
    while (next == TRANSPORT_MESSAGE && d->count < OUT_MAX && !d->is_stopped) {
        bool may_start = wq_has_work(&d->wq);
        next = wq_next(&d->wq, &work);
        assert_true(may_start || next == TRANSPORT_NOTHING);
        if (next == TRANSPORT_FAILED || (next == TRANSPORT_MESSAGE && !put(d, &work))) {
            stop(d);
        }
    }
    wq_complete_sends(&d->wq);
    assert_true(wq_check(&d->wq, 0));
}

// The oldest leaves: its octets are read now.
static void send_oldest(struct datagram *d)
{
    const struct out o = d->out[0];
    struct packet p = {.to = o.to, .message = o.message, .len = o.message.length};
    struct span pieces[SGE_COUNT_MAX];
    unsigned count = 0;
    bool is_read = (wq_send_at(&d->wq, o.handle)->flags & WQE_INLINE) == 0 && p.len > 0;
    assert_true(!is_read || wq_reads_from(&d->wq, d->end->key));
    if (p.len > 0) {
        count = wq_message_octets(&d->wq, o.handle, 0, p.len, pieces);
    }
    if (p.len > 0 && count == 0) {
        wq_send_fail(wq_send_at(&d->wq, o.handle), WC_LOC_PROT_ERR);
        stop(d);
        return;
    }
    for (unsigned i = 0, at = 0; i < count; at += (unsigned)pieces[i++].len) {
        memcpy(p.octets + at, pieces[i].ptr, pieces[i].len);
    }
    p.message.from = d->end->config.qp_num;
    net_put(d->end->world, &p, 0, 0);
    memmove(d->out, d->out + 1, --d->count * sizeof d->out[0]);
    wq_on_released(&d->wq, o.end_mark, p.len);
    wq_on_settled(&d->wq, o.end_mark);
    wq_hold(&d->wq, instant_after(d->wq.now, gap_ns));
}

static void arrive(struct datagram *d, const struct packet *p)
{
    if (peer_begin(&d->in, &p->message) &&
        peer_place(&d->in, &p->message, 0, span_of(p->octets, p->len)) == WC_SUCCESS) {
        peer_end(&d->in, &p->message);
    }
}

/* ---- doors ----------------------------------------------------------------------------------- */

static void on_send_posted(struct end *end)
{
    struct datagram *d = datagram_of(end);
    d->wq.now = end->world->now;
    if (d->is_stopped) {
        wq_flush_sends(&d->wq);
    }
    pump(d);
}

static void on_receive_posted(struct end *end)
{
    (void)end;
}

static bool step_end(struct end *end)
{
    struct datagram *d = datagram_of(end);
    instant_ns held_until = wq_hold_deadline(&d->wq);
    bool waits = d->count == 0 && held_until != INSTANT_NEVER && wq_send_count(&d->wq) > 0;
    if (waits && end->world->now < held_until) {
        end->world->now = held_until;
    }
    d->wq.now = end->world->now;
    bool has_moved = waits || d->count > 0;
    if (d->count > 0) {
        send_oldest(d);
    }
    pump(d);
    return has_moved;
}

static bool step(struct world *world)
{
    bool has_moved = false;
    for (unsigned i = 0; i < END_COUNT; i++) {
        has_moved = step_end(&world->ends[i]) || has_moved;
    }
    if (!has_moved && net_next(world) != INSTANT_NEVER) {
        struct packet p = net_take(world);
        p.to->wq->now = world->now;
        arrive(datagram_of(p.to), &p);
        return true;
    }
    return has_moved;
}

static void open_end(struct end *end)
{
    struct datagram *d = aligned_alloc(CACHE_LINE_LEN, sizeof *d);
    memset(d, 0, sizeof *d);
    d->end = d->in.end = end;
    end_init(end, d, &d->wq, &d->counters);
    d->wq.facts.refused = ~end->world->transport->carries;
}

static void give_up(struct end *end)
{
    stop(datagram_of(end));
    peer_flush(&datagram_of(end)->in);
}

static void connect_ends(struct world *world)
{
    for (unsigned i = 0; i < END_COUNT; i++) {
        wq_begin(world->ends[i].wq);
    }
}

static void go_on(struct end *end)
{
    datagram_of(end)->is_stopped = false;
    wq_resume(end->wq);
}

const struct test_transport transport_datagram = {
    .name = "datagram",
    .carries = 1U << WQE_SEND | 1U << WQE_SEND_WITH_IMM,
    .traits = TRAIT_DATAGRAM | TRAIT_GUARDS,
    .address_len = sizeof(uint32_t),
    .open = open_end,
    .on_send_posted = on_send_posted,
    .on_receive_posted = on_receive_posted,
    .step = step,
    .give_up = give_up,
    .go_on = go_on,
    .connect = connect_ends,
    .close = end_fini,
};
