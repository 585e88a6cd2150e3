// A queue pair: the program's work queues on one side, one RDMAP stream on the other.
//
//   program side   wq/filling.h on qp_wq                 lock-free against the engine
//   engine side    everything else; serialised by the caller (a shard's lock)
//
//     qp_on_established   the stream is in full operation
//     qp_on_ulpdu         one ULPDU from the peer: placed, then delivered
//     qp_on_early_ulpdu   one beyond a hole of the stream: placed
//     qp_on_advance       ... delivered, the hole being closed
//     qp_output           ULPDUs to the peer, as long as the sink has room
//     qp_on_handed        the transport has taken what was put before this stream position
//     qp_on_settled       ... and nobody has to send it again: work requests complete
//     qp_on_llp_closed    the stream is gone
//     qp_next_deadline, qp_on_deadline
//     qp_check, qp_format
//
// After each engine-side call the caller looks at qp_has_output, qp_wants_close and
// qp_next_deadline. Nothing here locks, blocks, or allocates after qp_create.
//
// What the caller must see to:
// - Memory that was put by reference is read until the transport has taken it. A work request is
//   completed, flushed ones too, only when qp_on_handed or qp_on_llp_closed says that nothing of it
//   is referenced any more. So: call qp_on_llp_closed only after dropping what was batched.
// - When qp_wants_close says abort, drop the batch, reset the stream, call qp_on_llp_closed.
// - The device's read scheduler goes into qp_config.read_sched. With NULL the queue pair makes one
//   of its own and reserves its sinks in the STag table, which never gives them back.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/key_mirror.h"
#include "base/port_ulpdu.h"
#include "base/qp_state.h"
#include "base/span.h"
#include "base/time.h"
#include "base/transport.h"
#include "iwarp/counters.h"
#include "iwarp/state.h"
#include "rdmap/terminate.h"
#include "wire/extension.h"
#include "wq/allotment.h"
#include "wq/wq.h"

struct qp;

// Called inside engine-side functions; must not call back into the queue pair. NULL: not wanted.
struct qp_port {
    void (*on_event)(void *ctx, enum qp_event event);
    // The peer's choices were delivered; NULL: the first ULPDU was another one, so nothing
    // of ours is agreed (responder that offered, once).
    void (*on_extension)(void *ctx, const struct extension_message *message);
    void *ctx;
};

struct qp_config {
    struct wq_config wq;        // on_runnable: qp_has_output became true
    uint32_t allotment_len;     // octets that a read may ask for at a time; 0: undivided
    uint32_t response_turn_len; // octets of read responses put at a time; 0: no bound
    bool may_follow;            // more will do: see qp_wish_allotment
    struct qp_port port;
    bool tx_copy;               // Sends and Writes are copied when put
    duration_ns rnr_timeout_ns; // how long a Send may wait for a receive; 0: for ever
    size_t rnr_store_len;       // octets of Sends that may wait
    uint32_t ird_max;           // most that any stream will have
    bool places_early;          // qp_on_early_ulpdu will be called
};

// -EINVAL: a capability out of range; -ENOMEM; what mem_sinks_reserve says. The PD is the caller's
// to hold. The new queue pair is in QP_INIT.
int qp_create(const struct qp_config *config, struct qp **ret);
// About to be destroyed: no completion and no event from here on, whatever ends.
void qp_silence(struct qp *qp);
// Drops everything without completions: what is batched must be gone, the CQs purged by the caller.
void qp_destroy(struct qp *qp);

// The queue pair as the device has it (iwarp/transport_table.c), and back.
extern const struct transport_ops iwarp_transport_ops;
static inline struct transport *qp_transport(struct qp *qp)
{
    return (struct transport *)qp; // it stands first
}
static inline struct qp *qp_of_transport(struct transport *t)
{
    return (struct qp *)t;
}

uint32_t qp_num(const struct qp *qp);
struct wq *qp_wq(struct qp *qp); // its work queues
enum qp_state qp_state_of(const struct qp *qp);
enum qp_stream_state qp_stream_state(const struct qp *qp);
const struct qp_counters *qp_counters(const struct qp *qp);

/* ---- the program's side ---------------------------------------------------------------------- */

