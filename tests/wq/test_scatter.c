// Placement into the list of a work request: any part of a message, in any order, and what does not
// fit or has no memory any more.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wq/scatter.h"

enum { BUFFER_LEN = 128, BASE = 0x10000 };

struct fixture {
    struct mem_table *mem;
    uint32_t pd, lkey;
    uint8_t buffer[BUFFER_LEN], expected[BUFFER_LEN], payload[BUFFER_LEN];
};

static int setup(void **state)
{
    static struct fixture f;
    static const uint8_t key[STAG_KEY_LEN] = {1, 2, 3};
    memset(&f, 0, sizeof f);
    f.mem = mem_table_create(key, 64, (struct mem_probe){0});
    assert_int_equal(mem_pd_alloc(f.mem, &f.pd), 0);
    assert_int_equal(mem_region_register(f.mem, f.pd, f.buffer, BUFFER_LEN, BASE,
                                         MEM_ACCESS_LOCAL_WRITE, &f.lkey),
                     0);
    for (unsigned i = 0; i < BUFFER_LEN; i++) {
        f.payload[i] = (uint8_t)(i * 5 + 1) | 1;
    }
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    mem_table_destroy(f->mem);
    return 0;
}

static enum scatter_verdict place(struct fixture *f, struct scatter *s, uint64_t offset, size_t len)
{
    return scatter_place(f->mem, f->pd, s, offset, span_of(f->payload + offset, len));
}

static void parts_of_a_message_are_placed_in_any_order(void **state)
{
    struct fixture *f = *state;
    const struct sge list[] = {{BASE + 8, 0, f->lkey},
                               {BASE + 8, 7, f->lkey},
                               {0, 0, 0},
                               {BASE + 15, 1, f->lkey},
                               {BASE + 16, 84, f->lkey}};
    static const size_t order[] = {0, 10, 20, 60, 30, 0, 80, 40, 50, 70};
    struct scatter s;
    scatter_init(&s, list, 5);
    assert_int_equal(s.length, 92);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(place(f, &s, order[i], 10), SCATTER_OK);
    }
    memcpy(f->expected + 8, f->payload, 90);
    assert_memory_equal(f->buffer, f->expected, BUFFER_LEN);
}

static void the_elements_need_not_lie_in_order(void **state)
{
    struct fixture *f = *state;
    const struct sge list[] = {{BASE + 50, 5, f->lkey}, {BASE + 10, 20, f->lkey}};
    struct scatter s;
    scatter_init(&s, list, 2);
    assert_int_equal(place(f, &s, 3, 15), SCATTER_OK);
    memcpy(f->expected + 53, f->payload + 3, 2);
    memcpy(f->expected + 10, f->payload + 5, 13);
    assert_memory_equal(f->buffer, f->expected, BUFFER_LEN);
}

static void what_does_not_fit_is_not_placed(void **state)
{
    struct fixture *f = *state;
    const struct sge list[] = {{BASE, 10, f->lkey}};
    struct scatter s;
    scatter_init(&s, list, 1);
    assert_int_equal(place(f, &s, 8, 3), SCATTER_TOO_LONG);
    assert_int_equal(place(f, &s, 11, 0), SCATTER_TOO_LONG);
    assert_int_equal(place(f, &s, 10, 0), SCATTER_OK);
    assert_memory_equal(f->buffer, f->expected, BUFFER_LEN);
}

static void a_local_key_that_is_gone_is_our_fault(void **state)
{
    struct fixture *f = *state;
    const struct sge list[] = {{BASE, 8, f->lkey ^ 1}};
    struct scatter s;
    scatter_init(&s, list, 1);
    assert_int_equal(place(f, &s, 0, 8), SCATTER_LOCAL);
}

static void a_local_key_that_goes_between_two_parts_is_our_fault(void **state)
{
    struct fixture *f = *state;
    const struct sge list[] = {{BASE, 24, f->lkey}};
    struct scatter s;
    scatter_init(&s, list, 1);
    assert_int_equal(place(f, &s, 0, 8), SCATTER_OK);
    assert_int_equal(place(f, &s, 8, 8), SCATTER_OK);
    assert_int_equal(mem_region_deregister(f->mem, f->lkey), 0);
    assert_int_equal(place(f, &s, 16, 8), SCATTER_LOCAL);
}

static void parts_in_order_are_looked_up_once_for_an_element(void **state)
{
    struct fixture *f = *state;
    const struct sge list[] = {{BASE, 32, f->lkey}, {BASE + 32, 32, f->lkey}};
    struct scatter s;
    scatter_init(&s, list, 2);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(place(f, &s, 8 * i, 8), SCATTER_OK);
    }
    assert_memory_equal(f->buffer, f->payload, 64);
    assert_int_equal(mem_table_verdict_count(f->mem, MEM_OK), 2);
    assert_int_equal(place(f, &s, 8, 8), SCATTER_OK); // back, and on from there
    assert_int_equal(place(f, &s, 20, 24), SCATTER_OK);
    assert_memory_equal(f->buffer, f->payload, 64);
}

