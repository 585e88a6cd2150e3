// RFC 7306: atomic operations and Immediate Data.

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/stream.h"

static struct ulpdu out, in;

static uint64_t word_at(uint32_t offset)
{
    uint64_t word;
    memcpy(&word, program.memory + offset, sizeof word);
    return word;
}

static void word_set(uint32_t offset, uint64_t word)
{
    memcpy(program.memory + offset, &word, sizeof word);
}

static struct atomic_request fetch_add(uint64_t to, uint64_t add)
{
    return (struct atomic_request){.opcode = ATOMIC_FETCH_ADD,
                                   .id = 0x77,
                                   .stag = program.mr->rkey,
                                   .to = to,
                                   .add_swap = add};
}

// 5.2: the identifier of the request and the value before it, on queue 3.
static void hear_atomic_response(struct stream *s, uint32_t msn, uint32_t id, uint64_t original)
{
    peer_hear_opcode(s, &in, OP_ATOMIC_RESPONSE);
    assert_int_equal(in.octets[0], LAST | DDP_V1);
    assert_int_equal(get_be32(in.octets + OFF_QN), 3);
    assert_int_equal(get_be32(in.octets + OFF_MSN), msn);
    assert_int_equal(in.len, UNTAGGED_LEN + 12);
    assert_int_equal(get_be32(in.octets + UNTAGGED_LEN), id);
    assert_true(get_be64(in.octets + UNTAGGED_LEN + 4) == original);
}

/* ---- 5: atomics ------------------------------------------------------------------------------ */

static void fetch_add_adds_and_returns_what_was_there(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    word_set(64, 40);
    struct atomic_request r = fetch_add(at(64), 2);
    atomic_request(&out, 1, &r);
    peer_say(&s, &out);
    hear_atomic_response(&s, 1, 0x77, 40);
    assert_true(word_at(64) == 42);
    stream_close(&s);
}

// 5.1.1: each bit of the mask ends a field; the carry does not leave it.
static void fetch_add_adds_in_fields(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    word_set(64, 0x00000000ffffffff);
    struct atomic_request r = fetch_add(at(64), 1);
    r.add_swap_mask = 0x0000000080000000;
    atomic_request(&out, 1, &r);
    peer_say(&s, &out);
    hear_atomic_response(&s, 1, 0x77, 0x00000000ffffffff);
    assert_true(word_at(64) == 0);
    stream_close(&s);
}

// 5.2.2: under the compare mask; what is swapped in, under the swap mask.
static void compare_swap_swaps_where_the_masks_say(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    word_set(64, 0x1111111122222222);
    struct atomic_request r = {.opcode = ATOMIC_COMPARE_SWAP,
                               .id = 5,
                               .stag = program.mr->rkey,
                               .to = at(64),
                               .add_swap = 0x3333333344444444,
                               .add_swap_mask = 0x00000000ffffffff,
                               .compare = 0x9999999922222222,
                               .compare_mask = 0x00000000ffffffff};
    atomic_request(&out, 1, &r);
    peer_say(&s, &out);
    hear_atomic_response(&s, 1, 5, 0x1111111122222222);
    assert_true(word_at(64) == 0x1111111144444444);
    r.compare_mask = UINT64_MAX; // now they differ
    r.id = 6;
    atomic_request(&out, 2, &r);
    peer_say(&s, &out);
    hear_atomic_response(&s, 2, 6, 0x1111111144444444);
    assert_true(word_at(64) == 0x1111111144444444);
    stream_close(&s);
}

static void weft_asks_by_the_figure_and_takes_the_answer(void **state)
{
    struct stream s;
    uint8_t answer[12] = {0};
    stream_open(&s, state, 0);
    post(&s, IBV_WR_ATOMIC_CMP_AND_SWP, 128, 8, 0x4000);
    peer_hear_opcode(&s, &in, OP_ATOMIC_REQUEST);
    assert_int_equal(get_be32(in.octets + OFF_QN), 1);
    assert_int_equal(in.len, UNTAGGED_LEN + ATOMIC_REQUEST_LEN);
    struct atomic_request r = atomic_request_of(&in);
    assert_int_equal(r.opcode, ATOMIC_COMPARE_SWAP);
    assert_int_equal(r.stag, PEER_KEY);
    assert_true(r.to == 0x4000);
    assert_true(r.compare == 0x1122334455667788 && r.compare_mask == UINT64_MAX);
    assert_true(r.add_swap == 0x99aabbccddeeff00 && r.add_swap_mask == UINT64_MAX);
    put_be32(answer, r.id);
    put_be64(answer + 4, 0x0102030405060708);
    untagged(&out, OP_ATOMIC_RESPONSE, 1, 0, true, answer, sizeof answer);
    peer_say(&s, &out);
    expect_success(IBV_WC_COMP_SWAP);
    assert_true(word_at(128) == 0x0102030405060708);
    stream_close(&s);
}

