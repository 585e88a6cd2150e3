// TCP: one connection, without socket, clock, thread or address (RFC 9293 and what belongs to it;
// docs/tcp.md goes through it RFC by RFC). Who finds the connection a segment belongs to, and puts
// IP or something else around what leaves, stands below; who takes octets and gives octets, above.
//
//   tcp_create, tcp_destroy
//   tcp_connect, tcp_accept                 open, actively or from a listener's handshake
//   tcp_on_segment(segment, now)            one has arrived
//   tcp_output(port, now)                   those that are due leave, in batches of equal ones
//   tcp_next_deadline, tcp_on_deadline      then tcp_output again
//   tcp_take_events                         what the user should look at
//   tcp_send, tcp_send_room, tcp_acked_position
//   tcp_resume, tcp_set_window              receiving, with base/port_place.h
//   tcp_close, tcp_abort
//   tcp_begins_anew, tcp_unused_number, tcp_supersede   another connection behind TIME-WAIT
//   tcp_emss, tcp_get_info, tcp_check
//
// After every call but the last row's, tcp_output is due if tcp_wants_output says so.
//
// Receiving: octets within the window are offered to the place port as they arrive, also beyond
// holes. What it places is never copied or kept here, never offered again and never taken back from
// the peer once acknowledged (SACK included); what it wants buffered lies in a ring of `buffer_len`
// octets. At most `range_max` ranges lie beyond holes; one more is not acknowledged, except at the
// first hole, where octets are always taken while the port goes on.
//
// Sending: octets are kept until they are acknowledged, as copies or where the user has them.
// Records (FPDUs) tell where segments should begin: no segment ends inside a record that would have
// fitted a segment of its own, and what is sent again is cut where it was cut before.
//
// No allocation but in tcp_create. One thread at a time per object.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/counter.h"
#include "base/port_place.h"
#include "base/span.h"
#include "base/time.h"
#include "base/trace.h"
#include "tcp/state.h"
#include "wire/ip.h"
#include "wire/tcp.h"

struct tcb;
struct tcp_handshake;

enum tcp_cc_kind { TCP_CC_CUBIC, TCP_CC_NEWRENO, TCP_CC_KIND_COUNT };

enum tcp_option_wishes {
    TCP_WISH_SACK = 1,       // RFC 2018, 2883; without it no RACK, and duplicate ACKs are counted
    TCP_WISH_TIMESTAMPS = 2, // RFC 7323 section 3
    TCP_WISH_SCALE = 4,      // RFC 7323 section 2
    TCP_WISH_ALL = 7,
};

// Explicit congestion notification (RFC 3168).
enum tcp_ecn_wish {
    TCP_ECN_OFF,
    TCP_ECN_ACCEPT,  // by the peer's SYN
    TCP_ECN_REQUEST, // by our own, too; one that is sent again does not
    TCP_ECN_WISH_COUNT,
};

// What a connection is made with. tcp_config_default fills in everything but the ports of the two
// sides and the place port.
struct tcp_config {
    uint16_t local_port;
    uint16_t remote_port;
    uint16_t mss; // octets behind a TCP header without options that fit the path and ourselves:
                  // what our MSS option says (RFC 6691), at least TCP_MSS_MIN
    uint16_t path_mss;   // what the path is known to take, likewise: no larger segment is sent;
                         // 0: all that `mss` says. The peer does not hear of it (RFC 6691)
    uint16_t mss_unsaid; // what a peer takes whose SYN does not say: 536, over IPv6 1220
    unsigned wishes;     // enum tcp_option_wishes
    enum tcp_ecn_wish ecn;

    uint32_t window_len; // receive window offered at most, octets, up to 1 GiB
    uint32_t buffer_len; // octets kept for PLACE_BUFFER. Below window_len, a port that buffers a
                         // lot makes the peer send again what found no room
    uint16_t range_max;  // ranges beyond holes, 4 or more
    uint32_t send_len;   // octets that tcp_send copies, in all; 0: references only
    uint16_t piece_max;  // pieces that wait for acknowledgement: a record or reference is at least
                         // one
    uint16_t flight_max; // segments sent and not acknowledged

