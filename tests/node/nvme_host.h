// A host of NVMe over RDMA, octet by octet, for tests: it says what the test tells it to, right or
// wrong.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include <weft/oneshot.h>

#include "base/bytes.h"
#include "format/nvme_wire.h"
#include "tests/node/rdma_node.h"

enum {
    HOST_DATA_LEN = 1 << 20,
    HOST_CAPSULE_LEN = 16 << 10,
    HOST_RECEIVE_COUNT = 64,
};

static inline void node_start_with(struct node *node, const char *volume, const char *option)
{
    node_spawn(node, "--nvme-rdma=127.0.0.1:0", "nvme+rdma://127.0.0.1:", volume, option);
}

static inline void node_start(struct node *node, const char *volume)
{
    node_start_with(node, volume, NULL);
}

/* ---- a connection ---------------------------------------------------------------------------- */

struct host {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_cq *cq;
    uint8_t *memory; // capsule, answers, data
    struct ibv_mr *mr;
    uint8_t *data;
    struct weft_oneshot_calls oneshot;
    uint16_t cid;
    bool is_lost;
    struct ibv_wc answer_wc;
};

// What a connection request says, besides the private data.
struct host_request {
    uint8_t private_data[NVME_RDMA_REQUEST_LEN];
    uint8_t private_data_len;
    uint8_t responder_resources; // RDMA Reads that it will answer at a time
};

static inline struct host_request host_request(uint16_t qid, uint16_t command_count)
{
    struct host_request request = {.private_data_len = NVME_RDMA_REQUEST_LEN,
                                   .responder_resources = 16};
    put_le16(request.private_data + NVME_RDMA_REQUEST_OFF_QID, qid);
    put_le16(request.private_data + NVME_RDMA_REQUEST_OFF_HRQSIZE, command_count);
    put_le16(request.private_data + NVME_RDMA_REQUEST_OFF_HSQSIZE, (uint16_t)(command_count - 1));
    return request;
}

static inline enum rdma_cm_event_type host_event(struct host *host, uint16_t *ret_reject)
{
    struct rdma_cm_event *event;
    assert_int_equal(rdma_get_cm_event(host->channel, &event), 0);
    enum rdma_cm_event_type type = event->event;
    const struct rdma_conn_param *param = &event->param.conn;
    if (type == RDMA_CM_EVENT_REJECTED && param->private_data_len >= NVME_RDMA_REJECT_LEN) {
        *ret_reject = get_le16((const uint8_t *)param->private_data + NVME_RDMA_REJECT_OFF_STATUS);
    }
    rdma_ack_cm_event(event);
    return type;
}

static inline uint8_t *host_answer_at(const struct host *host, unsigned index)
{
    return host->memory + HOST_CAPSULE_LEN + index * 64;
}

static inline void host_receive(struct host *host, unsigned index)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)host_answer_at(host, index), .length = 64, .lkey = host->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_recv(host->id->qp, &wr, &bad), 0);
}

