// Random work on both ends, random steps of the transport, one seed. Every range is used once, so
// what must be where is known; memory is scribbled over as soon as its completion allows it.
// Oracles: contents, order and number of completions, nothing left over. SEED=n replays one run.
#include <stdlib.h>

#include "base/prng.h"
#include "tests/iwarp/pair.h"
#include "tests/seeds.h"

enum {
    RUN_COUNT = 400,
    STEP_COUNT = 500,
    OP_MAX = 512,
    LEN_MAX = 2000,
    COUNTER_OFFSET = 0, // the word that atomics count in
    FIRST_OFFSET = 64,
};

struct op {
    enum wqe_opcode opcode;
    bool is_signalled;
    size_t local, remote; // ranges of len octets; remote of a Send: nothing
    uint32_t len;
    uint8_t seed;
    uint32_t atomic_number; // how many atomics were posted before
};

struct message { // what the k-th receive must find
    uint32_t len;
    uint8_t seed;
    bool has_immediate, is_write;
    uint32_t immediate;
};

struct side {
    struct end *end;
    size_t used; // octets of its memory
    struct op ops[OP_MAX];
    unsigned op_count, op_seen; // posted; up to which one the CQ has spoken
    struct message messages[OP_MAX];
    size_t receives[OP_MAX];
    unsigned message_count, receive_count, receive_seen;
    uint32_t atomic_count;
};

struct run {
    struct prng prng;
    struct pair *p;
    struct side side[2];
    bool is_weft, is_over; // is_over: the streams were ended, flushes are due
};

static bool chance(struct run *r, unsigned percent)
{
    return prng_below(&r->prng, 100) < percent;
}

// A range of the side's memory that nothing else uses; false: no more room.
static bool take_range(struct side *s, uint32_t len, size_t *ret)
{
    if (s->used + len + 8 > PAIR_MEMORY_LEN) {
        return false;
    }
    *ret = s->used;
    s->used += (len + 7) / 8 * 8;
    return true;
}

static void add_list(struct run *r, struct side *s, struct send_wqe *wqe, size_t at, uint32_t len)
{
    uint32_t left = len;
    while (left > 0 && wqe->sge_count < 6) {
        uint32_t part = prng_below(&r->prng, left + 1);
        pair_set_sge(s->end, wqe, at, part);
        at += part;
        left -= part;
    }
    if (left > 0) {
        pair_set_sge(s->end, wqe, at, left);
    }
}

static bool is_send(enum wqe_opcode opcode)
{
    return opcode == WQE_SEND || opcode == WQE_SEND_WITH_IMM;
}

static void expect_message(struct side *to, const struct op *op, uint32_t immediate)
{
    to->messages[to->message_count++] = (struct message){
        .len = op->len,
        .seed = op->seed,
        .has_immediate = op->opcode == WQE_SEND_WITH_IMM || op->opcode == WQE_RDMA_WRITE_WITH_IMM,
        .is_write = op->opcode == WQE_RDMA_WRITE_WITH_IMM,
        .immediate = immediate,
    };
}

static void post(struct run *r, struct side *s, struct side *to)
{
    static const enum wqe_opcode opcodes[] = {
        WQE_RDMA_WRITE, WQE_RDMA_WRITE_WITH_IMM,  WQE_SEND, WQE_RDMA_READ,
        WQE_RDMA_READ,  WQE_ATOMIC_FETCH_AND_ADD, WQE_SEND, WQE_SEND_WITH_IMM,
    };
    struct op *op = &s->ops[s->op_count];
    enum wqe_opcode opcode = opcodes[prng_below(&r->prng, r->is_weft ? 8 : 7)];
    bool is_atomic = opcode == WQE_ATOMIC_FETCH_AND_ADD;
    uint32_t len = is_atomic ? 8 : chance(r, 10) ? 0 : prng_below(&r->prng, LEN_MAX);
    if (s->op_count == OP_MAX || to->message_count == OP_MAX ||
        wq_send_slot(qp_wq(s->end->qp), 0) == NULL || !take_range(s, len, &op->local) ||
        !take_range(to, len, &op->remote)) {
        return;
    }
    op->opcode = opcode;
    op->len = len;
    op->seed = (uint8_t)prng_next(&r->prng);
    op->is_signalled = r->p->options.config.wq.sq_sig_all || chance(r, 60);
    op->atomic_number = s->atomic_count;
    s->atomic_count += is_atomic;
    uint32_t flags = (op->is_signalled ? WQE_SIGNALED : 0) | (chance(r, 10) ? WQE_FENCE : 0);
    pair_fill(opcode == WQE_RDMA_READ ? to->end : s->end,
              opcode == WQE_RDMA_READ ? op->remote : op->local, len, op->seed);
    struct send_wqe *wqe = pair_send_slot(s->end, s->op_count, opcode, flags);
    wqe->imm_or_inv = (uint32_t)prng_next(&r->prng);
    pair_set_remote(r->p, s->end, wqe, is_atomic ? COUNTER_OFFSET : op->remote);
    wqe->compare_add = 1;
    add_list(r, s, wqe, op->local, len);
    s->op_count++;
    if (is_send(opcode) || opcode == WQE_RDMA_WRITE_WITH_IMM) {
        expect_message(to, op, wqe->imm_or_inv);
    }
    pair_post(r->p, s->end);
}

