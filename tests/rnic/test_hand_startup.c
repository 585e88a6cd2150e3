// How a stream begins, or does not: each answer of the link and of the peer, and what the program
// is told. The link and time are the test's.
#include <errno.h>
#include <string.h>

#include "rnic/ep/ep.h"
#include "tests/iwarp/craft.h"
#include "tests/rnic/hand_world.h"
#include "tests/rnic/raw.h"

static const struct rnic_ep_params params = {
    .private_data = "hello", .private_data_len = 5, .ird = 3, .ord = 4};

/* ---- connecting ------------------------------------------------------------------------------ */

static const struct sockaddr_in there = {
    .sin_family = AF_INET, .sin_port = 0x3412, .sin_addr = {7}};

// The stream has no room before it is connected.
static struct hand_stream *begin_connect(struct rnic_qp *qp)
{
    end_bind(&hand.end);
    struct hand_stream *s = hand_of(&hand.end);
    s->room = 0;
    assert_int_equal(rnic_ep_connect(hand.end.ep, (const struct sockaddr *)&there, qp, &params), 0);
    assert_memory_equal(&s->peer, &there, sizeof there);
    return s;
}

static struct hand_stream *connect_to_peer(void)
{
    hand.link->connect_error = -EINPROGRESS;
    hand.link->result = 0;
    struct hand_stream *s = begin_connect(hand.end.qp);
    s->room = SIZE_MAX;
    hand_run();
    return s;
}

static const struct {
    int error;
    enum rnic_ep_event_type type;
} failures[] = {
    {-ECONNRESET, RNIC_EP_REJECTED},      {-ETIMEDOUT, RNIC_EP_UNREACHABLE},
    {-EHOSTUNREACH, RNIC_EP_UNREACHABLE}, {-ENETUNREACH, RNIC_EP_UNREACHABLE},
    {-ENOBUFS, RNIC_EP_CONNECT_ERROR},    {-EPIPE, RNIC_EP_CONNECT_ERROR},
};
enum { FAILURE_COUNT = sizeof failures / sizeof failures[0] };

static void expect_failed(const struct hand_stream *s, unsigned i)
{
    struct sockaddr_storage addr;
    const struct rnic_ep_event event = hand_event(&hand.end, failures[i].type);
    assert_int_equal(event.status, failures[i].error);
    assert_false(end_has_event(&hand.end));
    assert_false(s->is_open);
    assert_false(s->is_aborted);
    assert_int_equal(rnic_ep_local_addr(hand.end.ep, &addr), -ENOTCONN);
    assert_int_equal(rnic_ep_peer_addr(hand.end.ep, &addr), -ENOTCONN);
    assert_int_equal(rnic_ep_set_tos(hand.end.ep, 8), -ENOTCONN);
    assert_int_equal(rnic_ep_accept(hand.end.ep, hand.end.qp, &params), -ECONNRESET);
    assert_int_equal(rnic_ep_disconnect(hand.end.ep), 0);
    assert_int_equal(rnic_next_deadline(hand.device.rnic), INSTANT_NEVER);
    hand_end_anew();
}

static void a_connect_that_fails_at_once_is_told_by_its_error(void **state)
{
    for (unsigned i = 0; i < FAILURE_COUNT; i++) {
        hand.link->connect_error = failures[i].error;
        expect_failed(begin_connect(hand.end.qp), i);
    }
}

static void a_connect_that_fails_later_is_told_by_its_error(void **state)
{
    for (unsigned i = 0; i < FAILURE_COUNT; i++) {
        hand.link->connect_error = hand.link->result = -EINPROGRESS;
        struct hand_stream *s = begin_connect(hand.end.qp);
        assert_true(s->wants_out);
        hand_run();
        assert_false(end_has_event(&hand.end));
        hand.link->result = failures[i].error;
        s->said = LINK_READY_ERR;
        hand_run();
        expect_failed(s, i);
    }
}

static void a_request_that_cannot_be_sent_is_told_by_its_error(void **state)
{
    for (unsigned i = 0; i < FAILURE_COUNT; i++) {
        hand.link->connect_error = hand.link->result = -EINPROGRESS;
        struct hand_stream *s = begin_connect(hand.end.qp);
        hand.link->result = 0;
        s->send_error = failures[i].error;
        s->room = SIZE_MAX;
        hand_run();
        expect_failed(s, i);
    }
}

