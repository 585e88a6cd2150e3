// One connection's life, step by step: who learns what, when, and how it ends.
#include <errno.h>

#include "tests/conn/pair.h"

static struct pair p;

/* ---- the way to ESTABLISHED ------------------------------------------------------------------ */

static void request_waits_until_tcp_is_up(void **state)
{
    struct conn_params params = params_of("hello", 4, 4);
    pair_init(&p, NULL, NULL);
    assert_int_equal(conn_connect(&p.initiator, &params), 0);
    assert_int_equal(conn_output(&p.initiator).len, 0);
    conn_on_llp_connected(&p.initiator, p.now);
    assert_int_equal(conn_output(&p.initiator).len, 20 + 4 + 5);
}

static void responder_learns_what_the_request_says(void **state)
{
    struct conn_params params = params_of("hello", 3, 7);
    pair_init(&p, NULL, NULL);
    pair_request(&p, &params);
    struct conn_event event = event_of(&p.responder);
    assert_int_equal(event.type, CONN_EVENT_REQUEST);
    assert_int_equal(event.ird, 3);
    assert_int_equal(event.ord, 7);
    assert_int_equal(event.private_data.len, 5);
    assert_memory_equal(event.private_data.ptr, "hello", 5);
    assert_int_equal(conn_next_deadline(&p.responder), INSTANT_NEVER);
}

static void accept_establishes_both_ends(void **state)
{
    struct conn_params params = params_of("hello", 4, 4), answer = params_of("welcome", 4, 2);
    pair_init(&p, NULL, NULL);
    pair_request(&p, &params);
    event_of(&p.responder);
    assert_int_equal(conn_accept(&p.responder, &answer, p.now), 0);
    assert_no_event(&p.responder);
    carry(&p.responder, &p.initiator, MPA_STARTUP_MAX_LEN, p.now);

    struct conn_event responder = event_of(&p.responder), initiator = event_of(&p.initiator);
    assert_int_equal(responder.type, CONN_EVENT_ESTABLISHED);
    assert_int_equal(initiator.type, CONN_EVENT_ESTABLISHED);
    assert_int_equal(initiator.ird, 4);
    assert_int_equal(initiator.ord, 2); // the responder's, not its own
    assert_memory_equal(initiator.private_data.ptr, "welcome", 7);
    assert_int_equal(responder.ird, 4); // what was agreed: it heard what was asked for before
    assert_int_equal(responder.ord, 2);
    assert_int_equal(responder.private_data.len, 0);
    assert_int_equal(p.counters.established, 2);
    assert_int_equal(p.counters.requests_sent, 1);
    assert_int_equal(p.counters.requests_received, 1);
    assert_int_equal(p.counters.replies_sent, 1);
    assert_int_equal(p.counters.replies_received, 1);
}

// They are the caller's memory: an established connection does without.
static void frames_are_given_back_when_both_have_gone(void **state)
{
    struct conn_params params = params_of("hello", 4, 4), answer = params_of("welcome", 4, 4);
    pair_init(&p, NULL, NULL);
    pair_request(&p, &params);
    assert_null(conn_frames_back(&p.initiator));
    assert_null(conn_frames_back(&p.responder)); // its Request is not taken yet
    event_of(&p.responder);
    assert_null(conn_frames_back(&p.responder)); // its Reply is not made yet
    assert_int_equal(conn_accept(&p.responder, &answer, p.now), 0);
    assert_null(conn_frames_back(&p.responder));
    carry(&p.responder, &p.initiator, MPA_STARTUP_MAX_LEN, p.now);
    assert_null(conn_frames_back(&p.initiator)); // the event has the peer's private data
    event_of(&p.initiator);
    event_of(&p.responder);
    assert_ptr_equal(conn_frames_back(&p.initiator), &p.of_initiator);
    assert_ptr_equal(conn_frames_back(&p.responder), &p.of_responder);
    assert_null(conn_frames_back(&p.initiator));
    assert_int_equal(conn_agreement(&p.initiator)->ord, 4);
    conn_check(&p.initiator);
    conn_check(&p.responder);
}

