// Targets of several volumes, by PDUs: which units a session has, which come and go while it lasts,
// and how discovery lists such a target.

#include "tests/node/iscsi_stage.h"

#define GROUP "iqn.2026-11.invalid:group"
enum { MEMBERS = 2, NO_UNIT = 0x052500, BEGUN = 0x062900 };

// Both volumes stand in one target.
static int begin_grouped(void **state)
{
    begin(state);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct volume_place *place = &stage->rows[i].places[VOLUME_IN_TARGET];
        snprintf(place->group, sizeof place->group, GROUP);
        place->member = i + 1;
    }
    return 0;
}

static enum iscsi_login_status log_in(void)
{
    static const char text[] = "InitiatorName=iqn.test:host\0MaxRecvDataSegmentLength=512\0"
                               "TargetName=" GROUP;
    request_login(TRANSIT_TO_FULL, text, sizeof text);
    take(ISCSI_LOGIN_RESPONSE);
    return get_be16(pdu.head + ISCSI_LOGIN_OFF_STATUS);
}

static void open_group(void)
{
    assert_int_equal(log_in(), ISCSI_LOGIN_OK);
    expect_numbers(true);
}

static void open_discovery(void)
{
    static const char text[] = "InitiatorName=a\0SessionType=Discovery";
    request_login(TRANSIT_TO_FULL, text, sizeof text);
    take(ISCSI_LOGIN_RESPONSE);
    assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_STATUS), ISCSI_LOGIN_OK);
    expect_numbers(true);
}

// TEST UNIT READY of this LUN.
static void ask_unit(uint32_t lun)
{
    uint8_t head[ISCSI_HEADER_LEN] = {ISCSI_SCSI_COMMAND, 0x80};
    put_be64(head + ISCSI_OFF_LUN, (uint64_t)lun << 48);
    put_be32(head + ISCSI_OFF_ITT, ++itt);
    put_be32(head + ISCSI_OFF_CMDSN, cmdsn++);
    put(head, NULL, 0);
}

// How often a text request is answered with a target of this name.
static unsigned listed(const char *which, const char *name)
{
    char text[256];
    unsigned count = 0;
    int len = snprintf(text, sizeof text, "SendTargets=%s", which) + 1;
    request(ISCSI_TEXT_REQUEST, 0x80, false, ISCSI_NO_TAG, text, (size_t)len);
    take(ISCSI_TEXT_RESPONSE);
    expect_numbers(true);
    snprintf(text, sizeof text, "TargetName=%s", name);
    for (const char *at = (const char *)pdu.data; at < (const char *)pdu.data + pdu.data_len;
         at += strlen(at) + 1) {
        count += strcmp(at, text) == 0;
    }
    return count;
}

/* ---- units ----------------------------------------------------------------------------------- */

static void a_session_has_all_volumes_of_its_target(void **state)
{
    open_group();
    assert_int_equal(stage->connects, MEMBERS);
    for (uint32_t lun = 0; lun < MEMBERS; lun++) {
        ask_unit(lun);
        hear_sense(itt, BEGUN);
        ask_unit(lun);
        hear_response(itt, SCSI_GOOD, 0, 0);
    }
    ask_unit(MEMBERS);
    hear_sense(itt, NO_UNIT);
}

static void a_volume_that_it_may_not_see_is_none_of_its_units(void **state)
{
    stage->hidden = STAGE_VOLUME;
    open_group();
    assert_int_equal(stage->connects, 1);
    ask_unit(1);
    hear_sense(itt, BEGUN);
    ask_unit(0);
    hear_sense(itt, NO_UNIT);
}

static void a_volume_that_is_not_there_is_none_either(void **state)
{
    stage->rows[1].state = RESOURCE_FAILED;
    open_group();
    assert_int_equal(stage->connects, 1);
    ask_unit(0);
    hear_sense(itt, BEGUN);
    ask_unit(1);
    hear_sense(itt, NO_UNIT);
}

