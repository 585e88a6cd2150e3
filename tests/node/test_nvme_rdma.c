// The NVMe/RDMA TTS against hosts that keep to the protocol, that do not, and that go away.
#include "base/prng.h"
#include "format/nvme_pages.h"
#include "node/nvme/controller.h"
#include "tests/node/nvme_host.h"

enum { BLOCK = 512, QUEUE = 16 };

static struct node node;

static int start(void **state)
{
    node_start(&node, "ram:64M");
    return 0;
}

// Slow enough that what a test does meanwhile comes first.
static int start_slow(void **state)
{
    node_start(&node, "delay+ram:64M?delay.read=300ms&delay.write=300ms");
    return 0;
}

static int stop(void **state)
{
    node_stop(&node);
    return 0;
}

static void fill(uint8_t *data, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        data[i] = (uint8_t)(i * 31 + seed + (i >> 9));
    }
}

static void expect_filled(const uint8_t *data, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(data[i], (uint8_t)(i * 31 + seed + (i >> 9)));
    }
}

// Writes and reads back: the connection is as good as new.
static void expect_works(struct host *host, unsigned seed)
{
    fill(host->data, 8 * BLOCK, seed);
    host_io(host, NVME_IO_WRITE, 64, 8 * BLOCK);
    assert_int_equal(host_run(host, NVME_SQE_LEN, NULL), NVME_OK);
    memset(host->data, 0, 8 * BLOCK);
    host_io(host, NVME_IO_READ, 64, 8 * BLOCK);
    assert_int_equal(host_run(host, NVME_SQE_LEN, NULL), NVME_OK);
    expect_filled(host->data, 8 * BLOCK, seed);
}

static void expect_node_serves(void)
{
    struct session session;
    session_begin(&session, &node, QUEUE);
    expect_works(&session.io, 3);
    session_end(&session);
}

/* ---- connection requests --------------------------------------------------------------------- */

static void expect_rejected(const struct host_request *request, uint16_t status)
{
    struct host host;
    assert_int_equal(host_meet(&host, node.port, request), status);
    host_leave(&host);
}

static void a_request_with_too_little_private_data_is_rejected(void **state)
{
    struct host_request request = host_request(0, 32);
    request.private_data_len = NVME_RDMA_REQUEST_LEN - 1;
    expect_rejected(&request, NVME_RDMA_INVALID_LENGTH);
    request.private_data_len = 0;
    expect_rejected(&request, NVME_RDMA_INVALID_LENGTH);
}

static void a_request_in_another_format_is_rejected(void **state)
{
    struct host_request request = host_request(0, 32);
    put_le16(request.private_data + NVME_RDMA_REQUEST_OFF_RECFMT, 1);
    expect_rejected(&request, NVME_RDMA_INVALID_RECFMT);
}

static void a_request_for_a_queue_with_too_high_a_number_is_rejected(void **state)
{
    struct host_request request = host_request(17, 32);
    expect_rejected(&request, NVME_RDMA_INVALID_QID);
    request = host_request(0xffff, 32);
    expect_rejected(&request, NVME_RDMA_INVALID_QID);
}

static void a_request_for_a_queue_too_long_or_too_short_is_rejected(void **state)
{
    struct host_request request = host_request(1, 129);
    expect_rejected(&request, NVME_RDMA_INVALID_HSQSIZE);
    request = host_request(0, 129);
    expect_rejected(&request, NVME_RDMA_INVALID_HSQSIZE);
    request = host_request(1, 1);
    expect_rejected(&request, NVME_RDMA_INVALID_HSQSIZE);
    put_le16(request.private_data + NVME_RDMA_REQUEST_OFF_HSQSIZE, 0xffff);
    expect_rejected(&request, NVME_RDMA_INVALID_HSQSIZE);
}

// As mature targets have it: SPDK's `abort` asks for 128.
static void an_admin_queue_may_be_as_long_as_any(void **state)
{
    struct host_request request = host_request(0, 128);
    struct host host;
    assert_int_equal(host_meet(&host, node.port, &request), 0);
    host_leave(&host);
}

