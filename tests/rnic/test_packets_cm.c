// Queue pairs on packets, connected by the connection manager: two devices, a net of virtual time.
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/port_datagram.h"
#include "link/datagram/sim.h"
#include "rnic/connect.h"
#include "rnic/post.h"
#include "tests/rnic/device.h"
#include "wire/bth.h"
#include "wq/status.h"

enum { DEPTH = 8, MTU = 1024, PORT = 7471, HOPS = 4 };

// Nothing is waited for that may not come: virtual time ends first.
#define PATIENCE_NS (60 * NS_PER_S)

struct side {
    struct device device;
    struct rnic_qp *qp;
    struct rnic_conn *listening, *conn;
    bool rejects; // requests
    unsigned count[IBCM_EVENT_COUNT];
    unsigned reason;
    struct ibcm_peer peer;
    char data[8]; // what the peer said
};

struct world {
    instant_ns now;
    struct datagram_net *net;
    struct side ends[2];
};

static struct world w;

static instant_ns clock_of(void *ctx)
{
    return ((struct world *)ctx)->now;
}

/* ---- devices on a net ------------------------------------------------------------------------ */

static struct in6_addr addr_of(unsigned i)
{
    struct in6_addr addr = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10}};
    addr.s6_addr[15] = (uint8_t)(1 + i);
    return addr;
}

static void open_device(unsigned i)
{
    const struct in6_addr addr = addr_of(i);
    struct rnic_parts parts = {
        .config = device_config(),
        .datagrams = datagram_net_attach(w.net, &addr, 1),
        .port = {.addrs = {{.addr = addr}}, .addr_count = 1, .path_mtu = MTU},
        .clock = clock_of,
        .clock_ctx = &w,
        .is_simulated = true,
    };
    assert_non_null(parts.datagrams);
    memset(parts.stag_key, (int)(i + 1), sizeof parts.stag_key);
    device_open_parts(&w.ends[i].device, &parts);
}

static struct rnic_qp *qp_create_of(unsigned i, enum rnic_qp_type type)
{
    struct device *d = &w.ends[i].device;
    const struct rnic_qp_init init = {.type = type,
                                      .pd = d->pd,
                                      .send_cq = d->cq,
                                      .recv_cq = d->cq,
                                      .max_send_wr = DEPTH,
                                      .max_recv_wr = DEPTH,
                                      .max_send_sge = 1,
                                      .max_recv_sge = 1};
    const struct qp_change to_init = {.mask = QP_CHANGE_STATE, .state = QP_INIT};
    struct rnic_qp *qp;
    assert_int_equal(rnic_qp_create(d->rnic, &init, &qp), 0);
    assert_int_equal(rnic_qp_change(qp, &to_init), 0);
    return qp;
}

static int set_up(void **state)
{
    const struct datagram_net_config config = {.clock = clock_of, .clock_ctx = &w};
    w = (struct world){.now = NS_PER_S};
    w.net = datagram_net_create(&config);
    assert_non_null(w.net);
    for (unsigned i = 0; i < 2; i++) {
        open_device(i);
        w.ends[i].qp = qp_create_of(i, RNIC_QP_RC);
    }
    return 0;
}

static int tear_down(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct side *end = &w.ends[i];
        if (end->conn != NULL) {
            rnic_conn_destroy(end->conn);
        }
        if (end->listening != NULL) {
            rnic_conn_destroy(end->listening);
        }
        rnic_qp_destroy(end->qp);
        device_close(&end->device);
    }
    datagram_net_destroy(w.net);
    return 0;
}

/* ---- virtual time ---------------------------------------------------------------------------- */

static bool step_all(void)
{
    bool moved = datagram_net_advance(w.net);
    for (unsigned i = 0; i < 2; i++) {
        moved |= rnic_step(w.ends[i].device.rnic);
    }
    return moved;
}

// Until `until`, or nothing happens by itself any more.
static void run_until(instant_ns until)
{
    for (;;) {
        while (step_all()) {
        }
        instant_ns next = datagram_net_next_event(w.net);
        for (unsigned i = 0; i < 2; i++) {
            next = instant_min(next, rnic_next_deadline(w.ends[i].device.rnic));
        }
        if (next > until) {
            break;
        }
        w.now = next > w.now ? next : w.now;
    }
}

