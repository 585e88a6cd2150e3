// The unit management agent: units through starts, deaths and ends; volumes; connections.

#include "tests/node/uma_stage.h"

/* ---- the table ------------------------------------------------------------------------------- */

// One row per state, one letter per event: the state that follows, or . for none.
static void the_table_of_states_is_as_drawn(void **state)
{
    static const char letters[] = "ASOCREDW."; // in the order of enum unit_state
    static const char *const golden[UNIT_STATE_COUNT] = {
        //                    start hello opened connected timer broken drain exit
        [UNIT_ABSENT] = "S.......",     [UNIT_STARTING] = ".O..DDEW", [UNIT_OPENING] = ".DC.ODEW",
        [UNIT_CONNECTING] = ".D.R.DEW", [UNIT_READY] = ".D..RDEW",    [UNIT_ENDING] = "....EE.A",
        [UNIT_DYING] = "....D.EW",      [UNIT_WAITING] = "....S.A.",
    };
    for (unsigned s = 0; s < UNIT_STATE_COUNT; s++) {
        char row[UNIT_EVENT_COUNT + 1] = {0};
        for (unsigned e = 0; e < UNIT_EVENT_COUNT; e++) {
            row[e] = letters[unit_next_state((enum unit_state)s, (enum unit_event)e)];
        }
        assert_string_equal(row, golden[s]);
    }
}

/* ---- units and volumes ----------------------------------------------------------------------- */

static void a_start_discovers_then_advertises_then_listens(void **state)
{
    struct stage *s = stage_create();
    struct volume_wish w = wish("a");
    uma_volume_add(s->uma, &w, s->now);
    uma_start(s->uma, s->now);
    expect(s, "spawn ");
    say_hello(s);
    expect(s, "open ");
    assert_false(s->was_restart);
    unsigned before = s->advertised;
    hear(s, opened(s->volume));
    expect(s, "cta-ready tts-start ");
    assert_true(s->advertised > before);
    const struct resource *row = resource_by_name(uma_resources(s->uma), "a");
    assert_int_equal(row->state, RESOURCE_READY);
    assert_int_equal(row->identity.uuid[0], 0x11);
    stage_destroy(s);
}

static void listening_waits_for_every_volume(void **state)
{
    struct stage *s = stage_create();
    struct volume_wish a = wish("a"), b = wish("b");
    uma_volume_add(s->uma, &a, s->now);
    uma_volume_add(s->uma, &b, s->now);
    uma_start(s->uma, s->now);
    say_hello(s);
    hear(s, opened(1));
    expect(s, "spawn open open ");
    hear(s, failed(2));
    expect(s, "cta-ready tts-start ");
    assert_int_equal(resource_by_name(uma_resources(s->uma), "b")->state, RESOURCE_FAILED);
    assert_string_equal(uma_volume_why(s->uma, 2), "nothing there");
    stage_destroy(s);
}

static void a_failed_volume_is_tried_again(void **state)
{
    struct stage *s = stage_create();
    struct volume_wish w = wish("a");
    uma_volume_add(s->uma, &w, s->now);
    uma_start(s->uma, s->now);
    say_hello(s);
    hear(s, failed(1));
    s->notes[0] = '\0';
    s->now = uma_next_deadline(s->uma);
    assert_true(s->now < INSTANT_NEVER);
    uma_on_deadline(s->uma, s->now);
    expect(s, "open ");
    hear(s, opened(1));
    assert_int_equal(resource_by_name(uma_resources(s->uma), "a")->state, RESOURCE_READY);
    stage_destroy(s);
}

static void a_tts_that_cannot_listen_is_tried_again(void **state)
{
    struct stage *s = stage_create();
    s->tts_error = -EADDRINUSE;
    uma_start(s->uma, s->now);
    assert_false(uma_has_started(s->uma));
    assert_string_equal(uma_tts_why(s->uma, 0), "in use");
    s->tts_error = 0;
    s->now = uma_next_deadline(s->uma);
    assert_true(s->now < INSTANT_NEVER);
    uma_on_deadline(s->uma, s->now);
    assert_true(uma_has_started(s->uma));
    assert_null(uma_tts_why(s->uma, 0));
    stage_destroy(s);
}