static void initiator_that_is_its_own_peer_asks_nobody(void **state)
{
    struct conn_params params = params_of("", 3, 7);
    pair_init(&p, NULL, NULL);
    assert_int_equal(conn_connect_to_itself(&p.initiator, &params), 0);
    assert_int_equal(event_of(&p.initiator).type, CONN_EVENT_ESTABLISHED);
    assert_int_equal(conn_output(&p.initiator).len, 0);
    assert_int_equal(conn_next_deadline(&p.initiator), INSTANT_NEVER);
    const struct mpa_agreement *agreed = conn_agreement(&p.initiator);
    assert_true(agreed->extensions);
    assert_int_equal(agreed->ird, 3);
    assert_int_equal(agreed->ord, 3); // no more than it serves
    assert_int_equal(conn_connect_to_itself(&p.initiator, &params), -EISCONN);
    assert_int_equal(conn_connect_to_itself(&p.responder, &params), -EISCONN);
}

static void peer_to_peer_waits_for_the_indication(void **state)
{
    struct conn_params params = params_of("", 4, 4);
    struct conn_config initiator = pair_config(&p, true);
    initiator.peer_to_peer = true;
    pair_init(&p, &initiator, NULL);
    pair_request(&p, &params);
    event_of(&p.responder);
    conn_accept(&p.responder, &params, p.now);
    carry(&p.responder, &p.initiator, MPA_STARTUP_MAX_LEN, p.now);

    assert_int_equal(event_of(&p.initiator).type, CONN_EVENT_ESTABLISHED);
    assert_int_equal(conn_agreement(&p.initiator)->rtr, MPA_RTR_WRITE);
    assert_int_equal(p.responder.state, CONN_WAIT_RTR);
    assert_no_event(&p.responder);
    conn_on_first_fpdu(&p.responder, p.now);
    assert_int_equal(event_of(&p.responder).type, CONN_EVENT_ESTABLISHED);
}

static void application_may_ask_for_the_reply_first(void **state)
{
    struct conn_params params = params_of("", 4, 4), answer = params_of("yes", 4, 4);
    params.wants_reply = true;
    pair_init(&p, NULL, NULL);
    pair_request(&p, &params);
    conn_accept(&p.responder, &answer, p.now);
    carry(&p.responder, &p.initiator, MPA_STARTUP_MAX_LEN, p.now);

    struct conn_event event = event_of(&p.initiator);
    assert_int_equal(event.type, CONN_EVENT_REPLY);
    assert_memory_equal(event.private_data.ptr, "yes", 3);
    assert_false(conn_is_established(&p.initiator));
    assert_int_equal(conn_establish(&p.initiator, p.now), 0);
    assert_int_equal(event_of(&p.initiator).type, CONN_EVENT_ESTABLISHED);
    assert_int_equal(conn_establish(&p.initiator, p.now), -ENOTCONN);
}

static void reject_reaches_the_initiator_with_its_private_data(void **state)
{
    struct conn_params params = params_of("", 4, 4), answer = params_of("no", 0, 0);
    pair_init(&p, NULL, NULL);
    pair_request(&p, &params);
    event_of(&p.responder);
    assert_int_equal(conn_reject(&p.responder, &answer, p.now), 0);
    carry(&p.responder, &p.initiator, MPA_STARTUP_MAX_LEN, p.now);

    struct conn_event event = event_of(&p.initiator);
    assert_int_equal(event.type, CONN_EVENT_REJECTED);
    assert_int_equal(event.private_data.len, 2);
    assert_memory_equal(event.private_data.ptr, "no", 2);
    assert_int_equal(event_of(&p.responder).type, CONN_EVENT_REJECT_SENT);
    assert_true(conn_is_over(&p.initiator) && conn_is_over(&p.responder));
    assert_int_equal(p.counters.rejects_sent, 1);
    assert_int_equal(p.counters.rejects_received, 1);
}

