// HOST:PORT and its kin, taken apart and put together.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "text/endpoint.h"

static void expect(const char *text, const char *host, const char *port)
{
    struct text_endpoint e;
    assert_int_equal(text_endpoint_split(text, strlen(text), &e), TEXT_ENDPOINT_OK);
    assert_int_equal(e.host_len, strlen(host));
    assert_memory_equal(e.host, host, e.host_len);
    assert_int_equal(e.port == NULL, port == NULL);
    assert_int_equal(e.port_len, port == NULL ? 0 : strlen(port));
    if (port != NULL) {
        assert_memory_equal(e.port, port, e.port_len);
    }
}

static void a_host_may_have_a_port(void **state)
{
    expect("h", "h", NULL);
    expect("192.0.2.1:4420", "192.0.2.1", "4420");
    expect("h:http", "h", "http");
    expect("", "", NULL);
    expect(":80", "", "80");
    expect("h:", "h", "");
}

static void an_ipv6_number_stands_in_brackets(void **state)
{
    expect("[2001:db8::1]", "2001:db8::1", NULL);
    expect("[::1]:9", "::1", "9");
    expect("[::]:", "::", "");
    expect("[]", "", NULL);
}

static void expect_verdict(const char *text, enum text_endpoint_verdict verdict)
{
    struct text_endpoint e;
    assert_int_equal(text_endpoint_split(text, strlen(text), &e), verdict);
    assert_ptr_equal(e.host, text);
    assert_int_equal(e.host_len, strlen(text));
    assert_null(e.port);
}

static void brackets_end_before_a_colon_or_the_end(void **state)
{
    expect_verdict("[::1", TEXT_ENDPOINT_BRACKET);
    expect_verdict("[::1]x", TEXT_ENDPOINT_BRACKET);
    expect_verdict("[", TEXT_ENDPOINT_BRACKET);
}

static void colons_without_brackets_are_told_apart(void **state)
{
    expect_verdict("2001:db8::1", TEXT_ENDPOINT_BARE_6);
    expect_verdict("::", TEXT_ENDPOINT_BARE_6);
}

static void a_number_beyond_16_bits_is_no_port(void **state)
{
    static const char *const beyond[] = {"65536", "99999", "0065536", "4294967376",
                                         "18446744073709551696"};
    static const char *const may_be[] = {"65535", "0", "", "0000000080", "http", "99999x"};
    for (unsigned i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        assert_false(text_port_exists(beyond[i], strlen(beyond[i])));
    }
    for (unsigned i = 0; i < sizeof may_be / sizeof may_be[0]; i++) {
        assert_true(text_port_exists(may_be[i], strlen(may_be[i])));
    }
    assert_true(text_port_exists("65536", 4)); // only the text counts
}

static void only_the_text_counts(void **state)
{
    struct text_endpoint e;
    const char *text = "[::1]:80/path:7";
    assert_int_equal(text_endpoint_split(text, 8, &e), TEXT_ENDPOINT_OK);
    assert_int_equal(e.port_len, 2);
    assert_int_equal(text_endpoint_split("h:1", 1, &e), TEXT_ENDPOINT_OK);
    assert_null(e.port);
}

static void a_host_with_colons_is_put_into_brackets(void **state)
{
    char text[32], cut[6];
    assert_int_equal(text_endpoint_format("h", "80", text, sizeof text), 4);
    assert_string_equal(text, "h:80");
    assert_int_equal(text_endpoint_format("::1", "80", text, sizeof text), 8);
    assert_string_equal(text, "[::1]:80");
    assert_int_equal(text_endpoint_format("::1", "80", cut, sizeof cut), 8);
    assert_string_equal(cut, "[::1]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_may_have_a_port),
        cmocka_unit_test(an_ipv6_number_stands_in_brackets),
        cmocka_unit_test(brackets_end_before_a_colon_or_the_end),
        cmocka_unit_test(colons_without_brackets_are_told_apart),
        cmocka_unit_test(a_number_beyond_16_bits_is_no_port),
        cmocka_unit_test(only_the_text_counts),
        cmocka_unit_test(a_host_with_colons_is_put_into_brackets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
