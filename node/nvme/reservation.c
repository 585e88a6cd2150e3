// Reservations (NVM Express Base 1.4 section 8.8): what hosts ask of the volume's reservation,
// which is the node's own and binds every client of it.

#include "node/interface/reservation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/uma_tts.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"
#include "text/show.h"

enum { REPORT_LEN_MAX = 4 << 10 };

static const char name_prefix[] = "hostid:";

// A host is a registrant by its identifier; one that has none registers nothing.
void nvme_registrant_name(const uint8_t hostid[NVME_HOSTID_LEN], char ret[CLIENT_REGISTRANT_MAX])
{
    static const uint8_t none[NVME_HOSTID_LEN] = {0};
    char hex[2 * NVME_HOSTID_LEN + 1];
    bool is_named = memcmp(hostid, none, sizeof none) != 0;
    snprintf(ret, CLIENT_REGISTRANT_MAX, "%s%s", is_named ? name_prefix : "",
             is_named ? text_hex(hostid, NVME_HOSTID_LEN, hex) : "");
}

static const struct reservation *reservation_of(const struct nvme_command *command)
{
    const struct nvme_target_parts *parts = &command->queue->target->parts;
    return parts->cta->reservation(parts->cta_ctx, nvme_connection_of(command));
}

const struct reservation *nvme_reservation_of(const struct nvme_controller *c, uint32_t nsid)
{
    const struct nvme_target_parts *parts = &c->target->parts;
    return parts->uma->reservation(parts->uma_ctx, c->namespaces[nsid - 1].volume.number);
}

/* ---- register, acquire, release -------------------------------------------------------------- */

static uint32_t dword_10(const struct nvme_command *command)
{
    return get_le32(command->sqe + NVME_SQE_OFF_CDW10);
}

static void conflict(struct nvme_command *command)
{
    nvme_command_refuse(command, NVME_RESERVATION_CONFLICT, NVME_ERROR_NO_LOCATION);
}

static void reserve(struct nvme_command *command, const struct reservation_wish *wish,
                    instant_ns now)
{
    const struct nvme_target_parts *parts = &command->queue->target->parts;
    command->stage = NVME_AT_CTA;
    command->reserve =
        (struct reservation_request){.connection = nvme_connection_of(command), .wish = *wish};
    parts->cta->reserve(parts->cta_ctx, &command->reserve, now);
}

void nvme_on_reserved(void *ctx, struct reservation_request *request, instant_ns now)
{
    static const uint16_t statuses[RESERVATION_OUTCOME_COUNT] = {
        [RESERVATION_CONFLICT] = NVME_RESERVATION_CONFLICT,
        [RESERVATION_BAD_TYPE] = NVME_INVALID_FIELD,
        [RESERVATION_BAD_KEY] = NVME_INVALID_FIELD,
        [RESERVATION_OTHER_TYPE] = NVME_INVALID_FIELD,
        [RESERVATION_FULL] = NVME_RESERVATION_CONFLICT,
        [RESERVATION_NO_STORE] = NVME_INVALID_FIELD,
        [RESERVATION_NOT_STORED] = NVME_INTERNAL_ERROR,
    };
    struct nvme_command *command = LIST_ENTRY(request, struct nvme_command, reserve);
    if (command->queue->is_closed) {
        nvme_command_drop(command);
    } else if (request->outcome == RESERVATION_DONE) {
        nvme_command_succeed(command);
    } else {
        nvme_command_refuse(command, statuses[request->outcome], NVME_SQE_OFF_CDW10);
    }
}

static uint8_t persistence_of(const struct nvme_command *command)
{
    static const uint8_t wishes[] = {
        [NVME_CPTPL_AS_IT_IS] = RESERVATION_PERSISTENCE_AS_IT_IS,
        [NVME_CPTPL_CLEAR] = RESERVATION_ENDS_WITH_NODE,
        [NVME_CPTPL_SET] = RESERVATION_PERSISTS,
    };
    unsigned cptpl = dword_10(command) >> NVME_CPTPL_SHIFT;
    return wishes[cptpl == 1 ? NVME_CPTPL_AS_IT_IS : cptpl];
}