static inline void host_prepare(struct host *host)
{
    size_t len = HOST_CAPSULE_LEN + HOST_RECEIVE_COUNT * 64 + HOST_DATA_LEN;
    host->cq = ibv_create_cq(host->id->verbs, 512, NULL, NULL, 0);
    assert_non_null(host->cq);
    struct ibv_qp_init_attr attr = {.send_cq = host->cq,
                                    .recv_cq = host->cq,
                                    .cap = {.max_send_wr = 256,
                                            .max_recv_wr = HOST_RECEIVE_COUNT,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1},
                                    .qp_type = IBV_QPT_RC};
    assert_int_equal(rdma_create_qp(host->id, NULL, &attr), 0);
    host->memory = calloc(1, len);
    host->mr =
        ibv_reg_mr(host->id->pd, host->memory, len,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(host->mr);
    host->data = host_answer_at(host, HOST_RECEIVE_COUNT);
    if (weft_oneshot_find(&host->oneshot)) {
        const struct weft_oneshot_attr oneshot = {
            .max_commands = 16,
            .max_memory = 16,
            .request = {NVME_SQE_OFF_CID, 2, WEFT_ONESHOT_LITTLE_ENDIAN | WEFT_ONESHOT_PRESENT},
            .answer = {NVME_CQE_OFF_CID, 2, WEFT_ONESHOT_LITTLE_ENDIAN | WEFT_ONESHOT_PRESENT},
            .stag_offset = WEFT_ONESHOT_NOWHERE};
        const int error = host->oneshot.create(host->id->qp, &oneshot);
        assert_true(error == 0 || error == EOPNOTSUPP);
    }
    for (unsigned i = 0; i < HOST_RECEIVE_COUNT; i++) {
        host_receive(host, i);
    }
}

// 0: connected; else the status of the rejection.
static inline uint16_t host_meet(struct host *host, uint16_t port,
                                 const struct host_request *request)
{
    struct sockaddr_in addr = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint16_t rejected = 0;
    *host = (struct host){.channel = rdma_create_event_channel()};
    assert_int_equal(rdma_create_id(host->channel, &host->id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(host->id, NULL, (struct sockaddr *)&addr, 5000), 0);
    assert_int_equal(host_event(host, &rejected), RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(host->id, 5000), 0);
    assert_int_equal(host_event(host, &rejected), RDMA_CM_EVENT_ROUTE_RESOLVED);
    host_prepare(host);
    struct rdma_conn_param param = {.private_data = request->private_data,
                                    .private_data_len = request->private_data_len,
                                    .responder_resources = request->responder_resources,
                                    .retry_count = 7,
                                    .rnr_retry_count = 7};
    assert_int_equal(rdma_connect(host->id, &param), 0);
    enum rdma_cm_event_type type = host_event(host, &rejected);
    assert_true(type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED);
    assert_true(type == RDMA_CM_EVENT_ESTABLISHED || rejected != 0);
    return rejected;
}

static inline void host_leave(struct host *host)
{
    rdma_destroy_qp(host->id);
    ibv_dereg_mr(host->mr);
    ibv_destroy_cq(host->cq);
    rdma_destroy_id(host->id);
    rdma_destroy_event_channel(host->channel);
    free(host->memory);
}

/* ---- commands -------------------------------------------------------------------------------- */

// A capsule in the making, at the front of the memory: an SQE with a CID of its own.
static inline uint8_t *host_sqe(struct host *host, uint8_t opcode)
{
    uint8_t *sqe = host->memory;
    memset(sqe, 0, NVME_SQE_LEN);
    sqe[NVME_SQE_OFF_OPCODE] = opcode;
    sqe[NVME_SQE_OFF_FLAGS] = NVME_SQE_PSDT_SGL;
    put_le16(sqe + NVME_SQE_OFF_CID, ++host->cid);
    sqe[NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_ID] = NVME_SGL_KEYED;
    return sqe;
}

static inline void sqe_keyed(uint8_t *sqe, uint64_t address, uint32_t len, uint32_t key)
{
    uint8_t *sgl = sqe + NVME_SQE_OFF_SGL1;
    put_le64(sgl + NVME_SGL_OFF_ADDRESS, address);
    put_le32(sgl + NVME_SGL_OFF_LENGTH, len); // three octets; the key overwrites the fourth
    put_le32(sgl + NVME_SGL_OFF_KEY, key);
    sgl[NVME_SGL_OFF_ID] = NVME_SGL_KEYED;
}

static inline void sqe_in_capsule(uint8_t *sqe, uint64_t offset, uint32_t len)
{
    uint8_t *sgl = sqe + NVME_SQE_OFF_SGL1;
    put_le64(sgl + NVME_SGL_OFF_ADDRESS, offset);
    put_le32(sgl + NVME_SGL_OFF_LENGTH, len);
    put_le32(sgl + NVME_SGL_OFF_LENGTH + 4, 0);
    sgl[NVME_SGL_OFF_ID] = NVME_SGL_IN_CAPSULE;
}

// Read or Write of `len` octets, with all of it in host->data.
static inline uint8_t *host_io(struct host *host, uint8_t opcode, uint64_t block, uint32_t len)
{
    uint8_t *sqe = host_sqe(host, opcode);
    put_le32(sqe + NVME_SQE_OFF_NSID, 1);
    put_le64(sqe + NVME_RW_OFF_SLBA, block);
    put_le16(sqe + NVME_RW_OFF_NLB, (uint16_t)(len / 512 - 1));
    sqe_keyed(sqe, (uintptr_t)host->data, len, host->mr->rkey);
    return sqe;
}

static inline void host_send(struct host *host, uint32_t len)
{
    struct ibv_sge sge = {.addr = (uintptr_t)host->memory, .length = len, .lkey = host->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = HOST_RECEIVE_COUNT,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    assert_int_equal(ibv_post_send(host->id->qp, &wr, &bad), 0);
}

// One completion: of a receive, or a Send that has left. False: the connection is lost.
static inline bool host_wait(struct host *host)
{
    time_t limit = time(NULL) + HOST_LIMIT_S;
    int got;
    while ((got = ibv_poll_cq(host->cq, 1, &host->answer_wc)) == 0) {
        if (time(NULL) > limit) {
            fail_msg("no answer");
        }
    }
    assert_int_equal(got, 1);
    host->is_lost |= host->answer_wc.status != IBV_WC_SUCCESS;
    return !host->is_lost;
}

// The next response, copied; its receive is posted again. False: the connection is lost.
static inline bool host_answer(struct host *host, uint8_t ret[NVME_CQE_LEN])
{
    do {
        if (!host_wait(host)) {
            return false;
        }
    } while (host->answer_wc.opcode != IBV_WC_RECV);
    assert_int_equal(host->answer_wc.byte_len, NVME_CQE_LEN);
    memcpy(ret, host_answer_at(host, (unsigned)host->answer_wc.wr_id), NVME_CQE_LEN);
    host_receive(host, (unsigned)host->answer_wc.wr_id);
    return true;
}

static inline uint16_t cqe_status(const uint8_t *cqe)
{
    return (uint16_t)(get_le16(cqe + NVME_CQE_OFF_STATUS) >> NVME_CQE_STATUS_SHIFT &
                      ~(NVME_STATUS_DNR | NVME_STATUS_MORE));
}

// Sends the capsule and waits for its response: the status.
static inline uint16_t host_run(struct host *host, uint32_t capsule_len, uint8_t *ret_cqe)
{
    uint8_t cqe[NVME_CQE_LEN];
    host_send(host, capsule_len);
    if (!host_answer(host, cqe)) {
        fail_msg("the connection is lost: %s", ibv_wc_status_str(host->answer_wc.status));
    }
    assert_int_equal(get_le16(cqe + NVME_CQE_OFF_CID), host->cid);
    if (ret_cqe != NULL) {
        memcpy(ret_cqe, cqe, NVME_CQE_LEN);
    }
    return cqe_status(cqe);
}

/* ---- sessions -------------------------------------------------------------------------------- */

// A Connect in the making.
static inline void host_connect_fill(struct host *host, const char *nqn, uint16_t qid,
                                     uint16_t sqsize, uint16_t cntlid)
{
    uint8_t *sqe = host_sqe(host, NVME_FABRICS);
    sqe[NVME_SQE_OFF_FCTYPE] = NVME_FCTYPE_CONNECT;
    put_le16(sqe + NVME_CONNECT_OFF_QID, qid);
    put_le16(sqe + NVME_CONNECT_OFF_SQSIZE, sqsize);
    put_le32(sqe + NVME_CONNECT_OFF_KATO, qid == 0 ? 120000 : 0);
    sqe_keyed(sqe, (uintptr_t)host->data, NVME_CONNECT_DATA_LEN, host->mr->rkey);
    memset(host->data, 0, NVME_CONNECT_DATA_LEN);
    memset(host->data + NVME_CONNECT_DATA_OFF_HOSTID, 7, NVME_HOSTID_LEN);
    put_le16(host->data + NVME_CONNECT_DATA_OFF_CNTLID, cntlid);
    snprintf((char *)host->data + NVME_CONNECT_DATA_OFF_SUBNQN, NVME_NQN_LEN, "%s", nqn);
    snprintf((char *)host->data + NVME_CONNECT_DATA_OFF_HOSTNQN, NVME_NQN_LEN,
             "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000007");
}

static inline uint16_t host_connect(struct host *host, const char *nqn, uint16_t qid,
                                    uint16_t sqsize, uint16_t cntlid)
{
    uint8_t cqe[NVME_CQE_LEN];
    host_connect_fill(host, nqn, qid, sqsize, cntlid);
    assert_int_equal(host_run(host, NVME_SQE_LEN, cqe), NVME_OK);
    return get_le16(cqe + NVME_CQE_OFF_RESULT);
}

static inline void host_enable(struct host *host)
{
    uint8_t cqe[NVME_CQE_LEN];
    uint8_t *sqe = host_sqe(host, NVME_FABRICS);
    sqe[NVME_SQE_OFF_FCTYPE] = NVME_FCTYPE_PROPERTY_SET;
    put_le32(sqe + NVME_PROPERTY_OFF_OFFSET, NVME_PROPERTY_CC);
    put_le64(sqe + NVME_PROPERTY_OFF_VALUE, NVME_CC_EN | NVME_SQE_LEN_LOG2 << NVME_CC_IOSQES_SHIFT |
                                                NVME_CQE_LEN_LOG2 << NVME_CC_IOCQES_SHIFT);
    assert_int_equal(host_run(host, NVME_SQE_LEN, NULL), NVME_OK);
    sqe = host_sqe(host, NVME_FABRICS);
    sqe[NVME_SQE_OFF_FCTYPE] = NVME_FCTYPE_PROPERTY_GET;
    put_le32(sqe + NVME_PROPERTY_OFF_OFFSET, NVME_PROPERTY_CSTS);
    assert_int_equal(host_run(host, NVME_SQE_LEN, cqe), NVME_OK);
    assert_true((get_le32(cqe + NVME_CQE_OFF_RESULT) & NVME_CSTS_RDY) != 0);
    sqe = host_sqe(host, NVME_ADMIN_SET_FEATURES);
    put_le32(sqe + NVME_SQE_OFF_CDW10, NVME_FEATURE_NUMBER_OF_QUEUES);
    put_le32(sqe + NVME_SQE_OFF_CDW11, 0x00030003);
    assert_int_equal(host_run(host, NVME_SQE_LEN, NULL), NVME_OK);
}

struct session {
    struct host admin, io;
};

static inline void session_begin(struct session *session, const struct node *node,
                                 uint16_t command_count)
{
    struct host_request request = host_request(0, 32);
    assert_int_equal(host_meet(&session->admin, node->port, &request), 0);
    uint16_t cntlid = host_connect(&session->admin, node->name, 0, 31, NVME_CNTLID_DYNAMIC);
    host_enable(&session->admin);
    request = host_request(1, command_count);
    assert_int_equal(host_meet(&session->io, node->port, &request), 0);
    host_connect(&session->io, node->name, 1, (uint16_t)(command_count - 1), cntlid);
}

static inline void session_end(struct session *session)
{
    host_leave(&session->io);
    host_leave(&session->admin);
}
