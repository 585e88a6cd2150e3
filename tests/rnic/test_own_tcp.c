// A device over TCP of its own, on a path that loses and reorders: what is placed beyond holes,
// what is counted, and how its connections end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rnic/device.h"
#include "tests/rnic/udp_link.h"

enum { HALF_LEN = DEVICE_BUF_LEN / 2, ROUNDS = 20, WRITES = 16 };

static struct device device;
static struct sockaddr_in addr;
static struct end listener, active, passive;

static void open_as(const struct rnic_config *config, const char *fault)
{
    device_open_over(&device, config, udp_link(fault), NULL);
    end_listen(&listener, &device, &addr);
    end_init(&active, &device);
    end_init(&passive, &device);
    ends_connect(&active, &passive, &listener, &addr);
}

static void open_with(const char *fault)
{
    const struct rnic_config config = device_config();
    open_as(&config, fault);
}

static int teardown(void **state)
{
    end_fini(&active);
    end_fini(&passive);
    end_fini(&listener);
    device_close(&device);
    return 0;
}

static void fill(uint32_t round)
{
    for (uint32_t i = 0; i < HALF_LEN; i++) {
        device.buf[i] = (uint8_t)(i * 13 + round);
    }
}

static void expect_success(void)
{
    assert_int_equal(device_poll(&device).status, CQE_STATUS_SUCCESS);
}

static void work_comes_through_a_bad_path_octet_for_octet(void **state)
{
    open_with("loss=3%,reorder=5%,duplicate=1%,seed=7");
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fill(round);
        for (uint32_t i = 0; i < WRITES; i++) { // one behind the other: a lost one leaves a hole
            end_post_send(&active, WQE_RDMA_WRITE, 0, HALF_LEN, &device, HALF_LEN);
        }
        for (uint32_t i = 0; i < WRITES; i++) {
            expect_success();
        }
        end_post_send(&active, WQE_RDMA_READ, HALF_LEN, 8, &device, 0); // behind the Write
        expect_success();
        assert_memory_equal(device.buf + HALF_LEN, device.buf, HALF_LEN);
        end_post_recv(&passive, round, HALF_LEN, HALF_LEN);
        end_post_send(&active, WQE_SEND, 0, HALF_LEN, NULL, 0);
        expect_success();
        expect_success();
        assert_memory_equal(device.buf + HALF_LEN, device.buf, HALF_LEN);
    }
    assert_true(device_count(&device, "early_fpdus") > 0);
    assert_true(device_count(&device, "advances") > 0);
    assert_int_equal(device_count(&device, "misplaced"), 0);
    assert_true(device_count(&device, "retransmits") > 0);
}

static void connections_end_in_their_order(void **state)
{
    open_with("");
    end_post_recv(&passive, 1, HALF_LEN, 64);
    end_post_send(&active, WQE_SEND, 0, 64, NULL, 0);
    assert_int_equal(rnic_ep_disconnect(active.ep), 0); // what was posted leaves before
    expect_success();
    expect_success();
    end_take(&active, RNIC_EP_DISCONNECTED);
    end_take(&passive, RNIC_EP_DISCONNECTED);
    assert_int_equal(device_count(&device, "by_timeout"), 0);
    assert_int_equal(device_count(&device, "by_reset"), 0);
}

// A Send and its receive, in whichever order they complete.
static void expect_the_send_and_its_receive(void)
{
    expect_success();
    expect_success();
    assert_memory_equal(device.buf + HALF_LEN, device.buf, HALF_LEN);
}

// Each FIN overtakes the acknowledgement of what its receiver had sent.
static void a_send_succeeds_though_both_ends_end_at_once(void **state)
{
    open_with("delay=20ms");
    end_post_recv(&passive, 1, HALF_LEN, HALF_LEN);
    fill(1);
    end_post_send(&active, WQE_SEND, 0, HALF_LEN, NULL, 0);
    assert_int_equal(rnic_ep_disconnect(active.ep), 0);
    assert_int_equal(rnic_ep_disconnect(passive.ep), 0);
    expect_the_send_and_its_receive();
    end_take(&active, RNIC_EP_DISCONNECTED);
    end_take(&passive, RNIC_EP_DISCONNECTED);
    assert_int_equal(device_count(&device, "by_timeout"), 0);
    assert_int_equal(device_count(&device, "by_reset"), 0);
}

// Without a store for them Sends wait in TCP, which goes on when there is a receive: nothing more
// comes from the peer then that would wake it.
static void sends_without_a_receive_wait_in_tcp(void **state)
{
    enum { SENDS = 4 };
    struct rnic_config config = device_config();
    config.rnr_store_len = 0;
    open_as(&config, "");
    for (uint32_t round = 0; round < 3; round++) {
        fill(round);
        for (uint32_t i = 0; i < SENDS; i++) {
            end_post_send(&active, WQE_SEND, 0, HALF_LEN, NULL, 0);
        }
        assert_true(device_waits_for_count(&device, "rnr_stalls", round + 1));
        pause_ms(20); // all of them have come
        for (uint32_t i = 0; i < SENDS; i++) {
            end_post_recv(&passive, i, HALF_LEN, HALF_LEN);
        }
        for (uint32_t i = 0; i < SENDS; i++) {
            expect_the_send_and_its_receive();
        }
    }
}

// Before a process ends: what was posted leaves, and the peer has acknowledged its end. Both ends
// are this process's here.
static void flush_sends_what_was_posted_and_ends(void **state)
{
    open_with("");
    end_post_recv(&passive, 1, HALF_LEN, HALF_LEN);
    fill(1);
    end_post_send(&active, WQE_SEND, 0, HALF_LEN, NULL, 0);
    assert_true(rnic_flush(device.rnic, NS_PER_S, 5 * NS_PER_S));
    expect_the_send_and_its_receive();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(work_comes_through_a_bad_path_octet_for_octet, teardown),
        cmocka_unit_test_teardown(connections_end_in_their_order, teardown),
        cmocka_unit_test_teardown(a_send_succeeds_though_both_ends_end_at_once, teardown),
        cmocka_unit_test_teardown(sends_without_a_receive_wait_in_tcp, teardown),
        cmocka_unit_test_teardown(flush_sends_what_was_posted_and_ends, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
