// What NVMe controllers tell by their logs.

#include "tests/node/nvme_page_stage.h"

/* ---- logs ------------------------------------------------------------------------------------ */

static void errors_are_logged_newest_first(void **state)
{
    identify(0x04, 1, 0, 0); // two that are refused
    uint8_t first = (uint8_t)admin->cid;
    identify(NVME_CNS_NAMESPACE, 0, 0, 0);
    char older[5], newer[5];
    snprintf(older, sizeof older, "%02x00", first);
    snprintf(newer, sizeof newer, "%02x00", (uint8_t)(first + 1));
    get_log(NVME_LOG_ERROR, 0, 0, 1024);
    EXPECT_PAGE(admin, 1024, {0, NULL, "0200000000000000"}, {10, NULL, newer}, {12, NULL, "16c0"},
                {14, NULL, "0400"}, {29, NULL, "03"}, {64, NULL, "0100000000000000"},
                {74, NULL, older}, {76, NULL, "04c0"}, {78, NULL, "2800"}, {88, NULL, "01000000"},
                {93, NULL, "03"});
    get_log(NVME_LOG_ERROR, 0, 64, 8); // a part of it
    EXPECT_PAGE(admin, 8, {0, NULL, "0100000000000000"});
    get_log(NVME_LOG_ERROR, 0, 60, 12);
    EXPECT_PAGE(admin, 12, {4, NULL, "0100000000000000"});
}

// Of an I/O queue: which, and the first block. There are 16 places, and more are counted.
static void errors_of_queues_are_logged_with_their_block(void **state)
{
    enum { FIRST = STAGE_BLOCKS + 7, LEN = 17 * 64 };
    struct line *queue = line_open(s);
    uint8_t sqe[NVME_SQE_LEN];
    assert_int_equal(line_connect(queue, STAGE_HOST, 1, cntlid, 0).status, NVME_OK);
    for (unsigned i = 0; i < 17; i++) {
        sqe_fill(queue, sqe, NVME_IO_READ, STAGE_BLOCK);
        put_le64(sqe + NVME_RW_OFF_SLBA, FIRST);
        line_send(queue, sqe);
        assert_int_equal(line_answer(queue).status, NVME_LBA_OUT_OF_RANGE);
        queue->answer_count = 0;
    }
    get_log(NVME_LOG_ERROR, 0, 0, LEN);
    for (unsigned i = 0; i < 16; i++) {
        const uint8_t *entry = admin->came + 64 * (size_t)i;
        assert_int_equal(get_le64(entry), 17 - i);
        assert_int_equal(get_le16(entry + 8), 1);
        assert_int_equal(get_le64(entry + 16), FIRST);
        assert_int_equal(get_le32(entry + 24), 1);
    }
    for (unsigned i = 16 * 64; i < LEN; i++) {
        assert_int_equal(admin->came[i], 0);
    }
    get_log(NVME_LOG_SMART, 0, 176, 8);
    EXPECT_PAGE(admin, 8, {0, NULL, "11"});
    line_end(queue);
}

static void io(struct line *line, uint8_t opcode, uint16_t blocks)
{
    static uint8_t buffer[1 << 20];
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(line, sqe, opcode, (uint32_t)blocks * STAGE_BLOCK);
    put_le16(sqe + NVME_RW_OFF_NLB, (uint16_t)(blocks - 1));
    line_send(line, sqe);
    if (s->request_count == 0) {
        nvme_target_on_batch_end(s->target, s->now); // the first binds the queue
    }
    struct service_request *request = stage_take(s);
    request->data = buffer;
    request->buffer.len = request->data_len;
    s->service->transfer(s->target, request, s->now);
    if (opcode != NVME_IO_READ) {
        stage_complete(s, request, NODE_OK);
    }
}

// Units of 512,000 octets, begun ones counted.
static void health_counts_commands_and_octets(void **state)
{
    struct line *queue = line_open(s);
    assert_int_equal(line_connect(queue, STAGE_HOST, 1, cntlid, 0).status, NVME_OK);
    get_log(NVME_LOG_SMART, 0, 0, 512);
    EXPECT_PAGE(admin, 512, {1, NULL, "250164"}); // 293 K, all spare blocks
    io(queue, NVME_IO_READ, 1);
    for (unsigned i = 0; i < 8; i++) {
        io(queue, NVME_IO_WRITE, 128);
    }
    get_log(NVME_LOG_SMART, 0, 0, 512);
    EXPECT_PAGE(admin, 512, {1, NULL, "250164"}, {32, NULL, "01"}, {48, NULL, "02"},
                {64, NULL, "01"}, {80, NULL, "08"});
    line_end(queue);
}

