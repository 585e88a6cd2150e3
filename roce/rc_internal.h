// What the files of RC share: the queue pair itself and the functions between its parts.
//
//     rc_transport.c  creation, the table of calls, invariants, format
//     rc_modify.c     attributes and states
//     rc_input.c      a packet's way to who it is for
//     rc_output.c     answers, then requests, as long as there is room
//     rc_timer.c      silence
//
//     rc_completer.c  what the peer answers to what is out
//     rc_early.c      answers to Reads beyond one that is missing, placed at once
//     rc_requester.c  what is out: order of PSNs, window, sending again
//     rc_company.c    what of it waits for more, so that packets leave together
//     rc_repeat.c     what has arrived beyond a hole, and what therefore leaves again alone
//     rc_request.c    the packet that a mark stands for
//     rc_push.c       Writes past packets
//     rc_tail.c       when to ask again, since the last packets of a flight may be lost
//     rc_responder.c  what the peer asks for: the checks, in their order, and what is done
//     rc_answer.c     Reads and atomics that are remembered, and what leaves for them
//     rc_held.c       packets beyond a hole, kept until it has closed
//     rc_ahead.c      ... of Writes, whose octets are in place before that
//     rc_receive.c    messages of the peer meet receives and memory
//     rc_oneshot.c    commands that are opened, and closed by Send with Invalidate
//     rc_error.c      refusals, and the end
//     rc_packet.c     one packet to the sink
//     rc_ballast.c    what makes packets of a message equally long
//     rc_share.c      what it may have out, with all others of the device
//     rc_greeting.c   whether the peer is a weft end too
//     rc_credits.c    receives at either end, as the other one is told
//
// rc_refusal.h, rc_counters.h and rc_store.h say for themselves what they are. Shared with the
// unreliable services: inbound.h (a message of several packets), packet.h.
//
// Calls go down this list. A mark is a PSN without its wrap; marks begin at RC_MARK_FIRST, so that
// those before a first PSN have one too.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/port_datagram.h"
#include "base/port_transport.h"
#include "base/qp_state.h"
#include "base/sge.h"
#include "base/span.h"
#include "base/time.h"
#include "base/transport.h"
#include "congestion/cnp.h"
#include "congestion/share.h"
#include "congestion/window.h"
#include "roce/inbound.h"
#include "roce/rc.h"
#include "roce/rc_refusal.h"
#include "wire/psn.h"
#include "wire/roce.h"
#include "wire/sack.h"
#include "wq/oneshot.h"
#include "wq/wq.h"

#define RC_MARK_FIRST (UINT64_C(1) << 24)
#define RC_MARK_NONE  UINT64_MAX

enum {
    RC_HELD_MAX = 256,        // packets beyond a hole that are kept, and known to be
    RC_LATER_ONES = 3,        // that have come behind a packet, which is lost then
    RC_READ_PACKETS_MIN = 16, // that one Read of ours may bring, whatever the window
    RC_ATOMIC_LEN = 8,
    RC_PMTU_MAX = 4096,
};

/* ---- payload --------------------------------------------------------------------------------- */

// Memory that packets are cut from, one after the other.
struct rc_payload {
    struct span pieces[SGE_COUNT_MAX];
    unsigned at; // the piece in which the next begins
};

/* ---- requester ------------------------------------------------------------------------------- */

// A message or a request that is out: it has its PSNs, and something of it may have left.
struct rc_out {
    uint64_t first, end;          // its marks; of a Read: those of its answer
    uint32_t handle;              // a message's work request
    uint32_t claim;               // receives that it takes, and all before it, since the beginning
    struct read_context *context; // of a Read or atomic; NULL: a message
};

// A packet that was sent once and that tells how long a round trip takes.
struct rc_probe {
    uint64_t end; // it is acknowledged when this mark is reached; RC_MARK_NONE: no packet
    instant_ns sent_at;
};

// The tail-loss probe (RFC 8985, section 7).
struct rc_tail {
    instant_ns at;  // when nothing has come until then
    uint32_t count; // that have left, since something was acknowledged
    bool is_due;
    bool is_alone; // the last was acknowledged, and nothing behind it
    uint64_t mark; // of the last; RC_MARK_NONE: nothing has left, or something came since
};

