// What Get Log Page answers.

#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/volume.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"

enum { SMART_UNIT_LEN = 512 * 1000, ROOM_KELVIN = 293, LOG_UNIT_LEN = 4 };

// A part of a log: octets [from, from + len) of it, into `out`, which is zeroed.
struct part {
    uint8_t *out;
    uint64_t from;
    uint32_t len;
    uint8_t lsp; // what the command says of which part
};

// Of the log's octets [at, at + len), those that the part wants.
static void part_put(const struct part *part, uint64_t at, const void *octets, uint32_t len)
{
    uint64_t first = at > part->from ? at : part->from;
    uint64_t end = at + len < part->from + part->len ? at + len : part->from + part->len;
    if (first < end) {
        memcpy(part->out + (first - part->from), (const uint8_t *)octets + (first - at),
               end - first);
    }
}

/* ---- error information ----------------------------------------------------------------------- */

static uint64_t error_len(const struct nvme_controller *c)
{
    return (uint64_t)NVME_ERROR_LOG_COUNT * NVME_ERROR_LEN;
}

static void error_emit(const struct nvme_controller *c, const struct part *part)
{
    for (uint64_t i = 0; i < NVME_ERROR_LOG_COUNT && i < c->error_count; i++) {
        const struct nvme_error *error = &c->errors[(c->error_count - i) % NVME_ERROR_LOG_COUNT];
        uint8_t entry[NVME_ERROR_LEN] = {0};
        put_le64(entry + NVME_ERROR_OFF_COUNT, error->count);
        put_le16(entry + NVME_ERROR_OFF_SQID, error->sqid);
        put_le16(entry + NVME_ERROR_OFF_CID, error->cid);
        put_le16(entry + NVME_ERROR_OFF_STATUS, (uint16_t)(error->status << NVME_CQE_STATUS_SHIFT));
        put_le16(entry + NVME_ERROR_OFF_LOCATION, error->location);
        put_le64(entry + NVME_ERROR_OFF_LBA, error->lba);
        put_le32(entry + NVME_ERROR_OFF_NSID, error->nsid);
        entry[NVME_ERROR_OFF_TRTYPE] = c->queues[0]->parts.transport->trtype;
        part_put(part, i * NVME_ERROR_LEN, entry, sizeof entry);
    }
}

/* ---- SMART, firmware, changed namespaces ----------------------------------------------------- */

static uint64_t smart_len(const struct nvme_controller *c)
{
    return NVME_SMART_LEN;
}

static void smart_emit(const struct nvme_controller *c, const struct part *part)
{
    uint8_t log[NVME_SMART_LEN] = {0};
    put_le16(log + NVME_SMART_OFF_TEMPERATURE, ROOM_KELVIN); // there is no sensor
    log[NVME_SMART_OFF_SPARE] = 100;
    put_le64(log + NVME_SMART_OFF_DATA_UNITS_READ,
             (c->octets_read + SMART_UNIT_LEN - 1) / SMART_UNIT_LEN);
    put_le64(log + NVME_SMART_OFF_DATA_UNITS_WRITTEN,
             (c->octets_written + SMART_UNIT_LEN - 1) / SMART_UNIT_LEN);
    put_le64(log + NVME_SMART_OFF_READ_COMMANDS, c->reads);
    put_le64(log + NVME_SMART_OFF_WRITE_COMMANDS, c->writes);
    put_le64(log + NVME_SMART_OFF_ERROR_COUNT, c->error_count);
    part_put(part, 0, log, sizeof log);
}

static uint64_t firmware_len(const struct nvme_controller *c)
{
    return NVME_FIRMWARE_LEN;
}

static void firmware_emit(const struct nvme_controller *c, const struct part *part)
{
    uint8_t log[NVME_FIRMWARE_LEN] = {0};
    log[NVME_FIRMWARE_OFF_ACTIVE] = 1;
    memcpy(log + NVME_FIRMWARE_OFF_SLOTS, "1       ", NVME_CTRL_FR_LEN);
    part_put(part, 0, log, sizeof log);
}

