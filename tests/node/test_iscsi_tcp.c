// iSCSI over TCP by its PDUs (RFC 7143 section 11): what an initiator says, what it hears, and what
// the CTA is asked meanwhile.

#include "tests/node/iscsi_stage.h"

/* ---- commands -------------------------------------------------------------------------------- */

static void hear_data(uint8_t flags, uint32_t datasn, uint32_t offset, const uint8_t *octets,
                      uint32_t len)
{
    take(ISCSI_DATA_IN);
    assert_int_equal(pdu.head[1], flags);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_ITT), itt);
    assert_int_equal(get_be32(pdu.head + ISCSI_DATA_OFF_DATASN), datasn);
    assert_int_equal(get_be32(pdu.head + ISCSI_DATA_OFF_BUFFER), offset);
    assert_int_equal(pdu.data_len, len);
    assert_memory_equal(pdu.data, octets, len);
    if ((flags & ISCSI_DATA_STATUS) != 0) {
        expect_numbers(true);
    }
}

static void fill(uint8_t *octets, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        octets[i] = (uint8_t)(i * 7 + i / 251 + 1);
    }
}

// Cut into PDUs that the initiator takes and bursts; the last one has the status.
static void reads_are_cut_as_agreed(void **state)
{
    const uint8_t *at = stage->volume + 3 * BLOCK;
    fill(stage->volume, 64 << 10);
    OPEN("MaxRecvDataSegmentLength=4096\0MaxBurstLength=10240\0");
    ready();
    command(READ_10, READ_FLAGS, 3, 40, 40 * BLOCK, NULL, 0);
    hear_data(0, 0, 0, at, 4096);
    hear_data(0, 1, 4096, at + 4096, 4096);
    hear_data(ISCSI_FINAL, 2, 8192, at + 8192, 2048);
    hear_data(0, 3, 10240, at + 10240, 4096);
    hear_data(0, 4, 14336, at + 14336, 4096);
    hear_data(ISCSI_FINAL | ISCSI_DATA_STATUS, 5, 18432, at + 18432, 2048);
    assert_int_equal(pdu.head[ISCSI_DATA_OFF_STATUS], SCSI_GOOD);
    assert_int_equal(get_be32(pdu.head + ISCSI_DATA_OFF_RESIDUAL), 0);
    expect_asked(stage, "read 1536+20480\n");
    assert_int_equal(counters().octets_sent, 20480);
}

static void what_is_less_or_more_than_expected_is_told(void **state)
{
    fill(stage->volume, 4096);
    OPEN("");
    ready();
    command(READ_10, READ_FLAGS, 0, 1, 600, NULL, 0);
    hear_data(ISCSI_FINAL | ISCSI_DATA_STATUS | ISCSI_UNDERFLOW, 0, 0, stage->volume, 512);
    assert_int_equal(get_be32(pdu.head + ISCSI_DATA_OFF_RESIDUAL), 88);
    command(READ_10, READ_FLAGS, 0, 2, 600, NULL, 0);
    hear_data(ISCSI_FINAL | ISCSI_DATA_STATUS | ISCSI_OVERFLOW, 0, 0, stage->volume, 600);
    assert_int_equal(get_be32(pdu.head + ISCSI_DATA_OFF_RESIDUAL), 424);
    command(0, 0xc0, 0, 0, 100, NULL, 0); // TEST UNIT READY has no data
    hear_response(itt, SCSI_GOOD, ISCSI_UNDERFLOW, 100);
}

static void hear_r2t(uint32_t number, uint32_t offset, uint32_t len)
{
    take(ISCSI_R2T);
    assert_int_equal(pdu.head[1], ISCSI_FINAL);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_ITT), itt);
    assert_int_equal(get_be32(pdu.head + ISCSI_R2T_OFF_R2TSN), number);
    assert_int_equal(get_be32(pdu.head + ISCSI_DATA_OFF_BUFFER), offset);
    assert_int_equal(get_be32(pdu.head + ISCSI_R2T_OFF_LEN), len);
    expect_numbers(false);
}

