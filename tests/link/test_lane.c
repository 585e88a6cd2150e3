// Packets in memory of two processes, and what a writer or a reader may do to the other.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/prng.h"
#include "link/datagram/lane.h"
#include "wire/bth.h"

enum { PAGE = 4096, RING_LEN = LANE_MEMORY_LEN - LANE_MEMORY_OCTETS };

static uint8_t *memory, *copies;
static struct lane_writer writer;
static struct lane_reader reader;
static uint8_t payload[DATAGRAM_LEN_MAX - BTH_LEN]; // of the longest packet

static int begin(void **state)
{
    struct prng rng;
    prng_init(&rng, 1);
    for (size_t i = 0; i < sizeof payload; i++) {
        payload[i] = (uint8_t)prng_next(&rng);
    }
    memory = aligned_alloc(PAGE, LANE_MEMORY_LEN);
    copies = malloc(LANE_COPIES_LEN);
    memset(memory, 0, LANE_MEMORY_LEN);
    lane_writer_init(&writer, memory);
    lane_reader_init(&reader, memory, copies);
    return 0;
}

static int end(void **state)
{
    free(memory);
    free(copies);
    return 0;
}

static struct datagram_path path_of_test(void)
{
    return (struct datagram_path){.local = {.s6_addr = {1, [15] = 2}},
                                  .remote = {.s6_addr = {3, [15] = 4}},
                                  .scope_id = 0x01020304,
                                  .flow_label = 0xfffff,
                                  .source_port = 0xc123,
                                  .traffic_class = 0xaa,
                                  .hop_limit = 77};
}

// A packet with so much payload, and its number in the BTH.
static bool put(uint32_t number, size_t len)
{
    const struct datagram_path path = path_of_test();
    const struct span piece = span_of(payload, len);
    uint8_t head[BTH_LEN] = {0x64};
    put_be32(head + BTH_LEN - 4, number);
    const struct datagram_tx tx = {.path = &path,
                                   .head = span_of(head, sizeof head),
                                   .pieces = &piece,
                                   .piece_count = 1,
                                   .pad_len = (unsigned)(-len & 3)};
    return lane_has_room(&writer, &tx) && lane_put(&writer, &tx, &path);
}

static void assert_comes(uint32_t number, size_t len)
{
    static const uint8_t zeros[3];
    struct datagram_rx rx;
    assert_true(lane_next(&reader, &rx));
    assert_int_equal(rx.octets.len, BTH_LEN + len + (-len & 3));
    assert_int_equal(get_be32(rx.octets.ptr + BTH_LEN - 4), number);
    assert_memory_equal(rx.octets.ptr + BTH_LEN, payload, len);
    assert_memory_equal(rx.octets.ptr + BTH_LEN + len, zeros, -len & 3);
}

/* ---- packets --------------------------------------------------------------------------------- */

static void path_arrives_as_it_was_sent(void **state)
{
    const struct datagram_path path = path_of_test();
    struct datagram_rx rx;
    assert_true(put(1, 100));
    lane_publish(&writer);
    assert_true(lane_next(&reader, &rx));
    assert_memory_equal(&rx.local, &path.remote, sizeof rx.local);
    assert_memory_equal(&rx.remote, &path.local, sizeof rx.remote);
    assert_int_equal(rx.scope_id, path.scope_id);
    assert_int_equal(rx.flow_label, path.flow_label);
    assert_int_equal(rx.source_port, path.source_port);
    assert_int_equal(rx.traffic_class, path.traffic_class);
    assert_int_equal(rx.hop_limit, path.hop_limit);
    assert_true(rx.is_checked);
    assert_false(rx.is_shared);
}

static void packets_of_every_length_come_in_their_order(void **state)
{
    for (uint32_t len = 0; len <= sizeof payload; len++) {
        assert_true(put(len, len));
        lane_publish(&writer);
        assert_comes(len, len);
        lane_give_back(&reader);
    }
    assert_false(lane_has_news(&reader));
}

