// What NVMe controllers tell of themselves by Identify, and their features.

#include "tests/node/nvme_page_stage.h"

/* ---- Identify -------------------------------------------------------------------------------- */

static void controller_tells_of_itself(void **state)
{
    identify(NVME_CNS_CONTROLLER, 0, 0, 0);
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {4, "10111213141516171819", NULL},
                {24, "weft disk                               ", NULL}, {64, "1       ", NULL},
                {76, NULL, "0a08"},              // several controllers, ANA; 1 MiB a command
                {78, NULL, "0100"},              // its number
                {80, NULL, "00040100"},          // version 1.4
                {92, NULL, "00090000"},          // events
                {96, NULL, "41000000"},          // 128 bits of host, traffic keeps alive
                {111, NULL, "01"},               // for I/O
                {258, NULL, "030303260f"},       // aborts, events, one slot, logs, errors
                {320, NULL, "0100"},             // keep alive by 100 ms
                {342, NULL, "0a45"},             // ANA
                {344, NULL, "0001000000010000"}, // groups
                {512, NULL, "66448000"},         // entries of 64 and 16 octets, 128 commands
                {516, NULL, "00010000bd010100"}, // namespaces, commands, fused
                {525, NULL, "07"},               // a cache, flushed for all
                {532, NULL, "ff030100"}, // 1024 blocks compared and written, copies of format 0
                {536, NULL, "0100300000010000"}, // SGLs by offset and of the transport; namespaces
                {768, NQN, NULL}, {1792, NULL, "0411000001000000"}, {1803, NULL, "01"});
}

static void abilities_are_told_as_commands(void **state)
{
    static const struct {
        uint32_t abilities;
        uint8_t oncs, vwc, nsfeat, dlfeat, nsattr;
    } table[] = {
        {VOLUME_CAN_WRITE, 0xb1, 6, 0x10, 0, 0},
        {VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH, 0xb1, 7, 0x10, 0, 0},
        {VOLUME_CAN_WRITE | VOLUME_CAN_TRIM, 0xb5, 6, 0x11, 0, 0},
        {VOLUME_CAN_WRITE | VOLUME_CAN_WRITE_ZEROES, 0xb9, 6, 0x10, 0, 0},
        {VOLUME_CAN_WRITE | VOLUME_CAN_WRITE_ZEROES | VOLUME_CAN_TRIM, 0xbd, 6, 0x11, 9, 0},
        {0, 0xb1, 6, 0x10, 0, 1}, // it cannot be written
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        s->row.abilities = table[i].abilities;
        stage_advertise(s);
        identify(NVME_CNS_CONTROLLER, 0, 0, 0);
        assert_int_equal(admin->came[520], table[i].oncs);
        assert_int_equal(admin->came[525], table[i].vwc);
        identify(NVME_CNS_NAMESPACE, 1, 0, 0);
        assert_int_equal(admin->came[24], table[i].nsfeat);
        assert_int_equal(admin->came[33], table[i].dlfeat);
        assert_int_equal(admin->came[99], table[i].nsattr);
    }
}

static void namespace_tells_of_itself(void **state)
{
    identify(NVME_CNS_NAMESPACE, 1, 0, 0);
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {0, NULL, "0008000000000000"},
                {8, NULL, "0008000000000000"}, {16, NULL, "0008000000000000"}, {24, NULL, "11"},
                {30, NULL, "01"}, {33, NULL, "09"},
                {64, NULL, "07000700070007000700"}, // 8 blocks are preferred
                {74, NULL, "0080008000007f"},       // 16 MiB are copied of 128 ranges
                {92, NULL, "01000000"}, {104, NULL, "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"},
                {130, NULL, "09"}, {384, "lineage", NULL}, // of itself alone
                {392, NULL, "01"}, {400, NULL, "101112131415161718191a1b1c1d1e1f"});
    assert_int_equal(identify(NVME_CNS_NAMESPACE, 2, 0, 0).status, NVME_OK);
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {0, NULL, "00"}); // there is none now
    identify(NVME_CNS_NAMESPACE_DESCRIPTORS, 1, 0, 0);
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {0, NULL, "03100000101112131415161718191a1b1c1d1e1f"},
                {20, NULL, "02100000a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"}, {40, NULL, "04010000"});
    identify(NVME_CNS_NAMESPACE_LIST, 0, 0, 0);
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {0, NULL, "01000000"});
    identify(NVME_CNS_NAMESPACE_LIST, 1, 0, 0);
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {0, NULL, "00"});
    identify(NVME_CNS_NAMESPACE_CSI, 1, 0, 0);
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {0, NULL, "00"});
    identify(NVME_CNS_NAMESPACE_COMMON, 1, 0, 0); // shared, its group, ready
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {1, NULL, "01"}, {4, NULL, "01"}, {14, NULL, "01"});
    identify(NVME_CNS_NAMESPACE_COMMON, 2, 0, 0); // which there is not
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {0, NULL, "00"});
    identify(NVME_CNS_CONTROLLER_CSI, 0, 0, 0);
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {0, NULL, "080d"}); // of Verify, Write Zeroes
}