static void a_host_without_room_for_responses_is_rejected(void **state)
{
    struct host_request request = host_request(1, 32);
    put_le16(request.private_data + NVME_RDMA_REQUEST_OFF_HRQSIZE, 0);
    expect_rejected(&request, NVME_RDMA_INVALID_HRQSIZE);
}

static void a_host_that_answers_no_reads_is_rejected(void **state)
{
    struct host_request request = host_request(0, 32);
    request.responder_resources = 0;
    expect_rejected(&request, NVME_RDMA_INVALID_IRD);
}

/* ---- data ------------------------------------------------------------------------------------ */

static void data_are_read_and_written_where_the_descriptor_says(void **state)
{
    struct session session;
    struct host *host = &session.io;
    session_begin(&session, &node, QUEUE);
    uint32_t lens[] = {BLOCK, 4096, 64 << 10, HOST_DATA_LEN};
    for (unsigned i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        fill(host->data, lens[i], i);
        host_io(host, NVME_IO_WRITE, 1000, lens[i]);
        assert_int_equal(host_run(host, NVME_SQE_LEN, NULL), NVME_OK);
        memset(host->data, 0xee, lens[i]);
        host_io(host, NVME_IO_READ, 1000, lens[i]);
        assert_int_equal(host_run(host, NVME_SQE_LEN, NULL), NVME_OK);
        expect_filled(host->data, lens[i], i);
    }
    session_end(&session);
}

// More than the queue's own memory has room for: in pieces, and one response behind them.
static void a_log_is_as_long_as_it_is_asked_for(void **state)
{
    struct session session;
    struct host *host = &session.admin;
    session_begin(&session, &node, QUEUE);
    uint32_t lens[] = {512, NVME_SCRATCH_LEN + 4, HOST_DATA_LEN, 512};
    for (unsigned i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        memset(host->data, 0xee, HOST_DATA_LEN);
        uint8_t *sqe = host_sqe(host, NVME_ADMIN_GET_LOG_PAGE);
        sqe[NVME_GET_LOG_OFF_LID] = NVME_LOG_FIRMWARE;
        put_le16(sqe + NVME_GET_LOG_OFF_NUMDL, (uint16_t)(lens[i] / 4 - 1));
        put_le16(sqe + NVME_GET_LOG_OFF_NUMDU, (uint16_t)((lens[i] / 4 - 1) >> 16));
        sqe_keyed(sqe, (uintptr_t)host->data, lens[i], host->mr->rkey);
        assert_int_equal(host_run(host, NVME_SQE_LEN, NULL), NVME_OK);
        assert_int_equal(host->data[NVME_FIRMWARE_OFF_ACTIVE], 1);
        assert_memory_equal(host->data + NVME_FIRMWARE_OFF_SLOTS, "1       ", 8);
        for (uint32_t at = NVME_FIRMWARE_OFF_SLOTS + 8; at < HOST_DATA_LEN; at++) {
            assert_int_equal(host->data[at], at < lens[i] ? 0 : 0xee);
        }
    }
    session_end(&session);
}

static void data_in_the_capsule_are_written_from_their_offset(void **state)
{
    struct session session;
    struct host *host = &session.io;
    session_begin(&session, &node, QUEUE);
    uint8_t *sqe = host_io(host, NVME_IO_WRITE, 7, 2 * BLOCK);
    sqe_in_capsule(sqe, 256, 2 * BLOCK);
    fill(sqe + NVME_SQE_LEN + 256, 2 * BLOCK, 5);
    assert_int_equal(host_run(host, NVME_SQE_LEN + 256 + 2 * BLOCK, NULL), NVME_OK);
    host_io(host, NVME_IO_READ, 7, 2 * BLOCK);
    assert_int_equal(host_run(host, NVME_SQE_LEN, NULL), NVME_OK);
    expect_filled(host->data, 2 * BLOCK, 5);
    session_end(&session);
}

static uint64_t be_number(const struct iovec *pieces, unsigned piece, size_t at)
{
    return ((uint8_t *)pieces[piece].iov_base)[at];
}

