// Queue pairs: create, query, destroy. Which types a device has its identity says.

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/port_datagram.h"
#include "base/qp_state.h"
#include "base/transport.h"
#include "verbs/front.h"

// States are asked for and told as they are.
STATIC_CHECK((int)QP_RESET == (int)IBV_QPS_RESET);
STATIC_CHECK((int)QP_INIT == (int)IBV_QPS_INIT);
STATIC_CHECK((int)QP_RTR == (int)IBV_QPS_RTR);
STATIC_CHECK((int)QP_RTS == (int)IBV_QPS_RTS);
STATIC_CHECK((int)QP_SQD == (int)IBV_QPS_SQD);
STATIC_CHECK((int)QP_SQE == (int)IBV_QPS_SQE);
STATIC_CHECK((int)QP_ERR == (int)IBV_QPS_ERR);

// Who has a shared receive queue may say of an own one what he likes, as ibv_create_qp(3) promises.
static int caps_check(const struct ibv_qp_init_attr *attr)
{
    const struct rnic_limits *limits = &rnic_limits;
    const struct ibv_qp_cap *cap = &attr->cap;
    const bool receives_itself = attr->srq == NULL;
    if (cap->max_send_wr > limits->max_qp_wr || cap->max_send_sge > limits->max_sge ||
        cap->max_inline_data > limits->max_inline_len ||
        (receives_itself &&
         (cap->max_recv_wr > limits->max_qp_wr || cap->max_recv_sge > limits->max_sge))) {
        return EINVAL;
    }
    return 0;
}

static bool has_type(const struct ibv_context *context, enum ibv_qp_type type)
{
    return (unsigned)type < 32 && (front_identity_of(context)->qp_types & 1U << type) != 0;
}

static bool are_known(const struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
    return front_pd_is_known(pd) && attr->send_cq->handle == front_handle_of(attr->send_cq) &&
           attr->recv_cq->handle == front_handle_of(attr->recv_cq) &&
           (attr->srq == NULL || attr->srq->handle == front_handle_of(attr->srq));
}

static int init_attr_check(const struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
    if (!has_type(pd->context, attr->qp_type)) {
        return EOPNOTSUPP;
    }
    if (attr->send_cq == NULL || attr->recv_cq == NULL || attr->send_cq->context != pd->context ||
        attr->recv_cq->context != pd->context ||
        (attr->srq != NULL && attr->srq->context != pd->context)) {
        return EINVAL;
    }
    if (!are_known(pd, attr)) {
        return ENOENT;
    }
    if (attr->srq != NULL && attr->qp_type == IBV_QPT_UC) { // as ibv_create_qp(3) promises
        return EINVAL;
    }
    return caps_check(attr);
}

// What is granted beyond what was asked for: an entry's elements and its inline data share their
// place, so inline data as long as the elements costs nothing. With an SRQ there is no own queue.
static struct ibv_qp_cap caps_grant(const struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_cap cap = attr->cap;
    uint32_t free_inline_len = cap.max_send_sge * (uint32_t)sizeof(struct sge);
    if (cap.max_inline_data < free_inline_len) {
        cap.max_inline_data = free_inline_len < rnic_limits.max_inline_len
                                  ? free_inline_len
                                  : rnic_limits.max_inline_len;
    }
    if (attr->srq != NULL) {
        cap.max_recv_wr = 0;
        cap.max_recv_sge = 0;
    }
    return cap;
}

static void qp_fill(struct front_qp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
    qp->qp = (struct ibv_qp){
        .context = pd->context,
        .qp_context = attr->qp_context,
        .pd = pd,
        .send_cq = attr->send_cq,
        .recv_cq = attr->recv_cq,
        .srq = attr->srq,
        .state = IBV_QPS_RESET,
        .qp_type = attr->qp_type,
    };
    pthread_mutex_init(&qp->qp.mutex, NULL);
    pthread_cond_init(&qp->qp.cond, NULL);
    qp->sq_sig_all = attr->sq_sig_all != 0;
    qp->cap = caps_grant(attr);
    qp->attr.port_num = FRONT_PORT_NUM;
    qp->attr.path_mtu = IBV_MTU_4096;
    front_qp_events_init(qp);
}

