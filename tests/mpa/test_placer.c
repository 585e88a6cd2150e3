// FPDUs found beyond holes. The layer above notes which ULPDUs it got early and which in order; the
// octets come through the plain ledger of tests/hole_ledger.h.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/prng.h"
#include "mpa/placer.h"
#include "mpa/tx.h"
#include "tests/hole_ledger.h"
#include "wire/crc32c.h"

enum { FPDU_MAX = 64, WIRE_MAX = 1 << 17, BASE = 1000, STARTUP_LEN = 40 };

// A stream, and where its FPDUs begin.
static struct {
    uint8_t wire[WIRE_MAX];
    size_t len;
    size_t start[FPDU_MAX + 1];
    unsigned count;
} stream;

static struct {
    unsigned early[FPDU_MAX], in_order[FPDU_MAX]; // how often each ULPDU came
    unsigned delivered;                           // in order, or released
    enum place_verdict early_verdict;
    unsigned stall_count; // on_ulpdu stalls so often
    bool is_advance_refused;
} above;

static uint8_t carry[MPA_RX_CARRY_LEN], scratch[MPA_ULPDU_MAX_LEN];
static struct mpa_rx rx;
static struct mpa_placer placer;
static struct ledger ledger;

/* ---- the layer above: the first octets of a ULPDU are its number ----------------------------- */

static enum ulpdu_answer on_ulpdu(void *ctx, struct span ulpdu)
{
    (void)ctx;
    if (above.stall_count > 0) {
        above.stall_count--;
        return ULPDU_STALL;
    }
    above.in_order[get_be16(ulpdu.ptr)]++;
    assert_int_equal(get_be16(ulpdu.ptr), above.delivered++);
    return ULPDU_TAKEN;
}

static enum place_verdict on_early_ulpdu(void *ctx, struct span ulpdu, uint64_t end,
                                         struct place_counts *counts)
{
    (void)ctx;
    unsigned number = get_be16(ulpdu.ptr);
    assert_int_equal(end, stream.start[number + 1]);
    if (above.early_verdict == PLACE_PLACED) {
        above.early[number]++;
        counts->n[0] = 1;
    }
    return above.early_verdict;
}

static bool on_advance(void *ctx, uint64_t end, const struct place_counts *counts)
{
    (void)ctx;
    if (above.is_advance_refused) {
        return false;
    }
    for (unsigned i = 0; i < counts->n[0]; i++) {
        assert_int_equal(above.early[above.delivered], 1);
        above.delivered++;
    }
    assert_int_equal(end, stream.start[above.delivered]);
    return true;
}

/* ---- template -------------------------------------------------------------------------------- */

// `count` FPDUs of these lengths, in a stream that begins behind the start-up frames.
static void make_stream(const uint16_t *ulpdu_len, unsigned count, bool markers)
{
    static struct mpa_batch batch;
    static uint8_t arena[1 << 18], payload[4096];
    struct mpa_tx tx;
    mpa_batch_init(&batch, mspan_of(arena, sizeof arena), false);
    mpa_tx_init(&tx, true, markers, mpa_tx_mulpdu_max(markers));
    for (unsigned i = 0; i < count; i++) {
        uint8_t number[2];
        put_be16(number, (uint16_t)i);
        struct span piece = span_of(payload, ulpdu_len[i] - sizeof number);
        stream.start[i] = tx.position;
        mpa_tx_put(&tx, &batch, span_of(number, sizeof number), &piece, piece.len > 0,
                   MPA_PAYLOAD_COPY);
    }
    stream.count = count;
    stream.len = stream.start[count] = tx.position;
    unsigned iov_count;
    memcpy(stream.wire, mpa_batch_iov(&batch, &iov_count)->iov_base, stream.len);
    assert_int_equal(iov_count, 1);
}

static void begin_framed(enum placement placement, bool crc, bool markers)
{
    struct ulpdu_port port = {on_ulpdu, on_early_ulpdu, on_advance, NULL};
    memset(&above, 0, sizeof above);
    above.early_verdict = PLACE_PLACED;
    mpa_rx_init(&rx, crc, markers ? MPA_RX_MARKERS : MPA_RX_MARKERS_NONE,
                mspan_of(carry, sizeof carry), port);
    mpa_placer_init(&placer, &rx, placement, BASE, mspan_of(scratch, sizeof scratch));
    ledger_init(&ledger, mpa_placer_port(&placer), BASE, stream.wire, stream.len);
}

