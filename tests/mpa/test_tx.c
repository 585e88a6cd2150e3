#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "mpa/tx.h"
#include "tests/mpa/stream.h"

static uint8_t arena[1 << 18];
static uint8_t payload[1 << 17];
static uint8_t flat[1 << 18];
static struct mpa_batch batch;

static const uint8_t send_header[] = {0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0};

static struct span header(void)
{
    return span_of(send_header, sizeof send_header);
}

static struct mpa_tx fresh(bool markers, bool record_per_fpdu)
{
    struct mpa_tx tx;
    for (size_t i = 0; i < sizeof payload; i++) {
        payload[i] = (uint8_t)(i * 7);
    }
    mpa_batch_init(&batch, mspan_of(arena, sizeof arena), record_per_fpdu);
    mpa_tx_init(&tx, true, markers, mpa_tx_mulpdu_max(markers));
    return tx;
}

static void put(struct mpa_tx *tx, size_t payload_len, enum mpa_payload mode)
{
    struct span piece = span_of(payload, payload_len);
    assert_true(mpa_tx_has_room(tx, &batch, sizeof send_header + payload_len, 1, mode));
    mpa_tx_put(tx, &batch, header(), &piece, 1, mode);
    mpa_batch_check(&batch);
}

static size_t flatten(void)
{
    unsigned count;
    size_t len = 0;
    struct iovec *iov = mpa_batch_iov(&batch, &count);
    for (unsigned i = 0; i < count; i++) {
        memcpy(flat + len, iov[i].iov_base, iov[i].iov_len);
        len += iov[i].iov_len;
    }
    return len;
}

static unsigned iov_count(void)
{
    unsigned count;
    mpa_batch_iov(&batch, &count);
    return count;
}

static void annotated_fpdu_of_the_rfc_comes_out(void **state)
{
    struct mpa_tx tx = fresh(true, false);
    memset(payload, 0, 24);
    put(&tx, 24, MPA_PAYLOAD_REFERENCE);
    assert_int_equal(flatten(), 0x34);
    assert_memory_equal(flat, "\0\0\0\0\0\x2a\x41\x43", 8);
    assert_memory_equal(flat + 0x30, "\x52\x23\x99\x83", 4);
}

static void annotated_fpdu_with_a_marker_comes_out(void **state)
{
    struct mpa_tx tx = fresh(true, false);
    memset(payload, 0, sizeof payload);
    put(&tx, 0x1ec - 4 - 6 - 18, MPA_PAYLOAD_REFERENCE);
    uint8_t second[18];
    memcpy(second, send_header, 18);
    second[13] = 2; // MSN
    struct span piece = span_of(payload, 24);
    assert_int_equal(mpa_tx_put(&tx, &batch, span_of(second, 18), &piece, 1, MPA_PAYLOAD_COPY),
                     0x1ec + 0x34);
    flatten();
    assert_memory_equal(flat + 0x1ec, "\0\x2a\x41\x43", 4);
    assert_memory_equal(flat + 0x200, "\0\0\0\x14", 4);
    assert_memory_equal(flat + 0x21c, "\x84\x92\x58\x98", 4);
    assert_int_equal(tx.counters.markers, 2);
}

static void short_message_is_one_element(void **state)
{
    struct mpa_tx tx = fresh(false, false);
    put(&tx, 64, MPA_PAYLOAD_REFERENCE);
    assert_int_equal(iov_count(), 1);
}

static void short_messages_share_an_element(void **state)
{
    struct mpa_tx tx = fresh(false, false);
    for (unsigned i = 0; i < 100; i++) {
        put(&tx, 64, MPA_PAYLOAD_REFERENCE);
    }
    assert_int_equal(iov_count(), 1);
    assert_int_equal(flatten(), 100 * mpa_fpdu_len(82));
}

static void long_payload_is_referenced(void **state)
{
    struct mpa_tx tx = fresh(false, false);
    put(&tx, 60000, MPA_PAYLOAD_REFERENCE);
    put(&tx, 60000, MPA_PAYLOAD_REFERENCE);
    unsigned count;
    struct iovec *iov = mpa_batch_iov(&batch, &count);
    assert_int_equal(count, 5); // front, payload, trailer and front, payload, trailer
    assert_ptr_equal(iov[1].iov_base, payload);
    assert_int_equal(iov[1].iov_len, 60000);
    assert_int_equal(tx.counters.copied, 0);
}