// A packet that has left: of a message each, of a Read or atomic the request.
struct rc_sent {
    uint64_t mark;
    instant_ns sent_at; // the last time
    uint64_t order;     // in which it left then: no connection lasts until that begins anew
    uint32_t span;      // PSNs that it has: of a Read as many as are asked for
    bool is_again;
    bool is_here; // beyond a hole: the peer says so
    bool is_lost; // is to leave again
};

// Selective repeat, towards weft ends.
struct rc_repeat {
    struct rc_sent *sent; // by mark; as many as have been out at a time, RC_HELD_MAX at most
    uint32_t capacity;    // of `sent`, a power of two; 0: nothing has left yet
    uint64_t placed[RC_HELD_MAX / 64]; // a bit for each mark: the answer came early
    uint32_t placed_count;
    uint64_t placed_end; // all of them are before
    uint64_t order;      // of what left last
    uint64_t newest;     // of what is known to have arrived, the one that left last
    uint32_t here_count, lost_count;
    uint64_t lost_span; // PSNs that those have which are lost
    uint64_t here_end;  // all of them are before
};

// Receives of the peer's, counted from the first message on that takes one.
struct rc_credits {
    bool is_limited;      // by what the peer has said; until then nothing is known
    uint32_t begun_count; // that what has begun takes
    uint32_t done_count;  // ... and what was acknowledged has taken
    uint32_t limit;       // so many the peer has, or had
};

struct rc_requester {
    struct rc_out *outs; // a ring, in the order of marks
    uint32_t capacity, head, count;
    uint32_t send_index;   // the one that send_mark is in; count: it is behind them all
    uint64_t acked_mark;   // the peer is done with all before: it stands in the oldest of `outs`
    uint64_t heard_mark;   // ... and who follows that has heard of all before: rc_complete_progress
    uint64_t send_mark;    // of the packet that leaves next, again perhaps
    uint64_t sent_mark;    // all before has left at least once
    uint64_t next_mark;    // of what begins next
    uint64_t asked_mark;   // the last packet that asked for an acknowledgement is before
    uint64_t told_mark;    // gone back to it already, for what the peer said
    uint64_t inside_mark;  // Reads have been asked for again from inside, before it
    uint64_t refused_mark; // the peer refuses this for good, and still answers what is before
    uint8_t refused_code;  // ... with this code
    instant_ns retry_at;   // nothing may come for so long
    instant_ns hold_until; // the peer has no receive
    uint32_t timeout_count; // in a row, without progress
    uint32_t not_ready_count;
    struct congestion congestion;
    struct rc_probe probe;
    struct rc_tail tail;
    struct rc_repeat repeat;
    struct rc_credits credits;
    uint32_t allotment_len; // octets of a Read; 0: undivided
    bool is_held_back;      // by window or pace, of what could have left
};

static inline struct rc_out *rc_out_at(const struct rc_requester *q, uint32_t i)
{
    return &q->outs[(q->head + i) & (q->capacity - 1)];
}

// Packets that the network has, as far as is known; of Reads, those of their answers.
static inline uint64_t rc_in_flight(const struct rc_requester *q)
{
    uint64_t out = q->send_mark - q->acked_mark;
    uint64_t not_in = q->repeat.here_count + q->repeat.placed_count + q->repeat.lost_span;
    return out > not_in ? out - not_in : 0;
}

/* ---- responder ------------------------------------------------------------------------------- */

// A Read or an atomic of the peer's, from when it was taken until its place is needed.
struct rc_answer {
    uint64_t first, end; // marks of its packets
    uint64_t begin_mark; // where the present run of them began
    uint64_t send_mark;  // of the next that leaves; `until_mark`: none
    uint64_t until_mark; // where that run ends: a weft end asks for what is missing alone
    bool is_atomic;
    bool is_again;  // it has been answered before
    uint8_t opcode; // of the request
    uint32_t rkey;
    uint64_t va;
    uint32_t length;   // a Read's
    uint64_t original; // an atomic's: what the answer brings
};

// The one acknowledgement or refusal that is to leave; the latest says all that those before did.
struct rc_word {
    bool is_due;
    uint8_t syndrome;
    uint64_t mark;
};

