// What the manager keeps of a request, from submission to completion: REQUEST STATE. It lies in the
// request itself, in `own`.
//
//     IDLE --submitted--> QUEUED --all formatted--> FORMATTED --last ended--> COMPLETE
//                           |                           |                      ^
//                           +-------- stopped ----------+--> ENDING --last ended+
//
// COMPLETE goes to QUEUED when the request is submitted again.
#pragma once

#include <weft/manager.h>

#include "base/check.h"
#include "base/list.h"
#include "manager/format.h"

struct progress {
    struct weft_rdma_request *request;
    struct weft_rdma_manager *manager;
    // QUEUED: in the turns. FORMATTED: in the descriptor that it ends in. COMPLETE: in a list of
    // what is to be told to the program, until it is told.
    struct list_link link;
    enum weft_rdma_request_phase phase;
    bool is_trailer_due;               // the request has one, and no descriptor for it yet
    struct weft_rdma_position current; // CURRENT ELEMENT and OFFSET
    struct transfer_limits limits;     // of this request's descriptors
    uint64_t total_len;                // octets of all elements
    uint64_t end_len;                  // octets in the last of its descriptors
    int64_t credit_len;                // octets left of its turn
    uint64_t total_transfer_count;     // descriptors that have octets of it, and the trailer
    uint64_t formatted_transfer_count; // so far
    uint64_t ended_transfer_count;     // of these: completed, failed, or never posted
    uint64_t completed_transfer_count; // of these: completed
};

// Why descriptors end without success; see struct weft_rdma_result.
struct failure {
    enum ibv_wc_status status;
    uint32_t vendor_err;
    int post_error;
};

// Another descriptor has failed, and taken this one along.
extern const struct failure failure_flushed;

STATIC_CHECK(sizeof(struct progress) <= WEFT_RDMA_REQUEST_WORDS * sizeof(uint64_t));

static inline struct progress *progress_of(struct weft_rdma_request *request)
{
    return (struct progress *)request->own;
}

// Whether the program may submit the request: it is not with the manager, nor yet to be told of.
bool progress_is_free(const struct progress *progress);

// Begins: QUEUED, in no list. request, manager, limits and total_len are set, the rest is not.
void progress_init(struct progress *progress);

// All octets have descriptors, and the trailer if there is one: FORMATTED. It is in no list.
void progress_on_formatted(struct progress *progress);

// Whether its end only waits for descriptors that are posted: FORMATTED or ENDING.
bool progress_has_stopped(const struct progress *progress);

// No further octets get descriptors: ENDING. It leaves the turns, if it is in them.
void progress_stop(struct progress *progress);

// Stops it with a failure; the first one counts. `element`: where it happened, or NULL.
void progress_fail(struct progress *progress, const struct failure *failure,
                   const struct weft_rdma_element *element, uint32_t element_index);

// One of its descriptors, with so many of its octets, has ended.
void progress_on_transfer(struct progress *progress, uint64_t len, bool is_success);

// If it has stopped and its last descriptor has ended: COMPLETE with its outcome, and to the tail
// of `ended`.
void progress_end_if_idle(struct progress *progress, struct list_link *ended);
