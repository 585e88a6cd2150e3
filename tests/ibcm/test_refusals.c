// What is not taken: each has a name and a counter, and an answer where one is due.
#include "tests/ibcm/net.h"

static struct net net;
#define A (&net.hosts[0])
#define B (&net.hosts[1])

static bool others_serve;

static bool do_others_serve(void *ctx, uint64_t service_id, const struct in6_addr *local)
{
    return others_serve;
}

static int set_up(void **state)
{
    struct ibcm_config c = net_config();
    c.others.serve = do_others_serve;
    others_serve = false;
    net_init_with(&net, 1, &c);
    return 0;
}

static int tear_down(void **state)
{
    net_fini(&net);
    return 0;
}

// The last message of a kind, to be bent and sent by hand.
static struct ibcm_message last(enum ibcm_kind kind)
{
    struct ibcm_message m;
    assert_true(net.sent[kind] > 0);
    assert_int_equal(ibcm_message_parse(span_of(net.last[kind].mad, MAD_LEN), &m), IBCM_PARSE_OK);
    return m;
}

static void deliver_from(const struct ibcm_message *m, const struct ibcm_ends *ends)
{
    uint8_t mad[MAD_LEN];
    ibcm_message_emit(m, mad);
    net_deliver(&net, ends, mad);
}

static void deliver(const struct ibcm_message *m)
{
    deliver_from(m, &net.last[m->kind].ends);
}

// A REQ of A's that B has not seen: the one that A sends is lost.
static struct ibcm_message req_of_a(void)
{
    net.lost_kind = IBCM_REQ;
    net.lost_count = 1;
    net_connect(&net, 0, 1);
    return last(IBCM_REQ);
}

static void b_refuses(const struct ibcm_message *m, enum ibcm_refusal refusal, unsigned reason)
{
    uint64_t before = net_refusals(B, refusal);
    unsigned sent = net.sent[IBCM_REJ];
    deliver(m);
    assert_int_equal(net_refusals(B, refusal), before + 1);
    assert_int_equal(net.sent[IBCM_REJ], sent + (reason != 0));
    if (reason != 0) {
        assert_int_equal(last(IBCM_REJ).rej.reason, reason);
        assert_int_equal(last(IBCM_REJ).rej.remote_id, m->req.local_id);
    }
}

/* ---- REQ ------------------------------------------------------------------------------------- */

static void other_transports_are_refused(void **state)
{
    struct ibcm_message m = req_of_a();
    m.req.transport = IBCM_TRANSPORT_RD;
    b_refuses(&m, IBCM_REFUSAL_TRANSPORT, IBCM_REASON_INVALID_TRANSPORT);
    m.req.transport = IBCM_TRANSPORT_EXTENDED;
    b_refuses(&m, IBCM_REFUSAL_TRANSPORT, IBCM_REASON_INVALID_TRANSPORT);
    m.req.transport = IBCM_TRANSPORT_UC;
    deliver(&m);
    assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], 1);
}

static void queue_pairs_of_management_and_groups_are_refused(void **state)
{
    static const uint32_t qp_nums[] = {0, 1, 0xffffff};
    struct ibcm_message m = req_of_a();
    for (size_t i = 0; i < 3; i++) {
        m.req.qp_num = qp_nums[i];
        b_refuses(&m, IBCM_REFUSAL_QP_NUM, IBCM_REASON_NO_QP);
    }
}

static void path_mtus_that_the_device_does_not_have_are_refused(void **state)
{
    struct ibcm_message m = req_of_a();
    m.req.path_mtu = 0;
    b_refuses(&m, IBCM_REFUSAL_MTU, IBCM_REASON_INVALID_MTU);
    m.req.path_mtu = 6;
    b_refuses(&m, IBCM_REFUSAL_MTU, IBCM_REASON_INVALID_MTU);
}

static void the_least_and_the_greatest_of_both_are_taken(void **state)
{
    static const struct {
        uint32_t qp_num;
        uint8_t path_mtu;
    } rows[] = {{2, 1}, {0xfffffe, 5}};
    struct ibcm_message m = req_of_a();
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        m.req.local_id += 1 + i; // other requests
        m.req.qp_num = rows[i].qp_num;
        m.req.path_mtu = rows[i].path_mtu;
        deliver(&m);
        assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], i + 1);
        assert_int_equal(ibcm_conn_agreement(B->conn).path_mtu, rows[i].path_mtu);
    }
}

