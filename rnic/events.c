#include "rnic/events.h"

#include "base/check.h"
#include "base/list.h"
#include "rnic/internal.h"
#include "rnic/shard.h"

// Who polls beside the batch may have armed again: then one event answers both.
static void on_event(void *ctx)
{
    struct rnic_cq *cq = ctx;
    struct shard *shard = &cq->rnic->shard;
    CHECK(shard_is_held(shard));
    if (!shard->keeps_events) {
        cq_port_tell(&cq->port);
    } else if (list_is_empty(&cq->kept_link)) {
        list_push_tail(&shard->kept_events, &cq->kept_link);
    }
}

static void on_overrun(void *ctx)
{
    const struct rnic_cq *cq = ctx;
    if (cq->port.on_overrun != NULL) {
        cq->port.on_overrun(cq->port.ctx);
    }
}

struct cq_port events_port(struct rnic_cq *cq)
{
    return (struct cq_port){.on_event = on_event, .on_overrun = on_overrun, .ctx = cq};
}

void events_keep(struct shard *shard)
{
    CHECK(shard_is_held(shard));
    shard->keeps_events = true;
}

void events_tell(struct shard *shard)
{
    struct list_link *l;
    CHECK(shard_is_held(shard));
    shard->keeps_events = false;
    while ((l = list_pop_head(&shard->kept_events)) != NULL) {
        cq_port_tell(&LIST_ENTRY(l, struct rnic_cq, kept_link)->port);
    }
}