static void give(uint32_t tag, uint32_t datasn, uint32_t offset, const uint8_t *octets,
                 uint32_t len, uint8_t flags, enum spoilt spoilt)
{
    uint8_t head[ISCSI_HEADER_LEN] = {ISCSI_DATA_OUT, flags};
    put_be32(head + ISCSI_OFF_ITT, itt);
    put_be32(head + ISCSI_OFF_TTT, tag);
    put_be32(head + ISCSI_DATA_OFF_DATASN, datasn);
    put_be32(head + ISCSI_DATA_OFF_BUFFER, offset);
    put_spoilt(head, octets + offset, len, spoilt);
}

static void what_did_not_move_is_told_beside_a_failure(void **state)
{
    enum { BEYOND = STAGE_LEN / BLOCK };
    uint8_t octets[2 * BLOCK] = {1};
    OPEN("");
    ready();
    command(READ_10, READ_FLAGS, BEYOND, 2, 2 * BLOCK, NULL, 0);
    hear_sense(itt, 0x052100);
    expect_residual(ISCSI_UNDERFLOW, 2 * BLOCK);
    command(WRITE_10, WRITE_FLAGS, BEYOND, 2, 2 * BLOCK, octets, 2 * BLOCK); // none was taken
    hear_sense(itt, 0x052100);
    expect_residual(ISCSI_UNDERFLOW, 2 * BLOCK);
    stage->completion = NODE_MEDIA;
    stage->fails_late = true;
    command(WRITE_10, WRITE_FLAGS, 0, 2, 2 * BLOCK, octets, 2 * BLOCK); // all was
    hear_sense(itt, 0x030c00);
    expect_residual(0, 0);
    command(WRITE_10, WRITE_FLAGS, 0, 1, 2 * BLOCK, octets, 2 * BLOCK); // what it writes
    hear_sense(itt, 0x030c00);
    expect_residual(ISCSI_UNDERFLOW, BLOCK);
    stage->completion = NODE_RETRY;
    command(READ_10, READ_FLAGS, 0, 1, BLOCK, NULL, 0);
    hear_response(itt, SCSI_BUSY, ISCSI_UNDERFLOW, BLOCK);
    command(WRITE_10, WRITE_FLAGS, 0, 1, 200, octets, 200); // less than a block
    hear_sense(itt, 0x050e03);
    expect_residual(ISCSI_OVERFLOW, BLOCK - 200);
}

static void writes_are_asked_for_burst_by_burst(void **state)
{
    uint8_t octets[20480];
    fill(octets, sizeof octets);
    OPEN("MaxBurstLength=8192\0InitialR2T=Yes\0ImmediateData=No\0");
    ready();
    command(WRITE_10, WRITE_FLAGS, 5, 40, sizeof octets, NULL, 0);
    hear_r2t(0, 0, 8192);
    uint32_t tag = get_be32(pdu.head + ISCSI_OFF_TTT);
    give(tag, 0, 0, octets, 5000, 0, NOTHING_SPOILT);
    give(tag, 1, 5000, octets, 3192, ISCSI_FINAL, NOTHING_SPOILT);
    hear_r2t(1, 8192, 8192);
    give(tag, 0, 8192, octets, 8192, ISCSI_FINAL, NOTHING_SPOILT);
    hear_r2t(2, 16384, 4096);
    give(tag, 0, 16384, octets, 4096, ISCSI_FINAL, NOTHING_SPOILT);
    hear_response(itt, SCSI_GOOD, 0, 0);
    assert_memory_equal(stage->volume + 5 * BLOCK, octets, sizeof octets);
    expect_asked(stage, "write 2560+20480\n");
    assert_int_equal(counters().octets_asked, sizeof octets);
    assert_int_equal(counters().octets_immediate, 0);
}