// A packet beyond a hole.
struct rc_held_packet {
    uint64_t mark;             // 0: none
    struct roce_packet packet; // its payload is in `block`, or where it belongs
    uint8_t *block;            // of the device's store; NULL: it has no payload there
    uint64_t write_mark;       // it is in place already: of its Write's first packet; 0: it is not
    uint32_t rkey;             // ... by this key
};

struct rc_held {
    struct rc_held_packet *packets; // RC_HELD_MAX, by mark; NULL: there never was one
    uint32_t count;
    uint32_t ahead_count; // of them, those that are in place already
    struct mspan ahead;   // ... all of which lie in here; meaningless if there are none
    uint64_t end;         // all are before
};

// Where a packet with this mark is kept, if it is; there has been one.
static inline struct rc_held_packet *rc_held_place(const struct rc_held *h, uint64_t mark)
{
    return &h->packets[mark & (RC_HELD_MAX - 1)];
}

// NULL: it is not kept.
static inline struct rc_held_packet *rc_held_slot(const struct rc_held *h, uint64_t mark)
{
    return h->count > 0 && rc_held_place(h, mark)->mark == mark ? rc_held_place(h, mark) : NULL;
}

struct rc_responder {
    uint64_t expected_mark;
    uint32_t msn;            // messages finished, 24 bits
    bool has_told_hole;      // one refusal for each hole; also while no receive is posted
    bool is_unready;         // it is for want of a receive
    enum rc_refusal refusal; // it has refused the peer for good
    struct inbound in;       // the message that is arriving
    struct rc_held held;
    struct rc_answer *answers; // a ring, in the order of marks
    uint32_t capacity, head, count;
    uint32_t limit;         // Reads and atomics that the peer may have out
    uint32_t pending_count; // answers of which something is to leave
    struct rc_word word;
    struct cnp_pace cnp_pace;
    bool is_cnp_due; // packets came marked
};

static inline struct rc_answer *rc_answer_at(const struct rc_responder *r, uint32_t i)
{
    return &r->answers[(r->head + i) % r->capacity];
}

/* ---- greeting -------------------------------------------------------------------------------- */

// Whether the peer is a weft end too.
struct rc_greeting {
    bool is_known;      // it is, for as long as this connection lasts
    uint32_t heard;     // greetings in a row
    uint32_t put_count; // packets that were greeted
    uint64_t newest[2]; // marks of the last that were heard: of requests, of answers
};

/* ---- past packets ---------------------------------------------------------------------------- */

struct rc_push {
    bool is_out;     // the next in the send queue is being put into the peer's memory
    bool is_refused; // ... could not be: it goes by packets
    bool is_writer;  // what began last was a Write, and alone
};

/* ---- the queue pair -------------------------------------------------------------------------- */

struct rc {
    struct transport transport; // first
    struct wq wq;               // the program's half
    struct rc_config config;
    enum qp_state state;
    struct qp_change attributes; // as set last; its mask: since RESET; its states mean nothing
    uint32_t denied;             // MEM_ACCESS_REMOTE_*: what it grants nobody
    struct rc_requester req;
    struct rc_responder resp;
    struct rc_greeting greeting;
    struct rc_push push;
    struct congestion_member member;
    bool is_established_told, is_drained_told, is_overrun_told;
    atomic_bool has_peer; // from RTR until it is reset; posters ask
    uint8_t
        oneshot_captured[ONESHOT_REFERENCE_LEN_MAX]; // the reference in the message that arrives
    struct rc_counters counters;
};

static inline struct rc *rc_of(struct transport *t)
{
    return (struct rc *)(void *)t;
}

static inline const struct rc *rc_of_const(const struct transport *t)
{
    return (const struct rc *)(const void *)t;
}

// The call that is served comes at this time. Who waited for its turn looked at the clock before
// those who were served meanwhile: time does not go back here.
static inline void rc_at(struct rc *rc, instant_ns now)
{
    rc->wq.now = rc->wq.now < now ? now : rc->wq.now;
}

static inline uint32_t rc_pmtu(const struct rc *rc)
{
    return rc->attributes.path_mtu;
}

// How many packets so many octets are.
static inline uint64_t rc_packet_count(const struct rc *rc, uint64_t len)
{
    return len == 0 ? 1 : (len + rc_pmtu(rc) - 1) / rc_pmtu(rc);
}

