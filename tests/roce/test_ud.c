// What leaves a UD queue pair, and its states.
#include <errno.h>

#include "roce/address.h"
#include "roce/ud.h"
#include "roce/unreliable_counters.h"
#include "tests/transport/packets.h"
#include "wire/roce.h"

enum { QKEY_OF_ENDS = 0x11111111, PSN_FIRST = 0xfffffe };

static struct world *open_world(void)
{
    return world_open(&transport_ud, &(struct world_options){.seed = 1});
}

static struct roce_packet parse(const struct carried *c)
{
    struct roce_packet packet = {0};
    assert_int_equal(roce_packet_parse(span_of(c->octets, c->len), &packet), ROCE_PARSE_OK);
    return packet;
}

static struct roce_address *address_of(struct end *end, struct send_wqe *wqe)
{
    return wq_send_address(end->wq, wqe);
}

static void post_send(struct end *end, uint64_t wr_id, uint32_t len)
{
    end_post_op(end, wr_id, WQE_SEND, WQE_SIGNALED, 0, len, 0);
}

static enum qp_state state_of(const struct end *end)
{
    return packets_of(end)->t->ops->state(packets_of(end)->t);
}

static int modify(struct end *end, enum qp_state to)
{
    struct qp_change change = {.mask = QP_CHANGE_STATE, .state = to};
    return packets_of(end)->t->ops->modify(packets_of(end)->t, &change, end->world->now);
}

// The sink has room again, and the owner comes by.
static void give_room(struct end *end, unsigned room)
{
    struct packets *p = packets_of(end);
    p->room = room;
    p->t->ops->output(p->t, &p->sink, end->world->now);
}

/* ---- packets --------------------------------------------------------------------------------- */

static void a_packet_says_what_the_work_request_says(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_fill(a, 0, 13, 5);
    struct send_wqe *wqe = end_send_slot(a, 1, WQE_SEND_WITH_IMM, WQE_SOLICITED);
    end_add_sge(a, wqe, 0, 13);
    wqe->imm_or_inv = 0x01020304;
    end_post(a);
    struct carried c = packets_take(a);
    struct roce_packet packet = parse(&c);
    assert_int_equal(packet.bth.opcode, 0x65);
    assert_true(packet.bth.solicited && packet.bth.mig_req && !packet.bth.ack_req);
    assert_int_equal(packet.bth.pad_len, 3);
    assert_int_equal(packet.bth.pkey, 0xffff);
    assert_int_equal(packet.bth.dest_qp, b->config.qp_num);
    assert_int_equal(packet.deth.qkey, QKEY_OF_ENDS);
    assert_int_equal(packet.deth.src_qp, a->config.qp_num);
    assert_int_equal(packet.immdt.imm_data, 0x01020304);
    assert_int_equal(packet.payload.len, 13);
    assert_memory_equal(packet.payload.ptr, a->memory, 13);
    world_close(w);
}

static void a_packet_takes_the_path_of_its_address(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    struct send_wqe *wqe = end_send_slot(a, 1, WQE_SEND, 0);
    address_of(a, wqe)->path = (struct datagram_path){
        .local = packets_address6(0),
        .remote = packets_address6(1),
        .scope_id = 3,
        .flow_label = 0x12345,
        .source_port = 0xc123,
        .traffic_class = 0x28,
        .hop_limit = 7,
    };
    struct datagram_path path = address_of(a, wqe)->path;
    end_post(a);
    struct carried c = packets_take(a);
    assert_memory_equal(&c.path, &path, sizeof path);
    world_close(w);
}

static void the_source_port_is_made_of_the_label_or_of_both_numbers(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0], *b = &w->ends[1];
    post_send(a, 1, 0);
    struct carried c = packets_take(a);
    assert_int_equal(c.path.source_port, roce_source_port(0, a->config.qp_num, b->config.qp_num));
    struct send_wqe *wqe = end_send_slot(a, 1, WQE_SEND, 0);
    address_of(a, wqe)->path.flow_label = 0x4567;
    end_post(a);
    c = packets_take(a);
    assert_int_equal(c.path.source_port, roce_source_port(0x4567, 0, 0));
    world_close(w);
}

