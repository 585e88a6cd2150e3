// What Identify answers.

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fnv.h"
#include "base/time.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"
#include "node/nvme/agent.h"
#include "node/nvme/controller.h"
#include "node/nvme/sgl.h"
#include "text/show.h"

enum {
    WZSL_LOG2 = 13,       // Write Zeroes of 4096 octets times 2 to this
    NVM_CTRL_OFF_VSL = 0, // of Verify, likewise
    NVM_CTRL_OFF_WZSL = 1,
    IN_CAPSULE_UNIT = 16,
    DESCRIPTORS_LEN = NVME_DESCRIPTOR_OFF_NID,
    ACCESS_CHANGES_WITHIN_S = 10,
    SERIAL_MAX = 2 * VOLUME_UUID_LEN + 1,
};

static uint32_t nsid_of(const struct nvme_command *command)
{
    return get_le32(command->sqe + NVME_SQE_OFF_NSID);
}

// NULL: the controller has no namespace of this number.
static const struct resource *row_of(struct nvme_controller *c, uint32_t nsid)
{
    const struct nvme_namespace *ns = nvme_namespace_find(c, nsid);
    return ns != NULL ? resource_by_volume(nvme_resources(c->target), ns->volume.number) : NULL;
}

/* ---- the controller -------------------------------------------------------------------------- */

// What a subsystem is called, and its serial number: of a volume that stands alone they are its
// own; those of a group are made of its name, since any of its volumes may go.
static void subsystem_name(const struct nvme_controller *c, const struct resource *row,
                           const char **ret_name, char ret_serial[SERIAL_MAX])
{
    const char *colon = strrchr(c->subnqn, ':');
    if (row != NULL && nvme_group(row)[0] == '\0') {
        *ret_name = row->name;
        text_hex(row->identity.uuid, VOLUME_UUID_LEN, ret_serial);
    } else {
        *ret_name = colon != NULL && colon[1] != '\0' ? colon + 1 : c->subnqn;
        snprintf(ret_serial, SERIAL_MAX, "weft%016" PRIx64, fnv_text(FNV_START, c->subnqn));
    }
}

static void name_controller(struct nvme_controller *c, uint8_t *page)
{
    char serial[SERIAL_MAX] = "discovery", model[NVME_CTRL_MN_LEN + 1];
    const char *name = "discovery";
    if (!c->is_discovery) {
        subsystem_name(c, row_of(c, nvme_namespace_next(c, 0)), &name, serial);
    }
    snprintf(model, sizeof model, "weft %.*s", NVME_CTRL_MN_LEN - 5, name);
    nvme_text_put(page + NVME_CTRL_OFF_SN, NVME_CTRL_SN_LEN, serial);
    nvme_text_put(page + NVME_CTRL_OFF_MN, NVME_CTRL_MN_LEN, model);
    nvme_text_put(page + NVME_CTRL_OFF_FR, NVME_CTRL_FR_LEN, "1");
    memcpy(page + NVME_CTRL_OFF_SUBNQN, c->subnqn, strlen(c->subnqn));
}

static void fabrics_attributes(const struct nvme_command *command, uint8_t *page)
{
    const struct nvme_controller *c = command->queue->controller;
    const struct nvme_transport *transport = command->queue->parts.transport;
    uint32_t in_capsule_len = c->is_discovery ? 0 : transport->in_capsule_len_max;
    uint32_t sgls = NVME_SGLS_SUPPORTED | NVME_SGLS_OFFSET;
    sgls |= (transport->sgl_kinds & NVME_SGL_KIND_KEYED) != 0 ? NVME_SGLS_KEYED : 0;
    sgls |= (transport->sgl_kinds & NVME_SGL_KIND_TRANSPORT) != 0 ? NVME_SGLS_TRANSPORT : 0;
    put_le32(page + NVME_CTRL_OFF_SGLS, sgls);
    put_le32(page + NVME_CTRL_OFF_IOCCSZ, (NVME_SQE_LEN + in_capsule_len) / IN_CAPSULE_UNIT);
    put_le32(page + NVME_CTRL_OFF_IORCSZ, NVME_CQE_LEN / IN_CAPSULE_UNIT);
    page[NVME_CTRL_OFF_MSDBD] = 1;
}

