// Mode pages (SPC-4 sections 6.10 to 6.13 and 7.5, SBC-3 section 6.4): what they say is the
// volume's, so none of it can be changed, and MODE SELECT takes what is so already.

#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "node/format/scsi.h"
#include "node/interface/volume.h"
#include "node/scsi/agent.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"

enum {
    MODE_MAX_LEN = 128,
    MODE_SENSE_10 = 0x5a,
    MODE_SELECT_10 = 0x55,
    ALL_PAGES = 0x3f,
    ALL_SUBPAGES = 0xff,
    NO_DESCRIPTORS = 1 << 3, // octet 1 of the CDB
    LONG_BLOCKS = 1 << 4,    // likewise
    PAGE_FORMAT = 1 << 4,    // octet 1 of MODE SELECT
    SAVE_PAGES = 1 << 0,     // likewise
    WRITE_PROTECTED = 1 << 7,
    HAS_DPO_FUA = 1 << 4,
    SHORT_DESCRIPTOR_LEN = 8,
    LONG_DESCRIPTOR_LEN = 16,
};

enum control { CURRENT, CHANGEABLE, DEFAULT, SAVED };

/* ---- pages: all of them are as long as this says, behind two octets of header ---------------- */

static void emit_caching(const struct logical_unit *unit, uint8_t *at)
{
    at[2] = unit_can(unit, VOLUME_CAN_FLUSH) ? 1 << 2 : 0; // writes are cached
}

static void emit_control(const struct logical_unit *unit, uint8_t *at)
{
    at[3] = 1 << 4;               // commands may be reordered without restriction
    put_be16(at + 8, UINT16_MAX); // a busy time without limit
}

static void emit_exceptions(const struct logical_unit *unit, uint8_t *at)
{
    at[2] = 1 << 3; // none is reported
}

static const struct mode_page {
    uint8_t code;
    uint8_t len; // of what follows the header
    void (*emit)(const struct logical_unit *unit, uint8_t *at);
} pages[] = {
    {0x08, 18, emit_caching},
    {0x0a, 10, emit_control},
    {0x1c, 10, emit_exceptions},
};

enum { PAGE_COUNT = sizeof pages / sizeof pages[0], PAGE_HEADER_LEN = 2 };

static uint32_t page_emit(const struct mode_page *page, const struct logical_unit *unit,
                          enum control control, uint8_t *at)
{
    at[0] = page->code;
    at[1] = page->len;
    if (control != CHANGEABLE) {
        page->emit(unit, at);
    }
    return PAGE_HEADER_LEN + page->len;
}

// 0: there is none of this code.
static uint32_t pages_emit(const struct logical_unit *unit, uint8_t code, enum control control,
                           uint8_t *at)
{
    uint32_t len = 0;
    for (unsigned i = 0; i < PAGE_COUNT; i++) {
        if (code == ALL_PAGES || code == pages[i].code) {
            len += page_emit(&pages[i], unit, control, at + len);
        }
    }
    return len;
}

/* ---- MODE SENSE ------------------------------------------------------------------------------ */

static uint32_t descriptor_emit(const struct scsi_task *task, bool is_10, uint8_t *at)
{
    const struct logical_unit *unit = task->nexus->unit;
    if ((task->cdb[1] & NO_DESCRIPTORS) != 0) {
        return 0;
    }
    if (is_10 && (task->cdb[1] & LONG_BLOCKS) != 0) {
        put_be64(at, unit->blocks);
        put_be32(at + 12, unit->block_len);
        return LONG_DESCRIPTOR_LEN;
    }
    put_be32(at, unit->blocks > UINT32_MAX ? UINT32_MAX : (uint32_t)unit->blocks);
    put_be24(at + 5, unit->block_len);
    return SHORT_DESCRIPTOR_LEN;
}

static uint8_t device_parameter(const struct logical_unit *unit)
{
    return (uint8_t)((unit_can(unit, VOLUME_CAN_WRITE) ? 0 : WRITE_PROTECTED) | HAS_DPO_FUA);
}

