// What is said about strangers: as much as an operator can read, and nobody silences another.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "node/host/strangers.h"

static const duration_ns interval = STRANGERS_SECONDS * NS_PER_S;
static const instant_ns begin_ns = 1000 * NS_PER_S;

static struct strangers strangers;
static char said[STRANGERS_LINE_MAX];

static int fresh(void **state)
{
    strangers = (struct strangers){0};
    return 0;
}

static bool line(const char *host, instant_ns now)
{
    return strangers_line(&strangers, host, "what happened", now, said);
}

static unsigned lines(const char *host, unsigned tries, instant_ns now)
{
    unsigned count = 0;
    for (unsigned i = 0; i < tries; i++) {
        count += line(host, now);
    }
    return count;
}

static void a_host_has_ten_lines_and_then_one_in_five_seconds(void **state)
{
    instant_ns now = begin_ns;
    assert_int_equal(lines("192.0.2.1", 20, now), STRANGERS_BURST);
    assert_string_equal(said, "what happened");
    assert_false(line("192.0.2.1", now + interval - 1));
    now += interval;
    assert_int_equal(lines("192.0.2.1", 5, now), 1);
    assert_string_equal(said, "what happened (11 more lines about it suppressed)");
    now += interval;
    assert_true(line("192.0.2.1", now));
    assert_string_equal(said, "what happened (4 more lines about it suppressed)");
}

static void a_host_that_was_silent_for_long_has_ten_again_and_no_more(void **state)
{
    assert_int_equal(lines("192.0.2.1", 12, begin_ns), STRANGERS_BURST);
    instant_ns now = begin_ns + 10 * STRANGERS_BURST * interval;
    assert_true(line("192.0.2.1", now)); // of what was suppressed is told once
    assert_string_equal(said, "what happened (2 more lines about it suppressed)");
    assert_int_equal(lines("192.0.2.1", 20, now), STRANGERS_BURST - 1);
    assert_string_equal(said, "what happened");
}

static void a_host_that_says_much_silences_no_other(void **state)
{
    assert_int_equal(lines("192.0.2.1", 10000, begin_ns), STRANGERS_BURST);
    assert_true(line("192.0.2.2", begin_ns));
    assert_string_equal(said, "what happened");
}

// As many as it likes to be: a network of addresses is no licence.
static void all_hosts_together_have_a_hundred(void **state)
{
    instant_ns now = begin_ns;
    unsigned count = 0;
    char host[16];
    for (unsigned i = 0; i < 5 * STRANGERS_BURST_OF_ALL; i++) {
        snprintf(host, sizeof host, "10.0.%u.%u", i / 256, i % 256);
        count += line(host, now);
    }
    assert_int_equal(count, STRANGERS_BURST_OF_ALL);
    now += interval / STRANGERS_BURST;
    assert_true(line("192.0.2.1", now));
    assert_false(line("192.0.2.2", now));
    now += interval; // ten of them were given back
    assert_int_equal(lines("192.0.2.3", 20, now), STRANGERS_BURST);
    assert_false(line("192.0.2.4", now));
}

static void the_host_longest_silent_is_forgotten_first(void **state)
{
    char host[16];
    for (unsigned i = 0; i < STRANGERS_COUNT_MAX; i++) {
        snprintf(host, sizeof host, "10.0.0.%u", i);
        line(host, begin_ns + i * NS_PER_S);
    }
    instant_ns now = begin_ns + STRANGERS_COUNT_MAX * NS_PER_S;
    strangers.all.full_ns = 0; // the others' share is not what this is about
    assert_int_equal(lines("10.0.0.0", 20, now), STRANGERS_BURST);
    assert_true(line("192.0.2.1", now + 1)); // in the place of 10.0.0.1
    assert_false(line("10.0.0.0", now + 2)); // which is known
    assert_true(line("10.0.0.1", now + 3));
    assert_string_equal(said, "what happened");
}

static void a_long_line_loses_its_end_and_not_the_count(void **state)
{
    char text[2 * STRANGERS_LINE_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_true(strangers_line(&strangers, "192.0.2.1", text, begin_ns, said));
    assert_int_equal(strlen(said), STRANGERS_LINE_MAX - 1);
    lines("192.0.2.1", STRANGERS_BURST, begin_ns);
    assert_true(strangers_line(&strangers, "192.0.2.1", text, begin_ns + interval, said));
    assert_non_null(strstr(said, "xxx (1 more lines about it suppressed)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_host_has_ten_lines_and_then_one_in_five_seconds, fresh),
        cmocka_unit_test_setup(a_host_that_was_silent_for_long_has_ten_again_and_no_more, fresh),
        cmocka_unit_test_setup(a_host_that_says_much_silences_no_other, fresh),
        cmocka_unit_test_setup(all_hosts_together_have_a_hundred, fresh),
        cmocka_unit_test_setup(the_host_longest_silent_is_forgotten_first, fresh),
        cmocka_unit_test_setup(a_long_line_loses_its_end_and_not_the_count, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
