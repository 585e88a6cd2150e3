// What the files of this room share: the queue pair itself and the functions between its parts.
//
//     qp.c         creation, attributes, invariants, format
//     control.c    established, modify, closing, deadlines: every change of state
//     sq.c         the send queue's ring
//     rq.c         where receives come from: a ring of its own, or an SRQ
//     requester.c  from work request to messages: what the send queue starts next
//     request.c    from read context to request: Reads, atomics, flushes on their way
//     notice.c     the allotment, as two weft ends tell it each other
//     responder.c  the peer's requests and what answers them
//     output.c     which message is next, and its segments
//     input.c      a ULPDU's way through check, placement, delivery
//     early.c      the same beyond a hole, and what happens when that closes
//     receive_early.c  Sends beyond a hole, and the receives that their numbers name
//     receive.c    Sends and Immediate Data meet receives; the store for those that came too early
//     oneshot.c    the command table of one-shot RDMA
//     response.c   responses meet the requests that wait for them
//     complete.c   completions and flushing
//     error.c      refusals, Terminates
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"
#include "qp/oneshot.h"
#include "qp/qp.h"
#include "qp/rnr_store.h"
#include "rdmap/early.h"
#include "rdmap/rx.h"
#include "rdmap/stream.h"
#include "rdmap/tx.h"

enum { CACHE_LINE_LEN = 64 };

// Work completion statuses and opcodes (enum ibv_wc_status, ibv_wc_opcode); verbs/ asserts them.
enum wc_status {
    WC_SUCCESS = 0,
    WC_LOC_LEN_ERR = 1,
    WC_LOC_QP_OP_ERR = 2,
    WC_LOC_PROT_ERR = 4,
    WC_WR_FLUSH_ERR = 5,
    WC_MW_BIND_ERR = 6,
    WC_REM_INV_REQ_ERR = 9,
    WC_REM_ACCESS_ERR = 10,
    WC_REM_OP_ERR = 11,
    WC_RETRY_EXC_ERR = 12,
    WC_RNR_RETRY_EXC_ERR = 13,
    WC_GENERAL_ERR = 21,
};
enum wc_opcode {
    WC_SEND = 0,
    WC_RDMA_WRITE = 1,
    WC_RDMA_READ = 2,
    WC_COMP_SWAP = 3,
    WC_FETCH_ADD = 4,
    WC_BIND_MW = 5,
    WC_LOCAL_INV = 6,
    WC_RECV = 128,
    WC_RECV_RDMA_WITH_IMM = 129,
};

// A ring of entries of one size between the program, which posts, and the engine, which consumes
// in order; they are freed in order. Indices run on and wrap at 2^32; the capacity is a power of
// two.
struct wqe_ring {
    uint8_t *memory;
    uint32_t stride; // octets
    uint32_t capacity;
    _Alignas(CACHE_LINE_LEN) _Atomic uint32_t posted; // program writes
    uint32_t freed_seen;                              // program's last look at `freed`
    _Alignas(CACHE_LINE_LEN) _Atomic uint32_t freed;  // all before it may be reused: the engine
                                                      // writes it, for receives who polls
};

int wqe_ring_init(struct wqe_ring *ring, uint32_t capacity, size_t entry_len);
void wqe_ring_fini(struct wqe_ring *ring);
// Program.
void *wqe_ring_slot(struct wqe_ring *ring, unsigned ahead);
void wqe_ring_commit(struct wqe_ring *ring, unsigned count);
// Engine.
static inline uint32_t wqe_ring_posted(const struct wqe_ring *ring)
{
    return atomic_load_explicit(&ring->posted, memory_order_acquire);
}
static inline uint32_t wqe_ring_head(const struct wqe_ring *ring)
{
    return atomic_load_explicit(&ring->freed, memory_order_relaxed);
}
static inline void *wqe_ring_at(const struct wqe_ring *ring, uint32_t index)
{
    return ring->memory + (size_t)(index & (ring->capacity - 1)) * ring->stride;
}
static inline void wqe_ring_free_to(struct wqe_ring *ring, uint32_t index)
{
    atomic_store_explicit(&ring->freed, index, memory_order_release);
}

