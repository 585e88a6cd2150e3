// Unreliable connections: messages as packets, and what becomes of those of which some are lost.
#include <errno.h>

#include "roce/address.h"
#include "roce/uc.h"
#include "tests/transport/packets.h"
#include "wire/psn.h"
#include "wire/roce.h"

enum { PSN_FIRST = 0xfffffe, REMOTE = 16384, MTU = PACKETS_UC_MTU };

static struct world *open_world(bool has_srq)
{
    return world_open(&transport_uc, &(struct world_options){.has_srq = has_srq, .seed = 1});
}

static void set_room(struct end *end, unsigned room)
{
    struct packets *p = packets_of(end);
    p->room = room;
    p->t->ops->output(p->t, &p->sink, end->world->now);
}

static enum qp_state state_of(const struct end *end)
{
    return packets_of(end)->t->ops->state(packets_of(end)->t);
}

static struct roce_packet parse(const struct carried *c)
{
    struct roce_packet packet = {0};
    assert_int_equal(roce_packet_parse(span_of(c->octets, c->len), &packet), ROCE_PARSE_OK);
    return packet;
}

// The packets of one message, at most as many as fit into the sink at a time.
struct message_packets {
    unsigned count;
    struct carried packets[PACKETS_ROOM];
};

static struct message_packets put(struct end *end, enum wqe_opcode opcode, uint32_t len)
{
    struct message_packets m = {0};
    end_post_op(end, 1, opcode, 0, 0, len, REMOTE);
    while (packets_of(end)->count > 0) {
        m.packets[m.count++] = packets_take(end);
    }
    return m;
}

static void arrive_all(struct end *end, const struct message_packets *m)
{
    for (unsigned i = 0; i < m->count; i++) {
        packets_arrive(end, &m->packets[i]);
    }
}

/* ---- out ------------------------------------------------------------------------------------- */

static void a_message_is_as_many_packets_as_the_mtu_makes_of_it(void **state)
{
    enum { F, M, L, O };
    static const struct {
        uint32_t len;
        unsigned count;
        unsigned places[3];
    } lengths[] = {
        {0, 1, {O}},          {1, 1, {O}},          {MTU, 1, {O}},
        {MTU + 1, 2, {F, L}}, {2 * MTU, 2, {F, L}}, {2 * MTU + 1, 3, {F, M, L}},
    };
    static const struct {
        enum wqe_opcode opcode;
        uint8_t places[4];
    } kinds[] = {
        {WQE_SEND, {0x20, 0x21, 0x22, 0x24}},
        {WQE_SEND_WITH_IMM, {0x20, 0x21, 0x23, 0x25}},
        {WQE_RDMA_WRITE, {0x26, 0x27, 0x28, 0x2a}},
        {WQE_RDMA_WRITE_WITH_IMM, {0x26, 0x27, 0x29, 0x2b}},
    };
    struct world *w = open_world(false);
    struct end *a = &w->ends[0];
    uint32_t psn = PSN_FIRST;
    for (unsigned k = 0; k < 4; k++) {
        for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            struct message_packets m = put(a, kinds[k].opcode, lengths[i].len);
            assert_int_equal(m.count, lengths[i].count);
            uint32_t len = 0;
            for (unsigned n = 0; n < m.count; n++) {
                struct roce_packet p = parse(&m.packets[n]);
                assert_int_equal(p.bth.opcode, kinds[k].places[lengths[i].places[n]]);
                assert_int_equal(p.bth.psn, psn);
                assert_int_equal(p.bth.dest_qp, a->peer->config.qp_num);
                assert_memory_equal(p.payload.ptr, a->memory + len, p.payload.len);
                len += (uint32_t)p.payload.len;
                psn = psn_add(psn, 1);
            }
            assert_int_equal(len, lengths[i].len);
        }
    }
    world_close(w);
}

