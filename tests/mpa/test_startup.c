// MPA's start-up: frames, and what both ends make of them.
#include "tests/mpa/startup_pair.h"

/* ---- frames ---------------------------------------------------------------------------------- */

static void frames_are_those_that_siw_sends(void **state)
{
    struct pair p = pair_of(plain, plain);
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_int_equal(p.request_len, 24);
    assert_memory_equal(p.request, "MPA ID Req Frame\x50\x02\0\4\0\4\0\4", 24);
    assert_int_equal(p.reply_len, 24);
    assert_memory_equal(p.reply, "MPA ID Rep Frame\x50\x02\0\4\0\4\0\4", 24);
}

static void revision_1_request_gets_a_revision_1_reply(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.revision = 1;
    p.initiator.crc_wanted = p.responder.crc_wanted = false;
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_memory_equal(p.request, "MPA ID Req Frame\0\1\0", 20);
    assert_memory_equal(p.reply, "MPA ID Rep Frame\0\1\0", 20);
    assert_false(p.left_agreed.enhanced || p.right_agreed.enhanced);
}

static void revision_1_negotiates_neither_ird_nor_ord(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.revision = 1;
    p.initiator.ird = 1;
    p.responder.ord = 9;
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_int_equal(p.left_agreed.ird, 1);
    assert_int_equal(p.left_agreed.ord, 4);
    assert_int_equal(p.right_agreed.ord, 9);
}

static void revision_2_request_without_s_gets_a_plain_reply(void **state)
{
    struct mpa_startup s;
    struct mpa_peer_facts facts;
    struct mpa_agreement a;
    uint8_t reply[MPA_STARTUP_MAX_LEN];
    size_t consumed;
    mpa_startup_init(&s, &plain);
    assert_int_equal(
        mpa_startup_on_request(&s, span_of("MPA ID Req Frame\0\2\0", 20), &consumed, &facts),
        MPA_STARTUP_OK);
    assert_int_equal(mpa_startup_emit_accept(&s, &plain, reply, &a), 20);
    assert_memory_equal(reply, "MPA ID Rep Frame\x40\2\0", 20);
}

static void octets_may_come_one_at_a_time(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.private_data = span_of("private", 7);
    run_request(&p);
    mpa_startup_init(&p.right, &p.responder);
    for (size_t i = 0; i < p.request_len; i++) {
        size_t consumed;
        enum mpa_startup_verdict v = mpa_startup_on_request(&p.right, span_of(p.request + i, 1),
                                                            &consumed, &p.request_facts);
        assert_int_equal(consumed, 1);
        assert_int_equal(v, i + 1 < p.request_len ? MPA_STARTUP_INCOMPLETE : MPA_STARTUP_OK);
    }
    assert_int_equal(p.request_facts.private_data.len, 7);
    assert_memory_equal(p.request_facts.private_data.ptr, "private", 7);
}

static void octets_behind_the_frame_are_not_consumed(void **state)
{
    struct pair p = pair_of(plain, plain);
    run(&p);
    size_t consumed;
    mpa_startup_init(&p.left, &p.initiator);
    p.request_len = mpa_startup_emit_request(&p.left, p.request);
    assert_int_equal(mpa_startup_on_reply(&p.left, span_of(p.reply, p.reply_len + 100), &consumed,
                                          &p.reply_facts, &p.left_agreed),
                     MPA_STARTUP_OK);
    assert_int_equal(consumed, p.reply_len);
}

/* ---- CRC and markers ------------------------------------------------------------------------- */

static void crc_is_used_when_either_side_wants_it(void **state)
{
    for (unsigned wants = 0; wants < 4; wants++) {
        struct pair p = pair_of(plain, plain);
        p.initiator.crc_wanted = wants & 1;
        p.responder.crc_wanted = wants & 2;
        assert_int_equal(run(&p), MPA_STARTUP_OK);
        assert_int_equal(p.left_agreed.crc, wants != 0);
        assert_int_equal(p.right_agreed.crc, wants != 0);
    }
}

static void reply_says_crc_when_only_the_request_wants_it(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.responder.crc_wanted = false;
    run(&p);
    assert_true(p.reply[16] & 0x40); // siw as initiator refuses a Reply without it
}

