#include "tests/roce/rc_end.h"

#include <errno.h>
#include <stdlib.h>

#include "roce/rc_store.h"
#include "wire/greeting.h"
#include "wire/psn.h"
#include "wire/sack.h"

enum { SGE_MAX = 4, QUEUE_LEN = 256, INLINE_MAX = 64 };

const struct in6_addr rc_end_local = {.s6_addr = {[10] = 0xff, 0xff, 10, 0, 0, 1}};
const struct in6_addr rc_end_remote = {.s6_addr = {[10] = 0xff, 0xff, 10, 0, 0, 2}};

static void on_event(void *ctx, enum qp_event event)
{
    struct rc_end *e = ctx;
    e->events[event]++;
}

static int probe(void *ctx, void *addr, size_t len, bool writable, struct mspan *ret_known)
{
    const struct rc_end *e = ctx;
    *ret_known = mspan_of(addr, len);
    return e->has_no_memory ? -EFAULT : 0;
}

static uint32_t or_else(uint32_t value, uint32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static void create(struct rc_end *e, const struct rc_end_options *o)
{
    struct rc_config config = {
        .wq = {.qp_num = RC_END_NUMBER,
               .pd = e->pd,
               .caps = {QUEUE_LEN, QUEUE_LEN, SGE_MAX, SGE_MAX, INLINE_MAX},
               .send_cq = e->send_cq,
               .recv_cq = e->recv_cq,
               .srq = e->srq,
               .sq_sig_all = true,
               .mem = e->mem,
               .read_sched = o->read_sched,
               .ord_max = 16},
        .port = {on_event, e},
        .allotment_len = o->allotment_len,
        .remembered_max = 16,
        .share = o->share,
        .ack_timeout_min_ns = o->ack_timeout_min_ns,
        .store = e->store,
        .is_plain = o->is_plain,
    };
    assert_int_equal(rc_create(&config, &e->rc), 0);
    e->t = rc_transport(e->rc);
}

void rc_end_modify(struct rc_end *e, enum qp_state state)
{
    struct qp_change change = {.mask = QP_CHANGE_STATE, .state = state};
    assert_int_equal(e->t->ops->modify(e->t, &change, e->now), 0);
}

static void set_attributes(struct rc_end *e, const struct rc_end_options *o)
{
    struct qp_change change = {
        .mask = QP_CHANGE_STATE | QP_CHANGE_RIGHTS | QP_CHANGE_PATH | QP_CHANGE_DEST_QP_NUM |
                QP_CHANGE_PATH_MTU | QP_CHANGE_RQ_PSN | QP_CHANGE_MAX_DEST_RD_ATOMIC |
                QP_CHANGE_MIN_RNR_TIMER | QP_CHANGE_SQ_PSN | QP_CHANGE_MAX_RD_ATOMIC |
                QP_CHANGE_TIMEOUT | QP_CHANGE_RETRY_COUNT | QP_CHANGE_RNR_RETRY_COUNT |
                QP_CHANGE_TELLS_DRAINED,
        .state = QP_INIT,
        .rights =
            or_else(o->rights, o->has_no_rights ? 0
                                                : MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_WRITE |
                                                      MEM_ACCESS_REMOTE_ATOMIC),
        .path = {.local = rc_end_local, .remote = e->remote},
        .dest_qp_num = RC_END_PEER,
        .path_mtu = or_else(o->pmtu, 256),
        .rq_psn = RC_END_PSN,
        .sq_psn = RC_END_PSN,
        .max_dest_rd_atomic = or_else(o->max_dest_rd_atomic, 4),
        .max_rd_atomic = or_else(o->max_rd_atomic, 4),
        .min_rnr_timer = o->min_rnr_timer,
        .timeout = o->timeout,
        .retry_count = o->retry_count,
        .rnr_retry_count = o->rnr_retry_count,
        .tells_drained = true,
    };
    assert_int_equal(e->t->ops->modify(e->t, &change, e->now), 0);
}

struct rc_end *rc_end_open(const struct rc_end_options *o)
{
    struct rc_end *e = calloc(1, sizeof *e);
    uint8_t key[STAG_KEY_LEN] = {9};
    e->now = 1000;
    e->remote = o->is_one_host ? rc_end_local : rc_end_remote;
    e->mem = mem_table_create(key, 1024, (struct mem_probe){probe, e});
    assert_int_equal(mem_pd_alloc(e->mem, &e->pd), 0);
    e->memory = aligned_alloc(4096, RC_END_MEMORY_LEN);
    memset(e->memory, 0, RC_END_MEMORY_LEN);
    uint32_t access = (MEM_ACCESS_ALL & ~MEM_ACCESS_ZERO_BASED) |
                      (o->is_relaxed ? (uint32_t)MEM_ACCESS_RELAXED_ORDERING : 0U);
    assert_int_equal(mem_region_register(e->mem, e->pd, e->memory, RC_END_MEMORY_LEN,
                                         (uintptr_t)e->memory, access, &e->key),
                     0);
    e->send_cq = cq_create(2 * QUEUE_LEN, (struct cq_port){0});
    e->recv_cq = cq_create(2 * QUEUE_LEN, (struct cq_port){0});
    if (o->has_srq) {
        struct srq_config config = {.pd = e->pd, .max_wr = QUEUE_LEN, .max_sge = SGE_MAX};
        assert_int_equal(srq_create(&config, &e->srq), 0);
    }
    e->store = rc_store_create(or_else(o->blocks, 64));
    assert_non_null(e->store);
    e->packet_capacity = or_else(o->packets, 1024);
    e->packets = calloc(e->packet_capacity, sizeof *e->packets);
    create(e, o);
    enum qp_state to = o->state == QP_RESET ? QP_RTS : o->state;
    set_attributes(e, o);
    for (enum qp_state s = QP_RTR; s <= to; s++) {
        rc_end_modify(e, s);
    }
    return e;
}

void rc_end_close(struct rc_end *e)
{
    assert_true(e->t->ops->check(e->t));
    e->t->ops->silence(e->t);
    e->t->ops->destroy(e->t);
    rc_store_destroy(e->store);
    srq_destroy(e->srq);
    assert_true(mem_table_check(e->mem));
    mem_table_destroy(e->mem);
    cq_destroy(e->send_cq);
    cq_destroy(e->recv_cq);
    free(e->packets);
    free(e->memory);
    free(e);
}

/* ---- the peer -------------------------------------------------------------------------------- */

struct roce_packet rc_end_make(uint8_t operation, uint32_t psn)
{
    return (struct roce_packet){
        .facts = roce_opcode_facts(ROCE_RC | operation),
        .bth = {.opcode = ROCE_RC | operation, .pkey = BTH_PKEY_DEFAULT, .psn = psn & PSN_MASK},
    };
}

static void append(struct rc_end_packet *packet, struct span octets)
{
    assert_true(packet->len + octets.len <= sizeof packet->octets);
    memcpy(packet->octets + packet->len, octets.ptr, octets.len);
    packet->len += octets.len;
}

static bool put(void *ctx, const struct datagram_tx *tx)
{
    static const uint8_t pad[4];
    struct rc_end *e = ctx;
    if (e->has_no_room || e->count == e->packet_capacity) {
        return false;
    }
    struct rc_end_packet *packet = &e->packets[(e->first + e->count++) % e->packet_capacity];
    packet->len = 0;
    packet->path = *tx->path;
    append(packet, tx->head);
    for (unsigned i = 0; i < tx->piece_count; i++) {
        append(packet, tx->pieces[i]);
    }
    append(packet, span_of(pad, tx->pad_len));
    assert_int_equal(roce_packet_parse(span_of(packet->octets, packet->len), &packet->p),
                     ROCE_PARSE_OK);
    assert_memory_equal(&tx->path->remote, &e->remote, sizeof e->remote);
    assert_true(tx->path->source_port >= 0xc000);
    assert_int_equal(packet->p.bth.dest_qp, RC_END_PEER);
    return true;
}

void rc_end_output(struct rc_end *e)
{
    struct datagram_sink sink = {.put = put, .ctx = e, .push = e->push};
    e->t->ops->output(e->t, &sink, e->now);
    assert_true(e->t->ops->check(e->t));
}

static void arrive(struct rc_end *e, struct span octets)
{
    struct datagram_rx rx = {.local = rc_end_local, .remote = e->remote, .octets = octets};
    e->t->ops->on_packet(e->t, &rx, e->now);
}

void rc_end_take_over(struct rc_end *e)
{
    transport_packets_over(e->t, e->now);
    assert_true(e->t->ops->check(e->t));
    rc_end_output(e);
}

void rc_end_take_octets(struct rc_end *e, struct span octets)
{
    arrive(e, octets);
    rc_end_take_over(e);
}

void rc_end_take_one(struct rc_end *e, const struct roce_packet *p, const void *payload, size_t len)
{
    struct rc_end_packet packet = {.p = *p};
    packet.p.bth.pad_len = roce_pad_len(len);
    if (e->is_weft_peer) {
        packet.p.bth.greeting = greeting_of(&packet.p.bth, RC_END_PEER);
    }
    packet.len = roce_head_emit(&packet.p, packet.octets);
    append(&packet, span_of(payload, len));
    append(&packet, span_of((uint8_t[4]){0}, packet.p.bth.pad_len));
    arrive(e, span_of(packet.octets, packet.len));
}

void rc_end_take(struct rc_end *e, const struct roce_packet *p, const void *payload, size_t len)
{
    rc_end_take_one(e, p, payload, len);
    rc_end_take_over(e);
}

void rc_end_take_ack(struct rc_end *e, uint32_t psn, uint8_t syndrome)
{
    struct roce_packet p = rc_end_make(ROCE_ACKNOWLEDGE, psn);
    p.aeth.syndrome = syndrome;
    rc_end_take(e, &p, "", 0);
}

void rc_end_meet(struct rc_end *e)
{
    e->is_weft_peer = true;
    for (uint32_t i = 0; i < RC_END_GREETINGS; i++) {
        struct roce_packet p = rc_end_make(ROCE_WRITE_ONLY, RC_END_PSN + i);
        rc_end_take(e, &p, "", 0);
    }
    assert_int_equal(rc_end_counters(e)->peers_known, 1);
    rc_end_left_none(e);
}

void rc_end_take_sack(struct rc_end *e, uint32_t psn, uint64_t here)
{
    struct sack sack = {.bit_count = 0};
    uint8_t octets[SACK_LEN_MAX];
    for (uint32_t i = 0; i < 64; i++) {
        if (here >> i & 1) {
            sack_set(&sack, i);
        }
    }
    struct roce_packet p = rc_end_make(ROCE_ACKNOWLEDGE, psn);
    p.aeth.syndrome = aeth_syndrome_nak(AETH_NAK_PSN_SEQUENCE);
    rc_end_take(e, &p, octets, sack_emit(&sack, octets));
}

void rc_end_wait(struct rc_end *e, instant_ns until)
{
    for (instant_ns at; (at = e->t->ops->next_deadline(e->t)) <= until;) {
        e->now = at;
        e->t->ops->on_deadline(e->t, at);
        rc_end_output(e);
    }
    e->now = until;
    rc_end_output(e);
}

const struct rc_end_packet *rc_end_peek(const struct rc_end *e)
{
    assert_true(e->count > 0);
    return &e->packets[e->first];
}

const struct rc_end_packet *rc_end_left(struct rc_end *e, uint8_t operation, uint32_t psn)
{
    const struct rc_end_packet *packet = rc_end_peek(e);
    e->first = (e->first + 1) % e->packet_capacity;
    e->count--;
    assert_string_equal(packet->p.facts->name, roce_opcode_facts(ROCE_RC | operation)->name);
    assert_int_equal(packet->p.bth.psn, psn & PSN_MASK);
    return packet;
}

void rc_end_left_ack(struct rc_end *e, uint32_t psn, uint8_t syndrome)
{
    const struct rc_end_packet *packet = rc_end_left(e, ROCE_ACKNOWLEDGE, psn);
    const uint8_t left = packet->p.aeth.syndrome;
    assert_int_equal(aeth_kind(left) == AETH_ACK ? AETH_SYNDROME_ACK : left, syndrome);
}

void rc_end_left_sack(struct rc_end *e, uint32_t psn, uint64_t here)
{
    const struct rc_end_packet *packet = rc_end_left(e, ROCE_ACKNOWLEDGE, psn);
    struct sack sack;
    assert_int_equal(packet->p.aeth.syndrome, aeth_syndrome_nak(AETH_NAK_PSN_SEQUENCE));
    assert_int_equal(sack_parse(packet->p.payload, &sack), SACK_OK);
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_equal(sack_has(&sack, i), here >> i & 1);
    }
}

