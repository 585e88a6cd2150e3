// Connections made, refused and ended, over a net that loses nothing.
#include "base/bytes.h"
#include "base/wildcard.h"
#include "tests/ibcm/net_of_test.h"

static void a_connection_is_established_at_both_ends(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(A->count[IBCM_EVENT_CONNECT_RESPONSE], 1);
    assert_int_equal(A->count[IBCM_EVENT_ESTABLISHED], 1);
    assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], 1);
    assert_int_equal(B->count[IBCM_EVENT_ESTABLISHED], 1);
    assert_int_equal(net.sent[IBCM_REQ], 1);
    assert_int_equal(net.sent[IBCM_REP], 1);
    assert_int_equal(net.sent[IBCM_RTU], 1);
}

static void what_is_sent_is_counted_by_its_kind(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    const struct ibcm_counters *of_a = ibcm_counters(A->ibcm), *of_b = ibcm_counters(B->ibcm);
    assert_int_equal(of_a->sent[IBCM_REQ], 1);
    assert_int_equal(of_a->sent[IBCM_REP], 0);
    assert_int_equal(of_a->sent[IBCM_RTU], 1);
    assert_int_equal(of_b->sent[IBCM_REP], 1);
    assert_int_equal(of_a->not_sent, 0);
}

static void what_the_link_does_not_take_is_counted_and_sent_again(void **state)
{
    net.is_full = true;
    net_connect(&net, 0, 1);
    assert_int_equal(ibcm_counters(A->ibcm)->not_sent, 1);
    net.is_full = false;
    net_run_for(&net, 30 * NS_PER_S);
    assert_int_equal(net.sent[IBCM_REQ], 1);
    assert_int_equal(A->last, IBCM_EVENT_ESTABLISHED);
    assert_int_equal(ibcm_counters(A->ibcm)->not_sent, 1);
}

static void each_end_learns_what_its_queue_pair_needs(void **state)
{
    A->params.responder_resources = 16;
    A->params.initiator_depth = 3;
    A->params.rnr_retry_count = 1;
    B->params.responder_resources = 9;
    B->params.initiator_depth = 5;
    B->params.rnr_retry_count = 2;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(A->agreement.dest_qp_num, B->params.qp_num);
    assert_int_equal(B->agreement.dest_qp_num, A->params.qp_num);
    assert_int_equal(A->agreement.sq_psn, B->agreement.rq_psn);
    assert_int_equal(B->agreement.sq_psn, A->agreement.rq_psn);
    assert_int_equal(A->agreement.path_mtu, 3);
    assert_int_equal(B->agreement.path_mtu, 3);
    assert_int_equal(A->agreement.max_rd_atomic, 3);
    assert_int_equal(B->agreement.max_dest_rd_atomic, 3);
    assert_int_equal(B->agreement.max_rd_atomic, 5);
    assert_int_equal(A->agreement.max_dest_rd_atomic, 5);
    assert_int_equal(A->agreement.rnr_retry_count, 2);
    assert_int_equal(B->agreement.rnr_retry_count, 1);
    assert_int_equal(B->agreement.retry_count, A->agreement.retry_count);
    assert_int_equal(B->agreement.ack_timeout, A->agreement.ack_timeout);
}

static void psns_begin_anywhere(void **state)
{
    struct ibcm_conn *one = net_connect(&net, 0, 1);
    struct ibcm_conn *other = net_connect(&net, 0, 2);
    assert_int_not_equal(ibcm_conn_agreement(one).rq_psn, ibcm_conn_agreement(other).rq_psn);
    assert_true(ibcm_conn_agreement(one).rq_psn <= 0xffffff);
}

static void a_message_says_where_its_receiver_begins_to_send(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(B->agreement.sq_psn, net_last(&net, IBCM_REQ).req.starting_psn);
    assert_int_equal(A->agreement.sq_psn, net_last(&net, IBCM_REP).rep.starting_psn);
}

