// Octets of the queue pair to the link: gathered in batches, as long as both have room.

#include <errno.h>
#include <limits.h>

#include "base/port_link.h"
#include "base/probe.h"
#include "base/span.h"
#include "iwarp/qp.h"
#include "rnic/batch.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"

enum {
    EP_WRITES_PER_TURN = 4,  // batches, before other endpoints have their turn
    EP_SHORT_LEN_MAX = 4096, // octets of payload that cost less to copy than a turn does
};

bool ep_has_output(const struct rnic_ep *ep)
{
    return ep->out.batch != NULL ||
           (ep->state == EP_OPEN && ep->qp != NULL && qp_has_output(stream_qp(ep->qp)));
}

bool ep_is_blocked(const struct rnic_ep *ep)
{
    return ep->out.wants_out;
}

static bool sink_has_room(void *ctx, size_t ulpdu_len, unsigned piece_count)
{
    struct rnic_ep *ep = ctx;
    struct mpa_batch *b = &ep->out.batch->mpa;
    return (mpa_batch_is_empty(b) ||
            (b->octets_left + ulpdu_len <= BATCH_OCTETS_MAX && b->arena_len < BATCH_COPY_MAX)) &&
           mpa_tx_has_room(&ep->out.tx, b, ulpdu_len, piece_count, MPA_PAYLOAD_COPY);
}

// Short messages into memory of both may wait for company. The next post is to know of this one.
static void note_len(struct rnic_ep *ep, const struct span *pieces, unsigned piece_count)
{
    size_t len = 0;
    for (unsigned i = 0; i < piece_count; i++) {
        len += pieces[i].len;
    }
    bool is_short = (ep->stream->facts & LINK_LENDS) != 0 && len <= EP_SHORT_LEN_MAX;
    if (is_short != ep->qp->pull.was_short) {
        ep->qp->pull.was_short = is_short;
        ep_note_gathering(ep);
    }
}

static uint64_t sink_put(void *ctx, struct span header, const struct span *pieces,
                         unsigned piece_count, bool is_lent)
{
    struct rnic_ep *ep = ctx;
    TRACE(ep->rnic->trace, TRACE_MPA, "qp %u out FPDU at %llu: %zu octets of header, %u pieces",
          ep->qp->qp_num, (unsigned long long)ep->out.tx.position, header.len, piece_count);
    note_len(ep, pieces, piece_count);
    return mpa_tx_put(&ep->out.tx, &ep->out.batch->mpa, header, pieces, piece_count,
                      is_lent ? MPA_PAYLOAD_LENT : MPA_PAYLOAD_REFERENCE);
}

// What was put is to reach the peer before.
static enum past_answer sink_push(void *ctx, const struct push *push)
{
    struct rnic_ep *ep = ctx;
    return mpa_batch_is_empty(&ep->out.batch->mpa) ? ep_push(ep, push) : PAST_BEHIND;
}

static enum past_answer sink_pull(void *ctx, const struct pull *pull)
{
    struct rnic_ep *ep = ctx;
    return mpa_batch_is_empty(&ep->out.batch->mpa) ? ep_pull(ep, pull) : PAST_BEHIND;
}

static bool batch_borrow(struct rnic_ep *ep)
{
    ep->out.batch = shard_batch_borrow(&ep->rnic->shard);
    if (ep->out.batch == NULL) {
        return false;
    }
    struct mspan arena = mspan_of((uint8_t *)(ep->out.batch + 1), BATCH_ARENA_LEN);
    mpa_batch_init(&ep->out.batch->mpa, arena, ep->out.has_records);
    return true;
}

// The record ends as the link counts them: from the first element that is left.
static unsigned records_left(const struct mpa_batch *b, uint16_t *ret_ends)
{
    unsigned count = mpa_batch_record_count(b);
    for (unsigned i = 0; i < count; i++) {
        ret_ends[i] = (uint16_t)(b->record_end[b->record_first + i] - b->iov_first);
    }
    return count;
}

