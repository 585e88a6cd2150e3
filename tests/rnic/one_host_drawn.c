#include "tests/rnic/one_host_drawn.h"

#include <stdio.h>
#include <string.h>

#include "base/key_mirror.h"

#define LENGTH(array) ((uint32_t)(sizeof(array) / sizeof *(array)))

enum { OPS_MIN = 40, PAGE_LEN = 4096 };

// While a program is drawn.
struct drawing {
    struct prng *prng;
    struct drawn_program *program;
    bool is_read[DRAWN_SLOT_COUNT]; // since the last fence
    unsigned window_first;          // those before it are invalidated
    unsigned silent_count;          // not signalled, in a row
    bool is_past_stream;            // mostly Reads and Writes that need not go by it
};

static bool chance(struct prng *p, uint32_t of_1024)
{
    return prng_below(p, 1024) < of_1024;
}

uint64_t drawn_atomic(unsigned index)
{
    return (index + 1) * 0x0123456789abcdefULL;
}

bool drawn_takes_receive(const struct drawn_op *op)
{
    return op->opcode == WQE_SEND || op->opcode == WQE_SEND_WITH_IMM ||
           op->opcode == WQE_SEND_WITH_INV || op->opcode == WQE_RDMA_WRITE_WITH_IMM;
}

static bool is_atomic(enum wqe_opcode opcode)
{
    return opcode == WQE_ATOMIC_CMP_AND_SWP || opcode == WQE_ATOMIC_FETCH_AND_ADD;
}

bool drawn_brings(const struct drawn_op *op)
{
    return op->opcode == WQE_RDMA_READ || is_atomic(op->opcode);
}

/* ---- one work request ------------------------------------------------------------------------ */

// Around what changes the way that octets take: a cache line, the longest push.
static uint32_t draw_len(struct prng *p)
{
    static const uint32_t edges[] = {0, 1, 7, 8, 63, 64, 65, 256, 4095, 4096, 4097, DRAWN_SLOT_LEN};
    switch (prng_below(p, 8)) {
    case 0:
        return edges[prng_below(p, LENGTH(edges))];
    case 1:
        return prng_below(p, DRAWN_SLOT_LEN + 1);
    case 2:
    case 3:
        return prng_below(p, PAGE_LEN + 1);
    case 4:
        return prng_below(p, 1025);
    default:
        return prng_below(p, 65);
    }
}

// Where memory is taken back: what is under way then, mostly.
static enum wqe_opcode draw_past_stream(const struct drawing *d, uint32_t *ret_len)
{
    bool is_read = chance(d->prng, 512);
    *ret_len = is_read ? DRAWN_SLOT_LEN : 1 + prng_below(d->prng, PAGE_LEN);
    return is_read ? WQE_RDMA_READ : WQE_RDMA_WRITE;
}

static enum wqe_opcode draw_opcode(const struct drawing *d)
{
    static const enum wqe_opcode opcodes[] = {
        WQE_RDMA_WRITE,
        WQE_RDMA_WRITE,
        WQE_RDMA_WRITE,
        WQE_RDMA_WRITE,
        WQE_RDMA_WRITE_WITH_IMM,
        WQE_SEND,
        WQE_SEND,
        WQE_SEND_WITH_IMM,
        WQE_SEND_WITH_INV,
        WQE_RDMA_READ,
        WQE_RDMA_READ,
        WQE_RDMA_READ,
        WQE_ATOMIC_CMP_AND_SWP,
        WQE_ATOMIC_FETCH_AND_ADD,
    };
    enum wqe_opcode opcode = opcodes[prng_below(d->prng, LENGTH(opcodes))];
    bool has_window = d->window_first < DRAWN_WINDOW_COUNT && chance(d->prng, 256);
    return opcode == WQE_SEND_WITH_INV && !has_window ? WQE_SEND : opcode;
}

// A Write may overtake the answer to a Read of the same slot, and an invalidation that of any,
// unless it is fenced.
static void fence(struct drawing *d, struct drawn_op *op, bool must)
{
    op->flags |= must || chance(d->prng, 60) ? WQE_FENCE : 0;
    if ((op->flags & WQE_FENCE) != 0) {
        memset(d->is_read, 0, sizeof d->is_read);
    }
}

