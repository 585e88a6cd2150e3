// Logical units and the nexuses with them.

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "node/interface/reservation.h"
#include "node/interface/volume.h"
#include "node/scsi/agent.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"

struct scsi_target *scsi_target_create(const struct scsi_target_parts *parts)
{
    struct scsi_target *target = calloc(1, sizeof *target);
    if (target != NULL) {
        target->parts = *parts;
        list_init(&target->units);
    }
    return target;
}

static void unit_destroy(struct logical_unit *unit)
{
    CHECK(list_is_empty(&unit->nexuses));
    list_remove(&unit->link);
    free(unit);
}

void scsi_target_destroy(struct scsi_target *target)
{
    if (target == NULL) {
        return;
    }
    for (struct list_link *l; (l = list_pop_head(&target->units)) != NULL;) {
        unit_destroy(LIST_ENTRY(l, struct logical_unit, link));
    }
    free(target);
}

struct scsi_device_counters scsi_target_counters(const struct scsi_target *target)
{
    return target->counters;
}

/* ---- units ----------------------------------------------------------------------------------- */

static void unit_follow(struct logical_unit *unit, const struct resource *row)
{
    unit->abilities = row->abilities;
    unit->blocks = row->profile.size / row->profile.block_size;
    unit->block_len = row->profile.block_size;
    unit->preferred = row->profile.preferred;
    memcpy(unit->uuid, row->identity.uuid, sizeof unit->uuid);
    volume_lineage_emit(row, unit->lineage);
    memcpy(unit->name, row->name, sizeof unit->name);
}

static struct logical_unit *unit_find(struct scsi_target *target, uint32_t volume)
{
    for (struct list_link *l = target->units.next; l != &target->units; l = l->next) {
        struct logical_unit *unit = LIST_ENTRY(l, struct logical_unit, link);
        if (unit->volume == volume) {
            return unit;
        }
    }
    return NULL;
}

static struct logical_unit *unit_create(struct scsi_target *target, const struct resource *row)
{
    struct logical_unit *unit = calloc(1, sizeof *unit);
    if (unit != NULL) {
        unit->volume = row->volume;
        unit_follow(unit, row);
        list_init(&unit->nexuses);
        list_init(&unit->set.waiting);
        list_push_tail(&target->units, &unit->link);
    }
    return unit;
}

static void unit_tell(struct logical_unit *unit, enum scsi_attention attention)
{
    for (struct list_link *l = unit->nexuses.next; l != &unit->nexuses; l = l->next) {
        LIST_ENTRY(l, struct nexus, link)->attentions |= 1U << attention;
    }
}

void nexus_tell_others(const struct nexus *nexus, enum scsi_attention attention)
{
    struct list_link *all = &nexus->unit->nexuses;
    for (struct list_link *l = all->next; l != all; l = l->next) {
        struct nexus *other = LIST_ENTRY(l, struct nexus, link);
        other->attentions |= other != nexus ? 1U << attention : 0;
    }
}

static void unit_compare(struct logical_unit *unit, const struct resource *row)
{
    struct logical_unit before = *unit;
    unit_follow(unit, row);
    if (unit->blocks != before.blocks || unit->block_len != before.block_len) {
        unit_tell(unit, SCSI_ATTENTION_CAPACITY);
    }
    if (unit->abilities != before.abilities) {
        unit_tell(unit, SCSI_ATTENTION_MODE);
    }
}

void scsi_target_advertise(struct scsi_target *target, const struct resource_table *table)
{
    struct list_link *next;
    for (struct list_link *l = target->units.next; l != &target->units; l = next) {
        struct logical_unit *unit = LIST_ENTRY(l, struct logical_unit, link);
        const struct resource *row = resource_by_volume(table, unit->volume);
        next = l->next;
        if (row == NULL && list_is_empty(&unit->nexuses)) {
            unit_destroy(unit);
        } else if (row != NULL && row->state == RESOURCE_READY && row->profile.block_size > 0) {
            unit_compare(unit, row);
        }
    }
}

/* ---- nexuses --------------------------------------------------------------------------------- */

bool nexus_begin(struct nexus *nexus, const struct resource *row)
{
    struct logical_unit *unit = unit_find(nexus->it->target, row->volume);
    unit = unit != NULL ? unit : unit_create(nexus->it->target, row);
    if (unit == NULL) {
        return false;
    }
    nexus->unit = unit;
    nexus->attentions = 1U << SCSI_ATTENTION_POWER_ON;
    list_init(&nexus->tasks);
    list_push_tail(&unit->nexuses, &nexus->link);
    it_nexus_add(nexus);
    return true;
}

void nexus_end(struct nexus *nexus)
{
    CHECK(list_is_empty(&nexus->tasks));
    list_remove(&nexus->link);
    nexus->unit = NULL;
}

static struct scsi_task *unaborted(const struct nexus *nexus)
{
    for (struct list_link *l = nexus->tasks.next; l != &nexus->tasks; l = l->next) {
        struct scsi_task *task = LIST_ENTRY(l, struct scsi_task, link);
        if (!task->is_aborted) {
            return task;
        }
    }
    return NULL;
}

