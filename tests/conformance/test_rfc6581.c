// RFC 6581: enhanced start-up: IRD and ORD, peer-to-peer connections and their first message.

#include <stdlib.h>

#include "tests/conformance/stream.h"

enum { WEFT_DEPTH = 4 }; // IRD and ORD of weft's program

static struct ulpdu out, in;

static uint16_t ird_of(const uint8_t *frame)
{
    return get_be16(frame + FRAME_OFF_IRD) & FRAME_DEPTH;
}

static uint16_t ord_of(const uint8_t *frame)
{
    return get_be16(frame + FRAME_OFF_ORD) & FRAME_DEPTH;
}

// The peer's Reply, with what it takes as the first message.
static struct startup reply_of(uint16_t ird, uint16_t ord)
{
    struct startup reply = startup_usual(true);
    reply.ird = ird | FRAME_A;
    reply.ord = ord | FRAME_RTR_WRITE;
    return reply;
}

/* ---- 9.1: IRD and ORD ------------------------------------------------------------------------ */

static void a_request_names_ird_and_ord(void **state)
{
    struct stream s;
    stream_begin(&s, *(enum role *)*state);
    assert_int_equal(get_be16(s.frame + FRAME_OFF_FLAGS) & (FRAME_S | FRAME_REVISION), FRAME_S | 2);
    assert_int_equal(ird_of(s.frame), WEFT_DEPTH);
    assert_int_equal(ord_of(s.frame), WEFT_DEPTH);
    stream_close(&s);
}

// The responder's ORD is no more than the initiator's IRD.
static void a_reply_lowers_ord_to_what_the_initiator_takes(void **state)
{
    static const uint16_t irds[] = {0, 1, 4, 100}, expected[] = {0, 1, 4, 4};
    for (unsigned i = 0; i < 4; i++) {
        struct stream s;
        struct startup request = startup_usual(false);
        request.ird = irds[i];
        stream_begin(&s, *(enum role *)*state);
        stream_ask(&s, &request);
        stream_accept(&s, 0);
        assert_int_equal(get_be16(s.frame + FRAME_OFF_FLAGS) & (FRAME_S | FRAME_REVISION),
                         FRAME_S | 2);
        assert_int_equal(ird_of(s.frame), WEFT_DEPTH);
        assert_int_equal(ord_of(s.frame), expected[i]);
        stream_close(&s);
    }
}