// A part of a page, which follows.
static const uint8_t *page_of(uint8_t cns, uint32_t nsid)
{
    assert_int_equal(identify(cns, nsid, 0, 0).status, NVME_OK);
    return admin->came;
}

static void begin_with_group(const char *name)
{
    line_end(admin);
    stage_group(s);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(s->rows[i].places[VOLUME_IN_SUBSYSTEM].group, VOLUME_GROUP_MAX, "%s", name);
    }
    stage_advertise(s);
    s->row = s->rows[0];
    admin = admin_open(s, STAGE_HOST, 0, &cntlid);
}

// By what stands behind the last colon, and a number made of the whole.
static void group_is_called_by_its_name(void **state)
{
    static const struct {
        const char *name, *serial, *model;
    } table[] = {
        {"nqn.2026-11.test:storage", "weft95550a8473e3c158", "weft storage"},
        {"nqn.2026-11.test:a:b", "weft9e002ba60edec16a", "weft b"},
        {"nqn.2026-11.test:", "weftde6809e21adadeeb", "weft nqn.2026-11.test:"},
        {"g", "weftaf63da4c8601e926", "weft g"},
        {"nqn.2026-11.test-0123456789-0123456789-0123456789", "weft76a27449cc55629d",
         "weft nqn.2026-11.test-0123456789-0123456"},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[65];
        snprintf(text, sizeof text, "%-20s%-40s", table[i].serial, table[i].model);
        begin_with_group(table[i].name);
        assert_memory_equal(page_of(NVME_CNS_CONTROLLER, 0) + 4, text, 60);
    }
}

static void namespaces_of_a_group_are_listed(void **state)
{
    begin_with_group("group");
    page_of(NVME_CNS_NAMESPACE_LIST, 0);
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {0, NULL, "010000000200000003"});
    page_of(NVME_CNS_NAMESPACE_LIST, 1);
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {0, NULL, "0200000003"});
}

// Of the namespaces that are there: the largest block.
static void swaps_are_bounded_in_blocks_of_any_namespace(void **state)
{
    begin_with_group("group");
    s->rows[1].profile.block_size = 4096;
    stage_advertise(s);
    assert_int_equal(get_le16(page_of(NVME_CNS_CONTROLLER, 0) + 532), 127);
    s->rows[1].profile.block_size = 1;
    s->rows[0].state = s->rows[2].state = RESOURCE_FAILED;
    s->table.rows = &s->rows[1];
    s->table.count = 1;
    stage_advertise(s);
    assert_int_equal(get_le16(page_of(NVME_CNS_CONTROLLER, 0) + 532), UINT16_MAX - 1);
}

static void lengths_that_are_no_number_of_blocks_are_not_preferred(void **state)
{
    static const struct {
        uint32_t preferred, less_1;
    } table[] = {
        {0, 0},           {511, 0}, {512, 0}, {1024, 1}, {65535 << 9, 65534}, {65536 << 9, 65535},
        {65537U << 9, 0}, {4096, 7}};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        s->row.profile.preferred = table[i].preferred;
        const uint8_t *page = page_of(NVME_CNS_NAMESPACE, 1);
        assert_int_equal(get_le16(page + 64), table[i].less_1);
        assert_int_equal(get_le16(page + 72), table[i].less_1);
    }
}

