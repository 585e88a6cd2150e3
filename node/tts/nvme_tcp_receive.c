// NVMe/TCP: PDUs from the host. A header is looked at when all of it is there; data go where they
// belong as they come.

#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "format/nvme_tcp_wire.h"
#include "format/nvme_wire.h"
#include "node/nvme/controller.h"
#include "node/stream/stream.h"
#include "node/tts/nvme_tcp_connection.h"
#include "wire/crc32c.h"

// A header that has come, and what it says of the rest.
struct header {
    const uint8_t *at;
    uint8_t type, flags, len, data_offset;
    uint32_t digest_len; // of the header
    uint32_t data_len;   // without their digest
};

enum { NO_FIELD = UINT32_MAX };

static enum stream_verdict fatal(struct nvme_tcp_connection *c, const struct header *h,
                                 enum nvme_tcp_fatal fes, uint32_t fei)
{
    uint32_t there = c->stream.in_len - c->stream.in_at;
    nvme_tcp_send_term(c, h->at, there < h->len ? there : h->len, fes, fei);
    return STREAM_GOES_ON;
}

/* ---- data ------------------------------------------------------------------------------------ */

static void incoming_begin(struct nvme_tcp_connection *c, const struct header *h,
                           struct nvme_tcp_command *t)
{
    c->incoming = (struct nvme_tcp_incoming){.command = t,
                                             .left = h->data_len,
                                             .is_on = true,
                                             .has_digest = c->has_data_digest && h->data_len > 0,
                                             .crc = crc32c_init()};
}

static void capsule_data_over(struct nvme_tcp_command *t, bool was_direct, instant_ns now)
{
    if (was_direct) {
        nvme_tcp_done(t, t->is_bad ? NVME_TRANSIENT_TRANSPORT_ERROR : NVME_OK, now);
        return;
    }
    t->is_staged = true;
    if (t->stage == NVME_TCP_IN_CAPSULE) { // it was asked for meanwhile
        nvme_tcp_fetch_in_capsule(t, now);
    }
}

static void data_over(struct nvme_tcp_connection *c, bool is_bad, instant_ns now)
{
    struct nvme_tcp_incoming *incoming = &c->incoming;
    struct nvme_tcp_command *t = incoming->command;
    incoming->is_on = false;
    c->tcp->counters.digest_errors += is_bad;
    if (t == NULL) {
        return;
    }
    t->is_bad |= is_bad;
    if (t->stage != NVME_TCP_ASKED) {
        capsule_data_over(t, incoming->is_direct, now);
    } else if (t->filled == t->command->data_len) {
        nvme_tcp_done(t, t->is_bad ? NVME_TRANSIENT_TRANSPORT_ERROR : NVME_OK, now);
    }
}

static enum stream_verdict digest_take(struct nvme_tcp_connection *c, instant_ns now)
{
    struct nvme_tcp_incoming *incoming = &c->incoming;
    bool is_bad = false;
    if (incoming->has_digest) {
        if (c->stream.in_len - c->stream.in_at < NVME_TCP_DIGEST_LEN) {
            return STREAM_NEEDS_MORE;
        }
        is_bad = crc32c_get(c->stream.in + c->stream.in_at) != crc32c_final(incoming->crc);
        c->stream.in_at += NVME_TCP_DIGEST_LEN;
    }
    data_over(c, is_bad, now);
    return STREAM_GOES_ON;
}

// `len` octets have come, and are at `from`, or in place already (NULL).
static void data_advance(struct nvme_tcp_incoming *incoming, const uint8_t *from, uint32_t len)
{
    uint32_t skipped = len < incoming->skip ? len : incoming->skip;
    uint32_t part = len - skipped < incoming->to_len ? len - skipped : incoming->to_len;
    if (from != NULL && part > 0) {
        memcpy(incoming->to, from + skipped, part);
    }
    if (incoming->has_digest) {
        incoming->crc = crc32c_update(incoming->crc, from != NULL ? from : incoming->to, len);
    }
    incoming->left -= len;
    incoming->skip -= skipped;
    incoming->to = incoming->to != NULL ? incoming->to + part : NULL;
    incoming->to_len -= part;
}

