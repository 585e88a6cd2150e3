// iSCSI: SCSI commands, their data, and what becomes of them; task management.

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "node/format/iscsi_pdu.h"
#include "node/iscsi/connection.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"
#include "node/stream/stream.h"

/* ---- tasks ----------------------------------------------------------------------------------- */

static struct iscsi_task *task_of(struct scsi_task *scsi)
{
    return LIST_ENTRY(scsi, struct iscsi_task, scsi);
}

static void management_settle(struct iscsi_connection *c);

static void task_free(struct iscsi_task *task)
{
    struct iscsi_connection *c = task->connection;
    CHECK(task->is_used && c->task_count > 0);
    task->is_doomed = !list_is_empty(&task->out.link);
    if (task->is_doomed) {
        return;
    }
    if (c->incoming.task == task) {
        c->incoming.task = NULL;
    }
    free(task->staged);
    task->staged = NULL;
    task->is_used = false;
    c->task_count--;
    c->window_used -= !task->is_immediate;
    list_push_head(&c->free, &task->link);
    management_settle(c);
    stream_touch(&c->stream);
}

static struct iscsi_task *task_find(const struct iscsi_connection *c, uint32_t itt)
{
    for (unsigned i = 0; i < ISCSI_TASK_COUNT; i++) {
        if (c->tasks[i].is_used && c->tasks[i].itt == itt) {
            return &c->tasks[i];
        }
    }
    return NULL;
}

/* ---- data of the initiator ------------------------------------------------------------------- */

uint8_t *iscsi_task_place(struct iscsi_task *task, uint32_t *ret_len)
{
    uint32_t first_burst = task->connection->parameters.first_burst;
    *ret_len = 0;
    if (task->is_over || task->scsi.fault != FAULT_NONE) {
        return NULL;
    }
    if (task->is_wanted) {
        *ret_len = task->scsi.data_len - task->filled;
        return *ret_len > 0 ? task->scsi.data + task->filled : NULL;
    }
    if (task->staged == NULL) { // the node has no buffer yet: rare
        task->staged = malloc(first_burst);
    }
    *ret_len = task->staged != NULL ? first_burst - task->filled : 0;
    return *ret_len > 0 ? task->staged + task->filled : NULL;
}

static void on_forget(struct scsi_task *scsi)
{
    struct iscsi_task *task = task_of(scsi);
    task->connection->asked_count -= task->is_wanted;
    task->is_wanted = false;
    task->is_over = true;
    if (task->next == ISCSI_ASKS && task->out.sent == 0) { // an R2T that needs not go
        list_remove(&task->out.link);
        task->next = ISCSI_NOTHING;
    }
}

static void data_end(struct iscsi_task *task, bool is_there, instant_ns now)
{
    on_forget(&task->scsi);
    task_fetched(&task->scsi, is_there, now);
}

static bool is_silent(const struct iscsi_task *task)
{
    return !task->is_receiving && !task->is_open;
}

// What is next of the data that the device wants: nothing, or an R2T.
static void data_go_on(struct iscsi_task *task, instant_ns now)
{
    if (task->scsi.fault != FAULT_NONE) {
        data_end(task, false, now);
    } else if (task->filled == task->scsi.data_len) {
        data_end(task, true, now);
    } else if (is_silent(task) && task->filled >= task->asked && task->next == ISCSI_NOTHING) {
        iscsi_task_queue(task, ISCSI_ASKS);
    }
}

static void on_fetch(struct scsi_task *scsi, instant_ns now)
{
    struct iscsi_task *task = task_of(scsi);
    task->is_wanted = true;
    task->connection->asked_count++;
    if (task->staged != NULL) {
        task->filled = task->filled < scsi->data_len ? task->filled : scsi->data_len;
        memcpy(scsi->data, task->staged, task->filled);
        free(task->staged);
        task->staged = NULL;
    }
    data_go_on(task, now);
}

static void answer(struct iscsi_task *task)
{
    task->has_answer = false;
    iscsi_task_queue(task, ISCSI_RESPONDS);
}

