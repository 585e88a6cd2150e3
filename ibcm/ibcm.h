// InfiniBand's connection manager: who connects to whom, by messages on queue pair 1
// (docs/roce.md). An agent per device has its listeners and all its connections. The messages are
// wire/ibcm.h, the states and what each input makes of them ibcm/state.h.
//
//   ibcm_create
//   ibcm_listen                 CONNECT_REQUEST  -> ibcm_accept | ibcm_reject
//   ibcm_connect                CONNECT_RESPONSE -> ibcm_establish | ibcm_reject
//   ibcm_resolve                of datagrams: which queue pair serves a port
//   ibcm_disconnect, ibcm_drop  the end; the owner lets go
//   ibcm_on_mad                 what arrived; what is to leave goes into the sink at once
//   ibcm_next_event             after each call: what the owners are to be told
//   ibcm_next_deadline, ibcm_on_deadline
//
// A message that does not fit into the sink is lost, as any datagram may be: those that matter are
// sent again.
//
// No I/O, no clock; memory is taken by ibcm_create. One thread at a time per agent.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/counter.h"
#include "base/list.h"
#include "base/siphash.h"
#include "base/span.h"
#include "base/time.h"
#include "base/trace.h"
#include "ibcm/state.h"
#include "wire/ibcm.h"
#include "wire/ip_cm.h"
#include "wire/mad.h"

struct ibcm;
struct ibcm_conn;
struct ibcm_listener;

// Why a message was not taken: name, text. Each has a counter.
#define IBCM_REFUSALS(X)                                                             \
    X(NO_LISTENER, "nobody listens for the service id")                              \
    X(ELSEWHERE, "nobody listens here, but another process of this host may")        \
    X(TRANSPORT, "neither RC nor UC")                                                \
    X(QP_NUM, "from a queue pair that no program can have")                          \
    X(MTU, "a path MTU that the device does not have")                               \
    X(GID, "GIDs that are not the addresses of the packet")                          \
    X(IP_HEADER, "private data that do not begin with the IP CM header")             \
    X(IP_ADDRESS, "an IP CM header that speaks of other addresses than the packet")  \
    X(DUPLICATE_ID, "a communication id that stands for another connection already") \
    X(STALE, "from a queue pair that is connected: that connection is over")         \
    X(SOURCE_FULL, "more half-open connections than one address may have")           \
    X(BACKLOG_FULL, "the listener has not answered others")                          \
    X(TABLE_FULL, "no room for another connection")                                  \
    X(OTHER_SLOT, "a communication id of another process of this host")              \
    X(UNKNOWN_ID, "an unknown communication id")                                     \
    X(WRONG_ADDRESS, "of a connection with somebody else")                           \
    X(WRONG_ID, "of a peer's communication id that is not the connection's")         \
    X(WRONG_QP_NUM, "a DREQ for a queue pair that is not the connection's")          \
    X(UNEXPECTED, "not in this state of the connection")                             \
    X(ANSWERS_SPENT, "an answer that was not given: too many in this second")

enum ibcm_refusal {
#define X(name, text) IBCM_REFUSAL_##name,
    IBCM_REFUSALS(X)
#undef X
        IBCM_REFUSAL_COUNT,
};

#define IBCM_COUNTERS(X)                                                       \
    X(requests, "requests put before an owner")                                \
    X(established, "connections established")                                  \
    X(rejected, "connections refused by the peer")                             \
    X(unreachable, "connections given up: the peer is silent")                 \
    X(disconnected, "connections ended")                                       \
    X(repeats, "messages sent again because no answer came in time")           \
    X(answered_again, "messages sent again because they were asked for again") \
    X(unserved, "requests sent again because nobody listened there yet")       \
    X(evicted, "half-open connections dropped for newer ones")                 \
    X(handed_on, "messages that are for another process of this host")         \
    X(not_sent, "messages that found no room and are lost")