static void frames_may_be_cut_at_every_octet(void **state)
{
    struct conn_params params = params_of("hello", 4, 4), answer = params_of("welcome", 4, 4);
    for (size_t cut = 1; cut < 20 + 4 + 7; cut++) {
        pair_init(&p, NULL, NULL);
        conn_connect(&p.initiator, &params);
        conn_on_llp_connected(&p.initiator, p.now);
        carry(&p.initiator, &p.responder, cut, p.now);
        carry(&p.initiator, &p.responder, MPA_STARTUP_MAX_LEN, p.now);
        assert_int_equal(event_of(&p.responder).type, CONN_EVENT_REQUEST);
        conn_accept(&p.responder, &answer, p.now);
        carry(&p.responder, &p.initiator, cut, p.now);
        assert_no_event(&p.initiator);
        carry(&p.responder, &p.initiator, MPA_STARTUP_MAX_LEN, p.now);
        assert_int_equal(event_of(&p.initiator).type, CONN_EVENT_ESTABLISHED);
    }
}

static void octets_behind_the_frame_are_left_alone(void **state)
{
    uint8_t octets[MPA_STARTUP_MAX_LEN + 9] = {0};
    struct mpa_startup_frame reply = {.kind = MPA_REPLY, .revision = 2, .enhanced = true};
    struct conn_params params = params_of("", 0, 0);
    pair_init(&p, NULL, NULL);
    conn_connect(&p.initiator, &params);
    conn_on_llp_connected(&p.initiator, p.now);
    size_t len = mpa_startup_frame_emit(&reply, octets);
    assert_int_equal(conn_on_input(&p.initiator, span_of(octets, len + 9), p.now), len);
    assert_int_equal(conn_on_input(&p.initiator, span_of(octets + len, 9), p.now), 0);
}

/* ---- siw ------------------------------------------------------------------------------------- */

static const struct mpa_startup_frame siw_reply = {.kind = MPA_REPLY,
                                                   .revision = 2,
                                                   .enhanced = true,
                                                   .crc = true,
                                                   .reserved = MPA_FLAG_EXTENSIONS,
                                                   .ird = 4,
                                                   .ord = 4};

static void offer_to_siw(struct conn_params params)
{
    struct conn_config initiator = pair_config(&p, true);
    initiator.extensions = true;
    pair_init(&p, &initiator, NULL);
    conn_connect(&p.initiator, &params);
    conn_on_llp_connected(&p.initiator, p.now);
    give_frame(&p.initiator, &siw_reply, p.now);
}

static void first_fpdu_to_siw_waits_20_ms(void **state)
{
    offer_to_siw(params_of("", 4, 4));
    assert_no_event(&p.initiator);
    assert_int_equal(conn_next_deadline(&p.initiator), p.now + 20 * NS_PER_MS);
    conn_on_deadline(&p.initiator, p.now + 20 * NS_PER_MS - 1);
    assert_no_event(&p.initiator);
    conn_on_deadline(&p.initiator, p.now + 20 * NS_PER_MS);
    assert_int_equal(event_of(&p.initiator).type, CONN_EVENT_ESTABLISHED);
    assert_true(conn_agreement(&p.initiator)->peer_echoes);
    assert_false(conn_agreement(&p.initiator)->extensions);
    assert_int_equal(p.counters.holds, 1);
}

static void early_establish_to_siw_waits_for_the_rest(void **state)
{
    struct conn_params params = params_of("", 4, 4);
    params.wants_reply = true;
    offer_to_siw(params);
    assert_int_equal(event_of(&p.initiator).type, CONN_EVENT_REPLY);
    assert_int_equal(conn_establish(&p.initiator, p.now + 5 * NS_PER_MS), 0);
    assert_no_event(&p.initiator);
    assert_int_equal(conn_next_deadline(&p.initiator), p.now + 20 * NS_PER_MS);
    conn_on_deadline(&p.initiator, p.now + 20 * NS_PER_MS);
    assert_int_equal(event_of(&p.initiator).type, CONN_EVENT_ESTABLISHED);
}

static void late_establish_to_siw_need_not_wait(void **state)
{
    struct conn_params params = params_of("", 4, 4);
    params.wants_reply = true;
    offer_to_siw(params);
    event_of(&p.initiator);
    assert_int_equal(conn_establish(&p.initiator, p.now + 20 * NS_PER_MS), 0);
    assert_int_equal(event_of(&p.initiator).type, CONN_EVENT_ESTABLISHED);
}

/* ---- refusals of our own application's calls ------------------------------------------------- */

