#include "verbs/transition.h"

#include <errno.h>
#include <stddef.h>

struct transition {
    enum ibv_qp_state from, to;
    int required, optional;
};

enum {
    INIT_ATTRS = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
    INIT_ATTRS_UD = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
    RTR_ATTRS_UC = IBV_QP_AV | IBV_QP_DEST_QPN | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN,
    RTR_ATTRS = RTR_ATTRS_UC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
    RTS_ATTRS = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                IBV_QP_MAX_QP_RD_ATOMIC,
    // What may change while it sends.
    LIVE_ATTRS_UC = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE,
    LIVE_ATTRS = LIVE_ATTRS_UC | IBV_QP_MIN_RNR_TIMER,
    LIVE_ATTRS_UD = IBV_QP_CUR_STATE | IBV_QP_QKEY,
    // ... and while it does not.
    SQD_ATTRS_UC = IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE,
    SQD_ATTRS = SQD_ATTRS_UC | IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
};

// RESET and ERR can be asked for in every state, with nothing else.
static const struct transition rc_rows[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, INIT_ATTRS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, INIT_ATTRS},
    {IBV_QPS_INIT, IBV_QPS_RTR, RTR_ATTRS, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS, RTS_ATTRS, LIVE_ATTRS},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, LIVE_ATTRS},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, SQD_ATTRS},
    // The last row: for a stream SQD is the end, and there is no way back.
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, LIVE_ATTRS},
};

static const struct transition uc_rows[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, INIT_ATTRS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, INIT_ATTRS},
    {IBV_QPS_INIT, IBV_QPS_RTR, RTR_ATTRS_UC, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, LIVE_ATTRS_UC},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, LIVE_ATTRS_UC},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, SQD_ATTRS_UC},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, LIVE_ATTRS_UC},
    {IBV_QPS_SQE, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
};

static const struct transition ud_rows[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, INIT_ATTRS_UD, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, INIT_ATTRS_UD},
    {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, LIVE_ATTRS_UD},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, LIVE_ATTRS_UD},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, LIVE_ATTRS_UD},
    {IBV_QPS_SQE, IBV_QPS_RTS, 0, LIVE_ATTRS_UD},
};

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static const struct transition *rows_of(bool is_stream, enum ibv_qp_type type, size_t *ret_count)
{
    switch (type) {
    case IBV_QPT_UD:
        *ret_count = COUNT(ud_rows);
        return ud_rows;
    case IBV_QPT_UC:
        *ret_count = COUNT(uc_rows);
        return uc_rows;
    default:
        *ret_count = COUNT(rc_rows) - (is_stream ? 1 : 0);
        return rc_rows;
    }
}

int transition_check(bool is_stream, enum ibv_qp_type type, enum ibv_qp_state from,
                     enum ibv_qp_state to, int mask)
{
    const int attributes = mask & ~IBV_QP_STATE;
    size_t count;
    const struct transition *rows = rows_of(is_stream, type, &count);
    if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET)) {
        return attributes == 0 ? 0 : EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        const struct transition *t = &rows[i];
        if (t->from == from && t->to == to) {
            return (attributes & t->required) == t->required &&
                           (attributes & ~(t->required | t->optional)) == 0
                       ? 0
                       : EINVAL;
        }
    }
    return EINVAL;
}