static void a_request_says_what_the_program_and_the_device_want(void **state)
{
    struct mpa_startup_frame frame;
    struct hand_stream *s = connect_to_peer();
    assert_int_equal(hand_heard(s, MPA_REQUEST, &frame), s->out_len);
    assert_int_equal(frame.revision, 2);
    assert_true(frame.enhanced);
    assert_false(frame.crc);
    assert_false(frame.markers);
    assert_int_equal(frame.ird, params.ird);
    assert_int_equal(frame.ord, params.ord);
    assert_true((frame.reserved & MPA_FLAG_EXTENSIONS) != 0);
    assert_int_equal(frame.private_data.len, 5);
    assert_memory_equal(frame.private_data.ptr, "hello", 5);
    assert_false(s->wants_out);
}

static void a_request_names_the_first_fpdus_that_may_come(void **state)
{
    struct mpa_startup_frame frame;
    struct rnic_config config = hand_config();
    config.peer_to_peer = true;
    hand_close();
    hand_open(&config, 0, 0);
    hand_heard(connect_to_peer(), MPA_REQUEST, &frame);
    assert_true(frame.peer_to_peer);
    assert_true(frame.rtr_write);
    assert_true(frame.rtr_read);
    assert_false(frame.rtr_send);
}

// Nothing can happen to octets that never leave the host, but who insists has it.
static void a_crc_is_asked_for_where_octets_leave_the_host(void **state)
{
    static const struct {
        unsigned facts;
        bool crc, crc_within_host, is_asked_for;
    } rows[] = {{0, true, false, true},
                {0, false, true, false},
                {LINK_IS_OF_HOST, true, false, false},
                {LINK_IS_OF_HOST, true, true, true},
                {LINK_LENDS, true, false, true}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mpa_startup_frame frame;
        struct rnic_config config = hand_config();
        config.crc = rows[i].crc;
        config.crc_within_host = rows[i].crc_within_host;
        hand_close();
        hand_open(&config, rows[i].facts, 0);
        hand_heard(connect_to_peer(), MPA_REQUEST, &frame);
        assert_int_equal(frame.crc, rows[i].is_asked_for);
        hand_end_anew();
        const struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
        struct hand_stream *s = hand_arrive();
        hand_say(s, &request);
        hand_run();
        end_take_request(&hand.end, &hand.listener);
        end_accept(&hand.end);
        hand_heard(s, MPA_REPLY, &frame);
        assert_int_equal(frame.crc, rows[i].is_asked_for);
    }
}

static void an_address_of_ipv6_is_connected_to_whole(void **state)
{
    const struct sockaddr_in6 to = {.sin6_family = AF_INET6,
                                    .sin6_port = htons(7),
                                    .sin6_addr = {.s6_addr = {0xfe, 0x80, [15] = 9}},
                                    .sin6_scope_id = 3};
    hand.link->connect_error = 0;
    end_bind(&hand.end);
    assert_int_equal(
        rnic_ep_connect(hand.end.ep, (const struct sockaddr *)&to, hand.end.qp, &params), 0);
    assert_memory_equal(&hand_of(&hand.end)->peer, &to, sizeof to);
}

static void a_request_leaves_as_there_is_room(void **state)
{
    struct mpa_startup_frame frame;
    hand.link->connect_error = -EINPROGRESS;
    struct hand_stream *s = begin_connect(hand.end.qp);
    assert_true(s->wants_out);
    for (size_t sent = 0; sent < MPA_STARTUP_HEADER_LEN; sent++) {
        assert_int_equal(s->out_len, sent);
        s->room = 1;
        hand_run();
        assert_true(s->wants_out);
    }
    s->room = SIZE_MAX;
    hand_run();
    assert_int_equal(hand_heard(s, MPA_REQUEST, &frame), s->out_len);
    assert_false(s->wants_out);
    assert_int_equal(device_count(&hand.device, "requests_sent"), 1);
}

/* ---- refused, and tried again ---------------------------------------------------------------- */