static void data_come_with_the_command_and_behind_it(void **state)
{
    uint8_t octets[20480];
    fill(octets, sizeof octets);
    OPEN("FirstBurstLength=8192\0InitialR2T=No\0ImmediateData=Yes\0");
    ready();
    command(WRITE_10, 0x20, 5, 40, sizeof octets, octets, 3001); // more follows
    give(ISCSI_NO_TAG, 0, 3001, octets, 5191, ISCSI_FINAL, NOTHING_SPOILT);
    hear_r2t(0, 8192, 12288);
    uint32_t tag = get_be32(pdu.head + ISCSI_OFF_TTT);
    give(tag, 0, 8192, octets, 12288, ISCSI_FINAL, NOTHING_SPOILT);
    hear_response(itt, SCSI_GOOD, 0, 0);
    assert_memory_equal(stage->volume + 5 * BLOCK, octets, sizeof octets);
    assert_int_equal(counters().octets_immediate, 8192);
    assert_int_equal(counters().octets_asked, 12288);
    memset(stage->volume, 0, 64 << 10);
    stage->holds = true; // what comes before there is a buffer is kept
    command(WRITE_10, WRITE_FLAGS, 5, 4, 4 * BLOCK, octets, 4 * BLOCK);
    stage_settle(stage);
    stage_tell(stage, STAGE_RELEASE);
    hear_response(itt, SCSI_GOOD, 0, 0);
    assert_memory_equal(stage->volume + 5 * BLOCK, octets, 4 * BLOCK);
}

static void digests_are_made_and_looked_at(void **state)
{
    uint8_t octets[4 * BLOCK], head[ISCSI_HEADER_LEN] = {ISCSI_NOP_OUT | ISCSI_IMMEDIATE, 0x80};
    fill(octets, sizeof octets);
    OPEN("HeaderDigest=CRC32C\0DataDigest=CRC32C\0ImmediateData=No\0");
    has_header_digest = has_data_digest = true;
    ready();
    command(WRITE_10, WRITE_FLAGS, 0, 4, sizeof octets, NULL, 0);
    hear_r2t(0, 0, sizeof octets);
    give(get_be32(pdu.head + ISCSI_OFF_TTT), 0, 0, octets, sizeof octets, ISCSI_FINAL,
         NOTHING_SPOILT);
    hear_response(itt, SCSI_GOOD, 0, 0);
    command(READ_10, READ_FLAGS, 0, 4, sizeof octets, NULL, 0);
    hear_data(ISCSI_FINAL | ISCSI_DATA_STATUS, 0, 0, octets, sizeof octets);
    memset(stage->volume, 0, sizeof octets);
    command(WRITE_10, WRITE_FLAGS, 0, 4, sizeof octets, NULL, 0);
    hear_r2t(0, 0, sizeof octets);
    give(get_be32(pdu.head + ISCSI_OFF_TTT), 0, 0, octets, sizeof octets, ISCSI_FINAL, DATA_SPOILT);
    hear_reject(ISCSI_REJECT_DATA_DIGEST);
    hear_sense(itt, 0x0b4705);
    assert_int_equal(stage->volume[0], 0);
    put_be32(head + ISCSI_OFF_ITT, ++itt);
    put_be32(head + ISCSI_OFF_CMDSN, cmdsn);
    put_spoilt(head, octets, 8, DATA_SPOILT); // what is looked at as a whole
    hear_reject(ISCSI_REJECT_DATA_DIGEST);
    put_spoilt(head, NULL, 0, HEADER_SPOILT); // nobody knows where the next one begins
    hear_the_end(stage);
    assert_int_equal(counters().digest_errors, 3);
}

