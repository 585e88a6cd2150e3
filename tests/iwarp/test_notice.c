// Two weft ends and their allotment: requests that name all that remains, answers that are cut,
// notices while reads are under way.
#include "tests/iwarp/craft.h"
#include "tests/iwarp/pair.h"

enum { ALLOTMENT = 1000, LEN = 5500, PARTS = 6 };

static struct pair *open_weft(uint32_t a_len, uint32_t b_len)
{
    struct pair *p =
        pair_open(&(struct pair_options){.mulpdu = 400, .weft = true, .allotment = {a_len, b_len}});
    pair_run(p);
    return p;
}

static uint64_t refusals(const struct end *e, enum rdmap_refusal refusal)
{
    return qp_counters(e->qp)->refusals[refusal];
}

static void expect_lengths(const struct pair *p, uint32_t len)
{
    assert_int_equal(qp_query(p->a.qp).request_len, len);
    assert_int_equal(qp_query(p->b.qp).request_len, len);
    assert_int_equal(qp_query(p->a.qp).answer_len, len);
    assert_int_equal(qp_query(p->b.qp).answer_len, len);
}

static void the_smaller_wish_holds_at_both_ends(void **state)
{
    struct pair *p = open_weft(ALLOTMENT, 3000);
    expect_lengths(p, ALLOTMENT);
    pair_close(p);
    p = open_weft(3000, ALLOTMENT);
    expect_lengths(p, ALLOTMENT);
    pair_close(p);
}

static void a_wish_that_is_granted_as_it_was_is_no_change(void **state)
{
    struct pair *p = open_weft(ALLOTMENT, ALLOTMENT);
    assert_int_equal(qp_counters(p->a.qp)->allotment_changes, 0);
    assert_int_equal(qp_counters(p->b.qp)->allotment_changes, 0);
    pair_close(p);
    p = open_weft(3000, ALLOTMENT);
    assert_int_equal(qp_counters(p->a.qp)->allotment_changes, 1);
    assert_int_equal(qp_counters(p->b.qp)->allotment_changes, 0);
    pair_close(p);
}

static void a_request_names_all_that_remains_and_the_answer_is_cut(void **state)
{
    struct pair *p = open_weft(ALLOTMENT, ALLOTMENT);
    pair_fill(&p->b, 300, LEN, 3);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 64, LEN, 300);
    struct span ulpdu = pair_peek(p, &p->a);
    struct rdmap_read_request request;
    assert_int_equal(rdmap_read_request_parse(span_skip(ulpdu, DDP_UNTAGGED_HEADER_LEN), &request),
                     RDMAP_PARSE_OK);
    assert_int_equal(request.rdmardsz, LEN);
    pair_run(p);
    pair_expect_filled(&p->a, 64, LEN, 3);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    assert_int_equal(qp_counters(p->b.qp)->cut_responses, PARTS - 1);
    assert_int_equal(qp_counters(p->a.qp)->out[RDMAP_READ_REQUEST].messages, PARTS);
    pair_close(p);
}

static void all_that_is_named_is_checked_at_once(void **state)
{
    struct pair *p = open_weft(ALLOTMENT, ALLOTMENT);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, PAIR_MEMORY_LEN - LEN + 1);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_REM_ACCESS_ERR);
    assert_int_equal(qp_counters(p->b.qp)->out[RDMAP_READ_RESPONSE].messages, 0);
    pair_close(p);
}

static void both_ends_may_change_it_while_reads_are_under_way(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct pair *p = open_weft(ALLOTMENT, ALLOTMENT);
        uint32_t len = i == 0 ? ALLOTMENT / 2 : ALLOTMENT * 2;
        pair_fill(&p->b, 300, LEN, 3);
        pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 64, LEN, 300);
        pair_output(p, &p->a);
        qp_wish_allotment(p->a.qp, len, false, ALLOTMENT_OPERATOR,
                          p->now); // the smaller holds: both
        qp_wish_allotment(p->b.qp, len, false, ALLOTMENT_OPERATOR, p->now);
        pair_run(p);
        expect_lengths(p, len);
        pair_expect(p->a.send_cq, 1, WC_SUCCESS);
        pair_expect_filled(&p->a, 64, LEN, 3);
        pair_close(p);
    }
}

