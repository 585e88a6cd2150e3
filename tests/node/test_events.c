// What a node remembers of what it said: the last of it, with its time, cut off and fit for JSON.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "node/host/events.h"

static void what_was_said_last_comes_first(void **state)
{
    struct host_events events = {0};
    assert_null(host_event_back(&events, 0));
    host_event_add(&events, 100, "one");
    host_event_add(&events, 200, "two");
    assert_int_equal(events.count, 2);
    assert_string_equal(host_event_back(&events, 0)->text, "two");
    assert_int_equal(host_event_back(&events, 0)->at, 200);
    assert_string_equal(host_event_back(&events, 1)->text, "one");
    assert_int_equal(host_event_back(&events, 1)->at, 100);
    assert_null(host_event_back(&events, 2));
}

static void the_last_of_many_are_kept(void **state)
{
    struct host_events events = {0};
    char text[16];
    for (unsigned i = 0; i < 2 * HOST_EVENT_MAX + 5; i++) {
        snprintf(text, sizeof text, "%u", i);
        host_event_add(&events, i, text);
    }
    assert_int_equal(events.count, 2 * HOST_EVENT_MAX + 5);
    for (unsigned back = 0; back < HOST_EVENT_MAX; back++) {
        snprintf(text, sizeof text, "%u", 2 * HOST_EVENT_MAX + 4 - back);
        assert_string_equal(host_event_back(&events, back)->text, text);
        assert_int_equal(host_event_back(&events, back)->at, 2 * HOST_EVENT_MAX + 4 - back);
    }
    assert_null(host_event_back(&events, HOST_EVENT_MAX));
}

static void a_text_is_cut_off_and_fit_for_json(void **state)
{
    struct host_events events = {0};
    char text[2 * HOST_EVENT_LEN];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    host_event_add(&events, 1, text);
    assert_int_equal(strlen(host_event_back(&events, 0)->text), HOST_EVENT_LEN - 1);
    host_event_add(&events, 2, "a\xff\xc3\xa9");
    assert_string_equal(host_event_back(&events, 0)->text, "a?\xc3\xa9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_said_last_comes_first),
        cmocka_unit_test(the_last_of_many_are_kept),
        cmocka_unit_test(a_text_is_cut_off_and_fit_for_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
