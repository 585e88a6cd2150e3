// What ids on the RoCE device have that those on streams have not.

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/cm/external.h"
#include "tests/cm/loopback.h"
#include "tests/verbs/roce.h"

enum {
    RTR_MASK = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
    RTS_MASK = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
               IBV_QP_MAX_QP_RD_ATOMIC,
};

/* ---- ports ----------------------------------------------------------------------------------- */

// A port of TCP whose connection has ended here: in TIME-WAIT for a minute.
static uint16_t port_in_time_wait(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    const int yes = 1;
    char octet;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof at), 0);
    int server = accept(listener, NULL, NULL);
    assert_true(server >= 0);
    assert_int_equal(close(server), 0); // the first to end
    assert_int_equal(read(client, &octet, 1), 0);
    close(client);
    close(listener);
    return at.sin_port;
}

static void test_a_port_of_ended_connections_is_free_and_then_taken(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = port_in_time_wait()};
    struct end first = {.channel = rdma_create_event_channel()},
               second = {.channel = rdma_create_event_channel()};
    assert_int_equal(rdma_create_id(first.channel, &first.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_create_id(second.channel, &second.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(first.id, (struct sockaddr *)&at), 0);
    assert_int_equal(rdma_listen(first.id, 1), 0);
    int error = rdma_bind_addr(second.id, (struct sockaddr *)&at);
    assert_int_equal(error == 0 ? rdma_listen(second.id, 1) : error, -1);
    assert_int_equal(errno, EADDRINUSE);
    end_close(&first);
    end_close(&second);
}

// valkey does so by default.
static void test_a_port_of_tcp_is_another_one(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    const int probe = socket(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE);
    if (probe < 0) {
        skip(); // a kernel without UDP-Lite
    }
    close(probe);
    const int tcp = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(tcp, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(tcp, 1), 0);
    assert_int_equal(getsockname(tcp, (struct sockaddr *)&at, &len), 0);
    struct end end = {.channel = rdma_create_event_channel()};
    assert_int_equal(rdma_create_id(end.channel, &end.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(end.id, (struct sockaddr *)&at), 0);
    assert_int_equal(rdma_listen(end.id, 1), 0);
    assert_int_equal(rdma_get_src_port(end.id), at.sin_port);
    end_close(&end);
    close(tcp);
}

static void listen_everywhere(struct end *end, const struct sockaddr *any)
{
    int only = 1;
    end->channel = rdma_create_event_channel();
    assert_int_equal(rdma_create_id(end->channel, &end->id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(
        rdma_set_option(end->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only), 0);
    assert_int_equal(rdma_bind_addr(end->id, (struct sockaddr *)any), 0);
    assert_int_equal(rdma_listen(end->id, 1), 0);
}

// tgtd listens so for iSER.
static void test_each_family_has_a_listener_of_its_own_at_one_port(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
    struct end ipv4 = {0}, ipv6 = {0}, active = {0};
    listen_everywhere(&ipv4, (struct sockaddr *)&any);
    any6.sin6_port = rdma_get_src_port(ipv4.id);
    listen_everywhere(&ipv6, (struct sockaddr *)&any6);
    active_open(&active, any6.sin6_port);
    assert_int_equal(rdma_connect(active.id, NULL), 0);
    struct rdma_cm_event *event = event_expect(ipv4.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct end passive = {.id = event->id};
    rdma_ack_cm_event(event);
    assert_false(event_waits(ipv6.channel));
    end_close(&passive);
    end_close(&active);
    end_close(&ipv6);
    end_close(&ipv4);
}

/* ---- queue pairs of the program's own -------------------------------------------------------- */

struct ours {
    struct loopback l;
    struct external active, passive;
};

// Up to CONNECT_REQUEST.
static void ours_request(struct ours *o, struct rdma_conn_param *param)
{
    memset(o, 0, sizeof *o);
    listener_open(&o->l.listener);
    active_resolve(&o->l.active, rdma_get_src_port(o->l.listener.id));
    external_open(&o->active, o->l.active.id);
    param->qp_num = o->active.qp->qp_num;
    assert_int_equal(rdma_connect(o->l.active.id, param), 0);
    struct rdma_cm_event *event =
        event_expect(o->l.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    o->l.passive = event->id;
    rdma_ack_cm_event(event);
    external_open(&o->passive, o->l.passive);
}

static void ours_accept(struct ours *o, struct rdma_conn_param *param)
{
    param->qp_num = o->passive.qp->qp_num;
    assert_int_equal(rdma_accept(o->l.passive, param), 0);
    assert_int_equal(event_take(o->l.active.channel, RDMA_CM_EVENT_CONNECT_RESPONSE), 0);
}

static void ours_close(struct ours *o)
{
    external_close(&o->active);
    external_close(&o->passive);
    loopback_close(&o->l);
}

static struct ibv_qp_attr attr_for(struct rdma_cm_id *id, enum ibv_qp_state state, int mask)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int got;
    assert_int_equal(rdma_init_qp_attr(id, &attr, &got), 0);
    assert_int_equal(got, mask);
    return attr;
}

static void assert_nothing_agreed(struct rdma_cm_id *id)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    int mask;
    assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), -1);
    assert_int_equal(errno, EINVAL);
}

static void test_both_ends_are_told_what_they_agreed_on(void **state)
{
    struct ours o;
    struct rdma_conn_param param = {
        .initiator_depth = 3, .responder_resources = 5, .retry_count = 4, .rnr_retry_count = 6};
    ours_request(&o, &param);
    struct ibv_qp_attr early = attr_for(o.l.passive, IBV_QPS_RTR, RTR_MASK);
    param = (struct rdma_conn_param){
        .initiator_depth = 2, .responder_resources = 3, .rnr_retry_count = 2};
    ours_accept(&o, &param);

    struct ibv_qp_attr to_hear = attr_for(o.l.passive, IBV_QPS_RTR, RTR_MASK);
    struct ibv_qp_attr to_say = attr_for(o.l.passive, IBV_QPS_RTS, RTS_MASK);
    struct ibv_qp_attr hears = attr_for(o.l.active.id, IBV_QPS_RTR, RTR_MASK);
    struct ibv_qp_attr says = attr_for(o.l.active.id, IBV_QPS_RTS, RTS_MASK);
    assert_int_equal(early.rq_psn, to_hear.rq_psn);
    assert_int_equal(early.dest_qp_num, o.active.qp->qp_num);
    assert_int_equal(early.max_dest_rd_atomic, 3);
    assert_int_equal(to_hear.rq_psn, says.sq_psn);
    assert_int_equal(hears.rq_psn, to_say.sq_psn);
    assert_int_not_equal(hears.rq_psn, to_hear.rq_psn);
    assert_int_equal(to_hear.max_dest_rd_atomic, 3);
    assert_int_equal(says.max_rd_atomic, 3);
    assert_int_equal(hears.max_dest_rd_atomic, 2);
    assert_int_equal(to_say.max_rd_atomic, 2);
    assert_int_equal(hears.dest_qp_num, o.passive.qp->qp_num);
    assert_int_equal(hears.path_mtu, to_hear.path_mtu);
    assert_int_equal(says.rnr_retry, 2);
    assert_int_equal(to_say.rnr_retry, 6);
    assert_int_equal(says.retry_cnt, 4);
    assert_int_equal(to_say.retry_cnt, 4);
    assert_int_equal(says.timeout, to_say.timeout);
    assert_true(hears.ah_attr.is_global);
    ours_close(&o);
}

static void assert_path(const struct rdma_cm_id *id, const struct rdma_cm_id *peer)
{
    const struct rdma_ib_addr *addr = &id->route.addr.addr.ibaddr;
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(id->verbs, id->port_num, &port), 0);
    assert_memory_equal(&addr->dgid, &peer->route.addr.addr.ibaddr.sgid, sizeof addr->dgid);
    assert_int_equal(id->route.num_paths, 1);
    assert_non_null(id->route.path_rec);
    assert_memory_equal(&id->route.path_rec->dgid, &addr->dgid, sizeof addr->dgid);
    assert_memory_equal(&id->route.path_rec->sgid, &addr->sgid, sizeof addr->sgid);
    assert_int_equal(id->route.path_rec->mtu, port.active_mtu);
    assert_int_equal(id->route.path_rec->pkey, 0xffff);
    assert_true(id->route.path_rec->hop_limit > 1);
}

// The active side sends, and does not say that it is ready.
static void test_who_hears_of_communication_is_connected_by_saying_so(void **state)
{
    struct ours o;
    struct rdma_conn_param param = {.retry_count = 4};
    ours_request(&o, &param);
    assert_int_equal(rdma_notify(o.l.passive, IBV_EVENT_COMM_EST), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_notify(o.l.listener.id, IBV_EVENT_COMM_EST), -1);
    assert_int_equal(errno, EINVAL);
    ours_accept(&o, &param);
    assert_int_equal(rdma_notify(o.l.passive, IBV_EVENT_PATH_MIG_ERR), -1);
    assert_int_equal(errno, EINVAL);
    assert_false(event_waits(o.l.listener.channel));
    assert_int_equal(rdma_notify(o.l.passive, IBV_EVENT_COMM_EST), 0);
    assert_int_equal(event_take(o.l.listener.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    assert_int_equal(rdma_notify(o.l.passive, IBV_EVENT_COMM_EST), -1);
    assert_int_equal(errno, EISCONN);
    ours_close(&o);
}

static void test_a_route_is_shown_as_a_path_from_gid_to_gid(void **state)
{
    struct loopback l;
    loopback_request(&l);
    assert_path(l.active.id, l.passive);
    assert_path(l.passive, l.active.id);
    loopback_close(&l);
}

static void test_a_request_tells_all_that_was_asked_for(void **state)
{
    struct loopback l = {0};
    struct external own;
    listener_open(&l.listener);
    active_resolve(&l.active, rdma_get_src_port(l.listener.id));
    external_open(&own, l.active.id);
    struct rdma_conn_param param = {.initiator_depth = 3,
                                    .responder_resources = 5,
                                    .flow_control = 1,
                                    .retry_count = 4,
                                    .rnr_retry_count = 6,
                                    .srq = 1,
                                    .qp_num = own.qp->qp_num};
    assert_int_equal(rdma_connect(l.active.id, &param), 0);
    struct rdma_cm_event *event = event_expect(l.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    const struct rdma_conn_param *asked = &event->param.conn;
    l.passive = event->id;
    assert_int_equal(asked->responder_resources, 3);
    assert_int_equal(asked->initiator_depth, 5);
    assert_int_equal(asked->flow_control, 1);
    assert_int_equal(asked->retry_count, 4);
    assert_int_equal(asked->rnr_retry_count, 6);
    assert_int_equal(asked->srq, 1);
    assert_int_equal(asked->qp_num, own.qp->qp_num);
    rdma_ack_cm_event(event);
    external_close(&own);
    loopback_close(&l);
}

// IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED of the kernel's ib_cm.h.
static void test_who_is_rejected_for_ece_hears_that_it_was_for_ece(void **state)
{
    const int vendor_option_not_supported = 35;
    struct loopback l;
    loopback_request(&l);
    assert_int_equal(rdma_reject_ece(l.passive, "ece", 4), 0);
    struct rdma_cm_event *event = event_expect(l.active.channel, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(event->status, vendor_option_not_supported);
    assert_string_equal(event->param.conn.private_data, "ece");
    rdma_ack_cm_event(event);
    loopback_close(&l);
}

static void test_who_connects_without_a_port_is_given_one(void **state)
{
    struct ours o;
    struct rdma_conn_param param = {.retry_count = 4, .rnr_retry_count = 6};
    ours_request(&o, &param);
    assert_int_not_equal(rdma_get_dst_port(o.l.passive), 0);
    assert_int_equal(rdma_get_dst_port(o.l.passive), rdma_get_src_port(o.l.active.id));
    ours_accept(&o, &param);
    ours_close(&o);
}

static void test_a_program_that_moves_its_queue_pairs_sends_over_them(void **state)
{
    struct ours o;
    struct rdma_conn_param param = {.initiator_depth = 1, .responder_resources = 1};
    ours_request(&o, &param);
    external_ready(o.l.passive, &o.passive); // before it accepts, as on a card
    ours_accept(&o, &param);
    external_ready(o.l.active.id, &o.active);
    assert_int_equal(rdma_establish(o.l.active.id), 0);
    assert_int_equal(event_take(o.l.listener.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    external_send(&o.active, &o.passive);
    external_send(&o.passive, &o.active);
    assert_int_equal(rdma_disconnect(o.l.active.id), 0);
    event_take(o.l.active.channel, RDMA_CM_EVENT_DISCONNECTED);
    event_take(o.l.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    ours_close(&o);
}

static void test_who_has_accepted_hears_that_the_peer_wants_no_more(void **state)
{
    struct ours o;
    struct rdma_conn_param param = {.initiator_depth = 1};
    ours_request(&o, &param);
    ours_accept(&o, &param);
    assert_int_equal(rdma_destroy_id(o.l.active.id), 0); // instead of rdma_establish
    o.l.active.id = NULL;
    event_take(o.l.listener.channel, RDMA_CM_EVENT_REJECTED);
    ours_close(&o);
}

// cmtime measures connecting alone, and says a number that is no queue pair's.
static void test_whose_number_is_said_is_the_programs_affair(void **state)
{
    struct ours o;
    struct rdma_conn_param param = {.initiator_depth = 1};
    ours_request(&o, &param);
    param.qp_num = o.active.qp->qp_num ^ 0x555;
    assert_int_equal(rdma_accept(o.l.passive, &param), 0);
    event_take(o.l.active.channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
    assert_int_equal(rdma_establish(o.l.active.id), 0);
    event_take(o.l.listener.channel, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(rdma_disconnect(o.l.active.id), 0);
    event_take(o.l.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    ours_close(&o);
}

static void test_nothing_is_told_where_there_is_no_peer(void **state)
{
    struct ours o;
    struct rdma_conn_param param = {.initiator_depth = 1};
    struct end fresh = {0};
    ours_request(&o, &param);
    assert_nothing_agreed(o.l.listener.id);
    assert_nothing_agreed(o.l.active.id); // until the peer has answered
    active_resolve(&fresh, rdma_get_src_port(o.l.listener.id));
    assert_nothing_agreed(fresh.id);
    end_close(&fresh);
    ours_close(&o);
}

/* ---- those of ids ---------------------------------------------------------------------------- */

static struct ibv_qp_attr told(struct rdma_cm_id *id)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(id->qp, &attr, RTR_MASK | RTS_MASK, &init), 0);
    return attr;
}

static void test_a_query_tells_what_the_connection_has_set(void **state)
{
    struct loopback l;
    union ibv_gid own;
    loopback_open(&l);
    const struct ibv_qp_attr active = told(l.active.id), passive = told(l.passive);
    assert_int_equal(active.qp_state, IBV_QPS_RTS);
    assert_int_equal(active.dest_qp_num, l.passive->qp->qp_num);
    assert_int_equal(passive.dest_qp_num, l.active.id->qp->qp_num);
    assert_int_equal(active.sq_psn, passive.rq_psn);
    assert_int_equal(passive.sq_psn, active.rq_psn);
    assert_int_not_equal(active.rq_psn, passive.rq_psn);
    assert_int_equal(active.path_mtu, passive.path_mtu);
    assert_int_equal(active.retry_cnt, 7);
    assert_int_equal(active.max_rd_atomic, passive.max_dest_rd_atomic);
    assert_int_equal(ibv_query_gid(l.passive->verbs, 1, 0, &own), 0);
    assert_memory_equal(active.ah_attr.grh.dgid.raw, own.raw, sizeof own.raw);
    assert_true(active.ah_attr.is_global);
    loopback_close(&l);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void test_a_queue_pair_is_flushed_by_its_own_programs_disconnect(void **state)
{
    struct loopback l;
    loopback_open(&l);
    assert_int_equal(rdma_disconnect(l.active.id), 0);
    event_take(l.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(told(l.active.id).qp_state, IBV_QPS_ERR);
    assert_int_equal(told(l.passive).qp_state, IBV_QPS_RTS);
    assert_int_equal(rdma_disconnect(l.passive), 0);
    assert_int_equal(told(l.passive).qp_state, IBV_QPS_ERR);
    loopback_close(&l);
}

static void post_recv_of_nothing(struct rdma_cm_id *id)
{
    struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
    assert_int_equal(ibv_post_recv(id->qp, &wr, &bad), 0);
}

// As Linux leaves it (rdma-core's librdmacm moves it when it is told to disconnect).
static void test_whose_program_has_taken_the_end_keeps_its_receives(void **state)
{
    struct loopback l;
    struct ibv_wc wc;
    loopback_open(&l);
    post_recv_of_nothing(l.passive);
    assert_int_equal(rdma_disconnect(l.active.id), 0);
    event_take(l.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    event_take(l.listener.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    assert_int_equal(told(l.passive).qp_state, IBV_QPS_RTS);
    assert_int_equal(ibv_poll_cq(l.passive->recv_cq, 1, &wc), 0);
    assert_int_equal(rdma_disconnect(l.passive), 0);
    assert_int_equal(ibv_poll_cq(l.passive->recv_cq, 1, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    loopback_close(&l);
}

static void test_a_program_that_only_polls_finds_its_receives_flushed(void **state)
{
    struct loopback l;
    struct ibv_wc wc;
    int count = 0;
    loopback_open(&l);
    post_recv_of_nothing(l.passive);
    assert_int_equal(rdma_disconnect(l.active.id), 0);
    while (count == 0) {
        count = ibv_poll_cq(l.passive->recv_cq, 1, &wc);
    }
    assert_int_equal(count, 1);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(told(l.passive).qp_state, IBV_QPS_ERR);
    loopback_close(&l);
}

// As with TCP, whose 0.0.0.0 is this host to who connects there.
static void test_who_asks_for_no_address_asks_this_host(void **state)
{
    struct sockaddr_in none = {.sin_family = AF_INET};
    struct end listener, active = {.channel = rdma_create_event_channel()};
    listener_open(&listener);
    none.sin_port = rdma_get_src_port(listener.id);
    assert_int_equal(rdma_create_id(active.channel, &active.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(active.id, NULL, (struct sockaddr *)&none, 1000), 0);
    assert_int_equal(event_take(active.channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    assert_int_equal(rdma_resolve_route(active.id, 1000), 0);
    assert_int_equal(event_take(active.channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
    qp_open(active.id);
    assert_int_equal(rdma_connect(active.id, NULL), 0);
    struct rdma_cm_event *event = event_expect(listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *passive = event->id;
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(rdma_reject(passive, NULL, 0), 0);
    event_take(active.channel, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(rdma_destroy_id(passive), 0);
    end_close(&active);
    end_close(&listener);
}

static void test_both_ends_hear_that_their_numbers_may_be_used_again(void **state)
{
    struct loopback l;
    loopback_open(&l);
    assert_int_equal(rdma_disconnect(l.active.id), 0);
    event_take(l.active.channel, RDMA_CM_EVENT_DISCONNECTED);
    event_take(l.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(event_take(l.active.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
    assert_int_equal(event_take(l.listener.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
    assert_int_equal(rdma_disconnect(l.active.id), 0); // as before
    loopback_close(&l);
}

// As librdmacm tells it (ucma_process_conn_resp).
static void test_who_has_moved_the_queue_pair_meanwhile_hears_of_an_error(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct loopback l;
    loopback_request(&l);
    assert_int_equal(ibv_modify_qp(l.active.id->qp, &attr, IBV_QP_STATE), 0);
    qp_open(l.passive);
    assert_int_equal(rdma_accept(l.passive, NULL), 0);
    assert_int_equal(event_take(l.active.channel, RDMA_CM_EVENT_CONNECT_ERROR), -EINVAL);
    event_take(l.listener.channel, RDMA_CM_EVENT_REJECTED);
    loopback_close(&l);
}

// As librdmacm has it: its rdma_get_cm_event moves the queue pair, nobody before.
static void test_a_rejection_ends_the_queue_pair_of_who_takes_it(void **state)
{
    struct loopback l;
    loopback_request(&l);
    assert_int_equal(rdma_reject(l.passive, NULL, 0), 0);
    struct pollfd told = {.fd = l.active.channel->fd, .events = POLLIN};
    assert_int_equal(poll(&told, 1, -1), 1);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(l.active.id->qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_INIT);
    event_take(l.active.channel, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(ibv_query_qp(l.active.id->qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_ERR);
    loopback_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_port_of_ended_connections_is_free_and_then_taken),
        cmocka_unit_test(test_a_port_of_tcp_is_another_one),
        cmocka_unit_test(test_each_family_has_a_listener_of_its_own_at_one_port),
        cmocka_unit_test(test_both_ends_are_told_what_they_agreed_on),
        cmocka_unit_test(test_who_hears_of_communication_is_connected_by_saying_so),
        cmocka_unit_test(test_a_route_is_shown_as_a_path_from_gid_to_gid),
        cmocka_unit_test(test_a_request_tells_all_that_was_asked_for),
        cmocka_unit_test(test_who_is_rejected_for_ece_hears_that_it_was_for_ece),
        cmocka_unit_test(test_who_connects_without_a_port_is_given_one),
        cmocka_unit_test(test_a_program_that_moves_its_queue_pairs_sends_over_them),
        cmocka_unit_test(test_who_has_accepted_hears_that_the_peer_wants_no_more),
        cmocka_unit_test(test_whose_number_is_said_is_the_programs_affair),
        cmocka_unit_test(test_nothing_is_told_where_there_is_no_peer),
        cmocka_unit_test(test_a_query_tells_what_the_connection_has_set),
        cmocka_unit_test(test_a_queue_pair_is_flushed_by_its_own_programs_disconnect),
        cmocka_unit_test(test_whose_program_has_taken_the_end_keeps_its_receives),
        cmocka_unit_test(test_a_program_that_only_polls_finds_its_receives_flushed),
        cmocka_unit_test(test_who_asks_for_no_address_asks_this_host),
        cmocka_unit_test(test_both_ends_hear_that_their_numbers_may_be_used_again),
        cmocka_unit_test(test_who_has_moved_the_queue_pair_meanwhile_hears_of_an_error),
        cmocka_unit_test(test_a_rejection_ends_the_queue_pair_of_who_takes_it),
    };
    setenv("WEFT_WIRE", "roce", 1);
    roce_port_of_own();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
