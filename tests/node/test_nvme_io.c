// I/O commands of NVMe: what of each reaches the CTA, and which is refused before, where.

#include "node/nvme/agent.h"
#include "tests/node/nvme_stage.h"

enum {
    ALL = VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH | VOLUME_CAN_TRIM | VOLUME_CAN_WRITE_ZEROES |
          VOLUME_CAN_FUA,
    AT_CTA = 0xffff, // no answer yet
    MOST = NVME_DATA_LEN_MAX / STAGE_BLOCK,
};

// A controller with one I/O queue, of a volume with these abilities and of so many blocks.
struct session {
    struct stage *stage;
    struct line *admin, *io;
};

static struct session session_on(struct stage *s)
{
    struct session session = {.stage = s};
    uint16_t cntlid;
    session.admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    session.io = line_open(s);
    assert_int_equal(line_connect(session.io, STAGE_HOST, 1, cntlid, 0).status, NVME_OK);
    return session;
}

static struct session session_of(uint32_t abilities)
{
    return session_on(stage_create(abilities));
}

// Of whatever is still at the CTA the host hears.
static void session_leave(struct session *session)
{
    while (session->stage->request_count > 0) {
        stage_complete(session->stage, stage_take(session->stage), NODE_OK);
    }
    line_end(session->io);
    line_end(session->admin);
    stage_destroy(session->stage);
}

struct io {
    uint8_t opcode;
    uint64_t block;
    uint32_t count; // of blocks
    uint16_t control;
    uint32_t more; // octets of data beside those of the blocks
    uint32_t nsid; // 0: 1
};

static struct answer ask(struct session *session, const struct io *io)
{
    uint8_t sqe[NVME_SQE_LEN];
    struct line *line = session->io;
    unsigned before = line->answer_count = 0;
    bool moves =
        io->opcode == NVME_IO_READ || io->opcode == NVME_IO_COMPARE || io->opcode == NVME_IO_WRITE;
    sqe_fill(line, sqe, io->opcode, moves ? io->count * STAGE_BLOCK + io->more : 0);
    if (moves) {
        sqe[NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_ID] = NVME_SGL_TRANSPORT;
    }
    if (io->nsid != 0) {
        put_le32(sqe + NVME_SQE_OFF_NSID, io->nsid);
    }
    put_le64(sqe + NVME_RW_OFF_SLBA, io->block);
    put_le16(sqe + NVME_RW_OFF_NLB, (uint16_t)(io->count - 1));
    put_le16(sqe + NVME_RW_OFF_CONTROL, io->control);
    line_send(line, sqe);
    return line->answer_count > before ? line_answer(line) : (struct answer){.status = AT_CTA};
}

static void each_command_reaches_the_cta_as_it_is(void **state)
{
    static const struct {
        struct io io;
        uint8_t operation;
        uint16_t flags;
        uint64_t block, count, data; // blocks
    } rows[] = {
        {{NVME_IO_READ, 3, 2}, NODE_READ, 0, 3, 2, 2},
        {{NVME_IO_WRITE, 3, 2}, NODE_WRITE, 0, 3, 2, 2},
        {{NVME_IO_WRITE, 3, 2, NVME_RW_FUA}, NODE_WRITE, NODE_FUA, 3, 2, 2},
        {{NVME_IO_COMPARE, 5, 1}, NODE_COMPARE, 0, 5, 1, 1},
        {{NVME_IO_VERIFY, 5, 4}, NODE_READ, 0, 5, 4, 4},
        {{NVME_IO_WRITE_ZEROES, 7, 9}, NODE_WRITE_ZEROES, NODE_NO_HOLE, 7, 9, 0},
        {{NVME_IO_WRITE_ZEROES, 7, 9, NVME_RW_DEALLOCATE}, NODE_WRITE_ZEROES, 0, 7, 9, 0},
        {{NVME_IO_WRITE_ZEROES, 0, 1, NVME_RW_DEALLOCATE | NVME_RW_FUA},
         NODE_WRITE_ZEROES,
         NODE_FUA,
         0,
         1,
         0},
        {{NVME_IO_FLUSH, 0, 1}, NODE_FLUSH, 0, 0, 0, 0},
        // The last block, and all of them.
        {{NVME_IO_READ, STAGE_BLOCKS - 1, 1}, NODE_READ, 0, STAGE_BLOCKS - 1, 1, 1},
        {{NVME_IO_READ, 0, MOST}, NODE_READ, 0, 0, MOST, MOST},
        {{NVME_IO_WRITE_ZEROES, 0, STAGE_BLOCKS},
         NODE_WRITE_ZEROES,
         NODE_NO_HOLE,
         0,
         STAGE_BLOCKS,
         0},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct session session = session_of(ALL);
        assert_int_equal(ask(&session, &rows[i].io).status, AT_CTA);
        const struct service_request *request = session.stage->requests[0];
        assert_int_equal(session.stage->request_count, 1);
        assert_int_equal(request->operation, rows[i].operation);
        assert_int_equal(request->flags, rows[i].flags);
        assert_int_equal(request->offset, rows[i].block * STAGE_BLOCK);
        assert_int_equal(request->len, rows[i].count * STAGE_BLOCK);
        assert_int_equal(request->data_len, rows[i].data * STAGE_BLOCK);
        session_leave(&session);
    }
}

