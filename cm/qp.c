// Queue pairs and shared receive queues of ids, with the completion queues that the program leaves
// to us.

#include <rdma/rdma_verbs.h>
#include <string.h>

#include "cm/cm.h"

/* ---- completion queues ----------------------------------------------------------------------- */

// One that completes to the id: rdma_get_send_comp and rdma_get_recv_comp expect it as context.
static int id_cq_create(struct rdma_cm_id *id, uint32_t cqe_count,
                        struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
    *channel = ibv_create_comp_channel(id->verbs);
    if (*channel == NULL) {
        return -1;
    }
    *cq = ibv_create_cq(id->verbs, (int)cqe_count, id, *channel, 0);
    return *cq != NULL ? 0 : -1;
}

// Send and receive side may share both.
static void cqs_destroy(struct rdma_cm_id *id)
{
    int saved = errno;
    if (id->send_cq != NULL && id->send_cq != id->recv_cq) {
        ibv_destroy_cq(id->send_cq);
    }
    if (id->recv_cq != NULL) {
        ibv_destroy_cq(id->recv_cq);
    }
    if (id->send_cq_channel != NULL && id->send_cq_channel != id->recv_cq_channel) {
        ibv_destroy_comp_channel(id->send_cq_channel);
    }
    if (id->recv_cq_channel != NULL) {
        ibv_destroy_comp_channel(id->recv_cq_channel);
    }
    id->send_cq = id->recv_cq = NULL;
    id->send_cq_channel = id->recv_cq_channel = NULL;
    errno = saved;
}

// No queue pair: its queues go, and `attr`, which may be tried again, names them no more.
static void cqs_take_back(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    if (attr->send_cq == id->send_cq) {
        attr->send_cq = NULL;
    }
    if (attr->recv_cq == id->recv_cq) {
        attr->recv_cq = NULL;
    }
    cqs_destroy(id);
}

