// What time alone brings about: probes of a shut window, keep-alive, giving up.
#include <errno.h>

#include "tests/tcp/script.h"

static struct script s;

static void shut_window(struct script *script)
{
    script->peer_window = 0;
}

static void shut_window_is_probed_with_growing_patience(void **state)
{
    script_open(&s, shut_window);
    user_send(&s, 1000, 0);
    expect_nothing(&s);
    for (unsigned i = 0; i < 12; i++) {
        const duration_ns patience = 200 * NS_PER_MS << i; // a minute is enough
        script_wait(&s, (patience < 60 * NS_PER_S ? patience : 60 * NS_PER_S) - 1);
        expect_nothing(&s);
        script_wait(&s, 1);
        struct script_segment *probe = next_segment(&s);
        assert_int_equal(probe->reason, TCP_REASON_WINDOW_PROBE);
        assert_int_equal(probe->header.seq - s.iss, 0); // an old number: it must be answered
        peer_ack(&s, 1);
    }
    s.peer_window = 5000;
    peer_ack(&s, 1);
    expect_data(&s, 1, 1000);
    script_close(&s);
}

static void shut_window_may_last_for_ever_while_the_peer_answers(void **state)
{
    script_open(&s, shut_window);
    user_send(&s, 1000, 0);
    for (unsigned i = 0; i < 30; i++) {
        script_wait(&s, 61 * NS_PER_S);
        peer_ack(&s, 1);
    }
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    s.out_read = s.out_count;
    script_close(&s);
}

static void shut_window_and_a_silent_peer_end_the_connection(void **state)
{
    script_open(&s, shut_window);
    user_send(&s, 1000, 0);
    script_wait(&s, s.config.user_timeout_ns);
    assert_int_equal(tcp_status(s.tcb), -ETIMEDOUT);
    s.out_read = s.out_count;
    script_close(&s);
}

static void bounded_shut_window(struct script *script)
{
    shut_window(script);
    script->config.user_timeout_ns = 10 * NS_PER_S;
    script->config.user_timeout_when_shut = true;
}

static void shut_window_can_be_bounded_though_the_peer_answers(void **state)
{
    script_open(&s, bounded_shut_window);
    user_send(&s, 1000, 0);
    for (unsigned i = 0; i < 99; i++) {
        script_wait(&s, 100 * NS_PER_MS);
        peer_ack(&s, 1);
    }
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    script_wait(&s, 100 * NS_PER_MS);
    assert_int_equal(tcp_status(s.tcb), -ETIMEDOUT);
    s.out_read = s.out_count;
    script_close(&s);
}

static void window_that_opens_begins_the_bound_anew(void **state)
{
    script_open(&s, bounded_shut_window);
    user_send(&s, 1000, 0);
    script_wait(&s, 9990 * NS_PER_MS);
    s.out_read = s.out_count;
    s.peer_window = 1000;
    peer_ack(&s, 1);
    expect_data(&s, 1, 1000);
    script_wait(&s, 20 * NS_PER_MS);
    s.peer_window = 0;
    peer_ack(&s, 1001); // all is well, and it is shut again
    user_send(&s, 1000, 0);
    script_wait(&s, 9 * NS_PER_S);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    script_wait(&s, NS_PER_S);
    assert_int_equal(tcp_status(s.tcb), -ETIMEDOUT);
    s.out_read = s.out_count;
    script_close(&s);
}

static void window_that_shrinks_below_what_is_outstanding_ends_nothing(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 5000, 0);
    s.peer_window = 0;
    peer_ack(&s, 1001); // it takes back what it had offered
    for (unsigned i = 0; i < 10; i++) {
        script_wait(&s, 60 * NS_PER_S);
        peer_ack(&s, 1001);
    }
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    s.peer_window = 60000;
    peer_ack(&s, 1001);
    script_wait(&s, 60 * NS_PER_S);
    peer_ack(&s, 5001);
    assert_int_equal(tcp_acked_position(s.tcb), 5000);
    s.out_read = s.out_count;
    script_close(&s);
}

