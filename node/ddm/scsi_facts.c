#include "node/ddm/scsi_facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "format/scsi.h"

enum {
    ASK_TRIES = 20,
    ASK_AGAIN_NS = 20000000,
    ANSWER_MAX = 512,
    PAGE_HEADER_LEN = 4,
    CAPACITY_LEN = 32,
    MODE_LEN = 64
};

static const duration_ns ask_for_ns = 10 * NS_PER_S;

/* ---- one command ----------------------------------------------------------------------------- */

// Of its own memory: where the device does not answer in time, the transport still has it.
struct question {
    struct scsi_job job; // the first: it is freed by this
    struct list_link ended;
    uint8_t data[ANSWER_MAX];
};

// False: the device does not answer in time, and nobody will look for the question any more.
static bool await(struct scsi_transport *transport, struct question *question)
{
    const struct ddm_host *host = &transport->host;
    instant_ns until_ns = instant_after(host->clock(host->ctx), ask_for_ns);
    scsi_transport_flush(transport);
    for (instant_ns now;
         list_is_empty(&question->ended) && (now = host->clock(host->ctx)) < until_ns;) {
        scsi_transport_turn(transport, now, until_ns);
    }
    bool has_ended = !list_is_empty(&question->ended);
    question->job.ended = has_ended ? &question->ended : NULL;
    return has_ended;
}

static int unanswered(struct why *ret_why, int error)
{
    why_say(ret_why, "the device does not answer: %s", strerror(-error));
    return error;
}

// 0, -EAGAIN (ask again), or another negative errno.
static int judge(const struct scsi_job *job, struct why *ret_why)
{
    struct scsi_failure sense = {0};
    if (job->error != 0) {
        return unanswered(ret_why, job->error);
    }
    if (job->status == SCSI_GOOD || job->status == SCSI_CONDITION_MET) {
        return 0;
    }
    bool has_sense =
        job->status == SCSI_CHECK_CONDITION && scsi_sense_parse(job->sense, job->sense_len, &sense);
    if (has_sense && scsi_sense_is_success(&sense)) {
        return 0;
    }
    why_say(ret_why, "command %02xh ends with status %02xh, sense key %xh, code %02xh/%02xh",
            job->cdb[0], job->status, sense.key, sense.asc, sense.ascq);
    if (has_sense && sense.key == SCSI_ILLEGAL_REQUEST && !sense.is_deferred) {
        return -EOPNOTSUPP;
    }
    bool may_pass =
        job->status == SCSI_BUSY || job->status == SCSI_TASK_SET_FULL ||
        (has_sense && (sense.is_deferred || sense.key == SCSI_UNIT_ATTENTION ||
                       sense.key == SCSI_NOT_READY || sense.key == SCSI_ABORTED_COMMAND));
    return may_pass ? -EAGAIN : -EIO;
}

static int ask_once(struct scsi_transport *transport, const uint8_t cdb[SCSI_CDB_LEN], void *data,
                    uint32_t data_len, uint32_t *ret_len, struct why *ret_why)
{
    struct question *question = calloc(1, sizeof *question);
    if (question == NULL || data_len > ANSWER_MAX) {
        free(question);
        return -ENOMEM;
    }
    question->job = (struct scsi_job){.direction = data_len > 0 ? SCSI_FROM_DEVICE : SCSI_NO_DATA,
                                      .data = question->data,
                                      .data_len = data_len,
                                      .ended = &question->ended};
    memcpy(question->job.cdb, cdb, SCSI_CDB_LEN);
    list_init(&question->job.link);
    list_init(&question->ended);
    scsi_transport_submit(transport, &question->job);
    if (!await(transport, question)) {
        return unanswered(ret_why, -ETIMEDOUT);
    }
    int error = judge(&question->job, ret_why);
    uint32_t residual = question->job.residual;
    uint32_t len = residual < data_len ? data_len - residual : 0;
    if (error == 0 && len > 0) {
        memcpy(data, question->data, len);
    }
    if (ret_len != NULL) {
        *ret_len = error == 0 ? len : 0;
    }
    free(question);
    return error;
}

int scsi_ask(struct scsi_transport *transport, const uint8_t cdb[SCSI_CDB_LEN], void *data,
             uint32_t data_len, uint32_t *ret_len, struct why *ret_why)
{
    int error = -EAGAIN;
    for (unsigned i = 0; i < ASK_TRIES && error == -EAGAIN; i++) {
        struct timespec wait = {.tv_nsec = i > 2 ? ASK_AGAIN_NS : 0};
        nanosleep(&wait, NULL);
        error = ask_once(transport, cdb, data, data_len, ret_len, ret_why);
    }
    return error;
}

/* ---- what it is ------------------------------------------------------------------------------ */

