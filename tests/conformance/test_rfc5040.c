// RFC 5040, RDMAP: what a peer sees of operations, their order, and the end of a stream.

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/conformance/stream.h"

static struct ulpdu out, in;

static void fill(uint8_t *octets, size_t len, uint8_t first)
{
    for (size_t i = 0; i < len; i++) {
        octets[i] = (uint8_t)(first + i);
    }
}

static void say_send(struct stream *s, uint32_t msn, const void *payload, size_t len)
{
    untagged(&out, OP_SEND, msn, 0, true, payload, len);
    peer_say(s, &out);
}

static void say_read(struct stream *s, uint32_t msn, uint64_t from, uint32_t len)
{
    const struct read_request r = {.sink_stag = 0x1111 * msn,
                                   .sink_to = 0x100000000 * msn,
                                   .size = len,
                                   .source_stag = program.mr->rkey,
                                   .source_to = from};
    read_request(&out, msn, &r);
    peer_say(s, &out);
}

static void hear_answer(struct stream *s, uint32_t msn, const void *payload, size_t len)
{
    peer_hear_opcode(s, &in, OP_READ_RESPONSE);
    assert_int_equal(get_be32(in.octets + OFF_TAGGED_STAG), 0x1111 * msn);
    assert_true(get_be64(in.octets + OFF_TAGGED_TO) == 0x100000000 * msn);
    assert_int_equal(in.len, TAGGED_LEN + len);
    assert_memory_equal(in.octets + TAGGED_LEN, payload, len);
    assert_true(is_last(&in));
}

/* ---- 4.1, 4.3 to 4.7: headers ---------------------------------------------------------------- */

// 4.1: version 1, reserved bits 0; 4.3: a Send is untagged, on queue 0.
static void send_has_the_header_of_the_figure(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    fill(program.memory, 32, 1);
    post(&s, IBV_WR_SEND, 0, 32, 0);
    peer_hear_opcode(&s, &in, OP_SEND);
    static const uint8_t header[] = {0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0};
    assert_memory_equal(in.octets, header, sizeof header);
    assert_int_equal(in.len, sizeof header + 32);
    assert_memory_equal(in.octets + sizeof header, program.memory, 32);
    expect_success(IBV_WC_SEND);
    stream_close(&s);
}

// 4.1: "MUST be ignored on receive" of what is reserved.
static void reserved_bits_of_a_send_are_ignored(void **state)
{
    struct stream s;
    stream_open(&s, state, 1);
    untagged(&out, OP_SEND, 1, 0, true, "octets", 6);
    out.octets[0] |= 0x3c;
    out.octets[1] |= 0x30;
    put_be32(out.octets + OFF_STAG, 0xffffffff);
    peer_say(&s, &out);
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, 6);
    assert_int_equal(wc.wc_flags, 0);
    stream_close(&s);
}

// 4.4: a Read Request is untagged, on queue 1, with the five fields of its figure; its answer is
// tagged and goes to the sink that it names.
static void read_asks_by_the_figure_and_takes_its_answer(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    post(&s, IBV_WR_RDMA_READ, 0, 100, 0x123456789a);
    peer_hear_opcode(&s, &in, OP_READ_REQUEST);
    assert_int_equal(in.octets[0], LAST | DDP_V1);
    assert_int_equal(get_be32(in.octets + OFF_QN), 1);
    assert_int_equal(get_be32(in.octets + OFF_MSN), 1);
    assert_int_equal(in.len, UNTAGGED_LEN + READ_REQUEST_LEN);
    struct read_request r = read_request_of(&in);
    assert_int_equal(r.size, 100);
    assert_int_equal(r.source_stag, PEER_KEY);
    assert_true(r.source_to == 0x123456789a);
    uint8_t octets[100];
    fill(octets, sizeof octets, 7);
    tagged(&out, OP_READ_RESPONSE, r.sink_stag, r.sink_to, false, octets, 60);
    peer_say(&s, &out);
    assert_true(polls_nothing()); // 5.5: complete with the last octet, not before
    tagged(&out, OP_READ_RESPONSE, r.sink_stag, r.sink_to + 60, true, octets + 60, 40);
    peer_say(&s, &out);
    expect_success(IBV_WC_RDMA_READ);
    assert_memory_equal(program.memory, octets, sizeof octets);
    stream_close(&s);
}

