// ibv_modify_qp: which attributes may come with which state, and what is done with them.
//
// RTR with a destination (GID and queue pair number) is how programs connect that know no
// connection manager: the device connects the two by itself (rnic_qp_meet). The other attributes of
// an InfiniBand connection (time-outs, retries, sequence numbers) mean nothing to TCP; they are
// kept and told again by ibv_query_qp.

#include "base/qp_state.h"
#include "verbs/front.h"

enum {
    // IBV_QP_RATE_LIMIT and all beyond are unknown here.
    MASK_KNOWN = (IBV_QP_DEST_QPN << 1) - 1,
    MASK_DESTINATION = IBV_QP_AV | IBV_QP_DEST_QPN,
    MASK_ABSENT = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP,
    QP_NUM_MAX = 0xffffff,
    // Rights that a peer may be given, and some that programs hand on from their regions. Those to
    // flush came with rdma-core 45; nothing asks for it.
    RIGHT_FLUSH_GLOBAL = 1 << 8,
    RIGHT_FLUSH_PERSISTENT = 1 << 9,
    RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
             IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND |
             RIGHT_FLUSH_GLOBAL | RIGHT_FLUSH_PERSISTENT,
};

// InfiniBand's table for RC, as the kernel has it: what must come with a change of state, and what
// may. There is no way from SQD to RTS: it is the end of an iWARP stream.
enum {
    INIT_ATTRS = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
    RTR_ATTRS = MASK_DESTINATION | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                IBV_QP_MIN_RNR_TIMER,
    RTS_ATTRS = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                IBV_QP_MAX_QP_RD_ATOMIC,
    SQD_ATTRS = IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ACCESS_FLAGS |
                IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER,
    STATE_COUNT = IBV_QPS_ERR + 1,
};

static const struct transition {
    bool is_present;
    int required, optional;
} transitions[STATE_COUNT][STATE_COUNT] = {
    [IBV_QPS_RESET] = {[IBV_QPS_RESET] = {true, 0, 0}, [IBV_QPS_INIT] = {true, INIT_ATTRS, 0}},
    [IBV_QPS_INIT] = {[IBV_QPS_RESET] = {true, 0, 0},
                      [IBV_QPS_INIT] = {true, 0, INIT_ATTRS},
                      [IBV_QPS_RTR] = {true, RTR_ATTRS, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
                      [IBV_QPS_ERR] = {true, 0, 0}},
    [IBV_QPS_RTR] = {[IBV_QPS_RESET] = {true, 0, 0},
                     [IBV_QPS_RTS] = {true, RTS_ATTRS,
                                      IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS |
                                          IBV_QP_MIN_RNR_TIMER},
                     [IBV_QPS_ERR] = {true, 0, 0}},
    [IBV_QPS_RTS] = {[IBV_QPS_RESET] = {true, 0, 0},
                     [IBV_QPS_RTS] = {true, 0,
                                      IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS |
                                          IBV_QP_MIN_RNR_TIMER},
                     [IBV_QPS_SQD] = {true, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
                     [IBV_QPS_ERR] = {true, 0, 0}},
    [IBV_QPS_SQD] = {[IBV_QPS_RESET] = {true, 0, 0},
                     [IBV_QPS_SQD] = {true, 0, SQD_ATTRS},
                     [IBV_QPS_ERR] = {true, 0, 0}},
    [IBV_QPS_SQE] = {[IBV_QPS_RESET] = {true, 0, 0}, [IBV_QPS_ERR] = {true, 0, 0}},
    [IBV_QPS_ERR] = {[IBV_QPS_RESET] = {true, 0, 0}, [IBV_QPS_ERR] = {true, 0, 0}},
};

static int state_check(enum ibv_qp_state from, const struct ibv_qp_attr *attr, int mask)
{
    if ((unsigned)attr->qp_state >= STATE_COUNT) {
        return EINVAL;
    }
    const struct transition *t = &transitions[from][attr->qp_state];
    const int allowed = IBV_QP_STATE | t->required | t->optional;
    return !t->is_present || (mask & t->required) != t->required || (mask & ~allowed) != 0 ||
                   ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != from)
               ? EINVAL
               : 0;
}

// Values that the device cannot have.
static int values_check(const struct ibv_qp_attr *attr, int mask)
{
    if (((mask & IBV_QP_PORT) && attr->port_num != FRONT_PORT_NUM) ||
        ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index != 0) ||
        ((mask & IBV_QP_ACCESS_FLAGS) && (attr->qp_access_flags & ~(unsigned)RIGHTS) != 0) ||
        ((mask & IBV_QP_PATH_MTU) &&
         (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096)) ||
        ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > rnic_limits.max_qp_rd_atom) ||
        ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) &&
         attr->max_dest_rd_atomic > rnic_limits.max_qp_rd_atom)) {
        return EINVAL;
    }
    return 0;
}