static void a_death_is_followed_by_a_successor_that_fences(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request;
    stage_connect(s, &request);
    uma_on_exit(s->uma, 0, "killed", s->now);
    expect(s, "cta-lost ");
    assert_int_equal(resource_by_name(uma_resources(s->uma), "a")->state, RESOURCE_NOT_READY);
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    say_hello(s);
    expect(s, "spawn open ");
    assert_true(s->was_restart);
    hear(s, opened(s->volume));
    expect(s, "add "); // the connection, before anything is sent again
    hear(s, (struct unit_message){.kind = UNIT_CONNECTION_ADD, .connection = request.connection});
    expect(s, "cta-ready ");
    stage_destroy(s);
}

static void a_successor_that_cannot_open_sends_nothing_again(void **state)
{
    struct stage *s = stage_ready();
    uma_on_exit(s->uma, 0, "killed", s->now);
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    say_hello(s);
    hear(s, failed(s->volume));
    expect(s, "cta-lost spawn open ");
    assert_int_equal(resource_by_name(uma_resources(s->uma), "a")->state, RESOURCE_NOT_READY);
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    expect(s, "open ");
    hear(s, opened(s->volume));
    expect(s, "cta-ready ");
    stage_destroy(s);
}

static void deaths_in_a_row_are_waited_out(void **state)
{
    struct stage *s = stage_ready();
    duration_ns waits[6];
    for (unsigned i = 0; i < 6; i++) {
        uma_on_exit(s->uma, 0, "killed", s->now);
        waits[i] = uma_next_deadline(s->uma) - s->now;
        s->now = uma_next_deadline(s->uma);
        uma_on_deadline(s->uma, s->now);
    }
    assert_int_equal(waits[0], 0);
    for (unsigned i = 1; i < 6; i++) {
        assert_true(waits[i] > waits[i - 1]);
    }
    stage_destroy(s);
}

static void deaths_of_processes_that_serve_are_soon_over(void **state)
{
    struct stage *s = stage_ready();
    for (unsigned i = 0; i < 22; i++) {
        uma_on_exit(s->uma, 0, "killed", s->now);
        assert_true(uma_next_deadline(s->uma) - s->now < NS_PER_S);
        s->now = uma_next_deadline(s->uma);
        uma_on_deadline(s->uma, s->now);
        say_hello(s);
        hear(s, opened(s->volume));
        s->notes[0] = '\0';
    }
    assert_int_equal(resource_by_name(uma_resources(s->uma), "a")->state, RESOURCE_READY);
    stage_destroy(s);
}

static void a_unit_that_breaks_the_rules_is_killed(void **state)
{
    static const struct unit_message bad[] = {
        {.kind = 99},
        {.kind = UNIT_HELLO, .version = UMA_RTA_VERSION}, // a second time
        {.kind = UNIT_OPEN, .volume = 77},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct stage *s = stage_ready();
        hear(s, bad[i]);
        expect(s, "cta-lost kill ");
        uma_on_exit(s->uma, 0, "killed", s->now);
        s->notes[0] = '\0';
        s->now = uma_next_deadline(s->uma);
        uma_on_deadline(s->uma, s->now);
        expect(s, "spawn ");
        stage_destroy(s);
    }
}

static void a_profile_that_cannot_be_is_not_believed(void **state)
{
    struct stage *s = stage_create();
    struct volume_wish w = wish("a");
    uma_volume_add(s->uma, &w, s->now);
    uma_start(s->uma, s->now);
    say_hello(s);
    struct unit_message message = opened(s->volume);
    message.profile.block_size = 3;
    hear(s, message);
    expect(s, "spawn open cta-lost kill ");
    stage_destroy(s);
}

