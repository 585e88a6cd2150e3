// What each call says when it is refused: the errno values of rdma-core on an iWARP device.

#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
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

static struct end fresh_id(void)
{
    struct end end = {.channel = rdma_create_event_channel()};
    assert_int_equal(rdma_create_id(end.channel, &end.id, NULL, RDMA_PS_TCP), 0);
    return end;
}

static void test_calls_out_of_order_are_einval(void **state)
{
    struct end fresh = fresh_id();
    struct rdma_conn_param param = {0};
    struct sockaddr_in any = {.sin_family = AF_INET};
    assert_refused(rdma_resolve_route(fresh.id, 0), EINVAL);
    assert_refused(rdma_connect(fresh.id, &param), EINVAL);
    assert_refused(rdma_accept(fresh.id, &param), EINVAL);
    assert_refused(rdma_reject(fresh.id, NULL, 0), EINVAL);
    assert_refused(rdma_disconnect(fresh.id), EINVAL);
    assert_refused(rdma_establish(fresh.id), EINVAL);
    assert_refused(rdma_notify(fresh.id, IBV_EVENT_COMM_EST), EINVAL);
    assert_int_equal(rdma_bind_addr(fresh.id, (struct sockaddr *)&any), 0);
    assert_refused(rdma_bind_addr(fresh.id, (struct sockaddr *)&any), EINVAL);
    assert_int_equal(rdma_listen(fresh.id, 0), 0);
    assert_refused(rdma_listen(fresh.id, 0), EINVAL);
    assert_refused(rdma_disconnect(fresh.id), EINVAL);
    end_close(&fresh);
}

static void test_arguments_that_are_not_there_are_einval(void **state)
{
    struct end fresh = fresh_id();
    assert_refused(rdma_bind_addr(fresh.id, NULL), EINVAL);
    assert_refused(rdma_resolve_addr(fresh.id, NULL, NULL, 0), EINVAL);
    assert_refused(rdma_get_cm_event(fresh.channel, NULL), EINVAL);
    assert_refused(rdma_ack_cm_event(NULL), EINVAL);
    assert_refused(rdma_getaddrinfo(NULL, NULL, NULL, NULL), EINVAL);
    end_close(&fresh);
}

static void test_families_must_be_of_ip_and_agree(void **state)
{
    struct end fresh = fresh_id();
    struct sockaddr strange = {.sa_family = AF_UNIX};
    struct sockaddr_in dst = loopback_addr(htons(1));
    struct sockaddr_in6 src = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    assert_refused(rdma_bind_addr(fresh.id, &strange), EINVAL);
    assert_refused(rdma_resolve_addr(fresh.id, &strange, (struct sockaddr *)&dst, 0), EINVAL);
    assert_refused(rdma_resolve_addr(fresh.id, NULL, &strange, 0), EINVAL);
    assert_refused(rdma_resolve_addr(fresh.id, (struct sockaddr *)&src, (struct sockaddr *)&dst, 0),
                   EINVAL);
    end_close(&fresh);
}

static void test_a_foreign_address_cannot_be_bound(void **state)
{
    struct end fresh = fresh_id();
    struct sockaddr_in foreign = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)};
    assert_refused(rdma_bind_addr(fresh.id, (struct sockaddr *)&foreign), EADDRNOTAVAIL);
    foreign.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(rdma_bind_addr(fresh.id, (struct sockaddr *)&foreign), 0);
    end_close(&fresh);
}

static void test_a_port_in_use_is_eaddrinuse(void **state)
{
    struct end listener, fresh = fresh_id();
    listener_open(&listener);
    struct sockaddr_in addr = loopback_addr(rdma_get_src_port(listener.id));
    assert_refused(rdma_bind_addr(fresh.id, (struct sockaddr *)&addr), EADDRINUSE);
    end_close(&fresh);
    end_close(&listener);
}

static void test_port_0_becomes_a_port_at_once(void **state)
{
    struct end fresh = fresh_id();
    struct sockaddr_in addr = loopback_addr(0);
    assert_int_equal(rdma_bind_addr(fresh.id, (struct sockaddr *)&addr), 0);
    assert_int_not_equal(rdma_get_src_port(fresh.id), 0);
    end_close(&fresh);
}

static void test_a_wildcard_is_no_devices_address(void **state)
{
    struct end fresh = fresh_id(), bound = fresh_id();
    struct sockaddr_in any = {.sin_family = AF_INET}, local = loopback_addr(0);
    int count;
    struct ibv_context **devices = rdma_get_devices(&count);
    assert_true(count >= 1); // that of packets may be held by another user
    assert_int_equal(rdma_bind_addr(fresh.id, (struct sockaddr *)&any), 0);
    assert_null(fresh.id->verbs);
    assert_int_equal(rdma_bind_addr(bound.id, (struct sockaddr *)&local), 0);
    assert_ptr_equal(bound.id->verbs, devices[0]);
    assert_non_null(bound.id->pd);
    assert_int_equal(bound.id->port_num, 1);
    rdma_free_devices(devices);
    end_close(&fresh);
    end_close(&bound);
}

