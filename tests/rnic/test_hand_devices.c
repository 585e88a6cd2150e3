// How a device is made, what it tells of itself, and how it is left behind by a fork. The links and
// time are the test's.
#include <errno.h>
#include <string.h>

#include "report/report.h"
#include "rnic/connect.h"
#include "rnic/snapshot.h"
#include "tests/rnic/hand_datagrams.h"
#include "tests/rnic/hand_world.h"
#include "wire/bth.h"
#include "wire/ibcm.h"
#include "wire/roce.h"
#include "wire/roce_verdict.h"

static const struct rnic_ep_params params = {.ird = 1, .ord = 1};
static const struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = 0x3412};

static instant_ns clock_of(void *ctx)
{
    return NS_PER_S;
}

/* ---- devices of packets ---------------------------------------------------------------------- */

static struct hand_datagrams *packets;
static struct device of_packets;

static struct rnic_parts packet_parts(uint8_t key, uint32_t qp_num_first)
{
    packets = hand_datagrams_begin();
    return (struct rnic_parts){
        .config = device_config(),
        .datagrams = &packets->base,
        .port = {.addrs = {{.addr = hand_addr(1)}}, .addr_count = 1, .path_mtu = 1024},
        .clock = clock_of,
        .stag_key = {key},
        .qp_num_first = qp_num_first,
        .is_simulated = true};
}

static void open_packets(uint8_t key, uint32_t qp_num_first)
{
    const struct rnic_parts parts = packet_parts(key, qp_num_first);
    device_open_parts(&of_packets, &parts);
}