static void begin(enum placement placement, bool markers)
{
    begin_framed(placement, true, markers);
}

static void end(void)
{
    mpa_placer_check(&placer);
    ledger_fini(&ledger);
}

// The segment that holds FPDUs [first, last) and no more.
static void arrive(unsigned first, unsigned last)
{
    ledger_arrive(&ledger, stream.start[first], stream.start[last] - stream.start[first]);
    mpa_placer_check(&placer);
}

// The layer above may go on: first what it did not take, then what is behind that.
static void resume(void)
{
    size_t consumed;
    mpa_rx_on_input(&rx, span_of(NULL, 0), &consumed);
    ledger_resume(&ledger);
}

static void expect_all_once(void)
{
    assert_int_equal(above.delivered, stream.count);
    assert_int_equal(ledger.handed, stream.len);
    for (unsigned i = 0; i < stream.count; i++) {
        assert_int_equal(above.early[i] + above.in_order[i], 1);
    }
    assert_int_equal(rx.counters.fpdus, stream.count);
    assert_int_equal(rx.counters.octets, stream.len);
    assert_int_equal(rx.position, stream.len);
}

static const uint16_t four[] = {300, 500, 100, 700};

/* ---- tests ----------------------------------------------------------------------------------- */

static void aligned_segment_beyond_a_hole_is_placed_at_once(void **state)
{
    for (int markers = 0; markers < 2; markers++) {
        make_stream(four, 4, markers);
        begin(PLACEMENT_EARLY, markers);
        arrive(1, 2);
        arrive(3, 4);
        assert_int_equal(above.early[1], 1);
        assert_int_equal(above.early[3], 1);
        assert_int_equal(above.delivered, 0);
        arrive(2, 3);
        assert_int_equal(above.delivered, 0);
        arrive(0, 1);
        expect_all_once();
        assert_int_equal(ledger.advances, 1);
        assert_int_equal(placer.counters.advances, 1);
        assert_int_equal(placer.counters.early_fpdus, 3);
        assert_int_equal(placer.counters.early_octets, stream.len - stream.start[1]);
        end();
    }
}

static void chain_of_fpdus_in_one_segment_is_placed(void **state)
{
    make_stream(four, 4, false);
    begin(PLACEMENT_EARLY, false);
    arrive(1, 4);
    assert_int_equal(placer.counters.early_fpdus, 3);
    arrive(0, 1);
    expect_all_once();
    end();
}

static void segment_that_begins_inside_an_fpdu_waits_without_markers(void **state)
{
    make_stream(four, 4, false);
    begin(PLACEMENT_EARLY, false);
    ledger_arrive(&ledger, stream.start[1] + 4, stream.len - stream.start[1] - 4);
    assert_int_equal(placer.counters.early_fpdus, 0);
    assert_int_equal(placer.counters.early_buffered, 1);
    ledger_arrive(&ledger, 0, stream.start[1] + 4);
    expect_all_once();
    end();
}

static void segment_that_ends_inside_an_fpdu_waits_without_markers(void **state)
{
    make_stream(four, 4, false);
    begin(PLACEMENT_EARLY, false);
    ledger_arrive(&ledger, stream.start[1], stream.start[3] + 8 - stream.start[1]);
    assert_int_equal(placer.counters.early_fpdus, 0);
    arrive(0, 1);
    ledger_arrive(&ledger, stream.start[3] + 8, stream.len - stream.start[3] - 8);
    expect_all_once();
    end();
}

// FPDU 1 and 3 are cut by the segment; 2 is whole, and a marker tells where it is.
static void markers_find_a_whole_fpdu_inside_any_segment(void **state)
{
    static const uint16_t lens[] = {300, 500, 900, 700};
    make_stream(lens, 4, true);
    for (int placement = PLACEMENT_EARLY; placement <= PLACEMENT_STRICT; placement++) {
        begin(placement, true);
        size_t from = stream.start[1] + 40, to = stream.start[3] + 80;
        ledger_arrive(&ledger, from, to - from);
        assert_int_equal(above.early[2], 1);
        assert_int_equal(placer.counters.early_fpdus, 1);
        ledger_arrive(&ledger, 0, from);
        assert_int_equal(above.delivered, 3);
        ledger_arrive(&ledger, to, stream.len - to);
        expect_all_once();
        end();
    }
}

