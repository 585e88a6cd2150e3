// The task set of a unit, which all its initiators share (TST is 0): which tasks may be under way
// beside which (SAM-5 section 8).
//
//     head of queue   at once
//     ordered         when all that came before it are over
//     simple          when all heads of the queue are over, and what is ordered and came before it
//
// Those that wait keep the order in which they came. They begin when the transport says so, and not
// where one before them ends: tasks end while others are walked over.

#include "base/list.h"
#include "node/scsi/agent.h"
#include "node/scsi/device.h"

static bool may_go(const struct task_set *set, const struct scsi_task *task)
{
    switch (task->attribute) {
    case SCSI_HEAD_OF_QUEUE:
        return true;
    case SCSI_ORDERED:
        return set->going_count == 0;
    default:
        return !set->has_ordered && set->head_count == 0;
    }
}

static void go(struct task_set *set, struct scsi_task *task)
{
    task->place = TASK_GOES;
    set->going_count++;
    set->head_count += task->attribute == SCSI_HEAD_OF_QUEUE;
    set->has_ordered |= task->attribute == SCSI_ORDERED;
}

// The first that waits, if its turn has come.
static struct scsi_task *next_of(const struct task_set *set)
{
    struct scsi_task *first = LIST_ENTRY(set->waiting.next, struct scsi_task, turn);
    return !list_is_empty(&set->waiting) && may_go(set, first) ? first : NULL;
}

// Commands that any unit answers, be it there or not, are in no set.
static bool is_in_set(const struct scsi_task *task)
{
    bool is_anywhere = task->command != NULL && task->command->needs == NEEDS_NOTHING;
    return task->nexus->unit != NULL && !is_anywhere;
}

bool order_enter(struct scsi_task *task)
{
    if (!is_in_set(task)) {
        return true;
    }
    struct task_set *set = &task->nexus->unit->set;
    bool is_next = task->attribute == SCSI_HEAD_OF_QUEUE || list_is_empty(&set->waiting);
    if (is_next && may_go(set, task)) {
        go(set, task);
        return true;
    }
    task->place = TASK_WAITS;
    list_push_tail(&set->waiting, &task->turn);
    task->nexus->it->target->waiting_count++;
    return false;
}

static void stop_waiting(struct scsi_task *task)
{
    list_remove(&task->turn);
    task->nexus->it->target->waiting_count--;
}

static void stop_going(struct task_set *set, const struct scsi_task *task)
{
    set->going_count--;
    set->head_count -= task->attribute == SCSI_HEAD_OF_QUEUE;
    set->has_ordered &= task->attribute != SCSI_ORDERED;
}

void order_leave(struct scsi_task *task)
{
    if (task->place == TASK_IN_NO_SET) {
        return;
    }
    struct task_set *set = &task->nexus->unit->set;
    if (task->place == TASK_WAITS) {
        stop_waiting(task);
    } else {
        stop_going(set, task);
    }
    task->place = TASK_IN_NO_SET;
    struct scsi_task *next = next_of(set);
    if (next != NULL) {
        next->nexus->it->transport->turn(next);
    }
}

struct scsi_task *order_take_next(struct task_set *set)
{
    struct scsi_task *next = next_of(set);
    if (next != NULL) {
        stop_waiting(next);
        go(set, next);
    }
    return next;
}
