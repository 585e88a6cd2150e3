// Answers to messages of nobody that is known: they leave no trace here, and there are so many in a
// second and no more, so that who forges addresses gains nothing by asking.
#include "ibcm/internal.h"

static bool may_answer(struct ibcm *ibcm, instant_ns now)
{
    if (now >= instant_after(ibcm->answers_since, NS_PER_S)) {
        ibcm->answers_since = now;
        ibcm->answers = 0;
    }
    if (ibcm->answers >= ibcm->config.answers_max) {
        ibcm_refuse(ibcm, IBCM_REFUSAL_ANSWERS_SPENT);
        return false;
    }
    ibcm->answers++;
    return true;
}

void ibcm_answer_rej(struct ibcm *ibcm, const struct ibcm_ends *ends, uint64_t transaction_id,
                     const struct ibcm_rej *rej, instant_ns now)
{
    if (may_answer(ibcm, now)) {
        const struct ibcm_message m = {
            .kind = IBCM_REJ, .transaction_id = transaction_id, .rej = *rej};
        ibcm_message_send(ibcm, ends, &m);
    }
}

void ibcm_answer_drep(struct ibcm *ibcm, const struct ibcm_ends *ends, uint64_t transaction_id,
                      const struct ibcm_dreq *dreq, instant_ns now)
{
    if (may_answer(ibcm, now)) {
        const struct ibcm_message m = {
            .kind = IBCM_DREP,
            .transaction_id = transaction_id,
            .ids = {.local_id = dreq->remote_id, .remote_id = dreq->local_id},
        };
        ibcm_message_send(ibcm, ends, &m);
    }
}

void ibcm_answer_sidr_rep(struct ibcm *ibcm, const struct ibcm_ends *ends, uint64_t transaction_id,
                          const struct ibcm_sidr_req *req, enum ibcm_sidr_status status,
                          instant_ns now)
{
    if (may_answer(ibcm, now)) {
        const struct ibcm_message m = {
            .kind = IBCM_SIDR_REP,
            .transaction_id = transaction_id,
            .sidr_rep = {.id = req->id, .status = (uint8_t)status, .service_id = req->service_id},
        };
        ibcm_message_send(ibcm, ends, &m);
    }
}
