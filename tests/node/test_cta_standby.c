// What becomes of requests for a volume that another node serves, or may.

#include <stdint.h>

#include "tests/node/rig.h"

enum { BLOCK = 4096 };

static void stand_by(struct rig *rig, bool stands_by)
{
    cta_for_uma.standby_set(rig->cta, RIG_VOLUME, stands_by, rig->now);
}

static uint64_t lent_len(const struct rig *rig)
{
    struct cta_unit_counters counters;
    assert_true(cta_unit_counters(rig->cta, RIG_UNIT, &counters));
    return counters.lent_len;
}

// Its process is gone; another node may have the device from then on.
static void lose(struct rig *rig)
{
    rig_rta_kill(rig);
    stand_by(rig, true);
}

// It is ours again: the fence has passed.
static void come_back(struct rig *rig)
{
    rig_rta_start(rig);
    stand_by(rig, false);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    rig_run(rig);
}

static void requests_end_at_the_door(void **unused)
{
    struct rig *rig = rig_ready();
    struct service_request read = rig_request(NODE_READ, 0, BLOCK);
    struct service_request flush = rig_request(NODE_FLUSH, 0, 0);
    stand_by(rig, true);
    rig_submit_request(rig, &read);
    assert_int_equal(read.completion, NODE_STANDBY);
    rig_submit_request(rig, &flush);
    assert_int_equal(flush.completion, NODE_STANDBY);
    stand_by(rig, false);
    rig_submit_request(rig, &read);
    rig_run(rig);
    assert_int_equal(rig->last_completion, NODE_STANDBY);
    assert_int_equal(rig->transferred, 1);
    rig_destroy(rig);
}

static void what_was_sent_is_never_sent_again(void **unused)
{
    struct rig *rig = rig_ready();
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK);
    rig->holds = true;
    rig_submit_request(rig, &write);
    rig_run(rig);
    assert_int_equal(rig->held_count, 1);
    lose(rig);
    assert_int_equal(rig->completed, 1);
    assert_int_equal(write.completion, NODE_STANDBY);
    rig->holds = false;
    memset(rig->volume, 0x5a, BLOCK); // another node's
    rig->trace[0] = '\0';
    come_back(rig);
    assert_null(strstr(rig->trace, "DDM"));
    assert_int_equal(rig->volume[0], 0x5a);
    assert_int_equal(rig->completed, 1);
    rig_destroy(rig);
}

// A device that a lost process had may still write into its buffers.
static void buffers_stay_lent_until_the_fence_has_passed(void **unused)
{
    struct rig *rig = rig_ready();
    struct service_request read = rig_request(NODE_READ, 0, BLOCK);
    rig->holds = true;
    rig_submit_request(rig, &read);
    rig_run(rig);
    lose(rig);
    assert_int_equal(read.completion, NODE_STANDBY);
    assert_int_equal(lent_len(rig), BLOCK);
    rig->holds = false;
    come_back(rig);
    assert_int_equal(lent_len(rig), 0);
    rig_destroy(rig);
}

static void data_that_come_late_are_written_by_nobody(void **unused)
{
    struct rig *rig = rig_ready();
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK);
    rig->is_slow = true;
    rig_submit_request(rig, &write);
    lose(rig);
    come_back(rig); // ours once more, but another node may have had it in between
    assert_int_equal(rig->completed, 0);
    memset(write.data, 1, BLOCK);
    cta_for_tts.transferred(rig->cta, &write, NODE_OK, rig->now);
    rig_run(rig);
    assert_int_equal(rig->completed, 1);
    assert_int_equal(write.completion, NODE_STANDBY);
    assert_int_equal(rig->volume[0], 0);
    rig_destroy(rig);
}

static void who_waits_for_a_buffer_waits_no_more(void **unused)
{
    struct rig *rig = rig_ready();
    struct service_request first = rig_request(NODE_READ, 0, BLOCK), second = first;
    struct volume_rate slow = {.iops = 1};
    cta_for_uma.rate_set(rig->cta, RIG_VOLUME, &slow);
    rig_submit_request(rig, &first);
    rig_run(rig);
    rig_submit_request(rig, &second);
    assert_int_equal(rig->completed, 0); // one a second
    stand_by(rig, true);
    assert_int_equal(rig->completed, 1);
    assert_int_equal(second.completion, NODE_STANDBY);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_end_at_the_door),
        cmocka_unit_test(what_was_sent_is_never_sent_again),
        cmocka_unit_test(buffers_stay_lent_until_the_fence_has_passed),
        cmocka_unit_test(data_that_come_late_are_written_by_nobody),
        cmocka_unit_test(who_waits_for_a_buffer_waits_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
