// The states of a queue pair, two views of one thing, each a table.
//
// What the program sees and asks for (ibv_modify_qp), values of IBV_QPS_*:
//
//     RESET ──▶ INIT ──▶ RTR ──▶ RTS ──▶ SQD        any ──▶ ERR, any ──▶ RESET
//       └─────────┴───────────────▲ (a stream was established)
//
// What is posted before RTS waits for it, in RESET too. SQD is the orderly end of a stream
// (rdma_disconnect): what was posted leaves, then FIN; there is no way back to RTS. SQE does not
// occur.
//
// What the stream does (RDMAP; the iWARP verbs' IDLE, RTS, CLOSING, TERMINATE, ERROR):
//
//     IDLE ─established─▶ OPEN ─close─▶ CLOSING ─────llp closed──────▶ ERROR
//                          │               │                            ▲
//                          ├── refuse ─────┴─▶ TERMINATE ─handed, closed┤
//                          └── terminated, llp closed, fail ────────────┘
#pragma once

#include <stdbool.h>

#include "base/qp_state.h"

// May the program ask for this change? The pair (from, from) is allowed where it does nothing.
bool qp_state_may_modify(enum qp_state from, enum qp_state to);

enum qp_stream_state {
    QP_STREAM_IDLE,      // no stream yet; posts wait
    QP_STREAM_OPEN,      // full operation
    QP_STREAM_CLOSING,   // what was posted before goes out, then the end of the stream
    QP_STREAM_TERMINATE, // a Terminate is on its way out; nothing is taken in any more
    QP_STREAM_ERROR,     // over; posts are flushed
    QP_STREAM_STATE_COUNT,
};

enum qp_stream_event {
    QP_STREAM_ON_ESTABLISHED,
    QP_STREAM_ON_CLOSE,            // the program wants an orderly end
    QP_STREAM_ON_REFUSE,           // the peer's error, or ours: a Terminate is due
    QP_STREAM_ON_TERMINATE_HANDED, // ours has left
    QP_STREAM_ON_TERMINATED,       // the peer's has arrived
    QP_STREAM_ON_LLP_CLOSED,       // FIN, reset, silence
    QP_STREAM_ON_FAIL,             // the program wants the error state, or resources failed
    QP_STREAM_ON_RESET,            // the program wants to start anew
    QP_STREAM_EVENT_COUNT,
};

// The next state; the same state where the event means nothing.
enum qp_stream_state qp_stream_next(enum qp_stream_state state, enum qp_stream_event event);
const char *qp_stream_state_name(enum qp_stream_state state);
const char *qp_stream_event_name(enum qp_stream_event event);
