#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "mpa/rx.h"
#include "tests/mpa/stream.h"

static struct collector above;
static uint8_t carry[MPA_RX_CARRY_LEN];
static uint8_t stream[1 << 18];

static struct mpa_rx fresh(enum mpa_rx_markers markers)
{
    struct mpa_rx rx;
    collector_reset(&above);
    mpa_rx_init(&rx, true, markers, mspan_of(carry, sizeof carry), collector_port(&above));
    return rx;
}

static enum mpa_rx_verdict input(struct mpa_rx *rx, const uint8_t *octets, size_t len,
                                 size_t expected_consumed)
{
    size_t consumed;
    enum mpa_rx_verdict verdict = mpa_rx_on_input(rx, span_of(octets, len), &consumed);
    assert_int_equal(consumed, expected_consumed);
    mpa_rx_check(rx);
    return verdict;
}

// RFC 5044 figure 5: the first FPDU of a stream with markers.
static size_t make_figure_5(uint8_t *p)
{
    memset(p, 0, 0x34);
    memcpy(p + 4, "\0\x2a\x41\x43", 4);
    p[0x13] = 1;
    memcpy(p + 0x30, "\x52\x23\x99\x83", 4);
    return 0x34;
}

// RFC 5044 figure 6: an FPDU with a marker inside, behind 0x1ec octets of the stream.
static size_t make_figure_6(uint8_t *p)
{
    memset(p, 0, 0x34);
    memcpy(p, "\0\x2a\x41\x43", 4);
    p[0x0f] = 2;
    p[0x17] = 0x14;
    memcpy(p + 0x30, "\x84\x92\x58\x98", 4);
    return 0x34;
}

// A stream with markers from its start to 0x1ec: one FPDU of 484 octets and its leading marker.
static size_t make_first_of_figure_6(uint8_t *p)
{
    memset(p, 0, 0x1ec);
    put_be16(p + 4, 0x1ec - 4 - 6);
    crc32c_put(p + 0x1e8, crc32c(p, 0x1e8));
    return 0x1ec;
}

static void whole_fpdu_is_handed_up_where_it_lies(void **state)
{
    struct mpa_rx rx = fresh(MPA_RX_MARKERS_NONE);
    size_t len = make_fpdu(stream, 100, 7);
    assert_int_equal(input(&rx, stream, len, len), MPA_RX_OK);
    assert_int_equal(above.count, 1);
    assert_int_equal(above.len, 100);
    assert_ptr_equal(above.last_ptr, stream + MPA_LENGTH_LEN);
    assert_int_equal(rx.counters.carried, 0);
    assert_int_equal(rx.counters.octets, len);
}

static void any_cut_gives_the_same_ulpdus(void **state)
{
    size_t len = 0;
    for (unsigned i = 0; i < 5; i++) {
        len += make_fpdu(stream + len, 14 + 37 * i, (uint8_t)i);
    }
    for (size_t cut = 0; cut <= len; cut++) {
        struct mpa_rx rx = fresh(MPA_RX_MARKERS_NONE);
        assert_int_equal(input(&rx, stream, cut, cut), MPA_RX_OK);
        assert_int_equal(input(&rx, stream + cut, len - cut, len - cut), MPA_RX_OK);
        assert_int_equal(above.count, 5);
        for (unsigned i = 0; i < 5; i++) {
            assert_int_equal(above.ends[i] - (i == 0 ? 0 : above.ends[i - 1]), 14 + 37 * i);
            assert_int_equal(above.octets[above.ends[i] - 1], i);
        }
        assert_int_equal(rx.position, len);
        assert_true(mpa_rx_is_between_fpdus(&rx));
    }
}

static void single_octets_give_the_same_ulpdus(void **state)
{
    struct mpa_rx rx = fresh(MPA_RX_MARKERS_NONE);
    size_t len = make_fpdu(stream, 21, 1);
    len += make_fpdu(stream + len, 22, 2);
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(input(&rx, stream + i, 1, 1), MPA_RX_OK);
    }
    assert_int_equal(above.count, 2);
    assert_int_equal(above.len, 43);
    assert_int_equal(rx.counters.carried, 2);
}

