// A listening port: SYNs are answered from a small queue of half-open connections; a connection
// exists (and takes memory) only when the peer has proved that it receives what we send. The queue
// is bounded: when it is full the oldest entry gives way (RFC 4987 section 3.2).
//
//   tcp_listener_on_segment(tuple, segment, now)  -> dropped, a reply, or a handshake:
//        tcb = tcp_create(...); tcp_accept(tcb, &handshake, now); tcp_on_segment(tcb, segment, now)
//   tcp_listener_next_deadline, tcp_listener_on_deadline   SYN,ACKs that are to be sent again
//
// Give it only segments that belong to no connection. No I/O, no allocation but in create; one
// thread at a time per object.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "tcp/isn.h"
#include "tcp/tcp.h"

struct tcp_listener;

struct tcp_listener_config {
    struct tcp_config
        connection; // local_port, mss, wishes, window_len, rto_min_ns of what is to be
                    // made
    // What our MSS option says to this peer, if its path is known only when it asks. NULL:
    // connection.mss, to all.
    uint16_t (*path_mss)(void *ctx, const struct tcp_tuple *tuple);
    void *path_ctx;
    uint16_t half_open_max;   // entries, at least 1
    unsigned syn_ack_retries; // how often a SYN,ACK is sent again
    bool answers_once;        // not even that: only when the SYN comes again. For where anybody can
                              // put somebody else's address into a SYN
    uint8_t secret[TCP_SECRET_LEN];
};

// What both sides said in the handshake: tcp_accept takes it from here.
struct tcp_handshake {
    uint16_t remote_port;
    uint32_t iss, irs;
    struct tcp_options peer; // of its SYN
    uint32_t snd_wnd;        // its window, octets
    uint32_t timestamp_offset;
    uint32_t ts_recent;
    duration_ns rtt_ns; // of the SYN,ACK, 0: not known, it was sent twice
    bool has_ecn;       // was asked for, and agreed to (RFC 3168)
};

#define TCP_LISTEN_REFUSALS(X)                                       \
    X(RST, "a RST, or a segment with SYN and FIN or SYN and RST")    \
    X(NO_SYN, "neither a SYN nor of a handshake under way")          \
    X(BAD_ACK, "an ACK of something that was not sent")              \
    X(NOT_ACCEPTABLE, "of a handshake, but outside the window")      \
    X(OLD_TIMESTAMP, "of a handshake, its timestamp too old (PAWS)") \
    X(NO_TIMESTAMP, "of a handshake, without the timestamp agreed")  \
    X(BAD_RST, "a RST in the window but not at its left edge")       \
    X(BAD_SYN, "of a handshake, another SYN than the first")         \
    X(PEER_RESET, "the handshake was reset")

enum tcp_listen_refusal {
    TCP_LISTEN_TAKEN,
#define X(name, text) TCP_LISTEN_REFUSED_##name,
    TCP_LISTEN_REFUSALS(X)
#undef X
        TCP_LISTEN_REFUSAL_COUNT,
};

#define TCP_LISTEN_COUNTERS(X)                             \
    X(syns, "SYNs answered")                               \
    X(completed, "handshakes completed")                   \
    X(expired, "half-open connections given up")           \
    X(evicted, "half-open ones that the full queue drops") \
    X(resent, "SYN,ACKs sent again")                       \
    X(challenge_acks, "challenge ACKs sent")               \
    X(challenges_suppressed, "challenge ACKs not sent, for their limit")

struct tcp_listen_counters {
#define X(name, text) uint64_t name;
    TCP_LISTEN_COUNTERS(X)
#undef X
    uint64_t refusals[TCP_LISTEN_REFUSAL_COUNT];
};

struct tcp_listen_answer {
    enum tcp_listen_refusal refusal;
    bool has_reply; // `reply` is to be sent to where the segment came from
    struct tcp_header reply;
    bool has_handshake;
    struct tcp_handshake handshake;
};

// NULL: no memory.
struct tcp_listener *tcp_listener_create(const struct tcp_listener_config *config);
void tcp_listener_destroy(struct tcp_listener *listener);

void tcp_listener_on_segment(struct tcp_listener *listener, const struct tcp_tuple *tuple,
                             const struct tcp_segment *segment, instant_ns now,
                             struct tcp_listen_answer *ret);

// The same for the first SYN of a connection behind one that is in TIME-WAIT and has not used the
// number `unused`: ours begin there or beyond (RFC 9293 section 3.6.1).
void tcp_listener_reopen(struct tcp_listener *listener, const struct tcp_tuple *tuple,
                         const struct tcp_segment *segment, uint32_t unused, instant_ns now,
                         struct tcp_listen_answer *ret);
// Whether a segment is of a handshake under way by its numbers: the SYN again, or what ends it.
bool tcp_listener_expects(const struct tcp_listener *listener, const struct tcp_tuple *tuple,
                          const struct tcp_segment *segment);

// INSTANT_NEVER when nothing is half open.
instant_ns tcp_listener_next_deadline(const struct tcp_listener *listener);
// One SYN,ACK that is to be sent again, and to whom; false: no more at this time.
bool tcp_listener_on_deadline(struct tcp_listener *listener, instant_ns now,
                              struct tcp_tuple *ret_tuple, struct tcp_header *ret_reply);

const struct tcp_listen_counters *tcp_listener_counters(const struct tcp_listener *listener);
// "syns", "refused.no_syn" ...
void tcp_listen_counters_each(const struct tcp_listen_counters *counters, counter_each each,
                              void *ctx);
const char *tcp_listen_refusal_name(enum tcp_listen_refusal refusal);
void tcp_listener_check(const struct tcp_listener *listener);
