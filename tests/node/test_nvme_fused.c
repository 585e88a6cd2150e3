// A Compare and the Write that it is fused with: what makes no pair, who of the two is to blame for
// what, and what each of them is told.
#include "tests/node/nvme_stage.h"

enum {
    ALL = VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH | VOLUME_CAN_TRIM | VOLUME_CAN_WRITE_ZEROES,
    NONE = 0xffff, // no answer yet
    FIRST = NVME_SQE_FUSE_FIRST,
    SECOND = NVME_SQE_FUSE_SECOND,
    SGL = NVME_SQE_PSDT_SGL,
};

// A session of one I/O queue.
struct session {
    struct stage *stage;
    struct line *admin, *io;
};

static struct session begin(uint32_t abilities)
{
    uint16_t cntlid;
    struct session session = {.stage = stage_create(abilities)};
    session.admin = admin_open(session.stage, STAGE_HOST, 0, &cntlid);
    session.io = line_open(session.stage);
    assert_int_equal(line_connect(session.io, STAGE_HOST, 1, cntlid, 0).status, NVME_OK);
    return session;
}

static void end(struct session *session)
{
    line_end(session->io);
    line_end(session->admin);
    stage_destroy(session->stage);
}

struct half {
    uint8_t opcode, flags;
    uint32_t block;
    uint16_t count;
    uint32_t nsid, data_len;
};

#define COMPARE                                                \
    {                                                          \
        NVME_IO_COMPARE, FIRST | SGL, 8, 2, 1, 2 * STAGE_BLOCK \
    }
#define WRITE                                                 \
    {                                                         \
        NVME_IO_WRITE, SECOND | SGL, 8, 2, 1, 2 * STAGE_BLOCK \
    }

static const struct half compare = COMPARE, write_behind = WRITE;

// Gives its number.
static uint16_t send(struct line *line, const struct half *half)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(line, sqe, half->opcode, half->data_len);
    sqe[NVME_SQE_OFF_FLAGS] = half->flags;
    put_le32(sqe + NVME_SQE_OFF_NSID, half->nsid);
    put_le64(sqe + NVME_RW_OFF_SLBA, half->block);
    put_le16(sqe + NVME_RW_OFF_NLB, (uint16_t)(half->count - 1));
    line_send(line, sqe);
    return line->cid;
}

static uint16_t status_of(const struct line *line, uint16_t cid)
{
    uint16_t status = NONE;
    for (unsigned i = 0; i < line->answer_count; i++) {
        if (line->answers[i].cid == cid) {
            assert_int_equal(status, NONE); // one answer each
            status = line->answers[i].status;
        }
    }
    return status;
}

// Both are at the CTA, as one.
static struct service_request *pair_send(struct session *session, uint16_t ret_cids[2])
{
    ret_cids[0] = send(session->io, &compare);
    assert_int_equal(session->stage->request_count, 0); // it waits for the other
    ret_cids[1] = send(session->io, &write_behind);
    return stage_take(session->stage);
}

static void what_makes_no_pair_is_refused_and_the_other_with_it(void **state)
{
    enum { FAILED = NVME_FAILED_FUSED, FIELD = NVME_INVALID_FIELD };
    static const struct {
        struct half first, second;
        uint16_t statuses[2];
    } table[] = {
        {{NVME_IO_READ, FIRST | SGL, 8, 2, 1, 1024}, WRITE, {FIELD, FAILED}},
        {{NVME_IO_WRITE, FIRST | SGL, 8, 2, 1, 1024}, WRITE, {FIELD, FAILED}},
        {{NVME_IO_COMPARE, FIRST, 8, 2, 1, 1024}, WRITE, {FIELD, FAILED}},
        {COMPARE, {NVME_IO_COMPARE, SECOND | SGL, 8, 2, 1, 1024}, {FAILED, FIELD}},
        {COMPARE, {NVME_IO_WRITE, SECOND, 8, 2, 1, 1024}, {FAILED, FIELD}},
        {COMPARE, {NVME_IO_WRITE, SECOND | SGL, 9, 2, 1, 1024}, {FAILED, FIELD}},
        {COMPARE, {NVME_IO_WRITE, SECOND | SGL, 8, 1, 1, 512}, {FAILED, FIELD}},
        {COMPARE, {NVME_IO_WRITE, SECOND | SGL, 8, 2, 2, 1024}, {FAILED, FIELD}},
        {{NVME_IO_COMPARE, FIRST | SGL, STAGE_BLOCKS - 1, 2, 1, 1024},
         {NVME_IO_WRITE, SECOND | SGL, STAGE_BLOCKS - 1, 2, 1, 1024},
         {NVME_LBA_OUT_OF_RANGE, FAILED}},
        {{NVME_IO_COMPARE, FIRST | SGL, 8, 2, 1, 1023}, WRITE, {NVME_INVALID_SGL_LENGTH, FAILED}},
        {COMPARE, {NVME_IO_WRITE, SECOND | SGL, 8, 2, 1, 1023}, {FAILED, NVME_INVALID_SGL_LENGTH}},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct session session = begin(ALL);
        uint16_t first = send(session.io, &table[i].first);
        assert_int_equal(status_of(session.io, first), NONE);
        uint16_t second = send(session.io, &table[i].second);
        assert_int_equal(status_of(session.io, first), table[i].statuses[0]);
        assert_int_equal(status_of(session.io, second), table[i].statuses[1]);
        assert_true(session.io->answers[session.io->answer_count - 1].is_final);
        assert_int_equal(session.stage->request_count, 0);
        end(&session);
    }
}

