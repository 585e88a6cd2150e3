// The common transport agent: routes, buffers, replay, and what a hostile RTA may say.

#include <stddef.h>
#include <stdint.h>

#include "tests/node/rig.h"

enum { BLOCK = 4096 };

static struct cta_unit_counters counters_of(const struct rig *rig)
{
    struct cta_unit_counters counters;
    assert_true(cta_unit_counters(rig->cta, RIG_UNIT, &counters));
    return counters;
}

/* ---- replay ---------------------------------------------------------------------------------- */

static void what_was_not_answered_is_sent_again(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK);
    struct service_request read = rig_request(NODE_READ, 8 * BLOCK, BLOCK);
    rig->holds = true;
    rig_submit_request(rig, &write);
    rig_submit_request(rig, &read);
    rig_run(rig);
    assert_int_equal(rig->held_count, 2);
    rig_rta_kill(rig);
    rig_run(rig);
    assert_int_equal(rig->completed + rig->transferred, 1); // the write's own transfer
    rig->holds = false;
    rig_rta_start(rig);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    rig_run(rig);
    assert_int_equal(rig->completed, 1);
    assert_int_equal(rig->transferred, 2);
    assert_int_equal(counters_of(rig).replays, 2);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

static void nothing_is_sent_before_the_unit_is_ready(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request flush = rig_request(NODE_FLUSH, 0, 0);
    rig_rta_kill(rig);
    rig->trace[0] = '\0';
    rig_submit_request(rig, &flush);
    rig_run(rig);
    assert_string_equal(rig->trace, "TTS>CTA submit flush\n");
    rig_rta_start(rig);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    rig_run(rig);
    assert_int_equal(rig->completed, 1);
    rig_destroy(rig);
}

static void overlapping_replays_go_one_after_the_other(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request writes[3] = {rig_request(NODE_WRITE, 0, 2 * BLOCK),
                                        rig_request(NODE_WRITE, BLOCK, 2 * BLOCK),
                                        rig_request(NODE_WRITE, 8 * BLOCK, BLOCK)};
    rig->holds = true;
    for (unsigned i = 0; i < 3; i++) {
        rig_submit_request(rig, &writes[i]);
    }
    rig_run(rig);
    assert_int_equal(rig->held_count, 3); // at first nobody orders them
    rig_rta_kill(rig);
    rig_rta_start(rig);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    rig_run(rig);
    assert_int_equal(rig->held_count, 2);
    assert_int_equal(rig->held[0]->offset, 0);
    assert_int_equal(rig->held[1]->offset, 8 * BLOCK);
    rig_release(rig, 0);
    rta_on_bus(rig->rta, rig->now);
    rig_run(rig);
    assert_int_equal(rig->held[1]->offset, BLOCK);
    rig_destroy(rig);
}

static void a_new_request_waits_for_the_replay_that_it_overlaps(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request old = rig_request(NODE_WRITE, 0, BLOCK);
    struct service_request over = rig_request(NODE_READ, 0, BLOCK);
    struct service_request beside = rig_request(NODE_READ, BLOCK, BLOCK);
    rig->holds = true;
    rig_submit_request(rig, &old);
    rig_run(rig);
    rig_rta_kill(rig);
    rig_submit_request(rig, &over);
    rig_submit_request(rig, &beside);
    rig_rta_start(rig);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    rig_run(rig);
    assert_int_equal(rig->held_count, 2);
    assert_int_equal(rig->held[0]->operation, NODE_WRITE);
    assert_int_equal(rig->held[1]->offset, BLOCK);
    rig_release(rig, 0);
    rta_on_bus(rig->rta, rig->now);
    rig_run(rig);
    assert_int_equal(rig->held_count, 2);
    rig_destroy(rig);
}

