// What a program changes of a queue pair, and what it sees of it.
#include <errno.h>
#include <stdlib.h>

#include "roce/address.h"
#include "tests/golden.h"
#include "tests/roce/rc_end.h"
#include "wire/aeth.h"
#include "wire/ip.h"
#include "wire/psn.h"

enum { PMTU = 256, REMOTE_KEY = 0x1234 };

static int change(struct rc_end *e, struct qp_change change)
{
    return e->t->ops->modify(e->t, &change, e->now);
}

static void a_value_that_is_none_changes_nothing(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.state = QP_INIT});
    struct qp_change wrong[] = {
        {.mask = QP_CHANGE_PATH_MTU, .path_mtu = 128},
        {.mask = QP_CHANGE_PATH_MTU, .path_mtu = 8192},
        {.mask = QP_CHANGE_PATH_MTU, .path_mtu = 1000},
        {.mask = QP_CHANGE_TIMEOUT, .timeout = 32},
        {.mask = QP_CHANGE_RETRY_COUNT, .retry_count = 8},
        {.mask = QP_CHANGE_RNR_RETRY_COUNT, .rnr_retry_count = 8},
        {.mask = QP_CHANGE_MIN_RNR_TIMER, .min_rnr_timer = 32},
        {.mask = QP_CHANGE_RQ_PSN, .rq_psn = 1 << 24},
        {.mask = QP_CHANGE_SQ_PSN, .sq_psn = 1 << 24},
        {.mask = QP_CHANGE_DEST_QP_NUM, .dest_qp_num = 1 << 24},
        {.mask = QP_CHANGE_MAX_RD_ATOMIC, .max_rd_atomic = 17},
        {.mask = QP_CHANGE_MAX_DEST_RD_ATOMIC, .max_dest_rd_atomic = 17},
        {.mask = QP_CHANGE_CURRENT, .current = QP_RTR},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        wrong[i].mask |= QP_CHANGE_STATE;
        wrong[i].state = QP_RTR;
        assert_int_equal(change(e, wrong[i]), -EINVAL);
        assert_int_equal(rc_end_state(e), QP_INIT);
    }
    struct qp_change right = {.mask = QP_CHANGE_STATE | QP_CHANGE_CURRENT | QP_CHANGE_PATH_MTU,
                              .state = QP_RTR,
                              .current = QP_INIT,
                              .path_mtu = 1024};
    assert_int_equal(change(e, right), 0);
    assert_int_equal(e->t->ops->query(e->t).segment_len, 1024);
    rc_end_close(e);
}

static void the_greatest_values_are_taken(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.state = QP_INIT});
    const struct qp_change right = {
        .mask = QP_CHANGE_TIMEOUT | QP_CHANGE_RETRY_COUNT | QP_CHANGE_RNR_RETRY_COUNT |
                QP_CHANGE_MIN_RNR_TIMER | QP_CHANGE_RQ_PSN | QP_CHANGE_SQ_PSN |
                QP_CHANGE_DEST_QP_NUM | QP_CHANGE_MAX_RD_ATOMIC | QP_CHANGE_MAX_DEST_RD_ATOMIC,
        .timeout = 31,
        .retry_count = 7,
        .rnr_retry_count = 7,
        .min_rnr_timer = 31,
        .rq_psn = PSN_MASK,
        .sq_psn = PSN_MASK,
        .dest_qp_num = PSN_MASK,
        .max_rd_atomic = 16,
        .max_dest_rd_atomic = 16,
    };
    assert_int_equal(change(e, right), 0);
    rc_end_close(e);
}

// Packets are marked as of a transport that understands marks, whatever the program said of them.
static void packets_have_the_traffic_class_with_its_marks_set(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){0});
    const struct qp_change path = {
        .mask = QP_CHANGE_PATH,
        .path = {.local = rc_end_local, .remote = rc_end_remote, .traffic_class = 0xb3}};
    assert_int_equal(change(e, path), 0);
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    assert_int_equal(rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN)->path.traffic_class,
                     0xb0 | IP_ECN_ECT_0);
    rc_end_close(e);
}