static void reservations_and_protection_are_told_of_each_namespace(void **state)
{
    struct reservation book = {.can_persist = false};
    begin_with_group("group");
    assert_int_equal(page_of(NVME_CNS_NAMESPACE, 1)[31], 0);
    assert_int_equal(page_of(NVME_CNS_NAMESPACE_COMMON, 1)[2], 0);
    s->book = &book;
    assert_int_equal(page_of(NVME_CNS_NAMESPACE, 1)[31], 0xfe);
    assert_int_equal(page_of(NVME_CNS_NAMESPACE_COMMON, 1)[2], 0xfe);
    book.can_persist = true;
    assert_int_equal(page_of(NVME_CNS_NAMESPACE, 1)[31], 0xff);
    assert_int_equal(page_of(NVME_CNS_NAMESPACE_COMMON, 1)[8], 0);
    s->rows[0].abilities = 0;
    stage_advertise(s);
    assert_int_equal(page_of(NVME_CNS_NAMESPACE_COMMON, 1)[8], 1);
    s->book = NULL;
}

// Those that have the namespace which is named: the second host may see but one of them.
static void controllers_are_listed_by_namespace(void **state)
{
    uint16_t other;
    begin_with_group("group");
    struct line *second = admin_open(s, "nqn.test:other", 0, &other);
    for (uint32_t nsid = 1; nsid <= 3; nsid++) {
        page_of(NVME_CNS_NAMESPACE_CONTROLLER_LIST, nsid);
        assert_int_equal(get_le16(admin->came), 2);
    }
    line_end(second);
    assert_int_equal(get_le16(page_of(NVME_CNS_NAMESPACE_CONTROLLER_LIST, 2)), 1);
}

static void discovery_has_one_page(void **state)
{
    line_end(admin);
    admin = line_open(s);
    line_connect_to(admin, NVME_DISCOVERY_NQN, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0);
    property_set(admin, NVME_PROPERTY_CC, NVME_CC_EN);
    for (unsigned cns = 0; cns < 64; cns++) {
        admin->answer_count = 0;
        assert_int_equal(identify((uint8_t)cns, 1, 0, 0).status == NVME_OK,
                         cns == NVME_CNS_CONTROLLER);
    }
}

// Of pages that are of a command set; others do not look at it.
static void command_set_counts_where_there_is_one(void **state)
{
    static const struct {
        uint8_t cns;
        bool counts;
    } table[] = {{NVME_CNS_NAMESPACE, false},        {NVME_CNS_CONTROLLER, false},
                 {NVME_CNS_NAMESPACE_LIST, false},   {NVME_CNS_NAMESPACE_DESCRIPTORS, false},
                 {NVME_CNS_NAMESPACE_CSI, true},     {NVME_CNS_CONTROLLER_CSI, true},
                 {NVME_CNS_NAMESPACE_COMMON, false}, {NVME_CNS_NAMESPACE_CONTROLLER_LIST, false},
                 {NVME_CNS_CONTROLLER_LIST, false}};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(identify(table[i].cns, 1, 0, 0).status, NVME_OK);
        assert_int_equal(identify(table[i].cns, 1, 0, 1).status,
                         table[i].counts ? NVME_INVALID_FIELD : NVME_OK);
    }
}

static void controllers_of_a_subsystem_are_listed(void **state)
{
    uint16_t other;
    struct line *second = admin_open(s, "nqn.test:other", 0, &other);
    identify(NVME_CNS_CONTROLLER_LIST, 0, 0, 0);
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {0, NULL, "020001000200"});
    identify(NVME_CNS_CONTROLLER_LIST, 0, 2, 0);
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {0, NULL, "01000200"});
    identify(NVME_CNS_NAMESPACE_CONTROLLER_LIST, 1, 3, 0);
    EXPECT_PAGE(admin, NVME_IDENTIFY_LEN, {0, NULL, "0000"});
    line_end(second);
}

