#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/prng.h"
#include "link/local/octet_ring.h"

enum { LEN = 64 };

static _Alignas(64) uint8_t memory[OCTET_RING_CONTROL_LEN + LEN];
static struct octet_ring_writer writer;
static struct octet_ring_reader reader;

static int setup(void **state)
{
    struct octet_ring ring = {memory, memory + OCTET_RING_CONTROL_LEN, LEN};
    memset(memory, 0, sizeof memory);
    octet_ring_writer_init(&writer, &ring);
    octet_ring_reader_init(&reader, &ring);
    return 0;
}

static void set_word(enum octet_ring_offset offset, uint64_t value)
{
    memcpy(memory + offset, &value, sizeof value);
}

static size_t put(const char *text)
{
    return octet_ring_put(&writer, span_of(text, strlen(text)));
}

static void assert_reads(const char *text)
{
    char got[LEN + 1] = "";
    size_t len = octet_ring_copy(&reader, 0, mspan_of(got, LEN));
    got[len] = '\0';
    assert_string_equal(got, text);
}

// Moves both ends on, so that the end of the memory lies `before_end` octets ahead.
static void turn_to(size_t before_end)
{
    static const uint8_t zeros[LEN];
    octet_ring_put(&writer, span_of(zeros, LEN - before_end));
    octet_ring_publish(&writer);
    octet_ring_available(&reader);
    octet_ring_release(&reader, LEN - before_end);
}

/* ---- octets ---------------------------------------------------------------------------------- */

static void test_octets_come_in_order(void **state)
{
    put("one ");
    put("two");
    octet_ring_publish(&writer);
    assert_reads("one two");
}

static void test_what_is_not_published_is_not_there(void **state)
{
    put("early");
    assert_int_equal(octet_ring_available(&reader), 0);
    octet_ring_show(&writer);
    assert_int_equal(octet_ring_available(&reader), 5);
}

static void test_octets_go_round_the_end(void **state)
{
    turn_to(3);
    put("abcdef");
    octet_ring_publish(&writer);
    struct span side_by_side = octet_ring_readable(&reader);
    assert_int_equal(side_by_side.len, 3);
    assert_memory_equal(side_by_side.ptr, "abc", 3);
    assert_reads("abcdef");
    octet_ring_release(&reader, 3);
    assert_int_equal(octet_ring_readable(&reader).len, 3);
    assert_memory_equal(octet_ring_readable(&reader).ptr, "def", 3);
}

static void test_a_full_ring_takes_what_fits(void **state)
{
    static const uint8_t more[LEN + 10];
    put("0123456789");
    assert_int_equal(octet_ring_put(&writer, span_of(more, sizeof more)), LEN - 10);
    assert_int_equal(octet_ring_room(&writer), 0);
    assert_int_equal(put("x"), 0);
    octet_ring_publish(&writer);
    octet_ring_available(&reader);
    octet_ring_release(&reader, 4);
    assert_int_equal(octet_ring_room(&writer), 4);
    assert_int_equal(put("abcdef"), 4);
}

// A record is a length and octets: the length is copied out, wherever it lies, then the rest.
static void test_records_are_read_whole(void **state)
{
    uint8_t len = 5, got[8];
    turn_to(1);
    octet_ring_put(&writer, span_of(&len, 1));
    put("hello");
    octet_ring_publish(&writer);
    assert_int_equal(octet_ring_copy(&reader, 0, mspan_of(got, 1)), 1);
    assert_int_equal(octet_ring_copy(&reader, 1, mspan_of(got + 1, got[0])), 5);
    assert_memory_equal(got + 1, "hello", 5);
    octet_ring_release(&reader, 6);
    assert_int_equal(octet_ring_copy(&reader, 0, mspan_of(got, 1)), 0);
    assert_int_equal(octet_ring_copy(&reader, 9, mspan_of(got, 1)), 0);
}

