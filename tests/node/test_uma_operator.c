// What the operator changes of volumes while they are served, what a rescan asks, what the unit
// management agent tells of itself, and what it tells processes to the last word.
#include "tests/node/uma_stage.h"

static void hear_of(struct stage *s, uint32_t unit, struct unit_message message, int fd)
{
    uma_on_message(s->uma, unit, &message, fd, s->now);
}

static uint32_t volume_of(const struct stage *s, const char *name)
{
    const struct resource *row = resource_by_name(uma_resources(s->uma), name);
    return row != NULL ? row->volume : 0;
}

// "a" is ready, and "b" in another unit, ready too.
static struct stage *stage_of_two(void)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("b");
    snprintf(w.unit, sizeof w.unit, "v");
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
    hear_of(s, 1, (struct unit_message){.kind = UNIT_HELLO, .version = UMA_RTA_VERSION}, -1);
    hear_of(s, 1, opened(s->volume), -1);
    s->notes[0] = '\0';
    return s;
}

static struct uma_unit_status status_of(const struct stage *s, uint32_t unit)
{
    struct uma_unit_status status;
    uma_unit_status(s->uma, unit, &status);
    return status;
}

/* ---- what is changed ------------------------------------------------------------------------- */

static void who_may_see_a_volume_is_changed_while_it_is_served(void **state)
{
    struct stage *s = stage_of_two();
    const struct client one = {.identity = "one"}, other = {.identity = "other"};
    uint32_t a = volume_of(s, "a"), b = volume_of(s, "b");
    struct volume_wish w = wish("b");
    w.allow_count = 2;
    snprintf(w.allow[0], sizeof w.allow[0], "nobody");
    snprintf(w.allow[1], sizeof w.allow[1], "one");
    unsigned before = s->advertised;
    assert_int_equal(uma_volume_allow(s->uma, &w), 0);
    assert_int_equal(s->advertised, before + 1);
    assert_true(uma_for_tts.may_see(s->uma, b, &one));
    assert_false(uma_for_tts.may_see(s->uma, b, &other));
    assert_true(uma_for_tts.may_see(s->uma, a, &other));
    w.allow_count = 0;
    assert_int_equal(uma_volume_allow(s->uma, &w), 0);
    assert_true(uma_for_tts.may_see(s->uma, b, &other));
    stage_destroy(s);
}

static void a_rate_is_changed_and_lifted_and_told(void **state)
{
    struct stage *s = stage_of_two();
    uint32_t a = volume_of(s, "a"), b = volume_of(s, "b");
    struct volume_wish w = wish("a");
    w.rate = (struct volume_rate){.iops = 70, .bps = 4096};
    assert_int_equal(uma_volume_rate_set(s->uma, &w), 0);
    assert_int_equal(s->limited, a);
    assert_int_equal(s->most.iops, 70);
    assert_int_equal(s->most.bps, 4096);
    assert_int_equal(uma_volume_rate(s->uma, a).iops, 70);
    assert_int_equal(uma_volume_rate(s->uma, b).iops, 0);
    assert_int_equal(uma_volume_rate(s->uma, 99).iops, 0);
    s->most.iops = 1;
    uma_rates_lift(s->uma);
    assert_int_equal(s->limited, b); // the last of all
    assert_int_equal(s->most.iops, 0);
    assert_int_equal(uma_volume_rate(s->uma, a).iops, 70); // as the operator has it
    stage_destroy(s);
}

static void what_is_not_there_or_goes_is_not_changed(void **state)
{
    struct stage *s = stage_of_two();
    struct connect_request request;
    struct volume_wish none = wish("none"), going = wish("a");
    going.may_stand_by = true;
    s->volume = volume_of(s, "a");
    stage_connect(s, &request);
    assert_int_equal(uma_volume_remove(s->uma, "a", s->now), 0); // and is leaving
    for (unsigned i = 0; i < 2; i++) {
        const struct volume_wish *w = i == 0 ? &none : &going;
        assert_int_equal(uma_volume_allow(s->uma, w), -ENOENT);
        assert_int_equal(uma_volume_rate_set(s->uma, w), -ENOENT);
        assert_int_equal(uma_volume_stand_by(s->uma, w->name, s->now), -ENOENT);
        assert_int_equal(uma_volume_remove(s->uma, w->name, s->now), -ENOENT);
    }
    uma_for_tts.disconnect(s->uma, request.connection);
    hear(s,
         (struct unit_message){.kind = UNIT_CONNECTION_REMOVE, .connection = request.connection});
    assert_non_null(strstr(s->notes, "close ")); // and is being closed
    assert_int_equal(uma_volume_allow(s->uma, &going), -ENOENT);
    assert_int_equal(uma_volume_rate_set(s->uma, &going), -ENOENT);
    assert_int_equal(uma_volume_stand_by(s->uma, "a", s->now), -ENOENT);
    assert_int_equal(uma_volume_remove(s->uma, "a", s->now), -ENOENT);
    assert_true(uma_has_volume(s->uma, "a"));
    hear(s, (struct unit_message){.kind = UNIT_CLOSE, .volume = s->volume});
    assert_false(uma_has_volume(s->uma, "a"));
    assert_true(uma_has_volume(s->uma, "b"));
    assert_false(uma_has_volume(s->uma, ""));
    stage_destroy(s);
}

