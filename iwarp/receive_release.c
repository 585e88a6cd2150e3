// Sends and Immediate Data that stood beyond a hole which has closed: that many completions appear.
#include "ddp/coverage.h"
#include "iwarp/internal.h"
#include "wire/ddp.h"

static uint32_t next_msn(const struct qp *qp, const struct release *release)
{
    return receive_due_msn(qp) + release->done.n[RDMAP_HELD_SENDS];
}

// Octets of the next message that were delivered before this hole closed.
static uint32_t delivered_mo(const struct qp *qp, const struct release *release)
{
    return release->done.n[RDMAP_HELD_SENDS] == 0 ? (uint32_t)qp->rdmap.rx[DDP_QN_SEND].mo : 0;
}

static struct recv_wqe *peek(const struct qp *qp, uint32_t msn)
{
    return qp->receive != NULL ? qp->receive : *receive_early_at(qp, msn);
}

uint64_t receive_next_end(const struct qp *qp, const struct release *release)
{
    const struct recv_wqe *wqe = peek(qp, next_msn(qp, release));
    bool has_end = wqe != NULL && recv_early_of(wqe)->is_touched && recv_early_of(wqe)->has_last;
    return has_end ? recv_early_of(wqe)->end : RELEASE_NEVER;
}

// Its last segment as it came, but for the payload, which is in its place.
static struct rdmap_arrival recall(struct qp *qp, const struct recv_early *early, uint32_t msn)
{
    struct rdmap_arrival a = {
        .opcode = early->opcode,
        .mark = early->mark,
        .is_last = true,
        .is_solicited = early->is_solicited,
        .invalidates = early->invalidates,
        .has_immediate = early->has_immediate,
        .send_stag = early->send_stag,
        .immediate = early->immediate,
        .msn = msn,
        .mo = early->length,
        .written_len = early->written_len,
    };
    oneshot_recall_early(qp, early, &a);
    return a;
}

enum rdmap_refusal receive_release(struct qp *qp, struct release *release)
{
    uint32_t msn = next_msn(qp, release), from = delivered_mo(qp, release);
    uint64_t key = early_key(EARLY_SEND, msn);
    if (qp->receive == NULL) {
        qp->receive = receive_take_early(qp, msn);
    }
    const struct recv_early *early = recv_early_of(qp->receive);
    if (!early->is_whole && !ddp_coverage_holds(&qp->early->coverage, key, from, early->length)) {
        return RDMAP_REFUSED_PLACED_APART;
    }
    ddp_coverage_trim(&qp->early->coverage, key, early->length);
    release->done.n[RDMAP_HELD_SENDS]++;
    release->done.n[RDMAP_HELD_SEND_OCTETS] += early->length - from;
    qp->counters.released_sends++;
    struct rdmap_arrival a = recall(qp, early, msn);
    qp->early->delivering_end = early->end;
    return receive_deliver(qp, &a);
}

bool receive_release_rest(struct qp *qp, struct release *release, uint32_t *ret_mo)
{
    uint32_t *done = release->done.n;
    uint32_t msn = next_msn(qp, release), from = delivered_mo(qp, release);
    uint32_t rest = release->held.n[RDMAP_HELD_SEND_OCTETS] - done[RDMAP_HELD_SEND_OCTETS];
    *ret_mo = from + rest;
    if (rest == 0) {
        return true;
    }
    uint64_t key = early_key(EARLY_SEND, msn);
    if (*ret_mo < from || !ddp_coverage_holds(&qp->early->coverage, key, from, *ret_mo)) {
        return false;
    }
    ddp_coverage_trim(&qp->early->coverage, key, *ret_mo);
    done[RDMAP_HELD_SEND_OCTETS] += rest;
    if (qp->receive == NULL) {
        receive_claim(qp, msn); // it goes on in order
    }
    return true;
}