static void a_write_that_may_not_be_is_to_blame(void **state)
{
    struct session session = begin(0);
    uint16_t first = send(session.io, &compare), second = send(session.io, &write_behind);
    assert_int_equal(status_of(session.io, first), NVME_FAILED_FUSED);
    assert_int_equal(status_of(session.io, second), NVME_NAMESPACE_READ_ONLY);
    end(&session);
}

static void who_has_no_other_is_missing_it(void **state)
{
    static const struct half read = {NVME_IO_READ, SGL, 8, 2, 1, 1024};
    static const struct half both = {NVME_IO_COMPARE, FIRST | SECOND | SGL, 8, 2, 1, 1024};
    struct session session = begin(ALL);
    uint16_t cid = send(session.io, &write_behind); // nothing before it
    assert_int_equal(status_of(session.io, cid), NVME_MISSING_FUSED);
    cid = send(session.io, &both);
    assert_int_equal(status_of(session.io, cid), NVME_INVALID_FIELD);

    cid = send(session.io, &compare);
    send(session.io, &read); // another in between, which is done
    assert_int_equal(status_of(session.io, cid), NVME_MISSING_FUSED);
    assert_int_equal(session.stage->request_count, 1);
    stage_complete(session.stage, stage_take(session.stage), NODE_RANGE);
    cid = send(session.io, &write_behind);
    assert_int_equal(status_of(session.io, cid), NVME_MISSING_FUSED);

    cid = send(session.io, &compare);
    uint16_t again = send(session.io, &compare); // the first of two firsts
    assert_int_equal(status_of(session.io, cid), NVME_MISSING_FUSED);
    assert_int_equal(status_of(session.io, again), NONE);
    send(session.io, &write_behind);
    stage_complete(session.stage, stage_take(session.stage), NODE_OK);
    assert_int_equal(status_of(session.io, again), NVME_OK);
    end(&session);
}

static void data_that_no_sgl_names_are_refused(void **state)
{
    struct session session = begin(ALL);
    for (unsigned flags = 0; flags <= NVME_SQE_PSDT_MASK; flags += 0x40) {
        const struct half read = {NVME_IO_READ, (uint8_t)flags, 8, 2, 1, 1024};
        uint16_t cid = send(session.io, &read);
        assert_int_equal(status_of(session.io, cid), flags == SGL ? NONE : NVME_INVALID_FIELD);
        if (flags == SGL) {
            stage_complete(session.stage, stage_take(session.stage), NODE_RANGE);
        }
    }
    end(&session);
}

static void nothing_is_fused_in_an_admin_queue(void **state)
{
    static const struct half identify = {NVME_ADMIN_IDENTIFY, FIRST | SGL, 0, 1, 0, 4096};
    struct session session = begin(ALL);
    uint16_t cid = send(session.admin, &identify);
    assert_int_equal(status_of(session.admin, cid), NVME_INVALID_FIELD);
    end(&session);
}

