// A listening port: the handshake from its side, and what a flood of SYNs can do to it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tcp/listen.h"

enum { IRS = 5000, HALF_OPEN_MAX = 4 };

static struct tcp_listener *listener;
static struct tcp_listen_answer answer;
static struct tcp_header syn_ack; // the last one
static instant_ns now;

static int set_up(void **state)
{
    struct tcp_listener_config config = {.connection = tcp_config_default,
                                         .half_open_max = HALF_OPEN_MAX,
                                         .syn_ack_retries = 2,
                                         .secret = {1, 2, 3}};
    config.connection.local_port = 80;
    now = 100 * NS_PER_S;
    listener = tcp_listener_create(&config);
    return listener == NULL;
}

static int tear_down(void **state)
{
    tcp_listener_check(listener);
    tcp_listener_destroy(listener);
    return 0;
}

static const struct tcp_options all = {.mss = 1400,
                                       .sack_permitted = true,
                                       .has_timestamps = true,
                                       .ts_value = 900,
                                       .has_scale = true,
                                       .scale = 7};

// A later segment of who said `all`.
static const struct tcp_options later = {.has_timestamps = true, .ts_value = 901};

static struct tcp_tuple tuple_of(unsigned peer)
{
    struct tcp_tuple tuple = {{(uint8_t)(peer >> 8), (uint8_t)peer}};
    return tuple;
}

static void arrives(unsigned peer, uint8_t flags, uint32_t seq, uint32_t ack,
                    const struct tcp_options *options)
{
    struct tcp_tuple tuple = tuple_of(peer);
    struct tcp_segment segment = {.header = {.src_port = (uint16_t)(4000 + peer),
                                             .dst_port = 80,
                                             .seq = seq,
                                             .ack = ack,
                                             .flags = flags,
                                             .window = 1000}};
    if (options != NULL) {
        segment.header.options = *options;
    }
    tcp_listener_on_segment(listener, &tuple, &segment, now, &answer);
    tcp_listener_check(listener);
    if (answer.has_reply && answer.reply.flags == (TCP_SYN | TCP_ACK)) {
        syn_ack = answer.reply;
    }
}

static void expect_challenge(enum tcp_listen_refusal refusal)
{
    assert_int_equal(answer.refusal, refusal);
    assert_true(answer.has_reply);
    assert_int_equal(answer.reply.flags, TCP_ACK);
    assert_int_equal(answer.reply.window, syn_ack.window >> syn_ack.options.scale);
    assert_false(answer.has_handshake);
}

static void expect_refusal(enum tcp_listen_refusal refusal, bool has_reset)
{
    assert_int_equal(answer.refusal, refusal);
    assert_int_equal(answer.has_reply, has_reset);
    assert_true(!has_reset || (answer.reply.flags & TCP_RST) != 0);
    assert_false(answer.has_handshake);
}

static void syn_is_answered_with_what_both_can_do(void **state)
{
    struct tcp_options some = {.mss = 1400, .sack_permitted = true};
    arrives(1, TCP_SYN, IRS, 0, &some);
    assert_true(answer.has_reply);
    assert_int_equal(answer.reply.flags, TCP_SYN | TCP_ACK);
    assert_int_equal(answer.reply.ack, IRS + 1);
    assert_int_equal(answer.reply.src_port, 80);
    assert_int_equal(answer.reply.dst_port, 4001);
    assert_true(answer.reply.options.sack_permitted);
    assert_false(answer.reply.options.has_timestamps);
    assert_false(answer.reply.options.has_scale);
}

static void acknowledgement_completes_the_handshake(void **state)
{
    arrives(1, TCP_SYN, IRS, 0, &all);
    uint32_t iss = answer.reply.seq;
    assert_int_equal(answer.reply.options.ts_echo, 900);
    now += 5 * NS_PER_MS;
    arrives(1, TCP_ACK, IRS + 1, iss + 1, &later);
    assert_true(answer.has_handshake);
    const struct tcp_handshake *h = &answer.handshake;
    assert_int_equal(h->iss, iss);
    assert_int_equal(h->irs, IRS);
    assert_int_equal(h->remote_port, 4001);
    assert_int_equal(h->snd_wnd, 1000 << 7);
    assert_int_equal(h->ts_recent, 901);
    assert_in_range(h->rtt_ns, 5 * NS_PER_MS, 5 * NS_PER_MS + 10);
    assert_int_equal(tcp_listener_next_deadline(listener), INSTANT_NEVER);
    assert_int_equal(tcp_listener_counters(listener)->completed, 1);
}

