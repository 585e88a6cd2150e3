// iSCSI over TCP on its stage: PDUs of an initiator, with their digests and numbers.
#pragma once

#include "format/iscsi_pdu.h"
#include "format/scsi.h"
#include "node/iscsi/accounts.h"
#include "node/iscsi/iscsi.h"
#include "node/tts/iscsi_tcp.h"
#include "tests/node/octet_stage.h"
#include "wire/crc32c.h"

#define TARGET "iqn.2026-11.invalid.weft:uuid:00000000-0000-0000-0000-000000000000"
#define WHO    "InitiatorName=iqn.test:host\0TargetName=" TARGET "\0"

enum { DATA_MAX = 512 << 10, BLOCK = 512, TRANSIT_TO_FULL = 0x87 };

static struct octet_stage *stage;
static struct iscsi *iscsi;
static struct iscsi_tcp *tcp;
static struct iscsi_accounts accounts; // nobody must prove who he is, unless the test says so
static bool has_header_digest, has_data_digest;
static uint32_t cmdsn, statsn, itt;
static uint8_t qualifier; // the last octet of the ISID
static uint16_t tsih;     // of the session that a login joins

// The last PDU that came.
static struct {
    uint8_t head[ISCSI_HEADER_LEN];
    uint32_t data_len;
    uint8_t data[DATA_MAX];
} pdu;

static inline void randomize(void *ctx, void *octets, size_t len)
{
    memset(octets, 0x5a, len); // for challenges
}

static inline int begin(void **state)
{
    memset(&accounts, 0, sizeof accounts);
    stage = stage_create(false);
    iscsi = iscsi_create(&(struct iscsi_parts){.uma = &stage_uma,
                                               .uma_ctx = stage,
                                               .cta = &stage_cta,
                                               .cta_ctx = stage,
                                               .accounts = &accounts,
                                               .randomize = randomize,
                                               .say = stage_say});
    tcp = iscsi_tcp_create(&(struct iscsi_tcp_parts){.iscsi = iscsi,
                                                     .loop = stage->loop,
                                                     .listen = stage->listen,
                                                     .patience_ns = STAGE_PATIENCE_S * NS_PER_S});
    stage->rows[1].identity.uuid[15] = 1;
    has_header_digest = has_data_digest = false;
    qualifier = 5;
    tsih = 0;
    cmdsn = 100;
    statsn = 7;
    itt = 0x1000;
    stage_start(stage, &iscsi_tcp_for_uma, tcp);
    return 0;
}

static inline int end(void **state)
{
    stage_end(stage);
    iscsi_tcp_destroy(tcp);
    iscsi_destroy(iscsi);
    stage_destroy(stage);
    return 0;
}

static inline struct iscsi_counters counters(void)
{
    stage_settle(stage);
    return iscsi_tcp_counters(tcp);
}

/* ---- PDUs ------------------------------------------------------------------------------------ */

enum spoilt { NOTHING_SPOILT, HEADER_SPOILT, DATA_SPOILT };

static inline void put_spoilt(uint8_t *head, const void *data, uint32_t len, enum spoilt spoilt)
{
    static uint8_t octets[DATA_MAX];
    uint32_t pad = -len % 4, at = ISCSI_HEADER_LEN;
    put_be32(head + ISCSI_OFF_AHS_LEN, len);
    memcpy(octets, head, ISCSI_HEADER_LEN);
    if (has_header_digest) {
        crc32c_put(octets + at, crc32c(head, ISCSI_HEADER_LEN) ^ (spoilt == HEADER_SPOILT));
        at += 4;
    }
    if (len > 0) {
        memcpy(octets + at, data, len);
        memset(octets + at + len, 0, pad);
        at += len + pad;
    }
    if (has_data_digest && len > 0) {
        crc32c_put(octets + at,
                   crc32c(octets + at - len - pad, len + pad) ^ (spoilt == DATA_SPOILT));
        at += 4;
    }
    say_octets(stage, octets, at);
}

static inline void put(uint8_t *head, const void *data, uint32_t len)
{
    put_spoilt(head, data, len, NOTHING_SPOILT);
}

