// Interface 322, the other way: the CTA is called back with results.

#include "node/interface/cta_rta.h"
#include "node/interface/request.h"
#include "node/rta/agent.h"

static void result_send(struct rta *rta, struct frame result)
{
    result.kind = FRAME_RESULT;
    rta->counters.results++;
    // A CTA that keeps the rules has fewer transactions here than the window has room.
    if (residual_can_send(rta->residual)) {
        residual_send(rta->residual, result, false, rta->now);
    }
}

void result_give(void *ctx, struct store_transaction *t, enum node_completion completion,
                 uint32_t detail)
{
    struct rta *rta = ctx;
    struct frame result = {.transaction = t->request.transaction,
                           .connection = t->request.connection,
                           .completion = (uint16_t)completion,
                           .detail = (uint16_t)detail};
    dma_fill(&t->request, completion == NODE_OK ? t->answer_len : 0, &result);
    t->state = STORE_RESULT_OUT;
    result_send(rta, result);
}

void result_refuse(struct rta *rta, const struct frame *request, enum node_completion completion)
{
    rta->counters.refusals++;
    result_send(rta, (struct frame){.transaction = request->transaction,
                                    .connection = request->connection,
                                    .completion = (uint16_t)completion});
}
