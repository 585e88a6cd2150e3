// Over packets that get lost, come twice and out of order. Nothing is kept of what leaves: what has
// to be sent again is asked for again, from the work request's memory, in other cuts. A message
// takes a number for each cell of its octets; a packet is a run of cells, longer or shorter each
// time that it goes out, and marks are these numbers.
//
//     requester   goes back to the oldest cell that is not acknowledged, or to the oldest request
//                 without its answer, when told so or when nothing came for a while
//     responder   takes cells in order; reads again for a request that it has seen, and answers a
//                 repeated atomic with what it answered before; says so when no receive is posted
#include "tests/transport/lossy.h"

#include <stdlib.h>

static const duration_ns retry_ns = 5000, not_ready_ns = 3000;

static struct lossy *lossy_of(const struct end *end)
{
    return end->transport;
}

static struct out *out_at(struct lossy *l, unsigned i)
{
    return &l->out[(l->head + i) % OUT_MAX];
}

void lossy_flush(struct lossy *l)
{
    l->is_over = true;
    l->count = 0;
    l->retry_at = INSTANT_NEVER;
    wq_close(&l->wq);
    wq_requests_forget(&l->wq);
    wq_flush_sends(&l->wq);
    peer_flush(&l->in);
}

static void fail_out(struct lossy *l, const struct out *o, enum wc_status status)
{
    wq_send_fail(o->context != NULL ? o->context->task->cookie : wq_send_at(&l->wq, o->handle),
                 status);
    lossy_flush(l);
}

/* ---- requester: what leaves ------------------------------------------------------------------ */

static bool is_done(const struct lossy *l, const struct out *o)
{
    return o->end <= l->acked_psn && o->is_answered;
}

// Does whoever asks hear that it may be read?
static bool is_guarded(const struct lossy *l, const struct send_wqe *wqe)
{
    bool is_guarded = true;
    for (unsigned i = 0; i < wqe->sge_count && (wqe->flags & WQE_INLINE) == 0; i++) {
        is_guarded &= wqe->sge[i].length == 0 || wq_reads_from(&l->wq, wqe->sge[i].lkey);
    }
    return is_guarded;
}

// In cuts of any length.
static bool gather(struct lossy *l, const struct out *o, struct packet *p)
{
    assert_true(is_guarded(l, wq_send_at(&l->wq, o->handle)));
    for (size_t done = 0; done < p->len;) {
        struct span pieces[SGE_COUNT_MAX];
        size_t len = 1 + prng_below(&l->end->world->prng, (uint32_t)(p->len - done));
        unsigned count = wq_message_octets(&l->wq, o->handle, p->offset + done, len, pieces);
        if (count == 0) {
            return false;
        }
        for (unsigned i = 0; i < count; i++) {
            memcpy(p->octets + done, pieces[i].ptr, pieces[i].len);
            done += pieces[i].len;
        }
    }
    return true;
}

static void emit(struct lossy *l, const struct out *o)
{
    uint64_t cells = o->end - l->send_psn;
    uint64_t most = 1 + prng_below(&l->end->world->prng, CELL_MAX);
    struct packet p = {.kind = KIND_CELLS, .psn = l->send_psn, .message = o->message};
    p.cell_count = (uint32_t)(cells < most ? cells : most);
    l->end->world->trouble.sent_again += l->send_psn < l->sent_psn;
    l->end->world->trouble.apart += l->send_psn < l->sent_psn && l->send_psn > o->psn;
    l->send_psn += p.cell_count;
    l->sent_psn = l->send_psn > l->sent_psn ? l->send_psn : l->sent_psn;
    if (o->context != NULL) {
        p.offset = o->context->arrived_len; // the rest of it
        lossy_send_packet(l, &p);
        return;
    }
    p.offset = (p.psn - o->psn) * CELL_LEN;
    uint64_t left = o->message.length - p.offset;
    p.len = (size_t)(left < p.cell_count * CELL_LEN ? left : p.cell_count * CELL_LEN);
    if (gather(l, o, &p)) {
        lossy_send_packet(l, &p);
    } else {
        fail_out(l, o, WC_LOC_PROT_ERR);
    }
}

// The next cells, of the oldest that still needs them. False: all has left.
static bool emit_next(struct lossy *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        const struct out *o = out_at(l, i);
        if (o->end > l->send_psn && !is_done(l, o)) {
            l->send_psn = l->send_psn < o->psn ? o->psn : l->send_psn;
            emit(l, o);
            return true;
        }
    }
    return false;
}

