// iSCSI: which commands a session takes, how many at a time, and the management of its tasks.

#include "node/iscsi/connection.h"
#include "tests/node/iscsi_stage.h"

static void put_command(uint8_t opcode_flags, uint8_t flags, uint32_t tag, uint32_t expected,
                        const void *data, uint32_t len)
{
    uint8_t head[ISCSI_HEADER_LEN] = {(uint8_t)(ISCSI_SCSI_COMMAND | opcode_flags), flags};
    put_be32(head + ISCSI_OFF_ITT, tag);
    put_be32(head + ISCSI_CMD_OFF_EXPECTED_LEN, expected);
    put_be32(head + ISCSI_OFF_CMDSN, cmdsn);
    cmdsn += (opcode_flags & ISCSI_IMMEDIATE) == 0;
    if (expected > 0) {
        head[ISCSI_CMD_OFF_CDB] = (flags & ISCSI_CMD_WRITE) != 0 ? WRITE_10 : READ_10;
        put_be16(head + ISCSI_CMD_OFF_CDB + 7, (uint16_t)(expected / BLOCK));
    }
    put(head, data, len);
}

static void commands_that_make_no_sense_are_rejected(void **state)
{
    static const struct {
        uint8_t flags;
        uint32_t tag, expected, data_len;
    } rows[] = {
        {0x80 | ISCSI_CMD_READ | ISCSI_CMD_WRITE, 1, BLOCK, 0},
        {0x80, ISCSI_NO_TAG, 0, 0},
        {READ_FLAGS, 1, BLOCK, BLOCK}, // data of a read
        {0x80, 1, 0, BLOCK},           // of a command that has none
        {WRITE_FLAGS, 1, BLOCK, BLOCK + 4},
        {WRITE_FLAGS, 1, 256 * BLOCK, 65540},
    };
    static uint8_t data[DATA_MAX];
    OPEN("");
    ready();
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_command(0, rows[i].flags, rows[i].tag, rows[i].expected, data, rows[i].data_len);
        hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    }
    put_command(0, WRITE_FLAGS, 1, 128 * BLOCK, data, 65536); // as much as may come unasked
    hear_status(1, SCSI_GOOD);
}

static void a_tag_is_one_commands_at_a_time(void **state)
{
    OPEN("");
    ready();
    stage->holds = true;
    put_command(0, READ_FLAGS, 77, BLOCK, NULL, 0);
    put_command(0, READ_FLAGS, 77, BLOCK, NULL, 0);
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    stage_tell(stage, STAGE_RELEASE);
    take(ISCSI_DATA_IN);
    statsn++;
    put_command(0, READ_FLAGS, 77, BLOCK, NULL, 0); // it is free again
    stage_settle(stage);
    stage_tell(stage, STAGE_RELEASE);
    take(ISCSI_DATA_IN);
}

static void so_many_commands_are_taken_out_of_turn(void **state)
{
    OPEN("");
    ready();
    stage->holds = true;
    for (uint32_t i = 0; i < ISCSI_IMMEDIATE_MAX; i++) {
        put_command(ISCSI_IMMEDIATE, READ_FLAGS, 100 + i, BLOCK, NULL, 0);
    }
    put_command(ISCSI_IMMEDIATE, READ_FLAGS, 99, BLOCK, NULL, 0);
    hear_reject(ISCSI_REJECT_TOO_MANY_IMMEDIATE);
    stage_tell(stage, STAGE_RELEASE);
    take(ISCSI_DATA_IN);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_ITT), 100);
    statsn++;
    stage_settle(stage);
    put_command(ISCSI_IMMEDIATE, READ_FLAGS, 99, BLOCK, NULL, 0);
    hear_nothing(stage); // it is taken
    while (stage->held_count > 0) {
        stage_tell(stage, STAGE_RELEASE);
        take(ISCSI_DATA_IN);
    }
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_ITT), 99);
}