static void a_volume_that_cannot_stand_by_does_not(void **state)
{
    struct stage *s = stage_ready();
    assert_int_equal(uma_volume_stand_by(s->uma, "a", s->now), -EINVAL);
    expect(s, "");
    stage_destroy(s);
}

static void a_device_that_is_given_up_is_told_of(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("b");
    snprintf(w.unit, sizeof w.unit, "v");
    w.may_stand_by = true;
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
    hear_of(s, 1, (struct unit_message){.kind = UNIT_HELLO, .version = UMA_RTA_VERSION}, -1);
    hear_of(s, 1, opened(s->volume), -1);
    s->now += 5;
    assert_int_equal(uma_volume_stand_by(s->uma, "b", s->now), 0);
    assert_non_null(strstr(s->line, "gives its device up: another node is to have it"));
    assert_int_equal(status_of(s, 1).since_ns, s->now);
    assert_int_equal(uma_volume_stand_by(s->uma, "b", s->now), -EALREADY);
    stage_destroy(s);
}

static void there_are_so_many_volumes(void **state)
{
    struct stage *s = stage_create();
    char name[32];
    for (unsigned i = 0; i < NODE_VOLUME_COUNT_MAX; i++) {
        snprintf(name, sizeof name, "v%u", i);
        struct volume_wish w = wish(name);
        assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
    }
    struct volume_wish beyond = wish("beyond");
    assert_int_equal(uma_volume_add(s->uma, &beyond, s->now), -ENOSPC);
    assert_true(uma_has_volume(s->uma, "v0"));
    assert_true(uma_has_volume(s->uma, name));
    assert_false(uma_has_volume(s->uma, "beyond"));
    assert_false(uma_is_settled(s->uma));
    assert_int_equal(uma_resources(s->uma)->count, NODE_VOLUME_COUNT_MAX);
    stage_destroy(s);
}

static void a_group_has_so_many_members(void **state)
{
    struct stage *s = stage_create();
    char name[32];
    for (unsigned i = 0; i <= VOLUME_MEMBER_MAX; i++) {
        snprintf(name, sizeof name, "v%u", i);
        struct volume_wish w = wish(name);
        snprintf(w.places[VOLUME_IN_TARGET].group, VOLUME_GROUP_MAX, "g");
        assert_int_equal(uma_volume_add(s->uma, &w, s->now), i < VOLUME_MEMBER_MAX ? 0 : -ENOSPC);
    }
    assert_int_equal(
        resource_by_name(uma_resources(s->uma), "v255")->places[VOLUME_IN_TARGET].member, 256);
    stage_destroy(s);
}

static void there_are_so_many_services(void **state)
{
    struct stage *s = stage_create();
    for (unsigned i = 0; i < UMA_TTS_COUNT_MAX + 1; i++) {
        uma_tts_add(s->uma, &fake_tts, s);
    }
    assert_string_equal(uma_tts_name(s->uma, UMA_TTS_COUNT_MAX - 1), "fake");
    assert_null(uma_tts_name(s->uma, UMA_TTS_COUNT_MAX));
    stage_destroy(s);
}

/* ---- a rescan -------------------------------------------------------------------------------- */

static void a_rescan_is_over_when_all_have_answered(void **state)
{
    struct stage *s = stage_of_two();
    assert_true(uma_is_settled(s->uma));
    uma_rescan(s->uma, s->now);
    expect(s, "probe probe ");
    assert_false(uma_is_settled(s->uma));
    struct unit_message message = opened(volume_of(s, "a"));
    message.kind = UNIT_PROBE;
    hear_of(s, 0, message, -1);
    assert_false(uma_is_settled(s->uma));
    message.volume = volume_of(s, "b");
    hear_of(s, 1, message, -1);
    assert_true(uma_is_settled(s->uma));
    stage_destroy(s);
}

