// The I/O converter of an RTA: what may be asked of a volume, what a command has of its request,
// and what is left when it has ended.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "node/rta/converter.h"

enum {
    BLOCK = 512,
    SIZE = 1 << 20,
    ALL = VOLUME_ABILITY_ALL,
    EXTENT = sizeof(struct node_extent),
    PROFILE = sizeof(struct volume_profile),
};

static struct volume_profile profile_with(uint32_t abilities)
{
    return (struct volume_profile){.size = SIZE,
                                   .abilities = abilities,
                                   .block_size = BLOCK,
                                   .alignment = BLOCK,
                                   .transfer_max = 4 * BLOCK,
                                   .range_max = 8 * BLOCK};
}

static struct frame request_of(unsigned operation, uint64_t offset, uint64_t len,
                               uint32_t buffer_len)
{
    return (struct frame){
        .operation = (uint8_t)operation, .offset = offset, .len = len, .buffer_len = buffer_len};
}

/* ---- what may be asked ----------------------------------------------------------------------- */

static void a_request_has_the_buffer_that_it_needs(void **state)
{
    static const struct {
        unsigned operation;
        uint64_t len;
        uint32_t buffer_len;
        enum node_completion completion;
    } table[] = {
        {NODE_READ, BLOCK, BLOCK, NODE_OK},
        {NODE_READ, BLOCK, BLOCK - 1, NODE_MALFORMED},
        {NODE_READ, BLOCK, 2 * BLOCK, NODE_MALFORMED},
        {NODE_READ, 0, 0, NODE_MALFORMED},
        {NODE_WRITE, BLOCK, BLOCK, NODE_OK},
        {NODE_WRITE, BLOCK, 0, NODE_MALFORMED},
        {NODE_WRITE, 0, 0, NODE_MALFORMED},
        {NODE_EXTENTS, BLOCK, EXTENT, NODE_OK},
        {NODE_EXTENTS, BLOCK, 4 * EXTENT, NODE_OK},
        {NODE_EXTENTS, BLOCK, EXTENT - 1, NODE_MALFORMED},
        {NODE_EXTENTS, 0, EXTENT, NODE_MALFORMED},
        {NODE_PROFILE, 0, PROFILE, NODE_OK},
        {NODE_PROFILE, 0, PROFILE + 1, NODE_OK},
        {NODE_PROFILE, 0, PROFILE - 1, NODE_MALFORMED},
        {NODE_FLUSH, 0, 0, NODE_OK},
        {NODE_FLUSH, 0, BLOCK, NODE_MALFORMED},
        {NODE_TRIM, BLOCK, 0, NODE_OK},
        {NODE_TRIM, BLOCK, BLOCK, NODE_MALFORMED},
        {NODE_WRITE_ZEROES, BLOCK, 0, NODE_OK},
        {NODE_WRITE_ZEROES, BLOCK, 1, NODE_MALFORMED},
        {NODE_EXTENTS, BLOCK, NODE_TRANSFER_MAX, NODE_OK},
        {NODE_EXTENTS, BLOCK, NODE_TRANSFER_MAX + 1, NODE_MALFORMED},
        {NODE_DEVICE_OPERATION_COUNT, BLOCK, BLOCK, NODE_MALFORMED},
        {NODE_DEVICE_OPERATION_COUNT, BLOCK, 0, NODE_MALFORMED},
        {UINT8_MAX, 0, 0, NODE_MALFORMED},
    };
    const struct volume_profile profile = profile_with(ALL);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct frame f = request_of(table[i].operation, 0, table[i].len, table[i].buffer_len);
        assert_int_equal(converter_check(&profile, false, &f), table[i].completion);
    }
}

