#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "net/neighbour.h"

static struct net_neighbours t;
static const struct eth_addr mac = {{2, 0, 0, 0, 0, 7}}, other = {{2, 0, 0, 0, 0, 8}};
static struct eth_addr got;
static bool is_to_ask;

static struct net_addr host(uint32_t n)
{
    const uint8_t octets[] = {10, 0, (uint8_t)(n >> 8), (uint8_t)n};
    return net_addr_from_ipv4(octets);
}

static enum net_neighbour_answer use(uint32_t n, instant_ns now)
{
    struct net_addr addr = host(n);
    return net_neighbour_use(&t, &addr, now, &got, &is_to_ask);
}

static bool learn(uint32_t n, const struct eth_addr *eth, enum net_neighbour_news news,
                  bool may_add, instant_ns now)
{
    struct net_addr addr = host(n);
    return net_neighbour_learn(&t, &addr, eth, news, may_add, now);
}

static int setup(void **state)
{
    net_neighbours_init(&t);
    return 0;
}

static void neighbour_is_asked_for_once_and_then_known(void **state)
{
    assert_int_equal(use(1, 0), NET_NEIGHBOUR_ASKED);
    assert_true(is_to_ask);
    assert_int_equal(use(1, 0), NET_NEIGHBOUR_ASKED);
    assert_false(is_to_ask);
    assert_true(learn(1, &mac, NET_NEIGHBOUR_ANSWERED, false, 1));
    assert_int_equal(use(1, 2), NET_NEIGHBOUR_KNOWN);
    assert_true(eth_addr_equal(&got, &mac));
    assert_false(is_to_ask);
}

static void silent_neighbour_is_asked_three_times_and_is_then_unreachable(void **state)
{
    const struct net_neighbour *n;
    use(1, 0);
    for (unsigned i = 1; i < NET_NEIGHBOUR_ASK_MAX; i++) {
        assert_int_equal(net_neighbours_next_deadline(&t), i * NS_PER_S);
        assert_true(net_neighbours_on_deadline(&t, i * NS_PER_S, &n));
        assert_int_equal(n->state, NET_NEIGHBOUR_INCOMPLETE);
        assert_false(net_neighbours_on_deadline(&t, i * NS_PER_S, &n));
    }
    assert_true(net_neighbours_on_deadline(&t, 3 * NS_PER_S, &n));
    assert_int_equal(n->state, NET_NEIGHBOUR_FAILED);
    assert_int_equal(use(1, 3 * NS_PER_S), NET_NEIGHBOUR_UNREACHABLE);
    assert_false(net_neighbours_on_deadline(&t, 4 * NS_PER_S, &n)); // forgotten
    assert_int_equal(use(1, 4 * NS_PER_S), NET_NEIGHBOUR_ASKED);
}

static void old_answer_is_used_while_it_is_asked_again(void **state)
{
    const struct net_neighbour *n;
    use(1, 0);
    learn(1, &mac, NET_NEIGHBOUR_ANSWERED, false, 0);
    assert_false(net_neighbours_on_deadline(&t, 30 * NS_PER_S, &n)); // is stale now
    assert_int_equal(use(1, 30 * NS_PER_S), NET_NEIGHBOUR_KNOWN);
    assert_true(is_to_ask);
    assert_true(net_neighbours_on_deadline(&t, 31 * NS_PER_S, &n));
    assert_int_equal(n->state, NET_NEIGHBOUR_PROBE);
    assert_int_equal(use(1, 31 * NS_PER_S), NET_NEIGHBOUR_KNOWN);
    learn(1, &mac, NET_NEIGHBOUR_ANSWERED, false, 31 * NS_PER_S);
    assert_int_equal(net_neighbours_next_deadline(&t) <= 61 * NS_PER_S, 1);
    use(1, 32 * NS_PER_S);
    assert_false(is_to_ask);
}

static void unasked_answers_add_nobody(void **state)
{
    assert_false(learn(1, &mac, NET_NEIGHBOUR_ANSWERED, false, 0));
    assert_int_equal(use(1, 0), NET_NEIGHBOUR_ASKED);
}

static void unasked_answer_does_not_prove_reachability(void **state)
{
    use(1, 0);
    learn(1, &mac, NET_NEIGHBOUR_ANSWERED, false, 0);
    learn(1, &other, NET_NEIGHBOUR_ANSWERED, false, 1); // nobody asks at this time
    assert_int_equal(use(1, 2), NET_NEIGHBOUR_KNOWN);
    assert_true(eth_addr_equal(&got, &other)); // who moves says so
    assert_true(is_to_ask);
}

static void hint_makes_one_ask_and_replaces_nothing(void **state)
{
    use(1, 0);
    learn(1, &mac, NET_NEIGHBOUR_ANSWERED, false, 0);
    assert_false(learn(1, &other, NET_NEIGHBOUR_HINTED, false, 1));
    assert_int_equal(use(1, 2), NET_NEIGHBOUR_KNOWN);
    assert_true(eth_addr_equal(&got, &mac));
    assert_true(is_to_ask);
}

static void who_asks_us_is_known_without_asking(void **state)
{
    assert_true(learn(1, &mac, NET_NEIGHBOUR_SAID, true, 0));
    assert_int_equal(use(1, 0), NET_NEIGHBOUR_KNOWN);
    assert_true(eth_addr_equal(&got, &mac));
}

static void full_table_gives_up_who_was_used_longest_ago(void **state)
{
    for (uint32_t n = 0; n < NET_NEIGHBOUR_MAX; n++) {
        learn(n, &mac, NET_NEIGHBOUR_SAID, true, n);
    }
    use(0, 1000);
    learn(5000, &other, NET_NEIGHBOUR_SAID, true, 1001);
    assert_int_equal(use(0, 1002), NET_NEIGHBOUR_KNOWN);
    assert_int_equal(use(2, 1002), NET_NEIGHBOUR_KNOWN);
    assert_int_equal(use(1, 1002), NET_NEIGHBOUR_ASKED);
}

int main(void)
{
#define ON(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        ON(neighbour_is_asked_for_once_and_then_known),
        ON(silent_neighbour_is_asked_three_times_and_is_then_unreachable),
        ON(old_answer_is_used_while_it_is_asked_again),
        ON(unasked_answers_add_nobody),
        ON(unasked_answer_does_not_prove_reachability),
        ON(hint_makes_one_ask_and_replaces_nothing),
        ON(who_asks_us_is_known_without_asking),
        ON(full_table_gives_up_who_was_used_longest_ago),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
