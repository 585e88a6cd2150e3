#include "node/scsi/sense.h"

#include <string.h>

enum { CURRENT_FIXED = 0x70, CURRENT_DESCRIPTOR = 0x72 };

static const struct scsi_failure failures[FAULT_COUNT] = {
    [FAULT_NONE] = {SCSI_NO_SENSE, 0x00, 0x00},
    [FAULT_OPCODE] = {SCSI_ILLEGAL_REQUEST, 0x20, 0x00},
    [FAULT_CDB_FIELD] = {SCSI_ILLEGAL_REQUEST, 0x24, 0x00},
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
    [FAULT_TIMED_OUT] = {SCSI_ABORTED_COMMAND, 0x2e, 0x02},
    [FAULT_INTERNAL] = {SCSI_HARDWARE_ERROR, 0x44, 0x00},
    [FAULT_POWER_ON] = {SCSI_UNIT_ATTENTION, 0x29, 0x00},
    [FAULT_RESET] = {SCSI_UNIT_ATTENTION, 0x29, 0x03},
    [FAULT_CAPACITY_CHANGED] = {SCSI_UNIT_ATTENTION, 0x2a, 0x09},
    [FAULT_MODE_CHANGED] = {SCSI_UNIT_ATTENTION, 0x2a, 0x01},
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

void scsi_sense_emit_fixed(uint8_t *ret, struct scsi_failure failure)
{
    memset(ret, 0, SCSI_SENSE_FIXED_LEN);
    ret[SCSI_SENSE_RESPONSE_CODE] = CURRENT_FIXED;
    ret[SCSI_FIXED_KEY] = failure.key;
    ret[SCSI_SENSE_MORE_LEN] = SCSI_SENSE_FIXED_LEN - SCSI_SENSE_MORE_LEN - 1;
    ret[SCSI_FIXED_ASC] = failure.asc;
    ret[SCSI_FIXED_ASCQ] = failure.ascq;
}

void scsi_sense_emit_descriptor(uint8_t *ret, struct scsi_failure failure)
{
    memset(ret, 0, SCSI_DESCRIPTORS);
    ret[SCSI_SENSE_RESPONSE_CODE] = CURRENT_DESCRIPTOR;
    ret[SCSI_DESCRIPTOR_KEY] = failure.key;
    ret[SCSI_DESCRIPTOR_ASC] = failure.asc;
    ret[SCSI_DESCRIPTOR_ASCQ] = failure.ascq;
}
