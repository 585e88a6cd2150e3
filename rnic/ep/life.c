// An endpoint's life: it is made, gets a queue pair, loses it, and closes or breaks.

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/fetch.h"
#include "base/port_link.h"
#include "base/sockaddr.h"
#include "base/span.h"
#include "conn/retry.h"
#include "iwarp/qp.h"
#include "iwarp/state.h"
#include "mpa/startup.h"
#include "report/farewell.h"
#include "rnic/batch.h"
#include "rnic/carry.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"
#include "wire/extension.h"

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
    list_init(&ep->due_link);
    list_init(&ep->starved_link);
    list_init(&ep->left_link);
    list_init(&ep->all_link);
    list_init(&ep->startup.admission.link);
    list_init(&ep->startup.admission.gate_link);
    list_push_tail(&rnic->shard.endpoints, &ep->all_link);
    rnic->shard.endpoint_count++;
    return ep;
}

void ep_fetch(const struct rnic_ep *ep)
{
    fetch_ahead(ep, sizeof *ep);
}

void ep_fetch_qp(const struct rnic_qp *qp)
{
    fetch_ahead(qp, sizeof *qp);
    qp_fetch(stream_qp(qp));
}

void ep_move(struct rnic_ep *ep, enum ep_input input)
{
    enum ep_state next = ep_state_next(ep->state, input);
    CHECK(next != EP_NO_STATE);
    ep->state = next;
}

static void listener_drain(struct rnic_ep *ep, instant_ns now)
{
    struct conn_admission *a;
    while ((a = conn_listener_drain(&ep->listener)) != NULL) {
        struct rnic_ep *waiting = LIST_ENTRY(a, struct rnic_ep, startup.admission);
        waiting->startup.listening_ep = NULL;
        if (!waiting->startup.is_answered) { // otherwise the front has it, and answers for it
            ep_doom(waiting, true, now);
        }
    }
}

void ep_doom(struct rnic_ep *ep, bool abort, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    ep->port = (struct rnic_ep_port){0};
    ep->startup.listening_ep = NULL;
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

int ep_conn_init(struct rnic_ep *ep, bool is_initiator, instant_ns now)
{
    if (ep->startup.frames == NULL) { // else it tried to begin before, and could not
        ep->startup.frames = malloc(sizeof *ep->startup.frames);
    }
    if (ep->startup.frames == NULL) {
        return -ENOMEM;
    }
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
    ep->in.moved_at_ns = now;
    ep->startup.kept_until_ns = INSTANT_NEVER;
    conn_retry_init(&ep->startup.retry);
    conn_init(&ep->startup.conn, &conn_config, ep->startup.frames, now);
    return 0;
}

void ep_drop_frames(struct rnic_ep *ep)
{
    free(ep->startup.frames);
    ep->startup.frames = NULL;
}

int ep_attach(struct rnic_ep *ep, struct rnic_qp *qp)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    bool is_free = ep->qp == NULL && qp->ep == NULL && qp->rnic == ep->rnic;
    if (!is_free || qp_stream_state(stream_qp(qp)) != QP_STREAM_IDLE) {
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
    struct farewell f = {.peer = sockaddr_unmapped((const struct sockaddr *)&ep->peer_addr)};
    if (ep->qp == NULL || ep->peer_addr.ss_family == AF_UNSPEC) {
        return;
    }
    const struct terminate *by_peer = qp_terminate_received(stream_qp(ep->qp));
    const struct terminate *by_us = qp_terminate_sent(stream_qp(ep->qp));
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

// What an ended connection counted stays in the device's totals.
static void totals_add(struct rnic *rnic, const struct rnic_ep *ep)
{
#define X(name, text) rnic->mpa_in_total.name += ep->in.rx.counters.name;
    MPA_RX_COUNTERS(X)
#undef X
#define X(name, text) rnic->mpa_early_total.name += ep->in.placer.counters.name;
    MPA_PLACER_COUNTERS(X)
#undef X
#define X(name, text) rnic->mpa_out_total.name += ep->out.tx.counters.name;
    MPA_TX_COUNTERS(X)
#undef X
}

void ep_drop_batch(struct rnic_ep *ep)
{
    if (ep->out.batch != NULL) {
        shard_batch_return(&ep->rnic->shard, ep->out.batch);
        ep->out.batch = NULL;
    }
}

// Drops what was not sent or not taken.
static void io_close(struct rnic_ep *ep)
{
    totals_add(ep->rnic, ep);
    ep_drop_batch(ep);
    ep_drop_frames(ep);
    if (ep->in.carry != NULL) {
        shard_carry_return(&ep->rnic->shard, ep->in.carry);
    }
    free(ep->in.backlog.ptr);
    ep->in.carry = NULL;
    ep->in.backlog = mspan_of(NULL, 0);
    ep->in.waiting = span_of(NULL, 0);
}

// An end is owed to the program that was told of a beginning, or has accepted and waits for one,
// also if that has come in the same look as the end.
static bool owes_end(const struct rnic_ep *ep)
{
    const struct conn *conn = &ep->startup.conn;
    const bool has_begun = conn_awaits_rtr(conn) || conn_is_established(conn);
    return ep->is_established || (ep->state >= EP_OPEN && has_begun);
}

void ep_close(struct rnic_ep *ep, enum qp_close_reason reason, bool abort, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    if (ep->state == EP_CLOSED) {
        return;
    }
    const bool has_end_to_tell = owes_end(ep);
    ep_note_settled(ep, now);
    note_farewell(ep, reason);
    if (ep->state == EP_OPEN || ep->state == EP_CLOSING) {
        ep->rnic->closes[reason]++;
    }
    ep_move(ep, EP_IN_CLOSE);
    conn_listener_leave(&ep->startup.admission);
    if (ep->stream != NULL) {
        ep->stream->owner = NULL;
        ep_expel(ep);
        link_close(ep->stream, abort);
        ep->stream = NULL;
    }
    io_close(ep);
    struct rnic_qp *qp = ep->qp;
    if (qp != NULL) {
        TRACE(ep->rnic->trace, TRACE_RNIC, "qp %u: stream closed: %s", qp->qp_num,
              qp_close_reason_name(reason));
        qp_on_llp_closed(stream_qp(qp), reason, now);
        rnic_qp_note_state(qp, now);
        ep_detach(ep);
    }
    shard_unlist(&ep->rnic->shard, ep);
    if (ep->is_meeting) {
        list_remove(&ep->all_link);
        list_push_tail(&ep->rnic->shard.doomed, &ep->all_link);
    }
    if (has_end_to_tell) {
        ep->is_established = false;
        ep_report(ep, &(struct rnic_ep_event){.type = RNIC_EP_DISCONNECTED});
    }
}

static enum qp_close_reason close_reason_of(int error)
{
    switch (error) {
    case -ETIMEDOUT:
    case -EHOSTUNREACH: // the kernel gave up as well, and names the last it heard of the way there
    case -ENETUNREACH:
    case -EHOSTDOWN:
    case -ENETDOWN:
        return QP_CLOSE_TIMEOUT;
    default:
        return QP_CLOSE_RESET;
    }
}

void ep_break(struct rnic_ep *ep, int error, instant_ns now)
{
    ep_close(ep, close_reason_of(error), true, now);
}
