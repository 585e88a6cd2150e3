// The product's own transport, iwarp/, on a stream in this process: what its queue pair puts lies
// in a batch by reference until it is handed, then travels as octets, in order, and arrives.
#include <stdlib.h>

#include "iwarp/qp.h"
#include "rdmap/tx.h"
#include "tests/transport/transport.h"

enum { MULPDU = 300, BATCH_MAX = 8 };

struct unit {
    struct unit *next;
    uint8_t header[RDMAP_TX_HEADER_MAX_LEN];
    size_t header_len;
    struct span pieces[SGE_COUNT_MAX];
    unsigned piece_count;
    uint64_t end;  // position in the stream behind it
    bool is_taken; // its octets are here
    uint8_t octets[MULPDU];
    size_t len;
};

struct units {
    struct unit *first, **last;
    unsigned count;
};

struct stream {
    struct end *end;
    struct qp *qp;
    struct ulpdu_sink sink;
    struct units batch, way;
    uint64_t position;
    bool is_closed;
};

static struct stream *stream_of(const struct end *end)
{
    return end->transport;
}

/* ---- octets on their way --------------------------------------------------------------------- */

static void push(struct units *q, struct unit *u)
{
    u->next = NULL;
    *(q->first == NULL ? &q->first : q->last) = u;
    q->last = &u->next;
    q->count++;
}

static struct unit *pop(struct units *q)
{
    struct unit *u = q->first;
    q->first = u->next;
    q->count--;
    return u;
}

static void drop(struct units *q)
{
    while (q->count > 0) {
        free(pop(q));
    }
}

static bool has_room(void *ctx, size_t ulpdu_len, unsigned piece_count)
{
    struct stream *s = ctx;
    assert_true(ulpdu_len <= MULPDU && piece_count <= SGE_COUNT_MAX);
    return s->batch.count < BATCH_MAX;
}

// They are read for the last time.
static void take_octets(struct unit *u)
{
    if (u->is_taken) {
        return;
    }
    u->is_taken = true;
    size_t at = u->header_len;
    memcpy(u->octets, u->header, u->header_len);
    for (unsigned i = 0; i < u->piece_count; i++) {
        memcpy(u->octets + at, u->pieces[i].ptr, u->pieces[i].len);
        at += u->pieces[i].len;
    }
}

static uint64_t put(void *ctx, struct span header, const struct span *pieces, unsigned piece_count,
                    bool is_lent)
{
    struct stream *s = ctx;
    struct unit *u = calloc(1, sizeof *u);
    memcpy(u->header, header.ptr, header.len);
    u->header_len = u->len = header.len;
    memcpy(u->pieces, pieces, piece_count * sizeof *pieces);
    u->piece_count = piece_count;
    for (unsigned i = 0; i < piece_count; i++) {
        u->len += pieces[i].len;
    }
    u->end = s->position += u->len;
    if (is_lent) {
        take_octets(u);
    }
    push(&s->batch, u);
    return u->end;
}

// The stream takes the oldest.
static void hand(struct stream *s)
{
    struct unit *u = pop(&s->batch);
    take_octets(u);
    push(&s->way, u);
    qp_on_handed(s->qp, u->end, s->end->world->now);
}

// False: nothing, or the peer has no place for it.
static bool deliver(struct stream *s)
{
    struct stream *peer = stream_of(s->end->peer);
    if (s->way.count == 0 || peer->is_closed) {
        drop(&s->way);
        return false;
    }
    struct span ulpdu = span_of(s->way.first->octets, s->way.first->len);
    if (qp_on_ulpdu(peer->qp, ulpdu, s->end->world->now) == ULPDU_STALL) {
        return false;
    }
    free(pop(&s->way));
    return true;
}

static void close_stream(struct stream *s, enum qp_close_reason reason)
{
    if (!s->is_closed) {
        s->is_closed = true;
        drop(&s->batch);
        qp_on_llp_closed(s->qp, reason, s->end->world->now);
    }
}

