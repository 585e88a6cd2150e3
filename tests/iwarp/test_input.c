// Refusals: each thing a peer can do wrong, the cause that the Terminate names, and no octet
// written.
#include "tests/iwarp/craft.h"
#include "tests/iwarp/pair.h"

static uint64_t addr(const struct end *e, size_t offset)
{
    return (uintptr_t)e->memory + offset;
}

// b gets the ULPDU and must refuse it for this reason, with this cause.
static void expect_refusal(struct pair *p, const struct craft *c, enum rdmap_refusal refusal,
                           enum terminate_cause cause)
{
    struct end *b = &p->b;
    assert_int_equal(pair_inject(p, b, c->octets, c->len), ULPDU_STOP);
    assert_int_equal(qp_counters(b->qp)->refusals[refusal], 1);
    assert_int_equal(rdmap_refusal_facts(refusal)->cause, cause);
    assert_int_equal(qp_state_of(b->qp), QP_ERR);
    assert_int_equal(pair_inject(p, b, c->octets, c->len), ULPDU_STOP); // nothing more is taken
    assert_int_equal(qp_counters(b->qp)->refusals[refusal], 1);
    pair_expect_terminate(p, b, cause);
    bool abort;
    assert_false(qp_wants_close(b->qp, &abort)); // not before the Terminate has left
    pair_hand(p, b);
    assert_true(qp_wants_close(b->qp, &abort));
    assert_false(abort);
    pair_close(p);
}

static void refuse(const struct craft *c, enum rdmap_refusal refusal, enum terminate_cause cause)
{
    expect_refusal(pair_open(NULL), c, refusal, cause);
}

static void a_segment_shorter_than_its_header(void **state)
{
    for (size_t len = 0; len < DDP_UNTAGGED_HEADER_LEN; len++) {
        struct craft c = craft_untagged(RDMAP_SEND, 1, 0, true, NULL, 0);
        c.len = len;
        refuse(&c, RDMAP_REFUSED_DDP_TOO_SHORT, TERM_RDMAP_OPERATION_UNSPECIFIED);
    }
    for (size_t len = 1; len < DDP_TAGGED_HEADER_LEN; len++) {
        struct craft c = craft_tagged(RDMAP_WRITE, 1, 0, true, NULL, 0);
        c.len = len;
        refuse(&c, RDMAP_REFUSED_DDP_TOO_SHORT, TERM_RDMAP_OPERATION_UNSPECIFIED);
    }
}

static void another_ddp_version(void **state)
{
    struct craft c = craft_tagged(RDMAP_WRITE, 1, 0, true, NULL, 0);
    c.octets[0] ^= 3;
    refuse(&c, RDMAP_REFUSED_DDP_TAGGED_VERSION, TERM_DDP_TAGGED_VERSION);
    c = craft_untagged(RDMAP_SEND, 1, 0, true, NULL, 0);
    c.octets[0] ^= 3;
    refuse(&c, RDMAP_REFUSED_DDP_UNTAGGED_VERSION, TERM_DDP_UNTAGGED_VERSION);
}

static void a_queue_that_does_not_exist(void **state)
{
    struct ddp_header h = {.last = true, .rsvdulp = 0x43, .qn = DDP_QN_COUNT, .msn = 1};
    struct craft c = craft_of(&h, NULL, 0);
    refuse(&c, RDMAP_REFUSED_DDP_QN, TERM_DDP_QN);
}

static void a_message_number_that_is_not_due(void **state)
{
    static const uint32_t numbers[] = {0, 2, UINT32_MAX};
    for (unsigned i = 0; i < 3; i++) {
        struct craft c = craft_untagged(RDMAP_SEND, numbers[i], 0, true, NULL, 0);
        refuse(&c, RDMAP_REFUSED_DDP_MSN_RANGE, TERM_DDP_MSN_RANGE);
    }
}

