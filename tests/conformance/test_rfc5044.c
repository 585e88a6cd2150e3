// RFC 5044, MPA: start-up frames of revision 1, FPDUs, markers, CRC.

#include <stdlib.h>
#include <string.h>

#include "tests/conformance/stream.h"

static struct ulpdu out, in;

static struct startup revision_1(bool is_reply, uint16_t flags)
{
    return (struct startup){.is_reply = is_reply, .flags = (uint16_t)(flags | 1)};
}

/* ---- 7.1: start-up --------------------------------------------------------------------------- */

static void a_reply_has_the_frame_of_the_figure(void **state)
{
    struct stream s;
    struct startup request = revision_1(false, FRAME_C);
    stream_begin(&s, *(enum role *)*state);
    stream_ask(&s, &request);
    stream_accept(&s, 0);
    assert_memory_equal(s.frame, "MPA ID Rep Frame", FRAME_OFF_FLAGS);
    assert_int_equal(get_be16(s.frame + FRAME_OFF_FLAGS), FRAME_C | 1);
    assert_int_equal(get_be16(s.frame + FRAME_OFF_PD_LEN), 0);
    stream_close(&s);
}

static void a_request_has_the_frame_of_the_figure(void **state)
{
    struct stream s;
    stream_begin(&s, *(enum role *)*state);
    assert_memory_equal(s.frame, "MPA ID Req Frame", FRAME_OFF_FLAGS);
    uint16_t flags = get_be16(s.frame + FRAME_OFF_FLAGS);
    assert_int_equal(flags & (FRAME_M | FRAME_C | FRAME_R | FRAME_S), FRAME_C | FRAME_S);
    assert_int_equal(flags & FRAME_REVISION, 2);
    assert_int_equal(get_be16(s.frame + FRAME_OFF_PD_LEN), FRAME_ENHANCED_LEN);
    stream_close(&s);
}

static void expect_frame_refused(void **state, const uint8_t *frame, size_t len)
{
    struct stream s;
    stream_begin(&s, *(enum role *)*state);
    peer_send(&s, frame, len);
    peer_expect_end(&s); // without a word
    if (s.role == WEFT_INITIATES) {
        rdma_ack_cm_event(stream_event(&s, RDMA_CM_EVENT_CONNECT_ERROR));
    }
    stream_close(&s);
}

static void a_wrong_key_or_revision_ends_the_connection(void **state)
{
    uint8_t frame[FRAME_MAX_LEN];
    bool is_reply = *(enum role *)*state == WEFT_INITIATES;
    struct startup usual = startup_usual(is_reply), other = startup_usual(!is_reply);
    size_t len = frame_put(frame, &usual);
    frame[3] ^= 1;
    expect_frame_refused(state, frame, len);
    len = frame_put(frame, &other);
    expect_frame_refused(state, frame, len);
    usual.flags = (uint16_t)((usual.flags & ~FRAME_REVISION) | 3);
    len = frame_put(frame, &usual);
    expect_frame_refused(state, frame, len);
}

// PD_Length MUST NOT be more than 512.
static void too_much_private_data_ends_the_connection(void **state)
{
    uint8_t frame[FRAME_MAX_LEN];
    struct startup usual = startup_usual(*(enum role *)*state == WEFT_INITIATES);
    size_t len = frame_put(frame, &usual);
    put_be16(frame + FRAME_OFF_PD_LEN, 513);
    expect_frame_refused(state, frame, len);
}

