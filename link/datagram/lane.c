#include "link/datagram/lane.h"

#include <stdatomic.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "link/datagram/octets.h"
#include "wire/bth.h"

STATIC_CHECK(LANE_RECORD_HEADER_LEN + BTH_LEN == LANE_LINE);
STATIC_CHECK(LANE_MEMORY_RING + OCTET_RING_CONTROL_LEN <= LANE_MEMORY_GATE);
STATIC_CHECK(sizeof(struct local_gate) <= LANE_MEMORY_SLOTS - LANE_MEMORY_GATE);
STATIC_CHECK(sizeof(struct local_slot) <= LANE_SLOT_LEN);
STATIC_CHECK(LANE_MEMORY_SLOTS + LANE_SLOTS * LANE_SLOT_LEN <= LANE_MEMORY_OCTETS);

static _Atomic uint64_t *is_read_at(uint8_t *memory)
{
    return (_Atomic uint64_t *)(void *)(memory + LANE_MEMORY_IS_READ);
}

static struct octet_ring ring_in(uint8_t *memory)
{
    return (struct octet_ring){.control = memory + LANE_MEMORY_RING,
                               .octets = memory + LANE_MEMORY_OCTETS,
                               .len = LANE_MEMORY_LEN - LANE_MEMORY_OCTETS};
}

// Of a packet: to the next cache line.
static size_t record_len(size_t packet_len)
{
    return (LANE_RECORD_HEADER_LEN + packet_len + LANE_LINE - 1) & ~(size_t)(LANE_LINE - 1);
}

/* ---- writing --------------------------------------------------------------------------------- */

void lane_writer_init(struct lane_writer *w, uint8_t *memory)
{
    const struct octet_ring ring = ring_in(memory);
    *w = (struct lane_writer){.memory = memory};
    octet_ring_writer_init(&w->ring, &ring);
}

bool lane_is_read(const struct lane_writer *w)
{
    return atomic_load_explicit(is_read_at(w->memory), memory_order_acquire) != 0;
}

bool lane_has_room(struct lane_writer *w, const struct datagram_tx *tx)
{
    return octet_ring_has_room(&w->ring, record_len(datagram_tx_len(tx)));
}

static void header_fill(uint8_t header[LANE_RECORD_HEADER_LEN], size_t len,
                        const struct datagram_path *path)
{
    memset(header, 0, LANE_RECORD_HEADER_LEN);
    put_be32(header + LANE_OFF_LEN, (uint32_t)len);
    memcpy(header + LANE_OFF_LOCAL, &path->local, sizeof path->local);
    memcpy(header + LANE_OFF_REMOTE, &path->remote, sizeof path->remote);
    put_be32(header + LANE_OFF_SCOPE_ID, path->scope_id);
    put_be32(header + LANE_OFF_FLOW_LABEL, path->flow_label);
    put_be16(header + LANE_OFF_SOURCE_PORT, path->source_port);
    header[LANE_OFF_TRAFFIC_CLASS] = path->traffic_class;
    header[LANE_OFF_HOP_LIMIT] = path->hop_limit;
}

bool lane_put(struct lane_writer *w, const struct datagram_tx *tx, const struct datagram_path *path)
{
    static const uint8_t zeros[LANE_LINE + 4];
    uint8_t header[LANE_RECORD_HEADER_LEN];
    const size_t len = datagram_tx_len(tx), whole_len = record_len(len);
    CHECK(tx->head.len >= BTH_LEN && len <= DATAGRAM_LEN_MAX);
    if (!octet_ring_has_room(&w->ring, whole_len)) {
        return false;
    }
    header_fill(header, len, path);
    octet_ring_put(&w->ring, span_of(header, sizeof header));
    octet_ring_put(&w->ring, tx->head);
    for (unsigned i = 0; i < tx->piece_count; i++) {
        octet_ring_put(&w->ring, tx->pieces[i]);
    }
    const size_t rest_len = whole_len - LANE_RECORD_HEADER_LEN - len + tx->pad_len;
    octet_ring_put(&w->ring, span_of(zeros, rest_len));
    w->unshown_len += (uint32_t)whole_len;
    return true;
}

bool lane_publish(struct lane_writer *w)
{
    w->unshown_len = 0;
    return octet_ring_publish(&w->ring);
}

