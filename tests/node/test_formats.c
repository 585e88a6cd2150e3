// The I/O formats: requests to commands, octet for octet, and what devices say to completions.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "format/ata.h"
#include "format/scsi.h"
#include "node/rta/converter.h"
#include "node/rta/formats.h"

enum { ALL = VOLUME_CAN_WRITE | VOLUME_CAN_FUA | VOLUME_CAN_TRIM | VOLUME_CAN_ZERO_FAST };

static struct volume_profile profile_of(uint32_t block_size)
{
    return (struct volume_profile){.size = 1ULL << 40,
                                   .abilities = ALL,
                                   .block_size = block_size,
                                   .alignment = block_size,
                                   .transfer_max = 256 << 10,
                                   .range_max = 1 << 30};
}

static struct ddm_command encoded(const struct io_format *format,
                                  const struct volume_profile *profile, unsigned operation,
                                  uint64_t offset, uint64_t len, uint16_t flags)
{
    bool has_data = operation == NODE_READ || operation == NODE_WRITE;
    struct ddm_command command = {.operation = (uint8_t)operation,
                                  .flags = flags,
                                  .offset = offset,
                                  .len = len,
                                  .data_len = has_data ? (uint32_t)len : 0};
    assert_int_equal(format->encode(profile, &command), NODE_OK);
    return command;
}

static void expect_octets(const uint8_t *octets, uint32_t len, const char *wanted)
{
    char text[3 * DDM_NATIVE_MAX + 1] = "";
    for (uint32_t i = 0; i < len; i++) {
        snprintf(text + 3 * i, 4, i + 1 < len ? "%02x " : "%02x", octets[i]);
    }
    assert_string_equal(text, wanted);
}

// What stood there is another command's: nothing of it may pass for what this device said.
static void a_command_is_made_anew_in_the_place_of_another(void **state)
{
    static uint8_t data[8192];
    const struct io_format *const formats[] = {&io_format_scsi, &io_format_ata, NULL};
    const struct volume_profile profile = profile_of(512);
    for (unsigned i = 0; i < 3; i++) {
        struct store_transaction transaction = {.request = {.operation = NODE_READ,
                                                            .offset = 4096,
                                                            .len = sizeof data,
                                                            .buffer_len = sizeof data},
                                                .done_len = 512,
                                                .data = data};
        struct ddm_command command;
        memset(&command, 0xa5, sizeof command);
        assert_int_equal(converter_command(&profile, formats[i], &transaction, &command), NODE_OK);
        assert_int_equal(command.offset, 4096 + 512);
        assert_int_equal(command.len, sizeof data - 512);
        assert_ptr_equal(command.data, data + 512);
        assert_int_equal(command.data_len, sizeof data - 512);
        assert_int_equal(command.status_len, 0);
        assert_int_equal(command.transport_error, 0);
        assert_int_equal(command.answer_len, 0);
        assert_int_equal(command.detail, 0);
        assert_int_equal(command.end_count, 0);
        assert_true((command.native_len > 0) == (formats[i] != NULL));
        command.completion = NODE_OK; // as of a filter that answers in the stead of the device
        assert_false(converter_result(&profile, formats[i], &transaction, &command));
        assert_int_equal(transaction.done_len, sizeof data);
    }
}

// Back through the converter, which knows no status itself.
static void what_the_device_says_comes_back_by_its_format(void **state)
{
    static uint8_t data[512];
    const struct volume_profile profile = profile_of(512);
    struct store_transaction transaction = {
        .request = {.operation = NODE_READ, .len = sizeof data, .buffer_len = sizeof data},
        .data = data};
    struct ddm_command command = {0};
    assert_int_equal(converter_command(&profile, &io_format_scsi, &transaction, &command), NODE_OK);
    command.status[SCSI_ANSWER_STATUS] = SCSI_BUSY;
    command.status_len = SCSI_ANSWER_SENSE;
    assert_false(converter_result(&profile, &io_format_scsi, &transaction, &command));
    assert_int_equal(command.completion, NODE_RETRY);
    assert_int_equal(converter_command(&profile, &io_format_ata, &transaction, &command), NODE_OK);
    command.completion = NODE_OK;
    command.status[ATA_ANSWER_STATUS] = ATA_STATUS_DEVICE_FAULT;
    command.status_len = ATA_ANSWER_LEN;
    assert_false(converter_result(&profile, &io_format_ata, &transaction, &command));
    assert_int_equal(command.completion, NODE_MEDIA);
    assert_int_equal(transaction.done_len, 0);
}

/* ---- SCSI ------------------------------------------------------------------------------------ */

static void scsi_commands_are_those_of_the_standard(void **state)
{
    static const struct {
        unsigned operation;
        uint16_t flags;
        uint32_t block_size;
        uint64_t offset, len;
        const char *octets;
    } table[] = {
        {NODE_READ, 0, 512, 0x123456789a00, 4096,
         "88 00 00 00 00 09 1a 2b 3c 4d 00 00 00 08 00 00"},
        {NODE_READ, 0, 4096, 1 << 20, 65536, "88 00 00 00 00 00 00 00 01 00 00 00 00 10 00 00"},
        {NODE_WRITE, 0, 512, 512, 512, "8a 00 00 00 00 00 00 00 00 01 00 00 00 01 00 00"},
        {NODE_WRITE, NODE_FUA, 512, 512, 512, "8a 08 00 00 00 00 00 00 00 01 00 00 00 01 00 00"},
        {NODE_FLUSH, 0, 512, 0, 0, "91 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"},
        {NODE_WRITE_ZEROES, 0, 512, 1024, 1 << 20,
         "93 08 00 00 00 00 00 00 00 02 00 00 08 00 00 00"},
        {NODE_WRITE_ZEROES, NODE_NO_HOLE, 512, 1024, 1 << 20,
         "93 00 00 00 00 00 00 00 00 02 00 00 08 00 00 00"},
        {NODE_TRIM, 0, 512, 512, 8192,
         "42 00 00 00 00 00 00 00 18 00 00 00 00 00 00 00 "
         "00 16 00 10 00 00 00 00 00 00 00 00 00 00 00 01 00 00 00 10 00 00 00 00"},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct volume_profile profile = profile_of(table[i].block_size);
        struct ddm_command command = encoded(&io_format_scsi, &profile, table[i].operation,
                                             table[i].offset, table[i].len, table[i].flags);
        expect_octets(command.native, command.native_len, table[i].octets);
        assert_int_equal(command.len, table[i].len);
    }
}

