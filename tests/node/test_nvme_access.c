// Asymmetric access: what hosts are told of the paths to a namespace, octet by octet.

#include "node/nvme/agent.h"
#include "tests/node/nvme_stage.h"

enum { EVENTS = 0x0b };

static struct stage *stage_group_create(enum resource_state second)
{
    struct stage *s = stage_create(VOLUME_CAN_WRITE);
    stage_group(s);
    s->rows[1].state = second;
    return s;
}

// What is delivered of the log, which stays in the scratch.
static const uint8_t *log_get(struct line *line, uint8_t lsp, uint64_t from, uint32_t len)
{
    uint8_t sqe[NVME_SQE_LEN];
    sqe_fill(line, sqe, NVME_ADMIN_GET_LOG_PAGE, len);
    put_le32(sqe + NVME_SQE_OFF_NSID, NVME_NSID_ALL);
    sqe[NVME_GET_LOG_OFF_LID] = NVME_LOG_ANA;
    sqe[NVME_GET_LOG_OFF_LSP] = lsp;
    put_le16(sqe + NVME_GET_LOG_OFF_NUMDL, (uint16_t)(len / 4 - 1));
    put_le64(sqe + NVME_GET_LOG_OFF_LPO, from);
    line_send(line, sqe);
    return line->scratch;
}

static void each_namespace_is_a_group_with_a_state(void **unused)
{
    static const uint8_t wanted[16 + 3 * 36] = {
        [8] = 3, // groups, unchanged
        [16] = 1, [20] = 1, [32] = 1, [48] = 1, [52] = 2,  [56] = 1,
        [68] = 3, [84] = 2, [88] = 3, [92] = 1, [104] = 1, [120] = 3,
    };
    struct stage *s = stage_group_create(RESOURCE_STANDBY);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    assert_memory_equal(log_get(admin, 0, 0, sizeof wanted), wanted, sizeof wanted);
    assert_memory_equal(log_get(admin, 0, 52, 36), wanted + 52, 36);
    line_end(admin);
    stage_destroy(s);
}

// Hosts make its length of NANAGRPID, 256, and read it in pieces: behind what there is are zeroes.
static void the_log_is_as_long_as_it_may_become(void **unused)
{
    enum { LEN = 16 + 256 * (32 + 4), PIECE = 4096 };
    static const uint8_t nothing[PIECE];
    struct stage *s = stage_group_create(RESOURCE_READY);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    memset(admin->scratch, 1, PIECE);
    assert_memory_equal(log_get(admin, 0, PIECE, PIECE), nothing, PIECE);
    assert_int_equal(line_answer(admin).status, NVME_OK);
    log_get(admin, 0, LEN, 4);
    assert_int_equal(line_answer(admin).status, NVME_OK);
    log_get(admin, 0, LEN + 4, 4);
    assert_int_equal(line_answer(admin).status, NVME_INVALID_FIELD);
    line_end(admin);
    stage_destroy(s);
}

static void groups_alone_have_no_namespaces(void **unused)
{
    static const uint8_t wanted[16 + 3 * 32 + 4] = {
        [8] = 3, [16] = 1, [32] = 1, [48] = 2, [64] = 3, [80] = 3, [96] = 1,
    };
    struct stage *s = stage_group_create(RESOURCE_STANDBY);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    assert_memory_equal(log_get(admin, NVME_GET_LOG_RGO, 0, sizeof wanted), wanted, sizeof wanted);
    line_end(admin);
    stage_destroy(s);
}

static const struct {
    enum resource_state before, after;
    bool is_told;
    uint8_t state;
} changes[] = {
    {RESOURCE_READY, RESOURCE_STANDBY, true, NVME_ANA_STATE_INACCESSIBLE},
    {RESOURCE_STANDBY, RESOURCE_READY, true, NVME_ANA_STATE_OPTIMIZED},
    {RESOURCE_STANDBY, RESOURCE_STANDBY, false, NVME_ANA_STATE_INACCESSIBLE},
    {RESOURCE_READY, RESOURCE_NOT_READY, false, NVME_ANA_STATE_OPTIMIZED}, // one node's: it waits
    {RESOURCE_NOT_READY, RESOURCE_READY, false, NVME_ANA_STATE_OPTIMIZED},
};

