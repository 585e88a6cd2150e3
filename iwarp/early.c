// A ULPDU beyond a hole of the stream: checked, placed, its message counted (rdmap/early.h). When
// the hole closes, its counters say how many messages of each class may happen now, and no more do:
// three queues are merged by where in the stream their messages end.
//
//     receives        completions appear, STags are taken back
//     peer_requests   the doorbell rings: Reads are processed, atomics executed
//     requests        answers complete the Reads and atomics of ours
#include "base/port_place.h"
#include "base/time.h"
#include "base/trace.h"
#include "iwarp/internal.h"
#include "rdmap/refusal.h"
#include "wire/rdmap.h"

/* ---- placing --------------------------------------------------------------------------------- */

static enum place_verdict place_write(struct qp *qp, const struct rdmap_arrival *a, uint64_t end)
{
    if (rdmap_place_write_early(&qp->rdmap, a, end) != RDMAP_ACCEPTED) {
        return PLACE_BUFFER;
    }
    qp->counters.early_writes++;
    return PLACE_PLACED;
}

static enum place_verdict place(struct qp *qp, const struct rdmap_arrival *a, uint64_t end)
{
    static enum place_verdict (*const place_of[RDMAP_OPCODE_COUNT])(
        struct qp * qp, const struct rdmap_arrival *a, uint64_t end) = {
        [RDMAP_WRITE] = place_write,
        [RDMAP_READ_REQUEST] = responder_place_early,
        [RDMAP_READ_RESPONSE] = response_place_read_early,
        [RDMAP_SEND] = receive_place_early,
        [RDMAP_SEND_INV] = receive_place_early,
        [RDMAP_SEND_SE] = receive_place_early,
        [RDMAP_SEND_SE_INV] = receive_place_early,
        [RDMAP_IMMEDIATE] = receive_place_early,
        [RDMAP_IMMEDIATE_SE] = receive_place_early,
        [RDMAP_ATOMIC_REQUEST] = responder_place_early,
        [RDMAP_ATOMIC_RESPONSE] = response_place_atomic_early,
    };
    return place_of[a->opcode](qp, a, end);
}

enum place_verdict qp_on_early_ulpdu(struct qp *qp, struct span ulpdu, uint64_t end,
                                     struct place_counts *counts, instant_ns now)
{
    struct rdmap_arrival a;
    qp->wq.now = now;
    if (!qp_takes_input(qp)) {
        return PLACE_PLACED; // thrown away, as all that will come in order
    }
    if (qp->is_first_arrival_due || qp->early == NULL ||
        rdmap_rx_check_early(&qp->rdmap, ulpdu, &a) != RDMAP_ACCEPTED ||
        !rdmap_may_place_early(&qp->rdmap, &a)) {
        qp->counters.early_put_off++;
        return PLACE_BUFFER;
    }
    enum place_verdict verdict = place(qp, &a, end);
    qp->counters.early_put_off += verdict == PLACE_BUFFER;
    if (verdict == PLACE_PLACED) {
        qp->early->furthest = qp->early->furthest < end ? end : qp->early->furthest;
        rdmap_hold(&a, counts);
        qp_count_arrival(qp, &a);
    }
    return verdict;
}

/* ---- releasing ------------------------------------------------------------------------------- */

static const struct {
    enum rdmap_held first, last; // the classes that count its messages
    uint64_t (*next_end)(const struct qp *qp, const struct release *release);
    enum rdmap_refusal (*release)(struct qp *qp, struct release *release);
} queues[] = {
    {RDMAP_HELD_SENDS, RDMAP_HELD_SENDS, receive_next_end, receive_release},
    {RDMAP_HELD_READ_REQUESTS, RDMAP_HELD_ATOMIC_REQUESTS, responder_next_end, responder_release},
    {RDMAP_HELD_READ_RESPONSES, RDMAP_HELD_ATOMIC_RESPONSES, response_next_end, response_release},
};

enum { QUEUE_COUNT = sizeof queues / sizeof queues[0] };

// Does the hole hold back more messages of this queue than have been delivered?
static bool has_more(const struct release *r, unsigned queue)
{
    uint32_t left = 0;
    for (unsigned i = queues[queue].first; i <= (unsigned)queues[queue].last; i++) {
        left += r->held.n[i] - r->done.n[i];
    }
    return left > 0;
}

// The queue whose next message ends first, of those that the hole holds back; QUEUE_COUNT: none.
static unsigned next_queue(const struct qp *qp, const struct release *r)
{
    unsigned next = QUEUE_COUNT;
    uint64_t next_end = r->end;
    for (unsigned i = 0; i < QUEUE_COUNT; i++) {
        uint64_t end = has_more(r, i) ? queues[i].next_end(qp, r) : RELEASE_NEVER;
        if (end <= next_end) {
            next_end = end;
            next = i;
        }
    }
    return next;
}

static bool is_all_done(const struct release *r)
{
    for (unsigned i = 0; i < RDMAP_HELD_COUNT; i++) {
        if (i != RDMAP_HELD_WRITE_OCTETS && r->held.n[i] != r->done.n[i]) {
            return false;
        }
    }
    return true;
}

static enum rdmap_refusal release_all(struct qp *qp, struct release *r)
{
    enum rdmap_refusal refusal = RDMAP_ACCEPTED;
    unsigned queue;
    uint32_t send_mo;
    while (refusal == RDMAP_ACCEPTED && (queue = next_queue(qp, r)) != QUEUE_COUNT) {
        refusal = queues[queue].release(qp, r);
    }
    if (refusal != RDMAP_ACCEPTED) {
        return refusal;
    }
    if (!receive_release_rest(qp, r, &send_mo) || !response_release_rest(qp, r) ||
        !is_all_done(r)) {
        return RDMAP_REFUSED_PLACED_APART;
    }
    rdmap_rx_advance(&qp->rdmap, &r->held, send_mo);
    return RDMAP_ACCEPTED;
}

static void trace_release(const struct qp *qp, const struct release *r)
{
    TRACE(qp->config.wq.trace, TRACE_QP,
          "qp %u hole closed before %llu: %u sends, %u reads, %u atomics, %u answers",
          qp->config.wq.qp_num, (unsigned long long)r->end, r->held.n[RDMAP_HELD_SENDS],
          r->held.n[RDMAP_HELD_READ_REQUESTS], r->held.n[RDMAP_HELD_ATOMIC_REQUESTS],
          r->held.n[RDMAP_HELD_READ_RESPONSES] + r->held.n[RDMAP_HELD_ATOMIC_RESPONSES]);
}

bool qp_on_advance(struct qp *qp, uint64_t end, const struct place_counts *counts, instant_ns now)
{
    qp->wq.now = now;
    if (!qp_takes_input(qp)) {
        return true;
    }
    if (receive_must_wait(qp)) {
        return false;
    }
    struct release release = {.end = end, .held = *counts};
    trace_release(qp, &release);
    enum rdmap_refusal refusal = release_all(qp, &release);
    qp->early->delivering_end = end;
    if (refusal != RDMAP_ACCEPTED) {
        qp_refuse(qp, refusal, NULL);
    }
    qp_settle(qp);
    return true;
}
