#include "roce/state.h"

const char *roce_service_name(enum roce_service service)
{
    static const char *const names[ROCE_SERVICE_COUNT] = {"RC", "UC", "UD"};
    return service < ROCE_SERVICE_COUNT ? names[service] : "?";
}

// Row: what it is; column: what is asked for (InfiniBand's figure of states, ibv_modify_qp).
static const bool may_modify[QP_STATE_COUNT][QP_STATE_COUNT] = {
    [QP_RESET] = {[QP_RESET] = true, [QP_INIT] = true, [QP_ERR] = true},
    [QP_INIT] = {[QP_RESET] = true, [QP_INIT] = true, [QP_RTR] = true, [QP_ERR] = true},
    [QP_RTR] = {[QP_RESET] = true, [QP_RTS] = true, [QP_ERR] = true},
    [QP_RTS] = {[QP_RESET] = true, [QP_RTS] = true, [QP_SQD] = true, [QP_ERR] = true},
    [QP_SQD] = {[QP_RESET] = true, [QP_RTS] = true, [QP_SQD] = true, [QP_ERR] = true},
    [QP_SQE] = {[QP_RESET] = true, [QP_RTS] = true, [QP_ERR] = true},
    [QP_ERR] = {[QP_RESET] = true, [QP_ERR] = true},
};

// A queue pair of RC never is in SQE.
bool roce_state_may_modify(enum roce_service service, enum qp_state from, enum qp_state to)
{
    bool is_known = from < QP_STATE_COUNT && to < QP_STATE_COUNT;
    bool is_strange = service == ROCE_SERVICE_RC && from == QP_SQE && to == QP_RTS;
    return is_known && !is_strange && may_modify[from][to];
}

static const struct roce_state_facts facts[QP_STATE_COUNT] = {
    [QP_RTR] = {.takes_packets = true},
    [QP_RTS] = {.takes_packets = true, .takes_answers = true, .begins_sends = true},
    [QP_SQD] = {.takes_packets = true, .takes_answers = true},
    [QP_SQE] = {.takes_packets = true, .flushes_sends = true},
    [QP_ERR] = {.flushes_sends = true, .flushes_receives = true},
};

const struct roce_state_facts *roce_state_facts(enum qp_state state)
{
    return &facts[state < QP_STATE_COUNT ? state : QP_RESET];
}

enum qp_state roce_state_after_failed_send(enum roce_service service, enum qp_state state)
{
    if (service == ROCE_SERVICE_RC || state == QP_ERR) {
        return QP_ERR;
    }
    return QP_SQE;
}
