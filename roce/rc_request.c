// How what is out leaves: each packet is made from its mark alone, so the same packet again is the
// same octets. A Read is asked for again from the first packet of its answer that is missing.
#include "base/sge.h"
#include "base/span.h"
#include "roce/packet.h"
#include "roce/rc_internal.h"
#include "wq/read_task.h"
#include "wq/status.h"
#include "wq/wqe.h"

bool rc_run_begin(struct rc *rc, const struct rc_out *o, uint64_t mark, uint64_t count,
                  struct rc_run *ret)
{
    ret->wqe = wq_send_at(&rc->wq, o->handle);
    ret->mark = mark;
    ret->offset = (mark - o->first) * rc_pmtu(rc);
    ret->payload.at = 0;
    const uint64_t left = ret->wqe->length - ret->offset, most = count * rc_pmtu(rc);
    const size_t len = (size_t)(left < most ? left : most);
    if (len > 0 &&
        wq_message_octets(&rc->wq, o->handle, ret->offset, len, ret->payload.pieces) == 0) {
        rc_fail_send(rc, ret->wqe, WC_LOC_PROT_ERR);
        return false;
    }
    return true;
}

bool rc_run_put(struct rc *rc, const struct datagram_sink *sink, struct rc_run *run, bool is_asking)
{
    struct roce_packet p;
    struct span pieces[SGE_COUNT_MAX];
    const size_t len = roce_packet_of_message(run->wqe, ROCE_RC, run->offset, rc_pmtu(rc), &p);
    p.bth.ack_req = is_asking;
    p.bth.psn = (uint32_t)run->mark & PSN_MASK;
    run->mark++;
    run->offset += len;
    return rc_packet_put(rc, sink, &p, pieces, rc_payload_cut(&run->payload, len, pieces), len);
}

static enum rc_put put_message(struct rc *rc, const struct datagram_sink *sink,
                               const struct rc_out *o, uint64_t mark, bool is_asking)
{
    struct rc_run run;
    if (!rc_run_begin(rc, o, mark, 1, &run)) {
        return RC_PUT_FAILED;
    }
    return rc_run_put(rc, sink, &run, is_asking) ? RC_PUT_DONE : RC_PUT_NO_ROOM;
}

static void fill_read(const struct rc *rc, const struct rc_out *o, uint64_t mark, uint64_t end,
                      struct roce_packet *p)
{
    uint32_t done = (uint32_t)((mark - o->first) * rc_pmtu(rc));
    p->bth.opcode = ROCE_RC | ROCE_READ_REQUEST;
    p->reth = (struct reth){
        .va = o->context->remote_addr + done,
        .rkey = o->context->remote_key,
        .dma_len = end < o->end ? (uint32_t)(end - mark) * rc_pmtu(rc) : o->context->length - done,
    };
}

static void fill_atomic(const struct rc_out *o, struct roce_packet *p)
{
    const struct send_wqe *wqe = o->context->task->cookie;
    bool is_swap = wqe->opcode == WQE_ATOMIC_CMP_AND_SWP;
    p->bth.opcode = ROCE_RC | (is_swap ? ROCE_CMP_SWAP : ROCE_FETCH_ADD);
    p->atomiceth = (struct atomiceth){
        .va = wqe->remote_addr,
        .rkey = wqe->rkey,
        .swap_add = is_swap ? wqe->swap : wqe->compare_add,
        .compare = is_swap ? wqe->compare_add : 0,
    };
}

static enum rc_put put_request(struct rc *rc, const struct datagram_sink *sink,
                               const struct rc_out *o, uint64_t mark, uint64_t end)
{
    struct rc_requester *q = &rc->req;
    struct roce_packet p = {
        .bth = {.ack_req = true, .psn = (uint32_t)mark & PSN_MASK},
    };
    if (o->context->task->kind == READ_KIND_ATOMIC) {
        fill_atomic(o, &p);
    } else {
        fill_read(rc, o, mark, end, &p);
        q->inside_mark = mark > o->first && q->inside_mark < o->end ? o->end : q->inside_mark;
    }
    return rc_packet_put(rc, sink, &p, NULL, 0, 0) ? RC_PUT_DONE : RC_PUT_NO_ROOM;
}

enum rc_put rc_request_put(struct rc *rc, const struct datagram_sink *sink, const struct rc_out *o,
                           uint64_t mark, uint64_t end, bool is_asking)
{
    return o->context != NULL ? put_request(rc, sink, o, mark, end)
                              : put_message(rc, sink, o, mark, is_asking);
}
