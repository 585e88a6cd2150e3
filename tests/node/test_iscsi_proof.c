// iSCSI: who logs in, by PDUs. Who must prove who he is does so by CHAP before he gets anywhere,
// and nobody becomes another on the way.

#include "chap/chap.h"
#include "node/iscsi/connection.h"
#include "tests/node/iscsi_stage.h"

#define SECRET    "a secret that is long"
#define CHALLENGE "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"

enum { STAY = 0x00, TRANSIT_TO_OPERATIONAL = 0x81, OPERATIONAL = 0x04, IDENTIFIER = 0x5a };

static void must_prove(void)
{
    accounts.is_required = true;
    accounts.count = 1;
    snprintf(accounts.initiators[0].name, ACCOUNT_NAME_MAX, "me");
    snprintf(accounts.initiators[0].secret, ACCOUNT_SECRET_MAX, SECRET);
}

// What proves who one is, and perhaps not: pairs that end with zero. Their length.
static size_t proof(char *ret, size_t room, const char *name, const char *secret)
{
    uint8_t challenge[32], digest[CHAP_DIGEST_MAX];
    const struct chap_algorithm *md5 = chap_algorithm_of("5");
    memset(challenge, IDENTIFIER, sizeof challenge);
    chap_digest(md5, IDENTIFIER, secret, challenge, sizeof challenge, digest);
    int len = snprintf(ret, room, "CHAP_N=%s%cCHAP_R=0x", name, 0);
    for (size_t i = 0; i < chap_digest_len(md5); i++) {
        len += snprintf(ret + len, room - (size_t)len, "%02x", digest[i]);
    }
    return (size_t)len + 1;
}

static void agree(void)
{
    REQUEST_LOGIN(TRANSIT_TO_OPERATIONAL, WHO "AuthMethod=None,CHAP\0");
    HEAR_LOGIN(STAY, 0, "AuthMethod=CHAP\0TargetPortalGroupTag=1\0");
}

static void be_challenged(void)
{
    agree();
    REQUEST_LOGIN(STAY, "CHAP_A=5\0");
    HEAR_LOGIN(STAY, 0, "CHAP_A=5\0CHAP_I=90\0CHAP_C=0x" CHALLENGE "\0");
}

static void who_proves_who_it_is_goes_on(void **state)
{
    char text[256];
    must_prove();
    be_challenged();
    size_t len = proof(text, sizeof text, "me", SECRET);
    request_login(TRANSIT_TO_OPERATIONAL, text, len);
    HEAR_LOGIN(TRANSIT_TO_OPERATIONAL, 0, "");
    REQUEST_LOGIN(TRANSIT_TO_FULL, "InitialR2T=No\0");
    HEAR_LOGIN(TRANSIT_TO_FULL, 1, "InitialR2T=No\0");
    assert_int_equal(counters().unproven, 0);
    assert_int_equal(counters().sessions, 1);
}

static void a_wrong_proof_is_refused_and_counted(void **state)
{
    static const struct {
        const char *name, *secret;
    } table[] = {{"me", "another secret"}, {"you", SECRET}};
    must_prove();
    for (unsigned i = 0; i < 2; i++) {
        char text[256];
        be_challenged();
        size_t len = proof(text, sizeof text, table[i].name, table[i].secret);
        login_refused(TRANSIT_TO_OPERATIONAL, text, len, ISCSI_AUTHENTICATION_FAILURE);
        assert_int_equal(counters().unproven, i + 1);
        assert_int_equal(counters().refused, i + 1);
    }
    assert_int_equal(stage->connects, 0);
}

static void nobody_leaves_the_first_stage_without_a_proof(void **state)
{
    must_prove();
    REFUSED(TRANSIT_TO_FULL, WHO, ISCSI_AUTHENTICATION_FAILURE);
    REFUSED(TRANSIT_TO_OPERATIONAL, WHO, ISCSI_AUTHENTICATION_FAILURE);
    REFUSED(OPERATIONAL, WHO, ISCSI_AUTHENTICATION_FAILURE); // nor leaves it out
    REFUSED(STAY, WHO "AuthMethod=None\0", ISCSI_AUTHENTICATION_FAILURE);
    REFUSED(TRANSIT_TO_FULL, "InitiatorName=a\0SessionType=Discovery\0",
            ISCSI_AUTHENTICATION_FAILURE);
    assert_int_equal(counters().unproven, 5);
    REQUEST_LOGIN(STAY, WHO); // who stays may prove it yet
    HEAR_LOGIN(STAY, 0, "TargetPortalGroupTag=1\0");
    REQUEST_LOGIN(STAY, "AuthMethod=CHAP\0");
    HEAR_LOGIN(STAY, 0, "AuthMethod=CHAP\0");
    REQUEST_LOGIN(0x83, "CHAP_A=5\0"); // and is kept until it has
    HEAR_LOGIN(STAY, 0, "CHAP_A=5\0CHAP_I=90\0CHAP_C=0x" CHALLENGE "\0");
    REQUEST_LOGIN(0x83, "InitialR2T=No\0");
    HEAR_LOGIN(STAY, 0, "InitialR2T=No\0");
}

