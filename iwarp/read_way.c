// Reads of a peer whose memory can be copied may go past the stream, or on it. A copy is made by
// one processor alone, costs the peer nothing, and is there for who asks for one thing at a time.
// On the stream each end copies a part of the way, both at once: where the octets lie in no cache,
// that is faster by a half, for a little more of the processors. So where many long Reads follow
// each other both ways are measured, now and then; until then, and behind a pause or a short one,
// they go past.
#include "base/faster.h"
#include "base/time.h"
#include "base/trace.h"
#include "iwarp/internal.h"

#define PAUSE_NS (50 * NS_PER_US)

enum {
    WAY_PAST = 0,
    WAY_STREAM = 1,
    STREAM_TOLL = 1,        // sixteenths: for the peer's processor
    READ_LEN_MIN = 1 << 12, // of shorter ones the peer would do more than a copy
    ROW_LEN_MIN = 1 << 20,  // octets without a pause, before which nothing is measured or chosen
    // What comes by the stream is seen once a turn: stretches are longer by so much.
    STRETCHES = 4,
};

void read_way_begin(struct qp *qp)
{
    qp->pull.ways = (struct faster){.toll = STREAM_TOLL};
    qp->pull.row_len = 0;
    qp->pull.old_way_count = 0;
    qp->pull.answered_ns = 0;
    qp->pull.is_offered = false;
}

static bool is_in_row(const struct qp *qp)
{
    return qp->pull.row_len >= ROW_LEN_MIN;
}

// Before a Read that is asked for then. Who waits for each Read before the next makes none.
static bool is_behind_pause(const struct qp *qp, instant_ns issued_ns)
{
    return issued_ns > instant_after(qp->pull.answered_ns, PAUSE_NS);
}

bool read_way_is_past(const struct qp *qp)
{
    return qp->pull.ways.way == WAY_PAST || !is_in_row(qp) ||
           (qp->wq.request_count == 0 && is_behind_pause(qp, qp->wq.now));
}

// What was out when the way turned goes the old one, and there may be megabytes of it. Requests are
// answered in their order.
static bool goes_the_old_way(struct qp *qp)
{
    const bool is_old = qp->pull.old_way_count > 0;
    qp->pull.old_way_count -= is_old;
    return is_old;
}

static void measure(struct qp *qp, size_t len)
{
    struct faster *ways = &qp->pull.ways;
    const unsigned way = ways->way, settled_way = ways->settled_way;
    if (!faster_note(ways, len / STRETCHES)) {
        return;
    }
    faster_on_phase_end(ways, qp->wq.now);
    if (ways->way != way) {
        qp->pull.old_way_count = qp->wq.request_count;
    }
    if (ways->settled_way != settled_way) {
        TRACE(qp->config.wq.trace, TRACE_QP, "qp %u: reads are faster %s", qp->config.wq.qp_num,
              ways->settled_way == WAY_STREAM ? "by the stream" : "past it");
    }
}

void read_way_note(struct qp *qp, instant_ns issued_ns, uint32_t len)
{
    if (!qp->pull.is_offered) {
        return;
    }
    const bool is_old = goes_the_old_way(qp);
    if (len < READ_LEN_MIN || is_behind_pause(qp, issued_ns)) {
        qp->pull.row_len = 0;
        faster_on_pause(&qp->pull.ways);
    } else if (is_in_row(qp) && !is_old) {
        measure(qp, len);
    }
    qp->pull.row_len += qp->pull.row_len < ROW_LEN_MIN ? len : 0;
    qp->pull.answered_ns = qp->wq.now;
}