static void a_refused_connect_is_tried_again_from_the_same_address(void **state)
{
    struct mpa_startup_frame frame;
    hand.link->connect_error = -ECONNREFUSED;
    end_bind(&hand.end);
    struct hand_stream *first = hand_of(&hand.end);
    assert_int_equal(rnic_ep_set_tos(hand.end.ep, 0x28), 0);
    assert_int_equal(first->tos, 0x28);
    assert_int_equal(
        rnic_ep_connect(hand.end.ep, (const struct sockaddr *)&there, hand.end.qp, &params), 0);
    assert_false(first->is_open);
    assert_true(first->is_aborted);
    assert_int_equal(rnic_next_deadline(hand.device.rnic), hand.now + CONN_RETRY_PAUSE_NS);
    const unsigned made = hand.link->count;
    hand_pass(CONN_RETRY_PAUSE_NS - 1);
    assert_int_equal(hand.link->count, made);
    hand.link->connect_error = 0;
    hand_pass(1);
    assert_int_equal(hand.link->count, made + 1);
    struct hand_stream *second = hand_of(&hand.end);
    const struct sockaddr_in *from = (const struct sockaddr_in *)&hand.link->bound_to;
    assert_int_equal(from->sin_port, htons(4711));
    assert_int_equal(hand.link->bind_flags, LINK_BIND_REUSE);
    assert_int_equal(second->tos, 0x28);
    assert_memory_equal(&second->peer, &there, sizeof there);
    assert_int_equal(hand_heard(second, MPA_REQUEST, &frame), second->out_len);
    assert_int_equal(rnic_next_deadline(hand.device.rnic), hand.now + DEVICE_PATIENCE_NS);
}

static void a_refused_connect_without_an_address_takes_any(void **state)
{
    struct sockaddr_storage addr;
    hand.link->connect_error = hand.link->result = -EINPROGRESS;
    struct hand_stream *first = begin_connect(hand.end.qp);
    hand.link->result = -ECONNREFUSED;
    first->said = LINK_READY_ERR;
    hand_run();
    assert_int_equal(rnic_ep_local_addr(hand.end.ep, &addr), -ENOTCONN); // there is no stream
    hand.link->local_error = -EINVAL;
    hand.link->bind_error = 0;
    hand_pass(CONN_RETRY_PAUSE_NS); // refused once more
    hand.link->result = -EINPROGRESS;
    hand_pass(CONN_RETRY_PAUSE_NS);
    assert_int_equal(hand.link->bound_to.ss_family, AF_UNSPEC);
    assert_int_equal(hand_of(&hand.end)->tos, 0);
    assert_true(hand_of(&hand.end)->wants_out);
}

static void a_connect_that_is_refused_for_long_is_rejected(void **state)
{
    hand.link->connect_error = -EINPROGRESS;
    hand.link->result = -ECONNREFUSED;
    const instant_ns begun_ns = hand.now;
    const unsigned made = hand.link->count;
    begin_connect(hand.end.qp);
    while (!end_has_event(&hand.end)) {
        assert_true(hand.now < begun_ns + CONN_RETRY_PATIENCE_NS);
        hand_pass(CONN_RETRY_PAUSE_NS);
    }
    assert_int_equal(hand.now, begun_ns + CONN_RETRY_PATIENCE_NS);
    assert_int_equal(hand.link->count - made, 1 + CONN_RETRY_PATIENCE_NS / CONN_RETRY_PAUSE_NS);
    assert_int_equal(hand_event(&hand.end, RNIC_EP_REJECTED).status, -ECONNREFUSED);
}

static void an_address_that_is_gone_at_the_next_attempt_ends_the_connect(void **state)
{
    hand.link->connect_error = -ECONNREFUSED;
    begin_connect(hand.end.qp);
    hand.link->bind_error = -EADDRINUSE;
    hand_pass(CONN_RETRY_PAUSE_NS);
    assert_int_equal(hand_event(&hand.end, RNIC_EP_CONNECT_ERROR).status, -EADDRINUSE);
    hand.link->bind_error = 0;
}

/* ---- the Reply ------------------------------------------------------------------------------- */

static void a_reply_establishes_whatever_pieces_it_comes_in(void **state)
{
    uint8_t octets[MPA_STARTUP_MAX_LEN];
    struct mpa_startup_frame reply = hand_frame(MPA_REPLY);
    reply.ird = 5;
    reply.ord = 1;
    reply.private_data = span_of("welcome", 7);
    struct hand_stream *s = connect_to_peer();
    const size_t len = mpa_startup_frame_emit(&reply, octets);
    for (size_t i = 0; i < len; i++) {
        assert_false(end_has_event(&hand.end));
        hand_come(s, octets + i, 1);
        hand_run();
    }
    const struct rnic_ep_event event = hand_event(&hand.end, RNIC_EP_ESTABLISHED);
    assert_int_equal(event.status, 0);
    assert_int_equal(event.ird, 5);
    assert_int_equal(event.ord, 1);
    assert_int_equal(event.private_data_len, 7);
    assert_memory_equal(event.private_data, "welcome", 7);
    assert_int_equal(rnic_qp_state(hand.end.qp), QP_RTS);
    assert_int_equal(rnic_next_deadline(hand.device.rnic), INSTANT_NEVER);
    assert_true(s->is_open);
}

