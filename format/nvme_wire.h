// NVMe over Fabrics: the numbers of commands, completions and what is in them. Offsets are in
// octets, integers little-endian. From the specifications NVM Express Base 1.4 and NVMe over
// Fabrics 1.1.
//
//     capsules       SQE, CQE, SGL descriptors
//     commands       opcodes, statuses, the dwords of each command
//     fabrics        Connect, Property Get and Set, properties
//     RDMA           private data of connection requests
//
// What Identify and Get Log Page answer with is in format/nvme_pages.h; the PDUs of NVMe/TCP are in
// format/nvme_tcp_wire.h.
#pragma once

#include <stdint.h>

/* ---- capsules -------------------------------------------------------------------------------- */

// A command capsule is a submission queue entry, then in-capsule data, if any.
enum nvme_sqe_offset {
    NVME_SQE_OFF_OPCODE = 0,
    NVME_SQE_OFF_FLAGS = 1, // enum nvme_sqe_flag
    NVME_SQE_OFF_CID = 2,
    NVME_SQE_OFF_NSID = 4,
    NVME_SQE_OFF_FCTYPE = 4, // of fabrics commands
    NVME_SQE_OFF_CDW2 = 8,
    NVME_SQE_OFF_CDW3 = 12,
    NVME_SQE_OFF_MPTR = 16,
    NVME_SQE_OFF_SGL1 = 24,
    NVME_SQE_OFF_CDW10 = 40,
    NVME_SQE_OFF_CDW11 = 44,
    NVME_SQE_OFF_CDW12 = 48,
    NVME_SQE_OFF_CDW13 = 52,
    NVME_SQE_OFF_CDW14 = 56,
    NVME_SQE_OFF_CDW15 = 60,
    NVME_SQE_LEN = 64,
};

enum nvme_sqe_flag {
    NVME_SQE_FUSE_FIRST = 0x01,
    NVME_SQE_FUSE_SECOND = 0x02, // with the one before it in the queue
    NVME_SQE_FUSE_MASK = 0x03,
    NVME_SQE_PSDT_MASK = 0xc0,
    NVME_SQE_PSDT_SGL = 0x40, // data pointers are SGL descriptors; over fabrics always
};

// A response capsule is a completion queue entry.
enum nvme_cqe_offset {
    NVME_CQE_OFF_RESULT = 0, // 8 octets; most commands use 4
    NVME_CQE_OFF_SQHD = 8,
    NVME_CQE_OFF_SQID = 10,
    NVME_CQE_OFF_CID = 12,
    NVME_CQE_OFF_STATUS = 14, // NVME_CQE_STATUS_SHIFT to the left; bit 0 is the phase, 0 here
    NVME_CQE_LEN = 16,
};

enum { NVME_CQE_STATUS_SHIFT = 1, NVME_SQHD_NONE = 0xffff };

// An SGL descriptor; its last octet is type and subtype, enum nvme_sgl_id.
enum nvme_sgl_offset {
    NVME_SGL_OFF_ADDRESS = 0, // keyed: the remote address; in-capsule: the offset behind the SQE
    NVME_SGL_OFF_LENGTH = 8,  // 4 octets; keyed: 3
    NVME_SGL_OFF_KEY = 11,    // keyed: 4 octets; little-endian, unlike an STag on the wire
    NVME_SGL_OFF_ID = 15,
    NVME_SGL_LEN = 16,
};

enum nvme_sgl_id {
    NVME_SGL_IN_CAPSULE = 0x01,       // data block, subtype offset
    NVME_SGL_KEYED = 0x40,            // keyed data block, subtype address
    NVME_SGL_KEYED_INVALIDATE = 0x4f, // and the response invalidates the key
    NVME_SGL_TRANSPORT = 0x5a,        // transport data block: the transport has its own way
};

enum { NVME_SGL_KEYED_LENGTH_MAX = 0xffffff };

