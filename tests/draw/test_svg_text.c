// Text that fits, and XML that strangers cannot break out of.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "draw/svg_text.h"
#include "draw/xml.h"

static void a_text_is_cut_between_characters(void **state)
{
    char cut[SVG_TEXT_MAX];
    assert_string_equal(svg_text_cut("four", 4, cut), "four");
    assert_string_equal(svg_text_cut("fives", 4, cut), "fiv…");
    assert_string_equal(svg_text_cut("µµµµµ", 3, cut), "µµ…");
    assert_string_equal(svg_text_cut("any", 0, cut), "");
}

static void lines_end_between_words(void **state)
{
    char line[SVG_TEXT_MAX];
    const char *rest = svg_text_line("one two three", 8, line);
    assert_string_equal(line, "one two");
    rest = svg_text_line(rest, 8, line);
    assert_string_equal(line, "three");
    assert_string_equal(rest, "");
    rest = svg_text_line("unbreakable", 4, line);
    assert_string_equal(line, "unbr");
    assert_string_equal(rest, "eakable");
}

static void times_have_the_digits_that_tell(void **state)
{
    static const struct {
        duration_ns time;
        const char *text;
    } rows[] = {{0, "0"},
                {999, "999 ns"},
                {1000, "1.00 µs"},
                {15730, "15.7 µs"},
                {157300, "157 µs"},
                {1999999, "1.99 ms"},
                {3 * NS_PER_S, "3.00 s"},
                {4000 * NS_PER_S, "4000 s"}};
    char text[SVG_TIME_MAX];
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(svg_text_time(rows[i].time, text), rows[i].text);
    }
}

static void times_of_rows_have_more(void **state)
{
    static const struct {
        duration_ns time;
        const char *text;
    } rows[] = {{0, "0"},
                {999, "999 ns"},
                {15730, "15.730 µs"},
                {10048123, "10.048 ms"},
                {583120999, "583.12 ms"},
                {3 * NS_PER_S + 4567, "3.0000 s"},
                {4000 * NS_PER_S, "4000.0 s"},
                {123456 * NS_PER_S, "123456 s"}};
    char text[SVG_TIME_MAX];
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(svg_text_time_finely(rows[i].time, text), rows[i].text);
    }
}

static char written[128];

static void put(void *ctx, const char *text, size_t len)
{
    strncat(written, text, len);
}

static void markup_of_strangers_is_text(void **state)
{
    const struct xml_out out = {.put = put};
    written[0] = '\0';
    xml_text(&out, "<a href=\"x\">&\n\x1b\xff\xc3\xbc\xc3");
    assert_string_equal(written, "&lt;a href=&quot;x&quot;&gt;&amp;???\xc3\xbc?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_cut_between_characters),
        cmocka_unit_test(lines_end_between_words),
        cmocka_unit_test(times_have_the_digits_that_tell),
        cmocka_unit_test(times_of_rows_have_more),
        cmocka_unit_test(markup_of_strangers_is_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