struct ibcm_counters {
#define X(name, text) uint64_t name;
    IBCM_COUNTERS(X)
#undef X
    uint64_t sent[IBCM_KIND_COUNT], received[IBCM_KIND_COUNT];
    uint64_t malformed[IBCM_PARSE_VERDICT_COUNT]; // not [IBCM_PARSE_OK]
    uint64_t refusals[IBCM_REFUSAL_COUNT];
};

/* ---- the agent ------------------------------------------------------------------------------- */

// The two ends of a path, as this host sees them. An IPv4 address is mapped (::ffff:a.b.c.d).
struct ibcm_ends {
    struct in6_addr local, remote;
    uint32_t scope_id; // of link-local addresses; 0: none
};

// Where messages go: MAD_LEN octets, copied before it returns, from queue pair 1 to queue pair 1.
// False: no room.
struct ibcm_sink {
    bool (*put)(void *ctx, const struct ibcm_ends *ends, const uint8_t *mad);
    void *ctx;
};

// Other processes of this host have the same address, and a message may be for one of them. Who
// reads it first says whose it is, and answers for all if it is nobody's.
enum ibcm_sharing {
    IBCM_SHARING_NONE,  // there are no others
    IBCM_SHARING_FIRST, // read by nobody before
    IBCM_SHARING_COPY,  // given by who read it first
};

// Has any of them a listener for the service at this address? True also where it cannot be found
// out; NULL: none has.
struct ibcm_others {
    bool (*serve)(void *ctx, uint64_t service_id, const struct in6_addr *local);
    void *ctx;
};

// A message that others send for us if this process ends without a word, as long as the connection
// in this place, below conn_max, stands. NULL: nobody would.
struct ibcm_will {
    void (*bequeath)(void *ctx, uint32_t place, const struct ibcm_ends *ends, const uint8_t *mad);
    void (*revoke)(void *ctx, uint32_t place);
    void *ctx;
};

// Times are codes of 5 bits: ib_time_ns.
struct ibcm_config {
    uint8_t key[SIPHASH_KEY_LEN]; // random: ids and PSNs are drawn with it
    uint64_t ca_guid;
    uint8_t id_slot;          // top octet of our communication ids; another's: another process's
    uint8_t path_mtu_max;     // 1 = 256 … 5 = 4096 octets
    uint8_t packet_lifetime;  // one way
    uint8_t response_timeout; // for an answer, the way not included; ours and asked of peers
    uint8_t service_timeout;  // what an MRA of ours asks for
    uint8_t ack_delay;        // of our queue pairs
    uint8_t max_cm_retries;   // 0..15
    uint32_t conn_max;        // of all kinds
    uint32_t half_open_max; // that peers have begun and no owner has accepted; the oldest go first
    uint32_t source_max;    // the same, of one address; newer ones are refused
    uint32_t answers_max;   // per second, to messages of nobody that is known
    struct ibcm_sink sink;
    struct ibcm_others others;
    struct ibcm_will will;
    struct trace *trace; // may be NULL
};

// What a device has unless it is told otherwise; key, GUID and sink are left to the caller.
struct ibcm_config ibcm_config_default(void);

// NULL: no memory. Gives back everything with ibcm_destroy, which tells nobody.
struct ibcm *ibcm_create(const struct ibcm_config *config);
void ibcm_destroy(struct ibcm *ibcm);

const struct ibcm_counters *ibcm_counters(const struct ibcm *ibcm);
void ibcm_counters_tell(const struct ibcm *ibcm, counter_each each, void *ctx);
const char *ibcm_refusal_name(enum ibcm_refusal refusal);

enum { IBCM_OWNER_HERE = -1, IBCM_OWNER_ALL = -2 };

// A MAD that came for queue pair 1, from `ends->remote` to `ends->local`. Returns who is to have it
// instead, if it came as IBCM_SHARING_FIRST: the slot of another process, or all of them;
// IBCM_OWNER_HERE: nobody else.
int ibcm_on_mad(struct ibcm *ibcm, const struct ibcm_ends *ends, struct span mad,
                enum ibcm_sharing sharing, instant_ns now);

