// The units of the common transport agent: how much each has at a time, what it says that breaks
// it, and what becomes of it when it comes back or goes.

#include "node/cta/agent.h"
#include "tests/node/rig.h"

enum { BLOCK = 4096, CROWD = CTA_UNIT_DEPTH + 88 };

static struct cta_unit_counters counters_of(const struct rig *rig)
{
    struct cta_unit_counters counters;
    assert_true(cta_unit_counters(rig->cta, RIG_UNIT, &counters));
    return counters;
}

static struct service_request crowd[CROWD];

// Flushes, each of another client than the 64 before and of another volume: nobody has more than
// his share.
static void crowd_submit(struct rig *rig, unsigned count)
{
    enum { OF_CONNECTION = 64 };
    for (unsigned i = 0; i < count; i++) {
        struct client_route route = rig_route(rig, RIG_CONNECTION + 1 + i / OF_CONNECTION);
        route.volume += i / OF_CONNECTION;
        snprintf(route.client.host, sizeof route.client.host, "host %u", i / OF_CONNECTION);
        if (i % OF_CONNECTION == 0) {
            cta_for_uma.route_add(rig->cta, &route);
            assert_int_equal(rig->route_status, CONNECT_OK);
        }
        crowd[i] = rig_request(NODE_FLUSH, 0, 0);
        crowd[i].connection = route.connection;
        rig_submit_request(rig, &crowd[i]);
        rig->trace[0] = '\0';
    }
}

static void come_back(struct rig *rig)
{
    rig_rta_start(rig);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
}

/* ---- an RTA that the test plays -------------------------------------------------------------- */

static struct frame asked[2 * CROWD]; // what has come to it
static unsigned asked_count, said_count;

// Has the next process begun, it has heard and said nothing.
static void player_begin(struct rig *rig)
{
    asked_count = said_count = 0;
    rig->bus.count[0] = rig->bus.count[1] = 0;
}

// All that has been sent has come; what is no request stays unnamed.
static unsigned take_all(struct rig *rig)
{
    unsigned before = asked_count;
    cta_flush(rig->cta, rig->now);
    while (fake_bus_receive(&rig->bus.rta, &asked[asked_count])) {
        asked_count += asked[asked_count].kind == FRAME_REQUEST;
        rig->trace[0] = '\0';
    }
    return asked_count - before;
}

static void put(struct rig *rig, struct frame frame)
{
    fake_bus_put(&rig->bus, 0, &frame);
    cta_on_bus(rig->cta, RIG_UNIT, rig->now);
}

static void acknowledge(struct rig *rig, uint32_t ack)
{
    put(rig, (struct frame){.kind = FRAME_ACK, .ack = ack});
}

static void end_request(struct rig *rig, unsigned index, uint32_t ack)
{
    put(rig, (struct frame){.kind = FRAME_RESULT,
                            .sequence = ++said_count,
                            .ack = ack,
                            .transaction = asked[index].transaction,
                            .buffer_len = asked[index].buffer_len});
}

static void a_unit_has_so_many_requests_at_a_time(void **state)
{
    struct rig *rig = rig_ready();
    player_begin(rig);
    crowd_submit(rig, CROWD);
    assert_int_equal(take_all(rig), CTA_UNIT_DEPTH);
    acknowledge(rig, CTA_UNIT_DEPTH);
    assert_int_equal(take_all(rig), 0); // they are taken, and not done
    end_request(rig, 0, CTA_UNIT_DEPTH);
    assert_int_equal(take_all(rig), 0); // nor is it known that its buffer is free
    acknowledge(rig, CTA_UNIT_DEPTH + 1);
    assert_int_equal(take_all(rig), 1); // in its place
    assert_int_equal(counters_of(rig).requests, CTA_UNIT_DEPTH + 1);
    assert_int_equal(counters_of(rig).results, 1);
    assert_int_equal(rig->completed, 1);
    rig_destroy(rig);
}

