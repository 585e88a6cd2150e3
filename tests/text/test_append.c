// A text put together piece by piece.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "text/append.h"

static void pieces_stand_one_behind_the_other(void **state)
{
    char text[16] = "a";
    text_append(text, sizeof text, " %d", 1);
    text_append(text, sizeof text, "%s", " b");
    assert_string_equal(text, "a 1 b");
}

static void what_has_no_room_is_left_out(void **state)
{
    struct {
        char text[8];
        char behind;
    } s = {"seven", '!'};
    text_append(s.text, sizeof s.text, "%d", 1234);
    assert_string_equal(s.text, "seven12");
    text_append(s.text, sizeof s.text, "%d", 3);
    assert_string_equal(s.text, "seven12");
    assert_int_equal(s.behind, '!');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_stand_one_behind_the_other),
        cmocka_unit_test(what_has_no_room_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
