// Streams through memory, both of whose ends are this process: who is ready, who sleeps and is
// woken, and for how long a peer that takes nothing is waited for.
#include "tests/link/local_hand.h"

/* ---- looking --------------------------------------------------------------------------------- */

// Who has looked in vain for so long may sleep.
static void look_until_it_may_wait(void)
{
    while (!link_may_wait(the_link)) {
        look(l.active);
        now_ns += LINGER_NS;
    }
}

static void tcp_is_asked_in_each_look_before_memory_is_used(void **state)
{
    loop_open(&l, the_link, AF_INET);
    is_held = true;
    poll_count = 0;
    for (unsigned i = 0; i < 20; i++) {
        look(l.active);
    }
    assert_int_equal(poll_count, 20);
    is_held = false;
}

static void tcp_is_asked_now_and_then_by_who_looks_all_the_time(void **state)
{
    go_over();
    hold_off_tcp();
    struct local_link *link = local_link_of(the_link);
    link->turn_count = 0;
    poll_count = 0;
    now_ns += TCP_GAP_NS - 1;
    for (unsigned i = 0; i < 80; i++) {
        look(l.active);
    }
    assert_int_equal(poll_count, 0); // too soon
    now_ns++;
    for (unsigned i = 0; i < 80; i++) {
        look(l.active);
    }
    assert_int_equal(poll_count, 1);
    for (unsigned i = 0; i < 80; i++) {
        now_ns += TCP_GAP_NS;
        look(l.active);
    }
    assert_int_equal(poll_count, 11); // in each eighth look
    is_held = false;
}

static void who_has_waited_asks_tcp_at_once(void **state)
{
    go_over();
    hold_off_tcp();
    poll_count = 0;
    link_wake(the_link);
    link_wait(the_link, 4711);
    assert_int_equal(waited_ns, 4711);
    look(l.active);
    look(l.active);
    look(l.active);
    assert_int_equal(poll_count, 1);
    is_held = false;
}

// The bell is taken by itself: TCP has nothing to do with it, and is asked behind a sleep that none
// has ended.
static void who_was_woken_by_a_bell_does_not_ask_tcp(void **state)
{
    go_over();
    for (unsigned i = 0; i < 3; i++) {
        now_ns += NS_PER_S;
        look_until_it_may_wait();
        const uint64_t bells = counters()->bells_received;
        assert_int_equal(send_len(l.active, 1), 1);
        link_wait(the_link, INSTANT_NEVER);
        hold_off_tcp();
        poll_count = 0;
        assert_int_equal(look(l.passive), LINK_READY_IN);
        assert_int_equal(poll_count, 0);
        assert_int_equal(counters()->bells_received, bells + 1);
        assert_int_equal(recv_len(l.passive, 1), 1);
    }
    now_ns += NS_PER_S;
    look_until_it_may_wait();
    link_wake(the_link);
    link_wait(the_link, INSTANT_NEVER);
    hold_off_tcp();
    assert_int_equal(look(l.passive), 0);
    assert_int_equal(poll_count, 1);
    is_held = false;
}

// Whoever waited asked TCP, and memory says whether anything has come by it. Who says so again and
// again asks TCP all the same, now and then.
static void who_was_woken_elsewhere_does_not_ask_tcp(void **state)
{
    go_over();
    for (unsigned i = 0; i < 3; i++) {
        now_ns += NS_PER_S;
        look_until_it_may_wait();
        link_rise(the_link);
        poll_count = 0;
        assert_int_equal(send_len(l.active, 1), 1);
        assert_int_equal(look(l.passive), LINK_READY_IN);
        assert_int_equal(recv_len(l.passive, 1), 1);
        assert_int_equal(poll_count, 0);
    }
    for (unsigned i = 0; i < 100; i++) {
        now_ns += NS_PER_S;
        look_until_it_may_wait();
        link_rise(the_link);
        assert_int_equal(look(l.passive), 0);
    }
    assert_in_range(poll_count, 1, 50);
    now_ns += NS_PER_S;
    look_until_it_may_wait();
    assert_int_equal(send_len(l.active, 1), 1); // rings: behind the look at the descriptor
    link_rise(the_link);
    assert_int_equal(look(l.passive), LINK_READY_IN);
    assert_int_equal(recv_len(l.passive, 1), 1);
    is_held = false;
}

