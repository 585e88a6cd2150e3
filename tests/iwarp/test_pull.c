// Reads past the stream: what is put, what is kept back, and what completes while octets are copied
// by somebody who asks nobody.
#include "tests/iwarp/craft.h"
#include "tests/iwarp/pair.h"

enum { LEN = 3000, REMOTE = 700 };

static struct {
    enum past_answer answer;
    unsigned run_max; // so many begin in one run; 0: all that ask
    unsigned count;   // pulls that have begun
    unsigned run_count;
    struct asked_pull {
        struct pull pull;
        struct mspan places[PULL_PIECES_MAX];
    } run[PULL_RUN_MAX]; // those that have begun and are not done
} asked;

static enum past_answer pull(void *ctx, const struct pull *pull)
{
    (void)ctx;
    if (asked.answer != PAST_BEGUN) {
        return asked.answer;
    }
    if (asked.run_count == PULL_RUN_MAX ||
        (asked.run_max > 0 && asked.run_count == asked.run_max)) {
        return PAST_LATER;
    }
    struct asked_pull *at = &asked.run[asked.run_count++];
    asked.count++;
    at->pull = *pull;
    memcpy(at->places, pull->pieces, pull->piece_count * sizeof *pull->pieces);
    return PAST_BEGUN;
}

static struct pair *open_with(const struct pair_options *options)
{
    struct pair *p = pair_open(options);
    memset(&asked, 0, sizeof asked);
    asked.answer = PAST_BEGUN;
    pair_run(p); // the extension message is out of the way
    p->a.sink.pull = pull;
    pair_fill(&p->b, REMOTE, LEN, 9);
    return p;
}

static struct pair *open_pulling(void)
{
    return open_with(&(struct pair_options){.weft = true});
}

static void post_read(struct pair *p, uint64_t wr_id)
{
    pair_post_op(p, &p->a, wr_id, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, REMOTE);
}

// What has begun, as who copies does it.
static void copy(void)
{
    for (unsigned k = 0; k < asked.run_count; k++) {
        const struct asked_pull *at = &asked.run[k];
        const uint8_t *from = (const uint8_t *)(uintptr_t)at->pull.to;
        for (unsigned i = 0; i < at->pull.piece_count; i++) {
            memcpy(at->places[i].ptr, from, at->places[i].len);
            from += at->places[i].len;
        }
    }
}

static void finish_run(struct pair *p, unsigned good_count)
{
    asked.run_count = 0;
    qp_on_pulled(p->a.qp, good_count, p->now);
    assert_true(qp_check(p->a.qp));
}

static void finish(struct pair *p, bool is_good)
{
    finish_run(p, is_good ? asked.run_count : 0);
}

static uint64_t requests(const struct pair *p)
{
    return qp_counters(p->a.qp)->out[RDMAP_READ_REQUEST].messages;
}

static void a_read_that_is_pulled_puts_nothing(void **state)
{
    struct pair *p = open_pulling();
    post_read(p, 1);
    assert_false(pair_output(p, &p->a));
    assert_int_equal(asked.count, 1);
    assert_int_equal(asked.run[0].pull.stag, p->b.stag);
    assert_int_equal(asked.run[0].pull.len, LEN);
    pair_expect_none(p->a.send_cq);
    copy();
    finish(p, true);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect_filled(&p->a, 0, LEN, 9);
    pair_run(p);
    assert_int_equal(requests(p), 0);
    assert_int_equal(qp_counters(p->a.qp)->pulled_reads, 1);
    pair_close(p);
}

static void octets_go_to_the_places_of_the_list(void **state)
{
    struct pair *p = open_pulling();
    struct send_wqe *wqe = pair_send_slot(&p->a, 1, WQE_RDMA_READ, WQE_SIGNALED);
    pair_set_sge(&p->a, wqe, 5000, 10);
    pair_set_sge(&p->a, wqe, 100, 0);
    pair_set_sge(&p->a, wqe, 0, LEN - 10);
    pair_set_remote(p, &p->a, wqe, REMOTE);
    pair_post(p, &p->a);
    pair_output(p, &p->a);
    assert_int_equal(asked.run[0].pull.piece_count, 2);
    assert_ptr_equal(asked.run[0].places[0].ptr, p->a.memory + 5000);
    assert_int_equal(asked.run[0].places[0].len, 10);
    assert_ptr_equal(asked.run[0].places[1].ptr, p->a.memory);
    assert_int_equal(asked.run[0].places[1].len, LEN - 10);
    finish(p, true);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_close(p);
}