static void nothing_comes_before_it_is_published(void **state)
{
    struct datagram_rx rx;
    assert_true(put(1, 100));
    assert_false(lane_has_news(&reader));
    assert_false(lane_next(&reader, &rx));
    lane_publish(&writer);
    assert_true(lane_has_news(&reader));
    assert_comes(1, 100);
    assert_false(lane_has_news(&reader));
}

static void what_is_handed_out_stays_until_it_is_given_back(void **state)
{
    struct datagram_rx rx[LANE_BATCH_MAX];
    unsigned put_count = 0;
    while (put(put_count, 4096)) {
        put_count++;
    }
    lane_publish(&writer);
    for (unsigned i = 0; i < LANE_BATCH_MAX; i++) {
        assert_true(lane_next(&reader, &rx[i]));
    }
    assert_false(put(put_count, 4096));
    for (uint32_t i = 0; i < LANE_BATCH_MAX; i++) {
        assert_int_equal(get_be32(rx[i].octets.ptr + BTH_LEN - 4), i);
        assert_memory_equal(rx[i].octets.ptr + BTH_LEN, payload, 4096);
    }
    lane_give_back(&reader);
    assert_true(put(put_count, 4096));
}

// Wherever the ring ends: in a header, in a packet, between two.
static void packets_cross_the_end_of_the_ring(void **state)
{
    static const size_t lens[] = {0, 20, 700, 1024, 4096, 333};
    uint32_t number = 0;
    for (uint64_t done = 0; done < 5 * RING_LEN;) {
        for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
            assert_true(put(number + (uint32_t)i, lens[i]));
            done += lens[i];
        }
        lane_publish(&writer);
        for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
            assert_comes(number++, lens[i]);
        }
        lane_give_back(&reader);
    }
}

static void lane_that_is_full_takes_nothing_until_something_was_given_back(void **state)
{
    uint32_t count = 0;
    while (put(count, 1024)) {
        count++;
    }
    assert_in_range(count, RING_LEN / 1152 - 1, RING_LEN / 1088);
    lane_publish(&writer);
    assert_comes(0, 1024);
    assert_false(put(count, 1024));
    lane_give_back(&reader);
    assert_true(put(count, 1024));
    assert_false(put(count, 1024));
    assert_false(lane_writer_is_broken(&writer));
}

// A message of a connection manager, say: who reads it twice reads the same.
static void short_packet_is_a_copy_that_its_writer_cannot_change(void **state)
{
    struct datagram_rx rx;
    assert_true(put(1, 256));
    lane_publish(&writer);
    assert_true(lane_next(&reader, &rx));
    memset(memory + LANE_MEMORY_OCTETS, 0xee, PAGE);
    assert_memory_equal(rx.octets.ptr + BTH_LEN, payload, 256);
}

static void long_packet_is_handed_out_where_it_lies(void **state)
{
    struct datagram_rx rx;
    assert_true(put(1, 1024));
    lane_publish(&writer);
    assert_true(lane_next(&reader, &rx));
    assert_ptr_equal(rx.octets.ptr, memory + LANE_MEMORY_OCTETS + LANE_RECORD_HEADER_LEN);
}

// Of how many octets, BTH and payload, is a copy made?
static bool is_copied(size_t len)
{
    struct datagram_rx rx;
    assert_true(put(1, len - BTH_LEN));
    lane_publish(&writer);
    assert_true(lane_next(&reader, &rx));
    lane_give_back(&reader);
    return rx.octets.ptr >= copies && rx.octets.ptr < copies + LANE_COPIES_LEN;
}

static void packets_up_to_a_length_are_copied_and_longer_ones_are_not(void **state)
{
    assert_true(is_copied(BTH_LEN));
    assert_true(is_copied(LANE_COPIED_LEN_MAX));
    assert_false(is_copied(LANE_COPIED_LEN_MAX + 4));
}