/* ---- doors ----------------------------------------------------------------------------------- */

static bool close_if_wanted(struct stream *s)
{
    bool is_abort = false;
    if (s->is_closed || !qp_wants_close(s->qp, &is_abort) || (!is_abort && s->way.count > 0)) {
        return false;
    }
    drop(&s->way);
    close_stream(s, QP_CLOSE_LOCAL);
    close_stream(stream_of(s->end->peer), QP_CLOSE_PEER);
    return true;
}

static bool step_end(struct end *end)
{
    struct stream *s = stream_of(end);
    bool has_moved = false;
    if (!s->is_closed) {
        uint64_t before = s->position;
        qp_output(s->qp, &s->sink, end->world->now);
        has_moved = s->position != before || s->batch.count > 0;
    }
    if (s->batch.count > 0) {
        hand(s);
    }
    has_moved |= deliver(s);
    assert_true(qp_check(s->qp));
    return close_if_wanted(s) || has_moved;
}

static bool step(struct world *world)
{
    world->now += 10;
    bool has_moved = step_end(&world->ends[0]);
    return step_end(&world->ends[1]) || has_moved;
}

static void on_send_posted(struct end *end)
{
    qp_on_send_posted(stream_of(end)->qp, end->world->now);
}

static void on_receive_posted(struct end *end)
{
    qp_on_receive_posted(stream_of(end)->qp, end->world->now);
}

static void connect_end(struct stream *s, bool is_initiator)
{
    struct qp_stream stream = {
        .mulpdu = MULPDU,
        .ird = 4,
        .ord = 4,
        .is_initiator = is_initiator,
        .may_send = is_initiator,
        .peer_is_weft = true, // so that a Send may carry immediate data
        .choices = {.kind = EXTENSION_CHOICES,
                    .allotment_len = s->end->world->options.allotment_len},
        .told_allotment_len = s->end->world->options.allotment_len,
        .peer_allotment_len = s->end->world->options.allotment_len,
    };
    qp_on_established(s->qp, &stream, s->end->world->now);
}

static void open_end(struct end *end)
{
    struct stream *s = end->transport = calloc(1, sizeof *s);
    struct qp_config config = {
        .wq = end->config,
        .allotment_len = end->world->options.allotment_len,
        .rnr_store_len = 65536,
        .ird_max = 4,
    };
    s->end = end;
    s->sink = (struct ulpdu_sink){has_room, put, s};
    assert_int_equal(qp_create(&config, &s->qp), 0);
    end->wq = qp_wq(s->qp);
}

static void reset(struct end *end)
{
    struct stream *s = stream_of(end);
    drop(&s->way);
    close_stream(s, QP_CLOSE_LOCAL);
    assert_int_equal(qp_modify(s->qp, QP_RESET, end->world->now), 0);
    assert_int_equal(qp_modify(s->qp, QP_INIT, end->world->now), 0);
    s->is_closed = false;
    s->position = 0;
}

static void connect_ends(struct world *world)
{
    connect_end(stream_of(&world->ends[1]), false);
    connect_end(stream_of(&world->ends[0]), true);
}

static void give_up(struct end *end)
{
    close_stream(stream_of(end), QP_CLOSE_LOCAL);
    close_stream(stream_of(end->peer), QP_CLOSE_RESET);
}

static void close_end(struct end *end)
{
    struct stream *s = stream_of(end);
    assert_true(qp_check(s->qp));
    drop(&s->batch);
    drop(&s->way);
    qp_destroy(s->qp);
    free(s);
}

const struct test_transport transport_stream = {
    .name = "stream",
    .carries = (1U << WQE_OPCODE_COUNT) - 1,
    .traits = TRAIT_CONNECTED | TRAIT_GUARDS,
    .open = open_end,
    .on_send_posted = on_send_posted,
    .on_receive_posted = on_receive_posted,
    .step = step,
    .give_up = give_up,
    .reset = reset,
    .connect = connect_ends,
    .close = close_end,
};