static uint64_t changed_len(const struct nvme_controller *c)
{
    return NVME_CHANGED_NAMESPACES_LEN;
}

static void changed_emit(const struct nvme_controller *c, const struct part *part)
{
    uint64_t at = 0;
    for (uint32_t nsid = 1; nsid <= NVME_NAMESPACE_COUNT_MAX; nsid++) {
        if (c->namespaces[nsid - 1].has_changed) {
            uint8_t number[4];
            put_le32(number, nsid);
            part_put(part, at, number, sizeof number);
            at += sizeof number;
        }
    }
}

/* ---- commands, features and their effects, reservations -------------------------------------- */

static uint64_t effects_len(const struct nvme_controller *c)
{
    return NVME_EFFECTS_LEN;
}

static void effects_emit(const struct nvme_controller *c, const struct part *part)
{
    for (unsigned opcode = 0; opcode <= UINT8_MAX; opcode++) {
        uint8_t effects[4];
        put_le32(effects, nvme_admin_effects(c, (uint8_t)opcode));
        part_put(part, 4 * (uint64_t)opcode, effects, sizeof effects);
        put_le32(effects, nvme_io_effects(c, (uint8_t)opcode));
        part_put(part, NVME_EFFECTS_OFF_IO + 4 * (uint64_t)opcode, effects, sizeof effects);
    }
}

static uint64_t features_len(const struct nvme_controller *c)
{
    return NVME_SUPPORTED_LEN;
}

static void features_emit(const struct nvme_controller *c, const struct part *part)
{
    for (unsigned fid = 0; fid <= UINT8_MAX; fid++) {
        uint8_t effects[4];
        put_le32(effects, nvme_feature_effects((uint8_t)fid));
        part_put(part, 4 * (uint64_t)fid, effects, sizeof effects);
    }
}

static uint64_t mi_effects_len(const struct nvme_controller *c)
{
    return NVME_MI_EFFECTS_LEN;
}

static void mi_effects_emit(const struct nvme_controller *c, const struct part *part)
{
    // Nothing of NVMe-MI is there; who has the logs of the others has this one too (LPA).
}

static uint64_t notice_len(const struct nvme_controller *c)
{
    return NVME_NOTICE_LEN;
}

static void notice_emit(const struct nvme_controller *c, const struct part *part)
{
    uint8_t page[NVME_NOTICE_LEN] = {0};
    nvme_notice_emit(c, page);
    part_put(part, 0, page, sizeof page);
}

/* ---- asymmetric access ----------------------------------------------------------------------- */

// As long as it may become: hosts make that of NANAGRPID and MNAN, and ask for it in pieces.
static uint64_t access_len(const struct nvme_controller *c)
{
    enum { NSID_LEN = 4 };
    return NVME_ANA_HEADER_LEN + NVME_NAMESPACE_COUNT_MAX * (NVME_ANA_GROUP_LEN + NSID_LEN);
}

// In order of the groups, which are numbered as the namespaces are.
static void access_emit(const struct nvme_controller *c, const struct part *part)
{
    bool is_brief = (part->lsp & NVME_GET_LOG_RGO) != 0;
    uint8_t header[NVME_ANA_HEADER_LEN] = {0};
    uint64_t at = NVME_ANA_HEADER_LEN;
    uint16_t count = 0;
    for (uint32_t nsid = 0; (nsid = nvme_namespace_next(c, nsid)) != 0; count++) {
        const struct nvme_namespace *ns = &c->namespaces[nsid - 1];
        uint8_t group[NVME_ANA_GROUP_LEN + sizeof nsid] = {0};
        uint32_t len = is_brief ? NVME_ANA_GROUP_LEN : sizeof group;
        put_le32(group + NVME_ANA_GROUP_OFF_GRPID, nvme_access_group(nsid));
        put_le32(group + NVME_ANA_GROUP_OFF_NNSIDS, is_brief ? 0 : 1);
        put_le64(group + NVME_ANA_GROUP_OFF_CHGCNT, ns->access_changes);
        group[NVME_ANA_GROUP_OFF_STATE] =
            ns->is_inaccessible ? NVME_ANA_STATE_INACCESSIBLE : NVME_ANA_STATE_OPTIMIZED;
        put_le32(group + NVME_ANA_GROUP_LEN, nsid);
        part_put(part, at, group, len);
        at += len;
    }
    put_le64(header + NVME_ANA_OFF_CHGCNT, c->access_changes);
    put_le16(header + NVME_ANA_OFF_NGRPS, count);
    part_put(part, 0, header, sizeof header);
}

