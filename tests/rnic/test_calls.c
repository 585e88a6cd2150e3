// Calls on endpoints through rnic/rnic.h: what each tells the other side, and which come too late,
// too early or twice.
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/rnic/device.h"
#include "tests/rnic/raw.h"

static struct device device;
static struct sockaddr_in addr;
static struct end listener, active, passive;

static int setup(void **state)
{
    const struct rnic_config config = device_config();
    device_open(&device, &config, 0);
    end_listen(&listener, &device, &addr);
    end_init(&active, &device);
    end_init(&passive, &device);
    return 0;
}

static int teardown(void **state)
{
    end_fini(&active);
    end_fini(&passive);
    end_fini(&listener);
    device_close(&device);
    return 0;
}

static int connect_with(struct rnic_qp *qp, const struct rnic_ep_params *params)
{
    return rnic_ep_connect(active.ep, (const struct sockaddr *)&addr, qp, params);
}

static const struct rnic_ep_params plain = {.ird = 2, .ord = 2};

/* ---- what is told ---------------------------------------------------------------------------- */

static void request_and_its_answer_carry_depths_and_private_data(void **state)
{
    const struct rnic_ep_params ask = {
        .private_data = "question", .private_data_len = 8, .ird = 3, .ord = 5};
    const struct rnic_ep_params answer = {
        .private_data = "answer", .private_data_len = 6, .ird = 4, .ord = 2};
    end_bind(&active);
    assert_int_equal(connect_with(active.qp, &ask), 0);
    struct rnic_ep_event event = end_take(&listener, RNIC_EP_CONNECT_REQUEST);
    assert_int_equal(event.status, 0);
    assert_int_equal(event.ird, 3);
    assert_int_equal(event.ord, 5);
    assert_int_equal(event.private_data_len, 8);
    assert_memory_equal(event.private_data, "question", 8);
    passive.ep = event.new_ep;
    const struct rnic_ep_port port = end_port(&passive);
    rnic_ep_set_port(passive.ep, &port);
    assert_int_equal(rnic_ep_accept(passive.ep, passive.qp, &answer), 0);
    event = end_take(&active, RNIC_EP_ESTABLISHED);
    assert_int_equal(event.status, 0);
    assert_int_equal(event.ird, 4);
    assert_int_equal(event.ord, 2);
    assert_int_equal(event.private_data_len, 6);
    assert_memory_equal(event.private_data, "answer", 6);
    end_take(&passive, RNIC_EP_ESTABLISHED);
    assert_false(end_has_event(&listener));
}

static void rejection_carries_private_data(void **state)
{
    end_bind(&active);
    assert_int_equal(connect_with(active.qp, &plain), 0);
    end_take_request(&passive, &listener);
    assert_int_equal(rnic_ep_reject(passive.ep, "no thanks", 9), 0);
    struct rnic_ep_event event = end_take(&active, RNIC_EP_REJECTED);
    assert_int_equal(event.status, -ECONNREFUSED);
    assert_int_equal(event.private_data_len, 9);
    assert_memory_equal(event.private_data, "no thanks", 9);
    assert_int_not_equal(rnic_ep_reject(passive.ep, NULL, 0), 0);
    assert_int_not_equal(rnic_ep_accept(passive.ep, passive.qp, &plain), 0);
}

// rdma_connect without a queue pair: the program makes one when it knows the answer.
static void queue_pair_may_come_behind_the_reply(void **state)
{
    end_bind(&active);
    assert_int_equal(connect_with(NULL, &plain), 0);
    end_take_request(&passive, &listener);
    end_accept(&passive);
    struct rnic_ep_event event = end_take(&active, RNIC_EP_CONNECT_REPLY);
    assert_int_equal(event.ird, 2);
    assert_int_equal(event.ord, 2);
    assert_int_equal(rnic_ep_establish(active.ep, active.qp), 0);
    end_take(&passive, RNIC_EP_ESTABLISHED);
    assert_int_equal(rnic_qp_state(active.qp), QP_RTS);
    end_post_recv(&passive, 5, 0, 64);
    end_post_send(&active, WQE_SEND, 1024, 8, NULL, 0);
    assert_int_equal(device_poll(&device).status, CQE_STATUS_SUCCESS);
    assert_int_equal(device_poll(&device).status, CQE_STATUS_SUCCESS);
}

static void both_ends_tell_both_addresses(void **state)
{
    struct sockaddr_storage ends[4];
    ends_connect(&active, &passive, &listener, &addr);
    assert_int_equal(rnic_ep_local_addr(active.ep, &ends[0]), 0);
    assert_int_equal(rnic_ep_peer_addr(active.ep, &ends[1]), 0);
    assert_int_equal(rnic_ep_local_addr(passive.ep, &ends[2]), 0);
    assert_int_equal(rnic_ep_peer_addr(passive.ep, &ends[3]), 0);
    assert_memory_equal(&ends[0], &ends[3], sizeof(struct sockaddr_in));
    assert_memory_equal(&ends[1], &ends[2], sizeof(struct sockaddr_in));
    assert_memory_equal(&ends[1], &addr, sizeof addr);
}