static void data_that_nobody_expects_fail_the_command(void **state)
{
    static const struct {
        uint32_t datasn, offset, len, sense;
    } table[] = {{1, 0, 2048, 0x0b4b00}, {0, 4, 2044, 0x0b4b00}, {0, 0, 2052, 0x0b0c0d}};
    uint8_t octets[4096];
    OPEN("ImmediateData=No\0InitialR2T=Yes\0");
    ready();
    for (unsigned i = 0; i < 3; i++) {
        command(WRITE_10, WRITE_FLAGS, 0, 4, 2048, NULL, 0);
        hear_r2t(0, 0, 2048);
        give(get_be32(pdu.head + ISCSI_OFF_TTT), table[i].datasn, table[i].offset, octets,
             table[i].len, ISCSI_FINAL, NOTHING_SPOILT);
        hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
        hear_sense(itt, table[i].sense);
    }
    itt++; // of a command that there is not: they are passed over
    give(3, 0, 0, octets, 64, ISCSI_FINAL, NOTHING_SPOILT);
    give(ISCSI_NO_TAG, 0, 0, octets, 64, ISCSI_FINAL, NOTHING_SPOILT);
    give(1000, 0, 0, octets, 64, ISCSI_FINAL, NOTHING_SPOILT);
    hear_nothing(stage);
    assert_int_equal(counters().rejects, 3);
}

// RFC 7143 section 11.4.7.2 has a name for each.
static void data_that_are_not_what_was_agreed_on_fail_the_command(void **state)
{
    uint8_t octets[2048] = {1};
    OPEN("ImmediateData=No\0InitialR2T=Yes\0");
    ready();
    command(WRITE_10, WRITE_FLAGS, 0, 4, 2048, NULL, 0);
    hear_r2t(0, 0, 2048);
    uint32_t tag = get_be32(pdu.head + ISCSI_OFF_TTT);
    give(tag, 0, 0, octets, 1024, 0, NOTHING_SPOILT);
    give(tag, 1, 1024, octets, 512, ISCSI_FINAL, NOTHING_SPOILT); // the last, and too little
    hear_sense(itt, 0x0b0c0d);
    command(WRITE_10, WRITE_FLAGS, 0, 4, 2048, NULL, 0);
    hear_r2t(0, 0, 2048);
    give(ISCSI_NO_TAG, 0, 0, octets, 2048, ISCSI_FINAL, NOTHING_SPOILT); // unasked
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    hear_sense(itt, 0x0b0c0c);
    assert_int_equal(stage->volume[0], 0);
}

static void a_reject_shows_the_header_of_what_is_rejected(void **state)
{
    uint8_t octets[512] = {1}, head[ISCSI_HEADER_LEN] = {ISCSI_SCSI_COMMAND, WRITE_FLAGS};
    OPEN("HeaderDigest=CRC32C\0DataDigest=CRC32C\0ImmediateData=Yes\0");
    has_header_digest = has_data_digest = true;
    ready();
    put_be32(head + ISCSI_OFF_ITT, ++itt);
    put_be32(head + ISCSI_CMD_OFF_EXPECTED_LEN, 512);
    put_be32(head + ISCSI_OFF_CMDSN, cmdsn++);
    head[ISCSI_CMD_OFF_CDB] = WRITE_10;
    head[ISCSI_CMD_OFF_CDB + 8] = 1;
    put_spoilt(head, octets, sizeof octets, DATA_SPOILT);
    hear_reject(ISCSI_REJECT_DATA_DIGEST);
    assert_memory_equal(pdu.data, head, sizeof head);
    hear_sense(itt, 0x0b4705);
}

static void commands_that_cannot_be_are_rejected(void **state)
{
    uint8_t octets[1024] = {0};
    OPEN("FirstBurstLength=512\0ImmediateData=Yes\0InitialR2T=Yes\0");
    ready();
    command(READ_10, 0xe0, 0, 1, 512, NULL, 0); // both to read and to write
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    command(READ_10, READ_FLAGS, 0, 1, 512, octets, 4); // data of a read
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    command(WRITE_10, WRITE_FLAGS, 0, 2, 1024, octets, 516); // more than a first burst
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    command(WRITE_10, WRITE_FLAGS, 0, 1, 100, octets, 104); // than expected
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    itt = ISCSI_NO_TAG - 1; // without a tag
    command(READ_10, READ_FLAGS, 0, 1, 512, NULL, 0);
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    request(ISCSI_SNACK_REQUEST, 0x80, true, 0, NULL, 0);
    hear_reject(ISCSI_REJECT_SNACK);
    request(0x1c, 0x80, true, 0, octets, 8);
    hear_reject(ISCSI_REJECT_UNSUPPORTED);
    stage->holds = true;
    command(READ_10, READ_FLAGS, 0, 1, 512, NULL, 0);
    itt--; // a tag that is in use
    command(READ_10, READ_FLAGS, 0, 1, 512, NULL, 0);
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    assert_int_equal(counters().rejects, 8);
    assert_int_equal(counters().malformed, 0);
}

