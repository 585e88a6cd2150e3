// Units as the unit management agent has them, two of them: what is counted and told of a process
// that could not be started, ended or was of another version, and whose volumes keep a unit.

#include "tests/node/uma_stage.h"

static void volume_add(struct stage *s, const char *name, const char *unit)
{
    struct volume_wish w = wish(name);
    snprintf(w.unit, sizeof w.unit, "%s", unit);
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
}

// Unit 0 serves "a", unit 1 "b".
static struct stage *stage_of_two(void)
{
    struct stage *s = stage_ready();
    volume_add(s, "b", "v");
    uma_on_message(s->uma, 1,
                   &(struct unit_message){.kind = UNIT_HELLO, .version = UMA_RTA_VERSION}, -1,
                   s->now);
    struct unit_message open = opened(s->volume);
    uma_on_message(s->uma, 1, &open, -1, s->now);
    s->notes[0] = '\0';
    return s;
}

static struct uma_unit_status status_of(const struct stage *s, uint32_t unit)
{
    struct uma_unit_status status;
    assert_true(uma_unit_status(s->uma, unit, &status));
    return status;
}

static void on_deadline(struct stage *s)
{
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
}

static void a_process_that_cannot_be_started_is_told_of(void **state)
{
    struct stage *s = stage_create();
    s->spawn_error = -EMFILE;
    volume_add(s, "a", "u");
    uma_start(s->uma, s->now);
    assert_int_equal(status_of(s, 0).error, -EMFILE);
    assert_int_equal(status_of(s, 0).failures, 1);
    assert_int_equal(status_of(s, 0).restarts, 1);
    assert_non_null(strstr(s->line, "its process could not be started: Too many open files"));
    on_deadline(s);
    assert_int_equal(status_of(s, 0).failures, 2);
    assert_int_equal(status_of(s, 0).restarts, 2);
    s->spawn_error = 0;
    on_deadline(s);
    assert_int_equal(status_of(s, 0).error, 0);
    assert_string_equal(status_of(s, 0).state, "starting");
    stage_destroy(s);
}

static void each_restart_is_counted_and_failures_until_it_serves(void **state)
{
    struct stage *s = stage_ready();
    for (unsigned i = 1; i < 4; i++) {
        uma_on_exit(s->uma, 0, "killed", s->now);
        assert_int_equal(status_of(s, 0).restarts, i);
        assert_int_equal(status_of(s, 0).failures, 0);
        on_deadline(s);
        say_hello(s);
        hear(s, opened(s->volume));
        assert_string_equal(status_of(s, 0).state, "ready");
    }
    uma_on_exit(s->uma, 0, "killed", s->now);
    on_deadline(s);
    uma_on_exit(s->uma, 0, "killed", s->now); // before it served
    assert_int_equal(status_of(s, 0).failures, 1);
    assert_string_equal(status_of(s, 0).why, "killed");
    stage_destroy(s);
}

static void a_process_of_another_version_is_ended(void **state)
{
    struct stage *s = stage_create();
    volume_add(s, "a", "u");
    uma_start(s->uma, s->now);
    s->notes[0] = '\0';
    hear(s, (struct unit_message){.kind = UNIT_HELLO, .version = UMA_RTA_VERSION + 1});
    expect(s, "cta-lost kill ");
    assert_non_null(strstr(s->line, "is of another version of weft"));
    uma_on_exit(s->uma, 0, "killed", s->now);
    s->line[0] = '\0';
    on_deadline(s);
    say_hello(s);
    assert_string_equal(s->line, "");
    assert_string_equal(status_of(s, 0).state, "opening");
    stage_destroy(s);
}

static void a_unit_is_ended_with_its_own_last_volume(void **state)
{
    struct stage *s = stage_of_two();
    assert_int_equal(s->uma->unit_end, 2);
    volume_add(s, "c", "v");
    uma_volume_remove(s->uma, "c", s->now);
    assert_null(strstr(s->notes, "drain"));
    s->notes[0] = '\0';
    uint32_t volume = s->uma->units[1].is_used ? s->volume : 0;
    assert_true(volume != 0);
    uma_volume_remove(s->uma, "b", s->now);
    struct unit_message closed = {.kind = UNIT_CLOSE};
    for (uint32_t number = 0; number < 8; number++) {
        closed.volume = number;
        uma_on_message(s->uma, 1, &closed, -1, s->now);
    }
    assert_non_null(strstr(s->notes, "drain"));
    assert_string_equal(status_of(s, 0).state, "ready");
    assert_string_not_equal(status_of(s, 1).state, "ready");
    stage_destroy(s);
}

static void all_units_are_drained_and_the_end_is_told_once(void **state)
{
    struct stage *s = stage_of_two();
    struct uma_unit_status status;
    uma_stop(s->uma, s->now);
    expect(s, "tts-stop drain drain ");
    uma_on_exit(s->uma, 0, "ended", s->now);
    assert_null(strstr(s->notes, "stopped"));
    uma_on_exit(s->uma, 1, "ended", s->now);
    const char *told = strstr(s->notes, "stopped ");
    assert_non_null(told);
    assert_null(strstr(told + 1, "stopped "));
    uma_stop(s->uma, s->now);
    assert_null(strstr(told + 1, "stopped "));
    assert_false(uma_unit_status(s->uma, 0, &status));
    assert_false(uma_unit_status(s->uma, 1, &status));
    stage_destroy(s);
}

static void who_does_not_drain_is_killed_in_time(void **state)
{
    struct stage *s = stage_of_two();
    uma_stop(s->uma, s->now);
    s->notes[0] = '\0';
    assert_true(uma_next_deadline(s->uma) == s->now + 5 * NS_PER_S);
    on_deadline(s);
    expect(s, "kill kill ");
    assert_true(uma_next_deadline(s->uma) == INSTANT_NEVER); // once
    stage_destroy(s);
}

static void a_unit_that_ends_is_not_joined(void **state)
{
    struct stage *s = stage_of_two();
    uma_volume_remove(s->uma, "b", s->now);
    struct unit_message closed = {.kind = UNIT_CLOSE, .volume = s->volume};
    uma_on_message(s->uma, 1, &closed, -1, s->now);
    volume_add(s, "d", "v");
    assert_string_equal(status_of(s, 2).name, "v");
    assert_int_equal(s->uma->unit_end, 3);
    volume_add(s, "e", "u"); // the one that serves is
    assert_int_equal(s->uma->unit_end, 3);
    stage_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_cannot_be_started_is_told_of),
        cmocka_unit_test(each_restart_is_counted_and_failures_until_it_serves),
        cmocka_unit_test(a_process_of_another_version_is_ended),
        cmocka_unit_test(a_unit_is_ended_with_its_own_last_volume),
        cmocka_unit_test(all_units_are_drained_and_the_end_is_told_once),
        cmocka_unit_test(who_does_not_drain_is_killed_in_time),
        cmocka_unit_test(a_unit_that_ends_is_not_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