static void test_the_writer_sees_when_all_was_read(void **state)
{
    assert_true(octet_ring_is_drained(&writer));
    put("abc");
    octet_ring_publish(&writer);
    assert_false(octet_ring_is_drained(&writer));
    octet_ring_available(&reader);
    octet_ring_release(&reader, 3);
    assert_true(octet_ring_is_drained(&writer));
}

/* ---- sleeping -------------------------------------------------------------------------------- */

static void test_who_is_awake_is_not_woken(void **state)
{
    put("a");
    assert_false(octet_ring_publish(&writer));
    octet_ring_available(&reader);
    assert_false(octet_ring_release(&reader, 1));
}

static void test_a_reader_that_sleeps_is_woken_once(void **state)
{
    assert_true(octet_ring_reader_sleep(&reader));
    put("a");
    assert_true(octet_ring_publish(&writer));
    put("b");
    assert_false(octet_ring_publish(&writer));
}

static void test_no_reader_sleeps_over_what_has_come(void **state)
{
    put("a");
    octet_ring_publish(&writer);
    assert_false(octet_ring_reader_sleep(&reader));
    put("b");
    assert_false(octet_ring_publish(&writer)); // it did not fall asleep
}

static void test_a_reader_that_has_risen_is_not_woken(void **state)
{
    assert_true(octet_ring_reader_sleep(&reader));
    octet_ring_reader_rise(&reader);
    put("a");
    assert_false(octet_ring_publish(&writer));
}

static void test_a_writer_is_woken_for_the_room_it_asked_for(void **state)
{
    static const uint8_t all[LEN];
    octet_ring_put(&writer, span_of(all, LEN));
    octet_ring_publish(&writer);
    octet_ring_available(&reader);
    assert_true(octet_ring_writer_sleep(&writer, 32));
    assert_false(octet_ring_release(&reader, 31));
    assert_true(octet_ring_release(&reader, 1));
    assert_false(octet_ring_release(&reader, 1));
    assert_false(octet_ring_writer_sleep(&writer, 32));
}

/* ---- a hostile other side -------------------------------------------------------------------- */

static void assert_writer_refuses(uint64_t taken)
{
    set_word(OCTET_RING_TAKEN, taken);
    assert_int_equal(octet_ring_room(&writer), 0);
    assert_int_equal(writer.verdict, OCTET_RING_TAKEN_WRONG);
    set_word(OCTET_RING_TAKEN, 10); // for good
    assert_int_equal(octet_ring_room(&writer), 0);
    assert_int_equal(put("x"), 0);
}

static void test_a_reader_cannot_take_more_than_was_put(void **state)
{
    put("0123456789");
    assert_writer_refuses(11);
}

static void test_a_reader_cannot_take_back_what_it_took(void **state)
{
    put("0123456789");
    set_word(OCTET_RING_TAKEN, 9);
    assert_int_equal(octet_ring_room(&writer), LEN - 1);
    assert_writer_refuses(8);
}

static void assert_reader_refuses(uint64_t written)
{
    set_word(OCTET_RING_WRITTEN, written);
    assert_int_equal(octet_ring_readable(&reader).len, 0);
    assert_int_equal(reader.verdict, OCTET_RING_WRITTEN_WRONG);
    set_word(OCTET_RING_WRITTEN, 1); // for good
    assert_int_equal(octet_ring_available(&reader), 0);
    assert_false(octet_ring_reader_sleep(&reader)); // and nobody waits for more
}

static void test_a_writer_cannot_show_more_than_the_ring_holds(void **state)
{
    assert_reader_refuses(LEN + 1);
}

static void test_a_writer_cannot_go_round_the_numbers(void **state)
{
    assert_reader_refuses(UINT64_MAX);
}

static void test_a_writer_cannot_take_back_what_it_showed(void **state)
{
    set_word(OCTET_RING_WRITTEN, 20);
    assert_int_equal(octet_ring_available(&reader), 20);
    octet_ring_release(&reader, 5);
    assert_reader_refuses(19);
}

