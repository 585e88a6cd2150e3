// What the files of this room share: the queue pair itself and the functions between its parts.
//
//     transport_table.c   what the device asks of every transport
//     qp.c         creation, attributes, invariants, format
//     control.c    established, modify, closing, deadlines: what is asked for, what has been sent
//     output.c     which message is next, and its segments
//     push.c       Writes past the stream
//     pull.c       Reads past it
//     input.c      a ULPDU's way through check, placement, delivery
//     early.c      the same beyond a hole, and what happens when that closes
//     settle.c     the last thing in all of these: what follows from what happened
//
//     requester.c  from work request to message
//     request.c    from read context to request: Reads, atomics, flushes on their way
//     notice.c     the allotment, as two weft ends tell it each other
//     responder.c  the peer's requests and what answers them
//     receive.c    Sends and Immediate Data meet receives; the store for those that came too early
//     receive_early.c    ... beyond a hole, and the receives that their numbers name
//     receive_release.c  ... when it closes
//     response.c   responses meet the requests that wait for them
//     read_way.c   by which way Reads are faster
//     oneshot.c    marks and references of one-shot RDMA
//     ledger.c     what was placed beyond holes
//     error.c      refusals, Terminates
//     stream.c     the stream's state and events
//
// Calls go down this list; each door in its first part ends with settle.c, nothing below calls it.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/faster.h"
#include "base/list.h"
#include "base/qp_state.h"
#include "base/time.h"
#include "iwarp/qp.h"
#include "iwarp/rnr_store.h"
#include "iwarp/state.h"
#include "iwarp/tail.h"
#include "rdmap/early.h"
#include "rdmap/rx.h"
#include "rdmap/stream.h"
#include "rdmap/tx.h"
#include "wire/ddp.h"
#include "wire/extension.h"
#include "wire/rdmap.h"
#include "wire/terminate.h"
#include "wq/oneshot.h"
#include "wq/scatter.h"
#include "wq/wq.h"

// Whose message is being put.
enum tx_source {
    TX_NONE,
    TX_WORK_REQUEST, // the one at tx_handle
    TX_REQUEST,      // a read context's: no payload
    TX_RESPONSE,     // the oldest of the peer's requests
    TX_CONTROL,      // extension message, ready-to-receive, Terminate: no payload
};

// One request of the peer, from its placement in the slot that its number names until its response
// has been put.
struct peer_request {
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
    struct transport transport;
    struct wq wq; // the program's half
    struct qp_config config;
    enum qp_state state;
    enum qp_stream_state stream_state;
    struct qp_stream stream;     // as established
    uint32_t denied;             // MEM_ACCESS_*: see qp_set_rights
    atomic_bool peer_is_foreign; // engine writes, posters read: no extensions are agreed
    struct rdmap_stream rdmap;

    // Our reads.
    struct read_task ready_task; // start-up's own
    uint32_t ord_max;            // see qp_set_ord_max
    struct allotment allotment;
    enum allotment_event allotment_event; // that made its wish

    // The peer's requests.
    struct peer_request *peer_requests; // a ring: its memory is touched where it is used
    bool *peer_request_is_posted;       // of each slot
    uint32_t peer_request_capacity;
    uint32_t peer_request_head, peer_request_count;
    uint32_t peer_request_held_count; // delivered behind those: they wait as Sends before them do
    uint32_t ird;
    bool serves_none; // see qp_serve_none

