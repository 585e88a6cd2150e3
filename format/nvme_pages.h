// NVMe: the data that Identify and Get Log Page answer with. Offsets are in octets, integers
// little-endian, texts ASCII padded with blanks but for names (NQNs), which end with a zero octet.
// From the NVM Express Base 1.4 and NVMe over Fabrics 1.1 specifications.
//
//     Identify       controller, namespace, namespace descriptors, lists
//     logs           which there are, error information, SMART, firmware slots, changed
//                    namespaces, commands and effects, features and effects, asymmetric access,
//                    discovery, reservation notification
//     reports        Reservation Report
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Fills a text of `len` octets; what is longer is cut.
static inline void nvme_text_put(uint8_t *at, size_t len, const char *text)
{
    size_t text_len = strlen(text);
    memset(at, ' ', len);
    memcpy(at, text, text_len < len ? text_len : len);
}

/* ---- Identify -------------------------------------------------------------------------------- */

enum { NVME_IDENTIFY_LEN = 4096 };

enum nvme_controller_offset {
    NVME_CTRL_OFF_VID = 0,
    NVME_CTRL_OFF_SN = 4,  // 20 octets
    NVME_CTRL_OFF_MN = 24, // 40 octets
    NVME_CTRL_OFF_FR = 64, // 8 octets
    NVME_CTRL_OFF_RAB = 72,
    NVME_CTRL_OFF_CMIC = 76,
    NVME_CTRL_OFF_MDTS = 77, // a power of two of 4096 octets
    NVME_CTRL_OFF_CNTLID = 78,
    NVME_CTRL_OFF_VER = 80,
    NVME_CTRL_OFF_OAES = 92, // enum nvme_async_event
    NVME_CTRL_OFF_CTRATT = 96,
    NVME_CTRL_OFF_CNTRLTYPE = 111,
    NVME_CTRL_OFF_OACS = 256,
    NVME_CTRL_OFF_ACL = 258,  // aborts at a time, less 1
    NVME_CTRL_OFF_AERL = 259, // async event requests at a time, less 1
    NVME_CTRL_OFF_FRMW = 260,
    NVME_CTRL_OFF_LPA = 261,
    NVME_CTRL_OFF_ELPE = 262,  // error log entries, less 1
    NVME_CTRL_OFF_KAS = 320,   // granularity of the keep alive timer, 100 ms units
    NVME_CTRL_OFF_ANATT = 342, // seconds that a change takes at most
    NVME_CTRL_OFF_ANACAP = 343,
    NVME_CTRL_OFF_ANAGRPMAX = 344, // 4 octets, as the next one
    NVME_CTRL_OFF_NANAGRPID = 348,
    NVME_CTRL_OFF_SQES = 512,
    NVME_CTRL_OFF_CQES = 513,
    NVME_CTRL_OFF_MAXCMD = 514,
    NVME_CTRL_OFF_NN = 516,
    NVME_CTRL_OFF_ONCS = 520,
    NVME_CTRL_OFF_FUSES = 522,
    NVME_CTRL_OFF_VWC = 525,
    NVME_CTRL_OFF_ACWU = 532, // blocks of a fused Compare and Write, less 1
    NVME_CTRL_OFF_OCFS = 534, // formats of the ranges of a Copy
    NVME_CTRL_OFF_SGLS = 536,
    NVME_CTRL_OFF_MNAN = 540,
    NVME_CTRL_OFF_SUBNQN = 768,  // 256 octets
    NVME_CTRL_OFF_IOCCSZ = 1792, // command capsules, 16-octet units
    NVME_CTRL_OFF_IORCSZ = 1796, // response capsules, likewise
    NVME_CTRL_OFF_ICDOFF = 1800, // in-capsule data begin so far behind the SQE, likewise
    NVME_CTRL_OFF_FCATT = 1802,
    NVME_CTRL_OFF_MSDBD = 1803, // SGL descriptors of a command
    NVME_CTRL_OFF_DCTYPE = 1806,
};