static void a_response_says_what_the_owner_and_the_device_have(void **state)
{
    B->params.has_srq = B->params.has_flow_control = true;
    B->params.rnr_retry_count = 2;
    B->params.qkey = 0x4321;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    const struct ibcm_message req = net_last(&net, IBCM_REQ), rep = net_last(&net, IBCM_REP);
    const struct ibcm_message rtu = net_last(&net, IBCM_RTU);
    assert_int_equal(rep.rep.remote_id, req.req.local_id);
    assert_int_equal(rep.rep.qp_num, B->params.qp_num);
    assert_int_equal(rep.rep.qkey, 0x4321);
    assert_int_equal(rep.rep.rnr_retry_count, 2);
    assert_true(rep.rep.has_srq && rep.rep.has_flow_control);
    assert_int_equal(rep.rep.target_ack_delay, net_config().ack_delay);
    assert_int_equal(rep.rep.failover, IBCM_FAILOVER_NONE);
    assert_int_equal(rep.rep.ca_guid, 2);
    assert_int_equal(rtu.ids.local_id, req.req.local_id);
    assert_int_equal(rtu.ids.remote_id, rep.rep.local_id);
    assert_int_equal(rtu.transaction_id, req.transaction_id);
    assert_int_equal(rep.transaction_id, req.transaction_id);
}

// 13.4.6.4: an answer is known by it.
static void whatever_is_asked_for_is_a_transaction_of_its_own(void **state)
{
    uint64_t ids[3];
    net_connect(&net, 0, 1);
    net_exchange(&net);
    ids[0] = net_last(&net, IBCM_REQ).transaction_id;
    ibcm_disconnect(A->ibcm, A->conn, net.now);
    net_exchange(&net);
    ids[1] = net_last(&net, IBCM_DREQ).transaction_id;
    assert_int_equal(net_last(&net, IBCM_DREP).transaction_id, ids[1]);
    net_resolve(&net, 0, 1);
    net_exchange(&net);
    ids[2] = net_last(&net, IBCM_SIDR_REQ).transaction_id;
    assert_int_equal(net_last(&net, IBCM_SIDR_REP).transaction_id, ids[2]);
    assert_true(ids[0] != 0 && ids[1] != 0 && ids[2] != 0);
    assert_true(ids[0] != ids[1] && ids[1] != ids[2] && ids[2] != ids[0]);
}

static void an_end_is_asked_for_and_answered_by_both_numbers(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    const struct ibcm_message req = net_last(&net, IBCM_REQ), rep = net_last(&net, IBCM_REP);
    ibcm_disconnect(A->ibcm, A->conn, net.now);
    net_exchange(&net);
    const struct ibcm_message dreq = net_last(&net, IBCM_DREQ), drep = net_last(&net, IBCM_DREP);
    assert_int_equal(dreq.dreq.local_id, req.req.local_id);
    assert_int_equal(dreq.dreq.remote_id, rep.rep.local_id);
    assert_int_equal(dreq.dreq.remote_qp_num, B->params.qp_num);
    assert_int_equal(drep.ids.local_id, rep.rep.local_id);
    assert_int_equal(drep.ids.remote_id, req.req.local_id);
}

static void a_refusal_says_of_which_message_it_speaks(void **state)
{
    B->answer = NET_REJECTS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    struct ibcm_message rej = net_last(&net, IBCM_REJ);
    assert_int_equal(rej.rej.subject, IBCM_SUBJECT_REQ);
    assert_int_equal(rej.rej.remote_id, net_last(&net, IBCM_REQ).req.local_id);
    assert_int_equal(rej.rej.info.len, 0);
    B->answer = NET_ACCEPTS;
    A->waits_to_establish = true;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(ibcm_reject(A->ibcm, A->conn, IBCM_REASON_CONSUMER, span_of("no", 2), net.now),
                     0);
    rej = net_last(&net, IBCM_REJ);
    assert_int_equal(rej.rej.subject, IBCM_SUBJECT_REP);
    assert_int_equal(rej.rej.local_id, net_last(&net, IBCM_REQ).req.local_id);
    assert_int_equal(rej.rej.remote_id, net_last(&net, IBCM_REP).rep.local_id);
}

static void programs_hear_each_other_in_full_length(void **state)
{
    B->answer = NET_WAITS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(B->data_len, IBCM_CONNECT_DATA_MAX);
    assert_memory_equal(B->data, "hello\0\0", 7);
    assert_int_equal(B->peer.source_port, 40000);
    B->params.private_data = span_of("welcome", 7);
    assert_int_equal(ibcm_accept(B->ibcm, B->conn, &B->params, net.now), 0);
    net_exchange(&net);
    assert_int_equal(A->data_len, IBCM_ACCEPT_DATA_MAX);
    assert_memory_equal(A->data, "welcome\0", 8);
}

