// REJ: refuses a connection, in any phase of its making (InfiniBand Architecture volume 1, section
// 12.6.7). Offsets are those in the data of the MAD.
//
//   OFFSET SIZE FIELD
//    0      4   local communication id; 0: the sender has none
//    4      4   remote communication id; 0: the sender knows none
//    8      1   message that is rejected (2), 6 reserved
//    9      1   length of the additional information (7), 1 reserved
//   10      2   reason
//   12     72   additional information
//   84    148   private data
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "wire/ibcm_parts.h"
#include "wire/mad.h"

enum {
    IBCM_REJ_OFF_LOCAL_ID = 0,
    IBCM_REJ_OFF_REMOTE_ID = 4,
    IBCM_REJ_OFF_MESSAGE = 8,
    IBCM_REJ_OFF_INFO_LEN = 9,
    IBCM_REJ_OFF_REASON = 10,
    IBCM_REJ_OFF_INFO = 12,
    IBCM_REJ_INFO_LEN = 72,
    IBCM_REJ_OFF_PRIVATE = 84,
    IBCM_REJ_PRIVATE_LEN = 148,
};
STATIC_CHECK(IBCM_REJ_OFF_INFO + IBCM_REJ_INFO_LEN == IBCM_REJ_OFF_PRIVATE);
STATIC_CHECK(IBCM_REJ_OFF_PRIVATE + IBCM_REJ_PRIVATE_LEN == MAD_DATA_LEN);

// name, number, text. What else a peer says is printed as a number.
#define IBCM_REASONS(X)                                               \
    X(NO_QP, 1, "no queue pair")                                      \
    X(NO_EEC, 2, "no end-to-end context")                             \
    X(NO_RESOURCES, 3, "no resources")                                \
    X(TIMEOUT, 4, "timeout")                                          \
    X(UNSUPPORTED, 5, "unsupported request")                          \
    X(INVALID_ID, 6, "invalid communication id")                      \
    X(INVALID_INSTANCE, 7, "invalid communication instance")          \
    X(INVALID_SERVICE_ID, 8, "invalid service id: nobody listens")    \
    X(INVALID_TRANSPORT, 9, "invalid transport service type")         \
    X(STALE, 10, "stale connection")                                  \
    X(RDC_NOT_EXIST, 11, "no reliable datagram channel")              \
    X(INVALID_GID, 12, "primary remote GID rejected")                 \
    X(INVALID_LID, 13, "primary remote LID rejected")                 \
    X(INVALID_SL, 14, "invalid primary service level")                \
    X(INVALID_TRAFFIC_CLASS, 15, "invalid primary traffic class")     \
    X(INVALID_HOP_LIMIT, 16, "invalid primary hop limit")             \
    X(INVALID_PACKET_RATE, 17, "invalid primary packet rate")         \
    X(REDIRECTED, 24, "port and CM redirection")                      \
    X(INVALID_MTU, 26, "invalid path MTU")                            \
    X(INSUFFICIENT_RESOURCES, 27, "insufficient responder resources") \
    X(CONSUMER, 28, "consumer defined")                               \
    X(INVALID_RNR_RETRY, 29, "RNR retry count rejected")              \
    X(DUPLICATE_ID, 30, "duplicate local communication id")           \
    X(CLASS_VERSION, 31, "invalid class version")                     \
    X(INVALID_FLOW_LABEL, 32, "invalid primary flow label")           \
    X(VENDOR_OPTION, 35, "vendor option not supported")

enum ibcm_reason {
#define X(name, number, text) IBCM_REASON_##name = number,
    IBCM_REASONS(X)
#undef X
};

// What is rejected, and what is asked more time for.
enum ibcm_subject { IBCM_SUBJECT_REQ, IBCM_SUBJECT_REP, IBCM_SUBJECT_OTHER };

struct ibcm_rej {
    uint32_t local_id, remote_id;
    enum ibcm_subject subject; // 2 bits
    uint16_t reason;           // enum ibcm_reason, or what else a peer says
    struct span info;          // at most IBCM_REJ_INFO_LEN; after a parse it lies in the input
    struct span private_data;  // after a parse it lies in the input, full length
};

// Reads a REJ from MAD_DATA_LEN octets. IBCM_PARSE_OK or IBCM_PARSE_INFO_LEN; `*ret` holds with the
// former only.
enum ibcm_parse_verdict ibcm_rej_parse(const uint8_t *data, struct ibcm_rej *ret);

// Writes MAD_DATA_LEN octets.
void ibcm_rej_emit(const struct ibcm_rej *rej, uint8_t *data);

// One trace line. Returns `buf`.
const char *ibcm_rej_format(const struct ibcm_rej *rej, char *buf, size_t len);

// The architecture's words; "unknown reason" for numbers that have none.
const char *ibcm_reason_name(unsigned reason);
