// The packet link's streams: bound, listening, connected, closed and lingering.

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno_name.h"
#include "base/port_link.h"
#include "base/siphash.h"
#include "base/span.h"
#include "base/time.h"
#include "base/trace.h"
#include "link/device/device.h"
#include "link/packet/internal.h"
#include "net/addr.h"
#include "tcp/tcp.h"
#include "wire/ip.h"

enum { BACKLOG_DEFAULT = 128, HALF_OPEN_MIN = 64, SYN_ACK_RETRIES = 5, LINGERING_MAX = 1024 };

/* ---- made, and at rest ----------------------------------------------------------------------- */

struct packet_stream *packet_stream_new(struct packet_link *l, void *owner)
{
    struct list_link *rested = rest_take(&l->rest);
    struct packet_stream *s =
        rested != NULL ? LIST_ENTRY(rested, struct packet_stream, link) : malloc(sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    *s = (struct packet_stream){.base = {.link = &l->base, .owner = owner, .facts = l->base.facts},
                                .wants_in = true};
    list_init(&s->ready_link);
    list_init(&s->waiting);
    list_init(&s->waiting_link);
    list_push_tail(&l->streams, &s->link);
    return s;
}

static void stream_rest(struct packet_stream *s)
{
    struct packet_link *l = packet_link_of(s->base.link);
    if (s->channel != NULL) {
        device_close(l->device, s->channel);
        s->channel = NULL;
    }
    s->base.owner = NULL;
    list_remove(&s->ready_link);
    list_remove(&s->link);
    rest_put(&l->rest, &s->link);
}

void packet_connection_end(struct packet_stream *s)
{
    struct packet_link *l = packet_link_of(s->base.link);
    packet_count_ended(l, s);
    net_connection_destroy(l->host, &s->connection);
    packet_stream_move(s, PACKET_STREAM_ON_OVER);
    if (s->state == PACKET_STREAM_RESTING) {
        l->lingering_count--;
        stream_rest(s);
    }
}

/* ---- addresses ------------------------------------------------------------------------------- */

static int place_parse(const struct sockaddr *addr, struct net_flow *ret)
{
    *ret = (struct net_flow){0};
    return net_addr_from_sockaddr(addr, &ret->local, &ret->local_port, &ret->scope) ? 0
                                                                                    : -EAFNOSUPPORT;
}

int packet_local_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    const struct packet_stream *s = packet_stream_of(stream);
    if (s->family == AF_UNSPEC) {
        return -ENOTCONN;
    }
    net_addr_to_sockaddr(&s->flow.local, s->flow.local_port, s->flow.scope, s->family, ret);
    return 0;
}

int packet_peer_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    const struct packet_stream *s = packet_stream_of(stream);
    if (!packet_has_connection(s)) {
        return -ENOTCONN;
    }
    net_addr_to_sockaddr(&s->flow.remote, s->flow.remote_port, s->flow.scope, s->family, ret);
    return 0;
}

int packet_set_tos(struct link_stream *stream, uint8_t tos)
{
    struct packet_stream *s = packet_stream_of(stream);
    struct packet_link *l = packet_link_of(stream->link);
    s->tos = tos & (uint8_t)~IP_ECN_MASK; // those bits are TCP's, as they are the kernel's
    if (s->channel != NULL) {
        device_set_tos(l->device, s->channel, s->tos);
    }
    return 0;
}

/* ---- bound and listening --------------------------------------------------------------------- */

static void channel_set(struct packet_stream *s, struct channel *channel)
{
    struct packet_link *l = packet_link_of(s->base.link);
    s->channel = channel;
    channel->owner = s;
    if (s->tos != 0) {
        device_set_tos(l->device, channel, s->tos);
    }
}

static int stream_open(struct packet_stream *s, const struct sockaddr *addr, unsigned flags)
{
    struct packet_link *l = packet_link_of(s->base.link);
    struct channel *channel;
    int error = place_parse(addr, &s->flow);
    if (error == 0) {
        error = device_open(l->device, &s->flow, flags, &channel);
    }
    if (error == 0) {
        channel_set(s, channel);
        s->family = addr->sa_family;
        s->listener.is_v6_only = (flags & LINK_BIND_V6_ONLY) != 0;
    }
    return error;
}

int packet_bind(struct link *link, const struct sockaddr *addr, unsigned flags, void *owner,
                struct link_stream **ret)
{
    struct packet_stream *s = packet_stream_new(packet_link_of(link), owner);
    if (s == NULL) {
        return -ENOMEM;
    }
    int error = addr == NULL ? 0 : stream_open(s, addr, flags);
    if (error != 0) {
        packet_stream_move(s, PACKET_STREAM_ON_CLOSE);
        stream_rest(s);
        return error;
    }
    *ret = &s->base;
    return 0;
}