// Where in the scatter list of a message the next segment begins.
struct gather_cursor {
    uint32_t index;  // element
    uint64_t offset; // octets of it that are in segments already
};

// Whose message is being put.
enum tx_source {
    TX_NONE,
    TX_WORK_REQUEST, // the one at sq_next
    TX_REQUEST,      // a read context's: no payload
    TX_RESPONSE,     // the oldest of the peer's requests
    TX_CONTROL,      // extension message, ready-to-receive, Terminate: no payload
};

// One request of the peer, from its placement in the slot that its number names until its response
// has been put.
struct peer_request {
    bool is_posted; // it is here; the doorbell may not have rung yet
    bool is_atomic;
    uint64_t end;                       // placed beyond a hole: position in the stream behind it
    uint32_t send_msn;                  // delivered: of the Send behind it
    struct rdmap_atomic_request atomic; // as it came
    uint32_t length;                    // reads: octets
    uint32_t sent_len;                  // reads: of them put
    uint32_t source_key;                // reads
    uint64_t source_addr;
    uint32_t sink_key;
    uint64_t sink_addr;
    uint32_t request_id; // atomics
    uint64_t original;   // atomics: executed at delivery
    struct rdmap_offender offender;
};

enum {
    EARLY_SEND_MAX = 256,  // how far a Send may be ahead of the one that is due
    EARLY_SHARED_MAX = 32, // receives of an SRQ that one queue pair may hold so
};

// What has been placed beyond holes of the stream.
struct early {
    struct ddp_coverage coverage;
    struct recv_wqe *receives[EARLY_SEND_MAX]; // by message number; of those that are touched and
                                               // not qp->receive
    unsigned receive_count;
    uint64_t delivering_end; // no message that is delivered now ends behind this position in the
                             // stream, and none that ends before it is still held back
    uint64_t furthest;       // position at which anything was placed
    uint64_t base;           // of all streams before this one together
};

// A hole that closes: what it held back, and what of it has been delivered.
struct release {
    uint64_t end; // position in the stream up to which nothing is missing any more
    struct place_counts held, done;
};

#define RELEASE_NEVER UINT64_MAX // behind every position

struct qp {
    struct qp_config config;
    enum qp_state state;
    enum qp_stream_state stream_state;
    struct qp_stream stream; // as established
    uint32_t denied;         // MEM_ACCESS_*: see qp_set_rights
    struct rdmap_stream rdmap;
    instant_ns now;              // of the call being served
    atomic_bool peer_is_foreign; // engine writes, posters read: no extensions are agreed

    // Send queue: [head, sq_next) has left and waits; sq_next is being worked on.
    struct wqe_ring sq;
    uint32_t sq_next;
    uint32_t sq_close_at; // CLOSING: what is posted from here on stays
    bool is_sq_begun;     // sq_next was looked at: its progress holds
    bool is_sq_blocked;   // sq_next waits for earlier reads to complete, or to be asked for
    struct gather_cursor gather;

    // Our reads, and their outstanding requests, oldest first.
    struct read_sched *own_read_sched; // NULL: the device's
    struct read_flow reads;
    struct read_task ready_task; // start-up's own
    struct list_link requests;
    uint32_t request_count;
    uint32_t ord;
    uint32_t ord_max; // see qp_set_ord_max
    struct allotment allotment;
    enum allotment_event allotment_event; // that made its wish

    // The peer's requests.
    struct peer_request *peer_requests; // a ring
    uint32_t peer_request_capacity;
    uint32_t peer_request_head, peer_request_count;
    uint32_t peer_request_held_count; // delivered behind those: they wait as Sends before them do
    uint32_t ird;
    bool serves_none; // see qp_serve_none

