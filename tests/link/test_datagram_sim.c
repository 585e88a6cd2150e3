// Packets over the simulated net, on virtual time.
#include <errno.h>

#include "base/bytes.h"
#include "link/datagram/sim.h"
#include "link/datagram/sim_end.h"
#include "tests/link/datagram_contract.h"
#include "tests/link/datagram_sim_pair.h"

enum { MANY = 1000, PAYLOAD_LEN = 1000, PACKET_LEN = PAYLOAD_LEN + PAIR_HEAD_LEN + 4 + 28 };

static struct got got[MANY];
static const uint8_t payload[PAYLOAD_LEN];

static int begin(void **state)
{
    net_make((struct datagram_net_config){.mtu = 0}, "");
    return 0;
}

static int end(void **state)
{
    datagram_destroy(pair.link[0]);
    datagram_destroy(pair.link[1]);
    datagram_net_destroy(net);
    return 0;
}

static void put_many(unsigned count, uint8_t traffic_class)
{
    struct datagram_path path = pair_path(AF_INET);
    path.traffic_class = traffic_class;
    for (unsigned i = 0; i < count; i++) {
        assert_true(pair_put(&path, i, span_of(payload, sizeof payload)));
    }
    assert_true(datagram_flush(pair.link[0]));
}

static unsigned cross_many(const char *faults)
{
    end(NULL);
    net_make((struct datagram_net_config){.mtu = 0}, faults);
    pair_open();
    put_many(MANY, 0);
    return pair_take(1, got, MANY);
}

/* ---- bad paths ------------------------------------------------------------------------------- */

static void as_many_are_lost_as_is_drawn(void **state)
{
    unsigned count = cross_many("loss=10%,seed=3");
    assert_int_equal(count, MANY - datagram_net_counters(net)->lost);
    assert_in_range(count, MANY * 8 / 10, MANY * 95 / 100);
}

static void one_seed_draws_the_same_again(void **state)
{
    static uint32_t psns[MANY];
    unsigned count = cross_many("loss=10%,reorder=10%,seed=3");
    for (unsigned i = 0; i < count; i++) {
        psns[i] = pair_psn(&got[i]);
    }
    assert_int_equal(cross_many("loss=10%,reorder=10%,seed=3"), count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pair_psn(&got[i]), psns[i]);
    }
}

static void packets_come_late_and_behind_others(void **state)
{
    unsigned late = 0, count = cross_many("reorder=10%");
    assert_int_equal(count, MANY);
    for (unsigned i = 1; i < count; i++) {
        late += pair_psn(&got[i]) < pair_psn(&got[i - 1]);
    }
    assert_true(late > 0);
}

static void packets_come_twice(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    struct fault_config faults;
    assert_true(fault_config_parse("duplicate=100%", &faults));
    datagram_net_set_faults(net, &faults);
    pair_open();
    assert_true(pair_put(&path, 4, span_of(payload, 8)));
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 3), 2);
    assert_int_equal(pair_psn(&got[0]), 4);
    assert_int_equal(pair_psn(&got[1]), 4);
}

static void packets_that_change_are_dropped_and_counted(void **state)
{
    assert_int_equal(cross_many("corrupt=100%"), 0);
    assert_int_equal(datagram_counted(pair.link[1], "icrc_wrong"), MANY);
}

static void packets_that_nobody_can_check_arrive_changed(void **state)
{
    end(NULL);
    net_make((struct datagram_net_config){.is_unchecked = true}, "corrupt=100%");
    pair_open();
    put_many(1, 0);
    assert_int_equal(pair_take(1, got, 2), 1);
    assert_false(got[0].rx.is_checked);
}

static void packet_takes_as_long_as_the_path(void **state)
{
    end(NULL);
    net_make((struct datagram_net_config){.mtu = 0}, "delay=5ms");
    pair_open();
    put_many(1, 0);
    assert_int_equal(datagram_net_next_event(net), now_ns + 5 * NS_PER_MS);
}

/* ---- queues ---------------------------------------------------------------------------------- */