static void a_write_says_where_in_its_first_packet(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    struct message_packets m = put(a, WQE_RDMA_WRITE, 3 * MTU);
    struct roce_packet p = parse(&m.packets[0]);
    assert_int_equal(p.reth.va, (uintptr_t)b->memory + REMOTE);
    assert_int_equal(p.reth.rkey, b->key);
    assert_int_equal(p.reth.dma_len, 3 * MTU);
    world_close(w);
}

static void the_last_packet_is_the_solicited_one(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0];
    end_post_op(a, 1, WQE_SEND, WQE_SOLICITED, 0, 2 * MTU, 0);
    struct carried first = packets_take(a), last = packets_take(a);
    assert_false(parse(&first).bth.solicited);
    assert_true(parse(&last).bth.solicited);
    world_close(w);
}

static void the_rest_of_a_message_waits_for_room(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    set_room(a, 1);
    end_fill(a, 0, 3 * MTU, 3);
    end_post_receive(b, 7, 0, 3 * MTU);
    end_post_op(a, 1, WQE_SEND, WQE_SIGNALED, 0, 3 * MTU, 0);
    end_post_op(a, 2, WQE_SEND, WQE_SIGNALED, 0, 0, 0);
    for (unsigned i = 0; i < 3; i++) {
        end_expect_none(a->send_cq);
        struct carried c = packets_take(a);
        packets_arrive(b, &c);
        set_room(a, i < 2 ? 1 : 2);
        if (i == 1) {
            end_expect(a->send_cq, 1, WC_SUCCESS); // its last has just left
        }
    }
    end_expect(a->send_cq, 2, WC_SUCCESS);
    assert_int_equal(end_poll(b->recv_cq).byte_len, 3 * MTU);
    world_close(w);
}

static void memory_that_goes_within_a_message_stops_the_send_queue(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(b, 7, 0, 4 * MTU);
    set_room(a, 1);
    end_post_op(a, 1, WQE_SEND, WQE_SIGNALED, 0, 3 * MTU, 0);
    assert_int_equal(mem_region_deregister(a->mem, a->key), 0);
    struct carried c = packets_take(a);
    packets_arrive(b, &c);
    set_room(a, 4);
    end_expect(a->send_cq, 1, WC_LOC_PROT_ERR);
    assert_int_equal(state_of(a), QP_SQE);
    // The peer's receive is for the message that follows.
    packets_modify(a, QP_RTS);
    end_post_op(a, 2, WQE_SEND, WQE_SIGNALED, 0, 0, 0);
    end_expect(a->send_cq, 2, WC_SUCCESS);
    c = packets_take(a);
    packets_arrive(b, &c);
    assert_int_equal(end_poll(b->recv_cq).byte_len, 0);
    assert_int_equal(packets_counter(b, "cut_messages"), 1);
    assert_int_equal(packets_counter(b, "gaps"), 0);
    world_close(w);
}

static void in_sqd_a_message_that_has_begun_is_sent_to_its_end(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0];
    set_room(a, 1);
    end_post_op(a, 1, WQE_SEND, WQE_SIGNALED, 0, 2 * MTU, 0);
    end_post_op(a, 2, WQE_SEND, WQE_SIGNALED, 0, 0, 0);
    packets_change(a, &(struct qp_change){.mask = QP_CHANGE_STATE | QP_CHANGE_TELLS_DRAINED,
                                          .state = QP_SQD,
                                          .tells_drained = true});
    assert_int_equal(packets_of(a)->events[QP_EVENT_SQ_DRAINED], 0);
    set_room(a, 4);
    assert_int_equal(packets_of(a)->events[QP_EVENT_SQ_DRAINED], 1);
    end_expect(a->send_cq, 1, WC_SUCCESS);
    end_expect_none(a->send_cq);
    packets_modify(a, QP_RTS);
    set_room(a, 4);
    end_expect(a->send_cq, 2, WC_SUCCESS);
    world_close(w);
}