/* ---- statuses -------------------------------------------------------------------------------- */

// Status code type above the low 8 bits, status code in them, as in the status field's 15 bits.
enum nvme_status {
    NVME_OK = 0x000,
    NVME_INVALID_OPCODE = 0x001,
    NVME_INVALID_FIELD = 0x002,
    NVME_CID_CONFLICT = 0x003,
    NVME_DATA_TRANSFER_ERROR = 0x004,
    NVME_INTERNAL_ERROR = 0x006,
    NVME_ABORT_REQUESTED = 0x007,
    NVME_ABORTED_SQ_DELETED = 0x008,
    NVME_FAILED_FUSED = 0x009,
    NVME_MISSING_FUSED = 0x00a,
    NVME_INVALID_NAMESPACE = 0x00b,
    NVME_COMMAND_SEQUENCE_ERROR = 0x00c,
    NVME_INVALID_SGL_COUNT = 0x00e,
    NVME_INVALID_SGL_LENGTH = 0x00f,
    NVME_INVALID_SGL_TYPE = 0x011,
    NVME_ATOMIC_WRITE_UNIT_EXCEEDED = 0x014,
    NVME_INVALID_SGL_OFFSET = 0x016,
    NVME_HOSTID_FORMAT = 0x018,
    NVME_KEEP_ALIVE_EXPIRED = 0x019,
    NVME_KEEP_ALIVE_INVALID = 0x01a,
    NVME_NAMESPACE_READ_ONLY = 0x020,
    NVME_TRANSIENT_TRANSPORT_ERROR = 0x022,
    NVME_LBA_OUT_OF_RANGE = 0x080,
    NVME_CAPACITY_EXCEEDED = 0x081,
    NVME_NAMESPACE_NOT_READY = 0x082,
    NVME_RESERVATION_CONFLICT = 0x083,

    NVME_INVALID_QUEUE_ID = 0x101,
    NVME_AER_LIMIT = 0x105,
    NVME_INVALID_LOG_PAGE = 0x109,
    NVME_FEATURE_NOT_SAVEABLE = 0x10d,
    NVME_FEATURE_NOT_CHANGEABLE = 0x10e,
    NVME_FEATURE_NOT_PER_NAMESPACE = 0x10f,

    NVME_COMMAND_SIZE_LIMIT_EXCEEDED = 0x183, // of Copy; of fabrics another

    NVME_CONNECT_INCOMPATIBLE = 0x180, // RECFMT
    NVME_CONNECT_BUSY = 0x181,
    NVME_CONNECT_INVALID = 0x182, // a parameter; the result says which
    NVME_CONNECT_INVALID_HOST = 0x184,

    NVME_WRITE_FAULT = 0x280,
    NVME_UNRECOVERED_READ = 0x281,
    NVME_COMPARE_FAILURE = 0x285,

    // By this path, or within it:
    NVME_PATH_INTERNAL_ERROR = 0x300,
    NVME_ANA_PERSISTENT_LOSS = 0x301,
    NVME_ANA_INACCESSIBLE = 0x302,
    NVME_ANA_TRANSITION = 0x303,
    NVME_CONTROLLER_PATHING_ERROR = 0x360,
    NVME_HOST_PATHING_ERROR = 0x370,
    NVME_ABORTED_BY_HOST = 0x371,

    NVME_STATUS_TYPE_MASK = 0x700,
    NVME_STATUS_TYPE_PATH = 0x300,
    NVME_STATUS_MORE = 1 << 13,
    NVME_STATUS_DNR = 1 << 14, // do not retry
};

/* ---- commands -------------------------------------------------------------------------------- */

