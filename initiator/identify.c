// What Identify and Get Log Page say of a controller, its namespaces, and a target's subsystems.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "initiator/agent.h"
#include "text/show.h"

enum {
    PAGE_LEN = 4096,
    TRANSFER_DEFAULT = 1 << 20, // where the controller names no limit
    DISCOVER_TRIES = 5,
    ENTRY_COUNT_MAX = 4096,
    BLOCK_SHIFT_MIN = 9,
    BLOCK_SHIFT_MAX = 16,
};

// Text padded with blanks, or ended by a zero; what is not printable becomes '?'.
static void text_take(const uint8_t *at, size_t len, char *ret, size_t capacity)
{
    size_t used = 0;
    while (used < len && used + 1 < capacity && at[used] != '\0') {
        ret[used] = text_ascii_char((char)at[used]);
        used++;
    }
    while (used > 0 && ret[used - 1] == ' ') {
        used--;
    }
    ret[used] = '\0';
}

/* ---- the controller -------------------------------------------------------------------------- */

static int identify(struct weft_nvme *nvme, uint8_t cns, uint32_t nsid, const char *name,
                    struct why *ret_why)
{
    const struct initiator_admin_command command = {.opcode = NVME_ADMIN_IDENTIFY,
                                                    .nsid = nsid,
                                                    .cdw10 = cns,
                                                    .data_len = NVME_IDENTIFY_LEN,
                                                    .name = name};
    memset(nvme->admin_data, 0, NVME_IDENTIFY_LEN);
    return initiator_admin_demand(nvme, &command, NULL, ret_why);
}

static uint32_t transfer_max(uint8_t mdts)
{
    uint64_t len = mdts == 0 || mdts > 12 ? TRANSFER_DEFAULT : (uint64_t)PAGE_LEN << mdts;
    uint64_t most = NVME_SGL_KEYED_LENGTH_MAX & ~(uint64_t)(PAGE_LEN - 1);
    return (uint32_t)(len < most ? len : most);
}

// What follows the SQE in a command capsule.
static uint32_t in_capsule_len(const struct weft_nvme *nvme, const uint8_t *data)
{
    uint64_t capsule = (uint64_t)get_le32(data + NVME_CTRL_OFF_IOCCSZ) * 16;
    bool has_offset = (get_le32(data + NVME_CTRL_OFF_SGLS) & NVME_SGLS_OFFSET) != 0;
    if (capsule <= NVME_SQE_LEN || !has_offset) {
        return 0;
    }
    uint64_t len = capsule - NVME_SQE_LEN;
    return (uint32_t)(len < IN_CAPSULE_MAX ? len : IN_CAPSULE_MAX);
}

int initiator_identify_controller(struct weft_nvme *nvme, struct why *ret_why)
{
    struct weft_nvme_info *info = &nvme->info;
    const uint8_t *data = nvme->admin_data;
    int error = identify(nvme, NVME_CNS_CONTROLLER, 0, "Identify Controller", ret_why);
    if (error != 0) {
        return error;
    }
    bool is_discovery = nvme->attr.queue_count == 0;
    bool is_keyed = (get_le32(data + NVME_CTRL_OFF_SGLS) & NVME_SGLS_KEYED) != 0;
    uint16_t number = get_le16(data + NVME_CTRL_OFF_CNTLID);
    if (number != info->controller) {
        return initiator_why(ret_why, -EPROTO, "controller %u identifies itself as %u",
                             info->controller, number);
    }
    if (!is_discovery &&
        ((nvme->carrier->takes_keyed && !is_keyed) || get_le16(data + NVME_CTRL_OFF_ICDOFF) != 0)) {
        return initiator_why(ret_why, -EPROTO,
                             "%s takes no keyed SGLs, or in-capsule data at an offset", info->nqn);
    }
    text_take(data + NVME_CTRL_OFF_SN, NVME_CTRL_SN_LEN, info->serial, sizeof info->serial);
    text_take(data + NVME_CTRL_OFF_MN, NVME_CTRL_MN_LEN, info->model, sizeof info->model);
    text_take(data + NVME_CTRL_OFF_FR, NVME_CTRL_FR_LEN, info->firmware, sizeof info->firmware);
    uint16_t onc = get_le16(data + NVME_CTRL_OFF_ONCS);
    info->namespace_count = get_le32(data + NVME_CTRL_OFF_NN);
    info->transfer_max_len = transfer_max(data[NVME_CTRL_OFF_MDTS]);
    info->in_capsule_len = in_capsule_len(nvme, data);
    info->depth = get_le16(data + NVME_CTRL_OFF_MAXCMD);
    info->has_volatile_cache = (data[NVME_CTRL_OFF_VWC] & NVME_VWC_PRESENT) != 0;
    info->can_trim = (onc & NVME_ONCS_DSM) != 0;
    info->can_write_zeroes = (onc & NVME_ONCS_WRITE_ZEROES) != 0;
    initiator_access_take(nvme);
    return 0;
}

