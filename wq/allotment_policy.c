#include "wq/allotment_policy.h"

void allotment_policy_init(struct allotment_policy *p, uint32_t base_len)
{
    *p = (struct allotment_policy){.base_len = base_len, .len = base_len};
}

static uint32_t bent(uint32_t base_len, unsigned shift)
{
    uint32_t floor_len = base_len < ALLOTMENT_FLOOR_LEN ? base_len : ALLOTMENT_FLOOR_LEN;
    uint32_t len = base_len >> shift;
    return len > floor_len ? len : floor_len;
}

static uint32_t value_of(const struct allotment_policy *p)
{
    if (p->base_len == 0) {
        return 0;
    }
    unsigned shift = p->crowd_shift + (p->is_memory_short ? 2 : 0);
    uint32_t alone_len = p->is_shared ? 0 : p->alone.len;
    uint32_t more_len = p->pipe.len > alone_len ? p->pipe.len : alone_len;
    return allotment_policy_may_follow(p) && more_len > p->base_len ? more_len
                                                                    : bent(p->base_len, shift);
}

bool allotment_policy_may_follow(const struct allotment_policy *p)
{
    return p->base_len > 0 && p->crowd_shift == 0 && !p->is_memory_short && !p->is_commanded;
}

static bool settle(struct allotment_policy *p, enum allotment_event event)
{
    uint32_t len = value_of(p);
    if (len == p->len) {
        return false;
    }
    p->len = len;
    p->changes[event]++;
    return true;
}

bool allotment_policy_on_operator(struct allotment_policy *p, uint32_t base_len)
{
    p->base_len = base_len;
    p->is_commanded = true;
    return settle(p, ALLOTMENT_OPERATOR);
}

bool allotment_policy_on_release(struct allotment_policy *p, uint32_t base_len)
{
    p->base_len = base_len;
    p->is_commanded = false;
    return settle(p, ALLOTMENT_OPERATOR);
}

bool allotment_policy_on_memory(struct allotment_policy *p, bool is_short)
{
    p->is_memory_short = is_short;
    return settle(p, ALLOTMENT_MEMORY);
}

// A reason that grew counts at once.
static void calm_on_growth(struct allotment_calm *c)
{
    c->count = c->quiet_count = 0;
    c->wanted = c->wanted == 0 ? ALLOTMENT_CALM_COUNT : 2 * c->wanted;
    c->wanted = c->wanted < ALLOTMENT_CALM_MOST_COUNT ? c->wanted : ALLOTMENT_CALM_MOST_COUNT;
}

// One that shrank counts when it stayed so.
static bool calm_is_over(struct allotment_calm *c)
{
    if (++c->count < c->wanted) {
        return false;
    }
    c->count = 0;
    return true;
}

static void calm_on_same(struct allotment_calm *c, bool is_quiet)
{
    c->count = 0;
    if (is_quiet && ++c->quiet_count >= ALLOTMENT_QUIET_COUNT) {
        c->wanted = 0;
    }
}

static void take_crowd(struct allotment_policy *p, const struct allotment_sample *s)
{
    uint64_t per_context = s->waiting_count / s->context_count;
    unsigned shift = per_context >= 16 ? 2 : per_context >= 4 ? 1 : 0;
    if (shift == p->crowd_shift) {
        calm_on_same(&p->crowd_calm, shift == 0);
    } else if (shift > p->crowd_shift) {
        calm_on_growth(&p->crowd_calm);
        p->crowd_shift = shift;
    } else if (calm_is_over(&p->crowd_calm)) {
        p->crowd_shift = shift;
    }
}

// In powers of two, so that it does not follow every wave.
static uint32_t step_to(uint64_t wanted_len, uint32_t base_len, uint32_t max_len)
{
    uint64_t len = base_len;
    while (len > 0 && len < wanted_len && len < max_len) {
        len *= 2;
    }
    return len > base_len ? (uint32_t)len : 0;
}

static void growth_take(struct allotment_growth *g, uint32_t seen_len)
{
    uint32_t len = seen_len < g->seen_len ? seen_len : g->seen_len;
    g->seen_len = seen_len;
    if (len == g->len) {
        calm_on_same(&g->calm, len == 0);
    } else if (len > g->len) {
        calm_on_growth(&g->calm);
        g->len = len;
    } else if (calm_is_over(&g->calm)) {
        g->len = len;
    }
}

static void take_company(struct allotment_policy *p, bool is_shared)
{
    if (is_shared == p->is_shared) {
        calm_on_same(&p->shared_calm, !is_shared);
    } else if (is_shared) {
        calm_on_growth(&p->shared_calm);
        p->is_shared = true;
    } else if (calm_is_over(&p->shared_calm)) {
        p->is_shared = false;
    }
}

static void take_alone(struct allotment_policy *p, const struct allotment_sample *s)
{
    take_company(p, s->reader_count > 1);
    if (s->reader_count == 1) {
        growth_take(&p->alone, step_to(s->lasting_len, p->base_len, ALLOTMENT_ALONE_MAX_LEN));
    }
}

bool allotment_policy_on_sample(struct allotment_policy *p, const struct allotment_sample *sample,
                                enum allotment_event *ret_event)
{
    take_crowd(p, sample);
    if (settle(p, ALLOTMENT_WAITING)) {
        *ret_event = ALLOTMENT_WAITING;
        return true;
    }
    growth_take(&p->pipe, step_to(sample->pipe_len, p->base_len, ALLOTMENT_PIPE_MAX_LEN));
    if (settle(p, ALLOTMENT_PIPE)) {
        *ret_event = ALLOTMENT_PIPE;
        return true;
    }
    take_alone(p, sample);
    *ret_event = ALLOTMENT_ALONE;
    return settle(p, ALLOTMENT_ALONE);
}

bool allotment_policy_is_of_one(const struct allotment_policy *p)
{
    return p->alone.len > 0 && !p->is_shared;
}

bool allotment_policy_is_at_rest(const struct allotment_policy *p)
{
    return p->crowd_shift == 0 && p->pipe.len == 0;
}