static void gids_other_than_the_addresses_of_the_packet_are_refused(void **state)
{
    struct ibcm_message m = req_of_a(), other = m;
    other.req.primary.local_gid = net_address(9);
    b_refuses(&other, IBCM_REFUSAL_GID, IBCM_REASON_INVALID_GID);
    other = m;
    other.req.primary.remote_gid = net_address(9);
    b_refuses(&other, IBCM_REFUSAL_GID, IBCM_REASON_INVALID_GID);
}

static void private_data_without_the_header_are_refused(void **state)
{
    uint8_t data[IP_CM_HEADER_LEN];
    struct ibcm_message m = req_of_a();
    memcpy(data, m.req.private_data.ptr, sizeof data);
    m.req.private_data = span_of(data, sizeof data);
    data[IP_CM_OFF_IP_VERSION] = 0x50;
    b_refuses(&m, IBCM_REFUSAL_IP_HEADER, IBCM_REASON_UNSUPPORTED);
    data[IP_CM_OFF_IP_VERSION] = 0x40;
    data[IP_CM_OFF_SOURCE + 15]++;
    b_refuses(&m, IBCM_REFUSAL_IP_ADDRESS, IBCM_REASON_UNSUPPORTED);
    data[IP_CM_OFF_SOURCE + 15]--;
    data[IP_CM_OFF_DESTINATION + 15]++;
    b_refuses(&m, IBCM_REFUSAL_IP_ADDRESS, IBCM_REASON_UNSUPPORTED);
}

static void an_id_that_stands_for_something_else_is_refused(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    struct ibcm_message m = last(IBCM_REQ);
    m.req.qp_num++;
    b_refuses(&m, IBCM_REFUSAL_DUPLICATE_ID, IBCM_REASON_DUPLICATE_ID);
    assert_int_equal(ibcm_conn_state(B->conn), IBCM_ESTABLISHED);
}

static void a_queue_pair_that_begins_anew_ends_its_old_connection(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    struct ibcm_message m = last(IBCM_REQ), other = m;
    other.req.local_id++;
    other.req.ca_guid++;
    deliver(&other); // another device of that address
    assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], 2);
    assert_int_equal(B->count[IBCM_EVENT_DISCONNECTED], 0);
    m.req.local_id += 2;
    b_refuses(&m, IBCM_REFUSAL_STALE, IBCM_REASON_STALE);
    assert_int_equal(B->count[IBCM_EVENT_DISCONNECTED], 1);
    deliver(&m);
    assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], 3);
}

static void a_listener_takes_no_more_than_its_backlog(void **state)
{
    struct ibcm_listener small;
    struct ibcm_message m = req_of_a();
    assert_int_equal(ibcm_listen(B->ibcm, &small, IP_CM_PS_TCP, NET_PORT, &B->address, 2, B), 0);
    B->answer = NET_WAITS;
    for (unsigned i = 0; i < 2; i++) {
        m.req.local_id++;
        m.req.qp_num++;
        deliver(&m);
    }
    assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], 2);
    m.req.local_id++;
    m.req.qp_num++;
    b_refuses(&m, IBCM_REFUSAL_BACKLOG_FULL, IBCM_REASON_NO_RESOURCES);
    ibcm_drop(B->ibcm, B->conn, net.now);
    deliver(&m);
    assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], 3);
}

static void without_a_place_the_answer_is_no_resources(void **state)
{
    for (unsigned i = 0; i < net_config().conn_max; i++) {
        net_connect(&net, 1, 2);
        net.packets[0].at_ns = INSTANT_NEVER;
    }
    int error;
    const struct ibcm_target target = net_target(B, A);
    assert_null(ibcm_connect(B->ibcm, &target, &B->params, B, net.now, &error));
    assert_int_equal(error, -EAGAIN);
    struct ibcm_message m = req_of_a();
    b_refuses(&m, IBCM_REFUSAL_TABLE_FULL, IBCM_REASON_NO_RESOURCES);
}

