// Reservations: which nexuses may use the unit. Persistent ones (SPC-4 section 5.13) belong to
// registered initiator ports and outlive their nexuses, not the node; RESERVE (6) belongs to a
// nexus and ends with it.

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "node/format/scsi.h"
#include "node/scsi/agent.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"

enum reservation_type {
    WRITE_EXCLUSIVE = 1,
    EXCLUSIVE_ACCESS = 3,
    WRITE_EXCLUSIVE_REGISTRANTS = 5,
    EXCLUSIVE_ACCESS_REGISTRANTS = 6,
    WRITE_EXCLUSIVE_ALL = 7,
    EXCLUSIVE_ACCESS_ALL = 8,
    TYPE_COUNT
};

static const struct {
    bool is_there;
    bool stops_reads;
    bool is_for_registrants; // who is registered may use it,
    bool is_held_by_all;     // and holds it
} types[TYPE_COUNT] = {
    [WRITE_EXCLUSIVE] = {true, false, false, false},
    [EXCLUSIVE_ACCESS] = {true, true, false, false},
    [WRITE_EXCLUSIVE_REGISTRANTS] = {true, false, true, false},
    [EXCLUSIVE_ACCESS_REGISTRANTS] = {true, true, true, false},
    [WRITE_EXCLUSIVE_ALL] = {true, false, true, true},
    [EXCLUSIVE_ACCESS_ALL] = {true, true, true, true},
};

/* ---- registrants ----------------------------------------------------------------------------- */

static struct registrant *registrant_of(struct logical_unit *unit, const char *port)
{
    for (unsigned i = 0; i < unit->registrant_count; i++) {
        if (strcmp(unit->registrants[i].port, port) == 0) {
            return &unit->registrants[i];
        }
    }
    return NULL;
}

static bool is_holder(const struct logical_unit *unit, const struct registrant *r)
{
    return r != NULL && unit->reservation_type != 0 &&
           (types[unit->reservation_type].is_held_by_all || strcmp(unit->holder, r->port) == 0);
}

static void tell(const struct logical_unit *unit, const char *port, enum scsi_attention attention)
{
    for (const struct list_link *l = unit->nexuses.next; l != &unit->nexuses; l = l->next) {
        struct nexus *nexus = LIST_ENTRY(l, struct nexus, link);
        if (strcmp(nexus->initiator_port, port) == 0) {
            nexus->attentions |= 1U << attention;
        }
    }
}

// All registrants but this one.
static void tell_others(const struct logical_unit *unit, const char *port,
                        enum scsi_attention attention)
{
    for (unsigned i = 0; i < unit->registrant_count; i++) {
        if (strcmp(unit->registrants[i].port, port) != 0) {
            tell(unit, unit->registrants[i].port, attention);
        }
    }
}

static void reserve(struct logical_unit *unit, const char *port, unsigned type)
{
    unit->reservation_type = (uint8_t)type;
    snprintf(unit->holder, sizeof unit->holder, "%s", port);
}

// Who could use the unit as a registrant is told.
static void release(struct logical_unit *unit, const char *port)
{
    bool is_told = types[unit->reservation_type].is_for_registrants;
    reserve(unit, "", 0);
    if (is_told) {
        tell_others(unit, port, SCSI_ATTENTION_RELEASED);
    }
}

static void unregister(struct logical_unit *unit, struct registrant *r)
{
    bool was_holder = is_holder(unit, r);
    bool is_last = unit->registrant_count == 1;
    char port[SCSI_PORT_NAME_MAX];
    memcpy(port, r->port, sizeof port);
    *r = unit->registrants[--unit->registrant_count];
    if (was_holder && (is_last || !types[unit->reservation_type].is_held_by_all)) {
        release(unit, port);
    }
}

/* ---- may it be used? ------------------------------------------------------------------------- */

bool reservation_conflicts(const struct scsi_task *task)
{
    struct logical_unit *unit = task->nexus->unit;
    enum scsi_needs needs = task->command->needs;
    bool is_others = unit->reserved_by != NULL && unit->reserved_by != task->nexus;
    if (is_others) {
        return needs > NEEDS_NOTHING && task->cdb[0] != SCSI_RELEASE_6;
    }
    if (unit->reservation_type == 0 || needs < NEEDS_READ) {
        return false;
    }
    const struct registrant *r = registrant_of(unit, task->nexus->initiator_port);
    bool may = is_holder(unit, r) ||
               (r != NULL && types[unit->reservation_type].is_for_registrants) ||
               (needs == NEEDS_READ && !types[unit->reservation_type].stops_reads);
    return !may;
}

