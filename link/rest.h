// Where closed streams rest. Reports of one `poll` may name a stream that an earlier report had
// closed, so the memory of a stream stays a stream's for as long as the link lives, and is not soon
// used again: whoever still holds the pointer finds an owner of NULL. The memory is bounded by the
// most streams that were ever open at a time.
#pragma once

#include "base/list.h"

enum { REST_COUNT_MIN = 256 }; // so many others are closed before one is used again

struct rest {
    struct list_link streams; // longest at rest first
    unsigned count;
};

static inline void rest_init(struct rest *r)
{
    list_init(&r->streams);
    r->count = 0;
}

static inline void rest_put(struct rest *r, struct list_link *l)
{
    list_push_tail(&r->streams, l);
    r->count++;
}

// One that may be used again, or NULL.
static inline struct list_link *rest_take(struct rest *r)
{
    if (r->count <= REST_COUNT_MIN) {
        return NULL;
    }
    r->count--;
    return list_pop_head(&r->streams);
}
