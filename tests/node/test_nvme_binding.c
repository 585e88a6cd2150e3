// How the queues of an NVMe host are bound to the namespaces of its controller.

#include "node/nvme/agent.h"
#include "tests/node/nvme_session.h"

static void read_send(struct line *line, uint32_t nsid)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(line, sqe, NVME_IO_READ, STAGE_BLOCK);
    put_le32(sqe + NVME_SQE_OFF_NSID, nsid);
    line_send(line, sqe);
}

// A Compare and the Write that it is fused with.
static void fused_send(struct line *line, uint32_t nsid)
{
    static const uint8_t opcodes[] = {NVME_IO_COMPARE, NVME_IO_WRITE};
    static const uint8_t flags[] = {NVME_SQE_FUSE_FIRST, NVME_SQE_FUSE_SECOND};
    for (unsigned i = 0; i < 2; i++) {
        uint8_t sqe[NVME_SQE_LEN];
        sqe_fill(line, sqe, opcodes[i], STAGE_BLOCK);
        sqe[NVME_SQE_OFF_FLAGS] |= flags[i];
        put_le32(sqe + NVME_SQE_OFF_NSID, nsid);
        line_send(line, sqe);
    }
}

static void turn(struct stage *s)
{
    while (!nvme_target_is_settled(s->target)) {
        nvme_target_on_batch_end(s->target, s->now);
    }
}

static void a_queue_is_bound_by_the_first_command(void **state)
{
    struct stage *s = stage_create(ALL);
    stage_group(s);
    struct session session = session_on(s, STAGE_HOST);
    turn(s);
    assert_int_equal(s->connects, 3); // the first queue, of all
    struct line *other = line_open(s);
    assert_int_equal(line_connect(other, STAGE_HOST, 2, session.cntlid, 0).status, NVME_OK);
    turn(s);
    assert_int_equal(s->connects, 4);
    s->is_slow = true;
    read_send(other, 3);
    read_send(other, 3);
    assert_int_equal(s->volume, STAGE_VOLUME + 2);
    assert_int_equal(s->request_count, 0); // they wait
    stage_answer(s);
    turn(s);
    assert_int_equal(s->request_count, 2);
    assert_int_equal(s->requests[0]->connection, 5);
    read_send(other, 3);
    assert_int_equal(s->request_count, 3);
    while (s->request_count > 0) {
        stage_complete(s, stage_take(s), NODE_RANGE);
    }
    line_end(other);
    session_leave(&session);
    assert_int_equal(s->disconnects, 5);
    stage_destroy(s);
}

static void what_the_uma_refuses_is_a_status_of_the_command(void **state)
{
    static const struct {
        enum connect_status status;
        uint16_t answer;
        bool is_final;
    } table[] = {{CONNECT_NOT_READY, NVME_NAMESPACE_NOT_READY, false},
                 {CONNECT_TOO_MANY, NVME_NAMESPACE_NOT_READY, false},
                 {CONNECT_NO_VOLUME, NVME_INVALID_NAMESPACE, true},
                 {CONNECT_NOT_ALLOWED, NVME_INVALID_NAMESPACE, true},
                 {CONNECT_REFUSED, NVME_INVALID_NAMESPACE, true}};
    struct stage *s = stage_create(ALL);
    stage_group(s);
    struct session session = session_on(s, STAGE_HOST);
    struct line *other = line_open(s);
    line_connect(other, STAGE_HOST, 2, session.cntlid, 0);
    turn(s);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        s->status = table[i].status;
        read_send(other, 2);
        turn(s);
        assert_int_equal(line_answer(other).cid, other->cid);
        assert_int_equal(line_answer(other).status, table[i].answer);
        assert_int_equal(line_answer(other).is_final, table[i].is_final);
    }
    s->status = CONNECT_OK; // the next command asks again
    read_send(other, 2);
    turn(s);
    assert_int_equal(s->request_count, 1);
    stage_complete(s, stage_take(s), NODE_RANGE);
    line_end(other);
    session_leave(&session);
    stage_destroy(s);
}

