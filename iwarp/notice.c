// The allotment, as two weft ends tell it each other by extension messages.
#include "base/check.h"
#include "base/time.h"
#include "base/trace.h"
#include "iwarp/internal.h"
#include "rdmap/refusal.h"
#include "wq/allotment.h"

// The reads follow what holds now.
static void follow(struct qp *qp, enum allotment_event event)
{
    uint32_t old_len = qp->wq.reads.allotment_len;
    uint32_t new_len = allotment_request_len(&qp->allotment);
    qp->wq.reads.may_name_rest = allotment_may_name_rest(&qp->allotment);
    if (new_len == old_len) {
        return;
    }
    qp->wq.reads.allotment_len = new_len;
    qp->counters.allotment_changes++;
    TRACE(qp->config.wq.trace, TRACE_QP, "qp %u allotment %u -> %u: %s", qp->config.wq.qp_num,
          old_len, new_len, allotment_event_name(event));
}

void notice_share(struct qp *qp, uint32_t peer_allotment_len)
{
    allotment_share(&qp->allotment, qp->stream.told_allotment_len, peer_allotment_len);
    follow(qp, ALLOTMENT_AGREED);
}

void notice_begin(struct qp *qp)
{
    allotment_init(&qp->allotment, qp->allotment.wish_len, qp->allotment.may_follow);
    if (qp->rdmap.extensions_agreed) {
        notice_share(qp, qp->stream.peer_allotment_len);
    } else {
        follow(qp, ALLOTMENT_AGREED);
    }
}

void qp_wish_allotment(struct qp *qp, uint32_t allotment_len, bool may_follow,
                       enum allotment_event event, instant_ns now)
{
    qp->wq.now = now;
    qp->allotment_event = event;
    allotment_wish(&qp->allotment, allotment_len, may_follow);
    follow(qp, event);
}

bool notice_is_due(const struct qp *qp)
{
    uint32_t len;
    return allotment_next_word(&qp->allotment, &len) != ALLOTMENT_SAY_NOTHING;
}

void notice_start(struct qp *qp)
{
    struct extension_message message = {0};
    enum allotment_word word = allotment_next_word(&qp->allotment, &message.allotment_len);
    CHECK(word != ALLOTMENT_SAY_NOTHING);
    message.kind = word == ALLOTMENT_SAY_TAKEN ? EXTENSION_TAKEN : EXTENSION_ALLOTMENT;
    message.why = word == ALLOTMENT_SAY_NOTICE ? (uint8_t)qp->allotment_event : 0;
    rdmap_tx_extension(&qp->tx, &qp->rdmap, &message);
    allotment_said(&qp->allotment, word);
    follow(qp, qp->allotment_event); // requests behind the notice are made by it
}

enum rdmap_refusal notice_deliver(struct qp *qp, const struct extension_message *message)
{
    switch (message->kind) {
    case EXTENSION_ALLOTMENT:
        allotment_on_notice(&qp->allotment, message->allotment_len,
                            (enum allotment_event)message->why);
        qp->allotment_event = ALLOTMENT_PEER; // if ours follows it
        follow(qp, ALLOTMENT_PEER);
        return RDMAP_ACCEPTED;
    case EXTENSION_TAKEN:
        return allotment_on_taken(&qp->allotment, message->allotment_len)
                   ? RDMAP_ACCEPTED
                   : RDMAP_REFUSED_EXTENSION_UNASKED;
    default:
        return RDMAP_REFUSED_EXTENSION_UNASKED; // the choices were made
    }
}