// Memory in pieces, never registered: the capsule's header names it, the response closes it.
static void memory_that_the_capsule_advertises_is_closed_by_the_response(void **state)
{
    struct session session;
    struct host *host = &session.io;
    struct weft_oneshot_wr *bad;
    static uint8_t one[3000], two[1096];
    struct iovec pieces[] = {{one, sizeof one}, {two, sizeof two}};
    session_begin(&session, &node, QUEUE);
    if (host->oneshot.post == NULL || host->oneshot.agreed(host->id->qp) < 3) {
        session_end(&session);
        print_message("SKIP: one-shot RDMA is off\n");
        skip();
    }
    fill(host->data, 4096, 9);
    host_io(host, NVME_IO_WRITE, 80, 4096);
    assert_int_equal(host_run(host, NVME_SQE_LEN, NULL), NVME_OK);
    uint8_t *sqe = host_io(host, NVME_IO_READ, 80, 4096);
    sqe_keyed(sqe, 0, 4096, 0);
    sqe[NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_ID] = NVME_SGL_KEYED_INVALIDATE;
    struct weft_oneshot_wr wr = {
        .access = IBV_ACCESS_REMOTE_WRITE,
        .reference = host->cid,
        .memory = pieces,
        .memory_count = 2,
        .body = {.addr = (uintptr_t)sqe, .length = NVME_SQE_LEN, .lkey = host->mr->lkey}};
    assert_int_equal(host->oneshot.post(host->id->qp, &wr, &bad), 0);
    uint8_t cqe[NVME_CQE_LEN];
    uint32_t stag;
    assert_true(host_answer(host, cqe));
    assert_int_equal(cqe_status(cqe), NVME_OK);
    assert_true(host->oneshot.wc_closed(&host->answer_wc, &stag));
    assert_int_equal(stag, wr.stag);
    expect_filled(one, sizeof one, 9);
    for (size_t i = 0; i < sizeof two; i++) {
        size_t at = sizeof one + i;
        assert_int_equal(be_number(pieces, 1, i), (uint8_t)(at * 31 + 9 + (at >> 9)));
    }
    assert_int_equal(node_number(&node, "oneshots"), 1);
    session_end(&session);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void descriptors_that_cannot_be_are_refused_by_status(void **state)
{
    struct session session;
    struct host *host = &session.io;
    session_begin(&session, &node, QUEUE);
    const struct {
        uint8_t id;
        uint64_t address;
        uint32_t len;
        uint16_t status;
    } cases[] = {
        {0x00, 0, 4096, NVME_INVALID_SGL_TYPE},                     // unkeyed address
        {NVME_SGL_TRANSPORT, 0, 4096, NVME_INVALID_SGL_TYPE},       // TCP's
        {0xff, 0, 4096, NVME_INVALID_SGL_TYPE},                     // nobody's
        {NVME_SGL_KEYED, 1, 4095, NVME_INVALID_SGL_LENGTH},         // less than the data
        {NVME_SGL_KEYED, 1, 0, NVME_INVALID_SGL_LENGTH},            // nothing
        {NVME_SGL_KEYED, UINT64_MAX - 9, 4096, NVME_INVALID_FIELD}, // wraps
        {NVME_SGL_IN_CAPSULE, 0, 4096, NVME_INVALID_SGL_OFFSET},    // no data in this capsule
        {NVME_SGL_IN_CAPSULE, UINT64_MAX, 4096, NVME_INVALID_SGL_OFFSET},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t *sqe = host_io(host, NVME_IO_WRITE, 0, 4096);
        sqe_keyed(sqe, cases[i].address, cases[i].len, host->mr->rkey);
        sqe[NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_ID] = cases[i].id;
        if (cases[i].id != NVME_SGL_KEYED) {
            put_le32(sqe + NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_LENGTH, cases[i].len);
        }
        uint16_t status = host_run(host, NVME_SQE_LEN, NULL);
        if (status != cases[i].status) {
            fail_msg("case %u: status 0x%x", i, status);
        }
    }
    expect_works(host, 11);
    session_end(&session);
}

static void offsets_beyond_the_capsule_are_refused(void **state)
{
    struct session session;
    struct host *host = &session.io;
    session_begin(&session, &node, QUEUE);
    const struct {
        uint64_t offset;
        uint32_t capsule_len;
    } cases[] = {{1, 4096}, {4096, 4096}, {4097, 4096}, {0, 4095}, {UINT32_MAX, 4096}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t *sqe = host_io(host, NVME_IO_WRITE, 0, 4096);
        sqe_in_capsule(sqe, cases[i].offset, 4096);
        assert_int_equal(host_run(host, NVME_SQE_LEN + cases[i].capsule_len, NULL),
                         NVME_INVALID_SGL_OFFSET);
    }
    expect_works(host, 12);
    session_end(&session);
}

// A capsule has no room for what is read: the data would go to an address with no key.
static void data_are_not_read_into_a_capsule(void **state)
{
    struct session session;
    struct host *host = &session.io;
    session_begin(&session, &node, QUEUE);
    sqe_in_capsule(host_io(host, NVME_IO_READ, 0, 4096), 0, 4096);
    assert_int_equal(host_run(host, NVME_SQE_LEN + 4096, NULL), NVME_INVALID_SGL_TYPE);
    expect_works(host, 13);
    session_end(&session);
}

// Anything at all, but for memory that the host does not have, which RDMA itself refuses.
static uint32_t random_capsule(struct host *host, struct prng *prng)
{
    static const uint8_t opcodes[] = {NVME_IO_FLUSH,
                                      NVME_IO_WRITE,
                                      NVME_IO_READ,
                                      NVME_IO_WRITE_ZEROES,
                                      NVME_IO_DATASET_MANAGEMENT,
                                      0x05,
                                      0x0d,
                                      0xff};
    uint8_t *sqe = host_sqe(host, opcodes[prng_below(prng, sizeof opcodes)]);
    for (unsigned i = NVME_SQE_OFF_NSID; i < HOST_CAPSULE_LEN / 2; i++) {
        sqe[i] = (uint8_t)prng_next(prng);
    }
    if (prng_below(prng, 8) > 0) {
        put_le32(sqe + NVME_SQE_OFF_NSID, 1);
        put_le64(sqe + NVME_RW_OFF_SLBA, prng_below(prng, 140000));
        put_le32(sqe + NVME_RW_OFF_NLB, (uint32_t)prng_below(prng, 3000));
    }
    uint32_t len = (uint32_t)prng_below(prng, HOST_DATA_LEN + 1);
    if (prng_below(prng, 2) > 0) {
        sqe_keyed(sqe, (uintptr_t)host->data + HOST_DATA_LEN - len, len, host->mr->rkey);
    } else {
        sqe_in_capsule(sqe, prng_below(prng, 5000), (uint32_t)prng_below(prng, 5000));
    }
    sqe[NVME_SQE_OFF_FLAGS] ^= (uint8_t)(prng_below(prng, 16) == 0 ? prng_next(prng) : 0);
    sqe[NVME_SQE_OFF_FLAGS] &= (uint8_t)~NVME_SQE_FUSE_FIRST; // such a one waits for its second
    return NVME_SQE_LEN + (uint32_t)prng_below(prng, 4097);
}

// What is expected is read from the first block of the host's data, what is new from the next.
static void fused_run(struct host *host, uint16_t ret_statuses[2])
{
    uint8_t cqe[NVME_CQE_LEN];
    host_io(host, NVME_IO_COMPARE, 80, BLOCK)[NVME_SQE_OFF_FLAGS] |= NVME_SQE_FUSE_FIRST;
    host_send(host, NVME_SQE_LEN);
    assert_true(host_wait(host)); // it has left: its memory is free
    uint8_t *sqe = host_io(host, NVME_IO_WRITE, 80, BLOCK);
    sqe[NVME_SQE_OFF_FLAGS] |= NVME_SQE_FUSE_SECOND;
    sqe_keyed(sqe, (uintptr_t)host->data + BLOCK, BLOCK, host->mr->rkey);
    host_send(host, NVME_SQE_LEN);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(host_answer(host, cqe));
        ret_statuses[get_le16(cqe + NVME_CQE_OFF_CID) == host->cid] = cqe_status(cqe);
    }
}