static struct rnic_qp *packet_qp(enum rnic_qp_type type)
{
    const struct rnic_qp_init init = {.type = type,
                                      .pd = of_packets.pd,
                                      .send_cq = of_packets.cq,
                                      .recv_cq = of_packets.cq,
                                      .max_send_wr = 4,
                                      .max_recv_wr = 4,
                                      .max_send_sge = 1,
                                      .max_recv_sge = 1};
    struct rnic_qp *qp;
    assert_int_equal(rnic_qp_create(of_packets.rnic, &init, &qp), 0);
    return qp;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void numbers_of_streams_begin_where_they_are_told(void **state)
{
    static const struct {
        uint32_t first, number;
    } rows[] = {{77, 77}, {RNIC_QP_NUM_MAX + 77, 77}, {0, 2}, {RNIC_QP_NUM_MAX - 1, 0xffffff}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct rnic_parts parts = {.config = device_config(),
                                         .link = &hand_link_begin()->base,
                                         .clock = clock_of,
                                         .qp_num_first = rows[i].first,
                                         .is_simulated = true};
        struct device device;
        device_open_parts(&device, &parts);
        struct rnic_qp *first = device_qp(&device), *second = device_qp(&device);
        assert_int_equal(first->qp_num, rows[i].number);
        assert_int_equal(second->qp_num, i == 3 ? 2 : rows[i].number + 1); // 0 and 1 are special
        assert_ptr_equal(rnic_qp_find(device.rnic, rows[i].number), first);
        rnic_qp_destroy(first);
        rnic_qp_destroy(second);
        device_close(&device);
    }
}

static void numbers_of_packets_are_the_links_in_an_order_of_the_key(void **state)
{
    enum { COUNT = 8 };
    uint32_t numbers[4][COUNT];
    for (unsigned i = 0; i < 4; i++) {
        struct rnic_qp *qps[COUNT];
        unsigned neighbours = 0;
        const uint32_t range = hand_datagrams_begin()->base.qp_num_count;
        open_packets(i < 3 ? 1 : 2, i == 0 ? 5 : i == 1 ? 5 + range : 6);
        for (unsigned k = 0; k < COUNT; k++) {
            qps[k] = packet_qp(RNIC_QP_UD);
            numbers[i][k] = qps[k]->qp_num;
            assert_in_range(numbers[i][k] - packets->base.qp_num_first, 0,
                            packets->base.qp_num_count - 1);
            neighbours += k > 0 && numbers[i][k] == numbers[i][k - 1] + 1;
        }
        assert_true(neighbours < COUNT / 2);
        for (unsigned k = 0; k < COUNT; k++) {
            rnic_qp_destroy(qps[k]);
        }
        device_close(&of_packets);
    }
    assert_memory_equal(numbers[0], numbers[1], sizeof numbers[0]); // around
    assert_memory_equal(numbers[2], numbers[0] + 1, (COUNT - 1) * sizeof numbers[0][0]);
    assert_memory_not_equal(numbers[3], numbers[2], sizeof numbers[0]);
}

/* ---- links ----------------------------------------------------------------------------------- */

static void a_link_is_the_devices_from_its_making_to_its_end(void **state)
{
    open_packets(1, 0);
    assert_false(packets->is_destroyed);
    device_close(&of_packets);
    assert_true(packets->is_destroyed);
    struct rnic_parts parts = packet_parts(1, 0);
    struct rnic *rnic;
    packets->refused = 1;
    assert_int_equal(rnic_create(&parts, &rnic), -EADDRINUSE);
    assert_true(packets->is_destroyed); // also when it cannot be made
    const struct rnic_config config = hand_config();
    hand_open(&config, 0, 0);
    struct hand_link *link = hand.link;
    assert_false(link->is_destroyed);
    hand_close();
    assert_true(link->is_destroyed);
}

static void no_loop_drives_where_time_is_not_real(void **state)
{
    int fd;
    const struct rnic_config config = hand_config();
    open_packets(1, 0);
    assert_int_equal(rnic_drive_begin(of_packets.rnic, -1, &fd), -EOPNOTSUPP);
    device_close(&of_packets);
    hand_open(&config, 0, 0);
    assert_int_equal(rnic_drive_begin(hand.device.rnic, -1, &fd), -EOPNOTSUPP);
    hand_close();
}

/* ---- behind a fork --------------------------------------------------------------------------- */

static void abandon(struct rnic *rnic)
{
    rnic_hold(rnic);
    rnic_abandon(rnic);
}

static void a_device_of_streams_that_was_left_behind_answers_eio(void **state)
{
    const struct rnic_config config = hand_config();
    const struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    struct sockaddr_storage addr;
    struct rnic_ep *ep;
    struct rnic_qp *qp;
    hand_open(&config, 0, 0);
    struct hand_stream *s = hand_establish(&request);
    struct rnic *rnic = hand.device.rnic;
    abandon(rnic);
    assert_true(hand.link->is_abandoned);
    assert_false(rnic_is_alive(rnic));
    const struct rnic_qp_init init = {
        .pd = hand.device.pd, .send_cq = hand.device.cq, .recv_cq = hand.device.cq};
    assert_int_equal(rnic_qp_create(rnic, &init, &qp), -EIO);
    assert_int_equal(rnic_ep_bind(rnic, NULL, 0, NULL, &ep), -EIO);
    assert_int_equal(rnic_ep_listen(hand.end.ep, 0), -EIO);
    assert_int_equal(
        rnic_ep_connect(hand.end.ep, (const struct sockaddr *)&there, hand.end.qp, &params), -EIO);
    assert_int_equal(rnic_ep_establish(hand.end.ep, hand.end.qp), -EIO);
    assert_int_equal(rnic_ep_accept(hand.end.ep, hand.end.qp, &params), -EIO);
    assert_int_equal(rnic_ep_reject(hand.end.ep, NULL, 0), -EIO);
    assert_int_equal(rnic_ep_disconnect(hand.end.ep), -EIO);
    assert_int_equal(rnic_ep_set_tos(hand.end.ep, 8), -EIO);
    assert_int_equal(rnic_ep_local_addr(hand.end.ep, &addr), -EIO);
    assert_int_equal(rnic_ep_peer_addr(hand.end.ep, &addr), -EIO);
    const unsigned polls = hand.link->poll_count;
    hand_expect_no_completion(); // nobody drives
    assert_int_equal(hand.link->poll_count, polls);
    assert_int_equal(s->tos, 0);
    assert_false(s->is_shut);
    hand_close();
}

static void on_conn_event(void *ctx, const struct rnic_conn_event *event)
{
}

static const struct rnic_conn_port events = {.on_event = on_conn_event};
static const struct ibcm_target target = {
    .ends = {.local = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}},
             .remote = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}}},
    .ps = IP_CM_PS_TCP,
    .port = 5};
