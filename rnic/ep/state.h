// The states of an endpoint, and the table of their transitions, as data.
//
//     BOUND --listen--> LISTENING ------------------------------close--> CLOSED
//       |  start                                                           ^
//     STARTING --open--> OPEN --shut down--> CLOSING ----------------close-+
//
// From every state it may be closed, once. The stream's own start-up is conn/'s (conn/state.h).
#pragma once

enum ep_state {
    EP_BOUND,     // has an address, perhaps
    EP_LISTENING, // accepts connections
    EP_STARTING,  // TCP connects, then MPA start-up; until conn/ says established or failed
    EP_OPEN,      // full operation phase: FPDUs
    EP_CLOSING,   // FIN sent; waits for the peer's
    EP_CLOSED,    // the stream is gone
    EP_STATE_COUNT,
    EP_NO_STATE = EP_STATE_COUNT, // this input does not belong here
};

enum ep_input {
    EP_IN_LISTEN,   // a front or a point: connections are accepted
    EP_IN_START,    // it connects, was accepted, or leads back
    EP_IN_OPEN,     // the stream is the queue pair's
    EP_IN_SHUTDOWN, // the queue pair is done with it
    EP_IN_CLOSE,    // either end, or TCP, has ended it
    EP_INPUT_COUNT,
};

// The state that follows, or EP_NO_STATE.
enum ep_state ep_state_next(enum ep_state state, enum ep_input input);

const char *ep_state_name(enum ep_state state);
const char *ep_input_name(enum ep_input input);