static void a_qkey_with_the_highest_bit_stands_for_the_queue_pairs_own(void **state)
{
    static const struct {
        uint32_t asked, sent;
    } cases[] = {
        {0x12345678, 0x12345678},
        {0x7fffffff, 0x7fffffff},
        {0x80000000, QKEY_OF_ENDS},
        {0x92345678, QKEY_OF_ENDS},
    };
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct send_wqe *wqe = end_send_slot(a, 1, WQE_SEND, 0);
        address_of(a, wqe)->qkey = cases[i].asked;
        end_post(a);
        struct carried c = packets_take(a);
        assert_int_equal(parse(&c).deth.qkey, cases[i].sent);
    }
    world_close(w);
}

static void psns_count_and_wrap(void **state)
{
    static const uint32_t psns[] = {PSN_FIRST, 0xffffff, 0, 1};
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    for (unsigned i = 0; i < 4; i++) {
        post_send(a, i, 1);
        struct carried c = packets_take(a);
        assert_int_equal(parse(&c).bth.psn, psns[i]);
    }
    world_close(w);
}

static void a_packet_carries_as_much_as_the_ports_mtu(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    post_send(a, 1, PACKETS_MTU);
    struct carried c = packets_take(a);
    assert_int_equal(parse(&c).payload.len, PACKETS_MTU);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    post_send(a, 2, PACKETS_MTU + 1);
    end_expect(a->send_cq, 2, WC_LOC_LEN_ERR);
    assert_int_equal(state_of(a), QP_SQE);
    assert_int_equal(packets_counter(a, "sq_errors"), 1);
    assert_int_equal(packets_counter(a, "packets_out"), 1);
    assert_int_equal(packets_counter(a, "octets_out"), PACKETS_MTU);
    world_close(w);
}

/* ---- a sink without room --------------------------------------------------------------------- */

static void what_finds_no_room_waits_in_order(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    give_room(a, 2);
    for (unsigned i = 0; i < 4; i++) {
        post_send(a, i, 10 + i);
    }
    end_expect(a->send_cq, 0, WC_SUCCESS);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    end_expect_none(a->send_cq);
    assert_int_equal(packets_counter(a, "sink_full"), 2); // each that was posted then
    give_room(a, 4);
    end_expect(a->send_cq, 2, WC_SUCCESS);
    end_expect(a->send_cq, 3, WC_SUCCESS);
    for (unsigned i = 0; i < 4; i++) {
        struct carried c = packets_take(a);
        assert_int_equal(parse(&c).payload.len, 10 + i);
        assert_int_equal(parse(&c).bth.psn, (PSN_FIRST + i) & 0xffffff); // none was lost over it
    }
    world_close(w);
}

static void memory_that_went_before_there_was_room_is_a_local_error(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    give_room(a, 0);
    post_send(a, 1, 10);
    post_send(a, 2, 10);
    assert_false(wq_reads_from(a->wq, a->key)); // what was put has been copied, what was not waits
    assert_int_equal(mem_region_deregister(a->mem, a->key), 0);
    give_room(a, 4);
    end_expect(a->send_cq, 1, WC_LOC_PROT_ERR);
    end_expect(a->send_cq, 2, WC_WR_FLUSH_ERR);
    assert_int_equal(packets_of(a)->count, 0);
    world_close(w);
}

/* ---- states ---------------------------------------------------------------------------------- */

static void what_left_before_a_failure_was_successful(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    give_room(a, 0);
    for (unsigned i = 0; i < 4; i++) {
        post_send(a, i, i == 2 ? PACKETS_MTU + 1 : 10);
    }
    give_room(a, 4);
    end_expect(a->send_cq, 0, WC_SUCCESS);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    end_expect(a->send_cq, 2, WC_LOC_LEN_ERR);
    end_expect(a->send_cq, 3, WC_WR_FLUSH_ERR);
    assert_int_equal(packets_of(a)->count, 2);
    world_close(w);
}

