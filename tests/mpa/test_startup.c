#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "mpa/startup.h"
#include "wire/crc32c.h"

// Both ends of one start-up, joined by byte buffers.
struct pair {
    struct mpa_startup_config initiator, responder;
    struct mpa_startup left, right;
    uint8_t request[MPA_STARTUP_MAX_LEN], reply[MPA_STARTUP_MAX_LEN];
    size_t request_len, reply_len;
    struct mpa_peer_facts request_facts, reply_facts;
    struct mpa_agreement left_agreed, right_agreed;
};

static const struct mpa_startup_config plain = {
    .revision = 2, .crc_wanted = true, .ird = 4, .ord = 4};

static struct pair pair_of(struct mpa_startup_config initiator, struct mpa_startup_config responder)
{
    return (struct pair){.initiator = initiator, .responder = responder};
}

static enum mpa_startup_verdict run_request(struct pair *p)
{
    size_t consumed;
    mpa_startup_init(&p->left, &p->initiator);
    mpa_startup_init(&p->right, &p->responder);
    p->request_len = mpa_startup_emit_request(&p->left, p->request);
    assert_true(p->request_len > 0);
    return mpa_startup_on_request(&p->right, span_of(p->request, p->request_len), &consumed,
                                  &p->request_facts);
}

static enum mpa_startup_verdict run_reply(struct pair *p)
{
    size_t consumed;
    return mpa_startup_on_reply(&p->left, span_of(p->reply, p->reply_len), &consumed,
                                &p->reply_facts, &p->left_agreed);
}

static enum mpa_startup_verdict run(struct pair *p)
{
    assert_int_equal(run_request(p), MPA_STARTUP_OK);
    p->reply_len = mpa_startup_emit_accept(&p->right, &p->responder, p->reply, &p->right_agreed);
    assert_true(p->reply_len > 0);
    return run_reply(p);
}

// A Reply by hand: flags and revision, then private data.
static enum mpa_startup_verdict reply_by_hand(struct pair *p, uint16_t flags, const void *data,
                                              size_t len)
{
    assert_int_equal(run_request(p), MPA_STARTUP_OK);
    memcpy(p->reply, "MPA ID Rep Frame", 16);
    put_be16(p->reply + 16, flags);
    put_be16(p->reply + 18, (uint16_t)len);
    memcpy(p->reply + 20, data, len);
    p->reply_len = 20 + len;
    return run_reply(p);
}

// ---- frames ----

static void frames_are_those_that_siw_sends(void **state)
{
    (void)state;
    struct pair p = pair_of(plain, plain);
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_int_equal(p.request_len, 24);
    assert_memory_equal(p.request, "MPA ID Req Frame\x50\x02\0\4\0\4\0\4", 24);
    assert_int_equal(p.reply_len, 24);
    assert_memory_equal(p.reply, "MPA ID Rep Frame\x50\x02\0\4\0\4\0\4", 24);
}