enum nvme_admin_opcode {
    NVME_ADMIN_GET_LOG_PAGE = 0x02,
    NVME_ADMIN_IDENTIFY = 0x06,
    NVME_ADMIN_ABORT = 0x08,
    NVME_ADMIN_SET_FEATURES = 0x09,
    NVME_ADMIN_GET_FEATURES = 0x0a,
    NVME_ADMIN_ASYNC_EVENT_REQUEST = 0x0c,
    NVME_ADMIN_KEEP_ALIVE = 0x18,
    NVME_FABRICS = 0x7f, // of both sets
};

enum nvme_io_opcode {
    NVME_IO_FLUSH = 0x00,
    NVME_IO_WRITE = 0x01,
    NVME_IO_READ = 0x02,
    NVME_IO_COMPARE = 0x05,
    NVME_IO_WRITE_ZEROES = 0x08,
    NVME_IO_DATASET_MANAGEMENT = 0x09,
    NVME_IO_VERIFY = 0x0c,
    NVME_IO_RESERVATION_REGISTER = 0x0d,
    NVME_IO_RESERVATION_REPORT = 0x0e,
    NVME_IO_RESERVATION_ACQUIRE = 0x11,
    NVME_IO_RESERVATION_RELEASE = 0x15,
    NVME_IO_COPY = 0x19,
};

// Which way data go, by the lowest bits of an opcode.
enum { NVME_OPCODE_DIRECTION_MASK = 3, NVME_OPCODE_TO_HOST = 2 };

#define NVME_NSID_ALL UINT32_C(0xffffffff)

// Read, Write, Compare, Verify, Write Zeroes.
enum nvme_rw_offset {
    NVME_RW_OFF_SLBA = 40,
    NVME_RW_OFF_NLB = 48,     // 2 octets, less 1
    NVME_RW_OFF_CONTROL = 50, // 2 octets, enum nvme_rw_control
};

enum nvme_rw_control {
    NVME_RW_DEALLOCATE = 1 << 9, // Write Zeroes: a hole is welcome
    NVME_RW_PRINFO = 0xf << 10,  // protection information: none here
    NVME_RW_FUA = 1 << 14,
    NVME_RW_LIMITED_RETRY = 1 << 15,
};

// Dataset Management: CDW10 has the count of ranges less 1, CDW11 what to do with them.
enum nvme_dsm_offset {
    NVME_DSM_RANGE_OFF_ATTRIBUTES = 0,
    NVME_DSM_RANGE_OFF_NLB = 4, // as it is
    NVME_DSM_RANGE_OFF_SLBA = 8,
    NVME_DSM_RANGE_LEN = 16,
};

enum { NVME_DSM_RANGE_MAX = 256, NVME_DSM_DEALLOCATE = 1 << 2 };

// Copy: CDW10 and 11 have where to, CDW12 the count of ranges less 1 and their format, which is 0;
// FUA as of a Write.
enum nvme_copy_offset {
    NVME_COPY_OFF_SDLBA = 40,
    NVME_COPY_OFF_NR = 48,
    NVME_COPY_OFF_DESFMT = 49,
    NVME_COPY_RANGE_OFF_SLBA = 8,
    NVME_COPY_RANGE_OFF_NLB = 16, // 2 octets, less 1
    NVME_COPY_RANGE_LEN = 32,
};

enum { NVME_COPY_DESFMT_MASK = 15 };

// Reservation Register, Acquire and Release: CDW10 has the action in its lowest three bits, then
// IEKEY, the type in its second octet, CPTPL in its highest two bits. The data: the host's key,
// then (not of Release) the new one, or that of who is preempted.
enum { NVME_RESERVATION_OFF_RTYPE = 41, NVME_CPTPL_SHIFT = 30 };

enum nvme_reservation_action {
    NVME_RESERVATION_ACTION_MASK = 7,
    NVME_RESERVATION_REGISTER = 0,
    NVME_RESERVATION_UNREGISTER = 1,
    NVME_RESERVATION_REPLACE = 2,
    NVME_RESERVATION_IEKEY = 1 << 3, // ignore the existing key
};