static void private_data_reaches_the_program(void **state)
{
    struct stream s;
    uint8_t frame[FRAME_MAX_LEN];
    struct startup usual = startup_usual(*(enum role *)*state == WEFT_INITIATES);
    usual.private_data = "private octets";
    usual.private_len = 14;
    stream_begin(&s, *(enum role *)*state);
    peer_send(&s, frame, frame_put(frame, &usual));
    bool responds_now = s.role == WEFT_RESPONDS;
    struct rdma_cm_event *event =
        stream_event(&s, responds_now ? RDMA_CM_EVENT_CONNECT_REQUEST : RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(event->param.conn.private_data_len, 14);
    assert_memory_equal(event->param.conn.private_data, "private octets", 14);
    struct rdma_cm_id *id = event->id;
    rdma_ack_cm_event(event);
    if (responds_now) {
        assert_int_equal(rdma_reject(id, "no", 2), 0);
        peer_receive(&s, s.frame, FRAME_HEADER_LEN + FRAME_ENHANCED_LEN + 2);
        assert_int_equal(get_be16(s.frame + FRAME_OFF_FLAGS) & FRAME_R, FRAME_R);
        assert_memory_equal(s.frame + FRAME_HEADER_LEN + FRAME_ENHANCED_LEN, "no", 2);
        peer_expect_end(&s);
        rdma_destroy_id(id);
    }
    stream_close(&s);
}

static void a_rejecting_reply_rejects(void **state)
{
    struct stream s;
    struct startup reply = startup_usual(true);
    reply.flags |= FRAME_R;
    reply.private_data = "why";
    reply.private_len = 3;
    stream_begin(&s, *(enum role *)*state);
    stream_answer(&s, &reply);
    struct rdma_cm_event *event = stream_event(&s, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(event->param.conn.private_data_len, 3);
    rdma_ack_cm_event(event);
    peer_expect_end(&s);
    stream_close(&s);
}

// 7.1.2: a responder MUST NOT send before it has received the first FPDU.
static void a_responder_lets_the_initiator_speak_first(void **state)
{
    struct stream s;
    struct startup request = startup_usual(false);
    request.ird |= FRAME_A | FRAME_B; // it will say so
    stream_begin(&s, *(enum role *)*state);
    stream_ask(&s, &request);
    stream_accept(&s, 0);
    post(&s, IBV_WR_RDMA_WRITE, 0, 8, 0);
    assert_true(peer_hears_nothing(&s));
    assert_true(peer_hears_nothing(&s));
    untagged(&out, OP_SEND, 1, 0, true, NULL, 0);
    peer_say(&s, &out);
    peer_hear_opcode(&s, &in, OP_WRITE);
    stream_close(&s);
}

static void octets_behind_a_request_that_is_not_answered_end_it(void **state)
{
    struct stream s;
    uint8_t octets[FRAME_MAX_LEN + 64] = {0};
    struct startup request = startup_usual(false);
    size_t len = frame_put(octets, &request);
    stream_begin(&s, *(enum role *)*state);
    peer_send(&s, octets, len + 64);
    peer_expect_end(&s);
    stream_close(&s);
}

/* ---- 4: FPDUs -------------------------------------------------------------------------------- */

// 4.1, 4.6: however TCP cuts the stream.
static void fpdus_are_found_in_pieces_of_any_size(void **state)
{
    struct stream s;
    uint8_t octets[2 * 64];
    stream_open(&s, state, 2);
    untagged(&out, OP_SEND, 1, 0, true, "abcde", 5);
    size_t len = fpdu_put(octets, out.octets, out.len);
    untagged(&out, OP_SEND, 2, 0, true, "fgh", 3);
    len += fpdu_put(octets + len, out.octets, out.len);
    for (size_t i = 0; i < len; i++) {
        peer_send(&s, octets + i, 1);
    }
    assert_int_equal(poll_one().byte_len, 5);
    assert_int_equal(poll_one().byte_len, 3);
    stream_close(&s);
}

// 4.1: each FPDU is padded with zeros to a multiple of four octets: peer_hear looks at the pad.
static void each_length_is_padded(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    for (uint32_t len = 1; len <= 5; len++) {
        post(&s, IBV_WR_SEND, 0, len, 0);
        peer_hear_opcode(&s, &in, OP_SEND);
        assert_int_equal(in.len, UNTAGGED_LEN + len);
    }
    stream_close(&s);
}

static void expect_fpdus_within(struct stream *s, size_t segment_len)
{
    enum { LEN = 50000 };
    size_t got = 0;
    post(s, IBV_WR_RDMA_WRITE, 0, LEN, 0);
    do {
        peer_hear_opcode(s, &in, OP_WRITE);
        assert_true(fpdu_len_of(in.len) <= segment_len);
        got += in.len - TAGGED_LEN;
    } while (!is_last(&in));
    assert_int_equal(got, LEN);
}

// 4.2, 5.1: FPDUs fit into segments.
static void fpdus_are_no_longer_than_a_segment(void **state)
{
    struct stream s;
    peer_segment_len = 1400;
    stream_open(&s, state, 0);
    expect_fpdus_within(&s, 1400);
    stream_close(&s);
    peer_segment_len = 0;
}

// 7.1.1: reserved bits of a Request are not checked, so a peer may have any of them set.
static void reserved_bits_of_a_request_change_nothing(void **state)
{
    for (uint16_t bit = 0x0100; bit <= 0x0800; bit = (uint16_t)(bit << 1)) {
        struct stream s;
        struct startup request = startup_usual(false);
        request.flags |= bit;
        peer_segment_len = 1400;
        stream_open_as(&s, state, 0, &request);
        expect_fpdus_within(&s, 1400);
        stream_close(&s);
    }
    peer_segment_len = 0;
}

/* ---- 4.4, 8: CRC ----------------------------------------------------------------------------- */

// The octets of RFC 3720 appendix B.4: the peer's own CRC is right.
static void the_crc_is_that_of_the_examples(void **state)
{
    uint8_t octets[32] = {0};
    assert_int_equal(crc_of(octets, 32), 0x8a9136aa);
    memset(octets, 0xff, sizeof octets);
    assert_int_equal(crc_of(octets, 32), 0x62a8ab43);
}

static void a_wrong_crc_ends_the_stream(void **state)
{
    struct stream s;
    uint8_t fpdu[64];
    stream_open(&s, state, 1);
    program.memory[0] = 0;
    tagged(&out, OP_WRITE, program.mr->rkey, at(0), true, "\1", 1);
    size_t len = fpdu_put(fpdu, out.octets, out.len);
    fpdu[len - 1] ^= 1;
    peer_send(&s, fpdu, len);
    peer_expect_terminate(&s, 2, 0, 0x02);
    assert_int_equal(program.memory[0], 0); // nothing was placed
    stream_close(&s);
}

// 7.1.1: CRCs are used if one side wants them; weft does.
static void crcs_are_used_when_one_side_wants_them(void **state)
{
    struct stream s;
    struct startup usual = startup_usual(*(enum role *)*state == WEFT_INITIATES);
    usual.flags &= (uint16_t)~FRAME_C;
    stream_open_as(&s, state, 0, &usual);
    post(&s, IBV_WR_SEND, 0, 8, 0);
    peer_hear_opcode(&s, &in, OP_SEND); // peer_hear looks at the CRC
    stream_close(&s);
}

/* ---- 4.3: markers ---------------------------------------------------------------------------- */

// A peer that wants markers gets one every 512 octets, which points back to its FPDU.
static void a_peer_that_wants_markers_gets_them(void **state)
{
    enum { LEN = 6000, STREAM_LEN = 5120 };
    static uint8_t octets[STREAM_LEN];
    struct stream s;
    struct startup usual = startup_usual(*(enum role *)*state == WEFT_INITIATES);
    usual.flags |= FRAME_M;
    peer_segment_len = 1400;
    stream_open_as(&s, state, 0, &usual);
    post(&s, IBV_WR_RDMA_WRITE, 0, LEN, 0);
    peer_receive(&s, octets, STREAM_LEN);
    size_t fpdu = 4; // behind the first marker
    for (size_t position = 0; position < STREAM_LEN; position += 512) {
        assert_int_equal(get_be16(octets + position), 0);
        size_t back = get_be16(octets + position + 2);
        if (back == 0) { // an FPDU begins behind it
            fpdu = position + 4;
        } else {
            assert_true(back <= position);
            fpdu = position - back;
        }
        size_t at_length = fpdu % 512 == 0 ? fpdu + 4 : fpdu;
        assert_true(get_be16(octets + at_length) <= 1400);
        assert_true(get_be16(octets + at_length) > TAGGED_LEN);
    }
    peer_segment_len = 0;
    stream_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RESPONDING(a_reply_has_the_frame_of_the_figure),
        INITIATING(a_request_has_the_frame_of_the_figure),
        IN_BOTH_ROLES(a_wrong_key_or_revision_ends_the_connection),
        IN_BOTH_ROLES(too_much_private_data_ends_the_connection),
        IN_BOTH_ROLES(private_data_reaches_the_program),
        INITIATING(a_rejecting_reply_rejects),
        RESPONDING(a_responder_lets_the_initiator_speak_first),
        RESPONDING(octets_behind_a_request_that_is_not_answered_end_it),
        IN_BOTH_ROLES(fpdus_are_found_in_pieces_of_any_size),
        IN_BOTH_ROLES(each_length_is_padded),
        IN_BOTH_ROLES(fpdus_are_no_longer_than_a_segment),
        RESPONDING(reserved_bits_of_a_request_change_nothing),
        RESPONDING(the_crc_is_that_of_the_examples),
        IN_BOTH_ROLES(a_wrong_crc_ends_the_stream),
        IN_BOTH_ROLES(crcs_are_used_when_one_side_wants_them),
        IN_BOTH_ROLES(a_peer_that_wants_markers_gets_them),
    };
    setenv("WEFT_PEER_TO_PEER", "off", 1);
    setenv("WEFT_ERRORS", "off", 1);
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