static void markers_are_sent_to_the_side_that_wants_them(void **state)
{
    for (unsigned wants = 0; wants < 4; wants++) {
        struct pair p = pair_of(plain, plain);
        p.initiator.markers_wanted = wants & 1;
        p.responder.markers_wanted = (wants & 2) != 0;
        assert_int_equal(run(&p), MPA_STARTUP_OK);
        assert_int_equal(p.left_agreed.rx_markers, wants & 1);
        assert_int_equal(p.right_agreed.tx_markers, wants & 1);
        assert_int_equal(p.left_agreed.tx_markers, (wants & 2) != 0);
        assert_int_equal(p.right_agreed.rx_markers, (wants & 2) != 0);
    }
}

/* ---- IRD and ORD (RFC 6581 section 9.1) ------------------------------------------------------ */

static void responder_ord_is_at_most_initiator_ird(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.ird = 3;
    p.responder.ord = 8;
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_int_equal(p.right_agreed.ord, 3);
    assert_int_equal(p.left_agreed.ird, 3);
    assert_int_equal(p.reply_facts.ord, 3);
}

static void initiator_ord_is_at_most_responder_ird(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.ord = 8;
    p.responder.ird = 2;
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_int_equal(p.left_agreed.ord, 2);
    assert_int_equal(p.right_agreed.ird, 2);
    assert_int_equal(p.request_facts.ord, 8);
}

static void initiator_raises_its_ird_to_the_responder_ord(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.ird_max = 16;
    assert_int_equal(reply_by_hand(&p, 0x5002, "\0\4\0\x10", 4), MPA_STARTUP_OK);
    assert_int_equal(p.left_agreed.ird, 16);
}

static void responder_ord_beyond_our_resources_is_insufficient_ird(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.ird_max = 15;
    assert_int_equal(reply_by_hand(&p, 0x5002, "\0\4\0\x10", 4), MPA_STARTUP_INSUFFICIENT_IRD);
    assert_true(p.left_agreed.crc); // the Terminate is framed as agreed
    assert_int_equal(mpa_startup_verdict_cause(MPA_STARTUP_INSUFFICIENT_IRD),
                     TERM_MPA_INSUFFICIENT_IRD);
}

static void all_ones_leave_both_sides_as_they_are(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.leave_ird_ord = true;
    p.initiator.ord = 20;
    p.responder.ord = 9;
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_memory_equal(p.request + 20, "\x3f\xff\x3f\xff", 4);
    assert_memory_equal(p.reply + 20, "\x3f\xff\x3f\xff", 4);
    assert_int_equal(p.left_agreed.ird, 4);
    assert_int_equal(p.left_agreed.ord, 20);
    assert_int_equal(p.right_agreed.ird, 4);
    assert_int_equal(p.right_agreed.ord, 9);
}

// ... though the responder names numbers of its own.
static void initiator_that_negotiates_nothing_keeps_what_it_has(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.leave_ird_ord = true;
    assert_int_equal(reply_by_hand(&p, 0x5002, "\0\1\0\x10", 4), MPA_STARTUP_OK);
    assert_int_equal(p.left_agreed.ird, 4);
    assert_int_equal(p.left_agreed.ord, 4);
}

static void all_ones_in_the_reply_leave_the_initiator_as_it_is(void **state)
{
    struct pair p = pair_of(plain, plain);
    assert_int_equal(reply_by_hand(&p, 0x5002, "\x3f\xff\x3f\xff", 4), MPA_STARTUP_OK);
    assert_int_equal(p.left_agreed.ird, 4);
    assert_int_equal(p.left_agreed.ord, 4);
}

static void numbers_beyond_14_bits_are_cut_to_the_largest(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.ird = 0xffff;
    p.responder.ird = 0x3fff;
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_memory_equal(p.request + 20, "\x3f\xfe", 2);
    assert_memory_equal(p.reply + 20, "\x3f\xfe", 2);
    p = pair_of(plain, plain);
    p.initiator.leave_ird_ord = true; // so that nothing else bounds it
    p.responder.ord = 0xffff;
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_int_equal(p.right_agreed.ord, 0x3ffe);
}

/* ---- peer to peer (RFC 6581 section 9.2) ----------------------------------------------------- */

static struct pair peer_to_peer(uint8_t initiator_kinds, uint8_t responder_kinds)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.peer_to_peer = true;
    p.initiator.rtr_kinds = initiator_kinds;
    p.responder.rtr_kinds = responder_kinds;
    return p;
}

