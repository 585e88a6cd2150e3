// What has come of a connection that two queue pairs meet on: meet/ is told, and says when it goes
// on.

#include "iwarp/qp.h"
#include "iwarp/state.h"
#include "rnic/ep/ep.h"
#include "rnic/internal.h"
#include "rnic/qp/meeting.h"

void qp_meeting_note_deadline(struct qp_meeting *m)
{
    struct rnic *rnic = m->qp->rnic;
    deadline_arm(&rnic->meeting_deadlines, &m->deadline, meeting_next_deadline(&m->meeting));
    shard_note_deadline(&rnic->shard, deadlines_next(&rnic->meeting_deadlines));
}

static void on_ep_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct rnic_qp *qp = ctx;
    struct qp_meeting *m = qp->meeting;
    if (m == NULL) {
        return;
    }
    if (event->type == RNIC_EP_ESTABLISHED) {
        meeting_on_established(&m->meeting);
    } else if (qp_stream_state(stream_qp(qp)) != QP_STREAM_IDLE) {
        meeting_on_broken(&m->meeting);
    } else {
        meeting_on_failed(&m->meeting, rnic_now(qp->rnic));
    }
    qp_meeting_note_deadline(m);
}

struct rnic_ep_port qp_meeting_port(struct rnic_qp *qp)
{
    return (struct rnic_ep_port){.on_event = on_ep_event, .ctx = qp};
}