static void depths_of_a_reply_are_at_most_the_devices(void **state)
{
    struct mpa_startup_frame reply = hand_frame(MPA_REPLY);
    reply.ird = MPA_IRD_ORD_UNNEGOTIATED;
    reply.ord = 2;
    struct hand_stream *s = connect_to_peer();
    hand_say(s, &reply);
    hand_run();
    const struct rnic_ep_event event = hand_event(&hand.end, RNIC_EP_ESTABLISHED);
    assert_int_equal(event.ird, rnic_limits.max_qp_rd_atom);
    assert_int_equal(event.ord, 2);
}

static void a_rejecting_reply_brings_its_words(void **state)
{
    struct mpa_startup_frame reply = hand_frame(MPA_REPLY);
    reply.reject = true;
    reply.private_data = span_of("no", 2);
    struct hand_stream *s = connect_to_peer();
    hand_say(s, &reply);
    hand_run();
    const struct rnic_ep_event event = hand_event(&hand.end, RNIC_EP_REJECTED);
    assert_int_equal(event.status, -ECONNREFUSED);
    assert_int_equal(event.private_data_len, 2);
    assert_memory_equal(event.private_data, "no", 2);
    assert_false(s->is_open);
    assert_false(s->is_aborted);
    assert_false(end_has_event(&hand.end));
}

static void no_reply_in_time_is_an_unreachable_peer(void **state)
{
    struct hand_stream *s = connect_to_peer();
    hand_pass(DEVICE_PATIENCE_NS - 1);
    assert_false(end_has_event(&hand.end));
    assert_int_equal(rnic_next_deadline(hand.device.rnic), hand.now + 1);
    hand_pass(1);
    assert_int_equal(hand_event(&hand.end, RNIC_EP_UNREACHABLE).status, -ETIMEDOUT);
    assert_false(s->is_open);
}

static void a_stream_that_ends_before_the_reply_is_told_by_its_end(void **state)
{
    static const struct {
        int end, status;
        enum rnic_ep_event_type type;
    } ends[] = {{0, -ECONNRESET, RNIC_EP_REJECTED},
                {-ECONNRESET, -ECONNRESET, RNIC_EP_REJECTED},
                {-ETIMEDOUT, -ETIMEDOUT, RNIC_EP_UNREACHABLE}};
    for (unsigned i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct hand_stream *s = connect_to_peer();
        s->end = ends[i].end;
        hand_run();
        assert_int_equal(hand_event(&hand.end, ends[i].type).status, ends[i].status);
        assert_false(s->is_open);
        hand_end_anew();
    }
}

// RFC 6581 section 8: that one is worth a Terminate, others are closed without a word.
static void a_reply_that_cannot_be_had_is_refused(void **state)
{
    struct mpa_startup_frame reply = hand_frame(MPA_REPLY);
    reply.ord = rnic_limits.max_qp_rd_atom + 1;
    struct hand_stream *s = connect_to_peer();
    const size_t request_len = s->out_len;
    hand_say(s, &reply);
    hand_run();
    assert_int_equal(hand_event(&hand.end, RNIC_EP_CONNECT_ERROR).status, -EPROTO);
    assert_true(s->out_len > request_len);
    assert_false(s->is_open);
    assert_false(end_has_event(&hand.end));
    hand_end_anew();
    s = connect_to_peer();
    hand_come(s, "what is it", 10);
    hand_run();
    assert_int_equal(hand_event(&hand.end, RNIC_EP_CONNECT_ERROR).status, -EPROTO);
    assert_int_equal(s->out_len, request_len);
}