static void hosts_are_told_of_changes_of_state_and_of_nothing_else(void **unused)
{
    for (unsigned i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct stage *s = stage_group_create(changes[i].before);
        uint16_t cntlid;
        struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid);
        uint8_t sqe[NVME_SQE_LEN];
        sqe_fill(admin, sqe, NVME_ADMIN_SET_FEATURES, 0);
        put_le32(sqe + NVME_SQE_OFF_CDW10, EVENTS);
        put_le32(sqe + NVME_SQE_OFF_CDW11, NVME_EVENT_ANA_CHANGE | NVME_EVENT_NAMESPACE_ATTRIBUTES);
        line_send(admin, sqe);
        sqe_fill(admin, sqe, NVME_ADMIN_ASYNC_EVENT_REQUEST, 0);
        line_send(admin, sqe);
        unsigned before = admin->answer_count;
        s->rows[1].state = changes[i].after;
        stage_advertise(s);
        assert_int_equal(admin->answer_count - before, changes[i].is_told);
        assert_true(!changes[i].is_told || line_answer(admin).result == 0x000c0302);
        const uint8_t *log = log_get(admin, 0, 0, 16 + 3 * 36);
        assert_int_equal(get_le64(log), changes[i].is_told);
        assert_int_equal(get_le64(log + 52 + 8), changes[i].is_told);
        assert_int_equal(log[52 + 16], changes[i].state);
        line_end(admin);
        stage_destroy(s);
    }
}

static void a_command_by_a_path_that_is_none_may_be_tried_by_another(void **unused)
{
    struct stage *s = stage_create(VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH);
    uint16_t cntlid;
    struct line *admin = admin_open(s, STAGE_HOST, 0, &cntlid), *io = line_open(s);
    uint8_t sqe[NVME_SQE_LEN];
    assert_int_equal(line_connect(io, STAGE_HOST, 1, cntlid, 0).status, NVME_OK);
    sqe_fill(io, sqe, NVME_IO_FLUSH, 0);
    line_send(io, sqe);
    stage_complete(s, stage_take(s), NODE_STANDBY);
    assert_int_equal(line_answer(io).status, 0x302);
    assert_false(line_answer(io).is_final);
    line_end(io);
    line_end(admin);
    stage_destroy(s);
}

static void controllers_are_numbered_from_where_the_operator_says(void **unused)
{
    struct stage *s = stage_create(VOLUME_CAN_WRITE);
    s->target->cntlid_min = 1000;
    uint16_t first, second;
    struct line *one = admin_open(s, STAGE_HOST, 0, &first);
    struct line *two = admin_open(s, STAGE_HOST, 0, &second), *io = line_open(s);
    assert_int_equal(first, 1000);
    assert_int_equal(second, 1001);
    assert_int_not_equal(line_connect(io, STAGE_HOST, 1, 1, 0).status, NVME_OK);
    assert_int_not_equal(line_connect(io, STAGE_HOST, 1, 1256, 0).status, NVME_OK);
    assert_int_equal(line_connect(io, STAGE_HOST, 1, 1001, 0).status, NVME_OK);
    line_end(io);
    line_end(two);
    line_end(one);
    stage_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_namespace_is_a_group_with_a_state),
        cmocka_unit_test(the_log_is_as_long_as_it_may_become),
        cmocka_unit_test(groups_alone_have_no_namespaces),
        cmocka_unit_test(hosts_are_told_of_changes_of_state_and_of_nothing_else),
        cmocka_unit_test(a_command_by_a_path_that_is_none_may_be_tried_by_another),
        cmocka_unit_test(controllers_are_numbered_from_where_the_operator_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
