// TCP's part of the active side; which refusals are tried again says conn/retry.h.

#include <errno.h>

#include "rnic/ep.h"
#include "rnic/internal.h"

// Lets the refused stream go until the next attempt. False: there is none.
static bool try_again_later(struct rnic_ep *ep, instant_ns now)
{
    if (!conn_retry_on_refused(&ep->retry, now)) {
        return false;
    }
    ep_want_out(ep, false);
    ep->stream->owner = NULL;
    ep->stream->link->ops->close(ep->stream, true);
    ep->stream = NULL;
    return true;
}

static void on_outcome(struct rnic_ep *ep, int error, instant_ns now)
{
    if (error == -EINPROGRESS) {
        ep_want_out(ep, true);
    } else if (error == 0) {
        ep_want_out(ep, false);
        conn_on_llp_connected(&ep->conn, now);
    } else if (error != -ECONNREFUSED || !try_again_later(ep, now)) {
        conn_on_llp_failed(&ep->conn, error, now);
    }
    ep_settle(ep, now);
}

// From the address that the stream has now: a port that only connecting gives it is given anew.
void ep_connect(struct rnic_ep *ep, instant_ns now)
{
    const struct sockaddr *peer = (const struct sockaddr *)&ep->peer_addr;
    if (ep->stream->link->ops->local_addr(ep->stream, &ep->local_addr) != 0) {
        ep->local_addr.ss_family = AF_UNSPEC; // none at all yet
    }
    int error = ep->stream->link->ops->connect(ep->stream, peer);
    if (error == -EINPROGRESS) {
        // On one machine TCP is up already. Asked now, the Request leaves before the program can
        // begin another connection, and a listener sees them in the order in which they were
        // begun.
        error = ep->stream->link->ops->connect_result(ep->stream);
    }
    on_outcome(ep, error, now);
}

void ep_on_connect_result(struct rnic_ep *ep, instant_ns now)
{
    on_outcome(ep, ep->stream->link->ops->connect_result(ep->stream), now);
}

void ep_connect_again(struct rnic_ep *ep, instant_ns now)
{
    struct link *link = ep->rnic->shard.link;
    bool has_address = ep->local_addr.ss_family != AF_UNSPEC;
    int error = link->ops->bind(link, has_address ? (struct sockaddr *)&ep->local_addr : NULL,
                                LINK_BIND_REUSE, ep, &ep->stream);
    if (error != 0) {
        ep->stream = NULL;
        conn_on_llp_failed(&ep->conn, error, now);
        ep_settle(ep, now);
        return;
    }
    if (ep->tos != 0) {
        link->ops->set_tos(ep->stream, ep->tos);
    }
    ep_connect(ep, now);
}
