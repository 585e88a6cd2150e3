// An endpoint: one stream of the link with all that stands on it. It joins the rooms and decides
// nothing: conn/ says what start-up does next, mpa/ finds and frames FPDUs, iwarp/ does the rest.
//
//     link --recv--> staging --> conn (start-up frames)  --> events to the front
//                            \-> mpa_rx --> qp_on_ulpdu  --> completions
//     link --place-> placer ---/ \---------> qp_on_early_ulpdu, qp_on_advance
//     link <--send-- batch <-- mpa_tx <-- qp_output
//
// Everything here runs under the shard's lock, which api.c takes for the fronts.
#pragma once

#include "base/deadlines.h"
#include "base/list.h"
#include "base/port_link.h"
#include "base/port_push.h"
#include "conn/conn.h"
#include "conn/listener.h"
#include "conn/retry.h"
#include "iwarp/qp.h"
#include "meet/request.h"
#include "mpa/placer.h"
#include "mpa/rx.h"
#include "mpa/tx.h"
#include "rnic/batch.h"
#include "rnic/carry.h"
#include "rnic/ep/state.h"
#include "rnic/rnic.h"

struct point;
struct puller;

// EP_STARTING: from the first call or connection until the front knows how it ended. Of
// connect.c, startup.c and, at a point, qp/meeting_answer.c; what was agreed is read as long
// as it lives.
struct ep_startup {
    struct conn conn;
    struct conn_frames *frames;         // ... until it gives them back, or the stream is closed
    struct conn_retry retry;            // active: attempts after a refused one
    struct sockaddr_storage local_addr; // active: between two attempts to connect
    struct rnic_ep *listening_ep;       // passive: who accepted it, while that lives
    struct conn_admission admission;    // passive: the place in its listener's lists
    struct meeting_asker asking;        // passive, at a point: who asks for whom
    instant_ns kept_until_ns;           // ... and waits to be expected; INSTANT_NEVER: does not
    bool is_answered;                   // the front knows how start-up ended
};

// EP_OPEN and EP_CLOSING: what comes. Of input.c, mpa.c and place.c.
struct ep_in {
    struct mpa_rx rx;
    struct fpdu_carry *carry;  // for it: an FPDU in pieces; NULL: none is
    struct mpa_placer placer;  // is_placing
    struct place_port placing; // its port
    struct mspan backlog;      // room for octets that a stalled QP did not take
    struct span waiting;       // octets in it
    uint64_t received_len;     // octets that recv has given so far
    unsigned lent_looks;       // at what the link lends, which is a part of an FPDU
    instant_ns turn_at_ns;     // the present turn, for callbacks
    instant_ns moved_at_ns;    // when octets came last
    bool has_received;         // the peer's first FPDU is in
    bool is_paused;            // reading stopped: the QP's store is full
    bool may_resume;           // ... but it waits no longer: the next turn reads on
    bool is_stopped;           // the QP takes nothing more: input is thrown away
    bool has_fin;              // the peer's FIN has come, and waits until all has gone out
    bool is_placing;           // the link places, recv gives no octets any more
    bool is_in_link;           // it does so in a call of ours
    bool has_placed;           // it did so beside our calls; nobody has looked yet
    bool is_offer_declined;    // see ep_place_on_declined
};

// EP_OPEN and EP_CLOSING: what goes. Of output.c and settled.c.
struct ep_out {
    struct mpa_tx tx;
    struct batch *batch;       // what the link has not taken yet; NULL: nothing
    uint64_t settled_position; // of what the QP put, as it was told
    bool has_records;          // one FPDU per segment: so the link has it, or the peer is not weft
    bool wants_out;            // the link was asked for LINK_READY_OUT
    bool is_turn_over;         // its responses have had their turn, others are next
};

struct rnic_ep {
    struct list_link all_link, run_link, due_link, starved_link, left_link;
    struct deadline deadline;
    struct rnic *rnic;
    struct link_stream *stream; // NULL once closed
    enum ep_state state;
    struct rnic_ep_port port;          // where events go; on_event NULL: nowhere
    struct rnic_qp *qp;                // NULL until connected or accepted, and after the end
    struct sockaddr_storage peer_addr; // where to, or from where: a broken stream does not tell it
    struct point *point;               // whose port it has; NULL: any other endpoint
    uint8_t tos;
    bool is_initiator;
    bool is_meeting;     // two queue pairs met: nobody else knows it, so it ends with its stream
    bool is_mirrored;    // its stream leads back to it: the queue pair is its own peer
    unsigned admitted;   // what its peer may do past the stream, enum key_right: push.c
    bool is_established; // ESTABLISHED was delivered