static ssize_t batch_send(struct rnic_ep *ep)
{
    struct mpa_batch *b = &ep->out.batch->mpa;
    uint16_t ends[MPA_BATCH_IOV_MAX];
    struct link_tx tx = {0};
    tx.iov = mpa_batch_iov(b, &tx.iov_count);
    if (b->record_per_fpdu) {
        tx.record_count = records_left(b, ends);
        tx.record_ends = ends;
    }
    return link_send(ep->stream, &tx);
}

void ep_want_out(struct rnic_ep *ep, bool wanted)
{
    if (ep->out.wants_out != wanted) {
        ep->out.wants_out = wanted;
        link_want_out(ep->stream, wanted);
    }
}

// Writes what the batch holds. False: the link has no room, or the stream broke.
static bool batch_flush(struct rnic_ep *ep, instant_ns now)
{
    while (!mpa_batch_is_empty(&ep->out.batch->mpa)) {
        ssize_t taken = batch_send(ep);
        if (taken == -EAGAIN) {
            mpa_batch_own(&ep->out.batch->mpa);
            ep_want_out(ep, true);
            return false;
        }
        if (taken < 0) {
            ep_break(ep, (int)taken, now);
            return false;
        }
        PROBE3(batch_sent, ep->qp->qp_num, taken, ep->out.tx.counters.fpdus);
        mpa_batch_advance(&ep->out.batch->mpa, (size_t)taken);
        qp_on_handed(stream_qp(ep->qp), ep_handed_position(ep), now);
        ep_note_settled(ep, now);
    }
    return true;
}

enum output_step {
    OUTPUT_NOTHING, // the queue pair has nothing to put
    OUTPUT_STOPPED, // for now: it put nothing, or the link has no room, or the stream has ended
    OUTPUT_SENT,
};

// One batch: what is left of the last, or a new one from the queue pair.
static enum output_step output_once(struct rnic_ep *ep, instant_ns now)
{
    if (ep->out.batch == NULL || mpa_batch_is_empty(&ep->out.batch->mpa)) {
        if (!qp_has_output(stream_qp(ep->qp))) {
            return OUTPUT_NOTHING;
        }
        if (ep->out.batch == NULL && !batch_borrow(ep)) {
            ep_close(ep, QP_CLOSE_LOCAL, true, now);
            return OUTPUT_STOPPED;
        }
        struct ulpdu_sink sink = {.ctx = ep, .has_room = sink_has_room, .put = sink_put};
        if (ep_may_pass(ep, now)) {
            sink.push = sink_push;
            sink.pull = sink_pull;
        }
        ep->out.is_turn_over = qp_output(stream_qp(ep->qp), &sink, now);
    }
    bool is_sent = !mpa_batch_is_empty(&ep->out.batch->mpa) && batch_flush(ep, now);
    return is_sent ? OUTPUT_SENT : OUTPUT_STOPPED;
}

bool ep_output(struct rnic_ep *ep, instant_ns now)
{
    bool moved = false;
    if (ep->qp == NULL || ep->state < EP_OPEN || ep->state > EP_CLOSING) {
        return false;
    }
    const struct shard *shard = &ep->rnic->shard;
    unsigned writes_max = ep->rnic->config.read_turn_len > 0 ? EP_WRITES_PER_TURN : UINT_MAX;
    enum output_step step = OUTPUT_SENT;
    for (unsigned i = 0; i < writes_max; i++) {
        step = output_once(ep, now);
        if (step != OUTPUT_SENT) {
            break;
        }
        moved = true;
        if (ep->out.is_turn_over && !list_is_empty(&shard->runnable)) {
            break;
        }
    }
    if (ep->out.batch != NULL && mpa_batch_is_empty(&ep->out.batch->mpa)) {
        ep_drop_batch(ep);
        ep_want_out(ep, false);
        // A Read that is left runs when somebody comes for it.
        if (step != OUTPUT_NOTHING && qp_has_output(stream_qp(ep->qp)) &&
            (list_is_empty(&ep->left_link) || ep->out.is_turn_over)) {
            shard_run_again(&ep->rnic->shard, ep);
        }
    }
    return moved;
}