// Before a proof is asked for they are keys as any others; and of one letter more always.
static void keys_of_a_proof_are_known_once_it_is_asked_for(void **state)
{
    REQUEST_LOGIN(STAY, WHO "CHAP_A=5\0");
    HEAR_LOGIN(STAY, 0, "CHAP_A=NotUnderstood\0TargetPortalGroupTag=1\0");
    REFUSED(STAY, "AuthMethod=CHAP\0", ISCSI_AUTHENTICATION_FAILURE); // nobody asked for it
    must_prove();
    agree();
    REQUEST_LOGIN(STAY, "CHAPX=1\0CHAP_A=5\0");
    HEAR_LOGIN(STAY, 0, "CHAPX=NotUnderstood\0CHAP_A=5\0CHAP_I=90\0CHAP_C=0x" CHALLENGE "\0");
    REFUSED(STAY, "CHAP_X=1\0", ISCSI_INITIATOR_ERROR);
}

static void nobody_becomes_another_on_the_way(void **state)
{
    static const struct {
        const char *text;
        size_t len;
        uint16_t status;
    } table[] = {
        {"InitiatorName=iqn.test:host2", 29, ISCSI_INITIATOR_ERROR},
        {"TargetName=iqn.other", 21, ISCSI_INITIATOR_ERROR},
        {"SessionType=Discovery", 22, ISCSI_INITIATOR_ERROR},
        {"SessionType=Odd", 16, ISCSI_NO_SESSION_TYPE},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        REQUEST_LOGIN(OPERATIONAL, WHO);
        HEAR_LOGIN(OPERATIONAL, 0, "TargetPortalGroupTag=1\0");
        login_refused(OPERATIONAL, table[i].text, table[i].len, table[i].status);
    }
    REQUEST_LOGIN(OPERATIONAL, WHO);
    HEAR_LOGIN(OPERATIONAL, 0, "TargetPortalGroupTag=1\0");
    REQUEST_LOGIN(TRANSIT_TO_FULL, WHO "SessionType=Normal\0"); // the same again
    HEAR_LOGIN(TRANSIT_TO_FULL, 1, "");
}

// By whom it was wished, from where, and why it is not to be.
static void the_operator_is_told_who_is_refused_and_why(void **state)
{
    static const struct {
        uint8_t flags;
        const char *text;
        size_t len;
        uint16_t status;
        const char *who, *why;
    } rows[] = {
        {0x87, "X=1", 4, ISCSI_MISSING_PARAMETER, "(no name)", "its login makes no sense"},
        {0x86, "X=1", 4, ISCSI_INVALID_REQUEST, "(no name)", "its login has its stages wrong"},
        {0x87, "InitiatorName=iqn.a\0TargetName=iqn.b", 37, ISCSI_TARGET_NOT_FOUND, "iqn.a", ""},
        {0x87, WHO "AuthMethod=KRB5", sizeof WHO + 15, ISCSI_AUTHENTICATION_FAILURE,
         "iqn.test:host", "it offers no way to prove who it is, or not to, that is wanted"},
        {0x87, WHO, sizeof WHO - 1, ISCSI_AUTHENTICATION_FAILURE, "iqn.test:host",
         "it does not prove who it is (CHAP)"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        accounts.is_required = i == 4;
        login_refused(rows[i].flags, rows[i].text, rows[i].len, rows[i].status);
        stage_settle(stage);
        assert_non_null(strstr(stage_said, "127.0.0.1: iscsi"));
        assert_non_null(strstr(stage_said, rows[i].who));
        assert_non_null(strstr(stage_said, " at 127.0.0.1:"));
        const char *why = strstr(stage_said, "is refused: ");
        assert_non_null(why);
        assert_non_null(strstr(why, rows[i].why));
    }
}

// A name that fills its place is none.
static void names_have_a_longest_length(void **state)
{
    static const struct {
        const char *before, *key;
        size_t longest;
        uint16_t beyond;
    } table[] = {
        {"", "InitiatorName=", CLIENT_IDENTITY_MAX - 1, ISCSI_INITIATOR_ERROR},
        {"InitiatorName=iqn.a", "TargetName=", ISCSI_NAME_MAX - 1, ISCSI_TARGET_NOT_FOUND},
    };
    for (unsigned i = 0; i < 2; i++) {
        char text[2048];
        size_t len = strlen(table[i].before) + (i > 0);
        memcpy(text, table[i].before, len);
        len += (size_t)snprintf(text + len, sizeof text - len, "%s", table[i].key);
        memset(text + len, 'x', table[i].longest + 1);
        text[len + table[i].longest + 1] = '\0';
        login_refused(STAY, text, len + table[i].longest + 2, table[i].beyond);
        text[len + table[i].longest] = '\0';
        if (i == 0) {
            login_refused(STAY, text, len + table[i].longest + 1, ISCSI_MISSING_PARAMETER);
        } else {
            request_login(STAY, text, len + table[i].longest + 1);
            HEAR_LOGIN(STAY, 0, "TargetPortalGroupTag=1\0");
        }
    }
}

static void a_session_has_one_connection(void **state)
{
    OPEN("");
    int first = stage->client;
    stage->client = stage_call(stage);
    statsn = 7;
    tsih = 2; // which there is not
    REFUSED(TRANSIT_TO_FULL, WHO, ISCSI_NO_SESSION);
    tsih = 1;
    REFUSED(TRANSIT_TO_FULL, WHO, ISCSI_TOO_MANY_CONNECTIONS);
    qualifier++; // another's
    request_login(TRANSIT_TO_FULL, WHO, sizeof(WHO) - 1);
    take(ISCSI_LOGIN_RESPONSE);
    assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_STATUS), ISCSI_NO_SESSION);
    close(first);
}

