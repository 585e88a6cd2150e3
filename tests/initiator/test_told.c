// What a host tells a target, octet for octet; what it makes of each thing that a target may say;
// and that nothing is left behind of either.
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

#include <weft/nvme.h>

#include "base/bytes.h"
#include "format/nvme_pages.h"
#include "format/nvme_wire.h"
#include "tests/initiator/target.h"

#define HOST_NQN "nqn.2026-11.test:host"

static char why[WEFT_NVME_WHY_MAX];
static struct target *target;
static struct weft_nvme *nvme;

static int begin_as(const struct target_wish *wish, const char *nqn, struct weft_nvme_attr attr)
{
    struct weft_nvme_address address = {.host = "127.0.0.1"};
    target = target_start(wish);
    memcpy(address.port, target_port(target), strlen(target_port(target)));
    memcpy(address.nqn, nqn, strlen(nqn));
    attr.address = &address;
    attr.timeout_ms = 20000;
    attr.flags |= WEFT_NVME_NO_ONESHOT;
    nvme = NULL;
    why[0] = '\0';
    return weft_nvme_connect(&attr, &nvme, why);
}

static int begin(const struct target_wish *wish)
{
    return begin_as(wish, TARGET_NQN, (struct weft_nvme_attr){.depth = 4});
}

static void end(void)
{
    weft_nvme_disconnect(nvme);
    target_stop(target);
}

static void expect_said(const char *said)
{
    if (strstr(why, said) == NULL) {
        fail_msg("'%s' is not in '%s'", said, why);
    }
}

/* ---- what a host says ------------------------------------------------------------------------ */

// A Connect but for its CID and its memory.
static void expect_connect(unsigned queue, uint16_t cntlid, uint16_t depth, uint32_t kato_ms)
{
    const struct target_seen *seen = target_seen(target, queue);
    uint8_t sqe[NVME_SQE_LEN] = {[NVME_SQE_OFF_OPCODE] = NVME_FABRICS,
                                 [NVME_SQE_OFF_FLAGS] = NVME_SQE_PSDT_SGL,
                                 [NVME_SQE_OFF_FCTYPE] = NVME_FCTYPE_CONNECT};
    uint8_t *data = calloc(1, NVME_CONNECT_DATA_LEN), request[NVME_RDMA_REQUEST_LEN] = {0};
    memcpy(sqe + NVME_SQE_OFF_CID, seen->connect + NVME_SQE_OFF_CID, 2);
    memcpy(sqe + NVME_SQE_OFF_SGL1, seen->connect + NVME_SQE_OFF_SGL1, NVME_SGL_LEN);
    assert_int_equal(get_le32(sqe + NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_LENGTH) & 0xffffff, 1024);
    assert_int_equal(sqe[NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_ID], NVME_SGL_KEYED);
    put_le16(sqe + NVME_CONNECT_OFF_QID, (uint16_t)queue);
    put_le16(sqe + NVME_CONNECT_OFF_SQSIZE, depth);
    put_le32(sqe + NVME_CONNECT_OFF_KATO, kato_ms);
    assert_memory_equal(seen->connect, sqe, sizeof sqe);
    memset(data + NVME_CONNECT_DATA_OFF_HOSTID, 0x5a, NVME_HOSTID_LEN);
    put_le16(data + NVME_CONNECT_DATA_OFF_CNTLID, cntlid);
    memcpy(data + NVME_CONNECT_DATA_OFF_SUBNQN, TARGET_NQN, strlen(TARGET_NQN));
    memcpy(data + NVME_CONNECT_DATA_OFF_HOSTNQN, HOST_NQN, strlen(HOST_NQN));
    assert_memory_equal(seen->connect_data, data, NVME_CONNECT_DATA_LEN);
    put_le16(request + NVME_RDMA_REQUEST_OFF_QID, (uint16_t)queue);
    put_le16(request + NVME_RDMA_REQUEST_OFF_HRQSIZE, (uint16_t)(depth + 1));
    put_le16(request + NVME_RDMA_REQUEST_OFF_HSQSIZE, depth);
    assert_memory_equal(seen->request, request, sizeof request);
    free(data);
}

