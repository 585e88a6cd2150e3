// A stream of a link that places octets when they come: what is taken, what waits, how it goes on
// and how it ends. The link and time are the test's.
#include <string.h>

#include "rnic/ep/ep.h"
#include "tests/iwarp/craft.h"
#include "tests/rnic/hand_world.h"
#include "tests/rnic/raw.h"
#include "wq/status.h"

static struct hand_stream *establish(enum placement placement, bool has_crc)
{
    struct rnic_config config = hand_config();
    struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    config.placement = placement;
    request.crc = has_crc;
    hand_open_anew(&config, LINK_HAS_PLACES);
    return hand_establish(&request);
}

static struct hand_stream *establish_plain(void)
{
    return establish(PLACEMENT_EARLY, false);
}

static void octets_go_to_the_port_once_the_stream_is_up(void **state)
{
    struct hand_stream *s = establish_plain();
    hand_run();
    assert_true(ep_place_is_possible(hand.device.rnic));
    assert_null(s->place.place); // until it is read
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_send(s, 1, 0x11, 700);
    hand_run();
    assert_non_null(s->place.place);
    assert_null(s->place.on_hole_opened); // nobody records them
    hand_expect_received(1, 0, 0x11, 700);
    assert_true(hand.end.ep->in.is_placing);
    assert_int_equal(s->in_done, s->in_len);
    assert_int_equal(hand.end.ep->in.rx.counters.fpdus, 1);
}

static void a_link_without_places_is_asked_for_none(void **state)
{
    struct hand_stream *s = hand_establish_plain();
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_send(s, 1, 0x11, 700);
    hand_run();
    assert_false(ep_place_is_possible(hand.device.rnic));
    assert_null(s->place.place);
    assert_false(hand.end.ep->in.is_placing);
    hand_expect_received(1, 0, 0x11, 700);
}

// A peer that is not weft may begin a segment with what somebody else had it send.
static void beyond_holes_a_plain_peers_fpdus_are_told_by_markers_alone(void **state)
{
    static const struct {
        enum placement wish, has;
    } rows[] = {
        {PLACEMENT_EARLY, PLACEMENT_STRICT},
        {PLACEMENT_STRICT, PLACEMENT_STRICT},
        {PLACEMENT_OFF, PLACEMENT_OFF},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t fpdu[4096], payload[100] = {7};
        struct hand_stream *s = establish(rows[i].wish, true);
        end_post_recv(&hand.end, 1, 0, 1000);
        hand_send(s, 1, 0x11, 700);
        hand_run();
        assert_int_equal(hand.end.ep->in.placer.placement, rows[i].has);
        hand_expect_received(1, 0, 0x11, 700);
        const uint64_t to = (uintptr_t)hand.device.buf;
        const struct craft c =
            craft_tagged(RDMAP_WRITE, hand.device.stag, to, true, payload, sizeof payload);
        const size_t len = raw_fpdu(fpdu, c.octets, c.len);
        const struct place_offer offer = {.position = s->in_len + 100,
                                          .octets = span_of(fpdu, len),
                                          .order = PLACE_BEYOND_HOLE,
                                          .is_segment_start = true,
                                          .is_segment_end = true};
        struct place_answer answer = {.len = len};
        rnic_enter(hand.device.rnic);
        const enum place_verdict verdict = s->place.place(s->place.ctx, &offer, &answer);
        rnic_leave(hand.device.rnic, 0);
        assert_int_equal(verdict, PLACE_BUFFER);
        assert_int_equal(hand.device.buf[0], 0x11);
    }
}

static void sends_come_in_whatever_pieces(void **state)
{
    for (size_t piece = 1; piece < 60; piece += piece < 10 ? 1 : 7) {
        struct hand_stream *s = establish_plain();
        end_post_recv(&hand.end, 1, 0, 1000);
        end_post_recv(&hand.end, 2, 1000, 1000);
        hand_send(s, 1, 0x11, 700);
        hand_send(s, 2, 0x22, 3);
        const size_t all = s->in_len;
        for (s->in_len = s->in_done; s->in_len < all;) {
            s->in_len = s->in_len + piece < all ? s->in_len + piece : all;
            hand_run();
        }
        hand_expect_received(1, 0, 0x11, 700);
        hand_expect_received(2, 1000, 0x22, 3);
        assert_int_equal(hand.end.ep->in.rx.counters.fpdus, 2);
    }
}

static void put(struct journal *journal, const struct journal_record *record)
{
}

static void holes_are_told_of_to_who_asked(void **state)
{
    struct journal journal = {.put = put};
    const struct rnic_config config = hand_config();
    hand_open_anew(&config, LINK_HAS_PLACES);
    hand.device.rnic->journal = &journal;
    const struct hand_stream *s = hand_establish_plain();
    hand_run();
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_send(hand_of(&hand.end), 1, 0x11, 700);
    hand_run();
    assert_non_null(s->place.on_hole_opened);
    assert_non_null(s->place.on_hole_closed);
    hand.device.rnic->journal = NULL;
}

// What it offered was declined: it is none of ours, whatever it said first.
static void a_peer_that_declines_is_placed_as_a_plain_one(void **state)
{
    for (unsigned is_placing = 0; is_placing < 2; is_placing++) {
        establish_plain();
        if (is_placing) {
            end_post_recv(&hand.end, 1, 0, 1000);
            hand_send(hand_of(&hand.end), 1, 0x11, 700);
            hand_run();
        }
        struct rnic_ep *ep = hand.end.ep;
        assert_int_equal(ep->in.is_placing, is_placing);
        ep->in.placer.placement = PLACEMENT_EARLY;
        rnic_enter(hand.device.rnic);
        ep_place_on_declined(ep);
        rnic_leave(hand.device.rnic, 0);
        assert_true(ep->in.is_offer_declined);
        assert_int_equal(ep->in.placer.placement, is_placing ? PLACEMENT_STRICT : PLACEMENT_EARLY);
    }
}

