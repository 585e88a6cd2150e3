// Establishing one connection over one stream (RFC 5044 section 7.1, RFC 6581): who says what when,
// with which time limits, and what the application learns. The frames themselves are mpa/startup.h.
//
//   conn_init                    -> conn_connect (initiator)
//   conn_on_llp_connected        the stream is up (initiator; a responder begins there)
//   conn_on_input, conn_output   start-up frames in and out
//   conn_next_event              REQUEST -> conn_accept | conn_reject;  REPLY -> conn_establish
//   conn_next_deadline, conn_on_deadline
//
// No I/O, no clock, no allocation; one thread at a time per object. States: conn/state.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "base/time.h"
#include "base/trace.h"
#include "conn/state.h"
#include "mpa/startup.h"
#include "wire/mpa.h"

// Stock siw installs its receive callback after it has sent the Reply; a first FPDU that comes
// within about a millisecond stays unread until the next segment. 20 ms have always been enough.
#define CONN_SIW_HOLD_NS (20 * NS_PER_MS)

// Why start-up failed: name, errno of the status, text. The first is told by the caller.
#define CONN_FAILURES(X)                                                                        \
    X(LLP, ECONNRESET, "TCP ended the connection before MPA start-up was complete")             \
    X(LLP_CLOSED, ECONNRESET, "the peer closed the connection during MPA start-up")             \
    X(REQUEST_TIMEOUT, ETIMEDOUT, "no complete MPA Request came in time")                       \
    X(REPLY_TIMEOUT, ETIMEDOUT, "no complete MPA Reply came in time")                           \
    X(RTR_TIMEOUT, ETIMEDOUT, "the ready-to-receive FPDU did not come in time")                 \
    X(WRITE_TIMEOUT, ETIMEDOUT, "the peer did not take our MPA Reply in time")                  \
    X(BAD_KEY, EPROTO, "the peer does not speak MPA: its first octets are no start-up frame")   \
    X(WRONG_ROLE, EPROTO, "both ends initiate, or both respond")                                \
    X(REVISION, EPROTO, "the peer's MPA revision is neither 1 nor 2")                           \
    X(PD_TOO_LONG, EPROTO, "the peer's start-up frame has over 512 octets of private data")     \
    X(ENHANCED_MISSING, EPROTO, "the peer's enhanced frame has no IRD and ORD octets")          \
    X(ENHANCED_UNSUPPORTED, EPROTO,                                                             \
      "an enhanced MPA Request, but only revision 1 is allowed here")                           \
    X(ENHANCED_MISMATCH, EPROTO, "the MPA Reply is not of the kind of the Request")             \
    X(INSUFFICIENT_IRD, EPROTO, "the responder wants to read more at a time than we can serve") \
    X(NO_RTR, EPROTO, "no ready-to-receive indication in common")                               \
    X(EARLY_FPDU, EPROTO, "an FPDU came before the MPA Reply had been written")

enum conn_failure {
    CONN_FAILURE_NONE,
#define X(name, error, text) CONN_FAILURE_##name,
    CONN_FAILURES(X)
#undef X
        CONN_FAILURE_COUNT,
};

// Counters of all connections that share them; `refusals` is indexed by enum conn_failure.
#define CONN_COUNTERS(X)                                  \
    X(requests_sent, "MPA Requests written")              \
    X(requests_received, "good MPA Requests received")    \
    X(replies_sent, "accepting MPA Replies written")      \
    X(replies_received, "accepting MPA Replies received") \
    X(rejects_sent, "rejecting MPA Replies written")      \
    X(rejects_received, "rejecting MPA Replies received") \
    X(established, "connections established")             \
    X(holds, "first FPDUs held back for siw")             \
    X(timeouts, "start-ups that ran out of time")

struct conn_counters {
#define X(name, text) uint64_t name;
    CONN_COUNTERS(X)
#undef X
    uint64_t refusals[CONN_FAILURE_COUNT];
};

struct conn_config {
    bool is_initiator;
    uint8_t revision; // 1 or 2, see struct mpa_startup_config, as the next ones
    bool crc_wanted;
    bool markers_wanted;
    bool peer_to_peer;              // initiator: offer it (RFC 6581 section 4)
    uint8_t rtr_kinds;              // enum mpa_rtr bits; 0: all
    uint16_t ird_max;               // what an IRD may be raised to when the peer asks for more
    bool extensions;                // offer or take the extensions
    bool marker_wish;               // with extensions
    uint8_t encodings;              // with extensions: EXTENSION_ONESHOT_ bits
    uint32_t allotment_len;         // with extensions: octets; 0: none
    duration_ns request_timeout_ns; // responder: from TCP's accept to the complete Request
    duration_ns reply_timeout_ns; // initiator: from TCP's connect to the complete Reply; responder:
                                  // from accept or reject to the frame written, then to the RTR
    struct trace *trace;          // may be NULL
    struct conn_counters *counters; // may be NULL
};

// What the application says with connect, accept and reject. Everything is copied.
struct conn_params {
    struct span private_data;
    uint16_t ird;
    uint16_t ord;
    bool wants_reply; // connect: deliver REPLY and wait for conn_establish
};

enum conn_event_type {
    CONN_EVENT_REQUEST,     // responder: accept or reject it
    CONN_EVENT_REPLY,       // initiator with `wants_reply`: conn_establish goes on
    CONN_EVENT_ESTABLISHED, // the full operation phase has begun
    CONN_EVENT_REJECTED,    // initiator: the peer's application said no
    CONN_EVENT_REJECT_SENT, // responder: our rejecting Reply is written; close the stream
    CONN_EVENT_FAILED,      // close the stream, after the Terminate if `cause` says so
};

