// iSCSI over TCP: PDUs from the initiator. A header is looked at when all of it is there; data that
// are looked at as a whole likewise, in memory of their own where they are long; other data go
// where they belong as they come.

#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "format/iscsi_pdu.h"
#include "node/iscsi/connection.h"
#include "node/iscsi/keys.h"
#include "node/stream/stream.h"
#include "node/tts/iscsi_tcp_connection.h"
#include "wire/crc32c.h"

/* ---- data that go into place ----------------------------------------------------------------- */

static void crc_add(struct iscsi_incoming *incoming, const void *octets, uint32_t len)
{
    if (incoming->has_digest) {
        incoming->crc = crc32c_update(incoming->crc, octets, len);
    }
}

// `len` octets of data have come, and are at `from`.
static void data_advance(struct iscsi_incoming *incoming, const uint8_t *from, uint32_t len)
{
    crc_add(incoming, from, len);
    incoming->left -= len;
    if (incoming->collected != NULL) {
        memcpy(incoming->collected + incoming->collected_len, from, len);
        incoming->collected_len += len;
    }
    while (len > 0 && incoming->task != NULL) {
        uint32_t room;
        uint8_t *to = iscsi_task_place(incoming->task, &room);
        if (to == NULL) {
            return;
        }
        uint32_t part = len < room ? len : room;
        memcpy(to, from, part);
        incoming->task->stream.filled += part;
        from += part;
        len -= part;
    }
}

uint8_t *iscsi_direct(const struct iscsi_stream *cs, uint32_t *ret_len)
{
    const struct iscsi_incoming *incoming = &cs->incoming;
    if (!incoming->is_on || incoming->left == 0 || incoming->task == NULL) {
        return NULL;
    }
    uint8_t *to = iscsi_task_place(incoming->task, ret_len);
    *ret_len = to != NULL && *ret_len > incoming->left ? incoming->left : *ret_len;
    return to;
}

void iscsi_received(struct iscsi_stream *cs, uint32_t len)
{
    struct iscsi_incoming *incoming = &cs->incoming;
    uint32_t room;
    crc_add(incoming, iscsi_task_place(incoming->task, &room), len);
    incoming->left -= len;
    incoming->task->stream.filled += len;
}

void iscsi_incoming_drop(struct iscsi_stream *cs)
{
    free(cs->incoming.collected);
    cs->incoming = (struct iscsi_incoming){0};
}

static enum stream_verdict verdict_of(enum iscsi_verdict verdict)
{
    static const enum stream_verdict verdicts[] = {[ISCSI_GOES_ON] = STREAM_GOES_ON,
                                                   [ISCSI_STOPS] = STREAM_STOPS,
                                                   [ISCSI_LEAVES] = STREAM_LEAVES};
    return verdicts[verdict];
}

static enum stream_verdict collected_take(struct iscsi_connection *c, const struct iscsi_header *h,
                                          const uint8_t *data, bool is_bad, instant_ns now)
{
    if (is_bad) {
        iscsi_reject(c, h, ISCSI_REJECT_DATA_DIGEST);
        return STREAM_GOES_ON;
    }
    return iscsi_is_next(c, h) ? verdict_of(iscsi_take_pdu(c, h, data, now)) : STREAM_GOES_ON;
}

static enum stream_verdict data_over(struct iscsi_stream *cs, bool is_bad, instant_ns now)
{
    struct iscsi_incoming incoming = cs->incoming;
    enum stream_verdict verdict = STREAM_GOES_ON;
    cs->incoming = (struct iscsi_incoming){0};
    cs->c.door->counters.digest_errors += is_bad;
    if (incoming.task != NULL) {
        incoming.task->stream.is_receiving = false;
        iscsi_task_received(incoming.task, &incoming, is_bad, now);
    }
    if (incoming.collected != NULL) {
        struct iscsi_header h = iscsi_header_parse(incoming.head);
        verdict = collected_take(&cs->c, &h, incoming.collected, is_bad, now);
        free(incoming.collected);
    }
    return verdict;
}

static enum stream_verdict data_take(struct iscsi_stream *cs, instant_ns now)
{
    struct iscsi_incoming *incoming = &cs->incoming;
    struct stream *s = &cs->stream;
    uint32_t there = s->in_len - s->in_at;
    uint32_t part = there < incoming->left ? there : incoming->left;
    if (part > 0) {
        data_advance(incoming, s->in + s->in_at, part);
        s->in_at += part;
        there -= part;
    }
    uint32_t tail_len = incoming->pad_left + (incoming->has_digest ? ISCSI_DIGEST_LEN : 0);
    if (incoming->left > 0 || there < tail_len) {
        return STREAM_NEEDS_MORE;
    }
    bool is_bad = false;
    if (incoming->has_digest) {
        crc_add(incoming, s->in + s->in_at, incoming->pad_left);
        is_bad = crc32c_get(s->in + s->in_at + incoming->pad_left) != crc32c_final(incoming->crc);
    }
    s->in_at += tail_len;
    return data_over(cs, is_bad, now);
}

