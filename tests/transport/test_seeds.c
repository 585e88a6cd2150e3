// Random programs at both ends, one seed: the transport, the options, what is posted, how its
// octets lie, when receives come and when somebody polls. Oracles:
//
//     memory    what a Write left, a Read saw or an atomic did is what the order of posting says; a
//               source is spoilt as soon as its completion is there: who reads it later is seen
//     order     completions come in posting order, each once; messages in the order of their
//               sending (datagrams: in any, each at most once)
//     the end   with a fault, nothing succeeds behind a failure, and all completes
//
//     SEED=7 build/tests/test_transport_seeds     # that one;  SEEDS=20000: so many
#include <stdlib.h>

#include "tests/pages.h"
#include "tests/seeds.h"
#include "tests/transport/transport.h"

enum {
    SEED_COUNT = 600,
    ACTION_COUNT = 250,
    OP_MAX = 16, // posted and not known to be complete; receives likewise
    SLOT_LEN = 1024,
    SLOT_COUNT = 32, // what the peer writes and reads; atomics have the first alone
    TARGET_LEN = SLOT_COUNT * SLOT_LEN,
    LOCAL = TARGET_LEN, // a slot per work request
    RECEIVE = LOCAL + OP_MAX * SLOT_LEN,
    MESSAGE_MAX = 4096,
    INLINE_MAX = 256,
};

struct op {
    enum wqe_opcode opcode;
    bool is_aloud;
    uint32_t len;
    uint8_t expected[SLOT_LEN]; // of a Read or an atomic, in its local slot
};

// A message that takes a receive.
struct sent {
    enum wqe_opcode opcode;
    uint32_t len;
    uint8_t octets[SLOT_LEN];
    bool has_arrived;
};
enum { SENT_LEN = MESSAGE_MAX * sizeof(struct sent) };

struct side {
    struct end *end;
    struct side *peer;
    struct op ops[OP_MAX];
    uint64_t first, next;       // work requests: complete before, posted before
    uint8_t shadow[TARGET_LEN]; // of the peer, once all that was posted is done
    bool is_read[SLOT_COUNT];   // since the last fence
    struct sent *sent;
    uint32_t sent_count, seen_count;      // to the peer, by the peer
    uint64_t receive_first, receive_next; // polled, posted
    bool has_failed;
};

struct run {
    struct world *world;
    struct prng prng;
    bool has_fault;
    struct side sides[2];
};

static const struct test_transport *const transports[] = {
    &transport_direct, &transport_datagram, &transport_lossy, &transport_rc, &transport_stream};

enum { TRANSPORT_COUNT = sizeof transports / sizeof transports[0] };

static bool chance(struct run *r, uint32_t of_1024)
{
    return prng_below(&r->prng, 1024) < of_1024;
}

static bool is_datagram(const struct run *r)
{
    return (r->world->transport->traits & TRAIT_DATAGRAM) != 0;
}

static uint32_t draw_len(struct run *r)
{
    return chance(r, 100) ? 0 : 1 + prng_below(&r->prng, chance(r, 512) ? 64 : SLOT_LEN);
}

static void draw_octets(struct run *r, uint8_t *octets, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        octets[i] = (uint8_t)prng_next(&r->prng);
    }
}

/* ---- posting --------------------------------------------------------------------------------- */

static enum wqe_opcode draw_opcode(struct run *r)
{
    static const enum wqe_opcode opcodes[] = {
        WQE_RDMA_WRITE,           WQE_RDMA_WRITE_WITH_IMM, WQE_SEND,
        WQE_SEND_WITH_IMM,        WQE_RDMA_READ,           WQE_ATOMIC_CMP_AND_SWP,
        WQE_ATOMIC_FETCH_AND_ADD,
    };
    return is_datagram(r) ? WQE_SEND_WITH_IMM : opcodes[prng_below(&r->prng, 7)];
}

static size_t local_of(uint64_t wr_id)
{
    return LOCAL + (wr_id % OP_MAX) * SLOT_LEN;
}

// In as many elements as it comes to.
static void add_list(struct run *r, struct end *end, struct send_wqe *wqe, size_t offset,
                     uint32_t len)
{
    for (unsigned i = 0; i < 7 && len > 0 && chance(r, 600); i++) {
        uint32_t part = prng_below(&r->prng, len + 1);
        end_add_sge(end, wqe, offset, part);
        offset += part;
        len -= part;
    }
    end_add_sge(end, wqe, offset, len);
}

