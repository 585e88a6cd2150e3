// Who is let in at a point.
#include "tests/meet/ends.h"

static struct ends e;
static struct meeting_asker asker;
static struct meeting_asked asked;

// The second queue pair listens, and the first one asks for it.
static int setup(void **state)
{
    ends_init(&e);
    meeting_next(&e.second, e.now);
    asker = ends_asker(&e);
    asked = (struct meeting_asked){.is_here = true, .of_it = &e.second};
    return 0;
}

static int teardown(void **state)
{
    ends_check(&e);
    return 0;
}

static void expect(enum meeting_answer answer)
{
    assert_int_equal(meeting_answer_to(&asker, &asked), answer);
}

static void right_one_is_accepted_once(void **state)
{
    expect(MEETING_ACCEPTED);
    expect(MEETING_REFUSED_ANSWERING);
    meeting_on_established(&e.second);
    expect(MEETING_REFUSED_NOT_EXPECTED);
    assert_int_equal(e.counters.met, 1);
}

static void right_one_is_accepted_again_when_its_connection_failed(void **state)
{
    expect(MEETING_ACCEPTED);
    meeting_on_failed(&e.second, e.now);
    assert_int_equal(meeting_next(&e.second, e.now), MEETING_DO_NOTHING); // it listens still
    expect(MEETING_ACCEPTED);
    assert_int_equal(e.counters.tries_failed, 1);
}

static void stranger_is_refused_by_its_number(void **state)
{
    asker.request.from_qp_num++;
    expect(MEETING_REFUSED_OTHER_PEER);
}

static void stranger_is_refused_by_its_address(void **state)
{
    asker.addr.s6_addr[15]++;
    expect(MEETING_REFUSED_OTHER_PEER);
}

static void number_that_nobody_has_is_refused(void **state)
{
    asked.is_here = false;
    expect(MEETING_REFUSED_NO_QUEUE_PAIR);
}

static void who_comes_before_the_queue_pair_is_told_is_kept(void **state)
{
    asked = (struct meeting_asked){.is_here = true, .may_be_told = true};
    expect(MEETING_KEPT);
    asked.may_be_told = false;
    expect(MEETING_REFUSED_NOT_EXPECTED);
}

static void who_connects_lets_nobody_in(void **state)
{
    meeting_next(&e.first, e.now);
    asker.addr = e.first.config.peer_addr;
    asker.request.from_qp_num = e.first.config.peer_qp_num;
    asked.of_it = &e.first;
    expect(MEETING_REFUSED_NOT_EXPECTED);
    assert_int_equal(e.first.state, MEETING_CONNECTING);
}

static void who_has_given_up_lets_nobody_in(void **state)
{
    meeting_on_work(&e.second, e.now);
    meeting_next(&e.second, e.now + ENDS_PATIENCE_NS);
    expect(MEETING_REFUSED_NOT_EXPECTED);
}

static void each_answer_has_its_counter(void **state)
{
    for (int i = MEETING_ACCEPTED; i < MEETING_ANSWER_COUNT; i++) {
        for (int k = 0; k <= i; k++) {
            meeting_count_answer(&e.counters, i);
        }
    }
    assert_int_equal(e.counters.kept, MEETING_KEPT + 1);
    assert_int_equal(e.counters.refused_malformed, MEETING_REFUSED_MALFORMED + 1);
    assert_int_equal(e.counters.refused_no_queue_pair, MEETING_REFUSED_NO_QUEUE_PAIR + 1);
    assert_int_equal(e.counters.refused_not_expected, MEETING_REFUSED_NOT_EXPECTED + 1);
    assert_int_equal(e.counters.refused_other_peer, MEETING_REFUSED_OTHER_PEER + 1);
    assert_int_equal(e.counters.refused_answering, MEETING_REFUSED_ANSWERING + 1);
    assert_int_equal(e.counters.met, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(right_one_is_accepted_once),
        CASE(right_one_is_accepted_again_when_its_connection_failed),
        CASE(stranger_is_refused_by_its_number),
        CASE(stranger_is_refused_by_its_address),
        CASE(number_that_nobody_has_is_refused),
        CASE(who_comes_before_the_queue_pair_is_told_is_kept),
        CASE(who_connects_lets_nobody_in),
        CASE(who_has_given_up_lets_nobody_in),
        CASE(each_answer_has_its_counter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