void rc_end_left_none(const struct rc_end *e)
{
    assert_int_equal(e->count, 0);
}

static void hand_over(struct rc_end *from, struct rc_end *to)
{
    struct rc_end_packet packet = from->packets[from->first];
    from->first = (from->first + 1) % from->packet_capacity;
    from->count--;
    rc_end_take_octets(to, span_of(packet.octets, packet.len));
}

void rc_ends_run(struct rc_end *a, struct rc_end *b)
{
    rc_end_output(a);
    rc_end_output(b);
    while (a->count + b->count > 0) {
        if (a->count > 0) {
            hand_over(a, b);
        }
        if (b->count > 0) {
            hand_over(b, a);
        }
        rc_end_output(a);
        rc_end_output(b);
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

void rc_end_post_receive(struct rc_end *e, uint64_t wr_id, size_t offset, uint32_t len)
{
    struct recv_wqe *wqe = e->srq != NULL ? srq_slot(e->srq, 0) : wq_receive_slot(rc_wq(e->rc), 0);
    assert_non_null(wqe);
    wqe->wr_id = wr_id;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){rc_end_addr(e, offset), len, e->key};
    if (e->srq != NULL) {
        srq_commit(e->srq, 1);
    } else {
        wq_receive_commit(rc_wq(e->rc), 1);
    }
    e->t->ops->on_receive_posted(e->t, e->now);
}

struct send_wqe *rc_end_slot(struct rc_end *e, uint64_t wr_id, enum wqe_opcode opcode)
{
    struct send_wqe *wqe = wq_send_slot(rc_wq(e->rc), 0);
    assert_non_null(wqe);
    memset(wqe, 0, offsetof(struct send_wqe, sge));
    wqe->wr_id = wr_id;
    wqe->opcode = opcode;
    return wqe;
}

void rc_end_commit(struct rc_end *e)
{
    wq_send_commit(rc_wq(e->rc), 1);
    e->t->ops->on_send_posted(e->t, e->now);
    rc_end_output(e);
}

void rc_end_post(struct rc_end *e, uint64_t wr_id, enum wqe_opcode opcode, size_t offset,
                 uint32_t len, uint64_t remote, uint32_t remote_key)
{
    struct send_wqe *wqe = rc_end_slot(e, wr_id, opcode);
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){rc_end_addr(e, offset), len, e->key};
    wqe->length = len;
    wqe->remote_addr = remote;
    wqe->rkey = remote_key;
    rc_end_commit(e);
}

void rc_end_completed(struct cq *cq, uint64_t wr_id, uint32_t status)
{
    struct cqe cqe;
    assert_int_equal(cq_poll(cq, &cqe, 1), 1);
    assert_int_equal(cqe.wr_id, wr_id);
    assert_int_equal(cqe.status, status);
}

void rc_end_completed_none(struct cq *cq)
{
    struct cqe cqe;
    assert_int_equal(cq_poll(cq, &cqe, 1), 0);
}
