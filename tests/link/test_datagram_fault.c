// Packets through a bad path: before the simulated net, where time is virtual; and those that
// change, before their ICRC is looked at, over UDP sockets.
#include <errno.h>

#include "link/datagram/fault.h"
#include "link/datagram/udp.h"
#include "tests/link/datagram_contract.h"
#include "tests/link/datagram_sim_pair.h"
#include "tests/own_port.h"

enum { MANY = 1000 };

static struct got got[MANY * 2];
static const uint8_t payload[64];

static void wrap(unsigned i, const char *faults)
{
    struct fault_config config;
    assert_true(fault_config_parse(faults, &config));
    assert_int_equal(datagram_fault_wrap(pair.link[i], &config, &pair.link[i]), 0);
}

static int begin(void **state)
{
    net_make((struct datagram_net_config){.mtu = 0}, "");
    return 0;
}

static int begin_wrapped(void **state)
{
    begin(state);
    wrap(0, "side=both");
    wrap(1, "side=both");
    return 0;
}

static int end(void **state)
{
    datagram_destroy(pair.link[0]);
    datagram_destroy(pair.link[1]);
    datagram_net_destroy(net);
    return 0;
}

static void put_many(void)
{
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(pair_put(&path, i, span_of(payload, sizeof payload)));
    }
    assert_true(datagram_flush(pair.link[0]));
}

// What waits in the wrappers comes too.
static unsigned take_all(void)
{
    unsigned count = pair_take(1, got, MANY * 2);
    for (unsigned i = 0; i < 2; i++) {
        instant_ns at_ns;
        while ((at_ns = datagram_next_deadline(pair.link[i])) != INSTANT_NEVER) {
            now_ns = at_ns > now_ns ? at_ns : now_ns;
            datagram_poll(pair.link[i], now_ns);
            count += pair_take(1, got + count, MANY * 2 - count);
        }
    }
    return count;
}

static unsigned backward(unsigned count)
{
    unsigned late = 0;
    for (unsigned i = 1; i < count; i++) {
        late += pair_psn(&got[i]) < pair_psn(&got[i - 1]);
    }
    return late;
}

static void packets_are_lost_on_the_way_out(void **state)
{
    wrap(0, "loss=10%");
    put_many();
    assert_int_equal(take_all(), MANY - datagram_counted(pair.link[0], "faults.lost"));
    assert_in_range(datagram_counted(pair.link[0], "faults.lost"), MANY / 20, MANY / 5);
}

static void packets_are_lost_on_the_way_in(void **state)
{
    wrap(1, "loss=10%,side=in");
    put_many();
    unsigned count = take_all();
    assert_int_equal(count, MANY - datagram_counted(pair.link[1], "faults.lost"));
    assert_in_range(datagram_counted(pair.link[1], "faults.lost"), MANY / 20, MANY / 5);
}

static void other_side_is_left_alone(void **state)
{
    wrap(0, "loss=100%,side=in");
    wrap(1, "loss=100%,side=out");
    put_many();
    assert_int_equal(take_all(), MANY);
}

static void packets_are_late_and_twice_on_the_way_out(void **state)
{
    wrap(0, "reorder=10%,duplicate=10%");
    put_many();
    unsigned count = take_all();
    assert_int_equal(count, MANY + datagram_counted(pair.link[0], "faults.duplicated"));
    assert_true(count > MANY);
    assert_true(backward(count) > 0);
}

static void packets_are_late_and_twice_on_the_way_in(void **state)
{
    wrap(1, "reorder=10%,duplicate=10%,side=in");
    put_many();
    unsigned count = take_all();
    assert_int_equal(count, MANY + datagram_counted(pair.link[1], "faults.duplicated"));
    assert_true(count > MANY);
    assert_true(backward(count) > 0);
}