static void zeroes_are_written_where_the_device_cannot_repeat_a_block(void **state)
{
    struct volume_profile profile = profile_of(512);
    profile.abilities &= ~(uint32_t)VOLUME_CAN_ZERO_FAST;
    struct ddm_command command =
        encoded(&io_format_scsi, &profile, NODE_WRITE_ZEROES, 0, 1 << 20, 0);
    expect_octets(command.native, command.native_len,
                  "8a 00 00 00 00 00 00 00 00 00 00 00 02 00 00 00");
    assert_int_equal(command.len, 256 << 10);
}

static void zeroes_that_one_write_may_have_are_written_at_once(void **state)
{
    struct volume_profile profile = profile_of(512);
    profile.abilities &= ~(uint32_t)VOLUME_CAN_ZERO_FAST;
    struct ddm_command command = encoded(&io_format_scsi, &profile, NODE_WRITE_ZEROES, 0, 1024, 0);
    expect_octets(command.native, command.native_len,
                  "8a 00 00 00 00 00 00 00 00 00 00 00 00 02 00 00");
    assert_int_equal(command.len, 1024);
}

static void a_flush_is_of_all_blocks_whatever_it_names(void **state)
{
    struct volume_profile profile = profile_of(512);
    struct ddm_command command = encoded(&io_format_scsi, &profile, NODE_FLUSH, 1024, 4096, 0);
    expect_octets(command.native, command.native_len,
                  "91 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00");
    assert_int_equal(command.offset, 0);
    assert_int_equal(command.len, 0);
}

static void what_a_format_has_not_is_refused(void **state)
{
    struct volume_profile profile = profile_of(512);
    struct ddm_command command = {.operation = NODE_EXTENTS, .len = 512};
    assert_int_equal(io_format_scsi.encode(&profile, &command), NODE_UNSUPPORTED);
    assert_int_equal(io_format_ata.encode(&profile, &command), NODE_UNSUPPORTED);
}

static enum node_completion scsi_says(uint8_t status, const uint8_t *sense, uint32_t sense_len)
{
    struct ddm_command command = {.operation = NODE_READ, .len = 512, .data_len = 512};
    command.status[SCSI_ANSWER_STATUS] = status;
    for (uint32_t i = 0; i < sense_len; i++) {
        command.status[SCSI_ANSWER_SENSE + i] = sense[i];
    }
    command.status_len = SCSI_ANSWER_SENSE + sense_len;
    io_format_scsi.decode(&command);
    return command.completion;
}

static void a_status_is_a_completion(void **state)
{
    assert_int_equal(scsi_says(SCSI_GOOD, NULL, 0), NODE_OK);
    assert_int_equal(scsi_says(SCSI_CONDITION_MET, NULL, 0), NODE_OK);
    assert_int_equal(scsi_says(SCSI_BUSY, NULL, 0), NODE_RETRY);
    assert_int_equal(scsi_says(SCSI_TASK_SET_FULL, NULL, 0), NODE_RETRY);
    assert_int_equal(scsi_says(SCSI_RESERVATION_CONFLICT, NULL, 0), NODE_RESERVED);
    assert_int_equal(scsi_says(SCSI_TASK_ABORTED, NULL, 0), NODE_RETRY);
    assert_int_equal(scsi_says(SCSI_CHECK_CONDITION, NULL, 0), NODE_RETRY); // no sense data
    assert_int_equal(scsi_says(0x7e, NULL, 0), NODE_RETRY);
}