// A Write may overtake the answer to a Read of the same slot, unless it is fenced.
static void fence_if_read(struct side *s, struct send_wqe *wqe, uint32_t slot)
{
    if (s->is_read[slot]) {
        wqe->flags |= WQE_FENCE;
    }
    if ((wqe->flags & WQE_FENCE) != 0) {
        memset(s->is_read, 0, sizeof s->is_read);
    }
}

static void fill_message(struct run *r, struct side *s, struct send_wqe *wqe, struct op *op,
                         const uint8_t *octets)
{
    if (op->opcode == WQE_RDMA_WRITE || op->opcode == WQE_RDMA_WRITE_WITH_IMM) {
        uint32_t slot = 1 + prng_below(&r->prng, SLOT_COUNT - 1);
        size_t at = slot * SLOT_LEN + prng_below(&r->prng, SLOT_LEN - op->len + 1);
        fence_if_read(s, wqe, slot);
        end_set_remote(s->end, wqe, at);
        memcpy(s->shadow + at, octets, op->len);
    }
    if (op->opcode != WQE_RDMA_WRITE) {
        struct sent *sent = &s->sent[s->sent_count];
        *sent = (struct sent){.opcode = op->opcode, .len = op->len};
        memcpy(sent->octets, octets, op->len);
        wqe->imm_or_inv = s->sent_count++;
    }
}

static void fill_read(struct run *r, struct side *s, struct send_wqe *wqe, struct op *op)
{
    uint32_t slot = 1 + prng_below(&r->prng, SLOT_COUNT - 1);
    size_t at = slot * SLOT_LEN + prng_below(&r->prng, SLOT_LEN - op->len + 1);
    fence_if_read(s, wqe, 0);
    s->is_read[slot] = true;
    end_set_remote(s->end, wqe, at);
    memcpy(op->expected, s->shadow + at, op->len);
}

static void fill_atomic(struct run *r, struct side *s, struct send_wqe *wqe, struct op *op)
{
    size_t at = prng_below(&r->prng, SLOT_LEN / 8) * 8UL;
    uint64_t value;
    fence_if_read(s, wqe, 0);
    end_set_remote(s->end, wqe, at);
    memcpy(&value, s->shadow + at, 8);
    memcpy(op->expected, &value, 8);
    op->len = 8;
    wqe->swap = prng_next(&r->prng);
    wqe->compare_add = chance(r, 512) ? value : prng_next(&r->prng);
    if (op->opcode == WQE_ATOMIC_FETCH_AND_ADD) {
        value += wqe->compare_add;
    } else if (value == wqe->compare_add) {
        value = wqe->swap;
    }
    memcpy(s->shadow + at, &value, 8);
}

static void post(struct run *r, struct side *s)
{
    if (s->next - s->first == OP_MAX || s->sent_count == MESSAGE_MAX) {
        return;
    }
    struct op *op = &s->ops[s->next % OP_MAX];
    *op = (struct op){.opcode = draw_opcode(r), .len = draw_len(r)};
    uint32_t flags = (chance(r, 512) ? WQE_SIGNALED : 0) | (chance(r, 100) ? WQE_FENCE : 0);
    op->is_aloud = (flags & WQE_SIGNALED) != 0 || s->end->config.sq_sig_all;
    struct send_wqe *wqe = end_send_slot(s->end, s->next, op->opcode, flags);
    uint8_t octets[SLOT_LEN];
    draw_octets(r, octets, sizeof octets);
    memcpy(s->end->memory + local_of(s->next), octets, sizeof octets);
    bool is_message = false;
    if (op->opcode == WQE_RDMA_READ) {
        fill_read(r, s, wqe, op);
    } else if (op->opcode == WQE_ATOMIC_CMP_AND_SWP || op->opcode == WQE_ATOMIC_FETCH_AND_ADD) {
        fill_atomic(r, s, wqe, op);
    } else {
        fill_message(r, s, wqe, op, octets);
        is_message = true;
    }
    if (is_message && op->len <= INLINE_MAX && chance(r, 300)) {
        end_set_inline(wqe, octets, op->len);
    } else {
        add_list(r, s->end, wqe, local_of(s->next), op->len);
    }
    s->next++;
    end_post(s->end);
}

