// The reads of a device over packets as a whole: what changes its allotment reaches the queue pairs
// there are, and what was counted stays when they have gone.
#include "rnic/internal.h"
#include "rnic/reads.h"
#include "tests/rnic/json.h"
#include "tests/rnic/packet_world.h"
#include "wq/status.h"

enum { LEN = 32 * 1024, SMALL = 4096, ROUND_TRIP_PACKETS = 16 };

static const struct datagram_net_config clean = {0};

static struct report_reads reads(void)
{
    return rnic_reads(w.devices[0].rnic);
}

static void read_once(void)
{
    world_post(0, WQE_RDMA_READ, 0, LEN, LEN);
    assert_int_equal(world_completion(0).status, WC_SUCCESS);
    assert_memory_equal(w.devices[0].buf, w.devices[1].buf + LEN, LEN);
}

static void a_command_reaches_the_queue_pairs_there_are(void **state)
{
    world_open_pair(RNIC_QP_RC, &clean);
    world_fill(w.devices[1].buf, DEVICE_BUF_LEN);
    rnic_reads_set_allotment(w.devices[0].rnic, SMALL);
    assert_int_equal(reads().connection_count, 1);
    assert_int_equal(reads().in_force_min_len, SMALL);
    assert_int_equal(reads().in_force_max_len, SMALL);
    read_once();
    assert_int_equal(reads().counters.first_requests, 1);
    assert_int_equal(reads().counters.subsidiary_requests, LEN / SMALL - 1);
    rnic_reads_release_allotment(w.devices[0].rnic);
    assert_int_equal(reads().in_force_min_len, ROUND_TRIP_PACKETS * WORLD_MTU); // as the window is
    world_close();
}

static void memory_that_is_short_reaches_them_too(void **state)
{
    world_open_pair(RNIC_QP_RC, &clean);
    rnic_reads_set_allotment(w.devices[0].rnic, 2 * SMALL * 2);
    rnic_reads_set_memory(w.devices[0].rnic, RNIC_MEMORY_SENSED, true);
    assert_int_equal(reads().in_force_max_len, SMALL);
    rnic_reads_set_memory(w.devices[0].rnic, RNIC_MEMORY_SENSED, false);
    assert_int_equal(reads().in_force_max_len, 4 * SMALL);
    world_close();
}

static void a_queue_pair_that_reads_nothing_has_no_allotment_in_force(void **state)
{
    world_open_pair(RNIC_QP_UD, &clean);
    assert_int_equal(reads().connection_count, 0);
    world_close();
}

static void what_was_counted_outlives_the_queue_pair(void **state)
{
    world_open_pair(RNIC_QP_RC, &clean);
    rnic_reads_set_allotment(w.devices[0].rnic, SMALL);
    read_once();
    for (unsigned i = 0; i < 2; i++) {
        rnic_qp_destroy(w.qps[i]);
    }
    assert_int_equal(reads().connection_count, 0);
    assert_int_equal(reads().counters.subsidiary_requests, LEN / SMALL - 1);
    assert_int_equal(device_count(&w.devices[0], "allotment_changes"), 1);
    for (unsigned i = 0; i < 2; i++) {
        w.qps[i] = world_qp(&w.devices[i], RNIC_QP_UD);
    }
    world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_reaches_the_queue_pairs_there_are),
        cmocka_unit_test(memory_that_is_short_reaches_them_too),
        cmocka_unit_test(a_queue_pair_that_reads_nothing_has_no_allotment_in_force),
        cmocka_unit_test(what_was_counted_outlives_the_queue_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
