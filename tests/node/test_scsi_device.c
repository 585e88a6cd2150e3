// What a SCSI unit says of itself, octet by octet: its commands, INQUIRY and its pages, capacity,
// mode pages.
#include "tests/node/scsi_stage.h"

enum { TEST_READY = 0x00, REQUEST_SENSE = 0x03, INQUIRY = 0x12 };

/* ---- which commands there are ---------------------------------------------------------------- */

static void what_is_no_command_is_refused_by_its_name(void **state)
{
    expect_fault(CDB(0xff), 0, 0, FAULT_OPCODE);
    expect_fault(CDB(0x04), 0, 0, FAULT_OPCODE);
    expect_fault(CDB(0x5e, 4), 0, 0, FAULT_CDB_FIELD); // an action that there is not
    expect_fault(CDB(0x9e, 0x11), 0, 0, FAULT_CDB_FIELD);
    expect_fault(CDB(0xa3, 0x0a), 0, 0, FAULT_CDB_FIELD);
    stage_become(VOLUME_CAN_WRITE);
    expect_fault(CDB(0x42, [8] = 24), 0, 24, FAULT_OPCODE); // the volume cannot
    expect_fault(CDB(0x41, [8] = 1), 0, 512, FAULT_OPCODE);
    expect_fault(CDB(0x93, [13] = 1), 0, 512, FAULT_OPCODE);
    assert_int_equal(scsi_target_counters(stage->target).errors, 8);
    assert_int_equal(scsi_target_counters(stage->target).commands, 8);
}

static void what_no_unit_has_the_number_of_is_not_there(void **state)
{
    static const struct {
        uint8_t opcode;
        enum scsi_fault fault;
    } rows[] = {{TEST_READY, FAULT_NO_UNIT}, {0x28, FAULT_NO_UNIT}, {0x1a, FAULT_NO_UNIT},
                {0xff, FAULT_NO_UNIT},       {INQUIRY, FAULT_NONE}, {REQUEST_SENSE, FAULT_NONE},
                {0x5f, FAULT_NO_UNIT},       {0xa3, FAULT_NO_UNIT}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct scsi_task task = {.nexus = it_nexus_find(&stage->its[0], 1ULL << 48),
                                 .cdb = {rows[i].opcode, [4] = 96},
                                 .in_max = 4096};
        task_execute(&task, 0);
        assert_int_equal(task.fault, rows[i].fault);
        assert_int_equal(task.status,
                         rows[i].fault == FAULT_NONE ? SCSI_GOOD : SCSI_CHECK_CONDITION);
        if (rows[i].opcode == INQUIRY) {
            assert_int_equal(stage->in[0], 0x7f);
        } else if (rows[i].opcode == REQUEST_SENSE) {
            assert_int_equal(stage->in[12], 0x25);
        }
    }
}

static void what_changes_blocks_is_refused_where_nobody_may_write(void **state)
{
    static const uint8_t writes[] = {0x0a, 0x2a, 0x2e, 0x41, 0x42, 0x89,
                                     0x8a, 0x8b, 0x8e, 0x93, 0xaa, 0xae};
    static const uint8_t rest[] = {0x08, 0x28, 0x2f, 0x35, 0x88, 0x91, 0xa8, 0x1b};
    stage_become(STAGE_ALL & ~VOLUME_CAN_WRITE);
    for (unsigned i = 0; i < sizeof writes; i++) {
        expect_fault(CDB(writes[i]), 512, 512, FAULT_WRITE_PROTECTED);
    }
    for (unsigned i = 0; i < sizeof rest; i++) {
        assert_int_equal(stage_run(CDB(rest[i]), 512, 512), SCSI_GOOD);
    }
}