static const struct ibcm_params conn_params = {.qp_num = 0x70123, .retry_count = 7};

static void a_device_of_packets_that_was_left_behind_answers_eio(void **state)
{
    const struct in6_addr local = hand_addr(1),
                          group = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 239, [15] = 9}};
    struct rnic_conn *conn, *other;
    struct ibcm_agreement agreement;
    struct ibcm_ends ends;
    open_packets(1, 0);
    struct rnic *rnic = of_packets.rnic;
    struct rnic_qp *qp = packet_qp(RNIC_QP_UD);
    assert_int_equal(rnic_conn_connect(rnic, &target, NULL, &conn_params, &events, &conn), 0);
    abandon(rnic);
    assert_true(packets->is_abandoned);
    assert_int_equal(rnic_qp_attach(qp, &group), -EIO);
    assert_int_equal(rnic_conn_listen(rnic, IP_CM_PS_TCP, 7, &local, 0, &events, &other), -EIO);
    assert_int_equal(rnic_conn_connect(rnic, &target, NULL, &conn_params, &events, &other), -EIO);
    assert_int_equal(rnic_conn_resolve(rnic, &target, (struct span){0}, &events, &other), -EIO);
    assert_int_equal(rnic_conn_accept(conn, NULL, &conn_params), -EIO);
    assert_int_equal(rnic_conn_reject(conn, 28, (struct span){0}), -EIO);
    assert_int_equal(rnic_conn_notify(conn), -EIO);
    assert_int_equal(rnic_conn_establish(conn), -EIO);
    assert_int_equal(rnic_conn_disconnect(conn), -EIO);
    assert_int_equal(rnic_conn_agreement(conn, &agreement, &ends), -EIO);
    packets->out_count = 0;
    rnic_conn_destroy(conn);
    rnic_qp_destroy(qp);
    assert_int_equal(packets->out_count, 0);
    device_close(&of_packets);
}

static void a_device_of_streams_has_no_connection_manager(void **state)
{
    const struct rnic_config config = hand_config();
    const struct in6_addr local = hand_addr(1);
    struct rnic_conn *conn;
    struct rnic_ep *ep;
    hand_open(&config, 0, 0);
    struct rnic *rnic = hand.device.rnic;
    assert_int_equal(rnic_conn_listen(rnic, IP_CM_PS_TCP, 7, &local, 0, &events, &conn),
                     -EOPNOTSUPP);
    assert_int_equal(rnic_conn_connect(rnic, &target, NULL, &conn_params, &events, &conn),
                     -EOPNOTSUPP);
    hand_close();
    open_packets(1, 0); // ... and one of packets has no streams
    assert_int_equal(rnic_ep_bind(of_packets.rnic, NULL, 0, NULL, &ep), -EOPNOTSUPP);
    device_close(&of_packets);
}

/* ---- whose message it is --------------------------------------------------------------------- */

static uint8_t mad_packet[ROCE_HEAD_MAX_LEN + MAD_LEN];

static void come_shared(size_t len, unsigned to, unsigned from)
{
    packets->log[0] = '\0';
    packets->out_count = 0;
    packets->in[packets->in_count++] = (struct datagram_rx){.local = hand_addr(to),
                                                            .remote = hand_addr(from),
                                                            .is_shared = true,
                                                            .octets = span_of(mad_packet, len)};
    while (rnic_step(of_packets.rnic)) {
    }
}

