// Any octets as what an iSCSI initiator sends, from its login on. What does not come in one go does
// not come; what goes out is thrown away.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/iscsi/connection.h"
#include "node/iscsi/iscsi.h"
#include "node/reservation/book.h"
#include "node/scsi/device.h"
#include "node/stream/stream.h"
#include "node/tts/iscsi_tcp_connection.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS_MAX = 4096 };

static uint8_t memory[NODE_TRANSFER_MAX];
static const struct resource rows[] = {
    {.volume = 1,
     .name = "a",
     .state = RESOURCE_READY,
     .abilities = VOLUME_ABILITY_ALL & ~VOLUME_CAN_FUA,
     .places[VOLUME_IN_TARGET] = {.member = 1},
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
    request->status = CONNECT_OK;
    request->connection = 1;
    iscsi_door_on_connected(request->tts_ctx, request);
}

static void disconnect(void *ctx, uint32_t connection)
{
}

static void submit(void *ctx, struct service_request *request, instant_ns now)
{
    const struct node_operation_facts *facts = node_operation_facts(request->operation);
    CHECK(facts != NULL && (request->flags & ~facts->flags) == 0);
    CHECK(request->data_len <= NODE_TRANSFER_MAX);
    CHECK(!facts->has_range ||
          node_range_is_within(request->offset, request->len, rows[0].profile.size));
    request->data = memory;
    request->buffer.len = request->data_len;
    request->completion = NODE_OK;
    if (facts->moves_to_client || facts->moves_to_device) {
        scsi_for_cta.transfer(ctx, request, now);
    } else {
        scsi_for_cta.complete(ctx, request, now);
    }
}

static void transferred(void *ctx, struct service_request *request, enum node_completion outcome,
                        instant_ns now)
{
    if (node_operation_facts(request->operation)->moves_to_device) {
        request->completion = outcome;
        scsi_for_cta.complete(ctx, request, now);
    }
}

static struct reservation book;

static const struct reservation *reservation(void *ctx, uint32_t connection)
{
    return &book;
}

static void tell(void *ctx, const char *registrant, enum reservation_event event)
{
}

static void reserve(void *ctx, struct reservation_request *request, instant_ns now)
{
    request->outcome = book_act(&book, "iqn.a,i,0x1", request->connection, &request->wish,
                                &(struct book_listener){NULL, tell});
    scsi_for_cta.on_reserved(ctx, request, now);
}

static bool claim(void *ctx, uint32_t connection)
{
    return book_claim(&book, connection);
}

static void unclaim(void *ctx, uint32_t connection, bool of_any)
{
    book.claimed_by = 0;
}

static void say(void *ctx, const char *host, const char *line)
{
}

static struct iscsi_accounts accounts = {.count = 1,
                                         .initiators = {{.name = "a", .secret = "a secret of a"}},
                                         .target = {.name = "b", .secret = "a secret of b"}};

static void randomize(void *ctx, void *octets, size_t len)
{
    memset(octets, 7, len);
}

static void leave(void *ctx, uint32_t connection, instant_ns now)
{
}

static const struct uma_for_tts uma = {
    .resources = resources, .may_see = may_see, .connect = connect_now, .disconnect = disconnect};
static const struct cta_for_tts cta = {.submit = submit,
                                       .transferred = transferred,
                                       .leave = leave,
                                       .reservation = reservation,
                                       .reserve = reserve,
                                       .claim = claim,
                                       .unclaim = unclaim};

static void drain(int fd)
{
    uint8_t octets[64 << 10];
    while (recv(fd, octets, sizeof octets, MSG_DONTWAIT) > 0) {
    }
}

static void serve(struct iscsi_stream *cs, int peer)
{
    struct iscsi_connection *c = &cs->c;
    for (unsigned i = 0; i < STEPS_MAX; i++) {
        uint32_t before = cs->stream.in_at;
        enum stream_verdict verdict = iscsi_take(cs, 0);
        CHECK(cs->stream.in_at >= before && cs->stream.in_at <= cs->stream.in_len);
        CHECK(c->window_used <= ISCSI_WINDOW && c->task_count <= ISCSI_TASK_COUNT);
        while (iscsi_flush(cs, 0) == -EAGAIN) {
            drain(peer);
        }
        drain(peer);
        if (verdict != STREAM_GOES_ON) {
            break;
        }
    }
    c->state = ISCSI_ENDED;
    cs->incoming = (struct iscsi_incoming){0};
    iscsi_tasks_abandon(c, 0);
    CHECK(c->task_count == 0 && cs->asked_count == 0 && c->it.nowhere.scratch_len == 0);
    CHECK(iscsi_connection_is_over(c) && list_is_empty(&c->units));
}

static struct iscsi_stream *connection_create(struct iscsi_tcp *tcp, int fd)
{
    struct iscsi_stream *cs = calloc(1, sizeof *cs);
    CHECK(cs != NULL);
    cs->stream.server = &tcp->server;
    cs->stream.fd = fd;
    list_init(&cs->stream.dirty_link);
    CHECK(iscsi_connection_init(&cs->c, &tcp->door));
    return cs;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    accounts.is_required = size % 4 == 3;
    struct iscsi *iscsi = iscsi_create(&(struct iscsi_parts){
        .uma = &uma, .cta = &cta, .accounts = &accounts, .randomize = randomize, .say = say});
    CHECK(iscsi != NULL);
    struct iscsi_tcp tcp = {.door = {.carrier = &iscsi_tcp_carrier, .iscsi = iscsi}};
    int ends[2];
    book = (struct reservation){.can_persist = true};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    list_init(&tcp.server.dirty);
    struct iscsi_stream *cs = connection_create(&tcp, ends[0]);
    cs->stream.in = malloc(ISCSI_IN_LEN);
    CHECK(cs->stream.in != NULL);
    cs->stream.in_len = (uint32_t)(size < ISCSI_IN_LEN ? size : ISCSI_IN_LEN);
    memcpy(cs->stream.in, data, cs->stream.in_len);
    serve(cs, ends[1]);
    iscsi_connection_fini(&cs->c);
    iscsi_destroy(iscsi);
    free(cs->stream.in);
    free(cs);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