static void health_counts_in_units_of_512000_octets(void **state)
{
    struct line *queue = line_open(s);
    assert_int_equal(line_connect(queue, STAGE_HOST, 1, cntlid, 0).status, NVME_OK);
    io(queue, NVME_IO_READ, 1000);
    for (unsigned i = 0; i < 8; i++) {
        io(queue, NVME_IO_WRITE, 125);
    }
    get_log(NVME_LOG_SMART, 0, 32, 32);
    EXPECT_PAGE(admin, 32, {0, NULL, "01"}, {16, NULL, "01"});
    io(queue, NVME_IO_READ, 1);
    io(queue, NVME_IO_WRITE, 1);
    get_log(NVME_LOG_SMART, 0, 32, 32);
    EXPECT_PAGE(admin, 32, {0, NULL, "02"}, {16, NULL, "02"});
    line_end(queue);
}

static void firmware_is_one_slot(void **state)
{
    get_log(NVME_LOG_FIRMWARE, 0, 0, 512);
    EXPECT_PAGE(admin, 512, {0, NULL, "01"}, {8, "1       ", NULL});
}

// Which commands there are, and which change blocks.
static void effects_are_told_for_each_command(void **state)
{
    get_log(NVME_LOG_EFFECTS, 0, 0, 4096);
    EXPECT_PAGE(admin, 4096, {4 * 0x02, NULL, "010020"}, {4 * 0x06, NULL, "010030"},
                {4 * 0x08, NULL, "010020"}, {4 * 0x09, NULL, "010030"}, {4 * 0x0a, NULL, "010030"},
                {4 * 0x0c, NULL, "010020"}, {4 * 0x18, NULL, "010020"}, {4 * 0x7f, NULL, "010020"},
                {1024, NULL, "010010"}, {1024 + 4 * 0x01, NULL, "030010"},
                {1024 + 4 * 0x02, NULL, "010010"}, {1024 + 4 * 0x05, NULL, "010010"},
                {1024 + 4 * 0x08, NULL, "030010"}, {1024 + 4 * 0x09, NULL, "030010"},
                {1024 + 4 * 0x0c, NULL, "010010"}, {1024 + 4 * 0x0d, NULL, "010010"},
                {1024 + 4 * 0x0e, NULL, "010010"}, {1024 + 4 * 0x11, NULL, "010010"},
                {1024 + 4 * 0x15, NULL, "010010"}, {1024 + 4 * 0x19, NULL, "030010"});
}

// Each feature, and whether it is of a namespace or of the controller.
static void features_are_told_with_their_scope(void **state)
{
    get_log(NVME_LOG_FEATURES, 0, 0, 1024);
    EXPECT_PAGE(admin, 1024, {4 * 0x01, NULL, "010020"}, {4 * 0x02, NULL, "010020"},
                {4 * 0x04, NULL, "010020"}, {4 * 0x05, NULL, "010010"}, {4 * 0x06, NULL, "010020"},
                {4 * 0x07, NULL, "010020"}, {4 * 0x0a, NULL, "010020"}, {4 * 0x0b, NULL, "010020"},
                {4 * 0x0f, NULL, "010020"}, {4 * 0x81, NULL, "010020"}, {4 * 0x82, NULL, "010010"},
                {4 * 0x83, NULL, "010010"});
    get_log(NVME_LOG_MI_EFFECTS, 0, 0, 4096);
    EXPECT_PAGE(admin, 4096, {0, NULL, "00"});
}

// Those that are not told to be there are refused, and no others.
static void logs_are_told_that_there_are(void **state)
{
    static uint8_t told[1024];
    get_log(NVME_LOG_SUPPORTED, 0, 0, 1024);
    memcpy(told, admin->came, sizeof told);
    for (unsigned lid = 0; lid <= UINT8_MAX; lid++) {
        admin->answer_count = 0;
        uint16_t status = get_log((uint8_t)lid, 0, 0, 64).status;
        assert_int_equal(get_le32(told + 4 * lid), status == NVME_OK);
        assert_true(status == NVME_OK || status == NVME_INVALID_LOG_PAGE);
    }
}

