// PDUs of an NVMe/TCP controller, octet by octet, to commands that are out: what comes of them,
// what is sent for them, and the words with which each that is against the protocol is refused.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "format/nvme_tcp_wire.h"
#include "format/nvme_wire.h"
#include "initiator/tcp/stream.h"
#include "wire/crc32c.h"

enum { DEPTH = 3, MANY = 100, INDEX_BITS = 10, LEN = 300, LONG = 1 << 20, TAG = 0x77 };

static struct {
    struct pdu_stream s;
    int controller;   // the other end of its socket
    size_t send_most; // octets that a call of the host's sends
    uint8_t memory[LONG];
    struct iovec pieces[DEPTH][3];
    uint8_t pdu[LONG + 64]; // the last that was made, or taken from the host
    uint8_t cqe[NVME_CQE_LEN];
    struct why why;
} it;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

// A socket may take any part.
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct iovec part = message->msg_iov[0];
    struct msghdr less = {.msg_iov = &part, .msg_iovlen = 1};
    part.iov_len = part.iov_len < it.send_most ? part.iov_len : it.send_most;
    return __real_sendmsg(fd, it.send_most > 0 ? &less : message, flags);
}

static void open_stream(bool header_digest, bool data_digest)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(pdu_stream_init(&it.s, DEPTH, INDEX_BITS), 0);
    it.s.fd = ends[0];
    it.controller = ends[1];
    it.s.has_header_digest = header_digest;
    it.s.has_data_digest = data_digest;
    it.s.data_max = 128;
    it.send_most = 0;
    memset(it.memory, 0, sizeof it.memory);
}

static int setup(void **state)
{
    open_stream(false, false);
    return 0;
}

static int setup_digests(void **state)
{
    open_stream(true, true);
    return 0;
}

static int teardown(void **state)
{
    pdu_stream_destroy(&it.s);
    return close(it.controller);
}

/* ---- the host's ------------------------------------------------------------------------------ */

static uint16_t cid_of(unsigned index)
{
    return (uint16_t)(index | 5 << INDEX_BITS);
}

// A command whose memory is in three pieces, one of them empty.
static void send_command(unsigned index, enum pdu_way way, uint32_t len)
{
    struct iovec *pieces = it.pieces[index];
    pieces[0] = (struct iovec){it.memory, len / 3};
    pieces[1] = (struct iovec){it.memory + len / 3, 0};
    pieces[2] = (struct iovec){it.memory + len / 3, len - len / 3};
    memset(pdu_stream_sqe(&it.s, index), 0, NVME_SQE_LEN);
    put_le16(pdu_stream_sqe(&it.s, index) + NVME_SQE_OFF_CID, cid_of(index));
    assert_int_equal(pdu_stream_send(&it.s, index, way, pieces, len), 0);
}

static void take_octets(uint8_t *at, size_t len)
{
    while (len > 0) {
        ssize_t part = recv(it.controller, at, len, MSG_DONTWAIT);
        if (part < 0) {
            assert_int_equal(pdu_stream_flush(&it.s), 0);
            part = recv(it.controller, at, len, MSG_DONTWAIT);
        }
        assert_true(part > 0);
        at += part;
        len -= (size_t)part;
    }
}

// The next PDU of the host. Its length.
static uint32_t take_sent(void)
{
    take_octets(it.pdu, NVME_TCP_COMMON_LEN);
    uint32_t len = get_le32(it.pdu + NVME_TCP_OFF_PLEN);
    assert_true(len > NVME_TCP_COMMON_LEN && len <= sizeof it.pdu);
    take_octets(it.pdu + NVME_TCP_COMMON_LEN, len - NVME_TCP_COMMON_LEN);
    return len;
}

static void command_out(unsigned index, enum pdu_way way, uint32_t len)
{
    send_command(index, way, len);
    take_sent();
}

/* ---- the controller's ------------------------------------------------------------------------ */

