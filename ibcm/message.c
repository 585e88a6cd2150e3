// A connection's messages: each filled from what is known of both ends.
#include "base/bytes.h"
#include "base/check.h"
#include "base/trace.h"
#include "ibcm/internal.h"
#include "wire/ip_cm.h"

static void put(struct ibcm *ibcm, const struct ibcm_ends *ends, enum ibcm_kind kind,
                const uint8_t *mad)
{
    ibcm->counters.sent[kind]++;
    if (!ibcm->config.sink.put(ibcm->config.sink.ctx, ends, mad)) {
        ibcm->counters.not_sent++;
    }
}

static void trace(struct ibcm *ibcm, const struct ibcm_message *m)
{
    char line[400];
    TRACE(ibcm->config.trace, TRACE_CONN, "> %s", ibcm_message_format(m, line, sizeof line));
}

void ibcm_message_send(struct ibcm *ibcm, const struct ibcm_ends *ends,
                       const struct ibcm_message *m)
{
    uint8_t mad[MAD_LEN];
    ibcm_message_emit(m, mad);
    trace(ibcm, m);
    put(ibcm, ends, m->kind, mad);
}

/* ---- one function per message ---------------------------------------------------------------- */

// The IP CM header, and what the program says behind it.
static struct span with_header(const struct ibcm_conn *conn, struct span data, uint8_t *buf)
{
    const struct ip_cm_header h = {
        .is_ipv6 = !IN6_IS_ADDR_V4MAPPED(&conn->ends.local),
        .source_port = conn->source_port,
        .source = conn->ends.local,
        .destination = conn->ends.remote,
    };
    size_t len = ip_cm_header_emit(&h, buf);
    ibcm_field_put(buf + len, data.len, data);
    return span_of(buf, len + data.len);
}

static struct ibcm_path path_of(const struct ibcm_conn *conn)
{
    return (struct ibcm_path){
        .local_lid = IBCM_LID_NONE,
        .remote_lid = IBCM_LID_NONE,
        .local_gid = conn->ends.local,
        .remote_gid = conn->ends.remote,
        .flow_label = conn->ours.flow_label,
        .traffic_class = conn->ours.traffic_class,
        .hop_limit = conn->ours.hop_limit,
        .local_ack_timeout = conn->ours.ack_timeout,
    };
}

static struct ibcm_req req_of(const struct ibcm *ibcm, const struct ibcm_conn *conn)
{
    const struct ibcm_config *c = &ibcm->config;
    return (struct ibcm_req){
        .local_id = conn->local_id,
        .service_id = conn->service_id,
        .ca_guid = c->ca_guid,
        .qkey = conn->ours.qkey,
        .qp_num = conn->ours.qp_num,
        .responder_resources = conn->ours.responder_resources,
        .initiator_depth = conn->ours.initiator_depth,
        .remote_timeout = c->response_timeout,
        .transport = conn->ours.transport,
        .has_flow_control = conn->ours.has_flow_control,
        .starting_psn = conn->starting_psn,
        .local_timeout = c->response_timeout,
        .retry_count = conn->retry_count,
        .pkey = 0xffff,
        .path_mtu = conn->ours.path_mtu,
        .rnr_retry_count = conn->ours.rnr_retry_count,
        .max_cm_retries = c->max_cm_retries,
        .has_srq = conn->ours.has_srq,
        .primary = path_of(conn),
    };
}

static struct ibcm_rep rep_of(const struct ibcm *ibcm, const struct ibcm_conn *conn)
{
    return (struct ibcm_rep){
        .local_id = conn->local_id,
        .remote_id = conn->remote_id,
        .qkey = conn->ours.qkey,
        .qp_num = conn->ours.qp_num,
        .starting_psn = conn->starting_psn,
        .responder_resources = conn->ours.responder_resources,
        .initiator_depth = conn->ours.initiator_depth,
        .target_ack_delay = ibcm->config.ack_delay,
        .failover = IBCM_FAILOVER_NONE,
        .has_flow_control = conn->ours.has_flow_control,
        .rnr_retry_count = conn->ours.rnr_retry_count,
        .has_srq = conn->ours.has_srq,
        .ca_guid = ibcm->config.ca_guid,
    };
}

// Who gives up on a silent peer.
static bool gives_up(const struct ibcm_conn *conn)
{
    return !conn->is_datagram && conn->reason == IBCM_REASON_TIMEOUT;
}

// Whose answer a REJ or MRA speaks of: the peer's last message, if it was a REQ or a REP.
static enum ibcm_subject subject_of(const struct ibcm_conn *conn)
{
    if (conn->theirs.qp_num == 0 || gives_up(conn)) {
        return IBCM_SUBJECT_OTHER; // it has said nothing yet
    }
    return conn->is_active ? IBCM_SUBJECT_REP : IBCM_SUBJECT_REQ;
}