static void pages_that_there_are_not_are_refused(void **state)
{
    static const struct {
        uint8_t cns;
        uint32_t nsid;
        uint8_t set;
        uint16_t status;
    } table[] = {
        {0x04, 1, 0, NVME_INVALID_FIELD},
        {0x14, 1, 0, NVME_INVALID_FIELD},
        {0xff, 1, 0, NVME_INVALID_FIELD},
        {NVME_CNS_NAMESPACE_CSI, 1, 1, NVME_INVALID_FIELD},
        {NVME_CNS_CONTROLLER_CSI, 0, 2, NVME_INVALID_FIELD},
        {NVME_CNS_NAMESPACE, 0, 0, NVME_INVALID_NAMESPACE},
        {NVME_CNS_NAMESPACE_COMMON, 0, 0, NVME_INVALID_NAMESPACE},
        {NVME_CNS_NAMESPACE_COMMON, 257, 0, NVME_INVALID_NAMESPACE},
        {NVME_CNS_NAMESPACE, 257, 0, NVME_INVALID_NAMESPACE},
        {NVME_CNS_NAMESPACE, NVME_NSID_ALL, 0, NVME_INVALID_NAMESPACE},
        {NVME_CNS_NAMESPACE_DESCRIPTORS, 2, 0, NVME_INVALID_NAMESPACE},
        {NVME_CNS_NAMESPACE_LIST, NVME_NSID_ALL, 0, NVME_INVALID_NAMESPACE},
        {NVME_CNS_NAMESPACE_LIST, NVME_NSID_ALL - 1, 0, NVME_INVALID_NAMESPACE},
        {NVME_CNS_NAMESPACE_LIST, NVME_NSID_ALL - 2, 0, NVME_OK},
        {NVME_CNS_NAMESPACE, 256, 0, NVME_OK},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct answer answer = identify(table[i].cns, table[i].nsid, 0, table[i].set);
        assert_int_equal(answer.status, table[i].status);
        assert_int_equal(answer.is_final, table[i].status != NVME_OK);
    }
}

/* ---- features -------------------------------------------------------------------------------- */

static struct answer feature(uint8_t opcode, uint32_t cdw10, uint32_t value)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(admin, sqe, opcode, 0);
    put_le32(sqe + NVME_SQE_OFF_CDW10, cdw10);
    put_le32(sqe + NVME_SQE_OFF_CDW11, value);
    line_send(admin, sqe);
    return line_answer(admin);
}

static struct answer feature_of(uint32_t nsid, uint32_t cdw10, uint32_t value)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(admin, sqe, NVME_ADMIN_SET_FEATURES, 0);
    put_le32(sqe + NVME_SQE_OFF_NSID, nsid);
    put_le32(sqe + NVME_SQE_OFF_CDW10, cdw10);
    put_le32(sqe + NVME_SQE_OFF_CDW11, value);
    line_send(admin, sqe);
    return line_answer(admin);
}

static uint64_t get(uint32_t which)
{
    struct answer answer = feature(NVME_ADMIN_GET_FEATURES, which, 0);
    assert_int_equal(answer.status, NVME_OK);
    return answer.result;
}

static void queues_are_granted_up_to_16(void **state)
{
    static const struct {
        uint32_t wished, granted;
    } table[] = {{0, 0},
                 {0x00030003, 0x00030003},
                 {0x00050002, 0x00020002},
                 {0x00020005, 0x00020002},
                 {0x000f000f, 0x000f000f},
                 {0x00100010, 0x000f000f},
                 {0xfffefffe, 0x000f000f}};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct answer answer =
            feature(NVME_ADMIN_SET_FEATURES, NVME_FEATURE_NUMBER_OF_QUEUES, table[i].wished);
        assert_int_equal(answer.status, NVME_OK);
        assert_int_equal(answer.result, table[i].granted);
        assert_int_equal(get(NVME_FEATURE_NUMBER_OF_QUEUES), table[i].granted);
    }
}

