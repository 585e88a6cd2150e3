// REP: accepts a connection (InfiniBand Architecture volume 1, section 12.6.8). Offsets are those
// in the data of the MAD.
//
//   OFFSET SIZE FIELD
//    0      4   local communication id
//    4      4   remote communication id: that of the REQ
//    8      4   Q_Key
//   12      3   local QPN
//   15      1   reserved
//   16      3   local EECN
//   19      1   reserved
//   20      3   starting PSN
//   23      1   reserved
//   24      1   responder resources
//   25      1   initiator depth
//   26      1   target ACK delay (5), failover accepted (2), end-to-end flow control
//   27      1   RNR retry count (3), SRQ, 4 reserved
//   28      8   local CA GUID
//   36    196   private data
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "wire/mad.h"

enum {
    IBCM_REP_OFF_LOCAL_ID = 0,
    IBCM_REP_OFF_REMOTE_ID = 4,
    IBCM_REP_OFF_QKEY = 8,
    IBCM_REP_OFF_QP_NUM = 12,
    IBCM_REP_OFF_PSN = 20,
    IBCM_REP_OFF_RESPONDER_RESOURCES = 24,
    IBCM_REP_OFF_INITIATOR_DEPTH = 25,
    IBCM_REP_OFF_ACK_DELAY = 26,
    IBCM_REP_OFF_RNR_RETRY = 27,
    IBCM_REP_OFF_CA_GUID = 28,
    IBCM_REP_OFF_PRIVATE = 36,
    IBCM_REP_PRIVATE_LEN = 196,
};
STATIC_CHECK(IBCM_REP_OFF_PRIVATE + IBCM_REP_PRIVATE_LEN == MAD_DATA_LEN);

enum { IBCM_FAILOVER_NONE = 1 }; // what an alternate path comes to: not supported

// "Local" is who sends it.
struct ibcm_rep {
    uint32_t local_id, remote_id;
    uint32_t qkey;
    uint32_t qp_num;             // 24 bits
    uint32_t starting_psn;       // 24 bits: of the first packet that it expects
    uint8_t responder_resources; // at most the initiator depth of the REQ
    uint8_t initiator_depth;     // at most the responder resources of the REQ
    uint8_t target_ack_delay;    // 5 bits, ib_time_ns
    uint8_t failover;            // 2 bits
    bool has_flow_control;
    uint8_t rnr_retry_count; // 3 bits
    bool has_srq;
    uint64_t ca_guid;
    struct span private_data; // after a parse it lies in the input, full length
};

// Reads a REP from MAD_DATA_LEN octets; there is none that cannot be read.
void ibcm_rep_parse(const uint8_t *data, struct ibcm_rep *ret);

// Writes MAD_DATA_LEN octets.
void ibcm_rep_emit(const struct ibcm_rep *rep, uint8_t *data);

// One trace line. Returns `buf`.
const char *ibcm_rep_format(const struct ibcm_rep *rep, char *buf, size_t len);
