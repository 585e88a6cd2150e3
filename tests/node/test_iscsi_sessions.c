// iSCSI: what one session does to another of the same target: task management that reaches its
// tasks (RFC 7143 sections 11.5 and 11.6).

#include "tests/node/iscsi_stage.h"

/* ---- two sessions ---------------------------------------------------------------------------- */

struct session {
    int client;
    uint32_t cmdsn, statsn;
};

// From now on the test is this one, and it is who the test was.
static void change_places(struct session *with)
{
    struct session was = {stage->client, cmdsn, statsn};
    stage->client = with->client;
    cmdsn = with->cmdsn;
    statsn = with->statsn;
    *with = was;
}

// One more, which the test is from now on; and who it was.
static struct session another_comes(void)
{
    struct session other = {stage_call(stage), 100, 7};
    change_places(&other);
    qualifier++;
    OPEN("");
    ready();
    return other;
}

static uint8_t octets[BLOCK] = {1, 2, 3, 4};

// The data of the first session's write are with the volume, and have yet to land. The test is the
// second one.
static struct session begin_write(void)
{
    OPEN("");
    ready();
    stage->holds_data = true;
    command(WRITE_10, WRITE_FLAGS, 0, 1, BLOCK, octets, BLOCK);
    stage_settle(stage);
    assert_non_null(stage->landing);
    return another_comes();
}

static bool has_landed(void)
{
    return memcmp(stage->volume, octets, BLOCK) == 0;
}

/* ---- what others wrote lands before the answer, or not at all -------------------------------- */

static struct session manage_while_other_writes(uint8_t function)
{
    struct session writer = begin_write();
    manage(function, 0, ISCSI_NO_TAG);
    hear_nothing(stage);
    assert_false(has_landed());
    stage_tell(stage, STAGE_LAND);
    hear_managed(ISCSI_TASK_COMPLETE);
    assert_true(has_landed());
    return writer;
}

static void clearing_the_task_set_waits_for_writes_of_others(void **state)
{
    struct session writer = manage_while_other_writes(ISCSI_CLEAR_TASK_SET);
    close(writer.client);
}

static void a_reset_of_the_unit_waits_for_writes_of_others(void **state)
{
    struct session writer = manage_while_other_writes(ISCSI_LUN_RESET);
    change_places(&writer);
    hear_nothing(stage); // its write has no answer
    command(0, 0x80, 0, 0, 0, NULL, 0);
    hear_sense(itt, 0x062903);
    close(writer.client);
}

static void a_warm_reset_waits_for_writes_of_others(void **state)
{
    struct session writer = manage_while_other_writes(ISCSI_TARGET_WARM_RESET);
    close(writer.client);
}

// Its tasks are not aborted.
static void aborting_the_own_tasks_waits_for_nobody_else(void **state)
{
    struct session writer = begin_write();
    manage(ISCSI_ABORT_TASK_SET, 0, ISCSI_NO_TAG);
    hear_managed(ISCSI_TASK_COMPLETE);
    stage_tell(stage, STAGE_LAND);
    change_places(&writer);
    hear_response(itt - 3, SCSI_GOOD, 0, 0);
    close(writer.client);
}

// Who goes on writing and is reset again and again does not keep the first answer back.
static void what_is_aborted_later_is_not_waited_for(void **state)
{
    struct session writer = begin_write();
    manage(ISCSI_LUN_RESET, 0, ISCSI_NO_TAG);
    hear_nothing(stage);
    struct service_request *first = stage->landing;
    change_places(&writer);
    command(0, 0x80, 0, 0, 0, NULL, 0);
    hear_sense(itt, 0x062903);
    command(WRITE_10, WRITE_FLAGS, 1, 1, BLOCK, octets, BLOCK);
    stage_settle(stage);
    struct service_request *second = stage->landing;
    assert_ptr_not_equal(first, second);
    change_places(&writer);
    const uint32_t first_itt = itt - 2;
    manage(ISCSI_CLEAR_TASK_SET, 0, ISCSI_NO_TAG);
    const uint32_t second_itt = itt;
    hear_nothing(stage);
    stage->landing = first;
    stage_tell(stage, STAGE_LAND);
    itt = first_itt;
    hear_managed(ISCSI_TASK_COMPLETE);
    hear_nothing(stage);
    stage->landing = second;
    stage_tell(stage, STAGE_LAND);
    itt = second_itt;
    hear_managed(ISCSI_TASK_COMPLETE);
    close(writer.client);
}