struct conn_event {
    enum conn_event_type type;
    uint16_t ird; // what the peer's frame says (0x3fff: no negotiation wanted; REQUEST, REJECTED: 0
    uint16_t ord; // without enhanced). ESTABLISHED of the responder, or not enhanced: our own
    struct span
        private_data; // REQUEST, REPLY, REJECTED; ESTABLISHED of the initiator: the Reply's.
                      // Lies in the conn: valid until its next call

    // FAILED
    enum conn_failure failure;
    int status;                 // negative errno
    const char *text;           // the failure in words
    enum terminate_cause cause; // to send in a Terminate, framed as agreed; TERM_NONE: none
};

// What start-up alone needs: the peer's frame and ours. About 1 KiB, and the caller's; see
// conn_frames_back.
struct conn_frames {
    struct mpa_startup startup;
    size_t tx_len;
    size_t tx_done;
    uint8_t tx[MPA_STARTUP_MAX_LEN];
};

// One connection's establishment. Fields are private.
struct conn {
    struct conn_config config;
    enum conn_state state;
    instant_ns deadline_ns;
    instant_ns hold_until_ns; // initiator: no FPDU of ours before; 0: no hold
    bool wants_reply;
    bool has_agreement;
    bool has_first_fpdu; // the peer's
    unsigned event_mask; // bit per conn_event_type that is due, at most one except at failures
    enum conn_failure failure;
    int status;
    enum terminate_cause cause;
    struct mpa_peer_facts peer;
    struct mpa_agreement agreement;
    struct conn_frames *frames; // NULL: given back
};

// Copies `config`; `frames` is its own until they are given back. A responder waits for the Request
// from `now` on.
void conn_init(struct conn *conn, const struct conn_config *config, struct conn_frames *frames,
               instant_ns now);
// The frames, once: when both have gone their way and no event is due. From then on they are the
// caller's again, and what is agreed stays. NULL: they are still needed, or were given back.
struct conn_frames *conn_frames_back(struct conn *conn);

// Initiator: makes the Request, which goes out when TCP is up. -EINVAL: the private data does not
// fit; -EISCONN: not idle any more.
int conn_connect(struct conn *conn, const struct conn_params *params);
// Where nothing can happen to octets on the way: no CRC is wished for from here on, though the peer
// may insist. The initiator: before TCP is up; the responder: before it accepts.
void conn_forgo_crc(struct conn *conn);
// Initiator that is its own peer: it agrees with itself, without a frame, and ESTABLISHED follows.
// -EISCONN: not idle any more.
int conn_connect_to_itself(struct conn *conn, const struct conn_params *params);
// Responder, after REQUEST. -EINVAL: the private data does not fit (nothing has changed);
// -ENOTCONN: there is no Request to answer, or not any more.
int conn_accept(struct conn *conn, const struct conn_params *params, instant_ns now);
int conn_reject(struct conn *conn, const struct conn_params *params, instant_ns now);
// Initiator, after REPLY. ESTABLISHED follows. -ENOTCONN: there is no Reply to go on from.
int conn_establish(struct conn *conn, instant_ns now);

// TCP is up. / TCP refused, timed out, was reset (negative errno), or brought the peer's FIN (0).
void conn_on_llp_connected(struct conn *conn, instant_ns now);
void conn_on_llp_failed(struct conn *conn, int error, instant_ns now);

// Takes octets of the stream and returns how many: never any behind the start-up frame, and none
// while none is due.
size_t conn_on_input(struct conn *conn, struct span octets, instant_ns now);

// Octets to write, empty when there are none; then how many of them were written.
struct span conn_output(struct conn *conn);
void conn_on_output(struct conn *conn, size_t written, instant_ns now);

// Responder, extensions offered: the initiator's first FPDU is its extension message. False: it
// chooses what was not offered, and nothing of ours is agreed.
bool conn_confirm(struct conn *conn, const struct extension_message *choices);
// The peer's first FPDU is in. Any is taken as ready-to-receive indication, as others do. Without a
// conn_confirm before it the extensions are off.
void conn_on_first_fpdu(struct conn *conn, instant_ns now);

// Takes the oldest event; false when there is none.
bool conn_next_event(struct conn *conn, struct conn_event *ret);

// INSTANT_NEVER when no time is running.
instant_ns conn_next_deadline(const struct conn *conn);
void conn_on_deadline(struct conn *conn, instant_ns now);

// What both ends agreed on; NULL before.
const struct mpa_agreement *conn_agreement(const struct conn *conn);

// REJECTED, FAILED or CLOSED: nothing of it moves any more.
static inline bool conn_is_over(const struct conn *conn)
{
    return conn->state >= CONN_REJECTED;
}

static inline bool conn_is_established(const struct conn *conn)
{
    return conn->state == CONN_ESTABLISHED;
}

// A responder that has accepted, and whose peer owes it the first FPDU.
static inline bool conn_awaits_rtr(const struct conn *conn)
{
    return conn->state == CONN_WAIT_RTR;
}

const char *conn_failure_name(enum conn_failure failure);
const char *conn_failure_text(enum conn_failure failure);

// Stops the program unless the invariants hold.
void conn_check(const struct conn *conn);
// One trace line. Returns `buf`.
const char *conn_format(const struct conn *conn, char *buf, size_t len);
