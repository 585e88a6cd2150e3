// One-shot RDMA (wq/oneshot.h) in InfiniBand's own words. A Send has no field for a key: what
// advertises one has it in the message. Send with Invalidate has it in its header, and closes.
// Nothing is agreed on, since any peer understands both.
#include <errno.h>

#include "base/trace.h"
#include "mem/table.h"
#include "mem/verdict.h"
#include "roce/rc_internal.h"
#include "wq/oneshot.h"
#include "wq/wqe.h"

int rc_oneshot_agreed(const struct transport *t)
{
    const struct rc *rc = rc_of_const(t);
    return atomic_load_explicit(&rc->has_peer, memory_order_relaxed) ? 0 : -ENOTCONN;
}

/* ---- messages of ours ------------------------------------------------------------------------ */

void rc_oneshot_begin(struct rc *rc, struct send_wqe *wqe)
{
    if (wqe->flags & WQE_ADVERTISE) {
        oneshot_open(&rc->wq, wqe);
    } else if (wqe->flags & WQE_CLOSE) {
        wqe->opcode = WQE_SEND_WITH_INV;
        rc->counters.oneshot_answered++;
    }
}

/* ---- messages of the peer -------------------------------------------------------------------- */

// Only the last packet says whether the message closes something.
void rc_oneshot_note(struct rc *rc, const struct roce_packet *p)
{
    const struct oneshot_config *config = wq_oneshot_config(&rc->wq);
    if (config == NULL || p->facts->kind != ROCE_KIND_SEND) {
        return;
    }
    uint64_t from = p->facts->begins ? 0 : rc->resp.in.arrived_len;
    for (unsigned i = 0; i < config->answer.len; i++) {
        uint64_t at = (uint64_t)config->answer.offset + i;
        if (at >= from && at < from + p->payload.len) {
            rc->oneshot_captured[i] = p->payload.ptr[at - from];
        }
    }
}

static enum rc_refusal refuse(const struct rc *rc, uint32_t key, enum rc_refusal refusal)
{
    TRACE(rc->config.wq.trace, TRACE_ERROR, "QP %u: the peer closes STag 0x%08x: %s",
          rc->config.wq.qp_num, key, rc_refusal_facts(refusal)->text);
    return refusal;
}

static enum rc_refusal close_command(struct rc *rc, uint32_t key)
{
    const struct inbound *in = &rc->resp.in;
    struct oneshot_command *command;
    if (oneshot_find(&rc->wq, key, &command) != MEM_OK) {
        return refuse(rc, key, RC_REFUSED_INVALIDATE);
    }
    if (!in->has_reference) {
        return refuse(rc, key, RC_REFUSED_CLOSE_SHORT);
    }
    if (in->reference != command->reference) {
        return refuse(rc, key, RC_REFUSED_CLOSE_REFERENCE);
    }
    oneshot_close_by_peer(&rc->wq, command);
    rc->resp.in.is_close = true;
    return RC_ACCEPTED;
}

static void conclude(struct rc *rc)
{
    const struct oneshot_config *config = wq_oneshot_config(&rc->wq);
    struct inbound *in = &rc->resp.in;
    if (config != NULL && in->arrived_len >= (uint64_t)config->answer.offset + config->answer.len) {
        in->has_reference = true;
        in->reference = oneshot_field_number(&config->answer, rc->oneshot_captured);
    }
}

enum rc_refusal rc_take_back(struct rc *rc, uint32_t key)
{
    conclude(rc);
    if (mem_is_oneshot(rc->config.wq.mem, key)) {
        return close_command(rc, key);
    }
    if (mem_invalidate(rc->config.wq.mem, rc_asker(rc), key, true) != MEM_OK) {
        return RC_REFUSED_INVALIDATE;
    }
    rc->counters.invalidations++;
    return RC_ACCEPTED;
}
