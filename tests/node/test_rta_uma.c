// What a remote transport agent and the UMA say to each other, octet for octet, of devices that are
// open, and how the agent lives and ends.

#include "tests/node/rta_stage.h"

/* ---- what is open ---------------------------------------------------------------------------- */

static void a_descriptor_is_watched_while_its_device_is_open(void **state)
{
    for (int fd = 0; fd < 2; fd++) {
        stage.poll_fd = fd;
        open_volume(VOLUME);
        assert_int_equal(stage.watched_fd, fd);
        assert_ptr_equal(stage.watched, stage.opened);
        expect_said(told((struct unit_message){.kind = UNIT_CLOSE, .volume = VOLUME}),
                    &(struct unit_message){.kind = UNIT_CLOSE, .volume = VOLUME});
        assert_int_equal(stage.unwatched_fd, fd);
        assert_int_equal(stage.closed_count, fd + 1);
        assert_int_equal(stage.drained_count, fd + 1);
    }
    stage.poll_fd = -1;
    stage.unwatched_fd = 99;
    open_volume(VOLUME);
    assert_int_equal(stage.watched_fd, 1); // as before
    told((struct unit_message){.kind = UNIT_CLOSE, .volume = VOLUME});
    assert_int_equal(stage.unwatched_fd, 99);
}

static void a_probe_tells_the_device_as_it_is_now(void **state)
{
    static const struct unit_message ask = {.kind = UNIT_PROBE, .volume = VOLUME};
    open_volume(VOLUME);
    connect_volume(VOLUME, CONNECTION);
    stage.profile.size = BLOCK;
    expect_said(told(ask), &(struct unit_message){
                               .kind = UNIT_PROBE, .volume = VOLUME, .profile = stage.profile});
    request(NODE_WRITE, 1, BLOCK); // beyond what it has now
    assert_true(rta_on_bus(stage.rta, stage.now));
    assert_int_equal(result_next(), NODE_RANGE);
}

static void a_probe_that_fails_leaves_the_volume_as_it_was(void **state)
{
    static const struct unit_message ask = {.kind = UNIT_PROBE, .volume = VOLUME};
    open_volume(VOLUME);
    connect_volume(VOLUME, CONNECTION);
    stage.profile.size = BLOCK;
    stage.probe_error = -EIO;
    assert_int_equal(told(ask)->error, -EIO);
    stage.probe_error = 0;
    stage.profile.depth = 0;
    assert_int_equal(told(ask)->error, -EPROTO);
    request(NODE_WRITE, 1, BLOCK);
    assert_true(rta_on_bus(stage.rta, stage.now));
    assert_int_equal(result_next(), NODE_OK);
}

// Of the volume whose chain the device is in, once, as soon as something happens.
static void a_change_is_told_by_itself(void **state)
{
    open_volume(VOLUME);
    stage.has_filter = true;
    open_volume(VOLUME + 1);
    stage.said_count = 0;
    stage.profile.size = 2 * BLOCK;
    stage.host.changed(stage.host.ctx, stage.opened);
    assert_int_equal(stage.said_count, 0);
    assert_true(rta_on_bus(stage.rta, stage.now));
    assert_int_equal(stage.said_count, 1);
    expect_said(
        &stage.said[0],
        &(struct unit_message){.kind = UNIT_PROBE, .volume = VOLUME + 1, .profile = stage.profile});
    assert_int_equal(stage.said_keepsakes[0], -1);
    assert_true(rta_on_bus(stage.rta, stage.now));
    assert_int_equal(stage.said_count, 1);
}

static void a_change_that_nobody_had_read_is_told_again(void **state)
{
    open_volume(VOLUME);
    stage.said_count = 0;
    stage.host.changed(stage.host.ctx, stage.opened);
    stage.send_error = -EAGAIN;
    assert_true(rta_on_bus(stage.rta, stage.now));
    stage.send_error = 0;
    rta_on_device(stage.rta, stage.opened, stage.now);
    assert_int_equal(stage.said_count, 1);
    stage.host.changed(stage.host.ctx, stage.opened);
    stage.send_error = -EPIPE; // the UMA is gone: it need not know
    assert_true(rta_on_bus(stage.rta, stage.now));
    stage.send_error = 0;
    assert_true(rta_on_bus(stage.rta, stage.now));
    assert_int_equal(stage.said_count, 1);
}

