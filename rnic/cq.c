// Completion queues of the fronts: the ring of cq/, a lock for pollers, and the rule by which a
// poller drives the RNIC itself.

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno_name.h"
#include "base/giving_way.h"
#include "rnic/events.h"
#include "rnic/internal.h"
#include "rnic/pull.h"
#include "rnic/puller.h"

enum {
    // So many empty polls within the window make a program that spins on a CQ: the background
    // thread then stands back. A program that posts, looks once and spins on memory never gets
    // there.
    SPINNER_POLL_COUNT = 64,
};
static const duration_ns spinner_window_ns = 100 * NS_PER_US;

// Who finds something at each look moves nothing by that, as it came by an earlier one: for so long
// behind the last that did he is taken to drive.
static const duration_ns driven_for_ns = 500 * NS_PER_US;

int rnic_cq_create(struct rnic *rnic, uint32_t cqe_count, const struct cq_port *port,
                   struct rnic_cq **ret)
{
    if (cqe_count == 0 || cqe_count > rnic_limits.max_cqe) {
        return -EINVAL;
    }
    struct rnic_cq *cq = calloc(1, sizeof *cq);
    if (cq == NULL) {
        return -ENOMEM;
    }
    cq->rnic = rnic;
    cq->port = *port;
    struct cq_port guarded = events_port(cq);
    guarded.guard = shard_guard(&rnic->shard);
    cq->cq = cq_create(cqe_count, guarded);
    if (cq->cq == NULL) {
        free(cq);
        return -ENOMEM;
    }
    pthread_mutex_init(&cq->poll_lock, NULL);
    list_init(&cq->moderated_link);
    list_init(&cq->kept_link);
    rnic_enter(rnic);
    if (rnic->cq_count < rnic_limits.max_cq) {
        rnic->cq_count++;
        *ret = cq;
        return rnic_leave(rnic, 0);
    }
    rnic_leave(rnic, 0);
    cq_destroy(cq->cq);
    free(cq);
    return -ENOMEM;
}

int rnic_cq_destroy(struct rnic_cq *cq)
{
    if (atomic_load(&cq->users) > 0) {
        return -EBUSY;
    }
    rnic_enter(cq->rnic);
    list_remove(&cq->moderated_link);
    cq->rnic->cq_count--;
    rnic_leave(cq->rnic, 0);
    cq_destroy(cq->cq);
    pthread_mutex_destroy(&cq->poll_lock);
    free(cq);
    return 0;
}

int rnic_cq_resize(struct rnic_cq *cq, uint32_t cqe_count)
{
    if (cqe_count == 0 || cqe_count > rnic_limits.max_cqe) {
        return -EINVAL;
    }
    pthread_mutex_lock(&cq->poll_lock);
    rnic_enter(cq->rnic);
    if (rnic_is_alive(cq->rnic)) {
        shard_catch_up(&cq->rnic->shard); // what the program has posted may be about to complete
    }
    int error = cq_resize(cq->cq, cqe_count);
    TRACE(cq->rnic->trace, TRACE_CQ, "cq %p resized to %u: %s", (void *)cq, cqe_count,
          error == 0 ? "done" : errno_name(-error));
    rnic_leave(cq->rnic, 0);
    pthread_mutex_unlock(&cq->poll_lock);
    return error;
}

uint32_t rnic_cq_capacity(const struct rnic_cq *cq)
{
    return cq_capacity(cq->cq);
}

// Of the thread, not of a queue: who finds something in one of several queues is not in vain at the
// others, and has one processor to give away.
static _Thread_local struct giving_way giving_way;

static bool is_polled(const struct shard *shard)
{
    return atomic_load_explicit(&shard->is_polled, memory_order_relaxed);
}

static void note_polled(struct shard *shard, instant_ns now)
{
    atomic_store_explicit(&shard->polled_at_ns, now, memory_order_relaxed);
}

// Poll lock held. Counts the poll, and tells the background thread when a program spins here.
static void note_empty_poll(struct rnic_cq *cq, instant_ns now)
{
    struct shard *shard = &cq->rnic->shard;
    if (now - cq->empty_since_ns > spinner_window_ns) {
        cq->empty_since_ns = now;
        cq->empty_polls = 0;
    }
    cq->empty_polls++;
    cq->driven_ns = now;
    if (cq->empty_polls >= SPINNER_POLL_COUNT || is_polled(shard)) {
        note_polled(shard, now);
        atomic_store_explicit(&shard->is_polled, true, memory_order_release);
    }
}

// Poll lock held. Something is in the queue. A program that has spun here goes on by that: else the
// thread took its place in the middle of a stream of completions, and posts no longer gathered.
static void note_found_poll(struct rnic_cq *cq)
{
    giving_way_on_found(&giving_way);
    if (is_polled(&cq->rnic->shard)) {
        const instant_ns now = rnic_now(cq->rnic);
        if (now < instant_after(cq->driven_ns, driven_for_ns)) {
            note_polled(&cq->rnic->shard, now);
        }
    }
}

