#include "manager/progress.h"

const struct failure failure_flushed = {.status = IBV_WC_WR_FLUSH_ERR};

enum event { SUBMITTED, ALL_FORMATTED, STOPPED, LAST_ENDED, EVENT_COUNT };

// What is not named here cannot happen.
static const enum weft_rdma_request_phase next_phase[WEFT_RDMA_PHASE_COUNT][EVENT_COUNT] = {
    [WEFT_RDMA_IDLE] = {[SUBMITTED] = WEFT_RDMA_QUEUED},
    [WEFT_RDMA_QUEUED] = {[ALL_FORMATTED] = WEFT_RDMA_FORMATTED, [STOPPED] = WEFT_RDMA_ENDING},
    [WEFT_RDMA_FORMATTED] = {[STOPPED] = WEFT_RDMA_ENDING, [LAST_ENDED] = WEFT_RDMA_COMPLETE},
    [WEFT_RDMA_ENDING] = {[STOPPED] = WEFT_RDMA_ENDING, [LAST_ENDED] = WEFT_RDMA_COMPLETE},
    [WEFT_RDMA_COMPLETE] = {[SUBMITTED] = WEFT_RDMA_QUEUED},
};

static void progress_on(struct progress *progress, enum event event)
{
    enum weft_rdma_request_phase next = next_phase[progress->phase][event];
    CHECK(next != WEFT_RDMA_IDLE);
    progress->phase = next;
}

bool progress_is_free(const struct progress *progress)
{
    return progress->phase == WEFT_RDMA_IDLE ||
           (progress->phase == WEFT_RDMA_COMPLETE && list_is_empty(&progress->link));
}

void progress_init(struct progress *progress)
{
    struct weft_rdma_request *request = progress->request;
    progress_on(progress, SUBMITTED);
    list_init(&progress->link);
    progress->current = position_at_start(request->elements);
    progress->is_trailer_due = request->trailer != NULL;
    progress->end_len = 0;
    progress->credit_len = 0;
    progress->total_transfer_count = 0;
    progress->formatted_transfer_count = 0;
    progress->ended_transfer_count = 0;
    progress->completed_transfer_count = 0;
    request->result = (struct weft_rdma_result){.outcome = WEFT_RDMA_PENDING};
}

void progress_on_formatted(struct progress *progress)
{
    progress_on(progress, ALL_FORMATTED);
}

bool progress_has_stopped(const struct progress *progress)
{
    return progress->phase == WEFT_RDMA_FORMATTED || progress->phase == WEFT_RDMA_ENDING;
}

void progress_stop(struct progress *progress)
{
    if (progress->phase == WEFT_RDMA_QUEUED) {
        list_remove(&progress->link);
    }
    progress_on(progress, STOPPED);
}

void progress_fail(struct progress *progress, const struct failure *failure,
                   const struct weft_rdma_element *element, uint32_t element_index)
{
    struct weft_rdma_result *result = &progress->request->result;
    progress_stop(progress);
    if (result->outcome == WEFT_RDMA_FAILED) {
        return;
    }
    result->outcome = WEFT_RDMA_FAILED;
    result->status = failure->status;
    result->vendor_err = failure->vendor_err;
    result->post_error = failure->post_error;
    result->failed_element = element;
    result->failed_element_index = element_index;
}

void progress_on_transfer(struct progress *progress, uint64_t len, bool is_success)
{
    progress->ended_transfer_count++;
    // Octets behind a descriptor that was refused are not among the first ones.
    if (is_success && progress->request->result.outcome != WEFT_RDMA_FAILED) {
        progress->completed_transfer_count++;
        progress->request->result.done_len += len;
    }
}

void progress_end_if_idle(struct progress *progress, struct list_link *ended)
{
    struct weft_rdma_result *result = &progress->request->result;
    if (!progress_has_stopped(progress) ||
        progress->ended_transfer_count < progress->formatted_transfer_count) {
        return;
    }
    progress_on(progress, LAST_ENDED);
    if (result->outcome == WEFT_RDMA_PENDING) {
        CHECK(progress->completed_transfer_count == progress->total_transfer_count);
        CHECK(result->done_len == progress->total_len);
        result->outcome = WEFT_RDMA_SUCCESS;
    }
    list_remove(&progress->link);
    list_push_tail(ended, &progress->link);
}

void weft_rdma_request_query(const struct weft_rdma_request *request,
                             struct weft_rdma_request_state *ret_state)
{
    const struct progress *progress = (const struct progress *)request->own;
    *ret_state = (struct weft_rdma_request_state){
        .phase = progress->phase,
        .total_len = progress->total_len,
        .remaining_len = progress->total_len - request->result.done_len,
        .total_transfer_count = progress->total_transfer_count,
        .formatted_transfer_count = progress->formatted_transfer_count,
        .completed_transfer_count = progress->completed_transfer_count,
        .current = progress->current,
    };
}
