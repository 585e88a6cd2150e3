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

STATIC_CHECK(sizeof(struct node_extent) >= 16); // descriptors are made in place of extents

enum {
    REPLY_BATCH_MAX = 64,
    ERROR_PAYLOAD_LEN = 6,
    DATA_CHUNK_LEN = 8,
    HOLE_CHUNK_LEN = 12,
    STATUS_CHUNK_LEN = 4,     // the context
    STATUS_EXT_CHUNK_LEN = 8, // and the count of descriptors
    DESCRIPTOR_LEN = 8,
    DESCRIPTOR_EXT_LEN = 16,
    HOLE_UNIT = 4 << 10, // zeroes are looked for by it,
    HOLE_MIN = 64 << 10, // and so many are told as a hole, or all that was read
};

// What the client is told of a completion.
static const struct nbd_error error_of[NODE_COMPLETION_COUNT] = {
    [NODE_OK] = {NBD_OK, ""},
    [NODE_RETRY] = {NBD_EIO, "not now: the volume may take it later"},
    [NODE_MALFORMED] = {NBD_EINVAL, "offset or length is no multiple of the block size"},
    [NODE_RANGE] = {NBD_EINVAL, "beyond the end of the volume"},
    [NODE_UNSUPPORTED] = {NBD_EINVAL, "the volume has no such operation"},
    [NODE_READ_ONLY] = {NBD_EPERM, "the volume is read-only"},
    [NODE_NO_SPACE] = {NBD_ENOSPC, "no space is left behind the volume"},
    [NODE_MEDIA] = {NBD_EIO, "the device could not read or write there"},
    [NODE_TRANSFER] = {NBD_EIO, "the data could not be moved"},
    [NODE_TIMED_OUT] = {NBD_EIO, "the device took too long"},
    [NODE_NO_VOLUME] = {NBD_ESHUTDOWN, "the volume is gone"},
    [NODE_INTERNAL] = {NBD_EIO, "a fault of the node"},
    [NODE_RESERVED] = {NBD_EPERM, "another client has reserved the volume"},
    [NODE_MISCOMPARE] = {NBD_EIO, "the volume has something else"},
    [NODE_STANDBY] = {NBD_ESHUTDOWN, "another node serves the volume"},
};

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

static void reply_queue(struct nbd_request *r)
{
    struct nbd_connection *c = r->connection;
    r->sent = 0;
    list_push_tail(&c->replies, &r->link);
    stream_touch(&c->stream);
}

static void header_simple(struct nbd_request *r, uint32_t error)
{
    put_be32(r->header, NBD_SIMPLE_MAGIC);
    put_be32(r->header + NBD_SIMPLE_OFF_ERROR, error);
    put_be64(r->header + NBD_SIMPLE_OFF_COOKIE, r->cookie);
    r->header_len = NBD_SIMPLE_LEN;
}

// The last chunk of an answer. `len` octets of payload, of which `own_len` stand in the header.
static uint8_t *header_structured(struct nbd_request *r, uint16_t type, uint32_t len,
                                  uint32_t own_len)
{
    bool is_extended = r->connection->is_extended;
    uint32_t header_len = is_extended ? NBD_EXTENDED_LEN : NBD_STRUCTURED_LEN;
    put_be32(r->header, is_extended ? NBD_EXTENDED_MAGIC : NBD_STRUCTURED_MAGIC);
    put_be16(r->header + NBD_STRUCTURED_OFF_FLAGS, NBD_REPLY_FLAG_DONE);
    put_be16(r->header + NBD_STRUCTURED_OFF_TYPE, type);
    put_be64(r->header + NBD_STRUCTURED_OFF_COOKIE, r->cookie);
    if (is_extended) {
        put_be64(r->header + NBD_EXTENDED_OFF_OFFSET, r->offset);
        put_be64(r->header + NBD_EXTENDED_OFF_LENGTH, len);
    } else {
        put_be32(r->header + NBD_STRUCTURED_OFF_LENGTH, len);
    }
    r->header_len = header_len + own_len;
    CHECK(r->header_len <= sizeof r->header);
    return r->header + header_len;
}

static void answer_error(struct nbd_request *r, struct nbd_error error)
{
    struct nbd_connection *c = r->connection;
    r->data = NULL;
    r->data_len = 0;
    r->is_transfer = false;
    c->nbd->counters.errors++;
    if (c->is_structured) {
        r->data = error.why;
        r->data_len = (uint32_t)strlen(error.why);
        uint8_t *payload = header_structured(r, NBD_REPLY_TYPE_ERROR,
                                             ERROR_PAYLOAD_LEN + r->data_len, ERROR_PAYLOAD_LEN);
        put_be32(payload, error.number);
        put_be16(payload + 4, (uint16_t)r->data_len);
    } else {
        header_simple(r, error.number);
    }
    reply_queue(r);
}