    // Output.
    struct rdmap_tx tx;
    enum tx_source tx_source;
    uint32_t turn_len;     // octets of responses put in the present turn
    bool is_response_next; // whose turn it is when both have something
    bool may_send;
    instant_ns silence_deadline; // a responder sends from here on, whatever has come
    bool is_extension_due, is_rtr_due, is_terminate_due;
    uint64_t put_position, handed_position, settled_position;

    // Input.
    bool is_first_arrival_due; // nothing has arrived yet
    struct wqe_ring rq;        // not with an SRQ
    uint32_t rq_next;          // own ring: first one that no message has claimed
    struct recv_wqe *receive;  // claimed by the message in progress
    struct ddp_buffer receive_buffer;
    struct rnr_store store;
    bool is_stalled;
    instant_ns rnr_deadline;
    struct early *early; // NULL: nothing is placed beyond holes

    // One-shot RDMA.
    struct oneshot_table *_Atomic oneshot; // NULL: no command can be posted
    uint32_t oneshot_open_count;           // its commands that the peer can reach
    atomic_int oneshot_agreed;             // engine writes, posters read; 0: not known yet

    // The end.
    bool is_silent; // the program is destroying it
    bool is_llp_open;
    bool is_drained, is_flush_due, has_overrun, is_last_wqe_reported;
    bool has_no_peer;     // the next work request to be flushed says so
    bool has_failed_send; // a send has completed with an error: none after it is successful
    instant_ns terminate_deadline;
    struct terminate terminate_sent, terminate_received;
    uint8_t terminate_octets[TERMINATE_MAX_LEN]; // of the peer's, which may come in segments
    bool has_terminate_sent, has_terminate_received;

    struct qp_counters counters;
};

static inline struct send_wqe *sq_at(const struct qp *qp, uint32_t index)
{
    return wqe_ring_at(&qp->sq, index);
}

// Was the work request at this index, which is in the queue, looked at yet? Its progress holds.
static inline bool sq_has_begun(const struct qp *qp, uint32_t index)
{
    return (int32_t)(index - (qp->sq_next + (qp->is_sq_begun ? 1 : 0))) < 0;
}

// Up to where the send queue may be worked on.
static inline uint32_t sq_limit(const struct qp *qp)
{
    return qp->stream_state == QP_STREAM_CLOSING ? qp->sq_close_at : wqe_ring_posted(&qp->sq);
}

static inline bool qp_takes_input(const struct qp *qp)
{
    return qp->stream_state == QP_STREAM_OPEN || qp->stream_state == QP_STREAM_CLOSING;
}

// What is put before the stream ends, nothing else: has the transport taken it all?
static inline bool qp_is_all_handed(const struct qp *qp)
{
    return qp->handed_position >= qp->put_position;
}

static inline struct peer_request *peer_request_oldest(struct qp *qp)
{
    return &qp->peer_requests[qp->peer_request_head];
}

// control.c
void qp_stream_on(struct qp *qp, enum qp_stream_event event);
void qp_settle(struct qp *qp); // last thing in every engine-side call
void qp_raise(struct qp *qp, enum qp_event event);

// rq.c
bool rq_has_posted(const struct qp *qp); // one that no message has claimed
struct recv_wqe *rq_claim(struct qp *qp);
// By who polls. The engine only frees receives of an SRQ, or keeps who polls out.
void rq_free(struct qp *qp, struct recv_wqe *wqe);
uint32_t rq_pd(const struct qp *qp);

// requester.c
bool requester_start(struct qp *qp);       // true: a message of the send queue is in qp->tx
void requester_message_put(struct qp *qp); // ... and its last segment has been put
// The next `len` octets of its payload, at most SGE_COUNT_MAX pieces; 0: memory is not usable.
// `*ret_next` is the cursor behind them.
unsigned requester_gather(const struct qp *qp, size_t len, struct span *pieces,
                          struct gather_cursor *ret_next);
void requester_fail(struct qp *qp, enum wc_status status);
bool requester_start_rtr(struct qp *qp);

