// What the files of this room share. Calls go down this list:
//
//   agent.c      made and ended; listeners, events, deadlines
//   call.c       what the owners say
//   input.c      a message: whose it is
//   owner.c      ... where processes share an address, and so queue pair 1
//   request.c    REQ and SIDR_REQ: whether they may come in
//   answer.c     what is said to who is not known, so many times in a second
//   step.c       one input: state, message, event, deadline
//   message.c    a connection's messages, filled and sent
//   table.c      connections by their ids, peers and sources
//   counters.c   what is counted, by name
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/deadlines.h"
#include "base/list.h"
#include "base/span.h"
#include "base/time.h"
#include "ibcm/ibcm.h"
#include "ibcm/state.h"
#include "wire/ibcm.h"
#include "wire/mad.h"

// What a peer says with REQ, REP, REJ, or their kin of datagrams; the longest is SIDR_REQ's.
enum { IBCM_PEER_DATA_MAX = IBCM_SIDR_REQ_PRIVATE_LEN };

struct ibcm_conn {
    enum ibcm_state state;
    bool is_active;   // we asked
    bool is_datagram; // by SIDR
    bool is_owned;    // somebody has it, or is to be told of it
    bool has_will;    // its DREQ is bequeathed
    bool is_silent;   // the peer: all was said as often as it may be
    void *ctx;
    struct ibcm_listener *listener; // until it has answered

    uint32_t local_id, remote_id; // remote: 0 until it is known
    uint64_t transaction_id;      // of the exchange under way
    uint64_t service_id;
    struct ibcm_ends ends;
    uint16_t source_port; // of ours
    struct ibcm_params ours;
    struct ibcm_peer theirs;
    uint32_t starting_psn; // at which the peer begins to send
    uint8_t retry_count;   // of the queue pairs, as the REQ says
    unsigned reason;       // of REJECTED, and of the REJ or SIDR_REP that we send

    unsigned tries, tries_max;
    unsigned unserved;       // refusals that were borne since nobody listened yet
    duration_ns response_ns; // until the answer to a message
    duration_ns service_ns;  // what the last MRA asked for
    duration_ns asked_ns;    // what an MRA of ours asked for: so much later the peer may repeat
    struct deadline deadline;

    unsigned event_mask; // bit per ibcm_event_type that is due
    uint8_t peer_data_len;
    uint8_t peer_data[IBCM_PEER_DATA_MAX];
    uint8_t message[MAD_LEN]; // what was sent last, but for a DREP

    struct list_link free_link;                                  // free, or by no list
    struct list_link event_link;                                 // ibcm.events
    struct list_link waiting_link;                               // listener.waiting
    struct list_link half_link;                                  // ibcm.half_open, oldest first
    struct list_link timewait_link;                              // ibcm.timewait
    struct list_link id_link, remote_link, qp_link, source_link; // buckets
};

struct ibcm {
    struct ibcm_config config;
    struct ibcm_counters counters;
    uint64_t drawn; // random numbers so far
    bool is_ending; // the process is
    struct deadlines deadlines;
    struct list_link listeners;
    struct list_link events;
    struct list_link half_open;
    uint32_t half_open_count;
    struct list_link timewait;

    struct ibcm_conn *conns; // conn_max; touched up to `touched`
    uint32_t touched;
    uint32_t conn_count;
    struct list_link free;
    uint32_t bucket_mask;
    struct list_link *by_id, *by_remote, *by_qp, *by_source;

    instant_ns answers_since; // the second that is counted
    uint32_t answers;
};

// A message on its way to its connection.
struct ibcm_letter {
    const struct ibcm_ends *ends;
    const struct ibcm_message *m;
    enum ibcm_sharing sharing;
    instant_ns now;
};

// What an input brings with it; NULL where it brings nothing.
struct ibcm_said {
    unsigned reason;
    struct span private_data;
};

/* ---- counters.c ------------------------------------------------------------------------------ */

void ibcm_refuse(struct ibcm *ibcm, enum ibcm_refusal refusal);