enum nvme_cptpl { NVME_CPTPL_AS_IT_IS = 0, NVME_CPTPL_CLEAR = 2, NVME_CPTPL_SET = 3 };

enum { NVME_REPORT_EDS = 1 << 0 }; // Reservation Report, CDW11: extended; CDW10: dwords, less 1

enum nvme_abort_offset { NVME_ABORT_OFF_SQID = 40, NVME_ABORT_OFF_CID = 42 };
enum { NVME_ABORT_NOT_ABORTED = 1 << 0 }; // in its result

// Identify: CDW10 has CNS in its lowest octet and CNTID in the upper half, CDW11 has CSI in the
// highest octet.
enum nvme_identify_cns {
    NVME_CNS_NAMESPACE = 0x00,
    NVME_CNS_CONTROLLER = 0x01,
    NVME_CNS_NAMESPACE_LIST = 0x02,
    NVME_CNS_NAMESPACE_DESCRIPTORS = 0x03,
    NVME_CNS_NAMESPACE_CSI = 0x05,
    NVME_CNS_CONTROLLER_CSI = 0x06,
    NVME_CNS_NAMESPACE_COMMON = 0x08, // whatever its command set
    NVME_CNS_ALLOCATED_NAMESPACE_LIST = 0x10,
    NVME_CNS_ALLOCATED_NAMESPACE = 0x11,
    NVME_CNS_NAMESPACE_CONTROLLER_LIST = 0x12,
    NVME_CNS_CONTROLLER_LIST = 0x13,
};

enum nvme_identify_offset { NVME_IDENTIFY_OFF_CNS = 40, NVME_IDENTIFY_OFF_CSI = 47 };

enum nvme_get_log_offset {
    NVME_GET_LOG_OFF_LID = 40,
    NVME_GET_LOG_OFF_LSP = 41, // bit 7: RAE, keep the event
    NVME_GET_LOG_OFF_NUMDL = 42,
    NVME_GET_LOG_OFF_NUMDU = 44,
    NVME_GET_LOG_OFF_LPO = 48, // 8 octets
};

enum { NVME_GET_LOG_RAE = 1 << 7, NVME_GET_LOG_RGO = 1 << 0 }; // of ANA: groups alone

enum nvme_log_page {
    NVME_LOG_SUPPORTED = 0x00,
    NVME_LOG_ERROR = 0x01,
    NVME_LOG_SMART = 0x02,
    NVME_LOG_FIRMWARE = 0x03,
    NVME_LOG_CHANGED_NAMESPACES = 0x04,
    NVME_LOG_EFFECTS = 0x05,
    NVME_LOG_ANA = 0x0c,
    NVME_LOG_FEATURES = 0x12,
    NVME_LOG_MI_EFFECTS = 0x13,
    NVME_LOG_DISCOVERY = 0x70,
    NVME_LOG_RESERVATION = 0x80,
};

// Get and Set Features: CDW10 has FID in its lowest octet; bits 10:8 select (get), bit 31 saves
// (set).
enum nvme_feature {
    NVME_FEATURE_ARBITRATION = 0x01,
    NVME_FEATURE_POWER_MANAGEMENT = 0x02,
    NVME_FEATURE_TEMPERATURE = 0x04,
    NVME_FEATURE_ERROR_RECOVERY = 0x05,
    NVME_FEATURE_VOLATILE_WRITE_CACHE = 0x06,
    NVME_FEATURE_NUMBER_OF_QUEUES = 0x07, // submission in 15:0, completion in 31:16, each less 1
    NVME_FEATURE_INTERRUPT_COALESCING = 0x08,
    NVME_FEATURE_INTERRUPT_VECTOR = 0x09,
    NVME_FEATURE_WRITE_ATOMICITY = 0x0a,
    NVME_FEATURE_ASYNC_EVENTS = 0x0b,
    NVME_FEATURE_KEEP_ALIVE_TIMER = 0x0f, // milliseconds
    NVME_FEATURE_HOST_IDENTIFIER = 0x81,
    NVME_FEATURE_RESERVATION_MASK = 0x82, // bits of enum nvme_notice_type that are not told
    NVME_FEATURE_RESERVATION_PERSISTENCE = 0x83,
};