void execute_reserve(struct scsi_task *task, instant_ns now)
{
    struct logical_unit *unit = task->nexus->unit;
    if (unit->registrant_count > 0) {
        task_conflict(task, now);
    } else {
        unit->reserved_by = task->nexus;
        task_succeed(task, now);
    }
}

void execute_release(struct scsi_task *task, instant_ns now)
{
    if (task->nexus->unit->reserved_by == task->nexus) {
        task->nexus->unit->reserved_by = NULL;
    }
    task_succeed(task, now);
}

/* ---- PERSISTENT RESERVE IN ------------------------------------------------------------------- */

enum { READ_KEYS, READ_RESERVATION, REPORT_CAPABILITIES, READ_FULL_STATUS };
enum { IN_HEADER_LEN = 8, KEY_LEN = 8, RESERVATION_LEN = 16, STATUS_LEN = 24, ID_MIN = 20 };

static uint32_t emit_keys(const struct scsi_task *task, uint8_t *at)
{
    const struct logical_unit *unit = task->nexus->unit;
    for (unsigned i = 0; i < unit->registrant_count; i++) {
        put_be64(at + (size_t)KEY_LEN * i, unit->registrants[i].key);
    }
    return KEY_LEN * unit->registrant_count;
}

static uint32_t emit_reservation(const struct scsi_task *task, uint8_t *at)
{
    struct logical_unit *unit = task->nexus->unit;
    if (unit->reservation_type == 0) {
        return 0;
    }
    const struct registrant *holder = registrant_of(unit, unit->holder);
    bool is_of_all = types[unit->reservation_type].is_held_by_all;
    put_be64(at, is_of_all || holder == NULL ? 0 : holder->key);
    at[13] = unit->reservation_type;
    return RESERVATION_LEN;
}

// SPC-4 section 7.6.4.6: a name of the transport's format 01b, padded to a multiple of four.
static uint32_t emit_transport_id(const struct nexus *nexus, const char *port, uint8_t *at)
{
    uint32_t len = ((uint32_t)strlen(port) + 4) & ~3U;
    len = len < ID_MIN ? ID_MIN : len;
    at[0] = (uint8_t)(1 << 6 | nexus->protocol);
    put_be16(at + 2, (uint16_t)len);
    memcpy(at + 4, port, strlen(port));
    return 4 + len;
}

static uint32_t emit_full_status(const struct scsi_task *task, uint8_t *at)
{
    const struct logical_unit *unit = task->nexus->unit;
    uint32_t len = 0;
    for (unsigned i = 0; i < unit->registrant_count; i++) {
        const struct registrant *r = &unit->registrants[i];
        uint8_t *one = at + len;
        put_be64(one, r->key);
        one[12] = is_holder(unit, r);
        one[13] = is_holder(unit, r) ? unit->reservation_type : 0;
        put_be16(one + 18, 1); // the target port
        uint32_t id_len = emit_transport_id(task->nexus, r->port, one + STATUS_LEN);
        put_be32(one + 20, id_len);
        len += STATUS_LEN + id_len;
    }
    return len;
}

enum { CAPABILITIES_LEN = 8, TYPE_MASK_VALID = 1 << 7, TYPES_0 = 0xea, TYPES_1 = 0x01 };

static void report_capabilities(struct scsi_task *task, instant_ns now)
{
    if (task_scratch_create(task, CAPABILITIES_LEN, now)) {
        put_be16(task->scratch, CAPABILITIES_LEN);
        task->scratch[3] = TYPE_MASK_VALID;
        task->scratch[4] = TYPES_0;
        task->scratch[5] = TYPES_1;
        task_deliver_scratch(task, CAPABILITIES_LEN, get_be16(task->cdb + 7), now);
    }
}