static void window_too_small_for_a_segment(struct script *script)
{
    script->peer_window = 4000;
}

static void sliver_of_a_window_is_used_after_a_while(void **state)
{
    script_open(&s, window_too_small_for_a_segment);
    s.peer_window = 100;
    peer_data(&s, 1, 1); // the window closes nearly
    user_send(&s, 1000, 0);
    expect_nothing(&s);
    script_wait(&s, 200 * NS_PER_MS);
    expect_ack(&s, 2);
    expect_data(&s, 1, 100);
    script_close(&s);
}

static void what_stays_unacknowledged_ends_the_connection(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 1000, 0);
    script_wait(&s, s.config.user_timeout_ns - 1);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    s.out_read = s.out_count;
    script_wait(&s, 1);
    assert_true(s.events & TCP_EVENT_OVER);
    assert_int_equal(tcp_status(s.tcb), -ETIMEDOUT);
    expect_flags(&s, TCP_RST | TCP_ACK, 1001);
    script_close(&s);
}

static void soft_error_is_the_reason_given_in_the_end(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 1000, 0);
    tcp_on_unreachable(s.tcb, s.iss + 1, -ENETUNREACH);
    script_wait(&s, s.config.user_timeout_ns);
    assert_int_equal(tcp_status(s.tcb), -ENETUNREACH);
    s.out_read = s.out_count;
    script_close(&s);
}

static void progress_renews_the_user_timeout(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 2000, 0);
    script_wait(&s, s.config.user_timeout_ns / 2);
    peer_ack(&s, 1001);
    script_wait(&s, s.config.user_timeout_ns - 1);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    script_wait(&s, 1);
    assert_int_equal(tcp_status(s.tcb), -ETIMEDOUT);
    s.out_read = s.out_count;
    script_close(&s);
}

static void answers_that_acknowledge_nothing_new_are_no_progress(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 2000, 0);
    script_wait(&s, s.config.user_timeout_ns / 2);
    peer_ack(&s, 1);
    script_wait(&s, s.config.user_timeout_ns / 2 - 1);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    script_wait(&s, 1);
    assert_int_equal(tcp_status(s.tcb), -ETIMEDOUT);
    s.out_read = s.out_count;
    script_close(&s);
}

static void with_keepalive(struct script *script)
{
    script->config.keepalive_idle_ns = 100 * NS_PER_S;
    script->config.keepalive_interval_ns = 10 * NS_PER_S;
    script->config.keepalive_count = 3;
}

static void silence_is_probed_and_then_ends_the_connection(void **state)
{
    script_open(&s, with_keepalive);
    script_wait(&s, 100 * NS_PER_S - 1);
    expect_nothing(&s);
    script_wait(&s, 1);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(next_segment(&s)->reason, TCP_REASON_KEEPALIVE);
        assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
        script_wait(&s, 10 * NS_PER_S);
    }
    assert_int_equal(tcp_status(s.tcb), -ETIMEDOUT);
    s.out_read = s.out_count;
    script_close(&s);
}

static void peer_that_answers_is_left_alone(void **state)
{
    script_open(&s, with_keepalive);
    for (unsigned i = 0; i < 5; i++) {
        script_wait(&s, 100 * NS_PER_S);
        assert_int_equal(next_segment(&s)->reason, TCP_REASON_KEEPALIVE);
        peer_ack(&s, 1);
        expect_nothing(&s);
    }
    script_close(&s);
}

static void keepalive_is_off_by_default(void **state)
{
    script_open(&s, NULL);
    assert_int_equal(tcp_next_deadline(s.tcb), INSTANT_NEVER);
    script_close(&s);
}