static void test_each_refusal_has_a_name(void **state)
{
    for (int i = 0; i < OCTET_RING_VERDICT_COUNT; i++) {
        assert_true(strlen(octet_ring_verdict_name((enum octet_ring_verdict)i)) > 1);
    }
}

// Whatever stands in the shared words, each side stays within the ring.
static void test_random_words_harm_nobody(void **state)
{
    struct prng prng;
    uint8_t octets[LEN * 2];
    memset(octets, 0, sizeof octets);
    prng_init(&prng, 1);
    for (int i = 0; i < 20000; i++) {
        setup(NULL);
        for (int turn = 0; turn < 4; turn++) {
            uint64_t value = prng_next(&prng) >> (prng_next(&prng) % 64);
            set_word((enum octet_ring_offset)(prng_next(&prng) % 4 * 128), value);
            size_t len = (size_t)(prng_next(&prng) % sizeof octets);
            assert_true(octet_ring_put(&writer, span_of(octets, len)) <= LEN);
            octet_ring_publish(&writer);
            struct span seen = octet_ring_readable(&reader);
            assert_true(seen.len <= LEN && seen.ptr + seen.len <= memory + sizeof memory);
            assert_true(octet_ring_copy(&reader, 0, mspan_of(octets, sizeof octets)) <= LEN);
            octet_ring_release(&reader, seen.len);
            octet_ring_writer_sleep(&writer, 1 + len);
            octet_ring_reader_sleep(&reader);
        }
    }
}

/* ---- two threads ----------------------------------------------------------------------------- */

enum { STREAM_LEN = 3 << 20 };

static int reader_bell, writer_bell;

static void ring(int bell)
{
    uint64_t one = 1;
    assert_int_equal(write(bell, &one, sizeof one), sizeof one);
}

static void wait_for(int bell)
{
    uint64_t times;
    assert_int_equal(read(bell, &times, sizeof times), sizeof times);
}

static uint8_t octet_at(uint64_t position)
{
    return (uint8_t)(position * 31 + (position >> 8));
}

static void *write_stream(void *arg)
{
    uint64_t at = 0;
    (void)arg;
    while (at < STREAM_LEN) {
        uint8_t octets[LEN];
        size_t len = 1 + (size_t)(at * 7 % LEN);
        len = len < STREAM_LEN - at ? len : (size_t)(STREAM_LEN - at);
        for (size_t i = 0; i < len; i++) {
            octets[i] = octet_at(at + i);
        }
        size_t taken = octet_ring_put(&writer, span_of(octets, len));
        at += taken;
        if (octet_ring_publish(&writer)) {
            ring(reader_bell);
        }
        if (taken == 0 && octet_ring_writer_sleep(&writer, LEN / 2)) {
            wait_for(writer_bell);
        }
    }
    return NULL;
}

static void read_stream(void)
{
    uint64_t at = 0;
    while (at < STREAM_LEN) {
        struct span octets = octet_ring_readable(&reader);
        for (size_t i = 0; i < octets.len; i++) {
            assert_int_equal(octets.ptr[i], octet_at(at + i));
        }
        at += octets.len;
        if (octets.len > 0 && octet_ring_release(&reader, octets.len)) {
            ring(writer_bell);
        }
        if (octets.len == 0 && octet_ring_reader_sleep(&reader)) {
            wait_for(reader_bell);
        }
    }
}

static void test_two_sides_that_sleep_lose_nothing(void **state)
{
    pthread_t thread;
    reader_bell = eventfd(0, EFD_CLOEXEC);
    writer_bell = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(pthread_create(&thread, NULL, write_stream, NULL), 0);
    read_stream();
    pthread_join(thread, NULL);
    assert_true(octet_ring_is_drained(&writer));
    close(reader_bell);
    close(writer_bell);
}

/* ---- long pieces ----------------------------------------------------------------------------- */

// Written past the caches, wherever they begin and end; each is shown at once.
enum { LONG_RING_LEN = 32 * 1024, LONG_LEN_MAX = 12 * 1024, LONG_COUNT = 4000 };

