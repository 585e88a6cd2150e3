// End-to-end credits (volume 1, section 9.7.7.2): who has a receive queue of its own says in each
// acknowledgement how many receives it has, and what takes one is not sent in vain. What is shared
// with other queue pairs nobody can promise: then no number is told.
#include "roce/rc_internal.h"
#include "wire/aeth.h"
#include "wq/wqe.h"

/* ---- responder ------------------------------------------------------------------------------- */

// The message that is arriving is not among those that the MSN counts: its receive is its own.
uint8_t rc_credits_told(const struct rc *rc)
{
    const bool is_shared = rc->config.wq.srq != NULL;
    const uint32_t claimed = rc->resp.in.receive != NULL ? 1 : 0;
    return is_shared ? AETH_SYNDROME_ACK : aeth_syndrome_ack(wq_receive_count(&rc->wq) + claimed);
}

/* ---- requester ------------------------------------------------------------------------------- */

uint32_t rc_credits_claim(const struct rc_credits *c, const struct send_wqe *wqe)
{
    return c->begun_count + (wqe->opcode != WQE_RDMA_WRITE ? 1 : 0);
}

// Receives are never taken back: what was told before holds still.
void rc_credits_take(struct rc_credits *c, uint8_t syndrome)
{
    const uint32_t count = aeth_credits(aeth_value(syndrome));
    const bool was_limited = c->is_limited;
    c->is_limited = aeth_value(syndrome) != AETH_CREDITS_NONE;
    if (c->is_limited && (!was_limited || (int32_t)(c->done_count + count - c->limit) > 0)) {
        c->limit = c->done_count + count;
    }
}

bool rc_credits_cover(const struct rc_credits *c, uint32_t claim)
{
    return !c->is_limited || (int32_t)(claim - c->limit) <= 0;
}
