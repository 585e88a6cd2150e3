// The send queue against a naive copy of all that was given: puts, cuts, gathers, acknowledgements
// in any order.
#include <string.h>

#include "base/prng.h"
#include "tcp/sendq.h"
#include "tcp/tcp.h"
#include "tests/seeds.h"

enum { COPIES_MAX = 500, PIECE_MAX = 12, STREAM_MAX = 1 << 16 };

static _Alignas(CARVE_ALIGN) uint8_t memory[1 << 16];
static uint8_t stream[STREAM_MAX];    // all octets
static bool is_start[STREAM_MAX + 1]; // where records begin

static uint32_t naive_cut(const struct tcp_sendq *q, tcp_seq seq, uint32_t limit)
{
    if (q->end - seq <= limit) {
        return (uint32_t)(q->end - seq);
    }
    for (uint32_t len = limit; len > 0; len--) {
        if (is_start[seq + len]) {
            return len;
        }
    }
    return limit;
}

static void put(struct prng *prng, struct tcp_sendq *q)
{
    uint32_t len = 1 + prng_below(prng, 150), first = prng_below(prng, len + 1);
    struct iovec iov[2] = {{stream + q->end, first}, {stream + q->end + first, len - first}};
    unsigned flags = prng_below(prng, 4); // record, reference
    tcp_seq before = q->end;
    unsigned pieces_before = q->piece_count;
    bool is_first_copy = (flags & TCP_SEND_REFERENCE) == 0 && q->copies_len == 0;
    size_t room = tcp_sendq_room(q, 2, flags);
    size_t taken = tcp_sendq_put(q, iov, 2, flags);
    bool is_whole_only = (flags & TCP_SEND_RECORD) != 0;
    assert_int_equal(taken, room >= len ? len : is_whole_only ? 0 : room);
    assert_int_equal(q->end, before + taken);
    if (taken > 0 && is_first_copy) { // the ring begins anew: its end cuts nothing
        assert_int_equal(q->piece_count, pieces_before + 1);
    }
    if (taken > 0 && is_whole_only) {
        is_start[before] = true;
    }
}

static void look(struct prng *prng, const struct tcp_sendq *q)
{
    if (q->begin == q->end) {
        return;
    }
    tcp_seq seq = q->begin + prng_below(prng, (uint32_t)(q->end - q->begin));
    uint32_t limit = 1 + prng_below(prng, 200);
    unsigned hint = TCP_SENDQ_NO_HINT;
    uint32_t len = tcp_sendq_cut(q, seq, limit, &hint);
    assert_int_equal(len, naive_cut(q, seq, limit));
    if (seq + len < q->end) { // and the next behind it
        assert_int_equal(tcp_sendq_cut(q, seq + len, limit, &hint), naive_cut(q, seq + len, limit));
    }
    struct iovec iov[PIECE_MAX];
    unsigned iov_count = 1 + prng_below(prng, PIECE_MAX);
    unsigned max = iov_count;
    uint32_t got = tcp_sendq_gather(q, seq, len, iov, &iov_count), at = 0;
    assert_true(got == len || iov_count == max);
    const uint8_t *behind = NULL;
    for (unsigned i = 0; i < iov_count; i++) {
        assert_ptr_not_equal(iov[i].iov_base, behind); // neighbours in memory are one
        behind = (const uint8_t *)iov[i].iov_base + iov[i].iov_len;
        assert_memory_equal(iov[i].iov_base, stream + seq + at, iov[i].iov_len);
        at += (uint32_t)iov[i].iov_len;
    }
    assert_int_equal(at, got);
}

static void run(uint64_t seed)
{
    struct prng prng;
    struct tcp_sendq q;
    prng_init(&prng, seed);
    memset(is_start, 0, sizeof is_start);
    for (unsigned i = 0; i < STREAM_MAX; i++) {
        stream[i] = (uint8_t)prng_next(&prng);
    }
    tcp_sendq_init(&q, COPIES_MAX, PIECE_MAX, &(struct carve){.block = memory});
    tcp_sendq_begin(&q, 77);
    q.copies[COPIES_MAX] = 0xa5; // nothing is written behind the ring
    while (q.end < STREAM_MAX - 1000) {
        switch (prng_below(&prng, 4)) {
        case 0:
            tcp_sendq_ack(&q, q.begin + prng_below(&prng, (uint32_t)(q.end - q.begin) + 1));
            break;
        case 1:
            look(&prng, &q);
            break;
        default:
            put(&prng, &q);
        }
        tcp_sendq_check(&q);
        assert_int_equal(q.copies[COPIES_MAX], 0xa5);
    }
}

int main(void)
{
    return seeds_main("what_goes_in_comes_out", run, 30);
}
