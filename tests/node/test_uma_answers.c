// What a process answers about its volumes, and what becomes of it: the row in the table of
// resources, the identity, descriptors, and what the operator reads.
#include "tests/node/uma_stage.h"

static const struct resource *row_of(const struct stage *s, const char *name)
{
    return resource_by_name(uma_resources(s->uma), name);
}

static void hear_with(struct stage *s, struct unit_message message, int fd)
{
    uma_on_message(s->uma, 0, &message, fd, s->now);
}

static void add(struct stage *s, const struct volume_wish *w)
{
    assert_int_equal(uma_volume_add(s->uma, w, s->now), 0);
}

static void add_named(struct stage *s, const char *name)
{
    struct volume_wish w = wish(name);
    add(s, &w);
}

static unsigned count(const char *text, const char *word)
{
    unsigned found = 0;
    while ((text = strstr(text, word)) != NULL) {
        found++;
        text++;
    }
    return found;
}

static unsigned closed(struct stage *s)
{
    unsigned found = count(s->notes, "close-keepsake");
    s->notes[0] = '\0';
    return found;
}

/* ---- the row --------------------------------------------------------------------------------- */

static void a_volume_to_be_read_only_has_no_ability_that_writes(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("b");
    for (unsigned i = 0; i < 2; i++) {
        snprintf(w.name, sizeof w.name, "b%u", i);
        w.read_only = i == 1;
        add(s, &w);
        struct unit_message message = opened(s->volume);
        message.profile.abilities = VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH | VOLUME_CAN_TRIM |
                                    VOLUME_CAN_WRITE_ZEROES | VOLUME_CAN_ZERO_FAST | VOLUME_CAN_FUA;
        hear(s, message);
        assert_int_equal(row_of(s, w.name)->abilities,
                         w.read_only ? VOLUME_CAN_FLUSH : message.profile.abilities);
    }
    stage_destroy(s);
}

static void a_row_has_the_groups_and_each_table_the_next_number(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("b");
    snprintf(w.places[VOLUME_IN_SUBSYSTEM].group, VOLUME_GROUP_MAX, "one");
    snprintf(w.places[VOLUME_IN_TARGET].group, VOLUME_GROUP_MAX, "two");
    uint64_t before = uma_resources(s->uma)->generation;
    add(s, &w);
    assert_int_equal(uma_resources(s->uma)->generation, before + 1);
    hear(s, opened(s->volume));
    assert_int_equal(uma_resources(s->uma)->generation, before + 2);
    assert_string_equal(row_of(s, "b")->places[VOLUME_IN_SUBSYSTEM].group, "one");
    assert_string_equal(row_of(s, "b")->places[VOLUME_IN_TARGET].group, "two");
    stage_destroy(s);
}

static void an_identity_is_as_wished_or_as_the_host_makes_it(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("b");
    memset(&w.identity, 0x77, sizeof w.identity);
    for (unsigned i = 0; i < 4; i++) {
        snprintf(w.name, sizeof w.name, "b%u", i);
        w.has_uuid = (i & 1) != 0;
        w.has_alias = (i & 2) != 0;
        add(s, &w);
        hear(s, opened(s->volume));
        const struct volume_identity *is = &row_of(s, w.name)->identity;
        assert_int_equal(is->uuid[3], w.has_uuid ? 0x77 : 0x11);
        assert_int_equal(is->alias[3], w.has_alias ? 0x77 : 0x11);
    }
    stage_destroy(s);
}

/* ---- reservations ---------------------------------------------------------------------------- */

static char a_book;

static struct reservation *book_join(void *ctx, const struct volume_identity *identity)
{
    note(ctx, "join-%x ", identity->uuid[0]);
    return (struct reservation *)&a_book;
}

static void book_leave(void *ctx, struct reservation *reservation)
{
    note(ctx, "leave ");
    assert_ptr_equal(reservation, &a_book);
}

