// One message of each kind, no two fields alike, so that one in the wrong place is seen.
#pragma once

#include <arpa/inet.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/span.h"
#include "wire/ibcm.h"
#include "wire/ip_cm.h"

static inline struct in6_addr ibcm_sample_address(const char *text)
{
    struct in6_addr address;
    inet_pton(AF_INET6, text, &address);
    return address;
}

// The IP CM header and four octets of a program behind it.
static inline struct span ibcm_sample_private_data(void)
{
    static uint8_t data[IP_CM_HEADER_LEN + 4];
    const struct ip_cm_header h = {
        .source_port = 40000,
        .source = ibcm_sample_address("::ffff:192.0.2.1"),
        .destination = ibcm_sample_address("::ffff:192.0.2.2"),
    };
    ip_cm_header_emit(&h, data);
    memcpy(data + IP_CM_HEADER_LEN, "mine", 4);
    return span_of(data, sizeof data);
}

static inline struct ibcm_req ibcm_sample_req(void)
{
    return (struct ibcm_req){
        .local_id = 0x01020304,
        .service_id = ip_cm_service_id(IP_CM_PS_TCP, 4420),
        .ca_guid = 0x1112131415161718,
        .qkey = 0x21222324,
        .qp_num = 0x313233,
        .responder_resources = 7,
        .initiator_depth = 9,
        .remote_timeout = 18,
        .transport = IBCM_TRANSPORT_UC,
        .has_flow_control = true,
        .starting_psn = 0x414243,
        .local_timeout = 17,
        .retry_count = 5,
        .pkey = 0xffff,
        .path_mtu = 3,
        .rnr_retry_count = 6,
        .max_cm_retries = 15,
        .has_srq = true,
        .primary =
            {
                .local_lid = IBCM_LID_NONE,
                .remote_lid = IBCM_LID_NONE,
                .local_gid = ibcm_sample_address("::ffff:192.0.2.1"),
                .remote_gid = ibcm_sample_address("::ffff:192.0.2.2"),
                .flow_label = 0x51525,
                .packet_rate = 10,
                .traffic_class = 0x68,
                .hop_limit = 64,
                .sl = 4,
                .is_subnet_local = true,
                .local_ack_timeout = 19,
            },
        .private_data = ibcm_sample_private_data(),
    };
}

static inline struct ibcm_message ibcm_sample(enum ibcm_kind kind)
{
    struct ibcm_message m = {.kind = kind, .transaction_id = 0xf1f2f3f4f5f6f700 + kind};
    switch (kind) {
    case IBCM_REQ:
        m.req = ibcm_sample_req();
        break;
    case IBCM_MRA:
        m.mra = (struct ibcm_mra){.local_id = 0x01020304,
                                  .remote_id = 0x05060708,
                                  .subject = IBCM_SUBJECT_REP,
                                  .service_timeout = 24,
                                  .private_data = span_of("wait", 4)};
        break;
    case IBCM_REJ:
        m.rej = (struct ibcm_rej){.local_id = 0x01020304,
                                  .remote_id = 0x05060708,
                                  .subject = IBCM_SUBJECT_REP,
                                  .reason = IBCM_REASON_CONSUMER,
                                  .info = span_of("why", 3),
                                  .private_data = span_of("no", 2)};
        break;
    case IBCM_REP:
        m.rep = (struct ibcm_rep){.local_id = 0x01020304,
                                  .remote_id = 0x05060708,
                                  .qkey = 0x21222324,
                                  .qp_num = 0x313233,
                                  .starting_psn = 0x414243,
                                  .responder_resources = 7,
                                  .initiator_depth = 9,
                                  .target_ack_delay = 15,
                                  .failover = IBCM_FAILOVER_NONE,
                                  .has_flow_control = true,
                                  .rnr_retry_count = 6,
                                  .has_srq = true,
                                  .ca_guid = 0x1112131415161718,
                                  .private_data = span_of("yes", 3)};
        break;
    case IBCM_RTU:
    case IBCM_DREP:
        m.ids = (struct ibcm_ids){
            .local_id = 0x01020304, .remote_id = 0x05060708, .private_data = span_of("so", 2)};
        break;
    case IBCM_DREQ:
        m.dreq = (struct ibcm_dreq){.local_id = 0x01020304,
                                    .remote_id = 0x05060708,
                                    .remote_qp_num = 0x313233,
                                    .private_data = span_of("bye", 3)};
        break;
    case IBCM_SIDR_REQ:
        m.sidr_req = (struct ibcm_sidr_req){.id = 0x01020304,
                                            .pkey = 0xffff,
                                            .service_id = ip_cm_service_id(IP_CM_PS_UDP, 5000),
                                            .private_data = ibcm_sample_private_data()};
        break;
    case IBCM_SIDR_REP:
        m.sidr_rep = (struct ibcm_sidr_rep){.id = 0x01020304,
                                            .status = IBCM_SIDR_NO_QP,
                                            .qp_num = 0x313233,
                                            .service_id = ip_cm_service_id(IP_CM_PS_UDP, 5000),
                                            .qkey = IP_CM_QKEY,
                                            .info = span_of("why", 3),
                                            .private_data = span_of("no", 2)};
        break;
    case IBCM_KIND_COUNT:
        break;
    }
    return m;
}
