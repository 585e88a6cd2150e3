// Any octets as what hosts send to NVMe controllers: commands on an admin queue and on an I/O
// queue, once both are connected. Each step of the input: an octet with the queue in bit 0 and what
// is done to data in bit 1 (they fail), an octet with the length of in-capsule data (times 64), an
// SQE.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "tests/fuzz/nvme_node.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COMMAND_COUNT = 32, STEP_LEN = 2 + NVME_SQE_LEN, IN_CAPSULE_UNIT = 64 };

struct connection {
    struct nvme_queue *queue;
    uint8_t scratch[NVME_SCRATCH_LEN];
    uint8_t in_capsule[256 * IN_CAPSULE_UNIT];
    uint32_t in_capsule_len;
    uint16_t status;
    uint64_t result;
    unsigned answers, commands;
    bool fails, is_asked_to_close;
};

static bool is_in(const void *at, uint32_t len, const void *area, size_t area_len)
{
    const uint8_t *p = at, *a = area;
    return p >= a && p <= a + area_len && len <= (size_t)(a + area_len - p);
}

static void check_data(const struct connection *c, const struct nvme_command *command)
{
    CHECK(command->data_at <= command->sgl.len &&
          command->data_len <= command->sgl.len - command->data_at);
    CHECK(is_in(command->data, command->data_len, c->scratch, sizeof c->scratch) ||
          is_in(command->data, command->data_len, nvme_node_memory, sizeof nvme_node_memory));
}

static void answered(struct connection *c, struct nvme_command *command, enum nvme_status status)
{
    uint8_t cqe[NVME_CQE_LEN];
    nvme_command_cqe(command, cqe);
    c->status = (uint16_t)(get_le16(cqe + NVME_CQE_OFF_STATUS) >> NVME_CQE_STATUS_SHIFT);
    c->result = get_le64(cqe);
    c->answers++;
    nvme_command_done(command, status, 1);
}

static void on_fetch(void *ctx, struct nvme_command *command)
{
    struct connection *c = ctx;
    check_data(c, command);
    if (command->sgl.id == NVME_SGL_IN_CAPSULE) {
        CHECK(command->sgl.address <= c->in_capsule_len &&
              command->data_len <= c->in_capsule_len - command->sgl.address);
        memcpy(command->data, c->in_capsule + command->sgl.address, command->data_len);
    } else {
        memset(command->data, 0, command->data_len);
    }
    nvme_command_done(command, c->fails ? NVME_DATA_TRANSFER_ERROR : NVME_OK, 1);
}

static void on_deliver(void *ctx, struct nvme_command *command)
{
    struct connection *c = ctx;
    enum nvme_status status = c->fails ? NVME_DATA_TRANSFER_ERROR : NVME_OK;
    check_data(c, command);
    if (command->has_more) {
        nvme_command_done(command, status, 1); // the response is to come
    } else {
        answered(c, command, status);
    }
}

static void on_respond(void *ctx, struct nvme_command *command)
{
    answered(ctx, command, NVME_OK);
}

static void on_close(void *ctx, const char *why)
{
    ((struct connection *)ctx)->is_asked_to_close = true;
}

static void on_wake(void *ctx)
{
}

static const struct nvme_transport transport = {
    .name = "fuzz",
    .sgl_kinds = NVME_SGL_KIND_IN_CAPSULE | NVME_SGL_KIND_KEYED | NVME_SGL_KIND_TRANSPORT,
    .in_capsule_len_max = 8192,
    .fetch = on_fetch,
    .deliver = on_deliver,
    .respond = on_respond,
    .close = on_close,
    .wake = on_wake,
};

static void send_sqe(struct connection *c, const uint8_t *sqe, uint32_t in_capsule_len)
{
    c->in_capsule_len = in_capsule_len;
    if (c->is_asked_to_close) {
        nvme_queue_close(c->queue, 1);
    } else {
        c->commands += nvme_queue_on_capsule(c->queue, sqe, in_capsule_len, c, 1);
    }
}

static struct connection *begin(struct nvme_target *target)
{
    struct connection *c = calloc(1, sizeof *c);
    CHECK(c != NULL);
    struct nvme_queue_parts parts = {.target = target,
                                     .transport = &transport,
                                     .connection = c,
                                     .command_count = COMMAND_COUNT,
                                     .qid = -1,
                                     .scratch = mspan_of(c->scratch, sizeof c->scratch)};
    c->queue = nvme_queue_create(&parts);
    CHECK(c->queue != NULL);
    return c;
}