static void what_is_refused_or_not_good_goes_by_the_stream(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct pair *p = open_pulling();
        asked.answer = i == 0 ? PAST_REFUSED : PAST_BEGUN;
        post_read(p, 1);
        pair_output(p, &p->a);
        if (i == 1) {
            finish(p, false);
        }
        pair_run(p);
        pair_expect(p->a.send_cq, 1, WC_SUCCESS);
        pair_expect_filled(&p->a, 0, LEN, 9);
        assert_int_equal(requests(p), 1);
        assert_int_equal(qp_counters(p->a.qp)->pulled_reads, 0);
        pair_close(p);
    }
}

// The peer puts requests into slots by their numbers.
static void a_request_behind_one_that_was_pulled_has_its_number(void **state)
{
    struct pair *p = open_pulling();
    post_read(p, 1);
    pair_output(p, &p->a);
    copy();
    finish(p, true);
    asked.answer = PAST_REFUSED;
    pair_post_op(p, &p->a, 2, WQE_ATOMIC_FETCH_AND_ADD, WQE_SIGNALED, 8000, 8, 8192);
    post_read(p, 3);
    pair_run(p);
    for (uint64_t wr_id = 1; wr_id <= 3; wr_id++) {
        pair_expect(p->a.send_cq, wr_id, WC_SUCCESS);
    }
    pair_close(p);
}

static void nothing_is_put_behind_a_pull_before_it_is_done(void **state)
{
    struct pair *p = open_pulling();
    pair_post_receive(p, &p->b, 7, 0, 64);
    post_read(p, 1);
    pair_post_op(p, &p->a, 2, WQE_SEND, WQE_SIGNALED, 0, 64, 0);
    pair_run(p);
    assert_int_equal(asked.count, 1);
    assert_false(qp_has_output(p->a.qp));
    assert_true(qp_owes_output(p->a.qp));
    pair_expect_none(p->b.recv_cq);
    finish(p, true);
    pair_run(p);
    pair_expect(p->b.recv_cq, 7, WC_SUCCESS);
    pair_close(p);
}

// What it asks for has nothing to do with what we do.
static void the_peer_is_answered_meanwhile(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct pair *p = open_pulling();
        asked.answer = i == 0 ? PAST_BEGUN : PAST_LATER;
        post_read(p, 1);
        pair_output(p, &p->a);
        pair_post_op(p, &p->b, 2, WQE_RDMA_READ, WQE_SIGNALED, 0, LEN, 0);
        pair_run(p);
        pair_expect(p->b.send_cq, 2, WC_SUCCESS);
        pair_expect_none(p->a.send_cq);
        asked.answer = PAST_BEGUN;
        pair_output(p, &p->a);
        assert_int_equal(asked.count, 1);
        copy();
        finish(p, true);
        pair_expect(p->a.send_cq, 1, WC_SUCCESS);
        pair_close(p);
    }
}

static void a_fence_waits_for_what_is_pulled(void **state)
{
    struct pair *p = open_pulling();
    pair_post_receive(p, &p->b, 7, 0, 64);
    post_read(p, 1);
    pair_post_op(p, &p->a, 2, WQE_SEND, WQE_SIGNALED | WQE_FENCE, 0, 64, 0);
    pair_run(p);
    pair_expect_none(p->b.recv_cq);
    finish(p, true);
    pair_run(p);
    pair_expect(p->b.recv_cq, 7, WC_SUCCESS);
    pair_close(p);
}