static void run(void)
{
    run_until(w.now + NS_PER_S / 2);
}

/* ---- owners ---------------------------------------------------------------------------------- */

static void on_event(void *ctx, const struct rnic_conn_event *event)
{
    struct side *end = ctx;
    end->count[event->what->type]++;
    end->reason = event->what->reason;
    end->peer = *event->what->peer;
    memcpy(end->data, event->what->private_data.ptr,
           event->what->private_data.len < sizeof end->data ? event->what->private_data.len
                                                            : sizeof end->data);
    if (event->new_conn != NULL && !end->rejects) {
        *event->new_conn_port = (struct rnic_conn_port){on_event, end};
        end->conn = event->new_conn;
    }
}

static struct ibcm_params params_of(const char *says)
{
    return (struct ibcm_params){.responder_resources = 4,
                                .initiator_depth = 4,
                                .retry_count = 7,
                                .rnr_retry_count = 7,
                                .private_data = span_of(says, strlen(says))};
}

static void listen_at(unsigned i, enum ip_cm_port_space ps)
{
    const struct rnic_conn_port events = {on_event, &w.ends[i]};
    assert_int_equal(rnic_conn_listen(w.ends[i].device.rnic, ps, PORT, &in6addr_any, 0, &events,
                                      &w.ends[i].listening),
                     0);
}

static struct ibcm_target target_of(enum ip_cm_port_space ps)
{
    return (struct ibcm_target){
        .ends = {.local = addr_of(0), .remote = addr_of(1)}, .ps = ps, .port = PORT};
}

static void connect_to_peer(struct rnic_qp *qp)
{
    struct side *end = &w.ends[0];
    const struct ibcm_target target = target_of(IP_CM_PS_TCP);
    const struct rnic_conn_port events = {on_event, end};
    struct ibcm_params params = params_of("hello");
    params.qp_num = end->qp->qp_num;
    assert_int_equal(rnic_conn_connect(end->device.rnic, &target, qp, &params, &events, &end->conn),
                     0);
    run();
}

static void accept_peer(void)
{
    const struct ibcm_params params = params_of("welcome");
    assert_int_equal(w.ends[1].count[IBCM_EVENT_CONNECT_REQUEST], 1);
    assert_int_equal(rnic_conn_accept(w.ends[1].conn, w.ends[1].qp, &params), 0);
    run();
}

static void connect_both(void)
{
    listen_at(1, IP_CM_PS_TCP);
    connect_to_peer(w.ends[0].qp);
    accept_peer();
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void post_recv(unsigned i)
{
    struct rnic_rq_cursor cursor;
    struct device *d = &w.ends[i].device;
    rnic_rq_begin(&cursor, w.ends[i].qp);
    struct recv_wqe *wqe = rnic_rq_slot(&cursor);
    assert_non_null(wqe);
    wqe->wr_id = 1;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){.addr = (uintptr_t)d->buf + 8192, .length = 4096, .lkey = d->stag};
    rnic_rq_commit(&cursor);
    rnic_rq_end(&cursor);
}

static void post_send(unsigned i, uint32_t len)
{
    struct rnic_sq_cursor cursor;
    struct device *d = &w.ends[i].device;
    rnic_sq_begin(&cursor, w.ends[i].qp);
    struct send_wqe *wqe = rnic_sq_slot(&cursor);
    assert_non_null(wqe);
    wqe->wr_id = 2;
    wqe->opcode = WQE_SEND;
    wqe->flags = WQE_SIGNALED;
    wqe->imm_or_inv = 0;
    wqe->sge_count = 1;
    wqe->length = len;
    wqe->sge[0] = (struct sge){.addr = (uintptr_t)d->buf, .length = len, .lkey = d->stag};
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
}

static struct cqe completion_of(unsigned i)
{
    struct cqe cqe;
    run();
    assert_int_equal(rnic_cq_poll(w.ends[i].device.cq, &cqe, 1), 1);
    return cqe;
}

