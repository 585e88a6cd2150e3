// SIDR_REQ and SIDR_REP: which queue pair serves a service of datagrams (InfiniBand Architecture
// volume 1, sections 12.11.1 and 12.11.2). Offsets are those in the data of the MAD.
//
//   OFFSET SIZE FIELD (REQ)                  OFFSET SIZE FIELD (REP)
//    0      4   request id                    0      4   request id
//    4      2   P_Key                         4      1   status
//    6      2   reserved                      5      1   length of the additional information
//    8      8   service id                    6      2   reserved
//   16    216   private data                  8      3   QPN
//                                            11      1   reserved
//                                            12      8   service id
//                                            20      4   Q_Key
//                                            24     72   additional information
//                                            96    136   private data
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "wire/ibcm_parts.h"
#include "wire/mad.h"

enum {
    IBCM_SIDR_REQ_OFF_ID = 0,
    IBCM_SIDR_REQ_OFF_PKEY = 4,
    IBCM_SIDR_REQ_OFF_SERVICE_ID = 8,
    IBCM_SIDR_REQ_OFF_PRIVATE = 16,
    IBCM_SIDR_REQ_PRIVATE_LEN = 216,
    IBCM_SIDR_REP_OFF_ID = 0,
    IBCM_SIDR_REP_OFF_STATUS = 4,
    IBCM_SIDR_REP_OFF_INFO_LEN = 5,
    IBCM_SIDR_REP_OFF_QP_NUM = 8,
    IBCM_SIDR_REP_OFF_SERVICE_ID = 12,
    IBCM_SIDR_REP_OFF_QKEY = 20,
    IBCM_SIDR_REP_OFF_INFO = 24,
    IBCM_SIDR_REP_INFO_LEN = 72,
    IBCM_SIDR_REP_OFF_PRIVATE = 96,
    IBCM_SIDR_REP_PRIVATE_LEN = 136,
};
STATIC_CHECK(IBCM_SIDR_REQ_OFF_PRIVATE + IBCM_SIDR_REQ_PRIVATE_LEN == MAD_DATA_LEN);
STATIC_CHECK(IBCM_SIDR_REP_OFF_INFO + IBCM_SIDR_REP_INFO_LEN == IBCM_SIDR_REP_OFF_PRIVATE);
STATIC_CHECK(IBCM_SIDR_REP_OFF_PRIVATE + IBCM_SIDR_REP_PRIVATE_LEN == MAD_DATA_LEN);

enum ibcm_sidr_status {
    IBCM_SIDR_OK,
    IBCM_SIDR_UNSUPPORTED, // nobody listens
    IBCM_SIDR_REJECTED,
    IBCM_SIDR_NO_QP,
    IBCM_SIDR_REDIRECTED,
    IBCM_SIDR_VERSION,
    IBCM_SIDR_STATUS_COUNT,
};

struct ibcm_sidr_req {
    uint32_t id;
    uint16_t pkey;
    uint64_t service_id;
    struct span private_data; // after a parse it lies in the input, full length
};

struct ibcm_sidr_rep {
    uint32_t id;
    uint8_t status;  // enum ibcm_sidr_status, or what else a peer says
    uint32_t qp_num; // 24 bits
    uint64_t service_id;
    uint32_t qkey;
    struct span info;         // at most IBCM_SIDR_REP_INFO_LEN; after a parse it lies in the input
    struct span private_data; // after a parse it lies in the input, full length
};

// Each reads MAD_DATA_LEN octets. Of a SIDR_REP IBCM_PARSE_OK or IBCM_PARSE_INFO_LEN; `*ret` holds
// with the former only.
void ibcm_sidr_req_parse(const uint8_t *data, struct ibcm_sidr_req *ret);
enum ibcm_parse_verdict ibcm_sidr_rep_parse(const uint8_t *data, struct ibcm_sidr_rep *ret);

// Each writes MAD_DATA_LEN octets.
void ibcm_sidr_req_emit(const struct ibcm_sidr_req *req, uint8_t *data);
void ibcm_sidr_rep_emit(const struct ibcm_sidr_rep *rep, uint8_t *data);

// Each makes one trace line. Returns `buf`.
const char *ibcm_sidr_req_format(const struct ibcm_sidr_req *req, char *buf, size_t len);
const char *ibcm_sidr_rep_format(const struct ibcm_sidr_rep *rep, char *buf, size_t len);

// "unknown status" for numbers that have none.
const char *ibcm_sidr_status_name(unsigned status);