static void so_many_managements_wait_at_a_time(void **state)
{
    OPEN("");
    ready();
    stage->holds = true;
    put_command(0, READ_FLAGS, 77, BLOCK, NULL, 0);
    stage_settle(stage);
    itt = 200;
    for (unsigned i = 0; i < ISCSI_MANAGEMENT_COUNT; i++) {
        manage(ISCSI_ABORT_TASK_SET, 0, ISCSI_NO_TAG);
    }
    manage(ISCSI_ABORT_TASK_SET, 0, ISCSI_NO_TAG);
    hear_managed(ISCSI_TASK_REJECTED);
    hear_nothing(stage);
    stage_tell(stage, STAGE_RELEASE);
    itt = 200;
    for (unsigned i = 0; i < ISCSI_MANAGEMENT_COUNT; i++) {
        itt++;
        hear_managed(ISCSI_TASK_COMPLETE);
    }
    itt = 300;
    manage(ISCSI_ABORT_TASK_SET, 0, ISCSI_NO_TAG); // there is room again
    hear_managed(ISCSI_TASK_COMPLETE);
}

static void a_task_is_aborted_once(void **state)
{
    OPEN("");
    ready();
    stage->holds = true;
    put_command(0, READ_FLAGS, 77, BLOCK, NULL, 0);
    stage_settle(stage);
    manage(ISCSI_ABORT_TASK, 0, 77);
    const uint32_t first = itt;
    manage(ISCSI_ABORT_TASK, 0, 77);
    hear_managed(ISCSI_NO_TASK);
    stage_tell(stage, STAGE_RELEASE);
    itt = first;
    hear_managed(ISCSI_TASK_COMPLETE);
}

static void a_cold_reset_ends_all_sessions_behind_its_answer(void **state)
{
    OPEN("");
    ready();
    int first = stage->client;
    uint32_t first_statsn = statsn, first_cmdsn = cmdsn;
    stage->client = stage_call(stage);
    qualifier++;
    statsn = 7;
    cmdsn = 100;
    OPEN("");
    manage(ISCSI_TARGET_COLD_RESET, 0, ISCSI_NO_TAG);
    hear_managed(ISCSI_TASK_COMPLETE);
    take(ISCSI_ASYNC_MESSAGE);
    assert_int_equal(pdu.head[ISCSI_ASYNC_OFF_EVENT], ISCSI_ASYNC_DROPS_ALL);
    hear_the_end(stage);
    close(stage->client);
    stage->client = first;
    statsn = first_statsn;
    cmdsn = first_cmdsn;
    take(ISCSI_ASYNC_MESSAGE);
    assert_int_equal(get_be16(pdu.head + ISCSI_ASYNC_OFF_PARAMETERS + 2), 2); // when to come again
    hear_the_end(stage);
}

static void who_has_logged_in_is_said_goodbye_when_the_node_stops(void **state)
{
    OPEN("");
    int first = stage->client;
    stage->client = stage_call(stage);
    stage_settle(stage);
    stage_tell(stage, STAGE_STOP);
    hear_the_end(stage); // of who has not, without a word
    close(stage->client);
    stage->client = first;
    take(ISCSI_ASYNC_MESSAGE);
    expect_numbers(true);
    hear_the_end(stage);
}

static char told[512];

static void figure(void *ctx, const char *name, enum tts_figure_kind kind, uint64_t value)
{
    size_t len = strlen(told);
    snprintf(told + len, sizeof told - len, "%s%s %llu, ", name, kind == TTS_GAUGE ? " now" : "",
             (unsigned long long)value);
}

static void figures_are_told_by_name(void **state)
{
    OPEN("");
    ready(); // two, of which one has an error
    put_command(0, READ_FLAGS | ISCSI_CMD_WRITE, 1, BLOCK, NULL, 0);
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    stage_settle(stage);
    told[0] = '\0';
    iscsi_tcp_for_uma.figures(tcp, figure, NULL);
    assert_non_null(strstr(told, "sessions 1, unproven 0, malformed 0, rejects 1, commands 2, "
                                 "errors 1, refusals 0, "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(commands_that_make_no_sense_are_rejected),
        TEST(a_tag_is_one_commands_at_a_time),
        TEST(so_many_commands_are_taken_out_of_turn),
        TEST(so_many_managements_wait_at_a_time),
        TEST(a_task_is_aborted_once),
        TEST(a_cold_reset_ends_all_sessions_behind_its_answer),
        TEST(who_has_logged_in_is_said_goodbye_when_the_node_stops),
        TEST(figures_are_told_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