static inline void take(enum iscsi_opcode opcode)
{
    uint8_t digest[4];
    hear_octets(stage, pdu.head, sizeof pdu.head);
    assert_int_equal(pdu.head[0], opcode);
    if (has_header_digest) {
        hear_octets(stage, digest, sizeof digest);
        assert_int_equal(crc32c_get(digest), crc32c(pdu.head, sizeof pdu.head));
    }
    pdu.data_len = get_be32(pdu.head + ISCSI_OFF_AHS_LEN);
    uint32_t padded = pdu.data_len + -pdu.data_len % 4;
    assert_in_range(padded, 0, DATA_MAX);
    if (padded > 0) {
        hear_octets(stage, pdu.data, padded);
    }
    if (has_data_digest && padded > 0) {
        hear_octets(stage, digest, sizeof digest);
        assert_int_equal(crc32c_get(digest), crc32c(pdu.data, padded));
    }
}

// Its numbers: of its status, if it takes one, and the window of 64 commands.
static inline void expect_numbers(bool takes_status)
{
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_STATSN), statsn);
    statsn += takes_status;
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_EXPCMDSN), cmdsn);
}

/* ---- requests -------------------------------------------------------------------------------- */

static inline void request_login(uint8_t flags, const char *text, size_t len)
{
    uint8_t head[ISCSI_HEADER_LEN] = {ISCSI_LOGIN_REQUEST | ISCSI_IMMEDIATE, flags};
    memcpy(head + ISCSI_LOGIN_OFF_ISID, "\x80\1\2\3\4", ISCSI_ISID_LEN - 1);
    head[ISCSI_LOGIN_OFF_ISID + ISCSI_ISID_LEN - 1] = qualifier;
    put_be16(head + ISCSI_LOGIN_OFF_TSIH, tsih);
    put_be32(head + ISCSI_OFF_ITT, itt);
    put_be16(head + ISCSI_LOGIN_OFF_CID, 9);
    put_be32(head + ISCSI_OFF_CMDSN, cmdsn);
    put_be32(head + ISCSI_OFF_EXPSTATSN, statsn);
    put(head, text, (uint32_t)len);
}

static inline void request(enum iscsi_opcode opcode, uint8_t flags, bool is_immediate,
                           uint32_t at_20, const void *data, size_t len)
{
    uint8_t head[ISCSI_HEADER_LEN] = {(uint8_t)(opcode | (is_immediate ? ISCSI_IMMEDIATE : 0)),
                                      flags};
    put_be32(head + ISCSI_OFF_ITT, ++itt);
    put_be32(head + 20, at_20);
    put_be32(head + ISCSI_OFF_CMDSN, cmdsn);
    cmdsn += !is_immediate;
    put(head, data, (uint32_t)len);
}

static inline void hear_reject(enum iscsi_reject_reason reason)
{
    take(ISCSI_REJECT);
    assert_int_equal(pdu.head[1], ISCSI_FINAL);
    assert_int_equal(pdu.head[ISCSI_REJECT_OFF_REASON], reason);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_ITT), ISCSI_NO_TAG);
    assert_int_equal(pdu.data_len, ISCSI_HEADER_LEN);
    expect_numbers(true);
}

static inline void open_session(const char *keys, size_t len)
{
    char text[1024];
    memcpy(text, WHO, sizeof(WHO) - 1);
    memcpy(text + sizeof(WHO) - 1, keys, len);
    request_login(TRANSIT_TO_FULL, text, sizeof(WHO) - 1 + len);
    take(ISCSI_LOGIN_RESPONSE);
    assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_STATUS), ISCSI_LOGIN_OK);
    expect_numbers(true);
}

/* ---- logins ---------------------------------------------------------------------------------- */

static inline void hear_login(uint8_t flags, uint16_t said_tsih, const char *text, size_t len)
{
    take(ISCSI_LOGIN_RESPONSE);
    assert_int_equal(pdu.head[1], flags);
    assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_STATUS), ISCSI_LOGIN_OK);
    assert_memory_equal(pdu.head + ISCSI_LOGIN_OFF_ISID, "\x80\1\2\3\4\5", ISCSI_ISID_LEN);
    assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_TSIH), said_tsih);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_ITT), itt);
    assert_int_equal(pdu.data_len, len);
    assert_memory_equal(pdu.data, text, len);
    expect_numbers(true);
}

#define REQUEST_LOGIN(flags, text)         request_login(flags, text, sizeof(text) - 1)
#define HEAR_LOGIN(flags, said_tsih, text) hear_login(flags, said_tsih, text, sizeof(text) - 1)