static void a_fused_pair_fetches_what_both_commands_name(void **state)
{
    struct session session;
    struct host *host = &session.io;
    uint16_t statuses[2];
    session_begin(&session, &node, QUEUE);
    fill(host->data, BLOCK, 21);
    host_io(host, NVME_IO_WRITE, 80, BLOCK);
    assert_int_equal(host_run(host, NVME_SQE_LEN, NULL), NVME_OK);
    fill(host->data + BLOCK, BLOCK, 22);
    fused_run(host, statuses);
    assert_int_equal(statuses[0], NVME_OK);
    assert_int_equal(statuses[1], NVME_OK);
    fused_run(host, statuses); // what it expects is there no more
    assert_int_equal(statuses[0], NVME_COMPARE_FAILURE);
    assert_int_equal(statuses[1], NVME_FAILED_FUSED);
    memcpy(host->data, host->data + BLOCK, BLOCK);
    host_io(host, NVME_IO_COMPARE, 80, BLOCK);
    assert_int_equal(host_run(host, NVME_SQE_LEN, NULL), NVME_OK);
    session_end(&session);
}

static void capsules_of_random_octets_are_answered_one_by_one(void **state)
{
    struct session session;
    struct host *host = &session.io;
    struct prng prng;
    prng_init(&prng, 2026);
    session_begin(&session, &node, QUEUE);
    for (unsigned i = 0; i < 2000; i++) {
        host_run(host, random_capsule(host, &prng), NULL);
    }
    expect_works(host, 13);
    session_end(&session);
}