static void more_than_a_message_holds_is_refused_at_once(void **state)
{
    static const uint8_t data[256];
    const struct ibcm_target target = net_target(A, B);
    int error = 0;
    A->params.private_data = span_of(data, IBCM_CONNECT_DATA_MAX + 1);
    assert_null(ibcm_connect(A->ibcm, &target, &A->params, A, net.now, &error));
    assert_int_equal(error, -EINVAL);
    assert_null(ibcm_resolve(A->ibcm, &target, span_of(data, IBCM_RESOLVE_DATA_MAX + 1), A, net.now,
                             &error));
    assert_int_equal(error, -EINVAL);
    A->params.private_data = span_of(data, IBCM_CONNECT_DATA_MAX);
    B->answer = NET_WAITS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    B->params.private_data = span_of(data, IBCM_ACCEPT_DATA_MAX + 1);
    assert_int_equal(ibcm_accept(B->ibcm, B->conn, &B->params, net.now), -EINVAL);
    assert_int_equal(ibcm_reject(B->ibcm, B->conn, IBCM_REASON_CONSUMER,
                                 span_of(data, IBCM_REJECT_DATA_MAX + 1), net.now),
                     -EINVAL);
    B->params.private_data = span_of(data, IBCM_ACCEPT_DATA_MAX);
    assert_int_equal(ibcm_accept(B->ibcm, B->conn, &B->params, net.now), 0);
    net_exchange(&net);
    assert_int_equal(A->count[IBCM_EVENT_ESTABLISHED], 1);
}

static void a_path_mtu_that_the_device_does_not_have_is_refused_at_once(void **state)
{
    const struct ibcm_target target = net_target(A, B);
    int error = 0;
    A->params.path_mtu = 6;
    assert_null(ibcm_connect(A->ibcm, &target, &A->params, A, net.now, &error));
    assert_int_equal(error, -EINVAL);
}

static void a_rejection_carries_its_reason_and_words(void **state)
{
    B->answer = NET_REJECTS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(A->last, IBCM_EVENT_REJECTED);
    assert_int_equal(A->reason, IBCM_REASON_CONSUMER);
    assert_int_equal(A->data_len, IBCM_REJECT_DATA_MAX);
    assert_memory_equal(A->data, "no\0", 3);
    assert_int_equal(ibcm_conn_state(A->conn), IBCM_OVER);
}

static void a_response_can_be_rejected(void **state)
{
    A->waits_to_establish = true;
    struct ibcm_conn *conn = net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(ibcm_reject(A->ibcm, conn, IBCM_REASON_CONSUMER, span_of("no", 2), net.now),
                     0);
    net_exchange(&net);
    assert_int_equal(B->last, IBCM_EVENT_REJECTED);
    assert_int_equal(B->reason, IBCM_REASON_CONSUMER);
}

static void where_nobody_listens_the_answer_is_invalid_service_id(void **state)
{
    ibcm_unlisten(B->ibcm, &B->listener, net.now);
    net_connect(&net, 0, 1);
    net_exchange_unserved(&net);
    assert_int_equal(A->last, IBCM_EVENT_REJECTED);
    assert_int_equal(A->reason, IBCM_REASON_INVALID_SERVICE_ID);
    assert_int_equal(net_refusals(B, IBCM_REFUSAL_NO_LISTENER), 6);
    assert_int_equal(net.sent[IBCM_REQ], 6);
    assert_int_equal(ibcm_counters(A->ibcm)->unserved, 5);
    assert_int_equal(ibcm_counters(A->ibcm)->repeats, 0);
}

static void who_listens_a_moment_too_late_is_found(void **state)
{
    ibcm_unlisten(B->ibcm, &B->listener, net.now);
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(A->count[IBCM_EVENT_REJECTED], 0);
    assert_int_equal(ibcm_listen(B->ibcm, &B->listener, IP_CM_PS_TCP, NET_PORT, &in6addr_any, 0, B),
                     0);
    net_exchange_unserved(&net);
    assert_int_equal(A->last, IBCM_EVENT_ESTABLISHED);
    assert_int_equal(B->last, IBCM_EVENT_ESTABLISHED);
}