// 0, or -EOPNOTSUPP: what RFC 7306 knows, where the one-shot opcodes have taken its place; and Send
// with Immediate towards an RFC peer. RFC 7306 has immediate data as a
// message of its own, which takes a receive of its own; only between weft ends does a Send carry it
// (in the four octets where Send with Invalidate has its STag, announced by a DDP header bit).
// Before the stream is established everything may be posted; it then fails with
// IBV_WC_LOC_QP_OP_ERR if the peer turns out to be another.
int qp_may_post(const struct qp *qp, enum wqe_opcode opcode);

// What the connection agreed on: EXTENSION_ONESHOT_ bits, 0: the STag travels in the body, and Send
// with Invalidate closes. -ENOTCONN: there is none yet, or it is not known yet.
int qp_oneshot_agreed(const struct qp *qp);

/* ---- the engine's side ----------------------------------------------------------------------- */

// Ready-to-receive indications of RFC 6581, equal to enum mpa_rtr.
enum qp_rtr { QP_RTR_SEND = 1, QP_RTR_WRITE = 2, QP_RTR_READ = 4 };

struct qp_stream {
    uint32_t mulpdu; // octets in a ULPDU at most, at least MULPDU_MIN
    uint16_t ird;    // requests of the peer that we hold at a time; at most config.ird_max counts
    uint16_t ord; // requests of ours that the peer holds at a time; at most config.ord_max counts
    bool is_own_peer;   // both ends are this queue pair: peer_is_weft, and nothing is left to tell
    bool settles_apart; // what the transport has taken is not settled yet: qp_on_settled follows
    bool is_initiator;
    bool may_send;          // false: not before the first ULPDU has arrived (responder)
    duration_ns silence_ns; // ... or the initiator has been silent for so long; 0: for ever
    bool peer_is_weft; // initiator: the extensions are agreed, the extension message with `choices`
                       // is the first ULPDU. Responder: they were offered; agreed once it arrives
    bool peer_is_siw;  // Terminates are read in siw's bit order
    uint8_t rtr; // initiator: the one indication to send first, 0: none; the extension message
                 // stands in for it. Responder: the kinds that may come, qp_rtr bits
    uint8_t oneshot_offered; // responder, peer_is_weft: EXTENSION_ONESHOT_ bits to choose from
    struct extension_message choices; // initiator, peer_is_weft
    uint32_t told_allotment_len;      // peer_is_weft: this node's wish, as start-up told it
    uint32_t peer_allotment_len;      // initiator, peer_is_weft: the peer's, likewise
};

// Once per life, or again after QP_RESET.
void qp_on_established(struct qp *qp, const struct qp_stream *stream, instant_ns now);

// Before anything was put: ULPDUs may be longer than the stream said when it was established.
void qp_use_mulpdu(struct qp *qp, uint32_t mulpdu);

// One ULPDU, in order. ULPDU_STALL: the store for Sends without a receive is full; offer the same
// one again when qp_is_stalled says no. ULPDU_STOP: the stream is over, nothing more is taken.
enum ulpdu_answer qp_on_ulpdu(struct qp *qp, struct span ulpdu, instant_ns now);

// One ULPDU beyond a hole of the stream, whose FPDU ends at `end`; see base/port_ulpdu.h. What may
// only happen in order, when nothing is missing before, waits for qp_on_advance: completions,
// invalidations, answers to requests, atomics.
enum place_verdict qp_on_early_ulpdu(struct qp *qp, struct span ulpdu, uint64_t end,
                                     struct place_counts *counts, instant_ns now);
// Nothing is missing before `end`. False: not now, again when qp_is_stalled says no.
bool qp_on_advance(struct qp *qp, uint64_t end, const struct place_counts *counts, instant_ns now);

// A doorbell rang. Receives: the store is drained. Sends: flushed at once if the stream is over.
void qp_on_receive_posted(struct qp *qp, instant_ns now);
void qp_on_send_posted(struct qp *qp, instant_ns now);
bool qp_is_stalled(const struct qp *qp);    // the last ULPDU was answered with ULPDU_STALL
bool qp_wants_receive(const struct qp *qp); // Sends wait in the store, or stalled: for receives