// Until they are given back, all of them: copies lie beside each other.
static void short_packets_of_a_batch_keep_what_they_say(void **state)
{
    for (unsigned round = 0; round < 3; round++) {
        struct datagram_rx rx[LANE_BATCH_MAX];
        for (uint32_t i = 0; i < LANE_BATCH_MAX; i++) {
            assert_true(put(100 * round + i, i % 3 * 200));
        }
        lane_publish(&writer);
        for (unsigned i = 0; i < LANE_BATCH_MAX; i++) {
            assert_true(lane_next(&reader, &rx[i]));
        }
        for (uint32_t i = 0; i < LANE_BATCH_MAX; i++) {
            assert_int_equal(get_be32(rx[i].octets.ptr + BTH_LEN - 4), 100 * round + i);
            assert_memory_equal(rx[i].octets.ptr + BTH_LEN, payload, i % 3 * 200);
        }
        lane_give_back(&reader);
    }
}

// A batch of packets that are all copied, and one of the longest that goes round the ring's end.
static void copies_have_room_for_a_whole_batch(void **state)
{
    static const size_t longest = sizeof payload, copied = LANE_COPIED_LEN_MAX - BTH_LEN;
    const size_t line = LANE_RECORD_HEADER_LEN + LANE_COPIED_LEN_MAX + LANE_LINE - 1;
    const size_t short_len = (LANE_BATCH_MAX - 1) * (line & ~(size_t)(LANE_LINE - 1));
    size_t done = 0;
    // Up to where the batch is to begin, so that its last one goes round.
    while (done + short_len + longest / 2 < RING_LEN) {
        assert_true(put(1, 1024 - BTH_LEN - LANE_RECORD_HEADER_LEN));
        lane_publish(&writer);
        assert_comes(1, 1024 - BTH_LEN - LANE_RECORD_HEADER_LEN);
        lane_give_back(&reader);
        done += 1024;
    }
    struct datagram_rx rx[LANE_BATCH_MAX];
    for (uint32_t i = 0; i < LANE_BATCH_MAX; i++) {
        assert_true(put(i, i < LANE_BATCH_MAX - 1 ? copied : longest));
    }
    lane_publish(&writer);
    for (unsigned i = 0; i < LANE_BATCH_MAX; i++) {
        assert_true(lane_next(&reader, &rx[i]));
    }
    const struct span last = rx[LANE_BATCH_MAX - 1].octets;
    assert_true(last.ptr >= copies && last.ptr + last.len <= copies + LANE_COPIES_LEN);
    for (uint32_t i = 0; i < LANE_BATCH_MAX; i++) {
        assert_int_equal(get_be32(rx[i].octets.ptr + BTH_LEN - 4), i);
        assert_memory_equal(rx[i].octets.ptr + BTH_LEN, payload,
                            i < LANE_BATCH_MAX - 1 ? copied : longest);
    }
    lane_give_back(&reader);
    assert_false(reader.is_broken);
}

static void packet_is_its_head_and_all_its_pieces(void **state)
{
    const struct datagram_path path = path_of_test();
    const struct span pieces[] = {span_of(payload, 7), span_of(payload + 7, 0),
                                  span_of(payload + 7, 90)};
    uint8_t head[BTH_LEN + 16] = {0x64};
    put_be32(head + BTH_LEN - 4, 9);
    memset(head + BTH_LEN, 0x5a, 16);
    const struct datagram_tx tx = {.path = &path,
                                   .head = span_of(head, sizeof head),
                                   .pieces = pieces,
                                   .piece_count = 3,
                                   .pad_len = 3};
    struct datagram_rx rx;
    assert_true(lane_put(&writer, &tx, &path));
    assert_int_equal(writer.unshown_len, 192); // whole cache lines
    lane_publish(&writer);
    assert_int_equal(writer.unshown_len, 0);
    assert_true(lane_next(&reader, &rx));
    assert_int_equal(rx.octets.len, sizeof head + 97 + 3);
    assert_memory_equal(rx.octets.ptr, head, sizeof head);
    assert_memory_equal(rx.octets.ptr + sizeof head, payload, 97);
    assert_memory_equal(rx.octets.ptr + sizeof head + 97, "\0\0\0", 3);
}