static void an_offset_that_does_not_continue(void **state)
{
    struct craft c = craft_untagged(RDMAP_SEND, 1, 1, true, NULL, 0);
    refuse(&c, RDMAP_REFUSED_DDP_MO, TERM_DDP_MO);

    struct pair *p = pair_open(NULL);
    pair_post_receive(p, &p->b, 1, 0, 100);
    c = craft_untagged(RDMAP_SEND, 1, 0, false, NULL, 10);
    assert_int_equal(pair_inject(p, &p->b, c.octets, c.len), ULPDU_TAKEN);
    c = craft_untagged(RDMAP_SEND, 1, 9, true, NULL, 10);
    expect_refusal(p, &c, RDMAP_REFUSED_DDP_MO, TERM_DDP_MO);
}

static void another_rdmap_version(void **state)
{
    struct craft c = craft_untagged(RDMAP_SEND, 1, 0, true, NULL, 0);
    c.octets[DDP_OFF_RSVDULP] = 0x03;
    refuse(&c, RDMAP_REFUSED_VERSION, TERM_RDMAP_VERSION);
    c = craft_tagged(RDMAP_WRITE, 1, 0, true, NULL, 1);
    c.octets[DDP_OFF_RSVDULP] = 0x80;
    refuse(&c, RDMAP_REFUSED_VERSION, TERM_RDMAP_VERSION);
}

static void opcodes_without_a_meaning(void **state)
{
    static const uint8_t opcodes[] = {0xC, 0xD, 0xF};
    for (unsigned i = 0; i < sizeof opcodes; i++) {
        struct craft c = craft_untagged((enum rdmap_opcode)opcodes[i], 1, 0, true, NULL, 16);
        refuse(&c, RDMAP_REFUSED_OPCODE, TERM_RDMAP_OPCODE);
    }
}

static void opcode_and_t_bit_disagree(void **state)
{
    for (uint8_t opcode = 0; opcode <= RDMAP_ATOMIC_RESPONSE; opcode++) {
        struct craft c = rdmap_opcode_facts(opcode)->is_tagged
                             ? craft_untagged((enum rdmap_opcode)opcode, 1, 0, true, NULL, 8)
                             : craft_tagged((enum rdmap_opcode)opcode, 1, 0, true, NULL, 8);
        refuse(&c, RDMAP_REFUSED_OPCODE_LAYOUT, TERM_RDMAP_OPCODE);
    }
}

static void opcode_and_queue_disagree(void **state)
{
    struct ddp_header h = {.last = true, .rsvdulp = 0x43, .qn = DDP_QN_READ_REQUEST, .msn = 1};
    struct craft c = craft_of(&h, NULL, 28);
    refuse(&c, RDMAP_REFUSED_OPCODE_QUEUE, TERM_DDP_QN);
    h = (struct ddp_header){.last = true, .rsvdulp = 0x41, .qn = DDP_QN_SEND, .msn = 1};
    c = craft_of(&h, NULL, 28);
    refuse(&c, RDMAP_REFUSED_OPCODE_QUEUE, TERM_DDP_QN);
}

static void messages_of_fixed_length_have_that_length(void **state)
{
    static const enum rdmap_opcode opcodes[] = {RDMAP_READ_REQUEST, RDMAP_ATOMIC_REQUEST,
                                                RDMAP_ATOMIC_RESPONSE, RDMAP_IMMEDIATE,
                                                RDMAP_IMMEDIATE_SE};
    for (unsigned i = 0; i < 5; i++) {
        size_t len = rdmap_opcode_facts((uint8_t)opcodes[i])->fixed_len;
        struct craft c = craft_untagged(opcodes[i], 1, 0, true, NULL, len - 1);
        refuse(&c, RDMAP_REFUSED_TRUNCATED, TERM_RDMAP_OPERATION_UNSPECIFIED);
        c = craft_untagged(opcodes[i], 1, 0, false, NULL, len); // Last is missing
        refuse(&c, RDMAP_REFUSED_TRUNCATED, TERM_RDMAP_OPERATION_UNSPECIFIED);
        c = craft_untagged(opcodes[i], 1, 0, true, NULL, len + 1);
        refuse(&c, RDMAP_REFUSED_OVERLONG, TERM_DDP_TOO_LONG);
    }
}