// Each of them counts for what is borne, and none is the end of it.
static void a_refusal_that_comes_twice_is_borne_too(void **state)
{
    ibcm_unlisten(B->ibcm, &B->listener, net.now);
    struct ibcm_conn *conn = net_connect(&net, 0, 1);
    net_run_for(&net, 2 * NS_PER_MS);
    assert_int_equal(ibcm_conn_state(conn), IBCM_REQ_UNSERVED);
    net_deliver(&net, &net.last[IBCM_REJ].ends, net.last[IBCM_REJ].mad);
    assert_int_equal(ibcm_conn_state(conn), IBCM_REQ_UNSERVED);
    assert_int_equal(A->count[IBCM_EVENT_REJECTED], 0);
}

static void who_lets_go_while_nobody_listens_says_so(void **state)
{
    ibcm_unlisten(B->ibcm, &B->listener, net.now);
    struct ibcm_conn *conn = net_connect(&net, 0, 1);
    net_run_for(&net, 2 * NS_PER_MS);
    struct ibcm_message m;
    ibcm_drop(A->ibcm, conn, net.now);
    assert_int_equal(ibcm_message_parse(span_of(net.last[IBCM_REJ].mad, MAD_LEN), &m),
                     IBCM_PARSE_OK);
    assert_int_equal(m.rej.reason, IBCM_REASON_TIMEOUT);
}

static struct ibcm_rej last_rej(void)
{
    static struct ibcm_message m;
    assert_int_equal(ibcm_message_parse(span_of(net.last[IBCM_REJ].mad, MAD_LEN), &m),
                     IBCM_PARSE_OK);
    return m.rej;
}

static void expect_given_up(const struct net_host *host)
{
    const struct ibcm_rej rej = last_rej();
    assert_int_equal(rej.reason, IBCM_REASON_TIMEOUT);
    assert_int_equal(rej.subject, IBCM_SUBJECT_OTHER);
    assert_int_equal(rej.info.len, 8);
    assert_int_equal(get_be64(rej.info.ptr), (uint64_t)(host - net.hosts) + 1);
}

// As Linux's connection manager expects it: it looks for him by his GUID.
static void who_gives_up_says_who_he_is(void **state)
{
    net.lost_kind = IBCM_RTU;
    net.lost_count = 100;
    net_connect(&net, 0, 1);
    net_run_for(&net, 2 * NS_PER_S);
    assert_int_equal(B->count[IBCM_EVENT_ESTABLISHED], 0);
    net_run_for(&net, 60 * NS_PER_S);
    assert_int_equal(B->last, IBCM_EVENT_UNREACHABLE);
    expect_given_up(B);
    net.loss = 100;
    net_connect(&net, 0, 1);
    net_run_for(&net, 60 * NS_PER_S);
    assert_int_equal(A->last, IBCM_EVENT_UNREACHABLE);
    expect_given_up(A);
    net.loss = 0;
    B->answer = NET_REJECTS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(last_rej().info.len, 0);
    assert_int_equal(last_rej().subject, IBCM_SUBJECT_REQ);
}

static void the_listener_at_the_very_address_goes_first(void **state)
{
    struct ibcm_listener exact;
    struct ibcm_event e;
    const struct in6_addr elsewhere = net_address(77);
    assert_int_equal(ibcm_listen(B->ibcm, &exact, IP_CM_PS_TCP, NET_PORT, &elsewhere, 0, NULL), 0);
    struct ibcm_listener here;
    assert_int_equal(ibcm_listen(B->ibcm, &here, IP_CM_PS_TCP, NET_PORT, &B->address, 0, &here), 0);
    struct ibcm_listener again;
    assert_int_equal(ibcm_listen(B->ibcm, &again, IP_CM_PS_TCP, NET_PORT, &B->address, 0, &again),
                     -EADDRINUSE);
    net_connect(&net, 0, 1);
    net.now += NS_PER_MS;
    const struct net_packet p = net.last[IBCM_REQ];
    ibcm_on_mad(B->ibcm, &p.ends, span_of(p.mad, MAD_LEN), false, net.now);
    assert_true(ibcm_next_event(B->ibcm, &e));
    assert_ptr_equal(e.ctx, &here);
    assert_int_equal(e.port, NET_PORT);
}

