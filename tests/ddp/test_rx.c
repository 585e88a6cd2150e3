// Segments and queues: what is due next, what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ddp/rx.h"

static struct ddp_segment segment(uint32_t qn, uint32_t msn, uint32_t mo, bool last, size_t len)
{
    static const uint8_t octets[64];
    return (struct ddp_segment){
        .header = {.qn = qn, .msn = msn, .mo = mo, .last = last},
        .payload = span_of(octets, len),
    };
}

static void a_segment_is_header_and_payload(void **state)
{
    // Untagged, Last, RsvdULP 43 00000000, QN 0, MSN 1, MO 0, "abc".
    static const uint8_t ulpdu[] = {0x41, 0x43, 0, 0, 0, 0, 0, 0,   0,   0,  0,
                                    0,    0,    1, 0, 0, 0, 0, 'a', 'b', 'c'};
    struct ddp_segment s;
    assert_int_equal(ddp_segment_parse(span_of(ulpdu, sizeof ulpdu), &s), DDP_OK);
    assert_int_equal(s.payload.len, 3);
    assert_ptr_equal(s.payload.ptr, ulpdu + 18);
    assert_true(s.header.last);
    assert_int_equal(s.header.msn, 1);
    assert_int_equal(ddp_segment_parse(span_of(ulpdu, 17), &s), DDP_REFUSED_TOO_SHORT);
    static const uint8_t tagged[14] = {0x82}, untagged[18] = {0x40};
    assert_int_equal(ddp_segment_parse(span_of(tagged, 14), &s), DDP_REFUSED_TAGGED_VERSION);
    assert_int_equal(ddp_segment_parse(span_of(untagged, 18), &s), DDP_REFUSED_UNTAGGED_VERSION);
}

static void queues_advance_on_their_own(void **state)
{
    struct ddp_untagged_queue q[2];
    ddp_untagged_queue_init(&q[0]);
    ddp_untagged_queue_init(&q[1]);
    struct ddp_segment first = segment(0, 1, 0, false, 40), other = segment(1, 1, 0, true, 10);
    struct ddp_segment second = segment(0, 1, 40, true, 5), next = segment(0, 2, 0, true, 0);
    assert_int_equal(ddp_untagged_check(q, 2, &first), DDP_OK);
    ddp_untagged_accept(q, &first);
    assert_int_equal(ddp_untagged_check(q, 2, &first), DDP_REFUSED_MO);
    assert_int_equal(ddp_untagged_check(q, 2, &next), DDP_REFUSED_MSN_RANGE);
    assert_int_equal(ddp_untagged_check(q, 2, &other), DDP_OK);
    ddp_untagged_accept(q, &other);
    assert_int_equal(ddp_untagged_check(q, 2, &second), DDP_OK);
    ddp_untagged_accept(q, &second);
    assert_int_equal(ddp_untagged_check(q, 2, &next), DDP_OK);
    struct ddp_segment none = segment(2, 1, 0, true, 0);
    assert_int_equal(ddp_untagged_check(q, 2, &none), DDP_REFUSED_QN);
}

static void message_numbers_wrap(void **state)
{
    struct ddp_untagged_queue q = {.msn = UINT32_MAX};
    struct ddp_segment s = segment(0, UINT32_MAX, 0, true, 1);
    assert_int_equal(ddp_untagged_check(&q, 1, &s), DDP_OK);
    ddp_untagged_accept(&q, &s);
    s.header.msn = 0;
    assert_int_equal(ddp_untagged_check(&q, 1, &s), DDP_OK);
}

static void an_offset_beyond_32_bits_is_never_due(void **state)
{
    struct ddp_untagged_queue q = {.msn = 1, .mo = UINT32_MAX};
    struct ddp_segment s = segment(0, 1, UINT32_MAX, false, 1);
    ddp_untagged_accept(&q, &s);
    s.header.mo = 0;
    assert_int_equal(ddp_untagged_check(&q, 1, &s), DDP_REFUSED_MO);
}

// The array goes on behind what the check is told of: nothing there may count.
static void the_queue_behind_the_last_is_none(void **state)
{
    const struct ddp_untagged_queue q[4] = {{.msn = 1}, {.msn = 1}, {.msn = 1}, {.msn = 1}};
    for (uint32_t qn = 0; qn < 4; qn++) {
        struct ddp_segment s = segment(qn, 1, 0, true, 4);
        enum ddp_verdict verdict = qn < 2 ? DDP_OK : DDP_REFUSED_QN;
        assert_int_equal(ddp_untagged_check(q, 2, &s), verdict);
        assert_int_equal(ddp_untagged_check_early(q, 2, &s), verdict);
    }
}

static void a_segment_beyond_a_hole_is_not_behind_what_came(void **state)
{
    const struct ddp_untagged_queue q = {.msn = 5, .mo = 100};
    static const struct {
        uint32_t msn, mo;
        enum ddp_verdict verdict;
    } rows[] = {{4, 0, DDP_REFUSED_MSN_RANGE},
                {5, 99, DDP_REFUSED_MO},
                {5, 100, DDP_OK},
                {5, 101, DDP_OK},
                {6, 0, DDP_OK},
                {5 + (1U << 31) - 1, 0, DDP_OK}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ddp_segment s = segment(0, rows[i].msn, rows[i].mo, true, 4);
        assert_int_equal(ddp_untagged_check_early(&q, 1, &s), rows[i].verdict);
    }
}

static void each_refusal_has_its_cause(void **state)
{
    assert_int_equal(ddp_verdict_cause(DDP_OK), TERM_NONE);
    assert_int_equal(ddp_verdict_cause(DDP_REFUSED_BOUNDS), TERM_DDP_BOUNDS);
    assert_int_equal(ddp_verdict_cause(DDP_REFUSED_ACCESS), TERM_DDP_INVALID_STAG);
    for (int v = DDP_OK + 1; v < DDP_VERDICT_COUNT; v++) {
        assert_int_not_equal(ddp_verdict_cause((enum ddp_verdict)v), TERM_NONE);
        assert_non_null(ddp_verdict_text((enum ddp_verdict)v));
    }
    static const enum ddp_verdict expected[MEM_VERDICT_COUNT] = {
        [MEM_INVALID_STAG] = DDP_REFUSED_INVALID_STAG,
        [MEM_WRONG_PD] = DDP_REFUSED_STREAM,
        [MEM_WRONG_QP] = DDP_REFUSED_STREAM,
        [MEM_BOUNDS] = DDP_REFUSED_BOUNDS,
        [MEM_WRAP] = DDP_REFUSED_TO_WRAP,
        [MEM_ACCESS] = DDP_REFUSED_ACCESS,
        [MEM_UNMAPPED] = DDP_REFUSED_BOUNDS,
        [MEM_LOCAL_ELEMENT] = DDP_REFUSED_LOCAL,
    };
    for (int v = 0; v < MEM_VERDICT_COUNT; v++) {
        enum ddp_verdict verdict = ddp_verdict_of_mem((enum mem_verdict)v);
        assert_true((v == MEM_OK) == (verdict == DDP_OK));
        assert_true(expected[v] == DDP_OK || verdict == expected[v]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_is_header_and_payload),
        cmocka_unit_test(queues_advance_on_their_own),
        cmocka_unit_test(message_numbers_wrap),
        cmocka_unit_test(an_offset_beyond_32_bits_is_never_due),
        cmocka_unit_test(the_queue_behind_the_last_is_none),
        cmocka_unit_test(a_segment_beyond_a_hole_is_not_behind_what_came),
        cmocka_unit_test(each_refusal_has_its_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