static void a_write_to_memory_that_is_not_there(void **state)
{
    struct pair *p = pair_open(NULL);
    struct craft c = craft_tagged(RDMAP_WRITE, p->b.stag ^ 1, addr(&p->b, 0), true, NULL, 8);
    expect_refusal(p, &c, RDMAP_REFUSED_DDP_INVALID_STAG, TERM_DDP_INVALID_STAG);
}

static void a_write_beyond_its_memory(void **state)
{
    struct pair *p = pair_open(NULL);
    struct craft c =
        craft_tagged(RDMAP_WRITE, p->b.stag, addr(&p->b, PAIR_MEMORY_LEN - 7), true, NULL, 8);
    expect_refusal(p, &c, RDMAP_REFUSED_DDP_BOUNDS, TERM_DDP_BOUNDS);
    p = pair_open(NULL);
    c = craft_tagged(RDMAP_WRITE, p->b.stag, addr(&p->b, 0) - 1, true, NULL, 8);
    expect_refusal(p, &c, RDMAP_REFUSED_DDP_BOUNDS, TERM_DDP_BOUNDS);
}

static void a_write_whose_offset_wraps(void **state)
{
    struct pair *p = pair_open(NULL);
    struct craft c = craft_tagged(RDMAP_WRITE, p->b.stag, UINT64_MAX - 3, true, NULL, 8);
    expect_refusal(p, &c, RDMAP_REFUSED_DDP_TO_WRAP, TERM_DDP_TO_WRAP);
}

static uint32_t region(struct end *e, uint32_t pd, uint32_t access)
{
    uint32_t stag;
    assert_int_equal(mem_region_register(e->mem, pd, e->memory, 64, addr(e, 0), access, &stag), 0);
    return stag;
}

static void a_write_without_the_right_to(void **state)
{
    struct pair *p = pair_open(NULL);
    uint32_t stag = region(&p->b, p->b.pd, MEM_ACCESS_REMOTE_READ | MEM_ACCESS_LOCAL_WRITE);
    struct craft c = craft_tagged(RDMAP_WRITE, stag, addr(&p->b, 0), true, NULL, 8);
    expect_refusal(p, &c, RDMAP_REFUSED_DDP_ACCESS, TERM_DDP_INVALID_STAG);
}

static void a_write_into_another_domain(void **state)
{
    struct pair *p = pair_open(NULL);
    uint32_t pd;
    assert_int_equal(mem_pd_alloc(p->b.mem, &pd), 0);
    uint32_t stag = region(&p->b, pd, MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_LOCAL_WRITE);
    struct craft c = craft_tagged(RDMAP_WRITE, stag, addr(&p->b, 0), true, NULL, 8);
    expect_refusal(p, &c, RDMAP_REFUSED_DDP_STREAM, TERM_DDP_STREAM);
}

static void more_requests_than_ird(void **state)
{
    struct pair *p = pair_open(NULL);
    struct craft c;
    for (uint32_t msn = 1; msn <= 4; msn++) {
        c = craft_read_request(msn, p->b.stag, addr(&p->b, 0), 64);
        assert_int_equal(pair_inject(p, &p->b, c.octets, c.len), ULPDU_TAKEN);
    }
    c = craft_read_request(5, p->b.stag, addr(&p->b, 0), 64);
    expect_refusal(p, &c, RDMAP_REFUSED_IRD_EXCEEDED, TERM_RDMAP_CATASTROPHIC_STREAM);
}

