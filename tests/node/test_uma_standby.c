// Volumes that other nodes serve too: when they are ours, and what becomes of them else.

#include "tests/node/uma_stage.h"

static enum resource_state state(const struct stage *s)
{
    return resource_by_name(uma_resources(s->uma), "a")->state;
}

static struct unit_message standby(const struct stage *s)
{
    struct unit_message message = opened(s->volume);
    message.kind = UNIT_STANDBY;
    return message;
}

// A unit whose process has been told to open the volume.
static struct stage *stage_opening(bool may_stand_by)
{
    struct stage *s = stage_create();
    struct volume_wish w = wish("a");
    w.may_stand_by = may_stand_by;
    assert_int_equal(uma_volume_add(s->uma, &w, s->now), 0);
    uma_start(s->uma, s->now);
    say_hello(s);
    s->notes[0] = '\0';
    return s;
}

static struct stage *stage_standing_by(void)
{
    struct stage *s = stage_opening(true);
    hear(s, standby(s));
    s->notes[0] = '\0';
    return s;
}

static struct stage *stage_ours(void)
{
    struct stage *s = stage_opening(true);
    hear(s, opened(s->volume));
    s->notes[0] = '\0';
    return s;
}

// Its process goes, and another one is told to open the volume.
static void come_again(struct stage *s)
{
    uma_on_exit(s->uma, 0, "killed", s->now);
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    say_hello(s);
}

static void a_node_starts_though_another_has_its_volume(void **unused)
{
    struct stage *s = stage_opening(true);
    hear(s, standby(s));
    expect(s, "cta-standby tts-start ");
    assert_int_equal(state(s), RESOURCE_STANDBY);
    assert_string_equal(s->line, "volume a: another node has it: standing by");
    assert_true(uma_is_settled(s->uma));
    stage_destroy(s);
}

static void who_connects_meanwhile_is_admitted_and_told_to_the_process_later(void **unused)
{
    struct stage *s = stage_standing_by();
    struct connect_request request = connect_to(s, s->volume);
    uma_for_tts.connect(s->uma, &request);
    expect(s, "cta-standby route-add connected-0 ");
    hear(s, opened(s->volume));
    expect(s, "add ");
    assert_int_equal(state(s), RESOURCE_STANDBY);
    hear(s, (struct unit_message){.kind = UNIT_CONNECTION_ADD, .connection = request.connection});
    expect(s, "cta-ours cta-ready "); // in this order: nothing of before is let through
    assert_int_equal(state(s), RESOURCE_READY);
    assert_string_equal(s->line, "volume a: taken over: it is this node's now");
    stage_destroy(s);
}

static void a_volume_is_not_ours_from_when_its_process_is_gone(void **unused)
{
    struct stage *s = stage_ours();
    assert_int_equal(state(s), RESOURCE_READY);
    come_again(s);
    expect(s, "cta-lost cta-standby spawn open ");
    assert_int_equal(state(s), RESOURCE_STANDBY);
    hear(s, standby(s));
    expect(s, "cta-standby ");
    hear(s, opened(s->volume));
    expect(s, "cta-ours cta-ready ");
    stage_destroy(s);
}

static void who_waits_to_be_connected_when_the_process_goes_is_admitted(void **unused)
{
    struct stage *s = stage_ours();
    struct connect_request request = connect_to(s, s->volume);
    uma_for_tts.connect(s->uma, &request);
    expect(s, "cta-ours route-add add ");
    uma_on_exit(s->uma, 0, "killed", s->now);
    expect(s, "cta-lost cta-standby connected-0 ");
    stage_destroy(s);
}

static void a_volume_is_handed_over_when_the_operator_says_so(void **unused)
{
    struct stage *s = stage_ours();
    assert_int_equal(uma_volume_stand_by(s->uma, "b", s->now), -ENOENT);
    assert_int_equal(uma_volume_stand_by(s->uma, "a", s->now), 0);
    expect(s, "cta-lost cta-standby yield ");
    assert_int_equal(uma_volume_stand_by(s->uma, "a", s->now), -EALREADY);
    uma_on_exit(s->uma, 0, "ended", s->now);
    s->notes[0] = '\0';
    uma_on_deadline(s->uma, s->now + NS_PER_S); // another node has time to take it
    expect(s, "");
    uma_on_deadline(s->uma, s->now + 2 * NS_PER_S);
    expect(s, "spawn ");
    stage_destroy(s);
}