// Our addresses are of IPv4.
static void a_wildcard_of_one_family_takes_that_family_alone(void **state)
{
    struct ibcm_listener of_ipv6, of_ipv4;
    struct ibcm_event e;
    const struct in6_addr ipv6 = wildcard_of_ipv6(), ipv4 = wildcard_of_ipv4();
    ibcm_unlisten(B->ibcm, &B->listener, net.now);
    assert_int_equal(ibcm_listen(B->ibcm, &of_ipv6, IP_CM_PS_TCP, NET_PORT, &ipv6, 0, NULL), 0);
    net_connect(&net, 0, 1);
    net_exchange_unserved(&net);
    assert_int_equal(A->last, IBCM_EVENT_REJECTED);
    assert_int_equal(A->reason, IBCM_REASON_INVALID_SERVICE_ID);
    assert_int_equal(ibcm_listen(B->ibcm, &of_ipv4, IP_CM_PS_TCP, NET_PORT, &ipv4, 0, &of_ipv4), 0);
    net_connect(&net, 0, 1);
    net.now += NS_PER_MS;
    const struct net_packet p = net.last[IBCM_REQ];
    ibcm_on_mad(B->ibcm, &p.ends, span_of(p.mad, MAD_LEN), false, net.now);
    assert_true(ibcm_next_event(B->ibcm, &e));
    assert_ptr_equal(e.ctx, &of_ipv4);
}

static void a_listener_that_goes_away_refuses_whom_nobody_was_told_of(void **state)
{
    net_connect(&net, 0, 1);
    const struct net_packet p = net.last[IBCM_REQ];
    struct ibcm_event e;
    ibcm_on_mad(B->ibcm, &p.ends, span_of(p.mad, MAD_LEN), false, net.now);
    ibcm_unlisten(B->ibcm, &B->listener, net.now);
    assert_false(ibcm_next_event(B->ibcm, &e));
    net_exchange_unserved(&net);
    assert_int_equal(A->last, IBCM_EVENT_REJECTED);
    assert_int_equal(A->reason, IBCM_REASON_INVALID_SERVICE_ID);
}

static void a_listener_that_goes_away_leaves_whom_somebody_was_told_of(void **state)
{
    B->answer = NET_WAITS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(B->last, IBCM_EVENT_CONNECT_REQUEST);
    ibcm_unlisten(B->ibcm, &B->listener, net.now);
    assert_int_equal(ibcm_accept(B->ibcm, B->conn, &B->params, net.now), 0);
    net_exchange(&net);
    assert_int_equal(A->last, IBCM_EVENT_ESTABLISHED);
}

static void the_first_packet_of_data_stands_for_the_rtu(void **state)
{
    net.lost_kind = IBCM_RTU;
    net.lost_count = 1;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(B->count[IBCM_EVENT_ESTABLISHED], 0);
    ibcm_on_communication(B->ibcm, B->conn, net.now);
    net_settle(&net);
    assert_int_equal(B->count[IBCM_EVENT_ESTABLISHED], 1);
    net_run_for(&net, 60 * NS_PER_S);
    assert_int_equal(net.sent[IBCM_REP], 1);
    assert_int_equal(B->count[IBCM_EVENT_ESTABLISHED], 1);
}

static void an_event_comes_with_what_its_owner_has_given(void **state)
{
    int given, given_later;
    const struct ibcm_target target = net_target(A, B);
    int error;
    B->answer = NET_WAITS;
    struct ibcm_conn *conn = ibcm_connect(A->ibcm, &target, &A->params, &given, net.now, &error);
    net_exchange(&net);
    assert_ptr_equal(B->ctx, B); // of the listener, as long as there is none of its own
    ibcm_conn_set_ctx(B->conn, &given_later);
    assert_int_equal(ibcm_accept(B->ibcm, B->conn, &B->params, net.now), 0);
    net_exchange(&net);
    assert_ptr_equal(A->ctx, &given);
    assert_ptr_equal(B->ctx, &given_later);
    ibcm_drop(A->ibcm, conn, net.now);
}

