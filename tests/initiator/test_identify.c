// What the initiator makes of a controller's pages: Identify Controller, lists of namespaces,
// namespaces with their descriptors, and the discovery log, field by field, right and wrong. The
// pages are the test's: the call that asks for them is stood in for.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "initiator/agent.h"

enum { ENTRIES_MAX = 3, DISCOVERY_LEN = NVME_DISCOVERY_HEADER_LEN + ENTRIES_MAX * NVME_ENTRY_LEN };

static struct weft_nvme nvme;
static struct initiator_carrier carrier;
static uint8_t room[ADMIN_ROOM_LEN];
static struct why why;

/* ---- the controller -------------------------------------------------------------------------- */

static uint8_t controller[NVME_IDENTIFY_LEN], namespace_page[NVME_IDENTIFY_LEN],
    descriptors[NVME_IDENTIFY_LEN], discovery[DISCOVERY_LEN];
static uint32_t nsids[3000]; // ascending
static unsigned nsid_count;
static int error_of_descriptors;
static unsigned call, fails_at, changes; // `changes`: that the discovery log makes yet
static uint64_t added;                   // ... of its number of entries, each time

static void list_fill(uint8_t *page, uint32_t behind)
{
    unsigned used = 0;
    for (unsigned i = 0; i < nsid_count && used < NVME_IDENTIFY_LEN / 4; i++) {
        if (nsids[i] > behind) {
            put_le32(page + 4 * (size_t)used++, nsids[i]);
        }
    }
}

static void log_fill(uint8_t *page, const struct initiator_admin_command *c)
{
    const uint64_t at = c->cdw12 | (uint64_t)c->cdw13 << 32;
    const uint32_t dwords = c->cdw10 >> 16 | c->cdw11 << 16;
    assert_int_equal(c->cdw10 & 0xffff, NVME_LOG_DISCOVERY);
    assert_int_equal(4 * (dwords + 1), c->data_len);
    assert_true(at + c->data_len <= DISCOVERY_LEN);
    memcpy(page, discovery + at, c->data_len);
    if (at == 0 && changes > 0) {
        changes--;
        put_le64(discovery + NVME_DISCOVERY_OFF_GENCTR,
                 get_le64(discovery + NVME_DISCOVERY_OFF_GENCTR) + (added == 0));
        put_le64(discovery + NVME_DISCOVERY_OFF_NUMREC,
                 get_le64(discovery + NVME_DISCOVERY_OFF_NUMREC) + added);
    }
}

int __wrap_initiator_admin_demand(struct weft_nvme *of, const struct initiator_admin_command *c,
                                  uint64_t *ret_result, struct why *ret_why);
int __wrap_initiator_admin_demand(struct weft_nvme *of, const struct initiator_admin_command *c,
                                  uint64_t *ret_result, struct why *ret_why)
{
    assert_ptr_equal(of, &nvme);
    assert_null(ret_result);
    assert_non_null(c->name);
    if (++call == fails_at) {
        return -EIO;
    }
    if (c->opcode == NVME_ADMIN_GET_LOG_PAGE) {
        log_fill(room, c);
        return 0;
    }
    assert_int_equal(c->opcode, NVME_ADMIN_IDENTIFY);
    assert_int_equal(c->data_len, NVME_IDENTIFY_LEN);
    for (unsigned i = 0; i < NVME_IDENTIFY_LEN; i++) {
        assert_int_equal(room[i], 0); // a short answer leaves nothing of the one before
    }
    switch (c->cdw10) {
    case NVME_CNS_CONTROLLER:
        memcpy(room, controller, NVME_IDENTIFY_LEN);
        return 0;
    case NVME_CNS_NAMESPACE:
        memcpy(room, namespace_page, NVME_IDENTIFY_LEN);
        return 0;
    case NVME_CNS_NAMESPACE_DESCRIPTORS:
        memcpy(room, descriptors, NVME_IDENTIFY_LEN);
        return error_of_descriptors;
    default:
        assert_int_equal(c->cdw10, NVME_CNS_NAMESPACE_LIST);
        list_fill(room, c->nsid);
        return 0;
    }
}

