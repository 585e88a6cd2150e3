// What weft refuses a requester on a reliable connection, and with which word: order and length of
// packets, rights and keys (9.7.4.1, 9.9.3); and what becomes of the queue pair.

#include <string.h>

#include "tests/conformance/pair.h"

static struct packet out;

static void expect_refused(struct pair *p, unsigned n, uint8_t syndrome)
{
    hear_nak(p, n, syndrome);
    assert_int_equal(pair_state(p), IBV_QPS_ERR);
}

/* ---- 9.7.4.1: the order of a message's packets ----------------------------------------------- */

enum before { NOTHING, A_SEND, A_WRITE };

static bool begins(unsigned operation)
{
    return operation == SEND_FIRST || operation == SEND_ONLY || operation == SEND_ONLY_IMM ||
           operation == SEND_ONLY_INV || operation == WRITE_FIRST || operation == WRITE_ONLY ||
           operation == WRITE_ONLY_IMM || operation == READ_REQUEST || operation == FETCH_ADD ||
           operation == COMPARE_SWAP;
}

static bool continues(unsigned operation, enum before before)
{
    const bool sends = operation == SEND_MIDDLE || operation == SEND_LAST ||
                       operation == SEND_LAST_IMM || operation == SEND_LAST_INV;
    const bool writes =
        operation == WRITE_MIDDLE || operation == WRITE_LAST || operation == WRITE_LAST_IMM;
    return before == A_SEND ? sends : before == A_WRITE && writes;
}

// A message of which one packet has come, so the next is n = 1.
static void begin_message(struct pair *p, enum before before)
{
    if (before == A_SEND) {
        request(&out, SEND_FIRST, 0, NULL, PMTU);
    } else if (before == A_WRITE) {
        packet_begin(&out, WRITE_FIRST, peer_psn(0));
        packet_reth(&out, at(0), program.mr->rkey, 2 * PMTU);
        packet_payload(&out, program.memory, PMTU);
        packet_ask(&out);
    } else {
        say_write(p, 0, 0, 0, NULL, 0);
        hear_ack(p, 0, 1);
        return;
    }
    say(p, &out);
    hear_ack(p, 0, 0);
}

// As long as it may be, so that its order alone is wrong.
static size_t usual_len(unsigned operation)
{
    const bool is_middle = operation == SEND_MIDDLE || operation == WRITE_MIDDLE;
    const bool is_first = operation == SEND_FIRST || operation == WRITE_FIRST;
    return is_middle || is_first ? PMTU : begins(operation) ? 0 : 4;
}

static void expect_out_of_order(unsigned operation, enum before before)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 2);
    begin_message(&p, before);
    request(&out, operation, 1, NULL, usual_len(operation));
    say(&p, &out);
    expect_refused(&p, 1, NAK_INVALID_REQUEST);
    pair_close(&p);
}

// Middle and Last go on with what First began, of the same kind, and nothing comes between.
static void packets_of_a_message_follow_each_other(void **state)
{
    for (unsigned operation = SEND_FIRST; operation <= SEND_ONLY_INV; operation++) {
        const bool is_answer = operation >= READ_RESPONSE_FIRST && operation <= ATOMIC_ACKNOWLEDGE;
        if (is_answer || operation == RESERVED_OPERATION) {
            continue;
        }
        for (enum before before = NOTHING; before <= A_WRITE; before++) {
            const bool is_right =
                before == NOTHING ? begins(operation) : continues(operation, before);
            if (!is_right) {
                expect_out_of_order(operation, before);
            }
        }
    }
}

// 9.2.1: an opcode of the service without a meaning.
static void a_reserved_opcode_is_an_invalid_request(void **state)
{
    static const uint8_t reserved[] = {RESERVED_OPERATION, 0x18, 0x1b, 0x1f};
    for (size_t i = 0; i < sizeof reserved; i++) {
        struct pair p;
        pair_open(&p);
        packet_begin(&out, reserved[i], peer_psn(0));
        packet_ask(&out);
        say(&p, &out);
        expect_refused(&p, 0, NAK_INVALID_REQUEST);
        pair_close(&p);
    }
}

// 9.6.1: of another service: dropped, whatever queue pair it names.
static void an_opcode_of_another_service_is_dropped(void **state)
{
    static const uint8_t opcodes[] = {UC | SEND_ONLY, UD | SEND_ONLY, 0x40 | SEND_ONLY,
                                      0xa0 | SEND_ONLY, 0xe0 | SEND_ONLY};
    struct pair p;
    pair_open(&p);
    for (size_t i = 0; i < sizeof opcodes; i++) {
        request(&out, opcodes[i], 0, NULL, 0);
        say(&p, &out);
    }
    expect_silence(&p, 0, 1);
    pair_close(&p);
}

/* ---- C9-92 to C9-94: lengths ----------------------------------------------------------------- */