static void test_depths_beyond_the_device_are_einval(void **state)
{
    static const struct {
        uint8_t responder_resources, initiator_depth;
        bool is_legal;
    } rows[] = {
        {129, 0, false},
        {0, 129, false},
        {254, 254, false},
        {128, 128, true},
        {RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH, true},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct loopback l;
        struct rdma_conn_param param = {.responder_resources = rows[i].responder_resources,
                                        .initiator_depth = rows[i].initiator_depth};
        loopback_request(&l);
        qp_open(l.passive);
        if (rows[i].is_legal) {
            assert_int_equal(rdma_accept(l.passive, &param), 0);
        } else {
            assert_refused(rdma_accept(l.passive, &param), EINVAL);
        }
        loopback_close(&l);
    }
}

static void test_datagrams_are_refused_where_the_qp_is_made(void **state)
{
    struct end datagram = {.channel = rdma_create_event_channel()};
    struct sockaddr_in addr = loopback_addr(0);
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
    };
    assert_int_equal(rdma_create_id(datagram.channel, &datagram.id, NULL, RDMA_PS_UDP), 0);
    assert_int_equal(datagram.id->qp_type, IBV_QPT_UD);
    assert_int_equal(rdma_bind_addr(datagram.id, (struct sockaddr *)&addr), 0);
    assert_refused(rdma_create_qp(datagram.id, NULL, &attr), EOPNOTSUPP);
    assert_null(datagram.id->send_cq);
    assert_refused(rdma_listen(datagram.id, 0), EOPNOTSUPP);
    end_close(&datagram);
}

static void test_an_unknown_port_space_is_einval(void **state)
{
    struct rdma_cm_id *id;
    assert_refused(rdma_create_id(NULL, &id, NULL, (enum rdma_port_space)1), EINVAL);
}

static void test_multicast_is_refused(void **state)
{
    struct end fresh = fresh_id();
    struct sockaddr_in local = loopback_addr(0);
    struct sockaddr_in group = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xe0000001)};
    struct rdma_cm_join_mc_attr_ex attr = {
        .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
        .addr = (struct sockaddr *)&group,
    };
    assert_refused(rdma_join_multicast(fresh.id, (struct sockaddr *)&group, NULL), EINVAL);
    assert_int_equal(rdma_bind_addr(fresh.id, (struct sockaddr *)&local), 0);
    assert_refused(rdma_join_multicast(fresh.id, (struct sockaddr *)&group, NULL), ENOSYS);
    assert_refused(rdma_join_multicast(fresh.id, NULL, NULL), EINVAL);
    assert_refused(rdma_join_multicast_ex(fresh.id, &attr, NULL), ENOSYS);
    attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
    assert_refused(rdma_join_multicast_ex(fresh.id, &attr, NULL), EINVAL);
    attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
    assert_refused(rdma_join_multicast_ex(fresh.id, &attr, NULL), ENOTSUP);
    assert_refused(rdma_leave_multicast(fresh.id, (struct sockaddr *)&group), EADDRNOTAVAIL);
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    assert_refused(rdma_leave_multicast(fresh.id, &nowhere), EINVAL);
    end_close(&fresh);
}

static void test_options(void **state)
{
    struct end fresh = fresh_id();
    int on = 1;
    uint8_t octet = 0x20, path[sizeof(struct ibv_path_data)] = {0};
    const struct {
        int level, name;
        void *value;
        size_t len;
        int error; // 0: accepted
    } rows[] = {
        {RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &octet, 1, 0},
        {RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, sizeof on, EINVAL},
        {RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on, 0},
        {RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &octet, 1, EINVAL},
        {RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on, 0},
        {RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &octet, 1, EINVAL},
        {RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &octet, 1, 0},
        {RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &on, sizeof on, EINVAL},
        {RDMA_OPTION_ID, 99, &octet, 1, ENOSYS},
        {RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path, 1, EINVAL},
        {RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path, sizeof path, ENOSYS},
        {99, 0, &octet, 1, ENOSYS},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int result =
            rdma_set_option(fresh.id, rows[i].level, rows[i].name, rows[i].value, rows[i].len);
        assert_int_equal(result, rows[i].error == 0 ? 0 : -1);
        if (rows[i].error != 0) {
            assert_int_equal(errno, rows[i].error);
        }
    }
    end_close(&fresh);
}

