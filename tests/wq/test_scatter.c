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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(parts_of_a_message_are_placed_in_any_order),
        TEST(the_elements_need_not_lie_in_order),
        TEST(a_local_key_that_goes_between_two_parts_is_our_fault),
        TEST(parts_in_order_are_looked_up_once_for_an_element),
        TEST(what_does_not_fit_is_not_placed),
        TEST(a_local_key_that_is_gone_is_our_fault),
        TEST(an_element_may_end_beyond_its_region_if_nothing_is_placed_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
