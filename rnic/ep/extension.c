// What the peer chose of weft's extensions, as its queue pair hears it: start-up and MPA are told.

#include "rnic/ep/ep.h"
#include "rnic/internal.h"

void ep_on_extension(void *ctx, const struct extension_message *message)
{
    struct rnic_qp *qp = ctx;
    if (qp->ep == NULL || qp->ep->is_initiator) {
        return;
    }
    if (message == NULL) {
        ep_place_on_declined(qp->ep);
    } else {
        conn_confirm(&qp->ep->startup.conn, message);
        ep_mpa_on_confirmed(qp->ep);
    }
}
