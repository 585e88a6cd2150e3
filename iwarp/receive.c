// Sends and Immediate Data meet receives. What comes before its receive is posted waits in a
// bounded store, so that what is behind it in the stream (responses, credits, the end) need not
// wait.
#include "base/time.h"
#include "base/trace.h"
#include "cq/cqe.h"
#include "iwarp/internal.h"
#include "rdmap/refusal.h"
#include "rdmap/terminate.h"
#include "wire/oneshot.h"
#include "wq/status.h"

static bool takes_back(const struct rdmap_arrival *a)
{
    return a->mark == ONESHOT_CLOSE || a->invalidates;
}

static void note_waiting(struct qp *qp)
{
    if (qp->rnr_deadline == INSTANT_NEVER && qp->config.rnr_timeout_ns > 0) {
        qp->rnr_deadline = instant_after(qp->wq.now, qp->config.rnr_timeout_ns);
    }
}

void receive_claim(struct qp *qp, uint32_t msn)
{
    qp->receive = receive_take_early(qp, msn);
    if (qp->receive == NULL) {
        qp->receive = wq_receive_claim(&qp->wq);
        if (qp->receive == NULL) {
            return;
        }
        recv_early_of(qp->receive)->is_touched = false;
    }
    scatter_init(&qp->receive_scatter, qp->receive->sge, qp->receive->sge_count);
}

// A receive for the message of this arrival, if it has none yet. False: none is posted.
static bool claim(struct qp *qp, const struct rdmap_arrival *a)
{
    if (qp->receive == NULL && a->is_first) {
        receive_claim(qp, a->msn);
    }
    return qp->receive != NULL;
}

// It takes an STag back that requests before it may name, and those wait for Sends.
static bool is_behind_held(const struct qp *qp, const struct rdmap_arrival *a)
{
    return qp->peer_request_held_count > 0 && a->is_last && takes_back(a);
}

bool receive_has_room(struct qp *qp, const struct rdmap_arrival *a)
{
    if (rnr_store_is_empty(&qp->store) && claim(qp, a)) {
        return true;
    }
    if (rnr_store_has_room(&qp->store, a->payload.len) && !is_behind_held(qp, a)) {
        return true;
    }
    if (!qp->is_stalled) {
        qp->is_stalled = true;
        qp->counters.rnr_stalls++;
        TRACE(qp->config.wq.trace, TRACE_QP, "qp %u stalls: no receive, and the store %s",
              qp->config.wq.qp_num, is_behind_held(qp, a) ? "holds requests back" : "is full");
    }
    note_waiting(qp);
    return false;
}

bool receive_must_wait(struct qp *qp)
{
    if (rnr_store_is_empty(&qp->store)) {
        return false;
    }
    qp->is_stalled = true;
    note_waiting(qp);
    return true;
}

bool receive_is_waiting(const struct qp *qp)
{
    return qp->receive == NULL || !rnr_store_is_empty(&qp->store);
}

void receive_store(struct qp *qp, const struct rdmap_arrival *a)
{
    rnr_store_push(&qp->store, a);
    note_waiting(qp);
    if (a->is_first) {
        qp->counters.rnr_stored++;
        TRACE(qp->config.wq.trace, TRACE_QP, "qp %u msn %u has no receive yet: stored",
              qp->config.wq.qp_num, a->msn);
    }
}

// Into the claimed receive; if that is not possible, it completes with the reason.
static enum rdmap_refusal place(struct qp *qp, const struct rdmap_arrival *a)
{
    if (receive_is_immediate(a)) {
        return RDMAP_ACCEPTED; // it has no place in memory
    }
    enum rdmap_refusal refusal = receive_scatter(qp, &qp->receive_scatter, a);
    if (refusal != RDMAP_ACCEPTED) {
        bool is_local = refusal == RDMAP_REFUSED_RECEIVE_LOCAL;
        qp->counters.wq.recv_errors++;
        wq_complete_receive_without(&qp->wq, qp->receive,
                                    is_local ? WC_LOC_PROT_ERR : WC_LOC_LEN_ERR);
        qp->receive = NULL;
    }
    return refusal;
}

enum rdmap_refusal receive_place(struct qp *qp, const struct rdmap_arrival *a)
{
    if (receive_is_waiting(qp)) {
        return RDMAP_ACCEPTED;
    }
    return receive_is_free_of_early(qp, a) ? place(qp, a) : RDMAP_REFUSED_PLACED_APART;
}

