#include "format/scsi.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

/* ---- commands -------------------------------------------------------------------------------- */

unsigned scsi_cdb_len(uint8_t opcode)
{
    static const uint8_t by_group[] = {6, 10, 10, 0, 16, 12, 0, 0};
    return by_group[opcode >> 5];
}

// Two bits say how the 14 behind them are meant; of a bus there is number 0. Further levels follow.
enum {
    LUN_SHIFT = 48,
    LUN_METHOD_SHIFT = 62,
    LUN_PERIPHERAL = 0,
    LUN_FLAT = 1,
    LUN_PERIPHERAL_MAX = 0xff
};

uint64_t scsi_lun_of(uint32_t number)
{
    uint64_t method = number > LUN_PERIPHERAL_MAX ? LUN_FLAT : LUN_PERIPHERAL;
    return method << LUN_METHOD_SHIFT | (uint64_t)number << LUN_SHIFT;
}

bool scsi_lun_parse(uint64_t lun, uint32_t *ret_number)
{
    const uint64_t below = (UINT64_C(1) << LUN_SHIFT) - 1;
    unsigned method = (unsigned)(lun >> LUN_METHOD_SHIFT);
    *ret_number = (uint32_t)(lun >> LUN_SHIFT) & SCSI_LUN_MAX;
    return (lun & below) == 0 &&
           (method == LUN_FLAT || (method == LUN_PERIPHERAL && *ret_number <= LUN_PERIPHERAL_MAX));
}

void scsi_block_emit(uint8_t cdb[SCSI_CDB_LEN], uint8_t opcode, uint8_t flags, uint64_t lba,
                     uint32_t blocks)
{
    memset(cdb, 0, SCSI_CDB_LEN);
    cdb[SCSI_CDB_OPCODE] = opcode;
    cdb[SCSI_CDB_FLAGS] = flags;
    put_be64(cdb + SCSI_CDB_LBA, lba);
    put_be32(cdb + SCSI_CDB_BLOCKS, blocks);
}

void scsi_unmap_emit(uint8_t cdb[SCSI_CDB_LEN], uint8_t list[SCSI_UNMAP_LIST_LEN], uint64_t lba,
                     uint32_t blocks)
{
    memset(cdb, 0, SCSI_CDB_LEN);
    cdb[SCSI_CDB_OPCODE] = SCSI_UNMAP;
    put_be16(cdb + 7, SCSI_UNMAP_LIST_LEN);
    memset(list, 0, SCSI_UNMAP_LIST_LEN);
    put_be16(list + SCSI_UNMAP_LEN, SCSI_UNMAP_LIST_LEN - 2);
    put_be16(list + SCSI_UNMAP_DESCRIPTORS_LEN, SCSI_UNMAP_LIST_LEN - SCSI_UNMAP_LBA);
    put_be64(list + SCSI_UNMAP_LBA, lba);
    put_be32(list + SCSI_UNMAP_BLOCKS, blocks);
}

// SPC-4 section 6.4: EVPD in octet 1, page in 2, allocation length in 3.
void scsi_inquiry_emit(uint8_t cdb[SCSI_CDB_LEN], uint16_t len)
{
    memset(cdb, 0, SCSI_CDB_LEN);
    cdb[SCSI_CDB_OPCODE] = SCSI_INQUIRY;
    put_be16(cdb + 3, len);
}

void scsi_vital_emit(uint8_t cdb[SCSI_CDB_LEN], uint8_t page, uint16_t len)
{
    scsi_inquiry_emit(cdb, len);
    cdb[1] = 1;
    cdb[2] = page;
}

// SBC-3 section 5.16
void scsi_capacity_emit(uint8_t cdb[SCSI_CDB_LEN], uint32_t len)
{
    scsi_block_emit(cdb, SCSI_SERVICE_ACTION_IN_16, SCSI_READ_CAPACITY_16, 0, len);
}

// SPC-4 section 6.11, without block descriptors.
void scsi_mode_emit(uint8_t cdb[SCSI_CDB_LEN], uint8_t page, uint8_t len)
{
    memset(cdb, 0, SCSI_CDB_LEN);
    cdb[SCSI_CDB_OPCODE] = SCSI_MODE_SENSE_6;
    cdb[1] = 1 << 3;
    cdb[2] = page;
    cdb[4] = len;
}

