// The peer's requests: taken at delivery, in order, at most IRD at a time; answered in order. One
// that stands behind a Send which waits for its receive waits with it: the doorbell for it rings
// when the Send has been delivered (RFC 5040 section 5.5, RFC 7306 section 7).
#include <string.h>

#include "base/port_place.h"
#include "base/serial.h"
#include "base/sge.h"
#include "base/span.h"
#include "iwarp/internal.h"
#include "rdmap/refusal.h"
#include "rdmap/terminate.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"
#include "wq/allotment.h"

static uint32_t taken_count(const struct qp *qp)
{
    return qp->peer_request_count + qp->peer_request_held_count;
}

// The slot of a request that is still to be delivered.
static struct peer_request *slot_at(const struct qp *qp, uint32_t ahead)
{
    uint32_t index = qp->peer_request_head + taken_count(qp) + ahead;
    return &qp->peer_requests[index % qp->peer_request_capacity];
}

// Is it here? The doorbell may not have rung yet.
static bool *is_posted(const struct qp *qp, const struct peer_request *r)
{
    return &qp->peer_request_is_posted[r - qp->peer_requests];
}

// How many requests are missing before the one with this number.
static uint32_t ahead_of(const struct qp *qp, const struct rdmap_arrival *a)
{
    return a->msn - qp->rdmap.rx[DDP_QN_READ_REQUEST].msn;
}

static struct peer_request read_from(const struct rdmap_arrival *a)
{
    struct rdmap_read_request request = rdmap_read_request_of(a);
    return (struct peer_request){
        .length = request.rdmardsz,
        .source_key = request.src_stag,
        .source_addr = request.src_to,
        .sink_key = request.sink_stag,
        .sink_addr = request.sink_to,
        .offender = rdmap_offender_of_segment(&a->segment),
    };
}

static struct peer_request atomic_from(const struct rdmap_arrival *a)
{
    return (struct peer_request){
        .is_atomic = true,
        .atomic = rdmap_atomic_request_of(a),
        .offender = rdmap_offender_of_segment(&a->segment),
    };
}

enum rdmap_refusal responder_post(struct qp *qp, const struct rdmap_arrival *a)
{
    uint32_t ahead = ahead_of(qp, a);
    if (taken_count(qp) >= qp->ird || ahead >= qp->ird - taken_count(qp)) {
        return RDMAP_REFUSED_IRD_EXCEEDED;
    }
    struct peer_request *slot = slot_at(qp, ahead);
    if (*is_posted(qp, slot)) {
        return RDMAP_REFUSED_PLACED_APART;
    }
    struct peer_request request = a->opcode == RDMAP_ATOMIC_REQUEST ? atomic_from(a) : read_from(a);
    if (qp->serves_none && (request.is_atomic || request.length > 0)) {
        return RDMAP_REFUSED_IRD_EXCEEDED;
    }
    *slot = request;
    *is_posted(qp, slot) = true;
    return RDMAP_ACCEPTED;
}

// The memory is looked up now, all that is named, so that the error is that of the request, and
// again for each segment of the response: the STag may be invalidated meanwhile. Between weft ends
// a request may name all that remains of a Read; the response is one allotment of it.
static enum rdmap_refusal process_read(struct qp *qp, struct peer_request *r)
{
    if (r->length > 0) {
        struct mspan pieces[SGE_COUNT_MAX];
        unsigned count;
        enum rdmap_refusal refusal = rdmap_request_memory(&qp->rdmap, r->source_key, r->source_addr,
                                                          r->length, pieces, &count);
        if (refusal != RDMAP_ACCEPTED) {
            return refusal;
        }
    }
    uint32_t answer_len = allotment_answer_len(&qp->allotment);
    if (answer_len > 0 && r->length > answer_len) {
        qp->counters.cut_responses++;
        r->length = answer_len;
    }
    return RDMAP_ACCEPTED;
}

// An atomic acts at delivery: what follows it in the stream, an invalidation too, finds it done.
static enum rdmap_refusal process_atomic(struct qp *qp, struct peer_request *r)
{
    r->request_id = r->atomic.request_id;
    return rdmap_atomic_execute(&qp->rdmap, &r->atomic, &r->original);
}

static enum rdmap_refusal process(struct qp *qp, struct peer_request *r)
{
    CHECK(*is_posted(qp, r));
    enum rdmap_refusal refusal = r->is_atomic ? process_atomic(qp, r) : process_read(qp, r);
    qp->peer_request_count += refusal == RDMAP_ACCEPTED;
    return refusal;
}