// Another node knows nothing of what is reserved here.
static void a_volume_has_reservations_unless_it_may_stand_by(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("c");
    s->uma->parts.reservation_join = book_join;
    s->uma->parts.reservation_leave = book_leave;
    add_named(s, "b");
    uint32_t b = s->volume;
    hear(s, opened(b));
    assert_non_null(strstr(s->notes, "join-11 "));
    assert_ptr_equal(uma_for_tts.reservation(s->uma, b), &a_book);
    s->notes[0] = '\0';
    w.may_stand_by = true;
    add(s, &w);
    hear(s, opened(s->volume));
    assert_null(strstr(s->notes, "join"));
    assert_null(uma_for_tts.reservation(s->uma, s->volume));
    uma_volume_remove(s->uma, "c", s->now);
    hear(s, (struct unit_message){.kind = UNIT_CLOSE, .volume = s->volume});
    assert_null(strstr(s->notes, "leave"));
    uma_volume_remove(s->uma, "b", s->now);
    hear(s, (struct unit_message){.kind = UNIT_CLOSE, .volume = b});
    assert_non_null(strstr(s->notes, "leave"));
    stage_destroy(s);
}

/* ---- what the operator reads ----------------------------------------------------------------- */

static void a_reason_is_told_once(void **state)
{
    struct stage *s = stage_ready();
    add_named(s, "b");
    struct unit_message message = failed(s->volume);
    hear(s, message);
    assert_string_equal(s->line, "volume b: not opened: nothing there");
    s->line[0] = '\0';
    uma_rescan(s->uma, s->now);
    hear(s, message);
    assert_string_equal(s->line, "");
    uma_rescan(s->uma, s->now);
    snprintf(message.why, sizeof message.why, "no more");
    hear(s, message);
    assert_string_equal(s->line, "volume b: not opened: no more");
    uma_rescan(s->uma, s->now);
    hear(s, opened(s->volume));
    assert_string_equal(uma_volume_why(s->uma, s->volume), "");
    stage_destroy(s);
}

// The host says then why it does not.
static void before_the_node_has_started_no_reason_is_told(void **state)
{
    struct stage *s = stage_create();
    add_named(s, "a");
    uma_start(s->uma, s->now);
    say_hello(s);
    s->tts_error = -EADDRINUSE;
    hear(s, failed(s->volume));
    assert_string_equal(s->line, "");
    stage_destroy(s);
}

