// What comes twice: Reads are read again, atomics are answered and not done again, Sends and Writes
// are acknowledged; and what is remembered has an end.
#include "tests/roce/rc_end.h"
#include "wire/psn.h"

enum { AT = 4096, PMTU = 256 };

static uint8_t octets[4096];

static struct roce_packet read_of(const struct rc_end *e, uint32_t psn, size_t offset, uint32_t len)
{
    struct roce_packet p = rc_end_make(ROCE_READ_REQUEST, psn);
    p.reth = (struct reth){rc_end_addr(e, offset), e->key, len};
    return p;
}

static struct roce_packet add_of(const struct rc_end *e, uint32_t psn, size_t offset)
{
    struct roce_packet p = rc_end_make(ROCE_FETCH_ADD, psn);
    p.atomiceth = (struct atomiceth){rc_end_addr(e, offset), e->key, 3, 0};
    return p;
}

static uint64_t word_at(const struct rc_end *e, size_t offset)
{
    uint64_t word;
    memcpy(&word, e->memory + offset, sizeof word);
    return word;
}

static void left_atomic(struct rc_end *e, uint32_t psn, uint64_t original)
{
    const struct rc_end_packet *left = rc_end_left(e, ROCE_ATOMIC_ACKNOWLEDGE, psn);
    assert_int_equal(left->p.atomicacketh.original, original);
}

static void fill(struct rc_end *e, size_t offset, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        e->memory[offset + i] = (uint8_t)(i * 7 + (i >> 8));
    }
}

static void left_read(struct rc_end *e, uint8_t operation, uint32_t psn, size_t offset, size_t len)
{
    const struct rc_end_packet *left = rc_end_left(e, operation, psn);
    assert_int_equal(left->p.payload.len, len);
    assert_memory_equal(left->p.payload.ptr, e->memory + offset, len);
}

// A Read takes a PSN for each packet of its answer; they wrap.
static void a_read_is_answered_in_packets(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    enum { COUNT = 20, LEN = PMTU * (COUNT - 1) + 3 };
    fill(e, AT, LEN);
    struct roce_packet p = read_of(e, RC_END_PSN, AT, LEN);
    rc_end_take(e, &p, octets, 0);
    left_read(e, ROCE_READ_RESPONSE_FIRST, RC_END_PSN, AT, PMTU);
    for (uint32_t i = 1; i < COUNT - 1; i++) {
        left_read(e, ROCE_READ_RESPONSE_MIDDLE, RC_END_PSN + i, AT + i * PMTU, PMTU);
    }
    left_read(e, ROCE_READ_RESPONSE_LAST, RC_END_PSN + COUNT - 1, AT + LEN - 3, 3);
    p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN + COUNT); // what is due behind it
    p.bth.ack_req = true;
    rc_end_take(e, &p, octets, 0);
    rc_end_left_ack(e, RC_END_PSN + COUNT, AETH_SYNDROME_ACK);
    rc_end_left_none(e);
    rc_end_close(e);
}

static void a_read_is_answered_again_from_where_the_peer_asks(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    fill(e, AT, 1000);
    struct roce_packet p = read_of(e, RC_END_PSN, AT, 1000);
    rc_end_take(e, &p, octets, 0);
    for (unsigned i = 0; i < 4; i++) {
        rc_end_left(e, (uint8_t)(ROCE_READ_RESPONSE_FIRST + (i + 1) / 2), RC_END_PSN + i);
    }
    e->memory[AT + PMTU] ^= 1; // it is read again
    p = read_of(e, RC_END_PSN + 1, AT + PMTU, 1000 - PMTU);
    rc_end_take(e, &p, octets, 0);
    left_read(e, ROCE_READ_RESPONSE_FIRST, RC_END_PSN + 1, AT + PMTU, PMTU);
    left_read(e, ROCE_READ_RESPONSE_MIDDLE, RC_END_PSN + 2, AT + 2 * PMTU, PMTU);
    left_read(e, ROCE_READ_RESPONSE_LAST, RC_END_PSN + 3, AT + 3 * PMTU, 1000 - 3 * PMTU);
    p = read_of(e, RC_END_PSN + 3, AT + 3 * PMTU, 1000 - 3 * PMTU);
    rc_end_take(e, &p, octets, 0);
    left_read(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN + 3, AT + 3 * PMTU, 1000 - 3 * PMTU);
    assert_int_equal(rc_end_counters(e)->reads_again, 2);
    rc_end_close(e);
}