// request.c
bool request_start(struct qp *qp); // true: a request is in qp->tx
// The work request at sq_next needs requests: they are made when a read context is there.
void request_post(struct qp *qp, struct send_wqe *wqe, enum read_kind kind, uint64_t length);
bool request_start_ready(struct qp *qp); // start-up's zero-length Read
// The transport has taken the octets from the one position in the stream to the other.
void request_on_handed(struct qp *qp, uint64_t from, uint64_t to);
instant_ns request_deadline(const struct qp *qp);
void request_on_deadline(struct qp *qp);

// notice.c
void notice_begin(struct qp *qp);                              // established
void notice_share(struct qp *qp, uint32_t peer_allotment_len); // the extensions are agreed
bool notice_is_due(const struct qp *qp);
void notice_start(struct qp *qp);
enum rdmap_refusal notice_deliver(struct qp *qp, const struct extension_message *message);

// responder.c
// Puts the request into the slot that its number names.
enum rdmap_refusal responder_post(struct qp *qp, const struct rdmap_arrival *arrival);
// The doorbell for the next slot: its request is processed.
enum rdmap_refusal responder_deliver(struct qp *qp, const struct rdmap_arrival *arrival);
// Those that waited for Sends before them, which have found their receives since.
void responder_ring_held(struct qp *qp);
void responder_forget(struct qp *qp);
enum place_verdict responder_place_early(struct qp *qp, const struct rdmap_arrival *arrival,
                                         uint64_t end);
uint64_t responder_next_end(const struct qp *qp, const struct release *release);
enum rdmap_refusal responder_release(struct qp *qp, struct release *release);
bool responder_start(struct qp *qp);
void responder_message_put(struct qp *qp);
// The next octets of the oldest response, at most `*len`; `*len` becomes what the pieces hold.
enum rdmap_refusal responder_gather(struct qp *qp, size_t *len, struct span *ret_pieces,
                                    unsigned *ret_count);

// input.c
void qp_count_arrival(struct qp *qp, const struct rdmap_arrival *arrival);

// receive.c
bool receive_has_room(struct qp *qp, const struct rdmap_arrival *arrival); // false: stall
bool receive_is_waiting(const struct qp *qp); // the arrival has no receive: it goes to the store
void receive_store(struct qp *qp, const struct rdmap_arrival *arrival);
enum rdmap_refusal receive_place(struct qp *qp, const struct rdmap_arrival *arrival);
enum rdmap_refusal receive_deliver(struct qp *qp, const struct rdmap_arrival *arrival);
void receive_drain(struct qp *qp);
void receive_give_up(struct qp *qp);   // no receive was posted in time
void receive_forget(struct qp *qp);    // the claimed receive goes back unused
bool receive_must_wait(struct qp *qp); // Sends in the store go before what a closing hole releases

static inline bool receive_is_immediate(const struct rdmap_arrival *a)
{
    return a->opcode == RDMAP_IMMEDIATE || a->opcode == RDMAP_IMMEDIATE_SE;
}
// A receive for the message with this number, which has none; qp->receive stays NULL: not posted.
void receive_claim(struct qp *qp, uint32_t msn);

// receive_early.c
struct recv_wqe *receive_take_early(struct qp *qp, uint32_t msn); // it is claimed now; NULL: none
bool receive_is_free_of_early(const struct qp *qp, const struct rdmap_arrival *arrival);
enum place_verdict receive_place_early(struct qp *qp, const struct rdmap_arrival *arrival,
                                       uint64_t end);
uint64_t receive_next_end(const struct qp *qp, const struct release *release);
enum rdmap_refusal receive_release(struct qp *qp, struct release *release);
// Behind the last message that ended: the one that is open now. False: it does not fit together.
bool receive_release_rest(struct qp *qp, struct release *release, uint32_t *ret_mo);
struct recv_wqe *receive_pop_early(struct qp *qp); // any that is touched, for flushing; NULL: none

