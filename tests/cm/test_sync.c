// Ids without a channel of the program's: calls wait for their events.

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"

static struct ibv_qp_init_attr small_qp(void)
{
    return (struct ibv_qp_init_attr){
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
    };
}

static struct rdma_cm_id *listening_ep(bool with_qp)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *res;
    struct ibv_qp_init_attr attr = small_qp();
    struct rdma_cm_id *id;
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", "0", &hints, &res), 0);
    assert_int_equal(rdma_create_ep(&id, res, NULL, with_qp ? &attr : NULL), 0);
    rdma_freeaddrinfo(res);
    assert_int_equal(rdma_listen(id, 0), 0);
    return id;
}

static struct rdma_cm_id *active_ep(const struct rdma_cm_id *listener)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *res;
    struct ibv_qp_init_attr attr = small_qp();
    struct rdma_cm_id *id;
    char port[8];
    snprintf(port, sizeof port, "%u",
             ntohs(rdma_get_src_port((struct rdma_cm_id *)(uintptr_t)listener)));
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", port, &hints, &res), 0);
    assert_int_equal(rdma_create_ep(&id, res, NULL, &attr), 0);
    rdma_freeaddrinfo(res);
    return id;
}

// The passive side of a test, in a thread of its own.
struct server {
    pthread_t thread;
    struct rdma_cm_id *listener;
    bool rejects;
    int result;
    char received[8];
};

static int answer(struct server *server, struct rdma_cm_id *id)
{
    if (server->rejects) {
        return rdma_reject(id, NULL, 0);
    }
    struct ibv_mr *mr = rdma_reg_msgs(id, server->received, sizeof server->received);
    struct ibv_wc wc;
    int result = mr == NULL ||
                 rdma_post_recv(id, NULL, server->received, sizeof server->received, mr) != 0 ||
                 rdma_accept(id, NULL) != 0 || rdma_get_recv_comp(id, &wc) != 1 ||
                 wc.status != IBV_WC_SUCCESS || rdma_disconnect(id) != 0;
    if (mr != NULL) {
        rdma_dereg_mr(mr);
    }
    return result;
}

static void *serve(void *ctx)
{
    struct server *server = ctx;
    struct rdma_cm_id *id;
    server->result = rdma_get_request(server->listener, &id);
    if (server->result == 0) {
        server->result = answer(server, id);
        rdma_destroy_ep(id);
    }
    return NULL;
}

static void server_start(struct server *server)
{
    server->listener = listening_ep(true);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_stop(struct server *server)
{
    pthread_join(server->thread, NULL);
    assert_int_equal(server->result, 0);
    rdma_destroy_ep(server->listener);
}

static void test_endpoints_connect_talk_and_part(void **state)
{
    struct server server = {0};
    char message[8] = "message";
    struct ibv_wc wc;
    server_start(&server);
    struct rdma_cm_id *id = active_ep(server.listener);
    struct ibv_mr *mr = rdma_reg_msgs(id, message, sizeof message);
    assert_int_equal(rdma_connect(id, NULL), 0);
    assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(rdma_post_send(id, NULL, message, sizeof message, mr, 0), 0);
    assert_int_equal(rdma_get_send_comp(id, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(rdma_disconnect(id), 0);
    assert_int_equal(rdma_disconnect(id), 0); // a second one does not wait for what has been
    server_stop(&server);
    assert_string_equal(server.received, "message");
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
}

static void test_a_rejection_is_econnrefused(void **state)
{
    struct server server = {.rejects = true};
    server_start(&server);
    struct rdma_cm_id *id = active_ep(server.listener);
    assert_int_equal(rdma_connect(id, NULL), -1);
    assert_int_equal(errno, ECONNREFUSED);
    server_stop(&server);
    rdma_destroy_ep(id);
}

static void test_requests_get_a_channel_of_their_own(void **state)
{
    struct rdma_cm_id *listener = listening_ep(false), *active = active_ep(listener), *passive;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    assert_int_equal(rdma_migrate_id(active, channel), 0); // so that connect does not wait
    assert_int_equal(rdma_connect(active, NULL), 0);
    assert_int_equal(rdma_get_request(listener, &passive), 0);
    assert_ptr_not_equal(passive->channel, listener->channel);
    assert_ptr_equal(passive->event->listen_id, listener);
    rdma_destroy_ep(passive);
    rdma_destroy_ep(active);
    rdma_destroy_ep(listener);
    rdma_destroy_event_channel(channel);
}

static void test_requests_are_for_synchronous_listeners(void **state)
{
    struct end listener;
    struct rdma_cm_id *id;
    listener_open(&listener);
    assert_int_equal(rdma_get_request(listener.id, &id), -1);
    assert_int_equal(errno, EINVAL);
    end_close(&listener);
}

static void test_a_synchronous_id_cannot_become_synchronous(void **state)
{
    struct rdma_cm_id *id;
    assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_migrate_id(id, NULL), -1);
    assert_int_equal(errno, EINVAL);
    rdma_destroy_id(id);
}

static void test_a_synchronous_id_may_keep_its_channel_for_the_program(void **state)
{
    struct rdma_cm_id *listener = listening_ep(false), *active = active_ep(listener), *passive;
    struct rdma_event_channel *channel = active->channel;
    assert_int_equal(rdma_migrate_id(active, channel), 0);
    assert_ptr_equal(active->channel, channel);
    assert_int_equal(rdma_connect(active, NULL), 0); // does not wait
    assert_int_equal(rdma_get_request(listener, &passive), 0);
    assert_int_equal(rdma_reject(passive, NULL, 0), 0);
    assert_int_equal(event_take(channel, RDMA_CM_EVENT_REJECTED), -ECONNREFUSED);
    rdma_destroy_ep(passive);
    rdma_destroy_ep(active);
    rdma_destroy_ep(listener);
    rdma_destroy_event_channel(channel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endpoints_connect_talk_and_part),
        cmocka_unit_test(test_a_rejection_is_econnrefused),
        cmocka_unit_test(test_requests_get_a_channel_of_their_own),
        cmocka_unit_test(test_requests_are_for_synchronous_listeners),
        cmocka_unit_test(test_a_synchronous_id_cannot_become_synchronous),
        cmocka_unit_test(test_a_synchronous_id_may_keep_its_channel_for_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
