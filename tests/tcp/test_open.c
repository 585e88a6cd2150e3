// Opening: what the SYNs say, what comes of it, and how it can fail.
#include <errno.h>

#include "tcp/listen.h"
#include "tests/tcp/script.h"

static struct script s;

static void begin_connect(void (*change)(struct script *s))
{
    script_prepare(&s);
    if (change != NULL) {
        change(&s);
    }
    script_begin(&s);
    tcp_connect(s.tcb, s.iss, s.now);
    script_run(&s);
}

static void wish_all(struct script *script)
{
    script->config.wishes = TCP_WISH_ALL;
    script->config.window_len = script->config.buffer_len = 1 << 20;
}

static void syn_offers_what_is_wished(void **state)
{
    begin_connect(wish_all);
    const struct tcp_options *o = &s.out[0].header.options;
    assert_int_equal(o->mss, SCRIPT_MSS);
    assert_true(o->sack_permitted);
    assert_true(o->has_timestamps);
    assert_true(o->has_scale);
    assert_int_equal(o->scale, 5); // 1 MiB in 16 bits
    expect_flags(&s, TCP_SYN, 0);
    script_close(&s);
}

// RFC 5681 section 3.1: of one segment after a SYN,ACK that had to be sent again.
static void who_had_to_answer_twice_begins_with_one_segment(void **state)
{
    for (unsigned is_again = 0; is_again < 2; is_again++) {
        script_prepare(&s);
        script_begin(&s);
        const struct tcp_handshake handshake = {.remote_port = 2222,
                                                .iss = s.iss,
                                                .irs = s.irs,
                                                .peer = s.peer,
                                                .snd_wnd = UINT16_MAX,
                                                .rtt_ns = is_again ? 0 : SCRIPT_RTT_NS};
        tcp_accept(s.tcb, &handshake, s.now);
        assert_int_equal(s.tcb->cc.cwnd, (is_again ? 1 : 10) * tcp_emss(s.tcb));
        assert_int_equal(s.tcb->config.remote_port, 2222);
        tcp_destroy(s.tcb);
    }
}

// RFC 7323 section 7.1: the peer takes a value that went back for an old segment's.
// What the listener has learned of the peer, the connection knows.
static void an_accepted_connection_begins_as_its_handshake_ended(void **state)
{
    const struct tcp_handshake handshake = {
        .remote_port = 4321,
        .iss = SCRIPT_ISS,
        .irs = SCRIPT_IRS,
        .peer = {.mss = 900, .has_timestamps = true, .has_scale = true, .scale = 2},
        .snd_wnd = 70000,
        .ts_recent = 77,
        .rtt_ns = 3 * NS_PER_MS,
    };
    script_prepare(&s);
    s.config.wishes = TCP_WISH_ALL;
    script_begin(&s);
    script_wait(&s, NS_PER_S);
    tcp_accept(s.tcb, &handshake, s.now);
    const struct tcb *tcb = s.tcb;
    assert_int_equal(tcb->state, TCP_STATE_SYN_RECEIVED);
    assert_int_equal(tcb->config.remote_port, 4321);
    assert_int_equal(tcb->agreed.snd_scale, 2);
    assert_int_equal(tcb->snd.wnd, 70000);
    assert_int_equal(tcb->snd.max_wnd, 70000);
    assert_int_equal(tcb->snd.wl1, tcb->rcv.first);
    assert_int_equal(tcb->snd.wl2, tcb->snd.iss);
    assert_int_equal(tcb->rtt_sampled_to, tcb->snd.nxt);
    assert_int_equal(tcb->ts.recent, 77);
    assert_int_equal(tcb->ts.recent_at, s.now);
    assert_int_equal(tcb->rtt.srtt_ns, 3 * NS_PER_MS);
    assert_int_equal(tcp_rtt_least(&tcb->rtt), 3 * NS_PER_MS);
    const instant_ns times[] = {tcb->progress_at, tcb->heard_at, tcb->sent_at, tcb->syn_sent_at};
    for (unsigned i = 0; i < sizeof times / sizeof times[0]; i++) {
        assert_int_equal(times[i], s.now);
    }
    tcp_destroy(s.tcb);
}