static void copied_payload_may_change_afterwards(void **state)
{
    struct mpa_tx tx = fresh(false, false);
    uint8_t expected[70000];
    size_t len = make_fpdu(expected, 18 + 60000, 0);
    memcpy(expected + 2, send_header, 18);
    memset(expected + 20, 0x5a, 60000);
    crc32c_put(expected + len - 4, crc32c(expected, len - 4));
    memset(payload, 0x5a, 60000);
    put(&tx, 60000, MPA_PAYLOAD_COPY);
    memset(payload, 0, 60000);
    assert_int_equal(iov_count(), 1);
    assert_int_equal(flatten(), len);
    assert_memory_equal(flat, expected, len);
}

static struct mpa_tx fresh_without_crc(void)
{
    struct mpa_tx tx = fresh(false, false);
    mpa_tx_init(&tx, false, false, mpa_tx_mulpdu_max(false));
    return tx;
}

static void lent_payload_is_referenced_without_crc(void **state)
{
    struct mpa_tx tx = fresh_without_crc();
    put(&tx, 60000, MPA_PAYLOAD_LENT);
    unsigned count;
    const struct iovec *iov = mpa_batch_iov(&batch, &count);
    assert_int_equal(count, 3);
    assert_ptr_equal(iov[1].iov_base, payload);
}

static void lent_payload_may_change_beside_a_crc(void **state)
{
    struct mpa_tx tx = fresh(false, false);
    put(&tx, 60000, MPA_PAYLOAD_LENT);
    size_t len = flatten();
    static uint8_t before[1 << 18];
    memcpy(before, flat, len);
    memset(payload, 0xff, sizeof payload);
    flatten();
    assert_memory_equal(flat, before, len);
}

static void lent_payload_is_kept_before_its_memory_goes(void **state)
{
    enum { TAKEN = 30000 };
    static uint8_t before[1 << 18];
    struct mpa_tx tx = fresh_without_crc();
    put(&tx, 60000, MPA_PAYLOAD_LENT);
    put(&tx, 70, MPA_PAYLOAD_LENT);
    put(&tx, 1400, MPA_PAYLOAD_LENT);
    mpa_batch_advance(&batch, TAKEN);
    size_t len = flatten();
    memcpy(before, flat, len);
    mpa_batch_own(&batch);
    mpa_batch_check(&batch);
    memset(payload, 0xff, sizeof payload);
    assert_int_equal(flatten(), len);
    assert_memory_equal(flat, before, len);
}

static void no_more_is_lent_than_could_be_kept(void **state)
{
    struct mpa_tx tx = fresh_without_crc();
    while (mpa_tx_has_room(&tx, &batch, 65535, 1, MPA_PAYLOAD_LENT)) {
        put(&tx, 65535 - 18, MPA_PAYLOAD_LENT);
    }
    size_t len = flatten();
    assert_true(len > sizeof arena / 2);
    mpa_batch_own(&batch);
    mpa_batch_check(&batch);
    assert_int_equal(flatten(), len);
}

static void both_ways_give_the_same_octets(void **state)
{
    for (size_t len = 0; len < 2100; len += 7) {
        struct mpa_tx tx = fresh(false, false);
        put(&tx, len, MPA_PAYLOAD_REFERENCE);
        size_t first = flatten();
        uint8_t kept[2200];
        memcpy(kept, flat, first);
        tx = fresh(false, false);
        put(&tx, len, MPA_PAYLOAD_COPY);
        assert_int_equal(flatten(), first);
        assert_memory_equal(flat, kept, first);
    }
}

static void payload_in_pieces_is_one_ulpdu(void **state)
{
    struct mpa_tx tx = fresh(false, false);
    put(&tx, 3000, MPA_PAYLOAD_COPY);
    size_t len = flatten();
    uint8_t kept[3100];
    memcpy(kept, flat, len);
    for (unsigned mode = 0; mode < 2; mode++) {
        tx = fresh(false, false);
        struct span pieces[] = {span_of(payload, 1), span_of(NULL, 0), span_of(payload + 1, 1999),
                                span_of(payload + 2000, 1000)};
        mpa_tx_put(&tx, &batch, header(), pieces, 4, mode);
        mpa_batch_check(&batch);
        assert_int_equal(flatten(), len);
        assert_memory_equal(flat, kept, len);
    }
}

static void header_alone_is_an_fpdu(void **state)
{
    struct mpa_tx tx = fresh(false, false);
    assert_int_equal(mpa_tx_put(&tx, &batch, header(), NULL, 0, MPA_PAYLOAD_REFERENCE), 24);
    assert_int_equal(flatten(), 24);
    assert_memory_equal(flat, "\0\x12\x41\x43", 4);
}