static void reply_names_the_rtr_kinds_in_common(void **state)
{
    struct pair p = peer_to_peer(MPA_RTR_WRITE | MPA_RTR_READ, MPA_RTR_READ | MPA_RTR_SEND);
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_memory_equal(p.request + 20, "\x80\4\xc0\4", 4);
    assert_memory_equal(p.reply + 20, "\x80\4\x40\4", 4);
    assert_int_equal(p.left_agreed.rtr, MPA_RTR_READ);
    assert_int_equal(p.right_agreed.rtr, MPA_RTR_READ);
}

static void rtr_prefers_write_then_read_then_send(void **state)
{
    struct pair p = peer_to_peer(MPA_RTR_ALL, 0);
    run(&p);
    assert_int_equal(p.left_agreed.rtr, MPA_RTR_WRITE);
    p = peer_to_peer(MPA_RTR_READ | MPA_RTR_SEND, 0);
    run(&p);
    assert_int_equal(p.left_agreed.rtr, MPA_RTR_READ);
    p = peer_to_peer(MPA_RTR_SEND, 0);
    run(&p);
    assert_int_equal(p.left_agreed.rtr, MPA_RTR_SEND);
}

static void no_rtr_in_common_names_ours_and_ends_the_start_up(void **state)
{
    struct pair p = peer_to_peer(MPA_RTR_SEND, MPA_RTR_WRITE);
    assert_int_equal(run(&p), MPA_STARTUP_NO_RTR);
    assert_int_equal(p.reply_facts.rtr_kinds, MPA_RTR_WRITE);
    assert_int_equal(mpa_startup_verdict_cause(MPA_STARTUP_NO_RTR), TERM_MPA_NO_RTR);
}

static void reply_without_peer_to_peer_is_no_rtr(void **state)
{
    struct pair p = peer_to_peer(MPA_RTR_ALL, 0);
    assert_int_equal(reply_by_hand(&p, 0x5002, "\x40\4\xc0\4", 4), MPA_STARTUP_NO_RTR);
}

static void read_as_rtr_raises_ird_and_ord_to_one(void **state)
{
    struct pair p = peer_to_peer(MPA_RTR_READ, MPA_RTR_READ);
    p.initiator.ord = 0;
    p.responder.ird = 0;
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_int_equal(p.right_agreed.ird, 1);
    assert_int_equal(p.left_agreed.ord, 1);
    p = peer_to_peer(MPA_RTR_WRITE, MPA_RTR_WRITE); // which needs none
    p.responder.ird = 0;
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_int_equal(p.right_agreed.ird, 0);
}

static void read_as_rtr_needs_an_ird_at_the_responder(void **state)
{
    struct pair p = peer_to_peer(MPA_RTR_READ, 0);
    assert_int_equal(reply_by_hand(&p, 0x5002, "\x80\0\x40\4", 4), MPA_STARTUP_NO_RTR);
}

static void client_server_reply_has_no_flags(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.responder.rtr_kinds = MPA_RTR_ALL;
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_memory_equal(p.reply + 20, "\0\4\0\4", 4);
    assert_int_equal(p.left_agreed.rtr, MPA_RTR_NONE);
}

static void rtr_flags_without_a_are_ignored(void **state)
{
    struct pair p = pair_of(plain, plain);
    assert_int_equal(reply_by_hand(&p, 0x5002, "\x40\4\xc0\4", 4), MPA_STARTUP_OK);
    assert_int_equal(p.reply_facts.rtr_kinds, MPA_RTR_NONE);
    assert_int_equal(p.left_agreed.rtr, MPA_RTR_NONE);
}

/* ---- reject ---------------------------------------------------------------------------------- */

static void reject_carries_private_data_and_the_needed_ord(void **state)
{
    struct pair p = pair_of(plain, plain);
    run_request(&p);
    p.responder.private_data = span_of("no", 2);
    p.responder.ord = 77;
    p.reply_len = mpa_startup_emit_reject(&p.right, &p.responder, p.reply);
    assert_memory_equal(p.reply + 16, "\x70\2\0\6\0\4\0\x4dno", 10);
    assert_int_equal(run_reply(&p), MPA_STARTUP_REJECTED);
    assert_int_equal(p.reply_facts.ord, 77);
    assert_memory_equal(p.reply_facts.private_data.ptr, "no", 2);
}