static void the_clock_of_the_answer_to_a_syn_goes_on(void **state)
{
    enum { OFFSET = 1000000 };
    script_prepare(&s);
    wish_all(&s);
    script_begin(&s);
    const struct tcp_handshake handshake = {
        .remote_port = 2222,
        .iss = s.iss,
        .irs = s.irs,
        .peer = {.mss = SCRIPT_MSS, .has_timestamps = true, .ts_value = 77},
        .timestamp_offset = OFFSET,
        .snd_wnd = UINT16_MAX,
        .rtt_ns = SCRIPT_RTT_NS};
    tcp_accept(s.tcb, &handshake, s.now);
    const struct tcp_options ack = {.has_timestamps = true, .ts_value = 78};
    assert_int_equal(peer_segment(&s, TCP_ACK, 1, 1, 0, &ack), TCP_TAKEN);
    user_send(&s, 100, 0);
    const struct script_segment *data = next_segment(&s);
    assert_true(data->header.options.has_timestamps);
    assert_int_equal(data->header.options.ts_value, (uint32_t)(s.now / NS_PER_MS) + OFFSET);
    script_close(&s);
}

static void what_the_peer_does_not_offer_is_not_used(void **state)
{
    begin_connect(wish_all);
    expect_flags(&s, TCP_SYN, 0);
    struct tcp_options none = {.mss = 500};
    peer_segment(&s, TCP_SYN | TCP_ACK, 0, 1, 0, &none);
    struct script_segment *ack = next_segment(&s);
    assert_false(ack->header.options.has_timestamps);
    assert_int_equal(ack->header.window, 65535); // not scaled
    assert_int_equal(tcp_emss(s.tcb), 500);
    user_send(&s, 700, 0);
    expect_data(&s, 1, 500);
    expect_data(&s, 501, 200);
    script_close(&s);
}

static void timestamps_take_their_octets_from_the_segment(void **state)
{
    begin_connect(wish_all);
    expect_flags(&s, TCP_SYN, 0);
    s.peer = (struct tcp_options){
        .mss = 1200, .has_timestamps = true, .has_scale = true, .scale = 3, .ts_value = 77};
    peer_segment(&s, TCP_SYN | TCP_ACK, 0, 1, 0, &s.peer);
    struct script_segment *ack = next_segment(&s);
    assert_int_equal(ack->header.options.ts_echo, 77);
    assert_int_equal(tcp_emss(s.tcb), SCRIPT_MSS - TCP_TIMESTAMPS_LEN);
    assert_int_equal(s.tcb->snd.wnd, 65535); // a SYN's window is not scaled
    struct tcp_options ts = {.has_timestamps = true, .ts_value = 78};
    peer_segment(&s, TCP_ACK, 1, 1, 0, &ts);
    assert_int_equal(s.tcb->snd.wnd, 65535 << 3);
    script_close(&s);
}

static void peer_without_an_mss_gets_536(void **state)
{
    begin_connect(NULL);
    expect_flags(&s, TCP_SYN, 0);
    peer_segment(&s, TCP_SYN | TCP_ACK, 0, 1, 0, NULL);
    expect_ack(&s, 1);
    assert_int_equal(tcp_emss(s.tcb), 536);
    script_close(&s);
}

static void tiny_mss_is_taken_for_the_least(void **state)
{
    begin_connect(NULL);
    expect_flags(&s, TCP_SYN, 0);
    struct tcp_options o = {.mss = 1};
    peer_segment(&s, TCP_SYN | TCP_ACK, 0, 1, 0, &o);
    expect_ack(&s, 1);
    assert_int_equal(tcp_emss(s.tcb), TCP_MSS_MIN);
    script_close(&s);
}

static void shift_count_beyond_14_is_taken_for_14(void **state)
{
    begin_connect(wish_all);
    expect_flags(&s, TCP_SYN, 0);
    struct tcp_options o = {.mss = 1000, .has_scale = true, .scale = 255};
    peer_segment(&s, TCP_SYN | TCP_ACK, 0, 1, 0, &o);
    next_segment(&s);
    assert_int_equal(s.tcb->agreed.snd_scale, TCP_SCALE_MAX);
    script_close(&s);
}