static void features_are_kept_or_refused(void **state)
{
    assert_int_equal(feature(NVME_ADMIN_SET_FEATURES, NVME_FEATURE_ASYNC_EVENTS, ~0U).status,
                     NVME_OK);
    assert_int_equal(get(NVME_FEATURE_ASYNC_EVENTS), 0x900); // as far as they are offered
    assert_int_equal(feature(NVME_ADMIN_SET_FEATURES, NVME_FEATURE_KEEP_ALIVE_TIMER, 5000).status,
                     NVME_OK);
    assert_int_equal(get(NVME_FEATURE_KEEP_ALIVE_TIMER), 5000);
    assert_int_equal(
        feature(NVME_ADMIN_SET_FEATURES, NVME_FEATURE_KEEP_ALIVE_TIMER, 3600001).status,
        NVME_KEEP_ALIVE_INVALID);
    assert_int_equal(
        feature(NVME_ADMIN_SET_FEATURES, NVME_FEATURE_KEEP_ALIVE_TIMER, 3600000).status, NVME_OK);
    assert_int_equal(get(NVME_FEATURE_VOLATILE_WRITE_CACHE), 1);
    assert_int_equal(feature(NVME_ADMIN_SET_FEATURES, NVME_FEATURE_RESERVATION_MASK, ~0U).status,
                     NVME_OK);
    assert_int_equal(get(NVME_FEATURE_RESERVATION_MASK), 0x0e);
    assert_int_equal(feature_of(NVME_NSID_ALL, NVME_FEATURE_RESERVATION_MASK, 2).status, NVME_OK);
    assert_int_equal(get(NVME_FEATURE_RESERVATION_MASK), 2);
    assert_int_equal(feature_of(2, NVME_FEATURE_RESERVATION_MASK, 4).status,
                     NVME_INVALID_NAMESPACE);
    assert_int_equal(get(NVME_FEATURE_RESERVATION_MASK), 2);
    assert_int_equal(get(NVME_FEATURE_RESERVATION_PERSISTENCE), 0);
    assert_int_equal(
        feature(NVME_ADMIN_SET_FEATURES, NVME_FEATURE_ASYNC_EVENTS | NVME_FEATURE_SAVE, 0).status,
        NVME_FEATURE_NOT_SAVEABLE);
    assert_int_equal(feature(NVME_ADMIN_SET_FEATURES, 0xc0, 0).status, NVME_INVALID_FIELD);
    assert_int_equal(feature(NVME_ADMIN_GET_FEATURES, 0xc0, 0).status, NVME_INVALID_FIELD);
}

static void features_that_stand_are_not_changed(void **state)
{
    static const uint8_t table[] = {
        NVME_FEATURE_ARBITRATION,
        NVME_FEATURE_POWER_MANAGEMENT,
        NVME_FEATURE_TEMPERATURE,
        NVME_FEATURE_ERROR_RECOVERY,
        NVME_FEATURE_WRITE_ATOMICITY,
        NVME_FEATURE_VOLATILE_WRITE_CACHE,
        NVME_FEATURE_RESERVATION_PERSISTENCE,
    };
    for (unsigned i = 0; i < sizeof table; i++) {
        assert_int_equal(feature(NVME_ADMIN_SET_FEATURES, table[i], 0).status,
                         NVME_FEATURE_NOT_CHANGEABLE);
    }
    for (unsigned i = 0; i < 5; i++) {
        bool is_threshold = table[i] == NVME_FEATURE_TEMPERATURE; // that nothing is over
        assert_int_equal(get(table[i]), is_threshold ? UINT16_MAX : 0);
    }
}

