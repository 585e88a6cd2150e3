// What is left to be said for a process that ends without a word, and what it says if it ends in
// order.
#include "tests/ibcm/net.h"

enum { PLACES = 64 };

static struct net net;
#define A (&net.hosts[0])
#define B (&net.hosts[1])

// By host and place.
static struct {
    bool is_there;
    struct ibcm_ends ends;
    uint8_t mad[MAD_LEN];
} wills[NET_HOSTS][PLACES];

static void bequeath(void *ctx, uint32_t place, const struct ibcm_ends *ends, const uint8_t *mad)
{
    const size_t host = (size_t)((struct net_host *)ctx - net.hosts);
    assert_true(place < PLACES);
    assert_false(wills[host][place].is_there);
    wills[host][place].is_there = true;
    wills[host][place].ends = *ends;
    memcpy(wills[host][place].mad, mad, MAD_LEN);
}

static void revoke(void *ctx, uint32_t place)
{
    const size_t host = (size_t)((struct net_host *)ctx - net.hosts);
    assert_true(wills[host][place].is_there);
    wills[host][place].is_there = false;
}

static unsigned left_by(unsigned host)
{
    unsigned count = 0;
    for (unsigned place = 0; place < PLACES; place++) {
        count += wills[host][place].is_there;
    }
    return count;
}

// As somebody else of its host would.
static void send_will(unsigned host)
{
    for (unsigned place = 0; place < PLACES; place++) {
        const struct ibcm_ends *ends = &wills[host][place].ends;
        const struct ibcm_ends theirs = {.local = ends->remote, .remote = ends->local};
        if (wills[host][place].is_there) {
            net_deliver(&net, &theirs, wills[host][place].mad);
        }
    }
}

static int set_up(void **state)
{
    struct ibcm_config c = net_config();
    memset(wills, 0, sizeof wills);
    c.will = (struct ibcm_will){.bequeath = bequeath, .revoke = revoke};
    net_init_with(&net, 1, &c);
    return 0;
}

static int tear_down(void **state)
{
    net_fini(&net);
    return 0;
}

static void what_either_end_leaves_ends_the_connection_at_the_other(void **state)
{
    for (unsigned dead = 0; dead < 2; dead++) {
        net_connect(&net, 0, 1);
        net_exchange(&net);
        assert_int_equal(left_by(0), 1);
        assert_int_equal(left_by(1), 1);
        send_will(dead);
        assert_int_equal(net.hosts[1 - dead].count[IBCM_EVENT_DISCONNECTED], 1);
        assert_int_equal(left_by(1 - dead), 0);
        tear_down(state);
        set_up(state);
    }
}

static void before_it_is_accepted_and_when_it_is_over_nothing_is_left(void **state)
{
    B->answer = NET_WAITS;
    net_connect(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(left_by(0) + left_by(1), 0);
    assert_int_equal(ibcm_accept(B->ibcm, B->conn, &B->params, net.now), 0);
    assert_int_equal(left_by(1), 1);
    net_exchange(&net);
    assert_int_equal(left_by(0), 1);
    ibcm_disconnect(A->ibcm, A->conn, net.now);
    assert_int_equal(left_by(0), 1); // until the DREQ is answered
    net_exchange(&net);
    assert_int_equal(left_by(0) + left_by(1), 0);
}

static void whose_dreq_was_lost_leaves_it_to_be_said_again(void **state)
{
    net_connect(&net, 0, 1);
    net_exchange(&net);
    net.lost_kind = IBCM_DREQ;
    net.lost_count = 1;
    ibcm_disconnect(A->ibcm, A->conn, net.now);
    net_exchange(&net);
    assert_int_equal(B->count[IBCM_EVENT_DISCONNECTED], 0);
    send_will(0);
    assert_int_equal(B->count[IBCM_EVENT_DISCONNECTED], 1);
}

static void a_port_of_datagrams_leaves_nothing(void **state)
{
    net_resolve(&net, 0, 1);
    net_exchange(&net);
    assert_int_equal(A->count[IBCM_EVENT_ESTABLISHED], 1);
    assert_int_equal(left_by(0) + left_by(1), 0);
}

static void who_ends_in_order_tells_each_peer_and_leaves_nothing(void **state)
{
    net_connect(&net, 0, 1);
    net_connect(&net, 0, 2);
    net_exchange(&net);
    assert_int_equal(left_by(0), 2);
    assert_false(ibcm_is_disconnecting(A->ibcm));
    ibcm_disconnect_all(A->ibcm, net.now);
    assert_true(ibcm_is_disconnecting(A->ibcm));
    assert_int_equal(net.sent[IBCM_DREQ], 2);
    net_exchange(&net);
    assert_int_equal(left_by(0), 0);
    assert_false(ibcm_is_disconnecting(A->ibcm));
    assert_int_equal(B->count[IBCM_EVENT_DISCONNECTED], 1);
    assert_int_equal(net.hosts[2].count[IBCM_EVENT_DISCONNECTED], 1);
}

// There is no time for the peer's: 1.6 s.
static void who_ends_in_order_says_so_again_at_once(void **state)
{
    enum { LOST = 5, WITHIN_MS = 500 };
    for (unsigned said_before = 0; said_before < 2; said_before++) {
        net_connect(&net, 0, 1);
        net_exchange(&net);
        net.lost_kind = IBCM_DREQ;
        net.lost_count = LOST;
        if (said_before) { // by the program, and nobody has heard it
            ibcm_disconnect(A->ibcm, A->conn, net.now);
        }
        ibcm_disconnect_all(A->ibcm, net.now);
        net_run_for(&net, WITHIN_MS * NS_PER_MS);
        assert_int_equal(net.sent[IBCM_DREQ], LOST + 1);
        assert_int_equal(B->count[IBCM_EVENT_DISCONNECTED], 1);
        assert_false(ibcm_is_disconnecting(A->ibcm));
        assert_int_equal(ibcm_counters(A->ibcm)->repeats, LOST);
        tear_down(state);
        set_up(state);
    }
}

// Each repeat is a few milliseconds behind the last, and what is lost meanwhile is not heard.
static void who_ends_in_order_does_so_however_few_repeats_the_peer_has_asked_for(void **state)
{
    enum { LOST = 3, WITHIN_MS = 500 };
    struct ibcm_config c = net_config();
    c.max_cm_retries = 0;
    tear_down(state);
    net_init_with(&net, 1, &c);
    net_connect(&net, 0, 1);
    net_exchange(&net);
    net.lost_kind = IBCM_DREQ;
    net.lost_count = LOST;
    ibcm_disconnect_all(B->ibcm, net.now);
    net_run_for(&net, WITHIN_MS * NS_PER_MS);
    assert_int_equal(net.sent[IBCM_DREQ], LOST + 1);
    assert_int_equal(A->count[IBCM_EVENT_DISCONNECTED], 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_either_end_leaves_ends_the_connection_at_the_other),
        TEST(before_it_is_accepted_and_when_it_is_over_nothing_is_left),
        TEST(a_port_of_datagrams_leaves_nothing),
        TEST(whose_dreq_was_lost_leaves_it_to_be_said_again),
        TEST(who_ends_in_order_tells_each_peer_and_leaves_nothing),
        TEST(who_ends_in_order_says_so_again_at_once),
        TEST(who_ends_in_order_does_so_however_few_repeats_the_peer_has_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
