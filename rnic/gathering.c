#include "rnic/gathering.h"

static unsigned value_of(const atomic_uint *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void set_value(atomic_uint *value, unsigned to)
{
    atomic_store_explicit(value, to, memory_order_relaxed);
}

static void set_flag(atomic_bool *flag, bool to)
{
    atomic_store_explicit(flag, to, memory_order_relaxed);
}

static bool has_flag(const atomic_bool *flag)
{
    return atomic_load_explicit(flag, memory_order_relaxed);
}

static void set_instant(_Atomic instant_ns *at, instant_ns to)
{
    atomic_store_explicit(at, to, memory_order_relaxed);
}

static instant_ns instant_of(const _Atomic instant_ns *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

void gathering_init(struct gathering *g)
{
    set_value(&g->trusted_from, GATHERING_TRUST_MIN);
}

static bool is_trusted(const struct gathering *g)
{
    return value_of(&g->soon_count) >= value_of(&g->trusted_from);
}

static void note_soon(struct gathering *g)
{
    const unsigned count = value_of(&g->soon_count) + 1, from = value_of(&g->trusted_from);
    set_value(&g->soon_count, count);
    if (count % GATHERING_FORGIVEN == 0 && from > GATHERING_TRUST_MIN) {
        set_value(&g->trusted_from, from / 2);
    }
}

static void note_late(struct gathering *g)
{
    const unsigned from = value_of(&g->trusted_from);
    set_value(&g->soon_count, 0);
    if (has_flag(&g->has_waiting) && from < GATHERING_TRUST_MAX) {
        set_value(&g->trusted_from, 2 * from);
    }
}

// The program is back, behind a post.
static void note_return(struct gathering *g, instant_ns now)
{
    if (instant_of(&g->left_at_ns) == 0) {
        return; // which was not timed
    }
    if (now <= instant_after(instant_of(&g->left_at_ns), GATHERING_SOON_NS)) {
        note_soon(g);
    } else {
        note_late(g);
    }
}

/* ---- posts ----------------------------------------------------------------------------------- */

static bool is_first_of_round(const struct gathering *g, struct gathering_queue *queue)
{
    const unsigned round = value_of(&g->round) + 1; // never 0, a queue pair's that has not posted
    const bool is_first = value_of(&queue->round) != round;
    set_value(&queue->round, round);
    return is_first;
}

bool gathering_begins(struct gathering *g, struct gathering_queue *queue)
{
    if (value_of(&g->post_count) > 0) {
        return false;
    }
    set_value(&g->post_count, 1);
    set_instant(&g->left_at_ns, 0);
    is_first_of_round(g, queue);
    set_value(&queue->count, 0);
    return true;
}

static bool has_waited_enough(struct gathering_queue *queue, instant_ns now)
{
    const unsigned count = value_of(&queue->count);
    if (count == 0) {
        set_instant(&queue->since_ns, now);
    }
    set_value(&queue->count, count + 1);
    return count >= GATHERING_COUNT_MAX ||
           now > instant_after(instant_of(&queue->since_ns), GATHERING_WAIT_MAX_NS);
}

bool gathering_may_wait(struct gathering *g, struct gathering_queue *queue, instant_ns now)
{
    note_return(g, now);
    set_value(&g->post_count, 2);
    if (is_first_of_round(g, queue) || !is_trusted(g) || has_waited_enough(queue, now)) {
        set_value(&queue->count, 0);
        return false;
    }
    return true;
}

void gathering_note_waiting(struct gathering *g, instant_ns now)
{
    set_instant(&g->left_at_ns, now);
    set_flag(&g->has_waiting, true);
}

bool gathering_is_timed(const struct gathering *g)
{
    return value_of(&g->post_count) > 1;
}

void gathering_note_sent(struct gathering *g, instant_ns now)
{
    set_instant(&g->left_at_ns, now);
}

/* ---- who sends them -------------------------------------------------------------------------- */

void gathering_on_look(struct gathering *g, instant_ns now)
{
    if (value_of(&g->post_count) > 0) {
        note_return(g, now);
        set_value(&g->post_count, 0);
        set_value(&g->round, value_of(&g->round) + 1);
    }
}

void gathering_on_served(struct gathering *g)
{
    set_flag(&g->has_waiting, false);
}

void gathering_on_found(struct gathering *g, instant_ns now)
{
    if (has_flag(&g->has_waiting) &&
        now > instant_after(instant_of(&g->left_at_ns), GATHERING_AWAY_NS)) {
        note_late(g);
    }
}

bool gathering_has_waiting(const struct gathering *g)
{
    return has_flag(&g->has_waiting);
}

bool gathering_is_likely(const struct gathering *g, instant_ns now)
{
    return is_trusted(g) && now <= instant_after(instant_of(&g->left_at_ns), GATHERING_IDLE_NS);
}
