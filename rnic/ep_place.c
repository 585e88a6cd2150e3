// Streams of a link that places: octets go to MPA and the queue pair when they arrive, beyond holes
// too. The link's port is not allowed to call back into the stream, so what has come of it (an
// error, a QP that takes no more) is looked at afterwards.

#include "rnic/ep.h"
#include "rnic/internal.h"

/* ---- the port -------------------------------------------------------------------------------- */

// The link does not wait for recv when it serves its timers, or another stream: then somebody must
// look at this endpoint later.
static void note_activity(struct rnic_ep *ep)
{
    if (!ep->is_in_link) {
        ep->has_placed = true;
        ep->turn_at_ns = rnic_now(ep->rnic);
        shard_run_again(&ep->rnic->shard, ep);
    }
}

static enum place_verdict place(void *ctx, const struct place_offer *offer,
                                struct place_answer *answer)
{
    struct rnic_ep *ep = ctx;
    note_activity(ep);
    // What this segment acknowledges has succeeded, be its octets a Terminate.
    ep_note_settled(ep, ep->turn_at_ns);
    return ep->placing.place(ep->placing.ctx, offer, answer);
}

static bool on_advance(void *ctx, uint64_t position, uint64_t end,
                       const struct place_counts *counts)
{
    struct rnic_ep *ep = ctx;
    note_activity(ep);
    return ep->placing.on_advance(ep->placing.ctx, position, end, counts);
}

enum place_verdict ep_on_early_ulpdu(void *ctx, struct span ulpdu, uint64_t end,
                                     struct place_counts *counts)
{
    struct rnic_ep *ep = ctx;
    return qp_on_early_ulpdu(ep->qp->qp, ulpdu, end, counts, ep->turn_at_ns);
}

bool ep_on_advance(void *ctx, uint64_t end, const struct place_counts *counts)
{
    struct rnic_ep *ep = ctx;
    return qp_on_advance(ep->qp->qp, end, counts, ep->turn_at_ns);
}

/* ---- what stands above calls ----------------------------------------------------------------- */

bool ep_place_is_possible(const struct rnic *rnic)
{
    return rnic->shard.link->ops->set_place != NULL;
}

// A weft end begins every segment with an FPDU. Elsewhere a segment may begin wherever TCP cut the
// stream, also with octets that a third party had the peer send, made up as an FPDU: only a marker
// tells there.
static enum placement placement_of(const struct rnic_ep *ep)
{
    enum placement wish = (enum placement)ep->rnic->config.placement;
    bool is_weft = conn_agreement(&ep->conn)->extensions && !ep->is_offer_declined;
    return wish == PLACEMENT_EARLY && !is_weft ? PLACEMENT_STRICT : wish;
}

void ep_place_on_declined(struct rnic_ep *ep)
{
    ep->is_offer_declined = true;
    if (ep->is_placing) {
        ep->placer.placement = placement_of(ep);
    }
}

void ep_place_begin(struct rnic_ep *ep)
{
    bool is_due = ep->state == EP_OPEN && !ep->is_placing && !ep->is_paused && !ep->is_stopped;
    if (!is_due || ep->stream->link->ops->set_place == NULL) {
        return;
    }
    struct place_port port = {.place = place, .on_advance = on_advance, .ctx = ep};
    mpa_placer_init(&ep->placer, &ep->rx, placement_of(ep), ep->received_len,
                    ep->rnic->shard.staging);
    ep->placing = mpa_placer_port(&ep->placer);
    ep->is_placing = true;
    ep->stream->link->ops->set_place(ep->stream, &port);
}

bool ep_place_settle(struct rnic_ep *ep, instant_ns now)
{
    enum mpa_rx_verdict verdict = ep->rx.verdict;
    if (verdict == MPA_RX_OK) {
        return ep->rx.is_held || qp_is_stalled(ep->qp->qp);
    }
    if (!ep->is_stopped) {
        ep->is_stopped = true;
        if (verdict != MPA_RX_STOPPED) {
            qp_on_stream_error(ep->qp->qp, mpa_rx_verdict_cause(verdict), now);
        }
    }
    return false;
}

void ep_place_resume(struct rnic_ep *ep, instant_ns now)
{
    size_t consumed;
    ep->turn_at_ns = now;
    mpa_rx_on_input(&ep->rx, span_of(NULL, 0), &consumed);
    if (!ep->rx.is_held) {
        ep->is_in_link = true;
        ep->stream->link->ops->resume(ep->stream);
        ep->is_in_link = false;
    }
}