    enum tcp_cc_kind cc;
    bool nagle;                     // RFC 9293 section 3.7.4; off by default
    duration_ns delayed_ack_ns;     // at most 500 ms; 0: every segment is acknowledged at once
    duration_ns rto_min_ns;         // RFC 6298 says 1 s; the default is 200 ms
    duration_ns rto_slack_ns;       // by so much at least it is longer than a round trip (its G)
    duration_ns connect_timeout_ns; // from SYN to ESTABLISHED
    duration_ns user_timeout_ns;    // what was sent stays unacknowledged: over (RFC 5482, R2)
    bool user_timeout_when_shut;    // it bounds a shut window, too, though the peer answers probes;
                                    // off: such a peer is waited for (RFC 9293, MUST-36)
    duration_ns keepalive_idle_ns;  // silence until the first probe; 0: none (RFC 9293 3.8.4)
    duration_ns keepalive_interval_ns;
    unsigned keepalive_count;  // probes unanswered until the connection is over
    duration_ns time_wait_ns;  // 2 MSL
    uint32_t challenge_max;    // challenge ACKs in a second (RFC 5961 section 7)
    uint32_t timestamp_offset; // added to our clock (RFC 7323 section 7.1)

    struct place_port place;
    struct trace *trace; // may be NULL
};

enum { TCP_MSS_MIN = 64 }; // smaller offers are taken for this (CVE-2019-11479)

extern const struct tcp_config tcp_config_default;

// Why a segment, or its octets, did nothing. Each has a counter.
#define TCP_REFUSALS(X)                                                                      \
    X(OVER, "the connection is closed")                                                      \
    X(NOT_ACCEPTABLE, "none of it lies in the receive window")                               \
    X(OLD_TIMESTAMP, "its timestamp is older than the last (PAWS)")                          \
    X(NO_TIMESTAMP, "it lacks the timestamp that was agreed")                                \
    X(NO_ACK, "it has no ACK")                                                               \
    X(BAD_RST, "a RST in the window but not at its left edge")                               \
    X(BAD_SYN, "a SYN in a synchronized state")                                              \
    X(ACK_TOO_OLD, "it acknowledges less than what was acknowledged, by more than a window") \
    X(ACK_TOO_NEW, "it acknowledges what was not sent")                                      \
    X(BAD_SYN_ACK, "SYN-SENT: it acknowledges something else than our SYN")                  \
    X(NOT_SYN, "SYN-SENT: it is no SYN")                                                     \
    X(DATA_AFTER_FIN, "its octets or FIN contradict the FIN that came")                      \
    X(DUPLICATE, "all its octets are there already")                                         \
    X(RANGES_FULL, "octets that need a range of their own, and range_max are in use")        \
    X(BUFFER_FULL, "octets to be buffered, and there is no room")                            \
    X(PLACE_DROP, "the place port would not have them")                                      \
    X(BAD_SACK, "a SACK block for what was not sent")

enum tcp_refusal {
    TCP_TAKEN,
#define X(name, text) TCP_REFUSED_##name,
    TCP_REFUSALS(X)
#undef X
        TCP_REFUSAL_COUNT,
};

#define TCP_COUNTERS(X)                                                      \
    X(segments_in, "segments received")                                      \
    X(segments_out, "segments sent")                                         \
    X(octets_in, "octets of the stream received, once each")                 \
    X(octets_out, "octets of the stream sent for the first time")            \
    X(octets_placed_early, "octets placed beyond a hole")                    \
    X(octets_buffered, "octets copied into the buffer")                      \
    X(holes_opened, "ranges begun beyond a hole")                            \
    X(holes_merged, "ranges joined with another")                            \
    X(holes_closed, "ranges whose hole was closed")                          \
    X(range_comparisons, "ranges compared with to find a place")             \
    X(stalls, "times that the place port would not go on in order")          \
    X(duplicate_acks, "duplicate ACKs received")                             \
    X(challenge_acks, "challenge ACKs sent")                                 \
    X(challenges_suppressed, "challenge ACKs not sent, for their limit")     \
    X(retransmits, "segments sent again")                                    \
    X(octets_retransmitted, "octets sent again")                             \
    X(spurious_retransmits, "segments sent again that had arrived (D-SACK)") \
    X(recoveries, "fast recoveries")                                         \
    X(slow_starts_ended, "first slow starts ended by longer round trips")    \
    X(marks, "segments with octets that came marked (RFC 3168)")             \
    X(reductions_by_marks, "windows made smaller for an echo of marks")      \
    X(timeouts, "retransmission time-outs")                                  \
    X(spurious_timeouts, "time-outs for what was only late (Eifel)")         \
    X(black_holes, "times that long segments seemed to be swallowed")        \
    X(loss_probes, "tail loss probes")                                       \
    X(window_probes, "zero-window probes")                                   \
    X(keepalives, "keep-alive probes")                                       \
    X(reordering, "segments acknowledged out of the order of their sending")