// The lengths of an aligned segment without a marker are a guess: not with `strict`.
static void strict_places_only_what_a_marker_tells(void **state)
{
    static const uint16_t lens[] = {100, 100, 700, 100};
    make_stream(lens, 4, true);
    begin(PLACEMENT_STRICT, true);
    arrive(1, 2);
    assert_int_equal(placer.counters.early_fpdus, 0);
    arrive(2, 3);
    assert_int_equal(above.early[2], 1);
    arrive(0, 1);
    arrive(3, 4);
    expect_all_once();
    end();

    begin(PLACEMENT_EARLY, true);
    arrive(1, 2);
    assert_int_equal(above.early[1], 1);
    end();

    make_stream(lens, 4, false);
    begin(PLACEMENT_STRICT, false);
    arrive(2, 3);
    assert_int_equal(placer.counters.early_fpdus, 0);
    end();
}

static void off_places_nothing_beyond_a_hole(void **state)
{
    make_stream(four, 4, true);
    begin(PLACEMENT_OFF, true);
    arrive(3, 4);
    arrive(1, 3);
    assert_int_equal(placer.counters.early_fpdus, 0);
    arrive(0, 1);
    expect_all_once();
    end();
}

static void without_crc_only_markers_are_believed(void **state)
{
    make_stream(four, 4, false);
    begin_framed(PLACEMENT_EARLY, false, false);
    arrive(1, 2);
    assert_int_equal(placer.counters.early_fpdus, 0);
    end();

    make_stream(four, 4, true);
    begin_framed(PLACEMENT_EARLY, false, true);
    arrive(3, 4);
    assert_int_equal(placer.counters.early_fpdus, 1);
    arrive(0, 3);
    expect_all_once();
    end();
}

static void nothing_is_placed_early_before_the_framing_is_known(void **state)
{
    make_stream(four, 4, true);
    begin(PLACEMENT_EARLY, true);
    rx.is_framing_open = true;
    rx.framing.markers = false;
    arrive(1, 2);
    assert_int_equal(placer.counters.early_fpdus, 0);
    arrive(0, 1);
    assert_true(rx.framing.markers);
    arrive(3, 4);
    assert_int_equal(above.early[3], 1);
    arrive(2, 3);
    expect_all_once();
    end();
}

static void wrong_crc_beyond_a_hole_is_repaired_by_the_peer(void **state)
{
    for (int markers = 0; markers < 2; markers++) {
        uint8_t bad[4096];
        make_stream(four, 4, markers);
        begin(PLACEMENT_EARLY, markers);
        size_t at = stream.start[1], len = stream.len - at;
        memcpy(bad, stream.wire + at, len);
        bad[stream.start[2] + 20 - at] ^= 1; // the second FPDU of the three
        ledger_arrive_octets(&ledger, at, bad, len);
        assert_int_equal(ledger.dropped, 1);
        assert_int_equal(placer.counters.early_crc_errors, 1);
        assert_int_equal(above.early[1] + above.early[3], 2);
        arrive(0, 1);
        assert_int_equal(above.delivered, 2);
        arrive(2, 3);
        expect_all_once();
        end();
    }
}

static void wrong_crc_in_order_ends_the_stream(void **state)
{
    uint8_t bad[4096];
    make_stream(four, 4, false);
    begin(PLACEMENT_EARLY, false);
    arrive(2, 3);
    memcpy(bad, stream.wire, stream.start[2]);
    bad[20] ^= 1;
    ledger_arrive_octets(&ledger, 0, bad, stream.start[2]);
    assert_int_equal(rx.verdict, MPA_RX_CRC);
    arrive(3, 4);
    assert_int_equal(ledger.handed, stream.len); // and all behind it is thrown away
    assert_int_equal(above.delivered, 0);
    end();
}

static void wrong_marker_is_met_in_order(void **state)
{
    static const uint16_t lens[] = {100, 100, 1500, 100};
    make_stream(lens, 4, true);
    size_t at = 1024 + MPA_MARKER_OFF_FPDUPTR, end_of_2 = stream.start[3];
    stream.wire[at] ^= 1;
    crc32c_put(stream.wire + end_of_2 - 4,
               crc32c(stream.wire + stream.start[2], end_of_2 - 4 - stream.start[2]));
    begin(PLACEMENT_EARLY, true);
    arrive(2, 3);
    assert_int_equal(placer.counters.early_fpdus, 0);
    assert_int_equal(rx.verdict, MPA_RX_OK);
    arrive(0, 2);
    assert_int_equal(rx.verdict, MPA_RX_MARKER);
    assert_int_equal(above.delivered, 2);
    end();
}