static void a_request_tells_the_program_what_it_says(void **state)
{
    struct stream s;
    uint8_t frame[FRAME_MAX_LEN];
    struct startup request = startup_usual(false);
    request.ird = 5;
    request.ord = 3;
    stream_begin(&s, *(enum role *)*state);
    peer_send(&s, frame, frame_put(frame, &request));
    struct rdma_cm_event *event = stream_event(&s, RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_int_equal(event->param.conn.initiator_depth, 5);
    assert_int_equal(event->param.conn.responder_resources, 3);
    s.id = event->id;
    rdma_ack_cm_event(event);
    stream_close(&s);
}

static void a_reply_tells_the_program_what_it_says(void **state)
{
    for (unsigned is_rejected = 0; is_rejected < 2; is_rejected++) {
        struct stream s;
        struct startup reply = reply_of(3, 2);
        reply.flags |= is_rejected ? FRAME_R : 0;
        stream_begin(&s, *(enum role *)*state);
        stream_answer(&s, &reply);
        struct rdma_cm_event *event =
            stream_event(&s, is_rejected ? RDMA_CM_EVENT_REJECTED : RDMA_CM_EVENT_ESTABLISHED);
        assert_int_equal(event->param.conn.initiator_depth, 3);
        assert_int_equal(event->param.conn.responder_resources, 2);
        rdma_ack_cm_event(event);
        stream_close(&s);
    }
}

// The initiator asks no more at a time than the responder takes.
static void an_initiator_keeps_to_the_responders_ird(void **state)
{
    struct stream s;
    struct startup reply = reply_of(1, 4);
    stream_begin(&s, *(enum role *)*state);
    stream_answer(&s, &reply);
    stream_expect_event(&s, RDMA_CM_EVENT_ESTABLISHED);
    peer_hear_opcode(&s, &in, OP_WRITE); // the ready-to-receive indication
    for (unsigned i = 0; i < 3; i++) {
        post(&s, IBV_WR_RDMA_READ, 0, 8, 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        peer_hear_opcode(&s, &in, OP_READ_REQUEST);
        struct read_request r = read_request_of(&in);
        assert_true(peer_hears_nothing(&s));
        tagged(&out, OP_READ_RESPONSE, r.sink_stag, r.sink_to, true, NULL, 8);
        peer_say(&s, &out);
        expect_success(IBV_WC_RDMA_READ);
    }
    stream_close(&s);
}

// More than the initiator can take: "insufficient IRD resources".
static void a_reply_with_too_high_an_ord_is_refused(void **state)
{
    struct stream s;
    struct startup reply = reply_of(4, FRAME_DEPTH - 1);
    stream_begin(&s, *(enum role *)*state);
    stream_answer(&s, &reply);
    peer_expect_terminate(&s, 2, 0, 0x06);
    stream_close(&s);
}

// 0x3fff: nothing is negotiated; the Reply says the same.
static void a_request_may_leave_ird_and_ord_open(void **state)
{
    struct stream s;
    struct startup request = startup_usual(false);
    request.ird = request.ord = FRAME_DEPTH;
    stream_begin(&s, *(enum role *)*state);
    stream_ask(&s, &request);
    stream_accept(&s, 0);
    assert_int_equal(ird_of(s.frame), FRAME_DEPTH);
    assert_int_equal(ord_of(s.frame), FRAME_DEPTH);
    stream_close(&s);
}

// 8: a plain Reply to an enhanced Request, or none of the four octets that S announces.
static void a_reply_that_is_not_enhanced_is_refused(void **state)
{
    for (unsigned is_short = 0; is_short < 2; is_short++) {
        struct stream s;
        uint8_t frame[FRAME_MAX_LEN];
        struct startup reply = {.is_reply = true, .flags = FRAME_C | 1};
        size_t len = frame_put(frame, &reply);
        put_be16(frame + FRAME_OFF_FLAGS, is_short ? FRAME_C | FRAME_S | 2 : FRAME_C | 1);
        stream_begin(&s, *(enum role *)*state);
        peer_send(&s, frame, len);
        peer_expect_end(&s);
        stream_close(&s);
    }
}

static void a_plain_request_gets_a_plain_reply(void **state)
{
    struct stream s;
    struct startup request = {.flags = FRAME_C | 1};
    stream_begin(&s, *(enum role *)*state);
    stream_ask(&s, &request);
    stream_accept(&s, 0);
    assert_int_equal(get_be16(s.frame + FRAME_OFF_FLAGS) & (FRAME_S | FRAME_REVISION), 1);
    stream_close(&s);
}

/* ---- 9.2: peer to peer ----------------------------------------------------------------------- */

// The indication is the first message; of those that the Reply offers weft takes a Write or a Read.
static void an_initiator_sends_the_indication_first(void **state)
{
    for (unsigned reads = 0; reads < 2; reads++) {
        struct stream s;
        struct startup reply = startup_usual(true);
        reply.ird |= FRAME_A | FRAME_B;
        reply.ord |= reads ? FRAME_RTR_READ : FRAME_RTR_WRITE;
        stream_begin(&s, *(enum role *)*state);
        assert_int_equal(get_be16(s.frame + FRAME_OFF_IRD) & FRAME_A, FRAME_A);
        assert_int_not_equal(
            get_be16(s.frame + FRAME_OFF_ORD) & (reads ? FRAME_RTR_READ : FRAME_RTR_WRITE), 0);
        stream_answer(&s, &reply);
        stream_expect_event(&s, RDMA_CM_EVENT_ESTABLISHED);
        post(&s, IBV_WR_SEND, 0, 8, 0);
        peer_hear_opcode(&s, &in, reads ? OP_READ_REQUEST : OP_WRITE);
        if (reads) {
            assert_int_equal(read_request_of(&in).size, 0);
        } else {
            assert_int_equal(in.len, TAGGED_LEN);
        }
        peer_hear_opcode(&s, &in, OP_SEND);
        assert_true(polls_nothing() == false); // of the Send alone
        assert_true(polls_nothing());
        stream_close(&s);
    }
}

static void a_reply_without_an_indication_in_common_is_refused(void **state)
{
    struct stream s;
    struct startup reply = startup_usual(true);
    reply.ird |= FRAME_A | FRAME_B; // an empty Send: weft offered the other two
    stream_begin(&s, *(enum role *)*state);
    stream_answer(&s, &reply);
    peer_expect_terminate(&s, 2, 0, 0x07);
    stream_close(&s);
}

static void expect_indication_taken(void **state, uint16_t ird_flag, uint16_t ord_flag)
{
    struct stream s;
    struct startup request = startup_usual(false);
    request.ird |= FRAME_A | ird_flag;
    request.ord |= ord_flag;
    stream_begin(&s, *(enum role *)*state);
    stream_ask(&s, &request);
    stream_accept(&s, 1);
    assert_int_equal(get_be16(s.frame + FRAME_OFF_IRD) & (FRAME_A | FRAME_B), FRAME_A | ird_flag);
    assert_int_equal(get_be16(s.frame + FRAME_OFF_ORD) & (FRAME_RTR_WRITE | FRAME_RTR_READ),
                     ord_flag);
    assert_true(peer_hears_nothing(&s));
    const struct read_request none = {.size = 0};
    if (ird_flag != 0) {
        untagged(&out, OP_SEND, 1, 0, true, NULL, 0);
    } else if (ord_flag == FRAME_RTR_WRITE) {
        tagged(&out, OP_WRITE, 0, 0, true, NULL, 0);
    } else {
        read_request(&out, 1, &none);
    }
    peer_say(&s, &out);
    stream_expect_event(&s, RDMA_CM_EVENT_ESTABLISHED); // not before
    assert_true(polls_nothing());                       // it took no receive
    untagged(&out, OP_SEND, ird_flag != 0 ? 2 : 1, 0, true, NULL, 5);
    peer_say(&s, &out);
    assert_int_equal(poll_one().byte_len, 5);
    stream_close(&s);
}

static void a_responder_takes_each_indication(void **state)
{
    expect_indication_taken(state, FRAME_B, 0);
    expect_indication_taken(state, 0, FRAME_RTR_WRITE);
    expect_indication_taken(state, 0, FRAME_RTR_READ);
}

// The program has accepted and waits for ESTABLISHED: it hears of the end instead.
static void expect_end_told(void **state, void (*go)(struct stream *s))
{
    struct stream s;
    struct startup request = startup_usual(false);
    request.ird |= FRAME_A;
    request.ord |= FRAME_RTR_WRITE;
    stream_begin(&s, *(enum role *)*state);
    stream_ask(&s, &request);
    stream_accept(&s, 1);
    go(&s);
    stream_expect_event(&s, RDMA_CM_EVENT_DISCONNECTED);
    stream_close(&s);
}

static void say_another_crc(struct stream *s)
{
    uint8_t fpdu[64];
    tagged(&out, OP_WRITE, 0, 0, true, NULL, 0);
    const size_t len = fpdu_put(fpdu, out.octets, out.len);
    fpdu[len - 1] ^= 1;
    peer_send(s, fpdu, len);
    peer_expect_terminate(s, 2, 0, 0x02);
}

static void a_program_hears_of_a_peer_that_goes_before_its_indication(void **state)
{
    expect_end_told(state, peer_finish);
    expect_end_told(state, peer_reset);
    expect_end_told(state, say_another_crc);
    expect_end_told(state, stream_disconnect); // the program's own end
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        INITIATING(a_request_names_ird_and_ord),
        RESPONDING(a_reply_lowers_ord_to_what_the_initiator_takes),
        RESPONDING(a_request_tells_the_program_what_it_says),
        INITIATING(a_reply_tells_the_program_what_it_says),
        INITIATING(an_initiator_keeps_to_the_responders_ird),
        INITIATING(a_reply_with_too_high_an_ord_is_refused),
        RESPONDING(a_request_may_leave_ird_and_ord_open),
        INITIATING(a_reply_that_is_not_enhanced_is_refused),
        RESPONDING(a_plain_request_gets_a_plain_reply),
        INITIATING(an_initiator_sends_the_indication_first),
        INITIATING(a_reply_without_an_indication_in_common_is_refused),
        RESPONDING(a_responder_takes_each_indication),
        RESPONDING(a_program_hears_of_a_peer_that_goes_before_its_indication),
    };
    setenv("WEFT_ERRORS", "off", 1);
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
