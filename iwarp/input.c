// A ULPDU's way: checked, placed, accepted, and, when it ends a message, delivered.
#include "base/port_ulpdu.h"
#include "base/probe.h"
#include "base/time.h"
#include "base/trace.h"
#include "iwarp/internal.h"
#include "rdmap/refusal.h"
#include "rdmap/terminate.h"
#include "wire/ddp.h"
#include "wire/oneshot.h"
#include "wire/rdmap.h"
#include "wq/read_patience.h"

typedef enum rdmap_refusal (*arrival_fn)(struct qp *qp, const struct rdmap_arrival *arrival);

static enum rdmap_refusal place_write(struct qp *qp, const struct rdmap_arrival *a)
{
    return rdmap_place_write(&qp->rdmap, a);
}

static enum rdmap_refusal deliver_extension(struct qp *qp, const struct rdmap_arrival *a)
{
    struct extension_message message;
    if (!rdmap_extension_of(a, &message) || (message.encoding & ~qp->stream.oneshot_offered) != 0) {
        return RDMAP_REFUSED_EXTENSION_MALFORMED;
    }
    if (qp->rdmap.extensions_agreed) {
        return notice_deliver(qp, &message);
    }
    if (message.kind != EXTENSION_CHOICES) {
        return RDMAP_REFUSED_EXTENSION_UNASKED;
    }
    qp->rdmap.extensions_agreed = true;
    oneshot_agree(qp, message.encoding);
    requester_tell_facts(qp);
    notice_share(qp, message.allotment_len);
    if (qp->config.port.on_extension != NULL) {
        qp->config.port.on_extension(qp->config.port.ctx, &message);
    }
    return RDMAP_ACCEPTED;
}

static const struct {
    arrival_fn place;   // every segment, before the stream moves on
    arrival_fn deliver; // the last segment, after it
    bool takes_receive;
} facts_of_opcode[RDMAP_OPCODE_COUNT] = {
    [RDMAP_WRITE] = {.place = place_write},
    [RDMAP_READ_REQUEST] = {.place = responder_post, .deliver = responder_deliver},
    [RDMAP_READ_RESPONSE] = {.place = response_place_read, .deliver = response_deliver_read},
    [RDMAP_SEND] = {receive_place, receive_deliver, true},
    [RDMAP_SEND_INV] = {receive_place, receive_deliver, true},
    [RDMAP_SEND_SE] = {receive_place, receive_deliver, true},
    [RDMAP_SEND_SE_INV] = {receive_place, receive_deliver, true},
    [RDMAP_TERMINATE] = {.place = qp_place_terminate, .deliver = qp_deliver_terminate},
    [RDMAP_IMMEDIATE] = {receive_place, receive_deliver, true},
    [RDMAP_IMMEDIATE_SE] = {receive_place, receive_deliver, true},
    [RDMAP_ATOMIC_REQUEST] = {.place = responder_post, .deliver = responder_deliver},
    [RDMAP_ATOMIC_RESPONSE] = {.deliver = response_deliver_atomic},
    [RDMAP_EXTENSION] = {.deliver = deliver_extension},
};

// A peer-to-peer initiator says with an empty Send that it is ready (RFC 6581 section 9.2): that
// one belongs to the start-up and takes no receive.
static bool is_ready_indication(const struct qp *qp, const struct rdmap_arrival *a)
{
    return !qp->stream.is_initiator && (qp->stream.rtr & QP_RTR_SEND) != 0 &&
           a->opcode == RDMAP_SEND && a->is_last && a->payload.len == 0;
}

// The first ULPDU lets a responder send, and tells whether the initiator took our extensions.
static void on_first_arrival(struct qp *qp, const struct rdmap_arrival *a)
{
    qp->is_first_arrival_due = false;
    qp->may_send = true;
    qp->silence_deadline = INSTANT_NEVER;
    if (qp->state == QP_RTR) {
        qp_raise(qp, QP_EVENT_COMM_EST);
    }
    bool is_offer_open = !qp->stream.is_initiator && qp->stream.peer_is_weft;
    if (!is_offer_open || a->opcode == RDMAP_EXTENSION) {
        return;
    }
    qp->rdmap.extensions_may_come = false;
    oneshot_agree(qp, 0);
    requester_tell_facts(qp);
    atomic_store_explicit(&qp->peer_is_foreign, true, memory_order_relaxed);
    if (qp->config.port.on_extension != NULL) {
        qp->config.port.on_extension(qp->config.port.ctx, NULL);
    }
}

