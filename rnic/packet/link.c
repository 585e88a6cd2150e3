// Queue pairs on packets: what is asked of their link.

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/port_datagram.h"
#include "base/port_packet_push.h"
#include "base/sockaddr.h"
#include "base/time.h"
#include "congestion/share.h"
#include "ibcm/ibcm.h"
#include "rnic/carrier.h"
#include "rnic/internal.h"
#include "rnic/packet/cm.h"
#include "rnic/packet/packet.h"
#include "rnic/shard.h"

int packet_begin(struct shard *shard, const uint8_t *key)
{
    struct packet_side *p = &shard->packets;
    congestion_share_init(&p->share, datagram_receive_buffer_len(p->link));
    return packet_cm_init(shard, key);
}

static void close_link(struct shard *shard)
{
    packet_put_held(&shard->packets);
    datagram_flush(shard->packets.link);
    packet_cm_fini(&shard->packets.cm);
    packet_store_fini(&shard->packets);
    datagram_destroy(shard->packets.link);
}

static void leave_to_parent(struct shard *shard)
{
    datagram_abandon(shard->packets.link);
}

static instant_ns deadline_of_link(const struct shard *shard)
{
    return datagram_next_deadline(shard->packets.link);
}

static bool may_sleep_in_link(struct shard *shard)
{
    return datagram_may_wait(shard->packets.link);
}

static void sleep_in_link(struct shard *shard, duration_ns timeout_ns)
{
    datagram_wait(shard->packets.link, timeout_ns);
}

static void wake_link(struct shard *shard)
{
    datagram_wake(shard->packets.link);
}

static int route(struct shard *shard, const struct sockaddr *dst, struct sockaddr_storage *ret)
{
    const struct in6_addr remote = sockaddr_octets(dst);
    struct in6_addr local;
    int error = datagram_route(shard->packets.link, &remote, sockaddr_scope_id(dst), &local);
    if (error == 0) {
        *ret = sockaddr_of_octets(&local, 0);
    }
    return error;
}

static bool is_ending(const struct shard *shard)
{
    const struct packet_cm *cm = &shard->packets.cm;
    return ibcm_is_disconnecting(cm->ibcm) && rnic_now(shard->rnic) < cm->ending_until;
}

static void tell_counters(const struct shard *shard, counter_each each, void *ctx)
{
    const struct packet_side *p = &shard->packets;
#define X(name, text) each(ctx, #name, p->counters.name);
    PACKET_COUNTERS(X)
#undef X
    each(ctx, "not_management", p->cm.not_management);
    ibcm_counters_tell(p->cm.ibcm, each, ctx);
    datagram_counters(p->link, each, ctx);
}

static int descriptor(const struct shard *shard)
{
    return -EOPNOTSUPP;
}

static struct key_mirror *packet_mirror(struct shard *shard)
{
    struct datagram_link *link = shard->packets.link;
    return link->pushes != NULL ? link->pushes->mirror(link) : NULL;
}

static bool has_packet_revoked(struct shard *shard, uint64_t generation)
{
    return shard->packets.link->pushes->revoke(shard->packets.link, generation);
}

static bool has_packet_left(struct shard *shard, uint64_t leaver)
{
    return shard->packets.link->pushes->has_left(shard->packets.link, leaver);
}

const struct carrier_link_ops packet_carrier_link = {
    .close = close_link,
    .leave = leave_to_parent,
    .link_deadline = deadline_of_link,
    .may_sleep = may_sleep_in_link,
    .sleep = sleep_in_link,
    .wake = wake_link,
    .route = route,
    .descriptor = descriptor,
    .is_ending = is_ending,
    .tell_counters = tell_counters,
    .keys_shown = packet_mirror,
    .is_key_free = has_packet_revoked,
    .is_leaver_out = has_packet_left,
};
