// Why a command failed, as a table of sense keys and additional codes (SPC-4 annex F.2).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "format/scsi.h"

enum {
    SCSI_SENSE_FIXED_LEN = 18,
    SCSI_SENSE_INFORMATION_LEN = 12, // descriptors
    SCSI_SENSE_KEY_SPECIFIC_LEN = 8,
    SCSI_SENSE_EMIT_MAX =
        SCSI_DESCRIPTORS + SCSI_SENSE_INFORMATION_LEN + SCSI_SENSE_KEY_SPECIFIC_LEN,
};

enum scsi_fault {
    FAULT_NONE,
    FAULT_OPCODE,
    FAULT_CDB_FIELD,
    FAULT_ATTRIBUTE,
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
    FAULT_PART_OF_A_BLOCK,
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

// What is told of a failure beside what it is.
struct scsi_sense {
    enum scsi_fault fault;
    bool has_information;
    uint64_t information; // as the command has it
    bool has_field;       // of the CDB, that is at fault
    uint8_t field, bit;   // its octet, and its most significant bit
};

struct scsi_failure scsi_failure_of(enum scsi_fault fault);

// SPC-4 sections 4.5.2 and 4.5.3, as fixed octets or as descriptors; SCSI_SENSE_EMIT_MAX octets at
// most: how many.
uint32_t scsi_sense_emit(uint8_t *ret, const struct scsi_sense *sense, bool in_descriptors);