static uint16_t optional_commands(uint32_t abilities)
{
    return (uint16_t)(((abilities & VOLUME_CAN_TRIM) != 0 ? NVME_ONCS_DSM : 0) |
                      ((abilities & VOLUME_CAN_WRITE_ZEROES) != 0 ? NVME_ONCS_WRITE_ZEROES : 0) |
                      ((abilities & VOLUME_CAN_WRITE) != 0 ? NVME_ONCS_COPY : 0) |
                      NVME_ONCS_COMPARE | NVME_ONCS_SAVE_SELECT | NVME_ONCS_RESERVATIONS |
                      NVME_ONCS_VERIFY);
}

// In blocks of any of the namespaces.
static uint16_t swap_blocks_max(const struct nvme_controller *c)
{
    uint32_t block_len = 1;
    for (uint32_t nsid = 0; (nsid = nvme_namespace_next(c, nsid)) != 0;) {
        uint32_t its = c->namespaces[nsid - 1].volume.block_len;
        block_len = its > block_len ? its : block_len;
    }
    uint32_t blocks = NODE_SWAP_MAX / block_len;
    return (uint16_t)(blocks < UINT16_MAX ? blocks : UINT16_MAX);
}

static void commands_attributes(const struct nvme_controller *c, uint8_t *page)
{
    uint32_t abilities = nvme_namespace_abilities(c);
    page[NVME_CTRL_OFF_SQES] = NVME_SQE_LEN_LOG2 << 4 | NVME_SQE_LEN_LOG2;
    page[NVME_CTRL_OFF_CQES] = NVME_CQE_LEN_LOG2 << 4 | NVME_CQE_LEN_LOG2;
    put_le32(page + NVME_CTRL_OFF_NN, NVME_NAMESPACE_COUNT_MAX);
    put_le16(page + NVME_CTRL_OFF_ONCS, optional_commands(abilities));
    put_le16(page + NVME_CTRL_OFF_OCFS, NVME_OCFS_FORMAT_0);
    put_le16(page + NVME_CTRL_OFF_FUSES, NVME_FUSES_COMPARE_AND_WRITE);
    put_le16(page + NVME_CTRL_OFF_ACWU, swap_blocks_max(c) - 1);
    page[NVME_CTRL_OFF_VWC] = NVME_VWC_FLUSHES_ALL;
    page[NVME_CTRL_OFF_VWC] |= (abilities & VOLUME_CAN_FLUSH) != 0 ? NVME_VWC_PRESENT : 0;
}

// Each namespace is a group of its own, for its volume has one node at a time.
static void access_attributes(uint8_t *page)
{
    page[NVME_CTRL_OFF_ANATT] = ACCESS_CHANGES_WITHIN_S;
    page[NVME_CTRL_OFF_ANACAP] =
        NVME_ANACAP_OPTIMIZED | NVME_ANACAP_INACCESSIBLE | NVME_ANACAP_GROUP_STAYS;
    put_le32(page + NVME_CTRL_OFF_ANAGRPMAX, NVME_NAMESPACE_COUNT_MAX);
    put_le32(page + NVME_CTRL_OFF_NANAGRPID, NVME_NAMESPACE_COUNT_MAX);
    put_le32(page + NVME_CTRL_OFF_MNAN, NVME_NAMESPACE_COUNT_MAX); // ANA wants it said
}