// Octets that look like an FPDU of their own, good CRC and all, in the middle of another one.
static void false_fpdu_ends_the_stream_when_octets_in_order_reach_it(void **state)
{
    static const uint16_t lens[] = {100, 500, 100};
    make_stream(lens, 3, false);
    uint8_t *inner = stream.wire + stream.start[1] + 102;
    put_be16(inner, 90);
    put_be16(inner + 2, 2); // the number, so that the layer above finds an end for it
    crc32c_put(inner + mpa_fpdu_len(90) - 4, crc32c(inner, mpa_fpdu_len(90) - 4));
    uint8_t *outer = stream.wire + stream.start[1];
    crc32c_put(outer + mpa_fpdu_len(500) - 4, crc32c(outer, mpa_fpdu_len(500) - 4));
    begin(PLACEMENT_EARLY, false);
    size_t at = (size_t)(inner - stream.wire), true_end = stream.start[3];
    stream.start[3] = at + mpa_fpdu_len(90);
    ledger_arrive(&ledger, at, mpa_fpdu_len(90));
    assert_int_equal(placer.counters.early_fpdus, 1);
    stream.start[3] = true_end;
    ledger_arrive(&ledger, 0, at);
    assert_int_equal(rx.verdict, MPA_RX_MARKER);
    assert_int_equal(placer.counters.misplaced, 1);
    assert_int_equal(above.delivered, 1);
    end();
}

static void unwanted_ulpdu_comes_again_in_order(void **state)
{
    make_stream(four, 4, false);
    begin(PLACEMENT_EARLY, false);
    above.early_verdict = PLACE_BUFFER;
    arrive(1, 3);
    assert_int_equal(placer.counters.early_unwanted, 2);
    above.early_verdict = PLACE_PLACED;
    arrive(3, 4);
    arrive(0, 1);
    expect_all_once();
    assert_int_equal(above.in_order[1] + above.in_order[2] + above.early[3], 3);
    end();
}

static void dropped_ulpdu_comes_again_from_the_peer(void **state)
{
    make_stream(four, 4, false);
    begin(PLACEMENT_EARLY, false);
    above.early_verdict = PLACE_DROP;
    arrive(1, 3);
    assert_int_equal(placer.counters.early_dropped, 2);
    above.early_verdict = PLACE_PLACED;
    arrive(1, 2);
    arrive(0, 1);
    assert_int_equal(above.delivered, 2);
    arrive(2, 4);
    expect_all_once();
    end();
}

static void nothing_passes_a_ulpdu_that_stalled(void **state)
{
    make_stream(four, 4, false);
    begin(PLACEMENT_EARLY, false);
    arrive(2, 3);
    above.stall_count = 4;
    arrive(0, 2); // the first stalls: 1 is not offered, 2 not delivered
    assert_true(ledger.is_stalled);
    arrive(3, 4);
    assert_int_equal(above.delivered, 0);
    resume();
    assert_int_equal(above.delivered, 0);
    resume();
    expect_all_once();
    end();
}

static void refused_advance_is_asked_again(void **state)
{
    make_stream(four, 4, false);
    begin(PLACEMENT_EARLY, false);
    above.is_advance_refused = true;
    arrive(1, 3);
    arrive(0, 1);
    arrive(3, 4);
    assert_int_equal(above.delivered, 1);
    above.is_advance_refused = false;
    resume();
    expect_all_once();
    end();
}

// All orders of 8 segments, one FPDU each, with and without markers.
static void permute(unsigned *order, unsigned n, bool markers)
{
    if (n == 1) {
        begin(PLACEMENT_EARLY, markers);
        for (unsigned i = 0; i < 8; i++) {
            arrive(order[i], order[i] + 1);
        }
        expect_all_once();
        assert_int_equal(ledger.buffered, 0);
        end();
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        permute(order, n - 1, markers);
        unsigned other = n % 2 == 0 ? i : 0, last = order[n - 1];
        order[n - 1] = order[other];
        order[other] = last;
    }
}