static void a_host_says_who_it_is_and_what_it_wants(void **state)
{
    const struct target_wish wish = {0};
    struct weft_nvme_attr attr = {
        .host_nqn = HOST_NQN, .queue_count = 2, .depth = 5, .keep_alive_ms = 34567};
    memset(attr.host_id, 0x5a, sizeof attr.host_id);
    assert_int_equal(begin_as(&wish, TARGET_NQN, attr), 0);
    uint16_t admin_depth = get_le16(target_seen(target, 0)->connect + NVME_CONNECT_OFF_SQSIZE);
    expect_connect(0, NVME_CNTLID_DYNAMIC, admin_depth, 34567);
    expect_connect(1, 7, 5, 0);
    expect_connect(2, 7, 5, 0);
    const uint8_t *features = target_seen(target, 0)->features;
    assert_int_equal(get_le32(features + NVME_SQE_OFF_CDW10), NVME_FEATURE_NUMBER_OF_QUEUES);
    assert_int_equal(get_le32(features + NVME_SQE_OFF_CDW11), 1 << 16 | 1);
    const uint8_t *property = target_seen(target, 0)->property;
    assert_int_equal(get_le32(property + NVME_PROPERTY_OFF_OFFSET), NVME_PROPERTY_CC);
    assert_int_equal(get_le64(property + NVME_PROPERTY_OFF_VALUE),
                     NVME_CC_EN | 6 << NVME_CC_IOSQES_SHIFT | 4 << NVME_CC_IOCQES_SHIFT);
    end();
}

static void a_host_without_a_name_has_one_that_stays(void **state)
{
    const struct target_wish wish = {0};
    uint8_t data[2][NVME_CONNECT_DATA_LEN];
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(begin(&wish), 0);
        memcpy(data[i], target_seen(target, 0)->connect_data, sizeof data[i]);
        assert_int_equal(get_le32(target_seen(target, 0)->connect + NVME_CONNECT_OFF_KATO), 5000);
        end();
    }
    const char *name = (const char *)data[0] + NVME_CONNECT_DATA_OFF_HOSTNQN;
    static const uint8_t none[NVME_HOSTID_LEN];
    assert_memory_equal(data[0], data[1], sizeof data[0]);
    assert_memory_equal(name, "nqn.", 4);
    assert_memory_not_equal(data[0], none, sizeof none);
}

// What it is called on the wire, and its number: a name without a number has always the same one.
static void a_name_without_a_number_has_one_of_its_own(void **state)
{
    static const char *const names[] = {HOST_NQN, HOST_NQN "-2", HOST_NQN};
    const struct target_wish wish = {0};
    static const uint8_t own[NVME_HOSTID_LEN] = {0xb2, 0x7c, 0x70, 0xc0, 0xd0, 0x78, 0x5b, 0x51,
                                                 0x82, 0x0b, 0xb8, 0x1d, 0x9e, 0x3f, 0x03, 0x4b};
    uint8_t ids[3][NVME_HOSTID_LEN];
    for (unsigned i = 0; i < 3; i++) {
        const struct weft_nvme_attr attr = {.host_nqn = names[i], .depth = 4};
        assert_int_equal(begin_as(&wish, TARGET_NQN, attr), 0);
        const uint8_t *data = target_seen(target, 0)->connect_data;
        memcpy(ids[i], data + NVME_CONNECT_DATA_OFF_HOSTID, sizeof ids[i]);
        assert_string_equal(data + NVME_CONNECT_DATA_OFF_HOSTNQN, names[i]);
        end();
    }
    assert_memory_equal(ids[0], own, sizeof own); // in each release
    assert_memory_not_equal(ids[0], ids[1], sizeof own);
    assert_memory_equal(ids[0], ids[2], sizeof own);
}

static void the_shortest_name_is_one(void **state)
{
    const struct target_wish wish = {0};
    assert_int_equal(begin_as(&wish, "x", (struct weft_nvme_attr){.depth = 4}), -ENOENT);
    assert_string_equal(target_seen(target, 0)->connect_data + NVME_CONNECT_DATA_OFF_SUBNQN, "x");
    end();
}

static void a_discovery_controller_has_no_queues_and_promises_nothing(void **state)
{
    const struct target_wish wish = {0};
    struct weft_nvme_info info;
    assert_int_equal(begin_as(&wish, "", (struct weft_nvme_attr){.queue_count = 3}), 0);
    weft_nvme_info(nvme, &info);
    assert_int_equal(info.queue_count, 0);
    assert_int_equal(get_le32(target_seen(target, 0)->connect + NVME_CONNECT_OFF_KATO), 0);
    assert_string_equal(target_seen(target, 0)->connect_data + NVME_CONNECT_DATA_OFF_SUBNQN,
                        NVME_DISCOVERY_NQN);
    end();
}

static void more_than_there_may_be_is_refused(void **state)
{
    const struct target_wish wish = {0};
    const struct weft_nvme_attr many[] = {{.queue_count = WEFT_NVME_QUEUE_MAX + 1},
                                          {.depth = WEFT_NVME_DEPTH_MAX + 1}};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(begin_as(&wish, TARGET_NQN, many[i]), -EINVAL);
        expect_said("at most 1024 commands on each of 16 queues");
        assert_int_equal(target_counters(target)->connects, 0);
        end();
    }
}

/* ---- what a target says ---------------------------------------------------------------------- */

#define EDITS(...)          \
    .edits = {__VA_ARGS__}, \
    .edit_count = sizeof(struct target_edit[]){__VA_ARGS__} / sizeof(struct target_edit)

