// A listener on both wires: peers in processes of their own come by the one that WEFT_WIRE names.

#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"
#include "tests/verbs/roce.h"

static const char *const wires[] = {"iwarp", "roce"};
static const enum ibv_transport_type transports[] = {IBV_TRANSPORT_IWARP, IBV_TRANSPORT_IB};
enum { WIRE_COUNT = sizeof wires / sizeof wires[0], PEER_TIMEOUT_S = 30 };

/* ---- the peer, in a process of its own ------------------------------------------------------- */

static struct sockaddr_in address_of(const char *host_order_hex, const char *port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_addr.s_addr = (in_addr_t)strtoul(host_order_hex, NULL, 16),
        .sin_port = (in_port_t)strtoul(port, NULL, 16),
    };
}

// 0: connected, and disconnected by the other end; otherwise errno.
static int peer(const char *addr, const char *port)
{
    struct sockaddr_in to = address_of(addr, port);
    struct rdma_cm_id *id;
    alarm(PEER_TIMEOUT_S);
    if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0 ||
        rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000) != 0 ||
        rdma_resolve_route(id, 1000) != 0) {
        return errno;
    }
    qp_open(id);
    int error = rdma_connect(id, NULL) == 0 ? 0 : errno;
    struct rdma_cm_event *event;
    if (error == 0 && rdma_get_cm_event(id->channel, &event) == 0) {
        error = event->event == RDMA_CM_EVENT_DISCONNECTED ? 0 : EPROTO;
        rdma_ack_cm_event(event);
    }
    rdma_destroy_ep(id);
    return error;
}

static pid_t peer_start(const char *wire, struct sockaddr_in to)
{
    char addr[16], port[16];
    snprintf(addr, sizeof addr, "%x", to.sin_addr.s_addr);
    snprintf(port, sizeof port, "%x", to.sin_port);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("WEFT_WIRE", wire, 1);
        execl("/proc/self/exe", "test_wires", addr, port, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static int peer_result(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* ---- the listener ---------------------------------------------------------------------------- */

static struct sockaddr_in own_addr; // where the RoCE device is

static int roce_ask(void **state)
{
    union ibv_gid gid;
    struct ibv_context *context = roce_open();
    assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
    own_addr.sin_family = AF_INET;
    memcpy(&own_addr.sin_addr, gid.raw + 12, sizeof own_addr.sin_addr);
    return ibv_close_device(context);
}

static struct end listen_at(struct sockaddr_in addr)
{
    struct end l = {.channel = rdma_create_event_channel()};
    assert_non_null(l.channel);
    assert_int_equal(rdma_create_id(l.channel, &l.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(l.id, (struct sockaddr *)&addr), 0);
    assert_int_equal(rdma_listen(l.id, 0), 0);
    return l;
}

static void serve_one(struct end *l, enum ibv_transport_type transport)
{
    struct rdma_cm_event *event = event_expect(l->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct end passive = {.id = event->id};
    rdma_ack_cm_event(event);
    assert_int_equal(passive.id->verbs->device->transport_type, transport);
    qp_open(passive.id);
    assert_int_equal(rdma_accept(passive.id, NULL), 0);
    assert_int_equal(event_take(l->channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    assert_int_equal(rdma_disconnect(passive.id), 0);
    assert_int_equal(event_take(l->channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    end_close(&passive);
}

static void serve_both(struct end *l, struct sockaddr_in at)
{
    at.sin_port = rdma_get_src_port(l->id);
    for (unsigned i = 0; i < WIRE_COUNT; i++) {
        pid_t pid = peer_start(wires[i], at);
        serve_one(l, transports[i]);
        assert_int_equal(peer_result(pid), 0);
    }
}

static void test_a_listener_at_any_address_serves_peers_of_both_wires(void **state)
{
    struct end l = listen_at((struct sockaddr_in){.sin_family = AF_INET});
    assert_null(l.id->verbs);
    serve_both(&l, own_addr);
    assert_null(l.id->verbs);
    end_close(&l);
}

static void test_a_listener_at_the_address_of_both_has_the_device_of_streams(void **state)
{
    struct end l = listen_at(own_addr);
    assert_int_equal(l.id->verbs->device->transport_type, IBV_TRANSPORT_IWARP);
    serve_both(&l, own_addr);
    assert_int_equal(l.id->verbs->device->transport_type, IBV_TRANSPORT_IWARP);
    end_close(&l);
}

/* ---- endpoints ------------------------------------------------------------------------------- */

static struct rdma_cm_id *listening_ep(struct sockaddr_in at, struct ibv_pd *pd)
{
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};
    struct rdma_addrinfo res = {.ai_flags = RAI_PASSIVE,
                                .ai_qp_type = IBV_QPT_RC,
                                .ai_port_space = RDMA_PS_TCP,
                                .ai_src_addr = (struct sockaddr *)&at,
                                .ai_src_len = sizeof at};
    struct rdma_cm_id *id;
    assert_int_equal(rdma_create_ep(&id, &res, pd, &attr), 0);
    assert_int_equal(rdma_listen(id, 0), 0);
    return id;
}

static void test_an_endpoint_makes_queue_pairs_of_the_wire_that_is_asked_on(void **state)
{
    struct sockaddr_in at = own_addr;
    struct rdma_cm_id *listener = listening_ep(at, NULL), *id;
    at.sin_port = rdma_get_src_port(listener);
    for (unsigned i = 0; i < WIRE_COUNT; i++) {
        pid_t pid = peer_start(wires[i], at);
        assert_int_equal(rdma_get_request(listener, &id), 0);
        assert_int_equal(id->qp->context->device->transport_type, transports[i]);
        assert_int_equal(rdma_accept(id, NULL), 0);
        assert_int_equal(rdma_disconnect(id), 0);
        rdma_destroy_ep(id);
        assert_int_equal(peer_result(pid), 0);
    }
    rdma_destroy_ep(listener);
}

static void test_an_endpoint_with_a_domain_listens_on_that_ones_wire_alone(void **state)
{
    struct end probe = listen_at(own_addr);
    struct ibv_pd *pd = ibv_alloc_pd(probe.id->verbs);
    struct sockaddr_in at = own_addr;
    struct rdma_cm_id *listener = listening_ep(at, pd);
    at.sin_port = rdma_get_src_port(listener);
    assert_int_equal(peer_result(peer_start("roce", at)), ECONNREFUSED);
    rdma_destroy_ep(listener);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    end_close(&probe);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_listener_at_any_address_serves_peers_of_both_wires),
        cmocka_unit_test(test_a_listener_at_the_address_of_both_has_the_device_of_streams),
        cmocka_unit_test(test_an_endpoint_makes_queue_pairs_of_the_wire_that_is_asked_on),
        cmocka_unit_test(test_an_endpoint_with_a_domain_listens_on_that_ones_wire_alone),
    };
    if (argc == 3) {
        return peer(argv[1], argv[2]);
    }
    unsetenv("WEFT_WIRE");
    roce_port_of_own();
    return cmocka_run_group_tests(tests, roce_ask, NULL);
}