// Of several connections the largest holds, not the sum.
#define TCP_PEAKS(X)                                             \
    X(buffered_peak, "most octets that were buffered at a time") \
    X(ranges_peak, "most ranges at a time")

struct tcp_counters {
#define X(name, text) uint64_t name;
    TCP_COUNTERS(X)
    TCP_PEAKS(X)
#undef X
    uint64_t refusals[TCP_REFUSAL_COUNT];
};

// A segment that arrived, its checksum already good. Nothing is kept of `payload`.
struct tcp_segment {
    struct tcp_header header;
    struct span payload;
    enum ip_ecn ecn; // of its packet
};

// Why segments leave.
enum tcp_reason {
    TCP_REASON_SYN,
    TCP_REASON_DATA,
    TCP_REASON_RETRANSMIT,
    TCP_REASON_LOSS_PROBE,
    TCP_REASON_WINDOW_PROBE,
    TCP_REASON_KEEPALIVE,
    TCP_REASON_FIN,
    TCP_REASON_ACK,
    TCP_REASON_CHALLENGE_ACK,
    TCP_REASON_RESET,
    TCP_REASON_COUNT,
};

// One or more segments alike: segment i has the header's sequence number + i * segment_len and
// segment_len octets of payload, the last what is left. FIN and PSH go with the last only.
// `iov` holds the payload of all, in order; it is readable until `send` returns.
struct tcp_batch {
    struct tcp_header header;
    enum tcp_reason reason;
    enum ip_ecn ecn; // of its packets
    unsigned segment_count;
    uint32_t segment_len; // 0 without payload
    uint32_t payload_len; // of all segments together
    const struct iovec *iov;
    unsigned iov_count;
};

enum { TCP_BATCH_SEGMENT_MAX = 64, TCP_BATCH_LEN_MAX = 64000, TCP_BATCH_IOV_MAX = 128 };

struct tcp_port {
    // How many of the batch's segments were taken, from the first on. Fewer than all: there is no
    // room now; tcp_output returns and is to be called again when there is.
    unsigned (*send)(void *ctx, const struct tcp_batch *batch);
    void *ctx;
};

// NULL: no memory. CHECKs that the configuration makes sense. State CLOSED.
struct tcb *tcp_create(const struct tcp_config *config);
void tcp_destroy(struct tcb *tcb);

// Active open. `iss`: tcp_isn (tcp/isn.h).
void tcp_connect(struct tcb *tcb, uint32_t iss, instant_ns now);
// Passive open: the connection that a listener's handshake came to. The segment that completed the
// handshake is to be given to tcp_on_segment next.
void tcp_accept(struct tcb *tcb, const struct tcp_handshake *handshake, instant_ns now);

// TCP_TAKEN, or the first reason why something of it was not.
enum tcp_refusal tcp_on_segment(struct tcb *tcb, const struct tcp_segment *segment, instant_ns now);

bool tcp_wants_output(const struct tcb *tcb, instant_ns now);
// True: all that is due has left. False: the port took less than all.
bool tcp_output(struct tcb *tcb, const struct tcp_port *port, instant_ns now);

// Whether this SYN, which arrives in TIME-WAIT, begins the peer's next connection of the same ports
// (RFC 6191 section 2). If not it is an old one, and for tcp_on_segment.
bool tcp_begins_anew(const struct tcb *tcb, const struct tcp_segment *segment);
// The first sequence number that was not used: the next connection begins there or beyond
// (RFC 9293 section 3.6.1).
uint32_t tcp_unused_number(const struct tcb *tcb);
// The next connection is there, and TIME-WAIT is over.
void tcp_supersede(struct tcb *tcb, instant_ns now);

// INSTANT_NEVER when no time is running.
instant_ns tcp_next_deadline(const struct tcb *tcb);
void tcp_on_deadline(struct tcb *tcb, instant_ns now);

enum tcp_events {
    TCP_EVENT_ESTABLISHED = 1,
    TCP_EVENT_ACKED = 2, // octets of ours were acknowledged: there is room, references came free
    TCP_EVENT_FIN = 4,   // the peer's FIN, all octets before it handed up
    TCP_EVENT_OVER = 8,  // CLOSED, see tcp_status. Nothing moves any more
};