static void longest_and_empty_ulpdus_pass(void **state)
{
    struct mpa_rx rx = fresh(MPA_RX_MARKERS_NONE);
    size_t len = make_fpdu(stream, MPA_ULPDU_MAX_LEN, 9);
    len += make_fpdu(stream + len, 0, 0);
    assert_int_equal(input(&rx, stream, 60000, 60000), MPA_RX_OK);
    assert_int_equal(input(&rx, stream + 60000, len - 60000, len - 60000), MPA_RX_OK);
    assert_int_equal(above.count, 2);
    assert_int_equal(above.len, MPA_ULPDU_MAX_LEN);
}

static void wrong_crc_ends_the_stream_and_nothing_is_handed_up(void **state)
{
    size_t len = make_fpdu(stream, 64, 3);
    for (size_t at = 0; at < len; at++) {
        struct mpa_rx rx = fresh(MPA_RX_MARKERS_NONE);
        size_t consumed;
        if (at < MPA_LENGTH_LEN) {
            continue; // another length: the FPDU ends elsewhere
        }
        stream[at] ^= 0x10;
        assert_int_equal(mpa_rx_on_input(&rx, span_of(stream, len), &consumed), MPA_RX_CRC);
        stream[at] ^= 0x10;
        assert_int_equal(above.count, 0);
        assert_int_equal(rx.counters.crc_errors, 1);
        assert_int_equal(input(&rx, stream, len, 0), MPA_RX_CRC);
        assert_int_equal(rx.counters.crc_errors, 1);
    }
}

static void wrong_crc_of_a_carried_fpdu_is_found_too(void **state)
{
    struct mpa_rx rx = fresh(MPA_RX_MARKERS_NONE);
    size_t len = make_fpdu(stream, 64, 3);
    stream[20] ^= 1;
    assert_int_equal(input(&rx, stream, 30, 30), MPA_RX_OK);
    assert_int_equal(input(&rx, stream + 30, len - 30, len - 30), MPA_RX_CRC);
    assert_int_equal(above.count, 0);
}

static void crc_field_is_not_looked_at_when_crc_is_off(void **state)
{
    struct mpa_rx rx = fresh(MPA_RX_MARKERS_NONE);
    rx.framing.crc = false;
    size_t len = make_fpdu(stream, 64, 3);
    memset(stream + len - 4, 0, 4);
    assert_int_equal(input(&rx, stream, len, len), MPA_RX_OK);
    assert_int_equal(input(&rx, stream, 10, 10), MPA_RX_OK);
    assert_int_equal(input(&rx, stream + 10, len - 10, len - 10), MPA_RX_OK);
    assert_int_equal(above.count, 2);
}

static void pad_is_not_looked_at_but_for_the_crc(void **state)
{
    struct mpa_rx rx = fresh(MPA_RX_MARKERS_NONE);
    size_t len = make_fpdu(stream, 15, 3);
    memset(stream + 17, 0xee, 3);
    crc32c_put(stream + len - 4, crc32c(stream, len - 4));
    assert_int_equal(input(&rx, stream, len, len), MPA_RX_OK);
    assert_int_equal(above.len, 15);
}

static void stalled_ulpdu_is_offered_again(void **state)
{
    size_t first = make_fpdu(stream, 50, 1), len = first;
    len += make_fpdu(stream + len, 60, 2);
    for (size_t cut = 0; cut < first; cut++) { // carried, or not
        struct mpa_rx rx = fresh(MPA_RX_MARKERS_NONE);
        above.odd_times = 2;
        above.odd_index = 0;
        above.odd_answer = ULPDU_STALL;
        input(&rx, stream, cut, cut);
        assert_int_equal(input(&rx, stream + cut, len - cut, first - cut), MPA_RX_STALLED);
        assert_int_equal(input(&rx, NULL, 0, 0), MPA_RX_STALLED);
        assert_false(mpa_rx_is_between_fpdus(&rx));
        assert_int_equal(input(&rx, NULL, 0, 0), MPA_RX_OK);
        assert_int_equal(above.count, 1);
        assert_int_equal(input(&rx, stream + first, len - first, len - first), MPA_RX_OK);
        assert_int_equal(above.count, 2);
        assert_int_equal(above.len, 110);
        assert_int_equal(rx.counters.stalls, 2);
        assert_int_equal(rx.counters.octets, len);
    }
}