static int give_b(const struct net_packet *p, enum ibcm_sharing sharing)
{
    return ibcm_on_mad(B->ibcm, &p->ends, span_of(p->mad, MAD_LEN), sharing, net.now);
}

// Who reads a request first decides alone, before another has it: it is either's, or refused.
static void who_shares_an_address_does_not_answer_for_others(void **state)
{
    req_of_a();
    const struct net_packet p = net.last[IBCM_REQ];
    ibcm_unlisten(B->ibcm, &B->listener, net.now);
    others_serve = true;
    assert_int_equal(give_b(&p, IBCM_SHARING_FIRST), IBCM_OWNER_ALL);
    assert_int_equal(give_b(&p, IBCM_SHARING_COPY), IBCM_OWNER_HERE);
    assert_int_equal(net_refusals(B, IBCM_REFUSAL_ELSEWHERE), 1);
    assert_int_equal(net.sent[IBCM_REJ], 0);
    others_serve = false;
    assert_int_equal(give_b(&p, IBCM_SHARING_FIRST), IBCM_OWNER_HERE);
    assert_int_equal(net_refusals(B, IBCM_REFUSAL_NO_LISTENER), 1);
    assert_int_equal(net.sent[IBCM_REJ], 1);
}

static void a_request_for_a_listener_here_is_nobody_elses(void **state)
{
    req_of_a();
    const struct net_packet p = net.last[IBCM_REQ];
    others_serve = true;
    assert_int_equal(give_b(&p, IBCM_SHARING_FIRST), IBCM_OWNER_HERE);
    assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], 0);
    net_exchange(&net);
    assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], 1);
}

// Both bits of each, so that none stands for another.
static void a_request_says_all_that_its_queue_pair_needs(void **state)
{
    struct ibcm_message m = req_of_a();
    B->answer = NET_WAITS;
    for (unsigned is_set = 0; is_set < 2; is_set++) {
        m.req.local_id++;
        m.req.ca_guid = 0x1122334455667788;
        m.req.qp_num = 0x123 + is_set;
        m.req.qkey = 0x80010000;
        m.req.starting_psn = 0x654321;
        m.req.responder_resources = 11;
        m.req.initiator_depth = 13;
        m.req.retry_count = 5;
        m.req.rnr_retry_count = 3;
        m.req.has_flow_control = is_set;
        m.req.has_srq = !is_set;
        m.req.primary.traffic_class = 0x28;
        m.req.primary.hop_limit = 9;
        m.req.primary.flow_label = 0x54321;
        m.req.primary.local_ack_timeout = 17;
        deliver(&m);
        assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], is_set + 1);
        assert_int_equal(B->peer.ca_guid, 0x1122334455667788);
        assert_int_equal(B->peer.qp_num, 0x123 + is_set);
        assert_int_equal(B->peer.qkey, 0x80010000);
        assert_int_equal(B->peer.starting_psn, 0x654321);
        assert_int_equal(B->peer.responder_resources, 11);
        assert_int_equal(B->peer.initiator_depth, 13);
        assert_int_equal(B->peer.retry_count, 5);
        assert_int_equal(B->peer.rnr_retry_count, 3);
        assert_int_equal(B->peer.has_flow_control, is_set);
        assert_int_equal(B->peer.has_srq, !is_set);
        const struct ibcm_agreement agreement = ibcm_conn_agreement(B->conn);
        assert_int_equal(agreement.max_rd_atomic, 11);
        assert_int_equal(agreement.max_dest_rd_atomic, 13);
        assert_int_equal(agreement.traffic_class, 0x28);
        assert_int_equal(agreement.hop_limit, 9);
        assert_int_equal(agreement.flow_label, 0x54321);
        assert_int_equal(agreement.ack_timeout, 17);
    }
}

/* ---- what belongs to a connection ------------------------------------------------------------ */

static void a_message_for_another_process_is_left_to_it(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    struct ibcm_message m = last(IBCM_RTU);
    m.ids.remote_id ^= 1U << 24;
    b_refuses(&m, IBCM_REFUSAL_OTHER_SLOT, 0);
    struct net_packet p = net.last[IBCM_RTU];
    ibcm_message_emit(&m, p.mad);
    assert_int_equal(give_b(&p, IBCM_SHARING_FIRST), m.ids.remote_id >> 24);
    assert_int_equal(net_refusals(B, IBCM_REFUSAL_OTHER_SLOT), 1);
}

