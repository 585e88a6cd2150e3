// NVMe controllers alone: what becomes of each answer of the UMA's and of the CTA's, and of hosts
// that are silent, gone, or back too soon.

#include "tests/node/nvme_session.h"

static void io_send(struct line *line, uint8_t opcode, uint64_t block, uint16_t count,
                    uint16_t control)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(line, sqe, opcode, count * STAGE_BLOCK);
    put_le64(sqe + NVME_RW_OFF_SLBA, block);
    put_le16(sqe + NVME_RW_OFF_NLB, (uint16_t)(count - 1));
    put_le16(sqe + NVME_RW_OFF_CONTROL, control);
    line_send(line, sqe);
}

// The CTA has a buffer for it: data of a write are fetched, those of a read delivered.
static struct service_request *transfer(struct stage *s)
{
    static uint8_t buffer[64 * STAGE_BLOCK];
    struct service_request *request = stage_take(s);
    request->data = buffer;
    request->buffer.len = request->data_len;
    s->service->transfer(s->target, request, s->now);
    return request;
}

/* ---- Connect --------------------------------------------------------------------------------- */

static void a_refusal_by_the_uma_says_whether_to_ask_again(void **state)
{
    static const struct {
        enum connect_status status;
        uint16_t answer;
        bool is_final;
    } table[] = {{CONNECT_NOT_READY, NVME_CONNECT_BUSY, false},
                 {CONNECT_TOO_MANY, NVME_CONNECT_BUSY, false},
                 {CONNECT_NO_VOLUME, NVME_CONNECT_INVALID_HOST, true},
                 {CONNECT_NOT_ALLOWED, NVME_CONNECT_INVALID_HOST, true},
                 {CONNECT_REFUSED, NVME_CONNECT_INVALID_HOST, true}};
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid), *io = line_open(s);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        s->status = table[i].status;
        struct answer answer = line_connect(io, STAGE_HOST, 1, cntlid, 0);
        assert_int_equal(answer.status, table[i].answer);
        assert_int_equal(answer.is_final, table[i].is_final);
        assert_non_null(strstr(s->said, connect_status_name(table[i].status)));
        assert_false(nvme_queue_is_connected(io->queue));
        assert_int_equal(nvme_target_counters(s->target).refused, i + 1);
    }
    s->status = CONNECT_OK;
    assert_int_equal(line_connect(io, STAGE_HOST, 1, cntlid, 0).status, NVME_OK);
    assert_true(nvme_queue_is_connected(io->queue));
    line_end(io);
    assert_int_equal(s->disconnects, 1); // of the one that was made
    line_end(admin);
    stage_destroy(s);
}

static void a_connect_whose_data_did_not_come_may_be_repeated(void **state)
{
    struct stage *s = stage_create(ALL);
    struct line *line = line_open(s);
    line->fetch_status = NVME_TRANSIENT_TRANSPORT_ERROR;
    struct answer answer = line_connect(line, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0);
    assert_int_equal(answer.status, NVME_TRANSIENT_TRANSPORT_ERROR);
    assert_false(answer.is_final);
    assert_int_equal(nvme_target_counters(s->target).transfers_bad, 1);
    line->fetch_status = NVME_OK;
    assert_int_equal(line_connect(line, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0).status, NVME_OK);
    line_end(line);
    stage_destroy(s);
}

// Which host it is, its identifier says; SPDK's spdk_nvme_perf connects so.
static void a_host_without_a_name_has_its_session(void **state)
{
    struct stage *s = stage_create(ALL);
    struct session session = session_on(s, "");
    io_send(session.io, NVME_IO_READ, 0, 1, 0);
    stage_complete(s, stage_take(s), NODE_OK);
    assert_int_equal(line_answer(session.io).status, NVME_OK);
    session_leave(&session);
    stage_destroy(s);
}

