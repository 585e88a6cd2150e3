// An intrusive doubly linked list: the links live in the objects, so joining and leaving a list
// allocates nothing. A link that is in no list points to itself.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list_link {
    struct list_link *next;
    struct list_link *prev;
};

#define LIST_ENTRY(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

static inline void list_init(struct list_link *l)
{
    l->next = l;
    l->prev = l;
}

static inline bool list_is_empty(const struct list_link *l)
{
    return l->next == l;
}

static inline void list_push_tail(struct list_link *head, struct list_link *l)
{
    l->prev = head->prev;
    l->next = head;
    head->prev->next = l;
    head->prev = l;
}

static inline void list_push_head(struct list_link *head, struct list_link *l)
{
    list_push_tail(head->next, l);
}

// Leaves whatever list it is in; harmless when it is in none.
static inline void list_remove(struct list_link *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    list_init(l);
}

static inline struct list_link *list_pop_head(struct list_link *head)
{
    struct list_link *l = head->next;
    if (l == head) {
        return NULL;
    }
    list_remove(l);
    return l;
}

// `to` becomes a list of all that is in `from`, in the same order; `from` is empty afterwards.
static inline void list_move_all(struct list_link *to, struct list_link *from)
{
    list_init(to);
    if (!list_is_empty(from)) {
        *to = *from;
        to->next->prev = to;
        to->prev->next = to;
        list_init(from);
    }
}