// Who gives up says who he is: Linux finds the connection by GUID and id, whatever else the REJ
// says (cm_acquire_rejected_id of its cm.c).
static struct span rej_info(const struct ibcm *ibcm, const struct ibcm_conn *conn, uint8_t *buf)
{
    put_be64(buf, ibcm->config.ca_guid);
    return span_of(buf, gives_up(conn) ? sizeof(uint64_t) : 0);
}

static struct ibcm_sidr_rep sidr_rep_of(const struct ibcm_conn *conn)
{
    bool is_ok = conn->reason == IBCM_SIDR_OK;
    return (struct ibcm_sidr_rep){
        .id = conn->remote_id,
        .status = (uint8_t)conn->reason,
        .qp_num = is_ok ? conn->ours.qp_num : 0,
        .service_id = conn->service_id,
        .qkey = is_ok ? conn->ours.qkey : 0,
    };
}

/* ---- which one ------------------------------------------------------------------------------- */

static const enum ibcm_kind kinds[IBCM_SEND_COUNT] = {
    [IBCM_SEND_REQ] = IBCM_REQ,           [IBCM_SEND_MRA] = IBCM_MRA,
    [IBCM_SEND_REJ] = IBCM_REJ,           [IBCM_SEND_REP] = IBCM_REP,
    [IBCM_SEND_RTU] = IBCM_RTU,           [IBCM_SEND_DREQ] = IBCM_DREQ,
    [IBCM_SEND_DREP] = IBCM_DREP,         [IBCM_SEND_SIDR_REQ] = IBCM_SIDR_REQ,
    [IBCM_SEND_SIDR_REP] = IBCM_SIDR_REP,
};

static void fill(const struct ibcm *ibcm, const struct ibcm_conn *conn, struct span data,
                 uint8_t *scratch, struct ibcm_message *m)
{
    uint32_t local = conn->local_id, remote = conn->remote_id;
    switch (m->kind) {
    case IBCM_REQ:
        m->req = req_of(ibcm, conn);
        m->req.private_data = with_header(conn, data, scratch);
        break;
    case IBCM_MRA:
        m->mra =
            (struct ibcm_mra){local, remote, subject_of(conn), ibcm->config.service_timeout, data};
        break;
    case IBCM_REJ:
        m->rej = (struct ibcm_rej){.local_id = local,
                                   .remote_id = remote,
                                   .subject = subject_of(conn),
                                   .reason = (uint16_t)conn->reason,
                                   .info = rej_info(ibcm, conn, scratch),
                                   .private_data = data};
        break;
    case IBCM_REP:
        m->rep = rep_of(ibcm, conn);
        m->rep.private_data = data;
        break;
    case IBCM_RTU:
    case IBCM_DREP:
        m->ids = (struct ibcm_ids){local, remote, data};
        break;
    case IBCM_DREQ:
        m->dreq = (struct ibcm_dreq){local, remote, conn->theirs.qp_num, data};
        break;
    case IBCM_SIDR_REQ:
        m->sidr_req = (struct ibcm_sidr_req){local, 0xffff, conn->service_id,
                                             with_header(conn, data, scratch)};
        break;
    case IBCM_SIDR_REP:
        m->sidr_rep = sidr_rep_of(conn);
        m->sidr_rep.private_data = data;
        break;
    case IBCM_KIND_COUNT:
        break;
    }
}

void ibcm_conn_bequeath(struct ibcm *ibcm, const struct ibcm_conn *conn)
{
    uint8_t scratch[MAD_DATA_LEN], mad[MAD_LEN];
    const struct span nothing = {0};
    struct ibcm_message m = {.kind = IBCM_DREQ, .transaction_id = ~conn->transaction_id};
    fill(ibcm, conn, nothing, scratch, &m);
    ibcm_message_emit(&m, mad);
    ibcm->config.will.bequeath(ibcm->config.will.ctx, (uint32_t)(conn - ibcm->conns), &conn->ends,
                               mad);
}

void ibcm_conn_send(struct ibcm *ibcm, struct ibcm_conn *conn, enum ibcm_send send,
                    struct span private_data)
{
    uint8_t scratch[MAD_DATA_LEN];
    struct ibcm_message m;
    if (send == IBCM_SEND_AGAIN) {
        enum ibcm_parse_verdict verdict = ibcm_message_parse(span_of(conn->message, MAD_LEN), &m);
        CHECK(verdict == IBCM_PARSE_OK);
        trace(ibcm, &m);
        put(ibcm, &conn->ends, m.kind, conn->message);
        return;
    }
    m = (struct ibcm_message){.kind = kinds[send], .transaction_id = conn->transaction_id};
    fill(ibcm, conn, private_data, scratch, &m);
    if (send == IBCM_SEND_DREP) {
        ibcm_message_send(ibcm, &conn->ends, &m); // not kept: what was said before may be due again
        return;
    }
    ibcm_message_emit(&m, conn->message);
    trace(ibcm, &m);
    put(ibcm, &conn->ends, m.kind, conn->message);
}
