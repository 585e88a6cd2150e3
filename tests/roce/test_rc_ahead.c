// Writes beyond a hole, into a region with relaxed ordering: placed at once where it is known
// where, an octet once, told in order, and only where it may be.
#include "tests/roce/rc_end.h"

enum { PMTU = 256, AT = 4096, PSN = RC_END_PSN + RC_END_GREETINGS };

static struct rc_end *open_met(struct rc_end_options options)
{
    options.pmtu = PMTU;
    options.is_relaxed = true;
    struct rc_end *e = rc_end_open(&options);
    rc_end_meet(e);
    return e;
}

// A packet of a Write, with all its octets the same; `message_len` is its RETH's, by `key`.
static void take_packet(struct rc_end *e, uint32_t i, uint8_t operation, size_t at,
                        uint32_t message_len, uint32_t key, uint8_t value, size_t len)
{
    uint8_t octets[PMTU];
    struct roce_packet p = rc_end_make(operation, PSN + i);
    p.reth = (struct reth){rc_end_addr(e, at), key, message_len};
    p.immdt = (struct immdt){9};
    p.bth.ack_req = true;
    memset(octets, value, sizeof octets);
    rc_end_take(e, &p, octets, len);
}

static void take_only(struct rc_end *e, uint32_t i, size_t at, size_t len, uint8_t value)
{
    take_packet(e, i, ROCE_WRITE_ONLY, at, (uint32_t)len, e->key, value, len);
}

// The packet number `i` of a Write to AT of `count`, all of the path MTU; its value is `i` + 1.
static void take_of(struct rc_end *e, uint32_t i, uint32_t count)
{
    const uint8_t operation = i == 0           ? ROCE_WRITE_FIRST
                              : i == count - 1 ? ROCE_WRITE_LAST
                                               : ROCE_WRITE_MIDDLE;
    take_packet(e, i, operation, AT, count * PMTU, e->key, (uint8_t)(i + 1), PMTU);
}

static void expect(const struct rc_end *e, size_t at, size_t len, uint8_t value)
{
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(e->memory[at + i], value);
    }
}

static uint64_t early_count(const struct rc_end *e)
{
    return rc_end_counters(e)->early_writes;
}

/* ---- where it is known ----------------------------------------------------------------------- */

static void a_write_beyond_a_hole_is_placed_at_once_and_told_in_its_turn(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    rc_end_post_receive(e, 3, 0, 0);
    take_packet(e, 1, ROCE_WRITE_ONLY_IMM, AT, 8, e->key, 11, 8);
    expect(e, AT, 8, 11);
    rc_end_left_sack(e, PSN, 1);
    rc_end_completed_none(e->recv_cq);
    take_only(e, 0, AT + 8, 8, 10);
    rc_end_completed(e->recv_cq, 3, WC_SUCCESS);
    rc_end_left_ack(e, PSN + 1, AETH_SYNDROME_ACK);
    expect(e, AT, 8, 11);
    expect(e, AT + 8, 8, 10);
    assert_int_equal(early_count(e), 1);
    assert_int_equal(rc_end_counters(e)->held, 0); // nothing of it waits in the store
    rc_end_close(e);
}

static void packets_behind_a_first_one_are_placed_in_any_order(void **state)
{
    static const uint32_t order[] = {1, 5, 3, 2, 4};
    struct rc_end *e = open_met((struct rc_end_options){.blocks = 1});
    take_of(e, 0, 7); // what is due
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        take_of(e, order[i] + 1, 7);
        expect(e, AT + (order[i] + 1) * PMTU, PMTU, (uint8_t)(order[i] + 2));
    }
    expect(e, AT + PMTU, PMTU, 0);
    assert_int_equal(early_count(e), 5);
    take_of(e, 1, 7);
    for (uint32_t i = 0; i < 7; i++) {
        expect(e, AT + i * PMTU, PMTU, (uint8_t)(i + 1));
    }
    assert_int_equal(rc_end_counters(e)->held, 0);
    rc_end_close(e);
}

