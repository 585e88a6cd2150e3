// TCP's part of the active side. A refused connection is tried again for a short while: programs
// tell their port to the other side before they listen on it (qperf does), and two ends that are
// quick, on one machine, meet in between.

#include <errno.h>

#include "rnic/ep.h"
#include "rnic/internal.h"

static const duration_ns refused_patience_ns = 50 * NS_PER_MS;
static const duration_ns refused_pause_ns = 2 * NS_PER_MS;

// Lets the refused stream go until the next attempt. False: it was refused for
// long enough.
static bool try_again_later(struct rnic_ep *ep, instant_ns now)
{
    if (ep->give_up_at_ns == 0) {
        ep->give_up_at_ns = instant_after(now, refused_patience_ns);
    }
    if (now >= ep->give_up_at_ns) {
        return false;
    }
    ep_want_out(ep, false);
    ep->stream->owner = NULL;
    ep->stream->link->ops->close(ep->stream, true);
    ep->stream = NULL;
    ep->connect_at_ns = instant_after(now, refused_pause_ns);
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
    ep->connect_at_ns = INSTANT_NEVER;
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
