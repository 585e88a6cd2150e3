// How a shard serves its streams for who polls, and what completion queues tell of who does. The
// link and time are the test's.
#include <errno.h>
#include <string.h>

#include "rnic/carrier.h"
#include "rnic/ep/ep.h"
#include "rnic/shard.h"
#include "tests/rnic/hand_world.h"
#include "wq/status.h"

static struct shard *shard(void)
{
    return &hand.device.rnic->shard;
}

// How often so many polls in vain have asked the link.
static unsigned asked_by(unsigned polls)
{
    const unsigned before = hand.link->poll_count;
    for (unsigned i = 0; i < polls; i++) {
        hand_expect_no_completion();
    }
    return hand.link->poll_count - before;
}

static bool is_hot(const struct end *e)
{
    unsigned count = 0;
    for (unsigned i = 0; i < SHARD_HOT_COUNT; i++) {
        count += shard()->hot[i] == e->ep;
    }
    assert_true(count < 2);
    return count > 0;
}

/* ---- who was busy lately --------------------------------------------------------------------- */

static void who_was_busy_is_read_without_asking_the_link(void **state)
{
    struct hand_stream *s = hand_establish_plain();
    end_post_recv(&hand.end, 1, 0, 1000);
    end_post_recv(&hand.end, 2, 1000, 1000);
    hand_send(s, 1, 0x11, 70);
    hand_expect_received(1, 0, 0x11, 70);
    assert_true(is_hot(&hand.end));
    assert_int_equal(asked_by(64), 2); // others may have come
    hand_send(s, 2, 0x22, 70);
    const unsigned asked = hand.link->poll_count;
    hand_expect_received(2, 1000, 0x22, 70);
    assert_true(hand.link->poll_count <= asked + 1);
    assert_true(is_hot(&hand.end));
}

static void who_is_silent_for_long_is_asked_for_again(void **state)
{
    struct hand_stream *s = hand_establish_plain();
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_send(s, 1, 0x11, 70);
    hand_expect_received(1, 0, 0x11, 70);
    assert_true(is_hot(&hand.end));
    hand.now += NS_PER_S;
    hand_expect_no_completion();
    assert_false(is_hot(&hand.end));
    assert_int_equal(asked_by(10), 10);
}

// Room for it is told by the link alone.
static void who_waits_for_room_is_asked_for(void **state)
{
    struct hand_stream *s = hand_establish_to_speak();
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_send(s, 1, 0x11, 70);
    hand_expect_received(1, 0, 0x11, 70);
    s->room = 10;
    end_post_send(&hand.end, WQE_SEND, 0, 500, &hand.device, 0);
    hand_expect_no_completion();
    assert_true(ep_is_blocked(hand.end.ep));
    assert_true(rnic_has_output(hand.device.rnic));
    assert_int_equal(asked_by(10), 10);
    s->room = SIZE_MAX;
    assert_int_equal(hand_completion().status, WC_SUCCESS);
    assert_false(rnic_has_output(hand.device.rnic));
}

enum { CROWD = SHARD_HOT_COUNT + 1 };