static void the_source_port_is_made_of_the_label_or_of_both_numbers(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){0});
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    assert_int_equal(rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN)->path.source_port,
                     roce_source_port(0, RC_END_NUMBER, RC_END_PEER));
    const struct qp_change path = {
        .mask = QP_CHANGE_PATH,
        .path = {.local = rc_end_local, .remote = rc_end_remote, .flow_label = 0x4567}};
    assert_int_equal(change(e, path), 0);
    rc_end_post(e, 2, WQE_SEND, 0, 4, 0, 0);
    assert_int_equal(rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN + 1)->path.source_port,
                     roce_source_port(0x4567, 0, 0));
    rc_end_close(e);
}

static void what_is_posted_early_waits_for_ready_to_send(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.state = QP_INIT});
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    rc_end_modify(e, QP_RTR);
    rc_end_output(e);
    rc_end_left_none(e);
    rc_end_modify(e, QP_RTS);
    rc_end_output(e);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_close(e);
}

// What was posted before goes on, what is posted now waits; the program is told, and goes on.
static void a_send_queue_is_drained_and_goes_on(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.timeout = 1, .retry_count = 7});
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_modify(e, QP_SQD);
    rc_end_post(e, 2, WQE_SEND, 0, 4, 0, 0);
    rc_end_left_none(e);
    assert_int_equal(e->events[QP_EVENT_SQ_DRAINED], 0);
    struct qp_change go_on = {.mask = QP_CHANGE_STATE, .state = QP_RTS};
    assert_int_equal(change(e, go_on), -EINVAL); // not yet
    rc_end_wait(e, e->now + 10000);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN); // once more
    rc_end_left_none(e);
    rc_end_take_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    assert_int_equal(e->events[QP_EVENT_SQ_DRAINED], 1);
    rc_end_completed(e->send_cq, 1, WC_SUCCESS);
    assert_int_equal(change(e, go_on), 0);
    rc_end_output(e);
    rc_end_left(e, ROCE_SEND_ONLY, RC_END_PSN + 1);
    rc_end_take_ack(e, RC_END_PSN + 1, AETH_SYNDROME_ACK);
    rc_end_completed(e->send_cq, 2, WC_SUCCESS);
    rc_end_close(e);
}

static void a_drained_queue_pair_serves_the_peer(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.state = QP_SQD});
    struct roce_packet p = rc_end_make(ROCE_READ_REQUEST, RC_END_PSN);
    p.reth = (struct reth){rc_end_addr(e, 0), e->key, 4};
    rc_end_take(e, &p, "", 0);
    rc_end_left(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN);
    rc_end_close(e);
}

static void rights_may_change_at_any_time(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.has_no_rights = true});
    struct qp_change give = {.mask = QP_CHANGE_RIGHTS, .rights = MEM_ACCESS_REMOTE_READ};
    assert_int_equal(change(e, give), 0);
    struct roce_packet p = rc_end_make(ROCE_READ_REQUEST, RC_END_PSN);
    p.reth = (struct reth){rc_end_addr(e, 0), e->key, 4};
    rc_end_take(e, &p, "", 0);
    rc_end_left(e, ROCE_READ_RESPONSE_ONLY, RC_END_PSN);
    rc_end_close(e);
}

// Nothing of before comes in again: not what was claimed, remembered, owed or granted.
static void a_reset_forgets_everything(void **state)
{
    for (unsigned has_srq = 0; has_srq < 2; has_srq++) {
        struct rc_end *e = rc_end_open(&(struct rc_end_options){.has_srq = has_srq == 1});
        rc_end_post_receive(e, 7, 0, 1000);
        struct roce_packet p = rc_end_make(ROCE_READ_REQUEST, RC_END_PSN);
        p.reth = (struct reth){rc_end_addr(e, 0), e->key, 4};
        e->has_no_room = true;
        rc_end_take(e, &p, "", 0);
        p = rc_end_make(ROCE_SEND_FIRST, RC_END_PSN + 1);
        uint8_t octets[PMTU] = {0};
        rc_end_take(e, &p, octets, PMTU);
        rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
        rc_end_post(e, 2, WQE_RDMA_READ, 0, 4, 0, REMOTE_KEY);
        e->has_no_room = false;
        rc_end_modify(e, QP_RESET);
        assert_false(e->t->ops->has_output(e->t));
        assert_true(e->t->ops->next_deadline(e->t) == INSTANT_NEVER);
        struct qp_attributes a = e->t->ops->query(e->t);
        assert_int_equal(a.sq_count + a.rq_count + a.reads_due + a.reads_outstanding, 0);
        assert_int_equal(a.ird + a.ord, 0);
        rc_end_completed_none(e->send_cq);
        rc_end_completed_none(e->recv_cq);
        rc_end_close(e);
    }
}

