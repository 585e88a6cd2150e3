// How octets are stored into a ring: past the caches or through them, whichever is faster here.
// Both ends are of this process, and the clock is the test's.
#include <stdlib.h>

#include "tests/link/local_loop.h"

enum { PIECE_LEN = 32 * 1024, PIECES_MAX = 10000 };

static uint8_t sent[PIECE_LEN], got[PIECE_LEN];
static instant_ns now_ns;

static instant_ns clock_of_test(void *ctx)
{
    (void)ctx;
    return now_ns;
}

static const struct link_local_config config = {.ring_len = 64 * 1024, .clock = clock_of_test};

static int begin(void **state)
{
    now_ns = 1;
    descriptors_note();
    local_link_open(&config);
    local_loop_open();
    return 0;
}

// A piece crosses, in this time.
static void cross(unsigned i, duration_ns far_ns, duration_ns near_ns)
{
    const struct iovec iov = {.iov_base = sent, .iov_len = PIECE_LEN};
    const struct link_tx tx = {.iov = &iov, .iov_count = 1};
    sent[i % PIECE_LEN]++;
    assert_int_equal(the_link->ops->send(l.active, &tx), PIECE_LEN);
    assert_int_equal(the_link->ops->recv(l.passive, mspan_of(got, PIECE_LEN)), PIECE_LEN);
    assert_memory_equal(got, sent, PIECE_LEN);
    now_ns += local_stream_of(l.active)->tx.is_near ? near_ns : far_ns;
}

static void octets_go_through_the_caches_where_that_is_faster(void **state)
{
    for (unsigned i = 0; i < PIECES_MAX && counters()->stores_changed == 0; i++) {
        cross(i, 4000, 2000);
    }
    assert_int_equal(counters()->stores_changed, 1);
    const uint64_t near_octets = counters()->near_octets, far_octets = counters()->far_octets;
    cross(0, 4000, 2000);
    assert_int_equal(counters()->near_octets - near_octets, PIECE_LEN);
    assert_int_equal(counters()->far_octets, far_octets);
}

static void octets_go_past_the_caches_where_that_is_faster(void **state)
{
    for (unsigned i = 0; i < PIECES_MAX; i++) {
        cross(i, 2000, 4000);
    }
    assert_int_equal(counters()->stores_changed, 0);
    assert_true(counters()->near_octets > 0);
    assert_true(counters()->near_octets < counters()->far_octets / 8);
}

#define STORES_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORES_TEST(octets_go_through_the_caches_where_that_is_faster),
        STORES_TEST(octets_go_past_the_caches_where_that_is_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
