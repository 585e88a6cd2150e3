#include "mpa/tx.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "wire/crc32c.h"

/* ---- batch ----------------------------------------------------------------------------------- */

void mpa_batch_init(struct mpa_batch *b, struct mspan arena, bool record_per_fpdu)
{
    b->arena = arena.ptr;
    b->arena_capacity = arena.len;
    b->record_per_fpdu = record_per_fpdu;
    mpa_batch_clear(b);
}

void mpa_batch_clear(struct mpa_batch *b)
{
    b->arena_len = 0;
    b->lent_len = 0;
    b->octets_left = 0;
    b->iov_first = 0;
    b->iov_count = 0;
    b->record_first = 0;
    b->record_count = 0;
}

static unsigned record_start(const struct mpa_batch *b, unsigned record)
{
    unsigned start = record == 0 ? 0 : b->record_end[record - 1];
    return start > b->iov_first ? start : b->iov_first;
}

struct iovec *mpa_batch_record(struct mpa_batch *b, unsigned index, unsigned *ret_count)
{
    CHECK(b->record_per_fpdu);
    CHECK(index < mpa_batch_record_count(b));
    unsigned record = b->record_first + index;
    unsigned start = record_start(b, record);
    *ret_count = b->record_end[record] - start;
    return b->iov + start;
}

void mpa_batch_advance(struct mpa_batch *b, size_t written)
{
    CHECK(written <= b->octets_left);
    b->octets_left -= written;
    if (b->octets_left == 0) {
        mpa_batch_clear(b);
        return;
    }
    while (written >= b->iov[b->iov_first].iov_len) {
        written -= b->iov[b->iov_first++].iov_len;
    }
    b->iov[b->iov_first].iov_base = (uint8_t *)b->iov[b->iov_first].iov_base + written;
    b->iov[b->iov_first].iov_len -= written;
    while (b->record_first < b->record_count && b->record_end[b->record_first] <= b->iov_first) {
        b->record_first++;
    }
}

void mpa_batch_own(struct mpa_batch *b)
{
    if (b->lent_len == 0) {
        return;
    }
    for (unsigned i = b->iov_first; i < b->iov_count; i++) {
        if (b->is_lent[i]) {
            uint8_t *own = b->arena + b->arena_len;
            memcpy(own, b->iov[i].iov_base, b->iov[i].iov_len);
            b->iov[i].iov_base = own;
            b->arena_len += b->iov[i].iov_len;
        }
    }
    b->lent_len = 0;
}

void mpa_batch_check(const struct mpa_batch *b)
{
    size_t octets = 0;
    CHECK(b->arena_len <= b->arena_capacity);
    CHECK(b->lent_len <= b->arena_capacity - b->arena_len);
    CHECK(b->iov_first <= b->iov_count);
    CHECK(b->iov_count <= MPA_BATCH_IOV_MAX);
    CHECK(b->record_first <= b->record_count);
    for (unsigned i = b->iov_first; i < b->iov_count; i++) {
        CHECK(b->iov[i].iov_len > 0);
        octets += b->iov[i].iov_len;
    }
    CHECK(octets == b->octets_left);
    for (unsigned i = b->record_first; i < b->record_count; i++) {
        CHECK(b->record_end[i] > record_start(b, i));
        CHECK(b->record_end[i] <= b->iov_count);
    }
    CHECK(!b->record_per_fpdu || b->record_count == 0 ||
          b->record_end[b->record_count - 1] == b->iov_count);
}

// The first element of an FPDU may join the one before it unless each FPDU is a record.
static bool may_join(const struct mpa_batch *b)
{
    unsigned open = b->record_count == 0 ? 0 : b->record_end[b->record_count - 1];
    return b->iov_count > b->iov_first && b->iov_count > open && !b->is_lent[b->iov_count - 1];
}

static void append_element(struct mpa_batch *b, const void *octets, size_t len, bool is_lent)
{
    b->is_lent[b->iov_count] = is_lent;
    b->iov[b->iov_count++] = (struct iovec){.iov_base = (void *)octets, .iov_len = len};
    b->octets_left += len;
}

static void append_iov(struct mpa_batch *b, const void *octets, size_t len)
{
    if (may_join(b)) {
        struct iovec *last = &b->iov[b->iov_count - 1];
        if ((const uint8_t *)last->iov_base + last->iov_len == octets) {
            last->iov_len += len;
            b->octets_left += len;
            return;
        }
    }
    append_element(b, octets, len, false);
}

// There is room in the arena should it have to be copied after all.
static void append_lent(struct mpa_batch *b, const void *octets, size_t len)
{
    append_element(b, octets, len, true);
    b->lent_len += len;
}

static void close_record(struct mpa_batch *b)
{
    if (b->record_per_fpdu) {
        b->record_end[b->record_count++] = (uint16_t)b->iov_count;
    }
}