static enum stream_verdict data_take(struct nvme_tcp_connection *c, instant_ns now)
{
    struct nvme_tcp_incoming *incoming = &c->incoming;
    uint32_t there = c->stream.in_len - c->stream.in_at;
    uint32_t part = there < incoming->left ? there : incoming->left;
    if (part > 0) {
        data_advance(incoming, c->stream.in + c->stream.in_at, part);
        c->stream.in_at += part;
    }
    return incoming->left > 0 ? STREAM_NEEDS_MORE : digest_take(c, now);
}

uint8_t *nvme_tcp_direct(const struct nvme_tcp_connection *c, uint32_t *ret_len)
{
    const struct nvme_tcp_incoming *incoming = &c->incoming;
    bool is_in_place = incoming->is_on && incoming->skip == 0 && incoming->to_len > 0;
    *ret_len = incoming->to_len;
    return is_in_place ? incoming->to : NULL;
}

void nvme_tcp_received(struct nvme_tcp_connection *c, uint32_t len)
{
    data_advance(&c->incoming, NULL, len);
}

/* ---- ICReq ----------------------------------------------------------------------------------- */

static enum stream_verdict take_ic_req(struct nvme_tcp_connection *c, const struct header *h,
                                       instant_ns now)
{
    uint8_t align = h->at[NVME_TCP_IC_OFF_PDA];
    uint8_t digests = h->at[NVME_TCP_IC_OFF_DIGEST];
    if (c->state != NVME_TCP_WAITS_IC) {
        return fatal(c, h, NVME_TCP_SEQUENCE_ERROR, 0);
    }
    if (get_le16(h->at + NVME_TCP_IC_OFF_PFV) != 0) {
        return fatal(c, h, NVME_TCP_UNSUPPORTED, NVME_TCP_IC_OFF_PFV);
    }
    if (align > NVME_TCP_PDA_MAX) {
        return fatal(c, h, NVME_TCP_INVALID_FIELD, NVME_TCP_IC_OFF_PDA);
    }
    if (!nvme_tcp_open(c)) {
        nvme_tcp_leave(c);
        return STREAM_STOPS;
    }
    c->align = 4 * (align + 1U);
    c->has_header_digest = (digests & NVME_TCP_IC_HDGST) != 0;
    c->has_data_digest = (digests & NVME_TCP_IC_DDGST) != 0;
    c->state = NVME_TCP_OPEN;
    nvme_tcp_send_ic_resp(c);
    c->stream.in_at += NVME_TCP_IC_LEN;
    return STREAM_GOES_ON;
}

/* ---- capsules -------------------------------------------------------------------------------- */

// Where the data of a capsule go, now that the controllers have seen the command.
static void capsule_data_aim(struct nvme_tcp_connection *c, struct nvme_tcp_command *t)
{
    struct nvme_tcp_incoming *incoming = &c->incoming;
    if (t->stage == NVME_TCP_IN_CAPSULE) {
        incoming->is_direct = true;
        incoming->skip = (uint32_t)t->command->sgl.address;
        incoming->to = t->command->data;
        incoming->to_len = t->command->data_len;
    } else if (t->stage == NVME_TCP_PENDING) {
        incoming->to = c->staging + (size_t)(t - c->commands) * NVME_TCP_IN_CAPSULE_MAX;
        incoming->to_len = incoming->left;
    } else { // refused, or needless
        incoming->command = NULL;
    }
}

static enum stream_verdict take_capsule(struct nvme_tcp_connection *c, const struct header *h,
                                        instant_ns now)
{
    if (h->data_len > NVME_TCP_IN_CAPSULE_MAX) {
        return fatal(c, h, NVME_TCP_LIMIT_EXCEEDED, 0);
    }
    if (c->is_full || list_is_empty(&c->free)) {
        return STREAM_STOPS;
    }
    struct nvme_tcp_command *t = LIST_ENTRY(c->free.next, struct nvme_tcp_command, link);
    const uint8_t *sqe = h->at + NVME_TCP_OFF_CAPSULE;
    list_remove(&t->link);
    t->stage = NVME_TCP_PENDING;
    t->cid = get_le16(sqe + NVME_SQE_OFF_CID);
    t->is_staged = t->is_bad = false;
    incoming_begin(c, h, t);
    if (!nvme_queue_on_capsule(c->queue, sqe, h->data_len, t, now)) {
        t->stage = NVME_TCP_FREE;
        list_push_head(&c->free, &t->link);
        c->incoming.is_on = false;
        c->is_full = true;
        return STREAM_STOPS;
    }
    c->tcp->counters.octets_in_capsules += h->data_len;
    c->stream.in_at += h->data_offset;
    if (h->data_len > 0) {
        capsule_data_aim(c, t);
    } else {
        c->incoming.is_on = false;
    }
    return STREAM_GOES_ON;
}