// It is done, and has no data to answer with.
static void answer_done(struct nbd_request *r)
{
    r->data = NULL;
    r->data_len = 0;
    r->is_transfer = false;
    if (r->connection->is_extended) {
        header_structured(r, NBD_REPLY_TYPE_NONE, 0, 0);
    } else {
        header_simple(r, NBD_OK);
    }
    reply_queue(r);
}

static void answer(struct nbd_request *r, struct nbd_error error)
{
    if (error.number != NBD_OK) {
        answer_error(r, error);
    } else {
        answer_done(r);
    }
}

// Clients may take an answer amid their data for a breach of the protocol.
static void answer_behind_data(struct nbd_request *r, uint64_t data_len, struct nbd_error error)
{
    struct nbd_connection *c = r->connection;
    if (data_len == 0) {
        answer(r, error);
        return;
    }
    c->skip = data_len;
    c->refused = r;
    c->refused_error = error;
    stream_touch(&c->stream); // nothing was read while it waited
}

// A write beyond the end has no room. That zeroes would not be fast is no fault of the client's.
static struct nbd_error completion_error(const struct nbd_request *r,
                                         enum node_completion completion)
{
    bool needs_space = r->command == NBD_CMD_WRITE || r->command == NBD_CMD_WRITE_ZEROES;
    struct nbd_error error = error_of[completion];
    if (completion == NODE_RANGE && needs_space) {
        error.number = NBD_ENOSPC;
    } else if (completion == NODE_UNSUPPORTED && (r->flags & NBD_CMD_FLAG_FAST_ZERO) != 0) {
        error = (struct nbd_error){NBD_ENOTSUP, "it would be no faster than a write"};
    }
    return error;
}

static bool is_zero(const uint8_t *octets, uint32_t len)
{
    return octets[0] == 0 && memcmp(octets, octets + 1, len - 1) == 0;
}

// How many of the octets from there on are alike: zeroes, or not, by units.
static uint32_t run_len(const uint8_t *data, uint32_t from, uint32_t len, bool is_of_zeroes)
{
    uint32_t at = from;
    while (at < len) {
        uint32_t part = len - at < HOLE_UNIT ? len - at : HOLE_UNIT;
        if (is_zero(data + at, part) != is_of_zeroes) {
            break;
        }
        at += part;
    }
    return at - from;
}

static bool is_hole(uint32_t zeroes_len, uint32_t len)
{
    return zeroes_len >= HOLE_MIN || zeroes_len == len;
}

// Where data end that go on at `at`: at the next hole. Too few zeroes for one belong to them.
static uint32_t data_end(const uint8_t *data, uint32_t at, uint32_t len)
{
    while (at < len) {
        at += run_len(data, at, len, false);
        uint32_t zeroes_len = run_len(data, at, len, true);
        if (zeroes_len >= HOLE_MIN) {
            return at;
        }
        at += zeroes_len;
    }
    return len;
}

// The next chunk of what was read: data, or a hole. Whoever wants it in one piece (DF) gets one.
static void chunk_begin(struct nbd_request *r)
{
    const uint8_t *data = r->service.data;
    uint32_t from = r->chunked_len, len = r->service.buffer.len, part;
    bool is_whole = (r->flags & NBD_CMD_FLAG_DF) != 0;
    uint32_t zeroes_len = run_len(data, from, len, true);
    uint8_t *payload;
    r->sent = r->data_len = 0;
    if (is_whole ? zeroes_len == len : is_hole(zeroes_len, len)) {
        part = zeroes_len;
        payload = header_structured(r, NBD_REPLY_TYPE_OFFSET_HOLE, HOLE_CHUNK_LEN, HOLE_CHUNK_LEN);
        put_be32(payload + 8, part);
    } else {
        part = is_whole ? len : data_end(data, from + zeroes_len, len) - from;
        r->data = data + from;
        r->data_len = part;
        payload =
            header_structured(r, NBD_REPLY_TYPE_OFFSET_DATA, part + DATA_CHUNK_LEN, DATA_CHUNK_LEN);
    }
    put_be64(payload, r->service.offset + from);
    r->chunked_len += part;
    if (r->chunked_len < len || r->left_len > 0) {
        put_be16(r->header + NBD_STRUCTURED_OFF_FLAGS, 0); // more follow
    }
}

static void part_submit(struct nbd_request *r, instant_ns now);

static bool has_more_chunks(const struct nbd_request *r)
{
    return r->command == NBD_CMD_READ && r->is_transfer && r->connection->is_structured &&
           r->chunked_len < r->service.buffer.len;
}

