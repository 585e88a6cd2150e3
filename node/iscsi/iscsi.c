// iSCSI: what the UMA sees of the TTS, and what its server of streams asks a connection.

#include "node/iscsi/iscsi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "listen/address.h"
#include "node/format/iscsi_pdu.h"
#include "node/interface/reservation.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/iscsi/connection.h"
#include "node/iscsi/keys.h"
#include "node/scsi/device.h"
#include "node/stream/server.h"
#include "node/stream/stream.h"
#include "text/endpoint.h"

static const duration_ns leave_ns = 5 * NS_PER_S;

static struct iscsi_connection *connection_of(const struct stream *s)
{
    return LIST_ENTRY(s, struct iscsi_connection, stream);
}

/* ---- connections -----------------------------------------------------------------------------*/

// The target drops all connections of the session (RFC 7143 section 11.9), and when again.
static void say_goodbye(struct iscsi_connection *c)
{
    uint8_t *head = c->state == ISCSI_OPEN ? iscsi_control_put(c, ISCSI_ASYNC_MESSAGE, ISCSI_FINAL,
                                                               ISCSI_NO_TAG, NULL, 0)
                                           : NULL;
    if (head != NULL) {
        head[ISCSI_ASYNC_OFF_EVENT] = ISCSI_ASYNC_DROPS_ALL;
        put_be16(head + ISCSI_ASYNC_OFF_PARAMETERS + 2, (uint16_t)c->parameters.time_to_wait);
    }
    iscsi_leave(c);
}

/* ---- what the server of streams asks --------------------------------------------------------- */

static struct stream *stream_create(void *ctx)
{
    struct iscsi_connection *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->iscsi = ctx;
    c->parameters = iscsi_parameters_default;
    list_init(&c->outs);
    list_init(&c->free);
    list_init(&c->free_controls);
    return &c->stream;
}

static bool begin(struct stream *s)
{
    struct iscsi_connection *c = connection_of(s);
    struct client *client = &c->connect.client;
    c->connect.tts = &iscsi_for_uma;
    c->connect.service = &c->iscsi->for_cta;
    c->connect.tts_ctx = c->iscsi;
    c->connect.cookie = (uint64_t)(uintptr_t)c;
    address_of_peer(s->fd, client->address);
    snprintf(client->host, sizeof client->host, "%s", s->host);
    c->controls = calloc(ISCSI_CONTROL_COUNT, sizeof c->controls[0]);
    for (unsigned i = 0; c->controls != NULL && i < ISCSI_CONTROL_COUNT; i++) {
        list_push_tail(&c->free_controls, &c->controls[i].out.link);
        c->free_control_count++;
    }
    return c->controls != NULL;
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
    const struct iscsi_connection *c = connection_of(s);
    bool has_room = c->incoming.is_on || c->free_control_count >= ISCSI_CONTROL_SPARE;
    return (c->state == ISCSI_LOGIN || c->state == ISCSI_OPEN) && has_room;
}

static int flush(struct stream *s, instant_ns now)
{
    struct iscsi_connection *c = connection_of(s);
    int error = iscsi_flush(c, now);
    if (error == 0 && c->state == ISCSI_LEAVING) {
        stream_discard(s);
        return -ESHUTDOWN;
    }
    return error;
}

static void expects(struct stream *s, instant_ns now)
{
    const struct iscsi_connection *c = connection_of(s);
    if (c->state == ISCSI_LEAVING) {
        s->silent_until_ns = instant_min(s->silent_until_ns, instant_after(now, leave_ns));
    }
    stream_await(s, c->incoming.is_on || c->asked_count > 0, !list_is_empty(&c->outs), now);
}

static void on_end(struct stream *s, instant_ns now)
{
    struct iscsi_connection *c = connection_of(s);
    c->state = ISCSI_ENDED;
    iscsi_tasks_abandon(c, now);
}

static bool leave(struct stream *s)
{
    struct iscsi_connection *c = connection_of(s);
    if (c->is_connecting || c->task_count > 0) {
        return false;
    }
    if (c->has_nexus) {
        nexus_end(&c->nexus);
        c->has_nexus = false;
    }
    if (c->is_established) {
        c->iscsi->parts.uma->disconnect(c->iscsi->parts.uma_ctx, c->connection);
    }
    return true;
}

static void destroy(struct stream *s)
{
    struct iscsi_connection *c = connection_of(s);
    for (unsigned i = 0; c->tasks != NULL && i < ISCSI_TASK_COUNT; i++) {
        free(c->tasks[i].staged);
        free(c->tasks[i].is_used ? c->tasks[i].scsi.scratch : NULL);
    }
    for (unsigned i = 0; c->controls != NULL && i < ISCSI_CONTROL_COUNT; i++) {
        free(c->controls[i].data);
    }
    if (c->has_nexus) {
        list_remove(&c->nexus.link);
    }
    free(c->tasks);
    free(c->controls);
    free(c->login.text);
    free(c->answer);
    free(c);
}

static const struct stream_protocol iscsi_protocol = {
    .name = "iscsi",
    .peer = "initiator",
    .title = "iSCSI",
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
    return stream_server_listen(&((struct iscsi *)ctx)->server, ret_why);
}

