// The NBD protocol's numbers: fixed newstyle negotiation, transmission, simple and structured
// replies, the context base:allocation, extended headers. From the protocol's description,
// doc/proto.md of the project NetworkBlockDevice/nbd, and of its branch extension-ext-header. All
// integers are big-endian.
#pragma once

#include <stdint.h>

#define NBD_MAGIC                  UINT64_C(0x4e42444d41474943) // "NBDMAGIC"
#define NBD_OPTION_MAGIC           UINT64_C(0x49484156454f5054) // "IHAVEOPT"
#define NBD_OPTION_REPLY           UINT64_C(0x0003e889045565a9)
#define NBD_REQUEST_MAGIC          UINT32_C(0x25609513)
#define NBD_SIMPLE_MAGIC           UINT32_C(0x67446698)
#define NBD_STRUCTURED_MAGIC       UINT32_C(0x668e33ef)
#define NBD_EXTENDED_REQUEST_MAGIC UINT32_C(0x21e41c71)
#define NBD_EXTENDED_MAGIC         UINT32_C(0x6e8a278c)

enum nbd_handshake_flag {
    NBD_FLAG_FIXED_NEWSTYLE = 1 << 0,
    NBD_FLAG_NO_ZEROES = 1 << 1,
};

enum nbd_option {
    NBD_OPT_EXPORT_NAME = 1,
    NBD_OPT_ABORT = 2,
    NBD_OPT_LIST = 3,
    NBD_OPT_INFO = 6,
    NBD_OPT_GO = 7,
    NBD_OPT_STRUCTURED_REPLY = 8,
    NBD_OPT_LIST_META_CONTEXT = 9,
    NBD_OPT_SET_META_CONTEXT = 10,
    NBD_OPT_EXTENDED_HEADERS = 11,
};

#define NBD_REP_ERROR(n)        (UINT32_C(0x80000000) + (n))
#define NBD_REP_ACK             UINT32_C(1)
#define NBD_REP_SERVER          UINT32_C(2)
#define NBD_REP_INFO            UINT32_C(3)
#define NBD_REP_CONTEXT         UINT32_C(4)
#define NBD_REP_UNSUP           NBD_REP_ERROR(1)
#define NBD_REP_POLICY          NBD_REP_ERROR(2)
#define NBD_REP_INVALID         NBD_REP_ERROR(3)
#define NBD_REP_UNKNOWN         NBD_REP_ERROR(6)
#define NBD_REP_SHUTDOWN        NBD_REP_ERROR(7)
#define NBD_REP_TOO_BIG         NBD_REP_ERROR(9)
#define NBD_REP_EXT_HEADER_REQD NBD_REP_ERROR(10)

enum nbd_info { NBD_INFO_EXPORT = 0, NBD_INFO_NAME, NBD_INFO_DESCRIPTION, NBD_INFO_BLOCK_SIZE };

enum nbd_transmission_flag {
    NBD_FLAG_HAS_FLAGS = 1 << 0,
    NBD_FLAG_READ_ONLY = 1 << 1,
    NBD_FLAG_SEND_FLUSH = 1 << 2,
    NBD_FLAG_SEND_FUA = 1 << 3,
    NBD_FLAG_ROTATIONAL = 1 << 4,
    NBD_FLAG_SEND_TRIM = 1 << 5,
    NBD_FLAG_SEND_WRITE_ZEROES = 1 << 6,
    NBD_FLAG_SEND_DF = 1 << 7,
    NBD_FLAG_CAN_MULTI_CONN = 1 << 8,
    NBD_FLAG_SEND_CACHE = 1 << 10,
    NBD_FLAG_SEND_FAST_ZERO = 1 << 11,
    NBD_FLAG_BLOCK_STATUS_PAYLOAD = 1 << 12,
};

