// When a host speaks of its groups, whatever the words of the wire are.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "net/groups.h"

static struct net_groups g;
static const instant_ns start_ns = 1000 * NS_PER_S;

static struct net_addr group(uint8_t last)
{
    const uint8_t octets[] = {239, 1, 2, last};
    return net_addr_from_ipv4(octets);
}

static int begin(void **state)
{
    net_groups_init(&g, 7);
    return 0;
}

static bool is_member(const struct net_addr *addr)
{
    for (unsigned i = 0; i < NET_GROUPS_MAX; i++) {
        if (g.at[i].is_used && net_addr_equal(&g.at[i].addr, addr)) {
            return g.at[i].is_member;
        }
    }
    return false;
}

static void join(uint8_t last, instant_ns now)
{
    const struct net_addr a = group(last);
    assert_true(net_groups_join(&g, &a, now));
}

static void leave(uint8_t last, instant_ns now)
{
    const struct net_addr a = group(last);
    net_groups_leave(&g, &a, now);
}

static void query(enum net_dialect dialect, struct net_addr about, duration_ns max_resp_ns,
                  instant_ns now)
{
    const struct net_groups_query q = {
        .dialect = dialect, .group = about, .max_resp_ns = max_resp_ns};
    net_groups_on_query(&g, &q, now);
}

static const struct net_addr all = {{0}};

static struct net_groups_say said;

// What is said next, and when; INSTANT_NEVER: nothing more.
static instant_ns next(void)
{
    const instant_ns due = net_groups_next_deadline(&g);
    if (due != INSTANT_NEVER) {
        assert_true(net_groups_on_deadline(&g, due, &said));
    }
    return due;
}

static void expect(enum net_group_word word, uint8_t last)
{
    const struct net_addr a = group(last);
    assert_int_equal(said.word, word);
    assert_true(net_addr_equal(&said.group, &a));
}

// Everything up to an instant: how often something was said.
static unsigned count_until(instant_ns end)
{
    unsigned count = 0;
    for (instant_ns at; (at = net_groups_next_deadline(&g)) <= end;) {
        count += net_groups_on_deadline(&g, at, &said);
    }
    return count;
}

static void joining_is_told_at_once_and_again_within_a_second(void **state)
{
    join(1, start_ns);
    assert_int_equal(next(), start_ns);
    expect(NET_GROUP_JOINED, 1);
    const instant_ns again = next();
    assert_true(again > start_ns && again <= start_ns + NS_PER_S);
    expect(NET_GROUP_JOINED, 1);
    assert_int_equal(next(), INSTANT_NEVER);
}

static void joining_twice_is_told_once(void **state)
{
    join(1, start_ns);
    assert_int_equal(count_until(start_ns + NS_PER_S), 2);
    join(1, start_ns + NS_PER_S);
    assert_int_equal(next(), INSTANT_NEVER);
}

static void leaving_is_told_likewise_and_then_forgotten(void **state)
{
    const struct net_addr a = group(1);
    join(1, start_ns);
    count_until(start_ns + NS_PER_S);
    leave(1, start_ns + 5 * NS_PER_S);
    assert_false(is_member(&a));
    assert_int_equal(next(), start_ns + 5 * NS_PER_S);
    expect(NET_GROUP_LEFT, 1);
    assert_true(next() <= start_ns + 6 * NS_PER_S);
    expect(NET_GROUP_LEFT, 1);
    query(NET_DIALECT_RECORDS, all, NS_PER_S, start_ns + 7 * NS_PER_S);
    assert_int_equal(count_until(start_ns + 9 * NS_PER_S), 0);
}

static void who_joins_again_is_not_said_to_have_left(void **state)
{
    join(1, start_ns);
    count_until(start_ns + NS_PER_S);
    leave(1, start_ns + 2 * NS_PER_S);
    assert_int_equal(next(), start_ns + 2 * NS_PER_S);
    join(1, start_ns + 2 * NS_PER_S);
    assert_int_equal(next(), start_ns + 2 * NS_PER_S);
    expect(NET_GROUP_JOINED, 1);
}

static void robustness_is_what_the_querier_says(void **state)
{
    const struct net_groups_query q = {
        .dialect = NET_DIALECT_RECORDS, .group = group(9), .robustness = 5};
    net_groups_on_query(&g, &q, start_ns);
    join(1, start_ns);
    assert_int_equal(count_until(start_ns + 10 * NS_PER_S), 5);
}

static void query_about_all_is_answered_at_once_for_all_in_random_time(void **state)
{
    instant_ns least = INSTANT_NEVER, most = 0, now = start_ns;
    join(1, now);
    join(2, now);
    count_until(now + NS_PER_S);
    for (unsigned i = 0; i < 100; i++) {
        now += 20 * NS_PER_S;
        query(NET_DIALECT_RECORDS, all, 10 * NS_PER_S, now);
        const instant_ns at = next() - now;
        expect(NET_GROUP_IN, 1);
        assert_int_equal(next() - now, at);
        expect(NET_GROUP_IN, 2);
        least = at < least ? at : least;
        most = at > most ? at : most;
    }
    assert_true(least < NS_PER_S);
    assert_true(most > 9 * NS_PER_S && most <= 10 * NS_PER_S);
}

