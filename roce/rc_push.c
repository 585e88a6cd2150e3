// Writes past packets: their octets are put into the memory of the peer's process, by who has the
// lock of this queue pair and lets it go meanwhile. Neither end has a PSN for it.
//
//     a Write is about to begin, all before it is acknowledged, and it is short and alone
//         the sink begins a push: it is in progress, and nothing else begins until it
//             is there: it is over
//             is not there: it begins as a message
//         the sink begins none: it begins as a message
//
// So the peer finds it behind what was sent before, and what follows leaves behind it. The peer's
// requests are answered meanwhile, and the queue pair may fail: then what was posted is flushed
// when the copy is over, which reads from it.
#include "base/check.h"
#include "base/gate_mirror.h"
#include "base/port_packet_push.h"
#include "base/port_push.h"
#include "base/sge.h"
#include "mem/table.h"
#include "roce/rc_internal.h"
#include "roce/state.h"
#include "wq/wq.h"
#include "wq/wqe.h"

/* ---- the peer's ------------------------------------------------------------------------------ */

// Not before the program has asked for RTS: in RTR a packet of the peer's is news to it.
bool rc_gate(const struct transport *t, struct gate *ret)
{
    const struct rc *rc = rc_of_const(t);
    const struct datagram_path *path = &rc->attributes.path;
    const bool takes = roce_state_facts(rc->state)->takes_packets && rc->state != QP_RTR;
    *ret = (struct gate){.qp_num = rc->config.wq.qp_num,
                         .peer_qp_num = rc->attributes.dest_qp_num,
                         .local = path->local,
                         .remote = path->remote,
                         .pd = rc->config.wq.pd,
                         .psn = (uint32_t)rc->resp.expected_mark & PSN_MASK};
    return takes && rc->resp.refusal == RC_ACCEPTED && !rc->config.is_plain &&
           (rc->denied & MEM_ACCESS_REMOTE_WRITE) == 0;
}

/* ---- ours ------------------------------------------------------------------------------------ */

// Nothing of the queue pair is out, and nothing waits before it or behind.
static bool is_alone(const struct rc *rc, const struct transport_work *work)
{
    return rc->req.count == 0 && wq_send_count(&rc->wq) == 1 && work->wqe->length > 0 &&
           work->wqe->opcode == WQE_RDMA_WRITE;
}

static enum past_answer ask(struct rc *rc, const struct datagram_sink *sink,
                            const struct transport_work *work)
{
    const struct datagram_path *path = &rc->attributes.path;
    struct span pieces[SGE_COUNT_MAX];
    struct packet_push push = {.write = {.stag = work->wqe->rkey,
                                         .to = work->wqe->remote_addr,
                                         .len = (size_t)work->wqe->length,
                                         .pieces = pieces},
                               .from = {.qp_num = rc->config.wq.qp_num,
                                        .peer_qp_num = rc->attributes.dest_qp_num,
                                        .local = path->local,
                                        .remote = path->remote,
                                        .psn = (uint32_t)rc->req.next_mark & PSN_MASK},
                               .is_writer = rc->push.is_writer,
                               .now = rc->wq.now};
    push.write.piece_count = wq_message_octets(&rc->wq, work->handle, 0, push.write.len, pieces);
    return push.write.piece_count > 0 ? sink->push(sink->ctx, &push) : PAST_REFUSED;
}

bool rc_push_start(struct rc *rc, const struct datagram_sink *sink,
                   const struct transport_work *work)
{
    const bool is_alone_now = is_alone(rc, work);
    const bool may = is_alone_now && sink->push != NULL && !rc->push.is_refused &&
                     !rc->config.is_plain && work->wqe->length <= PUSH_LEN_MAX;
    rc->push.is_refused = false;
    rc->push.is_out = may && ask(rc, sink, work) == PAST_BEGUN;
    rc->push.is_writer = is_alone_now;
    return rc->push.is_out;
}

void rc_on_pushed(struct transport *t, bool is_done, instant_ns now)
{
    struct rc *rc = rc_of(t);
    CHECK(rc->push.is_out);
    rc_at(rc, now);
    rc->push.is_out = false;
    if (rc->state == QP_ERR) {
        wq_flush_sends(&rc->wq);
    } else if (is_done) {
        rc->counters.pushed_writes++;
        wq_message_put(&rc->wq, rc->req.next_mark);
        wq_on_released(&rc->wq, rc->req.acked_mark, 0);
        wq_on_settled(&rc->wq, rc->req.acked_mark);
    } else {
        rc->push.is_refused = true;
    }
    rc_settle(rc);
}
