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