// What it is, what it was at first, what of that is kept, and what can be done with it.
static void features_are_told_as_the_host_selects(void **state)
{
    static const struct {
        uint32_t fid, value, current, is_default, capabilities;
    } rows[] = {
        {NVME_FEATURE_NUMBER_OF_QUEUES, 0x00030003, 0x00030003, 0x000f000f, 4},
        {NVME_FEATURE_ASYNC_EVENTS, 0x900, 0x900, 0, 4},
        {NVME_FEATURE_KEEP_ALIVE_TIMER, 5000, 5000, 0, 4},
        {NVME_FEATURE_RESERVATION_MASK, 2, 2, 0, 6},
        {NVME_FEATURE_VOLATILE_WRITE_CACHE, 0, 1, 1, 0},
        {NVME_FEATURE_ERROR_RECOVERY, 0, 0, 0, 2},
        {NVME_FEATURE_RESERVATION_PERSISTENCE, 0, 0, 0, 2},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const uint32_t fid = rows[i].fid;
        feature(NVME_ADMIN_SET_FEATURES, fid, rows[i].value);
        assert_int_equal(get(fid), rows[i].current);
        assert_int_equal(get(fid | NVME_SELECT_DEFAULT << 8), rows[i].is_default);
        assert_int_equal(get(fid | NVME_SELECT_SAVED << 8), rows[i].is_default);
        assert_int_equal(get(fid | NVME_SELECT_CAPABILITIES << 8), rows[i].capabilities);
        assert_int_equal(feature(NVME_ADMIN_GET_FEATURES, fid | 4 << 8, 0).status,
                         NVME_INVALID_FIELD);
    }
    assert_int_equal(get(NVME_FEATURE_HOST_IDENTIFIER | NVME_SELECT_CAPABILITIES << 8), 0);
}

static void queues_are_counted_before_there_are_any(void **state)
{
    static const uint16_t qids[] = {1, 2, 16};
    static const uint32_t never[] = {0xffff0000, 0x0000ffff, 0xffffffff};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(
            feature(NVME_ADMIN_SET_FEATURES, NVME_FEATURE_NUMBER_OF_QUEUES, never[i]).status,
            NVME_INVALID_FIELD);
    }
    feature(NVME_ADMIN_SET_FEATURES, NVME_FEATURE_NUMBER_OF_QUEUES, 0x000f000f);
    for (unsigned i = 0; i < 3; i++) {
        struct line *queue = line_open(s);
        assert_int_equal(line_connect(queue, STAGE_HOST, qids[i], cntlid, 0).status, NVME_OK);
        assert_int_equal(feature(NVME_ADMIN_SET_FEATURES, NVME_FEATURE_NUMBER_OF_QUEUES, 0).status,
                         NVME_COMMAND_SEQUENCE_ERROR);
        line_end(queue);
        assert_int_equal(
            feature(NVME_ADMIN_SET_FEATURES, NVME_FEATURE_NUMBER_OF_QUEUES, 0x000f000f).status,
            NVME_OK);
    }
}

static void temperature_has_a_threshold_above_and_one_below(void **state)
{
    static const struct {
        uint32_t value;
        uint16_t status;
        uint32_t threshold;
    } table[] = {{0, NVME_OK, UINT16_MAX},
                 {1 << 20, NVME_OK, 0},
                 {2 << 20, NVME_INVALID_FIELD, 0},
                 {3 << 20, NVME_INVALID_FIELD, 0},
                 {4 << 20, NVME_OK, UINT16_MAX}}; // another field
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct answer answer =
            feature(NVME_ADMIN_GET_FEATURES, NVME_FEATURE_TEMPERATURE, table[i].value);
        assert_int_equal(answer.status, table[i].status);
        assert_int_equal(answer.result, table[i].threshold);
    }
}

static void host_is_identified_by_128_bits(void **state)
{
    uint8_t sqe[NVME_SQE_LEN];
    line_end(admin);
    memset(s->hostid, 0x5a, sizeof s->hostid);
    admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    get_log(NVME_LOG_CHANGED_NAMESPACES, 0, 0, 64); // the scratch has no Connect now
    sqe_fill(admin, sqe, NVME_ADMIN_GET_FEATURES, NVME_HOSTID_LEN);
    put_le32(sqe + NVME_SQE_OFF_CDW10, NVME_FEATURE_HOST_IDENTIFIER);
    line_send(admin, sqe);
    assert_int_equal(line_answer(admin).status, NVME_INVALID_FIELD); // as 64
    put_le32(sqe + NVME_SQE_OFF_CDW11, NVME_HOSTID_EXTENDED);
    line_send(admin, sqe);
    assert_int_equal(line_answer(admin).status, NVME_OK);
    assert_memory_equal(admin->came, s->hostid, NVME_HOSTID_LEN);
    assert_int_equal(feature(NVME_ADMIN_SET_FEATURES, NVME_FEATURE_HOST_IDENTIFIER, 1).status,
                     NVME_COMMAND_SEQUENCE_ERROR);
}

