// ibv_modify_qp: what is done with attributes that the table of changes (verbs/transition.h) lets
// through.
//
// RTR with a destination (GID and queue pair number) is how programs connect that know no
// connection manager. On a stream the device connects the two by itself (rnic_qp_meet), and the
// other attributes of an InfiniBand connection (time-outs, retries, sequence numbers) mean nothing:
// they are kept and told again by ibv_query_qp. Transports of packets are told all of them.

#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/port_datagram.h"
#include "base/qp_state.h"
#include "base/retries.h"
#include "base/transport.h"
#include "verbs/front.h"
#include "verbs/transition.h"

enum {
    // IBV_QP_RATE_LIMIT and all beyond are unknown here.
    MASK_KNOWN = (IBV_QP_DEST_QPN << 1) - 1,
    MASK_DESTINATION = IBV_QP_AV | IBV_QP_DEST_QPN,
    MASK_ABSENT = IBV_QP_ALT_PATH | IBV_QP_CAP,
    QP_NUM_MAX = 0xffffff,
    // As much of what a program says as packets have bits for; Linux's drivers refuse none of it.
    PSN_MAX = 0xffffff,
    RNR_TIMER_MAX = 0x1f,
};

// Attributes are handed on as they are.
STATIC_CHECK((int)QP_CHANGE_STATE == (int)IBV_QP_STATE);
STATIC_CHECK((int)QP_CHANGE_CURRENT == (int)IBV_QP_CUR_STATE);
STATIC_CHECK((int)QP_CHANGE_TELLS_DRAINED == (int)IBV_QP_EN_SQD_ASYNC_NOTIFY);
STATIC_CHECK((int)QP_CHANGE_RIGHTS == (int)IBV_QP_ACCESS_FLAGS);
STATIC_CHECK((int)QP_CHANGE_QKEY == (int)IBV_QP_QKEY);
STATIC_CHECK((int)QP_CHANGE_PATH == (int)IBV_QP_AV);
STATIC_CHECK((int)QP_CHANGE_PATH_MTU == (int)IBV_QP_PATH_MTU);
STATIC_CHECK((int)QP_CHANGE_TIMEOUT == (int)IBV_QP_TIMEOUT);
STATIC_CHECK((int)QP_CHANGE_RETRY_COUNT == (int)IBV_QP_RETRY_CNT);
STATIC_CHECK((int)QP_CHANGE_RNR_RETRY_COUNT == (int)IBV_QP_RNR_RETRY);
STATIC_CHECK((int)QP_CHANGE_RQ_PSN == (int)IBV_QP_RQ_PSN);
STATIC_CHECK((int)QP_CHANGE_MAX_RD_ATOMIC == (int)IBV_QP_MAX_QP_RD_ATOMIC);
STATIC_CHECK((int)QP_CHANGE_MIN_RNR_TIMER == (int)IBV_QP_MIN_RNR_TIMER);
STATIC_CHECK((int)QP_CHANGE_SQ_PSN == (int)IBV_QP_SQ_PSN);
STATIC_CHECK((int)QP_CHANGE_MAX_DEST_RD_ATOMIC == (int)IBV_QP_MAX_DEST_RD_ATOMIC);
STATIC_CHECK((int)QP_CHANGE_DEST_QP_NUM == (int)IBV_QP_DEST_QPN);

/* ---- what may be asked for ------------------------------------------------------------------- */

// Values that the device cannot have. Rights it has only of peers; programs hand on those of their
// regions as well, whatever there are.
static int values_check(const struct ibv_qp_attr *attr, int mask)
{
    if (((mask & IBV_QP_PORT) && attr->port_num != FRONT_PORT_NUM) ||
        ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index != 0) ||
        ((mask & IBV_QP_PATH_MTU) &&
         (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096)) ||
        ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > rnic_limits.max_qp_rd_atom) ||
        ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) &&
         attr->max_dest_rd_atomic > rnic_limits.max_qp_rd_atom)) {
        return EINVAL;
    }
    return 0;
}

static int destination_check(const struct ibv_context *context, const struct ibv_qp_attr *attr,
                             int mask)
{
    struct datagram_path path;
    return (mask & IBV_QP_DEST_QPN && attr->dest_qp_num > QP_NUM_MAX) ||
                   (mask & IBV_QP_AV && front_path_fill(context, &attr->ah_attr, &path) != 0)
               ? EINVAL
               : 0;
}

// On a stream attributes without a state are kept, whatever the state.
static int table_check(const struct front_qp *qp, enum ibv_qp_state from,
                       const struct ibv_qp_attr *attr, int mask)
{
    const bool is_stream = front_identity_of(qp->qp.context)->has_streams;
    if (is_stream && !(mask & IBV_QP_STATE)) {
        return mask & (MASK_DESTINATION | IBV_QP_QKEY) ? EINVAL : 0;
    }
    if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != from) {
        return EINVAL;
    }
    return transition_check(is_stream, qp->qp.qp_type, from,
                            mask & IBV_QP_STATE ? attr->qp_state : from, mask);
}

