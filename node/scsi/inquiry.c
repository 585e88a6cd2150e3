// INQUIRY: what kind of device this is, and pages of vital product data (SPC-4 sections 6.4 and
// 7.8, SBC-3 section 6.5).

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "format/scsi.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"
#include "node/scsi/agent.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"

enum {
    PAGE_MAX_LEN = 640, // the longest is that of designators
    PAGE_HEADER_LEN = 4,
    STANDARD_LEN = 96,
    LIMITS_LEN = 64,
    NO_UNIT = 0x7f, // no device can be there, of no known type
    SERIAL_LEN = 2 * VOLUME_UUID_LEN,
    SCSI_BLOCK_CHARACTERISTICS = 0xb1,
};

static const char vendor[] = "WEFT    ";

/* ---- the standard data ----------------------------------------------------------------------- */

static uint32_t standard_emit(const struct scsi_task *task, uint8_t *at)
{
    // SAM-5, SPC-4, SBC-3, the transport, each without a version claimed
    const uint16_t versions[] = {0x00a0, 0x0460, 0x04c0, task->nexus->it->protocol_version};
    at[0] = task->nexus->unit != NULL ? SCSI_DIRECT_ACCESS : NO_UNIT;
    at[2] = 6;        // SPC-4
    at[3] = 0x10 | 2; // hierarchical numbers of units; this format
    at[4] = STANDARD_LEN - 5;
    at[7] = 1 << 1; // commands are queued
    memcpy(at + 8, vendor, 8);
    memcpy(at + 16, "volume          ", 16);
    memcpy(at + 32, "1.0 ", 4);
    for (unsigned i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        put_be16(at + 58 + 2 * (size_t)i, versions[i]);
    }
    return STANDARD_LEN;
}

/* ---- pages: each writes what follows its header, and gives back how long that is ------------- */

static uint32_t emit_pages(const struct nexus *nexus, uint8_t *at);

static void uuid_format(const struct logical_unit *unit, char ret[SERIAL_LEN + 1])
{
    for (unsigned i = 0; i < VOLUME_UUID_LEN; i++) {
        snprintf(ret + 2 * (size_t)i, 3, "%02x", unit->uuid[i]);
    }
}

static uint32_t emit_serial(const struct nexus *nexus, uint8_t *at)
{
    char text[SERIAL_LEN + 1];
    uuid_format(nexus->unit, text);
    memcpy(at, text, SERIAL_LEN);
    return SERIAL_LEN;
}

// SPC-4 section 7.8.6.1: code set and protocol, association and type, length, the designator.
enum designator {
    CODE_BINARY = 1,
    CODE_ASCII = 2,
    CODE_UTF8 = 3,
    OF_UNIT = 0x00,
    OF_PORT = 0x90,   // and the protocol is valid,
    OF_DEVICE = 0xa0, // likewise
    TYPE_T10 = 1,
    TYPE_NAA = 3,
    TYPE_PORT = 4,
    TYPE_NAME = 8,
    TYPE_UUID = 10,
    PROTOCOL_SHIFT = 4,
    NAA_LOCAL = 3 << 4,
    DESIGNATOR_HEADER_LEN = 4,
};

static uint32_t designator_emit(uint8_t *at, unsigned code, unsigned type, const void *octets,
                                uint32_t len)
{
    at[0] = (uint8_t)code;
    at[1] = (uint8_t)type;
    at[3] = (uint8_t)len;
    memcpy(at + DESIGNATOR_HEADER_LEN, octets, len);
    return DESIGNATOR_HEADER_LEN + len;
}

// A name is padded with zeroes to a multiple of four octets, at least one.
static uint32_t name_emit(uint8_t *at, const struct nexus *nexus)
{
    char name[SCSI_PORT_NAME_MAX + 4] = {0};
    snprintf(name, SCSI_PORT_NAME_MAX, "%.223s", nexus->it->target_name);
    uint32_t len = ((uint32_t)strlen(name) + 4) & ~3U;
    return designator_emit(at, CODE_UTF8 | nexus->it->protocol << PROTOCOL_SHIFT,
                           OF_DEVICE | TYPE_NAME, name, len);
}

static uint32_t emit_identification(const struct nexus *nexus, uint8_t *at)
{
    const struct logical_unit *unit = nexus->unit;
    uint8_t naa[8], uuid[2 + VOLUME_UUID_LEN] = {1 << 4}, port[4] = {0, 0, 0, 1};
    char t10[8 + SERIAL_LEN + 1];
    memcpy(naa, unit->uuid, sizeof naa);
    naa[0] = (uint8_t)(NAA_LOCAL | (naa[0] & 0x0f));
    memcpy(uuid + 2, unit->uuid, VOLUME_UUID_LEN);
    memcpy(t10, vendor, 8);
    uuid_format(unit, t10 + 8);
    uint32_t len = designator_emit(at, CODE_BINARY, OF_UNIT | TYPE_NAA, naa, sizeof naa);
    len += designator_emit(at + len, CODE_BINARY, OF_UNIT | TYPE_UUID, uuid, sizeof uuid);
    len += designator_emit(at + len, CODE_ASCII, OF_UNIT | TYPE_T10, t10, 8 + SERIAL_LEN);
    len += designator_emit(at + len, CODE_BINARY | nexus->it->protocol << PROTOCOL_SHIFT,
                           OF_PORT | TYPE_PORT, port, sizeof port);
    return len + name_emit(at + len, nexus);
}

// SPC-4 section 7.8.7: all task attributes but ACA; whether there is a volatile cache.
enum { EXTENDED_LEN = 64, ATTRIBUTES = 7, HAS_VOLATILE = 1 << 0 };

