// A host's side of TCP: which connection or listener a segment belongs to, and the time of all of
// them. Who has packets tells the host what arrived, parsed down to the flow; who has connections
// makes them here and talks to their tcb.
//
//     net_on_segment     one has arrived: to its connection, its listener, or nobody
//     net_output         what the calls since the last one made due leaves; events are told
//     net_next_deadline, net_on_deadline     then net_output again
//     net_touch          behind a call on a connection's tcb: net_output looks at it
//
// Work is done in net_output, once for all segments of a batch: so one ACK answers many.
//
// Segments of nobody are answered with a reset (RFC 9293 section 3.10.7.1), at most so many in a
// second. What ICMP says is handed to the connection that it is about, whose tcb believes it only
// about segments outstanding (RFC 5927).
//
// No I/O. Memory is taken when a host, a listener or a connection is made. One thread at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/deadlines.h"
#include "base/list.h"
#include "base/siphash.h"
#include "base/span.h"
#include "base/time.h"
#include "net/flows.h"
#include "tcp/listen.h"
#include "tcp/tcp.h"
#include "wire/ip.h"

struct net_host;

// Embedded in whatever its user knows a connection by.
struct net_connection {
    struct net_flow_entry entry; // entry.flow is for all to read
    struct tcb *tcb;             // for calls of the user's own, with net_touch behind them
    // Of the host.
    struct list_link due_link;     // waits for net_output
    struct list_link blocked_link; // the port took less than all
    struct deadline deadline;
};

// Likewise. The user fills in the first block.
struct net_listener {
    struct net_flow place;  // the remote end is zero, and so is the address of a wildcard
    bool is_v6_only;        // the IPv6 wildcard does not take IPv4
    unsigned backlog;       // connections that may wait to be accepted,
    unsigned waiting_count; // and how many do: the user counts them
    void *via;              // what SYN,ACKs that are sent again leave through
    // Of the host.
    struct tcp_listener *tcp;
    struct tcp_config connection;
    struct net_flow_entry entry; // its place, but for the scope
    struct deadline deadline;
};

struct net_port {
    // As `send` of struct tcp_port, for a connection.
    unsigned (*send)(void *ctx, struct net_connection *c, const struct tcp_batch *batch);
    // A segment without payload that is no connection's. `via`: what the segment came through that
    // it answers. It may be lost.
    void (*reply)(void *ctx, const struct net_flow *flow, void *via, const struct tcp_header *h);
    // What net_output found: enum tcp_events. The connection may be destroyed from within.
    void (*on_events)(void *ctx, struct net_connection *c, unsigned events);
    // A handshake is complete: a new connection, made with net_connection_create, its configuration
    // that of the listener with a place port; or NULL, the peer is reset.
    struct net_connection *(*on_incoming)(void *ctx, struct net_listener *listener,
                                          const struct net_flow *flow, void *via,
                                          const struct tcp_config *config);
    void *ctx;
};

#define NET_COUNTERS(X)                                                              \
    X(segments, "segments received")                                                 \
    X(bad_headers, "segments whose TCP header was refused")                          \
    X(of_nobody, "segments of no connection and to no listener")                     \
    X(resets, "resets in answer to them")                                            \
    X(resets_suppressed, "resets that were one too many in a second")                \
    X(backlog_full, "segments dropped because nobody accepts what the listener has") \
    X(refused, "handshakes that nobody took")                                        \
    X(icmp_of_nobody, "ICMP messages about no connection")

struct net_counters {
#define X(name, text) uint64_t name;
    NET_COUNTERS(X)
#undef X
};

struct net_config {
    uint8_t secret[SIPHASH_KEY_LEN]; // drawn at random once
    uint32_t reset_max;              // resets in a second for segments of nobody
    struct net_port port;
};

// NULL: no memory.
struct net_host *net_host_create(const struct net_config *config);
// All listeners and connections have been destroyed before.
void net_host_destroy(struct net_host *host);

/* ---- listeners ------------------------------------------------------------------------------- */

// Begins to listen; local port and secret of `config` are filled in. -EADDRINUSE: another listener
// is at this address and port, whatever its scope; or -ENOMEM.
int net_listener_create(struct net_host *host, struct net_listener *listener,
                        const struct tcp_listener_config *config);
void net_listener_destroy(struct net_host *host, struct net_listener *listener);

/* ---- connections ----------------------------------------------------------------------------- */

// Of this flow, state CLOSED: tcp_connect follows (net_iss), or the host itself opens it for
// on_incoming. The ports in `config` are filled in from the flow. -EADDRINUSE: the flow is taken;
// -ENOMEM.
int net_connection_create(struct net_host *host, struct net_connection *c,
                          const struct net_flow *flow, const struct tcp_config *config);
void net_connection_destroy(struct net_host *host, struct net_connection *c);
// The initial sequence number for a connection that is to be opened.
uint32_t net_iss(const struct net_host *host, const struct net_connection *c, instant_ns now);

// net_output is to look at it: it was called, or has room again after `send` took less than all.
void net_touch(struct net_host *host, struct net_connection *c);
void net_unblock(struct net_host *host, struct net_connection *c);
// All of them.
void net_unblock_all(struct net_host *host);

struct net_connection *net_find(struct net_host *host, const struct net_flow *flow);

/* ---- what arrives ---------------------------------------------------------------------------- */

// `octets`: header and payload; the checksum was good. `ecn`: of the packet that they came in. The
// flow's ports are filled in from the header. `via`: handed to `reply` and `on_incoming`.
void net_on_segment(struct net_host *host, const struct net_flow *flow, void *via,
                    struct span octets, enum ip_ecn ecn, instant_ns now);
// ICMP messages about a segment that was sent on this flow: its sequence number was quoted.
void net_on_path_mss(struct net_host *host, const struct net_flow *flow, uint32_t quoted_seq,
                     uint16_t mss, instant_ns now);
// `error`: a negative errno. The connection if it believed the message; else NULL.
struct net_connection *net_on_unreachable(struct net_host *host, const struct net_flow *flow,
                                          uint32_t quoted_seq, int error);

void net_output(struct net_host *host, instant_ns now);
instant_ns net_next_deadline(const struct net_host *host);
void net_on_deadline(struct net_host *host, instant_ns now);

const struct net_counters *net_host_counters(const struct net_host *host);
void net_host_check(const struct net_host *host);
