// NBD: the transmission phase. Requests become service requests; their answers become replies.
//
// Data of a write stand in the stream behind the request. The stream is read no further until the
// CTA has a buffer for them; then they go straight there.
//
// What is longer than a service request can be goes in parts, one after the other, so that it takes
// no more memory than that. Of a read each part is answered by chunks of its own, or by octets that
// continue the simple reply; nothing else may be said meanwhile, so it has the connection alone.

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"
#include "node/stream/stream.h"
#include "node/tts/nbd_connection.h"
#include "node/tts/nbd_wire.h"

enum { REPLY_BATCH_MAX = 64 };

static const struct nbd_error done = {NBD_OK, ""};

bool nbd_transmission_init(struct nbd_connection *c)
{
    c->requests = calloc(NBD_REQUEST_MAX, sizeof c->requests[0]);
    if (c->requests == NULL) {
        return false;
    }
    for (unsigned i = 0; i < NBD_REQUEST_MAX; i++) {
        c->requests[i].connection = c;
        list_push_tail(&c->free, &c->requests[i].link);
    }
    return true;
}

/* ---- replies --------------------------------------------------------------------------------- */

static void request_free(struct nbd_request *r)
{
    struct nbd_connection *c = r->connection;
    CHECK(c->under_way > 0);
    c->under_way--;
    list_push_head(&c->free, &r->link);
    stream_touch(&c->stream);
}

// Clients may take an answer amid their data for a breach of the protocol.
static void answer_behind_data(struct nbd_request *r, uint64_t data_len, struct nbd_error error)
{
    struct nbd_connection *c = r->connection;
    if (data_len == 0) {
        nbd_answer(r, error);
        return;
    }
    c->skip = data_len;
    c->refused = r;
    c->refused_error = error;
    stream_touch(&c->stream); // nothing was read while it waited
}

static void part_submit(struct nbd_request *r, instant_ns now);

static void transferred(struct nbd_request *r, enum node_completion outcome, instant_ns now)
{
    const struct nbd_parts *parts = &r->connection->nbd->parts;
    parts->cta->transferred(parts->cta_ctx, &r->service, outcome, now);
}

/* ---- from the CTA ---------------------------------------------------------------------------- */

static void on_transfer(void *ctx, struct service_request *service, instant_ns now)
{
    struct nbd_request *r = LIST_ENTRY(service, struct nbd_request, service);
    struct nbd_connection *c = r->connection;
    bool is_gone = c->state == NBD_ENDING;
    if (r->command == NBD_CMD_WRITE) {
        if (is_gone) {
            transferred(r, NODE_TRANSFER, now);
            return;
        }
        CHECK(c->writing == r);
        c->may_fill = true;
        c->filled = 0;
        stream_touch(&c->stream);
        return;
    }
    if (is_gone) {
        transferred(r, NODE_TRANSFER, now);
        request_free(r);
    } else if (r->command == NBD_CMD_READ) {
        nbd_answer_read(r);
    } else if (r->command == NBD_CMD_CACHE) { // it was read: that is all
        transferred(r, NODE_OK, now);
        nbd_answer(r, done);
    } else if (!nbd_answer_extents(r)) {
        transferred(r, NODE_OK, now);
        nbd_answer(r, nbd_completion_error(r, NODE_INTERNAL));
    }
}

static void on_complete(void *ctx, struct service_request *service, instant_ns now)
{
    struct nbd_request *r = LIST_ENTRY(service, struct nbd_request, service);
    struct nbd_connection *c = r->connection;
    uint64_t unread = 0;
    if (c->state == NBD_ENDING) {
        request_free(r);
        return;
    }
    if (nbd_is_continued(r)) { // too late for an error
        c->nbd->counters.errors++;
        c->is_dropped = true;
        request_free(r);
        return;
    }
    if (c->writing == r && r->is_filled && service->completion == NODE_OK) {
        part_submit(r, now);
        return;
    }
    if (c->writing == r) { // refused before its data, or all of them, were fetched
        unread = r->is_filled ? 0 : r->service.data_len - (c->may_fill ? c->filled : 0);
        unread += r->left_len;
        c->writing = NULL;
        c->may_fill = false;
    }
    answer_behind_data(r, unread, nbd_completion_error(r, service->completion));
}

const struct tts_for_cta nbd_for_cta = {
    .transfer = on_transfer,
    .complete = on_complete,
};

/* ---- requests -------------------------------------------------------------------------------- */

