// The tables and questions that all agents of the node share.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

static void every_operation_is_what_the_protocols_have_it_for(void **state)
{
    static const struct {
        unsigned operation;
        const char *name, *facts; // Range, to the Client, to the Device, Writes, looks first (M)
        unsigned flags;
    } rows[] = {
        {NODE_READ, "read", "rc", 0},
        {NODE_WRITE, "write", "rdw", NODE_FUA},
        {NODE_FLUSH, "flush", "", NODE_FOR_READ},
        {NODE_TRIM, "trim", "rw", NODE_FUA},
        {NODE_WRITE_ZEROES, "write zeroes", "rw", NODE_FUA | NODE_NO_HOLE | NODE_FAST_ONLY},
        {NODE_EXTENTS, "extents", "rc", 0},
        {NODE_PROFILE, "profile", "c", 0},
        {NODE_COMPARE, "compare", "rdm", 0},
        {NODE_COMPARE_AND_WRITE, "compare and write", "rdwm", NODE_FUA},
        {NODE_OR_WRITE, "or write", "rdwm", NODE_FUA},
    };
    assert_int_equal(sizeof rows / sizeof rows[0], NODE_OPERATION_COUNT);
    for (unsigned i = 0; i < NODE_OPERATION_COUNT; i++) {
        const struct node_operation_facts *f = node_operation_facts(rows[i].operation);
        char facts[8];
        snprintf(facts, sizeof facts, "%s%s%s%s%s", f->has_range ? "r" : "",
                 f->moves_to_client ? "c" : "", f->moves_to_device ? "d" : "",
                 f->changes ? "w" : "", f->reads_first ? "m" : "");
        assert_string_equal(f->name, rows[i].name);
        assert_string_equal(facts, rows[i].facts);
        assert_int_equal(f->flags, rows[i].flags);
    }
}