static void who_can_copy_later_is_asked_again(void **state)
{
    struct pair *p = open_pulling();
    asked.answer = PAST_LATER;
    post_read(p, 1);
    assert_false(pair_output(p, &p->a));
    assert_true(qp_has_output(p->a.qp));
    asked.answer = PAST_BEGUN;
    pair_output(p, &p->a);
    assert_int_equal(asked.count, 1);
    finish(p, true);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    assert_int_equal(requests(p), 0);
    pair_close(p);
}

static void a_divided_read_is_pulled_in_parts(void **state)
{
    struct pair *p = open_with(&(struct pair_options){.weft = true, .allotment = {1000, 1000}});
    asked.run_max = 2;
    post_read(p, 1);
    for (unsigned begun = 2; begun <= 3; begun++) {
        pair_output(p, &p->a);
        assert_int_equal(asked.count, begun);
        assert_int_equal(asked.run[0].pull.len, 1000);
        pair_expect_none(p->a.send_cq);
        copy();
        finish(p, true);
    }
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect_filled(&p->a, 0, LEN, 9);
    pair_close(p);
}

// Its window was cut by the allotment that was, and the answer is by the one that is.
static void what_goes_by_the_stream_at_last_is_asked_for_by_the_allotment_of_then(void **state)
{
    struct pair *p = open_with(&(struct pair_options){.weft = true, .allotment = {1000, 1000}});
    asked.run_max = 1;
    post_read(p, 1);
    pair_output(p, &p->a);
    assert_int_equal(asked.run[0].pull.len, 1000);
    qp_wish_allotment(p->a.qp, 2000, false, ALLOTMENT_OPERATOR, p->now);
    qp_wish_allotment(p->b.qp, 2000, false, ALLOTMENT_OPERATOR, p->now);
    pair_run(p); // both tell each other
    asked.answer = PAST_REFUSED;
    finish(p, false);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    pair_expect_filled(&p->a, 0, LEN, 9);
    pair_close(p);
}

// Those before it are out: they would always be, if the next ones joined them.
static void reads_on_the_stream_do_not_keep_all_others_there(void **state)
{
    struct pair *p =
        open_with(&(struct pair_options){.weft = true, .stream = {.ird = 16, .ord = 16}});
    p->a.sink.pull = NULL;
    asked.run_max = 1;
    post_read(p, 0);
    pair_output(p, &p->a);
    p->a.sink.pull = pull;
    for (uint64_t i = 1; i < 8; i++) {
        post_read(p, i);
    }
    pair_output(p, &p->a);
    assert_int_equal(asked.count, 0);
    uint64_t put = requests(p);
    assert_in_range(put, 2, 7);
    pair_output(p, &p->a);
    assert_false(qp_has_output(p->a.qp));
    pair_run(p);
    assert_int_equal(asked.count, 1);
    assert_int_equal(requests(p), put);
    for (uint64_t i = put; i < 8; i++) {
        finish(p, true);
        pair_run(p);
    }
    for (uint64_t i = 0; i < 8; i++) {
        pair_expect(p->a.send_cq, i, WC_SUCCESS);
    }
    assert_int_equal(requests(p), put);
    pair_close(p);
}

// It says nothing about the next ones, which are kept back until it has been answered.
static void a_read_behind_what_was_sent_does_not_draw_all_others_there(void **state)
{
    struct pair *p =
        open_with(&(struct pair_options){.weft = true, .stream = {.ird = 16, .ord = 16}});
    asked.answer = PAST_BEHIND;
    asked.run_max = 1;
    post_read(p, 0);
    pair_output(p, &p->a);
    assert_int_equal(requests(p), 1);
    asked.answer = PAST_BEGUN;
    for (uint64_t i = 1; i < 12; i++) {
        post_read(p, i);
    }
    pair_output(p, &p->a);
    uint64_t put = requests(p);
    assert_in_range(put, 2, 8);
    pair_run(p);
    assert_int_equal(asked.count, 1);
    assert_int_equal(requests(p), put);
    for (uint64_t i = put; i < 12; i++) {
        finish(p, true);
        pair_run(p);
    }
    assert_int_equal(pair_poll_count(p->a.send_cq), 12);
    pair_close(p);
}