// It cannot be answered: nothing in it says which command it is.
static void a_capsule_of_less_than_a_command_ends_the_connection(void **state)
{
    struct session session;
    uint8_t cqe[NVME_CQE_LEN];
    session_begin(&session, &node, QUEUE);
    host_io(&session.io, NVME_IO_READ, 0, 4096);
    host_send(&session.io, NVME_SQE_LEN - 1);
    assert_false(host_answer(&session.io, cqe));
    node_await(&node, "malformed_capsules", 1);
    session_end(&session);
    expect_node_serves();
}

// The RNIC has no place for it.
static void a_capsule_longer_than_the_receive_ends_the_connection(void **state)
{
    struct session session;
    uint8_t cqe[NVME_CQE_LEN];
    session_begin(&session, &node, QUEUE);
    host_io(&session.io, NVME_IO_WRITE, 0, 8192);
    host_send(&session.io, NVME_SQE_LEN + 8192);
    assert_false(host_answer(&session.io, cqe));
    session_end(&session);
    expect_node_serves();
}

// RDMA itself refuses that, by ending the connection; only the one that asked for it.
static void an_stag_from_nowhere_ends_its_connection_alone(void **state)
{
    const uint8_t opcodes[] = {NVME_IO_WRITE, NVME_IO_READ};
    struct session other;
    session_begin(&other, &node, QUEUE);
    for (unsigned i = 0; i < 2; i++) {
        struct session session;
        uint8_t cqe[NVME_CQE_LEN];
        session_begin(&session, &node, QUEUE);
        uint8_t *sqe = host_io(&session.io, opcodes[i], 0, 4096);
        sqe_keyed(sqe, (uintptr_t)session.io.data, 4096, session.io.mr->rkey ^ 0x5a5a5a00);
        host_send(&session.io, NVME_SQE_LEN);
        assert_false(host_answer(&session.io, cqe));
        session_end(&session);
        expect_works(&other.io, i);
    }
    session_end(&other);
    node_await(&node, "pool_taken", 0);
}

/* ---- more than agreed, and gone -------------------------------------------------------------- */

// Twice as many commands as the queue has find a receive; the rest wait in the RNIC.
static void more_commands_than_the_queue_has_are_answered_all_the_same(void **state)
{
    enum { DEPTH = 4, COUNT = 24 };
    struct session session;
    uint8_t cqe[NVME_CQE_LEN];
    session_begin(&session, &node, DEPTH);
    for (unsigned i = 0; i < COUNT; i++) {
        host_io(&session.io, NVME_IO_READ, i, BLOCK);
        host_send(&session.io, NVME_SQE_LEN);
        assert_true(host_wait(&session.io) && session.io.answer_wc.opcode == IBV_WC_SEND);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_true(host_answer(&session.io, cqe));
        assert_int_equal(cqe_status(cqe), NVME_OK);
    }
    session_end(&session);
}