static void emit_controller(const struct nvme_command *command, uint8_t *page)
{
    struct nvme_controller *c = command->queue->controller;
    name_controller(c, page);
    page[NVME_CTRL_OFF_CMIC] = NVME_CMIC_MULTI_CONTROLLER | (c->is_discovery ? 0 : NVME_CMIC_ANA);
    page[NVME_CTRL_OFF_MDTS] = c->is_discovery ? NVME_DISCOVERY_MDTS_LOG2 : NVME_MDTS_LOG2;
    put_le16(page + NVME_CTRL_OFF_CNTLID, c->cntlid);
    put_le32(page + NVME_CTRL_OFF_VER, NVME_VERSION_1_4);
    put_le32(page + NVME_CTRL_OFF_OAES, nvme_events_offered(c));
    put_le32(page + NVME_CTRL_OFF_CTRATT, NVME_CTRATT_HOSTID_128 | NVME_CTRATT_TRAFFIC_KEEPS_ALIVE);
    page[NVME_CTRL_OFF_CNTRLTYPE] = c->is_discovery ? NVME_CNTRLTYPE_DISCOVERY : NVME_CNTRLTYPE_IO;
    page[NVME_CTRL_OFF_ACL] = 3;
    page[NVME_CTRL_OFF_AERL] = NVME_EVENT_REQUEST_MAX - 1;
    page[NVME_CTRL_OFF_FRMW] = 1 << 1 | 1; // one slot, which cannot be written
    page[NVME_CTRL_OFF_LPA] =
        NVME_LPA_EXTENDED | (c->is_discovery ? 0 : NVME_LPA_EFFECTS | NVME_LPA_SUPPORTED);
    page[NVME_CTRL_OFF_ELPE] = NVME_ERROR_LOG_COUNT - 1;
    put_le16(page + NVME_CTRL_OFF_KAS, 1);
    put_le16(page + NVME_CTRL_OFF_MAXCMD, NVME_QUEUE_DEPTH_MAX);
    if (!c->is_discovery) {
        commands_attributes(c, page);
        access_attributes(page);
    }
    fabrics_attributes(command, page);
}

static void emit_controller_nvm(const struct nvme_command *command, uint8_t *page)
{
    page[NVM_CTRL_OFF_VSL] = NVME_MDTS_LOG2;
    page[NVM_CTRL_OFF_WZSL] = WZSL_LOG2;
}

/* ---- the namespace --------------------------------------------------------------------------- */

static uint8_t log2_of(uint32_t number)
{
    uint8_t log2 = 0;
    while (number > 1) {
        number >>= 1;
        log2++;
    }
    return log2;
}

// Preferred lengths, of blocks less 1.
static void granularity(const struct nvme_volume *volume, const struct resource *row, uint8_t *page)
{
    uint32_t blocks = row->profile.preferred / volume->block_len;
    uint16_t less_1 = blocks == 0 || blocks > 65536 ? 0 : (uint16_t)(blocks - 1);
    put_le16(page + NVME_NS_OFF_NPWG, less_1);
    put_le16(page + NVME_NS_OFF_NPWA, less_1);
    put_le16(page + NVME_NS_OFF_NPDG, less_1);
    put_le16(page + NVME_NS_OFF_NPDA, less_1);
    put_le16(page + NVME_NS_OFF_NOWS, less_1);
}

static void copy_limits(const struct nvme_volume *volume, uint8_t *page)
{
    uint32_t blocks = nvme_copy_blocks_max(volume->block_len);
    put_le16(page + NVME_NS_OFF_MSSRL, (uint16_t)blocks);
    put_le32(page + NVME_NS_OFF_MCL, blocks);
    page[NVME_NS_OFF_MSRC] = NVME_COPY_RANGE_MAX - 1;
}

static uint8_t reservation_abilities(const struct nvme_controller *c, uint32_t nsid)
{
    const struct reservation *r = nvme_reservation_of(c, nsid);
    if (r == NULL) {
        return 0;
    }
    return (uint8_t)(NVME_RESCAP_TYPES | NVME_RESCAP_IEKEY |
                     (r->can_persist ? NVME_RESCAP_PTPL : 0));
}

static uint8_t attributes(const struct nvme_volume *volume)
{
    return (volume->abilities & VOLUME_CAN_WRITE) != 0 ? 0 : NVME_NSATTR_WRITE_PROTECTED;
}