static void a_name_that_does_not_end_is_refused(void **state)
{
    char name[NVME_NQN_MAX + 1];
    struct stage *s = stage_create(ALL);
    struct line *line = line_open(s);
    memset(name, 'n', NVME_NQN_MAX);
    name[NVME_NQN_MAX] = '\0';
    struct answer answer = line_connect(line, name, 0, NVME_CNTLID_DYNAMIC, 0);
    assert_int_equal(answer.status, NVME_CONNECT_INVALID);
    assert_int_equal(answer.result, NVME_CONNECT_DATA_OFF_HOSTNQN | NVME_CONNECT_IN_DATA);
    answer = line_connect_to(line, name, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0);
    assert_int_equal(answer.result, NVME_CONNECT_DATA_OFF_SUBNQN | NVME_CONNECT_IN_DATA);
    answer = line_connect_to(line, "", STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0);
    assert_int_equal(answer.result, NVME_CONNECT_DATA_OFF_SUBNQN | NVME_CONNECT_IN_DATA);
    line_end(line);
    stage_destroy(s);
}

// A write of the former session may still be at the device: what the host reads through the new one
// must come behind it.
static void a_host_that_comes_back_waits_for_the_end_of_its_former_session(void **state)
{
    struct stage *s = stage_create(ALL);
    struct session former = session_on(s, STAGE_HOST);
    io_send(former.io, NVME_IO_READ, 0, 1, 0);
    struct service_request *request = stage_take(s);
    nvme_queue_close(former.io->queue, s->now);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid), *io = line_open(s);
    assert_int_equal(line_connect(io, STAGE_HOST, 1, cntlid, 0).status, NO_ANSWER);
    struct session other = session_on(s, STAGE_HOST "-other"); // which has nothing to wait for
    assert_int_equal(s->connects, 2);
    stage_complete(s, request, NODE_OK);
    assert_int_equal(io->answer_count, 0);
    session_leave(&former);
    assert_int_equal(line_answer(io).status, NVME_OK);
    assert_int_equal(s->connects, 3);
    session_leave(&other);
    line_end(io);
    line_end(admin);
    stage_destroy(s);
}

static void a_connect_that_waits_ends_with_its_connection(void **state)
{
    struct stage *s = stage_create(ALL);
    struct session former = session_on(s, STAGE_HOST);
    io_send(former.io, NVME_IO_READ, 0, 1, 0);
    struct service_request *request = stage_take(s);
    nvme_queue_close(former.io->queue, s->now);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid), *io = line_open(s);
    assert_int_equal(line_connect(io, STAGE_HOST, 1, cntlid, 0).status, NO_ANSWER);
    line_end(io); // which nothing keeps
    stage_complete(s, request, NODE_OK);
    session_leave(&former);
    assert_int_equal(s->connects, 1);
    line_end(admin);
    stage_destroy(s);
}

static void a_number_is_not_given_to_another_host_soon(void **state)
{
    struct stage *s = stage_create(ALL);
    for (unsigned i = 0; i < 2 * NVME_CONTROLLER_COUNT_MAX; i++) {
        struct line *line = line_open(s);
        struct answer answer = line_connect(line, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0);
        assert_int_equal(answer.result, 1 + i % NVME_CONTROLLER_COUNT_MAX);
        line_end(line);
    }
    stage_destroy(s);
}

// Of one address; the queue that was refused may have the next place.
static void controllers_of_an_address_are_so_many(void **state)
{
    static struct line *lines[NVME_CONTROLLER_OF_HOST_MAX];
    struct stage *s = stage_create(ALL);
    for (unsigned i = 0; i < NVME_CONTROLLER_OF_HOST_MAX; i++) {
        lines[i] = line_open(s);
        assert_int_equal(line_connect(lines[i], STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0).status,
                         NVME_OK);
    }
    struct line *beyond = line_open(s);
    struct answer answer = line_connect(beyond, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0);
    assert_int_equal(answer.status, NVME_CONNECT_BUSY);
    assert_false(answer.is_final);
    assert_non_null(strstr(s->said, "too many controllers are of its address"));
    line_end(lines[7]);
    answer = line_connect(beyond, STAGE_HOST, 0, NVME_CNTLID_DYNAMIC, 0);
    assert_int_equal(answer.status, NVME_OK);
    lines[7] = beyond;
    for (unsigned i = 0; i < NVME_CONTROLLER_OF_HOST_MAX; i++) {
        line_end(lines[i]);
    }
    stage_destroy(s);
}

/* ---- statuses -------------------------------------------------------------------------------- */

