#include "tcp/sendq.h"

#include <string.h>

#include "base/check.h"
#include "tcp/tcp.h"

void tcp_sendq_init(struct tcp_sendq *q, uint32_t copies_max, unsigned piece_max,
                    struct carve *memory)
{
    *q = (struct tcp_sendq){
        .piece = carve(memory, piece_max, sizeof q->piece[0]),
        .piece_max = piece_max,
        .copies = carve(memory, copies_max, 1),
        .copies_max = copies_max,
    };
}

static struct tcp_piece *piece_at(const struct tcp_sendq *q, unsigned index)
{
    unsigned at = q->piece_first + index;
    return &q->piece[at < q->piece_max ? at : at - q->piece_max];
}

void tcp_sendq_begin(struct tcp_sendq *q, tcp_seq seq)
{
    CHECK(q->piece_count == 0);
    q->begin = q->end = seq;
}

/* ---- putting --------------------------------------------------------------------------------- */

// Copies of one call may be split by the end of the ring, and lie behind a piece that they do not
// join: two pieces at most.
enum { COPY_PIECES = 2 };

size_t tcp_sendq_room(const struct tcp_sendq *q, unsigned piece_count, unsigned flags)
{
    bool is_reference = (flags & TCP_SEND_REFERENCE) != 0;
    if (q->piece_max - q->piece_count < (is_reference ? piece_count : COPY_PIECES)) {
        return 0;
    }
    return is_reference ? UINT32_MAX : q->copies_max - q->copies_len;
}

static void add_piece(struct tcp_sendq *q, const uint8_t *octets, uint32_t len, bool is_copy,
                      bool starts_record)
{
    CHECK(q->piece_count < q->piece_max);
    *piece_at(q, q->piece_count++) = (struct tcp_piece){
        .seq = q->end,
        .octets = octets,
        .len = len,
        .is_copy = is_copy,
        .starts_record = starts_record,
    };
    q->end += len;
}

// The last piece, if octets copied to `to` lie just behind it.
static struct tcp_piece *piece_before(const struct tcp_sendq *q, const uint8_t *to)
{
    struct tcp_piece *last = q->piece_count > 0 ? piece_at(q, q->piece_count - 1) : NULL;
    return last != NULL && last->is_copy && last->octets + last->len == to ? last : NULL;
}

// Copies up to the ring's end at most. Returns how many octets.
static uint32_t put_copy(struct tcp_sendq *q, const uint8_t *octets, uint32_t len,
                         bool starts_record)
{
    uint32_t at = q->copies_first + q->copies_len;
    at = at < q->copies_max ? at : at - q->copies_max;
    len = len < q->copies_max - at ? len : q->copies_max - at;
    memcpy(q->copies + at, octets, len);
    q->copies_len += len;
    struct tcp_piece *before = starts_record ? NULL : piece_before(q, q->copies + at);
    if (before != NULL) {
        before->len += len;
        q->end += len;
    } else {
        add_piece(q, q->copies + at, len, true, starts_record);
    }
    return len;
}

static size_t total_len(const struct iovec *iov, unsigned iov_count)
{
    size_t total = 0;
    for (unsigned i = 0; i < iov_count; i++) {
        total += iov[i].iov_len;
    }
    return total;
}

size_t tcp_sendq_put(struct tcp_sendq *q, const struct iovec *iov, unsigned iov_count,
                     unsigned flags)
{
    size_t total = total_len(iov, iov_count), room = tcp_sendq_room(q, iov_count, flags);
    bool starts_record = (flags & TCP_SEND_RECORD) != 0;
    if (room < total && starts_record) {
        return 0;
    }
    size_t take = room < total ? room : total, left = take;
    for (unsigned i = 0; i < iov_count && left > 0; i++) {
        const uint8_t *octets = iov[i].iov_base;
        uint32_t len = (uint32_t)(iov[i].iov_len < left ? iov[i].iov_len : left);
        left -= len;
        while (len > 0) {
            uint32_t done = len;
            if ((flags & TCP_SEND_REFERENCE) != 0) {
                add_piece(q, octets, len, false, starts_record);
            } else {
                done = put_copy(q, octets, len, starts_record);
            }
            octets += done;
            len -= done;
            starts_record = false;
        }
    }
    return take;
}

/* ---- letting go ------------------------------------------------------------------------------ */

