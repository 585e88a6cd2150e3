// iSCSI: protocol data units (RFC 7143 section 11). Each is a basic header segment of 48 octets,
// perhaps additional ones and their digest, perhaps data, padded to a multiple of four, and theirs.
// Integers stand most significant octet first.
//
//   OFFSET SIZE FIELD
//        0    1 immediate (bit 6), opcode
//        1    3 of the opcode; the first bit of octet 1 is F, final
//        4    1 additional header segments, in units of 4 octets
//        5    3 octets of data, without padding
//        8    8 logical unit, or of the opcode
//       16    4 initiator task tag
//       20   28 of the opcode
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum iscsi_pdu_offset {
    ISCSI_OFF_OPCODE = 0,
    ISCSI_OFF_FLAGS = 1,
    ISCSI_OFF_AHS_LEN = 4,
    ISCSI_OFF_DATA_LEN = 5, // 24 bits
    ISCSI_OFF_LUN = 8,
    ISCSI_OFF_ITT = 16,
    ISCSI_OFF_TTT = 20,
    ISCSI_OFF_CMDSN = 24,     // from the initiator
    ISCSI_OFF_EXPSTATSN = 28, // likewise
    ISCSI_OFF_STATSN = 24,    // from the target
    ISCSI_OFF_EXPCMDSN = 28,  // likewise
    ISCSI_OFF_MAXCMDSN = 32,  // likewise
    ISCSI_HEADER_LEN = 48,
    ISCSI_DIGEST_LEN = 4,
    ISCSI_PAD = 4,
};

enum { ISCSI_IMMEDIATE = 1 << 6, ISCSI_OPCODE_MASK = 0x3f, ISCSI_FINAL = 1 << 7 };

#define ISCSI_NO_TAG UINT32_C(0xffffffff)

enum iscsi_opcode {
    ISCSI_NOP_OUT = 0x00,
    ISCSI_SCSI_COMMAND = 0x01,
    ISCSI_TASK_REQUEST = 0x02,
    ISCSI_LOGIN_REQUEST = 0x03,
    ISCSI_TEXT_REQUEST = 0x04,
    ISCSI_DATA_OUT = 0x05,
    ISCSI_LOGOUT_REQUEST = 0x06,
    ISCSI_SNACK_REQUEST = 0x10,
    ISCSI_NOP_IN = 0x20,
    ISCSI_SCSI_RESPONSE = 0x21,
    ISCSI_TASK_RESPONSE = 0x22,
    ISCSI_LOGIN_RESPONSE = 0x23,
    ISCSI_TEXT_RESPONSE = 0x24,
    ISCSI_DATA_IN = 0x25,
    ISCSI_LOGOUT_RESPONSE = 0x26,
    ISCSI_R2T = 0x31,
    ISCSI_ASYNC_MESSAGE = 0x32,
    ISCSI_REJECT = 0x3f,
};

// SCSI Command and Response, sections 11.3 and 11.4
enum iscsi_command_offset {
    ISCSI_CMD_OFF_EXPECTED_LEN = 20,
    ISCSI_CMD_OFF_CDB = 32,
    ISCSI_CMD_CDB_LEN = 16,
    ISCSI_RSP_OFF_RESPONSE = 2,
    ISCSI_RSP_OFF_STATUS = 3,
    ISCSI_RSP_OFF_EXPDATASN = 36,
    ISCSI_RSP_OFF_RESIDUAL = 44,
    ISCSI_SENSE_LEN_LEN = 2, // of the length in front of sense data
};

enum iscsi_command_flag {
    ISCSI_CMD_READ = 1 << 6,
    ISCSI_CMD_WRITE = 1 << 5,
    ISCSI_CMD_ATTRIBUTE_MASK = 7,
};
enum iscsi_residual_flag { ISCSI_OVERFLOW = 1 << 2, ISCSI_UNDERFLOW = 1 << 1 };

// Data-Out, Data-In and R2T, sections 11.7 and 11.8
enum iscsi_data_offset {
    ISCSI_DATA_OFF_STATUS = 3, // Data-In with S
    ISCSI_DATA_OFF_DATASN = 36,
    ISCSI_DATA_OFF_BUFFER = 40,
    ISCSI_DATA_OFF_RESIDUAL = 44,
    ISCSI_R2T_OFF_R2TSN = 36,
    ISCSI_R2T_OFF_LEN = 44,
};

enum { ISCSI_DATA_STATUS = 1 << 0 };

// Task Management, sections 11.5 and 11.6
enum iscsi_task_offset { ISCSI_TASK_OFF_REFERENCED = 20, ISCSI_TASK_OFF_REFCMDSN = 32 };

enum iscsi_task_function {
    ISCSI_ABORT_TASK = 1,
    ISCSI_ABORT_TASK_SET = 2,
    ISCSI_CLEAR_ACA = 3,
    ISCSI_CLEAR_TASK_SET = 4,
    ISCSI_LUN_RESET = 5,
    ISCSI_TARGET_WARM_RESET = 6,
    ISCSI_TARGET_COLD_RESET = 7,
    ISCSI_TASK_REASSIGN = 8,
    ISCSI_TASK_FUNCTION_MASK = 0x7f,
};

