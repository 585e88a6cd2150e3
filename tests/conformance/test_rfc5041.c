// RFC 5041, DDP: segments, their order, and messages of no octets.

#include <stdlib.h>
#include <string.h>

#include "tests/conformance/stream.h"

static struct ulpdu out, in;

static void fill(uint8_t *octets, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        octets[i] = (uint8_t)(i * 7 + i / 256);
    }
}

// 5.1, 5.3: in the order of their offsets, L in the last one only; 4.2: TO moves on.
static void a_long_write_comes_in_segments_that_follow_each_other(void **state)
{
    enum { LEN = 200000 };
    struct stream s;
    uint64_t to = 0x7000000000;
    size_t got = 0;
    stream_open(&s, state, 0);
    fill(program.memory, LEN);
    post(&s, IBV_WR_RDMA_WRITE, 0, LEN, to);
    do {
        peer_hear_opcode(&s, &in, OP_WRITE);
        assert_int_equal(in.octets[0] & ~LAST, TAGGED | DDP_V1);
        assert_int_equal(get_be32(in.octets + OFF_TAGGED_STAG), PEER_KEY);
        assert_true(get_be64(in.octets + OFF_TAGGED_TO) == to + got);
        assert_memory_equal(in.octets + TAGGED_LEN, program.memory + got, in.len - TAGGED_LEN);
        got += in.len - TAGGED_LEN;
        assert_int_equal(is_last(&in), got == LEN);
    } while (!is_last(&in));
    expect_success(IBV_WC_RDMA_WRITE);
    stream_close(&s);
}

// 4.3: one MSN for all segments of a message, the next for the next; MO from 0.
static void a_long_send_has_one_number_and_offsets_from_0(void **state)
{
    enum { LEN = 200000 };
    struct stream s;
    stream_open(&s, state, 0);
    fill(program.memory, LEN);
    for (uint32_t msn = 1; msn <= 2; msn++) {
        size_t got = 0;
        post(&s, IBV_WR_SEND, 0, LEN, 0);
        do {
            peer_hear_opcode(&s, &in, OP_SEND);
            assert_int_equal(get_be32(in.octets + OFF_QN), 0);
            assert_int_equal(get_be32(in.octets + OFF_MSN), msn);
            assert_int_equal(get_be32(in.octets + OFF_MO), got);
            assert_memory_equal(in.octets + UNTAGGED_LEN, program.memory + got,
                                in.len - UNTAGGED_LEN);
            got += in.len - UNTAGGED_LEN;
        } while (!is_last(&in));
        assert_int_equal(got, LEN);
        expect_success(IBV_WC_SEND);
    }
    stream_close(&s);
}

static void a_send_in_segments_is_one_message(void **state)
{
    enum { LEN = 1000, STEP = 77 };
    struct stream s;
    uint8_t octets[LEN];
    fill(octets, LEN);
    stream_open(&s, state, 2);
    for (uint32_t mo = 0; mo < LEN; mo += STEP) {
        uint32_t len = LEN - mo < STEP ? LEN - mo : STEP;
        untagged(&out, OP_SEND, 1, mo, mo + len == LEN, octets + mo, len);
        peer_say(&s, &out);
    }
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, LEN);
    assert_memory_equal(program.memory + RECEIVES_AT, octets, LEN);
    assert_true(polls_nothing()); // it took one receive
    stream_close(&s);
}

// 5.2: tagged segments name their own place; of one message they may come in any order.
static void segments_of_a_write_may_come_in_any_order(void **state)
{
    struct stream s;
    stream_open(&s, state, 1);
    memset(program.memory, 0, 4);
    tagged(&out, OP_WRITE, program.mr->rkey, at(2), false, "cd", 2);
    peer_say(&s, &out);
    tagged(&out, OP_WRITE, program.mr->rkey, at(0), true, "ab", 2);
    peer_say(&s, &out);
    untagged(&out, OP_SEND, 1, 0, true, NULL, 0);
    peer_say(&s, &out);
    expect_success(IBV_WC_RECV);
    assert_memory_equal(program.memory, "abcd", 4);
    stream_close(&s);
}

// 5.2: of a segment without payload neither STag nor TO may be looked at: not a Write's ...
static void an_empty_write_may_name_anything(void **state)
{
    struct stream s;
    stream_open(&s, state, 1);
    tagged(&out, OP_WRITE, program.closed->rkey, UINT64_MAX, true, NULL, 0);
    peer_say(&s, &out);
    tagged(&out, OP_WRITE, 0xffffffff, 1, true, NULL, 0);
    peer_say(&s, &out);
    untagged(&out, OP_SEND, 1, 0, true, NULL, 0);
    peer_say(&s, &out);
    expect_success(IBV_WC_RECV);
    stream_close(&s);
}

// ... nor a Read Response's.
static void an_empty_response_may_name_anything(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    post(&s, IBV_WR_RDMA_READ, 0, 0, 0);
    peer_hear_opcode(&s, &in, OP_READ_REQUEST);
    tagged(&out, OP_READ_RESPONSE, 0xfffffff0, UINT64_MAX, true, NULL, 0);
    peer_say(&s, &out);
    expect_success(IBV_WC_RDMA_READ);
    stream_close(&s);
}

// 4.1: L marks the end, be there octets before it or not.
static void a_response_may_end_with_a_segment_of_its_own(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    post(&s, IBV_WR_RDMA_READ, 0, 64, 0);
    peer_hear_opcode(&s, &in, OP_READ_REQUEST);
    struct read_request r = read_request_of(&in);
    tagged(&out, OP_READ_RESPONSE, r.sink_stag, r.sink_to, false, NULL, 64);
    peer_say(&s, &out);
    assert_true(polls_nothing());
    tagged(&out, OP_READ_RESPONSE, 0, 0, true, NULL, 0);
    peer_say(&s, &out);
    expect_success(IBV_WC_RDMA_READ);
    stream_close(&s);
}

// 4.1: reserved bits are 0 in what is sent.
static void reserved_bits_are_0(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    post(&s, IBV_WR_RDMA_WRITE, 0, 8, 0);
    post(&s, IBV_WR_SEND, 0, 8, 0);
    post(&s, IBV_WR_RDMA_READ, 0, 8, 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(peer_hear(&s, &in));
        assert_int_equal(in.octets[0] & 0x3c, 0);
        assert_int_equal(in.octets[1] & 0x30, 0);
        assert_int_equal(in.octets[1] & 0xc0, RDMAP_V1);
    }
    stream_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH_ROLES(a_long_write_comes_in_segments_that_follow_each_other),
        IN_BOTH_ROLES(a_long_send_has_one_number_and_offsets_from_0),
        IN_BOTH_ROLES(a_send_in_segments_is_one_message),
        IN_BOTH_ROLES(segments_of_a_write_may_come_in_any_order),
        IN_BOTH_ROLES(an_empty_write_may_name_anything),
        IN_BOTH_ROLES(an_empty_response_may_name_anything),
        IN_BOTH_ROLES(a_response_may_end_with_a_segment_of_its_own),
        IN_BOTH_ROLES(reserved_bits_are_0),
    };
    setenv("WEFT_PEER_TO_PEER", "off", 1);
    setenv("WEFT_ERRORS", "off", 1);
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