static void a_second_death_loses_nothing_either(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request writes[8];
    rig->holds = true;
    for (unsigned i = 0; i < 8; i++) {
        writes[i] = rig_request(NODE_WRITE, i / 2 * BLOCK, BLOCK);
        rig_submit_request(rig, &writes[i]);
    }
    rig_run(rig);
    for (unsigned death = 0; death < 3; death++) {
        rig_rta_kill(rig);
        rig_rta_start(rig);
        cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
        rig_run(rig);
        assert_int_equal(rig->held_count, 4); // of each pair the older one
        for (unsigned i = 0; i < 4; i++) {
            assert_int_equal(rig->held[i]->offset, i * BLOCK);
        }
    }
    rig->holds = false;
    while (rig->held_count > 0) {
        rig_release(rig, 0);
    }
    rig_run(rig);
    assert_int_equal(rig->completed, 8);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

static void buffers_of_a_dead_process_come_back_when_its_io_is_over(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request read = rig_request(NODE_READ, 0, BLOCK);
    rig->is_slow = true;
    rig_submit_request(rig, &read);
    rig_run(rig);
    rig_rta_kill(rig);
    cta_for_tts.transferred(rig->cta, &read, NODE_OK, rig->now);
    rig_run(rig);
    assert_int_equal(cta_pool_taken_len(rig->cta), BLOCK);
    rig_rta_start(rig);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

/* ---- a hostile RTA --------------------------------------------------------------------------- */

// A rig with one read at the unit, whose RTA the test plays.
static struct rig *rig_with_read(struct service_request *read, struct frame *ret_request)
{
    struct rig *rig = rig_ready();
    *read = rig_request(NODE_READ, 0, BLOCK);
    rig_submit_request(rig, read);
    cta_flush(rig->cta, rig->now);
    assert_true(fake_bus_receive(&rig->bus.rta, ret_request));
    return rig;
}

static void expect_broken(struct rig *rig, const struct frame *frame)
{
    fake_bus_put(&rig->bus, 0, frame);
    cta_on_bus(rig->cta, RIG_UNIT, rig->now);
    assert_non_null(rig->broken);
    assert_int_equal(rig->completed + rig->transferred, 0);
    assert_int_equal(counters_of(rig).violations, 1);
    rig_destroy(rig);
}

static struct frame result_of(const struct frame *request)
{
    return (struct frame){.kind = FRAME_RESULT,
                          .sequence = 1,
                          .ack = request->sequence,
                          .transaction = request->transaction,
                          .buffer_len = request->buffer_len};
}

static void a_result_that_nobody_waits_for_breaks_the_unit(void **state)
{
    struct service_request read;
    struct frame request;
    struct rig *rig = rig_with_read(&read, &request);
    struct frame result = result_of(&request);
    result.transaction += 1 << NODE_TRANSACTION_SLOT_BITS;
    expect_broken(rig, &result);
}

static void a_result_for_a_free_slot_breaks_the_unit(void **state)
{
    struct service_request read;
    struct frame request;
    struct rig *rig = rig_with_read(&read, &request);
    struct frame result = result_of(&request);
    result.transaction ^= 1;
    expect_broken(rig, &result);
}

static void a_result_with_too_much_breaks_the_unit(void **state)
{
    struct service_request read;
    struct frame request;
    struct rig *rig = rig_with_read(&read, &request);
    struct frame result = result_of(&request);
    result.buffer_len++;
    expect_broken(rig, &result);
}

static void a_read_with_too_little_breaks_the_unit(void **state)
{
    struct service_request read;
    struct frame request;
    struct rig *rig = rig_with_read(&read, &request);
    struct frame result = result_of(&request);
    result.buffer_len--;
    expect_broken(rig, &result);
}

static void a_completion_without_sense_breaks_the_unit(void **state)
{
    struct service_request read;
    struct frame request;
    struct rig *rig = rig_with_read(&read, &request);
    struct frame result = result_of(&request);
    result.completion = NODE_COMPLETION_COUNT;
    expect_broken(rig, &result);
}

static void a_request_from_the_wrong_side_breaks_the_unit(void **state)
{
    struct service_request read;
    struct frame request;
    struct rig *rig = rig_with_read(&read, &request);
    struct frame result = result_of(&request);
    result.kind = FRAME_REQUEST;
    expect_broken(rig, &result);
}

static void a_second_result_breaks_the_unit(void **state)
{
    struct service_request read;
    struct frame request;
    struct rig *rig = rig_with_read(&read, &request);
    struct frame result = result_of(&request);
    fake_bus_put(&rig->bus, 0, &result);
    result.sequence++;
    fake_bus_put(&rig->bus, 0, &result);
    cta_on_bus(rig->cta, RIG_UNIT, rig->now);
    assert_non_null(rig->broken);
    assert_int_equal(rig->transferred, 1);
    rig_destroy(rig);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static void who_finds_the_pool_empty_waits(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request large[3];
    for (unsigned i = 0; i < 3; i++) {
        large[i] = rig_request(NODE_WRITE, 0, NODE_TRANSFER_MAX); // half of the pool
        rig_submit_request(rig, &large[i]);
    }
    // Half of the pool is all that one connection may hold.
    assert_int_equal(cta_pool_taken_len(rig->cta), NODE_TRANSFER_MAX);
    rig_run(rig);
    assert_int_equal(rig->completed, 3); // beyond the volume's end, but answered, each in its turn
    assert_int_equal(rig->last_completion, NODE_RANGE);
    assert_int_equal(cta_volume_counters(rig->cta, 0)->waits, 2);
    rig_destroy(rig);
}

static void a_refused_transfer_ends_a_write(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK);
    rig->is_slow = true;
    rig_submit_request(rig, &write);
    cta_for_tts.transferred(rig->cta, &write, NODE_TRANSFER, rig->now);
    assert_int_equal(rig->completed, 1);
    assert_int_equal(rig->last_completion, NODE_TRANSFER);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    assert_int_equal(counters_of(rig).requests, 0);
    rig_destroy(rig);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void malformed_requests_are_refused(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request bad[5];
    for (unsigned i = 0; i < 5; i++) {
        bad[i] = rig_request(NODE_READ, 0, BLOCK);
    }
    bad[0].data_len = 1;
    bad[1].flags = NODE_FUA; // a read has none
    bad[2].data_len = 0;
    bad[2].len = 0;
    bad[3] = rig_request(NODE_FLUSH, 0, 0);
    bad[3].data_len = 5;
    bad[4].len = bad[4].data_len = NODE_TRANSFER_MAX + 1;
    for (unsigned i = 0; i < 5; i++) {
        rig->last_completion = NODE_OK;
        cta_for_tts.submit(rig->cta, &bad[i], rig->now);
        assert_int_equal(rig->last_completion, NODE_MALFORMED);
    }
    rig_destroy(rig);
}

static void a_deadline_ends_a_request_but_not_its_transaction(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK);
    write.deadline = rig->now + NS_PER_S;
    rig->holds = true;
    rig_submit_request(rig, &write);
    rig_run(rig);
    rig->now += 2 * NS_PER_S;
    assert_true(cta_next_deadline(rig->cta) <= rig->now);
    cta_on_deadline(rig->cta, rig->now);
    assert_int_equal(rig->completed, 1);
    assert_int_equal(rig->last_completion, NODE_TIMED_OUT);
    assert_int_equal(cta_pool_taken_len(rig->cta), BLOCK); // the device still has it
    rig_release(rig, 0);
    rta_on_bus(rig->rta, rig->now);
    rig_run(rig);
    assert_int_equal(rig->completed, 1);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

static void a_deadline_ends_a_request_that_waits_for_its_unit(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request flush = rig_request(NODE_FLUSH, 0, 0);
    rig_rta_kill(rig);
    flush.deadline = rig->now + NS_PER_S;
    rig_submit_request(rig, &flush);
    rig->now += 2 * NS_PER_S;
    cta_on_deadline(rig->cta, rig->now);
    assert_int_equal(rig->last_completion, NODE_TIMED_OUT);
    assert_int_equal(counters_of(rig).waiting, 0);
    rig_destroy(rig);
}

static void a_volume_that_goes_ends_what_waits_for_it(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request waiting = rig_request(NODE_READ, 0, BLOCK);
    struct service_request late = rig_request(NODE_READ, 0, BLOCK);
    rig_rta_kill(rig);
    rig_submit_request(rig, &waiting);
    cta_for_uma.route_fail(rig->cta, RIG_CONNECTION, rig->now);
    assert_int_equal(rig->last_completion, NODE_NO_VOLUME);
    rig_submit_request(rig, &late);
    assert_int_equal(rig->completed, 2);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

/* ---- routes ---------------------------------------------------------------------------------- */

static void what_a_hanging_device_has_of_a_volume_that_goes_ends_with_its_process(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK);
    rig->holds = true;
    rig_submit_request(rig, &write);
    rig_run(rig);
    cta_for_uma.route_fail(rig->cta, RIG_CONNECTION, rig->now);
    assert_int_equal(rig->completed, 0); // the device may answer yet
    rig_rta_kill(rig);
    assert_int_equal(rig->completed, 1);
    assert_int_equal(rig->last_completion, NODE_NO_VOLUME);
    cta_for_uma.route_remove(rig->cta, RIG_CONNECTION);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    assert_int_equal(counters_of(rig).replays, 0);
    // No fence was waited for: the device may still read from there.
    assert_int_equal(cta_pool_taken_len(rig->cta), BLOCK);
    rig_destroy(rig);
}

static void a_client_that_comes_back_waits_for_its_former_requests(void **state)
{
    struct rig *rig = rig_create();
    rig_rta_start(rig);
    struct client_route first = rig_route(rig, RIG_CONNECTION),
                        second = rig_route(rig, RIG_CONNECTION + 1);
    snprintf(first.client.identity, sizeof first.client.identity, "host-a");
    second.client = first.client;
    cta_for_uma.route_add(rig->cta, &first);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK);
    rig->holds = true;
    rig_submit_request(rig, &write);
    rig_run(rig);
    cta_for_uma.route_remove(rig->cta, RIG_CONNECTION);
    cta_for_uma.route_add(rig->cta, &second);
    assert_int_equal(rig->route_answers, 1);
    rig_release(rig, 0);
    rta_on_bus(rig->rta, rig->now);
    rig_run(rig);
    assert_int_equal(rig->route_answers, 2);
    assert_int_equal(rig->route_status, CONNECT_OK);
    rig_destroy(rig);
}

static void a_slot_that_is_taken_is_refused(void **state)
{
    struct rig *rig = rig_ready();
    struct client_route same_slot = rig_route(rig, RIG_CONNECTION + NODE_CONNECTION_COUNT_MAX);
    cta_for_uma.route_add(rig->cta, &same_slot);
    assert_int_equal(rig->route_status, CONNECT_TOO_MANY);
    rig_destroy(rig);
}

static void a_request_goes_to_the_unit_of_its_route(void **state)
{
    struct rig *rig = rig_ready();
    struct client_route route = rig_route(rig, RIG_CONNECTION + 1);
    struct service_request flush = rig_request(NODE_FLUSH, 0, 0);
    static struct fake_bus other;
    struct frame frame;
    route.unit++;
    route.volume++;
    fake_bus_init(&other, 1, 0, 0);
    assert_true(cta_for_uma.unit_add(rig->cta, route.unit, fake_bus_port(&other.cta)));
    cta_for_uma.unit_ready(rig->cta, route.unit, rig->now);
    cta_for_uma.route_add(rig->cta, &route);
    flush.connection = route.connection;
    cta_for_tts.submit(rig->cta, &flush, rig->now);
    cta_flush(rig->cta, rig->now);
    assert_int_equal(rig->bus.count[1], 0);
    assert_true(fake_bus_receive(&other.rta, &frame));
    assert_int_equal(frame.connection, route.connection);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_answered_is_sent_again),
        cmocka_unit_test(nothing_is_sent_before_the_unit_is_ready),
        cmocka_unit_test(overlapping_replays_go_one_after_the_other),
        cmocka_unit_test(a_new_request_waits_for_the_replay_that_it_overlaps),
        cmocka_unit_test(a_second_death_loses_nothing_either),
        cmocka_unit_test(buffers_of_a_dead_process_come_back_when_its_io_is_over),
        cmocka_unit_test(a_result_that_nobody_waits_for_breaks_the_unit),
        cmocka_unit_test(a_result_for_a_free_slot_breaks_the_unit),
        cmocka_unit_test(a_result_with_too_much_breaks_the_unit),
        cmocka_unit_test(a_read_with_too_little_breaks_the_unit),
        cmocka_unit_test(a_completion_without_sense_breaks_the_unit),
        cmocka_unit_test(a_request_from_the_wrong_side_breaks_the_unit),
        cmocka_unit_test(a_second_result_breaks_the_unit),
        cmocka_unit_test(who_finds_the_pool_empty_waits),
        cmocka_unit_test(a_refused_transfer_ends_a_write),
        cmocka_unit_test(malformed_requests_are_refused),
        cmocka_unit_test(a_deadline_ends_a_request_but_not_its_transaction),
        cmocka_unit_test(a_deadline_ends_a_request_that_waits_for_its_unit),
        cmocka_unit_test(a_volume_that_goes_ends_what_waits_for_it),
        cmocka_unit_test(what_a_hanging_device_has_of_a_volume_that_goes_ends_with_its_process),
        cmocka_unit_test(a_client_that_comes_back_waits_for_its_former_requests),
        cmocka_unit_test(a_slot_that_is_taken_is_refused),
        cmocka_unit_test(a_request_goes_to_the_unit_of_its_route),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
