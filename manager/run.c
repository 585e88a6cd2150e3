// Progress: from completions to callbacks to further descriptors.
#include <errno.h>

#include "base/list.h"
#include "manager/manager.h"
#include "manager/progress.h"
#include "manager/slots.h"
#include "manager/turns.h"

// How many descriptors are formed before they are posted: enough for a long chain, few enough that
// the device has the first ones early.
enum { CHAIN_MAX = 64 };

void manager_collect(struct weft_rdma_manager *manager, struct list_link *ended)
{
    struct weft_rdma_counters *counters = &manager->counters;
    for (struct list_link *link; (link = list_pop_head(ended)) != NULL;) {
        struct weft_rdma_request *request = LIST_ENTRY(link, struct progress, link)->request;
        enum weft_rdma_outcome outcome = request->result.outcome;
        counters->success_count += outcome == WEFT_RDMA_SUCCESS;
        counters->cancel_count += outcome == WEFT_RDMA_CANCELLED;
        counters->failure_count += outcome == WEFT_RDMA_FAILED;
        manager->outstanding_count--;
        list_push_tail(request->on_complete != NULL ? &manager->to_call : &manager->to_hand_out,
                       link);
    }
}

static void turns_flush(struct turns *turns, struct list_link *ended)
{
    for (struct list_link *link; (link = list_pop_head(&turns->waiting)) != NULL;) {
        struct progress *progress = LIST_ENTRY(link, struct progress, link);
        progress_fail(progress, &failure_flushed, NULL, 0);
        progress_end_if_idle(progress, ended);
    }
}

void manager_break(struct weft_rdma_manager *manager)
{
    struct list_link ended;
    list_init(&ended);
    manager->is_broken = true;
    slots_drop_unposted(&manager->slots, &ended);
    turns_flush(&manager->turns, &ended);
    manager_collect(manager, &ended);
}

void manager_flush(struct weft_rdma_manager *manager)
{
    struct list_link ended;
    list_init(&ended);
    while (slots_has_posted(&manager->slots)) {
        slots_retire(&manager->slots, &failure_flushed, &ended);
    }
    manager_collect(manager, &ended);
    manager_break(manager);
}

/* ---- posting --------------------------------------------------------------------------------- */

static bool means_queue_full(int error)
{
    return error == ENOMEM || error == EAGAIN || error == ENOSPC;
}

// Posts what is formatted. False: not all of it could be, now or ever.
static bool manager_post_formatted(struct weft_rdma_manager *manager)
{
    int error = 0;
    while (slots_has_unposted(&manager->slots)) {
        error = slots_post(&manager->slots, manager->qp, &manager->counters);
        manager->is_queue_full = means_queue_full(error);
        if (manager->is_queue_full) {
            manager->counters.queue_full_count++;
            return false;
        }
        if (error != 0 && !slots_replace_refused(&manager->slots, error)) {
            // Nothing at all is taken: the queue pair was reset, or the device is gone.
            manager_flush(manager);
            return false;
        }
    }
    return true;
}

static void manager_post_all(struct weft_rdma_manager *manager)
{
    while (manager_post_formatted(manager)) {
        if (fill_slots(&manager->filler, CHAIN_MAX) == 0) {
            manager->counters.no_descriptor_count += !turns_is_empty(&manager->turns);
            return;
        }
    }
}

/* ---- telling --------------------------------------------------------------------------------- */

static void manager_call_back(struct weft_rdma_manager *manager)
{
    for (struct list_link *link; (link = list_pop_head(&manager->to_call)) != NULL;) {
        struct weft_rdma_request *request = LIST_ENTRY(link, struct progress, link)->request;
        request->on_complete(request);
    }
}

void manager_run(struct weft_rdma_manager *manager)
{
    if (manager->is_running) {
        return;
    }
    manager->is_running = true;
    do {
        manager_call_back(manager);
        manager_post_all(manager);
    } while (!list_is_empty(&manager->to_call));
    manager->is_running = false;
}