static void queue_lets_so_much_through_in_a_second(void **state)
{
    end(NULL);
    net_make((struct datagram_net_config){.rate = 1000 * PACKET_LEN}, "");
    pair_open();
    instant_ns begin_ns = now_ns;
    put_many(100, 0);
    assert_int_equal(pair_take(1, got, MANY), 100);
    assert_int_equal(now_ns - begin_ns, 100 * NS_PER_MS);
}

static void queue_drops_what_it_has_no_room_for(void **state)
{
    end(NULL);
    net_make((struct datagram_net_config){.rate = 1000 * PACKET_LEN, .queue_len = 10 * PACKET_LEN},
             "");
    pair_open();
    put_many(25, 0);
    assert_int_equal(pair_take(1, got, MANY), 10);
    assert_int_equal(datagram_net_overflows(net), 15);
}

static void queue_marks_what_allows_it(void **state)
{
    struct datagram_net_config config = {.rate = 1000 * PACKET_LEN, .mark_len = 4 * PACKET_LEN};
    for (uint8_t ect = 0; ect < 2; ect++) {
        end(NULL);
        net_make(config, "");
        pair_open();
        put_many(10, ect == 0 ? 0x20 : 0x22);
        assert_int_equal(pair_take(1, got, MANY), 10);
        assert_int_equal(got[3].rx.traffic_class, ect == 0 ? 0x20 : 0x22);
        assert_int_equal(got[4].rx.traffic_class, ect == 0 ? 0x20 : 0x23);
        assert_int_equal(datagram_net_marks(net), ect == 0 ? 0 : 6);
    }
}

static void sender_waits_for_room(void **state)
{
    struct datagram_net_config config = {.send_rate = 1000 * PACKET_LEN,
                                         .send_buffer_len = 20 * PACKET_LEN};
    struct datagram_path path = pair_path(AF_INET);
    unsigned count = 0;
    end(NULL);
    net_make(config, "");
    pair_open();
    while (count < MANY && pair_put(&path, count, span_of(payload, sizeof payload))) {
        count++;
    }
    assert_in_range(count, 19, 21);
    datagram_flush(pair.link[0]);
    assert_int_equal(datagram_poll(pair.link[0], now_ns) & DATAGRAM_READY_ROOM, 0);
    now_ns = datagram_next_deadline(pair.link[0]);
    assert_int_not_equal(datagram_poll(pair.link[0], now_ns) & DATAGRAM_READY_ROOM, 0);
    assert_int_equal(datagram_poll(pair.link[0], now_ns) & DATAGRAM_READY_ROOM, 0);
    assert_int_equal(datagram_next_deadline(pair.link[0]), INSTANT_NEVER);
    assert_true(pair_put(&path, count, span_of(payload, sizeof payload)));
}

static void receive_buffer_holds_so_much(void **state)
{
    struct datagram_net_config config = {.receive_buffer_len = 4 * PACKET_LEN};
    end(NULL);
    net_make(config, "");
    pair_open();
    assert_int_equal(datagram_receive_buffer_len(pair.link[1]), 4 * PACKET_LEN);
    put_many(10, 0);
    assert_int_equal(pair_take(1, got, MANY), 4);
    assert_int_equal(datagram_counted(pair.link[1], "buffer_overflows"), 6);
    put_many(1, 0);
    assert_int_equal(pair_take(1, got, MANY), 1);
}

/* ---- whose they are -------------------------------------------------------------------------- */

static void links_at_one_address_have_slots_of_their_own(void **state)
{
    struct datagram_path path = pair_path(AF_INET);
    struct datagram_link *other = datagram_net_attach(net, &pair.ipv4[1], 1);
    uint8_t head[PAIR_HEAD_LEN];
    pair_open();
    assert_int_equal(datagram_open(other, &pair.ipv4[1], 0), 0);
    assert_int_equal(other->qp_num_first, 0x10000);
    pair_head(head, 1, 0);
    put_be32(head + 4, other->qp_num_first + 3);
    struct datagram_tx tx = {.path = &path, .head = span_of(head, sizeof head)};
    assert_true(datagram_put(pair.link[0], &tx));
    datagram_flush(pair.link[0]);
    assert_int_equal(pair_take(1, got, 1), 0);
    assert_int_equal(datagram_poll(other, now_ns), DATAGRAM_READY_IN);
    datagram_destroy(other);
}