// A host may begin at its end, where nothing of it is, and not behind it.
static void logs_have_an_end(void **state)
{
    static const struct {
        uint8_t lid;
        uint32_t len;
    } table[] = {{NVME_LOG_SUPPORTED, 1024},
                 {NVME_LOG_ERROR, 1024},
                 {NVME_LOG_SMART, 512},
                 {NVME_LOG_FIRMWARE, 512},
                 {NVME_LOG_CHANGED_NAMESPACES, 4096},
                 {NVME_LOG_EFFECTS, 4096},
                 {NVME_LOG_ANA, 9232},
                 {NVME_LOG_FEATURES, 1024},
                 {NVME_LOG_MI_EFFECTS, 4096},
                 {NVME_LOG_RESERVATION, 64}};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(get_log(table[i].lid, 0, table[i].len, 64).status, NVME_OK);
        EXPECT_PAGE(admin, 64, {0, NULL, "00"});
        assert_int_equal(get_log(table[i].lid, 0, table[i].len + 4, 64).status, NVME_INVALID_FIELD);
    }
}

static void ask_for_an_event(void)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(admin, sqe, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
    line_send(admin, sqe);
}

// The table has changed, and so many answers came by it.
static void expect_told(unsigned count, uint32_t event)
{
    admin->answer_count = 0;
    stage_advertise(s);
    assert_int_equal(admin->answer_count, count);
    assert_true(count == 0 || line_answer(admin).result == event);
}

static void grow(unsigned row)
{
    s->rows[row].profile.size += STAGE_BLOCK;
}

static void begin_with_group(void)
{
    uint8_t sqe[NVME_SQE_LEN];
    line_end(admin);
    stage_group(s);
    s->rows[2].places[VOLUME_IN_SUBSYSTEM].member = 256;
    stage_advertise(s);
    admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    sqe_fill(admin, sqe, NVME_ADMIN_SET_FEATURES, 0);
    put_le32(sqe + NVME_SQE_OFF_CDW10, NVME_FEATURE_ASYNC_EVENTS);
    put_le32(sqe + NVME_SQE_OFF_CDW11, NVME_EVENT_NAMESPACE_ATTRIBUTES);
    line_send(admin, sqe);
}

static void namespaces_that_changed_are_listed_once(void **state)
{
    begin_with_group();
    get_log(NVME_LOG_CHANGED_NAMESPACES, 0, 0, 16);
    EXPECT_PAGE(admin, 16, {0, NULL, "00"});
    grow(0);
    grow(2);
    stage_advertise(s);
    get_log(NVME_LOG_CHANGED_NAMESPACES, NVME_GET_LOG_RAE, 0, 16); // and it stays
    EXPECT_PAGE(admin, 16, {0, NULL, "0100000000010000"});
    get_log(NVME_LOG_SMART, 0, 0, 16);
    get_log(NVME_LOG_ANA, 0, 0, 16);
    get_log(NVME_LOG_CHANGED_NAMESPACES, 0, 0, 16);
    EXPECT_PAGE(admin, 16, {0, NULL, "0100000000010000"});
    get_log(NVME_LOG_CHANGED_NAMESPACES, 0, 0, 16);
    EXPECT_PAGE(admin, 16, {0, NULL, "00"});
}

// Who was told of a change is told of the next when he has looked, and not only peeped.
static void host_is_told_anew_when_it_has_looked(void **state)
{
    begin_with_group();
    ask_for_an_event();
    ask_for_an_event();
    grow(1);
    expect_told(1, NVME_EVENT_RESULT_NAMESPACE_ATTRIBUTES);
    grow(1);
    expect_told(0, 0);
    get_log(NVME_LOG_CHANGED_NAMESPACES, NVME_GET_LOG_RAE, 0, 16);
    assert_int_equal(admin->answer_count, 1);
    get_log(NVME_LOG_CHANGED_NAMESPACES, 0, 0, 16);
    assert_int_equal(admin->answer_count, 3); // of the event, and of the log
    assert_true(admin->answers[1].result == NVME_EVENT_RESULT_NAMESPACE_ATTRIBUTES ||
                admin->answers[2].result == NVME_EVENT_RESULT_NAMESPACE_ATTRIBUTES);
}