static int device_qp_create(struct front_qp *qp)
{
    const struct front_srq *srq = (const struct front_srq *)qp->qp.srq;
    static const enum rnic_qp_type types[] = {
        [IBV_QPT_RC] = RNIC_QP_RC, [IBV_QPT_UC] = RNIC_QP_UC, [IBV_QPT_UD] = RNIC_QP_UD};
    const struct rnic_qp_init init = {
        .type = types[qp->qp.qp_type],
        .pd = qp->qp.pd->handle,
        .send_cq = ((struct front_cq *)qp->qp.send_cq)->rnic_cq,
        .recv_cq = ((struct front_cq *)qp->qp.recv_cq)->rnic_cq,
        .srq = srq != NULL ? srq->rnic_srq : NULL,
        .max_send_wr = qp->cap.max_send_wr,
        .max_recv_wr = qp->cap.max_recv_wr,
        .max_send_sge = qp->cap.max_send_sge,
        .max_recv_sge = qp->cap.max_recv_sge,
        .max_inline_len = qp->cap.max_inline_data,
        .sq_sig_all = qp->sq_sig_all,
        .is_addressable = front_identity_of(qp->qp.context)->has_streams,
        .async = {.on_event = front_qp_on_event, .ctx = qp},
    };
    int error = rnic_qp_create(front_context_of(qp->qp.context)->rnic, &init, &qp->rnic_qp);
    if (error != 0) {
        return -error;
    }
    const struct wq_caps held = rnic_qp_caps(qp->rnic_qp);
    qp->cap.max_send_wr = held.max_send_wr;
    qp->cap.max_recv_wr = qp->qp.srq != NULL ? 0 : held.max_recv_wr;
    qp->qp.qp_num = qp->rnic_qp->qp_num;
    qp->qp.handle = qp->rnic_qp->qp_num;
    return 0;
}

// `send_ops`: of an extended QP; NULL: a plain one.
static struct front_qp *qp_make(struct ibv_pd *pd, const struct ibv_qp_init_attr *attr,
                                const uint64_t *send_ops)
{
    int error = init_attr_check(pd, attr);
    if (error == 0 && !front_is_alive(pd->context)) {
        error = EIO;
    }
    if (error != 0) {
        return front_null(error);
    }
    struct front_qp *qp = calloc(1, sizeof *qp);
    if (qp == NULL) {
        return front_null(ENOMEM);
    }
    qp_fill(qp, pd, attr);
    if (send_ops != NULL) {
        qp->is_ex = true;
        error = front_qp_ex_init(qp, *send_ops);
    }
    if (error == 0) {
        error = device_qp_create(qp);
    }
    if (error != 0) {
        free(qp);
        return front_null(error);
    }
    front_context_hold(pd->context);
    return qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct front_qp *qp = qp_make(pd, attr, NULL);
    if (qp == NULL) {
        return NULL;
    }
    attr->cap = qp->cap;
    return &qp->qp;
}

struct ibv_qp *front_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    const uint32_t present =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if ((attr->comp_mask & ~present) != 0 || !has_type(context, attr->qp_type) ||
        ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags != 0)) {
        return front_null(EOPNOTSUPP);
    }
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || attr->pd == NULL ||
        attr->pd->context != context) {
        return front_null(EINVAL);
    }
    const struct ibv_qp_init_attr plain = {
        .qp_context = attr->qp_context,
        .send_cq = attr->send_cq,
        .recv_cq = attr->recv_cq,
        .srq = attr->srq,
        .cap = attr->cap,
        .qp_type = attr->qp_type,
        .sq_sig_all = attr->sq_sig_all,
    };
    const bool is_ex = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    struct front_qp *qp = qp_make(attr->pd, &plain, is_ex ? &attr->send_ops_flags : NULL);
    if (qp == NULL) {
        return NULL;
    }
    attr->cap = qp->cap;
    return &qp->qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibv_qp)
{
    struct front_qp *qp = (struct front_qp *)ibv_qp;
    return qp->is_ex ? &qp->qp_ex : NULL;
}