// The Write begins beyond the hole itself.
static void packets_whose_first_one_is_beyond_the_hole_too_are_placed(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    take_packet(e, 1, ROCE_WRITE_FIRST, AT, 2 * PMTU + 5, e->key, 21, PMTU);
    take_packet(e, 3, ROCE_WRITE_LAST, 0, 0, 0, 23, 5);
    take_packet(e, 2, ROCE_WRITE_MIDDLE, 0, 0, 0, 22, PMTU);
    expect(e, AT, PMTU, 21);
    expect(e, AT + PMTU, PMTU, 22);
    expect(e, AT + 2 * PMTU, 5, 23);
    assert_int_equal(early_count(e), 3);
    rc_end_close(e);
}

static void a_packet_whose_first_one_is_missing_waits(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    take_only(e, 1, AT + PMTU * 9, 8, 11); // another Write, which has ended
    take_packet(e, 3, ROCE_WRITE_LAST, 0, 0, 0, 23, 5);
    assert_int_equal(early_count(e), 1);
    take_packet(e, 2, ROCE_WRITE_FIRST, AT, PMTU + 5, e->key, 22, PMTU);
    expect(e, AT, PMTU, 22);
    expect(e, AT + PMTU, 5, 0);
    take_only(e, 0, 0, 8, 10);
    expect(e, AT + PMTU, 5, 23);
    assert_int_equal(rc_end_counters(e)->held, 1);
    rc_end_close(e);
}

// A whole packet, where the one Write that is known has ended.
static void a_whole_packet_whose_first_one_is_missing_waits(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    take_only(e, 1, RC_END_MEMORY_LEN - 8, 8, 11);
    take_packet(e, 3, ROCE_WRITE_MIDDLE, 0, 0, 0, 23, PMTU);
    assert_int_equal(early_count(e), 1);
    take_packet(e, 2, ROCE_WRITE_FIRST, AT, 3 * PMTU, e->key, 22, PMTU);
    take_only(e, 0, 0, 8, 10);
    expect(e, AT + PMTU, PMTU, 23);
    assert_int_equal(early_count(e), 2);
    rc_end_close(e);
}

/* ---- where it may be ------------------------------------------------------------------------- */

static void a_region_without_relaxed_ordering_is_written_in_order(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    uint32_t strict;
    assert_int_equal(mem_region_register(e->mem, e->pd, e->memory, RC_END_MEMORY_LEN,
                                         (uintptr_t)e->memory,
                                         MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE, &strict),
                     0);
    take_packet(e, 1, ROCE_WRITE_ONLY, AT, 8, strict, 11, 8);
    expect(e, AT, 8, 0);
    take_only(e, 0, 0, 8, 10);
    expect(e, AT, 8, 11);
    assert_int_equal(early_count(e), 0);
    rc_end_close(e);
}

// Also where it is so by a window: the peer may take that back in between.
static void a_window_is_written_in_order(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    struct mem_asker asker = {.pd = e->pd, .qp_num = RC_END_NUMBER};
    uint32_t stag;
    assert_int_equal(mem_window_alloc(e->mem, MEM_WINDOW_TYPE_2, e->pd, &stag), 0);
    const struct mem_binding binding = {.stag = stag,
                                        .lkey = e->key,
                                        .addr = rc_end_addr(e, AT),
                                        .length = 8,
                                        .access = MEM_ACCESS_REMOTE_WRITE};
    assert_int_equal(mem_window_bind(e->mem, asker, &binding), MEM_OK);
    take_packet(e, 1, ROCE_WRITE_ONLY, AT, 8, stag, 11, 8);
    expect(e, AT, 8, 0);
    take_only(e, 0, 0, 8, 10);
    expect(e, AT, 8, 11);
    rc_end_close(e);
}