static void connections_are_answered_with_what_they_were_asked_for(void **state)
{
    open_volume(VOLUME);
    const struct unit_message ask = {
        .kind = UNIT_CONNECTION_ADD, .volume = VOLUME, .connection = CONNECTION};
    expect_said(told(ask), &ask);
    struct unit_message again = ask;
    again.error = -EEXIST;
    expect_said(told(ask), &again);
    const struct unit_message remove = {.kind = UNIT_CONNECTION_REMOVE, .connection = CONNECTION};
    expect_said(told(remove), &remove);
    assert_int_equal(told(remove)->error, -ENOENT);
    expect_said(told(ask), &ask);
}

/* ---- lifecycle ------------------------------------------------------------------------------- */

static void an_rta_that_is_drained_takes_no_connection(void **state)
{
    open_volume(VOLUME);
    assert_false(rta_is_drained(stage.rta));
    assert_true(rta_on_message(stage.rta, &(struct unit_message){.kind = UNIT_DRAIN}, -1, 1));
    assert_true(rta_is_drained(stage.rta));
    assert_int_equal(told((struct unit_message){.kind = UNIT_CONNECTION_ADD,
                                                .volume = VOLUME,
                                                .connection = CONNECTION})
                         ->error,
                     -ENOENT);
}

static void who_ends_with_nothing_held_says_nothing(void **state)
{
    open_volume(VOLUME);
    rta_on_message(stage.rta, &(struct unit_message){.kind = UNIT_DRAIN}, -1, stage.now);
    rta_destroy(stage.rta);
    assert_string_equal(stage.line, "");
    const struct rta_parts parts = parts_of();
    begin_with(&parts);
    open_volume(VOLUME);
    connect_volume(VOLUME, CONNECTION);
    request(NODE_WRITE, 1, 0);
    assert_true(rta_on_bus(stage.rta, stage.now));
    rta_destroy(stage.rta); // it was never asked to drain: clients are under way
    assert_string_equal(stage.line, "");
    begin_with(&parts);
}

static void a_status_counts_what_was_done(void **state)
{
    open_volume(VOLUME);
    connect_volume(VOLUME, CONNECTION);
    stage.holds = true;
    request(NODE_WRITE, 1, 0);
    request(NODE_WRITE, 2, 1 << 20); // beyond the end
    struct frame twice = stage.bus.queue[1][0];
    fake_bus_put(&stage.bus, 1, &twice); // the first frame again
    twice.sequence = 3;                  // and the first request, under another number
    fake_bus_put(&stage.bus, 1, &twice);
    assert_true(rta_on_bus(stage.rta, stage.now));
    assert_true(rta_on_bus(stage.rta, stage.now));
    assert_true(rta_awaits_device(stage.rta));
    assert_int_equal(rta_under_way(stage.rta), 1);
    const struct unit_message *said = told((struct unit_message){.kind = UNIT_STATUS});
    const struct unit_counters wanted = {.requests = 3,
                                         .results = 1,
                                         .in_flight = 1,
                                         .duplicates = 2,
                                         .refusals = 1,
                                         .buffers_held = 1,
                                         .octets_held = BLOCK,
                                         .turns = 2,
                                         .landlock = 4};
    assert_int_equal(said->kind, UNIT_STATUS);
    assert_int_equal(said->error, 0);
    assert_memory_equal(&said->counters, &wanted, sizeof wanted);
    rta_on_device(stage.rta, stage.opened, stage.now);
    assert_false(rta_awaits_device(stage.rta));
    said = told((struct unit_message){.kind = UNIT_STATUS});
    assert_int_equal(said->counters.in_flight, 0);
    assert_int_equal(said->counters.results, 2);
}

static void a_result_that_is_not_acknowledged_goes_again(void **state)
{
    open_volume(VOLUME);
    connect_volume(VOLUME, CONNECTION);
    request(NODE_WRITE, 1, 0);
    assert_true(rta_on_bus(stage.rta, stage.now));
    assert_int_equal(result_next(), NODE_OK);
    stage.now = rta_next_deadline(stage.rta);
    assert_true(rta_on_deadline(stage.rta, stage.now)); // a ring that was lazy, or the result
    while (result_next() < 0) {
        stage.now = rta_next_deadline(stage.rta);
        assert_true(stage.now < 10 * NS_PER_S);
        assert_true(rta_on_deadline(stage.rta, stage.now));
    }
    assert_int_equal(told((struct unit_message){.kind = UNIT_STATUS})->counters.retransmissions, 1);
}