/* ---- table.c --------------------------------------------------------------------------------- */

void ibcm_table_init(struct ibcm *ibcm, struct list_link *heads);
// A number that nobody can foretell.
uint64_t ibcm_draw(struct ibcm *ibcm);
// A connection in IDLE with an id of its own; NULL: there is no room.
struct ibcm_conn *ibcm_conn_take(struct ibcm *ibcm, const struct ibcm_ends *ends);
// Gives it back if it is over, nobody has it and nobody is to be told.
void ibcm_conn_give_back(struct ibcm *ibcm, struct ibcm_conn *conn);
// Puts it into the lists of its state and of what is known of its peer, and out of the others.
void ibcm_conn_file(struct ibcm *ibcm, struct ibcm_conn *conn);
struct ibcm_conn *ibcm_conn_by_id(const struct ibcm *ibcm, uint32_t local_id);
struct ibcm_conn *ibcm_conn_by_remote(const struct ibcm *ibcm, uint32_t remote_id,
                                      const struct in6_addr *remote, bool is_datagram);
struct ibcm_conn *ibcm_conn_by_qp(const struct ibcm *ibcm, uint32_t qp_num, uint64_t ca_guid,
                                  const struct in6_addr *remote);
// Half-open connections with one address; counts up to `max`.
uint32_t ibcm_half_open_of(const struct ibcm *ibcm, const struct in6_addr *remote, uint32_t max);

/* ---- message.c ------------------------------------------------------------------------------- */

// Puts a message into the sink, counted.
void ibcm_message_send(struct ibcm *ibcm, const struct ibcm_ends *ends,
                       const struct ibcm_message *m);
// What an edge of the table says to send; not IBCM_SEND_NOTHING.
void ibcm_conn_send(struct ibcm *ibcm, struct ibcm_conn *conn, enum ibcm_send send,
                    struct span private_data);

// Its DREQ, as others are to send it.
void ibcm_conn_bequeath(struct ibcm *ibcm, const struct ibcm_conn *conn);

/* ---- step.c ---------------------------------------------------------------------------------- */

// Moves the connection on. False: the input does not belong here, nothing has moved.
bool ibcm_step(struct ibcm *ibcm, struct ibcm_conn *conn, enum ibcm_input input,
               const struct ibcm_said *said, instant_ns now);
// The process ends while the DREQ is out: counts its repeats anew, at that pace.
void ibcm_conn_hurry(struct ibcm *ibcm, struct ibcm_conn *conn, instant_ns now);
// Keeps what a peer said for the event that tells it.
void ibcm_conn_keep(struct ibcm_conn *conn, struct span private_data);

/* ---- answer.c -------------------------------------------------------------------------------- */

void ibcm_answer_rej(struct ibcm *ibcm, const struct ibcm_ends *ends, uint64_t transaction_id,
                     const struct ibcm_rej *rej, instant_ns now);
void ibcm_answer_drep(struct ibcm *ibcm, const struct ibcm_ends *ends, uint64_t transaction_id,
                      const struct ibcm_dreq *dreq, instant_ns now);
void ibcm_answer_sidr_rep(struct ibcm *ibcm, const struct ibcm_ends *ends, uint64_t transaction_id,
                          const struct ibcm_sidr_req *req, enum ibcm_sidr_status status,
                          instant_ns now);

/* ---- owner.c --------------------------------------------------------------------------------- */

enum { IBCM_ID_SLOT_SHIFT = 24 };

// As ibcm_on_mad returns it.
int ibcm_owner(const struct ibcm *ibcm, const struct ibcm_letter *in);

/* ---- request.c ------------------------------------------------------------------------------- */

// Who listens at this very address goes before who listens at all; NULL: nobody.
struct ibcm_listener *ibcm_listener_find(const struct ibcm *ibcm, uint64_t service_id,
                                         const struct in6_addr *local);
void ibcm_on_req(struct ibcm *ibcm, const struct ibcm_letter *in);
void ibcm_on_sidr_req(struct ibcm *ibcm, const struct ibcm_letter *in);