static void what_cannot_be_is_refused_before_it_reaches_the_cta(void **state)
{
    static const struct {
        struct io io;
        uint32_t abilities;
        uint16_t status;
    } rows[] = {
        {{NVME_IO_READ, STAGE_BLOCKS, 1}, ALL, NVME_LBA_OUT_OF_RANGE},
        {{NVME_IO_READ, STAGE_BLOCKS - 1, 2}, ALL, NVME_LBA_OUT_OF_RANGE},
        {{NVME_IO_READ, UINT64_MAX, 1}, ALL, NVME_LBA_OUT_OF_RANGE},
        {{NVME_IO_WRITE, STAGE_BLOCKS, 1}, ALL, NVME_LBA_OUT_OF_RANGE},
        {{NVME_IO_COMPARE, STAGE_BLOCKS, 1}, ALL, NVME_LBA_OUT_OF_RANGE},
        {{NVME_IO_VERIFY, STAGE_BLOCKS, 1}, ALL, NVME_LBA_OUT_OF_RANGE},
        {{NVME_IO_WRITE_ZEROES, STAGE_BLOCKS, 1}, ALL, NVME_LBA_OUT_OF_RANGE},
        {{NVME_IO_READ, 0, 1, .more = 1}, ALL, NVME_INVALID_SGL_LENGTH},
        {{NVME_IO_WRITE, 0, 1, .more = STAGE_BLOCK}, ALL, NVME_INVALID_SGL_LENGTH},
        {{NVME_IO_WRITE, 0, 1}, VOLUME_CAN_FLUSH, NVME_NAMESPACE_READ_ONLY},
        {{NVME_IO_WRITE_ZEROES, 0, 1}, VOLUME_CAN_FLUSH, NVME_NAMESPACE_READ_ONLY},
        {{NVME_IO_DATASET_MANAGEMENT, 0, 1}, VOLUME_CAN_FLUSH, NVME_NAMESPACE_READ_ONLY},
        {{NVME_IO_COPY, 0, 1}, VOLUME_CAN_FLUSH, NVME_NAMESPACE_READ_ONLY},
        {{NVME_IO_WRITE_ZEROES, 0, 1}, VOLUME_CAN_WRITE, NVME_INVALID_OPCODE},
        {{NVME_IO_DATASET_MANAGEMENT, 0, 1}, VOLUME_CAN_WRITE, NVME_INVALID_OPCODE},
        {{NVME_IO_READ, 0, 1, .nsid = 2}, ALL, NVME_INVALID_NAMESPACE},
        {{NVME_IO_READ, 0, 1, .nsid = NVME_NSID_ALL}, ALL, NVME_INVALID_NAMESPACE},
        {{NVME_IO_COPY + 1, 0, 1}, ALL, NVME_INVALID_OPCODE},
        {{0x7d, 0, 1}, ALL, NVME_INVALID_OPCODE},
        {{0x03, 0, 1}, ALL, NVME_INVALID_OPCODE},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct session session = session_of(rows[i].abilities);
        struct answer answer = ask(&session, &rows[i].io);
        assert_int_equal(answer.status, rows[i].status);
        assert_true(answer.is_final);
        assert_int_equal(session.stage->request_count, 0);
        session_leave(&session);
    }
}