// A weft end asks for what is missing alone; what is asked for before it has left leaves together.
static void whole_packets_of_a_read_are_answered_again(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    fill(e, AT, 2000);
    struct roce_packet p = read_of(e, RC_END_PSN, AT, 2000);
    rc_end_take(e, &p, octets, 0);
    e->first = e->count = 0;
    p = read_of(e, RC_END_PSN + 2, AT + 2 * PMTU, 3 * PMTU);
    rc_end_take(e, &p, octets, 0);
    left_read(e, ROCE_READ_RESPONSE_FIRST, RC_END_PSN + 2, AT + 2 * PMTU, PMTU);
    left_read(e, ROCE_READ_RESPONSE_MIDDLE, RC_END_PSN + 3, AT + 3 * PMTU, PMTU);
    left_read(e, ROCE_READ_RESPONSE_LAST, RC_END_PSN + 4, AT + 4 * PMTU, PMTU);
    rc_end_left_none(e);
    e->has_no_room = true;
    p = read_of(e, RC_END_PSN + 3, AT + 3 * PMTU, PMTU);
    rc_end_take(e, &p, octets, 0);
    p = read_of(e, RC_END_PSN + 1, AT + PMTU, PMTU);
    rc_end_take(e, &p, octets, 0);
    e->has_no_room = false;
    rc_end_output(e);
    left_read(e, ROCE_READ_RESPONSE_FIRST, RC_END_PSN + 1, AT + PMTU, PMTU);
    left_read(e, ROCE_READ_RESPONSE_MIDDLE, RC_END_PSN + 2, AT + 2 * PMTU, PMTU);
    left_read(e, ROCE_READ_RESPONSE_LAST, RC_END_PSN + 3, AT + 3 * PMTU, PMTU);
    rc_end_left_none(e);
    rc_end_close(e);
}

// Another place, key or length than the Read that had the PSN: nobody asked for that.
static void what_is_no_part_of_a_read_is_not_answered(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    struct roce_packet p = read_of(e, RC_END_PSN, AT, 1000);
    rc_end_take(e, &p, octets, 0);
    e->first = e->count = 0;
    struct roce_packet wrong[] = {
        read_of(e, RC_END_PSN, AT + 1, 1000),
        read_of(e, RC_END_PSN, AT, 1001),
        read_of(e, RC_END_PSN, AT, 900),
        read_of(e, RC_END_PSN + 1, AT, 1000 - PMTU),
        read_of(e, RC_END_PSN - 1, AT, 1000),
        add_of(e, RC_END_PSN, AT),
        p,
    };
    wrong[6].reth.rkey ^= 1;
    for (unsigned i = 0; i < 7; i++) {
        rc_end_take(e, &wrong[i], octets, 0);
        rc_end_left_none(e);
        assert_int_equal(rc_end_counters(e)->answers_forgotten, i + 1);
    }
    assert_int_equal(rc_end_state(e), QP_RTS);
    rc_end_close(e);
}

static void an_atomic_is_done_once_however_often_it_comes(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.max_dest_rd_atomic = 3});
    for (unsigned i = 0; i < 3; i++) {
        struct roce_packet p = add_of(e, RC_END_PSN + i, AT);
        rc_end_take(e, &p, octets, 0);
        left_atomic(e, RC_END_PSN + i, i * 3);
    }
    for (unsigned i = 0; i < 6; i++) { // in any order
        uint32_t which = (i * 2) % 3;
        struct roce_packet p = add_of(e, RC_END_PSN + which, AT);
        rc_end_take(e, &p, octets, 0);
        left_atomic(e, RC_END_PSN + which, which * 3UL);
    }
    assert_int_equal(word_at(e, AT), 9);
    assert_int_equal(rc_end_counters(e)->atomics_again, 6);
    rc_end_close(e);
}

// Another place or key than the atomic that had the PSN.
static void what_was_no_such_atomic_is_not_answered(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    struct roce_packet p = add_of(e, RC_END_PSN, AT);
    rc_end_take(e, &p, octets, 0);
    left_atomic(e, RC_END_PSN, 0);
    p.atomiceth.va += 8;
    rc_end_take(e, &p, octets, 0);
    p = add_of(e, RC_END_PSN, AT);
    p.atomiceth.rkey ^= 1;
    rc_end_take(e, &p, octets, 0);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->answers_forgotten, 2);
    rc_end_close(e);
}

