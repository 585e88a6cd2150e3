// The keyed permutation behind STags.
#include <stdlib.h>

#include "mem/stag.h"
#include "tests/mem/fixture.h"

static struct stag_cipher cipher_of(uint8_t key_octet)
{
    uint8_t key[STAG_KEY_LEN];
    memset(key, key_octet, sizeof key);
    struct stag_cipher cipher;
    stag_cipher_init(&cipher, key);
    return cipher;
}

static void every_stag_leads_back_to_its_index(void **state)
{
    struct stag_cipher cipher = cipher_of(1);
    uint32_t skipped = 0;
    for (uint32_t index = 0; index < STAG_INDEX_COUNT; index += 7) {
        uint32_t stag;
        if (!stag_encode(&cipher, index, index % STAG_GENERATION_COUNT, &stag)) {
            skipped++;
            continue;
        }
        assert_int_equal(stag_index(&cipher, stag), index);
        assert_int_equal(stag_index(&cipher, stag ^ 0x5a), index);
    }
    assert_true(skipped < 10);
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static void an_index_never_repeats_a_stag_within_its_generations(void **state)
{
    static uint32_t stags[STAG_GENERATION_COUNT];
    struct stag_cipher cipher = cipher_of(2);
    size_t count = 0;
    for (uint32_t generation = 0; generation < STAG_GENERATION_COUNT; generation++) {
        count += stag_encode(&cipher, 12345, generation, &stags[count]);
    }
    qsort(stags, count, sizeof *stags, compare);
    for (size_t i = 1; i < count; i++) {
        assert_int_not_equal(stags[i - 1], stags[i]);
    }
    assert_true(count > STAG_GENERATION_COUNT - 300);
}

static void renewing_passes_through_every_stag_of_an_index(void **state)
{
    static uint32_t stags[STAG_GENERATION_COUNT];
    struct stag_cipher cipher = cipher_of(2);
    uint16_t generation = 4711;
    uint32_t stag, first;
    assert_true(stag_encode(&cipher, 12345, generation, &stag));
    first = stag;
    size_t count = 0;
    do {
        stags[count++] = stag;
        stag = stag_renew(&cipher, 12345, stag, &generation);
        uint32_t encoded;
        assert_true(stag_encode(&cipher, 12345, generation, &encoded));
        assert_int_equal(stag, encoded);
        assert_int_equal(stag_index(&cipher, stag), 12345);
    } while (stag != first && count < STAG_GENERATION_COUNT);
    qsort(stags, count, sizeof *stags, compare);
    for (size_t i = 1; i < count; i++) {
        assert_int_not_equal(stags[i - 1], stags[i]);
    }
    assert_true(count > STAG_GENERATION_COUNT - 300);
}

static void neither_low_nor_highest_values_are_given_out(void **state)
{
    struct stag_cipher cipher = cipher_of(3);
    uint32_t refused = 0;
    for (uint32_t index = 0; index < STAG_INDEX_COUNT; index++) {
        uint32_t stag;
        if (!stag_encode(&cipher, index, 0, &stag)) {
            refused++;
            continue;
        }
        assert_in_range(stag, 0x10000, 0xfffffeff);
    }
    // 257 of 2^24 names are kept back: four of these 2^18 are expected.
    assert_in_range(refused, 1, 20);
}

// Of a pair of independent random words, 16 bits differ on average.
static void neighbours_look_unrelated(void **state)
{
    struct stag_cipher cipher = cipher_of(4);
    uint64_t index_bits = 0, generation_bits = 0;
    for (uint32_t index = 0; index < 4096; index++) {
        uint32_t here, next, later;
        if (!stag_encode(&cipher, index, 0, &here) || !stag_encode(&cipher, index + 1, 0, &next) ||
            !stag_encode(&cipher, index, 1, &later)) {
            continue;
        }
        index_bits += (unsigned)__builtin_popcount(here ^ next);
        generation_bits += (unsigned)__builtin_popcount(here ^ later);
    }
    assert_in_range(index_bits, 4096 * 15, 4096 * 17);
    assert_in_range(generation_bits, 4096 * 15, 4096 * 17);
}

static void no_difference_between_neighbours_repeats_often(void **state)
{
    enum { COUNT = 1 << 14 };
    static uint16_t histogram[1 << 16];
    struct stag_cipher cipher = cipher_of(5);
    for (uint32_t index = 0; index < COUNT; index++) {
        uint32_t here, next;
        if (stag_encode(&cipher, index, 0, &here) && stag_encode(&cipher, index + 1, 0, &next)) {
            histogram[(next - here) >> 16]++;
        }
    }
    for (unsigned i = 0; i < 1 << 16; i++) {
        assert_true(histogram[i] < 12); // 0.25 expected in each
    }
}

static void another_key_gives_other_stags(void **state)
{
    struct stag_cipher a = cipher_of(6), b = cipher_of(7);
    unsigned equal = 0;
    for (uint32_t index = 0; index < 10000; index++) {
        uint32_t of_a = 0, of_b = 1;
        (void)stag_encode(&a, index, 0, &of_a);
        (void)stag_encode(&b, index, 0, &of_b);
        equal += of_a == of_b;
    }
    assert_int_equal(equal, 0);
}

static void every_octet_of_the_key_counts(void **state)
{
    enum { STAG_COUNT = 16 };
    for (unsigned i = 0; i < STAG_KEY_LEN; i++) {
        uint8_t key[STAG_KEY_LEN] = {0};
        struct stag_cipher plain, changed;
        unsigned same = 0;
        stag_cipher_init(&plain, key);
        key[i] = 1;
        stag_cipher_init(&changed, key);
        for (uint32_t index = 0; index < STAG_COUNT; index++) {
            uint32_t a = 0, b = 1;
            stag_encode(&plain, index, 0, &a);
            stag_encode(&changed, index, 0, &b);
            same += a == b;
        }
        assert_true(same < 2);
    }
}

// SipHash-1-3 of one word, and the network over it, reckoned apart from this program.
static void stags_are_those_of_the_function_that_is_named(void **state)
{
    static const struct {
        uint32_t index, generation, stag;
    } table[] = {
        {0, 0, 0x2fe792f6},        {1, 0, 0xf2539a6f},          {0, 1, 0xa20b67a3},
        {12345, 4711, 0x2c64147a}, {262143, 16383, 0xe1398369}, {77, 640, 0x6b29571a},
    };
    uint8_t key[STAG_KEY_LEN];
    struct stag_cipher cipher;
    for (unsigned i = 0; i < sizeof key; i++) {
        key[i] = (uint8_t)i;
    }
    stag_cipher_init(&cipher, key);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint32_t stag;
        assert_true(stag_encode(&cipher, table[i].index, table[i].generation, &stag));
        assert_int_equal(stag, table[i].stag);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stag_leads_back_to_its_index),
        cmocka_unit_test(every_octet_of_the_key_counts),
        cmocka_unit_test(stags_are_those_of_the_function_that_is_named),
        cmocka_unit_test(an_index_never_repeats_a_stag_within_its_generations),
        cmocka_unit_test(renewing_passes_through_every_stag_of_an_index),
        cmocka_unit_test(neither_low_nor_highest_values_are_given_out),
        cmocka_unit_test(neighbours_look_unrelated),
        cmocka_unit_test(no_difference_between_neighbours_repeats_often),
        cmocka_unit_test(another_key_gives_other_stags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