static void sessions_are_numbered_and_none_has_number_0(void **state)
{
    iscsi->tsih = UINT16_MAX - 1;
    OPEN("");
    assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_TSIH), UINT16_MAX);
    close(stage->client);
    stage->client = stage_call(stage);
    statsn = 7;
    stage_settle(stage);
    OPEN("");
    assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_TSIH), 1);
}

// Its parts are one text, and behind it another may come in parts or whole.
static void a_text_in_parts_is_over_with_its_last(void **state)
{
    REQUEST_LOGIN(0x44, WHO "HeaderDi");
    HEAR_LOGIN(OPERATIONAL, 0, "");
    REQUEST_LOGIN(OPERATIONAL, "gest=None\0");
    HEAR_LOGIN(OPERATIONAL, 0, "HeaderDigest=None\0TargetPortalGroupTag=1\0");
    REQUEST_LOGIN(OPERATIONAL, "InitialR2T=No\0");
    HEAR_LOGIN(OPERATIONAL, 0, "InitialR2T=No\0");
    REQUEST_LOGIN(0x44, "D");
    HEAR_LOGIN(OPERATIONAL, 0, "");
    REQUEST_LOGIN(TRANSIT_TO_FULL, "ataDigest=None\0");
    HEAR_LOGIN(TRANSIT_TO_FULL, 1, "DataDigest=None\0");
}

static void a_login_has_a_longest_text(void **state)
{
    static char text[8192];
    memset(text, 'x', sizeof text);
    for (unsigned i = 0; i < 100; i++) {
        request_login(0x44, text, sizeof text);
        take(ISCSI_LOGIN_RESPONSE);
        if (get_be16(pdu.head + ISCSI_LOGIN_OFF_STATUS) != ISCSI_LOGIN_OK) {
            break;
        }
        statsn++;
    }
    assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_STATUS), ISCSI_INITIATOR_ERROR);
    hear_the_end(stage);
    assert_int_equal(counters().refused, 1);
}

// Of INQUIRY, the page of a number, or the standard data.
static void inquire(bool is_page, uint8_t page)
{
    uint8_t head[ISCSI_HEADER_LEN] = {ISCSI_SCSI_COMMAND, READ_FLAGS};
    put_be32(head + ISCSI_OFF_ITT, ++itt);
    put_be32(head + ISCSI_CMD_OFF_EXPECTED_LEN, 1024);
    put_be32(head + ISCSI_OFF_CMDSN, cmdsn++);
    memcpy(head + ISCSI_CMD_OFF_CDB, (const uint8_t[]){0x12, is_page, page, 4, 0}, 5);
    put(head, NULL, 0);
    take(ISCSI_DATA_IN);
}

static bool is_said(const char *text)
{
    return memmem(pdu.data, pdu.data_len, text, strlen(text)) != NULL;
}

static void a_device_says_how_it_is_reached(void **state)
{
    OPEN("");
    inquire(false, 0);
    assert_non_null(memmem(pdu.data + 58, 16, "\x09\x60", 2)); // iSCSI
    inquire(true, 0x83);
    assert_true(is_said(TARGET));
    assert_non_null(memmem(pdu.data, pdu.data_len, "\x51\x94\x00\x04", 4)); // of its port
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_proves_who_it_is_goes_on),
        TEST(a_wrong_proof_is_refused_and_counted),
        TEST(nobody_leaves_the_first_stage_without_a_proof),
        TEST(keys_of_a_proof_are_known_once_it_is_asked_for),
        TEST(nobody_becomes_another_on_the_way),
        TEST(the_operator_is_told_who_is_refused_and_why),
        TEST(names_have_a_longest_length),
        TEST(a_session_has_one_connection),
        TEST(sessions_are_numbered_and_none_has_number_0),
        TEST(a_text_in_parts_is_over_with_its_last),
        TEST(a_login_has_a_longest_text),
        TEST(a_device_says_how_it_is_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