static void sense_data_of_both_formats_are_a_completion(void **state)
{
    static const struct {
        uint8_t key, asc, ascq;
        enum node_completion completion;
    } table[] = {
        {SCSI_NO_SENSE, 0, 0, NODE_OK},
        {SCSI_RECOVERED_ERROR, 0x17, 0, NODE_OK},
        {SCSI_NOT_READY, 0x04, 0x01, NODE_RETRY},
        {SCSI_NOT_READY, 0x3a, 0x00, NODE_NO_VOLUME},
        {SCSI_MEDIUM_ERROR, 0x11, 0x00, NODE_MEDIA},
        {SCSI_HARDWARE_ERROR, 0x44, 0x00, NODE_MEDIA},
        {SCSI_ILLEGAL_REQUEST, 0x20, 0x00, NODE_UNSUPPORTED},
        {SCSI_ILLEGAL_REQUEST, 0x21, 0x00, NODE_RANGE},
        {SCSI_ILLEGAL_REQUEST, 0x24, 0x00, NODE_UNSUPPORTED},
        {SCSI_ILLEGAL_REQUEST, 0x25, 0x00, NODE_NO_VOLUME},
        {SCSI_ILLEGAL_REQUEST, 0x26, 0x02, NODE_UNSUPPORTED},
        {SCSI_MEDIUM_ERROR, 0x21, 0x00, NODE_MEDIA}, // a code that means this of another key alone
        {SCSI_BLANK_CHECK, 0, 0, NODE_MEDIA},
        {0x9, 0, 0, NODE_MEDIA},
        {SCSI_COPY_ABORTED, 0, 0, NODE_MEDIA},
        {0xc, 0, 0, NODE_MEDIA},
        {SCSI_DATA_PROTECT, 0x20, 0x00, NODE_READ_ONLY},
        {SCSI_ILLEGAL_REQUEST, 0x1a, 0x00, NODE_MALFORMED},
        {SCSI_UNIT_ATTENTION, 0x29, 0x00, NODE_RETRY},
        {SCSI_UNIT_ATTENTION, 0x2a, 0x09, NODE_RETRY},
        {SCSI_DATA_PROTECT, 0x27, 0x00, NODE_READ_ONLY},
        {SCSI_DATA_PROTECT, 0x27, 0x07, NODE_NO_SPACE},
        {SCSI_ABORTED_COMMAND, 0x47, 0x00, NODE_RETRY},
        {SCSI_ABORTED_COMMAND, 0x10, 0x01, NODE_MEDIA},
        {SCSI_VOLUME_OVERFLOW, 0, 0, NODE_NO_SPACE},
        {SCSI_MISCOMPARE, 0x1d, 0, NODE_MEDIA},
        {SCSI_COMPLETED, 0, 0, NODE_OK},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint8_t key = table[i].key, asc = table[i].asc, ascq = table[i].ascq;
        uint8_t fixed[18] = {0x70, 0, key, [7] = 10, [12] = asc, [13] = ascq};
        uint8_t descriptors[8] = {0x72, key, asc, ascq};
        assert_int_equal(scsi_says(SCSI_CHECK_CONDITION, fixed, sizeof fixed), table[i].completion);
        assert_int_equal(scsi_says(SCSI_CHECK_CONDITION, descriptors, sizeof descriptors),
                         table[i].completion);
    }
}

static void a_code_means_the_same_with_every_qualifier(void **state)
{
    static const struct {
        uint8_t key, asc;
        enum node_completion completion;
    } table[] = {
        {SCSI_NOT_READY, 0x3a, NODE_NO_VOLUME},
        {SCSI_ILLEGAL_REQUEST, 0x20, NODE_UNSUPPORTED},
        {SCSI_ILLEGAL_REQUEST, 0x21, NODE_RANGE},
        {SCSI_ILLEGAL_REQUEST, 0x24, NODE_UNSUPPORTED},
        {SCSI_ILLEGAL_REQUEST, 0x25, NODE_NO_VOLUME},
        {SCSI_ILLEGAL_REQUEST, 0x26, NODE_UNSUPPORTED},
        {SCSI_ABORTED_COMMAND, 0x10, NODE_MEDIA},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        for (unsigned ascq = 0; ascq <= UINT8_MAX; ascq++) {
            uint8_t sense[8] = {0x72, table[i].key, table[i].asc, (uint8_t)ascq};
            assert_int_equal(scsi_says(SCSI_CHECK_CONDITION, sense, sizeof sense),
                             table[i].completion);
        }
    }
}

// SPC-4, 4.5.6: who is told of an error of an earlier command has not been served.
static void a_deferred_error_is_no_success_of_the_command_it_comes_with(void **state)
{
    static const struct {
        uint8_t key, asc;
        enum node_completion completion;
    } table[] = {
        {SCSI_NO_SENSE, 0, NODE_RETRY},
        {SCSI_RECOVERED_ERROR, 0x17, NODE_RETRY},
        {SCSI_COMPLETED, 0, NODE_RETRY},
        {SCSI_MEDIUM_ERROR, 0x0c, NODE_MEDIA}, // something that was written before is lost
        {SCSI_HARDWARE_ERROR, 0x44, NODE_MEDIA},
        {SCSI_ABORTED_COMMAND, 0x10, NODE_RETRY}, // no protection information of this one
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint8_t fixed[18] = {0x71, 0, table[i].key, [7] = 10, [12] = table[i].asc};
        uint8_t descriptors[8] = {0x73, table[i].key, table[i].asc};
        assert_int_equal(scsi_says(SCSI_CHECK_CONDITION, fixed, sizeof fixed), table[i].completion);
        assert_int_equal(scsi_says(SCSI_CHECK_CONDITION, descriptors, sizeof descriptors),
                         table[i].completion);
    }
}

// For who reads a log: the sense data, or the status, or why the transport has none.
static void a_completion_says_what_the_device_said(void **state)
{
    static const struct {
        uint8_t status, sense[4];
        uint32_t sense_len;
        int transport_error;
        uint32_t detail;
    } table[] = {
        {SCSI_GOOD, {0}, 0, 0, 0},
        {SCSI_CONDITION_MET, {0}, 0, 0, 0},
        {SCSI_BUSY, {0}, 0, 0, SCSI_BUSY},
        {SCSI_TASK_ABORTED, {0}, 0, 0, SCSI_TASK_ABORTED},
        {SCSI_RESERVATION_CONFLICT, {0}, 0, 0, SCSI_RESERVATION_CONFLICT},
        {SCSI_CHECK_CONDITION, {0x72, SCSI_MEDIUM_ERROR, 0x11, 0x04}, 1, 0, SCSI_CHECK_CONDITION},
        {SCSI_CHECK_CONDITION, {0}, 0, 0, SCSI_CHECK_CONDITION},
        {SCSI_CHECK_CONDITION, {0x72, SCSI_MEDIUM_ERROR, 0x11, 0x04}, 4, 0, 0x031104},
        {SCSI_CHECK_CONDITION, {0x72, SCSI_RECOVERED_ERROR, 0x17, 0x02}, 4, 0, 0x011702},
        {SCSI_BUSY, {0}, 0, -ETIMEDOUT, ETIMEDOUT},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct ddm_command command = {.operation = NODE_FLUSH,
                                      .completion = NODE_INTERNAL,
                                      .detail = 99,
                                      .status_len = SCSI_ANSWER_SENSE + table[i].sense_len,
                                      .transport_error = table[i].transport_error};
        command.status[SCSI_ANSWER_STATUS] = table[i].status;
        memcpy(command.status + SCSI_ANSWER_SENSE, table[i].sense, sizeof table[i].sense);
        io_format_scsi.decode(&command);
        assert_int_equal(command.detail, table[i].detail);
        assert_int_not_equal(command.completion, NODE_INTERNAL);
    }
}