void execute_reserve_in(struct scsi_task *task, instant_ns now)
{
    static uint32_t (*const emits[])(const struct scsi_task *task, uint8_t *at) = {
        [READ_KEYS] = emit_keys,
        [READ_RESERVATION] = emit_reservation,
        [READ_FULL_STATUS] = emit_full_status,
    };
    unsigned action = task->cdb[1] & SCSI_ACTION_MASK;
    enum { ALL_LEN = SCSI_REGISTRANT_MAX * (STATUS_LEN + 4 + SCSI_PORT_NAME_MAX + 4) };
    if (action == REPORT_CAPABILITIES) {
        report_capabilities(task, now);
    } else if (task_scratch_create(task, IN_HEADER_LEN + ALL_LEN, now)) {
        uint32_t len = emits[action](task, task->scratch + IN_HEADER_LEN);
        put_be32(task->scratch, task->nexus->unit->reservation_generation);
        put_be32(task->scratch + 4, len);
        task_deliver_scratch(task, IN_HEADER_LEN + len, get_be16(task->cdb + 7), now);
    }
}

/* ---- PERSISTENT RESERVE OUT ------------------------------------------------------------------ */

enum {
    REGISTER,
    RESERVE,
    RELEASE,
    CLEAR,
    PREEMPT,
    PREEMPT_AND_ABORT,
    REGISTER_AND_IGNORE,
    ACTION_COUNT
};
enum { LIST_LEN = 24, LIST_KEY = 0, LIST_ACTION_KEY = 8, LIST_FLAGS = 20 };
enum { SPEC_I_PT = 1 << 3, APTPL = 1 << 0 };

// What a request says, and who says it.
struct wish {
    struct scsi_task *task;
    struct logical_unit *unit;
    struct registrant *registrant; // NULL: it is not registered
    const char *port;
    uint64_t key, action_key;
    unsigned action, type, scope;
    instant_ns now;
};

enum outcome { DONE, CONFLICT, BAD_CDB, BAD_LIST, BAD_RELEASE, FULL };

static enum outcome do_register(const struct wish *w)
{
    struct logical_unit *unit = w->unit;
    bool must_match = w->action == REGISTER;
    if (must_match && w->key != (w->registrant != NULL ? w->registrant->key : 0)) {
        return CONFLICT;
    }
    if (w->registrant == NULL && w->action_key == 0) {
        return DONE;
    }
    if (w->registrant == NULL && unit->registrant_count == SCSI_REGISTRANT_MAX) {
        return FULL;
    }
    unit->reservation_generation++;
    if (w->action_key == 0) {
        unregister(unit, w->registrant);
    } else if (w->registrant != NULL) {
        w->registrant->key = w->action_key;
    } else {
        struct registrant *r = &unit->registrants[unit->registrant_count++];
        *r = (struct registrant){.key = w->action_key};
        snprintf(r->port, sizeof r->port, "%s", w->port);
    }
    return DONE;
}

static bool type_is_there(unsigned type)
{
    return type < TYPE_COUNT && types[type].is_there;
}

static enum outcome do_reserve(const struct wish *w)
{
    struct logical_unit *unit = w->unit;
    if (w->scope != 0 || !type_is_there(w->type)) {
        return BAD_CDB;
    }
    if (unit->reservation_type != 0) {
        bool is_same = is_holder(unit, w->registrant) && unit->reservation_type == w->type;
        return is_same ? DONE : CONFLICT;
    }
    reserve(unit, w->port, w->type);
    return DONE;
}

static enum outcome do_release(const struct wish *w)
{
    struct logical_unit *unit = w->unit;
    if (!is_holder(unit, w->registrant)) {
        return DONE;
    }
    if (w->scope != 0 || w->type != unit->reservation_type) {
        return BAD_RELEASE;
    }
    release(unit, w->port);
    return DONE;
}

static enum outcome do_clear(const struct wish *w)
{
    struct logical_unit *unit = w->unit;
    tell_others(unit, w->port, SCSI_ATTENTION_PREEMPTED);
    unit->registrant_count = 0;
    unit->reservation_generation++;
    reserve(unit, "", 0);
    return DONE;
}

static void abort_port(const struct logical_unit *unit, const char *port, instant_ns now)
{
    for (const struct list_link *l = unit->nexuses.next; l != &unit->nexuses; l = l->next) {
        struct nexus *nexus = LIST_ENTRY(l, struct nexus, link);
        if (strcmp(nexus->initiator_port, port) == 0) {
            nexus_abort(nexus, now);
        }
    }
}