static void each_completion_has_its_status(void **state)
{
    static const struct {
        enum node_completion completion;
        uint16_t read, write;
        bool is_final;
    } table[] = {
        {NODE_RETRY, NVME_NAMESPACE_NOT_READY, NVME_NAMESPACE_NOT_READY, false},
        {NODE_MALFORMED, NVME_INVALID_FIELD, NVME_INVALID_FIELD, true},
        {NODE_RANGE, NVME_LBA_OUT_OF_RANGE, NVME_LBA_OUT_OF_RANGE, true},
        {NODE_UNSUPPORTED, NVME_INVALID_OPCODE, NVME_INVALID_OPCODE, true},
        {NODE_READ_ONLY, NVME_NAMESPACE_READ_ONLY, NVME_NAMESPACE_READ_ONLY, true},
        {NODE_NO_SPACE, NVME_CAPACITY_EXCEEDED, NVME_CAPACITY_EXCEEDED, true},
        {NODE_MEDIA, NVME_UNRECOVERED_READ, NVME_WRITE_FAULT, true},
        {NODE_TRANSFER, NVME_DATA_TRANSFER_ERROR, NVME_DATA_TRANSFER_ERROR, false},
        {NODE_TIMED_OUT, NVME_INTERNAL_ERROR, NVME_INTERNAL_ERROR, false},
        {NODE_NO_VOLUME, NVME_INVALID_NAMESPACE, NVME_INVALID_NAMESPACE, true},
        {NODE_INTERNAL, NVME_INTERNAL_ERROR, NVME_INTERNAL_ERROR, false},
    };
    struct stage *s = stage_create(ALL);
    struct session session = session_on(s, STAGE_HOST);
    for (unsigned i = 0; i < 2 * sizeof table / sizeof table[0]; i++) {
        uint8_t opcode = i % 2 == 0 ? NVME_IO_READ : NVME_IO_WRITE;
        io_send(session.io, opcode, 0, 1, 0);
        stage_complete(s, stage_take(s), table[i / 2].completion);
        struct answer answer = line_answer(session.io);
        assert_int_equal(answer.cid, session.io->cid);
        assert_int_equal(answer.status, i % 2 == 0 ? table[i / 2].read : table[i / 2].write);
        assert_int_equal(answer.is_final, table[i / 2].is_final);
        assert_int_equal(nvme_target_counters(s->target).errors, i + 1);
    }
    session_leave(&session);
    stage_destroy(s);
}

// The blocks come to the node, whose buffer is given back, and no further.
static void a_verify_reads_and_delivers_nothing(void **state)
{
    struct stage *s = stage_create(ALL);
    s->row.profile.size = 2 * NVME_DATA_LEN_MAX;
    struct session session = session_on(s, STAGE_HOST);
    io_send(session.io, NVME_IO_VERIFY, 8, 4, 0);
    const struct service_request *request = transfer(s);
    assert_int_equal(request->operation, NODE_READ);
    assert_int_equal(request->offset, 8 * STAGE_BLOCK);
    assert_int_equal(request->len, 4 * STAGE_BLOCK);
    assert_int_equal(s->outcome, NODE_OK);
    assert_int_equal(s->transfers, 1);
    assert_int_equal(line_answer(session.io).status, NVME_OK);
    assert_int_equal(session.io->delivered, 0);
    io_send(session.io, NVME_IO_VERIFY, 0, 1, 0);
    stage_complete(s, stage_take(s), NODE_MEDIA);
    assert_int_equal(line_answer(session.io).status, NVME_UNRECOVERED_READ);
    io_send(session.io, NVME_IO_VERIFY, 2 * NVME_DATA_LEN_MAX / STAGE_BLOCK, 1, 0);
    assert_int_equal(line_answer(session.io).status, NVME_LBA_OUT_OF_RANGE);
    io_send(session.io, NVME_IO_VERIFY, 0, NVME_DATA_LEN_MAX / STAGE_BLOCK + 1, 0); // VSL
    assert_int_equal(line_answer(session.io).status, NVME_INVALID_FIELD);
    session_leave(&session);
    stage_destroy(s);
}

// One that the CTA has answered when its connection is lost gives its buffer back all the same.
static void a_verify_on_a_lost_connection_ends_without_a_word(void **state)
{
    struct stage *s = stage_create(ALL);
    struct session session = session_on(s, STAGE_HOST);
    unsigned answers = session.io->answer_count;
    io_send(session.io, NVME_IO_VERIFY, 0, 1, 0);
    nvme_queue_close(session.io->queue, s->now);
    transfer(s);
    assert_int_equal(s->transfers, 1);
    assert_int_equal(session.io->answer_count, answers);
    session_leave(&session);
    stage_destroy(s);
}