// Nothing of what stood there on an earlier way round is shown to who may read the lane.
static void what_a_packet_does_not_fill_is_zeros(void **state)
{
    static const uint8_t zeros[LANE_LINE];
    const size_t used = LANE_RECORD_HEADER_LEN + BTH_LEN + 4;
    memset(memory + LANE_MEMORY_OCTETS, 0xee, PAGE);
    assert_true(put(1, 1));
    lane_publish(&writer);
    assert_memory_equal(memory + LANE_MEMORY_OCTETS + LANE_OFF_HOP_LIMIT + 1, zeros, 4);
    assert_memory_equal(memory + LANE_MEMORY_OCTETS + used - 3, zeros, 2 * LANE_LINE - used + 3);
    assert_int_equal(memory[LANE_MEMORY_OCTETS + 2 * LANE_LINE], 0xee);
}

static void who_puts_without_asking_for_room_puts_all_or_nothing(void **state)
{
    const struct datagram_path path = path_of_test();
    const struct span piece = span_of(payload, 4096);
    const uint8_t head[BTH_LEN] = {0x64};
    const struct datagram_tx tx = {
        .path = &path, .head = span_of(head, sizeof head), .pieces = &piece, .piece_count = 1};
    uint32_t count = 0;
    while (put(count, 4096)) {
        count++;
    }
    const uint32_t unshown_len = writer.unshown_len;
    assert_false(lane_put(&writer, &tx, &path));
    assert_int_equal(writer.unshown_len, unshown_len);
    lane_publish(&writer);
    for (uint32_t i = 0; i < count; i++) {
        assert_comes(i, 4096);
        lane_give_back(&reader);
    }
    assert_false(lane_has_news(&reader));
}

/* ---- sleep ----------------------------------------------------------------------------------- */

static void who_sleeps_is_to_be_woken_once(void **state)
{
    assert_true(lane_sleep(&reader));
    assert_true(put(1, 10));
    assert_true(lane_publish(&writer));
    assert_true(put(2, 10));
    assert_false(lane_publish(&writer));
}

static void nobody_sleeps_where_something_has_come(void **state)
{
    assert_true(put(1, 10));
    lane_publish(&writer);
    assert_false(lane_sleep(&reader));
    assert_true(put(2, 10));
    assert_false(lane_publish(&writer));
}

static void who_has_risen_is_not_woken(void **state)
{
    assert_true(lane_sleep(&reader));
    lane_rise(&reader);
    assert_true(put(1, 10));
    assert_false(lane_publish(&writer));
}

static void nobody_sleeps_over_what_is_handed_out(void **state)
{
    assert_true(put(1, 10));
    lane_publish(&writer);
    assert_comes(1, 10);
    assert_false(lane_sleep(&reader));
    lane_give_back(&reader);
    assert_true(lane_sleep(&reader));
}

static void writer_sees_that_its_lane_is_read(void **state)
{
    assert_false(lane_is_read(&writer));
    lane_take_up(&reader);
    assert_true(lane_is_read(&writer));
}

/* ---- nonsense -------------------------------------------------------------------------------- */

static void word_set(size_t offset, uint64_t value)
{
    memcpy(memory + LANE_MEMORY_RING + offset, &value, sizeof value);
}

static void assert_broken(void)
{
    struct datagram_rx rx;
    assert_false(lane_next(&reader, &rx));
    assert_true(reader.is_broken);
    assert_false(lane_has_news(&reader));
    lane_give_back(&reader);
    assert_false(lane_next(&reader, &rx));
    assert_true(lane_sleep(&reader)); // there is nothing to stay up for
}

static void record_len_set(uint32_t len)
{
    put_be32(memory + LANE_MEMORY_OCTETS + LANE_OFF_LEN, len);
}

static void length_that_no_packet_has_breaks_the_lane(void **state)
{
    static const uint32_t lens[] = {0,   1,       BTH_LEN - 4, BTH_LEN + 1, DATAGRAM_LEN_MAX + 4,
                                    ~0U, 1U << 31};
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        end(state);
        begin(state);
        assert_true(put(1, 4096));
        assert_true(put(2, 4096));
        lane_publish(&writer);
        record_len_set(lens[i]);
        assert_broken();
    }
}

static void record_that_has_not_come_whole_breaks_the_lane(void **state)
{
    assert_true(put(1, 100));
    lane_publish(&writer);
    record_len_set(1024);
    assert_broken();
}

