// Copy: what the CTA is asked, piece by piece, and what is refused (NVM Command Set specification).

#include "tests/node/nvme_stage.h"

enum {
    ALL = VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH,
    PIECE = 128, // blocks that are copied at a time
    FUA = NVME_RW_FUA,
};

static struct stage *s;
static struct line *admin, *io;
static uint8_t buffer[PIECE * STAGE_BLOCK];

static int begin_with(uint32_t abilities)
{
    uint16_t cntlid;
    s = stage_create(abilities);
    admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    io = line_open(s);
    assert_int_equal(line_connect(io, STAGE_HOST, 1, cntlid, 0).status, NVME_OK);
    return 0;
}

static int begin(void **state)
{
    return begin_with(ALL);
}

static int begin_read_only(void **state)
{
    return begin_with(0);
}

static int end(void **state)
{
    line_end(io);
    line_end(admin);
    stage_destroy(s);
    return 0;
}

static void range_put(unsigned index, uint64_t block, uint32_t count)
{
    uint8_t *at = io->data + index * NVME_COPY_RANGE_LEN;
    memset(at, 0, NVME_COPY_RANGE_LEN);
    put_le64(at + NVME_COPY_RANGE_OFF_SLBA, block);
    put_le16(at + NVME_COPY_RANGE_OFF_NLB, (uint16_t)(count - 1));
}

// So many ranges to this block.
static void copy_send(unsigned ranges, uint64_t to, uint16_t control)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(io, sqe, NVME_IO_COPY, ranges * NVME_COPY_RANGE_LEN);
    put_le64(sqe + NVME_COPY_OFF_SDLBA, to);
    sqe[NVME_COPY_OFF_NR] = (uint8_t)(ranges - 1);
    put_le16(sqe + NVME_RW_OFF_CONTROL, control);
    line_send(io, sqe);
}

static struct service_request *expect_asked(enum node_operation operation, uint64_t block,
                                            uint32_t count)
{
    struct service_request *request = stage_take(s);
    assert_int_equal(request->operation, operation);
    assert_int_equal(request->offset, block * STAGE_BLOCK);
    assert_int_equal(request->len, count * STAGE_BLOCK);
    assert_int_equal(request->data_len, count * STAGE_BLOCK);
    request->data = buffer;
    request->buffer.len = request->data_len;
    return request;
}

// One piece is read, full of `octet`.
static void expect_read(uint64_t block, uint32_t count, uint8_t octet)
{
    struct service_request *request = expect_asked(NODE_READ, block, count);
    memset(buffer, octet, sizeof buffer);
    s->outcome = NODE_INTERNAL;
    s->service->transfer(s->target, request, s->now);
    assert_int_equal(s->outcome, NODE_OK);
}

