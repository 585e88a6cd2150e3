// The states of a connection and the table of their transitions, as data (RFC 9293 section 3.3.2,
// figure 5).
//
//                      CLOSED
//          passive open │  │ active open
//                 LISTEN   SYN-SENT ────────── SYN,ACK ──┐
//                   SYN │  │ SYN                         │
//                  SYN-RECEIVED ── ACK of our SYN ─▶ ESTABLISHED
//                                               close │    │ FIN
//                    FIN-WAIT-1 ◀─────────────────────┘  CLOSE-WAIT
//       ACK of our FIN │  │ FIN                            │ close
//                 FIN-WAIT-2  CLOSING                    LAST-ACK
//                  FIN │  │ ACK of our FIN                 │ ACK of our FIN
//                    TIME-WAIT ──── 2 MSL ─────────────▶ CLOSED
//
// From every state: reset, abort, time-out -> CLOSED. A close in SYN-RECEIVED waits for ESTABLISHED
// (RFC 9293 section 3.10.4 lets it).
#pragma once

enum tcp_state {
    TCP_STATE_CLOSED,
    TCP_STATE_LISTEN, // of a listener, never of a connection
    TCP_STATE_SYN_SENT,
    TCP_STATE_SYN_RECEIVED,
    TCP_STATE_ESTABLISHED,
    TCP_STATE_FIN_WAIT_1,
    TCP_STATE_FIN_WAIT_2,
    TCP_STATE_CLOSE_WAIT,
    TCP_STATE_CLOSING,
    TCP_STATE_LAST_ACK,
    TCP_STATE_TIME_WAIT,
    TCP_STATE_COUNT,
};

enum tcp_input {
    TCP_ON_ACTIVE_OPEN,
    TCP_ON_PASSIVE_OPEN,
    TCP_ON_SYN,        // an acceptable SYN without an ACK
    TCP_ON_SYN_ACK,    // a SYN that acknowledges ours
    TCP_ON_ACK_OF_SYN, // ours is acknowledged
    TCP_ON_CLOSE,      // the user has no more to send
    TCP_ON_FIN,        // all octets before the peer's FIN are there
    TCP_ON_ACK_OF_FIN, // ours is acknowledged
    TCP_ON_RESET,      // a believable RST
    TCP_ON_ABORT,      // the user gives up
    TCP_ON_TIMEOUT,    // the peer has been silent for too long
    TCP_ON_2MSL,       // TIME-WAIT is over
    TCP_INPUT_COUNT,
};

// The state that follows; the same state where the input means nothing.
enum tcp_state tcp_state_next(enum tcp_state state, enum tcp_input input);

const char *tcp_state_name(enum tcp_state state);
const char *tcp_input_name(enum tcp_input input);
