// What a program sees of a queue pair, whatever transport carries it: its state, and what it is
// told of besides completions. Which changes there are between states each transport has in a table
// of its own.
#pragma once

// Values of IBV_QPS_*, which verbs/ asserts.
enum qp_state {
    QP_RESET = 0,
    QP_INIT = 1,
    QP_RTR = 2,
    QP_RTS = 3,
    QP_SQD = 4,
    QP_SQE = 5,
    QP_ERR = 6,
    QP_STATE_COUNT,
};
const char *qp_state_name(enum qp_state state); // "RTS"; "?" of what is none

// Asynchronous events (IBV_EVENT_*). SRQ_LIMIT goes through the srq's own port.
enum qp_event {
    QP_EVENT_FATAL,            // the connection failed: by ours, or by what the peer said
    QP_EVENT_REQ_ERR,          // the peer sent what is not allowed here
    QP_EVENT_ACCESS_ERR,       // the peer touched what it may not touch
    QP_EVENT_SQ_DRAINED,       // SQD: everything posted before has left and is complete
    QP_EVENT_LAST_WQE_REACHED, // on an SRQ: no more entries of it will be consumed
    QP_EVENT_COMM_EST,         // a message arrived in RTR
    QP_EVENT_COUNT,
};
const char *qp_event_name(enum qp_event event); // a short phrase, for traces