static void notices_are_masked_of_one_namespace_or_of_all(void **state)
{
    static const struct {
        uint32_t set_of, value, masked[3];
    } table[] = {{2, 4, {0, 4, 0}}, {NVME_NSID_ALL, 2, {2, 2, 2}}, {3, 8, {2, 2, 8}}};
    begin_with_group("group");
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(
            feature_of(table[i].set_of, NVME_FEATURE_RESERVATION_MASK, table[i].value).status,
            NVME_OK);
        for (uint32_t nsid = 1; nsid <= 3; nsid++) {
            uint8_t sqe[NVME_SQE_LEN];
            sqe_fill(admin, sqe, NVME_ADMIN_GET_FEATURES, 0);
            put_le32(sqe + NVME_SQE_OFF_NSID, nsid);
            put_le32(sqe + NVME_SQE_OFF_CDW10, NVME_FEATURE_RESERVATION_MASK);
            line_send(admin, sqe);
            assert_int_equal(line_answer(admin).result, table[i].masked[nsid - 1]);
        }
    }
}

static void volume_without_a_cache_is_told_as_such(void **state)
{
    s->row.abilities = VOLUME_CAN_WRITE;
    stage_advertise(s);
    assert_int_equal(get(NVME_FEATURE_VOLATILE_WRITE_CACHE), 0);
    feature(NVME_ADMIN_SET_FEATURES, NVME_FEATURE_ASYNC_EVENTS, 0);
    assert_int_equal(get(NVME_FEATURE_ASYNC_EVENTS), 0); // nor is told of events
}

// Of the field that is wrong, by its octet.
static void refusals_name_the_octet(void **state)
{
    static const struct {
        uint8_t opcode;
        uint32_t cdw10, cdw11;
        uint16_t octet;
    } table[] = {
        {NVME_ADMIN_SET_FEATURES, NVME_FEATURE_ASYNC_EVENTS | NVME_FEATURE_SAVE, 0, 43},
        {NVME_ADMIN_SET_FEATURES, 0xc0, 0, 40},
        {NVME_ADMIN_SET_FEATURES, NVME_FEATURE_ARBITRATION, 0, 40},
        {NVME_ADMIN_GET_FEATURES, 0xc0, 0, 40},
        {NVME_ADMIN_GET_FEATURES, NVME_FEATURE_ARBITRATION | 4 << 8, 0, 41},
        {NVME_ADMIN_GET_FEATURES, NVME_FEATURE_TEMPERATURE, 2 << 20, 46},
        {NVME_ADMIN_SET_FEATURES, NVME_FEATURE_NUMBER_OF_QUEUES, UINT16_MAX, 44},
        {NVME_ADMIN_SET_FEATURES, NVME_FEATURE_KEEP_ALIVE_TIMER, 3600001, 44},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_not_equal(feature(table[i].opcode, table[i].cdw10, table[i].cdw11).status,
                             NVME_OK);
        get_log(NVME_LOG_ERROR, 0, 0, 64);
        assert_int_equal(get_le16(admin->came + 14), table[i].octet);
    }
}

static void commands_that_there_are_not_are_refused(void **state)
{
    assert_int_equal(feature(0x00, 0, 0).status, NVME_INVALID_OPCODE);
    assert_int_equal(feature(0x0d, 0, 0).status, NVME_INVALID_OPCODE);
    assert_int_equal(feature(0xff, 0, 0).status, NVME_INVALID_OPCODE);
    struct answer answer = feature(NVME_ADMIN_ABORT, 0, 0);
    assert_int_equal(answer.status, NVME_OK);
    assert_int_equal(answer.result, 1); // not aborted
    assert_int_equal(feature(NVME_ADMIN_KEEP_ALIVE, 0, 0).status, NVME_OK);
}