static void access_is_told_by_groups(void **state)
{
    get_log(NVME_LOG_ANA, 0, 0, 64);
    EXPECT_PAGE(admin, 64, {8, NULL, "0100"}, {16, NULL, "0100000001000000"}, {32, NULL, "01"},
                {48, NULL, "01000000"});
    get_log(NVME_LOG_ANA, NVME_GET_LOG_RGO, 0, 64); // groups alone
    EXPECT_PAGE(admin, 64, {8, NULL, "0100"}, {16, NULL, "01000000"}, {32, NULL, "01"});
    s->row.state = RESOURCE_STANDBY;
    stage_advertise(s);
    get_log(NVME_LOG_ANA, 0, 0, 64);
    EXPECT_PAGE(admin, 64, {0, NULL, "01"}, {8, NULL, "0100"}, {16, NULL, "0100000001000000"},
                {24, NULL, "01"}, {32, NULL, "03"}, {48, NULL, "01000000"});
}

// Two listeners: one at every address, which is told of by the one that the host came to.
static void discovery_tells_of_each_subsystem_at_each_listener(void **state)
{
    struct nvme_listener tcp = {.trtype = NVME_TRTYPE_TCP,
                                .adrfam = NVME_ADRFAM_IPV4,
                                .is_wildcard = true,
                                .address = "0.0.0.0",
                                .service = "4420"};
    struct nvme_listener rdma = {.trtype = NVME_TRTYPE_RDMA,
                                 .adrfam = NVME_ADRFAM_IPV6,
                                 .is_wildcard = true,
                                 .address = "::",
                                 .service = "8009",
                                 .tsas = {1, 1, 1}};
    char address[257], service[33];
    snprintf(address, sizeof address, "%-256s", "192.0.2.1");
    snprintf(service, sizeof service, "%-32s", "4420");
    assert_true(nvme_target_listener_add(s->target, &tcp));
    line_end(admin);
    admin = line_open(s);
    assert_int_equal(
        line_connect_to(admin, NVME_DISCOVERY_NQN, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0).status,
        NVME_OK);
    property_set(admin, NVME_PROPERTY_CC, NVME_CC_EN);
    get_log(NVME_LOG_DISCOVERY, 0, 0, 2048);
    EXPECT_PAGE(admin, 2048, {8, NULL, "01"}, {1024, NULL, "030102040100ffff8000"},
                {1024 + 32, service, NULL}, {1024 + 256, NQN, NULL}, {1024 + 512, address, NULL});
    assert_true(nvme_target_listener_add(s->target, &rdma));
    snprintf(address, sizeof address, "%-256s", "::");
    snprintf(service, sizeof service, "%-32s", "8009");
    get_log(NVME_LOG_DISCOVERY, 0, 2048, 1024); // the second alone
    EXPECT_PAGE(admin, 1024, {0, NULL, "010202040200ffff8000"}, {32, service, NULL},
                {256, NQN, NULL}, {512, address, NULL}, {768, NULL, "010101"});
    get_log(NVME_LOG_DISCOVERY, 0, 8, 8);
    EXPECT_PAGE(admin, 8, {0, NULL, "02"});
    assert_int_equal(get_log(NVME_LOG_DISCOVERY, 0, 3076, 8).status, NVME_INVALID_FIELD);
    assert_int_equal(get_log(NVME_LOG_SMART, 0, 0, 8).status, NVME_INVALID_LOG_PAGE);
    identify(NVME_CNS_CONTROLLER, 0, 0, 0);
    assert_memory_equal(admin->came + 4, "discovery           weft discovery", 34);
    assert_int_equal(admin->came[76], 2);
    assert_int_equal(admin->came[111], 2);
    assert_int_equal(identify(NVME_CNS_NAMESPACE_LIST, 0, 0, 0).status, NVME_INVALID_FIELD);
}

static void begin_discovery(void)
{
    struct nvme_listener listener = {.trtype = NVME_TRTYPE_TCP,
                                     .adrfam = NVME_ADRFAM_IPV4,
                                     .address = "192.0.2.1",
                                     .service = "4420"};
    assert_true(nvme_target_listener_add(s->target, &listener));
    line_end(admin);
    stage_group(s);
    stage_advertise(s);
    admin = line_open(s);
    line_connect_to(admin, NVME_DISCOVERY_NQN, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0);
    property_set(admin, NVME_PROPERTY_CC, NVME_CC_EN);
}