/* ---- H2CData --------------------------------------------------------------------------------- */

// Which rule the PDU breaks; `ret_fei` where, if it is a field.
static enum nvme_tcp_fatal data_fault(const struct nvme_tcp_connection *c, const struct header *h,
                                      uint32_t *ret_fei)
{
    uint16_t tag = get_le16(h->at + NVME_TCP_DATA_OFF_TTAG);
    uint32_t offset = get_le32(h->at + NVME_TCP_DATA_OFF_DATAO);
    uint32_t len = get_le32(h->at + NVME_TCP_DATA_OFF_DATAL);
    const struct nvme_tcp_command *t = tag < NVME_TCP_COMMAND_COUNT ? &c->commands[tag] : NULL;
    *ret_fei = 0;
    if (t == NULL || t->stage != NVME_TCP_ASKED) {
        *ret_fei = NVME_TCP_DATA_OFF_TTAG;
        return NVME_TCP_INVALID_FIELD;
    }
    if (get_le16(h->at + NVME_TCP_DATA_OFF_CCCID) != t->cid) {
        *ret_fei = NVME_TCP_DATA_OFF_CCCID;
        return NVME_TCP_INVALID_FIELD;
    }
    if (len != h->data_len || len == 0) {
        *ret_fei = NVME_TCP_DATA_OFF_DATAL;
        return NVME_TCP_INVALID_FIELD;
    }
    if (len > NVME_TCP_DATA_MAX) {
        return NVME_TCP_LIMIT_EXCEEDED;
    }
    bool is_next = offset == t->filled && len <= t->command->data_len - t->filled;
    bool is_last = (h->flags & NVME_TCP_LAST_PDU) != 0;
    if (!is_next || is_last != (len == t->command->data_len - t->filled)) {
        return NVME_TCP_OUT_OF_RANGE;
    }
    return NVME_TCP_NO_FAULT;
}

static enum stream_verdict take_data(struct nvme_tcp_connection *c, const struct header *h,
                                     instant_ns now)
{
    uint32_t fei;
    enum nvme_tcp_fatal fault = data_fault(c, h, &fei);
    if (fault != NVME_TCP_NO_FAULT) {
        return fatal(c, h, fault, fei);
    }
    struct nvme_tcp_command *t = &c->commands[get_le16(h->at + NVME_TCP_DATA_OFF_TTAG)];
    incoming_begin(c, h, t);
    c->incoming.to = (uint8_t *)t->command->data + t->filled;
    c->incoming.to_len = h->data_len;
    t->filled += h->data_len;
    c->stream.in_at += h->data_offset;
    return STREAM_GOES_ON;
}

static enum stream_verdict take_term(struct nvme_tcp_connection *c, const struct header *h,
                                     instant_ns now)
{
    c->tcp->counters.malformed++; // so the host thinks
    nvme_tcp_leave(c);
    return STREAM_STOPS;
}

/* ---- headers --------------------------------------------------------------------------------- */

static const struct type_facts {
    enum stream_verdict (*on_header)(struct nvme_tcp_connection *c, const struct header *h,
                                     instant_ns now);
    uint8_t header_len;
    bool has_digests;
    bool has_data;
} types[] = {
    [NVME_TCP_IC_REQ] = {take_ic_req, NVME_TCP_IC_LEN, false, false},
    [NVME_TCP_H2C_TERM] = {take_term, NVME_TCP_TERM_HLEN, false, true},
    [NVME_TCP_CAPSULE_CMD] = {take_capsule, NVME_TCP_CMD_HLEN, true, true},
    [NVME_TCP_H2C_DATA] = {take_data, NVME_TCP_DATA_HLEN, true, true},
};

static const struct type_facts *facts_of(uint8_t type)
{
    bool is_known = type < sizeof types / sizeof types[0] && types[type].on_header != NULL;
    return is_known ? &types[type] : NULL;
}