static void a_message_that_was_cut_by_an_error_is_not_gone_on_with(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0];
    set_room(a, 1);
    end_post_op(a, 1, WQE_SEND, WQE_SIGNALED, 0, 2 * MTU, 0);
    packets_modify(a, QP_ERR);
    end_expect(a->send_cq, 1, WC_WR_FLUSH_ERR);
    world_reconnect(w);
    set_room(a, 4);
    end_post_op(a, 2, WQE_SEND, 0, 0, 2 * MTU, 0);
    struct carried c = packets_take(a);
    assert_int_equal(parse(&c).bth.opcode, ROCE_UC | ROCE_SEND_FIRST);
    assert_int_equal(parse(&c).bth.psn, PSN_FIRST);
    world_close(w);
}

static void a_message_that_was_cut_by_a_reset_is_not_gone_on_with(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0];
    set_room(a, 1);
    end_post_op(a, 1, WQE_SEND, WQE_SIGNALED, 0, 2 * MTU, 0);
    packets_take(a);
    world_reconnect(w);
    end_expect_none(a->send_cq);
    set_room(a, 4);
    end_post_op(a, 2, WQE_SEND, 0, 0, 2 * MTU, 0);
    struct carried c = packets_take(a);
    assert_int_equal(parse(&c).bth.opcode, ROCE_UC | ROCE_SEND_FIRST);
    assert_int_equal(parse(&c).bth.psn, PSN_FIRST);
    world_close(w);
}

static void a_send_queue_drains_while_a_message_that_has_begun_is_sent(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0];
    struct transport *t = packets_of(a)->t;
    set_room(a, 1);
    end_post_op(a, 1, WQE_SEND, 0, 0, 2 * MTU, 0);
    assert_false(t->ops->query(t).is_draining);
    packets_modify(a, QP_SQD);
    assert_true(t->ops->query(t).is_draining);
    set_room(a, 4);
    assert_false(t->ops->query(t).is_draining);
    world_close(w);
}

static void what_the_program_does_not_change_stays(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0];
    set_room(a, 1);
    end_post_op(a, 1, WQE_SEND, 0, 0, 2 * MTU, 0);
    packets_change(a, &(struct qp_change){.mask = QP_CHANGE_STATE | QP_CHANGE_TELLS_DRAINED,
                                          .state = QP_SQD,
                                          .tells_drained = true});
    packets_change(a, &(struct qp_change){.mask = QP_CHANGE_RIGHTS});
    set_room(a, 4);
    assert_int_equal(packets_of(a)->events[QP_EVENT_SQ_DRAINED], 1);
    world_close(w);
}

static void a_connection_has_one_source_port(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0];
    struct message_packets m = put(a, WQE_SEND, 2 * MTU);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(m.packets[i].path.source_port,
                         roce_source_port(0, a->config.qp_num, a->peer->config.qp_num));
    }
    world_close(w);
}

/* ---- what is lost ---------------------------------------------------------------------------- */

static void a_message_with_a_hole_is_dropped_and_its_receive_used_again(void **state)
{
    for (unsigned lost = 0; lost < 3; lost++) {
        struct world *w = open_world(lost % 2 == 1);
        struct end *a = &w->ends[0], *b = &w->ends[1];
        end_post_receive(b, 7, 0, 3 * MTU);
        end_post_receive(b, 8, 0, 3 * MTU);
        struct message_packets m = put(a, WQE_SEND, 3 * MTU);
        for (unsigned i = 0; i < 3; i++) {
            if (i != lost) {
                packets_arrive(b, &m.packets[i]);
            }
        }
        end_expect_none(b->recv_cq);
        end_fill(a, 0, MTU, 9);
        m = put(a, WQE_SEND, MTU);
        arrive_all(b, &m);
        struct cqe cqe = end_poll(b->recv_cq);
        assert_int_equal(cqe.wr_id, 7);
        assert_int_equal(cqe.byte_len, MTU);
        end_expect_none(b->recv_cq);
        assert_int_equal(packets_counter(b, "gaps"), 1);
        assert_int_equal(packets_counter(b, "cut_messages"), lost > 0 ? 1 : 0);
        assert_int_equal(packets_counter(b, "refused.psn"), 2 - lost);
        world_close(w);
    }
}