// How many entries there are said to be, which are so many and no more.
static unsigned entries(void)
{
    assert_int_equal(get_log(NVME_LOG_DISCOVERY, 0, 0, 5 * 1024).status, NVME_OK);
    unsigned count = admin->came[8];
    for (unsigned i = 1; i < 5; i++) {
        assert_int_equal(admin->came[1024 * i] != 0, i <= count);
    }
    return count;
}

// Where the first of it stands that is there; and each that is of no group is one of its own.
static void discovery_tells_of_a_group_once(void **state)
{
    struct volume_place *places[] = {&s->rows[0].places[VOLUME_IN_SUBSYSTEM],
                                     &s->rows[1].places[VOLUME_IN_SUBSYSTEM],
                                     &s->rows[2].places[VOLUME_IN_SUBSYSTEM]};
    begin_discovery();
    assert_int_equal(entries(), 1);
    s->rows[0].state = RESOURCE_FAILED;
    assert_int_equal(entries(), 1);
    s->rows[1].state = s->rows[2].state = RESOURCE_FAILED;
    assert_int_equal(entries(), 0);
    s->rows[0].state = s->rows[1].state = s->rows[2].state = RESOURCE_READY;
    for (unsigned i = 0; i < 3; i++) {
        memcpy(places[i]->group, "g", 2);
    }
    assert_int_equal(entries(), 1);
    places[1]->group[0] = '\0';
    assert_int_equal(entries(), 2);
    places[2]->group[0] = '\0';
    assert_int_equal(entries(), 3);
    s->table.count = 2;
    assert_int_equal(entries(), 2);
    places[0]->group[0] = '\0';
    memcpy(places[1]->group, "g", 2); // a name that is shorter than the one before
    char g[2] = "g";
    get_log(NVME_LOG_DISCOVERY, 0, 1024 + 1024 + 256, 256);
    EXPECT_PAGE(admin, 256, {0, g, NULL});
}

static void discovery_counts_how_often_its_volumes_changed(void **state)
{
    begin_discovery();
    static const struct {
        unsigned row;
        uint32_t volume;
        enum resource_state state;
        bool is_new;
    } table[] = {
        {1, 4, RESOURCE_READY, false},    {1, 4, RESOURCE_STANDBY, false},
        {1, 4, RESOURCE_FAILED, true},    {1, 4, RESOURCE_READY, true},
        {0, 9, RESOURCE_READY, true},     {1, 10, RESOURCE_READY, true},
        {2, 3, RESOURCE_NOT_READY, true}, {2, 3, RESOURCE_READY, false},
    };
    get_log(NVME_LOG_DISCOVERY, 0, 0, 8);
    uint64_t generation = get_le64(admin->came);
    assert_int_not_equal(generation, 0);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        s->rows[table[i].row].volume = table[i].volume;
        s->rows[table[i].row].state = table[i].state;
        stage_advertise(s);
        get_log(NVME_LOG_DISCOVERY, 0, 0, 8);
        generation += table[i].is_new;
        assert_int_equal(get_le64(admin->came), generation);
    }
}

static void discovery_has_the_logs_that_it_tells_of(void **state)
{
    begin_discovery();
    for (unsigned lid = 0; lid <= UINT8_MAX; lid++) {
        bool is_there = lid == NVME_LOG_SUPPORTED || lid == NVME_LOG_ERROR ||
                        lid == NVME_LOG_FEATURES || lid == NVME_LOG_DISCOVERY;
        admin->answer_count = 0;
        assert_int_equal(get_log((uint8_t)lid, 0, 0, 64).status,
                         is_there ? NVME_OK : NVME_INVALID_LOG_PAGE);
    }
}

static void logs_that_there_are_not_are_refused(void **state)
{
    assert_int_equal(get_log(0x06, 0, 0, 64).status, NVME_INVALID_LOG_PAGE);
    assert_int_equal(get_log(NVME_LOG_DISCOVERY, 0, 0, 64).status, NVME_INVALID_LOG_PAGE);
    assert_int_equal(get_log(NVME_LOG_SMART, 0, 2, 64).status, NVME_INVALID_FIELD);
    assert_int_equal(get_log(NVME_LOG_SMART, 0, 516, 64).status, NVME_INVALID_FIELD);
    assert_int_equal(get_log(NVME_LOG_SMART, 0, 512, 64).status, NVME_OK); // nothing of it
    EXPECT_PAGE(admin, 64, {0, NULL, "00"});
    assert_int_equal(get_log(NVME_LOG_SMART, 0, 0, NVME_DATA_LEN_MAX + 4).status,
                     NVME_INVALID_FIELD);
}