static void test_the_ack_timeout_shows_in_the_qp(void **state)
{
    struct loopback l;
    uint8_t timeout = 21;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    loopback_request(&l);
    qp_open(l.passive);
    assert_int_equal(rdma_set_option(l.passive, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
                                     &timeout, sizeof timeout),
                     0);
    assert_int_equal(rdma_accept(l.passive, NULL), 0);
    assert_int_equal(ibv_query_qp(l.passive->qp, &attr, IBV_QP_TIMEOUT, &init), 0);
    assert_int_equal(attr.timeout, timeout);
    loopback_close(&l);
}

static void test_ece(void **state)
{
    struct end fresh = fresh_id();
    struct ibv_ece ece = {.vendor_id = 0};
    assert_refused(rdma_set_local_ece(fresh.id, &ece), EINVAL);
    ece.vendor_id = 5;
    assert_int_equal(rdma_set_local_ece(fresh.id, &ece), 0);
    assert_int_equal(rdma_get_remote_ece(fresh.id, &ece), 0);
    assert_int_equal(ece.vendor_id, 0);
    end_close(&fresh);
}

static void test_a_domain_of_another_context_is_einval(void **state)
{
    struct loopback l;
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1}};
    loopback_request(&l);
    struct ibv_context *own = ibv_open_device(l.passive->verbs->device);
    struct ibv_pd *pd = ibv_alloc_pd(own);
    assert_ptr_not_equal(own, l.passive->verbs);
    assert_refused(rdma_create_qp(l.passive, pd, &attr), EINVAL);
    ibv_dealloc_pd(pd);
    ibv_close_device(own);
    loopback_close(&l);
}

static void test_completions_of_an_ids_own_queues_name_the_id(void **state)
{
    struct loopback l;
    loopback_request(&l);
    qp_open(l.passive);
    assert_ptr_equal(l.passive->send_cq->cq_context, l.passive);
    assert_ptr_equal(l.passive->recv_cq->cq_context, l.passive);
    assert_ptr_equal(l.passive->send_cq->channel, l.passive->send_cq_channel);
    assert_refused(rdma_create_qp(l.passive, NULL, &(struct ibv_qp_init_attr){0}), EINVAL);
    rdma_destroy_qp(l.passive);
    assert_null(l.passive->send_cq);
    assert_null(l.passive->recv_cq_channel);
    loopback_close(&l);
}

static void test_shared_receive_queues(void **state)
{
    struct loopback l;
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq_init_attr_ex untyped = {.attr = {.max_wr = 4, .max_sge = 1}};
    loopback_request(&l);
    struct ibv_context *other = ibv_open_device(l.passive->verbs->device);
    struct ibv_pd *foreign = ibv_alloc_pd(other);
    assert_refused(rdma_create_srq_ex(l.passive, &untyped), EINVAL);
    assert_refused(rdma_create_srq(l.passive, foreign, &attr), EINVAL);
    assert_int_equal(ibv_dealloc_pd(foreign), 0);
    assert_int_equal(ibv_close_device(other), 0);
    assert_int_equal(rdma_create_srq(l.passive, NULL, &attr), 0);
    assert_refused(rdma_create_srq(l.passive, NULL, &attr), EINVAL); // it has one
    qp_open(l.passive);
    assert_ptr_equal(l.passive->qp->srq, l.passive->srq);
    rdma_destroy_qp(l.passive);
    rdma_destroy_srq(l.passive);
    assert_null(l.passive->srq);
    loopback_close(&l);
}

int main(void)
{
    setenv("WEFT_WIRE", "iwarp", 1); // the other one has datagrams
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_out_of_order_are_einval),
        cmocka_unit_test(test_arguments_that_are_not_there_are_einval),
        cmocka_unit_test(test_families_must_be_of_ip_and_agree),
        cmocka_unit_test(test_a_foreign_address_cannot_be_bound),
        cmocka_unit_test(test_a_port_in_use_is_eaddrinuse),
        cmocka_unit_test(test_port_0_becomes_a_port_at_once),
        cmocka_unit_test(test_a_wildcard_is_no_devices_address),
        cmocka_unit_test(test_depths_beyond_the_device_are_einval),
        cmocka_unit_test(test_datagrams_are_refused_where_the_qp_is_made),
        cmocka_unit_test(test_an_unknown_port_space_is_einval),
        cmocka_unit_test(test_multicast_is_refused),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_the_ack_timeout_shows_in_the_qp),
        cmocka_unit_test(test_ece),
        cmocka_unit_test(test_a_domain_of_another_context_is_einval),
        cmocka_unit_test(test_completions_of_an_ids_own_queues_name_the_id),
        cmocka_unit_test(test_shared_receive_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