static void what_comes_late_does_not_mend_a_hole(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(b, 7, 0, 3 * MTU);
    struct message_packets m = put(a, WQE_SEND, 3 * MTU);
    packets_arrive(b, &m.packets[0]);
    packets_arrive(b, &m.packets[2]);
    packets_arrive(b, &m.packets[1]);
    packets_arrive(b, &m.packets[2]);
    end_expect_none(b->recv_cq);
    assert_int_equal(packets_counter(b, "packets_in"), 1);
    world_close(w);
}

static void a_write_does_not_go_on_with_a_send(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(b, 7, 0, 3 * MTU);
    struct message_packets m = put(a, WQE_SEND, 2 * MTU);
    m.packets[1].octets[BTH_OFF_OPCODE] = ROCE_UC | ROCE_WRITE_LAST;
    arrive_all(b, &m);
    end_expect_none(b->recv_cq);
    assert_int_equal(packets_counter(b, "refused.sequence"), 1);
    world_close(w);
}

static void a_message_that_begins_within_another_takes_its_place(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(b, 7, 0, 3 * MTU);
    struct message_packets one = put(a, WQE_SEND, 2 * MTU), two = put(a, WQE_SEND, 2 * MTU);
    packets_arrive(b, &one.packets[0]);
    arrive_all(b, &two);
    assert_int_equal(end_poll(b->recv_cq).byte_len, 2 * MTU);
    assert_int_equal(packets_counter(b, "cut_messages"), 1);
    world_close(w);
}

