// Queue pairs on streams: what is asked of their link.

#include "base/list.h"
#include "base/port_link.h"
#include "base/port_push.h"
#include "base/time.h"
#include "rnic/batch.h"
#include "rnic/carrier.h"
#include "rnic/carry.h"
#include "rnic/shard.h"

static void close_all(struct shard *shard)
{
    struct list_link *l;
    while ((l = list_pop_head(&shard->batches)) != NULL) {
        batch_destroy(LIST_ENTRY(l, struct batch, idle_link));
    }
    shard_carries_free(shard);
    link_destroy(shard->link);
}

static void leave_to_parent(struct shard *shard)
{
    link_abandon(shard->link);
}

static instant_ns deadline_of_link(const struct shard *shard)
{
    return link_next_deadline(shard->link);
}

static bool may_sleep_in_link(struct shard *shard)
{
    return link_may_wait(shard->link);
}

static void sleep_in_link(struct shard *shard, duration_ns timeout_ns)
{
    link_wait(shard->link, timeout_ns);
}

static void rise_in_link(struct shard *shard)
{
    link_rise(shard->link);
}

static void wake_link(struct shard *shard)
{
    link_wake(shard->link);
}

static int descriptor_of_link(const struct shard *shard)
{
    return link_descriptor(shard->link);
}

static int route(struct shard *shard, const struct sockaddr *dst, struct sockaddr_storage *ret)
{
    return link_route(shard->link, dst, ret);
}

static void tell_of_packets(const struct shard *shard, counter_each each, void *ctx)
{
    link_packet_counters(shard->link, each, ctx);
}

static bool is_link_busy(const struct shard *shard)
{
    return link_is_busy(shard->link);
}

static struct key_mirror *stream_mirror(struct shard *shard)
{
    const struct push_ops *pushes = shard->link->pushes;
    return pushes != NULL ? pushes->mirror(shard->link) : NULL;
}

static bool has_stream_revoked(struct shard *shard, uint64_t generation)
{
    return shard->link->pushes->revoke(shard->link, generation);
}

static bool has_stream_left(struct shard *shard, uint64_t leaver)
{
    return shard->link->pushes->has_left(shard->link, leaver);
}

const struct carrier_link_ops stream_carrier_link = {
    .close = close_all,
    .leave = leave_to_parent,
    .link_deadline = deadline_of_link,
    .may_sleep = may_sleep_in_link,
    .sleep = sleep_in_link,
    .rise = rise_in_link,
    .wake = wake_link,
    .descriptor = descriptor_of_link,
    .route = route,
    .is_ending = is_link_busy,
    .tell_counters = tell_of_packets,
    .keys_shown = stream_mirror,
    .is_key_free = has_stream_revoked,
    .is_leaver_out = has_stream_left,
};