static void text_put(uint8_t *at, const char *text)
{
    memcpy(at, text, strlen(text));
}

// One with which nothing is wrong.
static int setup(void **state)
{
    memset(room, 0xee, sizeof room);
    memset(controller, 0, sizeof controller);
    memset(namespace_page, 0, sizeof namespace_page);
    memset(descriptors, 0, sizeof descriptors);
    memset(discovery, 0, sizeof discovery);
    memset(&nvme, 0, sizeof nvme);
    carrier = (struct initiator_carrier){.takes_keyed = true};
    nvme.carrier = &carrier;
    nvme.admin_data = room;
    nvme.attr.queue_count = 1;
    nvme.info.controller = 0x1234;
    put_le16(controller + NVME_CTRL_OFF_CNTLID, 0x1234);
    put_le32(controller + NVME_CTRL_OFF_SGLS, NVME_SGLS_KEYED);
    put_le64(namespace_page + NVME_NS_OFF_NSZE, 100);
    namespace_page[NVME_NS_OFF_LBAF + NVME_NS_LBAF_OFF_LBADS] = 9;
    nsid_count = call = fails_at = changes = 0;
    error_of_descriptors = 0;
    added = 0;
    why = (struct why){""};
    return 0;
}

/* ---- Identify Controller --------------------------------------------------------------------- */

static void each_field_of_a_controller_is_taken(void **state)
{
    const struct weft_nvme_info *info = &nvme.info;
    text_put(controller + NVME_CTRL_OFF_SN, "  serial\x01 of it   ");
    memset(controller + NVME_CTRL_OFF_MN, 'm', NVME_CTRL_MN_LEN); // all of it
    text_put(controller + NVME_CTRL_OFF_FR, "1.0\0rest");
    put_le32(controller + NVME_CTRL_OFF_NN, 0x01020304);
    put_le16(controller + NVME_CTRL_OFF_MAXCMD, 0x0506);
    assert_int_equal(initiator_identify_controller(&nvme, &why), 0);
    assert_string_equal(info->serial, "  serial? of it");
    assert_int_equal(strlen(info->model), NVME_CTRL_MN_LEN);
    assert_int_equal(strspn(info->model, "m"), NVME_CTRL_MN_LEN);
    assert_string_equal(info->firmware, "1.0");
    assert_int_equal(info->namespace_count, 0x01020304);
    assert_int_equal(info->depth, 0x0506);
}