void iscsi_task_received(struct iscsi_task *task, const struct iscsi_incoming *incoming,
                         bool is_bad, instant_ns now)
{
    if (incoming->is_final && !incoming->is_asked) {
        task->is_open = false;
    }
    if (is_bad) {
        uint8_t head[ISCSI_HEADER_LEN];
        iscsi_header_emit(head, ISCSI_DATA_OUT, 0, task->itt);
        struct iscsi_header h = iscsi_header_parse(head);
        iscsi_reject(task->connection, &h, ISCSI_REJECT_DATA_DIGEST);
        task->scsi.fault = FAULT_DATA_DIGEST;
    }
    if (task->has_answer) {
        if (is_silent(task)) {
            answer(task);
        }
    } else if (task->is_wanted) {
        data_go_on(task, now);
    }
}

// Data-Out: for the task that it names, in the order of its data.
static bool is_expected(const struct iscsi_task *task, const struct iscsi_header *h, bool is_asked)
{
    uint32_t offset = get_be32(h->at + ISCSI_DATA_OFF_BUFFER);
    uint32_t datasn = get_be32(h->at + ISCSI_DATA_OFF_DATASN);
    uint32_t end = is_asked ? task->asked : task->connection->parameters.first_burst;
    bool is_its = task->itt == h->itt && (is_asked ? task->is_wanted : task->is_open);
    return is_its && datasn == task->datasn && offset == task->filled && offset <= end &&
           h->data_len <= end - offset;
}

enum stream_verdict iscsi_take_data(struct iscsi_connection *c, const struct iscsi_header *h,
                                    const uint8_t *data, instant_ns now)
{
    uint32_t tag = get_be32(h->at + ISCSI_OFF_TTT);
    bool is_asked = tag != ISCSI_NO_TAG;
    struct iscsi_task *task = is_asked && tag < ISCSI_TASK_COUNT ? &c->tasks[tag] : NULL;
    task = is_asked ? task : task_find(c, h->itt);
    if (task == NULL || !task->is_used || task->itt != h->itt) { // it may have been aborted
        iscsi_incoming_begin(c, h, NULL);
        return STREAM_GOES_ON;
    }
    if (!task->is_over && !is_expected(task, h, is_asked)) {
        iscsi_reject(c, h, ISCSI_REJECT_PROTOCOL_ERROR);
        task->scsi.fault = FAULT_TRANSFER;
    }
    task->datasn++;
    iscsi_incoming_begin(c, h, task);
    return STREAM_GOES_ON;
}

/* ---- to the initiator ------------------------------------------------------------------------ */

static void on_deliver(struct scsi_task *scsi, instant_ns now)
{
    struct iscsi_task *task = task_of(scsi);
    task->is_over = true;
    iscsi_task_queue(task, ISCSI_DELIVERS);
}

static void on_respond(struct scsi_task *scsi, instant_ns now)
{
    struct iscsi_task *task = task_of(scsi);
    task->is_over = true;
    if (scsi->is_aborted) {
        task_free(task);
    } else if (is_silent(task) && task->next == ISCSI_NOTHING) {
        answer(task);
    } else {
        task->has_answer = true;
    }
}

const struct scsi_transport iscsi_transport = {
    .fetch = on_fetch,
    .forget = on_forget,
    .deliver = on_deliver,
    .respond = on_respond,
};

void iscsi_task_sent(struct iscsi_task *task, instant_ns now)
{
    enum iscsi_next next = task->next;
    task->next = ISCSI_NOTHING;
    if (next == ISCSI_DELIVERS) {
        task_delivered(&task->scsi, true, now);
    }
    if (next != ISCSI_ASKS || task->is_doomed) {
        task_free(task);
    } else if (task->has_answer && is_silent(task)) {
        answer(task);
    }
}

/* ---- SCSI commands --------------------------------------------------------------------------- */

