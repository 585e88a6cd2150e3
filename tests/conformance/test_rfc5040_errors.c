// RFC 5040 sections 4.8 and 7, RFC 5041 section 7.2: what ends the stream, and the layer, type and
// code that the Terminate gives for it.

#include <stdlib.h>

#include "tests/conformance/stream.h"

static struct ulpdu out, in;

static void write_to(uint32_t stag, uint64_t to, size_t len)
{
    tagged(&out, OP_WRITE, stag, to, true, NULL, len);
}

static void read_from(uint32_t stag, uint64_t to, uint32_t len)
{
    const struct read_request r = {.size = len, .source_stag = stag, .source_to = to};
    read_request(&out, 1, &r);
}

/* ---- memory: 5040 section 7.2, 5041 section 7.2 ---------------------------------------------- */

static void an_stag_that_names_nothing(void **state)
{
    write_to(0x12345678, at(0), 8);
    expect_refusal(state, &out, 1, 1, 0x00);
    read_from(0x12345678, at(0), 8);
    expect_refusal(state, &out, 0, 1, 0x00);
}

static void octets_outside_the_region(void **state)
{
    write_to(program.mr->rkey, at(MEMORY_LEN - 7), 8);
    expect_refusal(state, &out, 1, 1, 0x01);
    write_to(program.mr->rkey, at(0) - 1, 8);
    expect_refusal(state, &out, 1, 1, 0x01);
    read_from(program.mr->rkey, at(MEMORY_LEN - 7), 8);
    expect_refusal(state, &out, 0, 1, 0x01);
}

// DDP has no code for missing rights: docs/iwarp.md.
static void rights_that_the_region_does_not_grant(void **state)
{
    write_to(program.closed->rkey, at(0), 8);
    expect_refusal(state, &out, 1, 1, 0x00);
    read_from(program.closed->rkey, at(0), 8);
    expect_refusal(state, &out, 0, 1, 0x02);
}

static void an_stag_of_another_domain(void **state)
{
    write_to(program.foreign->rkey, at(0), 8);
    expect_refusal(state, &out, 1, 1, 0x02);
    read_from(program.foreign->rkey, at(0), 8);
    expect_refusal(state, &out, 0, 1, 0x03);
}

static void an_offset_that_wraps(void **state)
{
    write_to(program.mr->rkey, UINT64_MAX - 3, 8);
    expect_refusal(state, &out, 1, 1, 0x03);
    read_from(program.mr->rkey, UINT64_MAX - 3, 8);
    expect_refusal(state, &out, 0, 1, 0x04);
}

static void expect_not_invalidated(void **state, uint32_t stag, unsigned code)
{
    untagged(&out, OP_SEND_INV, 1, 0, true, NULL, 4);
    put_be32(out.octets + OFF_STAG, stag);
    expect_refusal(state, &out, 0, 1, code);
}

static void an_stag_that_cannot_be_invalidated(void **state)
{
    expect_not_invalidated(state, program.mr->rkey, 0x09);      // a region is no window
    expect_not_invalidated(state, program.foreign->rkey, 0x09); // another domain's
    expect_not_invalidated(state, 0x12345678, 0x00);
}

/* ---- operations: 5040 section 7.2 ------------------------------------------------------------ */

static void another_version_of_rdmap(void **state)
{
    untagged(&out, OP_SEND, 1, 0, true, NULL, 8);
    out.octets[1] = (uint8_t)(out.octets[1] & 0x3f) | 0x80;
    expect_refusal(state, &out, 0, 2, 0x05);
}

static void an_opcode_without_a_meaning(void **state)
{
    static const uint8_t opcodes[] = {0x0c, 0x0d, 0x0e, 0x0f};
    for (unsigned i = 0; i < sizeof opcodes; i++) {
        untagged(&out, OP_SEND, 1, 0, true, NULL, 8);
        out.octets[1] = RDMAP_V1 | opcodes[i];
        expect_refusal(state, &out, 0, 2, 0x06);
    }
}

static void an_opcode_in_the_other_buffer_model(void **state)
{
    untagged(&out, OP_WRITE, 1, 0, true, NULL, 8);
    expect_refusal(state, &out, 0, 2, 0x06);
    tagged(&out, OP_SEND, program.mr->rkey, at(0), true, NULL, 8);
    expect_refusal(state, &out, 0, 2, 0x06);
}

static void a_response_that_nobody_asked_for(void **state)
{
    tagged(&out, OP_READ_RESPONSE, program.mr->rkey, at(0), true, NULL, 8);
    expect_refusal(state, &out, 0, 2, 0x06);
}

// No code is given for more requests than IRD allows; a catastrophic error of the stream fits.
static void more_read_requests_than_ird(void **state)
{
    enum { COUNT = 16 };
    static uint8_t fpdus[COUNT * 64];
    struct stream s;
    size_t len = 0;
    stream_open(&s, state, 0);
    for (uint32_t msn = 1; msn <= COUNT; msn++) {
        const struct read_request r = {
            .size = 4096, .source_stag = program.mr->rkey, .source_to = at(0)};
        read_request(&out, msn, &r);
        len += fpdu_put(fpdus + len, out.octets, out.len);
    }
    peer_send(&s, fpdus, len); // in one piece, before any answer
    peer_expect_terminate(&s, 0, 2, 0x07);
    stream_close(&s);
}

/* ---- DDP: 5041 section 7.2 ------------------------------------------------------------------- */