static int inquire(struct scsi_transport *transport, struct scsi_facts *ret, struct why *ret_why)
{
    uint8_t cdb[SCSI_CDB_LEN], data[96];
    uint32_t len;
    scsi_inquiry_emit(cdb, sizeof data);
    int error = scsi_ask(transport, cdb, data, sizeof data, &len, ret_why);
    if (error != 0) {
        return error;
    }
    if (!scsi_inquiry_parse(data, len, &ret->inquiry)) {
        why_say(ret_why, "%u octets are no inquiry data", len);
        return -EPROTO;
    }
    if (ret->inquiry.peripheral != SCSI_DIRECT_ACCESS) {
        why_say(ret_why, "there is no disk (peripheral %02xh)", ret->inquiry.peripheral);
        return -ENODEV;
    }
    return 0;
}

int scsi_capacity_find(struct scsi_transport *transport, struct scsi_capacity *ret,
                       struct why *ret_why)
{
    uint8_t cdb[SCSI_CDB_LEN], data[CAPACITY_LEN];
    uint32_t len;
    scsi_capacity_emit(cdb, sizeof data);
    int error = scsi_ask(transport, cdb, data, sizeof data, &len, ret_why);
    if (error == 0 && !scsi_capacity_parse(data, len, ret)) {
        why_say(ret_why, "blocks of %u octets cannot be served",
                len >= 12 ? get_be32(data + 8) : 0);
        error = -EPROTO;
    }
    return error;
}

/* ---- what it can do; devices need not tell --------------------------------------------------- */

// Octets of the page; 0: there is none.
static uint32_t page_read(struct scsi_transport *transport, uint8_t page, uint8_t data[ANSWER_MAX])
{
    uint8_t cdb[SCSI_CDB_LEN];
    uint32_t len = 0;
    struct why why;
    scsi_vital_emit(cdb, page, ANSWER_MAX);
    return scsi_ask(transport, cdb, data, ANSWER_MAX, &len, &why) == 0 ? len : 0;
}

void scsi_lineage_take(const uint8_t *page, uint32_t len, struct volume_lineage *ret)
{
    bool is_there = len > PAGE_HEADER_LEN;
    volume_lineage_parse(page + PAGE_HEADER_LEN, is_there ? len - PAGE_HEADER_LEN : 0, ret);
}

static void pages_find(struct scsi_transport *transport, struct scsi_facts *ret)
{
    uint8_t pages[ANSWER_MAX], data[ANSWER_MAX];
    uint32_t count = page_read(transport, SCSI_PAGES_SUPPORTED, pages);
    bool has_name = false;
    if (scsi_pages_have(pages, count, SCSI_DEVICE_IDENTIFICATION)) {
        uint32_t len = page_read(transport, SCSI_DEVICE_IDENTIFICATION, data);
        has_name = scsi_identification_parse(data, len, ret->name);
    }
    if (!has_name && scsi_pages_have(pages, count, SCSI_UNIT_SERIAL_NUMBER)) {
        uint32_t len = page_read(transport, SCSI_UNIT_SERIAL_NUMBER, data);
        scsi_serial_parse(data, len, ret->name);
    }
    if (scsi_pages_have(pages, count, SCSI_BLOCK_LIMITS)) {
        uint32_t len = page_read(transport, SCSI_BLOCK_LIMITS, data);
        scsi_limits_parse(data, len, &ret->limits);
    }
    if (scsi_pages_have(pages, count, SCSI_LOGICAL_BLOCK_PROVISIONING)) {
        uint32_t len = page_read(transport, SCSI_LOGICAL_BLOCK_PROVISIONING, data);
        scsi_provisioning_parse(data, len, &ret->provisioning);
    }
    if (scsi_pages_have(pages, count, SCSI_VOLUME_LINEAGE)) {
        uint32_t len = page_read(transport, SCSI_VOLUME_LINEAGE, data);
        scsi_lineage_take(data, len, &ret->lineage);
    }
}

static void mode_find(struct scsi_transport *transport, struct scsi_facts *ret)
{
    enum { CACHING_PAGE = 0x08 };
    uint8_t cdb[SCSI_CDB_LEN], data[MODE_LEN];
    uint32_t len = 0;
    struct why why;
    scsi_mode_emit(cdb, CACHING_PAGE, sizeof data);
    scsi_ask(transport, cdb, data, sizeof data, &len, &why);
    scsi_mode_parse(data, len, &ret->mode);
}

static void operations_find(struct scsi_transport *transport, struct scsi_facts *ret)
{
    uint8_t cdb[SCSI_CDB_LEN], data[MODE_LEN];
    uint32_t len = 0;
    struct why why;
    scsi_operation_emit(cdb, SCSI_WRITE_SAME_16, sizeof data);
    scsi_ask(transport, cdb, data, sizeof data, &len, &why);
    scsi_operation_parse(data, len, &ret->can_write_same);
}

int scsi_facts_find(struct scsi_transport *transport, struct scsi_facts *ret, struct why *ret_why)
{
    *ret = (struct scsi_facts){0};
    int error = inquire(transport, ret, ret_why);
    if (error == 0) {
        error = scsi_capacity_find(transport, &ret->capacity, ret_why);
    }
    if (error == 0) {
        pages_find(transport, ret);
        mode_find(transport, ret);
        operations_find(transport, ret);
    }
    return error;
}
