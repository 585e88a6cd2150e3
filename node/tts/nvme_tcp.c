// NVMe/TCP: what the UMA sees of the TTS, and what its server of streams asks a connection.

#include "node/tts/nvme_tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_tcp_wire.h"
#include "format/nvme_wire.h"
#include "listen/address.h"
#include "node/stream/server.h"
#include "node/stream/stream.h"
#include "node/tts/nvme_tcp_connection.h"
#include "text/address.h"
#include "text/endpoint.h"
#include "text/quantity.h"

static const duration_ns leave_ns = 5 * NS_PER_S;

static struct nvme_tcp_connection *connection_of(const struct stream *s)
{
    return LIST_ENTRY(s, struct nvme_tcp_connection, stream);
}

/* ---- what the server of streams asks --------------------------------------------------------- */

static struct stream *stream_create(void *ctx)
{
    struct nvme_tcp_connection *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->tcp = ctx;
    list_init(&c->outs);
    list_init(&c->free);
    list_init(&c->control.link);
    return &c->stream;
}

static bool begin(struct stream *s)
{
    connection_of(s)->connect_by = s->silent_until_ns;
    return true;
}

static enum stream_verdict take(struct stream *s, instant_ns now)
{
    return nvme_tcp_take(connection_of(s), now);
}

static uint8_t *direct(struct stream *s, uint32_t *ret_len)
{
    return nvme_tcp_direct(connection_of(s), ret_len);
}

static void received(struct stream *s, uint32_t len, instant_ns now)
{
    nvme_tcp_received(connection_of(s), len);
}

static bool wants_input(const struct stream *s)
{
    const struct nvme_tcp_connection *c = connection_of(s);
    return c->state == NVME_TCP_TERMINATED || (c->state < NVME_TCP_TERMINATED && !c->is_full);
}

// It is no queue any more, and nothing is lent to it.
static void give_up(struct nvme_tcp_connection *c, instant_ns now)
{
    if (c->queue != NULL) {
        nvme_queue_close(c->queue, now);
    }
    nvme_tcp_abandon(c, now);
}

static int flush(struct stream *s, instant_ns now)
{
    struct nvme_tcp_connection *c = connection_of(s);
    int error = nvme_tcp_flush(c, now);
    if (error == 0 && c->state == NVME_TCP_TERMINATED) {
        stream_say_no_more(s);
        give_up(c, now);
    }
    return error == 0 && c->state == NVME_TCP_LEAVING ? -ESHUTDOWN : error;
}

// How long silence may last now. A Connect has until `connect_by`, however many are refused; while
// one is under way, the node is awaited.
static void expects(struct stream *s, instant_ns now)
{
    const struct nvme_tcp_connection *c = connection_of(s);
    if (c->state == NVME_TCP_LEAVING || c->state == NVME_TCP_TERMINATED) {
        s->silent_until_ns = instant_min(s->silent_until_ns, instant_after(now, leave_ns));
    } else if (c->queue != NULL &&
               (nvme_queue_is_connected(c->queue) || !nvme_queue_is_idle(c->queue))) {
        s->silent_until_ns = INSTANT_NEVER;
    } else {
        s->silent_until_ns = c->connect_by;
    }
    stream_await(s, c->incoming.is_on || c->asked_count > 0, !list_is_empty(&c->outs), now);
}

static void on_end(struct stream *s, instant_ns now)
{
    struct nvme_tcp_connection *c = connection_of(s);
    c->state = NVME_TCP_ENDED;
    give_up(c, now);
}

static bool leave(struct stream *s)
{
    struct nvme_tcp_connection *c = connection_of(s);
    if (c->queue != NULL && !nvme_queue_is_over(c->queue)) {
        return false;
    }
    nvme_queue_destroy(c->queue);
    c->queue = NULL;
    return true;
}

static void destroy(struct stream *s)
{
    struct nvme_tcp_connection *c = connection_of(s);
    nvme_queue_force_destroy(c->queue);
    free(c->commands);
    free(c->staging);
    free(c->scratch);
    free(c);
}

static const struct stream_protocol nvme_tcp_protocol = {
    .name = "nvme-tcp",
    .peer = "host",
    .title = "NVMe/TCP",
    .stream_max = NVME_TCP_CONNECTION_MAX,
    .stream_of_host_max = NVME_TCP_CONNECTION_OF_HOST_MAX,
    .in_len = NVME_TCP_IN_LEN,
    .handshake_ns = 10 * NS_PER_S,
    .create = stream_create,
    .begin = begin,
    .take = take,
    .direct = direct,
    .received = received,
    .wants_input = wants_input,
    .flush = flush,
    .expects = expects,
    .on_end = on_end,
    .leave = leave,
    .destroy = destroy,
};

/* ---- what the UMA calls ---------------------------------------------------------------------- */