static void make_sqe(uint8_t *sqe, uint8_t opcode, uint8_t type)
{
    memset(sqe, 0, NVME_SQE_LEN);
    sqe[NVME_SQE_OFF_OPCODE] = opcode;
    sqe[NVME_SQE_OFF_FLAGS] = NVME_SQE_PSDT_SGL;
    sqe[NVME_SQE_OFF_FCTYPE] = type;
}

static void connect_queue(struct connection *c, uint16_t qid, uint16_t cntlid)
{
    uint8_t sqe[NVME_SQE_LEN];
    struct nvme_sgl sgl = {.id = NVME_SGL_IN_CAPSULE, .len = NVME_CONNECT_DATA_LEN};
    static const char host[] = "nqn.2026-11.test:host";
    char nqn[NVME_NQN_MAX];
    make_sqe(sqe, NVME_FABRICS, NVME_FCTYPE_CONNECT);
    nvme_sgl_emit(sqe + NVME_SQE_OFF_SGL1, &sgl);
    put_le16(sqe + NVME_CONNECT_OFF_QID, qid);
    put_le16(sqe + NVME_CONNECT_OFF_SQSIZE, 7);
    nvme_subsystem_nqn(&nvme_node_rows[0], nqn);
    put_le16(c->in_capsule + NVME_CONNECT_DATA_OFF_CNTLID, cntlid);
    memcpy(c->in_capsule + NVME_CONNECT_DATA_OFF_SUBNQN, nqn, strlen(nqn) + 1);
    memcpy(c->in_capsule + NVME_CONNECT_DATA_OFF_HOSTNQN, host, sizeof host);
    send_sqe(c, sqe, NVME_CONNECT_DATA_LEN);
    CHECK(c->status == NVME_OK && nvme_queue_is_connected(c->queue));
}

static void enable(struct connection *c)
{
    uint8_t sqe[NVME_SQE_LEN];
    make_sqe(sqe, NVME_FABRICS, NVME_FCTYPE_PROPERTY_SET);
    put_le32(sqe + NVME_PROPERTY_OFF_OFFSET, NVME_PROPERTY_CC);
    put_le32(sqe + NVME_PROPERTY_OFF_VALUE, NVME_CC_EN | NVME_SQE_LEN_LOG2 << NVME_CC_IOSQES_SHIFT |
                                                NVME_CQE_LEN_LOG2 << NVME_CC_IOCQES_SHIFT);
    send_sqe(c, sqe, 0);
    make_sqe(sqe, NVME_ADMIN_SET_FEATURES, 0);
    sqe[NVME_SQE_OFF_CDW10] = NVME_FEATURE_NUMBER_OF_QUEUES;
    send_sqe(c, sqe, 0);
    CHECK(c->status == NVME_OK);
}

static void end(struct connection *c)
{
    nvme_queue_close(c->queue, 2);
    CHECK(nvme_queue_is_over(c->queue) && c->answers <= c->commands);
    nvme_queue_destroy(c->queue);
    free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    nvme_node_table.count = 2;
    nvme_node_second_count = 0;
    struct nvme_target *target = nvme_node_target();
    struct connection *queues[2] = {begin(target), begin(target)};
    connect_queue(queues[0], 0, NVME_CNTLID_DYNAMIC);
    uint16_t cntlid = (uint16_t)queues[0]->result;
    enable(queues[0]);
    connect_queue(queues[1], 1, cntlid);
    for (; size >= STEP_LEN; data += STEP_LEN, size -= STEP_LEN) {
        struct connection *c = queues[data[0] & 1];
        c->fails = (data[0] & 2) != 0;
        send_sqe(c, data + 2, data[1] * IN_CAPSULE_UNIT);
        if ((data[0] & 4) != 0) {
            nvme_node_change(target);
        }
        nvme_target_on_batch_end(target, 1);
    }
    end(queues[1]);
    end(queues[0]);
    CHECK(nvme_target_controller_count(target) == 0);
    nvme_target_destroy(target);
    return 0;
}