static void wrong_acknowledgement_is_answered_with_a_reset(void **state)
{
    arrives(1, TCP_SYN, IRS, 0, &all);
    uint32_t iss = answer.reply.seq;
    arrives(1, TCP_ACK, IRS + 1, iss + 2, &later);
    expect_refusal(TCP_LISTEN_REFUSED_BAD_ACK, true);
    assert_int_equal(answer.reply.seq, iss + 2);
    arrives(2, TCP_ACK, IRS + 1, iss + 1, NULL); // of no handshake
    expect_refusal(TCP_LISTEN_REFUSED_BAD_ACK, true);
    arrives(1, TCP_ACK, IRS + 1, iss + 1, &later);
    assert_true(answer.has_handshake); // the handshake is still there
}

static void other_segments_are_refused_by_name(void **state)
{
    arrives(1, TCP_RST, IRS, 0, NULL);
    expect_refusal(TCP_LISTEN_REFUSED_RST, false);
    arrives(1, TCP_SYN | TCP_FIN, IRS, 0, NULL);
    expect_refusal(TCP_LISTEN_REFUSED_RST, false);
    arrives(1, TCP_FIN, IRS, 0, NULL);
    expect_refusal(TCP_LISTEN_REFUSED_NO_SYN, false);
    arrives(1, TCP_SYN, IRS, 0, &all);
    uint32_t iss = answer.reply.seq;
    arrives(1, TCP_ACK, IRS + 70000, iss + 1, &later);
    expect_challenge(TCP_LISTEN_REFUSED_NOT_ACCEPTABLE);
    arrives(1, TCP_ACK, IRS + 1, iss + 1, NULL);
    expect_refusal(TCP_LISTEN_REFUSED_NO_TIMESTAMP, false);
    struct tcp_options another = all;
    another.ts_value = 905;
    arrives(1, TCP_SYN, IRS + 5, 0, &another);
    expect_challenge(TCP_LISTEN_REFUSED_BAD_SYN);
    struct tcp_options old = {.has_timestamps = true, .ts_value = 899};
    arrives(1, TCP_ACK, IRS + 1, iss + 1, &old);
    expect_challenge(TCP_LISTEN_REFUSED_OLD_TIMESTAMP);
    assert_int_equal(tcp_listener_counters(listener)->challenge_acks, 3);
}

static void reset_ends_a_handshake_only_at_the_right_number(void **state)
{
    arrives(1, TCP_SYN, IRS, 0, &all);
    arrives(1, TCP_RST, IRS + 2, 0, NULL);
    expect_challenge(TCP_LISTEN_REFUSED_BAD_RST);
    arrives(1, TCP_RST, IRS + 70000, 0, NULL);
    expect_refusal(TCP_LISTEN_REFUSED_NOT_ACCEPTABLE, false);
    assert_true(tcp_listener_next_deadline(listener) != INSTANT_NEVER);
    arrives(1, TCP_RST, IRS + 1, 0, NULL);
    expect_refusal(TCP_LISTEN_REFUSED_PEER_RESET, false);
    assert_int_equal(tcp_listener_next_deadline(listener), INSTANT_NEVER);
}

static void syn_again_gets_the_same_answer(void **state)
{
    arrives(1, TCP_SYN, IRS, 0, &all);
    uint32_t iss = answer.reply.seq;
    now += NS_PER_S / 2;
    arrives(1, TCP_SYN, IRS, 0, &all);
    assert_int_equal(answer.reply.seq, iss);
    arrives(1, TCP_ACK, IRS + 1, iss + 1, &later);
    assert_true(answer.has_handshake);
    assert_int_equal(answer.handshake.rtt_ns, 0); // which one was answered is not known
    assert_int_equal(tcp_listener_counters(listener)->syns, 1);
    assert_int_equal(tcp_listener_counters(listener)->resent, 1);
}