/* ---- namespaces ------------------------------------------------------------------------------ */

static int namespaces_list(struct weft_nvme *nvme, uint32_t *ret_nsids, size_t count,
                           struct why *ret_why)
{
    size_t found = 0;
    uint32_t last = 0;
    while (found < count) {
        int error =
            identify(nvme, NVME_CNS_NAMESPACE_LIST, last, "Identify Namespace List", ret_why);
        if (error != 0) {
            return error;
        }
        unsigned i = 0;
        for (; i < NVME_IDENTIFY_LEN / 4 && found < count; i++) {
            uint32_t nsid = get_le32(nvme->admin_data + 4 * i);
            if (nsid == 0) {
                return (int)found;
            }
            if (nsid <= last) {
                return initiator_why(ret_why, -EPROTO, "its list of namespaces does not ascend");
            }
            ret_nsids[found++] = last = nsid;
        }
    }
    return (int)found;
}

int weft_nvme_namespaces(struct weft_nvme *nvme, uint32_t *ret_nsids, size_t count, char *ret_why)
{
    struct why why = {""};
    return initiator_tell(ret_why, &why, namespaces_list(nvme, ret_nsids, count, &why));
}

static int namespace_keep(struct weft_nvme *nvme, const struct weft_nvme_namespace *ns,
                          uint8_t shift, struct why *ret_why)
{
    const struct initiator_namespace_known known = {
        .nsid = ns->nsid,
        .block_shift = shift,
        .is_read_only = ns->is_read_only,
        .access = (uint8_t)initiator_access_of(nvme, ns->nsid),
        .len = ns->len,
    };
    return initiator_namespace_keep(nvme, &known)
               ? 0
               : initiator_why(ret_why, -ENOSPC, "no more than %d namespaces at a time",
                               NAMESPACE_MAX);
}

// UUID and NGUID from the list of descriptors; a controller without the list has none.
static void descriptors_take(const uint8_t *data, struct weft_nvme_namespace *ret)
{
    size_t at = 0;
    while (at + NVME_DESCRIPTOR_OFF_NID < NVME_IDENTIFY_LEN &&
           data[at + NVME_DESCRIPTOR_OFF_NIDL] != 0) {
        uint8_t type = data[at + NVME_DESCRIPTOR_OFF_NIDT];
        uint8_t len = data[at + NVME_DESCRIPTOR_OFF_NIDL];
        const uint8_t *id = data + at + NVME_DESCRIPTOR_OFF_NID;
        if (len > NVME_IDENTIFY_LEN - NVME_DESCRIPTOR_OFF_NID - at) {
            return;
        }
        if (type == NVME_NIDT_UUID && len == sizeof ret->uuid) {
            memcpy(ret->uuid, id, len);
            ret->has_uuid = true;
        } else if (type == NVME_NIDT_NGUID && len == sizeof ret->nguid) {
            memcpy(ret->nguid, id, len);
            ret->has_nguid = true;
        }
        at += NVME_DESCRIPTOR_OFF_NID + len;
    }
}

// Of the page that has just come: whoever asks for it next need not ask the target.
static void vendor_keep(struct weft_nvme *nvme, uint32_t nsid)
{
    nvme->vendor.nsid = nsid;
    memcpy(nvme->vendor.said, nvme->admin_data + NVME_NS_OFF_VENDOR, sizeof nvme->vendor.said);
}