static void connected_queue_pairs_carry_data(void **state)
{
    post_recv(0);
    post_recv(1);
    connect_both();
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(w.ends[i].count[IBCM_EVENT_ESTABLISHED], 1);
        assert_int_equal(rnic_qp_state(w.ends[i].qp), QP_RTS);
    }
    assert_memory_equal(w.ends[1].data, "hello", 6);
    assert_memory_equal(w.ends[0].data, "welcome", 8);
    for (unsigned i = 0; i < 2; i++) {
        memset(w.ends[i].device.buf, 'a' + (int)i, 3000);
        post_send(i, 3000); // three packets
        assert_int_equal(completion_of(i).status, WC_SUCCESS);
        const struct cqe received = completion_of(1 - i);
        assert_int_equal(received.byte_len, 3000);
        assert_int_equal(((uint8_t *)w.ends[1 - i].device.buf)[8192 + 2999], 'a' + (int)i);
    }
}

static void a_disconnect_flushes_both_ends_and_keeps_the_number(void **state)
{
    post_recv(0);
    post_recv(1);
    connect_both();
    const uint32_t num = w.ends[0].qp->qp_num;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rnic_conn_disconnect(w.ends[i].conn), 0);
        assert_int_equal(completion_of(i).status, WC_WR_FLUSH_ERR);
        assert_int_equal(rnic_qp_state(w.ends[i].qp), QP_ERR);
        assert_int_equal(w.ends[i].count[IBCM_EVENT_DISCONNECTED], 1);
    }
    run_until(w.now + PATIENCE_NS);
    assert_int_equal(w.ends[0].count[IBCM_EVENT_TIMEWAIT_EXIT], 1);
    assert_int_equal(w.ends[0].qp->qp_num, num);
}

static void a_disconnect_that_comes_with_the_answer_is_told_behind_it(void **state)
{
    listen_at(1, IP_CM_PS_TCP);
    connect_to_peer(w.ends[0].qp);
    const struct ibcm_params params = params_of("welcome");
    assert_int_equal(rnic_conn_accept(w.ends[1].conn, w.ends[1].qp, &params), 0);
    assert_int_equal(rnic_conn_disconnect(w.ends[1].conn), 0);
    run();
    assert_int_equal(w.ends[0].count[IBCM_EVENT_ESTABLISHED], 1);
    assert_int_equal(w.ends[0].count[IBCM_EVENT_DISCONNECTED], 1);
}

static void expect_state_after_time_wait(unsigned i, enum qp_state state)
{
    run_until(w.now + PATIENCE_NS);
    assert_int_equal(w.ends[i].count[IBCM_EVENT_TIMEWAIT_EXIT], 1);
    assert_int_equal(rnic_qp_state(w.ends[i].qp), state);
}

// A program that only polls hears of the end by that.
static void whose_program_has_not_heard_of_the_end_is_flushed_behind_the_time_wait(void **state)
{
    struct cqe cqe;
    post_recv(0);
    connect_both();
    assert_int_equal(rnic_conn_disconnect(w.ends[1].conn), 0);
    run_until(w.now + NS_PER_S / 2);
    assert_int_equal(w.ends[0].count[IBCM_EVENT_DISCONNECTED], 1);
    assert_int_equal(rnic_qp_state(w.ends[0].qp), QP_RTS);
    assert_int_equal(rnic_cq_poll(w.ends[0].device.cq, &cqe, 1), 0);
    expect_state_after_time_wait(0, QP_ERR);
    assert_int_equal(rnic_cq_poll(w.ends[0].device.cq, &cqe, 1), 1);
    assert_int_equal(cqe.status, WC_WR_FLUSH_ERR);
}