static void post_receive(struct run *r, struct side *s)
{
    size_t at;
    void *slot = s->end->srq != NULL ? (void *)srq_slot(s->end->srq, 0)
                                     : (void *)wq_receive_slot(qp_wq(s->end->qp), 0);
    if (slot == NULL || s->receive_count == OP_MAX || !take_range(s, LEN_MAX, &at)) {
        return;
    }
    s->receives[s->receive_count] = at;
    pair_post_receive(r->p, s->end, s->receive_count++, at, LEN_MAX);
}

// The memory of a completed work request is the program's again: whoever reads it now is wrong.
static void reuse(struct side *s, const struct op *op)
{
    if (op->opcode == WQE_RDMA_READ) {
        pair_expect_filled(s->end, op->local, op->len, op->seed);
    }
    if (op->opcode == WQE_ATOMIC_FETCH_AND_ADD) {
        uint64_t original;
        memcpy(&original, s->end->memory + op->local, sizeof original);
        assert_int_equal(original, op->atomic_number);
    }
    memset(s->end->memory + op->local, 0xee, op->len);
}

static void poll_sends(struct run *r, struct side *s)
{
    struct cqe cqe;
    while (cq_poll(s->end->send_cq, &cqe, 1) == 1) {
        assert_true(cqe.status == WC_SUCCESS || (r->is_over && cqe.status == WC_WR_FLUSH_ERR));
        // Only unsignalled ones may have been passed over, and each completes once.
        assert_true(cqe.wr_id >= s->op_seen && cqe.wr_id < s->op_count);
        for (; s->op_seen < cqe.wr_id; s->op_seen++) {
            assert_false(s->ops[s->op_seen].is_signalled);
            reuse(s, &s->ops[s->op_seen]);
        }
        if (cqe.status == WC_SUCCESS) {
            assert_true(s->ops[cqe.wr_id].is_signalled);
            reuse(s, &s->ops[cqe.wr_id]);
        }
        s->op_seen++;
    }
}

static void poll_receives(struct run *r, struct side *s)
{
    struct cqe cqe;
    while (cq_poll(s->end->recv_cq, &cqe, 1) == 1) {
        assert_int_equal(cqe.wr_id, s->receive_seen);
        if (cqe.status != WC_SUCCESS) {
            assert_true(r->is_over && cqe.status == WC_WR_FLUSH_ERR);
            s->receive_seen++;
            continue;
        }
        const struct message *m = &s->messages[s->receive_seen];
        assert_true(s->receive_seen < s->message_count);
        assert_int_equal(cqe.byte_len, m->len);
        assert_int_equal(cqe.opcode, m->is_write ? WC_RECV_RDMA_WITH_IMM : WC_RECV);
        assert_int_equal(cqe.wc_flags, m->has_immediate ? WC_WITH_IMM : 0);
        if (m->has_immediate) {
            assert_int_equal(cqe.imm_data, m->immediate);
        }
        if (!m->is_write) {
            pair_expect_filled(s->end, s->receives[s->receive_seen], m->len, m->seed);
        }
        s->receive_seen++;
    }
}

static void poll_all(struct run *r)
{
    for (int i = 0; i < 2; i++) {
        poll_receives(r, &r->side[i]);
        poll_sends(r, &r->side[i]);
    }
}

static void step(struct run *r)
{
    struct side *s = &r->side[prng_below(&r->prng, 2)];
    struct side *other = s == &r->side[0] ? &r->side[1] : &r->side[0];
    r->p->now += prng_below(&r->prng, 100);
    switch (prng_below(&r->prng, 8)) {
    case 0:
    case 1:
        post(r, s, other);
        break;
    case 2:
        post_receive(r, s);
        break;
    case 3:
        pair_output(r->p, s->end);
        break;
    case 4:
    case 5:
        pair_hand(r->p, s->end);
        break;
    default:
        pair_deliver(r->p, s->end);
        break;
    }
    if (chance(r, 20)) {
        poll_all(r);
    }
}