static void every_outcome_is_called_what_it_is(void **state)
{
    static const struct {
        unsigned outcome;
        const char *name;
    } rows[] = {{NODE_OK, "ok"},
                {NODE_RETRY, "retry"},
                {NODE_MALFORMED, "malformed"},
                {NODE_RANGE, "range"},
                {NODE_UNSUPPORTED, "unsupported"},
                {NODE_READ_ONLY, "read only"},
                {NODE_NO_SPACE, "no space"},
                {NODE_MEDIA, "media"},
                {NODE_TRANSFER, "transfer"},
                {NODE_TIMED_OUT, "timed out"},
                {NODE_NO_VOLUME, "no volume"},
                {NODE_INTERNAL, "internal"},
                {NODE_RESERVED, "reserved"},
                {NODE_MISCOMPARE, "miscompare"},
                {NODE_STANDBY, "standby"}};
    assert_int_equal(sizeof rows / sizeof rows[0], NODE_COMPLETION_COUNT);
    for (unsigned i = 0; i < NODE_COMPLETION_COUNT; i++) {
        assert_string_equal(node_completion_name(rows[i].outcome), rows[i].name);
    }
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

// Its own UUID first, then those behind it, as many as there is room for; and what is none of it.
static void a_lineage_is_told_and_understood(void **state)
{
    struct resource row = {.identity.uuid = {7}};
    struct volume_lineage *behind = &row.profile.lineage, read;
    uint8_t octets[VOLUME_LINEAGE_LEN];
    for (unsigned i = 0; i < VOLUME_LINEAGE_MAX; i++) {
        behind->uuids[i][0] = (uint8_t)(i + 10);
    }
    for (unsigned count = 0; count <= VOLUME_LINEAGE_MAX; count++) {
        behind->count = count;
        volume_lineage_emit(&row, octets);
        volume_lineage_parse(octets, sizeof octets, &read);
        assert_int_equal(read.count, count < VOLUME_LINEAGE_MAX ? 1 + count : VOLUME_LINEAGE_MAX);
        assert_int_equal(read.uuids[0][0], 7);
        for (unsigned i = 1; i < read.count; i++) {
            assert_memory_equal(read.uuids[i], behind->uuids[i - 1], VOLUME_UUID_LEN);
        }
    }
    volume_lineage_parse(octets, sizeof octets - 1, &read);
    assert_int_equal(read.count, 0);
    octets[8]++; // more than there can be
    volume_lineage_parse(octets, sizeof octets, &read);
    assert_int_equal(read.count, 0);
    octets[8] = 1;
    octets[0] ^= 1;
    volume_lineage_parse(octets, sizeof octets, &read);
    assert_int_equal(read.count, 0);
}

// The volume that is told of may be called as one of the table; what it is made of counts.
static void a_lineage_is_of_a_table_by_what_is_behind(void **state)
{
    const struct resource rows[] = {{.identity.uuid = {7}}, {.identity.uuid = {8}}};
    const struct resource_table table = {.count = 2, .rows = rows};
    struct volume_lineage told = {.count = 3, .uuids = {{7}, {9}, {8}, {7}}};
    assert_true(volume_lineage_is_of(&told, &table));
    told.count = 2;
    assert_false(volume_lineage_is_of(&told, &table));
    told.count = UINT32_MAX; // from who is not believed
    assert_true(volume_lineage_is_of(&told, &table));
    told = (struct volume_lineage){.count = UINT32_MAX};
    assert_false(volume_lineage_is_of(&told, &table));
    told.count = 0;
    assert_false(volume_lineage_is_of(&told, &table));
}

static void a_sane_profile_is_believed(void **state)
{
    struct volume_profile profile = sane_profile();
    assert_true(volume_profile_is_sane(&profile));
}

// Each bound of a profile, at it and one beyond.
static void a_profile_is_possible_up_to_its_bounds(void **state)
{
    enum { SIZE, ABILITIES, BLOCK, ALIGNMENT, PREFERRED, TRANSFER, RANGE, DEPTH, LINEAGE };
    static const struct {
        unsigned field;
        uint64_t value;
        bool is_sane;
    } rows[] = {
        {SIZE, INT64_MAX, true},
        {SIZE, (uint64_t)INT64_MAX + 1, false},
        {SIZE, 0, true},
        {ABILITIES, VOLUME_ABILITY_ALL, true},
        {ABILITIES, (uint64_t)VOLUME_ABILITY_ALL + 1, false},
        {ABILITIES, 1U << 31, false},
        {BLOCK, 0, false},
        {BLOCK, 256, false},
        {BLOCK, 513, false},
        {BLOCK, 65536, true},
        {BLOCK, 131072, false},
        {ALIGNMENT, 0, false},
        {ALIGNMENT, 3, false},
        {ALIGNMENT, 512, true},
        {ALIGNMENT, 1024, false},
        {PREFERRED, 0, false},
        {PREFERRED, 3, false},
        {PREFERRED, 2, true},
        {PREFERRED, 1, false}, // below the alignment of 2
        {TRANSFER, 512, true},
        {TRANSFER, 510, false},
        {TRANSFER, 513, false}, // no multiple of it
        {TRANSFER, NODE_TRANSFER_MAX, true},
        {TRANSFER, NODE_TRANSFER_MAX + 2, false},
        {RANGE, 512, true},
        {RANGE, 510, false},
        {RANGE, 513, false},
        {DEPTH, 1, true},
        {DEPTH, 0, false},
        {LINEAGE, VOLUME_LINEAGE_MAX, true},
        {LINEAGE, VOLUME_LINEAGE_MAX + 1, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct volume_profile p = sane_profile();
        uint64_t value = rows[i].value;
        p.alignment = 2;
        p.size = rows[i].field == SIZE ? value : p.size;
        p.abilities = rows[i].field == ABILITIES ? (uint32_t)value : p.abilities;
        p.block_size = rows[i].field == BLOCK ? (uint32_t)value : p.block_size;
        p.alignment = rows[i].field == ALIGNMENT ? (uint32_t)value : p.alignment;
        p.preferred = rows[i].field == PREFERRED ? (uint32_t)value : p.preferred;
        p.transfer_max = rows[i].field == TRANSFER ? (uint32_t)value : p.transfer_max;
        p.range_max = rows[i].field == RANGE ? value : p.range_max;
        p.depth = rows[i].field == DEPTH ? (uint32_t)value : p.depth;
        p.lineage.count = rows[i].field == LINEAGE ? (uint32_t)value : 0;
        p.transfer_max = rows[i].field == BLOCK && value > 512 ? 1 << 20 : p.transfer_max;
        if (volume_profile_is_sane(&p) != rows[i].is_sane) {
            fail_msg("row %zu", i);
        }
    }
}

// Each text, whole and without its end; and what people are shown has no control characters.
static void a_profiles_texts_end(void **state)
{
    struct volume_profile p = sane_profile();
    const struct {
        char *text;
        size_t capacity;
        bool is_shown;
    } rows[] = {{p.driver, sizeof p.driver, true},
                {p.model, sizeof p.model, false},
                {p.origin, sizeof p.origin, false},
                {p.instance, sizeof p.instance, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        p = sane_profile();
        memset(rows[i].text, 'x', rows[i].capacity);
        assert_false(volume_profile_is_sane(&p));
        rows[i].text[rows[i].capacity - 1] = '\0';
        assert_true(volume_profile_is_sane(&p));
        static const char odd[] = {1, 31, 127};
        for (unsigned n = 0; n < sizeof odd; n++) {
            rows[i].text[0] = odd[n];
            assert_int_equal(volume_profile_is_sane(&p), !rows[i].is_shown);
        }
        rows[i].text[0] = ' ';
        assert_true(volume_profile_is_sane(&p));
        rows[i].text[1] = '\0';
        rows[i].text[2] = 1; // what stands behind the end is no part of it
        assert_true(volume_profile_is_sane(&p));
    }
}

static void a_volume_is_pinned_by_its_instance_or_its_origin(void **state)
{
    struct volume_profile p = {.origin = "o"};
    assert_ptr_equal(volume_profile_pin(&p), p.origin);
    p.instance[0] = 'i';
    assert_ptr_equal(volume_profile_pin(&p), p.instance);
}

static void a_volume_is_there_once_it_has_told_its_blocks(void **state)
{
    struct resource row = {.state = RESOURCE_FAILED, .profile = {.block_size = 512}};
    assert_false(resource_is_there(&row));
    row.state = RESOURCE_READY;
    assert_true(resource_is_there(&row));
    row.profile.block_size = 1;
    assert_true(resource_is_there(&row));
    row.profile.block_size = 0;
    assert_false(resource_is_there(&row));
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
        cmocka_unit_test(every_operation_is_what_the_protocols_have_it_for),
        cmocka_unit_test(every_outcome_is_called_what_it_is),
        cmocka_unit_test(every_outcome_has_a_name),
        cmocka_unit_test(a_range_is_within_without_overflow),
        cmocka_unit_test(ranges_overlap_by_one_octet),
        cmocka_unit_test(a_lineage_is_told_and_understood),
        cmocka_unit_test(a_lineage_is_of_a_table_by_what_is_behind),
        cmocka_unit_test(a_sane_profile_is_believed),
        cmocka_unit_test(a_profile_is_possible_up_to_its_bounds),
        cmocka_unit_test(a_profiles_texts_end),
        cmocka_unit_test(a_volume_is_pinned_by_its_instance_or_its_origin),
        cmocka_unit_test(a_volume_is_there_once_it_has_told_its_blocks),
        cmocka_unit_test(a_volume_is_found_by_name_and_number),
        cmocka_unit_test(a_command_ends_from_the_inside_out),
        cmocka_unit_test(a_reason_crosses_as_far_as_a_message_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