static void an_answer_that_cannot_be_is_told_of(void **state)
{
    struct stage *s = stage_ready();
    hear(s, opened(99));
    assert_non_null(strstr(s->line, "answered for a volume that is not its"));
    expect(s, "cta-lost kill ");
    stage_destroy(s);

    s = stage_ready();
    struct unit_message message = opened(s->volume);
    message.kind = UNIT_PROBE;
    snprintf(message.profile.origin, sizeof message.profile.origin, "another");
    hear(s, message);
    assert_non_null(strstr(s->line, "answered for another device than the one that was first"));
    expect(s, "cta-lost kill ");
    stage_destroy(s);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static void a_descriptor_that_nobody_awaits_is_closed(void **state)
{
    struct stage *s = stage_ready();
    hear_with(s, opened(s->volume), 7); // it is open
    assert_int_equal(closed(s), 1);
    add_named(s, "b");
    struct unit_message message = failed(s->volume);
    message.is_window = 1;
    hear_with(s, message, 8); // a window into what is not open
    assert_null(strstr(s->notes, "window-"));
    assert_int_equal(closed(s), 1);
    stage_destroy(s);
}

static void a_keepsake_is_kept_until_there_is_another(void **state)
{
    struct stage *s = stage_ready();
    add_named(s, "b");
    struct unit_message message = failed(s->volume);
    hear_with(s, message, 7);
    assert_int_equal(closed(s), 0);
    uma_rescan(s->uma, s->now);
    assert_int_equal(s->told_fd, 7);
    hear_with(s, opened(s->volume), 8);
    assert_int_equal(closed(s), 1);
    uma_volume_remove(s->uma, "b", s->now);
    s->notes[0] = '\0';
    hear(s, (struct unit_message){.kind = UNIT_CLOSE, .volume = s->volume});
    assert_int_equal(closed(s), 1);
    assert_int_equal(s->forgotten, s->volume);
    assert_null(row_of(s, "b"));
    stage_destroy(s);
}

static void a_place_that_was_left_holds_nothing_of_its_last_volume(void **state)
{
    struct stage *s = stage_ready();
    add_named(s, "b");
    hear_with(s, opened(s->volume), 7);
    uma_volume_remove(s->uma, "b", s->now);
    hear(s, (struct unit_message){.kind = UNIT_CLOSE, .volume = s->volume});
    add_named(s, "c");
    assert_int_equal(s->told_fd, -1);
    hear(s, opened(s->volume));
    s->notes[0] = '\0';
    uma_volume_remove(s->uma, "c", s->now);
    hear(s, (struct unit_message){.kind = UNIT_CLOSE, .volume = s->volume});
    assert_int_equal(closed(s), 0);
    stage_destroy(s);
}

static void a_window_is_told_with_its_size_and_its_end(void **state)
{
    struct stage *s = stage_ready();
    add_named(s, "b");
    struct unit_message message = opened(s->volume);
    message.is_window = message.keeps_pages = 1;
    s->notes[0] = '\0';
    hear_with(s, message, 0); // a descriptor as good as any
    assert_non_null(strstr(s->notes, "keep window-0:1048576 "));
    uma_rescan(s->uma, s->now);
    message.kind = UNIT_PROBE;
    message.profile.size *= 2;
    s->notes[0] = '\0';
    hear(s, message);
    assert_non_null(strstr(s->notes, "window-0:2097152 "));
    uma_volume_remove(s->uma, "b", s->now);
    s->notes[0] = '\0';
    hear(s, (struct unit_message){.kind = UNIT_CLOSE, .volume = s->volume});
    assert_non_null(strstr(s->notes, "window--1:0 close-keepsake "));
    stage_destroy(s);
}

/* ---- probing and loss ------------------------------------------------------------------------ */

static void a_probe_that_failed_changes_nothing(void **state)
{
    struct stage *s = stage_ready();
    uma_rescan(s->uma, s->now);
    struct unit_message message = opened(s->volume);
    message.kind = UNIT_PROBE;
    message.error = -EIO;
    message.profile.size *= 2;
    unsigned before = s->advertised;
    hear(s, message);
    assert_int_equal(row_of(s, "a")->profile.size, 1 << 20);
    message = opened(s->volume);
    message.kind = UNIT_PROBE;
    hear(s, message); // as it was
    assert_int_equal(s->advertised, before);
    stage_destroy(s);
}

static void a_probe_ends_with_the_process_that_was_asked(void **state)
{
    struct stage *s = stage_ready();
    uma_rescan(s->uma, s->now);
    assert_false(uma_is_settled(s->uma));
    uma_on_exit(s->uma, 0, "killed", s->now);
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    say_hello(s);
    hear(s, opened(s->volume));
    assert_true(uma_is_settled(s->uma));
    stage_destroy(s);
}

static void who_waits_for_another_node_waits_no_more_without_its_process(void **state)
{
    struct stage *s = stage_ready();
    struct volume_wish w = wish("b");
    w.may_stand_by = true;
    add(s, &w);
    struct unit_message message = opened(s->volume);
    message.kind = UNIT_STANDBY;
    hear(s, message);
    assert_true(uma_is_settled(s->uma));
    assert_int_equal(row_of(s, "b")->state, RESOURCE_STANDBY);
    uma_on_exit(s->uma, 0, "killed", s->now);
    assert_false(uma_is_settled(s->uma));
    s->now = uma_next_deadline(s->uma);
    uma_on_deadline(s->uma, s->now);
    say_hello(s);
    hear(s, message);
    s->line[0] = '\0';
    hear(s, opened(s->volume));
    assert_non_null(strstr(s->line, "volume b: taken over: it is this node's now"));
    s->line[0] = '\0';
    hear(s, opened(1)); // which has never waited
    assert_string_equal(s->line, "");
    stage_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_volume_to_be_read_only_has_no_ability_that_writes),
        cmocka_unit_test(a_row_has_the_groups_and_each_table_the_next_number),
        cmocka_unit_test(an_identity_is_as_wished_or_as_the_host_makes_it),
        cmocka_unit_test(a_volume_has_reservations_unless_it_may_stand_by),
        cmocka_unit_test(a_reason_is_told_once),
        cmocka_unit_test(before_the_node_has_started_no_reason_is_told),
        cmocka_unit_test(an_answer_that_cannot_be_is_told_of),
        cmocka_unit_test(a_descriptor_that_nobody_awaits_is_closed),
        cmocka_unit_test(a_keepsake_is_kept_until_there_is_another),
        cmocka_unit_test(a_place_that_was_left_holds_nothing_of_its_last_volume),
        cmocka_unit_test(a_window_is_told_with_its_size_and_its_end),
        cmocka_unit_test(a_probe_that_failed_changes_nothing),
        cmocka_unit_test(a_probe_ends_with_the_process_that_was_asked),
        cmocka_unit_test(who_waits_for_another_node_waits_no_more_without_its_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