static void reads_that_cannot_be_pulled_do_not_wait_for_each_other(void **state)
{
    struct pair *p =
        open_with(&(struct pair_options){.weft = true, .stream = {.ird = 16, .ord = 16}});
    asked.answer = PAST_REFUSED;
    for (uint64_t i = 0; i < 12; i++) {
        post_read(p, i);
    }
    pair_output(p, &p->a);
    assert_int_equal(requests(p), 12);
    pair_run(p);
    assert_int_equal(pair_poll_count(p->a.send_cq), 12);
    pair_close(p);
}

/* ---- several in one run ---------------------------------------------------------------------- */

static const struct pair_options deep = {.weft = true, .stream = {.ird = 16, .ord = 16}};

// Each to a place of its own.
static void post_reads(struct pair *p, unsigned count)
{
    for (uint64_t i = 0; i < count; i++) {
        pair_post_op(p, &p->a, i, WQE_RDMA_READ, WQE_SIGNALED, i * LEN, LEN, REMOTE);
    }
}

static void expect_reads(struct pair *p, unsigned count)
{
    for (uint64_t i = 0; i < count; i++) {
        pair_expect(p->a.send_cq, i, WC_SUCCESS);
        pair_expect_filled(&p->a, i * LEN, LEN, 9);
    }
}

static void reads_that_follow_are_copied_together(void **state)
{
    struct pair *p = open_with(&deep);
    post_reads(p, 5);
    pair_output(p, &p->a);
    assert_int_equal(asked.run_count, 5);
    pair_expect_none(p->a.send_cq);
    copy();
    finish(p, true);
    expect_reads(p, 5);
    assert_int_equal(requests(p), 0);
    pair_close(p);
}

static void what_does_not_join_is_the_first_of_the_next_run(void **state)
{
    struct pair *p = open_with(&deep);
    asked.run_max = 2;
    post_reads(p, 5);
    for (unsigned begun = 2; begun <= 6; begun += 2) {
        pair_output(p, &p->a);
        assert_int_equal(asked.count, begun < 5 ? begun : 5);
        copy();
        finish(p, true);
    }
    expect_reads(p, 5);
    assert_int_equal(requests(p), 0);
    pair_close(p);
}

static void those_behind_one_that_is_not_good_go_by_the_stream(void **state)
{
    struct pair *p = open_with(&deep);
    post_reads(p, 4);
    pair_output(p, &p->a);
    copy();
    memset(p->a.memory + LEN, 0, 3 * LEN);
    finish_run(p, 1);
    pair_run(p);
    expect_reads(p, 4);
    assert_int_equal(requests(p), 3);
    assert_int_equal(qp_counters(p->a.qp)->pulled_reads, 1);
    pair_close(p);
}

// It changes memory that others read, and leaves behind those before it.
static void an_atomic_does_not_join(void **state)
{
    struct pair *p = open_with(&deep);
    post_reads(p, 2);
    pair_post_op(p, &p->a, 2, WQE_ATOMIC_FETCH_AND_ADD, WQE_SIGNALED, 8 * LEN, 8, 8192);
    pair_post_op(p, &p->a, 3, WQE_RDMA_READ, WQE_SIGNALED, 2 * LEN, LEN, REMOTE);
    pair_run(p);
    assert_int_equal(asked.run_count, 2);
    assert_int_equal(qp_counters(p->a.qp)->out[RDMAP_ATOMIC_REQUEST].messages, 0);
    finish(p, true);
    pair_run(p);
    for (uint64_t wr_id = 0; wr_id < 3; wr_id++) {
        pair_expect(p->a.send_cq, wr_id, WC_SUCCESS);
    }
    pair_close(p);
}