static void a_process_that_does_not_yield_in_time_is_killed(void **unused)
{
    struct stage *s = stage_ours();
    assert_int_equal(uma_volume_stand_by(s->uma, "a", s->now), 0);
    expect(s, "cta-lost cta-standby yield ");
    uma_on_deadline(s->uma, s->now + 5 * NS_PER_S - 1);
    expect(s, "");
    s->now += 5 * NS_PER_S;
    uma_on_deadline(s->uma, s->now);
    expect(s, "kill ");
    uma_on_exit(s->uma, 0, "killed", s->now);
    uma_on_deadline(s->uma, s->now + 2 * NS_PER_S);
    say_hello(s);
    expect(s, "cta-lost cta-standby spawn open ");
    uma_for_cta.on_unit_broken(s->uma, 0, "it spoiled the bus"); // else it is killed, as ever
    expect(s, "cta-lost cta-standby kill ");
    stage_destroy(s);
}

static void a_volume_of_one_node_is_not_handed_over(void **unused)
{
    struct stage *s = stage_ready();
    assert_int_equal(uma_volume_stand_by(s->uma, "a", s->now), -EINVAL);
    expect(s, "");
    stage_destroy(s);
}

static void a_volume_that_stands_by_is_removed_with_its_process(void **unused)
{
    struct stage *s = stage_standing_by();
    assert_int_equal(uma_volume_remove(s->uma, "a", s->now), 0);
    expect(s, "cta-lost cta-standby kill drain ");
    uma_on_exit(s->uma, 0, "killed", s->now);
    expect(s, "cta-lost cta-remove ");
    assert_false(uma_has_volume(s->uma, "a"));
    stage_destroy(s);
}

static void a_process_that_waits_is_not_asked_to_end(void **unused)
{
    struct stage *s = stage_standing_by();
    uma_stop(s->uma, s->now);
    expect(s, "tts-stop kill ");
    uma_on_exit(s->uma, 0, "killed", s->now);
    expect(s, "cta-lost cta-standby cta-remove stopped ");
    stage_destroy(s);
}

static void only_what_may_stands_by(void **unused)
{
    struct stage *s = stage_opening(false);
    hear(s, standby(s));
    expect(s, "cta-lost kill ");
    assert_string_equal(s->line, "RTA u: stands by unasked");
    stage_destroy(s);
}

static void who_stands_by_is_believed_no_more_for_an_error(void **unused)
{
    struct stage *s = stage_opening(true);
    struct unit_message message = standby(s);
    message.error = -EIO;
    message.profile.block_size = 0;
    memset(message.profile.model, 'm', sizeof message.profile.model); // without an end
    hear(s, message);
    expect(s, "cta-lost cta-standby kill ");
    assert_string_equal(s->line, "RTA u: answered with a profile that cannot be");
    stage_destroy(s);
}

static void who_stands_by_does_so_for_the_same_device(void **unused)
{
    struct stage *s = stage_ours();
    come_again(s);
    s->notes[0] = '\0';
    struct unit_message message = standby(s);
    message.error = -EIO;
    snprintf(message.profile.origin, sizeof message.profile.origin, "another");
    hear(s, message);
    expect(s, "cta-lost cta-standby kill ");
    stage_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_starts_though_another_has_its_volume),
        cmocka_unit_test(who_connects_meanwhile_is_admitted_and_told_to_the_process_later),
        cmocka_unit_test(a_volume_is_not_ours_from_when_its_process_is_gone),
        cmocka_unit_test(who_waits_to_be_connected_when_the_process_goes_is_admitted),
        cmocka_unit_test(a_volume_is_handed_over_when_the_operator_says_so),
        cmocka_unit_test(a_process_that_does_not_yield_in_time_is_killed),
        cmocka_unit_test(a_volume_of_one_node_is_not_handed_over),
        cmocka_unit_test(a_volume_that_stands_by_is_removed_with_its_process),
        cmocka_unit_test(a_process_that_waits_is_not_asked_to_end),
        cmocka_unit_test(only_what_may_stands_by),
        cmocka_unit_test(who_stands_by_is_believed_no_more_for_an_error),
        cmocka_unit_test(who_stands_by_does_so_for_the_same_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
