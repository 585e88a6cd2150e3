// Writes past the stream (base/port_push.h): the peer's into our memory, which it may from when the
// queue pair takes Writes until it does not, and ours into the peer's.

#include "base/port_link.h"
#include "base/port_push.h"
#include "iwarp/qp.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"

// NULL: none go past this stream. Asked in every turn, so what mostly decides comes first. Who
// insists on a CRC wants to know of every octet that it has come as it was.
static const struct push_ops *pushes_of(const struct rnic_ep *ep)
{
    const struct push_ops *pushes = ep->stream != NULL ? ep->stream->link->pushes : NULL;
    if (pushes == NULL || ep->qp == NULL || (ep->state != EP_OPEN && ep->state != EP_CLOSING)) {
        return NULL;
    }
    bool may =
        (ep->stream->facts & LINK_IS_OF_HOST) != 0 && !conn_agreement(&ep->startup.conn)->crc;
    return may ? pushes : NULL;
}

void ep_note_admission(struct rnic_ep *ep)
{
    const struct push_ops *pushes = pushes_of(ep);
    if (pushes == NULL) {
        return; // a stream that was closed has expelled whoever was in
    }
    bool wanted = qp_takes_writes(stream_qp(ep->qp));
    if (wanted && !ep->is_admitted) {
        ep->is_admitted = pushes->admit(ep->stream, ep->qp->wq->config->pd);
    } else if (!wanted && ep->is_admitted) {
        ep->is_admitted = false;
        pushes->expel(ep->stream);
    }
}

bool ep_may_push(const struct rnic_ep *ep)
{
    return pushes_of(ep) != NULL;
}

bool ep_push(struct rnic_ep *ep, const struct push *push)
{
    return pushes_of(ep)->push(ep->stream, push);
}
