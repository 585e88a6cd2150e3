// The unit management agent and RTAs that do not read, that lie, or that die while a volume goes.

#include "tests/node/uma_stage.h"

/* ---- a socket that takes so much at a time --------------------------------------------------- */

static void stage_has_room(struct stage *s, unsigned room)
{
    s->has_room = true;
    s->room = room;
}

static void what_the_socket_does_not_take_is_said_when_it_does(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request requests[3];
    stage_has_room(s, 1);
    for (unsigned i = 0; i < 3; i++) {
        requests[i] = connect_to(s, s->volume);
        uma_for_tts.connect(s->uma, &requests[i]);
    }
    expect(s, "route-add add route-add full route-add "); // asked once, not for each
    stage_has_room(s, 1);
    uma_on_writable(s->uma, 0, s->now);
    expect(s, "add full ");
    stage_has_room(s, 9);
    uma_on_writable(s->uma, 0, s->now);
    expect(s, "add ");
    uma_on_writable(s->uma, 0, s->now);
    expect(s, "");
    stage_destroy(s);
}

static void a_client_that_leaves_before_its_rta_was_told_is_never_told_of(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request;
    stage_connect(s, &request);
    uma_on_exit(s->uma, 0, "killed", s->now);
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    say_hello(s);
    stage_has_room(s, 0);
    hear(s, opened(s->volume));
    expect(s, "cta-lost spawn open full ");
    uma_for_tts.disconnect(s->uma, request.connection);
    expect(s, "route-remove cta-ready "); // and nobody else is waited for
    stage_has_room(s, 9);
    uma_on_writable(s->uma, 0, s->now);
    expect(s, "");
    assert_int_equal(uma_connection_count(s->uma), 0);
    stage_destroy(s);
}

static void an_rta_that_does_not_read_is_killed_in_the_end(void **state)
{
    struct stage *s = stage_ready();
    stage_has_room(s, 0);
    uma_rescan(s->uma, s->now);
    expect(s, "full ");
    instant_ns until = uma_next_deadline(s->uma);
    assert_true(until < INSTANT_NEVER);
    stage_has_room(s, 0);
    uma_on_writable(s->uma, 0, until - 1); // each sign of life counts
    assert_true(uma_next_deadline(s->uma) > until);
    s->notes[0] = '\0';
    uma_on_deadline(s->uma, uma_next_deadline(s->uma));
    expect(s, "cta-lost kill ");
    stage_destroy(s);
}

static void an_rta_that_waits_for_its_fence_may_be_deaf(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("b");
    uma_volume_add(s->uma, &w, s->now);
    stage_has_room(s, 0);
    uma_rescan(s->uma, s->now);
    expect(s, "open full ");
    for (unsigned i = 0; i < 100; i++) {
        s->now = uma_next_deadline(s->uma);
        uma_on_deadline(s->uma, s->now);
    }
    expect(s, "");
    stage_destroy(s);
}

/* ---- RTAs that lie --------------------------------------------------------------------------- */

// Another unit, number 1, that is ready; nobody is connected there.
static void stage_has_another(struct stage *s)
{
    uint32_t volume = s->volume;
    struct volume_wish w = wish("other");
    snprintf(w.unit, sizeof w.unit, "v");
    uma_volume_add(s->uma, &w, s->now);
    struct unit_message hello = {.kind = UNIT_HELLO, .version = UMA_RTA_VERSION};
    struct unit_message open = opened(volume + 1);
    uma_on_message(s->uma, 1, &hello, -1, s->now);
    uma_on_message(s->uma, 1, &open, -1, s->now);
    s->volume = volume;
    s->notes[0] = '\0';
}

static void an_rta_answers_for_its_own_connections_only(void **state)
{
    static const enum unit_message_kind kinds[] = {UNIT_CONNECTION_ADD, UNIT_CONNECTION_REMOVE};
    for (unsigned i = 0; i < 2; i++) {
        struct stage *s = stage_ready();
        stage_has_another(s);
        struct connect_request request = connect_to(s, s->volume);
        uma_for_tts.connect(s->uma, &request);
        s->connected = NULL;
        s->notes[0] = '\0';
        struct unit_message lie = {.kind = kinds[i], .connection = s->connection, .error = -EPERM};
        uma_on_message(s->uma, 1, &lie, -1, s->now);
        expect(s, "cta-lost kill "); // the liar
        assert_null(s->connected);
        hear(s, (struct unit_message){.kind = UNIT_CONNECTION_ADD, .connection = s->connection});
        assert_int_equal(request.status, CONNECT_OK);
        stage_destroy(s);
    }
}