// What was agreed on and told in one life is neither in the next.
static void a_reset_queue_pair_begins_as_a_new_one(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.state = QP_RTR, .pmtu = 1024});
    rc_end_post_receive(e, 7, 0, 100);
    struct roce_packet p = rc_end_make(ROCE_SEND_ONLY, RC_END_PSN);
    rc_end_take(e, &p, "", 0);
    assert_int_equal(e->events[QP_EVENT_COMM_EST], 1);
    assert_int_equal(e->t->ops->oneshot_agreed(e->t), 0);
    rc_end_modify(e, QP_RESET);
    assert_int_equal(e->t->ops->query(e->t).segment_len, 256);
    assert_int_equal(e->t->ops->oneshot_agreed(e->t), -ENOTCONN);
    const struct qp_change anew = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_PATH | QP_CHANGE_DEST_QP_NUM,
        .state = QP_INIT,
        .path = {.local = rc_end_local, .remote = rc_end_remote},
        .dest_qp_num = RC_END_PEER,
    };
    assert_int_equal(change(e, anew), 0);
    rc_end_modify(e, QP_RTR);
    rc_end_post_receive(e, 8, 0, 100);
    p = rc_end_make(ROCE_SEND_ONLY, 0);
    rc_end_take(e, &p, "", 0);
    assert_int_equal(e->events[QP_EVENT_COMM_EST], 2);
    p = rc_end_make(ROCE_WRITE_ONLY, 1);
    p.reth = (struct reth){rc_end_addr(e, 0), e->key, 4};
    e->count = 0;
    rc_end_take(e, &p, "none", 4); // nobody has given the peer a right
    rc_end_left_ack(e, 1, aeth_syndrome_nak(AETH_NAK_INVALID_REQUEST));
    rc_end_close(e);
}

static void a_send_queue_tells_each_time_that_it_is_drained(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){0});
    for (unsigned times = 1; times <= 3; times++) {
        rc_end_modify(e, QP_SQD);
        assert_int_equal(e->events[QP_EVENT_SQ_DRAINED], times);
        rc_end_modify(e, QP_RTS);
    }
    rc_end_close(e);
}

static void a_program_may_end_its_queue_pair(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){0});
    rc_end_post_receive(e, 7, 0, 100);
    rc_end_post(e, 1, WQE_SEND, 0, 4, 0, 0);
    rc_end_modify(e, QP_ERR);
    rc_end_completed(e->send_cq, 1, WC_WR_FLUSH_ERR);
    rc_end_completed(e->recv_cq, 7, WC_WR_FLUSH_ERR);
    rc_end_close(e);
}

// What the peer may read, it may read while the connection lasts: its memory may be another's now.
static void who_is_ended_by_its_program_answers_nothing_more(void **state)
{
    struct rc_end *e = rc_end_open(&(struct rc_end_options){0});
    struct roce_packet p = rc_end_make(ROCE_READ_REQUEST, RC_END_PSN);
    p.reth = (struct reth){rc_end_addr(e, 0), e->key, 100 * PMTU};
    rc_end_take(e, &p, "", 0);
    rc_end_left(e, ROCE_READ_RESPONSE_FIRST, RC_END_PSN);
    e->first = e->count = 0;
    rc_end_modify(e, QP_ERR);
    rc_end_output(e);
    rc_end_left_none(e);
    assert_false(e->t->ops->has_output(e->t));
    rc_end_take(e, &p, "", 0);
    rc_end_left_none(e);
    rc_end_close(e);
}

