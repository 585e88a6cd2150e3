#include "iwarp/state.h"

// Row: what it is; column: what is asked for. An iWARP queue pair that closes (SQD) does not come
// back to RTS. From INIT only a stream leads to RTS.
static const bool may_modify[QP_STATE_COUNT][QP_STATE_COUNT] = {
    [QP_RESET] = {[QP_RESET] = true, [QP_INIT] = true, [QP_ERR] = true},
    [QP_INIT] = {[QP_RESET] = true, [QP_INIT] = true, [QP_RTR] = true, [QP_ERR] = true},
    [QP_RTR] = {[QP_RESET] = true, [QP_RTR] = true, [QP_RTS] = true, [QP_ERR] = true},
    [QP_RTS] = {[QP_RESET] = true, [QP_RTS] = true, [QP_SQD] = true, [QP_ERR] = true},
    [QP_SQD] = {[QP_RESET] = true, [QP_SQD] = true, [QP_ERR] = true},
    [QP_SQE] = {[QP_RESET] = true, [QP_ERR] = true},
    [QP_ERR] = {[QP_RESET] = true, [QP_SQD] = true, [QP_ERR] = true},
};

bool qp_state_may_modify(enum qp_state from, enum qp_state to)
{
    return from < QP_STATE_COUNT && to < QP_STATE_COUNT && may_modify[from][to];
}

#define IDLE      QP_STREAM_IDLE
#define OPEN      QP_STREAM_OPEN
#define CLOSING   QP_STREAM_CLOSING
#define TERMINATE QP_STREAM_TERMINATE
#define ERROR     QP_STREAM_ERROR

static const enum qp_stream_state next_state[QP_STREAM_STATE_COUNT][QP_STREAM_EVENT_COUNT] = {
    [IDLE] = {[QP_STREAM_ON_ESTABLISHED] = OPEN,
              [QP_STREAM_ON_CLOSE] = ERROR,
              [QP_STREAM_ON_REFUSE] = ERROR,
              [QP_STREAM_ON_TERMINATE_HANDED] = IDLE,
              [QP_STREAM_ON_TERMINATED] = IDLE,
              [QP_STREAM_ON_LLP_CLOSED] = IDLE, // a stream of the life before a reset
              [QP_STREAM_ON_FAIL] = ERROR,
              [QP_STREAM_ON_RESET] = IDLE},
    [OPEN] = {[QP_STREAM_ON_ESTABLISHED] = OPEN,
              [QP_STREAM_ON_CLOSE] = CLOSING,
              [QP_STREAM_ON_REFUSE] = TERMINATE,
              [QP_STREAM_ON_TERMINATE_HANDED] = OPEN,
              [QP_STREAM_ON_TERMINATED] = ERROR,
              [QP_STREAM_ON_LLP_CLOSED] = ERROR,
              [QP_STREAM_ON_FAIL] = ERROR,
              [QP_STREAM_ON_RESET] = IDLE},
    [CLOSING] = {[QP_STREAM_ON_ESTABLISHED] = CLOSING,
                 [QP_STREAM_ON_CLOSE] = CLOSING,
                 [QP_STREAM_ON_REFUSE] = TERMINATE,
                 [QP_STREAM_ON_TERMINATE_HANDED] = CLOSING,
                 [QP_STREAM_ON_TERMINATED] = ERROR,
                 [QP_STREAM_ON_LLP_CLOSED] = ERROR,
                 [QP_STREAM_ON_FAIL] = ERROR,
                 [QP_STREAM_ON_RESET] = IDLE},
    [TERMINATE] = {[QP_STREAM_ON_ESTABLISHED] = TERMINATE,
                   [QP_STREAM_ON_CLOSE] = TERMINATE,
                   [QP_STREAM_ON_REFUSE] = TERMINATE, // the first error is the one reported
                   [QP_STREAM_ON_TERMINATE_HANDED] = ERROR,
                   [QP_STREAM_ON_TERMINATED] = ERROR,
                   [QP_STREAM_ON_LLP_CLOSED] = ERROR,
                   [QP_STREAM_ON_FAIL] = ERROR,
                   [QP_STREAM_ON_RESET] = IDLE},
    [ERROR] = {[QP_STREAM_ON_ESTABLISHED] = ERROR,
               [QP_STREAM_ON_CLOSE] = ERROR,
               [QP_STREAM_ON_REFUSE] = ERROR,
               [QP_STREAM_ON_TERMINATE_HANDED] = ERROR,
               [QP_STREAM_ON_TERMINATED] = ERROR,
               [QP_STREAM_ON_LLP_CLOSED] = ERROR,
               [QP_STREAM_ON_FAIL] = ERROR,
               [QP_STREAM_ON_RESET] = IDLE},
};

enum qp_stream_state qp_stream_next(enum qp_stream_state state, enum qp_stream_event event)
{
    return next_state[state][event];
}

const char *qp_stream_state_name(enum qp_stream_state state)
{
    static const char *const names[QP_STREAM_STATE_COUNT] = {
        [IDLE] = "IDLE",           [OPEN] = "OPEN",   [CLOSING] = "CLOSING",
        [TERMINATE] = "TERMINATE", [ERROR] = "ERROR",
    };
    return names[state];
}

const char *qp_stream_event_name(enum qp_stream_event event)
{
    static const char *const names[QP_STREAM_EVENT_COUNT] = {
        [QP_STREAM_ON_ESTABLISHED] = "established",
        [QP_STREAM_ON_CLOSE] = "close",
        [QP_STREAM_ON_REFUSE] = "refuse",
        [QP_STREAM_ON_TERMINATE_HANDED] = "terminate handed",
        [QP_STREAM_ON_TERMINATED] = "terminated",
        [QP_STREAM_ON_LLP_CLOSED] = "llp closed",
        [QP_STREAM_ON_FAIL] = "fail",
        [QP_STREAM_ON_RESET] = "reset",
    };
    return names[event];
}