enum {
    NVME_CTRL_SN_LEN = 20,
    NVME_CTRL_MN_LEN = 40,
    NVME_CTRL_FR_LEN = 8,
    NVME_CMIC_MULTI_CONTROLLER = 1 << 1,
    NVME_CMIC_ANA = 1 << 3,
    NVME_ANACAP_OPTIMIZED = 1 << 0,
    NVME_ANACAP_INACCESSIBLE = 1 << 2,
    NVME_ANACAP_GROUP_STAYS = 1 << 6, // ANAGRPID of a namespace that is attached
    NVME_CTRATT_HOSTID_128 = 1 << 0,
    NVME_CTRATT_TRAFFIC_KEEPS_ALIVE = 1 << 6, // TBKAS
    NVME_CNTRLTYPE_IO = 1,
    NVME_CNTRLTYPE_DISCOVERY = 2,
    NVME_LPA_EFFECTS = 1 << 1,
    NVME_LPA_EXTENDED = 1 << 2,  // Get Log Page with NUMDU and LPO
    NVME_LPA_SUPPORTED = 1 << 5, // logs of what there is: logs, features, scopes of commands
    NVME_ONCS_COMPARE = 1 << 0,
    NVME_ONCS_DSM = 1 << 2,
    NVME_ONCS_WRITE_ZEROES = 1 << 3,
    NVME_ONCS_SAVE_SELECT = 1 << 4,
    NVME_ONCS_RESERVATIONS = 1 << 5,
    NVME_ONCS_VERIFY = 1 << 7,
    NVME_ONCS_COPY = 1 << 8,
    NVME_OCFS_FORMAT_0 = 1 << 0,
    NVME_FUSES_COMPARE_AND_WRITE = 1 << 0,
    NVME_VWC_PRESENT = 1 << 0,
    NVME_VWC_FLUSHES_ALL = 3 << 1, // a Flush may name all namespaces
    NVME_SGLS_SUPPORTED = 1 << 0,
    NVME_SGLS_KEYED = 1 << 2,
    NVME_SGLS_OFFSET = 1 << 20, // in-capsule data by offset
    NVME_SGLS_TRANSPORT = 1 << 21,
};

enum nvme_namespace_offset {
    NVME_NS_OFF_NSZE = 0, // blocks
    NVME_NS_OFF_NCAP = 8,
    NVME_NS_OFF_NUSE = 16,
    NVME_NS_OFF_NSFEAT = 24,
    NVME_NS_OFF_NLBAF = 25, // formats, less 1
    NVME_NS_OFF_FLBAS = 26, // the format in use
    NVME_NS_OFF_MC = 27,
    NVME_NS_OFF_DPC = 28,
    NVME_NS_OFF_DPS = 29,
    NVME_NS_OFF_NMIC = 30,
    NVME_NS_OFF_RESCAP = 31,
    NVME_NS_OFF_DLFEAT = 33,
    NVME_NS_OFF_NPWG = 64, // of blocks, less 1, as the next ones
    NVME_NS_OFF_NPWA = 66,
    NVME_NS_OFF_NPDG = 68,
    NVME_NS_OFF_NPDA = 70,
    NVME_NS_OFF_NOWS = 72,
    NVME_NS_OFF_MSSRL = 74, // of a Copy: blocks of a range,
    NVME_NS_OFF_MCL = 76,   // of all (4 octets),
    NVME_NS_OFF_MSRC = 80,  // and ranges, less 1 (1 octet)
    NVME_NS_OFF_ANAGRPID = 92,
    NVME_NS_OFF_NSATTR = 99,
    NVME_NS_OFF_NGUID = 104, // 16 octets
    NVME_NS_OFF_EUI64 = 120, // 8 octets
    NVME_NS_OFF_LBAF = 128,  // metadata (2), block size as a power of two (1), performance (1)
    NVME_NS_LBAF_OFF_LBADS = 2,
    NVME_NS_OFF_VENDOR = 384, // to the end: the vendor's
};

// What a namespace of any command set has.
enum nvme_common_offset {
    NVME_COMMON_OFF_NMIC = 1,
    NVME_COMMON_OFF_RESCAP = 2,
    NVME_COMMON_OFF_ANAGRPID = 4, // 4 octets
    NVME_COMMON_OFF_NSATTR = 8,
    NVME_COMMON_OFF_NSTAT = 14,
};

enum {
    NVME_NSTAT_READY = 1 << 0,
    NVME_NSFEAT_THIN = 1 << 0,
    NVME_NSFEAT_OPTIMAL_IO = 1 << 4, // NPWG .. NOWS are valid
    NVME_NMIC_SHARED = 1 << 0,
    NVME_RESCAP_PTPL = 1 << 0,
    NVME_RESCAP_TYPES = 0x7e,   // all six
    NVME_RESCAP_IEKEY = 1 << 7, // as of version 1.3
    NVME_DLFEAT_READS_ZEROES = 1 << 0,
    NVME_DLFEAT_WRITE_ZEROES_DEALLOCATES = 1 << 3,
    NVME_NSATTR_WRITE_PROTECTED = 1 << 0,
};