static uint16_t service_flags(const struct nbd_request *r)
{
    uint16_t flags = 0;
    const struct node_operation_facts *facts =
        node_operation_facts(nbd_facts_of(r->command)->operation);
    flags |= (r->flags & NBD_CMD_FLAG_FUA) != 0 ? NODE_FUA : 0;
    flags |= (r->flags & NBD_CMD_FLAG_NO_HOLE) != 0 ? NODE_NO_HOLE : 0;
    flags |= (r->flags & NBD_CMD_FLAG_FAST_ZERO) != 0 ? NODE_FAST_ONLY : 0;
    return flags & facts->flags;
}

static void request_submit(struct nbd_connection *c, struct nbd_request *r, uint64_t offset,
                           uint64_t len, instant_ns now)
{
    const struct nbd_parts *parts = &c->nbd->parts;
    const struct nbd_command_facts *facts = nbd_facts_of(r->command);
    bool has_data = r->command == NBD_CMD_READ || r->command == NBD_CMD_WRITE;
    r->left_len = has_data && len > NODE_TRANSFER_MAX ? (uint32_t)(len - NODE_TRANSFER_MAX) : 0;
    len -= r->left_len;
    r->is_filled = false;
    r->service = (struct service_request){.connection = c->connection,
                                          .operation = (uint8_t)facts->operation,
                                          .flags = service_flags(r),
                                          .offset = facts->has_length ? offset : 0,
                                          .len = facts->has_length ? len : 0,
                                          .deadline = INSTANT_NEVER};
    if (r->command == NBD_CMD_CACHE && len > NODE_TRANSFER_MAX) {
        r->service.len = NODE_TRANSFER_MAX; // it is advice
    }
    if (facts->operation == NODE_READ || facts->operation == NODE_WRITE) {
        r->service.data_len = (uint32_t)r->service.len;
    } else if (r->command == NBD_CMD_BLOCK_STATUS) {
        r->service.data_len = NBD_EXTENT_MAX * sizeof(struct node_extent);
    }
    if (r->command == NBD_CMD_WRITE) {
        c->writing = r;
        c->may_fill = false;
    }
    parts->cta->submit(parts->cta_ctx, &r->service, now);
}

// What is left when a part is over.
static void part_submit(struct nbd_request *r, instant_ns now)
{
    request_submit(r->connection, r, r->service.offset + r->service.len, r->left_len, now);
}

static enum stream_verdict take_request(struct nbd_connection *c, instant_ns now)
{
    struct nbd_asked asked;
    const uint8_t *at = c->stream.in + c->stream.in_at;
    uint32_t there = c->stream.in_len - c->stream.in_at, header_len = nbd_request_len(c);
    if (there < header_len) {
        return STREAM_NEEDS_MORE;
    }
    if (!nbd_request_parse(c, at, &asked)) {
        return nbd_malformed(c);
    }
    if (asked.command == NBD_CMD_DISC) {
        c->drain = NBD_ANSWERS_REST;
        return STREAM_STOPS;
    }
    if (asked.payload_len <= NBD_PUSH_MAX && there - header_len < asked.payload_len) {
        return STREAM_NEEDS_MORE;
    }
    c->is_one_run |= nbd_is_in_one_run(c, &asked);
    if (c->is_one_run && c->under_way > 0) {
        return STREAM_STOPS;
    }
    c->is_one_run = nbd_is_in_one_run(c, &asked);
    struct list_link *l = list_pop_head(&c->free);
    if (l == NULL) {
        return STREAM_STOPS;
    }
    struct nbd_request *r = LIST_ENTRY(l, struct nbd_request, link);
    r->flags = asked.flags;
    r->command = asked.command;
    r->cookie = asked.cookie;
    r->offset = asked.offset;
    c->stream.in_at += header_len;
    c->under_way++;
    c->nbd->counters.requests++;
    struct nbd_error error = nbd_request_check(c, &asked, at + header_len);
    if (error.number != NBD_OK) {
        answer_behind_data(r, asked.payload_len, error);
        return STREAM_GOES_ON;
    }
    c->stream.in_at += asked.command == NBD_CMD_WRITE ? 0 : (uint32_t)asked.payload_len;
    if (asked.command == NBD_CMD_FLUSH && (c->abilities & VOLUME_CAN_FLUSH) == 0) {
        nbd_answer(r, done); // what has completed is stable
        return STREAM_GOES_ON;
    }
    request_submit(c, r, asked.offset, asked.len, now);
    return STREAM_GOES_ON;
}

/* ---- data of writes -------------------------------------------------------------------------- */

static enum stream_verdict drop_data(struct nbd_connection *c)
{
    uint64_t there = c->stream.in_len - c->stream.in_at;
    uint64_t part = there < c->skip ? there : c->skip;
    c->stream.in_at += (uint32_t)part;
    c->skip -= part;
    if (c->skip > 0) {
        return STREAM_NEEDS_MORE;
    }
    struct nbd_request *refused = c->refused;
    c->refused = NULL;
    nbd_answer(refused, c->refused_error);
    return STREAM_GOES_ON;
}

