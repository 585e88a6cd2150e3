// QPs that the program creates itself: the id knows only their number.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "tests/cm/external.h"
#include "tests/cm/loopback.h"

static void test_the_answer_is_taken_with_establish(void **state)
{
    struct loopback l = {0};
    struct external active, passive;
    struct sockaddr_in addr;
    listener_open(&l.listener);
    addr = loopback_addr(rdma_get_src_port(l.listener.id));
    l.active.channel = rdma_create_event_channel();
    assert_int_equal(rdma_create_id(l.active.channel, &l.active.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(l.active.id, NULL, (struct sockaddr *)&addr, 0), 0);
    event_take(l.active.channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(l.active.id, 0), 0);
    event_take(l.active.channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    external_open(&active, l.active.id);

    struct rdma_conn_param param = {
        .qp_num = active.qp->qp_num, .initiator_depth = 1, .responder_resources = 1};
    assert_int_equal(rdma_connect(l.active.id, &param), 0);
    struct rdma_cm_event *event = event_expect(l.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    l.passive = event->id;
    rdma_ack_cm_event(event);
    external_open(&passive, l.passive);
    external_ready(l.passive, &passive);
    param.qp_num = passive.qp->qp_num;
    assert_int_equal(rdma_accept(l.passive, &param), 0);

    assert_int_equal(event_take(l.active.channel, RDMA_CM_EVENT_CONNECT_RESPONSE), 0);
    external_ready(l.active.id, &active);
    assert_int_equal(rdma_establish(l.active.id), 0);
    assert_int_equal(event_take(l.listener.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    external_send(&active, &passive);
    assert_false(event_waits(l.active.channel));

    assert_int_equal(rdma_disconnect(l.active.id), 0);
    event_take(l.active.channel, RDMA_CM_EVENT_DISCONNECTED);
    event_take(l.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    external_close(&active);
    external_close(&passive);
    loopback_close(&l);
}

static void test_establish_is_for_external_qps_that_have_an_answer(void **state)
{
    struct loopback l;
    loopback_open(&l);
    assert_int_equal(rdma_establish(l.active.id), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_establish(l.listener.id), -1);
    assert_int_equal(errno, EINVAL);
    loopback_close(&l);
}

static void test_without_a_qp_a_number_is_needed(void **state)
{
    struct loopback l;
    struct rdma_conn_param param = {.qp_num = 0};
    loopback_request(&l);
    assert_int_equal(rdma_accept(l.passive, NULL), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_accept(l.passive, &param), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_reject(l.passive, NULL, 0), 0); // it is still to be answered
    event_take(l.active.channel, RDMA_CM_EVENT_REJECTED);
    loopback_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_answer_is_taken_with_establish),
        cmocka_unit_test(test_establish_is_for_external_qps_that_have_an_answer),
        cmocka_unit_test(test_without_a_qp_a_number_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
