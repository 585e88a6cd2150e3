// Rows of the system's lists of sockets.
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "text/socket_row.h"

static const char ipv4[] = "  12: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 "
                           "00000000  1000        0 4711 2 0000000000000000 0\n";
static const char ipv6[] = "   3: 00000000000000000000000001000000:12B7 "
                           "00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 "
                           "00000000     0        0 9 2 0000000000000000 0\n";

static struct in6_addr address(const char *text)
{
    struct in6_addr ret;
    assert_int_equal(inet_pton(AF_INET6, text, &ret), 1);
    return ret;
}

static void a_row_names_address_port_user_and_socket(void **state)
{
    struct text_socket_row row;
    const struct in6_addr loopback = address("::ffff:127.0.0.1");
    assert_true(text_socket_row_parse(ipv4, &row));
    assert_memory_equal(&row.addr, &loopback, sizeof loopback);
    assert_int_equal(row.port, 4791);
    assert_int_equal(row.uid, 1000);
    assert_int_equal(row.inode, 4711);
}

static void a_row_of_ipv6_has_the_address_as_it_is(void **state)
{
    struct text_socket_row row;
    const struct in6_addr loopback = address("::1");
    assert_true(text_socket_row_parse(ipv6, &row));
    assert_memory_equal(&row.addr, &loopback, sizeof loopback);
    assert_int_equal(row.inode, 9);
}

static void what_is_no_row_is_refused(void **state)
{
    struct text_socket_row row;
    char cut[sizeof ipv4];
    assert_false(text_socket_row_parse("  sl  local_address rem_address   st", &row));
    assert_false(text_socket_row_parse("  1: 0100007:12B7 x 07 x x x 0 0 1", &row));
    assert_false(text_socket_row_parse("", &row));
    snprintf(cut, sizeof cut, "%.*s", (int)(strstr(ipv4, "4711") - ipv4), ipv4);
    assert_false(text_socket_row_parse(cut, &row));
}

static void who_is_bound_to_any_address_has_all(void **state)
{
    const struct in6_addr mine = address("::ffff:192.0.2.1"), other = address("::ffff:192.0.2.2");
    struct text_socket_row row = {.addr = mine};
    assert_true(text_socket_row_is_at(&row, &mine));
    assert_false(text_socket_row_is_at(&row, &other));
    row.addr = address("::ffff:0.0.0.0");
    assert_true(text_socket_row_is_at(&row, &mine));
    row.addr = address("::");
    assert_true(text_socket_row_is_at(&row, &mine));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_names_address_port_user_and_socket),
        cmocka_unit_test(a_row_of_ipv6_has_the_address_as_it_is),
        cmocka_unit_test(what_is_no_row_is_refused),
        cmocka_unit_test(who_is_bound_to_any_address_has_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
