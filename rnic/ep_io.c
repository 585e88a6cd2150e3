// Octets between the link and the rooms: reading into the staging buffer, writing batches.

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/probe.h"
#include "conn/ending.h"
#include "rnic/ep.h"
#include "rnic/internal.h"

enum {
    EP_READS_PER_TURN = 2,  // staging buffers read before other endpoints have their turn
    EP_WRITES_PER_TURN = 4, // batches, likewise
};
// An endpoint that got nothing for so long is no longer read without asking the link.
static const duration_ns cold_after_ns = 1 * NS_PER_MS;

bool ep_has_output(const struct rnic_ep *ep)
{
    return ep->batch != NULL ||
           (ep->state == EP_OPEN && ep->qp != NULL && qp_has_output(ep->qp->qp));
}

bool ep_is_blocked(const struct rnic_ep *ep)
{
    return ep->wants_out;
}

bool ep_is_cold(const struct rnic_ep *ep, instant_ns now)
{
    return now > instant_after(ep->moved_at_ns, cold_after_ns);
}

static enum qp_close_reason close_reason_of(int error)
{
    switch (error) {
    case -ETIMEDOUT:
    case -EHOSTUNREACH: // the kernel gave up as well, and names the last it heard of the way there
    case -ENETUNREACH:
    case -EHOSTDOWN:
    case -ENETDOWN:
        return QP_CLOSE_TIMEOUT;
    default:
        return QP_CLOSE_RESET;
    }
}

/* ---- out ------------------------------------------------------------------------------------- */

static bool sink_has_room(void *ctx, size_t ulpdu_len, unsigned piece_count)
{
    struct rnic_ep *ep = ctx;
    struct mpa_batch *b = &ep->batch->mpa;
    return (mpa_batch_is_empty(b) ||
            (b->octets_left + ulpdu_len <= BATCH_OCTETS_MAX && b->arena_len < BATCH_COPY_MAX)) &&
           mpa_tx_has_room(&ep->tx, b, ulpdu_len, piece_count, MPA_PAYLOAD_COPY);
}

static uint64_t sink_put(void *ctx, struct span header, const struct span *pieces,
                         unsigned piece_count, bool copy_payload)
{
    struct rnic_ep *ep = ctx;
    TRACE(ep->rnic->trace, TRACE_MPA, "qp %u out FPDU at %llu: %zu octets of header, %u pieces",
          ep->qp->qp_num, (unsigned long long)ep->tx.position, header.len, piece_count);
    return mpa_tx_put(&ep->tx, &ep->batch->mpa, header, pieces, piece_count,
                      copy_payload ? MPA_PAYLOAD_COPY : MPA_PAYLOAD_REFERENCE);
}

static bool batch_borrow(struct rnic_ep *ep)
{
    ep->batch = shard_batch_borrow(&ep->rnic->shard);
    if (ep->batch == NULL) {
        return false;
    }
    struct mspan arena = mspan_of((uint8_t *)(ep->batch + 1), BATCH_ARENA_LEN);
    mpa_batch_init(&ep->batch->mpa, arena, ep->has_records);
    return true;
}

static void batch_drop(struct rnic_ep *ep)
{
    if (ep->batch != NULL) {
        shard_batch_return(&ep->rnic->shard, ep->batch);
        ep->batch = NULL;
    }
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
    struct mpa_batch *b = &ep->batch->mpa;
    uint16_t ends[MPA_BATCH_IOV_MAX];
    struct link_tx tx = {0};
    tx.iov = mpa_batch_iov(b, &tx.iov_count);
    if (b->record_per_fpdu) {
        tx.record_count = records_left(b, ends);
        tx.record_ends = ends;
    }
    return ep->stream->link->ops->send(ep->stream, &tx);
}

void ep_want_out(struct rnic_ep *ep, bool wanted)
{
    if (ep->wants_out != wanted) {
        ep->wants_out = wanted;
        ep->stream->link->ops->want_out(ep->stream, wanted);
    }
}

static uint64_t handed_position(const struct rnic_ep *ep)
{
    return ep->tx.position - (ep->batch != NULL ? ep->batch->mpa.octets_left : 0);
}

bool ep_settles_apart(const struct rnic_ep *ep)
{
    return ep->is_mirrored || ep->stream->link->ops->unsettled != NULL;
}

// Where the stream leads back: what has come in and was taken. Otherwise the link is asked.
static uint64_t settled_position(const struct rnic_ep *ep)
{
    if (ep->is_mirrored) {
        return ep->rx.counters.octets;
    }
    uint64_t unsettled = ep->stream->link->ops->unsettled(ep->stream);
    uint64_t handed = handed_position(ep);
    return handed > unsettled ? handed - unsettled : 0;
}

