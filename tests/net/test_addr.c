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
    (void)state;
    static const int families[] = {AF_INET, AF_INET6};
    for (unsigned i = 0; i < 2; i++) {
        struct net_addr a = v4(10, 1, 2, 3), back;
        struct sockaddr_storage s;
        uint16_t port;
        net_addr_to_sockaddr(&a, 7471, 0, families[i], &s);
        assert_int_equal(s.ss_family, families[i]);
        assert_true(net_addr_from_sockaddr((struct sockaddr *)&s, &back, &port, NULL));
        assert_true(net_addr_equal(&a, &back));
        assert_true(net_addr_is_ipv4(&back));
        assert_int_equal(port, 7471);
    }
}

static void scope_is_kept_for_link_local_addresses_only(void **state)
{
    (void)state;
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
    (void)state;
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
    (void)state;
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

static void flow_turned_twice_and_through_a_tuple_is_itself(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ipv4_addresses_go_through_both_families),
        cmocka_unit_test(scope_is_kept_for_link_local_addresses_only),
        cmocka_unit_test(wildcards_and_groups_are_known),
        cmocka_unit_test(prefixes_are_compared_to_the_bit),
        cmocka_unit_test(flow_turned_twice_and_through_a_tuple_is_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