static void who_connects_without_a_queue_pair_sees_the_reply_first(void **state)
{
    struct mpa_startup_frame reply = hand_frame(MPA_REPLY);
    reply.private_data = span_of("yes", 3);
    hand.link->connect_error = 0;
    end_bind(&hand.end);
    assert_int_equal(rnic_ep_connect(hand.end.ep, (const struct sockaddr *)&there, NULL, &params),
                     0);
    hand_say(hand_of(&hand.end), &reply);
    hand_run();
    const struct rnic_ep_event event = hand_event(&hand.end, RNIC_EP_CONNECT_REPLY);
    assert_int_equal(event.private_data_len, 3);
    assert_int_equal(event.ird, 2);
    assert_false(end_has_event(&hand.end));
    assert_int_equal(rnic_ep_establish(hand.end.ep, hand.end.qp), 0);
    hand_event(&hand.end, RNIC_EP_ESTABLISHED);
    assert_int_equal(rnic_qp_state(hand.end.qp), QP_RTS);
}

/* ---- the Request ----------------------------------------------------------------------------- */

static void a_request_is_put_before_the_program_as_it_says(void **state)
{
    static const struct {
        uint16_t ird, ord, told_ird, told_ord;
        bool enhanced;
    } rows[] = {{2, 3, 2, 3, true},
                {0, 0, 0, 0, true},
                {127, 128, 127, 128, true},
                {129, MPA_IRD_ORD_UNNEGOTIATED, 128, 128, true},
                {0, 0, 128, 128, false}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
        request.enhanced = rows[i].enhanced;
        request.revision = rows[i].enhanced ? 2 : 1;
        request.ird = rows[i].ird;
        request.ord = rows[i].ord;
        request.private_data = span_of("who", 3);
        struct hand_stream *s = hand_arrive();
        hand_say(s, &request);
        hand_run();
        const struct rnic_ep_event event = hand_event(&hand.listener, RNIC_EP_CONNECT_REQUEST);
        assert_int_equal(event.ird, rows[i].told_ird);
        assert_int_equal(event.ord, rows[i].told_ord);
        assert_int_equal(event.private_data_len, 3);
        assert_memory_equal(event.private_data, "who", 3);
        assert_ptr_equal(hand_stream_of(event.new_ep->stream), s);
        rnic_ep_destroy(event.new_ep);
        assert_false(s->is_open);
    }
    assert_int_equal(device_count(&hand.device, "requests"), sizeof rows / sizeof rows[0]);
}

static void no_request_in_time_ends_the_stream(void **state)
{
    struct hand_stream *s = hand_arrive();
    assert_int_equal(hand_endpoints(), 2);
    assert_int_equal(rnic_next_deadline(hand.device.rnic), hand.now + DEVICE_PATIENCE_NS);
    hand_pass(DEVICE_PATIENCE_NS - 1);
    assert_true(s->is_open);
    hand_pass(1);
    assert_false(s->is_open);
    assert_int_equal(hand_endpoints(), 1);
    assert_false(end_has_event(&hand.listener));
}

static void a_stream_that_ends_before_its_request_is_forgotten(void **state)
{
    static const int ends[] = {0, -ECONNRESET};
    for (unsigned i = 0; i < 2; i++) {
        struct hand_stream *s = hand_arrive();
        hand_come(s, "MPA ID", 6);
        s->end = ends[i];
        hand_run();
        assert_false(s->is_open);
        assert_int_equal(hand_endpoints(), 1);
        assert_false(end_has_event(&hand.listener));
    }
}

static struct hand_stream *take_request(const struct mpa_startup_frame *request)
{
    struct hand_stream *s = hand_arrive();
    hand_say(s, request);
    hand_run();
    assert_true(end_has_event(&hand.listener));
    end_take_request(&hand.end, &hand.listener);
    return s;
}

