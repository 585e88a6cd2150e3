// The connection manager (chapters 12 and 13, annex A11): MADs on queue pair 1, from a plain socket
// to a program that listens by rdma_cm.

#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/conformance/pair.h"

enum { // 13.4.2, 12.6.1: offsets in a MAD
    MAD_LEN = 256,
    MAD_CLASS = 1,
    MAD_CLASS_VERSION = 2,
    MAD_METHOD = 3,
    MAD_TRANSACTION = 8,
    MAD_ATTRIBUTE = 16,
    MAD_DATA = 24,
    LOCAL_ID = MAD_DATA, // of most messages
    REMOTE_ID = MAD_DATA + 4,

    GSI_QKEY = 0x80010000,
    CLASS_CM = 7,
    METHOD_SEND = 3,
};
enum attribute {
    REQ = 0x10,
    MRA,
    REJ,
    REP,
    RTU,
    DREQ,
    DREP,
    SIDR_REQ,
    SIDR_REP,
    LAP,
};
enum { // 12.6.5
    REQ_SERVICE = MAD_DATA + 8,
    REQ_GUID = MAD_DATA + 16,
    REQ_QPN = MAD_DATA + 32,
    REQ_RESOURCES = MAD_DATA + 35,
    REQ_DEPTH = MAD_DATA + 39,
    REQ_TRANSPORT = MAD_DATA + 43, // remote response time-out 5, transport 2, flow control 1
    REQ_PSN = MAD_DATA + 44,
    REQ_TIMEOUT = MAD_DATA + 47, // local response time-out 5, retries 3
    REQ_P_KEY = MAD_DATA + 48,
    REQ_MTU = MAD_DATA + 50, // path MTU 4, RDC 1, RNR retries 3
    REQ_RETRIES = MAD_DATA + 51,
    REQ_LIDS = MAD_DATA + 52,
    REQ_LOCAL_GID = MAD_DATA + 56,
    REQ_REMOTE_GID = MAD_DATA + 72,
    REQ_HOP_LIMIT = MAD_DATA + 93,
    REQ_ACK_TIMEOUT = MAD_DATA + 95,
    REQ_PRIVATE = MAD_DATA + 140,
    IP_HEADER_LEN = 36, // A11: version, port, addresses
    // 12.6.8
    REP_QPN = MAD_DATA + 12,
    REP_PSN = MAD_DATA + 20,
    REP_RESOURCES = MAD_DATA + 24,
    REP_DEPTH = MAD_DATA + 25,
    REP_GUID = MAD_DATA + 28,
    REP_PRIVATE = MAD_DATA + 36,
    // 12.6.7
    REJ_MESSAGE = MAD_DATA + 8,
    REJ_INFO_LEN = MAD_DATA + 9,
    REJ_REASON = MAD_DATA + 10,
    REJ_INFO = MAD_DATA + 12,
    REJ_PRIVATE = MAD_DATA + 84,
    // 12.6.10, 12.6.11
    DREQ_QPN = MAD_DATA + 8,
    // 12.11.1
    SIDR_SERVICE = MAD_DATA + 8,
    SIDR_PRIVATE = MAD_DATA + 16,
    SIDR_STATUS = MAD_DATA + 4,
    SIDR_QPN = MAD_DATA + 8,
    SIDR_QKEY = MAD_DATA + 20,
};

static const uint64_t TRANSACTION = 0x1000000000; // and the connection's id

static struct pair gsi = {.peer_num = 1};
static struct packet out, in;
static uint32_t last_id = 0x00770000;

/* ---- MADs ------------------------------------------------------------------------------------ */

static uint8_t *mad_of(struct packet *p)
{
    return p->octets + BTH_LEN + DETH_LEN;
}