static void too_much_private_data_changes_nothing(void **state)
{
    static const uint8_t much[MPA_PRIVATE_DATA_MAX_LEN + 1];
    struct conn_params params = params_of("", 4, 4);
    struct conn_params too_much = {.private_data = span_of(much, 509)};
    pair_init(&p, NULL, NULL);
    assert_int_equal(conn_connect(&p.initiator, &too_much), -EINVAL);
    pair_request(&p, &params);
    assert_int_equal(conn_accept(&p.responder, &too_much, p.now), -EINVAL);
    assert_int_equal(conn_reject(&p.responder, &too_much, p.now), -EINVAL);
    assert_int_equal(conn_accept(&p.responder, &params, p.now), 0);
}

static void answers_need_a_request(void **state)
{
    struct conn_params params = params_of("", 4, 4);
    pair_init(&p, NULL, NULL);
    assert_int_equal(conn_accept(&p.responder, &params, p.now), -ENOTCONN);
    assert_int_equal(conn_reject(&p.responder, &params, p.now), -ENOTCONN);
    pair_request(&p, &params);
    assert_int_equal(conn_connect(&p.initiator, &params), -EISCONN);
    assert_int_equal(conn_accept(&p.responder, &params, p.now), 0);
    assert_int_equal(conn_accept(&p.responder, &params, p.now), -ENOTCONN);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void assert_failed(struct conn *conn, enum conn_failure failure, int status,
                          enum terminate_cause cause)
{
    struct conn_event event = event_of(conn);
    assert_int_equal(event.type, CONN_EVENT_FAILED);
    assert_string_equal(conn_failure_name(event.failure), conn_failure_name(failure));
    assert_int_equal(event.status, status);
    assert_int_equal(event.cause, cause);
    assert_ptr_equal(event.text, conn_failure_text(failure));
    assert_int_equal(p.counters.refusals[failure], 1);
    assert_int_equal(conn_next_deadline(conn), INSTANT_NEVER);
    assert_int_equal(conn_output(conn).len, 0);
}

static void assert_expires(struct conn *conn, instant_ns at, enum conn_failure failure)
{
    assert_int_equal(conn_next_deadline(conn), at);
    conn_on_deadline(conn, at - 1);
    assert_no_event(conn);
    conn_on_deadline(conn, at);
    assert_failed(conn, failure, -ETIMEDOUT, TERM_NONE);
    assert_int_equal(p.counters.timeouts, 1);
}

static void silence_instead_of_a_request_times_out(void **state)
{
    pair_init(&p, NULL, NULL);
    assert_expires(&p.responder, p.now + 5 * NS_PER_S, CONN_FAILURE_REQUEST_TIMEOUT);
}

static void silence_instead_of_a_reply_times_out(void **state)
{
    struct conn_params params = params_of("", 4, 4);
    pair_init(&p, NULL, NULL);
    conn_connect(&p.initiator, &params);
    assert_int_equal(conn_next_deadline(&p.initiator), INSTANT_NEVER);
    conn_on_llp_connected(&p.initiator, p.now + 7);
    assert_expires(&p.initiator, p.now + 7 + 10 * NS_PER_S, CONN_FAILURE_REPLY_TIMEOUT);
}

static void missing_indication_times_out(void **state)
{
    struct conn_params params = params_of("", 4, 4);
    struct conn_config initiator = pair_config(&p, true);
    initiator.peer_to_peer = true;
    pair_init(&p, &initiator, NULL);
    pair_request(&p, &params);
    event_of(&p.responder);
    conn_accept(&p.responder, &params, p.now);
    carry(&p.responder, &p.initiator, MPA_STARTUP_MAX_LEN, p.now + 3);
    assert_expires(&p.responder, p.now + 3 + 10 * NS_PER_S, CONN_FAILURE_RTR_TIMEOUT);
}

static void unwritten_reply_times_out(void **state)
{
    struct conn_params params = params_of("", 4, 4);
    pair_init(&p, NULL, NULL);
    pair_request(&p, &params);
    event_of(&p.responder);
    conn_reject(&p.responder, &params, p.now);
    conn_on_output(&p.responder, 5, p.now);
    assert_expires(&p.responder, p.now + 10 * NS_PER_S, CONN_FAILURE_WRITE_TIMEOUT);
}

static void end_of_tcp_before_the_reply_is_named(void **state)
{
    struct conn_params params = params_of("", 4, 4);
    pair_init(&p, NULL, NULL);
    conn_connect(&p.initiator, &params);
    conn_on_llp_failed(&p.initiator, -ECONNREFUSED, p.now);
    assert_failed(&p.initiator, CONN_FAILURE_LLP, -ECONNREFUSED, TERM_NONE);
}

static void fin_before_the_answer_takes_the_request_back(void **state)
{
    struct conn_params params = params_of("", 4, 4);
    pair_init(&p, NULL, NULL);
    pair_request(&p, &params);
    conn_on_llp_failed(&p.responder, 0, p.now);
    assert_failed(&p.responder, CONN_FAILURE_LLP_CLOSED, -ECONNRESET, TERM_NONE);
    assert_int_equal(conn_accept(&p.responder, &params, p.now), -ENOTCONN);
}

static void end_of_tcp_after_establishment_is_not_ours_to_report(void **state)
{
    struct conn_params params = params_of("", 4, 4);
    pair_init(&p, NULL, NULL);
    pair_request(&p, &params);
    conn_accept(&p.responder, &params, p.now);
    carry(&p.responder, &p.initiator, MPA_STARTUP_MAX_LEN, p.now);
    event_of(&p.initiator);
    conn_on_llp_failed(&p.initiator, -ECONNRESET, p.now);
    assert_no_event(&p.initiator);
    assert_int_equal(p.initiator.state, CONN_CLOSED);
}

static void fpdu_before_our_reply_is_refused(void **state)
{
    struct conn_params params = params_of("", 4, 4);
    pair_init(&p, NULL, NULL);
    pair_request(&p, &params);
    conn_on_first_fpdu(&p.responder, p.now);
    assert_failed(&p.responder, CONN_FAILURE_EARLY_FPDU, -EPROTO, TERM_NONE);
}

static void give_request(struct mpa_startup_frame frame, uint8_t responder_revision)
{
    struct conn_config responder = pair_config(&p, false);
    responder.revision = responder_revision;
    pair_init(&p, NULL, &responder);
    frame.kind = MPA_REQUEST;
    give_frame(&p.responder, &frame, p.now);
}

static void octets_that_are_not_mpa_are_refused(void **state)
{
    pair_init(&p, NULL, NULL);
    conn_on_input(&p.responder, span_of("GET / HTTP/1.1\r\n\r\n", 18), p.now);
    assert_failed(&p.responder, CONN_FAILURE_BAD_KEY, -EPROTO, TERM_NONE);
}

static void reply_in_place_of_a_request_is_refused(void **state)
{
    pair_init(&p, NULL, NULL);
    give_frame(&p.responder, &siw_reply, p.now);
    assert_failed(&p.responder, CONN_FAILURE_WRONG_ROLE, -EPROTO, TERM_NONE);
}

static void revision_3_is_refused(void **state)
{
    give_request((struct mpa_startup_frame){.revision = 3}, 2);
    assert_failed(&p.responder, CONN_FAILURE_REVISION, -EPROTO, TERM_NONE);
}

static void private_data_over_512_octets_is_refused(void **state)
{
    static const uint8_t head[20] = {'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'q',
                                     ' ', 'F', 'r', 'a', 'm', 'e', 0,   1,   2,   1};
    pair_init(&p, NULL, NULL);
    conn_on_input(&p.responder, span_of(head, sizeof head), p.now);
    assert_failed(&p.responder, CONN_FAILURE_PD_TOO_LONG, -EPROTO, TERM_NONE);
}

static void enhanced_request_without_its_octets_is_refused(void **state)
{
    static const uint8_t head[20] = {'M', 'P', 'A', ' ', 'I', 'D', ' ',  'R', 'e', 'q',
                                     ' ', 'F', 'r', 'a', 'm', 'e', 0x10, 2,   0,   3};
    pair_init(&p, NULL, NULL);
    conn_on_input(&p.responder, span_of(head, sizeof head), p.now);
    assert_failed(&p.responder, CONN_FAILURE_ENHANCED_MISSING, -EPROTO, TERM_NONE);
}

static void enhanced_request_is_refused_where_only_revision_1_may_be(void **state)
{
    give_request((struct mpa_startup_frame){.revision = 2, .enhanced = true}, 1);
    assert_failed(&p.responder, CONN_FAILURE_ENHANCED_UNSUPPORTED, -EPROTO, TERM_NONE);
}

static void give_reply(struct mpa_startup_frame frame, bool peer_to_peer)
{
    struct conn_config initiator = pair_config(&p, true);
    struct conn_params params = params_of("", 4, 4);
    initiator.peer_to_peer = peer_to_peer;
    pair_init(&p, &initiator, NULL);
    conn_connect(&p.initiator, &params);
    conn_on_llp_connected(&p.initiator, p.now);
    conn_on_output(&p.initiator, conn_output(&p.initiator).len, p.now);
    frame.kind = MPA_REPLY;
    give_frame(&p.initiator, &frame, p.now);
}

static void plain_reply_to_an_enhanced_request_is_refused(void **state)
{
    give_reply((struct mpa_startup_frame){.revision = 1}, false);
    assert_failed(&p.initiator, CONN_FAILURE_ENHANCED_MISMATCH, -EPROTO, TERM_NONE);
    assert_null(conn_agreement(&p.initiator));
}

static void responder_that_reads_too_much_is_terminated(void **state)
{
    give_reply((struct mpa_startup_frame){.revision = 2, .enhanced = true, .ird = 4, .ord = 129},
               false);
    assert_failed(&p.initiator, CONN_FAILURE_INSUFFICIENT_IRD, -EPROTO, TERM_MPA_INSUFFICIENT_IRD);
    assert_non_null(conn_agreement(&p.initiator));
}

static void responder_without_a_common_indication_is_terminated(void **state)
{
    give_reply((struct mpa_startup_frame){.revision = 2,
                                          .enhanced = true,
                                          .peer_to_peer = true,
                                          .rtr_send = true,
                                          .ird = 4,
                                          .ord = 4},
               true);
    assert_failed(&p.initiator, CONN_FAILURE_NO_RTR, -EPROTO, TERM_MPA_NO_RTR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_waits_until_tcp_is_up),
        cmocka_unit_test(responder_learns_what_the_request_says),
        cmocka_unit_test(accept_establishes_both_ends),
        cmocka_unit_test(frames_are_given_back_when_both_have_gone),
        cmocka_unit_test(initiator_that_is_its_own_peer_asks_nobody),
        cmocka_unit_test(peer_to_peer_waits_for_the_indication),
        cmocka_unit_test(application_may_ask_for_the_reply_first),
        cmocka_unit_test(reject_reaches_the_initiator_with_its_private_data),
        cmocka_unit_test(frames_may_be_cut_at_every_octet),
        cmocka_unit_test(octets_behind_the_frame_are_left_alone),
        cmocka_unit_test(first_fpdu_to_siw_waits_20_ms),
        cmocka_unit_test(early_establish_to_siw_waits_for_the_rest),
        cmocka_unit_test(late_establish_to_siw_need_not_wait),
        cmocka_unit_test(too_much_private_data_changes_nothing),
        cmocka_unit_test(answers_need_a_request),
        cmocka_unit_test(silence_instead_of_a_request_times_out),
        cmocka_unit_test(silence_instead_of_a_reply_times_out),
        cmocka_unit_test(missing_indication_times_out),
        cmocka_unit_test(unwritten_reply_times_out),
        cmocka_unit_test(end_of_tcp_before_the_reply_is_named),
        cmocka_unit_test(fin_before_the_answer_takes_the_request_back),
        cmocka_unit_test(end_of_tcp_after_establishment_is_not_ours_to_report),
        cmocka_unit_test(fpdu_before_our_reply_is_refused),
        cmocka_unit_test(octets_that_are_not_mpa_are_refused),
        cmocka_unit_test(reply_in_place_of_a_request_is_refused),
        cmocka_unit_test(revision_3_is_refused),
        cmocka_unit_test(private_data_over_512_octets_is_refused),
        cmocka_unit_test(enhanced_request_without_its_octets_is_refused),
        cmocka_unit_test(enhanced_request_is_refused_where_only_revision_1_may_be),
        cmocka_unit_test(plain_reply_to_an_enhanced_request_is_refused),
        cmocka_unit_test(responder_that_reads_too_much_is_terminated),
        cmocka_unit_test(responder_without_a_common_indication_is_terminated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
