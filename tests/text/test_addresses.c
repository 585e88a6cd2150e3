// The addresses of a service: in the order in which they were given, each once, and so many.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "text/addresses.h"

static void each_is_kept_in_its_turn(void **state)
{
    struct addresses a = {0};
    assert_int_equal(addresses_add(&a, "127.0.0.1:1"), ADDRESSES_OK);
    assert_int_equal(addresses_add(&a, "unix:/run/a"), ADDRESSES_OK);
    assert_int_equal(a.count, 2);
    assert_string_equal(a.of[0], "127.0.0.1:1");
    assert_string_equal(a.of[1], "unix:/run/a");
}

static void one_that_is_there_is_not_there_twice(void **state)
{
    struct addresses a = {0};
    addresses_add(&a, "a:1");
    addresses_add(&a, "b:1");
    assert_int_equal(addresses_add(&a, "b:1"), ADDRESSES_TWICE);
    assert_int_equal(addresses_add(&a, "b:12"), ADDRESSES_OK);
    assert_int_equal(a.count, 3);
}

static void there_are_as_many_as_there_is_room_for(void **state)
{
    struct addresses a = {0};
    char text[ADDRESS_MAX];
    for (unsigned i = 0; i < ADDRESSES_COUNT_MAX; i++) {
        snprintf(text, sizeof text, "a:%u", i);
        assert_int_equal(addresses_add(&a, text), ADDRESSES_OK);
    }
    assert_int_equal(addresses_add(&a, "b:1"), ADDRESSES_TOO_MANY);
    assert_int_equal(addresses_add(&a, "a:0"), ADDRESSES_TWICE);
    assert_int_equal(a.count, ADDRESSES_COUNT_MAX);
}

static void each_is_as_long_as_its_place(void **state)
{
    struct addresses a = {0};
    char text[ADDRESS_MAX + 1];
    memset(text, 'x', sizeof text);
    text[ADDRESS_MAX] = '\0';
    assert_int_equal(addresses_add(&a, text), ADDRESSES_TOO_LONG);
    text[ADDRESS_MAX - 1] = '\0';
    assert_int_equal(addresses_add(&a, text), ADDRESSES_OK);
    assert_string_equal(a.of[0], text);
}

static void each_refusal_has_its_words(void **state)
{
    assert_string_equal(addresses_verdict_name(ADDRESSES_TOO_LONG), "the address is too long");
    assert_string_equal(addresses_verdict_name(ADDRESSES_TWICE), "this address is given twice");
    assert_string_equal(addresses_verdict_name(ADDRESSES_TOO_MANY),
                        "too many addresses for one protocol");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_kept_in_its_turn),
        cmocka_unit_test(one_that_is_there_is_not_there_twice),
        cmocka_unit_test(there_are_as_many_as_there_is_room_for),
        cmocka_unit_test(each_is_as_long_as_its_place),
        cmocka_unit_test(each_refusal_has_its_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