static void a_write_goes_beside_a_receive_that_is_kept(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(b, 7, 0, 3 * MTU);
    struct message_packets send = put(a, WQE_SEND, 2 * MTU);
    packets_arrive(b, &send.packets[0]);
    struct message_packets write = put(a, WQE_RDMA_WRITE, 2 * MTU);
    arrive_all(b, &write);
    end_expect_none(b->recv_cq);
    write = put(a, WQE_RDMA_WRITE_WITH_IMM, MTU);
    arrive_all(b, &write);
    struct cqe cqe = end_poll(b->recv_cq);
    assert_int_equal(cqe.wr_id, 7);
    assert_int_equal(cqe.opcode, WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(cqe.byte_len, MTU);
    world_close(w);
}

/* ---- each way to be dropped ------------------------------------------------------------------ */

static void rights(struct end *end, uint32_t rights)
{
    packets_change(end, &(struct qp_change){.mask = QP_CHANGE_RIGHTS, .rights = rights});
}

static void spoil_state(struct end *b, struct carried *c)
{
    packets_modify(b, QP_RESET);
    packets_modify(b, QP_INIT);
}

static void spoil_form(struct end *b, struct carried *c)
{
    c->len = BTH_LEN + 3;
}

static void spoil_service(struct end *b, struct carried *c)
{
    c->octets[BTH_OFF_OPCODE] ^= ROCE_UC;
}

static void spoil_qp_num(struct end *b, struct carried *c)
{
    c->octets[BTH_OFF_DEST_QP + 2] ^= 1;
}

static void spoil_pkey(struct end *b, struct carried *c)
{
    c->octets[BTH_OFF_PKEY + 1] ^= 1;
}

static void spoil_source(struct end *b, struct carried *c)
{
    c->path.local = packets_address(2);
}

static void spoil_destination(struct end *b, struct carried *c)
{
    c->path.remote = packets_address(2);
}

static void spoil_payload(struct end *b, struct carried *c)
{
    c->len -= 4;
}

static void spoil_write_length(struct end *b, struct carried *c)
{
    c->octets[BTH_LEN + RETH_OFF_DMA_LEN + 3] ^= 1;
}

// The first packet has all that there is, and is not the last.
static void spoil_write_end(struct end *b, struct carried *c)
{
    c->octets[BTH_OFF_OPCODE] = ROCE_UC | ROCE_WRITE_FIRST;
}

static void spoil_psn(struct end *b, struct carried *c)
{
    c->octets[BTH_OFF_OPCODE] = ROCE_UC | ROCE_SEND_LAST;
    c->octets[BTH_OFF_PSN + 2] ^= 8;
}

static void spoil_place(struct end *b, struct carried *c)
{
    c->octets[BTH_OFF_OPCODE] = ROCE_UC | ROCE_SEND_LAST;
}

static void spoil_key(struct end *b, struct carried *c)
{
    c->octets[BTH_LEN + RETH_OFF_RKEY] ^= 1;
}

static void spoil_range(struct end *b, struct carried *c)
{
    c->octets[BTH_LEN + RETH_OFF_VA + 4] ^= 1;
}

static void spoil_rights(struct end *b, struct carried *c)
{
    rights(b, MEM_ACCESS_REMOTE_READ);
}

static void a_packet_that_may_not_be_taken_is_dropped_with_a_reason(void **state)
{
    static const struct {
        const char *counter;
        void (*spoil)(struct end *b, struct carried *c);
        enum wqe_opcode opcode;
        uint32_t len;
    } cases[] = {
        {"refused.state", spoil_state, WQE_RDMA_WRITE, MTU},
        {"refused.malformed", spoil_form, WQE_RDMA_WRITE, MTU},
        {"refused.service", spoil_service, WQE_SEND, MTU},
        {"refused.qp_num", spoil_qp_num, WQE_SEND, MTU},
        {"refused.pkey", spoil_pkey, WQE_SEND, MTU},
        {"refused.address", spoil_source, WQE_SEND, MTU},
        {"refused.address", spoil_destination, WQE_SEND, MTU},
        {"refused.length", spoil_payload, WQE_SEND, 2 * MTU}, // of a first packet
        {"refused.length", spoil_write_length, WQE_RDMA_WRITE, MTU},
        {"refused.length", spoil_write_end, WQE_RDMA_WRITE, MTU},
        {"refused.psn", spoil_psn, WQE_SEND, MTU},
        {"refused.sequence", spoil_place, WQE_SEND, MTU},
        {"refused.access", spoil_key, WQE_RDMA_WRITE, MTU},
        {"refused.access", spoil_range, WQE_RDMA_WRITE, MTU},
        {"refused.access", spoil_rights, WQE_RDMA_WRITE, MTU},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world *w = open_world(false);
        struct end *a = &w->ends[0], *b = &w->ends[1];
        end_fill(a, 0, MTU, 5);
        end_post_receive(b, 7, 0, 2 * MTU);
        struct message_packets m = put(a, cases[i].opcode, cases[i].len);
        cases[i].spoil(b, &m.packets[0]);
        packets_arrive(b, &m.packets[0]);
        end_expect_none(b->recv_cq);
        assert_int_equal(packets_counter(b, cases[i].counter), 1);
        assert_int_equal(packets_counter(b, "packets_in"), 0);
        for (unsigned k = 0; k < MTU; k++) {
            assert_int_equal(b->memory[REMOTE + k], 0);
        }
        world_close(w);
    }
}

static void without_a_receive_a_message_is_dropped_as_a_whole(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    struct message_packets m = put(a, WQE_SEND, 2 * MTU);
    packets_arrive(b, &m.packets[0]);
    end_post_receive(b, 7, 0, 2 * MTU);
    packets_arrive(b, &m.packets[1]);
    end_expect_none(b->recv_cq);
    assert_int_equal(packets_counter(b, "refused.no_receive"), 1);
    assert_int_equal(packets_counter(b, "refused.sequence"), 1);
    m = put(a, WQE_SEND, 2 * MTU); // the next finds one
    arrive_all(b, &m);
    end_expect(b->recv_cq, 7, WC_SUCCESS);
    world_close(w);
}

static void a_receive_that_is_too_short_waits_for_what_fits(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(b, 7, 0, MTU + 9);
    struct message_packets m = put(a, WQE_SEND, MTU + 10);
    arrive_all(b, &m);
    end_expect_none(b->recv_cq);
    assert_int_equal(packets_counter(b, "refused.too_long"), 1);
    m = put(a, WQE_SEND, MTU + 9);
    arrive_all(b, &m);
    end_expect(b->recv_cq, 7, WC_SUCCESS);
    world_close(w);
}

static void one_of_an_srq_that_is_too_short_completes_with_an_error(void **state)
{
    struct world *w = open_world(true);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(b, 7, 0, MTU);
    end_post_receive(b, 8, 0, 2 * MTU);
    struct message_packets m = put(a, WQE_SEND, 2 * MTU);
    arrive_all(b, &m);
    end_expect(b->recv_cq, 7, WC_LOC_LEN_ERR);
    assert_int_equal(packets_counter(b, "cut_messages"), 1);
    m = put(a, WQE_SEND, 2 * MTU);
    arrive_all(b, &m);
    end_expect(b->recv_cq, 8, WC_SUCCESS);
    world_close(w);
}

static void memory_of_a_receive_that_is_not_ours_ends_the_queue_pair(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(b, 7, 0, 100);
    struct message_packets m = put(a, WQE_SEND, 10);
    assert_int_equal(mem_region_deregister(b->mem, b->key), 0);
    arrive_all(b, &m);
    end_expect(b->recv_cq, 7, WC_LOC_PROT_ERR);
    assert_int_equal(state_of(b), QP_ERR);
    assert_int_equal(packets_of(b)->events[QP_EVENT_FATAL], 1);
    assert_int_equal(packets_counter(b, "refused.receive_memory"), 1);
    world_close(w);
}

static void a_key_that_is_taken_back_within_a_write_ends_the_write(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    struct message_packets m = put(a, WQE_RDMA_WRITE, 3 * MTU);
    packets_arrive(b, &m.packets[0]);
    assert_int_equal(mem_region_deregister(b->mem, b->key), 0);
    packets_arrive(b, &m.packets[1]);
    packets_arrive(b, &m.packets[2]);
    assert_int_equal(packets_counter(b, "refused.access"), 1);
    assert_int_equal(packets_counter(b, "refused.sequence"), 1);
    world_close(w);
}

static void a_write_of_no_octets_needs_no_key(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    struct message_packets m = put(a, WQE_RDMA_WRITE, 0);
    spoil_key(b, &m.packets[0]);
    arrive_all(b, &m);
    assert_int_equal(packets_counter(b, "packets_in"), 1);
    world_close(w);
}

static void a_write_whose_immediate_finds_no_receive_is_placed_and_not_told(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_fill(a, 0, 2 * MTU, 5);
    struct message_packets m = put(a, WQE_RDMA_WRITE_WITH_IMM, 2 * MTU);
    arrive_all(b, &m);
    assert_int_equal(packets_counter(b, "refused.no_receive"), 1);
    end_expect_filled(b, REMOTE, MTU, 5); // of the last packet nothing is
    end_expect_none(b->recv_cq);
    world_close(w);
}

/* ---- states and attributes ------------------------------------------------------------------- */

static void err_flushes_the_receive_of_a_message_that_is_arriving(void **state)
{
    for (unsigned has_srq = 0; has_srq < 2; has_srq++) {
        struct world *w = open_world(has_srq == 1);
        struct end *a = &w->ends[0], *b = &w->ends[1];
        end_post_receive(b, 7, 0, 2 * MTU);
        struct message_packets m = put(a, WQE_SEND, 2 * MTU);
        packets_arrive(b, &m.packets[0]);
        packets_modify(b, QP_ERR);
        end_expect(b->recv_cq, 7, WC_WR_FLUSH_ERR);
        end_expect_none(b->recv_cq);
        world_close(w);
    }
}

static void reset_gives_the_receive_back_and_forgets_the_peer(void **state)
{
    struct world *w = open_world(true);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    end_post_receive(b, 7, 0, 2 * MTU);
    struct message_packets m = put(a, WQE_SEND, 2 * MTU);
    packets_arrive(b, &m.packets[0]);
    packets_modify(b, QP_RESET);
    packets_modify(b, QP_INIT);
    packets_modify(b, QP_RTR);
    packets_arrive(b, &m.packets[0]);
    assert_int_equal(packets_counter(b, "refused.address"), 1);
    for (unsigned i = 0; i < END_QUEUE_LEN; i++) {
        end_post_receive(b, i, 0, 1); // all slots are free
    }
    while (srq_posted_count(b->srq) > 0) {
        srq_free(b->srq, srq_claim(b->srq));
    }
    world_close(w);
}

static void who_has_said_nothing_grants_nothing(void **state)
{
    struct world *w = open_world(false);
    struct end *a = &w->ends[0], *b = &w->ends[1];
    struct message_packets m = put(a, WQE_RDMA_WRITE, MTU);
    struct qp_change change = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_PATH | QP_CHANGE_PATH_MTU | QP_CHANGE_RQ_PSN,
        .state = QP_RTR,
        .path = {.local = packets_address(1), .remote = packets_address(0)},
        .path_mtu = MTU,
        .rq_psn = PSN_FIRST,
    };
    packets_modify(b, QP_RESET);
    packets_modify(b, QP_INIT);
    packets_change(b, &change);
    arrive_all(b, &m);
    assert_int_equal(packets_counter(b, "refused.access"), 1);
    world_close(w);
}