instant_ns ibcm_next_deadline(const struct ibcm *ibcm);
void ibcm_on_deadline(struct ibcm *ibcm, instant_ns now);

// Whether a connection that has ended still keeps this queue pair's number from being given away.
bool ibcm_has_qp_num(const struct ibcm *ibcm, uint32_t qp_num);

// Everything that has to hold between calls.
void ibcm_check(const struct ibcm *ibcm);

/* ---- listening ------------------------------------------------------------------------------- */

// Embedded in whatever listens; fields are private.
struct ibcm_listener {
    struct list_link link;
    struct list_link waiting; // connections that it has not answered
    uint64_t service_id;
    struct in6_addr local; // or a wildcard
    uint32_t waiting_count, backlog;
    void *ctx;
};

// Requests for the port are put before `ctx`: those for `local`, which may be of base/wildcard.h.
// `backlog`: of listen(); 0 and less mean the largest.
// 0, or -EADDRINUSE: another listener has the very same port and address.
int ibcm_listen(struct ibcm *ibcm, struct ibcm_listener *l, enum ip_cm_port_space ps, uint16_t port,
                const struct in6_addr *local, int backlog, void *ctx);
// Those that it was told of are its own still; others are refused.
void ibcm_unlisten(struct ibcm *ibcm, struct ibcm_listener *l, instant_ns now);

/* ---- connections ----------------------------------------------------------------------------- */

// How much a program may say, beside the IP CM header.
enum {
    IBCM_CONNECT_DATA_MAX = IBCM_REQ_PRIVATE_LEN - IP_CM_HEADER_LEN,
    IBCM_ACCEPT_DATA_MAX = IBCM_REP_PRIVATE_LEN,
    IBCM_REJECT_DATA_MAX = IBCM_REJ_PRIVATE_LEN,
    IBCM_RESOLVE_DATA_MAX = IBCM_SIDR_REQ_PRIVATE_LEN - IP_CM_HEADER_LEN,
    IBCM_ANSWER_DATA_MAX = IBCM_SIDR_REP_PRIVATE_LEN, // accept and reject of datagrams
};
STATIC_CHECK(IBCM_CONNECT_DATA_MAX == 56);
STATIC_CHECK(IBCM_RESOLVE_DATA_MAX == 180);

// Our end, as the owner has it.
struct ibcm_params {
    enum ibcm_transport transport; // connect: RC or UC
    uint32_t qp_num;
    uint32_t qkey;               // of datagrams
    uint8_t responder_resources; // Reads and atomics that we serve at a time
    uint8_t initiator_depth;     // … and have outstanding
    uint8_t retry_count;         // connect: 0..7, for both ends
    uint8_t rnr_retry_count;     // 0..7: what the peer's requests are to be tried again
    bool has_flow_control;
    bool has_srq;
    uint8_t path_mtu;    // connect: 1 = 256 … 5 = 4096 octets
    uint8_t ack_timeout; // connect: of the queue pairs; 0: what the packet lifetime makes of it
    uint8_t traffic_class, hop_limit; // connect: of both ends' packets
    uint32_t flow_label;
    struct span private_data; // copied
};

// Who is asked.
struct ibcm_target {
    struct ibcm_ends ends;
    enum ip_cm_port_space ps;
    uint16_t port, source_port;
};

// The peer's end, as its message has it.
struct ibcm_peer {
    uint32_t qp_num;
    uint32_t qkey;
    uint32_t starting_psn; // at which we begin to send
    uint8_t responder_resources, initiator_depth;
    uint8_t rnr_retry_count;
    uint8_t retry_count; // of a request
    bool has_flow_control, has_srq;
    uint64_t ca_guid;
    uint16_t source_port; // of a request
};