static void messages_of_two_ends_cross(void **state)
{
    enum { COUNT = 400, LEN = 3000 };
    for (uint32_t pmtu = 256; pmtu <= 4096; pmtu *= 2) {
        struct rc_end *a = rc_end_open(&(struct rc_end_options){.pmtu = pmtu});
        struct rc_end *b = rc_end_open(&(struct rc_end_options){.pmtu = pmtu});
        for (unsigned i = 0; i < COUNT; i++) { // PSNs wrap
            memset(a->memory, (int)i, LEN);
            rc_end_post(a, 1, WQE_RDMA_WRITE, 0, LEN, rc_end_addr(b, 8192), b->key);
            rc_end_post(b, 2, WQE_RDMA_READ, 65536, LEN, rc_end_addr(a, 0), a->key);
            rc_ends_run(a, b);
            rc_end_completed(a->send_cq, 1, WC_SUCCESS);
            rc_end_completed(b->send_cq, 2, WC_SUCCESS);
            assert_memory_equal(a->memory, b->memory + 8192, LEN);
            assert_memory_equal(a->memory, b->memory + 65536, LEN);
        }
        assert_int_equal(rc_end_counters(a)->requests_again + rc_end_counters(b)->requests_again,
                         0);
        rc_end_close(a);
        rc_end_close(b);
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

enum { TEXT_MAX = 8192 };

struct text {
    char octets[TEXT_MAX];
    size_t len;
};

static void add_line(void *ctx, const char *name, uint64_t value)
{
    struct text *t = ctx;
    t->len += (size_t)snprintf(t->octets + t->len, TEXT_MAX - t->len, "%s %llu\n", name,
                               (unsigned long long)value);
}

static void texts_are_the_golden_ones(void **state)
{
    static struct text text;
    char line[256];
    struct rc_end *e = rc_end_open(&(struct rc_end_options){.timeout = 14, .retry_count = 7});
    rc_end_post(e, 1, WQE_SEND, 0, 2 * PMTU, 0, 0);
    rc_end_post_receive(e, 7, 0, 100);
    rc_end_take_ack(e, RC_END_PSN, AETH_SYNDROME_ACK);
    struct roce_packet p = rc_end_make(ROCE_SEND_ONLY, RC_END_PSN + 3);
    rc_end_take(e, &p, "hole", 4);
    text.len =
        (size_t)snprintf(text.octets, TEXT_MAX, "%s\n", e->t->ops->format(e->t, line, sizeof line));
    for (enum rc_refusal r = RC_ACCEPTED; r < RC_REFUSAL_COUNT; r++) {
        const struct rc_refusal_facts *f = rc_refusal_facts(r);
        text.len += (size_t)snprintf(
            text.octets + text.len, TEXT_MAX - text.len, "%-10s 0x%02x %-5s %s: %s\n", f->name,
            f->syndrome, f->is_fatal ? "fatal" : "-",
            f->event == QP_EVENT_COUNT ? "no event" : qp_event_name(f->event), f->text);
    }
    assert_string_equal(e->t->ops->total_name, "rc_total");
    struct rc_counters total = {.packets_in = 1};
    e->t->ops->counters_add(&total, e->t->ops->counters(e->t));
    e->t->ops->counters_each(&total, add_line, &text);
    golden_compare("roce/golden/rc.txt", text.octets);
    assert_int_equal(strlen(e->t->ops->format(e->t, line, 10)), 9);
    rc_end_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_that_is_none_changes_nothing),
        cmocka_unit_test(the_greatest_values_are_taken),
        cmocka_unit_test(packets_have_the_traffic_class_with_its_marks_set),
        cmocka_unit_test(the_source_port_is_made_of_the_label_or_of_both_numbers),
        cmocka_unit_test(what_is_posted_early_waits_for_ready_to_send),
        cmocka_unit_test(a_send_queue_is_drained_and_goes_on),
        cmocka_unit_test(a_drained_queue_pair_serves_the_peer),
        cmocka_unit_test(rights_may_change_at_any_time),
        cmocka_unit_test(a_reset_forgets_everything),
        cmocka_unit_test(a_reset_queue_pair_begins_as_a_new_one),
        cmocka_unit_test(a_send_queue_tells_each_time_that_it_is_drained),
        cmocka_unit_test(a_program_may_end_its_queue_pair),
        cmocka_unit_test(who_is_ended_by_its_program_answers_nothing_more),
        cmocka_unit_test(messages_of_two_ends_cross),
        cmocka_unit_test(texts_are_the_golden_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
