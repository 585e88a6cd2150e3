// The RDMA manager: moves any number of octets, over 4 GiB too, between lists of local buffers and
// remote ranges, by the fewest work requests that the device, the connection and the peer allow.
//
//   request       what a program wants moved: a chain of elements, all written or all read
//   element       a list of local buffers and the one remote range they go to or come from
//   descriptor    a work request with its data segments; one descriptor is one transfer
//   manager       forms descriptors of requests and posts them on one queue pair
//
// In the order given, elements whose remote ranges touch are coalesced into one descriptor, local
// buffers that touch share a data segment, and what exceeds the longest transfer or the segments of
// a descriptor is divided. When no descriptor is free a request waits with its state, and goes on
// as descriptors complete. It has one completion of its own, at the end.
//
// The manager uses public verbs only (ibv_post_send, ibv_poll_cq and queries), so any RC queue pair
// of any device will do: libweft-manager.so.1 needs libibverbs.so.1, not weft's.
//
// Threads: a manager and its requests are used by one thread at a time; different managers by
// different threads at once, also where they share a completion queue. Nothing here blocks, and
// nothing allocates once a manager stands (but see WEFT_RDMA_OVERLAP).
//
// Sharing. The work requests of a manager count against the queue pair's send queue: a program that
// posts there too says in `descriptor_count` how many it leaves. The completion queue must hold one
// completion for each, since all of them complete when the connection breaks. The manager's wr_ids
// are addresses within its own memory, so they differ from those of other managers and from a
// program's own, if these are addresses of its objects, or small numbers. A program that polls
// shows what it finds to weft_rdma_manager_on_wc(), and keeps what is not taken there; one that has
// nothing else to poll for calls weft_rdma_manager_poll().
//
//     struct weft_rdma_buffer buffer = {.addr = (uintptr_t)data, .len = len, .lkey = mr->lkey};
//     struct weft_rdma_element element = {
//         .buffers = &buffer, .buffer_count = 1, .remote_addr = to, .rkey = rkey};
//     struct weft_rdma_request request = {.opcode = IBV_WR_RDMA_WRITE, .elements = &element};
//     if (weft_rdma_request_submit(manager, &request, 0) != WEFT_RDMA_ACCEPTED) ...
//     while (weft_rdma_manager_next_done(manager) == NULL) {
//         weft_rdma_manager_poll(manager, wc, 16);
//     }
//     if (request.result.outcome == WEFT_RDMA_SUCCESS) ...
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weft_rdma_manager;

/* ---- what is to be moved --------------------------------------------------------------------- */

struct weft_rdma_buffer {
    uint64_t addr; // within the region of lkey
    uint64_t len;  // octets, at least one
    uint32_t lkey;
};

// Buffers that touch (one ends where the next begins, same lkey) share a data segment.
struct weft_rdma_element {
    const struct weft_rdma_element *next; // NULL: the last of the chain
    const struct weft_rdma_buffer *buffers;
    uint32_t buffer_count; // at least one
    uint32_t rkey;
    uint64_t remote_addr; // the range is as long as the buffers together
};

enum weft_rdma_request_flags {
    // May share a descriptor with the requests before and behind it, where the remote ranges touch
    // and both have this flag. Such requests complete, and fail, together.
    WEFT_RDMA_MAY_COALESCE = 1,
};

// Why a request was not taken. Nothing of it has been posted then, and its result names the element
// where an element is the reason.
enum weft_rdma_refusal {
    WEFT_RDMA_ACCEPTED,
    WEFT_RDMA_BUSY, // submitted before, and not complete yet
    // A descriptor has failed, or the queue pair takes none: the end of this manager, which must be
    // made anew with its connection.
    WEFT_RDMA_BROKEN,
    WEFT_RDMA_BAD_OPCODE,     // neither IBV_WR_RDMA_WRITE nor IBV_WR_RDMA_READ
    WEFT_RDMA_BAD_FLAGS,      // a flag that this version does not know
    WEFT_RDMA_BAD_TRAILER,    // more segments than a descriptor may have
    WEFT_RDMA_NO_ELEMENTS,    // an empty chain
    WEFT_RDMA_NO_BUFFERS,     // an element without buffers
    WEFT_RDMA_ZERO_LENGTH,    // a buffer of no bytes
    WEFT_RDMA_LOCAL_WRAPS,    // a buffer that reaches the end of the address space
    WEFT_RDMA_REMOTE_WRAPS,   // a remote range that does, or a length beyond 64 bits
    WEFT_RDMA_TOTAL_TOO_LONG, // 2^64 octets or more
    // Octets that are to be written twice, in an order that no one knows: remote ranges of a write,
    // local buffers of a read, compared within one key. To find out costs one pass over ranges in
    // ascending order; others are sorted in memory that the manager keeps, and which grows with the
    // longest such request.
    WEFT_RDMA_OVERLAP,
    WEFT_RDMA_NO_MEMORY, // for that
    WEFT_RDMA_REFUSAL_COUNT
};