static void commands_go_in_the_order_of_their_numbers(void **state)
{
    OPEN("");
    ready();
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_MAXCMDSN), cmdsn + 63);
    cmdsn++; // one is missing: those behind it are ignored
    command(0, 0x80, 0, 0, 0, NULL, 0);
    hear_nothing(stage);
    cmdsn -= 2;
    command(0, 0x80, 0, 0, 0, NULL, 0);
    hear_response(itt, SCSI_GOOD, 0, 0);
    stage->holds = true;
    for (unsigned i = 0; i < 66; i++) { // the window is 64
        command(READ_10, READ_FLAGS, i, 1, BLOCK, NULL, 0);
    }
    stage_settle(stage);
    assert_int_equal(stage->held_count, 64);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void ping_is_answered_with_its_data(void **state)
{
    uint8_t head[ISCSI_HEADER_LEN] = {ISCSI_NOP_OUT | ISCSI_IMMEDIATE, 0x80};
    OPEN("");
    request(ISCSI_NOP_OUT, 0x80, false, ISCSI_NO_TAG, "ping!", 5);
    take(ISCSI_NOP_IN);
    assert_int_equal(pdu.head[1], ISCSI_FINAL);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_ITT), itt);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_TTT), ISCSI_NO_TAG);
    assert_int_equal(pdu.data_len, 5);
    assert_memory_equal(pdu.data, "ping!", 5);
    expect_numbers(true);
    put_be32(head + ISCSI_OFF_ITT, ISCSI_NO_TAG); // an answer to what was not asked
    put(head, NULL, 0);
    hear_nothing(stage);
}

// RFC 7143 sections 11.18 and 13.12: what we say that we take, we take; who pings hears as much of
// it as he takes.
static void long_pings_and_texts_are_taken(void **state)
{
    enum { LONG = 256 << 10, TAKEN = 100000 };
    static uint8_t octets[LONG];
    fill(octets, LONG);
    OPEN("HeaderDigest=CRC32C\0DataDigest=CRC32C\0MaxRecvDataSegmentLength=100000\0");
    has_header_digest = has_data_digest = true;
    static const uint32_t lens[] = {8192, 8193, 65537, LONG};
    for (unsigned i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        request(ISCSI_NOP_OUT, 0x80, false, ISCSI_NO_TAG, octets, lens[i]);
        take(ISCSI_NOP_IN);
        assert_int_equal(pdu.data_len, lens[i] < TAKEN ? lens[i] : TAKEN);
        assert_memory_equal(pdu.data, octets, pdu.data_len);
        expect_numbers(true);
    }
    uint8_t head[ISCSI_HEADER_LEN] = {ISCSI_NOP_OUT, 0x80};
    put_be32(head + ISCSI_OFF_ITT, ++itt);
    put_be32(head + ISCSI_OFF_TTT, ISCSI_NO_TAG);
    put_be32(head + ISCSI_OFF_CMDSN, cmdsn);
    put_spoilt(head, octets, LONG, DATA_SPOILT);
    hear_reject(ISCSI_REJECT_DATA_DIGEST);
    assert_memory_equal(pdu.data, head, sizeof head);
    char text[9000] = "X-invalid.test=";
    memset(text + strlen(text), 'x', 200);
    size_t len = strlen(text) + 1;
    while (len < sizeof text - 16) {
        len += (size_t)snprintf(text + len, 16, "X-invalid.t=y") + 1;
    }
    request(ISCSI_TEXT_REQUEST, 0x80, false, ISCSI_NO_TAG, text, len);
    take(ISCSI_TEXT_RESPONSE);
    assert_int_equal(memcmp(pdu.data, "X-invalid.test=NotUnderstood", 29), 0);
}