// Of more that are busy than there is room for, the link says which.
static void in_a_crowd_the_link_is_asked(void **state)
{
    struct end ends[CROWD];
    struct hand_stream *streams[CROWD];
    for (unsigned i = 0; i < CROWD; i++) {
        const struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
        streams[i] = hand_arrive();
        hand_say(streams[i], &request);
        hand_run();
        end_init(&ends[i], &hand.device);
        end_take_request(&ends[i], &hand.listener);
        end_accept(&ends[i]);
        hand_event(&ends[i], RNIC_EP_ESTABLISHED);
        for (unsigned k = 0; k < 3; k++) {
            end_post_recv(&ends[i], i, 0, 1000);
        }
    }
    memset(shard()->hot, 0, sizeof shard()->hot); // as if nobody had come for long
    shard()->is_crowded = false;
    for (unsigned i = 0; i < SHARD_HOT_COUNT; i++) {
        hand_send(streams[i], 1, 0x11, 70);
    }
    hand_run();
    for (unsigned i = 0; i < SHARD_HOT_COUNT; i++) {
        assert_true(is_hot(&ends[i]));
        hand_completion();
    }
    assert_false(shard()->is_crowded);
    assert_int_equal(asked_by(64), 2);
    hand_send(streams[CROWD - 1], 1, 0x11, 70);
    hand_run();
    hand_completion();
    assert_true(shard()->is_crowded);
    assert_true(is_hot(&ends[CROWD - 1])); // in the oldest's place
    assert_false(is_hot(&ends[0]));
    assert_int_equal(asked_by(10), 10);
    assert_true(shard()->is_crowded); // a look that finds nothing tells nothing
    hand_send(streams[CROWD - 1], 2, 0x11, 70);
    hand_run();
    hand_completion();
    assert_false(shard()->is_crowded);
    for (unsigned i = 0; i < CROWD; i++) {
        end_fini(&ends[i]);
    }
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void at_the_end_of_a_process_streams_of_its_own_are_shut(void **state)
{
    for (unsigned is_own = 0; is_own < 2; is_own++) {
        const struct rnic_config config = hand_config();
        hand_open_anew(&config, is_own ? LINK_IS_OF_PROCESS : 0);
        const struct hand_stream *s = hand_establish_plain();
        rnic_enter(hand.device.rnic);
        assert_int_equal(stream_carrier.end(shard()), is_own);
        rnic_leave(hand.device.rnic, 0);
        assert_int_equal(s->is_shut, is_own);
        assert_true(s->is_open);
    }
}

static void a_queue_pair_that_is_reset_leaves_its_stream(void **state)
{
    const struct hand_stream *s = hand_establish_plain();
    assert_int_equal(rnic_qp_modify(hand.end.qp, QP_RESET), 0);
    hand_run();
    assert_false(s->is_open);
    assert_true(s->is_aborted);
}

// What has not left would look as if it had.
static void a_stream_with_something_unsent_is_reset_with_its_queue_pair(void **state)
{
    for (unsigned is_unsent = 0; is_unsent < 2; is_unsent++) {
        const struct rnic_config config = hand_config();
        hand_open_anew(&config, 0);
        struct hand_stream *s = hand_establish_to_speak();
        s->room = 10;
        if (is_unsent) {
            end_post_send(&hand.end, WQE_SEND, 0, 500, &hand.device, 0);
            hand_run();
        }
        rnic_qp_destroy(hand.end.qp);
        hand.end.qp = NULL;
        hand_run();
        assert_false(s->is_open);
        assert_int_equal(s->is_aborted, is_unsent);
    }
}

/* ---- completion queues ----------------------------------------------------------------------- */

static const struct cq_port no_port;

static void queues_have_one_entry_to_as_many_as_the_device_says(void **state)
{
    static const struct {
        uint32_t count;
        int error;
    } rows[] = {{0, -EINVAL}, {1, 0}, {2, 0}, {UINT32_MAX, -EINVAL}};
    struct rnic *rnic = hand.device.rnic;
    const uint32_t count = rnic->cq_count;
    struct rnic_cq *cq;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(rnic_cq_create(rnic, rows[i].count, &no_port, &cq), rows[i].error);
        if (rows[i].error == 0) {
            assert_int_equal(rnic->cq_count, count + 1);
            assert_true(rnic_cq_capacity(cq) >= rows[i].count);
            for (unsigned k = 0; k < sizeof rows / sizeof rows[0]; k++) {
                assert_int_equal(rnic_cq_resize(cq, rows[k].count), rows[k].error);
            }
            assert_int_equal(rnic_cq_resize(cq, rnic_limits.max_cqe + 1), -EINVAL);
            assert_int_equal(rnic_cq_destroy(cq), 0);
        }
        assert_int_equal(rnic->cq_count, count);
    }
    assert_int_equal(rnic_cq_create(rnic, rnic_limits.max_cqe + 1, &no_port, &cq), -EINVAL);
    assert_int_equal(rnic_cq_create(rnic, rnic_limits.max_cqe, &no_port, &cq), 0);
    assert_int_equal(rnic_cq_destroy(cq), 0);
}

static void a_device_has_as_many_queues_as_it_says(void **state)
{
    struct rnic *rnic = hand.device.rnic;
    const uint32_t count = rnic->cq_count;
    struct rnic_cq *last, *more;
    rnic->cq_count = rnic_limits.max_cq - 1;
    assert_int_equal(rnic_cq_create(rnic, 1, &no_port, &last), 0);
    assert_int_equal(rnic_cq_create(rnic, 1, &no_port, &more), -ENOMEM);
    assert_int_equal(rnic->cq_count, rnic_limits.max_cq);
    assert_int_equal(rnic_cq_destroy(last), 0);
    rnic->cq_count = count;
}

static void a_queue_does_not_become_smaller_than_what_it_holds(void **state)
{
    struct hand_stream *s = hand_establish_plain();
    for (unsigned i = 1; i <= 3; i++) {
        end_post_recv(&hand.end, i, i * 100, 100);
        hand_send(s, i, (uint8_t)i, 10);
    }
    hand_run();
    assert_int_equal(rnic_cq_resize(hand.device.cq, 2), -EINVAL);
    assert_int_equal(rnic_cq_resize(hand.device.cq, 3), 0);
    for (unsigned i = 1; i <= 3; i++) {
        hand_expect_received(i, i * 100, (uint8_t)i, 10);
    }
}

static void a_queue_in_use_is_not_destroyed(void **state)
{
    assert_int_equal(rnic_cq_destroy(hand.device.cq), -EBUSY);
}

