// An initiator of iSCSI over one-shot RDMA, octet by octet, for tests: it says what the test tells
// it to, right or wrong. docs/iscsi.md has what is right.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <sys/uio.h>

#include <weft/oneshot.h>

#include "base/bytes.h"
#include "format/iscsi_pdu.h"
#include "tests/node/rdma_node.h"

enum {
    INITIATOR_DATA_LEN = 1 << 20,
    INITIATOR_PDU_LEN = 12 << 10,
    INITIATOR_PDU_COUNT = 128, // that may be on their way
    INITIATOR_PDUS_LEN = INITIATOR_PDU_COUNT * INITIATOR_PDU_LEN,
    INITIATOR_RECEIVE_COUNT = 128,
    INITIATOR_RECEIVE_LEN = ISCSI_HEADER_LEN + 8192,
    INITIATOR_SEND = INITIATOR_RECEIVE_COUNT, // wr_id
    BLOCK = 512,
};

static inline void iscsi_node_start(struct node *node, const char *volume, const char *option)
{
    node_spawn(node, "--iscsi-rdma=127.0.0.1:0", "iscsi+rdma://127.0.0.1:", volume, option);
}

struct initiator {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_cq *cq;
    uint8_t *memory; // PDUs, answers
    uint8_t *pdu;    // the one in the making
    struct ibv_mr *mr;
    uint8_t *data;     // that it lends; not registered
    bool is_in_header; // the STag, by agreement
    uint32_t itt, cmdsn;
    bool is_lost;
    struct ibv_wc wc; // of the last answer
};

/* ---- a connection ---------------------------------------------------------------------------- */

static inline enum rdma_cm_event_type initiator_event(struct initiator *host)
{
    struct rdma_cm_event *event;
    assert_int_equal(rdma_get_cm_event(host->channel, &event), 0);
    enum rdma_cm_event_type type = event->event;
    rdma_ack_cm_event(event);
    return type;
}

static inline uint8_t *initiator_answer_at(const struct initiator *host, uint64_t index)
{
    return host->memory + INITIATOR_PDUS_LEN + index * INITIATOR_RECEIVE_LEN;
}

static inline void initiator_receive(struct initiator *host, uint64_t index)
{
    struct ibv_sge sge = {.addr = (uintptr_t)initiator_answer_at(host, index),
                          .length = INITIATOR_RECEIVE_LEN,
                          .lkey = host->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_recv(host->id->qp, &wr, &bad), 0);
}

