// How long the UMA waits for what, to the nanosecond: for processes that do not start, do not say
// hello, die again and again, do not end; and for volumes that cannot be opened.
#include "tests/node/uma_stage.h"

// Nothing happens before the next deadline, which is `wait` away; what happens then is noted.
static void expect_wait(struct stage *s, duration_ns wait)
{
    instant_ns due = uma_next_deadline(s->uma);
    assert_int_equal(due - s->now, wait);
    s->notes[0] = '\0';
    if (wait > 0) {
        uma_on_deadline(s->uma, due - 1);
        expect(s, "");
    }
    s->now = due;
    uma_on_deadline(s->uma, due);
}

static void die(struct stage *s)
{
    uma_on_exit(s->uma, 0, "killed", s->now);
}

static void serve(struct stage *s, duration_ns how_long)
{
    say_hello(s);
    hear(s, opened(1));
    s->now += how_long;
}

static void each_death_doubles_the_wait_up_to_five_seconds(void **state)
{
    static const unsigned waits_ms[] = {0, 100, 300, 700, 1500, 3100, 4900, 4900};
    struct stage *s = stage_ready();
    for (unsigned i = 0; i < sizeof waits_ms / sizeof waits_ms[0]; i++) {
        die(s);
        expect_wait(s, waits_ms[i] * NS_PER_MS);
        expect(s, "spawn ");
    }
    stage_destroy(s);
}

static void who_has_served_is_soon_back(void **state)
{
    static const struct {
        unsigned served_ms, wait_ms;
    } table[] = {{500, 0}, {499, 900}}; // it was no loop; or clients wait, but one second at most
    for (unsigned i = 0; i < 2; i++) {
        struct stage *s = stage_ready();
        for (unsigned k = 0; k < 8; k++) {
            die(s);
            s->now = uma_next_deadline(s->uma);
            uma_on_deadline(s->uma, s->now);
        }
        serve(s, table[i].served_ms * NS_PER_MS);
        die(s);
        expect_wait(s, table[i].wait_ms * NS_PER_MS);
        expect(s, "spawn ");
        stage_destroy(s);
    }
}

static void a_process_that_cannot_be_started_is_tried_again(void **state)
{
    static const unsigned waits_ms[] = {0, 100, 300};
    struct stage *s = stage_create();
    struct volume_wish w = wish("a");
    uma_volume_add(s->uma, &w, s->now);
    s->spawn_error = -EAGAIN;
    uma_start(s->uma, s->now);
    assert_non_null(strstr(s->line, "its process could not be started: Resource temporarily"));
    for (unsigned i = 0; i < sizeof waits_ms / sizeof waits_ms[0]; i++) {
        expect_wait(s, waits_ms[i] * NS_PER_MS);
    }
    s->spawn_error = 0;
    expect_wait(s, 700 * NS_PER_MS);
    serve(s, 0);
    assert_int_equal(resource_by_name(uma_resources(s->uma), "a")->state, RESOURCE_READY);
    stage_destroy(s);
}

static void status_of(struct stage *s, unsigned failures, const char *why)
{
    struct uma_unit_status status;
    assert_true(uma_unit_status(s->uma, 0, &status));
    assert_int_equal(status.failures, failures);
    assert_string_equal(status.why, why);
}

static void the_status_counts_processes_in_vain_until_one_serves(void **state)
{
    struct stage *s = stage_ready();
    status_of(s, 0, "");
    die(s); // it had served
    status_of(s, 0, "killed");
    for (unsigned i = 1; i <= 3; i++) {
        s->now = uma_next_deadline(s->uma);
        uma_on_deadline(s->uma, s->now);
        die(s);
        status_of(s, i, "killed");
    }
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    uma_for_cta.on_unit_broken(s->uma, 0, "it spoiled the bus");
    die(s); // by the UMA
    status_of(s, 4, "it spoiled the bus");
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    serve(s, 0);
    status_of(s, 0, "");
    stage_destroy(s);
}

static void a_process_has_twenty_seconds_to_say_hello(void **state)
{
    struct stage *s = stage_create();
    struct volume_wish w = wish("a");
    uma_volume_add(s->uma, &w, s->now);
    uma_start(s->uma, s->now);
    expect_wait(s, 20 * NS_PER_S);
    expect(s, "cta-lost kill ");
    stage_destroy(s);
}

// So that many, who have the processors in turn, are not ended for being many.
static void processes_that_start_together_have_longer(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    struct stage *s = stage_create();
    for (unsigned i = 0; i < 3; i++) {
        struct volume_wish w = wish(names[i]);
        snprintf(w.unit, sizeof w.unit, "%s", names[i]);
        uma_volume_add(s->uma, &w, s->now);
    }
    uma_start(s->uma, s->now);
    expect_wait(s, 20 * NS_PER_S);
    expect(s, "cta-lost kill ");
    expect_wait(s, 100 * NS_PER_MS);
    expect(s, "cta-lost kill ");
    expect_wait(s, 100 * NS_PER_MS);
    expect(s, "cta-lost kill ");
    stage_destroy(s);
}

static void a_volume_that_failed_is_opened_again_after_two_seconds(void **state)
{
    struct stage *s = stage_create();
    struct volume_wish w = wish("a");
    uma_volume_add(s->uma, &w, s->now);
    uma_start(s->uma, s->now);
    say_hello(s);
    for (unsigned i = 0; i < 3; i++) {
        hear(s, failed(1));
        expect_wait(s, 2 * NS_PER_S);
        expect(s, "open ");
    }
    hear(s, opened(1));
    assert_int_equal(resource_by_name(uma_resources(s->uma), "a")->state, RESOURCE_READY);
    assert_int_equal(uma_next_deadline(s->uma), INSTANT_NEVER);
    stage_destroy(s);
}

static void a_process_has_five_seconds_to_end(void **state)
{
    struct stage *s = stage_ready();
    uma_stop(s->uma, s->now);
    expect_wait(s, 5 * NS_PER_S);
    expect(s, "kill ");
    die(s);
    expect(s, "cta-lost cta-remove stopped ");
    stage_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_death_doubles_the_wait_up_to_five_seconds),
        cmocka_unit_test(who_has_served_is_soon_back),
        cmocka_unit_test(a_process_that_cannot_be_started_is_tried_again),
        cmocka_unit_test(the_status_counts_processes_in_vain_until_one_serves),
        cmocka_unit_test(a_process_has_twenty_seconds_to_say_hello),
        cmocka_unit_test(processes_that_start_together_have_longer),
        cmocka_unit_test(a_volume_that_failed_is_opened_again_after_two_seconds),
        cmocka_unit_test(a_process_has_five_seconds_to_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
