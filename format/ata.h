// ATA on its way to a device and back: commands as registers, the SCSI command that carries them
// (ATA PASS-THROUGH(16), SAT-3 section 12.2.2), what IDENTIFY DEVICE tells. Numbers are those of
// ACS-3. Integers of ATA stand least significant octet first; those of this header's own layouts
// and of the CDB, most significant first.
//
//     commands   ata_registers_emit, ata_pass_through_emit, ata_trim_entry_emit
//     answers    ata_identity_parse, ata_return_parse
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "format/scsi.h"

enum ata_command {
    ATA_DATA_SET_MANAGEMENT = 0x06,
    ATA_READ_DMA_EXT = 0x25,
    ATA_WRITE_DMA_EXT = 0x35,
    ATA_WRITE_DMA_FUA_EXT = 0x3d,
    ATA_FLUSH_CACHE_EXT = 0xea,
    ATA_IDENTIFY_DEVICE = 0xec,
};

enum ata_device_bit { ATA_DEVICE_LBA = 1 << 6 };
enum ata_feature { ATA_FEATURE_TRIM = 1 };

enum ata_status_bit {
    ATA_STATUS_ERROR = 1 << 0,
    ATA_STATUS_DATA_REQUEST = 1 << 3,
    ATA_STATUS_DEVICE_FAULT = 1 << 5,
    ATA_STATUS_BUSY = 1 << 7,
};

enum ata_error_bit {
    ATA_ERROR_ABORT = 1 << 2,
    ATA_ERROR_ID_NOT_FOUND = 1 << 4,
    ATA_ERROR_UNCORRECTABLE = 1 << 6,
    ATA_ERROR_INTERFACE_CRC = 1 << 7,
};

// Protocols, as ATA PASS-THROUGH numbers them.
enum ata_protocol { ATA_NON_DATA = 3, ATA_PIO_IN = 4, ATA_DMA = 6 };

// What the I/O converter gives a driver as `native`
//
//   OFFSET SIZE FIELD
//        0    1 command
//        1    1 protocol
//        2    1 device
//        4    2 feature
//        6    2 count of sectors, or of blocks of 512 octets of data; 0: 65536
//        8    8 logical block address, of 48 bits
//       16    8 each: entries of a trim
enum ata_native {
    ATA_NATIVE_COMMAND = 0,
    ATA_NATIVE_PROTOCOL = 1,
    ATA_NATIVE_DEVICE = 2,
    ATA_NATIVE_FEATURE = 4,
    ATA_NATIVE_COUNT = 6,
    ATA_NATIVE_LBA = 8,
    ATA_NATIVE_TRIM = 16,
};

// What the driver gives back as `status`: two registers.
enum ata_answer { ATA_ANSWER_STATUS = 0, ATA_ANSWER_ERROR = 1, ATA_ANSWER_LEN = 2 };

enum ata_limits {
    ATA_BLOCK_LEN = 512,    // of data that are no sectors
    ATA_TRIM_ENTRY_LEN = 8, // ACS-3 section 4.18.3.1: 48 bits of address, 16 of count
    ATA_TRIM_ENTRY_BLOCKS = 65535,
    ATA_TRIM_ENTRIES_MAX = 6, // in one command of ours
    ATA_TRANSFER_BLOCKS = 65536,
};

struct ata_registers {
    uint8_t command;
    uint8_t protocol;
    uint8_t device;
    uint16_t feature;
    uint16_t count;
    uint64_t lba;
};

void ata_registers_emit(uint8_t native[ATA_NATIVE_TRIM], const struct ata_registers *registers);
struct ata_registers ata_registers_parse(const uint8_t native[ATA_NATIVE_TRIM]);

// `to_device`: where data move to, for protocols that have data.
void ata_pass_through_emit(uint8_t cdb[SCSI_CDB_LEN], const struct ata_registers *registers,
                           bool to_device);

void ata_trim_entry_emit(uint8_t entry[ATA_TRIM_ENTRY_LEN], uint64_t lba, uint16_t blocks);

struct ata_identity {
    char serial[21];
    char model[41];
    uint64_t world_wide_name; // 0: none
    uint64_t blocks;
    uint32_t block_size;
    uint32_t physical_size;
    bool has_write_cache;
    bool has_fua;
    bool can_trim;
    bool trim_reads_zeroes;
    bool is_rotational;
};

// 512 octets. False: no disk with 48-bit addresses, or no sense in it.
bool ata_identity_parse(const uint8_t octets[ATA_BLOCK_LEN], struct ata_identity *ret);

// The two registers out of sense data: from the ATA Status Return descriptor (SAT-3 section
// 12.2.2.6), or from where fixed format has them. False: they are not in it.
bool ata_return_parse(const uint8_t *sense, uint32_t len, uint8_t ret[ATA_ANSWER_LEN]);