// What ends the wait is TCP, and the peer says that it was he; or his bell is still under way.
static void a_bell_that_has_not_come_is_not_believed(void **state)
{
    go_over();
    now_ns += NS_PER_S;
    look_until_it_may_wait();
    assert_true(doorbell_mark(near_end()->channel->other_bell, near_end()->peer_number));
    link_wake(the_link);
    link_wait(the_link, INSTANT_NEVER);
    hold_off_tcp();
    poll_count = 0;
    look(l.passive);
    assert_int_equal(poll_count, 1);
    is_held = false;
}

// What TCP has reported of a stream in memory, and what recv and connect_result of TCP say then.
static void what_tcp_reports_is_what_the_stream_has(void **state)
{
    static const struct {
        bool is_switched; // its octets by TCP have come
        unsigned what;
        ssize_t recv;
        int result;
        unsigned wanted;
        bool is_over;
        int error;
    } rows[] = {
        {false, LINK_READY_IN | LINK_READY_OUT, 1, 1, LINK_READY_IN, false, 0},
        {false, LINK_READY_ERR, 1, -ETIMEDOUT, LINK_READY_IN | LINK_READY_ERR, true, -ETIMEDOUT},
        {true, LINK_READY_IN, -EAGAIN, 1, 0, false, 0},
        {true, LINK_READY_IN, 5, 1, 0, false, 0}, // that nobody has sent
        {true, LINK_READY_OUT, 0, -ETIMEDOUT, 0, false, 0},
        {true, LINK_READY_IN, 0, 1, LINK_READY_IN, true, 0},
        {true, LINK_READY_IN, -ECONNRESET, 1, LINK_READY_IN | LINK_READY_ERR, true, -ECONNRESET},
        {true, LINK_READY_ERR, -EAGAIN, -ETIMEDOUT, LINK_READY_IN | LINK_READY_ERR, true,
         -ETIMEDOUT},
        {true, LINK_READY_IN | LINK_READY_ERR, -EPIPE, -ETIMEDOUT, LINK_READY_IN | LINK_READY_ERR,
         true, -EPIPE},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        go_over();
        hold_off_tcp();
        while (look(l.active) != 0 || look(l.passive) != 0) {
        }
        far_end()->is_switched = rows[i].is_switched;
        link_wake(the_link);
        link_wait(the_link, 0); // so TCP is asked
        tcp_report = (struct link_ready){far_end()->forward.inner, rows[i].what};
        recv_said = rows[i].recv;
        result_said = rows[i].result;
        assert_int_equal(look(l.passive), rows[i].wanted);
        recv_said = result_said = 1;
        assert_int_equal(far_end()->is_tcp_over, rows[i].is_over);
        assert_int_equal(far_end()->tcp_error, rows[i].error);
        is_held = false;
        link_close(l.active, true);
        link_close(l.passive, true);
        link_close(l.listener, true);
    }
}

static void an_error_of_tcps_look_stands_behind_what_is_found(void **state)
{
    struct link_ready ready[8];
    go_over();
    for (unsigned i = 0; i < 2; i++) {
        link_wake(the_link);
        link_wait(the_link, 0);
        poll_error = -EBADF;
        assert_int_equal(the_link->ops->poll(the_link, ready, 8), i == 0 ? -EBADF : 1);
        poll_error = 0;
        assert_int_equal(send_len(l.active, 1), 1);
    }
    is_held = false;
}

