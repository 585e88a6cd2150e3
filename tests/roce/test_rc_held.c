// What comes beyond a hole, from a weft end: kept, told, and done in its order when the hole has
// closed, as if it came then.
#include "tests/roce/rc_end.h"

enum { PMTU = 256, AT = 4096, PSN = RC_END_PSN + RC_END_GREETINGS, HELD_MAX = 256 };

static uint8_t octets[PMTU];

static struct rc_end *open_met(struct rc_end_options options)
{
    options.pmtu = PMTU;
    struct rc_end *e = rc_end_open(&options);
    rc_end_meet(e);
    return e;
}

// The Write number `i` of one octet, of this value, to AT.
static void take_write(struct rc_end *e, uint32_t i, uint8_t value)
{
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, PSN + i);
    p.reth = (struct reth){rc_end_addr(e, AT), e->key, 1};
    p.bth.ack_req = true;
    rc_end_take(e, &p, &value, 1);
}

static void take_send(struct rc_end *e, uint32_t i, uint8_t value)
{
    struct roce_packet p = rc_end_make(ROCE_SEND_ONLY, PSN + i);
    p.bth.ack_req = true;
    rc_end_take(e, &p, &value, 1);
}

static void take_add(struct rc_end *e, uint32_t i)
{
    struct roce_packet p = rc_end_make(ROCE_FETCH_ADD, PSN + i);
    p.atomiceth = (struct atomiceth){rc_end_addr(e, AT), e->key, 3, 0};
    rc_end_take(e, &p, "", 0);
}

static void writes_are_done_in_order_when_the_hole_has_closed(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    take_write(e, 1, 11);
    rc_end_left_sack(e, PSN, 1);
    take_write(e, 3, 13);
    rc_end_left_sack(e, PSN, 1 | 4);
    take_write(e, 2, 12);
    rc_end_left_sack(e, PSN, 1 | 2 | 4);
    assert_int_equal(e->memory[AT], 0);
    take_write(e, 0, 10);
    assert_int_equal(e->memory[AT], 13);
    rc_end_left_ack(e, PSN + 3, AETH_SYNDROME_ACK);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->held, 3);
    assert_int_equal(rc_end_counters(e)->sacks_out, 3);
    rc_end_close(e);
}

// Packets of one message, the last of them first: who polls the last octet finds all before it.
static void the_last_octet_of_a_write_is_placed_last(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    enum { COUNT = 5 };
    for (uint32_t i = COUNT - 1; i > 0; i--) {
        uint8_t operation = i == COUNT - 1 ? ROCE_WRITE_LAST : ROCE_WRITE_MIDDLE;
        struct roce_packet p = rc_end_make(operation, PSN + i);
        memset(octets, (int)i + 1, PMTU);
        rc_end_take(e, &p, octets, PMTU);
        for (uint32_t at = 0; at < COUNT * PMTU; at++) {
            assert_int_equal(e->memory[AT + at], 0);
        }
    }
    struct roce_packet p = rc_end_make(ROCE_WRITE_FIRST, PSN);
    p.reth = (struct reth){rc_end_addr(e, AT), e->key, COUNT * PMTU};
    memset(octets, 1, PMTU);
    rc_end_take(e, &p, octets, PMTU);
    for (uint32_t at = 0; at < COUNT * PMTU; at++) {
        assert_int_equal(e->memory[AT + at], 1 + at / PMTU);
    }
    rc_end_close(e);
}

static void of_the_next_hole_the_peer_is_told_at_once(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    take_write(e, 1, 11);
    take_write(e, 3, 13);
    e->first = e->count = 0;
    take_write(e, 0, 10);
    assert_int_equal(e->memory[AT], 11);
    rc_end_left_sack(e, PSN + 2, 1);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->refusals[RC_REFUSED_SEQUENCE], 2);
    rc_end_close(e);
}

static void what_is_kept_and_comes_again_is_passed_over(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    take_write(e, 1, 11);
    take_write(e, 1, 99);
    take_write(e, 0, 10);
    assert_int_equal(e->memory[AT], 11);
    assert_int_equal(rc_end_counters(e)->held_again, 1);
    rc_end_close(e);
}

