// Numbers in Prometheus' text format: what introduces a family, what becomes of a stranger's text,
// and the buckets of a histogram.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/time.h"
#include "http/exposition.h"

static void a_family_is_introduced_by_its_help_and_type(void **state)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    exposition_family(out, "x_total", "counter", "What x is.");
    fclose(out);
    assert_string_equal(text, "# HELP weft_x_total What x is.\n# TYPE weft_x_total counter\n");
    free(text);
}

// What does not fit is cut, and never between an escape and what is escaped.
static void labels_are_escaped_and_cut(void **state)
{
    static const struct {
        const char *text;
        size_t capacity;
        const char *label;
    } rows[] = {
        {"disk", 16, "disk"},
        {"", 16, ""},
        {"a\"b", 16, "a\\\"b"},
        {"a\\b", 16, "a\\\\b"},
        {"a\nb", 16, "a?b"},
        {"abcdef", 8, "abcdef"},
        {"abcdefg", 8, "abcdef"},
        {"abcd\"", 8, "abcd\\\""},
        {"abcde\"", 8, "abcde\\\""},
        {"abcdef\"", 8, "abcdef"},
        {"abc", 2, ""},
        {"abc", 3, "a"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char label[17];
        memset(label, '!', sizeof label);
        assert_ptr_equal(exposition_label(rows[i].text, label, rows[i].capacity), label);
        assert_string_equal(label, rows[i].label);
        assert_int_equal(label[rows[i].capacity], '!');
    }
}

// From a microsecond to half a minute, each bound twice the one before.
static void a_histogram_has_a_bucket_for_each_power_of_two(void **state)
{
    static const char *const lines[] = {
        "weft_t_bucket{v=\"d\",le=\"0.000001023\"} 1\n", // the first, ...
        "weft_t_bucket{v=\"d\",le=\"0.000002047\"} 2\n",
        "weft_t_bucket{v=\"d\",le=\"1.073741823\"} 3\n",
        "weft_t_bucket{v=\"d\",le=\"34.359738367\"} 3\n", // ... the last,
        "weft_t_bucket{v=\"d\",le=\"+Inf\"} 4\n",         // and all
        "weft_t_sum{v=\"d\"} 60.500002024\n",
        "weft_t_count{v=\"d\"} 4\n",
    };
    struct histogram h = {0};
    char *text;
    size_t len, count = 0;
    FILE *out = open_memstream(&text, &len);
    histogram_add(&h, 1000);
    histogram_add(&h, 1024);
    histogram_add(&h, 500 * NS_PER_MS);
    histogram_add(&h, 60 * NS_PER_S);
    exposition_histogram(out, "t", "v=\"d\"", &h);
    fclose(out);
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) {
        count++;
    }
    assert_int_equal(count, 26 + 3);
    assert_int_equal(strncmp(text, lines[0], strlen(lines[0])), 0);
    const char *from = text;
    for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        from = strstr(from, lines[i]); // in this order
        assert_non_null(from);
    }
    assert_string_equal(from, lines[6]);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_is_introduced_by_its_help_and_type),
        cmocka_unit_test(labels_are_escaped_and_cut),
        cmocka_unit_test(a_histogram_has_a_bucket_for_each_power_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