static void draw_place(struct drawing *d, struct drawn_op *op)
{
    uint32_t slot = 1 + prng_below(d->prng, DRAWN_SLOT_COUNT - 1);
    op->at = slot * DRAWN_SLOT_LEN + prng_below(d->prng, DRAWN_SLOT_LEN - op->len + 1);
    if (d->window_first < DRAWN_WINDOW_COUNT && chance(d->prng, 100)) {
        op->window =
            (int)(d->window_first + prng_below(d->prng, DRAWN_WINDOW_COUNT - d->window_first));
    }
    fence(d, op, op->opcode != WQE_RDMA_READ && d->is_read[slot]);
    d->is_read[slot] |= op->opcode == WQE_RDMA_READ;
}

static void draw_read_of_atomic(struct drawing *d, struct drawn_op *op)
{
    unsigned index = prng_below(d->prng, DRAWN_ATOMIC_COUNT);
    op->len = 8;
    op->at = index * 8;
    op->is_of_atomic = true;
    op->original = d->program->atomics[index];
    fence(d, op, false);
    d->is_read[0] = true;
}

static void draw_atomic(struct drawing *d, struct drawn_op *op)
{
    unsigned index = prng_below(d->prng, DRAWN_ATOMIC_COUNT);
    uint64_t *value = &d->program->atomics[index];
    op->len = 8;
    op->at = index * 8;
    op->original = *value;
    op->swap = prng_next(d->prng);
    op->compare_add = chance(d->prng, 512) ? *value : prng_next(d->prng);
    if (op->opcode == WQE_ATOMIC_FETCH_AND_ADD) {
        *value += op->compare_add;
    } else if (*value == op->compare_add) {
        *value = op->swap;
    }
    fence(d, op, d->is_read[0]);
}

static void draw_parts(struct drawing *d, struct drawn_op *op)
{
    uint32_t left = op->len;
    bool may_split = !is_atomic(op->opcode);
    while (may_split && op->part_count < DRAWN_SGE_MAX - 1 && left > 0 && chance(d->prng, 300)) {
        op->parts[op->part_count] = prng_below(d->prng, left + 1);
        left -= op->parts[op->part_count++];
    }
    op->parts[op->part_count++] = left;
}

static void draw_signal(struct drawing *d, struct drawn_op *op, bool is_last)
{
    bool is_aloud = is_last || d->silent_count + 1 >= DRAWN_OPEN_MAX / 2 || chance(d->prng, 512);
    d->silent_count = is_aloud ? 0 : d->silent_count + 1;
    op->flags |= is_aloud ? WQE_SIGNALED : 0;
}

static void draw_op(struct drawing *d, struct drawn_op *op, bool is_last)
{
    *op = (struct drawn_op){.opcode = draw_opcode(d), .len = draw_len(d->prng), .window = -1};
    if (d->is_past_stream && !chance(d->prng, 100)) {
        op->opcode = draw_past_stream(d, &op->len);
    }
    op->immediate = (uint32_t)prng_next(d->prng);
    if (is_atomic(op->opcode)) {
        draw_atomic(d, op);
    } else if (op->opcode == WQE_RDMA_READ && chance(d->prng, 100)) {
        draw_read_of_atomic(d, op);
    } else if (op->opcode == WQE_SEND_WITH_INV) {
        op->window = (int)d->window_first++;
        fence(d, op, true);
    } else if (op->opcode == WQE_SEND || op->opcode == WQE_SEND_WITH_IMM) {
        fence(d, op, false);
    } else {
        draw_place(d, op);
    }
    if (drawn_takes_receive(op)) {
        d->program->message_count++;
        op->flags |= chance(d->prng, 256) ? WQE_SOLICITED : 0;
    }
    if (!drawn_brings(op) && op->len <= DRAWN_INLINE_MAX && chance(d->prng, 300)) {
        op->flags |= WQE_INLINE;
    }
    draw_parts(d, op);
    draw_signal(d, op, is_last);
}

/* ---- a program ------------------------------------------------------------------------------- */

static void draw_program(struct drawn *d, unsigned index, struct prng *p)
{
    struct drawn_program *program = &d->programs[index];
    struct drawing drawing = {.prng = p, .program = program};
    bool has_windows = d->ending != ENDING_WITHDRAWN; // they would keep their memory open
    drawing.is_past_stream = d->ending == ENDING_WITHDRAWN && index != d->culprit;
    drawing.window_first = has_windows ? 0 : DRAWN_WINDOW_COUNT;
    for (unsigned i = 0; i < DRAWN_ATOMIC_COUNT; i++) {
        program->atomics[i] = drawn_atomic(i);
    }
    program->count = OPS_MIN + prng_below(p, DRAWN_OPS_MAX - OPS_MIN);
    for (unsigned i = 1; i <= program->count; i++) {
        draw_op(&drawing, &program->ops[i], i == program->count);
    }
}