/* ---- discovery ------------------------------------------------------------------------------- */

// The numbers of the volumes that anybody could be shown.
uint64_t nvme_discovery_digest(const struct nvme_target *target)
{
    const struct resource_table *table = nvme_resources(target);
    uint64_t digest = 0;
    for (size_t i = 0; i < table->count; i++) {
        if (resource_is_there(&table->rows[i])) {
            digest = digest * UINT64_C(0x100000001b3) + table->rows[i].volume;
        }
    }
    return digest;
}

static bool is_shown_at(const struct nvme_controller *c, const struct resource *row,
                        unsigned listener)
{
    return resource_is_there(row) &&
           nvme_may_see_by(c->target, row, &c->client, c->target->listeners[listener].trtype);
}

// A subsystem has its entry of a listener where the first of its volumes stands that the host may
// see there.
static bool has_entry(const struct nvme_controller *c, const struct resource_table *table,
                      size_t at, unsigned listener)
{
    const struct resource *row = &table->rows[at];
    const char *group = nvme_group(row);
    for (size_t i = 0; i < at && group[0] != '\0'; i++) {
        if (strcmp(nvme_group(&table->rows[i]), group) == 0 &&
            is_shown_at(c, &table->rows[i], listener)) {
            return false;
        }
    }
    return is_shown_at(c, row, listener);
}

static uint64_t discovery_count(const struct nvme_controller *c)
{
    const struct resource_table *table = nvme_resources(c->target);
    uint64_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        for (unsigned j = 0; j < c->target->listener_count; j++) {
            count += has_entry(c, table, i, j);
        }
    }
    return count;
}

static uint64_t discovery_len(const struct nvme_controller *c)
{
    return NVME_DISCOVERY_HEADER_LEN + discovery_count(c) * NVME_ENTRY_LEN;
}

// A listener at every address is told of by the one that this host came to.
static const char *address_for(const struct nvme_controller *c,
                               const struct nvme_listener *listener)
{
    const char *own = c->queues[0]->parts.local_address;
    bool is_6 = strchr(own, ':') != NULL;
    bool is_alike = is_6 == (listener->adrfam == NVME_ADRFAM_IPV6);
    return listener->is_wildcard && is_alike && own[0] != '\0' ? own : listener->address;
}

static void entry_emit(const struct nvme_controller *c, const struct resource *row,
                       unsigned listener, uint8_t entry[NVME_ENTRY_LEN])
{
    const struct nvme_listener *l = &c->target->listeners[listener];
    char nqn[NVME_NQN_MAX];
    memset(entry, 0, NVME_ENTRY_LEN);
    nvme_subsystem_nqn(row, nqn);
    entry[NVME_ENTRY_OFF_TRTYPE] = l->trtype;
    entry[NVME_ENTRY_OFF_ADRFAM] = l->adrfam;
    entry[NVME_ENTRY_OFF_SUBTYPE] = NVME_SUBTYPE_NVM;
    entry[NVME_ENTRY_OFF_TREQ] = NVME_TREQ_SQ_FLOW_CONTROL_OPTIONAL;
    put_le16(entry + NVME_ENTRY_OFF_PORTID, (uint16_t)(listener + 1));
    put_le16(entry + NVME_ENTRY_OFF_CNTLID, NVME_CNTLID_DYNAMIC);
    put_le16(entry + NVME_ENTRY_OFF_ASQSZ, NVME_QUEUE_DEPTH_MAX);
    nvme_text_put(entry + NVME_ENTRY_OFF_TRSVCID, NVME_ENTRY_TRSVCID_LEN, l->service);
    nvme_text_put(entry + NVME_ENTRY_OFF_TRADDR, NVME_ENTRY_TRADDR_LEN, address_for(c, l));
    memcpy(entry + NVME_ENTRY_OFF_SUBNQN, nqn, strlen(nqn));
    memcpy(entry + NVME_ENTRY_OFF_TSAS, l->tsas, sizeof l->tsas);
}

