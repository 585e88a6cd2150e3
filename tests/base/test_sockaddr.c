#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/sockaddr.h"

enum { PORT = 7471, INTERFACE = 3 };

static struct sockaddr_storage of(const char *text)
{
    struct sockaddr_storage addr = {0};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(PORT), .sin6_scope_id = INTERFACE};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
        memcpy(&addr, &in, sizeof in);
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
        memcpy(&addr, &in6, sizeof in6);
    }
    return addr;
}

static const struct sockaddr *as(const struct sockaddr_storage *addr)
{
    return (const struct sockaddr *)addr;
}

static void assert_octets(const char *text, const char *expected)
{
    const struct sockaddr_storage addr = of(text);
    const struct in6_addr octets = sockaddr_octets(as(&addr));
    char found[INET6_ADDRSTRLEN];
    assert_string_equal(inet_ntop(AF_INET6, &octets, found, sizeof found), expected);
}

static void octets_are_those_of_a_gid(void **state)
{
    assert_octets("192.0.2.7", "::ffff:192.0.2.7");
    assert_octets("0.0.0.0", "::ffff:0.0.0.0");
    assert_octets("2001:db8::7", "2001:db8::7");
}

static void octets_lead_back_to_the_address(void **state)
{
    static const char *const addresses[] = {"192.0.2.7", "0.0.0.0", "2001:db8::7", "::"};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        const struct sockaddr_storage addr = of(addresses[i]);
        const struct in6_addr octets = sockaddr_octets(as(&addr));
        const struct sockaddr_storage back = sockaddr_of_octets(&octets, htons(PORT));
        assert_true(sockaddr_is_same(as(&addr), as(&back)));
    }
}

static void an_address_of_no_known_family_has_neither_length_nor_octets_nor_port(void **state)
{
    const struct sockaddr_storage addr = {.ss_family = AF_UNIX};
    const struct in6_addr octets = sockaddr_octets(as(&addr));
    assert_int_equal(sockaddr_len(NULL), 0);
    assert_int_equal(sockaddr_len(as(&addr)), 0);
    assert_int_equal(sockaddr_port(as(&addr)), 0);
    assert_true(IN6_IS_ADDR_UNSPECIFIED(&octets));
}

static void a_port_is_set_in_either_family(void **state)
{
    static const char *const addresses[] = {"192.0.2.7", "2001:db8::7"};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        struct sockaddr_storage addr = of(addresses[i]);
        assert_int_equal(sockaddr_port(as(&addr)), htons(PORT));
        sockaddr_set_port((struct sockaddr *)&addr, htons(PORT + 1));
        assert_int_equal(sockaddr_port(as(&addr)), htons(PORT + 1));
    }
}

static void only_ipv6_has_a_scope(void **state)
{
    const struct sockaddr_storage v4 = of("192.0.2.7"), v6 = of("fe80::1");
    assert_int_equal(sockaddr_scope_id(as(&v4)), 0);
    assert_int_equal(sockaddr_scope_id(as(&v6)), INTERFACE);
}

static void wildcards_and_loopback_addresses_are_known(void **state)
{
    static const struct {
        const char *text;
        bool is_any, is_loopback;
    } known[] = {
        {"0.0.0.0", true, false},   {"::", true, false},
        {"127.0.0.1", false, true}, {"127.255.0.9", false, true},
        {"::1", false, true},       {"128.0.0.1", false, false},
        {"::2", false, false},      {"::ffff:127.0.0.1", false, true},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const struct sockaddr_storage addr = of(known[i].text);
        assert_int_equal(sockaddr_is_any(as(&addr)), known[i].is_any);
        assert_int_equal(sockaddr_is_loopback(as(&addr)), known[i].is_loopback);
    }
}

static void ends_are_the_same_by_family_address_and_port(void **state)
{
    const struct sockaddr_storage a = of("192.0.2.7"), b = of("192.0.2.8");
    const struct sockaddr_storage mapped = of("::ffff:192.0.2.7");
    struct sockaddr_storage at_another_port = a;
    sockaddr_set_port((struct sockaddr *)&at_another_port, htons(PORT + 1));
    assert_true(sockaddr_is_same(as(&a), as(&a)));
    assert_false(sockaddr_is_same(as(&a), as(&b)));
    assert_false(sockaddr_is_same(as(&a), as(&at_another_port)));
    assert_false(sockaddr_is_same(as(&a), as(&mapped)));
}

static void a_mapped_address_becomes_one_of_ipv4_and_back_and_others_stay(void **state)
{
    const struct sockaddr_storage mapped = of("::ffff:192.0.2.7"), v4 = of("192.0.2.7");
    const struct sockaddr_storage v6 = of("fe80::1");
    const struct sockaddr_storage unmapped = sockaddr_unmapped(as(&mapped));
    const struct sockaddr_storage same = sockaddr_unmapped(as(&v6));
    const struct sockaddr_storage again = sockaddr_mapped(as(&v4));
    assert_true(sockaddr_is_same(as(&unmapped), as(&v4)));
    assert_true(sockaddr_is_same(as(&again), as(&mapped)));
    assert_memory_equal(&same, &v6, sizeof v6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(octets_are_those_of_a_gid),
        cmocka_unit_test(octets_lead_back_to_the_address),
        cmocka_unit_test(an_address_of_no_known_family_has_neither_length_nor_octets_nor_port),
        cmocka_unit_test(a_port_is_set_in_either_family),
        cmocka_unit_test(only_ipv6_has_a_scope),
        cmocka_unit_test(wildcards_and_loopback_addresses_are_known),
        cmocka_unit_test(ends_are_the_same_by_family_address_and_port),
        cmocka_unit_test(a_mapped_address_becomes_one_of_ipv4_and_back_and_others_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
