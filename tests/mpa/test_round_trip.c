// The send side's stream, cut anywhere, gives the receive side the same ULPDUs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/prng.h"
#include "mpa/rx.h"
#include "mpa/tx.h"
#include "tests/mpa/stream.h"

enum { HEADER_LEN = 14, PAYLOAD_MAX = 40000, SEEDS = 200 };

static struct collector above;
static struct mpa_batch batch;
static uint8_t arena[1 << 19], carry[MPA_RX_CARRY_LEN], payload[PAYLOAD_MAX];
static uint8_t wire[1 << 20], sent[1 << 20];

// Writes the whole batch to the wire in pieces of any size, as a socket would take it.
static size_t write_batch(size_t at, struct prng *prng)
{
    while (!mpa_batch_is_empty(&batch)) {
        unsigned count;
        struct iovec *iov = mpa_batch_iov(&batch, &count);
        size_t take = 1 + prng_below(prng, (uint32_t)iov[0].iov_len);
        memcpy(wire + at, iov[0].iov_base, take);
        at += take;
        mpa_batch_advance(&batch, take);
        mpa_batch_check(&batch);
    }
    return at;
}

// Feeds the wire in cuts of any size; now and then the layer above stalls.
static void feed(struct mpa_rx *rx, size_t len, struct prng *prng)
{
    size_t at = 0;
    while (at < len) {
        size_t most = prng_below(prng, 4) == 0 ? 3000 : 70000;
        size_t cut = 1 + prng_below(prng, (uint32_t)most), consumed;
        cut = cut < len - at ? cut : len - at;
        if (prng_below(prng, 8) == 0) {
            above.odd_index = above.count;
            above.odd_answer = ULPDU_STALL;
            above.odd_times = 1 + prng_below(prng, 3);
        }
        enum mpa_rx_verdict v = mpa_rx_on_input(rx, span_of(wire + at, cut), &consumed);
        assert_true(v == MPA_RX_OK || v == MPA_RX_STALLED);
        assert_true(v != MPA_RX_OK || consumed == cut);
        mpa_rx_check(rx);
        at += consumed;
    }
    for (int i = 0; i < 4; i++) {
        size_t consumed;
        mpa_rx_on_input(rx, span_of(NULL, 0), &consumed);
    }
}

static void round_trip(uint64_t seed)
{
    struct prng prng;
    struct mpa_tx tx;
    struct mpa_rx rx;
    size_t wire_len = 0, sent_len = 0, ends[64];
    unsigned count = 0;
    prng_init(&prng, seed);
    bool markers = seed & 1, crc = (seed & 2) == 0;
    mpa_batch_init(&batch, mspan_of(arena, sizeof arena), (seed & 4) != 0);
    mpa_tx_init(&tx, crc, markers, mpa_tx_mulpdu_max(markers));
    collector_reset(&above);
    mpa_rx_init(&rx, crc,
                (seed & 8) ? MPA_RX_MARKERS_IF_SEEN
                : markers  ? MPA_RX_MARKERS
                           : MPA_RX_MARKERS_NONE,
                mspan_of(carry, sizeof carry), collector_port(&above));
    while (count < 60 && sent_len < 400000) {
        size_t len = prng_below(&prng, prng_below(&prng, 3) == 0 ? PAYLOAD_MAX : 700);
        size_t first = len > 0 ? prng_below(&prng, (uint32_t)len) : 0;
        struct span pieces[] = {span_of(payload, first), span_of(payload + first, len - first)};
        enum mpa_payload mode = prng_below(&prng, 2);
        uint8_t header[HEADER_LEN] = {(uint8_t)count};
        if (!mpa_tx_has_room(&tx, &batch, HEADER_LEN + len, 2, mode)) {
            wire_len = write_batch(wire_len, &prng);
        }
        mpa_tx_put(&tx, &batch, span_of(header, HEADER_LEN), pieces, 2, mode);
        mpa_batch_check(&batch);
        memcpy(sent + sent_len, header, HEADER_LEN);
        memcpy(sent + sent_len + HEADER_LEN, payload, len);
        sent_len += HEADER_LEN + len;
        ends[count++] = sent_len;
    }
    wire_len = write_batch(wire_len, &prng);
    assert_int_equal(wire_len, tx.position);
    feed(&rx, wire_len, &prng);
    assert_int_equal(above.count, count);
    assert_memory_equal(above.ends, ends, count * sizeof ends[0]);
    assert_memory_equal(above.octets, sent, sent_len);
    assert_int_equal(rx.counters.octets, wire_len);
    assert_int_equal(rx.counters.markers, tx.counters.markers);
    assert_true(mpa_rx_is_between_fpdus(&rx));
}

static void any_ulpdus_at_any_cuts_come_through(void **state)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        round_trip(seed);
    }
}

// An FPDU that starts at each offset between two markers, long enough to hold two of them.
static void fpdus_at_every_offset_between_markers_come_through(void **state)
{
    for (size_t first = 0; first < MPA_MARKER_INTERVAL; first++) {
        for (size_t len = 0; len <= 1100; len += 550) {
            struct mpa_tx tx;
            struct mpa_rx rx;
            struct prng prng;
            size_t consumed;
            uint8_t header[HEADER_LEN] = {0};
            struct span piece = span_of(payload, first), second = span_of(payload, len);
            prng_init(&prng, first);
            mpa_batch_init(&batch, mspan_of(arena, sizeof arena), false);
            mpa_tx_init(&tx, true, true, mpa_tx_mulpdu_max(true));
            collector_reset(&above);
            mpa_rx_init(&rx, true, MPA_RX_MARKERS, mspan_of(carry, sizeof carry),
                        collector_port(&above));
            mpa_tx_put(&tx, &batch, span_of(header, HEADER_LEN), &piece, 1, MPA_PAYLOAD_COPY);
            mpa_tx_put(&tx, &batch, span_of(header, HEADER_LEN), &second, 1, MPA_PAYLOAD_COPY);
            mpa_tx_put(&tx, &batch, span_of(header, HEADER_LEN), NULL, 0, MPA_PAYLOAD_COPY);
            size_t wire_len = write_batch(0, &prng);
            assert_int_equal(mpa_rx_on_input(&rx, span_of(wire, wire_len), &consumed), MPA_RX_OK);
            assert_int_equal(above.count, 3);
            assert_int_equal(above.ends[1] - above.ends[0], HEADER_LEN + len);
            assert_memory_equal(above.octets + above.ends[0] + HEADER_LEN, payload, len);
        }
    }
}

static int fill_payload(void **state)
{
    struct prng prng;
    prng_init(&prng, 42);
    for (size_t i = 0; i < sizeof payload; i++) {
        payload[i] = (uint8_t)prng_next(&prng);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ulpdus_at_any_cuts_come_through),
        cmocka_unit_test(fpdus_at_every_offset_between_markers_come_through),
    };
    return cmocka_run_group_tests(tests, fill_payload, NULL);
}