// What the queue pair is to be given, from CONNECT_RESPONSE, or CONNECT_REQUEST on; ibcm_accept may
// lower the depths.
struct ibcm_agreement {
    uint8_t path_mtu;
    uint32_t dest_qp_num;
    uint32_t sq_psn, rq_psn;
    uint8_t max_rd_atomic, max_dest_rd_atomic;
    uint8_t retry_count, rnr_retry_count;
    uint8_t ack_timeout;
    uint8_t traffic_class, hop_limit;
    uint32_t flow_label;
};

struct ibcm_event {
    enum ibcm_event_type type;
    struct ibcm_conn *conn;
    void *ctx; // the owner's; CONNECT_REQUEST: the listener's
    const struct ibcm_peer *peer;
    struct ibcm_ends ends;
    uint16_t port;            // CONNECT_REQUEST: the one that was asked for
    bool is_datagram;         // of ibcm_resolve, or of its peer
    bool is_silent;           // UNREACHABLE, DISCONNECTED: the peer has answered nothing
    unsigned reason;          // REJECTED: enum ibcm_reason, or, of datagrams, ibcm_sidr_status
    struct span private_data; // the program's part; valid until the next call for its connection
};

// What is next to be told, one call per event. False: nothing is left.
bool ibcm_next_event(struct ibcm *ibcm, struct ibcm_event *ret);

// Asks for a connection. NULL with `*ret_error`: -EINVAL (private data over IBCM_CONNECT_DATA_MAX,
// path MTU), -EAGAIN (no room for another connection).
struct ibcm_conn *ibcm_connect(struct ibcm *ibcm, const struct ibcm_target *target,
                               const struct ibcm_params *params, void *ctx, instant_ns now,
                               int *ret_error);
// Asks which queue pair serves a port, of datagrams; likewise, with IBCM_RESOLVE_DATA_MAX.
// ESTABLISHED tells its number and Q_Key.
struct ibcm_conn *ibcm_resolve(struct ibcm *ibcm, const struct ibcm_target *target,
                               struct span private_data, void *ctx, instant_ns now, int *ret_error);

// The next ones give 0; -EINVAL: too much private data; -ENOTCONN: not in this state, and then an
// event has told, or will tell, why.

// To a request. Responder resources and initiator depth are lowered to what the peer offers.
int ibcm_accept(struct ibcm *ibcm, struct ibcm_conn *conn, const struct ibcm_params *params,
                instant_ns now);
// To a request, or to a response. `reason`: IBCM_REASON_CONSUMER is what programs have; of
// datagrams, an ibcm_sidr_status.
int ibcm_reject(struct ibcm *ibcm, struct ibcm_conn *conn, unsigned reason,
                struct span private_data, instant_ns now);
// To a response, when the queue pair can receive.
int ibcm_establish(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now);
// The answer to a request or response will take its time.
int ibcm_delay(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now);
// A packet of the peer's queue pair has come: that stands for an RTU. 0: it has connected this;
// -EISCONN: that it was before; -ENOTCONN: nobody was accepted.
int ibcm_on_communication(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now);
// DISCONNECTED comes when the peer has answered, or is silent.
void ibcm_disconnect(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now);
// The owner lets go, in any state, and is told nothing any more. What the peer must hear it hears.
void ibcm_drop(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now);

// The process ends: each peer is told, again and again within half a second, until it has answered;
// what it has not by then is bequeathed still.
void ibcm_disconnect_all(struct ibcm *ibcm, instant_ns now);
// Has somebody who was told not answered yet?
bool ibcm_is_disconnecting(const struct ibcm *ibcm);

void ibcm_conn_set_ctx(struct ibcm_conn *conn, void *ctx);
enum ibcm_state ibcm_conn_state(const struct ibcm_conn *conn);
struct ibcm_ends ibcm_conn_ends(const struct ibcm_conn *conn);
bool ibcm_conn_is_datagram(const struct ibcm_conn *conn);
bool ibcm_conn_is_agreed(const struct ibcm_conn *conn); // the peer's queue pair is known
struct ibcm_agreement ibcm_conn_agreement(const struct ibcm_conn *conn);
