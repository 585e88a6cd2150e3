// Endpoints and queue pairs keep to each other: wrong calls are refused and leave nothing behind.

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/clock.h"
#include "link/local/local.h"
#include "link/socket.h"
#include "rnic/ep/ep.h"
#include "tests/rnic/device.h"

static const struct rnic_ep_params no_params;

struct pair {
    struct device device;
    struct sockaddr_in addr;
    struct end listener, active, passive;
};

static void ends_open(struct pair *p)
{
    end_listen(&p->listener, &p->device, &p->addr);
    end_init(&p->active, &p->device);
    end_init(&p->passive, &p->device);
}

static void pair_open(struct pair *p)
{
    struct rnic_config config = device_config();
    device_open(&p->device, &config, 0);
    ends_open(p);
}

static void pair_open_through(struct pair *p, const struct link_local_config *local)
{
    const struct rnic_config config = device_config();
    const struct link_socket_config socket = {0};
    struct link *link;
    assert_int_equal(link_socket_create(&socket, &link), 0);
    assert_int_equal(link_local_wrap(link, local, &link), 0);
    device_open_over(&p->device, &config, link, NULL);
    ends_open(p);
}

static void pair_close(struct pair *p)
{
    end_fini(&p->active);
    end_fini(&p->passive);
    end_fini(&p->listener);
    device_close(&p->device);
}

static void test_second_accept_with_another_queue_pair_is_refused(void **state)
{
    struct pair p;
    pair_open(&p);
    end_connect(&p.active, &p.addr);
    end_take_request(&p.passive, &p.listener);
    end_accept(&p.passive);
    struct rnic_qp *other = device_qp(&p.device);
    assert_int_equal(rnic_ep_accept(p.passive.ep, other, &no_params), -EINVAL);
    rnic_qp_destroy(other);
    end_take(&p.active, RNIC_EP_ESTABLISHED);
    end_take(&p.passive, RNIC_EP_ESTABLISHED);
    rnic_ep_destroy(p.passive.ep); // the queue pair outlives it
    p.passive.ep = NULL;
    end_take(&p.active, RNIC_EP_DISCONNECTED);
    pair_close(&p);
}

static void test_establish_without_a_reply_leaves_the_queue_pair_free(void **state)
{
    struct pair p;
    pair_open(&p);
    end_connect(&p.active, &p.addr);
    struct rnic_qp *other = device_qp(&p.device);
    assert_true(rnic_ep_establish(p.listener.ep, other) < 0);
    rnic_qp_destroy(other); // nothing points to it
    end_take_request(&p.passive, &p.listener);
    assert_true(rnic_ep_establish(p.passive.ep, p.passive.qp) < 0);
    end_accept(&p.passive);
    end_take(&p.active, RNIC_EP_ESTABLISHED);
    end_take(&p.passive, RNIC_EP_ESTABLISHED);
    pair_close(&p);
}

static void test_queue_pair_of_another_device_is_refused(void **state)
{
    struct pair p;
    struct device other;
    struct rnic_config config = device_config();
    pair_open(&p);
    device_open(&other, &config, 0);
    struct rnic_qp *foreign = device_qp(&other);
    end_connect(&p.active, &p.addr);
    end_take_request(&p.passive, &p.listener);
    assert_int_equal(rnic_ep_accept(p.passive.ep, foreign, &no_params), -EINVAL);
    rnic_qp_destroy(foreign);
    device_close(&other);
    pair_close(&p);
}

static void test_half_open_connections_go_with_their_listener(void **state)
{
    struct pair p;
    pair_open(&p);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&p.addr, sizeof p.addr), 0);
    assert_true(device_waits_for_endpoints(&p.device, 2));
    rnic_ep_destroy(p.listener.ep);
    p.listener.ep = NULL;
    char octet;
    assert_true(recv(fd, &octet, 1, 0) <= 0);
    close(fd);
    pair_close(&p);
}

static void count_event(void *ctx)
{
    atomic_fetch_add((atomic_uint *)ctx, 1);
}