static uint16_t path_mss(const struct packet_stream *s, const struct net_flow *flow)
{
    struct packet_link *l = packet_link_of(s->base.link);
    return packet_mss(device_segment_len_max(l->device, s->channel, flow));
}

static uint16_t listener_mss(void *ctx, const struct tcp_tuple *tuple)
{
    struct net_flow flow = net_flow_of_tuple(tuple);
    return path_mss(ctx, &flow);
}

int packet_listen(struct link_stream *stream, int backlog)
{
    struct packet_stream *s = packet_stream_of(stream);
    struct packet_link *l = packet_link_of(stream->link);
    if (!packet_stream_may(s->state, PACKET_STREAM_ON_LISTEN) || s->channel == NULL) {
        return -EINVAL;
    }
    s->listener.place = s->flow;
    s->listener.backlog = backlog > 0 ? (unsigned)backlog : BACKLOG_DEFAULT;
    s->listener.waiting_count = 0;
    s->listener.via = s->channel;
    struct tcp_listener_config config = {.connection = l->config.tcp,
                                         .half_open_max = HALF_OPEN_MIN,
                                         .syn_ack_retries = SYN_ACK_RETRIES,
                                         .answers_once = l->config.answers_once};
    if (s->listener.backlog > HALF_OPEN_MIN) {
        config.half_open_max =
            (uint16_t)(s->listener.backlog < UINT16_MAX ? s->listener.backlog : UINT16_MAX);
    }
    config.connection.mss = path_mss(s, &s->flow);
    config.path_mss = listener_mss;
    config.path_ctx = s;
    config.connection.place = packet_place_port(NULL); // each connection gets its own
    int error = net_listener_create(l->host, &s->listener, &config);
    if (error == 0) {
        packet_stream_move(s, PACKET_STREAM_ON_LISTEN);
    }
    return error;
}

/* ---- incoming -------------------------------------------------------------------------------- */

static int connection_make(struct packet_stream *s, const struct tcp_config *config)
{
    struct packet_link *l = packet_link_of(s->base.link);
    struct tcp_config tcp = *config;
    struct tcp_tuple tuple = net_flow_tuple(&s->flow);
    tcp.mss = path_mss(s, &s->flow);
    tcp.place = packet_place_port(s);
    tcp.timestamp_offset = (uint32_t)siphash(l->config.secret, span_of(&tuple, sizeof tuple));
    return net_connection_create(l->host, &s->connection, &s->flow, &tcp);
}

struct net_connection *packet_on_incoming(void *ctx, struct net_listener *listener,
                                          const struct net_flow *flow, void *via,
                                          const struct tcp_config *config)
{
    struct packet_link *l = ctx;
    struct packet_stream *from = LIST_ENTRY(listener, struct packet_stream, listener);
    struct packet_stream *s = packet_stream_new(l, NULL);
    struct channel *channel;
    if (s == NULL) {
        return NULL;
    }
    s->flow = *flow;
    s->family = from->family;
    s->tos = from->tos;
    int error = device_accept(l->device, from->channel, flow, &channel);
    if (error == 0) {
        channel_set(s, channel);
        error = connection_make(s, config);
    }
    if (error != 0) {
        TRACE(l->config.trace, TRACE_LINK, "incoming connection refused: %s", errno_name(-error));
        packet_stream_move(s, PACKET_STREAM_ON_CLOSE);
        stream_rest(s);
        return NULL;
    }
    packet_stream_move(s, PACKET_STREAM_ON_INCOMING);
    s->is_up = true;
    list_push_tail(&from->waiting, &s->waiting_link);
    listener->waiting_count++;
    packet_note_ready(from);
    return &s->connection;
}

int packet_accept(struct link_stream *listener, struct link_stream **ret)
{
    struct packet_stream *from = packet_stream_of(listener);
    struct list_link *waiting = list_pop_head(&from->waiting);
    if (waiting == NULL) {
        return -EAGAIN;
    }
    struct packet_stream *s = LIST_ENTRY(waiting, struct packet_stream, waiting_link);
    packet_stream_move(s, PACKET_STREAM_ON_ACCEPT);
    from->listener.waiting_count--;
    packet_note_ready(s);
    *ret = &s->base;
    return 0;
}

/* ---- outgoing -------------------------------------------------------------------------------- */

// Any address of the peer's family and a free port, for a stream that has none.
static int open_any(struct packet_stream *s, int family)
{
    struct sockaddr_storage any = {.ss_family = (sa_family_t)family};
    return stream_open(s, (struct sockaddr *)&any, 0);
}