static void what_is_wrong_with_an_answer_leaves_the_request_as_it_is(void **state)
{
    const struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    const uint16_t most = (uint16_t)rnic_limits.max_qp_rd_atom;
    const struct rnic_ep_params deep[] = {{.ird = most + 1}, {.ord = most + 1}};
    uint8_t long_data[RNIC_PRIVATE_DATA_MAX_LEN] = {0};
    struct mpa_startup_frame reply;
    struct hand_stream *s = take_request(&request);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rnic_ep_accept(hand.end.ep, hand.end.qp, &deep[i]), -EINVAL);
    }
    const struct rnic_ep_params too_long = {.private_data = long_data,
                                            .private_data_len = sizeof long_data};
    assert_int_equal(rnic_ep_accept(hand.end.ep, hand.end.qp, &too_long), -EINVAL);
    assert_int_equal(rnic_ep_accept(hand.end.ep, NULL, &params), -EINVAL);
    assert_int_equal(rnic_ep_reject(hand.end.ep, long_data, sizeof long_data), -EINVAL);
    assert_int_equal(rnic_ep_disconnect(hand.end.ep), -EINVAL);
    assert_int_equal(rnic_ep_listen(hand.end.ep, 1), -EINVAL);
    assert_int_equal(s->out_len, 0);
    const struct rnic_ep_params deepest = {.ird = most, .ord = most};
    assert_int_equal(rnic_ep_accept(hand.end.ep, hand.end.qp, &deepest), 0);
    hand_event(&hand.end, RNIC_EP_ESTABLISHED);
    assert_int_equal(hand_heard(s, MPA_REPLY, &reply), s->out_len);
    assert_false(reply.reject);
    assert_int_equal(rnic_ep_accept(hand.end.ep, hand.end.qp, &params), -EINVAL);
    assert_int_equal(rnic_ep_reject(hand.end.ep, NULL, 0), -EINVAL);
    assert_true(s->is_open);
}

static void a_rejected_peer_is_told_and_the_stream_closed_behind_that(void **state)
{
    const struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    struct mpa_startup_frame reply;
    struct hand_stream *s = take_request(&request);
    s->room = 0;
    assert_int_equal(rnic_ep_reject(hand.end.ep, "go", 2), 0);
    hand_run();
    assert_true(s->is_open);
    assert_true(s->wants_out);
    s->room = SIZE_MAX;
    hand_run();
    assert_int_equal(hand_heard(s, MPA_REPLY, &reply), s->out_len);
    assert_true(reply.reject);
    assert_int_equal(reply.private_data.len, 2);
    assert_memory_equal(reply.private_data.ptr, "go", 2);
    assert_false(s->is_open);
    assert_false(s->is_aborted);
    assert_false(end_has_event(&hand.end));
}

static void an_fpdu_before_the_reply_ends_start_up_by_its_name(void **state)
{
    const struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    struct hand_stream *s = take_request(&request);
    hand_send(s, 1, 0, 4);
    hand_run();
    assert_int_equal(hand_event(&hand.end, RNIC_EP_CONNECT_ERROR).status, -EPROTO);
    assert_int_equal(device_count(&hand.device, "EARLY_FPDU"), 1);
    assert_false(s->is_open);
    hand_end_anew();
    struct hand_stream *together = hand_arrive(); // ... in the same piece as the Request
    hand_say(together, &request);
    hand_send(together, 1, 0, 4);
    hand_run();
    assert_int_equal(device_count(&hand.device, "EARLY_FPDU"), 2);
    assert_false(together->is_open);
    assert_false(end_has_event(&hand.listener));
}

static void a_reply_that_the_peer_does_not_take_in_time_ends_start_up(void **state)
{
    const struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    struct hand_stream *s = take_request(&request);
    hand_pass(2 * DEVICE_PATIENCE_NS); // the program may take its time
    assert_true(s->is_open);
    s->room = 3;
    assert_int_equal(rnic_ep_accept(hand.end.ep, hand.end.qp, &params), 0);
    assert_int_equal(rnic_next_deadline(hand.device.rnic), hand.now + DEVICE_PATIENCE_NS);
    hand_pass(DEVICE_PATIENCE_NS);
    assert_int_equal(hand_event(&hand.end, RNIC_EP_UNREACHABLE).status, -ETIMEDOUT);
    assert_int_equal(device_count(&hand.device, "WRITE_TIMEOUT"), 1);
    assert_false(s->is_open);
}

static void a_first_fpdu_that_was_agreed_on_establishes(void **state)
{
    struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    request.peer_to_peer = request.rtr_send = true;
    struct hand_stream *s = take_request(&request);
    assert_int_equal(rnic_ep_accept(hand.end.ep, hand.end.qp, &params), 0);
    assert_false(end_has_event(&hand.end));
    assert_true(s->out_len > 0);
    assert_int_equal(rnic_next_deadline(hand.device.rnic), hand.now + DEVICE_PATIENCE_NS);
    hand_pass(1);
    hand_send(s, 1, 0, 0);
    hand_run();
    const struct rnic_ep_event event = hand_event(&hand.end, RNIC_EP_ESTABLISHED);
    assert_int_equal(event.ird, params.ird);
    assert_int_equal(event.ord, 2);
    assert_int_equal(rnic_next_deadline(hand.device.rnic), INSTANT_NEVER);
}

