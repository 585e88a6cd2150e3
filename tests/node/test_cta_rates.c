// Rates of volumes: what a limited one gives, who waits for it, and who does not.

#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "tests/node/rig.h"

enum { KIB = 1 << 10, MIB = 1 << 20, REQUEST_MAX = 600, OTHER_VOLUME = 2 };

static void limit(struct rig *rig, uint64_t iops, uint64_t bps)
{
    cta_for_uma.rate_set(rig->cta, RIG_VOLUME, &(struct volume_rate){.iops = iops, .bps = bps});
}

// Reads of volumes come from their windows, so that nothing but the rate takes time.
static struct rig *limited_rig(uint64_t iops, uint64_t bps)
{
    struct rig *rig = rig_ready();
    for (uint32_t volume = RIG_VOLUME; volume <= OTHER_VOLUME; volume++) {
        cta_for_uma.window_set(rig->cta, volume, 7, RIG_VOLUME_LEN);
    }
    limit(rig, iops, bps);
    return rig;
}

static uint32_t connect(struct rig *rig, uint32_t number, uint32_t volume)
{
    struct client_route route = rig_route(rig, RIG_CONNECTION + number);
    route.volume = volume;
    cta_for_uma.route_add(rig->cta, &route);
    assert_int_equal(rig->route_status, CONNECT_OK);
    return route.connection;
}

static void read_some(struct rig *rig, struct service_request *reads, uint32_t connection,
                      unsigned count, uint32_t len)
{
    for (unsigned i = 0; i < count; i++) {
        reads[i] = rig_request(NODE_READ, 0, len);
        reads[i].connection = connection;
        rig_submit_request(rig, &reads[i]);
        rig->trace[0] = '\0';
    }
}

// Time goes on to the next deadline of the CTA; what may go then goes.
static void step(struct rig *rig)
{
    instant_ns at = cta_next_deadline(rig->cta);
    assert_true(at != INSTANT_NEVER);
    rig->now = at > rig->now ? at : rig->now;
    cta_on_deadline(rig->cta, rig->now);
    rig_run(rig);
    rig->trace[0] = '\0';
}

// How long it takes until so many transfers have been made.
static duration_ns time_to(struct rig *rig, unsigned transferred)
{
    instant_ns begin = rig->now;
    while (rig->transferred < transferred) {
        step(rig);
    }
    return rig->now - begin;
}

static void assert_about(duration_ns took, duration_ns expected)
{
    assert_in_range(took, expected - expected / 50, expected + expected / 50);
}

static uint64_t throttled(const struct rig *rig)
{
    return cta_volume_counters(rig->cta, 0)->throttled;
}

static void a_volume_gives_so_many_requests_a_second(void **state)
{
    struct rig *rig = limited_rig(100, 0);
    struct service_request reads[306];
    read_some(rig, reads, RIG_CONNECTION, 306, 4 * KIB);
    assert_int_equal(rig->transferred, 6); // 50 ms of the rate at once, and one
    assert_about(time_to(rig, 306), 3 * NS_PER_S);
    assert_int_equal(throttled(rig), 300);
    assert_int_equal(cta_volume_counters(rig->cta, 0)->waits, 0);
    rig_destroy(rig);
}

static void a_volume_gives_so_many_octets_a_second(void **state)
{
    struct rig *rig = limited_rig(0, MIB);
    struct service_request reads[64];
    read_some(rig, reads, RIG_CONNECTION, 33, 64 * KIB);
    assert_int_equal(rig->transferred, 1);
    assert_about(time_to(rig, 33), 2 * NS_PER_S - 50 * NS_PER_MS);
    rig_destroy(rig);
}

static void the_smaller_of_two_limits_counts(void **state)
{
    struct rig *rig = limited_rig(1000, MIB);
    struct service_request small[REQUEST_MAX], large[17];
    read_some(rig, small, RIG_CONNECTION, 551, 512);
    assert_about(time_to(rig, 551), 500 * NS_PER_MS); // of which the octets are a quarter
    rig->now += 10 * NS_PER_S;
    read_some(rig, large, RIG_CONNECTION, 17, 64 * KIB);
    assert_about(time_to(rig, 551 + 17), 950 * NS_PER_MS);
    rig_destroy(rig);
}

// What is not used is not saved beyond the burst.
static void a_rest_is_worth_no_more_than_the_burst(void **state)
{
    struct rig *rig = limited_rig(100, 0);
    struct service_request reads[20];
    rig->now += 3600 * NS_PER_S;
    read_some(rig, reads, RIG_CONNECTION, 20, 512);
    assert_int_equal(rig->transferred, 6);
    time_to(rig, 20);
    rig_destroy(rig);
}

static void one_request_goes_however_large(void **state)
{
    struct rig *rig = limited_rig(0, KIB);
    struct service_request reads[2];
    read_some(rig, reads, RIG_CONNECTION, 2, 64 * KIB);
    assert_int_equal(rig->transferred, 1);
    assert_about(time_to(rig, 2), 64 * NS_PER_S);
    rig_destroy(rig);
}

static void other_volumes_do_not_wait(void **state)
{
    struct rig *rig = limited_rig(10, 0);
    struct service_request slow[100], fast[100];
    uint32_t other = connect(rig, 1, OTHER_VOLUME);
    read_some(rig, slow, RIG_CONNECTION, 100, 4 * KIB);
    assert_int_equal(rig->transferred, 1);
    read_some(rig, fast, other, 100, 4 * KIB);
    assert_int_equal(rig->transferred, 101);
    time_to(rig, 200);
    rig_destroy(rig);
}

static unsigned count_answered(const struct service_request *reads, unsigned count)
{
    unsigned answered = 0;
    for (unsigned i = 0; i < count; i++) {
        answered += reads[i].transaction != 0;
    }
    return answered;
}