static void peer_in_doubt_is_asked_at_once_and_believed(void **state)
{
    script_open(&s, NULL);
    tcp_doubt(s.tcb, s.now);
    script_run(&s);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_KEEPALIVE);
    tcp_doubt(s.tcb, s.now); // is asked already
    script_run(&s);
    expect_nothing(&s);
    peer_ack(&s, 1);
    script_wait(&s, 30 * NS_PER_S);
    expect_nothing(&s);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    script_close(&s);
}

// 200 ms for the first answer, then twice as long, then four times.
static void peer_in_doubt_that_stays_silent_is_given_up_after_three_questions(void **state)
{
    script_open(&s, NULL);
    tcp_doubt(s.tcb, s.now);
    script_run(&s);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(next_segment(&s)->reason, TCP_REASON_KEEPALIVE);
        script_wait(&s, (200 * NS_PER_MS << i) - 1);
        expect_nothing(&s);
        assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
        script_wait(&s, 1);
    }
    assert_int_equal(tcp_status(s.tcb), -ETIMEDOUT);
    expect_flags(&s, TCP_RST | TCP_ACK, 1);
    script_close(&s);
}

static void doubt_asks_as_often_whatever_keepalive_asked_before(void **state)
{
    script_open(&s, with_keepalive);
    script_wait(&s, 110 * NS_PER_S);
    assert_int_equal(s.tcb->counters.keepalives, 2);
    s.out_read = s.out_count;
    tcp_doubt(s.tcb, s.now);
    script_run(&s);
    script_wait(&s, 1400 * NS_PER_MS - 1); // 200, 400 and 800 ms
    assert_int_equal(s.tcb->counters.keepalives, 5);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    s.out_read = s.out_count;
    peer_ack(&s, 1);
    script_close(&s);
}

static void doubt_waits_as_long_as_before_anything_was_lost(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 1000, 0);
    script_wait(&s, 4 * NS_PER_S); // the time-out is more than 6 s by now
    tcp_doubt(s.tcb, s.now);
    script_run(&s);
    assert_int_equal(s.tcb->counters.keepalives, 1);
    script_wait(&s, 200 * NS_PER_MS);
    assert_int_equal(s.tcb->counters.keepalives, 2);
    s.out_read = s.out_count;
    script_close(&s);
}

static void only_who_could_answer_is_doubted(void **state)
{
    script_prepare(&s);
    script_begin(&s);
    tcp_connect(s.tcb, s.iss, s.now);
    script_run(&s);
    expect_flags(&s, TCP_SYN, 0);
    tcp_doubt(s.tcb, s.now); // there is nobody yet
    script_wait(&s, SCRIPT_RTT_NS);
    peer_segment(&s, TCP_SYN | TCP_ACK, 0, 1, 0, &s.peer);
    expect_ack(&s, 1);
    tcp_close(s.tcb, s.now);
    script_run(&s);
    expect_flags(&s, TCP_FIN | TCP_ACK, 1);
    peer_segment(&s, TCP_FIN | TCP_ACK, 1, 2, 0, NULL);
    expect_ack(&s, 2);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_TIME_WAIT);
    tcp_doubt(s.tcb, s.now); // it has said all
    script_wait(&s, 30 * NS_PER_S);
    expect_nothing(&s);
    script_close(&s);
}

static void keepalive_goes_on_behind_a_doubt(void **state)
{
    script_open(&s, with_keepalive);
    script_wait(&s, 10 * NS_PER_S);
    tcp_doubt(s.tcb, s.now);
    script_run(&s);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_KEEPALIVE);
    peer_ack(&s, 1);
    script_wait(&s, 100 * NS_PER_S - 1);
    expect_nothing(&s);
    script_wait(&s, 1);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_KEEPALIVE);
    script_close(&s);
}

