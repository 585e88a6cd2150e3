// Any octets as what an NBD client sends, from its flags on. Its socket is closed: what does not
// come in one go does not come.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "node/tts/nbd_connection.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t memory[NODE_TRANSFER_MAX];
static const struct resource rows[] = {
    {.volume = 1,
     .name = "a",
     .state = RESOURCE_READY,
     .abilities = VOLUME_ABILITY_ALL,
     .profile = {
         .size = 1 << 20, .block_size = 512, .alignment = 1, .preferred = 4096, .driver = "ram"}}};
static const struct resource_table table = {.count = 1, .rows = rows};

static const struct resource_table *resources(void *ctx)
{
    return &table;
}

static bool may_see(void *ctx, uint32_t volume, const struct client *client)
{
    return true;
}

static void connect_now(void *ctx, struct connect_request *request)
{
    struct nbd_connection *c = LIST_ENTRY(request, struct nbd_connection, connect);
    request->status = CONNECT_OK;
    request->connection = 1;
    nbd_answer_connect(c);
}

static void submit(void *ctx, struct service_request *request, instant_ns now)
{
    const struct node_operation_facts *facts = node_operation_facts(request->operation);
    CHECK(facts != NULL && (request->flags & ~facts->flags) == 0);
    CHECK(request->data_len <= NODE_TRANSFER_MAX);
    request->data = memory;
    request->buffer.len = request->data_len;
    request->completion = NODE_OK;
    if (facts->moves_to_client || facts->moves_to_device) {
        nbd_for_cta.transfer(ctx, request, now);
    } else {
        nbd_for_cta.complete(ctx, request, now);
    }
}

static void transferred(void *ctx, struct service_request *request, enum node_completion outcome,
                        instant_ns now)
{
    if (request->operation == NODE_WRITE) {
        request->completion = outcome;
        nbd_for_cta.complete(ctx, request, now);
    }
}

static void leave(void *ctx, uint32_t connection, instant_ns now)
{
}

static const struct uma_for_tts uma = {
    .resources = resources, .may_see = may_see, .connect = connect_now};
static const struct cta_for_tts cta = {
    .submit = submit, .transferred = transferred, .leave = leave};

// What is to go out has been sent.
static void out_drop(struct nbd_connection *c)
{
    free(c->out);
    c->out = NULL;
    c->out_len = c->out_sent = 0;
}

static void serve(struct nbd_connection *c)
{
    enum stream_verdict verdict = STREAM_GOES_ON;
    while (verdict == STREAM_GOES_ON) {
        uint32_t before = c->stream.in_at;
        verdict = c->state == NBD_TRANSMISSION ? nbd_transmit(c, 0) : nbd_negotiate(c);
        CHECK(c->stream.in_at >= before && c->stream.in_at <= c->stream.in_len);
        out_drop(c);
        verdict = c->is_full ? STREAM_GOES_ON : verdict;
        c->is_full = false;
    }
    c->state = NBD_ENDING;
    nbd_abandon(c, 0);
    CHECK(c->under_way == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct nbd nbd = {.parts = {.uma = &uma, .cta = &cta}};
    struct nbd_connection *c = calloc(1, sizeof *c);
    CHECK(c != NULL);
    list_init(&nbd.server.dirty);
    c->nbd = &nbd;
    c->stream.server = &nbd.server;
    c->stream.fd = -1;
    list_init(&c->stream.dirty_link);
    list_init(&c->free);
    list_init(&c->replies);
    CHECK(nbd_greet(c));
    c->stream.in = malloc(NBD_IN_LEN);
    CHECK(c->stream.in != NULL);
    c->stream.in_len = (uint32_t)(size < NBD_IN_LEN ? size : NBD_IN_LEN);
    memcpy(c->stream.in, data, c->stream.in_len);
    serve(c);
    out_drop(c);
    free(c->requests);
    free(c->stream.in);
    free(c);
    return 0;
}