static void a_message_from_elsewhere_is_refused(void **state)
{
    net.lost_kind = IBCM_RTU;
    net.lost_count = 1;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    const struct ibcm_message m = last(IBCM_RTU);
    struct ibcm_ends ends = net.last[IBCM_RTU].ends;
    ends.remote = net_address(9);
    deliver_from(&m, &ends);
    assert_int_equal(net_refusals(B, IBCM_REFUSAL_WRONG_ADDRESS), 1);
    assert_int_equal(ibcm_conn_state(B->conn), IBCM_REP_SENT);
}

static void a_message_of_another_id_of_the_peer_is_refused(void **state)
{
    net.lost_kind = IBCM_RTU;
    net.lost_count = 1;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    struct ibcm_message m = last(IBCM_RTU);
    m.ids.local_id++;
    b_refuses(&m, IBCM_REFUSAL_WRONG_ID, 0);
    assert_int_equal(ibcm_conn_state(B->conn), IBCM_REP_SENT);
}

static void a_dreq_for_another_queue_pair_is_refused(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    net.lost_kind = IBCM_DREQ;
    net.lost_count = 1;
    ibcm_disconnect(A->ibcm, A->conn, net.now);
    struct ibcm_message m = last(IBCM_DREQ);
    m.dreq.remote_qp_num++;
    b_refuses(&m, IBCM_REFUSAL_WRONG_QP_NUM, 0);
    assert_int_equal(ibcm_conn_state(B->conn), IBCM_ESTABLISHED);
}

static void a_dreq_of_nobody_is_answered(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    ibcm_disconnect(A->ibcm, A->conn, net.now);
    struct ibcm_message m = last(IBCM_DREQ);
    m.dreq.remote_id ^= 1;
    deliver(&m);
    assert_int_equal(net_refusals(B, IBCM_REFUSAL_UNKNOWN_ID), 1);
    assert_int_equal(net.sent[IBCM_DREP], 1);
    assert_int_equal(last(IBCM_DREP).ids.remote_id, m.dreq.local_id);
}

// Who had it has ended, and nobody else reads what is for it.
static void a_dreq_for_a_process_that_is_gone_is_answered(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    ibcm_disconnect(A->ibcm, A->conn, net.now);
    struct ibcm_message m = last(IBCM_DREQ);
    m.dreq.remote_id ^= 1U << 24;
    deliver(&m);
    assert_int_equal(net_refusals(B, IBCM_REFUSAL_OTHER_SLOT), 1);
    assert_int_equal(net.sent[IBCM_DREP], 1);
}

// The REP belongs to the REQ, whatever was refused between them.
static void a_dreq_before_the_answer_does_not_change_it(void **state)
{
    B->answer = NET_WAITS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(ibcm_delay(B->ibcm, B->conn, net.now), 0);
    const struct ibcm_message req = last(IBCM_REQ), mra = last(IBCM_MRA);
    const struct ibcm_message m = {
        .kind = IBCM_DREQ,
        .transaction_id = ~req.transaction_id,
        .dreq = {.local_id = mra.mra.remote_id, .remote_id = mra.mra.local_id}};
    deliver_from(&m, &net.last[IBCM_REQ].ends);
    assert_int_equal(net_refusals(B, IBCM_REFUSAL_UNEXPECTED), 1);
    assert_int_equal(ibcm_accept(B->ibcm, B->conn, &B->params, net.now), 0);
    assert_int_equal(last(IBCM_REP).transaction_id, req.transaction_id);
}

static void a_rep_of_nobody_is_rejected(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    struct ibcm_message m = last(IBCM_REP);
    m.rep.remote_id ^= 1;
    deliver(&m);
    assert_int_equal(net_refusals(A, IBCM_REFUSAL_UNKNOWN_ID), 1);
    assert_int_equal(last(IBCM_REJ).rej.reason, IBCM_REASON_INVALID_ID);
    assert_int_equal(ibcm_conn_state(B->conn), IBCM_ESTABLISHED);
}