static void events_are_asked_for_four_times_at_most(void **state)
{
    unsigned before = admin->answer_count;
    for (unsigned i = 0; i < 4; i++) {
        feature(NVME_ADMIN_ASYNC_EVENT_REQUEST, 0, 0);
    }
    assert_int_equal(admin->answer_count, before); // they wait
    assert_int_equal(feature(NVME_ADMIN_ASYNC_EVENT_REQUEST, 0, 0).status, NVME_AER_LIMIT);
}

// By its identifier, and by that alone; its place is free then.
static void request_for_an_event_is_aborted(void **state)
{
    unsigned before = admin->answer_count;
    for (unsigned i = 0; i < 4; i++) {
        feature(NVME_ADMIN_ASYNC_EVENT_REQUEST, 0, 0);
    }
    uint16_t last = admin->cid;
    assert_int_equal(feature(NVME_ADMIN_ABORT, (uint32_t)last << 16 | 1, 0).result, 1); // queue 1
    assert_int_equal(feature(NVME_ADMIN_ABORT, (last + 100U) << 16, 0).result, 1);
    assert_int_equal(admin->answer_count, before + 2);
    assert_int_equal(feature(NVME_ADMIN_ABORT, (last - 2U) << 16, 0).result, 0);
    assert_int_equal(admin->answer_count, before + 4);
    assert_int_equal(admin->answers[before + 2].cid, last - 2U);
    assert_int_equal(admin->answers[before + 2].status, NVME_ABORT_REQUESTED);
    feature(NVME_ADMIN_ASYNC_EVENT_REQUEST, 0, 0);
    assert_int_equal(admin->answer_count, before + 4);
    assert_int_equal(feature(NVME_ADMIN_ASYNC_EVENT_REQUEST, 0, 0).status, NVME_AER_LIMIT);
}

// They end with the controller that they were sent to, and do not count with the next.
static void requests_for_events_end_when_the_controller_is_reset(void **state)
{
    unsigned before = admin->answer_count;
    for (unsigned i = 0; i < 4; i++) {
        feature(NVME_ADMIN_ASYNC_EVENT_REQUEST, 0, 0);
    }
    property_set(admin, NVME_PROPERTY_CC, 0);
    assert_int_equal(admin->answer_count, before + 5);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(admin->answers[before + i].status, NVME_ABORTED_SQ_DELETED);
    }
    assert_int_equal(nvme_target_counters(s->target).errors, 0);
    property_set(admin, NVME_PROPERTY_CC,
                 NVME_CC_EN | NVME_SQE_LEN_LOG2 << NVME_CC_IOSQES_SHIFT |
                     NVME_CQE_LEN_LOG2 << NVME_CC_IOCQES_SHIFT);
    events_are_asked_for_four_times_at_most(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(controller_tells_of_itself),
        TEST(abilities_are_told_as_commands),
        TEST(namespace_tells_of_itself),
        TEST(group_is_called_by_its_name),
        TEST(namespaces_of_a_group_are_listed),
        TEST(swaps_are_bounded_in_blocks_of_any_namespace),
        TEST(lengths_that_are_no_number_of_blocks_are_not_preferred),
        TEST(reservations_and_protection_are_told_of_each_namespace),
        TEST(controllers_are_listed_by_namespace),
        TEST(discovery_has_one_page),
        TEST(command_set_counts_where_there_is_one),
        TEST(controllers_of_a_subsystem_are_listed),
        TEST(pages_that_there_are_not_are_refused),
        TEST(queues_are_granted_up_to_16),
        TEST(features_are_kept_or_refused),
        TEST(features_that_stand_are_not_changed),
        TEST(features_are_told_as_the_host_selects),
        TEST(queues_are_counted_before_there_are_any),
        TEST(temperature_has_a_threshold_above_and_one_below),
        TEST(host_is_identified_by_128_bits),
        TEST(notices_are_masked_of_one_namespace_or_of_all),
        TEST(volume_without_a_cache_is_told_as_such),
        TEST(refusals_name_the_octet),
        TEST(commands_that_there_are_not_are_refused),
        TEST(events_are_asked_for_four_times_at_most),
        TEST(request_for_an_event_is_aborted),
        TEST(requests_for_events_end_when_the_controller_is_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