// The header is there; digests as agreed on, and data of `data_len` octets that count on.
static uint32_t pdu_end(uint8_t type, uint8_t flags, uint8_t header_len, uint32_t data_len)
{
    uint32_t at = header_len;
    bool has_data_digest = it.s.has_data_digest && data_len > 0;
    it.pdu[NVME_TCP_OFF_TYPE] = type;
    it.pdu[NVME_TCP_OFF_FLAGS] = (uint8_t)(flags | (it.s.has_header_digest ? NVME_TCP_HDGST : 0) |
                                           (has_data_digest ? NVME_TCP_DDGST : 0));
    it.pdu[NVME_TCP_OFF_HLEN] = header_len;
    at += it.s.has_header_digest ? NVME_TCP_DIGEST_LEN : 0;
    it.pdu[NVME_TCP_OFF_PDO] = (uint8_t)(data_len > 0 ? at : 0);
    put_le32(it.pdu + NVME_TCP_OFF_PLEN, at + data_len + (has_data_digest ? CRC32C_LEN : 0));
    if (it.s.has_header_digest) {
        crc32c_put(it.pdu + header_len, crc32c(it.pdu, header_len));
    }
    for (uint32_t i = 0; i < data_len; i++) {
        it.pdu[at + i] = (uint8_t)(i * 7 + i / 256 + 1);
    }
    if (has_data_digest) {
        crc32c_put(it.pdu + at + data_len, crc32c(it.pdu + at, data_len));
    }
    return get_le32(it.pdu + NVME_TCP_OFF_PLEN);
}

static uint32_t data(uint16_t cid, uint8_t flags, uint32_t at, uint32_t len)
{
    memset(it.pdu, 0, NVME_TCP_DATA_HLEN);
    put_le16(it.pdu + NVME_TCP_DATA_OFF_CCCID, cid);
    put_le32(it.pdu + NVME_TCP_DATA_OFF_DATAO, at);
    put_le32(it.pdu + NVME_TCP_DATA_OFF_DATAL, len);
    return pdu_end(NVME_TCP_C2H_DATA, flags, NVME_TCP_DATA_HLEN, len);
}

static uint32_t r2t(uint16_t cid, uint32_t at, uint32_t len)
{
    memset(it.pdu, 0, NVME_TCP_DATA_HLEN);
    put_le16(it.pdu + NVME_TCP_DATA_OFF_CCCID, cid);
    put_le16(it.pdu + NVME_TCP_DATA_OFF_TTAG, TAG);
    put_le32(it.pdu + NVME_TCP_DATA_OFF_DATAO, at);
    put_le32(it.pdu + NVME_TCP_DATA_OFF_DATAL, len);
    return pdu_end(NVME_TCP_R2T, 0, NVME_TCP_DATA_HLEN, 0);
}

static uint32_t answer(uint16_t cid, uint16_t status)
{
    uint8_t *cqe = it.pdu + NVME_TCP_OFF_CAPSULE;
    memset(cqe, 0, NVME_CQE_LEN);
    put_le16(cqe + NVME_CQE_OFF_CID, cid);
    put_le16(cqe + NVME_CQE_OFF_STATUS, (uint16_t)(status << NVME_CQE_STATUS_SHIFT));
    return pdu_end(NVME_TCP_CAPSULE_RESP, 0, NVME_TCP_RESP_HLEN, 0);
}

static uint32_t term(uint16_t fault)
{
    memset(it.pdu, 0, NVME_TCP_TERM_HLEN);
    put_le16(it.pdu + NVME_TCP_TERM_OFF_FES, fault);
    bool has_header_digest = it.s.has_header_digest;
    it.s.has_header_digest = false; // it never has one
    uint32_t len = pdu_end(NVME_TCP_C2H_TERM, 0, NVME_TCP_TERM_HLEN, 0);
    it.s.has_header_digest = has_header_digest;
    return len;
}

// The header ends at this octet, and data begin behind padding.
static uint32_t data_pad(uint32_t end, uint32_t len, uint8_t padding)
{
    memmove(it.pdu + end + padding, it.pdu + end, len - end);
    it.pdu[NVME_TCP_OFF_PDO] = (uint8_t)(end + padding);
    put_le32(it.pdu + NVME_TCP_OFF_PLEN, len + padding);
    return len + padding;
}

static int take(void)
{
    it.why.text[0] = '\0';
    return pdu_stream_take(&it.s, it.cqe, &it.why);
}