// A peer that asks again for what it had, by a packet that the net kept, may ask for new things.
static void an_answer_that_leaves_again_gives_its_place_away(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.max_dest_rd_atomic = 1});
    struct roce_packet p = add_of(e, RC_END_PSN, AT);
    rc_end_take(e, &p, octets, 0);
    left_atomic(e, RC_END_PSN, 0);
    e->has_no_room = true;
    rc_end_take(e, &p, octets, 0);
    p = add_of(e, RC_END_PSN + 1, AT);
    rc_end_take(e, &p, octets, 0);
    e->has_no_room = false;
    rc_end_output(e);
    left_atomic(e, RC_END_PSN + 1, 3);
    rc_end_left_none(e);
    assert_int_equal(rc_end_state(e), QP_RTS);
    rc_end_close(e);
}

static void a_swap_is_done_if_it_finds_what_it_expects(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    struct roce_packet p = rc_end_make(ROCE_CMP_SWAP, RC_END_PSN);
    p.atomiceth = (struct atomiceth){rc_end_addr(e, AT), e->key, 1000, 0};
    rc_end_take(e, &p, octets, 0);
    left_atomic(e, RC_END_PSN, 0);
    assert_int_equal(word_at(e, AT), 1000);
    p.bth.psn++;
    p.atomiceth.swap_add = 2000;
    rc_end_take(e, &p, octets, 0);
    left_atomic(e, RC_END_PSN + 1, 1000);
    assert_int_equal(word_at(e, AT), 1000);
    rc_end_close(e);
}

// As many are remembered as the peer may have out: the oldest goes first.
static void the_oldest_answer_is_forgotten_for_a_new_one(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.max_dest_rd_atomic = 2});
    for (unsigned i = 0; i < 3; i++) {
        struct roce_packet p = add_of(e, RC_END_PSN + i, AT);
        rc_end_take(e, &p, octets, 0);
        left_atomic(e, RC_END_PSN + i, i * 3);
    }
    struct roce_packet p = add_of(e, RC_END_PSN, AT);
    rc_end_take(e, &p, octets, 0);
    rc_end_left_none(e);
    p = add_of(e, RC_END_PSN + 1, AT);
    rc_end_take(e, &p, octets, 0);
    left_atomic(e, RC_END_PSN + 1, 3);
    assert_int_equal(word_at(e, AT), 9);
    assert_int_equal(rc_end_counters(e)->answers_forgotten, 1);
    rc_end_close(e);
}

static void a_write_that_was_here_is_acknowledged_and_not_done(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN);
    p.reth = (struct reth){rc_end_addr(e, AT), e->key, 4};
    p.bth.ack_req = true;
    rc_end_take(e, &p, "new\n", 4);
    rc_end_left_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    memset(e->memory + AT, 0, 4);
    p.bth.psn++;
    rc_end_take(e, &p, "more", 4);
    rc_end_left_ack(e, RC_END_PSN + 1, AETH_SYNDROME_ACK);
    p.bth.psn--;
    rc_end_take(e, &p, "old\n", 4);
    rc_end_left_ack(e, RC_END_PSN + 1, AETH_SYNDROME_ACK); // for all that was here
    assert_memory_equal(e->memory + AT, "more", 4);
    assert_int_equal(rc_end_counters(e)->duplicates, 1);
    rc_end_close(e);
}

// What was told of a hole is not lost to an acknowledgement that says no more.
static void a_duplicate_does_not_silence_what_is_missing(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN);
    p.reth = (struct reth){rc_end_addr(e, AT), e->key, 4};
    rc_end_take(e, &p, octets, 4);
    e->has_no_room = true;
    p.bth.psn = RC_END_PSN + 2;
    rc_end_take(e, &p, octets, 4);
    p.bth.psn = RC_END_PSN;
    rc_end_take(e, &p, octets, 4);
    e->has_no_room = false;
    rc_end_output(e);
    rc_end_left_ack(e, RC_END_PSN + 1, 0x60);
    rc_end_left_none(e);
    rc_end_close(e);
}

// The packet came before it was said that it is missing.
static void a_hole_that_has_closed_is_not_told_any_more(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN + 1);
    e->has_no_room = true;
    rc_end_take(e, &p, octets, 0);
    p.bth.psn = RC_END_PSN;
    p.bth.ack_req = true;
    rc_end_take(e, &p, octets, 0);
    e->has_no_room = false;
    rc_end_output(e);
    rc_end_left_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    rc_end_left_none(e);
    rc_end_close(e);
}

