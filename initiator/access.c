// Asymmetric Namespace Access: what a controller's log says of the ways to its namespaces, and when
// it is to be read.

#include "initiator/agent.h"

enum { STATUSES_READ_EVERY_MS = 100 }; // the log, by whoever asks again and again

/* ---- the log --------------------------------------------------------------------------------- */

// States that nobody has named lead nowhere.
static enum weft_nvme_access access_named(uint8_t state)
{
    switch (state) {
    case NVME_ANA_STATE_OPTIMIZED:
        return WEFT_NVME_OPTIMIZED;
    case NVME_ANA_STATE_NON_OPTIMIZED:
        return WEFT_NVME_NON_OPTIMIZED;
    case NVME_ANA_STATE_PERSISTENT_LOSS:
        return WEFT_NVME_UNREACHABLE;
    case NVME_ANA_STATE_CHANGE:
        return WEFT_NVME_CHANGING;
    default:
        return WEFT_NVME_INACCESSIBLE;
    }
}

static bool is_listed(const uint8_t *nsids, uint32_t count, uint32_t nsid)
{
    for (uint32_t i = 0; i < count; i++) {
        if (get_le32(nsids + 4 * (size_t)i) == nsid) {
            return true;
        }
    }
    return false;
}

enum weft_nvme_access initiator_access_find(const uint8_t *log, size_t len, uint32_t nsid)
{
    if (len < NVME_ANA_HEADER_LEN) {
        return WEFT_NVME_OPTIMIZED;
    }
    unsigned groups = get_le16(log + NVME_ANA_OFF_NGRPS);
    size_t at = NVME_ANA_HEADER_LEN;
    for (unsigned i = 0; i < groups && len - at >= NVME_ANA_GROUP_LEN; i++) {
        const uint8_t *group = log + at;
        at += NVME_ANA_GROUP_LEN;
        uint32_t count = get_le32(group + NVME_ANA_GROUP_OFF_NNSIDS);
        if (count > (len - at) / 4) {
            count = (uint32_t)((len - at) / 4);
        }
        if (is_listed(log + at, count, nsid)) {
            return access_named(group[NVME_ANA_GROUP_OFF_STATE] & NVME_ANA_STATE_MASK);
        }
        at += 4 * (size_t)count;
    }
    return WEFT_NVME_OPTIMIZED;
}

enum weft_nvme_access initiator_access_of(const struct weft_nvme *nvme, uint32_t nsid)
{
    const struct initiator_access *access = &nvme->access;
    return access->is_known
               ? initiator_access_find(access->room.iov_base, access->room.iov_len, nsid)
               : WEFT_NVME_OPTIMIZED;
}

/* ---- what the controller has ----------------------------------------------------------------- */

// As long as the log can be, so far as there is room: what lies beyond is learnt from statuses.
static uint32_t log_len(uint32_t groups, uint32_t namespaces)
{
    uint64_t len = NVME_ANA_HEADER_LEN + (uint64_t)groups * NVME_ANA_GROUP_LEN +
                   (uint64_t)namespaces * sizeof(uint32_t);
    return len < ACCESS_LOG_MAX ? (uint32_t)len : ACCESS_LOG_MAX;
}

void initiator_access_take(struct weft_nvme *nvme)
{
    const uint8_t *data = nvme->admin_data;
    struct initiator_access *access = &nvme->access;
    uint32_t most = get_le32(data + NVME_CTRL_OFF_MNAN);
    if ((data[NVME_CTRL_OFF_CMIC] & NVME_CMIC_ANA) == 0) {
        return;
    }
    access->is_known = true;
    access->has_events = (get_le32(data + NVME_CTRL_OFF_OAES) & NVME_EVENT_ANA_CHANGE) != 0;
    access->change_ms = (uint32_t)data[NVME_CTRL_OFF_ANATT] * 1000;
    access->room = (struct iovec){nvme->admin_data + ADMIN_DATA_LEN,
                                  log_len(get_le32(data + NVME_CTRL_OFF_NANAGRPID),
                                          most != 0 ? most : get_le32(data + NVME_CTRL_OFF_NN))};
}

struct initiator_admin_command initiator_access_command(const struct initiator_access *access)
{
    uint32_t dwords = (uint32_t)access->room.iov_len / 4 - 1;
    return (struct initiator_admin_command){.opcode = NVME_ADMIN_GET_LOG_PAGE,
                                            .nsid = NVME_NSID_ALL,
                                            .cdw10 = NVME_LOG_ANA | dwords << 16,
                                            .cdw11 = dwords >> 16,
                                            .data_len = (uint32_t)access->room.iov_len,
                                            .room = &access->room,
                                            .name = "Get Log Page, asymmetric access"};
}

/* ---- as it changes --------------------------------------------------------------------------- */

// Whatever the event is: reading the log is what lets the controller tell the next one of this.
bool initiator_access_on_event(struct initiator_access *access)
{
    bool is_good = access->event.status == NVME_OK;
    access->event.is_there = false;
    access->is_stale |= is_good;
    access->read_at = is_good ? 0 : access->read_at;
    access->has_events = is_good;
    return is_good;
}

void initiator_access_on_log(struct weft_nvme *nvme)
{
    struct initiator_access *access = &nvme->access;
    access->is_reading = false;
    if ((access->log.status & ~NVME_STATUS_MORE) != NVME_OK) {
        return; // what is known stands, until a status or an event says otherwise
    }
    for (unsigned i = 0; i < nvme->namespace_count; i++) {
        struct initiator_namespace_known *ns = &nvme->namespaces[i];
        ns->access = (uint8_t)initiator_access_of(nvme, ns->nsid);
    }
}

void initiator_access_on_status(struct weft_nvme *nvme, uint32_t nsid, uint16_t status)
{
    static const enum weft_nvme_access said[] = {
        [NVME_ANA_PERSISTENT_LOSS - NVME_ANA_PERSISTENT_LOSS] = WEFT_NVME_UNREACHABLE,
        [NVME_ANA_INACCESSIBLE - NVME_ANA_PERSISTENT_LOSS] = WEFT_NVME_INACCESSIBLE,
        [NVME_ANA_TRANSITION - NVME_ANA_PERSISTENT_LOSS] = WEFT_NVME_CHANGING,
    };
    if (!nvme->access.is_known || status < NVME_ANA_PERSISTENT_LOSS ||
        status > NVME_ANA_TRANSITION) {
        return;
    }
    for (unsigned i = 0; i < nvme->namespace_count; i++) {
        if (nvme->namespaces[i].nsid == nsid) {
            nvme->namespaces[i].access = (uint8_t)said[status - NVME_ANA_PERSISTENT_LOSS];
        }
    }
    nvme->access.is_stale = true;
}

bool initiator_access_is_due(const struct initiator_access *access, instant_ns now)
{
    return !access->is_reading &&
           (access->read_at == 0 ||
            now >= instant_after(access->read_at, STATUSES_READ_EVERY_MS * NS_PER_MS));
}

/* ---- what programs ask ----------------------------------------------------------------------- */

enum weft_nvme_access weft_nvme_access(const struct weft_nvme *nvme, uint32_t nsid)
{
    const struct initiator_namespace_known *ns = initiator_namespace_find(nvme, nsid);
    return ns != NULL ? (enum weft_nvme_access)ns->access : WEFT_NVME_OPTIMIZED;
}

unsigned weft_nvme_access_change_ms(const struct weft_nvme *nvme)
{
    return nvme->access.change_ms;
}