// The host hears what the transport said of it, not that something failed.
static void data_that_did_not_come_have_the_transports_status(void **state)
{
    struct stage *s = stage_create(ALL);
    struct session session = session_on(s, STAGE_HOST);
    session.io->fetch_status = NVME_TRANSIENT_TRANSPORT_ERROR;
    io_send(session.io, NVME_IO_WRITE, 0, 1, 0);
    struct service_request *request = transfer(s);
    assert_int_equal(s->outcome, NODE_TRANSFER);
    stage_complete(s, request, NODE_TRANSFER);
    assert_int_equal(line_answer(session.io).status, NVME_TRANSIENT_TRANSPORT_ERROR);
    session.io->fetch_status = NVME_OK;
    io_send(session.io, NVME_IO_WRITE, 0, 1, 0);
    request = transfer(s);
    assert_int_equal(s->outcome, NODE_OK);
    stage_complete(s, request, NODE_OK);
    assert_int_equal(line_answer(session.io).status, NVME_OK);
    session_leave(&session);
    stage_destroy(s);
}

// The head of the host's queue: each response frees one entry of it.
static void each_response_moves_the_head_by_one(void **state)
{
    struct stage *s = stage_create(ALL);
    struct session session = session_on(s, STAGE_HOST);
    uint16_t head = line_answer(session.io).sqhd;
    for (unsigned i = 1; i <= 3 * STAGE_DEPTH; i++) {
        session.io->answer_count = 0;
        io_send(session.io, NVME_IO_READ, STAGE_BLOCKS, 1, 0); // beyond the end
        assert_int_equal(line_answer(session.io).status, NVME_LBA_OUT_OF_RANGE);
        assert_int_equal(line_answer(session.io).sqhd, (head + i) % STAGE_DEPTH);
    }
    session_leave(&session);
    stage_destroy(s);
}

static void identify_send(struct line *line, uint8_t cns)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(line, sqe, NVME_ADMIN_IDENTIFY, NVME_IDENTIFY_LEN);
    sqe[NVME_IDENTIFY_OFF_CNS] = cns;
    line_send(line, sqe);
}

// There is one place for such data on a queue: they come one after the other, whole.
static void pages_that_are_asked_for_at_once_come_one_by_one(void **state)
{
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    unsigned answered = admin->answer_count;
    uint16_t first = admin->cid + 1;
    admin->holds = true;
    for (unsigned i = 0; i < 3; i++) {
        identify_send(admin, i == 1 ? NVME_CNS_NAMESPACE : NVME_CNS_CONTROLLER);
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(admin->answer_count, answered + i);
        assert_int_equal(admin->delivered, (i + 1) * NVME_IDENTIFY_LEN);
        bool is_namespace = get_le64(admin->scratch + NVME_NS_OFF_NSZE) == STAGE_BLOCKS;
        assert_int_equal(is_namespace, i == 1);
        line_release(admin);
        assert_int_equal(line_answer(admin).cid, first + i);
    }
    assert_null(admin->held);
    line_end(admin);
    stage_destroy(s);
}

/* ---- stable, and trimmed --------------------------------------------------------------------- */

static void a_write_that_shall_be_stable_is_so_on_every_volume(void **state)
{
    static const struct {
        uint32_t abilities;
        uint16_t flags;
        bool is_flushed;
    } table[] = {{ALL, 0, true}, // by a flush behind it
                 {ALL | VOLUME_CAN_FUA, NODE_FUA, false},
                 {ALL & ~VOLUME_CAN_FLUSH, 0, false}}; // completed is stable
    for (unsigned i = 0; i < 2 * sizeof table / sizeof table[0]; i++) {
        struct stage *s = stage_create(table[i / 2].abilities);
        struct session session = session_on(s, STAGE_HOST);
        unsigned answered = session.io->answer_count;
        io_send(session.io, i % 2 == 0 ? NVME_IO_WRITE : NVME_IO_WRITE_ZEROES, 0, 1, NVME_RW_FUA);
        struct service_request *request = stage_take(s);
        assert_int_equal(request->flags & NODE_FUA, table[i / 2].flags);
        stage_complete(s, request, NODE_OK);
        if (table[i / 2].is_flushed) {
            assert_int_equal(session.io->answer_count, answered);
            request = stage_take(s);
            assert_int_equal(request->operation, NODE_FLUSH);
            assert_int_equal(request->flags | request->offset | request->len, 0);
            stage_complete(s, request, NODE_MEDIA);
            assert_int_equal(line_answer(session.io).status, NVME_WRITE_FAULT);
        } else {
            assert_int_equal(line_answer(session.io).status, NVME_OK);
        }
        assert_int_equal(session.io->answer_count, answered + 1);
        assert_int_equal(s->request_count, 0);
        session_leave(&session);
        stage_destroy(s);
    }
}