static void what_a_controller_can_do_is_a_bit_of_its_own(void **state)
{
    static const struct {
        uint8_t vwc;
        uint16_t oncs;
        bool has_cache, can_trim, can_zero;
    } rows[] = {
        {0, 0, false, false, false},
        {NVME_VWC_PRESENT, 0, true, false, false},
        {(uint8_t)~NVME_VWC_PRESENT, 0, false, false, false},
        {0, NVME_ONCS_DSM, false, true, false},
        {0, NVME_ONCS_WRITE_ZEROES, false, false, true},
        {0, (uint16_t) ~(NVME_ONCS_DSM | NVME_ONCS_WRITE_ZEROES), false, false, false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        controller[NVME_CTRL_OFF_VWC] = rows[i].vwc;
        put_le16(controller + NVME_CTRL_OFF_ONCS, rows[i].oncs);
        assert_int_equal(initiator_identify_controller(&nvme, &why), 0);
        assert_int_equal(nvme.info.has_volatile_cache, rows[i].has_cache);
        assert_int_equal(nvme.info.can_trim, rows[i].can_trim);
        assert_int_equal(nvme.info.can_write_zeroes, rows[i].can_zero);
    }
}

// MDTS as a power of two of pages; 0 or one beyond reason: no limit that we know.
static void a_transfer_is_as_long_as_the_controller_takes(void **state)
{
    static const struct {
        uint8_t mdts;
        uint32_t len;
    } rows[] = {{0, 1 << 20},   {1, 8192},     {5, 1 << 17},  {11, 1 << 23},
                {12, 0xfff000}, {13, 1 << 20}, {255, 1 << 20}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        controller[NVME_CTRL_OFF_MDTS] = rows[i].mdts;
        assert_int_equal(initiator_identify_controller(&nvme, &why), 0);
        assert_int_equal(nvme.info.transfer_max_len, rows[i].len);
    }
}

static void in_capsule_data_need_room_and_an_offset(void **state)
{
    static const struct {
        uint32_t ioccsz; // of 16 octets
        bool has_offset;
        uint32_t len;
    } rows[] = {{0, true, 0},
                {4, true, 0},
                {5, true, 16},
                {260, true, 4096},
                {516, true, 8192},
                {517, true, 8192},
                {UINT32_MAX, true, 8192},
                {260, false, 0}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_le32(controller + NVME_CTRL_OFF_IOCCSZ, rows[i].ioccsz);
        put_le32(controller + NVME_CTRL_OFF_SGLS,
                 NVME_SGLS_KEYED | (rows[i].has_offset ? NVME_SGLS_OFFSET : 0));
        assert_int_equal(initiator_identify_controller(&nvme, &why), 0);
        assert_int_equal(nvme.info.in_capsule_len, rows[i].len);
    }
}

static void a_controller_that_does_not_fit_is_refused(void **state)
{
    static const struct {
        uint16_t number, icdoff;
        uint32_t sgls;
        bool takes_keyed;
        unsigned queues;
        int error;
    } rows[] = {
        {0x1234, 0, NVME_SGLS_KEYED, true, 1, 0},
        {0x1235, 0, NVME_SGLS_KEYED, true, 1, -EPROTO},
        {0x1234, 0, 0, true, 1, -EPROTO},
        {0x1234, 0, 0, false, 1, 0}, // over TCP none is asked for
        {0x1234, 1, NVME_SGLS_KEYED, true, 1, -EPROTO},
        {0x1234, 1, 0, false, 1, -EPROTO},
        {0x1234, 1, 0, true, 0, 0}, // of discovery: there is no I/O
        {0x1235, 0, 0, true, 0, -EPROTO},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setup(NULL);
        put_le16(controller + NVME_CTRL_OFF_CNTLID, rows[i].number);
        put_le16(controller + NVME_CTRL_OFF_ICDOFF, rows[i].icdoff);
        put_le32(controller + NVME_CTRL_OFF_SGLS, rows[i].sgls);
        carrier.takes_keyed = rows[i].takes_keyed;
        nvme.attr.queue_count = rows[i].queues;
        assert_int_equal(initiator_identify_controller(&nvme, &why), rows[i].error);
        assert_int_equal(why.text[0] != '\0', rows[i].error != 0);
    }
    setup(NULL);
    nvme.info.controller = 7;
    assert_int_equal(initiator_identify_controller(&nvme, &why), -EPROTO);
    assert_string_equal(why.text, "controller 7 identifies itself as 4660");
    setup(NULL);
    fails_at = 1;
    assert_int_equal(initiator_identify_controller(&nvme, &why), -EIO);
}

static void states_of_access_are_those_of_the_controller(void **state)
{
    assert_int_equal(initiator_identify_controller(&nvme, &why), 0);
    assert_false(nvme.access.is_known);
    controller[NVME_CTRL_OFF_CMIC] = NVME_CMIC_ANA;
    assert_int_equal(initiator_identify_controller(&nvme, &why), 0);
    assert_true(nvme.access.is_known);
}

/* ---- namespaces ------------------------------------------------------------------------------ */

// Page after page, until there is no more, or no more room.
static void lists_are_read_to_their_end_or_as_far_as_there_is_room(void **state)
{
    static const struct {
        unsigned there, room, got, calls;
    } rows[] = {
        {0, 5, 0, 1},          {3, 5, 3, 1},          {5, 5, 5, 1},          {6, 5, 5, 1},
        {1024, 1024, 1024, 1}, {1024, 2000, 1024, 2}, {1025, 2000, 1025, 2}, {3000, 2049, 2049, 3},
        {3000, 2048, 2048, 2}, {3, 0, 0, 0},
    };
    static uint32_t got[3000];
    for (unsigned i = 0; i < sizeof nsids / sizeof nsids[0]; i++) {
        nsids[i] = 2 * i + 1;
    }
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        nsid_count = rows[i].there;
        call = 0;
        memset(got, 0xee, sizeof got);
        assert_int_equal(weft_nvme_namespaces(&nvme, got, rows[i].room, NULL), rows[i].got);
        assert_int_equal(call, rows[i].calls);
        assert_memory_equal(got, nsids, rows[i].got * sizeof got[0]);
        assert_true(rows[i].got == 3000 || got[rows[i].got] == 0xeeeeeeee);
    }
}

