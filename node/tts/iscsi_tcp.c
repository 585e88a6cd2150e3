// iSCSI over TCP: what the UMA sees of the TTS, and what its server of streams asks a connection.

#include "node/tts/iscsi_tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/time.h"
#include "listen/address.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/iscsi/connection.h"
#include "node/iscsi/iscsi.h"
#include "node/scsi/device.h"
#include "node/stream/server.h"
#include "node/stream/stream.h"
#include "node/tts/iscsi_tcp_connection.h"

static const duration_ns leave_ns = 5 * NS_PER_S;

static struct iscsi_stream *connection_of(const struct stream *s)
{
    return LIST_ENTRY(s, struct iscsi_stream, stream);
}

/* ---- what a connection asks ------------------------------------------------------------------ */

static void touch(struct iscsi_connection *c)
{
    stream_touch(&iscsi_stream_of(c)->stream);
}

static bool own_end(const struct iscsi_connection *c, struct address_end *ret)
{
    const struct iscsi_stream *cs = LIST_ENTRY(c, struct iscsi_stream, c);
    return address_of_own_end(cs->stream.fd, ret);
}

const struct iscsi_carrier iscsi_tcp_carrier = {
    .name = "iscsi",
    .tts = &iscsi_tcp_for_uma,
    .transport = &iscsi_tcp_transport,
    .touch = touch,
    .own_end = own_end,
    .on_command = iscsi_stream_on_command,
    .on_task_free = iscsi_stream_on_task_free,
};

/* ---- what the server of streams asks --------------------------------------------------------- */

static struct stream *stream_create(void *ctx)
{
    struct iscsi_stream *cs = calloc(1, sizeof *cs);
    struct iscsi_tcp *tcp = ctx;
    if (cs == NULL) {
        return NULL;
    }
    cs->c.door = &tcp->door;
    list_init(&cs->c.link);
    list_init(&cs->c.outs);
    list_init(&cs->c.units);
    return &cs->stream;
}

static bool begin(struct stream *s)
{
    struct iscsi_connection *c = &connection_of(s)->c;
    address_of_peer(s->fd, c->client.address);
    snprintf(c->client.host, sizeof c->client.host, "%s", s->host);
    snprintf(c->client.service, sizeof c->client.service, "%s", iscsi_tcp_carrier.name);
    return iscsi_connection_init(c, c->door);
}

static enum stream_verdict take(struct stream *s, instant_ns now)
{
    return iscsi_take(connection_of(s), now);
}

static uint8_t *direct(struct stream *s, uint32_t *ret_len)
{
    return iscsi_direct(connection_of(s), ret_len);
}

static void received(struct stream *s, uint32_t len, instant_ns now)
{
    iscsi_received(connection_of(s), len);
}

static bool wants_input(const struct stream *s)
{
    const struct iscsi_stream *cs = connection_of(s);
    return iscsi_is_open(&cs->c) && (cs->incoming.is_on || iscsi_has_room(&cs->c));
}

static int flush(struct stream *s, instant_ns now)
{
    struct iscsi_stream *cs = connection_of(s);
    scsi_target_go_on(cs->c.iscsi->target, now);
    iscsi_units_settle(&cs->c);
    int error = iscsi_flush(cs, now);
    if (error == 0 && cs->c.state == ISCSI_LEAVING) {
        stream_discard(s);
        return -ESHUTDOWN;
    }
    return error;
}

static void expects(struct stream *s, instant_ns now)
{
    const struct iscsi_stream *cs = connection_of(s);
    if (cs->c.state == ISCSI_OPEN) { // what was silent so far was its login
        s->silent_until_ns = INSTANT_NEVER;
    } else if (cs->c.state == ISCSI_LEAVING) {
        s->silent_until_ns = instant_min(s->silent_until_ns, instant_after(now, leave_ns));
    }
    stream_await(s, cs->incoming.is_on || cs->asked_count > 0, !list_is_empty(&cs->c.outs), now);
}

static void on_end(struct stream *s, instant_ns now)
{
    struct iscsi_stream *cs = connection_of(s);
    cs->c.state = ISCSI_ENDED;
    iscsi_incoming_drop(cs);
    iscsi_tasks_abandon(&cs->c, now);
}

