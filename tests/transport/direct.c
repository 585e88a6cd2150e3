// Executes in the poster's call: both ends are in one process, and octets go straight from one
// memory to the other. Nothing is ever out: what wq_next gives is put, released and settled, or
// answered, before the post returns. Whom no receive waits for waits until one is posted.
#include <stdlib.h>

#include "tests/transport/transport.h"

struct direct {
    struct wq wq;
    struct wq_counters counters;
    struct inbound in;
    uint64_t mark;
    bool is_over;
};

static struct direct *direct_of(const struct end *end)
{
    return end->transport;
}

static void flush(struct end *end)
{
    struct direct *d = direct_of(end);
    d->is_over = true;
    wq_close(&d->wq);
    wq_requests_forget(&d->wq);
    wq_flush_sends(&d->wq);
    peer_flush(&d->in);
    assert_true(wq_check(&d->wq, 0));
}

static void give_up(struct end *end)
{
    flush(end);
    flush(end->peer);
}

/* ---- messages -------------------------------------------------------------------------------- */

static enum wc_status copy(struct end *end, const struct message *m, uint32_t handle)
{
    struct direct *d = direct_of(end), *peer = direct_of(end->peer);
    struct span pieces[SGE_COUNT_MAX];
    unsigned count = 0;
    if (m->length > 0) {
        count = wq_message_octets(&d->wq, handle, 0, m->length, pieces);
        if (count == 0) {
            return WC_LOC_PROT_ERR;
        }
    }
    enum wc_status status = WC_SUCCESS;
    uint64_t offset = 0;
    for (unsigned i = 0; i < count && status == WC_SUCCESS; i++) {
        status = peer_place(&peer->in, m, offset, pieces[i]);
        offset += pieces[i].len;
    }
    return status == WC_SUCCESS ? peer_end(&peer->in, m) : status;
}

// False: it waits for a receive.
static bool carry_message(struct end *end, const struct transport_work *work)
{
    struct direct *d = direct_of(end), *peer = direct_of(end->peer);
    struct message m = message_of(work->wqe);
    if (!peer_begin(&peer->in, &m)) {
        return false;
    }
    enum wc_status status = copy(end, &m, work->handle);
    if (status != WC_SUCCESS) {
        wq_fail(&d->wq, status);
        give_up(end);
        return false;
    }
    wq_message_put(&d->wq, ++d->mark);
    wq_on_released(&d->wq, d->mark, m.length);
    wq_on_settled(&d->wq, d->mark);
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum wc_status answer_read(struct end *end, const struct read_context *context,
                                  const struct message *m)
{
    struct mspan pieces[SGE_COUNT_MAX];
    unsigned count;
    uint64_t offset = 0;
    enum wc_status status = peer_read(&direct_of(end->peer)->in, m, 0, m->length, pieces, &count);
    for (unsigned i = 0; i < count && status == WC_SUCCESS; i++) {
        struct span octets = mspan_read(pieces[i]);
        if (wq_answer_place(end->wq, context, offset, octets) != SCATTER_OK) {
            status = WC_LOC_PROT_ERR;
        }
        offset += octets.len;
    }
    return status;
}

static enum wc_status answer_atomic(struct end *end, const struct read_context *context,
                                    const struct message *m)
{
    uint64_t original;
    enum wc_status status = peer_atomic(&direct_of(end->peer)->in, m, &original);
    if (status == WC_SUCCESS &&
        wq_answer_place(end->wq, context, 0, span_of(&original, sizeof original)) != SCATTER_OK) {
        status = WC_LOC_PROT_ERR;
    }
    return status;
}

static bool carry_request(struct end *end, struct read_context *context)
{
    struct direct *d = direct_of(end);
    struct message m = message_of_request(context);
    bool is_atomic = context->task->kind == READ_KIND_ATOMIC;
    enum wc_status status =
        is_atomic ? answer_atomic(end, context, &m) : answer_read(end, context, &m);
    if (status != WC_SUCCESS) {
        wq_request_fail(&d->wq, context, status);
        give_up(end);
        return false;
    }
    wq_request_put(&d->wq, context, d->mark);
    if (is_atomic) {
        wq_message_put(&d->wq, d->mark);
    }
    context->arrived_len = context->length;
    wq_request_answered(&d->wq, context);
    return true;
}

/* ---- doors ----------------------------------------------------------------------------------- */

static bool carry_next(struct end *end)
{
    struct transport_work work;
    switch (wq_next(end->wq, &work)) {
    case TRANSPORT_MESSAGE:
        return carry_message(end, &work);
    case TRANSPORT_REQUEST:
        return carry_request(end, work.context);
    case TRANSPORT_FAILED:
        give_up(end);
        return false;
    case TRANSPORT_NOTHING:
        break;
    }
    return false;
}

static void run(struct end *end)
{
    struct direct *d = direct_of(end);
    end->wq->now = end->peer->wq->now = ++end->world->now;
    if (d->is_over) {
        flush(end);
    }
    while (!d->is_over && carry_next(end)) {
        assert_true(wq_check(end->wq, 0));
    }
    wq_complete_sends(end->wq); // what needed no peer
    assert_true(wq_check(end->wq, 0));
}

static void on_receive_posted(struct end *end)
{
    if (direct_of(end)->is_over) {
        flush(end);
    }
    run(end->peer);
}

// All is done when a post returns.
static bool step(struct world *world)
{
    (void)world;
    return false;
}

static void open_end(struct end *end)
{
    struct direct *d = aligned_alloc(CACHE_LINE_LEN, sizeof *d);
    memset(d, 0, sizeof *d);
    end_init(end, d, &d->wq, &d->counters);
    d->wq.facts = (struct transport_facts){.whole_len = UINT64_MAX, .copies = true};
    d->in.end = end;
}

static void reset(struct end *end)
{
    struct direct *d = direct_of(end);
    d->is_over = false;
    d->mark = 0;
    end_reset(end, &d->in);
}

static void connect_ends(struct world *world)
{
    for (unsigned i = 0; i < 2; i++) {
        wq_begin(world->ends[i].wq);
        wq_set_ord(world->ends[i].wq, world->ends[i].config.ord_max);
    }
}

const struct test_transport transport_direct = {
    .name = "direct",
    .carries = (1U << WQE_OPCODE_COUNT) - 1,
    .traits = TRAIT_CONNECTED | TRAIT_ANSWERED,
    .open = open_end,
    .on_send_posted = run,
    .on_receive_posted = on_receive_posted,
    .step = step,
    .give_up = give_up,
    .reset = reset,
    .connect = connect_ends,
    .close = end_fini,
};