static void in_sqe_sends_are_flushed_until_rts(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    post_send(a, 1, PACKETS_MTU + 1);
    post_send(a, 2, 10);
    end_expect(a->send_cq, 1, WC_LOC_LEN_ERR);
    end_expect(a->send_cq, 2, WC_WR_FLUSH_ERR);
    // What is committed at the moment of the change, its doorbell not yet rung, leaves behind it.
    end_send_slot(a, 3, WQE_SEND, WQE_SIGNALED);
    wq_send_commit(a->wq, 1);
    packets_modify(a, QP_RTS);
    post_send(a, 4, 10);
    end_expect(a->send_cq, 3, WC_SUCCESS);
    end_expect(a->send_cq, 4, WC_SUCCESS);
    struct carried c = packets_take(a);
    assert_int_equal(parse(&c).bth.psn, PSN_FIRST);
    world_close(w);
}

static void a_state_that_is_taken_for_another_does_not_change(void **state)
{
    struct world *w = open_world();
    struct transport *t = packets_of(&w->ends[0])->t;
    struct qp_change change = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_CURRENT, .state = QP_SQD, .current = QP_SQE};
    assert_int_equal(t->ops->modify(t, &change, w->now), -EINVAL);
    assert_int_equal(state_of(&w->ends[0]), QP_RTS);
    change.current = QP_RTS;
    assert_int_equal(t->ops->modify(t, &change, w->now), 0);
    assert_int_equal(state_of(&w->ends[0]), QP_SQD);
    world_close(w);
}

static void in_sqd_nothing_leaves_until_rts(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    give_room(a, 0);
    post_send(a, 1, 10);
    packets_change(a, &(struct qp_change){.mask = QP_CHANGE_STATE | QP_CHANGE_TELLS_DRAINED,
                                          .state = QP_SQD,
                                          .tells_drained = true});
    assert_int_equal(packets_of(a)->events[QP_EVENT_SQ_DRAINED], 1);
    give_room(a, 4);
    post_send(a, 2, 10);
    assert_int_equal(packets_of(a)->count, 0);
    assert_false(packets_of(a)->t->ops->has_output(packets_of(a)->t));
    end_expect_none(a->send_cq);
    packets_modify(a, QP_SQD); // it is told once
    assert_int_equal(packets_of(a)->events[QP_EVENT_SQ_DRAINED], 1);
    packets_modify(a, QP_RTS);
    give_room(a, 4);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    end_expect(a->send_cq, 2, WC_SUCCESS);
    world_close(w);
}

static void who_did_not_ask_is_not_told_that_the_queue_is_drained(void **state)
{
    struct world *w = open_world();
    packets_modify(&w->ends[0], QP_SQD);
    assert_int_equal(packets_of(&w->ends[0])->events[QP_EVENT_SQ_DRAINED], 0);
    world_close(w);
}

static void before_rts_nothing_leaves(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    packets_modify(a, QP_RESET);
    assert_int_equal(modify(a, QP_RTS), -EINVAL);
    assert_int_equal(modify(a, QP_RTR), -EINVAL);
    packets_modify(a, QP_INIT);
    packets_modify(a, QP_RTR);
    post_send(a, 1, 10);
    assert_int_equal(packets_of(a)->count, 0);
    packets_modify(a, QP_RTS);
    give_room(a, 4);
    assert_int_equal(packets_of(a)->count, 1);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    world_close(w);
}

static void err_flushes_both_queues(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    give_room(a, 0);
    post_send(a, 1, 10);
    end_post_receive(a, 7, 0, 100);
    packets_modify(a, QP_ERR);
    end_expect(a->send_cq, 1, WC_WR_FLUSH_ERR);
    end_expect(a->recv_cq, 7, WC_WR_FLUSH_ERR);
    post_send(a, 2, 10);
    end_post_receive(a, 8, 0, 100);
    end_expect(a->send_cq, 2, WC_WR_FLUSH_ERR);
    end_expect(a->recv_cq, 8, WC_WR_FLUSH_ERR);
    assert_true(packets_of(a)->t->ops->wants_receive(packets_of(a)->t));
    world_close(w);
}

static void with_an_srq_err_says_that_no_more_is_taken(void **state)
{
    struct world *w = world_open(&transport_ud, &(struct world_options){.has_srq = true});
    struct end *a = &w->ends[0];
    end_post_receive(a, 7, 0, 100);
    packets_modify(a, QP_ERR);
    packets_modify(a, QP_ERR);
    end_expect_none(a->recv_cq);
    assert_int_equal(packets_of(a)->events[QP_EVENT_LAST_WQE_REACHED], 1);
    world_close(w);
}