// Awake, and marked as one that slept.
static void a_stream_is_reported_once_in_a_look(void **state)
{
    struct link_ready ready[8];
    go_over();
    now_ns += NS_PER_S;
    look_until_it_may_wait();
    assert_int_equal(send_len(l.active, 1), 1);
    link_wait(the_link, INSTANT_NEVER);
    link_want_in(l.passive, true);
    hold_off_tcp();
    assert_int_equal(the_link->ops->poll(the_link, ready, 8), 1);
    assert_ptr_equal(ready[0].stream, l.passive);
    assert_int_equal(far_end()->idle_count, 0);
    is_held = false;
}

static void a_wish_for_octets_is_told_to_tcp_where_they_come_by_it(void **state)
{
    loop_open(&l, the_link, AF_INET);
    link_want_in(l.passive, false);
    assert_int_equal(in_wanted, 0);
    link_want_in(l.passive, true);
    assert_int_equal(in_wanted, 1);
    link_close(l.active, true);
    link_close(l.passive, true);
    link_close(l.listener, true);
    go_over();
    in_wanted = -1;
    link_want_in(l.passive, false);
    assert_int_equal(in_wanted, -1);
    link_want_in(l.passive, true);
    assert_int_equal(in_wanted, 1);
    far_end()->is_switched = false; // some are under way
    link_want_in(l.passive, false);
    assert_int_equal(in_wanted, 0);
    is_held = false;
}

static unsigned awake_count(void)
{
    return local_link_of(the_link)->awake_count;
}

static void who_was_idle_for_long_falls_asleep(void **state)
{
    go_over();
    while (look(l.active) != 0 || look(l.passive) != 0) {
    }
    assert_int_equal(send_len(l.active, 1), 1);
    assert_int_equal(recv_len(l.passive, 1), 1);
    hold_off_tcp();
    near_end()->idle_count = far_end()->idle_count = 0;
    assert_int_equal(awake_count(), 2);
    for (unsigned i = 0; i < 10; i++) {
        look(l.active);
    }
    assert_int_equal(far_end()->idle_count, 10);
    link_want_in(l.passive, true); // who is asked for begins anew
    assert_int_equal(far_end()->idle_count, 0);
    near_end()->idle_count = 0;
    for (unsigned i = 0; i < 4096; i++) {
        look(l.active);
    }
    assert_int_equal(awake_count(), 2);
    look(l.active);
    assert_int_equal(awake_count(), 0);
    assert_int_equal(send_len(l.active, 1), 1); // which marks it
    assert_int_equal(look(l.passive), LINK_READY_IN);
    assert_int_equal(awake_count(), 1);
    assert_int_equal(recv_len(l.passive, 1), 1);
    is_held = false;
}

static void who_is_found_first_gives_way_to_the_other(void **state)
{
    struct link_ready ready[1];
    unsigned seen[2] = {0};
    go_over();
    hold_off_tcp();
    assert_int_equal(send_len(l.active, 10), 10);
    assert_int_equal(send_len(l.passive, 10), 10);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(the_link->ops->poll(the_link, ready, 1), 1);
        seen[0] += ready[0].stream == l.active;
        seen[1] += ready[0].stream == l.passive;
    }
    assert_int_equal(seen[0], 5);
    assert_int_equal(seen[1], 5);
    is_held = false;
}

static void no_more_than_some_are_looked_at_one_by_one(void **state)
{
    struct loop pairs[9];
    for (unsigned i = 0; i < 9; i++) {
        local_loop_open();
        pairs[i] = l;
    }
    for (unsigned i = 0; i < 9; i++) {
        assert_int_equal(send_len(pairs[i].active, 1), 1);
        assert_int_equal(recv_len(pairs[i].passive, 1), 1);
        assert_int_equal(send_len(pairs[i].passive, 1), 1);
        assert_int_equal(recv_len(pairs[i].active, 1), 1);
    }
    assert_int_equal(awake_count(), 16);
}

