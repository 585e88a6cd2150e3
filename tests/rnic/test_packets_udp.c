// Devices whose queue pairs are carried by packets, over UDP sockets on loopback, with threads.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "host/clock.h"
#include "link/datagram/udp.h"
#include "rnic/post.h"
#include "tests/own_port.h"
#include "tests/rnic/device.h"
#include "tests/rnic/packet_qp.h"
#include "wq/status.h"

enum { MTU = 4096, DEPTH = 64, MESSAGE_LEN = 60000, MESSAGE_COUNT = 200 };
enum { CROWD = 64, CROWD_DEPTH = 4, OLD_BUFFER_LEN = 212992 };

static struct device devices[2];
static struct rnic_qp *qps[CROWD][2];
static unsigned pair_count;
static uint32_t rcvbuf_len; // 0: as large as the system lets us
static bool is_local;       // through memory, once some packets have gone by UDP

// For a test that meets the device's thread where it looks at the clock.
static atomic_bool is_expected, is_met;

static void meet(struct rnic *rnic)
{
    if (pthread_equal(pthread_self(), rnic->shard.thread)) {
        atomic_store(&is_expected, false);
        atomic_store(&is_met, true);
        while (!atomic_load(&rnic->shard.is_stopping)) {
            pause_ms(1);
        }
        pause_ms(10); // who ends it rings, and waits for it
    }
}

// The device's thread looks before its maker has it: whose it is, is seen once it is expected.
static instant_ns clock_of_tests(void *ctx)
{
    if (atomic_load(&is_expected)) {
        meet(devices[0].rnic);
    }
    return host_clock(ctx);
}

static void device_open_udp(struct device *d, uint8_t key)
{
    const struct datagram_udp_config config = {
        .port = own_port(), .rcvbuf_len = rcvbuf_len, .is_local = is_local};
    struct rnic_parts parts = {
        .config = device_config(),
        .clock = clock_of_tests,
        .port = {.addrs = {{.addr = loopback()}}, .addr_count = 1, .path_mtu = MTU},
    };
    memset(parts.stag_key, key, sizeof parts.stag_key);
    assert_int_equal(datagram_udp_create(&config, &parts.datagrams), 0);
    device_open_parts(d, &parts);
}

static void post_write(unsigned pair, uint8_t value)
{
    struct rnic_sq_cursor cursor;
    rnic_sq_begin(&cursor, qps[pair][0]);
    struct send_wqe *wqe = rnic_sq_slot(&cursor);
    assert_non_null(wqe);
    wqe->wr_id = value;
    wqe->opcode = WQE_RDMA_WRITE;
    wqe->flags = WQE_SIGNALED;
    wqe->rkey = devices[1].stag;
    wqe->remote_addr = (uintptr_t)devices[1].buf;
    wqe->sge_count = 1;
    wqe->length = MESSAGE_LEN;
    wqe->sge[0] = (struct sge){
        .addr = (uintptr_t)devices[0].buf, .length = MESSAGE_LEN, .lkey = devices[0].stag};
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
}

static int open_pairs(unsigned count, enum rnic_qp_type type, uint32_t buffer_len)
{
    pair_count = count;
    rcvbuf_len = buffer_len;
    device_open_udp(&devices[0], 1);
    device_open_udp(&devices[1], 2);
    for (unsigned pair = 0; pair < count; pair++) {
        for (unsigned i = 0; i < 2; i++) {
            qps[pair][i] = packet_qp_open(&devices[i], type, DEPTH);
        }
        for (unsigned i = 0; i < 2; i++) {
            packet_qp_connect(qps[pair][i], qps[pair][1 - i]->qp_num, MTU);
        }
    }
    return 0;
}

static int setup(void **state)
{
    return open_pairs(1, RNIC_QP_RC, 0);
}

static int setup_unreliable(void **state)
{
    return open_pairs(1, RNIC_QP_UC, 16384); // a few packets
}

static int setup_crowd(void **state)
{
    return open_pairs(CROWD, RNIC_QP_RC, OLD_BUFFER_LEN / 2); // the kernel doubles it
}

