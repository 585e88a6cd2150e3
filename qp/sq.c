#include <errno.h>

#include "qp/internal.h"

struct send_wqe *qp_sq_slot(struct qp *qp, unsigned ahead)
{
    return wqe_ring_slot(&qp->sq, ahead);
}

void qp_sq_commit(struct qp *qp, unsigned count)
{
    wqe_ring_commit(&qp->sq, count);
}

static bool is_of_rfc7306(enum wqe_opcode opcode)
{
    return opcode == WQE_RDMA_WRITE_WITH_IMM || opcode == WQE_ATOMIC_CMP_AND_SWP ||
           opcode == WQE_ATOMIC_FETCH_AND_ADD;
}

int qp_may_post(const struct qp *qp, enum wqe_opcode opcode)
{
    int oneshot = qp_oneshot_agreed(qp);
    if (oneshot > 0 && (oneshot & EXTENSION_ONESHOT_OPCODE) != 0 && is_of_rfc7306(opcode)) {
        return -EOPNOTSUPP;
    }
    if (opcode != WQE_SEND_WITH_IMM) {
        return 0;
    }
    return atomic_load_explicit(&qp->peer_is_foreign, memory_order_relaxed) ? -EOPNOTSUPP : 0;
}
