#include "node/scsi/sense.h"

#include <string.h>

#include "base/bytes.h"

enum { CURRENT_FIXED = 0x70, CURRENT_DESCRIPTOR = 0x72 };

static const struct scsi_failure failures[FAULT_COUNT] = {
    [FAULT_NONE] = {SCSI_NO_SENSE, 0x00, 0x00},
    [FAULT_OPCODE] = {SCSI_ILLEGAL_REQUEST, 0x20, 0x00},
    [FAULT_CDB_FIELD] = {SCSI_ILLEGAL_REQUEST, 0x24, 0x00},
    [FAULT_ATTRIBUTE] = {SCSI_ILLEGAL_REQUEST, 0x49, 0x00},
    [FAULT_LIST_FIELD] = {SCSI_ILLEGAL_REQUEST, 0x26, 0x00},
    [FAULT_LIST_LENGTH] = {SCSI_ILLEGAL_REQUEST, 0x1a, 0x00},
    [FAULT_LBA] = {SCSI_ILLEGAL_REQUEST, 0x21, 0x00},
    [FAULT_NO_UNIT] = {SCSI_ILLEGAL_REQUEST, 0x25, 0x00},
    [FAULT_STANDBY] = {SCSI_NOT_READY, 0x04, 0x0b},
    [FAULT_SAVING] = {SCSI_ILLEGAL_REQUEST, 0x39, 0x00},
    [FAULT_WRITE_PROTECTED] = {SCSI_DATA_PROTECT, 0x27, 0x00},
    [FAULT_NO_SPACE] = {SCSI_DATA_PROTECT, 0x27, 0x07},
    [FAULT_READ] = {SCSI_MEDIUM_ERROR, 0x11, 0x00},
    [FAULT_WRITE] = {SCSI_MEDIUM_ERROR, 0x0c, 0x00},
    [FAULT_MISCOMPARE] = {SCSI_MISCOMPARE, 0x1d, 0x00},
    [FAULT_DATA_DIGEST] = {SCSI_ABORTED_COMMAND, 0x47, 0x05},
    [FAULT_TRANSFER] = {SCSI_ABORTED_COMMAND, 0x4b, 0x00},
    [FAULT_UNSOLICITED] = {SCSI_ABORTED_COMMAND, 0x0c, 0x0c},
    [FAULT_AMOUNT] = {SCSI_ABORTED_COMMAND, 0x0c, 0x0d},
    [FAULT_PART_OF_A_BLOCK] = {SCSI_ILLEGAL_REQUEST, 0x0e, 0x03},
    [FAULT_TIMED_OUT] = {SCSI_ABORTED_COMMAND, 0x2e, 0x02},
    [FAULT_INTERNAL] = {SCSI_HARDWARE_ERROR, 0x44, 0x00},
    [FAULT_POWER_ON] = {SCSI_UNIT_ATTENTION, 0x29, 0x00},
    [FAULT_RESET] = {SCSI_UNIT_ATTENTION, 0x29, 0x03},
    [FAULT_CLEARED] = {SCSI_UNIT_ATTENTION, 0x2f, 0x00},
    [FAULT_CAPACITY_CHANGED] = {SCSI_UNIT_ATTENTION, 0x2a, 0x09},
    [FAULT_MODE_CHANGED] = {SCSI_UNIT_ATTENTION, 0x2a, 0x01},
    [FAULT_UNITS_CHANGED] = {SCSI_UNIT_ATTENTION, 0x3f, 0x0e},
    [FAULT_RELEASE] = {SCSI_ILLEGAL_REQUEST, 0x26, 0x04},
    [FAULT_REGISTRATIONS] = {SCSI_ILLEGAL_REQUEST, 0x55, 0x04},
    [FAULT_PREEMPTED] = {SCSI_UNIT_ATTENTION, 0x2a, 0x03},
    [FAULT_RELEASED] = {SCSI_UNIT_ATTENTION, 0x2a, 0x04},
    [FAULT_REGISTRATIONS_PREEMPTED] = {SCSI_UNIT_ATTENTION, 0x2a, 0x05},
};

struct scsi_failure scsi_failure_of(enum scsi_fault fault)
{
    return failures[fault];
}