static void query_about_a_group_is_answered_for_it_alone(void **state)
{
    join(1, start_ns);
    join(2, start_ns);
    count_until(start_ns + NS_PER_S);
    query(NET_DIALECT_RECORDS, group(2), NS_PER_S, start_ns + 2 * NS_PER_S);
    query(NET_DIALECT_RECORDS, group(3), NS_PER_S, start_ns + 2 * NS_PER_S);
    assert_true(next() <= start_ns + 3 * NS_PER_S);
    expect(NET_GROUP_IN, 2);
    assert_int_equal(next(), INSTANT_NEVER);
}

static void sooner_of_two_answers_is_the_answer(void **state)
{
    join(1, start_ns);
    count_until(start_ns + NS_PER_S);
    const instant_ns now = start_ns + 2 * NS_PER_S;
    query(NET_DIALECT_RECORDS, all, 3000 * NS_PER_S, now);
    query(NET_DIALECT_RECORDS, all, 100 * NS_PER_MS, now);
    query(NET_DIALECT_RECORDS, group(1), 2000 * NS_PER_S, now);
    assert_true(next() <= now + 100 * NS_PER_MS);
    expect(NET_GROUP_IN, 1);
    assert_int_equal(next(), INSTANT_NEVER);
}

static void querier_of_the_second_dialect_is_answered_in_it_group_by_group(void **state)
{
    join(1, start_ns);
    join(2, start_ns);
    count_until(start_ns + NS_PER_S);
    const instant_ns now = start_ns + 2 * NS_PER_S;
    query(NET_DIALECT_SECOND, all, 10 * NS_PER_S, now);
    const instant_ns one = next(), two = next();
    assert_int_equal(said.word, NET_GROUP_IN);
    assert_int_equal(said.dialect, NET_DIALECT_SECOND);
    assert_true(one > now && one < two && two <= now + 10 * NS_PER_S);
}

static void second_dialect_repeats_a_report_within_ten_seconds_and_leaves_once(void **state)
{
    query(NET_DIALECT_SECOND, all, 10 * NS_PER_S, start_ns);
    instant_ns latest = 0;
    for (uint8_t i = 0; i < 30; i++) {
        join(i, start_ns);
        assert_int_equal(next(), start_ns);
        const instant_ns again = next();
        latest = again > latest ? again : latest;
    }
    assert_true(latest > start_ns + NS_PER_S && latest <= start_ns + 10 * NS_PER_S);
    leave(1, start_ns + 20 * NS_PER_S);
    assert_int_equal(next(), start_ns + 20 * NS_PER_S);
    expect(NET_GROUP_LEFT, 1);
    assert_int_equal(next(), INSTANT_NEVER);
}

static void first_dialect_says_nothing_of_leaving(void **state)
{
    query(NET_DIALECT_FIRST, all, 10 * NS_PER_S, start_ns);
    join(1, start_ns);
    assert_int_equal(next(), start_ns);
    assert_int_equal(said.dialect, NET_DIALECT_FIRST);
    leave(1, start_ns);
    assert_int_equal(next(), INSTANT_NEVER);
}

// RFC 3376 section 8.12: 2 * 125 s + 10 s.
static void older_dialect_lasts_as_long_as_its_querier_is_expected(void **state)
{
    query(NET_DIALECT_SECOND, all, 10 * NS_PER_S, start_ns);
    join(1, start_ns + 260 * NS_PER_S - 1);
    next();
    assert_int_equal(said.dialect, NET_DIALECT_SECOND);
    join(2, start_ns + 260 * NS_PER_S);
    next();
    assert_int_equal(said.dialect, NET_DIALECT_RECORDS);
}

static void querier_of_the_newest_does_not_end_an_older_one(void **state)
{
    query(NET_DIALECT_SECOND, all, 10 * NS_PER_S, start_ns);
    query(NET_DIALECT_RECORDS, all, 10 * NS_PER_S, start_ns);
    join(1, start_ns);
    next();
    assert_int_equal(said.dialect, NET_DIALECT_SECOND);
}

static void query_of_the_second_about_one_group_changes_no_dialect(void **state)
{
    query(NET_DIALECT_SECOND, group(1), 10 * NS_PER_S, start_ns);
    join(1, start_ns);
    next();
    assert_int_equal(said.dialect, NET_DIALECT_RECORDS);
}

static void change_of_dialect_ends_what_is_pending(void **state)
{
    join(1, start_ns);
    assert_int_equal(next(), start_ns); // once more is pending
    query(NET_DIALECT_SECOND, group(2), NS_PER_S, start_ns);
    query(NET_DIALECT_SECOND, all, 10 * NS_PER_S, start_ns);
    assert_int_equal(count_until(start_ns + 10 * NS_PER_S), 1);
    expect(NET_GROUP_IN, 1);
}