static int destination_check(const struct ibv_qp_attr *attr)
{
    const struct in6_addr own = front_gid_addr();
    struct in6_addr addr;
    return !attr->ah_attr.is_global || attr->ah_attr.port_num != FRONT_PORT_NUM ||
                   attr->ah_attr.grh.sgid_index != 0 || attr->dest_qp_num > QP_NUM_MAX ||
                   !front_gid_parse(&attr->ah_attr.grh.dgid, &own, &addr)
               ? EINVAL
               : 0;
}

// Without a state the attributes are kept, whatever the state.
static int modify_check(enum ibv_qp_state from, const struct ibv_qp_attr *attr, int mask)
{
    if (mask & ~MASK_KNOWN || mask & MASK_ABSENT) {
        return EOPNOTSUPP;
    }
    if (mask & IBV_QP_QKEY) { // of datagrams
        return EINVAL;
    }
    int error = mask & IBV_QP_STATE       ? state_check(from, attr, mask)
                : mask & MASK_DESTINATION ? EINVAL
                                          : 0;
    if (error == 0 && mask & IBV_QP_DEST_QPN) {
        error = destination_check(attr);
    }
    return error != 0 ? error : values_check(attr, mask);
}

// The QP's mutex held.
static void attr_keep(struct ibv_qp_attr *kept, const struct ibv_qp_attr *attr, int mask)
{
#define KEEP(bit, field)           \
    if (mask & (bit)) {            \
        kept->field = attr->field; \
    }
    KEEP(IBV_QP_ACCESS_FLAGS, qp_access_flags)
    KEEP(IBV_QP_PKEY_INDEX, pkey_index)
    KEEP(IBV_QP_PORT, port_num)
    KEEP(IBV_QP_PATH_MTU, path_mtu)
    KEEP(IBV_QP_TIMEOUT, timeout)
    KEEP(IBV_QP_RETRY_CNT, retry_cnt)
    KEEP(IBV_QP_RNR_RETRY, rnr_retry)
    KEEP(IBV_QP_RQ_PSN, rq_psn)
    KEEP(IBV_QP_SQ_PSN, sq_psn)
    KEEP(IBV_QP_MIN_RNR_TIMER, min_rnr_timer)
    KEEP(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic)
    KEEP(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic)
    KEEP(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify)
    KEEP(IBV_QP_AV, ah_attr)
    KEEP(IBV_QP_DEST_QPN, dest_qp_num)
#undef KEEP
}

static int meet(struct rnic_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct rnic_meeting with = {
        .own_addr = front_gid_addr(),
        .peer_qp_num = attr->dest_qp_num,
        .ird = mask & IBV_QP_MAX_DEST_RD_ATOMIC ? attr->max_dest_rd_atomic
                                                : (uint16_t)rnic_limits.max_qp_rd_atom,
    };
    return front_gid_parse(&attr->ah_attr.grh.dgid, &with.own_addr, &with.peer_addr)
               ? rnic_qp_meet(qp, &with)
               : -EINVAL; // the host's address has changed since it was looked at
}

static int change(struct rnic_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct qp_change change = {
        .mask = (uint32_t)mask & (QP_CHANGE_STATE | QP_CHANGE_RIGHTS),
        .state = (enum qp_state)attr->qp_state,
        .rights = attr->qp_access_flags,
        .max_rd_atomic = attr->max_rd_atomic,
    };
    if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTS) {
        change.mask |= (uint32_t)mask & QP_CHANGE_MAX_RD_ATOMIC;
    }
    if ((mask & IBV_QP_STATE) && (mask & IBV_QP_DEST_QPN)) {
        int error = meet(qp, attr, mask);
        change.mask &= ~(uint32_t)QP_CHANGE_STATE;
        if (error != 0) {
            return error;
        }
    }
    return rnic_qp_change(qp, &change);
}

int ibv_modify_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int attr_mask)
{
    struct front_qp *qp = (struct front_qp *)ibv_qp;
    if (!front_is_alive(ibv_qp->context)) {
        return front_fail(EIO);
    }
    int error = modify_check((enum ibv_qp_state)rnic_qp_state(qp->rnic_qp), attr, attr_mask);
    if (error != 0) {
        return front_fail(error);
    }
    error = change(qp->rnic_qp, attr, attr_mask);
    if (error != 0) {
        return front_fail(-error);
    }
    pthread_mutex_lock(&ibv_qp->mutex);
    attr_keep(&qp->attr, attr, attr_mask);
    if (attr_mask & IBV_QP_STATE) {
        ibv_qp->state = attr->qp_state;
    }
    pthread_mutex_unlock(&ibv_qp->mutex);
    return 0;
}
