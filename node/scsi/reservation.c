// PERSISTENT RESERVE IN and OUT (SPC-4 sections 6.15 and 6.16), RESERVE (6) and RELEASE (6): what
// initiators ask of the volume's reservation, which is the node's own and binds every client of it.

#include "node/interface/reservation.h"

#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "format/scsi.h"
#include "node/scsi/agent.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"

// The numbers of types (SPC-4 table 50).
static const uint8_t number_of[RESERVATION_TYPE_COUNT] = {
    [WRITE_EXCLUSIVE] = 1,
    [EXCLUSIVE_ACCESS] = 3,
    [WRITE_EXCLUSIVE_REGISTRANTS] = 5,
    [EXCLUSIVE_ACCESS_REGISTRANTS] = 6,
    [WRITE_EXCLUSIVE_ALL] = 7,
    [EXCLUSIVE_ACCESS_ALL] = 8,
};

// RESERVATION_TYPE_COUNT: it is none.
static uint8_t type_of(uint8_t number)
{
    uint8_t type = WRITE_EXCLUSIVE;
    while (type < RESERVATION_TYPE_COUNT && number_of[type] != number) {
        type++;
    }
    return type;
}

// Of a volume that has none nothing is reserved.
static const struct reservation *reservation_of(const struct nexus *nexus)
{
    static const struct reservation none = {.can_persist = false};
    const struct scsi_target_parts *parts = &nexus->it->target->parts;
    const struct reservation *r = parts->cta->reservation(parts->cta_ctx, nexus->connection);
    return r != NULL ? r : &none;
}

/* ---- may it be used? ------------------------------------------------------------------------- */

// What it needs; to start a unit is no use of it (SBC-3 table 5).
static enum scsi_needs needs_of(const struct scsi_task *task)
{
    bool is_start = task->cdb[0] == SCSI_START_STOP_UNIT && (task->cdb[4] & SCSI_START) != 0 &&
                    (task->cdb[4] & SCSI_POWER_CONDITION) == 0;
    return is_start ? NEEDS_UNIT : task->command->needs;
}

bool reservation_conflicts(const struct scsi_task *task)
{
    const struct nexus *nexus = task->nexus;
    if (nexus->unit == NULL) {
        return false;
    }
    const struct reservation *r = reservation_of(nexus);
    enum scsi_needs needs = needs_of(task);
    if (r->claimed_by != 0 && r->claimed_by != nexus->connection) {
        return needs > NEEDS_NOTHING && task->cdb[0] != SCSI_RELEASE_6;
    }
    return needs >= NEEDS_READ &&
           !reservation_allows(r, nexus->it->initiator_port, nexus->connection,
                               needs == NEEDS_READ ? RESERVATION_TO_READ : RESERVATION_TO_WRITE);
}

void execute_reserve(struct scsi_task *task, instant_ns now)
{
    const struct scsi_target_parts *parts = &task->nexus->it->target->parts;
    if (parts->cta->claim(parts->cta_ctx, task->nexus->connection)) {
        task_succeed(task, now);
    } else {
        task_conflict(task, now);
    }
}

void execute_release(struct scsi_task *task, instant_ns now)
{
    const struct scsi_target_parts *parts = &task->nexus->it->target->parts;
    parts->cta->unclaim(parts->cta_ctx, task->nexus->connection, false);
    task_succeed(task, now);
}

/* ---- PERSISTENT RESERVE IN ------------------------------------------------------------------- */

enum { READ_KEYS, READ_RESERVATION, REPORT_CAPABILITIES, READ_FULL_STATUS };
enum { IN_HEADER_LEN = 8, KEY_LEN = 8, RESERVATION_LEN = 16, STATUS_LEN = 24, ID_MIN = 20 };
enum { NO_SPECIFIC_PROTOCOL = 0x0f };

static uint32_t emit_keys(const struct scsi_task *task, uint8_t *at)
{
    const struct reservation *r = reservation_of(task->nexus);
    for (unsigned i = 0; i < r->registrant_count; i++) {
        put_be64(at + (size_t)KEY_LEN * i, r->registrants[i].key);
    }
    return KEY_LEN * r->registrant_count;
}

static uint32_t emit_reservation(const struct scsi_task *task, uint8_t *at)
{
    const struct reservation *r = reservation_of(task->nexus);
    if (r->type == RESERVATION_NONE) {
        return 0;
    }
    const struct registrant *holder = reservation_registrant(r, r->holder);
    bool is_of_all = reservation_type_facts(r->type)->is_held_by_all;
    put_be64(at, is_of_all || holder == NULL ? 0 : holder->key);
    at[13] = number_of[r->type];
    return RESERVATION_LEN;
}

// Does the name look like that of an initiator port of this transport?
static bool is_of_transport(const char *port)
{
    return strstr(port, ",i,0x") != NULL;
}

// SPC-4 section 7.6.4.6: a name of the transport's format 01b, padded to a multiple of four. Who
// came by another protocol is of "no specific protocol", by the name that the node has for it.
static uint32_t emit_transport_id(const struct nexus *nexus, const char *port, uint8_t *at)
{
    uint8_t protocol = is_of_transport(port) ? nexus->it->protocol : NO_SPECIFIC_PROTOCOL;
    uint32_t len = ((uint32_t)strlen(port) + 4) & ~3U;
    len = len < ID_MIN ? ID_MIN : len;
    at[0] = (uint8_t)(1 << 6 | protocol);
    put_be16(at + 2, (uint16_t)len);
    memcpy(at + 4, port, strlen(port));
    return 4 + len;
}