// ... and written, as it was read.
static void expect_written(uint64_t block, uint32_t count, uint8_t octet)
{
    struct service_request *request = expect_asked(NODE_WRITE, block, count);
    memset(buffer, 0, sizeof buffer);
    s->service->transfer(s->target, request, s->now);
    assert_int_equal(buffer[0], octet);
    assert_int_equal(buffer[count * STAGE_BLOCK - 1], octet);
    stage_complete(s, request, NODE_OK);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static void ranges_are_copied_piece_by_piece_in_order(void **state)
{
    range_put(0, 0, PIECE + 72);
    range_put(1, 500, 1);
    unsigned answers = io->answer_count;
    copy_send(2, 1000, 0);
    expect_read(0, PIECE, 0xa1);
    expect_written(1000, PIECE, 0xa1);
    expect_read(PIECE, 72, 0xa2);
    expect_written(1000 + PIECE, 72, 0xa2);
    expect_read(500, 1, 0xa3);
    assert_int_equal(io->answer_count, answers);
    expect_written(1200, 1, 0xa3);
    assert_int_equal(io->answer_count, answers + 1);
    assert_int_equal(line_answer(io).status, NVME_OK);
    assert_int_equal(line_answer(io).result, 0);
    assert_int_equal(s->request_count, 0);
}

// Where the volume has no FUA of its own, one flush behind all pieces.
static void copy_that_shall_be_stable_is_flushed_once(void **state)
{
    unsigned answers = io->answer_count;
    range_put(0, 0, 1);
    range_put(1, 8, 1);
    copy_send(2, 100, FUA);
    expect_read(0, 1, 1);
    expect_written(100, 1, 1);
    expect_read(8, 1, 2);
    expect_written(101, 1, 2);
    struct service_request *request = stage_take(s);
    assert_int_equal(request->operation, NODE_FLUSH);
    assert_int_equal(io->answer_count, answers);
    stage_complete(s, request, NODE_OK);
    assert_int_equal(line_answer(io).status, NVME_OK);
    assert_int_equal(s->request_count, 0);
}

// The result says how many ranges have been copied before it.
static void range_that_fails_is_named(void **state)
{
    range_put(0, 0, 1);
    range_put(1, 8, 1);
    copy_send(2, 100, 0);
    expect_read(0, 1, 1);
    expect_written(100, 1, 1);
    stage_complete(s, stage_take(s), NODE_MEDIA);
    assert_int_equal(line_answer(io).status, NVME_UNRECOVERED_READ);
    assert_int_equal(line_answer(io).result, 1);
    copy_send(2, 100, 0);
    expect_read(0, 1, 1);
    stage_complete(s, stage_take(s), NODE_NO_SPACE);
    assert_int_equal(line_answer(io).status, NVME_CAPACITY_EXCEEDED);
    assert_int_equal(line_answer(io).result, 0);
    assert_int_equal(s->request_count, 0);
}

/* ---- what is aborted ------------------------------------------------------------------------- */

// Did it abort the command with this identifier?
static bool aborts(uint16_t sqid, uint16_t cid)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(admin, sqe, NVME_ADMIN_ABORT, 0);
    put_le16(sqe + NVME_ABORT_OFF_SQID, sqid);
    put_le16(sqe + NVME_ABORT_OFF_CID, cid);
    line_send(admin, sqe);
    assert_int_equal(line_answer(admin).status, NVME_OK);
    return line_answer(admin).result == 0;
}

// A queue has one scratch for lists of ranges.
static void what_waits_to_begin_is_aborted(void **state)
{
    range_put(0, 0, 1);
    copy_send(1, 100, 0);
    uint16_t first = io->cid;
    copy_send(1, 200, 0);
    uint16_t second = io->cid;
    copy_send(1, 300, 0);
    unsigned answers = io->answer_count;
    assert_false(aborts(1, first)); // it has begun
    assert_false(aborts(2, second));
    assert_false(aborts(0, second));
    assert_false(aborts(UINT16_MAX, second));
    assert_false(aborts(1, second + 100));
    assert_int_equal(io->answer_count, answers);
    assert_true(aborts(1, second));
    assert_int_equal(io->answer_count, answers + 1);
    assert_int_equal(line_answer(io).cid, second);
    assert_int_equal(line_answer(io).status, NVME_ABORT_REQUESTED);
    assert_false(aborts(1, second)); // it is no more
    expect_read(0, 1, 1);
    expect_written(100, 1, 1);
    assert_int_equal(line_answer(io).status, NVME_OK);
    expect_read(0, 1, 3);
    expect_written(300, 1, 3);
    assert_int_equal(s->request_count, 0);
}

/* ---- what goes meanwhile --------------------------------------------------------------------- */

static void copy_on_a_lost_connection_writes_no_more(void **state)
{
    range_put(0, 0, 1);
    copy_send(1, 100, 0);
    unsigned answers = io->answer_count;
    nvme_queue_close(io->queue, s->now);
    expect_read(0, 1, 1);
    assert_int_equal(s->request_count, 0);
    assert_int_equal(io->answer_count, answers);
}

