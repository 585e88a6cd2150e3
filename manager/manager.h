// A manager: the parts, and the order in which they are driven (run.c).
//
//     submit --> turns --fill--> slots --post--> queue pair --completion--> slots --> complete
//
// Whatever happened, manager_run() goes on from there: it tells the program of complete requests
// first, so that what its callbacks submit leaves in the same chain, and then fills and posts.
#pragma once

#include <weft/manager.h>

#include "manager/fill.h"
#include "manager/ranges.h"

struct weft_rdma_manager {
    struct ibv_qp *qp;
    struct weft_rdma_limits limits;
    struct turns turns;
    struct slots slots;
    struct filler filler;
    struct descriptor scratch; // with segments of its own
    struct ranges ranges;
    struct list_link to_call;     // complete requests with on_complete
    struct list_link to_hand_out; // and without
    uint64_t outstanding_count;   // requests that are accepted and not complete
    bool is_broken;               // nothing more is posted
    bool has_failed;              // a completion said so: all behind it are flushed
    bool is_queue_full;           // ibv_post_send would take no more
    bool is_running;              // within manager_run()
    struct weft_rdma_counters counters;
};

// Tells of complete requests, fills free descriptors, posts, until nothing more can be done now.
void manager_run(struct weft_rdma_manager *manager);

// Takes over requests that have become complete.
void manager_collect(struct weft_rdma_manager *manager, struct list_link *ended);

// From here on nothing more is posted: what is not posted yet ends as flushed.
void manager_break(struct weft_rdma_manager *manager);

// No completions will come either: what is posted ends as flushed, too.
void manager_flush(struct weft_rdma_manager *manager);
