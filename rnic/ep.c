#include "rnic/ep.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "rnic/address.h"
#include "rnic/internal.h"
#include "rnic/qp_meeting.h"

// How long a stream may take to end after our FIN, when the program did nothing wrong.
static const duration_ns close_wait_ns = 2 * NS_PER_S;

struct rnic_ep *ep_create(struct rnic *rnic, const struct rnic_ep_port *port)
{
    CHECK(shard_is_held(&rnic->shard));
    struct rnic_ep *ep = calloc(1, sizeof *ep);
    if (ep == NULL) {
        return NULL;
    }
    ep->rnic = rnic;
    if (port != NULL) {
        ep->port = *port;
    }
    list_init(&ep->run_link);
    list_init(&ep->starved_link);
    list_init(&ep->all_link);
    list_init(&ep->admission.link);
    list_init(&ep->admission.gate_link);
    list_push_tail(&rnic->shard.endpoints, &ep->all_link);
    return ep;
}

static void listener_drain(struct rnic_ep *ep, instant_ns now)
{
    struct conn_admission *a;
    while ((a = conn_listener_drain(&ep->listener)) != NULL) {
        struct rnic_ep *waiting = LIST_ENTRY(a, struct rnic_ep, admission);
        waiting->listening_ep = NULL;
        if (!waiting->is_answered) { // otherwise the front has it, and answers for it
            ep_doom(waiting, true, now);
        }
    }
}

void ep_doom(struct rnic_ep *ep, bool abort, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    ep->port = (struct rnic_ep_port){0};
    ep->listening_ep = NULL;
    if (ep->state == EP_LISTENING) {
        listener_drain(ep, now);
    }
    ep_close(ep, QP_CLOSE_LOCAL, abort, now);
    list_remove(&ep->all_link);
    list_push_tail(&ep->rnic->shard.doomed, &ep->all_link);
}

// EXTENSION_ONESHOT_ bits.
static uint8_t oneshot_of(const struct rnic_config *config)
{
    static const uint8_t encodings[] = {
        [RNIC_ONESHOT_FLAGS] = EXTENSION_ONESHOT_FLAGS,
        [RNIC_ONESHOT_OPCODE] = EXTENSION_ONESHOT_OPCODE,
    };
    static const uint8_t parts[] = {
        [RNIC_ONESHOT_BOTH] = EXTENSION_ONESHOT_PARTS,
        [RNIC_ONESHOT_ADVERTISE] = EXTENSION_ONESHOT_ADVERTISE,
        [RNIC_ONESHOT_CLOSE] = EXTENSION_ONESHOT_CLOSE,
    };
    return config->oneshot == RNIC_ONESHOT_OFF
               ? 0
               : encodings[config->oneshot] | parts[config->oneshot_parts];
}

void ep_conn_init(struct rnic_ep *ep, bool is_initiator, instant_ns now)
{
    const struct rnic_config *config = &ep->rnic->config;
    struct conn_config conn_config = {
        .is_initiator = is_initiator,
        .revision = (uint8_t)config->mpa_revision,
        .crc_wanted = config->crc,
        .markers_wanted = config->markers,
        .peer_to_peer = config->peer_to_peer,
        .rtr_kinds = is_initiator ? MPA_RTR_WRITE | MPA_RTR_READ : MPA_RTR_ALL,
        .ird_max = (uint16_t)rnic_limits.max_qp_rd_atom,
        .extensions = config->extensions,
        .encodings = oneshot_of(config),
        .allotment_len = ep->rnic->allotment.len,
        .request_timeout_ns = config->mpa_timeout_ns,
        // In a meeting the Reply comes when the peer's program has come so far.
        .reply_timeout_ns = ep->is_meeting ? 0 : config->mpa_timeout_ns,
        .trace = ep->rnic->trace,
        .counters = &ep->rnic->conn_counters,
    };
    ep->is_initiator = is_initiator;
    ep->state = EP_STARTING;
    ep->moved_at_ns = now;
    ep->kept_until_ns = INSTANT_NEVER;
    conn_retry_init(&ep->retry);
    conn_init(&ep->conn, &conn_config, now);
}

int ep_attach(struct rnic_ep *ep, struct rnic_qp *qp)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    bool is_free = ep->qp == NULL && qp->ep == NULL && qp->rnic == ep->rnic;
    if (!is_free || qp_stream_state(qp->qp) != QP_STREAM_IDLE) {
        return -EINVAL;
    }
    ep->qp = qp;
    qp->ep = ep;
    return 0;
}

void ep_detach(struct rnic_ep *ep)
{
    if (ep->qp != NULL) {
        ep->qp->ep = NULL;
        ep->qp = NULL;
    }
}

void ep_report(struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    if (ep->port.on_event != NULL) {
        ep->port.on_event(ep->port.ctx, ep, event);
    }
}

// Before the QP is told. Nothing is said of an orderly end, nor of a reset: that is how programs
// end that do not disconnect.
static void note_farewell(const struct rnic_ep *ep, enum qp_close_reason reason)
{
    struct farewell f = {.peer = address_unmapped(&ep->peer_addr)};
    if (ep->qp == NULL || ep->peer_addr.ss_family == AF_UNSPEC) {
        return;
    }
    const struct terminate *by_peer = qp_terminate_received(ep->qp->qp);
    const struct terminate *by_us = qp_terminate_sent(ep->qp->qp);
    f.qp_num = ep->qp->qp_num;
    if (by_peer != NULL) {
        f.kind = FAREWELL_BY_PEER;
        f.terminate = *by_peer;
    } else if (by_us != NULL) {
        f.kind = FAREWELL_BY_US;
        f.terminate = *by_us;
    } else if (reason == QP_CLOSE_TIMEOUT) {
        f.kind = FAREWELL_LOST;
    } else {
        return;
    }
    shard_note_farewell(&ep->rnic->shard, &f);
}

