// The messages that name a connection and say little more (InfiniBand Architecture volume 1,
// sections 12.6.6 and 12.6.9 to 12.6.11). Offsets are those in the data of the MAD.
//
//   OFFSET SIZE FIELD
//    0      4   local communication id
//    4      4   remote communication id
//    8    224   private data                          RTU: the REP was received
//                                                     DREP: the DREQ was received
//    8      3   remote QPN                            DREQ: the connection is to end
//   11      1   reserved
//   12    220   private data
//    8      1   message (2), 6 reserved               MRA: the answer will take its time
//    9      1   service timeout (5), 3 reserved
//   10    222   private data
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/span.h"
#include "wire/ibcm_rej.h"
#include "wire/mad.h"

enum {
    IBCM_IDS_OFF_LOCAL_ID = 0,
    IBCM_IDS_OFF_REMOTE_ID = 4,
    IBCM_IDS_OFF_PRIVATE = 8,
    IBCM_IDS_PRIVATE_LEN = 224,
    IBCM_DREQ_OFF_QP_NUM = 8,
    IBCM_DREQ_OFF_PRIVATE = 12,
    IBCM_DREQ_PRIVATE_LEN = 220,
    IBCM_MRA_OFF_MESSAGE = 8,
    IBCM_MRA_OFF_TIMEOUT = 9,
    IBCM_MRA_OFF_PRIVATE = 10,
    IBCM_MRA_PRIVATE_LEN = 222,
};
STATIC_CHECK(IBCM_IDS_OFF_PRIVATE + IBCM_IDS_PRIVATE_LEN == MAD_DATA_LEN);
STATIC_CHECK(IBCM_DREQ_OFF_PRIVATE + IBCM_DREQ_PRIVATE_LEN == MAD_DATA_LEN);
STATIC_CHECK(IBCM_MRA_OFF_PRIVATE + IBCM_MRA_PRIVATE_LEN == MAD_DATA_LEN);

// RTU and DREP.
struct ibcm_ids {
    uint32_t local_id, remote_id;
    struct span private_data; // after a parse it lies in the input, full length; as below
};

struct ibcm_dreq {
    uint32_t local_id, remote_id;
    uint32_t remote_qp_num; // 24 bits: of who gets the message
    struct span private_data;
};

struct ibcm_mra {
    uint32_t local_id, remote_id;
    enum ibcm_subject subject; // 2 bits: whose answer will take its time
    uint8_t service_timeout;   // 5 bits, ib_time_ns
    struct span private_data;
};

// Each reads MAD_DATA_LEN octets; there are none that cannot be read.
void ibcm_ids_parse(const uint8_t *data, struct ibcm_ids *ret);
void ibcm_dreq_parse(const uint8_t *data, struct ibcm_dreq *ret);
void ibcm_mra_parse(const uint8_t *data, struct ibcm_mra *ret);

// Each writes MAD_DATA_LEN octets.
void ibcm_ids_emit(const struct ibcm_ids *ids, uint8_t *data);
void ibcm_dreq_emit(const struct ibcm_dreq *dreq, uint8_t *data);
void ibcm_mra_emit(const struct ibcm_mra *mra, uint8_t *data);

// Each makes one trace line. Returns `buf`.
const char *ibcm_ids_format(const struct ibcm_ids *ids, char *buf, size_t len);
const char *ibcm_dreq_format(const struct ibcm_dreq *dreq, char *buf, size_t len);
const char *ibcm_mra_format(const struct ibcm_mra *mra, char *buf, size_t len);
