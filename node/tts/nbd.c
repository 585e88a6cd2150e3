// NBD: what the UMA sees of the TTS, and what its server of streams asks a connection.

#include "node/tts/nbd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/time.h"
#include "listen/address.h"
#include "node/interface/cta_tts.h"
#include "node/interface/volume.h"
#include "node/stream/server.h"
#include "node/stream/stream.h"
#include "node/tts/nbd_connection.h"

enum { URI_MAX = 512 };

static const duration_ns drain_ns = 5 * NS_PER_S;

static struct nbd_connection *connection_of(const struct stream *s)
{
    return LIST_ENTRY(s, struct nbd_connection, stream);
}

/* ---- what the server of streams asks --------------------------------------------------------- */

static struct stream *stream_create(void *ctx)
{
    struct nbd_connection *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->nbd = ctx;
    list_init(&c->free);
    list_init(&c->replies);
    return &c->stream;
}

static bool begin(struct stream *s)
{
    struct nbd_connection *c = connection_of(s);
    struct client *client = &c->connect.client;
    c->connect.tts = &nbd_for_uma;
    c->connect.service = &nbd_for_cta;
    c->connect.tts_ctx = c->nbd;
    c->connect.cookie = (uint64_t)(uintptr_t)c;
    address_of_peer(s->fd, client->address);
    snprintf(client->host, sizeof client->host, "%s", s->host);
    snprintf(client->service, sizeof client->service, "%s", nbd_for_uma.name);
    return nbd_greet(c);
}

static enum stream_verdict take(struct stream *s, instant_ns now)
{
    struct nbd_connection *c = connection_of(s);
    return c->state == NBD_TRANSMISSION ? nbd_transmit(c, now) : nbd_negotiate(c);
}

static uint8_t *direct(struct stream *s, uint32_t *ret_len)
{
    return nbd_direct(connection_of(s), ret_len);
}

static void received(struct stream *s, uint32_t len, instant_ns now)
{
    nbd_received(connection_of(s), len);
}

static bool wants_input(const struct stream *s)
{
    const struct nbd_connection *c = connection_of(s);
    if (c->state == NBD_CONNECTING || c->is_dropped || c->is_full || c->drain == NBD_ANSWERS_REST) {
        return false;
    }
    bool waits_for_buffer = c->writing != NULL && !c->may_fill;
    bool waits_for_others = waits_for_buffer || (c->is_one_run && c->under_way > 0);
    return c->state != NBD_TRANSMISSION || (!waits_for_others && !list_is_empty(&c->free));
}

static bool wants_look(const struct stream *s)
{
    const struct nbd_connection *c = connection_of(s);
    return c->may_fill || c->drain == NBD_TAKES_REST;
}

static void drain(struct nbd_connection *c)
{
    const struct stream *s = &c->stream;
    bool is_between = c->writing == NULL && c->skip == 0 && s->in_at == s->in_len;
    if (c->drain == NBD_TAKES_REST && s->is_dry && is_between) {
        c->drain = NBD_ANSWERS_REST;
    }
}

static int flush(struct stream *s, instant_ns now)
{
    struct nbd_connection *c = connection_of(s);
    if (c->is_dropped && c->state != NBD_CONNECTING) {
        return -ESHUTDOWN;
    }
    int error = nbd_out_send(c, now);
    error = error == 0 ? nbd_reply(c, now) : error;
    drain(c);
    if (error == 0 && c->drain == NBD_ANSWERS_REST && c->under_way == 0) {
        stream_discard(s);
        return -ESHUTDOWN;
    }
    return error;
}

static void expects(struct stream *s, instant_ns now)
{
    const struct nbd_connection *c = connection_of(s);
    stream_await(s, c->writing != NULL && c->may_fill, !list_is_empty(&c->replies), now);
}

static void on_end(struct stream *s, instant_ns now)
{
    struct nbd_connection *c = connection_of(s);
    c->has_left = c->state != NBD_CONNECTING; // else once the UMA has answered
    c->state = NBD_ENDING;
    nbd_abandon(c, now);
    if (c->is_established) {
        c->nbd->parts.cta->leave(c->nbd->parts.cta_ctx, c->connection, now);
    }
}

static bool leave(struct stream *s)
{
    struct nbd_connection *c = connection_of(s);
    if (!c->has_left || c->under_way > 0) {
        return false;
    }
    if (c->is_established) {
        c->nbd->parts.uma->disconnect(c->nbd->parts.uma_ctx, c->connection);
    }
    return true;
}

static void destroy(struct stream *s)
{
    struct nbd_connection *c = connection_of(s);
    free(c->out);
    free(c->requests);
    free(c);
}

static const struct stream_protocol nbd_protocol = {
    .name = "nbd",
    .peer = "client",
    .title = "NBD",
    .stream_max = NBD_CONNECTION_MAX,
    .stream_of_host_max = NBD_CONNECTION_OF_HOST_MAX,
    .in_len = NBD_IN_LEN,
    .handshake_ns = 10 * NS_PER_S,
    .create = stream_create,
    .begin = begin,
    .take = take,
    .direct = direct,
    .received = received,
    .wants_input = wants_input,
    .wants_look = wants_look,
    .flush = flush,
    .expects = expects,
    .on_end = on_end,
    .leave = leave,
    .destroy = destroy,
};

