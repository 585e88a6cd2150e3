#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "mpa/fpdu.h"
#include "mpa/tx.h"
#include "wire/crc32c.h"

enum { LEN_MAX = 3000, WIRE_MAX = 16384 };

static const struct mpa_framing plain = {.crc = true}, marked = {.crc = true, .markers = true};
static uint8_t wire[WIRE_MAX], arena[1 << 18], into[LEN_MAX];
static struct mpa_batch batch;

// An FPDU of a ULPDU of `len` octets at `position`, as the send side makes it.
static struct span make(uint64_t position, size_t len, bool markers)
{
    uint8_t payload[LEN_MAX];
    struct mpa_tx tx;
    for (size_t i = 0; i < len; i++) {
        payload[i] = (uint8_t)(i + len);
    }
    mpa_batch_init(&batch, mspan_of(arena, sizeof arena), false);
    mpa_tx_init(&tx, true, markers, mpa_tx_mulpdu_max(markers));
    tx.position = position;
    size_t first = len < 8 ? len : 8;
    struct span piece = span_of(payload + first, len - first);
    mpa_tx_put(&tx, &batch, span_of(payload, first), &piece, len > first, MPA_PAYLOAD_COPY);
    unsigned count;
    const struct iovec *iov = mpa_batch_iov(&batch, &count);
    assert_int_equal(count, 1);
    memcpy(wire, iov->iov_base, iov->iov_len);
    return span_of(wire, iov->iov_len);
}

static void expect_ulpdu(struct span ulpdu, size_t len)
{
    assert_int_equal(ulpdu.len, len);
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(ulpdu.ptr[i], (uint8_t)(i + len));
    }
}

static void length_and_ulpdu_are_right_at_every_place_between_markers(void **state)
{
    for (uint64_t position = 0; position < 2 * MPA_MARKER_INTERVAL; position += 4) {
        for (size_t len = 0; len < 1600; len += 83) {
            struct span fpdu = make(position, len, true), ulpdu;
            size_t head_len = mpa_fpdu_head_len(marked, position);
            assert_int_equal(mpa_fpdu_measure(marked, position, fpdu), fpdu.len);
            assert_int_equal(mpa_fpdu_measure(marked, position, span_first(fpdu, head_len - 1)), 0);
            assert_int_equal(mpa_fpdu_len(len) +
                                 MPA_MARKER_LEN * mpa_fpdu_marker_count(position, fpdu.len),
                             fpdu.len);
            assert_int_equal(mpa_fpdu_unwrap(marked, position, fpdu, into, &ulpdu), MPA_FPDU_OK);
            expect_ulpdu(ulpdu, len);
        }
    }
}

static void ulpdu_without_a_marker_inside_is_not_copied(void **state)
{
    struct span fpdu = make(512, 400, true), ulpdu; // a leading marker, no other
    assert_int_equal(mpa_fpdu_unwrap(marked, 512, fpdu, into, &ulpdu), MPA_FPDU_OK);
    assert_ptr_equal(ulpdu.ptr, fpdu.ptr + MPA_MARKER_LEN + MPA_LENGTH_LEN);
    fpdu = make(1234, 1500, false);
    assert_int_equal(mpa_fpdu_unwrap(plain, 1234, fpdu, into, &ulpdu), MPA_FPDU_OK);
    assert_ptr_equal(ulpdu.ptr, fpdu.ptr + MPA_LENGTH_LEN);
}

// The marker that follows stands before the CRC.
static void ulpdu_that_ends_at_a_marker_is_not_copied(void **state)
{
    size_t len = MPA_MARKER_INTERVAL - MPA_MARKER_LEN - MPA_LENGTH_LEN;
    struct span fpdu = make(512, len, true), ulpdu;
    assert_int_equal(mpa_fpdu_unwrap(marked, 512, fpdu, into, &ulpdu), MPA_FPDU_OK);
    assert_ptr_equal(ulpdu.ptr, fpdu.ptr + MPA_MARKER_LEN + MPA_LENGTH_LEN);
    expect_ulpdu(ulpdu, len);
}

