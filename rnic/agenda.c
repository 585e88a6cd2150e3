// What a shard has still to do: endpoints and instants that anybody may put down, for a pass to
// find. Nothing here does any of it.

#include <stdlib.h>

#include "base/check.h"
#include "base/deadlines.h"
#include "base/list.h"
#include "base/port_link.h"
#include "base/time.h"
#include "cq/cq.h"
#include "rnic/carrier.h"
#include "rnic/ep/ep.h"
#include "rnic/ep/state.h"
#include "rnic/puller.h"
#include "rnic/shard.h"

/* ---- instants -------------------------------------------------------------------------------- */

void shard_wake_before(struct shard *shard, instant_ns deadline_ns)
{
    if (deadline_ns < atomic_load_explicit(&shard->asleep_until_ns, memory_order_seq_cst)) {
        shard->carrier->link->wake(shard);
    }
}

bool shard_is_awake_by(struct shard *shard, instant_ns at_ns)
{
    if (atomic_load_explicit(&shard->loop_count, memory_order_relaxed) > 0) {
        return false; // a program's loop may be at something else for longer
    }
    instant_ns until_ns = atomic_load_explicit(&shard->asleep_until_ns, memory_order_seq_cst);
    if (until_ns <= at_ns) {
        return true;
    }
    if (atomic_compare_exchange_strong_explicit(&shard->asleep_until_ns, &until_ns, at_ns,
                                                memory_order_seq_cst, memory_order_relaxed)) {
        shard->carrier->link->wake(shard);
    }
    return false;
}

void shard_note_deadline(struct shard *shard, instant_ns deadline_ns)
{
    CHECK(shard_is_held(shard));
    shard->noted_ns = instant_min(shard->noted_ns, deadline_ns);
    shard_wake_before(shard, deadline_ns);
}

void shard_note_moderated(struct shard *shard)
{
    for (struct list_link *l = shard->moderated.next; l != &shard->moderated; l = l->next) {
        struct cq *cq = LIST_ENTRY(l, struct rnic_cq, moderated_link)->cq;
        shard_note_deadline(shard, cq_next_deadline(cq));
    }
}

void shard_arm(struct shard *shard, struct rnic_ep *ep, instant_ns at_ns)
{
    CHECK(shard_is_held(shard));
    deadline_arm(&shard->deadlines, &ep->deadline, at_ns);
    shard_wake_before(shard, at_ns);
}

instant_ns shard_next_deadline(const struct shard *shard)
{
    CHECK(shard_is_held(shard));
    instant_ns at = instant_min(deadlines_next(&shard->deadlines), shard->noted_ns);
    at = instant_min(at, puller_awaited_until(shard));
    return instant_min(at, shard->carrier->link->link_deadline(shard));
}

/* ---- endpoints ------------------------------------------------------------------------------- */

void shard_run_again(struct shard *shard, struct rnic_ep *ep)
{
    CHECK(shard_is_held(shard));
    if (ep->state != EP_CLOSED && list_is_empty(&ep->run_link)) {
        list_push_tail(&shard->runnable, &ep->run_link);
        shard_wake_before(shard, 0);
    }
}

void shard_leave_read(struct shard *shard, struct rnic_ep *ep)
{
    CHECK(shard_is_held(shard));
    if (ep->state != EP_CLOSED && list_is_empty(&ep->left_link)) {
        list_push_tail(&shard->left, &ep->left_link);
        shard_wake_before(shard, puller_awaited_until(shard));
    }
}

void shard_take_left(struct shard *shard, struct rnic_ep *ep)
{
    CHECK(shard_is_held(shard));
    if (!list_is_empty(&ep->left_link)) {
        list_remove(&ep->left_link);
        puller_note_return(shard, true);
    }
}

void shard_recall_reads(struct shard *shard)
{
    struct list_link *l;
    CHECK(shard_is_held(shard));
    while ((l = list_pop_head(&shard->left)) != NULL) {
        struct rnic_ep *ep = LIST_ENTRY(l, struct rnic_ep, left_link);
        if (list_is_empty(&ep->run_link)) {
            list_push_tail(&shard->runnable, &ep->run_link);
        }
    }
}

void shard_settle_later(struct shard *shard, struct rnic_ep *ep)
{
    CHECK(shard_is_held(shard));
    if (ep->state != EP_CLOSED && list_is_empty(&ep->due_link)) {
        list_push_tail(&shard->due, &ep->due_link);
    }
}

void shard_unlist(struct shard *shard, struct rnic_ep *ep)
{
    CHECK(shard_is_held(shard));
    for (unsigned i = 0; i < SHARD_HOT_COUNT; i++) {
        if (shard->hot[i] == ep) {
            shard->hot[i] = NULL;
        }
    }
    list_remove(&ep->run_link);
    list_remove(&ep->due_link);
    deadline_disarm(&shard->deadlines, &ep->deadline);
    list_remove(&ep->starved_link);
    list_remove(&ep->left_link);
}

/* ---- words of farewell ----------------------------------------------------------------------- */

void shard_note_farewell(struct shard *shard, const struct farewell *farewell)
{
    CHECK(shard_is_held(shard));
    struct farewell *f = malloc(sizeof *f);
    if (f != NULL) {
        *f = *farewell;
        list_push_tail(&shard->farewells, &f->link);
    }
}
