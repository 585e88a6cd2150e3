// What ids show, and what their calls do with what they are given: addresses, queue pairs, depths,
// private data, devices.

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"

#define assert_refused(call, error)     \
    do {                                \
        errno = 0;                      \
        assert_int_equal(call, -1);     \
        assert_int_equal(errno, error); \
    } while (0)

static struct end fresh_id(enum rdma_port_space ps)
{
    struct end end = {.channel = rdma_create_event_channel()};
    assert_int_equal(rdma_create_id(end.channel, &end.id, &end, ps), 0);
    return end;
}

/* ---- ids ------------------------------------------------------------------------------------- */

static void test_a_fresh_id_shows_what_it_was_made_of(void **state)
{
    static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_IB, RDMA_PS_UDP,
                                                  RDMA_PS_IPOIB};
    for (unsigned i = 0; i < 4; i++) {
        struct end fresh = fresh_id(spaces[i]);
        assert_ptr_equal(fresh.id->channel, fresh.channel);
        assert_non_null(fresh.id->context);
        assert_int_equal(fresh.id->ps, spaces[i]);
        assert_int_equal(fresh.id->qp_type, i < 2 ? IBV_QPT_RC : IBV_QPT_UD);
        assert_null(fresh.id->verbs);
        assert_null(fresh.id->qp);
        assert_null(fresh.id->event);
        assert_int_equal(rdma_get_src_port(fresh.id), 0);
        assert_int_equal(rdma_get_dst_port(fresh.id), 0);
        end_close(&fresh);
    }
}

static void test_an_id_with_an_address_shows_its_device(void **state)
{
    struct end fresh = fresh_id(RDMA_PS_TCP);
    struct sockaddr_in addr = loopback_addr(0);
    union ibv_gid gid;
    assert_int_equal(rdma_bind_addr(fresh.id, (struct sockaddr *)&addr), 0);
    assert_non_null(fresh.id->verbs);
    assert_ptr_equal(fresh.id->pd->context, fresh.id->verbs);
    assert_int_equal(fresh.id->port_num, 1);
    assert_int_equal(fresh.id->route.addr.addr.ibaddr.pkey, 0xffff);
    assert_int_equal(ibv_query_gid(fresh.id->verbs, 1, 0, &gid), 0);
    assert_memory_equal(&fresh.id->route.addr.addr.ibaddr.sgid, &gid, sizeof gid);
    assert_int_not_equal(rdma_get_src_port(fresh.id), 0);
    assert_int_equal(rdma_notify(fresh.id, IBV_EVENT_COMM_EST), 0);
    end_close(&fresh);
}