static void what_becomes_of_connections_is_counted_where_it_is_told(void **state)
{
    const struct ibcm_counters *a = ibcm_counters(A->ibcm), *b = ibcm_counters(B->ibcm);
    net_connect(&net, 0, 1);
    net_exchange(&net);
    ibcm_disconnect(B->ibcm, B->conn, net.now);
    net_exchange(&net);
    B->answer = NET_REJECTS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    net.loss = 100;
    net_connect(&net, 0, 1);
    net_run_for(&net, 60 * NS_PER_S);
    assert_int_equal(b->requests, 2);
    assert_int_equal(a->requests, 0);
    assert_int_equal(a->established, 1);
    assert_int_equal(b->established, 1);
    assert_int_equal(a->disconnected, 1);
    assert_int_equal(b->disconnected, 1);
    assert_int_equal(a->rejected, 1);
    assert_int_equal(b->rejected, 0);
    assert_int_equal(a->unreachable, 1);
    assert_int_equal(b->unreachable, 0);
}

static void either_end_can_end_it(void **state)
{
    for (unsigned who = 0; who < 2; who++) {
        net_connect(&net, 0, 1);
        net_exchange(&net);
        ibcm_disconnect(net.hosts[who].ibcm, net.hosts[who].conn, net.now);
        net_exchange(&net);
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(net.hosts[i].last, IBCM_EVENT_DISCONNECTED);
            assert_int_equal(ibcm_conn_state(net.hosts[i].conn), IBCM_TIMEWAIT);
        }
        net_run_for(&net, 5 * NS_PER_S);
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(net.hosts[i].last, IBCM_EVENT_TIMEWAIT_EXIT);
            ibcm_drop(net.hosts[i].ibcm, net.hosts[i].conn, net.now);
        }
    }
    assert_int_equal(net.sent[IBCM_DREQ], 2);
    assert_int_equal(net.sent[IBCM_DREP], 2);
}

static void both_ends_can_end_it_at_once(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    ibcm_disconnect(A->ibcm, A->conn, net.now);
    ibcm_disconnect(B->ibcm, B->conn, net.now);
    net_exchange(&net);
    assert_int_equal(A->count[IBCM_EVENT_DISCONNECTED], 1);
    assert_int_equal(B->count[IBCM_EVENT_DISCONNECTED], 1);
}

static void the_number_stays_out_of_use_in_timewait(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_false(ibcm_has_qp_num(A->ibcm, A->params.qp_num));
    ibcm_disconnect(A->ibcm, A->conn, net.now);
    net_exchange(&net);
    ibcm_drop(A->ibcm, A->conn, net.now);
    assert_true(ibcm_has_qp_num(A->ibcm, A->params.qp_num));
    assert_false(ibcm_has_qp_num(A->ibcm, A->params.qp_num + 1));
    net_run_for(&net, 5 * NS_PER_S);
    assert_false(ibcm_has_qp_num(A->ibcm, A->params.qp_num));
}

static void who_lets_go_before_the_answer_tells_the_peer(void **state)
{
    B->answer = NET_WAITS;
    struct ibcm_conn *conn = net_connect(&net, 0, 1);
    net_exchange(&net);
    ibcm_drop(A->ibcm, conn, net.now);
    net_exchange(&net);
    assert_int_equal(B->last, IBCM_EVENT_REJECTED);
    assert_int_equal(B->reason, IBCM_REASON_TIMEOUT);
    assert_int_equal(ibcm_accept(B->ibcm, B->conn, &B->params, net.now), -ENOTCONN);
    ibcm_drop(B->ibcm, B->conn, net.now);
}

static void who_lets_go_of_a_request_refuses_it(void **state)
{
    B->answer = NET_WAITS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    ibcm_drop(B->ibcm, B->conn, net.now);
    net_exchange(&net);
    assert_int_equal(A->last, IBCM_EVENT_REJECTED);
    assert_int_equal(A->reason, IBCM_REASON_CONSUMER);
}

static void a_slow_owner_asks_for_time_and_gets_it(void **state)
{
    B->answer = NET_WAITS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(ibcm_delay(B->ibcm, B->conn, net.now), 0);
    net_run_for(&net, 60 * NS_PER_S);
    assert_int_equal(net.sent[IBCM_REQ], 1);
    assert_int_equal(ibcm_conn_state(A->conn), IBCM_MRA_REQ_RCVD);
    assert_int_equal(ibcm_accept(B->ibcm, B->conn, &B->params, net.now), 0);
    net_exchange(&net);
    assert_int_equal(A->count[IBCM_EVENT_ESTABLISHED], 1);
    assert_int_equal(B->count[IBCM_EVENT_ESTABLISHED], 1);
}

