// Interface 322: requests and completions come from the CTA.

#include <string.h>

#include "node/interface/cta_rta.h"
#include "node/interface/request.h"
#include "node/interface/rta_ddm.h"
#include "node/rta/agent.h"
#include "node/rta/converter.h"

// Frames that the CTA has acknowledged need no more of us.
static void on_ack(void *ctx, const struct frame *frame)
{
}

struct residual_store *cta_interface_create(struct rta *rta)
{
    return residual_create(rta->parts.bus, RTA_WINDOW, on_ack, rta);
}

// The volume as the device describes it now: sizes change.
static enum node_completion profile_answer(struct store_transaction *t)
{
    struct io_volume *v = t->row->volume;
    struct volume_profile profile = v->profile;
    if (ddm_probe(v->ddm, &profile) != 0) {
        return NODE_MEDIA;
    }
    v->profile = profile;
    memcpy(t->data, &profile, sizeof profile);
    t->answer_len = sizeof profile;
    return NODE_OK;
}

static void on_request(struct rta *rta, const struct frame *request)
{
    rta->counters.requests++;
    if (store_find(rta->store, request->transaction) != NULL) {
        rta->counters.duplicates++;
        return;
    }
    struct store_row *row = store_row_find(rta->store, request->connection);
    if (row == NULL) {
        result_refuse(rta, request, NODE_NO_VOLUME);
        return;
    }
    struct io_volume *v = row->volume;
    enum node_completion completion = converter_check(&v->profile, v->is_read_only, request);
    void *data = NULL;
    if (completion == NODE_OK && !dma_obtain(&rta->dma, request, &data)) {
        completion = NODE_MALFORMED;
    }
    if (completion != NODE_OK) {
        result_refuse(rta, request, completion);
        return;
    }
    struct store_transaction *t = store_begin(rta->store, row, request);
    if (t == NULL) {
        dma_release(&rta->dma, request);
        result_refuse(rta, request, NODE_INTERNAL);
        return;
    }
    t->data = data;
    if (request->operation == NODE_PROFILE) {
        result_give(rta, t, profile_answer(t), 0);
    } else {
        io_submit(rta->io, t, rta->now);
    }
}

// The client has what it wanted: only now the buffer is released, and the row's place with it.
static void on_completion(struct rta *rta, const struct frame *completion)
{
    struct store_transaction *t = store_find(rta->store, completion->transaction);
    if (t == NULL || t->state != STORE_RESULT_OUT) {
        return; // of a request that was refused here: nothing was obtained for it
    }
    dma_release(&rta->dma, &t->request);
    store_end(rta->store, t);
}

enum residual_verdict cta_interface_take(struct rta *rta)
{
    struct frame frame;
    enum residual_verdict verdict = residual_receive(rta->residual, &frame, rta->now);
    if (verdict != RESIDUAL_FRAME) {
        return verdict;
    }
    if (frame.kind == FRAME_REQUEST) {
        on_request(rta, &frame);
    } else if (frame.kind == FRAME_COMPLETION) {
        on_completion(rta, &frame);
    } else {
        return RESIDUAL_BROKEN;
    }
    return RESIDUAL_FRAME;
}
