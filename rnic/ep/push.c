// Writes and Reads past the stream (base/port_push.h): the peer's, which it may from when the queue
// pair takes them until it does not, and ours.

#include "base/check.h"
#include "base/key_mirror.h"
#include "base/list.h"
#include "base/port_link.h"
#include "base/port_push.h"
#include "iwarp/qp.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"
#include "rnic/puller.h"

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

// What the peer finds done in our memory, when all that it sent is out of the ring: nothing of it
// may lie elsewhere.
static unsigned rights_wanted(const struct rnic_ep *ep)
{
    return ep_input_is_lent(ep) ? qp_rights_past_stream(stream_qp(ep->qp)) : 0;
}

void ep_expel(struct rnic_ep *ep)
{
    if (ep->admitted != 0) {
        ep->admitted = 0;
        atomic_store(&ep->qp->pull.leaver, ep->stream->link->pushes->expel(ep->stream));
    }
}

void ep_note_admission(struct rnic_ep *ep)
{
    const struct push_ops *pushes = pushes_of(ep);
    if (pushes == NULL) {
        return; // a stream that was closed has expelled whoever was in
    }
    unsigned wanted = rights_wanted(ep);
    if (wanted == ep->admitted) {
        return;
    }
    ep_expel(ep);
    if (wanted != 0 && pushes->admit(ep->stream, ep->qp->wq->config->pd, wanted)) {
        ep->admitted = wanted;
    }
}

/* ---- ours ------------------------------------------------------------------------------------ */

bool ep_may_pass(const struct rnic_ep *ep, instant_ns now)
{
    const struct shard *shard = &ep->rnic->shard;
    return pushes_of(ep) != NULL && (shard->puller != NULL || now < puller_expected_until(shard));
}

// The puller has begun with this endpoint, at the first of a run.
static void begin_run(struct rnic_ep *ep, struct puller *puller, bool is_pushing)
{
    shard_take_left(&ep->rnic->shard, ep);
    puller->ops = pushes_of(ep);
    puller->put = puller->ops->put;
    puller_note_begun(puller, ep->qp, is_pushing);
}

// Who may copy. While he has the lock none is copied: Reads of one queue pair join those that have
// begun, a Write is alone.
static struct puller *puller_for(const struct rnic_ep *ep)
{
    struct puller *puller = ep->rnic->shard.puller;
    bool may = puller != NULL && (puller->qp == ep->qp || puller_is_free(puller));
    return may ? puller : NULL;
}

// By who may not: what goes by the stream all the same need not wait for one who may.
static enum past_answer leave(struct rnic_ep *ep, enum past_answer answer)
{
    if (answer != PAST_BEGUN) {
        return answer;
    }
    shard_leave_read(&ep->rnic->shard, ep);
    return PAST_LATER;
}

/* ---- Reads ----------------------------------------------------------------------------------- */

static enum past_answer locate(const struct rnic_ep *ep, const struct pull *pull,
                               struct pull_run *run)
{
    return pull_run_has_room(run, pull) ? pushes_of(ep)->locate(ep->stream, pull, run) : PAST_LATER;
}

static enum past_answer pull_by(struct puller *puller, struct rnic_ep *ep, const struct pull *pull)
{
    bool is_first = puller->qp == NULL;
    if (is_first) {
        pull_run_begin(&puller->run);
    }
    enum past_answer answer = locate(ep, pull, &puller->run);
    if (answer == PAST_BEGUN) {
        puller->turn_len += pull->len;
        if (is_first) {
            begin_run(ep, puller, false);
            ep->qp->pull.was_short = puller->run.len <= PULL_RUN_LEN / 2;
            ep_note_gathering(ep);
        }
    }
    return answer;
}

enum past_answer ep_pull(struct rnic_ep *ep, const struct pull *pull)
{
    struct puller *puller = puller_for(ep);
    if (ep->qp->pull.is_barred) {
        return PAST_REFUSED;
    }
    if (puller != NULL) {
        return pull_by(puller, ep, pull);
    }
    struct pull_run run;
    pull_run_begin(&run);
    return leave(ep, locate(ep, pull, &run));
}

/* ---- Writes ---------------------------------------------------------------------------------- */

enum past_answer ep_push(struct rnic_ep *ep, const struct push *push)
{
    const struct push_ops *pushes = pushes_of(ep);
    struct puller *puller = puller_for(ep);
    if (ep->qp->pull.is_barred) {
        return PAST_REFUSED;
    }
    if (puller == NULL) {
        return leave(ep, pushes->aim(ep->stream, push, NULL));
    }
    enum past_answer answer = pushes->aim(ep->stream, push, &puller->push);
    if (answer == PAST_BEGUN) {
        puller->turn_len += push->len;
        begin_run(ep, puller, true);
        ep->qp->pull.was_short = false;
        ep_note_gathering(ep);
    }
    return answer;
}

/* ---- behind a copy --------------------------------------------------------------------------- */

// What is posted costs a system call where octets go to the kernel's TCP, and where they are
// copied out of the memory of another process. Short messages into memory of both cost less to
// copy than the turn that each has if it leaves alone; so do those that come and wait for receives.
static bool may_gather(const struct rnic_ep *ep)
{
    bool costs_call = (ep->stream->facts & (LINK_LENDS | LINK_IS_OF_PROCESS)) == 0;
    return costs_call || ep->qp->pull.was_short || qp_is_stalled(stream_qp(ep->qp));
}

void ep_note_gathering(struct rnic_ep *ep)
{
    bool may = ep->stream != NULL && may_gather(ep);
    atomic_store_explicit(&ep->qp->may_gather, may, memory_order_relaxed);
}

static unsigned confirm(struct rnic_ep *ep, const struct pull_run *run, unsigned count)
{
    const struct push_ops *pushes = ep != NULL ? pushes_of(ep) : NULL;
    return pushes != NULL ? pushes->confirm(ep->stream, run, count) : 0;
}

// The connection may have ended meanwhile.
void ep_on_pulled(struct rnic_qp *qp, const struct puller *puller, unsigned count, instant_ns now)
{
    struct rnic_ep *ep = qp->ep;
    CHECK(shard_is_held(&qp->rnic->shard));
    list_remove(&qp->pull.link);
    if (puller->is_pushing) {
        puller->ops->conclude(&puller->push, count > 0);
        qp_on_pushed(stream_qp(qp), count > 0, now);
    } else {
        qp_on_pulled(stream_qp(qp), confirm(ep, &puller->run, count), now);
    }
    if (ep != NULL) {
        shard_settle_later(&qp->rnic->shard, ep);
    } else {
        rnic_qp_note_state(qp, now);
    }
}