static inline struct mem_asker rc_asker(const struct rc *rc)
{
    return (struct mem_asker){
        .pd = rc->config.wq.pd,
        .qp_num = rc->config.wq.qp_num,
        .denied = rc->denied,
    };
}

/* ---- rc_modify.c ----------------------------------------------------------------------------- */

int rc_modify(struct transport *t, const struct qp_change *change, instant_ns now);

/* ---- rc_input.c, rc_output.c, rc_timer.c ----------------------------------------------------- */

void rc_on_packet(struct transport *t, const struct datagram_rx *rx, instant_ns now);
void rc_on_packets_over(struct transport *t, instant_ns now);
bool rc_has_output(const struct transport *t);
void rc_output(struct transport *t, const struct datagram_sink *sink, instant_ns now);
instant_ns rc_next_deadline(const struct transport *t);
void rc_on_deadline(struct transport *t, instant_ns now);

/* ---- rc_completer.c -------------------------------------------------------------------------- */

// What it acknowledges nobody has heard of before rc_complete_progress.
void rc_take_answer(struct rc *rc, const struct roce_packet *p);
// Window, timers, memory and completions follow what was acknowledged: once for packets that come
// together, and before anything but an answer is looked at.
void rc_complete_progress(struct rc *rc);
void rc_complete_timeout(struct rc *rc); // nothing came for too long
void rc_complete_tail(struct rc *rc);    // the time of rc_tail is over

/* ---- rc_requester.c -------------------------------------------------------------------------- */

bool rc_requester_resize(struct rc_requester *q);     // room for more at a time; false: no memory
void rc_requester_begin(struct rc *rc, uint32_t psn); // a new connection
void rc_requester_end(struct rc *rc);                 // nothing is out any more
bool rc_requester_has_output(const struct rc *rc);
instant_ns rc_requester_paced_until(const struct rc *rc); // INSTANT_NEVER: it is not held back
void rc_requester_output(struct rc *rc, const struct datagram_sink *sink);
// Back to what is not acknowledged. A loss is told to congestion/ before.
void rc_requester_go_back(struct rc *rc);
// So many packets more were acknowledged: what leaves next is behind them.
void rc_requester_advanced(struct rc *rc, uint64_t packet_count);
void rc_requester_arm(struct rc *rc); // the time for an answer begins anew
// Octets that the next Read asks for at most, as window and allotment are now.
uint32_t rc_requester_read_len(const struct rc *rc);
// Before contexts are handed out: they are for that much.
void rc_requester_follow_read_len(struct rc *rc);

/* ---- rc_company.c ---------------------------------------------------------------------------- */

// The mark from which on what has not begun waits for company; RC_MARK_NONE: nothing waits.
uint64_t rc_company_from(const struct rc *rc);

/* ---- rc_repeat.c ----------------------------------------------------------------------------- */

void rc_repeat_clear(struct rc_repeat *r);
void rc_repeat_has_left(struct rc *rc, uint64_t mark, uint64_t end);
// All between `before` and acked_mark has been acknowledged.
void rc_repeat_passed(struct rc *rc, uint64_t before);
void rc_repeat_on_sack(struct rc *rc, uint64_t missing_mark, const struct sack *sack);
// The peer has answered what it was asked for before this mark: what of it is not here is to be
// asked for again, but once in a round trip.
void rc_repeat_answers(struct rc *rc, uint64_t before);
const struct rc_sent *rc_repeat_next(const struct rc_requester *q); // to leave again; or NULL
// Something is here, or in place, behind what is missing; or it is to leave again.
static inline bool rc_has_hole(const struct rc_requester *q)
{
    const struct rc_repeat *r = &q->repeat;
    return r->here_count + r->placed_count + r->lost_count > 0;
}

/* ---- rc_early.c ------------------------------------------------------------------------------ */

// Is it the packet of the answer to this Read with this mark?
bool rc_is_read_packet(const struct rc *rc, const struct rc_out *o, const struct roce_packet *p,
                       uint64_t mark);
