// Whom a device believes that an FPDU begins where a segment does: what two devices place beyond
// holes, over a wire that loses packets.
#include "rnic/ep/ep.h"
#include "tests/sim/crowd.h"

enum { READS = 60, READ_LEN = 40000, ALLOTMENT = 8192 };

// FPDUs placed beyond holes: at the end that reads and connected, at the one that answers.
struct placed {
    uint64_t at_initiator, at_responder;
};

static struct placed read_over_a_bad_path(bool extensions, bool markers)
{
    struct crowd_options o = {
        .count = 1,
        .nic = {crowd_config(16, ALLOTMENT), crowd_config(16, ALLOTMENT)},
        .is_lossy = true,
        .seed = 7,
    };
    o.nic[0].extensions = extensions;
    o.nic[0].markers = o.nic[1].markers = markers;
    struct crowd *c = crowd_open(&o);
    for (unsigned i = 0; i < READS; i++) {
        crowd_read(c, 0, READ_LEN);
        while (crowd_is_reading(c, 0)) {
            assert_true(crowd_step(c));
        }
    }
    assert_int_equal(c->end[0][0].completed, READS); // its octets were compared
    struct placed placed = {c->end[0][0].ep->in.placer.counters.early_fpdus,
                            c->end[1][0].ep->in.placer.counters.early_fpdus};
    uint64_t buffered = c->end[0][0].ep->in.placer.counters.early_buffered;
    assert_true(placed.at_initiator > 0 || buffered > 0);
    crowd_close(c);
    return placed;
}

static void between_weft_ends_the_start_of_a_segment_is_believed(void **state)
{
    assert_true(read_over_a_bad_path(true, false).at_initiator > 0);
}

static void a_foreign_peers_segments_are_not_believed(void **state)
{
    struct placed placed = read_over_a_bad_path(false, false);
    assert_int_equal(placed.at_initiator, 0);
    assert_int_equal(placed.at_responder, 0);
}

static void a_foreign_peers_markers_are_believed(void **state)
{
    assert_true(read_over_a_bad_path(false, true).at_initiator > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_weft_ends_the_start_of_a_segment_is_believed),
        cmocka_unit_test(a_foreign_peers_segments_are_not_believed),
        cmocka_unit_test(a_foreign_peers_markers_are_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
