// iSCSI over TCP by its PDUs (RFC 7143): the login phase, and what there is to discover.

#include "tests/node/iscsi_stage.h"

/* ---- login ----------------------------------------------------------------------------------- */

static void every_key_comes_to_its_result(void **state)
{
    REQUEST_LOGIN(TRANSIT_TO_FULL,
                  WHO "SessionType=Normal\0AuthMethod=CHAP,None\0HeaderDigest=CRC32C,None\0"
                      "DataDigest=None,CRC32C\0MaxConnections=4\0InitialR2T=No\0"
                      "ImmediateData=Yes\0MaxRecvDataSegmentLength=4096\0"
                      "MaxBurstLength=16384\0FirstBurstLength=8192\0DefaultTime2Wait=2\0"
                      "DefaultTime2Retain=20\0MaxOutstandingR2T=2\0DataPDUInOrder=No\0"
                      "DataSequenceInOrder=No\0ErrorRecoveryLevel=2\0IFMarker=Yes\0"
                      "OFMarker=No\0InitiatorAlias=me\0X-foo=1\0");
    HEAR_LOGIN(TRANSIT_TO_FULL, 1,
               "AuthMethod=None\0HeaderDigest=CRC32C\0DataDigest=None\0MaxConnections=1\0"
               "InitialR2T=No\0ImmediateData=Yes\0MaxRecvDataSegmentLength=262144\0"
               "MaxBurstLength=16384\0FirstBurstLength=8192\0DefaultTime2Wait=2\0"
               "DefaultTime2Retain=0\0MaxOutstandingR2T=1\0DataPDUInOrder=Yes\0"
               "DataSequenceInOrder=Yes\0ErrorRecoveryLevel=0\0IFMarker=No\0OFMarker=No\0"
               "X-foo=NotUnderstood\0TargetPortalGroupTag=1\0");
    assert_int_equal(counters().sessions, 1);
    assert_int_equal(stage->connects, 1);
    assert_string_equal(stage->asker.identity, "iqn.test:host");
    assert_string_equal(stage->asker.registrant, "iqn.test:host,i,0x800102030405");
    assert_string_equal(stage->asker.host, "127.0.0.1");
}

static void numbers_of_keys_are_the_smaller_or_larger(void **state)
{
    REQUEST_LOGIN(TRANSIT_TO_FULL, WHO "MaxBurstLength=16777215\0FirstBurstLength=16777215\0"
                                       "DefaultTime2Wait=0\0InitialR2T=Yes\0ImmediateData=No\0"
                                       "MaxRecvDataSegmentLength=512\0");
    HEAR_LOGIN(TRANSIT_TO_FULL, 1,
               "MaxBurstLength=1048576\0FirstBurstLength=65536\0DefaultTime2Wait=0\0"
               "InitialR2T=Yes\0ImmediateData=No\0MaxRecvDataSegmentLength=262144\0"
               "TargetPortalGroupTag=1\0");
}

static void every_key_of_the_standard_is_understood(void **state)
{
    REQUEST_LOGIN(TRANSIT_TO_FULL,
                  WHO "TaskReporting=FastAbort,ResponseFence,RFC3720\0iSCSIProtocolLevel=2\0"
                      "IFMarkInt=2048~8192\0OFMarkInt=2048\0");
    HEAR_LOGIN(TRANSIT_TO_FULL, 1,
               "TaskReporting=RFC3720\0iSCSIProtocolLevel=1\0IFMarkInt=Reject\0"
               "OFMarkInt=Reject\0TargetPortalGroupTag=1\0");
}

static void login_goes_through_its_stages(void **state)
{
    REQUEST_LOGIN(0x81, WHO "AuthMethod=None\0"); // security, to operational
    HEAR_LOGIN(0x81, 0, "AuthMethod=None\0TargetPortalGroupTag=1\0");
    REQUEST_LOGIN(0x04, "HeaderDigest=None\0"); // no transit
    HEAR_LOGIN(0x04, 0, "HeaderDigest=None\0");
    REQUEST_LOGIN(0x44, "DataDi"); // in two PDUs
    HEAR_LOGIN(0x04, 0, "");
    REQUEST_LOGIN(0x87, "gest=None\0");
    HEAR_LOGIN(0x87, 1, "DataDigest=None\0");
}