// Places an answer that is not due yet. False: it is none, and has to come again.
bool rc_early_place(struct rc *rc, const struct roce_packet *p, uint64_t mark);
bool rc_early_is_placed(const struct rc_requester *q, uint64_t mark); // not acknowledged yet
void rc_early_pass(struct rc_requester *q, uint64_t mark); // its turn has come, placed or not
// Where what is missing from this mark on ends, of an answer that ends at `end`.
uint64_t rc_early_next(const struct rc_requester *q, uint64_t mark, uint64_t end);

/* ---- rc_request.c ---------------------------------------------------------------------------- */

enum rc_put { RC_PUT_DONE, RC_PUT_NO_ROOM, RC_PUT_FAILED };

// Puts the packet of `o` at this mark. A Read is asked for from there to `end`. RC_PUT_FAILED: its
// memory is not usable, and the queue pair is over.
enum rc_put rc_request_put(struct rc *rc, const struct datagram_sink *sink, const struct rc_out *o,
                           uint64_t mark, uint64_t end, bool is_asking);

// Packets of a message, one after the other, whose payload is looked up once.
struct rc_run {
    struct send_wqe *wqe;
    uint64_t mark, offset; // of the next packet
    struct rc_payload payload;
};

// So many from this mark on. False: as RC_PUT_FAILED.
bool rc_run_begin(struct rc *rc, const struct rc_out *o, uint64_t mark, uint64_t count,
                  struct rc_run *ret);
// Puts the next of them. False: no room.
bool rc_run_put(struct rc *rc, const struct datagram_sink *sink, struct rc_run *run,
                bool is_asking);

/* ---- rc_push.c ------------------------------------------------------------------------------- */

// The message that is about to begin goes past packets: it does not begin.
bool rc_push_start(struct rc *rc, const struct datagram_sink *sink,
                   const struct transport_work *work);
bool rc_gate(const struct transport *t, struct gate *ret); // as in struct transport_ops
void rc_on_pushed(struct transport *t, bool is_done, instant_ns now);

/* ---- rc_tail.c ------------------------------------------------------------------------------- */

void rc_tail_arm(struct rc *rc); // something has left, or was acknowledged
void rc_tail_stop(struct rc_tail *t);
void rc_tail_has_left(struct rc *rc); // the packet at acked_mark, once more

/* ---- rc_responder.c -------------------------------------------------------------------------- */

void rc_responder_begin(struct rc *rc, uint32_t psn);
void rc_take_request(struct rc *rc, const struct roce_packet *p);

/* ---- rc_answer.c ----------------------------------------------------------------------------- */

// Places for so many, before the first has come. False: no memory.
bool rc_answer_resize(struct rc_responder *r, uint32_t limit);
// Is there place to remember one more? False: the peer has more out than it may.
bool rc_answer_has_room(const struct rc *rc);
// Takes it; the answer is to leave.
enum rc_refusal rc_answer_read(struct rc *rc, const struct roce_packet *p);
enum rc_refusal rc_answer_atomic(struct rc *rc, const struct roce_packet *p);
// A Read or atomic that was here before.
void rc_answer_again(struct rc *rc, const struct roce_packet *p, uint64_t mark);
// Puts answers, at most `*turn` packets. False: no room, or the turn is over.
bool rc_answers_output(struct rc *rc, const struct datagram_sink *sink, unsigned *turn);

/* ---- rc_held.c ------------------------------------------------------------------------------- */

// Keeps a packet beyond a hole. False: it cannot.
bool rc_held_put(struct rc *rc, const struct roce_packet *p, uint64_t mark);
// NULL: it is not kept.
const struct roce_packet *rc_held_at(const struct rc *rc, uint64_t mark);
void rc_held_pass(struct rc *rc, uint64_t before); // what was due since then is done
void rc_held_clear(struct rc *rc);
void rc_held_tell(const struct rc *rc, struct sack *ret);

/* ---- rc_ahead.c ------------------------------------------------------------------------------ */

// Places a packet of a Write beyond a hole, if that may be (docs/roce.md has the rule), and notes
// it in the slot that is to be this mark's. False: it has to wait.
bool rc_ahead_place(struct rc *rc, struct rc_held_packet *slot, const struct roce_packet *p,
                    uint64_t mark);
void rc_ahead_forget(struct rc_held *h,
                     struct rc_held_packet *slot); // it is done, or never will be
// How the octets of the Write that is due get to their place.
struct inbound_placer rc_ahead_placer(struct rc *rc);

