// End-to-end credits: receives as a responder tells of them, and what a requester sends by that.
#include "tests/roce/rc_end.h"
#include "wire/aeth.h"
#include "wq/status.h"

enum { PMTU = 256, REMOTE_KEY = 0x1234, ZERO = 0x00, TWO = 0x02, SIX = 0x05 };
static const uint64_t remote = 0x10000;

/* ---- what is told ---------------------------------------------------------------------------- */

static void post_receives(struct rc_end *e, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        rc_end_post_receive(e, i, 0, 4 * PMTU);
    }
}

// It asks; what the acknowledgement says.
static uint8_t told_of(struct rc_end *e, uint8_t operation, uint32_t i)
{
    const uint8_t payload[PMTU] = {0};
    struct roce_packet p = rc_end_make(operation, RC_END_PSN + i);
    p.bth.ack_req = true;
    rc_end_take(e, &p, payload, PMTU);
    return rc_end_left(e, ROCE_ACKNOWLEDGE, RC_END_PSN + i)->p.aeth.syndrome;
}

static void an_acknowledgement_tells_how_many_receives_are_posted(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){0});
    post_receives(e, 8);
    assert_int_equal(told_of(e, ROCE_SEND_ONLY, 0), SIX); // of seven
    assert_int_equal(told_of(e, ROCE_SEND_ONLY, 1), SIX);
    for (uint32_t left = 5; left > 0; left--) {
        told_of(e, ROCE_SEND_ONLY, 7 - left);
    }
    assert_int_equal(told_of(e, ROCE_SEND_ONLY, 7), ZERO);
    post_receives(e, 2);
    assert_int_equal(told_of(e, ROCE_SEND_ONLY, 7), TWO); // the net had kept it
    rc_end_close(e);
}

// Its last packet has not come, so the MSN does not count it.
static void the_receive_of_a_message_that_is_arriving_counts(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){0});
    post_receives(e, 2);
    assert_int_equal(told_of(e, ROCE_SEND_FIRST, 0), TWO);
    assert_int_equal(told_of(e, ROCE_SEND_LAST, 1), 0x01);
    rc_end_close(e);
}

static void answers_to_reads_tell_too(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){0});
    post_receives(e, 2);
    struct roce_packet p = rc_end_make(ROCE_READ_REQUEST, RC_END_PSN);
    p.reth = (struct reth){.va = rc_end_addr(e, 0), .rkey = e->key, .dma_len = 8};
    rc_end_take(e, &p, "", 0);
    assert_int_equal(rc_end_left(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN)->p.aeth.syndrome, TWO);
    rc_end_close(e);
}

static void of_receives_that_others_share_nothing_is_told(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.has_srq = true});
    post_receives(e, 8);
    assert_int_equal(told_of(e, ROCE_SEND_ONLY, 0), AETH_SYNDROME_ACK);
    rc_end_close(e);
}

/* ---- what is sent ---------------------------------------------------------------------------- */

// So many posted at once, so that one follows the other.
static void post_all(struct rc_end *e, enum wqe_opcode opcode, unsigned count, uint32_t len)
{
    for (unsigned i = 0; i < count; i++) {
        struct send_wqe *wqe = rc_end_slot(e, i, opcode);
        wqe->sge_count = 1;
        wqe->sge[0] = (struct sge){rc_end_addr(e, 0), len, e->key};
        wqe->length = len;
        wqe->remote_addr = remote;
        wqe->rkey = REMOTE_KEY;
        wq_send_commit(rc_wq(e->rc), 1);
    }
    e->t->ops->on_send_posted(e->t, e->now);
    rc_end_output(e);
}

static unsigned take_all(struct rc_end *e)
{
    const unsigned count = e->count;
    e->first = e->count = 0;
    return count;
}

static bool is_last_asking(const struct rc_end *e)
{
    return e->packets[(e->first + e->count - 1) % e->packet_capacity].p.bth.ack_req;
}

// The first Send is acknowledged, and the peer has said that it has so many receives.
static struct rc_end *open_told(uint8_t syndrome)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .rnr_retry_count = 7});
    post_all(e, WQE_SEND, 1, 8);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_take_ack(e, RC_END_PSN, syndrome);
    rc_end_left_none(e);
    return e;
}