static void stop_ends_the_stream(void **state)
{
    size_t first = make_fpdu(stream, 50, 1), len = first;
    len += make_fpdu(stream + len, 60, 2);
    for (size_t cut = 0; cut < first; cut += 10) {
        struct mpa_rx rx = fresh(MPA_RX_MARKERS_NONE);
        above.odd_times = 1;
        above.odd_index = 0;
        above.odd_answer = ULPDU_STOP;
        input(&rx, stream, cut, cut);
        assert_int_equal(input(&rx, stream + cut, len - cut, first - cut), MPA_RX_STOPPED);
        assert_int_equal(input(&rx, stream + first, len - first, 0), MPA_RX_STOPPED);
        assert_int_equal(above.count, 0);
        assert_int_equal(rx.counters.fpdus, 1);
    }
}

static void annotated_fpdu_of_the_rfc_is_good(void **state)
{
    struct mpa_rx rx = fresh(MPA_RX_MARKERS);
    size_t len = make_figure_5(stream);
    assert_int_equal(input(&rx, stream, len, len), MPA_RX_OK);
    assert_int_equal(above.count, 1);
    assert_int_equal(above.len, 42);
    assert_memory_equal(above.octets, "\x41\x43", 2);
    assert_int_equal(rx.counters.octets, len);
}

static void annotated_fpdu_with_a_marker_is_good_at_any_cut(void **state)
{
    size_t len = make_first_of_figure_6(stream);
    len += make_figure_6(stream + len);
    for (size_t cut = 0; cut <= len; cut++) {
        struct mpa_rx rx = fresh(MPA_RX_MARKERS);
        assert_int_equal(input(&rx, stream, cut, cut), MPA_RX_OK);
        assert_int_equal(input(&rx, stream + cut, len - cut, len - cut), MPA_RX_OK);
        assert_int_equal(above.count, 2);
        assert_int_equal(above.ends[1] - above.ends[0], 42);
        assert_int_equal(above.octets[above.ends[0] + 9], 0);
        assert_int_equal(above.octets[above.ends[0] + 13], 2); // MSN
        assert_int_equal(rx.counters.markers, 2);
        assert_int_equal(rx.counters.octets, len);
    }
}

static void marker_that_points_elsewhere_ends_the_stream(void **state)
{
    struct mpa_rx rx = fresh(MPA_RX_MARKERS);
    size_t len = make_first_of_figure_6(stream);
    size_t start = len;
    len += make_figure_6(stream + len);
    stream[start + 0x17] = 0x10;
    crc32c_put(stream + start + 0x30, crc32c(stream + start, 0x30));
    assert_int_equal(input(&rx, stream, len, len), MPA_RX_MARKER);
    assert_int_equal(above.count, 1);
    assert_int_equal(rx.counters.marker_errors, 1);
    assert_int_equal(mpa_rx_verdict_cause(MPA_RX_MARKER), TERM_MPA_MARKER);
}

static void leading_marker_must_be_zero(void **state)
{
    struct mpa_rx rx = fresh(MPA_RX_MARKERS);
    size_t len = make_figure_5(stream);
    stream[3] = 4;
    crc32c_put(stream + len - 4, crc32c(stream, len - 4));
    assert_int_equal(input(&rx, stream, len, len), MPA_RX_MARKER);
}

static void wrong_crc_goes_before_a_wrong_marker(void **state)
{
    struct mpa_rx rx = fresh(MPA_RX_MARKERS);
    size_t len = make_figure_5(stream);
    stream[3] = 4;
    assert_int_equal(input(&rx, stream, len, len), MPA_RX_CRC);
    assert_int_equal(rx.counters.marker_errors, 0);
}