static void a_host_that_leaves_with_commands_under_way_leaves_nothing_behind(void **state)
{
    for (unsigned round = 0; round < 3; round++) {
        struct session session;
        session_begin(&session, &node, QUEUE);
        for (unsigned i = 0; i < 8; i++) {
            host_io(&session.io, i % 2 ? NVME_IO_READ : NVME_IO_WRITE, 8 * i, 4096);
            host_send(&session.io, NVME_SQE_LEN);
            assert_true(host_wait(&session.io));
        }
        if (round == 1) {
            rdma_disconnect(session.io.id);
        }
        session_end(&session);
    }
    node_await(&node, "connections", 0);
    node_await(&node, "pool_taken", 0);
    expect_node_serves();
}

// A process that dies says goodbye to nobody; its data were asked for.
static void a_host_that_is_killed_in_the_middle_of_a_write_leaves_nothing_behind(void **state)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct session session;
        session_begin(&session, &node, QUEUE);
        for (unsigned i = 0; i < 8; i++) {
            host_io(&session.io, NVME_IO_WRITE, 0, HOST_DATA_LEN);
            host_send(&session.io, NVME_SQE_LEN);
            host_wait(&session.io);
        }
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    node_await(&node, "connections", 0);
    node_await(&node, "pool_taken", 0);
    expect_node_serves();
}

static void a_node_that_ends_with_commands_under_way_ends(void **state)
{
    struct session session;
    session_begin(&session, &node, QUEUE);
    for (unsigned i = 0; i < 8; i++) {
        host_io(&session.io, NVME_IO_READ, 8 * i, 4096);
        host_send(&session.io, NVME_SQE_LEN);
    }
    node_stop(&node);
    while (host_wait(&session.io)) {
    }
    session_end(&session);
    node_start(&node, "ram:64M");
}

int main(void)
{
    const struct CMUnitTest fast[] = {
        cmocka_unit_test(a_request_with_too_little_private_data_is_rejected),
        cmocka_unit_test(a_request_in_another_format_is_rejected),
        cmocka_unit_test(a_request_for_a_queue_with_too_high_a_number_is_rejected),
        cmocka_unit_test(a_request_for_a_queue_too_long_or_too_short_is_rejected),
        cmocka_unit_test(an_admin_queue_may_be_as_long_as_any),
        cmocka_unit_test(a_host_without_room_for_responses_is_rejected),
        cmocka_unit_test(a_host_that_answers_no_reads_is_rejected),
        cmocka_unit_test(data_are_read_and_written_where_the_descriptor_says),
        cmocka_unit_test(a_log_is_as_long_as_it_is_asked_for),
        cmocka_unit_test(data_in_the_capsule_are_written_from_their_offset),
        cmocka_unit_test(memory_that_the_capsule_advertises_is_closed_by_the_response),
        cmocka_unit_test(descriptors_that_cannot_be_are_refused_by_status),
        cmocka_unit_test(offsets_beyond_the_capsule_are_refused),
        cmocka_unit_test(data_are_not_read_into_a_capsule),
        cmocka_unit_test(a_fused_pair_fetches_what_both_commands_name),
        cmocka_unit_test(capsules_of_random_octets_are_answered_one_by_one),
        cmocka_unit_test(a_capsule_of_less_than_a_command_ends_the_connection),
        cmocka_unit_test(a_capsule_longer_than_the_receive_ends_the_connection),
        cmocka_unit_test(an_stag_from_nowhere_ends_its_connection_alone),
    };
    const struct CMUnitTest slow[] = {
        cmocka_unit_test(more_commands_than_the_queue_has_are_answered_all_the_same),
        cmocka_unit_test(a_host_that_leaves_with_commands_under_way_leaves_nothing_behind),
        cmocka_unit_test(a_host_that_is_killed_in_the_middle_of_a_write_leaves_nothing_behind),
        cmocka_unit_test(a_node_that_ends_with_commands_under_way_ends),
    };
    int failed = cmocka_run_group_tests_name("one host", fast, start, stop);
    return failed + cmocka_run_group_tests_name("a slow device", slow, start_slow, stop);
}
