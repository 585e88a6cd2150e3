#include "link/packet/packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "link/link_none.h"
#include "link/packet/cut.h"
#include "link/packet/internal.h"
#include "link/rest.h"
#include "net/addr.h"
#include "net/host.h"
#include "tcp/state.h"

enum { RESET_MAX = 100 }; // resets in a second for segments of nobody

/* ---- what the host sends --------------------------------------------------------------------- */

static unsigned host_send(void *ctx, struct net_connection *c, const struct tcp_batch *batch)
{
    struct packet_link *l = ctx;
    struct packet_stream *s = LIST_ENTRY(c, struct packet_stream, connection);
    const struct net_segments *segments = packet_cut(&l->cut, batch, l->device->takes_runs);
    unsigned taken = device_send(l->device, s->channel, &c->entry.flow, segments, packet_now(l));
    return packet_cut_taken(&l->cut, taken);
}

static void host_reply(void *ctx, const struct net_flow *flow, void *via,
                       const struct tcp_header *h)
{
    struct packet_link *l = ctx;
    struct tcp_batch batch = {.header = *h, .segment_count = 1};
    const struct net_segments *segments = packet_cut(&l->cut, &batch, false);
    device_send(l->device, via, flow, segments, packet_now(l));
}

/* ---- looking --------------------------------------------------------------------------------- */

static void serve_lingering(struct packet_link *l, instant_ns now)
{
    struct list_link *at = l->lingering.next;
    while (at != &l->lingering) {
        struct packet_stream *s = LIST_ENTRY(at, struct packet_stream, link);
        if (s->linger_until_ns > now) {
            return;
        }
        at = at->next;
        s->linger_until_ns = INSTANT_NEVER; // TIME-WAIT ends by itself
        list_remove(&s->link);
        list_push_tail(&l->lingering, &s->link);
        if (tcp_get_state(s->connection.tcb) != TCP_STATE_TIME_WAIT) {
            packet_linger_end(s);
        }
    }
}

static int packet_poll(struct link *link, struct link_ready *ret, unsigned max)
{
    struct packet_link *l = packet_link_of(link);
    instant_ns now = packet_now(l);
    if (device_poll(l->device, now)) {
        packet_take_events(l, now);
    }
    net_on_deadline(l->host, now);
    serve_lingering(l, now);
    net_output(l->host, now);
    return list_is_empty(&l->ready) ? 0 : packet_collect_ready(l, ret, max);
}

static instant_ns packet_next_deadline(struct link *link)
{
    struct packet_link *l = packet_link_of(link);
    instant_ns at_ns = instant_min(net_next_deadline(l->host), device_next_deadline(l->device));
    if (!list_is_empty(&l->lingering)) {
        struct packet_stream *s = LIST_ENTRY(l->lingering.next, struct packet_stream, link);
        at_ns = instant_min(at_ns, s->linger_until_ns);
    }
    return at_ns;
}

static void packet_wait(struct link *link, duration_ns timeout_ns)
{
    struct device *d = packet_link_of(link)->device;
    device_wait(d, timeout_ns);
}

static void packet_wake(struct link *link)
{
    struct device *d = packet_link_of(link)->device;
    device_wake(d);
}

static int packet_descriptor(const struct link *link)
{
    return device_descriptor(((const struct packet_link *)link)->device);
}

static bool packet_is_busy(struct link *link)
{
    struct packet_link *l = packet_link_of(link);
    const struct list_link *lists[] = {&l->streams, &l->lingering};
    for (unsigned i = 0; i < 2; i++) {
        for (const struct list_link *at = lists[i]->next; at != lists[i]; at = at->next) {
            if (packet_is_unacknowledged(LIST_ENTRY(at, const struct packet_stream, link))) {
                return true;
            }
        }
    }
    return false;
}

/* ---- the link -------------------------------------------------------------------------------- */