static void put_octets(size_t from, size_t to)
{
    assert_int_equal(send(it.controller, it.pdu + from, to - from, 0), to - from);
}

// The PDU that was made comes, and these words are said of it.
static void refused(uint32_t len, const char *words)
{
    put_octets(0, len);
    assert_int_equal(take(), -EPROTO);
    if (strstr(it.why.text, words) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", words, it.why.text);
    }
}

static void expect_nothing(uint32_t len)
{
    put_octets(0, len);
    assert_int_equal(take(), 0);
}

static void expect_answer(uint32_t len, uint16_t cid, uint16_t status)
{
    put_octets(0, len);
    assert_int_equal(take(), 1);
    assert_int_equal(get_le16(it.cqe + NVME_CQE_OFF_CID), cid);
    assert_int_equal(get_le16(it.cqe + NVME_CQE_OFF_STATUS) >> NVME_CQE_STATUS_SHIFT, status);
}

/* ---- data that come -------------------------------------------------------------------------- */

static void data_that_say_success_are_the_answer(void **state)
{
    command_out(0, PDU_READ, LEN);
    expect_nothing(data(cid_of(0), 0, 0, 100));
    expect_answer(data(cid_of(0), NVME_TCP_LAST_PDU | NVME_TCP_SUCCESS, 100, 200), cid_of(0),
                  NVME_OK);
    assert_memory_equal(it.memory + 100, it.pdu + NVME_TCP_DATA_HLEN, 200);
    refused(data(cid_of(0), 0, 0, 100), "data that nobody asked for");
}

static void success_with_a_wrong_digest_is_none(void **state)
{
    command_out(0, PDU_READ, LEN);
    uint32_t len = data(cid_of(0), NVME_TCP_LAST_PDU | NVME_TCP_SUCCESS, 0, LEN);
    it.pdu[len - 1] ^= 1;
    expect_answer(len, cid_of(0), NVME_TRANSIENT_TRANSPORT_ERROR);
    // The next in its place has nothing of it.
    command_out(0, PDU_READ, LEN);
    expect_answer(data(cid_of(0), NVME_TCP_LAST_PDU | NVME_TCP_SUCCESS, 0, LEN), cid_of(0),
                  NVME_OK);
}

// What a status says beside its code makes no less of a success.
static const uint16_t beside_success[] = {NVME_OK, NVME_STATUS_MORE, NVME_STATUS_DNR};

static void success_of_a_wrong_digest_is_none_whatever_is_said_beside_it(void **state)
{
    for (unsigned i = 0; i < sizeof beside_success / sizeof beside_success[0]; i++) {
        command_out(0, PDU_READ, LEN);
        uint32_t len = data(cid_of(0), NVME_TCP_LAST_PDU, 0, LEN);
        it.pdu[len - 1] ^= 1;
        expect_nothing(len);
        expect_answer(answer(cid_of(0), beside_success[i]), cid_of(0),
                      NVME_TRANSIENT_TRANSPORT_ERROR);
    }
}

static void success_without_all_data_is_refused_whatever_is_said_beside_it(void **state)
{
    for (unsigned i = 0; i < sizeof beside_success / sizeof beside_success[0]; i++) {
        command_out(i, PDU_READ, LEN);
        expect_nothing(data(cid_of(i), NVME_TCP_LAST_PDU, 0, 100));
        refused(answer(cid_of(i), beside_success[i]), "done with 300 octets after 100");
    }
}

static void every_pdu_comes_in_any_pieces(void **state)
{
    command_out(0, PDU_READ, LEN);
    uint32_t len = data(cid_of(0), NVME_TCP_LAST_PDU | NVME_TCP_SUCCESS, 0, LEN);
    for (uint32_t at = 0; at < len - 1; at++) {
        put_octets(at, at + 1);
        assert_int_equal(take(), 0);
    }
    put_octets(len - 1, len);
    assert_int_equal(take(), 1);
    assert_int_equal(get_le16(it.cqe + NVME_CQE_OFF_STATUS), NVME_OK);
}

