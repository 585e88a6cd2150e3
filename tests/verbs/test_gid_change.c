// GIDs that come and go while the device is open, since addresses of the host do: in a network of
// the test's own.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/ioctl.h>

#include "tests/own_network.h"
#include "tests/verbs/roce.h"

enum { EVENT_MS = 20000, TRIES_MAX = 2000, TRY_US = 10000, DATAGRAM_LEN = 64 };

static const char *why_not; // no namespace or no device here
static struct bench bench;

/* ---- the network ----------------------------------------------------------------------------- */

static void enter_namespace(void)
{
    struct ifreq request = {.ifr_name = "one", .ifr_flags = IFF_TUN | IFF_NO_PI};
    why_not = own_network_enter();
    if (why_not != NULL) {
        return;
    }
    int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tun < 0 || ioctl(tun, TUNSETIFF, &request) != 0) {
        why_not = "no TUN device";
    } else if (!own_network_ip("link set one addrgenmode none up")) {
        why_not = "no program ip, or not allowed to use it";
    }
}

/* ---- the device ------------------------------------------------------------------------------ */

// One tells of all changes that are behind each other: so what it is about may have come already,
// and one that is taken may be an earlier change's, whose table was read before it was told.
static bool has_change(void)
{
    struct pollfd ready = {.fd = bench.context->async_fd, .events = POLLIN};
    struct ibv_async_event event;
    if (poll(&ready, 1, EVENT_MS) != 1) {
        return false;
    }
    assert_int_equal(ibv_get_async_event(bench.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE);
    assert_int_equal(event.element.port_num, 1);
    ibv_ack_async_event(&event);
    return true;
}

static void change(const char *words)
{
    assert_true(own_network_ip(words));
    assert_true(has_change());
}

static unsigned table_len(void)
{
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(bench.context, 1, &port), 0);
    return (unsigned)port.gid_tbl_len;
}

// The last octet of an IPv4 GID; 0: an empty place.
static int host_at(int index)
{
    static const union ibv_gid none;
    union ibv_gid gid;
    assert_int_equal(ibv_query_gid(bench.context, 1, index, &gid), 0);
    return memcmp(&gid, &none, sizeof gid) == 0 ? 0 : gid.raw[15];
}

// What the host does in several steps is told in several.
static bool becomes(int index, int host)
{
    int i = 0;
    while (host_at(index) != host && i++ < TRIES_MAX) {
        usleep(TRY_US);
    }
    return host_at(index) == host;
}

static bool table_becomes(unsigned len)
{
    int i = 0;
    while (table_len() != len && i++ < TRIES_MAX) {
        usleep(TRY_US);
    }
    return table_len() == len;
}

static union ibv_gid gid_of(uint8_t first, uint8_t last)
{
    return (union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff, first, 9, 0, last}};
}

static struct ibv_ah *ah_to(uint8_t index, union ibv_gid gid)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
    attr.grh = (struct ibv_global_route){.dgid = gid, .sgid_index = index, .hop_limit = 64};
    return ibv_create_ah(bench.pd, &attr);
}

static void take_completion(struct ibv_wc *ret)
{
    int count = 0;
    for (int i = 0; count == 0 && i < TRIES_MAX; i++) {
        count = ibv_poll_cq(bench.cq, 1, ret);
        usleep(count == 0 ? TRY_US : 0);
    }
    assert_int_equal(count, 1);
    assert_int_equal(ret->status, IBV_WC_SUCCESS);
}

/* ---- before and behind each test ------------------------------------------------------------- */

// The device stays with its process, so all of its GIDs go before the one that a test begins with.
static int begin(void **state)
{
    struct pollfd ready = {.events = POLLIN};
    if (why_not != NULL) {
        return 0;
    }
    assert_true(own_network_ip("addr replace 10.9.0.1/24 dev one"));
    roce_init(&bench);
    assert_true(own_network_ip("addr flush dev one"));
    assert_true(becomes(0, 0));
    assert_true(own_network_ip("addr add 10.9.0.1/24 dev one"));
    assert_true(becomes(0, 1));
    ready.fd = bench.context->async_fd;
    while (poll(&ready, 1, 0) == 1) {
        assert_true(has_change());
    }
    return 0;
}

static int end(void **state)
{
    if (why_not == NULL) {
        bench_fini(&bench);
    }
    return 0;
}

/* ---- what is seen ---------------------------------------------------------------------------- */

static void an_address_that_comes_is_the_next_gid(void **state)
{
    struct ibv_gid_entry table[2];
    own_network_skip(why_not);
    assert_int_equal(table_len(), 1);
    change("addr add 10.9.0.2/24 dev one");
    assert_true(table_becomes(2));
    assert_int_equal(host_at(0), 1);
    assert_true(becomes(1, 2));
    assert_int_equal(ibv_query_gid_table(bench.context, table, 2, 0), 2);
    assert_int_equal(table[1].gid_index, 1);
    assert_int_equal(table[1].ndev_ifindex, if_nametoindex("one"));
}