bool ep_note_settled(struct rnic_ep *ep, instant_ns now)
{
    if (ep->stream == NULL || !ep_settles_apart(ep)) {
        return false;
    }
    uint64_t settled = settled_position(ep); // asked for in any case: see link_ops
    if (ep->qp == NULL || ep->state < EP_OPEN || settled <= ep->settled_position) {
        return false;
    }
    ep->settled_position = settled;
    qp_on_settled(ep->qp->qp, settled, now);
    return true;
}

// Writes what the batch holds. False: the link has no room, or the stream broke.
static bool batch_flush(struct rnic_ep *ep, instant_ns now)
{
    while (!mpa_batch_is_empty(&ep->batch->mpa)) {
        ssize_t taken = batch_send(ep);
        if (taken == -EAGAIN) {
            ep_want_out(ep, true);
            return false;
        }
        if (taken < 0) {
            ep_close(ep, close_reason_of((int)taken), true, now);
            return false;
        }
        PROBE3(batch_sent, ep->qp->qp_num, taken, ep->tx.counters.fpdus);
        mpa_batch_advance(&ep->batch->mpa, (size_t)taken);
        qp_on_handed(ep->qp->qp, handed_position(ep), now);
        ep_note_settled(ep, now);
    }
    return true;
}

// One batch: what is left of the last, or a new one from the QP. False: nothing more to do now.
static bool output_once(struct rnic_ep *ep, instant_ns now)
{
    struct ulpdu_sink sink = {.ctx = ep, .has_room = sink_has_room, .put = sink_put};
    if (ep->batch == NULL) {
        if (!qp_has_output(ep->qp->qp)) {
            return false;
        }
        if (!batch_borrow(ep)) {
            ep_close(ep, QP_CLOSE_LOCAL, true, now);
            return false;
        }
    }
    if (mpa_batch_is_empty(&ep->batch->mpa)) {
        ep->is_turn_over = qp_output(ep->qp->qp, &sink, now);
    }
    return !mpa_batch_is_empty(&ep->batch->mpa) && batch_flush(ep, now);
}

bool ep_output(struct rnic_ep *ep, instant_ns now)
{
    bool moved = false;
    if (ep->qp == NULL || ep->state < EP_OPEN || ep->state > EP_CLOSING) {
        return false;
    }
    const struct shard *shard = &ep->rnic->shard;
    unsigned writes_max = ep->rnic->config.read_turn_len > 0 ? EP_WRITES_PER_TURN : UINT_MAX;
    for (unsigned i = 0; i < writes_max && output_once(ep, now); i++) {
        moved = true;
        if (ep->is_turn_over && !list_is_empty(&shard->runnable)) {
            break;
        }
    }
    if (ep->batch != NULL && mpa_batch_is_empty(&ep->batch->mpa)) {
        batch_drop(ep);
        ep_want_out(ep, false);
        if (qp_has_output(ep->qp->qp)) {
            shard_run_again(&ep->rnic->shard, ep);
        }
    }
    return moved;
}

/* ---- in -------------------------------------------------------------------------------------- */

static enum ulpdu_answer on_ulpdu(void *ctx, struct span ulpdu)
{
    struct rnic_ep *ep = ctx;
    instant_ns now = ep->turn_at_ns;
    TRACE(ep->rnic->trace, TRACE_MPA, "qp %u in FPDU: ULPDU of %zu octets", ep->qp->qp_num,
          ulpdu.len);
    if (ep->is_mirrored) {
        ep_note_settled(ep, now); // what came before this one, which may end the stream
    }
    enum ulpdu_answer answer = qp_on_ulpdu(ep->qp->qp, ulpdu, now);
    if (!ep->has_received) { // also when it must wait for a receive: it has come
        ep->has_received = true;
        conn_on_first_fpdu(&ep->conn, now);
    }
    return answer;
}

// Octets that a stalled QP did not take wait here, and reading stops: the window closes.
static bool backlog_keep(struct rnic_ep *ep, struct span left)
{
    if (left.len == 0) {
        return true;
    }
    if (ep->backlog.len < left.len) {
        uint8_t *grown = realloc(ep->backlog.ptr, left.len);
        if (grown == NULL) {
            return false;
        }
        ep->backlog = mspan_of(grown, left.len);
    }
    memmove(ep->backlog.ptr, left.ptr, left.len);
    ep->backlog_len = left.len;
    return true;
}

static void pause_input(struct rnic_ep *ep, bool paused)
{
    if (ep->is_paused != paused) {
        ep->is_paused = paused;
        ep->stream->link->ops->want_in(ep->stream, !paused);
    }
}