static void every_order_of_eight_segments_gives_the_same(void **state)
{
    static const uint16_t lens[] = {40, 60, 33, 80, 20, 41, 52, 63};
    for (int markers = 0; markers < 2; markers++) {
        unsigned order[] = {0, 1, 2, 3, 4, 5, 6, 7};
        make_stream(lens, 8, markers);
        permute(order, 8, markers);
    }
}

// Segments cut anywhere, in any order, some twice.
static void any_cuts_in_any_order_give_every_ulpdu_once(void **state)
{
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct prng prng;
        uint16_t lens[30];
        bool markers = seed & 1;
        prng_init(&prng, seed);
        for (unsigned i = 0; i < 30; i++) {
            lens[i] = (uint16_t)(14 + prng_below(&prng, prng_below(&prng, 4) == 0 ? 3000 : 200));
        }
        make_stream(lens, 30, markers);
        begin(prng_below(&prng, 3) == 0 ? PLACEMENT_STRICT : PLACEMENT_EARLY, markers);
        for (unsigned i = 0; i < 400 && ledger.handed < stream.len; i++) {
            unsigned fpdu = prng_below(&prng, 30);
            bool is_aligned = prng_below(&prng, 4) != 0;
            size_t at = is_aligned ? stream.start[fpdu] : prng_below(&prng, (uint32_t)stream.len);
            size_t len = is_aligned ? stream.start[fpdu + 1] - at : 1 + prng_below(&prng, 1448);
            above.stall_count += prng_below(&prng, 20) == 0;
            ledger_arrive(&ledger, at, len < stream.len - at ? len : stream.len - at);
            if (prng_below(&prng, 4) == 0) {
                resume();
            }
        }
        above.stall_count = 0;
        resume();
        ledger_arrive(&ledger, 0, stream.len);
        expect_all_once();
        end();
    }
}

static void start_up_frames_stand_before_the_first_fpdu(void **state)
{
    static const uint16_t lens[] = {600, 600, 600};
    make_stream(lens, 3, true);
    begin(PLACEMENT_EARLY, true);
    // What the link had handed up before, with the frame, counts as consumed.
    size_t consumed;
    mpa_rx_on_input(&rx, span_of(stream.wire, 100), &consumed);
    mpa_placer_init(&placer, &rx, PLACEMENT_EARLY, BASE + STARTUP_LEN + 100,
                    mspan_of(scratch, sizeof scratch));
    ledger_fini(&ledger);
    ledger_init(&ledger, mpa_placer_port(&placer), BASE + STARTUP_LEN + 100, stream.wire + 100,
                stream.len - 100);
    ledger_arrive(&ledger, stream.start[2] - 100, stream.len - stream.start[2]);
    assert_int_equal(above.early[2], 1);
    ledger_arrive(&ledger, 0, stream.start[2] - 100);
    assert_int_equal(above.delivered, 3);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_segment_beyond_a_hole_is_placed_at_once),
        cmocka_unit_test(chain_of_fpdus_in_one_segment_is_placed),
        cmocka_unit_test(segment_that_begins_inside_an_fpdu_waits_without_markers),
        cmocka_unit_test(segment_that_ends_inside_an_fpdu_waits_without_markers),
        cmocka_unit_test(markers_find_a_whole_fpdu_inside_any_segment),
        cmocka_unit_test(strict_places_only_what_a_marker_tells),
        cmocka_unit_test(off_places_nothing_beyond_a_hole),
        cmocka_unit_test(without_crc_only_markers_are_believed),
        cmocka_unit_test(nothing_is_placed_early_before_the_framing_is_known),
        cmocka_unit_test(wrong_crc_beyond_a_hole_is_repaired_by_the_peer),
        cmocka_unit_test(wrong_crc_in_order_ends_the_stream),
        cmocka_unit_test(wrong_marker_is_met_in_order),
        cmocka_unit_test(false_fpdu_ends_the_stream_when_octets_in_order_reach_it),
        cmocka_unit_test(unwanted_ulpdu_comes_again_in_order),
        cmocka_unit_test(dropped_ulpdu_comes_again_from_the_peer),
        cmocka_unit_test(nothing_passes_a_ulpdu_that_stalled),
        cmocka_unit_test(refused_advance_is_asked_again),
        cmocka_unit_test(every_order_of_eight_segments_gives_the_same),
        cmocka_unit_test(any_cuts_in_any_order_give_every_ulpdu_once),
        cmocka_unit_test(start_up_frames_stand_before_the_first_fpdu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