// What has happened since the last call, enum tcp_events.
unsigned tcp_take_events(struct tcb *tcb);

enum tcp_state tcp_get_state(const struct tcb *tcb);
// After OVER: 0 for an orderly end, or a negative errno: ECONNREFUSED, ECONNRESET, ETIMEDOUT,
// ECONNABORTED (ours), EHOSTUNREACH and the like (what the network said).
int tcp_status(const struct tcb *tcb);

enum tcp_send_flags {
    TCP_SEND_RECORD = 1,    // these octets are one record: segments should begin where it begins
    TCP_SEND_REFERENCE = 2, // not copied: readable, and unchanged, until acknowledged
};

// How many octets one call of tcp_send in `piece_count` pieces would take now.
size_t tcp_send_room(const struct tcb *tcb, unsigned piece_count, unsigned flags);
// Octets behind all earlier ones. Returns how many were taken, from the first on; all or none of a
// record. 0 after tcp_close, and before and after the states in which octets can be sent.
size_t tcp_send(struct tcb *tcb, const struct iovec *iov, unsigned iov_count, unsigned flags);
// Octets of the stream given to tcp_send so far, and of those how many the peer has acknowledged:
// what stands before is not read any more.
uint64_t tcp_sent_position(const struct tcb *tcb);
uint64_t tcp_acked_position(const struct tcb *tcb);

// The place port may go on after PLACE_BUFFER in order or a refused on_advance.
void tcp_resume(struct tcb *tcb, instant_ns now);
// The receive window to offer from now on, at most the configuration's. The right edge never moves
// back: a smaller one takes effect as octets arrive.
void tcp_set_window(struct tcb *tcb, uint32_t window_len);

// FIN behind all that was given to tcp_send. Receiving goes on.
void tcp_close(struct tcb *tcb, instant_ns now);
// CLOSED at once; tcp_output sends a RST where the peer should know.
void tcp_abort(struct tcb *tcb);

// The path takes no more than `mss` octets, says an ICMP message about the segment with this
// sequence number; believed if that is outstanding (RFC 1191, RFC 5927). Returns whether it is.
bool tcp_on_path_mss(struct tcb *tcb, uint32_t quoted_seq, uint16_t mss);
// The same, from who knows: what is larger is sent again in smaller segments.
void tcp_take_path_mss(struct tcb *tcb, uint16_t mss);
// It named an error, a negative errno. Likewise; true if it was believed, which ends a connection
// that is being opened, and no other.
bool tcp_on_unreachable(struct tcb *tcb, uint32_t quoted_seq, int error);
// Somebody says that the peer is gone, who may be wrong or lie: it is asked at once, and given up,
// with the error that the network named, if it stays silent to a few questions.
void tcp_doubt(struct tcb *tcb, instant_ns now);

// Octets of payload in a full segment, options off (RFC 5044: EMSS; RFC 9293 section 3.7.1). Known
// from ESTABLISHED on; it shrinks where the path takes less, and may grow back to what it was.
uint32_t tcp_emss(const struct tcb *tcb);

struct tcp_info {
    enum tcp_state state;
    duration_ns srtt_ns, rttvar_ns, rto_ns, min_rtt_ns;
    uint32_t cwnd, ssthresh;   // octets
    uint32_t flight_len;       // octets outstanding, and ...
    uint32_t pipe_len;         // ... of them in the network by our reckoning
    uint32_t snd_wnd, rcv_wnd; // octets
    uint32_t range_count;      // beyond holes
    uint32_t buffered_len;     // octets
    bool is_in_recovery;
    const struct tcp_counters *counters;
};

void tcp_get_info(const struct tcb *tcb, struct tcp_info *ret);

void tcp_counters_add(struct tcp_counters *to, const struct tcp_counters *more);
// "retransmits", "refused.ranges_full" ...
void tcp_counters_each(const struct tcp_counters *counters, counter_each each, void *ctx);

// What answers a segment that belongs to no connection (RFC 9293 section 3.10.7.1): a RST with the
// ports swapped. False: nothing does, it is a RST itself.
bool tcp_reset_for(const struct tcp_segment *segment, struct tcp_header *ret);

const char *tcp_refusal_name(enum tcp_refusal refusal);
const char *tcp_reason_name(enum tcp_reason reason);
// Stops the program unless the invariants hold.
void tcp_check(const struct tcb *tcb);
