// Streams of a link that places: octets go to MPA and the queue pair when they arrive, beyond holes
// too. The link's port is not allowed to call back into the stream, so what has come of it (an
// error, a QP that takes no more) is looked at afterwards.

#include "base/port_link.h"
#include "base/port_place.h"
#include "base/span.h"
#include "iwarp/qp.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"
#include "rnic/journal.h"

/* ---- the port -------------------------------------------------------------------------------- */

// The link does not wait for recv when it serves its timers, or another stream: then somebody must
// look at this endpoint later.
static void note_activity(struct rnic_ep *ep)
{
    if (!ep->in.is_in_link) {
        ep->in.has_placed = true;
        ep->in.turn_at_ns = rnic_now(ep->rnic);
        shard_run_again(&ep->rnic->shard, ep);
    }
}

static enum place_verdict place(void *ctx, const struct place_offer *offer,
                                struct place_answer *answer)
{
    struct rnic_ep *ep = ctx;
    note_activity(ep);
    // First, for the segment may carry a Terminate and acknowledge our data: those have succeeded.
    ep_note_settled(ep, ep->in.turn_at_ns);
    return ep->in.placing.place(ep->in.placing.ctx, offer, answer);
}

static bool on_advance(void *ctx, uint64_t position, uint64_t end,
                       const struct place_counts *counts)
{
    struct rnic_ep *ep = ctx;
    note_activity(ep);
    return ep->in.placing.on_advance(ep->in.placing.ctx, position, end, counts);
}

enum place_verdict ep_on_early_ulpdu(void *ctx, struct span ulpdu, uint64_t end,
                                     struct place_counts *counts)
{
    struct rnic_ep *ep = ctx;
    return qp_on_early_ulpdu(stream_qp(ep->qp), ulpdu, end, counts, ep->in.turn_at_ns);
}

bool ep_on_advance(void *ctx, uint64_t end, const struct place_counts *counts)
{
    struct rnic_ep *ep = ctx;
    return qp_on_advance(stream_qp(ep->qp), end, counts, ep->in.turn_at_ns);
}

/* ---- what stands above calls ----------------------------------------------------------------- */

bool ep_place_is_possible(const struct rnic *rnic)
{
    return (rnic->shard.link->facts & LINK_HAS_PLACES) != 0;
}

// A weft end begins every segment with an FPDU. Elsewhere a segment may begin wherever TCP cut the
// stream, also with octets that a third party had the peer send, made up as an FPDU: only a marker
// tells there.
static enum placement placement_of(const struct rnic_ep *ep)
{
    enum placement wish = (enum placement)ep->rnic->config.placement;
    bool is_weft = conn_agreement(&ep->startup.conn)->extensions && !ep->in.is_offer_declined;
    return wish == PLACEMENT_EARLY && !is_weft ? PLACEMENT_STRICT : wish;
}

void ep_place_on_declined(struct rnic_ep *ep)
{
    ep->in.is_offer_declined = true;
    if (ep->in.is_placing) {
        ep->in.placer.placement = placement_of(ep);
    }
}

void ep_place_begin(struct rnic_ep *ep)
{
    bool is_due =
        ep->state == EP_OPEN && !ep->in.is_placing && !ep->in.is_paused && !ep->in.is_stopped;
    if (!is_due || (ep->stream->facts & LINK_HAS_PLACES) == 0 || !ep_carry_borrow(ep)) {
        return; // without memory: by way of the staging buffer, until there is some
    }
    struct place_port port = {.place = place, .on_advance = on_advance, .ctx = ep};
    journal_holes(ep, &port);
    mpa_placer_init(&ep->in.placer, &ep->in.rx, placement_of(ep), ep->in.received_len,
                    ep->rnic->shard.staging);
    ep->in.placing = mpa_placer_port(&ep->in.placer);
    ep->in.is_placing = true;
    link_set_place(ep->stream, &port);
}

bool ep_place_settle(struct rnic_ep *ep, instant_ns now)
{
    enum mpa_rx_verdict verdict = ep->in.rx.verdict;
    if (verdict == MPA_RX_OK) {
        return ep->in.rx.is_held || qp_is_stalled(stream_qp(ep->qp));
    }
    if (!ep->in.is_stopped) {
        ep->in.is_stopped = true;
        if (verdict != MPA_RX_STOPPED) {
            qp_on_stream_error(stream_qp(ep->qp), mpa_rx_verdict_cause(verdict), now);
        }
    }
    return false;
}

void ep_place_resume(struct rnic_ep *ep, instant_ns now)
{
    size_t consumed;
    ep->in.turn_at_ns = now;
    mpa_rx_on_input(&ep->in.rx, span_of(NULL, 0), &consumed);
    if (!ep->in.rx.is_held) {
        ep->in.is_in_link = true;
        link_resume(ep->stream);
        ep->in.is_in_link = false;
    }
}