static void emit_namespace(const struct nvme_command *command, uint8_t *page)
{
    struct nvme_controller *c = command->queue->controller;
    const struct resource *row = row_of(c, nsid_of(command));
    if (row == NULL) {
        return; // a number that no namespace has now
    }
    const struct nvme_volume *volume = &nvme_namespace_find(c, nsid_of(command))->volume;
    bool can_trim = (volume->abilities & VOLUME_CAN_TRIM) != 0;
    bool can_zero = (volume->abilities & VOLUME_CAN_WRITE_ZEROES) != 0;
    put_le64(page + NVME_NS_OFF_NSZE, volume->blocks);
    put_le64(page + NVME_NS_OFF_NCAP, volume->blocks);
    put_le64(page + NVME_NS_OFF_NUSE, volume->blocks);
    page[NVME_NS_OFF_NSFEAT] =
        (uint8_t)(NVME_NSFEAT_OPTIMAL_IO | (can_trim ? NVME_NSFEAT_THIN : 0));
    page[NVME_NS_OFF_NMIC] = NVME_NMIC_SHARED;
    page[NVME_NS_OFF_RESCAP] = reservation_abilities(c, nsid_of(command));
    put_le32(page + NVME_NS_OFF_ANAGRPID, nvme_access_group(nsid_of(command)));
    page[NVME_NS_OFF_DLFEAT] =
        can_trim && can_zero ? NVME_DLFEAT_READS_ZEROES | NVME_DLFEAT_WRITE_ZEROES_DEALLOCATES : 0;
    granularity(volume, row, page);
    copy_limits(volume, page);
    page[NVME_NS_OFF_NSATTR] = attributes(volume);
    memcpy(page + NVME_NS_OFF_NGUID, row->identity.alias, VOLUME_UUID_LEN);
    page[NVME_NS_OFF_LBAF + NVME_NS_LBAF_OFF_LBADS] = log2_of(volume->block_len);
    volume_lineage_emit(row, page + NVME_NS_OFF_VENDOR);
}

static void emit_common(const struct nvme_command *command, uint8_t *page)
{
    struct nvme_controller *c = command->queue->controller;
    const struct nvme_namespace *ns = nvme_namespace_find(c, nsid_of(command));
    if (ns == NULL) {
        return; // as above
    }
    page[NVME_COMMON_OFF_NMIC] = NVME_NMIC_SHARED;
    page[NVME_COMMON_OFF_RESCAP] = reservation_abilities(c, nsid_of(command));
    put_le32(page + NVME_COMMON_OFF_ANAGRPID, nvme_access_group(nsid_of(command)));
    page[NVME_COMMON_OFF_NSATTR] = attributes(&ns->volume);
    page[NVME_COMMON_OFF_NSTAT] = NVME_NSTAT_READY;
}

static uint8_t *emit_descriptor(uint8_t *at, uint8_t type, const uint8_t *id, uint8_t len)
{
    at[NVME_DESCRIPTOR_OFF_NIDT] = type;
    at[NVME_DESCRIPTOR_OFF_NIDL] = len;
    memcpy(at + NVME_DESCRIPTOR_OFF_NID, id, len);
    return at + DESCRIPTORS_LEN + len;
}

static void emit_descriptors(const struct nvme_command *command, uint8_t *page)
{
    static const uint8_t nvm = 0; // the command set
    const struct resource *row = row_of(command->queue->controller, nsid_of(command));
    if (row != NULL) {
        page = emit_descriptor(page, NVME_NIDT_UUID, row->identity.uuid, VOLUME_UUID_LEN);
        page = emit_descriptor(page, NVME_NIDT_NGUID, row->identity.alias, VOLUME_UUID_LEN);
        emit_descriptor(page, NVME_NIDT_CSI, &nvm, 1);
    }
}

static void emit_namespace_list(const struct nvme_command *command, uint8_t *page)
{
    uint32_t nsid = nsid_of(command);
    for (; (nsid = nvme_namespace_next(command->queue->controller, nsid)) != 0; page += 4) {
        put_le32(page, nsid);
    }
}

// Has it the namespace that the command names, if it names one?
static bool has_named(const struct nvme_command *command, const struct nvme_controller *c)
{
    const struct nvme_controller *own = command->queue->controller;
    uint32_t nsid = nsid_of(command);
    bool is_named = command->sqe[NVME_IDENTIFY_OFF_CNS] == NVME_CNS_NAMESPACE_CONTROLLER_LIST;
    return !is_named ||
           c->namespaces[nsid - 1].volume.number == own->namespaces[nsid - 1].volume.number;
}

