// The manager's descriptors: a ring of slots in the order of posting. Each slot goes through
//
//     free --fill--> formatted --post--> posted --completion, in order--> free
//
// and knows which requests have octets in it: any number that end there, and at most one that goes
// on in a later slot.
#pragma once

#include "manager/format.h"
#include "manager/progress.h"

struct slot {
    struct descriptor descriptor; // its wr_id is the slot's own address
    struct list_link ends;        // of struct progress: its last octet, or its trailer, is in here
    struct progress *goes_on;     // NULL: none
    uint64_t goes_on_len;         // its octets in here
    // Whose first octet it is, and in which element of it. NULL: a trailer.
    struct progress *first;
    const struct weft_rdma_element *first_element;
    uint32_t first_element_index;
    int post_error; // that the descriptor was refused with; a placeholder goes in its stead
};

struct slots {
    struct slot *items;
    struct ibv_sge *segments; // segment_count of each slot
    uint32_t count, segment_count;
    // How many slots have ever been formatted, posted, retired: slot n is items[n % count].
    uint64_t formatted, posted, retired;
    uint32_t signal_interval;
    uint32_t unsignalled_count; // posted since the last one that was signalled
};

// 0 or -ENOMEM.
int slots_init(struct slots *slots, uint32_t count, uint32_t segment_count,
               uint32_t signal_interval);
void slots_fini(struct slots *slots);

/* ---- filling --------------------------------------------------------------------------------- */

// The next free slot, empty; NULL: none is free. It stays free until slots_commit().
struct slot *slots_next_free(struct slots *slots);
void slots_commit(struct slots *slots);

// `len` octets of the request are in the slot, and are not its last; at most once a slot.
void slot_add_part(struct slot *slot, struct progress *progress, uint64_t len);

// The last `len` octets of the request, or its trailer (0), are in the slot. It is in no list.
void slot_add_end(struct slot *slot, struct progress *progress, uint64_t len);

/* ---- posting --------------------------------------------------------------------------------- */

bool slots_has_posted(const struct slots *slots); // and not completed
bool slots_has_unposted(const struct slots *slots);

// Posts what is formatted in one chain: signalled are the last one and one of signal_interval at
// least. 0, or the errno of ibv_post_send: then some of it may be posted nevertheless.
int slots_post(struct slots *slots, struct ibv_qp *qp, struct weft_rdma_counters *counters);

// ibv_post_send refused the oldest unposted slot for good: its requests fail in its turn. An
// RDMA Write of no octets takes its place, so that there is a completion to say so, and that those
// before it are complete. False: it is in that place already, and refused as well.
bool slots_replace_refused(struct slots *slots, int error);

/* ---- ending ---------------------------------------------------------------------------------- */

// Whether wr_id is that of a slot; *ret_index: which posted one, from the oldest on, or
// SLOTS_NOT_POSTED.
enum { SLOTS_NOT_POSTED = UINT32_MAX };
bool slots_find(const struct slots *slots, uint64_t wr_id, uint32_t *ret_index);

// The oldest posted slot has completed. `failure`: NULL for a success. Requests that are complete
// with it join `ended`.
void slots_retire(struct slots *slots, const struct failure *failure, struct list_link *ended);

// What is formatted and not posted will not be: it ends as flushed.
void slots_drop_unposted(struct slots *slots, struct list_link *ended);