// The peer may have missed that, and what is acknowledged says nothing of it.
static void a_duplicate_has_the_hole_told_again(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    take_write(e, 0, 10);
    e->first = e->count = 0;
    take_write(e, 2, 12);
    rc_end_left_sack(e, PSN + 1, 1);
    take_write(e, 0, 10);
    rc_end_left_sack(e, PSN + 1, 1);
    rc_end_left_none(e);
    rc_end_close(e);
}

static void an_atomic_is_executed_once_and_in_its_turn(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    uint64_t word = 0;
    take_add(e, 1);
    take_add(e, 1);
    take_add(e, 2);
    memcpy(&word, e->memory + AT, sizeof word);
    assert_int_equal(word, 0);
    e->first = e->count = 0;
    take_write(e, 0, 10);
    take_add(e, 1);
    memcpy(&word, e->memory + AT, sizeof word);
    assert_int_equal(word, 16);
    assert_int_equal(rc_end_left(e, ROCE_ATOMIC_ACKNOWLEDGE, PSN + 1)->p.atomicacketh.original, 10);
    assert_int_equal(rc_end_left(e, ROCE_ATOMIC_ACKNOWLEDGE, PSN + 2)->p.atomicacketh.original, 13);
    rc_end_close(e);
}

static void a_read_sees_what_was_written_before_it(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    struct roce_packet p = rc_end_make(ROCE_READ_REQUEST, PSN + 1);
    p.reth = (struct reth){rc_end_addr(e, AT), e->key, 3 * PMTU};
    rc_end_take(e, &p, "", 0);
    take_write(e, 4, 14); // it has three PSNs
    rc_end_left_sack(e, PSN, 1);
    rc_end_left_sack(e, PSN, 1 | 8);
    take_write(e, 0, 10);
    const struct rc_end_packet *left = rc_end_left(e, ROCE_READ_RESPONSE_FIRST, PSN + 1);
    assert_int_equal(left->p.payload.len, PMTU);
    rc_end_left(e, ROCE_READ_RESPONSE_MIDDLE, PSN + 2);
    rc_end_left(e, ROCE_READ_RESPONSE_LAST, PSN + 3);
    rc_end_left_ack(e, PSN + 4, AETH_SYNDROME_ACK);
    assert_int_equal(e->memory[AT], 14);
    rc_end_close(e);
}

// Who has put something where a Read has PSNs errs; what it put is forgotten.
static void nothing_stays_that_is_passed_by(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){.blocks = 2});
    for (uint32_t i = 0; i < 4; i++) {
        struct roce_packet p = rc_end_make(ROCE_READ_REQUEST, PSN + 10 * i);
        p.reth = (struct reth){rc_end_addr(e, AT), e->key, 10 * PMTU};
        take_write(e, 10 * i + 2, 11);
        take_write(e, 10 * i + 3, 12);
        rc_end_take(e, &p, "", 0);
    }
    assert_int_equal(rc_end_counters(e)->held, 8);
    assert_int_equal(rc_end_counters(e)->held_none, 0);
    assert_int_equal(e->memory[AT], 0);
    rc_end_close(e);
}

static void sends_take_their_receives_in_order(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    for (uint32_t i = 0; i < 3; i++) {
        rc_end_post_receive(e, i, AT + i, 1);
    }
    take_send(e, 2, 12);
    take_send(e, 1, 11);
    rc_end_completed_none(e->recv_cq);
    take_send(e, 0, 10);
    for (uint32_t i = 0; i < 3; i++) {
        rc_end_completed(e->recv_cq, i, WC_SUCCESS);
        assert_int_equal(e->memory[AT + i], 10 + i);
    }
    rc_end_close(e);
}

// The peer is told that, and not that something is missing.
static void a_send_that_was_kept_may_find_no_receive(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){.min_rnr_timer = 1});
    take_send(e, 1, 11);
    take_write(e, 2, 12);
    e->first = e->count = 0;
    take_write(e, 0, 10);
    rc_end_left_ack(e, PSN + 1, aeth_syndrome_rnr(1));
    take_write(e, 3, 13);
    rc_end_left_none(e);
    rc_end_post_receive(e, 7, AT + 8, 1);
    take_send(e, 1, 11);
    rc_end_completed(e->recv_cq, 7, WC_SUCCESS);
    rc_end_left_ack(e, PSN + 3, AETH_SYNDROME_ACK);
    assert_int_equal(e->memory[AT], 13);
    rc_end_close(e);
}