static void a_message_of_another_process_is_handed_on(void **state)
{
    const struct roce_packet head = {.bth = {.opcode = ROCE_UD | ROCE_SEND_ONLY,
                                             .pkey = BTH_PKEY_DEFAULT,
                                             .dest_qp = BTH_QP_GSI},
                                     .deth = {.qkey = MAD_QKEY, .src_qp = BTH_QP_GSI}};
    const struct ibcm_message rtu = {.kind = IBCM_RTU,
                                     .ids = {.local_id = 1, .remote_id = 9U << 24 | 5}};
    open_packets(1, 0);
    const size_t head_len = roce_head_emit(&head, mad_packet);
    ibcm_message_emit(&rtu, mad_packet + head_len);
    come_shared(head_len + MAD_LEN, 1, 2);
    assert_string_equal(packets->log, "hand on 9 ");
    assert_int_equal(device_count(&of_packets, "unknown_id"), 0);
    packets->is_handed_on = false; // it has ended: this one answers for the host
    come_shared(head_len + MAD_LEN, 1, 2);
    assert_string_equal(packets->log, "hand on 9 ");
    device_close(&of_packets);
}

// Who listens is found out by asking all.
static void a_request_that_another_process_serves_is_handed_to_all(void **state)
{
    struct rnic_conn *conn;
    open_packets(1, 0);
    assert_int_equal(
        rnic_conn_connect(of_packets.rnic, &target, NULL, &conn_params, &events, &conn), 0);
    assert_int_equal(packets->out_count, 1);
    const size_t len = packets->out[0].len;
    memcpy(mad_packet, packets->out[0].octets, len);
    rnic_conn_destroy(conn);
    device_close(&of_packets);
    open_packets(2, 0);
    packets->is_served = true;
    come_shared(len, 2, 1);
    assert_string_equal(packets->log, "hand on to all 0 ");
    assert_int_equal(packets->out_count, 0);
    packets->is_served = false;
    come_shared(len, 2, 1);
    assert_string_equal(packets->log, "");
    assert_int_equal(packets->out_count, 1); // refused, for the host
    device_close(&of_packets);
}

static struct ibcm_message request_of(uint8_t key, unsigned index)
{
    struct roce_packet packet;
    struct ibcm_message message;
    struct rnic_conn *conns[2], *none;
    open_packets(key, 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(
            rnic_conn_connect(of_packets.rnic, &target, NULL, &conn_params, &events, &conns[i]), 0);
        assert_int_equal(packets->out_count, i + 1);
        assert_int_equal(
            roce_packet_parse(span_of(packets->out[i].octets, packets->out[i].len), &packet),
            ROCE_PARSE_OK);
        assert_int_equal(packet.bth.psn, i);
        if (i == index) {
            assert_int_equal(ibcm_message_parse(packet.payload, &message), IBCM_PARSE_OK);
        }
    }
    struct ibcm_params long_packets = conn_params;
    long_packets.path_mtu = 4; // 2048 octets
    assert_int_equal(
        rnic_conn_connect(of_packets.rnic, &target, NULL, &long_packets, &events, &none), -EINVAL);
    const unsigned flushes = packets->flush_count;
    assert_int_equal(device_count(&of_packets, "hand_flushes"), flushes);
    rnic_conn_destroy(conns[0]);
    rnic_conn_destroy(conns[1]);
    device_close(&of_packets);
    assert_true(packets->flush_count > flushes);
    return message;
}

static void what_a_device_is_called_by_comes_from_its_key(void **state)
{
    const struct ibcm_message one = request_of(1, 0), again = request_of(1, 0),
                              next = request_of(1, 1), other = request_of(2, 0);
    assert_int_equal(one.req.local_id >> 24, packets->base.qp_num_first >> 16);
    assert_true(one.req.ca_guid == again.req.ca_guid && one.req.ca_guid == next.req.ca_guid);
    assert_true(one.req.ca_guid != other.req.ca_guid && one.req.ca_guid != 0);
    assert_int_equal(one.req.local_id, again.req.local_id);
    assert_int_not_equal(one.req.local_id, next.req.local_id);
    assert_int_not_equal(one.req.local_id, other.req.local_id);
    assert_int_not_equal(one.req.starting_psn, other.req.starting_psn);
}