int ibv_destroy_qp(struct ibv_qp *ibv_qp)
{
    struct front_qp *qp = (struct front_qp *)ibv_qp;
    if (ibv_qp->handle != ibv_qp->qp_num) {
        return front_fail(ENOENT);
    }
    if (front_is_alive(ibv_qp->context)) {
        if (atomic_load(&qp->group_count) > 0) {
            return front_fail(EBUSY);
        }
        rnic_qp_destroy(qp->rnic_qp);
        front_wait_acknowledged(&ibv_qp->mutex, &ibv_qp->cond, &ibv_qp->events_completed,
                                front_qp_events_withdraw(qp));
        pthread_mutex_destroy(&ibv_qp->mutex);
        pthread_cond_destroy(&ibv_qp->cond);
    }
    front_context_release(ibv_qp->context);
    free(qp);
    return 0;
}

static void path_tell(const struct ibv_context *context, const struct datagram_path *path,
                      struct ibv_ah_attr *attr)
{
    const int gid_index = front_gid_find(context, &path->local);
    attr->grh.sgid_index = gid_index > 0 ? (uint8_t)gid_index : 0;
    memcpy(attr->grh.dgid.raw, &path->remote, sizeof attr->grh.dgid.raw);
    attr->grh.flow_label = path->flow_label;
    attr->grh.traffic_class = path->traffic_class;
    attr->grh.hop_limit = path->hop_limit;
    attr->is_global = 1;
    attr->port_num = FRONT_PORT_NUM;
}

// What was set behind the program's back: by the connection manager.
static void attr_follow(const struct ibv_context *context, struct ibv_qp_attr *attr,
                        const struct qp_change *told)
{
#define FOLLOW(bit, field, value)       \
    if (told->mask & (uint32_t)(bit)) { \
        attr->field = (value);          \
    }
    FOLLOW(IBV_QP_PATH_MTU, path_mtu, front_mtu_of(told->path_mtu))
    FOLLOW(IBV_QP_TIMEOUT, timeout, told->timeout)
    FOLLOW(IBV_QP_RETRY_CNT, retry_cnt, told->retry_count)
    FOLLOW(IBV_QP_RNR_RETRY, rnr_retry, told->rnr_retry_count)
    FOLLOW(IBV_QP_RQ_PSN, rq_psn, told->rq_psn)
    FOLLOW(IBV_QP_SQ_PSN, sq_psn, told->sq_psn)
    FOLLOW(IBV_QP_MIN_RNR_TIMER, min_rnr_timer, told->min_rnr_timer)
    FOLLOW(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic, (uint8_t)told->max_rd_atomic)
    FOLLOW(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, (uint8_t)told->max_dest_rd_atomic)
    FOLLOW(IBV_QP_DEST_QPN, dest_qp_num, told->dest_qp_num)
#undef FOLLOW
    if (told->mask & (uint32_t)IBV_QP_AV) {
        path_tell(context, &told->path, &attr->ah_attr);
    }
}

// Everything is answered whatever `attr_mask` asks for. ibv_qp.state follows a stream that came or
// went only when the program looks.
int ibv_query_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int attr_mask,
                 struct ibv_qp_init_attr *init_attr)
{
    struct front_qp *qp = (struct front_qp *)ibv_qp;
    if (ibv_qp->handle != ibv_qp->qp_num) {
        return front_fail(ENOENT);
    }
    if (!front_is_alive(ibv_qp->context)) {
        return front_fail(EIO);
    }
    struct rnic_qp_answer now;
    rnic_qp_query(qp->rnic_qp, &now);
    const enum ibv_qp_state state = (enum ibv_qp_state)now.state;
    pthread_mutex_lock(&ibv_qp->mutex);
    *attr = qp->attr;
    pthread_mutex_unlock(&ibv_qp->mutex);
    if (now.has_told) {
        attr_follow(ibv_qp->context, attr, &now.told);
    }
    attr->qp_state = state;
    attr->cur_qp_state = state;
    attr->sq_draining = now.is_draining;
    attr->cap = qp->cap;
    *init_attr = (struct ibv_qp_init_attr){
        .qp_context = ibv_qp->qp_context,
        .send_cq = ibv_qp->send_cq,
        .recv_cq = ibv_qp->recv_cq,
        .srq = ibv_qp->srq,
        .cap = qp->cap,
        .qp_type = ibv_qp->qp_type,
        .sq_sig_all = qp->sq_sig_all,
    };
    if (attr_mask & IBV_QP_STATE) {
        ibv_qp->state = state;
    }
    return 0;
}