static void a_list_that_does_not_ascend_is_refused(void **state)
{
    static const uint32_t wrong[][3] = {{1, 1, 2}, {2, 1, 3}, {1, 3, 2}};
    uint32_t got[3];
    char text[WEFT_NVME_WHY_MAX];
    for (unsigned i = 0; i < 3; i++) {
        memcpy(nsids, wrong[i], sizeof wrong[i]);
        nsid_count = 3;
        assert_int_equal(weft_nvme_namespaces(&nvme, got, 3, text), -EPROTO);
        assert_string_equal(text, "its list of namespaces does not ascend");
    }
    fails_at = ++call;
    fails_at++;
    assert_int_equal(weft_nvme_namespaces(&nvme, got, 3, text), -EIO);
}

static int identify(uint32_t nsid, struct weft_nvme_namespace *ret)
{
    memset(ret, 0xee, sizeof *ret);
    return weft_nvme_identify(&nvme, nsid, ret, why.text);
}

// The format in use is one of sixteen, where NLBAF does not tell of more.
static void each_field_of_a_namespace_is_taken(void **state)
{
    struct weft_nvme_namespace ns;
    for (uint8_t format = 0; format < 16; format++) {
        setup(NULL);
        namespace_page[NVME_NS_OFF_NLBAF] = 15;
        namespace_page[NVME_NS_OFF_FLBAS] = 0xf0 | format;
        namespace_page[NVME_NS_OFF_LBAF + NVME_NS_LBAF_OFF_LBADS] = 0;
        namespace_page[NVME_NS_OFF_LBAF + 4 * format + NVME_NS_LBAF_OFF_LBADS] = 12;
        namespace_page[NVME_NS_OFF_NSATTR] =
            format % 2 != 0 ? NVME_NSATTR_WRITE_PROTECTED : (uint8_t)~NVME_NSATTR_WRITE_PROTECTED;
        assert_int_equal(identify(5, &ns), 0);
        assert_int_equal(ns.nsid, 5);
        assert_int_equal(ns.block_len, 4096);
        assert_int_equal(ns.len, 409600);
        assert_int_equal(ns.is_read_only, format % 2 != 0);
        assert_false(ns.has_uuid || ns.has_nguid);
        const struct initiator_namespace_known *known = initiator_namespace_find(&nvme, 5);
        assert_int_equal(known->block_shift, 12);
        assert_int_equal(known->len, 409600);
        assert_int_equal(known->is_read_only, format % 2 != 0);
        assert_int_equal(known->access, WEFT_NVME_OPTIMIZED);
        assert_null(initiator_namespace_find(&nvme, 4));
    }
}

static void of_many_formats_two_more_bits_say_which(void **state)
{
    struct weft_nvme_namespace ns;
    for (unsigned format = 0; format < 64; format++) {
        setup(NULL);
        namespace_page[NVME_NS_OFF_NLBAF] = format % 2 == 0 ? 16 : 63;
        namespace_page[NVME_NS_OFF_FLBAS] = (uint8_t)(0x90 | (format >> 4) << 5 | (format & 0xf));
        namespace_page[NVME_NS_OFF_LBAF + NVME_NS_LBAF_OFF_LBADS] = 0;
        namespace_page[NVME_NS_OFF_LBAF + 4 * format + NVME_NS_LBAF_OFF_LBADS] = 12;
        assert_int_equal(identify(5, &ns), 0);
        assert_int_equal(ns.block_len, 4096);
    }
}