static void syn_is_sent_again_with_growing_patience_and_then_given_up(void **state)
{
    begin_connect(NULL);
    expect_flags(&s, TCP_SYN, 0);
    for (unsigned wait_s = 1; wait_s <= 32; wait_s *= 2) {
        script_wait(&s, wait_s * NS_PER_S - 1);
        expect_nothing(&s);
        script_wait(&s, 1);
        expect_flags(&s, TCP_SYN, 0);
    }
    script_wait(&s, 200 * NS_PER_S);
    s.out_read = s.out_count;
    assert_true(s.events & TCP_EVENT_OVER);
    assert_int_equal(tcp_status(s.tcb), -ETIMEDOUT);
    script_close(&s);
}

static void lost_syn_makes_the_beginning_cautious(void **state)
{
    begin_connect(NULL);
    script_wait(&s, NS_PER_S);
    peer_segment(&s, TCP_SYN | TCP_ACK, 0, 1, 0, &s.peer);
    s.out_read = s.out_count;
    assert_int_equal(s.tcb->cc.cwnd, SCRIPT_MSS);
    assert_int_equal(tcp_rtt_rto(&s.tcb->rtt), 3 * NS_PER_S);
    script_close(&s);
}

static void reset_in_answer_to_the_syn_is_a_refusal(void **state)
{
    begin_connect(NULL);
    expect_flags(&s, TCP_SYN, 0);
    assert_int_equal(peer_segment(&s, TCP_RST, 0, 0, 0, NULL), TCP_REFUSED_BAD_RST); // blind
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_SYN_SENT);
    peer_segment(&s, TCP_RST | TCP_ACK, 0, 1, 0, NULL);
    assert_int_equal(tcp_status(s.tcb), -ECONNREFUSED);
    script_close(&s);
}

static void acknowledgement_of_something_else_is_answered_with_a_reset(void **state)
{
    begin_connect(NULL);
    expect_flags(&s, TCP_SYN, 0);
    assert_int_equal(peer_segment(&s, TCP_SYN | TCP_ACK, 0, 77, 0, &s.peer),
                     TCP_REFUSED_BAD_SYN_ACK);
    expect_flags(&s, TCP_RST, 77);
    assert_int_equal(peer_segment(&s, TCP_RST | TCP_ACK, 0, 77, 0, NULL), TCP_REFUSED_BAD_SYN_ACK);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_SYN_SENT);
    script_close(&s);
}

static void segment_without_a_syn_is_passed_over(void **state)
{
    begin_connect(NULL);
    expect_flags(&s, TCP_SYN, 0);
    assert_int_equal(peer_segment(&s, 0, 0, 0, 10, NULL), TCP_REFUSED_NOT_SYN);
    assert_int_equal(peer_segment(&s, TCP_ACK, 1, 1, 10, NULL), TCP_REFUSED_NOT_SYN);
    script_close(&s);
}

static void both_may_open_at_the_same_time(void **state)
{
    begin_connect(NULL);
    expect_flags(&s, TCP_SYN, 0);
    peer_segment(&s, TCP_SYN, 0, 0, 0, &s.peer);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_SYN_RECEIVED);
    expect_flags(&s, TCP_SYN | TCP_ACK, 0);
    peer_segment(&s, TCP_SYN | TCP_ACK, 0, 1, 0, &s.peer); // the other's, which crossed ours
    expect_flags(&s, TCP_ACK, 1);
    peer_segment(&s, TCP_ACK, 1, 1, 0, NULL);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    assert_true(s.events & TCP_EVENT_ESTABLISHED);
    peer_data(&s, 1, 100);
    assert_int_equal(s.handed, 100);
    script_close(&s);
}

static void crossing_syn_ack_is_sent_again_when_it_was_lost(void **state)
{
    begin_connect(NULL);
    expect_flags(&s, TCP_SYN, 0);
    peer_segment(&s, TCP_SYN, 0, 0, 0, &s.peer);
    expect_flags(&s, TCP_SYN | TCP_ACK, 0);
    script_wait(&s, NS_PER_S);
    expect_flags(&s, TCP_SYN | TCP_ACK, 0);
    peer_segment(&s, TCP_RST, 1, 0, 0, NULL);
    assert_int_equal(tcp_status(s.tcb), -ECONNREFUSED);
    script_close(&s);
}

