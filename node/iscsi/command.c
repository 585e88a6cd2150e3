// iSCSI: SCSI commands, and what becomes of them; task management.

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "format/iscsi_pdu.h"
#include "node/iscsi/connection.h"
#include "node/scsi/device.h"

/* ---- tasks ----------------------------------------------------------------------------------- */

static void managements_settle(struct iscsi *iscsi);

static void task_release(struct iscsi_task *task)
{
    struct iscsi_connection *c = task->connection;
    c->door->carrier->on_task_free(task);
    iscsi_task_leave_place(task);
    task->is_used = false;
    if (task->unit != NULL) {
        task->unit->task_count--;
    }
    c->task_count--;
    list_push_head(&c->free, &task->link);
    iscsi_touch(c);
}

// An abort may have waited for it, also another session's.
void iscsi_task_free(struct iscsi_task *task)
{
    struct iscsi *iscsi = task->connection->iscsi;
    bool was_aborted = task->scsi.is_aborted;
    CHECK(task->is_used && task->connection->task_count > 0);
    task->is_doomed = !list_is_empty(&task->out.link);
    if (!task->is_doomed) {
        task_release(task);
    }
    if (was_aborted) {
        managements_settle(iscsi);
    }
}

struct iscsi_task *iscsi_task_find(const struct iscsi_connection *c, uint32_t itt)
{
    for (unsigned i = 0; i < ISCSI_TASK_COUNT; i++) {
        if (c->tasks[i].is_used && c->tasks[i].itt == itt) {
            return &c->tasks[i];
        }
    }
    return NULL;
}

void iscsi_task_on_turn(struct scsi_task *scsi)
{
    iscsi_touch(LIST_ENTRY(scsi, struct iscsi_task, scsi)->connection);
}

/* ---- SCSI commands --------------------------------------------------------------------------- */

static void task_fill(struct iscsi_task *task, const struct iscsi_header *h)
{
    struct iscsi_connection *c = task->connection;
    *task = (struct iscsi_task){
        .connection = c,
        .is_used = true,
        .has_place = true,
        .is_immediate = h->is_immediate,
        .is_read = (h->flags & ISCSI_CMD_READ) != 0,
        .is_write = (h->flags & ISCSI_CMD_WRITE) != 0,
        .itt = h->itt,
        .cmdsn = h->cmdsn,
        .lun = get_be64(h->at + ISCSI_OFF_LUN),
        .expected_len = get_be32(h->at + ISCSI_CMD_OFF_EXPECTED_LEN),
    };
    list_init(&task->link);
    list_init(&task->out.link);
    task->scsi.nexus = it_nexus_find(&c->it, task->lun);
    task->scsi.in_max = task->is_read ? task->expected_len : 0;
    task->scsi.out_max = task->is_write ? task->expected_len : 0;
    task->scsi.attribute = h->flags & ISCSI_CMD_ATTRIBUTE_MASK;
    memcpy(task->scsi.cdb, h->at + ISCSI_CMD_OFF_CDB, ISCSI_CMD_CDB_LEN);
}