static void a_volume_that_comes_is_a_unit_of_sessions_that_last(void **state)
{
    stage->table.count = 1;
    open_group();
    ask_unit(0);
    hear_sense(itt, BEGUN);
    ask_unit(1);
    hear_sense(itt, NO_UNIT);
    stage->table.count = MEMBERS;
    stage_tell(stage, STAGE_ADVERTISE);
    assert_int_equal(stage->connects, MEMBERS);
    stage_tell(stage, STAGE_ADVERTISE); // it has it
    assert_int_equal(stage->connects, MEMBERS);
    ask_unit(1);
    hear_sense(itt, BEGUN);
}

static void a_volume_of_another_target_is_none(void **state)
{
    stage->table.count = 1;
    open_group();
    snprintf(stage->rows[1].places[VOLUME_IN_TARGET].group, VOLUME_GROUP_MAX, "iqn.x:other");
    stage->table.count = MEMBERS;
    stage_tell(stage, STAGE_ADVERTISE);
    assert_int_equal(stage->connects, 1);
}

static void a_volume_that_comes_and_may_not_be_seen_is_none(void **state)
{
    stage->table.count = 1;
    open_group();
    stage->table.count = MEMBERS;
    stage->hidden = STAGE_VOLUME + 1;
    stage_tell(stage, STAGE_ADVERTISE);
    assert_int_equal(stage->connects, 1);
}

static void who_gets_no_unit_is_told_why(void **state)
{
    stage->hidden = STAGE_VOLUME;
    stage->table.count = 1;
    assert_int_equal(log_in(), ISCSI_AUTHORIZATION_FAILURE);
}

static void who_finds_nothing_is_told_so(void **state)
{
    stage->table.count = 0;
    assert_int_equal(log_in(), ISCSI_TARGET_NOT_FOUND);
}

static void who_is_refused_by_all_is_told_why(void **state)
{
    stage->answer = CONNECT_TOO_MANY;
    assert_int_equal(log_in(), ISCSI_OUT_OF_RESOURCES);
}

static void a_volume_that_cannot_come_leaves_the_session_as_it_is(void **state)
{
    stage->table.count = 1;
    open_group();
    stage->table.count = MEMBERS;
    stage->answer = CONNECT_TOO_MANY;
    stage_tell(stage, STAGE_ADVERTISE);
    assert_int_equal(stage->connects, MEMBERS);
    ask_unit(0);
    hear_sense(itt, BEGUN);
    ask_unit(1);
    hear_sense(itt, NO_UNIT);
    stage->answer = CONNECT_OK; // and is asked for again
    stage_tell(stage, STAGE_ADVERTISE);
    ask_unit(1);
    hear_sense(itt, BEGUN);
}

/* ---- discovery ------------------------------------------------------------------------------- */

static void a_target_is_listed_once(void **state)
{
    open_discovery();
    assert_int_equal(listed("All", GROUP), 1);
    stage->hidden = STAGE_VOLUME; // by its other volume
    assert_int_equal(listed("All", GROUP), 1);
    stage->hidden = STAGE_VOLUME + 1;
    assert_int_equal(listed(GROUP, GROUP), 1);
    stage->rows[0].state = RESOURCE_FAILED; // by neither
    assert_int_equal(listed("All", GROUP), 0);
}

static void targets_of_other_names_are_listed_too(void **state)
{
    snprintf(stage->rows[1].places[VOLUME_IN_TARGET].group, VOLUME_GROUP_MAX, "iqn.x:other");
    open_discovery();
    assert_int_equal(listed("All", GROUP), 1);
    assert_int_equal(listed("All", "iqn.x:other"), 1);
    assert_int_equal(listed("iqn.x:other", GROUP), 0);
}

static void a_normal_session_is_told_of_its_own_target(void **state)
{
    snprintf(stage->rows[1].places[VOLUME_IN_TARGET].group, VOLUME_GROUP_MAX, "iqn.x:other");
    open_group();
    assert_int_equal(listed("", GROUP), 1);
    assert_int_equal(listed("", "iqn.x:other"), 0);
    assert_int_equal(listed("All", GROUP), 0); // which discovery is asked for
}

/* ---- text in parts --------------------------------------------------------------------------- */

enum { PART = 0x40, LAST = 0x80, MORE_FOLLOWS = 0, ANSWER_TAG = 1, REQUEST_TAG = 2 };