static void who_asks_gets_no_rtu_and_who_is_asked_no_rep(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    struct ibcm_message rtu = last(IBCM_RTU), rep = last(IBCM_REP);
    rtu.ids = (struct ibcm_ids){.local_id = rep.rep.local_id, .remote_id = rep.rep.remote_id};
    deliver_from(&rtu, &net.last[IBCM_REP].ends);
    assert_int_equal(net_refusals(A, IBCM_REFUSAL_UNEXPECTED), 1);
    rep.rep.local_id = rtu.ids.remote_id;
    rep.rep.remote_id = rtu.ids.local_id;
    deliver_from(&rep, &net.last[IBCM_RTU].ends);
    assert_int_equal(net_refusals(B, IBCM_REFUSAL_UNEXPECTED), 1);
}

static void an_mra_must_speak_of_what_was_said(void **state)
{
    B->answer = NET_WAITS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    net.lost_kind = IBCM_MRA;
    net.lost_count = 1;
    assert_int_equal(ibcm_delay(B->ibcm, B->conn, net.now), 0);
    struct ibcm_message m = last(IBCM_MRA);
    m.mra.subject = IBCM_SUBJECT_REP;
    deliver(&m);
    assert_int_equal(net_refusals(A, IBCM_REFUSAL_UNEXPECTED), 1);
    assert_int_equal(ibcm_conn_state(A->conn), IBCM_REQ_SENT);
}

static void a_sidr_rep_for_another_service_is_refused(void **state)
{
    net.lost_kind = IBCM_SIDR_REP;
    net.lost_count = 1;
    net_resolve(&net, 0, 1);
    net_exchange(&net);
    struct ibcm_message m = last(IBCM_SIDR_REP);
    m.sidr_rep.service_id++;
    deliver(&m);
    assert_int_equal(net_refusals(A, IBCM_REFUSAL_UNEXPECTED), 1);
    assert_int_equal(A->count[IBCM_EVENT_ESTABLISHED], 0);
}

// The first ends the connection's id: what comes behind it, forged or not, is for nobody.
static void a_second_sidr_rep_does_not_change_the_first(void **state)
{
    net.lost_kind = IBCM_SIDR_REP;
    net.lost_count = 1;
    net_resolve(&net, 0, 1);
    net_exchange(&net);
    struct ibcm_message m = last(IBCM_SIDR_REP);
    const struct net_packet first = net.last[IBCM_SIDR_REP];
    uint8_t second[MAD_LEN];
    m.sidr_rep.qp_num ^= 0x40;
    m.sidr_rep.qkey ^= 0x40;
    ibcm_message_emit(&m, second);
    ibcm_on_mad(A->ibcm, &first.ends, span_of(first.mad, MAD_LEN), false, net.now);
    ibcm_on_mad(A->ibcm, &first.ends, span_of(second, MAD_LEN), false, net.now);
    net_settle(&net);
    assert_int_equal(A->count[IBCM_EVENT_ESTABLISHED], 1);
    assert_int_equal(A->peer.qp_num, B->params.qp_num);
    assert_int_equal(A->peer.qkey, B->params.qkey);
    assert_int_equal(net_refusals(A, IBCM_REFUSAL_UNKNOWN_ID), 1);
}

/* ---- what is no message, and what is too much ------------------------------------------------ */

static void what_is_no_message_is_counted_by_what_is_wrong(void **state)
{
    uint8_t mad[MAD_LEN] = {0};
    const struct ibcm_ends ends = {.local = B->address, .remote = A->address};
    ibcm_on_mad(B->ibcm, &ends, span_of(mad, 10), false, net.now);
    ibcm_on_mad(B->ibcm, &ends, span_of(mad, MAD_LEN), false, net.now);
    assert_int_equal(ibcm_counters(B->ibcm)->malformed[IBCM_PARSE_BAD_LEN], 1);
    assert_int_equal(ibcm_counters(B->ibcm)->malformed[IBCM_PARSE_BASE_VERSION], 1);
}

static void a_peer_that_asks_for_hours_by_mra_gets_a_minute(void **state)
{
    B->answer = NET_WAITS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    net.lost_kind = IBCM_MRA;
    net.lost_count = 1;
    assert_int_equal(ibcm_delay(B->ibcm, B->conn, net.now), 0);
    struct ibcm_message m = last(IBCM_MRA);
    m.mra.service_timeout = IB_TIME_MAX;
    deliver(&m);
    assert_int_equal(ibcm_conn_state(A->conn), IBCM_MRA_REQ_RCVD);
    assert_in_range(ibcm_next_deadline(A->ibcm) - net.now, 60 * NS_PER_S, 80 * NS_PER_S);
}