static void answer_is_sent_again_and_then_given_up(void **state)
{
    struct tcp_tuple tuple = tuple_of(1), to;
    struct tcp_header reply;
    arrives(1, TCP_SYN, IRS, 0, &all);
    uint32_t iss = answer.reply.seq;
    for (unsigned wait_s = 1; wait_s <= 2; wait_s *= 2) {
        assert_int_equal(tcp_listener_next_deadline(listener), now + wait_s * NS_PER_S);
        now += wait_s * NS_PER_S;
        assert_true(tcp_listener_on_deadline(listener, now, &to, &reply));
        assert_memory_equal(&to, &tuple, sizeof to);
        assert_int_equal(reply.seq, iss);
        assert_false(tcp_listener_on_deadline(listener, now, &to, &reply));
    }
    now += 4 * NS_PER_S;
    assert_false(tcp_listener_on_deadline(listener, now, &to, &reply));
    assert_int_equal(tcp_listener_counters(listener)->resent, 2);
    assert_int_equal(tcp_listener_counters(listener)->expired, 1);
    assert_int_equal(tcp_listener_next_deadline(listener), INSTANT_NEVER);
}

static void flood_of_syns_takes_no_more_than_the_queue_and_lets_the_newest_in(void **state)
{
    for (unsigned peer = 0; peer < 1000; peer++) {
        arrives(peer, TCP_SYN, IRS, 0, &all);
        assert_true(answer.has_reply);
    }
    assert_int_equal(tcp_listener_counters(listener)->syns, 1000);
    assert_int_equal(tcp_listener_counters(listener)->evicted, 1000 - HALF_OPEN_MAX);
    arrives(999, TCP_ACK, IRS + 1, answer.reply.seq + 1, &later);
    assert_true(answer.has_handshake);
    arrives(0, TCP_ACK, IRS + 1, 1, NULL);
    expect_refusal(TCP_LISTEN_REFUSED_BAD_ACK, true);
}

static void initial_sequence_numbers_follow_time_and_secret(void **state)
{
    static const uint8_t one[TCP_SECRET_LEN] = {1}, two[TCP_SECRET_LEN] = {2};
    struct tcp_tuple a = tuple_of(1), b = tuple_of(2);
    uint32_t isn = tcp_isn(one, &a, now);
    assert_int_equal(tcp_isn(one, &a, now + 4000), isn + 1); // 4 µs
    assert_int_not_equal(tcp_isn(one, &b, now), isn);
    assert_int_not_equal(tcp_isn(two, &a, now), isn);
}

static uint16_t mss_of_path(void *ctx, const struct tcp_tuple *tuple)
{
    (*(unsigned *)ctx)++;
    return (uint16_t)(1000 + tuple->octets[1]);
}

static void answer_tells_the_segment_size_of_the_peer_s_path(void **state)
{
    unsigned asked = 0;
    struct tcp_listener_config config = {.connection = tcp_config_default,
                                         .path_mss = mss_of_path,
                                         .path_ctx = &asked,
                                         .half_open_max = HALF_OPEN_MAX,
                                         .syn_ack_retries = 2};
    tcp_listener_destroy(listener);
    listener = tcp_listener_create(&config);
    for (unsigned peer = 1; peer <= 2; peer++) {
        arrives(peer, TCP_SYN, IRS, 0, &all);
        assert_int_equal(answer.reply.options.mss, 1000 + peer);
    }
    arrives(1, TCP_SYN, IRS, 0, &all);
    assert_int_equal(answer.reply.options.mss, 1001);
    assert_int_equal(asked, 2); // once for each, however often it is answered
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(syn_is_answered_with_what_both_can_do),
        TEST(acknowledgement_completes_the_handshake),
        TEST(wrong_acknowledgement_is_answered_with_a_reset),
        TEST(other_segments_are_refused_by_name),
        TEST(reset_ends_a_handshake_only_at_the_right_number),
        TEST(syn_again_gets_the_same_answer),
        TEST(answer_is_sent_again_and_then_given_up),
        TEST(flood_of_syns_takes_no_more_than_the_queue_and_lets_the_newest_in),
        TEST(initial_sequence_numbers_follow_time_and_secret),
        TEST(answer_tells_the_segment_size_of_the_peer_s_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