static void what_is_at_fault_behind_them_does_not_fail_them(void **state)
{
    struct pair *p = open_with(&deep);
    post_reads(p, 2);
    struct send_wqe *wqe = pair_send_slot(&p->a, 2, WQE_RDMA_READ, WQE_SIGNALED);
    pair_set_sge(&p->a, wqe, 0, LEN);
    pair_set_remote(p, &p->a, wqe, REMOTE);
    wqe->sge[0].lkey += 0x100;
    pair_post(p, &p->a);
    pair_output(p, &p->a);
    assert_int_equal(asked.run_count, 2);
    copy();
    finish(p, true);
    expect_reads(p, 2);
    pair_run(p);
    pair_expect(p->a.send_cq, 2, WC_LOC_PROT_ERR);
    assert_int_not_equal(qp_stream_state(p->a.qp), QP_STREAM_OPEN);
    pair_close(p);
}

// The peer has not been asked.
static void an_answer_to_what_is_being_copied_is_refused(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct pair *p = open_pulling();
        asked.answer = i == 0 ? PAST_BEGUN : PAST_LATER;
        post_read(p, 1);
        pair_output(p, &p->a);
        uint8_t octets[8] = {0};
        struct craft c = craft_tagged(RDMAP_READ_RESPONSE, 0, 0, true, octets, sizeof octets);
        pair_inject(p, &p->a, c.octets, c.len);
        assert_int_equal(qp_counters(p->a.qp)->refusals[RDMAP_REFUSED_RESPONSE_UNASKED], 1);
        if (i == 0) {
            finish(p, true);
        }
        pair_output(p, &p->a);
        pair_hand(p, &p->a);
        pair_expect(p->a.send_cq, 1, WC_WR_FLUSH_ERR);
        pair_close(p);
    }
}

/* ---- a stream that ends ---------------------------------------------------------------------- */

static void memory_is_nobodys_before_the_copy_ends(void **state)
{
    struct pair *p = open_pulling();
    post_read(p, 1);
    post_read(p, 2);
    pair_output(p, &p->a);
    pair_drop_batch(&p->a);
    qp_on_llp_closed(p->a.qp, QP_CLOSE_RESET, p->now);
    pair_expect_none(p->a.send_cq);
    finish(p, true);
    pair_expect(p->a.send_cq, 1, WC_WR_FLUSH_ERR);
    pair_expect(p->a.send_cq, 2, WC_WR_FLUSH_ERR);
    pair_close(p);
}

static void a_terminate_passes_and_the_read_ends_behind_the_copy(void **state)
{
    struct pair *p = open_pulling();
    const uint8_t nonsense[4] = {0};
    post_read(p, 1);
    pair_output(p, &p->a);
    pair_inject(p, &p->a, nonsense, sizeof nonsense);
    pair_output(p, &p->a);
    pair_hand(p, &p->a);
    assert_int_equal(qp_stream_state(p->a.qp), QP_STREAM_ERROR);
    pair_expect_none(p->a.send_cq);
    finish(p, true);
    pair_expect(p->a.send_cq, 1, WC_WR_FLUSH_ERR);
    pair_close(p);
}

static void a_peer_that_is_too_slow_fails_the_read_behind_the_copy(void **state)
{
    struct pair *p =
        open_with(&(struct pair_options){.weft = true, .config.wq = {.read_timeout_ns = NS_PER_S}});
    post_read(p, 1);
    pair_output(p, &p->a);
    p->now = qp_next_deadline(p->a.qp);
    qp_on_deadline(p->a.qp, p->now);
    pair_output(p, &p->a);
    while (pair_hand(p, &p->a)) {
    }
    pair_expect_none(p->a.send_cq);
    finish(p, true);
    pair_expect(p->a.send_cq, 1, WC_RETRY_EXC_ERR);
    pair_close(p);
}

static void reads_wait_behind_sends_that_wait_for_receives(void **state)
{
    struct pair *p = open_pulling();
    const unsigned both = KEY_MAY_READ | KEY_MAY_WRITE;
    assert_int_equal(qp_rights_past_stream(p->b.qp), both);
    pair_post_op(p, &p->a, 1, WQE_SEND, WQE_SIGNALED, 0, 64, 0);
    pair_run(p);
    assert_int_equal(qp_rights_past_stream(p->b.qp), KEY_MAY_WRITE);
    pair_post_receive(p, &p->b, 7, 0, 64);
    pair_run(p);
    assert_int_equal(qp_rights_past_stream(p->b.qp), both);
    qp_set_rights(p->b.qp, MEM_ACCESS_REMOTE_READ);
    assert_int_equal(qp_rights_past_stream(p->b.qp), KEY_MAY_READ);
    qp_serve_none(p->b.qp);
    assert_int_equal(qp_rights_past_stream(p->b.qp), 0);
    qp_set_rights(p->b.qp, MEM_ACCESS_REMOTE_WRITE);
    assert_int_equal(qp_rights_past_stream(p->b.qp), KEY_MAY_WRITE);
    pair_close(p);
}

