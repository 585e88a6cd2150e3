// The manager as programs see it.
#include "manager/manager.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "manager/limits.h"
#include "manager/progress.h"
#include "manager/refuse.h"
#include "manager/slots.h"
#include "manager/turns.h"

enum { QUANTUM_LEN_DEFAULT = 1 << 20 };

/* ---- creating -------------------------------------------------------------------------------- */

static int parts_init(struct weft_rdma_manager *manager, const struct weft_rdma_manager_attr *attr)
{
    const struct weft_rdma_limits *limits = &manager->limits;
    turns_init(&manager->turns, attr->quantum_len != 0 ? attr->quantum_len : QUANTUM_LEN_DEFAULT);
    ranges_init(&manager->ranges);
    list_init(&manager->to_call);
    list_init(&manager->to_hand_out);
    manager->filler = (struct filler){.turns = &manager->turns,
                                      .slots = &manager->slots,
                                      .scratch = &manager->scratch,
                                      .counters = &manager->counters};
    manager->scratch.wr.sg_list =
        calloc(limits->write_segment_count, sizeof *manager->scratch.wr.sg_list);
    if (manager->scratch.wr.sg_list == NULL) {
        return -ENOMEM;
    }
    return slots_init(&manager->slots, limits->descriptor_count, limits->write_segment_count,
                      limits->signal_interval);
}

int weft_rdma_manager_create(const struct weft_rdma_manager_attr *attr,
                             struct weft_rdma_manager **ret_manager)
{
    struct weft_rdma_limits limits;
    int error = limits_query(attr, &limits);
    if (error != 0) {
        return error;
    }
    struct weft_rdma_manager *manager = calloc(1, sizeof *manager);
    if (manager == NULL) {
        return -ENOMEM;
    }
    manager->qp = attr->qp;
    manager->limits = limits;
    error = parts_init(manager, attr);
    if (error != 0) {
        free(manager->scratch.wr.sg_list);
        free(manager);
        return error;
    }
    *ret_manager = manager;
    return 0;
}

int weft_rdma_manager_destroy(struct weft_rdma_manager *manager)
{
    CHECK(!manager->is_running);
    if (manager->outstanding_count > 0 || !list_is_empty(&manager->to_hand_out)) {
        return -EBUSY;
    }
    slots_fini(&manager->slots);
    ranges_fini(&manager->ranges);
    free(manager->scratch.wr.sg_list);
    free(manager);
    return 0;
}

void weft_rdma_manager_limits(const struct weft_rdma_manager *manager,
                              struct weft_rdma_limits *ret_limits)
{
    *ret_limits = manager->limits;
}

void weft_rdma_manager_counters(const struct weft_rdma_manager *manager,
                                struct weft_rdma_counters *ret_counters)
{
    *ret_counters = manager->counters;
}

/* ---- requests -------------------------------------------------------------------------------- */

static enum weft_rdma_refusal request_refusal(struct weft_rdma_manager *manager,
                                              const struct weft_rdma_request *request,
                                              unsigned flags, struct refusal_check *ret_check)
{
    *ret_check = (struct refusal_check){0};
    if (manager->is_broken) {
        return WEFT_RDMA_BROKEN;
    }
    if ((flags & ~(unsigned)WEFT_RDMA_MORE) != 0) {
        return WEFT_RDMA_BAD_FLAGS;
    }
    // Not left to ibv_post_send, since siw's says ENOMEM of that, as it does of a full queue.
    if (request->trailer != NULL &&
        (uint32_t)request->trailer->num_sge > manager->limits.write_segment_count) {
        return WEFT_RDMA_BAD_TRAILER;
    }
    return request_check(request, &manager->ranges, ret_check);
}

static void request_accept(struct weft_rdma_manager *manager, struct weft_rdma_request *request,
                           const struct refusal_check *check)
{
    struct progress *progress = progress_of(request);
    progress->request = request;
    progress->manager = manager;
    progress->limits = limits_of_request(&manager->limits, request);
    progress->total_len = check->total_len;
    progress_init(progress);
    progress->total_transfer_count = transfers_left(&manager->filler, progress);
    turns_join(&manager->turns, progress);
    manager->outstanding_count++;
    manager->counters.request_count++;
    manager->counters.element_count += check->element_count;
    manager->counters.len += check->total_len;
}

