// Connections of queue pairs on packets, by messages on queue pair 1: over a net on virtual time.
#include <errno.h>
#include <string.h>

#include "tests/rnic/packet_world.h"
#include "wq/status.h"

enum { EVENT_MAX = 16, PORT = 7471 };

// What an end has heard, oldest first.
struct ear {
    struct rnic_ep *ep; // the last that an event told of, or that was made
    struct rnic_ep_event events[EVENT_MAX];
    unsigned count, taken;
};
static struct ear ears[2];

static void on_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct ear *ear = ctx;
    assert_true(ear->count < EVENT_MAX);
    ear->events[ear->count++] = *event;
    if (event->type == RNIC_EP_CONNECT_REQUEST) {
        ear->ep = event->new_ep;
        *event->new_ep_port = (struct rnic_ep_port){.on_event = on_event, .ctx = ear};
    }
}

static const struct rnic_ep_event *take(unsigned i, enum rnic_ep_event_type type)
{
    struct ear *ear = &ears[i];
    do {
        while (world_step()) {
        }
    } while (ear->taken == ear->count && world_pass_time());
    assert_true(ear->taken < ear->count);
    const struct rnic_ep_event *event = &ear->events[ear->taken++];
    assert_int_equal(event->type, type);
    return event;
}

static struct sockaddr_in addr_at(unsigned i, uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    const struct in6_addr octets = world_addr(i);
    memcpy(&addr.sin_addr, octets.s6_addr + 12, sizeof addr.sin_addr);
    return addr;
}

static struct rnic_ep *bind_at(unsigned i, uint16_t port)
{
    const struct sockaddr_in addr = addr_at(i, port);
    const struct rnic_ep_port to = {.on_event = on_event, .ctx = &ears[i]};
    struct rnic_ep *ep;
    assert_int_equal(rnic_ep_bind(w.devices[i].rnic, (const struct sockaddr *)&addr, 0, &to, &ep),
                     0);
    return ep;
}

static const struct datagram_net_config clean = {0};

static struct rnic_ep *listener;

static void open_both(const struct datagram_net_config *config)
{
    memset(ears, 0, sizeof ears);
    world_open(config);
    for (unsigned i = 0; i < 2; i++) {
        w.qps[i] = world_qp(&w.devices[i], RNIC_QP_RC);
    }
    listener = bind_at(1, PORT);
    assert_int_equal(rnic_ep_listen(listener, 4), 0);
}

static void ask(const char *words, uint16_t port)
{
    const struct rnic_ep_params params = {
        .private_data = words, .private_data_len = (uint16_t)strlen(words), .ird = 4, .ord = 3};
    const struct sockaddr_in to = addr_at(1, port);
    ears[0].ep = bind_at(0, 0);
    assert_int_equal(rnic_ep_connect(ears[0].ep, (const struct sockaddr *)&to, w.qps[0], &params),
                     0);
}

static void connect_both(void)
{
    const struct rnic_ep_params answer = {
        .private_data = "welcome", .private_data_len = 7, .ird = 2, .ord = 2};
    ask("hello", PORT);
    const struct rnic_ep_event *request = take(1, RNIC_EP_CONNECT_REQUEST);
    assert_memory_equal(request->private_data, "hello", 5);
    assert_int_equal(request->ird, 4);
    assert_int_equal(request->ord, 3);
    assert_int_equal(rnic_ep_accept(ears[1].ep, w.qps[1], &answer), 0);
    const struct rnic_ep_event *established = take(0, RNIC_EP_ESTABLISHED);
    assert_memory_equal(established->private_data, "welcome", 7);
    take(1, RNIC_EP_ESTABLISHED);
}

static void close_both(void)
{
    rnic_ep_destroy(ears[0].ep);
    if (ears[1].ep != NULL) {
        rnic_ep_destroy(ears[1].ep);
    }
    rnic_ep_destroy(listener);
    world_close();
}

static void two_connect_and_write_to_each_other(void **state)
{
    open_both(&clean);
    connect_both();
    world_fill(w.devices[0].buf, 5000);
    world_post(0, WQE_RDMA_WRITE, 0, 5000, 0);
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    assert_memory_equal(w.devices[1].buf, w.devices[0].buf, 5000);
    world_post(1, WQE_RDMA_READ, 8192, 5000, 0);
    assert_int_equal(world_completion(1).status, WC_SUCCESS);
    assert_memory_equal(w.devices[1].buf + 8192, w.devices[0].buf, 5000);
    close_both();
}