    // Output.
    struct rdmap_tx tx;
    enum tx_source tx_source;
    uint32_t tx_handle;    // TX_WORK_REQUEST
    uint32_t turn_len;     // octets of responses put in the present turn
    bool is_response_next; // whose turn it is when both have something
    bool may_send;
    instant_ns silence_deadline; // a responder sends from here on, whatever has come
    bool is_extension_due, is_rtr_due, is_terminate_due;
    uint64_t put_position; // marks of the work queues are positions in the stream
    struct {
        bool is_offered;        // there is somebody who copies, in this call
        bool is_possible;       // ... and he is to
        bool is_refused;        // the oldest goes by the stream
        bool is_failed;         // what was posted behind them is at fault
        uint32_t taken_count;   // requests, the newest, that are neither put nor answered
        uint32_t out_count;     // ... of these, the oldest: their octets are being copied
        int run;                // Reads that went by the stream one behind the other
        uint32_t row_len;       // octets of Reads without a pause, as far as it matters
        uint32_t old_way_count; // requests that were out when the way turned
        struct faster ways;     // past the stream, or on it
        instant_ns answered_ns; // the last of them
    } pull;
    struct {
        bool is_out;     // the Write at tx_handle is being put there
        bool is_refused; // the next message goes by the stream
        bool is_left;    // ... is asked for again in the next turn
    } push;

    // Input.
    bool is_first_arrival_due; // nothing has arrived yet
    struct recv_wqe *receive;  // claimed by the message in progress
    struct scatter receive_scatter;
    struct rnr_store store;
    bool is_stalled;
    instant_ns rnr_deadline;
    struct early *early; // NULL: nothing is placed beyond holes

    // One-shot RDMA.
    uint8_t oneshot_captured[ONESHOT_REFERENCE_LEN_MAX]; // of the message that is arriving
    atomic_int oneshot_agreed; // engine writes, posters read; 0: not known yet

    // The end.
    bool is_llp_open;
    bool is_drained, is_flush_due, is_overrun_reported, is_last_wqe_reported;
    instant_ns terminate_deadline;
    struct terminate terminate_sent, terminate_received;
    uint8_t terminate_octets[TERMINATE_MAX_LEN]; // of the peer's, which may come in segments
    bool has_terminate_sent, has_terminate_received;
    const char *refused, *refused_by_peer; // the reasons of both; NULL: none

    struct qp_counters counters;
};

static inline bool qp_takes_input(const struct qp *qp)
{
    return qp->stream_state == QP_STREAM_OPEN || qp->stream_state == QP_STREAM_CLOSING;
}

// What is put before the stream ends, nothing else: has the transport taken it all?
static inline bool qp_is_all_handed(const struct qp *qp)
{
    return qp->wq.released_mark >= qp->put_position;
}

// The request whose answer comes next; NULL: none has been put.
static inline struct read_context *response_awaited(const struct qp *qp)
{
    return qp->wq.request_count > qp->pull.taken_count ? wq_request_oldest(&qp->wq) : NULL;
}

static inline struct peer_request *peer_request_oldest(struct qp *qp)
{
    return &qp->peer_requests[qp->peer_request_head];
}

// stream.c
void qp_stream_on(struct qp *qp, enum qp_stream_event event);
void qp_raise(struct qp *qp, enum qp_event event);

// settle.c
void qp_settle(struct qp *qp); // last thing in every engine-side call

// requester.c
enum rdmap_refusal requester_start(struct qp *qp); // qp->tx_source: is a message in qp->tx?
void requester_message_put(struct qp *qp);         // ... its last segment has been put
bool requester_start_rtr(struct qp *qp);
void requester_tell_facts(struct qp *qp); // what is agreed with the peer has changed

// request.c
enum rdmap_refusal request_start(struct qp *qp, struct read_context *context);
// ... of one that has been taken: it is among those that are out already.
enum rdmap_refusal request_start_taken(struct qp *qp, struct read_context *context);
bool request_start_ready(struct qp *qp); // start-up's zero-length Read; false: not yet

// notice.c
void notice_begin(struct qp *qp);                              // established
void notice_share(struct qp *qp, uint32_t peer_allotment_len); // the extensions are agreed
bool notice_is_due(const struct qp *qp);
void notice_start(struct qp *qp);
enum rdmap_refusal notice_deliver(struct qp *qp, const struct extension_message *message);

// push.c
// The message in progress is a Write that is being put into the peer's memory, or is left for who
// may: it is in progress no more. False: it is to be put.
bool push_start(struct qp *qp, struct ulpdu_sink *sink);