// The receive came, and the packet again, before it was said that there is none: who is told to
// wait for what has been taken waits for nothing.
static void a_receive_that_has_come_is_not_told_to_be_missing(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    struct roce_packet p = rc_end_make(ROCE_SEND_ONLY, RC_END_PSN);
    e->has_no_room = true;
    rc_end_take(e, &p, octets, 4);
    rc_end_post_receive(e, 7, 0, 100);
    rc_end_take(e, &p, octets, 4);
    rc_end_completed(e->recv_cq, 7, WC_SUCCESS);
    e->has_no_room = false;
    rc_end_output(e);
    rc_end_left_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    rc_end_left_none(e);
    rc_end_close(e);
}

// A peer that asks without end: each call puts a bounded number of packets, and answers leave in
// the order in which they were asked for, before acknowledgements of what came behind.
static void answers_have_turns_and_an_order(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    enum { LEN = 100 * PMTU };
    struct roce_packet p = read_of(e, RC_END_PSN, 0, LEN);
    rc_end_take(e, &p, octets, 0);
    assert_int_equal(e->count, RC_TURN_PACKETS);
    assert_true(e->t->ops->has_output(e->t));
    e->has_no_room = true;
    p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN + 100);
    p.bth.ack_req = true;
    rc_end_take(e, &p, octets, 0);
    p = add_of(e, RC_END_PSN + 101, AT);
    rc_end_take(e, &p, octets, 0);
    e->has_no_room = false;
    rc_end_output(e);
    assert_int_equal(e->count, 102);
    for (unsigned i = 0; i < 100; i++) {
        rc_end_left(e,
                    i == 0    ? ROCE_READ_RESPONSE_FIRST
                    : i == 99 ? ROCE_READ_RESPONSE_LAST
                              : ROCE_READ_RESPONSE_MIDDLE,
                    RC_END_PSN + i);
    }
    left_atomic(e, RC_END_PSN + 101, 0);
    rc_end_left_ack(e, RC_END_PSN + 100, AETH_SYNDROME_ACK);
    assert_false(e->t->ops->has_output(e->t));
    rc_end_close(e);
}

static uint32_t bind_window(struct rc_end *e)
{
    uint32_t window;
    assert_int_equal(mem_window_alloc(e->mem, MEM_WINDOW_TYPE_2, e->pd, &window), 0);
    struct mem_binding binding = {window + 1, e->key, rc_end_addr(e, AT), 4096,
                                  MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_WRITE};
    assert_int_equal(mem_window_bind(e->mem, (struct mem_asker){e->pd, 5, 0}, &binding), MEM_OK);
    return window + 1;
}

static void take_back(struct rc_end *e, uint32_t psn, uint32_t window)
{
    struct roce_packet p = rc_end_make(ROCE_SEND_ONLY_INV, psn);
    p.ieth.rkey = window;
    rc_end_post_receive(e, 7, 0, 100);
    rc_end_take(e, &p, octets, 0);
    struct cqe cqe;
    assert_int_equal(cq_poll(e->recv_cq, &cqe, 1), 1);
    assert_int_equal(cqe.wc_flags, WC_WITH_INV);
    assert_int_equal(cqe.inv_rkey, window);
}

// The peer took its key back when it had the answer: an old packet of the net's is no fault.
static void a_read_whose_key_was_taken_back_is_not_answered_again(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    uint32_t window = bind_window(e);
    struct roce_packet p = read_of(e, RC_END_PSN, AT, 10);
    p.reth.rkey = window;
    rc_end_take(e, &p, octets, 0);
    rc_end_left(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN);
    take_back(e, RC_END_PSN + 1, window);
    rc_end_take(e, &p, octets, 0);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->answers_revoked, 1);
    assert_int_equal(rc_end_state(e), QP_RTS);
    rc_end_close(e);
}

// Before it has left once it is a fault, told at the packet that could not be read; what was asked
// for behind it is not answered.
static void a_read_whose_key_goes_while_it_is_answered_is_refused(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    uint32_t window = bind_window(e);
    struct roce_packet p = read_of(e, RC_END_PSN, AT, 4 * PMTU);
    p.reth.rkey = window;
    e->has_no_room = true;
    rc_end_take(e, &p, octets, 0);
    p = add_of(e, RC_END_PSN + 4, AT);
    rc_end_take(e, &p, octets, 0);
    take_back(e, RC_END_PSN + 5, window);
    e->has_no_room = false;
    rc_end_output(e);
    rc_end_left_ack(e, RC_END_PSN, 0x62);
    rc_end_left_none(e);
    assert_int_equal(rc_end_state(e), QP_ERR);
    assert_int_equal(e->events[QP_EVENT_ACCESS_ERR], 1);
    p = read_of(e, RC_END_PSN, AT, 4 * PMTU); // the refusal was lost
    p.reth.rkey = window;
    rc_end_take(e, &p, octets, 0);
    rc_end_left_ack(e, RC_END_PSN, 0x62);
    rc_end_close(e);
}

