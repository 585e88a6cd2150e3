// Why a command failed, as a table of sense keys and additional codes (SPC-4 annex F.2).
#pragma once

#include <stdint.h>

#include "node/format/scsi.h"

enum { SCSI_SENSE_FIXED_LEN = 18 };

enum scsi_fault {
    FAULT_NONE,
    FAULT_OPCODE,
    FAULT_CDB_FIELD,
    FAULT_LIST_FIELD,
    FAULT_LIST_LENGTH,
    FAULT_LBA,
    FAULT_NO_UNIT,
    FAULT_STANDBY,
    FAULT_SAVING,
    FAULT_WRITE_PROTECTED,
    FAULT_NO_SPACE,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_MISCOMPARE,
    FAULT_DATA_DIGEST,
    FAULT_TRANSFER,
    FAULT_UNSOLICITED,
    FAULT_AMOUNT,
    FAULT_TIMED_OUT,
    FAULT_INTERNAL,
    FAULT_POWER_ON,
    FAULT_RESET,
    FAULT_CLEARED,
    FAULT_CAPACITY_CHANGED,
    FAULT_MODE_CHANGED,
    FAULT_UNITS_CHANGED,
    FAULT_RELEASE,
    FAULT_REGISTRATIONS,
    FAULT_PREEMPTED,
    FAULT_RELEASED,
    FAULT_REGISTRATIONS_PREEMPTED,
    FAULT_COUNT
};

struct scsi_failure scsi_failure_of(enum scsi_fault fault);

// SCSI_SENSE_FIXED_LEN octets.
void scsi_sense_emit_fixed(uint8_t *ret, struct scsi_failure failure);
// Without descriptors: 8 octets.
void scsi_sense_emit_descriptor(uint8_t *ret, struct scsi_failure failure);