static void crc_field_is_zero_when_crc_is_off(void **state)
{
    for (unsigned markers = 0; markers < 2; markers++) {
        for (size_t len = 64; len < 3000; len += 2000) {
            struct mpa_tx tx = fresh(markers, false);
            tx.crc = false;
            put(&tx, len, MPA_PAYLOAD_REFERENCE);
            size_t octets = flatten();
            assert_memory_equal(flat + octets - 4, "\0\0\0\0", 4);
        }
    }
}

static void records_end_with_their_fpdus(void **state)
{
    struct mpa_tx tx = fresh(false, true);
    put(&tx, 64, MPA_PAYLOAD_REFERENCE);
    put(&tx, 1400, MPA_PAYLOAD_REFERENCE);
    put(&tx, 64, MPA_PAYLOAD_REFERENCE);
    assert_int_equal(mpa_batch_record_count(&batch), 3);
    static const size_t lens[] = {64, 1400, 64};
    for (unsigned r = 0; r < 3; r++) {
        unsigned count;
        size_t octets = 0;
        struct iovec *iov = mpa_batch_record(&batch, r, &count);
        assert_int_equal(count, r == 1 ? 3 : 1);
        for (unsigned i = 0; i < count; i++) {
            octets += iov[i].iov_len;
        }
        assert_int_equal(octets, mpa_fpdu_len(18 + lens[r]));
    }
}

static void partial_record_keeps_its_rest(void **state)
{
    struct mpa_tx tx = fresh(false, true);
    put(&tx, 1400, MPA_PAYLOAD_REFERENCE);
    put(&tx, 64, MPA_PAYLOAD_REFERENCE);
    mpa_batch_advance(&batch, 100);
    mpa_batch_check(&batch);
    unsigned count;
    struct iovec *iov = mpa_batch_record(&batch, 0, &count);
    assert_int_equal(count, 2);
    assert_int_equal(iov[0].iov_len, 1400 - 80);
    mpa_batch_advance(&batch, mpa_fpdu_len(1418) - 100);
    assert_int_equal(mpa_batch_record_count(&batch), 1);
    mpa_batch_check(&batch);
    mpa_batch_advance(&batch, mpa_fpdu_len(82));
    assert_true(mpa_batch_is_empty(&batch));
    assert_int_equal(mpa_batch_record_count(&batch), 0);
}

static void partial_writes_lose_nothing(void **state)
{
    uint8_t whole[8192], parts[8192];
    for (size_t step = 1; step < 900; step += 13) {
        struct mpa_tx tx = fresh(false, false);
        put(&tx, 64, MPA_PAYLOAD_REFERENCE);
        put(&tx, 1400, MPA_PAYLOAD_REFERENCE);
        put(&tx, 3001, MPA_PAYLOAD_REFERENCE);
        size_t len = flatten(), done = 0;
        memcpy(whole, flat, len);
        while (!mpa_batch_is_empty(&batch)) {
            size_t left = flatten(), take = step < left ? step : left;
            memcpy(parts + done, flat, take);
            done += take;
            mpa_batch_advance(&batch, take);
            mpa_batch_check(&batch);
        }
        assert_int_equal(done, len);
        assert_memory_equal(whole, parts, len);
    }
}

static void written_batch_has_all_its_room_again(void **state)
{
    struct mpa_tx tx = fresh(false, false);
    put(&tx, 60000, MPA_PAYLOAD_COPY);
    mpa_batch_advance(&batch, mpa_fpdu_len(60018));
    assert_true(mpa_batch_is_empty(&batch));
    assert_int_equal(batch.arena_len, 0);
    assert_int_equal(batch.iov_count, 0);
}

static void full_arena_has_no_room(void **state)
{
    struct mpa_tx tx = fresh(false, false);
    unsigned count = 0;
    while (mpa_tx_has_room(&tx, &batch, 65535, 1, MPA_PAYLOAD_COPY)) {
        put(&tx, 65535 - 18, MPA_PAYLOAD_COPY);
        count++;
    }
    assert_int_equal(count, sizeof arena / mpa_fpdu_len(65535));
    assert_true(mpa_tx_has_room(&tx, &batch, 18, 0, MPA_PAYLOAD_COPY));
}

