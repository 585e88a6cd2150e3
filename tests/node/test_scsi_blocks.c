// SCSI commands that read and change blocks: which requests become of them, to the last block, and
// what the initiator hears.
#include "tests/node/scsi_stage.h"

enum { LAST = STAGE_BLOCKS - 1, CHUNK = (1 << 20) / STAGE_BLOCK_LEN };

static const uint8_t *at_block(unsigned block)
{
    return stage->volume + block * STAGE_BLOCK_LEN;
}

static void expect_volume(unsigned block, unsigned count, const uint8_t *octets)
{
    assert_memory_equal(at_block(block), octets, count * STAGE_BLOCK_LEN);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static void cdb_fill(uint8_t cdb[SCSI_CDB_LEN], uint8_t opcode, uint64_t lba, uint32_t blocks)
{
    memset(cdb, 0, SCSI_CDB_LEN);
    cdb[0] = opcode;
    switch (scsi_cdb_len(opcode)) {
    case 6:
        put_be24(cdb + 1, (uint32_t)lba);
        cdb[4] = (uint8_t)blocks;
        break;
    case 10:
        put_be32(cdb + 2, (uint32_t)lba);
        put_be16(cdb + 7, (uint16_t)blocks);
        break;
    case 12:
        put_be32(cdb + 2, (uint32_t)lba);
        put_be32(cdb + 6, blocks);
        break;
    default:
        put_be64(cdb + 2, lba);
        put_be32(cdb + 10, blocks);
        break;
    }
}

static const uint8_t *cdb_of(uint8_t opcode, uint64_t lba, uint32_t blocks)
{
    static uint8_t cdb[SCSI_CDB_LEN];
    cdb_fill(cdb, opcode, lba, blocks);
    return cdb;
}

static const uint8_t reads[] = {0x08, 0x28, 0xa8, 0x88};
static const uint8_t writes[] = {0x0a, 0x2a, 0xaa, 0x8a};
static const uint8_t others[] = {0x2f, 0x34, 0x35, 0x41, 0x8f, 0x90, 0x91, 0x93, 0xaf};

static void reads_give_what_is_there_up_to_the_last_block(void **state)
{
    for (unsigned i = 0; i < sizeof reads; i++) {
        expect_good(cdb_of(reads[i], 3, 2), 1024, 0, "read 3+2\n");
        assert_int_equal(stage->in_len, 1024);
        assert_memory_equal(stage->in, at_block(3), 1024);
        assert_int_equal(stage->task.whole_len, 1024);
        assert_int_equal(stage->outcome, NODE_OK);
        expect_good(cdb_of(reads[i], LAST, 1), 512, 0, "read 4095+1\n");
        expect_fault(cdb_of(reads[i], LAST, 2), 1024, 0, FAULT_LBA);
        expect_fault(cdb_of(reads[i], STAGE_BLOCKS, 1), 512, 0, FAULT_LBA);
    }
    expect_fault(cdb_of(0x88, UINT64_MAX, 2), 1024, 0, FAULT_LBA);
    expect_good(cdb_of(0x08, 0, 0), STAGE_LEN, 0, "read 0+256\n"); // of six octets: 256 blocks
    expect_fault(cdb_of(0x08, STAGE_BLOCKS - 255, 0), STAGE_LEN, 0, FAULT_LBA);
    expect_good(cdb_of(0x28, 0, 0), 512, 0, ""); // of all others: none
    expect_good(cdb_of(0x28, STAGE_BLOCKS, 0), 512, 0, "");
    expect_fault(cdb_of(0x28, STAGE_BLOCKS + 1, 0), 512, 0, FAULT_LBA);
}

static void addresses_of_six_octets_have_21_bits(void **state)
{
    const uint8_t cdb[SCSI_CDB_LEN] = {0x08, 0xff, 0, 1, 1};
    expect_fault(cdb, 512, 0, FAULT_LBA); // 1f 00 01
    const uint8_t low[SCSI_CDB_LEN] = {0x08, 0xe0, 0, 1, 1};
    expect_good(low, 512, 0, "read 1+1\n");
}

static void no_more_is_read_than_the_initiator_takes(void **state)
{
    static const struct {
        uint32_t in_max;
        const char *trace;
        uint32_t len;
    } rows[] = {{0, "", 0},
                {1, "read 0+1\n", 1},
                {512, "read 0+1\n", 512},
                {513, "read 0+2\n", 513},
                {9999, "read 0+4\n", 2048}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_good(cdb_of(0x28, 0, 4), rows[i].in_max, 0, rows[i].trace);
        assert_int_equal(stage->in_len, rows[i].len);
        assert_int_equal(stage->task.whole_len, 2048);
    }
}

static void writes_put_what_the_initiator_has_up_to_the_last_block(void **state)
{
    for (unsigned i = 0; i < sizeof writes; i++) {
        stage->out[0] = (uint8_t)i;
        expect_good(cdb_of(writes[i], 3, 2), 0, 1024, "write 3+2\n");
        expect_volume(3, 2, stage->out);
        assert_int_equal(stage->task.whole_len, 1024);
        expect_good(cdb_of(writes[i], LAST, 1), 0, 512, "write 4095+1\n");
        expect_fault(cdb_of(writes[i], LAST, 2), 0, 1024, FAULT_LBA);
        expect_good(cdb_of(writes[i], 0, 4), 0, 1024, "write 0+2\n");
        assert_int_equal(stage->task.whole_len, 2048);
        expect_good(cdb_of(writes[i], 0, 4), 0, 0, "");
        expect_good(cdb_of(writes[i], 0, 1), 0, 1000, "write 0+1\n"); // more than it names
    }
}

// Else the initiator would hear that all is well of octets that are nowhere.
static void of_a_part_of_a_block_nothing_is_written(void **state)
{
    static const uint8_t likewise[] = {0x8b, 0x2e, 0xae, 0x8e}; // OR WRITE, WRITE AND VERIFY
    static const uint32_t lens[] = {1, 511, 513, 1535, 2047};
    for (unsigned i = 0; i < sizeof writes + sizeof likewise; i++) {
        const uint8_t opcode = i < sizeof writes ? writes[i] : likewise[i - sizeof writes];
        for (unsigned j = 0; j < sizeof lens / sizeof lens[0]; j++) {
            expect_fault(cdb_of(opcode, 0, 4), 0, lens[j], FAULT_PART_OF_A_BLOCK);
            assert_int_equal(stage->task.moved_len, 2048); // and the residual says by how much
        }
    }
}

static void bits_are_added_to_those_of_the_blocks(void **state)
{
    enum { MOST = NODE_TRANSFER_MAX / 2 / STAGE_BLOCK_LEN };
    uint8_t expected[1024];
    for (unsigned i = 0; i < sizeof expected; i++) {
        expected[i] = at_block(3)[i] | stage->out[i];
    }
    expect_good(cdb_of(0x8b, 3, 2), 0, 1024, "or write 3+2\n");
    expect_volume(3, 2, expected);
    expect_good(cdb_of(0x8b, 0, 4), 0, 1024, "or write 0+2\n"); // of what there is
    assert_int_equal(stage->task.whole_len, 2048);
    expect_good(cdb_of(0x8b, 0, 0), 0, 0, "");
    expect_fault(cdb_of(0x8b, LAST, 2), 0, 1024, FAULT_LBA);
    uint8_t cdb[SCSI_CDB_LEN];
    cdb_fill(cdb, 0x8b, 7, 1);
    cdb[1] = 1 << 3;
    expect_good(cdb, 0, 512, "or write 7+1 fua\n");
    cdb[1] = 1 << 5;
    expect_fault(cdb, 0, 512, FAULT_CDB_FIELD);
    stage->row.profile.size = 4ULL * NODE_TRANSFER_MAX;
    stage_become(STAGE_ALL);
    expect_good(cdb_of(0x8b, 0, MOST), 0, 512, "or write 0+1\n");
    expect_fault(cdb_of(0x8b, 0, MOST + 1), 0, 512, FAULT_CDB_FIELD);
}

static void a_transfer_has_a_longest_length(void **state)
{
    enum { MOST = NODE_TRANSFER_MAX / STAGE_BLOCK_LEN };
    stage->row.profile.size = 4ULL * NODE_TRANSFER_MAX;
    stage_become(STAGE_ALL);
    expect_good(cdb_of(0xa8, 0, MOST), 512, 0, "read 0+1\n");
    expect_fault(cdb_of(0xa8, 0, MOST + 1), 512, 0, FAULT_CDB_FIELD);
    expect_good(cdb_of(0xaa, 0, MOST), 0, 512, "write 0+1\n");
    expect_fault(cdb_of(0xaa, 0, MOST + 1), 0, 512, FAULT_CDB_FIELD);
}

static void protection_information_is_refused(void **state)
{
    for (unsigned i = 1; i < sizeof reads; i++) {
        for (uint8_t bit = 0x20; bit != 0; bit = (uint8_t)(bit << 1)) {
            const uint8_t all[] = {reads[i], writes[i], others[2 * i], others[2 * i - 1], 0x89};
            for (unsigned k = 0; k < sizeof all; k++) {
                uint8_t cdb[SCSI_CDB_LEN];
                cdb_fill(cdb, all[k], 0, 1);
                cdb[1] = bit;
                expect_fault(cdb, 512, 512, FAULT_CDB_FIELD);
            }
        }
    }
}

static void every_range_is_held_to_the_volumes_end(void **state)
{
    for (unsigned i = 0; i < sizeof others; i++) {
        assert_int_equal(stage_run(cdb_of(others[i], LAST, 1), 0, 512), SCSI_GOOD);
        expect_fault(cdb_of(others[i], LAST, 2), 0, 512, FAULT_LBA);
    }
}

/* ---- what is stable -------------------------------------------------------------------------- */

static void what_is_to_be_stable_is_so_by_what_the_volume_has(void **state)
{
    static const struct {
        uint32_t lacks;
        const char *write, *flush;
    } rows[] = {{0, "write 0+1 fua\n", "flush 0+0\n"},
                {VOLUME_CAN_FUA, "write 0+1\nflush 0+0\n", "flush 0+0\n"},
                {VOLUME_CAN_FLUSH, "write 0+1 fua\n", ""},
                {VOLUME_CAN_FUA | VOLUME_CAN_FLUSH, "write 0+1\n", ""}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        stage_become(STAGE_ALL & ~rows[i].lacks);
        for (unsigned k = 1; k < sizeof writes; k++) {
            uint8_t cdb[SCSI_CDB_LEN];
            cdb_fill(cdb, writes[k], 0, 1);
            cdb[1] = 1 << 3;
            expect_good(cdb, 0, 512, rows[i].write);
        }
        expect_good(cdb_of(0x0a, 0, 1), 0, 512, "write 0+1\n"); // has no such flag
        expect_good(cdb_of(0x35, 0, 0), 0, 0, rows[i].flush);
        expect_good(cdb_of(0x91, 0, 0), 0, 0, rows[i].flush);
        expect_good(CDB(0x1b, 0, 0, 0, 0), 0, 0, rows[i].flush); // stop
    }
}

static void what_is_read_with_fua_is_made_stable_before(void **state)
{
    for (unsigned k = 1; k < sizeof reads; k++) {
        uint8_t cdb[SCSI_CDB_LEN];
        cdb_fill(cdb, reads[k], 3, 2);
        cdb[1] = 1 << 3;
        stage_become(STAGE_ALL);
        expect_good(cdb, 1024, 0, "flush 0+0\nread 3+2\n");
        assert_int_equal(stage->in_len, 1024);
        stage_become(STAGE_ALL & ~VOLUME_CAN_FLUSH); // there is nothing that is not
        expect_good(cdb, 1024, 0, "read 3+2\n");
        stage_become(STAGE_ALL);
        cdb_fill(cdb, reads[k], 3, 0);
        cdb[1] = 1 << 3;
        expect_good(cdb, 1024, 0, "");
    }
    stage->holds = true;
    stage_begin(&stage->task, 0, CDB(0x28, 1 << 3, 0, 0, 0, 3, 0, 0, 2), 1024, 0);
    assert_int_equal(stage->held[0]->flags, NODE_FOR_READ); // reservations have it be a read
    stage->holds = false;
    stage->completion = NODE_MEDIA;
    stage->fails_at = stage->served + 1;
    stage_release();
    assert_int_equal(stage->task.status, SCSI_CHECK_CONDITION);
    assert_int_equal(stage->task.fault, FAULT_WRITE);
}

static void only_a_stop_flushes(void **state)
{
    static const uint8_t rest[] = {1, 4, 5, 0x10, 0x80};
    for (unsigned i = 0; i < sizeof rest; i++) {
        expect_good(CDB(0x1b, 0, 0, 0, rest[i]), 0, 0, "");
    }
    expect_good(cdb_of(0x34, 0, 9), 0, 0, ""); // prefetch is advice
    expect_good(cdb_of(0x90, 0, 9), 0, 0, "");
}

/* ---- VERIFY, WRITE AND VERIFY ---------------------------------------------------------------- */

static const uint8_t *verify(uint8_t opcode, unsigned check, uint32_t lba, uint32_t blocks)
{
    static uint8_t cdb[SCSI_CDB_LEN];
    cdb_fill(cdb, opcode, lba, blocks);
    cdb[1] = (uint8_t)(check << 1);
    return cdb;
}

static void verify_compares_as_it_is_told(void **state)
{
    static const uint8_t opcodes[] = {0x2f, 0x8f, 0xaf};
    for (unsigned i = 0; i < sizeof opcodes; i++) {
        const uint8_t opcode = opcodes[i];
        expect_good(verify(opcode, 0, 5, 2), 0, 0, "read 5+2\n");
        expect_good(verify(opcode, 1, 5, 0), 0, 0, "");
        memcpy(stage->out, at_block(5), 1024);
        expect_good(verify(opcode, 1, 5, 2), 0, 1024, "read 5+2\n");
        assert_int_equal(stage->task.whole_len, 1024);
        expect_fault(verify(opcode, 1, 5, 2), 0, 1023, FAULT_LIST_LENGTH);
        stage->out[1023]++;
        expect_fault(verify(opcode, 1, 5, 2), 0, 1024, FAULT_MISCOMPARE);
        expect_fault(verify(opcode, 2, 5, 2), 0, 1024, FAULT_CDB_FIELD);
        memcpy(stage->volume + 6 * STAGE_BLOCK_LEN, at_block(5), 512);
        memcpy(stage->out, at_block(5), 512);
        expect_good(verify(opcode, 3, 5, 2), 0, 512, "read 5+2\n");
        stage->volume[6 * STAGE_BLOCK_LEN + 511]++;
        expect_fault(verify(opcode, 3, 5, 2), 0, 512, FAULT_MISCOMPARE);
    }
}

static void long_ranges_are_verified_piece_by_piece(void **state)
{
    expect_good(verify(0xaf, 0, 0, 2 * CHUNK), 0, 0, "read 0+2048\nread 2048+2048\n");
    expect_good(verify(0xaf, 0, 1, CHUNK + 1), 0, 0, "read 1+2048\nread 2049+1\n");
    memcpy(stage->out, stage->volume, CHUNK * STAGE_BLOCK_LEN);
    expect_good(verify(0xaf, 1, 0, CHUNK), 0, CHUNK * STAGE_BLOCK_LEN, "read 0+2048\n");
    expect_fault(verify(0xaf, 1, 0, CHUNK + 1), 0, STAGE_LEN, FAULT_CDB_FIELD);
    for (unsigned i = 0; i < STAGE_BLOCKS; i++) {
        memcpy(stage->volume + i * STAGE_BLOCK_LEN, stage->out, STAGE_BLOCK_LEN);
    }
    expect_good(verify(0xaf, 3, 0, 2 * CHUNK), 0, 512, "read 0+2048\nread 2048+2048\n");
    stage->volume[STAGE_LEN - 1]++;
    expect_fault(verify(0xaf, 3, 0, 2 * CHUNK), 0, 512, FAULT_MISCOMPARE);
}

static void write_and_verify_reads_again_what_it_made_stable(void **state)
{
    static const uint8_t opcodes[] = {0x2e, 0x8e, 0xae};
    for (unsigned i = 0; i < sizeof opcodes; i++) {
        stage_become(STAGE_ALL);
        stage->out[0] = (uint8_t)(i + 99);
        expect_good(verify(opcodes[i], 1, 5, 2), 0, 1024, "write 5+2\nflush 0+0\nread 5+2\n");
        expect_volume(5, 2, stage->out);
        expect_good(verify(opcodes[i], 0, 5, 2), 0, 1024, "write 5+2\nflush 0+0\nread 5+2\n");
        expect_good(verify(opcodes[i], 1, 5, 2), 0, 512, "write 5+1\nflush 0+0\nread 5+1\n");
        assert_int_equal(stage->task.whole_len, 1024); // of what was named
        expect_good(verify(opcodes[i], 1, 5, 0), 0, 0, "");
        expect_good(verify(opcodes[i], 1, 5, 1), 0, 0, "");
        expect_fault(verify(opcodes[i], 2, 5, 1), 0, 512, FAULT_CDB_FIELD);
        expect_fault(verify(opcodes[i], 3, 5, 1), 0, 512, FAULT_CDB_FIELD);
        stage_become(STAGE_ALL & ~VOLUME_CAN_FLUSH);
        expect_good(verify(opcodes[i], 1, 5, 1), 0, 512, "write 5+1\nread 5+1\n");
    }
    expect_good(verify(0xae, 1, 0, CHUNK), 0, STAGE_LEN, "write 0+2048\nread 0+2048\n");
    expect_fault(verify(0xae, 1, 0, CHUNK + 1), 0, STAGE_LEN, FAULT_CDB_FIELD);
}

/* ---- WRITE SAME ------------------------------------------------------------------------------ */

static void the_same_block_is_written_all_over(void **state)
{
    static const uint8_t opcodes[] = {0x41, 0x93};
    for (unsigned i = 0; i < sizeof opcodes; i++) {
        memset(stage->out, 0, STAGE_LEN);
        stage->out[511] = (uint8_t)(i + 1);
        expect_good(cdb_of(opcodes[i], 7, 3), 0, 512, "write 7+3\n");
        for (unsigned k = 7; k < 10; k++) {
            expect_volume(k, 1, stage->out);
        }
        assert_memory_not_equal(at_block(10), stage->out, 512);
        assert_memory_not_equal(at_block(6), stage->out, 512);
        stage->out[511] = 0;
        expect_good(cdb_of(opcodes[i], 7, 3), 0, 512, "write zeroes 7+3 allocated\n");
        uint8_t cdb[SCSI_CDB_LEN];
        cdb_fill(cdb, opcodes[i], 7, 3);
        cdb[1] = SCSI_SAME_UNMAP;
        expect_good(cdb, 0, 512, "write zeroes 7+3\n");
        cdb[1] = 1 << 4; // anchor
        expect_fault(cdb, 0, 512, FAULT_CDB_FIELD);
        expect_fault(cdb_of(opcodes[i], 7, 3), 0, 511, FAULT_CDB_FIELD);
        expect_fault(cdb_of(opcodes[i], 7, 3), 0, 513, FAULT_CDB_FIELD);
        expect_good(cdb_of(opcodes[i], 4090, 0), 0, 512, "write zeroes 4090+6 allocated\n");
        expect_fault(cdb_of(opcodes[i], STAGE_BLOCKS, 0), 0, 512, FAULT_LBA);
    }
    stage->out[0] = 1;
    expect_good(cdb_of(0x93, 0, 0), 0, 512, "write 0+2048\nwrite 2048+2048\n");
    expect_good(CDB(0x93, 1, [9] = 8, [13] = 2), 0, 0, "write zeroes 8+2 allocated\n");
    expect_fault(CDB(0x41, 1, [5] = 8, [8] = 2), 0, 0, FAULT_CDB_FIELD); // only with 16 octets
}

static void as_many_blocks_as_are_told_are_the_same(void **state)
{
    stage->row.profile.size = 2ULL * SCSI_WRITE_SAME_BLOCKS_MAX * STAGE_BLOCK_LEN;
    stage_become(STAGE_ALL);
    stage->holds = true;
    expect_fault(cdb_of(0x93, 0, SCSI_WRITE_SAME_BLOCKS_MAX + 1), 0, 512, FAULT_CDB_FIELD);
    memset(stage->out, 0, STAGE_BLOCK_LEN);
    expect_fault(cdb_of(0x93, 0, 0), 0, 512, FAULT_CDB_FIELD);
}

/* ---- UNMAP ----------------------------------------------------------------------------------- */

// The list of these ranges, in what the initiator has; its length.
static uint32_t unmap_list(const uint32_t (*ranges)[2], unsigned count)
{
    memset(stage->out, 0, 8 + 16 * (size_t)count);
    put_be16(stage->out, (uint16_t)(6 + 16 * count));
    put_be16(stage->out + 2, (uint16_t)(16 * count));
    for (unsigned i = 0; i < count; i++) {
        put_be64(stage->out + 8 + 16 * (size_t)i, ranges[i][0]);
        put_be32(stage->out + 16 + 16 * (size_t)i, ranges[i][1]);
    }
    return 8 + 16 * count;
}

static const uint8_t *unmap(uint32_t len)
{
    static uint8_t cdb[SCSI_CDB_LEN];
    memset(cdb, 0, sizeof cdb);
    cdb[0] = SCSI_UNMAP;
    put_be16(cdb + 7, (uint16_t)len);
    return cdb;
}

static void ranges_are_trimmed_one_after_the_other(void **state)
{
    static const uint32_t ranges[][2] = {{3, 2}, {9, 0}, {LAST, 1}};
    static const uint32_t beyond[][2] = {{3, 2}, {LAST, 2}};
    uint32_t len = unmap_list(ranges, 3);
    expect_good(unmap(len), 0, len, "trim 3+2\ntrim 4095+1\n");
    expect_fault(unmap(len), 0, len - 1, FAULT_LIST_LENGTH);
    len = unmap_list(ranges, 1);
    expect_good(unmap(len), 0, len, "trim 3+2\n");
    len = unmap_list(beyond, 2);
    expect_fault(unmap(len), 0, len, FAULT_LBA);
    assert_string_equal(stage->trace, ""); // none of them
    expect_good(unmap(0), 0, 0, "");
    expect_fault(unmap(7), 0, 7, FAULT_LIST_LENGTH);
    unmap_list(ranges, 0);
    expect_good(unmap(8), 0, 8, "");
    const uint8_t anchored[SCSI_CDB_LEN] = {SCSI_UNMAP, 1, [8] = 24};
    expect_fault(anchored, 0, 24, FAULT_CDB_FIELD);
}

static void a_part_of_a_range_is_ignored(void **state)
{
    static const uint32_t ranges[][2] = {{3, 2}, {LAST, 2}}; // the second leads beyond the end
    uint32_t len = unmap_list(ranges, 2);
    static const uint16_t said[] = {16, 17, 31};
    for (unsigned i = 0; i < sizeof said / sizeof said[0]; i++) {
        put_be16(stage->out + 2, said[i]); // fewer than the command brings
        expect_good(unmap(len), 0, len, "trim 3+2\n");
    }
    put_be16(stage->out + 2, 15);
    expect_good(unmap(len), 0, len, "");
    put_be16(stage->out + 2, 0);
    expect_good(unmap(len), 0, len, "");
    put_be16(stage->out + 2, 32);
    expect_good(unmap(len - 1), 0, len - 1, "trim 3+2\n"); // more than it brings
    expect_good(unmap(16), 0, 16, "");
    expect_fault(unmap(len), 0, len, FAULT_LBA);
}

static void a_list_has_a_longest_length(void **state)
{
    static uint32_t ranges[SCSI_UNMAP_DESCRIPTOR_MAX + 1][2];
    uint32_t len = unmap_list(ranges, SCSI_UNMAP_DESCRIPTOR_MAX);
    expect_good(unmap(len), 0, len, "");
    len = unmap_list(ranges, SCSI_UNMAP_DESCRIPTOR_MAX + 1);
    expect_fault(unmap(len), 0, len, FAULT_LIST_FIELD);
    assert_string_equal(stage->trace, ""); // none of them
    put_be16(stage->out + 2, 16);          // what the command brings beside them is not looked at
    expect_good(unmap(len), 0, len, "");
}

/* ---- COMPARE AND WRITE ----------------------------------------------------------------------- */

static const uint8_t *compare(uint64_t lba, uint8_t blocks)
{
    static uint8_t cdb[SCSI_CDB_LEN];
    memset(cdb, 0, sizeof cdb);
    cdb[0] = 0x89;
    put_be64(cdb + 2, lba);
    cdb[13] = blocks;
    return cdb;
}

static void what_is_as_expected_is_changed_and_nothing_else(void **state)
{
    memcpy(stage->out, at_block(LAST - 1), 1024);
    expect_good(compare(LAST - 1, 2), 0, 2048, "compare and write 4094+2\n");
    expect_volume(LAST - 1, 2, stage->out + 1024);
    stage->miscompare_at = 515;
    expect_fault(compare(LAST - 1, 2), 0, 2048, FAULT_MISCOMPARE);
    assert_true(stage->task.has_information);
    assert_int_equal(stage->task.information, 515);
    assert_string_equal(stage->trace, "compare and write 4094+2\n");
    expect_fault(compare(LAST, 2), 0, 2048, FAULT_LBA);
    expect_fault(compare(0, 2), 0, 2047, FAULT_CDB_FIELD);
    expect_fault(compare(0, 2), 0, 2049, FAULT_CDB_FIELD);
    expect_good(compare(0, 0), 0, 0, "");
    memcpy(stage->out, at_block(0), 512);
    const uint8_t stable[SCSI_CDB_LEN] = {0x89, 1 << 3, [13] = 1};
    expect_good(stable, 0, 1024, "compare and write 0+1 fua\n");
    stage_become(STAGE_ALL & ~VOLUME_CAN_FUA);
    memcpy(stage->out, at_block(0), 512);
    expect_good(stable, 0, 1024, "compare and write 0+1\nflush 0+0\n");
}

static void a_comparison_has_a_longest_length(void **state)
{
    stage->row.profile.block_size = 4096;
    stage_become(STAGE_ALL);
    expect_fault(compare(0, 129), 0, 2 * 129 * 4096, FAULT_CDB_FIELD);
    memcpy(stage->out, stage->volume, 128 * 4096);
    assert_int_equal(stage_run(compare(0, 128), 0, 2 * 128 * 4096), SCSI_GOOD);
}

/* ---- where it failed is told ----------------------------------------------------------------- */

static void expect_told(uint64_t information)
{
    assert_true(stage->task.has_information);
    assert_int_equal(stage->task.information, information);
}

static void the_first_block_that_is_none_is_told(void **state)
{
    expect_fault(cdb_of(0x28, LAST, 2), 1024, 0, FAULT_LBA);
    expect_told(STAGE_BLOCKS);
    expect_fault(cdb_of(0x8a, STAGE_BLOCKS + 5, 2), 0, 1024, FAULT_LBA);
    expect_told(STAGE_BLOCKS + 5);
    expect_fault(cdb_of(0x93, STAGE_BLOCKS, 0), 0, 512, FAULT_LBA); // all up to the end
    expect_told(STAGE_BLOCKS);
    expect_fault(compare(LAST, 2), 0, 2048, FAULT_LBA);
    expect_told(STAGE_BLOCKS);
}

static void a_block_that_the_medium_lost_is_told_where_it_is_known(void **state)
{
    stage->completion = NODE_MEDIA;
    stage->fails_at = stage->served + 1;
    expect_fault(cdb_of(0x28, 9, 1), 512, 0, FAULT_READ);
    expect_told(9);
    stage->fails_at = stage->served + 1;
    expect_fault(cdb_of(0x2a, 10, 1), 0, 512, FAULT_WRITE);
    expect_told(10);
    stage->fails_at = stage->served + 1;
    expect_fault(cdb_of(0x28, 9, 2), 1024, 0, FAULT_READ); // one of two
    assert_false(stage->task.has_information);
    stage->fails_at = stage->served + 1;
    expect_fault(cdb_of(0x35, 9, 1), 0, 0, FAULT_WRITE); // a flush is of all
    assert_false(stage->task.has_information);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void each_end_has_its_status(void **state)
{
    static const struct {
        enum node_completion completion;
        enum scsi_status_code status;
        enum scsi_fault of_read, of_write;
    } rows[] = {
        {NODE_RETRY, SCSI_BUSY, 0, 0},
        {NODE_RESERVED, SCSI_RESERVATION_CONFLICT, 0, 0},
        {NODE_MALFORMED, SCSI_CHECK_CONDITION, FAULT_CDB_FIELD, FAULT_CDB_FIELD},
        {NODE_RANGE, SCSI_CHECK_CONDITION, FAULT_LBA, FAULT_LBA},
        {NODE_UNSUPPORTED, SCSI_CHECK_CONDITION, FAULT_OPCODE, FAULT_OPCODE},
        {NODE_READ_ONLY, SCSI_CHECK_CONDITION, FAULT_WRITE_PROTECTED, FAULT_WRITE_PROTECTED},
        {NODE_NO_SPACE, SCSI_CHECK_CONDITION, FAULT_NO_SPACE, FAULT_NO_SPACE},
        {NODE_MEDIA, SCSI_CHECK_CONDITION, FAULT_READ, FAULT_WRITE},
        {NODE_TRANSFER, SCSI_CHECK_CONDITION, FAULT_TRANSFER, FAULT_TRANSFER},
        {NODE_TIMED_OUT, SCSI_CHECK_CONDITION, FAULT_TIMED_OUT, FAULT_TIMED_OUT},
        {NODE_NO_VOLUME, SCSI_CHECK_CONDITION, FAULT_NO_UNIT, FAULT_NO_UNIT},
        {NODE_INTERNAL, SCSI_CHECK_CONDITION, FAULT_INTERNAL, FAULT_INTERNAL},
        {NODE_MISCOMPARE, SCSI_CHECK_CONDITION, FAULT_MISCOMPARE, FAULT_MISCOMPARE},
        {NODE_STANDBY, SCSI_CHECK_CONDITION, FAULT_STANDBY, FAULT_STANDBY},
    };
    assert_int_equal(sizeof rows / sizeof rows[0], NODE_COMPLETION_COUNT - 1);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (unsigned is_write = 0; is_write < 2; is_write++) {
            struct scsi_device_counters before = scsi_target_counters(stage->target);
            stage->fails_at = stage->served + 1;
            stage->completion = rows[i].completion;
            assert_int_equal(stage_run(cdb_of(is_write ? 0x2a : 0x28, 0, 1), 512, 512),
                             rows[i].status);
            assert_int_equal(stage->task.fault, is_write ? rows[i].of_write : rows[i].of_read);
            struct scsi_device_counters after = scsi_target_counters(stage->target);
            assert_int_equal(after.commands - before.commands, 1);
            assert_int_equal(after.errors - before.errors, rows[i].status == SCSI_CHECK_CONDITION);
            assert_int_equal(after.refusals - before.refusals, rows[i].status == SCSI_BUSY);
        }
    }
}

static void a_step_that_fails_ends_the_command(void **state)
{
    stage->completion = NODE_MEDIA;
    stage->fails_at = stage->served + 2;
    expect_fault(verify(0xaf, 0, 0, 2 * CHUNK), 0, 0, FAULT_READ);
    stage->fails_at = stage->served + 2;
    expect_fault(verify(0x2e, 1, 0, 1), 0, 512, FAULT_WRITE); // of the flush
    stage->fails_at = stage->served + 3;
    expect_fault(verify(0x2e, 1, 0, 1), 0, 512, FAULT_READ);
    stage->fails_at = stage->served + 2;
    expect_fault(cdb_of(0x93, 0, 0), 0, 512, FAULT_WRITE);
    memcpy(stage->out, at_block(0), 512);
    stage->fails_at = stage->served + 1;
    expect_fault(compare(0, 1), 0, 1024, FAULT_WRITE);
    expect_good(compare(0, 1), 0, 1024, "compare and write 0+1\n");
}

static void blocks_become(uint32_t len)
{
    stage->row.profile.block_size = len;
    stage_advertise();
    stage->nexuses[0].attentions = 0;
}

// A device that was formatted anew has others: of the node's own memory nothing is read for them.
static void a_command_counts_in_the_blocks_that_there_were_when_it_began(void **state)
{
    enum { OTHER = 8 * STAGE_BLOCK_LEN };
    static const struct {
        uint8_t opcode, flags;
        uint32_t out_len;
        const char *trace;
    } rows[] = {{0x41, 0, 512, "write 3+2\n"},
                {0x93, 0, 512, "write 3+2\n"},
                {0x2e, 2, 1024, "write 3+2\nflush 0+0\nread 3+2\n"},
                {0x2f, 2, 1024, "read 3+2\n"}};
    memset(stage->out, 7, 1024);
    stage->holds_fetch = true;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t cdb[SCSI_CDB_LEN];
        cdb_fill(cdb, rows[i].opcode, 3, 2);
        cdb[1] = rows[i].flags;
        stage->trace[0] = '\0';
        blocks_become(STAGE_BLOCK_LEN);
        stage_begin(&stage->task, 0, cdb, 0, rows[i].out_len);
        assert_non_null(stage->fetching);
        blocks_become(OTHER);
        stage_fetch_now(stage->fetching);
        assert_int_equal(stage->task.status, SCSI_GOOD);
        assert_string_equal(stage->trace, rows[i].trace);
        expect_volume(3, 2, stage->out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(reads_give_what_is_there_up_to_the_last_block),
        STAGE_TEST(addresses_of_six_octets_have_21_bits),
        STAGE_TEST(no_more_is_read_than_the_initiator_takes),
        STAGE_TEST(writes_put_what_the_initiator_has_up_to_the_last_block),
        STAGE_TEST(of_a_part_of_a_block_nothing_is_written),
        STAGE_TEST(bits_are_added_to_those_of_the_blocks),
        STAGE_TEST(a_transfer_has_a_longest_length),
        STAGE_TEST(protection_information_is_refused),
        STAGE_TEST(every_range_is_held_to_the_volumes_end),
        STAGE_TEST(what_is_to_be_stable_is_so_by_what_the_volume_has),
        STAGE_TEST(what_is_read_with_fua_is_made_stable_before),
        STAGE_TEST(only_a_stop_flushes),
        STAGE_TEST(verify_compares_as_it_is_told),
        STAGE_TEST(long_ranges_are_verified_piece_by_piece),
        STAGE_TEST(write_and_verify_reads_again_what_it_made_stable),
        STAGE_TEST(the_same_block_is_written_all_over),
        STAGE_TEST(as_many_blocks_as_are_told_are_the_same),
        STAGE_TEST(ranges_are_trimmed_one_after_the_other),
        STAGE_TEST(a_part_of_a_range_is_ignored),
        STAGE_TEST(a_list_has_a_longest_length),
        STAGE_TEST(what_is_as_expected_is_changed_and_nothing_else),
        STAGE_TEST(a_comparison_has_a_longest_length),
        STAGE_TEST(the_first_block_that_is_none_is_told),
        STAGE_TEST(a_block_that_the_medium_lost_is_told_where_it_is_known),
        STAGE_TEST(each_end_has_its_status),
        STAGE_TEST(a_step_that_fails_ends_the_command),
        STAGE_TEST(a_command_counts_in_the_blocks_that_there_were_when_it_began),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
