// One-shot RDMA on the wire: the marks of Sends that advertise and close, and the reference in the
// messages that carry it. The commands themselves stand in the work queues (wq/oneshot.h).
#include "wire/oneshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/trace.h"
#include "iwarp/internal.h"
#include "mem/table.h"
#include "mem/verdict.h"
#include "rdmap/refusal.h"
#include "wq/oneshot.h"
#include "wq/wqe.h"

enum { AGREED_IS_KNOWN = 1 << 8 };

/* ---- agreeing -------------------------------------------------------------------------------- */

void oneshot_agree(struct qp *qp, uint8_t agreed)
{
    qp->rdmap.oneshot = agreed;
    atomic_store_explicit(&qp->oneshot_agreed, AGREED_IS_KNOWN | agreed, memory_order_relaxed);
}

void oneshot_disagree(struct qp *qp)
{
    atomic_store_explicit(&qp->oneshot_agreed, 0, memory_order_relaxed);
}

int qp_oneshot_agreed(const struct qp *qp)
{
    int agreed = atomic_load_explicit(&qp->oneshot_agreed, memory_order_relaxed);
    return agreed != 0 ? agreed & ~AGREED_IS_KNOWN : -ENOTCONN;
}

/* ---- messages of ours ------------------------------------------------------------------------ */

void oneshot_start(struct qp *qp, struct send_wqe *wqe, struct rdmap_send *send)
{
    if (wqe->flags & WQE_ADVERTISE) {
        send->stag_or_immediate = oneshot_open(&qp->wq, wqe)->stag;
        if (qp->rdmap.oneshot & EXTENSION_ONESHOT_ADVERTISE) {
            send->mark = ONESHOT_ADVERTISE;
        }
    } else if (wqe->flags & WQE_CLOSE) {
        bool is_agreed = (qp->rdmap.oneshot & EXTENSION_ONESHOT_CLOSE) != 0;
        send->mark = is_agreed ? ONESHOT_CLOSE : ONESHOT_NONE;
        send->invalidates = !is_agreed;
        qp->counters.oneshot_answered++;
    }
}

/* ---- messages of the peer -------------------------------------------------------------------- */

// Where messages have the reference, if this one has to do with one-shot RDMA.
static const struct oneshot_config *config_for(struct qp *qp, const struct rdmap_arrival *a)
{
    bool is_concerned = a->mark != ONESHOT_NONE || a->invalidates;
    return is_concerned ? wq_oneshot_config(&qp->wq) : NULL;
}

static const struct oneshot_field *field_of(const struct oneshot_config *config,
                                            const struct rdmap_arrival *a)
{
    return a->mark == ONESHOT_ADVERTISE ? &config->request : &config->answer;
}

static void capture(const struct oneshot_field *field, const struct rdmap_arrival *a,
                    uint8_t *captured)
{
    for (unsigned i = 0; i < field->len; i++) {
        uint64_t at = (uint64_t)field->offset + i;
        if (at >= a->mo && at < a->mo + a->payload.len) {
            captured[i] = a->payload.ptr[at - a->mo];
        }
    }
}

// All of the message is here, `length` octets.
static void conclude(struct qp *qp, const struct oneshot_field *field, const uint8_t *captured,
                     uint64_t length, struct rdmap_arrival *a)
{
    if (length >= (uint64_t)field->offset + field->len) {
        a->has_reference = true;
        a->reference = oneshot_field_number(field, captured);
    }
    if (a->invalidates && mem_is_oneshot(qp->config.wq.mem, a->send_stag)) {
        a->mark = ONESHOT_CLOSE;
    }
}

// In order messages are not interleaved, so that one place is enough for what is kept of a message
// until its end; but what of it came beyond a hole has its own.
void oneshot_note(struct qp *qp, struct rdmap_arrival *a)
{
    const struct oneshot_config *config = config_for(qp, a);
    if (config == NULL) {
        return;
    }
    const struct oneshot_field *field = field_of(config, a);
    uint8_t *captured = qp->oneshot_captured;
    capture(field, a, captured);
    if (qp->receive != NULL && recv_early_of(qp->receive)->is_touched) {
        captured = recv_early_of(qp->receive)->captured;
        capture(field, a, captured);
    }
    if (a->is_last) {
        conclude(qp, field, captured, a->mo + a->payload.len, a);
    }
}

void oneshot_begin_early(struct qp *qp, struct recv_early *early, bool is_in_progress)
{
    if (wq_oneshot_config(&qp->wq) != NULL && is_in_progress) {
        memcpy(early->captured, qp->oneshot_captured, sizeof early->captured);
    }
}

void oneshot_note_early(struct qp *qp, struct recv_early *early, const struct rdmap_arrival *a)
{
    const struct oneshot_config *config = config_for(qp, a);
    if (config != NULL) {
        capture(field_of(config, a), a, early->captured);
    }
}

void oneshot_recall_early(struct qp *qp, const struct recv_early *early, struct rdmap_arrival *a)
{
    const struct oneshot_config *config = config_for(qp, a);
    if (config != NULL) {
        conclude(qp, field_of(config, a), early->captured, early->length, a);
    }
}

enum rdmap_refusal oneshot_deliver_advertise(struct qp *qp, const struct rdmap_arrival *a)
{
    if (wq_oneshot_config(&qp->wq) != NULL && !a->has_reference) {
        return RDMAP_REFUSED_ONESHOT_SHORT;
    }
    qp->counters.oneshot_received++;
    return RDMAP_ACCEPTED;
}

// What a person must know of a peer that breaks the protocol: both values of both ends.
static enum rdmap_refusal refuse_close(struct qp *qp, const struct rdmap_arrival *a,
                                       enum rdmap_refusal refusal,
                                       const struct oneshot_command *command)
{
    char found[48] = "no reference", expected[64] = "";
    if (a->has_reference) {
        snprintf(found, sizeof found, "reference %llu", (unsigned long long)a->reference);
    }
    if (command != NULL) {
        snprintf(expected, sizeof expected, "; it was advertised with reference %llu",
                 (unsigned long long)command->reference);
    }
    TRACE(qp->config.wq.trace, TRACE_ERROR, "QP %u: the peer closes STag 0x%08x with %s: %s%s",
          qp->config.wq.qp_num, a->send_stag, found, rdmap_refusal_facts(refusal)->text, expected);
    return refusal;
}

enum rdmap_refusal oneshot_deliver_close(struct qp *qp, const struct rdmap_arrival *a)
{
    struct oneshot_command *command;
    enum mem_verdict verdict = oneshot_find(&qp->wq, a->send_stag, &command);
    if (verdict != MEM_OK) {
        return refuse_close(qp, a, rdmap_refusal_of_close(verdict), NULL);
    }
    if (!a->has_reference) {
        return refuse_close(qp, a, RDMAP_REFUSED_ONESHOT_SHORT, command);
    }
    if (a->reference != command->reference) {
        return refuse_close(qp, a, RDMAP_REFUSED_CLOSE_REFERENCE, command);
    }
    oneshot_close_by_peer(&qp->wq, command);
    return RDMAP_ACCEPTED;
}