static void tasks_are_managed(void **state)
{
    OPEN("");
    ready();
    manage(ISCSI_ABORT_TASK, 0, 0x999);
    hear_managed(ISCSI_NO_TASK);
    manage(ISCSI_TASK_REASSIGN, 0, 0);
    hear_managed(ISCSI_NO_REASSIGNMENT);
    manage(ISCSI_CLEAR_ACA, 0, 0);
    hear_managed(ISCSI_TASK_UNSUPPORTED);
    manage(9, 0, 0);
    hear_managed(ISCSI_TASK_UNSUPPORTED);
    manage(ISCSI_LUN_RESET, UINT64_C(1) << 48, 0);
    hear_managed(ISCSI_NO_LUN);
    manage(ISCSI_ABORT_TASK_SET, UINT64_C(1) << 48, 0);
    hear_managed(ISCSI_NO_LUN);
    manage(ISCSI_CLEAR_TASK_SET, 0, 0);
    hear_managed(ISCSI_TASK_COMPLETE);
    command(0, 0x80, 0, 0, 0, NULL, 0);
    hear_response(itt, SCSI_GOOD, 0, 0);
    manage(ISCSI_TARGET_WARM_RESET, UINT64_C(1) << 48, 0); // of all its units
    hear_managed(ISCSI_TASK_COMPLETE);
    command(0, 0x80, 0, 0, 0, NULL, 0);
    hear_sense(itt, 0x062903); // who reset it hears so too
}

// The answer to the abort waits for the end of the command, which has none of its own.
static void aborted_command_is_not_answered(void **state)
{
    OPEN("");
    ready();
    stage->holds = true;
    command(READ_10, READ_FLAGS, 0, 1, BLOCK, NULL, 0);
    stage_settle(stage);
    manage(ISCSI_ABORT_TASK, 0, itt);
    hear_nothing(stage);
    stage_tell(stage, STAGE_RELEASE);
    hear_managed(ISCSI_TASK_COMPLETE);
    hear_nothing(stage);
}

static void logout_ends_the_session(void **state)
{
    OPEN("");
    request(ISCSI_LOGOUT_REQUEST, 0x80 | ISCSI_CLOSE_CONNECTION, true, 8 << 16, NULL, 0);
    take(ISCSI_LOGOUT_RESPONSE);
    assert_int_equal(pdu.head[ISCSI_LOGOUT_OFF_RESPONSE], ISCSI_LOGOUT_NO_CID);
    expect_numbers(true);
    request(ISCSI_LOGOUT_REQUEST, 0x80 | ISCSI_REMOVE_FOR_RECOVERY, true, 9 << 16, NULL, 0);
    take(ISCSI_LOGOUT_RESPONSE);
    assert_int_equal(pdu.head[ISCSI_LOGOUT_OFF_RESPONSE], ISCSI_LOGOUT_NO_RECOVERY);
    expect_numbers(true);
    request(ISCSI_LOGOUT_REQUEST, 0x80 | ISCSI_CLOSE_CONNECTION, true, 9 << 16, NULL, 0);
    take(ISCSI_LOGOUT_RESPONSE);
    assert_int_equal(pdu.head[ISCSI_LOGOUT_OFF_RESPONSE], ISCSI_LOGOUT_OK);
    expect_numbers(true);
    hear_the_end(stage);
    stage_settle(stage);
    assert_int_equal(stage->disconnects, 1);
}