static void sense_data_that_are_cut_short_are_read_as_far_as_they_go(void **state)
{
    uint8_t fixed[18] = {0x70, 0, SCSI_MEDIUM_ERROR, [7] = 10, [12] = 0x11};
    for (uint32_t len = 0; len <= sizeof fixed; len++) {
        uint8_t copy[18];
        struct scsi_failure sense;
        memcpy(copy, fixed, len);
        assert_int_equal(scsi_sense_parse(copy, len, &sense), len > 2);
        assert_true(len <= 2 || sense.asc == (len > 12 ? 0x11 : 0));
    }
    struct scsi_failure sense;
    uint8_t vendor[18] = {0x7f, 3};
    assert_false(scsi_sense_parse(vendor, sizeof vendor, &sense));
}

static struct ddm_command moved_less(unsigned operation, uint32_t residual)
{
    struct volume_profile profile = profile_of(512);
    struct ddm_command command = encoded(&io_format_scsi, &profile, operation, 0, 8192, 0);
    put_be32(command.status + SCSI_ANSWER_RESIDUAL, residual);
    command.status_len = SCSI_ANSWER_SENSE;
    io_format_scsi.decode(&command);
    return command;
}

static void a_short_transfer_has_done_its_whole_blocks(void **state)
{
    struct ddm_command command = moved_less(NODE_READ, 4096);
    assert_int_equal(command.completion, NODE_OK);
    assert_int_equal(command.len, 4096);
    assert_int_equal(command.data_len, 4096);
    command = moved_less(NODE_WRITE, 4097);
    assert_int_equal(command.completion, NODE_OK);
    assert_int_equal(command.len, 4096 - 512);
    assert_int_equal(moved_less(NODE_READ, 8192).completion, NODE_RETRY);
    assert_int_equal(moved_less(NODE_READ, 7681).completion, NODE_RETRY);
    assert_int_equal(moved_less(NODE_READ, UINT32_MAX).completion, NODE_RETRY);
    command = moved_less(NODE_WRITE, 0);
    assert_int_equal(command.len, 8192);
    command = moved_less(NODE_WRITE, 1);
    assert_int_equal(command.len, 8192 - 512);
    command = moved_less(NODE_READ, 512);
    assert_int_equal(command.data_len, 8192 - 512);
    command = moved_less(NODE_WRITE_ZEROES, 4096); // nothing of its own was to be moved
    assert_int_equal(command.completion, NODE_OK);
    assert_int_equal(command.len, 8192);
}

// What of it has moved is not known to be right: all of it is done again, or none.
static void a_transfer_that_failed_has_done_no_part(void **state)
{
    static const uint32_t residuals[] = {4096, 8192};
    for (unsigned i = 0; i < 2; i++) {
        struct volume_profile profile = profile_of(512);
        struct ddm_command command = encoded(&io_format_scsi, &profile, NODE_READ, 0, 8192, 0);
        put_be32(command.status + SCSI_ANSWER_RESIDUAL, residuals[i]);
        command.status[SCSI_ANSWER_STATUS] = SCSI_CHECK_CONDITION;
        memcpy(command.status + SCSI_ANSWER_SENSE,
               (const uint8_t[8]){0x72, SCSI_MEDIUM_ERROR, 0x11}, 8);
        command.status_len = SCSI_ANSWER_SENSE + 8;
        io_format_scsi.decode(&command);
        assert_int_equal(command.completion, NODE_MEDIA);
        assert_int_equal(command.len, 8192);
        assert_int_equal(command.data_len, 8192);
    }
}

static void what_no_device_answered_is_told_by_the_transport(void **state)
{
    static const struct {
        int error;
        enum node_completion completion;
    } table[] = {
        {-ENOTCONN, NODE_RETRY},         {-ETIMEDOUT, NODE_RETRY}, {-ENODEV, NODE_NO_VOLUME},
        {-EOPNOTSUPP, NODE_UNSUPPORTED}, {-EPERM, NODE_READ_ONLY}, {-EIO, NODE_MEDIA},
        {-EBADE, NODE_RESERVED},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct ddm_command command = {.transport_error = table[i].error};
        io_format_scsi.decode(&command);
        assert_int_equal(command.completion, table[i].completion);
        io_format_ata.decode(&command);
        assert_int_equal(command.completion, table[i].completion);
        assert_int_equal(command.detail, -table[i].error);
    }
}

static void what_a_filter_answered_stays(void **state)
{
    struct ddm_command command = {.completion = NODE_NO_SPACE, .detail = 7};
    io_format_scsi.decode(&command);
    io_format_ata.decode(&command);
    assert_int_equal(command.completion, NODE_NO_SPACE);
    assert_int_equal(command.detail, 7);
}

/* ---- what SCSI devices tell of themselves ---------------------------------------------------- */