static void task_fill(struct iscsi_task *task, const struct iscsi_header *h)
{
    struct iscsi_connection *c = task->connection;
    bool may_go_on = !c->parameters.has_initial_r2t;
    *task = (struct iscsi_task){
        .connection = c,
        .is_used = true,
        .is_immediate = h->is_immediate,
        .is_read = (h->flags & ISCSI_CMD_READ) != 0,
        .is_write = (h->flags & ISCSI_CMD_WRITE) != 0,
        .itt = h->itt,
        .cmdsn = h->cmdsn,
        .expected_len = get_be32(h->at + ISCSI_CMD_OFF_EXPECTED_LEN),
    };
    list_init(&task->link);
    list_init(&task->out.link);
    task->is_open = task->is_write && may_go_on && (h->flags & ISCSI_FINAL) == 0;
    task->scsi.nexus = &c->nexus;
    task->scsi.lun = get_be64(h->at + ISCSI_OFF_LUN);
    task->scsi.in_max = task->is_read ? task->expected_len : 0;
    task->scsi.out_max = task->is_write ? task->expected_len : 0;
    memcpy(task->scsi.cdb, h->at + ISCSI_CMD_OFF_CDB, ISCSI_CMD_CDB_LEN);
}

// Data in the PDU that the initiator may have put there.
static bool may_have_data(const struct iscsi_connection *c, const struct iscsi_header *h)
{
    bool is_write = (h->flags & ISCSI_CMD_WRITE) != 0;
    uint32_t expected = get_be32(h->at + ISCSI_CMD_OFF_EXPECTED_LEN);
    return h->data_len == 0 ||
           (is_write && c->parameters.has_immediate_data &&
            h->data_len <= c->parameters.first_burst && h->data_len <= expected);
}

enum stream_verdict iscsi_take_command(struct iscsi_connection *c, const struct iscsi_header *h,
                                       const uint8_t *data, instant_ns now)
{
    unsigned immediate_count = c->task_count - c->window_used;
    bool has_room = !h->is_immediate || immediate_count < ISCSI_IMMEDIATE_MAX;
    bool is_both = (h->flags & ISCSI_CMD_READ) != 0 && (h->flags & ISCSI_CMD_WRITE) != 0;
    if (!has_room || is_both || !may_have_data(c, h) || h->itt == ISCSI_NO_TAG ||
        task_find(c, h->itt) != NULL) {
        iscsi_reject(c, h,
                     has_room ? ISCSI_REJECT_PROTOCOL_ERROR : ISCSI_REJECT_TOO_MANY_IMMEDIATE);
        iscsi_incoming_begin(c, h, NULL);
        return STREAM_GOES_ON;
    }
    struct list_link *l = list_pop_head(&c->free);
    CHECK(l != NULL); // the window, and those out of order
    struct iscsi_task *task = LIST_ENTRY(l, struct iscsi_task, link);
    task_fill(task, h);
    c->task_count++;
    c->window_used += !task->is_immediate;
    if (h->data_len > 0) {
        iscsi_incoming_begin(c, h, task);
        c->incoming.is_final = false; // F tells of Data-Out
    }
    task_execute(&task->scsi, now);
    return STREAM_GOES_ON;
}

/* ---- task management ------------------------------------------------------------------------- */

static void respond_management(struct iscsi_connection *c, uint32_t itt,
                               enum iscsi_task_response response)
{
    uint8_t *head = iscsi_control_put(c, ISCSI_TASK_RESPONSE, ISCSI_FINAL, itt, NULL, 0);
    if (head != NULL) {
        put_be32(head + ISCSI_OFF_TTT, 0); // reserved here
        head[ISCSI_RSP_OFF_RESPONSE] = (uint8_t)response;
    }
}

static bool has_aborted(const struct iscsi_connection *c)
{
    for (unsigned i = 0; i < ISCSI_TASK_COUNT; i++) {
        if (c->tasks[i].is_used && c->tasks[i].scsi.is_aborted) {
            return true;
        }
    }
    return false;
}

static void management_settle(struct iscsi_connection *c)
{
    for (unsigned i = 0; i < ISCSI_MANAGEMENT_COUNT; i++) {
        struct iscsi_management *m = &c->managements[i];
        if (m->is_used && m->is_done && c->state == ISCSI_OPEN && !has_aborted(c)) {
            m->is_used = false;
            respond_management(c, m->itt, m->response);
        }
    }
}

