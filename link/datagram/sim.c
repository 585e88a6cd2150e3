#include "link/datagram/sim.h"

#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/span.h"
#include "base/time.h"
#include "link/datagram/alone.h"
#include "link/datagram/octets.h"
#include "link/datagram/sim_end.h"
#include "link/datagram/slot.h"
#include "wire/icrc.h"

enum { HOPS = 64 };

static struct datagram_sim *end_of(const struct datagram_link *link)
{
    return (struct datagram_sim *)link;
}

/* ---- addresses ------------------------------------------------------------------------------- */

// Its own address for what stays at home, else the first of the family.
static int end_route(struct datagram_link *link, const struct in6_addr *remote, uint32_t scope_id,
                     struct in6_addr *ret_local)
{
    struct datagram_sim *e = end_of(link);
    if (datagram_alone_has_addr(&e->alone, remote)) {
        *ret_local = *remote;
        return 0;
    }
    for (unsigned i = 0; i < e->alone.addr_count; i++) {
        if (!IN6_IS_ADDR_V4MAPPED(&e->alone.addrs[i]) == !IN6_IS_ADDR_V4MAPPED(remote)) {
            *ret_local = e->alone.addrs[i];
            return 0;
        }
    }
    return -ENETUNREACH;
}

static uint32_t end_len_max(struct datagram_link *link, const struct datagram_path *path)
{
    uint32_t len = end_of(link)->net->config.mtu - datagram_sim_headers_len(&path->remote);
    return len < DATAGRAM_LEN_MAX + ICRC_LEN ? len : DATAGRAM_LEN_MAX + ICRC_LEN;
}

/* ---- out ------------------------------------------------------------------------------------- */

static struct datagram_sim_packet *packet_new(const struct datagram_tx *tx, size_t len)
{
    struct datagram_sim_packet *p = malloc(sizeof *p + len);
    if (p == NULL) {
        return NULL;
    }
    *p = (struct datagram_sim_packet){.path = *tx->path, .len = len};
    datagram_tx_copy(tx, p->octets);
    return p;
}

static uint64_t waiting_len(const struct datagram_sim *e, instant_ns now)
{
    return e->sent_at_ns <= now ? 0 : (e->sent_at_ns - now) * e->net->config.send_rate / NS_PER_S;
}

static bool has_room(const struct datagram_sim *e, size_t len, instant_ns now)
{
    uint32_t limit = e->net->config.send_buffer_len;
    uint64_t waiting = waiting_len(e, now);
    return limit == 0 || waiting == 0 || waiting + len <= limit;
}

static bool end_put(struct datagram_link *link, const struct datagram_tx *tx)
{
    struct datagram_sim *e = end_of(link);
    size_t len = datagram_tx_len(tx);
    instant_ns now = datagram_net_now(e->net);
    struct datagram_sim_packet *p = has_room(e, len, now) ? packet_new(tx, len) : NULL;
    if (p == NULL) {
        e->was_full = true;
        return false;
    }
    instant_ns begin_ns = e->sent_at_ns > now ? e->sent_at_ns : now;
    p->at_ns = e->sent_at_ns =
        begin_ns + datagram_sim_time(datagram_sim_wire_len(p), e->net->config.send_rate);
    list_push_tail(&e->staged, &p->link);
    e->counters.packets_out++;
    return true;
}

static bool end_flush(struct datagram_link *link)
{
    struct datagram_sim *e = end_of(link);
    struct list_link *l;
    while ((l = list_pop_head(&e->staged)) != NULL) {
        struct datagram_sim_packet *p = LIST_ENTRY(l, struct datagram_sim_packet, link);
        datagram_net_send(e->net, p);
        free(p);
    }
    return true;
}

/* ---- in -------------------------------------------------------------------------------------- */

static unsigned end_poll(struct datagram_link *link, instant_ns now)
{
    struct datagram_sim *e = end_of(link);
    bool is_room = e->was_full && has_room(e, DATAGRAM_LEN_MAX, now);
    e->was_full = e->was_full && !is_room;
    return (list_is_empty(&e->arrived) ? 0 : DATAGRAM_READY_IN) |
           (is_room ? DATAGRAM_READY_ROOM : 0);
}

static unsigned end_receive(struct datagram_link *link, struct datagram_rx *ret, unsigned max,
                            instant_ns now)
{
    struct datagram_sim *e = end_of(link);
    unsigned count = 0;
    datagram_sim_packets_free(&e->taken);
    while (count < max && !list_is_empty(&e->arrived)) {
        struct datagram_sim_packet *p =
            LIST_ENTRY(list_pop_head(&e->arrived), struct datagram_sim_packet, link);
        list_push_tail(&e->taken, &p->link);
        e->arrived_len -= p->len;
        ret[count++] = (struct datagram_rx){
            .local = p->path.remote,
            .remote = p->path.local,
            .scope_id = p->path.scope_id,
            .flow_label = p->path.flow_label,
            .source_port = p->path.source_port,
            .traffic_class = p->path.traffic_class,
            .hop_limit = datagram_hop_limit(&e->alone.base, &p->path),
            .is_checked = !e->net->config.is_unchecked,
            .octets = span_of(p->octets, p->len),
        };
    }
    e->counters.packets_in += count;
    return count;
}