// Those of this subsystem, in order, from the one that CDW10's upper half names.
static void emit_controller_list(const struct nvme_command *command, uint8_t *page)
{
    const struct nvme_controller *own = command->queue->controller;
    uint16_t from = get_le16(command->sqe + NVME_IDENTIFY_OFF_CNS + 2), count = 0;
    for (unsigned i = 0; i < NVME_CONTROLLER_COUNT_MAX; i++) {
        const struct nvme_controller *c = &own->target->controllers[i];
        if (c->is_used && !c->is_discovery && c->cntlid >= from &&
            strcmp(c->subnqn, own->subnqn) == 0 && has_named(command, c)) {
            put_le16(page + 2 * (1 + count++), c->cntlid);
        }
    }
    put_le16(page, count);
}

static void emit_nothing(const struct nvme_command *command, uint8_t *page)
{
}

/* ---- the command ----------------------------------------------------------------------------- */

enum namespace_use { NO_NAMESPACE, OF_NAMESPACE, OF_NUMBER, ANY_NAMESPACE };

static const struct identify_facts {
    void (*emit)(const struct nvme_command *command, uint8_t *page);
    enum namespace_use use;
    bool is_for_discovery;
    bool has_csi;
} pages[] = {
    [NVME_CNS_NAMESPACE] = {emit_namespace, OF_NUMBER, false, false},
    [NVME_CNS_CONTROLLER] = {emit_controller, NO_NAMESPACE, true, false},
    [NVME_CNS_NAMESPACE_LIST] = {emit_namespace_list, ANY_NAMESPACE, false, false},
    [NVME_CNS_NAMESPACE_DESCRIPTORS] = {emit_descriptors, OF_NAMESPACE, false, false},
    [NVME_CNS_NAMESPACE_CSI] = {emit_nothing, OF_NAMESPACE, false, true},
    [NVME_CNS_CONTROLLER_CSI] = {emit_controller_nvm, NO_NAMESPACE, false, true},
    [NVME_CNS_NAMESPACE_COMMON] = {emit_common, OF_NUMBER, false, false},
    [NVME_CNS_NAMESPACE_CONTROLLER_LIST] = {emit_controller_list, OF_NAMESPACE, false, false},
    [NVME_CNS_CONTROLLER_LIST] = {emit_controller_list, NO_NAMESPACE, false, false},
};

// May the command name this namespace?
static bool namespace_fits(struct nvme_controller *c, enum namespace_use use, uint32_t nsid)
{
    switch (use) {
    case OF_NAMESPACE:
        return nvme_namespace_find(c, nsid) != NULL;
    case OF_NUMBER:
        return nsid >= 1 && nsid <= NVME_NAMESPACE_COUNT_MAX;
    case ANY_NAMESPACE:
        return nsid < NVME_NSID_ALL - 1;
    case NO_NAMESPACE:
        break;
    }
    return true;
}

static void on_scratch(struct nvme_command *command, instant_ns now)
{
    memset(command->data, 0, NVME_IDENTIFY_LEN);
    pages[command->sqe[NVME_IDENTIFY_OFF_CNS]].emit(command, command->data);
    nvme_command_deliver_scratch(command, NVME_IDENTIFY_LEN);
}

void nvme_identify(struct nvme_command *command, instant_ns now)
{
    struct nvme_controller *c = command->queue->controller;
    uint8_t cns = command->sqe[NVME_IDENTIFY_OFF_CNS];
    const struct identify_facts *facts = cns < sizeof pages / sizeof pages[0] ? &pages[cns] : NULL;
    if (facts == NULL || facts->emit == NULL || (c->is_discovery && !facts->is_for_discovery)) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_IDENTIFY_OFF_CNS);
    } else if (facts->has_csi && command->sqe[NVME_IDENTIFY_OFF_CSI] != 0) {
        nvme_command_refuse(command, NVME_INVALID_FIELD, NVME_IDENTIFY_OFF_CSI);
    } else if (!namespace_fits(c, facts->use, nsid_of(command))) {
        nvme_command_refuse(command, NVME_INVALID_NAMESPACE, NVME_SQE_OFF_NSID);
    } else if (nvme_command_can_move(command, NVME_IDENTIFY_LEN)) {
        nvme_scratch_take(command, NVME_IDENTIFY_LEN, on_scratch, now);
    }
}