static void read_request_is_answered_from_its_source(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    fill(program.memory + 500, 64, 3);
    say_read(&s, 1, at(500), 64);
    hear_answer(&s, 1, program.memory + 500, 64);
    assert_true(polls_nothing()); // 5.1: the program at the source hears nothing of it
    stream_close(&s);
}

/* ---- 5.1: operations ------------------------------------------------------------------------- */

static void write_is_placed_and_takes_no_receive(void **state)
{
    struct stream s;
    uint8_t octets[100];
    stream_open(&s, state, 1);
    fill(octets, sizeof octets, 9);
    tagged(&out, OP_WRITE, program.mr->rkey, at(1000), true, octets, sizeof octets);
    peer_say(&s, &out);
    say_send(&s, 1, "behind", 6);
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.byte_len, 6);
    assert_memory_equal(program.memory + 1000, octets, sizeof octets); // 5.5: delivered before it
    stream_close(&s);
}

// 5.1: of each length 0 is right, and asks for no access.
static void messages_of_no_octets_are_taken(void **state)
{
    struct stream s;
    stream_open(&s, state, 1);
    tagged(&out, OP_WRITE, 0xdeadbe00, 77, true, NULL, 0);
    peer_say(&s, &out);
    const struct read_request none = {.sink_stag = 1, .source_stag = 0xdeadbe00, .source_to = 5};
    read_request(&out, 1, &none);
    peer_say(&s, &out);
    peer_hear_opcode(&s, &in, OP_READ_RESPONSE);
    assert_int_equal(in.len, TAGGED_LEN);
    say_send(&s, 1, NULL, 0);
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, 0);
    stream_close(&s);
}

static uint32_t bind_window(struct stream *s, struct ibv_mw *mw)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = program.mr,
                                                     .addr = at(0),
                                                     .length = 4096,
                                                     .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    assert_int_equal(ibv_post_send(s->id->qp, &wr, &bad), 0);
    expect_success(IBV_WC_BIND_MW);
    return wr.bind_mw.rkey;
}

// 5.1: the STag cannot be used when the receive has completed.
static void send_with_invalidate_invalidates(void **state)
{
    struct stream s;
    stream_open(&s, state, 1);
    struct ibv_mw *mw = ibv_alloc_mw(program.pd, IBV_MW_TYPE_2);
    assert_non_null(mw);
    uint32_t stag = bind_window(&s, mw);
    tagged(&out, OP_WRITE, stag, at(0), true, "x", 1);
    peer_say(&s, &out);
    untagged(&out, OP_SEND_INV, 1, 0, true, "bye", 3);
    put_be32(out.octets + OFF_STAG, stag);
    peer_say(&s, &out);
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.wc_flags & IBV_WC_WITH_INV, IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, stag);
    tagged(&out, OP_WRITE, stag, at(0), true, "y", 1);
    peer_say(&s, &out);
    peer_expect_terminate(&s, 1, 1, 0x00);
    assert_int_equal(program.memory[0], 'x');
    stream_close(&s);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