static void connections_of_a_volume_take_turns(void **state)
{
    struct rig *rig = limited_rig(100, 0);
    struct service_request many[200], few[20];
    uint32_t other = connect(rig, 1, RIG_VOLUME);
    read_some(rig, many, RIG_CONNECTION, 200, 512);
    read_some(rig, few, other, 20, 512);
    assert_int_equal(count_answered(few, 20), 0);
    time_to(rig, 6 + 40);
    assert_in_range(count_answered(few, 20), 19, 20);
    time_to(rig, 220);
    rig_destroy(rig);
}

// Who comes when there is something again gets behind who has waited.
static void who_waits_for_the_rate_is_not_overtaken(void **state)
{
    struct rig *rig = limited_rig(1000, 0);
    struct service_request first[60], late[10];
    uint32_t other = connect(rig, 1, RIG_VOLUME);
    read_some(rig, first, RIG_CONNECTION, 52, 512);
    assert_int_equal(rig->transferred, 51);
    rig->now += 2 * NS_PER_MS; // enough for two
    read_some(rig, late, other, 1, 512);
    assert_int_equal(count_answered(late, 1), 0);
    rig_run(rig);
    assert_int_equal(count_answered(first, 52), 52);
    time_to(rig, 53);
    rig_destroy(rig);
}

static void a_new_rate_counts_for_those_who_wait(void **state)
{
    struct rig *rig = limited_rig(1, 0);
    struct service_request reads[100];
    read_some(rig, reads, RIG_CONNECTION, 100, 512);
    assert_int_equal(rig->transferred, 1);
    limit(rig, 1000, 0);
    rig_run(rig);
    assert_int_equal(rig->transferred, 1 + 51);
    limit(rig, 0, 0);
    rig_run(rig);
    assert_int_equal(rig->transferred, 100);
    rig_destroy(rig);
}

// Nobody is woken more often than once in a millisecond, and all that is due goes then.
static void those_who_wait_go_in_batches(void **state)
{
    struct rig *rig = limited_rig(100000, 0);
    static struct service_request reads[8 * KIB];
    unsigned steps = 0;
    read_some(rig, reads, RIG_CONNECTION, 8 * KIB, 512);
    unsigned before = rig->transferred;
    for (; rig->transferred < 8 * KIB; steps++) {
        step(rig);
    }
    assert_in_range(steps, 1, (8 * KIB - before) / 100 + 1);
    rig_destroy(rig);
}

static void a_deadline_ends_those_who_wait(void **state)
{
    struct rig *rig = limited_rig(1, 0);
    struct service_request reads[2];
    read_some(rig, reads, RIG_CONNECTION, 1, 512);
    reads[1] = rig_request(NODE_READ, 0, 512);
    reads[1].deadline = rig->now + 200 * NS_PER_MS;
    rig_submit_request(rig, &reads[1]);
    while (rig->completed == 0) {
        step(rig);
    }
    assert_int_equal(rig->last_completion, NODE_TIMED_OUT);
    assert_in_range(rig->now, 200 * NS_PER_MS, 300 * NS_PER_MS);
    rig_destroy(rig);
}

static void a_volume_that_is_gone_ends_those_who_wait(void **state)
{
    struct rig *rig = limited_rig(1, 0);
    struct service_request reads[10];
    read_some(rig, reads, RIG_CONNECTION, 10, 512);
    cta_for_uma.route_fail(rig->cta, RIG_CONNECTION, rig->now);
    assert_int_equal(rig->completed, 9);
    assert_int_equal(rig->last_completion, NODE_NO_VOLUME);
    cta_for_uma.route_remove(rig->cta, RIG_CONNECTION);
    cta_for_uma.volume_remove(rig->cta, RIG_VOLUME);
    rig_run(rig);
    assert_true(cta_next_deadline(rig->cta) > rig->now);
    rig_destroy(rig);
}

static void who_has_left_waits_no_more(void **state)
{
    struct rig *rig = limited_rig(1, 0);
    struct service_request reads[10], late, other;
    const uint32_t beside = connect(rig, 1, RIG_VOLUME);
    read_some(rig, reads, RIG_CONNECTION, 10, 512);
    cta_for_tts.leave(rig->cta, RIG_CONNECTION, rig->now);
    assert_int_equal(rig->completed, 9);
    assert_int_equal(rig->last_completion, NODE_TRANSFER);
    read_some(rig, &late, RIG_CONNECTION, 1, 512);
    assert_int_equal(rig->completed, 10);
    read_some(rig, &other, beside, 1, 512); // has its turn as if nobody else had asked
    assert_in_range(time_to(rig, 2), 900 * NS_PER_MS, NS_PER_S);
    assert_int_equal(rig->completed, 10);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_volume_gives_so_many_requests_a_second),
        cmocka_unit_test(a_volume_gives_so_many_octets_a_second),
        cmocka_unit_test(the_smaller_of_two_limits_counts),
        cmocka_unit_test(a_rest_is_worth_no_more_than_the_burst),
        cmocka_unit_test(one_request_goes_however_large),
        cmocka_unit_test(other_volumes_do_not_wait),
        cmocka_unit_test(connections_of_a_volume_take_turns),
        cmocka_unit_test(who_waits_for_the_rate_is_not_overtaken),
        cmocka_unit_test(a_new_rate_counts_for_those_who_wait),
        cmocka_unit_test(those_who_wait_go_in_batches),
        cmocka_unit_test(a_deadline_ends_those_who_wait),
        cmocka_unit_test(a_volume_that_is_gone_ends_those_who_wait),
        cmocka_unit_test(who_has_left_waits_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