// A list of namespace descriptors: type, length, 2 octets reserved, the identity; ends with zeroes.
enum nvme_descriptor_offset {
    NVME_DESCRIPTOR_OFF_NIDT = 0,
    NVME_DESCRIPTOR_OFF_NIDL = 1,
    NVME_DESCRIPTOR_OFF_NID = 4,
};

enum nvme_descriptor_type {
    NVME_NIDT_EUI64 = 1, // 8 octets
    NVME_NIDT_NGUID = 2, // 16
    NVME_NIDT_UUID = 3,  // 16
    NVME_NIDT_CSI = 4,   // 1
};

/* ---- logs ------------------------------------------------------------------------------------ */

// Error information: an array of these, the newest first.
enum nvme_error_offset {
    NVME_ERROR_OFF_COUNT = 0, // 8 octets; 0: no entry
    NVME_ERROR_OFF_SQID = 8,
    NVME_ERROR_OFF_CID = 10,
    NVME_ERROR_OFF_STATUS = 12,
    NVME_ERROR_OFF_LOCATION = 14, // octet of the SQE in 7:0, bit in 10:8
    NVME_ERROR_OFF_LBA = 16,
    NVME_ERROR_OFF_NSID = 24,
    NVME_ERROR_OFF_TRTYPE = 29,
    NVME_ERROR_OFF_COMMAND_INFO = 32,
    NVME_ERROR_LEN = 64,
};

enum { NVME_ERROR_NO_LOCATION = 0xffff };

// Counters of SMART have 16 octets.
enum nvme_smart_offset {
    NVME_SMART_OFF_TEMPERATURE = 1, // 2 octets, kelvin
    NVME_SMART_OFF_SPARE = 3,       // percent
    NVME_SMART_OFF_SPARE_THRESHOLD = 4,
    NVME_SMART_OFF_DATA_UNITS_READ = 32, // of 512 000 octets
    NVME_SMART_OFF_DATA_UNITS_WRITTEN = 48,
    NVME_SMART_OFF_READ_COMMANDS = 64,
    NVME_SMART_OFF_WRITE_COMMANDS = 80,
    NVME_SMART_OFF_ERROR_COUNT = 176,
    NVME_SMART_LEN = 512,
};

enum nvme_firmware_offset {
    NVME_FIRMWARE_OFF_ACTIVE = 0, // the active slot, from 1
    NVME_FIRMWARE_OFF_SLOTS = 8,  // 8 octets each
    NVME_FIRMWARE_LEN = 512,
};

// Changed namespaces: their numbers, ended by 0.
enum { NVME_CHANGED_NAMESPACES_LEN = 4096 };

// Commands supported and effects: 4 octets for each admin command, then for each I/O command.
enum nvme_effects {
    NVME_EFFECTS_OFF_IO = 1024,
    NVME_EFFECTS_LEN = 4096,
    NVME_EFFECTS_SUPPORTED = 1 << 0,
    NVME_EFFECTS_CHANGES_BLOCKS = 1 << 1,
    NVME_EFFECTS_OF_NAMESPACE = 1 << 20, // what it acts on
    NVME_EFFECTS_OF_CONTROLLER = 1 << 21,
};

// Supported log pages, and supported features and their effects: 4 octets for each identifier.
// Commands of NVMe-MI: as the others, and none is there.
enum {
    NVME_SUPPORTED_LEN = 1024,
    NVME_SUPPORTED = 1 << 0, // the scopes of a feature: as of a command
    NVME_MI_EFFECTS_LEN = 4096,
};

// Asymmetric Namespace Access: a header, then a descriptor for each group, with its namespaces
// behind it.
enum nvme_ana_offset {
    NVME_ANA_OFF_CHGCNT = 0, // 8 octets
    NVME_ANA_OFF_NGRPS = 8,  // 2 octets
    NVME_ANA_HEADER_LEN = 16,
    NVME_ANA_GROUP_OFF_GRPID = 0,
    NVME_ANA_GROUP_OFF_NNSIDS = 4,
    NVME_ANA_GROUP_OFF_CHGCNT = 8, // 8 octets
    NVME_ANA_GROUP_OFF_STATE = 16,
    NVME_ANA_GROUP_LEN = 32,
};