static void data_may_begin_behind_padding(void **state)
{
    command_out(0, PDU_READ, LEN);
    uint32_t len = data(cid_of(0), NVME_TCP_LAST_PDU | NVME_TCP_SUCCESS, 0, LEN);
    len = data_pad(NVME_TCP_DATA_HLEN, len, 40);
    put_octets(0, NVME_TCP_DATA_HLEN + 30);
    assert_int_equal(take(), 0);
    put_octets(NVME_TCP_DATA_HLEN + 30, len);
    assert_int_equal(take(), 1);
    assert_memory_equal(it.memory, it.pdu + NVME_TCP_DATA_HLEN + 40, LEN);
}

// Received where they belong, they stop at the end of a piece of memory, and of the PDU.
static void long_data_come_into_place(void **state)
{
    enum { ALL = 90000 };
    command_out(0, PDU_READ, ALL);
    for (uint32_t at = 0; at < ALL; at += ALL / 2) {
        uint32_t len = data(cid_of(0), at + ALL / 2 == ALL ? NVME_TCP_LAST_PDU : 0, at, ALL / 2);
        put_octets(0, NVME_TCP_DATA_HLEN + NVME_TCP_DIGEST_LEN + 10);
        assert_int_equal(take(), 0);
        put_octets(NVME_TCP_DATA_HLEN + NVME_TCP_DIGEST_LEN + 10, len);
        assert_int_equal(take(), 0);
        assert_memory_equal(it.memory + at, it.pdu + NVME_TCP_DATA_HLEN + NVME_TCP_DIGEST_LEN,
                            ALL / 2);
    }
    expect_answer(answer(cid_of(0), NVME_OK), cid_of(0), NVME_OK);
}

static void after_its_answer_no_data_come_to_a_command(void **state)
{
    command_out(0, PDU_READ, LEN);
    expect_answer(answer(cid_of(0), NVME_INTERNAL_ERROR), cid_of(0), NVME_INTERNAL_ERROR);
    refused(data(cid_of(0), 0, 0, LEN), "data that nobody asked for");
}

static void data_of_an_earlier_command_are_refused(void **state)
{
    command_out(0, PDU_READ, LEN);
    refused(data(cid_of(0) ^ 1 << INDEX_BITS, 0, 0, LEN), "data that nobody asked for");
}

static void data_for_a_write_are_refused(void **state)
{
    command_out(0, PDU_ASKED, LEN);
    refused(data(cid_of(0), 0, 0, LEN), "data that nobody asked for");
}

static void data_of_no_length_are_refused(void **state)
{
    command_out(0, PDU_READ, LEN);
    uint32_t len = data(cid_of(0), 0, 0, 0);
    it.pdu[NVME_TCP_OFF_PDO] = NVME_TCP_DATA_HLEN;
    refused(len, "it sends octets 0 and 0 more");
}

static void success_before_the_end_is_refused(void **state)
{
    command_out(0, PDU_READ, LEN);
    refused(data(cid_of(0), NVME_TCP_LAST_PDU | NVME_TCP_SUCCESS, 0, LEN - 1),
            "it is done with 300 octets after 299");
}

static void success_of_a_pdu_that_is_not_the_last_is_refused(void **state)
{
    command_out(0, PDU_READ, LEN);
    refused(data(cid_of(0), NVME_TCP_SUCCESS, 0, LEN), "it is done");
}

/* ---- data that are asked for ----------------------------------------------------------------- */

static void expect_data_sent(uint32_t at, uint32_t len, bool is_last)
{
    uint32_t begin = NVME_TCP_DATA_HLEN + NVME_TCP_DIGEST_LEN;
    begin = (begin + it.s.align - 1) / it.s.align * it.s.align;
    assert_int_equal(take_sent(), begin + len + NVME_TCP_DIGEST_LEN);
    assert_int_equal(it.pdu[NVME_TCP_OFF_TYPE], NVME_TCP_H2C_DATA);
    assert_int_equal(it.pdu[NVME_TCP_OFF_FLAGS],
                     NVME_TCP_HDGST | NVME_TCP_DDGST | (is_last ? NVME_TCP_LAST_PDU : 0));
    assert_int_equal(it.pdu[NVME_TCP_OFF_PDO], begin);
    assert_int_equal(get_le16(it.pdu + NVME_TCP_DATA_OFF_CCCID), cid_of(0));
    assert_int_equal(get_le16(it.pdu + NVME_TCP_DATA_OFF_TTAG), TAG);
    assert_int_equal(get_le32(it.pdu + NVME_TCP_DATA_OFF_DATAO), at);
    assert_int_equal(get_le32(it.pdu + NVME_TCP_DATA_OFF_DATAL), len);
    assert_int_equal(crc32c_get(it.pdu + NVME_TCP_DATA_HLEN), crc32c(it.pdu, NVME_TCP_DATA_HLEN));
    assert_memory_equal(it.pdu + begin, it.memory + at, len);
    assert_int_equal(crc32c_get(it.pdu + begin + len), crc32c(it.memory + at, len));
}