// Have all Sends before it been delivered? Between weft ends a request may be the rest of a Read
// that was posted before the Send, and which its program waits for: a Read does not wait there.
static bool may_ring(const struct qp *qp, const struct peer_request *r)
{
    struct rdmap_arrival oldest;
    bool is_rest = !r->is_atomic && qp->rdmap.extensions_agreed;
    if (rnr_store_is_empty(&qp->store) || is_rest) {
        return true;
    }
    rnr_store_peek(&qp->store, &oldest);
    return !serial_before(oldest.msn, r->send_msn);
}

enum rdmap_refusal responder_deliver(struct qp *qp, const struct rdmap_arrival *a)
{
    (void)a;
    struct peer_request *r = slot_at(qp, 0);
    r->send_msn = qp->rdmap.rx[DDP_QN_SEND].msn;
    if (qp->peer_request_held_count == 0 && may_ring(qp, r)) {
        return process(qp, r);
    }
    qp->peer_request_held_count++;
    qp->counters.held_requests++;
    return RDMAP_ACCEPTED;
}

void responder_ring_held(struct qp *qp)
{
    while (qp->peer_request_held_count > 0 && qp_takes_input(qp)) {
        uint32_t index = qp->peer_request_head + qp->peer_request_count;
        struct peer_request *r = &qp->peer_requests[index % qp->peer_request_capacity];
        if (!may_ring(qp, r)) {
            return;
        }
        qp->peer_request_held_count--;
        enum rdmap_refusal refusal = process(qp, r);
        if (refusal != RDMAP_ACCEPTED) {
            qp_refuse(qp, refusal, &r->offender);
        }
    }
}

void responder_forget(struct qp *qp)
{
    memset(qp->peer_request_is_posted, 0, qp->peer_request_capacity);
    qp->peer_request_count = qp->peer_request_held_count = 0;
}

/* ---- beyond a hole --------------------------------------------------------------------------- */

enum place_verdict responder_place_early(struct qp *qp, const struct rdmap_arrival *a, uint64_t end)
{
    switch (responder_post(qp, a)) {
    case RDMAP_ACCEPTED:
        slot_at(qp, ahead_of(qp, a))->end = end;
        qp->counters.early_requests++;
        return PLACE_PLACED;
    case RDMAP_REFUSED_IRD_EXCEEDED:
        qp->counters.early_no_slot++;
        return PLACE_DROP;
    default:
        return PLACE_BUFFER;
    }
}

uint64_t responder_next_end(const struct qp *qp, const struct release *release)
{
    (void)release;
    const struct peer_request *slot = slot_at(qp, 0);
    bool has_next = taken_count(qp) < qp->ird && *is_posted(qp, slot);
    return has_next ? slot->end : RELEASE_NEVER;
}

enum rdmap_refusal responder_release(struct qp *qp, struct release *release)
{
    bool is_atomic = slot_at(qp, 0)->is_atomic;
    uint32_t *done = release->done.n;
    done[is_atomic ? RDMAP_HELD_ATOMIC_REQUESTS : RDMAP_HELD_READ_REQUESTS]++;
    qp->counters.doorbells +=
        done[RDMAP_HELD_ATOMIC_REQUESTS] + done[RDMAP_HELD_READ_REQUESTS] == 1;
    qp->counters.released_requests++;
    return process(qp, slot_at(qp, 0));
}

/* ---- answering ------------------------------------------------------------------------------- */

bool responder_start(struct qp *qp)
{
    if (qp->peer_request_count == 0) {
        return false;
    }
    const struct peer_request *r = peer_request_oldest(qp);
    if (r->is_atomic) {
        struct rdmap_atomic_response response = {
            .request_id = r->request_id,
            .original = r->original,
        };
        rdmap_tx_atomic_response(&qp->tx, &qp->rdmap, &response);
    } else {
        rdmap_tx_read_response(&qp->tx, r->sink_key, r->sink_addr, r->length);
    }
    qp->tx_source = TX_RESPONSE;
    return true;
}

enum rdmap_refusal responder_gather(struct qp *qp, size_t *len, struct span *ret_pieces,
                                    unsigned *ret_count)
{
    const struct peer_request *r = peer_request_oldest(qp);
    struct mspan pieces[SGE_COUNT_MAX];
    enum rdmap_refusal refusal = rdmap_request_memory(
        &qp->rdmap, r->source_key, r->source_addr + r->sent_len, *len, pieces, ret_count);
    if (refusal != RDMAP_ACCEPTED) {
        return refusal;
    }
    *len = 0;
    for (unsigned i = 0; i < *ret_count; i++) {
        ret_pieces[i] = mspan_read(pieces[i]);
        *len += pieces[i].len;
    }
    return RDMAP_ACCEPTED;
}

void responder_message_put(struct qp *qp)
{
    *is_posted(qp, peer_request_oldest(qp)) = false;
    qp->peer_request_head = (qp->peer_request_head + 1) % qp->peer_request_capacity;
    qp->peer_request_count--;
}