static void attributes_that_cannot_be_are_refused(void **state)
{
    static const struct qp_change wrong[] = {
        {.mask = QP_CHANGE_PATH_MTU, .path_mtu = 1500},
        {.mask = QP_CHANGE_DEST_QP_NUM, .dest_qp_num = 0x1000000},
        {.mask = QP_CHANGE_RQ_PSN, .rq_psn = 0x1000000},
        {.mask = QP_CHANGE_STATE, .state = QP_INIT},
    };
    struct world *w = open_world(false);
    struct transport *t = packets_of(&w->ends[0])->t;
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(t->ops->modify(t, &wrong[i], w->now), -EINVAL);
    }
    char buf[200];
    assert_string_equal(t->ops->format(t, buf, sizeof buf),
                        "UC qp 10 RTS sq 0 rq 0 psn 16777214 to qp 11 expects psn 16777214");
    assert_int_equal(t->ops->query(t).segment_len, MTU);
    world_close(w);
}

static void the_greatest_attributes_are_taken(void **state)
{
    const struct qp_change change = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_PATH | QP_CHANGE_PATH_MTU | QP_CHANGE_RQ_PSN |
                QP_CHANGE_DEST_QP_NUM,
        .state = QP_RTR,
        .path = {.local = packets_address(0), .remote = packets_address(1)},
        .path_mtu = 4096,
        .dest_qp_num = 0xffffff,
        .rq_psn = 0xffffff,
    };
    struct world *w = open_world(false);
    struct transport *t = packets_of(&w->ends[0])->t;
    packets_modify(&w->ends[0], QP_RESET);
    packets_modify(&w->ends[0], QP_INIT);
    packets_change(&w->ends[0], &change);
    char buf[200];
    assert_non_null(
        strstr(t->ops->format(t, buf, sizeof buf), "to qp 16777215 expects psn 16777215"));
    assert_int_equal(t->ops->query(t).segment_len, 4096);
    assert_true(t->ops->check(t));
    world_close(w);
}