static void a_request_that_comes_again_asks_for_time_by_itself(void **state)
{
    B->answer = NET_WAITS;
    net_connect(&net, 0, 1);
    net_run_for(&net, 60 * NS_PER_S);
    assert_int_equal(net.sent[IBCM_REQ], 2);
    assert_int_equal(net.sent[IBCM_MRA], 1);
    assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], 1);
}

static void a_word_that_is_lost_behind_a_plea_for_time_is_asked_for_soon(void **state)
{
    A->waits_to_establish = true;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    const struct net_packet rep = net.last[IBCM_REP]; // the network doubles it
    ibcm_on_mad(A->ibcm, &rep.ends, span_of(rep.mad, MAD_LEN), IBCM_SHARING_NONE, net.now);
    net_exchange(&net);
    assert_int_equal(ibcm_conn_state(B->conn), IBCM_MRA_REP_RCVD);
    net.lost_kind = IBCM_RTU;
    net.lost_count = 1;
    ibcm_establish(A->ibcm, A->conn, net.now);
    net_run_for(&net, 10 * NS_PER_S);
    assert_int_equal(B->count[IBCM_EVENT_ESTABLISHED], 1);
}

static void a_peer_that_asks_for_time_for_ever_gets_an_end(void **state)
{
    B->answer = NET_WAITS;
    net_connect(&net, 0, 1);
    net_run_for(&net, 3600 * NS_PER_S);
    assert_int_equal(A->last, IBCM_EVENT_UNREACHABLE);
    assert_int_equal(net.sent[IBCM_REQ], 16);
}

static void a_silent_peer_is_unreachable_after_all_retries(void **state)
{
    net.loss = 100;
    net_connect(&net, 0, 1);
    net_run_for(&net, 20 * NS_PER_S);
    assert_int_equal(A->count[IBCM_EVENT_UNREACHABLE], 0);
    net_run_for(&net, 20 * NS_PER_S);
    assert_int_equal(A->count[IBCM_EVENT_UNREACHABLE], 1);
    assert_true(A->is_silent);
    assert_int_equal(net.sent[IBCM_REQ], 16);
    assert_int_equal(ibcm_counters(A->ibcm)->repeats, 15);
}

static void each_message_has_all_its_tries(void **state)
{
    net.lost_kind = IBCM_REQ;
    net.lost_count = 14;
    net_connect(&net, 0, 1);
    net_run_for(&net, 60 * NS_PER_S);
    assert_int_equal(A->count[IBCM_EVENT_ESTABLISHED], 1);
    net.loss = 100;
    ibcm_disconnect(A->ibcm, A->conn, net.now);
    net_run_for(&net, 60 * NS_PER_S);
    assert_int_equal(net.sent[IBCM_DREQ], 16);
    assert_int_equal(A->count[IBCM_EVENT_DISCONNECTED], 1);
}

static void who_ends_hears_whether_the_peer_was_there(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_false(A->is_silent);
    ibcm_disconnect(A->ibcm, A->conn, net.now);
    net_exchange(&net);
    assert_int_equal(A->last, IBCM_EVENT_DISCONNECTED);
    assert_false(A->is_silent);
    net_connect(&net, 0, 1);
    net_exchange(&net);
    net.loss = 100;
    ibcm_disconnect(A->ibcm, A->conn, net.now);
    net_run_for(&net, 60 * NS_PER_S);
    assert_int_equal(A->count[IBCM_EVENT_DISCONNECTED], 2);
    assert_true(A->is_silent);
}

static void an_acceptance_asks_for_no_more_than_was_offered(void **state)
{
    A->params.responder_resources = 3;
    A->params.initiator_depth = 2;
    B->params.responder_resources = B->params.initiator_depth = 100;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(A->peer.initiator_depth, 3);
    assert_int_equal(A->peer.responder_resources, 2);
}

static void an_acceptance_may_ask_for_less(void **state)
{
    A->params.responder_resources = A->params.initiator_depth = 5;
    B->params.responder_resources = 2;
    B->params.initiator_depth = 3;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(A->peer.responder_resources, 2);
    assert_int_equal(A->peer.initiator_depth, 3);
}

// B answers with a queue pair that A has a connection with: B has forgotten that one.
static void a_response_from_a_queue_pair_begun_anew_ends_its_old_connection(void **state)
{
    struct ibcm_conn *old = net_connect(&net, 0, 1);
    net_exchange(&net);
    A->params.qp_num++;
    struct ibcm_conn *conn = net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(A->count[IBCM_EVENT_DISCONNECTED], 1);
    assert_int_equal(ibcm_conn_state(old), IBCM_TIMEWAIT);
    assert_int_equal(ibcm_conn_state(conn), IBCM_ESTABLISHED);
}