// More than the node takes at a time, of a volume that has as much.
static void a_command_moves_so_much_at_most(void **state)
{
    static const struct {
        uint8_t opcode;
        uint32_t count;
        uint16_t status;
    } rows[] = {
        {NVME_IO_READ, MOST, AT_CTA},   {NVME_IO_READ, MOST + 1, NVME_INVALID_FIELD},
        {NVME_IO_VERIFY, MOST, AT_CTA}, {NVME_IO_VERIFY, MOST + 1, NVME_INVALID_FIELD},
        {NVME_IO_WRITE, MOST, AT_CTA},  {NVME_IO_COMPARE, MOST + 1, NVME_INVALID_FIELD},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stage *s = stage_create(ALL);
        s->row.profile.size = UINT64_C(4096) * STAGE_BLOCK;
        struct session session = session_on(s);
        struct io io = {rows[i].opcode, 0, rows[i].count};
        assert_int_equal(ask(&session, &io).status, rows[i].status);
        session_leave(&session);
    }
}

// By a flush, which to reservations is a read.
static void what_is_read_with_fua_is_made_stable_before(void **state)
{
    static const struct {
        uint8_t opcode, operation;
    } rows[] = {
        {NVME_IO_READ, NODE_READ}, {NVME_IO_COMPARE, NODE_COMPARE}, {NVME_IO_VERIFY, NODE_READ}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct session session = session_of(ALL);
        struct stage *s = session.stage;
        const struct io io = {rows[i].opcode, 3, 2, NVME_RW_FUA};
        assert_int_equal(ask(&session, &io).status, AT_CTA);
        struct service_request *request = stage_take(s);
        assert_int_equal(request->operation, NODE_FLUSH);
        assert_int_equal(request->flags, NODE_FOR_READ);
        assert_int_equal(request->offset | request->len | request->data_len, 0);
        stage_complete(s, request, NODE_OK);
        request = stage_take(s);
        assert_int_equal(request->operation, rows[i].operation);
        assert_int_equal(request->flags, 0);
        assert_int_equal(request->offset, 3 * STAGE_BLOCK);
        assert_int_equal(request->len, 2 * STAGE_BLOCK);
        stage_complete(s, request, NODE_MISCOMPARE);
        assert_int_equal(line_answer(session.io).status, NVME_COMPARE_FAILURE);
        ask(&session, &io);
        stage_complete(s, stage_take(s), NODE_MEDIA); // the flush
        assert_int_equal(line_answer(session.io).status, NVME_WRITE_FAULT);
        assert_int_equal(s->request_count, 0);
        session_leave(&session);

        session = session_of(ALL & ~VOLUME_CAN_FLUSH); // there is nothing that is not
        assert_int_equal(ask(&session, &io).status, AT_CTA);
        assert_int_equal(session.stage->requests[0]->operation, rows[i].operation);
        session_leave(&session);
    }
}

/* ---- Flush ----------------------------------------------------------------------------------- */

static void a_volume_that_needs_no_flush_is_asked_for_none(void **state)
{
    struct session session = session_of(VOLUME_CAN_WRITE);
    assert_int_equal(ask(&session, &(struct io){NVME_IO_FLUSH, 0, 1}).status, NVME_OK);
    assert_int_equal(session.stage->request_count, 0);
    session_leave(&session);
}

// One after the other, and only those whose writes are not stable as they are.
static void all_namespaces_are_flushed_by_one_command(void **state)
{
    struct stage *s = stage_create(ALL);
    stage_group(s);
    s->rows[1].abilities = VOLUME_CAN_WRITE;
    stage_advertise(s);
    struct session session = session_on(s);
    struct io all = {NVME_IO_FLUSH, 0, 1, .nsid = NVME_NSID_ALL};
    uint32_t connections[2];
    assert_int_equal(ask(&session, &all).status, AT_CTA);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(s->request_count, 1);
        struct service_request *request = stage_take(s);
        assert_int_equal(request->operation, NODE_FLUSH);
        assert_int_equal(request->offset, 0);
        assert_int_equal(request->len, 0);
        connections[i] = request->connection;
        assert_int_equal(session.io->answer_count, 0);
        stage_complete(s, request, NODE_OK);
    }
    assert_int_not_equal(connections[0], connections[1]);
    assert_int_equal(line_answer(session.io).status, NVME_OK);
    session_leave(&session);
}