/* ---- rc_receive.c ---------------------------------------------------------------------------- */

// May the message that begins with this packet have the memory that it names?
enum rc_refusal rc_receive_check(struct rc *rc, const struct roce_packet *p);
enum rc_refusal rc_receive_place(struct rc *rc, const struct roce_packet *p);
enum rc_refusal rc_receive_end(struct rc *rc, const struct roce_packet *p);

/* ---- rc_oneshot.c ---------------------------------------------------------------------------- */

int rc_oneshot_agreed(const struct transport *t);
void rc_oneshot_begin(struct rc *rc, struct send_wqe *wqe); // a Send of ours
// A packet of a message, about to be placed.
void rc_oneshot_note(struct rc *rc, const struct roce_packet *p);
// All of a Send with Invalidate is here.
enum rc_refusal rc_take_back(struct rc *rc, uint32_t key);

/* ---- rc_error.c ------------------------------------------------------------------------------ */

void rc_raise(struct rc *rc, enum qp_event event);
// Reads and atomics of the peer's: none is answered any more, nor again.
void rc_stop_answering(struct rc *rc);
// To ERR: everything that is posted is flushed. Once.
void rc_fail(struct rc *rc);
// The same, with the work request at fault.
void rc_fail_send(struct rc *rc, struct send_wqe *wqe, enum wc_status status);
// The packet with this mark is not done.
void rc_refuse(struct rc *rc, enum rc_refusal refusal, uint64_t mark);
// Last in each call from outside: what follows from what happened in it. Of packets that come
// together behind the last alone.
void rc_settle(struct rc *rc);

/* ---- rc_packet.c ----------------------------------------------------------------------------- */

// Where the next `len` octets lie: in how many pieces.
unsigned rc_payload_cut(struct rc_payload *payload, size_t len, struct span *ret);
// One packet to the peer: its opcode, PSN and headers have been filled in. False: no room.
bool rc_packet_put(struct rc *rc, const struct datagram_sink *sink, struct roce_packet *p,
                   const struct span *pieces, unsigned piece_count, size_t len);

/* ---- rc_ballast.c ---------------------------------------------------------------------------- */

// What leaves behind so much payload of a packet with this opcode; nothing, mostly.
struct span rc_ballast_of(const struct rc *rc, uint8_t opcode, size_t payload_len);
// Of a packet that came: its payload is without from here on.
void rc_ballast_drop(const struct rc *rc, struct roce_packet *p);

/* ---- rc_share.c ------------------------------------------------------------------------------ */

void rc_share_init(struct rc *rc);
void rc_share_fini(struct rc *rc);
// May so many packets more be out? They are 0 to 2^23.
bool rc_share_may(const struct rc *rc, uint64_t packets);
// How many more, if nobody else sends meanwhile.
uint64_t rc_share_room(const struct rc *rc);
// They are to leave, and may not yet; or nothing is.
void rc_share_wait(struct rc *rc, uint64_t packets);
void rc_share_leave(struct rc *rc);
// The window's part of what the device may have out.
void rc_share_limit(struct rc *rc);
// What is out now.
void rc_share_follow(struct rc *rc);

/* ---- rc_greeting.c --------------------------------------------------------------------------- */

void rc_greeting_begin(struct rc *rc); // a new connection
// What a packet that leaves is greeted with; 0: nothing.
uint8_t rc_greeting_of(struct rc *rc, const struct bth *bth);
void rc_greeting_take(struct rc *rc, const struct roce_packet *p);
// More may be out towards a peer that is known; also if it was before sending began.
void rc_greeting_widen(struct rc *rc);
bool rc_greeting_is_right(const struct rc *rc, const struct roce_packet *p);

/* ---- rc_credits.c ---------------------------------------------------------------------------- */

uint8_t rc_credits_told(const struct rc *rc); // the syndrome of an acknowledgement
// Receives that this message takes, which is the next to begin, and all before it.
uint32_t rc_credits_claim(const struct rc_credits *c, const struct send_wqe *wqe);
// An acknowledgement of all that counts as done, no more.
void rc_credits_take(struct rc_credits *c, uint8_t syndrome);
// Has the peer said that it has so many?
bool rc_credits_cover(const struct rc_credits *c, uint32_t claim);