// oneshot.c
void oneshot_fini(struct qp *qp);
bool oneshot_check(const struct qp *qp);
void oneshot_agree(struct qp *qp, uint8_t agreed); // EXTENSION_ONESHOT_ bits hold from here on
void oneshot_disagree(struct qp *qp);              // no connection: nothing is known
// A Send that may advertise or close starts: its mark, and the region that it opens.
void oneshot_start(struct qp *qp, struct send_wqe *wqe, struct rdmap_send *send);
// The work request leaves the queue; what it did not open is free again. `has_begun`: its progress
// holds.
void oneshot_wqe_ended(struct qp *qp, const struct send_wqe *wqe, bool has_begun);
void oneshot_detach_all(struct qp *qp);
// A segment of a Send: keeps what it has of the reference. The last one is told the reference, and
// that it closes, also where the peer says so in the words of RFC 5040.
void oneshot_note(struct qp *qp, struct rdmap_arrival *arrival);
enum rdmap_refusal oneshot_deliver_advertise(struct qp *qp, const struct rdmap_arrival *arrival);
enum rdmap_refusal oneshot_deliver_close(struct qp *qp, const struct rdmap_arrival *arrival);
// The same for segments beyond a hole: the octets are kept with the receive. Before the first one
// of a message, part of which may be here in order already; each; when all of it is delivered.
void oneshot_begin_early(struct qp *qp, struct recv_early *early, bool is_in_progress);
void oneshot_note_early(struct qp *qp, struct recv_early *early,
                        const struct rdmap_arrival *arrival);
void oneshot_recall_early(struct qp *qp, const struct recv_early *early,
                          struct rdmap_arrival *arrival);

// response.c
enum rdmap_refusal response_place_read(struct qp *qp, const struct rdmap_arrival *arrival);
enum rdmap_refusal response_deliver_read(struct qp *qp, const struct rdmap_arrival *arrival);
enum rdmap_refusal response_deliver_atomic(struct qp *qp, const struct rdmap_arrival *arrival);
void response_expect(struct qp *qp, struct read_context *context);
void response_forget_all(struct qp *qp);
enum place_verdict response_place_read_early(struct qp *qp, const struct rdmap_arrival *arrival,
                                             uint64_t end);
enum place_verdict response_place_atomic_early(struct qp *qp, const struct rdmap_arrival *arrival,
                                               uint64_t end);
uint64_t response_next_end(const struct qp *qp, const struct release *release);
enum rdmap_refusal response_release(struct qp *qp, struct release *release);
bool response_release_rest(struct qp *qp, struct release *release);

// complete.c
void complete_sends(struct qp *qp);
// The completion of a receive whose `message` is filled in, or of one without a message.
void complete_receive(struct qp *qp, struct recv_wqe *wqe, uint32_t status, bool is_solicited);
void complete_receive_without(struct qp *qp, struct recv_wqe *wqe, uint32_t status);
bool complete_is_due(const struct qp *qp, const struct send_wqe *wqe);
void complete_flush(struct qp *qp);

// early.c
int early_init(struct qp *qp); // -ENOMEM
void early_fini(struct qp *qp);
void early_begin(struct qp *qp); // a new stream
enum early_kind { EARLY_SEND, EARLY_RESPONSE };
static inline uint64_t early_key(enum early_kind kind, uint32_t number)
{
    return (uint64_t)kind << 32 | number;
}
// Nothing placed early stands at [from, to) of the message, nor, if that is its end, behind.
bool early_is_free(const struct qp *qp, uint64_t key, uint32_t from, uint32_t to, bool is_last);

// error.c
void qp_restart_terminate(struct qp *qp); // the peer takes what stands before it
void qp_refuse(struct qp *qp, enum rdmap_refusal refusal, const struct rdmap_offender *offender);
enum rdmap_refusal qp_place_terminate(struct qp *qp, const struct rdmap_arrival *arrival);
enum rdmap_refusal qp_deliver_terminate(struct qp *qp, const struct rdmap_arrival *arrival);