static void range_put(struct line *line, unsigned index, uint64_t block, uint32_t count)
{
    uint8_t *at = line->data + index * NVME_DSM_RANGE_LEN;
    put_le64(at + NVME_DSM_RANGE_OFF_SLBA, block);
    put_le32(at + NVME_DSM_RANGE_OFF_NLB, count);
}

static void dsm_send(struct line *line, unsigned ranges, uint32_t attributes)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(line, sqe, NVME_IO_DATASET_MANAGEMENT, ranges * NVME_DSM_RANGE_LEN);
    put_le32(sqe + NVME_SQE_OFF_CDW10, ranges - 1);
    put_le32(sqe + NVME_SQE_OFF_CDW11, attributes);
    line_send(line, sqe);
}

static void ranges_are_trimmed_one_after_the_other(void **state)
{
    struct stage *s = stage_create(ALL);
    struct session session = session_on(s, STAGE_HOST);
    struct line *io = session.io;
    range_put(io, 0, 7, 3);
    range_put(io, 1, 100, 0); // of nothing
    range_put(io, 2, STAGE_BLOCKS - 1, 1);
    dsm_send(io, 3, NVME_DSM_DEALLOCATE);
    struct service_request *request = stage_take(s);
    assert_int_equal(request->operation, NODE_TRIM);
    assert_int_equal(request->offset, 7 * STAGE_BLOCK);
    assert_int_equal(request->len, 3 * STAGE_BLOCK);
    assert_int_equal(s->request_count, 0);
    stage_complete(s, request, NODE_OK);
    request = stage_take(s);
    assert_int_equal(request->offset, (STAGE_BLOCKS - 1) * STAGE_BLOCK);
    assert_int_equal(request->len, STAGE_BLOCK);
    unsigned answered = io->answer_count;
    stage_complete(s, request, NODE_OK);
    assert_int_equal(io->answer_count, answered + 1);
    assert_int_equal(line_answer(io).status, NVME_OK);
    range_put(io, 0, STAGE_BLOCKS, 1);
    dsm_send(io, 1, NVME_DSM_DEALLOCATE);
    assert_int_equal(line_answer(io).status, NVME_LBA_OUT_OF_RANGE);
    range_put(io, 0, 0, STAGE_BLOCKS + 1);
    dsm_send(io, 1, NVME_DSM_DEALLOCATE);
    assert_int_equal(line_answer(io).status, NVME_LBA_OUT_OF_RANGE);
    dsm_send(io, 1, 3); // hints of how it is read and written
    assert_int_equal(line_answer(io).status, NVME_OK);
    assert_int_equal(s->request_count, 0);
    session_leave(&session);
    stage_destroy(s);
}

/* ---- silent, and gone ------------------------------------------------------------------------ */

static void a_host_is_given_up_after_twice_its_promise(void **state)
{
    struct stage *s = stage_create(ALL);
    uint8_t sqe[NVME_SQE_LEN];
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 1000, &cntlid), *io = line_open(s);
    assert_int_equal(line_connect(io, STAGE_HOST, 1, cntlid, 0).status, NVME_OK);
    s->now += NS_PER_S;
    sqe_fill(io, sqe, NVME_IO_FLUSH, 0);
    line_send(io, sqe); // heard of on any queue
    stage_complete(s, stage_take(s), NODE_OK);
    instant_ns due = s->now + 2 * NS_PER_S;
    nvme_target_on_deadline(s->target, nvme_target_next_deadline(s->target));
    assert_int_equal(nvme_target_next_deadline(s->target), due);
    nvme_target_on_deadline(s->target, due - 1);
    assert_string_equal(admin->closed, "");
    assert_int_equal(nvme_target_counters(s->target).expired, 0);
    nvme_target_on_deadline(s->target, due);
    assert_string_equal(admin->closed, "keep alive expired");
    assert_string_equal(io->closed, "keep alive expired");
    assert_int_equal(nvme_target_counters(s->target).expired, 1);
    assert_int_equal(nvme_target_next_deadline(s->target), INSTANT_NEVER);
    line_end(io);
    line_end(admin);
    stage_destroy(s);
}

