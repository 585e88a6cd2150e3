// Which segments count as lost, and when to ask: RACK and TLP (RFC 8985) by their own figures.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tcp/loss.h"

enum { LEN = 1000, RECORDS = 16 };

#define RTT_NS (100 * NS_PER_MS)

static struct tcp_loss loss;
static struct tcp_scoreboard sb;
static struct tcp_rtt rtt;
static _Alignas(CARVE_ALIGN) uint8_t memory[1 << 13];

static void begin(void)
{
    struct carve carve = {.block = memory};
    tcp_scoreboard_init(&sb, RECORDS, &carve);
    tcp_loss_init(&loss, 0);
    tcp_rtt_init(&rtt, 200 * NS_PER_MS, NS_PER_MS);
    tcp_rtt_on_sample(&rtt, RTT_NS);
    tcp_rtt_on_least(&rtt, RTT_NS, 1);
}

static void send_at(instant_ns now)
{
    tcp_seq seq = sb.count > 0 ? tcp_scoreboard_last(&sb)->end : 0;
    tcp_scoreboard_on_sent(&sb, seq, seq + LEN, 0, now, (uint32_t)(now / NS_PER_MS));
}

// [left, right) segments have arrived, says an ACK of this time.
static struct tcp_ack_facts sack_at(unsigned left, unsigned right, instant_ns now)
{
    struct tcp_ack_facts facts = {
        .rack = &loss.rack, .now = now, .probe_number = loss.probe_number};
    struct tcp_delivery_port port = {tcp_rack_on_delivered, &facts};
    tcp_scoreboard_sack(&sb, left * LEN, right * LEN, &port);
    return facts;
}

static enum tcp_sent_condition condition_of(unsigned index)
{
    return tcp_scoreboard_at(&sb, index)->condition;
}

/* ---- the reordering window ------------------------------------------------------------------- */

static void dsack_widens_the_window_once_in_a_round(void **state)
{
    begin();
    assert_int_equal(loss.rack.reo_wnd_mult, 1);
    tcp_rack_adapt(&loss.rack, true, false, 1000, 5000);
    tcp_rack_adapt(&loss.rack, true, false, 4999, 9000); // of the same round
    assert_int_equal(loss.rack.reo_wnd_mult, 2);
    tcp_rack_adapt(&loss.rack, true, false, 5000, 9000);
    assert_int_equal(loss.rack.reo_wnd_mult, 3);
}

// RFC 8985 section 6.2, step 4: for 16 recoveries without a DSACK.
static void widened_window_is_given_up_after_sixteen_recoveries(void **state)
{
    begin();
    tcp_rack_adapt(&loss.rack, true, false, 0, 1000);
    for (unsigned i = 0; i < 15; i++) {
        tcp_rack_adapt(&loss.rack, false, true, 2000 + i, 3000 + i);
    }
    tcp_rack_adapt(&loss.rack, true, false, 5000, 6000); // another: they count anew
    for (unsigned i = 0; i < 15; i++) {
        tcp_rack_adapt(&loss.rack, false, true, 7000 + i, 8000 + i);
    }
    tcp_rack_adapt(&loss.rack, false, false, 9000, 9000); // an ACK that ends none
    assert_int_equal(loss.rack.reo_wnd_mult, 3);
    tcp_rack_adapt(&loss.rack, false, true, 9000, 9000);
    assert_int_equal(loss.rack.reo_wnd_mult, 1);
    for (unsigned i = 0; i < 100; i++) {
        tcp_rack_adapt(&loss.rack, false, true, 9000, 9000);
    }
    assert_int_equal(loss.rack.reo_wnd_mult, 1);
}

// A quarter of the least round trip, times what DSACKs have made of it, and no more than a round.
static void window_is_a_quarter_of_the_round_trip_per_widening(void **state)
{
    static const unsigned quarters[] = {1, 2, 3, 4, 4};
    for (unsigned i = 0; i < sizeof quarters / sizeof quarters[0]; i++) {
        begin();
        loss.rack.reo_wnd_mult = i + 1;
        send_at(0);
        send_at(0);
        send_at(0);
        sack_at(1, 2, RTT_NS);
        duration_ns window = RTT_NS / 4 * quarters[i];
        assert_int_equal(tcp_loss_detect(&loss, &sb, false, &rtt, RTT_NS), window);
        assert_int_equal(tcp_loss_detect(&loss, &sb, false, &rtt, RTT_NS + window - 1), 1);
        assert_int_equal(condition_of(0), TCP_SENT_IN_NETWORK);
        assert_int_equal(tcp_loss_detect(&loss, &sb, false, &rtt, RTT_NS + window), 0);
        assert_int_equal(condition_of(0), TCP_SENT_LOST);
        assert_int_equal(condition_of(2), TCP_SENT_IN_NETWORK); // sent behind what arrived
    }
}