static void a_namespace_of_no_use_is_refused(void **state)
{
    static const struct {
        uint64_t blocks;
        uint8_t shift;
        uint16_t metadata;
        int error;
    } rows[] = {
        {1, 9, 0, 0},
        {1, 16, 0, 0},
        {1, 8, 0, -EPROTO},
        {1, 17, 0, -EPROTO},
        {1, 9, 8, -EPROTO},
        {1, 9, 0x100, -EPROTO},
        {0, 9, 0, -ENOENT},
        {UINT64_MAX >> 9, 9, 0, 0},
        {(UINT64_MAX >> 9) + 1, 9, 0, -EPROTO},
        {UINT64_MAX >> 16, 16, 0, 0},
        {(UINT64_MAX >> 16) + 1, 16, 0, -EPROTO},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weft_nvme_namespace ns;
        setup(NULL);
        put_le64(namespace_page + NVME_NS_OFF_NSZE, rows[i].blocks);
        put_le16(namespace_page + NVME_NS_OFF_LBAF, rows[i].metadata);
        namespace_page[NVME_NS_OFF_LBAF + NVME_NS_LBAF_OFF_LBADS] = rows[i].shift;
        assert_int_equal(identify(1, &ns), rows[i].error);
        assert_int_equal(nvme.namespace_count, rows[i].error == 0);
        if (rows[i].error == 0) {
            assert_true(ns.len == rows[i].blocks << rows[i].shift);
        } else {
            assert_true(why.text[0] != '\0');
        }
    }
    struct weft_nvme_namespace ns;
    fails_at = call + 1;
    assert_int_equal(identify(1, &ns), -EIO);
}

static size_t descriptor_put(size_t at, uint8_t type, uint8_t len, uint8_t fill)
{
    descriptors[at + NVME_DESCRIPTOR_OFF_NIDT] = type;
    descriptors[at + NVME_DESCRIPTOR_OFF_NIDL] = len;
    memset(descriptors + at + NVME_DESCRIPTOR_OFF_NID, fill, len);
    return at + NVME_DESCRIPTOR_OFF_NID + len;
}

static void identifiers_are_taken_from_their_descriptors(void **state)
{
    uint8_t expected[16];
    for (unsigned order = 0; order < 2; order++) {
        struct weft_nvme_namespace ns;
        setup(NULL);
        size_t at = descriptor_put(0, NVME_NIDT_EUI64, 8, 1);
        at = descriptor_put(at, order == 0 ? NVME_NIDT_UUID : NVME_NIDT_NGUID, 16, 2);
        at = descriptor_put(at, NVME_NIDT_CSI, 1, 3);
        at = descriptor_put(at, NVME_NIDT_UUID, 8, 4); // of another length: nobody's
        at = descriptor_put(at, 9, 16, 5);
        at = descriptor_put(at, order == 0 ? NVME_NIDT_NGUID : NVME_NIDT_UUID, 16, 6);
        at = descriptor_put(at, NVME_NIDT_UUID, 0, 7); // the end
        descriptor_put(at, NVME_NIDT_UUID, 16, 8);
        assert_int_equal(identify(1, &ns), 0);
        assert_true(ns.has_uuid && ns.has_nguid);
        memset(expected, order == 0 ? 2 : 6, sizeof expected);
        assert_memory_equal(ns.uuid, expected, sizeof expected);
        memset(expected, order == 0 ? 6 : 2, sizeof expected);
        assert_memory_equal(ns.nguid, expected, sizeof expected);
    }
}

