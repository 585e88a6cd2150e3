// Marks in memory that two sides share.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/prng.h"
#include "link/local/doorbell.h"

static _Alignas(64) uint8_t memory[DOORBELL_LEN];
static struct doorbell_taker taker;

static int setup(void **state)
{
    memset(memory, 0, sizeof memory);
    taker = (struct doorbell_taker){.memory = memory};
    return 0;
}

// One number that was marked, or DOORBELL_NUMBERS.
static uint32_t take(void)
{
    uint32_t number;
    doorbell_begin(&taker);
    return doorbell_next(&taker, &number) ? number : DOORBELL_NUMBERS;
}

static void each_number_is_found_where_it_was_marked(void **state)
{
    for (uint32_t number = 0; number < DOORBELL_NUMBERS; number += number < 5000 ? 1 : 61) {
        doorbell_mark(memory, number);
        assert_int_equal(take(), number);
        assert_int_equal(take(), DOORBELL_NUMBERS);
    }
    doorbell_mark(memory, DOORBELL_NUMBERS - 1);
    assert_int_equal(take(), DOORBELL_NUMBERS - 1);
}

static void a_number_that_is_marked_twice_is_found_once(void **state)
{
    doorbell_mark(memory, 70);
    doorbell_mark(memory, 70);
    assert_int_equal(take(), 70);
    assert_int_equal(take(), DOORBELL_NUMBERS);
    doorbell_mark(memory, 70);
    assert_int_equal(take(), 70);
}

// Beside, below and above what was taken.
static void what_is_marked_during_a_turn_is_found_by_the_next_at_the_latest(void **state)
{
    static const uint32_t numbers[] = {3, 66, 5000, 64 * 64 * 7 + 1};
    for (unsigned first = 0; first < 4; first++) {
        bool found[4] = {false};
        for (unsigned i = 0; i < 4; i++) {
            doorbell_mark(memory, numbers[(first + i) % 4]);
            doorbell_mark(memory, numbers[(first + 2) % 4]);
            uint32_t number = take();
            for (unsigned k = 0; k < 4; k++) {
                found[k] |= number == numbers[k];
            }
        }
        for (uint32_t number; (number = take()) != DOORBELL_NUMBERS;) {
            for (unsigned k = 0; k < 4; k++) {
                found[k] |= number == numbers[k];
            }
        }
        assert_true(found[0] && found[1] && found[2] && found[3]);
        assert_false(doorbell_is_marked(&taker));
    }
}

static void a_turn_that_goes_on_loses_nothing(void **state)
{
    doorbell_mark(memory, 1);
    doorbell_mark(memory, 5000);
    doorbell_mark(memory, 10000);
    assert_int_equal(take(), 1);
    doorbell_mark(memory, 1);
    assert_int_equal(take(), 5000);
    assert_int_equal(take(), 10000);
    assert_int_equal(take(), 1);
}

static void who_is_awake_is_not_woken(void **state)
{
    assert_false(doorbell_mark(memory, 1));
    take();
    assert_true(doorbell_sleep(&taker));
    doorbell_rise(&taker);
    assert_false(doorbell_mark(memory, 1));
}

static void who_sleeps_is_woken_once_whatever_is_marked(void **state)
{
    assert_true(doorbell_sleep(&taker));
    assert_true(doorbell_mark(memory, 1));
    assert_false(doorbell_mark(memory, 1));
    assert_false(doorbell_mark(memory, 4711));
}

static void nobody_sleeps_over_a_mark(void **state)
{
    doorbell_mark(memory, 1);
    doorbell_mark(memory, 2);
    assert_false(doorbell_sleep(&taker));
    assert_int_equal(take(), 1);
    assert_false(doorbell_sleep(&taker)); // 2 is taken down, and not handed out
    assert_false(doorbell_mark(memory, 3));
}

// Every bit of memory the other side's, at random, and again while they are taken.
static void random_bits_name_numbers_and_end(void **state)
{
    struct prng prng;
    uint32_t number;
    prng_init(&prng, 1);
    for (int round = 0; round < 30; round++) {
        unsigned taken = 0;
        for (size_t i = 0; i < sizeof memory / 8; i++) {
            uint64_t bits = prng_next(&prng) | prng_next(&prng) << 32;
            memcpy(memory + 8 * i, &bits, 8);
        }
        doorbell_begin(&taker);
        while (doorbell_next(&taker, &number)) {
            assert_true(number < DOORBELL_NUMBERS);
            assert_true(taken++ < DOORBELL_NUMBERS);
            memset(memory, 0xff, 4096 + 64);
        }
    }
}

/* ---- two threads ----------------------------------------------------------------------------- */

enum { NEWS = 200000, STREAMS = 3000 };

static _Atomic uint32_t news[STREAMS]; // of each number: how often it was marked
static int bell;

static void *mark_all(void *arg)
{
    uint64_t once = 1;
    struct prng prng;
    prng_init(&prng, 2);
    for (unsigned i = 0; i < NEWS; i++) {
        uint32_t number = (uint32_t)(prng_next(&prng) % STREAMS);
        atomic_fetch_add(&news[number], 1);
        if (doorbell_mark(memory, number) && write(bell, &once, sizeof once) != sizeof once) {
            return NULL;
        }
    }
    return arg;
}

// All news are seen, though both sides go on at their own pace, and who takes sleeps in between.
static void no_mark_and_no_wake_up_is_lost(void **state)
{
    pthread_t thread;
    uint32_t seen[STREAMS] = {0}, number, total = 0;
    bell = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(pthread_create(&thread, NULL, mark_all, NULL), 0);
    while (total < NEWS) {
        doorbell_begin(&taker);
        while (doorbell_next(&taker, &number)) {
            uint32_t now = atomic_load(&news[number]);
            total += now - seen[number];
            seen[number] = now;
        }
        uint64_t times;
        if (total < NEWS && doorbell_sleep(&taker)) {
            assert_int_equal(read(bell, &times, sizeof times), sizeof times);
        }
    }
    pthread_join(thread, NULL);
    close(bell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_number_is_found_where_it_was_marked, setup),
        cmocka_unit_test_setup(a_number_that_is_marked_twice_is_found_once, setup),
        cmocka_unit_test_setup(what_is_marked_during_a_turn_is_found_by_the_next_at_the_latest,
                               setup),
        cmocka_unit_test_setup(a_turn_that_goes_on_loses_nothing, setup),
        cmocka_unit_test_setup(who_is_awake_is_not_woken, setup),
        cmocka_unit_test_setup(who_sleeps_is_woken_once_whatever_is_marked, setup),
        cmocka_unit_test_setup(nobody_sleeps_over_a_mark, setup),
        cmocka_unit_test_setup(random_bits_name_numbers_and_end, setup),
        cmocka_unit_test_setup(no_mark_and_no_wake_up_is_lost, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