// The lengths of the common header, each against the others. The field that is wrong; NO_FIELD.
static uint32_t lengths_fault(const struct nvme_tcp_connection *c, struct header *h,
                              const struct type_facts *facts)
{
    uint32_t len = get_le32(h->at + NVME_TCP_OFF_PLEN);
    bool has_header_digest = facts->has_digests && c->has_header_digest;
    if (h->len != facts->header_len) {
        return NVME_TCP_OFF_HLEN;
    }
    h->digest_len = has_header_digest ? NVME_TCP_DIGEST_LEN : 0;
    uint32_t whole = h->len + h->digest_len;
    if (len < whole || (!facts->has_data && len != whole)) {
        return NVME_TCP_OFF_PLEN;
    }
    if (len == whole) { // no data
        h->data_offset = (uint8_t)whole;
        return NO_FIELD;
    }
    if (h->type == NVME_TCP_H2C_TERM) {
        h->data_offset = (uint8_t)whole;
        return NO_FIELD; // what it shows is of no use here
    }
    uint32_t tail = c->has_data_digest ? NVME_TCP_DIGEST_LEN : 0;
    if (h->data_offset < whole || h->data_offset % 4 != 0) {
        return NVME_TCP_OFF_PDO;
    }
    if (len <= h->data_offset || len - h->data_offset <= tail) {
        return NVME_TCP_OFF_PLEN;
    }
    h->data_len = len - h->data_offset - tail;
    return NO_FIELD;
}

static uint32_t flags_fault(const struct nvme_tcp_connection *c, const struct header *h,
                            const struct type_facts *facts)
{
    bool has_header_digest = (h->flags & NVME_TCP_HDGST) != 0;
    bool has_data_digest = (h->flags & NVME_TCP_DDGST) != 0;
    bool is_right =
        !facts->has_digests || (has_header_digest == c->has_header_digest &&
                                (h->data_len == 0 || has_data_digest == c->has_data_digest));
    return is_right ? NO_FIELD : NVME_TCP_OFF_FLAGS;
}

static enum stream_verdict take_header(struct nvme_tcp_connection *c, instant_ns now)
{
    uint32_t there = c->stream.in_len - c->stream.in_at;
    if (there < NVME_TCP_COMMON_LEN) {
        return STREAM_NEEDS_MORE;
    }
    const uint8_t *at = c->stream.in + c->stream.in_at;
    struct header h = {.at = at,
                       .type = at[NVME_TCP_OFF_TYPE],
                       .flags = at[NVME_TCP_OFF_FLAGS],
                       .len = at[NVME_TCP_OFF_HLEN],
                       .data_offset = at[NVME_TCP_OFF_PDO]};
    const struct type_facts *facts = facts_of(h.type);
    if (facts == NULL) {
        return fatal(c, &h, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_TYPE);
    }
    if (c->state == NVME_TCP_WAITS_IC && h.type != NVME_TCP_IC_REQ) {
        return fatal(c, &h, NVME_TCP_SEQUENCE_ERROR, 0);
    }
    uint32_t field = lengths_fault(c, &h, facts);
    field = field == NO_FIELD ? flags_fault(c, &h, facts) : field;
    if (field != NO_FIELD) {
        return fatal(c, &h, NVME_TCP_INVALID_FIELD, field);
    }
    uint32_t needed = h.data_offset > h.len + h.digest_len ? h.data_offset : h.len + h.digest_len;
    if (there < needed) {
        return STREAM_NEEDS_MORE;
    }
    if (h.digest_len > 0) {
        uint32_t digest = crc32c(at, h.len);
        if (digest != crc32c_get(at + h.len)) {
            c->tcp->counters.digest_errors++;
            return fatal(c, &h, NVME_TCP_HEADER_DIGEST_ERROR, digest);
        }
    }
    return facts->on_header(c, &h, now);
}

// Behind the fault nothing that the host says means anything.
static enum stream_verdict throw_away(struct nvme_tcp_connection *c)
{
    c->stream.in_at = c->stream.in_len;
    return STREAM_NEEDS_MORE;
}

enum stream_verdict nvme_tcp_take(struct nvme_tcp_connection *c, instant_ns now)
{
    if (c->state == NVME_TCP_TERMINATED) {
        return throw_away(c);
    }
    if (c->state == NVME_TCP_LEAVING || c->state == NVME_TCP_ENDED) {
        return STREAM_STOPS;
    }
    return c->incoming.is_on ? data_take(c, now) : take_header(c, now);
}