static void whose_program_has_heard_of_the_end_is_left_to_it(void **state)
{
    struct cqe cqe;
    post_recv(0);
    connect_both();
    assert_int_equal(rnic_conn_disconnect(w.ends[1].conn), 0);
    run();
    rnic_conn_take_end(w.ends[0].conn);
    expect_state_after_time_wait(0, QP_RTS);
    assert_int_equal(rnic_cq_poll(w.ends[0].device.cq, &cqe, 1), 0);
    assert_int_equal(rnic_conn_disconnect(w.ends[0].conn), 0);
    assert_int_equal(rnic_qp_state(w.ends[0].qp), QP_ERR);
}

static void set_delay(duration_ns delay_ns)
{
    datagram_net_set_faults(w.net, &(struct fault_config){.delay_ns = delay_ns});
}

// The peer's acknowledgement is under way, behind its DREQ, of which the other end has heard.
static void let_a_disconnect_overtake_an_acknowledgement(void)
{
    post_recv(1);
    connect_both();
    post_send(0, 3000);
    rnic_step(w.ends[0].device.rnic);
    while (datagram_net_advance(w.net)) {
    }
    set_delay(10 * NS_PER_MS);
    rnic_step(w.ends[1].device.rnic);
    set_delay(0);
    assert_int_equal(rnic_conn_disconnect(w.ends[1].conn), 0);
    run_until(w.now + 5 * NS_PER_MS);
    assert_int_equal(w.ends[0].count[IBCM_EVENT_DISCONNECTED], 1);
}

static void expect_that_the_message_was_sent(void)
{
    struct cqe cqe;
    assert_int_equal(rnic_cq_poll(w.ends[0].device.cq, &cqe, 1), 1);
    assert_int_equal(cqe.wr_id, 2);
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_int_equal(rnic_qp_state(w.ends[0].qp), QP_ERR);
}

static void who_disconnects_behind_the_peer_has_sent_what_was_acknowledged(void **state)
{
    let_a_disconnect_overtake_an_acknowledgement();
    w.now += 20 * NS_PER_MS;
    datagram_net_advance(w.net);
    assert_int_equal(rnic_conn_disconnect(w.ends[0].conn), 0);
    expect_that_the_message_was_sent();
}

// A link that is looked at where nothing comes, until somebody looks around.
static const struct datagram_link_ops *looking_around;

static unsigned look_in_vain(struct datagram_link *link, instant_ns now)
{
    return 0;
}

static void look_around(struct datagram_link *link)
{
    link->ops = looking_around;
}

static void who_disconnects_behind_the_peer_looks_everywhere(void **state)
{
    struct datagram_link *link = w.ends[0].device.rnic->shard.packets.link;
    let_a_disconnect_overtake_an_acknowledgement();
    w.now += 20 * NS_PER_MS;
    datagram_net_advance(w.net);
    looking_around = link->ops;
    struct datagram_link_ops in_vain = *link->ops;
    in_vain.poll = look_in_vain;
    in_vain.look_around = look_around;
    link->ops = &in_vain;
    assert_int_equal(rnic_conn_disconnect(w.ends[0].conn), 0);
    link->ops = looking_around;
    expect_that_the_message_was_sent();
}

static const struct datagram_link_ops *putting;
static unsigned put_count, other_count;

// Counts packets, and those whose header has another hop limit than the device's.
static bool put_and_count(struct datagram_link *link, const struct datagram_tx *tx)
{
    put_count++;
    other_count += datagram_hop_limit(link, tx->path) != HOPS;
    return putting->put(link, tx);
}

// The peer is told of it, too: its packets come back by the same way.
static void packets_of_a_connection_have_the_hop_limit_of_the_device(void **state)
{
    struct ibcm_agreement agreement;
    struct ibcm_ends ends;
    struct datagram_link *link = w.ends[0].device.rnic->shard.packets.link;
    struct datagram_link_ops counting = *link->ops;
    putting = link->ops;
    put_count = other_count = 0;
    counting.put = put_and_count;
    link->ops = &counting;
    link->hops.ipv4 = HOPS;
    connect_both();
    post_recv(1);
    post_send(0, 100);
    assert_int_equal(completion_of(0).status, WC_SUCCESS);
    assert_true(put_count >= 3); // REQ, RTU, the message
    assert_int_equal(other_count, 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rnic_conn_agreement(w.ends[i].conn, &agreement, &ends), 0);
        assert_int_equal(agreement.hop_limit, HOPS);
    }
    link->ops = putting;
}