static void discovery_emit(const struct nvme_controller *c, const struct part *part)
{
    const struct resource_table *table = nvme_resources(c->target);
    uint8_t header[NVME_DISCOVERY_HEADER_LEN] = {0}, entry[NVME_ENTRY_LEN];
    uint64_t at = NVME_DISCOVERY_HEADER_LEN;
    put_le64(header + NVME_DISCOVERY_OFF_GENCTR, c->target->discovery_generation);
    put_le64(header + NVME_DISCOVERY_OFF_NUMREC, discovery_count(c));
    part_put(part, 0, header, sizeof header);
    for (size_t i = 0; i < table->count; i++) {
        for (unsigned j = 0; j < c->target->listener_count; j++) {
            if (!has_entry(c, table, i, j)) {
                continue;
            }
            bool is_wanted = at < part->from + part->len && at + NVME_ENTRY_LEN > part->from;
            if (is_wanted) {
                entry_emit(c, &table->rows[i], j, entry);
                part_put(part, at, entry, sizeof entry);
            }
            at += NVME_ENTRY_LEN;
        }
    }
}

/* ---- the command ----------------------------------------------------------------------------- */

static uint64_t supported_len(const struct nvme_controller *c)
{
    return NVME_SUPPORTED_LEN;
}

static void supported_emit(const struct nvme_controller *c, const struct part *part);

static const struct log_facts {
    uint8_t lid;
    bool is_for_io, is_for_discovery;
    uint32_t event; // that reading it lets be reported again
    uint64_t (*len)(const struct nvme_controller *c);
    void (*emit)(const struct nvme_controller *c, const struct part *part);
} logs[] = {
    {NVME_LOG_SUPPORTED, true, true, 0, supported_len, supported_emit},
    {NVME_LOG_ERROR, true, true, 0, error_len, error_emit},
    {NVME_LOG_SMART, true, false, 0, smart_len, smart_emit},
    {NVME_LOG_FIRMWARE, true, false, 0, firmware_len, firmware_emit},
    {NVME_LOG_CHANGED_NAMESPACES, true, false, NVME_EVENT_NAMESPACE_ATTRIBUTES, changed_len,
     changed_emit},
    {NVME_LOG_EFFECTS, true, false, 0, effects_len, effects_emit},
    {NVME_LOG_ANA, true, false, NVME_EVENT_ANA_CHANGE, access_len, access_emit},
    {NVME_LOG_FEATURES, true, true, 0, features_len, features_emit},
    {NVME_LOG_MI_EFFECTS, true, false, 0, mi_effects_len, mi_effects_emit},
    {NVME_LOG_RESERVATION, true, false, NVME_EVENT_RESERVATION, notice_len, notice_emit},
    {NVME_LOG_DISCOVERY, false, true, NVME_EVENT_DISCOVERY_CHANGE, discovery_len, discovery_emit},
};

static const struct log_facts *facts_of(const struct nvme_controller *c, uint8_t lid)
{
    for (unsigned i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        bool is_here = c->is_discovery ? logs[i].is_for_discovery : logs[i].is_for_io;
        if (logs[i].lid == lid && is_here) {
            return &logs[i];
        }
    }
    return NULL;
}