static void what_waits_to_be_bound_ends_with_its_queue(void **state)
{
    struct stage *s = stage_create(ALL);
    stage_group(s);
    struct session session = session_on(s, STAGE_HOST);
    struct line *other = line_open(s);
    line_connect(other, STAGE_HOST, 2, session.cntlid, 0);
    turn(s);
    s->is_slow = true;
    read_send(other, 2);
    fused_send(other, 3);
    nvme_queue_close(other->queue, s->now);
    assert_true(nvme_queue_is_idle(other->queue));
    assert_false(nvme_queue_is_over(other->queue)); // the UMA has yet to answer
    stage_answer(s);
    line_end(other);
    session_leave(&session);
    assert_int_equal(s->disconnects, s->connects);
    stage_destroy(s);
}

// The namespace has others when the queue is bound: a device that was formatted anew.
static void a_pair_moves_the_blocks_that_its_descriptors_were_looked_at_for(void **state)
{
    struct stage *s = stage_create(ALL);
    stage_group(s);
    struct session session = session_on(s, STAGE_HOST);
    struct line *other = line_open(s);
    line_connect(other, STAGE_HOST, 2, session.cntlid, 0);
    turn(s);
    s->is_slow = true;
    fused_send(other, 3);
    s->rows[2].profile.block_size = 8 * STAGE_BLOCK;
    stage_advertise(s);
    stage_answer(s);
    turn(s);
    assert_int_equal(s->request_count, 1);
    struct service_request *request = stage_take(s);
    assert_int_equal(request->operation, NODE_COMPARE_AND_WRITE);
    assert_int_equal(request->len, STAGE_BLOCK);
    assert_int_equal(request->data_len, 2 * STAGE_BLOCK);
    stage_complete(s, request, NODE_OK);
    assert_int_equal(line_answer(other).status, NVME_OK);
    line_end(other);
    session_leave(&session);
    stage_destroy(s);
}

static void what_waits_to_be_bound_is_aborted(void **state)
{
    struct stage *s = stage_create(ALL);
    uint8_t sqe[NVME_SQE_LEN];
    stage_group(s);
    struct session session = session_on(s, STAGE_HOST);
    struct line *other = line_open(s);
    line_connect(other, STAGE_HOST, 2, session.cntlid, 0);
    turn(s);
    s->is_slow = true;
    read_send(other, 2);
    unsigned answers = other->answer_count;
    sqe_fill(session.admin, sqe, NVME_ADMIN_ABORT, 0);
    put_le16(sqe + NVME_ABORT_OFF_SQID, 2);
    put_le16(sqe + NVME_ABORT_OFF_CID, other->cid);
    line_send(session.admin, sqe);
    assert_int_equal(line_answer(session.admin).result, 0);
    assert_int_equal(other->answer_count, answers + 1);
    assert_int_equal(line_answer(other).status, NVME_ABORT_REQUESTED);
    stage_answer(s);
    turn(s);
    assert_int_equal(s->request_count, 0);
    assert_int_equal(other->answer_count, answers + 1);
    line_end(other);
    session_leave(&session);
    assert_int_equal(s->disconnects, s->connects);
    stage_destroy(s);
}

static void a_volume_that_goes_is_let_go_of_when_its_commands_have_ended(void **state)
{
    struct stage *s = stage_create(ALL);
    stage_group(s);
    struct session session = session_on(s, STAGE_HOST);
    turn(s);
    read_send(session.io, 2);
    struct service_request *request = stage_take(s);
    s->rows[1].volume = 77; // another one takes its number
    stage_advertise(s);
    nvme_for_uma.drop(s->target, 2);
    turn(s);
    read_send(session.io, 2);
    assert_int_equal(s->disconnects, 0);
    assert_int_equal(s->request_count, 0);
    stage_complete(s, request, NODE_NO_VOLUME);
    assert_int_equal(line_answer(session.io).status, NVME_INVALID_NAMESPACE);
    turn(s);
    assert_int_equal(s->disconnects, 1);
    assert_int_equal(s->volume, 77);
    assert_int_equal(s->requests[0]->connection, 4);
    stage_complete(s, stage_take(s), NODE_RANGE);
    assert_string_equal(session.io->closed, ""); // it goes on
    session_leave(&session);
    stage_destroy(s);
}