/* ---- what it tells --------------------------------------------------------------------------- */

static void expect_pair(const struct report *r, struct report_pairs pairs, const char *name,
                        uint64_t value)
{
    assert_true(pairs.has_any);
    assert_int_equal(pairs.count, 1);
    assert_string_equal(r->pairs[pairs.first].name, name);
    assert_int_equal(r->pairs[pairs.first].value, value);
}

static uint16_t port_of_addr(const struct sockaddr_storage *addr)
{
    return addr->ss_family == AF_INET ? ntohs(((const struct sockaddr_in *)addr)->sin_port) : 0;
}

static void each_state_of_an_endpoint_is_told(void **state)
{
    const struct rnic_config config = hand_config();
    const struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    struct report r;
    struct end starting, bound;
    hand_open(&config, LINK_IS_OF_HOST, 0);
    struct hand_stream *s = hand_establish(&request);
    hand_send(s, 1, 0x11, 10);
    hand_run();
    end_init(&bound, &hand.device);
    end_bind(&bound);
    end_init(&starting, &hand.device);
    end_bind(&starting);
    hand.link->connect_error = 0;
    assert_int_equal(
        rnic_ep_connect(starting.ep, (const struct sockaddr *)&there, starting.qp, &params), 0);
    assert_int_equal(snapshot_take(hand.device.rnic, &r), 0);
    static const struct {
        const char *state, *role;
        bool is_listening, has_qp;
        uint16_t peer_port;
    } rows[] = {{"listening", NULL, true, false, 0},
                {"open", "responder", false, true, 7},
                {"bound", NULL, false, false, 0},
                {"starting", "initiator", false, true, 0x1234}};
    const struct rnic_qp *qps[] = {NULL, hand.end.qp, NULL, starting.qp};
    assert_int_equal(r.endpoint_count, 4);
    for (unsigned i = 0; i < 4; i++) {
        const struct report_endpoint *e = &r.endpoints[i];
        assert_string_equal(e->state, rows[i].state);
        assert_int_equal(e->role == NULL, rows[i].role == NULL);
        if (rows[i].role != NULL) {
            assert_string_equal(e->role, rows[i].role);
            assert_non_null(e->startup);
        }
        assert_int_equal(e->is_listening, rows[i].is_listening);
        assert_int_equal(e->has_qp, rows[i].has_qp);
        assert_int_equal(e->qp_num, qps[i] != NULL ? qps[i]->qp_num : 0);
        assert_int_equal(port_of_addr(&e->local), 4711);
        assert_int_equal(port_of_addr(&e->peer), rows[i].peer_port);
        assert_int_equal(e->admissions.accepted, i == 0);
        assert_int_equal(e->mpa_in.fpdus, i == 1);
        assert_true(e->is_of_host);
        assert_false(e->is_placing);
        expect_pair(&r, e->tcp, "hand_stream", 7);
    }
    assert_true(r.device.has_streams);
    assert_string_equal(r.device.name, "weft0");
    assert_int_equal(r.device.qp_count, 4);
    assert_int_equal(r.device.cq_count, 1);
    assert_int_equal(r.device.startup.established, 1);
    assert_int_equal(r.device.reads.allotment_len, config.read_allotment_len);
    assert_int_equal(r.device.reads.allotment_base_len, config.read_allotment_len);
    assert_int_equal(r.device.reads.context_count, config.read_contexts);
    assert_int_equal(r.qp_count, 4);
    expect_pair(&r, r.device.tcp_total, "hand_streams", 7);
    expect_pair(&r, r.device.packets, "hand_packets", 9);
    report_fini(&r);
    end_fini(&starting);
    end_fini(&bound);
    hand_close();
}