static bool leave(struct stream *s)
{
    return iscsi_connection_is_over(&connection_of(s)->c);
}

static void destroy(struct stream *s)
{
    struct iscsi_stream *cs = connection_of(s);
    iscsi_incoming_drop(cs);
    iscsi_connection_fini(&cs->c);
    free(cs);
}

static const struct stream_protocol iscsi_protocol = {
    .name = "iscsi",
    .peer = "initiator",
    .title = "iSCSI",
    .default_port = "3260",
    .stream_max = ISCSI_CONNECTION_MAX,
    .stream_of_host_max = ISCSI_CONNECTION_OF_HOST_MAX,
    .in_len = ISCSI_IN_LEN,
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

static int tts_start(void *ctx, struct why *ret_why)
{
    return stream_server_listen(&((struct iscsi_tcp *)ctx)->server, ret_why);
}

static void tts_stop(void *ctx)
{
    struct iscsi_tcp *tcp = ctx;
    stream_server_close(&tcp->server);
    iscsi_door_stop(&tcp->door);
}

static bool tts_uri(void *ctx, const struct resource *volume, unsigned index, char *ret,
                    size_t capacity)
{
    const struct stream_server *server = &((const struct iscsi_tcp *)ctx)->server;
    char name[ISCSI_NAME_MAX];
    if (index >= server->listener_count) {
        return false;
    }
    iscsi_name(volume, name);
    snprintf(ret, capacity, "iscsi://%s/%s/%u", server->listeners[index].authority, name,
             iscsi_lun(volume));
    return true;
}

static void tts_hint(void *ctx, const struct resource *volume, char *ret, size_t capacity)
{
    const struct iscsi_tcp *tcp = ctx;
    char name[ISCSI_NAME_MAX];
    iscsi_name(volume, name);
    snprintf(ret, capacity, "iscsiadm -m discovery -t st -p %s; iscsiadm -m node -T %s --login",
             tcp->server.listeners[0].authority, name);
}

static void tts_figures(void *ctx, tts_figure *figure, void *figure_ctx)
{
    const struct iscsi_tcp *tcp = ctx;
    struct iscsi_counters c = iscsi_tcp_counters(tcp);
#define X(name, text) figure(figure_ctx, #name, TTS_COUNTER, c.name);
    ISCSI_TCP_COUNTERS(X)
#undef X
    iscsi_door_figures(&tcp->door, figure, figure_ctx);
}

const struct tts_for_uma iscsi_tcp_for_uma = {
    .name = "iscsi",
    .start = tts_start,
    .advertise = iscsi_door_advertise,
    .on_connected = iscsi_door_on_connected,
    .drop = iscsi_door_drop,
    .stop = tts_stop,
    .figures = tts_figures,
    .uri = tts_uri,
    .hint = tts_hint,
};

/* ---- its life -------------------------------------------------------------------------------- */

struct iscsi_tcp *iscsi_tcp_create(const struct iscsi_tcp_parts *parts)
{
    struct iscsi_tcp *tcp = calloc(1, sizeof *tcp);
    if (tcp == NULL) {
        return NULL;
    }
    const struct iscsi_parts *target = &parts->iscsi->parts;
    tcp->door = (struct iscsi_door){.carrier = &iscsi_tcp_carrier, .iscsi = parts->iscsi};
    stream_server_init(&tcp->server, &iscsi_protocol,
                       &(struct stream_server_parts){.loop = parts->loop,
                                                     .listen = parts->listen,
                                                     .patience_ns = parts->patience_ns,
                                                     .say = target->say,
                                                     .say_ctx = target->ctx,
                                                     .ctx = tcp});
    return tcp;
}

void iscsi_tcp_destroy(struct iscsi_tcp *tcp)
{
    if (tcp != NULL) {
        stream_server_fini(&tcp->server);
        free(tcp);
    }
}

struct iscsi_counters iscsi_tcp_counters(const struct iscsi_tcp *tcp)
{
    struct iscsi_counters counters = tcp->door.counters;
    counters.accepted = tcp->server.counters.accepted;
    counters.refused += tcp->server.counters.refused;
    counters.stalled = tcp->server.counters.stalled;
    return counters;
}
