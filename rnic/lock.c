// The lock of a shard, and what whoever lets go of it does for others: bells that found it taken,
// copies that were left to him, and what calls have left to be settled.

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/span.h"
#include "base/thread.h"
#include "link/sys.h"
#include "report/farewell.h"
#include "rnic/carrier.h"
#include "rnic/internal.h"
#include "rnic/packet/packet.h"
#include "rnic/pull.h"
#include "rnic/puller.h"
#include "rnic/shard.h"

static void say_farewells(struct list_link *farewells, struct trace *trace)
{
    struct list_link *l;
    while ((l = list_pop_head(farewells)) != NULL) {
        struct farewell *f = LIST_ENTRY(l, struct farewell, link);
        farewell_say(f, trace);
        free(f);
    }
}

static void condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attr);
    pthread_condattr_destroy(&attr);
}

int shard_init(struct shard *shard, struct rnic *rnic, struct link *link,
               struct datagram_link *datagrams)
{
    shard->staging = mspan_of(malloc(SHARD_STAGING_LEN), SHARD_STAGING_LEN);
    if (shard->staging.ptr == NULL) {
        return -ENOMEM;
    }
    pthread_mutex_init(&shard->lock, NULL);
    shard->rouse_fd = -1;
    shard->rnic = rnic;
    shard->carrier = link != NULL ? &stream_carrier : &packet_carrier;
    shard->packets.link = datagrams;
    list_init(&shard->packets.stopped);
    list_init(&shard->packets.members);
    shard->link = link;
    list_init(&shard->endpoints);
    list_init(&shard->doomed);
    list_init(&shard->due);
    list_init(&shard->runnable);
    list_init(&shard->starved);
    list_init(&shard->moderated);
    list_init(&shard->kept_events);
    list_init(&shard->farewells);
    list_init(&shard->pulls);
    list_init(&shard->left);
    shard->pull_patience_ns = PULLER_PATIENCE_MIN_NS;
    condition_init(&shard->pull_ended);
    condition_init(&shard->polling_ended);
    pthread_mutex_init(&shard->standing_lock, NULL);
    list_init(&shard->batches);
    list_init(&shard->carries);
    shard->noted_ns = INSTANT_NEVER;
    gathering_init(&shard->gathering);
    return 0;
}

void shard_fini(struct shard *shard)
{
    shard->carrier->tidy(shard);
    say_farewells(&shard->farewells, shard->rnic->trace);
    shard->carrier->link->close(shard);
    pthread_cond_destroy(&shard->pull_ended);
    pthread_cond_destroy(&shard->polling_ended);
    pthread_mutex_destroy(&shard->standing_lock);
    pthread_mutex_destroy(&shard->lock);
    sys_close_fd(&shard->rouse_fd);
    free(shard->staging.ptr);
}

/* ---- the lock -------------------------------------------------------------------------------- */

static void note_holder(struct shard *shard)
{
    atomic_store_explicit(&shard->holder, thread_pointer(), memory_order_relaxed);
}

static bool take_if_free(struct shard *shard)
{
    if (pthread_mutex_trylock(&shard->lock) != 0) {
        return false;
    }
    note_holder(shard);
    return true;
}

void shard_lock(struct shard *shard)
{
    if (take_if_free(shard)) {
        return;
    }
    atomic_fetch_add_explicit(&shard->waiter_count, 1, memory_order_relaxed);
    pthread_mutex_lock(&shard->lock);
    note_holder(shard);
    atomic_fetch_sub_explicit(&shard->waiter_count, 1, memory_order_relaxed);
}

void shard_let_go(struct shard *shard)
{
    atomic_store_explicit(&shard->holder, NULL, memory_order_relaxed);
    pthread_mutex_unlock(&shard->lock);
}

int shard_wait(struct shard *shard, pthread_cond_t *condition, const struct timespec *until)
{
    atomic_store_explicit(&shard->holder, NULL, memory_order_relaxed);
    int error = pthread_cond_timedwait(condition, &shard->lock, until);
    note_holder(shard);
    return error;
}

struct guard shard_guard(const struct shard *shard)
{
    return (struct guard){.holder = &shard->holder};
}

bool shard_trylock(struct shard *shard)
{
    return atomic_load_explicit(&shard->waiter_count, memory_order_relaxed) == 0 &&
           take_if_free(shard);
}

// Behind letting go of the lock. Ringers and we both exchange the head of the list: either theirs
// is first and we see the bell, or ours is and they find the lock free.
static bool is_rung_behind_us(struct shard *shard)
{
    struct rnic_qp *none = NULL;
    return !atomic_compare_exchange_strong_explicit(&shard->rung, &none, NULL, memory_order_seq_cst,
                                                    memory_order_acquire);
}

// What doors leave behind for who lets go of the lock: mostly nothing, so what does it stays out of
// the way.
static bool has_left_work(const struct shard *shard)
{
    return !list_is_empty(&shard->due) || !list_is_empty(&shard->moderated) ||
           !list_is_empty(&shard->doomed);
}

static __attribute__((noinline)) void do_left_work(struct shard *shard)
{
    if (!list_is_empty(&shard->due)) {
        shard->carrier->settle(shard, rnic_now(shard->rnic));
    }
    shard_note_moderated(shard);
    shard->carrier->tidy(shard);
}

// Farewells are said behind the lock: who reads them may be slow.
static __attribute__((noinline)) void let_go_and_say(struct shard *shard)
{
    struct list_link farewells;
    list_move_all(&farewells, &shard->farewells);
    shard_let_go(shard);
    say_farewells(&farewells, shard->rnic->trace);
}

