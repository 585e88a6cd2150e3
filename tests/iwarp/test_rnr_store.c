// The store: first in, first out, octets intact, never beyond its bound.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/prng.h"
#include "iwarp/rnr_store.h"

static struct rdmap_arrival arrival(const uint8_t *octets, size_t len, uint32_t msn)
{
    return (struct rdmap_arrival){
        .opcode = RDMAP_SEND, .msn = msn, .payload = span_of(octets, len)};
}

static void setup(struct rnr_store *store, size_t capacity)
{
    static uint8_t block[3000];
    struct carve memory = {.block = block};
    assert_true(capacity <= sizeof block);
    rnr_store_init(store, capacity, &memory);
}

static void it_keeps_order_and_octets(void **state)
{
    struct rnr_store store;
    uint8_t octets[600], seen;
    struct prng prng;
    prng_init(&prng, 3);
    setup(&store, 3000);
    uint32_t pushed = 0, popped = 0;
    for (unsigned i = 0; i < 20000; i++) {
        size_t len = prng_below(&prng, sizeof octets);
        if (prng_below(&prng, 2) == 0 && rnr_store_has_room(&store, len)) {
            memset(octets, (int)pushed, len);
            struct rdmap_arrival a = arrival(octets, len, pushed++);
            rnr_store_push(&store, &a);
        } else if (!rnr_store_is_empty(&store)) {
            struct rdmap_arrival a;
            rnr_store_peek(&store, &a);
            assert_int_equal(a.msn, popped);
            seen = (uint8_t)popped;
            for (size_t k = 0; k < a.payload.len; k++) {
                assert_int_equal(a.payload.ptr[k], seen);
            }
            rnr_store_pop(&store);
            popped++;
        }
    }
    assert_true(popped > 1000);
}

static void a_store_of_nothing_has_no_room(void **state)
{
    struct rnr_store store;
    setup(&store, 0);
    assert_true(rnr_store_is_empty(&store));
    assert_false(rnr_store_has_room(&store, 0));
}

static void room_ends_at_the_bound(void **state)
{
    struct rnr_store store;
    uint8_t octets[100] = {0};
    setup(&store, 2000);
    unsigned count = 0;
    while (rnr_store_has_room(&store, sizeof octets)) {
        struct rdmap_arrival a = arrival(octets, sizeof octets, count++);
        rnr_store_push(&store, &a);
    }
    assert_true(count >= 2000 / (100 + sizeof(struct rdmap_arrival) + 16));
    rnr_store_clear(&store);
    assert_true(rnr_store_has_room(&store, 1000));
}

// So that of a long store only the beginning is ever touched, where few Sends wait at a time.
static void an_empty_store_begins_at_its_front_again(void **state)
{
    struct rnr_store store;
    struct rdmap_arrival a, first, second;
    uint8_t octets[100] = {0};
    setup(&store, 2000);
    a = arrival(octets, sizeof octets, 1);
    rnr_store_push(&store, &a);
    rnr_store_peek(&store, &first);
    rnr_store_pop(&store);
    rnr_store_push(&store, &a);
    rnr_store_peek(&store, &second);
    assert_ptr_equal(first.payload.ptr, second.payload.ptr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_keeps_order_and_octets),
        cmocka_unit_test(a_store_of_nothing_has_no_room),
        cmocka_unit_test(room_ends_at_the_bound),
        cmocka_unit_test(an_empty_store_begins_at_its_front_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
