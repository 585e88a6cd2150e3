// What arrives at a UD queue pair: the octets in front of it, and each way to be dropped.
#include <errno.h>

#include "roce/address.h"
#include "roce/ud.h"
#include "tests/transport/packets.h"
#include "wire/grh.h"
#include "wire/roce.h"

enum { QKEY_OF_ENDS = 0x11111111, PAYLOAD_LEN = 12 };

static struct world *open_world(bool has_srq)
{
    return world_open(&transport_ud, &(struct world_options){.has_srq = has_srq, .seed = 1});
}

// A packet of the first end to the second.
static struct carried make_packet(struct world *w)
{
    struct end *a = &w->ends[0];
    end_fill(a, 0, PAYLOAD_LEN, 3);
    struct send_wqe *wqe = end_send_slot(a, 1, WQE_SEND, 0);
    struct roce_address *to = wq_send_address(a->wq, wqe);
    end_add_sge(a, wqe, 0, PAYLOAD_LEN);
    to->path.traffic_class = 0x28;
    end_post(a);
    return packets_take(a);
}

static struct cqe poll(struct cq *cq)
{
    struct cqe cqe;
    assert_int_equal(cq_poll(cq, &cqe, 1), 1);
    return cqe;
}

/* ---- the octets in front --------------------------------------------------------------------- */

static void an_ipv4_header_stands_in_the_second_half(void **state)
{
    static const uint8_t expected[GRH_LEN] = {
        0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
        0,    0,    0,    0,    0,    0,    0x45, 0x28, 0x00, 0x40, 0x00, 0x00, 0x40, 0x00,
        0x40, 0x11, 0x26, 0x83, 0x0a, 0x00, 0x00, 0x01, 0x0a, 0x00, 0x00, 0x02};
    struct world *w = open_world(false);
    struct end *b = &w->ends[1];
    struct carried c = make_packet(w);
    end_post_receive(b, 7, 0, 100);
    memset(b->memory + END_HEAD, 0xa5, GRH_LEN);
    packets_arrive(b, &c);
    assert_memory_equal(b->memory + END_HEAD, expected, GRH_LEN);
    end_expect_filled(b, 33, PAYLOAD_LEN, 3); // a third of it is for what comes last
    world_close(w);
}