static inline void initiator_prepare(struct initiator *host)
{
    size_t len = INITIATOR_PDUS_LEN + (size_t)INITIATOR_RECEIVE_COUNT * INITIATOR_RECEIVE_LEN;
    host->cq = ibv_create_cq(host->id->verbs, 512, NULL, NULL, 0);
    assert_non_null(host->cq);
    struct ibv_qp_init_attr attr = {.send_cq = host->cq,
                                    .recv_cq = host->cq,
                                    .cap = {.max_send_wr = 256,
                                            .max_recv_wr = INITIATOR_RECEIVE_COUNT,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1},
                                    .qp_type = IBV_QPT_RC};
    assert_int_equal(rdma_create_qp(host->id, NULL, &attr), 0);
    host->memory = calloc(1, len);
    host->data = calloc(1, INITIATOR_DATA_LEN);
    host->mr = ibv_reg_mr(host->id->pd, host->memory, len, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(host->mr);
    const struct weft_oneshot_attr oneshot = {.max_commands = 128,
                                              .max_memory = 16,
                                              .request = {ISCSI_OFF_ITT, 4, WEFT_ONESHOT_PRESENT},
                                              .answer = {ISCSI_OFF_ITT, 4, WEFT_ONESHOT_PRESENT},
                                              .stag_offset = ISCSI_HEADER_LEN};
    assert_int_equal(weft_oneshot_create(host->id->qp, &oneshot), 0);
    for (uint64_t i = 0; i < INITIATOR_RECEIVE_COUNT; i++) {
        initiator_receive(host, i);
    }
}

// RDMA Reads that it answers at a time. False: it was rejected.
static inline bool initiator_meet_with(struct initiator *host, uint16_t port, uint8_t reads)
{
    struct sockaddr_in addr = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *host = (struct initiator){.channel = rdma_create_event_channel(), .cmdsn = 1};
    assert_int_equal(rdma_create_id(host->channel, &host->id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(host->id, NULL, (struct sockaddr *)&addr, 5000), 0);
    assert_int_equal(initiator_event(host), RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(host->id, 5000), 0);
    assert_int_equal(initiator_event(host), RDMA_CM_EVENT_ROUTE_RESOLVED);
    initiator_prepare(host);
    struct rdma_conn_param param = {
        .responder_resources = reads, .retry_count = 7, .rnr_retry_count = 7};
    assert_int_equal(rdma_connect(host->id, &param), 0);
    enum rdma_cm_event_type type = initiator_event(host);
    assert_true(type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED);
    if (type == RDMA_CM_EVENT_ESTABLISHED) {
        host->is_in_header = (weft_oneshot_agreed(host->id->qp) & WEFT_ONESHOT_ADVERTISE) != 0;
    }
    return type == RDMA_CM_EVENT_ESTABLISHED;
}

static inline void initiator_meet(struct initiator *host, const struct node *node)
{
    assert_true(initiator_meet_with(host, node->port, 16));
}

static inline void initiator_leave(struct initiator *host)
{
    rdma_destroy_qp(host->id);
    ibv_dereg_mr(host->mr);
    ibv_destroy_cq(host->cq);
    rdma_destroy_id(host->id);
    rdma_destroy_event_channel(host->channel);
    free(host->memory);
    free(host->data);
}

/* ---- PDUs ------------------------------------------------------------------------------------ */

// A PDU in the making, in a place of its own.
static inline uint8_t *initiator_pdu(struct initiator *host, uint8_t opcode, uint8_t flags)
{
    uint8_t *pdu = host->memory + (size_t)(++host->itt % INITIATOR_PDU_COUNT) * INITIATOR_PDU_LEN;
    host->pdu = pdu;
    memset(pdu, 0, ISCSI_HEADER_LEN);
    pdu[ISCSI_OFF_OPCODE] = opcode;
    pdu[ISCSI_OFF_FLAGS] = flags;
    put_be32(pdu + ISCSI_OFF_ITT, host->itt);
    put_be32(pdu + ISCSI_OFF_CMDSN, host->cmdsn);
    host->cmdsn += (opcode & ISCSI_IMMEDIATE) == 0;
    return pdu;
}

// With `len` octets of data behind the header.
static inline uint32_t initiator_data(struct initiator *host, const void *data, uint32_t len)
{
    uint8_t *pdu = host->pdu;
    memset(pdu + ISCSI_HEADER_LEN, 0, len + ISCSI_PAD);
    memcpy(pdu + ISCSI_HEADER_LEN, data, len);
    put_be24(pdu + ISCSI_OFF_DATA_LEN, len);
    return ISCSI_HEADER_LEN + len + iscsi_pad_of(len);
}

static inline void initiator_send(struct initiator *host, uint32_t len)
{
    struct ibv_sge sge = {.addr = (uintptr_t)host->pdu, .length = len, .lkey = host->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = INITIATOR_SEND,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    assert_int_equal(ibv_post_send(host->id->qp, &wr, &bad), 0);
}

// The next answer; NULL: the connection is gone.
static inline const uint8_t *initiator_wait(struct initiator *host)
{
    time_t limit = time(NULL) + HOST_LIMIT_S;
    while (!host->is_lost) {
        struct ibv_wc wc;
        int count = ibv_poll_cq(host->cq, 1, &wc);
        assert_true(count >= 0);
        if (count == 0) {
            assert_true(time(NULL) <= limit);
            usleep(100);
        } else if (wc.status != IBV_WC_SUCCESS) {
            host->is_lost = true;
        } else if (wc.wr_id != INITIATOR_SEND) {
            static uint8_t answer[INITIATOR_RECEIVE_LEN];
            memcpy(answer, initiator_answer_at(host, wc.wr_id), wc.byte_len);
            host->wc = wc;
            initiator_receive(host, wc.wr_id);
            return answer;
        }
    }
    return NULL;
}

static inline const uint8_t *initiator_expect(struct initiator *host, enum iscsi_opcode opcode)
{
    const uint8_t *answer = initiator_wait(host);
    assert_non_null(answer);
    assert_int_equal(answer[ISCSI_OFF_OPCODE] & ISCSI_OPCODE_MASK, opcode);
    uint32_t data_len = get_be24(answer + ISCSI_OFF_DATA_LEN);
    assert_int_equal(host->wc.byte_len, ISCSI_HEADER_LEN + data_len + iscsi_pad_of(data_len));
    return answer;
}

/* ---- login ----------------------------------------------------------------------------------- */

enum { LOGIN_FLAGS = 0x87 }; // from the operational stage into the full feature phase

// `keys`: KEY=VALUE, with spaces between. The text of a login, and its length.
static inline uint32_t login_text(const char *target, const char *keys, char *ret, size_t capacity)
{
    int len = snprintf(ret, capacity, "InitiatorName=iqn.2026-11.test:a %s%s %s ",
                       target != NULL ? "TargetName=" : "SessionType=Discovery",
                       target != NULL ? target : "", keys);
    for (int i = 0; i < len; i++) {
        ret[i] = ret[i] == ' ' ? '\0' : ret[i];
    }
    return (uint32_t)len;
}

static inline void login_send(struct initiator *host, const char *target, const char *keys)
{
    char text[4096];
    uint32_t len = login_text(target, keys, text, sizeof text);
    initiator_pdu(host, ISCSI_LOGIN_REQUEST | ISCSI_IMMEDIATE, LOGIN_FLAGS);
    host->pdu[ISCSI_LOGIN_OFF_ISID] = 0x80;
    put_be16(host->pdu + ISCSI_LOGIN_OFF_ISID + 4, (uint16_t)(uintptr_t)host->id);
    put_be32(host->pdu + ISCSI_OFF_EXPSTATSN, 1);
    initiator_send(host, initiator_data(host, text, len));
}

#define KEY_ONESHOT "X-invalid.weft.oneshot=Yes"

// The status.
static inline uint16_t initiator_login(struct initiator *host, const char *target, const char *keys)
{
    login_send(host, target, keys);
    return get_be16(initiator_expect(host, ISCSI_LOGIN_RESPONSE) + ISCSI_LOGIN_OFF_STATUS);
}

/* ---- commands -------------------------------------------------------------------------------- */

// READ or WRITE of `len` octets.
static inline void initiator_io(struct initiator *host, bool is_write, uint32_t block, uint32_t len)
{
    uint8_t flags = is_write ? ISCSI_CMD_WRITE : ISCSI_CMD_READ;
    uint8_t *pdu = initiator_pdu(host, ISCSI_SCSI_COMMAND, ISCSI_FINAL | flags);
    put_be32(pdu + ISCSI_CMD_OFF_EXPECTED_LEN, len);
    pdu[ISCSI_CMD_OFF_CDB] = is_write ? 0x2a : 0x28;
    put_be32(pdu + ISCSI_CMD_OFF_CDB + 2, block);
    put_be16(pdu + ISCSI_CMD_OFF_CDB + 7, (uint16_t)(len / BLOCK));
}

// Sends the PDU, and lends `len` octets of the data with it, from `offset` on. Its STag.
static inline uint32_t initiator_lend(struct initiator *host, size_t offset, size_t len,
                                      unsigned access)
{
    const struct iovec memory = {.iov_base = host->data + offset, .iov_len = len};
    struct weft_oneshot_wr wr = {.wr_id = INITIATOR_SEND,
                                 .access = access,
                                 .reference = get_be32(host->pdu + ISCSI_OFF_ITT),
                                 .memory = &memory,
                                 .memory_count = 1,
                                 .body = {.addr = (uintptr_t)host->pdu,
                                          .length = ISCSI_HEADER_LEN + (host->is_in_header ? 0 : 4),
                                          .lkey = host->mr->lkey}};
    struct weft_oneshot_wr *bad;
    assert_int_equal(weft_oneshot_post(host->id->qp, &wr, &bad), 0);
    return wr.stag;
}

// Does I/O with the data, and gives its status.
static inline uint8_t initiator_do(struct initiator *host, bool is_write, uint32_t block,
                                   uint32_t len)
{
    uint32_t closed = 0;
    initiator_io(host, is_write, block, len);
    uint32_t stag =
        initiator_lend(host, 0, len, is_write ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
    const uint8_t *answer = initiator_expect(host, ISCSI_SCSI_RESPONSE);
    assert_int_equal(get_be32(answer + ISCSI_OFF_ITT), host->itt);
    assert_true(weft_wc_closed(&host->wc, &closed));
    assert_int_equal(closed, stag);
    return answer[ISCSI_RSP_OFF_STATUS];
}

// TEST UNIT READY: no data, nothing lent. Its status.
static inline uint8_t initiator_test(struct initiator *host)
{
    initiator_pdu(host, ISCSI_SCSI_COMMAND, ISCSI_FINAL);
    initiator_send(host, ISCSI_HEADER_LEN);
    return initiator_expect(host, ISCSI_SCSI_RESPONSE)[ISCSI_RSP_OFF_STATUS];
}

// Logs in, and hears what the unit has to tell.
static inline void session_begin(struct initiator *host, const struct node *node)
{
    initiator_meet(host, node);
    assert_int_equal(initiator_login(host, node->name, KEY_ONESHOT), ISCSI_LOGIN_OK);
    while (initiator_test(host) != 0) {
    }
}
