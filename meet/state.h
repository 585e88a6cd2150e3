// The states of a meeting and the table of their transitions, as data.
//
//   DUE ──connect──▶ CONNECTING ──established──▶ MET
//    │  ▲                │
//    │  └── failed, or not now: again a little later
//    │
//    └──listen──▶ LISTENING ──a Request is accepted──▶ ANSWERING ──established──▶ MET
//                    ▲                                      │
//                    └──────────────── failed ──────────────┘
//
// From every state that is not over: the stream breaks, or patience ends -> OVER.
#pragma once

enum meeting_state {
    MEETING_NO_STATE,   // in the table: this input does not belong here, nothing moves
    MEETING_DUE,        // a try is to be made, now or a little later
    MEETING_CONNECTING, // the first of the two: it asks the other
    MEETING_LISTENING,  // the second: it waits to be asked
    MEETING_ANSWERING,  // it has accepted a Request
    MEETING_MET,        // the two are connected
    MEETING_OVER,       // they are not, and will not be
    MEETING_STATE_COUNT,
};

enum meeting_input {
    MEETING_IN_CONNECT,     // the try of the first of the two, or of one that is its own peer
    MEETING_IN_LISTEN,      // the try of the second
    MEETING_IN_NOT_NOW,     // the try could not be made
    MEETING_IN_ACCEPT,      // a Request is accepted
    MEETING_IN_ESTABLISHED, // the stream is in full operation
    MEETING_IN_FAILED,      // the connection ended in its start-up
    MEETING_IN_BROKEN,      // the stream ended beyond that: the queue pair has failed with it
    MEETING_IN_GIVE_UP,     // work has waited for too long
    MEETING_INPUT_COUNT,
};

// The state that follows, or MEETING_NO_STATE.
enum meeting_state meeting_state_next(enum meeting_state state, enum meeting_input input);

const char *meeting_state_name(enum meeting_state state);
const char *meeting_input_name(enum meeting_input input);
