// Which headers go into a Terminate, which message of ours one is about, and the refusals' causes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "rdmap/refusal.h"
#include "rdmap/terminate.h"

static size_t untagged(uint8_t *buf, uint8_t opcode, uint32_t qn, uint32_t msn)
{
    struct ddp_header h = {.last = true, .rsvdulp = (uint8_t)(0x40 | opcode), .qn = qn, .msn = msn};
    return ddp_header_emit(&h, buf);
}

static void an_offender_keeps_only_what_was_there(void **state)
{
    uint8_t ulpdu[46] = {0};
    size_t len = untagged(ulpdu, RDMAP_READ_REQUEST, 1, 1);
    struct rdmap_offender o = rdmap_offender_of(span_of(ulpdu, 0));
    assert_false(o.has_ddp);
    o = rdmap_offender_of(span_of(ulpdu, len - 1));
    assert_false(o.has_ddp);
    assert_int_equal(o.segment_len, len - 1);
    o = rdmap_offender_of(span_of(ulpdu, len + 27));
    assert_true(o.has_ddp);
    assert_false(o.has_read_request);
    o = rdmap_offender_of(span_of(ulpdu, len + 28));
    assert_true(o.has_read_request);
    ulpdu[1] = 0x43; // a Send
    o = rdmap_offender_of(span_of(ulpdu, len + 28));
    assert_false(o.has_read_request);
}

static void causes_decide_which_headers_belong(void **state)
{
    uint8_t ulpdu[46] = {0};
    untagged(ulpdu, RDMAP_READ_REQUEST, 1, 1);
    struct rdmap_offender o = rdmap_offender_of(span_of(ulpdu, sizeof ulpdu));
    struct terminate t = rdmap_terminate_make(TERM_RDMAP_BOUNDS, &o); // RFC 5040 figure 10
    assert_true(t.has_ddp && t.has_len && t.has_rdmap);
    t = rdmap_terminate_make(TERM_RDMAP_OPCODE, &o);
    assert_true(t.has_ddp && t.has_len && !t.has_rdmap);
    t = rdmap_terminate_make(TERM_DDP_QN, &o);
    assert_true(t.has_ddp && t.has_len && !t.has_rdmap);
    t = rdmap_terminate_make(TERM_RDMAP_LOCAL, &o);
    assert_false(t.has_ddp || t.has_len || t.has_rdmap);
    t = rdmap_terminate_make(TERM_MPA_CRC, &o);
    assert_false(t.has_ddp || t.has_len || t.has_rdmap);
    t = rdmap_terminate_make(TERM_DDP_QN, NULL);
    assert_false(t.has_ddp || t.has_len);
}

static const struct rdmap_read_request request = {
    .sink_stag = 1, .sink_to = 0x200000003, .rdmardsz = 100, .src_stag = 4, .src_to = 0x500000006};

// A ULPDU of a Read Request; its length.
static size_t request_ulpdu(uint8_t *ulpdu)
{
    size_t len = untagged(ulpdu, RDMAP_READ_REQUEST, 1, 9);
    rdmap_read_request_emit(&request, ulpdu + len);
    return len + RDMAP_READ_REQUEST_LEN;
}

// Octet by octet, whether the ULPDU is there or only header and payload of its segment.
static void the_message_has_length_header_and_request_of_the_offender(void **state)
{
    uint8_t ulpdu[DDP_UNTAGGED_HEADER_LEN + RDMAP_READ_REQUEST_LEN + 5] = {0};
    const size_t len = request_ulpdu(ulpdu) + 5;
    struct ddp_segment segment = {
        .payload = span_of(ulpdu + DDP_UNTAGGED_HEADER_LEN, len - DDP_UNTAGGED_HEADER_LEN)};
    size_t header_len;
    assert_int_equal(ddp_header_parse(span_of(ulpdu, len), &segment.header, &header_len),
                     DDP_PARSE_OK);
    const struct rdmap_offender of[] = {rdmap_offender_of(span_of(ulpdu, len)),
                                        rdmap_offender_of_segment(&segment)};
    for (unsigned i = 0; i < 2; i++) {
        const struct terminate t = rdmap_terminate_make(TERM_RDMAP_BOUNDS, &of[i]);
        assert_int_equal(t.ddp_segment_len, len);
        assert_int_equal(t.ddp_header_len, DDP_UNTAGGED_HEADER_LEN);
        assert_memory_equal(t.ddp_header, ulpdu, DDP_UNTAGGED_HEADER_LEN);
        assert_true(t.has_rdmap);
        assert_memory_equal(t.read_request, ulpdu + DDP_UNTAGGED_HEADER_LEN,
                            RDMAP_READ_REQUEST_LEN);
    }
}