static void another_version_of_ddp(void **state)
{
    write_to(program.mr->rkey, at(0), 8);
    out.octets[0] = (uint8_t)(out.octets[0] & 0xfc) | 2;
    expect_refusal(state, &out, 1, 1, 0x04);
    untagged(&out, OP_SEND, 1, 0, true, NULL, 8);
    out.octets[0] = (uint8_t)(out.octets[0] & 0xfc) | 2;
    expect_refusal(state, &out, 1, 2, 0x06);
}

static void a_queue_that_does_not_exist(void **state)
{
    static const uint32_t queues[] = {4, 5, 0xffffffff}, msns[] = {1, 2};
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned k = 0; k < 2; k++) {
            untagged(&out, OP_SEND, msns[k], 0, true, NULL, 8);
            put_be32(out.octets + OFF_QN, queues[i]);
            expect_refusal(state, &out, 1, 2, 0x01);
        }
    }
}

static void a_message_number_that_is_not_due(void **state)
{
    static const uint32_t msns[] = {0, 2, 0xffffffff};
    for (unsigned i = 0; i < 3; i++) {
        untagged(&out, OP_SEND, msns[i], 0, true, NULL, 8);
        expect_refusal(state, &out, 1, 2, 0x03);
    }
}

static void an_offset_that_does_not_continue_the_message(void **state)
{
    untagged(&out, OP_SEND, 1, 1, true, NULL, 8);
    expect_refusal(state, &out, 1, 2, 0x04);
}

static void a_message_too_long_for_its_receive(void **state)
{
    untagged(&out, OP_SEND, 1, 0, true, NULL, RECEIVE_LEN + 1);
    expect_refusal(state, &out, 1, 2, 0x05);
}

// 5041 section 7.1: no buffer. It is waited for, for WEFT_RNR_TIMEOUT: docs/deviations.md.
static void a_send_that_finds_no_receive_in_time(void **state)
{
    struct stream s;
    stream_open(&s, state, 0);
    untagged(&out, OP_SEND, 1, 0, true, NULL, 8);
    peer_say(&s, &out);
    peer_expect_terminate(&s, 1, 2, 0x02);
    stream_close(&s);
}

/* ---- answers of ours ------------------------------------------------------------------------- */

// 5040 section 4.8: one message, the last of the stream; what comes behind the error is not taken.
static void nothing_is_taken_behind_an_error(void **state)
{
    struct stream s;
    stream_open(&s, state, 1);
    program.memory[0] = 1;
    write_to(0x12345678, at(0), 8);
    peer_say(&s, &out);
    tagged(&out, OP_WRITE, program.mr->rkey, at(0), true, "\2", 1);
    peer_say(&s, &out);
    untagged(&out, OP_SEND, 1, 0, true, NULL, 0);
    peer_say(&s, &out);
    peer_expect_terminate(&s, 1, 1, 0x00);
    assert_int_equal(poll_one().status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(program.memory[0], 1);
    peer_finish(&s);
    stream_expect_event(&s, RDMA_CM_EVENT_DISCONNECTED);
    stream_close(&s);
}

static void expect_response_to_fail(void **state, uint32_t stag, uint64_t to, size_t len,
                                    unsigned layer, unsigned etype, unsigned code)
{
    struct stream s;
    stream_open(&s, state, 0);
    post(&s, IBV_WR_RDMA_READ, 0, 64, 0);
    peer_hear_opcode(&s, &in, OP_READ_REQUEST);
    struct read_request r = read_request_of(&in);
    tagged(&out, OP_READ_RESPONSE, r.sink_stag ^ stag, r.sink_to + to, true, NULL, len);
    peer_say(&s, &out);
    peer_expect_terminate(&s, layer, etype, code);
    assert_int_not_equal(poll_one().status, IBV_WC_SUCCESS);
    stream_close(&s);
}

// 5041 section 7.2 for the sink of a Read.
static void a_response_that_leaves_its_sink(void **state)
{
    expect_response_to_fail(state, 0x100, 0, 64, 1, 1, 0x00);
    expect_response_to_fail(state, 0, 1, 63, 1, 1, 0x01);
    expect_response_to_fail(state, 0, 0, 65, 1, 1, 0x01);
    expect_response_to_fail(state, 0, 0, 63, 0, 2, 0xff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH_ROLES(an_stag_that_names_nothing),
        IN_BOTH_ROLES(octets_outside_the_region),
        IN_BOTH_ROLES(rights_that_the_region_does_not_grant),
        IN_BOTH_ROLES(an_stag_of_another_domain),
        IN_BOTH_ROLES(an_offset_that_wraps),
        IN_BOTH_ROLES(an_stag_that_cannot_be_invalidated),
        IN_BOTH_ROLES(another_version_of_rdmap),
        IN_BOTH_ROLES(an_opcode_without_a_meaning),
        IN_BOTH_ROLES(an_opcode_in_the_other_buffer_model),
        IN_BOTH_ROLES(a_response_that_nobody_asked_for),
        IN_BOTH_ROLES(more_read_requests_than_ird),
        IN_BOTH_ROLES(another_version_of_ddp),
        IN_BOTH_ROLES(a_queue_that_does_not_exist),
        IN_BOTH_ROLES(a_message_number_that_is_not_due),
        IN_BOTH_ROLES(an_offset_that_does_not_continue_the_message),
        IN_BOTH_ROLES(a_message_too_long_for_its_receive),
        RESPONDING(a_send_that_finds_no_receive_in_time),
        IN_BOTH_ROLES(nothing_is_taken_behind_an_error),
        IN_BOTH_ROLES(a_response_that_leaves_its_sink),
    };
    setenv("WEFT_PEER_TO_PEER", "off", 1);
    setenv("WEFT_RNR_TIMEOUT", "1", 1);
    setenv("WEFT_ERRORS", "off", 1);
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