static uint32_t emit_full_status(const struct scsi_task *task, uint8_t *at)
{
    const struct reservation *r = reservation_of(task->nexus);
    uint32_t len = 0;
    for (unsigned i = 0; i < r->registrant_count; i++) {
        const struct registrant *registrant = &r->registrants[i];
        bool is_holder = reservation_is_held_by(r, registrant->name);
        uint8_t *one = at + len;
        put_be64(one, registrant->key);
        one[12] = is_holder;
        one[13] = is_holder ? number_of[r->type] : 0;
        put_be16(one + 18, 1); // the target port
        uint32_t id_len = emit_transport_id(task->nexus, registrant->name, one + STATUS_LEN);
        put_be32(one + 20, id_len);
        len += STATUS_LEN + id_len;
    }
    return len;
}

enum {
    CAPABILITIES_LEN = 8,
    CAN_PERSIST = 1 << 0, // PTPL_C, and PTPL_A in the octet behind
    TYPE_MASK_VALID = 1 << 7,
    TYPES_0 = 0xea,
    TYPES_1 = 0x01,
};

static void report_capabilities(struct scsi_task *task, instant_ns now)
{
    if (task_scratch_create(task, CAPABILITIES_LEN, now)) {
        const struct reservation *r = reservation_of(task->nexus);
        put_be16(task->scratch, CAPABILITIES_LEN);
        task->scratch[2] = r->can_persist ? CAN_PERSIST : 0;
        task->scratch[3] = (uint8_t)(TYPE_MASK_VALID | (r->persists ? CAN_PERSIST : 0));
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
    enum { ALL_LEN = RESERVATION_REGISTRANT_MAX * (STATUS_LEN + 4 + SCSI_PORT_NAME_MAX + 4) };
    if (action == REPORT_CAPABILITIES) {
        report_capabilities(task, now);
    } else if (task_scratch_create(task, IN_HEADER_LEN + ALL_LEN, now)) {
        uint32_t len = emits[action](task, task->scratch + IN_HEADER_LEN);
        put_be32(task->scratch, reservation_of(task->nexus)->generation);
        put_be32(task->scratch + 4, len);
        task_deliver_scratch(task, IN_HEADER_LEN + len, get_be16(task->cdb + 7), now);
    }
}

/* ---- PERSISTENT RESERVE OUT ------------------------------------------------------------------ */

// By service action.
static const uint8_t actions[] = {
    RESERVATION_REGISTER,     RESERVATION_ACQUIRE, RESERVATION_RELEASE,
    RESERVATION_CLEAR,        RESERVATION_PREEMPT, RESERVATION_PREEMPT_AND_ABORT,
    RESERVATION_REGISTER_ANY,
};

enum { LIST_LEN = 24, LIST_KEY = 0, LIST_ACTION_KEY = 8, LIST_FLAGS = 20 };
enum { SPEC_I_PT = 1 << 3, APTPL = 1 << 0, SCOPE_UNIT = 0 };

void reservation_on_reserved(void *ctx, struct reservation_request *request, instant_ns now)
{
    static const enum scsi_fault faults[RESERVATION_OUTCOME_COUNT] = {
        [RESERVATION_BAD_TYPE] = FAULT_CDB_FIELD,  [RESERVATION_BAD_KEY] = FAULT_LIST_FIELD,
        [RESERVATION_OTHER_TYPE] = FAULT_RELEASE,  [RESERVATION_FULL] = FAULT_REGISTRATIONS,
        [RESERVATION_NO_STORE] = FAULT_LIST_FIELD, [RESERVATION_NOT_STORED] = FAULT_INTERNAL,
    };
    struct scsi_task *task = LIST_ENTRY(request, struct scsi_task, reserve);
    if (request->outcome == RESERVATION_DONE) {
        task_succeed(task, now);
    } else if (request->outcome == RESERVATION_CONFLICT) {
        task_conflict(task, now);
    } else {
        task_fail(task, faults[request->outcome], now);
    }
}

// A scope that is not the unit's makes a type that is none.
static void on_list(struct scsi_task *task, instant_ns now)
{
    const struct scsi_target_parts *parts = &task->nexus->it->target->parts;
    uint8_t action = actions[task->cdb[1] & SCSI_ACTION_MASK], flags = task->scratch[LIST_FLAGS];
    bool registers = action == RESERVATION_REGISTER || action == RESERVATION_REGISTER_ANY;
    bool has_scope = task->cdb[2] >> 4 == SCOPE_UNIT;
    if ((flags & SPEC_I_PT) != 0) {
        task_fail(task, FAULT_LIST_FIELD, now);
        return;
    }
    task->reserve = (struct reservation_request){
        .connection = task->nexus->connection,
        .wish = {.action = action,
                 .type = has_scope ? type_of(task->cdb[2] & 0x0f) : RESERVATION_TYPE_COUNT,
                 .key = get_be64(task->scratch + LIST_KEY),
                 .new_key = get_be64(task->scratch + LIST_ACTION_KEY)}};
    if (registers) {
        task->reserve.wish.persistence =
            (flags & APTPL) != 0 ? RESERVATION_PERSISTS : RESERVATION_ENDS_WITH_NODE;
    }
    parts->cta->reserve(parts->cta_ctx, &task->reserve, now);
}

void execute_reserve_out(struct scsi_task *task, instant_ns now)
{
    if (get_be32(task->cdb + 5) != LIST_LEN) {
        task_fail(task, FAULT_LIST_LENGTH, now);
    } else if (task_scratch_create(task, LIST_LEN, now)) {
        task_fetch_scratch(task, LIST_LEN, on_list, now);
    }
}