static uint64_t end_receive_buffer_len(const struct datagram_link *link)
{
    uint32_t len = end_of(link)->net->config.receive_buffer_len;
    return len != 0 ? len : UINT64_MAX;
}

// When there is room again.
static instant_ns end_next_deadline(struct datagram_link *link)
{
    struct datagram_sim *e = end_of(link);
    const struct datagram_net_config *c = &e->net->config;
    if (!e->was_full) {
        return INSTANT_NEVER;
    }
    duration_ns left_ns =
        c->send_buffer_len > DATAGRAM_LEN_MAX
            ? datagram_sim_time(c->send_buffer_len - DATAGRAM_LEN_MAX, c->send_rate)
            : 0;
    return e->sent_at_ns > left_ns ? e->sent_at_ns - left_ns : 0;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static bool end_may_wait(struct datagram_link *link)
{
    return true;
}

static void end_wait(struct datagram_link *link, duration_ns timeout_ns)
{
}

static void end_wake(struct datagram_link *link)
{
}

static void end_abandon(struct datagram_link *link)
{
}

static void end_counters(const struct datagram_link *link, counter_each each, void *ctx)
{
    const struct datagram_sim *e = end_of(link);
#define X(name, text) each(ctx, #name, e->counters.name);
    DATAGRAM_SIM_COUNTERS(X)
#undef X
}

static void end_destroy(struct datagram_link *link)
{
    struct datagram_sim *e = end_of(link);
    struct list_link *l = e->net->under_way.next;
    while (l != &e->net->under_way) {
        struct datagram_sim_packet *p = LIST_ENTRY(l, struct datagram_sim_packet, link);
        l = l->next;
        if (p->to == e) {
            list_remove(&p->link);
            free(p);
        }
    }
    datagram_sim_packets_free(&e->staged);
    datagram_sim_packets_free(&e->arrived);
    datagram_sim_packets_free(&e->taken);
    list_remove(&e->link);
    free(e);
}

static const struct datagram_link_ops end_ops = {
    .name = "sim",
    .open = datagram_alone_open,
    .close = datagram_alone_close,
    .route = end_route,
    .len_max = end_len_max,
    .join = datagram_alone_join,
    .leave = datagram_alone_leave,
    .has_room = datagram_alone_has_room,
    .serve = datagram_alone_serve,
    .unserve = datagram_alone_unserve,
    .is_served = datagram_alone_is_served,
    .bequeath = datagram_alone_bequeath,
    .revoke = datagram_alone_revoke,
    .put = end_put,
    .flush = end_flush,
    .look_around = datagram_alone_look_around,
    .poll = end_poll,
    .receive = end_receive,
    .hand_on = datagram_alone_hand_on,
    .receive_buffer_len = end_receive_buffer_len,
    .next_deadline = end_next_deadline,
    .may_wait = end_may_wait,
    .wait = end_wait,
    .wake = end_wake,
    .counters = end_counters,
    .abandon = end_abandon,
    .destroy = end_destroy,
};

// The first slot that no link with one of its addresses has.
static unsigned slot_find(const struct datagram_net *net, const struct datagram_sim *e)
{
    unsigned slot = 0;
    for (struct list_link *l = net->ends.next; l != &net->ends;) {
        const struct datagram_sim *other = LIST_ENTRY(l, struct datagram_sim, link);
        bool is_taken = other->alone.base.qp_num_first / DATAGRAM_SLOT_LEN == slot;
        bool is_shared = false;
        for (unsigned i = 0; is_taken && i < e->alone.addr_count; i++) {
            is_shared = is_shared || datagram_alone_has_addr(&other->alone, &e->alone.addrs[i]);
        }
        slot += is_shared;
        l = is_shared ? net->ends.next : l->next;
    }
    return slot;
}

struct datagram_link *datagram_net_attach(struct datagram_net *net, const struct in6_addr *addrs,
                                          unsigned count)
{
    struct datagram_sim *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return NULL;
    }
    e->alone.base.ops = &end_ops;
    e->alone.base.hops = (struct datagram_hops){HOPS, HOPS, HOPS};
    e->net = net;
    memcpy(e->alone.addrs, addrs, count * sizeof *addrs);
    e->alone.addr_count = count;
    list_init(&e->staged);
    list_init(&e->arrived);
    list_init(&e->taken);
    unsigned slot = slot_find(net, e);
    if (slot >= DATAGRAM_SIM_LINK_MAX) {
        free(e);
        return NULL;
    }
    datagram_slot_take(&e->alone.base, slot);
    list_push_tail(&net->ends, &e->link);
    return &e->alone.base;
}