// Creates the queues that neither the program nor the id has.
static int cqs_complete(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    if (attr->recv_cq == NULL && id->recv_cq == NULL && attr->cap.max_recv_wr > 0 &&
        id_cq_create(id, attr->cap.max_recv_wr, &id->recv_cq_channel, &id->recv_cq) != 0) {
        return -1;
    }
    if (attr->send_cq == NULL && id->send_cq == NULL && attr->cap.max_send_wr > 0 &&
        id_cq_create(id, attr->cap.max_send_wr, &id->send_cq_channel, &id->send_cq) != 0) {
        return -1;
    }
    if (attr->recv_cq == NULL) {
        attr->recv_cq = id->recv_cq;
    }
    if (attr->send_cq == NULL) {
        attr->send_cq = id->send_cq;
    }
    return 0;
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

static int init_attr_first(const struct rdma_cm_id *id, int *ret_mask)
{
    *ret_mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX;
    *ret_mask |= id->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *attr_mask)
{
    struct cm_id *c = cm_id_of(id);
    if (id->verbs == NULL) {
        return cm_fail(EINVAL);
    }
    attr->pkey_index = 0;
    attr->port_num = id->port_num;
    attr->qkey = RDMA_UDP_QKEY;
    attr->qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    switch (attr->qp_state) {
    case IBV_QPS_INIT:
        return init_attr_first(id, attr_mask);
    case IBV_QPS_RTR:
    case IBV_QPS_RTS:
        // A queue pair of datagrams is given what it needs with INIT.
        return id->qp_type == IBV_QPT_UD
                   ? init_attr_first(id, attr_mask)
                   : cm_result(c->device->way->init_qp_attr(c, attr, attr_mask));
    default:
        return cm_fail(EINVAL);
    }
}

// A queue pair of datagrams needs nobody to be ready.
static int datagrams_begin(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int error = ibv_modify_qp(qp, attr, mask);
    attr->qp_state = IBV_QPS_RTR;
    error = error == 0 ? ibv_modify_qp(qp, attr, IBV_QP_STATE) : error;
    attr->qp_state = IBV_QPS_RTS;
    attr->sq_psn = 0;
    return error == 0 ? ibv_modify_qp(qp, attr, IBV_QP_STATE | IBV_QP_SQ_PSN) : error;
}

// To INIT, so that receives can be posted, and with the options that a QP shows.
static int qp_prepare(struct cm_id *c, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    int mask;
    if (rdma_init_qp_attr(&c->id, &attr, &mask) != 0) {
        return -1;
    }
    int error = qp->qp_type == IBV_QPT_UD ? datagrams_begin(qp, &attr, mask)
                                          : ibv_modify_qp(qp, &attr, mask);
    if (error != 0) {
        return cm_fail(error);
    }
    if (c->options.has_ack_timeout) {
        struct ibv_qp_attr timeout = {.timeout = c->options.ack_timeout};
        ibv_modify_qp(qp, &timeout, IBV_QP_TIMEOUT);
    }
    return 0;
}

static int check_qp_attr(const struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    if (id->qp != NULL || id->verbs == NULL || !cm_id_is_alive((const struct cm_id *)id)) {
        return cm_fail(EINVAL);
    }
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd == NULL) {
        attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
        attr->pd = id->pd;
    } else if (attr->pd->context != id->verbs) {
        return cm_fail(EINVAL);
    }
    if ((id->recv_cq != NULL && attr->recv_cq != NULL && id->recv_cq != attr->recv_cq) ||
        (id->send_cq != NULL && attr->send_cq != NULL && id->send_cq != attr->send_cq)) {
        return cm_fail(EINVAL);
    }
    return 0;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    if (check_qp_attr(id, attr) != 0) {
        return -1;
    }
    if (cqs_complete(id, attr) != 0) {
        cqs_take_back(id, attr);
        return -1;
    }
    if (attr->srq == NULL) {
        attr->srq = id->srq;
    }
    struct ibv_qp *qp = ibv_create_qp_ex(id->verbs, attr);
    if (qp == NULL) {
        cqs_take_back(id, attr);
        return -1;
    }
    if (qp_prepare(cm_id_of(id), qp) != 0) {
        int saved = errno;
        ibv_destroy_qp(qp);
        cqs_take_back(id, attr);
        return cm_fail(saved);
    }
    id->pd = qp->pd;
    id->qp = qp;
    return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex attr_ex = {0};
    memcpy(&attr_ex, attr, sizeof *attr); // its fields are the first ones of the longer structure
    attr_ex.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr_ex.pd = pd != NULL ? pd : id->pd;
    int result = rdma_create_qp_ex(id, &attr_ex);
    memcpy(attr, &attr_ex, sizeof *attr);
    return result;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    cm_groups_detach(cm_id_of(id));
    ibv_destroy_qp(id->qp);
    id->qp = NULL;
    cqs_destroy(id);
}

/* ---- shared receive queues ------------------------------------------------------------------- */

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || id->verbs == NULL || id->srq != NULL) {
        return cm_fail(EINVAL);
    }
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == NULL) {
        attr->pd = id->pd;
        attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    }
    if (attr->pd == NULL || attr->pd->context != id->verbs) {
        return cm_fail(EINVAL);
    }
    struct ibv_srq *srq = ibv_create_srq_ex(id->verbs, attr);
    if (srq == NULL) {
        return -1;
    }
    if (id->pd == NULL) {
        id->pd = attr->pd;
    }
    id->srq = srq;
    return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq_init_attr_ex attr_ex = {0};
    memcpy(&attr_ex, attr, sizeof *attr); // its fields are the first ones of the longer structure
    attr_ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    attr_ex.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
    attr_ex.pd = pd;
    int result = rdma_create_srq_ex(id, &attr_ex);
    memcpy(attr, &attr_ex, sizeof *attr);
    return result;
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
    ibv_destroy_srq(id->srq);
    id->srq = NULL;
    if (id->qp == NULL) {
        cqs_destroy(id);
    }
}