static void both_are_one_request_of_both_data(void **state)
{
    struct session session = begin(ALL);
    uint16_t cids[2];
    struct service_request *request = pair_send(&session, cids);
    assert_int_equal(request->operation, NODE_COMPARE_AND_WRITE);
    assert_int_equal(request->offset, 8 * STAGE_BLOCK);
    assert_int_equal(request->len, 2 * STAGE_BLOCK);
    assert_int_equal(request->data_len, 4 * STAGE_BLOCK);
    assert_int_equal(session.stage->request_count, 0);
    stage_complete(session.stage, request, NODE_OK);
    assert_int_equal(status_of(session.io, cids[0]), NVME_OK);
    assert_int_equal(status_of(session.io, cids[1]), NVME_OK);
    end(&session);
}

static void who_is_to_blame_says_why_and_the_other_that_it_was_fused(void **state)
{
    static const struct {
        enum node_completion completion;
        uint16_t statuses[2];
    } table[] = {{NODE_MISCOMPARE, {NVME_COMPARE_FAILURE, NVME_FAILED_FUSED}},
                 {NODE_RANGE, {NVME_FAILED_FUSED, NVME_LBA_OUT_OF_RANGE}},
                 {NODE_NO_SPACE, {NVME_FAILED_FUSED, NVME_CAPACITY_EXCEEDED}},
                 {NODE_RESERVED, {NVME_FAILED_FUSED, NVME_RESERVATION_CONFLICT}}};
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct session session = begin(ALL);
        uint16_t cids[2];
        stage_complete(session.stage, pair_send(&session, cids), table[i].completion);
        assert_int_equal(status_of(session.io, cids[0]), table[i].statuses[0]);
        assert_int_equal(status_of(session.io, cids[1]), table[i].statuses[1]);
        end(&session);
    }
}

static void whose_data_do_not_come_is_to_blame(void **state)
{
    static uint8_t buffer[4 * STAGE_BLOCK];
    for (unsigned spoiled = 0; spoiled < 3; spoiled++) { // 2: neither
        struct session session = begin(ALL);
        uint16_t cids[2];
        struct service_request *request = pair_send(&session, cids);
        session.io->fetch_status = NVME_TRANSIENT_TRANSPORT_ERROR;
        session.io->spoiled = spoiled < 2 ? cids[spoiled] : NONE;
        request->data = buffer;
        request->buffer.len = sizeof buffer;
        session.stage->outcome = NODE_MISCOMPARE; // anything else
        session.stage->service->transfer(session.stage->target, request, session.stage->now);
        assert_int_equal(session.stage->transfers, 1);
        assert_int_equal(session.stage->outcome, spoiled < 2 ? NODE_TRANSFER : NODE_OK);
        stage_complete(session.stage, request, spoiled < 2 ? NODE_TRANSFER : NODE_OK);
        for (unsigned i = 0; i < 2; i++) {
            uint16_t status = spoiled == 2   ? NVME_OK
                              : i == spoiled ? NVME_TRANSIENT_TRANSPORT_ERROR
                                             : NVME_FAILED_FUSED;
            assert_int_equal(status_of(session.io, cids[i]), status);
        }
        end(&session);
    }
}

static void a_connection_that_ends_takes_both_with_it(void **state)
{
    struct session session = begin(ALL);
    uint16_t cids[2];
    struct service_request *request = pair_send(&session, cids);
    nvme_queue_close(session.io->queue, session.stage->now);
    assert_false(nvme_queue_is_over(session.io->queue));
    session.stage->service->transfer(session.stage->target, request, session.stage->now);
    assert_int_equal(session.stage->outcome, NODE_TRANSFER);
    stage_complete(session.stage, request, NODE_TRANSFER);
    assert_int_equal(status_of(session.io, cids[0]), NONE);
    end(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_makes_no_pair_is_refused_and_the_other_with_it),
        cmocka_unit_test(a_write_that_may_not_be_is_to_blame),
        cmocka_unit_test(who_has_no_other_is_missing_it),
        cmocka_unit_test(nothing_is_fused_in_an_admin_queue),
        cmocka_unit_test(both_are_one_request_of_both_data),
        cmocka_unit_test(who_is_to_blame_says_why_and_the_other_that_it_was_fused),
        cmocka_unit_test(whose_data_do_not_come_is_to_blame),
        cmocka_unit_test(a_connection_that_ends_takes_both_with_it),
        cmocka_unit_test(data_that_no_sgl_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
