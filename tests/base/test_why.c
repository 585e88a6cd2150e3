// Reasons: as long as there is room, and said or not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/why.h"

static void a_reason_replaces_the_one_before(void **state)
{
    struct why why = {"a longer reason"};
    why_say(&why, "%s: %d", "line", 7);
    assert_string_equal(why.text, "line: 7");
}

static void what_does_not_fit_is_cut_off(void **state)
{
    char text[2 * WHY_MAX];
    struct why why;
    memset(text, 'r', sizeof text);
    text[sizeof text - 1] = '\0';
    why_say(&why, "%s", text);
    assert_int_equal(strlen(why.text), WHY_MAX - 1);
}

static void an_empty_reason_is_none(void **state)
{
    struct why why = {""};
    assert_false(why_is_said(&why));
    why_say(&why, "no memory");
    assert_true(why_is_said(&why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reason_replaces_the_one_before),
        cmocka_unit_test(what_does_not_fit_is_cut_off),
        cmocka_unit_test(an_empty_reason_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