enum nvme_ana_state {
    NVME_ANA_STATE_OPTIMIZED = 1,
    NVME_ANA_STATE_NON_OPTIMIZED = 2,
    NVME_ANA_STATE_INACCESSIBLE = 3,
    NVME_ANA_STATE_PERSISTENT_LOSS = 4,
    NVME_ANA_STATE_CHANGE = 15,
    NVME_ANA_STATE_MASK = 0x0f,
};

// Reservation notification: one at a time, zeroes if there is none.
enum nvme_notice_offset {
    NVME_NOTICE_OFF_COUNT = 0, // 8 octets
    NVME_NOTICE_OFF_TYPE = 8,
    NVME_NOTICE_OFF_LEFT = 9, // how many more there are
    NVME_NOTICE_OFF_NSID = 12,
    NVME_NOTICE_LEN = 64,
};

enum nvme_notice_type {
    NVME_NOTICE_REGISTRATION_PREEMPTED = 1,
    NVME_NOTICE_RELEASED = 2,
    NVME_NOTICE_RESERVATION_PREEMPTED = 3,
    NVME_NOTICE_MASK_ALL = 0x0e,
};

// Reservation Report, extended: a header, then an entry for each registered controller.
enum nvme_report_offset {
    NVME_REPORT_OFF_GEN = 0,
    NVME_REPORT_OFF_RTYPE = 4,
    NVME_REPORT_OFF_REGCTL = 5, // 2 octets: how many entries there are
    NVME_REPORT_OFF_PTPLS = 9,
    NVME_REPORT_HEADER_LEN = 64,
    NVME_REPORT_ENTRY_OFF_CNTLID = 0,
    NVME_REPORT_ENTRY_OFF_RCSTS = 2, // bit 0: it holds the reservation
    NVME_REPORT_ENTRY_OFF_RKEY = 8,
    NVME_REPORT_ENTRY_OFF_HOSTID = 16, // 16 octets
    NVME_REPORT_ENTRY_LEN = 64,
};

enum nvme_discovery_offset {
    NVME_DISCOVERY_OFF_GENCTR = 0,
    NVME_DISCOVERY_OFF_NUMREC = 8,
    NVME_DISCOVERY_OFF_RECFMT = 16,
    NVME_DISCOVERY_HEADER_LEN = 1024,
};

enum nvme_discovery_entry_offset {
    NVME_ENTRY_OFF_TRTYPE = 0,
    NVME_ENTRY_OFF_ADRFAM = 1,
    NVME_ENTRY_OFF_SUBTYPE = 2,
    NVME_ENTRY_OFF_TREQ = 3,
    NVME_ENTRY_OFF_PORTID = 4,
    NVME_ENTRY_OFF_CNTLID = 6,
    NVME_ENTRY_OFF_ASQSZ = 8,    // entries of an admin queue at most
    NVME_ENTRY_OFF_TRSVCID = 32, // 32 octets, text
    NVME_ENTRY_OFF_SUBNQN = 256, // 256 octets
    NVME_ENTRY_OFF_TRADDR = 512, // 256 octets, text
    NVME_ENTRY_OFF_TSAS = 768,   // what only this transport has
    NVME_ENTRY_LEN = 1024,
};

enum {
    NVME_ENTRY_TRSVCID_LEN = 32,
    NVME_ENTRY_TRADDR_LEN = 256,
    NVME_ENTRY_TSAS_LEN = 256,
};

enum nvme_trtype { NVME_TRTYPE_RDMA = 1, NVME_TRTYPE_TCP = 3 };
enum nvme_adrfam { NVME_ADRFAM_IPV4 = 1, NVME_ADRFAM_IPV6 = 2 };
enum nvme_subtype { NVME_SUBTYPE_REFERRAL = 1, NVME_SUBTYPE_NVM = 2, NVME_SUBTYPE_DISCOVERY = 3 };
// Bits 0 and 1, the secure channel, stay 0, not specified: where libnvme 1.3 reads "not required",
// it asks the kernel for TLS and never connects.
enum { NVME_TREQ_SQ_FLOW_CONTROL_OPTIONAL = 1 << 2 };

// TSAS of RDMA.
enum {
    NVME_TSAS_RDMA_OFF_QPTYPE = 0,
    NVME_TSAS_RDMA_OFF_PRTYPE = 1,
    NVME_TSAS_RDMA_OFF_CMS = 2,
    NVME_QPTYPE_CONNECTED = 1,
    NVME_PRTYPE_NOT_SPECIFIED = 1,
    NVME_CMS_RDMA_CM = 1,
};
