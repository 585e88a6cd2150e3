// What strangers wrote, shown; octets in hexadecimal.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "text/show.h"

static void a_quoted_text_has_no_way_out(void **state)
{
    char text[64];
    assert_string_equal(text_quote("plain", text, sizeof text), "\"plain\"");
    assert_string_equal(text_quote("a\"b\\c\n\033\x7f\xff", text, sizeof text),
                        "\"a\\x22b\\x5cc\\x0a\\x1b\\x7f\\xff\"");
}

static void a_quoted_text_ends_where_the_room_does(void **state)
{
    char text[12];
    memset(text, '#', sizeof text);
    text_quote("0123456789", text, 9);
    assert_string_equal(text, "\"012\"");
    assert_int_equal(text[9], '#');
}

static void a_tamed_text_keeps_utf_8_and_steers_nothing(void **state)
{
    char text[] = "gr\xc3\xbc\xc3\x9f\n\033[2J\x7f!";
    text_tame(text, sizeof text);
    assert_string_equal(text, "gr\xc3\xbc\xc3\x9f??[2J?!");
}

static void a_tamed_text_ends(void **state)
{
    char text[4] = {'a', 'b', 'c', 'd'};
    text_tame(text, sizeof text);
    assert_string_equal(text, "abc");
}

static void of_ascii_the_printable_stays(void **state)
{
    for (unsigned octet = 0; octet < 256; octet++) {
        char shown = octet >= ' ' && octet <= '~' ? (char)octet : '?';
        assert_int_equal(text_ascii_char((char)octet), shown);
    }
}

static void octets_are_two_digits_each(void **state)
{
    static const uint8_t octets[] = {0, 0x0a, 0xff};
    char text[7];
    assert_string_equal(text_hex(octets, sizeof octets, text), "000aff");
    assert_string_equal(text_hex(octets, 0, text), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quoted_text_has_no_way_out),
        cmocka_unit_test(a_quoted_text_ends_where_the_room_does),
        cmocka_unit_test(a_tamed_text_keeps_utf_8_and_steers_nothing),
        cmocka_unit_test(a_tamed_text_ends),
        cmocka_unit_test(of_ascii_the_printable_stays),
        cmocka_unit_test(octets_are_two_digits_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