static void a_read_of_memory_that_is_not_open_to_it(void **state)
{
    struct pair *p = pair_open(NULL);
    struct craft c = craft_read_request(1, p->b.stag ^ 1, addr(&p->b, 0), 8);
    expect_refusal(p, &c, RDMAP_REFUSED_REMOTE_INVALID_STAG, TERM_RDMAP_INVALID_STAG);
    p = pair_open(NULL);
    c = craft_read_request(1, p->b.stag, addr(&p->b, PAIR_MEMORY_LEN), 1);
    expect_refusal(p, &c, RDMAP_REFUSED_REMOTE_BOUNDS, TERM_RDMAP_BOUNDS);
    p = pair_open(NULL);
    c = craft_read_request(1, p->b.stag, addr(&p->b, 0), UINT32_MAX);
    expect_refusal(p, &c, RDMAP_REFUSED_REMOTE_BOUNDS, TERM_RDMAP_BOUNDS);
    p = pair_open(NULL);
    c = craft_read_request(1, p->b.stag, UINT64_MAX - 2, 8);
    expect_refusal(p, &c, RDMAP_REFUSED_REMOTE_TO_WRAP, TERM_RDMAP_TO_WRAP);
    p = pair_open(NULL);
    uint32_t stag = region(&p->b, p->b.pd, MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_LOCAL_WRITE);
    c = craft_read_request(1, stag, addr(&p->b, 0), 8);
    expect_refusal(p, &c, RDMAP_REFUSED_REMOTE_ACCESS, TERM_RDMAP_ACCESS);
    p = pair_open(NULL);
    uint32_t pd;
    assert_int_equal(mem_pd_alloc(p->b.mem, &pd), 0);
    stag = region(&p->b, pd, MEM_ACCESS_REMOTE_READ);
    c = craft_read_request(1, stag, addr(&p->b, 0), 8);
    expect_refusal(p, &c, RDMAP_REFUSED_REMOTE_STREAM, TERM_RDMAP_STREAM);
}

static void atomics_that_cannot_be_carried_out(void **state)
{
    struct pair *p = pair_open(NULL);
    struct craft c = craft_atomic_request(1, 1, p->b.stag, addr(&p->b, 0));
    expect_refusal(p, &c, RDMAP_REFUSED_ATOMIC_OPCODE, TERM_RDMAP_OPCODE);
    p = pair_open(NULL);
    c = craft_atomic_request(1, RDMAP_ATOMIC_FETCH_ADD, p->b.stag, addr(&p->b, 4));
    expect_refusal(p, &c, RDMAP_REFUSED_ATOMIC_ALIGNMENT, TERM_RDMAP_CATASTROPHIC_STREAM);
    p = pair_open(NULL);
    c = craft_atomic_request(1, RDMAP_ATOMIC_FETCH_ADD, p->b.stag, addr(&p->b, PAIR_MEMORY_LEN));
    expect_refusal(p, &c, RDMAP_REFUSED_REMOTE_BOUNDS, TERM_RDMAP_BOUNDS);
    p = pair_open(NULL);
    uint32_t stag = region(&p->b, p->b.pd, MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_LOCAL_WRITE);
    c = craft_atomic_request(1, RDMAP_ATOMIC_CMP_SWAP, stag, addr(&p->b, 0));
    expect_refusal(p, &c, RDMAP_REFUSED_REMOTE_ACCESS, TERM_RDMAP_ACCESS);
}

static void a_response_that_nobody_asked_for(void **state)
{
    struct craft c = craft_tagged(RDMAP_READ_RESPONSE, 1, 0, true, NULL, 8);
    refuse(&c, RDMAP_REFUSED_RESPONSE_UNASKED, TERM_RDMAP_OPCODE);
    c = craft_untagged(RDMAP_ATOMIC_RESPONSE, 1, 0, true, NULL, RDMAP_ATOMIC_RESPONSE_LEN);
    refuse(&c, RDMAP_REFUSED_RESPONSE_UNASKED, TERM_RDMAP_OPCODE);
}

