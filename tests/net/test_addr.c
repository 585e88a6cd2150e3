#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "net/addr.h"

static struct net_addr v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    const uint8_t octets[] = {a, b, c, d};
    return net_addr_from_ipv4(octets);
}

static void ipv4_addresses_go_through_both_families(void **state)
{
    static const int families[] = {AF_INET, AF_INET6};
    for (unsigned i = 0; i < 2; i++) {
        struct net_addr a = v4(10, 1, 2, 3), back;
        struct sockaddr_storage s;
        uint16_t port = 0;
        net_addr_to_sockaddr(&a, 7471, 0, families[i], &s);
        assert_int_equal(s.ss_family, families[i]);
        assert_true(net_addr_from_sockaddr((struct sockaddr *)&s, &back, &port, NULL));
        assert_true(net_addr_equal(&a, &back));
        assert_true(net_addr_is_ipv4(&back));
        assert_int_equal(port, 7471);
    }
}

static void addresses_of_both_families_are_read(void **state)
{
    struct net_addr a, of_ipv4 = v4(10, 1, 2, 3), of_ipv6 = {{0xfe, 0x80, [15] = 7}};
    assert_true(net_addr_parse("10.1.2.3", &a));
    assert_true(net_addr_equal(&a, &of_ipv4));
    assert_true(net_addr_parse("fe80::7", &a));
    assert_true(net_addr_equal(&a, &of_ipv6));
    static const char *const wrong[] = {"", "10.1.2", "10.1.2.3/8", "fe80::7%eth0", "host"};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(net_addr_parse(wrong[i], &a));
    }
}

static void ipv6_addresses_keep_address_port_and_scope(void **state)
{
    struct net_addr a = {{0xfe, 0x80, [15] = 7}}, back;
    struct sockaddr_storage s;
    uint16_t port = 0;
    uint32_t scope = 0;
    net_addr_to_sockaddr(&a, 7471, 4, AF_INET, &s); // which cannot hold it
    assert_int_equal(s.ss_family, AF_INET6);
    assert_true(net_addr_from_sockaddr((struct sockaddr *)&s, &back, &port, &scope));
    assert_true(net_addr_equal(&a, &back));
    assert_false(net_addr_is_ipv4(&back));
    assert_int_equal(port, 7471);
    assert_int_equal(scope, 4);
}

static void scope_is_kept_for_link_local_addresses_only(void **state)
{
    struct sockaddr_in6 s = {.sin6_family = AF_INET6, .sin6_scope_id = 4};
    struct net_addr a;
    uint16_t port;
    uint32_t scope;
    s.sin6_addr.s6_addr[0] = 0xfe;
    s.sin6_addr.s6_addr[1] = 0x80;
    assert_true(net_addr_from_sockaddr((struct sockaddr *)&s, &a, &port, &scope));
    assert_int_equal(scope, 4);
    s.sin6_addr.s6_addr[1] = 0xc0;
    assert_true(net_addr_from_sockaddr((struct sockaddr *)&s, &a, &port, &scope));
    assert_int_equal(scope, 0);
    s.sin6_family = AF_UNIX;
    assert_false(net_addr_from_sockaddr((struct sockaddr *)&s, &a, &port, &scope));
}

static void wildcards_and_groups_are_known(void **state)
{
    struct net_addr any6 = {{0}}, any4 = v4(0, 0, 0, 0), one = v4(10, 0, 0, 1);
    struct net_addr group6 = {{0xff, 2}}, group4 = v4(224, 0, 0, 1), all4 = v4(255, 255, 255, 255);
    assert_true(net_addr_is_any(&any6));
    assert_true(net_addr_is_any(&any4));
    assert_false(net_addr_is_any(&one));
    assert_true(net_addr_is_multicast(&group6));
    assert_true(net_addr_is_multicast(&group4));
    assert_true(net_addr_is_multicast(&all4));
    assert_false(net_addr_is_multicast(&one));
}

static void prefixes_are_compared_to_the_bit(void **state)
{
    struct net_addr a = v4(10, 1, 0x80, 1), b = v4(10, 1, 0xff, 2), c = {{10, 1}};
    assert_true(net_addr_has_prefix(&a, &b, 17));
    assert_false(net_addr_has_prefix(&a, &b, 18));
    assert_true(net_addr_has_prefix(&a, &a, 32));
    assert_true(net_addr_has_prefix(&a, &b, 0));
    assert_false(net_addr_has_prefix(&a, &c, 0)); // another family
    struct net_addr d = {{0x20, 1, [15] = 1}}, e = {{0x20, 1, [15] = 2}};
    assert_true(net_addr_has_prefix(&d, &e, 126));
    assert_false(net_addr_has_prefix(&d, &e, 127));
}