static void a_reset_forgets_what_was_agreed_on(void **state)
{
    struct world *w = open_world(false);
    struct transport *t = packets_of(&w->ends[0])->t;
    packets_modify(&w->ends[0], QP_RESET);
    char buf[200];
    assert_non_null(strstr(t->ops->format(t, buf, sizeof buf), "to qp 0 expects psn 0"));
    assert_int_equal(t->ops->query(t).segment_len, 256);
    world_close(w);
}

static void it_carries_sends_writes_and_windows(void **state)
{
    static const uint32_t carried = 1U << WQE_SEND | 1U << WQE_SEND_WITH_IMM |
                                    1U << WQE_RDMA_WRITE | 1U << WQE_RDMA_WRITE_WITH_IMM |
                                    1U << WQE_LOCAL_INV | 1U << WQE_BIND_MW;
    struct world *w = open_world(false);
    struct transport *t = packets_of(&w->ends[0])->t;
    for (unsigned opcode = 0; opcode < WQE_OPCODE_COUNT; opcode++) {
        bool may = (carried >> opcode & 1) != 0;
        assert_int_equal(t->ops->may_post(t, opcode), may ? 0 : -EOPNOTSUPP);
    }
    assert_string_equal(t->ops->name, "uc");
    assert_string_equal(t->ops->total_name, "uc_total");
    assert_string_equal(t->ops->segment_name, "path_mtu");
    world_close(w);
}

