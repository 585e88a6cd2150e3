#include "base/deadlines.h"

#include "base/check.h"

static bool is_before(const struct deadline *a, const struct deadline *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->turn < b->turn;
}

// One heap of two: the later becomes the first child of the earlier. Either may be empty.
static struct deadline *meld(struct deadline *a, struct deadline *b)
{
    if (a == NULL || b == NULL) {
        return a != NULL ? a : b;
    }
    struct deadline *top = is_before(a, b) ? a : b;
    struct deadline *below = top == a ? b : a;
    below->next = top->child;
    below->prev = top;
    if (top->child != NULL) {
        top->child->prev = below;
    }
    top->child = below;
    return top;
}

// One heap of siblings: pairs from left to right, then all of them from right to left. The second
// pass is what keeps the heap flat.
static struct deadline *meld_siblings(struct deadline *d)
{
    struct deadline *pairs = NULL;
    while (d != NULL) {
        struct deadline *other = d->next;
        struct deadline *rest = other != NULL ? other->next : NULL;
        d = meld(d, other);
        d->next = pairs;
        pairs = d;
        d = rest;
    }
    struct deadline *top = NULL;
    while (pairs != NULL) {
        struct deadline *rest = pairs->next;
        pairs->next = NULL;
        top = meld(top, pairs);
        pairs = rest;
    }
    return top;
}

static void unlink_from_siblings(struct deadline *d)
{
    if (d->prev->child == d) {
        d->prev->child = d->next;
    } else {
        d->prev->next = d->next;
    }
    if (d->next != NULL) {
        d->next->prev = d->prev;
    }
}

void deadline_disarm(struct deadlines *all, struct deadline *d)
{
    if (!deadline_is_armed(d)) {
        return;
    }
    struct deadline *below = meld_siblings(d->child);
    if (d == all->first) {
        all->first = below;
    } else {
        unlink_from_siblings(d);
        all->first = meld(all->first, below);
    }
    d->child = d->next = d->prev = NULL;
    d->turn = 0;
    if (all->first != NULL) {
        all->first->prev = NULL;
    }
}

void deadline_arm(struct deadlines *all, struct deadline *d, instant_ns at_ns)
{
    if (deadline_is_armed(d) && d->at_ns == at_ns) {
        return;
    }
    deadline_disarm(all, d);
    if (at_ns != INSTANT_NEVER) {
        d->at_ns = at_ns;
        d->turn = ++all->turn;
        all->first = meld(all->first, d);
    }
}

struct deadline *deadlines_take_first(struct deadlines *all)
{
    struct deadline *first = all->first;
    deadline_disarm(all, first);
    return first;
}

// The next of the heap in the order of a walk that needs no memory: down, else right, else up.
static const struct deadline *walk_next(const struct deadline *d)
{
    if (d->child != NULL) {
        return d->child;
    }
    while (d != NULL && d->next == NULL) {
        while (d->prev != NULL && d->prev->child != d) {
            d = d->prev;
        }
        d = d->prev;
    }
    return d != NULL ? d->next : NULL;
}

void deadlines_check(const struct deadlines *all)
{
    CHECK(all->first == NULL || (all->first->prev == NULL && all->first->next == NULL));
    for (const struct deadline *d = all->first; d != NULL; d = walk_next(d)) {
        CHECK(d->turn != 0 && d->turn <= all->turn && d->at_ns != INSTANT_NEVER);
        for (const struct deadline *c = d->child, *left = d; c != NULL; left = c, c = c->next) {
            CHECK(c->prev == left && is_before(d, c));
        }
    }
}