// The format in use: by the lowest four bits, and where there are more than sixteen formats by bits
// 6:5 above these (NVM Express NVM Command Set 1.0, Identify Namespace, FLBAS).
static const uint8_t *format_of(const uint8_t *data)
{
    unsigned in_use = data[NVME_NS_OFF_FLBAS];
    bool is_short = data[NVME_NS_OFF_NLBAF] < 16; // less 1
    unsigned above = is_short ? 0 : (in_use >> 5 & 3) << 4;
    return data + NVME_NS_OFF_LBAF + 4 * (size_t)(above | (in_use & 0xf));
}

static int namespace_identify(struct weft_nvme *nvme, uint32_t nsid,
                              struct weft_nvme_namespace *ret, struct why *ret_why)
{
    const uint8_t *data = nvme->admin_data;
    nvme->vendor.nsid = 0;
    int error = identify(nvme, NVME_CNS_NAMESPACE, nsid, "Identify Namespace", ret_why);
    if (error != 0) {
        return error;
    }
    uint64_t blocks = get_le64(data + NVME_NS_OFF_NSZE);
    if (blocks == 0) {
        return initiator_why(ret_why, -ENOENT, "%s has no namespace %u", nvme->info.nqn, nsid);
    }
    const uint8_t *format = format_of(data);
    uint8_t shift = format[NVME_NS_LBAF_OFF_LBADS];
    if (shift < BLOCK_SHIFT_MIN || shift > BLOCK_SHIFT_MAX || get_le16(format) != 0) {
        return initiator_why(ret_why, -EPROTO,
                             "namespace %u has blocks of 2^%u octets with %u of metadata", nsid,
                             shift, get_le16(format));
    }
    if (blocks > UINT64_MAX >> shift) {
        return initiator_why(ret_why, -EPROTO, "namespace %u is longer than 2^64 octets", nsid);
    }
    *ret = (struct weft_nvme_namespace){
        .nsid = nsid,
        .block_len = 1u << shift,
        .len = blocks << shift,
        .is_read_only = (data[NVME_NS_OFF_NSATTR] & NVME_NSATTR_WRITE_PROTECTED) != 0};
    vendor_keep(nvme, nsid);
    if (identify(nvme, NVME_CNS_NAMESPACE_DESCRIPTORS, nsid, "Identify Namespace Descriptors",
                 NULL) == 0) {
        descriptors_take(data, ret);
    }
    return namespace_keep(nvme, ret, shift, ret_why);
}

int weft_nvme_identify(struct weft_nvme *nvme, uint32_t nsid, struct weft_nvme_namespace *ret,
                       char *ret_why)
{
    struct why why = {""};
    return initiator_tell(ret_why, &why, namespace_identify(nvme, nsid, ret, &why));
}

// Of each page once.
int weft_nvme_vendor_data(struct weft_nvme *nvme, uint32_t nsid, uint8_t *ret, size_t len,
                          char *ret_why)
{
    struct why why = {""};
    int error = 0;
    if (nsid == 0 || nvme->vendor.nsid != nsid) {
        error = identify(nvme, NVME_CNS_NAMESPACE, nsid, "Identify Namespace", &why);
        vendor_keep(nvme, nsid);
    }
    nvme->vendor.nsid = 0;
    if (error == 0) {
        memcpy(ret, nvme->vendor.said, len < WEFT_NVME_VENDOR_MAX ? len : WEFT_NVME_VENDOR_MAX);
    }
    return initiator_tell(ret_why, &why, error);
}

/* ---- discovery ------------------------------------------------------------------------------- */

// Octets [at, at + len) of the discovery log, into admin_data.
static int log_read(struct weft_nvme *nvme, uint64_t at, uint32_t len, struct why *ret_why)
{
    uint32_t dwords = len / 4 - 1;
    const struct initiator_admin_command command = {.opcode = NVME_ADMIN_GET_LOG_PAGE,
                                                    .cdw10 = NVME_LOG_DISCOVERY | dwords << 16,
                                                    .cdw11 = dwords >> 16,
                                                    .cdw12 = (uint32_t)at,
                                                    .cdw13 = (uint32_t)(at >> 32),
                                                    .data_len = len,
                                                    .name = "Get Log Page, discovery"};
    return initiator_admin_demand(nvme, &command, NULL, ret_why);
}

static void number_or_name(unsigned number, const char *const *names, unsigned count, char *ret,
                           size_t capacity)
{
    if (number < count && names[number] != NULL) {
        snprintf(ret, capacity, "%s", names[number]);
    } else {
        snprintf(ret, capacity, "%u", number);
    }
}