static void a_capacity_that_cannot_be_is_refused(void **state)
{
    struct scsi_capacity capacity;
    uint8_t octets[32] = {[7] = 0xff, [10] = 2, [13] = 3};
    assert_true(scsi_capacity_parse(octets, sizeof octets, &capacity));
    assert_int_equal(capacity.blocks, 256);
    assert_int_equal(capacity.block_size, 512);
    assert_int_equal(capacity.physical_size, 4096);
    assert_false(scsi_capacity_parse(octets, 11, &capacity));
    octets[11] = 8; // blocks of 520 octets
    assert_false(scsi_capacity_parse(octets, sizeof octets, &capacity));
    octets[11] = 0;
    memset(octets, 0xff, 8); // more octets than 64 bits count
    assert_false(scsi_capacity_parse(octets, sizeof octets, &capacity));
}

static void capacities_are_those_of_blocks_that_can_be(void **state)
{
    static const struct {
        uint64_t last;
        uint32_t block_size;
        uint8_t exponent, len;
        bool is_possible;
        uint32_t physical_size;
    } table[] = {
        {7, 512, 0, 32, true, 512},
        {7, 256, 0, 32, false, 256},
        {7, 1024, 3, 32, true, 8192},
        {7, 65536, 0, 32, true, 65536},
        {7, 1 << 17, 0, 32, false, 1 << 17},
        {7, 768, 0, 32, false, 768},
        {7, 512, 3, 12, true, 512},
        {7, 512, 3, 13, true, 512}, // no exponent there
        {7, 512, 3, 14, true, 4096},
        {7, 512, 0x73, 14, true, 4096},
        {7, 512, 15, 14, true, 512 << 15},
        {UINT64_MAX / 512 - 1, 512, 0, 32, true, 512},
        {UINT64_MAX / 512, 512, 0, 32, false, 512},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct scsi_capacity capacity;
        uint8_t octets[32] = {0};
        put_be64(octets, table[i].last);
        put_be32(octets + 8, table[i].block_size);
        octets[13] = table[i].exponent;
        assert_int_equal(scsi_capacity_parse(octets, table[i].len, &capacity),
                         table[i].is_possible);
        assert_int_equal(capacity.blocks, table[i].last + 1);
        assert_int_equal(capacity.physical_size, table[i].physical_size);
    }
}

static void an_inquiry_has_its_type_and_its_names_without_spaces(void **state)
{
    uint8_t octets[36] = "\x21......."
                         " WEFT\177  "
                         "  a\001b  c    end ";
    struct scsi_inquiry inquiry;
    assert_true(scsi_inquiry_parse(octets, sizeof octets, &inquiry));
    assert_int_equal(inquiry.peripheral, 0x21);
    assert_string_equal(inquiry.vendor, "WEFT");
    assert_string_equal(inquiry.product, "a b  c    end");
}

static void what_a_device_provisions_is_three_bits(void **state)
{
    for (unsigned bits = 0; bits <= UINT8_MAX; bits++) {
        const uint8_t octets[6] = {[5] = (uint8_t)bits};
        struct scsi_provisioning p;
        assert_true(scsi_provisioning_parse(octets, sizeof octets, &p));
        assert_int_equal(p.can_unmap, (bits & 0x80) != 0);
        assert_int_equal(p.can_same_unmap, (bits & 0x40) != 0);
        assert_int_equal(p.reads_zeroes, (bits >> 2 & 7) == 1);
    }
}

static void a_mode_is_protected_has_fua_and_a_cache(void **state)
{
    for (unsigned bits = 0; bits <= UINT8_MAX; bits++) {
        // The page is behind a descriptor of two octets; its high bits are others.
        const uint8_t octets[] = {0, 0, (uint8_t)bits, 2, 0x08, 0, 0xc8, 1, (uint8_t)bits};
        struct scsi_mode mode;
        assert_true(scsi_mode_parse(octets, sizeof octets, &mode));
        assert_int_equal(mode.is_write_protected, (bits & 0x80) != 0);
        assert_int_equal(mode.has_fua, (bits & 0x10) != 0);
        assert_int_equal(mode.has_write_cache, (bits & 0x04) != 0);
        assert_true(scsi_mode_parse(octets, sizeof octets - 1, &mode)); // the octet is missing
        assert_true(mode.has_write_cache);
        assert_true(scsi_mode_parse(octets, 4, &mode));
        assert_int_equal(mode.has_fua, (bits & 0x10) != 0);
    }
    const uint8_t other[] = {0, 0, 0, 0, 0x09, 1, 0}; // another page
    struct scsi_mode mode;
    assert_true(scsi_mode_parse(other, sizeof other, &mode));
    assert_true(mode.has_write_cache);
}

static void an_operation_is_supported_as_the_standard_or_the_vendor_has_it(void **state)
{
    bool is_supported;
    for (unsigned bits = 0; bits <= UINT8_MAX; bits++) {
        const uint8_t octets[2] = {5, (uint8_t)bits};
        assert_true(scsi_operation_parse(octets, 2, &is_supported));
        assert_int_equal(is_supported, (bits & 7) == 3 || (bits & 7) == 5);
        assert_false(scsi_operation_parse(octets, 1, &is_supported));
    }
}

static void a_list_of_pages_ends_where_it_says_or_is_cut(void **state)
{
    static const uint8_t list[] = {0, 0, 0, 3, 0x00, 0x80, 0xb0, 0xb2};
    static const uint8_t longer[] = {0, 0, 1, 0, 0x00, 0x80, 0xb0, 0xb2};
    assert_true(scsi_pages_have(list, sizeof list, 0xb0));
    assert_true(scsi_pages_have(list, sizeof list, 0x00));
    assert_false(scsi_pages_have(list, sizeof list, 0xb2));
    assert_false(scsi_pages_have(list, 6, 0xb0));
    assert_true(scsi_pages_have(longer, sizeof longer, 0xb2));
    assert_false(scsi_pages_have(longer, sizeof longer, 0x01));
    assert_false(scsi_pages_have(list, 3, 0x00));
}