static void push(struct lossy *l, struct out o, uint64_t cell_count)
{
    o.psn = l->next_psn;
    o.end = l->next_psn += cell_count;
    *out_at(l, l->count++) = o;
}

static bool start_next(struct lossy *l)
{
    struct transport_work work;
    bool may_start = wq_has_work(&l->wq);
    enum transport_next next = wq_next(&l->wq, &work);
    assert_true(may_start || next == TRANSPORT_NOTHING);
    switch (next) {
    case TRANSPORT_MESSAGE: {
        struct out o = {message_of(work.wqe), .handle = work.handle, .is_answered = true};
        push(l, o, o.message.length == 0 ? 1 : (o.message.length + CELL_LEN - 1) / CELL_LEN);
        wq_message_put(&l->wq, l->next_psn);
        return true;
    }
    case TRANSPORT_REQUEST:
        wq_request_put(&l->wq, work.context, l->next_psn);
        push(l, (struct out){message_of_request(work.context), .context = work.context}, 1);
        if (work.context->task->kind == READ_KIND_ATOMIC) {
            wq_message_put(&l->wq, l->next_psn);
        }
        return true;
    case TRANSPORT_FAILED:
        lossy_flush(l);
        break;
    case TRANSPORT_NOTHING:
        break;
    }
    return false;
}

static void pump(struct lossy *l)
{
    bool has_moved = true;
    while (has_moved && !l->is_over && !wq_is_held(&l->wq)) {
        bool has_room = l->next_psn - l->acked_psn < WINDOW && l->count < OUT_MAX;
        has_moved = emit_next(l) || (has_room && start_next(l));
    }
    wq_complete_sends(&l->wq);
    bool waits = !l->is_over && l->count > 0;
    l->retry_at = !waits                         ? INSTANT_NEVER
                  : l->retry_at != INSTANT_NEVER ? l->retry_at
                                                 : instant_after(l->wq.now, retry_ns);
}

static void go_back(struct lossy *l)
{
    l->send_psn = l->count > 0 ? out_at(l, 0)->psn : l->next_psn;
    if (l->count > 0 && l->send_psn < l->acked_psn && out_at(l, 0)->is_answered) {
        l->send_psn = l->acked_psn;
    }
    l->retry_at = instant_after(l->wq.now, retry_ns);
}

/* ---- requester: what comes back -------------------------------------------------------------- */

static void on_progress(struct lossy *l)
{
    l->retry_count = 0;
    l->retry_at = instant_after(l->wq.now, retry_ns);
    while (l->count > 0 && is_done(l, out_at(l, 0))) {
        l->head = (l->head + 1) % OUT_MAX;
        l->count--;
    }
}

static void on_ack(struct lossy *l, uint64_t psn)
{
    if (psn <= l->acked_psn) {
        return;
    }
    uint64_t len = (psn - l->acked_psn) * CELL_LEN;
    l->acked_psn = psn;
    l->send_psn = l->send_psn < psn ? psn : l->send_psn;
    on_progress(l);
    wq_on_released(&l->wq, psn, len);
    wq_on_settled(&l->wq, psn);
}

static struct out *find(struct lossy *l, uint64_t psn)
{
    for (unsigned i = 0; i < l->count; i++) {
        if (out_at(l, i)->psn <= psn && psn < out_at(l, i)->end) {
            return out_at(l, i);
        }
    }
    return NULL;
}

static void on_answer(struct lossy *l, const struct packet *p)
{
    struct out *o = find(l, p->psn);
    struct read_context *context = o != NULL && !o->is_answered ? o->context : NULL;
    if (context == NULL || p->offset != context->arrived_len) {
        return;
    }
    on_ack(l, p->psn + 1);
    struct span octets = span_of(p->octets, p->len);
    if (wq_answer_place(&l->wq, context, p->offset, octets) != SCATTER_OK) {
        fail_out(l, o, WC_LOC_PROT_ERR);
        return;
    }
    context->arrived_len += (uint32_t)p->len;
    if (context->arrived_len == context->length) {
        o->is_answered = true;
        o->context = NULL;
        wq_request_answered(&l->wq, context);
    }
    on_progress(l);
}

// The peer was fine with all before. What it reads it will still read for us.
static void on_fault(struct lossy *l, const struct packet *p)
{
    on_ack(l, p->psn);
    if (l->count > 0 && find(l, p->psn) == out_at(l, 0)) {
        fail_out(l, out_at(l, 0), p->status);
    }
}