// Octets of the full operation phase.
static void fpdus_on_input(struct rnic_ep *ep, struct span in, instant_ns now)
{
    size_t consumed = 0;
    ep->turn_at_ns = now;
    enum mpa_rx_verdict verdict = mpa_rx_on_input(&ep->rx, in, &consumed);
    switch (verdict) {
    case MPA_RX_OK:
        pause_input(ep, false);
        break;
    case MPA_RX_STALLED:
        pause_input(ep, true);
        if (!backlog_keep(ep, span_skip(in, consumed))) {
            ep_close(ep, QP_CLOSE_LOCAL, true, now);
        }
        break;
    case MPA_RX_STOPPED:
        ep->is_stopped = true;
        break;
    default:
        TRACE(ep->rnic->trace, TRACE_MPA, "qp %u refuses the stream: %s", ep->qp->qp_num,
              mpa_rx_verdict_name(verdict));
        ep->is_stopped = true;
        qp_on_stream_error(ep->qp->qp, mpa_rx_verdict_cause(verdict), now);
        break;
    }
}

static void stream_on_input(struct rnic_ep *ep, struct span in, instant_ns now)
{
    if (ep->state == EP_STARTING) {
        size_t consumed = conn_on_input(&ep->conn, in, now);
        in = span_skip(in, consumed);
        if (in.len > 0 && !ep->is_initiator && conn_agreement(&ep->conn) == NULL) {
            conn_on_first_fpdu(&ep->conn, now); // before any Reply: a refusal with a name
        }
        ep_settle(ep, now);
    }
    if (in.len > 0 && (ep->state == EP_OPEN || ep->state == EP_CLOSING) && !ep->is_stopped) {
        fpdus_on_input(ep, in, now);
    }
}

// The QP may take again what it did not take before.
void ep_resume_input(struct rnic_ep *ep, instant_ns now)
{
    if (!ep->is_paused || ep->state == EP_CLOSED) {
        return;
    }
    if (ep->is_placing) {
        ep_place_resume(ep, now);
        pause_input(ep, ep_place_settle(ep, now));
        return;
    }
    struct span in = span_of(ep->backlog.ptr, ep->backlog_len);
    ep->backlog_len = 0;
    fpdus_on_input(ep, in, now);
}

// The acknowledgement of what was handed to the link is still to come: a FIN that left the peer
// before our octets reached it does not bring it.
static bool awaits_settlement(const struct rnic_ep *ep)
{
    return !ep->is_mirrored && ep_settles_apart(ep) && ep->settled_position < handed_position(ep);
}

// The peer has said all; what this side has to say still goes out (RFC 5040 section 6.2), and the
// program hears whether it came.
static bool owes_output(const struct rnic_ep *ep)
{
    return ep->batch != NULL || qp_owes_output(ep->qp->qp) || awaits_settlement(ep);
}

void ep_read_on(struct rnic_ep *ep, instant_ns now)
{
    if (ep->has_fin && ep->state <= EP_CLOSING && !owes_output(ep)) {
        ep->has_fin = false;
        ep_resume_input(ep, now);
        shard_run_again(&ep->rnic->shard, ep);
    }
}

static enum conn_end end_of(const struct rnic_ep *ep, int error)
{
    const struct conn_ending ending = {
        .is_error = error != 0,
        .is_cut = !mpa_rx_is_between_fpdus(&ep->rx),
        .waits_for_receives = qp_wants_receive(ep->qp->qp),
        .owes_output = owes_output(ep),
        .is_meeting = ep->is_meeting,
        .is_closing = ep->state != EP_OPEN,
        .asks_for_nothing = !ep_has_output(ep) && qp_query(ep->qp->qp).reads_outstanding == 0,
    };
    return conn_end_of(&ending);
}

void ep_on_llp_end(struct rnic_ep *ep, int error, instant_ns now)
{
    if (ep->state == EP_STARTING) {
        conn_on_llp_failed(&ep->conn, error, now);
        ep_settle(ep, now);
        return;
    }
    ep_note_settled(ep, now); // the FIN itself may acknowledge
    switch (end_of(ep, error)) {
    case CONN_END_AFTER_OUTPUT:
        ep->has_fin = true;
        pause_input(ep, true);
        break;
    case CONN_END_NOT_SEEN:
        pause_input(ep, true);
        break;
    case CONN_END_ORDERLY:
        ep_close(ep, QP_CLOSE_PEER, false, now);
        break;
    case CONN_END_BROKEN:
        ep_close(ep, close_reason_of(error), true, now);
        break;
    }
}

enum input_step { INPUT_NOTHING, INPUT_SOME, INPUT_FULL };

