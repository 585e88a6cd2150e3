#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "net/path.h"

static struct net_paths t;

static struct net_addr host(unsigned n)
{
    const uint8_t octets[] = {10, 0, (uint8_t)(n >> 8), (uint8_t)n};
    return net_addr_from_ipv4(octets);
}

static uint16_t mss(unsigned n)
{
    struct net_addr addr = host(n);
    return net_paths_mss(&t, &addr);
}

static void note(unsigned n, uint16_t value, instant_ns now)
{
    struct net_addr addr = host(n);
    net_paths_note(&t, &addr, value, now);
}

static int setup(void **state)
{
    t = (struct net_paths){0};
    return 0;
}

static void path_is_known_by_its_address(void **state)
{
    note(1, 1000, 0);
    note(2, 900, 0);
    assert_int_equal(mss(1), 1000);
    assert_int_equal(mss(2), 900);
    assert_int_equal(mss(3), 0);
}

static void full_table_forgets_what_was_told_longest_ago(void **state)
{
    for (unsigned i = 0; i < NET_PATH_MAX; i++) {
        note(i, 1000, i);
    }
    note(0, 1000, NET_PATH_MAX); // told again, it is the newest
    note(NET_PATH_MAX, 1000, NET_PATH_MAX);
    assert_int_equal(t.count, NET_PATH_MAX);
    assert_int_equal(mss(0), 1000);
    assert_int_equal(mss(1), 0);
    assert_int_equal(mss(2), 1000);
    assert_int_equal(mss(NET_PATH_MAX), 1000);
}

static void each_is_forgotten_ten_minutes_after_it_was_told(void **state)
{
    note(1, 1000, 0);
    note(2, 1000, 5);
    note(1, 1000, 7);
    assert_int_equal(net_paths_next_deadline(&t), 5 + NET_PATH_AGE_NS);
    net_paths_on_deadline(&t, 4 + NET_PATH_AGE_NS);
    assert_int_equal(mss(2), 1000);
    net_paths_on_deadline(&t, 5 + NET_PATH_AGE_NS);
    assert_int_equal(mss(2), 0);
    assert_int_equal(mss(1), 1000);
    net_paths_on_deadline(&t, 7 + NET_PATH_AGE_NS);
    assert_int_equal(mss(1), 0);
    assert_int_equal(net_paths_next_deadline(&t), INSTANT_NEVER);
}

int main(void)
{
#define ON(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        ON(path_is_known_by_its_address),
        ON(full_table_forgets_what_was_told_longest_ago),
        ON(each_is_forgotten_ten_minutes_after_it_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