// What has begun to go, goes to its end: its numbers are taken.
static void task_take_back(struct iscsi_task *task, instant_ns now)
{
    bool is_answered = task->next == ISCSI_DELIVERS || task->next == ISCSI_RESPONDS;
    if (is_answered && task->out.is_formed) {
        return;
    }
    if (is_answered) {
        list_remove(&task->out.link);
    }
    if (task->next == ISCSI_DELIVERS) {
        task_delivered(&task->scsi, false, now);
    }
    if (is_answered || task->has_answer) {
        task_free(task);
    } else {
        task_abort(&task->scsi, now); // until it responds
    }
}

static void abort_all(struct iscsi_connection *c, instant_ns now)
{
    for (unsigned i = 0; i < ISCSI_TASK_COUNT; i++) {
        if (c->tasks[i].is_used && !c->tasks[i].scsi.is_aborted) {
            task_take_back(&c->tasks[i], now);
        }
    }
}

static enum iscsi_task_response abort_one(struct iscsi_connection *c, const struct iscsi_header *h,
                                          instant_ns now)
{
    struct iscsi_task *task = task_find(c, get_be32(h->at + ISCSI_TASK_OFF_REFERENCED));
    if (task == NULL || task->scsi.is_aborted) {
        return ISCSI_NO_TASK;
    }
    task_take_back(task, now);
    return ISCSI_TASK_COMPLETE;
}

static enum iscsi_task_response manage(struct iscsi_connection *c, const struct iscsi_header *h,
                                       instant_ns now)
{
    bool is_reset = false;
    switch (h->flags & ISCSI_TASK_FUNCTION_MASK) {
    case ISCSI_ABORT_TASK:
        return abort_one(c, h, now);
    case ISCSI_TASK_REASSIGN:
        return ISCSI_NO_REASSIGNMENT;
    case ISCSI_LUN_RESET:
    case ISCSI_TARGET_WARM_RESET:
    case ISCSI_TARGET_COLD_RESET:
        is_reset = true;
        break;
    case ISCSI_ABORT_TASK_SET:
    case ISCSI_CLEAR_TASK_SET:
        break;
    default:
        return ISCSI_TASK_UNSUPPORTED;
    }
    bool is_of_target = (h->flags & ISCSI_TASK_FUNCTION_MASK) > ISCSI_LUN_RESET;
    if (!is_of_target && get_be64(h->at + ISCSI_OFF_LUN) != 0) {
        return ISCSI_NO_LUN;
    }
    abort_all(c, now);
    if (is_reset) {
        nexus_reset_unit(&c->nexus, now);
    }
    return ISCSI_TASK_COMPLETE;
}

enum stream_verdict iscsi_take_management(struct iscsi_connection *c, const struct iscsi_header *h,
                                          const uint8_t *data, instant_ns now)
{
    struct iscsi_management *m = NULL;
    for (unsigned i = 0; i < ISCSI_MANAGEMENT_COUNT && m == NULL; i++) {
        m = c->managements[i].is_used ? NULL : &c->managements[i];
    }
    if (m == NULL) {
        respond_management(c, h->itt, ISCSI_TASK_REJECTED);
        return STREAM_GOES_ON;
    }
    *m = (struct iscsi_management){.is_used = true, .itt = h->itt};
    enum iscsi_task_response response = manage(c, h, now);
    m->response = response;
    m->is_done = true;
    management_settle(c);
    return STREAM_GOES_ON;
}

/* ---- the end of the connection --------------------------------------------------------------- */

void iscsi_tasks_abandon(struct iscsi_connection *c, instant_ns now)
{
    iscsi_outs_drop(c);
    c->incoming = (struct iscsi_incoming){0};
    for (unsigned i = 0; c->tasks != NULL && i < ISCSI_TASK_COUNT; i++) {
        struct iscsi_task *task = &c->tasks[i];
        task->out.is_formed = false;
        task->out.sent = 0;
        if (task->is_used && task->is_doomed) {
            task_free(task);
        } else if (task->is_used && !task->scsi.is_aborted) {
            task_take_back(task, now);
        }
    }
}
