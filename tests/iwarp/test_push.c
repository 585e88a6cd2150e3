// Writes past the stream: what is put, what is kept back, and what completes while their octets are
// put into the peer's memory by somebody who asks nobody.
#include "tests/iwarp/craft.h"
#include "tests/iwarp/pair.h"

enum { LEN = 3000, REMOTE = 700, READ_LEN = 600 };

static struct {
    enum past_answer answer;
    unsigned count; // pushes that have begun
    struct push push;
    struct span pieces[SGE_COUNT_MAX];
} asked;

static enum past_answer push(void *ctx, const struct push *push)
{
    (void)ctx;
    if (asked.answer == PAST_BEGUN) {
        asked.count++;
        asked.push = *push;
        memcpy(asked.pieces, push->pieces, push->piece_count * sizeof *push->pieces);
    }
    return asked.answer;
}

static struct pair *open_pushing(void)
{
    struct pair *p = pair_open(&(struct pair_options){.weft = true});
    memset(&asked, 0, sizeof asked);
    asked.answer = PAST_BEGUN;
    pair_run(p); // the extension message is out of the way
    p->a.sink.push = push;
    pair_fill(&p->a, 0, LEN, 9);
    return p;
}

static void post_write(struct pair *p, uint64_t wr_id)
{
    pair_post_op(p, &p->a, wr_id, WQE_RDMA_WRITE, WQE_SIGNALED, 0, LEN, REMOTE);
}

// What has begun, as who copies does it.
static void copy(void)
{
    uint8_t *to = (uint8_t *)(uintptr_t)asked.push.to;
    for (unsigned i = 0; i < asked.push.piece_count; i++) {
        memcpy(to, asked.pieces[i].ptr, asked.pieces[i].len);
        to += asked.pieces[i].len;
    }
}

static void finish(struct pair *p, bool is_done)
{
    qp_on_pushed(p->a.qp, is_done, p->now);
    assert_true(qp_check(p->a.qp));
}

static uint64_t writes_that_came(const struct pair *p)
{
    return qp_counters(p->b.qp)->in[RDMAP_WRITE].messages;
}

static void a_write_that_is_pushed_puts_nothing(void **state)
{
    struct pair *p = open_pushing();
    post_write(p, 1);
    assert_false(pair_output(p, &p->a));
    assert_int_equal(asked.count, 1);
    assert_int_equal(asked.push.stag, p->b.stag);
    assert_int_equal(asked.push.len, LEN);
    pair_expect_none(p->a.send_cq);
    copy();
    finish(p, true);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect_filled(&p->b, REMOTE, LEN, 9);
    pair_run(p);
    assert_int_equal(writes_that_came(p), 0);
    assert_int_equal(qp_counters(p->a.qp)->pushed_writes, 1);
    assert_int_equal(qp_counters(p->a.qp)->out[RDMAP_WRITE].octets, LEN);
    pair_close(p);
}

static void what_is_refused_or_not_done_goes_by_the_stream(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct pair *p = open_pushing();
        asked.answer = i == 0 ? PAST_REFUSED : PAST_BEGUN;
        post_write(p, 1);
        pair_output(p, &p->a);
        if (i == 1) {
            finish(p, false);
        }
        pair_run(p);
        pair_expect(p->a.send_cq, 1, WC_SUCCESS);
        pair_expect_filled(&p->b, REMOTE, LEN, 9);
        assert_int_equal(asked.count, i);
        assert_int_equal(writes_that_came(p), 1);
        assert_int_equal(qp_counters(p->a.qp)->pushed_writes, 0);
        post_write(p, 2); // and the next is asked for again
        asked.answer = PAST_BEGUN;
        pair_output(p, &p->a);
        assert_int_equal(asked.count, i + 1);
        copy();
        finish(p, true);
        pair_expect(p->a.send_cq, 2, WC_SUCCESS);
        pair_close(p);
    }
}

static void what_is_left_is_asked_for_in_the_next_turn(void **state)
{
    struct pair *p = open_pushing();
    asked.answer = PAST_LATER;
    post_write(p, 1);
    assert_false(pair_output(p, &p->a));
    assert_true(qp_has_output(p->a.qp));
    asked.answer = PAST_BEGUN;
    assert_false(pair_output(p, &p->a));
    assert_int_equal(asked.count, 1);
    copy();
    finish(p, true);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_close(p);
}

static void nothing_of_our_own_is_put_meanwhile(void **state)
{
    struct pair *p = open_pushing();
    pair_post_receive(p, &p->b, 7, 0, LEN);
    post_write(p, 1);
    pair_post_op(p, &p->a, 2, WQE_SEND, WQE_SIGNALED, 0, 100, 0);
    assert_false(pair_output(p, &p->a));
    assert_false(qp_has_output(p->a.qp));
    pair_run(p);
    pair_expect_none(p->b.recv_cq);
    copy();
    finish(p, true);
    assert_true(qp_has_output(p->a.qp));
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect(p->a.send_cq, 2, WC_SUCCESS);
    pair_expect(p->b.recv_cq, 7, WC_SUCCESS);
    pair_close(p);
}

static void the_peer_is_answered_meanwhile(void **state)
{
    struct pair *p = open_pushing();
    post_write(p, 1);
    pair_output(p, &p->a);
    pair_post_op(p, &p->b, 3, WQE_RDMA_READ, WQE_SIGNALED, 5000, READ_LEN, 0);
    pair_run(p);
    pair_expect(p->b.send_cq, 3, WC_SUCCESS);
    pair_expect_none(p->a.send_cq);
    copy();
    finish(p, true);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_close(p);
}

static void immediate_data_follow_the_octets(void **state)
{
    struct pair *p = open_pushing();
    pair_post_receive(p, &p->b, 7, 0, 0);
    pair_post_op(p, &p->a, 1, WQE_RDMA_WRITE_WITH_IMM, WQE_SIGNALED, 0, LEN, REMOTE);
    pair_output(p, &p->a);
    pair_run(p);
    pair_expect_none(p->b.recv_cq);
    copy();
    finish(p, true);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect(p->b.recv_cq, 7, WC_SUCCESS);
    assert_int_equal(writes_that_came(p), 0);
    pair_close(p);
}

// The program's memory is read: it is not its own before that is over.
static void a_stream_that_ends_flushes_the_write_behind_the_copy(void **state)
{
    struct pair *p = open_pushing();
    post_write(p, 1);
    pair_output(p, &p->a);
    assert_true(wq_next_reads_from(qp_wq(p->a.qp), p->a.stag));
    assert_false(wq_next_reads_from(qp_wq(p->a.qp), p->a.stag + 1));
    qp_on_llp_closed(p->a.qp, QP_CLOSE_RESET, p->now);
    pair_expect_none(p->a.send_cq);
    finish(p, true);
    pair_expect(p->a.send_cq, 1, WC_WR_FLUSH_ERR);
    pair_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_that_is_pushed_puts_nothing),
        cmocka_unit_test(what_is_refused_or_not_done_goes_by_the_stream),
        cmocka_unit_test(what_is_left_is_asked_for_in_the_next_turn),
        cmocka_unit_test(nothing_of_our_own_is_put_meanwhile),
        cmocka_unit_test(the_peer_is_answered_meanwhile),
        cmocka_unit_test(immediate_data_follow_the_octets),
        cmocka_unit_test(a_stream_that_ends_flushes_the_write_behind_the_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