static void reset_forgets_what_is_posted(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    post_send(a, 1, 10);
    give_room(a, 1);
    post_send(a, 2, 10);
    end_post_receive(a, 7, 0, 100);
    packets_modify(a, QP_RESET);
    assert_int_equal(wq_send_count(a->wq), 0);
    assert_int_equal(wq_receive_count(a->wq), 0);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    end_expect_none(a->send_cq);
    world_close(w);
}

static void a_full_completion_queue_ends_the_queue_pair(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    for (unsigned i = 0; i <= cq_capacity(a->send_cq); i++) {
        post_send(a, i, 0);
        if (packets_of(a)->count > 0) {
            packets_take(a);
        }
    }
    assert_int_equal(state_of(a), QP_ERR);
    assert_int_equal(packets_of(a)->events[QP_EVENT_FATAL], 1);
    world_close(w);
}

static void a_full_completion_queue_ends_a_queue_pair_in_sqe(void **state)
{
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    give_room(a, 0);
    post_send(a, 0, 10);
    assert_int_equal(mem_region_deregister(a->mem, a->key), 0);
    give_room(a, 1);
    assert_int_equal(state_of(a), QP_SQE);
    for (unsigned i = 0; i < cq_capacity(a->send_cq); i++) {
        assert_int_equal(state_of(a), QP_SQE);
        post_send(a, i, 0);
    }
    assert_int_equal(state_of(a), QP_ERR);
    assert_int_equal(packets_of(a)->events[QP_EVENT_FATAL], 1);
    world_close(w);
}

static void what_queue_pairs_count_is_summed(void **state)
{
    struct world *w = open_world();
    struct transport *t = packets_of(&w->ends[0])->t;
    post_send(&w->ends[0], 1, 10);
    struct unreliable_counters total = {.packets_in = 3};
    t->ops->counters_add(&total, t->ops->counters(t));
    t->ops->counters_add(&total, t->ops->counters(t));
    assert_int_equal(total.packets_out, 2);
    assert_int_equal(total.packets_in, 3);
    world_close(w);
}

static void a_silent_queue_pair_tells_nothing_more(void **state)
{
    struct world *w = world_open(&transport_ud, &(struct world_options){.has_srq = true});
    struct end *a = &w->ends[0];
    packets_of(a)->t->ops->silence(packets_of(a)->t);
    post_send(a, 1, 10);
    packets_modify(a, QP_ERR);
    end_expect_none(a->send_cq);
    assert_int_equal(packets_of(a)->events[QP_EVENT_LAST_WQE_REACHED], 0);
    world_close(w);
}

/* ---- creation -------------------------------------------------------------------------------- */

static void an_mtu_that_is_none_is_refused(void **state)
{
    static const uint32_t none[] = {0, 128, 255, 300, 1500, 4095, 8192};
    struct world *w = open_world();
    struct ud_config config = {.wq = w->ends[0].config};
    struct ud *ud = NULL;
    for (unsigned i = 0; i < sizeof none / sizeof none[0]; i++) {
        config.port_mtu = none[i];
        assert_int_equal(ud_create(&config, &ud), -EINVAL);
    }
    config.port_mtu = 1024;
    config.wq.caps.max_send_sge = SGE_COUNT_MAX + 1;
    assert_int_equal(ud_create(&config, &ud), -EINVAL);
    assert_null(ud);
    world_close(w);
}

static void sends_alone_may_be_posted(void **state)
{
    struct world *w = open_world();
    struct transport *t = packets_of(&w->ends[0])->t;
    for (unsigned opcode = 0; opcode < WQE_OPCODE_COUNT; opcode++) {
        bool may = opcode == WQE_SEND || opcode == WQE_SEND_WITH_IMM;
        assert_int_equal(t->ops->may_post(t, opcode), may ? 0 : -EOPNOTSUPP);
    }
    world_close(w);
}