// From this queue pair, to itself.
static void send_and_receive(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t remote_qpn)
{
    struct ibv_wc wc;
    roce_post_recv(&bench, qp, 1, 1024, ROCE_GRH_LEN + DATAGRAM_LEN);
    assert_int_equal(roce_ud_send(&bench, qp, ah, remote_qpn, ROCE_QKEY, DATAGRAM_LEN), 0);
    take_completion(&wc);
    take_completion(&wc);
}

static void a_datagram_to_the_address_that_came_arrives(void **state)
{
    own_network_skip(why_not);
    change("addr add 10.9.0.2/24 dev one");
    assert_true(becomes(1, 2));
    struct ibv_qp *qp = roce_ud_ready(&bench);
    struct ibv_ah *ah = ah_to(1, gid_of(10, 2));
    assert_non_null(ah);
    send_and_receive(qp, ah, qp->qp_num);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void a_group_is_joined_where_an_address_comes(void **state)
{
    const union ibv_gid group = gid_of(239, 7);
    own_network_skip(why_not);
    struct ibv_qp *qp = roce_ud_ready(&bench);
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
    change("addr flush dev one");
    assert_true(becomes(0, 0));
    change("addr add 10.9.0.3/24 dev one");
    assert_true(becomes(0, 3));
    struct ibv_ah *ah = ah_to(0, group);
    assert_non_null(ah);
    send_and_receive(qp, ah, 0xffffff);
    assert_int_equal(ibv_detach_mcast(qp, &group, 0), 0);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void a_group_is_left_where_no_address_is(void **state)
{
    const union ibv_gid group = gid_of(239, 7);
    own_network_skip(why_not);
    struct ibv_qp *qp = roce_ud_ready(&bench);
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
    change("addr flush dev one");
    assert_true(becomes(0, 0));
    assert_int_equal(ibv_detach_mcast(qp, &group, 0), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void an_address_that_goes_leaves_an_empty_place(void **state)
{
    struct ibv_gid_entry table[2], entry;
    own_network_skip(why_not);
    change("addr add 10.9.0.2/24 dev one");
    change("addr del 10.9.0.1/24 dev one"); // 10.9.0.2 is its secondary, and goes too
    assert_true(becomes(0, 0));
    assert_int_equal(ibv_query_gid_ex(bench.context, 1, 0, &entry, 0), ENODATA);
    errno = 0;
    assert_null(ah_to(0, gid_of(10, 2)));
    assert_int_equal(errno, EINVAL);
    assert_true(ibv_query_gid_table(bench.context, table, 2, 0) <= 1);
}

static void others_keep_their_places_beside_one_that_goes(void **state)
{
    own_network_skip(why_not);
    change("addr add 10.9.1.2/24 dev one");
    change("addr del 10.9.0.1/24 dev one");
    assert_true(becomes(0, 0));
    assert_int_equal(table_len(), 2);
    assert_int_equal(host_at(1), 2);
    change("addr add 10.9.2.3/24 dev one");
    assert_true(becomes(0, 3));
    assert_int_equal(table_len(), 2);
    assert_int_equal(host_at(1), 2);
}

static void the_last_that_goes_shortens_the_table(void **state)
{
    own_network_skip(why_not);
    change("addr add 10.9.1.2/24 dev one");
    assert_true(table_becomes(2));
    change("addr del 10.9.1.2/24 dev one");
    assert_true(table_becomes(1));
    assert_int_equal(host_at(0), 1);
}

static void an_interface_that_goes_down_takes_its_addresses_along(void **state)
{
    own_network_skip(why_not);
    change("link set one down");
    assert_true(becomes(0, 0));
    change("link set one up");
    assert_true(becomes(0, 1));
}

static void who_has_closed_the_device_is_told_nothing(void **state)
{
    own_network_skip(why_not);
    struct ibv_context *other = roce_open();
    assert_int_equal(ibv_close_device(other), 0);
    change("addr add 10.9.1.2/24 dev one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_address_that_comes_is_the_next_gid, begin, end),
        cmocka_unit_test_setup_teardown(a_datagram_to_the_address_that_came_arrives, begin, end),
        cmocka_unit_test_setup_teardown(a_group_is_joined_where_an_address_comes, begin, end),
        cmocka_unit_test_setup_teardown(a_group_is_left_where_no_address_is, begin, end),
        cmocka_unit_test_setup_teardown(an_address_that_goes_leaves_an_empty_place, begin, end),
        cmocka_unit_test_setup_teardown(others_keep_their_places_beside_one_that_goes, begin, end),
        cmocka_unit_test_setup_teardown(the_last_that_goes_shortens_the_table, begin, end),
        cmocka_unit_test_setup_teardown(an_interface_that_goes_down_takes_its_addresses_along,
                                        begin, end),
        cmocka_unit_test_setup_teardown(who_has_closed_the_device_is_told_nothing, begin, end),
    };
    enter_namespace();
    roce_port_of_own();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
