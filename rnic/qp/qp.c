// Queue pairs and shared receive queues of the fronts: creation, states, doorbells.

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "rnic/carrier.h"
#include "rnic/ep/ep.h"
#include "rnic/internal.h"
#include "rnic/journal.h"
#include "rnic/packet/cm.h"
#include "rnic/point.h"
#include "rnic/pull.h"
#include "rnic/qp/meeting.h"
#include "wire/extension.h"
#include "wq/latency.h"

/* ---- creation -------------------------------------------------------------------------------- */

// A number that nobody has; numbers come back as late as possible.
static uint32_t qp_num_any(struct rnic *rnic)
{
    for (;;) {
        uint32_t num = qp_number_next(&rnic->numbers);
        // 0 and 1 are special in InfiniBand; programs know that.
        if (num > 1 && rnic->qps[num % rnic->qp_slot_count] == NULL &&
            !packet_cm_has_qp_num(&rnic->shard.packets.cm, num)) {
            return num;
        }
    }
}

static bool qp_num_take(struct rnic *rnic, struct rnic_qp *qp, bool is_addressable)
{
    CHECK(shard_is_held(&rnic->shard));
    if (rnic->qp_count == rnic->qp_slot_count) {
        return false;
    }
    qp->point = is_addressable ? point_take(rnic, &qp->qp_num) : NULL;
    if (qp->point == NULL) {
        qp->qp_num = qp_num_any(rnic);
    }
    rnic->qps[qp->qp_num % rnic->qp_slot_count] = qp;
    list_push_tail(&rnic->all_qps, &qp->all_link);
    rnic->qp_count++;
    return true;
}

static void qp_num_free(struct rnic *rnic, struct rnic_qp *qp)
{
    rnic->qps[qp->qp_num % rnic->qp_slot_count] = NULL;
    list_remove(&qp->all_link);
    rnic->qp_count--;
    point_release(qp->point);
}

static int qp_create_locked(struct rnic_qp *qp, const struct rnic_qp_init *init)
{
    struct rnic *rnic = qp->rnic;
    int error = mem_pd_hold(rnic->mem, init->pd);
    if (error != 0) {
        return error;
    }
    if (!qp_num_take(rnic, qp, init->is_addressable)) {
        mem_pd_release(rnic->mem, init->pd);
        return -ENOMEM;
    }
    error = rnic->shard.carrier->create_qp(qp, init);
    if (error == 0 && qp_total_of(rnic, qp->transport->ops) == NULL) {
        qp->transport->ops->destroy(qp->transport);
        error = -ENOMEM;
    }
    if (error != 0) {
        qp_num_free(rnic, qp);
        mem_pd_release(rnic->mem, init->pd);
        return error;
    }
    atomic_fetch_add(&init->send_cq->users, 1);
    atomic_fetch_add(&init->recv_cq->users, 1);
    if (init->srq != NULL) {
        atomic_fetch_add(&init->srq->users, 1);
    }
    return 0;
}

int rnic_qp_create(struct rnic *rnic, const struct rnic_qp_init *init, struct rnic_qp **ret)
{
    if (!rnic_is_alive(rnic)) {
        return -EIO;
    }
    struct rnic_qp *qp = calloc(1, sizeof *qp);
    if (qp == NULL) {
        return -ENOMEM;
    }
    qp->rnic = rnic;
    qp->send_cq = init->send_cq;
    qp->recv_cq = init->recv_cq;
    qp->srq = init->srq;
    qp->async = init->async;
    list_init(&qp->on_packets.due_link);
    list_init(&qp->on_packets.run_link);
    list_init(&qp->pull.link);
    rnic_enter(rnic);
    int error = rnic_leave(rnic, qp_create_locked(qp, init));
    if (error != 0) {
        free(qp);
        return error;
    }
    latency_sampler_init(&qp->sampler, qp->qp_num);
    pthread_mutex_init(&qp->sq_lock, NULL);
    pthread_mutex_init(&qp->rq_lock, NULL);
    *ret = qp;
    return 0;
}