// More than is read at once, for a queue pair of the device's that there is not.
static void send_many_strays(void)
{
    const uint32_t num = w.ends[0].qp->qp_num ^ 1;
    const struct in6_addr from = addr_of(7);
    struct datagram_link *stranger = datagram_net_attach(w.net, &from, 1);
    const struct datagram_path path = {.local = from, .remote = addr_of(0)};
    const uint8_t stray[BTH_LEN] = {
        [5] = (uint8_t)(num >> 16), [6] = (uint8_t)(num >> 8), [7] = (uint8_t)num};
    for (unsigned i = 0; i < 300; i++) {
        const struct datagram_tx tx = {.path = &path, .head = span_of(stray, sizeof stray)};
        assert_true(datagram_put(stranger, &tx));
        datagram_flush(stranger);
    }
    datagram_net_advance(w.net);
    datagram_destroy(stranger);
}

static void who_was_away_has_sent_what_was_acknowledged_meanwhile(void **state)
{
    let_a_disconnect_overtake_an_acknowledgement();
    send_many_strays();
    w.now += NS_PER_S;
    datagram_net_advance(w.net);
    rnic_step(w.ends[0].device.rnic);
    expect_that_the_message_was_sent();
}

// Its queue pair may be another connection's by then.
static void a_queue_pair_that_has_left_its_connection_is_not_ended_by_it(void **state)
{
    connect_both();
    assert_int_equal(rnic_conn_disconnect(w.ends[1].conn), 0);
    run_until(w.now + 20 * NS_PER_MS);
    assert_int_equal(w.ends[0].count[IBCM_EVENT_DISCONNECTED], 1);
    rnic_conn_destroy(w.ends[0].conn);
    w.ends[0].conn = NULL;
    run_until(w.now + PATIENCE_NS);
    assert_int_equal(rnic_qp_state(w.ends[0].qp), QP_RTS);
}

static void a_port_that_nobody_has_is_refused(void **state)
{
    connect_to_peer(w.ends[0].qp);
    assert_int_equal(w.ends[0].count[IBCM_EVENT_REJECTED], 1);
    assert_int_equal(w.ends[0].reason, IBCM_REASON_INVALID_SERVICE_ID);
    assert_int_equal(rnic_qp_state(w.ends[0].qp), QP_INIT); // its program's affair
}

static void a_request_that_its_owner_does_not_take_is_refused(void **state)
{
    w.ends[1].rejects = true;
    listen_at(1, IP_CM_PS_TCP);
    connect_to_peer(w.ends[0].qp);
    assert_int_equal(w.ends[0].reason, IBCM_REASON_CONSUMER);
}

static void a_request_is_rejected_with_words(void **state)
{
    listen_at(1, IP_CM_PS_TCP);
    connect_to_peer(w.ends[0].qp);
    assert_int_equal(rnic_conn_reject(w.ends[1].conn, IBCM_REASON_CONSUMER, span_of("no", 2)), 0);
    run();
    assert_int_equal(w.ends[0].count[IBCM_EVENT_REJECTED], 1);
    assert_int_equal(w.ends[0].reason, IBCM_REASON_CONSUMER);
    assert_memory_equal(w.ends[0].data, "no", 3);
}

static void a_queue_pair_of_the_programs_own_is_established_by_it(void **state)
{
    struct ibcm_agreement agreed;
    struct ibcm_ends ends;
    listen_at(1, IP_CM_PS_TCP);
    connect_to_peer(NULL);
    accept_peer();
    assert_int_equal(w.ends[0].count[IBCM_EVENT_CONNECT_RESPONSE], 1);
    assert_int_equal(rnic_conn_agreement(w.ends[0].conn, &agreed, &ends), 0);
    assert_int_equal(agreed.dest_qp_num, w.ends[1].qp->qp_num);
    assert_int_equal(rnic_conn_establish(w.ends[0].conn), 0);
    run();
    assert_int_equal(w.ends[1].count[IBCM_EVENT_ESTABLISHED], 1);
    assert_int_equal(rnic_qp_state(w.ends[0].qp), QP_INIT); // ours to move, and left alone
}