// pull.c
// Before each message: whether requests are taken for it, or wait for those before them.
void pull_look(struct qp *qp, const struct ulpdu_sink *sink);
bool pull_takes(const struct qp *qp, const struct read_context *context);
void pull_take(struct qp *qp, struct read_context *context);
// What has been taken: it is copied, or becomes the message in progress.
enum rdmap_refusal pull_start(struct qp *qp, struct ulpdu_sink *sink);
void pull_note_message(struct qp *qp, enum tx_source source); // it has been put
// Of the work requests nothing is put behind them until they are done.
static inline bool copy_is_in_the_way(const struct qp *qp)
{
    return qp->pull.out_count > 0 || qp->push.is_out;
}
static inline void pull_forget(struct qp *qp)
{
    CHECK(!copy_is_in_the_way(qp));
    qp->pull.taken_count = 0;
    qp->pull.is_refused = qp->pull.is_failed = false;
    qp->push.is_refused = false;
}

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
static inline uint32_t receive_due_msn(const struct qp *qp)
{
    return qp->rdmap.rx[DDP_QN_SEND].msn;
}
static inline struct recv_wqe **receive_early_at(const struct qp *qp, uint32_t msn)
{
    return &qp->early->receives[msn % EARLY_SEND_MAX];
}
struct recv_wqe *receive_take_early(struct qp *qp, uint32_t msn); // it is claimed now; NULL: none
struct recv_wqe *receive_pop_early(struct qp *qp); // any that is touched, for flushing; NULL: none
// The payload of a Send into a receive's list. DDP_TOO_LONG or RECEIVE_LOCAL.
enum rdmap_refusal receive_scatter(struct qp *qp, struct scatter *scatter,
                                   const struct rdmap_arrival *arrival);
bool receive_is_free_of_early(const struct qp *qp, const struct rdmap_arrival *arrival);
enum place_verdict receive_place_early(struct qp *qp, const struct rdmap_arrival *arrival,
                                       uint64_t end);

// receive_release.c
uint64_t receive_next_end(const struct qp *qp, const struct release *release);
enum rdmap_refusal receive_release(struct qp *qp, struct release *release);
// Behind the last message that ended: the one that is open now. False: it does not fit together.
bool receive_release_rest(struct qp *qp, struct release *release, uint32_t *ret_mo);

// oneshot.c
void oneshot_agree(struct qp *qp, uint8_t agreed); // EXTENSION_ONESHOT_ bits hold from here on
void oneshot_disagree(struct qp *qp);              // no connection: nothing is known
// A Send that may advertise or close starts: its mark, and the region that it opens.
void oneshot_start(struct qp *qp, struct send_wqe *wqe, struct rdmap_send *send);
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
void response_complete(struct qp *qp, struct read_context *context); // all of it has come
void response_forget_all(struct qp *qp);
enum place_verdict response_place_read_early(struct qp *qp, const struct rdmap_arrival *arrival,
                                             uint64_t end);
enum place_verdict response_place_atomic_early(struct qp *qp, const struct rdmap_arrival *arrival,
                                               uint64_t end);
uint64_t response_next_end(const struct qp *qp, const struct release *release);
enum rdmap_refusal response_release(struct qp *qp, struct release *release);
bool response_release_rest(struct qp *qp, struct release *release);

// read_way.c
void read_way_begin(struct qp *qp); // a new stream
// Reads that may go past the stream do.
bool read_way_is_past(const struct qp *qp);
// So many octets, asked for then, have come, by either way.
void read_way_note(struct qp *qp, instant_ns issued_ns, uint32_t len);

// ledger.c
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
// False: it is on its way out already, the first error is the one that counts.
bool qp_terminate(struct qp *qp, enum terminate_cause cause, const struct rdmap_offender *offender);
void qp_refuse(struct qp *qp, enum rdmap_refusal refusal, const struct rdmap_offender *offender);
enum rdmap_refusal qp_place_terminate(struct qp *qp, const struct rdmap_arrival *arrival);
enum rdmap_refusal qp_deliver_terminate(struct qp *qp, const struct rdmap_arrival *arrival);
