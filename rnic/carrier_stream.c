// Queue pairs on streams: what the shard asks, put to the link and to the endpoints on it.

#include <stdlib.h>

#include "base/check.h"
#include "base/port_link.h"
#include "rnic/carrier.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/internal.h"
#include "rnic/qp/meeting.h"

enum {
    SHARD_LINK_TURNS = 32, // with hot endpoints the link itself is asked in every 32nd pass
};

/* ---- a pass ---------------------------------------------------------------------------------- */

static bool hot_contains(const struct shard *shard, const struct rnic_ep *ep)
{
    for (unsigned i = 0; i < SHARD_HOT_COUNT; i++) {
        if (shard->hot[i] == ep) {
            return true;
        }
    }
    return false;
}

// Of many, those that are reported lie in no cache: they are asked for together, before anybody
// waits for one.
static void fetch_reported(const struct link_ready *ready, int count)
{
    for (int i = 0; i < count; i++) {
        ep_fetch(ready[i].stream->owner);
    }
    for (int i = 0; i < count; i++) {
        const struct rnic_ep *ep = ready[i].stream->owner;
        if (ep != NULL && ep->qp != NULL) {
            ep_fetch_qp(ep->qp);
        }
    }
}

static bool serve_link(struct shard *shard, instant_ns now)
{
    struct link_ready ready[SHARD_READY_MAX];
    int count = link_poll(shard->link, ready, SHARD_READY_MAX);
    bool is_crowded = false;
    if (shard_has_many(shard)) {
        fetch_reported(ready, count);
    }
    for (int i = 0; i < count; i++) {
        struct rnic_ep *ep = ready[i].stream->owner;
        if (ep == NULL) {
            continue; // closed by an earlier report of this batch
        }
        if ((ready[i].what & LINK_READY_IN) != 0 && !hot_contains(shard, ep)) {
            struct rnic_ep **place = &shard->hot[shard->hot_next++ % SHARD_HOT_COUNT];
            is_crowded |= *place != NULL;
            *place = ep;
        }
        ep_on_ready(ep, ready[i].what, now);
    }
    if (count > 0) { // a look that finds nothing tells nothing about who comes next
        shard->is_crowded = is_crowded;
    }
    return count > 0;
}

// Reads the endpoints that were busy lately without asking the link which are readable. In a crowd
// they are seldom those that come next, and looking at each in vain costs more than asking.
static bool serve_hot(struct shard *shard, instant_ns now)
{
    if (shard->is_crowded) {
        return serve_link(shard, now);
    }
    bool moved = false;
    bool any = false;
    bool ask_link = shard->turn_count++ % SHARD_LINK_TURNS == 0;
    for (unsigned i = 0; i < SHARD_HOT_COUNT; i++) {
        struct rnic_ep *ep = shard->hot[i];
        if (ep == NULL) {
            continue;
        }
        any = true;
        ask_link |= ep_is_blocked(ep);
        if (ep_on_turn(ep, now)) {
            moved = true;
        } else if (shard->hot[i] == ep && ep_is_cold(ep, now)) {
            shard->hot[i] = NULL;
        }
    }
    if (ask_link || !any) {
        moved |= serve_link(shard, now);
    }
    return moved;
}

static void run_ep(struct list_link *entry, instant_ns now)
{
    ep_on_turn(LIST_ENTRY(entry, struct rnic_ep, run_link), now);
}

// What follows from what doors and meetings have done with endpoints. Settling one may move others.
static void settle_eps(struct shard *shard, instant_ns now)
{
    struct list_link *l;
    while ((l = list_pop_head(&shard->due)) != NULL) {
        ep_settle(LIST_ENTRY(l, struct rnic_ep, due_link), now);
    }
}

static void expire_ep(struct deadline *deadline, instant_ns now)
{
    ep_on_deadline(DEADLINE_ENTRY(deadline, struct rnic_ep, deadline), now);
}

static void serve_meetings(struct shard *shard, instant_ns now)
{
    qp_meetings_on_deadline(shard->rnic, now);
}

static void bury_doomed(struct shard *shard)
{
    struct list_link *l;
    while ((l = list_pop_head(&shard->doomed)) != NULL) {
        free(LIST_ENTRY(l, struct rnic_ep, all_link));
        shard->endpoint_count--;
    }
}

/* ---- the end of a process -------------------------------------------------------------------- */

static bool any_has_output(const struct shard *shard)
{
    const struct list_link *all = &shard->endpoints;
    for (const struct list_link *l = all->next; l != all; l = l->next) {
        if (ep_has_output(LIST_ENTRY(l, const struct rnic_ep, all_link))) {
            return true;
        }
    }
    return false;
}

// What the kernel does for sockets when a process exits: every connection ends with FIN.
static bool shutdown_all(struct shard *shard)
{
    if ((shard->link->facts & LINK_IS_OF_PROCESS) == 0) {
        return false;
    }
    for (struct list_link *l = shard->endpoints.next; l != &shard->endpoints; l = l->next) {
        struct link_stream *stream = LIST_ENTRY(l, struct rnic_ep, all_link)->stream;
        if (stream != NULL) {
            link_shutdown(stream);
        }
    }
    return true;
}

/* ---- posts ----------------------------------------------------------------------------------- */

static bool may_gather(struct rnic_qp *qp)
{
    struct shard *shard = &qp->rnic->shard;
    if (!atomic_load_explicit(&qp->may_gather, memory_order_relaxed) ||
        gathering_begins(&shard->gathering, &qp->gathering)) {
        return false;
    }
    const instant_ns now = rnic_now(qp->rnic);
    const bool may_wait = gathering_may_wait(&shard->gathering, &qp->gathering, now) &&
                          shard_is_awake_by(shard, instant_after(now, GATHERING_REACH_NS));
    if (may_wait) {
        gathering_note_waiting(&shard->gathering, now);
    }
    return may_wait;
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static void on_moved(struct rnic_qp *qp, enum qp_state to, instant_ns now)
{
    if (qp->ep != NULL && to == QP_RESET) {
        ep_close(qp->ep, QP_CLOSE_LOCAL, true, now);
    }
    if (to == QP_RESET || to > QP_RTS) {
        qp_meeting_end(qp, now);
    }
}

static void on_changed(struct rnic_qp *qp)
{
    if (qp->ep != NULL) {
        ep_note_admission(qp->ep);
    }
}

static void forget(struct rnic_qp *qp, instant_ns now)
{
    if (qp->ep != NULL) {
        ep_close(qp->ep, QP_CLOSE_LOCAL, ep_has_output(qp->ep), now);
    }
    qp_meeting_forget(qp, now);
}

const struct carrier_ops stream_carrier = {
    .link = &stream_carrier_link,
    .create_qp = ep_create_qp,
    .serve = serve_link,
    .serve_busy = serve_hot,
    .run = run_ep,
    .settle = settle_eps,
    .expire = expire_ep,
    .on_noted = serve_meetings,
    .tidy = bury_doomed,
    .has_unsent = any_has_output,
    .end = shutdown_all,
    .may_gather = may_gather,
    .serve_doorbell = rnic_qp_on_doorbell,
    .on_pulled = ep_on_pulled,
    .on_changed = on_changed,
    .on_moved = on_moved,
    .forget = forget,
};