static void revision_1_request_gets_a_revision_1_reply(void **state)
{
    (void)state;
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
    (void)state;
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
    (void)state;
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
    (void)state;
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
    (void)state;
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

// ---- CRC and markers ----

static void crc_is_used_when_either_side_wants_it(void **state)
{
    (void)state;
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
    (void)state;
    struct pair p = pair_of(plain, plain);
    p.responder.crc_wanted = false;
    run(&p);
    assert_true(p.reply[16] & 0x40); // siw as initiator refuses a Reply without it
}

static void markers_are_sent_to_the_side_that_wants_them(void **state)
{
    (void)state;
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

// ---- IRD and ORD (RFC 6581 section 9.1) ----

static void responder_ord_is_at_most_initiator_ird(void **state)
{
    (void)state;
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
    (void)state;
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
    (void)state;
    struct pair p = pair_of(plain, plain);
    p.initiator.ird_max = 16;
    assert_int_equal(reply_by_hand(&p, 0x5002, "\0\4\0\x10", 4), MPA_STARTUP_OK);
    assert_int_equal(p.left_agreed.ird, 16);
}

static void responder_ord_beyond_our_resources_is_insufficient_ird(void **state)
{
    (void)state;
    struct pair p = pair_of(plain, plain);
    p.initiator.ird_max = 15;
    assert_int_equal(reply_by_hand(&p, 0x5002, "\0\4\0\x10", 4), MPA_STARTUP_INSUFFICIENT_IRD);
    assert_true(p.left_agreed.crc); // the Terminate is framed as agreed
    assert_int_equal(mpa_startup_verdict_cause(MPA_STARTUP_INSUFFICIENT_IRD),
                     TERM_MPA_INSUFFICIENT_IRD);
}

static void all_ones_leave_both_sides_as_they_are(void **state)
{
    (void)state;
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
    (void)state;
    struct pair p = pair_of(plain, plain);
    p.initiator.leave_ird_ord = true;
    assert_int_equal(reply_by_hand(&p, 0x5002, "\0\1\0\x10", 4), MPA_STARTUP_OK);
    assert_int_equal(p.left_agreed.ird, 4);
    assert_int_equal(p.left_agreed.ord, 4);
}

static void all_ones_in_the_reply_leave_the_initiator_as_it_is(void **state)
{
    (void)state;
    struct pair p = pair_of(plain, plain);
    assert_int_equal(reply_by_hand(&p, 0x5002, "\x3f\xff\x3f\xff", 4), MPA_STARTUP_OK);
    assert_int_equal(p.left_agreed.ird, 4);
    assert_int_equal(p.left_agreed.ord, 4);
}

static void numbers_beyond_14_bits_are_cut_to_the_largest(void **state)
{
    (void)state;
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

// ---- peer to peer (RFC 6581 section 9.2) ----

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
    (void)state;
    struct pair p = peer_to_peer(MPA_RTR_WRITE | MPA_RTR_READ, MPA_RTR_READ | MPA_RTR_SEND);
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_memory_equal(p.request + 20, "\x80\4\xc0\4", 4);
    assert_memory_equal(p.reply + 20, "\x80\4\x40\4", 4);
    assert_int_equal(p.left_agreed.rtr, MPA_RTR_READ);
    assert_int_equal(p.right_agreed.rtr, MPA_RTR_READ);
}

static void rtr_prefers_write_then_read_then_send(void **state)
{
    (void)state;
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
    (void)state;
    struct pair p = peer_to_peer(MPA_RTR_SEND, MPA_RTR_WRITE);
    assert_int_equal(run(&p), MPA_STARTUP_NO_RTR);
    assert_int_equal(p.reply_facts.rtr_kinds, MPA_RTR_WRITE);
    assert_int_equal(mpa_startup_verdict_cause(MPA_STARTUP_NO_RTR), TERM_MPA_NO_RTR);
}

static void reply_without_peer_to_peer_is_no_rtr(void **state)
{
    (void)state;
    struct pair p = peer_to_peer(MPA_RTR_ALL, 0);
    assert_int_equal(reply_by_hand(&p, 0x5002, "\x40\4\xc0\4", 4), MPA_STARTUP_NO_RTR);
}

static void read_as_rtr_raises_ird_and_ord_to_one(void **state)
{
    (void)state;
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
    (void)state;
    struct pair p = peer_to_peer(MPA_RTR_READ, 0);
    assert_int_equal(reply_by_hand(&p, 0x5002, "\x80\0\x40\4", 4), MPA_STARTUP_NO_RTR);
}

static void client_server_reply_has_no_flags(void **state)
{
    (void)state;
    struct pair p = pair_of(plain, plain);
    p.responder.rtr_kinds = MPA_RTR_ALL;
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_memory_equal(p.reply + 20, "\0\4\0\4", 4);
    assert_int_equal(p.left_agreed.rtr, MPA_RTR_NONE);
}

static void rtr_flags_without_a_are_ignored(void **state)
{
    (void)state;
    struct pair p = pair_of(plain, plain);
    assert_int_equal(reply_by_hand(&p, 0x5002, "\x40\4\xc0\4", 4), MPA_STARTUP_OK);
    assert_int_equal(p.reply_facts.rtr_kinds, MPA_RTR_NONE);
    assert_int_equal(p.left_agreed.rtr, MPA_RTR_NONE);
}

// ---- reject ----

static void reject_carries_private_data_and_the_needed_ord(void **state)
{
    (void)state;
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
    (void)state;
    struct pair p = peer_to_peer(MPA_RTR_WRITE, MPA_RTR_WRITE);
    run_request(&p);
    p.reply_len = mpa_startup_emit_reject(&p.right, &p.responder, p.reply);
    assert_int_equal(run_reply(&p), MPA_STARTUP_REJECTED);
    assert_int_equal(p.reply_facts.rtr_kinds, MPA_RTR_WRITE);
}

static void reject_of_revision_1_is_plain(void **state)
{
    (void)state;
    struct pair p = pair_of(plain, plain);
    p.initiator.revision = 1;
    run_request(&p);
    p.reply_len = mpa_startup_emit_reject(&p.right, &p.responder, p.reply);
    assert_int_equal(p.reply_len, 20);
    assert_memory_equal(p.reply + 16, "\x60\1\0\0", 4);
    assert_int_equal(run_reply(&p), MPA_STARTUP_REJECTED);
}

// ---- refusals ----

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
    (void)state;
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
    (void)state;
    struct mpa_startup_config c = plain;
    c.revision = 1;
    assert_int_equal(request_by_hand(&c, "MPA ID Req Frame\x10\2\0\4\0\4\0\4", 24),
                     MPA_STARTUP_ENHANCED_UNSUPPORTED);
}

static void plain_reply_to_an_enhanced_request_is_refused(void **state)
{
    (void)state;
    struct pair p = pair_of(plain, plain);
    assert_int_equal(reply_by_hand(&p, 0x4001, "", 0), MPA_STARTUP_ENHANCED_MISMATCH);
}

static void enhanced_reply_to_a_plain_request_is_refused(void **state)
{
    (void)state;
    struct pair p = pair_of(plain, plain);
    p.initiator.revision = 1;
    assert_int_equal(reply_by_hand(&p, 0x5002, "\0\4\0\4", 4), MPA_STARTUP_ENHANCED_MISMATCH);
}

static void request_in_place_of_a_reply_is_the_wrong_role(void **state)
{
    (void)state;
    struct pair p = pair_of(plain, plain);
    run_request(&p);
    memcpy(p.reply, p.request, p.request_len);
    p.reply_len = p.request_len;
    assert_int_equal(run_reply(&p), MPA_STARTUP_WRONG_ROLE);
}

static void the_longest_private_data_are_emitted_and_read(void **state)
{
    (void)state;
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
    (void)state;
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
    (void)state;
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

// ---- extensions ----

static struct pair extended(void)
{
    struct pair p = pair_of(plain, plain);
    p.initiator.extensions = p.responder.extensions = true;
    p.initiator.encodings = EXTENSION_ONESHOT_ENCODINGS | EXTENSION_ONESHOT_PARTS;
    p.responder.encodings = EXTENSION_ONESHOT_ENCODINGS | EXTENSION_ONESHOT_PARTS;
    p.initiator.allotment_len = 65536;
    p.responder.allotment_len = 32768;
    return p;
}

static void extensions_are_agreed_when_both_want_them(void **state)
{
    (void)state;
    struct pair p = extended();
    p.responder.private_data = span_of("welcome", 7);
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_true(p.request_facts.extensions_offered);
    assert_true(p.left_agreed.extensions);
    assert_int_equal(p.left_agreed.extension_verdict, EXTENSION_OK);
    assert_int_equal(p.left_agreed.encoding, EXTENSION_ONESHOT_FLAGS | EXTENSION_ONESHOT_PARTS);
    assert_int_equal(p.left_agreed.allotment_len, 32768);
    assert_false(p.left_agreed.peer_echoes);
}

static void application_does_not_see_the_block(void **state)
{
    (void)state;
    struct pair p = extended();
    p.responder.private_data = span_of("welcome", 7);
    run(&p);
    assert_int_equal(p.reply_len, 24 + 7 + EXTENSION_BLOCK_LEN);
    assert_int_equal(p.reply_facts.private_data.len, 7);
    assert_memory_equal(p.reply_facts.private_data.ptr, "welcome", 7);
}

static void extensions_work_in_revision_1_too(void **state)
{
    (void)state;
    struct pair p = extended();
    p.initiator.revision = 1;
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_true(p.left_agreed.extensions);
    assert_int_equal(p.reply_facts.private_data.len, 0);
}

static void responder_that_was_not_asked_sends_no_block(void **state)
{
    (void)state;
    struct pair p = extended();
    p.initiator.extensions = false;
    run(&p);
    assert_int_equal(p.reply_len, 24);
    assert_false(p.right_agreed.extensions || p.left_agreed.extensions);
}

static void responder_that_does_not_want_them_sends_no_block(void **state)
{
    (void)state;
    struct pair p = extended();
    p.responder.extensions = false;
    run(&p);
    assert_int_equal(p.reply_len, 24);
    assert_false(p.left_agreed.extensions);
    assert_int_equal(p.left_agreed.extension_verdict, EXTENSION_ABSENT);
}

static void no_room_in_256_octets_means_no_extensions(void **state)
{
    (void)state;
    static const uint8_t data[256];
    struct pair p = extended();
    p.responder.private_data = span_of(data, 256 - 4 - EXTENSION_BLOCK_LEN);
    run(&p);
    assert_true(p.left_agreed.extensions);
    p.responder.private_data = span_of(data, 256 - 4 - EXTENSION_BLOCK_LEN + 1);
    run(&p);
    assert_false(p.right_agreed.extensions || p.left_agreed.extensions);
    assert_int_equal(p.reply_facts.private_data.len, 256 - 4 - EXTENSION_BLOCK_LEN + 1);
}

static void echo_without_a_block_is_recognised(void **state)
{
    (void)state;
    struct pair p = extended();
    assert_int_equal(reply_by_hand(&p, 0x5402, "\0\4\0\4", 4), MPA_STARTUP_OK);
    assert_false(p.left_agreed.extensions);
    assert_true(p.left_agreed.peer_echoes);
}

static void block_for_another_request_is_left_to_the_application(void **state)
{
    (void)state;
    struct pair p = extended();
    run(&p);
    p.initiator.private_data = span_of("other", 5); // so the Request is another
    mpa_startup_init(&p.left, &p.initiator);
    mpa_startup_emit_request(&p.left, p.request);
    assert_int_equal(run_reply(&p), MPA_STARTUP_OK);
    assert_false(p.left_agreed.extensions);
    assert_int_equal(p.left_agreed.extension_verdict, EXTENSION_WRONG_REQUEST);
    assert_int_equal(p.reply_facts.private_data.len, EXTENSION_BLOCK_LEN);
}

static void responder_uses_nothing_before_the_choices(void **state)
{
    (void)state;
    struct pair p = extended();
    p.initiator.marker_wish = true;
    run(&p);
    assert_true(p.right_agreed.extensions_await_choices);
    assert_false(p.right_agreed.tx_markers);
}

static void choices_confirm_what_both_have(void **state)
{
    (void)state;
    struct pair p = extended();
    p.initiator.marker_wish = p.responder.marker_wish = true;
    run(&p);
    struct extension_message choices = mpa_agreement_choices(&p.left_agreed);
    assert_true(p.left_agreed.tx_markers && p.left_agreed.rx_markers);
    assert_true(p.right_agreed.rx_markers_if_seen);
    assert_true(mpa_agreement_confirm(&p.right_agreed, &choices));
    assert_true(p.right_agreed.extensions && p.right_agreed.tx_markers);
    assert_true(p.right_agreed.rx_markers);
    assert_int_equal(p.right_agreed.encoding, p.left_agreed.encoding);
    assert_int_equal(p.right_agreed.allotment_len, p.left_agreed.allotment_len);
}

static void any_other_first_fpdu_means_no_extensions(void **state)
{
    (void)state;
    struct pair p = extended();
    p.initiator.marker_wish = p.responder.marker_wish = true;
    run(&p);
    assert_true(mpa_agreement_confirm(&p.right_agreed, NULL));
    assert_false(p.right_agreed.extensions || p.right_agreed.tx_markers);
    assert_false(p.right_agreed.rx_markers);
    assert_int_equal(p.right_agreed.allotment_len, 0);
}

static void choices_that_were_not_offered_are_refused(void **state)
{
    (void)state;
    struct pair p = extended();
    p.responder.encodings = EXTENSION_ONESHOT_FLAGS | EXTENSION_ONESHOT_CLOSE;
    run(&p);
    struct extension_message choices = {
        .kind = EXTENSION_CHOICES, .encoding = EXTENSION_ONESHOT_FLAGS | EXTENSION_ONESHOT_PARTS};
    assert_false(mpa_agreement_confirm(&p.right_agreed, &choices));
    assert_false(p.right_agreed.extensions);
    run(&p);
    choices = (struct extension_message){.kind = EXTENSION_ALLOTMENT};
    assert_false(mpa_agreement_confirm(&p.right_agreed, &choices));
}

// What is agreed on is the same at both ends, each way by itself, and nothing of it holds at the
// responder before the choices.
static void both_ends_have_agreed_on_the_same(void **state)
{
    (void)state;
    for (unsigned wishes = 0; wishes < 4; wishes++) {
        const bool left_wish = wishes & 1, right_wish = (wishes & 2) != 0;
        struct pair p = extended();
        p.initiator.marker_wish = left_wish;
        p.responder.marker_wish = right_wish;
        p.responder.encodings = EXTENSION_ONESHOT_OPCODE | EXTENSION_ONESHOT_PARTS;
        assert_int_equal(run(&p), MPA_STARTUP_OK);
        struct mpa_agreement *left = &p.left_agreed, *right = &p.right_agreed;
        assert_int_equal(p.request_facts.marker_wish, left_wish);
        assert_int_equal(right->peer_marker_wish, left_wish);
        assert_int_equal(right->rx_markers_if_seen, right_wish);
        assert_false(right->tx_markers || right->rx_markers);
        const struct extension_message choices = mpa_agreement_choices(left);
        assert_true(mpa_agreement_confirm(right, &choices));
        assert_false(right->extensions_await_choices || right->rx_markers_if_seen);
        assert_int_equal(left->tx_markers, right_wish);
        assert_int_equal(left->rx_markers, left_wish);
        assert_int_equal(right->tx_markers, left_wish);
        assert_int_equal(right->rx_markers, right_wish);
        assert_int_equal(left->encoding, p.responder.encodings);
        assert_int_equal(left->encodings, p.responder.encodings);
        assert_int_equal(right->encoding, p.responder.encodings);
        assert_int_equal(right->encodings, p.responder.encodings);
        assert_int_equal(left->own_allotment_len, 65536);
        assert_int_equal(left->peer_allotment_len, 32768);
        assert_int_equal(left->allotment_len, 32768);
        assert_int_equal(right->own_allotment_len, 32768);
        assert_int_equal(right->peer_allotment_len, 65536);
        assert_int_equal(right->allotment_len, 32768);
    }
}

// What the initiator says with its choices counts where it is less.
static void choices_may_be_less_than_was_offered(void **state)
{
    (void)state;
    struct pair p = extended();
    p.initiator.allotment_len = 4096;
    p.initiator.encodings = EXTENSION_ONESHOT_OPCODE | EXTENSION_ONESHOT_PARTS;
    run(&p);
    const struct extension_message choices = mpa_agreement_choices(&p.left_agreed);
    assert_int_equal(p.right_agreed.encodings, p.responder.encodings);
    assert_int_equal(p.right_agreed.allotment_len, 32768);
    assert_true(mpa_agreement_confirm(&p.right_agreed, &choices));
    assert_int_equal(p.right_agreed.encodings, p.initiator.encodings);
    assert_int_equal(p.right_agreed.encoding, p.initiator.encodings);
    assert_int_equal(p.right_agreed.allotment_len, 4096);
}

static void what_was_not_confirmed_is_forgotten(void **state)
{
    (void)state;
    struct pair p = extended();
    p.responder.marker_wish = true;
    run(&p);
    assert_true(mpa_agreement_confirm(&p.right_agreed, NULL));
    assert_false(p.right_agreed.extensions || p.right_agreed.extensions_await_choices);
    assert_false(p.right_agreed.rx_markers || p.right_agreed.rx_markers_if_seen);
    assert_int_equal(p.right_agreed.encodings, 0);
    assert_int_equal(p.right_agreed.allotment_len, 0);
}

// Who must not ask whether markers come does not: they come anyway.
static void markers_that_are_wanted_are_not_waited_for(void **state)
{
    (void)state;
    struct pair p = extended();
    p.responder.marker_wish = p.responder.markers_wanted = true;
    run(&p);
    assert_true(p.right_agreed.rx_markers);
    assert_false(p.right_agreed.rx_markers_if_seen);
}

static void a_wish_for_crcs_may_be_taken_back(void **state)
{
    (void)state;
    for (unsigned responder_wants = 0; responder_wants < 2; responder_wants++) {
        struct pair p = extended();
        size_t consumed;
        p.responder.crc_wanted = responder_wants;
        run_request(&p);
        mpa_startup_forgo_crc(&p.left, p.request, p.request_len);
        assert_memory_equal(p.request + 16, "\x14\x02", 2); // the other flags stay
        mpa_startup_init(&p.right, &p.responder);
        assert_int_equal(mpa_startup_on_request(&p.right, span_of(p.request, p.request_len),
                                                &consumed, &p.request_facts),
                         MPA_STARTUP_OK);
        p.reply_len = mpa_startup_emit_accept(&p.right, &p.responder, p.reply, &p.right_agreed);
        assert_int_equal(run_reply(&p), MPA_STARTUP_OK);
        assert_int_equal(p.left_agreed.crc, responder_wants);
        assert_int_equal(p.right_agreed.crc, responder_wants);
        assert_true(p.left_agreed.extensions); // the block answers the Request as it was sent
    }
}

static void a_block_needs_no_room_for_numbers_that_are_not_there(void **state)
{
    (void)state;
    static const uint8_t data[256] = {7};
    for (size_t beyond = 0; beyond < 2; beyond++) {
        struct pair p = extended();
        p.initiator.revision = 1;
        p.responder.private_data = span_of(data, 256 - EXTENSION_BLOCK_LEN + beyond);
        assert_int_equal(run(&p), MPA_STARTUP_OK);
        assert_int_equal(p.left_agreed.extensions, beyond == 0);
    }
    struct pair p = extended();
    p.responder.private_data = span_of(data, 1); // and stands behind a single octet
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_int_equal(p.reply_facts.private_data.len, 1);
    assert_int_equal(p.reply_facts.private_data.ptr[0], 7);
}

static void no_encoding_in_common_leaves_the_other_extensions(void **state)
{
    (void)state;
    struct pair p = extended();
    p.initiator.encodings = EXTENSION_ONESHOT_OPCODE | EXTENSION_ONESHOT_PARTS;
    p.responder.encodings = EXTENSION_ONESHOT_FLAGS | EXTENSION_ONESHOT_PARTS;
    run(&p);
    assert_true(p.left_agreed.extensions);
    assert_int_equal(p.left_agreed.encoding, 0);
    p.responder.encodings = p.initiator.encodings;
    run(&p);
    assert_int_equal(p.left_agreed.encoding, p.initiator.encodings);
}

static void each_part_of_one_shot_is_agreed_without_the_other(void **state)
{
    (void)state;
    static const uint8_t parts[] = {EXTENSION_ONESHOT_ADVERTISE, EXTENSION_ONESHOT_CLOSE};
    for (unsigned i = 0; i < 2; i++) {
        struct pair p = extended();
        p.responder.encodings = EXTENSION_ONESHOT_ENCODINGS | parts[i];
        run(&p);
        assert_int_equal(p.left_agreed.encoding, EXTENSION_ONESHOT_FLAGS | parts[i]);
        p.initiator.encodings = EXTENSION_ONESHOT_ENCODINGS | parts[1 - i];
        run(&p);
        assert_int_equal(p.left_agreed.encoding, 0);
    }
}

static void no_allotment_on_one_side_means_none(void **state)
{
    (void)state;
    struct pair p = extended();
    p.initiator.allotment_len = 0;
    run(&p);
    assert_int_equal(p.left_agreed.allotment_len, 0);
}

static void agreement_is_one_trace_line(void **state)
{
    (void)state;
    char line[200];
    struct pair p = extended();
    p.initiator.ird = 5;
    run(&p);
    assert_string_equal(mpa_agreement_format(&p.left_agreed, line, sizeof line),
                        "rev=2 enhanced crc ird=5 ord=4 rtr=0x0 extensions oneshot=31 "
                        "allotment=32768");
    mpa_agreement_format(&p.left_agreed, line, 10);
    assert_int_equal(strlen(line), 9);
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
        cmocka_unit_test(extensions_are_agreed_when_both_want_them),
        cmocka_unit_test(application_does_not_see_the_block),
        cmocka_unit_test(extensions_work_in_revision_1_too),
        cmocka_unit_test(responder_that_was_not_asked_sends_no_block),
        cmocka_unit_test(responder_that_does_not_want_them_sends_no_block),
        cmocka_unit_test(no_room_in_256_octets_means_no_extensions),
        cmocka_unit_test(echo_without_a_block_is_recognised),
        cmocka_unit_test(block_for_another_request_is_left_to_the_application),
        cmocka_unit_test(responder_uses_nothing_before_the_choices),
        cmocka_unit_test(choices_confirm_what_both_have),
        cmocka_unit_test(any_other_first_fpdu_means_no_extensions),
        cmocka_unit_test(choices_that_were_not_offered_are_refused),
        cmocka_unit_test(both_ends_have_agreed_on_the_same),
        cmocka_unit_test(choices_may_be_less_than_was_offered),
        cmocka_unit_test(what_was_not_confirmed_is_forgotten),
        cmocka_unit_test(markers_that_are_wanted_are_not_waited_for),
        cmocka_unit_test(a_wish_for_crcs_may_be_taken_back),
        cmocka_unit_test(a_block_needs_no_room_for_numbers_that_are_not_there),
        cmocka_unit_test(no_encoding_in_common_leaves_the_other_extensions),
        cmocka_unit_test(each_part_of_one_shot_is_agreed_without_the_other),
        cmocka_unit_test(no_allotment_on_one_side_means_none),
        cmocka_unit_test(agreement_is_one_trace_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