void nexus_abort(struct nexus *nexus, instant_ns now)
{
    for (struct scsi_task *task; (task = unaborted(nexus)) != NULL;) {
        task_abort(task, now);
    }
}

// SAM-5 section 7.5: the unit has one task set for all nexuses (TST is 0).
static void unit_abort(struct logical_unit *unit, instant_ns now)
{
    for (struct list_link *l = unit->nexuses.next; l != &unit->nexuses; l = l->next) {
        nexus_abort(LIST_ENTRY(l, struct nexus, link), now);
    }
}

void nexus_clear(struct nexus *nexus, instant_ns now)
{
    const struct list_link *all = &nexus->unit->nexuses;
    for (struct list_link *l = all->next; l != all; l = l->next) {
        struct nexus *other = LIST_ENTRY(l, struct nexus, link);
        bool loses = other != nexus && unaborted(other) != NULL;
        other->attentions |= loses ? 1U << SCSI_ATTENTION_CLEARED : 0;
    }
    unit_abort(nexus->unit, now);
}

void nexus_reset_unit(struct nexus *nexus, instant_ns now)
{
    struct logical_unit *unit = nexus->unit;
    unit_abort(unit, now);
    const struct scsi_target_parts *parts = &nexus->it->target->parts;
    parts->cta->unclaim(parts->cta_ctx, nexus->connection, true);
    unit->mode = (struct unit_mode){0};
    unit_tell(unit, SCSI_ATTENTION_RESET);
}

/* ---- what is aborted, and not over yet ------------------------------------------------------- */

uint64_t scsi_target_aborts(const struct scsi_target *target)
{
    return target->abort_count;
}

static bool is_aborting(const struct nexus *nexus, uint64_t abort)
{
    for (const struct list_link *l = nexus->tasks.next; l != &nexus->tasks; l = l->next) {
        const struct scsi_task *task = LIST_ENTRY(l, struct scsi_task, link);
        bool is_with_volume = !task->is_fetching && !task->is_delivering;
        if (task->is_aborted && task->abort <= abort && is_with_volume) {
            return true;
        }
    }
    return false;
}

bool nexus_unit_is_aborting(const struct nexus *nexus, uint64_t abort)
{
    const struct list_link *all = &nexus->unit->nexuses;
    for (const struct list_link *l = all->next; l != all; l = l->next) {
        if (is_aborting(LIST_ENTRY(l, struct nexus, link), abort)) {
            return true;
        }
    }
    return false;
}

/* ---- what nexuses are told ------------------------------------------------------------------- */

static struct nexus *nexus_find(const struct scsi_target *target, uint32_t connection)
{
    for (const struct list_link *u = target->units.next; u != &target->units; u = u->next) {
        const struct logical_unit *unit = LIST_ENTRY(u, struct logical_unit, link);
        for (struct list_link *l = unit->nexuses.next; l != &unit->nexuses; l = l->next) {
            struct nexus *nexus = LIST_ENTRY(l, struct nexus, link);
            if (nexus->connection == connection) {
                return nexus;
            }
        }
    }
    return NULL;
}

void scsi_target_on_reservation(struct scsi_target *target, uint32_t connection,
                                enum reservation_event event, instant_ns now)
{
    static const enum scsi_attention attentions[RESERVATION_EVENT_COUNT] = {
        [RESERVATION_REGISTRATION_PREEMPTED] = SCSI_ATTENTION_REGISTRATIONS,
        [RESERVATION_RELEASED] = SCSI_ATTENTION_RELEASED,
        [RESERVATION_CLEARED] = SCSI_ATTENTION_PREEMPTED,
    };
    struct nexus *nexus = nexus_find(target, connection);
    if (nexus == NULL) {
        return; // its login is not over
    }
    if (event == RESERVATION_TASKS_ABORTED) {
        nexus_abort(nexus, now);
    } else {
        nexus->attentions |= 1U << attentions[event];
    }
}

enum scsi_fault nexus_attention_take(struct nexus *nexus)
{
    static const enum scsi_fault faults[SCSI_ATTENTION_COUNT] = {
        [SCSI_ATTENTION_POWER_ON] = FAULT_POWER_ON,
        [SCSI_ATTENTION_RESET] = FAULT_RESET,
        [SCSI_ATTENTION_CLEARED] = FAULT_CLEARED,
        [SCSI_ATTENTION_CAPACITY] = FAULT_CAPACITY_CHANGED,
        [SCSI_ATTENTION_UNITS] = FAULT_UNITS_CHANGED,
        [SCSI_ATTENTION_MODE] = FAULT_MODE_CHANGED,
        [SCSI_ATTENTION_PREEMPTED] = FAULT_PREEMPTED,
        [SCSI_ATTENTION_RELEASED] = FAULT_RELEASED,
        [SCSI_ATTENTION_REGISTRATIONS] = FAULT_REGISTRATIONS_PREEMPTED,
    };
    for (unsigned i = 0; i < SCSI_ATTENTION_COUNT; i++) {
        if ((nexus->attentions & (1U << i)) != 0) {
            nexus->attentions &= ~(1U << i);
            return faults[i];
        }
    }
    return FAULT_NONE;
}