/* ---- destruction ----------------------------------------------------------------------------- */

// Both CQs' pollers are kept out while the QP's completions are removed; always in the same order.
static void pollers_lock(struct rnic_qp *qp)
{
    struct rnic_cq *first = qp->send_cq < qp->recv_cq ? qp->send_cq : qp->recv_cq;
    struct rnic_cq *second = first == qp->send_cq ? qp->recv_cq : qp->send_cq;
    pthread_mutex_lock(&first->poll_lock);
    if (second != first) {
        pthread_mutex_lock(&second->poll_lock);
    }
}

static void pollers_unlock(struct rnic_qp *qp)
{
    pthread_mutex_unlock(&qp->send_cq->poll_lock);
    if (qp->recv_cq != qp->send_cq) {
        pthread_mutex_unlock(&qp->recv_cq->poll_lock);
    }
}

static void bar_pulls(struct rnic_qp *qp)
{
    rnic_enter(qp->rnic);
    shard_bar_pulls(&qp->rnic->shard, qp);
    rnic_leave(qp->rnic, 0);
}

void rnic_qp_destroy(struct rnic_qp *qp)
{
    struct rnic *rnic = qp->rnic;
    uint32_t pd = qp->wq->config->pd;
    bar_pulls(qp); // before other pollers are kept out
    pollers_lock(qp);
    rnic_enter(rnic);
    const struct transport_ops *ops = qp->transport->ops;
    ops->silence(qp->transport);
    shard_serve_doorbells(&rnic->shard, rnic_now(rnic)); // it may wait in the list
    rnic->shard.carrier->forget(qp, rnic_now(rnic));
    cq_purge(qp->send_cq->cq, qp->qp_num);
    cq_purge(qp->recv_cq->cq, qp->qp_num);
    mem_windows_release_qp(rnic->mem, qp->qp_num);
    ops->counters_add(qp_total_of(rnic, ops), ops->counters(qp->transport));
    ops->destroy(qp->transport);
    qp_num_free(rnic, qp);
    mem_pd_release(rnic->mem, pd);
    rnic_leave(rnic, 0);
    pollers_unlock(qp);
    shard_await_leaver(&rnic->shard, atomic_load(&qp->pull.leaver));
    atomic_fetch_sub(&qp->send_cq->users, 1);
    atomic_fetch_sub(&qp->recv_cq->users, 1);
    if (qp->srq != NULL) {
        atomic_fetch_sub(&qp->srq->users, 1);
    }
    pthread_mutex_destroy(&qp->sq_lock);
    pthread_mutex_destroy(&qp->rq_lock);
    free(qp);
}

/* ---- states ---------------------------------------------------------------------------------- */

struct rnic_qp *rnic_qp_find(struct rnic *rnic, uint32_t qp_num)
{
    rnic_enter(rnic);
    struct rnic_qp *qp = rnic_qp_of(rnic, qp_num);
    rnic_leave(rnic, 0);
    return qp;
}

int rnic_qp_change(struct rnic_qp *qp, const struct qp_change *change)
{
    struct rnic *rnic = qp->rnic;
    const bool is_move = (change->mask & QP_CHANGE_STATE) != 0;
    const bool is_reset = is_move && change->state == QP_RESET;
    if (is_reset) {
        bar_pulls(qp);
        pollers_lock(qp);
    }
    rnic_enter(rnic);
    instant_ns now = rnic_now(rnic);
    int error = rnic_is_alive(rnic) ? qp->transport->ops->modify(qp->transport, change, now) : -EIO;
    if (error == 0) {
        rnic->shard.carrier->on_changed(qp);
        journal_packets(qp, change);
    }
    if (error == 0 && is_move) {
        rnic->shard.carrier->on_moved(qp, change->state, now);
        rnic->shard.carrier->serve_doorbell(qp, now);
    }
    qp->pull.is_barred = false;
    rnic_leave(rnic, error);
    if (is_reset) {
        pollers_unlock(qp);
    }
    shard_await_leaver(&rnic->shard, atomic_load(&qp->pull.leaver));
    return error;
}