// A command at one volume keeps its host from that volume alone.
static void a_host_that_comes_back_waits_for_no_other_namespace(void **state)
{
    struct stage *s = stage_create(ALL);
    stage_group(s);
    struct session former = session_on(s, STAGE_HOST);
    turn(s);
    read_send(former.io, 2);
    struct service_request *request = stage_take(s);
    nvme_queue_close(former.io->queue, s->now);
    turn(s);
    assert_int_equal(s->disconnects, 2);
    struct session session = session_on(s, STAGE_HOST); // which is bound to the first
    turn(s);
    read_send(session.io, 1);
    assert_int_equal(s->request_count, 1);
    read_send(session.io, 2);
    assert_int_equal(s->request_count, 1); // waits
    stage_complete(s, request, NODE_OK);
    turn(s);
    assert_int_equal(s->request_count, 2);
    while (s->request_count > 0) {
        stage_complete(s, stage_take(s), NODE_RANGE);
    }
    session_leave(&former);
    session_leave(&session);
    stage_destroy(s);
}

// The last number, too.
static void each_number_of_a_namespace_is_bound_refused_and_let_go_of(void **state)
{
    static const uint32_t numbers[] = {2, 256};
    for (unsigned i = 0; i < 2; i++) {
        const uint32_t nsid = numbers[i];
        struct stage *s = stage_create(ALL);
        stage_group(s);
        s->rows[2].places[VOLUME_IN_SUBSYSTEM].member = nsid;
        s->rows[1].places[VOLUME_IN_SUBSYSTEM].member = 7;
        struct session session = session_on(s, STAGE_HOST);
        turn(s);
        assert_int_equal(s->connects, 3); // of the first queue, unasked
        struct line *other = line_open(s);
        line_connect(other, STAGE_HOST, 2, session.cntlid, 0);
        turn(s);
        s->status = CONNECT_NOT_READY;
        read_send(other, nsid);
        turn(s);
        assert_int_equal(line_answer(other).status, NVME_NAMESPACE_NOT_READY);
        s->status = CONNECT_OK;
        read_send(other, nsid);
        turn(s);
        assert_int_equal(s->request_count, 1);
        struct service_request *request = stage_take(s);
        nvme_for_uma.drop(s->target, request->connection);
        turn(s);
        assert_int_equal(s->disconnects, 0); // it is still in use
        stage_complete(s, request, NODE_RANGE);
        turn(s);
        assert_int_equal(s->disconnects, 1);
        line_end(other);
        session_leave(&session);
        assert_int_equal(s->disconnects, s->connects - 1); // one was refused
        stage_destroy(s);
    }
}

static void the_uma_is_told_where_each_queue_comes_from(void **state)
{
    struct stage *s = stage_create(ALL);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid), *io = line_open(s);
    memcpy(io->queue->parts.host_address, "192.0.2.8:9", sizeof "192.0.2.8:9");
    memcpy(io->queue->parts.host, "192.0.2.8", sizeof "192.0.2.8");
    s->is_slow = true;
    line_connect(io, STAGE_HOST, 1, cntlid, 0);
    assert_string_equal(s->asked->client.address, "192.0.2.8:9");
    assert_string_equal(s->asked->client.host, "192.0.2.8");
    unsigned woken = io->woken;
    nvme_queue_close(io->queue, s->now);
    stage_answer(s);
    turn(s);
    assert_true(io->woken > woken + 1); // it may be over
    line_end(io);
    line_end(admin);
    stage_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_is_bound_by_the_first_command),
        cmocka_unit_test(what_the_uma_refuses_is_a_status_of_the_command),
        cmocka_unit_test(what_waits_to_be_bound_ends_with_its_queue),
        cmocka_unit_test(a_pair_moves_the_blocks_that_its_descriptors_were_looked_at_for),
        cmocka_unit_test(what_waits_to_be_bound_is_aborted),
        cmocka_unit_test(a_volume_that_goes_is_let_go_of_when_its_commands_have_ended),
        cmocka_unit_test(a_host_that_comes_back_waits_for_no_other_namespace),
        cmocka_unit_test(each_number_of_a_namespace_is_bound_refused_and_let_go_of),
        cmocka_unit_test(the_uma_is_told_where_each_queue_comes_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