// Who is registered registers again with the same key alone, unless it is to be ignored; who is not
// neither unregisters nor replaces.
static void on_register(struct nvme_command *command, instant_ns now)
{
    const uint8_t *data = command->data;
    const struct reservation *r = reservation_of(command);
    char name[CLIENT_REGISTRANT_MAX];
    nvme_registrant_name(command->queue->controller->hostid, name);
    const struct registrant *own = r != NULL ? reservation_registrant(r, name) : NULL;
    unsigned action = dword_10(command) & NVME_RESERVATION_ACTION_MASK;
    bool ignores_key = (dword_10(command) & NVME_RESERVATION_IEKEY) != 0;
    struct reservation_wish wish = {.action = ignores_key ? RESERVATION_REGISTER_ANY
                                                          : RESERVATION_REGISTER,
                                    .persistence = persistence_of(command),
                                    .key = get_le64(data),
                                    .new_key = get_le64(data + 8)};
    if (action == NVME_RESERVATION_REGISTER) {
        wish.key = own != NULL ? wish.new_key : 0;
    } else if (action == NVME_RESERVATION_UNREGISTER) {
        wish.new_key = 0;
    }
    if (wish.new_key == 0 && action != NVME_RESERVATION_UNREGISTER) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_SQE_OFF_CDW10);
    } else if (own == NULL && action != NVME_RESERVATION_REGISTER) {
        conflict(command);
    } else {
        reserve(command, &wish, now);
    }
}

static uint8_t type_of(const struct nvme_command *command)
{
    return command->sqe[NVME_RESERVATION_OFF_RTYPE];
}

static void on_acquire(struct nvme_command *command, instant_ns now)
{
    static const uint8_t actions[] = {RESERVATION_ACQUIRE, RESERVATION_PREEMPT,
                                      RESERVATION_PREEMPT_AND_ABORT};
    const uint8_t *data = command->data;
    struct reservation_wish wish = {.action =
                                        actions[dword_10(command) & NVME_RESERVATION_ACTION_MASK],
                                    .type = type_of(command),
                                    .key = get_le64(data),
                                    .new_key = get_le64(data + 8)};
    reserve(command, &wish, now);
}

static void on_release(struct nvme_command *command, instant_ns now)
{
    static const uint8_t actions[] = {RESERVATION_RELEASE, RESERVATION_CLEAR};
    struct reservation_wish wish = {.action =
                                        actions[dword_10(command) & NVME_RESERVATION_ACTION_MASK],
                                    .type = type_of(command),
                                    .key = get_le64(command->data)};
    reserve(command, &wish, now);
}

// One command: how many actions it has, octets of its data, whether a key may be ignored.
static const struct facts {
    unsigned action_count;
    uint32_t data_len;
    bool may_ignore_key;
    void (*on_data)(struct nvme_command *command, instant_ns now);
} facts[] = {
    [NVME_IO_RESERVATION_REGISTER] = {3, 16, true, on_register},
    [NVME_IO_RESERVATION_ACQUIRE] = {3, 16, false, on_acquire},
    [NVME_IO_RESERVATION_RELEASE] = {2, 8, false, on_release},
};

static void on_scratch(struct nvme_command *command, instant_ns now)
{
    nvme_scratch_fetch(command, facts[command->sqe[NVME_SQE_OFF_OPCODE]].on_data);
}

void nvme_reservation_change(struct nvme_command *command, instant_ns now)
{
    const struct facts *f = &facts[command->sqe[NVME_SQE_OFF_OPCODE]];
    bool ignores_key = (dword_10(command) & NVME_RESERVATION_IEKEY) != 0;
    char name[CLIENT_REGISTRANT_MAX];
    nvme_registrant_name(command->queue->controller->hostid, name);
    if (name[0] == '\0') {
        nvme_command_refuse(command, NVME_COMMAND_SEQUENCE_ERROR, NVME_ERROR_NO_LOCATION);
    } else if ((dword_10(command) & NVME_RESERVATION_ACTION_MASK) >= f->action_count ||
               (ignores_key && !f->may_ignore_key)) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_SQE_OFF_CDW10);
    } else if (nvme_command_can_move(command, f->data_len)) {
        nvme_scratch_take(command, f->data_len, on_scratch, now);
    }
}

/* ---- report ---------------------------------------------------------------------------------- */

// What of the report has been asked for: the rest is counted and not written.
struct report {
    uint8_t *at;
    uint32_t room, len;
    unsigned count;
};