/* ---- tx -------------------------------------------------------------------------------------- */

void mpa_tx_init(struct mpa_tx *tx, bool crc, bool markers, size_t mulpdu)
{
    CHECK(mulpdu <= mpa_tx_mulpdu_max(markers));
    *tx = (struct mpa_tx){.crc = crc, .markers = markers, .mulpdu = mulpdu};
}

size_t mpa_tx_mulpdu_max(bool markers)
{
    // The last marker's distance from the length field, in 16 bits: the whole FPDU within 65532.
    return markers ? mpa_mulpdu(65532, true) : MPA_ULPDU_MAX_LEN;
}

void mpa_tx_use_markers(struct mpa_tx *tx)
{
    CHECK(tx->position == 0);
    CHECK(tx->mulpdu <= mpa_tx_mulpdu_max(true));
    tx->markers = true;
}

void mpa_tx_use_mulpdu(struct mpa_tx *tx, size_t mulpdu)
{
    CHECK(tx->position == 0);
    CHECK(mulpdu <= mpa_tx_mulpdu_max(tx->markers));
    tx->mulpdu = mulpdu;
}

static bool is_copied(const struct mpa_tx *tx, size_t payload_len, enum mpa_payload payload)
{
    bool must_stand_still = payload == MPA_PAYLOAD_LENT && tx->crc;
    return tx->markers || payload == MPA_PAYLOAD_COPY || must_stand_still ||
           payload_len <= MPA_TX_COPY_BELOW;
}

bool mpa_tx_has_room(const struct mpa_tx *tx, const struct mpa_batch *b, size_t ulpdu_len,
                     unsigned piece_count, enum mpa_payload payload)
{
    size_t fpdu_len = mpa_fpdu_len(ulpdu_len);
    size_t arena_need = fpdu_len;
    unsigned iov_need = piece_count + 2;
    if (tx->markers) {
        // One more than the interval's share, since a marker may stand on either end.
        arena_need += MPA_MARKER_LEN * (fpdu_len / (MPA_MARKER_INTERVAL - MPA_MARKER_LEN) + 2);
    } else if (payload == MPA_PAYLOAD_REFERENCE) {
        size_t most =
            MPA_TX_HEADER_MAX + MPA_TX_COPY_BELOW + MPA_LENGTH_LEN + MPA_PAD_MAX_LEN + MPA_CRC_LEN;
        arena_need = fpdu_len < most ? fpdu_len : most;
    }
    return arena_need <= b->arena_capacity - b->arena_len - b->lent_len &&
           iov_need <= MPA_BATCH_IOV_MAX - b->iov_count;
}

// The length field and the header, which begin every FPDU.
static uint8_t *put_front(uint8_t *p, size_t ulpdu_len, struct span header)
{
    put_be16(p, (uint16_t)ulpdu_len);
    memcpy(p + MPA_LENGTH_LEN, header.ptr, header.len);
    return p + MPA_LENGTH_LEN + header.len;
}

static void put_crc(const struct mpa_tx *tx, uint8_t *p, uint32_t state)
{
    crc32c_put(p, tx->crc ? crc32c_final(state) : 0);
}

// The whole FPDU in the arena, one element.
static void put_copied(const struct mpa_tx *tx, struct mpa_batch *b, struct span header,
                       const struct span *pieces, unsigned piece_count, size_t ulpdu_len)
{
    uint8_t *fpdu = b->arena + b->arena_len;
    uint8_t *p = put_front(fpdu, ulpdu_len, header);
    for (unsigned i = 0; i < piece_count; i++) {
        if (pieces[i].len > 0) {
            memcpy(p, pieces[i].ptr, pieces[i].len);
            p += pieces[i].len;
        }
    }
    size_t pad_len = mpa_pad_len(ulpdu_len);
    memset(p, 0, pad_len);
    p += pad_len;
    uint32_t state = crc32c_init();
    if (tx->crc) {
        state = crc32c_update(state, fpdu, (size_t)(p - fpdu));
    }
    put_crc(tx, p, state);
    b->arena_len += mpa_fpdu_len(ulpdu_len);
    append_iov(b, fpdu, mpa_fpdu_len(ulpdu_len));
}