static int packet_route(struct link *link, const struct sockaddr *peer,
                        struct sockaddr_storage *ret_src)
{
    struct packet_link *l = packet_link_of(link);
    struct net_addr remote, local;
    uint16_t port;
    uint32_t scope;
    if (!net_addr_from_sockaddr(peer, &remote, &port, &scope)) {
        return -EAFNOSUPPORT;
    }
    int error = device_route(l->device, &remote, scope, &local);
    if (error == 0) {
        net_addr_to_sockaddr(&local, 0, scope, peer->sa_family, ret_src);
    }
    return error;
}

static void packet_abandon(struct link *link)
{
    struct device *d = packet_link_of(link)->device;
    device_abandon(d);
}

static void packet_destroy(struct link *link)
{
    struct packet_link *l = packet_link_of(link);
    struct list_link *at;
    while (!list_is_empty(&l->streams)) {
        packet_close(&LIST_ENTRY(l->streams.next, struct packet_stream, link)->base, true);
    }
    while (!list_is_empty(&l->lingering)) {
        packet_connection_end(LIST_ENTRY(l->lingering.next, struct packet_stream, link));
    }
    while ((at = list_pop_head(&l->rest.streams)) != NULL) {
        free(LIST_ENTRY(at, struct packet_stream, link));
    }
    if (l->host != NULL) {
        net_host_destroy(l->host);
    }
    device_destroy(l->device);
    free(l);
}

// Of the device below, and of the host.
static void packet_packet_counters(const struct link *link, counter_each each, void *ctx)
{
    const struct packet_link *l = packet_link_of(link);
    const struct net_counters *host = net_host_counters(l->host);
    device_counters(l->device, each, ctx);
#define X(name, text) each(ctx, #name, host->name);
    NET_COUNTERS(X)
#undef X
}

static const struct link_ops packet_ops = {
    .name = "packet",
    .bind = packet_bind,
    .listen = packet_listen,
    .accept = packet_accept,
    .connect = packet_connect,
    .connect_result = packet_connect_result,
    .recv = packet_recv,
    .borrow = link_none_borrow,
    .give_back = link_none_give_back,
    .set_place = packet_set_place,
    .resume = packet_resume,
    .send = packet_send,
    .unsettled = packet_unsettled,
    .want_out = packet_want_out,
    .want_in = packet_want_in,
    .shutdown = packet_shutdown,
    .close = packet_close,
    .local_addr = packet_local_addr,
    .peer_addr = packet_peer_addr,
    .emss = packet_emss,
    .set_tos = packet_set_tos,
    .route = packet_route,
    .poll = packet_poll,
    .next_deadline = packet_next_deadline,
    .may_wait = link_none_may_wait,
    .wait = packet_wait,
    .rise = link_rise_by_wait,
    .wake = packet_wake,
    .descriptor = packet_descriptor,
    .stream_counters = packet_stream_counters,
    .packet_counters = packet_packet_counters,
    .is_busy = packet_is_busy,
    .abandon = packet_abandon,
    .destroy = packet_destroy,
};

void link_packet_tune(struct tcp_config *tcp)
{
    tcp->delayed_ack_ns = 1;
    // Longer than most pauses of a thread that is not run.
    tcp->rto_min_ns = tcp->rto_slack_ns = 10 * NS_PER_MS;
}

int link_packet_create(const struct link_packet_config *config, struct device *device,
                       struct link **ret)
{
    struct packet_link *l = calloc(1, sizeof *l);
    struct net_config net = {
        .reset_max = RESET_MAX,
        .port = {.send = host_send,
                 .reply = host_reply,
                 .on_events = packet_on_events,
                 .on_incoming = packet_on_incoming,
                 .ctx = l},
    };
    memcpy(net.secret, config->secret, sizeof net.secret);
    struct net_host *host = l == NULL ? NULL : net_host_create(&net);
    if (host == NULL) {
        free(l);
        device_destroy(device);
        return -ENOMEM;
    }
    l->base.ops = &packet_ops;
    l->base.facts = LINK_HAS_SEGMENTS | LINK_HAS_PLACES | LINK_IS_OF_PROCESS;
    l->base.journal = device->journal;
    l->config = *config;
    l->host = host;
    l->device = device;
    list_init(&l->streams);
    list_init(&l->ready);
    list_init(&l->lingering);
    rest_init(&l->rest);
    *ret = &l->base;
    return 0;
}