static void logins_that_make_no_sense_are_refused(void **state)
{
    REFUSED(0x87, "InitiatorName=a\0", ISCSI_MISSING_PARAMETER);
    REFUSED(0x87, "TargetName=" TARGET "\0", ISCSI_MISSING_PARAMETER);
    REFUSED(0x87, "InitiatorName=\0TargetName=" TARGET "\0", ISCSI_INITIATOR_ERROR);
    REFUSED(0x87, "InitiatorName=a\0TargetName=iqn.b\0", ISCSI_TARGET_NOT_FOUND);
    REFUSED(0x87, WHO "SessionType=Odd\0", ISCSI_NO_SESSION_TYPE);
    REFUSED(0x87, WHO "AuthMethod=CHAP\0", ISCSI_AUTHENTICATION_FAILURE);
    REFUSED(0x87, WHO "MaxBurstLength=511\0", ISCSI_INITIATOR_ERROR);
    REFUSED(0x87, WHO "MaxBurstLength=16777216\0", ISCSI_INITIATOR_ERROR);
    REFUSED(0x87, WHO "DefaultTime2Wait=3601\0", ISCSI_INITIATOR_ERROR);
    REFUSED(0x87, WHO "ErrorRecoveryLevel=3\0", ISCSI_INITIATOR_ERROR);
    REFUSED(0x87, WHO "InitialR2T=yes\0", ISCSI_INITIATOR_ERROR);
    REFUSED(0x87, WHO "HeaderDigest=CRC32\0", ISCSI_INITIATOR_ERROR);
    REFUSED(0x87, WHO "nothing", ISCSI_INITIATOR_ERROR);
    REFUSED(0x86, WHO, ISCSI_INVALID_REQUEST); // a stage that there is not
    REFUSED(0x85, WHO, ISCSI_INVALID_REQUEST); // from one to itself
    REFUSED(0xc7, WHO, ISCSI_INVALID_REQUEST); // on, and more to come
    REFUSED(0x08, WHO, ISCSI_INVALID_REQUEST);
    assert_int_equal(counters().refused, 17);
    assert_int_equal(counters().sessions, 0);
}

static void a_key_is_said_once(void **state)
{
    REFUSED(0x87, WHO "MaxBurstLength=8192\0MaxBurstLength=8192\0", ISCSI_INITIATOR_ERROR);
    REQUEST_LOGIN(0x04, WHO "InitialR2T=No\0MaxRecvDataSegmentLength=512\0");
    HEAR_LOGIN(0x04, 0, "InitialR2T=No\0MaxRecvDataSegmentLength=262144\0TargetPortalGroupTag=1\0");
    REFUSED(0x87, "MaxRecvDataSegmentLength=1024\0", ISCSI_INITIATOR_ERROR);
}

static void headers_of_logins_are_looked_at(void **state)
{
    static const struct {
        uint8_t at, octet;
        uint16_t status;
    } table[] = {{ISCSI_LOGIN_OFF_VERSION_MIN, 1, ISCSI_UNSUPPORTED_VERSION},
                 {ISCSI_LOGIN_OFF_TSIH, 1, ISCSI_NO_SESSION}};
    for (unsigned i = 0; i < 2; i++) {
        uint8_t head[ISCSI_HEADER_LEN] = {ISCSI_LOGIN_REQUEST | ISCSI_IMMEDIATE, 0x87};
        head[table[i].at] = table[i].octet;
        put(head, WHO, sizeof(WHO) - 1);
        take(ISCSI_LOGIN_RESPONSE);
        assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_STATUS), table[i].status);
        hear_the_end(stage);
        close(stage->client);
        stage->client = stage_call(stage);
    }
    uint8_t nop[ISCSI_HEADER_LEN] = {ISCSI_NOP_OUT | ISCSI_IMMEDIATE, 0x80};
    put(nop, NULL, 0); // before any login
    hear_the_end(stage);
    assert_int_equal(counters().malformed, 1);
}