static void each_operation_has_its_own_flags(void **state)
{
    static const uint16_t allowed[NODE_DEVICE_OPERATION_COUNT] = {
        [NODE_WRITE] = NODE_FUA,
        [NODE_FLUSH] = NODE_FOR_READ,
        [NODE_TRIM] = NODE_FUA,
        [NODE_WRITE_ZEROES] = NODE_FUA | NODE_NO_HOLE | NODE_FAST_ONLY};
    const struct volume_profile profile = profile_with(ALL);
    for (unsigned operation = NODE_WRITE; operation <= NODE_WRITE_ZEROES; operation++) {
        for (unsigned bit = 0; bit < 5; bit++) {
            struct frame f = request_of(operation, 0, operation == NODE_FLUSH ? 0 : BLOCK,
                                        operation == NODE_WRITE ? BLOCK : 0);
            f.flags = (uint16_t)(1 << bit);
            assert_int_equal(converter_check(&profile, false, &f),
                             (allowed[operation] & f.flags) != 0 ? NODE_OK : NODE_MALFORMED);
        }
    }
}

static void what_the_device_cannot_do_is_unsupported(void **state)
{
    static const struct {
        unsigned operation;
        uint16_t flags;
        uint32_t needed;
    } table[] = {
        {NODE_READ, 0, 0},
        {NODE_FLUSH, 0, 0},
        {NODE_WRITE, 0, VOLUME_CAN_WRITE},
        {NODE_WRITE, NODE_FUA, VOLUME_CAN_WRITE | VOLUME_CAN_FUA},
        {NODE_TRIM, 0, VOLUME_CAN_WRITE | VOLUME_CAN_TRIM},
        {NODE_WRITE_ZEROES, 0, VOLUME_CAN_WRITE | VOLUME_CAN_WRITE_ZEROES},
        {NODE_WRITE_ZEROES, NODE_FAST_ONLY,
         VOLUME_CAN_WRITE | VOLUME_CAN_WRITE_ZEROES | VOLUME_CAN_ZERO_FAST},
        {NODE_EXTENTS, 0, VOLUME_CAN_EXTENTS},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        unsigned operation = table[i].operation;
        bool has_data = operation == NODE_READ || operation == NODE_WRITE;
        struct frame f = request_of(operation, 0, operation == NODE_FLUSH ? 0 : BLOCK,
                                    has_data                    ? BLOCK
                                    : operation == NODE_EXTENTS ? EXTENT
                                                                : 0);
        f.flags = table[i].flags;
        struct volume_profile profile = profile_with(table[i].needed);
        assert_int_equal(converter_check(&profile, false, &f), NODE_OK);
        for (uint32_t ability = 1; ability <= ALL; ability <<= 1) {
            profile.abilities = ALL & ~ability;
            assert_int_equal(converter_check(&profile, false, &f),
                             (table[i].needed & ability) != 0 ? NODE_UNSUPPORTED : NODE_OK);
        }
    }
}

static void a_read_only_volume_refuses_what_changes_it(void **state)
{
    static const bool changes[] = {[NODE_WRITE] = true,
                                   [NODE_TRIM] = true,
                                   [NODE_WRITE_ZEROES] = true,
                                   [NODE_EXTENTS] = false};
    const struct volume_profile profile = profile_with(0); // it is said before what it cannot
    for (unsigned operation = NODE_READ; operation <= NODE_EXTENTS; operation++) {
        bool has_data = operation == NODE_READ || operation == NODE_WRITE;
        const struct frame f = request_of(operation, 0, operation == NODE_FLUSH ? 0 : BLOCK,
                                          has_data                    ? BLOCK
                                          : operation == NODE_EXTENTS ? EXTENT
                                                                      : 0);
        enum node_completion otherwise = operation == NODE_EXTENTS ? NODE_UNSUPPORTED : NODE_OK;
        assert_int_equal(converter_check(&profile, true, &f),
                         changes[operation] ? NODE_READ_ONLY : otherwise);
    }
}

