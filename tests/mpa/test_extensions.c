// What both ends of MPA's start-up have agreed on beyond the RFCs: the extensions, offered,
// confirmed and turned down.
#include "tests/mpa/startup_pair.h"

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
    struct pair p = extended();
    p.responder.private_data = span_of("welcome", 7);
    run(&p);
    assert_int_equal(p.reply_len, 24 + 7 + EXTENSION_BLOCK_LEN);
    assert_int_equal(p.reply_facts.private_data.len, 7);
    assert_memory_equal(p.reply_facts.private_data.ptr, "welcome", 7);
}

static void extensions_work_in_revision_1_too(void **state)
{
    struct pair p = extended();
    p.initiator.revision = 1;
    assert_int_equal(run(&p), MPA_STARTUP_OK);
    assert_true(p.left_agreed.extensions);
    assert_int_equal(p.reply_facts.private_data.len, 0);
}

static void responder_that_was_not_asked_sends_no_block(void **state)
{
    struct pair p = extended();
    p.initiator.extensions = false;
    run(&p);
    assert_int_equal(p.reply_len, 24);
    assert_false(p.right_agreed.extensions || p.left_agreed.extensions);
}

static void responder_that_does_not_want_them_sends_no_block(void **state)
{
    struct pair p = extended();
    p.responder.extensions = false;
    run(&p);
    assert_int_equal(p.reply_len, 24);
    assert_false(p.left_agreed.extensions);
    assert_int_equal(p.left_agreed.extension_verdict, EXTENSION_ABSENT);
}

static void no_room_in_256_octets_means_no_extensions(void **state)
{
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
    struct pair p = extended();
    assert_int_equal(reply_by_hand(&p, 0x5402, "\0\4\0\4", 4), MPA_STARTUP_OK);
    assert_false(p.left_agreed.extensions);
    assert_true(p.left_agreed.peer_echoes);
}

static void block_for_another_request_is_left_to_the_application(void **state)
{
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
    struct pair p = extended();
    p.initiator.marker_wish = true;
    run(&p);
    assert_true(p.right_agreed.extensions_await_choices);
    assert_false(p.right_agreed.tx_markers);
}

static void choices_confirm_what_both_have(void **state)
{
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
    struct pair p = extended();
    p.responder.marker_wish = p.responder.markers_wanted = true;
    run(&p);
    assert_true(p.right_agreed.rx_markers);
    assert_false(p.right_agreed.rx_markers_if_seen);
}

static void a_wish_for_crcs_may_be_taken_back(void **state)
{
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
    struct pair p = extended();
    p.initiator.allotment_len = 0;
    run(&p);
    assert_int_equal(p.left_agreed.allotment_len, 0);
}

static void agreement_is_one_trace_line(void **state)
{
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
