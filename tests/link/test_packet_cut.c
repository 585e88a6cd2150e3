#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "link/packet/cut.h"
#include "wire/ip.h"
#include "wire/tcp.h"

enum { SEGMENT = 10, COUNT = 4, LEN = 35 };

static uint8_t octets[LEN];
static struct iovec iov[4];
static struct tcp_batch batch;
static struct packet_cut cut;

// Four segments of 10, 10, 10 and 5 octets; elements of 7, 0, 20 and 8.
static int setup(void **state)
{
    static const size_t lens[] = {7, 0, 20, 8};
    size_t at = 0;
    for (unsigned i = 0; i < 4; i++) {
        iov[i] = (struct iovec){octets + at, lens[i]};
        at += lens[i];
    }
    for (unsigned i = 0; i < LEN; i++) {
        octets[i] = (uint8_t)(i + 1);
    }
    batch = (struct tcp_batch){.header = {.src_port = 7471,
                                          .seq = 0xfffffff8,
                                          .flags = TCP_ACK | TCP_PSH | TCP_FIN,
                                          .options = {.has_timestamps = true, .ts_value = 5}},
                               .segment_count = COUNT,
                               .segment_len = SEGMENT,
                               .payload_len = LEN,
                               .iov = iov,
                               .iov_count = 4};
    return 0;
}

static void assert_payload(const struct net_segment *segment, size_t at, size_t len)
{
    size_t seen = 0;
    assert_int_equal(segment->len, net_segment_header(segment).len + len);
    for (unsigned i = 1; i < segment->iov_count; i++) {
        assert_true(segment->iov[i].iov_len > 0);
        assert_memory_equal(segment->iov[i].iov_base, octets + at + seen, segment->iov[i].iov_len);
        seen += segment->iov[i].iov_len;
    }
    assert_int_equal(seen, len);
}

static struct tcp_header header_of(const struct net_segment *segment)
{
    struct tcp_header h;
    size_t len;
    assert_int_equal(tcp_header_parse(mspan_read(net_segment_header(segment)), &h, &len),
                     TCP_PARSE_OK);
    assert_int_equal(len, net_segment_header(segment).len);
    return h;
}

static void each_segment_has_its_header_and_its_payload(void **state)
{
    const struct net_segments *segments = packet_cut(&cut, &batch, false);
    assert_int_equal(segments->count, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        const struct net_segment *segment = &segments->at[i];
        struct tcp_header h = header_of(segment);
        assert_payload(segment, (size_t)i * SEGMENT, i < COUNT - 1 ? SEGMENT : 5);
        assert_int_equal(segment->part_count, 1);
        assert_int_equal(segment->part_len, i < COUNT - 1 ? SEGMENT : 5);
        assert_int_equal(h.src_port, 7471);
        assert_int_equal(h.options.ts_value, 5);
        assert_int_equal(h.seq, (uint32_t)(0xfffffff8 + i * SEGMENT));
        assert_int_equal(h.flags, i < COUNT - 1 ? TCP_ACK : TCP_ACK | TCP_PSH | TCP_FIN);
    }
    assert_int_equal(packet_cut_taken(&cut, 3), 3);
    assert_int_equal(segments->transport->protocol, IP_PROTOCOL_TCP);
    assert_int_equal(segments->transport->checksum_off, TCP_OFF_CHECKSUM);
    assert_int_equal(segments->transport->header_len, TCP_HEADER_LEN);
}

static void elements_of_segments_lie_behind_one_another(void **state)
{
    const struct net_segments *segments = packet_cut(&cut, &batch, false);
    for (unsigned i = 1; i < COUNT; i++) {
        const struct net_segment *before = &segments->at[i - 1];
        assert_ptr_equal(segments->at[i].iov, before->iov + before->iov_count);
    }
}

static void headers_below_find_room_in_front(void **state)
{
    const struct net_segments *segments = packet_cut(&cut, &batch, false);
    for (unsigned i = 0; i < COUNT; i++) {
        memset(net_segment_header(&segments->at[i]).ptr - NET_HEADROOM, 0xff, NET_HEADROOM);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(header_of(&segments->at[i]).seq, (uint32_t)(0xfffffff8 + i * SEGMENT));
    }
}

static void run_is_one_segment_that_says_where_it_is_to_be_cut(void **state)
{
    const struct net_segments *segments = packet_cut(&cut, &batch, true);
    assert_int_equal(segments->count, 1);
    assert_int_equal(segments->at[0].part_count, COUNT);
    assert_int_equal(segments->at[0].part_len, SEGMENT);
    assert_payload(&segments->at[0], 0, LEN);
    assert_int_equal(header_of(&segments->at[0]).flags, TCP_ACK | TCP_PSH | TCP_FIN);
    assert_int_equal(packet_cut_taken(&cut, 1), COUNT);
    assert_int_equal(packet_cut_taken(&cut, 0), 0);
}

static void segment_without_payload_is_one(void **state)
{
    struct tcp_batch ack = {.header = {.flags = TCP_ACK}, .segment_count = 1};
    for (unsigned as_run = 0; as_run < 2; as_run++) {
        const struct net_segments *segments = packet_cut(&cut, &ack, as_run != 0);
        assert_int_equal(segments->count, 1);
        assert_int_equal(segments->at[0].iov_count, 1);
        assert_int_equal(segments->at[0].len, TCP_HEADER_LEN);
        assert_int_equal(packet_cut_taken(&cut, 1), 1);
    }
}

// Elements of odd lengths: as over the same octets in one piece.
static void checksum_does_not_depend_on_where_elements_end(void **state)
{
    const struct net_segments *segments = packet_cut(&cut, &batch, true);
    uint8_t whole[TCP_HEADER_MAX_LEN + LEN];
    net_segment_copy(&segments->at[0], whole);
    assert_int_equal(net_segment_checksum(&segments->at[0], 77),
                     inet_sum_fold(inet_sum_add(77, span_of(whole, segments->at[0].len))));
}

static void path_that_is_short_leaves_the_least_mss(void **state)
{
    assert_int_equal(packet_mss(1480), 1460);
    assert_int_equal(packet_mss(TCP_HEADER_LEN + TCP_MSS_MIN - 1), TCP_MSS_MIN);
    assert_int_equal(packet_mss(0), TCP_MSS_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_segment_has_its_header_and_its_payload),
        cmocka_unit_test(elements_of_segments_lie_behind_one_another),
        cmocka_unit_test(headers_below_find_room_in_front),
        cmocka_unit_test(run_is_one_segment_that_says_where_it_is_to_be_cut),
        cmocka_unit_test(segment_without_payload_is_one),
        cmocka_unit_test(checksum_does_not_depend_on_where_elements_end),
        cmocka_unit_test(path_that_is_short_leaves_the_least_mss),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