static int setup_local(void **state)
{
    is_local = true;
    return setup(state);
}

static int setup_unreliable_local(void **state)
{
    is_local = true;
    return setup_unreliable(state);
}

static int setup_crowd_local(void **state)
{
    is_local = true;
    return setup_crowd(state);
}

static int teardown(void **state)
{
    assert_int_equal(device_count(&devices[0], "local_packets_out") > 0, is_local);
    is_local = false;
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned pair = 0; pair < pair_count; pair++) {
            rnic_qp_destroy(qps[pair][i]);
        }
        device_close(&devices[i]);
    }
    return 0;
}

static void a_target_that_makes_no_call_is_written_to(void **state)
{
    for (unsigned i = 0; i < MESSAGE_COUNT; i++) {
        memset(devices[0].buf, (int)(i + 1), MESSAGE_LEN);
        post_write(0, (uint8_t)i);
        const struct cqe cqe = device_poll(&devices[0]);
        assert_int_equal(cqe.status, WC_SUCCESS);
        assert_int_equal(cqe.wr_id, (uint8_t)i);
        assert_memory_equal(devices[1].buf, devices[0].buf, MESSAGE_LEN);
    }
}

// More than the link holds: the poster's thread stops, and the device's goes on when there is room.
static void what_is_posted_at_once_leaves_without_a_call(void **state)
{
    memset(devices[0].buf, 0x5a, MESSAGE_LEN);
    for (unsigned i = 0; i < DEPTH; i++) {
        post_write(0, (uint8_t)i);
    }
    assert_true(device_waits_for_count(&devices[0], "send_completions", DEPTH));
    for (unsigned i = 0; i < DEPTH; i++) {
        assert_int_equal(device_poll(&devices[0]).status, WC_SUCCESS);
    }
    assert_memory_equal(devices[1].buf, devices[0].buf, MESSAGE_LEN);
}

// The program polls hard, as far as its device knows: the thread, asleep so far, stands back.
static void pretend_to_poll(struct rnic *rnic)
{
    struct shard *shard = &rnic->shard;
    instant_ns end = host_clock(NULL) + DEVICE_PATIENCE_NS;
    while (atomic_load(&shard->asleep_until_ns) == 0 && host_clock(NULL) < end) {
    }
    rnic_enter(rnic);
    atomic_store(&shard->polled_at_ns, end);
    atomic_store(&shard->is_polled, true);
    rnic_leave(rnic, 0);
}

static bool is_rung(void)
{
    return atomic_load(&devices[0].rnic->shard.rung) != NULL;
}

// As many as make a burst are out, and the peer has not been heard: others wait to be a burst too.
static void what_is_posted_behind_a_burst_leaves_as_one(void **state)
{
    enum { BURST = 15 };
    pretend_to_poll(devices[0].rnic);
    rnic_enter(devices[1].rnic);
    for (unsigned i = 0; i < BURST; i++) {
        post_write(0, (uint8_t)i);
        assert_false(is_rung());
    }
    for (unsigned i = 1; i < BURST; i++) {
        post_write(0, (uint8_t)(BURST + i));
        assert_true(is_rung());
    }
    post_write(0, 0);
    assert_false(is_rung());
    post_write(0, 0);
    assert_true(is_rung());
    rnic_leave(devices[1].rnic, 0);
    shard_end_polling(&devices[0].rnic->shard); // the thread looks after it
    assert_true(device_waits_for_count(&devices[0], "send_completions", 2 * BURST + 1));
}

static unsigned packets_of(unsigned messages)
{
    return messages * ((MESSAGE_LEN + MTU - 1) / MTU);
}

static void write_all(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        post_write(0, (uint8_t)i);
    }
}

static void all_are_done(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(device_poll(&devices[0]).status, WC_SUCCESS);
    }
}

// Messages by UDP, until memory is there; how many.
static unsigned write_until_local(void)
{
    unsigned count = 0;
    while (device_count(&devices[0], "local_packets_out") == 0) {
        write_all(1);
        all_are_done(1);
        count++;
        assert_true(device_waits_for_count(&devices[1], "received", packets_of(count)));
    }
    return count;
}