// b has asked for 64 octets; the request, as it left.
static struct rdmap_read_request asked(struct pair *p)
{
    struct craft ready = craft_tagged(RDMAP_WRITE, 0, 0, true, NULL, 0);
    pair_inject(p, &p->b, ready.octets, ready.len);
    pair_post_op(p, &p->b, 1, WQE_RDMA_READ, WQE_SIGNALED, 0, 64, 0);
    struct span ulpdu = pair_peek(p, &p->b);
    struct rdmap_read_request request;
    assert_int_equal(rdmap_read_request_parse(span_skip(ulpdu, DDP_UNTAGGED_HEADER_LEN), &request),
                     RDMAP_PARSE_OK);
    pair_hand(p, &p->b);
    return request;
}

static void a_response_that_does_not_fit_its_request(void **state)
{
    struct pair *p = pair_open(NULL);
    struct rdmap_read_request r = asked(p);
    struct craft c = craft_tagged(RDMAP_READ_RESPONSE, r.sink_stag + 1, r.sink_to, true, NULL, 64);
    expect_refusal(p, &c, RDMAP_REFUSED_RESPONSE_STAG, TERM_DDP_INVALID_STAG);
    p = pair_open(NULL);
    r = asked(p);
    c = craft_tagged(RDMAP_READ_RESPONSE, r.sink_stag, r.sink_to + 1, true, NULL, 63);
    expect_refusal(p, &c, RDMAP_REFUSED_RESPONSE_TO, TERM_DDP_BOUNDS);
    p = pair_open(NULL);
    r = asked(p);
    c = craft_tagged(RDMAP_READ_RESPONSE, r.sink_stag, r.sink_to, true, NULL, 65);
    expect_refusal(p, &c, RDMAP_REFUSED_RESPONSE_LENGTH, TERM_DDP_BOUNDS);
    p = pair_open(NULL);
    r = asked(p);
    c = craft_tagged(RDMAP_READ_RESPONSE, r.sink_stag, r.sink_to, true, NULL, 63);
    expect_refusal(p, &c, RDMAP_REFUSED_RESPONSE_LAST, TERM_RDMAP_OPERATION_UNSPECIFIED);
    p = pair_open(NULL);
    r = asked(p);
    c = craft_tagged(RDMAP_READ_RESPONSE, r.sink_stag, r.sink_to, false, NULL, 64);
    assert_int_equal(pair_inject(p, &p->b, c.octets, c.len), ULPDU_TAKEN); // its end may follow
    c = craft_tagged(RDMAP_READ_RESPONSE, r.sink_stag, r.sink_to + 64, true, NULL, 1);
    expect_refusal(p, &c, RDMAP_REFUSED_RESPONSE_LENGTH, TERM_DDP_BOUNDS);
}

static void a_read_response_does_not_answer_an_atomic(void **state)
{
    struct pair *p = pair_open(NULL);
    struct craft c = craft_tagged(RDMAP_WRITE, 0, 0, true, NULL, 0);
    pair_inject(p, &p->b, c.octets, c.len);
    pair_post_op(p, &p->b, 1, WQE_ATOMIC_FETCH_AND_ADD, 0, 0, 8, 0);
    pair_output(p, &p->b);
    c = craft_tagged(RDMAP_READ_RESPONSE, 0, 0, true, NULL, 0);
    expect_refusal(p, &c, RDMAP_REFUSED_RESPONSE_UNASKED, TERM_RDMAP_OPCODE);
}

static void an_atomic_response_to_another_request(void **state)
{
    struct pair *p = pair_open(NULL);
    struct craft c = craft_tagged(RDMAP_WRITE, 0, 0, true, NULL, 0);
    pair_inject(p, &p->b, c.octets, c.len);
    pair_post_op(p, &p->b, 1, WQE_ATOMIC_FETCH_AND_ADD, 0, 0, 8, 0);
    pair_output(p, &p->b);
    c = craft_untagged(RDMAP_ATOMIC_RESPONSE, 1, 0, true, NULL, RDMAP_ATOMIC_RESPONSE_LEN);
    expect_refusal(p, &c, RDMAP_REFUSED_RESPONSE_ID, TERM_RDMAP_OPERATION_UNSPECIFIED);
}