static void addresses_are_those_of_both_ends(void **state)
{
    const struct sockaddr_in at = addr_at(1, PORT);
    struct sockaddr_storage active, passive, peer;
    open_both(&clean);
    connect_both();
    assert_int_equal(rnic_ep_local_addr(ears[0].ep, &active), 0);
    assert_int_equal(rnic_ep_local_addr(ears[1].ep, &passive), 0);
    assert_memory_equal(&passive, &at, sizeof at);
    assert_int_equal(rnic_ep_peer_addr(ears[1].ep, &peer), 0);
    assert_memory_equal(&peer, &active, sizeof at);
    assert_int_equal(rnic_ep_peer_addr(ears[0].ep, &peer), 0);
    assert_memory_equal(&peer, &at, sizeof at);
    close_both();
}

static void who_disconnects_is_told_as_the_peer_is(void **state)
{
    open_both(&clean);
    connect_both();
    world_post_recv(1, 0, 100);
    assert_int_equal(rnic_ep_disconnect(ears[0].ep), 0);
    take(0, RNIC_EP_DISCONNECTED);
    take(1, RNIC_EP_DISCONNECTED);
    assert_int_equal(world_completion(1).status, WC_WR_FLUSH_ERR);
    assert_int_equal(rnic_qp_state(w.qps[0]), QP_ERR);
    assert_int_equal(rnic_qp_state(w.qps[1]), QP_ERR);
    close_both();
}

static void a_refusal_says_why(void **state)
{
    open_both(&clean);
    ask("hello", PORT);
    take(1, RNIC_EP_CONNECT_REQUEST);
    assert_int_equal(rnic_ep_reject(ears[1].ep, "busy", 4), 0);
    const struct rnic_ep_event *rejected = take(0, RNIC_EP_REJECTED);
    assert_int_equal(rejected->status, -ECONNREFUSED);
    assert_memory_equal(rejected->private_data, "busy", 4);
    assert_int_equal(rnic_qp_state(w.qps[0]), QP_ERR); // a reset, and it may ask again
    close_both();
}

static void a_port_that_nobody_listens_at_refuses(void **state)
{
    open_both(&clean);
    ask("hello", PORT + 1);
    take(0, RNIC_EP_REJECTED);
    close_both();
}

static void a_port_has_one_listener(void **state)
{
    open_both(&clean);
    ears[0].ep = bind_at(0, 0);
    struct rnic_ep *other = bind_at(1, PORT);
    assert_int_equal(rnic_ep_listen(other, 4), -EADDRINUSE);
    rnic_ep_destroy(other);
    close_both();
}

static void an_address_of_another_host_is_not_bound(void **state)
{
    const struct sockaddr_in addr = addr_at(0, 0);
    struct rnic_ep *ep;
    open_both(&clean);
    ears[0].ep = bind_at(0, 0);
    assert_int_equal(rnic_ep_bind(w.devices[1].rnic, (const struct sockaddr *)&addr, 0, NULL, &ep),
                     -EADDRNOTAVAIL);
    close_both();
}

static void messages_that_are_lost_are_sent_again(void **state)
{
    const struct datagram_net_config lossy = {
        .faults = {.seed = 5, .loss = FAULT_ONE / 4, .burst = 1}};
    open_both(&lossy);
    connect_both();
    close_both();
}

static void a_peer_that_is_silent_is_given_up(void **state)
{
    const struct datagram_net_config deaf = {.faults = {.loss = FAULT_ONE, .burst = 1}};
    open_both(&deaf);
    ask("hello", PORT);
    assert_int_equal(take(0, RNIC_EP_UNREACHABLE)->status, -ETIMEDOUT);
    close_both();
}

static void a_queue_pair_that_goes_first_leaves_its_connection(void **state)
{
    open_both(&clean);
    connect_both();
    rnic_qp_destroy(w.qps[1]);
    rnic_ep_destroy(ears[1].ep);
    ears[1].ep = NULL;
    take(0, RNIC_EP_DISCONNECTED);
    w.qps[1] = world_qp(&w.devices[1], RNIC_QP_RC);
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_connect_and_write_to_each_other),
        cmocka_unit_test(addresses_are_those_of_both_ends),
        cmocka_unit_test(who_disconnects_is_told_as_the_peer_is),
        cmocka_unit_test(a_refusal_says_why),
        cmocka_unit_test(a_port_that_nobody_listens_at_refuses),
        cmocka_unit_test(a_port_has_one_listener),
        cmocka_unit_test(an_address_of_another_host_is_not_bound),
        cmocka_unit_test(messages_that_are_lost_are_sent_again),
        cmocka_unit_test(a_peer_that_is_silent_is_given_up),
        cmocka_unit_test(a_queue_pair_that_goes_first_leaves_its_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
