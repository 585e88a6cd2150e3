// The books of the shared pool.

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/prng.h"
#include "node/cta/buffers.h"

enum { POOL_LEN = 2 * NODE_TRANSFER_MAX, COUNT = 200 };

static void buffers_do_not_overlap_and_come_back(void **state)
{
    struct buffers *b = buffers_create(POOL_LEN);
    struct node_buffer taken[COUNT] = {0};
    struct prng prng;
    prng_init(&prng, 7);
    for (unsigned round = 0; round < 20000; round++) {
        struct node_buffer *buffer = &taken[prng_below(&prng, COUNT)];
        if (buffer->len > 0) {
            buffers_release(b, *buffer);
            buffer->len = 0;
            continue;
        }
        struct node_buffer got;
        if (buffers_obtain(b, 1 + prng_below(&prng, 1 << prng_below(&prng, 22)), &got)) {
            assert_int_equal(got.offset % BUFFERS_UNIT_LEN, 0);
            assert_true(got.offset + got.len <= POOL_LEN);
            for (unsigned i = 0; i < COUNT; i++) {
                assert_false(
                    node_ranges_overlap(got.offset, got.len, taken[i].offset, taken[i].len));
            }
            *buffer = got;
        }
        assert_true(round % 100 != 0 || buffers_check(b));
    }
    for (unsigned i = 0; i < COUNT; i++) {
        if (taken[i].len > 0) {
            buffers_release(b, taken[i]);
        }
    }
    assert_int_equal(buffers_taken_len(b), 0);
    struct node_buffer whole;
    assert_true(buffers_obtain(b, NODE_TRANSFER_MAX, &whole));
    assert_true(buffers_obtain(b, NODE_TRANSFER_MAX, &whole));
    buffers_destroy(b);
}

static void an_empty_pool_gives_nothing(void **state)
{
    struct buffers *b = buffers_create(POOL_LEN);
    struct node_buffer first, second, third;
    assert_true(buffers_obtain(b, NODE_TRANSFER_MAX, &first));
    assert_true(buffers_obtain(b, NODE_TRANSFER_MAX, &second));
    assert_false(buffers_obtain(b, 1, &third));
    buffers_release(b, second);
    assert_true(buffers_obtain(b, 1, &third));
    buffers_destroy(b);
}

static void what_was_released_last_is_taken_first(void **state)
{
    struct buffers *b = buffers_create(POOL_LEN);
    struct node_buffer one, two, again;
    assert_true(buffers_obtain(b, 4096, &one));
    assert_true(buffers_obtain(b, 4096, &two));
    buffers_release(b, one);
    assert_true(buffers_obtain(b, 100, &again));
    assert_int_equal(again.offset, one.offset);
    buffers_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_do_not_overlap_and_come_back),
        cmocka_unit_test(an_empty_pool_gives_nothing),
        cmocka_unit_test(what_was_released_last_is_taken_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
