// What of the queue pair's octets the link has, and what of them has come: marks, told upwards.

#include "base/check.h"
#include "base/port_link.h"
#include "iwarp/qp.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"

uint64_t ep_handed_position(const struct rnic_ep *ep)
{
    return ep->out.tx.position - (ep->out.batch != NULL ? ep->out.batch->mpa.octets_left : 0);
}

bool ep_settles_apart(const struct rnic_ep *ep)
{
    return ep->is_mirrored || (ep->stream->facts & LINK_IS_OF_PROCESS) != 0;
}

// Where the stream leads back: what has come in and was taken. Otherwise the link is asked.
static uint64_t settled_position(const struct rnic_ep *ep)
{
    if (ep->is_mirrored) {
        return ep->in.rx.counters.octets;
    }
    uint64_t unsettled = link_unsettled(ep->stream);
    uint64_t handed = ep_handed_position(ep);
    return handed > unsettled ? handed - unsettled : 0;
}

bool ep_note_settled(struct rnic_ep *ep, instant_ns now)
{
    if (ep->stream == NULL || !ep_settles_apart(ep)) {
        return false;
    }
    uint64_t settled = settled_position(ep); // asked for in any case: see link_ops
    if (ep->qp == NULL || ep->state < EP_OPEN || settled <= ep->out.settled_position) {
        return false;
    }
    ep->out.settled_position = settled;
    qp_on_settled(stream_qp(ep->qp), settled, now);
    return true;
}

// A FIN that left the peer before our octets reached it does not bring their acknowledgement.
bool ep_awaits_settlement(const struct rnic_ep *ep)
{
    return !ep->is_mirrored && ep_settles_apart(ep) &&
           ep->out.settled_position < ep_handed_position(ep);
}