static void drop_copies(struct tcp_sendq *q, const struct tcp_piece *piece, uint32_t len)
{
    if (piece->is_copy) {
        q->copies_first = (q->copies_first + len) % q->copies_max;
        q->copies_len -= len;
    }
    if (q->copies_len == 0) {
        q->copies_first = 0; // the front of the ring is what the cache holds
    }
}

void tcp_sendq_ack(struct tcp_sendq *q, tcp_seq seq)
{
    CHECK(seq <= q->end);
    while (q->piece_count > 0) {
        struct tcp_piece *piece = piece_at(q, 0);
        if (piece->seq + piece->len > seq) {
            break;
        }
        drop_copies(q, piece, piece->len);
        q->piece_first = q->piece_first + 1 < q->piece_max ? q->piece_first + 1 : 0;
        q->piece_count--;
    }
    if (q->piece_count == 0) {
        q->piece_first = q->copies_first = 0;
    }
    if (q->piece_count > 0 && piece_at(q, 0)->seq < seq) {
        struct tcp_piece *piece = piece_at(q, 0);
        uint32_t len = (uint32_t)(seq - piece->seq);
        drop_copies(q, piece, len);
        piece->seq = seq;
        piece->octets += len;
        piece->len -= len;
        piece->starts_record = false;
    }
    q->begin = tcp_seq_max(q->begin, seq);
}

/* ---- cutting --------------------------------------------------------------------------------- */

// The piece that holds the octet at `seq`.
static unsigned find(const struct tcp_sendq *q, tcp_seq seq)
{
    unsigned low = 0, left = q->piece_count - 1;
    while (left > 0) { // as tcp_ranges_find: nothing for the processor to guess
        unsigned half = (left + 1) / 2;
        low += half * (piece_at(q, low + half)->seq <= seq);
        left -= half;
    }
    return low;
}

static unsigned find_behind(const struct tcp_sendq *q, tcp_seq seq, unsigned hint)
{
    if (hint >= q->piece_count || piece_at(q, hint)->seq > seq) {
        return find(q, seq);
    }
    while (hint + 1 < q->piece_count && piece_at(q, hint + 1)->seq <= seq) {
        hint++;
    }
    return hint;
}

uint32_t tcp_sendq_cut(const struct tcp_sendq *q, tcp_seq seq, uint32_t limit, unsigned *hint)
{
    if (q->end - seq <= limit) {
        return (uint32_t)(q->end - seq);
    }
    *hint = find_behind(q, seq + limit, *hint);
    for (unsigned i = *hint;; i--) {
        const struct tcp_piece *piece = piece_at(q, i);
        if (piece->seq <= seq) {
            return limit;
        }
        if (piece->starts_record) {
            return (uint32_t)(piece->seq - seq);
        }
    }
}

uint32_t tcp_sendq_gather(const struct tcp_sendq *q, tcp_seq seq, uint32_t len, struct iovec *iov,
                          unsigned *iov_count)
{
    unsigned max = *iov_count, count = 0;
    uint32_t done = 0;
    CHECK(q->begin <= seq);
    CHECK(seq + len <= q->end);
    for (unsigned i = len > 0 ? find(q, seq) : 0; done < len && count < max; i++) {
        const struct tcp_piece *piece = piece_at(q, i);
        uint32_t skip = (uint32_t)(seq + done - piece->seq);
        uint32_t take = piece->len - skip < len - done ? piece->len - skip : len - done;
        uint8_t *octets = (uint8_t *)(uintptr_t)piece->octets + skip;
        if (count > 0 && (uint8_t *)iov[count - 1].iov_base + iov[count - 1].iov_len == octets) {
            iov[count - 1].iov_len += take;
        } else {
            iov[count++] = (struct iovec){octets, take};
        }
        done += take;
    }
    *iov_count = count;
    return done;
}

void tcp_sendq_check(const struct tcp_sendq *q)
{
    tcp_seq at = q->begin;
    uint64_t copied = 0;
    CHECK(q->piece_count <= q->piece_max);
    for (unsigned i = 0; i < q->piece_count; i++) {
        const struct tcp_piece *piece = piece_at(q, i);
        CHECK(piece->seq == at);
        CHECK(piece->len > 0);
        at += piece->len;
        copied += piece->is_copy ? piece->len : 0;
    }
    CHECK(at == q->end);
    CHECK(copied == q->copies_len);
    CHECK(q->copies_len <= q->copies_max);
}