/* ---- by which way ---------------------------------------------------------------------------- */

enum { LONG_LEN = 1 << 16, TRIAL_COUNT = 1000, OUT_COUNT = 128 };

static struct pair *open_reading(void)
{
    struct pair *p =
        open_with(&(struct pair_options){.weft = true, .stream = {.ird = 1, .ord = 1}});
    asked.run_max = 1;
    return p;
}

static void post_long_read(struct pair *p)
{
    pair_post_op(p, &p->a, 0, WQE_RDMA_READ, WQE_SIGNALED, 0, LONG_LEN, 0);
}

static void answer_by_the_stream(struct pair *p)
{
    while (pair_hand(p, &p->a) || pair_deliver(p, &p->a)) {
    }
    pair_output(p, &p->b);
    while (pair_hand(p, &p->b) || pair_deliver(p, &p->b)) {
    }
}

// So many Reads, which take so long by either way; before one is complete the next one is posted.
static void read_on(struct pair *p, unsigned count, duration_ns past_ns, duration_ns stream_ns)
{
    for (unsigned i = 0; i < count; i++) {
        post_long_read(p);
        pair_output(p, &p->a);
        p->now += asked.run_count > 0 ? past_ns : stream_ns;
        if (asked.run_count > 0) {
            finish(p, true);
        } else {
            answer_by_the_stream(p);
        }
        assert_int_equal(pair_poll_count(p->a.send_cq), 1);
    }
}

static void reads_that_follow_each_other_go_by_the_faster_way(void **state)
{
    static const struct {
        duration_ns past_ns, stream_ns;
        unsigned past_count, stream_count; // of a hundred
    } cases[] = {{10000, 20000, 100, 0}, {20000, 10000, 0, 100}, {10000, 8500, 100, 0}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pair *p = open_reading();
        post_long_read(p);
        read_on(p, TRIAL_COUNT, cases[i].past_ns, cases[i].stream_ns);
        const uint64_t pulls = asked.count, puts = requests(p);
        assert_true(puts > 0);
        read_on(p, 100, cases[i].past_ns, cases[i].stream_ns);
        assert_int_equal(asked.count - pulls, cases[i].past_count);
        assert_int_equal(requests(p) - puts, cases[i].stream_count);
        pair_close(p);
    }
}

static void answer_one_by_the_stream(struct pair *p)
{
    while (pair_hand(p, &p->a) || pair_deliver(p, &p->a)) {
    }
    while (pair_poll_count(p->a.send_cq) == 0) {
        pair_output(p, &p->b);
        pair_hand(p, &p->b);
        assert_true(pair_deliver(p, &p->b));
    }
}

// As read_on, with many out: 8 MiB go the old way when the way turns.
static void read_on_with_many_out(struct pair *p, unsigned count, duration_ns past_ns,
                                  duration_ns stream_ns)
{
    for (unsigned i = 0; i < count; i++) {
        post_long_read(p);
        pair_output(p, &p->a);
        p->now += asked.run_count > 0 ? past_ns : stream_ns;
        if (asked.run_count > 0) {
            finish(p, true);
            assert_int_equal(pair_poll_count(p->a.send_cq), 1);
        } else {
            answer_one_by_the_stream(p);
        }
    }
}