static void what_cannot_be_is_refused_in_words(void **state)
{
    const struct {
        struct target_wish wish;
        int error;
        const char *said;
    } cases[] = {
        {{EDITS({TARGET_CONTROLLER, NVME_CTRL_OFF_SGLS, NVME_SGLS_SUPPORTED})},
         -EPROTO,
         "takes no keyed SGLs"},
        {{EDITS({TARGET_CONTROLLER, NVME_CTRL_OFF_ICDOFF, 1})},
         -EPROTO,
         "in-capsule data at an offset"},
        {{EDITS({TARGET_CONTROLLER, NVME_CTRL_OFF_ICDOFF + 1, 1})},
         -EPROTO,
         "in-capsule data at an offset"},
        {{EDITS({TARGET_ACCEPTANCE, NVME_RDMA_ACCEPT_OFF_RECFMT, 1})},
         -EPROTO,
         "accepts, but not as an NVMe target"},
        {{.other_controller = 9}, -EPROTO, "queue 1 is one of controller 9, not 7"},
        {{.status = NVME_CSTS_CFS}, -EIO, "says that it has failed"},
        {{.capabilities = 127, .status = 1 << 8}, -ETIMEDOUT, "does not become ready"},
        {{.connect_status = NVME_CONNECT_INVALID,
          .connect_result = NVME_CONNECT_IN_DATA | NVME_CONNECT_DATA_OFF_HOSTNQN},
         -EACCES,
         "as a host's name"},
        {{.connect_status = NVME_CONNECT_INVALID, .connect_result = NVME_CONNECT_IN_DATA | 16},
         -EINVAL,
         "octet 16 of the Connect data"},
        {{.connect_status = NVME_INVALID_QUEUE_ID}, -EINVAL, "Connect of queue 0 with: Invalid"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(begin(&cases[i].wish), cases[i].error);
        assert_null(nvme);
        expect_said(cases[i].said);
        end();
    }
}

static void rejections_are_named(void **state)
{
    static const char *const names[] = {"refuses the connection of queue 0",
                                        "private data of a wrong length",
                                        "a record format it does not know",
                                        "a queue number it cannot have",
                                        "a submission queue of a size it cannot have",
                                        "a receive queue of a size it cannot have",
                                        "it has no resources left",
                                        "too few reads that it may have outstanding",
                                        "too many reads that it may have outstanding",
                                        "refuses the connection of queue 0"};
    for (uint16_t reason = 1; reason < sizeof names / sizeof names[0]; reason++) {
        const struct target_wish wish = {.reject = reason};
        assert_int_equal(begin(&wish), -ECONNREFUSED);
        expect_said(names[reason]);
        end();
    }
}

static void a_controller_is_what_its_page_says(void **state)
{
    static const struct {
        struct target_edit edit;
        uint32_t transfer_max, in_capsule;
        unsigned depth;
    } cases[] = {
        {{TARGET_CONTROLLER, NVME_CTRL_OFF_MDTS, 0}, 1 << 20, 4096, 4},
        {{TARGET_CONTROLLER, NVME_CTRL_OFF_MDTS, 1}, 8192, 4096, 4},
        {{TARGET_CONTROLLER, NVME_CTRL_OFF_MDTS, 11}, 8 << 20, 4096, 4},
        {{TARGET_CONTROLLER, NVME_CTRL_OFF_MDTS, 12}, 0xfff000, 4096, 4},
        {{TARGET_CONTROLLER, NVME_CTRL_OFF_MDTS, 13}, 1 << 20, 4096, 4},
        {{TARGET_CONTROLLER, NVME_CTRL_OFF_SGLS + 2, 0}, 1 << 20, 0, 4},
        {{TARGET_CONTROLLER, NVME_CTRL_OFF_IOCCSZ + 1, 0}, 1 << 20, 0, 4},
        {{TARGET_CONTROLLER, NVME_CTRL_OFF_IOCCSZ + 2, 1}, 1 << 20, 8192, 4},
        {{TARGET_CONTROLLER, NVME_CTRL_OFF_MAXCMD, 3}, 1 << 20, 4096, 3},
        {{TARGET_CONTROLLER, NVME_CTRL_OFF_MAXCMD, 0}, 1 << 20, 4096, 4},
        {{TARGET_ACCEPTANCE, NVME_RDMA_ACCEPT_OFF_CRQSIZE, 2}, 1 << 20, 4096, 2},
        {{TARGET_ACCEPTANCE, NVME_RDMA_ACCEPT_OFF_CRQSIZE, 0}, 1 << 20, 4096, 4},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct target_wish wish = {.edit_count = 1, .edits = {cases[i].edit}};
        struct weft_nvme_info info;
        assert_int_equal(begin(&wish), 0);
        weft_nvme_info(nvme, &info);
        assert_int_equal(info.transfer_max_len, cases[i].transfer_max);
        if (cases[i].in_capsule < 8192) {
            assert_int_equal(info.in_capsule_len, cases[i].in_capsule);
        } else {
            assert_true(info.in_capsule_len >= 4096); // as much as this end wants
        }
        assert_int_equal(info.depth, cases[i].depth);
        assert_string_equal(info.firmware, "1");
        assert_int_equal(info.controller, 7);
        assert_int_equal(info.version, NVME_VERSION_1_4);
        assert_int_equal(info.namespace_count, 1);
        end();
    }
}

static void queues_are_as_many_and_as_deep_as_is_granted(void **state)
{
    const struct target_wish three = {.granted = 2 | 1 << 16, .capabilities = 2};
    const struct target_wish all = {.granted = 9 | 9 << 16};
    struct weft_nvme_info info;
    assert_int_equal(
        begin_as(&three, TARGET_NQN, (struct weft_nvme_attr){.queue_count = 4, .depth = 8}), 0);
    weft_nvme_info(nvme, &info);
    assert_int_equal(info.queue_count, 2);
    assert_int_equal(info.depth, 4);
    end();
    assert_int_equal(
        begin_as(&all, TARGET_NQN, (struct weft_nvme_attr){.queue_count = 4, .depth = 8}), 0);
    weft_nvme_info(nvme, &info);
    assert_int_equal(info.queue_count, 4);
    assert_int_equal(info.depth, 32);
    end();
}

static void what_a_controller_cannot_do_is_not_asked_of_it(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct target_wish wish = {EDITS({TARGET_CONTROLLER, NVME_CTRL_OFF_ONCS,
                                                i == 0 ? NVME_ONCS_DSM : NVME_ONCS_WRITE_ZEROES},
                                               {TARGET_CONTROLLER, NVME_CTRL_OFF_VWC, 0})};
        struct weft_nvme_info info;
        struct weft_nvme_namespace ns;
        assert_int_equal(begin(&wish), 0);
        weft_nvme_info(nvme, &info);
        assert_int_equal(info.can_trim, i == 0);
        assert_int_equal(info.can_write_zeroes, i == 1);
        assert_false(info.has_volatile_cache);
        assert_int_equal(weft_nvme_identify(nvme, 1, &ns, why), 0);
        struct weft_nvme_io trim = {.operation = WEFT_NVME_TRIM, .nsid = 1, .len = 512};
        struct weft_nvme_io zero = {.operation = WEFT_NVME_WRITE_ZEROES, .nsid = 1, .len = 512};
        assert_int_equal(weft_nvme_submit(nvme, i == 0 ? &zero : &trim), -EOPNOTSUPP);
        end();
    }
}

