// GET LBA STATUS: what initiators hear of the holes of a volume.
#include "node/scsi/agent.h"
#include "tests/node/scsi_stage.h"

enum { MAPPED = 0, DEALLOCATED = 1, HEADER_LEN = 8, DESCRIPTOR_LEN = 16, MAX_LEN = 4096 };

static const uint8_t *cdb_of(uint64_t lba, uint32_t max)
{
    static uint8_t cdb[SCSI_CDB_LEN];
    memset(cdb, 0, sizeof cdb);
    cdb[0] = 0x9e;
    cdb[1] = SCSI_LBA_STATUS;
    put_be64(cdb + 2, lba);
    put_be32(cdb + 10, max);
    return cdb;
}

static void volume_has(const struct node_extent *extents, unsigned count)
{
    stage->extents = extents;
    stage->extent_count = count;
    stage_become(STAGE_ALL | VOLUME_CAN_EXTENTS);
}

static void expect_descriptor(unsigned number, uint64_t lba, uint32_t blocks, uint8_t status)
{
    const uint8_t *at = stage->in + HEADER_LEN + number * DESCRIPTOR_LEN;
    assert_int_equal(get_be64(at), lba);
    assert_int_equal(get_be32(at + 8), blocks);
    assert_int_equal(at[12], status);
    assert_int_equal(at[13] | at[14] | at[15], 0);
}

static void expect_count(unsigned count)
{
    assert_int_equal(stage->in_len, HEADER_LEN + count * DESCRIPTOR_LEN);
    assert_int_equal(get_be32(stage->in), stage->in_len - 4);
}

static void holes_are_deallocated_and_data_mapped(void **state)
{
    static const struct node_extent extents[] = {
        {.len = 8 * 512},
        {.len = 16 * 512, .flags = NODE_EXTENT_HOLE | NODE_EXTENT_ZERO},
        {.len = (STAGE_BLOCKS - 10 - 24) * 512}};
    volume_has(extents, 3);
    expect_good(cdb_of(10, MAX_LEN), MAX_LEN, 0, "extents 10+4086\n");
    expect_count(3);
    expect_descriptor(0, 10, 8, MAPPED);
    expect_descriptor(1, 18, 16, DEALLOCATED);
    expect_descriptor(2, 34, STAGE_BLOCKS - 34, MAPPED);
}

// What reads as zeroes may have room all the same.
static void zeroes_that_are_allocated_are_mapped(void **state)
{
    static const struct node_extent zeroes = {.len = STAGE_LEN, .flags = NODE_EXTENT_ZERO};
    volume_has(&zeroes, 1);
    expect_good(cdb_of(0, MAX_LEN), MAX_LEN, 0, "extents 0+4096\n");
    expect_count(1);
    expect_descriptor(0, 0, STAGE_BLOCKS, MAPPED);
}

static void a_block_of_which_a_part_is_allocated_is_mapped(void **state)
{
    static const struct node_extent extents[] = {
        {.len = 700},
        {.len = 1000, .flags = NODE_EXTENT_HOLE},
        {.len = 100},
        {.len = STAGE_LEN - 1800, .flags = NODE_EXTENT_HOLE}};
    volume_has(extents, 4);
    expect_good(cdb_of(0, MAX_LEN), MAX_LEN, 0, "extents 0+4096\n");
    expect_count(4);
    expect_descriptor(0, 0, 2, MAPPED);
    expect_descriptor(1, 2, 1, DEALLOCATED);
    expect_descriptor(2, 3, 1, MAPPED);
    expect_descriptor(3, 4, STAGE_BLOCKS - 4, DEALLOCATED);
}

static void no_more_is_told_than_the_command_takes(void **state)
{
    static const struct node_extent extents[] = {{.len = 512},
                                                 {.len = 512, .flags = NODE_EXTENT_HOLE}};
    volume_has(extents, 2);
    assert_int_equal(stage_run(cdb_of(0, 24), MAX_LEN, 0), SCSI_GOOD);
    assert_int_equal(stage->in_len, 24);
    assert_int_equal(get_be32(stage->in), 4 + 2 * DESCRIPTOR_LEN); // there is more
    expect_descriptor(0, 0, 1, MAPPED);
}

static void an_extent_longer_than_a_descriptor_ends_the_answer(void **state)
{
    static const struct node_extent extents[] = {{.len = (1ULL << 33) * 512},
                                                 {.len = 512, .flags = NODE_EXTENT_HOLE}};
    volume_has(extents, 2);
    assert_int_equal(stage_run(cdb_of(0, MAX_LEN), MAX_LEN, 0), SCSI_GOOD);
    expect_count(1);
    expect_descriptor(0, 0, UINT32_MAX, MAPPED);
}

static void what_cannot_be_told_is_refused(void **state)
{
    static const struct node_extent all = {.len = 512};
    expect_fault(cdb_of(0, MAX_LEN), MAX_LEN, 0, FAULT_CDB_FIELD); // the volume knows no holes
    volume_has(&all, 1);
    expect_fault(cdb_of(STAGE_BLOCKS, MAX_LEN), MAX_LEN, 0, FAULT_LBA);
    expect_fault(cdb_of(UINT64_MAX, MAX_LEN), MAX_LEN, 0, FAULT_LBA);
    expect_fault(cdb_of(0, 23), MAX_LEN, 0, FAULT_CDB_FIELD);
    stage->fails_at = stage->served + 1;
    stage->completion = NODE_TIMED_OUT;
    expect_fault(cdb_of(0, MAX_LEN), MAX_LEN, 0, FAULT_TIMED_OUT);
    expect_good(cdb_of(STAGE_BLOCKS - 1, MAX_LEN), MAX_LEN, 0, "extents 4095+1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(holes_are_deallocated_and_data_mapped),
        STAGE_TEST(zeroes_that_are_allocated_are_mapped),
        STAGE_TEST(a_block_of_which_a_part_is_allocated_is_mapped),
        STAGE_TEST(no_more_is_told_than_the_command_takes),
        STAGE_TEST(an_extent_longer_than_a_descriptor_ends_the_answer),
        STAGE_TEST(what_cannot_be_told_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
