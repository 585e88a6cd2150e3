// The two iSCSI PDUs that a block protocol needs (RFC 7143 sections 11.3 and 11.4): SCSI Command
// with READ(16) or WRITE(16), and SCSI Response. They are complete PDUs without digests and travel
// as they are.
//
//   OFFSET SIZE SCSI Command                      SCSI Response
//    0      1   0x01                              0x21
//    1      1   0x80 final, 0x40 read, 0x20 write 0x80 final
//    2      2   0                                 response, status
//   16      4   initiator task tag                initiator task tag
//   20      4   expected data transfer length     0
//   24      4   CmdSN                             StatSN
//   28      4   ExpStatSN                         ExpCmdSN
//   32     16   CDB                               MaxCmdSN, 0
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ISCSI_OFF_TASK_TAG = 16,
    ISCSI_OFF_CMD_SN = 24,
    ISCSI_NUMBER_LEN = 4,
    ISCSI_PDU_LEN = 48,
    ISCSI_BLOCK_LEN = 512,
};

enum iscsi_status { ISCSI_GOOD = 0x00, ISCSI_CHECK_CONDITION = 0x02 };

struct iscsi_command {
    bool is_write;
    uint32_t task_tag, cmd_sn, exp_stat_sn;
    uint64_t lba;
    uint32_t block_count;
};

struct iscsi_response {
    uint8_t status; // enum iscsi_status
    uint32_t task_tag, stat_sn, exp_cmd_sn, max_cmd_sn;
};

// Write ISCSI_PDU_LEN octets.
void iscsi_command_emit(const struct iscsi_command *command, uint8_t *pdu);
void iscsi_response_emit(const struct iscsi_response *response, uint8_t *pdu);

// False: not such a PDU, or one whose parts contradict each other.
bool iscsi_command_parse(const uint8_t *pdu, size_t len, struct iscsi_command *ret);
bool iscsi_response_parse(const uint8_t *pdu, size_t len, struct iscsi_response *ret);