#define NVME_FEATURE_SAVE UINT32_C(0x80000000)

// Bits 10:8 of Get Features: which of its values, or what can be done with it.
enum nvme_feature_select {
    NVME_SELECT_CURRENT,
    NVME_SELECT_DEFAULT,
    NVME_SELECT_SAVED,
    NVME_SELECT_CAPABILITIES,
};
enum { NVME_FEATURE_SELECT_SHIFT = 8, NVME_FEATURE_SELECT_MASK = 7 };
// That answer; bit 0: it can be saved.
enum { NVME_FEATURE_IS_OF_NAMESPACE = 1 << 1, NVME_FEATURE_IS_CHANGEABLE = 1 << 2 };

enum { NVME_HOSTID_EXTENDED = 1 << 0 }; // CDW11: of 16 octets

// CDW11 of the temperature threshold: which of the two.
enum { NVME_TEMPERATURE_THSEL_SHIFT = 20, NVME_TEMPERATURE_OVER = 0, NVME_TEMPERATURE_UNDER = 1 };

// Async events: those that Set Features enables, and the result of the request that reports one.
enum nvme_async_event {
    NVME_EVENT_RESERVATION = 1 << 0, // always on; not a bit of the feature, nor of OAES
    NVME_EVENT_NAMESPACE_ATTRIBUTES = 1 << 8,
    NVME_EVENT_FIRMWARE_ACTIVATION = 1 << 9,
    NVME_EVENT_ANA_CHANGE = 1 << 11,
    NVME_EVENT_DISCOVERY_CHANGE = 1u << 31,
};

#define NVME_EVENT_RESULT_NAMESPACE_ATTRIBUTES UINT32_C(0x00040002)
#define NVME_EVENT_RESULT_ANA_CHANGE           UINT32_C(0x000c0302)
#define NVME_EVENT_RESULT_DISCOVERY_CHANGE     UINT32_C(0x0070f002)
#define NVME_EVENT_RESULT_RESERVATION          UINT32_C(0x00800006)

/* ---- fabrics --------------------------------------------------------------------------------- */

enum nvme_fctype {
    NVME_FCTYPE_PROPERTY_SET = 0x00,
    NVME_FCTYPE_CONNECT = 0x01,
    NVME_FCTYPE_PROPERTY_GET = 0x04,
};

enum nvme_connect_offset {
    NVME_CONNECT_OFF_RECFMT = 40,
    NVME_CONNECT_OFF_QID = 42,
    NVME_CONNECT_OFF_SQSIZE = 44, // less 1
    NVME_CONNECT_OFF_CATTR = 46,
    NVME_CONNECT_OFF_KATO = 48, // milliseconds; 0: none
};

enum { NVME_CATTR_NO_SQ_FLOW_CONTROL = 1 << 2 };

enum nvme_connect_data_offset {
    NVME_CONNECT_DATA_OFF_HOSTID = 0, // 16 octets
    NVME_CONNECT_DATA_OFF_CNTLID = 16,
    NVME_CONNECT_DATA_OFF_SUBNQN = 256,
    NVME_CONNECT_DATA_OFF_HOSTNQN = 512,
    NVME_CONNECT_DATA_LEN = 1024,
};

enum {
    NVME_NQN_LEN = 256, // of the field; the name has at most 223 octets, and a terminator
    NVME_NQN_MAX = 224, // with the terminator
    NVME_HOSTID_LEN = 16,
    NVME_CNTLID_DYNAMIC = 0xffff,
    NVME_CNTLID_MAX = 0xffef,
    // In the result of a Connect that is refused with NVME_CONNECT_INVALID: which octet, of what.
    NVME_CONNECT_IN_DATA = 1 << 16,
};

