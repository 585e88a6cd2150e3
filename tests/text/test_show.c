// What strangers wrote, shown; octets in hexadecimal.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

// A terminal of UTF-8 takes U+009B for ESC [, as others take ESC [ itself.
static void a_tamed_text_has_no_controls_of_two_octets(void **state)
{
    char text[] = "a\xc2\x9b"
                  "2J\xc2\x80\xc2\x9f\xc2\xa0\xc3\x9b\xc2";
    text_tame(text, sizeof text);
    assert_string_equal(text, "a??2J????\xc2\xa0\xc3\x9b\xc2");
}

static void what_is_no_utf_8_is_replaced(void **state)
{
    static const char *const texts[][2] = {
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\xa2", NULL}, // as it is
        {"a\xff-\x80", "a?-?"},
        {"\xc3", "?"},                // ends early
        {"\xe2\x82", "??"},           // likewise
        {"\xc0\xaf", "??"},           // longer than need be
        {"\xe0\x80\xaf", "???"},      // likewise
        {"\xed\xa0\x80", "???"},      // half of a pair
        {"\xf4\x90\x80\x80", "????"}, // beyond the last
        {"\xf5\x80\x80\x80", "????"}, // likewise
        {"\xe2(\xac", "?(?"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", texts[i][0]);
        text_tame_utf8(text);
        assert_string_equal(text, texts[i][1] != NULL ? texts[i][1] : texts[i][0]);
    }
}

static void a_shell_takes_a_quoted_word_as_it_is(void **state)
{
    char word[64];
    assert_string_equal(text_shell_quote("/usr/bin/a-b_c.1", word, sizeof word),
                        "/usr/bin/a-b_c.1");
    assert_string_equal(text_shell_quote("a b", word, sizeof word), "'a b'");
    assert_string_equal(text_shell_quote("$(x); `y`", word, sizeof word), "'$(x); `y`'");
    assert_string_equal(text_shell_quote("it's", word, sizeof word), "'it'\\''s'");
    assert_string_equal(text_shell_quote("", word, sizeof word), "''");
}

static void a_word_without_room_is_not_cut(void **state)
{
    char word[16];
    for (size_t capacity = 8; capacity < sizeof word; capacity++) {
        memset(word, '#', sizeof word);
        assert_string_equal(text_shell_quote("'''''", word, capacity), "FILE");
        assert_int_equal(word[capacity], '#');
    }
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

static void a_uuid_has_five_groups(void **state)
{
    const uint8_t octets[TEXT_UUID_LEN] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                           0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10};
    char text[TEXT_UUID_MAX];
    assert_string_equal(text_uuid(octets, text), "01234567-89ab-cdef-fedc-ba9876543210");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quoted_text_has_no_way_out),
        cmocka_unit_test(a_quoted_text_ends_where_the_room_does),
        cmocka_unit_test(a_tamed_text_keeps_utf_8_and_steers_nothing),
        cmocka_unit_test(a_tamed_text_has_no_controls_of_two_octets),
        cmocka_unit_test(a_tamed_text_ends),
        cmocka_unit_test(what_is_no_utf_8_is_replaced),
        cmocka_unit_test(a_shell_takes_a_quoted_word_as_it_is),
        cmocka_unit_test(a_word_without_room_is_not_cut),
        cmocka_unit_test(of_ascii_the_printable_stays),
        cmocka_unit_test(octets_are_two_digits_each),
        cmocka_unit_test(a_uuid_has_five_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