static inline void login_refused(uint8_t flags, const char *text, size_t len, uint16_t status)
{
    request_login(flags, text, len);
    take(ISCSI_LOGIN_RESPONSE);
    assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_STATUS), status);
    assert_int_equal(pdu.data_len, 0);
    assert_int_equal(get_be16(pdu.head + ISCSI_LOGIN_OFF_TSIH), 0);
    hear_the_end(stage);
    close(stage->client);
    stage->client = stage_call(stage);
    statsn = 7;
}

#define REFUSED(flags, text, status) login_refused(flags, text, sizeof(text) - 1, status)

/* ---- commands and tasks ---------------------------------------------------------------------- */

// READ(10) or WRITE(10) of so many blocks, with `data` behind it.
static inline void command(uint8_t opcode, uint8_t flags, uint32_t block, uint16_t count,
                           uint32_t expected, const void *data, uint32_t len)
{
    uint8_t head[ISCSI_HEADER_LEN] = {ISCSI_SCSI_COMMAND, flags};
    put_be32(head + ISCSI_OFF_ITT, ++itt);
    put_be32(head + ISCSI_CMD_OFF_EXPECTED_LEN, expected);
    put_be32(head + ISCSI_OFF_CMDSN, cmdsn++);
    head[ISCSI_CMD_OFF_CDB] = opcode;
    put_be32(head + ISCSI_CMD_OFF_CDB + 2, block);
    put_be16(head + ISCSI_CMD_OFF_CDB + 7, count);
    put(head, data, len);
}

enum { READ_10 = 0x28, WRITE_10 = 0x2a, READ_FLAGS = 0xc0, WRITE_FLAGS = 0xa0 };

static inline void hear_status(uint32_t of, enum scsi_status_code status)
{
    take(ISCSI_SCSI_RESPONSE);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_ITT), of);
    assert_int_equal(pdu.head[ISCSI_RSP_OFF_RESPONSE], 0);
    assert_int_equal(pdu.head[ISCSI_RSP_OFF_STATUS], status);
    expect_numbers(true);
}

static inline void expect_residual(uint8_t flags, uint32_t residual)
{
    assert_int_equal(pdu.head[1], ISCSI_FINAL | flags);
    assert_int_equal(get_be32(pdu.head + ISCSI_RSP_OFF_RESIDUAL), residual);
}

static inline void hear_response(uint32_t of, enum scsi_status_code status, uint8_t flags,
                                 uint32_t residual)
{
    hear_status(of, status);
    expect_residual(flags, residual);
}

// ... a check condition with this sense: key, code and qualifier.
static inline void hear_sense(uint32_t of, uint32_t sense)
{
    hear_status(of, SCSI_CHECK_CONDITION);
    assert_int_equal(get_be16(pdu.data), 18);
    assert_int_equal(pdu.data_len, 20);
    assert_int_equal((uint32_t)pdu.data[4] << 16 | get_be16(pdu.data + 14), sense);
}

// The first command of a session hears that it has begun.
static inline void ready(void)
{
    command(0, 0x80, 0, 0, 0, NULL, 0);
    hear_sense(itt, 0x062900);
    command(0, 0x80, 0, 0, 0, NULL, 0);
    hear_response(itt, SCSI_GOOD, 0, 0);
}

static inline void hear_managed(enum iscsi_task_response response)
{
    take(ISCSI_TASK_RESPONSE);
    assert_int_equal(pdu.head[1], ISCSI_FINAL);
    assert_int_equal(pdu.head[ISCSI_RSP_OFF_RESPONSE], response);
    assert_int_equal(get_be32(pdu.head + ISCSI_OFF_ITT), itt);
    expect_numbers(true);
}

static inline void manage(uint8_t function, uint64_t lun, uint32_t referenced)
{
    uint8_t head[ISCSI_HEADER_LEN] = {ISCSI_TASK_REQUEST | ISCSI_IMMEDIATE,
                                      (uint8_t)(ISCSI_FINAL | function)};
    put_be64(head + ISCSI_OFF_LUN, lun);
    put_be32(head + ISCSI_OFF_ITT, ++itt);
    put_be32(head + ISCSI_TASK_OFF_REFERENCED, referenced);
    put_be32(head + ISCSI_OFF_CMDSN, cmdsn);
    put(head, NULL, 0);
}

#define OPEN(keys) open_session(keys, sizeof(keys) - 1)

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
