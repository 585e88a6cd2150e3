#include "format/ata.h"

#include <string.h>

#include "base/bytes.h"

/* ---- commands -------------------------------------------------------------------------------- */

void ata_registers_emit(uint8_t native[ATA_NATIVE_TRIM], const struct ata_registers *registers)
{
    memset(native, 0, ATA_NATIVE_TRIM);
    native[ATA_NATIVE_COMMAND] = registers->command;
    native[ATA_NATIVE_PROTOCOL] = registers->protocol;
    native[ATA_NATIVE_DEVICE] = registers->device;
    put_be16(native + ATA_NATIVE_FEATURE, registers->feature);
    put_be16(native + ATA_NATIVE_COUNT, registers->count);
    put_be64(native + ATA_NATIVE_LBA, registers->lba);
}

struct ata_registers ata_registers_parse(const uint8_t native[ATA_NATIVE_TRIM])
{
    return (struct ata_registers){.command = native[ATA_NATIVE_COMMAND],
                                  .protocol = native[ATA_NATIVE_PROTOCOL],
                                  .device = native[ATA_NATIVE_DEVICE],
                                  .feature = get_be16(native + ATA_NATIVE_FEATURE),
                                  .count = get_be16(native + ATA_NATIVE_COUNT),
                                  .lba = get_be64(native + ATA_NATIVE_LBA)};
}

// Two octets of a register of 48-bit commands: the previous value before the current one.
static void register_put(uint8_t *cdb, unsigned value)
{
    cdb[0] = (uint8_t)(value >> 8);
    cdb[1] = (uint8_t)value;
}

//   OFFSET SIZE FIELD
//        0    1 operation code 85h
//        1    1 protocol, and EXTEND
//        2    1 flags of the transfer
//        3    2 feature
//        5    2 count
//        7    6 logical block address: bits 24..31, 0..7, 32..39, 8..15, 40..47, 16..23
//       13    1 device
//       14    1 command
//       15    1 control
void ata_pass_through_emit(uint8_t cdb[SCSI_CDB_LEN], const struct ata_registers *registers,
                           bool to_device)
{
    enum { EXTEND = 1, FROM_DEVICE = 1 << 3, BLOCKS = 1 << 2, LENGTH_IS_IN_COUNT = 2 };
    bool has_data = registers->protocol != ATA_NON_DATA;
    bool is_extended = registers->command != ATA_IDENTIFY_DEVICE;
    memset(cdb, 0, SCSI_CDB_LEN);
    cdb[0] = 0x85;
    cdb[1] = (uint8_t)(registers->protocol << 1 | (is_extended ? EXTEND : 0));
    if (has_data) {
        // Bit 4: the count is of logical sectors, and not of 512 octets.
        bool counts_sectors = is_extended && registers->command != ATA_DATA_SET_MANAGEMENT;
        cdb[2] = (uint8_t)(BLOCKS | LENGTH_IS_IN_COUNT | (to_device ? 0 : FROM_DEVICE) |
                           (counts_sectors ? 1 << 4 : 0));
    }
    register_put(cdb + 3, registers->feature);
    register_put(cdb + 5, registers->count);
    register_put(cdb + 7, (unsigned)(registers->lba >> 16 & 0xff00) | (registers->lba & 0xff));
    register_put(cdb + 9, (unsigned)(registers->lba >> 24 & 0xff00) | (registers->lba >> 8 & 0xff));
    register_put(cdb + 11,
                 (unsigned)(registers->lba >> 32 & 0xff00) | (registers->lba >> 16 & 0xff));
    cdb[13] = registers->device;
    cdb[14] = registers->command;
}

void ata_trim_entry_emit(uint8_t entry[ATA_TRIM_ENTRY_LEN], uint64_t lba, uint16_t blocks)
{
    uint64_t value = htole64((uint64_t)blocks << 48 | (lba & 0xffffffffffff));
    memcpy(entry, &value, sizeof value);
}

/* ---- answers --------------------------------------------------------------------------------- */

static uint16_t word(const uint8_t *octets, unsigned number)
{
    return (uint16_t)(octets[2 * number] | octets[2 * number + 1] << 8);
}