// Its last work request.
static void draw_wrong(struct drawn *d, struct drawn_program *program, struct prng *p)
{
    static const enum wqe_opcode opcodes[] = {WQE_RDMA_WRITE, WQE_RDMA_READ,
                                              WQE_ATOMIC_FETCH_AND_ADD};
    struct drawn_op *op = &program->ops[++program->count];
    *op = (struct drawn_op){.opcode = opcodes[prng_below(p, 3)],
                            .flags = WQE_SIGNALED,
                            .len = 8,
                            .is_wrong = true,
                            .window = -1,
                            .parts = {8},
                            .part_count = 1};
    if (d->ending == ENDING_BOUNDS) {
        op->opcode = opcodes[prng_below(p, 2)];
        op->at = DRAWN_TARGET_LEN - 4;
    }
    for (unsigned i = 1; i < program->count && d->ending == ENDING_INVALIDATED; i++) {
        if (program->ops[i].opcode == WQE_SEND_WITH_INV) {
            op->window = program->ops[i].window;
        }
    }
    if (d->ending == ENDING_INVALIDATED && op->window < 0) {
        d->ending = ENDING_WRONG_KEY;
    }
}

static void draw_end(struct drawn_end *e, struct prng *p)
{
    static const uint32_t receive_rates[] = {1024, 512, 100};
    *e = (struct drawn_end){
        .rights = chance(p, 128) ? 0 : KEY_MAY_READ | KEY_MAY_WRITE,
        .is_asleep = chance(p, 512),
        .has_srq = chance(p, 300),
        .sq_sig_all = chance(p, 200),
        .receive_rate = receive_rates[prng_below(p, LENGTH(receive_rates))],
        .burst_max = chance(p, 512) ? 1 : 8,
        .think_us = chance(p, 512) ? 0 : 50,
        .reads = (uint16_t)(1 + prng_below(p, chance(p, 512) ? 16 : 2)),
    };
    if (chance(p, 200)) {
        e->rights = chance(p, 512) ? KEY_MAY_READ : KEY_MAY_WRITE;
    }
}

// Memory is taken back more often than all else: what may go wrong then is a race.
static enum drawn_ending draw_ending(struct prng *p)
{
    if (chance(p, 512)) {
        return ENDING_QUIET;
    }
    return chance(p, 512) ? ENDING_WITHDRAWN : (enum drawn_ending)prng_below(p, ENDING_COUNT);
}

void drawn_init(struct drawn *d, uint64_t seed)
{
    struct prng prng;
    prng_init(&prng, seed);
    memset(d, 0, sizeof *d);
    d->seed = seed;
    d->ring_len = (uint32_t)PAGE_LEN << prng_below(&prng, 8);
    d->crc_within_host = chance(&prng, 128);
    d->write_flush = chance(&prng, 128);
    d->ending = draw_ending(&prng);
    d->culprit = prng_below(&prng, 2);
    d->withdrawn_at = prng_below(&prng, OPS_MIN);
    for (unsigned i = 0; i < 2; i++) {
        draw_end(&d->ends[i], &prng);
        draw_program(d, i, &prng);
    }
    if (d->ending != ENDING_QUIET && d->ending != ENDING_WITHDRAWN) {
        draw_wrong(d, &d->programs[d->culprit], &prng);
    }
}

void drawn_print(const struct drawn *d)
{
    static const char *const endings[ENDING_COUNT] = {"quiet",  "wrong key",   "bounds",
                                                      "rights", "invalidated", "withdrawn"};
    printf("# SEED=%llu ring %u crc %d write_flush %d ending %s by %u\n",
           (unsigned long long)d->seed, d->ring_len, d->crc_within_host, d->write_flush,
           endings[d->ending], d->culprit);
    for (unsigned i = 0; i < 2; i++) {
        const struct drawn_end *e = &d->ends[i];
        printf("#   end %u: ops %u messages %u push %d pull %d asleep %d srq %d sig_all %d "
               "receives %u burst %u think %u reads %u\n",
               i, d->programs[i].count, d->programs[i].message_count,
               (e->rights & KEY_MAY_WRITE) != 0, (e->rights & KEY_MAY_READ) != 0, e->is_asleep,
               e->has_srq, e->sq_sig_all, e->receive_rate, e->burst_max, e->think_us, e->reads);
    }
}