static enum input_step input_once(struct rnic_ep *ep, instant_ns now)
{
    struct mspan staging = ep->rnic->shard.staging;
    ep_place_begin(ep);
    ep->turn_at_ns = now;
    ep->is_in_link = true;
    ssize_t got = ep->stream->link->ops->recv(ep->stream, staging);
    ep->is_in_link = false;
    if (ep->is_placing) {
        pause_input(ep, ep_place_settle(ep, now));
    }
    if (got == -EAGAIN) {
        return INPUT_NOTHING;
    }
    if (got <= 0) {
        ep_on_llp_end(ep, (int)got, now);
        return INPUT_NOTHING;
    }
    ep->moved_at_ns = now;
    if (!ep->is_placing) {
        ep->received_len += (uint64_t)got;
        stream_on_input(ep, span_of(staging.ptr, (size_t)got), now);
    }
    return (size_t)got >= staging.len ? INPUT_FULL : INPUT_SOME;
}

static bool may_read(const struct rnic_ep *ep)
{
    return ep->state >= EP_STARTING && ep->state <= EP_CLOSING && ep->stream != NULL &&
           !ep->is_paused;
}

bool ep_input(struct rnic_ep *ep, instant_ns now)
{
    bool moved = ep->has_placed;
    if (ep->has_placed && ep->state <= EP_CLOSING) {
        ep->has_placed = false;
        ep->moved_at_ns = now;
        pause_input(ep, ep_place_settle(ep, now));
    }
    for (unsigned i = 0; i < EP_READS_PER_TURN && may_read(ep); i++) {
        enum input_step step = input_once(ep, now);
        moved |= step != INPUT_NOTHING;
        if (step != INPUT_FULL) {
            return moved;
        }
    }
    if (may_read(ep)) {
        shard_run_again(&ep->rnic->shard, ep);
    }
    return moved;
}

/* ---- opening and closing --------------------------------------------------------------------- */

// Between two weft ends the kernel's TCP may cut FPDUs, long ones, wherever it likes.
static bool may_send_long(const struct rnic_ep *ep)
{
    return conn_agreement(&ep->conn)->extensions && !ep->stream->link->ops->has_segments;
}

int ep_io_open(struct rnic_ep *ep)
{
    const struct mpa_agreement *agreed = conn_agreement(&ep->conn);
    struct ulpdu_port port = {.on_ulpdu = on_ulpdu,
                              .on_early_ulpdu = ep_on_early_ulpdu,
                              .on_advance = ep_on_advance,
                              .ctx = ep};
    enum mpa_rx_markers markers = agreed->rx_markers           ? MPA_RX_MARKERS
                                  : agreed->rx_markers_if_seen ? MPA_RX_MARKERS_IF_SEEN
                                                               : MPA_RX_MARKERS_NONE;
    ep->carry = malloc(MPA_RX_CARRY_LEN);
    if (ep->carry == NULL) {
        return -ENOMEM;
    }
    uint32_t emss = ep->stream->link->ops->emss(ep->stream);
    // Whoever only was offered the extensions is not weft before its first FPDU says so.
    ep->has_records = agreed->extensions_await_choices || !may_send_long(ep);
    mpa_rx_init(&ep->rx, agreed->crc, markers, mspan_of(ep->carry, MPA_RX_CARRY_LEN), port);
    // The queue pair is told the length now: it must be right if markers are agreed on later, too.
    bool may_mark = agreed->tx_markers || agreed->peer_marker_wish;
    mpa_tx_init(&ep->tx, agreed->crc, agreed->tx_markers,
                ep->has_records ? mpa_mulpdu(emss, may_mark) : mpa_tx_mulpdu_max(may_mark));
    return 0;
}

void ep_io_on_confirmed(struct rnic_ep *ep)
{
    if (conn_agreement(&ep->conn)->tx_markers) {
        mpa_tx_use_markers(&ep->tx); // it wished for them
    }
    if (may_send_long(ep)) {
        ep->has_records = false;
        mpa_tx_use_mulpdu(&ep->tx, mpa_tx_mulpdu_max(ep->tx.markers));
        qp_use_mulpdu(ep->qp->qp, (uint32_t)ep->tx.mulpdu);
    }
}

// What an ended connection counted stays in the device's totals.
static void totals_add(struct rnic *rnic, const struct rnic_ep *ep)
{
#define X(name, text) rnic->mpa_in_total.name += ep->rx.counters.name;
    MPA_RX_COUNTERS(X)
#undef X
#define X(name, text) rnic->mpa_early_total.name += ep->placer.counters.name;
    MPA_PLACER_COUNTERS(X)
#undef X
#define X(name, text) rnic->mpa_out_total.name += ep->tx.counters.name;
    MPA_TX_COUNTERS(X)
#undef X
}

void ep_io_close(struct rnic_ep *ep)
{
    totals_add(ep->rnic, ep);
    batch_drop(ep);
    free(ep->carry);
    free(ep->backlog.ptr);
    ep->carry = NULL;
    ep->backlog = mspan_of(NULL, 0);
    ep->backlog_len = 0;
}
