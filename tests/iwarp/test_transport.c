// The queue pair as the device has it, by the table of its transport.
#include <errno.h>

#include "tests/iwarp/pair.h"

static const struct transport_ops *const ops = &iwarp_transport_ops;

static int move(struct pair *p, enum qp_state state)
{
    const struct qp_change change = {.mask = QP_CHANGE_STATE, .state = state};
    return ops->modify(qp_transport(p->a.qp), &change, p->now);
}

static void a_move_that_the_table_of_states_forbids_changes_nothing(void **state)
{
    struct pair *p = pair_open(NULL);
    assert_int_equal(move(p, QP_INIT), -EINVAL);
    assert_int_equal(ops->state(qp_transport(p->a.qp)), QP_RTS);
    assert_int_equal(move(p, QP_ERR), 0);
    assert_int_equal(ops->state(qp_transport(p->a.qp)), QP_ERR);
    pair_close(p);
}

static void the_doorbell_makes_output_of_what_was_posted(void **state)
{
    struct pair *p = pair_open(NULL);
    struct transport *t = qp_transport(p->a.qp);
    struct send_wqe *wqe = pair_send_slot(&p->a, 1, WQE_SEND, WQE_SIGNALED);
    pair_set_sge(&p->a, wqe, 0, 64);
    wq_send_commit(qp_wq(p->a.qp), 1);
    ops->on_send_posted(t, p->now);
    assert_true(ops->has_output(t));
    pair_post_receive(p, &p->b, 2, 0, 64);
    pair_run(p);
    pair_expect(p->a.send_cq, 1, WC_SUCCESS);
    assert_false(ops->has_output(t));
    pair_close(p);
}

static void a_deadline_that_has_come_ends_what_it_is_for(void **state)
{
    struct pair *p = pair_open(&(struct pair_options){.config = {.rnr_timeout_ns = 5000}});
    struct transport *t = qp_transport(p->b.qp);
    pair_post_op(p, &p->a, 1, WQE_SEND, WQE_SIGNALED, 0, 64, 0);
    assert_int_equal(ops->next_deadline(t), INSTANT_NEVER);
    pair_run(p);
    assert_true(ops->wants_receive(t));
    ops->on_deadline(t, ops->next_deadline(t));
    assert_int_equal(ops->state(t), QP_ERR);
    pair_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_move_that_the_table_of_states_forbids_changes_nothing),
        cmocka_unit_test(the_doorbell_makes_output_of_what_was_posted),
        cmocka_unit_test(a_deadline_that_has_come_ends_what_it_is_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
