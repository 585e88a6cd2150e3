#include "wire/ibcm_req.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/ibcm_parts.h"

// Bits within their octets.
enum {
    TIMEOUT_SHIFT = 3, // both CM response timeouts, the local ACK timeout
    TRANSPORT_SHIFT = 1,
    TRANSPORT_MASK = 0x3,
    FLOW_CONTROL = 0x01,
    RETRY_MASK = 0x7,
    MTU_SHIFT = 4,
    CM_RETRIES_SHIFT = 4,
    SRQ = 0x08,
    EXTENDED_MASK = 0x7,
    FLOW_LABEL_SHIFT = 12, // of 32
    PACKET_RATE_MASK = 0x3f,
    SL_SHIFT = 4,
    SUBNET_LOCAL = 0x08,
};

static void path_parse(const uint8_t *p, struct ibcm_path *ret)
{
    uint32_t flow_and_rate = get_be32(p + IBCM_PATH_OFF_FLOW_LABEL);
    *ret = (struct ibcm_path){
        .local_lid = get_be16(p + IBCM_PATH_OFF_LOCAL_LID),
        .remote_lid = get_be16(p + IBCM_PATH_OFF_REMOTE_LID),
        .flow_label = flow_and_rate >> FLOW_LABEL_SHIFT,
        .packet_rate = flow_and_rate & PACKET_RATE_MASK,
        .traffic_class = p[IBCM_PATH_OFF_TRAFFIC_CLASS],
        .hop_limit = p[IBCM_PATH_OFF_HOP_LIMIT],
        .sl = p[IBCM_PATH_OFF_SL] >> SL_SHIFT,
        .is_subnet_local = (p[IBCM_PATH_OFF_SL] & SUBNET_LOCAL) != 0,
        .local_ack_timeout = p[IBCM_PATH_OFF_ACK_TIMEOUT] >> TIMEOUT_SHIFT,
    };
    memcpy(&ret->local_gid, p + IBCM_PATH_OFF_LOCAL_GID, sizeof ret->local_gid);
    memcpy(&ret->remote_gid, p + IBCM_PATH_OFF_REMOTE_GID, sizeof ret->remote_gid);
}

static void path_emit(const struct ibcm_path *path, uint8_t *p)
{
    put_be16(p + IBCM_PATH_OFF_LOCAL_LID, path->local_lid);
    put_be16(p + IBCM_PATH_OFF_REMOTE_LID, path->remote_lid);
    memcpy(p + IBCM_PATH_OFF_LOCAL_GID, &path->local_gid, sizeof path->local_gid);
    memcpy(p + IBCM_PATH_OFF_REMOTE_GID, &path->remote_gid, sizeof path->remote_gid);
    put_be32(p + IBCM_PATH_OFF_FLOW_LABEL,
             path->flow_label << FLOW_LABEL_SHIFT | (path->packet_rate & PACKET_RATE_MASK));
    p[IBCM_PATH_OFF_TRAFFIC_CLASS] = path->traffic_class;
    p[IBCM_PATH_OFF_HOP_LIMIT] = path->hop_limit;
    p[IBCM_PATH_OFF_SL] =
        (uint8_t)(path->sl << SL_SHIFT | (path->is_subnet_local ? SUBNET_LOCAL : 0));
    p[IBCM_PATH_OFF_ACK_TIMEOUT] = (uint8_t)(path->local_ack_timeout << TIMEOUT_SHIFT);
}