// In PDUs as long and with data where the controller wants them, with both digests.
static void what_is_asked_for_is_sent(void **state)
{
    for (unsigned i = 0; i < LEN; i++) {
        it.memory[i] = (uint8_t)(i * 3 + 1);
    }
    it.s.align = 64;
    command_out(0, PDU_ASKED, LEN);
    expect_nothing(r2t(cid_of(0), 0, 200));
    expect_data_sent(0, 128, false);
    expect_data_sent(128, 72, true);
    expect_nothing(r2t(cid_of(0), 200, 100));
    expect_data_sent(200, 100, true);
    expect_answer(answer(cid_of(0), NVME_OK), cid_of(0), NVME_OK);
}

static void data_in_the_capsule_have_digests(void **state)
{
    enum { BEGIN = NVME_TCP_CMD_HLEN + NVME_TCP_DIGEST_LEN };
    memset(it.memory, 0xab, LEN);
    send_command(0, PDU_IN_CAPSULE, LEN);
    assert_int_equal(take_sent(), BEGIN + LEN + NVME_TCP_DIGEST_LEN);
    assert_int_equal(it.pdu[NVME_TCP_OFF_FLAGS], NVME_TCP_HDGST | NVME_TCP_DDGST);
    assert_int_equal(crc32c_get(it.pdu + NVME_TCP_CMD_HLEN), crc32c(it.pdu, NVME_TCP_CMD_HLEN));
    assert_memory_equal(it.pdu + BEGIN, it.memory, LEN);
    assert_int_equal(crc32c_get(it.pdu + BEGIN + LEN), crc32c(it.memory, LEN));
    // Without data there is no digest of them.
    send_command(1, PDU_NOTHING, 0);
    assert_int_equal(take_sent(), BEGIN);
    assert_int_equal(it.pdu[NVME_TCP_OFF_FLAGS], NVME_TCP_HDGST);
    assert_int_equal(it.pdu[NVME_TCP_OFF_PDO], 0);
}

static void a_socket_may_take_any_part(void **state)
{
    for (it.send_most = 1; it.send_most < 40; it.send_most++) {
        memset(it.memory, (int)it.send_most, LEN);
        command_out(0, PDU_ASKED, LEN);
        expect_nothing(r2t(cid_of(0), 0, LEN));
        expect_data_sent(0, 128, false);
        expect_data_sent(128, 128, false);
        expect_data_sent(256, LEN - 256, true);
        expect_answer(answer(cid_of(0), NVME_OK), cid_of(0), NVME_OK);
    }
}

static void memory_may_be_in_many_pieces(void **state)
{
    static struct iovec pieces[MANY];
    enum { BEGIN = NVME_TCP_CMD_HLEN + NVME_TCP_DIGEST_LEN };
    for (unsigned i = 0; i < MANY; i++) {
        it.memory[i] = (uint8_t)i;
        pieces[i] = (struct iovec){it.memory + i, 1};
    }
    memset(pdu_stream_sqe(&it.s, 0), 0, NVME_SQE_LEN);
    assert_int_equal(pdu_stream_send(&it.s, 0, PDU_IN_CAPSULE, pieces, MANY), 0);
    assert_int_equal(take_sent(), BEGIN + MANY + NVME_TCP_DIGEST_LEN);
    assert_memory_equal(it.pdu + BEGIN, it.memory, MANY);
    assert_int_equal(crc32c_get(it.pdu + BEGIN + MANY), crc32c(it.memory, MANY));
}

