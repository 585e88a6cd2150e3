// Who asks a thousand times does not keep another from connecting, and who answers nobody is not
// buried: half-open connections are bounded per address and altogether.
#include "tests/ibcm/net.h"

static struct net net;
#define A (&net.hosts[0])
#define B (&net.hosts[1])
#define C (&net.hosts[2])

static int set_up(void **state)
{
    net_init(&net, 1);
    B->answer = NET_WAITS;
    return 0;
}

static int tear_down(void **state)
{
    net_fini(&net);
    return 0;
}

// A REQ to B, as if from that address.
static void forge(unsigned number, uint32_t id)
{
    uint8_t mad[MAD_LEN], header[IP_CM_HEADER_LEN];
    const struct ibcm_ends ends = {.local = B->address, .remote = net_address(number)};
    const struct ip_cm_header h = {.source = ends.remote, .destination = ends.local};
    ip_cm_header_emit(&h, header);
    const struct ibcm_message m = {
        .kind = IBCM_REQ,
        .req = {.local_id = id,
                .service_id = ip_cm_service_id(IP_CM_PS_TCP, NET_PORT),
                .qp_num = 0x1000 + id,
                .path_mtu = 3,
                .primary = {.local_gid = ends.remote, .remote_gid = ends.local},
                .private_data = span_of(header, sizeof header)},
    };
    ibcm_message_emit(&m, mad);
    ibcm_on_mad(B->ibcm, &ends, span_of(mad, MAD_LEN), false, net.now);
    net_settle(&net);
    for (size_t i = 0; i < NET_PACKETS; i++) {
        net.packets[i].at_ns = INSTANT_NEVER; // answers to nobody
    }
}

static void one_address_does_not_keep_another_from_connecting(void **state)
{
    for (uint32_t id = 1; id <= 1000; id++) {
        forge(9, id);
    }
    assert_int_equal(B->count[IBCM_EVENT_CONNECT_REQUEST], net_config().source_max);
    assert_int_equal(net_refusals(B, IBCM_REFUSAL_SOURCE_FULL), 1000 - net_config().source_max);
    B->answer = NET_ACCEPTS;
    net_connect(&net, 2, 1);
    net_exchange(&net);
    assert_int_equal(C->count[IBCM_EVENT_ESTABLISHED], 1);
}

static void many_addresses_drop_the_oldest_requests_and_no_connection(void **state)
{
    B->answer = NET_ACCEPTS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    struct ibcm_conn *conn = B->conn;
    B->answer = NET_REJECTS;
    B->drops_at_end = true;
    for (uint32_t id = 1; id <= 1000; id++) {
        forge(10 + id % 100, id);
        ibcm_drop(B->ibcm, B->conn, net.now); // refused, and remembered for a while
    }
    assert_int_equal(ibcm_counters(B->ibcm)->evicted, 1000 - net_config().half_open_max);
    assert_int_equal(ibcm_conn_state(conn), IBCM_ESTABLISHED);
    B->answer = NET_ACCEPTS;
    net_connect(&net, 2, 1);
    net_exchange(&net);
    assert_int_equal(C->count[IBCM_EVENT_ESTABLISHED], 1);
}

static void who_is_evicted_is_told_as_its_owner_is(void **state)
{
    const struct ibcm_config config = net_config();
    net_connect(&net, 0, 1);
    net_exchange(&net);
    struct ibcm_conn *oldest = B->conn;
    B->answer = NET_REJECTS;
    for (uint32_t id = 1; id < config.half_open_max; id++) {
        forge(10 + id, id);
        ibcm_drop(B->ibcm, B->conn, net.now);
    }
    assert_int_equal(ibcm_counters(B->ibcm)->evicted, 0);
    unsigned sent = net.sent[IBCM_REJ];
    net_connect(&net, 2, 1);
    net_exchange(&net);
    assert_int_equal(ibcm_counters(B->ibcm)->evicted, 1);
    assert_int_equal(ibcm_conn_state(oldest), IBCM_OVER);
    assert_int_equal(B->count[IBCM_EVENT_REJECTED], 1);
    assert_int_equal(B->reason, IBCM_REASON_NO_RESOURCES);
    assert_int_equal(net.sent[IBCM_REJ], sent + 2);
    assert_int_equal(A->reason, IBCM_REASON_NO_RESOURCES);
    assert_int_equal(ibcm_accept(B->ibcm, oldest, &B->params, net.now), -ENOTCONN);
    ibcm_drop(B->ibcm, oldest, net.now);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_address_does_not_keep_another_from_connecting),
        TEST(many_addresses_drop_the_oldest_requests_and_no_connection),
        TEST(who_is_evicted_is_told_as_its_owner_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