static void a_flush_of_all_ends_with_the_first_that_fails(void **state)
{
    struct stage *s = stage_create(ALL);
    stage_group(s);
    stage_advertise(s);
    struct session session = session_on(s);
    struct io all = {NVME_IO_FLUSH, 0, 1, .nsid = NVME_NSID_ALL};
    assert_int_equal(ask(&session, &all).status, AT_CTA);
    stage_complete(s, stage_take(s), NODE_MEDIA);
    assert_int_equal(line_answer(session.io).status, NVME_WRITE_FAULT);
    assert_int_equal(s->request_count, 0);
    session_leave(&session);
}

/* ---- Dataset Management ---------------------------------------------------------------------- */

static struct answer trim(struct session *session, const uint64_t (*ranges)[2], unsigned count)
{
    uint8_t sqe[NVME_SQE_LEN];
    struct line *line = session->io;
    line->answer_count = 0;
    memset(line->data, 0, NVME_DSM_RANGE_MAX * NVME_DSM_RANGE_LEN);
    for (unsigned i = 0; i < count; i++) {
        uint8_t *range = line->data + i * NVME_DSM_RANGE_LEN;
        put_le64(range + NVME_DSM_RANGE_OFF_SLBA, ranges[i][0]);
        put_le32(range + NVME_DSM_RANGE_OFF_NLB, (uint32_t)ranges[i][1]);
    }
    sqe_fill(line, sqe, NVME_IO_DATASET_MANAGEMENT, count * NVME_DSM_RANGE_LEN);
    put_le32(sqe + NVME_SQE_OFF_CDW10, (count - 1) | 0xff00); // of it an octet counts
    put_le32(sqe + NVME_SQE_OFF_CDW11, NVME_DSM_DEALLOCATE);
    line_send(line, sqe);
    return line->answer_count > 0 ? line_answer(line) : (struct answer){.status = AT_CTA};
}

static void ranges_to_the_end_of_the_volume_are_trimmed_and_empty_ones_passed_over(void **state)
{
    static const uint64_t ranges[][2] = {{9, 0}, {STAGE_BLOCKS, 0}, {4, 2}, {0, STAGE_BLOCKS}};
    struct session session = session_of(ALL);
    struct stage *s = session.stage;
    assert_int_equal(trim(&session, ranges, 4).status, AT_CTA);
    for (unsigned i = 2; i < 4; i++) {
        struct service_request *request = stage_take(s);
        assert_int_equal(request->operation, NODE_TRIM);
        assert_int_equal(request->flags, 0);
        assert_int_equal(request->offset, ranges[i][0] * STAGE_BLOCK);
        assert_int_equal(request->len, ranges[i][1] * STAGE_BLOCK);
        assert_int_equal(session.io->answer_count, 0);
        stage_complete(s, request, NODE_OK);
    }
    assert_int_equal(line_answer(session.io).status, NVME_OK);
    assert_int_equal(s->request_count, 0);
    session_leave(&session);
}

static void a_range_beyond_the_volume_ends_the_command(void **state)
{
    static const uint64_t beyond[][2] = {{STAGE_BLOCKS + 1, 0}, {STAGE_BLOCKS - 1, 2}, {1, 4096}};
    for (unsigned i = 0; i < 3; i++) {
        uint64_t ranges[][2] = {{2, 1}, {beyond[i][0], beyond[i][1]}};
        struct session session = session_of(ALL);
        assert_int_equal(trim(&session, ranges, 2).status, AT_CTA);
        stage_complete(session.stage, stage_take(session.stage), NODE_OK);
        assert_int_equal(line_answer(session.io).status, NVME_LBA_OUT_OF_RANGE);
        assert_true(line_answer(session.io).is_final);
        session_leave(&session);
    }
}