// 5.1: the four kinds of Send, and what each says in its header.
static void sends_of_each_kind_have_their_opcode(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    for (unsigned solicited = 0; solicited < 2; solicited++) {
        for (unsigned invalidates = 0; invalidates < 2; invalidates++) {
            struct ibv_sge sge = {.addr = at(0), .length = 8, .lkey = program.mr->lkey};
            struct ibv_send_wr wr = {.opcode = invalidates ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
                                     .send_flags = solicited ? IBV_SEND_SOLICITED : 0,
                                     .sg_list = &sge,
                                     .num_sge = 1,
                                     .invalidate_rkey = PEER_KEY},
                               *bad;
            assert_int_equal(ibv_post_send(s.id->qp, &wr, &bad), 0);
            peer_hear_opcode(&s, &in, (enum opcode)(OP_SEND + 2 * solicited + invalidates));
            assert_int_equal(get_be32(in.octets + OFF_STAG), invalidates ? PEER_KEY : 0);
            assert_int_equal(get_be32(in.octets + OFF_MSN), 1 + 2 * solicited + invalidates);
        }
    }
    stream_close(&s);
}

/* ---- 5.5 and appendix B: order --------------------------------------------------------------- */

static void read_requests_are_answered_in_their_order(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    fill(program.memory, 1000, 11);
    say_read(&s, 1, at(0), 1000);
    say_read(&s, 2, at(100), 1);
    say_read(&s, 3, at(200), 0);
    hear_answer(&s, 1, program.memory, 1000);
    hear_answer(&s, 2, program.memory + 100, 1);
    hear_answer(&s, 3, NULL, 0);
    stream_close(&s);
}

static void a_read_answers_with_what_a_write_before_it_wrote(void **state)
{
    struct stream s;
    uint8_t octets[256];
    stream_open(&s, state, 0);
    for (uint32_t i = 1; i <= 3; i++) {
        fill(octets, sizeof octets, (uint8_t)(31 * i));
        tagged(&out, OP_WRITE, program.mr->rkey, at(64), true, octets, sizeof octets);
        peer_say(&s, &out);
        say_read(&s, i, at(64), sizeof octets);
        hear_answer(&s, i, octets, sizeof octets);
    }
    stream_close(&s);
}

// Appendix B: a Send that is not delivered holds back the Reads behind it.
static void a_read_behind_a_send_waits_until_that_is_delivered(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    fill(program.memory, 16, 5);
    say_send(&s, 1, "first", 5);
    say_read(&s, 1, at(0), 8);
    say_send(&s, 2, "second", 6);
    say_read(&s, 2, at(8), 8);
    assert_true(peer_hears_nothing(&s));
    post_receive(&s, RECEIVE_LEN);
    expect_success(IBV_WC_RECV);
    hear_answer(&s, 1, program.memory, 8);
    assert_true(peer_hears_nothing(&s));
    post_receive(&s, RECEIVE_LEN);
    expect_success(IBV_WC_RECV);
    hear_answer(&s, 2, program.memory + 8, 8);
    stream_close(&s);
}

// What a Read behind a waiting Send names may be taken back by a Send behind both, no earlier.
static void an_invalidation_waits_for_the_requests_before_it(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    struct ibv_mw *mw = ibv_alloc_mw(program.pd, IBV_MW_TYPE_2);
    uint32_t stag = bind_window(&s, mw);
    say_send(&s, 1, "first", 5);
    say_read(&s, 1, at(0), 8);
    untagged(&out, OP_SEND_INV, 2, 0, true, "bye", 3);
    put_be32(out.octets + OFF_STAG, stag);
    peer_say(&s, &out);
    assert_true(peer_hears_nothing(&s));
    post_receive(&s, RECEIVE_LEN);
    post_receive(&s, RECEIVE_LEN);
    expect_success(IBV_WC_RECV);
    hear_answer(&s, 1, program.memory, 8);
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.invalidated_rkey, stag);
    stream_close(&s);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void receives_complete_in_the_order_of_the_sends(void **state)
{
    struct stream s;
    stream_open(&s, state, 3);
    for (uint32_t msn = 1; msn <= 3; msn++) {
        say_send(&s, msn, NULL, msn);
    }
    for (uint32_t msn = 1; msn <= 3; msn++) {
        struct ibv_wc wc = poll_one();
        assert_int_equal(wc.wr_id, msn - 1);
        assert_int_equal(wc.byte_len, msn);
    }
    stream_close(&s);
}