static void a_connection_leads_to_the_own_address_too(void **state)
{
    struct ibcm_params other = net_params(0x20001);
    A->answer = NET_WAITS;
    net_connect(&net, 0, 0);
    net_exchange(&net);
    assert_int_equal(A->last, IBCM_EVENT_CONNECT_REQUEST);
    assert_int_equal(ibcm_accept(A->ibcm, A->conn, &other, net.now), 0);
    net_exchange(&net);
    assert_int_equal(A->count[IBCM_EVENT_ESTABLISHED], 2);
}

static void what_nobody_holds_is_given_back(void **state)
{
    // More than there is room for at a time.
    for (unsigned i = 0; i < 200; i++) {
        A->drops_at_end = B->drops_at_end = true;
        net_connect(&net, 0, 1);
        net_exchange(&net);
        ibcm_disconnect(A->ibcm, A->conn, net.now);
        net_run_for(&net, 5 * NS_PER_S);
    }
    assert_int_equal(A->count[IBCM_EVENT_DISCONNECTED], 200);
    assert_int_equal(B->count[IBCM_EVENT_DISCONNECTED], 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_connection_is_established_at_both_ends),
        TEST(what_is_sent_is_counted_by_its_kind),
        TEST(what_the_link_does_not_take_is_counted_and_sent_again),
        TEST(each_end_learns_what_its_queue_pair_needs),
        TEST(psns_begin_anywhere),
        TEST(a_message_says_where_its_receiver_begins_to_send),
        TEST(a_response_says_what_the_owner_and_the_device_have),
        TEST(whatever_is_asked_for_is_a_transaction_of_its_own),
        TEST(an_end_is_asked_for_and_answered_by_both_numbers),
        TEST(a_refusal_says_of_which_message_it_speaks),
        TEST(programs_hear_each_other_in_full_length),
        TEST(more_than_a_message_holds_is_refused_at_once),
        TEST(a_path_mtu_that_the_device_does_not_have_is_refused_at_once),
        TEST(a_rejection_carries_its_reason_and_words),
        TEST(a_response_can_be_rejected),
        TEST(where_nobody_listens_the_answer_is_invalid_service_id),
        TEST(who_listens_a_moment_too_late_is_found),
        TEST(a_refusal_that_comes_twice_is_borne_too),
        TEST(who_lets_go_while_nobody_listens_says_so),
        TEST(the_listener_at_the_very_address_goes_first),
        TEST(a_wildcard_of_one_family_takes_that_family_alone),
        TEST(a_listener_that_goes_away_refuses_whom_nobody_was_told_of),
        TEST(a_listener_that_goes_away_leaves_whom_somebody_was_told_of),
        TEST(the_first_packet_of_data_stands_for_the_rtu),
        TEST(either_end_can_end_it),
        TEST(an_event_comes_with_what_its_owner_has_given),
        TEST(what_becomes_of_connections_is_counted_where_it_is_told),
        TEST(both_ends_can_end_it_at_once),
        TEST(the_number_stays_out_of_use_in_timewait),
        TEST(who_lets_go_before_the_answer_tells_the_peer),
        TEST(who_lets_go_of_a_request_refuses_it),
        TEST(a_slow_owner_asks_for_time_and_gets_it),
        TEST(a_request_that_comes_again_asks_for_time_by_itself),
        TEST(a_word_that_is_lost_behind_a_plea_for_time_is_asked_for_soon),
        TEST(a_peer_that_asks_for_time_for_ever_gets_an_end),
        TEST(a_silent_peer_is_unreachable_after_all_retries),
        TEST(each_message_has_all_its_tries),
        TEST(who_ends_hears_whether_the_peer_was_there),
        TEST(who_gives_up_says_who_he_is),
        TEST(an_acceptance_asks_for_no_more_than_was_offered),
        TEST(an_acceptance_may_ask_for_less),
        TEST(a_response_from_a_queue_pair_begun_anew_ends_its_old_connection),
        TEST(a_connection_leads_to_the_own_address_too),
        TEST(what_nobody_holds_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
