// What NVMe controllers tell of themselves: pages of Identify and logs, octet by octet, as the NVM
// Express Base specification 1.4 has them. What is not named of a page is zero.

#include "tests/node/nvme_stage.h"

enum {
    ABILITIES = VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH | VOLUME_CAN_TRIM | VOLUME_CAN_WRITE_ZEROES
};

// Octets of a page from one on, as text or in hexadecimal.
struct piece {
    uint32_t at;
    const char *text, *hex;
};

#define EXPECT_PAGE(line, len, ...)                                                   \
    do {                                                                              \
        const struct piece pieces[] = {__VA_ARGS__};                                  \
        expect_page(line, len, pieces, (unsigned)(sizeof pieces / sizeof pieces[0])); \
    } while (0)

static uint8_t digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void expect_page(const struct line *line, uint32_t len, const struct piece *pieces,
                        unsigned count)
{
    static uint8_t page[NVME_SCRATCH_LEN];
    memset(page, 0, len);
    for (unsigned i = 0; i < count; i++) {
        uint8_t *at = page + pieces[i].at;
        if (pieces[i].text != NULL) {
            memcpy(at, pieces[i].text, strlen(pieces[i].text));
        }
        for (const char *c = pieces[i].hex; c != NULL && *c != '\0'; c += 2) {
            *at++ = (uint8_t)(digit(c[0]) << 4 | digit(c[1]));
        }
    }
    assert_int_equal(line_answer(line).status, NVME_OK);
    for (uint32_t i = 0; i < len; i++) {
        if (line->came[i] != page[i]) {
            fail_msg("octet %u is %02x, not %02x", i, line->came[i], page[i]);
        }
    }
}

static struct stage *s;
static struct line *admin;
static uint16_t cntlid;

static int begin(void **state)
{
    s = stage_create(ABILITIES);
    s->row.profile.preferred = 4096;
    for (uint8_t i = 0; i < VOLUME_UUID_LEN; i++) {
        s->row.identity.uuid[i] = (uint8_t)(0x10 + i);
        s->row.identity.nguid[i] = (uint8_t)(0xa0 + i);
    }
    admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    return 0;
}

static int end(void **state)
{
    line_end(admin);
    stage_destroy(s);
    return 0;
}

#define NQN "nqn.2014-08.org.nvmexpress:uuid:10111213-1415-1617-1819-1a1b1c1d1e1f"

/* ---- Identify -------------------------------------------------------------------------------- */

static struct answer identify(uint8_t cns, uint32_t nsid, uint16_t from, uint8_t set)
{
    uint8_t sqe[NVME_SQE_LEN];
    memset(admin->came, 0xee, sizeof admin->came);
    sqe_fill(admin, sqe, NVME_ADMIN_IDENTIFY, NVME_IDENTIFY_LEN);
    put_le32(sqe + NVME_SQE_OFF_NSID, nsid);
    sqe[NVME_IDENTIFY_OFF_CNS] = cns;
    put_le16(sqe + NVME_IDENTIFY_OFF_CNS + 2, from);
    sqe[NVME_IDENTIFY_OFF_CSI] = set;
    line_send(admin, sqe);
    return line_answer(admin);
}

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

/* ---- logs ------------------------------------------------------------------------------------ */

static struct answer get_log_of(uint32_t nsid, uint8_t lid, uint8_t lsp, uint64_t from,
                                uint32_t len)
{
    uint8_t sqe[NVME_SQE_LEN];
    memset(admin->came, 0xee, sizeof admin->came);
    sqe_fill(admin, sqe, NVME_ADMIN_GET_LOG_PAGE, len);
    put_le32(sqe + NVME_SQE_OFF_NSID, nsid);
    sqe[NVME_GET_LOG_OFF_LID] = lid;
    sqe[NVME_GET_LOG_OFF_LSP] = lsp;
    put_le16(sqe + NVME_GET_LOG_OFF_NUMDL, (uint16_t)(len / 4 - 1));
    put_le16(sqe + NVME_GET_LOG_OFF_NUMDU, (uint16_t)((len / 4 - 1) >> 16));
    put_le64(sqe + NVME_GET_LOG_OFF_LPO, from);
    line_send(admin, sqe);
    return line_answer(admin);
}

static struct answer get_log(uint8_t lid, uint8_t lsp, uint64_t from, uint32_t len)
{
    return get_log_of(0, lid, lsp, from, len);
}

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

static void logs_that_there_are_not_are_refused(void **state)
{
    assert_int_equal(get_log(0x06, 0, 0, 64).status, NVME_INVALID_LOG_PAGE);
    assert_int_equal(get_log(NVME_LOG_DISCOVERY, 0, 0, 64).status, NVME_INVALID_LOG_PAGE);
    assert_int_equal(get_log(NVME_LOG_SMART, 0, 2, 64).status, NVME_INVALID_FIELD);
    assert_int_equal(get_log(NVME_LOG_SMART, 0, 516, 64).status, NVME_INVALID_FIELD);
    assert_int_equal(get_log(NVME_LOG_SMART, 0, 512, 64).status, NVME_OK); // nothing of it
    EXPECT_PAGE(admin, 64, {0, NULL, "00"});
    assert_int_equal(get_log(NVME_LOG_SMART, 0, 0, NVME_SCRATCH_LEN + 4).status,
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(controller_tells_of_itself),
        TEST(abilities_are_told_as_commands),
        TEST(namespace_tells_of_itself),
        TEST(controllers_of_a_subsystem_are_listed),
        TEST(pages_that_there_are_not_are_refused),
        TEST(errors_are_logged_newest_first),
        TEST(health_counts_commands_and_octets),
        TEST(firmware_is_one_slot),
        TEST(effects_are_told_for_each_command),
        TEST(features_are_told_with_their_scope),
        TEST(logs_are_told_that_there_are),
        TEST(access_is_told_by_groups),
        TEST(discovery_tells_of_each_subsystem_at_each_listener),
        TEST(logs_that_there_are_not_are_refused),
        TEST(logs_are_of_the_controller),
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
