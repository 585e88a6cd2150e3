#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "net/cut.h"
#include "wire/ip.h"

enum { SEGMENT = 10, COUNT = 4, LEN = 35 };

static uint8_t octets[LEN];
static struct iovec iov[4];
static struct tcp_batch batch;

// Four segments of 10, 10, 10 and 5 octets; elements of 7, 0, 20 and 8.
static int setup(void **state)
{
    static const size_t lens[] = {7, 0, 20, 8};
    size_t at = 0;
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        iov[i] = (struct iovec){octets + at, lens[i]};
        at += lens[i];
    }
    for (unsigned i = 0; i < LEN; i++) {
        octets[i] = (uint8_t)(i + 1);
    }
    batch = (struct tcp_batch){.header = {.seq = 0xfffffff8, .flags = TCP_ACK | TCP_PSH | TCP_FIN},
                               .segment_count = COUNT,
                               .segment_len = SEGMENT,
                               .payload_len = LEN,
                               .iov = iov,
                               .iov_count = 4};
    return 0;
}

static void assert_payload(const struct net_piece *piece, size_t at, size_t len)
{
    size_t seen = 0;
    assert_int_equal(piece->payload_len, len);
    for (unsigned i = 0; i < piece->iov_count; i++) {
        assert_true(piece->iov[i].iov_len > 0);
        assert_memory_equal(piece->iov[i].iov_base, octets + at + seen, piece->iov[i].iov_len);
        seen += piece->iov[i].iov_len;
    }
    assert_int_equal(seen, len);
}

static void segments_come_one_by_one(void **state)
{
    (void)state;
    struct net_cut cut;
    struct net_piece piece;
    net_cut_init(&cut, &batch);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_true(net_cut_next(&cut, 1, &piece));
        assert_payload(&piece, (size_t)i * SEGMENT, i < COUNT - 1 ? SEGMENT : 5);
        assert_int_equal(piece.header.seq, (uint32_t)(0xfffffff8 + i * SEGMENT));
        assert_int_equal(piece.header.flags, i < COUNT - 1 ? TCP_ACK : TCP_ACK | TCP_PSH | TCP_FIN);
    }
    assert_false(net_cut_next(&cut, 1, &piece));
}

static void runs_are_batches_again(void **state)
{
    (void)state;
    struct net_cut cut, again;
    struct net_piece piece, part;
    net_cut_init(&cut, &batch);
    assert_true(net_cut_next(&cut, 1, &piece));
    assert_true(net_cut_next(&cut, 100, &piece));
    assert_int_equal(piece.segment_count, 3);
    assert_payload(&piece, SEGMENT, 25);
    struct tcp_batch run = net_piece_batch(&piece, &batch);
    net_cut_init(&again, &run);
    assert_true(net_cut_next(&again, 1, &part));
    assert_payload(&part, SEGMENT, SEGMENT);
    assert_int_equal(part.header.flags, TCP_ACK);
}

static void segment_without_payload_is_one(void **state)
{
    (void)state;
    struct tcp_batch ack = {.header = {.flags = TCP_ACK}, .segment_count = 1};
    struct net_cut cut;
    struct net_piece piece;
    net_cut_init(&cut, &ack);
    assert_true(net_cut_next(&cut, 1, &piece));
    assert_int_equal(piece.iov_count, 0);
    assert_int_equal(piece.payload_len, 0);
    assert_false(net_cut_next(&cut, 1, &piece));
}

// Elements of odd lengths: as over the same octets in one piece.
static void checksum_does_not_depend_on_where_elements_end(void **state)
{
    (void)state;
    struct net_cut cut;
    struct net_piece piece;
    const uint8_t header[TCP_HEADER_LEN] = {9, 8, 7};
    uint8_t whole[TCP_HEADER_LEN + LEN];
    net_cut_init(&cut, &batch);
    assert_true(net_cut_next(&cut, COUNT, &piece));
    memcpy(whole, header, sizeof header);
    memcpy(whole + TCP_HEADER_LEN, octets, LEN);
    assert_int_equal(net_piece_checksum(&piece, span_of(header, sizeof header), 77),
                     inet_sum_fold(inet_sum_add(77, span_of(whole, sizeof whole))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_come_one_by_one),
        cmocka_unit_test(runs_are_batches_again),
        cmocka_unit_test(segment_without_payload_is_one),
        cmocka_unit_test(checksum_does_not_depend_on_where_elements_end),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
