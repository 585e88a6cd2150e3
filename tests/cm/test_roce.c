// What ids on the RoCE device have that those on streams have not.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/cm/external.h"
#include "tests/cm/loopback.h"
#include "tests/verbs/roce.h"

enum {
    RTR_MASK = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
    RTS_MASK = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
               IBV_QP_MAX_QP_RD_ATOMIC,
};

/* ---- queue pairs of the program's own -------------------------------------------------------- */

struct ours {
    struct loopback l;
    struct external active, passive;
};

// Up to CONNECT_REQUEST.
static void ours_request(struct ours *o, struct rdma_conn_param *param)
{
    memset(o, 0, sizeof *o);
    listener_open(&o->l.listener);
    active_resolve(&o->l.active, rdma_get_src_port(o->l.listener.id));
    external_open(&o->active, o->l.active.id);
    param->qp_num = o->active.qp->qp_num;
    assert_int_equal(rdma_connect(o->l.active.id, param), 0);
    struct rdma_cm_event *event =
        event_expect(o->l.listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    o->l.passive = event->id;
    rdma_ack_cm_event(event);
    external_open(&o->passive, o->l.passive);
}

static void ours_accept(struct ours *o, struct rdma_conn_param *param)
{
    param->qp_num = o->passive.qp->qp_num;
    assert_int_equal(rdma_accept(o->l.passive, param), 0);
    assert_int_equal(event_take(o->l.active.channel, RDMA_CM_EVENT_CONNECT_RESPONSE), 0);
}

static void ours_close(struct ours *o)
{
    external_close(&o->active);
    external_close(&o->passive);
    loopback_close(&o->l);
}

static struct ibv_qp_attr attr_for(struct rdma_cm_id *id, enum ibv_qp_state state, int mask)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int got;
    assert_int_equal(rdma_init_qp_attr(id, &attr, &got), 0);
    assert_int_equal(got, mask);
    return attr;
}

static void assert_nothing_agreed(struct rdma_cm_id *id)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    int mask;
    assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), -1);
    assert_int_equal(errno, EINVAL);
}

static void test_both_ends_are_told_what_they_agreed_on(void **state)
{
    struct ours o;
    struct rdma_conn_param param = {
        .initiator_depth = 3, .responder_resources = 5, .retry_count = 4, .rnr_retry_count = 6};
    ours_request(&o, &param);
    struct ibv_qp_attr early = attr_for(o.l.passive, IBV_QPS_RTR, RTR_MASK);
    param = (struct rdma_conn_param){
        .initiator_depth = 2, .responder_resources = 3, .rnr_retry_count = 2};
    ours_accept(&o, &param);

    struct ibv_qp_attr to_hear = attr_for(o.l.passive, IBV_QPS_RTR, RTR_MASK);
    struct ibv_qp_attr to_say = attr_for(o.l.passive, IBV_QPS_RTS, RTS_MASK);
    struct ibv_qp_attr hears = attr_for(o.l.active.id, IBV_QPS_RTR, RTR_MASK);
    struct ibv_qp_attr says = attr_for(o.l.active.id, IBV_QPS_RTS, RTS_MASK);
    assert_int_equal(early.rq_psn, to_hear.rq_psn);
    assert_int_equal(early.dest_qp_num, o.active.qp->qp_num);
    assert_int_equal(early.max_dest_rd_atomic, 3);
    assert_int_equal(to_hear.rq_psn, says.sq_psn);
    assert_int_equal(hears.rq_psn, to_say.sq_psn);
    assert_int_not_equal(hears.rq_psn, to_hear.rq_psn);
    assert_int_equal(to_hear.max_dest_rd_atomic, 3);
    assert_int_equal(says.max_rd_atomic, 3);
    assert_int_equal(hears.max_dest_rd_atomic, 2);
    assert_int_equal(to_say.max_rd_atomic, 2);
    assert_int_equal(hears.dest_qp_num, o.passive.qp->qp_num);
    assert_int_equal(hears.path_mtu, to_hear.path_mtu);
    assert_int_equal(says.rnr_retry, 2);
    assert_int_equal(to_say.rnr_retry, 6);
    assert_int_equal(says.retry_cnt, 4);
    assert_int_equal(to_say.retry_cnt, 4);
    assert_int_equal(says.timeout, to_say.timeout);
    assert_true(hears.ah_attr.is_global);
    ours_close(&o);
}

