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
        TEST(controllers_of_a_subsystem_are_listed),
        TEST(pages_that_there_are_not_are_refused),
        TEST(queues_are_granted_up_to_16),
        TEST(features_are_kept_or_refused),
        TEST(features_that_stand_are_not_changed),
        TEST(features_are_told_as_the_host_selects),
        TEST(commands_that_there_are_not_are_refused),
        TEST(events_are_asked_for_four_times_at_most),
        TEST(request_for_an_event_is_aborted),
        TEST(requests_for_events_end_when_the_controller_is_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
