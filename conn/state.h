// The states of connection establishment and the table of their transitions, as data.
//
//   initiator                                      responder
//
//   IDLE                                           WAIT_REQUEST
//    | connect                                      | Request
//   CONNECTING                                     REQUEST_DELIVERED
//    | TCP is up: the Request goes out              | accept           | reject
//   WAIT_REPLY ---- Reply with R ----> REJECTED    ACCEPTING          REJECTING
//    | Reply     \ Reply, siw's         (over)      | Reply written    | Reply written
//    |            \ or wanted                       |       \ p2p      v
//    |      REPLY_DELIVERED -> REPLY_HELD           |      WAIT_RTR   CLOSED
//    |       | establish        | 20 ms             |       | first FPDU
//   ESTABLISHED <---------------+                  ESTABLISHED
//
// An initiator that is its own peer goes from IDLE to ESTABLISHED: there is nobody to ask.
// From every state that is not over: TCP ends, a frame is refused, or time runs out -> FAILED.
#pragma once

enum conn_state {
    CONN_NO_STATE,          // in the table: this input does not belong here, nothing moves
    CONN_IDLE,              // initiator: nothing was asked for yet
    CONN_CONNECTING,        // initiator: the Request is ready, TCP is not
    CONN_WAIT_REPLY,        // initiator: the Request is being written, then the Reply awaited
    CONN_REPLY_DELIVERED,   // initiator: the application has the Reply and is to say `establish`
    CONN_REPLY_HELD,        // initiator: the first FPDU waits until siw is ready for it
    CONN_WAIT_REQUEST,      // responder: TCP is up
    CONN_REQUEST_DELIVERED, // responder: the application is to accept or reject
    CONN_ACCEPTING,         // responder: the Reply is being written
    CONN_WAIT_RTR,          // responder, peer-to-peer: the Reply is written, the first FPDU is due
    CONN_REJECTING,         // responder: the rejecting Reply is being written
    CONN_ESTABLISHED,       // full operation phase
    CONN_REJECTED,          // over: the peer's application said no
    CONN_FAILED,            // over: see the event
    CONN_CLOSED,            // over: ended by us, or ended after it was established
    CONN_STATE_COUNT,
};

enum conn_input {
    CONN_IN_CONNECT,        // the application: connect
    CONN_IN_CONNECT_ITSELF, // the application: this end is its own peer
    CONN_IN_ACCEPT,         // the application: accept
    CONN_IN_REJECT,         // the application: reject
    CONN_IN_ESTABLISH,      // the application: go on after the Reply
    CONN_IN_ESTABLISH_HELD, // the same, while siw must still be waited for
    CONN_IN_LLP_CONNECTED,  // TCP is up
    CONN_IN_LLP_FAILED,     // TCP refused, reset, timed out, or the peer's FIN
    CONN_IN_REQUEST,        // a good Request
    CONN_IN_REPLY,          // a good Reply
    CONN_IN_REPLY_DELIVER,  // a good Reply that the application wants to see first
    CONN_IN_REPLY_HOLD,     // a good Reply of siw
    CONN_IN_REPLY_REJECTED, // a Reply with R
    CONN_IN_FRAME_REFUSED,  // a frame that cannot be taken
    CONN_IN_WRITTEN,        // the last octet of our frame is written
    CONN_IN_WRITTEN_AWAIT,  // the same, and peer-to-peer is agreed
    CONN_IN_FIRST_FPDU,     // the peer's first FPDU
    CONN_IN_DEADLINE,       // the state's time is over
    CONN_INPUT_COUNT,
};

// The state that follows, or CONN_NO_STATE.
enum conn_state conn_state_next(enum conn_state state, enum conn_input input);

const char *conn_state_name(enum conn_state state);
const char *conn_input_name(enum conn_input input);