/* ---- namespaces ------------------------------------------------------------------------------ */

static void namespaces_that_cannot_be_used_are_refused(void **state)
{
    static const struct {
        struct target_edit edit;
        int error;
        const char *said;
    } cases[] = {
        {{TARGET_NAMESPACE, NVME_NS_OFF_LBAF + 2, 8}, -EPROTO, "blocks of 2^8 octets with 0"},
        {{TARGET_NAMESPACE, NVME_NS_OFF_LBAF + 2, 17}, -EPROTO, "blocks of 2^17 octets"},
        {{TARGET_NAMESPACE, NVME_NS_OFF_LBAF, 8}, -EPROTO, "with 8 of metadata"},
        {{TARGET_NAMESPACE, NVME_NS_OFF_LBAF + 1, 1}, -EPROTO, "with 256 of metadata"},
        {{TARGET_NAMESPACE, NVME_NS_OFF_FLBAS, 1}, -EPROTO, "blocks of 2^0 octets"},
        {{TARGET_NAMESPACE, NVME_NS_OFF_NSZE + 7, 1}, -EPROTO, "longer than 2^64"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct target_wish wish = {.edit_count = 1, .edits = {cases[i].edit}};
        struct weft_nvme_namespace ns;
        assert_int_equal(begin(&wish), 0);
        assert_int_equal(weft_nvme_identify(nvme, 1, &ns, why), cases[i].error);
        expect_said(cases[i].said);
        end();
    }
}

static void a_namespace_has_the_format_in_use(void **state)
{
    for (uint8_t shift = 9; shift <= 16; shift++) {
        const struct target_wish wish = {EDITS({TARGET_NAMESPACE, NVME_NS_OFF_FLBAS, 0xf3},
                                               {TARGET_NAMESPACE, NVME_NS_OFF_LBAF + 14, shift})};
        struct weft_nvme_namespace ns;
        assert_int_equal(begin(&wish), 0);
        assert_int_equal(weft_nvme_identify(nvme, 1, &ns, why), 0);
        assert_int_equal(ns.block_len, 1 << shift);
        assert_int_equal(ns.len, (uint64_t)(TARGET_DISK_LEN / TARGET_BLOCK_LEN) << shift);
        assert_int_equal(weft_nvme_range_max_len(nvme, 1, WEFT_NVME_WRITE_ZEROES), UINT64_C(65536)
                                                                                       << shift);
        assert_int_equal(weft_nvme_range_max_len(nvme, 1, WEFT_NVME_TRIM), UINT64_C(0xffffffff)
                                                                               << shift);
        assert_int_equal(weft_nvme_range_max_len(nvme, 1, WEFT_NVME_READ), 0);
        assert_int_equal(weft_nvme_range_max_len(nvme, 2, WEFT_NVME_TRIM), 0);
        end();
    }
}

static void identities_are_taken_from_the_list(void **state)
{
    static const struct {
        struct target_edit edits[3];
        bool has_uuid, has_nguid;
    } cases[] = {
        {{{TARGET_DESCRIPTORS, 0, NVME_NIDT_UUID}}, true, false},
        {{{TARGET_DESCRIPTORS, 0, NVME_NIDT_NGUID}}, false, true},
        {{{TARGET_DESCRIPTORS, 0, NVME_NIDT_EUI64}}, false, false},
        {{{TARGET_DESCRIPTORS, 1, 15}}, false, false},
        {{{TARGET_DESCRIPTORS, 1, 0}}, false, false},
        {{{TARGET_DESCRIPTORS, 20, NVME_NIDT_NGUID}, {TARGET_DESCRIPTORS, 21, 16}}, true, true},
        {{{TARGET_DESCRIPTORS, 20, NVME_NIDT_CSI},
          {TARGET_DESCRIPTORS, 21, 1},
          {TARGET_DESCRIPTORS, 25, NVME_NIDT_NGUID}},
         true,
         false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct target_wish wish = {.edit_count = 3};
        struct weft_nvme_namespace ns;
        memcpy(wish.edits, cases[i].edits, sizeof cases[i].edits);
        for (unsigned k = 0; k < 3; k++) { // the rest: an octet that is no part of the list
            wish.edits[k] = wish.edits[k].page == TARGET_DESCRIPTORS
                                ? wish.edits[k]
                                : (struct target_edit){TARGET_DESCRIPTORS, 4095, 0};
        }
        assert_int_equal(begin(&wish), 0);
        assert_int_equal(weft_nvme_identify(nvme, 1, &ns, why), 0);
        assert_int_equal(ns.has_uuid, cases[i].has_uuid);
        assert_int_equal(ns.has_nguid, cases[i].has_nguid);
        assert_int_equal(ns.uuid[15], cases[i].has_uuid ? 0x44 : 0);
        end();
    }
}

/* ---- discovery ------------------------------------------------------------------------------- */

static void entries_have_names_or_numbers(void **state)
{
    static const struct {
        uint8_t trtype, subtype;
        const char *transport, *kind;
    } cases[] = {{1, 1, "rdma", "referral"}, {2, 2, "fc", "nvme"}, {3, 3, "tcp", "discovery"},
                 {0, 0, "0", "0"},           {4, 4, "4", "4"},     {254, 255, "254", "255"}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct target_wish wish = {
            .log_len = 3,
            EDITS({TARGET_LOG_ENTRY, NVME_ENTRY_OFF_TRTYPE, cases[i].trtype},
                  {TARGET_LOG_ENTRY, NVME_ENTRY_OFF_SUBTYPE, cases[i].subtype},
                  {TARGET_LOG_ENTRY, NVME_ENTRY_OFF_TRADDR + 2, 7})};
        struct weft_nvme_entry *entries;
        size_t count;
        assert_int_equal(begin_as(&wish, "", (struct weft_nvme_attr){.depth = 0}), 0);
        assert_int_equal(weft_nvme_discover(nvme, &entries, &count, why), 0);
        assert_int_equal(count, 3);
        for (unsigned k = 0; k < 3; k++) {
            assert_string_equal(entries[k].transport, cases[i].transport);
            assert_string_equal(entries[k].kind, cases[i].kind);
            assert_string_equal(entries[k].host, "12?.0.0.1");
            assert_string_equal(entries[k].port, target_port(target));
            assert_string_equal(entries[k].nqn, TARGET_NQN);
        }
        free(entries);
        end();
    }
}

static void logs_that_cannot_be_are_refused(void **state)
{
    const struct target_wish cases[] = {
        {EDITS({TARGET_LOG_HEADER, NVME_DISCOVERY_OFF_RECFMT, 1})},
        {.log_len = 4097},
    };
    static const char *const said[] = {"format 1 with 1 entries", "format 0 with 4097 entries"};
    for (unsigned i = 0; i < 2; i++) {
        struct weft_nvme_entry *entries;
        size_t count;
        assert_int_equal(begin_as(&cases[i], "", (struct weft_nvme_attr){.depth = 0}), 0);
        assert_int_equal(weft_nvme_discover(nvme, &entries, &count, why), -EPROTO);
        expect_said(said[i]);
        end();
    }
}

/* ---- statuses -------------------------------------------------------------------------------- */

static void on_complete(struct weft_nvme_io *io)
{
    ++*(unsigned *)io->context;
}

static void statuses_have_a_name_and_an_errno(void **state)
{
    static const struct {
        uint16_t status;
        int error;
        const char *name;
    } statuses[] = {
        {0x001, -EOPNOTSUPP, "Invalid Command Opcode"},
        {0x002, -EINVAL, "Invalid Field in Command"},
        {0x003, -EPROTO, "Command ID Conflict"},
        {0x004, -EIO, "Data Transfer Error"},
        {0x006, -EIO, "Internal Error"},
        {0x007, -ECANCELED, "Command Abort Requested"},
        {0x008, -ECANCELED, "Aborted: SQ Deletion"},
        {0x00b, -ENOENT, "Invalid Namespace"},
        {0x00c, -EPROTO, "Command Sequence Error"},
        {0x00e, -EPROTO, "Invalid Number of SGLs"},
        {0x00f, -EPROTO, "Data SGL Length Invalid"},
        {0x011, -EPROTO, "SGL Type Invalid"},
        {0x016, -EPROTO, "SGL Offset Invalid"},
        {0x019, -ETIMEDOUT, "Keep Alive Expired"},
        {0x01a, -EINVAL, "Keep Alive Invalid"},
        {0x020, -EROFS, "Namespace Protected"},
        {0x022, -EIO, "Transport Error"},
        {0x080, -ERANGE, "LBA Out of Range"},
        {0x081, -ENOSPC, "Capacity Exceeded"},
        {0x082, -EBUSY, "Namespace Not Ready"},
        {0x083, -EBADE, "Reservation Conflict"},
        {0x101, -EINVAL, "Invalid Queue Identifier"},
        {0x105, -EBUSY, "Async Event Limit"},
        {0x109, -ENOENT, "Invalid Log Page"},
        {0x180, -EPROTO, "Incompatible Format"},
        {0x181, -EBUSY, "Controller Busy"},
        {0x182, -EINVAL, "Connect Invalid Parameters"},
        {0x184, -EACCES, "Connect Invalid Host"},
        {0x280, -EIO, "Write Fault"},
        {0x281, -EIO, "Unrecovered Read Error"},
        {0x3ff, -EIO, "status 0x3ff"},
        {0x005, -EIO, "status 0x005"},
    };
    char text[32];
    assert_string_equal(weft_nvme_status_str(0, text), "Successful Completion");
    for (unsigned i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        const bool is_final = i % 2 != 0;
        const struct target_wish wish = {.io_status = statuses[i].status | NVME_STATUS_MORE |
                                                      (is_final ? NVME_STATUS_DNR : 0)};
        unsigned done = 0;
        struct weft_nvme_namespace ns;
        struct weft_nvme_io io = {
            .operation = WEFT_NVME_FLUSH, .nsid = 1, .on_complete = on_complete, .context = &done};
        assert_string_equal(weft_nvme_status_str(statuses[i].status, text), statuses[i].name);
        assert_int_equal(begin(&wish), 0);
        assert_int_equal(weft_nvme_identify(nvme, 1, &ns, why), 0);
        assert_int_equal(weft_nvme_submit(nvme, &io), 0);
        while (done == 0) {
            assert_true(weft_nvme_wait(nvme, 1000) >= 0);
        }
        assert_int_equal(io.error, statuses[i].error);
        assert_int_equal(io.status, statuses[i].status);
        assert_int_equal(io.may_retry, !is_final);
        end();
    }
}

/* ---- nothing is left behind ------------------------------------------------------------------ */

static atomic_int objects;
static __thread unsigned fails_at; // the how manyeth of the next calls fails; 0: none

static bool fails(void)
{
    bool is_it = fails_at == 1;
    fails_at -= fails_at > 0;
    errno = is_it ? ENOMEM : errno;
    return is_it;
}

// What is made is counted, and what is destroyed, by the host and by the target.
#define MADE(type, failed, name, parameters, ...) \
    type __real_##name parameters;                \
    type __wrap_##name parameters;                \
    type __wrap_##name parameters                 \
    {                                             \
        if (fails()) {                            \
            return failed;                        \
        }                                         \
        atomic_fetch_add(&objects, 1);            \
        return __real_##name(__VA_ARGS__);        \
    }

#define DESTROYED(type, name, parameter, argument) \
    type __real_##name(parameter);                 \
    type __wrap_##name(parameter);                 \
    type __wrap_##name(parameter)                  \
    {                                              \
        atomic_fetch_sub(&objects, 1);             \
        return __real_##name(argument);            \
    }

#define DONE(name, parameters, ...)                       \
    int __real_##name parameters;                         \
    int __wrap_##name parameters;                         \
    int __wrap_##name parameters                          \
    {                                                     \
        return fails() ? -1 : __real_##name(__VA_ARGS__); \
    }

MADE(struct ibv_pd *, NULL, ibv_alloc_pd, (struct ibv_context * c), c)
MADE(struct ibv_cq *, NULL, ibv_create_cq,
     (struct ibv_context * c, int cqe, void *p, struct ibv_comp_channel *channel, int vector), c,
     cqe, p, channel, vector)
MADE(struct ibv_comp_channel *, NULL, ibv_create_comp_channel, (struct ibv_context * c), c)
#undef ibv_reg_mr
MADE(struct ibv_mr *, NULL, ibv_reg_mr, (struct ibv_pd * pd, void *addr, size_t len, int access),
     pd, addr, len, access)
MADE(struct ibv_mr *, NULL, ibv_reg_mr_iova2,
     (struct ibv_pd * pd, void *addr, size_t len, uint64_t iova, unsigned access), pd, addr, len,
     iova, access)
MADE(int, -1, rdma_create_id,
     (struct rdma_event_channel * channel, struct rdma_cm_id **id, void *context,
      enum rdma_port_space space),
     channel, id, context, space)
MADE(int, -1, rdma_create_qp,
     (struct rdma_cm_id * id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr), id, pd, attr)
MADE(struct rdma_event_channel *, NULL, rdma_create_event_channel, (void), )
DESTROYED(int, ibv_dealloc_pd, struct ibv_pd *pd, pd)
DESTROYED(int, ibv_destroy_cq, struct ibv_cq *cq, cq)
DESTROYED(int, ibv_destroy_comp_channel, struct ibv_comp_channel *channel, channel)
DESTROYED(int, ibv_dereg_mr, struct ibv_mr *mr, mr)
DESTROYED(int, rdma_destroy_id, struct rdma_cm_id *id, id)
DESTROYED(void, rdma_destroy_qp, struct rdma_cm_id *id, id)
DESTROYED(void, rdma_destroy_event_channel, struct rdma_event_channel *channel, channel)
DONE(rdma_resolve_addr,
     (struct rdma_cm_id * id, struct sockaddr *from, struct sockaddr *to, int timeout_ms), id, from,
     to, timeout_ms)
DONE(rdma_resolve_route, (struct rdma_cm_id * id, int timeout_ms), id, timeout_ms)
DONE(rdma_connect, (struct rdma_cm_id * id, struct rdma_conn_param *param), id, param)

// An event becomes another one on its way to the host.
static __thread struct mistake {
    enum rdma_cm_event_type at, becomes;
    int status;
} mistake;
static __thread bool has_mistake;

// A connection request brings an identifier.
int __real_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **ret);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **ret);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **ret)
{
    int error = __real_rdma_get_cm_event(channel, ret);
    if (error == 0 && has_mistake && (*ret)->event == mistake.at) {
        (*ret)->event = mistake.becomes;
        (*ret)->status = mistake.status;
        has_mistake = false;
    }
    if (error == 0 && (*ret)->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        atomic_fetch_add(&objects, 1);
    }
    return error;
}