static void supported_emit(const struct nvme_controller *c, const struct part *part)
{
    for (unsigned lid = 0; lid <= UINT8_MAX; lid++) {
        uint8_t is_there[4];
        put_le32(is_there, facts_of(c, (uint8_t)lid) != NULL ? NVME_SUPPORTED : 0);
        part_put(part, 4 * (uint64_t)lid, is_there, sizeof is_there);
    }
}

static void note_read(struct nvme_controller *c, const struct nvme_command *command, uint32_t event)
{
    bool keeps_event = (command->sqe[NVME_GET_LOG_OFF_LSP] & NVME_GET_LOG_RAE) != 0;
    if (keeps_event || event == 0) {
        return;
    }
    if (event == NVME_EVENT_NAMESPACE_ATTRIBUTES) {
        nvme_namespaces_read(c);
    }
    nvme_event_read(c, event);
    if (event == NVME_EVENT_RESERVATION) {
        nvme_notice_read(c);
    }
}

static uint64_t len_asked(const struct nvme_command *command)
{
    uint64_t units = (uint64_t)get_le16(command->sqe + NVME_GET_LOG_OFF_NUMDU) << 16 |
                     get_le16(command->sqe + NVME_GET_LOG_OFF_NUMDL);
    return (units + 1) * LOG_UNIT_LEN;
}

// As much as the scratch has room for, from where the last piece ended.
static void deliver_next(struct nvme_command *command, instant_ns now)
{
    struct nvme_controller *c = command->queue->controller;
    const struct log_facts *facts = facts_of(c, command->sqe[NVME_GET_LOG_OFF_LID]);
    uint32_t at = command->data_at + (command->has_more ? command->data_len : 0);
    uint32_t left = (uint32_t)len_asked(command) - at;
    struct part part = {.out = command->data,
                        .from = get_le64(command->sqe + NVME_GET_LOG_OFF_LPO) + at,
                        .len = left < NVME_SCRATCH_LEN ? left : NVME_SCRATCH_LEN,
                        .lsp = command->sqe[NVME_GET_LOG_OFF_LSP]};
    memset(part.out, 0, part.len);
    facts->emit(c, &part);
    command->data_at = at;
    if (part.len < left) {
        nvme_command_deliver_piece(command, part.len, deliver_next);
        return;
    }
    command->has_more = false; // the last
    note_read(c, command, facts->event);
    nvme_command_deliver_scratch(command, part.len);
}

// Logs are the controller's; who names a namespace wants another one.
static bool is_of_controller(const struct nvme_command *command)
{
    uint32_t nsid = get_le32(command->sqe + NVME_SQE_OFF_NSID);
    return nsid == 0 || nsid == NVME_NSID_ALL;
}

// What the controller says that a command may move (MDTS).
static uint64_t len_max(const struct nvme_controller *c)
{
    return c->is_discovery ? NVME_DISCOVERY_DATA_LEN_MAX : NVME_DATA_LEN_MAX;
}

void nvme_get_log(struct nvme_command *command, instant_ns now)
{
    struct nvme_controller *c = command->queue->controller;
    const struct log_facts *facts = facts_of(c, command->sqe[NVME_GET_LOG_OFF_LID]);
    uint64_t offset = get_le64(command->sqe + NVME_GET_LOG_OFF_LPO);
    uint64_t len = len_asked(command);
    if (facts == NULL) {
        nvme_command_refuse(command, NVME_INVALID_LOG_PAGE, NVME_GET_LOG_OFF_LID);
    } else if (!is_of_controller(command)) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_SQE_OFF_NSID);
    } else if (len > len_max(c)) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_GET_LOG_OFF_NUMDL);
    } else if (offset > facts->len(c) || offset % LOG_UNIT_LEN != 0) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_GET_LOG_OFF_LPO);
    } else if (nvme_command_can_move(command, (uint32_t)len)) {
        nvme_scratch_take(command, 0, deliver_next, now);
    }
}