// Words that say by their upper bits (01b) whether what is in them counts.
static uint16_t valid_word(const uint8_t *octets, unsigned number)
{
    uint16_t value = word(octets, number);
    return (value & 0xc000) == 0x4000 ? value : 0;
}

// Strings have the octets of each word exchanged, and spaces around them.
static void text_take(char *ret, const uint8_t *octets, unsigned first, unsigned words)
{
    unsigned count = 0;
    for (unsigned i = 0; i < 2 * words; i++) {
        uint8_t octet = octets[2 * first + (i ^ 1)];
        bool is_graphic = octet > ' ' && octet < 0x7f;
        if (is_graphic || count > 0) {
            ret[count++] = is_graphic ? (char)octet : ' ';
        }
    }
    while (count > 0 && ret[count - 1] == ' ') {
        count--;
    }
    ret[count] = '\0';
}

static uint64_t name_take(const uint8_t *octets)
{
    uint64_t name = 0;
    for (unsigned i = 108; i < 112; i++) {
        name = name << 16 | word(octets, i);
    }
    return name;
}

// Word 106: sectors longer than 256 words (117), several to a physical one.
static void sizes_take(const uint8_t *octets, struct ata_identity *ret)
{
    uint16_t sizes = valid_word(octets, 106);
    ret->block_size = ATA_BLOCK_LEN;
    if ((sizes & 1 << 12) != 0) {
        ret->block_size = 2 * ((uint32_t)word(octets, 118) << 16 | word(octets, 117));
    }
    unsigned exponent = (sizes & 1 << 13) != 0 ? sizes & 0x0f : 0;
    ret->physical_size = ret->block_size << exponent;
}

bool ata_identity_parse(const uint8_t octets[ATA_BLOCK_LEN], struct ata_identity *ret)
{
    *ret = (struct ata_identity){0};
    bool is_disk = (word(octets, 0) & 0x8000) == 0;
    bool has_48_bits = (valid_word(octets, 83) & 1 << 10) != 0;
    text_take(ret->serial, octets, 10, 10);
    text_take(ret->model, octets, 27, 20);
    for (unsigned i = 0; i < 4; i++) {
        ret->blocks |= (uint64_t)word(octets, 100 + i) << 16 * i;
    }
    sizes_take(octets, ret);
    ret->world_wide_name = (valid_word(octets, 87) & 1 << 8) != 0 ? name_take(octets) : 0;
    ret->has_write_cache = (word(octets, 85) & 1 << 5) != 0;
    ret->has_fua = (valid_word(octets, 84) & 1 << 6) != 0;
    ret->can_trim = (word(octets, 169) & 1) != 0;
    ret->trim_reads_zeroes = (word(octets, 69) & (1 << 14 | 1 << 5)) == (1 << 14 | 1 << 5);
    ret->is_rotational = word(octets, 217) != 1;
    return is_disk && has_48_bits && ret->blocks > 0 && ret->blocks < 1ULL << 48 &&
           ret->block_size >= 512 && ret->block_size <= 65536 &&
           (ret->block_size & (ret->block_size - 1)) == 0;
}

bool ata_return_parse(const uint8_t *sense, uint32_t len, uint8_t ret[ATA_ANSWER_LEN])
{
    enum { STATUS_RETURN = 0x09, STATUS_RETURN_LEN = 12, FIXED_INFORMATION = 3 };
    uint8_t descriptor_len = 0;
    const uint8_t *at = scsi_sense_descriptor(sense, len, STATUS_RETURN, &descriptor_len);
    if (at != NULL && descriptor_len >= STATUS_RETURN_LEN) {
        ret[ATA_ANSWER_ERROR] = at[3];
        ret[ATA_ANSWER_STATUS] = at[13];
        return true;
    }
    bool is_fixed_with_information = len > 13 && sense[SCSI_SENSE_RESPONSE_CODE] == 0xf0;
    if (!is_fixed_with_information) {
        return false;
    }
    ret[ATA_ANSWER_ERROR] = sense[FIXED_INFORMATION];
    ret[ATA_ANSWER_STATUS] = sense[FIXED_INFORMATION + 1];
    return true;
}