static void what_no_peer_has_told_of_limits_nothing(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    post_all(e, WQE_SEND, 5, 8);
    assert_int_equal(take_all(e), 5);
    rc_end_close(e);
}

static void who_counts_nothing_limits_nothing(void **state)
{
    struct rc_end *e = open_told(AETH_SYNDROME_ACK);
    post_all(e, WQE_SEND, 5, 8);
    assert_int_equal(take_all(e), 5);
    rc_end_close(e);
}

// The last of them asks, though others follow: they wait for what it brings.
static void as_many_sends_leave_as_the_peer_has_receives(void **state)
{
    struct rc_end *e = open_told(TWO);
    post_all(e, WQE_SEND, 5, 8);
    assert_true(is_last_asking(e));
    assert_int_equal(take_all(e), 2);
    rc_end_take_ack(e, RC_END_PSN + 2, TWO);
    assert_true(is_last_asking(e));
    assert_int_equal(take_all(e), 2);
    rc_end_take_ack(e, RC_END_PSN + 4, AETH_SYNDROME_ACK);
    assert_int_equal(take_all(e), 1);
    rc_end_close(e);
}

static void without_a_receive_one_send_leaves_and_asks(void **state)
{
    struct rc_end *e = open_told(ZERO);
    for (unsigned i = 0; i < 2; i++) {
        post_all(e, WQE_SEND, 2, 8);
        assert_true(is_last_asking(e));
        assert_int_equal(take_all(e), 1);
        rc_end_take_ack(e, RC_END_PSN + 2 * i + 1, ZERO);
        assert_int_equal(take_all(e), 1);
        rc_end_take_ack(e, RC_END_PSN + 2 * i + 2, ZERO);
        rc_end_left_none(e);
    }
    rc_end_close(e);
}

static void one_that_was_refused_leaves_again_when_the_peer_said(void **state)
{
    struct rc_end *e = open_told(ZERO);
    post_all(e, WQE_SEND, 2, 8);
    assert_int_equal(take_all(e), 1);
    rc_end_take_ack(e, RC_END_PSN + 1, aeth_syndrome_rnr(1));
    rc_end_left_none(e);
    rc_end_wait(e, e->now + aeth_rnr_timer_ns(1));
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN + 1);
    rc_end_left_none(e);
    rc_end_close(e);
}

// Until the peer has said that it has the receive, which it took for the first packet.
static void without_a_receive_one_packet_of_a_message_leaves(void **state)
{
    struct rc_end *e = open_told(ZERO);
    post_all(e, WQE_SEND, 1, 4 * PMTU);
    assert_true(is_last_asking(e));
    assert_int_equal(take_all(e), 1);
    rc_end_take_ack(e, RC_END_PSN + 1, ZERO); // one that counts what is arriving no more
    assert_true(is_last_asking(e));
    assert_int_equal(take_all(e), 1);
    rc_end_take_ack(e, RC_END_PSN + 2, 0x01);
    assert_int_equal(take_all(e), 2);
    rc_end_close(e);
}

static void writes_want_no_receive_but_behind_a_send_that_does(void **state)
{
    struct rc_end *e = open_told(ZERO);
    post_all(e, WQE_RDMA_WRITE, 3, 8);
    assert_int_equal(take_all(e), 3);
    rc_end_take_ack(e, RC_END_PSN + 3, ZERO);
    post_all(e, WQE_RDMA_WRITE_WITH_IMM, 1, 8);
    post_all(e, WQE_RDMA_WRITE, 1, 8);
    rc_end_left(e, ROCE_WRITE_ONLY_IMM, RC_END_PSN + 4);
    rc_end_left_none(e);
    rc_end_take_ack(e, RC_END_PSN + 4, ZERO);
    rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 5);
    rc_end_close(e);
}