static void full_element_array_has_no_room(void **state)
{
    struct mpa_tx tx = fresh(false, true);
    while (mpa_tx_has_room(&tx, &batch, 82, 1, MPA_PAYLOAD_REFERENCE)) {
        put(&tx, 64, MPA_PAYLOAD_REFERENCE);
    }
    assert_true(batch.iov_count <= MPA_BATCH_IOV_MAX);
    assert_true(batch.iov_count > MPA_BATCH_IOV_MAX - 4);
    mpa_batch_clear(&batch);
    assert_true(mpa_tx_has_room(&tx, &batch, 82, 1, MPA_PAYLOAD_REFERENCE));
    assert_false(mpa_tx_has_room(&tx, &batch, 82, MPA_BATCH_IOV_MAX, MPA_PAYLOAD_REFERENCE));
}

static void room_suffices_with_markers_at_every_offset(void **state)
{
    for (size_t offset = 0; offset < MPA_MARKER_INTERVAL; offset += 4) {
        struct mpa_tx tx = fresh(true, false);
        tx.position = offset;
        size_t ulpdu_len = 18 + 4 * 508;
        size_t before = 0;
        // An arena of just the room that is asked for.
        while (batch.arena_capacity = before, !mpa_tx_has_room(&tx, &batch, ulpdu_len, 1, 0)) {
            before++;
        }
        put(&tx, 4 * 508, MPA_PAYLOAD_REFERENCE);
        assert_true(batch.arena_len <= batch.arena_capacity);
    }
}

static void longest_ulpdu_with_markers_keeps_fpduptr_in_16_bits(void **state)
{
    assert_int_equal(mpa_tx_mulpdu_max(true), 65014);
    for (size_t offset = 0; offset < MPA_MARKER_INTERVAL; offset += 4) {
        struct mpa_tx tx = fresh(true, false);
        tx.position = offset;
        put(&tx, mpa_tx_mulpdu_max(true) - 18, MPA_PAYLOAD_COPY);
        assert_true(batch.octets_left <= 65536);
    }
}

static void markers_agreed_on_late_leave_the_mulpdu(void **state)
{
    static const size_t lens[] = {MULPDU_MIN, 1442};
    for (unsigned i = 0; i < 2; i++) {
        struct mpa_tx tx;
        mpa_tx_init(&tx, true, false, lens[i]);
        mpa_tx_use_markers(&tx);
        assert_true(tx.markers);
        assert_int_equal(tx.mulpdu, lens[i]); // the queue pair knows no other
    }
}

static void position_counts_all_octets(void **state)
{
    struct mpa_tx tx = fresh(true, false);
    uint64_t last = 0;
    for (unsigned i = 0; i < 20; i++) {
        struct span piece = span_of(payload, 100 * i);
        uint64_t end = mpa_tx_put(&tx, &batch, header(), &piece, 1, MPA_PAYLOAD_COPY);
        assert_true(end > last);
        last = end;
    }
    assert_int_equal(last, flatten());
    assert_int_equal(tx.counters.octets, last);
    assert_int_equal(tx.counters.fpdus, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(annotated_fpdu_of_the_rfc_comes_out),
        cmocka_unit_test(annotated_fpdu_with_a_marker_comes_out),
        cmocka_unit_test(short_message_is_one_element),
        cmocka_unit_test(short_messages_share_an_element),
        cmocka_unit_test(long_payload_is_referenced),
        cmocka_unit_test(copied_payload_may_change_afterwards),
        cmocka_unit_test(lent_payload_is_referenced_without_crc),
        cmocka_unit_test(lent_payload_may_change_beside_a_crc),
        cmocka_unit_test(lent_payload_is_kept_before_its_memory_goes),
        cmocka_unit_test(no_more_is_lent_than_could_be_kept),
        cmocka_unit_test(both_ways_give_the_same_octets),
        cmocka_unit_test(payload_in_pieces_is_one_ulpdu),
        cmocka_unit_test(header_alone_is_an_fpdu),
        cmocka_unit_test(crc_field_is_zero_when_crc_is_off),
        cmocka_unit_test(records_end_with_their_fpdus),
        cmocka_unit_test(partial_record_keeps_its_rest),
        cmocka_unit_test(partial_writes_lose_nothing),
        cmocka_unit_test(written_batch_has_all_its_room_again),
        cmocka_unit_test(full_arena_has_no_room),
        cmocka_unit_test(full_element_array_has_no_room),
        cmocka_unit_test(room_suffices_with_markers_at_every_offset),
        cmocka_unit_test(longest_ulpdu_with_markers_keeps_fpduptr_in_16_bits),
        cmocka_unit_test(markers_agreed_on_late_leave_the_mulpdu),
        cmocka_unit_test(position_counts_all_octets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