static void what_would_be_refused_is_not_placed(void **state)
{
    static const struct {
        uint8_t operation;
        size_t at, len;
        uint32_t message_len;
    } wrong[] = {
        {ROCE_WRITE_ONLY, RC_END_MEMORY_LEN - 4, 8, 8},          // the range
        {ROCE_WRITE_FIRST, RC_END_MEMORY_LEN - PMTU, PMTU, 300}, // ... of what follows
        {ROCE_WRITE_ONLY, AT, 8, 9},                             // the length
        {ROCE_WRITE_ONLY, AT, 8, 2 * PMTU},                      //
        {ROCE_WRITE_FIRST, AT, PMTU, PMTU},                      // the opcode
        {ROCE_WRITE_FIRST, AT, 8, 300},                          // no whole packet
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct rc_end *e = open_met((struct rc_end_options){0});
        memset(e->memory, 5, RC_END_MEMORY_LEN);
        take_packet(e, 1, wrong[i].operation, wrong[i].at, wrong[i].message_len, e->key, 11,
                    wrong[i].len);
        expect(e, AT, 2 * PMTU, 5);
        expect(e, RC_END_MEMORY_LEN - PMTU, PMTU, 5);
        assert_int_equal(early_count(e), 0);
        rc_end_close(e);
    }
}

static void a_queue_pair_that_grants_no_writes_takes_none_early(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    const struct qp_change take = {.mask = QP_CHANGE_RIGHTS, .rights = MEM_ACCESS_REMOTE_READ};
    assert_int_equal(e->t->ops->modify(e->t, &take, e->now), 0);
    take_only(e, 1, AT, 8, 11);
    expect(e, AT, 8, 0);
    rc_end_close(e);
}

// Its program takes it back while the hole is open: what comes then is not placed, and the Write is
// refused when it is its turn.
static void a_write_whose_region_ends_meanwhile_is_refused(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    take_packet(e, 1, ROCE_WRITE_FIRST, AT, 2 * PMTU, e->key, 21, PMTU);
    assert_int_equal(mem_region_deregister(e->mem, e->key), 0);
    take_packet(e, 2, ROCE_WRITE_LAST, 0, 0, 0, 22, PMTU);
    expect(e, AT, PMTU, 21);
    expect(e, AT + PMTU, PMTU, 0);
    e->first = e->count = 0;
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, PSN);
    rc_end_take(e, &p, "", 0);
    rc_end_left_ack(e, PSN + 1, 0x62);
    assert_int_equal(rc_end_state(e), QP_ERR);
    rc_end_close(e);
}

// All octets of it are in place, and it ends in the same way.
static void a_write_that_is_whole_and_revoked_is_refused(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    rc_end_post_receive(e, 3, 0, 0);
    take_packet(e, 0, ROCE_WRITE_FIRST, AT, 3 * PMTU, e->key, 20, PMTU);
    take_packet(e, 2, ROCE_WRITE_LAST_IMM, 0, 0, 0, 22, PMTU);
    expect(e, AT + 2 * PMTU, PMTU, 22);
    assert_int_equal(mem_region_deregister(e->mem, e->key), 0);
    e->first = e->count = 0;
    take_packet(e, 1, ROCE_WRITE_MIDDLE, 0, 0, 0, 21, PMTU);
    rc_end_left_ack(e, PSN + 1, 0x62);
    expect(e, AT + PMTU, PMTU, 0);
    rc_end_close(e);
}

static void of_a_stranger_nothing_is_placed(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = PMTU, .is_relaxed = true});
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN + 1);
    p.reth = (struct reth){rc_end_addr(e, AT), e->key, 1};
    rc_end_take(e, &p, "x", 1);
    assert_int_equal(e->memory[AT], 0);
    assert_int_equal(early_count(e), 0);
    rc_end_close(e);
}

/* ---- once ------------------------------------------------------------------------------------ */

static void what_was_placed_and_comes_again_is_not_placed_again(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    take_only(e, 1, AT, 8, 11);
    memset(e->memory + AT, 99, 8); // the program has it already
    take_only(e, 1, AT, 8, 11);
    take_only(e, 0, 0, 8, 10);
    take_only(e, 1, AT, 8, 11);
    expect(e, AT, 8, 99);
    assert_int_equal(rc_end_counters(e)->held_again, 1);
    assert_int_equal(rc_end_counters(e)->duplicates, 1);
    rc_end_close(e);
}