// As many acknowledgements as without credits.
static void of_writes_that_follow_each_other_only_so_many_ask(void **state)
{
    static const bool asks[] = {false, true, false, true};
    struct rc_end *e = open_told(ZERO);
    post_all(e, WQE_RDMA_WRITE, 4, 8);
    assert_int_equal(e->count, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(rc_end_left(e, ROCE_WRITE_ONLY, RC_END_PSN + 1 + i)->p.bth.ack_req,
                         asks[i]);
    }
    rc_end_close(e);
}

// The same acknowledgement again, since receives were posted.
static void who_posts_receives_may_say_so_unasked(void **state)
{
    struct rc_end *e = open_told(ZERO);
    rc_end_take_ack(e, RC_END_PSN, TWO);
    post_all(e, WQE_SEND, 5, 8);
    assert_int_equal(take_all(e), 2);
    rc_end_close(e);
}

// An older word comes late, of fewer.
static void what_was_told_once_holds(void **state)
{
    struct rc_end *e = open_told(SIX);
    rc_end_take_ack(e, RC_END_PSN, ZERO);
    post_all(e, WQE_SEND, 8, 8);
    assert_int_equal(take_all(e), 6);
    rc_end_close(e);
}

static void what_is_lost_leaves_again_without_a_receive(void **state)
{
    struct rc_end *e = open_told(SIX);
    rc_end_meet(e);
    post_all(e, WQE_SEND, 8, 8);
    assert_int_equal(take_all(e), 6);
    rc_end_take_sack(e, RC_END_PSN + 1, 0x0f); // those behind it have come
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN + 1);
    rc_end_left_none(e);
    rc_end_close(e);
}

/* ---- both ------------------------------------------------------------------------------------ */

// Whose receives are never enough: once it has said so it refuses one at a time, and what follows
// that one has not left.
static void a_peer_with_few_receives_is_sent_nothing_in_vain(void **state)
{
    enum { COUNT = 12, AT_A_TIME = 3 };
    struct rc_end_options o = {.pmtu = PMTU, .rnr_retry_count = 7, .min_rnr_timer = 1};
    struct rc_end *a = rc_end_open(&o), *b = rc_end_open(&o);
    post_receives(b, AT_A_TIME);
    post_all(a, WQE_SEND, 1, 8);
    rc_ends_run(a, b);
    post_all(a, WQE_SEND, COUNT, 8);
    for (unsigned i = 0; i < COUNT; i += AT_A_TIME) {
        rc_ends_run(a, b);
        post_receives(b, AT_A_TIME);
        a->now = b->now = a->now + aeth_rnr_timer_ns(1);
    }
    rc_ends_run(a, b);
    assert_int_equal(wq_send_count(rc_wq(a->rc)), 0);
    assert_int_equal(rc_end_counters(b)->refusals[RC_REFUSED_SEQUENCE], 0);
    assert_int_equal(rc_end_counters(b)->dropped_hole, 0);
    assert_int_equal(rc_end_counters(a)->requests_again, rc_end_counters(a)->not_ready_in);
    rc_end_close(a);
    rc_end_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_acknowledgement_tells_how_many_receives_are_posted),
        cmocka_unit_test(the_receive_of_a_message_that_is_arriving_counts),
        cmocka_unit_test(answers_to_reads_tell_too),
        cmocka_unit_test(of_receives_that_others_share_nothing_is_told),
        cmocka_unit_test(what_no_peer_has_told_of_limits_nothing),
        cmocka_unit_test(who_counts_nothing_limits_nothing),
        cmocka_unit_test(as_many_sends_leave_as_the_peer_has_receives),
        cmocka_unit_test(without_a_receive_one_send_leaves_and_asks),
        cmocka_unit_test(one_that_was_refused_leaves_again_when_the_peer_said),
        cmocka_unit_test(without_a_receive_one_packet_of_a_message_leaves),
        cmocka_unit_test(writes_want_no_receive_but_behind_a_send_that_does),
        cmocka_unit_test(of_writes_that_follow_each_other_only_so_many_ask),
        cmocka_unit_test(who_posts_receives_may_say_so_unasked),
        cmocka_unit_test(what_was_told_once_holds),
        cmocka_unit_test(what_is_lost_leaves_again_without_a_receive),
        cmocka_unit_test(a_peer_with_few_receives_is_sent_nothing_in_vain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