static void a_range_is_aligned_and_within_the_volume(void **state)
{
    static const struct {
        uint64_t offset, len;
        enum node_completion completion;
    } table[] = {
        {SIZE - BLOCK, BLOCK, NODE_OK},
        {0, SIZE, NODE_OK},
        {SIZE, 0, NODE_OK},
        {SIZE, BLOCK, NODE_RANGE},
        {SIZE - BLOCK, 2 * BLOCK, NODE_RANGE},
        {1, BLOCK, NODE_MALFORMED},
        {BLOCK, BLOCK + 1, NODE_MALFORMED},
        {BLOCK / 2, BLOCK, NODE_MALFORMED},
        {0, BLOCK / 2, NODE_MALFORMED},
        {SIZE + 1, BLOCK, NODE_MALFORMED},
        {0ULL - BLOCK, 2 * BLOCK, NODE_RANGE},
    };
    const struct volume_profile profile = profile_with(ALL);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct frame f = request_of(NODE_TRIM, table[i].offset, table[i].len, 0);
        assert_int_equal(converter_check(&profile, false, &f), table[i].completion);
    }
    const struct frame flush = request_of(NODE_FLUSH, SIZE + 1, 3, 0); // has no range
    assert_int_equal(converter_check(&profile, false, &flush), NODE_OK);
}

/* ---- commands, piece by piece ---------------------------------------------------------------- */

static uint8_t data[64 * BLOCK];

static struct store_transaction transaction_of(unsigned operation, uint64_t len,
                                               uint32_t buffer_len)
{
    return (struct store_transaction){.request = request_of(operation, 10 * BLOCK, len, buffer_len),
                                      .data = data};
}

// Until nothing is left; each piece but the last as long as may be.
static void pieces_are(unsigned operation, uint64_t piece, bool has_data)
{
    const uint64_t len = 2 * piece + BLOCK;
    const struct volume_profile profile = profile_with(ALL);
    struct store_transaction t = transaction_of(operation, len, has_data ? (uint32_t)len : 0);
    struct ddm_command command = {0};
    for (uint64_t done = 0; done < len; done += command.len) {
        assert_int_equal(converter_command(&profile, NULL, &t, &command), NODE_OK);
        assert_int_equal(command.operation, operation);
        assert_int_equal(command.offset, 10 * BLOCK + done);
        assert_int_equal(command.len, len - done > piece ? piece : len - done);
        assert_int_equal(command.data_len, has_data ? command.len : 0);
        assert_ptr_equal(command.data, has_data ? data + done : data);
        command.completion = NODE_OK;
        assert_int_equal(converter_result(&profile, NULL, &t, &command), done + command.len < len);
        assert_int_equal(t.answer_len, operation == NODE_READ ? done + command.len : 0);
    }
    assert_int_equal(t.done_len, len);
}

static void what_is_longer_than_the_device_takes_is_divided(void **state)
{
    pieces_are(NODE_READ, 4 * BLOCK, true);
    pieces_are(NODE_WRITE, 4 * BLOCK, true);
    pieces_are(NODE_TRIM, 8 * BLOCK, false);
    pieces_are(NODE_WRITE_ZEROES, 8 * BLOCK, false);
}

static void what_is_not_divided_is_one_command(void **state)
{
    const struct volume_profile profile = profile_with(ALL);
    struct store_transaction t = transaction_of(NODE_EXTENTS, 40 * BLOCK, 8 * EXTENT);
    struct ddm_command command = {.answer_len = 99, .detail = 9};
    assert_int_equal(converter_command(&profile, NULL, &t, &command), NODE_OK);
    assert_int_equal(command.len, 40 * BLOCK);
    assert_int_equal(command.data_len, 8 * EXTENT);
    assert_int_equal(command.answer_len, 0);
    assert_int_equal(command.detail, 0);
    command.completion = NODE_OK;
    command.len = BLOCK; // that is as far as the device knows
    command.answer_len = 3 * EXTENT;
    assert_false(converter_result(&profile, NULL, &t, &command));
    assert_int_equal(t.answer_len, 3 * EXTENT);
    t = transaction_of(NODE_FLUSH, 0, 0);
    assert_int_equal(converter_command(&profile, NULL, &t, &command), NODE_OK);
    command.completion = NODE_OK;
    assert_false(converter_result(&profile, NULL, &t, &command));
    assert_int_equal(t.answer_len, 0);
}