static void a_first_fpdu_that_does_not_come_in_time_ends_the_stream(void **state)
{
    struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    request.peer_to_peer = request.rtr_send = true;
    struct hand_stream *s = take_request(&request);
    end_accept(&hand.end);
    hand_pass(DEVICE_PATIENCE_NS - 1);
    assert_false(end_has_event(&hand.end));
    hand_pass(1);
    assert_int_equal(hand_event(&hand.end, RNIC_EP_UNREACHABLE).status, -ETIMEDOUT);
    assert_int_equal(device_count(&hand.device, "RTR_TIMEOUT"), 1);
    assert_false(s->is_open);
    assert_false(end_has_event(&hand.end));
}

/* ---- many ------------------------------------------------------------------------------------ */

static void so_many_are_accepted_in_a_turn(void **state)
{
    hand.link->waiting = 20;
    assert_true(rnic_step(hand.device.rnic));
    assert_int_equal(hand.link->waiting, 4);
    assert_int_equal(hand_endpoints(), 17);
    assert_true(rnic_step(hand.device.rnic));
    assert_int_equal(hand.link->waiting, 0);
    assert_int_equal(device_count(&hand.device, "accepted"), 20);
}

static void the_oldest_that_says_nothing_goes_for_the_newest(void **state)
{
    struct hand_stream *first = hand_arrive();
    for (unsigned i = 1; i < 40; i++) { // half_open_max
        hand_arrive();
    }
    assert_true(first->is_open);
    hand_arrive();
    assert_false(first->is_open);
    assert_true(first->is_aborted);
    assert_true(first[1].is_open);
    assert_int_equal(device_count(&hand.device, "dropped"), 1);
}

static void the_oldest_that_says_nothing_goes_where_descriptors_are_short(void **state)
{
    static const struct {
        int error;
        bool goes;
    } rows[] = {{-EMFILE, true}, {-ENFILE, true}, {-ECONNABORTED, false}, {-ENOMEM, false}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct rnic_config config = hand_config();
        hand_close();
        hand_open(&config, 0, 0);
        struct hand_stream *oldest = hand_arrive();
        struct hand_stream *newest = hand_arrive();
        hand.link->accept_error = rows[i].error;
        hand.link->waiting = 1;
        hand_run();
        hand.link->accept_error = 0;
        assert_int_equal(oldest->is_open, !rows[i].goes);
        assert_true(newest->is_open);
        assert_int_equal(hand_endpoints(), rows[i].goes ? 2 : 3);
    }
}

static void requests_beyond_the_backlog_are_reset(void **state)
{
    const struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    const struct rnic_config config = hand_config();
    hand_close();
    hand_open(&config, 0, 1);
    struct hand_stream *first = take_request(&request);
    struct hand_stream *second = hand_arrive();
    hand_say(second, &request);
    hand_run();
    assert_false(second->is_open);
    assert_true(second->is_aborted);
    assert_false(end_has_event(&hand.listener));
    assert_true(first->is_open);
    assert_int_equal(device_count(&hand.device, "backlog_full"), 1);
    assert_int_equal(rnic_ep_reject(hand.end.ep, NULL, 0), 0); // an answer makes room
    hand_end_anew();
    take_request(&request);
}

static void what_a_listener_has_not_answered_goes_with_it(void **state)
{
    const struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    struct hand_stream *asked = take_request(&request);
    struct hand_stream *silent = hand_arrive();
    rnic_ep_destroy(hand.listener.ep);
    hand.listener.ep = NULL;
    assert_true(asked->is_open); // the program answers for it
    assert_false(silent->is_open);
    assert_true(silent->is_aborted);
    end_accept(&hand.end);
    hand_event(&hand.end, RNIC_EP_ESTABLISHED);
}

/* ---- calls at the wrong time ----------------------------------------------------------------- */