static void header_emit(const struct scsi_task *task, bool is_10, uint32_t len,
                        uint32_t descriptor_len)
{
    uint8_t *at = task->scratch;
    if (is_10) {
        put_be16(at, (uint16_t)(len - 2));
        at[3] = device_parameter(task->nexus->unit);
        at[4] = descriptor_len == LONG_DESCRIPTOR_LEN;
        put_be16(at + 6, (uint16_t)descriptor_len);
    } else {
        at[0] = (uint8_t)(len - 1);
        at[2] = device_parameter(task->nexus->unit);
        at[3] = (uint8_t)descriptor_len;
    }
}

void execute_mode_sense(struct scsi_task *task, instant_ns now)
{
    bool is_10 = task->cdb[0] == MODE_SENSE_10;
    uint8_t code = task->cdb[2] & 0x3f, subpage = task->cdb[3];
    enum control control = (enum control)(task->cdb[2] >> 6);
    uint32_t max = is_10 ? get_be16(task->cdb + 7) : task->cdb[4];
    bool has_subpage = subpage == 0 || (subpage == ALL_SUBPAGES && code == ALL_PAGES);
    if (control == SAVED || !has_subpage) {
        task_fail(task, control == SAVED ? FAULT_SAVING : FAULT_CDB_FIELD, now);
        return;
    }
    if (!task_scratch_create(task, MODE_MAX_LEN, now)) {
        return;
    }
    uint32_t len = is_10 ? 8 : 4;
    uint32_t descriptor_len = descriptor_emit(task, is_10, task->scratch + len);
    len += descriptor_len;
    uint32_t pages_len = pages_emit(task->nexus->unit, code, control, task->scratch + len);
    if (pages_len == 0) {
        task_fail(task, FAULT_CDB_FIELD, now);
        return;
    }
    header_emit(task, is_10, len + pages_len, descriptor_len);
    task_deliver_scratch(task, len + pages_len, max, now);
}

/* ---- MODE SELECT ----------------------------------------------------------------------------- */

// Is the page in the list the one that there is?
static enum scsi_fault page_fault(const struct logical_unit *unit, const uint8_t *at, uint32_t left,
                                  uint32_t *ret_len)
{
    uint8_t page[MODE_MAX_LEN] = {0};
    if (left < PAGE_HEADER_LEN) {
        return FAULT_LIST_LENGTH;
    }
    uint32_t len = pages_emit(unit, at[0] & 0x3f, CURRENT, page);
    if (len == 0 || (at[0] & 0x3f) == ALL_PAGES || at[1] != page[1]) {
        return FAULT_LIST_FIELD;
    }
    *ret_len = len;
    if (left < len) {
        return FAULT_LIST_LENGTH;
    }
    return memcmp(at + 1, page + 1, len - 1) == 0 ? FAULT_NONE : FAULT_LIST_FIELD;
}

static void on_list(struct scsi_task *task, instant_ns now)
{
    bool is_10 = task->cdb[0] == MODE_SELECT_10;
    uint32_t len = task->data_len, at = is_10 ? 8 : 4, page_len = 0;
    if (len < at) {
        task_fail(task, FAULT_LIST_LENGTH, now);
        return;
    }
    uint32_t descriptor_len = is_10 ? get_be16(task->scratch + 6) : task->scratch[3];
    enum scsi_fault fault = descriptor_len > len - at ? FAULT_LIST_LENGTH : FAULT_NONE;
    for (at += descriptor_len; fault == FAULT_NONE && at < len; at += page_len) {
        fault = page_fault(task->nexus->unit, task->scratch + at, len - at, &page_len);
    }
    if (fault != FAULT_NONE) {
        task_fail(task, fault, now);
    } else {
        task_succeed(task, now);
    }
}

void execute_mode_select(struct scsi_task *task, instant_ns now)
{
    bool is_10 = task->cdb[0] == MODE_SELECT_10;
    uint32_t len = is_10 ? get_be16(task->cdb + 7) : task->cdb[4];
    if ((task->cdb[1] & PAGE_FORMAT) == 0 || (task->cdb[1] & SAVE_PAGES) != 0) {
        task_fail(task, FAULT_CDB_FIELD, now);
    } else if (len == 0) {
        task_succeed(task, now);
    } else if (task_scratch_create(task, len, now)) {
        task_fetch_scratch(task, len, on_list, now);
    }
}