static struct pair_options draw_options(struct run *r)
{
    static const uint32_t mulpdus[] = {128, 200, 1442, 65535};
    r->is_weft = chance(r, 50);
    return (struct pair_options){
        .mulpdu = mulpdus[prng_below(&r->prng, 4)],
        .srq_wr = chance(r, 30) ? 16 : 0,
        .read_contexts = chance(r, 30) ? 1 + prng_below(&r->prng, 3) : 0,
        .weft = r->is_weft,
        .rtr = (uint8_t)(chance(r, 50) ? 1U << prng_below(&r->prng, 3) : 0),
        .stream = {.ird = 4, .ord = (uint16_t)(1 + prng_below(&r->prng, 4))},
        .config =
            {
                .wq = {.write_flush = chance(r, 30),
                       .sq_sig_all = chance(r, 30),
                       .caps = {.max_send_wr = 1U << prng_below(&r->prng, 7), .max_recv_wr = 16}},
                .tx_copy = chance(r, 30),
                .rnr_store_len = chance(r, 50) ? 3000 : 65536,
            },
    };
}

// Everything that was posted comes to its end.
static void drain(struct run *r)
{
    struct side *a = &r->side[0], *b = &r->side[1];
    for (unsigned i = 0; i < 2 * OP_MAX; i++) {
        pair_run(r->p);
        poll_all(r);
        for (int k = 0; k < 2; k++) {
            struct side *s = &r->side[k];
            if (s->receive_count < s->message_count) {
                post_receive(r, s);
            }
        }
    }
    // A range may have run out before the last receives; then the messages wait in the store.
    bool is_fed = a->receive_count >= a->message_count && b->receive_count >= b->message_count;
    if (!is_fed) {
        return;
    }
    uint64_t counted[2];
    for (int k = 0; k < 2; k++) {
        struct side *s = &r->side[k];
        assert_int_equal(s->receive_seen, s->message_count);
        assert_int_equal(qp_query(s->end->qp).sq_count, 0);
        for (; s->op_seen < s->op_count; s->op_seen++) {
            assert_false(s->ops[s->op_seen].is_signalled);
        }
        memcpy(&counted[k], s->end->memory + COUNTER_OFFSET, sizeof counted[k]);
    }
    assert_int_equal(counted[0], b->atomic_count);
    assert_int_equal(counted[1], a->atomic_count);
    for (int k = 0; k < 2; k++) {
        const struct side *s = &r->side[k], *to = &r->side[1 - k];
        for (unsigned i = 0; i < s->op_count; i++) {
            const struct op *op = &s->ops[i];
            if (op->opcode == WQE_RDMA_WRITE || op->opcode == WQE_RDMA_WRITE_WITH_IMM) {
                pair_expect_filled(to->end, op->remote, op->len, op->seed);
            }
        }
    }
}

// The stream ends somewhere in the middle: what is not complete is flushed, aloud, once.
static void cut(struct run *r)
{
    poll_all(r);
    r->is_over = true;
    for (int k = 0; k < 2; k++) {
        struct side *s = &r->side[k];
        pair_drop_batch(s->end);
        if (chance(r, 50)) {
            assert_int_equal(qp_modify(s->end->qp, QP_ERR, r->p->now), 0);
        }
        qp_on_llp_closed(s->end->qp, QP_CLOSE_RESET, r->p->now);
        poll_all(r);
        for (; s->op_seen < s->op_count; s->op_seen++) {
            assert_false(s->ops[s->op_seen].is_signalled);
        }
        if (s->end->srq == NULL) {
            assert_int_equal(s->receive_seen, s->receive_count);
        }
        assert_int_equal(qp_query(s->end->qp).sq_count, 0);
    }
}

static void run_seed(uint64_t seed)
{
    static struct run r;
    memset(&r, 0, sizeof r);
    prng_init(&r.prng, seed);
    struct pair_options options = draw_options(&r);
    r.p = pair_open(&options);
    r.side[0].end = &r.p->a;
    r.side[1].end = &r.p->b;
    for (int k = 0; k < 2; k++) {
        r.side[k].used = FIRST_OFFSET;
        r.side[k].end->room = 1 + prng_below(&r.prng, 20);
    }
    for (unsigned i = 0; i < STEP_COUNT; i++) {
        step(&r);
    }
    if (chance(&r, 30)) {
        cut(&r);
    } else {
        drain(&r);
    }
    pair_close(r.p);
}

int main(void)
{
    return seeds_main("random_work_ends_as_it_must", run_seed, RUN_COUNT);
}