static void what_is_out_when_the_way_turns_is_measured_for_neither(void **state)
{
    struct pair *p = open_with(&(struct pair_options){
        .weft = true,
        .stream = {.ird = OUT_COUNT, .ord = OUT_COUNT},
        .config = {.ird_max = OUT_COUNT, .wq = {.caps = {.max_send_wr = OUT_COUNT}}},
    });
    asked.run_max = 1;
    p->b.room = 1;
    for (unsigned i = 1; i < OUT_COUNT; i++) {
        post_long_read(p);
    }
    read_on_with_many_out(p, TRIAL_COUNT + 8 * OUT_COUNT, 20000, 10000);
    assert_int_equal(p->a.qp->pull.ways.settled_way, 1);
    pair_close(p);
}

static void expect_pulled(struct pair *p)
{
    const uint64_t pulls = asked.count;
    post_long_read(p);
    pair_output(p, &p->a);
    assert_int_equal(asked.count - pulls, 1);
    finish(p, true);
    pair_expect(p->a.send_cq, 0, WC_SUCCESS);
}

static struct pair *open_reading_by_the_stream(void)
{
    struct pair *p = open_reading();
    post_long_read(p);
    read_on(p, TRIAL_COUNT, 20000, 10000);
    pair_output(p, &p->a);
    answer_by_the_stream(p);
    pair_expect(p->a.send_cq, 0, WC_SUCCESS);
    assert_int_equal(p->a.qp->pull.ways.way, 1);
    return p;
}

static void reads_behind_a_pause_are_pulled_whatever_is_faster(void **state)
{
    struct pair *p = open_reading_by_the_stream();
    p->now += NS_PER_MS;
    expect_pulled(p);
    expect_pulled(p);
    pair_close(p);
}

static void reads_behind_a_short_one_are_pulled_whatever_is_faster(void **state)
{
    struct pair *p = open_reading_by_the_stream();
    post_read(p, 0);
    pair_output(p, &p->a);
    answer_by_the_stream(p);
    pair_expect(p->a.send_cq, 0, WC_SUCCESS);
    expect_pulled(p);
    pair_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_that_is_pulled_puts_nothing),
        cmocka_unit_test(octets_go_to_the_places_of_the_list),
        cmocka_unit_test(what_is_refused_or_not_good_goes_by_the_stream),
        cmocka_unit_test(a_request_behind_one_that_was_pulled_has_its_number),
        cmocka_unit_test(nothing_is_put_behind_a_pull_before_it_is_done),
        cmocka_unit_test(the_peer_is_answered_meanwhile),
        cmocka_unit_test(a_fence_waits_for_what_is_pulled),
        cmocka_unit_test(who_can_copy_later_is_asked_again),
        cmocka_unit_test(a_divided_read_is_pulled_in_parts),
        cmocka_unit_test(what_goes_by_the_stream_at_last_is_asked_for_by_the_allotment_of_then),
        cmocka_unit_test(reads_on_the_stream_do_not_keep_all_others_there),
        cmocka_unit_test(a_read_behind_what_was_sent_does_not_draw_all_others_there),
        cmocka_unit_test(reads_that_cannot_be_pulled_do_not_wait_for_each_other),
        cmocka_unit_test(reads_that_follow_are_copied_together),
        cmocka_unit_test(what_does_not_join_is_the_first_of_the_next_run),
        cmocka_unit_test(those_behind_one_that_is_not_good_go_by_the_stream),
        cmocka_unit_test(an_atomic_does_not_join),
        cmocka_unit_test(what_is_at_fault_behind_them_does_not_fail_them),
        cmocka_unit_test(an_answer_to_what_is_being_copied_is_refused),
        cmocka_unit_test(memory_is_nobodys_before_the_copy_ends),
        cmocka_unit_test(a_terminate_passes_and_the_read_ends_behind_the_copy),
        cmocka_unit_test(a_peer_that_is_too_slow_fails_the_read_behind_the_copy),
        cmocka_unit_test(reads_wait_behind_sends_that_wait_for_receives),
        cmocka_unit_test(reads_that_follow_each_other_go_by_the_faster_way),
        cmocka_unit_test(what_is_out_when_the_way_turns_is_measured_for_neither),
        cmocka_unit_test(reads_behind_a_pause_are_pulled_whatever_is_faster),
        cmocka_unit_test(reads_behind_a_short_one_are_pulled_whatever_is_faster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