static void piece_on_its_way_is_not_written_after_the_end(void **state)
{
    range_put(0, 0, 1);
    copy_send(1, 100, 0);
    expect_read(0, 1, 1);
    nvme_queue_close(io->queue, s->now);
    struct service_request *request = expect_asked(NODE_WRITE, 100, 1);
    s->service->transfer(s->target, request, s->now);
    assert_int_equal(s->outcome, NODE_TRANSFER);
    stage_complete(s, request, NODE_TRANSFER);
    assert_int_equal(s->request_count, 0);
}

// It is gone between two pieces.
static void copy_of_a_volume_that_goes_ends_with_it(void **state)
{
    range_put(0, 0, PIECE + 1);
    copy_send(1, 100, 0);
    expect_read(0, PIECE, 1);
    s->table.count = 0;
    stage_advertise(s);
    expect_written(100, PIECE, 1);
    stage_complete(s, stage_take(s), NODE_NO_VOLUME);
    assert_int_equal(line_answer(io).status, NVME_INVALID_NAMESPACE);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void expect_refused(uint16_t status)
{
    assert_int_equal(line_answer(io).status, status);
    assert_true(line_answer(io).is_final);
    assert_int_equal(s->request_count, 0);
}

static void ranges_that_do_not_fit_are_refused_before_one_is_copied(void **state)
{
    static const struct {
        uint64_t first, second, to;
        uint32_t count; // of each
        uint16_t status;
    } table[] = {
        {0, STAGE_BLOCKS, 100, 1, NVME_LBA_OUT_OF_RANGE},
        {0, STAGE_BLOCKS - 1, 100, 2, NVME_LBA_OUT_OF_RANGE},
        {0, UINT64_MAX, 100, 2, NVME_LBA_OUT_OF_RANGE},
        {0, 8, STAGE_BLOCKS - 1, 1, NVME_LBA_OUT_OF_RANGE},
        {0, 8, UINT64_MAX, 1, NVME_LBA_OUT_OF_RANGE},
        {0, 8, 100, 16385, NVME_LBA_OUT_OF_RANGE},
        {0, 8, 100, 32769, NVME_COMMAND_SIZE_LIMIT_EXCEEDED}, // 16 MiB
        {0, 8, 100, 65536, NVME_COMMAND_SIZE_LIMIT_EXCEEDED},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        range_put(0, table[i].first, table[i].count);
        range_put(1, table[i].second, table[i].count);
        copy_send(2, table[i].to, 0);
        expect_refused(table[i].status);
    }
    for (unsigned i = 0; i < 256; i++) {
        range_put(i, 0, 1);
    }
    copy_send(129, 100, 0);
    expect_refused(NVME_COMMAND_SIZE_LIMIT_EXCEEDED);
    copy_send(256, 100, 0);
    expect_refused(NVME_COMMAND_SIZE_LIMIT_EXCEEDED);
}

static void ranges_of_another_format_are_refused(void **state)
{
    uint8_t sqe[NVME_SQE_LEN];
    for (uint8_t format = 1; format < 16; format++) {
        io->answer_count = 0;
        sqe_fill(io, sqe, NVME_IO_COPY, NVME_COPY_RANGE_LEN);
        sqe[NVME_COPY_OFF_DESFMT] = format;
        line_send(io, sqe);
        expect_refused(NVME_INVALID_FIELD);
    }
}

static void volume_that_only_reads_is_not_copied_to(void **state)
{
    range_put(0, 0, 1);
    copy_send(1, 100, 0);
    expect_refused(NVME_NAMESPACE_READ_ONLY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ranges_are_copied_piece_by_piece_in_order),
        TEST(copy_that_shall_be_stable_is_flushed_once),
        TEST(range_that_fails_is_named),
        TEST(what_waits_to_begin_is_aborted),
        TEST(copy_on_a_lost_connection_writes_no_more),
        TEST(piece_on_its_way_is_not_written_after_the_end),
        TEST(copy_of_a_volume_that_goes_ends_with_it),
        TEST(ranges_that_do_not_fit_are_refused_before_one_is_copied),
        TEST(ranges_of_another_format_are_refused),
        cmocka_unit_test_setup_teardown(volume_that_only_reads_is_not_copied_to, begin_read_only,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