// Nothing has to come to a period that is none.
static void queues_that_wait_for_company_are_listed(void **state)
{
    static const struct {
        uint16_t count, period_us;
        bool is_listed;
    } rows[] = {{2, 1, true},  {1, 1, false}, {0, 5, false}, {2, 0, false},
                {3, 50, true}, {3, 50, true}, {0, 0, false}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rnic_cq_moderate(hand.device.cq, rows[i].count, rows[i].period_us);
        assert_int_equal(!list_is_empty(&shard()->moderated), rows[i].is_listed);
        assert_int_equal(!list_is_empty(&hand.device.cq->moderated_link), rows[i].is_listed);
        if (rows[i].is_listed) {
            assert_ptr_equal(shard()->moderated.next->next, &shard()->moderated); // once
        }
    }
}

/* ---- who spins ------------------------------------------------------------------------------- */

enum { SPINNER_POLLS = 64 };
#define WINDOW_NS (100 * NS_PER_US)
#define DRIVEN_NS (500 * NS_PER_US)

static void poll_for(unsigned polls)
{
    for (unsigned i = 0; i < polls; i++) {
        hand_expect_no_completion();
    }
}

static void who_polls_often_in_vain_spins(void **state)
{
    poll_for(SPINNER_POLLS - 1);
    assert_false(shard()->is_polled);
    poll_for(1);
    assert_true(shard()->is_polled);
    assert_int_equal(shard()->polled_at_ns, hand.now);
    hand.now += 7;
    poll_for(1); // and each time from now on
    assert_int_equal(shard()->polled_at_ns, hand.now);
    rnic_cq_arm(hand.device.cq, false); // who arms is about to sleep
    assert_false(shard()->is_polled);
}

static void who_polls_now_and_then_does_not_spin(void **state)
{
    hand.now += NS_PER_S;
    poll_for(SPINNER_POLLS - 1);
    hand.now += WINDOW_NS + 1;
    poll_for(SPINNER_POLLS - 1);
    assert_false(shard()->is_polled);
    hand.now += WINDOW_NS; // within it still
    poll_for(1);
    assert_true(shard()->is_polled);
}

// Who finds something at each look goes on to drive, for as long as he was seen to lately.
static void who_finds_something_goes_on_to_spin(void **state)
{
    static const struct {
        duration_ns since_ns;
        bool is_noted;
    } rows[] = {{1, true}, {DRIVEN_NS - 1, true}, {DRIVEN_NS, false}};
    for (unsigned is_peek = 0; is_peek < 2; is_peek++) {
        for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const struct rnic_config config = hand_config();
            hand_open_anew(&config, 0);
            struct hand_stream *s = hand_establish_plain();
            end_post_recv(&hand.end, 1, 0, 1000);
            poll_for(SPINNER_POLLS);
            const instant_ns polled_ns = shard()->polled_at_ns;
            hand_send(s, 1, 0x11, 70);
            hand.now += rows[i].since_ns;
            hand_run();
            if (is_peek) {
                rnic_cq_poll_begin(hand.device.cq);
                assert_int_equal(rnic_cq_peek(hand.device.cq)->wr_id, 1);
                rnic_cq_pop(hand.device.cq);
                rnic_cq_poll_end(hand.device.cq);
                hand_expect_no_completion();
            } else {
                hand_expect_received(1, 0, 0x11, 70);
                assert_int_equal(shard()->polled_at_ns, rows[i].is_noted ? hand.now : polled_ns);
            }
        }
    }
}

static void a_peek_drives_as_a_poll_does(void **state)
{
    struct hand_stream *s = hand_establish_plain();
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_send(s, 1, 0x11, 70);
    rnic_cq_poll_begin(hand.device.cq);
    const struct cqe *cqe = rnic_cq_peek(hand.device.cq);
    assert_non_null(cqe);
    assert_int_equal(cqe->wr_id, 1);
    assert_ptr_equal(rnic_cq_peek(hand.device.cq), cqe); // until it is taken
    rnic_cq_pop(hand.device.cq);
    for (unsigned i = 0; i < SPINNER_POLLS; i++) {
        assert_null(rnic_cq_peek(hand.device.cq));
    }
    rnic_cq_poll_end(hand.device.cq);
    assert_true(shard()->is_polled);
    assert_false(rnic_cq_has_overrun(hand.device.cq));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, hand_set_up, hand_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(who_was_busy_is_read_without_asking_the_link),
        CASE(who_is_silent_for_long_is_asked_for_again),
        CASE(who_waits_for_room_is_asked_for),
        CASE(in_a_crowd_the_link_is_asked),
        CASE(at_the_end_of_a_process_streams_of_its_own_are_shut),
        CASE(a_queue_pair_that_is_reset_leaves_its_stream),
        CASE(a_stream_with_something_unsent_is_reset_with_its_queue_pair),
        CASE(queues_have_one_entry_to_as_many_as_the_device_says),
        CASE(a_device_has_as_many_queues_as_it_says),
        CASE(a_queue_does_not_become_smaller_than_what_it_holds),
        CASE(a_queue_in_use_is_not_destroyed),
        CASE(queues_that_wait_for_company_are_listed),
        CASE(who_polls_often_in_vain_spins),
        CASE(who_polls_now_and_then_does_not_spin),
        CASE(who_finds_something_goes_on_to_spin),
        CASE(a_peek_drives_as_a_poll_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
