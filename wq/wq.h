// Work queues as their transport sees them (base/port_transport.h says who owns what until when).
//
//   out       wq_next                 what leaves next: a message, or a request of a read
//             wq_hold                 ... nothing before some time
//             wq_send_address         to whom
//             wq_message_octets       the payload of a message, at any offset, until it is settled
//             wq_part_put, wq_message_put, wq_request_put
//   after     wq_on_released, wq_on_settled
//             wq_answer_place, wq_request_answered, wq_request_fail, wq_read_timeout
//   in        wq_receive_claim, wq_receive_peek, wq_receive_place, wq_complete_receive,
//             wq_receive_free
//   one-shot  wq/oneshot.h
//   the end   wq_fail, wq_send_fail, wq_close, wq_flush_sends, wq_flush_receives, wq_resume,
//             wq_reset
//
//     create.c    creation, invariants
//     post.c      what the program's side calls
//     start.c     order, fences, what can be done at once
//     request.c   read contexts on their way out and back
//     gather.c    payload by handle and offset
//     receive.c   where receives come from: a ring of its own, or an SRQ
//     scatter.c   placement into the list of a work request
//     complete.c  completions and flushing
//     oneshot.c   the command table of one-shot RDMA
//     journal.c   what is recorded for who asked
//
// All is serialised by the caller; before each call it sets `now`.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/guard.h"
#include "base/list.h"
#include "base/port_journal.h"
#include "base/port_transport.h"
#include "base/span.h"
#include "base/time.h"
#include "base/trace.h"
#include "cq/cq.h"
#include "mem/table.h"
#include "wq/counters.h"
#include "wq/filling.h"
#include "wq/oneshot.h"
#include "wq/read_sched.h"
#include "wq/ring.h"
#include "wq/scatter.h"
#include "wq/srq.h"
#include "wq/status.h"
#include "wq/wqe.h"

enum { WQ_MESSAGE_MAX_LEN_LOG2 = 31 };
#define WQ_MESSAGE_MAX_LEN (1ULL << WQ_MESSAGE_MAX_LEN_LOG2) // octets in one message

struct wq_caps {
    uint32_t max_send_wr, max_recv_wr;   // entries; rounded up to powers of two
    uint32_t max_send_sge, max_recv_sge; // 0..SGE_COUNT_MAX
    uint32_t max_inline_len;             // octets
};

struct wq_config {
    uint32_t qp_num;
    uint32_t pd;
    struct wq_caps caps; // max_recv_wr is not looked at with an srq
    struct cq *send_cq, *recv_cq;
    struct srq *srq; // NULL: a receive queue of its own
    bool sq_sig_all;
    bool write_flush;        // a signalled Write completes behind a zero-length Read
    uint32_t address_len;    // octets of each send entry that say to whom it goes; 0: to the peer
    uint32_t address_key_at; // of the address: its 32 bits that records name whom by
    struct mem_table *mem;
    struct read_sched *read_sched; // the device's; NULL: one of its own, with ord_max contexts
    uint32_t ord_max;              // reads and atomics outstanding at most
    duration_ns read_timeout_ns;   // how long an answer may make no progress; 0: for ever
    struct trace *trace;           // NULL: none
    struct journal *journal;       // NULL: nobody has asked
    // A read context came free: there is output, outside of any call on these queues.
    void (*on_runnable)(void *ctx);
    // One that was chosen to be measured is about to complete, successfully. NULL: not wanted.
    void (*on_sampled)(void *ctx, enum wqe_opcode opcode, instant_ns posted_at_ns);
    void *ctx;
    struct guard guard; // of the caller who serialises all that is below
};

// How far the payload of the message asked for last was followed.
struct message_cursor {
    uint32_t handle;
    uint32_t index;  // element
    uint64_t offset; // in the message, where the next octet is expected
    uint64_t within; // octets of the element before that
};

struct wq {
    struct wq_config *config;
    struct wq_counters *counters;
    struct transport_facts facts;
    instant_ns now; // of the call being served

    // Send queue: [head, sq_next) has left and waits; sq_next is being worked on.
    struct wqe_ring sq;
    uint32_t sq_next;
    uint32_t address_at;   // where entries have it
    uint32_t sq_end;       // is_closed: what is posted from here on stays
    bool is_closed;        // see wq_close
    bool is_sq_begun;      // sq_next was looked at: its progress holds
    bool is_sq_blocked;    // sq_next waits for earlier reads to complete, or to be asked for
    instant_ns not_before; // see wq_hold
    struct message_cursor cursor;
    uint64_t released_mark, settled_mark;

    // Reads, and their outstanding requests, oldest first.
    struct read_sched *own_read_sched; // NULL: the device's
    struct read_flow reads;
    struct list_link requests;
    uint32_t request_count;
    bool keeps_requests;            // the transport wants none now
    const struct send_wqe *written; // its memory is written to outside of any call, so that it is
                                    // not over, whatever happens; NULL: none
    uint32_t ord;