enum iscsi_task_response {
    ISCSI_TASK_COMPLETE = 0,
    ISCSI_NO_TASK = 1,
    ISCSI_NO_LUN = 2,
    ISCSI_NO_REASSIGNMENT = 4,
    ISCSI_TASK_UNSUPPORTED = 5,
    ISCSI_TASK_REJECTED = 255,
};

// Login, sections 11.12 and 11.13
enum iscsi_login_offset {
    ISCSI_LOGIN_OFF_VERSION_MAX = 2,
    ISCSI_LOGIN_OFF_VERSION_MIN = 3, // in responses the active one
    ISCSI_LOGIN_OFF_ISID = 8,
    ISCSI_LOGIN_OFF_TSIH = 14,
    ISCSI_LOGIN_OFF_CID = 20,
    ISCSI_LOGIN_OFF_STATUS = 36, // class, detail
    ISCSI_ISID_LEN = 6,
};

enum iscsi_login_flag {
    ISCSI_LOGIN_TRANSIT = 1 << 7,
    ISCSI_LOGIN_CONTINUE = 1 << 6,
    ISCSI_LOGIN_CSG_SHIFT = 2,
    ISCSI_LOGIN_STAGE_MASK = 3,
};

enum iscsi_stage { ISCSI_SECURITY = 0, ISCSI_OPERATIONAL = 1, ISCSI_FULL_FEATURE = 3 };

// Status class and detail, section 11.13.5
enum iscsi_login_status {
    ISCSI_LOGIN_OK = 0x0000,
    ISCSI_INITIATOR_ERROR = 0x0200,
    ISCSI_AUTHENTICATION_FAILURE = 0x0201,
    ISCSI_AUTHORIZATION_FAILURE = 0x0202,
    ISCSI_TARGET_NOT_FOUND = 0x0203,
    ISCSI_UNSUPPORTED_VERSION = 0x0205,
    ISCSI_TOO_MANY_CONNECTIONS = 0x0206,
    ISCSI_MISSING_PARAMETER = 0x0207,
    ISCSI_NO_SESSION_TYPE = 0x0209,
    ISCSI_NO_SESSION = 0x020a,
    ISCSI_INVALID_REQUEST = 0x020b,
    ISCSI_TARGET_ERROR = 0x0300,
    ISCSI_SERVICE_UNAVAILABLE = 0x0301,
    ISCSI_OUT_OF_RESOURCES = 0x0302,
};

// Text, sections 11.10 and 11.11: flags beside F
enum { ISCSI_TEXT_CONTINUE = 1 << 6 };

// Logout, sections 11.14 and 11.15
enum iscsi_logout {
    ISCSI_LOGOUT_OFF_REASON = 1,
    ISCSI_LOGOUT_OFF_CID = 20,
    ISCSI_LOGOUT_OFF_RESPONSE = 2,
    ISCSI_LOGOUT_REASON_MASK = 0x7f,
    ISCSI_CLOSE_SESSION = 0,
    ISCSI_CLOSE_CONNECTION = 1,
    ISCSI_REMOVE_FOR_RECOVERY = 2,
    ISCSI_LOGOUT_OK = 0,
    ISCSI_LOGOUT_NO_CID = 1,
    ISCSI_LOGOUT_NO_RECOVERY = 2,
};

// Asynchronous Message, section 11.9: the target will drop all connections of this session
enum iscsi_async {
    ISCSI_ASYNC_OFF_EVENT = 36,
    ISCSI_ASYNC_OFF_PARAMETERS = 38,
    ISCSI_ASYNC_DROPS_ALL = 3,
};

// Reject, section 11.17
enum iscsi_reject_offset { ISCSI_REJECT_OFF_REASON = 2 };

enum iscsi_reject_reason {
    ISCSI_REJECT_DATA_DIGEST = 0x02,
    ISCSI_REJECT_SNACK = 0x03,
    ISCSI_REJECT_PROTOCOL_ERROR = 0x04,
    ISCSI_REJECT_UNSUPPORTED = 0x05,
    ISCSI_REJECT_TOO_MANY_IMMEDIATE = 0x06,
    ISCSI_REJECT_INVALID_FIELD = 0x09,
};

// What stands in every header from an initiator.
struct iscsi_header {
    const uint8_t *at;
    uint8_t opcode, flags;
    bool is_immediate;
    uint32_t ahs_len, data_len, pad_len; // octets
    uint32_t itt, cmdsn;
};

// The basic header at `octets`, which has ISCSI_HEADER_LEN of them.
struct iscsi_header iscsi_header_parse(const uint8_t *octets);
// Zeroes a header, then writes what all from the target have.
void iscsi_header_emit(uint8_t *ret, enum iscsi_opcode opcode, uint8_t flags, uint32_t itt);

static inline uint32_t iscsi_pad_of(uint32_t len)
{
    return -len % ISCSI_PAD;
}
