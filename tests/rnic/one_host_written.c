#include "tests/rnic/one_host_written.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum {
    ATOMICS_END = DRAWN_ATOMIC_COUNT * sizeof(uint64_t),
    PROBE_MAX = 2 * DRAWN_OPEN_MAX, // work requests behind those that are known to be over
};

void written_init(struct written *w, uint8_t *target, const struct drawn_program *program)
{
    *w = (struct written){.target = target, .program = program, .settled_end = 1};
    for (uint32_t at = 0; at < DRAWN_TARGET_LEN; at++) {
        target[at] = drawn_octet(0, at);
    }
    for (unsigned i = 0; i < DRAWN_ATOMIC_COUNT; i++) {
        uint64_t value = drawn_atomic(i);
        memcpy(target + sizeof value * i, &value, sizeof value);
    }
}

static unsigned number_at(const struct written *w, uint32_t at)
{
    return drawn_number(((const volatile uint8_t *)w->target)[at], at);
}

// Is what lies there of this work request, or of a later one?
static bool is_there(const struct written *w, uint32_t at, unsigned number)
{
    unsigned found = number_at(w, at);
    return found == number || (found > number && found <= w->program->count &&
                               drawn_covers(&w->program->ops[found], at));
}

static void expect_there(const struct written *w, uint32_t at, unsigned number, const char *when)
{
    if (!is_there(w, at, number)) {
        fail_msg("%s: the octet at %u is of work request %u, not of %u or a later one", when, at,
                 number_at(w, at), number);
    }
}

static void expect_settled(const struct written *w, uint32_t begin, uint32_t end, const char *when)
{
    for (uint32_t at = begin; at < end; at++) {
        expect_there(w, at, w->settled[at], when);
    }
}

void written_settle(struct written *w, unsigned end, const char *when)
{
    for (unsigned n = w->settled_end; n < end; n++) {
        const struct drawn_op *op = &w->program->ops[n];
        for (uint32_t at = op->at; drawn_covers(op, at); at++) {
            w->settled[at] = (uint8_t)n;
        }
    }
    unsigned begin = w->settled_end;
    w->settled_end = end;
    for (unsigned n = begin; n < end; n++) {
        const struct drawn_op *op = &w->program->ops[n];
        if (op->len > 0 && drawn_covers(op, op->at)) {
            expect_settled(w, op->at, op->at + op->len, when);
        }
    }
}

static void expect_before(const struct written *w, unsigned last)
{
    for (unsigned n = w->settled_end; n <= last; n++) {
        const struct drawn_op *op = &w->program->ops[n];
        for (uint32_t at = op->at; drawn_covers(op, at); at++) {
            expect_there(w, at, n, "behind the last octet of a Write");
        }
    }
}

void written_probe(const struct written *w)
{
    unsigned end = w->settled_end + PROBE_MAX;
    end = end <= w->program->count ? end : w->program->count + 1;
    for (unsigned n = end - 1; n >= w->settled_end; n--) {
        const struct drawn_op *op = &w->program->ops[n];
        uint32_t last = op->at + op->len - 1;
        if (op->len > 0 && drawn_covers(op, last) && number_at(w, last) == n) {
            atomic_thread_fence(memory_order_acquire);
            expect_before(w, n);
            return;
        }
    }
}

void written_expect_all(const struct written *w)
{
    for (uint32_t at = ATOMICS_END; at < DRAWN_SLOT_LEN; at++) {
        assert_int_equal(number_at(w, at), 0);
    }
    expect_settled(w, DRAWN_SLOT_LEN, DRAWN_TARGET_LEN, "at the end");
}

void written_expect_done(struct written *w)
{
    written_settle(w, w->program->count + 1, "at the end");
    assert_memory_equal(w->target, w->program->atomics, ATOMICS_END);
}