static void who_is_dropped_hears_so(void **state)
{
    OPEN("DefaultTime2Wait=3\0");
    stage_tell(stage, STAGE_DROP);
    take(ISCSI_ASYNC_MESSAGE);
    assert_int_equal(pdu.head[1], ISCSI_FINAL);
    assert_int_equal(pdu.head[ISCSI_ASYNC_OFF_EVENT], ISCSI_ASYNC_DROPS_ALL);
    assert_int_equal(get_be16(pdu.head + ISCSI_ASYNC_OFF_PARAMETERS), 0);
    assert_int_equal(get_be16(pdu.head + ISCSI_ASYNC_OFF_PARAMETERS + 2), 3);
    hear_the_end(stage);
}

static void session_that_comes_again_takes_the_place_of_the_former(void **state)
{
    OPEN("");
    int former = stage->client;
    stage->client = stage_call(stage);
    statsn = 7;
    OPEN("");
    assert_int_equal(counters().sessions, 2);
    assert_int_equal(stage->disconnects, 1);
    close(stage->client);
    stage->client = former;
    hear_the_end(stage);
}

// RFC 7143 section 6.3.5: what the former session wrote may not come after what this one writes.
static void session_that_comes_again_waits_for_the_tasks_of_the_former(void **state)
{
    uint8_t octets[BLOCK] = {1};
    OPEN("");
    ready();
    stage->holds = true;
    command(WRITE_10, WRITE_FLAGS, 0, 1, BLOCK, octets, BLOCK);
    stage_settle(stage);
    assert_int_equal(stage->held_count, 1);
    int former = stage->client;
    stage->client = stage_call(stage);
    statsn = 7;
    request_login(TRANSIT_TO_FULL, WHO, sizeof(WHO) - 1);
    hear_nothing(stage);
    assert_int_equal(counters().sessions, 1);
    stage_tell(stage, STAGE_RELEASE);
    take(ISCSI_LOGIN_RESPONSE);
    assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_STATUS), ISCSI_LOGIN_OK);
    assert_int_equal(stage->disconnects, 1);
    close(former);
}

static void pdu_that_is_too_long_ends_the_connection(void **state)
{
    uint8_t head[ISCSI_HEADER_LEN] = {ISCSI_NOP_OUT | ISCSI_IMMEDIATE, 0x80};
    OPEN("");
    put_be32(head + ISCSI_OFF_AHS_LEN, (256 << 10) + 1);
    say_octets(stage, head, sizeof head);
    hear_the_end(stage);
    assert_int_equal(counters().malformed, 1);
    close(stage->client);
    stage->client = stage_call(stage);
    head[0] = ISCSI_LOGIN_REQUEST | ISCSI_IMMEDIATE;
    put_be32(head + ISCSI_OFF_AHS_LEN, 8193); // nothing else has been agreed on
    say_octets(stage, head, sizeof head);
    hear_the_end(stage);
    assert_int_equal(counters().malformed, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reads_are_cut_as_agreed),
        TEST(what_is_less_or_more_than_expected_is_told),
        TEST(what_did_not_move_is_told_beside_a_failure),
        TEST(writes_are_asked_for_burst_by_burst),
        TEST(data_come_with_the_command_and_behind_it),
        TEST(digests_are_made_and_looked_at),
        TEST(data_that_nobody_expects_fail_the_command),
        TEST(data_that_are_not_what_was_agreed_on_fail_the_command),
        TEST(a_reject_shows_the_header_of_what_is_rejected),
        TEST(commands_that_cannot_be_are_rejected),
        TEST(commands_go_in_the_order_of_their_numbers),
        TEST(ping_is_answered_with_its_data),
        TEST(long_pings_and_texts_are_taken),
        TEST(tasks_are_managed),
        TEST(aborted_command_is_not_answered),
        TEST(logout_ends_the_session),
        TEST(who_is_dropped_hears_so),
        TEST(session_that_comes_again_takes_the_place_of_the_former),
        TEST(session_that_comes_again_waits_for_the_tasks_of_the_former),
        TEST(pdu_that_is_too_long_ends_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