int rnic_qp_modify(struct rnic_qp *qp, enum qp_state to)
{
    const struct qp_change change = {.mask = QP_CHANGE_STATE, .state = to};
    return rnic_qp_change(qp, &change);
}

int rnic_qp_meet(struct rnic_qp *qp, const struct rnic_meeting *with)
{
    struct rnic *rnic = qp->rnic;
    rnic_enter(rnic);
    int error = rnic_is_alive(rnic) ? qp_meeting_begin(qp, with, rnic_now(rnic)) : -EIO;
    return rnic_leave(rnic, error);
}

enum qp_state rnic_qp_state(struct rnic_qp *qp)
{
    rnic_enter(qp->rnic);
    enum qp_state state = qp->transport->ops->state(qp->transport);
    rnic_leave(qp->rnic, 0);
    return state;
}

void rnic_qp_query(struct rnic_qp *qp, struct rnic_qp_answer *ret)
{
    const struct transport_ops *ops = qp->transport->ops;
    rnic_enter(qp->rnic);
    *ret = (struct rnic_qp_answer){.state = ops->state(qp->transport),
                                   .is_draining = ops->query(qp->transport).is_draining,
                                   .has_told = ops->told != NULL};
    if (ret->has_told) {
        ops->told(qp->transport, &ret->told);
    }
    rnic_leave(qp->rnic, 0);
}

struct wq_caps rnic_qp_caps(const struct rnic_qp *qp)
{
    return qp->wq->config->caps;
}

/* ---- one-shot RDMA --------------------------------------------------------------------------- */

int rnic_oneshot_create(struct rnic_qp *qp, const struct oneshot_config *config)
{
    rnic_enter(qp->rnic);
    bool has_oneshot = qp->transport->ops->oneshot_agreed != NULL;
    int error = has_oneshot ? wq_oneshot_create(qp->wq, config) : -EOPNOTSUPP;
    return rnic_leave(qp->rnic, error);
}

const struct oneshot_config *rnic_oneshot_config(const struct rnic_qp *qp)
{
    return wq_oneshot_config(qp->wq);
}

struct rnic_oneshot_agreed rnic_oneshot_agreed(const struct rnic_qp *qp)
{
    const struct transport_ops *ops = qp->transport->ops;
    const int agreed = ops->oneshot_agreed != NULL ? ops->oneshot_agreed(qp->transport) : -ENOTCONN;
    return (struct rnic_oneshot_agreed){
        .is_known = agreed >= 0,
        .has_advertise = agreed >= 0 && (agreed & EXTENSION_ONESHOT_ADVERTISE) != 0,
        .has_close = agreed >= 0 && (agreed & EXTENSION_ONESHOT_CLOSE) != 0,
    };
}

int rnic_oneshot_probe(const struct rnic_qp *qp, const struct mem_list *list, bool writable,
                       struct mem_known *known)
{
    return mem_oneshot_probe(qp->rnic->mem, list, writable, known);
}

int rnic_oneshot_revoke(struct rnic_qp *qp, uint32_t stag)
{
    rnic_enter(qp->rnic);
    int error = wq_oneshot_revoke(qp->wq, stag);
    return rnic_leave(qp->rnic, error);
}

/* ---- doorbells ------------------------------------------------------------------------------- */

int rnic_qp_may_post(const struct rnic_qp *qp, enum wqe_opcode opcode)
{
    return qp->transport->ops->may_post(qp->transport, opcode);
}

void rnic_qp_ring_sq(struct rnic_qp *qp)
{
    shard_ring(&qp->rnic->shard, qp);
}

void rnic_qp_ring_rq(struct rnic_qp *qp)
{
    if (rnic_is_receive_wanted(&qp->wants_receive)) {
        shard_ring(&qp->rnic->shard, qp);
    }
}
