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
    return allotment_policy_may_follow(p) && p->pipe_len > p->base_len ? p->pipe_len
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
static uint32_t pipe_step(uint64_t pipe_len, uint32_t base_len)
{
    uint64_t len = base_len;
    while (len > 0 && len < pipe_len && len < ALLOTMENT_PIPE_MAX_LEN) {
        len *= 2;
    }
    return len > base_len ? (uint32_t)len : 0;
}

static void take_pipe(struct allotment_policy *p, const struct allotment_sample *s)
{
    uint32_t seen_len = pipe_step(s->pipe_len, p->base_len);
    uint32_t len = seen_len < p->pipe_seen_len ? seen_len : p->pipe_seen_len;
    p->pipe_seen_len = seen_len;
    if (len == p->pipe_len) {
        calm_on_same(&p->pipe_calm, len == 0);
    } else if (len > p->pipe_len) {
        calm_on_growth(&p->pipe_calm);
        p->pipe_len = len;
    } else if (calm_is_over(&p->pipe_calm)) {
        p->pipe_len = len;
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
    take_pipe(p, sample);
    *ret_event = ALLOTMENT_PIPE;
    return settle(p, ALLOTMENT_PIPE);
}

bool allotment_policy_is_at_rest(const struct allotment_policy *p)
{
    return p->crowd_shift == 0 && p->pipe_len == 0;
}