static void lowest_bits_and_reserved_bits_of_a_marker_are_ignored(void **state)
{
    struct mpa_rx rx = fresh(MPA_RX_MARKERS);
    size_t len = make_figure_5(stream);
    memcpy(stream, "\xff\xff\0\3", 4);
    crc32c_put(stream + len - 4, crc32c(stream, len - 4));
    assert_int_equal(input(&rx, stream, len, len), MPA_RX_OK);
    assert_int_equal(above.count, 1);
}

static void first_two_octets_tell_whether_markers_come(void **state)
{
    for (size_t cut = 0; cut < 8; cut++) {
        struct mpa_rx rx = fresh(MPA_RX_MARKERS_IF_SEEN);
        size_t len = make_figure_5(stream);
        assert_int_equal(input(&rx, stream, cut, cut), MPA_RX_OK);
        assert_int_equal(input(&rx, stream + cut, len - cut, len - cut), MPA_RX_OK);
        assert_true(rx.framing.markers);
        assert_int_equal(above.len, 42);

        rx = fresh(MPA_RX_MARKERS_IF_SEEN);
        len = make_fpdu(stream, 42, 1);
        assert_int_equal(input(&rx, stream, cut, cut), MPA_RX_OK);
        assert_int_equal(input(&rx, stream + cut, len - cut, len - cut), MPA_RX_OK);
        assert_false(rx.framing.markers);
        assert_int_equal(above.len, 42);
    }
}

static void stall_with_markers_keeps_the_rest(void **state)
{
    struct mpa_rx rx = fresh(MPA_RX_MARKERS);
    size_t first = make_first_of_figure_6(stream), len = first;
    len += make_figure_6(stream + len);
    above.odd_times = 1;
    above.odd_index = 0;
    above.odd_answer = ULPDU_STALL;
    assert_int_equal(input(&rx, stream, len, first), MPA_RX_STALLED);
    assert_int_equal(input(&rx, stream + first, len - first, len - first), MPA_RX_OK);
    assert_int_equal(above.count, 2);
}

static void verdicts_have_names_and_causes(void **state)
{
    for (int v = 0; v < MPA_RX_VERDICT_COUNT; v++) {
        assert_non_null(mpa_rx_verdict_name(v));
    }
    assert_int_equal(mpa_rx_verdict_cause(MPA_RX_CRC), TERM_MPA_CRC);
    assert_int_equal(mpa_rx_verdict_cause(MPA_RX_STALLED), TERM_NONE);
}

/* ---- octets that are lent -------------------------------------------------------------------- */

static struct mpa_rx fresh_without_crc(void)
{
    struct mpa_rx rx = fresh(MPA_RX_MARKERS_NONE);
    rx.framing.crc = false;
    return rx;
}

static void lend(struct mpa_rx *rx, const uint8_t *octets, size_t len, bool is_cut,
                 size_t expected_consumed)
{
    size_t consumed;
    struct span lent = span_of(octets, len);
    assert_int_equal(mpa_rx_on_lent(rx, lent, is_cut, &consumed), MPA_RX_OK);
    assert_int_equal(consumed, expected_consumed);
    mpa_rx_check(rx);
}

static void long_ulpdu_that_is_lent_is_handed_up_where_it_lies(void **state)
{
    struct mpa_rx rx = fresh_without_crc();
    size_t len = make_fpdu(stream, 3000, 7);
    lend(&rx, stream, len, false, len);
    assert_int_equal(above.len, 3000);
    assert_ptr_equal(above.last_ptr, stream + MPA_LENGTH_LEN);
}

// What is looked at of it must not change meanwhile.
static void short_ulpdu_that_is_lent_is_copied_out(void **state)
{
    struct mpa_rx rx = fresh_without_crc();
    size_t len = make_fpdu(stream, 512, 7);
    lend(&rx, stream, len, false, len);
    assert_int_equal(above.len, 512);
    assert_ptr_equal(above.last_ptr, carry);
}