static void reject_follows_a_peer_to_peer_request(void **state)
{
    struct pair p = peer_to_peer(MPA_RTR_WRITE, MPA_RTR_WRITE);
    run_request(&p);
    p.reply_len = mpa_startup_emit_reject(&p.right, &p.responder, p.reply);
    assert_int_equal(run_reply(&p), MPA_STARTUP_REJECTED);
    assert_int_equal(p.reply_facts.rtr_kinds, MPA_RTR_WRITE);
}

static void reject_of_revision_1_is_plain(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.revision = 1;
    run_request(&p);
    p.reply_len = mpa_startup_emit_reject(&p.right, &p.responder, p.reply);
    assert_int_equal(p.reply_len, 20);
    assert_memory_equal(p.reply + 16, "\x60\1\0\0", 4);
    assert_int_equal(run_reply(&p), MPA_STARTUP_REJECTED);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static enum mpa_startup_verdict request_by_hand(const struct mpa_startup_config *config,
                                                const void *octets, size_t len)
{
    struct mpa_startup s;
    struct mpa_peer_facts facts;
    size_t consumed;
    mpa_startup_init(&s, config);
    return mpa_startup_on_request(&s, span_of(octets, len), &consumed, &facts);
}

static void malformed_requests_are_refused(void **state)
{
    assert_int_equal(request_by_hand(&plain, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27),
                     MPA_STARTUP_BAD_KEY);
    assert_int_equal(request_by_hand(&plain, "MPA ID Rep Frame\0\1\0", 20), MPA_STARTUP_WRONG_ROLE);
    assert_int_equal(request_by_hand(&plain, "MPA ID Req Frame\0\3\0", 20), MPA_STARTUP_REVISION);
    assert_int_equal(request_by_hand(&plain, "MPA ID Req Frame\0\1\2\1", 20),
                     MPA_STARTUP_PD_TOO_LONG);
    assert_int_equal(request_by_hand(&plain, "MPA ID Req Frame\x10\2\0\3xyz", 23),
                     MPA_STARTUP_ENHANCED_MISSING);
}

static void enhanced_request_is_refused_by_a_revision_1_responder(void **state)
{
    struct mpa_startup_config c = plain;
    c.revision = 1;
    assert_int_equal(request_by_hand(&c, "MPA ID Req Frame\x10\2\0\4\0\4\0\4", 24),
                     MPA_STARTUP_ENHANCED_UNSUPPORTED);
}

static void plain_reply_to_an_enhanced_request_is_refused(void **state)
{
    struct pair p = pair_of(plain, plain);
    assert_int_equal(reply_by_hand(&p, 0x4001, "", 0), MPA_STARTUP_ENHANCED_MISMATCH);
}

static void enhanced_reply_to_a_plain_request_is_refused(void **state)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.revision = 1;
    assert_int_equal(reply_by_hand(&p, 0x5002, "\0\4\0\4", 4), MPA_STARTUP_ENHANCED_MISMATCH);
}

static void request_in_place_of_a_reply_is_the_wrong_role(void **state)
{
    struct pair p = pair_of(plain, plain);
    run_request(&p);
    memcpy(p.reply, p.request, p.request_len);
    p.reply_len = p.request_len;
    assert_int_equal(run_reply(&p), MPA_STARTUP_WRONG_ROLE);
}

static void the_longest_private_data_are_emitted_and_read(void **state)
{
    static const uint8_t data[508] = {[507] = 7}; // 512 with the enhanced octets
    struct pair p = pair_of(plain, plain);
    p.initiator.private_data = p.responder.private_data = span_of(data, sizeof data);
    assert_int_equal(run_request(&p), MPA_STARTUP_OK);
    assert_int_equal(p.request_facts.private_data.len, sizeof data);
    p.reply_len = mpa_startup_emit_reject(&p.right, &p.responder, p.reply);
    assert_int_equal(run_reply(&p), MPA_STARTUP_REJECTED);
    assert_int_equal(p.reply_facts.private_data.len, sizeof data);
    assert_memory_equal(p.reply_facts.private_data.ptr, data, sizeof data);
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_int_equal(p.reply_facts.private_data.len, sizeof data);
}

