// Octets that the link lends, and who polls: what the device looks at, and how often. The link and
// time are the test's.
#include <string.h>

#include "rnic/ep/ep.h"
#include "tests/rnic/hand_world.h"
#include "wq/status.h"

/* ---- octets that the link lends -------------------------------------------------------------- */

enum { LOOKS_MAX = 64 };

static struct hand_stream *establish_lent(void)
{
    const struct rnic_config config = hand_config();
    hand_open_anew(&config, LINK_LENDS);
    struct hand_stream *s = hand_establish_plain();
    end_post_recv(&hand.end, 1, 0, 1000);
    end_post_recv(&hand.end, 2, 1000, 1000);
    return s;
}

static void whole_fpdus_are_taken_where_they_lie(void **state)
{
    struct hand_stream *s = establish_lent();
    const size_t before = s->in_done;
    hand_send(s, 1, 0x11, 700);
    hand_send(s, 2, 0x22, 70);
    hand_run();
    hand_expect_received(1, 0, 0x11, 700);
    hand_expect_received(2, 1000, 0x22, 70);
    assert_int_equal(s->in_done, s->in_len);
    assert_true(s->in_done > before);
    assert_int_equal(hand.end.ep->in.rx.counters.carried, 0);
    s->end = 0;
    hand_run();
    hand_expect_disconnected(s, "by_peer", false);
}

static void a_part_of_an_fpdu_stays_there_for_some_looks(void **state)
{
    struct hand_stream *s = establish_lent();
    const size_t before = s->in_done;
    hand_send(s, 1, 0x11, 700);
    const size_t all = s->in_len;
    s->in_len = before + 10;
    for (unsigned i = 0; i < LOOKS_MAX; i++) {
        rnic_step(hand.device.rnic);
        assert_int_equal(s->in_done, before);
    }
    rnic_step(hand.device.rnic);
    assert_int_equal(s->in_done, before + 10);
    s->in_len = all;
    hand_run();
    hand_expect_received(1, 0, 0x11, 700);
    hand_send(s, 2, 0x22, 700);
    s->in_len = all + 10;
    for (unsigned i = 0; i < LOOKS_MAX; i++) {
        rnic_step(hand.device.rnic);
        assert_int_equal(s->in_done, all);
    }
    rnic_step(hand.device.rnic);
    assert_int_equal(s->in_done, all + 10);
    assert_int_equal(hand.end.ep->in.rx.counters.carried, 1);
    s->in_len = 2 * all - before;
    hand_run();
    hand_expect_received(2, 1000, 0x22, 700);
    assert_int_equal(hand.end.ep->in.rx.counters.carried, 2);
    assert_null(hand.end.ep->in.carry);
}

static void a_part_of_an_fpdu_whose_rest_lies_elsewhere_is_taken_at_once(void **state)
{
    struct hand_stream *s = establish_lent();
    hand_send(s, 1, 0x11, 700);
    const size_t all = s->in_len;
    s->in_len -= 100;
    s->is_cut = true;
    hand_run();
    assert_int_equal(s->in_done, all - 100);
    hand_expect_no_completion();
    s->is_cut = false;
    s->in_len = all;
    hand_run();
    hand_expect_received(1, 0, 0x11, 700);
}

// Short ones may wait for others: what is posted next knows of the last.
static void short_messages_may_gather_where_the_link_lends(void **state)
{
    static const struct {
        unsigned facts;
        uint32_t len;
        bool may_gather;
    } rows[] = {{LINK_LENDS, 4096, true},
                {LINK_LENDS, 4097, false},
                {LINK_IS_OF_PROCESS, 10, false},
                {0, 4097, true}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct rnic_config config = hand_config();
        hand_open_anew(&config, rows[i].facts);
        hand.link->emss = 9000;
        hand_establish_to_speak();
        for (unsigned k = 0; k < 2; k++) {
            end_post_send(&hand.end, WQE_RDMA_WRITE, 0, k == 0 ? 9 : rows[i].len, &hand.device, 0);
            hand_run();
            hand_completion();
        }
        assert_int_equal(hand.end.qp->may_gather, rows[i].may_gather);
    }
}

