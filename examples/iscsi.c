#include "examples/iscsi.h"

#include <endian.h>
#include <string.h>

enum {
    OFF_FLAGS = 1,
    OFF_STATUS = 3,
    OFF_TRANSFER_LEN = 20,
    OFF_STAT_SN = 24,
    OFF_EXP_STAT_SN = 28,
    OFF_EXP_CMD_SN = 28,
    OFF_CDB = 32,
    OFF_MAX_CMD_SN = 32,
    OFF_CDB_LBA = OFF_CDB + 2,
    OFF_CDB_COUNT = OFF_CDB + 10,

    OPCODE_COMMAND = 0x01,
    OPCODE_RESPONSE = 0x21,
    FLAG_FINAL = 0x80,
    FLAG_READ = 0x40,
    FLAG_WRITE = 0x20,
    CDB_READ_16 = 0x88,
    CDB_WRITE_16 = 0x8a,
};

static void put32(uint8_t *at, uint32_t value)
{
    value = htobe32(value);
    memcpy(at, &value, sizeof value);
}

static uint32_t get32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return be32toh(value);
}

static void put64(uint8_t *at, uint64_t value)
{
    put32(at, (uint32_t)(value >> 32));
    put32(at + 4, (uint32_t)value);
}

static uint64_t get64(const uint8_t *at)
{
    return (uint64_t)get32(at) << 32 | get32(at + 4);
}

void iscsi_command_emit(const struct iscsi_command *c, uint8_t *pdu)
{
    memset(pdu, 0, ISCSI_PDU_LEN);
    pdu[0] = OPCODE_COMMAND;
    pdu[OFF_FLAGS] = FLAG_FINAL | (c->is_write ? FLAG_WRITE : FLAG_READ);
    put32(pdu + ISCSI_OFF_TASK_TAG, c->task_tag);
    put32(pdu + OFF_TRANSFER_LEN, c->block_count * ISCSI_BLOCK_LEN);
    put32(pdu + ISCSI_OFF_CMD_SN, c->cmd_sn);
    put32(pdu + OFF_EXP_STAT_SN, c->exp_stat_sn);
    pdu[OFF_CDB] = c->is_write ? CDB_WRITE_16 : CDB_READ_16;
    put64(pdu + OFF_CDB_LBA, c->lba);
    put32(pdu + OFF_CDB_COUNT, c->block_count);
}

void iscsi_response_emit(const struct iscsi_response *r, uint8_t *pdu)
{
    memset(pdu, 0, ISCSI_PDU_LEN);
    pdu[0] = OPCODE_RESPONSE;
    pdu[OFF_FLAGS] = FLAG_FINAL;
    pdu[OFF_STATUS] = r->status;
    put32(pdu + ISCSI_OFF_TASK_TAG, r->task_tag);
    put32(pdu + OFF_STAT_SN, r->stat_sn);
    put32(pdu + OFF_EXP_CMD_SN, r->exp_cmd_sn);
    put32(pdu + OFF_MAX_CMD_SN, r->max_cmd_sn);
}

bool iscsi_command_parse(const uint8_t *pdu, size_t len, struct iscsi_command *ret)
{
    if (len < ISCSI_PDU_LEN || pdu[0] != OPCODE_COMMAND) {
        return false;
    }
    *ret = (struct iscsi_command){
        .is_write = pdu[OFF_CDB] == CDB_WRITE_16,
        .task_tag = get32(pdu + ISCSI_OFF_TASK_TAG),
        .cmd_sn = get32(pdu + ISCSI_OFF_CMD_SN),
        .exp_stat_sn = get32(pdu + OFF_EXP_STAT_SN),
        .lba = get64(pdu + OFF_CDB_LBA),
        .block_count = get32(pdu + OFF_CDB_COUNT),
    };
    uint8_t flags = FLAG_FINAL | (ret->is_write ? FLAG_WRITE : FLAG_READ);
    return (ret->is_write || pdu[OFF_CDB] == CDB_READ_16) && pdu[OFF_FLAGS] == flags &&
           get32(pdu + OFF_TRANSFER_LEN) == (uint64_t)ret->block_count * ISCSI_BLOCK_LEN;
}

bool iscsi_response_parse(const uint8_t *pdu, size_t len, struct iscsi_response *ret)
{
    if (len < ISCSI_PDU_LEN || pdu[0] != OPCODE_RESPONSE) {
        return false;
    }
    *ret = (struct iscsi_response){
        .status = pdu[OFF_STATUS],
        .task_tag = get32(pdu + ISCSI_OFF_TASK_TAG),
        .stat_sn = get32(pdu + OFF_STAT_SN),
        .exp_cmd_sn = get32(pdu + OFF_EXP_CMD_SN),
        .max_cmd_sn = get32(pdu + OFF_MAX_CMD_SN),
    };
    return true;
}