int packet_connect(struct link_stream *stream, const struct sockaddr *peer)
{
    struct packet_stream *s = packet_stream_of(stream);
    struct packet_link *l = packet_link_of(stream->link);
    if (!packet_stream_may(s->state, PACKET_STREAM_ON_CONNECT)) {
        return -EISCONN;
    }
    int error = s->channel == NULL ? open_any(s, peer->sa_family) : 0;
    struct net_flow flow = s->flow;
    uint32_t scope;
    if (error == 0 && !net_addr_from_sockaddr(peer, &flow.remote, &flow.remote_port, &scope)) {
        error = -EAFNOSUPPORT;
    }
    if (error != 0) {
        return error;
    }
    flow.scope = scope != 0 ? scope : flow.scope;
    error = device_connect(l->device, s->channel, &flow);
    if (error != 0) {
        return error;
    }
    s->flow = flow;
    error = connection_make(s, &l->config.tcp);
    if (error != 0) {
        return error;
    }
    instant_ns now = packet_now(l);
    packet_stream_move(s, PACKET_STREAM_ON_CONNECT);
    s->wants_out = true;
    tcp_connect(s->connection.tcb, net_iss(l->host, &s->connection, now), now);
    net_touch(l->host, &s->connection);
    net_output(l->host, now);
    return -EINPROGRESS;
}

int packet_connect_result(struct link_stream *stream)
{
    struct packet_stream *s = packet_stream_of(stream);
    if (s->error != 0) {
        s->is_error_named = true;
        return s->error;
    }
    if (s->state != PACKET_STREAM_CONNECTED) {
        return -EINPROGRESS;
    }
    if (!s->is_up) { // afterwards the wish is the user's
        s->is_up = true;
        s->wants_out = false;
    }
    return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

// Nothing moves on this connection any more. The orderly end of both sides is no news beyond the
// peer's FIN.
static void on_over(struct packet_stream *s)
{
    int status = tcp_status(s->connection.tcb);
    if (s->error == 0) {
        s->error = status != 0 ? status : -EPIPE;
        s->is_error_named = status == 0;
    }
    packet_connection_end(s);
}

void packet_on_events(void *ctx, struct net_connection *c, unsigned events)
{
    struct packet_stream *s = LIST_ENTRY(c, struct packet_stream, connection);
    if ((events & TCP_EVENT_ESTABLISHED) != 0 && s->state == PACKET_STREAM_CONNECTING) {
        packet_stream_move(s, PACKET_STREAM_ON_ESTABLISHED);
    }
    if ((events & TCP_EVENT_FIN) != 0) {
        s->has_fin = true;
    }
    s->has_settled |= (events & TCP_EVENT_ACKED) != 0;
    if (s->state != PACKET_STREAM_LINGERING) {
        packet_note_ready(s);
    }
    if ((events & TCP_EVENT_OVER) != 0) {
        on_over(s);
    }
}

/* ---- closing --------------------------------------------------------------------------------- */

static void listener_close(struct packet_stream *s)
{
    struct list_link *i;
    while ((i = list_pop_head(&s->waiting)) != NULL) {
        packet_close(&LIST_ENTRY(i, struct packet_stream, waiting_link)->base, true);
    }
    net_listener_destroy(packet_link_of(s->base.link)->host, &s->listener);
}

// The connection goes on without its user until the peer has answered its FIN.
static void linger(struct packet_stream *s, instant_ns now)
{
    struct packet_link *l = packet_link_of(s->base.link);
    s->base.owner = NULL;
    s->linger_until_ns = instant_after(now, l->config.linger_ns);
    list_remove(&s->ready_link);
    list_remove(&s->link);
    list_push_tail(&l->lingering, &s->link);
    if (++l->lingering_count > LINGERING_MAX) {
        packet_linger_end(LIST_ENTRY(l->lingering.next, struct packet_stream, link));
    }
}

void packet_linger_end(struct packet_stream *s)
{
    tcp_abort(s->connection.tcb);
    net_touch(packet_link_of(s->base.link)->host, &s->connection);
}

void packet_close(struct link_stream *stream, bool abort)
{
    struct packet_stream *s = packet_stream_of(stream);
    struct packet_link *l = packet_link_of(stream->link);
    instant_ns now = packet_now(l);
    if (s->state == PACKET_STREAM_LISTENING) {
        listener_close(s);
    }
    packet_stream_move(s, PACKET_STREAM_ON_CLOSE);
    if (s->state == PACKET_STREAM_RESTING) {
        stream_rest(s);
        return;
    }
    linger(s, now);
    if (abort) {
        tcp_abort(s->connection.tcb);
    } else {
        tcp_close(s->connection.tcb, now);
        tcp_resume(s->connection.tcb, now); // what nobody read is thrown away
    }
    net_touch(l->host, &s->connection);
    net_output(l->host, now); // if that was the end, the stream rests now
}
