// The exchange between TTS, CTA, RTA and DDM, message by message.

#include <stddef.h>
#include <stdint.h>

#include "tests/node/rig.h"

static void a_read_moves_through_all_four(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request read = rig_request(NODE_READ, 4096, 512);
    memset(rig->volume + 4096, 7, 512);
    rig_submit_request(rig, &read);
    rig_run(rig);
    assert_string_equal(rig->trace, "TTS>CTA submit read\n"
                                    "CTA>RTA request\n"
                                    "RTA>DDM read\n"
                                    "RTA>CTA result\n" // the callback: the buffer holds the data
                                    "CTA>TTS transfer\n"
                                    "TTS>CTA transferred\n"
                                    "CTA>RTA completion\n" // only now the RTA releases the buffer
                                    "RTA>CTA ack\n");
    assert_memory_equal(read.data, rig->volume + 4096, 512);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

static void a_write_is_the_mirror(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request write = rig_request(NODE_WRITE, 4096, 512);
    rig->is_slow = true;
    rig_submit_request(rig, &write);
    rig_run(rig);
    assert_int_equal(rig->transfer_count, 1);
    memset(write.data, 9, 512); // the TTS has the client's data
    rig_note(rig, "TTS>CTA transferred\n");
    cta_for_tts.transferred(rig->cta, &write, NODE_OK, rig->now);
    rig_run(rig);
    assert_string_equal(rig->trace, "TTS>CTA submit write\n"
                                    "CTA>TTS transfer\n"
                                    "TTS>CTA transferred\n"
                                    "CTA>RTA request\n"
                                    "RTA>DDM write\n"
                                    "RTA>CTA result\n"
                                    "CTA>TTS complete ok\n"
                                    "CTA>RTA completion\n"
                                    "RTA>CTA ack\n");
    assert_int_equal(rig->volume[4096], 9);
    assert_int_equal(rig->volume[4096 + 512], 0);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

static void a_buffer_stays_lent_until_the_completion_is_acknowledged(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request read = rig_request(NODE_READ, 0, 4096);
    rig->is_slow = true;
    rig_submit_request(rig, &read);
    rig_run(rig);
    assert_int_equal(rta_under_way(rig->rta), 1);
    assert_int_equal(cta_pool_taken_len(rig->cta), 4096);
    cta_for_tts.transferred(rig->cta, &read, NODE_OK, rig->now);
    cta_flush(rig->cta, rig->now);
    assert_int_equal(cta_pool_taken_len(rig->cta), 4096);
    rig_run(rig);
    assert_int_equal(rta_under_way(rig->rta), 0);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

static void an_rta_is_awaited_until_it_answers(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request read = rig_request(NODE_READ, 0, 4096);
    rig->is_slow = true;
    assert_false(cta_awaits_unit(rig->cta, RIG_UNIT));
    rig_submit_request(rig, &read);
    cta_flush(rig->cta, rig->now);
    assert_true(cta_awaits_unit(rig->cta, RIG_UNIT));
    rig_run(rig); // what is left is the client's
    assert_false(cta_awaits_unit(rig->cta, RIG_UNIT));
    assert_int_equal(rta_under_way(rig->rta), 1);
    cta_for_tts.transferred(rig->cta, &read, NODE_OK, rig->now);
    rig_destroy(rig);
}

static void a_flush_has_no_data(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request flush = rig_request(NODE_FLUSH, 0, 0);
    rig_submit_request(rig, &flush);
    rig_run(rig);
    assert_string_equal(rig->trace, "TTS>CTA submit flush\n"
                                    "CTA>RTA request\n"
                                    "RTA>DDM flush\n"
                                    "RTA>CTA result\n"
                                    "CTA>TTS complete ok\n"
                                    "CTA>RTA completion\n"
                                    "RTA>CTA ack\n");
    rig_destroy(rig);
}

static void an_rta_tells_what_its_volume_is(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request profile = rig_request(NODE_PROFILE, 0, 0);
    profile.data_len = sizeof(struct volume_profile);
    rig_submit_request(rig, &profile);
    rig_run(rig);
    struct volume_profile found;
    memcpy(&found, profile.data, sizeof found);
    assert_int_equal(found.size, RIG_VOLUME_LEN);
    assert_int_equal(profile.buffer.len, sizeof found);
    rig_destroy(rig);
}

// Thousands of requests over a bus that loses and repeats: each is carried out once, as if it were
// alone in its place.
static void a_bad_bus_costs_time_only(void **state)
{
    enum { COUNT = 64, BLOCK = 4096 };
    struct rig *rig = rig_ready();
    struct service_request requests[COUNT];
    uint8_t expected[COUNT] = {0};
    unsigned rounds = getenv("WEFT_SOAK") != NULL ? 500 : 20;
    rig->bus.lose = rig->bus.repeat = 10;
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < COUNT; i++) {
            requests[i] = rig_request(NODE_WRITE, (uint64_t)i * BLOCK, BLOCK);
            rig->is_slow = true;
            rig_submit_request(rig, &requests[i]);
            expected[i] = (uint8_t)(round + i);
            memset(requests[i].data, expected[i], BLOCK);
            cta_for_tts.transferred(rig->cta, &requests[i], NODE_OK, rig->now);
        }
        rig->completed = rig->transfer_count = 0;
        while (rig->completed < COUNT || cta_pool_taken_len(rig->cta) > 0) {
            rig_run(rig);
            rig->now += 250 * NS_PER_MS;
            cta_on_deadline(rig->cta, rig->now);
            assert_true(rta_on_deadline(rig->rta, rig->now));
            rig->trace[0] = '\0';
        }
        for (unsigned i = 0; i < COUNT; i++) {
            assert_int_equal(rig->volume[i * BLOCK], expected[i]);
            assert_int_equal(rig->volume[i * BLOCK + BLOCK - 1], expected[i]);
        }
    }
    struct cta_unit_counters counters;
    assert_true(cta_unit_counters(rig->cta, RIG_UNIT, &counters));
    assert_int_equal(counters.requests, COUNT * rounds);
    assert_int_equal(counters.results, COUNT * rounds);
    assert_true(counters.retransmissions > 0 && counters.duplicates > 0);
    assert_int_equal(rta_under_way(rig->rta), 0);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_moves_through_all_four),
        cmocka_unit_test(a_write_is_the_mirror),
        cmocka_unit_test(a_buffer_stays_lent_until_the_completion_is_acknowledged),
        cmocka_unit_test(an_rta_is_awaited_until_it_answers),
        cmocka_unit_test(a_flush_has_no_data),
        cmocka_unit_test(an_rta_tells_what_its_volume_is),
        cmocka_unit_test(a_bad_bus_costs_time_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