    // Receives.
    struct wqe_ring rq; // not with an SRQ
    uint32_t rq_next;   // own ring: first one that no message has claimed

    // One-shot RDMA.
    struct oneshot_table *_Atomic oneshot; // NULL: no command can be posted
    uint32_t oneshot_open_count;           // its commands that the peer can reach

    // The end.
    bool is_silent;       // the program is destroying it: no completion any more
    bool has_overrun;     // a completion was lost
    bool has_no_peer;     // the next work request to be flushed says so
    bool has_failed_send; // a send has completed with an error: none after it is successful
    uint32_t peer_fault;  // what the peer said of it, for vendor_err; 0: nothing
};

// -EINVAL: a capability out of range; -ENOMEM; what mem_sinks_reserve says. `config` and `counters`
// stay the caller's, and there; config->caps becomes what was really made. After a failure as after
// a success: wq_fini.
int wq_init(struct wq *wq, struct wq_config *config, struct wq_counters *counters);
// No request is out any more (wq_requests_forget).
void wq_fini(struct wq *wq);
// Verifies the invariants; false when one is broken. `claimed_count`: receives of the own ring that
// the transport holds.
bool wq_check(const struct wq *wq, uint32_t claimed_count);

uint32_t wq_send_count(const struct wq *wq);    // posted and not complete
uint32_t wq_receive_count(const struct wq *wq); // posted and not claimed

static inline struct send_wqe *wq_send_at(const struct wq *wq, uint32_t handle)
{
    return wqe_ring_at(&wq->sq, handle);
}

static inline uint32_t wq_send_head(const struct wq *wq)
{
    return wqe_ring_head(&wq->sq);
}

// What the poster has told the transport of the entry, config.address_len octets. Nobody here looks
// into it, but for its key in records.
static inline void *wq_send_address(const struct wq *wq, struct send_wqe *wqe)
{
    return (uint8_t *)wqe + wq->address_at;
}

// Behind the last work request that was looked at: the progress of those before it holds.
static inline uint32_t wq_begun_end(const struct wq *wq)
{
    return wq->sq_next + (wq->is_sq_begun ? 1 : 0);
}

/* ---- out ------------------------------------------------------------------------------------- */

uint32_t wq_unbegun_count(const struct wq *wq); // posted, and not put (wq_message_put)

enum transport_next wq_next(struct wq *wq, struct transport_work *ret);
// A request alone, if a read context is there. A transport may post tasks of its own, by which it
// asks for no octets (READ_KIND_READY).
bool wq_next_request(struct wq *wq, struct transport_work *ret);
// May wq_next find something? Never no when it would.
bool wq_has_work(const struct wq *wq);
bool wq_has_entry(const struct wq *wq); // ... of the send queue: requests of reads left aside
// What wq_next finds, if that is a message, which waits for nothing. NULL: it is not, or nothing.
const struct send_wqe *wq_next_message(const struct wq *wq);
// A walk over those that have not begun, from the next on. It is over behind the last of them, or
// at one that is neither message nor Read, or before which something else has to come: what is
// fenced off, or requests of a Read that has begun.
struct wq_transfers {
    const struct wq *wq;
    uint32_t next, end;
};
struct wq_transfers wq_transfers_begin(const struct wq *wq);
const struct send_wqe *wq_transfers_next(struct wq_transfers *walk); // NULL: it is over

// Nothing leaves before `until`: the peer has no receive yet, or a rate asks for it. wq_next and
// wq_has_work know; what is to be sent again the transport holds back by itself.
static inline void wq_hold(struct wq *wq, instant_ns until)
{
    wq->not_before = until;
}

static inline bool wq_is_held(const struct wq *wq)
{
    return wq->now < wq->not_before;
}

static inline instant_ns wq_hold_deadline(const struct wq *wq) // INSTANT_NEVER: it is not held
{
    return wq_is_held(wq) ? wq->not_before : INSTANT_NEVER;
}

// The octets [offset, offset + len) of a message's payload, len > 0, in at most SGE_COUNT_MAX
// pieces; 0: the memory is not usable.
unsigned wq_message_octets(struct wq *wq, uint32_t handle, uint64_t offset, size_t len,
                           struct span *pieces);
// A message of the work request has been put, and another one follows.
void wq_part_put(struct wq *wq);
// Its last message has been put: it is over once `end_mark` is settled, and its requests answered.
void wq_message_put(struct wq *wq, uint64_t end_mark);
// The request leaves, or is about to, before any other; it begins at this mark.
void wq_request_put(struct wq *wq, struct read_context *context, uint64_t mark);
// One that was only about to: it leaves now, by the allotment that holds now.
void wq_request_put_at_last(struct wq *wq, struct read_context *context, uint64_t mark);