// The last one may end with the page, and not beyond it; who has no list has no identifiers.
static void descriptors_end_with_their_page(void **state)
{
    for (unsigned beyond = 0; beyond < 2; beyond++) {
        struct weft_nvme_namespace ns;
        setup(NULL);
        size_t at = 0;
        while (at + 20 + 12 < NVME_IDENTIFY_LEN - 20) {
            at = descriptor_put(at, NVME_NIDT_EUI64, 8, 1);
        }
        const size_t last = NVME_IDENTIFY_LEN - 20 + beyond;
        at = descriptor_put(at, NVME_NIDT_EUI64, (uint8_t)(last - at - NVME_DESCRIPTOR_OFF_NID), 1);
        assert_int_equal(at, last);
        descriptors[at + NVME_DESCRIPTOR_OFF_NIDT] = NVME_NIDT_UUID;
        descriptors[at + NVME_DESCRIPTOR_OFF_NIDL] = 16;
        assert_int_equal(identify(1, &ns), 0);
        assert_int_equal(ns.has_uuid, beyond == 0);
    }
    struct weft_nvme_namespace ns;
    setup(NULL);
    descriptor_put(0, NVME_NIDT_UUID, 16, 2);
    error_of_descriptors = -EINVAL;
    assert_int_equal(identify(1, &ns), 0);
    assert_false(ns.has_uuid);
}

static void namespaces_are_known_up_to_a_number(void **state)
{
    struct weft_nvme_namespace ns;
    for (uint32_t nsid = 1; nsid <= NAMESPACE_MAX; nsid++) {
        put_le64(namespace_page + NVME_NS_OFF_NSZE, nsid);
        assert_int_equal(identify(nsid, &ns), 0);
        assert_int_equal(nvme.namespace_count, nsid);
    }
    assert_int_equal(identify(NAMESPACE_MAX + 1, &ns), -ENOSPC);
    put_le64(namespace_page + NVME_NS_OFF_NSZE, 1000);
    assert_int_equal(identify(3, &ns), 0); // again: as it is now
    assert_int_equal(nvme.namespace_count, NAMESPACE_MAX);
    assert_int_equal(initiator_namespace_find(&nvme, 3)->len, 512000);
    assert_int_equal(initiator_namespace_find(&nvme, 4)->len, 2048);
}

/* ---- discovery ------------------------------------------------------------------------------- */

static void entry_put(unsigned index, uint8_t trtype, uint8_t subtype, const char *host,
                      const char *port, const char *nqn)
{
    uint8_t *at = discovery + NVME_DISCOVERY_HEADER_LEN + (size_t)index * NVME_ENTRY_LEN;
    at[NVME_ENTRY_OFF_TRTYPE] = trtype;
    at[NVME_ENTRY_OFF_SUBTYPE] = subtype;
    text_put(at + NVME_ENTRY_OFF_TRADDR, host);
    text_put(at + NVME_ENTRY_OFF_TRSVCID, port);
    text_put(at + NVME_ENTRY_OFF_SUBNQN, nqn);
    put_le64(discovery + NVME_DISCOVERY_OFF_NUMREC, index + 1);
}

