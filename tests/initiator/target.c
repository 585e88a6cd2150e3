#include "tests/initiator/target.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/oneshot.h>

#include "base/bytes.h"
#include "base/check.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"

enum {
    QUEUE_MAX = 128, // connections in all
    DEPTH = 33,      // commands of a queue at a time, at most
    CAPSULE_LEN = NVME_SQE_LEN + TARGET_IN_CAPSULE_LEN,
    SCRATCH_LEN = 4096,
    CONTROLLER = 7,
    REJECT_MAX = 4,
    MOVE_TRIES = 20000, // of a millisecond each
};

struct target_queue {
    struct rdma_cm_id *id;
    uint16_t number;
    bool is_gone;
    uint8_t *memory; // capsules, then an answer, then scratch
    struct ibv_mr *mr;
    struct ibv_mr *disk_mr;
    struct ibv_cq *recv_cq, *send_cq;
};

struct target {
    struct target_wish wish;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;
    struct weft_oneshot_calls oneshot;
    char port[8];
    uint8_t *disk;
    struct target_queue queues[QUEUE_MAX];
    unsigned queue_count;
    bool is_discovery; // the last controller that connected
    uint64_t log_generation;
    uint32_t cc;
    struct target_counters counters;
    struct target_seen seen[TARGET_SEEN_MAX];
    pthread_t thread;
    atomic_bool is_stopping;
};

// A command, where its data are, and its answer.
struct command {
    const uint8_t *sqe;
    uint32_t capsule_len;
    bool is_advertised;
    uint32_t stag;
    uint64_t remote;
    uint32_t len;
    uint64_t result;
    uint16_t status;
};

/* ---- moving data ----------------------------------------------------------------------------- */

static uint8_t *answer_of(const struct target_queue *q)
{
    return q->memory + (size_t)DEPTH * CAPSULE_LEN;
}

static uint8_t *scratch_of(const struct target_queue *q)
{
    return answer_of(q) + NVME_SQE_LEN;
}

static void receive_post(struct target_queue *q, unsigned index)
{
    struct ibv_sge sge = {.addr = (uintptr_t)(q->memory + (size_t)index * CAPSULE_LEN),
                          .length = CAPSULE_LEN,
                          .lkey = q->mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1};
    ibv_post_recv(q->id->qp, &wr, &bad);
}

// Waits for a signalled work request.
static bool is_done(struct target *t, struct target_queue *q)
{
    struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
    for (unsigned i = 0; i < MOVE_TRIES && !atomic_load(&t->is_stopping); i++) {
        if (ibv_poll_cq(q->send_cq, 1, &wc) != 0) {
            return wc.status == IBV_WC_SUCCESS;
        }
        poll(NULL, 0, i > 100);
    }
    return false;
}

// Between the disk or the scratch, and the command's memory.
static void move(struct target *t, struct target_queue *q, struct command *c,
                 enum ibv_wr_opcode opcode, uint8_t *at, uint32_t len)
{
    bool is_disk = at >= t->disk && at < t->disk + TARGET_DISK_LEN;
    struct ibv_sge sge = {
        .addr = (uintptr_t)at, .length = len, .lkey = is_disk ? q->disk_mr->lkey : q->mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = opcode,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.rdma = {.remote_addr = c->remote, .rkey = c->stag}};
    if (len > c->len) {
        c->status = NVME_INVALID_SGL_LENGTH;
    } else if (ibv_post_send(q->id->qp, &wr, &bad) != 0 || !is_done(t, q)) {
        c->status = NVME_DATA_TRANSFER_ERROR;
    }
}

// The command's data to the host; `at` is the disk or the scratch.
static void put(struct target *t, struct target_queue *q, struct command *c, uint8_t *at,
                uint32_t len)
{
    move(t, q, c, IBV_WR_RDMA_WRITE, at, len);
}