// Without a sign of reordering three segments behind a hole, or a recovery, are enough.
static void without_reordering_nothing_is_waited_for(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        bool is_in_recovery = i == 1 || i == 3, has_reordering = i >= 2;
        begin();
        for (unsigned k = 0; k < 5; k++) {
            send_at(0);
        }
        loss.rack.reordering_seen = has_reordering;
        sack_at(1, is_in_recovery ? 2 : 4, RTT_NS);
        tcp_loss_detect(&loss, &sb, is_in_recovery, &rtt, RTT_NS);
        assert_int_equal(condition_of(0), has_reordering ? TCP_SENT_IN_NETWORK : TCP_SENT_LOST);
    }
}

// RFC 8985 section 6.3: what was sent less than a round trip ago, and the window where reordering
// was seen, may be on its way.
static void timeout_gives_up_the_first_and_what_is_older_than_a_round(void **state)
{
    for (unsigned has_reordering = 0; has_reordering < 2; has_reordering++) {
        duration_ns window = has_reordering ? RTT_NS / 4 : 0;
        begin();
        loss.rack.rtt_ns = RTT_NS;
        loss.rack.reordering_seen = has_reordering;
        send_at(500 * NS_PER_MS); // the first
        send_at(500 * NS_PER_MS);
        send_at(500 * NS_PER_MS + 1);
        tcp_loss_on_timeout(&loss, &sb, &rtt, 500 * NS_PER_MS + RTT_NS + window);
        assert_int_equal(condition_of(0), TCP_SENT_LOST);
        assert_int_equal(condition_of(1), TCP_SENT_LOST);
        assert_int_equal(condition_of(2), TCP_SENT_IN_NETWORK);
    }
    begin();
    loss.rack.rtt_ns = RTT_NS;
    send_at(500 * NS_PER_MS);
    send_at(500 * NS_PER_MS);
    tcp_loss_on_timeout(&loss, &sb, &rtt, 500 * NS_PER_MS + 1);
    assert_int_equal(condition_of(0), TCP_SENT_LOST); // in any case
    assert_int_equal(condition_of(1), TCP_SENT_IN_NETWORK);
}

/* ---- what an ACK shows ----------------------------------------------------------------------- */

static void round_trips_are_of_what_was_sent_once(void **state)
{
    begin();
    send_at(10);
    send_at(30);
    send_at(20);
    struct tcp_ack_facts facts = sack_at(0, 3, 100);
    assert_true(facts.has_rtt);
    assert_int_equal(facts.longest_rtt_ns, 90);
    assert_int_equal(facts.shortest_rtt_ns, 70);
    assert_false(facts.has_resent || facts.has_waited || facts.has_reordering);

    begin();
    send_at(10);
    tcp_scoreboard_mark_lost(&sb, tcp_scoreboard_at(&sb, 0));
    tcp_scoreboard_on_resent(&sb, tcp_scoreboard_at(&sb, 0), 50, 50);
    facts = sack_at(0, 1, 100);
    assert_false(facts.has_rtt);
    assert_true(facts.has_resent);
}

static void what_a_probe_may_have_called_for_is_no_round_trip(void **state)
{
    begin();
    send_at(10);
    send_at(20);
    tcp_loss_on_probe_sent(&loss, 2 * LEN, tcp_scoreboard_at(&sb, 1)->number, false);
    struct tcp_ack_facts facts = sack_at(0, 1, 100);
    assert_true(facts.has_waited);
    assert_false(facts.has_rtt);
    facts = sack_at(1, 2, 100); // the probe itself
    assert_false(facts.has_waited);
    assert_int_equal(facts.longest_rtt_ns, 80);
}

static void segment_below_the_highest_that_arrived_shows_reordering(void **state)
{
    begin();
    send_at(10);
    send_at(10);
    assert_false(sack_at(1, 2, 100).has_reordering);
    assert_false(loss.rack.reordering_seen);
    assert_true(sack_at(0, 1, 110).has_reordering);
    assert_true(loss.rack.reordering_seen);

    begin(); // unless it was sent again, as it must have been
    send_at(10);
    send_at(10);
    tcp_scoreboard_mark_lost(&sb, tcp_scoreboard_at(&sb, 0));
    tcp_scoreboard_on_resent(&sb, tcp_scoreboard_at(&sb, 0), 50, 50);
    sack_at(1, 2, 100);
    assert_false(sack_at(0, 1, 200).has_reordering);
    assert_false(loss.rack.reordering_seen);
}

