#include "wire/ibcm_rep.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/ibcm_parts.h"

// Bits within their octets.
enum {
    ACK_DELAY_SHIFT = 3,
    FAILOVER_SHIFT = 1,
    FAILOVER_MASK = 0x3,
    FLOW_CONTROL = 0x01,
    RNR_RETRY_SHIFT = 5,
    SRQ = 0x10,
};

void ibcm_rep_parse(const uint8_t *data, struct ibcm_rep *ret)
{
    uint8_t delay = data[IBCM_REP_OFF_ACK_DELAY];
    uint8_t rnr_retry = data[IBCM_REP_OFF_RNR_RETRY];
    *ret = (struct ibcm_rep){
        .local_id = get_be32(data + IBCM_REP_OFF_LOCAL_ID),
        .remote_id = get_be32(data + IBCM_REP_OFF_REMOTE_ID),
        .qkey = get_be32(data + IBCM_REP_OFF_QKEY),
        .qp_num = get_be24(data + IBCM_REP_OFF_QP_NUM),
        .starting_psn = get_be24(data + IBCM_REP_OFF_PSN),
        .responder_resources = data[IBCM_REP_OFF_RESPONDER_RESOURCES],
        .initiator_depth = data[IBCM_REP_OFF_INITIATOR_DEPTH],
        .target_ack_delay = delay >> ACK_DELAY_SHIFT,
        .failover = delay >> FAILOVER_SHIFT & FAILOVER_MASK,
        .has_flow_control = (delay & FLOW_CONTROL) != 0,
        .rnr_retry_count = rnr_retry >> RNR_RETRY_SHIFT,
        .has_srq = (rnr_retry & SRQ) != 0,
        .ca_guid = get_be64(data + IBCM_REP_OFF_CA_GUID),
        .private_data = span_of(data + IBCM_REP_OFF_PRIVATE, IBCM_REP_PRIVATE_LEN),
    };
}

void ibcm_rep_emit(const struct ibcm_rep *rep, uint8_t *data)
{
    memset(data, 0, IBCM_REP_OFF_PRIVATE);
    put_be32(data + IBCM_REP_OFF_LOCAL_ID, rep->local_id);
    put_be32(data + IBCM_REP_OFF_REMOTE_ID, rep->remote_id);
    put_be32(data + IBCM_REP_OFF_QKEY, rep->qkey);
    put_be24(data + IBCM_REP_OFF_QP_NUM, rep->qp_num);
    put_be24(data + IBCM_REP_OFF_PSN, rep->starting_psn);
    data[IBCM_REP_OFF_RESPONDER_RESOURCES] = rep->responder_resources;
    data[IBCM_REP_OFF_INITIATOR_DEPTH] = rep->initiator_depth;
    data[IBCM_REP_OFF_ACK_DELAY] = (uint8_t)(rep->target_ack_delay << ACK_DELAY_SHIFT |
                                             (rep->failover & FAILOVER_MASK) << FAILOVER_SHIFT |
                                             (rep->has_flow_control ? FLOW_CONTROL : 0));
    data[IBCM_REP_OFF_RNR_RETRY] =
        (uint8_t)(rep->rnr_retry_count << RNR_RETRY_SHIFT | (rep->has_srq ? SRQ : 0));
    put_be64(data + IBCM_REP_OFF_CA_GUID, rep->ca_guid);
    ibcm_field_put(data + IBCM_REP_OFF_PRIVATE, IBCM_REP_PRIVATE_LEN, rep->private_data);
}

const char *ibcm_rep_format(const struct ibcm_rep *rep, char *buf, size_t len)
{
    snprintf(
        buf, len,
        "REP id=0x%08x of 0x%08x qp=0x%06x psn=0x%06x resources=%u depth=%u delay=%u rnr=%u%s%s",
        rep->local_id, rep->remote_id, rep->qp_num, rep->starting_psn, rep->responder_resources,
        rep->initiator_depth, rep->target_ack_delay, rep->rnr_retry_count,
        rep->has_flow_control ? " flow" : "", rep->has_srq ? " srq" : "");
    return buf;
}