static void a_rescan_sees_a_new_size(void **state)
{
    struct stage *s = stage_ready();
    uma_rescan(s->uma, s->now);
    expect(s, "probe ");
    struct unit_message message = opened(s->volume);
    message.kind = UNIT_PROBE;
    message.profile.size *= 2;
    unsigned before = s->advertised;
    hear(s, message);
    assert_int_equal(resource_by_name(uma_resources(s->uma), "a")->profile.size, 2 << 20);
    assert_int_equal(s->advertised, before + 1);
    stage_destroy(s);
}

static void volumes_come_and_go_while_it_runs(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("b");
    snprintf(w.places[VOLUME_IN_SUBSYSTEM].group, VOLUME_GROUP_MAX, "nqn.2026-11.test:b");
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
    expect(s, "open ");
    hear(s, opened(s->volume));
    assert_int_equal(uma_resources(s->uma)->count, 2);
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), -EEXIST);
    assert_int_equal(uma_volume_remove(s->uma, "b", s->now), 0);
    expect(s, "close ");
    assert_int_equal(uma_resources(s->uma)->count, 1);
    hear(s, (struct unit_message){.kind = UNIT_CLOSE, .volume = s->volume});
    assert_int_equal(uma_volume_remove(s->uma, "b", s->now), -ENOENT);
    stage_destroy(s);
}

static enum volume_grouping grouping;

static int add(struct stage *s, const char *name, const char *group, uint32_t member)
{
    struct volume_wish w = wish(name);
    snprintf(w.places[grouping].group, VOLUME_GROUP_MAX, "%s", group);
    w.places[grouping].member = member;
    return uma_volume_add(s->uma, &w, s->now);
}

static uint32_t member_of(const struct stage *s, const char *name)
{
    return resource_by_name(uma_resources(s->uma), name)->places[grouping].member;
}

static void have_numbers_of_their_own(enum volume_grouping which)
{
    struct stage *s = stage_ready();
    grouping = which;
    assert_int_equal(add(s, "b", "group", 2), 0);
    assert_int_equal(add(s, "c", "group", 0), 0);
    assert_int_equal(add(s, "d", "group", 0), 0);
    assert_int_equal(add(s, "e", "other", 2), 0);
    assert_int_equal(add(s, "f", "", 2), 0);
    assert_int_equal(add(s, "g", "", 2), 0); // alone
    assert_int_equal(add(s, "h", "group", 3), -ENOTUNIQ);
    assert_int_equal(member_of(s, "b"), 2);
    assert_int_equal(member_of(s, "c"), 1);
    assert_int_equal(member_of(s, "d"), 3);
    assert_int_equal(member_of(s, "g"), 2);
    assert_int_equal(uma_volume_remove(s->uma, "c", s->now), 0);
    assert_int_equal(add(s, "i", "group", 0), 0);
    assert_int_equal(member_of(s, "i"), 1);
    grouping = which == VOLUME_IN_TARGET ? VOLUME_IN_SUBSYSTEM : VOLUME_IN_TARGET;
    assert_int_equal(add(s, "j", "group", 1), 0); // it is another kind of group
    stage_destroy(s);
}

static void volumes_of_a_group_have_numbers_of_their_own(void **state)
{
    have_numbers_of_their_own(VOLUME_IN_SUBSYSTEM);
    have_numbers_of_their_own(VOLUME_IN_TARGET);
}

static void a_volume_with_clients_lets_go_of_them_first(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request;
    stage_connect(s, &request);
    uma_volume_remove(s->uma, "a", s->now);
    expect(s, "route-fail drop ");
    uma_for_tts.disconnect(s->uma, request.connection);
    expect(s, "route-remove remove ");
    hear(s,
         (struct unit_message){.kind = UNIT_CONNECTION_REMOVE, .connection = request.connection});
    expect(s, "close ");
    hear(s, (struct unit_message){.kind = UNIT_CLOSE, .volume = s->volume});
    expect(s, "drain "); // nobody needs the unit any more
    uma_on_exit(s->uma, 0, "ended", s->now);
    expect(s, "cta-lost cta-remove ");
    stage_destroy(s);
}

