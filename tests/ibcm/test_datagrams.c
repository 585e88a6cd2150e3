// Ports of datagrams (SIDR, 12.11): which queue pair serves one.
#include "tests/ibcm/net_of_test.h"

static void a_port_is_resolved(void **state)
{
    net_resolve(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], 1);
    assert_int_equal(A->last, IBCM_EVENT_ESTABLISHED);
    assert_int_equal(A->peer.qp_num, B->params.qp_num);
    assert_int_equal(A->peer.qkey, IP_CM_QKEY);
    assert_int_equal(A->data_len, IBCM_ANSWER_DATA_MAX);
    assert_memory_equal(A->data, "hello", 5);
    assert_memory_equal(B->data, "who\0", 4);
    assert_int_equal(B->data_len, IBCM_RESOLVE_DATA_MAX);
}

static void a_port_is_refused_with_a_status(void **state)
{
    B->answer = NET_REJECTS;
    net_resolve(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(A->last, IBCM_EVENT_REJECTED);
    assert_int_equal(A->reason, IBCM_SIDR_REJECTED);
    ibcm_unlisten(B->ibcm, &B->datagrams, net.now);
    net_resolve(&net, 0, 1);
    net_exchange_unserved(&net);
    assert_int_equal(A->count[IBCM_EVENT_REJECTED], 2);
    assert_int_equal(A->reason, IBCM_SIDR_UNSUPPORTED);
    assert_int_equal(ibcm_counters(A->ibcm)->unserved, 5);
}

static void an_answer_has_a_number_if_it_is_yes(void **state)
{
    net_resolve(&net, 0, 1);
    net_exchange(&net);
    struct ibcm_message req = net_last(&net, IBCM_SIDR_REQ), rep = net_last(&net, IBCM_SIDR_REP);
    assert_int_equal(rep.sidr_rep.id, req.sidr_req.id);
    assert_int_equal(rep.sidr_rep.service_id, req.sidr_req.service_id);
    assert_int_equal(rep.sidr_rep.qp_num, B->params.qp_num);
    assert_int_equal(rep.sidr_rep.qkey, IP_CM_QKEY);
    B->answer = NET_REJECTS;
    net_resolve(&net, 0, 1);
    net_exchange(&net);
    rep = net_last(&net, IBCM_SIDR_REP);
    assert_int_equal(rep.sidr_rep.status, IBCM_SIDR_REJECTED);
    assert_int_equal(rep.sidr_rep.qp_num, 0);
    assert_int_equal(rep.sidr_rep.qkey, 0);
}

static void as_much_as_a_message_holds_is_taken(void **state)
{
    static const uint8_t data[IBCM_RESOLVE_DATA_MAX];
    struct ibcm_target target = net_target(A, B);
    int error = -1;
    target.ps = IP_CM_PS_UDP;
    B->answer = NET_WAITS;
    assert_non_null(ibcm_resolve(A->ibcm, &target, span_of(data, sizeof data), A, net.now, &error));
    assert_int_equal(error, 0);
    net_exchange(&net);
    assert_int_equal(ibcm_reject(B->ibcm, B->conn, IBCM_SIDR_REJECTED,
                                 span_of(data, IBCM_ANSWER_DATA_MAX), net.now),
                     0);
}

static void who_listens_a_moment_too_late_is_found(void **state)
{
    ibcm_unlisten(B->ibcm, &B->datagrams, net.now);
    struct ibcm_conn *conn = net_resolve(&net, 0, 1);
    net_run_for(&net, 2 * NS_PER_MS);
    assert_int_equal(ibcm_conn_state(conn), IBCM_SIDR_REQ_UNSERVED);
    assert_int_equal(A->count[IBCM_EVENT_REJECTED], 0);
    assert_int_equal(
        ibcm_listen(B->ibcm, &B->datagrams, IP_CM_PS_UDP, NET_PORT, &in6addr_any, 0, B), 0);
    net_exchange_unserved(&net);
    assert_int_equal(A->last, IBCM_EVENT_ESTABLISHED);
    assert_int_equal(A->peer.qp_num, B->params.qp_num);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_port_is_resolved),
        TEST(a_port_is_refused_with_a_status),
        TEST(an_answer_has_a_number_if_it_is_yes),
        TEST(as_much_as_a_message_holds_is_taken),
        TEST(who_listens_a_moment_too_late_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