static void ranges_are_of_the_blocks_that_there_were(void **state)
{
    static const uint64_t ranges[][2] = {{8, 8}, {16, 1}};
    struct session session = session_of(ALL);
    struct stage *s = session.stage;
    assert_int_equal(trim(&session, ranges, 2).status, AT_CTA);
    s->rows[0].profile.block_size = 8 * STAGE_BLOCK;
    stage_advertise(s);
    stage_complete(s, stage_take(s), NODE_OK);
    const struct service_request *request = stage_take(s);
    assert_int_equal(request->offset, 16 * STAGE_BLOCK);
    assert_int_equal(request->len, STAGE_BLOCK);
    stage_complete(s, (struct service_request *)request, NODE_OK);
    assert_int_equal(line_answer(session.io).status, NVME_OK);
    session_leave(&session);
}

static void as_many_ranges_as_there_can_be_are_taken(void **state)
{
    static uint64_t ranges[NVME_DSM_RANGE_MAX][2];
    struct session session = session_of(ALL);
    for (unsigned i = 0; i < NVME_DSM_RANGE_MAX; i++) {
        ranges[i][0] = i;
        ranges[i][1] = 1;
    }
    assert_int_equal(trim(&session, ranges, NVME_DSM_RANGE_MAX).status, AT_CTA);
    for (unsigned i = 0; i < NVME_DSM_RANGE_MAX; i++) {
        assert_int_equal(session.stage->requests[0]->offset, i * STAGE_BLOCK);
        stage_complete(session.stage, stage_take(session.stage), NODE_OK);
    }
    assert_int_equal(line_answer(session.io).status, NVME_OK);
    session_leave(&session);
}

/* ---- a queue --------------------------------------------------------------------------------- */

static void send_read(struct session *session, uint8_t flags, uint8_t sgl, uint32_t blocks)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(session->io, sqe, NVME_IO_READ, blocks * STAGE_BLOCK);
    sqe[NVME_SQE_OFF_FLAGS] = flags;
    sqe[NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_ID] = sgl;
    put_le16(sqe + NVME_RW_OFF_NLB, (uint16_t)(blocks - 1));
    line_send(session->io, sqe);
}

static void a_queue_takes_as_many_commands_as_it_is_deep(void **state)
{
    struct session session = session_of(ALL);
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(session.io, sqe, NVME_IO_WRITE_ZEROES, 0);
    for (unsigned i = 0; i < STAGE_DEPTH; i++) {
        assert_true(nvme_queue_on_capsule(session.io->queue, sqe, 0, NULL, 0));
    }
    assert_false(nvme_queue_on_capsule(session.io->queue, sqe, 0, NULL, 0));
    stage_complete(session.stage, stage_take(session.stage), NODE_OK);
    assert_true(nvme_queue_on_capsule(session.io->queue, sqe, 0, NULL, 0));
    session_leave(&session);
}

static void data_are_named_by_lists_alone_and_come_back_by_no_capsule(void **state)
{
    struct session session = session_of(ALL);
    send_read(&session, 0, NVME_SGL_TRANSPORT, 1); // by pages
    assert_int_equal(line_answer(session.io).status, NVME_INVALID_FIELD);
    assert_true(line_answer(session.io).is_final);
    send_read(&session, NVME_SQE_PSDT_SGL, NVME_SGL_IN_CAPSULE, 1);
    assert_int_equal(line_answer(session.io).status, NVME_INVALID_SGL_TYPE);
    assert_int_equal(session.stage->request_count, 0);
    session_leave(&session);
}

static void a_response_names_its_queue_and_wakes_the_transport(void **state)
{
    struct session session = session_of(ALL);
    assert_int_equal(line_answer(session.admin).sqid, 0);
    unsigned before = session.io->woken;
    send_read(&session, 0, NVME_SGL_TRANSPORT, 1);
    assert_int_equal(line_answer(session.io).sqid, 1);
    assert_int_equal(session.io->woken, before + 1);
    nvme_queue_close(session.io->queue, 0);
    assert_int_equal(session.io->woken, before + 2);
    session_leave(&session);
}

static void as_much_is_delivered_as_the_buffer_has(void **state)
{
    struct session session = session_of(ALL);
    struct stage *s = session.stage;
    uint8_t buffer[STAGE_BLOCK] = {7};
    struct nvme_counters before = nvme_target_counters(s->target);
    send_read(&session, NVME_SQE_PSDT_SGL, NVME_SGL_TRANSPORT, 2);
    struct service_request *request = stage_take(s);
    request->data = buffer;
    request->buffer.len = STAGE_BLOCK;
    s->service->transfer(s->target, request, s->now);
    assert_int_equal(session.io->delivered, STAGE_BLOCK);
    assert_int_equal(session.io->came[0], 7);
    struct nvme_counters since = nvme_target_counters(s->target);
    assert_int_equal(since.commands, before.commands + 1);
    assert_int_equal(since.errors, before.errors);
    assert_int_equal(since.transfers_bad, before.transfers_bad);
    session_leave(&session);
}