static const struct {
    enum before before;
    unsigned operation;
    size_t len;
    uint32_t dma_len; // what the RETH says, if there is one
} lengths[] = {
    {NOTHING, SEND_FIRST, PMTU - 4, 0},
    {NOTHING, SEND_FIRST, PMTU + 4, 0},
    {NOTHING, SEND_FIRST, PMTU - 1, 0}, // a pad in it
    {NOTHING, SEND_FIRST, 0, 0},
    {A_SEND, SEND_MIDDLE, PMTU - 4, 0},
    {A_SEND, SEND_MIDDLE, PMTU + 4, 0},
    {A_SEND, SEND_LAST, 0, 0},
    {A_SEND, SEND_LAST, PMTU + 4, 0},
    {A_SEND, SEND_LAST_IMM, 0, 0},
    {NOTHING, SEND_ONLY, PMTU + 4, 0},
    {NOTHING, SEND_ONLY_IMM, PMTU + 1, 0},
    {NOTHING, WRITE_FIRST, PMTU - 4, PMTU + 1},
    {NOTHING, WRITE_FIRST, PMTU, PMTU}, // it would be an Only
    {A_WRITE, WRITE_MIDDLE, PMTU, 0},   // what is missing ends with it
    {A_WRITE, WRITE_MIDDLE, PMTU - 4, 0},
    {A_WRITE, WRITE_LAST, PMTU - 1, 0}, // 2 * PMTU were named
    {A_WRITE, WRITE_LAST, 0, 0},
    {A_WRITE, WRITE_LAST, PMTU + 4, 0},
    {NOTHING, WRITE_ONLY, 8, 7},
    {NOTHING, WRITE_ONLY, 8, 9},
    {NOTHING, WRITE_ONLY, 0, 1},
    {NOTHING, WRITE_ONLY, PMTU + 4, PMTU + 4},
    {NOTHING, WRITE_FIRST, PMTU, 0x80000001},
    {NOTHING, READ_REQUEST, 0, 0x80000001},
    {NOTHING, READ_REQUEST, 4, 4}, // with octets of its own
    {NOTHING, FETCH_ADD, 4, 0},
};

static bool has_reth(unsigned operation)
{
    return operation == WRITE_FIRST || operation == WRITE_ONLY || operation == READ_REQUEST;
}

static void packets_are_as_long_as_their_opcode_says(void **state)
{
    static const uint8_t octets[2 * PMTU];
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct pair p;
        pair_open(&p);
        post_receives(&p, 2);
        begin_message(&p, lengths[i].before);
        request(&out, lengths[i].operation, 1, octets, lengths[i].len);
        if (has_reth(lengths[i].operation)) {
            put_be64(out.octets + BTH_LEN, at(0));
            put_be32(out.octets + BTH_LEN + 8, program.mr->rkey);
            put_be32(out.octets + BTH_LEN + 12, lengths[i].dma_len);
        }
        say(&p, &out);
        expect_refused(&p, 1, NAK_INVALID_REQUEST);
        pair_close(&p);
    }
}

// 9.9.3.1: the receive says what was wrong with it.
static void a_send_too_long_for_its_receive(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receive(&p, 4);
    say_send(&p, 0, "five!");
    expect_refused(&p, 0, NAK_INVALID_REQUEST);
    expect_status(IBV_WC_LOC_LEN_ERR);
    pair_close(&p);
}

/* ---- 9.7.4.1: rights of the queue pair ------------------------------------------------------- */

static void say_kind(struct pair *p, unsigned operation, uint64_t va, uint32_t rkey, uint32_t len)
{
    static const uint8_t octets[PMTU];
    if (operation == WRITE_ONLY) {
        say_write(p, 0, va, rkey, octets, len);
    } else if (operation == READ_REQUEST) {
        say_read(p, 0, va, rkey, len);
    } else {
        say_add(p, 0, va, rkey, 1);
    }
}

static void a_right_that_the_queue_pair_does_not_give(void **state)
{
    static const struct {
        unsigned operation;
        int right;
    } cases[] = {{WRITE_ONLY, IBV_ACCESS_REMOTE_WRITE},
                 {READ_REQUEST, IBV_ACCESS_REMOTE_READ},
                 {FETCH_ADD, IBV_ACCESS_REMOTE_ATOMIC}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pair_attr attr = pair_usual();
        struct pair p;
        attr.rights &= ~cases[i].right;
        pair_open_as(&p, &attr);
        say_kind(&p, cases[i].operation, at(0), program.mr->rkey, 8);
        expect_refused(&p, 0, NAK_INVALID_REQUEST);
        pair_close(&p);
    }
}