static void route_to_this_host_is_loopback(void **state)
{
    struct sockaddr_storage from;
    memset(&from, 0, sizeof from);
    assert_int_equal(rnic_route(device.rnic, (const struct sockaddr *)&addr, &from), 0);
    assert_int_equal(((struct sockaddr_in *)&from)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
}

static void connection_to_nobody_is_refused(void **state)
{
    struct end gone;
    struct sockaddr_in nobody;
    end_listen(&gone, &device, &nobody);
    end_fini(&gone);
    end_bind(&active);
    assert_int_equal(
        rnic_ep_connect(active.ep, (const struct sockaddr *)&nobody, active.qp, &plain), 0);
    assert_int_equal(end_take(&active, RNIC_EP_REJECTED).status, -ECONNREFUSED);
    rnic_ep_destroy(active.ep);
    end_connect(&active, &addr); // the queue pair is free for another
    end_take_request(&passive, &listener);
    end_accept(&passive);
    end_take(&active, RNIC_EP_ESTABLISHED);
    end_take(&passive, RNIC_EP_ESTABLISHED);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void parameters_beyond_the_limits_are_refused_and_change_nothing(void **state)
{
    static const uint8_t octets[RNIC_PRIVATE_DATA_MAX_LEN + 1];
    const uint16_t most = (uint16_t)rnic_limits.max_qp_rd_atom;
    const struct rnic_ep_params wrong[] = {
        {.ird = (uint16_t)(most + 1)},
        {.ord = (uint16_t)(most + 1)},
        {.private_data = octets, .private_data_len = sizeof octets},
    };
    const struct rnic_ep_params right = {.ird = most, .ord = most};
    end_bind(&active);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(connect_with(active.qp, &wrong[i]), -EINVAL);
    }
    assert_int_equal(connect_with(active.qp, &right), 0);
    end_take_request(&passive, &listener);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(rnic_ep_accept(passive.ep, passive.qp, &wrong[i]), -EINVAL);
    }
    assert_int_equal(rnic_ep_accept(passive.ep, passive.qp, &right), 0);
    end_take(&active, RNIC_EP_ESTABLISHED);
    end_take(&passive, RNIC_EP_ESTABLISHED);
}

static void calls_out_of_their_order_are_refused(void **state)
{
    assert_int_equal(rnic_ep_listen(listener.ep, 1), -EINVAL);
    assert_int_equal(
        rnic_ep_connect(listener.ep, (const struct sockaddr *)&addr, active.qp, &plain), -EINVAL);
    end_bind(&active);
    assert_int_equal(rnic_ep_disconnect(active.ep), -EINVAL);
    assert_int_equal(rnic_ep_accept(active.ep, active.qp, &plain), -EINVAL);
    assert_int_equal(rnic_ep_reject(active.ep, NULL, 0), -EINVAL);
    assert_int_equal(connect_with(active.qp, &plain), 0);
    assert_int_equal(connect_with(active.qp, &plain), -EINVAL);
    assert_int_equal(rnic_ep_listen(active.ep, 1), -EINVAL);
    end_take_request(&passive, &listener);
    assert_int_equal(rnic_ep_accept(passive.ep, NULL, &plain), -EINVAL);
    end_accept(&passive);
    end_take(&active, RNIC_EP_ESTABLISHED);
    end_take(&passive, RNIC_EP_ESTABLISHED);
    assert_int_equal(rnic_ep_disconnect(active.ep), 0);
    end_take(&active, RNIC_EP_DISCONNECTED);
    end_take(&passive, RNIC_EP_DISCONNECTED);
    assert_int_equal(rnic_ep_disconnect(active.ep), 0);
    assert_false(end_has_event(&active) || end_has_event(&passive));
}

static void accepting_a_peer_that_is_gone_says_so(void **state)
{
    uint8_t frame[256];
    int fd = raw_connect(&addr);
    raw_send(fd, frame, raw_frame(MPA_REQUEST, frame));
    end_take_request(&passive, &listener);
    raw_reset(fd);
    end_take(&passive, RNIC_EP_REJECTED);
    assert_int_equal(rnic_ep_accept(passive.ep, passive.qp, &plain), -ECONNRESET);
}

static void address_in_use_is_refused(void **state)
{
    const struct rnic_ep_port port = end_port(&active);
    struct rnic_ep *ep = NULL;
    assert_int_equal(rnic_ep_bind(device.rnic, (const struct sockaddr *)&addr, 0, &port, &ep),
                     -EADDRINUSE);
    assert_null(ep);
    assert_int_equal(rnic_live(device.rnic).endpoints, 1);
}

// The octet of IP that a connection asks for is set before it connects, and while it stands.
static void type_of_service_is_taken_in_any_state(void **state)
{
    end_bind(&active);
    assert_int_equal(rnic_ep_set_tos(active.ep, 0x20), 0);
    assert_int_equal(connect_with(active.qp, &plain), 0);
    end_take_request(&passive, &listener);
    end_accept(&passive);
    end_take(&active, RNIC_EP_ESTABLISHED);
    assert_int_equal(rnic_ep_set_tos(active.ep, 0x40), 0);
    end_take(&passive, RNIC_EP_ESTABLISHED);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(request_and_its_answer_carry_depths_and_private_data),
        CASE(rejection_carries_private_data),
        CASE(queue_pair_may_come_behind_the_reply),
        CASE(both_ends_tell_both_addresses),
        CASE(route_to_this_host_is_loopback),
        CASE(connection_to_nobody_is_refused),
        CASE(parameters_beyond_the_limits_are_refused_and_change_nothing),
        CASE(calls_out_of_their_order_are_refused),
        CASE(accepting_a_peer_that_is_gone_says_so),
        CASE(address_in_use_is_refused),
        CASE(type_of_service_is_taken_in_any_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