// It stays where it was not to be: the refusal comes when it is its turn.
static void what_may_not_be_written_is_refused_in_its_turn(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, PSN + 1);
    p.reth = (struct reth){rc_end_addr(e, RC_END_MEMORY_LEN), e->key, 1};
    rc_end_take(e, &p, "x", 1);
    take_write(e, 2, 12);
    assert_int_equal(rc_end_state(e), QP_RTS);
    e->first = e->count = 0;
    take_write(e, 0, 10);
    rc_end_left_ack(e, PSN + 1, 0x62);
    assert_int_equal(rc_end_state(e), QP_ERR);
    assert_int_equal(e->memory[AT], 10);
    rc_end_close(e); // and the store has all back
}

static void what_there_is_no_room_for_comes_again(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){.blocks = 1});
    take_write(e, 1, 11);
    rc_end_left_sack(e, PSN, 1);
    take_write(e, 2, 12);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->held_none, 1);
    take_write(e, 0, 10);
    rc_end_left_ack(e, PSN + 1, AETH_SYNDROME_ACK);
    take_write(e, 2, 12);
    rc_end_left_ack(e, PSN + 2, AETH_SYNDROME_ACK);
    assert_int_equal(e->memory[AT], 12);
    rc_end_close(e);
}

static void no_more_is_kept_than_can_be_told(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){.blocks = 2 * HELD_MAX});
    take_write(e, HELD_MAX, 11);
    assert_int_equal(rc_end_counters(e)->held, 0);
    take_write(e, HELD_MAX - 1, 11);
    assert_int_equal(rc_end_counters(e)->held, 1);
    rc_end_close(e);
}

static void of_a_stranger_nothing_is_kept(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU});
    for (uint32_t i = 1; i < 4; i++) {
        struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN + i);
        rc_end_take(e, &p, "", 0);
    }
    const struct rc_end_packet *left = rc_end_left(e, ROCE_ACKNOWLEDGE, RC_END_PSN);
    assert_int_equal(left->p.aeth.syndrome, 0x60);
    assert_int_equal(left->p.payload.len, 0);
    rc_end_left_none(e);
    assert_int_equal(rc_end_counters(e)->held, 0);
    assert_int_equal(rc_end_counters(e)->dropped_hole, 2);
    rc_end_close(e);
}

// Of a hole that has closed before that could leave: the peer would go back for nothing.
static void a_hole_that_has_closed_is_not_told(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    e->has_no_room = true;
    take_write(e, 1, 11);
    take_write(e, 0, 10);
    e->has_no_room = false;
    rc_end_output(e);
    rc_end_left_ack(e, PSN + 1, AETH_SYNDROME_ACK);
    rc_end_left_none(e);
    rc_end_close(e);
}

static void a_reset_lets_go_of_what_is_kept(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){.blocks = 3});
    for (uint32_t i = 1; i < 4; i++) {
        take_write(e, i, 11);
    }
    rc_end_modify(e, QP_RESET);
    rc_end_close(e); // the store has all back
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_are_done_in_order_when_the_hole_has_closed),
        cmocka_unit_test(the_last_octet_of_a_write_is_placed_last),
        cmocka_unit_test(of_the_next_hole_the_peer_is_told_at_once),
        cmocka_unit_test(what_is_kept_and_comes_again_is_passed_over),
        cmocka_unit_test(a_duplicate_has_the_hole_told_again),
        cmocka_unit_test(an_atomic_is_executed_once_and_in_its_turn),
        cmocka_unit_test(a_read_sees_what_was_written_before_it),
        cmocka_unit_test(nothing_stays_that_is_passed_by),
        cmocka_unit_test(sends_take_their_receives_in_order),
        cmocka_unit_test(a_send_that_was_kept_may_find_no_receive),
        cmocka_unit_test(what_may_not_be_written_is_refused_in_its_turn),
        cmocka_unit_test(what_there_is_no_room_for_comes_again),
        cmocka_unit_test(no_more_is_kept_than_can_be_told),
        cmocka_unit_test(of_a_stranger_nothing_is_kept),
        cmocka_unit_test(a_hole_that_has_closed_is_not_told),
        cmocka_unit_test(a_reset_lets_go_of_what_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
