// Mode pages (SPC-4 sections 6.10 to 6.13 and 7.5, SBC-3 section 6.4): most of what they say is the
// volume's. What can be changed is whether writes are cached, and in which format sense data are
// told, for all initiators; a reset of the unit undoes it. Of all else MODE SELECT takes what is
// so.

#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "format/scsi.h"
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
    HAS_SUBPAGE = 1 << 6,    // in a page's header
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

enum { WRITE_CACHE = 1 << 2, DESCRIPTOR_SENSE = 1 << 2 }; // in octet 2 of their pages

// Without a cache of the volume's there is none to be used.
static void emit_caching(const struct logical_unit *unit, enum control control, uint8_t *at)
{
    bool is_off = control == CURRENT && unit->mode.is_write_through;
    at[2] = unit_can(unit, VOLUME_CAN_FLUSH) && !is_off ? WRITE_CACHE : 0;
}

static void take_caching(const struct logical_unit *unit, struct unit_mode *mode, const uint8_t *at)
{
    mode->is_write_through = unit_can(unit, VOLUME_CAN_FLUSH) && (at[2] & WRITE_CACHE) == 0;
}

static void emit_control(const struct logical_unit *unit, enum control control, uint8_t *at)
{
    bool is_current = control == CURRENT && unit->mode.has_descriptor_sense;
    at[2] = control == CHANGEABLE || is_current ? DESCRIPTOR_SENSE : 0;
    if (control != CHANGEABLE) {
        at[3] = 1 << 4;               // commands may be reordered without restriction
        put_be16(at + 8, UINT16_MAX); // a busy time without limit
    }
}

static void take_control(const struct logical_unit *unit, struct unit_mode *mode, const uint8_t *at)
{
    mode->has_descriptor_sense = (at[2] & DESCRIPTOR_SENSE) != 0;
}

static void emit_exceptions(const struct logical_unit *unit, enum control control, uint8_t *at)
{
    at[2] = control != CHANGEABLE ? 1 << 3 : 0; // none is reported
}

static const struct mode_page {
    uint8_t code;
    uint8_t len; // of what follows the header
    void (*emit)(const struct logical_unit *unit, enum control control, uint8_t *at);
    // NULL: nothing can be changed.
    void (*take)(const struct logical_unit *unit, struct unit_mode *mode, const uint8_t *at);
} pages[] = {
    {0x08, 18, emit_caching, take_caching},
    {0x0a, 10, emit_control, take_control},
    {0x1c, 10, emit_exceptions, NULL},
};

enum { PAGE_COUNT = sizeof pages / sizeof pages[0], PAGE_HEADER_LEN = 2 };

static uint32_t page_emit(const struct mode_page *page, const struct logical_unit *unit,
                          enum control control, uint8_t *at)
{
    at[0] = page->code;
    at[1] = page->len;
    page->emit(unit, control, at);
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
    bool has_subpage = subpage == 0 || subpage == ALL_SUBPAGES; // which are the pages themselves
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

static const struct mode_page *page_find(uint8_t code)
{
    for (unsigned i = 0; i < PAGE_COUNT; i++) {
        if (pages[i].code == code) {
            return &pages[i];
        }
    }
    return NULL;
}

// Does it differ from what is so in nothing but what can be changed?
static bool is_possible(const struct logical_unit *unit, const struct mode_page *page,
                        const uint8_t *at)
{
    uint8_t current[MODE_MAX_LEN] = {0}, changeable[MODE_MAX_LEN] = {0};
    uint32_t len = page_emit(page, unit, CURRENT, current);
    page_emit(page, unit, CHANGEABLE, changeable);
    for (uint32_t i = PAGE_HEADER_LEN; i < len; i++) {
        if (((at[i] ^ current[i]) & ~changeable[i]) != 0) {
            return false;
        }
    }
    return true;
}

// Takes the first page of the list into `mode`.
static enum scsi_fault page_take(const struct logical_unit *unit, const uint8_t *at, uint32_t left,
                                 struct unit_mode *mode, uint32_t *ret_len)
{
    if (left < PAGE_HEADER_LEN) {
        return FAULT_LIST_LENGTH;
    }
    const struct mode_page *page = page_find(at[0] & 0x3f);
    if (page == NULL || (at[0] & HAS_SUBPAGE) != 0 || at[1] != page->len) {
        return FAULT_LIST_FIELD;
    }
    *ret_len = PAGE_HEADER_LEN + page->len;
    if (left < *ret_len) {
        return FAULT_LIST_LENGTH;
    }
    if (!is_possible(unit, page, at)) {
        return FAULT_LIST_FIELD;
    }
    if (page->take != NULL) {
        page->take(unit, mode, at);
    }
    return FAULT_NONE;
}

static bool counts_all(uint64_t blocks, uint64_t all_ones, const struct logical_unit *unit)
{
    return blocks == 0 || blocks == all_ones || blocks == unit->blocks;
}

// SBC-3 section 6.4.2: one, or none. The volume's size is what it is, and so is that of blocks.
static enum scsi_fault descriptor_fault(const struct logical_unit *unit, const uint8_t *at,
                                        uint32_t len, bool is_long)
{
    if (len != (is_long ? LONG_DESCRIPTOR_LEN : SHORT_DESCRIPTOR_LEN)) {
        return len == 0 ? FAULT_NONE : FAULT_LIST_FIELD;
    }
    bool is_right =
        is_long ? counts_all(get_be64(at), UINT64_MAX, unit) && get_be32(at + 12) == unit->block_len
                : counts_all(get_be32(at), UINT32_MAX, unit) && get_be24(at + 5) == unit->block_len;
    return is_right ? FAULT_NONE : FAULT_LIST_FIELD;
}

// All of the list is looked at before any of it holds.
static enum scsi_fault list_take(const struct scsi_task *task, struct unit_mode *mode)
{
    const struct logical_unit *unit = task->nexus->unit;
    bool is_10 = task->cdb[0] == MODE_SELECT_10;
    const uint8_t *list = task->scratch;
    uint32_t len = task->data_len, at = is_10 ? 8 : 4, page_len = 0;
    if (len < at) {
        return FAULT_LIST_LENGTH;
    }
    uint32_t descriptor_len = is_10 ? get_be16(list + 6) : list[3];
    if (descriptor_len > len - at) {
        return FAULT_LIST_LENGTH;
    }
    bool is_long = is_10 && (list[4] & 1) != 0;
    enum scsi_fault fault = descriptor_fault(unit, list + at, descriptor_len, is_long);
    for (at += descriptor_len; fault == FAULT_NONE && at < len; at += page_len) {
        fault = page_take(unit, list + at, len - at, mode, &page_len);
    }
    return fault;
}

// What is in the cache when it is turned off becomes stable.
static void on_list(struct scsi_task *task, instant_ns now)
{
    struct logical_unit *unit = task->nexus->unit;
    struct unit_mode before = unit->mode, mode = before;
    enum scsi_fault fault = list_take(task, &mode);
    if (fault != FAULT_NONE) {
        task_fail(task, fault, now);
        return;
    }
    unit->mode = mode;
    if (memcmp(&mode, &before, sizeof mode) != 0) {
        nexus_tell_others(task->nexus, SCSI_ATTENTION_MODE);
    }
    if (mode.is_write_through && !before.is_write_through) {
        task_flush(task, now);
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
