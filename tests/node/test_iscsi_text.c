// The text of Login and Text PDUs (RFC 7143 section 6.1): which pairs it is made of, what cannot be
// one, and lists and numbers among their values.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "format/iscsi_text.h"

enum { READ_MAX = 256 };

// All pairs, as "key value; ", and how the text ends.
static const char *read_all(const char *octets, size_t len)
{
    static char read[READ_MAX];
    struct iscsi_text text = {.at = octets, .left = len};
    struct iscsi_pair pair;
    enum iscsi_text_verdict verdict;
    read[0] = '\0';
    while ((verdict = iscsi_text_next(&text, &pair)) == ISCSI_TEXT_PAIR) {
        size_t at = strlen(read);
        snprintf(read + at, sizeof read - at, "%s %s; ", pair.key, pair.value);
    }
    size_t at = strlen(read);
    snprintf(read + at, sizeof read - at, "%s", verdict == ISCSI_TEXT_END ? "end" : "broken");
    return read;
}

#define EXPECT(text, expected) assert_string_equal(read_all(text, sizeof(text) - 1), expected)

static void a_text_is_pairs_each_with_a_zero_behind_it(void **state)
{
    EXPECT("", "end");
    EXPECT("\0", "end");
    EXPECT("\0\0\0", "end");
    EXPECT("a=1\0", "a 1; end");
    EXPECT("a=1\0\0\0b=2\0", "a 1; b 2; end"); // padding between them
    EXPECT("\0\0a=1\0", "a 1; end");
    EXPECT("a=1\0\0", "a 1; end");
    EXPECT("a=\0", "a ; end");
    EXPECT("a=b=c\0", "a b=c; end");
}

static void what_is_no_pair_breaks_the_text(void **state)
{
    EXPECT("a=1", "broken"); // no zero
    EXPECT("a", "broken");
    EXPECT("a\0", "broken");
    EXPECT("=1\0", "broken");
    EXPECT("a=1\0b", "a 1; broken");
    EXPECT("a\0b=1\0", "broken"); // the equals sign of the next
}

// Letters, digits, and six others; wherever in the key.
static void keys_are_of_these_letters(void **state)
{
    static const char good[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-+@_/";
    for (unsigned c = 1; c < 256; c++) {
        for (unsigned at = 0; at < 3; at++) {
            char text[] = "xxx=v", expected[32];
            text[at] = (char)c;
            if (strchr(good, (int)c) != NULL) {
                snprintf(expected, sizeof expected, "%.3s v; end", text);
            } else {
                snprintf(expected, sizeof expected, "broken");
            }
            if (c != '=') {
                assert_string_equal(read_all(text, sizeof text), expected);
            }
        }
    }
}

static void a_key_has_a_longest_length(void **state)
{
    char text[ISCSI_KEY_MAX + 4], expected[ISCSI_KEY_MAX + 16];
    memset(text, 'k', sizeof text);
    memcpy(text + ISCSI_KEY_MAX - 1, "=v", 3);
    snprintf(expected, sizeof expected, "%.63s v; end", text);
    assert_string_equal(read_all(text, ISCSI_KEY_MAX + 2), expected);
    memset(text, 'k', sizeof text);
    memcpy(text + ISCSI_KEY_MAX, "=v", 3);
    assert_string_equal(read_all(text, ISCSI_KEY_MAX + 3), "broken");
}

// What does not fit is left out whole.
static void answers_fill_their_room_and_no_more(void **state)
{
    char room[13] = "............";
    struct iscsi_text_out out = {.ptr = room, .capacity = 12};
    iscsi_text_put(&out, "a", "%d", 7);
    assert_int_equal(out.len, 4);
    assert_memory_equal(room, "a=7", 4);
    iscsi_text_put(&out, "bcd", "%s", "efg");
    assert_int_equal(out.len, 12);
    assert_false(out.is_full);
    assert_memory_equal(room + 4, "bcd=efg", 8);
    assert_int_equal(room[12], '\0');
    out.len = 5;
    room[12] = '!';
    iscsi_text_put(&out, "bcd", "%s", "efg");
    assert_true(out.is_full);
    assert_int_equal(out.len, 5);
    assert_int_equal(room[12], '!');
}

static void a_list_has_whole_words(void **state)
{
    static const struct {
        const char *list, *word;
        bool has;
    } rows[] = {
        {"None", "None", true},          {"CHAP,None", "None", true}, {"None,CHAP", "None", true},
        {"A,None,B", "None", true},      {"Nonesuch", "None", false}, {"xNone", "None", false},
        {"Nonesuch,None", "None", true}, {"", "None", false},         {"Non", "None", false},
        {"None ", "None", false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(iscsi_list_has(rows[i].list, rows[i].word), rows[i].has);
    }
}

static void numbers_are_decimal_or_hexadecimal_of_32_bits(void **state)
{
    static const struct {
        const char *text;
        bool is_number;
        uint32_t number;
    } rows[] = {
        {"0", true, 0},
        {"7", true, 7},
        {"4294967295", true, UINT32_MAX},
        {"4294967296", false, 0},
        {"0000000012", true, 12},
        {"00000000012", false, 0}, // more than ten digits
        {"0x1f", true, 31},
        {"0X1F", true, 31},
        {"0xffffffff", true, UINT32_MAX},
        {"0x100000000", false, 0},
        {"0x00000000ff", true, 255},
        {"0x000000000ff", false, 0},
        {"0x", false, 0},
        {"", false, 0},
        {"x1", false, 0},
        {"1x1", false, 0},
        {"10x", false, 0},
        {"1f", false, 0},
        {"-1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"0xg", false, 0},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t number = 0;
        assert_int_equal(iscsi_number_parse(rows[i].text, &number), rows[i].is_number);
        assert_true(!rows[i].is_number || number == rows[i].number);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_pairs_each_with_a_zero_behind_it),
        cmocka_unit_test(what_is_no_pair_breaks_the_text),
        cmocka_unit_test(keys_are_of_these_letters),
        cmocka_unit_test(a_key_has_a_longest_length),
        cmocka_unit_test(answers_fill_their_room_and_no_more),
        cmocka_unit_test(a_list_has_whole_words),
        cmocka_unit_test(numbers_are_decimal_or_hexadecimal_of_32_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