static void a_peer_that_wants_hours_to_answer_gets_seconds(void **state)
{
    struct ibcm_message m = req_of_a();
    m.req.local_timeout = IB_TIME_MAX;
    deliver(&m);
    assert_int_equal(ibcm_conn_state(B->conn), IBCM_REP_SENT);
    assert_in_range(ibcm_next_deadline(B->ibcm) - net.now, 8 * NS_PER_S, 10 * NS_PER_S);
}

static void answers_to_nobody_are_so_many_in_a_second(void **state)
{
    enum { MAX = 1000 };
    struct ibcm_message m = req_of_a();
    m.req.service_id++;
    for (unsigned i = 0; i < MAX + 10; i++) {
        const struct net_packet p = net.last[IBCM_REQ];
        uint8_t mad[MAD_LEN];
        m.req.local_id++;
        ibcm_message_emit(&m, mad);
        ibcm_on_mad(B->ibcm, &p.ends, span_of(mad, MAD_LEN), false, net.now);
        net.packets[0].at_ns = INSTANT_NEVER;
    }
    assert_int_equal(net.sent[IBCM_REJ], MAX);
    assert_int_equal(net_refusals(B, IBCM_REFUSAL_ANSWERS_SPENT), 10);
    net.now += NS_PER_S;
    deliver(&m);
    assert_int_equal(net.sent[IBCM_REJ], MAX + 1);
}

static unsigned told;
static void count_told(void *ctx, const char *name, uint64_t value)
{
    assert_null(strchr(name, ' '));
    told += value > 0;
}

static void every_counter_is_told_in_one_word(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    ibcm_counters_tell(B->ibcm, count_told, NULL);
    assert_int_equal(told, 5); // requests, established; REQ and RTU received; REP sent
    for (unsigned r = 0; r < IBCM_REFUSAL_COUNT; r++) {
        assert_non_null(ibcm_refusal_name((enum ibcm_refusal)r));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(other_transports_are_refused),
        TEST(queue_pairs_of_management_and_groups_are_refused),
        TEST(path_mtus_that_the_device_does_not_have_are_refused),
        TEST(a_request_says_all_that_its_queue_pair_needs),
        TEST(the_least_and_the_greatest_of_both_are_taken),
        TEST(gids_other_than_the_addresses_of_the_packet_are_refused),
        TEST(private_data_without_the_header_are_refused),
        TEST(an_id_that_stands_for_something_else_is_refused),
        TEST(a_queue_pair_that_begins_anew_ends_its_old_connection),
        TEST(a_listener_takes_no_more_than_its_backlog),
        TEST(without_a_place_the_answer_is_no_resources),
        TEST(who_shares_an_address_does_not_answer_for_others),
        TEST(a_request_for_a_listener_here_is_nobody_elses),
        TEST(a_message_for_another_process_is_left_to_it),
        TEST(a_message_from_elsewhere_is_refused),
        TEST(a_message_of_another_id_of_the_peer_is_refused),
        TEST(a_dreq_for_another_queue_pair_is_refused),
        TEST(a_dreq_of_nobody_is_answered),
        TEST(a_dreq_for_a_process_that_is_gone_is_answered),
        TEST(a_dreq_before_the_answer_does_not_change_it),
        TEST(a_rep_of_nobody_is_rejected),
        TEST(who_asks_gets_no_rtu_and_who_is_asked_no_rep),
        TEST(an_mra_must_speak_of_what_was_said),
        TEST(a_sidr_rep_for_another_service_is_refused),
        TEST(a_second_sidr_rep_does_not_change_the_first),
        TEST(what_is_no_message_is_counted_by_what_is_wrong),
        TEST(a_peer_that_asks_for_hours_by_mra_gets_a_minute),
        TEST(a_peer_that_wants_hours_to_answer_gets_seconds),
        TEST(answers_to_nobody_are_so_many_in_a_second),
        TEST(every_counter_is_told_in_one_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