// The command's data from the host, or from its capsule.
static void get(struct target *t, struct target_queue *q, struct command *c, uint8_t *at,
                uint32_t len)
{
    if (c->sqe[NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_ID] != NVME_SGL_IN_CAPSULE) {
        move(t, q, c, IBV_WR_RDMA_READ, at, len);
    } else if (len > c->capsule_len - NVME_SQE_LEN) {
        c->status = NVME_INVALID_SGL_LENGTH;
    } else {
        memcpy(at, c->sqe + NVME_SQE_LEN, len);
        t->counters.in_capsules++;
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer_send(struct target_queue *q, uint32_t len)
{
    struct ibv_sge sge = {.addr = (uintptr_t)answer_of(q), .length = len, .lkey = q->mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};
    ibv_post_send(q->id->qp, &wr, &bad);
}

static void answer_close(struct target *t, struct target_queue *q, uint32_t stag)
{
    const uint8_t *cqe = answer_of(q);
    struct weft_oneshot_close_wr *bad,
        wr = {.send_flags = IBV_SEND_INLINE,
              .stag = stag,
              .reference = get_le16(cqe + NVME_CQE_OFF_CID),
              .body = {.addr = (uintptr_t)cqe, .length = NVME_CQE_LEN}};
    t->oneshot.close(q->id->qp, &wr, &bad);
}

static void answer(struct target *t, struct target_queue *q, const struct command *c)
{
    uint8_t *cqe = answer_of(q);
    memset(cqe, 0, NVME_CQE_LEN);
    put_le64(cqe + NVME_CQE_OFF_RESULT, c->result);
    put_le16(cqe + NVME_CQE_OFF_CID, get_le16(c->sqe + NVME_SQE_OFF_CID));
    put_le16(cqe + NVME_CQE_OFF_STATUS, (uint16_t)(c->status << NVME_CQE_STATUS_SHIFT));
    if (c->is_advertised && !t->wish.leaves_open) {
        answer_close(t, q, c->stag);
    } else {
        answer_send(q, NVME_CQE_LEN);
    }
}

/* ---- admin commands -------------------------------------------------------------------------- */

// What a test wants otherwise.
static void edit(const struct target *t, enum target_page page, uint8_t *octets)
{
    for (unsigned i = 0; i < t->wish.edit_count; i++) {
        const struct target_edit *e = &t->wish.edits[i];
        if (e->page == page) {
            octets[e->offset] = e->value;
        }
    }
}

static struct target_seen *seen_of(struct target *t, unsigned queue)
{
    return &t->seen[queue < TARGET_SEEN_MAX ? queue : TARGET_SEEN_MAX - 1];
}

static void text_put(uint8_t *at, const char *text)
{
    memcpy(at, text, strlen(text));
}

static void admit(struct target *t, struct target_queue *q, struct command *c)
{
    get(t, q, c, scratch_of(q), NVME_CONNECT_DATA_LEN);
    const char *nqn = (const char *)scratch_of(q) + NVME_CONNECT_DATA_OFF_SUBNQN;
    struct target_seen *seen = seen_of(t, q->number);
    memcpy(seen->connect, c->sqe, sizeof seen->connect);
    memcpy(seen->connect_data, scratch_of(q), sizeof seen->connect_data);
    t->is_discovery = strcmp(nqn, NVME_DISCOVERY_NQN) == 0;
    t->counters.connects++;
    c->status = t->wish.connect_status;
    c->result = t->wish.connect_status != 0 || t->wish.connect_result != 0 ? t->wish.connect_result
                                                                           : CONTROLLER;
    if (q->number > 0 && t->wish.other_controller != 0) {
        c->result = t->wish.other_controller;
    }
    if (!t->is_discovery && strcmp(nqn, TARGET_NQN) != 0) {
        c->status = NVME_CONNECT_INVALID | NVME_STATUS_DNR;
        c->result = NVME_CONNECT_IN_DATA | NVME_CONNECT_DATA_OFF_SUBNQN;
    }
}

static void fabrics(struct target *t, struct target_queue *q, struct command *c)
{
    uint8_t type = c->sqe[NVME_SQE_OFF_FCTYPE];
    uint32_t property = get_le32(c->sqe + NVME_PROPERTY_OFF_OFFSET);
    if (type == NVME_FCTYPE_CONNECT) {
        admit(t, q, c);
    } else if (type == NVME_FCTYPE_PROPERTY_SET) {
        t->cc = get_le32(c->sqe + NVME_PROPERTY_OFF_VALUE);
        memcpy(t->seen[0].property, c->sqe, sizeof t->seen[0].property);
    } else if (property == NVME_PROPERTY_CAP) {
        c->result = 127 | NVME_CAP_CQR | UINT64_C(4) << NVME_CAP_TO_SHIFT | NVME_CAP_CSS_NVM;
        c->result = t->wish.capabilities != 0 ? t->wish.capabilities : c->result;
    } else if (property == NVME_PROPERTY_VS) {
        c->result = NVME_VERSION_1_4;
    } else if (property == NVME_PROPERTY_CSTS) {
        bool is_shut = (t->cc >> NVME_CC_SHN_SHIFT & 3) != 0;
        c->result = (t->cc & NVME_CC_EN) | (is_shut ? NVME_CSTS_SHST_DONE : 0);
        c->result = t->wish.status != 0 ? t->wish.status : c->result;
    }
}

static void controller_fill(const struct target *t, uint8_t *data)
{
    uint32_t capsule_len = t->wish.has_no_capsule_room ? NVME_SQE_LEN : CAPSULE_LEN;
    memset(data + NVME_CTRL_OFF_SN, ' ', NVME_CTRL_SN_LEN + NVME_CTRL_MN_LEN + NVME_CTRL_FR_LEN);
    text_put(data + NVME_CTRL_OFF_SN, "4711");
    text_put(data + NVME_CTRL_OFF_MN, "a\ttarget");
    text_put(data + NVME_CTRL_OFF_FR, "1");
    data[NVME_CTRL_OFF_MDTS] = 8;
    put_le16(data + NVME_CTRL_OFF_CNTLID, CONTROLLER + t->wish.misnames_itself);
    put_le16(data + NVME_CTRL_OFF_MAXCMD, 128);
    put_le32(data + NVME_CTRL_OFF_NN, 1);
    put_le16(data + NVME_CTRL_OFF_ONCS, NVME_ONCS_DSM | NVME_ONCS_WRITE_ZEROES);
    data[NVME_CTRL_OFF_VWC] = NVME_VWC_PRESENT;
    put_le32(data + NVME_CTRL_OFF_SGLS, NVME_SGLS_SUPPORTED | NVME_SGLS_KEYED | NVME_SGLS_OFFSET);
    put_le32(data + NVME_CTRL_OFF_IOCCSZ, capsule_len / 16);
    put_le32(data + NVME_CTRL_OFF_IORCSZ, 1);
    edit(t, TARGET_CONTROLLER, data);
}

static void namespace_fill(const struct target *t, uint8_t *data)
{
    put_le64(data + NVME_NS_OFF_NSZE, TARGET_DISK_LEN / TARGET_BLOCK_LEN);
    put_le64(data + NVME_NS_OFF_NCAP, TARGET_DISK_LEN / TARGET_BLOCK_LEN);
    data[NVME_NS_OFF_LBAF + NVME_NS_LBAF_OFF_LBADS] = 9;
    data[NVME_NS_OFF_NSATTR] = t->wish.is_read_only ? NVME_NSATTR_WRITE_PROTECTED : 0;
    edit(t, TARGET_NAMESPACE, data);
}

static void identify(struct target *t, struct target_queue *q, struct command *c)
{
    uint8_t *data = scratch_of(q);
    uint32_t nsid = get_le32(c->sqe + NVME_SQE_OFF_NSID);
    memset(data, 0, NVME_IDENTIFY_LEN);
    switch (c->sqe[NVME_IDENTIFY_OFF_CNS]) {
    case NVME_CNS_CONTROLLER:
        controller_fill(t, data);
        break;
    case NVME_CNS_NAMESPACE:
        t->counters.identifies++;
        if (nsid == 1) {
            namespace_fill(t, data);
        }
        break;
    case NVME_CNS_NAMESPACE_LIST:
        put_le32(data, nsid < 1 ? (t->wish.lists_backwards ? 3 : 1) : 0);
        put_le32(data + 4, t->wish.lists_backwards ? 2 : 0);
        break;
    case NVME_CNS_NAMESPACE_DESCRIPTORS:
        data[NVME_DESCRIPTOR_OFF_NIDT] = NVME_NIDT_UUID;
        data[NVME_DESCRIPTOR_OFF_NIDL] = 16;
        memset(data + NVME_DESCRIPTOR_OFF_NID, 0x44, 16);
        edit(t, TARGET_DESCRIPTORS, data);
        break;
    default:
        c->status = NVME_INVALID_FIELD | NVME_STATUS_DNR;
        return;
    }
    put(t, q, c, data, NVME_IDENTIFY_LEN);
}

static void discovery_log(struct target *t, struct target_queue *q, struct command *c)
{
    uint8_t *data = scratch_of(q);
    uint64_t at = get_le64(c->sqe + NVME_GET_LOG_OFF_LPO);
    memset(data, 0, NVME_ENTRY_LEN);
    c->status = t->wish.log_status;
    t->counters.logs++;
    t->log_generation += t->wish.restless_log && at == 0;
    if (at == 0) {
        put_le64(data + NVME_DISCOVERY_OFF_GENCTR, t->log_generation);
        put_le64(data + NVME_DISCOVERY_OFF_NUMREC, t->wish.log_len != 0 ? t->wish.log_len : 1);
        edit(t, TARGET_LOG_HEADER, data);
    } else {
        data[NVME_ENTRY_OFF_TRTYPE] = NVME_TRTYPE_RDMA;
        data[NVME_ENTRY_OFF_SUBTYPE] = NVME_SUBTYPE_NVM;
        text_put(data + NVME_ENTRY_OFF_TRSVCID, t->port);
        text_put(data + NVME_ENTRY_OFF_SUBNQN, TARGET_NQN);
        text_put(data + NVME_ENTRY_OFF_TRADDR, "127.0.0.1");
        edit(t, TARGET_LOG_ENTRY, data);
    }
    if (c->status == NVME_OK) {
        put(t, q, c, data, NVME_ENTRY_LEN);
    }
}

// False: there is no answer.
static bool admin(struct target *t, struct target_queue *q, struct command *c)
{
    switch (c->sqe[NVME_SQE_OFF_OPCODE]) {
    case NVME_FABRICS:
        fabrics(t, q, c);
        return true;
    case NVME_ADMIN_IDENTIFY:
        identify(t, q, c);
        return true;
    case NVME_ADMIN_GET_LOG_PAGE:
        discovery_log(t, q, c);
        return true;
    case NVME_ADMIN_SET_FEATURES:
        c->result = get_le32(c->sqe + NVME_SQE_OFF_CDW11);
        c->result = t->wish.granted != 0 ? t->wish.granted : c->result;
        memcpy(t->seen[0].features, c->sqe, sizeof t->seen[0].features);
        return true;
    case NVME_ADMIN_KEEP_ALIVE:
        t->counters.keep_alives++;
        return !t->wish.is_mute;
    default:
        c->status = NVME_INVALID_OPCODE | NVME_STATUS_DNR;
        return true;
    }
}

/* ---- I/O ------------------------------------------------------------------------------------- */

static void rw(struct target *t, struct target_queue *q, struct command *c, uint8_t opcode)
{
    uint64_t offset = get_le64(c->sqe + NVME_RW_OFF_SLBA) * TARGET_BLOCK_LEN;
    uint32_t len = (get_le16(c->sqe + NVME_RW_OFF_NLB) + 1u) * TARGET_BLOCK_LEN;
    t->counters.fuas += (get_le16(c->sqe + NVME_RW_OFF_CONTROL) & NVME_RW_FUA) != 0;
    if (offset > TARGET_DISK_LEN || len > TARGET_DISK_LEN - offset) {
        c->status = NVME_LBA_OUT_OF_RANGE | NVME_STATUS_DNR;
    } else if (opcode == NVME_IO_READ && t->wish.is_curious) {
        get(t, q, c, t->disk + offset, len);
    } else if (opcode == NVME_IO_READ) {
        put(t, q, c, t->disk + offset, len);
    } else if (opcode == NVME_IO_WRITE) {
        get(t, q, c, t->disk + offset, len);
    } else {
        memset(t->disk + offset, 0, len);
        t->counters.zeroes++;
    }
}

static void io(struct target *t, struct target_queue *q, struct command *c)
{
    uint8_t opcode = c->sqe[NVME_SQE_OFF_OPCODE];
    struct target_seen *seen = seen_of(t, q->number);
    memcpy(seen->io, c->sqe, sizeof seen->io);
    if (t->wish.io_status != 0) {
        c->status = t->wish.io_status;
    } else if (opcode == NVME_IO_FLUSH) {
        t->counters.flushes++;
    } else if (opcode == NVME_IO_DATASET_MANAGEMENT) {
        uint8_t *range = scratch_of(q);
        get(t, q, c, range, NVME_DSM_RANGE_LEN);
        memcpy(seen->range, range, sizeof seen->range);
        memset(t->disk + get_le64(range + NVME_DSM_RANGE_OFF_SLBA) * TARGET_BLOCK_LEN, 0,
               (size_t)get_le32(range + NVME_DSM_RANGE_OFF_NLB) * TARGET_BLOCK_LEN);
        t->counters.trims++;
    } else {
        rw(t, q, c, opcode);
    }
}

static void answer_strangely(struct target_queue *q, const struct command *c)
{
    uint8_t *cqe = answer_of(q);
    memset(cqe, 0, NVME_CQE_LEN);
    put_le16(cqe + NVME_CQE_OFF_CID, get_le16(c->sqe + NVME_SQE_OFF_CID) ^ 0x8000);
    answer_send(q, NVME_CQE_LEN);
}

/* ---- capsules -------------------------------------------------------------------------------- */

static void command_read(struct target *t, const struct ibv_wc *wc, const uint8_t *capsule,
                         struct command *ret)
{
    const uint8_t *sgl = capsule + NVME_SQE_OFF_SGL1;
    *ret = (struct command){.sqe = capsule,
                            .capsule_len = wc->byte_len,
                            .remote = get_le64(sgl + NVME_SGL_OFF_ADDRESS),
                            .len = get_le32(sgl + NVME_SGL_OFF_LENGTH) & 0xffffff,
                            .stag = get_le32(sgl + NVME_SGL_OFF_KEY)};
    uint32_t stag;
    if (!t->wish.has_no_oneshot && t->oneshot.wc_advertised(wc, &stag)) {
        ret->is_advertised = true;
        ret->stag = stag;
        t->counters.advertised++;
    }
}

static void on_capsule(struct target *t, struct target_queue *q, const struct ibv_wc *wc)
{
    struct command c;
    command_read(t, wc, q->memory + wc->wr_id * CAPSULE_LEN, &c);
    bool is_io = q->number > 0 && c.sqe[NVME_SQE_OFF_OPCODE] != NVME_FABRICS;
    bool has_answer = true;
    if (!is_io) {
        has_answer = admin(t, q, &c);
    } else if (t->wish.is_silent) {
        has_answer = false;
    } else if (++t->counters.io == t->wish.drops_after) {
        q->is_gone = true;
        rdma_disconnect(q->id);
        return;
    } else {
        io(t, q, &c);
    }
    uint8_t kept[NVME_SQE_LEN];
    memcpy(kept, c.sqe, sizeof kept); // the receive is posted before the host may send more
    c.sqe = kept;
    receive_post(q, (unsigned)wc->wr_id);
    if (has_answer && is_io && t->wish.answers_strangely) {
        answer_strangely(q, &c);
    } else if (has_answer) {
        answer(t, q, &c);
    }
}

/* ---- connections ----------------------------------------------------------------------------- */

static void oneshot_prepare(struct target *t, struct target_queue *q)
{
    const uint8_t flags = WEFT_ONESHOT_LITTLE_ENDIAN | WEFT_ONESHOT_PRESENT;
    const struct weft_oneshot_attr attr = {
        .max_commands = DEPTH,
        .max_memory = 1,
        .request = {.offset = NVME_SQE_OFF_CID, .length = 2, .flags = flags},
        .answer = {.offset = NVME_CQE_OFF_CID, .length = 2, .flags = flags},
        .stag_offset = WEFT_ONESHOT_NOWHERE,
    };
    const int error = t->oneshot.create(q->id->qp, &attr);
    CHECK(error == 0 || error == EOPNOTSUPP); // RoCE has none: then hosts ask for none
}

static void queue_open(struct target *t, struct target_queue *q)
{
    size_t len = (size_t)DEPTH * CAPSULE_LEN + NVME_SQE_LEN + SCRATCH_LEN;
    q->memory = calloc(1, len);
    q->recv_cq = ibv_create_cq(q->id->verbs, DEPTH + 1, NULL, NULL, 0);
    q->send_cq = ibv_create_cq(q->id->verbs, 4 * DEPTH, NULL, NULL, 0);
    struct ibv_qp_init_attr attr = {.recv_cq = q->recv_cq,
                                    .send_cq = q->send_cq,
                                    .cap = {.max_recv_wr = DEPTH,
                                            .max_send_wr = 2 * DEPTH,
                                            .max_recv_sge = 1,
                                            .max_send_sge = 1,
                                            .max_inline_data = NVME_CQE_LEN},
                                    .qp_type = IBV_QPT_RC};
    CHECK(rdma_create_qp(q->id, NULL, &attr) == 0);
    q->mr = ibv_reg_mr(q->id->pd, q->memory, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    q->disk_mr = ibv_reg_mr(q->id->pd, t->disk, TARGET_DISK_LEN,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(q->mr != NULL && q->disk_mr != NULL);
    if (!t->wish.has_no_oneshot) {
        oneshot_prepare(t, q);
    }
    for (unsigned i = 0; i < DEPTH; i++) {
        receive_post(q, i);
    }
}

static void queue_close(struct target_queue *q)
{
    rdma_disconnect(q->id);
    rdma_destroy_qp(q->id);
    ibv_dereg_mr(q->mr);
    ibv_dereg_mr(q->disk_mr);
    ibv_destroy_cq(q->recv_cq);
    ibv_destroy_cq(q->send_cq);
    rdma_destroy_id(q->id);
    free(q->memory);
}

static void on_request(struct target *t, struct rdma_cm_id *id, const struct rdma_conn_param *asked)
{
    uint8_t data[NVME_RDMA_ACCEPT_LEN] = {0};
    const uint8_t *wish = asked->private_data;
    if (t->wish.reject != 0) {
        put_le16(data + NVME_RDMA_REJECT_OFF_STATUS, t->wish.reject);
        rdma_reject(id, data, NVME_RDMA_REJECT_LEN);
        rdma_destroy_id(id);
        return;
    }
    struct target_queue *q = &t->queues[t->queue_count++];
    CHECK(t->queue_count < QUEUE_MAX);
    *q = (struct target_queue){.id = id, .number = get_le16(wish + NVME_RDMA_REQUEST_OFF_QID)};
    queue_open(t, q);
    memcpy(seen_of(t, q->number)->request, wish, NVME_RDMA_REQUEST_LEN);
    put_le16(data + NVME_RDMA_ACCEPT_OFF_CRQSIZE, DEPTH);
    edit(t, TARGET_ACCEPTANCE, data);
    struct rdma_conn_param param = {
        .private_data = data, .private_data_len = sizeof data, .initiator_depth = 16};
    CHECK(rdma_accept(id, &param) == 0);
}

static bool events_take(struct target *t)
{
    struct rdma_cm_event *event;
    if (rdma_get_cm_event(t->channel, &event) != 0) {
        return false;
    }
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        on_request(t, event->id, &event->param.conn);
    }
    for (unsigned i = 0; i < t->queue_count && event->event == RDMA_CM_EVENT_DISCONNECTED; i++) {
        t->queues[i].is_gone |= t->queues[i].id == event->id;
    }
    rdma_ack_cm_event(event);
    return true;
}

static void *run(void *arg)
{
    struct target *t = arg;
    while (!atomic_load(&t->is_stopping)) {
        bool is_idle = !events_take(t);
        for (unsigned i = 0; i < t->queue_count; i++) {
            struct target_queue *q = &t->queues[i];
            struct ibv_wc wc;
            if (!q->is_gone && ibv_poll_cq(q->recv_cq, 1, &wc) > 0) {
                is_idle = false;
                q->is_gone |= wc.status != IBV_WC_SUCCESS;
                if (!q->is_gone) {
                    on_capsule(t, q, &wc);
                }
            }
        }
        poll(NULL, 0, is_idle);
    }
    return NULL;
}

struct target *target_start(const struct target_wish *wish)
{
    struct target *t = calloc(1, sizeof *t);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htobe32(0x7f000001)};
    t->wish = *wish;
    t->disk = calloc(1, TARGET_DISK_LEN);
    t->channel = rdma_create_event_channel();
    CHECK(weft_oneshot_find(&t->oneshot));
    CHECK(fcntl(t->channel->fd, F_SETFL, O_NONBLOCK) == 0);
    CHECK(rdma_create_id(t->channel, &t->listener, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(t->listener, (struct sockaddr *)&address) == 0);
    CHECK(rdma_listen(t->listener, QUEUE_MAX) == 0);
    snprintf(t->port, sizeof t->port, "%u", be16toh(rdma_get_src_port(t->listener)));
    CHECK(pthread_create(&t->thread, NULL, run, t) == 0);
    return t;
}

void target_stop(struct target *t)
{
    atomic_store(&t->is_stopping, true);
    pthread_join(t->thread, NULL);
    for (unsigned i = 0; i < t->queue_count; i++) {
        queue_close(&t->queues[i]);
    }
    rdma_destroy_id(t->listener);
    rdma_destroy_event_channel(t->channel);
    free(t->disk);
    free(t);
}

const char *target_port(const struct target *t)
{
    return t->port;
}

uint8_t *target_disk(struct target *t)
{
    return t->disk;
}

const struct target_counters *target_counters(const struct target *t)
{
    return &t->counters;
}

const struct target_seen *target_seen(const struct target *t, unsigned queue)
{
    return &t->seen[queue];
}