static void flags_go_with_each_command(void **state)
{
    const struct volume_profile profile = profile_with(ALL);
    struct store_transaction t = transaction_of(NODE_WRITE, BLOCK, BLOCK);
    struct ddm_command command = {0};
    t.request.flags = NODE_FUA;
    assert_int_equal(converter_command(&profile, NULL, &t, &command), NODE_OK);
    assert_int_equal(command.flags, NODE_FUA);
}

static void a_piece_that_fails_is_the_last_and_is_not_done(void **state)
{
    const struct volume_profile profile = profile_with(ALL);
    struct store_transaction t = transaction_of(NODE_READ, 8 * BLOCK, 8 * BLOCK);
    struct ddm_command command = {0};
    assert_int_equal(converter_command(&profile, NULL, &t, &command), NODE_OK);
    command.completion = NODE_MEDIA;
    assert_false(converter_result(&profile, NULL, &t, &command));
    assert_int_equal(t.done_len, 0);
    assert_int_equal(t.answer_len, 0);
    assert_int_equal(command.completion, NODE_MEDIA);
}

/* ---- formats --------------------------------------------------------------------------------- */

static enum node_completion encode(const struct volume_profile *profile,
                                   struct ddm_command *command)
{
    command->native_len = 1;
    return command->operation == NODE_READ ? NODE_OK : NODE_UNSUPPORTED;
}

static void decode_half(struct ddm_command *command)
{
    command->completion = NODE_OK;
    command->len /= 2;
    command->data_len /= 2;
}

static void what_a_device_did_less_of_is_gone_on_with(void **state)
{
    const struct io_format format = {.name = "half", .encode = encode, .decode = decode_half};
    const struct volume_profile profile = profile_with(ALL);
    struct store_transaction t = transaction_of(NODE_READ, 4 * BLOCK, 4 * BLOCK);
    struct ddm_command command = {.completion = NODE_MEDIA};
    assert_int_equal(converter_command(&profile, &format, &t, &command), NODE_OK);
    assert_true(converter_result(&profile, &format, &t, &command));
    assert_int_equal(t.done_len, 2 * BLOCK);
    assert_int_equal(t.answer_len, 2 * BLOCK);
    assert_int_equal(converter_command(&profile, &format, &t, &command), NODE_OK);
    assert_int_equal(command.offset, 12 * BLOCK);
    assert_ptr_equal(command.data, data + 2 * BLOCK);
    command.native_len = 0; // a filter has answered in its stead
    command.completion = NODE_NO_SPACE;
    assert_false(converter_result(&profile, &format, &t, &command));
    assert_int_equal(command.completion, NODE_NO_SPACE);
    t = transaction_of(NODE_TRIM, BLOCK, 0);
    assert_int_equal(converter_command(&profile, &format, &t, &command), NODE_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_has_the_buffer_that_it_needs),
        cmocka_unit_test(each_operation_has_its_own_flags),
        cmocka_unit_test(what_the_device_cannot_do_is_unsupported),
        cmocka_unit_test(a_read_only_volume_refuses_what_changes_it),
        cmocka_unit_test(a_range_is_aligned_and_within_the_volume),
        cmocka_unit_test(what_is_longer_than_the_device_takes_is_divided),
        cmocka_unit_test(what_is_not_divided_is_one_command),
        cmocka_unit_test(flags_go_with_each_command),
        cmocka_unit_test(a_piece_that_fails_is_the_last_and_is_not_done),
        cmocka_unit_test(what_a_device_did_less_of_is_gone_on_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
