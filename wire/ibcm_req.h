// REQ: asks for a connection (InfiniBand Architecture volume 1, section 12.6.5). Offsets are those
// in the data of the MAD.
//
//   OFFSET SIZE FIELD                                  OFFSET  PATH (44 octets, primary at 52)
//    0      4   local communication id                   0      2   local LID
//    4      4   reserved                                 2      2   remote LID
//    8      8   service id                               4     16   local GID
//   16      8   local CA GUID                           20     16   remote GID
//   24      4   reserved                                36      4   flow label (20), reserved (6),
//   28      4   Q_Key                                               packet rate (6)
//   32      3   local QPN                               40      1   traffic class
//   35      1   responder resources                     41      1   hop limit
//   36      3   local EECN                              42      1   SL (4), subnet local, reserved
//   39      1   initiator depth                         43      1   local ACK timeout (5), reserved
//   40      3   remote EECN
//   43      1   remote CM response timeout (5), transport service type (2), end-to-end flow control
//   44      3   starting PSN
//   47      1   local CM response timeout (5), retry count (3)
//   48      2   P_Key
//   50      1   path MTU (4), RDC exists, RNR retry count (3)
//   51      1   max CM retries (4), SRQ, extended transport type (3)
//   52     44   primary path
//   96     44   alternate path: all zero, there is none
//  140     92   private data
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "wire/mad.h"

enum {
    IBCM_REQ_OFF_LOCAL_ID = 0,
    IBCM_REQ_OFF_SERVICE_ID = 8,
    IBCM_REQ_OFF_CA_GUID = 16,
    IBCM_REQ_OFF_QKEY = 28,
    IBCM_REQ_OFF_QP_NUM = 32,
    IBCM_REQ_OFF_RESPONDER_RESOURCES = 35,
    IBCM_REQ_OFF_INITIATOR_DEPTH = 39,
    IBCM_REQ_OFF_REMOTE_TIMEOUT = 43,
    IBCM_REQ_OFF_PSN = 44,
    IBCM_REQ_OFF_LOCAL_TIMEOUT = 47,
    IBCM_REQ_OFF_PKEY = 48,
    IBCM_REQ_OFF_MTU = 50,
    IBCM_REQ_OFF_CM_RETRIES = 51,
    IBCM_REQ_OFF_PRIMARY = 52,
    IBCM_REQ_OFF_ALTERNATE = 96,
    IBCM_REQ_OFF_PRIVATE = 140,
    IBCM_REQ_PRIVATE_LEN = 92,
};
STATIC_CHECK(IBCM_REQ_OFF_PRIVATE + IBCM_REQ_PRIVATE_LEN == MAD_DATA_LEN);

enum {
    IBCM_PATH_OFF_LOCAL_LID = 0,
    IBCM_PATH_OFF_REMOTE_LID = 2,
    IBCM_PATH_OFF_LOCAL_GID = 4,
    IBCM_PATH_OFF_REMOTE_GID = 20,
    IBCM_PATH_OFF_FLOW_LABEL = 36,
    IBCM_PATH_OFF_TRAFFIC_CLASS = 40,
    IBCM_PATH_OFF_HOP_LIMIT = 41,
    IBCM_PATH_OFF_SL = 42,
    IBCM_PATH_OFF_ACK_TIMEOUT = 43,
    IBCM_PATH_LEN = 44,
};
STATIC_CHECK(IBCM_REQ_OFF_PRIMARY + IBCM_PATH_LEN == IBCM_REQ_OFF_ALTERNATE);
STATIC_CHECK(IBCM_REQ_OFF_ALTERNATE + IBCM_PATH_LEN == IBCM_REQ_OFF_PRIVATE);

enum { IBCM_LID_NONE = 0xffff }; // of paths that are routed, as all of RoCE are

enum ibcm_transport {
    IBCM_TRANSPORT_RC,
    IBCM_TRANSPORT_UC,
    IBCM_TRANSPORT_RD,
    IBCM_TRANSPORT_EXTENDED, // as the extended transport type says: XRC
};

struct ibcm_path {
    uint16_t local_lid, remote_lid;
    struct in6_addr local_gid, remote_gid; // local to who sends the REQ
    uint32_t flow_label;                   // 20 bits
    uint8_t packet_rate;                   // 6 bits
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint8_t sl; // 4 bits
    bool is_subnet_local;
    uint8_t local_ack_timeout; // 5 bits, ib_time_ns
};

// "Local" is who sends it.
struct ibcm_req {
    uint32_t local_id;
    uint64_t service_id;
    uint64_t ca_guid;
    uint32_t qkey;
    uint32_t qp_num;               // 24 bits
    uint8_t responder_resources;   // Reads and atomics that it will serve at a time
    uint8_t initiator_depth;       // … and have outstanding
    uint8_t remote_timeout;        // for the answer to this, 5 bits
    enum ibcm_transport transport; // 2 bits
    bool has_flow_control;
    uint32_t starting_psn; // 24 bits: of the first packet that it expects
    uint8_t local_timeout; // for its answer to a REP, 5 bits
    uint8_t retry_count;   // 3 bits
    uint16_t pkey;
    uint8_t path_mtu;        // 4 bits: 1 = 256 … 5 = 4096 octets
    uint8_t rnr_retry_count; // 3 bits
    uint8_t max_cm_retries;  // 4 bits
    bool has_srq;
    uint8_t extended_transport; // 3 bits
    struct ibcm_path primary, alternate;
    struct span private_data; // after a parse it lies in the input, full length
};

// Reads a REQ from MAD_DATA_LEN octets; there is none that cannot be read.
void ibcm_req_parse(const uint8_t *data, struct ibcm_req *ret);

// Writes MAD_DATA_LEN octets.
void ibcm_req_emit(const struct ibcm_req *req, uint8_t *data);

// One trace line. Returns `buf`.
const char *ibcm_req_format(const struct ibcm_req *req, char *buf, size_t len);