void ep_close(struct rnic_ep *ep, enum qp_close_reason reason, bool abort, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    if (ep->state == EP_CLOSED) {
        return;
    }
    ep_note_settled(ep, now);
    note_farewell(ep, reason);
    if (ep->state == EP_OPEN || ep->state == EP_CLOSING) {
        ep->rnic->closes[reason]++;
    }
    ep->state = EP_CLOSED;
    conn_listener_leave(&ep->admission);
    if (ep->stream != NULL) {
        ep->stream->owner = NULL;
        ep->stream->link->ops->close(ep->stream, abort);
        ep->stream = NULL;
    }
    ep_io_close(ep);
    struct rnic_qp *qp = ep->qp;
    if (qp != NULL) {
        TRACE(ep->rnic->trace, TRACE_RNIC, "qp %u: stream closed: %s", qp->qp_num,
              qp_close_reason_name(reason));
        qp_on_llp_closed(qp->qp, reason, now);
        rnic_qp_note_state(qp, now);
        ep_detach(ep);
    }
    shard_unlist(&ep->rnic->shard, ep);
    if (ep->is_meeting) {
        list_remove(&ep->all_link);
        list_push_tail(&ep->rnic->shard.doomed, &ep->all_link);
    }
    if (ep->is_established) {
        ep->is_established = false;
        ep_report(ep, &(struct rnic_ep_event){.type = RNIC_EP_DISCONNECTED});
    }
}

/* ---- settling -------------------------------------------------------------------------------- */

// The QP is done with the stream: a Terminate has left, or what was posted before the orderly end.
static void close_as_wanted(struct rnic_ep *ep, instant_ns now)
{
    bool abort = false;
    if (ep->qp == NULL || ep->state != EP_OPEN || !qp_wants_close(ep->qp->qp, &abort)) {
        return;
    }
    if (abort) {
        ep_close(ep, QP_CLOSE_LOCAL, true, now);
        return;
    }
    ep->state = EP_CLOSING;
    ep->close_at_ns = instant_after(now, close_wait_ns);
    ep->stream->link->ops->shutdown(ep->stream);
}

static void note_deadline(struct rnic_ep *ep)
{
    instant_ns deadline_ns = INSTANT_NEVER;
    if (ep->state == EP_STARTING || ep->state == EP_OPEN) {
        deadline_ns = instant_min(conn_next_deadline(&ep->conn), ep->retry.again_at_ns);
        deadline_ns = instant_min(deadline_ns, ep->kept_until_ns);
    }
    if (ep->qp != NULL && ep->state >= EP_OPEN) {
        deadline_ns = instant_min(deadline_ns, qp_next_deadline(ep->qp->qp));
    }
    if (ep->state == EP_CLOSING) {
        deadline_ns = instant_min(deadline_ns, ep->close_at_ns);
    }
    shard_arm(&ep->rnic->shard, ep, deadline_ns);
}

void ep_settle(struct rnic_ep *ep, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    if (ep->state == EP_STARTING || (ep->state == EP_OPEN && !ep->is_established)) {
        ep_startup(ep, now);
    }
    ep_output(ep, now);
    close_as_wanted(ep, now);
    if (ep->qp != NULL) {
        rnic_qp_note_state(ep->qp, now);
    }
    ep_read_on(ep, now);
    if (ep->state != EP_CLOSED) {
        note_deadline(ep);
    }
}

/* ---- what the shard calls -------------------------------------------------------------------- */

void ep_on_ready(struct rnic_ep *ep, unsigned what, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    if (ep->state == EP_LISTENING) {
        ep_on_incoming(ep, now);
        return;
    }
    if (ep->state == EP_STARTING && ep->conn.state == CONN_CONNECTING) {
        ep_on_connect_result(ep, now);
        return;
    }
    if ((what & LINK_READY_ERR) != 0 && ep->is_paused) {
        // Reading is what usually finds the error; nobody reads now.
        ep_on_llp_end(ep, ep->stream->link->ops->connect_result(ep->stream), now);
        return;
    }
    ep_on_turn(ep, now);
}

bool ep_on_turn(struct rnic_ep *ep, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    if (ep->state < EP_STARTING || ep->state == EP_CLOSED) {
        return false;
    }
    bool moved = ep_input(ep, now);
    moved = ep_note_settled(ep, now) || moved;
    if (moved || ep->wants_out || ep->batch != NULL || ep->state == EP_STARTING ||
        (ep->qp != NULL && qp_has_output(ep->qp->qp))) {
        ep_settle(ep, now);
    }
    return moved;
}

void ep_on_deadline(struct rnic_ep *ep, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    if (ep->state == EP_STARTING && conn_retry_take_due(&ep->retry, now)) {
        ep_connect_again(ep, now);
        return;
    }
    if (now >= ep->kept_until_ns) {
        qp_meeting_drop_kept(ep, now);
        return;
    }
    if (ep->state == EP_CLOSING && now >= ep->close_at_ns) {
        // A Terminate may still wait for the peer's window: the link sends it without us.
        bool has_terminated = ep->qp != NULL && qp_terminate_sent(ep->qp->qp) != NULL;
        ep_close(ep, QP_CLOSE_LOCAL, !has_terminated, now);
        return;
    }
    if (now >= conn_next_deadline(&ep->conn)) {
        conn_on_deadline(&ep->conn, now);
    }
    if (ep->qp != NULL && now >= qp_next_deadline(ep->qp->qp)) {
        qp_on_deadline(ep->qp->qp, now);
    }
    ep_settle(ep, now);
}