static void a_queue_pair_has_one_connection_and_begins_it_in_init(void **state)
{
    const struct ibcm_target target = target_of(IP_CM_PS_TCP);
    const struct rnic_conn_port events = {on_event, &w.ends[0]};
    const struct ibcm_params params = params_of("");
    struct rnic_conn *other;
    connect_both();
    assert_int_equal(
        rnic_conn_connect(w.ends[0].device.rnic, &target, w.ends[0].qp, &params, &events, &other),
        -EINVAL);
    assert_int_equal(
        rnic_conn_connect(w.ends[0].device.rnic, &target, w.ends[1].qp, &params, &events, &other),
        -EINVAL);
}

static void a_queue_pair_may_go_before_its_connection(void **state)
{
    connect_both();
    rnic_qp_destroy(w.ends[0].qp);
    assert_int_equal(rnic_conn_disconnect(w.ends[0].conn), 0);
    run();
    assert_int_equal(w.ends[1].count[IBCM_EVENT_DISCONNECTED], 1);
    w.ends[0].qp = qp_create_of(0, RNIC_QP_RC);
}

static void a_port_of_datagrams_is_resolved(void **state)
{
    const struct ibcm_target target = target_of(IP_CM_PS_UDP);
    const struct rnic_conn_port events = {on_event, &w.ends[0]};
    struct ibcm_params params = params_of("here");
    params.qkey = IP_CM_QKEY;
    listen_at(1, IP_CM_PS_UDP);
    assert_int_equal(rnic_conn_resolve(w.ends[0].device.rnic, &target, span_of("who", 3), &events,
                                       &w.ends[0].conn),
                     0);
    run();
    assert_int_equal(rnic_conn_accept(w.ends[1].conn, w.ends[1].qp, &params), 0);
    run();
    assert_int_equal(w.ends[0].count[IBCM_EVENT_ESTABLISHED], 1);
    assert_int_equal(w.ends[0].peer.qp_num, w.ends[1].qp->qp_num);
    assert_int_equal(w.ends[0].peer.qkey, IP_CM_QKEY);
    assert_memory_equal(w.ends[0].data, "here", 5);
}

static void a_peer_that_is_gone_is_unreachable(void **state)
{
    struct ibcm_target target = target_of(IP_CM_PS_TCP);
    const struct rnic_conn_port events = {on_event, &w.ends[0]};
    const struct ibcm_params params = params_of("");
    target.ends.remote = addr_of(7);
    assert_int_equal(rnic_conn_connect(w.ends[0].device.rnic, &target, w.ends[0].qp, &params,
                                       &events, &w.ends[0].conn),
                     0);
    run_until(w.now + PATIENCE_NS);
    assert_int_equal(w.ends[0].count[IBCM_EVENT_UNREACHABLE], 1);
    assert_int_equal(rnic_qp_state(w.ends[0].qp), QP_INIT); // its program's, as by Linux
}

static void an_answer_that_is_refused_can_be_given_again(void **state)
{
    const struct ibcm_params params = params_of("welcome");
    const struct qp_change to_error = {.mask = QP_CHANGE_STATE, .state = QP_ERR};
    struct ibcm_agreement agreed;
    struct ibcm_ends ends;
    listen_at(1, IP_CM_PS_TCP);
    connect_to_peer(w.ends[0].qp);
    struct rnic_qp *broken = qp_create_of(1, RNIC_QP_RC);
    assert_int_equal(rnic_qp_change(broken, &to_error), 0);
    assert_int_equal(rnic_conn_accept(w.ends[1].conn, broken, &params), -EINVAL);
    assert_int_equal(rnic_conn_accept(w.ends[1].conn, w.ends[0].qp, &params), -EINVAL);
    accept_peer();
    assert_int_equal(w.ends[0].count[IBCM_EVENT_ESTABLISHED], 1);
    assert_int_equal(w.ends[1].count[IBCM_EVENT_ESTABLISHED], 1);
    for (unsigned i = 0; i < 2; i++) {
        const struct in6_addr local = addr_of(i), remote = addr_of(1 - i);
        assert_int_equal(rnic_conn_agreement(w.ends[i].conn, &agreed, &ends), 0);
        assert_int_equal(agreed.dest_qp_num, w.ends[1 - i].qp->qp_num);
        assert_memory_equal(&ends.local, &local, sizeof local);
        assert_memory_equal(&ends.remote, &remote, sizeof remote);
    }
    assert_true(rnic_conn_accept(w.ends[1].conn, w.ends[1].qp, &params) < 0); // once
    rnic_qp_destroy(broken);
}