static void one_ends_wish_lowers_it_for_both(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct pair *p = open_weft(ALLOTMENT, ALLOTMENT);
        struct end *who = i == 0 ? &p->a : &p->b;
        uint64_t before = qp_counters(who->qp)->allotment_changes;
        qp_wish_allotment(who->qp, 300, false, ALLOTMENT_MEMORY, p->now);
        assert_true(qp_has_output(who->qp));
        pair_run(p);
        expect_lengths(p, 300);
        assert_int_equal(qp_counters(who->qp)->allotment_changes, before + 1);
        pair_expect_none(p->a.recv_cq); // it takes no receive
        pair_expect_none(p->b.recv_cq);
        pair_close(p);
    }
}

static struct craft craft_notice(enum extension_kind kind, uint32_t msn, uint32_t len)
{
    struct extension_message message = {.kind = kind, .allotment_len = len};
    uint8_t octets[EXTENSION_MESSAGE_LEN];
    extension_message_emit(&message, octets);
    return craft_untagged(RDMAP_EXTENSION, msn, 0, true, octets, sizeof octets);
}

static void what_nothing_called_for_is_refused(void **state)
{
    static const enum extension_kind kinds[] = {EXTENSION_TAKEN, EXTENSION_CHOICES};
    for (unsigned i = 0; i < 2; i++) {
        struct pair *p = open_weft(ALLOTMENT, ALLOTMENT);
        struct craft c = craft_notice(kinds[i], 2, 5);
        assert_int_equal(pair_inject(p, &p->b, c.octets, c.len), ULPDU_STOP);
        assert_int_equal(refusals(&p->b, RDMAP_REFUSED_EXTENSION_UNASKED), 1);
        pair_expect_terminate(p, &p->b, TERM_RDMAP_OPCODE);
        pair_close(p);
    }
}

static void a_notice_before_the_choices_is_refused(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.weft = true, .allotment = {9, 9}});
    struct craft c = craft_notice(EXTENSION_ALLOTMENT, 1, 5);
    assert_int_equal(pair_inject(p, &p->b, c.octets, c.len), ULPDU_STOP);
    assert_int_equal(refusals(&p->b, RDMAP_REFUSED_EXTENSION_UNASKED), 1);
    pair_close(p);
}

// Answers by hand, to a's oldest request.
static struct craft craft_answer(const struct pair *p, uint64_t at, bool is_last, size_t len)
{
    const struct read_context *context =
        LIST_ENTRY(p->a.qp->wq.requests.next, struct read_context, link);
    return craft_tagged(RDMAP_READ_RESPONSE, read_answer_of(context)->sink, at, is_last, NULL, len);
}

// A Read whose third window is an allotment, and whose third request is made under a smaller one.
static struct pair *open_lowered(uint32_t to)
{
    struct pair *p = open_weft(ALLOTMENT, ALLOTMENT);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 3 * ALLOTMENT, 0);
    pair_output(p, &p->a);
    struct craft c = craft_answer(p, 0, true, ALLOTMENT);
    assert_int_equal(pair_inject(p, &p->a, c.octets, c.len), ULPDU_TAKEN); // the third is granted
    c = craft_answer(p, 0, true, ALLOTMENT);
    assert_int_equal(pair_inject(p, &p->a, c.octets, c.len), ULPDU_TAKEN);
    c = craft_notice(EXTENSION_ALLOTMENT, 1, to);
    assert_int_equal(pair_inject(p, &p->a, c.octets, c.len), ULPDU_TAKEN);
    pair_drop_batch(&p->a);
    pair_output(p, &p->a);
    return p;
}

static void a_short_answer_is_partial_completion(void **state)
{
    struct pair *p = open_lowered(300);
    struct craft c = craft_answer(p, 0, true, 300);
    assert_int_equal(pair_inject(p, &p->a, c.octets, c.len), ULPDU_TAKEN);
    pair_drop_batch(&p->a);
    struct span ulpdu = pair_peek(p, &p->a); // the rest of its window, and no more
    struct rdmap_read_request request;
    rdmap_read_request_parse(span_skip(ulpdu, DDP_UNTAGGED_HEADER_LEN), &request);
    assert_int_equal(request.rdmardsz, ALLOTMENT - 300);
    assert_int_equal(request.src_to, (uintptr_t)p->b.memory + 2 * ALLOTMENT + 300);
    pair_close(p);
}