static void part_of_an_fpdu_that_is_lent_stays_where_it_is(void **state)
{
    struct mpa_rx rx = fresh_without_crc();
    size_t first = make_fpdu(stream, 100, 1);
    size_t len = first + make_fpdu(stream + first, 2000, 2);
    for (size_t cut = first; cut < len; cut += 97) {
        rx = fresh_without_crc();
        lend(&rx, stream, cut, false, first);
        lend(&rx, stream + first, len - first, false, len - first);
        assert_int_equal(above.count, 2);
        assert_int_equal(rx.counters.carried, 0);
    }
}

static void part_that_nothing_can_follow_is_carried(void **state)
{
    size_t first = make_fpdu(stream, 100, 1);
    size_t second = first + make_fpdu(stream + first, 2000, 2);
    size_t len = second + make_fpdu(stream + second, 30, 3);
    for (size_t cut = 1; cut < len; cut++) {
        struct mpa_rx rx = fresh_without_crc();
        lend(&rx, stream, cut, true, cut);
        lend(&rx, stream + cut, len - cut, false, len - cut);
        assert_int_equal(above.count, 3);
        assert_int_equal(above.octets[above.ends[2] - 1], 3);
    }
}

static void ulpdu_that_is_lent_and_not_taken_is_kept(void **state)
{
    struct mpa_rx rx = fresh_without_crc();
    size_t consumed;
    size_t len = make_fpdu(stream, 2000, 7);
    above.odd_index = 0;
    above.odd_times = 1;
    above.odd_answer = ULPDU_STALL;
    assert_int_equal(mpa_rx_on_lent(&rx, span_of(stream, len), false, &consumed), MPA_RX_STALLED);
    assert_int_equal(consumed, len);
    memset(stream, 0, len); // it is the peer's again
    assert_int_equal(mpa_rx_on_lent(&rx, span_of(stream, 0), false, &consumed), MPA_RX_OK);
    assert_int_equal(above.octets[above.ends[0] - 1], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_fpdu_is_handed_up_where_it_lies),
        cmocka_unit_test(any_cut_gives_the_same_ulpdus),
        cmocka_unit_test(single_octets_give_the_same_ulpdus),
        cmocka_unit_test(longest_and_empty_ulpdus_pass),
        cmocka_unit_test(wrong_crc_ends_the_stream_and_nothing_is_handed_up),
        cmocka_unit_test(wrong_crc_of_a_carried_fpdu_is_found_too),
        cmocka_unit_test(crc_field_is_not_looked_at_when_crc_is_off),
        cmocka_unit_test(pad_is_not_looked_at_but_for_the_crc),
        cmocka_unit_test(stalled_ulpdu_is_offered_again),
        cmocka_unit_test(stop_ends_the_stream),
        cmocka_unit_test(annotated_fpdu_of_the_rfc_is_good),
        cmocka_unit_test(annotated_fpdu_with_a_marker_is_good_at_any_cut),
        cmocka_unit_test(marker_that_points_elsewhere_ends_the_stream),
        cmocka_unit_test(leading_marker_must_be_zero),
        cmocka_unit_test(wrong_crc_goes_before_a_wrong_marker),
        cmocka_unit_test(lowest_bits_and_reserved_bits_of_a_marker_are_ignored),
        cmocka_unit_test(first_two_octets_tell_whether_markers_come),
        cmocka_unit_test(stall_with_markers_keeps_the_rest),
        cmocka_unit_test(verdicts_have_names_and_causes),
        cmocka_unit_test(long_ulpdu_that_is_lent_is_handed_up_where_it_lies),
        cmocka_unit_test(short_ulpdu_that_is_lent_is_copied_out),
        cmocka_unit_test(part_of_an_fpdu_that_is_lent_stays_where_it_is),
        cmocka_unit_test(part_that_nothing_can_follow_is_carried),
        cmocka_unit_test(ulpdu_that_is_lent_and_not_taken_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