bool lane_reader_sleeps(const struct lane_writer *w)
{
    return octet_ring_reader_sleeps(&w->ring);
}

/* ---- reading --------------------------------------------------------------------------------- */

void lane_reader_init(struct lane_reader *r, uint8_t *memory, uint8_t *copies)
{
    const struct octet_ring ring = ring_in(memory);
    *r = (struct lane_reader){.memory = memory, .copies = copies};
    octet_ring_reader_init(&r->ring, &ring);
}

void lane_take_up(struct lane_reader *r)
{
    atomic_store_explicit(is_read_at(r->memory), 1, memory_order_release);
}

static bool is_length_good(size_t len)
{
    return len >= BTH_LEN && len <= DATAGRAM_LEN_MAX && len % 4 == 0;
}

static void header_read(const uint8_t header[LANE_RECORD_HEADER_LEN], struct datagram_rx *ret)
{
    *ret = (struct datagram_rx){.scope_id = get_be32(header + LANE_OFF_SCOPE_ID),
                                .flow_label = get_be32(header + LANE_OFF_FLOW_LABEL),
                                .source_port = get_be16(header + LANE_OFF_SOURCE_PORT),
                                .traffic_class = header[LANE_OFF_TRAFFIC_CLASS],
                                .hop_limit = header[LANE_OFF_HOP_LIMIT],
                                .is_checked = true}; // memory changes nothing
    memcpy(&ret->remote, header + LANE_OFF_LOCAL, sizeof ret->remote);
    memcpy(&ret->local, header + LANE_OFF_REMOTE, sizeof ret->local);
}

// A packet that has come whole: where it lies, or a copy of it.
static struct span packet_at(struct lane_reader *r, size_t offset, size_t len)
{
    const struct span there = octet_ring_at(&r->ring, offset, len);
    if (len > LANE_COPIED_LEN_MAX && there.ptr != NULL) {
        return there;
    }
    uint8_t *copy = r->copies + r->copied_len;
    CHECK(len <= LANE_COPIES_LEN - r->copied_len); // of a batch one goes round the ring's end
    octet_ring_copy(&r->ring, offset, mspan_of(copy, len));
    r->copied_len += len;
    return span_of(copy, len);
}

// Who copies the payload out deals with the packets before that first: meanwhile it comes over from
// the writer's cache.
static void fetch_ahead(struct span packet)
{
    for (size_t at = 0; at < packet.len; at += LANE_LINE) {
        __builtin_prefetch(packet.ptr + at, 0, 2); // to be read; into the second cache
    }
}

bool lane_next(struct lane_reader *r, struct datagram_rx *ret)
{
    uint8_t header[LANE_RECORD_HEADER_LEN];
    const struct mspan into = mspan_of(header, sizeof header);
    const size_t header_len = r->is_broken ? 0 : octet_ring_copy(&r->ring, r->lent_len, into);
    if (header_len == 0) {
        r->is_broken = r->is_broken || r->ring.verdict != OCTET_RING_OK;
        return false;
    }
    const size_t len = get_be32(header + LANE_OFF_LEN);
    const bool is_good = header_len == sizeof header && is_length_good(len) &&
                         octet_ring_has(&r->ring, r->lent_len, record_len(len));
    if (!is_good) {
        r->is_broken = true;
        return false;
    }
    header_read(header, ret);
    ret->octets = packet_at(r, r->lent_len + LANE_RECORD_HEADER_LEN, len);
    fetch_ahead(ret->octets);
    r->lent_len += record_len(len);
    return true;
}

void lane_give_back(struct lane_reader *r)
{
    if (r->lent_len > 0) {
        octet_ring_release(&r->ring, r->lent_len);
        r->lent_len = r->copied_len = 0;
    }
}

bool lane_has_news(struct lane_reader *r)
{
    return !r->is_broken &&
           (octet_ring_available(&r->ring) > r->lent_len || r->ring.verdict != OCTET_RING_OK);
}

bool lane_sleep(struct lane_reader *r)
{
    return r->is_broken || octet_ring_reader_sleep(&r->ring);
}

void lane_rise(struct lane_reader *r)
{
    octet_ring_reader_rise(&r->ring);
}