const char *weft_rdma_refusal_str(enum weft_rdma_refusal refusal);

enum weft_rdma_outcome {
    WEFT_RDMA_PENDING,
    WEFT_RDMA_SUCCESS,
    WEFT_RDMA_CANCELLED,
    WEFT_RDMA_FAILED,
};

struct weft_rdma_result {
    enum weft_rdma_outcome outcome;
    // Of the descriptor that failed; IBV_WC_WR_FLUSH_ERR for what another one took along;
    // IBV_WC_GENERAL_ERR where ibv_post_send refused it (which is not the end of other requests).
    enum ibv_wc_status status;
    uint32_t vendor_err;
    int post_error; // errno that ibv_post_send answered with, or 0
    // Octets whose descriptors have completed: the first ones of the request. Octets of a write may
    // still be on their way to the remote memory then, as with any RDMA Write; a Send behind them,
    // such as a trailer, arrives after them.
    uint64_t done_len;
    // Where the descriptor that failed begins in this request; it may go on into elements behind.
    // NULL: no descriptor of this request failed, or its trailer did. After a refusal: the element
    // that is the reason.
    const struct weft_rdma_element *failed_element;
    uint32_t failed_element_index; // in the chain, from 0
};

enum { WEFT_RDMA_REQUEST_WORDS = 32 };

// To be embedded where the program likes. Zeroed before its first use; once complete, it may be
// filled in again. From submission to completion, it, its elements, their buffers and its trailer
// belong to the manager.
struct weft_rdma_request {
    const struct weft_rdma_element *elements;
    enum ibv_wr_opcode opcode; // IBV_WR_RDMA_WRITE or IBV_WR_RDMA_READ
    unsigned flags;            // enum weft_rdma_request_flags
    uint64_t max_transfer_len; // of this request, below the manager's; 0: no limit of its own
    // A work request of the program, such as a Send that tells of the octets written, posted right
    // behind the last descriptor; NULL: none. The request completes with it. Its wr_id, next and
    // IBV_SEND_SIGNALED are not looked at.
    const struct ibv_send_wr *trailer;
    // Called once, when the request is complete, from within the functions below that say so. It
    // may submit, cancel, and free the request. NULL: weft_rdma_manager_next_done() hands it out.
    void (*on_complete)(struct weft_rdma_request *request);
    void *context; // the program's

    struct weft_rdma_result result;

    uint64_t own[WEFT_RDMA_REQUEST_WORDS]; // the manager's
};

/* ---- managers -------------------------------------------------------------------------------- */

// Every 0 stands for a default.
struct weft_rdma_manager_attr {
    struct ibv_qp *qp; // RC; asked for its limits now, so not to be changed by ibv_modify_qp caps
    // The longest transfer in octets that the connection, and that the peer can bear. 0: any.
    uint64_t connection_max_len;
    uint64_t peer_max_len;
    uint32_t descriptor_count; // outstanding work requests, at most; default: the send queue's, and
                               // at most 256
    uint32_t segment_count;    // data segments of a descriptor, at most; default: the queue pair's
    uint32_t signal_interval;  // one descriptor of so many is signalled at least; default: a
                               // quarter of descriptor_count, and at most 64
    uint64_t quantum_len;      // octets that a request moves in its turn; default: 1 MiB
};

// The device is asked for its limits; the manager's memory is taken: for each descriptor, some 200
// bytes and 16 for each segment.
// -EINVAL: no RC queue pair, or one without a send queue or segments. -ENOMEM. Or what a query of
// the device answered. *ret_manager is set on success only.
int weft_rdma_manager_create(const struct weft_rdma_manager_attr *attr,
                             struct weft_rdma_manager **ret_manager);

// -EBUSY while requests are outstanding or wait to be handed out. Not from on_complete.
int weft_rdma_manager_destroy(struct weft_rdma_manager *manager);

enum weft_rdma_limit { WEFT_RDMA_DEVICE, WEFT_RDMA_CONNECTION, WEFT_RDMA_PEER };

struct weft_rdma_limits {
    uint64_t max_transfer_len; // the smallest of the three that follow
    uint64_t device_len;       // max_msg_sz of the port, and at most 2^31
    uint64_t connection_len;   // UINT64_MAX: any
    uint64_t peer_len;
    enum weft_rdma_limit limited_by;
    uint32_t write_segment_count;
    uint32_t read_segment_count; // devices may have fewer for reads (max_sge_rd), iWARP ones only 1
    uint32_t descriptor_count;
    uint32_t signal_interval;
};

void weft_rdma_manager_limits(const struct weft_rdma_manager *manager,
                              struct weft_rdma_limits *ret_limits);

