// What each end of a meeting does, and when.
#include "tests/meet/ends.h"

static struct ends e;

static int setup(void **state)
{
    ends_init(&e);
    return 0;
}

static int teardown(void **state)
{
    ends_check(&e);
    return 0;
}

static enum meeting_role role_of(struct in6_addr own, uint32_t own_num, struct in6_addr peer,
                                 uint32_t peer_num)
{
    struct meeting m;
    const struct meeting_config config = ends_config(&e, own, own_num, peer, peer_num);
    meeting_init(&m, &config, e.now);
    return m.role;
}

/* ---- roles ----------------------------------------------------------------------------------- */

static void lower_address_is_the_first(void **state)
{
    assert_int_equal(role_of(ends_low, 9, ends_high, 1), MEETING_ROLE_FIRST);
    assert_int_equal(role_of(ends_high, 1, ends_low, 9), MEETING_ROLE_SECOND);
}

static void lower_number_of_one_host_is_the_first(void **state)
{
    assert_int_equal(role_of(ends_low, 1, ends_low, 9), MEETING_ROLE_FIRST);
    assert_int_equal(role_of(ends_low, 9, ends_low, 1), MEETING_ROLE_SECOND);
}

static void same_number_of_one_host_is_itself(void **state)
{
    assert_int_equal(role_of(ends_low, 5, ends_low, 5), MEETING_ROLE_ITSELF);
    assert_int_not_equal(role_of(ends_low, 5, ends_high, 5), MEETING_ROLE_ITSELF);
}

/* ---- tries ----------------------------------------------------------------------------------- */

static void each_end_is_told_once_what_to_do(void **state)
{
    assert_int_equal(meeting_next(&e.first, e.now), MEETING_DO_CONNECT);
    assert_int_equal(meeting_next(&e.first, e.now), MEETING_DO_NOTHING);
    assert_int_equal(meeting_next(&e.second, e.now), MEETING_DO_LISTEN);
    assert_int_equal(meeting_next(&e.second, e.now), MEETING_DO_NOTHING);
    assert_int_equal(e.counters.begun, 2);
}

static void nothing_wakes_who_waits_for_its_peer_without_work(void **state)
{
    meeting_next(&e.first, e.now);
    meeting_next(&e.second, e.now);
    assert_int_equal(meeting_next_deadline(&e.first), INSTANT_NEVER);
    assert_int_equal(meeting_next_deadline(&e.second), INSTANT_NEVER);
}

static void refused_connection_is_tried_again_after_the_pause(void **state)
{
    for (unsigned i = 1; i < 50; i++) {
        assert_int_equal(meeting_next(&e.first, e.now), MEETING_DO_CONNECT);
        meeting_on_failed(&e.first, e.now);
        assert_int_equal(e.counters.tries_failed, i);
        assert_int_equal(meeting_next_deadline(&e.first), e.now + MEETING_PAUSE_NS);
        assert_int_equal(meeting_next(&e.first, e.now + MEETING_PAUSE_NS - 1), MEETING_DO_NOTHING);
        e.now += MEETING_PAUSE_NS;
    }
}

static void what_cannot_be_done_now_is_tried_again_and_not_counted(void **state)
{
    struct meeting *const both[] = {&e.first, &e.second};
    for (unsigned i = 0; i < 2; i++) {
        enum meeting_action action = meeting_next(both[i], e.now);
        meeting_on_not_now(both[i], e.now);
        assert_int_equal(meeting_next(both[i], e.now), MEETING_DO_NOTHING);
        assert_int_equal(meeting_next(both[i], e.now + MEETING_PAUSE_NS), action);
    }
    assert_int_equal(e.counters.tries_failed, 0);
}

static void established_stream_ends_the_tries(void **state)
{
    meeting_next(&e.first, e.now);
    meeting_on_established(&e.first);
    meeting_on_failed(&e.first, e.now); // what becomes of the stream later is not its business
    assert_false(meeting_is_waiting(&e.first));
    assert_int_equal(e.counters.met, 1);
    assert_int_equal(e.counters.tries_failed, 0);
    assert_int_equal(meeting_next_deadline(&e.first), INSTANT_NEVER);
    assert_int_equal(meeting_next(&e.first, e.now + NS_PER_S), MEETING_DO_NOTHING);
}