// 7: an atomic behind a Send is done when that has been delivered.
static void an_atomic_behind_a_send_waits_until_that_is_delivered(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    word_set(64, 7);
    untagged(&out, OP_SEND, 1, 0, true, NULL, 4);
    peer_say(&s, &out);
    struct atomic_request r = fetch_add(at(64), 1);
    atomic_request(&out, 1, &r);
    peer_say(&s, &out);
    assert_true(peer_hears_nothing(&s));
    assert_true(word_at(64) == 7);
    post_receive(&s, RECEIVE_LEN);
    expect_success(IBV_WC_RECV);
    hear_atomic_response(&s, 1, 0x77, 7);
    stream_close(&s);
}

// 7: Reads and atomics are answered in the order in which they were asked.
static void reads_and_atomics_are_answered_in_their_order(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    word_set(64, 1);
    const struct read_request read = {
        .sink_stag = 9, .size = 8, .source_stag = program.mr->rkey, .source_to = at(64)};
    struct atomic_request r = fetch_add(at(64), 1);
    atomic_request(&out, 1, &r);
    peer_say(&s, &out);
    read_request(&out, 2, &read);
    peer_say(&s, &out);
    atomic_request(&out, 3, &r);
    peer_say(&s, &out);
    hear_atomic_response(&s, 1, 0x77, 1);
    peer_hear_opcode(&s, &in, OP_READ_RESPONSE);
    hear_atomic_response(&s, 2, 0x77, 2);
    stream_close(&s);
}

/* ---- 8: errors ------------------------------------------------------------------------------- */

static void expect_atomic_refused(void **state, const struct atomic_request *r, unsigned etype,
                                  unsigned code)
{
    atomic_request(&out, 1, r);
    expect_refusal(state, &out, 0, etype, code);
}

static void an_atomic_that_cannot_be_done_is_refused(void **state)
{
    struct atomic_request r = fetch_add(at(64), 1);
    r.stag = 0x12345678;
    expect_atomic_refused(state, &r, 1, 0x00);
    r = fetch_add(at(MEMORY_LEN), 1);
    expect_atomic_refused(state, &r, 1, 0x01);
    r = fetch_add(at(64), 1);
    r.stag = program.closed->rkey;
    expect_atomic_refused(state, &r, 1, 0x02);
    r.stag = program.foreign->rkey;
    expect_atomic_refused(state, &r, 1, 0x03);
    r = fetch_add(at(64), 1);
    r.opcode = (enum atomic_opcode)1;
    expect_atomic_refused(state, &r, 2, 0x06);
    r = fetch_add(at(65), 1); // not aligned
    expect_atomic_refused(state, &r, 2, 0x07);
}

/* ---- 6: Immediate Data ----------------------------------------------------------------------- */

// 6.1, 6.2: eight octets, on queue 0, which take a receive.
static void immediate_data_takes_a_receive(void **state)
{
    static const uint8_t octets[8] = {1, 2, 3, 4, 0, 0, 0, 0};
    struct stream s;
    stream_open(&s, state, 1);
    tagged(&out, OP_WRITE, program.mr->rkey, at(0), true, "abc", 3);
    peer_say(&s, &out);
    untagged(&out, OP_IMMEDIATE, 1, 0, true, octets, sizeof octets);
    peer_say(&s, &out);
    struct ibv_wc wc = poll_one();
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
    assert_int_equal(ntohl(wc.imm_data), 0x01020304);
    assert_int_equal(wc.byte_len, 3);
    assert_memory_equal(program.memory, "abc", 3);
    stream_close(&s);
}

static void write_with_immediate_is_a_write_and_immediate_data(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    post(&s, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 16, 0x5000);
    peer_hear_opcode(&s, &in, OP_WRITE);
    peer_hear_opcode(&s, &in, OP_IMMEDIATE);
    assert_int_equal(get_be32(in.octets + OFF_QN), 0);
    assert_int_equal(get_be32(in.octets + OFF_MSN), 1);
    assert_int_equal(in.len, UNTAGGED_LEN + 8);
    expect_success(IBV_WC_RDMA_WRITE);
    stream_close(&s);
}

static void immediate_data_of_another_length_is_refused(void **state)
{
    untagged(&out, OP_IMMEDIATE, 1, 0, true, NULL, 7);
    expect_refusal(state, &out, 0, 2, 0xff);
    untagged(&out, OP_IMMEDIATE, 1, 0, true, NULL, 9);
    expect_refusal(state, &out, 1, 2, 0x05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH_ROLES(fetch_add_adds_and_returns_what_was_there),
        IN_BOTH_ROLES(fetch_add_adds_in_fields),
        IN_BOTH_ROLES(compare_swap_swaps_where_the_masks_say),
        IN_BOTH_ROLES(weft_asks_by_the_figure_and_takes_the_answer),
        IN_BOTH_ROLES(an_atomic_behind_a_send_waits_until_that_is_delivered),
        IN_BOTH_ROLES(reads_and_atomics_are_answered_in_their_order),
        IN_BOTH_ROLES(an_atomic_that_cannot_be_done_is_refused),
        IN_BOTH_ROLES(immediate_data_takes_a_receive),
        IN_BOTH_ROLES(write_with_immediate_is_a_write_and_immediate_data),
        IN_BOTH_ROLES(immediate_data_of_another_length_is_refused),
    };
    setenv("WEFT_PEER_TO_PEER", "off", 1);
    setenv("WEFT_ERRORS", "off", 1);
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