static uint32_t emit_extended(const struct nexus *nexus, uint8_t *at)
{
    at[1] = ATTRIBUTES;
    at[2] = unit_can(nexus->unit, VOLUME_CAN_FLUSH) ? HAS_VOLATILE : 0;
    return EXTENDED_LEN - PAGE_HEADER_LEN;
}

// SPC-4 section 7.8.9: one row for all mode pages and subpages, which all initiators share.
enum { POLICY_LEN = 4, ALL_MODE_PAGES = 0x3f, ALL_MODE_SUBPAGES = 0xff };

static uint32_t emit_policy(const struct nexus *nexus, uint8_t *at)
{
    at[0] = ALL_MODE_PAGES;
    at[1] = ALL_MODE_SUBPAGES;
    return POLICY_LEN;
}

static uint32_t emit_limits(const struct nexus *nexus, uint8_t *at)
{
    const struct logical_unit *unit = nexus->unit;
    uint32_t preferred = unit->preferred / unit->block_len;
    bool can_trim = unit_can(unit, VOLUME_CAN_TRIM);
    at[1] = unit_compare_blocks_max(unit);
    put_be16(at + 2, preferred < UINT16_MAX ? (uint16_t)preferred : 0);
    put_be32(at + 4, NODE_TRANSFER_MAX / unit->block_len);
    put_be32(at + 8, preferred);
    put_be32(at + 16, can_trim ? UINT32_MAX : 0);
    put_be32(at + 20, can_trim ? SCSI_UNMAP_DESCRIPTOR_MAX : 0);
    put_be32(at + 24, can_trim && preferred > 0 ? preferred : 0);
    put_be64(at + 32, SCSI_WRITE_SAME_BLOCKS_MAX);
    return LIMITS_LEN - PAGE_HEADER_LEN;
}

// Rotation: 1 says that nothing rotates, 0 nothing.
static uint32_t emit_characteristics(const struct nexus *nexus, uint8_t *at)
{
    put_be16(at, unit_can(nexus->unit, VOLUME_IS_ROTATIONAL) ? 0 : 1);
    return LIMITS_LEN - PAGE_HEADER_LEN;
}

enum provisioning { CAN_UNMAP = 1 << 7, CAN_SAME_16 = 1 << 6, CAN_SAME_10 = 1 << 5, IS_THIN = 2 };

static uint32_t emit_provisioning(const struct nexus *nexus, uint8_t *at)
{
    const struct logical_unit *unit = nexus->unit;
    bool can_trim = unit_can(unit, VOLUME_CAN_TRIM);
    bool can_same = can_trim && unit_can(unit, VOLUME_CAN_WRITE_ZEROES);
    at[1] = (uint8_t)((can_trim ? CAN_UNMAP : 0) | (can_same ? CAN_SAME_16 | CAN_SAME_10 : 0));
    at[2] = can_trim ? IS_THIN : 0;
    return 4;
}

static uint32_t emit_lineage(const struct nexus *nexus, uint8_t *at)
{
    memcpy(at, nexus->unit->lineage, VOLUME_LINEAGE_LEN);
    return VOLUME_LINEAGE_LEN;
}

static const struct {
    uint8_t code;
    uint32_t (*emit)(const struct nexus *nexus, uint8_t *at);
} pages[] = {
    {SCSI_PAGES_SUPPORTED, emit_pages},
    {SCSI_UNIT_SERIAL_NUMBER, emit_serial},
    {SCSI_DEVICE_IDENTIFICATION, emit_identification},
    {SCSI_EXTENDED_INQUIRY, emit_extended},
    {SCSI_MODE_PAGE_POLICY, emit_policy},
    {SCSI_BLOCK_LIMITS, emit_limits},
    {SCSI_BLOCK_CHARACTERISTICS, emit_characteristics},
    {SCSI_LOGICAL_BLOCK_PROVISIONING, emit_provisioning},
    {SCSI_VOLUME_LINEAGE, emit_lineage},
};

enum { PAGE_COUNT = sizeof pages / sizeof pages[0] };

static uint32_t emit_pages(const struct nexus *nexus, uint8_t *at)
{
    for (unsigned i = 0; i < PAGE_COUNT; i++) {
        at[i] = pages[i].code;
    }
    return PAGE_COUNT;
}

/* ---- the command ----------------------------------------------------------------------------- */

// 0: there is no such page.
static uint32_t page_emit(const struct scsi_task *task, uint8_t code, uint8_t *at)
{
    for (unsigned i = 0; i < PAGE_COUNT; i++) {
        if (pages[i].code == code && task->nexus->unit != NULL) {
            uint32_t len = pages[i].emit(task->nexus, at + PAGE_HEADER_LEN);
            at[1] = code;
            put_be16(at + 2, (uint16_t)len);
            return PAGE_HEADER_LEN + len;
        }
    }
    return 0;
}

void execute_inquiry(struct scsi_task *task, instant_ns now)
{
    bool is_page = (task->cdb[1] & 1) != 0;
    uint8_t code = task->cdb[2];
    if ((task->cdb[1] & ~1) != 0 || (!is_page && code != 0)) {
        task_fail(task, FAULT_CDB_FIELD, now);
        return;
    }
    if (!task_scratch_create(task, PAGE_MAX_LEN, now)) {
        return;
    }
    uint32_t len =
        is_page ? page_emit(task, code, task->scratch) : standard_emit(task, task->scratch);
    if (len == 0) {
        task_fail(task, FAULT_CDB_FIELD, now);
    } else {
        task_deliver_scratch(task, len, get_be16(task->cdb + 3), now);
    }
}
