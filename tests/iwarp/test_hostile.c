// A peer that breaks the rules in every way a few random octets can: the queue pair under test may
// refuse, but writes nowhere but where it opened memory to that operation, and gives everything
// back. SEED=n replays one connection.
#include <stdlib.h>

#include "base/prng.h"
#include "tests/iwarp/pair.h"
#include "tests/seeds.h"

enum {
    RUN_COUNT = 3000,
    STEP_COUNT = 60,
    LEN_MAX = 700,
    // The memory of the victim, in quarters.
    PRIVATE_AT = 0,            // registered, no remote rights
    OPEN_AT = 1 << 16,         // remote rights
    RECEIVE_AT = 2 << 16,      // receives and read sinks
    UNREGISTERED_AT = 3 << 16, // not registered at all
    QUARTER_LEN = 1 << 16,
};

struct run {
    struct prng prng;
    struct pair *p;
    struct end *victim;
    uint32_t open_stag, local_stag;
    bool is_over;
};

static uint32_t below(struct run *r, uint32_t bound)
{
    return prng_below(&r->prng, bound);
}

static uint32_t open_region(struct end *e, size_t at, uint32_t access)
{
    uint32_t stag;
    assert_int_equal(mem_region_register(e->mem, e->pd, e->memory + at, QUARTER_LEN,
                                         (uintptr_t)e->memory + at, access, &stag),
                     0);
    return stag;
}

static void open_victim(struct run *r)
{
    static const uint32_t mulpdus[] = {128, 300, 65535};
    struct pair_options options = {
        .mulpdu = mulpdus[below(r, 3)],
        .weft = below(r, 2) == 0,
        .srq_wr = below(r, 2) == 0 ? 8 : 0,
        .rtr = (uint8_t)(below(r, 2) == 0 ? QP_RTR_SEND : 0),
        .config = {.rnr_store_len = 2000},
    };
    r->p = pair_open(&options);
    r->victim = &r->p->b;
    pair_fill(r->victim, PRIVATE_AT, QUARTER_LEN, 1);
    pair_fill(r->victim, UNREGISTERED_AT, QUARTER_LEN, 2);
    assert_int_equal(mem_region_deregister(r->victim->mem, r->victim->stag), 0);
    open_region(r->victim, PRIVATE_AT, MEM_ACCESS_LOCAL_WRITE);
    r->open_stag = open_region(r->victim, OPEN_AT, MEM_ACCESS_ALL & ~MEM_ACCESS_ZERO_BASED);
    r->local_stag = open_region(r->victim, RECEIVE_AT, MEM_ACCESS_LOCAL_WRITE);
}

// The victim works too: receives, and reads whose responses the peer may spoil.
static void victim_works(struct run *r)
{
    struct end *v = r->victim;
    uint32_t at = below(r, QUARTER_LEN - LEN_MAX);
    if (below(r, 2) == 0) {
        if (v->srq != NULL ? srq_slot(v->srq, 0) != NULL
                           : wq_receive_slot(qp_wq(v->qp), 0) != NULL) {
            v->stag = r->local_stag;
            pair_post_receive(r->p, v, 1, RECEIVE_AT + at, below(r, LEN_MAX));
        }
    } else if (wq_send_slot(qp_wq(v->qp), 0) != NULL) {
        v->stag = r->local_stag;
        pair_post_op(r->p, v, 2, below(r, 3) == 0 ? WQE_ATOMIC_FETCH_AND_ADD : WQE_RDMA_READ,
                     WQE_SIGNALED, RECEIVE_AT + at, 8 + below(r, LEN_MAX), at & ~7U);
    }
}