// Of the connection that the peer calls `id`.
static uint8_t *mad_begin(enum attribute attribute, uint32_t id)
{
    static const uint8_t zeros[MAD_LEN];
    packet_begin(&out, UD | SEND_ONLY, 0);
    put_be24(out.octets + BTH_DEST_QP, 1);
    packet_deth(&out, GSI_QKEY, 1);
    packet_payload(&out, zeros, MAD_LEN);
    uint8_t *mad = mad_of(&out);
    mad[0] = 1;
    mad[MAD_CLASS] = CLASS_CM;
    mad[MAD_CLASS_VERSION] = 2;
    mad[MAD_METHOD] = METHOD_SEND;
    put_be64(mad + MAD_TRANSACTION, TRANSACTION + id);
    put_be16(mad + MAD_ATTRIBUTE, (uint16_t)attribute);
    put_be32(mad + LOCAL_ID, id);
    return mad;
}

static void gid_put(uint8_t *gid, const struct sockaddr_in *of)
{
    put_be16(gid + 10, 0xffff);
    memcpy(gid + 12, &of->sin_addr, 4);
}

// A11: the ports space and port as service, and the addresses.
static void service_put(uint8_t *service, uint16_t space, uint16_t port)
{
    put_be64(service, (uint64_t)space << 16 | port);
}

static void ip_header_put(uint8_t *header)
{
    header[1] = 4 << 4;
    put_be16(header + 2, 0x1234);
    memcpy(header + 4 + 12, &ends.peer_at.sin_addr, 4);
    memcpy(header + 20 + 12, &ends.weft_at.sin_addr, 4);
}

struct server {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener, *id;
    uint32_t peer_id; // of the peer's latest request
    uint16_t port;
};

static uint8_t *req_begin(struct server *s)
{
    s->peer_id = ++last_id;
    uint8_t *mad = mad_begin(REQ, s->peer_id);
    service_put(mad + REQ_SERVICE, RDMA_PS_TCP, s->port);
    put_be64(mad + REQ_GUID, 0x0102030405060708);
    put_be24(mad + REQ_QPN, 0x010000 + (s->peer_id & 0xffff));
    mad[REQ_RESOURCES] = 3;
    mad[REQ_DEPTH] = 2;
    mad[REQ_TRANSPORT] = 20 << 3;
    put_be24(mad + REQ_PSN, 0x00abcd);
    mad[REQ_TIMEOUT] = 20 << 3 | 7;
    put_be16(mad + REQ_P_KEY, P_KEY);
    mad[REQ_MTU] = IBV_MTU_256 << 4 | 7;
    mad[REQ_RETRIES] = 15 << 4;
    put_be32(mad + REQ_LIDS, 0xffffffff);
    gid_put(mad + REQ_LOCAL_GID, &ends.peer_at);
    gid_put(mad + REQ_REMOTE_GID, &ends.weft_at);
    mad[REQ_HOP_LIMIT] = 64;
    mad[REQ_ACK_TIMEOUT] = 14 << 3;
    ip_header_put(mad + REQ_PRIVATE);
    memcpy(mad + REQ_PRIVATE + IP_HEADER_LEN, "of the request", 14);
    return mad;
}

static void say_mad(void)
{
    say(&gsi, &out);
}

static const uint8_t *hear_mad(void)
{
    hear(&gsi, &in);
    assert_int_equal(opcode_of(&in), UD | SEND_ONLY);
    assert_int_equal(get_be32(in.octets + BTH_LEN), GSI_QKEY);
    assert_int_equal(get_be32(in.octets + BTH_LEN + 4), 1);
    assert_int_equal(payload_len_of(&in), MAD_LEN);
    const uint8_t *mad = mad_of(&in);
    assert_int_equal(mad[0], 1);
    assert_int_equal(mad[MAD_CLASS], CLASS_CM);
    assert_int_equal(mad[MAD_CLASS_VERSION], 2);
    assert_int_equal(mad[MAD_METHOD], METHOD_SEND);
    return mad;
}

// The next of this connection's; what an earlier test's says again is none of this one's business.
static const uint8_t *hear_of(const struct server *s, enum attribute attribute)
{
    const uint8_t *mad;
    do {
        mad = hear_mad();
    } while (get_be32(mad + REMOTE_ID) != s->peer_id);
    assert_int_equal(get_be16(mad + MAD_ATTRIBUTE), attribute);
    return mad;
}