void shard_unlock(struct shard *shard)
{
    for (;;) {
        if (has_left_work(shard)) {
            do_left_work(shard);
        }
        if (shard_is_driver_asleep(shard)) { // the link's deadline may be nearer by now
            shard_wake_before(shard, shard_next_deadline(shard));
        }
        if (list_is_empty(&shard->farewells)) {
            shard_let_go(shard);
        } else {
            let_go_and_say(shard);
        }
        if (!is_rung_behind_us(shard) || !take_if_free(shard)) {
            return;
        }
        shard_serve_doorbells(shard, rnic_now(shard->rnic));
    }
}

/* ---- the background thread ------------------------------------------------------------------- */

static void rouse(struct shard *shard)
{
    const uint64_t once = 1;
    if (shard->rouse_fd >= 0) {
        sys_write(shard->rouse_fd, &once, sizeof once);
    }
}

void shard_thread_rouse(struct shard *shard)
{
    shard->carrier->link->wake(shard);
    rouse(shard);
}

void shard_thread_mind(struct shard *shard, instant_ns at_ns)
{
    instant_ns until_ns = atomic_load_explicit(&shard->thread_until_ns, memory_order_seq_cst);
    if (at_ns < until_ns &&
        atomic_compare_exchange_strong_explicit(&shard->thread_until_ns, &until_ns, 0,
                                                memory_order_seq_cst, memory_order_seq_cst)) {
        rouse(shard);
    }
}

/* ---- doorbells ------------------------------------------------------------------------------- */

static void doorbell_push(struct shard *shard, struct rnic_qp *qp)
{
    if (atomic_exchange_explicit(&qp->is_rung, true, memory_order_acq_rel)) {
        return; // it is in the list, and who takes it out sees what was posted
    }
    struct rnic_qp *head = atomic_load_explicit(&shard->rung, memory_order_relaxed);
    do {
        atomic_store_explicit(&qp->rung_next, head, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&shard->rung, &head, qp, memory_order_seq_cst,
                                                    memory_order_relaxed));
}

void shard_serve_doorbells(struct shard *shard, instant_ns now)
{
    CHECK(shard_is_held(shard));
    gathering_on_served(&shard->gathering);
    struct rnic_qp *qp = atomic_exchange_explicit(&shard->rung, NULL, memory_order_acquire);
    while (qp != NULL) {
        struct rnic_qp *next = atomic_load_explicit(&qp->rung_next, memory_order_relaxed);
        // An exchange, as the ringer's: what was posted before a bell that found this one is seen.
        atomic_exchange_explicit(&qp->is_rung, false, memory_order_acq_rel);
        shard->carrier->serve_doorbell(qp, now);
        qp = next;
    }
}

/* ---- copies ---------------------------------------------------------------------------------- */

void shard_unlock_as_puller(struct shard *shard, instant_ns now)
{
    if (!list_is_empty(&shard->due)) {
        shard->carrier->settle(shard, now);
    }
    shard->puller = NULL;
    shard_unlock(shard);
}

void shard_pull(struct shard *shard, struct puller *puller)
{
    while (puller->qp != NULL) {
        struct rnic_qp *qp = puller->qp;
        unsigned count = puller_copy(puller);
        puller->qp = NULL;
        shard_lock(shard);
        shard->puller = puller;
        instant_ns now = rnic_now(shard->rnic);
        puller_note_look(shard, puller, now);
        shard->carrier->on_pulled(qp, puller, count, now);
        if (shard->pull_waiter_count > 0) {
            pthread_cond_broadcast(&shard->pull_ended);
        }
        shard_unlock_as_puller(shard, now);
    }
}

static void serve_if_free(struct shard *shard)
{
    struct puller puller;
    puller_begin(&puller);
    if (!shard_trylock(shard)) {
        puller_note_look(shard, &puller, rnic_now(shard->rnic));
        return;
    }
    shard->puller = &puller;
    instant_ns now = rnic_now(shard->rnic);
    puller_note_look(shard, &puller, now);
    shard_serve_doorbells(shard, now);
    shard_unlock_as_puller(shard, now);
    shard_pull(shard, &puller);
}

// The bell is left for the program's next look, or for the thread. A simulation has none.
static bool may_wait(const struct shard *shard, struct rnic_qp *qp)
{
    return shard->has_thread && shard->carrier->may_gather != NULL &&
           shard->carrier->may_gather(qp);
}

void shard_ring(struct shard *shard, struct rnic_qp *qp)
{
    doorbell_push(shard, qp);
    if (may_wait(shard, qp)) {
        return;
    }
    serve_if_free(shard);
    if (gathering_is_timed(&shard->gathering)) {
        gathering_note_sent(&shard->gathering, rnic_now(shard->rnic));
    }
}

void shard_send_waiting(struct shard *shard)
{
    if (gathering_has_waiting(&shard->gathering)) {
        serve_if_free(shard);
    }
}

void shard_serve_waiting(struct shard *shard)
{
    if (gathering_has_waiting(&shard->gathering) && rnic_is_alive(shard->rnic)) {
        shard_serve_doorbells(shard, rnic_now(shard->rnic));
    }
}

void shard_catch_up(struct shard *shard)
{
    const instant_ns now = rnic_now(shard->rnic);
    shard_serve_doorbells(shard, now);
    shard->carrier->settle(shard, now);
}
