#include "rnic/puller.h"

#include "base/check.h"
#include "base/list.h"
#include "rnic/internal.h"
#include "rnic/shard.h"

void puller_note_look(struct shard *shard, const struct puller *puller, instant_ns now)
{
    atomic_store_explicit(&shard->pulled_at_ns, puller != NULL ? now : 0, memory_order_relaxed);
}

void puller_note_return(struct shard *shard, bool has_returned)
{
    CHECK(shard_is_held(shard));
    shard->pull_patience_ns = has_returned
                                  ? instant_min(2 * shard->pull_patience_ns, PULLER_PATIENCE_MAX_NS)
                                  : PULLER_PATIENCE_MIN_NS;
}

instant_ns puller_expected_until(const struct shard *shard)
{
    CHECK(shard_is_held(shard));
    instant_ns at_ns = atomic_load_explicit(&shard->pulled_at_ns, memory_order_relaxed);
    duration_ns patience_ns = shard->pull_patience_ns;
    if (!list_is_empty(&shard->pulls) && patience_ns < PULLER_COPY_NS) {
        patience_ns = PULLER_COPY_NS;
    }
    return at_ns == 0 ? 0 : instant_after(at_ns, patience_ns);
}

instant_ns puller_awaited_until(const struct shard *shard)
{
    return list_is_empty(&shard->left) ? INSTANT_NEVER : puller_expected_until(shard);
}

bool puller_returns(const struct shard *shard, instant_ns now)
{
    return shard->pull_patience_ns > PULLER_PATIENCE_MIN_NS && now < puller_expected_until(shard);
}

void puller_note_begun(struct puller *puller, struct rnic_qp *qp, bool is_pushing)
{
    puller->qp = qp;
    puller->is_pushing = qp->pull.is_pushing = is_pushing;
    qp->pull.process = is_pushing ? puller->push.process : puller->run.process;
    list_push_tail(&qp->rnic->shard.pulls, &qp->pull.link);
}