    struct conn_listener listener; // EP_LISTENING
    struct ep_startup startup;
    struct ep_in in;
    struct ep_out out;
    instant_ns close_at_ns; // EP_CLOSING: the peer's FIN is awaited until then
};

// The queue pair's transport, where a stream carries it.
static inline struct qp *stream_qp(const struct rnic_qp *qp)
{
    return qp_of_transport(qp->transport);
}

// Its input was paused for want of a receive, and there is one now: no doorbell rings for it. True:
// it is to run again.
static inline bool ep_may_resume(struct rnic_ep *ep)
{
    ep->in.may_resume |= ep->in.is_paused && !qp_is_stalled(stream_qp(ep->qp));
    return ep->in.may_resume;
}

// Calls go down this list; what stands above calls what stands below, never the other way.

/* ---- turn.c: what the shard calls ------------------------------------------------------------ */

void ep_on_ready(struct rnic_ep *ep, unsigned what, instant_ns now);
bool ep_on_turn(struct rnic_ep *ep, instant_ns now); // reads and writes once; true if octets moved
void ep_on_deadline(struct rnic_ep *ep, instant_ns now);
// Its QP's doorbell was served.
void ep_on_doorbell(struct rnic_ep *ep, instant_ns now);
// After anything that may have moved start-up or the QP on: writes what is due, tells the front
// what has happened, closes if that is due, notes the next deadline. Called here, and by the shard
// for those that were put down (shard_settle_later).
void ep_settle(struct rnic_ep *ep, instant_ns now);

/* ---- connect.c: TCP's part of the active side ------------------------------------------------ */

struct conn_params ep_conn_params(const struct rnic_ep_params *params);
// In EP_BOUND, with its address: start-up begins. -EINVAL, also as ep_attach has it.
int ep_begin_connect(struct rnic_ep *ep, const struct sockaddr *dst, struct rnic_qp *qp,
                     const struct rnic_ep_params *params, instant_ns now);
// The same on a stream that leads back: nobody is asked, it is in full operation at once.
int ep_begin_with_itself(struct rnic_ep *ep, struct rnic_qp *qp,
                         const struct rnic_ep_params *params, instant_ns now);
void ep_on_connect_result(struct rnic_ep *ep, instant_ns now);
void ep_connect_again(struct rnic_ep *ep, instant_ns now); // as ep->startup.retry says

/* ---- input.c: octets from the link, and their end -------------------------------------------- */

// It got nothing for so long that it is no longer worth reading without asking the link.
bool ep_is_cold(const struct rnic_ep *ep, instant_ns now);
bool ep_input(struct rnic_ep *ep, instant_ns now);
void ep_resume_input(struct rnic_ep *ep, instant_ns now);
// The peer's FIN, which was kept until all had gone out, is read again if it has.
void ep_read_on(struct rnic_ep *ep, instant_ns now);
// The stream ended: the peer's FIN (0), or an error.
void ep_on_llp_end(struct rnic_ep *ep, int error, instant_ns now);

/* ---- startup.c: what conn/ wants ------------------------------------------------------------- */

void ep_startup(struct rnic_ep *ep, instant_ns now);

/* ---- output.c: octets to the link ------------------------------------------------------------ */

// Octets of the QP have not reached the link: closing now cannot be an orderly end. What the link
// has taken still goes out before FIN.
bool ep_has_output(const struct rnic_ep *ep);
bool ep_is_blocked(const struct rnic_ep *ep);
bool ep_output(struct rnic_ep *ep, instant_ns now);
void ep_want_out(struct rnic_ep *ep, bool wanted);

/* ---- life.c: it is made, and ends ------------------------------------------------------------ */

// In EP_BOUND, on no stream yet. NULL: no memory.
struct rnic_ep *ep_create(struct rnic *rnic, const struct rnic_ep_port *port);
// What a turn looks at of an endpoint (NULL: nothing), and of a queue pair on a stream, is asked
// for in advance.
void ep_fetch(const struct rnic_ep *ep);
void ep_fetch_qp(const struct rnic_qp *qp);
// Closes it, and nobody knows it any more: no event of it comes, and it is freed when the lock is
// let go. From anywhere, passes over the endpoints included.
void ep_doom(struct rnic_ep *ep, bool abort, instant_ns now);
// Its input belongs to its state, or the process ends.
void ep_move(struct rnic_ep *ep, enum ep_input input);
// Before EP_IN_START. -ENOMEM.
int ep_conn_init(struct rnic_ep *ep, bool is_initiator, instant_ns now);
// Nobody reads or writes start-up frames any more; harmless when it has none.
void ep_drop_frames(struct rnic_ep *ep);
// The QP is this connection's from here on. -EINVAL: one of them has its partner already, the QP
// is in no state to begin, or of another device (a parent process's).
int ep_attach(struct rnic_ep *ep, struct rnic_qp *qp);
void ep_detach(struct rnic_ep *ep); // harmless when it has no QP
void ep_report(struct rnic_ep *ep, const struct rnic_ep_event *event);
// Ends the stream and tells the QP and the front. Nothing happens the second time.
void ep_close(struct rnic_ep *ep, enum qp_close_reason reason, bool abort, instant_ns now);
// ... since the link said so.
void ep_break(struct rnic_ep *ep, int error, instant_ns now);
void ep_drop_batch(struct rnic_ep *ep); // harmless when it has none