static void private_data_that_does_not_fit_is_not_emitted(void **state)
{
    static const uint8_t data[513];
    struct pair p = pair_of(plain, plain);
    uint8_t buf[MPA_STARTUP_MAX_LEN];
    run_request(&p);
    p.initiator.private_data = p.responder.private_data = span_of(data, 509);
    mpa_startup_init(&p.left, &p.initiator);
    assert_int_equal(mpa_startup_emit_request(&p.left, buf), 0);
    assert_int_equal(mpa_startup_emit_accept(&p.right, &p.responder, buf, &p.right_agreed), 0);
    assert_int_equal(mpa_startup_emit_reject(&p.right, &p.responder, buf), 0);
    p.initiator.private_data = p.responder.private_data = span_of(data, 508);
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_int_equal(p.reply_len, MPA_STARTUP_MAX_LEN);
}

static void every_verdict_has_a_name_and_a_cause(void **state)
{
    for (int v = 0; v < MPA_STARTUP_VERDICT_COUNT; v++) {
        assert_non_null(mpa_startup_verdict_name(v));
    }
    assert_int_equal(mpa_startup_verdict_cause(MPA_STARTUP_OK), TERM_NONE);
    assert_int_equal(mpa_startup_verdict_cause(MPA_STARTUP_INCOMPLETE), TERM_NONE);
    assert_int_equal(mpa_startup_verdict_cause(MPA_STARTUP_REJECTED), TERM_NONE);
    for (int v = MPA_STARTUP_BAD_KEY; v <= MPA_STARTUP_ENHANCED_MISMATCH; v++) {
        assert_int_equal(mpa_startup_verdict_cause(v), TERM_MPA_STARTUP);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_those_that_siw_sends),
        cmocka_unit_test(revision_1_request_gets_a_revision_1_reply),
        cmocka_unit_test(revision_1_negotiates_neither_ird_nor_ord),
        cmocka_unit_test(revision_2_request_without_s_gets_a_plain_reply),
        cmocka_unit_test(octets_may_come_one_at_a_time),
        cmocka_unit_test(octets_behind_the_frame_are_not_consumed),
        cmocka_unit_test(crc_is_used_when_either_side_wants_it),
        cmocka_unit_test(reply_says_crc_when_only_the_request_wants_it),
        cmocka_unit_test(markers_are_sent_to_the_side_that_wants_them),
        cmocka_unit_test(responder_ord_is_at_most_initiator_ird),
        cmocka_unit_test(initiator_ord_is_at_most_responder_ird),
        cmocka_unit_test(initiator_raises_its_ird_to_the_responder_ord),
        cmocka_unit_test(responder_ord_beyond_our_resources_is_insufficient_ird),
        cmocka_unit_test(all_ones_leave_both_sides_as_they_are),
        cmocka_unit_test(initiator_that_negotiates_nothing_keeps_what_it_has),
        cmocka_unit_test(all_ones_in_the_reply_leave_the_initiator_as_it_is),
        cmocka_unit_test(numbers_beyond_14_bits_are_cut_to_the_largest),
        cmocka_unit_test(reply_names_the_rtr_kinds_in_common),
        cmocka_unit_test(rtr_prefers_write_then_read_then_send),
        cmocka_unit_test(no_rtr_in_common_names_ours_and_ends_the_start_up),
        cmocka_unit_test(reply_without_peer_to_peer_is_no_rtr),
        cmocka_unit_test(read_as_rtr_raises_ird_and_ord_to_one),
        cmocka_unit_test(read_as_rtr_needs_an_ird_at_the_responder),
        cmocka_unit_test(client_server_reply_has_no_flags),
        cmocka_unit_test(rtr_flags_without_a_are_ignored),
        cmocka_unit_test(reject_carries_private_data_and_the_needed_ord),
        cmocka_unit_test(reject_follows_a_peer_to_peer_request),
        cmocka_unit_test(reject_of_revision_1_is_plain),
        cmocka_unit_test(malformed_requests_are_refused),
        cmocka_unit_test(enhanced_request_is_refused_by_a_revision_1_responder),
        cmocka_unit_test(plain_reply_to_an_enhanced_request_is_refused),
        cmocka_unit_test(enhanced_reply_to_a_plain_request_is_refused),
        cmocka_unit_test(request_in_place_of_a_reply_is_the_wrong_role),
        cmocka_unit_test(the_longest_private_data_are_emitted_and_read),
        cmocka_unit_test(private_data_that_does_not_fit_is_not_emitted),
        cmocka_unit_test(every_verdict_has_a_name_and_a_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