static void task_join_unit(struct iscsi_task *task)
{
    struct nexus *nexus = task->scsi.nexus;
    if (nexus->unit != NULL) {
        task->unit = LIST_ENTRY(nexus, struct iscsi_unit, nexus);
        task->unit->task_count++;
    }
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

enum iscsi_verdict iscsi_take_command(struct iscsi_connection *c, const struct iscsi_header *h,
                                      const uint8_t *data, instant_ns now)
{
    bool has_room =
        !h->is_immediate || (c->immediate_used < ISCSI_IMMEDIATE_MAX && !list_is_empty(&c->free));
    bool is_both = (h->flags & ISCSI_CMD_READ) != 0 && (h->flags & ISCSI_CMD_WRITE) != 0;
    if (!has_room || is_both || !may_have_data(c, h) || h->itt == ISCSI_NO_TAG ||
        iscsi_task_find(c, h->itt) != NULL) {
        iscsi_reject(c, h,
                     has_room ? ISCSI_REJECT_PROTOCOL_ERROR : ISCSI_REJECT_TOO_MANY_IMMEDIATE);
        c->door->carrier->on_command(c, h, NULL);
        return ISCSI_GOES_ON;
    }
    struct list_link *l = list_pop_head(&c->free);
    CHECK(l != NULL); // those in order have been looked at (iscsi_is_next)
    struct iscsi_task *task = LIST_ENTRY(l, struct iscsi_task, link);
    task_fill(task, h);
    task_join_unit(task);
    c->task_count++;
    c->immediate_used += task->is_immediate;
    c->window_used += !task->is_immediate;
    c->door->carrier->on_command(c, h, task);
    task_execute(&task->scsi, now);
    return ISCSI_GOES_ON;
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

static bool concerns(const struct iscsi_management *m, const struct nexus *nexus)
{
    bool is_of_unit = m->function >= ISCSI_ABORT_TASK_SET && m->function <= ISCSI_LUN_RESET;
    return !is_of_unit || nexus->lun == m->lun;
}

static bool awaits_own(const struct iscsi_connection *c, const struct iscsi_management *m)
{
    for (unsigned i = 0; i < ISCSI_TASK_COUNT; i++) {
        const struct scsi_task *scsi = &c->tasks[i].scsi;
        if (c->tasks[i].is_used && scsi->is_aborted && scsi->abort <= m->abort &&
            concerns(m, scsi->nexus)) {
            return true;
        }
    }
    return false;
}

// What another initiator wrote, and was aborted, may not land behind the answer.
static bool awaits_others(const struct iscsi_connection *c, const struct iscsi_management *m)
{
    for (const struct list_link *l = c->it.nexuses.next; l != &c->it.nexuses; l = l->next) {
        const struct nexus *nexus = LIST_ENTRY(l, struct nexus, beside);
        if (m->function >= ISCSI_CLEAR_TASK_SET && concerns(m, nexus) &&
            nexus_unit_is_aborting(nexus, m->abort)) {
            return true;
        }
    }
    return false;
}

// RFC 7143 section 11.6.1: a cold reset ends the sessions of all initiators behind its answer.
static void management_end(struct iscsi_connection *c, struct iscsi_management *m)
{
    m->is_used = false;
    c->management_count--;
    respond_management(c, m->itt, m->response);
    if (m->function == ISCSI_TARGET_COLD_RESET) {
        iscsi_target_end(c);
    }
}

static void management_settle(struct iscsi_connection *c)
{
    for (unsigned i = 0; i < ISCSI_MANAGEMENT_COUNT; i++) {
        struct iscsi_management *m = &c->managements[i];
        if (m->is_used && m->is_done && c->state == ISCSI_OPEN && !awaits_own(c, m) &&
            !awaits_others(c, m)) {
            management_end(c, m);
        }
    }
}

static void managements_settle(struct iscsi *iscsi)
{
    const struct list_link *all = &iscsi->connections;
    for (struct list_link *l = all->next; l != all; l = l->next) {
        struct iscsi_connection *c = LIST_ENTRY(l, struct iscsi_connection, link);
        if (c->management_count > 0) {
            management_settle(c);
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
    if (is_answered || task->stream.has_answer) {
        iscsi_task_free(task);
    } else {
        task_abort(&task->scsi, now); // until it responds
    }
}

static void abort_all(struct iscsi_connection *c, const struct nexus *nexus, instant_ns now)
{
    for (unsigned i = 0; i < ISCSI_TASK_COUNT; i++) {
        const struct scsi_task *scsi = &c->tasks[i].scsi;
        if (c->tasks[i].is_used && scsi->nexus == nexus && !scsi->is_aborted) {
            task_take_back(&c->tasks[i], now);
        }
    }
}

static enum iscsi_task_response abort_one(struct iscsi_connection *c, const struct iscsi_header *h,
                                          instant_ns now)
{
    struct iscsi_task *task = iscsi_task_find(c, get_be32(h->at + ISCSI_TASK_OFF_REFERENCED));
    if (task == NULL || task->scsi.is_aborted) {
        return ISCSI_NO_TASK;
    }
    task_take_back(task, now);
    return ISCSI_TASK_COMPLETE;
}

static void end_all(struct iscsi_connection *c, struct nexus *nexus, unsigned function,
                    instant_ns now)
{
    abort_all(c, nexus, now);
    if (function == ISCSI_CLEAR_TASK_SET) {
        nexus_clear(nexus, now);
    } else if (function != ISCSI_ABORT_TASK_SET) {
        nexus_reset_unit(nexus, now);
    }
}

static enum iscsi_task_response manage(struct iscsi_connection *c, const struct iscsi_header *h,
                                       instant_ns now)
{
    unsigned function = h->flags & ISCSI_TASK_FUNCTION_MASK;
    switch (function) {
    case ISCSI_ABORT_TASK:
        return abort_one(c, h, now);
    case ISCSI_TASK_REASSIGN:
        return ISCSI_NO_REASSIGNMENT;
    case ISCSI_LUN_RESET:
    case ISCSI_TARGET_WARM_RESET:
    case ISCSI_TARGET_COLD_RESET:
    case ISCSI_ABORT_TASK_SET:
    case ISCSI_CLEAR_TASK_SET:
        break;
    default:
        return ISCSI_TASK_UNSUPPORTED;
    }
    bool is_of_target = function > ISCSI_LUN_RESET;
    const struct nexus *named = it_nexus_find(&c->it, get_be64(h->at + ISCSI_OFF_LUN));
    if (!is_of_target && named->unit == NULL) {
        return ISCSI_NO_LUN;
    }
    for (struct list_link *l = c->it.nexuses.next; l != &c->it.nexuses; l = l->next) {
        struct nexus *nexus = LIST_ENTRY(l, struct nexus, beside);
        if (is_of_target || nexus == named) {
            end_all(c, nexus, function, now);
        }
    }
    return ISCSI_TASK_COMPLETE;
}

enum iscsi_verdict iscsi_take_management(struct iscsi_connection *c, const struct iscsi_header *h,
                                         const uint8_t *data, instant_ns now)
{
    struct iscsi_management *m = NULL;
    for (unsigned i = 0; i < ISCSI_MANAGEMENT_COUNT && m == NULL; i++) {
        m = c->managements[i].is_used ? NULL : &c->managements[i];
    }
    if (m == NULL) {
        respond_management(c, h->itt, ISCSI_TASK_REJECTED);
        return ISCSI_GOES_ON;
    }
    const struct nexus *named = it_nexus_find(&c->it, get_be64(h->at + ISCSI_OFF_LUN));
    *m = (struct iscsi_management){.is_used = true,
                                   .function = h->flags & ISCSI_TASK_FUNCTION_MASK,
                                   .lun = named->lun,
                                   .itt = h->itt};
    c->management_count++;
    m->response = manage(c, h, now);
    m->abort = m->response == ISCSI_TASK_COMPLETE ? scsi_target_aborts(c->iscsi->target) : 0;
    m->is_done = true;
    management_settle(c);
    return ISCSI_GOES_ON;
}

/* ---- the end of the connection --------------------------------------------------------------- */

void iscsi_tasks_abandon(struct iscsi_connection *c, instant_ns now)
{
    iscsi_outs_drop(c);
    for (unsigned i = 0; c->tasks != NULL && i < ISCSI_TASK_COUNT; i++) {
        struct iscsi_task *task = &c->tasks[i];
        task->out.is_formed = false;
        task->out.sent = 0;
        if (task->is_used && task->is_doomed) {
            iscsi_task_free(task);
        } else if (task->is_used && !task->scsi.is_aborted) {
            task_take_back(task, now);
        }
    }
    iscsi_units_abandon(c, now);
}