static void hear_part(uint8_t flags, uint32_t tag, const char *text, size_t len)
{
    take(ISCSI_TEXT_RESPONSE);
    expect_numbers(true);
    assert_int_equal(pdu.head[1], flags);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_TTT), tag);
    assert_int_equal(pdu.data_len, len);
    assert_memory_equal(pdu.data, text, len);
}

static void a_request_that_follows_has_nothing_of_the_one_before(void **state)
{
    open_group();
    request(ISCSI_TEXT_REQUEST, PART, false, ISCSI_NO_TAG, "X-1=", 4);
    hear_part(MORE_FOLLOWS, REQUEST_TAG, "", 0);
    request(ISCSI_TEXT_REQUEST, MORE_FOLLOWS, false, REQUEST_TAG, "a", 2);
    hear_part(MORE_FOLLOWS, REQUEST_TAG, "X-1=NotUnderstood", 18);
    request(ISCSI_TEXT_REQUEST, LAST, false, REQUEST_TAG, "X-2=b", 6);
    hear_part(LAST, ISCSI_NO_TAG, "X-2=NotUnderstood", 18);
    request(ISCSI_TEXT_REQUEST, LAST, false, REQUEST_TAG, "X-3=c", 6); // nobody asked
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
}

static void a_request_that_was_refused_is_not_gone_on_with(void **state)
{
    open_group();
    request(ISCSI_TEXT_REQUEST, PART, false, ISCSI_NO_TAG, "X-1=", 4);
    hear_part(MORE_FOLLOWS, REQUEST_TAG, "", 0);
    request(ISCSI_TEXT_REQUEST, PART | LAST, false, REQUEST_TAG, "a", 2);
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    request(ISCSI_TEXT_REQUEST, LAST, false, REQUEST_TAG, "a", 2);
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    request(ISCSI_TEXT_REQUEST, LAST, false, ISCSI_NO_TAG, "X-2=b", 6);
    hear_part(LAST, ISCSI_NO_TAG, "X-2=NotUnderstood", 18);
}

static void each_long_answer_begins_at_its_beginning(void **state)
{
    enum { KEYS = 40, KEY_LEN = 6, SAID_LEN = 18, PDU_LEN = 512 };
    char asked[KEYS * KEY_LEN], whole[KEYS * SAID_LEN];
    open_group();
    for (unsigned i = 0; i < KEYS; i++) {
        memcpy(asked + KEY_LEN * i, "X-1=a", KEY_LEN);
        memcpy(whole + SAID_LEN * i, "X-1=NotUnderstood", SAID_LEN);
    }
    for (unsigned i = 0; i < 3; i++) {
        request(ISCSI_TEXT_REQUEST, LAST, false, ISCSI_NO_TAG, asked, sizeof asked);
        hear_part(PART, ANSWER_TAG, whole, PDU_LEN);
        request(ISCSI_TEXT_REQUEST, LAST, false, ANSWER_TAG, NULL, 0);
        hear_part(LAST, ISCSI_NO_TAG, whole + PDU_LEN, sizeof whole - PDU_LEN);
    }
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_grouped, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_session_has_all_volumes_of_its_target),
        TEST(a_volume_that_it_may_not_see_is_none_of_its_units),
        TEST(a_volume_that_is_not_there_is_none_either),
        TEST(a_volume_that_comes_is_a_unit_of_sessions_that_last),
        TEST(a_volume_of_another_target_is_none),
        TEST(a_volume_that_cannot_come_leaves_the_session_as_it_is),
        TEST(a_target_is_listed_once),
        TEST(targets_of_other_names_are_listed_too),
        TEST(a_normal_session_is_told_of_its_own_target),
        TEST(a_volume_that_comes_and_may_not_be_seen_is_none),
        TEST(who_gets_no_unit_is_told_why),
        TEST(who_finds_nothing_is_told_so),
        TEST(who_is_refused_by_all_is_told_why),
        TEST(a_request_that_follows_has_nothing_of_the_one_before),
        TEST(a_request_that_was_refused_is_not_gone_on_with),
        TEST(each_long_answer_begins_at_its_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