// The hosts learn of it by the discovery log.
static void listener_tell(struct nvme_tcp *tcp, const struct address_end *end)
{
    struct nvme_listener listener = {.trtype = NVME_TRTYPE_TCP,
                                     .adrfam = end->is_6 ? NVME_ADRFAM_IPV6 : NVME_ADRFAM_IPV4,
                                     .is_wildcard = end->is_wildcard};
    snprintf(listener.address, sizeof listener.address, "%s", end->host);
    snprintf(listener.service, sizeof listener.service, "%s", end->port);
    nvme_target_listener_add(tcp->parts.target, &listener);
}

// What has no address for the log (a Unix socket) is not listened at.
static int ends_look(struct nvme_tcp *tcp, struct why *ret_why)
{
    for (unsigned i = 0; i < tcp->server.listener_count; i++) {
        const struct stream_listener *l = &tcp->server.listeners[i];
        if (!address_of_own_end(l->fd, &tcp->ends[i])) {
            why_say(ret_why, "%.64s: no address for the discovery log", l->text);
            return -EADDRNOTAVAIL;
        }
    }
    return 0;
}

static int tts_start(void *ctx, struct why *ret_why)
{
    struct nvme_tcp *tcp = ctx;
    int error = stream_server_listen(&tcp->server, ret_why);
    error = error == 0 ? ends_look(tcp, ret_why) : error;
    if (error != 0) {
        stream_server_close(&tcp->server);
        return error;
    }
    for (unsigned i = 0; i < tcp->server.listener_count; i++) {
        listener_tell(tcp, &tcp->ends[i]);
    }
    return 0;
}

static void tts_advertise(void *ctx, const struct resource_table *table)
{
    // The controllers do: the discovery log, async events.
}

static bool tts_uri(void *ctx, const struct resource *volume, unsigned index, char *ret,
                    size_t capacity)
{
    const struct nvme_tcp *tcp = ctx;
    char path[NVME_PATH_MAX], endpoint[TEXT_ADDRESS_MAX];
    if (index >= tcp->server.listener_count) {
        return false;
    }
    nvme_namespace_path(volume, path);
    text_endpoint_format(tcp->ends[index].host, tcp->ends[index].port, endpoint, sizeof endpoint);
    snprintf(ret, capacity, "nvme+tcp://%s/%s", endpoint, path);
    return true;
}

uint16_t nvme_tcp_port(const struct nvme_tcp *tcp)
{
    uint64_t port = 0;
    if (tcp->server.listener_count > 0) {
        text_number_parse(tcp->ends[0].port, 1, UINT16_MAX, &port);
    }
    return (uint16_t)port;
}

static void tts_hint(void *ctx, const struct resource *volume, char *ret, size_t capacity)
{
    const struct address_end *end = &((const struct nvme_tcp *)ctx)->ends[0];
    char nqn[NVME_NQN_MAX];
    nvme_subsystem_nqn(volume, nqn);
    snprintf(ret, capacity, "nvme connect -t tcp -a %s -s %s -n %s", end->host, end->port, nqn);
}

// The controllers end the queues that are theirs; this ends all others.
static void tts_stop(void *ctx)
{
    struct nvme_tcp *tcp = ctx;
    const struct list_link *all = &tcp->server.streams;
    stream_server_close(&tcp->server);
    for (struct list_link *l = all->next; l != all; l = l->next) {
        nvme_tcp_leave(connection_of(LIST_ENTRY(l, struct stream, link)));
    }
}

static void tts_figures(void *ctx, tts_figure *figure, void *figure_ctx)
{
    struct nvme_tcp_counters c = nvme_tcp_counters(ctx);
#define X(name, text) figure(figure_ctx, #name, TTS_COUNTER, c.name);
    NVME_TCP_COUNTERS(X)
#undef X
}

const struct tts_for_uma nvme_tcp_for_uma = {
    .name = "nvme-tcp",
    .start = tts_start,
    .advertise = tts_advertise,
    .stop = tts_stop,
    .figures = tts_figures,
    .uri = tts_uri,
    .hint = tts_hint,
};

/* ---- its life -------------------------------------------------------------------------------- */

struct nvme_tcp *nvme_tcp_create(const struct nvme_tcp_parts *parts)
{
    struct nvme_tcp *tcp = calloc(1, sizeof *tcp);
    if (tcp == NULL) {
        return NULL;
    }
    tcp->parts = *parts;
    stream_server_init(&tcp->server, &nvme_tcp_protocol,
                       &(struct stream_server_parts){.loop = parts->loop,
                                                     .listen = parts->listen,
                                                     .patience_ns = parts->patience_ns,
                                                     .say = parts->say,
                                                     .say_ctx = parts->ctx,
                                                     .ctx = tcp});
    return tcp;
}

void nvme_tcp_destroy(struct nvme_tcp *tcp)
{
    if (tcp != NULL) {
        stream_server_fini(&tcp->server);
        free(tcp);
    }
}

struct nvme_tcp_counters nvme_tcp_counters(const struct nvme_tcp *tcp)
{
    struct nvme_tcp_counters counters = tcp->counters;
    counters.accepted = tcp->server.counters.accepted;
    counters.refused = tcp->server.counters.refused;
    counters.stalled = tcp->server.counters.stalled;
    return counters;
}