static void a_port_is_free_again_when_its_listener_has_gone(void **state)
{
    listen_at(1, IP_CM_PS_TCP);
    rnic_conn_destroy(w.ends[1].listening);
    listen_at(1, IP_CM_PS_TCP);
    connect_to_peer(w.ends[0].qp);
    assert_int_equal(w.ends[1].count[IBCM_EVENT_CONNECT_REQUEST], 1);
}

// The peer learns of it, and no event of it comes here.
static void a_request_that_is_dropped_is_refused(void **state)
{
    listen_at(1, IP_CM_PS_TCP);
    connect_to_peer(w.ends[0].qp);
    rnic_conn_destroy(w.ends[1].conn);
    w.ends[1].conn = NULL;
    run();
    assert_int_equal(w.ends[0].count[IBCM_EVENT_REJECTED], 1);
    assert_int_equal(w.ends[0].reason, IBCM_REASON_CONSUMER);
}

// A packet that came by another way says that the peer is ready.
static void who_notifies_of_what_has_come_is_established(void **state)
{
    const struct ibcm_params params = params_of("welcome");
    listen_at(1, IP_CM_PS_TCP);
    connect_to_peer(NULL); // which says nothing until it is told to
    assert_true(rnic_conn_notify(w.ends[1].conn) < 0);
    assert_int_equal(rnic_conn_accept(w.ends[1].conn, w.ends[1].qp, &params), 0);
    assert_int_equal(w.ends[1].count[IBCM_EVENT_ESTABLISHED], 0);
    assert_int_equal(rnic_conn_notify(w.ends[1].conn), 0);
    assert_int_equal(w.ends[1].count[IBCM_EVENT_ESTABLISHED], 1);
    assert_int_equal(rnic_conn_notify(w.ends[1].conn), -EISCONN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(connected_queue_pairs_carry_data),
        TEST(packets_of_a_connection_have_the_hop_limit_of_the_device),
        TEST(a_disconnect_flushes_both_ends_and_keeps_the_number),
        TEST(a_disconnect_that_comes_with_the_answer_is_told_behind_it),
        TEST(whose_program_has_not_heard_of_the_end_is_flushed_behind_the_time_wait),
        TEST(whose_program_has_heard_of_the_end_is_left_to_it),
        TEST(who_disconnects_behind_the_peer_has_sent_what_was_acknowledged),
        TEST(who_disconnects_behind_the_peer_looks_everywhere),
        TEST(who_was_away_has_sent_what_was_acknowledged_meanwhile),
        TEST(a_queue_pair_that_has_left_its_connection_is_not_ended_by_it),
        TEST(a_port_that_nobody_has_is_refused),
        TEST(a_request_that_its_owner_does_not_take_is_refused),
        TEST(a_request_is_rejected_with_words),
        TEST(a_queue_pair_of_the_programs_own_is_established_by_it),
        TEST(a_queue_pair_has_one_connection_and_begins_it_in_init),
        TEST(an_answer_that_is_refused_can_be_given_again),
        TEST(a_port_is_free_again_when_its_listener_has_gone),
        TEST(a_request_that_is_dropped_is_refused),
        TEST(who_notifies_of_what_has_come_is_established),
        TEST(a_queue_pair_may_go_before_its_connection),
        TEST(a_port_of_datagrams_is_resolved),
        TEST(a_peer_that_is_gone_is_unreachable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
