// One pass of a shard: doorbells, what the link says is ready, what was left, deadlines.

#include "base/check.h"
#include "rnic/carrier.h"
#include "rnic/internal.h"
#include "rnic/puller.h"
#include "rnic/reads.h"
#include "rnic/shard.h"

static bool serve_runnable(struct shard *shard, instant_ns now)
{
    struct list_link todo;
    if (list_is_empty(&shard->runnable)) {
        return false;
    }
    // Once around: who stops at a bound again joins the list behind us.
    list_move_all(&todo, &shard->runnable);
    struct list_link *l;
    while ((l = list_pop_head(&todo)) != NULL) {
        shard->carrier->run(l, now);
    }
    return true;
}

static void serve_deadlines(struct shard *shard, instant_ns now)
{
    struct deadline *d;
    while ((d = deadlines_take_due(&shard->deadlines, now)) != NULL) {
        shard->carrier->expire(d, now);
    }
    if (now >= shard->noted_ns) {
        shard->noted_ns = INSTANT_NEVER;
        shard->carrier->on_noted(shard, now);
    }
}

// What was left for who may copy is his now, or the stream's if nobody came.
static void serve_left(struct shard *shard, instant_ns now)
{
    bool is_puller = shard->puller != NULL;
    if (!list_is_empty(&shard->left) && (is_puller || now >= puller_awaited_until(shard))) {
        puller_note_return(shard, is_puller);
        shard_recall_reads(shard);
    }
}

// Completion events that moderation holds back.
static void serve_moderated(struct shard *shard, instant_ns now)
{
    for (struct list_link *l = shard->moderated.next; l != &shard->moderated; l = l->next) {
        cq_on_deadline(LIST_ENTRY(l, struct rnic_cq, moderated_link)->cq, now);
    }
    shard_note_moderated(shard);
}

// The part of a pass that is not input. It is bounded.
static bool serve_rest(struct shard *shard, instant_ns now)
{
    serve_left(shard, now);
    bool moved = serve_runnable(shard, now);
    serve_deadlines(shard, now);
    shard->carrier->settle(shard, now);
    serve_moderated(shard, now);
    reads_on_pass(shard->rnic, now);
    return moved;
}

bool shard_run(struct shard *shard, instant_ns now)
{
    CHECK(shard_is_held(shard));
    gathering_on_found(&shard->gathering, now);
    shard_serve_doorbells(shard, now);
    bool moved = shard->carrier->serve(shard, now);
    return serve_rest(shard, now) || moved;
}

// Who drove sleeps no more, and takes the wake, if there was one.
static void get_up(struct shard *shard, bool was_woken)
{
    const struct carrier_link_ops *link = shard->carrier->link;
    if (!shard_is_driver_asleep(shard)) {
        return;
    }
    atomic_store_explicit(&shard->asleep_until_ns, 0, memory_order_seq_cst);
    if (atomic_load_explicit(&shard->is_thread_in_link, memory_order_seq_cst)) {
        return;
    }
    if (was_woken || link->rise == NULL) {
        link->sleep(shard, 0);
    } else {
        link->rise(shard);
    }
}

void shard_rise(struct shard *shard)
{
    shard_lock(shard);
    get_up(shard, false);
    shard_unlock(shard);
}

void shard_pass_awake(struct shard *shard, struct puller *puller)
{
    shard_lock(shard);
    get_up(shard, true);
    instant_ns now = rnic_now(shard->rnic);
    if (puller != NULL) {
        shard->puller = puller;
        puller_note_look(shard, puller, now);
    }
    shard_run(shard, now);
    shard_unlock_as_puller(shard, now);
}

instant_ns shard_fall_asleep(struct shard *shard, bool may_pull)
{
    shard_lock(shard);
    bool is_busy = (may_pull && !list_is_empty(&shard->left)) || !list_is_empty(&shard->runnable) ||
                   !list_is_empty(&shard->due) || !shard->carrier->link->may_sleep(shard);
    instant_ns until_ns = is_busy ? 0 : shard_next_deadline(shard);
    atomic_store_explicit(&shard->asleep_until_ns, until_ns, memory_order_seq_cst);
    shard_unlock(shard);
    return until_ns;
}

enum shard_look shard_drive(struct shard *shard, struct puller *puller, instant_ns *ret_now)
{
    if (!shard_trylock(shard)) {
        return SHARD_TAKEN;
    }
    shard->puller = puller;
    instant_ns now = *ret_now = rnic_now(shard->rnic);
    puller_note_look(shard, puller, now);
    gathering_on_look(&shard->gathering, now);
    shard_serve_doorbells(shard, now);
    bool moved = shard->carrier->serve_busy(shard, now);
    moved |= serve_rest(shard, now);
    shard_unlock_as_puller(shard, now);
    return moved ? SHARD_MOVED : SHARD_STILL;
}