// 9.7.4.1: Reads and atomics are served as far as was agreed on: here, none.
static void a_read_or_atomic_where_none_was_agreed_on(void **state)
{
    for (unsigned operation = READ_REQUEST; operation <= FETCH_ADD;
         operation += FETCH_ADD - READ_REQUEST) {
        struct pair_attr attr = pair_usual();
        struct pair p;
        attr.depth = 0;
        pair_open_as(&p, &attr);
        say_kind(&p, operation, at(0), program.mr->rkey, 8);
        expect_refused(&p, 0, NAK_INVALID_REQUEST);
        pair_close(&p);
    }
}

/* ---- 9.7.4.1: keys --------------------------------------------------------------------------- */

enum key { OWN, NONE, CLOSED, FOREIGN, NEXT };

static uint32_t key_of(enum key key)
{
    switch (key) {
    case NONE:
        return 0;
    case CLOSED:
        return program.closed->rkey;
    case FOREIGN:
        return program.foreign->rkey;
    case NEXT:
        return program.mr->rkey + 1;
    default:
        return program.mr->rkey;
    }
}

static const struct {
    enum key key;
    uint64_t offset;         // in the region
    uint32_t len;            // of a Read or Write
    bool is_for_atomics_too; // which have to be aligned, and are of 8 octets
} strangers[] = {
    {NONE, 0, 8, true},
    {NEXT, 0, 8, true},
    {CLOSED, 0, 8, true},
    {FOREIGN, 0, 8, true},
    {OWN, MEMORY_LEN, 8, true},
    {OWN, MEMORY_LEN - 4, 8, false}, // half of it
    {OWN, -(uint64_t)4, 8, false},
    {OWN, (uint64_t)1 << 63, 8, true},
};

static void octets_that_the_peer_may_not_reach(void **state)
{
    static const unsigned operations[] = {WRITE_ONLY, READ_REQUEST, FETCH_ADD};
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        const size_t count = strangers[i].is_for_atomics_too ? 3 : 2;
        for (size_t j = 0; j < count; j++) {
            struct pair p;
            pair_open(&p);
            say_kind(&p, operations[j], at(strangers[i].offset), key_of(strangers[i].key),
                     strangers[i].len);
            expect_refused(&p, 0, NAK_REMOTE_ACCESS);
            pair_close(&p);
        }
    }
}

// The whole range is looked at when a Write begins: nothing of it is placed.
static void a_write_that_would_leave_its_region_places_nothing(void **state)
{
    uint8_t octets[PMTU], before[PMTU];
    struct pair p;
    pair_open(&p);
    fill(octets, sizeof octets, 1);
    memset(before, 0x77, sizeof before);
    memset(program.memory + MEMORY_LEN - PMTU, 0x77, PMTU);
    packet_begin(&out, WRITE_FIRST, peer_psn(0));
    packet_reth(&out, at(MEMORY_LEN - PMTU), program.mr->rkey, PMTU + 1);
    packet_payload(&out, octets, PMTU);
    say(&p, &out);
    expect_refused(&p, 0, NAK_REMOTE_ACCESS);
    assert_memory_equal(program.memory + MEMORY_LEN - PMTU, before, PMTU);
    pair_close(&p);
}

static void an_atomic_that_is_not_aligned(void **state)
{
    for (unsigned offset = 1; offset < 8; offset += 3) {
        struct pair p;
        pair_open(&p);
        say_add(&p, 0, at(64 + offset), program.mr->rkey, 1);
        expect_refused(&p, 0, NAK_INVALID_REQUEST);
        pair_close(&p);
    }
}

// 9.4.1.1: a key that stands for a region, or for nothing.
static void a_key_that_may_not_be_invalidated(void **state)
{
    for (enum key key = OWN; key <= NONE; key++) {
        struct pair p;
        pair_open(&p);
        post_receives(&p, 1);
        request(&out, SEND_ONLY_INV, 0, "x", 1);
        put_be32(out.octets + BTH_LEN, key_of(key));
        say(&p, &out);
        expect_refused(&p, 0, NAK_REMOTE_ACCESS);
        pair_close(&p);
    }
}