// What a message looks at of it is asked for in advance (base/fetch.h): for one that was not used
// lately.
void qp_fetch(const struct qp *qp);

// May say yes when qp_output then finds that a fence or ORD holds everything back; never no when
// something could be put.
bool qp_has_output(const struct qp *qp);
// What must be put although the peer will say nothing more: not requests of ours.
bool qp_owes_output(const struct qp *qp);
// Puts ULPDUs until the sink has no room, nothing may leave now, or its turn is over: then true,
// and other queue pairs' responses go first.
bool qp_output(struct qp *qp, struct ulpdu_sink *sink, instant_ns now);

// The copies that the sink's `pull` has begun are over: so many, from the first on, are there and
// good; the other Reads go by the stream. Until then the queue pair is neither reset nor destroyed;
// its stream may end.
void qp_on_pulled(struct qp *qp, unsigned good_count, instant_ns now);
// ... the one that its `push` has begun: the Write is in the peer's memory, or goes by the stream.
void qp_on_pushed(struct qp *qp, bool is_done, instant_ns now);

// Everything before `stream_position` was taken by the transport.
void qp_on_handed(struct qp *qp, uint64_t stream_position, instant_ns now);
// Everything before it reaches the peer whatever becomes of this process; at most what was handed.
// For streams that settle apart: what they sent completes now, so that a program that has seen its
// completions may end without a word (_exit, a signal).
void qp_on_settled(struct qp *qp, uint64_t stream_position, instant_ns now);

// This node's wish for the allotment is another from here on: its requests follow at once, the peer
// is told if it is one that understands. `may_follow`: more will do, if the peer's pipe holds more.
void qp_wish_allotment(struct qp *qp, uint32_t allotment_len, bool may_follow,
                       enum allotment_event event, instant_ns now);

const char *qp_close_reason_name(enum qp_close_reason reason);

// The stream is gone and nothing that was put is referenced any more: both queues are flushed.
void qp_on_llp_closed(struct qp *qp, enum qp_close_reason reason, instant_ns now);
// MPA found an error: a Terminate with this cause goes out, then the stream ends.
void qp_on_stream_error(struct qp *qp, enum terminate_cause cause, instant_ns now);

// 0; -EINVAL: the state table forbids it. To QP_RESET: the receive CQ's poller is kept out.
int qp_modify(struct qp *qp, enum qp_state to, instant_ns now);

// Should the stream be closed now? `*ret_abort`: by a reset; otherwise everything that was put has
// been handed, and FIN follows it. Stays true until qp_on_llp_closed.
bool qp_wants_close(const struct qp *qp, bool *ret_abort);

// What the peer may do to registered memory through this queue pair: MEM_ACCESS_REMOTE_*. All of it
// until this is called, and again after a reset.
void qp_set_rights(struct qp *qp, uint32_t rights);
// What the peer may do to memory here past the stream, which is open: enum key_right, or-ed.
unsigned qp_rights_past_stream(const struct qp *qp);

// How many Reads and atomics of its own may be outstanding, whatever the peer would serve; 0: they
// are refused. config.ord_max until this is called, and again after a reset.
void qp_set_ord_max(struct qp *qp, uint32_t ord_max);
// Serves no Read and no atomic of the peer's, but for Reads of no octets: those are questions of
// weft's own, and start-up frames cannot say that there may be none. Until a reset.
void qp_serve_none(struct qp *qp);

// The peer that the program named cannot be found: the oldest work request fails with
// IBV_WC_RETRY_EXC_ERR, all others are flushed. Only before a stream was established.
void qp_on_no_peer(struct qp *qp, instant_ns now);

instant_ns qp_next_deadline(const struct qp *qp);
void qp_on_deadline(struct qp *qp, instant_ns now);

// The last Terminate of either direction, for messages that name it; NULL: none.
const struct terminate *qp_terminate_sent(const struct qp *qp);
const struct terminate *qp_terminate_received(const struct qp *qp);

struct qp_attributes qp_query(const struct qp *qp);

// Verifies the invariants; false when one is broken.
bool qp_check(const struct qp *qp);
// One line without a newline, cut at `len`; returns `buf`.
const char *qp_format(const struct qp *qp, char *buf, size_t len);