static void a_read_window_is_there_while_its_process_is(void **state)
{
    struct stage *s = stage_create();
    struct volume_wish w = wish("a");
    uma_volume_add(s->uma, &w, s->now);
    uma_start(s->uma, s->now);
    hear(s, (struct unit_message){.kind = UNIT_HELLO, .version = UMA_RTA_VERSION});
    struct unit_message open = opened(s->volume);
    open.is_window = 1;
    s->notes[0] = '\0';
    uma_on_message(s->uma, 0, &open, 7, s->now);
    expect(s, "window-7:1048576 cta-ready tts-start ");
    struct unit_message probe = opened(s->volume);
    probe.kind = UNIT_PROBE;
    probe.profile.size = 4096;
    hear(s, probe);
    expect(s, "window-7:4096 "); // the device has another size
    uma_on_exit(s->uma, 0, "ended", s->now);
    expect(s, "cta-lost window--1:0 close-keepsake ");
    stage_destroy(s);
}

static void an_rta_that_was_killed_is_not_listened_to(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request;
    hear(s, (struct unit_message){.kind = 99});
    expect(s, "cta-lost kill ");
    request = connect_to(s, s->volume);
    uma_for_tts.connect(s->uma, &request);
    uma_on_message(s->uma, 0, &(struct unit_message){.kind = 99}, 7, s->now);
    expect(s, "route-add close-keepsake ");
    struct uma_unit_status status;
    hear(s, (struct unit_message){.kind = UNIT_STATUS, .counters = {.requests = 77}});
    assert_true(uma_unit_status(s->uma, 0, &status));
    assert_int_equal(status.counters.requests, 0);
    stage_destroy(s);
}

/* ---- a volume whose device hangs is removed, and its RTA dies -------------------------------- */

static void a_volume_that_goes_does_not_keep_others_from_coming_back(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("b");
    struct connect_request request;
    stage_connect(s, &request);
    uma_volume_add(s->uma, &w, s->now);
    hear(s, opened(s->volume));
    uma_volume_remove(s->uma, "a", s->now); // its client still waits for the device
    expect(s, "open route-fail drop ");
    uma_on_exit(s->uma, 0, "killed", s->now);
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    say_hello(s);
    expect(s, "cta-lost spawn open ");
    hear(s, opened(2));
    expect(s, "cta-ready "); // the client of "a" is told to nobody
    uma_for_tts.disconnect(s->uma, request.connection);
    expect(s, "route-remove close ");
    hear(s, (struct unit_message){.kind = UNIT_CLOSE, .volume = 1, .error = -ENOENT});
    assert_int_equal(uma_volume_remove(s->uma, "a", s->now), -ENOENT);
    assert_int_equal(resource_by_name(uma_resources(s->uma), "b")->state, RESOURCE_READY);
    stage_destroy(s);
}

static void a_volume_that_was_being_closed_is_gone_with_its_rta(void **state)
{
    struct stage *s = stage_ready();
    uma_volume_remove(s->uma, "a", s->now);
    expect(s, "close ");
    uma_on_exit(s->uma, 0, "killed", s->now);
    expect(s, "cta-lost cta-remove ");
    struct volume_wish w = wish("a");
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
    expect(s, "spawn ");
    stage_destroy(s);
}

static void a_volume_that_cannot_be_closed_yet_is_asked_to_again(void **state)
{
    struct stage *s = stage_ready();
    uma_volume_remove(s->uma, "a", s->now);
    hear(s, (struct unit_message){.kind = UNIT_CLOSE, .volume = s->volume, .error = -EBUSY});
    expect(s, "close ");
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    expect(s, "close ");
    hear(s, (struct unit_message){.kind = UNIT_CLOSE, .volume = s->volume});
    expect(s, "drain ");
    stage_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_socket_does_not_take_is_said_when_it_does),
        cmocka_unit_test(a_client_that_leaves_before_its_rta_was_told_is_never_told_of),
        cmocka_unit_test(an_rta_that_does_not_read_is_killed_in_the_end),
        cmocka_unit_test(an_rta_that_waits_for_its_fence_may_be_deaf),
        cmocka_unit_test(an_rta_answers_for_its_own_connections_only),
        cmocka_unit_test(a_read_window_is_there_while_its_process_is),
        cmocka_unit_test(an_rta_that_was_killed_is_not_listened_to),
        cmocka_unit_test(a_volume_that_goes_does_not_keep_others_from_coming_back),
        cmocka_unit_test(a_volume_that_was_being_closed_is_gone_with_its_rta),
        cmocka_unit_test(a_volume_that_cannot_be_closed_yet_is_asked_to_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