// A sender is much faster than who reads at the other end, which does not for a moment.
static void what_is_sent_once_waits_until_its_receiver_has_room(void **state)
{
    const unsigned before = is_local ? write_until_local() : 0;
    // Memory holds many; of a few in a buffer, each time takes a turn of both ends.
    const unsigned count = is_local ? DEPTH : DEPTH / 4;
    rnic_enter(devices[1].rnic);
    write_all(count);
    rnic_leave(devices[1].rnic, 0);
    all_are_done(count);
    assert_true(device_waits_for_count(&devices[1], "received", packets_of(before + count)));
    assert_int_equal(device_count(&devices[1], "buffer_overflows"), 0);
    assert_true(device_count(&devices[0], "receiver_waits") > 0);
}

static bool has_crowd_fitted(void)
{
    const uint64_t lost_before = device_count(&devices[1], "buffer_overflows");
    const uint64_t received_before = device_count(&devices[1], "received");
    for (unsigned i = 0; i < CROWD * CROWD_DEPTH; i++) {
        post_write(i % CROWD, (uint8_t)i);
    }
    all_are_done(CROWD * CROWD_DEPTH);
    const uint64_t lost = device_count(&devices[1], "buffer_overflows") - lost_before;
    return lost * 50 <= device_count(&devices[1], "received") - received_before;
}

// Fifty packets of 4 KiB fill the buffer, and each of sixty-four windows begins with ten: without a
// share of the room one of seventeen is lost, or one of five, each time. What a time-out wrote off
// and the buffer still held is lost on a busy machine: then it is tried again.
static void a_crowd_of_queue_pairs_fits_the_receive_buffer(void **state)
{
    enum { TRIES = 5 };
    bool has_fitted = false;
    for (unsigned i = 0; i < TRIES && !has_fitted; i++) {
        has_fitted = has_crowd_fitted();
    }
    assert_true(has_fitted);
    assert_memory_equal(devices[1].buf, devices[0].buf, MESSAGE_LEN);
}

// It has looked whether it is to end, and looks at the link next, which takes what would wake it.
static void a_device_that_ends_while_its_thread_is_awake_ends(void **state)
{
    device_open_udp(&devices[0], 1);
    pretend_to_poll(devices[0].rnic); // once the thread sleeps
    shard_end_polling(&devices[0].rnic->shard);
    pause_ms(10);
    alarm(DEVICE_PATIENCE_NS / NS_PER_S);
    atomic_store(&is_expected, true);
    shard_thread_rouse(&devices[0].rnic->shard);
    while (!atomic_load(&is_met)) {
        pause_ms(1);
    }
    device_close(&devices[0]);
    alarm(0);
}

int main(void)
{
#define UDP_TEST(name, begin) cmocka_unit_test_setup_teardown(name, begin, teardown)
    const struct CMUnitTest tests[] = {
        UDP_TEST(a_target_that_makes_no_call_is_written_to, setup),
        UDP_TEST(a_target_that_makes_no_call_is_written_to, setup_local),
        UDP_TEST(what_is_posted_at_once_leaves_without_a_call, setup),
        UDP_TEST(what_is_posted_at_once_leaves_without_a_call, setup_local),
        UDP_TEST(what_is_posted_behind_a_burst_leaves_as_one, setup),
        UDP_TEST(what_is_posted_behind_a_burst_leaves_as_one, setup_local),
        UDP_TEST(what_is_sent_once_waits_until_its_receiver_has_room, setup_unreliable),
        UDP_TEST(what_is_sent_once_waits_until_its_receiver_has_room, setup_unreliable_local),
        UDP_TEST(a_crowd_of_queue_pairs_fits_the_receive_buffer, setup_crowd),
        UDP_TEST(a_crowd_of_queue_pairs_fits_the_receive_buffer, setup_crowd_local),
        cmocka_unit_test(a_device_that_ends_while_its_thread_is_awake_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