static void test_a_listener_without_an_address_takes_any(void **state)
{
    struct end listener = fresh_id(RDMA_PS_TCP), active = {0};
    assert_int_equal(rdma_listen(listener.id, 1), 0);
    assert_int_equal(rdma_get_local_addr(listener.id)->sa_family, AF_INET);
    assert_int_not_equal(rdma_get_src_port(listener.id), 0);
    active_open(&active, rdma_get_src_port(listener.id));
    assert_int_equal(rdma_connect(active.id, NULL), 0);
    struct rdma_cm_event *event = event_expect(listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct end passive = {.id = event->id};
    rdma_ack_cm_event(event);
    end_close(&passive);
    end_close(&active);
    end_close(&listener);
}

static void test_datagrams_neither_listen_nor_connect(void **state)
{
    struct end fresh = fresh_id(RDMA_PS_UDP);
    struct rdma_conn_param param = {0};
    struct sockaddr_in addr = loopback_addr(0);
    assert_int_equal(rdma_bind_addr(fresh.id, (struct sockaddr *)&addr), 0);
    assert_refused(rdma_listen(fresh.id, 1), EOPNOTSUPP);
    assert_refused(rdma_connect(fresh.id, &param), EOPNOTSUPP);
    end_close(&fresh);
}

static void test_a_mapped_address_is_shown_as_it_is_reached(void **state)
{
    struct end listener = fresh_id(RDMA_PS_TCP), active = {0};
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    assert_int_equal(rdma_bind_addr(listener.id, (struct sockaddr *)&any), 0);
    assert_int_equal(rdma_get_local_addr(listener.id)->sa_family, AF_INET6);
    assert_int_equal(rdma_listen(listener.id, 1), 0);
    active_open(&active, rdma_get_src_port(listener.id)); // over IPv4
    assert_int_equal(rdma_connect(active.id, NULL), 0);
    struct rdma_cm_event *event = event_expect(listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct end passive = {.id = event->id};
    struct sockaddr_in own, peer, expected = loopback_addr(0);
    memcpy(&own, rdma_get_local_addr(passive.id), sizeof own);
    memcpy(&peer, rdma_get_peer_addr(passive.id), sizeof peer);
    assert_true(own.sin_family == AF_INET && peer.sin_family == AF_INET);
    assert_true(own.sin_addr.s_addr == expected.sin_addr.s_addr);
    assert_int_equal(own.sin_port, rdma_get_src_port(listener.id));
    assert_int_not_equal(peer.sin_port, 0);
    assert_int_equal(peer.sin_port, rdma_get_dst_port(passive.id));
    rdma_ack_cm_event(event);
    end_close(&passive);
    end_close(&active);
    end_close(&listener);
}

static void test_the_first_device_is_the_one_that_connections_use(void **state)
{
    struct end fresh = fresh_id(RDMA_PS_TCP);
    struct sockaddr_in addr = loopback_addr(0);
    int count = 0;
    struct ibv_context **list = rdma_get_devices(&count);
    assert_in_range(count, 1, 2); // that of datagrams, if an id has opened it before
    assert_null(list[count]);
    assert_int_equal(rdma_bind_addr(fresh.id, (struct sockaddr *)&addr), 0);
    assert_ptr_equal(list[0], fresh.id->verbs);
    rdma_free_devices(list);
    rdma_free_devices(rdma_get_devices(NULL));
    end_close(&fresh);
}

/* ---- options --------------------------------------------------------------------------------- */

// rdma_set_option(3): "This will allow other users to bind to that same address."
static void test_who_is_bound_may_still_share_his_address(void **state)
{
    struct end first = fresh_id(RDMA_PS_TCP), second = fresh_id(RDMA_PS_TCP);
    struct sockaddr_in addr = loopback_addr(0);
    const int name = RDMA_OPTION_ID_REUSEADDR;
    int on = 1, off = 0;
    assert_int_equal(rdma_bind_addr(first.id, (struct sockaddr *)&addr), 0);
    addr.sin_port = rdma_get_src_port(first.id);
    assert_int_equal(rdma_set_option(second.id, RDMA_OPTION_ID, name, &on, sizeof on), 0);
    assert_refused(rdma_bind_addr(second.id, (struct sockaddr *)&addr), EADDRINUSE);
    assert_int_equal(rdma_set_option(first.id, RDMA_OPTION_ID, name, &on, sizeof on), 0);
    assert_int_equal(rdma_get_src_port(first.id), addr.sin_port);
    assert_int_equal(rdma_bind_addr(second.id, (struct sockaddr *)&addr), 0);
    assert_refused(rdma_set_option(first.id, RDMA_OPTION_ID, name, &off, sizeof off), EINVAL);
    assert_int_equal(rdma_listen(first.id, 0), 0);
    end_close(&first);
    end_close(&second);
}

static void test_switches_stand_once_somebody_listens(void **state)
{
    struct end fresh = fresh_id(RDMA_PS_TCP);
    struct sockaddr_in addr = loopback_addr(0);
    int on = 1, off = 0;
    uint8_t tos = 0x20;
    assert_int_equal(rdma_bind_addr(fresh.id, (struct sockaddr *)&addr), 0);
    assert_int_equal(rdma_listen(fresh.id, 0), 0);
    const int names[] = {RDMA_OPTION_ID_REUSEADDR, RDMA_OPTION_ID_AFONLY};
    for (unsigned i = 0; i < 2; i++) {
        assert_refused(rdma_set_option(fresh.id, RDMA_OPTION_ID, names[i], &on, sizeof on), EINVAL);
        assert_int_equal(rdma_set_option(fresh.id, RDMA_OPTION_ID, names[i], &off, sizeof off), 0);
    }
    assert_int_equal(rdma_set_option(fresh.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
    assert_refused(rdma_set_option(fresh.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1), EINVAL);
    end_close(&fresh);
}

static void test_an_ack_timeout_is_an_option_of_connections(void **state)
{
    struct end datagram = fresh_id(RDMA_PS_UDP), active = {0};
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    uint8_t timeout = 17;
    const int name = RDMA_OPTION_ID_ACK_TIMEOUT;
    assert_refused(rdma_set_option(datagram.id, RDMA_OPTION_ID, name, &timeout, 1), EINVAL);
    active_resolve(&active, htons(1));
    assert_int_equal(rdma_set_option(active.id, RDMA_OPTION_ID, name, &timeout, 1), 0);
    qp_open(active.id); // behind the option this time
    assert_int_equal(ibv_query_qp(active.id->qp, &attr, IBV_QP_TIMEOUT, &init), 0);
    assert_int_equal(attr.timeout, 17);
    end_close(&active);
    end_close(&datagram);
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static void test_attributes_for_a_qp_of_the_programs_own(void **state)
{
    struct end active = {0}, fresh = fresh_id(RDMA_PS_TCP);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .pkey_index = 7};
    int mask;
    assert_refused(rdma_init_qp_attr(fresh.id, &attr, &mask), EINVAL);
    active_resolve(&active, htons(1));
    assert_int_equal(rdma_init_qp_attr(active.id, &attr, &mask), 0);
    assert_int_equal(mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT | IBV_QP_PKEY_INDEX);
    assert_int_equal(attr.pkey_index, 0);
    assert_int_equal(attr.port_num, 1);
    assert_int_equal(attr.qp_access_flags,
                     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    for (int later = IBV_QPS_RTR; later <= IBV_QPS_RTS; later++) {
        attr = (struct ibv_qp_attr){.qp_state = (enum ibv_qp_state)later};
        assert_int_equal(rdma_init_qp_attr(active.id, &attr, &mask), 0);
        assert_int_equal(mask, IBV_QP_ACCESS_FLAGS | IBV_QP_PORT);
        assert_int_equal(attr.port_num, 1);
    }
    attr.qp_state = IBV_QPS_ERR;
    assert_refused(rdma_init_qp_attr(active.id, &attr, &mask), EINVAL);
    end_close(&active);
    end_close(&fresh);
}

static void test_an_ids_qp_is_ready_for_receives(void **state)
{
    struct end active = {0};
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 3, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_qp_attr told;
    struct ibv_qp_init_attr init;
    active_resolve(&active, htons(1));
    struct ibv_pd *pd = ibv_alloc_pd(active.id->verbs);
    assert_int_equal(rdma_create_qp(active.id, pd, &attr), 0);
    assert_ptr_equal(active.id->pd, pd);
    assert_ptr_equal(active.id->qp->pd, pd);
    assert_true(attr.cap.max_send_wr >= 3 && attr.cap.max_recv_wr >= 5);
    assert_true(attr.send_cq == active.id->send_cq && attr.recv_cq == active.id->recv_cq);
    assert_true(active.id->send_cq->cqe >= 3 && active.id->recv_cq->cqe >= 5);
    assert_ptr_not_equal(active.id->send_cq, active.id->recv_cq);
    assert_ptr_equal(active.id->recv_cq->channel, active.id->recv_cq_channel);
    assert_int_equal(ibv_query_qp(active.id->qp, &told, IBV_QP_STATE, &init), 0);
    assert_int_equal(told.qp_state, IBV_QPS_INIT);
    rdma_destroy_qp(active.id);
    assert_true(active.id->qp == NULL && active.id->recv_cq == NULL);
    assert_true(active.id->send_cq_channel == NULL && active.id->recv_cq_channel == NULL);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    end_close(&active);
}

static void test_queues_of_the_program_are_used_and_left_alone(void **state)
{
    struct end active = {0};
    active_resolve(&active, htons(1));
    struct ibv_cq *own = ibv_create_cq(active.id->verbs, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .send_cq = own,
        .recv_cq = own,
        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
    };
    assert_int_equal(rdma_create_qp(active.id, NULL, &attr), 0);
    assert_true(active.id->send_cq == NULL && active.id->recv_cq == NULL);
    assert_true(active.id->qp->send_cq == own && active.id->qp->recv_cq == own);
    rdma_destroy_qp(active.id);
    active.id->recv_cq = own; // then it is the id's, and no other may be named
    struct ibv_cq *other = ibv_create_cq(active.id->verbs, 4, NULL, NULL, 0);
    attr.recv_cq = other;
    assert_refused(rdma_create_qp(active.id, NULL, &attr), EINVAL);
    active.id->recv_cq = NULL;
    active.id->send_cq = own;
    attr.send_cq = other;
    assert_refused(rdma_create_qp(active.id, NULL, &attr), EINVAL);
    active.id->send_cq = NULL;
    assert_int_equal(ibv_destroy_cq(own), 0);
    assert_int_equal(ibv_destroy_cq(other), 0);
    end_close(&active);
}

static void test_a_refused_qp_leaves_no_queues(void **state)
{
    struct end active = {0};
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1 << 20},
    };
    active_resolve(&active, htons(1));
    assert_refused(rdma_create_qp(active.id, NULL, &attr), EINVAL);
    assert_true(active.id->send_cq == NULL && active.id->recv_cq == NULL);
    assert_true(active.id->send_cq_channel == NULL && active.id->recv_cq_channel == NULL);
    assert_true(attr.send_cq == NULL && attr.recv_cq == NULL); // what is gone is not named
    attr.cap.max_send_sge = 1;
    attr.cap.max_recv_wr = 1 << 30; // no such completion queue
    assert_refused(rdma_create_qp(active.id, NULL, &attr), EINVAL);
    assert_true(active.id->recv_cq == NULL && active.id->recv_cq_channel == NULL);
    assert_null(active.id->qp);
    end_close(&active);
}

static void test_a_shared_receive_queue_is_the_ids(void **state)
{
    struct end active = {0}, fresh = fresh_id(RDMA_PS_TCP);
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 5, .max_sge = 1}};
    struct ibv_srq_init_attr_ex typed = {.attr = {.max_wr = 4, .max_sge = 1},
                                         .comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
                                         .srq_type = IBV_SRQT_BASIC};
    assert_refused(rdma_create_srq_ex(fresh.id, &typed), EINVAL); // no device yet
    active_resolve(&active, htons(1));
    struct ibv_pd *pd = active.id->pd;
    assert_int_equal(rdma_create_srq(active.id, NULL, &attr), 0);
    assert_ptr_equal(active.id->srq->pd, pd);
    struct ibv_srq_attr made;
    assert_int_equal(ibv_query_srq(active.id->srq, &made), 0);
    assert_true(made.max_wr >= 5);
    assert_int_equal(attr.attr.max_wr, made.max_wr);
    assert_int_equal(attr.attr.max_sge, made.max_sge);
    rdma_destroy_srq(active.id);
    assert_null(active.id->srq);
    assert_int_equal(rdma_create_srq_ex(active.id, &typed), 0);
    assert_ptr_equal(typed.pd, pd);
    qp_open(active.id);
    assert_ptr_equal(active.id->qp->srq, active.id->srq);
    rdma_destroy_ep(active.id); // and all that it has
    active.id = NULL;
    end_close(&active);
    end_close(&fresh);
}

/* ---- depths ---------------------------------------------------------------------------------- */

struct depths {
    uint8_t initiator, responder;
};

// Connects and accepts with these; NULL: without any word of the program. What the two sides were
// told of each other.
static void expect_depths(const struct depths *ask, const struct depths *answer,
                          struct depths told_passive, struct depths told_active)
{
    struct loopback l = {0};
    listener_open(&l.listener);
    active_open(&l.active, rdma_get_src_port(l.listener.id));
    struct rdma_conn_param param = {0};
    if (ask != NULL) {
        param.initiator_depth = ask->initiator;
        param.responder_resources = ask->responder;
    }
    assert_int_equal(rdma_connect(l.active.id, ask != NULL ? &param : NULL), 0);
    struct rdma_cm_event *event = event_expect(l.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    l.passive = event->id;
    assert_int_equal(event->param.conn.initiator_depth, told_passive.initiator);
    assert_int_equal(event->param.conn.responder_resources, told_passive.responder);
    rdma_ack_cm_event(event);
    qp_open(l.passive);
    if (answer != NULL) {
        param.initiator_depth = answer->initiator;
        param.responder_resources = answer->responder;
    }
    assert_int_equal(rdma_accept(l.passive, answer != NULL ? &param : NULL), 0);
    event = event_expect(l.active.channel, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(event->status, 0);
    assert_int_equal(event->param.conn.initiator_depth, told_active.initiator);
    assert_int_equal(event->param.conn.responder_resources, told_active.responder);
    rdma_ack_cm_event(event);
    event_take(l.listener.channel, RDMA_CM_EVENT_ESTABLISHED);
    loopback_close(&l);
}

static void test_depths_are_told_to_the_other_side(void **state)
{
    const struct depths most = {RDMA_MAX_INIT_DEPTH, RDMA_MAX_RESP_RES};
    expect_depths(&(struct depths){3, 5}, &(struct depths){4, 2}, (struct depths){5, 3},
                  (struct depths){2, 4});
    expect_depths(NULL, NULL, (struct depths){128, 128}, (struct depths){128, 128});
    expect_depths(&most, &most, (struct depths){128, 128}, (struct depths){128, 128});
    // Without a word: as many as the peer can do.
    expect_depths(&(struct depths){3, 5}, NULL, (struct depths){5, 3}, (struct depths){3, 5});
}

/* ---- endpoints ------------------------------------------------------------------------------- */

static struct rdma_addrinfo *info_of(struct rdma_cm_id *listener, int flags)
{
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *res;
    char port[8];
    snprintf(port, sizeof port, "%u", listener != NULL ? ntohs(rdma_get_src_port(listener)) : 0);
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", port, &hints, &res), 0);
    return res;
}

// Connects an endpoint whose private data begin with `prefix_len` octets of 'p'.
static int connect_with_prefix(struct rdma_cm_id *listener, size_t prefix_len,
                               struct rdma_conn_param *param, struct rdma_cm_id **ret,
                               struct rdma_event_channel *channel)
{
    struct rdma_addrinfo *res = info_of(listener, 0);
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1, .max_recv_wr = 1}};
    res->ai_connect = malloc(prefix_len);
    memset(res->ai_connect, 'p', prefix_len);
    res->ai_connect_len = prefix_len;
    int result = rdma_create_ep(ret, res, NULL, &attr);
    rdma_freeaddrinfo(res);
    if (result == 0) {
        assert_int_equal((*ret)->qp_type, IBV_QPT_RC);
        assert_non_null((*ret)->qp);
        assert_int_equal(rdma_migrate_id(*ret, channel), 0); // so that connect does not wait
        result = rdma_connect(*ret, param);
    }
    return result;
}

static void test_an_endpoints_private_data_have_its_prefix(void **state)
{
    struct end listener;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_conn_param param = {.private_data = "data", .private_data_len = 5};
    struct rdma_cm_id *active;
    listener_open(&listener);
    assert_int_equal(connect_with_prefix(listener.id, 3, &param, &active, channel), 0);
    struct rdma_cm_event *event = event_expect(listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct end passive = {.id = event->id};
    assert_int_equal(event->param.conn.private_data_len, 8);
    assert_memory_equal(event->param.conn.private_data, "pppdata", 8);
    rdma_ack_cm_event(event);
    end_close(&passive);
    rdma_destroy_ep(active);
    rdma_destroy_event_channel(channel);
    end_close(&listener);
}

static void test_a_prefix_is_sent_without_data_of_the_programs(void **state)
{
    struct end listener;
    struct rdma_conn_param none = {0};
    struct rdma_conn_param *const params[] = {NULL, &none};
    listener_open(&listener);
    for (unsigned i = 0; i < 2; i++) {
        struct rdma_event_channel *channel = rdma_create_event_channel();
        struct rdma_cm_id *active;
        assert_int_equal(connect_with_prefix(listener.id, 3, params[i], &active, channel), 0);
        struct rdma_cm_event *event = event_expect(listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
        struct end passive = {.id = event->id};
        assert_int_equal(event->param.conn.private_data_len, 3);
        assert_memory_equal(event->param.conn.private_data, "ppp", 3);
        rdma_ack_cm_event(event);
        end_close(&passive);
        rdma_destroy_ep(active);
        rdma_destroy_event_channel(channel);
    }
    end_close(&listener);
}

static void test_a_prefix_that_leaves_no_room_is_refused(void **state)
{
    struct end listener;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    uint8_t data[255] = {0};
    struct rdma_conn_param param = {.private_data = data, .private_data_len = sizeof data};
    struct rdma_cm_id *active = NULL;
    listener_open(&listener);
    assert_refused(connect_with_prefix(listener.id, 4096, &param, &active, channel), EINVAL);
    assert_null(active);
    end_close(&listener);
    rdma_destroy_event_channel(channel);
}

static void test_an_endpoint_that_cannot_be_leaves_nothing(void **state)
{
    struct end listener;
    struct rdma_cm_id *id = NULL;
    listener_open(&listener);
    struct rdma_addrinfo *res = info_of(listener.id, RAI_PASSIVE); // its address is taken
    assert_refused(rdma_create_ep(&id, res, NULL, NULL), EADDRINUSE);
    assert_null(id);
    rdma_freeaddrinfo(res);
    res = info_of(listener.id, 0);
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1, .max_send_sge = 1 << 20}};
    assert_refused(rdma_create_ep(&id, res, NULL, &attr), EINVAL);
    assert_null(id);
    res->ai_port_space = 0x7777; // there is no such
    assert_refused(rdma_create_ep(&id, res, NULL, NULL), EINVAL);
    assert_null(id);
    rdma_freeaddrinfo(res);
    end_close(&listener);
}

static void test_a_listening_endpoint_keeps_what_its_qps_are_made_of(void **state)
{
    struct rdma_cm_id *listener, *passive;
    struct end active = {0};
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 3, .max_recv_wr = 7}};
    struct rdma_addrinfo *res = info_of(NULL, RAI_PASSIVE);
    int count;
    struct ibv_context **devices = rdma_get_devices(&count);
    struct ibv_pd *pd = ibv_alloc_pd(devices[0]);
    rdma_free_devices(devices);
    assert_int_equal(rdma_create_ep(&listener, res, pd, &attr), 0);
    rdma_freeaddrinfo(res);
    assert_ptr_equal(listener->pd, pd);
    assert_null(listener->qp);
    assert_int_equal(rdma_listen(listener, 1), 0);
    active_open(&active, rdma_get_src_port(listener));
    assert_int_equal(rdma_connect(active.id, NULL), 0);
    assert_int_equal(rdma_get_request(listener, &passive), 0);
    assert_ptr_equal(passive->qp->pd, pd);
    assert_int_equal(passive->qp->qp_type, IBV_QPT_RC);
    assert_true(passive->recv_cq->cqe >= 7);
    assert_int_equal(passive->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_null(listener->event);
    rdma_destroy_ep(passive);
    end_close(&active);
    rdma_destroy_ep(listener);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

// A request whose queue pair cannot be made is turned away, and the next is heard.
static void test_a_request_without_its_qp_is_turned_away(void **state)
{
    struct rdma_cm_id *listener, *passive = NULL;
    struct end active = {0};
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1, .max_send_sge = 1 << 20}};
    struct rdma_addrinfo *res = info_of(NULL, RAI_PASSIVE);
    assert_int_equal(rdma_create_ep(&listener, res, NULL, &attr), 0);
    rdma_freeaddrinfo(res);
    assert_int_equal(rdma_listen(listener, 1), 0);
    for (int i = 0; i < 2; i++) {
        active_open(&active, rdma_get_src_port(listener));
        assert_int_equal(rdma_connect(active.id, NULL), 0);
        assert_refused(rdma_get_request(listener, &passive), EINVAL);
        assert_null(passive);
        struct rdma_cm_event *event;
        assert_int_equal(rdma_get_cm_event(active.channel, &event), 0);
        assert_int_not_equal(event->status, 0);
        rdma_ack_cm_event(event);
        end_close(&active);
    }
    rdma_destroy_ep(listener);
}

