// What stands behind the NVMe controllers in fuzz targets: a UMA with two volumes of a group that
// connects at once, and a CTA whose device is done at once. Each checks what it is asked.
#pragma once

#include <string.h>

#include "base/check.h"
#include "node/nvme/agent.h"
#include "node/reservation/book.h"

enum { NVME_NODE_VOLUME_LEN = 1 << 20 };

static uint8_t nvme_node_memory[NODE_TRANSFER_MAX];
static unsigned nvme_node_connections;

static const struct resource nvme_node_rows[] = {
    {.volume = 1,
     .name = "a",
     .state = RESOURCE_READY,
     .abilities = VOLUME_ABILITY_ALL & ~(unsigned)VOLUME_CAN_FUA,
     .profile = {.size = NVME_NODE_VOLUME_LEN,
                 .block_size = 512,
                 .alignment = 1,
                 .preferred = 4096,
                 .driver = "ram"},
     .places[VOLUME_IN_SUBSYSTEM] = {.group = "group", .member = 1}},
    {.volume = 2,
     .name = "b",
     .state = RESOURCE_READY,
     .abilities = VOLUME_CAN_WRITE | VOLUME_CAN_FUA,
     .profile = {.size = NVME_NODE_VOLUME_LEN / 2,
                 .block_size = 4096,
                 .alignment = 512,
                 .preferred = 4096,
                 .driver = "ram"},
     .places[VOLUME_IN_SUBSYSTEM] = {.group = "group", .member = 2}}};
static struct resource_table nvme_node_table = {.count = 2, .rows = nvme_node_rows};
// The connections of the second, to be dropped when it goes.
static uint32_t nvme_node_second[NODE_CONNECTION_COUNT_MAX];
static unsigned nvme_node_second_count;

static inline const struct resource_table *nvme_node_resources(void *ctx)
{
    return &nvme_node_table;
}

static inline bool nvme_node_may_see(void *ctx, uint32_t volume, const struct client *client)
{
    return true;
}

static inline void nvme_node_connect(void *ctx, struct connect_request *request)
{
    CHECK(request->volume >= 1 && request->volume <= nvme_node_table.count);
    CHECK(memchr(request->client.identity, 0, CLIENT_IDENTITY_MAX) != NULL);
    request->status = CONNECT_OK;
    request->connection = ++nvme_node_connections;
    if (request->volume == 2 && nvme_node_second_count < NODE_CONNECTION_COUNT_MAX) {
        nvme_node_second[nvme_node_second_count++] = request->connection;
    }
    request->tts->on_connected(request->tts_ctx, request);
}

static inline void nvme_node_disconnect(void *ctx, uint32_t connection)
{
    CHECK(connection > 0 && connection <= nvme_node_connections);
}

// The second volume comes, or goes.
static inline void nvme_node_change(struct nvme_target *target)
{
    nvme_node_table.count = nvme_node_table.count == 1 ? 2 : 1;
    nvme_node_table.generation++;
    nvme_for_uma.advertise(target, &nvme_node_table);
    for (; nvme_node_table.count == 1 && nvme_node_second_count > 0; nvme_node_second_count--) {
        nvme_for_uma.drop(target, nvme_node_second[nvme_node_second_count - 1]);
    }
}

static inline void nvme_node_submit(void *ctx, struct service_request *request, instant_ns now)
{
    const struct node_operation_facts *facts = node_operation_facts(request->operation);
    CHECK(facts != NULL && (request->flags & ~facts->flags) == 0);
    CHECK(node_range_is_within(request->offset, request->len, NVME_NODE_VOLUME_LEN));
    CHECK(request->data_len <= NVME_DATA_LEN_MAX);
    request->data = nvme_node_memory;
    request->buffer.len = request->data_len;
    request->completion = NODE_OK;
    if (facts->moves_to_client || facts->moves_to_device) {
        nvme_for_cta.transfer(ctx, request, now);
    } else {
        nvme_for_cta.complete(ctx, request, now);
    }
}

static inline void nvme_node_transferred(void *ctx, struct service_request *request,
                                         enum node_completion outcome, instant_ns now)
{
    if (node_operation_facts(request->operation)->moves_to_device) {
        request->completion = outcome;
        nvme_for_cta.complete(ctx, request, now);
    }
}

static struct reservation nvme_node_book;

static inline const struct reservation *nvme_node_reservation(void *ctx, uint32_t connection)
{
    return &nvme_node_book;
}

static inline void nvme_node_tell(void *ctx, const char *registrant, enum reservation_event event)
{
}

static inline void nvme_node_reserve(void *ctx, struct reservation_request *request, instant_ns now)
{
    request->outcome = book_act(&nvme_node_book, "hostid:1", request->connection, &request->wish,
                                &(struct book_listener){NULL, nvme_node_tell});
    nvme_for_cta.on_reserved(ctx, request, now);
    nvme_for_cta.on_reservation(ctx, request->connection, RESERVATION_RELEASED, now);
}

static inline void nvme_node_leave(void *ctx, uint32_t connection, instant_ns now)
{
}

static inline void nvme_node_say(void *ctx, const char *host, const char *line)
{
}

static const struct uma_for_tts nvme_node_uma = {.resources = nvme_node_resources,
                                                 .may_see = nvme_node_may_see,
                                                 .connect = nvme_node_connect,
                                                 .disconnect = nvme_node_disconnect,
                                                 .reservation = nvme_node_reservation};
static const struct cta_for_tts nvme_node_cta = {.submit = nvme_node_submit,
                                                 .transferred = nvme_node_transferred,
                                                 .leave = nvme_node_leave,
                                                 .reservation = nvme_node_reservation,
                                                 .reserve = nvme_node_reserve};

static inline struct nvme_target *nvme_node_target(void)
{
    struct nvme_target_parts parts = {
        .uma = &nvme_node_uma, .cta = &nvme_node_cta, .say = nvme_node_say};
    struct nvme_target *target = nvme_target_create(&parts);
    CHECK(target != NULL);
    nvme_node_connections = 0;
    nvme_node_book = (struct reservation){.can_persist = true};
    return target;
}
