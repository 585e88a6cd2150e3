// What was placed beyond holes, so that nothing is placed twice.
#include <errno.h>
#include <stdlib.h>

#include "ddp/coverage.h"
#include "iwarp/internal.h"

int early_init(struct qp *qp)
{
    qp->early = calloc(1, sizeof *qp->early);
    return qp->early == NULL ? -ENOMEM : 0;
}

void early_fini(struct qp *qp)
{
    free(qp->early);
}

// STags may live longer than the stream: its positions stand behind those of earlier ones.
void early_begin(struct qp *qp)
{
    if (qp->early != NULL) {
        ddp_coverage_init(&qp->early->coverage);
        qp->early->base += qp->early->furthest;
        qp->early->furthest = 0;
        qp->early->delivering_end = 0;
        qp->rdmap.early_base = qp->early->base;
    }
}

bool early_is_free(const struct qp *qp, uint64_t key, uint32_t from, uint32_t to, bool is_last)
{
    return !ddp_coverage_overlaps(&qp->early->coverage, key, from, is_last ? UINT32_MAX : to);
}