static int modify_check(const struct front_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    if (mask & ~MASK_KNOWN || mask & MASK_ABSENT) {
        return EOPNOTSUPP;
    }
    int error = table_check(qp, (enum ibv_qp_state)rnic_qp_state(qp->rnic_qp), attr, mask);
    error = error != 0 ? error : destination_check(qp->qp.context, attr, mask);
    return error != 0 ? error : values_check(attr, mask);
}

/* ---- what is done ---------------------------------------------------------------------------- */

// Seven is the most that there is, and without a receive for ever.
static uint8_t retries_of(uint8_t said)
{
    return said < RETRIES_MAX ? said : RETRIES_MAX;
}

// As much of it as counts. Programs of old have nothing where rate_limit is.
static struct ibv_qp_attr clipped(const struct ibv_qp_attr *attr)
{
    struct ibv_qp_attr clipped = {0};
    memcpy(&clipped, attr, offsetof(struct ibv_qp_attr, rate_limit));
    clipped.rq_psn &= PSN_MAX;
    clipped.sq_psn &= PSN_MAX;
    clipped.min_rnr_timer &= RNR_TIMER_MAX;
    clipped.retry_cnt = retries_of(attr->retry_cnt);
    clipped.rnr_retry = retries_of(attr->rnr_retry);
    return clipped;
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
    KEEP(IBV_QP_QKEY, qkey)
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
    KEEP(IBV_QP_PATH_MIG_STATE, path_mig_state)
    KEEP(IBV_QP_AV, ah_attr)
    KEEP(IBV_QP_DEST_QPN, dest_qp_num)
#undef KEEP
}

static int meet(struct front_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct datagram_path path;
    if (front_path_fill(qp->qp.context, &attr->ah_attr, &path) != 0) {
        return -EINVAL; // the host's address has changed since it was looked at
    }
    const struct rnic_meeting with = {
        .own_addr = path.local,
        .peer_addr = path.remote,
        .peer_qp_num = attr->dest_qp_num,
        .ird = mask & IBV_QP_MAX_DEST_RD_ATOMIC ? attr->max_dest_rd_atomic
                                                : (uint16_t)rnic_limits.max_qp_rd_atom,
    };
    return rnic_qp_meet(qp->rnic_qp, &with);
}

static int change_stream(struct front_qp *qp, const struct ibv_qp_attr *attr, int mask)
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
    return rnic_qp_change(qp->rnic_qp, &change);
}

static int change_packets(struct front_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const int neutral = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_PATH_MIG_STATE;
    struct qp_change change = {
        .mask = (uint32_t)(mask & ~neutral),
        .state = (enum qp_state)attr->qp_state,
        .current = (enum qp_state)attr->cur_qp_state,
        .rights = attr->qp_access_flags,
        .qkey = attr->qkey,
        .path_mtu = mask & IBV_QP_PATH_MTU ? FRONT_MTU_LEN(attr->path_mtu) : 0,
        .dest_qp_num = attr->dest_qp_num,
        .rq_psn = attr->rq_psn,
        .sq_psn = attr->sq_psn,
        .max_rd_atomic = attr->max_rd_atomic,
        .max_dest_rd_atomic = attr->max_dest_rd_atomic,
        .timeout = attr->timeout,
        .retry_count = attr->retry_cnt,
        .rnr_retry_count = attr->rnr_retry,
        .min_rnr_timer = attr->min_rnr_timer,
        .tells_drained = attr->en_sqd_async_notify != 0,
    };
    if (mask & IBV_QP_AV && front_path_fill(qp->qp.context, &attr->ah_attr, &change.path) != 0) {
        return -EINVAL;
    }
    return rnic_qp_change(qp->rnic_qp, &change);
}

int ibv_modify_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int attr_mask)
{
    struct front_qp *qp = (struct front_qp *)ibv_qp;
    if (ibv_qp->handle != ibv_qp->qp_num) {
        return front_fail(ENOENT);
    }
    if (!front_is_alive(ibv_qp->context)) {
        return front_fail(EIO);
    }
    int error = modify_check(qp, attr, attr_mask);
    if (error != 0) {
        return front_fail(error);
    }
    const struct ibv_qp_attr counts = clipped(attr);
    error = front_identity_of(ibv_qp->context)->has_streams
                ? change_stream(qp, &counts, attr_mask)
                : change_packets(qp, &counts, attr_mask);
    if (error != 0) {
        return front_fail(-error);
    }
    pthread_mutex_lock(&ibv_qp->mutex);
    attr_keep(&qp->attr, &counts, attr_mask);
    if (attr_mask & IBV_QP_STATE) {
        ibv_qp->state = counts.qp_state;
    }
    pthread_mutex_unlock(&ibv_qp->mutex);
    return 0;
}