static void broadcast_is_of_networks_of_three_and_more(void **state)
{
    struct net_addr own = v4(10, 1, 0x40, 1), all17 = v4(10, 1, 0x7f, 255),
                    one = v4(10, 1, 0x7f, 254);
    struct net_addr other = v4(10, 1, 0xff, 255), pair = v4(10, 1, 0x40, 3), v6 = {{0xff}};
    assert_true(net_addr_is_broadcast(&all17, &own, 17));
    assert_false(net_addr_is_broadcast(&one, &own, 17));
    assert_false(net_addr_is_broadcast(&other, &own, 17));
    assert_true(net_addr_is_broadcast(&pair, &own, 30));
    assert_false(net_addr_is_broadcast(&pair, &pair, 31)); // RFC 3021
    assert_false(net_addr_is_broadcast(&pair, &pair, 32));
    assert_false(net_addr_is_broadcast(&v6, &v6, 8));
}

static void flow_turned_twice_and_through_a_tuple_is_itself(void **state)
{
    struct net_flow f = {.local = v4(10, 0, 0, 1),
                         .remote = v4(10, 0, 0, 2),
                         .local_port = 7471,
                         .remote_port = 40000};
    struct net_flow turned = net_flow_turned(&f), again = net_flow_turned(&turned);
    struct tcp_tuple tuple = net_flow_tuple(&f);
    struct net_flow from_tuple = net_flow_of_tuple(&tuple);
    char text[NET_FLOW_TEXT_LEN];
    assert_int_equal(turned.local_port, 40000);
    assert_memory_equal(&f, &again, sizeof f);
    assert_memory_equal(&f, &from_tuple, sizeof f);
    assert_string_equal(net_flow_format(&f, text), "10.0.0.1:7471 > 10.0.0.2:40000");
}

static void flow_of_ipv6_is_shown_in_brackets(void **state)
{
    struct net_flow f = {.local = {{0x20, 1, 0x0d, 0xb8, [15] = 1}},
                         .remote = {{0xfe, 0x80, [14] = 0x12, [15] = 0x34}},
                         .local_port = 7471,
                         .remote_port = 40000};
    char text[NET_FLOW_TEXT_LEN];
    assert_string_equal(net_flow_format(&f, text),
                        "[2001:db8:0:0:0:0:0:1]:7471 > [fe80:0:0:0:0:0:0:1234]:40000");
}

// RFC 9293 section 3.1: both addresses, the protocol and the length, and nothing else.
static void pseudo_header_is_summed_up(void **state)
{
    struct net_flow f = {.local = v4(10, 1, 2, 3), .remote = v4(192, 168, 4, 5), .local_port = 9};
    uint8_t header[40] = {10, 1, 2, 3, 192, 168, 4, 5, 0, 6, 0, 20};
    assert_int_equal(inet_sum_fold(net_flow_pseudo_sum(&f, 6, 20)),
                     inet_sum_fold(inet_sum_add(0, span_of(header, 12))));
    struct net_flow g = {.local = {{0x20, 1, [15] = 1}}, .remote = {{0x20, 2, [15] = 7}}};
    memcpy(header, g.local.octets, IPV6_ADDR_LEN);
    memcpy(header + 16, g.remote.octets, IPV6_ADDR_LEN);
    memcpy(header + 32, (const uint8_t[]){0, 1, 0, 20, 0, 0, 0, 6}, 8);
    assert_int_equal(inet_sum_fold(net_flow_pseudo_sum(&g, 6, 0x10014)),
                     inet_sum_fold(inet_sum_add(0, span_of(header, 40))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ipv4_addresses_go_through_both_families),
        cmocka_unit_test(addresses_of_both_families_are_read),
        cmocka_unit_test(ipv6_addresses_keep_address_port_and_scope),
        cmocka_unit_test(scope_is_kept_for_link_local_addresses_only),
        cmocka_unit_test(wildcards_and_groups_are_known),
        cmocka_unit_test(prefixes_are_compared_to_the_bit),
        cmocka_unit_test(broadcast_is_of_networks_of_three_and_more),
        cmocka_unit_test(flow_turned_twice_and_through_a_tuple_is_itself),
        cmocka_unit_test(flow_of_ipv6_is_shown_in_brackets),
        cmocka_unit_test(pseudo_header_is_summed_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