#define NVME_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"

enum nvme_property_offset {
    NVME_PROPERTY_OFF_ATTRIB = 40, // bits 2:0: 0 for 4 octets, 1 for 8
    NVME_PROPERTY_OFF_OFFSET = 44,
    NVME_PROPERTY_OFF_VALUE = 48, // set; get answers in the result
};

// Registers of a controller.
enum nvme_property {
    NVME_PROPERTY_CAP = 0x00, // 8 octets
    NVME_PROPERTY_VS = 0x08,
    NVME_PROPERTY_CC = 0x14,
    NVME_PROPERTY_CSTS = 0x1c,
};

#define NVME_CAP_MQES_MASK   UINT64_C(0xffff) // entries of a queue, less 1
#define NVME_CAP_CQR         (UINT64_C(1) << 16)
#define NVME_CAP_TO_SHIFT    24 // 500 ms units
#define NVME_CAP_CSS_NVM     (UINT64_C(1) << 37)
#define NVME_VERSION_1_4     UINT32_C(0x00010400)
#define NVME_CC_EN           UINT32_C(1)
#define NVME_CC_CSS_SHIFT    4  // 3 bits: the command set, 0 is NVM
#define NVME_CC_MPS_SHIFT    7  // 4 bits: page size, 0 is 4096
#define NVME_CC_AMS_SHIFT    11 // 3 bits: how queues have their turns, 0 is round robin
#define NVME_CC_SHN_SHIFT    14 // 2 bits: a shutdown is wished
#define NVME_CC_IOSQES_SHIFT 16 // 4 bits
#define NVME_CC_IOCQES_SHIFT 20 // 4 bits
#define NVME_CSTS_RDY        UINT32_C(1)
#define NVME_CSTS_CFS        UINT32_C(2)
#define NVME_CSTS_SHST_DONE  UINT32_C(8)

enum { NVME_SQE_LEN_LOG2 = 6, NVME_CQE_LEN_LOG2 = 4 };

/* ---- RDMA ------------------------------------------------------------------------------------ */

// Private data of an RDMA connection request, of its acceptance and of its rejection.
enum nvme_rdma_request_offset {
    NVME_RDMA_REQUEST_OFF_RECFMT = 0,
    NVME_RDMA_REQUEST_OFF_QID = 2,
    NVME_RDMA_REQUEST_OFF_HRQSIZE = 4, // receives that the host posts
    NVME_RDMA_REQUEST_OFF_HSQSIZE = 6, // commands that it sends at a time, less 1
    NVME_RDMA_REQUEST_OFF_CNTLID = 8,
    NVME_RDMA_REQUEST_LEN = 32,
};

enum nvme_rdma_accept_offset {
    NVME_RDMA_ACCEPT_OFF_RECFMT = 0,
    NVME_RDMA_ACCEPT_OFF_CRQSIZE = 2, // receives that the controller has posted
    NVME_RDMA_ACCEPT_LEN = 32,
};

enum nvme_rdma_reject_offset {
    NVME_RDMA_REJECT_OFF_RECFMT = 0,
    NVME_RDMA_REJECT_OFF_STATUS = 2,
    NVME_RDMA_REJECT_LEN = 4,
};

enum nvme_rdma_reject_status {
    NVME_RDMA_INVALID_LENGTH = 1,
    NVME_RDMA_INVALID_RECFMT = 2,
    NVME_RDMA_INVALID_QID = 3,
    NVME_RDMA_INVALID_HSQSIZE = 4,
    NVME_RDMA_INVALID_HRQSIZE = 5,
    NVME_RDMA_NO_RESOURCES = 6,
    NVME_RDMA_INVALID_IRD = 7,
    NVME_RDMA_INVALID_ORD = 8,
};