static void post_receive(struct side *s)
{
    if (s->receive_next - s->receive_first < OP_MAX) {
        size_t at = RECEIVE + (s->receive_next % OP_MAX) * SLOT_LEN;
        end_post_receive(s->end, s->receive_next++, at, SLOT_LEN);
    }
}

/* ---- what has come of it --------------------------------------------------------------------- */

// Its slot is the program's again: whoever still reads it sends nonsense from here on.
static void retire(struct side *s, bool is_success)
{
    const struct op *op = &s->ops[s->first % OP_MAX];
    uint8_t *local = s->end->memory + local_of(s->first);
    bool brings = op->opcode == WQE_RDMA_READ || op->opcode == WQE_ATOMIC_CMP_AND_SWP ||
                  op->opcode == WQE_ATOMIC_FETCH_AND_ADD;
    if (brings && is_success) {
        assert_memory_equal(local, op->expected, op->len);
    }
    memset(local, 0xee, SLOT_LEN);
    s->first++;
}

// Those before `end` are complete, and have not said so.
static void retire_silent(struct side *s, uint64_t end)
{
    while (s->first < end) {
        assert_false(s->ops[s->first % OP_MAX].is_aloud || s->has_failed);
        retire(s, true);
    }
}

static void poll_sends(struct run *r, struct side *s)
{
    struct cqe cqe;
    while (cq_poll(s->end->send_cq, &cqe, 1) == 1) {
        bool is_success = cqe.status == WC_SUCCESS;
        assert_true(is_success || r->has_fault);
        assert_false(is_success && s->has_failed);
        retire_silent(s, cqe.wr_id);
        assert_int_equal(cqe.wr_id, s->first);
        assert_true(s->first < s->next);
        s->has_failed |= !is_success;
        retire(s, is_success);
    }
    retire_silent(s, s->next - wq_send_count(s->end->wq));
}

static const struct sent *sent_of(struct run *r, struct side *from, const struct cqe *cqe)
{
    uint32_t number = is_datagram(r) ? cqe->imm_data : from->seen_count++;
    assert_true(number < from->sent_count);
    struct sent *sent = &from->sent[number];
    assert_false(sent->has_arrived);
    sent->has_arrived = true;
    bool has_imm = sent->opcode != WQE_SEND;
    assert_int_equal(cqe->wc_flags, has_imm ? WC_WITH_IMM : 0);
    assert_true(!has_imm || cqe->imm_data == number);
    return sent;
}

static void expect_message(const struct sent *sent, const struct cqe *cqe, const uint8_t *buffer)
{
    bool is_write = sent->opcode == WQE_RDMA_WRITE_WITH_IMM;
    uint32_t third = SLOT_LEN / 3, first = SLOT_LEN - third;
    assert_int_equal(cqe->opcode, is_write ? WC_RECV_RDMA_WITH_IMM : WC_RECV);
    assert_int_equal(cqe->byte_len, sent->len);
    if (is_write) {
        return;
    }
    uint32_t in_first = sent->len < first ? sent->len : first; // see end_post_receive
    assert_memory_equal(buffer + third, sent->octets, in_first);
    assert_memory_equal(buffer, sent->octets + in_first, sent->len - in_first);
}

static void poll_receives(struct run *r, struct side *s)
{
    struct cqe cqe;
    while (cq_poll(s->end->recv_cq, &cqe, 1) == 1) {
        assert_int_equal(cqe.wr_id, s->receive_first);
        const uint8_t *buffer = s->end->memory + RECEIVE + (s->receive_first++ % OP_MAX) * SLOT_LEN;
        if (cqe.status == WC_SUCCESS) {
            expect_message(sent_of(r, s->peer, &cqe), &cqe, buffer);
        } else {
            assert_true(r->has_fault);
        }
    }
}

