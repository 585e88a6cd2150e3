// SCSI on its way to a device and back: command descriptor blocks (CDB), the data that tell what a
// device is, sense data. Numbers and figures are those of SPC-4 and SBC-3. Integers stand most
// significant octet first.
//
//     commands     scsi_block_emit, scsi_unmap_emit, scsi_inquiry_emit ..., scsi_cdb_len
//     answers      scsi_capacity_parse, scsi_limits_parse ...: false where octets are missing
//     failures     scsi_sense_parse
//     between the I/O converter and a driver: enum scsi_native, enum scsi_answer
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum scsi_operation_code {
    SCSI_TEST_UNIT_READY = 0x00,
    SCSI_INQUIRY = 0x12,
    SCSI_MODE_SENSE_6 = 0x1a,
    SCSI_UNMAP = 0x42,
    SCSI_READ_16 = 0x88,
    SCSI_WRITE_16 = 0x8a,
    SCSI_SYNCHRONIZE_CACHE_16 = 0x91,
    SCSI_WRITE_SAME_16 = 0x93,
    SCSI_SERVICE_ACTION_IN_16 = 0x9e,
    SCSI_MAINTENANCE_IN = 0xa3,
};

enum scsi_service_action {
    SCSI_READ_CAPACITY_16 = 0x10,
    SCSI_LBA_STATUS = 0x12,
    SCSI_REPORT_SUPPORTED_OPERATION_CODES = 0x0c,
};

// READ(16), WRITE(16), SYNCHRONIZE CACHE(16), WRITE SAME(16): SBC-3 sections 5.13, 5.35, 5.23, 5.42
//
//   OFFSET SIZE FIELD
//        0    1 operation code
//        1    1 flags: FUA in reads and writes, UNMAP in WRITE SAME
//        2    8 logical block address
//       10    4 transfer length, or number of blocks
//       14    1 group number
//       15    1 control
enum scsi_block_cdb {
    SCSI_CDB_OPCODE = 0,
    SCSI_CDB_FLAGS = 1,
    SCSI_CDB_LBA = 2,
    SCSI_CDB_BLOCKS = 10,
    SCSI_CDB_LEN = 16, // of the longest
};

enum scsi_cdb_flag { SCSI_FUA = 1 << 3, SCSI_SAME_UNMAP = 1 << 3 };

// UNMAP parameter list with one block descriptor, SBC-3 section 5.28.2
//
//   OFFSET SIZE FIELD
//        0    2 octets that follow these two
//        2    2 octets of block descriptors
//        4    4 reserved
//        8    8 logical block address
//       16    4 number of blocks
//       20    4 reserved
enum scsi_unmap_list {
    SCSI_UNMAP_LEN = 0,
    SCSI_UNMAP_DESCRIPTORS_LEN = 2,
    SCSI_UNMAP_LBA = 8,
    SCSI_UNMAP_BLOCKS = 16,
    SCSI_UNMAP_LIST_LEN = 24,
};

enum scsi_status_code {
    SCSI_GOOD = 0x00,
    SCSI_CHECK_CONDITION = 0x02,
    SCSI_CONDITION_MET = 0x04,
    SCSI_BUSY = 0x08,
    SCSI_RESERVATION_CONFLICT = 0x18,
    SCSI_TASK_SET_FULL = 0x28,
    SCSI_ACA_ACTIVE = 0x30,
    SCSI_TASK_ABORTED = 0x40,
};

enum scsi_key {
    SCSI_NO_SENSE = 0x0,
    SCSI_RECOVERED_ERROR = 0x1,
    SCSI_NOT_READY = 0x2,
    SCSI_MEDIUM_ERROR = 0x3,
    SCSI_HARDWARE_ERROR = 0x4,
    SCSI_ILLEGAL_REQUEST = 0x5,
    SCSI_UNIT_ATTENTION = 0x6,
    SCSI_DATA_PROTECT = 0x7,
    SCSI_BLANK_CHECK = 0x8,
    SCSI_COPY_ABORTED = 0xa,
    SCSI_ABORTED_COMMAND = 0xb,
    SCSI_VOLUME_OVERFLOW = 0xd,
    SCSI_MISCOMPARE = 0xe,
    SCSI_COMPLETED = 0xf,
    SCSI_SENSE_KEY_COUNT
};

// Sense data, SPC-4 section 4.5: fixed format (response codes 70h, 71h) and descriptor format (72h,
// 73h)
//
//   FIXED  DESCRIPTOR SIZE FIELD
//       0           0    1 response code
//       2           1    1 sense key, in the lower four bits
//       7           7    1 octets that follow this one
//      12           2    1 additional sense code (ASC)
//      13           3    1 its qualifier (ASCQ)
//       -           8      descriptors: type, octets that follow, what is in it
enum scsi_sense_octet {
    SCSI_SENSE_RESPONSE_CODE = 0,
    SCSI_SENSE_MORE_LEN = 7,
    SCSI_FIXED_KEY = 2,
    SCSI_FIXED_ASC = 12,
    SCSI_FIXED_ASCQ = 13,
    SCSI_DESCRIPTOR_KEY = 1,
    SCSI_DESCRIPTOR_ASC = 2,
    SCSI_DESCRIPTOR_ASCQ = 3,
    SCSI_DESCRIPTORS = 8,
    SCSI_SENSE_MAX = 240, // that is kept
};

struct scsi_failure {
    uint8_t key; // enum scsi_key
    uint8_t asc;
    uint8_t ascq;
    bool is_deferred; // of an earlier command: the one that it is told with was not carried out
};