// Everything before the mark has been taken, `len` octets more than before.
void wq_on_released(struct wq *wq, uint64_t mark, uint64_t len);
void wq_on_settled(struct wq *wq, uint64_t mark);
// Does a work request whose memory may be read again name this local region as a source?
bool wq_reads_from(const struct wq *wq, uint32_t lkey);
// ... the one that wq_next gave last?
bool wq_next_reads_from(const struct wq *wq, uint32_t lkey);
// Does a Read that has left and is not over name it as its destination?
bool wq_reads_into(const struct wq *wq, uint32_t lkey);

/* ---- back ------------------------------------------------------------------------------------ */

// The request that was put first and is out; NULL: none.
static inline struct read_context *wq_request_oldest(const struct wq *wq)
{
    return wq->request_count == 0 ? NULL : LIST_ENTRY(wq->requests.next, struct read_context, link);
}

// All of the answer is there: context->arrived_len octets of it.
void wq_request_answered(struct wq *wq, struct read_context *context);
// Octets at `offset` of an answer, into the list of the work request; for who has no other name for
// its window (mem_sink_open).
enum scatter_verdict wq_answer_place(const struct wq *wq, const struct read_context *context,
                                     uint64_t offset, struct span payload);
// Where the first `len` octets of an answer belong, in at most `max` pieces. 0: in more, or memory
// is not usable.
unsigned wq_answer_places(const struct wq *wq, const struct read_context *context, uint64_t len,
                          struct mspan *ret, unsigned max);
// The request that wq_next gave cannot be made, though it may have been said to leave: its work
// request fails.
void wq_request_fail(struct wq *wq, struct read_context *context, enum wc_status status);
// Nothing more is asked for, and no answer is waited for.
void wq_requests_forget(struct wq *wq);

instant_ns wq_read_deadline(const struct wq *wq);
// The time for an answer begins anew.
void wq_read_wait_on(struct wq *wq);
// No answer came in time: the oldest read fails. False: no completion will tell.
bool wq_read_timeout(struct wq *wq);

void wq_set_ord(struct wq *wq, uint32_t ord);

/* ---- in -------------------------------------------------------------------------------------- */

bool wq_receive_is_posted(const struct wq *wq); // one that no message has claimed
struct recv_wqe *wq_receive_claim(struct wq *wq);
struct recv_wqe *wq_receive_claim_shared(struct wq *wq); // with an SRQ alone: its oldest, or NULL
// Own ring: the one `ahead` places behind the next to be claimed; NULL: not posted.
struct recv_wqe *wq_receive_peek(const struct wq *wq, uint32_t ahead);
// Unused. By who polls; the engine only gives back receives of an SRQ, or keeps who polls out.
void wq_receive_free(struct wq *wq, struct recv_wqe *wqe);
// Octets at `offset` of a message, into the list of the receive that it has claimed.
enum scatter_verdict wq_receive_place(const struct wq *wq, struct scatter *scatter, uint64_t offset,
                                      struct span payload);
uint32_t wq_receive_pd(const struct wq *wq); // the domain of its local keys

// The completion of a receive whose `message` is filled in, or of one without a message.
void wq_complete_receive(struct wq *wq, struct recv_wqe *wqe, uint32_t status, bool is_solicited);
void wq_complete_receive_without(struct wq *wq, struct recv_wqe *wqe, uint32_t status);

/* ---- the end --------------------------------------------------------------------------------- */

// The work request at which wq_next stands fails.
void wq_fail(struct wq *wq, enum wc_status status);

// One that has left fails: its completion is due.
static inline void wq_send_fail(struct send_wqe *wqe, enum wc_status status)
{
    wqe->progress.phase = SEND_DONE;
    wqe->progress.status = status;
}

// May its completion be reported, once all before it are?
bool wq_is_due(const struct wq *wq, const struct send_wqe *wqe);
// Completes those that are due.
void wq_complete_sends(struct wq *wq);

// What is posted from here on is not begun.
void wq_close(struct wq *wq);
bool wq_is_drained(const struct wq *wq); // closed, and all before it is complete

// Everything that is posted completes: what is due as it is, the rest as flushed. A claimed
// receive is flushed by itself.
void wq_flush_sends(struct wq *wq);
void wq_flush_receive(struct wq *wq, struct recv_wqe *wqe);
void wq_flush_receives(struct wq *wq); // of the own ring

// After wq_close: what is posted from here on is begun, and what failed before says nothing of it.
// All that was begun has completed; what was posted behind wq_close has not begun, and the program
// may be posting at this moment.
void wq_resume(struct wq *wq);
// A new connection; marks begin at 0.
void wq_begin(struct wq *wq);
// Back to empty queues, without completions. The receive CQ's poller is kept out.
void wq_reset(struct wq *wq);