/* ---- headers --------------------------------------------------------------------------------- */

// A long one, in memory of its own.
static enum stream_verdict collect_begin(struct iscsi_stream *cs, const struct iscsi_header *h,
                                         uint32_t header_len)
{
    iscsi_incoming_begin(&cs->c, h, NULL);
    memcpy(cs->incoming.head, h->at, ISCSI_HEADER_LEN);
    cs->incoming.collected = malloc(h->data_len);
    cs->stream.in_at += header_len;
    return cs->incoming.collected != NULL ? STREAM_GOES_ON : STREAM_LEAVES;
}

static enum stream_verdict take_collected(struct iscsi_stream *cs, const struct iscsi_header *h,
                                          uint32_t header_len, instant_ns now)
{
    struct iscsi_connection *c = &cs->c;
    struct stream *s = &cs->stream;
    bool has_digest = c->parameters.has_data_digest && h->data_len > 0 && c->state == ISCSI_OPEN;
    uint32_t len = h->data_len + h->pad_len + (has_digest ? ISCSI_DIGEST_LEN : 0);
    if (s->in_len - s->in_at < header_len + len) {
        return STREAM_NEEDS_MORE;
    }
    const uint8_t *data = h->at + header_len;
    s->in_at += header_len + len;
    bool is_bad = has_digest && crc32c(data, h->data_len + h->pad_len) !=
                                    crc32c_get(data + h->data_len + h->pad_len);
    c->door->counters.digest_errors += is_bad;
    return collected_take(c, h, data, is_bad, now);
}

// A header whose data are taken as they come.
static enum stream_verdict take_begin(struct iscsi_connection *c, const struct iscsi_header *h,
                                      enum iscsi_pdu_kind kind, instant_ns now)
{
    if (kind == ISCSI_PDU_DATA) {
        iscsi_take_data(c, h);
        return STREAM_GOES_ON;
    }
    if (kind == ISCSI_PDU_COMMAND && iscsi_is_next(c, h)) {
        return verdict_of(iscsi_take_pdu(c, h, NULL, now));
    }
    if (kind == ISCSI_PDU_UNKNOWN) {
        iscsi_reject(c, h, ISCSI_REJECT_UNSUPPORTED);
    }
    iscsi_incoming_begin(c, h, NULL);
    return STREAM_GOES_ON;
}

static enum stream_verdict take_header(struct iscsi_stream *cs, instant_ns now)
{
    struct iscsi_connection *c = &cs->c;
    struct stream *s = &cs->stream;
    uint32_t there = s->in_len - s->in_at;
    bool is_open = c->state == ISCSI_OPEN;
    bool has_digest = is_open && c->parameters.has_header_digest;
    if (there < ISCSI_HEADER_LEN) {
        return STREAM_NEEDS_MORE;
    }
    struct iscsi_header h = iscsi_header_parse(s->in + s->in_at);
    uint32_t len = ISCSI_HEADER_LEN + h.ahs_len;
    uint32_t header_len = len + (has_digest ? ISCSI_DIGEST_LEN : 0);
    enum iscsi_pdu_kind kind = iscsi_pdu_kind(c, h.opcode);
    uint32_t most = is_open ? ISCSI_RECEIVE_MAX : ISCSI_COLLECTED_MAX;
    if (h.data_len > most || (kind == ISCSI_PDU_UNKNOWN && !is_open)) {
        return verdict_of(iscsi_malformed(c));
    }
    if (there < header_len) {
        return STREAM_NEEDS_MORE;
    }
    if (has_digest && crc32c(h.at, len) != crc32c_get(h.at + len)) {
        c->door->counters.digest_errors++;
        return STREAM_LEAVES; // where the next PDU begins is not known
    }
    if (kind == ISCSI_PDU_COLLECTED && h.data_len > ISCSI_COLLECTED_MAX) {
        return collect_begin(cs, &h, header_len);
    }
    if (kind == ISCSI_PDU_COLLECTED) {
        return take_collected(cs, &h, header_len, now);
    }
    s->in_at += header_len;
    return take_begin(c, &h, kind, now);
}

enum stream_verdict iscsi_take(struct iscsi_stream *cs, instant_ns now)
{
    const struct iscsi_connection *c = &cs->c;
    if (!iscsi_is_open(c)) {
        return STREAM_STOPS;
    }
    if (cs->incoming.is_on) {
        return data_take(cs, now);
    }
    return iscsi_has_room(c) ? take_header(cs, now) : STREAM_STOPS;
}