static void expect_rejected(const struct server *s, unsigned reason)
{
    const uint8_t *mad = hear_of(s, REJ);
    assert_int_equal(get_be16(mad + REJ_REASON), reason);
    assert_int_equal(mad[REJ_MESSAGE] >> 6, 0); // of the REQ
}

/* ---- weft's program -------------------------------------------------------------------------- */

static struct rdma_cm_event *service_event(struct server *s, enum rdma_cm_event_type type)
{
    struct pollfd readable = {.fd = s->channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;
    assert_int_equal(poll(&readable, 1, 30000), 1);
    assert_int_equal(rdma_get_cm_event(s->channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    return event;
}

static void expect_event(struct server *s, enum rdma_cm_event_type type)
{
    rdma_ack_cm_event(service_event(s, type));
}

static void service_open_as(struct server *s, enum rdma_port_space space)
{
    struct sockaddr_in own = ends.weft_at;
    own.sin_port = 0;
    *s = (struct server){.channel = rdma_create_event_channel()};
    assert_int_equal(rdma_create_id(s->channel, &s->listener, NULL, space), 0);
    assert_int_equal(rdma_bind_addr(s->listener, (struct sockaddr *)&own), 0);
    assert_int_equal(rdma_listen(s->listener, 8), 0);
    s->port = ntohs(rdma_get_src_port(s->listener));
}

static void service_open(struct server *s)
{
    service_open_as(s, RDMA_PS_TCP);
}

static void service_close(struct server *s)
{
    if (s->id != NULL) {
        if (s->id->qp != NULL) {
            rdma_destroy_qp(s->id);
        }
        assert_int_equal(rdma_destroy_id(s->id), 0);
    }
    assert_int_equal(rdma_destroy_id(s->listener), 0);
    rdma_destroy_event_channel(s->channel);
}

static void take_request(struct server *s)
{
    struct rdma_cm_event *event = service_event(s, RDMA_CM_EVENT_CONNECT_REQUEST);
    s->id = event->id;
    rdma_ack_cm_event(event);
}

static void accept_request(struct server *s)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct rdma_conn_param param = {.responder_resources = 2,
                                    .initiator_depth = 1,
                                    .private_data = "of the reply",
                                    .private_data_len = 12};
    take_request(s);
    assert_int_equal(rdma_create_qp(s->id, NULL, &attr), 0);
    assert_int_equal(rdma_accept(s->id, &param), 0);
}

static void say_of(const struct server *s, enum attribute attribute, uint32_t weft_id)
{
    uint8_t *mad = mad_begin(attribute, s->peer_id);
    put_be32(mad + REMOTE_ID, weft_id);
    if (attribute == DREQ) {
        put_be24(mad + DREQ_QPN, s->id->qp->qp_num);
    }
    say_mad();
}

// Up to ESTABLISHED; what weft calls it.
static uint32_t connect_service(struct server *s)
{
    req_begin(s);
    say_mad();
    accept_request(s);
    const uint32_t weft_id = get_be32(hear_of(s, REP) + LOCAL_ID);
    say_of(s, RTU, weft_id);
    expect_event(s, RDMA_CM_EVENT_ESTABLISHED);
    return weft_id;
}

/* ---- 12.9: a connection ---------------------------------------------------------------------- */

// A11: the program has what stands behind the addresses, and who asks.
static void a_request_reaches_the_program(void **state)
{
    struct server s;
    service_open(&s);
    req_begin(&s);
    say_mad();
    struct rdma_cm_event *event = service_event(&s, RDMA_CM_EVENT_CONNECT_REQUEST);
    s.id = event->id;
    assert_memory_equal(event->param.conn.private_data, "of the request", 14);
    assert_int_equal(event->param.conn.private_data_len, 56);
    assert_int_equal(event->param.conn.responder_resources, 2); // what its depth asks for
    assert_int_equal(event->param.conn.initiator_depth, 3);
    const struct sockaddr_in *from = (struct sockaddr_in *)rdma_get_peer_addr(s.id);
    assert_int_equal(from->sin_addr.s_addr, ends.peer_at.sin_addr.s_addr);
    assert_int_equal(from->sin_port, htons(0x1234));
    rdma_ack_cm_event(event);
    service_close(&s);
}

static void a_reply_has_the_fields_of_the_figure(void **state)
{
    struct server s;
    service_open(&s);
    req_begin(&s);
    say_mad();
    accept_request(&s);
    const uint8_t *mad = hear_of(&s, REP);
    assert_true(get_be64(mad + MAD_TRANSACTION) == TRANSACTION + s.peer_id); // 12.6.1
    assert_int_not_equal(get_be32(mad + LOCAL_ID), 0);
    assert_int_equal(get_be24(mad + REP_QPN), s.id->qp->qp_num);
    assert_int_equal(mad[REP_RESOURCES], 2);
    assert_int_equal(mad[REP_DEPTH], 1);
    assert_memory_equal(mad + REP_PRIVATE, "of the reply", 12);
    service_close(&s);
}

static void an_rtu_establishes(void **state)
{
    struct server s;
    service_open(&s);
    connect_service(&s);
    service_close(&s);
}

// 12.9.8.3.1: a request that comes again is answered again, by the same reply.
static void a_request_again_is_answered_again(void **state)
{
    uint8_t reply[MAD_LEN];
    struct server s;
    service_open(&s);
    req_begin(&s);
    say_mad();
    accept_request(&s);
    memcpy(reply, hear_of(&s, REP), MAD_LEN);
    req_begin(&s);
    s.peer_id = --last_id;
    put_be32(mad_of(&out) + LOCAL_ID, s.peer_id);
    put_be64(mad_of(&out) + MAD_TRANSACTION, TRANSACTION + s.peer_id);
    put_be24(mad_of(&out) + REQ_QPN, 0x010000 + (s.peer_id & 0xffff));
    say_mad();
    assert_memory_equal(hear_of(&s, REP), reply, MAD_LEN);
    say_of(&s, RTU, get_be32(reply + LOCAL_ID));
    expect_event(&s, RDMA_CM_EVENT_ESTABLISHED);
    service_close(&s);
}

// 12.9.6: an RTU may be lost: the first packet says as much. 12.7.31: a starting PSN is where its
// receiver begins to send.
static void data_stand_for_an_rtu(void **state)
{
    struct server s;
    struct pair data = {.peer_num = 0};
    service_open(&s);
    req_begin(&s);
    data.peer_num = get_be24(mad_of(&out) + REQ_QPN);
    say_mad();
    accept_request(&s);
    const uint32_t psn = get_be24(hear_of(&s, REP) + REP_PSN);
    data.qp = s.id->qp;
    packet_begin(&out, WRITE_ONLY, psn);
    packet_reth(&out, 0, 0, 0);
    packet_ask(&out);
    say(&data, &out);
    expect_event(&s, RDMA_CM_EVENT_ESTABLISHED);
    hear(&data, &in);
    assert_int_equal(opcode_of(&in), ACKNOWLEDGE);
    assert_int_equal(psn_of(&in), psn);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    assert_int_equal(ibv_post_send(s.id->qp, &wr, &bad), 0);
    hear(&data, &in);
    assert_int_equal(opcode_of(&in), SEND_ONLY);
    assert_int_equal(psn_of(&in), 0x00abcd);
    service_close(&s);
}

/* ---- 12.9.8: the end ------------------------------------------------------------------------- */

static void a_dreq_is_answered_and_told(void **state)
{
    struct server s;
    service_open(&s);
    const uint32_t weft_id = connect_service(&s);
    say_of(&s, DREQ, weft_id);
    assert_int_equal(get_be32(hear_of(&s, DREP) + LOCAL_ID), weft_id);
    expect_event(&s, RDMA_CM_EVENT_DISCONNECTED);
    say_of(&s, DREQ, weft_id); // its answer was lost
    hear_of(&s, DREP);
    service_close(&s);
}

// What was said has been heard when a request behind it is answered; and who is not connected any
// more says no DREQ.
static void expect_that_nothing_has_ended(struct server *s)
{
    struct server nobody = {.port = 0};
    req_begin(&nobody)[REQ_SERVICE] = 0x77;
    say_mad();
    expect_rejected(&nobody, 8);
    assert_int_equal(rdma_disconnect(s->id), 0);
    hear_of(s, DREQ);
}

// 12.6.10: it names the queue pair that is to end.
static void a_dreq_for_another_queue_pair_ends_nothing(void **state)
{
    struct server s;
    service_open(&s);
    const uint32_t weft_id = connect_service(&s);
    uint8_t *mad = mad_begin(DREQ, s.peer_id);
    put_be32(mad + REMOTE_ID, weft_id);
    put_be24(mad + DREQ_QPN, s.id->qp->qp_num ^ 1);
    say_mad();
    say_of(&s, DREQ, weft_id + 1); // another connection
    expect_that_nothing_has_ended(&s);
    service_close(&s);
}

// 12.9.8: both ids are the connection's, and so is the address.
static void a_dreq_of_another_peer_ends_nothing(void **state)
{
    struct sockaddr_in from;
    struct server s;
    const int fd = another_socket("127.0.0.3", &from);
    service_open(&s);
    const uint32_t weft_id = connect_service(&s);
    uint8_t *mad = mad_begin(DREQ, s.peer_id + 0x1000);
    put_be32(mad + REMOTE_ID, weft_id);
    put_be24(mad + DREQ_QPN, s.id->qp->qp_num);
    say_mad();
    put_be32(mad + LOCAL_ID, s.peer_id);
    say_from(&gsi, &out, fd, &from, 0);
    expect_that_nothing_has_ended(&s);
    close(fd);
    service_close(&s);
}

static void weft_ends_by_a_dreq(void **state)
{
    struct server s;
    service_open(&s);
    const uint32_t weft_id = connect_service(&s);
    assert_int_equal(rdma_disconnect(s.id), 0);
    const uint8_t *mad = hear_of(&s, DREQ);
    assert_int_equal(get_be32(mad + LOCAL_ID), weft_id);
    assert_int_equal(get_be24(mad + DREQ_QPN), 0x010000 + (s.peer_id & 0xffff));
    const uint64_t transaction = get_be64(mad + MAD_TRANSACTION);
    say_of(&s, DREP, weft_id);
    put_be64(mad_of(&out) + MAD_TRANSACTION, transaction);
    say_mad();
    expect_event(&s, RDMA_CM_EVENT_DISCONNECTED);
    service_close(&s);
}

// A request whose peer says once, and soon, what is not answered: the other end does so too.
static uint32_t connect_briefly(struct server *s, bool is_answered)
{
    uint8_t *mad = req_begin(s);
    mad[REQ_TRANSPORT] = 0;
    mad[REQ_TIMEOUT] = 7; // 4.096 us, beside the way
    mad[REQ_RETRIES] = 0;
    say_mad();
    accept_request(s);
    const uint32_t weft_id = get_be32(hear_of(s, REP) + LOCAL_ID);
    if (is_answered) {
        say_of(s, RTU, weft_id);
        expect_event(s, RDMA_CM_EVENT_ESTABLISHED);
    }
    return weft_id;
}

static void expect_timeout(struct server *s, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = service_event(s, type);
    assert_int_equal(event->status, -ETIMEDOUT);
    rdma_ack_cm_event(event);
}

// 12.9.7: as often as the request says, and then it is over.
static void who_hears_no_drep_is_done_too(void **state)
{
    struct server s;
    service_open(&s);
    connect_briefly(&s, true);
    assert_int_equal(rdma_disconnect(s.id), 0);
    hear_of(&s, DREQ);
    expect_timeout(&s, RDMA_CM_EVENT_DISCONNECTED);
    service_close(&s);
}

// Linux leaves the queue pair to the program.
static void who_hears_no_rtu_gives_up(void **state)
{
    struct server s;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    uint8_t guid[8];
    service_open(&s);
    connect_briefly(&s, false);
    memcpy(guid, mad_of(&in) + REP_GUID, sizeof guid);
    const uint8_t *mad = hear_of(&s, REJ);
    assert_int_equal(get_be16(mad + REJ_REASON), 4);
    assert_int_equal(mad[REJ_MESSAGE] >> 6, 2);  // neither REQ nor REP
    assert_int_equal(mad[REJ_INFO_LEN] >> 1, 8); // the GUID that the REP had
    assert_memory_equal(mad + REJ_INFO, guid, sizeof guid);
    expect_timeout(&s, RDMA_CM_EVENT_UNREACHABLE);
    assert_int_equal(ibv_query_qp(s.id->qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    service_close(&s);
}

// 12.10.5: of nobody: who sent it is to stop.
static void a_dreq_of_nobody_is_answered(void **state)
{
    struct server s = {.peer_id = ++last_id};
    uint8_t *mad = mad_begin(DREQ, s.peer_id);
    put_be32(mad + REMOTE_ID, 0x00abcdef);
    say_mad();
    hear_of(&s, DREP);
}

/* ---- 12.6.7: refusals ------------------------------------------------------------------------ */

static void a_program_rejects_with_private_data(void **state)
{
    struct server s;
    service_open(&s);
    req_begin(&s);
    say_mad();
    take_request(&s);
    assert_int_equal(rdma_reject(s.id, "not today", 9), 0);
    expect_rejected(&s, 28);
    assert_memory_equal(mad_of(&in) + REJ_PRIVATE, "not today", 9);
    service_close(&s);
}

static const struct {
    const char *what;
    unsigned at;
    uint8_t value;
    unsigned reason;
} unacceptable[] = {
    {"a service that nobody serves", REQ_SERVICE, 0x77, 8},
    {"transport RD", REQ_TRANSPORT, 20 << 3 | 2 << 1, 9},
    {"a GID that is not the sender's", REQ_LOCAL_GID + 15, 99, 12},
    {"a GID that is not weft's", REQ_REMOTE_GID + 15, 99, 12},
    {"a path MTU that there is not", REQ_MTU, 0x67, 26},
    {"an address that is not the sender's", REQ_PRIVATE + 4 + 15, 99, 5},
    {"an address that is not weft's", REQ_PRIVATE + 20 + 15, 99, 5},
    {"addresses of IPv3", REQ_PRIVATE + 1, 3 << 4, 5},
};

static void a_request_that_cannot_be_is_rejected_with_its_reason(void **state)
{
    struct server s;
    service_open(&s);
    for (size_t i = 0; i < sizeof unacceptable / sizeof unacceptable[0]; i++) {
        req_begin(&s)[unacceptable[i].at] = unacceptable[i].value;
        say_mad();
        expect_rejected(&s, unacceptable[i].reason);
    }
    put_be24(req_begin(&s) + REQ_QPN, 0);
    say_mad();
    expect_rejected(&s, 1);
    service_close(&s);
}

// 12.9.8.3.1: a queue pair that has a connection asks for another: the old one has ended.
static void a_stale_connection_ends(void **state)
{
    struct server s;
    service_open(&s);
    connect_service(&s);
    const uint32_t qpn = 0x010000 + (s.peer_id & 0xffff);
    put_be24(req_begin(&s) + REQ_QPN, qpn);
    say_mad();
    expect_rejected(&s, 10);
    expect_event(&s, RDMA_CM_EVENT_DISCONNECTED);
    service_close(&s);
}

// 12.6.8: a reply to nothing that was asked.
static void a_reply_that_nobody_waits_for_is_rejected(void **state)
{
    struct server s = {.peer_id = ++last_id};
    uint8_t *mad = mad_begin(REP, s.peer_id);
    put_be32(mad + REMOTE_ID, 0x00abcdef);
    say_mad();
    const uint8_t *rejection = hear_of(&s, REJ);
    assert_int_equal(get_be16(rejection + REJ_REASON), 6);
    assert_int_equal(rejection[REJ_MESSAGE] >> 6, 1); // of the REP
}

/* ---- 13.4: what is no MAD of this class ------------------------------------------------------ */

static void other_mads_are_dropped(void **state)
{
    static const struct {
        unsigned at;
        uint8_t value;
    } faults[] = {
        {0, 2},                  // base version
        {MAD_CLASS, 3},          // subnet administration
        {MAD_CLASS_VERSION, 1},  // another
        {MAD_METHOD, 0x83},      // an answer
        {MAD_ATTRIBUTE + 1, 99}, // no message
    };
    struct server s = {.port = 0};
    const uint32_t before = last_id;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        req_begin(&s)[faults[i].at] = faults[i].value;
        say_mad();
    }
    req_begin(&s);
    put_be32(out.octets + BTH_LEN, GSI_QKEY + 1);
    say_mad();
    req_begin(&s);
    put_be32(out.octets + BTH_LEN + 4, 0x00abcd); // from another queue pair than 1
    say_mad();
    req_begin(&s);
    out.len -= 4; // too short
    say_mad();
    mad_begin(LAP, ++last_id);
    say_mad();
    req_begin(&s)[REQ_SERVICE] = 0x77;
    say_mad();
    uint32_t about;
    do {
        about = get_be32(hear_mad() + REMOTE_ID);
    } while (about <= before || about > last_id);
    assert_int_equal(about, s.peer_id); // with no word to those before
}

/* ---- 12.11: datagrams ------------------------------------------------------------------------ */

static uint8_t *sidr_begin(struct server *s)
{
    s->peer_id = ++last_id;
    uint8_t *mad = mad_begin(SIDR_REQ, s->peer_id);
    put_be16(mad + MAD_DATA + 4, P_KEY);
    service_put(mad + SIDR_SERVICE, RDMA_PS_UDP, s->port);
    ip_header_put(mad + SIDR_PRIVATE);
    return mad;
}

static const uint8_t *hear_sidr(const struct server *s)
{
    const uint8_t *mad;
    do {
        mad = hear_mad();
    } while (get_be16(mad + MAD_ATTRIBUTE) != SIDR_REP || get_be32(mad + MAD_DATA) != s->peer_id);
    return mad;
}

static void a_service_of_datagrams_is_found(void **state)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct rdma_conn_param param = {.private_data = NULL};
    struct server s;
    service_open_as(&s, RDMA_PS_UDP);
    sidr_begin(&s);
    say_mad();
    take_request(&s);
    assert_int_equal(rdma_create_qp(s.id, NULL, &attr), 0);
    param.qp_num = s.id->qp->qp_num;
    assert_int_equal(rdma_accept(s.id, &param), 0);
    const uint8_t *mad = hear_sidr(&s);
    assert_int_equal(mad[SIDR_STATUS], 0);
    assert_int_equal(get_be24(mad + SIDR_QPN), s.id->qp->qp_num);
    assert_int_equal(get_be32(mad + SIDR_QKEY), 0x01234567); // of RDMA_PS_UDP
    service_close(&s);
}

static void a_service_of_datagrams_that_is_not_there(void **state)
{
    struct server s = {.port = 1};
    sidr_begin(&s);
    say_mad();
    assert_int_equal(hear_sidr(&s)[SIDR_STATUS], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_reaches_the_program),
        cmocka_unit_test(a_reply_has_the_fields_of_the_figure),
        cmocka_unit_test(an_rtu_establishes),
        cmocka_unit_test(a_request_again_is_answered_again),
        cmocka_unit_test(data_stand_for_an_rtu),
        cmocka_unit_test(a_dreq_is_answered_and_told),
        cmocka_unit_test(a_dreq_for_another_queue_pair_ends_nothing),
        cmocka_unit_test(a_dreq_of_another_peer_ends_nothing),
        cmocka_unit_test(weft_ends_by_a_dreq),
        cmocka_unit_test(who_hears_no_drep_is_done_too),
        cmocka_unit_test(who_hears_no_rtu_gives_up),
        cmocka_unit_test(a_dreq_of_nobody_is_answered),
        cmocka_unit_test(a_program_rejects_with_private_data),
        cmocka_unit_test(a_request_that_cannot_be_is_rejected_with_its_reason),
        cmocka_unit_test(a_stale_connection_ends),
        cmocka_unit_test(a_reply_that_nobody_waits_for_is_rejected),
        cmocka_unit_test(other_mads_are_dropped),
        cmocka_unit_test(a_service_of_datagrams_is_found),
        cmocka_unit_test(a_service_of_datagrams_that_is_not_there),
    };
    setenv("WEFT_WIRE", "roce", 1);
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