static void a_capability_out_of_range_is_refused(void **state)
{
    struct world *w = open_world(false);
    struct uc_config config = {.wq = w->ends[0].config};
    struct uc *uc = NULL;
    config.wq.caps.max_recv_sge = SGE_COUNT_MAX + 1;
    assert_int_equal(uc_create(&config, &uc), -EINVAL);
    assert_null(uc);
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_as_many_packets_as_the_mtu_makes_of_it),
        cmocka_unit_test(a_write_says_where_in_its_first_packet),
        cmocka_unit_test(the_last_packet_is_the_solicited_one),
        cmocka_unit_test(the_rest_of_a_message_waits_for_room),
        cmocka_unit_test(memory_that_goes_within_a_message_stops_the_send_queue),
        cmocka_unit_test(in_sqd_a_message_that_has_begun_is_sent_to_its_end),
        cmocka_unit_test(a_message_that_was_cut_by_an_error_is_not_gone_on_with),
        cmocka_unit_test(a_message_that_was_cut_by_a_reset_is_not_gone_on_with),
        cmocka_unit_test(a_send_queue_drains_while_a_message_that_has_begun_is_sent),
        cmocka_unit_test(what_the_program_does_not_change_stays),
        cmocka_unit_test(a_connection_has_one_source_port),
        cmocka_unit_test(a_message_with_a_hole_is_dropped_and_its_receive_used_again),
        cmocka_unit_test(what_comes_late_does_not_mend_a_hole),
        cmocka_unit_test(a_write_does_not_go_on_with_a_send),
        cmocka_unit_test(a_message_that_begins_within_another_takes_its_place),
        cmocka_unit_test(a_write_goes_beside_a_receive_that_is_kept),
        cmocka_unit_test(a_packet_that_may_not_be_taken_is_dropped_with_a_reason),
        cmocka_unit_test(without_a_receive_a_message_is_dropped_as_a_whole),
        cmocka_unit_test(a_receive_that_is_too_short_waits_for_what_fits),
        cmocka_unit_test(one_of_an_srq_that_is_too_short_completes_with_an_error),
        cmocka_unit_test(memory_of_a_receive_that_is_not_ours_ends_the_queue_pair),
        cmocka_unit_test(a_key_that_is_taken_back_within_a_write_ends_the_write),
        cmocka_unit_test(a_write_of_no_octets_needs_no_key),
        cmocka_unit_test(a_write_whose_immediate_finds_no_receive_is_placed_and_not_told),
        cmocka_unit_test(err_flushes_the_receive_of_a_message_that_is_arriving),
        cmocka_unit_test(reset_gives_the_receive_back_and_forgets_the_peer),
        cmocka_unit_test(who_has_said_nothing_grants_nothing),
        cmocka_unit_test(attributes_that_cannot_be_are_refused),
        cmocka_unit_test(it_carries_sends_writes_and_windows),
        cmocka_unit_test(a_reset_forgets_what_was_agreed_on),
        cmocka_unit_test(the_greatest_attributes_are_taken),
        cmocka_unit_test(a_capability_out_of_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
