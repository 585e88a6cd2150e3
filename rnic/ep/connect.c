// TCP's part of the active side; which refusals are tried again says conn/retry.h.

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/port_link.h"
#include "base/span.h"
#include "conn/retry.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"

// Lets the refused stream go until the next attempt. False: there is none.
static bool try_again_later(struct rnic_ep *ep, instant_ns now)
{
    if (!conn_retry_on_refused(&ep->startup.retry, now)) {
        return false;
    }
    ep_want_out(ep, false);
    ep->stream->owner = NULL;
    link_close(ep->stream, true);
    ep->stream = NULL;
    return true;
}

static void on_outcome(struct rnic_ep *ep, int error, instant_ns now)
{
    if (error == -EINPROGRESS) {
        ep_want_out(ep, true);
    } else if (error == 0) {
        ep_want_out(ep, false);
        ep_forgo_crc(ep);
        conn_on_llp_connected(&ep->startup.conn, now);
    } else if (error != -ECONNREFUSED || !try_again_later(ep, now)) {
        conn_on_llp_failed(&ep->startup.conn, error, now);
    }
    ep_startup(ep, now);
}

// From the address that the stream has now: a port that only connecting gives it is given anew.
static void connect_stream(struct rnic_ep *ep, instant_ns now)
{
    const struct sockaddr *peer = (const struct sockaddr *)&ep->peer_addr;
    if (link_local_addr(ep->stream, &ep->startup.local_addr) != 0) {
        ep->startup.local_addr.ss_family = AF_UNSPEC; // none at all yet
    }
    int error = link_connect(ep->stream, peer);
    if (error == -EINPROGRESS) {
        // On one machine TCP is up already. Asked now, the Request leaves before the program can
        // begin another connection, and a listener sees them in the order in which they were
        // begun.
        error = link_connect_result(ep->stream);
    }
    on_outcome(ep, error, now);
}

void ep_on_connect_result(struct rnic_ep *ep, instant_ns now)
{
    on_outcome(ep, link_connect_result(ep->stream), now);
}

void ep_connect_again(struct rnic_ep *ep, instant_ns now)
{
    struct link *link = ep->rnic->shard.link;
    bool has_address = ep->startup.local_addr.ss_family != AF_UNSPEC;
    int error = link_bind(link, has_address ? (struct sockaddr *)&ep->startup.local_addr : NULL,
                          LINK_BIND_REUSE, ep, &ep->stream);
    if (error != 0) {
        ep->stream = NULL;
        conn_on_llp_failed(&ep->startup.conn, error, now);
        return;
    }
    if (ep->tos != 0) {
        link_set_tos(ep->stream, ep->tos);
    }
    connect_stream(ep, now);
}

/* ---- beginnings ------------------------------------------------------------------------------ */

struct conn_params ep_conn_params(const struct rnic_ep_params *params)
{
    return (struct conn_params){
        .private_data = span_of(params->private_data, params->private_data_len),
        .ird = params->ird,
        .ord = params->ord,
    };
}

int ep_begin_connect(struct rnic_ep *ep, const struct sockaddr *dst, struct rnic_qp *qp,
                     const struct rnic_ep_params *params, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    struct conn_params conn_params = ep_conn_params(params);
    if (ep->state != EP_BOUND) {
        return -EINVAL;
    }
    int error = ep_conn_init(ep, true, now);
    conn_params.wants_reply = qp == NULL;
    if (error == 0) {
        error = conn_connect(&ep->startup.conn, &conn_params);
    }
    if (error == 0 && qp != NULL) {
        error = ep_attach(ep, qp);
    }
    if (error != 0) {
        return error;
    }
    ep_move(ep, EP_IN_START);
    memcpy(&ep->peer_addr, dst,
           dst->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    connect_stream(ep, now);
    shard_settle_later(&ep->rnic->shard, ep);
    return 0;
}

int ep_begin_with_itself(struct rnic_ep *ep, struct rnic_qp *qp,
                         const struct rnic_ep_params *params, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    const struct conn_params conn_params = ep_conn_params(params);
    int error = ep_conn_init(ep, true, now);
    ep->is_mirrored = true;
    if (error == 0) {
        error = ep_attach(ep, qp);
    }
    if (error == 0) {
        error = conn_connect_to_itself(&ep->startup.conn, &conn_params);
    }
    if (error == 0) {
        ep_move(ep, EP_IN_START);
        shard_settle_later(&ep->rnic->shard, ep);
    }
    return error;
}