// However long it says that it asks: an hour and no more.
static void stranger_keeps_nobody_in_an_older_dialect_for_days(void **state)
{
    const struct net_groups_query slow = {
        .dialect = NET_DIALECT_RECORDS, .robustness = 7, .interval_ns = 31744 * NS_PER_S};
    net_groups_on_query(&g, &slow, start_ns);
    query(NET_DIALECT_FIRST, all, 10 * NS_PER_S, start_ns);
    join(1, start_ns + 3600 * NS_PER_S);
    next();
    assert_int_equal(said.dialect, NET_DIALECT_RECORDS);
}

static void flood_of_queries_is_answered_ten_times_a_second(void **state)
{
    static const enum net_dialect dialects[] = {NET_DIALECT_RECORDS, NET_DIALECT_SECOND};
    for (unsigned d = 0; d < 2; d++) {
        instant_ns now = start_ns + d * 100 * NS_PER_S;
        unsigned count = 0;
        join(1, now);
        count_until(now += 20 * NS_PER_S);
        for (unsigned i = 0; i < 10000; i++, now += NS_PER_MS / 10) {
            query(dialects[d], i % 2 == 0 ? all : group(1), 0, now);
            count += count_until(now);
        }
        assert_in_range(count, 9, 11);
    }
}

static void some_groups_are_nobody_s_business(void **state)
{
    static const struct net_addr silent[] = {
        {{[10] = 0xff, 0xff, 224, 0, 0, 1}},       // all hosts
        {{[10] = 0xff, 0xff, 255, 255, 255, 255}}, // the broadcast
        {{0xff, 0x02, [15] = 1}},                  // all nodes
        {{0xff, 0x01, [15] = 9}},                  // within a host
        {{0xff, 0x00, [15] = 9}},                  // reserved
    };
    for (unsigned i = 0; i < sizeof silent / sizeof silent[0]; i++) {
        assert_true(net_groups_join(&g, &silent[i], start_ns));
        assert_true(is_member(&silent[i]));
        query(NET_DIALECT_RECORDS, all, NS_PER_S, start_ns);
        query(NET_DIALECT_RECORDS, silent[i], NS_PER_S, start_ns);
        assert_int_equal(count_until(start_ns + 10 * NS_PER_S), 0);
        net_groups_leave(&g, &silent[i], start_ns);
        assert_int_equal(next(), INSTANT_NEVER);
        assert_false(is_member(&silent[i]));
    }
    const struct net_addr of_the_site = {{0xff, 0x05, [15] = 1}};
    assert_true(net_groups_join(&g, &of_the_site, start_ns));
    assert_int_equal(next(), start_ns);
}

static void group_that_is_left_gives_its_place_to_one_that_is_joined(void **state)
{
    const struct net_addr more = group(NET_GROUPS_MAX);
    for (uint8_t i = 0; i < NET_GROUPS_MAX; i++) {
        join(i, start_ns);
    }
    assert_false(net_groups_join(&g, &more, start_ns));
    leave(3, start_ns); // and is to be told of
    assert_true(net_groups_join(&g, &more, start_ns));
    assert_false(net_groups_join(&g, &(struct net_addr){{0xff, 0x0e}}, start_ns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(joining_is_told_at_once_and_again_within_a_second, begin),
        cmocka_unit_test_setup(joining_twice_is_told_once, begin),
        cmocka_unit_test_setup(leaving_is_told_likewise_and_then_forgotten, begin),
        cmocka_unit_test_setup(who_joins_again_is_not_said_to_have_left, begin),
        cmocka_unit_test_setup(robustness_is_what_the_querier_says, begin),
        cmocka_unit_test_setup(query_about_all_is_answered_at_once_for_all_in_random_time, begin),
        cmocka_unit_test_setup(query_about_a_group_is_answered_for_it_alone, begin),
        cmocka_unit_test_setup(sooner_of_two_answers_is_the_answer, begin),
        cmocka_unit_test_setup(querier_of_the_second_dialect_is_answered_in_it_group_by_group,
                               begin),
        cmocka_unit_test_setup(second_dialect_repeats_a_report_within_ten_seconds_and_leaves_once,
                               begin),
        cmocka_unit_test_setup(first_dialect_says_nothing_of_leaving, begin),
        cmocka_unit_test_setup(older_dialect_lasts_as_long_as_its_querier_is_expected, begin),
        cmocka_unit_test_setup(querier_of_the_newest_does_not_end_an_older_one, begin),
        cmocka_unit_test_setup(query_of_the_second_about_one_group_changes_no_dialect, begin),
        cmocka_unit_test_setup(change_of_dialect_ends_what_is_pending, begin),
        cmocka_unit_test_setup(stranger_keeps_nobody_in_an_older_dialect_for_days, begin),
        cmocka_unit_test_setup(flood_of_queries_is_answered_ten_times_a_second, begin),
        cmocka_unit_test_setup(some_groups_are_nobody_s_business, begin),
        cmocka_unit_test_setup(group_that_is_left_gives_its_place_to_one_that_is_joined, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