static void whatever_is_heard_puts_keepalive_off(void **state)
{
    script_open(&s, with_keepalive);
    script_wait(&s, 60 * NS_PER_S);
    peer_ack(&s, 1);
    script_wait(&s, 100 * NS_PER_S - 1);
    expect_nothing(&s);
    script_wait(&s, 1);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_KEEPALIVE);
    peer_ack(&s, 1); // 160 s: two questions more are not answered
    script_wait(&s, 120 * NS_PER_S);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_KEEPALIVE);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_KEEPALIVE);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_KEEPALIVE);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    script_wait(&s, 10 * NS_PER_S);
    assert_int_equal(tcp_status(s.tcb), -ETIMEDOUT);
    s.out_read = s.out_count;
    script_close(&s);
}

static void what_is_outstanding_asks_by_itself(void **state)
{
    script_open(&s, with_keepalive);
    script_wait(&s, 50 * NS_PER_S);
    user_send(&s, 1000, 0);
    script_wait(&s, 110 * NS_PER_S);
    peer_ack(&s, 1001); // at 160 s
    assert_int_equal(s.tcb->counters.keepalives, 0);
    s.out_read = s.out_count;
    script_wait(&s, 100 * NS_PER_S - 1);
    expect_nothing(&s);
    script_wait(&s, 1);
    assert_int_equal(next_segment(&s)->reason, TCP_REASON_KEEPALIVE);
    script_close(&s);
}

static void delayed_ack_that_finds_no_room_waits_for_room_alone(void **state)
{
    script_open(&s, NULL);
    s.out_room = 0; // the link is busy
    peer_data(&s, 1, 1000);
    script_wait(&s, NS_PER_S);
    assert_int_equal(tcp_next_deadline(s.tcb), INSTANT_NEVER);
    s.out_room = UINT32_MAX;
    script_run(&s);
    expect_ack(&s, 1001);
    script_close(&s);
}

static void keepalive_probe_of_the_peer_is_answered(void **state)
{
    script_open(&s, NULL);
    assert_int_equal(peer_segment(&s, TCP_ACK, 0, 1, 0, NULL), TCP_REFUSED_NOT_ACCEPTABLE);
    expect_ack(&s, 1);
    script_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shut_window_is_probed_with_growing_patience),
        cmocka_unit_test(shut_window_may_last_for_ever_while_the_peer_answers),
        cmocka_unit_test(shut_window_and_a_silent_peer_end_the_connection),
        cmocka_unit_test(shut_window_can_be_bounded_though_the_peer_answers),
        cmocka_unit_test(window_that_opens_begins_the_bound_anew),
        cmocka_unit_test(window_that_shrinks_below_what_is_outstanding_ends_nothing),
        cmocka_unit_test(sliver_of_a_window_is_used_after_a_while),
        cmocka_unit_test(what_stays_unacknowledged_ends_the_connection),
        cmocka_unit_test(soft_error_is_the_reason_given_in_the_end),
        cmocka_unit_test(progress_renews_the_user_timeout),
        cmocka_unit_test(answers_that_acknowledge_nothing_new_are_no_progress),
        cmocka_unit_test(silence_is_probed_and_then_ends_the_connection),
        cmocka_unit_test(peer_that_answers_is_left_alone),
        cmocka_unit_test(keepalive_is_off_by_default),
        cmocka_unit_test(peer_in_doubt_is_asked_at_once_and_believed),
        cmocka_unit_test(peer_in_doubt_that_stays_silent_is_given_up_after_three_questions),
        cmocka_unit_test(doubt_asks_as_often_whatever_keepalive_asked_before),
        cmocka_unit_test(doubt_waits_as_long_as_before_anything_was_lost),
        cmocka_unit_test(only_who_could_answer_is_doubted),
        cmocka_unit_test(keepalive_goes_on_behind_a_doubt),
        cmocka_unit_test(whatever_is_heard_puts_keepalive_off),
        cmocka_unit_test(what_is_outstanding_asks_by_itself),
        cmocka_unit_test(delayed_ack_that_finds_no_room_waits_for_room_alone),
        cmocka_unit_test(keepalive_probe_of_the_peer_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
