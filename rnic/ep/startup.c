// MPA start-up on a stream: conn/ decides, this file does what it says and tells the front.

#include "mpa/startup.h"

#include <errno.h>
#include <string.h>

#include "base/port_link.h"
#include "base/probe.h"
#include "conn/state.h"
#include "iwarp/qp.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"
#include "rnic/journal.h"
#include "rnic/qp/meeting.h"
#include "wire/terminate.h"

/* ---- events to the front --------------------------------------------------------------------- */

// Statuses as the kernel's iWARP connection manager reports them.
static enum rnic_ep_event_type event_of_failure(int status)
{
    switch (status) {
    case -ECONNREFUSED:
    case -ECONNRESET:
        return RNIC_EP_REJECTED;
    case -ETIMEDOUT:
    case -EHOSTUNREACH:
    case -ENETUNREACH:
        return RNIC_EP_UNREACHABLE;
    default:
        return RNIC_EP_CONNECT_ERROR;
    }
}

// A start-up frame may name more than this device has, or say that nothing is negotiated (0x3fff).
static uint16_t depth_of(uint16_t from_frame)
{
    return from_frame < rnic_limits.max_qp_rd_atom ? from_frame
                                                   : (uint16_t)rnic_limits.max_qp_rd_atom;
}

static void event_fill(struct rnic_ep_event *event, const struct conn_event *from)
{
    size_t len = from->private_data.len;
    event->ird = depth_of(from->ird);
    event->ord = depth_of(from->ord);
    event->status = from->status;
    event->private_data_len =
        (uint16_t)(len < sizeof event->private_data ? len : sizeof event->private_data);
    if (event->private_data_len > 0) {
        memcpy(event->private_data, from->private_data.ptr, event->private_data_len);
    }
}

// An initiator that agreed on no first FPDU may never send one, and its program may wait for
// ours: siw and ib_write_lat do. RFC 5044 section 7.1.2 would have both wait for ever.
static const duration_ns silence_ns = 100 * NS_PER_MS;

/* ---- the stream becomes the QP's ------------------------------------------------------------- */

static int open_stream(struct rnic_ep *ep, instant_ns now)
{
    const struct mpa_agreement *agreed = conn_agreement(&ep->startup.conn);
    int error = ep_mpa_open(ep);
    if (error != 0) {
        return error;
    }
    struct qp_stream stream = {
        .mulpdu = (uint32_t)ep->out.tx.mulpdu,
        .ird = agreed->ird,
        .ord = agreed->ord,
        .is_initiator = ep->is_initiator,
        .may_send = ep->is_initiator,
        .silence_ns = agreed->extensions || agreed->rtr != MPA_RTR_NONE ? 0 : silence_ns,
        .peer_is_weft = agreed->extensions,
        .settles_apart = ep_settles_apart(ep),
        .is_own_peer = ep->is_mirrored,
        .peer_is_siw = agreed->peer_echoes,
        .rtr = agreed->rtr,
        .told_allotment_len = agreed->own_allotment_len,
        .peer_allotment_len = agreed->peer_allotment_len,
    };
    if (ep->is_initiator && agreed->extensions) {
        stream.choices = mpa_agreement_choices(agreed);
    } else {
        stream.oneshot_offered = agreed->encodings;
    }
    PROBE4(established, ep->qp->qp_num, ep->is_initiator, agreed->crc, stream.mulpdu);
    journal_stream(ep);
    link_peer_addr(ep->stream, &ep->peer_addr);
    ep_move(ep, EP_IN_OPEN);
    qp_on_established(stream_qp(ep->qp), &stream, now);
    rnic_qp_note_state(ep->qp, now);
    return 0;
}

/* ---- conn's events --------------------------------------------------------------------------- */

static void on_request(struct rnic_ep *ep, const struct conn_event *from, instant_ns now)
{
    struct rnic_ep *listener = ep->startup.listening_ep;
    ep_forgo_crc(ep);
    struct rnic_ep_event event = {
        .type = RNIC_EP_CONNECT_REQUEST,
        .new_ep = ep,
        .new_ep_port = &ep->port,
    };
    bool is_answerable =
        listener != NULL && (listener->port.on_event != NULL || listener->point != NULL);
    if (!is_answerable || !conn_listener_request(&ep->startup.admission)) {
        ep_doom(ep, true, now);
        return;
    }
    if (listener->point != NULL) {
        qp_meeting_on_request(ep, from->private_data, now);
        return;
    }
    event_fill(&event, from);
    if (!ep->startup.conn.peer
             .enhanced) { // revision 1 says nothing of depths: whatever this device has
        event.ird = event.ord = (uint16_t)rnic_limits.max_qp_rd_atom;
    }
    ep->startup.is_answered = true;
    ep_report(listener, &event);
    ep->startup.listening_ep = NULL;
    if (ep->port.on_event == NULL) { // the front has no memory for it
        ep_doom(ep, true, now);
    }
}