static void a_rescan_opens_what_had_failed_and_nothing_of_a_unit_that_is_away(void **state)
{
    struct stage *s = stage_of_two();
    struct volume_wish w = wish("c");
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
    assert_false(uma_is_settled(s->uma));
    hear(s, failed(s->volume));
    assert_true(uma_is_settled(s->uma)); // as it is
    uma_on_exit(s->uma, 1, "killed", s->now);
    s->notes[0] = '\0';
    s->now += 3;
    uma_rescan(s->uma, s->now);
    expect(s, "probe open ");
    assert_false(uma_is_settled(s->uma));
    stage_destroy(s);
}

static void counters_are_asked_of_who_serves(void **state)
{
    struct stage *s = stage_of_two();
    uma_on_exit(s->uma, 1, "killed", s->now);
    s->notes[0] = '\0';
    uma_ask_counters(s->uma);
    expect(s, "status ");
    uma_ask_counters(s->uma);
    expect(s, "status ");
    struct unit_message told = {.kind = UNIT_STATUS};
    memset(&told.counters, 0x21, sizeof told.counters);
    hear(s, told);
    struct uma_unit_status status = status_of(s, 0);
    assert_memory_equal(&status.counters, &told.counters, sizeof told.counters);
    stage_destroy(s);
}

static void who_says_what_means_nothing_is_ended(void **state)
{
    struct stage *s = stage_ready();
    hear(s, (struct unit_message){.kind = UNIT_DRAIN});
    assert_non_null(strstr(s->line, "said what means nothing"));
    expect(s, "cta-lost kill ");
    stage_destroy(s);
}

/* ---- what it tells of itself ----------------------------------------------------------------- */

static void what_is_not_there_has_no_status(void **state)
{
    struct stage *s = stage_ready();
    assert_string_equal(uma_volume_why(s->uma, 99), "");
    assert_int_equal(uma_volume_error(s->uma, 99), 0);
    assert_int_equal(uma_volume_unit(s->uma, 99), NODE_UNIT_COUNT_MAX);
    assert_int_equal(uma_volume_unit(s->uma, s->volume), 0);
    assert_null(uma_for_tts.reservation(s->uma, 99));
    assert_null(uma_for_tts.reservation(s->uma, s->volume));
    assert_ptr_equal(uma_for_tts.resources(s->uma), uma_resources(s->uma));
    stage_destroy(s);
}

static void a_volume_has_the_error_that_it_was_not_opened_with(void **state)
{
    struct stage *s = stage_of_two();
    struct volume_wish w = wish("c");
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
    hear(s, failed(s->volume));
    assert_int_equal(uma_volume_error(s->uma, s->volume), -ENOENT);
    assert_string_equal(uma_volume_why(s->uma, s->volume), "nothing there");
    assert_int_equal(uma_volume_error(s->uma, volume_of(s, "a")), 0);
    assert_int_equal(uma_volume_unit(s->uma, volume_of(s, "b")), 1);
    stage_destroy(s);
}

static void figure_note(void *ctx, const char *name, enum tts_figure_kind kind, uint64_t value)
{
    note(ctx, "%s=%d ", name, (int)value);
}

static void some_figures(void *ctx, tts_figure *figure, void *figure_ctx)
{
    figure(figure_ctx, "sessions", TTS_COUNTER, 7);
}

static void a_service_has_its_error_its_name_and_its_figures(void **state)
{
    static const struct tts_for_uma other = {.name = "other",
                                             .start = tts_start,
                                             .advertise = tts_advertise,
                                             .stop = tts_stop,
                                             .figures = some_figures};
    struct stage *s = stage_create();
    uma_tts_add(s->uma, &other, s);
    assert_null(uma_tts_why(s->uma, 0));
    s->tts_error = -EADDRINUSE;
    uma_start(s->uma, s->now);
    assert_int_equal(uma_tts_error(s->uma, 1), -EADDRINUSE);
    assert_int_equal(uma_tts_error(s->uma, 2), 0);
    assert_string_equal(uma_tts_why(s->uma, 1), "in use");
    assert_null(uma_tts_why(s->uma, 2));
    assert_string_equal(uma_tts_name(s->uma, 1), "other");
    assert_null(uma_tts_name(s->uma, 2));
    s->notes[0] = '\0';
    uma_tts_figures(s->uma, 0, figure_note, s); // has none
    uma_tts_figures(s->uma, 1, figure_note, s);
    expect(s, "sessions=7 ");
    stage_destroy(s);
}