static void on_not_ready(struct lossy *l, uint64_t psn)
{
    on_ack(l, psn);
    if (psn == l->acked_psn) {
        go_back(l);
        l->retry_count = 0;
        wq_hold(&l->wq, instant_after(l->wq.now, not_ready_ns));
    }
}

/* ---- doors ----------------------------------------------------------------------------------- */

static void on_packet(struct lossy *l, const struct packet *p)
{
    if (p->kind == KIND_CELLS) {
        lossy_on_cells(l, p);
    } else if (l->is_over) {
        return;
    } else if (p->kind == KIND_ANSWER) {
        on_answer(l, p);
    } else if (p->kind == KIND_FAULT) {
        on_fault(l, p);
    } else if (p->kind == KIND_NOT_READY) {
        on_not_ready(l, p->psn);
    } else {
        on_ack(l, p->psn);
        if (p->kind == KIND_GAP && p->psn == l->acked_psn) {
            go_back(l);
        }
    }
}

static instant_ns deadline(const struct lossy *l)
{
    return l->is_over ? INSTANT_NEVER : instant_min(l->retry_at, wq_hold_deadline(&l->wq));
}

static void on_deadline(struct lossy *l)
{
    if (l->retry_at > l->wq.now) {
        return; // it was the hold that ended
    }
    if (++l->retry_count > RETRY_MAX) {
        fail_out(l, out_at(l, 0), WC_RETRY_EXC_ERR);
    } else {
        go_back(l);
    }
}

static bool step(struct world *world)
{
    instant_ns first =
        instant_min(deadline(lossy_of(&world->ends[0])), deadline(lossy_of(&world->ends[1])));
    bool is_packet = net_next(world) < first;
    if (!is_packet && first == INSTANT_NEVER) {
        return false;
    }
    struct packet p;
    if (is_packet) {
        p = net_take(world);
    }
    world->now = is_packet ? world->now : first;
    for (unsigned i = 0; i < 2; i++) {
        struct lossy *l = lossy_of(&world->ends[i]);
        instant_ns due = deadline(l);
        l->wq.now = world->now;
        if (is_packet && p.to == l->end) {
            on_packet(l, &p);
        } else if (due <= world->now) {
            on_deadline(l);
        }
        pump(l);
        assert_true(wq_check(&l->wq, l->in.receive != NULL));
    }
    return true;
}

static void on_send_posted(struct end *end)
{
    struct lossy *l = lossy_of(end);
    l->wq.now = end->world->now;
    if (l->is_over) {
        wq_flush_sends(&l->wq);
    }
    pump(l);
}

static void on_receive_posted(struct end *end)
{
    if (lossy_of(end)->is_over) {
        wq_flush_receives(end->wq);
    }
}

static void open_end(struct end *end)
{
    struct lossy *l = aligned_alloc(CACHE_LINE_LEN, sizeof *l);
    memset(l, 0, sizeof *l);
    l->end = l->in.end = end;
    end_init(end, l, &l->wq, &l->counters);
    l->wq.facts = (struct transport_facts){.whole_len = CELL_LEN};
}

static void reset(struct end *end)
{
    end_reset(end, &lossy_of(end)->in);
}

static void connect_ends(struct world *world)
{
    for (unsigned i = 0; i < 2; i++) {
        struct lossy *l = lossy_of(&world->ends[i]);
        l->is_over = l->has_told_gap = false;
        l->head = l->count = l->retry_count = l->replay_count = 0;
        l->next_psn = l->send_psn = l->sent_psn = l->acked_psn = l->expected_psn = 0;
        l->fault = WC_SUCCESS;
        l->retry_at = INSTANT_NEVER;
        wq_begin(&l->wq);
        wq_set_ord(&l->wq, l->end->config.ord_max);
    }
}

static void give_up(struct end *end)
{
    lossy_flush(lossy_of(end));
}

const struct test_transport transport_lossy = {
    .name = "lossy",
    .carries = (1U << WQE_OPCODE_COUNT) - 1,
    .traits = TRAIT_CONNECTED | TRAIT_ANSWERED | TRAIT_GUARDS | TRAIT_LOSSY,
    .open = open_end,
    .on_send_posted = on_send_posted,
    .on_receive_posted = on_receive_posted,
    .step = step,
    .give_up = give_up,
    .reset = reset,
    .connect = connect_ends,
    .close = end_fini,
};
