// NVMe/TCP: a connection becomes a queue of the controllers, and leaves; its capsules, until their
// responses are out.

#include "node/tts/nvme_tcp_connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/span.h"
#include "base/time.h"
#include "format/nvme_wire.h"
#include "listen/address.h"
#include "node/nvme/controller.h"
#include "node/stream/stream.h"
#include "text/address.h"

/* ---- its life -------------------------------------------------------------------------------- */

// The table of capsules, all of them free.
static bool commands_create(struct nvme_tcp_connection *c)
{
    c->commands = calloc(NVME_TCP_COMMAND_COUNT, sizeof c->commands[0]);
    if (c->commands == NULL) {
        return false;
    }
    for (unsigned i = 0; i < NVME_TCP_COMMAND_COUNT; i++) {
        c->commands[i].connection = c;
        list_init(&c->commands[i].out.link);
        list_push_tail(&c->free, &c->commands[i].link);
    }
    return true;
}

static struct nvme_queue *queue_create(struct nvme_tcp_connection *c)
{
    struct nvme_queue_parts parts = {.target = c->tcp->parts.target,
                                     .transport = &nvme_tcp_transport,
                                     .connection = c,
                                     .command_count = NVME_TCP_COMMAND_COUNT,
                                     .qid = -1,
                                     .scratch = mspan_of(c->scratch, NVME_SCRATCH_LEN)};
    struct address_end own;
    address_of_peer(c->stream.fd, parts.host_address);
    memcpy(parts.host, c->stream.host, sizeof parts.host);
    if (address_of_own_end(c->stream.fd, &own)) {
        snprintf(parts.local_address, sizeof parts.local_address, "%s", own.host);
    }
    return nvme_queue_create(&parts);
}

bool nvme_tcp_open(struct nvme_tcp_connection *c)
{
    c->scratch = malloc(NVME_SCRATCH_LEN);
    c->staging = malloc((size_t)NVME_TCP_COMMAND_COUNT * NVME_TCP_IN_CAPSULE_MAX);
    if (c->scratch == NULL || c->staging == NULL || !commands_create(c)) {
        return false;
    }
    c->queue = queue_create(c);
    return c->queue != NULL;
}

void nvme_tcp_leave(struct nvme_tcp_connection *c)
{
    if (c->state < NVME_TCP_LEAVING) {
        c->state = NVME_TCP_LEAVING;
    }
    stream_touch(&c->stream);
}

/* ---- its capsules ---------------------------------------------------------------------------- */

void nvme_tcp_done(struct nvme_tcp_command *t, enum nvme_status status, instant_ns now)
{
    struct nvme_tcp_connection *c = t->connection;
    struct nvme_command *command = t->command;
    bool is_over = t->stage == NVME_TCP_ANSWERING;
    c->asked_count -= t->stage == NVME_TCP_ASKED;
    t->command = NULL;
    t->stage = is_over ? NVME_TCP_FREE : NVME_TCP_PENDING;
    if (is_over) {
        list_push_head(&c->free, &t->link);
    }
    nvme_command_done(command, status, now);
}

void nvme_tcp_fetch_in_capsule(struct nvme_tcp_command *t, instant_ns now)
{
    const struct nvme_command *command = t->command;
    const uint8_t *staged =
        t->connection->staging + (size_t)(t - t->connection->commands) * NVME_TCP_IN_CAPSULE_MAX;
    if (!t->is_bad) {
        memcpy(command->data, staged + command->sgl.address, command->data_len);
    }
    nvme_tcp_done(t, t->is_bad ? NVME_TRANSIENT_TRANSPORT_ERROR : NVME_OK, now);
}

void nvme_tcp_abandon(struct nvme_tcp_connection *c, instant_ns now)
{
    for (unsigned i = 0; c->commands != NULL && i < NVME_TCP_COMMAND_COUNT; i++) {
        struct nvme_tcp_command *t = &c->commands[i];
        list_remove(&t->out.link);
        if (t->command != NULL) {
            nvme_tcp_done(t, NVME_DATA_TRANSFER_ERROR, now);
        }
    }
}
