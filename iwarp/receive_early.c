// Sends and Immediate Data beyond a hole: each goes to the receive that its message number names,
// and leaves there what its completion will need. When the hole closes, that many completions
// appear.
#include "base/port_place.h"
#include "ddp/coverage.h"
#include "iwarp/internal.h"
#include "rdmap/refusal.h"
#include "wq/srq.h"

/* ---- which receive --------------------------------------------------------------------------- */

// Messages before the one with this number that have no receive yet.
static uint32_t unclaimed_before(const struct qp *qp, uint32_t msn)
{
    uint32_t count = 0;
    for (uint32_t m = receive_due_msn(qp) + (qp->receive != NULL ? 1 : 0); m != msn; m++) {
        count += *receive_early_at(qp, m) == NULL;
    }
    return count;
}

// A receive that no message has claimed, for the one with this number: with a queue of its own the
// number says which. An SRQ gives its oldest, but leaves one for each message before: if all were
// held by messages that wait for an earlier one, nothing would complete, and who posts receives as
// they complete would post none. NULL: not posted.
static struct recv_wqe *claim(struct qp *qp, uint32_t msn)
{
    struct srq *srq = qp->config.wq.srq;
    if (srq != NULL) {
        bool is_left = srq_posted_count(srq) > unclaimed_before(qp, msn);
        return is_left ? wq_receive_claim_shared(&qp->wq) : NULL;
    }
    uint32_t ahead = msn - receive_due_msn(qp) - (qp->receive != NULL ? 1 : 0);
    return wq_receive_peek(&qp->wq, ahead);
}

// The receive of the message with this number, `ahead` places behind the one that is due.
static struct recv_wqe *find(struct qp *qp, uint32_t msn)
{
    if (msn == receive_due_msn(qp) && qp->receive != NULL) {
        return qp->receive;
    }
    struct recv_wqe **place = receive_early_at(qp, msn);
    if (*place == NULL) {
        *place = claim(qp, msn);
        if (*place != NULL) {
            recv_early_of(*place)->is_touched = false;
            qp->early->receive_count++;
        }
    }
    return *place;
}

// One queue pair must not keep the receives of all others waiting (RFC 5042 section 6.4.3.1).
static bool may_claim(const struct qp *qp, uint32_t msn)
{
    return msn - receive_due_msn(qp) < EARLY_SEND_MAX &&
           (qp->config.wq.srq == NULL || qp->early->receive_count < EARLY_SHARED_MAX ||
            *receive_early_at(qp, msn) != NULL);
}

struct recv_wqe *receive_take_early(struct qp *qp, uint32_t msn)
{
    struct recv_wqe *wqe = NULL;
    if (qp->early != NULL) {
        struct recv_wqe **place = receive_early_at(qp, msn);
        wqe = *place;
        *place = NULL;
        qp->early->receive_count -= wqe != NULL;
        if (wqe != NULL && qp->config.wq.srq == NULL) {
            wqe = wq_receive_claim(&qp->wq); // messages are claimed in order: it is this one
        }
    }
    return wqe;
}

struct recv_wqe *receive_pop_early(struct qp *qp)
{
    for (unsigned i = 0; qp->early != NULL && i < EARLY_SEND_MAX; i++) {
        struct recv_wqe *wqe = qp->early->receives[i];
        if (wqe != NULL) {
            qp->early->receives[i] = NULL;
            qp->early->receive_count--;
            return wqe;
        }
    }
    return NULL;
}

/* ---- placing --------------------------------------------------------------------------------- */

// May this segment be placed, with regard to those of its message that came beyond a hole?
static bool is_free(const struct qp *qp, const struct recv_early *early,
                    const struct rdmap_arrival *a)
{
    uint64_t key = early_key(EARLY_SEND, a->msn), end = (uint64_t)a->mo + a->payload.len;
    if (end > UINT32_MAX) {
        return false;
    }
    if (early->is_touched && early->has_last &&
        (a->is_last || early->is_whole || end > early->length)) {
        return false;
    }
    return early_is_free(qp, key, a->mo, (uint32_t)end, a->is_last);
}

bool receive_is_free_of_early(const struct qp *qp, const struct rdmap_arrival *a)
{
    const struct recv_early *early = recv_early_of(qp->receive);
    return !early->is_touched || is_free(qp, early, a);
}

enum rdmap_refusal receive_scatter(struct qp *qp, struct scatter *scatter,
                                   const struct rdmap_arrival *a)
{
    static const enum rdmap_refusal refusal_of[] = {
        [SCATTER_OK] = RDMAP_ACCEPTED,
        [SCATTER_TOO_LONG] = RDMAP_REFUSED_DDP_TOO_LONG,
        [SCATTER_LOCAL] = RDMAP_REFUSED_RECEIVE_LOCAL,
    };
    return refusal_of[wq_receive_place(&qp->wq, scatter, a->mo, a->payload)];
}

static enum rdmap_refusal place(struct qp *qp, struct recv_wqe *wqe, const struct rdmap_arrival *a)
{
    if (receive_is_immediate(a)) {
        return RDMAP_ACCEPTED;
    }
    struct scatter scatter;
    scatter_init(&scatter, wqe->sge, wqe->sge_count);
    return receive_scatter(qp, &scatter, a);
}

// What is kept of a segment in its receive; of the last one all that the completion needs.
static void note(struct qp *qp, struct recv_wqe *wqe, const struct rdmap_arrival *a, uint64_t end)
{
    struct recv_early *early = recv_early_of(wqe);
    if (!early->is_touched) {
        *early = (struct recv_early){.is_touched = true};
        oneshot_begin_early(qp, early, a->msn == receive_due_msn(qp));
    }
    oneshot_note_early(qp, early, a);
    if (!a->is_last) {
        return;
    }
    early->has_last = true;
    early->is_whole = a->is_first;
    early->end = end;
    early->length = a->mo + (uint32_t)a->payload.len;
    early->written_len = (uint32_t)a->written_len;
    early->send_stag = a->send_stag;
    early->immediate = a->immediate;
    early->opcode = (uint8_t)a->opcode;
    early->mark = (uint8_t)a->mark;
    early->is_solicited = a->is_solicited;
    early->invalidates = a->invalidates;
    early->has_immediate = a->has_immediate;
}

static enum place_verdict place_in(struct qp *qp, struct recv_wqe *wqe,
                                   const struct rdmap_arrival *a, uint64_t end)
{
    uint32_t mo_end = a->mo + (uint32_t)a->payload.len;
    bool is_whole = a->is_first && a->is_last;
    bool has_room = is_whole || qp->early->coverage.count < DDP_COVERAGE_MAX;
    if (!has_room || !is_free(qp, recv_early_of(wqe), a) || place(qp, wqe, a) != RDMAP_ACCEPTED) {
        return PLACE_BUFFER;
    }
    if (!is_whole) {
        bool is_noted =
            ddp_coverage_add(&qp->early->coverage, early_key(EARLY_SEND, a->msn), a->mo, mo_end);
        CHECK(is_noted);
    }
    note(qp, wqe, a, end);
    qp->counters.early_sends++;
    return PLACE_PLACED;
}

enum place_verdict receive_place_early(struct qp *qp, const struct rdmap_arrival *a, uint64_t end)
{
    if (!may_claim(qp, a->msn)) {
        return PLACE_BUFFER;
    }
    struct recv_wqe *wqe = rnr_store_is_empty(&qp->store) ? find(qp, a->msn) : NULL;
    if (wqe == NULL) {
        qp->counters.early_no_receive++;
        return PLACE_DROP;
    }
    return place_in(qp, wqe, a, end);
}