// SPC-4 section 6.29, reporting option 1: one operation code.
void scsi_operation_emit(uint8_t cdb[SCSI_CDB_LEN], uint8_t opcode, uint32_t len)
{
    memset(cdb, 0, SCSI_CDB_LEN);
    cdb[SCSI_CDB_OPCODE] = SCSI_MAINTENANCE_IN;
    cdb[1] = SCSI_REPORT_SUPPORTED_OPERATION_CODES;
    cdb[2] = 1;
    cdb[3] = opcode;
    put_be32(cdb + 6, len);
}

/* ---- what a device is ------------------------------------------------------------------------ */

// Printable text without the spaces around it.
static void text_take(char *ret, size_t ret_len, const uint8_t *octets, size_t len)
{
    size_t count = 0;
    while (len > 0 && octets[0] == ' ') {
        octets++;
        len--;
    }
    for (size_t i = 0; i < len && octets[i] != 0 && count + 1 < ret_len; i++) {
        ret[count++] = octets[i] > ' ' && octets[i] < 0x7f ? (char)octets[i] : ' ';
    }
    while (count > 0 && ret[count - 1] == ' ') {
        count--;
    }
    ret[count] = '\0';
}

bool scsi_inquiry_parse(const uint8_t *octets, uint32_t len, struct scsi_inquiry *ret)
{
    if (len < 36) {
        return false;
    }
    ret->peripheral = octets[0];
    text_take(ret->vendor, sizeof ret->vendor, octets + 8, 8);
    text_take(ret->product, sizeof ret->product, octets + 16, 16);
    return true;
}

// SBC-3 section 5.16.2: last block's address, block length; logical blocks per physical block as an
// exponent.
bool scsi_capacity_parse(const uint8_t *octets, uint32_t len, struct scsi_capacity *ret)
{
    if (len < 12) {
        return false;
    }
    uint64_t last = get_be64(octets);
    ret->block_size = get_be32(octets + 8);
    unsigned exponent = len > 13 ? octets[13] & 0x0f : 0;
    bool is_possible = ret->block_size >= 512 && ret->block_size <= 65536 &&
                       (ret->block_size & (ret->block_size - 1)) == 0 &&
                       last < UINT64_MAX / ret->block_size;
    ret->blocks = last + 1;
    ret->physical_size = ret->block_size << (exponent <= 15 ? exponent : 0);
    return is_possible;
}

// SBC-3 section 6.6.4; devices of older editions send less of it.
bool scsi_limits_parse(const uint8_t *octets, uint32_t len, struct scsi_limits *ret)
{
    *ret = (struct scsi_limits){0};
    if (len < 16) {
        return false;
    }
    ret->transfer_max = get_be32(octets + 8);
    ret->transfer_best = get_be32(octets + 12);
    ret->unmap_max = len >= 24 ? get_be32(octets + 20) : 0;
    ret->write_same_max = len >= 44 ? get_be64(octets + 36) : 0;
    return true;
}

// SBC-3 section 6.6.7
bool scsi_provisioning_parse(const uint8_t *octets, uint32_t len, struct scsi_provisioning *ret)
{
    *ret = (struct scsi_provisioning){0};
    if (len < 6) {
        return false;
    }
    ret->can_unmap = (octets[5] & 0x80) != 0;
    ret->can_same_unmap = (octets[5] & 0x40) != 0;
    ret->reads_zeroes = (octets[5] & 0x1c) == 0x04;
    return true;
}

// SPC-4 section 7.5.5 and SBC-3 section 6.5.5: header, block descriptors, the caching page (08h).
bool scsi_mode_parse(const uint8_t *octets, uint32_t len, struct scsi_mode *ret)
{
    *ret = (struct scsi_mode){.has_write_cache = true};
    if (len < 4) {
        return false;
    }
    ret->is_write_protected = (octets[2] & 0x80) != 0;
    ret->has_fua = (octets[2] & 0x10) != 0;
    uint32_t page = 4U + octets[3];
    if (page + 3 <= len && (octets[page] & 0x3f) == 0x08) {
        ret->has_write_cache = (octets[page + 2] & 0x04) != 0;
    }
    return true;
}

bool scsi_operation_parse(const uint8_t *octets, uint32_t len, bool *ret_is_supported)
{
    if (len < 2) {
        return false;
    }
    unsigned support = octets[1] & 0x07;
    *ret_is_supported = support == 3 || support == 5; // as in the standard, or the vendor's way
    return true;
}

// Octets behind the header of four, as far as they are here.
static uint32_t vital_len(const uint8_t *octets, uint32_t len)
{
    uint32_t said = len >= 4 ? get_be16(octets + 2) : 0;
    uint32_t left = len >= 4 ? len - 4 : 0;
    return said < left ? said : left;
}