// Its memory is the caller's again.
static void to_a_command_that_could_not_be_sent_nothing_comes(void **state)
{
    assert_int_equal(shutdown(it.controller, SHUT_RD), 0);
    put_le16(pdu_stream_sqe(&it.s, 0) + NVME_SQE_OFF_CID, cid_of(0));
    it.pieces[0][0] = (struct iovec){it.memory, LEN};
    assert_int_equal(pdu_stream_send(&it.s, 0, PDU_READ, it.pieces[0], LEN), -EPIPE);
    refused(data(cid_of(0), 0, 0, LEN), "data that nobody asked for");
    pdu_stream_close(&it.s);
    assert_int_equal(pdu_stream_send(&it.s, 0, PDU_READ, it.pieces[0], LEN), -ENOTCONN);
}

// The socket takes a part now and then, of one PDU before the next.
static void what_the_socket_does_not_take_is_sent_later(void **state)
{
    for (uint32_t i = 0; i < LONG; i++) {
        it.memory[i] = (uint8_t)(i + i / 256);
    }
    it.s.data_max = LONG;
    command_out(0, PDU_ASKED, LONG);
    expect_nothing(r2t(cid_of(0), 0, LONG));
    assert_false(list_is_empty(&it.s.outs));
    send_command(1, PDU_NOTHING, 0);
    expect_data_sent(0, LONG, true);
    take_sent();
    assert_int_equal(it.pdu[NVME_TCP_OFF_TYPE], NVME_TCP_CAPSULE_CMD);
    assert_true(list_is_empty(&it.s.outs));
}

static void nothing_is_asked_for_or_answered_before_all_is_sent(void **state)
{
    it.s.data_max = LONG;
    command_out(0, PDU_ASKED, LONG);
    expect_nothing(r2t(cid_of(0), 0, LONG / 2));
    assert_false(list_is_empty(&it.s.outs));
    refused(r2t(cid_of(0), LONG / 2, LONG / 2), "data of no command that has any");
    refused(answer(cid_of(0), NVME_INTERNAL_ERROR), "it has not all data");
}

static void a_write_is_not_done_before_all_is_asked_for(void **state)
{
    command_out(0, PDU_ASKED, LEN);
    expect_nothing(r2t(cid_of(0), 0, 100));
    take_sent();
    refused(answer(cid_of(0), NVME_OK), "it is done with 300 octets after 100");
}

static void a_write_that_failed_need_not_be_asked_for(void **state)
{
    command_out(0, PDU_ASKED, LEN);
    expect_answer(answer(cid_of(0), NVME_INTERNAL_ERROR), cid_of(0), NVME_INTERNAL_ERROR);
    refused(r2t(cid_of(0), 0, LEN), "data of no command that has any");
}

static void data_of_a_read_are_not_asked_for(void **state)
{
    command_out(0, PDU_READ, LEN);
    refused(r2t(cid_of(0), 0, LEN), "data of no command that has any");
    command_out(1, PDU_IN_CAPSULE, LEN);
    refused(r2t(cid_of(1), 0, LEN), "data of no command that has any");
}

/* ---- answers and ends ------------------------------------------------------------------------ */

static void a_number_beyond_all_commands_is_of_none(void **state)
{
    expect_answer(answer(cid_of(DEPTH), NVME_OK), cid_of(DEPTH), NVME_OK);
    refused(data(cid_of(DEPTH), 0, 0, LEN), "data that nobody asked for");
}

// Whatever the length of its header: of some types none is known.
static void types_that_only_a_host_sends_are_refused(void **state)
{
    for (unsigned i = 0; i < 256 * 256; i++) {
        uint8_t type = (uint8_t)(i >> 8);
        bool may_come = type == NVME_TCP_C2H_TERM || type == NVME_TCP_CAPSULE_RESP ||
                        type == NVME_TCP_C2H_DATA || type == NVME_TCP_R2T;
        memset(it.pdu, 0, NVME_TCP_COMMON_LEN);
        it.pdu[NVME_TCP_OFF_TYPE] = type;
        it.pdu[NVME_TCP_OFF_HLEN] = (uint8_t)i;
        if (!may_come) {
            refused(NVME_TCP_COMMON_LEN, "a PDU of type 0x");
            it.s.in_at = it.s.in_len; // on to the next
        }
    }
}

