#include "wire/ibcm_ids.h"

#include <stdio.h>

#include "base/bytes.h"
#include "wire/ibcm_parts.h"

// Bits within their octets.
enum {
    SUBJECT_SHIFT = 6,
    TIMEOUT_SHIFT = 3,
};

static void put_ids(uint8_t *data, uint32_t local_id, uint32_t remote_id)
{
    put_be32(data + IBCM_IDS_OFF_LOCAL_ID, local_id);
    put_be32(data + IBCM_IDS_OFF_REMOTE_ID, remote_id);
}

void ibcm_ids_parse(const uint8_t *data, struct ibcm_ids *ret)
{
    *ret = (struct ibcm_ids){
        .local_id = get_be32(data + IBCM_IDS_OFF_LOCAL_ID),
        .remote_id = get_be32(data + IBCM_IDS_OFF_REMOTE_ID),
        .private_data = span_of(data + IBCM_IDS_OFF_PRIVATE, IBCM_IDS_PRIVATE_LEN),
    };
}

void ibcm_ids_emit(const struct ibcm_ids *ids, uint8_t *data)
{
    put_ids(data, ids->local_id, ids->remote_id);
    ibcm_field_put(data + IBCM_IDS_OFF_PRIVATE, IBCM_IDS_PRIVATE_LEN, ids->private_data);
}

const char *ibcm_ids_format(const struct ibcm_ids *ids, char *buf, size_t len)
{
    snprintf(buf, len, "id=0x%08x of 0x%08x", ids->local_id, ids->remote_id);
    return buf;
}

void ibcm_dreq_parse(const uint8_t *data, struct ibcm_dreq *ret)
{
    *ret = (struct ibcm_dreq){
        .local_id = get_be32(data + IBCM_IDS_OFF_LOCAL_ID),
        .remote_id = get_be32(data + IBCM_IDS_OFF_REMOTE_ID),
        .remote_qp_num = get_be24(data + IBCM_DREQ_OFF_QP_NUM),
        .private_data = span_of(data + IBCM_DREQ_OFF_PRIVATE, IBCM_DREQ_PRIVATE_LEN),
    };
}

void ibcm_dreq_emit(const struct ibcm_dreq *dreq, uint8_t *data)
{
    put_ids(data, dreq->local_id, dreq->remote_id);
    put_be24(data + IBCM_DREQ_OFF_QP_NUM, dreq->remote_qp_num);
    data[IBCM_DREQ_OFF_PRIVATE - 1] = 0;
    ibcm_field_put(data + IBCM_DREQ_OFF_PRIVATE, IBCM_DREQ_PRIVATE_LEN, dreq->private_data);
}

const char *ibcm_dreq_format(const struct ibcm_dreq *dreq, char *buf, size_t len)
{
    snprintf(buf, len, "DREQ id=0x%08x of 0x%08x qp=0x%06x", dreq->local_id, dreq->remote_id,
             dreq->remote_qp_num);
    return buf;
}

void ibcm_mra_parse(const uint8_t *data, struct ibcm_mra *ret)
{
    *ret = (struct ibcm_mra){
        .local_id = get_be32(data + IBCM_IDS_OFF_LOCAL_ID),
        .remote_id = get_be32(data + IBCM_IDS_OFF_REMOTE_ID),
        .subject = (enum ibcm_subject)(data[IBCM_MRA_OFF_MESSAGE] >> SUBJECT_SHIFT),
        .service_timeout = data[IBCM_MRA_OFF_TIMEOUT] >> TIMEOUT_SHIFT,
        .private_data = span_of(data + IBCM_MRA_OFF_PRIVATE, IBCM_MRA_PRIVATE_LEN),
    };
}

void ibcm_mra_emit(const struct ibcm_mra *mra, uint8_t *data)
{
    put_ids(data, mra->local_id, mra->remote_id);
    data[IBCM_MRA_OFF_MESSAGE] = (uint8_t)(mra->subject << SUBJECT_SHIFT);
    data[IBCM_MRA_OFF_TIMEOUT] = (uint8_t)(mra->service_timeout << TIMEOUT_SHIFT);
    ibcm_field_put(data + IBCM_MRA_OFF_PRIVATE, IBCM_MRA_PRIVATE_LEN, mra->private_data);
}

const char *ibcm_mra_format(const struct ibcm_mra *mra, char *buf, size_t len)
{
    static const char *const subjects[] = {"REQ", "REP", "LAP", "?"};
    snprintf(buf, len, "MRA id=0x%08x of 0x%08x %s timeout=%u", mra->local_id, mra->remote_id,
             subjects[mra->subject], mra->service_timeout);
    return buf;
}