static void octets_with_the_syn_ack_are_taken(void **state)
{
    begin_connect(NULL);
    expect_flags(&s, TCP_SYN, 0);
    struct tcp_header h = {.seq = s.irs,
                           .ack = s.iss + 1,
                           .flags = TCP_SYN | TCP_ACK,
                           .window = 1000,
                           .options = s.peer};
    uint8_t octets[3] = {script_octet(0), script_octet(1), script_octet(2)};
    struct tcp_segment segment = {h, span_of(octets, 3)};
    peer_segment_as_is(&s, &segment);
    assert_int_equal(s.handed, 3);
    expect_ack(&s, 4);
    script_close(&s);
}

static void octets_given_before_the_peer_has_answered_go_with_the_ack(void **state)
{
    begin_connect(NULL);
    expect_flags(&s, TCP_SYN, 0);
    user_send(&s, 100, 0);
    expect_nothing(&s);
    peer_segment(&s, TCP_SYN | TCP_ACK, 0, 1, 0, &s.peer);
    expect_data(&s, 1, 100);
    script_close(&s);
}

static void close_before_the_peer_has_answered_forgets_all(void **state)
{
    begin_connect(NULL);
    expect_flags(&s, TCP_SYN, 0);
    tcp_close(s.tcb, s.now);
    script_run(&s);
    assert_true(s.events & TCP_EVENT_OVER);
    assert_int_equal(tcp_status(s.tcb), 0);
    script_close(&s);
}

static void unreachable_host_ends_an_open_but_not_a_connection(void **state)
{
    begin_connect(NULL);
    expect_flags(&s, TCP_SYN, 0);
    tcp_on_unreachable(s.tcb, s.iss + 5, -EHOSTUNREACH); // not outstanding: a guess
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_SYN_SENT);
    tcp_on_unreachable(s.tcb, s.iss, -EHOSTUNREACH);
    assert_int_equal(tcp_status(s.tcb), -EHOSTUNREACH);
    script_close(&s);
    script_open(&s, NULL);
    user_send(&s, 10, 0);
    tcp_on_unreachable(s.tcb, s.iss + 1, -EHOSTUNREACH);
    assert_int_equal(tcp_get_state(s.tcb), TCP_STATE_ESTABLISHED);
    s.out_read = s.out_count;
    script_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(syn_offers_what_is_wished),
        cmocka_unit_test(who_had_to_answer_twice_begins_with_one_segment),
        cmocka_unit_test(an_accepted_connection_begins_as_its_handshake_ended),
        cmocka_unit_test(the_clock_of_the_answer_to_a_syn_goes_on),
        cmocka_unit_test(what_the_peer_does_not_offer_is_not_used),
        cmocka_unit_test(timestamps_take_their_octets_from_the_segment),
        cmocka_unit_test(peer_without_an_mss_gets_536),
        cmocka_unit_test(tiny_mss_is_taken_for_the_least),
        cmocka_unit_test(shift_count_beyond_14_is_taken_for_14),
        cmocka_unit_test(syn_is_sent_again_with_growing_patience_and_then_given_up),
        cmocka_unit_test(lost_syn_makes_the_beginning_cautious),
        cmocka_unit_test(reset_in_answer_to_the_syn_is_a_refusal),
        cmocka_unit_test(acknowledgement_of_something_else_is_answered_with_a_reset),
        cmocka_unit_test(segment_without_a_syn_is_passed_over),
        cmocka_unit_test(both_may_open_at_the_same_time),
        cmocka_unit_test(crossing_syn_ack_is_sent_again_when_it_was_lost),
        cmocka_unit_test(octets_with_the_syn_ack_are_taken),
        cmocka_unit_test(octets_given_before_the_peer_has_answered_go_with_the_ack),
        cmocka_unit_test(close_before_the_peer_has_answered_forgets_all),
        cmocka_unit_test(unreachable_host_ends_an_open_but_not_a_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