/* ---- 5.2: the end ---------------------------------------------------------------------------- */

static void an_orderly_end_is_one_for_the_peer(void **state)
{
    struct stream s;
    stream_open(&s, state, 1);
    stream_disconnect(&s);
    peer_expect_end(&s);
    peer_finish(&s);
    stream_expect_event(&s, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(poll_one().status, IBV_WC_WR_FLUSH_ERR);
    stream_close(&s);
}

// 6.2 (and RFC 5041 section 6.2.1): the peer has said all; what weft has to say still goes out.
static void a_half_close_does_not_cut_what_is_still_to_be_sent(void **state)
{
    enum { WRITE_COUNT = 32, WRITE_LEN = 256 * 1024 };
    struct stream s;
    stream_open(&s, state, 0);
    for (unsigned i = 0; i < WRITE_COUNT; i++) {
        post(&s, IBV_WR_RDMA_WRITE, 0, WRITE_LEN, 0);
    }
    assert_false(peer_hears_nothing(&s)); // under way
    peer_finish(&s);
    peer_hears_nothing(&s); // for a moment
    uint64_t got = 0;
    unsigned ended = 0;
    while (peer_hear(&s, &in)) {
        assert_int_equal(opcode_of(&in), OP_WRITE);
        got += in.len - TAGGED_LEN;
        ended += is_last(&in);
    }
    assert_int_equal(ended, WRITE_COUNT);
    assert_true(got == (uint64_t)WRITE_COUNT * WRITE_LEN);
    stream_expect_event(&s, RDMA_CM_EVENT_DISCONNECTED);
    stream_close(&s);
}

static void a_half_close_lets_requests_before_it_be_answered(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    fill(program.memory, 64, 1);
    say_read(&s, 1, at(0), 64);
    say_read(&s, 2, at(0), 64);
    peer_finish(&s);
    hear_answer(&s, 1, program.memory, 64);
    hear_answer(&s, 2, program.memory, 64);
    peer_expect_end(&s);
    stream_expect_event(&s, RDMA_CM_EVENT_DISCONNECTED);
    stream_close(&s);
}

static void a_read_that_a_half_close_leaves_unanswered_is_flushed(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    post(&s, IBV_WR_RDMA_READ, 0, 64, 0);
    peer_hear_opcode(&s, &in, OP_READ_REQUEST);
    peer_finish(&s);
    assert_int_equal(poll_one().status, IBV_WC_WR_FLUSH_ERR);
    peer_expect_end(&s);
    stream_close(&s);
}

/* ---- 4.8, 5.4, 6.2.1: Terminate -------------------------------------------------------------- */

// 4.8: the segment's length, its DDP header and, for a Read Request, its RDMAP header come with it.
static void a_terminate_quotes_what_it_is_about(void **state)
{
    struct stream s;
    stream_open(&s, state, 1);
    const struct read_request r = {.sink_stag = 5, .sink_to = 6, .size = 7, .source_stag = 0x12300};
    read_request(&out, 1, &r);
    peer_say(&s, &out);
    peer_hear_opcode(&s, &in, OP_TERMINATE);
    const uint8_t *t = in.octets + UNTAGGED_LEN;
    assert_int_equal(get_be16(t), 0x0100); // layer 0, type 1, code 0: invalid STag
    assert_int_equal(t[2] & 0xe0, 0xe0);   // M, D, R
    assert_int_equal(get_be16(t + 4), out.len);
    assert_memory_equal(t + 6, out.octets, out.len);
    peer_expect_end(&s);
    assert_int_equal(poll_one().status, IBV_WC_WR_FLUSH_ERR);
    stream_close(&s);
}

static void expect_read_to_fail_by(void **state, const uint8_t *terminate, size_t first_len,
                                   size_t len)
{
    struct stream s;
    stream_open(&s, state, 0);
    post(&s, IBV_WR_RDMA_READ, 0, 64, 0);
    peer_hear_opcode(&s, &in, OP_READ_REQUEST);
    if (first_len > 0) {
        untagged(&out, OP_TERMINATE, 1, 0, false, terminate, first_len);
        peer_say(&s, &out);
    }
    untagged(&out, OP_TERMINATE, 1, (uint32_t)first_len, true, terminate + first_len,
             len - first_len);
    peer_say(&s, &out);
    assert_int_equal(poll_one().status, IBV_WC_REM_ACCESS_ERR);
    peer_expect_end(&s); // 4.8: a Terminate is not answered with one
    stream_close(&s);
}

// Remote protection error, access rights; M, D and R with the headers of the first Read Request.
static void a_terminate_fails_the_request_that_it_quotes(void **state)
{
    uint8_t terminate[4 + 2 + UNTAGGED_LEN + READ_REQUEST_LEN] = {0x01, 0x02, 0xe0, 0x00,
                                                                  0x00, 46,   0x41, 0x41};
    terminate[6 + OFF_QN + 3] = 1;
    terminate[6 + OFF_MSN + 3] = 1;
    expect_read_to_fail_by(state, terminate, 0, sizeof terminate);
    expect_read_to_fail_by(state, terminate, 3, sizeof terminate); // in two segments
    expect_read_to_fail_by(state, terminate, 20, sizeof terminate);
}

// 4.8: it SHOULD be sent. A peer that reads slowly gets it when it comes to read it.
static void a_terminate_waits_for_a_window_that_is_shut(void **state)
{
    enum { WRITE_COUNT = 32, WRITE_LEN = 256 * 1024, SHUT_MS = 2600 };
    struct stream s;
    stream_open(&s, state, 0);
    for (unsigned i = 0; i < WRITE_COUNT; i++) {
        post(&s, IBV_WR_RDMA_WRITE, 0, WRITE_LEN, 0);
    }
    untagged(&out, OP_SEND, 9, 0, true, NULL, 8); // not the message that is due
    peer_say(&s, &out);
    usleep(SHUT_MS * 1000);
    peer_expect_terminate(&s, 1, 2, 0x03);
    stream_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH_ROLES(send_has_the_header_of_the_figure),
        IN_BOTH_ROLES(reserved_bits_of_a_send_are_ignored),
        IN_BOTH_ROLES(read_asks_by_the_figure_and_takes_its_answer),
        IN_BOTH_ROLES(read_request_is_answered_from_its_source),
        IN_BOTH_ROLES(write_is_placed_and_takes_no_receive),
        IN_BOTH_ROLES(messages_of_no_octets_are_taken),
        IN_BOTH_ROLES(send_with_invalidate_invalidates),
        IN_BOTH_ROLES(sends_of_each_kind_have_their_opcode),
        IN_BOTH_ROLES(read_requests_are_answered_in_their_order),
        IN_BOTH_ROLES(a_read_answers_with_what_a_write_before_it_wrote),
        IN_BOTH_ROLES(a_read_behind_a_send_waits_until_that_is_delivered),
        RESPONDING(an_invalidation_waits_for_the_requests_before_it),
        IN_BOTH_ROLES(receives_complete_in_the_order_of_the_sends),
        IN_BOTH_ROLES(an_orderly_end_is_one_for_the_peer),
        IN_BOTH_ROLES(a_half_close_does_not_cut_what_is_still_to_be_sent),
        IN_BOTH_ROLES(a_half_close_lets_requests_before_it_be_answered),
        IN_BOTH_ROLES(a_read_that_a_half_close_leaves_unanswered_is_flushed),
        IN_BOTH_ROLES(a_terminate_quotes_what_it_is_about),
        IN_BOTH_ROLES(a_terminate_fails_the_request_that_it_quotes),
        RESPONDING(a_terminate_waits_for_a_window_that_is_shut),
    };
    setenv("WEFT_PEER_TO_PEER", "off", 1);
    setenv("WEFT_ERRORS", "off", 1);
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