/* ---- mpa.c: MPA in full operation ------------------------------------------------------------ */

// Asks for no CRC where octets never leave the host, unless the configuration does.
void ep_forgo_crc(struct rnic_ep *ep);
// The stream enters it: mpa_rx and mpa_tx as agreed. -ENOMEM.
int ep_mpa_open(struct rnic_ep *ep);
// The initiator took up what this end offered: it is weft. Nothing has been sent yet.
void ep_mpa_on_confirmed(struct rnic_ep *ep);

// Its octets are looked at where the link has them, and given back when they are done with. It
// stays so from its beginning until the queue pair takes nothing more.
bool ep_input_is_lent(const struct rnic_ep *ep);

// A carry buffer for what comes next. False: no memory.
bool ep_carry_borrow(struct rnic_ep *ep);
// Nobody needs it between two FPDUs.
void ep_carry_return(struct rnic_ep *ep);

/* ---- qp.c ------------------------------------------------------------------------------------ */

// The engine's half of a new queue pair. -EOPNOTSUPP: streams carry none of its type; -EINVAL,
// -ENOMEM.
int ep_create_qp(struct rnic_qp *qp, const struct rnic_qp_init *init);

/* ---- extension.c: as qp_port has it; `ctx` is the struct rnic_qp ----------------------------- */

void ep_on_extension(void *ctx, const struct extension_message *message);

/* ---- place.c: octets that the link places ---------------------------------------------------- */

bool ep_place_is_possible(const struct rnic *rnic);
// In full operation, and nothing is left of what recv gave: now the link places, if it can.
void ep_place_begin(struct rnic_ep *ep);
// The initiator did not take up what this end offered: it is not weft.
void ep_place_on_declined(struct rnic_ep *ep);
// After the link has placed: an error ends the stream. True: the QP takes nothing more for now.
bool ep_place_settle(struct rnic_ep *ep, instant_ns now);
// The QP may take again what it did not take before.
void ep_place_resume(struct rnic_ep *ep, instant_ns now);
enum place_verdict ep_on_early_ulpdu(void *ctx, struct span ulpdu, uint64_t end,
                                     struct place_counts *counts);
bool ep_on_advance(void *ctx, uint64_t end, const struct place_counts *counts);

/* ---- push.c: Writes and Reads past the stream ------------------------------------------------ */

// After whatever may have changed what the queue pair takes: lets the peer's in, or out.
void ep_note_admission(struct rnic_ep *ep);
// Out, whatever it takes. Who does not come out is waited for where the program ends the queue
// pair (qp->pull.leaver). Harmless when nobody is in.
void ep_expel(struct rnic_ep *ep);
// Ours may go past it: whoever drives may be held up by a copy, or leaves it to who may
// (rnic/pull.h).
bool ep_may_pass(const struct rnic_ep *ep, instant_ns now);
enum past_answer ep_push(struct rnic_ep *ep, const struct push *push);
enum past_answer ep_pull(struct rnic_ep *ep, const struct pull *pull);
void ep_on_pulled(struct rnic_qp *qp, const struct puller *puller, unsigned count, instant_ns now);
// Whether what is posted on it from now on may wait for company (rnic/gathering.h).
void ep_note_gathering(struct rnic_ep *ep);

/* ---- settled.c: what has come of what was handed to the link --------------------------------- */

// What the link has taken is not settled yet.
bool ep_settles_apart(const struct rnic_ep *ep);
// How much of what MPA has framed the link has.
uint64_t ep_handed_position(const struct rnic_ep *ep);
// Tells the QP what the link has settled; true if that was news.
bool ep_note_settled(struct rnic_ep *ep, instant_ns now);
// The acknowledgement of what was handed to the link is still to come.
bool ep_awaits_settlement(const struct rnic_ep *ep);
