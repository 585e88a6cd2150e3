#include "conn/listener.h"

#include <stddef.h>

#include "base/check.h"

void conn_gate_init(struct conn_gate *gate, uint32_t half_open_max)
{
    CHECK(half_open_max > 0);
    *gate = (struct conn_gate){.half_open_bound = half_open_max, .half_open_max = half_open_max};
    list_init(&gate->half_open);
}

void conn_listener_init(struct conn_listener *l, int backlog, struct conn_gate *gate)
{
    *l = (struct conn_listener){.gate = gate, .backlog = CONN_BACKLOG_MAX};
    if (backlog > 0 && backlog < CONN_BACKLOG_MAX) {
        l->backlog = (uint32_t)backlog;
    }
    list_init(&l->half_open);
    list_init(&l->waiting);
}

void conn_listener_leave(struct conn_admission *a)
{
    struct conn_listener *l = a->listener;
    if (l == NULL) {
        return;
    }
    uint32_t *count = a->is_waiting ? &l->waiting_count : &l->gate->half_open_count;
    CHECK(*count > 0);
    (*count)--;
    list_remove(&a->link);
    if (!a->is_waiting) {
        list_remove(&a->gate_link);
    }
    a->listener = NULL;
}

static struct conn_admission *leave_first(struct list_link *list)
{
    if (list_is_empty(list)) {
        return NULL;
    }
    struct conn_admission *a = LIST_ENTRY(list->next, struct conn_admission, link);
    conn_listener_leave(a);
    return a;
}

static struct conn_admission *drop_oldest(struct conn_gate *gate)
{
    if (list_is_empty(&gate->half_open)) {
        return NULL;
    }
    struct conn_admission *oldest =
        LIST_ENTRY(gate->half_open.next, struct conn_admission, gate_link);
    oldest->listener->counters.dropped++;
    conn_listener_leave(oldest);
    return oldest;
}

struct conn_admission *conn_listener_admit(struct conn_listener *l, struct conn_admission *a)
{
    struct conn_gate *gate = l->gate;
    l->counters.accepted++;
    a->listener = l;
    a->is_waiting = false;
    list_push_tail(&l->half_open, &a->link);
    list_push_tail(&gate->half_open, &a->gate_link);
    gate->half_open_count++;
    return gate->half_open_count > gate->half_open_bound ? drop_oldest(gate) : NULL;
}

struct conn_admission *conn_gate_narrow(struct conn_gate *gate)
{
    struct conn_admission *oldest = drop_oldest(gate);
    gate->half_open_bound = gate->half_open_count > 0 ? gate->half_open_count : 1;
    return oldest;
}

static void gate_widen(struct conn_gate *gate)
{
    if (gate->half_open_bound < gate->half_open_max) {
        gate->half_open_bound++;
    }
}

bool conn_listener_request(struct conn_admission *a)
{
    struct conn_listener *l = a->listener;
    conn_listener_leave(a);
    gate_widen(l->gate);
    if (l->waiting_count >= l->backlog) {
        l->counters.backlog_full++;
        return false;
    }
    l->counters.requests++;
    a->listener = l;
    a->is_waiting = true;
    list_push_tail(&l->waiting, &a->link);
    l->waiting_count++;
    return true;
}

struct conn_admission *conn_listener_drain(struct conn_listener *l)
{
    struct conn_admission *a = leave_first(&l->half_open);
    return a != NULL ? a : leave_first(&l->waiting);
}