// A read whose data are on their way to the client is still the unit's, also of the next process.
static void what_is_on_its_way_counts_when_the_unit_comes_back(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request read = rig_request(NODE_READ, 0, BLOCK);
    player_begin(rig);
    rig->is_slow = true;
    rig_submit_request(rig, &read);
    assert_int_equal(take_all(rig), 1);
    end_request(rig, 0, 1);
    assert_int_equal(rig->transfer_count, 1);
    cta_for_uma.unit_lost(rig->cta, RIG_UNIT, rig->now);
    player_begin(rig);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    crowd_submit(rig, CROWD);
    assert_int_equal(take_all(rig), CTA_UNIT_DEPTH - 1);
    cta_for_tts.transferred(rig->cta, &read, NODE_OK, rig->now);
    take_all(rig);
    acknowledge(rig, CTA_UNIT_DEPTH);
    assert_int_equal(take_all(rig), 1);
    rig_destroy(rig);
}

static void what_a_lost_unit_had_is_asked_of_the_next_once(void **state)
{
    struct rig *rig = rig_ready();
    player_begin(rig);
    crowd_submit(rig, CTA_UNIT_DEPTH);
    assert_int_equal(take_all(rig), CTA_UNIT_DEPTH);
    cta_for_uma.unit_lost(rig->cta, RIG_UNIT, rig->now);
    player_begin(rig);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    assert_int_equal(take_all(rig), CTA_UNIT_DEPTH);
    assert_int_equal(counters_of(rig).replays, CTA_UNIT_DEPTH);
    assert_int_equal(counters_of(rig).requests, CTA_UNIT_DEPTH);
    rig_destroy(rig);
}

static void what_waits_is_sent_and_rung_for_as_soon_as_the_unit_is_ready(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request flush = rig_request(NODE_FLUSH, 0, 0);
    rig_rta_kill(rig);
    rig_submit_request(rig, &flush);
    unsigned rings = rig->bus.cta.rings;
    come_back(rig);
    assert_int_equal(rig->bus.count[1], 1);
    assert_int_equal(rig->bus.cta.rings, rings + 1);
    rig_run(rig);
    assert_int_equal(rig->completed, 1);
    rig_destroy(rig);
}

/* ---- units that come and go ------------------------------------------------------------------ */

static void there_are_so_many_units_each_once(void **state)
{
    static struct fake_bus bus;
    struct rig *rig = rig_ready();
    struct cta_unit_counters counters;
    fake_bus_init(&bus, 1, 0, 0);
    struct frame_port port = fake_bus_port(&bus.cta);
    assert_false(cta_for_uma.unit_add(rig->cta, RIG_UNIT, port));
    assert_false(cta_for_uma.unit_add(rig->cta, NODE_UNIT_COUNT_MAX, port));
    assert_false(cta_unit_counters(rig->cta, NODE_UNIT_COUNT_MAX - 1, &counters));
    assert_true(cta_for_uma.unit_add(rig->cta, NODE_UNIT_COUNT_MAX - 1, port));
    assert_true(cta_unit_counters(rig->cta, NODE_UNIT_COUNT_MAX - 1, &counters));
    cta_for_uma.unit_remove(rig->cta, NODE_UNIT_COUNT_MAX - 1);
    assert_false(cta_unit_counters(rig->cta, NODE_UNIT_COUNT_MAX - 1, &counters));
    cta_for_uma.unit_remove(rig->cta, NODE_UNIT_COUNT_MAX - 1); // of which there is none
    cta_for_uma.unit_remove(rig->cta, NODE_UNIT_COUNT_MAX);
    cta_on_bus(rig->cta, NODE_UNIT_COUNT_MAX - 1, rig->now);
    assert_true(cta_for_uma.unit_add(rig->cta, NODE_UNIT_COUNT_MAX - 1, port));
    rig_destroy(rig);
}

static void a_unit_is_awaited_while_it_has_requests(void **state)
{
    struct rig *rig = rig_ready();
    player_begin(rig);
    assert_false(cta_awaits_unit(rig->cta, RIG_UNIT));
    assert_false(cta_awaits_unit(rig->cta, RIG_UNIT + 1));
    assert_false(cta_awaits_unit(rig->cta, NODE_UNIT_COUNT_MAX));
    crowd_submit(rig, 1);
    take_all(rig);
    assert_true(cta_awaits_unit(rig->cta, RIG_UNIT));
    end_request(rig, 0, 1);
    assert_false(cta_awaits_unit(rig->cta, RIG_UNIT));
    rig_destroy(rig);
}