static void calls_that_a_state_does_not_know_are_refused(void **state)
{
    const uint16_t most = (uint16_t)rnic_limits.max_qp_rd_atom;
    const struct rnic_ep_params deep[] = {{.ird = most + 1}, {.ord = most + 1}};
    const struct sockaddr *to = (const struct sockaddr *)&there;
    assert_int_equal(rnic_ep_listen(hand.listener.ep, 1), -EINVAL);
    assert_int_equal(rnic_ep_connect(hand.listener.ep, to, hand.end.qp, &params), -EINVAL);
    assert_int_equal(rnic_ep_disconnect(hand.listener.ep), -EINVAL);
    end_bind(&hand.end);
    assert_int_equal(rnic_ep_reject(hand.end.ep, NULL, 0), -EINVAL);
    assert_int_equal(rnic_ep_accept(hand.end.ep, hand.end.qp, &params), -EINVAL);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(rnic_ep_connect(hand.end.ep, to, hand.end.qp, &deep[i]), -EINVAL);
    }
    assert_int_equal(hand_of(&hand.end)->out_len, 0);
    hand.link->connect_error = 0;
    assert_int_equal(rnic_ep_connect(hand.end.ep, to, hand.end.qp, &params), 0);
    assert_int_equal(rnic_ep_connect(hand.end.ep, to, hand.end.qp, &params), -EINVAL);
    assert_true(hand_of(&hand.end)->out_len > 0);
}

static void the_links_answer_is_the_callers(void **state)
{
    struct rnic_ep *ep;
    struct sockaddr_storage from = {0};
    hand.link->bind_error = -EADDRNOTAVAIL;
    assert_int_equal(rnic_ep_bind(hand.device.rnic, NULL, 0, NULL, &ep), -EADDRNOTAVAIL);
    assert_int_equal(hand_endpoints(), 1);
    assert_int_equal(rnic_route(hand.device.rnic, (const struct sockaddr *)&there, &from), 0);
    assert_memory_equal(&from, &there, sizeof there);
    hand.link->route_error = -ENETUNREACH;
    assert_int_equal(rnic_route(hand.device.rnic, (const struct sockaddr *)&there, &from),
                     -ENETUNREACH);
    assert_int_equal(device_count(&hand.device, "hand_stream"), 7);
    assert_int_equal(device_count(&hand.device, "hand_streams"), 7);
    assert_int_equal(device_count(&hand.device, "hand_packets"), 9);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, hand_set_up, hand_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_connect_that_fails_at_once_is_told_by_its_error),
        CASE(a_connect_that_fails_later_is_told_by_its_error),
        CASE(a_request_that_cannot_be_sent_is_told_by_its_error),
        CASE(a_request_says_what_the_program_and_the_device_want),
        CASE(a_request_names_the_first_fpdus_that_may_come),
        CASE(a_crc_is_asked_for_where_octets_leave_the_host),
        CASE(an_address_of_ipv6_is_connected_to_whole),
        CASE(a_request_leaves_as_there_is_room),
        CASE(a_refused_connect_is_tried_again_from_the_same_address),
        CASE(a_refused_connect_without_an_address_takes_any),
        CASE(a_connect_that_is_refused_for_long_is_rejected),
        CASE(an_address_that_is_gone_at_the_next_attempt_ends_the_connect),
        CASE(a_reply_establishes_whatever_pieces_it_comes_in),
        CASE(depths_of_a_reply_are_at_most_the_devices),
        CASE(a_rejecting_reply_brings_its_words),
        CASE(no_reply_in_time_is_an_unreachable_peer),
        CASE(a_stream_that_ends_before_the_reply_is_told_by_its_end),
        CASE(a_reply_that_cannot_be_had_is_refused),
        CASE(who_connects_without_a_queue_pair_sees_the_reply_first),
        CASE(a_request_is_put_before_the_program_as_it_says),
        CASE(no_request_in_time_ends_the_stream),
        CASE(a_stream_that_ends_before_its_request_is_forgotten),
        CASE(what_is_wrong_with_an_answer_leaves_the_request_as_it_is),
        CASE(a_rejected_peer_is_told_and_the_stream_closed_behind_that),
        CASE(an_fpdu_before_the_reply_ends_start_up_by_its_name),
        CASE(a_reply_that_the_peer_does_not_take_in_time_ends_start_up),
        CASE(a_first_fpdu_that_was_agreed_on_establishes),
        CASE(a_first_fpdu_that_does_not_come_in_time_ends_the_stream),
        CASE(so_many_are_accepted_in_a_turn),
        CASE(the_oldest_that_says_nothing_goes_for_the_newest),
        CASE(the_oldest_that_says_nothing_goes_where_descriptors_are_short),
        CASE(requests_beyond_the_backlog_are_reset),
        CASE(what_a_listener_has_not_answered_goes_with_it),
        CASE(calls_that_a_state_does_not_know_are_refused),
        CASE(the_links_answer_is_the_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