static void an_ipv6_header_fills_them(void **state)
{
    static const uint8_t expected[GRH_LEN] = {
        0x62, 0x81, 0x23, 0x45, 0x00, 0x2c, 0x11, 0x40, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0,    0,    0,    1,    0xfd, 0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
    struct world *w = open_world(false);
    struct end *b = &w->ends[1];
    struct carried c = make_packet(w);
    c.path.local = packets_address6(0);
    c.path.remote = packets_address6(1);
    c.path.flow_label = 0x12345;
    end_post_receive(b, 7, 0, 100);
    packets_arrive(b, &c);
    assert_memory_equal(b->memory + END_HEAD, expected, GRH_LEN);
    assert_int_equal(poll(b->recv_cq).sl, 0x8 | 0x1); // a UDP header, IPv6 before it
    world_close(w);
}

static void a_completion_says_from_whom_it_came(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    struct carried c = make_packet(w);
    end_post_receive(b, 7, 0, 100);
    packets_arrive(b, &c);
    struct cqe cqe = poll(b->recv_cq);
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_int_equal(cqe.wr_id, 7);
    assert_int_equal(cqe.opcode, WC_RECV);
    assert_int_equal(cqe.byte_len, GRH_LEN + PAYLOAD_LEN);
    assert_int_equal(cqe.wc_flags, WC_GRH);
    assert_int_equal(cqe.src_qp, a->config.qp_num);
    assert_int_equal(cqe.sl, 0x8 | 0x2); // a UDP header, IPv4 before it
    struct grh grh;
    struct in6_addr from = packets_address(0);
    assert_true(grh_parse(b->memory + END_HEAD, &grh));
    assert_memory_equal(&grh.src, &from, sizeof from);
    assert_int_equal(packets_counter(b, "packets_in"), 1);
    assert_int_equal(packets_counter(b, "octets_in"), PAYLOAD_LEN);
    assert_int_equal(packets_counter(b, "recv_completions"), 1);
    world_close(w);
}

static void the_header_may_lie_in_several_elements(void **state)
{
    struct world *w = open_world(false);
    struct end *b = &w->ends[1];
    struct carried c = make_packet(w);
    struct recv_wqe *wqe = wq_receive_slot(b->wq, 0);
    wqe->sge_count = 3;
    wqe->sge[0] = (struct sge){(uintptr_t)b->memory, 7, b->key};
    wqe->sge[1] = (struct sge){(uintptr_t)b->memory + 7, 40, b->key};
    wqe->sge[2] = (struct sge){(uintptr_t)b->memory + 47, 5, b->key};
    wq_receive_commit(b->wq, 1);
    packets_arrive(b, &c);
    assert_int_equal(poll(b->recv_cq).byte_len, GRH_LEN + PAYLOAD_LEN); // it fits to the octet
    assert_int_equal(b->memory[20], 0x45);
    end_expect_filled(b, GRH_LEN, PAYLOAD_LEN, 3);
    world_close(w);
}

/* ---- each way to be dropped ------------------------------------------------------------------ */

static void parse(const struct carried *c, struct roce_packet *ret)
{
    assert_int_equal(roce_packet_parse(span_of(c->octets, c->len), ret), ROCE_PARSE_OK);
}

// The headers anew; the payload follows as it was.
static void rewrite(struct carried *c, const struct roce_packet *packet)
{
    uint8_t payload[PACKETS_MTU];
    size_t len = packet->payload.len;
    memcpy(payload, packet->payload.ptr, len);
    size_t head_len = roce_head_emit(packet, c->octets);
    memcpy(c->octets + head_len, payload, len);
    c->len = head_len + len;
}

static void spoil_state(struct end *b, struct carried *c)
{
    packets_modify(b, QP_RESET);
    packets_modify(b, QP_INIT);
}

static void spoil_length(struct end *b, struct carried *c)
{
    c->len = BTH_LEN + DETH_LEN - 1;
}

static void spoil_version(struct end *b, struct carried *c)
{
    c->octets[BTH_OFF_FLAGS] |= 1;
}

static void spoil_opcode(struct end *b, struct carried *c)
{
    c->octets[BTH_OFF_OPCODE] = ROCE_UD | ROCE_SEND_FIRST;
}

static void spoil_service(struct end *b, struct carried *c)
{
    c->octets[BTH_OFF_OPCODE] = ROCE_RC | ROCE_SEND_ONLY;
}

static void spoil_pkey(struct end *b, struct carried *c)
{
    c->octets[BTH_OFF_PKEY + 1] = 0xfe;
}

static void spoil_qp_num(struct end *b, struct carried *c)
{
    c->octets[BTH_OFF_DEST_QP + 2] ^= 1;
}

static void spoil_group(struct end *b, struct carried *c)
{
    memset(c->octets + BTH_OFF_DEST_QP, 0xff, 3);
    c->path.remote = packets_group();
}

static void spoil_qkey(struct end *b, struct carried *c)
{
    c->octets[BTH_LEN + DETH_OFF_QKEY] ^= 0x80;
}

static void spoil_payload(struct end *b, struct carried *c)
{
    memset(c->octets + c->len, 0, 4);
    c->len += 4;
}

static const struct {
    const char *counter;
    void (*spoil)(struct end *b, struct carried *c);
} spoilt[] = {
    {"refused.state", spoil_state},       {"refused.malformed", spoil_length},
    {"refused.malformed", spoil_version}, {"refused.malformed", spoil_opcode},
    {"refused.service", spoil_service},   {"refused.pkey", spoil_pkey},
    {"refused.qp_num", spoil_qp_num},     {"refused.not_attached", spoil_group},
    {"refused.qkey", spoil_qkey},         {"refused.too_long", spoil_payload},
};

static void what_is_not_for_it_is_dropped_with_a_reason(void **state)
{
    for (unsigned i = 0; i < sizeof spoilt / sizeof spoilt[0]; i++) {
        struct world *w = open_world(false);
        struct end *b = &w->ends[1];
        struct carried c = make_packet(w);
        if (spoilt[i].spoil != spoil_state) {
            end_post_receive(b, 7, 0, PAYLOAD_LEN);
        }
        struct carried good = c;
        spoilt[i].spoil(b, &c);
        packets_arrive(b, &c);
        end_expect_none(b->recv_cq);
        assert_int_equal(packets_counter(b, spoilt[i].counter), 1);
        assert_int_equal(packets_counter(b, "packets_in"), 0);
        if (spoilt[i].spoil != spoil_state) { // and the receive is there for the next
            packets_arrive(b, &good);
            end_expect(b->recv_cq, 7, WC_SUCCESS);
        }
        world_close(w);
    }
}

static void without_a_receive_it_is_dropped(void **state)
{
    for (unsigned has_srq = 0; has_srq < 2; has_srq++) {
        struct world *w = open_world(has_srq == 1);
        struct end *b = &w->ends[1];
        struct carried c = make_packet(w);
        packets_arrive(b, &c);
        end_post_receive(b, 7, 0, 100);
        end_expect_none(b->recv_cq);
        assert_int_equal(packets_counter(b, "refused.no_receive"), 1);
        world_close(w);
    }
}

static void a_receive_of_an_srq_that_is_too_short_completes_with_an_error(void **state)
{
    struct world *w = open_world(true);
    struct end *b = &w->ends[1];
    struct carried c = make_packet(w);
    end_post_receive(b, 7, 0, PAYLOAD_LEN - 1);
    end_post_receive(b, 8, 0, PAYLOAD_LEN);
    packets_arrive(b, &c);
    end_expect(b->recv_cq, 7, WC_LOC_LEN_ERR);
    assert_int_equal(packets_counter(b, "refused.too_long"), 1);
    assert_int_equal(packets_counter(b, "recv_errors"), 1);
    packets_arrive(b, &c); // and it goes on
    end_expect(b->recv_cq, 8, WC_SUCCESS);
    world_close(w);
}

static void memory_that_is_not_ours_ends_the_queue_pair(void **state)
{
    struct world *w = open_world(false);
    struct end *b = &w->ends[1];
    struct carried c = make_packet(w);
    end_post_receive(b, 7, 0, 100);
    end_post_receive(b, 8, 0, 100);
    assert_int_equal(mem_region_deregister(b->mem, b->key), 0);
    packets_arrive(b, &c);
    end_expect(b->recv_cq, 7, WC_LOC_PROT_ERR);
    end_expect(b->recv_cq, 8, WC_WR_FLUSH_ERR);
    assert_int_equal(packets_counter(b, "refused.receive_memory"), 1);
    assert_int_equal(packets_of(b)->t->ops->state(packets_of(b)->t), QP_ERR);
    assert_int_equal(packets_of(b)->events[QP_EVENT_FATAL], 1);
    world_close(w);
}

static void a_full_completion_queue_ends_the_queue_pair(void **state)
{
    struct world *w = open_world(false);
    struct end *b = &w->ends[1];
    struct carried c = make_packet(w);
    for (unsigned i = 0; i < cq_capacity(b->recv_cq); i++) { // somebody else's
        cq_push(b->recv_cq, &(struct cqe){.qp_num = 99});
    }
    end_post_receive(b, 7, 0, 100);
    packets_arrive(b, &c);
    assert_int_equal(packets_of(b)->t->ops->state(packets_of(b)->t), QP_ERR);
    assert_int_equal(packets_of(b)->events[QP_EVENT_FATAL], 1);
    world_close(w);
}

static void a_limited_member_of_the_partition_may_speak(void **state)
{
    struct world *w = open_world(false);
    struct end *b = &w->ends[1];
    struct carried c = make_packet(w);
    c.octets[BTH_OFF_PKEY] = 0x7f;
    end_post_receive(b, 7, 0, 100);
    packets_arrive(b, &c);
    end_expect(b->recv_cq, 7, WC_SUCCESS);
    world_close(w);
}

static void it_takes_packets_wherever_it_may(void **state)
{
    struct world *w = open_world(false);
    struct end *b = &w->ends[1];
    struct carried c = make_packet(w);
    end_post_receive(b, 6, 0, 100);
    end_post_receive(b, 7, 0, 100);
    packets_modify(b, QP_SQD);
    packets_arrive(b, &c);
    end_expect(b->recv_cq, 6, WC_SUCCESS);
    packets_modify(b, QP_RTS);
    end_post_op(b, 1, WQE_SEND, 0, 0, PACKETS_MTU + 1, 0); // SQE
    packets_arrive(b, &c);
    end_expect(b->recv_cq, 7, WC_SUCCESS);
    packets_modify(b, QP_RESET);
    packets_modify(b, QP_INIT);
    packets_modify(b, QP_RTR);
    end_post_receive(b, 8, 0, 100);
    packets_arrive(b, &c);
    end_expect(b->recv_cq, 8, WC_SUCCESS);
    world_close(w);
}

static void the_qkey_may_change(void **state)
{
    struct world *w = open_world(false);
    struct end *b = &w->ends[1];
    struct carried c = make_packet(w);
    end_post_receive(b, 7, 0, 100);
    packets_change(b, &(struct qp_change){.mask = QP_CHANGE_QKEY, .qkey = 5});
    packets_arrive(b, &c);
    assert_int_equal(packets_counter(b, "refused.qkey"), 1);
    struct roce_packet packet;
    parse(&c, &packet);
    packet.deth.qkey = 5;
    rewrite(&c, &packet);
    packets_arrive(b, &c);
    end_expect(b->recv_cq, 7, WC_SUCCESS);
    world_close(w);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static struct ud *ud_of_end(struct end *end)
{
    return (struct ud *)packets_of(end)->t; // its first member
}

static void post_to_group(struct end *end)
{
    struct send_wqe *wqe = end_send_slot(end, 1, WQE_SEND, 0);
    struct roce_address *to = wq_send_address(end->wq, wqe);
    to->path.remote = packets_group();
    to->qpn = ROCE_QPN_MULTICAST;
    end_post(end);
}

static void all_that_are_attached_get_a_copy(void **state)
{
    struct world *w = open_world(false);
    const struct in6_addr group = packets_group();
    assert_int_equal(ud_attach(ud_of_end(&w->ends[0]), &group), 0); // the sender too
    assert_int_equal(ud_attach(ud_of_end(&w->ends[2]), &group), 0);
    for (unsigned i = 0; i < END_COUNT; i++) {
        end_post_receive(&w->ends[i], 7, 0, 100);
    }
    post_to_group(&w->ends[0]);
    world_run(w);
    end_expect(w->ends[0].recv_cq, 7, WC_SUCCESS);
    end_expect_none(w->ends[1].recv_cq);
    end_expect(w->ends[2].recv_cq, 7, WC_SUCCESS);
    assert_int_equal(packets_counter(&w->ends[1], "refused.not_attached"), 1);
    assert_int_equal(packets_counter(&w->ends[2], "multicast_in"), 1);
    world_close(w);
}

static void a_copy_needs_the_qkey_too(void **state)
{
    struct world *w = open_world(false);
    const struct in6_addr group = packets_group();
    struct end *b = &w->ends[1];
    assert_int_equal(ud_attach(ud_of_end(b), &group), 0);
    packets_change(b, &(struct qp_change){.mask = QP_CHANGE_QKEY, .qkey = 5});
    end_post_receive(b, 7, 0, 100);
    post_to_group(&w->ends[0]);
    world_run(w);
    end_expect_none(b->recv_cq);
    assert_int_equal(packets_counter(b, "refused.qkey"), 1);
    world_close(w);
}

static void it_is_detached_as_often_as_it_was_attached(void **state)
{
    struct world *w = open_world(false);
    struct ud *ud = ud_of_end(&w->ends[0]);
    const struct in6_addr group = packets_group();
    assert_int_equal(ud_detach(ud, &group), -EINVAL);
    assert_int_equal(ud_attach(ud, &group), 0);
    assert_int_equal(ud_attach(ud, &group), 0);
    assert_int_equal(ud_detach(ud, &group), 0);
    assert_true(ud_is_attached(ud, &group));
    packets_modify(&w->ends[0], QP_RESET); // whatever its state
    assert_true(ud_is_attached(ud, &group));
    assert_int_equal(ud_detach(ud, &group), 0);
    assert_false(ud_is_attached(ud, &group));
    world_close(w);
}

static void a_group_in_the_place_of_another_begins_anew(void **state)
{
    struct world *w = open_world(false);
    struct ud *ud = ud_of_end(&w->ends[0]);
    const struct in6_addr one = {.s6_addr = {0xff, 0x0e, [15] = 1}};
    const struct in6_addr two = {.s6_addr = {0xff, 0x0e, [15] = 2}};
    const struct in6_addr three = {.s6_addr = {0xff, 0x0e, [15] = 3}};
    assert_int_equal(ud_attach(ud, &one), 0);
    assert_int_equal(ud_attach(ud, &two), 0);
    assert_int_equal(ud_detach(ud, &one), 0);
    assert_int_equal(ud_attach(ud, &three), 0);
    assert_int_equal(ud_detach(ud, &three), 0);
    assert_false(ud_is_attached(ud, &three));
    assert_true(ud_is_attached(ud, &two));
    world_close(w);
}

static void groups_are_so_many_at_most(void **state)
{
    struct world *w = open_world(false);
    struct ud *ud = ud_of_end(&w->ends[0]);
    struct in6_addr group = {.s6_addr = {0xff, 0x0e}};
    for (unsigned i = 0; i <= UD_GROUP_MAX; i++) {
        group.s6_addr[15] = (uint8_t)i;
        assert_int_equal(ud_attach(ud, &group), i < UD_GROUP_MAX ? 0 : -ENOMEM);
    }
    group.s6_addr[15] = 3; // the last takes its place
    assert_int_equal(ud_detach(ud, &group), 0);
    for (unsigned i = 0; i < UD_GROUP_MAX; i++) {
        group.s6_addr[15] = (uint8_t)i;
        assert_int_equal(ud_is_attached(ud, &group), i != 3);
    }
    assert_int_equal(ud_attach(ud, &group), 0); // again
    world_close(w);
}

static void an_address_that_is_no_group_is_refused(void **state)
{
    struct world *w = open_world(false);
    struct ud *ud = ud_of_end(&w->ends[0]);
    const struct in6_addr none[] = {
        packets_address(0),
        packets_address6(0),
        {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 0xdf, [13] = 0xff}},
        {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 0xf0}}};
    for (unsigned i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_int_equal(ud_attach(ud, &none[i]), -EINVAL);
    }
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ipv4_header_stands_in_the_second_half),
        cmocka_unit_test(an_ipv6_header_fills_them),
        cmocka_unit_test(a_completion_says_from_whom_it_came),
        cmocka_unit_test(the_header_may_lie_in_several_elements),
        cmocka_unit_test(what_is_not_for_it_is_dropped_with_a_reason),
        cmocka_unit_test(without_a_receive_it_is_dropped),
        cmocka_unit_test(a_receive_of_an_srq_that_is_too_short_completes_with_an_error),
        cmocka_unit_test(memory_that_is_not_ours_ends_the_queue_pair),
        cmocka_unit_test(a_full_completion_queue_ends_the_queue_pair),
        cmocka_unit_test(a_limited_member_of_the_partition_may_speak),
        cmocka_unit_test(it_takes_packets_wherever_it_may),
        cmocka_unit_test(the_qkey_may_change),
        cmocka_unit_test(all_that_are_attached_get_a_copy),
        cmocka_unit_test(a_copy_needs_the_qkey_too),
        cmocka_unit_test(it_is_detached_as_often_as_it_was_attached),
        cmocka_unit_test(a_group_in_the_place_of_another_begins_anew),
        cmocka_unit_test(groups_are_so_many_at_most),
        cmocka_unit_test(an_address_that_is_no_group_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
