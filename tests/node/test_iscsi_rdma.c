// The iSCSI targets over one-shot RDMA against initiators that keep to docs/iscsi.md, that do not,
// and that go away.
#include "tests/node/iscsi_rdma_host.h"

static struct node node;

static int start(void **state)
{
    iscsi_node_start(&node, "ram:64M", NULL);
    return 0;
}

// Slow enough that what a test does meanwhile comes first.
static int start_slow(void **state)
{
    iscsi_node_start(&node, "delay+ram:64M?delay.read=300ms&delay.write=300ms", NULL);
    return 0;
}

static int stop(void **state)
{
    node_stop(&node);
    return 0;
}

static long long counter(const char *name)
{
    return node_number_of(&node, "iscsi_rdma", name);
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

// Writes and reads back: the session is as good as new.
static void expect_works(struct initiator *host, uint32_t len, unsigned seed)
{
    fill(host->data, len, seed);
    assert_int_equal(initiator_do(host, true, 64, len), 0);
    memset(host->data, 0, len);
    assert_int_equal(initiator_do(host, false, 64, len), 0);
    expect_filled(host->data, len, seed);
}

static void expect_node_serves(void)
{
    struct initiator host;
    session_begin(&host, &node);
    expect_works(&host, 8 * BLOCK, 3);
    initiator_leave(&host);
}

// The connection of `host` is over, by this counter, and nobody else's.
static void expect_ended(struct initiator *host, const char *name, long long before)
{
    assert_null(initiator_wait(host));
    assert_int_equal(counter(name), before + 1);
    initiator_leave(host);
    expect_node_serves();
}

/* ---- login ----------------------------------------------------------------------------------- */

static bool has_pair(const uint8_t *answer, const char *pair)
{
    const char *data = (const char *)answer + ISCSI_HEADER_LEN;
    uint32_t len = get_be24(answer + ISCSI_OFF_DATA_LEN);
    for (uint32_t at = 0; at < len; at += (uint32_t)strlen(data + at) + 1) {
        if (strcmp(data + at, pair) == 0) {
            return true;
        }
    }
    return false;
}

static void login_settles_what_holds_over_rdma(void **state)
{
    static const char *const settled[] = {
        "HeaderDigest=None", "DataDigest=None",  "MaxRecvDataSegmentLength=8192",
        KEY_ONESHOT,         "ImmediateData=No", "InitialR2T=Yes"};
    struct initiator host;
    initiator_meet(&host, &node);
    login_send(&host, node.name,
               "HeaderDigest=CRC32C,None DataDigest=CRC32C,None ImmediateData=Yes InitialR2T=No "
               "MaxRecvDataSegmentLength=65536 " KEY_ONESHOT);
    const uint8_t *answer = initiator_expect(&host, ISCSI_LOGIN_RESPONSE);
    assert_int_equal(get_be16(answer + ISCSI_LOGIN_OFF_STATUS), ISCSI_LOGIN_OK);
    for (unsigned i = 0; i < sizeof settled / sizeof settled[0]; i++) {
        assert_true(has_pair(answer, settled[i]));
    }
    initiator_leave(&host);
}

static void expect_refused(const char *target, const char *keys, uint16_t status)
{
    struct initiator host;
    long long before = counter("refused");
    initiator_meet(&host, &node);
    assert_int_equal(initiator_login(&host, target, keys), status);
    assert_null(initiator_wait(&host));
    assert_true(counter("refused") == before + 1);
    initiator_leave(&host);
}

static void a_login_that_lends_no_memory_is_refused(void **state)
{
    expect_refused(node.name, "", ISCSI_MISSING_PARAMETER);
    expect_refused(NULL, "", ISCSI_MISSING_PARAMETER);
    expect_refused(node.name, "X-invalid.weft.oneshot=No", ISCSI_MISSING_PARAMETER);
    expect_node_serves();
}

static void a_login_that_makes_no_sense_is_refused(void **state)
{
    expect_refused(node.name, "X-invalid.weft.oneshot=Perhaps", ISCSI_INITIATOR_ERROR);
    expect_refused(node.name, "HeaderDigest=CRC32C " KEY_ONESHOT, ISCSI_INITIATOR_ERROR);
    expect_refused("iqn.2026-11.test:nosuch", KEY_ONESHOT, ISCSI_TARGET_NOT_FOUND);
    expect_node_serves();
}

static void who_has_not_logged_in_gets_nothing(void **state)
{
    static const uint8_t opcodes[] = {ISCSI_SCSI_COMMAND, ISCSI_NOP_OUT, ISCSI_TEXT_REQUEST,
                                      ISCSI_DATA_OUT, 0x3f};
    for (unsigned i = 0; i < sizeof opcodes; i++) {
        struct initiator host;
        long long before = counter("malformed");
        initiator_meet(&host, &node);
        initiator_pdu(&host, opcodes[i], ISCSI_FINAL);
        initiator_send(&host, ISCSI_HEADER_LEN);
        expect_ended(&host, "malformed", before);
    }
}

static void an_initiator_whose_memory_nobody_may_read_is_rejected(void **state)
{
    struct initiator host;
    long long before = counter("refused");
    assert_false(initiator_meet_with(&host, node.port, 0));
    assert_int_equal(counter("refused"), before + 1);
    initiator_leave(&host);
}

static void discovery_lists_the_target_and_where_it_is(void **state)
{
    static const char all[] = "SendTargets=All";
    struct initiator host;
    char name[256], address[64];
    snprintf(name, sizeof name, "TargetName=%s", node.name);
    snprintf(address, sizeof address, "TargetAddress=127.0.0.1:%u,1", node.port);
    initiator_meet(&host, &node);
    assert_int_equal(initiator_login(&host, NULL, KEY_ONESHOT), ISCSI_LOGIN_OK);
    initiator_pdu(&host, ISCSI_TEXT_REQUEST, ISCSI_FINAL);
    put_be32(host.pdu + ISCSI_OFF_TTT, ISCSI_NO_TAG);
    initiator_send(&host, initiator_data(&host, all, sizeof all));
    const uint8_t *answer = initiator_expect(&host, ISCSI_TEXT_RESPONSE);
    assert_true(has_pair(answer, name) && has_pair(answer, address));
    initiator_leave(&host);
}

/* ---- data ------------------------------------------------------------------------------------ */

static void data_move_through_what_the_command_lends_and_the_answer_closes(void **state)
{
    static const uint32_t lens[] = {BLOCK, 8 * BLOCK, 100 * BLOCK, INITIATOR_DATA_LEN};
    struct initiator host;
    long long commands = counter("closes"), fetched = counter("fetched"),
              advertised = counter("oneshots"), len = 0;
    session_begin(&host, &node);
    for (unsigned i = 0; i < 4; i++) {
        expect_works(&host, lens[i], i);
        len += lens[i];
    }
    assert_int_equal(counter("closes"), commands + 8);
    assert_int_equal(counter("oneshots"), advertised + 8 * host.is_in_header);
    assert_int_equal(counter("fetched"), fetched + len);
    initiator_leave(&host);
}

// Nothing of it lies in the pool.
static void what_the_device_says_of_itself_is_delivered_too(void **state)
{
    struct initiator host;
    session_begin(&host, &node);
    uint8_t *pdu = initiator_pdu(&host, ISCSI_SCSI_COMMAND, ISCSI_FINAL | ISCSI_CMD_READ);
    put_be32(pdu + ISCSI_CMD_OFF_EXPECTED_LEN, 8);
    pdu[ISCSI_CMD_OFF_CDB] = 0x25;
    initiator_lend(&host, 0, 8, IBV_ACCESS_REMOTE_WRITE);
    assert_int_equal(initiator_expect(&host, ISCSI_SCSI_RESPONSE)[ISCSI_RSP_OFF_STATUS], 0);
    assert_int_equal(get_be32(host.data), (64 << 20) / BLOCK - 1);
    assert_int_equal(get_be32(host.data + 4), BLOCK);
    initiator_leave(&host);
}

static void what_is_more_or_less_than_expected_is_told(void **state)
{
    struct initiator host;
    session_begin(&host, &node);
    initiator_io(&host, false, 0, BLOCK);
    put_be32(host.pdu + ISCSI_CMD_OFF_EXPECTED_LEN, 3 * BLOCK);
    initiator_lend(&host, 0, 3 * BLOCK, IBV_ACCESS_REMOTE_WRITE);
    const uint8_t *answer = initiator_expect(&host, ISCSI_SCSI_RESPONSE);
    assert_int_equal(answer[ISCSI_OFF_FLAGS], ISCSI_FINAL | ISCSI_UNDERFLOW);
    assert_int_equal(get_be32(answer + ISCSI_RSP_OFF_RESIDUAL), 2 * BLOCK);
    initiator_leave(&host);
}

static void an_error_closes_what_was_lent_and_says_why(void **state)
{
    struct initiator host;
    uint32_t closed;
    session_begin(&host, &node);
    initiator_io(&host, false, 1 << 30, BLOCK);
    uint32_t stag = initiator_lend(&host, 0, BLOCK, IBV_ACCESS_REMOTE_WRITE);
    const uint8_t *answer = initiator_expect(&host, ISCSI_SCSI_RESPONSE);
    assert_int_equal(answer[ISCSI_RSP_OFF_STATUS], 2);
    assert_int_equal(get_be24(answer + ISCSI_OFF_DATA_LEN), 2 + 18);
    assert_int_equal(answer[ISCSI_HEADER_LEN + 2 + 2], 5); // illegal request
    assert_true(weft_wc_closed(&host.wc, &closed) && closed == stag);
    expect_works(&host, BLOCK, 1);
    initiator_leave(&host);
}

// As many as there is room for, and again as soon as their answers are there.
static void a_full_window_is_answered_as_often_as_it_is_filled(void **state)
{
    enum { WINDOW = 64 };
    struct initiator host;
    session_begin(&host, &node);
    for (unsigned round = 0; round < 8; round++) {
        for (uint32_t i = 0; i < WINDOW; i++) {
            bool is_write = (i & 1) != 0;
            initiator_io(&host, is_write, 8 * i, 8 * BLOCK);
            initiator_lend(&host, 8 * BLOCK * i, 8 * BLOCK,
                           is_write ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
        }
        const uint8_t *answer = NULL;
        for (unsigned i = 0; i < WINDOW; i++) {
            answer = initiator_expect(&host, ISCSI_SCSI_RESPONSE);
            assert_int_equal(answer[ISCSI_RSP_OFF_STATUS], 0);
        }
        assert_int_equal(get_be32(answer + ISCSI_OFF_MAXCMDSN) + 1 - host.cmdsn, WINDOW);
    }
    initiator_leave(&host);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void a_send_that_is_no_pdu_ends_its_connection_alone(void **state)
{
    for (unsigned i = 0; i < 5; i++) {
        struct initiator host;
        session_begin(&host, &node);
        long long before = counter("malformed");
        initiator_pdu(&host, ISCSI_NOP_OUT, ISCSI_FINAL);
        const uint32_t lens[] = {ISCSI_HEADER_LEN - 1, ISCSI_HEADER_LEN, ISCSI_HEADER_LEN,
                                 ISCSI_HEADER_LEN + 4, 1};
        put_be24(host.pdu + ISCSI_OFF_DATA_LEN, i == 1 ? 0xffffff : 0);
        host.pdu[ISCSI_OFF_AHS_LEN] = i == 2 ? 0xff : 0;
        initiator_send(&host, lens[i]);
        expect_ended(&host, "malformed", before);
    }
}

static void a_send_longer_than_the_receive_ends_its_connection_alone(void **state)
{
    struct initiator host;
    session_begin(&host, &node);
    long long before = counter("broken");
    initiator_pdu(&host, ISCSI_NOP_OUT, ISCSI_FINAL);
    initiator_send(&host, 10 << 10);
    expect_ended(&host, "broken", before);
}

static void a_command_with_data_that_lends_nothing_ends_its_connection_alone(void **state)
{
    struct initiator host;
    session_begin(&host, &node);
    long long before = counter("unlent");
    initiator_io(&host, false, 0, BLOCK);
    initiator_send(&host, ISCSI_HEADER_LEN);
    expect_ended(&host, "unlent", before);
}

// A Read that fails is told to whoever reads, a Write over iWARP to the initiator alone.
static void expect_unreachable(bool is_write, size_t len, unsigned access)
{
    struct initiator host;
    session_begin(&host, &node);
    long long before = counter("bad_transfers");
    initiator_io(&host, is_write, 0, 8 * BLOCK);
    initiator_lend(&host, 0, len, access);
    assert_null(initiator_wait(&host));
    initiator_leave(&host);
    expect_node_serves();
    assert_true(!is_write || counter("bad_transfers") == before + 1);
}

static void memory_that_is_too_short_ends_its_connection_alone(void **state)
{
    expect_unreachable(false, 8 * BLOCK - 1, IBV_ACCESS_REMOTE_WRITE);
    expect_unreachable(true, 8 * BLOCK - 1, IBV_ACCESS_REMOTE_READ);
}

static void memory_of_the_wrong_right_ends_its_connection_alone(void **state)
{
    expect_unreachable(false, 8 * BLOCK, IBV_ACCESS_REMOTE_READ);
    expect_unreachable(true, 8 * BLOCK, IBV_ACCESS_REMOTE_WRITE);
}

static void what_a_stream_would_have_is_rejected(void **state)
{
    static const uint8_t opcodes[] = {ISCSI_DATA_OUT, ISCSI_SNACK_REQUEST};
    struct initiator host;
    session_begin(&host, &node);
    for (unsigned i = 0; i < 2; i++) {
        initiator_pdu(&host, opcodes[i], ISCSI_FINAL);
        host.cmdsn--;
        initiator_send(&host, ISCSI_HEADER_LEN);
        const uint8_t *answer = initiator_expect(&host, ISCSI_REJECT);
        assert_int_equal(answer[ISCSI_REJECT_OFF_REASON],
                         i == 0 ? ISCSI_REJECT_UNSUPPORTED : ISCSI_REJECT_SNACK);
    }
    expect_works(&host, BLOCK, 2);
    initiator_leave(&host);
}

// Its data might have come with it: over RDMA they do not.
static void immediate_data_are_rejected(void **state)
{
    static const uint8_t data[BLOCK];
    struct initiator host;
    session_begin(&host, &node);
    initiator_io(&host, true, 0, BLOCK);
    put_be32(host.pdu + ISCSI_CMD_OFF_EXPECTED_LEN, 0);
    initiator_send(&host, initiator_data(&host, data, sizeof data));
    initiator_expect(&host, ISCSI_REJECT);
    expect_works(&host, BLOCK, 2);
    initiator_leave(&host);
}

// More than there are places for answers, of which none is lost.
static void pings_are_answered_however_many(void **state)
{
    struct initiator host;
    session_begin(&host, &node);
    for (unsigned i = 0; i < 40; i++) {
        initiator_pdu(&host, ISCSI_NOP_OUT, ISCSI_FINAL);
        put_be32(host.pdu + ISCSI_OFF_TTT, ISCSI_NO_TAG);
        initiator_send(&host, initiator_data(&host, "ping", 4));
        usleep(i == 0 ? 1000 : 0);
        const uint8_t *answer = initiator_expect(&host, ISCSI_NOP_IN);
        assert_memory_equal(answer + ISCSI_HEADER_LEN, "ping", 4);
    }
    initiator_leave(&host);
}

static void a_logout_is_answered_and_ends_the_connection(void **state)
{
    struct initiator host;
    session_begin(&host, &node);
    initiator_pdu(&host, ISCSI_LOGOUT_REQUEST, ISCSI_FINAL | ISCSI_CLOSE_SESSION);
    initiator_send(&host, ISCSI_HEADER_LEN);
    assert_int_equal(initiator_expect(&host, ISCSI_LOGOUT_RESPONSE)[ISCSI_LOGOUT_OFF_RESPONSE],
                     ISCSI_LOGOUT_OK);
    assert_null(initiator_wait(&host));
    initiator_leave(&host);
    expect_node_serves();
}

/* ---- a slow device --------------------------------------------------------------------------- */

// Reads while it is there, then takes its memory back: nobody writes there any more.
static void an_aborted_command_gets_no_answer_and_its_memory_is_left_alone(void **state)
{
    struct initiator host;
    session_begin(&host, &node);
    memset(host.data, 0xa5, 8 * BLOCK);
    initiator_io(&host, false, 0, 8 * BLOCK);
    uint32_t itt = host.itt;
    uint32_t stag = initiator_lend(&host, 0, 8 * BLOCK, IBV_ACCESS_REMOTE_WRITE);
    initiator_pdu(&host, ISCSI_TASK_REQUEST | ISCSI_IMMEDIATE, ISCSI_FINAL | ISCSI_ABORT_TASK);
    put_be32(host.pdu + ISCSI_TASK_OFF_REFERENCED, itt);
    initiator_send(&host, ISCSI_HEADER_LEN);
    const uint8_t *answer = initiator_expect(&host, ISCSI_TASK_RESPONSE);
    assert_int_equal(answer[ISCSI_RSP_OFF_RESPONSE], ISCSI_TASK_COMPLETE);
    assert_int_equal(weft_oneshot_revoke(host.id->qp, stag), 0);
    for (unsigned i = 0; i < 8 * BLOCK; i++) {
        assert_int_equal(host.data[i], 0xa5);
    }
    assert_int_equal(initiator_do(&host, false, 0, 8 * BLOCK), 0);
    initiator_leave(&host);
}

static void an_initiator_that_leaves_with_commands_under_way_leaves_nothing_behind(void **state)
{
    struct initiator host;
    session_begin(&host, &node);
    for (uint32_t i = 0; i < 32; i++) {
        bool is_write = (i & 1) != 0;
        initiator_io(&host, is_write, 8 * i, 8 * BLOCK);
        initiator_lend(&host, 8 * BLOCK * i, 8 * BLOCK,
                       is_write ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
    }
    initiator_leave(&host);
    node_await(&node, "connections", 0);
    node_await(&node, "pool_taken", 0);
    expect_node_serves();
}

static void a_session_that_comes_back_ends_its_former_self(void **state)
{
    struct initiator former, host;
    session_begin(&former, &node);
    initiator_meet(&host, &node);
    struct rdma_cm_id *id = host.id;
    host.id = former.id; // whose number the ISID has
    char text[1024];
    uint32_t len = login_text(node.name, KEY_ONESHOT, text, sizeof text);
    host.id = id;
    initiator_pdu(&host, ISCSI_LOGIN_REQUEST | ISCSI_IMMEDIATE, LOGIN_FLAGS);
    host.pdu[ISCSI_LOGIN_OFF_ISID] = 0x80;
    put_be16(host.pdu + ISCSI_LOGIN_OFF_ISID + 4, (uint16_t)(uintptr_t)former.id);
    initiator_send(&host, initiator_data(&host, text, len));
    initiator_expect(&host, ISCSI_LOGIN_RESPONSE);
    assert_null(initiator_wait(&former));
    initiator_leave(&former);
    initiator_leave(&host);
}

// Ten seconds, however well everybody else does.
static void a_login_that_takes_its_time_is_ended_and_nobody_else(void **state)
{
    struct initiator silent, host;
    time_t began = time(NULL);
    long long before = counter("stalled");
    session_begin(&host, &node);
    initiator_meet(&silent, &node);
    assert_null(initiator_wait(&silent));
    assert_true(time(NULL) >= began + 8);
    assert_int_equal(counter("stalled"), before + 1);
    initiator_leave(&silent);
    assert_int_equal(initiator_do(&host, false, 0, BLOCK), 0);
    initiator_leave(&host);
}

static void a_node_that_ends_tells_its_initiators(void **state)
{
    struct initiator host;
    session_begin(&host, &node);
    node_stop(&node);
    const uint8_t *answer = initiator_expect(&host, ISCSI_ASYNC_MESSAGE);
    assert_int_equal(answer[ISCSI_ASYNC_OFF_EVENT], ISCSI_ASYNC_DROPS_ALL);
    assert_null(initiator_wait(&host));
    initiator_leave(&host);
    iscsi_node_start(&node, "ram:64M", NULL);
}

// With an argument: where no header has the STag, which then stands behind the PDU.
int main(int argc, char **argv)
{
    if (argc > 1) {
        setenv("WEFT_ONESHOT", "off", 1);
    }
    const struct CMUnitTest fast[] = {
        cmocka_unit_test(login_settles_what_holds_over_rdma),
        cmocka_unit_test(a_login_that_lends_no_memory_is_refused),
        cmocka_unit_test(a_login_that_makes_no_sense_is_refused),
        cmocka_unit_test(who_has_not_logged_in_gets_nothing),
        cmocka_unit_test(an_initiator_whose_memory_nobody_may_read_is_rejected),
        cmocka_unit_test(discovery_lists_the_target_and_where_it_is),
        cmocka_unit_test(data_move_through_what_the_command_lends_and_the_answer_closes),
        cmocka_unit_test(what_the_device_says_of_itself_is_delivered_too),
        cmocka_unit_test(what_is_more_or_less_than_expected_is_told),
        cmocka_unit_test(an_error_closes_what_was_lent_and_says_why),
        cmocka_unit_test(a_full_window_is_answered_as_often_as_it_is_filled),
        cmocka_unit_test(a_send_that_is_no_pdu_ends_its_connection_alone),
        cmocka_unit_test(a_send_longer_than_the_receive_ends_its_connection_alone),
        cmocka_unit_test(a_command_with_data_that_lends_nothing_ends_its_connection_alone),
        cmocka_unit_test(memory_that_is_too_short_ends_its_connection_alone),
        cmocka_unit_test(memory_of_the_wrong_right_ends_its_connection_alone),
        cmocka_unit_test(what_a_stream_would_have_is_rejected),
        cmocka_unit_test(immediate_data_are_rejected),
        cmocka_unit_test(pings_are_answered_however_many),
        cmocka_unit_test(a_logout_is_answered_and_ends_the_connection),
    };
    const struct CMUnitTest slow[] = {
        cmocka_unit_test(an_aborted_command_gets_no_answer_and_its_memory_is_left_alone),
        cmocka_unit_test(an_initiator_that_leaves_with_commands_under_way_leaves_nothing_behind),
        cmocka_unit_test(a_session_that_comes_back_ends_its_former_self),
        cmocka_unit_test(a_login_that_takes_its_time_is_ended_and_nobody_else),
        cmocka_unit_test(a_node_that_ends_tells_its_initiators),
    };
    int failed = cmocka_run_group_tests_name("one initiator", fast, start, stop);
    return failed + cmocka_run_group_tests_name("a slow device", slow, start_slow, stop);
}
