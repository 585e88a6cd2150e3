// What a reliable queue pair makes when it is needed, and there is no memory for it then.
#include <errno.h>

#include "tests/failing_memory.h"
#include "tests/roce/rc_end.h"
#include "wire/aeth.h"

enum { AT = 4096, PSN = RC_END_PSN + RC_END_GREETINGS };

static void take_write(struct rc_end *e, uint32_t psn, uint8_t value)
{
    struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, psn);
    p.reth = (struct reth){rc_end_addr(e, AT), e->key, 1};
    p.bth.ack_req = true;
    rc_end_take(e, &p, &value, 1);
}

// As what there is no room for.
static void what_comes_beyond_a_hole_comes_again(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){0});
    rc_end_meet(e);
    memory_fail_at(1);
    take_write(e, PSN + 1, 11);
    assert_int_equal(memory_calls, 1);
    assert_int_equal(rc_end_counters(e)->held_none, 1);
    rc_end_left_ack(e, PSN, aeth_syndrome_nak(AETH_NAK_PSN_SEQUENCE));
    take_write(e, PSN + 1, 11);
    rc_end_left_sack(e, PSN, 1);
    take_write(e, PSN, 10);
    rc_end_left_ack(e, PSN + 1, AETH_SYNDROME_ACK);
    assert_int_equal(e->memory[AT], 11);
    rc_end_close(e);
}

static void who_has_none_for_reads_of_the_peer_does_not_get_ready_to_receive(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.state = QP_INIT});
    const struct qp_change change = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_MAX_DEST_RD_ATOMIC,
        .state = QP_RTR,
        .max_dest_rd_atomic = 1,
    };
    memory_fail_at(1);
    assert_int_equal(e->t->ops->modify(e->t, &change, e->now), -ENOMEM);
    assert_int_equal(rc_end_state(e), QP_INIT);
    rc_end_modify(e, QP_RTR);
    assert_int_equal(e->t->ops->query(e->t).ird, 4); // of before
    rc_end_close(e);
}

// It leaves, and is done when it is acknowledged. The next is remembered.
static void a_packet_that_is_not_remembered_leaves_all_the_same(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){0});
    memory_fail_at(1);
    rc_end_post(e, 1, WQE_SEND, 0, 8, 0, 0);
    assert_int_equal(memory_calls, 1);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_take_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    rc_end_post(e, 2, WQE_SEND, 0, 8, 0, 0);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN + 1);
    assert_int_equal(memory_calls, 2);
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_beyond_a_hole_comes_again),
        cmocka_unit_test(who_has_none_for_reads_of_the_peer_does_not_get_ready_to_receive),
        cmocka_unit_test(a_packet_that_is_not_remembered_leaves_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
