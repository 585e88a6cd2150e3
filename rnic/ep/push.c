// Writes and Reads past the stream (base/port_push.h): the peer's, which it may from when the queue
// pair takes them until it does not, and ours.

#include <string.h>

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
    if (ep->admitted != 0) {
        ep->admitted = 0;
        pushes->expel(ep->stream);
    }
    if (wanted != 0 && pushes->admit(ep->stream, ep->qp->wq->config->pd, wanted)) {
        ep->admitted = wanted;
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

bool ep_may_pull(const struct rnic_ep *ep, instant_ns now)
{
    const struct shard *shard = &ep->rnic->shard;
    return ep_may_push(ep) && (shard->puller != NULL || now < puller_expected_until(shard));
}

enum pull_answer ep_pull(struct rnic_ep *ep, const struct pull *pull, const struct mspan *pieces,
                         unsigned piece_count)
{
    struct puller *puller = ep->rnic->shard.puller;
    struct rnic_pull *p = &ep->qp->pull;
    const struct push_ops *pushes = pushes_of(ep);
    enum pull_answer answer =
        p->is_barred ? PULL_REFUSED : pushes->locate(ep->stream, pull, &p->source);
    if (answer != PULL_BEGUN) {
        return answer;
    }
    if (puller == NULL || !puller_is_free(puller)) {
        shard_leave_read(&ep->rnic->shard, ep);
        return PULL_LATER;
    }
    shard_take_left(&ep->rnic->shard, ep);
    p->piece_count = piece_count;
    memcpy(p->pieces, pieces, piece_count * sizeof *pieces);
    p->copy = pushes->copy;
    puller->qp = ep->qp;
    puller->turn_len += pull->len;
    list_push_tail(&ep->rnic->shard.pulls, &p->link);
    return PULL_BEGUN;
}

static bool has_held(struct rnic_ep *ep, const struct pull_source *source)
{
    const struct push_ops *pushes = pushes_of(ep);
    return pushes != NULL && pushes->confirm(ep->stream, source);
}

// The connection may have ended meanwhile.
void ep_on_pulled(struct rnic_qp *qp, bool is_whole, instant_ns now)
{
    struct rnic_ep *ep = qp->ep;
    CHECK(shard_is_held(&qp->rnic->shard));
    list_remove(&qp->pull.link);
    bool is_good = is_whole && ep != NULL && has_held(ep, &qp->pull.source);
    qp_on_pulled(stream_qp(qp), is_good, now);
    if (ep != NULL) {
        shard_settle_later(&qp->rnic->shard, ep);
    } else {
        rnic_qp_note_state(qp, now);
    }
}