struct weft_rdma_counters {
    uint64_t request_count; // accepted
    uint64_t success_count; // and how they ended
    uint64_t cancel_count;
    uint64_t failure_count;
    uint64_t refusal_counts[WEFT_RDMA_REFUSAL_COUNT]; // [WEFT_RDMA_ACCEPTED] stays 0
    uint64_t element_count;                           // of the accepted ones
    uint64_t len;                                     // likewise octets
    uint64_t descriptor_count;                        // formatted, trailers included
    uint64_t trailer_count;
    uint64_t segment_count;
    uint64_t shared_segment_count;    // buffers that joined the segment of the one before
    uint64_t coalesced_element_count; // elements that began in the descriptor of the one before
    uint64_t coalesced_request_count; // likewise requests
    uint64_t divided_count;           // descriptors that ended within an element
    uint64_t post_count;              // calls of ibv_post_send
    uint64_t signalled_count;
    uint64_t wc_count;            // completions taken
    uint64_t strange_wc_count;    // taken, but of no outstanding descriptor: ignored
    uint64_t no_descriptor_count; // times that formatting stopped because none was free
    uint64_t queue_full_count;    // times that ibv_post_send would take no more
};

void weft_rdma_manager_counters(const struct weft_rdma_manager *manager,
                                struct weft_rdma_counters *ret_counters);

/* ---- requests -------------------------------------------------------------------------------- */

enum weft_rdma_submit_flags {
    // More requests follow: nothing needs to be posted before the next submission without this
    // flag, or weft_rdma_manager_post(). So they leave in one chain, and may be coalesced.
    WEFT_RDMA_MORE = 1,
};

// Checks the whole request, counts its transfers, and posts as much as there are descriptors for.
// Several requests take turns by octets. May call on_complete, of this request too: a post that
// fails ends it. No order among requests is promised, and none of their octets' placement.
enum weft_rdma_refusal weft_rdma_request_submit(struct weft_rdma_manager *manager,
                                                struct weft_rdma_request *request, unsigned flags);

// Forms no more descriptors of the request. It is complete when those posted are, which may be at
// once; may call on_complete. False: too late, or never submitted; then nothing has changed.
bool weft_rdma_request_cancel(struct weft_rdma_request *request);

// Up to which octet descriptors have been formed: CURRENT ELEMENT, which buffer of it, and OFFSET.
struct weft_rdma_position {
    const struct weft_rdma_element *element; // NULL: all of them
    uint32_t element_index;
    uint32_t buffer_index;
    uint64_t offset;         // octets of that buffer
    uint64_t element_offset; // octets of the element
};

enum weft_rdma_request_phase {
    WEFT_RDMA_IDLE,      // never submitted, or refused
    WEFT_RDMA_QUEUED,    // some octets have no descriptor yet
    WEFT_RDMA_FORMATTED, // all octets have; their completions are awaited
    WEFT_RDMA_ENDING,    // cancelled or failed; completions of what was posted are awaited
    WEFT_RDMA_COMPLETE,
    WEFT_RDMA_PHASE_COUNT
};

// REQUEST STATE.
struct weft_rdma_request_state {
    enum weft_rdma_request_phase phase;
    uint64_t total_len;
    uint64_t remaining_len; // octets not known to be transferred
    // Work requests, those shared with other requests and the trailer included. The total is known
    // from submission on. It is counted anew when a request begins in the descriptor of another.
    uint64_t total_transfer_count;
    uint64_t formatted_transfer_count;
    uint64_t completed_transfer_count; // a success is complete exactly when it equals the total
    struct weft_rdma_position current;
};

void weft_rdma_request_query(const struct weft_rdma_request *request,
                             struct weft_rdma_request_state *ret_state);

/* ---- progress -------------------------------------------------------------------------------- */

// Takes a completion if it is the manager's, and goes on with what waits; false: it is somebody
// else's. Of *wc it reads wr_id, status and vendor_err. Completions are shown in the order polled.
// May call on_complete. One that is not the manager's does no harm: if the send queue was full of
// the program's own work requests, the manager tries again.
bool weft_rdma_manager_on_wc(struct weft_rdma_manager *manager, const struct ibv_wc *wc);

// Polls the queue pair's send CQ once, for up to `wc_count` completions into wc[], and takes those
// that are the manager's. Returns how many others are left, moved to the front of wc[]; or what
// ibv_poll_cq answered, if negative. May call on_complete.
int weft_rdma_manager_poll(struct weft_rdma_manager *manager, struct ibv_wc *wc, int wc_count);

// Posts what waits, if there are descriptors for it. May call on_complete.
void weft_rdma_manager_post(struct weft_rdma_manager *manager);

// The next complete request without on_complete, each once; NULL: none.
struct weft_rdma_request *weft_rdma_manager_next_done(struct weft_rdma_manager *manager);

// Ends every request now (IBV_WC_WR_FLUSH_ERR), for a queue pair that was destroyed or reset, so
// that no completions will come; the queue pair is not touched. From then on the manager takes no
// request. May call on_complete.
void weft_rdma_manager_flush(struct weft_rdma_manager *manager);

#ifdef __cplusplus
}
#endif