// The completions come in a call of the program, and no traffic follows that would show the thread
// that an event is held back.
static void test_event_held_back_by_moderation_comes_on_an_idle_device(void **state)
{
    struct device device;
    struct rnic_config config = device_config();
    atomic_uint events = 0;
    const struct cq_port port = {.on_event = count_event, .ctx = &events};
    device_open(&device, &config, 0);
    struct rnic_cq *quiet = device.cq;
    assert_int_equal(rnic_cq_create(device.rnic, 16, &port, &device.cq), 0);
    rnic_cq_moderate(device.cq, 10, 1000);
    struct end end;
    end_init(&end, &device);
    rnic_cq_arm(device.cq, false);
    pause_ms(20); // the thread sleeps, without a limit
    end_post_recv(&end, 1, 0, 8);
    assert_int_equal(rnic_qp_modify(end.qp, QP_ERR), 0);
    for (unsigned i = 0; i < 5000 && atomic_load(&events) == 0; i++) {
        pause_ms(1);
    }
    assert_int_equal(atomic_load(&events), 1);
    end_fini(&end);
    assert_int_equal(rnic_cq_destroy(device.cq), 0);
    device.cq = quiet;
    device_close(&device);
}

// FPDUs that a message of this length takes, each counted where it leaves and where it arrives.
static uint64_t fpdus_of_send(struct pair *p, uint32_t len)
{
    uint64_t before = device_count(&p->device, "fpdus");
    end_post_recv(&p->passive, 1, DEVICE_BUF_LEN / 2, len);
    end_post_send(&p->active, WQE_SEND, 0, len, &p->device, 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(device_poll(&p->device).status, WC_SUCCESS);
    }
    return device_count(&p->device, "fpdus") - before;
}

// Longer than the segments of the kernel's TCP over Ethernet, shorter than the longest FPDU.
static void test_long_message_leaves_in_segments_of_16_kib(void **state)
{
    struct pair p;
    pair_open(&p);
    ends_connect(&p.active, &p.passive, &p.listener, &p.addr);
    fpdus_of_send(&p, 1); // behind what the connection begins with
    assert_int_equal(fpdus_of_send(&p, 16 * 1024), 2 * 1);
    assert_int_equal(fpdus_of_send(&p, 16 * 1024 + 1), 2 * 2);
    assert_int_equal(fpdus_of_send(&p, 32 * 1024), 2 * 2);
    pair_close(&p);
}

// Ten thousand idle connections are to cost little: none holds room for a part of an FPDU.
static void test_idle_endpoint_has_no_carry_buffer(void **state)
{
    struct pair p;
    pair_open(&p);
    ends_connect(&p.active, &p.passive, &p.listener, &p.addr);
    fpdus_of_send(&p, 32 * 1024);
    rnic_enter(p.device.rnic);
    assert_null(p.active.ep->in.carry);
    assert_null(p.passive.ep->in.carry);
    rnic_leave(p.device.rnic, 0);
    pair_close(&p);
}

// The FIN stands behind a Send that has come and finds no receive: it is put aside, and found again
// once the Send has one.
static void expect_end_behind_its_send(struct pair *p)
{
    ends_connect(&p->active, &p->passive, &p->listener, &p->addr);
    end_post_send(&p->active, WQE_SEND, 0, 32, NULL, 0);
    assert_int_equal(device_poll(&p->device).status, 0);
    assert_int_equal(rnic_ep_disconnect(p->active.ep), 0);
    while (!end_is_paused(&p->passive)) {
        pause_ms(1);
    }
    end_post_recv(&p->passive, 7, 0, 64);
    assert_int_equal(device_poll(&p->device).wr_id, 7);
    end_take(&p->passive, RNIC_EP_DISCONNECTED);
    assert_true(device_count(&p->device, "by_peer") >= 1);
    assert_int_equal(device_count(&p->device, "by_reset"), 0); // of a peer that has waited in vain
    pair_close(p);
}

static void test_end_behind_a_send_without_a_receive_is_heard(void **state)
{
    struct pair p;
    pair_open(&p);
    expect_end_behind_its_send(&p);
}

static void test_end_behind_a_send_without_a_receive_is_heard_through_memory(void **state)
{
    const struct link_local_config local = {
        .ring_len = LINK_LOCAL_RING_LEN, .linger_ns = LINK_LOCAL_LINGER_NS, .clock = host_clock};
    struct pair p;
    pair_open_through(&p, &local);
    expect_end_behind_its_send(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_accept_with_another_queue_pair_is_refused),
        cmocka_unit_test(test_establish_without_a_reply_leaves_the_queue_pair_free),
        cmocka_unit_test(test_queue_pair_of_another_device_is_refused),
        cmocka_unit_test(test_half_open_connections_go_with_their_listener),
        cmocka_unit_test(test_event_held_back_by_moderation_comes_on_an_idle_device),
        cmocka_unit_test(test_long_message_leaves_in_segments_of_16_kib),
        cmocka_unit_test(test_idle_endpoint_has_no_carry_buffer),
        cmocka_unit_test(test_end_behind_a_send_without_a_receive_is_heard),
        cmocka_unit_test(test_end_behind_a_send_without_a_receive_is_heard_through_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