static void broken_stream_is_not_tried_again(void **state)
{
    meeting_next(&e.first, e.now);
    meeting_on_broken(&e.first);
    assert_int_equal(e.first.state, MEETING_OVER);
    assert_int_equal(meeting_next(&e.first, e.now + NS_PER_S), MEETING_DO_NOTHING);
    assert_int_equal(e.counters.tries_failed, 1);
}

static void queue_pair_that_is_its_own_peer_is_led_back(void **state)
{
    const struct meeting_config config = ends_config(&e, ends_low, 5, ends_low, 5);
    meeting_init(&e.first, &config, e.now);
    assert_int_equal(meeting_next(&e.first, e.now), MEETING_DO_REFLECT);
    meeting_on_not_now(&e.first, e.now); // no memory
    assert_int_equal(meeting_next(&e.first, e.now + MEETING_PAUSE_NS), MEETING_DO_REFLECT);
    meeting_on_established(&e.first);
    assert_int_equal(e.counters.met, 1);
}

/* ---- patience -------------------------------------------------------------------------------- */

static void work_waits_as_long_as_patience_lasts(void **state)
{
    meeting_next(&e.second, e.now);
    meeting_on_work(&e.second, e.now);
    assert_int_equal(meeting_next_deadline(&e.second), e.now + ENDS_PATIENCE_NS);
    assert_int_equal(meeting_next(&e.second, e.now + ENDS_PATIENCE_NS - 1), MEETING_DO_NOTHING);
    assert_int_equal(meeting_next(&e.second, e.now + ENDS_PATIENCE_NS), MEETING_DO_GIVE_UP);
    assert_int_equal(meeting_next(&e.second, e.now + ENDS_PATIENCE_NS), MEETING_DO_NOTHING);
    assert_int_equal(e.counters.gave_up, 1);
}

static void more_work_does_not_prolong_it(void **state)
{
    meeting_on_work(&e.second, e.now);
    meeting_on_work(&e.second, e.now + NS_PER_S);
    assert_int_equal(meeting_next(&e.second, e.now + ENDS_PATIENCE_NS), MEETING_DO_GIVE_UP);
}

static void patience_lasts_over_all_tries(void **state)
{
    instant_ns end_ns = e.now + ENDS_PATIENCE_NS;
    meeting_on_work(&e.first, e.now);
    enum meeting_action action;
    while ((action = meeting_next(&e.first, e.now)) == MEETING_DO_CONNECT) {
        meeting_on_failed(&e.first, e.now);
        e.now = meeting_next_deadline(&e.first);
    }
    assert_int_equal(action, MEETING_DO_GIVE_UP);
    assert_int_equal(e.now, end_ns);
    assert_int_equal(e.counters.tries_failed, ENDS_PATIENCE_NS / MEETING_PAUSE_NS);
}

static void work_of_two_who_have_met_is_not_bounded(void **state)
{
    meeting_on_work(&e.first, e.now);
    meeting_next(&e.first, e.now);
    meeting_on_established(&e.first);
    assert_int_equal(meeting_next(&e.first, e.now + ENDS_PATIENCE_NS), MEETING_DO_NOTHING);
    assert_int_equal(e.counters.gave_up, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(lower_address_is_the_first),
        CASE(lower_number_of_one_host_is_the_first),
        CASE(same_number_of_one_host_is_itself),
        CASE(each_end_is_told_once_what_to_do),
        CASE(nothing_wakes_who_waits_for_its_peer_without_work),
        CASE(refused_connection_is_tried_again_after_the_pause),
        CASE(what_cannot_be_done_now_is_tried_again_and_not_counted),
        CASE(established_stream_ends_the_tries),
        CASE(broken_stream_is_not_tried_again),
        CASE(queue_pair_that_is_its_own_peer_is_led_back),
        CASE(work_waits_as_long_as_patience_lasts),
        CASE(more_work_does_not_prolong_it),
        CASE(patience_lasts_over_all_tries),
        CASE(work_of_two_who_have_met_is_not_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