// Each event is at a time of its own: what it sends is sent again so long after it.
static void each_event_has_its_own_time(void **state)
{
    open_volume(VOLUME);
    connect_volume(VOLUME, CONNECTION);
    for (uint64_t i = 1; i <= 3; i++) {
        const instant_ns at = i * NS_PER_S;
        const struct frame ack = {.kind = FRAME_ACK, .ack = (uint32_t)i};
        stage.holds = i > 1;
        request(NODE_WRITE, i, 0);
        assert_true(rta_on_bus(stage.rta, i == 1 ? at : at - 500 * NS_PER_MS));
        if (i == 2) {
            rta_on_device(stage.rta, stage.opened, at);
        } else if (i == 3) {
            stage.ends_at = at;
            assert_true(rta_on_deadline(stage.rta, at));
            stage.ends_at = INSTANT_NEVER;
        }
        assert_int_equal(result_next(), NODE_OK);
        assert_int_equal(rta_next_deadline(stage.rta), at + 200 * NS_PER_MS);
        fake_bus_put(&stage.bus, 1, &ack);
        assert_true(rta_on_bus(stage.rta, at + 1));
        assert_true(rta_next_deadline(stage.rta) == INSTANT_NEVER);
    }
}

static void what_a_device_has_done_is_on_the_bus_when_its_poll_ends(void **state)
{
    open_volume(VOLUME);
    connect_volume(VOLUME, CONNECTION);
    stage.holds = true;
    request(NODE_WRITE, 1, 0);
    assert_true(rta_on_bus(stage.rta, stage.now));
    assert_int_equal(result_next(), -1);
    unsigned rings = stage.bus.rta.rings;
    rta_on_device(stage.rta, stage.opened, 2000);
    assert_int_equal(stage.polled_at, 2000);
    assert_int_equal(stage.polled_count, 1);
    assert_int_equal(result_next(), NODE_OK);
    assert_int_equal(stage.bus.rta.rings, rings + 1);
}

static void the_deadline_of_a_device_is_the_agents(void **state)
{
    open_volume(VOLUME);
    connect_volume(VOLUME, CONNECTION);
    assert_true(rta_next_deadline(stage.rta) == INSTANT_NEVER);
    stage.holds = true;
    request(NODE_WRITE, 1, 0);
    assert_true(rta_on_bus(stage.rta, stage.now));
    stage.ends_at = 5000;
    assert_int_equal(rta_next_deadline(stage.rta), 5000);
    assert_true(rta_on_deadline(stage.rta, 4999));
    assert_int_equal(stage.polled_count, 0);
    assert_true(rta_on_deadline(stage.rta, 5000));
    assert_int_equal(stage.polled_at, 5000);
    assert_int_equal(result_next(), NODE_OK);
}

static void a_bus_that_is_broken_is_seen_by_whoever_looks(void **state)
{
    const struct frame none = {.kind = FRAME_KIND_COUNT};
    fake_bus_put(&stage.bus, 1, &none);
    assert_false(rta_on_deadline(stage.rta, stage.now));
    fake_bus_put(&stage.bus, 1, &none);
    assert_false(rta_on_bus(stage.rta, stage.now));
    assert_true(rta_on_bus(stage.rta, stage.now)); // who went on all the same
}

static void what_the_uma_cannot_mean_ends_the_agent(void **state)
{
    static const uint32_t kinds[] = {0, UNIT_HELLO, UNIT_STANDBY, UNIT_YIELD,
                                     UNIT_MESSAGE_KIND_COUNT};
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_false(
            rta_on_message(stage.rta, &(struct unit_message){.kind = kinds[i]}, -1, stage.now));
    }
    assert_int_equal(stage.said_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_descriptor_is_watched_while_its_device_is_open),
        TEST(a_probe_tells_the_device_as_it_is_now),
        TEST(a_probe_that_fails_leaves_the_volume_as_it_was),
        TEST(a_change_is_told_by_itself),
        TEST(a_change_that_nobody_had_read_is_told_again),
        TEST(connections_are_answered_with_what_they_were_asked_for),
        TEST(an_rta_that_is_drained_takes_no_connection),
        TEST(who_ends_with_nothing_held_says_nothing),
        TEST(a_status_counts_what_was_done),
        TEST(a_result_that_is_not_acknowledged_goes_again),
        TEST(each_event_has_its_own_time),
        TEST(what_a_device_has_done_is_on_the_bus_when_its_poll_ends),
        TEST(the_deadline_of_a_device_is_the_agents),
        TEST(a_bus_that_is_broken_is_seen_by_whoever_looks),
        TEST(what_the_uma_cannot_mean_ends_the_agent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