static void test_a_program_that_moves_its_queue_pairs_sends_over_them(void **state)
{
    struct ours o;
    struct rdma_conn_param param = {.initiator_depth = 1, .responder_resources = 1};
    ours_request(&o, &param);
    external_ready(o.l.passive, &o.passive); // before it accepts, as on a card
    ours_accept(&o, &param);
    external_ready(o.l.active.id, &o.active);
    assert_int_equal(rdma_establish(o.l.active.id), 0);
    assert_int_equal(event_take(o.l.listener.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    external_send(&o.active, &o.passive);
    external_send(&o.passive, &o.active);
    assert_int_equal(rdma_disconnect(o.l.active.id), 0);
    event_take(o.l.active.channel, RDMA_CM_EVENT_DISCONNECTED);
    event_take(o.l.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    ours_close(&o);
}

static void test_nothing_is_told_where_there_is_no_peer(void **state)
{
    struct ours o;
    struct rdma_conn_param param = {.initiator_depth = 1};
    struct end fresh = {0};
    ours_request(&o, &param);
    assert_nothing_agreed(o.l.listener.id);
    assert_nothing_agreed(o.l.active.id); // until the peer has answered
    active_resolve(&fresh, rdma_get_src_port(o.l.listener.id));
    assert_nothing_agreed(fresh.id);
    end_close(&fresh);
    ours_close(&o);
}

/* ---- those of ids ---------------------------------------------------------------------------- */

static struct ibv_qp_attr told(struct rdma_cm_id *id)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(id->qp, &attr, RTR_MASK | RTS_MASK, &init), 0);
    return attr;
}

static void test_a_query_tells_what_the_connection_has_set(void **state)
{
    struct loopback l;
    union ibv_gid own;
    loopback_open(&l);
    const struct ibv_qp_attr active = told(l.active.id), passive = told(l.passive);
    assert_int_equal(active.qp_state, IBV_QPS_RTS);
    assert_int_equal(active.dest_qp_num, l.passive->qp->qp_num);
    assert_int_equal(passive.dest_qp_num, l.active.id->qp->qp_num);
    assert_int_equal(active.sq_psn, passive.rq_psn);
    assert_int_equal(passive.sq_psn, active.rq_psn);
    assert_int_not_equal(active.rq_psn, passive.rq_psn);
    assert_int_equal(active.path_mtu, passive.path_mtu);
    assert_int_equal(active.retry_cnt, 7);
    assert_int_equal(active.max_rd_atomic, passive.max_dest_rd_atomic);
    assert_int_equal(ibv_query_gid(l.passive->verbs, 1, 0, &own), 0);
    assert_memory_equal(active.ah_attr.grh.dgid.raw, own.raw, sizeof own.raw);
    assert_true(active.ah_attr.is_global);
    loopback_close(&l);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void test_both_ends_hear_that_their_numbers_may_be_used_again(void **state)
{
    struct loopback l;
    loopback_open(&l);
    assert_int_equal(rdma_disconnect(l.active.id), 0);
    event_take(l.active.channel, RDMA_CM_EVENT_DISCONNECTED);
    event_take(l.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(event_take(l.active.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
    assert_int_equal(event_take(l.listener.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
    assert_int_equal(rdma_disconnect(l.active.id), 0); // as before
    loopback_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ends_are_told_what_they_agreed_on),
        cmocka_unit_test(test_a_program_that_moves_its_queue_pairs_sends_over_them),
        cmocka_unit_test(test_nothing_is_told_where_there_is_no_peer),
        cmocka_unit_test(test_a_query_tells_what_the_connection_has_set),
        cmocka_unit_test(test_both_ends_hear_that_their_numbers_may_be_used_again),
    };
    setenv("WEFT_WIRE", "roce", 1);
    roce_port_of_own();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
