// One look at a queue of completions. Peers decide how many come: who sends without end, or
// nonsense that is dropped, holds neither the caller nor the socket's lock.

#include "rsocket/rsocket.h"

enum { BATCH = 16, BATCHES_MAX = 16 };

int rs_look(struct ibv_cq *cq, void (*take)(void *ctx, const struct ibv_wc *wc), void *ctx,
            bool *ret_has_more)
{
    struct ibv_wc wcs[BATCH];
    int taken = 0, count = BATCH;
    for (unsigned i = 0; i < BATCHES_MAX && count == BATCH; i++) {
        count = ibv_poll_cq(cq, BATCH, wcs);
        for (int at = 0; at < count; at++) {
            take(ctx, &wcs[at]);
        }
        taken += count > 0 ? count : 0;
    }
    *ret_has_more = count == BATCH;
    return count < 0 ? -1 : taken;
}
