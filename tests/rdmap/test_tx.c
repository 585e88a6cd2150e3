// Messages as they leave, octet by octet (RFC 5040 section 4, RFC 7306 appendix A), and back again.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "rdmap/rx.h"
#include "rdmap/tx.h"

static struct rdmap_stream new_stream(void)
{
    struct rdmap_stream stream;
    rdmap_stream_init(&stream, NULL, (struct mem_asker){0}, 1000);
    return stream;
}

static void expect_header(struct rdmap_tx *tx, size_t payload_len, const uint8_t *octets,
                          size_t len)
{
    uint8_t buf[RDMAP_TX_HEADER_MAX_LEN];
    assert_int_equal(rdmap_tx_next_len(tx, 1000), payload_len);
    assert_int_equal(rdmap_tx_header_len(tx), len);
    assert_int_equal(rdmap_tx_emit(tx, payload_len, buf), len);
    assert_memory_equal(buf, octets, len);
    assert_true(rdmap_tx_is_done(tx));
}

static void a_write(void **state)
{
    struct rdmap_tx tx;
    rdmap_tx_write(&tx, 0x01020304, 0x1122334455667788, 10);
    static const uint8_t octets[] = {0xc1, 0x40, 1,    2,    3,    4,    0x11,
                                     0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88};
    expect_header(&tx, 10, octets, sizeof octets);
    assert_int_equal(tx.opcode, RDMAP_WRITE);
}

static void each_kind_of_send(void **state)
{
    static const struct {
        struct rdmap_send send;
        uint8_t control, opcode;
    } kinds[] = {
        {{.length = 3}, 0x41, 0x43},
        {{.length = 3, .invalidates = true, .stag_or_immediate = 0x0a0b0c0d}, 0x41, 0x44},
        {{.length = 3, .solicited = true}, 0x41, 0x45},
        {{.length = 3, .solicited = true, .invalidates = true, .stag_or_immediate = 0x0a0b0c0d},
         0x41,
         0x46},
    };
    struct rdmap_stream stream = new_stream();
    for (unsigned i = 0; i < 4; i++) {
        struct rdmap_tx tx;
        rdmap_tx_send(&tx, &stream, &kinds[i].send);
        assert_int_equal(rdmap_tx_msn(&tx), i + 1);
        uint8_t octets[18] = {kinds[i].control, kinds[i].opcode};
        if (kinds[i].send.invalidates) {
            memcpy(octets + 2, "\x0a\x0b\x0c\x0d", 4);
        }
        octets[13] = (uint8_t)(i + 1);
        expect_header(&tx, 3, octets, sizeof octets);
    }
}

// Ours: bit 10 of the control word, counted from the lowest, and the data in the STag's place.
static void a_send_with_immediate_between_weft_ends(void **state)
{
    struct rdmap_stream stream = new_stream();
    struct rdmap_tx tx;
    uint32_t immediate;
    memcpy(&immediate, "\xde\xad\xbe\xef", 4);
    struct rdmap_send send = {.has_immediate = true, .stag_or_immediate = immediate};
    rdmap_tx_send(&tx, &stream, &send);
    static const uint8_t octets[18] = {0x45, 0x43, 0xde, 0xad, 0xbe, 0xef, [13] = 1};
    expect_header(&tx, 0, octets, sizeof octets);
    struct rdmap_arrival a;
    assert_int_equal(rdmap_rx_check(&stream, span_of(octets, 18), &a), RDMAP_ACCEPTED);
    assert_false(a.has_immediate);
    stream.extensions_agreed = true;
    assert_int_equal(rdmap_rx_check(&stream, span_of(octets, 18), &a), RDMAP_ACCEPTED);
    assert_true(a.has_immediate);
    assert_int_equal(a.immediate, immediate);
}

static struct rdmap_stream oneshot_stream(uint8_t encoding)
{
    struct rdmap_stream stream = new_stream();
    stream.oneshot = encoding | EXTENSION_ONESHOT_PARTS;
    return stream;
}

// wire/test_oneshot.c has all the octets; here, that the stream's encoding counts and comes back.
static void a_marked_send_in_each_encoding(void **state)
{
    static const struct {
        uint8_t encoding;
        enum oneshot_mark mark;
        uint8_t octets[18];
        bool is_solicited;
    } cases[] = {
        {EXTENSION_ONESHOT_FLAGS, ONESHOT_ADVERTISE, {0x51, 0x43, 10, 11, 12, 13, [13] = 1}, false},
        {EXTENSION_ONESHOT_FLAGS, ONESHOT_CLOSE, {0x61, 0x43, 10, 11, 12, 13, [13] = 1}, false},
        {EXTENSION_ONESHOT_OPCODE, ONESHOT_ADVERTISE, {0x41, 0x48, 10, 11, 12, 13, [13] = 1}, true},
        {EXTENSION_ONESHOT_OPCODE, ONESHOT_CLOSE, {0x41, 0x4c, 10, 11, 12, 13, [13] = 1}, true},
    };
    for (unsigned i = 0; i < 4; i++) {
        struct rdmap_stream stream = oneshot_stream(cases[i].encoding);
        struct rdmap_tx tx;
        struct rdmap_arrival a;
        struct rdmap_send send = {.mark = cases[i].mark, .stag_or_immediate = 0x0a0b0c0d};
        rdmap_tx_send(&tx, &stream, &send);
        expect_header(&tx, 0, cases[i].octets, sizeof cases[i].octets);
        assert_int_equal(rdmap_rx_check(&stream, span_of(cases[i].octets, 18), &a), RDMAP_ACCEPTED);
        assert_int_equal(a.mark, cases[i].mark);
        assert_int_equal(a.opcode, tx.opcode);
        assert_int_equal(a.is_solicited, cases[i].is_solicited);
        assert_int_equal(a.send_stag, 0x0a0b0c0d);
        assert_false(a.invalidates || a.has_immediate);
    }
}

