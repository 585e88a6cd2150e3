// Octets of the link to start-up and the queue pair, by way of the staging buffer; and their end.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/port_link.h"
#include "base/span.h"
#include "conn/ending.h"
#include "iwarp/qp.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/events.h"
#include "rnic/internal.h"

enum {
    EP_READS_PER_TURN = 2,  // staging buffers, before other endpoints have their turn
    EP_LENT_LOOKS_MAX = 64, // at a part of an FPDU, before it is carried: its peer may be stopped
};
// An endpoint that got nothing for so long is no longer read without asking the link.
static const duration_ns cold_after_ns = 1 * NS_PER_MS;

bool ep_is_cold(const struct rnic_ep *ep, instant_ns now)
{
    return now > instant_after(ep->in.moved_at_ns, cold_after_ns);
}

// Octets that a stalled QP did not take wait here, and reading stops: the window closes. Those that
// did so before stay where they are: each receive that is posted takes a few, and leaves the rest.
static bool backlog_keep(struct rnic_ep *ep, struct span left, bool is_in_backlog)
{
    if (left.len == 0 || is_in_backlog) {
        ep->in.waiting = left;
        return true;
    }
    if (ep->in.backlog.len < left.len) {
        uint8_t *grown = realloc(ep->in.backlog.ptr, left.len);
        if (grown == NULL) {
            return false;
        }
        ep->in.backlog = mspan_of(grown, left.len);
    }
    memcpy(ep->in.backlog.ptr, left.ptr, left.len);
    ep->in.waiting = span_of(ep->in.backlog.ptr, left.len);
    return true;
}

// Who reads on asks the link at once: it may have told of the stream's end already, which was put
// aside behind what is taken now, and says so once.
static void pause_input(struct rnic_ep *ep, bool paused)
{
    if (ep->in.is_paused == paused) {
        return;
    }
    ep->in.is_paused = paused;
    link_want_in(ep->stream, !paused);
    if (!paused) {
        shard_run_again(&ep->rnic->shard, ep);
    }
}

// What has come of octets of the full operation phase.
static void fpdus_settle(struct rnic_ep *ep, enum mpa_rx_verdict verdict, instant_ns now)
{
    switch (verdict) {
    case MPA_RX_OK:
    case MPA_RX_STALLED:
        pause_input(ep, verdict == MPA_RX_STALLED);
        ep_note_gathering(ep);
        break;
    case MPA_RX_STOPPED:
        ep->in.is_stopped = true;
        break;
    default:
        TRACE(ep->rnic->trace, TRACE_MPA, "qp %u refuses the stream: %s", ep->qp->qp_num,
              mpa_rx_verdict_name(verdict));
        ep->in.is_stopped = true;
        qp_on_stream_error(stream_qp(ep->qp), mpa_rx_verdict_cause(verdict), now);
        break;
    }
}

static void fpdus_on_input(struct rnic_ep *ep, struct span in, bool is_in_backlog, instant_ns now)
{
    size_t consumed = 0;
    ep->in.turn_at_ns = now;
    if (!ep_carry_borrow(ep)) {
        ep_close(ep, QP_CLOSE_LOCAL, true, now);
        return;
    }
    events_keep(&ep->rnic->shard);
    enum mpa_rx_verdict verdict = mpa_rx_on_input(&ep->in.rx, in, &consumed);
    events_tell(&ep->rnic->shard);
    ep_carry_return(ep);
    fpdus_settle(ep, verdict, now);
    if (verdict == MPA_RX_STALLED && !backlog_keep(ep, span_skip(in, consumed), is_in_backlog)) {
        ep_close(ep, QP_CLOSE_LOCAL, true, now);
    }
}

static void stream_on_input(struct rnic_ep *ep, struct span in, instant_ns now)
{
    if (ep->state == EP_STARTING) {
        size_t consumed = conn_on_input(&ep->startup.conn, in, now);
        in = span_skip(in, consumed);
        if (in.len > 0 && !ep->is_initiator && conn_agreement(&ep->startup.conn) == NULL) {
            conn_on_first_fpdu(&ep->startup.conn, now); // before any Reply: a refusal with a name
        }
        ep_startup(ep, now);
    }
    if (in.len > 0 && (ep->state == EP_OPEN || ep->state == EP_CLOSING) && !ep->in.is_stopped) {
        fpdus_on_input(ep, in, false, now);
    }
}

// The QP may take again what it did not take before.
void ep_resume_input(struct rnic_ep *ep, instant_ns now)
{
    if (!ep->in.is_paused || ep->state == EP_CLOSED) {
        return;
    }
    if (ep->in.is_placing) {
        ep_place_resume(ep, now);
        pause_input(ep, ep_place_settle(ep, now));
        return;
    }
    struct span in = ep->in.waiting;
    ep->in.waiting = span_of(NULL, 0);
    fpdus_on_input(ep, in, true, now);
}