static void room_is_made_for_all_that_there_are(void **state)
{
    const struct rnic_config config = hand_config();
    struct report r;
    hand_open(&config, 0, 0);
    for (unsigned i = 0; i < 40; i++) {
        hand_arrive();
    }
    assert_int_equal(snapshot_take(hand.device.rnic, &r), 0);
    assert_true(report_is_whole(&r));
    assert_int_equal(r.endpoint_count, 41);
    assert_int_equal(r.endpoints[0].admissions.accepted, 40);
    for (unsigned i = 1; i <= 40; i++) {
        assert_string_equal(r.endpoints[i].state, "starting");
        assert_int_equal(port_of_addr(&r.endpoints[i].peer), 7);
    }
    report_fini(&r);
    hand_close();
}

static void whom_packets_lead_to_is_told(void **state)
{
    const struct qp_change to_init = {.mask = QP_CHANGE_STATE, .state = QP_INIT};
    const struct qp_change to_rtr = {.mask = QP_CHANGE_STATE | QP_CHANGE_PATH | QP_CHANGE_PATH_MTU |
                                             QP_CHANGE_DEST_QP_NUM | QP_CHANGE_RQ_PSN |
                                             QP_CHANGE_MAX_DEST_RD_ATOMIC | QP_CHANGE_MIN_RNR_TIMER,
                                     .state = QP_RTR,
                                     .path = {.local = hand_addr(1), .remote = hand_addr(2)},
                                     .path_mtu = 1024,
                                     .dest_qp_num = 0x80123};
    struct report r;
    open_packets(1, 0);
    struct rnic_qp *connected = packet_qp(RNIC_QP_RC), *other = packet_qp(RNIC_QP_UD);
    assert_int_equal(rnic_qp_change(connected, &to_init), 0);
    assert_int_equal(rnic_qp_change(connected, &to_rtr), 0);
    assert_int_equal(snapshot_take(of_packets.rnic, &r), 0);
    assert_false(r.device.has_streams);
    assert_int_equal(r.qp_count, 2);
    assert_int_equal(r.qps[0].qp_num, connected->qp_num);
    assert_int_equal(r.qps[0].peer_qp_num, 0x80123);
    assert_int_equal(((const struct sockaddr_in *)&r.qps[0].peer)->sin_addr.s_addr,
                     htonl(0x0a000002));
    assert_int_equal(port_of_addr(&r.qps[0].peer), 0);
    assert_int_equal(r.qps[0].oneshot, 0);
    assert_int_equal(r.qps[1].peer.ss_family, AF_UNSPEC);
    assert_int_equal(r.qps[1].peer_qp_num, 0);
    report_fini(&r);
    rnic_qp_destroy(other);
    rnic_qp_destroy(connected);
    device_close(&of_packets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_streams_begin_where_they_are_told),
        cmocka_unit_test(numbers_of_packets_are_the_links_in_an_order_of_the_key),
        cmocka_unit_test(a_link_is_the_devices_from_its_making_to_its_end),
        cmocka_unit_test(no_loop_drives_where_time_is_not_real),
        cmocka_unit_test(a_device_of_streams_that_was_left_behind_answers_eio),
        cmocka_unit_test(a_device_of_packets_that_was_left_behind_answers_eio),
        cmocka_unit_test(a_device_of_streams_has_no_connection_manager),
        cmocka_unit_test(a_message_of_another_process_is_handed_on),
        cmocka_unit_test(a_request_that_another_process_serves_is_handed_to_all),
        cmocka_unit_test(what_a_device_is_called_by_comes_from_its_key),
        cmocka_unit_test(each_state_of_an_endpoint_is_told),
        cmocka_unit_test(room_is_made_for_all_that_there_are),
        cmocka_unit_test(whom_packets_lead_to_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