static void trace_segment(const struct qp *qp, const struct rdmap_arrival *a)
{
    char text[160];
    TRACE(qp->config.wq.trace, TRACE_DDP, "qp %u in %s, %zu octets", qp->config.wq.qp_num,
          ddp_header_format(&a->segment.header, text, sizeof text), a->payload.len);
}

static void note_progress(struct qp *qp, const struct rdmap_arrival *a)
{
    struct read_patience *patience = &qp->wq.reads.patience;
    if (a->opcode == RDMAP_READ_RESPONSE) {
        read_patience_on_progress(patience, a->payload.len, qp->wq.now);
    } else {
        read_patience_on_other(patience, a->payload.len, a->is_last, qp->wq.now);
    }
}

void qp_count_arrival(struct qp *qp, const struct rdmap_arrival *a)
{
    struct qp_message_counter *counter = &qp->counters.in[a->opcode];
    counter->messages += a->is_last;
    counter->octets += a->payload.len;
    note_progress(qp, a);
    trace_segment(qp, a);
    if (a->is_last) {
        PROBE3(message_received, qp->config.wq.qp_num, a->opcode, a->msn);
        TRACE(qp->config.wq.trace, TRACE_RDMAP, "qp %u in %s msn %u%s%s", qp->config.wq.qp_num,
              rdmap_opcode_facts((uint8_t)a->opcode)->name, a->msn,
              a->mark != ONESHOT_NONE ? " " : "", oneshot_mark_name(a->mark));
    }
}

static enum rdmap_refusal take(struct qp *qp, struct rdmap_arrival *a)
{
    bool takes_receive = facts_of_opcode[a->opcode].takes_receive;
    bool is_waiting = takes_receive && receive_is_waiting(qp);
    arrival_fn place = facts_of_opcode[a->opcode].place;
    arrival_fn deliver = facts_of_opcode[a->opcode].deliver;
    if (takes_receive) {
        oneshot_note(qp, a);
    }
    enum rdmap_refusal refusal = place != NULL ? place(qp, a) : RDMAP_ACCEPTED;
    if (refusal != RDMAP_ACCEPTED) {
        return refusal;
    }
    rdmap_rx_accept(&qp->rdmap, a);
    qp_count_arrival(qp, a);
    if (a->is_last && deliver != NULL) {
        refusal = deliver(qp, a);
    }
    if (is_waiting && refusal == RDMAP_ACCEPTED) {
        receive_store(qp, a);
    }
    return refusal;
}

static enum rdmap_refusal take_ready_indication(struct qp *qp, struct rdmap_arrival *a)
{
    rdmap_rx_accept(&qp->rdmap, a);
    qp_count_arrival(qp, a);
    return RDMAP_ACCEPTED;
}

enum ulpdu_answer qp_on_ulpdu(struct qp *qp, struct span ulpdu, instant_ns now)
{
    qp->wq.now = now;
    if (!qp_takes_input(qp)) {
        return ULPDU_STOP;
    }
    struct rdmap_arrival a;
    enum rdmap_refusal refusal = rdmap_rx_check(&qp->rdmap, ulpdu, &a);
    if (refusal == RDMAP_ACCEPTED) {
        bool is_first = qp->is_first_arrival_due;
        if (is_first) {
            on_first_arrival(qp, &a);
        }
        if (is_first && is_ready_indication(qp, &a)) {
            refusal = take_ready_indication(qp, &a);
        } else if (facts_of_opcode[a.opcode].takes_receive && !receive_has_room(qp, &a)) {
            return ULPDU_STALL;
        } else {
            refusal = take(qp, &a);
        }
    }
    if (refusal != RDMAP_ACCEPTED) {
        struct rdmap_offender offender = rdmap_offender_of(ulpdu);
        qp_refuse(qp, refusal, &offender);
    }
    qp_settle(qp);
    return qp_takes_input(qp) ? ULPDU_TAKEN : ULPDU_STOP;
}
