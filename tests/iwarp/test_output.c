// What leaves next: turns between work and answers, segments, room in the sink, copies.
#include "tests/iwarp/craft.h"
#include "tests/iwarp/pair.h"

static uint8_t opcode_of(const struct unit *u)
{
    return rdmap_control_opcode(u->header[DDP_OFF_RSVDULP]);
}

static const struct unit *batch_at(const struct end *e, unsigned i)
{
    assert_true(i < e->batch.count);
    return e->batch.units[(e->batch.head + i) % PAIR_UNIT_MAX];
}

// b is asked to read and has Writes of its own: messages alternate, their segments never mix.
static void answers_and_work_take_turns_at_message_boundaries(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.mulpdu = 514});
    for (unsigned i = 0; i < 3; i++) {
        pair_post_op(p, &p->a, i, WQE_RDMA_READ, WQE_SIGNALED, 0, 1500, 0);
        pair_post_op(p, &p->b, i, WQE_RDMA_WRITE, WQE_SIGNALED, 2000, 1500, 4000);
    }
    pair_output(p, &p->a);
    while (pair_hand(p, &p->a) && pair_deliver(p, &p->a)) {
    }
    pair_output(p, &p->b);
    assert_int_equal(p->b.batch.count, 18);
    for (unsigned message = 0; message < 6; message++) {
        uint8_t opcode = opcode_of(batch_at(&p->b, message * 3));
        for (unsigned i = 0; i < 3; i++) {
            const struct unit *u = batch_at(&p->b, message * 3 + i);
            assert_int_equal(opcode_of(u), opcode);
            assert_int_equal((u->header[0] & DDP_LAST) != 0, i == 2);
        }
        if (message > 0) {
            assert_int_not_equal(opcode, opcode_of(batch_at(&p->b, message * 3 - 1)));
        }
    }
    pair_run(p);
    assert_int_equal(pair_poll_count(p->a.send_cq), 3);
    assert_int_equal(pair_poll_count(p->b.send_cq), 3);
    pair_close(p);
}

static void segments_are_as_long_as_mulpdu_allows(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.mulpdu = 1000});
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, 0, 0, 2500, 0);
    pair_output(p, &p->a);
    assert_int_equal(p->a.batch.count, 3);
    assert_int_equal(batch_at(&p->a, 0)->len, 1000);
    assert_int_equal(batch_at(&p->a, 1)->len, 1000);
    assert_int_equal(batch_at(&p->a, 2)->len, 2500 - 2 * 986 + 14);
    pair_run(p);
    pair_close(p);
}

static void a_full_sink_is_waited_for(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.mulpdu = 200});
    p->a.room = 1;
    pair_fill(&p->a, 0, 5000, 1);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, WQE_SIGNALED, 0, 5000, 0);
    pair_output(p, &p->a);
    assert_int_equal(p->a.batch.count, 1);
    assert_true(qp_has_output(p->a.qp));
    pair_run(p);
    pair_expect_filled(&p->b, 0, 5000, 1);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_close(p);
}

static void sends_and_writes_go_by_reference_answers_as_copies(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, 0, 128, 64, 0);
    pair_output(p, &p->a);
    assert_ptr_equal(batch_at(&p->a, 0)->pieces[0].ptr, p->a.memory + 128);
    assert_null(batch_at(&p->a, 0)->octets);
    struct craft c = craft_read_request(1, p->b.stag, (uintptr_t)p->b.memory, 64);
    pair_inject(p, &p->b, c.octets, c.len);
    pair_output(p, &p->b);
    assert_non_null(batch_at(&p->b, 0)->octets);
    pair_close(p);

    p = pair_open(&(struct pair_options){.config = {.tx_copy = true}});
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE, 0, 128, 64, 0);
    pair_output(p, &p->a);
    assert_non_null(batch_at(&p->a, 0)->octets);
    pair_close(p);
}

static void an_answer_of_no_octets_looks_at_no_key(void **state)
{
    struct pair *p = pair_open(NULL);
    struct craft c = craft_read_request(1, 0xbad, 77, 0);
    assert_int_equal(pair_inject(p, &p->b, c.octets, c.len), ULPDU_TAKEN);
    pair_output(p, &p->b);
    const struct unit *u = batch_at(&p->b, 0);
    assert_int_equal(opcode_of(u), RDMAP_READ_RESPONSE);
    assert_int_equal(u->len, DDP_TAGGED_HEADER_LEN);
    assert_true((u->header[0] & DDP_LAST) != 0);
    pair_close(p);
}

static void a_queue_pair_with_nothing_to_do_has_no_output(void **state)
{
    struct pair *p = pair_open(NULL);
    assert_false(qp_has_output(p->a.qp));
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, 0, 0, 64, 0);
    assert_true(qp_has_output(p->a.qp));
    pair_output(p, &p->a);
    assert_false(qp_has_output(p->a.qp));
    pair_run(p);
    assert_false(qp_has_output(p->b.qp));
    pair_close(p);
}

// Memory goes away that a Read of ours and an answer of ours need: the first to be looked at ends
// the stream, and nothing follows but the Terminate.
static void nothing_starts_behind_a_work_request_at_fault(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_op(p, &p->a, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 300, 0);
    pair_output(p, &p->a);
    while (pair_hand(p, &p->a) && pair_deliver(p, &p->a)) {
    }
    assert_int_equal(qp_query(p->b.qp).reads_due, 1);
    pair_post_op(p, &p->b, 2, WQE_RDMA_READ, WQE_SIGNALED, 0, 300, 0);
    assert_int_equal(mem_region_deregister(p->b.mem, p->b.stag), 0);
    pair_output(p, &p->b);
    assert_int_equal(p->b.batch.count, 0);
    pair_expect_terminate(p, &p->b, TERM_RDMAP_LOCAL);
    pair_run(p);
    pair_expect(p->b.send_cq, 2, WC_LOC_PROT_ERR);
    pair_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_and_work_take_turns_at_message_boundaries),
        cmocka_unit_test(segments_are_as_long_as_mulpdu_allows),
        cmocka_unit_test(a_full_sink_is_waited_for),
        cmocka_unit_test(sends_and_writes_go_by_reference_answers_as_copies),
        cmocka_unit_test(an_answer_of_no_octets_looks_at_no_key),
        cmocka_unit_test(a_queue_pair_with_nothing_to_do_has_no_output),
        cmocka_unit_test(nothing_starts_behind_a_work_request_at_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