static void peer_works(struct run *r)
{
    static const enum wqe_opcode opcodes[] = {WQE_RDMA_WRITE, WQE_RDMA_WRITE_WITH_IMM,
                                              WQE_SEND,       WQE_RDMA_READ,
                                              WQE_SEND,       WQE_ATOMIC_CMP_AND_SWP};
    if (wq_send_slot(qp_wq(r->p->a.qp), 0) == NULL) {
        return;
    }
    r->victim->stag = r->open_stag;
    uint32_t at = below(r, QUARTER_LEN - LEN_MAX) & ~7U;
    pair_post_op(r->p, &r->p->a, 3, opcodes[below(r, 6)], 0, at, 8 + below(r, LEN_MAX - 8),
                 OPEN_AT + at);
}

static void spoil(struct run *r, uint8_t *octets, size_t *len)
{
    static const uint8_t values[] = {0, 1, 0x40, 0x43, 0x47, 0x4a, 0x7f, 0x80, 0xc1, 0xff};
    uint32_t header_len = *len < 70 ? (uint32_t)*len : 70;
    switch (below(r, 5)) {
    case 0: // one bit
        octets[below(r, header_len)] ^= (uint8_t)(1U << below(r, 8));
        break;
    case 1: // one octet
        octets[below(r, header_len)] = values[below(r, sizeof values)];
        break;
    case 2: // an end that comes early
        *len = below(r, (uint32_t)*len + 1);
        break;
    case 3: // octets that do not belong there
        *len += 1 + below(r, 64);
        break;
    default: // another opcode
        octets[DDP_OFF_RSVDULP] = rdmap_control_emit((enum rdmap_opcode)below(r, 16));
        break;
    }
}

static void deliver_spoiled(struct run *r)
{
    struct end *a = &r->p->a;
    while (pair_hand(r->p, a)) {
    }
    if (a->stream.count == 0) {
        return;
    }
    const struct unit *u = a->stream.units[a->stream.head];
    uint8_t *octets = calloc(1, u->len + 128);
    size_t len = u->len;
    memcpy(octets, u->octets, u->len);
    uint32_t choice = below(r, 10);
    if (choice == 0) {
        spoil(r, octets, &len);
    }
    enum ulpdu_answer answer = pair_inject(r->p, r->victim, octets, len);
    if (choice == 1 && answer == ULPDU_TAKEN) {
        answer = pair_inject(r->p, r->victim, octets, len); // twice
    }
    r->is_over = answer == ULPDU_STOP;
    free(octets);
    if (answer != ULPDU_STALL) {
        struct unit_queue *q = &a->stream;
        free(q->units[q->head]->octets);
        free(q->units[q->head]);
        q->head = (q->head + 1) % PAIR_UNIT_MAX;
        q->count--;
    }
}

static void step(struct run *r)
{
    struct pair *p = r->p;
    switch (below(r, 5)) {
    case 0:
        victim_works(r);
        break;
    case 1:
        peer_works(r);
        break;
    case 2:
        pair_output(p, r->victim);
        while (pair_hand(p, r->victim) && pair_deliver(p, r->victim)) {
        }
        break;
    default:
        pair_output(p, &p->a);
        deliver_spoiled(r);
        break;
    }
}

static void run_seed(uint64_t seed)
{
    struct run r = {0};
    prng_init(&r.prng, seed);
    open_victim(&r);
    for (unsigned i = 0; i < STEP_COUNT && !r.is_over; i++) {
        step(&r);
    }
    struct end *v = r.victim;
    pair_expect_filled(v, PRIVATE_AT, QUARTER_LEN, 1);
    pair_expect_filled(v, UNREGISTERED_AT, QUARTER_LEN, 2);
    if (r.is_over) {
        bool abort;
        pair_output(r.p, v);
        while (pair_hand(r.p, v)) {
        }
        assert_true(qp_wants_close(v->qp, &abort));
    }
    pair_drop_batch(v);
    qp_on_llp_closed(v->qp, QP_CLOSE_RESET, r.p->now);
    assert_int_equal(qp_query(v->qp).sq_count, 0);
    assert_int_equal(qp_query(v->qp).reads_outstanding, 0);
    pair_close(r.p);
}

int main(void)
{
    return seeds_main("no_octet_lands_where_it_may_not", run_seed, RUN_COUNT);
}