static void a_target_says_why_it_ends_the_connection(void **state)
{
    static const struct {
        uint16_t fault;
        const char *words;
    } rows[] = {{NVME_TCP_NO_FAULT, "it does not say why (fault 0"},
                {NVME_TCP_INVALID_FIELD, "a field is wrong"},
                {NVME_TCP_UNSUPPORTED, "something it does not know"},
                {NVME_TCP_UNSUPPORTED + 1, "it does not say why (fault 7"}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        refused(term(rows[i].fault), rows[i].words);
    }
}

static void the_end_of_a_connection_is_no_longer_than_it_may_be(void **state)
{
    uint32_t len = term(NVME_TCP_INVALID_FIELD);
    put_le32(it.pdu + NVME_TCP_OFF_PLEN, NVME_TCP_TERM_MAX_LEN);
    refused(len, "the target ends the connection");
    term(NVME_TCP_INVALID_FIELD);
    put_le32(it.pdu + NVME_TCP_OFF_PLEN, NVME_TCP_TERM_MAX_LEN + 1);
    refused(len, "a PDU of type 3 has 153 octets");
}

static void a_pdu_without_room_for_its_digests_is_refused(void **state)
{
    command_out(0, PDU_READ, LEN);
    uint32_t len = data(cid_of(0), 0, 0, LEN);
    put_le32(it.pdu + NVME_TCP_OFF_PLEN, NVME_TCP_DATA_HLEN + NVME_TCP_DIGEST_LEN + 3);
    refused(len, "a PDU of type 7 has 31 octets");
}

static void an_answer_is_as_long_as_it_must_be(void **state)
{
    command_out(0, PDU_NOTHING, 0);
    answer(cid_of(0), NVME_OK);
    put_le32(it.pdu + NVME_TCP_OFF_PLEN, NVME_TCP_RESP_HLEN + 4);
    refused(NVME_TCP_RESP_HLEN + 4, "a PDU of type 5 has 28 octets");
}

#define PLAIN(name)   cmocka_unit_test_setup_teardown(name, setup, teardown)
#define DIGESTS(name) cmocka_unit_test_setup_teardown(name, setup_digests, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAIN(data_that_say_success_are_the_answer),
        DIGESTS(success_with_a_wrong_digest_is_none),
        DIGESTS(success_of_a_wrong_digest_is_none_whatever_is_said_beside_it),
        PLAIN(success_without_all_data_is_refused_whatever_is_said_beside_it),
        DIGESTS(every_pdu_comes_in_any_pieces),
        PLAIN(data_may_begin_behind_padding),
        DIGESTS(long_data_come_into_place),
        PLAIN(after_its_answer_no_data_come_to_a_command),
        PLAIN(data_of_an_earlier_command_are_refused),
        PLAIN(data_for_a_write_are_refused),
        PLAIN(data_of_no_length_are_refused),
        PLAIN(success_before_the_end_is_refused),
        PLAIN(success_of_a_pdu_that_is_not_the_last_is_refused),
        DIGESTS(what_is_asked_for_is_sent),
        DIGESTS(data_in_the_capsule_have_digests),
        DIGESTS(a_socket_may_take_any_part),
        DIGESTS(memory_may_be_in_many_pieces),
        PLAIN(to_a_command_that_could_not_be_sent_nothing_comes),
        DIGESTS(what_the_socket_does_not_take_is_sent_later),
        PLAIN(nothing_is_asked_for_or_answered_before_all_is_sent),
        PLAIN(a_write_is_not_done_before_all_is_asked_for),
        PLAIN(a_write_that_failed_need_not_be_asked_for),
        PLAIN(data_of_a_read_are_not_asked_for),
        PLAIN(a_number_beyond_all_commands_is_of_none),
        PLAIN(types_that_only_a_host_sends_are_refused),
        PLAIN(a_target_says_why_it_ends_the_connection),
        DIGESTS(the_end_of_a_connection_is_no_longer_than_it_may_be),
        DIGESTS(a_pdu_without_room_for_its_digests_is_refused),
        PLAIN(an_answer_is_as_long_as_it_must_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