// A region that ends between two packets of a Write is closed to the second.
static void a_key_that_ends_in_the_middle_of_a_write(void **state)
{
    struct pair p;
    struct ibv_mr *mr = ibv_reg_mr(program.pd, program.memory, 2 * PMTU,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    pair_open(&p);
    packet_begin(&out, WRITE_FIRST, peer_psn(0));
    packet_reth(&out, at(0), mr->rkey, 2 * PMTU);
    packet_payload(&out, program.memory, PMTU);
    packet_ask(&out);
    say(&p, &out);
    hear_ack(&p, 0, 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    request(&out, WRITE_LAST, 1, NULL, PMTU);
    say(&p, &out);
    expect_refused(&p, 1, NAK_REMOTE_ACCESS);
    pair_close(&p);
}

/* ---- 9.9.3: the queue pair ------------------------------------------------------------------- */

// A receive whose own memory has gone: the fault is the responder's.
static void a_receive_whose_memory_has_gone(void **state)
{
    struct pair p;
    struct ibv_mr *mr = ibv_reg_mr(program.pd, program.memory, 64, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = {.addr = at(0), .length = 64, .lkey = mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    pair_open(&p);
    assert_int_equal(ibv_post_recv(p.qp, &wr, &bad), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    say_send(&p, 0, "whereto");
    expect_refused(&p, 0, NAK_REMOTE_OPERATIONAL);
    expect_status(IBV_WC_LOC_PROT_ERR);
    pair_close(&p);
}

static void what_is_posted_is_flushed_behind_a_refusal(void **state)
{
    struct pair p;
    pair_open(&p);
    post_receives(&p, 2);
    say_write(&p, 0, at(0), 0, "x", 1);
    expect_refused(&p, 0, NAK_REMOTE_ACCESS);
    expect_status(IBV_WC_WR_FLUSH_ERR);
    expect_status(IBV_WC_WR_FLUSH_ERR);
    pair_close(&p);
}

// What is right behind what was wrong is not done. (Weft says its word again, where InfiniBand lets
// a queue pair in its error state be silent.)
static void nothing_is_done_behind_a_refusal(void **state)
{
    struct pair p;
    pair_open(&p);
    memset(program.memory, 0, 8);
    say_write(&p, 0, at(0), 0, "x", 1);
    expect_refused(&p, 0, NAK_REMOTE_ACCESS);
    say_write(&p, 0, at(0), program.mr->rkey, "placed", 6);
    hear_nak(&p, 0, NAK_REMOTE_ACCESS);
    say_write(&p, 1, at(0), program.mr->rkey, "placed", 6);
    hear_nak(&p, 0, NAK_REMOTE_ACCESS);
    assert_int_equal(program.memory[0], 0);
    pair_close(&p);
}

// What was taken before what was wrong is answered still.
static void a_read_before_a_refusal_is_answered(void **state)
{
    struct pair p;
    pair_open(&p);
    memcpy(program.memory, "readable", 8);
    say_read(&p, 0, at(0), program.mr->rkey, 8);
    say_write(&p, 1, at(0), 0, "x", 1);
    hear_read(&p, 0, "readable", 8);
    expect_refused(&p, 1, NAK_REMOTE_ACCESS);
    pair_close(&p);
}

// 10.3.1: before it is ready to receive, and when the program has ended it, a queue pair takes
// nothing.
static void a_queue_pair_that_does_not_receive_is_silent(void **state)
{
    struct pair_attr attr = pair_usual();
    struct pair p;
    attr.state = IBV_QPS_INIT;
    pair_open_as(&p, &attr);
    post_receives(&p, 1);
    say_send(&p, 0, "early");
    expect_no_word(&p);
    pair_close(&p);
    pair_open(&p);
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
    assert_int_equal(ibv_modify_qp(p.qp, &to, IBV_QP_STATE), 0);
    say_send(&p, 0, "late");
    expect_no_word(&p);
    pair_close(&p);
}

// 10.3.1: one that may not send yet answers.
static void a_queue_pair_that_only_receives_answers(void **state)
{
    struct pair_attr attr = pair_usual();
    struct pair p;
    attr.state = IBV_QPS_RTR;
    pair_open_as(&p, &attr);
    say_read(&p, 0, at(0), program.mr->rkey, 4);
    hear_read(&p, 0, program.memory, 4);
    expect_silence(&p, 1, 2);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_of_a_message_follow_each_other),
        cmocka_unit_test(a_reserved_opcode_is_an_invalid_request),
        cmocka_unit_test(an_opcode_of_another_service_is_dropped),
        cmocka_unit_test(packets_are_as_long_as_their_opcode_says),
        cmocka_unit_test(a_send_too_long_for_its_receive),
        cmocka_unit_test(a_right_that_the_queue_pair_does_not_give),
        cmocka_unit_test(a_read_or_atomic_where_none_was_agreed_on),
        cmocka_unit_test(octets_that_the_peer_may_not_reach),
        cmocka_unit_test(a_write_that_would_leave_its_region_places_nothing),
        cmocka_unit_test(an_atomic_that_is_not_aligned),
        cmocka_unit_test(a_key_that_may_not_be_invalidated),
        cmocka_unit_test(a_key_that_ends_in_the_middle_of_a_write),
        cmocka_unit_test(a_receive_whose_memory_has_gone),
        cmocka_unit_test(what_is_posted_is_flushed_behind_a_refusal),
        cmocka_unit_test(nothing_is_done_behind_a_refusal),
        cmocka_unit_test(a_read_before_a_refusal_is_answered),
        cmocka_unit_test(a_queue_pair_that_does_not_receive_is_silent),
        cmocka_unit_test(a_queue_pair_that_only_receives_answers),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