// Its receive was missing when it was its turn, so the peer sends all of it again.
static void what_waited_for_a_receive_is_not_placed_again(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){.min_rnr_timer = 1});
    take_packet(e, 1, ROCE_WRITE_ONLY_IMM, AT, 8, e->key, 11, 8);
    take_only(e, 0, 0, 8, 10);
    memset(e->memory + AT, 99, 8);
    rc_end_post_receive(e, 3, 0, 0);
    take_packet(e, 1, ROCE_WRITE_ONLY_IMM, AT, 8, e->key, 11, 8);
    rc_end_completed(e->recv_cq, 3, WC_SUCCESS);
    expect(e, AT, 8, 99);
    assert_int_equal(early_count(e), 1);
    rc_end_close(e);
}

static void an_earlier_write_leaves_what_later_ones_have_written(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    take_only(e, 4, AT + 90, 20, 14);
    take_only(e, 2, AT + 40, 20, 12);
    take_only(e, 1, AT + 30, 70, 11); // beyond the hole as well
    take_only(e, 0, AT, 100, 10);
    expect(e, AT, 30, 10);
    expect(e, AT + 30, 10, 11);
    expect(e, AT + 40, 20, 12);
    expect(e, AT + 60, 30, 11);
    expect(e, AT + 90, 20, 14);
    rc_end_close(e);
}

// The memory has another region since: to what that one's peer writes the octets are old.
static void of_a_region_that_has_ended_nothing_is_left_alone(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    uint32_t key;
    take_only(e, 2, AT, 8, 12);
    assert_int_equal(mem_region_deregister(e->mem, e->key), 0);
    assert_int_equal(mem_region_register(e->mem, e->pd, e->memory, RC_END_MEMORY_LEN,
                                         (uintptr_t)e->memory,
                                         MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE, &key),
                     0);
    take_packet(e, 0, ROCE_WRITE_ONLY, AT, 8, key, 10, 8);
    expect(e, AT, 8, 10);
    rc_end_close(e);
}

static void a_reset_forgets_what_was_placed(void **state)
{
    struct rc_end *e = open_met((struct rc_end_options){0});
    take_only(e, 1, AT, 8, 11);
    rc_end_modify(e, QP_RESET);
    assert_int_equal(e->t->ops->query(e->t).held_count, 0);
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_beyond_a_hole_is_placed_at_once_and_told_in_its_turn),
        cmocka_unit_test(packets_behind_a_first_one_are_placed_in_any_order),
        cmocka_unit_test(packets_whose_first_one_is_beyond_the_hole_too_are_placed),
        cmocka_unit_test(a_packet_whose_first_one_is_missing_waits),
        cmocka_unit_test(a_whole_packet_whose_first_one_is_missing_waits),
        cmocka_unit_test(a_region_without_relaxed_ordering_is_written_in_order),
        cmocka_unit_test(a_window_is_written_in_order),
        cmocka_unit_test(what_would_be_refused_is_not_placed),
        cmocka_unit_test(a_queue_pair_that_grants_no_writes_takes_none_early),
        cmocka_unit_test(a_write_whose_region_ends_meanwhile_is_refused),
        cmocka_unit_test(a_write_that_is_whole_and_revoked_is_refused),
        cmocka_unit_test(of_a_stranger_nothing_is_placed),
        cmocka_unit_test(what_was_placed_and_comes_again_is_not_placed_again),
        cmocka_unit_test(what_waited_for_a_receive_is_not_placed_again),
        cmocka_unit_test(an_earlier_write_leaves_what_later_ones_have_written),
        cmocka_unit_test(of_a_region_that_has_ended_nothing_is_left_alone),
        cmocka_unit_test(a_reset_forgets_what_was_placed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