// What the I/O converter gives a driver as `native`: the CDB, then its parameter list if any.
enum scsi_native { SCSI_NATIVE_CDB = 0, SCSI_NATIVE_LIST = SCSI_CDB_LEN };

// What the driver gives back as `status`: the SCSI status, the octets of data that did not move,
// sense data.
enum scsi_answer { SCSI_ANSWER_STATUS = 0, SCSI_ANSWER_RESIDUAL = 4, SCSI_ANSWER_SENSE = 8 };

/* ---- commands -------------------------------------------------------------------------------- */

// Octets of the CDB that begins with this operation code (SPC-4 section 4.2.5.1); 0: of no fixed
// length.
unsigned scsi_cdb_len(uint8_t opcode);

enum { SCSI_LUN_MAX = 0x3fff };

// The number of a logical unit as on the wire: of one level, by peripheral device addressing up to
// 255, by flat space addressing beyond (SAM-5 section 4.7.5); read in either. False: in neither.
uint64_t scsi_lun_of(uint32_t number);
bool scsi_lun_parse(uint64_t lun, uint32_t *ret_number);

void scsi_block_emit(uint8_t cdb[SCSI_CDB_LEN], uint8_t opcode, uint8_t flags, uint64_t lba,
                     uint32_t blocks);
void scsi_unmap_emit(uint8_t cdb[SCSI_CDB_LEN], uint8_t list[SCSI_UNMAP_LIST_LEN], uint64_t lba,
                     uint32_t blocks);

// The standard inquiry data; or a page of vital product data.
void scsi_inquiry_emit(uint8_t cdb[SCSI_CDB_LEN], uint16_t len);
void scsi_vital_emit(uint8_t cdb[SCSI_CDB_LEN], uint8_t page, uint16_t len);
void scsi_capacity_emit(uint8_t cdb[SCSI_CDB_LEN], uint32_t len);
void scsi_mode_emit(uint8_t cdb[SCSI_CDB_LEN], uint8_t page, uint8_t len);
// Whether the device has this operation.
void scsi_operation_emit(uint8_t cdb[SCSI_CDB_LEN], uint8_t opcode, uint32_t len);

/* ---- what a device is ------------------------------------------------------------------------ */

enum scsi_vital_page {
    SCSI_PAGES_SUPPORTED = 0x00,
    SCSI_UNIT_SERIAL_NUMBER = 0x80,
    SCSI_DEVICE_IDENTIFICATION = 0x83,
    SCSI_EXTENDED_INQUIRY = 0x86,
    SCSI_MODE_PAGE_POLICY = 0x87,
    SCSI_BLOCK_LIMITS = 0xb0,
    SCSI_LOGICAL_BLOCK_PROVISIONING = 0xb2,
    SCSI_VOLUME_LINEAGE = 0xc0, // the vendor's, which is weft: node/interface/volume.h
};

enum scsi_text { SCSI_VENDOR_MAX = 9, SCSI_PRODUCT_MAX = 17, SCSI_NAME_MAX = 128 };

enum { SCSI_DIRECT_ACCESS = 0x00 }; // peripheral device type of disks

struct scsi_inquiry {
    uint8_t peripheral; // qualifier (0: connected) and device type
    char vendor[SCSI_VENDOR_MAX];
    char product[SCSI_PRODUCT_MAX];
};

struct scsi_capacity {
    uint64_t blocks;
    uint32_t block_size;
    uint32_t physical_size; // octets of a physical block
};

// In blocks; 0: the device names no limit.
struct scsi_limits {
    uint32_t transfer_max;
    uint32_t transfer_best;
    uint32_t unmap_max;
    uint64_t write_same_max;
};

struct scsi_provisioning {
    bool can_unmap;
    bool can_same_unmap; // WRITE SAME(16) with UNMAP
    bool reads_zeroes;   // what was unmapped
};

struct scsi_mode {
    bool is_write_protected;
    bool has_fua;
    bool has_write_cache; // true where the page is missing
};

bool scsi_inquiry_parse(const uint8_t *octets, uint32_t len, struct scsi_inquiry *ret);
bool scsi_capacity_parse(const uint8_t *octets, uint32_t len, struct scsi_capacity *ret);
bool scsi_limits_parse(const uint8_t *octets, uint32_t len, struct scsi_limits *ret);
bool scsi_provisioning_parse(const uint8_t *octets, uint32_t len, struct scsi_provisioning *ret);
bool scsi_mode_parse(const uint8_t *octets, uint32_t len, struct scsi_mode *ret);
bool scsi_operation_parse(const uint8_t *octets, uint32_t len, bool *ret_is_supported);
// Is the page in the list of them (page 00h)?
bool scsi_pages_have(const uint8_t *octets, uint32_t len, uint8_t page);
// The best name of the logical unit in page 83h (NAA, then EUI-64, then T10), as text.
bool scsi_identification_parse(const uint8_t *octets, uint32_t len, char ret[SCSI_NAME_MAX]);
// The serial number in page 80h, without spaces around it.
bool scsi_serial_parse(const uint8_t *octets, uint32_t len, char ret[SCSI_NAME_MAX]);

/* ---- failures -------------------------------------------------------------------------------- */

// False: neither format, or too short to have a sense key; additional codes that are missing are 0.
bool scsi_sense_parse(const uint8_t *octets, uint32_t len, struct scsi_failure *ret);
// Was the command carried out, although there are sense data (SPC-4, 4.5.5 and 4.5.6)?
bool scsi_sense_is_success(const struct scsi_failure *sense);
// The descriptor of this type, and the octets that follow its first two. NULL: there is none.
const uint8_t *scsi_sense_descriptor(const uint8_t *octets, uint32_t len, uint8_t type,
                                     uint8_t *ret_len);