static void on_established(struct rnic_ep *ep, const struct conn_event *from)
{
    struct rnic_ep_event event = {.type = RNIC_EP_ESTABLISHED};
    event_fill(&event, from);
    ep->startup.is_answered = true;
    ep->is_established = true;
    ep_report(ep, &event);
}

static void on_rejected(struct rnic_ep *ep, const struct conn_event *from, instant_ns now)
{
    struct rnic_ep_event event = {.type = RNIC_EP_REJECTED};
    event_fill(&event, from);
    event.status = -ECONNREFUSED;
    ep->startup.is_answered = true;
    ep_close(ep, QP_CLOSE_PEER, false, now);
    ep_report(ep, &event);
}

// Start-up failed. With a cause to tell, the QP's stream is opened just for its Terminate.
static void on_failed(struct rnic_ep *ep, const struct conn_event *from, instant_ns now)
{
    struct rnic_ep_event event = {.type = event_of_failure(from->status)};
    bool was_open = ep->state == EP_OPEN;
    TRACE(ep->rnic->trace, TRACE_CONN, "start-up failed: %s", from->text);
    event_fill(&event, from);
    if (from->cause != TERM_NONE && ep->qp != NULL && conn_agreement(&ep->startup.conn) != NULL &&
        (was_open || open_stream(ep, now) == 0)) {
        qp_on_stream_error(stream_qp(ep->qp), from->cause, now);
        ep_output(ep, now);
    }
    bool is_unknown = ep->startup.listening_ep != NULL && !ep->startup.is_answered;
    ep->startup.is_answered = true;
    ep_close(ep, QP_CLOSE_RESET, false, now);
    if (is_unknown) {
        ep_doom(ep, true, now);
    } else {
        ep_report(ep, &event);
    }
}

// The responder's Reply is written, or the initiator may begin: FPDUs from here on.
static void open_if_due(struct rnic_ep *ep, instant_ns now)
{
    const struct conn_event no_memory = {
        .type = CONN_EVENT_FAILED, .status = -ENOMEM, .text = "no memory for the stream"};
    bool is_due = conn_is_established(&ep->startup.conn) ||
                  (!ep->is_initiator && conn_awaits_rtr(&ep->startup.conn));
    if (ep->state == EP_STARTING && is_due && ep->qp != NULL && open_stream(ep, now) != 0) {
        on_failed(ep, &no_memory, now);
    }
}

static void on_conn_event(struct rnic_ep *ep, const struct conn_event *event, instant_ns now)
{
    switch (event->type) {
    case CONN_EVENT_REQUEST:
        on_request(ep, event, now);
        break;
    case CONN_EVENT_REPLY: {
        struct rnic_ep_event reply = {.type = RNIC_EP_CONNECT_REPLY};
        event_fill(&reply, event);
        ep_report(ep, &reply);
        break;
    }
    case CONN_EVENT_ESTABLISHED:
        open_if_due(ep, now);
        // Of one that its program has ended meanwhile too: else it would be owed no end.
        if (ep->state == EP_OPEN || ep->state == EP_CLOSING) {
            on_established(ep, event);
        }
        break;
    case CONN_EVENT_REJECTED:
        on_rejected(ep, event, now);
        break;
    case CONN_EVENT_REJECT_SENT:
        ep_close(ep, QP_CLOSE_LOCAL, false, now);
        break;
    case CONN_EVENT_FAILED:
        on_failed(ep, event, now);
        break;
    }
}

/* ---- frames out ------------------------------------------------------------------------------ */

static void frame_write(struct rnic_ep *ep, instant_ns now)
{
    struct span out;
    while (ep->stream != NULL && (out = conn_output(&ep->startup.conn)).len > 0) {
        struct iovec iov = {.iov_base = (void *)(uintptr_t)out.ptr, .iov_len = out.len};
        struct link_tx tx = {.iov = &iov, .iov_count = 1};
        ssize_t taken = link_send(ep->stream, &tx);
        if (taken == -EAGAIN) {
            ep_want_out(ep, true);
            return;
        }
        if (taken < 0) {
            conn_on_llp_failed(&ep->startup.conn, (int)taken, now);
            return;
        }
        ep_want_out(ep, false);
        conn_on_output(&ep->startup.conn, (size_t)taken, now);
    }
}

void ep_startup(struct rnic_ep *ep, instant_ns now)
{
    struct conn_event event;
    if (ep->startup.conn.state != CONN_CONNECTING) {
        frame_write(ep, now);
    }
    while (ep->state != EP_CLOSED && conn_next_event(&ep->startup.conn, &event)) {
        on_conn_event(ep, &event, now);
    }
    if (conn_frames_back(&ep->startup.conn) != NULL) {
        ep_drop_frames(ep);
    }
    open_if_due(ep, now);
}
