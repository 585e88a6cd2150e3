// How long a state lasts, by the times that either end has named; what is said again, and why.
#include "tests/ibcm/net_of_test.h"
#include "wire/ib_time.h"

static duration_ns lifetime_ns(void)
{
    return ib_time_ns(net_config().packet_lifetime);
}

// Event by event, until the connection is in this state.
static void run_until(struct ibcm_conn *conn, enum ibcm_state wanted)
{
    while (ibcm_conn_state(conn) != wanted) {
        assert_int_not_equal(net_next(&net), INSTANT_NEVER);
        net_run(&net, net_next(&net));
    }
}

// From the first message of a kind to its repetition.
static duration_ns pause_between(enum ibcm_kind kind)
{
    instant_ns first = 0;
    while (net.sent[kind] < 2) {
        net_run(&net, net_next(&net));
        first = net.sent[kind] == 1 && first == 0 ? net.now : first;
    }
    return net.now - first;
}

static duration_ns patience_ns(void)
{
    return 2 * lifetime_ns() + ib_time_ns(net_config().response_timeout);
}

static void a_request_is_said_again_when_its_answer_is_late(void **state)
{
    const instant_ns began = net.now;
    net.loss = 100;
    net_connect(&net, 0, 1);
    while (net.sent[IBCM_REQ] < 2) {
        net_run(&net, net_next(&net));
    }
    assert_int_equal(net.now - began, patience_ns());
}

static void an_answer_is_said_again_when_its_answer_is_late(void **state)
{
    net.lost_kind = IBCM_RTU;
    net.lost_count = 1;
    net_connect(&net, 0, 1);
    assert_int_equal(pause_between(IBCM_REP), patience_ns());
}

// By the count in the request (12.6.3), not by that of who answers.
static void an_answer_is_said_again_as_often_as_the_request_says(void **state)
{
    struct ibcm_message m;
    struct net_packet request;
    net.loss = 100;
    net_connect(&net, 0, 1);
    request = net.last[IBCM_REQ];
    assert_int_equal(ibcm_message_parse(span_of(request.mad, MAD_LEN), &m), IBCM_PARSE_OK);
    assert_int_not_equal(m.req.max_cm_retries, 3);
    m.req.max_cm_retries = 3;
    ibcm_message_emit(&m, request.mad);
    net_deliver(&net, &request.ends, request.mad);
    net_run_for(&net, 10 * patience_ns());
    assert_int_equal(net.sent[IBCM_REP], 1 + 3);
}

static void an_answer_to_a_datagrams_request_is_kept_as_long_as_it_may_be_repeated(void **state)
{
    net_resolve(&net, 0, 1);
    while (B->conn == NULL) {
        net_run(&net, net_next(&net));
    }
    run_until(B->conn, IBCM_SIDR_ANSWERED);
    const instant_ns began = net.now;
    run_until(B->conn, IBCM_OVER);
    assert_int_equal(net.now - began, 3 * patience_ns());
}

static void who_was_told_to_wait_waits_as_long_and_for_the_way(void **state)
{
    B->answer = NET_WAITS;
    struct ibcm_conn *conn = net_connect(&net, 0, 1);
    run_until(conn, IBCM_MRA_REQ_RCVD);
    const instant_ns began = net.now;
    const unsigned asked = net.sent[IBCM_REQ];
    net.loss = 100;
    while (net.sent[IBCM_REQ] == asked) {
        net_run(&net, net_next(&net));
    }
    assert_int_equal(net.now - began, ib_time_ns(net_config().service_timeout) + 2 * lifetime_ns());
}

static void time_wait_lasts_as_long_as_packets_live(void **state)
{
    struct ibcm_conn *conn = net_connect(&net, 0, 1);
    net_exchange(&net);
    ibcm_disconnect(A->ibcm, conn, net.now);
    run_until(conn, IBCM_TIMEWAIT);
    const instant_ns began = net.now;
    while (A->count[IBCM_EVENT_TIMEWAIT_EXIT] == 0) {
        net_run(&net, net_next(&net));
    }
    assert_int_equal(net.now - began, 2 * lifetime_ns() + ib_time_ns(net_config().ack_delay));
}

static void who_comes_again_when_it_is_over_hears_that_it_is_stale(void **state)
{
    struct ibcm_conn *conn = net_connect(&net, 0, 1);
    net_exchange(&net);
    const struct net_packet request = net.last[IBCM_REQ]; // the network doubles it
    ibcm_disconnect(A->ibcm, conn, net.now);
    net_exchange(&net);
    assert_int_equal(ibcm_conn_state(B->conn), IBCM_TIMEWAIT);
    net_deliver(&net, &request.ends, request.mad);
    assert_int_equal(net.sent[IBCM_REJ], 1);
    struct ibcm_message m;
    const struct span mad = span_of(net.last[IBCM_REJ].mad, MAD_LEN);
    assert_int_equal(ibcm_message_parse(mad, &m), IBCM_PARSE_OK);
    assert_int_equal(m.rej.reason, IBCM_REASON_STALE);
}

// B repeats its REP as it hears no RTU: that is due, nobody asked for it. A's RTU was asked for.
static void only_what_was_asked_for_counts_as_said_again(void **state)
{
    net.lost_kind = IBCM_RTU;
    net.lost_count = 2;
    net_connect(&net, 0, 1);
    net_run_for(&net, 12 * NS_PER_S);
    assert_int_equal(net.sent[IBCM_REP], 3);
    assert_int_equal(ibcm_counters(A->ibcm)->answered_again, 2);
    assert_int_equal(ibcm_counters(B->ibcm)->answered_again, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_is_said_again_when_its_answer_is_late),
        TEST(an_answer_is_said_again_when_its_answer_is_late),
        TEST(an_answer_is_said_again_as_often_as_the_request_says),
        TEST(an_answer_to_a_datagrams_request_is_kept_as_long_as_it_may_be_repeated),
        TEST(who_was_told_to_wait_waits_as_long_and_for_the_way),
        TEST(time_wait_lasts_as_long_as_packets_live),
        TEST(who_comes_again_when_it_is_over_hears_that_it_is_stale),
        TEST(only_what_was_asked_for_counts_as_said_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