static void a_service_that_has_begun_at_last_is_waited_for_no_more(void **state)
{
    struct stage *s = stage_create();
    s->tts_error = -EADDRINUSE;
    uma_start(s->uma, s->now);
    s->now = uma_next_deadline(s->uma);
    assert_int_not_equal(s->now, INSTANT_NEVER);
    s->tts_error = 0;
    uma_on_deadline(s->uma, s->now);
    expect(s, "tts-start tts-start ");
    assert_int_equal(uma_next_deadline(s->uma), INSTANT_NEVER);
    stage_destroy(s);
}

// Each call has the time of its own.
static void a_state_began_at_the_time_of_the_call(void **state)
{
    struct stage *s = stage_create();
    struct volume_wish w = wish("a");
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
    uma_start(s->uma, s->now += 10);
    assert_int_equal(status_of(s, 0).since_ns, s->now);
    s->now += 10;
    say_hello(s);
    hear(s, opened(s->volume));
    assert_int_equal(status_of(s, 0).since_ns, s->now);
    struct volume_wish b = wish("b");
    snprintf(b.unit, sizeof b.unit, "v");
    assert_int_equal(uma_volume_add(s->uma, &b, s->now += 10), 0);
    assert_int_equal(status_of(s, 1).since_ns, s->now);
    assert_int_equal(uma_volume_remove(s->uma, "b", s->now += 10), 0);
    assert_int_equal(status_of(s, 1).since_ns, s->now);
    uma_stop(s->uma, s->now += 10);
    assert_int_equal(status_of(s, 0).since_ns, s->now);
    stage_destroy(s);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static unsigned count(const char *text, const char *word)
{
    unsigned found = 0;
    while ((text = strstr(text, word)) != NULL) {
        found++;
        text++;
    }
    return found;
}

static void what_is_kept_is_closed_at_the_end(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("b");
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
    hear_of(s, 0, opened(s->volume), 7);
    struct volume_wish c = wish("c");
    assert_int_equal(uma_volume_add(s->uma, &c, s->now), 0);
    struct unit_message window = opened(s->volume);
    window.is_window = 1;
    hear_of(s, 0, window, 8);
    assert_non_null(strstr(s->notes, "window-8:1048576 "));
    assert_int_equal(count(s->notes, "close-keepsake"), 0);
    uma_destroy(s->uma);
    assert_int_equal(count(s->notes, "close-keepsake"), 2);
    uma_destroy(NULL);
    free(s);
}

static void a_descriptor_of_who_has_been_killed_is_closed(void **state)
{
    struct stage *s = stage_ready();
    hear(s, (struct unit_message){.kind = UNIT_DRAIN});
    s->notes[0] = '\0';
    hear_of(s, 0, opened(s->volume), 9);
    expect(s, "close-keepsake ");
    stage_destroy(s);
}

/* ---- what a process is told ------------------------------------------------------------------ */

static void an_open_says_all_that_was_wished(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("b");
    snprintf(w.uri, sizeof w.uri, "file:/x");
    w.read_only = w.is_alone = w.may_stand_by = true;
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
    assert_int_equal(s->told.kind, UNIT_OPEN);
    assert_string_equal(s->told.uri, "file:/x");
    assert_string_equal(s->told.pin, "");
    assert_true(s->told.read_only && s->told.is_only && s->told.may_stand_by);
    assert_false(s->told.is_restart);
    assert_int_equal(s->told_fd, -1);
    stage_destroy(s);
}

static void a_successor_is_told_which_device_it_was_and_has_what_was_kept(void **state)
{
    struct stage *s = stage_create();
    struct volume_wish w = wish("a");
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
    uma_start(s->uma, s->now);
    say_hello(s);
    assert_false(s->told.read_only || s->told.is_only || s->told.may_stand_by);
    hear_of(s, 0, opened(s->volume), 7);
    uma_rescan(s->uma, s->now);
    assert_int_equal(s->told.kind, UNIT_PROBE);
    assert_int_equal(s->told_fd, -1); // it has it
    uma_on_exit(s->uma, 0, "killed", s->now);
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    say_hello(s);
    assert_int_equal(s->told.kind, UNIT_OPEN);
    assert_true(s->told.is_restart);
    assert_string_equal(s->told.pin, "o");
    assert_int_equal(s->told_fd, 7);
    stage_destroy(s);
}

static void a_connection_is_told_with_its_volume_and_its_end_without(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request;
    stage_connect(s, &request);
    assert_int_equal(s->told.kind, UNIT_CONNECTION_ADD);
    assert_int_equal(s->told.volume, s->volume);
    assert_int_equal(s->told_fd, -1);
    uma_for_tts.disconnect(s->uma, request.connection);
    assert_int_equal(s->told.kind, UNIT_CONNECTION_REMOVE);
    assert_int_equal(s->told.volume, 0);
    assert_int_equal(s->told.connection, request.connection);
    stage_destroy(s);
}

// What a full socket did not take is said in its order, each once.
static void what_waits_for_room_comes_in_its_order(void **state)
{
    struct stage *s = stage_ready();
    struct connect_request request;
    s->has_room = true;
    s->room = 0;
    uma_rescan(s->uma, s->now);
    request = connect_to(s, s->volume);
    uma_for_tts.connect(s->uma, &request);
    uma_ask_counters(s->uma);
    uma_rescan(s->uma, s->now);
    expect(s, "full route-add ");
    s->room = 1;
    uma_on_writable(s->uma, 0, s->now);
    expect(s, "probe full ");
    uma_on_writable(s->uma, 0, s->now);
    expect(s, "full "); // nothing behind it goes before it
    s->room = 1;
    uma_on_writable(s->uma, 0, s->now);
    expect(s, "add full ");
    s->room = 9;
    uma_on_writable(s->uma, 0, s->now);
    expect(s, "status ");
    assert_int_equal(s->told_fd, -1);
    uma_on_writable(s->uma, 0, s->now);
    expect(s, "");
    assert_int_equal(uma_next_deadline(s->uma), INSTANT_NEVER);
    stage_destroy(s);
}

static void a_successor_hears_nothing_that_its_predecessor_was_to_hear(void **state)
{
    struct stage *s = stage_ready();
    s->has_room = true;
    s->room = 0;
    uma_ask_counters(s->uma);
    uma_on_exit(s->uma, 0, "killed", s->now);
    s->has_room = false;
    s->now = uma_next_deadline(s->uma);
    s->notes[0] = '\0';
    uma_on_deadline(s->uma, s->now);
    say_hello(s);
    hear(s, opened(s->volume));
    expect(s, "spawn open cta-ready ");
    assert_int_equal(uma_next_deadline(s->uma), INSTANT_NEVER);
    stage_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_may_see_a_volume_is_changed_while_it_is_served),
        cmocka_unit_test(a_rate_is_changed_and_lifted_and_told),
        cmocka_unit_test(what_is_not_there_or_goes_is_not_changed),
        cmocka_unit_test(a_volume_that_cannot_stand_by_does_not),
        cmocka_unit_test(a_device_that_is_given_up_is_told_of),
        cmocka_unit_test(there_are_so_many_volumes),
        cmocka_unit_test(a_group_has_so_many_members),
        cmocka_unit_test(there_are_so_many_services),
        cmocka_unit_test(a_rescan_is_over_when_all_have_answered),
        cmocka_unit_test(a_rescan_opens_what_had_failed_and_nothing_of_a_unit_that_is_away),
        cmocka_unit_test(counters_are_asked_of_who_serves),
        cmocka_unit_test(who_says_what_means_nothing_is_ended),
        cmocka_unit_test(what_is_not_there_has_no_status),
        cmocka_unit_test(a_volume_has_the_error_that_it_was_not_opened_with),
        cmocka_unit_test(a_service_has_its_error_its_name_and_its_figures),
        cmocka_unit_test(a_service_that_has_begun_at_last_is_waited_for_no_more),
        cmocka_unit_test(a_state_began_at_the_time_of_the_call),
        cmocka_unit_test(what_is_kept_is_closed_at_the_end),
        cmocka_unit_test(a_descriptor_of_who_has_been_killed_is_closed),
        cmocka_unit_test(an_open_says_all_that_was_wished),
        cmocka_unit_test(a_successor_is_told_which_device_it_was_and_has_what_was_kept),
        cmocka_unit_test(a_connection_is_told_with_its_volume_and_its_end_without),
        cmocka_unit_test(what_waits_for_room_comes_in_its_order),
        cmocka_unit_test(a_successor_hears_nothing_that_its_predecessor_was_to_hear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