static void a_serial_number_has_no_spaces_around_it(void **state)
{
    static const uint8_t page[] = "\0\x80\0\x08  ab 12 z";
    static const uint8_t blank[] = "\0\x80\0\x03   z";
    char serial[SCSI_NAME_MAX];
    assert_true(scsi_serial_parse(page, sizeof page - 1, serial));
    assert_string_equal(serial, "ab 12");
    assert_true(scsi_serial_parse(page, 7, serial)); // cut
    assert_string_equal(serial, "a");
    assert_false(scsi_serial_parse(blank, sizeof blank - 1, serial));
}

static void the_first_of_equal_names_stays_and_long_ones_are_cut(void **state)
{
    static const uint8_t page[] = {0, 0x83, 0, 22, 1, 2, 0, 0, // empty
                                   1, 2,    0, 4,  1, 2, 3, 4, // EUI-64
                                   1, 2,    0, 2,  9, 9};      // another
    uint8_t longest[4 + 4 + 255] = {0, 0x83, 1, 3, 1, 3, 0, 255};
    char name[SCSI_NAME_MAX];
    assert_true(scsi_identification_parse(page, sizeof page, name));
    assert_string_equal(name, "0x01020304");
    assert_true(scsi_identification_parse(longest, sizeof longest, name));
    assert_int_equal(strlen(name), SCSI_NAME_MAX - 2); // an even number of digits
}

static void a_descriptor_of_sense_data_is_found_as_far_as_they_go(void **state)
{
    static const uint8_t sense[] = {0x72, 0, 0, 0, 0, 0,    0, 9,    0x01, 1,
                                    5,    3, 2, 7, 7, 0x09, 0, 0x0a, 0};
    uint8_t copy[sizeof sense], len = 0;
    memcpy(copy, sense, sizeof sense);
    assert_ptr_equal(scsi_sense_descriptor(copy, sizeof copy, 1, &len), copy + 8);
    assert_int_equal(len, 1);
    assert_ptr_equal(scsi_sense_descriptor(copy, sizeof copy, 3, &len), copy + 11);
    assert_int_equal(len, 2);
    assert_ptr_equal(scsi_sense_descriptor(copy, sizeof copy, 9, &len), copy + 15);
    assert_int_equal(len, 0);
    assert_null(scsi_sense_descriptor(copy, sizeof copy, 0x0a, &len)); // beyond what it says
    assert_null(scsi_sense_descriptor(copy, 14, 3, &len));             // cut
    assert_null(scsi_sense_descriptor(copy, 7, 1, &len));
    for (unsigned code = 0; code <= UINT8_MAX; code++) {
        bool has = (code & 0x7f) == 0x72 || (code & 0x7f) == 0x73;
        copy[0] = (uint8_t)code;
        assert_int_equal(scsi_sense_descriptor(copy, sizeof copy, 1, &len) != NULL, has);
        struct scsi_failure failure;
        bool is_fixed = (code & 0x7f) == 0x70 || (code & 0x7f) == 0x71;
        assert_int_equal(scsi_sense_parse(copy, sizeof copy, &failure), has || is_fixed);
    }
}

static void the_best_name_of_a_unit_is_taken(void **state)
{
    static const uint8_t page[] = {0, 0x83, 0, 32,                      // 32 octets follow
                                   2, 1,    0, 4,  'W',  'E', 'F', 'T', // T10
                                   1, 0x13, 0, 4,  9,    9,   9,   9,   // NAA of the port
                                   1, 3,    0, 8,  0x60, 1,   2,   3,
                                   4, 5,    6, 7}; // NAA of the unit
    char name[SCSI_NAME_MAX];
    assert_true(scsi_identification_parse(page, sizeof page, name));
    assert_string_equal(name, "0x6001020304050607");
    assert_true(scsi_identification_parse(page, 20, name)); // the rest is missing
    assert_string_equal(name, "WEFT");
    for (uint32_t len = 0; len < 12; len++) {
        assert_false(scsi_identification_parse(page, len, name));
    }
}

static void pages_that_are_cut_short_say_nothing(void **state)
{
    uint8_t octets[64] = {0};
    struct scsi_limits limits;
    struct scsi_provisioning provisioning;
    struct scsi_mode mode;
    struct scsi_inquiry inquiry;
    char name[SCSI_NAME_MAX];
    assert_false(scsi_limits_parse(octets, 15, &limits));
    assert_false(scsi_provisioning_parse(octets, 5, &provisioning));
    assert_false(scsi_mode_parse(octets, 3, &mode));
    assert_true(mode.has_write_cache); // to be on the safe side
    assert_false(scsi_inquiry_parse(octets, 35, &inquiry));
    assert_false(scsi_serial_parse(octets, 3, name));
    octets[3] = 0xff; // more descriptors than there are
    assert_true(scsi_mode_parse(octets, sizeof octets, &mode));
    assert_true(mode.has_write_cache);
    assert_false(scsi_pages_have(octets, 4, 0));
}

static void limits_are_taken_as_far_as_the_page_goes(void **state)
{
    uint8_t octets[64];
    struct scsi_limits limits;
    for (unsigned i = 0; i < sizeof octets; i++) {
        octets[i] = (uint8_t)i;
    }
    for (uint32_t len = 16; len <= sizeof octets; len++) {
        assert_true(scsi_limits_parse(octets, len, &limits));
        assert_int_equal(limits.transfer_max, 0x08090a0b);
        assert_int_equal(limits.transfer_best, 0x0c0d0e0f);
        assert_int_equal(limits.unmap_max, len >= 24 ? 0x14151617 : 0);
        assert_int_equal(limits.write_same_max, len >= 44 ? 0x2425262728292a2b : 0);
    }
}