// The peer has said all; what this side has to say still goes out (RFC 5040 section 6.2), and the
// program hears whether it came.
static bool owes_output(const struct rnic_ep *ep)
{
    return ep->out.batch != NULL || qp_owes_output(stream_qp(ep->qp)) || ep_awaits_settlement(ep);
}

void ep_read_on(struct rnic_ep *ep, instant_ns now)
{
    if (ep->in.has_fin && ep->state <= EP_CLOSING && !owes_output(ep)) {
        ep->in.has_fin = false;
        ep_resume_input(ep, now);
        shard_run_again(&ep->rnic->shard, ep);
    }
}

static enum conn_end end_of(const struct rnic_ep *ep, int error)
{
    const struct conn_ending ending = {
        .is_error = error != 0,
        .is_cut = !mpa_rx_is_between_fpdus(&ep->in.rx),
        .waits_for_receives = qp_wants_receive(stream_qp(ep->qp)),
        .owes_output = owes_output(ep),
        .is_meeting = ep->is_meeting,
        .is_closing = ep->state != EP_OPEN,
        .asks_for_nothing =
            !ep_has_output(ep) && qp_query(stream_qp(ep->qp)).reads_outstanding == 0,
    };
    return conn_end_of(&ending);
}

void ep_on_llp_end(struct rnic_ep *ep, int error, instant_ns now)
{
    if (ep->state == EP_STARTING) {
        conn_on_llp_failed(&ep->startup.conn, error, now);
        return;
    }
    ep_note_settled(ep, now); // the FIN itself may acknowledge
    switch (end_of(ep, error)) {
    case CONN_END_AFTER_OUTPUT:
        ep->in.has_fin = true;
        pause_input(ep, true);
        break;
    case CONN_END_NOT_SEEN:
        pause_input(ep, true);
        break;
    case CONN_END_ORDERLY:
        ep_close(ep, QP_CLOSE_PEER, false, now);
        break;
    case CONN_END_BROKEN:
        ep_break(ep, error, now);
        break;
    }
}

enum input_step { INPUT_NOTHING, INPUT_SOME, INPUT_FULL };

static enum input_step input_lent(struct rnic_ep *ep, instant_ns now)
{
    struct span in;
    bool is_cut;
    size_t consumed = 0;
    ssize_t got = link_borrow(ep->stream, &in, &is_cut);
    if (got == -EAGAIN) {
        return INPUT_NOTHING;
    }
    if (got <= 0) {
        ep_on_llp_end(ep, (int)got, now);
        return INPUT_NOTHING;
    }
    ep->in.turn_at_ns = now;
    is_cut |= ep->in.lent_looks >= EP_LENT_LOOKS_MAX;
    if (!ep_carry_borrow(ep)) {
        ep_close(ep, QP_CLOSE_LOCAL, true, now);
        return INPUT_NOTHING;
    }
    enum mpa_rx_verdict verdict = mpa_rx_on_lent(&ep->in.rx, in, is_cut, &consumed);
    ep_carry_return(ep);
    if (consumed == 0) {
        ep->in.lent_looks++; // the rest of an FPDU is under way
        return INPUT_NOTHING;
    }
    ep->in.lent_looks = 0;
    ep->in.moved_at_ns = now;
    ep->in.received_len += consumed;
    ep_note_admission(ep); // before the peer sees that it is done
    link_give_back(ep->stream, consumed);
    fpdus_settle(ep, verdict, now);
    return is_cut ? INPUT_FULL : INPUT_SOME;
}

static enum input_step input_once(struct rnic_ep *ep, instant_ns now)
{
    struct mspan staging = ep->rnic->shard.staging;
    if (ep_input_is_lent(ep)) {
        return input_lent(ep, now);
    }
    ep_place_begin(ep);
    ep->in.turn_at_ns = now;
    ep->in.is_in_link = true;
    ssize_t got = link_recv(ep->stream, staging);
    ep->in.is_in_link = false;
    if (ep->in.is_placing) {
        pause_input(ep, ep_place_settle(ep, now));
    }
    if (got == -EAGAIN) {
        return INPUT_NOTHING;
    }
    if (got <= 0) {
        ep_on_llp_end(ep, (int)got, now);
        return INPUT_NOTHING;
    }
    ep->in.moved_at_ns = now;
    if (!ep->in.is_placing) {
        ep->in.received_len += (uint64_t)got;
        stream_on_input(ep, span_of(staging.ptr, (size_t)got), now);
    }
    return (size_t)got >= staging.len ? INPUT_FULL : INPUT_SOME;
}

static bool may_read(const struct rnic_ep *ep)
{
    return ep->state >= EP_STARTING && ep->state <= EP_CLOSING && ep->stream != NULL &&
           !ep->in.is_paused;
}

bool ep_input(struct rnic_ep *ep, instant_ns now)
{
    bool moved = ep->in.has_placed;
    if (ep->in.has_placed && ep->state <= EP_CLOSING) {
        ep->in.has_placed = false;
        ep->in.moved_at_ns = now;
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