void ibcm_req_parse(const uint8_t *data, struct ibcm_req *ret)
{
    uint8_t service = data[IBCM_REQ_OFF_REMOTE_TIMEOUT];
    uint8_t retry = data[IBCM_REQ_OFF_LOCAL_TIMEOUT];
    uint8_t mtu = data[IBCM_REQ_OFF_MTU];
    uint8_t cm_retries = data[IBCM_REQ_OFF_CM_RETRIES];
    *ret = (struct ibcm_req){
        .local_id = get_be32(data + IBCM_REQ_OFF_LOCAL_ID),
        .service_id = get_be64(data + IBCM_REQ_OFF_SERVICE_ID),
        .ca_guid = get_be64(data + IBCM_REQ_OFF_CA_GUID),
        .qkey = get_be32(data + IBCM_REQ_OFF_QKEY),
        .qp_num = get_be24(data + IBCM_REQ_OFF_QP_NUM),
        .responder_resources = data[IBCM_REQ_OFF_RESPONDER_RESOURCES],
        .initiator_depth = data[IBCM_REQ_OFF_INITIATOR_DEPTH],
        .remote_timeout = service >> TIMEOUT_SHIFT,
        .transport = (enum ibcm_transport)(service >> TRANSPORT_SHIFT & TRANSPORT_MASK),
        .has_flow_control = (service & FLOW_CONTROL) != 0,
        .starting_psn = get_be24(data + IBCM_REQ_OFF_PSN),
        .local_timeout = retry >> TIMEOUT_SHIFT,
        .retry_count = retry & RETRY_MASK,
        .pkey = get_be16(data + IBCM_REQ_OFF_PKEY),
        .path_mtu = mtu >> MTU_SHIFT,
        .rnr_retry_count = mtu & RETRY_MASK,
        .max_cm_retries = cm_retries >> CM_RETRIES_SHIFT,
        .has_srq = (cm_retries & SRQ) != 0,
        .extended_transport = cm_retries & EXTENDED_MASK,
        .private_data = span_of(data + IBCM_REQ_OFF_PRIVATE, IBCM_REQ_PRIVATE_LEN),
    };
    path_parse(data + IBCM_REQ_OFF_PRIMARY, &ret->primary);
    path_parse(data + IBCM_REQ_OFF_ALTERNATE, &ret->alternate);
}

void ibcm_req_emit(const struct ibcm_req *req, uint8_t *data)
{
    memset(data, 0, IBCM_REQ_OFF_PRIMARY);
    put_be32(data + IBCM_REQ_OFF_LOCAL_ID, req->local_id);
    put_be64(data + IBCM_REQ_OFF_SERVICE_ID, req->service_id);
    put_be64(data + IBCM_REQ_OFF_CA_GUID, req->ca_guid);
    put_be32(data + IBCM_REQ_OFF_QKEY, req->qkey);
    put_be24(data + IBCM_REQ_OFF_QP_NUM, req->qp_num);
    data[IBCM_REQ_OFF_RESPONDER_RESOURCES] = req->responder_resources;
    data[IBCM_REQ_OFF_INITIATOR_DEPTH] = req->initiator_depth;
    data[IBCM_REQ_OFF_REMOTE_TIMEOUT] =
        (uint8_t)(req->remote_timeout << TIMEOUT_SHIFT | req->transport << TRANSPORT_SHIFT |
                  (req->has_flow_control ? FLOW_CONTROL : 0));
    put_be24(data + IBCM_REQ_OFF_PSN, req->starting_psn);
    data[IBCM_REQ_OFF_LOCAL_TIMEOUT] =
        (uint8_t)(req->local_timeout << TIMEOUT_SHIFT | (req->retry_count & RETRY_MASK));
    put_be16(data + IBCM_REQ_OFF_PKEY, req->pkey);
    data[IBCM_REQ_OFF_MTU] =
        (uint8_t)(req->path_mtu << MTU_SHIFT | (req->rnr_retry_count & RETRY_MASK));
    data[IBCM_REQ_OFF_CM_RETRIES] =
        (uint8_t)(req->max_cm_retries << CM_RETRIES_SHIFT | (req->has_srq ? SRQ : 0) |
                  (req->extended_transport & EXTENDED_MASK));
    path_emit(&req->primary, data + IBCM_REQ_OFF_PRIMARY);
    path_emit(&req->alternate, data + IBCM_REQ_OFF_ALTERNATE);
    ibcm_field_put(data + IBCM_REQ_OFF_PRIVATE, IBCM_REQ_PRIVATE_LEN, req->private_data);
}

const char *ibcm_req_format(const struct ibcm_req *req, char *buf, size_t len)
{
    static const char *const transports[] = {"RC", "UC", "RD", "extended"};
    char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN];
    inet_ntop(AF_INET6, &req->primary.local_gid, local, sizeof local);
    inet_ntop(AF_INET6, &req->primary.remote_gid, remote, sizeof remote);
    snprintf(buf, len,
             "REQ id=0x%08x service=0x%llx %s qp=0x%06x psn=0x%06x %s > %s mtu=%u resources=%u "
             "depth=%u retry=%u rnr=%u%s%s timeouts=%u,%u cm_retries=%u",
             req->local_id, (unsigned long long)req->service_id, transports[req->transport],
             req->qp_num, req->starting_psn, local, remote, req->path_mtu, req->responder_resources,
             req->initiator_depth, req->retry_count, req->rnr_retry_count,
             req->has_flow_control ? " flow" : "", req->has_srq ? " srq" : "", req->remote_timeout,
             req->local_timeout, req->max_cm_retries);
    return buf;
}
