// Closing: FIN both ways in every order, TIME-WAIT, aborts.
#include <errno.h>

#include "tests/tcp/script.h"

static struct script s;

static enum tcp_state now_in(void)
{
    return tcp_get_state(s.tcb);
}

static void user_closes(void)
{
    tcp_close(s.tcb, s.now);
    script_run(&s);
}

static void peer_fin(uint32_t seq, uint32_t ack)
{
    peer_segment(&s, TCP_ACK | TCP_FIN, seq, ack, 0, NULL);
}

static void we_close_first(void **state)
{
    script_open(&s, NULL);
    user_closes();
    expect_flags(&s, TCP_FIN | TCP_ACK, 1);
    assert_int_equal(now_in(), TCP_STATE_FIN_WAIT_1);
    peer_ack(&s, 2);
    assert_int_equal(now_in(), TCP_STATE_FIN_WAIT_2);
    peer_data(&s, 1, 100); // the other direction is open
    assert_int_equal(s.handed, 100);
    peer_fin(101, 2);
    expect_ack(&s, 102);
    assert_int_equal(now_in(), TCP_STATE_TIME_WAIT);
    assert_true(s.events & TCP_EVENT_FIN);
    script_wait(&s, s.config.time_wait_ns - 1);
    assert_int_equal(now_in(), TCP_STATE_TIME_WAIT);
    script_wait(&s, 1);
    assert_true(s.events & TCP_EVENT_OVER);
    assert_int_equal(tcp_status(s.tcb), 0);
    script_close(&s);
}

static void peer_closes_first(void **state)
{
    script_open(&s, NULL);
    peer_fin(1, 1);
    expect_ack(&s, 2);
    assert_int_equal(now_in(), TCP_STATE_CLOSE_WAIT);
    user_send(&s, 100, 0);
    expect_data(&s, 1, 100);
    user_closes();
    expect_flags(&s, TCP_FIN | TCP_ACK, 101);
    assert_int_equal(now_in(), TCP_STATE_LAST_ACK);
    peer_segment(&s, TCP_ACK, 2, 101, 0, NULL);
    assert_int_equal(now_in(), TCP_STATE_LAST_ACK);
    peer_segment(&s, TCP_ACK, 2, 102, 0, NULL);
    assert_true(s.events & TCP_EVENT_OVER);
    assert_int_equal(tcp_status(s.tcb), 0);
    script_close(&s);
}

static void both_close_at_the_same_time(void **state)
{
    script_open(&s, NULL);
    user_closes();
    expect_flags(&s, TCP_FIN | TCP_ACK, 1);
    peer_fin(1, 1);
    expect_flags(&s, TCP_ACK, 2);
    assert_int_equal(now_in(), TCP_STATE_CLOSING);
    peer_segment(&s, TCP_ACK, 2, 2, 0, NULL);
    assert_int_equal(now_in(), TCP_STATE_TIME_WAIT);
    script_close(&s);
}

static void fin_that_acknowledges_ours_leads_to_time_wait_at_once(void **state)
{
    script_open(&s, NULL);
    user_closes();
    expect_flags(&s, TCP_FIN | TCP_ACK, 1);
    peer_fin(1, 2);
    expect_ack(&s, 2);
    assert_int_equal(now_in(), TCP_STATE_TIME_WAIT);
    script_close(&s);
}

static void fin_goes_with_the_last_octets(void **state)
{
    script_open(&s, NULL);
    struct iovec iov = {(void *)"", 1};
    uint8_t octet = script_octet(0);
    iov.iov_base = &octet;
    assert_int_equal(tcp_send(s.tcb, &iov, 1, 0), 1);
    user_closes();
    struct script_segment *out = next_segment(&s);
    assert_int_equal(out->len, 1);
    assert_true(out->header.flags & TCP_FIN);
    assert_int_equal(tcp_send(s.tcb, &iov, 1, 0), 0); // nothing behind it
    script_close(&s);
}

static void lost_fin_is_sent_again(void **state)
{
    script_open(&s, NULL);
    user_closes();
    expect_flags(&s, TCP_FIN | TCP_ACK, 1);
    script_wait(&s, 210 * NS_PER_MS);
    expect_flags(&s, TCP_FIN | TCP_ACK, 1);
    peer_ack(&s, 2);
    assert_int_equal(now_in(), TCP_STATE_FIN_WAIT_2);
    script_close(&s);
}

static void fin_of_the_peer_again_restarts_time_wait(void **state)
{
    script_open(&s, NULL);
    user_closes();
    expect_flags(&s, TCP_FIN | TCP_ACK, 1);
    peer_fin(1, 2);
    expect_ack(&s, 2);
    script_wait(&s, s.config.time_wait_ns / 2);
    peer_fin(1, 2);
    expect_ack(&s, 2);
    script_wait(&s, s.config.time_wait_ns - 1);
    assert_int_equal(now_in(), TCP_STATE_TIME_WAIT);
    script_close(&s);
}

static void abort_says_so_and_ends_at_once(void **state)
{
    script_open(&s, NULL);
    user_send(&s, 100, 0);
    expect_data(&s, 1, 100);
    tcp_abort(s.tcb);
    script_run(&s);
    expect_flags(&s, TCP_RST | TCP_ACK, 101);
    assert_true(s.events & TCP_EVENT_OVER);
    assert_int_equal(tcp_status(s.tcb), -ECONNABORTED);
    assert_int_equal(tcp_next_deadline(s.tcb), INSTANT_NEVER);
    assert_int_equal(peer_segment(&s, TCP_ACK, 1, 101, 0, NULL), TCP_REFUSED_OVER);
    script_close(&s);
}

static void reset_of_the_peer_ends_the_connection(void **state)
{
    script_open(&s, NULL);
    peer_segment(&s, TCP_RST, 1, 0, 0, NULL);
    assert_true(s.events & TCP_EVENT_OVER);
    assert_int_equal(tcp_status(s.tcb), -ECONNRESET);
    script_close(&s);
}

static void segment_of_no_connection_is_answered_with_an_acceptable_reset(void **state)
{
    struct tcp_header reply;
    struct tcp_segment segment = {
        .header = {.src_port = 1, .dst_port = 2, .seq = 100, .ack = 200, .flags = TCP_ACK}};
    assert_true(tcp_reset_for(&segment, &reply));
    assert_int_equal(reply.flags, TCP_RST);
    assert_int_equal(reply.seq, 200);
    assert_int_equal(reply.src_port, 2);
    segment.header.flags = TCP_SYN | TCP_FIN;
    segment.payload = span_of("abc", 3);
    assert_true(tcp_reset_for(&segment, &reply));
    assert_int_equal(reply.flags, TCP_RST | TCP_ACK);
    assert_int_equal(reply.seq, 0);
    assert_int_equal(reply.ack, 105);
    segment.header.flags = TCP_RST;
    assert_false(tcp_reset_for(&segment, &reply));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(we_close_first),
        cmocka_unit_test(peer_closes_first),
        cmocka_unit_test(both_close_at_the_same_time),
        cmocka_unit_test(fin_that_acknowledges_ours_leads_to_time_wait_at_once),
        cmocka_unit_test(fin_goes_with_the_last_octets),
        cmocka_unit_test(lost_fin_is_sent_again),
        cmocka_unit_test(fin_of_the_peer_again_restarts_time_wait),
        cmocka_unit_test(abort_says_so_and_ends_at_once),
        cmocka_unit_test(reset_of_the_peer_ends_the_connection),
        cmocka_unit_test(segment_of_no_connection_is_answered_with_an_acceptable_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
