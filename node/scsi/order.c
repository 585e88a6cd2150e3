// Which commands must wait for one another: COMPARE AND WRITE reads, and writes what it was given
// if that is as expected, and nothing may change those blocks in between (SBC-3 section 5.3). Other
// commands that overlap need no order: initiators give it, by waiting.

#include "base/list.h"
#include "base/time.h"
#include "node/interface/request.h"
#include "node/scsi/agent.h"
#include "node/scsi/device.h"

enum { COMPARE_AND_WRITE = 0x89 };

static bool is_compare(const struct scsi_task *task)
{
    return task->cdb[0] == COMPARE_AND_WRITE;
}

static bool overlaps(const struct scsi_task *a, const struct scsi_task *b)
{
    return node_ranges_overlap(a->lba, a->blocks, b->lba, b->blocks);
}

// Does another task change what this one compares?
static bool is_being_changed(const struct scsi_task *task)
{
    const struct logical_unit *unit = task->nexus->unit;
    for (const struct list_link *n = unit->nexuses.next; n != &unit->nexuses; n = n->next) {
        const struct nexus *nexus = LIST_ENTRY(n, struct nexus, link);
        for (const struct list_link *l = nexus->tasks.next; l != &nexus->tasks; l = l->next) {
            const struct scsi_task *other = LIST_ENTRY(l, struct scsi_task, link);
            if (other != task && other->is_changing && overlaps(other, task)) {
                return true;
            }
        }
    }
    return false;
}

static bool may_go(const struct scsi_task *task)
{
    const struct scsi_task *comparing = task->nexus->unit->comparing;
    if (comparing == NULL) {
        return !is_compare(task) || !is_being_changed(task);
    }
    return !is_compare(task) && !overlaps(comparing, task);
}

static void go(struct scsi_task *task, instant_ns now)
{
    task->is_changing = true;
    if (is_compare(task)) {
        task->nexus->unit->comparing = task;
    }
    task->run(task, now);
}

void order_run(struct scsi_task *task, void (*run)(struct scsi_task *task, instant_ns now),
               instant_ns now)
{
    struct logical_unit *unit = task->nexus->unit;
    task->run = run;
    if (list_is_empty(&unit->waiters) && may_go(task)) {
        go(task, now);
    } else {
        list_push_tail(&unit->waiters, &task->wait_link);
    }
}

bool order_waits(const struct scsi_task *task)
{
    return !list_is_empty(&task->wait_link);
}

void order_leave(struct scsi_task *task, instant_ns now)
{
    struct logical_unit *unit = task->nexus->unit;
    list_remove(&task->wait_link);
    task->is_changing = false;
    if (unit->comparing == task) {
        unit->comparing = NULL;
    }
    while (!list_is_empty(&unit->waiters)) {
        struct scsi_task *first = LIST_ENTRY(unit->waiters.next, struct scsi_task, wait_link);
        if (!may_go(first)) {
            return;
        }
        list_remove(&first->wait_link);
        go(first, now);
    }
}