static void a_crc_is_not_for_octets_that_are_lent(void **state)
{
    const struct rnic_config config = hand_config();
    struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    request.crc = true;
    hand_open_anew(&config, LINK_LENDS);
    struct hand_stream *s = hand_establish(&request);
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_send(s, 1, 0x11, 700);
    const size_t all = s->in_len;
    s->in_len -= 100;
    hand_run();
    assert_int_equal(s->in_done, all - 100); // by recv
    s->in_len = all;
    hand_run();
    hand_expect_received(1, 0, 0x11, 700);
}

/* ---- who polls ------------------------------------------------------------------------------- */

static void poll_in_vain(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        hand_expect_no_completion();
    }
}

static void who_polls_reads_what_was_busy_and_seldom_asks_the_link(void **state)
{
    struct hand_stream *s = hand_establish_plain();
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_send(s, 1, 0x11, 100);
    hand_run();
    hand_expect_received(1, 0, 0x11, 100);
    unsigned looks = s->recv_count, polls = hand.link->poll_count;
    poll_in_vain(64);
    assert_int_equal(s->recv_count - looks, 64);
    assert_int_equal(hand.link->poll_count - polls, 2);
    hand.now += NS_PER_MS; // not longer than that: still busy
    poll_in_vain(1);
    looks = s->recv_count;
    poll_in_vain(1);
    assert_int_equal(s->recv_count - looks, 1);
    hand.now += 1;
    poll_in_vain(1);
    looks = s->recv_count;
    polls = hand.link->poll_count;
    poll_in_vain(8);
    assert_int_equal(s->recv_count, looks);
    assert_int_equal(hand.link->poll_count - polls, 8);
}

static void who_polls_asks_the_link_where_octets_wait_for_room(void **state)
{
    struct hand_stream *s = hand_establish_to_speak();
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_send(s, 1, 0x11, 100);
    hand_run();
    hand_expect_received(1, 0, 0x11, 100);
    s->room = 0;
    end_post_send(&hand.end, WQE_RDMA_WRITE, 0, 100, &hand.device, 0);
    const unsigned polls = hand.link->poll_count;
    poll_in_vain(8);
    assert_int_equal(hand.link->poll_count - polls, 8);
}

static void who_polls_asks_the_link_in_a_crowd(void **state)
{
    struct hand_stream *crowd[SHARD_HOT_COUNT + 1];
    for (unsigned i = 0; i <= SHARD_HOT_COUNT; i++) {
        crowd[i] = hand_arrive();
    }
    for (unsigned some = 1; some <= SHARD_HOT_COUNT + 1; some++) {
        for (unsigned i = 0; i < some; i++) {
            hand_come(crowd[i], &"MPA ID Req"[some - 1], 1);
        }
        hand.now += 2 * NS_PER_MS; // those before are cold
        poll_in_vain(1);
        poll_in_vain(32);
        unsigned polls = hand.link->poll_count;
        poll_in_vain(32);
        assert_in_range(hand.link->poll_count - polls, 1, some <= SHARD_HOT_COUNT ? 1 : 32);
        assert_int_equal(hand.link->poll_count - polls, some <= SHARD_HOT_COUNT ? 1 : 32);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, hand_set_up, hand_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(whole_fpdus_are_taken_where_they_lie),
        CASE(a_part_of_an_fpdu_stays_there_for_some_looks),
        CASE(a_part_of_an_fpdu_whose_rest_lies_elsewhere_is_taken_at_once),
        CASE(short_messages_may_gather_where_the_link_lends),
        CASE(a_crc_is_not_for_octets_that_are_lent),
        CASE(who_polls_reads_what_was_busy_and_seldom_asks_the_link),
        CASE(who_polls_asks_the_link_where_octets_wait_for_room),
        CASE(who_polls_asks_the_link_in_a_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