/* ---- discovery ------------------------------------------------------------------------------- */

static void hear_text(uint8_t flags, uint32_t tag, const char *text, size_t len)
{
    take(ISCSI_TEXT_RESPONSE);
    assert_int_equal(pdu.head[1], flags);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_TTT), tag);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_ITT), itt);
    assert_int_equal(pdu.data_len, len);
    assert_memory_equal(pdu.data, text, len);
    expect_numbers(true);
}

static void discovery_tells_of_all_that_may_be_seen(void **state)
{
    char text[512];
    struct sockaddr_in peer;
    socklen_t peer_len = sizeof peer;
    assert_int_equal(getpeername(stage->client, (struct sockaddr *)&peer, &peer_len), 0);
    REQUEST_LOGIN(0x87, "InitiatorName=a\0SessionType=Discovery\0MaxBurstLength=512\0");
    HEAR_LOGIN(0x87, 1, "MaxBurstLength=Irrelevant\0");
    assert_int_equal(stage->connects, 0);
    request(ISCSI_TEXT_REQUEST, 0x80, false, ISCSI_NO_TAG, "SendTargets=All", 16);
    int len = snprintf(text, sizeof text,
                       "TargetName=" TARGET "%cTargetAddress=127.0.0.1:%u,1%c"
                       "TargetName=iqn.2026-11.invalid.weft:uuid:00000000-0000-0000-0000-"
                       "000000000001%cTargetAddress=127.0.0.1:%u,1%c",
                       0, ntohs(peer.sin_port), 0, 0, ntohs(peer.sin_port), 0);
    hear_text(0x80, ISCSI_NO_TAG, text, (size_t)len);
    stage->hidden = STAGE_VOLUME + 1;
    request(ISCSI_TEXT_REQUEST, 0x80, false, ISCSI_NO_TAG, "SendTargets=All", 16);
    len = snprintf(text, sizeof text, "TargetName=" TARGET "%cTargetAddress=127.0.0.1:%u,1%c", 0,
                   ntohs(peer.sin_port), 0);
    hear_text(0x80, ISCSI_NO_TAG, text, (size_t)len);
    request(ISCSI_TEXT_REQUEST, 0x80, false, ISCSI_NO_TAG, "SendTargets=" TARGET, 12 + 67);
    hear_text(0x80, ISCSI_NO_TAG, text, (size_t)len);
    request(ISCSI_TEXT_REQUEST, 0x80, false, ISCSI_NO_TAG, "SendTargets=iqn.c\0X-a=b", 24);
    hear_text(0x80, ISCSI_NO_TAG, "X-a=NotUnderstood", 18);
}

static void answers_in_parts_are_asked_for_part_by_part(void **state)
{
    char octets[240];
    OPEN("MaxRecvDataSegmentLength=512\0");
    request(ISCSI_TEXT_REQUEST, 0x80, false, ISCSI_NO_TAG, "X-1=a\0X-2=a\0X-3=a\0X-4=a", 24);
    hear_text(0x80, ISCSI_NO_TAG,
              "X-1=NotUnderstood\0X-2=NotUnderstood\0X-3=NotUnderstood\0X-4=NotUnderstood", 72);
    request(ISCSI_TEXT_REQUEST, 0x80, false, 1, "X-1=a", 6); // the rest of nothing
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    for (unsigned i = 0; i < 40; i++) {
        memcpy(octets + 6 * i, "X-1=a", 6);
    }
    request(ISCSI_TEXT_REQUEST, 0x80, false, ISCSI_NO_TAG, octets, 240); // 40 times 18 octets
    take(ISCSI_TEXT_RESPONSE);
    assert_int_equal(pdu.head[1], ISCSI_TEXT_CONTINUE);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_TTT), 1);
    assert_int_equal(pdu.data_len, 512);
    expect_numbers(true);
    request(ISCSI_TEXT_REQUEST, 0x80, false, 1, NULL, 0);
    take(ISCSI_TEXT_RESPONSE);
    assert_int_equal(pdu.head[1], ISCSI_FINAL);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_TTT), ISCSI_NO_TAG);
    assert_int_equal(pdu.data_len, 720 - 512);
    expect_numbers(true);
    assert_int_equal(counters().rejects, 1);
}