// The payload where the user has it: front, pieces, trailer. The trailer and the next FPDU's front
// lie side by side, so that a stream of long FPDUs takes two elements each.
static void put_referenced(const struct mpa_tx *tx, struct mpa_batch *b, struct span header,
                           const struct span *pieces, unsigned piece_count, size_t ulpdu_len,
                           bool is_lent)
{
    uint8_t *front = b->arena + b->arena_len;
    uint8_t *trailer = put_front(front, ulpdu_len, header);
    size_t front_len = (size_t)(trailer - front);
    size_t pad_len = mpa_pad_len(ulpdu_len);
    uint32_t state = crc32c_init();
    append_iov(b, front, front_len);
    if (tx->crc) {
        state = crc32c_update(state, front, front_len);
    }
    for (unsigned i = 0; i < piece_count; i++) {
        if (pieces[i].len == 0) {
            continue;
        }
        if (is_lent) {
            append_lent(b, pieces[i].ptr, pieces[i].len);
        } else {
            append_iov(b, pieces[i].ptr, pieces[i].len);
        }
        if (tx->crc) {
            state = crc32c_update(state, pieces[i].ptr, pieces[i].len);
        }
    }
    memset(trailer, 0, pad_len);
    if (tx->crc) {
        state = crc32c_update(state, trailer, pad_len);
    }
    put_crc(tx, trailer + pad_len, state);
    append_iov(b, trailer, pad_len + MPA_CRC_LEN);
    b->arena_len += front_len + pad_len + MPA_CRC_LEN;
}

// Writes an FPDU with markers among its octets.
struct marker_writer {
    uint8_t *p;
    uint64_t position; // of `p` in the stream
    uint64_t fpdu_position;
    bool is_begun; // the length field is written: markers point back to it
    uint64_t markers;
};

static void write_marker_if_due(struct marker_writer *w)
{
    if (w->position % MPA_MARKER_INTERVAL != 0) {
        return;
    }
    put_be32(w->p, w->is_begun ? (uint16_t)(w->position - w->fpdu_position) : 0);
    w->p += MPA_MARKER_LEN;
    w->position += MPA_MARKER_LEN;
    w->markers++;
}

static void write_octets(struct marker_writer *w, const void *octets, size_t len)
{
    const uint8_t *from = octets;
    while (len > 0) {
        write_marker_if_due(w);
        if (!w->is_begun) {
            w->fpdu_position = w->position;
            w->is_begun = true;
        }
        size_t room = MPA_MARKER_INTERVAL - w->position % MPA_MARKER_INTERVAL;
        size_t take = len < room ? len : room;
        memcpy(w->p, from, take);
        w->p += take;
        w->position += take;
        from += take;
        len -= take;
    }
}

static void put_with_markers(struct mpa_tx *tx, struct mpa_batch *b, struct span header,
                             const struct span *pieces, unsigned piece_count, size_t ulpdu_len)
{
    static const uint8_t zeros[MPA_PAD_MAX_LEN] = {0};
    uint8_t *start = b->arena + b->arena_len;
    struct marker_writer w = {.p = start, .position = tx->position};
    uint8_t length[MPA_LENGTH_LEN];
    put_be16(length, (uint16_t)ulpdu_len);
    write_octets(&w, length, sizeof length);
    write_octets(&w, header.ptr, header.len);
    for (unsigned i = 0; i < piece_count; i++) {
        write_octets(&w, pieces[i].ptr, pieces[i].len);
    }
    write_octets(&w, zeros, mpa_pad_len(ulpdu_len));
    // A marker between the pad and the CRC belongs to this FPDU and its CRC (RFC 5044 section 4.4).
    write_marker_if_due(&w);
    uint32_t state = crc32c_init();
    if (tx->crc) {
        state = crc32c_update(state, start, (size_t)(w.p - start));
    }
    put_crc(tx, w.p, state);
    size_t len = (size_t)(w.p - start) + MPA_CRC_LEN;
    tx->counters.markers += w.markers;
    b->arena_len += len;
    append_iov(b, start, len);
}

uint64_t mpa_tx_put(struct mpa_tx *tx, struct mpa_batch *b, struct span header,
                    const struct span *pieces, unsigned piece_count, enum mpa_payload payload)
{
    size_t payload_len = 0, left_before = b->octets_left;
    for (unsigned i = 0; i < piece_count; i++) {
        payload_len += pieces[i].len;
    }
    size_t ulpdu_len = header.len + payload_len;
    CHECK(header.len <= MPA_TX_HEADER_MAX);
    CHECK(ulpdu_len <= mpa_tx_mulpdu_max(tx->markers));
    CHECK(mpa_tx_has_room(tx, b, ulpdu_len, piece_count, payload));
    if (tx->markers) {
        put_with_markers(tx, b, header, pieces, piece_count, ulpdu_len);
    } else if (is_copied(tx, payload_len, payload)) {
        put_copied(tx, b, header, pieces, piece_count, ulpdu_len);
    } else {
        put_referenced(tx, b, header, pieces, piece_count, ulpdu_len, payload == MPA_PAYLOAD_LENT);
    }
    close_record(b);
    size_t octets = b->octets_left - left_before;
    tx->counters.fpdus++;
    tx->counters.octets += octets;
    tx->counters.copied += is_copied(tx, payload_len, payload);
    tx->position += octets;
    return tx->position;
}