static void entry_take(const uint8_t *data, struct weft_nvme_entry *ret)
{
    static const char *const transports[] = {
        [NVME_TRTYPE_RDMA] = "rdma", [2] = "fc", [NVME_TRTYPE_TCP] = "tcp"};
    static const char *const kinds[] = {[NVME_SUBTYPE_REFERRAL] = "referral",
                                        [NVME_SUBTYPE_NVM] = "nvme",
                                        [NVME_SUBTYPE_DISCOVERY] = "discovery"};
    number_or_name(data[NVME_ENTRY_OFF_TRTYPE], transports,
                   sizeof transports / sizeof transports[0], ret->transport, sizeof ret->transport);
    number_or_name(data[NVME_ENTRY_OFF_SUBTYPE], kinds, sizeof kinds / sizeof kinds[0], ret->kind,
                   sizeof ret->kind);
    text_take(data + NVME_ENTRY_OFF_TRADDR, NVME_ENTRY_TRADDR_LEN, ret->host, sizeof ret->host);
    text_take(data + NVME_ENTRY_OFF_TRSVCID, NVME_ENTRY_TRSVCID_LEN, ret->port, sizeof ret->port);
    text_take(data + NVME_ENTRY_OFF_SUBNQN, NVME_NQN_LEN, ret->nqn, sizeof ret->nqn);
}

// Generation and count of the log.
static int header_read(struct weft_nvme *nvme, uint64_t *ret_generation, uint64_t *ret_count,
                       struct why *ret_why)
{
    int error = log_read(nvme, 0, NVME_DISCOVERY_HEADER_LEN, ret_why);
    if (error != 0) {
        return error;
    }
    *ret_generation = get_le64(nvme->admin_data + NVME_DISCOVERY_OFF_GENCTR);
    *ret_count = get_le64(nvme->admin_data + NVME_DISCOVERY_OFF_NUMREC);
    if (get_le16(nvme->admin_data + NVME_DISCOVERY_OFF_RECFMT) != 0 ||
        *ret_count > ENTRY_COUNT_MAX) {
        return initiator_why(ret_why, -EPROTO, "a discovery log of format %u with %llu entries",
                             get_le16(nvme->admin_data + NVME_DISCOVERY_OFF_RECFMT),
                             (unsigned long long)*ret_count);
    }
    return 0;
}

static int entries_read(struct weft_nvme *nvme, struct weft_nvme_entry *entries, uint64_t count,
                        struct why *ret_why)
{
    for (uint64_t i = 0; i < count; i++) {
        int error =
            log_read(nvme, NVME_DISCOVERY_HEADER_LEN + i * NVME_ENTRY_LEN, NVME_ENTRY_LEN, ret_why);
        if (error != 0) {
            return error;
        }
        entry_take(nvme->admin_data, &entries[i]);
    }
    return 0;
}

static int log_take(struct weft_nvme *nvme, struct weft_nvme_entry **ret, size_t *ret_count,
                    struct why *ret_why)
{
    for (unsigned i = 0; i < DISCOVER_TRIES; i++) {
        uint64_t generation, after, count, count_after;
        int error = header_read(nvme, &generation, &count, ret_why);
        if (error != 0) {
            return error;
        }
        struct weft_nvme_entry *entries = calloc(count + 1, sizeof *entries);
        if (entries == NULL) {
            return initiator_why(ret_why, -ENOMEM, "no memory for %llu entries",
                                 (unsigned long long)count);
        }
        error = entries_read(nvme, entries, count, ret_why);
        if (error == 0) {
            error = header_read(nvme, &after, &count_after, ret_why);
        }
        if (error == 0 && after == generation && count_after == count) {
            *ret = entries;
            *ret_count = count;
            return 0;
        }
        free(entries);
        if (error != 0) {
            return error;
        }
    }
    return initiator_why(ret_why, -EAGAIN, "the discovery log changes faster than it can be read");
}

int weft_nvme_discover(struct weft_nvme *nvme, struct weft_nvme_entry **ret, size_t *ret_count,
                       char *ret_why)
{
    struct why why = {""};
    nvme->watch.has_changed = false; // what it tells of from here on, this may not see
    return initiator_tell(ret_why, &why, log_take(nvme, ret, ret_count, &why));
}