static void tts_advertise(void *ctx, const struct resource_table *table)
{
    scsi_target_advertise(((struct iscsi *)ctx)->target, table);
}

static void tts_on_connected(void *ctx, struct connect_request *request)
{
    struct iscsi_connection *c = LIST_ENTRY(request, struct iscsi_connection, connect);
    if (c->state == ISCSI_CONNECTING) {
        iscsi_answer_connect(c);
    } else { // the initiator left meanwhile
        c->connection = request->connection;
        c->is_established = request->status == CONNECT_OK;
        c->is_connecting = false;
    }
    stream_touch(&c->stream);
}

static void tts_drop(void *ctx, uint32_t connection)
{
    const struct list_link *all = &((struct iscsi *)ctx)->server.streams;
    for (struct list_link *l = all->next; l != all; l = l->next) {
        struct iscsi_connection *c = connection_of(LIST_ENTRY(l, struct stream, link));
        if (c->is_established && c->connection == connection) {
            say_goodbye(c);
        }
    }
}

static void on_reservation(void *ctx, uint32_t connection, enum reservation_event event,
                           instant_ns now)
{
    scsi_target_on_reservation(((struct iscsi *)ctx)->target, connection, event, now);
}

static void tts_stop(void *ctx)
{
    struct iscsi *iscsi = ctx;
    const struct list_link *all = &iscsi->server.streams;
    stream_server_close(&iscsi->server);
    for (struct list_link *l = all->next; l != all; l = l->next) {
        say_goodbye(connection_of(LIST_ENTRY(l, struct stream, link)));
    }
}

static bool tts_uri(void *ctx, const struct resource *volume, unsigned index, char *ret,
                    size_t capacity)
{
    const struct stream_server *server = &((const struct iscsi *)ctx)->server;
    char name[ISCSI_NAME_MAX];
    if (index >= server->listener_count) {
        return false;
    }
    iscsi_name(volume, name);
    snprintf(ret, capacity, "iscsi://%s/%s/0", server->listeners[index].authority, name);
    return true;
}

static void tts_hint(void *ctx, const struct resource *volume, char *ret, size_t capacity)
{
    const struct iscsi *iscsi = ctx;
    char name[ISCSI_NAME_MAX];
    iscsi_name(volume, name);
    snprintf(ret, capacity, "iscsiadm -m discovery -t st -p %s; iscsiadm -m node -T %s --login",
             iscsi->server.listeners[0].authority, name);
}

const struct tts_for_uma iscsi_for_uma = {
    .name = "iscsi",
    .start = tts_start,
    .advertise = tts_advertise,
    .on_connected = tts_on_connected,
    .drop = tts_drop,
    .stop = tts_stop,
    .uri = tts_uri,
    .hint = tts_hint,
};

/* ---- its life -------------------------------------------------------------------------------- */

#define PORT_DEFAULT ":3260"

static bool has_port(const char *listen)
{
    struct text_endpoint endpoint;
    return text_endpoint_split(listen, strlen(listen), &endpoint) != TEXT_ENDPOINT_OK ||
           endpoint.port != NULL;
}

static struct addresses with_ports(const struct addresses *listen)
{
    struct addresses result = *listen;
    for (unsigned i = 0; i < result.count; i++) {
        size_t len = strlen(result.of[i]);
        if (!has_port(result.of[i])) {
            snprintf(result.of[i] + len, ADDRESS_MAX - len, "%s", PORT_DEFAULT);
        }
    }
    return result;
}

struct iscsi *iscsi_create(const struct iscsi_parts *parts)
{
    struct iscsi *iscsi = calloc(1, sizeof *iscsi);
    struct scsi_target *target = scsi_target_create(
        &(struct scsi_target_parts){.cta = parts->cta, .cta_ctx = parts->cta_ctx});
    if (iscsi == NULL || target == NULL) {
        free(iscsi);
        scsi_target_destroy(target);
        return NULL;
    }
    iscsi->parts = *parts;
    iscsi->target = target;
    iscsi->for_cta = scsi_for_cta;
    iscsi->for_cta.on_reservation = on_reservation;
    stream_server_init(&iscsi->server, &iscsi_protocol,
                       &(struct stream_server_parts){.loop = parts->loop,
                                                     .listen = with_ports(&parts->listen),
                                                     .patience_ns = parts->patience_ns,
                                                     .say = parts->say,
                                                     .say_ctx = parts->ctx,
                                                     .ctx = iscsi});
    return iscsi;
}

void iscsi_destroy(struct iscsi *iscsi)
{
    if (iscsi != NULL) {
        stream_server_fini(&iscsi->server);
        scsi_target_destroy(iscsi->target);
        free(iscsi);
    }
}

struct iscsi_counters iscsi_counters(const struct iscsi *iscsi)
{
    struct iscsi_counters counters = iscsi->counters;
    counters.accepted = iscsi->server.counters.accepted;
    counters.refused += iscsi->server.counters.refused;
    counters.stalled = iscsi->server.counters.stalled;
    return counters;
}

struct scsi_device_counters iscsi_device_counters(const struct iscsi *iscsi)
{
    return scsi_target_counters(iscsi->target);
}