static void wrong_marks_have_refusals_of_their_own(void **state)
{
    static const struct {
        uint8_t agreed, octets[18];
        enum rdmap_refusal refusal;
    } cases[] = {
        {0x31, {0x71, 0x43, [13] = 1}, RDMAP_REFUSED_ONESHOT_BOTH},
        {0x31, {0x51, 0x44, [13] = 1}, RDMAP_REFUSED_ONESHOT_STAG_TAKEN},
        {0x31, {0x61, 0x46, [13] = 1}, RDMAP_REFUSED_ONESHOT_STAG_TAKEN},
        {0x31, {0x55, 0x43, [13] = 1}, RDMAP_REFUSED_ONESHOT_STAG_TAKEN},
        {0x11, {0x61, 0x43, [13] = 1}, RDMAP_REFUSED_ONESHOT_UNAGREED},
        {0x22, {0x41, 0x48, [13] = 1}, RDMAP_REFUSED_ONESHOT_UNAGREED},
        {0x32, {0x41, 0x49, [13] = 1}, RDMAP_REFUSED_OPCODE},
        {0x31, {0x41, 0x4c, [13] = 1}, RDMAP_REFUSED_OPCODE},
        {0, {0x71, 0x43, [13] = 1}, RDMAP_ACCEPTED},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rdmap_stream stream = new_stream();
        struct rdmap_arrival a;
        stream.oneshot = cases[i].agreed;
        stream.extensions_agreed = true;
        assert_int_equal(rdmap_rx_check(&stream, span_of(cases[i].octets, 18), &a),
                         cases[i].refusal);
    }
}

static void immediate_data(void **state)
{
    struct rdmap_stream stream = new_stream();
    struct rdmap_tx tx;
    uint32_t immediate;
    memcpy(&immediate, "\x01\x02\x03\x04", 4);
    rdmap_tx_immediate(&tx, &stream, immediate, 0x05060708, false);
    static const uint8_t plain[26] = {0x41, 0x48, [13] = 1, [18] = 1, 2, 3, 4};
    expect_header(&tx, 0, plain, sizeof plain);
    stream.extensions_agreed = true; // the length of the Write goes along
    rdmap_tx_immediate(&tx, &stream, immediate, 0x05060708, true);
    static const uint8_t solicited[26] = {0x41, 0x49, [13] = 2, [18] = 1, 2, 3, 4, 5, 6, 7, 8};
    expect_header(&tx, 0, solicited, sizeof solicited);
}

static void a_read_request_and_its_response(void **state)
{
    struct rdmap_stream stream = new_stream();
    struct rdmap_tx tx;
    struct rdmap_read_request request = {
        .sink_stag = 0x11, .sink_to = 0x22, .rdmardsz = 0x33, .src_stag = 0x44, .src_to = 0x55};
    rdmap_tx_read_request(&tx, &stream, &request);
    static const uint8_t octets[46] = {
        0x41,        0x41,        [9] = 1,     [13] = 1,   [21] = 0x11,
        [29] = 0x22, [33] = 0x33, [37] = 0x44, [45] = 0x55};
    expect_header(&tx, 0, octets, sizeof octets);
    rdmap_tx_read_response(&tx, 0x11, 0x22, 0x33);
    static const uint8_t response[14] = {0xc1, 0x42, [5] = 0x11, [13] = 0x22};
    expect_header(&tx, 0x33, response, sizeof response);
    assert_int_equal(tx.opcode, RDMAP_READ_RESPONSE);
}

static void requests_of_both_kinds_share_a_queue(void **state)
{
    struct rdmap_stream stream = new_stream();
    struct rdmap_tx tx;
    struct rdmap_read_request read = {0};
    struct rdmap_atomic_request atomic = {.opcode = RDMAP_ATOMIC_CMP_SWAP};
    struct rdmap_atomic_response response = {.request_id = 9};
    rdmap_tx_read_request(&tx, &stream, &read);
    assert_int_equal(rdmap_tx_msn(&tx), 1);
    rdmap_tx_atomic_request(&tx, &stream, &atomic);
    assert_int_equal(rdmap_tx_msn(&tx), 2);
    assert_int_equal(tx.ddp.header.qn, 1);
    assert_int_equal(rdmap_tx_header_len(&tx), 18 + 52);
    rdmap_tx_atomic_response(&tx, &stream, &response);
    assert_int_equal(rdmap_tx_msn(&tx), 1);
    assert_int_equal(tx.ddp.header.qn, 3);
    assert_int_equal(rdmap_tx_header_len(&tx), 18 + 12);
}

static void a_terminate_has_a_queue_of_its_own(void **state)
{
    struct rdmap_stream stream = new_stream();
    struct rdmap_tx tx;
    struct terminate t = terminate_of(TERM_RDMAP_OPCODE);
    rdmap_tx_terminate(&tx, &stream, &t);
    static const uint8_t octets[22] = {0x41, 0x47, [9] = 2, [13] = 1, [18] = 0x02, 0x06};
    expect_header(&tx, 0, octets, sizeof octets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write),
        cmocka_unit_test(each_kind_of_send),
        cmocka_unit_test(a_send_with_immediate_between_weft_ends),
        cmocka_unit_test(a_marked_send_in_each_encoding),
        cmocka_unit_test(wrong_marks_have_refusals_of_their_own),
        cmocka_unit_test(immediate_data),
        cmocka_unit_test(a_read_request_and_its_response),
        cmocka_unit_test(requests_of_both_kinds_share_a_queue),
        cmocka_unit_test(a_terminate_has_a_queue_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
