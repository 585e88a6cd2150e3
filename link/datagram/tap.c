#include "link/datagram/tap.h"

#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "link/datagram/alone.h"
#include "link/datagram/memberships.h"
#include "link/datagram/slot.h"
#include "link/datagram/tap_link.h"
#include "link/datagram/udp.h"
#include "link/device/tap_interface.h"
#include "net/addr.h"
#include "net/iface.h"
#include "wire/bth.h"
#include "wire/icrc.h"
#include "wire/immdt.h"
#include "wire/ip.h"
#include "wire/reth.h"
#include "wire/udp_header.h"

enum {
    SLOT_COUNT = 255,
    // The kernel keeps so many frames for us; none is taken to be shorter than the least path MTU.
    INTERFACE_FRAMES_MAX = 500,
    PATH_MTU_MIN = 256,
    PATH_MTU_MAX = 4096,
    // With a payload, from the IP header to the ICRC: the longest there are.
    HEADERS_LEN = IPV6_HEADER_LEN + UDP_HEADER_LEN + BTH_LEN + RETH_LEN + IMMDT_LEN + ICRC_LEN,
};

/* ---- addresses ------------------------------------------------------------------------------- */

// The first address of the family: where a group's packets leave from.
static bool first_of_family(const struct datagram_tap *t, const struct net_addr *remote,
                            struct net_addr *ret)
{
    for (unsigned i = 0; i < t->iface.config.addr_count; i++) {
        const struct net_addr *own = &t->iface.config.addrs[i].addr;
        if (net_addr_is_ipv4(own) == net_addr_is_ipv4(remote)) {
            *ret = *own;
            return true;
        }
    }
    return false;
}

static int tap_route(struct datagram_link *link, const struct in6_addr *remote, uint32_t scope_id,
                     struct in6_addr *ret_local)
{
    struct datagram_tap *t = datagram_tap_of(link);
    const struct net_addr to = datagram_tap_addr(remote);
    struct net_addr from = to;
    bool is_found = net_iface_has_addr(&t->iface, &to) ||
                    (net_addr_is_multicast(&to) ? first_of_family(t, &to, &from)
                                                : net_iface_route(&t->iface, &to, &from));
    if (!is_found) {
        return -ENETUNREACH;
    }
    memcpy(ret_local->s6_addr, from.octets, sizeof ret_local->s6_addr);
    return 0;
}

static uint32_t tap_len_max(struct datagram_link *link, const struct datagram_path *path)
{
    const struct datagram_tap *t = datagram_tap_of(link);
    uint32_t len = t->iface.config.mtu - datagram_tap_headers_len(&path->remote);
    return len < DATAGRAM_LEN_MAX + ICRC_LEN ? len : DATAGRAM_LEN_MAX + ICRC_LEN;
}