// The sink of a read is nobody's but the response's.
static void nothing_but_the_response_is_placed_in_a_sink(void **state)
{
    struct pair *p = pair_open(NULL);
    struct rdmap_read_request r = asked(p);
    struct craft c = craft_tagged(RDMAP_WRITE, r.sink_stag, r.sink_to, true, NULL, 64);
    expect_refusal(p, &c, RDMAP_REFUSED_DDP_ACCESS, TERM_DDP_INVALID_STAG);
}

static void a_sink_that_was_deregistered_meanwhile(void **state)
{
    struct pair *p = pair_open(NULL);
    struct rdmap_read_request r = asked(p);
    assert_int_equal(mem_region_deregister(p->b.mem, p->b.stag), 0);
    struct craft c = craft_tagged(RDMAP_READ_RESPONSE, r.sink_stag, r.sink_to, true, NULL, 64);
    struct cq *cq = p->b.send_cq;
    assert_int_equal(pair_inject(p, &p->b, c.octets, c.len), ULPDU_STOP);
    assert_int_equal(qp_counters(p->b.qp)->refusals[RDMAP_REFUSED_SINK_LOCAL], 1);
    pair_run(p);
    pair_expect(cq, 1, WC_LOC_PROT_ERR);
    pair_close(p);
}

static void an_invalidation_that_is_not_the_peers_to_ask(void **state)
{
    struct ddp_header h = {.last = true, .rsvdulp = 0x44, .msn = 1, .rsvdulp_stag = 0x11223344};
    struct craft c = craft_of(&h, NULL, 0);
    struct pair *p = pair_open(NULL);
    pair_post_receive(p, &p->b, 1, 0, 64);
    expect_refusal(p, &c, RDMAP_REFUSED_INVALIDATE_INVALID_STAG, TERM_RDMAP_INVALID_STAG);
    p = pair_open(NULL);
    pair_post_receive(p, &p->b, 1, 0, 64);
    h.rsvdulp_stag = p->b.stag; // a plain region
    c = craft_of(&h, NULL, 0);
    expect_refusal(p, &c, RDMAP_REFUSED_INVALIDATE, TERM_RDMAP_PROTECTION_INVALIDATE);
    p = pair_open(NULL);
    uint32_t pd;
    assert_int_equal(mem_pd_alloc(p->b.mem, &pd), 0);
    h.rsvdulp_stag = region(&p->b, pd, MEM_ACCESS_REMOTE_READ);
    c = craft_of(&h, NULL, 0);
    expect_refusal(p, &c, RDMAP_REFUSED_INVALIDATE_STREAM, TERM_RDMAP_PROTECTION_INVALIDATE);
}

static void a_send_longer_than_its_receive(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_receive(p, &p->b, 70, 0, 63);
    struct craft c = craft_untagged(RDMAP_SEND, 1, 0, true, "x", 1);
    memset(c.octets + DDP_UNTAGGED_HEADER_LEN, 0x77, 64);
    c.len = DDP_UNTAGGED_HEADER_LEN + 64;
    struct cq *cq = p->b.recv_cq;
    assert_int_equal(pair_inject(p, &p->b, c.octets, c.len), ULPDU_STOP);
    pair_expect(cq, 70, WC_LOC_LEN_ERR);
    assert_int_equal(p->b.memory[0], 0);
    pair_expect_terminate(p, &p->b, TERM_DDP_TOO_LONG);
    pair_close(p);
}

static void a_receive_whose_memory_is_not_usable(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_receive(p, &p->b, 70, 0, 64);
    assert_int_equal(mem_region_deregister(p->b.mem, p->b.stag), 0);
    struct craft c = craft_untagged(RDMAP_SEND, 1, 0, true, NULL, 8);
    assert_int_equal(pair_inject(p, &p->b, c.octets, c.len), ULPDU_STOP);
    pair_expect(p->b.recv_cq, 70, WC_LOC_PROT_ERR);
    assert_int_equal(qp_counters(p->b.qp)->refusals[RDMAP_REFUSED_RECEIVE_LOCAL], 1);
    pair_expect_terminate(p, &p->b, TERM_RDMAP_LOCAL);
    pair_close(p);
}