// RFC 5040 section 4.8: source, sink and length go on by what was answered.
static void a_read_that_was_answered_in_part_is_named_where_it_stopped(void **state)
{
    static const uint32_t answered[] = {0, 1, 99, 100};
    for (unsigned i = 0; i < sizeof answered / sizeof answered[0]; i++) {
        uint8_t ulpdu[DDP_UNTAGGED_HEADER_LEN + RDMAP_READ_REQUEST_LEN];
        struct rdmap_read_request left;
        struct rdmap_offender o = rdmap_offender_of(span_of(ulpdu, request_ulpdu(ulpdu)));
        rdmap_offender_advance(&o, answered[i]);
        assert_int_equal(
            rdmap_read_request_parse(span_of(o.read_request, RDMAP_READ_REQUEST_LEN), &left),
            RDMAP_PARSE_OK);
        assert_int_equal(left.sink_to, request.sink_to + answered[i]);
        assert_int_equal(left.src_to, request.src_to + answered[i]);
        assert_int_equal(left.rdmardsz, request.rdmardsz - answered[i]);
        assert_int_equal(left.sink_stag, request.sink_stag);
        assert_int_equal(left.src_stag, request.src_stag);
    }
    struct rdmap_offender none = {0};
    rdmap_offender_advance(&none, 7);
    for (unsigned i = 0; i < RDMAP_READ_REQUEST_LEN; i++) {
        assert_int_equal(none.read_request[i], 0);
    }
}

static struct rdmap_culprit culprit(uint8_t opcode, uint32_t qn, uint32_t msn)
{
    uint8_t ulpdu[18];
    size_t len = untagged(ulpdu, opcode, qn, msn);
    struct rdmap_offender o = rdmap_offender_of(span_of(ulpdu, len));
    struct terminate t = rdmap_terminate_make(TERM_DDP_QN, &o);
    return rdmap_terminate_culprit(&t);
}

static void a_culprit_is_known_by_its_header(void **state)
{
    assert_int_equal(culprit(RDMAP_SEND_INV, 0, 7).kind, RDMAP_CULPRIT_SEND);
    assert_int_equal(culprit(RDMAP_SEND_INV, 0, 7).msn, 7);
    assert_int_equal(culprit(RDMAP_ATOMIC_REQUEST, 1, 3).kind, RDMAP_CULPRIT_REQUEST);
    assert_int_equal(culprit(RDMAP_ATOMIC_RESPONSE, 3, 3).kind, RDMAP_CULPRIT_UNKNOWN);
    struct ddp_header h = {.tagged = true, .rsvdulp = 0x40, .stag = 5, .to = 6};
    struct terminate t = {.has_ddp = true};
    t.ddp_header_len = ddp_header_emit(&h, t.ddp_header);
    assert_int_equal(rdmap_terminate_culprit(&t).kind, RDMAP_CULPRIT_WRITE);
    assert_int_equal(rdmap_terminate_culprit(&t).stag, 5);
    assert_int_equal(rdmap_terminate_culprit(&t).to, 6);
    h.rsvdulp = 0x42;
    t.ddp_header_len = ddp_header_emit(&h, t.ddp_header);
    assert_int_equal(rdmap_terminate_culprit(&t).kind, RDMAP_CULPRIT_UNKNOWN);
    t.has_ddp = false;
    assert_int_equal(rdmap_terminate_culprit(&t).kind, RDMAP_CULPRIT_UNKNOWN);
}

static void both_readings_are_kept(void **state)
{
    static const uint8_t from_siw[] = {0x20, 0x06, 0, 0};
    struct rdmap_terminate_read read = rdmap_terminate_read(span_of(from_siw, 4), true);
    assert_int_equal(read.cause, TERM_RDMAP_OPCODE);
    assert_true(read.is_siw);
    read = rdmap_terminate_read(span_of(from_siw, 4), false);
    assert_int_equal(read.rfc.layer, TERMINATE_LAYER_LLP);
    assert_int_equal(read.siw.layer, TERMINATE_LAYER_RDMAP);
    read = rdmap_terminate_read(span_of(from_siw, 3), false);
    assert_int_equal(read.cause, TERM_NONE);
}

static void every_refusal_has_a_name_and_a_cause(void **state)
{
    for (int r = RDMAP_ACCEPTED + 1; r < RDMAP_REFUSAL_COUNT; r++) {
        const struct rdmap_refusal_facts *facts = rdmap_refusal_facts((enum rdmap_refusal)r);
        assert_non_null(facts->name);
        assert_non_null(facts->text);
        assert_int_not_equal(facts->cause, TERM_NONE);
    }
    for (int v = 0; v < MEM_VERDICT_COUNT; v++) {
        bool is_ok = v == MEM_OK;
        assert_int_equal(rdmap_refusal_of_request((enum mem_verdict)v) == RDMAP_ACCEPTED, is_ok);
        assert_int_equal(rdmap_refusal_of_invalidate((enum mem_verdict)v) == RDMAP_ACCEPTED, is_ok);
    }
    assert_int_equal(rdmap_refusal_of_request(MEM_WRONG_QP), RDMAP_REFUSED_REMOTE_STREAM);
    assert_int_equal(rdmap_refusal_of_invalidate(MEM_CANNOT_INVALIDATE), RDMAP_REFUSED_INVALIDATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_offender_keeps_only_what_was_there),
        cmocka_unit_test(causes_decide_which_headers_belong),
        cmocka_unit_test(the_message_has_length_header_and_request_of_the_offender),
        cmocka_unit_test(a_read_that_was_answered_in_part_is_named_where_it_stopped),
        cmocka_unit_test(a_culprit_is_known_by_its_header),
        cmocka_unit_test(both_readings_are_kept),
        cmocka_unit_test(every_refusal_has_a_name_and_a_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
