// Who is taken for a weft end, and who is not; and what leaves towards whom.
#include "roce/rc_internal.h"
#include "tests/roce/rc_end.h"
#include "wire/greeting.h"
#include "wire/psn.h"

enum { NEEDED = 8, TRIED = 64 };

// A Write of nothing, which the end acknowledges. Answers how the acknowledgement greets.
static uint8_t take_write(struct rc_end *e, uint32_t psn, uint8_t greeting)
{
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, psn);
    p.bth.ack_req = true;
    p.bth.greeting = greeting;
    rc_end_take(e, &p, "", 0);
    return rc_end_left(e, ROCE_ACKNOWLEDGE, psn)->p.bth.greeting;
}

static bool is_known(const struct rc_end *e)
{
    return rc_end_counters(e)->peers_known > 0;
}

static void every_packet_is_greeted(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 256});
    e->is_weft_peer = true;
    for (uint32_t i = 0; i < 3 * TRIED; i++) {
        const struct bth ack = {.opcode = ROCE_RC | ROCE_ACKNOWLEDGE,
                                .dest_qp = RC_END_PEER,
                                .psn = (RC_END_PSN + i) & PSN_MASK};
        assert_int_equal(take_write(e, RC_END_PSN + i, 0), greeting_of(&ack, RC_END_NUMBER));
    }
    rc_end_post(e, 1, WQE_RDMA_READ, 0, 300, 0, 0);
    const struct rc_end_packet *left = rc_end_left(e, ROCE_READ_REQUEST, RC_END_PSN);
    assert_int_equal(left->p.bth.greeting, greeting_of(&left->p.bth, RC_END_NUMBER));
    rc_end_close(e);
}

static void towards_strangers_packets_are_infinibands_after_a_while(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 256});
    for (uint32_t i = 0; i < 3 * TRIED; i++) {
        assert_int_equal(take_write(e, RC_END_PSN + i, 0) != 0, i < TRIED);
    }
    assert_false(is_known(e));
    rc_end_close(e);
}

static void a_peer_is_known_by_so_many_greetings(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 256});
    e->is_weft_peer = true;
    for (uint32_t i = 0; i < NEEDED; i++) {
        assert_false(is_known(e));
        take_write(e, RC_END_PSN + i, 0);
    }
    assert_true(is_known(e));
    rc_end_close(e);
}

// Answers count as requests do.
static void acknowledgements_greet_too(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 256});
    e->is_weft_peer = true;
    for (uint32_t i = 0; i < NEEDED; i++) {
        assert_false(is_known(e));
        rc_end_post(e, i, WQE_RDMA_WRITE, 0, 4, 0, 0);
        rc_end_take_ack(e, RC_END_PSN + i, AETH_SYNDROME_ACK);
    }
    assert_true(is_known(e));
    rc_end_close(e);
}

static void greetings_are_in_a_row(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 256});
    for (uint32_t i = 0; i < 10 * NEEDED; i++) {
        e->is_weft_peer = i % NEEDED != 0;
        take_write(e, RC_END_PSN + i, 0);
    }
    assert_false(is_known(e));
    rc_end_close(e);
}

// A stranger whose bits are right by chance in one packet may send that one again and again.
static void the_same_packet_again_greets_nobody(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 256});
    e->is_weft_peer = true;
    for (uint32_t i = 0; i < 10 * NEEDED; i++) {
        struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN + i % 2);
        rc_end_take(e, &p, "", 0);
    }
    assert_false(is_known(e));
    rc_end_close(e);
}

static void a_stranger_with_bits_of_its_own_is_none(void **state)
{
    for (uint8_t bits = 1; bits <= BTH_GREETING_MASK; bits++) {
        struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 256});
        for (uint32_t i = 0; i < 4 * TRIED; i++) {
            take_write(e, RC_END_PSN + i, bits);
        }
        assert_false(is_known(e));
        rc_end_close(e);
    }
}

// Packets that are out when all that was out before has been acknowledged, time and again.
static uint32_t most_out(struct rc_end *e)
{
    enum { PACKETS = 450, ROUNDS = 6 };
    uint32_t acked = 0;
    for (unsigned i = 0; i < 2; i++) {
        rc_end_post(e, 1 + i, WQE_RDMA_WRITE, 0, PACKETS * 256, 0x1000, 7);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        e->now += 100 * NS_PER_US;
        acked = e->count;
        rc_end_take_ack(e, (RC_END_PSN + acked - 1) & PSN_MASK, AETH_SYNDROME_ACK);
    }
    return e->count - acked;
}

static void more_is_out_towards_a_weft_end(void **state)
{
    const struct rc_end_options options = {.pmtu = 256, .is_one_host = true};
    struct rc_end *e = rc_end_open(&options);
    assert_int_equal(most_out(e), CONGESTION_WINDOW_STRANGER);
    rc_end_close(e);
    e = rc_end_open(&options);
    rc_end_meet(e);
    assert_int_equal(most_out(e), 240);
    rc_end_close(e);
}

// A server's queue pair is in RTR for a while, and hears its client's first Writes there.
static void also_by_who_was_met_before_it_could_send(void **state)
{
    const struct qp_change to_rts = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_SQ_PSN, .state = QP_RTS, .sq_psn = RC_END_PSN};
    struct rc_end *e =
        rc_end_open(&(struct rc_end_options){.pmtu = 256, .is_one_host = true, .state = QP_RTR});
    rc_end_meet(e);
    assert_int_equal(e->t->ops->modify(e->t, &to_rts, e->now), 0);
    assert_int_equal(most_out(e), 240);
    rc_end_close(e);
}

// Whose packets are large: bursts of them are as long.
static void fewer_of_4_KiB_are_out(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 4096, .is_one_host = true});
    rc_end_meet(e);
    assert_int_equal(e->rc->req.congestion.config.window_max, 120);
    rc_end_close(e);
}

static void a_plain_end_neither_greets_nor_knows(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.pmtu = 256, .is_plain = true});
    e->is_weft_peer = true;
    for (uint32_t i = 0; i < 2 * NEEDED; i++) {
        assert_int_equal(take_write(e, RC_END_PSN + i, 0), 0);
    }
    assert_false(is_known(e));
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_packet_is_greeted),
        cmocka_unit_test(towards_strangers_packets_are_infinibands_after_a_while),
        cmocka_unit_test(a_peer_is_known_by_so_many_greetings),
        cmocka_unit_test(acknowledgements_greet_too),
        cmocka_unit_test(greetings_are_in_a_row),
        cmocka_unit_test(the_same_packet_again_greets_nobody),
        cmocka_unit_test(a_stranger_with_bits_of_its_own_is_none),
        cmocka_unit_test(more_is_out_towards_a_weft_end),
        cmocka_unit_test(also_by_who_was_met_before_it_could_send),
        cmocka_unit_test(fewer_of_4_KiB_are_out),
        cmocka_unit_test(a_plain_end_neither_greets_nor_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
