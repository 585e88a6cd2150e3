// Socket addresses as text.
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "text/address.h"

static void an_ipv4_address_is_number_and_port(void **state)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(4420)};
    char text[TEXT_ADDRESS_MAX];
    in.sin_addr.s_addr = htonl(0xc0000207);
    assert_string_equal(text_address_format((struct sockaddr *)&in, text), "192.0.2.7:4420");
    assert_true(text_address_host((struct sockaddr *)&in, text));
    assert_string_equal(text, "192.0.2.7");
    assert_int_equal(text_address_port((struct sockaddr *)&in), 4420);
}

static void an_ipv6_number_has_brackets_before_a_port(void **state)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
    char text[TEXT_ADDRESS_MAX];
    in6.sin6_addr = in6addr_loopback;
    assert_string_equal(text_address_format((struct sockaddr *)&in6, text), "[::1]:9");
    assert_true(text_address_host((struct sockaddr *)&in6, text));
    assert_string_equal(text, "::1");
    assert_int_equal(text_address_port((struct sockaddr *)&in6), 9);
}

static void the_longest_address_has_room(void **state)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = 0xffff};
    char text[TEXT_ADDRESS_MAX];
    memset(&in6.sin6_addr, 0xff, sizeof in6.sin6_addr);
    assert_string_equal(text_address_format((struct sockaddr *)&in6, text),
                        "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
}

static void other_families_are_unknown(void **state)
{
    struct sockaddr local = {.sa_family = AF_UNIX};
    char text[TEXT_ADDRESS_MAX];
    assert_string_equal(text_address_format(&local, text), "unknown");
    assert_string_equal(text_address_format(NULL, text), "unknown");
    assert_false(text_address_host(&local, text));
    assert_int_equal(text_address_port(&local), 0);
    assert_int_equal(text_address_port(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ipv4_address_is_number_and_port),
        cmocka_unit_test(an_ipv6_number_has_brackets_before_a_port),
        cmocka_unit_test(the_longest_address_has_room),
        cmocka_unit_test(other_families_are_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