static void half_a_header_breaks_the_lane(void **state)
{
    word_set(OCTET_RING_WRITTEN, LANE_RECORD_HEADER_LEN - 1);
    assert_broken();
}

static void index_beyond_the_ring_breaks_the_lane(void **state)
{
    word_set(OCTET_RING_WRITTEN, RING_LEN + 1);
    assert_true(lane_has_news(&reader));
    assert_broken();
}

static void index_that_goes_back_breaks_the_lane(void **state)
{
    assert_true(put(1, 100));
    lane_publish(&writer);
    assert_comes(1, 100);
    lane_give_back(&reader);
    word_set(OCTET_RING_WRITTEN, 0);
    assert_broken();
}

static void reader_that_gave_back_what_never_came_breaks_its_writer(void **state)
{
    while (put(1, 4096)) {
    }
    word_set(OCTET_RING_TAKEN, UINT64_C(1) << 40);
    assert_false(put(2, 4096));
    assert_true(lane_writer_is_broken(&writer));
}

// Whatever it writes: packets have the length of packets, and lie in the memory or in the copies.
static void random_octets_do_no_harm(void **state)
{
    struct prng rng;
    prng_init(&rng, 5);
    for (unsigned round = 0; round < 2000; round++) {
        struct datagram_rx rx;
        const size_t at = (size_t)prng_next(&rng) % (64 << 10);
        memory[(prng_next(&rng) & 1) != 0 ? LANE_MEMORY_OCTETS + at : LANE_MEMORY_RING + at % 8] =
            (uint8_t)prng_next(&rng);
        if (reader.is_broken) {
            memset(memory, 0, LANE_MEMORY_OCTETS);
            lane_writer_init(&writer, memory);
            lane_reader_init(&reader, memory, copies);
        }
        put(round, (size_t)prng_next(&rng) % sizeof payload);
        lane_publish(&writer);
        for (unsigned i = 0; i < LANE_BATCH_MAX && lane_next(&reader, &rx); i++) {
            assert_in_range(rx.octets.len, BTH_LEN, DATAGRAM_LEN_MAX);
            assert_int_equal(rx.octets.len % 4, 0);
        }
        lane_give_back(&reader);
    }
}

int main(void)
{
#define LANE_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        LANE_TEST(path_arrives_as_it_was_sent),
        LANE_TEST(packets_of_every_length_come_in_their_order),
        LANE_TEST(nothing_comes_before_it_is_published),
        LANE_TEST(what_is_handed_out_stays_until_it_is_given_back),
        LANE_TEST(packets_cross_the_end_of_the_ring),
        LANE_TEST(lane_that_is_full_takes_nothing_until_something_was_given_back),
        LANE_TEST(short_packet_is_a_copy_that_its_writer_cannot_change),
        LANE_TEST(long_packet_is_handed_out_where_it_lies),
        LANE_TEST(packets_up_to_a_length_are_copied_and_longer_ones_are_not),
        LANE_TEST(short_packets_of_a_batch_keep_what_they_say),
        LANE_TEST(copies_have_room_for_a_whole_batch),
        LANE_TEST(packet_is_its_head_and_all_its_pieces),
        LANE_TEST(what_a_packet_does_not_fill_is_zeros),
        LANE_TEST(who_puts_without_asking_for_room_puts_all_or_nothing),
        LANE_TEST(who_sleeps_is_to_be_woken_once),
        LANE_TEST(nobody_sleeps_where_something_has_come),
        LANE_TEST(who_has_risen_is_not_woken),
        LANE_TEST(nobody_sleeps_over_what_is_handed_out),
        LANE_TEST(writer_sees_that_its_lane_is_read),
        LANE_TEST(length_that_no_packet_has_breaks_the_lane),
        LANE_TEST(record_that_has_not_come_whole_breaks_the_lane),
        LANE_TEST(half_a_header_breaks_the_lane),
        LANE_TEST(index_beyond_the_ring_breaks_the_lane),
        LANE_TEST(index_that_goes_back_breaks_the_lane),
        LANE_TEST(reader_that_gave_back_what_never_came_breaks_its_writer),
        LANE_TEST(random_octets_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