/* ---- ATA ------------------------------------------------------------------------------------- */

static void ata_commands_are_carried_as_the_standard_has_it(void **state)
{
    static const struct {
        unsigned operation;
        uint16_t flags;
        uint64_t offset, len;
        const char *octets; // of ATA PASS-THROUGH(16)
    } table[] = {
        {NODE_READ, 0, 0x060504030201ULL << 9, 4096,
         "85 0d 1e 00 00 00 08 04 01 05 02 06 03 40 25 00"},
        {NODE_WRITE, 0, 512, 512, "85 0d 16 00 00 00 01 00 01 00 00 00 00 40 35 00"},
        {NODE_WRITE, NODE_FUA, 512, 512, "85 0d 16 00 00 00 01 00 01 00 00 00 00 40 3d 00"},
        {NODE_FLUSH, 0, 0, 0, "85 07 00 00 00 00 00 00 00 00 00 00 00 40 ea 00"},
        {NODE_TRIM, 0, 0, 4096, "85 0d 06 00 01 00 01 00 00 00 00 00 00 40 06 00"},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct volume_profile profile = profile_of(512);
        uint8_t cdb[SCSI_CDB_LEN];
        struct ddm_command command = encoded(&io_format_ata, &profile, table[i].operation,
                                             table[i].offset, table[i].len, table[i].flags);
        struct ata_registers registers = ata_registers_parse(command.native);
        ata_pass_through_emit(cdb, &registers, table[i].operation != NODE_READ);
        expect_octets(cdb, sizeof cdb, table[i].octets);
    }
}

static void addresses_of_48_bits_are_in_their_places(void **state)
{
    uint8_t cdb[SCSI_CDB_LEN];
    struct ata_registers registers = {.command = ATA_READ_DMA_EXT,
                                      .protocol = ATA_DMA,
                                      .feature = 0x1122,
                                      .count = 0x3344,
                                      .lba = 0x060504030201};
    ata_pass_through_emit(cdb, &registers, false);
    expect_octets(cdb, sizeof cdb, "85 0d 1e 11 22 33 44 04 01 05 02 06 03 00 25 00");
}

static void a_trim_has_as_many_entries_as_it_needs(void **state)
{
    struct volume_profile profile = profile_of(512);
    uint64_t most = 512ULL * ATA_TRIM_ENTRY_BLOCKS;
    struct ddm_command command = encoded(&io_format_ata, &profile, NODE_TRIM, 512, most + 512, 0);
    expect_octets(command.native + ATA_NATIVE_TRIM, command.native_len - ATA_NATIVE_TRIM,
                  "01 00 00 00 00 00 ff ff 00 00 01 00 00 00 01 00");
    command = encoded(&io_format_ata, &profile, NODE_TRIM, 0, 20 * most, 0);
    assert_int_equal(command.len, ATA_TRIM_ENTRIES_MAX * most);
    assert_true(command.native_len <= DDM_NATIVE_MAX);
}

static enum node_completion ata_says(unsigned operation, uint8_t status, uint8_t error)
{
    struct ddm_command command = {
        .operation = (uint8_t)operation, .status = {status, error}, .status_len = ATA_ANSWER_LEN};
    io_format_ata.decode(&command);
    return command.completion;
}

static void registers_are_a_completion(void **state)
{
    enum { READY = 0x50 };
    assert_int_equal(ata_says(NODE_READ, READY, 0), NODE_OK);
    assert_int_equal(ata_says(NODE_READ, READY, 0xff), NODE_OK); // the error register means nothing
    assert_int_equal(ata_says(NODE_READ, 0xd1, 0x40), NODE_RETRY);
    assert_int_equal(ata_says(NODE_READ, READY | ATA_STATUS_DEVICE_FAULT, 0), NODE_MEDIA);
    assert_int_equal(ata_says(NODE_READ, READY | ATA_STATUS_ERROR, ATA_ERROR_UNCORRECTABLE),
                     NODE_MEDIA);
    assert_int_equal(ata_says(NODE_READ, READY | ATA_STATUS_ERROR, ATA_ERROR_ID_NOT_FOUND),
                     NODE_RANGE);
    assert_int_equal(
        ata_says(NODE_READ, READY | ATA_STATUS_ERROR, ATA_ERROR_INTERFACE_CRC | ATA_ERROR_ABORT),
        NODE_RETRY);
    assert_int_equal(ata_says(NODE_WRITE, READY | ATA_STATUS_ERROR, ATA_ERROR_ABORT), NODE_RETRY);
    assert_int_equal(ata_says(NODE_TRIM, READY | ATA_STATUS_ERROR, ATA_ERROR_ABORT),
                     NODE_UNSUPPORTED);
}

static void registers_are_found_in_sense_data_of_both_formats(void **state)
{
    uint8_t registers[ATA_ANSWER_LEN];
    uint8_t descriptors[22] = {0x72, 3, 0x11, 4, [7] = 14, 0x09, 12, 0, 0x40, [21] = 0x51};
    uint8_t fixed[18] = {0xf0, 0, 3, 0x40, 0x51, [7] = 10, [12] = 0x11};
    assert_true(ata_return_parse(descriptors, sizeof descriptors, registers));
    assert_int_equal(registers[ATA_ANSWER_STATUS], 0x51);
    assert_int_equal(registers[ATA_ANSWER_ERROR], 0x40);
    assert_true(ata_return_parse(fixed, sizeof fixed, registers));
    assert_int_equal(registers[ATA_ANSWER_STATUS], 0x51);
    assert_int_equal(registers[ATA_ANSWER_ERROR], 0x40);
    for (uint32_t len = 0; len < sizeof descriptors; len++) {
        assert_false(ata_return_parse(descriptors, len, registers));
    }
    fixed[0] = 0x70; // its information field is not filled
    assert_false(ata_return_parse(fixed, sizeof fixed, registers));
    descriptors[9] = 0xff; // a descriptor longer than what is left
    assert_false(ata_return_parse(descriptors, sizeof descriptors, registers));
}