static void it_says_what_it_is(void **state)
{
    struct world *w = open_world();
    struct transport *t = packets_of(&w->ends[0])->t;
    char buf[200];
    end_post_receive(&w->ends[0], 1, 0, 10);
    assert_string_equal(t->ops->format(t, buf, sizeof buf),
                        "UD qp 10 RTS sq 0 rq 1 psn 16777214 qkey 0x11111111 groups 0");
    struct qp_attributes attributes = t->ops->query(t);
    assert_int_equal(attributes.state, QP_RTS);
    assert_int_equal(attributes.segment_len, PACKETS_MTU);
    assert_int_equal(attributes.rq_count, 1);
    assert_int_equal(t->ops->next_deadline(t), INSTANT_NEVER);
    assert_string_equal(t->ops->name, "ud");
    assert_string_equal(t->ops->total_name, "ud_total");
    assert_string_equal(t->ops->segment_name, "path_mtu");
    assert_int_equal(t->ops->address_len, sizeof(struct roce_address));
    world_close(w);
}

static void a_packet_is_solicited_if_the_work_request_says_so(void **state)
{
    static const unsigned flags[] = {0, WQE_SOLICITED};
    struct world *w = open_world();
    struct end *a = &w->ends[0];
    for (unsigned i = 0; i < 2; i++) {
        end_send_slot(a, 1, WQE_SEND, flags[i]);
        end_post(a);
        struct carried c = packets_take(a);
        assert_int_equal(parse(&c).bth.solicited, flags[i] != 0);
    }
    world_close(w);
}

static void it_is_in_the_groups_that_it_was_attached_to(void **state)
{
    const struct in6_addr group = {.s6_addr = {0xff, 0x0e, [15] = 9}};
    struct world *w = open_world();
    struct transport *t = packets_of(&w->ends[0])->t;
    char buf[200];
    assert_int_equal(t->ops->attach(t, &group), 0);
    assert_non_null(strstr(t->ops->format(t, buf, sizeof buf), "groups 1"));
    assert_int_equal(t->ops->detach(t, &group), 0);
    assert_non_null(strstr(t->ops->format(t, buf, sizeof buf), "groups 0"));
    assert_int_not_equal(t->ops->detach(t, &group), 0);
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packet_says_what_the_work_request_says),
        cmocka_unit_test(a_packet_takes_the_path_of_its_address),
        cmocka_unit_test(the_source_port_is_made_of_the_label_or_of_both_numbers),
        cmocka_unit_test(a_qkey_with_the_highest_bit_stands_for_the_queue_pairs_own),
        cmocka_unit_test(psns_count_and_wrap),
        cmocka_unit_test(a_packet_carries_as_much_as_the_ports_mtu),
        cmocka_unit_test(what_finds_no_room_waits_in_order),
        cmocka_unit_test(memory_that_went_before_there_was_room_is_a_local_error),
        cmocka_unit_test(what_left_before_a_failure_was_successful),
        cmocka_unit_test(in_sqe_sends_are_flushed_until_rts),
        cmocka_unit_test(a_state_that_is_taken_for_another_does_not_change),
        cmocka_unit_test(in_sqd_nothing_leaves_until_rts),
        cmocka_unit_test(who_did_not_ask_is_not_told_that_the_queue_is_drained),
        cmocka_unit_test(before_rts_nothing_leaves),
        cmocka_unit_test(err_flushes_both_queues),
        cmocka_unit_test(with_an_srq_err_says_that_no_more_is_taken),
        cmocka_unit_test(reset_forgets_what_is_posted),
        cmocka_unit_test(a_full_completion_queue_ends_the_queue_pair),
        cmocka_unit_test(a_full_completion_queue_ends_a_queue_pair_in_sqe),
        cmocka_unit_test(what_queue_pairs_count_is_summed),
        cmocka_unit_test(a_silent_queue_pair_tells_nothing_more),
        cmocka_unit_test(an_mtu_that_is_none_is_refused),
        cmocka_unit_test(sends_alone_may_be_posted),
        cmocka_unit_test(it_says_what_it_is),
        cmocka_unit_test(it_is_in_the_groups_that_it_was_attached_to),
        cmocka_unit_test(a_packet_is_solicited_if_the_work_request_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