static void a_client_that_comes_while_its_volume_goes_is_let_go(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request = connect_to(s, s->volume);
    uma_for_tts.connect(s->uma, &request);
    uma_volume_remove(s->uma, "a", s->now);
    expect(s, "route-add add ");
    hear(s, (struct unit_message){.kind = UNIT_CONNECTION_ADD, .connection = s->connection});
    expect(s, "connected-0 route-fail drop ");
    stage_destroy(s);
}

static void a_stop_ends_connections_then_units(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request;
    stage_connect(s, &request);
    uma_stop(s->uma, s->now);
    expect(s, "tts-stop route-fail ");
    uma_for_tts.disconnect(s->uma, request.connection);
    hear(s,
         (struct unit_message){.kind = UNIT_CONNECTION_REMOVE, .connection = request.connection});
    expect(s, "route-remove remove drain ");
    uma_on_exit(s->uma, 0, "ended", s->now);
    expect(s, "cta-lost cta-remove stopped ");
    stage_destroy(s);
}

static void a_unit_that_does_not_drain_is_killed(void **state)
{
    struct stage *s = stage_ready();
    uma_stop(s->uma, s->now);
    expect(s, "tts-stop drain ");
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    expect(s, "kill ");
    stage_destroy(s);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void a_connection_is_in_both_tables_before_its_client_knows(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request = connect_to(s, s->volume);
    uma_for_tts.connect(s->uma, &request);
    expect(s, "route-add add ");
    hear(s, (struct unit_message){.kind = UNIT_CONNECTION_ADD, .connection = s->connection});
    expect(s, "connected-0 ");
    assert_int_equal(request.connection, s->connection);
    stage_destroy(s);
}

static void connections_are_refused_by_name(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request = connect_to(s, 99);
    uma_for_tts.connect(s->uma, &request);
    assert_int_equal(request.status, CONNECT_NO_VOLUME);
    struct volume_wish w = wish("guarded");
    snprintf(w.allow[w.allow_count++], CLIENT_IDENTITY_MAX, "friend");
    uma_volume_add(s->uma, &w, s->now);
    hear(s, opened(s->volume));
    request = connect_to(s, s->volume);
    uma_for_tts.connect(s->uma, &request);
    assert_int_equal(request.status, CONNECT_NOT_ALLOWED);
    snprintf(request.client.identity, sizeof request.client.identity, "friend");
    assert_true(uma_for_tts.may_see(s->uma, s->volume, &request.client));
    uma_for_tts.connect(s->uma, &request);
    hear(s, (struct unit_message){.kind = UNIT_CONNECTION_ADD, .connection = s->connection});
    assert_int_equal(request.status, CONNECT_OK);
    stage_destroy(s);
}

static void a_client_comes_by_what_the_volume_is_for(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("chosen");
    w.service_count = 2;
    snprintf(w.services[0], TTS_NAME_MAX, "one");
    snprintf(w.services[1], TTS_NAME_MAX, "other");
    uma_volume_add(s->uma, &w, s->now);
    hear(s, opened(s->volume));
    const char *services[] = {"one", "other", "on", "", "third"};
    for (unsigned i = 0; i < 5; i++) {
        struct connect_request request = connect_to(s, s->volume);
        snprintf(request.client.service, TTS_NAME_MAX, "%s", services[i]);
        bool is_by = i < 2;
        assert_int_equal(uma_for_tts.may_see(s->uma, s->volume, &request.client), is_by);
        assert_int_equal(uma_volume_is_by(s->uma, s->volume, services[i]), is_by);
        request.status = CONNECT_OK;
        if (!is_by) {
            uma_for_tts.connect(s->uma, &request);
            assert_int_equal(request.status, CONNECT_NOT_ALLOWED);
        }
    }
    w.service_count = 1;
    assert_int_equal(uma_volume_allow(s->uma, &w), 0);
    assert_true(uma_volume_is_by(s->uma, s->volume, "one"));
    assert_false(uma_volume_is_by(s->uma, s->volume, "other"));
    w.service_count = 0;
    assert_int_equal(uma_volume_allow(s->uma, &w), 0);
    assert_true(uma_volume_is_by(s->uma, s->volume, "third"));
    assert_false(uma_volume_is_by(s->uma, 99, "third"));
    stage_destroy(s);
}

static void a_refusal_by_the_rta_is_one_to_the_client(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request = connect_to(s, s->volume);
    uma_for_tts.connect(s->uma, &request);
    hear(s, (struct unit_message){
                .kind = UNIT_CONNECTION_ADD, .connection = s->connection, .error = -EEXIST});
    expect(s, "route-add add route-remove connected-5 ");
    assert_int_equal(uma_connection_count(s->uma), 0);
    stage_destroy(s);
}

static void a_client_that_comes_while_the_unit_is_away_is_told_when_it_is_back(void **state)
{
    struct stage *s = stage_ready();
    uma_on_exit(s->uma, 0, "killed", s->now);
    struct connect_request request = connect_to(s, s->volume);
    s->connected = NULL;
    uma_for_tts.connect(s->uma, &request);
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    say_hello(s);
    hear(s, opened(s->volume));
    expect(s, "cta-lost route-add spawn open add ");
    assert_null(s->connected);
    hear(s, (struct unit_message){.kind = UNIT_CONNECTION_ADD, .connection = s->connection});
    expect(s, "connected-0 cta-ready ");
    stage_destroy(s);
}

static void a_client_may_leave_while_the_unit_is_away(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request;
    stage_connect(s, &request);
    uma_on_exit(s->uma, 0, "killed", s->now);
    uma_for_tts.disconnect(s->uma, request.connection);
    expect(s, "cta-lost route-remove ");
    assert_int_equal(uma_connection_count(s->uma), 0);
    stage_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_of_states_is_as_drawn),
        cmocka_unit_test(a_start_discovers_then_advertises_then_listens),
        cmocka_unit_test(listening_waits_for_every_volume),
        cmocka_unit_test(a_failed_volume_is_tried_again),
        cmocka_unit_test(a_tts_that_cannot_listen_is_tried_again),
        cmocka_unit_test(a_death_is_followed_by_a_successor_that_fences),
        cmocka_unit_test(a_successor_that_cannot_open_sends_nothing_again),
        cmocka_unit_test(deaths_in_a_row_are_waited_out),
        cmocka_unit_test(deaths_of_processes_that_serve_are_soon_over),
        cmocka_unit_test(a_unit_that_breaks_the_rules_is_killed),
        cmocka_unit_test(a_profile_that_cannot_be_is_not_believed),
        cmocka_unit_test(a_rescan_sees_a_new_size),
        cmocka_unit_test(volumes_come_and_go_while_it_runs),
        cmocka_unit_test(volumes_of_a_group_have_numbers_of_their_own),
        cmocka_unit_test(a_volume_with_clients_lets_go_of_them_first),
        cmocka_unit_test(a_client_that_comes_while_its_volume_goes_is_let_go),
        cmocka_unit_test(a_stop_ends_connections_then_units),
        cmocka_unit_test(a_unit_that_does_not_drain_is_killed),
        cmocka_unit_test(a_connection_is_in_both_tables_before_its_client_knows),
        cmocka_unit_test(connections_are_refused_by_name),
        cmocka_unit_test(a_client_comes_by_what_the_volume_is_for),
        cmocka_unit_test(a_refusal_by_the_rta_is_one_to_the_client),
        cmocka_unit_test(a_client_that_comes_while_the_unit_is_away_is_told_when_it_is_back),
        cmocka_unit_test(a_client_may_leave_while_the_unit_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