// RFC 7143 section 6.2: C says that the request goes on in the next PDU, a pair of it too; F that
// the initiator is at its end.
static void requests_in_parts_are_asked_for_part_by_part(void **state)
{
    OPEN("");
    request(ISCSI_TEXT_REQUEST, ISCSI_TEXT_CONTINUE, false, ISCSI_NO_TAG, "X-1=a\0X-", 8);
    hear_text(0, 2, "", 0);
    request(ISCSI_TEXT_REQUEST, ISCSI_TEXT_CONTINUE, false, 2, "2=", 2);
    hear_text(0, 2, "", 0);
    request(ISCSI_TEXT_REQUEST, ISCSI_FINAL, false, 2, "a", 2);
    hear_text(ISCSI_FINAL, ISCSI_NO_TAG, "X-1=NotUnderstood\0X-2=NotUnderstood", 36);
}

static void who_is_not_at_its_end_may_say_more(void **state)
{
    OPEN("");
    request(ISCSI_TEXT_REQUEST, 0, false, ISCSI_NO_TAG, "X-1=a", 6);
    hear_text(0, 2, "X-1=NotUnderstood", 18);
    request(ISCSI_TEXT_REQUEST, ISCSI_FINAL, false, 2, NULL, 0);
    hear_text(ISCSI_FINAL, ISCSI_NO_TAG, "", 0);
    request(ISCSI_TEXT_REQUEST, ISCSI_FINAL, false, 2, NULL, 0); // it was
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
}

static void a_request_in_parts_has_a_longest_length(void **state)
{
    static const char part[8192] = "X-1=";
    OPEN("");
    request(ISCSI_TEXT_REQUEST, ISCSI_TEXT_CONTINUE, false, ISCSI_NO_TAG, part, sizeof part);
    hear_text(0, 2, "", 0);
    request(ISCSI_TEXT_REQUEST, ISCSI_TEXT_CONTINUE, false, 2, part, sizeof part);
    hear_text(0, 2, "", 0);
    request(ISCSI_TEXT_REQUEST, ISCSI_TEXT_CONTINUE, false, 2, "a", 1);
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    request(ISCSI_TEXT_REQUEST, ISCSI_FINAL, false, 2, "a", 2); // nothing is left of it
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    request(ISCSI_TEXT_REQUEST, ISCSI_FINAL | ISCSI_TEXT_CONTINUE, false, ISCSI_NO_TAG, "a", 1);
    hear_reject(ISCSI_REJECT_PROTOCOL_ERROR);
    request(ISCSI_TEXT_REQUEST, ISCSI_FINAL, false, ISCSI_NO_TAG, "X-2=a", 6);
    hear_text(ISCSI_FINAL, ISCSI_NO_TAG, "X-2=NotUnderstood", 18);
    assert_int_equal(counters().rejects, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_key_comes_to_its_result),
        TEST(numbers_of_keys_are_the_smaller_or_larger),
        TEST(every_key_of_the_standard_is_understood),
        TEST(login_goes_through_its_stages),
        TEST(logins_that_make_no_sense_are_refused),
        TEST(a_key_is_said_once),
        TEST(headers_of_logins_are_looked_at),
        TEST(discovery_tells_of_all_that_may_be_seen),
        TEST(answers_in_parts_are_asked_for_part_by_part),
        TEST(requests_in_parts_are_asked_for_part_by_part),
        TEST(who_is_not_at_its_end_may_say_more),
        TEST(a_request_in_parts_has_a_longest_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