// perftest posts receives of whole path MTUs for shorter messages, beyond the end of its region.
static void an_element_may_end_beyond_its_region_if_nothing_is_placed_there(void **state)
{
    struct fixture *f = *state;
    const struct sge list[] = {{BASE + BUFFER_LEN - 8, 16, f->lkey}};
    struct scatter s;
    struct mspan places[1];
    scatter_init(&s, list, 1);
    assert_int_equal(place(f, &s, 0, 4), SCATTER_OK);
    assert_int_equal(place(f, &s, 4, 4), SCATTER_OK);
    assert_memory_equal(f->buffer + BUFFER_LEN - 8, f->payload, 8);
    assert_int_equal(place(f, &s, 8, 1), SCATTER_LOCAL);
    assert_int_equal(place(f, &s, 7, 2), SCATTER_LOCAL);
    assert_int_equal(scatter_places(f->mem, f->pd, &s, 2, 6, places, 1), 1);
    assert_ptr_equal(places[0].ptr, f->buffer + BUFFER_LEN - 6);
    assert_int_equal(scatter_places(f->mem, f->pd, &s, 2, 7, places, 1), 0);
}

// Of elements with and without octets, somewhere in the buffer.
static const struct {
    uint8_t at, len;
} elements[] = {{0, 0}, {70, 9}, {5, 1}, {0, 0}, {0, 0}, {20, 30}, {90, 3}, {0, 0}};
enum { ELEMENT_COUNT = sizeof elements / sizeof elements[0], MESSAGE_LEN = 9 + 1 + 30 + 3 };

static void list_fill(struct fixture *f, struct sge *list)
{
    for (unsigned i = 0; i < ELEMENT_COUNT; i++) {
        list[i] = (struct sge){BASE + elements[i].at, elements[i].len, f->lkey};
    }
}

// Where an octet of the message lies.
static uint8_t *place_of(struct fixture *f, size_t offset)
{
    unsigned i = 0;
    for (; offset >= elements[i].len; i++) {
        offset -= elements[i].len;
    }
    return f->buffer + elements[i].at + offset;
}

// Every part of a message, behind every other, by a cursor that has been elsewhere.
static void each_part_has_its_places(void **state)
{
    struct fixture *f = *state;
    struct sge list[ELEMENT_COUNT];
    struct mspan places[ELEMENT_COUNT];
    struct scatter s;
    list_fill(f, list);
    scatter_init(&s, list, ELEMENT_COUNT);
    assert_int_equal(s.length, MESSAGE_LEN);
    for (size_t from = 0; from <= MESSAGE_LEN; from++) {
        for (size_t len = 0; len <= MESSAGE_LEN - from; len++) {
            const unsigned count =
                scatter_places(f->mem, f->pd, &s, from, len, places, ELEMENT_COUNT);
            size_t at = from;
            for (unsigned i = 0; i < count; i++) {
                for (size_t k = 0; k < places[i].len; k++, at++) {
                    assert_ptr_equal(places[i].ptr + k, place_of(f, at));
                }
            }
            assert_int_equal(at, from + len);
            if (count > 0) { // room for less is none
                assert_int_equal(scatter_places(f->mem, f->pd, &s, from, len, places, count - 1),
                                 0);
            }
        }
        assert_int_equal(
            scatter_places(f->mem, f->pd, &s, from, MESSAGE_LEN - from + 1, places, ELEMENT_COUNT),
            0);
    }
    assert_int_equal(scatter_places(f->mem, f->pd, &s, MESSAGE_LEN + 1, 0, places, 1), 0);
}

// Forwards by steps of each length, and back to the beginning.
static void parts_of_each_length_are_placed(void **state)
{
    struct fixture *f = *state;
    struct sge list[ELEMENT_COUNT];
    struct scatter s;
    list_fill(f, list);
    scatter_init(&s, list, ELEMENT_COUNT);
    for (size_t step = 1; step <= MESSAGE_LEN; step++) {
        memset(f->buffer, 0, BUFFER_LEN);
        memset(f->expected, 0, BUFFER_LEN);
        for (size_t at = 0; at < MESSAGE_LEN; at += step) {
            const size_t len = step < MESSAGE_LEN - at ? step : MESSAGE_LEN - at;
            assert_int_equal(place(f, &s, at, len), SCATTER_OK);
            for (size_t i = at; i < at + len; i++) {
                f->expected[place_of(f, i) - f->buffer] = f->payload[i];
            }
            assert_memory_equal(f->buffer, f->expected, BUFFER_LEN); // and nothing beside it
        }
    }
}

// What was looked up is not used for what lies elsewhere, or is longer.
static void a_cursor_that_jumps_looks_up_again(void **state)
{
    struct fixture *f = *state;
    const struct sge list[] = {{BASE, 40, f->lkey}, {BASE + 60, 20, f->lkey}};
    static const struct {
        size_t offset, len;
        unsigned looked_up; // since the beginning
    } rows[] = {
        {0, 8, 1},  {8, 8, 1},  {20, 4, 1}, {39, 1, 1},
        {40, 2, 2}, {41, 3, 3}, {44, 4, 3}, {0, 60, 5},
    };
    struct scatter s;
    scatter_init(&s, list, 2);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(place(f, &s, rows[i].offset, rows[i].len), SCATTER_OK);
        assert_int_equal(mem_table_verdict_count(f->mem, MEM_OK), rows[i].looked_up);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(parts_of_a_message_are_placed_in_any_order),
        TEST(each_part_has_its_places),
        TEST(parts_of_each_length_are_placed),
        TEST(a_cursor_that_jumps_looks_up_again),
        TEST(the_elements_need_not_lie_in_order),
        TEST(a_local_key_that_goes_between_two_parts_is_our_fault),
        TEST(parts_in_order_are_looked_up_once_for_an_element),
        TEST(what_does_not_fit_is_not_placed),
        TEST(a_local_key_that_is_gone_is_our_fault),
        TEST(an_element_may_end_beyond_its_region_if_nothing_is_placed_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