static void data_filled(struct nbd_connection *c, instant_ns now)
{
    struct nbd_request *r = c->writing;
    c->writing = r->left_len > 0 ? r : NULL;
    c->may_fill = false;
    r->is_filled = true;
    transferred(r, NODE_OK, now);
}

// What has been read with the request goes first, the rest comes straight from the socket.
static enum stream_verdict fill_data(struct nbd_connection *c, instant_ns now)
{
    struct nbd_request *r = c->writing;
    uint8_t *to = r->service.data;
    uint64_t wanted = r->service.data_len;
    uint64_t there = c->stream.in_len - c->stream.in_at;
    uint64_t part = there < wanted - c->filled ? there : wanted - c->filled;
    if (part > 0) {
        memcpy(to + c->filled, c->stream.in + c->stream.in_at, part);
    }
    c->stream.in_at += (uint32_t)part;
    c->filled += part;
    if (c->filled < wanted) {
        return STREAM_NEEDS_MORE;
    }
    data_filled(c, now);
    return STREAM_GOES_ON;
}

uint8_t *nbd_direct(struct nbd_connection *c, uint32_t *ret_len)
{
    if (c->writing == NULL || !c->may_fill) {
        return NULL;
    }
    const struct service_request *service = &c->writing->service;
    *ret_len = (uint32_t)(service->data_len - c->filled);
    return (uint8_t *)service->data + c->filled;
}

void nbd_received(struct nbd_connection *c, uint32_t len)
{
    c->filled += len;
}

enum stream_verdict nbd_transmit(struct nbd_connection *c, instant_ns now)
{
    if (c->skip > 0) {
        return drop_data(c);
    }
    if (c->writing != NULL) {
        return c->may_fill ? fill_data(c, now) : STREAM_STOPS;
    }
    return take_request(c, now);
}

/* ---- sending --------------------------------------------------------------------------------- */

static unsigned replies_gather(const struct nbd_connection *c, struct iovec *iov)
{
    unsigned count = 0;
    for (const struct list_link *l = c->replies.next;
         l != &c->replies && count + 2 <= REPLY_BATCH_MAX; l = l->next) {
        struct nbd_request *r = LIST_ENTRY(l, struct nbd_request, link);
        uint32_t from_header = r->sent < r->header_len ? r->sent : r->header_len;
        uint32_t from_data = r->sent - from_header;
        if (from_header < r->header_len) {
            iov[count++] = (struct iovec){.iov_base = r->header + from_header,
                                          .iov_len = r->header_len - from_header};
        }
        if (from_data < r->data_len) {
            iov[count++] = (struct iovec){.iov_base = (uint8_t *)r->data + from_data,
                                          .iov_len = r->data_len - from_data};
        }
    }
    return count;
}

static void replies_advance(struct nbd_connection *c, size_t sent, instant_ns now)
{
    while (sent > 0) {
        struct nbd_request *r = LIST_ENTRY(c->replies.next, struct nbd_request, link);
        size_t left = (size_t)r->header_len + r->data_len - r->sent;
        if (sent < left) {
            r->sent += (uint32_t)sent;
            return;
        }
        sent -= left;
        list_remove(&r->link);
        if (nbd_has_more_chunks(r)) { // behind the others: one of them may have begun to go
            nbd_chunk_begin(r);
            list_push_tail(&c->replies, &r->link);
            continue;
        }
        bool has_more = r->is_transfer && r->left_len > 0;
        if (r->is_transfer) {
            transferred(r, NODE_OK, now);
        }
        if (has_more) {
            part_submit(r, now);
        } else {
            request_free(r);
        }
    }
}

int nbd_reply(struct nbd_connection *c, instant_ns now)
{
    struct iovec iov[REPLY_BATCH_MAX];
    while (!list_is_empty(&c->replies)) {
        ssize_t sent = stream_send(&c->stream, iov, replies_gather(c, iov), now);
        if (sent < 0) {
            return (int)sent;
        }
        replies_advance(c, (size_t)sent, now);
    }
    return 0;
}

void nbd_abandon(struct nbd_connection *c, instant_ns now)
{
    for (struct list_link *l; (l = list_pop_head(&c->replies)) != NULL;) {
        struct nbd_request *r = LIST_ENTRY(l, struct nbd_request, link);
        if (r->is_transfer) {
            transferred(r, NODE_TRANSFER, now);
        }
        request_free(r);
    }
    if (c->refused != NULL) {
        request_free(c->refused);
        c->refused = NULL;
    }
    if (c->writing != NULL && c->may_fill) {
        transferred(c->writing, NODE_TRANSFER, now); // its completion follows
    }
    c->writing = NULL;
    c->may_fill = false;
}