static void ulpdu_may_be_unwrapped_in_its_own_memory(void **state)
{
    struct span fpdu = make(508, 1600, true), ulpdu;
    assert_int_equal(mpa_fpdu_unwrap(marked, 508, fpdu, wire, &ulpdu), MPA_FPDU_OK);
    assert_ptr_equal(ulpdu.ptr, wire);
    expect_ulpdu(ulpdu, 1600);
}

static void wrong_crc_is_told_before_a_wrong_marker(void **state)
{
    struct span fpdu = make(500, 40, true), ulpdu;
    wire[12 + MPA_MARKER_OFF_FPDUPTR + 1] = 4;
    assert_int_equal(mpa_fpdu_unwrap(marked, 500, fpdu, into, &ulpdu), MPA_FPDU_CRC);
    crc32c_put(wire + fpdu.len - 4, crc32c(wire, fpdu.len - 4));
    assert_int_equal(mpa_fpdu_unwrap(marked, 500, fpdu, into, &ulpdu), MPA_FPDU_MARKER);
}

static void each_marker_of_an_fpdu_is_looked_at(void **state)
{
    for (size_t at = 12; at < 1400; at += MPA_MARKER_INTERVAL) {
        struct span fpdu = make(500, 1400, true), ulpdu;
        wire[at + MPA_MARKER_OFF_FPDUPTR + 1] ^= 4;
        crc32c_put(wire + fpdu.len - 4, crc32c(wire, fpdu.len - 4));
        assert_int_equal(mpa_fpdu_unwrap(marked, 500, fpdu, into, &ulpdu), MPA_FPDU_MARKER);
    }
}

// A stream of FPDUs; every piece of it that holds a marker tells where the next FPDU is, if that
// begins in the piece.
static void markers_tell_where_an_fpdu_begins(void **state)
{
    size_t starts[16], len = 0, count = 0;
    static uint8_t stream[WIRE_MAX];
    while (count < 16) {
        struct span fpdu = make(len, 60 + 211 * count % 1400, true);
        memcpy(stream + len, fpdu.ptr, fpdu.len);
        starts[count++] = len;
        len += fpdu.len;
    }
    for (size_t from = 0; from < len; from += 4) {
        size_t piece_len = len - from < 1448 ? len - from : 1448, offset, next = 0;
        if (!mpa_fpdu_find(from, span_of(stream + from, piece_len), &offset)) {
            continue;
        }
        assert_true(offset < piece_len);
        while (next < count && starts[next] != from + offset) {
            next++;
        }
        assert_true(next < count);
    }
    size_t offset;
    assert_true(mpa_fpdu_find(starts[5], span_of(stream + starts[5], 1024), &offset));
    assert_int_equal(offset, 0);
    assert_true(mpa_fpdu_find(0, span_of(stream, MPA_MARKER_LEN), &offset)); // nothing but it
    assert_int_equal(offset, 0);
    assert_false(mpa_fpdu_find(4, span_of(stream + 4, 500), &offset)); // no marker
}

static void fpdu_whose_leading_marker_is_missing_is_not_found(void **state)
{
    struct span fpdu = make(512, 700, true);
    size_t offset;
    assert_false(mpa_fpdu_find(516, span_skip(fpdu, MPA_MARKER_LEN), &offset));
    assert_true(mpa_fpdu_find(512, fpdu, &offset));
    assert_int_equal(offset, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(length_and_ulpdu_are_right_at_every_place_between_markers),
        cmocka_unit_test(ulpdu_without_a_marker_inside_is_not_copied),
        cmocka_unit_test(ulpdu_that_ends_at_a_marker_is_not_copied),
        cmocka_unit_test(ulpdu_may_be_unwrapped_in_its_own_memory),
        cmocka_unit_test(wrong_crc_is_told_before_a_wrong_marker),
        cmocka_unit_test(each_marker_of_an_fpdu_is_looked_at),
        cmocka_unit_test(markers_tell_where_an_fpdu_begins),
        cmocka_unit_test(fpdu_whose_leading_marker_is_missing_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
