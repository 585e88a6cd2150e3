// Percent-encoding: what stands for an octet, and what stands for itself.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "text/percent.h"

static void two_digits_stand_for_an_octet(void **state)
{
    char text[] = "a%2Fb%2f%41%7a";
    text_percent_decode(text);
    assert_string_equal(text, "a/b/Az");
}

static void a_percent_without_two_digits_stands_for_itself(void **state)
{
    char text[] = "%%2g%g2%4%";
    text_percent_decode(text);
    assert_string_equal(text, "%%2g%g2%4%");
}

static void what_is_decoded_is_not_decoded_again(void **state)
{
    char text[] = "%2541";
    text_percent_decode(text);
    assert_string_equal(text, "%41");
}

static void an_octet_is_taken_from_within_the_text_alone(void **state)
{
    const char *text = "%41", *at = text;
    assert_int_equal(text_percent_take(&at, text + 2), '%');
    assert_ptr_equal(at, text + 1);
    at = text;
    assert_int_equal(text_percent_take(&at, text + 3), 'A');
    assert_ptr_equal(at, text + 3);
}

static void every_octet_can_be_written(void **state)
{
    for (unsigned octet = 0; octet < 256; octet++) {
        char text[4];
        const char *at = text;
        snprintf(text, sizeof text, octet % 2 == 0 ? "%%%02x" : "%%%02X", octet);
        assert_int_equal(text_percent_take(&at, text + 3), octet);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_digits_stand_for_an_octet),
        cmocka_unit_test(a_percent_without_two_digits_stands_for_itself),
        cmocka_unit_test(what_is_decoded_is_not_decoded_again),
        cmocka_unit_test(an_octet_is_taken_from_within_the_text_alone),
        cmocka_unit_test(every_octet_can_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
