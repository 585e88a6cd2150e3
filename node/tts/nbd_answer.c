// NBD: what a client is told of a request. Answers are made in the request, and queued.

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/list.h"
#include "node/interface/request.h"
#include "node/stream/stream.h"
#include "node/tts/nbd_connection.h"
#include "node/tts/nbd_wire.h"

STATIC_CHECK(sizeof(struct node_extent) >= 16); // descriptors are made in place of extents

enum {
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

/* ---- headers --------------------------------------------------------------------------------- */

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

/* ---- without data ---------------------------------------------------------------------------- */

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

void nbd_answer(struct nbd_request *r, struct nbd_error error)
{
    if (error.number != NBD_OK) {
        answer_error(r, error);
    } else {
        answer_done(r);
    }
}

// A write beyond the end has no room. That zeroes would not be fast is no fault of the client's.
struct nbd_error nbd_completion_error(const struct nbd_request *r, enum node_completion completion)
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

/* ---- what was read --------------------------------------------------------------------------- */

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

// Whoever wants it in one piece (DF) gets one.
void nbd_chunk_begin(struct nbd_request *r)
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

bool nbd_has_more_chunks(const struct nbd_request *r)
{
    return r->command == NBD_CMD_READ && r->is_transfer && r->connection->is_structured &&
           r->chunked_len < r->service.buffer.len;
}

bool nbd_is_continued(const struct nbd_request *r)
{
    return r->command == NBD_CMD_READ && !r->connection->is_structured &&
           r->service.offset != r->offset;
}

void nbd_answer_read(struct nbd_request *r)
{
    r->is_transfer = true;
    r->chunked_len = 0;
    if (r->connection->is_structured) {
        nbd_chunk_begin(r);
    } else {
        header_simple(r, NBD_OK);
        r->header_len = nbd_is_continued(r) ? 0 : r->header_len;
        r->data = r->service.data;
        r->data_len = r->service.buffer.len;
    }
    reply_queue(r);
}

/* ---- what is allocated ----------------------------------------------------------------------- */

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

bool nbd_answer_extents(struct nbd_request *r)
{
    uint32_t count = descriptors_make(r, r->service.data);
    if (count == 0) {
        return false;
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
    return true;
}