// Each partial answer costs a further request, and leaves the context where it is.
static void an_answer_is_cut_no_shorter_than_the_allotment(void **state)
{
    static const uint32_t allotments[] = {ALLOTMENT, 300};
    for (unsigned i = 0; i < 2; i++) {
        struct pair *p = open_lowered(allotments[i]);
        struct craft c = craft_answer(p, 0, true, allotments[i] - 1);
        assert_int_equal(pair_inject(p, &p->a, c.octets, c.len), ULPDU_STOP);
        enum rdmap_refusal refusal =
            i == 0 ? RDMAP_REFUSED_RESPONSE_LAST : RDMAP_REFUSED_RESPONSE_SHORT;
        assert_int_equal(refusals(&p->a, refusal), 1);
        pair_expect_terminate(p, &p->a, TERM_RDMAP_OPERATION_UNSPECIFIED);
        pair_close(p);
    }
}

static void an_answer_beyond_the_allotment_is_refused(void **state)
{
    struct pair *p = open_weft(300, 300);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    pair_output(p, &p->a);
    struct craft c = craft_answer(p, 0, true, 301); // within what was named
    assert_int_equal(pair_inject(p, &p->a, c.octets, c.len), ULPDU_STOP);
    assert_int_equal(refusals(&p->a, RDMAP_REFUSED_RESPONSE_LENGTH), 1);
    pair_close(p);
}

static void an_answer_without_an_octet_is_refused(void **state)
{
    struct pair *p = open_weft(ALLOTMENT, ALLOTMENT);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    pair_output(p, &p->a);
    struct craft c = craft_answer(p, 0, true, 0);
    assert_int_equal(pair_inject(p, &p->a, c.octets, c.len), ULPDU_STOP);
    assert_int_equal(refusals(&p->a, RDMAP_REFUSED_RESPONSE_LAST), 1);
    pair_close(p);
}

static void a_foreign_peers_answer_may_not_be_short(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.allotment = {ALLOTMENT, ALLOTMENT}});
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
    pair_output(p, &p->a);
    struct craft c = craft_answer(p, 0, true, 10);
    assert_int_equal(pair_inject(p, &p->a, c.octets, c.len), ULPDU_STOP);
    assert_int_equal(refusals(&p->a, RDMAP_REFUSED_RESPONSE_LAST), 1);
    pair_close(p);
}

static void a_foreign_peers_request_is_answered_whole(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.allotment = {0, ALLOTMENT}});
    pair_fill(&p->b, 300, LEN, 3);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 64, LEN, 300);
    pair_run(p);
    pair_expect_filled(&p->a, 64, LEN, 3);
    assert_int_equal(qp_counters(p->b.qp)->out[RDMAP_READ_RESPONSE].messages, 1);
    pair_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smaller_wish_holds_at_both_ends),
        cmocka_unit_test(a_wish_that_is_granted_as_it_was_is_no_change),
        cmocka_unit_test(a_request_names_all_that_remains_and_the_answer_is_cut),
        cmocka_unit_test(all_that_is_named_is_checked_at_once),
        cmocka_unit_test(both_ends_may_change_it_while_reads_are_under_way),
        cmocka_unit_test(one_ends_wish_lowers_it_for_both),
        cmocka_unit_test(what_nothing_called_for_is_refused),
        cmocka_unit_test(a_notice_before_the_choices_is_refused),
        cmocka_unit_test(a_short_answer_is_partial_completion),
        cmocka_unit_test(an_answer_is_cut_no_shorter_than_the_allotment),
        cmocka_unit_test(an_answer_beyond_the_allotment_is_refused),
        cmocka_unit_test(an_answer_without_an_octet_is_refused),
        cmocka_unit_test(a_foreign_peers_answer_may_not_be_short),
        cmocka_unit_test(a_foreign_peers_request_is_answered_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
