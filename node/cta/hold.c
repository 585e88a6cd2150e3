// Holds: who reads a range and then changes it has it for himself in between.
//
// A hold begins when no change of the range is at the unit, and none is before it in line; from
// then on, and while it waits for that, changes of the range that came later wait in line. It ends
// with the request. What it waits for are devices: the client's data are there before it is in
// line, so no client can draw it out. Reads are in nobody's way.

#include "node/cta/agent.h"
#include "node/interface/request.h"

static bool changes(const struct transaction *t)
{
    return node_operation_facts(t->operation)->changes;
}

static bool is_of_hold(const struct transaction *t)
{
    return !list_is_empty(&t->hold_link);
}

static bool meet(const struct transaction *a, const struct transaction *b)
{
    return a != b && a->route->volume == b->route->volume &&
           node_ranges_overlap(a->offset, a->len, b->offset, b->len);
}

void hold_line_up(struct transaction *t)
{
    t->turn = ++t->unit->turn;
    if (changes(t) && node_operation_facts(t->operation)->reads_first) {
        list_push_tail(&t->unit->holds, &t->hold_link);
    }
}

// A hold that is there, or was in line before it.
static bool is_kept_out(const struct transaction *t)
{
    const struct list_link *holds = &t->unit->holds;
    for (const struct list_link *l = holds->next; l != holds; l = l->next) {
        const struct transaction *other = LIST_ENTRY(l, struct transaction, hold_link);
        if (meet(other, t) && (other->is_holding || other->turn < t->turn)) {
            return true;
        }
    }
    return false;
}

static bool has_change_before(const struct list_link *list, const struct transaction *t)
{
    for (const struct list_link *l = list->next; l != list; l = l->next) {
        const struct transaction *other = LIST_ENTRY(l, struct transaction, link);
        if (other->turn < t->turn && changes(other) && meet(other, t)) {
            return true;
        }
    }
    return false;
}

bool hold_allows(const struct transaction *t)
{
    const struct cta_unit *unit = t->unit;
    if (list_is_empty(&unit->holds) || t->is_holding || !changes(t)) {
        return true;
    }
    return !is_kept_out(t) && (!is_of_hold(t) || (!has_change_before(&unit->at_unit, t) &&
                                                  !has_change_before(&unit->ready, t)));
}

void hold_begin(struct transaction *t)
{
    t->is_holding = is_of_hold(t);
}

void hold_end(struct transaction *t)
{
    t->is_holding = false;
    list_remove(&t->hold_link);
}
