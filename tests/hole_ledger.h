// TCP's receive side as a test needs it, written the plain way: a state per octet. Segments of a
// stream that is known as a whole arrive in any order, the port places them, and hears of holes
// that close. It shares nothing with tcp/, so that both can be compared.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/port_place.h"

enum ledger_state { LEDGER_MISSING, LEDGER_PLACED, LEDGER_BUFFERED };

struct ledger {
    struct place_port port;
    uint64_t base; // position of octets[0]
    uint8_t *octets;
    uint8_t *state;              // enum ledger_state, per octet
    struct place_counts *counts; // at the first octet of what was placed
    size_t len;
    size_t handed; // octets handed up
    bool is_stalled;
    unsigned placed_early, buffered, dropped, advances;
    struct place_counts released; // all that on_advance was told
};

static inline void ledger_init(struct ledger *l, struct place_port port, uint64_t base,
                               const uint8_t *stream, size_t len)
{
    *l = (struct ledger){.port = port, .base = base, .len = len};
    l->octets = malloc(len);
    memcpy(l->octets, stream, len);
    l->state = calloc(1, len);
    l->counts = calloc(len, sizeof l->counts[0]);
}

static inline void ledger_fini(struct ledger *l)
{
    free(l->octets);
    free(l->state);
    free(l->counts);
}

static inline size_t ledger_run(const struct ledger *l, size_t from, enum ledger_state state)
{
    size_t end = from;
    while (end < l->len && l->state[end] == state) {
        end++;
    }
    return end;
}

// An allocation of just the offered length, so that a sanitizer sees what is read beyond it.
static inline enum place_verdict ledger_offer(struct ledger *l, size_t at, struct span octets,
                                              enum place_order order, bool is_start, bool is_end,
                                              struct place_answer *answer)
{
    uint8_t *exact = malloc(octets.len);
    memcpy(exact, octets.ptr, octets.len);
    struct place_offer offer = {l->base + at, span_of(exact, octets.len), order, is_start, is_end};
    *answer = (struct place_answer){.len = octets.len};
    enum place_verdict verdict = l->port.place(l->port.ctx, &offer, answer);
    assert_true(answer->len <= octets.len);
    assert_true(answer->len > 0);
    free(exact);
    return verdict;
}

static inline bool ledger_hand_up_placed(struct ledger *l)
{
    struct place_counts sum = {0};
    size_t end = ledger_run(l, l->handed, LEDGER_PLACED);
    for (size_t i = l->handed; i < end; i++) {
        place_counts_add(&sum, &l->counts[i]);
    }
    if (!l->port.on_advance(l->port.ctx, l->base + l->handed, l->base + end, &sum)) {
        return false;
    }
    place_counts_add(&l->released, &sum);
    l->advances++;
    l->handed = end;
    return true;
}

static inline bool ledger_hand_up_buffered(struct ledger *l)
{
    struct place_answer answer;
    size_t end = ledger_run(l, l->handed, LEDGER_BUFFERED);
    enum place_verdict verdict =
        ledger_offer(l, l->handed, span_of(l->octets + l->handed, end - l->handed),
                     PLACE_FROM_BUFFER, false, false, &answer);
    assert_int_not_equal(verdict, PLACE_DROP);
    l->handed += verdict == PLACE_PLACED ? answer.len : 0;
    return verdict == PLACE_PLACED;
}

static inline void ledger_hand_up(struct ledger *l)
{
    while (!l->is_stalled && l->handed < l->len && l->state[l->handed] != LEDGER_MISSING) {
        bool is_placed = l->state[l->handed] == LEDGER_PLACED;
        l->is_stalled = is_placed ? !ledger_hand_up_placed(l) : !ledger_hand_up_buffered(l);
    }
}

static inline void ledger_resume(struct ledger *l)
{
    l->is_stalled = false;
    ledger_hand_up(l);
}

static inline void ledger_set(struct ledger *l, size_t at, const uint8_t *octets, size_t len,
                              enum ledger_state state)
{
    memcpy(l->octets + at, octets, len);
    memset(l->state + at, state, len);
}

static inline bool ledger_has_hole_before(const struct ledger *l, size_t at)
{
    return memchr(l->state + l->handed, LEDGER_MISSING, at - l->handed) != NULL;
}

// A piece of a segment, of which nothing is there yet. Returns how many octets this was about.
static inline size_t ledger_new(struct ledger *l, size_t at, struct span octets, bool is_start,
                                bool is_end)
{
    struct place_answer answer = {0};
    bool is_in_order = at == l->handed;
    if (l->is_stalled && !ledger_has_hole_before(l, at)) {
        ledger_set(l, at, octets.ptr, octets.len, LEDGER_BUFFERED);
        return octets.len;
    }
    enum place_verdict verdict = ledger_offer(
        l, at, octets, is_in_order ? PLACE_IN_ORDER : PLACE_BEYOND_HOLE, is_start, is_end, &answer);
    if (verdict == PLACE_DROP) {
        assert_false(is_in_order);
        l->dropped++;
        return answer.len;
    }
    if (verdict == PLACE_BUFFER) {
        ledger_set(l, at, octets.ptr, answer.len, LEDGER_BUFFERED);
        l->is_stalled |= is_in_order;
        l->buffered += !is_in_order;
        return answer.len;
    }
    ledger_set(l, at, octets.ptr, answer.len, LEDGER_PLACED);
    if (is_in_order) {
        l->handed += answer.len;
    } else {
        l->counts[at] = answer.counts;
        l->placed_early++;
    }
    return answer.len;
}

// A segment with these octets, which may be other ones than the stream has there.
static inline void ledger_arrive_octets(struct ledger *l, size_t at, const uint8_t *octets,
                                        size_t len)
{
    for (size_t i = 0; i < len;) {
        if (at + i < l->handed || l->state[at + i] != LEDGER_MISSING) {
            i++;
            continue;
        }
        size_t end = ledger_run(l, at + i, LEDGER_MISSING) - at;
        end = end < len ? end : len;
        i += ledger_new(l, at + i, span_of(octets + i, end - i), i == 0, end == len);
        ledger_hand_up(l);
    }
}

static inline void ledger_arrive(struct ledger *l, size_t at, size_t len)
{
    uint8_t *copy = malloc(len);
    memcpy(copy, l->octets + at, len);
    ledger_arrive_octets(l, at, copy, len);
    free(copy);
}