#define CASE(name) cmocka_unit_test(name)

int main(void)
{
    setenv("WEFT_WIRE", "iwarp", 1); // the other one has datagrams
    const struct CMUnitTest tests[] = {
        CASE(test_a_fresh_id_shows_what_it_was_made_of),
        CASE(test_an_id_with_an_address_shows_its_device),
        CASE(test_a_listener_without_an_address_takes_any),
        CASE(test_datagrams_neither_listen_nor_connect),
        CASE(test_a_mapped_address_is_shown_as_it_is_reached),
        CASE(test_the_first_device_is_the_one_that_connections_use),
        CASE(test_who_is_bound_may_still_share_his_address),
        CASE(test_switches_stand_once_somebody_listens),
        CASE(test_an_ack_timeout_is_an_option_of_connections),
        CASE(test_attributes_for_a_qp_of_the_programs_own),
        CASE(test_an_ids_qp_is_ready_for_receives),
        CASE(test_queues_of_the_program_are_used_and_left_alone),
        CASE(test_a_refused_qp_leaves_no_queues),
        CASE(test_a_shared_receive_queue_is_the_ids),
        CASE(test_depths_are_told_to_the_other_side),
        CASE(test_an_endpoints_private_data_have_its_prefix),
        CASE(test_a_prefix_is_sent_without_data_of_the_programs),
        CASE(test_a_prefix_that_leaves_no_room_is_refused),
        CASE(test_an_endpoint_that_cannot_be_leaves_nothing),
        CASE(test_a_listening_endpoint_keeps_what_its_qps_are_made_of),
        CASE(test_a_request_without_its_qp_is_turned_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
