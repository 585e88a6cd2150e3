// Data of a connection by the RDMA manager, and what the protocol posts beside it.

#include "base/list.h"
#include "base/why.h"
#include "node/fabric/fabric.h"
#include "node/fabric/pair.h"
#include "node/loop/loop.h"
#include "node/stream/progress.h"

void fabric_on_bad_completion(struct fabric_pair *p, enum ibv_wc_status status)
{
    if (status == IBV_WC_WR_FLUSH_ERR) {
        p->is_disconnected = true;
        fabric_touch(p);
        return;
    }
    p->fabric->counters.broken += !why_is_said(&p->why);
    fabric_fail(p, ibv_wc_status_str(status));
}

bool fabric_request_submit(struct fabric_pair *p, struct weft_rdma_request *request)
{
    p->transfer_count++;
    fabric_touch(p);
    enum weft_rdma_refusal refusal = weft_rdma_request_submit(p->manager, request, WEFT_RDMA_MORE);
    if (refusal != WEFT_RDMA_ACCEPTED) {
        p->transfer_count--;
        p->fabric->counters.bad_transfers++;
        fabric_fail(p, weft_rdma_refusal_str(refusal));
    }
    return refusal == WEFT_RDMA_ACCEPTED;
}

bool fabric_request_over(struct fabric_pair *p, const struct weft_rdma_request *request,
                         uint64_t len)
{
    struct fabric *fabric = p->fabric;
    p->transfer_count--;
    if (request->result.outcome == WEFT_RDMA_SUCCESS) {
        progress_note(&p->moving, len, fabric->parts.patience_ns, loop_now(fabric->parts.loop));
        return true;
    }
    fabric->counters.bad_transfers++;
    fabric_on_bad_completion(p, request->result.status);
    return false;
}

void fabric_send(struct fabric_pair *p, struct ibv_send_wr *first, struct ibv_send_wr *last)
{
    struct ibv_send_wr *bad;
    last->send_flags |= IBV_SEND_SIGNALED;
    if (ibv_post_send(p->id->qp, first, &bad) != 0) {
        fabric_fail(p, "its responses cannot be sent");
    }
}
