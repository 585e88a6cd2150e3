#include "wire/ibcm_sidr.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

void ibcm_sidr_req_parse(const uint8_t *data, struct ibcm_sidr_req *ret)
{
    *ret = (struct ibcm_sidr_req){
        .id = get_be32(data + IBCM_SIDR_REQ_OFF_ID),
        .pkey = get_be16(data + IBCM_SIDR_REQ_OFF_PKEY),
        .service_id = get_be64(data + IBCM_SIDR_REQ_OFF_SERVICE_ID),
        .private_data = span_of(data + IBCM_SIDR_REQ_OFF_PRIVATE, IBCM_SIDR_REQ_PRIVATE_LEN),
    };
}

void ibcm_sidr_req_emit(const struct ibcm_sidr_req *req, uint8_t *data)
{
    memset(data, 0, IBCM_SIDR_REQ_OFF_PRIVATE);
    put_be32(data + IBCM_SIDR_REQ_OFF_ID, req->id);
    put_be16(data + IBCM_SIDR_REQ_OFF_PKEY, req->pkey);
    put_be64(data + IBCM_SIDR_REQ_OFF_SERVICE_ID, req->service_id);
    ibcm_field_put(data + IBCM_SIDR_REQ_OFF_PRIVATE, IBCM_SIDR_REQ_PRIVATE_LEN, req->private_data);
}

const char *ibcm_sidr_req_format(const struct ibcm_sidr_req *req, char *buf, size_t len)
{
    snprintf(buf, len, "SIDR_REQ id=0x%08x service=0x%llx", req->id,
             (unsigned long long)req->service_id);
    return buf;
}

enum ibcm_parse_verdict ibcm_sidr_rep_parse(const uint8_t *data, struct ibcm_sidr_rep *ret)
{
    size_t info_len = data[IBCM_SIDR_REP_OFF_INFO_LEN];
    if (info_len > IBCM_SIDR_REP_INFO_LEN) {
        return IBCM_PARSE_INFO_LEN;
    }
    *ret = (struct ibcm_sidr_rep){
        .id = get_be32(data + IBCM_SIDR_REP_OFF_ID),
        .status = data[IBCM_SIDR_REP_OFF_STATUS],
        .qp_num = get_be24(data + IBCM_SIDR_REP_OFF_QP_NUM),
        .service_id = get_be64(data + IBCM_SIDR_REP_OFF_SERVICE_ID),
        .qkey = get_be32(data + IBCM_SIDR_REP_OFF_QKEY),
        .info = span_of(data + IBCM_SIDR_REP_OFF_INFO, info_len),
        .private_data = span_of(data + IBCM_SIDR_REP_OFF_PRIVATE, IBCM_SIDR_REP_PRIVATE_LEN),
    };
    return IBCM_PARSE_OK;
}

void ibcm_sidr_rep_emit(const struct ibcm_sidr_rep *rep, uint8_t *data)
{
    memset(data, 0, IBCM_SIDR_REP_OFF_INFO);
    put_be32(data + IBCM_SIDR_REP_OFF_ID, rep->id);
    data[IBCM_SIDR_REP_OFF_STATUS] = rep->status;
    data[IBCM_SIDR_REP_OFF_INFO_LEN] = (uint8_t)rep->info.len;
    put_be24(data + IBCM_SIDR_REP_OFF_QP_NUM, rep->qp_num);
    put_be64(data + IBCM_SIDR_REP_OFF_SERVICE_ID, rep->service_id);
    put_be32(data + IBCM_SIDR_REP_OFF_QKEY, rep->qkey);
    ibcm_field_put(data + IBCM_SIDR_REP_OFF_INFO, IBCM_SIDR_REP_INFO_LEN, rep->info);
    ibcm_field_put(data + IBCM_SIDR_REP_OFF_PRIVATE, IBCM_SIDR_REP_PRIVATE_LEN, rep->private_data);
}

const char *ibcm_sidr_rep_format(const struct ibcm_sidr_rep *rep, char *buf, size_t len)
{
    snprintf(buf, len, "SIDR_REP id=0x%08x status=%u (%s) qp=0x%06x qkey=0x%08x service=0x%llx",
             rep->id, rep->status, ibcm_sidr_status_name(rep->status), rep->qp_num, rep->qkey,
             (unsigned long long)rep->service_id);
    return buf;
}

const char *ibcm_sidr_status_name(unsigned status)
{
    static const char *const names[IBCM_SIDR_STATUS_COUNT] = {
        [IBCM_SIDR_OK] = "ok",
        [IBCM_SIDR_UNSUPPORTED] = "service id not supported",
        [IBCM_SIDR_REJECTED] = "rejected",
        [IBCM_SIDR_NO_QP] = "no queue pair",
        [IBCM_SIDR_REDIRECTED] = "redirected",
        [IBCM_SIDR_VERSION] = "version not supported",
    };
    return status < IBCM_SIDR_STATUS_COUNT ? names[status] : "unknown status";
}