bool scsi_pages_have(const uint8_t *octets, uint32_t len, uint8_t page)
{
    uint32_t count = vital_len(octets, len);
    return count > 0 && memchr(octets + 4, page, count) != NULL;
}

bool scsi_serial_parse(const uint8_t *octets, uint32_t len, char ret[SCSI_NAME_MAX])
{
    text_take(ret, SCSI_NAME_MAX, octets + 4, vital_len(octets, len));
    return ret[0] != '\0';
}

// How good a designator of this type is as a name; 0: not at all.
static unsigned designator_rank(uint8_t association, uint8_t type)
{
    static const uint8_t ranks[16] = {[1] = 1, [2] = 2, [3] = 3}; // T10, EUI-64, NAA
    return association == 0 ? ranks[type] : 0;
}

static void hex_take(char *ret, size_t ret_len, const uint8_t *octets, size_t len)
{
    size_t at = (size_t)snprintf(ret, ret_len, "0x");
    for (size_t i = 0; i < len && at + 3 <= ret_len; i++) {
        at += (size_t)snprintf(ret + at, ret_len - at, "%02x", octets[i]);
    }
}

// SPC-4 section 7.8.5: designators of code set, association and type, length, octets.
bool scsi_identification_parse(const uint8_t *octets, uint32_t len, char ret[SCSI_NAME_MAX])
{
    unsigned best = 0;
    uint32_t left = vital_len(octets, len);
    const uint8_t *at = octets + 4;
    while (left >= 4 && left - 4 >= at[3]) {
        unsigned rank = designator_rank((at[1] >> 4) & 0x03, at[1] & 0x0f);
        bool is_text = (at[0] & 0x0f) != 1;
        if (rank > best && at[3] > 0) {
            best = rank;
            if (is_text) {
                text_take(ret, SCSI_NAME_MAX, at + 4, at[3]);
            } else {
                hex_take(ret, SCSI_NAME_MAX, at + 4, at[3]);
            }
        }
        left -= 4U + at[3];
        at += 4U + at[3];
    }
    return best > 0;
}

/* ---- failures -------------------------------------------------------------------------------- */

static uint8_t octet_or_zero(const uint8_t *octets, uint32_t len, uint32_t at)
{
    return at < len ? octets[at] : 0;
}

bool scsi_sense_parse(const uint8_t *octets, uint32_t len, struct scsi_failure *ret)
{
    unsigned code = len > 0 ? octets[SCSI_SENSE_RESPONSE_CODE] & 0x7f : 0;
    bool is_fixed = code == 0x70 || code == 0x71, has_descriptors = code == 0x72 || code == 0x73;
    uint32_t key = is_fixed ? SCSI_FIXED_KEY : SCSI_DESCRIPTOR_KEY;
    if ((!is_fixed && !has_descriptors) || len <= key) {
        return false;
    }
    ret->key = octets[key] & 0x0f;
    ret->asc = octet_or_zero(octets, len, is_fixed ? SCSI_FIXED_ASC : SCSI_DESCRIPTOR_ASC);
    ret->ascq = octet_or_zero(octets, len, is_fixed ? SCSI_FIXED_ASCQ : SCSI_DESCRIPTOR_ASCQ);
    ret->is_deferred = code == 0x71 || code == 0x73;
    return true;
}

bool scsi_sense_is_success(const struct scsi_failure *sense)
{
    return !sense->is_deferred &&
           (sense->key == SCSI_NO_SENSE || sense->key == SCSI_RECOVERED_ERROR ||
            sense->key == SCSI_COMPLETED);
}

const uint8_t *scsi_sense_descriptor(const uint8_t *octets, uint32_t len, uint8_t type,
                                     uint8_t *ret_len)
{
    unsigned code = len >= SCSI_DESCRIPTORS ? octets[SCSI_SENSE_RESPONSE_CODE] & 0x7f : 0;
    if (code != 0x72 && code != 0x73) {
        return NULL;
    }
    uint32_t left = len - SCSI_DESCRIPTORS;
    left = octets[SCSI_SENSE_MORE_LEN] < left ? octets[SCSI_SENSE_MORE_LEN] : left;
    const uint8_t *at = octets + SCSI_DESCRIPTORS;
    while (left >= 2 && left - 2 >= at[1]) {
        if (at[0] == type) {
            *ret_len = at[1];
            return at;
        }
        left -= 2U + at[1];
        at += 2U + at[1];
    }
    return NULL;
}
