// What ids of datagrams on the RoCE device have: groups, and services.

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

/* ---- multicast ------------------------------------------------------------------------------- */

enum { GRH_LEN = 40, MESSAGE_LEN = 16 };

struct member {
    struct end end;
    struct ibv_mr *mr;
    struct ibv_ah *ah; // to the group
    uint8_t buffer[GRH_LEN + MESSAGE_LEN];
};

static struct sockaddr_in group_addr(void)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef4d0b01)};
}

static void datagrams_open(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
    };
    assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

static void member_listen(struct member *m)
{
    struct ibv_sge sge = {(uintptr_t)m->buffer, sizeof m->buffer, m->mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_recv(m->end.id->qp, &wr, &bad), 0);
}

// An id of datagrams that knows the way to the group, with a queue pair and a receive.
static void member_open(struct member *m)
{
    struct sockaddr_in group = group_addr();
    memset(m, 0, sizeof *m);
    m->end.channel = rdma_create_event_channel();
    assert_int_equal(rdma_create_id(m->end.channel, &m->end.id, NULL, RDMA_PS_UDP), 0);
    if (rdma_resolve_addr(m->end.id, NULL, (struct sockaddr *)&group, 1000) != 0) {
        assert_int_equal(errno, ENETUNREACH);
        print_message("SKIP: this host has no route to multicast groups\n");
        skip();
    }
    assert_int_equal(event_take(m->end.channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    datagrams_open(m->end.id);
    m->mr = ibv_reg_mr(m->end.id->pd, m->buffer, sizeof m->buffer, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(m->mr);
    member_listen(m);
}

static void member_close(struct member *m)
{
    if (m->ah != NULL) {
        assert_int_equal(ibv_destroy_ah(m->ah), 0);
    }
    ibv_dereg_mr(m->mr);
    end_close(&m->end);
}

static void member_join(struct member *m, uint32_t flags)
{
    struct sockaddr_in group = group_addr();
    struct rdma_cm_join_mc_attr_ex attr = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
                                                        RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
                                           .join_flags = flags,
                                           .addr = (struct sockaddr *)&group};
    static const uint8_t gid[16] = {[10] = 0xff, 0xff, 0xef, 0x4d, 0x0b, 0x01};
    assert_int_equal(rdma_join_multicast_ex(m->end.id, &attr, m), 0);
    struct rdma_cm_event *event = event_expect(m->end.channel, RDMA_CM_EVENT_MULTICAST_JOIN);
    assert_ptr_equal(event->param.ud.private_data, m);
    assert_int_equal(event->param.ud.qp_num, 0xffffff);
    assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
    assert_memory_equal(event->param.ud.ah_attr.grh.dgid.raw, gid, sizeof gid);
    m->ah = ibv_create_ah(m->end.id->pd, &event->param.ud.ah_attr);
    assert_non_null(m->ah);
    rdma_ack_cm_event(event);
}

static void member_say(struct member *m, const char *word)
{
    struct ibv_sge sge = {(uintptr_t)m->buffer + GRH_LEN, MESSAGE_LEN, m->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .wr.ud = {m->ah, 0xffffff, RDMA_UDP_QKEY}},
                       *bad;
    memset(m->buffer, 0, sizeof m->buffer);
    memcpy(m->buffer + GRH_LEN, word, strlen(word));
    assert_int_equal(ibv_post_send(m->end.id->qp, &wr, &bad), 0);
}

static void member_hear(struct member *m, const char *word)
{
    struct ibv_wc wc;
    while (ibv_poll_cq(m->end.id->recv_cq, 1, &wc) == 0) {
    }
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_string_equal((const char *)m->buffer + GRH_LEN, word);
}

static void test_a_group_is_heard_by_those_that_joined_it_to_receive(void **state)
{
    struct member speaker, listener, gone;
    struct sockaddr_in group = group_addr();
    struct ibv_wc wc;
    member_open(&speaker);
    member_open(&listener);
    member_open(&gone);
    member_join(&speaker, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
    member_join(&gone, RDMA_MC_JOIN_FLAG_FULLMEMBER);
    member_join(&listener, RDMA_MC_JOIN_FLAG_FULLMEMBER);
    assert_int_equal(rdma_join_multicast(listener.end.id, (struct sockaddr *)&group, NULL), 0);
    assert_int_equal(event_take(listener.end.channel, RDMA_CM_EVENT_MULTICAST_JOIN), 0);
    assert_int_equal(rdma_leave_multicast(listener.end.id, (struct sockaddr *)&group), 0); // once
    assert_int_equal(rdma_leave_multicast(gone.end.id, (struct sockaddr *)&group), 0);
    member_say(&speaker, "to all");
    member_hear(&listener, "to all");
    assert_int_equal(ibv_poll_cq(gone.end.id->recv_cq, 1, &wc), 0);
    assert_int_equal(ibv_poll_cq(speaker.end.id->recv_cq, 1, &wc), 0);
    member_close(&gone);
    member_close(&listener);
    member_close(&speaker);
}

// On a host with several: tests/judges/test_roce_gids.py runs it on one.
static void test_what_is_told_of_a_group_leaves_from_the_address_of_the_id(void **state)
{
    struct sockaddr_in group = group_addr();
    struct ibv_gid_entry gids[16];
    int device_count;
    struct ibv_context **devices = rdma_get_devices(&device_count);
    assert_non_null(devices);
    const ssize_t count = ibv_query_gid_table(devices[0], gids, 16, 0);
    assert_true(count >= 1);
    for (ssize_t i = 0; i < count; i++) {
        struct end e = {.channel = rdma_create_event_channel()};
        struct sockaddr_in at = {.sin_family = AF_INET};
        memcpy(&at.sin_addr, &gids[i].gid.raw[12], sizeof at.sin_addr);
        if (!IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gids[i].gid.raw)) {
            end_close(&e);
            continue;
        }
        assert_int_equal(rdma_create_id(e.channel, &e.id, NULL, RDMA_PS_UDP), 0);
        assert_int_equal(rdma_bind_addr(e.id, (struct sockaddr *)&at), 0);
        assert_int_equal(rdma_join_multicast(e.id, (struct sockaddr *)&group, NULL), 0);
        struct rdma_cm_event *event = event_expect(e.channel, RDMA_CM_EVENT_MULTICAST_JOIN);
        assert_int_equal(event->param.ud.ah_attr.grh.sgid_index, gids[i].gid_index);
        assert_true(event->param.ud.ah_attr.grh.hop_limit > 1); // routers hand it on
        rdma_ack_cm_event(event);
        assert_int_equal(rdma_leave_multicast(e.id, (struct sockaddr *)&group), 0);
        end_close(&e);
    }
    rdma_free_devices(devices);
}

// A domain can go when nothing is left in it.
static void test_a_queue_pair_that_goes_leaves_its_groups(void **state)
{
    struct member m;
    struct sockaddr_in group = group_addr();
    member_open(&m);
    struct ibv_pd *pd = ibv_alloc_pd(m.end.id->verbs);
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD, .cap = {1, 1}};
    rdma_destroy_qp(m.end.id);
    assert_int_equal(rdma_create_qp(m.end.id, pd, &attr), 0);
    member_join(&m, RDMA_MC_JOIN_FLAG_FULLMEMBER);
    rdma_destroy_qp(m.end.id);
    assert_int_equal(ibv_destroy_ah(m.ah), 0);
    m.ah = NULL;
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(rdma_leave_multicast(m.end.id, (struct sockaddr *)&group), 0);
    member_close(&m);
}

// rdma_join_multicast(3): the queue pair is attached when the event is retrieved.
static void test_a_queue_pair_made_before_the_event_is_taken_has_the_group(void **state)
{
    struct member speaker, late;
    struct sockaddr_in group = group_addr();
    member_open(&speaker);
    member_join(&speaker, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
    member_open(&late);
    rdma_destroy_qp(late.end.id);
    assert_int_equal(rdma_join_multicast(late.end.id, (struct sockaddr *)&group, NULL), 0);
    datagrams_open(late.end.id);
    member_listen(&late);
    assert_int_equal(event_take(late.end.channel, RDMA_CM_EVENT_MULTICAST_JOIN), 0);
    member_say(&speaker, "to who is late");
    member_hear(&late, "to who is late");
    member_close(&late);
    member_close(&speaker);
}

// ... and leaving before that cancels joining.
static void test_who_leaves_before_he_was_told_that_he_has_joined_is_not_told(void **state)
{
    struct member m;
    struct sockaddr_in group = group_addr();
    member_open(&m);
    struct pollfd events = {.fd = m.end.channel->fd, .events = POLLIN};
    assert_int_equal(rdma_join_multicast(m.end.id, (struct sockaddr *)&group, NULL), 0);
    assert_int_equal(rdma_leave_multicast(m.end.id, (struct sockaddr *)&group), 0);
    assert_int_equal(poll(&events, 1, 0), 0);
    assert_int_equal(rdma_join_multicast(m.end.id, (struct sockaddr *)&group, &group), 0);
    struct rdma_cm_event *event = event_expect(m.end.channel, RDMA_CM_EVENT_MULTICAST_JOIN);
    assert_ptr_equal(event->param.ud.private_data, &group);
    rdma_ack_cm_event(event);
    member_close(&m);
}

static void test_a_group_that_is_none_is_an_error_of_the_event(void **state)
{
    struct member m;
    struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
    member_open(&m);
    assert_int_equal(rdma_join_multicast(m.end.id, (struct sockaddr *)&nobody, NULL), 0);
    assert_int_equal(event_take(m.end.channel, RDMA_CM_EVENT_MULTICAST_ERROR), -EINVAL);
    member_close(&m);
}

// rdma_leave_multicast(3): destroying an id leaves all its groups.
static void test_an_id_that_is_destroyed_leaves_its_groups(void **state)
{
    struct member m;
    member_open(&m);
    struct ibv_cq *cq = ibv_create_cq(m.end.id->verbs, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_UD, .send_cq = cq, .recv_cq = cq, .cap = {1, 1}};
    rdma_destroy_qp(m.end.id);
    assert_int_equal(rdma_create_qp(m.end.id, NULL, &attr), 0);
    member_join(&m, RDMA_MC_JOIN_FLAG_FULLMEMBER);
    struct ibv_qp *qp = m.end.id->qp;
    assert_int_equal(rdma_destroy_id(m.end.id), 0);
    m.end.id = NULL;
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    member_close(&m);
}

// The connection properties apply to RDMA_PS_TCP; a lookup needs none, and no queue pair.
static void test_a_service_of_datagrams_is_looked_up_without_parameters(void **state)
{
    const struct rdma_conn_param beyond = {.responder_resources = 200, .initiator_depth = 200};
    const struct rdma_conn_param *const params[] = {NULL, &beyond};
    for (unsigned i = 0; i < 2; i++) {
        struct sockaddr_in addr = loopback_addr(9);
        struct end end = {.channel = rdma_create_event_channel()};
        assert_int_equal(rdma_create_id(end.channel, &end.id, NULL, RDMA_PS_UDP), 0);
        assert_int_equal(rdma_resolve_addr(end.id, NULL, (struct sockaddr *)&addr, 1000), 0);
        assert_int_equal(event_take(end.channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
        assert_int_equal(rdma_resolve_route(end.id, 1000), 0);
        assert_int_equal(event_take(end.channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
        assert_int_equal(rdma_connect(end.id, (struct rdma_conn_param *)(uintptr_t)params[i]), 0);
        event_take(end.channel, RDMA_CM_EVENT_UNREACHABLE); // nobody serves that port
        end_close(&end);
    }
}

static void test_groups_are_for_ids_of_datagrams_with_a_device(void **state)
{
    struct sockaddr_in group = group_addr();
    struct end fresh = {.channel = rdma_create_event_channel()}, stream = {0};
    assert_int_equal(rdma_create_id(fresh.channel, &fresh.id, NULL, RDMA_PS_UDP), 0);
    assert_int_equal(rdma_join_multicast(fresh.id, (struct sockaddr *)&group, NULL), -1);
    assert_int_equal(errno, EINVAL);
    active_resolve(&stream, htons(1));
    assert_int_equal(rdma_join_multicast(stream.id, (struct sockaddr *)&group, NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_leave_multicast(stream.id, (struct sockaddr *)&group), -1);
    assert_int_equal(errno, EADDRNOTAVAIL); // not joined
    end_close(&fresh);
    end_close(&stream);
}

/* ---- services of datagrams ------------------------------------------------------------------- */

// Asks the service at this port; who asks, and the id that the service has for it.
static struct rdma_cm_id *service_ask(struct end *asker, const struct end *service)
{
    struct sockaddr_in at = loopback_addr(rdma_get_src_port(service->id));
    struct rdma_conn_param param = {.private_data = "who?", .private_data_len = 5};
    asker->channel = rdma_create_event_channel();
    assert_int_equal(rdma_create_id(asker->channel, &asker->id, NULL, RDMA_PS_UDP), 0);
    assert_int_equal(rdma_resolve_addr(asker->id, NULL, (struct sockaddr *)&at, 1000), 0);
    assert_int_equal(event_take(asker->channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    assert_int_equal(rdma_resolve_route(asker->id, 1000), 0);
    assert_int_equal(event_take(asker->channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
    datagrams_open(asker->id);
    assert_int_equal(rdma_connect(asker->id, &param), 0);
    struct rdma_cm_event *event = event_expect(service->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *served = event->id;
    assert_ptr_equal(event->listen_id, service->id);
    assert_true(event->param.ud.private_data_len >= 5);
    assert_memory_equal(event->param.ud.private_data, "who?", 5);
    rdma_ack_cm_event(event);
    return served;
}

static void test_a_service_of_datagrams_is_told_where_it_is_or_cannot_be_reached(void **state)
{
    struct sockaddr_in at = loopback_addr(0);
    struct end service = {.channel = rdma_create_event_channel()}, asker, refused;
    assert_int_equal(rdma_create_id(service.channel, &service.id, NULL, RDMA_PS_UDP), 0);
    assert_int_equal(rdma_bind_addr(service.id, (struct sockaddr *)&at), 0);
    assert_int_equal(rdma_listen(service.id, 2), 0);

    struct end served = {.id = service_ask(&asker, &service)};
    struct rdma_conn_param param = {.private_data = "me", .private_data_len = 3};
    datagrams_open(served.id);
    assert_int_equal(rdma_accept(served.id, &param), 0);
    struct rdma_cm_event *event = event_expect(asker.channel, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(event->status, 0);
    assert_int_equal(event->param.ud.qp_num, served.id->qp->qp_num);
    assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
    assert_memory_equal(event->param.ud.private_data, "me", 3);
    const struct ibv_ah_attr *ah = &event->param.ud.ah_attr;
    union ibv_gid own;
    assert_int_equal(ibv_query_gid(asker.id->verbs, ah->port_num, ah->grh.sgid_index, &own), 0);
    assert_memory_equal(&ah->grh.dgid, &own, sizeof own); // it is of this host too
    assert_int_equal(ah->is_global, 1);
    rdma_ack_cm_event(event);

    struct end unserved = {.id = service_ask(&refused, &service)};
    assert_int_equal(rdma_reject(unserved.id, NULL, 0), 0);
    event = event_expect(refused.channel, RDMA_CM_EVENT_UNREACHABLE);
    assert_true(event->status != 0);
    rdma_ack_cm_event(event);
    end_close(&refused);
    end_close(&unserved);
    end_close(&asker);
    end_close(&served);
    end_close(&service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_group_is_heard_by_those_that_joined_it_to_receive),
        cmocka_unit_test(test_what_is_told_of_a_group_leaves_from_the_address_of_the_id),
        cmocka_unit_test(test_a_queue_pair_that_goes_leaves_its_groups),
        cmocka_unit_test(test_a_queue_pair_made_before_the_event_is_taken_has_the_group),
        cmocka_unit_test(test_who_leaves_before_he_was_told_that_he_has_joined_is_not_told),
        cmocka_unit_test(test_a_group_that_is_none_is_an_error_of_the_event),
        cmocka_unit_test(test_an_id_that_is_destroyed_leaves_its_groups),
        cmocka_unit_test(test_a_service_of_datagrams_is_looked_up_without_parameters),
        cmocka_unit_test(test_groups_are_for_ids_of_datagrams_with_a_device),
        cmocka_unit_test(test_a_service_of_datagrams_is_told_where_it_is_or_cannot_be_reached),
    };
    setenv("WEFT_WIRE", "roce", 1);
    roce_port_of_own();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