// Removes the registrants with the action's key; with key 0, all. The asker's own stays.
static unsigned remove_others(const struct wish *w)
{
    struct logical_unit *unit = w->unit;
    unsigned kept = 0, count = unit->registrant_count;
    for (unsigned i = 0; i < count; i++) {
        struct registrant r = unit->registrants[i];
        bool is_own = strcmp(r.port, w->port) == 0;
        if (is_own || (w->action_key != 0 && r.key != w->action_key)) {
            unit->registrants[kept++] = r;
            continue;
        }
        tell(unit, r.port, SCSI_ATTENTION_REGISTRATIONS);
        if (w->action == PREEMPT_AND_ABORT) {
            abort_port(unit, r.port, w->now);
        }
    }
    unit->registrant_count = kept;
    return count - kept;
}

static enum outcome do_preempt(const struct wish *w)
{
    struct logical_unit *unit = w->unit;
    const struct registrant *holder = registrant_of(unit, unit->holder);
    bool is_of_all = unit->reservation_type != 0 && types[unit->reservation_type].is_held_by_all;
    bool takes_over =
        is_of_all ? w->action_key == 0
                  : unit->reservation_type != 0 && holder != NULL && holder->key == w->action_key;
    if (w->action_key == 0 && !is_of_all) {
        return BAD_LIST;
    }
    if (takes_over && (w->scope != 0 || !type_is_there(w->type))) {
        return BAD_CDB;
    }
    bool is_own_key = w->registrant->key == w->action_key;
    if (remove_others(w) == 0 && !takes_over && !is_own_key) {
        return CONFLICT;
    }
    unit->reservation_generation++;
    if (takes_over) {
        bool is_other_type = unit->reservation_type != w->type;
        reserve(unit, w->port, w->type);
        if (is_other_type) {
            tell_others(unit, w->port, SCSI_ATTENTION_RELEASED);
        }
    }
    return DONE;
}

static const struct {
    enum outcome (*act)(const struct wish *w);
    bool is_for_registrants;
} actions[ACTION_COUNT] = {
    [REGISTER] = {do_register, false},
    [RESERVE] = {do_reserve, true},
    [RELEASE] = {do_release, true},
    [CLEAR] = {do_clear, true},
    [PREEMPT] = {do_preempt, true},
    [PREEMPT_AND_ABORT] = {do_preempt, true},
    [REGISTER_AND_IGNORE] = {do_register, false},
};

static enum outcome act(const struct wish *w, uint8_t flags)
{
    bool is_registered = w->registrant != NULL && w->registrant->key == w->key;
    if ((flags & (SPEC_I_PT | APTPL)) != 0) {
        return BAD_LIST;
    }
    return actions[w->action].is_for_registrants && !is_registered ? CONFLICT
                                                                   : actions[w->action].act(w);
}

static void on_list(struct scsi_task *task, instant_ns now)
{
    static const enum scsi_fault faults[] = {
        [BAD_CDB] = FAULT_CDB_FIELD,
        [BAD_LIST] = FAULT_LIST_FIELD,
        [BAD_RELEASE] = FAULT_RELEASE,
        [FULL] = FAULT_REGISTRATIONS,
    };
    struct wish w = {.task = task,
                     .unit = task->nexus->unit,
                     .port = task->nexus->initiator_port,
                     .key = get_be64(task->scratch + LIST_KEY),
                     .action_key = get_be64(task->scratch + LIST_ACTION_KEY),
                     .action = task->cdb[1] & SCSI_ACTION_MASK,
                     .type = task->cdb[2] & 0x0f,
                     .scope = task->cdb[2] >> 4,
                     .now = now};
    w.registrant = registrant_of(w.unit, w.port);
    enum outcome outcome = act(&w, task->scratch[LIST_FLAGS]);
    if (outcome == DONE) {
        task_succeed(task, now);
    } else if (outcome == CONFLICT) {
        task_conflict(task, now);
    } else {
        task_fail(task, faults[outcome], now);
    }
}

void execute_reserve_out(struct scsi_task *task, instant_ns now)
{
    if (get_be32(task->cdb + 5) != LIST_LEN) {
        task_fail(task, FAULT_LIST_LENGTH, now);
    } else if (task_scratch_create(task, LIST_LEN, now)) {
        task_fetch_scratch(task, LIST_LEN, on_list, now);
    }
}