// The link serves its timers, or another stream, and octets are placed that nobody has asked for.
static void what_the_link_places_by_itself_is_seen_to(void **state)
{
    struct hand_stream *s = establish_plain();
    end_post_recv(&hand.end, 1, 0, 1000);
    end_post_recv(&hand.end, 2, 1000, 1000);
    hand_send(s, 1, 0x11, 700);
    hand_run();
    hand_expect_received(1, 0, 0x11, 700);
    hand.now += NS_PER_S;
    assert_true(ep_is_cold(hand.end.ep, hand.now));
    hand_send(s, 2, 0x22, 30);
    rnic_enter(hand.device.rnic);
    assert_true(hand_place(s) > 0);
    rnic_leave(hand.device.rnic, 0);
    assert_true(hand.end.ep->in.has_placed);
    assert_int_equal(hand.end.ep->in.turn_at_ns, hand.now);
    hand_run();
    assert_false(hand.end.ep->in.has_placed);
    assert_false(ep_is_cold(hand.end.ep, hand.now));
    hand_expect_received(2, 1000, 0x22, 30);
}

// What the store has no room for waits at the link until a receive is posted, and in its order.
static void what_finds_no_receive_waits_at_the_link(void **state)
{
    enum { LEN = 700, COUNT = 8 };
    struct rnic_config config = hand_config();
    config.placement = PLACEMENT_EARLY;
    config.rnr_store_len = 4096;
    hand_open_anew(&config, LINK_HAS_PLACES);
    struct hand_stream *s = hand_establish_plain();
    for (uint32_t i = 1; i <= COUNT; i++) {
        hand_send(s, i, (uint8_t)i, LEN);
    }
    hand_run();
    hand_expect_no_completion();
    assert_false(s->wants_in);
    assert_true(end_is_paused(&hand.end));
    assert_int_equal(s->resume_count, 0);
    for (uint32_t i = 1; i <= COUNT; i++) {
        const size_t done = s->in_done;
        end_post_recv(&hand.end, i, 0, LEN);
        hand_run();
        hand_expect_received(i, 0, (uint8_t)i, LEN);
        assert_true(s->in_done > done || done == s->in_len);
    }
    assert_true(s->wants_in);
    assert_true(s->resume_count > 1);
    assert_false(hand.end.ep->in.is_in_link);
    assert_int_equal(s->in_done, s->in_len);
    hand_send(s, COUNT + 1, 1, LEN); // and who places by himself after it is seen to, too
    rnic_enter(hand.device.rnic);
    assert_true(hand_place(s) > 0);
    rnic_leave(hand.device.rnic, 0);
    assert_true(hand.end.ep->in.has_placed);
}

static void an_fpdu_that_is_wrong_ends_the_stream(void **state)
{
    struct hand_stream *s = establish(PLACEMENT_EARLY, true);
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_send(s, 1, 0x11, 700);
    s->in[s->in_len - 1] ^= 1; // its CRC
    hand_run();
    assert_true(hand.end.ep->in.is_stopped);
    assert_int_equal(hand_completion().status, WC_WR_FLUSH_ERR);
    assert_int_equal(rnic_qp_state(hand.end.qp), QP_ERR);
    assert_true(s->wants_in);   // to hear of its end
    hand_send(s, 1, 0x11, 700); // is thrown away
    hand_run();
    hand_expect_no_completion();
}

static void an_end_behind_what_was_placed_is_the_peers(void **state)
{
    struct hand_stream *s = establish_plain();
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_send(s, 1, 0x11, 700);
    s->end = 0;
    hand_run();
    hand_expect_received(1, 0, 0x11, 700);
    hand_expect_disconnected(s, "by_peer", false);
}

// As they would without the port: in the midst of an FPDU a FIN is a reset.
static void an_end_in_what_was_placed_is_a_reset(void **state)
{
    struct hand_stream *s = establish_plain();
    end_post_recv(&hand.end, 1, 0, 1000);
    hand_send(s, 1, 0x11, 700);
    s->in_len -= 50;
    s->end = 0;
    hand_run();
    assert_int_equal(hand_completion().status, WC_WR_FLUSH_ERR);
    hand_expect_disconnected(s, "by_reset", true);
}

int main(void)
{
#define PLACE_TEST(name) cmocka_unit_test_setup_teardown(name, hand_set_up, hand_tear_down)
    const struct CMUnitTest tests[] = {
        PLACE_TEST(octets_go_to_the_port_once_the_stream_is_up),
        PLACE_TEST(a_link_without_places_is_asked_for_none),
        PLACE_TEST(beyond_holes_a_plain_peers_fpdus_are_told_by_markers_alone),
        PLACE_TEST(sends_come_in_whatever_pieces),
        PLACE_TEST(holes_are_told_of_to_who_asked),
        PLACE_TEST(a_peer_that_declines_is_placed_as_a_plain_one),
        PLACE_TEST(what_the_link_places_by_itself_is_seen_to),
        PLACE_TEST(what_finds_no_receive_waits_at_the_link),
        PLACE_TEST(an_fpdu_that_is_wrong_ends_the_stream),
        PLACE_TEST(an_end_behind_what_was_placed_is_the_peers),
        PLACE_TEST(an_end_in_what_was_placed_is_a_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