uint32_t datagram_tap_path_mtu(const struct datagram_link *link)
{
    const struct datagram_tap *t = datagram_tap_of(link);
    uint32_t mtu = PATH_MTU_MIN;
    while (mtu < PATH_MTU_MAX && 2 * mtu + HEADERS_LEN <= t->iface.config.mtu) {
        mtu *= 2;
    }
    return mtu;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static int tap_join(struct datagram_link *link, const struct in6_addr *group,
                    const struct in6_addr *local, uint32_t scope_id)
{
    struct datagram_tap *t = datagram_tap_of(link);
    const struct net_addr addr = datagram_tap_addr(group);
    const int error = datagram_alone_join(link, group, local, scope_id);
    if (error == 0 && !net_iface_join(&t->iface, &addr, datagram_tap_now(t))) {
        datagram_alone_leave(link, group, local, scope_id);
        return -ENOBUFS;
    }
    return error;
}

static void tap_leave(struct datagram_link *link, const struct in6_addr *group,
                      const struct in6_addr *local, uint32_t scope_id)
{
    struct datagram_tap *t = datagram_tap_of(link);
    const struct net_addr addr = datagram_tap_addr(group);
    datagram_alone_leave(link, group, local, scope_id);
    if (!datagram_memberships_has(&t->alone.groups, group)) {
        net_iface_leave(&t->iface, &addr, datagram_tap_now(t));
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

static uint64_t tap_receive_buffer_len(const struct datagram_link *link)
{
    return INTERFACE_FRAMES_MAX * PATH_MTU_MIN;
}

static instant_ns tap_next_deadline(struct datagram_link *link)
{
    return net_iface_next_deadline(&datagram_tap_of(link)->iface);
}

static bool tap_may_wait(struct datagram_link *link)
{
    const struct datagram_tap *t = datagram_tap_of(link);
    return list_is_empty(&t->looped) && !datagram_tap_has_room_again(t);
}

static void tap_wait(struct datagram_link *link, duration_ns timeout_ns)
{
    tap_interface_wait(&datagram_tap_of(link)->interface, timeout_ns);
}

static void tap_wake(struct datagram_link *link)
{
    tap_interface_wake(&datagram_tap_of(link)->interface);
}

/* ---- the link -------------------------------------------------------------------------------- */

static void tap_counters(const struct datagram_link *link, counter_each each, void *ctx)
{
    const struct datagram_tap *t = datagram_tap_of(link);
#define X(name, text) each(ctx, #name, t->counters.name);
    DATAGRAM_TAP_COUNTERS(X)
#undef X
#define X(name, text) each(ctx, #name, t->iface.counters.name);
    NET_IFACE_COUNTERS(X)
#undef X
}

static void tap_abandon(struct datagram_link *link)
{
    tap_interface_close(&datagram_tap_of(link)->interface);
}

static void tap_destroy(struct datagram_link *link)
{
    tap_abandon(link);
    free(link);
}

static const struct datagram_link_ops tap_ops = {
    .name = "tap",
    .open = datagram_alone_open,
    .close = datagram_alone_close,
    .route = tap_route,
    .len_max = tap_len_max,
    .join = tap_join,
    .leave = tap_leave,
    .has_room = datagram_alone_has_room,
    .serve = datagram_alone_serve,
    .unserve = datagram_alone_unserve,
    .is_served = datagram_alone_is_served,
    .bequeath = datagram_alone_bequeath,
    .revoke = datagram_alone_revoke,
    .put = datagram_tap_put,
    .flush = datagram_tap_flush,
    .look_around = datagram_alone_look_around,
    .poll = datagram_tap_poll,
    .receive = datagram_tap_receive,
    .hand_on = datagram_alone_hand_on,
    .receive_buffer_len = tap_receive_buffer_len,
    .next_deadline = tap_next_deadline,
    .may_wait = tap_may_wait,
    .wait = tap_wait,
    .wake = tap_wake,
    .counters = tap_counters,
    .abandon = tap_abandon,
    .destroy = tap_destroy,
};

static void addrs_take(struct datagram_alone *a, const struct net_iface_config *config)
{
    STATIC_CHECK((int)NET_IFACE_ADDR_MAX <= (int)DATAGRAM_ALONE_ADDR_MAX);
    a->addr_count = config->addr_count;
    for (unsigned i = 0; i < a->addr_count; i++) {
        memcpy(a->addrs[i].s6_addr, config->addrs[i].addr.octets, sizeof a->addrs[i].s6_addr);
    }
}

static void lists_init(struct datagram_tap *t)
{
    list_init(&t->unused);
    list_init(&t->staged);
    list_init(&t->waiting);
    list_init(&t->looped);
    list_init(&t->taken);
    for (unsigned i = 0; i < TAP_PACKETS_MAX; i++) {
        list_push_tail(&t->unused, &t->packets[i].link);
    }
}

int datagram_tap_create(const struct datagram_tap_config *config, struct datagram_link **ret)
{
    struct datagram_tap *t = calloc(1, sizeof *t);
    struct net_iface_config iface;
    if (t == NULL) {
        return -ENOMEM;
    }
    int error = tap_interface_open(&t->interface, &config->interface, &iface);
    if (error != 0) {
        free(t);
        return error;
    }
    iface.takes_datagrams = true;
    net_iface_init(&t->iface, &iface);
    t->config = *config;
    t->config.port = config->port != 0 ? config->port : DATAGRAM_UDP_PORT;
    fault_model_init(&t->faults, &config->corrupt);
    lists_init(t);
    addrs_take(&t->alone, &iface);
    const uint8_t hops = t->iface.config.hops;
    t->alone.base.ops = &tap_ops;
    t->alone.base.hops = (struct datagram_hops){hops, hops, hops};
    datagram_slot_take(&t->alone.base, (unsigned)(config->interface.seed % SLOT_COUNT));
    *ret = &t->alone.base;
    return 0;
}