enum weft_rdma_refusal weft_rdma_request_submit(struct weft_rdma_manager *manager,
                                                struct weft_rdma_request *request, unsigned flags)
{
    struct refusal_check check;
    // One that is with a manager is left alone: its result is still to be written.
    if (!progress_is_free(progress_of(request))) {
        manager->counters.refusal_counts[WEFT_RDMA_BUSY]++;
        return WEFT_RDMA_BUSY;
    }
    enum weft_rdma_refusal refusal = request_refusal(manager, request, flags, &check);
    if (refusal != WEFT_RDMA_ACCEPTED) {
        memset(request->own, 0, sizeof request->own);
        request->result = (struct weft_rdma_result){.failed_element = check.where,
                                                    .failed_element_index = check.where_index};
        manager->counters.refusal_counts[refusal]++;
        return refusal;
    }
    request_accept(manager, request, &check);
    if ((flags & WEFT_RDMA_MORE) == 0) {
        manager_run(manager);
    }
    return WEFT_RDMA_ACCEPTED;
}

bool weft_rdma_request_cancel(struct weft_rdma_request *request)
{
    struct progress *progress = progress_of(request);
    struct list_link ended;
    if (progress->phase != WEFT_RDMA_QUEUED) {
        return false;
    }
    struct weft_rdma_manager *manager = progress->manager;
    list_init(&ended);
    progress_stop(progress);
    request->result.outcome = WEFT_RDMA_CANCELLED;
    progress_end_if_idle(progress, &ended);
    manager_collect(manager, &ended);
    manager_run(manager);
    return true;
}

struct weft_rdma_request *weft_rdma_manager_next_done(struct weft_rdma_manager *manager)
{
    struct list_link *link = list_pop_head(&manager->to_hand_out);
    return link != NULL ? LIST_ENTRY(link, struct progress, link)->request : NULL;
}

/* ---- progress -------------------------------------------------------------------------------- */

// A completion of posted slot `index`: those before it have ended as well.
static void manager_on_slot(struct weft_rdma_manager *manager, uint32_t index,
                            const struct ibv_wc *wc)
{
    const struct failure failure = {.status = wc->status, .vendor_err = wc->vendor_err};
    bool is_success = wc->status == IBV_WC_SUCCESS;
    // The first failure says that all before it succeeded; behind it nothing did.
    bool is_flushed = !is_success && manager->has_failed;
    struct list_link ended;
    list_init(&ended);
    for (; index > 0; index--) {
        slots_retire(&manager->slots, is_flushed ? &failure_flushed : NULL, &ended);
    }
    slots_retire(&manager->slots, is_success ? NULL : &failure, &ended);
    manager_collect(manager, &ended);
    if (!is_success && !manager->has_failed) {
        manager->has_failed = true;
        manager_break(manager);
    }
}

// Takes the completion of a descriptor; false: it is none.
static bool manager_take(struct weft_rdma_manager *manager, const struct ibv_wc *wc)
{
    uint32_t index;
    if (!slots_find(&manager->slots, wc->wr_id, &index)) {
        return false;
    }
    manager->counters.wc_count++;
    if (index == SLOTS_NOT_POSTED) {
        manager->counters.strange_wc_count++;
    } else {
        manager_on_slot(manager, index, wc);
    }
    return true;
}

bool weft_rdma_manager_on_wc(struct weft_rdma_manager *manager, const struct ibv_wc *wc)
{
    bool is_own = manager_take(manager, wc);
    if (is_own || manager->is_queue_full) {
        manager_run(manager);
    }
    return is_own;
}

int weft_rdma_manager_poll(struct weft_rdma_manager *manager, struct ibv_wc *wc, int wc_count)
{
    int found = ibv_poll_cq(manager->qp->send_cq, wc_count, wc);
    if (found <= 0) {
        return found;
    }
    int foreign_count = 0;
    for (int i = 0; i < found; i++) {
        if (!manager_take(manager, &wc[i])) {
            wc[foreign_count++] = wc[i];
        }
    }
    manager_run(manager);
    return foreign_count;
}

void weft_rdma_manager_post(struct weft_rdma_manager *manager)
{
    manager_run(manager);
}

void weft_rdma_manager_flush(struct weft_rdma_manager *manager)
{
    manager_flush(manager);
    manager_run(manager);
}