static void poll_all(struct run *r)
{
    for (unsigned i = 0; i < 2; i++) {
        poll_sends(r, &r->sides[i]);
        poll_receives(r, &r->sides[i]);
    }
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void begin(struct run *r, uint64_t seed)
{
    prng_init(&r->prng, seed);
    struct world_options options = {
        .has_srq = chance(r, 512),
        .sq_sig_all = chance(r, 200),
        .write_flush = chance(r, 200),
        .allotment_len = chance(r, 512) ? 0 : 50 + prng_below(&r->prng, 500),
        .seed = seed,
    };
    r->world = world_open(transports[seed % TRANSPORT_COUNT], &options);
    r->has_fault = !is_datagram(r) && chance(r, 256);
    for (unsigned i = 0; i < 2; i++) {
        struct side *s = &r->sides[i];
        s->end = &r->world->ends[i];
        s->peer = &r->sides[i ^ 1];
        s->sent = (struct sent *)pages_create(SENT_LEN);
        draw_octets(r, s->shadow, TARGET_LEN);
    }
    for (unsigned i = 0; i < 2; i++) {
        memcpy(r->sides[i].end->memory, r->sides[i ^ 1].shadow, TARGET_LEN);
    }
}

static void run_some(struct run *r, uint32_t count)
{
    for (; count > 0; count--) {
        r->world->transport->step(r->world);
    }
}

static void act(struct run *r)
{
    struct side *s = &r->sides[prng_below(&r->prng, 2)];
    switch (prng_below(&r->prng, 5)) {
    case 0:
    case 1:
        post(r, s);
        break;
    case 2:
        post_receive(s);
        break;
    case 3:
        run_some(r, prng_below(&r->prng, 40));
        break;
    default:
        poll_all(r);
    }
}

// Wrong in one of the ways that end a connection.
static void do_wrong(struct run *r, struct side *s)
{
    if (chance(r, 300)) {
        r->world->transport->give_up(s->end);
        return;
    }
    while (s->next - s->first == OP_MAX) {
        poll_all(r);
        post_receive(s->peer);
        r->world->transport->step(r->world);
    }
    static const enum wqe_opcode opcodes[] = {WQE_RDMA_WRITE, WQE_RDMA_READ,
                                              WQE_ATOMIC_FETCH_AND_ADD};
    enum wqe_opcode opcode = opcodes[prng_below(&r->prng, 3)];
    s->ops[s->next % OP_MAX] = (struct op){.opcode = opcode, .len = 8};
    struct send_wqe *wqe = end_send_slot(s->end, s->next, opcode, 0);
    end_add_sge(s->end, wqe, local_of(s->next++), 8);
    end_set_remote(s->end, wqe, END_MEMORY_LEN - (chance(r, 512) ? 4 : 0));
    wqe->sge[0].lkey ^= chance(r, 200) ? 0x100 : 0;
    end_post(s->end);
}

static bool is_side_done(const struct run *r, const struct side *s)
{
    bool has_arrived = is_datagram(r) || s->seen_count == s->sent_count;
    return wq_send_count(s->end->wq) == 0 && has_arrived;
}

static void finish(struct run *r)
{
    bool is_done = false;
    for (unsigned i = 0; !is_done && !r->has_fault; i++) {
        assert_true(i < 1000);
        run_some(r, 200);
        poll_all(r);
        post_receive(&r->sides[0]);
        post_receive(&r->sides[1]);
        is_done = is_side_done(r, &r->sides[0]) && is_side_done(r, &r->sides[1]);
    }
    for (unsigned i = 0; i < 2 && r->has_fault; i++) {
        r->world->transport->give_up(r->sides[i].end);
    }
    world_run(r->world);
    poll_all(r);
    for (unsigned i = 0; i < 2; i++) {
        struct side *s = &r->sides[i];
        assert_int_equal(wq_send_count(s->end->wq), 0);
        assert_true(s->first == s->next);
        assert_false(wq_reads_from(s->end->wq, s->end->key));
        if (!r->has_fault) {
            assert_memory_equal(s->peer->end->memory, s->shadow, TARGET_LEN);
            assert_true(is_side_done(r, s));
        }
    }
}

static void run_seed(uint64_t seed)
{
    struct run *r = calloc(1, sizeof *r);
    begin(r, seed);
    uint32_t wrong_at = r->has_fault ? prng_below(&r->prng, ACTION_COUNT) : ACTION_COUNT;
    for (uint32_t i = 0; i < ACTION_COUNT; i++) {
        act(r);
        if (i == wrong_at) {
            do_wrong(r, &r->sides[prng_below(&r->prng, 2)]);
        }
    }
    finish(r);
    world_close(r->world);
    pages_destroy((uint8_t *)r->sides[0].sent, SENT_LEN);
    pages_destroy((uint8_t *)r->sides[1].sent, SENT_LEN);
    free(r);
}

int main(void)
{
    return seeds_main("random_programs_keep_memory_and_order", run_seed, SEED_COUNT);
}
