// What an endpoint does when the shard calls it. Each of these ends by settling what follows, which
// nothing below them does: who has something to settle and stands outside of them puts it down
// (shard_settle_later).
#include <errno.h>

#include "base/check.h"
#include "base/port_link.h"
#include "conn/retry.h"
#include "conn/state.h"
#include "iwarp/qp.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"
#include "rnic/qp/meeting.h"

// How long a stream may take to end after our FIN, when the program did nothing wrong.
static const duration_ns close_wait_ns = 2 * NS_PER_S;

/* ---- settling -------------------------------------------------------------------------------- */

// The QP is done with the stream: a Terminate has left, or what was posted before the orderly end.
static void close_as_wanted(struct rnic_ep *ep, instant_ns now)
{
    bool abort = false;
    if (ep->qp == NULL || ep->state != EP_OPEN || !qp_wants_close(stream_qp(ep->qp), &abort)) {
        return;
    }
    if (abort) {
        ep_close(ep, QP_CLOSE_LOCAL, true, now);
        return;
    }
    ep_move(ep, EP_IN_SHUTDOWN);
    ep->close_at_ns = instant_after(now, close_wait_ns);
    link_shutdown(ep->stream);
}

static void note_deadline(struct rnic_ep *ep)
{
    instant_ns deadline_ns = INSTANT_NEVER;
    if (ep->state == EP_STARTING || ep->state == EP_OPEN) {
        deadline_ns =
            instant_min(conn_next_deadline(&ep->startup.conn), ep->startup.retry.again_at_ns);
        deadline_ns = instant_min(deadline_ns, ep->startup.kept_until_ns);
    }
    if (ep->qp != NULL && ep->state >= EP_OPEN) {
        deadline_ns = instant_min(deadline_ns, qp_next_deadline(stream_qp(ep->qp)));
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
    ep_note_admission(ep);
    ep_output(ep, now);
    ep_note_admission(ep);
    close_as_wanted(ep, now);
    if (ep->qp != NULL) {
        rnic_qp_note_state(ep->qp, now);
    }
    ep_read_on(ep, now);
    if (ep->state != EP_CLOSED) {
        note_deadline(ep);
    }
}

/* ---- turns ----------------------------------------------------------------------------------- */

// The queue pair may take again what it did not take before.
static bool resume_if_due(struct rnic_ep *ep, instant_ns now)
{
    bool is_due = ep->in.may_resume;
    ep->in.may_resume = false;
    if (is_due && ep->qp != NULL) {
        ep_resume_input(ep, now);
    }
    return is_due;
}

bool ep_on_turn(struct rnic_ep *ep, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    if (ep->state < EP_STARTING || ep->state == EP_CLOSED) {
        return false;
    }
    bool moved = resume_if_due(ep, now);
    moved = ep_input(ep, now) || moved;
    moved = ep_note_settled(ep, now) || moved;
    if (moved || ep->out.wants_out || ep->out.batch != NULL || ep->state == EP_STARTING ||
        (ep->qp != NULL && qp_has_output(stream_qp(ep->qp)))) {
        ep_settle(ep, now);
    }
    return moved;
}

void ep_on_doorbell(struct rnic_ep *ep, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    ep_note_gathering(ep);
    if (!qp_is_stalled(stream_qp(ep->qp))) {
        ep_resume_input(ep, now);
    }
    ep_settle(ep, now);
}

/* ---- incoming connections -------------------------------------------------------------------- */

static void drop_half_open(struct conn_admission *oldest, instant_ns now)
{
    if (oldest != NULL) {
        ep_doom(LIST_ENTRY(oldest, struct rnic_ep, startup.admission), true, now);
    }
}

static bool incoming_admit(struct rnic_ep *listener, instant_ns now)
{
    struct link_stream *stream;
    int error = link_accept(listener->stream, &stream);
    if (error == -EMFILE || error == -ENFILE) { // the link has reset it; the next one finds room
        drop_half_open(conn_gate_narrow(&listener->rnic->gate), now);
    }
    if (error != 0) {
        return false;
    }
    struct rnic_ep *ep = ep_create(listener->rnic, NULL);
    if (ep == NULL) {
        link_close(stream, true);
        return true;
    }
    ep->stream = stream;
    stream->owner = ep;
    ep->startup.listening_ep = listener;
    if (ep_conn_init(ep, false, now) != 0) {
        ep_doom(ep, true, now);
        return true;
    }
    ep_move(ep, EP_IN_START);
    drop_half_open(conn_listener_admit(&listener->listener, &ep->startup.admission), now);
    ep_on_turn(ep, now); // the Request has often come with the connection
    return true;
}

static void on_incoming(struct rnic_ep *listener, instant_ns now)
{
    enum { INCOMING_PER_TURN = 16 };
    for (unsigned i = 0; i < INCOMING_PER_TURN; i++) {
        if (!incoming_admit(listener, now)) {
            return;
        }
    }
}

/* ---- what the link and time say -------------------------------------------------------------- */

void ep_on_ready(struct rnic_ep *ep, unsigned what, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    if (ep->state == EP_LISTENING) {
        on_incoming(ep, now);
        return;
    }
    if (ep->state == EP_STARTING && ep->startup.conn.state == CONN_CONNECTING) {
        ep_on_connect_result(ep, now);
        ep_settle(ep, now);
        return;
    }
    if ((what & LINK_READY_ERR) != 0 && ep->in.is_paused) {
        // Reading is what usually finds the error; nobody reads now.
        ep_on_llp_end(ep, link_connect_result(ep->stream), now);
        ep_settle(ep, now);
        return;
    }
    ep_on_turn(ep, now);
}

void ep_on_deadline(struct rnic_ep *ep, instant_ns now)
{
    CHECK(shard_is_held(&ep->rnic->shard));
    if (ep->state == EP_STARTING && conn_retry_take_due(&ep->startup.retry, now)) {
        ep_connect_again(ep, now);
        ep_settle(ep, now);
        return;
    }
    if (now >= ep->startup.kept_until_ns) {
        qp_meeting_drop_kept(ep, now);
        return;
    }
    if (ep->state == EP_CLOSING && now >= ep->close_at_ns) {
        // A Terminate may still wait for the peer's window: the link sends it without us.
        bool has_terminated = ep->qp != NULL && qp_terminate_sent(stream_qp(ep->qp)) != NULL;
        ep_close(ep, QP_CLOSE_LOCAL, !has_terminated, now);
        return;
    }
    if (now >= conn_next_deadline(&ep->startup.conn)) {
        conn_on_deadline(&ep->startup.conn, now);
    }
    if (ep->qp != NULL && now >= qp_next_deadline(stream_qp(ep->qp))) {
        qp_on_deadline(stream_qp(ep->qp), now);
    }
    ep_settle(ep, now);
}