// A simple reply has begun, and said that all is well.
static bool is_continued(const struct nbd_request *r)
{
    return r->command == NBD_CMD_READ && !r->connection->is_structured &&
           r->service.offset != r->offset;
}

static void answer_read(struct nbd_request *r)
{
    r->is_transfer = true;
    r->chunked_len = 0;
    if (r->connection->is_structured) {
        chunk_begin(r);
    } else {
        header_simple(r, NBD_OK);
        r->header_len = is_continued(r) ? 0 : r->header_len;
        r->data = r->service.data;
        r->data_len = r->service.buffer.len;
    }
    reply_queue(r);
}

static void transferred(struct nbd_request *r, enum node_completion outcome, instant_ns now)
{
    const struct nbd_parts *parts = &r->connection->nbd->parts;
    parts->cta->transferred(parts->cta_ctx, &r->service, outcome, now);
}

static uint32_t descriptor_len(const struct nbd_request *r)
{
    return r->connection->is_extended ? DESCRIPTOR_EXT_LEN : DESCRIPTOR_LEN;
}

static void descriptor_put(const struct nbd_request *r, uint8_t *at, uint64_t len, uint32_t extent)
{
    uint32_t flags = ((extent & NODE_EXTENT_HOLE) != 0 ? NBD_STATE_HOLE : 0) |
                     ((extent & NODE_EXTENT_ZERO) != 0 ? NBD_STATE_ZERO : 0);
    if (r->connection->is_extended) {
        put_be64(at, len);
        put_be64(at + 8, flags);
    } else {
        put_be32(at, (uint32_t)len);
        put_be32(at + 4, flags);
    }
}

// The most that a descriptor can tell of.
static uint64_t descriptor_max(const struct nbd_request *r)
{
    bool is_one = (r->flags & NBD_CMD_FLAG_REQ_ONE) != 0;
    uint64_t most = r->connection->is_extended ? UINT64_MAX : UINT32_MAX & ~4095U;
    return is_one && r->service.len < most ? r->service.len : most;
}

// Extents become descriptors in the same place: both have the same or a lesser length. The last one
// may reach beyond what was asked for, unless it is the only one that is wished; behind one that is
// cut off nothing can be told. 0: the device has told of nothing.
static uint32_t descriptors_make(const struct nbd_request *r, uint8_t *out)
{
    bool is_one = (r->flags & NBD_CMD_FLAG_REQ_ONE) != 0, is_cut = false;
    uint64_t told_len = 0, most = descriptor_max(r);
    uint32_t given = r->service.buffer.len / sizeof(struct node_extent), count = 0;
    for (uint32_t i = 0; i < given && told_len < r->service.len && !is_cut; i++) {
        struct node_extent extent;
        memcpy(&extent, (const uint8_t *)r->service.data + i * sizeof extent, sizeof extent);
        uint64_t len = extent.len < most ? extent.len : most;
        if (len > 0) {
            descriptor_put(r, out + descriptor_len(r) * count++, len, extent.flags);
        }
        told_len += len;
        is_cut = is_one ? count > 0 : len < extent.len;
    }
    return count;
}

static void answer_extents(struct nbd_request *r, instant_ns now)
{
    uint32_t count = descriptors_make(r, r->service.data);
    if (count == 0) {
        transferred(r, NODE_OK, now);
        answer_error(r, error_of[NODE_INTERNAL]);
        return;
    }
    bool is_extended = r->connection->is_extended;
    uint32_t own_len = is_extended ? STATUS_EXT_CHUNK_LEN : STATUS_CHUNK_LEN;
    r->data = r->service.data;
    r->data_len = count * descriptor_len(r);
    uint8_t *payload = header_structured(
        r, is_extended ? NBD_REPLY_TYPE_BLOCK_STATUS_EXT : NBD_REPLY_TYPE_BLOCK_STATUS,
        own_len + r->data_len, own_len);
    put_be32(payload, NBD_CONTEXT_ID);
    if (is_extended) {
        put_be32(payload + 4, count);
    }
    r->is_transfer = true;
    reply_queue(r);
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
        answer_read(r);
    } else if (r->command == NBD_CMD_CACHE) { // it was read: that is all
        transferred(r, NODE_OK, now);
        answer_done(r);
    } else {
        answer_extents(r, now);
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
    if (is_continued(r)) { // too late for an error
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
    answer_behind_data(r, unread, completion_error(r, service->completion));
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
        answer_done(r); // what has completed is stable
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
    answer(refused, c->refused_error);
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
        if (has_more_chunks(r)) { // behind the others: one of them may have begun to go
            chunk_begin(r);
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