static void entry_put(struct report *report, const struct reservation *r,
                      const struct registrant *registrant, uint16_t cntlid,
                      const uint8_t hostid[NVME_HOSTID_LEN])
{
    uint8_t entry[NVME_REPORT_ENTRY_LEN] = {0};
    put_le16(entry + NVME_REPORT_ENTRY_OFF_CNTLID, cntlid);
    entry[NVME_REPORT_ENTRY_OFF_RCSTS] = reservation_is_held_by(r, registrant->name);
    put_le64(entry + NVME_REPORT_ENTRY_OFF_RKEY, registrant->key);
    memcpy(entry + NVME_REPORT_ENTRY_OFF_HOSTID, hostid, NVME_HOSTID_LEN);
    uint32_t left = report->room - report->len;
    uint32_t part = left < sizeof entry ? left : (uint32_t)sizeof entry;
    memcpy(report->at + report->len, entry, part);
    report->len += part;
    report->count++;
}

// Reads it out of the registrant's name, where it is one that nvme_registrant_name has made; else
// zeroes, for who came by another protocol has none that a host could know.
static void hostid_of(const struct registrant *registrant, uint8_t ret[NVME_HOSTID_LEN])
{
    const size_t prefix_len = sizeof name_prefix - 1;
    const char *digits = registrant->name + prefix_len;
    bool is_host = strncmp(registrant->name, name_prefix, prefix_len) == 0 &&
                   strspn(digits, "0123456789abcdef") == 2 * NVME_HOSTID_LEN &&
                   digits[2 * NVME_HOSTID_LEN] == '\0';
    memset(ret, 0, NVME_HOSTID_LEN);
    for (unsigned i = 0; is_host && i < NVME_HOSTID_LEN; i++) {
        char octet[3] = {digits[2 * (size_t)i], digits[2 * (size_t)i + 1]};
        ret[i] = (uint8_t)strtoul(octet, NULL, 16);
    }
}

// Each controller of the registrant's host; one of no controller, if there is none.
static void registrant_put(struct report *report, const struct nvme_command *command,
                           const struct reservation *r, const struct registrant *registrant)
{
    const struct nvme_target *target = command->queue->target;
    uint8_t hostid[NVME_HOSTID_LEN];
    uint32_t volume = command->queue->bindings[command->nsid - 1].volume;
    unsigned before = report->count;
    for (unsigned i = 0; i < NVME_CONTROLLER_COUNT_MAX; i++) {
        const struct nvme_controller *c = &target->controllers[i];
        char name[CLIENT_REGISTRANT_MAX];
        nvme_registrant_name(c->hostid, name);
        if (c->is_used && !c->is_discovery &&
            c->namespaces[command->nsid - 1].volume.number == volume &&
            strcmp(name, registrant->name) == 0) {
            entry_put(report, r, registrant, c->cntlid, c->hostid);
        }
    }
    if (report->count == before) {
        hostid_of(registrant, hostid);
        entry_put(report, r, registrant, NVME_CNTLID_DYNAMIC, hostid);
    }
}

static void on_report_scratch(struct nvme_command *command, instant_ns now)
{
    static const struct reservation none = {.can_persist = false};
    const struct reservation *r = reservation_of(command);
    uint8_t header[NVME_REPORT_HEADER_LEN] = {0};
    struct report report = {.at = command->data, .room = command->data_len};
    r = r != NULL ? r : &none;
    memset(report.at, 0, report.room);
    report.len = report.room < sizeof header ? report.room : (uint32_t)sizeof header;
    for (unsigned i = 0; i < r->registrant_count; i++) {
        registrant_put(&report, command, r, &r->registrants[i]);
    }
    put_le32(header + NVME_REPORT_OFF_GEN, r->generation);
    header[NVME_REPORT_OFF_RTYPE] = r->type;
    put_le16(header + NVME_REPORT_OFF_REGCTL, (uint16_t)report.count);
    header[NVME_REPORT_OFF_PTPLS] = r->persists;
    memcpy(report.at, header, report.room < sizeof header ? report.room : sizeof header);
    nvme_command_deliver_scratch(command, command->data_len);
}

// Hosts have identifiers of 128 bits, so reports are extended ones.
void nvme_reservation_report(struct nvme_command *command, instant_ns now)
{
    uint64_t len = ((uint64_t)dword_10(command) + 1) * 4;
    bool is_extended = (get_le32(command->sqe + NVME_SQE_OFF_CDW11) & NVME_REPORT_EDS) != 0;
    if (!is_extended) {
        nvme_command_refuse(command, NVME_HOSTID_FORMAT, NVME_SQE_OFF_CDW11);
    } else if (len > REPORT_LEN_MAX) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_SQE_OFF_CDW10);
    } else if (nvme_command_can_move(command, (uint32_t)len)) {
        nvme_scratch_take(command, (uint32_t)len, on_report_scratch, now);
    }
}