// As much as the controller says that a command may move: with what is in the scratch at a time.
static void a_log_is_told_to_the_length_that_a_command_may_move(void **state)
{
    const uint32_t lens[] = {NVME_SCRATCH_LEN, NVME_SCRATCH_LEN + 4, NVME_DATA_LEN_MAX};
    const unsigned piece_counts[] = {1, 2, 16};
    for (unsigned i = 0; i < 3; i++) {
        admin->answer_count = 0;
        assert_int_equal(get_log(NVME_LOG_FIRMWARE, 0, 0, lens[i]).status, NVME_OK);
        EXPECT_PAGE(admin, lens[i], {0, NULL, "01"}, {8, "1       ", NULL});
        assert_int_equal(admin->answer_count, 1);
        assert_int_equal(admin->pieces, piece_counts[i]);
    }
    assert_int_equal(get_log(NVME_LOG_FIRMWARE, 0, 8, NVME_SCRATCH_LEN + 4).status, NVME_OK);
    EXPECT_PAGE(admin, NVME_SCRATCH_LEN + 4, {0, "1       ", NULL});
}

static void a_log_ends_with_the_piece_that_cannot_be_moved(void **state)
{
    admin->piece_status = NVME_TRANSIENT_TRANSPORT_ERROR;
    assert_int_equal(get_log(NVME_LOG_FIRMWARE, 0, 0, NVME_DATA_LEN_MAX).status,
                     NVME_TRANSIENT_TRANSPORT_ERROR);
    assert_int_equal(admin->pieces, 1);
    assert_int_equal(get_log(NVME_LOG_FIRMWARE, 0, 0, NVME_SCRATCH_LEN).status, NVME_OK);
}

static void a_discovery_log_likewise(void **state)
{
    enum { DISCOVERY_LEN = 64 << 10 }; // its MDTS is 4
    begin_discovery();
    assert_int_equal(get_log(NVME_LOG_DISCOVERY, 0, 0, DISCOVERY_LEN).status, NVME_OK);
    assert_int_equal(get_log(NVME_LOG_DISCOVERY, 0, 0, DISCOVERY_LEN + 4).status,
                     NVME_INVALID_FIELD);
}

// The counters of SMART are of all namespaces: they are not told as those of one.
static void logs_are_of_the_controller(void **state)
{
    static const uint8_t lids[] = {NVME_LOG_ERROR,      NVME_LOG_SMART, NVME_LOG_FIRMWARE,
                                   NVME_LOG_EFFECTS,    NVME_LOG_ANA,   NVME_LOG_CHANGED_NAMESPACES,
                                   NVME_LOG_RESERVATION};
    for (unsigned i = 0; i < sizeof lids; i++) {
        assert_int_equal(get_log_of(NVME_NSID_ALL, lids[i], 0, 0, 64).status, NVME_OK);
        assert_int_equal(get_log_of(1, lids[i], 0, 0, 64).status, NVME_INVALID_FIELD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(errors_are_logged_newest_first),
        TEST(errors_of_queues_are_logged_with_their_block),
        TEST(health_counts_commands_and_octets),
        TEST(health_counts_in_units_of_512000_octets),
        TEST(firmware_is_one_slot),
        TEST(effects_are_told_for_each_command),
        TEST(features_are_told_with_their_scope),
        TEST(logs_are_told_that_there_are),
        TEST(logs_have_an_end),
        TEST(namespaces_that_changed_are_listed_once),
        TEST(host_is_told_anew_when_it_has_looked),
        TEST(access_is_told_by_groups),
        TEST(discovery_tells_of_each_subsystem_at_each_listener),
        TEST(discovery_tells_of_a_group_once),
        TEST(discovery_counts_how_often_its_volumes_changed),
        TEST(discovery_has_the_logs_that_it_tells_of),
        TEST(logs_that_there_are_not_are_refused),
        TEST(a_log_is_told_to_the_length_that_a_command_may_move),
        TEST(a_log_ends_with_the_piece_that_cannot_be_moved),
        TEST(a_discovery_log_likewise),
        TEST(logs_are_of_the_controller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