static void late_packet_comes_in_its_time(void **state)
{
    wrap(0, "delay=5ms");
    instant_ns begin_ns = now_ns;
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    datagram_poll(pair.link[0], now_ns);
    assert_true(pair_put(&path, 0, span_of(payload, sizeof payload)));
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 1), 0);
    assert_int_equal(datagram_next_deadline(pair.link[0]), begin_ns + 5 * NS_PER_MS);
    assert_int_equal(take_all(), 1);
}

static void packets_that_are_late_alike_keep_their_order(void **state)
{
    wrap(0, "delay=5ms"); // one of them alone: two would turn the order twice
    put_many();
    unsigned count = take_all();
    assert_in_range(count, 2, MANY);
    assert_int_equal(backward(count), 0);
}

static void packet_without_room_meets_the_same_again(void **state)
{
    end(state);
    net_make((struct datagram_net_config){.send_rate = 1000, .send_buffer_len = 1}, "");
    wrap(0, "duplicate=50%");
    struct datagram_path path = pair_path(AF_INET);
    pair_open();
    assert_true(pair_put(&path, 0, span_of(payload, 8)));
    uint64_t packets = datagram_counted(pair.link[0], "faults.packets");
    for (unsigned i = 0; i < 20; i++) {
        assert_false(pair_put(&path, 1, span_of(payload, 8)));
    }
    assert_int_equal(datagram_counted(pair.link[0], "faults.packets"), packets);
}

static void changed_packets_are_found_by_their_icrc(void **state)
{
    struct datagram_udp_config config = {.port = own_port()};
    struct datagram_link *link;
    struct in6_addr here = ipv4_mapped(INADDR_LOOPBACK);
    struct datagram_path path = {.local = here, .remote = here};
    uint8_t head[PAIR_HEAD_LEN];
    struct datagram_rx rx[8];
    unsigned count = 0, turns = 0;
    assert_true(fault_config_parse("corrupt=50%", &config.corrupt));
    assert_int_equal(datagram_udp_create(&config, &link), 0);
    assert_int_equal(datagram_open(link, &here, 0), 0);
    pair_head(head, 1, 0);
    head[5] = (uint8_t)(link->qp_num_first >> 16);
    struct datagram_tx tx = {.path = &path, .head = span_of(head, sizeof head)};
    for (unsigned i = 0; i < 100; i++) {
        assert_true(datagram_put(link, &tx));
    }
    assert_true(datagram_flush(link));
    while (count + datagram_counted(link, "icrc_wrong") < 100 && turns++ < 200) {
        datagram_wait(link, 10 * NS_PER_MS);
        datagram_poll(link, 0);
        unsigned some = datagram_receive(link, rx, 8, 0);
        for (unsigned i = 0; i < some; i++) {
            assert_memory_equal(rx[i].octets.ptr, head, 4); // behind it some bits may change
        }
        count += some;
    }
    uint64_t wrong = datagram_counted(link, "icrc_wrong");
    uint64_t corrupted = datagram_counted(link, "corrupted"); // one octet of 16 does not count
    assert_in_range(wrong, corrupted * 3 / 4, corrupted);
    assert_in_range(count, 20, 80);
    datagram_destroy(link);
}

int main(void)
{
#define FAULT_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define X(name)          cmocka_unit_test_setup_teardown(name, begin_wrapped, end),
    const struct CMUnitTest tests[] = {
        DATAGRAM_CONTRACT_TESTS(X) FAULT_TEST(packets_are_lost_on_the_way_out),
        FAULT_TEST(packets_are_lost_on_the_way_in),
        FAULT_TEST(other_side_is_left_alone),
        FAULT_TEST(packets_are_late_and_twice_on_the_way_out),
        FAULT_TEST(packets_are_late_and_twice_on_the_way_in),
        FAULT_TEST(late_packet_comes_in_its_time),
        FAULT_TEST(packet_without_room_meets_the_same_again),
        FAULT_TEST(changed_packets_are_found_by_their_icrc),
        FAULT_TEST(packets_that_are_late_alike_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