// What it does not take it may keep waiting for as long as it likes, and nobody else.
static void a_reader_that_does_not_take_its_data_keeps_nobody_waiting(void **state)
{
    enum { BLOCKS = 60000 };
    OPEN("");
    ready();
    command(READ_10, READ_FLAGS, 0, BLOCKS, BLOCKS * BLOCK, NULL, 0);
    stage_settle(stage);
    struct session reader = another_comes();
    manage(ISCSI_LUN_RESET, 0, ISCSI_NO_TAG);
    hear_managed(ISCSI_TASK_COMPLETE);
    close(reader.client);
}

// RFC 7143 section 11.13.5: which is not the same as that there is none.
static void a_session_has_no_second_connection(void **state)
{
    static const struct {
        uint8_t qualifier;
        uint16_t tsih;
        enum iscsi_login_status status;
    } rows[] = {
        {5, 1, ISCSI_TOO_MANY_CONNECTIONS}, {5, 2, ISCSI_NO_SESSION}, {6, 1, ISCSI_NO_SESSION}};
    OPEN("");
    assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_TSIH), 1);
    struct session first = {stage_call(stage), 100, 7};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        change_places(&first);
        qualifier = rows[i].qualifier;
        tsih = rows[i].tsih;
        request_login(TRANSIT_TO_FULL, WHO, sizeof(WHO) - 1);
        take(ISCSI_LOGIN_RESPONSE);
        assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_STATUS), rows[i].status);
        hear_the_end(stage);
        change_places(&first);
        close(first.client);
        first = (struct session){stage_call(stage), 100, 7};
    }
    close(first.client);
    request(ISCSI_NOP_OUT, 0x80, false, ISCSI_NO_TAG, NULL, 0);
    take(ISCSI_NOP_IN); // it is still there
}

/* ---- one task set ---------------------------------------------------------------------------- */

enum { ORDERED = 2 };

static void what_one_orders_waits_for_what_another_has_under_way(void **state)
{
    struct session writer = begin_write();
    expect_asked(stage, "write 0+512\n");
    stage->holds_data = false;
    command(WRITE_10, WRITE_FLAGS | ORDERED, 1, 1, BLOCK, octets, BLOCK);
    hear_nothing(stage);
    expect_asked(stage, "");
    stage_tell(stage, STAGE_LAND);
    hear_response(itt, SCSI_GOOD, 0, 0);
    expect_asked(stage, "write 512+512\n");
    assert_memory_equal(stage->volume + BLOCK, octets, BLOCK);
    close(writer.client);
}

// The session of what it waits for is gone.
static void what_one_orders_goes_on_when_another_is_gone(void **state)
{
    struct session writer = begin_write();
    stage->holds_data = false;
    command(WRITE_10, WRITE_FLAGS | ORDERED, 1, 1, BLOCK, octets, BLOCK);
    hear_nothing(stage);
    close(writer.client);
    hear_nothing(stage);
    stage_tell(stage, STAGE_LAND);
    hear_response(itt, SCSI_GOOD, 0, 0);
}

/* ---- cold reset ------------------------------------------------------------------------------ */

static void hear_goodbye(void)
{
    take(ISCSI_ASYNC_MESSAGE);
    assert_int_equal(pdu.head[ISCSI_ASYNC_OFF_EVENT], ISCSI_ASYNC_DROPS_ALL);
    hear_the_end(stage);
}

static void a_cold_reset_ends_the_sessions_of_all(void **state)
{
    struct session writer = manage_while_other_writes(ISCSI_TARGET_COLD_RESET);
    hear_goodbye();
    change_places(&writer);
    hear_goodbye();
    close(writer.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(clearing_the_task_set_waits_for_writes_of_others),
        TEST(a_reset_of_the_unit_waits_for_writes_of_others),
        TEST(a_warm_reset_waits_for_writes_of_others),
        TEST(aborting_the_own_tasks_waits_for_nobody_else),
        TEST(what_is_aborted_later_is_not_waited_for),
        TEST(a_reader_that_does_not_take_its_data_keeps_nobody_waiting),
        TEST(what_one_orders_waits_for_what_another_has_under_way),
        TEST(what_one_orders_goes_on_when_another_is_gone),
        TEST(a_session_has_no_second_connection),
        TEST(a_cold_reset_ends_the_sessions_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