static void word_put(uint8_t *octets, unsigned number, unsigned value)
{
    octets[2 * number] = (uint8_t)value;
    octets[2 * number + 1] = (uint8_t)(value >> 8);
}

static void a_disk_is_what_its_identity_says(void **state)
{
    uint8_t octets[ATA_BLOCK_LEN] = {0};
    struct ata_identity identity;
    assert_false(ata_identity_parse(octets, &identity)); // no addresses of 48 bits
    word_put(octets, 83, 0x4400);
    word_put(octets, 84, 0x4040);
    word_put(octets, 85, 0x20);
    word_put(octets, 100, 0x1000);
    word_put(octets, 169, 1);
    word_put(octets, 217, 1);
    memcpy(octets + 2 * 27, "EWTFD SI K  ", 12);
    assert_true(ata_identity_parse(octets, &identity));
    assert_string_equal(identity.model, "WEFT DISK");
    assert_int_equal(identity.blocks, 0x1000);
    assert_int_equal(identity.block_size, 512);
    assert_true(identity.has_fua && identity.has_write_cache && identity.can_trim);
    assert_false(identity.is_rotational);
    word_put(octets, 106, 0x5000); // sectors of 2048 words
    word_put(octets, 117, 2048);
    assert_true(ata_identity_parse(octets, &identity));
    assert_int_equal(identity.block_size, 4096);
    word_put(octets, 117, 2049);
    assert_false(ata_identity_parse(octets, &identity));
    word_put(octets, 117, 2048);
    word_put(octets, 0, 0x8000); // no disk
    assert_false(ata_identity_parse(octets, &identity));
}

static void a_disk_has_at_least_a_block_and_what_48_bits_address(void **state)
{
    static const struct {
        uint64_t blocks;
        bool is_possible;
    } table[] = {
        {0, false}, {1, true}, {(UINT64_C(1) << 48) - 1, true}, {UINT64_C(1) << 48, false}};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint8_t octets[ATA_BLOCK_LEN] = {0};
        struct ata_identity identity;
        word_put(octets, 83, 0x4400);
        for (unsigned word = 0; word < 4; word++) {
            word_put(octets, 100 + word, (unsigned)(table[i].blocks >> 16 * word) & 0xffff);
        }
        assert_int_equal(ata_identity_parse(octets, &identity), table[i].is_possible);
        assert_int_equal(identity.blocks, table[i].blocks);
        assert_true(identity.is_rotational);
        assert_false(identity.has_fua || identity.has_write_cache || identity.can_trim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_is_made_anew_in_the_place_of_another),
        cmocka_unit_test(what_the_device_says_comes_back_by_its_format),
        cmocka_unit_test(scsi_commands_are_those_of_the_standard),
        cmocka_unit_test(zeroes_are_written_where_the_device_cannot_repeat_a_block),
        cmocka_unit_test(zeroes_that_one_write_may_have_are_written_at_once),
        cmocka_unit_test(a_flush_is_of_all_blocks_whatever_it_names),
        cmocka_unit_test(what_a_format_has_not_is_refused),
        cmocka_unit_test(a_status_is_a_completion),
        cmocka_unit_test(sense_data_of_both_formats_are_a_completion),
        cmocka_unit_test(a_code_means_the_same_with_every_qualifier),
        cmocka_unit_test(a_deferred_error_is_no_success_of_the_command_it_comes_with),
        cmocka_unit_test(a_completion_says_what_the_device_said),
        cmocka_unit_test(sense_data_that_are_cut_short_are_read_as_far_as_they_go),
        cmocka_unit_test(a_short_transfer_has_done_its_whole_blocks),
        cmocka_unit_test(a_transfer_that_failed_has_done_no_part),
        cmocka_unit_test(what_no_device_answered_is_told_by_the_transport),
        cmocka_unit_test(what_a_filter_answered_stays),
        cmocka_unit_test(a_capacity_that_cannot_be_is_refused),
        cmocka_unit_test(capacities_are_those_of_blocks_that_can_be),
        cmocka_unit_test(an_inquiry_has_its_type_and_its_names_without_spaces),
        cmocka_unit_test(what_a_device_provisions_is_three_bits),
        cmocka_unit_test(a_mode_is_protected_has_fua_and_a_cache),
        cmocka_unit_test(an_operation_is_supported_as_the_standard_or_the_vendor_has_it),
        cmocka_unit_test(a_list_of_pages_ends_where_it_says_or_is_cut),
        cmocka_unit_test(a_serial_number_has_no_spaces_around_it),
        cmocka_unit_test(the_first_of_equal_names_stays_and_long_ones_are_cut),
        cmocka_unit_test(a_descriptor_of_sense_data_is_found_as_far_as_they_go),
        cmocka_unit_test(the_best_name_of_a_unit_is_taken),
        cmocka_unit_test(pages_that_are_cut_short_say_nothing),
        cmocka_unit_test(limits_are_taken_as_far_as_the_page_goes),
        cmocka_unit_test(ata_commands_are_carried_as_the_standard_has_it),
        cmocka_unit_test(addresses_of_48_bits_are_in_their_places),
        cmocka_unit_test(a_trim_has_as_many_entries_as_it_needs),
        cmocka_unit_test(registers_are_a_completion),
        cmocka_unit_test(registers_are_found_in_sense_data_of_both_formats),
        cmocka_unit_test(a_disk_is_what_its_identity_says),
        cmocka_unit_test(a_disk_has_at_least_a_block_and_what_48_bits_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