// The answer may have been lost, and the peer waits for it before it looks at the refusal.
static void what_was_taken_before_a_refusal_is_answered_again(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    struct roce_packet p = add_of(e, RC_END_PSN, AT), wrong = add_of(e, RC_END_PSN + 1, AT + 4);
    rc_end_take(e, &p, octets, 0);
    left_atomic(e, RC_END_PSN, 0);
    rc_end_take(e, &wrong, octets, 0);
    rc_end_left_ack(e, RC_END_PSN + 1, 0x61);
    rc_end_take(e, &p, octets, 0);
    left_atomic(e, RC_END_PSN, 0);
    rc_end_left_none(e);
    rc_end_take(e, &wrong, octets, 0);
    rc_end_left_ack(e, RC_END_PSN + 1, 0x61);
    assert_int_equal(rc_end_state(e), QP_ERR);
    assert_int_equal(word_at(e, AT), 3);
    rc_end_close(e);
}

// ... until the program says that the queue pair is at its end: what is refused is said even then.
static void what_was_taken_before_a_refusal_is_not_answered_behind_the_end(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    struct roce_packet p = read_of(e, RC_END_PSN, AT, 4), wrong = add_of(e, RC_END_PSN + 1, AT + 4);
    rc_end_take(e, &p, octets, 0);
    left_read(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN, AT, 4);
    rc_end_take(e, &wrong, octets, 0);
    rc_end_left_ack(e, RC_END_PSN + 1, 0x61);
    rc_end_take(e, &p, octets, 0);
    left_read(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN, AT, 4);
    rc_end_modify(e, QP_ERR);
    rc_end_take(e, &p, octets, 0);
    rc_end_left_none(e);
    rc_end_take(e, &wrong, octets, 0);
    rc_end_left_ack(e, RC_END_PSN + 1, 0x61);
    rc_end_close(e);
}

// Nothing more can be written through a key once the Send that takes it back was taken.
static void a_write_through_a_key_that_went_is_refused(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    uint32_t window = bind_window(e);
    take_back(e, RC_END_PSN, window);
    assert_int_equal(rc_end_counters(e)->invalidations, 1);
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN + 1);
    p.reth = (struct reth){rc_end_addr(e, AT), window, 4};
    rc_end_take(e, &p, "late", 4);
    rc_end_left_ack(e, RC_END_PSN + 1, 0x62);
    assert_int_equal(e->memory[AT], 0);
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_is_answered_in_packets),
        cmocka_unit_test(a_read_is_answered_again_from_where_the_peer_asks),
        cmocka_unit_test(whole_packets_of_a_read_are_answered_again),
        cmocka_unit_test(what_is_no_part_of_a_read_is_not_answered),
        cmocka_unit_test(an_atomic_is_done_once_however_often_it_comes),
        cmocka_unit_test(what_was_no_such_atomic_is_not_answered),
        cmocka_unit_test(an_answer_that_leaves_again_gives_its_place_away),
        cmocka_unit_test(a_swap_is_done_if_it_finds_what_it_expects),
        cmocka_unit_test(the_oldest_answer_is_forgotten_for_a_new_one),
        cmocka_unit_test(a_write_that_was_here_is_acknowledged_and_not_done),
        cmocka_unit_test(a_duplicate_does_not_silence_what_is_missing),
        cmocka_unit_test(a_hole_that_has_closed_is_not_told_any_more),
        cmocka_unit_test(a_receive_that_has_come_is_not_told_to_be_missing),
        cmocka_unit_test(answers_have_turns_and_an_order),
        cmocka_unit_test(a_read_whose_key_was_taken_back_is_not_answered_again),
        cmocka_unit_test(a_read_whose_key_goes_while_it_is_answered_is_refused),
        cmocka_unit_test(what_was_taken_before_a_refusal_is_answered_again),
        cmocka_unit_test(what_was_taken_before_a_refusal_is_not_answered_behind_the_end),
        cmocka_unit_test(a_write_through_a_key_that_went_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