static void a_host_that_promises_nothing_is_not_given_up(void **state)
{
    struct stage *s = stage_create(ALL);
    struct session session = session_on(s, STAGE_HOST);
    assert_int_equal(nvme_target_next_deadline(s->target), INSTANT_NEVER);
    session_leave(&session);
    stage_destroy(s);
}

// Its buffer goes back, and nobody is answered.
static void what_is_under_way_on_a_lost_connection_ends_without_a_word(void **state)
{
    struct stage *s = stage_create(ALL);
    struct session session = session_on(s, STAGE_HOST);
    io_send(session.io, NVME_IO_READ, 0, 1, 0);
    io_send(session.io, NVME_IO_WRITE, 0, 1, 0);
    io_send(session.io, NVME_IO_WRITE, 0, 1, 0);
    unsigned answered = session.io->answer_count;
    nvme_queue_close(session.io->queue, s->now);
    assert_false(nvme_queue_is_over(session.io->queue));
    transfer(s); // a read's end is the transfer
    assert_int_equal(s->outcome, NODE_TRANSFER);
    struct service_request *request = transfer(s);
    assert_int_equal(s->outcome, NODE_TRANSFER);
    stage_complete(s, request, NODE_TRANSFER);
    stage_complete(s, stage_take(s), NODE_OK);
    assert_int_equal(s->transfers, 2);
    assert_int_equal(session.io->answer_count, answered);
    assert_true(nvme_queue_is_over(session.io->queue));
    session_leave(&session);
    stage_destroy(s);
}

static void a_session_ends_with_its_admin_queue(void **state)
{
    struct stage *s = stage_create(ALL);
    struct session session = session_on(s, STAGE_HOST);
    nvme_queue_close(session.admin->queue, s->now);
    assert_string_equal(session.io->closed, "its admin queue has ended");
    struct line *late = line_open(s);
    assert_int_equal(line_connect(late, STAGE_HOST, 2, session.cntlid, 0).status,
                     NVME_CONNECT_INVALID);
    line_end(late);
    assert_int_equal(nvme_target_controller_count(s->target), 1);
    session_leave(&session);
    assert_int_equal(nvme_target_controller_count(s->target), 0);
    stage_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_by_the_uma_says_whether_to_ask_again),
        cmocka_unit_test(a_connect_whose_data_did_not_come_may_be_repeated),
        cmocka_unit_test(a_host_without_a_name_has_its_session),
        cmocka_unit_test(a_name_that_does_not_end_is_refused),
        cmocka_unit_test(a_host_that_comes_back_waits_for_the_end_of_its_former_session),
        cmocka_unit_test(a_connect_that_waits_ends_with_its_connection),
        cmocka_unit_test(a_number_is_not_given_to_another_host_soon),
        cmocka_unit_test(controllers_of_an_address_are_so_many),
        cmocka_unit_test(each_completion_has_its_status),
        cmocka_unit_test(a_verify_reads_and_delivers_nothing),
        cmocka_unit_test(a_verify_on_a_lost_connection_ends_without_a_word),
        cmocka_unit_test(data_that_did_not_come_have_the_transports_status),
        cmocka_unit_test(each_response_moves_the_head_by_one),
        cmocka_unit_test(pages_that_are_asked_for_at_once_come_one_by_one),
        cmocka_unit_test(a_write_that_shall_be_stable_is_so_on_every_volume),
        cmocka_unit_test(ranges_are_trimmed_one_after_the_other),
        cmocka_unit_test(a_host_is_given_up_after_twice_its_promise),
        cmocka_unit_test(a_host_that_promises_nothing_is_not_given_up),
        cmocka_unit_test(what_is_under_way_on_a_lost_connection_ends_without_a_word),
        cmocka_unit_test(a_session_ends_with_its_admin_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