static void commands_are_reported_one_by_one(void **state)
{
    // Which (octet 2), code, action: what is there, or a refusal.
    EXPECT_DATA(CDB(0xa3, 0x0c, 1, 0x28, [9] = 255), 0, 3, 0, 10, 0x28, 0xf8, 255, 255, 255, 255, 0,
                255, 255, 0);
    EXPECT_DATA(CDB(0xa3, 0x0c, 0x81, INQUIRY, [9] = 255), 0, 0x83, 0, 6, INQUIRY, 1, 255, 255, 255,
                0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    EXPECT_DATA(CDB(0xa3, 0x0c, 1, 0xff, [9] = 255), 0, 1, 0, 0);
    EXPECT_DATA(CDB(0xa3, 0x0c, 2, 0x5e, [5] = 1, [9] = 255), 0, 3, 0, 10, 0x5e, 1, 0, 0, 0, 0, 0,
                255, 255, 0);
    EXPECT_DATA(CDB(0xa3, 0x0c, 3, 0x5e, [5] = 2, [9] = 6), 0, 3, 0, 10, 0x5e, 2);
    EXPECT_DATA(CDB(0xa3, 0x0c, 3, TEST_READY, [9] = 255), 0, 3, 0, 6, 0, 0, 0, 0, 0, 0);
    EXPECT_DATA(CDB(0xa3, 0x0c, 2, 0x5e, [5] = 9, [9] = 255), 0, 1, 0, 0);
    expect_fault(CDB(0xa3, 0x0c, 1, 0x5e, [9] = 255), 255, 0, FAULT_CDB_FIELD); // has actions
    expect_fault(CDB(0xa3, 0x0c, 2, 0x28, [9] = 255), 255, 0, FAULT_CDB_FIELD); // has none
    expect_fault(CDB(0xa3, 0x0c, 4, 0x28, [9] = 255), 255, 0, FAULT_CDB_FIELD);
    stage_become(VOLUME_CAN_WRITE);
    EXPECT_DATA(CDB(0xa3, 0x0c, 1, 0x42, [9] = 255), 0, 1, 0, 0); // the volume cannot
}

#define NONE        0xff // no action
#define TEN(f)      f, 255, 255, 255, 255, 0, 255, 255
#define TWELVE(f)   f, 255, 255, 255, 255, 255, 255, 255, 255
#define SIXTEEN(f)  f, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255
#define RESERVE(a)  a, 0, 0, 0, 0, 0, 255, 255
#define REGISTER(a) a, 255, 0, 0, 255, 255, 255, 255

// What of their CDBs is looked at, from octet 1 on.
static const struct {
    uint8_t opcode, action, usage[15];
} commands[] = {
    {0x00, NONE, {0}},
    {0x03, NONE, {1, 0, 0, 255}},
    {0x08, NONE, {0x1f, 255, 255, 255}},
    {0x0a, NONE, {0x1f, 255, 255, 255}},
    {0x12, NONE, {1, 255, 255, 255}},
    {0x15, NONE, {0x11, 0, 0, 255}},
    {0x16, NONE, {0}},
    {0x17, NONE, {0}},
    {0x1a, NONE, {8, 255, 255, 255}},
    {0x1b, NONE, {0, 0, 0, 0xf5}},
    {0x1d, NONE, {0xe4, 0, 255, 255}},
    {0x25, NONE, {0}},
    {0x28, NONE, {TEN(0xf8)}},
    {0x2a, NONE, {TEN(0xf8)}},
    {0x2e, NONE, {TEN(0xf6)}},
    {0x2f, NONE, {TEN(0xf6)}},
    {0x34, NONE, {TEN(2)}},
    {0x35, NONE, {TEN(2)}},
    {0x41, NONE, {TEN(0xf8)}},
    {0x42, NONE, {1, 0, 0, 0, 0, 0, 255, 255}},
    {0x55, NONE, {0x11, 0, 0, 0, 0, 0, 255, 255}},
    {0x5a, NONE, {0x18, 255, 255, 0, 0, 0, 255, 255}},
    {0x5e, 0, {RESERVE(0)}},
    {0x5e, 1, {RESERVE(1)}},
    {0x5e, 2, {RESERVE(2)}},
    {0x5e, 3, {RESERVE(3)}},
    {0x5f, 0, {REGISTER(0)}},
    {0x5f, 1, {REGISTER(1)}},
    {0x5f, 2, {REGISTER(2)}},
    {0x5f, 3, {REGISTER(3)}},
    {0x5f, 4, {REGISTER(4)}},
    {0x5f, 5, {REGISTER(5)}},
    {0x5f, 6, {REGISTER(6)}},
    {0x88, NONE, {SIXTEEN(0xf8)}},
    {0x89, NONE, {0xf8, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 255}},
    {0x8a, NONE, {SIXTEEN(0xf8)}},
    {0x8b, NONE, {SIXTEEN(0xf8)}},
    {0x8e, NONE, {SIXTEEN(0xf6)}},
    {0x8f, NONE, {SIXTEEN(0xf6)}},
    {0x90, NONE, {SIXTEEN(2)}},
    {0x91, NONE, {SIXTEEN(2)}},
    {0x93, NONE, {SIXTEEN(0xf9)}},
    {0x9e, 0x10, {0x10, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255}},
    {0xa0, NONE, {0, 255, 0, 0, 0, 255, 255, 255, 255}},
    {0xa3, 0x0c, {0x0c, 0x87, 255, 255, 255, 255, 255, 255, 255}},
    {0xa8, NONE, {TWELVE(0xf8)}},
    {0xaa, NONE, {TWELVE(0xf8)}},
    {0xae, NONE, {TWELVE(0xf6)}},
    {0xaf, NONE, {TWELVE(0xf6)}},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void all_commands_are_reported_at_once(void **state)
{
    for (unsigned has_times = 0; has_times < 2; has_times++) {
        const uint32_t each = has_times ? 20 : 8;
        expect_good(CDB(0xa3, 0x0c, (uint8_t)(has_times << 7), [8] = 8), UINT16_MAX, 0, "");
        assert_int_equal(stage->in_len, 4 + COMMAND_COUNT * each);
        assert_int_equal(get_be32(stage->in), stage->in_len - 4);
        for (unsigned i = 0; i < COMMAND_COUNT; i++) {
            const bool has_action = commands[i].action != NONE;
            const uint8_t one[20] = {commands[i].opcode, [3] = has_action ? commands[i].action : 0,
                                     [5] = (uint8_t)(has_action | has_times << 1),
                                     [7] = (uint8_t)scsi_cdb_len(commands[i].opcode), [9] = 10};
            assert_memory_equal(stage->in + 4 + i * each, one, each);
        }
    }
    stage_become(VOLUME_CAN_WRITE); // without the three that it cannot
    expect_good(CDB(0xa3, 0x0c, [8] = 8), UINT16_MAX, 0, "");
    assert_int_equal(stage->in_len, 4 + (COMMAND_COUNT - 3) * 8);
}

static void each_command_tells_what_of_it_is_looked_at(void **state)
{
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        const bool has_action = commands[i].action != NONE;
        const unsigned len = scsi_cdb_len(commands[i].opcode);
        uint8_t cdb[SCSI_CDB_LEN] = {0xa3,
                                     0x0c,
                                     has_action ? 2 : 1,
                                     commands[i].opcode,
                                     [5] = has_action ? commands[i].action : 0,
                                     [8] = 8};
        uint8_t expected[4 + SCSI_CDB_LEN] = {0, 3, 0, (uint8_t)len, commands[i].opcode};
        memcpy(expected + 5, commands[i].usage, len - 1);
        expect_data(cdb, expected, 4 + len);
    }
}

// SAM-5 section 5.1.2: NORMACA is 0, so NACA may not be 1; the sense data point at the bit.
static void auto_contingent_allegiance_is_refused(void **state)
{
    static const uint8_t opcodes[] = {0x00, 0x03, 0x12, 0x25, 0x2a, 0x8a, 0xa0, 0xa8};
    for (unsigned i = 0; i < sizeof opcodes; i++) {
        const uint8_t last = (uint8_t)(scsi_cdb_len(opcodes[i]) - 1);
        uint8_t cdb[SCSI_CDB_LEN] = {opcodes[i]}, sense[SCSI_SENSE_EMIT_MAX];
        cdb[last] = 1 << 2;
        expect_fault(cdb, 0, 0, FAULT_CDB_FIELD);
        task_sense_emit(&stage->task, sense);
        assert_int_equal(sense[15], 0xca);
        assert_int_equal(get_be16(sense + 16), last);
        expect_fault(CDB(0x12, 0, 1), 0, 0, FAULT_CDB_FIELD); // of another field
        task_sense_emit(&stage->task, sense);
        assert_int_equal(sense[15], 0);
    }
}

/* ---- what the unit is ------------------------------------------------------------------------ */

// SPC-4 section 6.42; SELFTEST is bit 2 of octet 1, the code of other tests its top three bits.
static void the_default_self_test_is_the_only_diagnostic(void **state)
{
    enum { SEND_DIAGNOSTIC = 0x1d };
    expect_good(CDB(SEND_DIAGNOSTIC, 0x04), 0, 0, "");
    expect_good(CDB(SEND_DIAGNOSTIC, 0x17), 0, 0, ""); // a page format, and units that may be down
    expect_good(CDB(SEND_DIAGNOSTIC), 0, 0, "");       // which asks for nothing
    expect_fault(CDB(SEND_DIAGNOSTIC, 0x20), 0, 0, FAULT_CDB_FIELD);
    expect_fault(CDB(SEND_DIAGNOSTIC, 0x44), 0, 0, FAULT_CDB_FIELD);
    expect_fault(CDB(SEND_DIAGNOSTIC, 0x80), 0, 0, FAULT_CDB_FIELD);
    expect_fault(CDB(SEND_DIAGNOSTIC, 0x10, [4] = 4), 0, 4, FAULT_CDB_FIELD); // a page
    expect_fault(CDB(SEND_DIAGNOSTIC, 0x10, [3] = 1), 0, 256, FAULT_CDB_FIELD);
}

static void the_standard_data_are_those_of_a_disk(void **state)
{
    // The versions of SAM-5, SPC-4 and SBC-3, and the transport's.
    static const uint8_t versions[] = {0x00, 0xa0, 0x04, 0x60, 0x04, 0xc0, 0x09, 0x60};
    uint8_t all[96] = {0, 0, 6, 0x12, 91, 0, 0, 2};
    memcpy(all + 8, "WEFT    volume          1.0 ", 28);
    memcpy(all + 58, versions, sizeof versions);
    expect_data(CDB(INQUIRY, [4] = 255), all, sizeof all);
    EXPECT_DATA(CDB(INQUIRY, [4] = 5), 0, 0, 6, 0x12, 91);
    expect_good(CDB(INQUIRY), 96, 0, ""); // asks for nothing
    expect_fault(CDB(INQUIRY, 0, 1, [4] = 255), 255, 0, FAULT_CDB_FIELD);
    expect_fault(CDB(INQUIRY, 2, 0, [4] = 255), 255, 0, FAULT_CDB_FIELD);
    expect_fault(CDB(INQUIRY, 1, 0x99, [4] = 255), 255, 0, FAULT_CDB_FIELD);
}

#define PAGE(code) CDB(INQUIRY, 1, code, 2, 0)

static void pages_tell_who_it_is(void **state)
{
    EXPECT_DATA(PAGE(0x00), 0, 0, 0, 9, 0x00, 0x80, 0x83, 0x86, 0x87, 0xb0, 0xb1, 0xb2, 0xc0);
    EXPECT_DATA(PAGE(0x80), 0, 0x80, 0, 32, '8', '0', '8', '1', '8', '2', '8', '3', '8', '4', '8',
                '5', '8', '6', '8', '7', '8', '8', '8', '9', '8', 'a', '8', 'b', '8', 'c', '8', 'd',
                '8', 'e', '8', 'f');
    EXPECT_DATA(PAGE(0x83), 0, 0x83, 0, 114,
                // NAA, of which the first four bits say that it is a local one
                1, 3, 0, 8, 0x30, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,
                // a UUID
                1, 10, 0, 18, 0x10, 0, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
                0x8a, 0x8b, 0x8c, 0x8d, 0x8e, 0x8f,
                // vendor and serial number
                2, 1, 0, 40, 'W', 'E', 'F', 'T', ' ', ' ', ' ', ' ', '8', '0', '8', '1', '8', '2',
                '8', '3', '8', '4', '8', '5', '8', '6', '8', '7', '8', '8', '8', '9', '8', 'a', '8',
                'b', '8', 'c', '8', 'd', '8', 'e', '8', 'f',
                // the target port's number, and the device's name
                0x51, 0x94, 0, 4, 0, 0, 0, 1, 0x53, 0xa8, 0, 24, 'i', 'q', 'n', '.', 't', 'e', 's',
                't', ':', 'd', 'i', 's', 'k', ',', 't', ',', '0', 'x', '0', '0', '0', '1', 0, 0);
}

static void a_page_of_the_vendor_tells_what_it_is_made_of(void **state)
{
    uint8_t page[4 + VOLUME_LINEAGE_LEN] = {0, 0xc0, 0, VOLUME_LINEAGE_LEN};
    memcpy(page + 4, "lineage\0\2", 9);
    for (uint8_t i = 0; i < VOLUME_UUID_LEN; i++) {
        page[4 + 16 + i] = 0x80 + i;
        page[4 + 32 + i] = 0x40 + i;
    }
    expect_data(PAGE(0xc0), page, sizeof page);
}

static void pages_tell_what_it_can(void **state)
{
    uint8_t extended[64] = {0, 0x86, 0, 60, 0, 7, 1};
    expect_data(PAGE(0x86), extended, sizeof extended);
    EXPECT_DATA(PAGE(0x87), 0, 0x87, 0, 4, 0x3f, 0xff, 0, 0);
    stage_become(STAGE_ALL & ~VOLUME_CAN_FLUSH);
    extended[6] = 0;
    expect_data(PAGE(0x86), extended, sizeof extended);
    stage_become(STAGE_ALL);
    EXPECT_DATA(PAGE(0xb0), 0, 0xb0, 0, 60, 0, 255, 0, 16, 0, 1, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 255,
                255, 255, 255, 0, 0, 1, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 0,
                0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    EXPECT_DATA(PAGE(0xb2), 0, 0xb2, 0, 4, 0, 0xe0, 2, 0);
    expect_good(PAGE(0xb1), 512, 0, "");
    assert_int_equal(stage->in_len, 64);
    assert_int_equal(get_be16(stage->in + 4), 1); // nothing rotates
    stage_become(STAGE_ALL & ~VOLUME_CAN_WRITE_ZEROES);
    EXPECT_DATA(PAGE(0xb2), 0, 0xb2, 0, 4, 0, 0x80, 2, 0);
    stage_become(VOLUME_CAN_WRITE | VOLUME_CAN_WRITE_ZEROES | VOLUME_IS_ROTATIONAL);
    EXPECT_DATA(PAGE(0xb2), 0, 0xb2, 0, 4, 0, 0, 0, 0);
    expect_good(PAGE(0xb1), 512, 0, "");
    assert_int_equal(get_be16(stage->in + 4), 0);
    expect_good(PAGE(0xb0), 512, 0, "");
    assert_int_equal(get_be32(stage->in + 20) | get_be32(stage->in + 24), 0);
    assert_int_equal(get_be32(stage->in + 28), 0);
    stage->row.profile.preferred = 512 * 65535; // more than its field holds
    stage_become(STAGE_ALL);
    expect_good(PAGE(0xb0), 512, 0, "");
    assert_int_equal(get_be16(stage->in + 6), 0);
    assert_int_equal(get_be32(stage->in + 12), 65535);
    stage->row.profile.preferred -= 512;
    stage_become(STAGE_ALL);
    expect_good(PAGE(0xb0), 512, 0, "");
    assert_int_equal(get_be16(stage->in + 6), 65534);
}

static void its_size_is_told_in_both_lengths(void **state)
{
    static const struct {
        uint64_t blocks;
        uint32_t last_10;
        uint64_t last_16;
    } rows[] = {{STAGE_BLOCKS, STAGE_BLOCKS - 1, STAGE_BLOCKS - 1},
                {1ULL << 32, UINT32_MAX, UINT32_MAX},
                {(1ULL << 32) - 1, UINT32_MAX - 1, UINT32_MAX - 1},
                {(1ULL << 32) + 1, UINT32_MAX, 1ULL << 32},
                {0, 0, 0}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        stage->row.profile.size = rows[i].blocks * STAGE_BLOCK_LEN;
        stage_become(STAGE_ALL);
        expect_good(CDB(0x25), 255, 0, "");
        assert_int_equal(stage->in_len, 8);
        assert_int_equal(get_be32(stage->in), rows[i].last_10);
        assert_int_equal(get_be32(stage->in + 4), STAGE_BLOCK_LEN);
        expect_good(CDB(0x9e, 0x10, [13] = 255), 255, 0, "");
        assert_int_equal(stage->in_len, 32);
        assert_int_equal(get_be64(stage->in), rows[i].last_16);
        assert_int_equal(get_be32(stage->in + 8), STAGE_BLOCK_LEN);
        assert_int_equal(stage->in[13], 3); // a physical block is 8 of them
        assert_int_equal(stage->in[14], 0x80);
    }
    stage_become(VOLUME_CAN_WRITE);
    expect_good(CDB(0x9e, 0x10, [13] = 15), 255, 0, "");
    assert_int_equal(stage->in_len, 15);
    assert_int_equal(stage->in[14], 0);
}

static void physical_blocks_are_those_that_are_served_best(void **state)
{
    static const struct {
        uint32_t block_size, preferred;
        uint8_t exponent;
    } rows[] = {{512, 512, 0},     {512, 0, 0},      {512, 2048, 2},
                {512, 1 << 22, 3}, {4096, 65536, 0}, {512, 3000, 2}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        stage->row.profile.block_size = rows[i].block_size;
        stage->row.profile.preferred = rows[i].preferred;
        stage_become(STAGE_ALL);
        expect_good(CDB(0x9e, 0x10, [13] = 255), 255, 0, "");
        assert_int_equal(stage->in[13], rows[i].exponent);
    }
}

static void it_has_one_unit(void **state)
{
    EXPECT_DATA(CDB(0xa0, [9] = 16), 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    EXPECT_DATA(CDB(0xa0, 0, 2, [9] = 255), 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    EXPECT_DATA(CDB(0xa0, 0, 1, [9] = 16), 0, 0, 0, 0, 0, 0, 0, 0);
    expect_fault(CDB(0xa0, 0, 3, [9] = 16), 255, 0, FAULT_CDB_FIELD);
    expect_fault(CDB(0xa0, [9] = 15), 255, 0, FAULT_CDB_FIELD);
}

/* ---- mode pages ------------------------------------------------------------------------------ */

#define CACHING    0x08, 18, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
#define CONTROL    0x0a, 10, 0, 0x10, 0, 0, 0, 0, 255, 255, 0, 0
#define EXCEPTIONS 0x1c, 10, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0

static void mode_pages_are_told_with_and_without_descriptors(void **state)
{
    EXPECT_DATA(CDB(0x1a, 8, 0x3f, [4] = 255), 47, 0, 0x10, 0, CACHING, CONTROL, EXCEPTIONS);
    EXPECT_DATA(CDB(0x1a, 8, 0x3f, 255, 255), 47, 0, 0x10, 0, CACHING, CONTROL, EXCEPTIONS);
    EXPECT_DATA(CDB(0x1a, 0, 0x08, [4] = 255), 31, 0, 0x10, 8, 0, 0, 0x10, 0, 0, 0, 2, 0, CACHING);
    EXPECT_DATA(CDB(0x5a, 8, 0x0a, [8] = 255), 0, 18, 0, 0x10, 0, 0, 0, 0, CONTROL);
    EXPECT_DATA(CDB(0x5a, 0, 0x1c, [8] = 255), 0, 26, 0, 0x10, 0, 0, 0, 8, 0, 0, 0x10, 0, 0, 0, 2,
                0, EXCEPTIONS);
    EXPECT_DATA(CDB(0x5a, 0x10, 0x0a, [8] = 255), 0, 34, 0, 0x10, 1, 0, 0, 16, 0, 0, 0, 0, 0, 0,
                0x10, 0, 0, 0, 0, 0, 0, 0, 2, 0, CONTROL);
    // What can be changed: the format of sense data, the cache.
    EXPECT_DATA(CDB(0x1a, 8, 0x4a, [4] = 255), 15, 0, 0x10, 0, 0x0a, 10, 4, 0, 0, 0, 0, 0, 0, 0, 0,
                0);
    EXPECT_DATA(CDB(0x1a, 8, 0x48, [4] = 255), 23, 0, 0x10, 0, CACHING);
    EXPECT_DATA(CDB(0x1a, 8, 0x5c, [4] = 255), 15, 0, 0x10, 0, 0x1c, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0);
    EXPECT_DATA(CDB(0x1a, 8, 0x8a, [4] = 255), 15, 0, 0x10, 0, CONTROL); // the default
    EXPECT_DATA(CDB(0x1a, 8, 0x0a, [4] = 4), 15, 0, 0x10, 0);
    expect_fault(CDB(0x1a, 8, 0xca, [4] = 255), 255, 0, FAULT_SAVING);
    expect_fault(CDB(0x1a, 8, 0x0a, 1, 255), 255, 0, FAULT_CDB_FIELD);
    EXPECT_DATA(CDB(0x1a, 8, 0x0a, 255, 255), 15, 0, 0x10, 0, CONTROL); // all there are of it
    expect_fault(CDB(0x1a, 8, 0x01, 0, 255), 255, 0, FAULT_CDB_FIELD);
}

static void mode_pages_follow_the_volume(void **state)
{
    stage_become(STAGE_ALL & ~VOLUME_CAN_WRITE & ~VOLUME_CAN_FLUSH);
    EXPECT_DATA(CDB(0x1a, 8, 0x08, [4] = 255), 23, 0, 0x90, 0, 0x08, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0, 0, 0, 0, 0, 0, 0, 0, 0);
    stage->row.profile.size = (1ULL << 32) * STAGE_BLOCK_LEN;
    stage_become(STAGE_ALL);
    expect_good(CDB(0x1a, 0, 0x0a, [4] = 255), 255, 0, "");
    assert_int_equal(get_be32(stage->in + 4), UINT32_MAX);
    expect_good(CDB(0x5a, 0x10, 0x0a, [8] = 255), 255, 0, "");
    assert_int_equal(get_be64(stage->in + 8), 1ULL << 32);
    stage->row.profile.size -= STAGE_BLOCK_LEN;
    stage_become(STAGE_ALL);
    expect_good(CDB(0x1a, 0, 0x0a, [4] = 255), 255, 0, "");
    assert_int_equal(get_be32(stage->in + 4), UINT32_MAX);
}

// The list, in what the initiator has, by both commands; a header of six octets has four of them.
static void expect_select(const uint8_t *pages, uint32_t len, enum scsi_fault fault)
{
    for (unsigned is_10 = 0; is_10 < 2; is_10++) {
        const uint32_t head = is_10 ? 8 : 4, all = head + len;
        const uint8_t short_cdb[SCSI_CDB_LEN] = {0x15, 0x10, [4] = (uint8_t)all};
        const uint8_t long_cdb[SCSI_CDB_LEN] = {0x55, 0x10, [8] = (uint8_t)all};
        memset(stage->out, 0, head);
        memcpy(stage->out + head, pages, len);
        enum scsi_status_code status = stage_run(is_10 ? long_cdb : short_cdb, 0, all);
        assert_int_equal(status, fault == FAULT_NONE ? SCSI_GOOD : SCSI_CHECK_CONDITION);
        assert_int_equal(stage->task.fault, fault);
    }
}

static void mode_select_takes_what_is_so_already(void **state)
{
    static const uint8_t all[] = {CACHING, CONTROL, EXCEPTIONS};
    uint8_t other[sizeof all];
    expect_select(all, sizeof all, FAULT_NONE);
    expect_select(all, 0, FAULT_NONE);
    expect_select(all, 20, FAULT_NONE);
    expect_select(all, 19, FAULT_LIST_LENGTH);
    expect_select(all, 21, FAULT_LIST_LENGTH);
    for (unsigned i = 0; i < sizeof all; i++) {
        memcpy(other, all, sizeof all);
        other[i] ^= 0x20; // of a code: another page
        expect_select(other, sizeof all, FAULT_LIST_FIELD);
    }
    memcpy(other, all, sizeof all);
    other[0] |= 0x80; // that it can be saved is not looked at
    expect_select(other, sizeof all, FAULT_NONE);
    other[0] = 0x3f;
    expect_select(other, sizeof all, FAULT_LIST_FIELD);
}

static void mode_select_refuses_what_it_cannot_read(void **state)
{
    memset(stage->out, 0, 64);
    expect_fault(CDB(0x15, 0, [4] = 4), 0, 4, FAULT_CDB_FIELD);
    expect_fault(CDB(0x15, 0x11, [4] = 4), 0, 4, FAULT_CDB_FIELD);
    expect_good(CDB(0x15, 0x10), 0, 0, "");
    expect_good(CDB(0x15, 0x10, [4] = 4), 0, 4, "");
    expect_fault(CDB(0x15, 0x10, [4] = 3), 0, 3, FAULT_LIST_LENGTH);
    expect_good(CDB(0x55, 0x10, [8] = 8), 0, 8, "");
    expect_fault(CDB(0x55, 0x10, [8] = 7), 0, 7, FAULT_LIST_LENGTH);
    stage->out[3] = 8; // a descriptor
    expect_fault(CDB(0x15, 0x10, [4] = 11), 0, 11, FAULT_LIST_LENGTH);
    stage->out[3] = 0;
    stage->out[7] = 8;
    expect_fault(CDB(0x55, 0x10, [8] = 15), 0, 15, FAULT_LIST_LENGTH);
}

// A block descriptor in what the initiator has: of so many octets, blocks, and octets of a block.
static enum scsi_fault describe(uint32_t len, uint64_t blocks, uint32_t block_len)
{
    const bool is_long = len == 16;
    const uint8_t cdb[SCSI_CDB_LEN] = {0x55, 0x10, [8] = (uint8_t)(8 + len)};
    memset(stage->out, 0, 64);
    stage->out[4] = is_long;
    stage->out[7] = (uint8_t)len;
    if (is_long) {
        put_be64(stage->out + 8, blocks);
        put_be32(stage->out + 20, block_len);
    } else {
        put_be32(stage->out + 8, (uint32_t)blocks);
        put_be24(stage->out + 13, block_len);
    }
    stage_run(cdb, 0, 8 + len);
    return stage->task.fault;
}

static void mode_select_changes_neither_size_nor_block_length(void **state)
{
    for (uint32_t len = 8; len <= 16; len += 8) {
        const uint64_t all = len == 16 ? UINT64_MAX : UINT32_MAX;
        assert_int_equal(describe(len, STAGE_BLOCKS, 512), FAULT_NONE);
        assert_int_equal(describe(len, 0, 512), FAULT_NONE);
        assert_int_equal(describe(len, all, 512), FAULT_NONE);
        assert_int_equal(describe(len, STAGE_BLOCKS - 1, 512), FAULT_LIST_FIELD);
        assert_int_equal(describe(len, STAGE_BLOCKS, 4096), FAULT_LIST_FIELD);
        assert_int_equal(describe(len, STAGE_BLOCKS, 0), FAULT_LIST_FIELD);
    }
    assert_int_equal(describe(4, 0, 512), FAULT_LIST_FIELD);
    assert_int_equal(describe(24, 0, 512), FAULT_LIST_FIELD);
}

static void select_page(const uint8_t *page, uint32_t len, const char *trace)
{
    const uint8_t cdb[SCSI_CDB_LEN] = {0x15, 0x10, [4] = (uint8_t)(4 + len)};
    memset(stage->out, 0, 4);
    memcpy(stage->out + 4, page, len);
    expect_good(cdb, 0, 4 + len, trace);
}

static void sense_data_are_told_as_descriptors_if_wished(void **state)
{
    uint8_t page[] = {CONTROL}, sense[SCSI_SENSE_EMIT_MAX];
    page[2] = 4;
    select_page(page, sizeof page, "");
    EXPECT_DATA(CDB(0x1a, 8, 0x0a, [4] = 255), 15, 0, 0x10, 0, 0x0a, 10, 4, 0x10, 0, 0, 0, 0, 255,
                255, 0, 0);
    EXPECT_DATA(CDB(0x1a, 8, 0x8a, [4] = 255), 15, 0, 0x10, 0, CONTROL); // the default
    assert_int_equal(stage->nexuses[0].attentions, 0);
    assert_int_equal(stage->nexuses[1].attentions, 1U << SCSI_ATTENTION_MODE);
    stage->nexuses[1].attentions = 0;
    select_page(page, sizeof page, ""); // as it is
    assert_int_equal(stage->nexuses[1].attentions, 0);
    expect_fault(CDB(0xff), 0, 0, FAULT_OPCODE);
    assert_int_equal(task_sense_emit(&stage->task, sense), 8);
    assert_memory_equal(sense, ((const uint8_t[]){0x72, 5, 0x20, 0}), 4);
    EXPECT_DATA(CDB(0x03, 0, [4] = 3), 0x70, 0, 0); // which says itself in which format
    nexus_reset_unit(&stage->nexuses[1], 0);
    expect_fault(CDB(0x00), 0, 0, FAULT_RESET);
    EXPECT_DATA(CDB(0x1a, 8, 0x0a, [4] = 255), 15, 0, 0x10, 0, CONTROL);
}

static void without_the_cache_all_writes_are_stable(void **state)
{
    uint8_t page[] = {CACHING};
    page[2] = 0;
    select_page(page, sizeof page, "flush 0+0\n");
    assert_int_equal(stage->nexuses[1].attentions, 1U << SCSI_ATTENTION_MODE);
    EXPECT_DATA(CDB(0x1a, 8, 0x08, [4] = 255), 23, 0, 0x10, 0, 0x08, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0, 0, 0, 0, 0, 0, 0, 0, 0);
    expect_good(CDB(0x2a, [8] = 1), 0, 512, "write 0+1 fua\n");
    expect_good(CDB(0x0a, [4] = 1), 0, 512, "write 0+1 fua\n");
    expect_good(CDB(0x41, [8] = 2), 0, 512, "write 0+2\nflush 0+0\n");
    stage_become(STAGE_ALL & ~VOLUME_CAN_FUA);
    expect_good(CDB(0x2a, [8] = 1), 0, 512, "write 0+1\nflush 0+0\n");
    page[2] = 4;
    select_page(page, sizeof page, "");
    expect_good(CDB(0x2a, [8] = 1), 0, 512, "write 0+1\n");
}

// A wrong page behind a right one: none of it holds.
static void a_list_holds_as_a_whole(void **state)
{
    uint8_t list[4 + 24] = {0, 0, 0, 0, CONTROL, EXCEPTIONS};
    list[4 + 2] = 4;
    list[4 + 12 + 3] = 1;
    memcpy(stage->out, list, sizeof list);
    expect_fault(CDB(0x15, 0x10, [4] = sizeof list), 0, sizeof list, FAULT_LIST_FIELD);
    EXPECT_DATA(CDB(0x1a, 8, 0x0a, [4] = 255), 15, 0, 0x10, 0, CONTROL);
    list[4] |= 0x40; // of a subpage, which there is none of
    list[4 + 12 + 3] = 0;
    memcpy(stage->out, list, sizeof list);
    expect_fault(CDB(0x15, 0x10, [4] = sizeof list), 0, sizeof list, FAULT_LIST_FIELD);
}

static void a_volume_without_a_cache_has_none_to_be_turned_on(void **state)
{
    uint8_t page[] = {CACHING};
    stage_become(STAGE_ALL & ~VOLUME_CAN_FLUSH);
    expect_select(page, sizeof page, FAULT_LIST_FIELD);
    page[2] = 0;
    expect_select(page, sizeof page, FAULT_NONE);
    assert_int_equal(stage->nexuses[1].attentions, 0);
    stage_become(STAGE_ALL);
    expect_good(CDB(0x2a, [8] = 1), 0, 512, "write 0+1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(what_is_no_command_is_refused_by_its_name),
        STAGE_TEST(what_no_unit_has_the_number_of_is_not_there),
        STAGE_TEST(what_changes_blocks_is_refused_where_nobody_may_write),
        STAGE_TEST(commands_are_reported_one_by_one),
        STAGE_TEST(all_commands_are_reported_at_once),
        STAGE_TEST(each_command_tells_what_of_it_is_looked_at),
        STAGE_TEST(auto_contingent_allegiance_is_refused),
        STAGE_TEST(the_default_self_test_is_the_only_diagnostic),
        STAGE_TEST(the_standard_data_are_those_of_a_disk),
        STAGE_TEST(pages_tell_who_it_is),
        STAGE_TEST(a_page_of_the_vendor_tells_what_it_is_made_of),
        STAGE_TEST(pages_tell_what_it_can),
        STAGE_TEST(its_size_is_told_in_both_lengths),
        STAGE_TEST(physical_blocks_are_those_that_are_served_best),
        STAGE_TEST(it_has_one_unit),
        STAGE_TEST(mode_pages_are_told_with_and_without_descriptors),
        STAGE_TEST(mode_pages_follow_the_volume),
        STAGE_TEST(mode_select_takes_what_is_so_already),
        STAGE_TEST(mode_select_refuses_what_it_cannot_read),
        STAGE_TEST(mode_select_changes_neither_size_nor_block_length),
        STAGE_TEST(sense_data_are_told_as_descriptors_if_wished),
        STAGE_TEST(without_the_cache_all_writes_are_stable),
        STAGE_TEST(a_list_holds_as_a_whole),
        STAGE_TEST(a_volume_without_a_cache_has_none_to_be_turned_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