static void an_extension_message_that_is_not_understood(void **state)
{
    struct craft c = craft_untagged(RDMAP_EXTENSION, 1, 0, true, NULL, 16);
    struct pair *p = pair_open(&(struct pair_options){.weft = true});
    expect_refusal(p, &c, RDMAP_REFUSED_EXTENSION_MALFORMED, TERM_RDMAP_OPERATION_UNSPECIFIED);
}

static void reserved_bits_of_an_rfc_peer_mean_nothing(void **state)
{
    struct pair *p = pair_open(NULL);
    pair_post_receive(p, &p->b, 1, 0, 64);
    struct ddp_header h = {.last = true, .rsvd = 15, .rsvdulp = 0x73, .msn = 1, .rsvdulp_stag = 9};
    struct craft c = craft_of(&h, "abc", 3);
    assert_int_equal(pair_inject(p, &p->b, c.octets, c.len), ULPDU_TAKEN);
    struct cqe cqe = pair_poll(p->b.recv_cq);
    assert_int_equal(cqe.wc_flags, 0);
    assert_int_equal(cqe.byte_len, 3);
    pair_close(p);
}

static void a_first_ulpdu_that_is_no_extension_message_declines_ours(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.weft = true});
    struct craft c = craft_tagged(RDMAP_WRITE, 0, 0, true, NULL, 0);
    pair_inject(p, &p->b, c.octets, c.len);
    assert_int_equal(p->b.extension_refused_count, 1);
    assert_true(qp_may_post(p->b.qp, WQE_SEND_WITH_IMM) < 0);
    c = craft_untagged(RDMAP_EXTENSION, 1, 0, true, NULL, 16);
    expect_refusal(p, &c, RDMAP_REFUSED_DDP_QN, TERM_DDP_QN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_shorter_than_its_header),
        cmocka_unit_test(another_ddp_version),
        cmocka_unit_test(a_queue_that_does_not_exist),
        cmocka_unit_test(a_message_number_that_is_not_due),
        cmocka_unit_test(an_offset_that_does_not_continue),
        cmocka_unit_test(another_rdmap_version),
        cmocka_unit_test(opcodes_without_a_meaning),
        cmocka_unit_test(opcode_and_t_bit_disagree),
        cmocka_unit_test(opcode_and_queue_disagree),
        cmocka_unit_test(messages_of_fixed_length_have_that_length),
        cmocka_unit_test(a_write_to_memory_that_is_not_there),
        cmocka_unit_test(a_write_beyond_its_memory),
        cmocka_unit_test(a_write_whose_offset_wraps),
        cmocka_unit_test(a_write_without_the_right_to),
        cmocka_unit_test(a_write_into_another_domain),
        cmocka_unit_test(more_requests_than_ird),
        cmocka_unit_test(a_read_of_memory_that_is_not_open_to_it),
        cmocka_unit_test(atomics_that_cannot_be_carried_out),
        cmocka_unit_test(a_response_that_nobody_asked_for),
        cmocka_unit_test(a_response_that_does_not_fit_its_request),
        cmocka_unit_test(a_read_response_does_not_answer_an_atomic),
        cmocka_unit_test(an_atomic_response_to_another_request),
        cmocka_unit_test(nothing_but_the_response_is_placed_in_a_sink),
        cmocka_unit_test(a_sink_that_was_deregistered_meanwhile),
        cmocka_unit_test(an_invalidation_that_is_not_the_peers_to_ask),
        cmocka_unit_test(a_send_longer_than_its_receive),
        cmocka_unit_test(a_receive_whose_memory_is_not_usable),
        cmocka_unit_test(an_extension_message_that_is_not_understood),
        cmocka_unit_test(reserved_bits_of_an_rfc_peer_mean_nothing),
        cmocka_unit_test(a_first_ulpdu_that_is_no_extension_message_declines_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