// Of a volume that is gone for good: memory that a device may still write to goes with its unit.
static void what_a_unit_has_ends_with_it(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request read = rig_request(NODE_READ, 0, BLOCK);
    rig->holds = true;
    rig_submit_request(rig, &read);
    rig_run(rig);
    cta_for_uma.route_fail(rig->cta, RIG_CONNECTION, rig->now);
    rig_rta_kill(rig);
    assert_int_equal(rig->completed, 1);
    assert_int_equal(cta_pool_taken_len(rig->cta), BLOCK);
    cta_for_uma.route_remove(rig->cta, RIG_CONNECTION);
    cta_for_uma.unit_remove(rig->cta, RIG_UNIT);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

// Likewise what was lent when its process went.
static void what_was_lent_to_a_unit_ends_with_it(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request read = rig_request(NODE_READ, 0, BLOCK);
    rig->is_slow = true;
    rig_submit_request(rig, &read);
    rig_run(rig);
    rig_rta_kill(rig);
    cta_for_tts.transferred(rig->cta, &read, NODE_OK, rig->now);
    assert_int_equal(cta_pool_taken_len(rig->cta), BLOCK);
    cta_for_uma.route_remove(rig->cta, RIG_CONNECTION);
    cta_for_uma.unit_remove(rig->cta, RIG_UNIT);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

/* ---- units that break ------------------------------------------------------------------------ */

static void who_acknowledges_what_was_never_sent_breaks_its_unit(void **state)
{
    struct rig *rig = rig_ready();
    player_begin(rig);
    crowd_submit(rig, 2);
    assert_int_equal(take_all(rig), 2);
    end_request(rig, 0, 3);
    assert_string_equal(rig->broken, "it acknowledged what was never sent");
    assert_int_equal(rig->completed, 0);
    rig_destroy(rig);
}

static void who_gives_results_and_acknowledges_nothing_breaks_its_unit(void **state)
{
    struct rig *rig = rig_ready();
    player_begin(rig);
    crowd_submit(rig, CTA_UNIT_DEPTH);
    assert_int_equal(take_all(rig), CTA_UNIT_DEPTH);
    end_request(rig, 0, 0);
    assert_string_equal(rig->broken, "it gives results and acknowledges no requests");
    assert_int_equal(rig->completed, 1); // that it was done is true
    rig_destroy(rig);
}

static void a_unit_breaks_once_and_is_whole_when_it_comes_back(void **state)
{
    struct rig *rig = rig_ready();
    player_begin(rig);
    crowd_submit(rig, 1);
    take_all(rig);
    put(rig, (struct frame){.kind = FRAME_COMPLETION, .sequence = 1, .ack = 1});
    assert_non_null(rig->broken);
    rig->broken = NULL;
    put(rig, (struct frame){.kind = FRAME_COMPLETION, .sequence = 2, .ack = 1});
    assert_null(rig->broken);
    assert_int_equal(counters_of(rig).violations, 1);
    struct service_request later = rig_request(NODE_FLUSH, 0, 0);
    rig_submit_request(rig, &later);
    assert_int_equal(take_all(rig), 0); // it is asked for nothing
    cta_for_uma.unit_lost(rig->cta, RIG_UNIT, rig->now);
    player_begin(rig);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    assert_int_equal(take_all(rig), 2);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unit_has_so_many_requests_at_a_time),
        cmocka_unit_test(what_is_on_its_way_counts_when_the_unit_comes_back),
        cmocka_unit_test(what_a_lost_unit_had_is_asked_of_the_next_once),
        cmocka_unit_test(what_waits_is_sent_and_rung_for_as_soon_as_the_unit_is_ready),
        cmocka_unit_test(there_are_so_many_units_each_once),
        cmocka_unit_test(a_unit_is_awaited_while_it_has_requests),
        cmocka_unit_test(what_a_unit_has_ends_with_it),
        cmocka_unit_test(what_was_lent_to_a_unit_ends_with_it),
        cmocka_unit_test(who_acknowledges_what_was_never_sent_breaks_its_unit),
        cmocka_unit_test(who_gives_results_and_acknowledges_nothing_breaks_its_unit),
        cmocka_unit_test(a_unit_breaks_once_and_is_whole_when_it_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