// The place of the command that failed is the next one's.
static void a_flush_that_was_owed_is_not_owed_by_the_next(void **state)
{
    struct session session = session_of(ALL & ~VOLUME_CAN_FUA);
    struct stage *s = session.stage;
    ask(&session, &(struct io){NVME_IO_WRITE_ZEROES, 0, 1, NVME_RW_FUA});
    stage_complete(s, stage_take(s), NODE_MEDIA);
    assert_int_equal(line_answer(session.io).status, NVME_WRITE_FAULT);
    ask(&session, &(struct io){NVME_IO_FLUSH, 0, 1});
    stage_complete(s, stage_take(s), NODE_OK);
    assert_int_equal(s->request_count, 0);
    assert_int_equal(line_answer(session.io).status, NVME_OK);
    session_leave(&session);
}

static void a_controller_that_is_not_ready_takes_no_command(void **state)
{
    struct session session = session_of(ALL);
    session.io->queue->controller->csts = 0;
    struct answer answer = ask(&session, &(struct io){NVME_IO_FLUSH, 0, 1});
    assert_int_equal(answer.status, NVME_COMMAND_SEQUENCE_ERROR);
    assert_true(answer.is_final);
    session_leave(&session);
}

// One of a pair that waits for the other, and pages that wait for those before them.
static void what_waits_ends_with_its_queue(void **state)
{
    struct session session = session_of(ALL);
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(session.io, sqe, NVME_IO_COMPARE, STAGE_BLOCK);
    sqe[NVME_SQE_OFF_FLAGS] = NVME_SQE_PSDT_SGL | NVME_SQE_FUSE_FIRST;
    line_send(session.io, sqe);
    nvme_queue_close(session.io->queue, 0);
    assert_true(nvme_queue_is_over(session.io->queue));
    session.admin->holds = true;
    for (unsigned i = 0; i < 3; i++) {
        sqe_fill(session.admin, sqe, NVME_ADMIN_IDENTIFY, 4096);
        sqe[NVME_SQE_OFF_CDW10] = 1;
        line_send(session.admin, sqe);
    }
    nvme_queue_close(session.admin->queue, 0);
    assert_false(nvme_queue_is_over(session.admin->queue));
    nvme_command_done(session.admin->held, NVME_OK, 0);
    session.admin->held = NULL;
    assert_true(nvme_queue_is_over(session.admin->queue));
    session_leave(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_command_reaches_the_cta_as_it_is),
        cmocka_unit_test(what_cannot_be_is_refused_before_it_reaches_the_cta),
        cmocka_unit_test(a_command_moves_so_much_at_most),
        cmocka_unit_test(what_is_read_with_fua_is_made_stable_before),
        cmocka_unit_test(a_volume_that_needs_no_flush_is_asked_for_none),
        cmocka_unit_test(all_namespaces_are_flushed_by_one_command),
        cmocka_unit_test(a_flush_of_all_ends_with_the_first_that_fails),
        cmocka_unit_test(ranges_to_the_end_of_the_volume_are_trimmed_and_empty_ones_passed_over),
        cmocka_unit_test(a_range_beyond_the_volume_ends_the_command),
        cmocka_unit_test(ranges_are_of_the_blocks_that_there_were),
        cmocka_unit_test(as_many_ranges_as_there_can_be_are_taken),
        cmocka_unit_test(a_queue_takes_as_many_commands_as_it_is_deep),
        cmocka_unit_test(data_are_named_by_lists_alone_and_come_back_by_no_capsule),
        cmocka_unit_test(a_response_names_its_queue_and_wakes_the_transport),
        cmocka_unit_test(as_much_is_delivered_as_the_buffer_has),
        cmocka_unit_test(a_flush_that_was_owed_is_not_owed_by_the_next),
        cmocka_unit_test(a_controller_that_is_not_ready_takes_no_command),
        cmocka_unit_test(what_waits_ends_with_its_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
