// Read windows: what the page cache has of a volume is read here and now, without its RTA. No
// frame, nobody to wake.
//
// A window shows what writes that have been answered have left. While one of the range is under
// way the RTA is asked, who has both; and while a unit is lost nothing is read, since what its
// process left behind may still be written.

#include "node/cta/agent.h"
#include "node/interface/request.h"

enum { WINDOW_REST_MAX = 63 }; // reads in a row that the RTA is asked at once

void window_set(void *ctx, uint32_t volume, int fd, uint64_t size)
{
    struct cta_volume *v = routes_volume(ctx, volume, fd >= 0);
    if (v != NULL) {
        v->window = (struct cta_window){.is_open = fd >= 0, .fd = fd, .size = size};
    }
}

static bool changes(const struct list_link *list, const struct transaction *read)
{
    for (const struct list_link *l = list->next; l != list; l = l->next) {
        const struct transaction *t = LIST_ENTRY(l, struct transaction, link);
        if (node_operation_facts(t->operation)->changes &&
            t->route->volume == read->route->volume &&
            node_ranges_overlap(t->offset, t->len, read->offset, read->len)) {
            return true;
        }
    }
    return false;
}

static bool is_being_changed(const struct transaction *read)
{
    const struct cta_unit *unit = read->unit;
    return changes(&unit->at_unit, read) || changes(&unit->ready, read) ||
           changes(&unit->replay, read);
}

static bool may_read(const struct cta_window *window, const struct transaction *t)
{
    return window->is_open && t->operation == NODE_READ && t->len <= CTA_SMALL_LEN &&
           t->unit->is_ready && !t->unit->is_broken &&
           node_range_is_within(t->offset, t->len, window->size) && !is_being_changed(t);
}

// Where the page cache has little, looking costs each read a system call for nothing: the more
// often in a row, the longer it is left.
static bool rests(struct cta_window *window)
{
    if (window->resting == 0) {
        return false;
    }
    window->resting--;
    return true;
}

static void rest(struct cta_window *window)
{
    window->rest = 2 * window->rest + 1 < WINDOW_REST_MAX ? 2 * window->rest + 1 : WINDOW_REST_MAX;
    window->resting = window->rest;
}

bool window_read(struct cta *cta, struct transaction *t)
{
    struct cta_window *window = &t->route->volume->window;
    if (!may_read(window, t) || rests(window)) {
        return false;
    }
    void *data = memory_of(t->unit, t->buffer);
    if (!cta->parts.window_read(cta->parts.ctx, window->fd, t->offset, data, t->buffer.len)) {
        rest(window);
        return false;
    }
    window->rest = 0;
    t->route->volume->counters.window_reads++;
    return true;
}