/* ---- the probe at the tail ------------------------------------------------------------------- */

static void probe_waits_two_round_trips_and_for_a_delayed_ack(void **state)
{
    begin();
    assert_int_equal(tcp_loss_probe_delay(&rtt, false), 2 * RTT_NS);
    assert_int_equal(tcp_loss_probe_delay(&rtt, true), 2 * RTT_NS + TCP_MAX_ACK_DELAY_NS);
    tcp_rtt_init(&rtt, 0, 0); // no sample
    assert_int_equal(tcp_loss_probe_delay(&rtt, true), NS_PER_S);
}

struct probe_case {
    const char *what;
    bool is_retrans;
    tcp_seq una;
    bool has_dsack, is_dup_ack;
    bool is_loss, is_outstanding; // behind it
};

// RFC 8985 section 7.4.2: does this ACK show that the probe repaired a loss?
static void ack_of_a_probe_tells_whether_it_repaired_a_loss(void **state)
{
    static const struct probe_case cases[] = {
        {"before its end", true, 999, true, true, false, true},
        {"new octets, acknowledged", false, 1000, false, false, false, false},
        {"old octets, and the peer has had them", true, 1000, true, false, false, false},
        {"old octets, and more is acknowledged", true, 1001, false, false, true, false},
        {"more, but it was a duplicate", true, 1001, true, false, false, false},
        {"just its end: not known yet", true, 1000, false, false, false, true},
        {"a duplicate ACK behind it", true, 1000, false, true, false, false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct probe_case *c = &cases[i];
        begin();
        assert_true(tcp_loss_may_probe(&loss));
        tcp_loss_on_probe_sent(&loss, 1000, 1, c->is_retrans);
        assert_false(tcp_loss_may_probe(&loss));
        bool is_loss = tcp_loss_on_probe_ack(&loss, c->una, c->has_dsack, c->is_dup_ack);
        if (is_loss != c->is_loss || loss.tlp.is_outstanding != c->is_outstanding) {
            fail_msg("%s", c->what);
        }
        assert_false(tcp_loss_on_probe_ack(&loss, 2000, true, false)); // told once
        assert_false(tcp_loss_may_probe(&loss));                       // not before a sample
    }
}

// The next sample allows another, whatever becomes of the octets of the one before.
static void probe_that_is_forgotten_stands_in_the_way_of_no_other(void **state)
{
    for (unsigned is_retrans = 0; is_retrans < 2; is_retrans++) {
        begin();
        tcp_loss_on_probe_sent(&loss, 1000, 1, is_retrans);
        tcp_loss_forget_probe(&loss);
        loss.tlp.has_new_rtt = true; // as an ACK with a sample does
        assert_true(tcp_loss_may_probe(&loss));
        assert_false(tcp_loss_on_probe_ack(&loss, 1001, false, false));
    }
}

static void third_duplicate_is_a_loss_and_only_that_one(void **state)
{
    begin();
    assert_false(tcp_loss_on_dup_ack(&loss));
    assert_false(tcp_loss_on_dup_ack(&loss));
    assert_true(tcp_loss_on_dup_ack(&loss));
    assert_false(tcp_loss_on_dup_ack(&loss));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dsack_widens_the_window_once_in_a_round),
        cmocka_unit_test(widened_window_is_given_up_after_sixteen_recoveries),
        cmocka_unit_test(window_is_a_quarter_of_the_round_trip_per_widening),
        cmocka_unit_test(without_reordering_nothing_is_waited_for),
        cmocka_unit_test(timeout_gives_up_the_first_and_what_is_older_than_a_round),
        cmocka_unit_test(round_trips_are_of_what_was_sent_once),
        cmocka_unit_test(what_a_probe_may_have_called_for_is_no_round_trip),
        cmocka_unit_test(segment_below_the_highest_that_arrived_shows_reordering),
        cmocka_unit_test(probe_waits_two_round_trips_and_for_a_delayed_ack),
        cmocka_unit_test(ack_of_a_probe_tells_whether_it_repaired_a_loss),
        cmocka_unit_test(probe_that_is_forgotten_stands_in_the_way_of_no_other),
        cmocka_unit_test(third_duplicate_is_a_loss_and_only_that_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