static void complete_message(struct qp *qp, const struct rdmap_arrival *a)
{
    struct recv_message *m = &qp->receive->message;
    *m = (struct recv_message){
        .opcode = receive_is_immediate(a) ? WC_RECV_RDMA_WITH_IMM : WC_RECV,
        .byte_len = (uint32_t)(receive_is_immediate(a) ? a->written_len : a->mo + a->payload.len),
    };
    if (a->has_immediate) {
        m->wc_flags = WC_WITH_IMM;
        m->imm_or_inv = a->immediate;
    } else if (a->mark == ONESHOT_ADVERTISE) {
        m->wc_flags = WC_ADVERTISED;
        m->imm_or_inv = a->send_stag;
    } else if (a->mark == ONESHOT_CLOSE || a->invalidates) {
        m->wc_flags = WC_WITH_INV | (a->mark == ONESHOT_CLOSE ? WC_CLOSED : 0);
        m->imm_or_inv = a->send_stag;
    }
    if (a->has_reference) {
        m->wc_flags |= WC_REFERENCE;
        m->reference = a->reference;
    }
    qp->counters.wq.recv_completions++;
    wq_complete_receive(&qp->wq, qp->receive, WC_SUCCESS, a->is_solicited);
    qp->receive = NULL;
}

// The STag is taken back. What was written through it by what stands behind in the stream, an
// in-order receiver would refuse when it comes to that.
static bool is_written_behind(const struct qp *qp, const struct rdmap_arrival *a)
{
    return qp->early != NULL &&
           rdmap_is_written_behind(&qp->rdmap, a->send_stag, qp->early->delivering_end);
}

static enum rdmap_refusal invalidate(struct qp *qp, const struct rdmap_arrival *a)
{
    enum rdmap_refusal refusal = rdmap_invalidate(&qp->rdmap, a->send_stag);
    qp->counters.invalidations += refusal == RDMAP_ACCEPTED;
    return refusal;
}

// What a message does to memory.
static enum rdmap_refusal act(struct qp *qp, const struct rdmap_arrival *a)
{
    if (takes_back(a) && is_written_behind(qp, a)) {
        return RDMAP_REFUSED_WRITTEN_BEHIND;
    }
    switch (a->mark) {
    case ONESHOT_ADVERTISE:
        return oneshot_deliver_advertise(qp, a);
    case ONESHOT_CLOSE:
        return oneshot_deliver_close(qp, a);
    default:
        return a->invalidates ? invalidate(qp, a) : RDMAP_ACCEPTED;
    }
}

// The last segment has arrived in order. What the message does to memory happens now, whether its
// receive is there or not: what follows in the stream must find the STag invalidated.
enum rdmap_refusal receive_deliver(struct qp *qp, const struct rdmap_arrival *a)
{
    enum rdmap_refusal refusal = act(qp, a);
    if (refusal == RDMAP_ACCEPTED && !receive_is_waiting(qp)) {
        complete_message(qp, a);
    }
    return refusal;
}

// One stored segment finds its receive. False: none is posted, or the stream ended over it.
static bool drain_one(struct qp *qp)
{
    struct rdmap_arrival a;
    rnr_store_peek(&qp->store, &a);
    if (!qp_takes_input(qp) || !claim(qp, &a)) {
        return false;
    }
    if (recv_early_of(qp->receive)->is_touched) {
        oneshot_note_early(qp, recv_early_of(qp->receive), &a); // its other part is there already
    }
    enum rdmap_refusal refusal = place(qp, &a);
    if (refusal != RDMAP_ACCEPTED) {
        struct rdmap_offender offender = rdmap_offender_of_segment(&a.segment);
        qp_refuse(qp, refusal, &offender);
    } else if (a.is_last) {
        complete_message(qp, &a);
    }
    rnr_store_pop(&qp->store);
    return true;
}

void receive_drain(struct qp *qp)
{
    bool has_moved = false;
    while (!rnr_store_is_empty(&qp->store) && drain_one(qp)) {
        has_moved = true;
        responder_ring_held(qp);
    }
    // What stalled may be larger than the whole store: then an empty one is no room for it.
    bool has_room =
        rnr_store_is_empty(&qp->store) && (!qp->is_stalled || wq_receive_is_posted(&qp->wq));
    if (has_room || has_moved) {
        qp->is_stalled = false;
        qp->rnr_deadline = INSTANT_NEVER;
    }
    if (!rnr_store_is_empty(&qp->store)) {
        note_waiting(qp);
    }
}

void receive_give_up(struct qp *qp)
{
    struct rdmap_offender offender = {0};
    if (!rnr_store_is_empty(&qp->store)) {
        struct rdmap_arrival a;
        rnr_store_peek(&qp->store, &a);
        offender = rdmap_offender_of_segment(&a.segment);
    }
    qp->counters.rnr_timeouts++;
    qp_refuse(qp, RDMAP_REFUSED_NO_RECEIVE, &offender);
}

void receive_forget(struct qp *qp)
{
    struct recv_wqe *wqe;
    while ((wqe = receive_pop_early(qp)) != NULL) {
        if (qp->config.wq.srq != NULL) { // an own queue is freed as a whole
            wq_receive_free(&qp->wq, wqe);
        }
    }
    if (qp->receive != NULL) {
        wq_receive_free(&qp->wq, qp->receive);
        qp->receive = NULL;
    }
    rnr_store_clear(&qp->store);
    qp->is_stalled = false;
    qp->rnr_deadline = INSTANT_NEVER;
}
