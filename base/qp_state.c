#include "base/qp_state.h"

const char *qp_state_name(enum qp_state state)
{
    static const char *const names[QP_STATE_COUNT] = {
        [QP_RESET] = "RESET", [QP_INIT] = "INIT", [QP_RTR] = "RTR", [QP_RTS] = "RTS",
        [QP_SQD] = "SQD",     [QP_SQE] = "SQE",   [QP_ERR] = "ERR",
    };
    return state < QP_STATE_COUNT ? names[state] : "?";
}

const char *qp_event_name(enum qp_event event)
{
    static const char *const names[QP_EVENT_COUNT] = {
        [QP_EVENT_FATAL] = "fatal",
        [QP_EVENT_REQ_ERR] = "request error",
        [QP_EVENT_ACCESS_ERR] = "access error",
        [QP_EVENT_SQ_DRAINED] = "send queue drained",
        [QP_EVENT_LAST_WQE_REACHED] = "last work queue entry reached",
        [QP_EVENT_COMM_EST] = "communication established",
    };
    return names[event];
}
