// The tables and questions that all agents of the node share.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "node/interface/cta_rta.h"
#include "node/interface/cta_tts.h"
#include "node/interface/rta_ddm.h"
#include "node/interface/uma_cta.h"
#include "node/interface/uma_rta.h"
#include "node/interface/uma_tts.h"

static struct volume_profile sane_profile(void)
{
    return (struct volume_profile){.size = 1 << 20,
                                   .abilities = VOLUME_CAN_WRITE,
                                   .block_size = 512,
                                   .alignment = 1,
                                   .preferred = 4096,
                                   .transfer_max = 1 << 20,
                                   .range_max = 1 << 30,
                                   .depth = 32,
                                   .driver = "ram"};
}

static void every_operation_has_a_row(void **state)
{
    for (unsigned i = 0; i < NODE_OPERATION_COUNT; i++) {
        assert_non_null(node_operation_facts(i)->name);
        assert_int_equal(node_operation_facts(i)->flags & ~NODE_FLAG_ALL, 0);
    }
    assert_null(node_operation_facts(NODE_OPERATION_COUNT));
}

static void every_outcome_has_a_name(void **state)
{
    for (unsigned i = 0; i < NODE_COMPLETION_COUNT; i++) {
        assert_string_not_equal(node_completion_name(i), "unknown");
    }
    for (unsigned i = 0; i < CONNECT_STATUS_COUNT; i++) {
        assert_non_null(connect_status_name(i));
    }
    assert_string_equal(node_completion_name(NODE_COMPLETION_COUNT), "unknown");
}

static void a_range_is_within_without_overflow(void **state)
{
    assert_true(node_range_is_within(0, 10, 10));
    assert_true(node_range_is_within(10, 0, 10));
    assert_false(node_range_is_within(1, 10, 10));
    assert_false(node_range_is_within(UINT64_MAX, 2, 10));
    assert_false(node_range_is_within(5, UINT64_MAX, 10));
}

static void ranges_overlap_by_one_octet(void **state)
{
    assert_true(node_ranges_overlap(0, 5, 4, 1));
    assert_true(node_ranges_overlap(4, 1, 0, 5));
    assert_false(node_ranges_overlap(0, 4, 4, 1));
    assert_false(node_ranges_overlap(4, 1, 0, 4));
    assert_false(node_ranges_overlap(4, 0, 0, 8));
}

static void a_sane_profile_is_believed(void **state)
{
    struct volume_profile profile = sane_profile();
    assert_true(volume_profile_is_sane(&profile));
}

static void an_impossible_profile_is_not(void **state)
{
    struct volume_profile p[8];
    for (size_t i = 0; i < 8; i++) {
        p[i] = sane_profile();
    }
    p[0].block_size = 513;
    p[1].alignment = 0;
    p[2].alignment = 1024;
    p[3].transfer_max = NODE_TRANSFER_MAX + 1;
    p[4].depth = 0;
    p[5].abilities = 1U << 31;
    memset(p[6].driver, 'x', sizeof p[6].driver);
    p[7].size = UINT64_MAX;
    for (size_t i = 0; i < 8; i++) {
        assert_false(volume_profile_is_sane(&p[i]));
    }
}

static void a_volume_is_found_by_name_and_number(void **state)
{
    const struct resource rows[] = {{.volume = 3, .name = "a"}, {.volume = 7, .name = "b"}};
    const struct resource_table table = {.count = 2, .rows = rows};
    assert_ptr_equal(resource_by_name(&table, "b"), &rows[1]);
    assert_ptr_equal(resource_by_volume(&table, 3), &rows[0]);
    assert_null(resource_by_name(&table, "c"));
    assert_null(resource_by_volume(&table, 1));
}

static void note_end(void *ctx, struct ddm_command *command)
{
    *(int *)ctx = *(int *)ctx * 10 + (int)command->end_count;
}

static void a_command_ends_from_the_inside_out(void **state)
{
    struct ddm_command command = {0};
    int heard = 0;
    ddm_command_expect(&command, note_end, &heard);
    ddm_command_expect(&command, note_end, &heard);
    ddm_command_end(&command);
    assert_int_equal(heard, 1);
    ddm_command_finish(&command, NODE_MEDIA, 5);
    assert_int_equal(heard, 10);
    assert_int_equal(command.completion, NODE_MEDIA);
}

// Of a message that a stranger wrote nobody knows that its text ends.
static void a_reason_crosses_as_far_as_a_message_has_room(void **state)
{
    struct unit_message message;
    struct why sent, got;
    memset(&message, 0xff, sizeof message);
    memset(&sent, 'r', sizeof sent);
    sent.text[WHY_MAX - 1] = '\0';
    unit_message_put_why(&message, &sent);
    unit_message_why(&message, &got);
    assert_int_equal(strlen(message.why), UNIT_WHY_MAX - 1);
    assert_string_equal(got.text, message.why);
    memset(message.why, 's', sizeof message.why);
    unit_message_why(&message, &got);
    assert_int_equal(strlen(got.text), UNIT_WHY_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_a_row),
        cmocka_unit_test(every_outcome_has_a_name),
        cmocka_unit_test(a_range_is_within_without_overflow),
        cmocka_unit_test(ranges_overlap_by_one_octet),
        cmocka_unit_test(a_sane_profile_is_believed),
        cmocka_unit_test(an_impossible_profile_is_not),
        cmocka_unit_test(a_volume_is_found_by_name_and_number),
        cmocka_unit_test(a_command_ends_from_the_inside_out),
        cmocka_unit_test(a_reason_crosses_as_far_as_a_message_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