enum nbd_command {
    NBD_CMD_READ = 0,
    NBD_CMD_WRITE = 1,
    NBD_CMD_DISC = 2,
    NBD_CMD_FLUSH = 3,
    NBD_CMD_TRIM = 4,
    NBD_CMD_CACHE = 5,
    NBD_CMD_WRITE_ZEROES = 6,
    NBD_CMD_BLOCK_STATUS = 7,
};

enum nbd_command_flag {
    NBD_CMD_FLAG_FUA = 1 << 0,
    NBD_CMD_FLAG_NO_HOLE = 1 << 1,
    NBD_CMD_FLAG_DF = 1 << 2,
    NBD_CMD_FLAG_REQ_ONE = 1 << 3,
    NBD_CMD_FLAG_FAST_ZERO = 1 << 4,
    NBD_CMD_FLAG_PAYLOAD_LEN = 1 << 5,
};

enum nbd_reply_type {
    NBD_REPLY_TYPE_NONE = 0,
    NBD_REPLY_TYPE_OFFSET_DATA = 1,
    NBD_REPLY_TYPE_OFFSET_HOLE = 2,
    NBD_REPLY_TYPE_BLOCK_STATUS = 5,
    NBD_REPLY_TYPE_BLOCK_STATUS_EXT = 6,
    NBD_REPLY_TYPE_ERROR = 0x8001,
    NBD_REPLY_FLAG_DONE = 1,
};

enum nbd_state_flag { NBD_STATE_HOLE = 1, NBD_STATE_ZERO = 2 };

enum nbd_errno {
    NBD_OK = 0,
    NBD_EPERM = 1,
    NBD_EIO = 5,
    NBD_ENOMEM = 12,
    NBD_EINVAL = 22,
    NBD_ENOSPC = 28,
    NBD_EOVERFLOW = 75,
    NBD_ENOTSUP = 95,
    NBD_ESHUTDOWN = 108,
};

// Request: magic, flags, command, cookie, offset, length, which has 8 octets if it is extended.
enum nbd_request_offset {
    NBD_REQUEST_OFF_FLAGS = 4,
    NBD_REQUEST_OFF_COMMAND = 6,
    NBD_REQUEST_OFF_COOKIE = 8,
    NBD_REQUEST_OFF_OFFSET = 16,
    NBD_REQUEST_OFF_LENGTH = 24,
    NBD_REQUEST_LEN = 28,
    NBD_EXTENDED_REQUEST_LEN = 32,
};

// Simple reply: magic, error, cookie.
enum nbd_simple_offset {
    NBD_SIMPLE_OFF_ERROR = 4,
    NBD_SIMPLE_OFF_COOKIE = 8,
    NBD_SIMPLE_LEN = 16,
};

// Structured reply: magic, flags, type, cookie, length of the payload.
enum nbd_structured_offset {
    NBD_STRUCTURED_OFF_FLAGS = 4,
    NBD_STRUCTURED_OFF_TYPE = 6,
    NBD_STRUCTURED_OFF_COOKIE = 8,
    NBD_STRUCTURED_OFF_LENGTH = 16,
    NBD_STRUCTURED_LEN = 20,
};

// Extended reply: the same up to the cookie, the request's offset, length of the payload.
enum nbd_extended_offset {
    NBD_EXTENDED_OFF_OFFSET = 16,
    NBD_EXTENDED_OFF_LENGTH = 24,
    NBD_EXTENDED_LEN = 32,
};

// What may follow an extended block status request: length, contexts; here there is one.
enum nbd_query_offset { NBD_QUERY_OFF_CONTEXT = 8, NBD_QUERY_LEN = 12 };

// Option: magic, option, length. Its replies: magic, option, type, length.
enum nbd_option_offset {
    NBD_OPTION_OFF_OPTION = 8,
    NBD_OPTION_OFF_LENGTH = 12,
    NBD_OPTION_LEN = 16,
    NBD_OPTION_REPLY_OFF_OPTION = 8,
    NBD_OPTION_REPLY_OFF_TYPE = 12,
    NBD_OPTION_REPLY_OFF_LENGTH = 16,
    NBD_OPTION_REPLY_LEN = 20,
};