// Poll lock held. A loop that drives sleeps when there is nothing: who polls beside it is no
// spinner, and keeps nobody waiting.
static void note_loops(struct rnic_cq *cq)
{
    struct shard *shard = &cq->rnic->shard;
    unsigned count = atomic_load_explicit(&shard->loop_pass_count, memory_order_relaxed);
    if (count != cq->loop_passes_seen) {
        cq->loop_passes_seen = count;
        giving_way_on_rest(&giving_way);
    }
}

// Poll lock held. Nothing is in the queue: makes progress in the caller's thread. What it moves is
// found, whether or not anything completes by that: a message of 1 MiB takes longer to come than
// patience lasts.
static void drive_for(struct rnic_cq *cq, struct puller *puller)
{
    instant_ns now;
    const enum shard_look look = shard_drive(&cq->rnic->shard, puller, &now);
    if (look == SHARD_TAKEN) {
        now = rnic_now(cq->rnic);
        puller_note_look(&cq->rnic->shard, puller, now);
        gathering_on_look(&cq->rnic->shard.gathering, now);
    }
    note_empty_poll(cq, now);
    note_loops(cq);
    giving_way_on_look(&giving_way, now);
    if (look == SHARD_MOVED) {
        giving_way_on_found(&giving_way);
    }
}

// Lets go of the poll lock. Who has polled in vain for long, whatever queues, may have the
// processor that the peer waits for: two programs that spin on one would take turns of
// milliseconds. If the peer had it the last time, he is back soon: then the background thread is
// not to take his place meanwhile, and look on where the peer has no processor. A stranger keeps
// it, and the thread goes on.
static void poll_end(struct rnic_cq *cq)
{
    const bool gives_way = giving_way_take(&giving_way);
    if (gives_way && giving_way.is_shared) {
        note_polled(&cq->rnic->shard, giving_way.given_ns + GIVING_WAY_TURN_NS);
    }
    pthread_mutex_unlock(&cq->poll_lock);
    if (gives_way) {
        sched_yield();
    }
}

// Octets that a Read waits for are copied in between, while others may poll.
static unsigned pull_and_poll(struct rnic_cq *cq, struct puller *puller, struct cqe *ret,
                              unsigned max)
{
    pthread_mutex_unlock(&cq->poll_lock);
    shard_pull(&cq->rnic->shard, puller);
    pthread_mutex_lock(&cq->poll_lock);
    return cq_poll(cq->cq, ret, max);
}

int rnic_cq_poll(struct rnic_cq *cq, struct cqe *ret, unsigned max)
{
    struct puller puller;
    puller_begin(&puller);
    pthread_mutex_lock(&cq->poll_lock);
    unsigned count = cq_poll(cq->cq, ret, max);
    if (count == 0 && rnic_is_alive(cq->rnic)) {
        drive_for(cq, &puller);
        count =
            puller.qp != NULL ? pull_and_poll(cq, &puller, ret, max) : cq_poll(cq->cq, ret, max);
    }
    if (count > 0) {
        note_found_poll(cq);
    }
    bool has_failed = count == 0 && cq_has_overflowed(cq->cq);
    poll_end(cq);
    return has_failed ? -EIO : (int)count;
}

void rnic_cq_poll_begin(struct rnic_cq *cq)
{
    pthread_mutex_lock(&cq->poll_lock);
}

const struct cqe *rnic_cq_peek(struct rnic_cq *cq)
{
    const struct cqe *cqe = cq_peek(cq->cq, 0);
    if (cqe == NULL && rnic_is_alive(cq->rnic)) {
        drive_for(cq, NULL); // the poll lock is the program's until the end of its polling
        cqe = cq_peek(cq->cq, 0);
    }
    if (cqe != NULL) {
        note_found_poll(cq);
    }
    return cqe;
}

void rnic_cq_pop(struct rnic_cq *cq)
{
    cq_pop(cq->cq, 1);
}

void rnic_cq_poll_end(struct rnic_cq *cq)
{
    poll_end(cq);
}

bool rnic_cq_has_overrun(const struct rnic_cq *cq)
{
    return cq_has_overflowed(cq->cq);
}

void rnic_cq_arm(struct rnic_cq *cq, bool solicited_only)
{
    // Who arms is about to sleep: the background thread takes the shard back, if there is one.
    if (rnic_is_alive(cq->rnic)) {
        shard_end_polling(&cq->rnic->shard);
    }
    TRACE(cq->rnic->trace, TRACE_CQ, "cq %p armed%s", (void *)cq,
          solicited_only ? " for solicited ones" : "");
    shard_send_waiting(&cq->rnic->shard);
    cq_arm(cq->cq, solicited_only);
}

void rnic_cq_moderate(struct rnic_cq *cq, uint16_t count, uint16_t period_us)
{
    pthread_mutex_lock(&cq->poll_lock);
    rnic_enter(cq->rnic);
    cq_moderate(cq->cq, count, period_us * NS_PER_US);
    list_remove(&cq->moderated_link);
    if (count > 1 && period_us > 0) {
        list_push_tail(&cq->rnic->shard.moderated, &cq->moderated_link);
    }
    rnic_leave(cq->rnic, 0);
    pthread_mutex_unlock(&cq->poll_lock);
}