/* ---- what the UMA calls ---------------------------------------------------------------------- */

static int tts_start(void *ctx, struct why *ret_why)
{
    return stream_server_listen(&((struct nbd *)ctx)->server, ret_why);
}

static void tts_advertise(void *ctx, const struct resource_table *table)
{
    // Clients ask (NBD_OPT_LIST); the protocol has no way to tell them.
}

static void tts_on_connected(void *ctx, struct connect_request *request)
{
    struct nbd_connection *c = LIST_ENTRY(request, struct nbd_connection, connect);
    if (c->state == NBD_ENDING) { // the client left meanwhile
        c->connection = request->connection;
        c->is_established = request->status == CONNECT_OK;
        c->has_left = true;
    } else {
        nbd_answer_connect(c);
        if (c->state == NBD_TRANSMISSION) { // who is refused has the time that was left
            c->stream.silent_until_ns = INSTANT_NEVER;
        }
    }
    stream_touch(&c->stream);
}

static void tts_drop(void *ctx, uint32_t connection)
{
    const struct list_link *all = &((struct nbd *)ctx)->server.streams;
    for (struct list_link *l = all->next; l != all; l = l->next) {
        struct nbd_connection *c = connection_of(LIST_ENTRY(l, struct stream, link));
        if (c->is_established && c->connection == connection) {
            c->is_dropped = true;
            stream_touch(&c->stream);
        }
    }
}

static void tts_stop(void *ctx)
{
    struct nbd *nbd = ctx;
    const struct list_link *all = &nbd->server.streams;
    instant_ns now = loop_now(nbd->parts.loop);
    stream_server_close(&nbd->server);
    for (struct list_link *l = all->next; l != all; l = l->next) {
        struct nbd_connection *c = connection_of(LIST_ENTRY(l, struct stream, link));
        if (c->state == NBD_TRANSMISSION) {
            c->drain = NBD_TAKES_REST;
            c->stream.is_dry = false;
            c->stream.silent_until_ns = instant_after(now, drain_ns);
        } else {
            c->is_dropped = true;
        }
        stream_touch(&c->stream);
    }
}

static bool tts_uri(void *ctx, const struct resource *volume, unsigned index, char *ret,
                    size_t capacity)
{
    const struct stream_server *server = &((const struct nbd *)ctx)->server;
    if (index >= server->listener_count) {
        return false;
    }
    const struct stream_listener *l = &server->listeners[index];
    if (l->unix_path[0] != '\0') {
        snprintf(ret, capacity, "nbd+unix:///%s?socket=%s", volume->name, l->unix_path);
    } else {
        snprintf(ret, capacity, "nbd://%s/%s", l->authority, volume->name);
    }
    return true;
}

static void tts_hint(void *ctx, const struct resource *volume, char *ret, size_t capacity)
{
    char uri[URI_MAX] = "";
    tts_uri(ctx, volume, 0, uri, sizeof uri);
    snprintf(ret, capacity, "qemu-img info '%s'", uri);
}

static void tts_figures(void *ctx, tts_figure *figure, void *figure_ctx)
{
    struct nbd_counters c = nbd_counters(ctx);
#define X(name, text) figure(figure_ctx, #name, TTS_COUNTER, c.name);
    NBD_COUNTERS(X)
#undef X
}

const struct tts_for_uma nbd_for_uma = {
    .name = "nbd",
    .start = tts_start,
    .advertise = tts_advertise,
    .on_connected = tts_on_connected,
    .drop = tts_drop,
    .stop = tts_stop,
    .figures = tts_figures,
    .uri = tts_uri,
    .hint = tts_hint,
};

/* ---- its life -------------------------------------------------------------------------------- */

struct nbd *nbd_tts_create(const struct nbd_parts *parts)
{
    struct nbd *nbd = calloc(1, sizeof *nbd);
    if (nbd == NULL) {
        return NULL;
    }
    nbd->parts = *parts;
    stream_server_init(&nbd->server, &nbd_protocol,
                       &(struct stream_server_parts){.loop = parts->loop,
                                                     .listen = parts->listen,
                                                     .patience_ns = parts->patience_ns,
                                                     .say = parts->say,
                                                     .say_ctx = parts->ctx,
                                                     .ctx = nbd});
    return nbd;
}

void nbd_tts_destroy(struct nbd *nbd)
{
    if (nbd != NULL) {
        stream_server_fini(&nbd->server);
        free(nbd);
    }
}

struct nbd_counters nbd_counters(const struct nbd *nbd)
{
    struct nbd_counters counters = nbd->counters;
    counters.accepted = nbd->server.counters.accepted;
    counters.refused += nbd->server.counters.refused;
    counters.stalled = nbd->server.counters.stalled;
    return counters;
}