static void room_is_told_of_when_there_is_a_quarter(void **state)
{
    go_over();
    assert_int_equal(look(l.active), 0);
    link_want_out(l.active, true);
    assert_int_equal(look(l.active), LINK_READY_OUT);
    assert_int_equal(send_len(l.active, RING_LEN), RING_LEN);
    assert_int_equal(look(l.active), 0);
    assert_int_equal(recv_len(l.passive, RING_LEN / 4 - 1), RING_LEN / 4 - 1);
    assert_int_equal(look(l.active), 0);
    assert_int_equal(recv_len(l.passive, 1), 1);
    assert_int_equal(look(l.active), LINK_READY_OUT);
    link_want_out(l.active, false);
    assert_int_equal(look(l.active), 0);
    is_held = false;
}

static void what_is_not_wanted_is_not_told(void **state)
{
    go_over();
    assert_int_equal(send_len(l.active, 1), 1);
    link_want_in(l.passive, false);
    assert_int_equal(look(l.passive), 0);
    link_want_in(l.passive, true);
    assert_int_equal(look(l.passive), LINK_READY_IN);
    assert_int_equal(recv_len(l.passive, 1), 1);
    assert_int_equal(look(l.passive), 0);
    is_held = false;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void who_has_moved_octets_looks_on_for_a_moment(void **state)
{
    go_over();
    assert_int_equal(send_len(l.active, 1), 1);
    assert_int_equal(recv_len(l.passive, 1), 1);
    assert_false(link_may_wait(the_link));
    now_ns += LINGER_NS - 1;
    assert_false(link_may_wait(the_link));
    now_ns++;
    assert_true(link_may_wait(the_link));
    assert_int_equal(awake_count(), 0);
    assert_int_equal(local_link_of(the_link)->lingering.losses, 1);
    link_wait(the_link, 0);
    is_held = false;
}

static void looking_on_that_does_not_pay_is_left(void **state)
{
    go_over();
    for (unsigned i = 0; i < LINGERING_LOSSES_MAX + 2; i++) {
        assert_int_equal(send_len(l.active, 1), 1);
        assert_int_equal(look(l.passive), LINK_READY_IN);
        assert_int_equal(recv_len(l.passive, 1), 1);
        assert_int_equal(link_may_wait(the_link), i >= LINGERING_LOSSES_MAX);
        now_ns += LINGER_NS;
        assert_true(link_may_wait(the_link));
        link_wait(the_link, 0);
    }
    is_held = false;
}

static void looking_on_that_has_paid_is_gone_on_with(void **state)
{
    go_over();
    for (unsigned i = 0; i < 3 * LINGERING_LOSSES_MAX; i++) {
        assert_int_equal(send_len(l.active, 1), 1);
        assert_int_equal(recv_len(l.passive, 1), 1);
        assert_false(link_may_wait(the_link));
        now_ns += LINGER_NS / 2;
    }
    assert_int_equal(local_link_of(the_link)->lingering.losses, 0);
    is_held = false;
}

static void nobody_falls_asleep_over_octets(void **state)
{
    go_over();
    assert_int_equal(send_len(l.active, 1), 1);
    assert_false(link_may_wait(the_link));
    now_ns += LINGER_NS;
    assert_false(link_may_wait(the_link));
    assert_int_equal(look(l.passive), LINK_READY_IN);
    assert_int_equal(recv_len(l.passive, 1), 1);
    is_held = false;
}

static void who_waits_is_woken_by_one_bell(void **state)
{
    go_over();
    now_ns += NS_PER_S;
    look_until_it_may_wait();
    const uint64_t bells = counters()->bells_sent;
    assert_int_equal(send_len(l.active, 1), 1);
    assert_int_equal(send_len(l.active, 1), 1);
    assert_int_equal(counters()->bells_sent, bells + 1);
    link_wait(the_link, INSTANT_NEVER);
    assert_int_equal(look(l.passive), LINK_READY_IN);
    assert_int_equal(recv_len(l.passive, 10), 2);
    is_held = false;
}

static void who_waits_for_room_is_woken_when_there_is_a_quarter(void **state)
{
    go_over();
    assert_int_equal(send_len(l.active, RING_LEN), RING_LEN);
    link_want_in(l.passive, false); // else its octets keep the link awake
    link_want_out(l.active, true);
    now_ns += NS_PER_MS;
    look_until_it_may_wait();
    const uint64_t bells = counters()->bells_sent;
    assert_int_equal(recv_len(l.passive, RING_LEN / 4 - 1), RING_LEN / 4 - 1);
    assert_int_equal(counters()->bells_sent, bells);
    assert_int_equal(recv_len(l.passive, 1), 1);
    assert_int_equal(counters()->bells_sent, bells + 1);
    link_wait(the_link, INSTANT_NEVER);
    assert_int_equal(look(l.active), LINK_READY_OUT);
    is_held = false;
}

static void who_waits_is_woken_by_an_end(void **state)
{
    go_over();
    now_ns += NS_PER_S;
    look_until_it_may_wait();
    const uint64_t bells = counters()->bells_sent;
    assert_int_equal(link_shutdown(l.active), 0);
    assert_int_equal(counters()->bells_sent, bells + 1);
    link_wait(the_link, INSTANT_NEVER);
    assert_int_equal(look(l.passive), LINK_READY_IN);
    is_held = false;
}

// As for a process that has several threads: one waits, and another one wants to know of room.
static void a_wish_while_somebody_waits_wakes_him_if_it_is_fulfilled(void **state)
{
    go_over();
    now_ns += NS_PER_S;
    look_until_it_may_wait();
    wake_count = 0;
    link_want_in(l.active, true);
    assert_int_equal(awake_count(), 0); // still asleep, and rung for
    assert_int_equal(wake_count, 0);
    link_want_out(l.active, true);
    assert_int_equal(awake_count(), 1);
    assert_int_equal(wake_count, 1);
    link_wait(the_link, INSTANT_NEVER); // ends at once
    assert_int_equal(look(l.active), LINK_READY_OUT);
    is_held = false;
}

/* ---- patience -------------------------------------------------------------------------------- */

static void fill(struct link_stream *stream)
{
    while (send_len(stream, RING_LEN) > 0) {
    }
    link_want_out(stream, true);
}

static void a_peer_that_takes_nothing_is_given_up(void **state)
{
    go_over();
    assert_true(link_next_deadline(the_link) == INSTANT_NEVER);
    fill(l.active);
    const instant_ns until = now_ns + PEER_TIMEOUT_NS;
    assert_true(link_next_deadline(the_link) == until);
    now_ns = until - 1;
    link_want_out(l.active, true); // that is no news
    assert_true(link_next_deadline(the_link) == until);
    assert_int_equal(look(l.active), 0);
    now_ns = until;
    assert_int_equal(look(l.active), LINK_READY_IN | LINK_READY_ERR);
    assert_true(link_next_deadline(the_link) == INSTANT_NEVER);
    assert_int_equal(link_connect_result(l.active), -ETIMEDOUT);
    assert_int_equal(look(l.active), 0);
    is_held = false;
}

static void who_sleeps_is_told_of_a_peer_that_is_given_up(void **state)
{
    go_over();
    fill(l.active);
    link_want_in(l.passive, false);
    look_until_it_may_wait();
    assert_int_equal(awake_count(), 0);
    link_wait(the_link, 0);
    now_ns = link_next_deadline(the_link);
    assert_int_equal(look(l.active), LINK_READY_IN | LINK_READY_ERR);
    is_held = false;
}

static void a_peer_that_takes_something_has_more_time(void **state)
{
    go_over();
    fill(l.active);
    const instant_ns begun = now_ns;
    now_ns = begun + PEER_TIMEOUT_NS - 1;
    assert_int_equal(recv_len(l.passive, 1), 1);
    now_ns = begun + PEER_TIMEOUT_NS + 5;
    assert_int_equal(look(l.active), 0);
    assert_true(link_next_deadline(the_link) == now_ns + PEER_TIMEOUT_NS);
    now_ns += PEER_TIMEOUT_NS;
    assert_int_equal(look(l.active), LINK_READY_IN | LINK_READY_ERR);
    is_held = false;
}

static void the_first_that_waits_for_too_long_is_given_up_alone(void **state)
{
    go_over();
    fill(l.active);
    const instant_ns begun = now_ns;
    now_ns += NS_PER_MS;
    fill(l.passive);
    assert_true(link_next_deadline(the_link) == begun + PEER_TIMEOUT_NS);
    now_ns = begun + PEER_TIMEOUT_NS;
    assert_int_equal(look(l.passive), LINK_READY_IN);
    assert_int_equal(near_end()->tcp_error, -ETIMEDOUT);
    assert_int_equal(far_end()->tcp_error, 0);
    assert_true(link_next_deadline(the_link) == begun + NS_PER_MS + PEER_TIMEOUT_NS);
    is_held = false;
}

static void who_waits_for_no_room_is_not_given_up(void **state)
{
    go_over();
    fill(l.active);
    link_want_out(l.active, false);
    now_ns += 2 * PEER_TIMEOUT_NS;
    assert_int_equal(look(l.active), 0);
    assert_int_equal(near_end()->tcp_error, 0);
    assert_true(link_next_deadline(the_link) == INSTANT_NEVER);
    is_held = false;
}

int main(void)
{
#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        LINK_TEST(tcp_is_asked_in_each_look_before_memory_is_used),
        LINK_TEST(tcp_is_asked_now_and_then_by_who_looks_all_the_time),
        LINK_TEST(who_has_waited_asks_tcp_at_once),
        LINK_TEST(who_was_woken_by_a_bell_does_not_ask_tcp),
        LINK_TEST(who_was_woken_elsewhere_does_not_ask_tcp),
        LINK_TEST(a_bell_that_has_not_come_is_not_believed),
        LINK_TEST(what_tcp_reports_is_what_the_stream_has),
        LINK_TEST(an_error_of_tcps_look_stands_behind_what_is_found),
        LINK_TEST(a_stream_is_reported_once_in_a_look),
        LINK_TEST(a_wish_for_octets_is_told_to_tcp_where_they_come_by_it),
        LINK_TEST(who_was_idle_for_long_falls_asleep),
        LINK_TEST(no_more_than_some_are_looked_at_one_by_one),
        LINK_TEST(who_is_found_first_gives_way_to_the_other),
        LINK_TEST(room_is_told_of_when_there_is_a_quarter),
        LINK_TEST(what_is_not_wanted_is_not_told),
        LINK_TEST(who_has_moved_octets_looks_on_for_a_moment),
        LINK_TEST(looking_on_that_does_not_pay_is_left),
        LINK_TEST(looking_on_that_has_paid_is_gone_on_with),
        LINK_TEST(nobody_falls_asleep_over_octets),
        LINK_TEST(who_waits_is_woken_by_one_bell),
        LINK_TEST(who_waits_for_room_is_woken_when_there_is_a_quarter),
        LINK_TEST(who_waits_is_woken_by_an_end),
        LINK_TEST(a_wish_while_somebody_waits_wakes_him_if_it_is_fulfilled),
        LINK_TEST(a_peer_that_takes_nothing_is_given_up),
        LINK_TEST(who_sleeps_is_told_of_a_peer_that_is_given_up),
        LINK_TEST(a_peer_that_takes_something_has_more_time),
        LINK_TEST(the_first_that_waits_for_too_long_is_given_up_alone),
        LINK_TEST(who_waits_for_no_room_is_not_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