static void each_field_of_an_entry_is_taken(void **state)
{
    static const struct {
        uint8_t trtype, subtype;
        const char *transport, *kind;
    } rows[] = {
        {NVME_TRTYPE_RDMA, NVME_SUBTYPE_NVM, "rdma", "nvme"},
        {NVME_TRTYPE_TCP, NVME_SUBTYPE_DISCOVERY, "tcp", "discovery"},
        {2, NVME_SUBTYPE_REFERRAL, "fc", "referral"},
        {0, 0, "0", "0"},
        {4, 4, "4", "4"},
        {255, 255, "255", "255"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i += 3) {
        struct weft_nvme_entry *entries;
        size_t count;
        setup(NULL);
        for (unsigned k = 0; k < 3; k++) {
            entry_put(k, rows[i + k].trtype, rows[i + k].subtype, "192.0.2.1   ", "4420 ", "nqn.x");
        }
        nvme.watch.has_changed = true;
        assert_int_equal(weft_nvme_discover(&nvme, &entries, &count, why.text), 0);
        assert_false(nvme.watch.has_changed);
        assert_int_equal(count, 3);
        for (unsigned k = 0; k < 3; k++) {
            assert_string_equal(entries[k].transport, rows[i + k].transport);
            assert_string_equal(entries[k].kind, rows[i + k].kind);
            assert_string_equal(entries[k].host, "192.0.2.1");
            assert_string_equal(entries[k].port, "4420");
            assert_string_equal(entries[k].nqn, "nqn.x");
        }
        free(entries);
    }
}

// Before and behind the entries the header is the same, or they are read again, five times.
static void a_log_that_changes_is_read_again(void **state)
{
    static const struct {
        unsigned changes;
        uint64_t added;
        int error;
        size_t count;
    } rows[] = {{0, 0, 0, 1},       {1, 0, 0, 1}, {8, 0, 0, 1},
                {9, 0, -EAGAIN, 0}, {1, 1, 0, 2}, {10, 0, -EAGAIN, 0}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weft_nvme_entry *entries = NULL;
        size_t count = 0;
        setup(NULL);
        entry_put(1, NVME_TRTYPE_TCP, NVME_SUBTYPE_NVM, "h", "1", "second");
        entry_put(0, NVME_TRTYPE_TCP, NVME_SUBTYPE_NVM, "h", "1", "first");
        changes = rows[i].changes;
        added = rows[i].added;
        assert_int_equal(weft_nvme_discover(&nvme, &entries, &count, why.text), rows[i].error);
        assert_int_equal(count, rows[i].count);
        if (count > 0) {
            assert_string_equal(entries[0].nqn, "first");
            assert_string_equal(entries[count - 1].nqn, count == 2 ? "second" : "first");
        }
        free(entries);
    }
}

static void a_log_of_another_form_is_refused(void **state)
{
    static const struct {
        uint16_t format;
        uint64_t count;
        int error;
    } rows[] = {{0, 0, 0},
                {1, 0, -EPROTO},
                {0x100, 0, -EPROTO},
                {0, 4097, -EPROTO},
                {0, UINT64_MAX, -EPROTO}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weft_nvme_entry *entries = NULL;
        size_t count = 0;
        setup(NULL);
        put_le16(discovery + NVME_DISCOVERY_OFF_RECFMT, rows[i].format);
        put_le64(discovery + NVME_DISCOVERY_OFF_NUMREC, rows[i].count);
        assert_int_equal(weft_nvme_discover(&nvme, &entries, &count, why.text), rows[i].error);
        assert_int_equal(count, 0);
        free(entries);
    }
}

// Of the header, an entry, or the header once more.
static void a_call_that_fails_ends_it(void **state)
{
    for (unsigned at = 1; at <= 4; at++) {
        struct weft_nvme_entry *entries = NULL;
        size_t count;
        setup(NULL);
        entry_put(1, NVME_TRTYPE_TCP, NVME_SUBTYPE_NVM, "h", "1", "n");
        fails_at = at;
        assert_int_equal(weft_nvme_discover(&nvme, &entries, &count, why.text), -EIO);
        assert_null(entries);
        assert_int_equal(call, at);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        CASE(each_field_of_a_controller_is_taken),
        CASE(what_a_controller_can_do_is_a_bit_of_its_own),
        CASE(a_transfer_is_as_long_as_the_controller_takes),
        CASE(in_capsule_data_need_room_and_an_offset),
        CASE(a_controller_that_does_not_fit_is_refused),
        CASE(states_of_access_are_those_of_the_controller),
        CASE(lists_are_read_to_their_end_or_as_far_as_there_is_room),
        CASE(a_list_that_does_not_ascend_is_refused),
        CASE(each_field_of_a_namespace_is_taken),
        CASE(of_many_formats_two_more_bits_say_which),
        CASE(a_namespace_of_no_use_is_refused),
        CASE(identifiers_are_taken_from_their_descriptors),
        CASE(descriptors_end_with_their_page),
        CASE(namespaces_are_known_up_to_a_number),
        CASE(each_field_of_an_entry_is_taken),
        CASE(a_log_that_changes_is_read_again),
        CASE(a_log_of_another_form_is_refused),
        CASE(a_call_that_fails_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