static void slot_of_a_link_that_is_gone_is_free_again(void **state)
{
    struct datagram_link *second = datagram_net_attach(net, &pair.ipv4[1], 1);
    struct datagram_link *third = datagram_net_attach(net, &pair.ipv4[1], 1);
    assert_int_equal(third->qp_num_first, 0x20000);
    datagram_destroy(second);
    second = datagram_net_attach(net, &pair.ipv4[1], 1);
    assert_int_equal(second->qp_num_first, 0x10000);
    datagram_destroy(second);
    datagram_destroy(third);
}

static void link_joins_so_many_groups_and_as_many_again_when_it_has_left(void **state)
{
    struct in6_addr group = pair_path(AF_INET).remote;
    group.s6_addr[12] = 239;
    pair_open();
    for (uint8_t i = 0; i < DATAGRAM_MEMBERSHIPS_MAX; i++) {
        group.s6_addr[15] = i;
        assert_int_equal(datagram_join(pair.link[1], &group, &pair.ipv4[1], 0), 0);
    }
    group.s6_addr[15] = DATAGRAM_MEMBERSHIPS_MAX;
    assert_int_equal(datagram_join(pair.link[1], &group, &pair.ipv4[1], 0), -ENOBUFS);
    struct in6_addr first = group;
    first.s6_addr[15] = 0;
    datagram_leave(pair.link[1], &first, &pair.ipv4[1], 0);
    assert_int_equal(datagram_join(pair.link[1], &group, &pair.ipv4[1], 0), 0);
}

static void what_is_under_way_to_a_link_goes_with_it(void **state)
{
    pair_open();
    put_many(3, 0);
    datagram_destroy(pair.link[1]);
    assert_int_equal(datagram_net_next_event(net), INSTANT_NEVER);
    pair.link[1] = datagram_net_attach(net, &pair.ipv4[1], 1);
}

static void unknown_families_have_no_route(void **state)
{
    struct datagram_link *other = datagram_net_attach(net, &pair.ipv4[1], 1);
    struct in6_addr local;
    assert_int_equal(datagram_route(other, &pair.ipv6[0], 0, &local), -ENETUNREACH);
    assert_int_equal(datagram_join(other, &pair.ipv6[0], &pair.ipv4[1], 0), -EINVAL);
    datagram_destroy(other);
}

int main(void)
{
#define SIM_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define X(name)        SIM_TEST(name),
    const struct CMUnitTest tests[] = {
        DATAGRAM_CONTRACT_TESTS(X) SIM_TEST(as_many_are_lost_as_is_drawn),
        SIM_TEST(one_seed_draws_the_same_again),
        SIM_TEST(packets_come_late_and_behind_others),
        SIM_TEST(packets_come_twice),
        SIM_TEST(packets_that_change_are_dropped_and_counted),
        SIM_TEST(packets_that_nobody_can_check_arrive_changed),
        SIM_TEST(packet_takes_as_long_as_the_path),
        SIM_TEST(queue_lets_so_much_through_in_a_second),
        SIM_TEST(queue_drops_what_it_has_no_room_for),
        SIM_TEST(queue_marks_what_allows_it),
        SIM_TEST(sender_waits_for_room),
        SIM_TEST(receive_buffer_holds_so_much),
        SIM_TEST(links_at_one_address_have_slots_of_their_own),
        SIM_TEST(slot_of_a_link_that_is_gone_is_free_again),
        SIM_TEST(link_joins_so_many_groups_and_as_many_again_when_it_has_left),
        SIM_TEST(what_is_under_way_to_a_link_goes_with_it),
        SIM_TEST(unknown_families_have_no_route),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
