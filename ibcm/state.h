// The states of a connection of the connection manager, and what each input makes of them, as data:
// the state that follows, the message that is sent, the event that the owner is told (InfiniBand
// Architecture volume 1, section 12.9).
//
//   active                                         passive
//
//   IDLE                                           IDLE
//    | connect: REQ                                 | REQ
//   REQ_SENT <-> MRA_REQ_RCVD, REQ_UNSERVED        REQ_RCVD -> MRA_REQ_SENT
//    | REP                                          | accept: REP
//   REP_RCVD -> MRA_REP_SENT                       REP_SENT <-> MRA_REP_RCVD
//    | establish: RTU                               | RTU, or the first packet of data
//   ESTABLISHED                                    ESTABLISHED
//    | disconnect: DREQ       | DREQ: DREP
//   DREQ_SENT -- DREP --> TIMEWAIT ------> OVER
//
//   IDLE -- resolve: SIDR_REQ --> SIDR_REQ_SENT <-> SIDR_REQ_UNSERVED -- SIDR_REP --> OVER
//   IDLE -- SIDR_REQ --> SIDR_REQ_RCVD -- accept, reject: SIDR_REP --> SIDR_ANSWERED --> OVER
//
// Who refuses sends REJ and stays REFUSED for a while, so that a message that comes again is
// answered again. A DREQ is answered at once, whatever the program does: who sent it has let go of
// its queue pair already, so there is no state in which it was received and not answered.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum ibcm_state {
    IBCM_NO_STATE, // in the table: this input does not belong here, nothing moves
    IBCM_IDLE,
    IBCM_REQ_SENT,
    IBCM_MRA_REQ_RCVD, // active: the peer has asked for time
    IBCM_REQ_UNSERVED, // active: nobody listens there, and may in a moment
    IBCM_REP_RCVD,     // active: the owner is to establish or reject
    IBCM_MRA_REP_SENT, // active: the peer has been asked for time
    IBCM_REQ_RCVD,     // passive: the owner is to accept or reject
    IBCM_MRA_REQ_SENT, // passive: the peer has been asked for time
    IBCM_REP_SENT,
    IBCM_MRA_REP_RCVD, // passive: the peer has asked for time
    IBCM_ESTABLISHED,
    IBCM_DREQ_SENT,
    IBCM_TIMEWAIT, // the queue pair's number stays out of use
    IBCM_REFUSED,  // we said REJ, and say it again if asked again
    IBCM_SIDR_REQ_SENT,
    IBCM_SIDR_REQ_UNSERVED, // active: nobody listens there, and may in a moment
    IBCM_SIDR_REQ_RCVD,     // the owner is to accept or reject
    IBCM_SIDR_ANSWERED,     // we said SIDR_REP, and say it again if asked again
    IBCM_OVER,
    IBCM_STATE_COUNT,
};

enum ibcm_input {
    IBCM_IN_CONNECT, // the owner: as the doors of ibcm/ibcm.h
    IBCM_IN_RESOLVE,
    IBCM_IN_ACCEPT,
    IBCM_IN_REJECT,
    IBCM_IN_ESTABLISH,
    IBCM_IN_DELAY,
    IBCM_IN_COMMUNICATION,
    IBCM_IN_DISCONNECT,
    IBCM_IN_DROP,
    IBCM_IN_REQ,       // the peer: a REQ of somebody who is not known
    IBCM_IN_REQ_AGAIN, // the one that made this connection
    IBCM_IN_STALE,     // one that says that the peer's queue pair has begun anew
    IBCM_IN_MRA,
    IBCM_IN_REP,
    IBCM_IN_REJ,
    IBCM_IN_UNSERVED, // REJ or SIDR_REP, since nobody listens: not the last to be borne
    IBCM_IN_RTU,
    IBCM_IN_DREQ,
    IBCM_IN_DREP,
    IBCM_IN_SIDR_REQ,
    IBCM_IN_SIDR_REQ_AGAIN,
    IBCM_IN_SIDR_REP,
    IBCM_IN_SIDR_REFUSED,
    IBCM_IN_DEADLINE,  // the state's time is over
    IBCM_IN_EXHAUSTED, // the same, and there are no tries left
    IBCM_IN_EVICTED,   // newer ones need the place
    IBCM_INPUT_COUNT,
};

enum ibcm_send {
    IBCM_SEND_NOTHING,
    IBCM_SEND_REQ,
    IBCM_SEND_MRA,
    IBCM_SEND_REJ,
    IBCM_SEND_REP,
    IBCM_SEND_RTU,
    IBCM_SEND_DREQ,
    IBCM_SEND_DREP,
    IBCM_SEND_SIDR_REQ,
    IBCM_SEND_SIDR_REP,
    IBCM_SEND_AGAIN, // what was sent last
    IBCM_SEND_COUNT,
};

// In this order they are told where several are due.
enum ibcm_event_type {
    IBCM_EVENT_NONE,
    IBCM_EVENT_CONNECT_REQUEST,  // passive: accept or reject
    IBCM_EVENT_CONNECT_RESPONSE, // active: establish, or reject
    IBCM_EVENT_ESTABLISHED,      // of datagrams: the peer's queue pair is known
    IBCM_EVENT_REJECTED,         // see `reason`
    IBCM_EVENT_UNREACHABLE,      // the peer is silent
    IBCM_EVENT_DISCONNECTED,
    IBCM_EVENT_TIMEWAIT_EXIT, // the queue pair's number may be used again
    IBCM_EVENT_COUNT,
};

struct ibcm_edge {
    uint8_t next;  // enum ibcm_state; IBCM_NO_STATE: not here
    uint8_t send;  // enum ibcm_send
    uint8_t event; // enum ibcm_event_type
};

const struct ibcm_edge *ibcm_state_edge(enum ibcm_state state, enum ibcm_input input);

// How long a state lasts.
enum ibcm_timer {
    IBCM_TIMER_NONE,
    IBCM_TIMER_RESPONSE, // until an answer is due; then the message goes out again, or it is over
    IBCM_TIMER_SERVICE,  // what the peer has asked for by MRA
    IBCM_TIMER_PAUSE,    // until it is worth asking again
    IBCM_TIMER_TIMEWAIT, // until no packet of the connection can be on its way any more
    IBCM_TIMER_REPEATS,  // until whoever was answered has stopped asking
};

struct ibcm_state_facts {
    const char *name;
    enum ibcm_timer timer;
    bool is_half_open; // somebody unknown has made us remember it: it may be evicted
    bool has_peer_qp;  // the peer's queue pair is this one's, and nobody else's
};

const struct ibcm_state_facts *ibcm_state_facts(enum ibcm_state state);

const char *ibcm_input_name(enum ibcm_input input);
const char *ibcm_send_name(enum ibcm_send send);
const char *ibcm_event_name(enum ibcm_event_type event);