/* ---- as octets ------------------------------------------------------------------------------- */

// Sense key specific octets: which field of the CDB it is (SPC-4 section 4.5.2.4.2).
enum { FIELD_VALID = 1 << 7, FIELD_OF_CDB = 1 << 6, FIELD_HAS_BIT = 1 << 3 };

static void field_emit(uint8_t *ret, const struct scsi_sense *sense)
{
    if (sense->has_field) {
        ret[0] = (uint8_t)(FIELD_VALID | FIELD_OF_CDB | FIELD_HAS_BIT | sense->bit);
        put_be16(ret + 1, sense->field);
    }
}

enum {
    FIXED_VALID = 1 << 7,
    FIXED_INFORMATION = 3,
    FIXED_KEY_SPECIFIC = 15,
};

static uint32_t emit_fixed(uint8_t *ret, const struct scsi_sense *sense)
{
    struct scsi_failure failure = failures[sense->fault];
    bool is_valid = sense->has_information && sense->information <= UINT32_MAX;
    memset(ret, 0, SCSI_SENSE_FIXED_LEN);
    ret[SCSI_SENSE_RESPONSE_CODE] = (uint8_t)(CURRENT_FIXED | (is_valid ? FIXED_VALID : 0));
    ret[SCSI_FIXED_KEY] = failure.key;
    put_be32(ret + FIXED_INFORMATION, is_valid ? (uint32_t)sense->information : 0);
    ret[SCSI_SENSE_MORE_LEN] = SCSI_SENSE_FIXED_LEN - SCSI_SENSE_MORE_LEN - 1;
    ret[SCSI_FIXED_ASC] = failure.asc;
    ret[SCSI_FIXED_ASCQ] = failure.ascq;
    field_emit(ret + FIXED_KEY_SPECIFIC, sense);
    return SCSI_SENSE_FIXED_LEN;
}

// A descriptor: its type, the octets that follow these two.
enum {
    TYPE_INFORMATION = 0x00,
    TYPE_KEY_SPECIFIC = 0x02,
    INFORMATION_VALID = 1 << 7,
    OFF_VALID = 2,
    OFF_INFORMATION = 4,
    OFF_KEY_SPECIFIC = 4,
};

static uint8_t *descriptor_begin(uint8_t *ret, uint32_t *len, uint8_t type, uint8_t descriptor_len)
{
    uint8_t *at = ret + *len;
    memset(at, 0, descriptor_len);
    at[0] = type;
    at[1] = (uint8_t)(descriptor_len - 2);
    *len += descriptor_len;
    return at;
}

static uint32_t emit_descriptors(uint8_t *ret, const struct scsi_sense *sense)
{
    struct scsi_failure failure = failures[sense->fault];
    uint32_t len = SCSI_DESCRIPTORS;
    memset(ret, 0, SCSI_DESCRIPTORS);
    ret[SCSI_SENSE_RESPONSE_CODE] = CURRENT_DESCRIPTOR;
    ret[SCSI_DESCRIPTOR_KEY] = failure.key;
    ret[SCSI_DESCRIPTOR_ASC] = failure.asc;
    ret[SCSI_DESCRIPTOR_ASCQ] = failure.ascq;
    if (sense->has_information) {
        uint8_t *at = descriptor_begin(ret, &len, TYPE_INFORMATION, SCSI_SENSE_INFORMATION_LEN);
        at[OFF_VALID] = INFORMATION_VALID;
        put_be64(at + OFF_INFORMATION, sense->information);
    }
    if (sense->has_field) {
        uint8_t *at = descriptor_begin(ret, &len, TYPE_KEY_SPECIFIC, SCSI_SENSE_KEY_SPECIFIC_LEN);
        field_emit(at + OFF_KEY_SPECIFIC, sense);
    }
    ret[SCSI_SENSE_MORE_LEN] = (uint8_t)(len - SCSI_DESCRIPTORS);
    return len;
}

uint32_t scsi_sense_emit(uint8_t *ret, const struct scsi_sense *sense, bool in_descriptors)
{
    return in_descriptors ? emit_descriptors(ret, sense) : emit_fixed(ret, sense);
}