static uint8_t long_octet(uint64_t position)
{
    return (uint8_t)(position * 7 + position / 251);
}

static void *write_long_pieces(void *arg)
{
    static uint8_t octets[LONG_LEN_MAX + 64];
    struct prng prng;
    uint64_t position = 0;
    prng_init(&prng, 7);
    for (unsigned i = 0; i < LONG_COUNT; i++) {
        uint8_t *piece = octets + prng_below(&prng, 64);
        size_t len = 1 + (size_t)prng_below(&prng, LONG_LEN_MAX);
        writer.is_near = i % 2 == 1;
        for (size_t k = 0; k < len; k++) {
            piece[k] = long_octet(position + k);
        }
        for (size_t done = 0; done < len; octet_ring_show(&writer)) {
            size_t put = octet_ring_put(&writer, span_of(piece + done, len - done));
            done += put;
            if (put == 0) {
                sched_yield();
            }
        }
        position += len;
    }
    atomic_store((atomic_bool *)arg, true);
    return NULL;
}

static void test_long_pieces_come_whole_wherever_they_lie(void **state)
{
    static _Alignas(64) uint8_t long_memory[OCTET_RING_CONTROL_LEN + LONG_RING_LEN];
    const struct octet_ring ring = {long_memory, long_memory + OCTET_RING_CONTROL_LEN,
                                    LONG_RING_LEN, 5};
    atomic_bool is_over = false;
    uint64_t position = 0;
    pthread_t thread;
    octet_ring_writer_init(&writer, &ring);
    octet_ring_reader_init(&reader, &ring);
    assert_int_equal(pthread_create(&thread, NULL, write_long_pieces, &is_over), 0);
    for (bool was_over = false; !was_over || octet_ring_available(&reader) > 0;) {
        was_over = atomic_load(&is_over);
        const struct span come = octet_ring_readable(&reader);
        for (size_t k = 0; k < come.len; k++) {
            assert_int_equal(come.ptr[k], long_octet(position + k));
        }
        octet_ring_release(&reader, come.len);
        position += come.len;
        if (come.len == 0) {
            sched_yield(); // there may be one processor for both
        }
    }
    pthread_join(thread, NULL);
    assert_true(position > LONG_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_octets_come_in_order, setup),
        cmocka_unit_test_setup(test_what_is_not_published_is_not_there, setup),
        cmocka_unit_test_setup(test_octets_go_round_the_end, setup),
        cmocka_unit_test_setup(test_a_full_ring_takes_what_fits, setup),
        cmocka_unit_test_setup(test_records_are_read_whole, setup),
        cmocka_unit_test_setup(test_the_writer_sees_when_all_was_read, setup),
        cmocka_unit_test_setup(test_who_is_awake_is_not_woken, setup),
        cmocka_unit_test_setup(test_a_reader_that_sleeps_is_woken_once, setup),
        cmocka_unit_test_setup(test_no_reader_sleeps_over_what_has_come, setup),
        cmocka_unit_test_setup(test_a_reader_that_has_risen_is_not_woken, setup),
        cmocka_unit_test_setup(test_a_writer_is_woken_for_the_room_it_asked_for, setup),
        cmocka_unit_test_setup(test_a_reader_cannot_take_more_than_was_put, setup),
        cmocka_unit_test_setup(test_a_reader_cannot_take_back_what_it_took, setup),
        cmocka_unit_test_setup(test_a_writer_cannot_show_more_than_the_ring_holds, setup),
        cmocka_unit_test_setup(test_a_writer_cannot_go_round_the_numbers, setup),
        cmocka_unit_test_setup(test_a_writer_cannot_take_back_what_it_showed, setup),
        cmocka_unit_test_setup(test_each_refusal_has_a_name, setup),
        cmocka_unit_test_setup(test_random_words_harm_nobody, setup),
        cmocka_unit_test_setup(test_two_sides_that_sleep_lose_nothing, setup),
        cmocka_unit_test_setup(test_long_pieces_come_whole_wherever_they_lie, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