static int nothing_left(void **state)
{
    if (atomic_load(&objects) != 0) {
        print_error("%d objects are left\n", atomic_load(&objects));
    }
    return atomic_exchange(&objects, 0) == 0 ? 0 : -1;
}

static void a_call_that_fails_is_told_and_leaves_nothing(void **state)
{
    const struct target_wish wish = {0};
    unsigned failed = 0;
    struct weft_nvme_address address = {.host = "127.0.0.1", .nqn = TARGET_NQN};
    const struct weft_nvme_attr attr = {
        .address = &address, .queue_count = 2, .depth = 4, .timeout_ms = 20000};
    target = target_start(&wish);
    memcpy(address.port, target_port(target), strlen(target_port(target)));
    for (nvme = NULL; nvme == NULL; failed++) {
        why[0] = '\0';
        fails_at = failed + 1;
        int error = weft_nvme_connect(&attr, &nvme, why);
        bool has_failed = fails_at == 0;
        fails_at = 0;
        assert_int_equal(error < 0, has_failed);
        assert_int_equal(why[0] != '\0', has_failed);
        assert_int_equal(nvme == NULL, has_failed);
    }
    assert_in_range(failed, 20, 40);
    end();
}

static void what_the_connection_manager_says_is_told(void **state)
{
    static const struct {
        struct mistake mistake;
        int error;
        const char *said;
    } cases[] = {
        {{RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH},
         -EHOSTUNREACH,
         "no way to 127.0.0.1: Network is unreachable"},
        {{RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR, EHOSTDOWN},
         -EHOSTUNREACH,
         "no way to 127.0.0.1: Host is down"},
        {{RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT},
         -ETIMEDOUT,
         "does not answer as an RDMA target"},
        {{RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO},
         -ECONNREFUSED,
         "does not answer as an RDMA target"},
        {{RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_DEVICE_REMOVAL, 0},
         -ECONNRESET,
         "ended the connection of queue 0 (RDMA_CM_EVENT_DEVICE_REMOVAL)"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct target_wish wish = {0};
        mistake = cases[i].mistake;
        has_mistake = true;
        assert_int_equal(begin(&wish), cases[i].error);
        assert_false(has_mistake);
        expect_said(cases[i].said);
        end();
    }
}

static void a_host_without_descriptors_says_so(void **state)
{
    const struct target_wish wish = {0};
    struct weft_nvme_address address = {.host = "127.0.0.1", .nqn = TARGET_NQN};
    const struct weft_nvme_attr attr = {.address = &address};
    struct rlimit limit, none;
    target = target_start(&wish);
    memcpy(address.port, target_port(target), strlen(target_port(target)));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 3; // all of which are taken
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int error = weft_nvme_connect(&attr, &nvme, why);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(error, -EMFILE);
    expect_said("no descriptors");
    target_stop(target);
}

// It takes no room of the queue, either.
static void memory_that_cannot_be_registered_is_refused(void **state)
{
    enum { TRIES = 9 }; // more than the queue is deep
    const struct target_wish wish = {.has_no_capsule_room = true};
    struct weft_nvme_namespace ns;
    uint8_t *data = calloc(1, 1024);
    const struct iovec pieces[] = {{data, 512}, {data + 512, 512}};
    unsigned done = 0;
    struct weft_nvme_io io = {.operation = WEFT_NVME_READ,
                              .nsid = 1,
                              .memory = pieces,
                              .on_complete = on_complete,
                              .context = &done};
    assert_int_equal(begin(&wish), 0);
    assert_int_equal(weft_nvme_identify(nvme, 1, &ns, why), 0);
    fails_at = 1;
    assert_int_equal(weft_nvme_lend(nvme, data, 1024), -ENOMEM);
    for (unsigned i = 0; i < 2 * TRIES; i++) { // one piece as it is, two by a copy
        io.memory_count = 1 + i % 2;
        io.len = 512 * io.memory_count;
        fails_at = 1;
        assert_int_equal(weft_nvme_submit(nvme, &io), -ENOMEM);
        assert_int_equal(fails_at, 0);
    }
    assert_int_equal(weft_nvme_submit(nvme, &io), 0);
    while (done == 0) {
        assert_true(weft_nvme_wait(nvme, 1000) >= 0);
    }
    assert_int_equal(io.error, 0);
    end();
    free(data);
}

static void what_was_lent_and_copied_is_given_back(void **state)
{
    const struct target_wish wish = {.has_no_capsule_room = true};
    struct weft_nvme_namespace ns;
    uint8_t *data = calloc(1, 8192);
    const struct iovec pieces[] = {{data, 512}, {data + 1024, 512}};
    unsigned done = 0;
    struct weft_nvme_io io = {.operation = WEFT_NVME_WRITE,
                              .nsid = 1,
                              .len = 1024,
                              .memory = pieces,
                              .memory_count = 2,
                              .on_complete = on_complete,
                              .context = &done};
    assert_int_equal(begin(&wish), 0);
    assert_int_equal(weft_nvme_identify(nvme, 1, &ns, why), 0);
    assert_int_equal(weft_nvme_lend(nvme, data, 8192), 0);
    assert_int_equal(weft_nvme_submit(nvme, &io), 0);
    while (done == 0) {
        assert_true(weft_nvme_wait(nvme, 1000) >= 0);
    }
    end();
    free(data);
}

#define TEST(name) cmocka_unit_test_teardown(name, nothing_left)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_host_says_who_it_is_and_what_it_wants),
        TEST(a_host_without_a_name_has_one_that_stays),
        TEST(a_name_without_a_number_has_one_of_its_own),
        TEST(the_shortest_name_is_one),
        TEST(a_discovery_controller_has_no_queues_and_promises_nothing),
        TEST(more_than_there_may_be_is_refused),
        TEST(what_cannot_be_is_refused_in_words),
        TEST(rejections_are_named),
        TEST(a_controller_is_what_its_page_says),
        TEST(queues_are_as_many_and_as_deep_as_is_granted),
        TEST(what_a_controller_cannot_do_is_not_asked_of_it),
        TEST(namespaces_that_cannot_be_used_are_refused),
        TEST(a_namespace_has_the_format_in_use),
        TEST(identities_are_taken_from_the_list),
        TEST(entries_have_names_or_numbers),
        TEST(logs_that_cannot_be_are_refused),
        TEST(statuses_have_a_name_and_an_errno),
        TEST(a_call_that_fails_is_told_and_leaves_nothing),
        TEST(what_the_connection_manager_says_is_told),
        TEST(a_host_without_descriptors_says_so),
        TEST(memory_that_cannot_be_registered_is_refused),
        TEST(what_was_lent_and_copied_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
