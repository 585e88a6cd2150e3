// How ids connect where streams carry queue pairs: by endpoints of the RNIC.

#include <string.h>

#include "cm/cm.h"

static const enum rdma_cm_event_type program_types[] = {
    [RNIC_EP_CONNECT_REQUEST] = RDMA_CM_EVENT_CONNECT_REQUEST,
    [RNIC_EP_CONNECT_REPLY] = RDMA_CM_EVENT_CONNECT_RESPONSE,
    [RNIC_EP_ESTABLISHED] = RDMA_CM_EVENT_ESTABLISHED,
    [RNIC_EP_REJECTED] = RDMA_CM_EVENT_REJECTED,
    [RNIC_EP_UNREACHABLE] = RDMA_CM_EVENT_UNREACHABLE,
    [RNIC_EP_CONNECT_ERROR] = RDMA_CM_EVENT_CONNECT_ERROR,
    [RNIC_EP_DISCONNECTED] = RDMA_CM_EVENT_DISCONNECTED,
};

/* ---- events ---------------------------------------------------------------------------------- */

static uint8_t at_most_255(uint16_t n)
{
    return n < UINT8_MAX ? (uint8_t)n : UINT8_MAX;
}

// The peer's IRD bounds what the program may ask for, its ORD what the program has to serve.
static void copy_params(struct cm_event *event, const struct rnic_ep_event *ep_event)
{
    struct rdma_conn_param *param = &event->event.param.conn;
    param->initiator_depth = at_most_255(ep_event->ird);
    param->responder_resources = at_most_255(ep_event->ord);
    param->private_data_len = at_most_255(ep_event->private_data_len);
    if (param->private_data_len > 0) {
        param->private_data = event->private_data;
        memcpy(event->private_data, ep_event->private_data, param->private_data_len);
    }
}

static void on_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *ep_event);

static void adopt(struct cm_id *c, const void *from)
{
    const struct rnic_ep_event *ep_event = from;
    c->device = c->listener->device;
    c->ep = ep_event->new_ep;
    *ep_event->new_ep_port = (struct rnic_ep_port){.on_event = on_event, .ctx = c};
}

// An endpoint's port; `ctx` is the id.
static void on_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *ep_event)
{
    struct cm_id *c = ctx;
    if (!cm_id_is_alive(c)) {
        return;
    }
    struct cm_event *event = cm_event_new(c, program_types[ep_event->type], ep_event->status);
    if (event == NULL) {
        return;
    }
    copy_params(event, ep_event);
    cm_event_tell(c, event, adopt, ep_event);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int bind_ep(struct cm_id *c, const struct cm_device *device, const struct sockaddr *addr)
{
    const unsigned flags = (c->options.reuse_addr ? RNIC_EP_REUSE_ADDR : 0) |
                           (c->options.v6_only ? RNIC_EP_V6_ONLY : 0);
    const struct rnic_ep_port port = {.on_event = on_event, .ctx = c};
    return rnic_ep_bind(device->rnic, addr, flags, &port, &c->ep);
}

static int listen_ep(struct cm_id *c, int backlog)
{
    return rnic_ep_listen(c->ep, backlog);
}

// It gets ready with its connection and by nothing else: no change of state here.
static int init_qp_attr(struct cm_id *c, struct ibv_qp_attr *attr, int *ret_mask)
{
    *ret_mask = IBV_QP_ACCESS_FLAGS | IBV_QP_PORT;
    return 0;
}

static struct rnic_ep_params ep_params(const struct cm_params *params)
{
    return (struct rnic_ep_params){
        .private_data = params->data,
        .private_data_len = params->data_len,
        .ird = params->responder_resources,
        .ord = params->initiator_depth,
    };
}

static int connect_ep(struct cm_id *c, struct rnic_qp *qp, const struct cm_params *params)
{
    const struct rnic_ep_params said = ep_params(params);
    return rnic_ep_connect(c->ep, &c->id.route.addr.dst_addr, qp, &said);
}

static int establish_ep(struct cm_id *c)
{
    struct rnic_qp *qp = rnic_qp_find(c->device->rnic, c->qp_num);
    return qp != NULL ? rnic_ep_establish(c->ep, qp) : -EINVAL;
}

static int accept_ep(struct cm_id *c, struct rnic_qp *qp, const struct cm_params *params)
{
    const struct rnic_ep_params said = ep_params(params);
    return qp != NULL ? rnic_ep_accept(c->ep, qp, &said) : -EINVAL;
}

// The reason has no place in MPA's Reply.
static int reject_ep(struct cm_id *c, const void *data, uint16_t data_len, bool for_ece)
{
    return rnic_ep_reject(c->ep, data, data_len);
}

static int disconnect_ep(struct cm_id *c)
{
    return rnic_ep_disconnect(c->ep);
}

static void destroy_ep(struct cm_id *c)
{
    if (c->ep != NULL) {
        rnic_ep_destroy(c->ep);
        c->ep = NULL;
    }
}

static int set_tos(struct cm_id *c, uint8_t tos)
{
    return rnic_ep_set_tos(c->ep, tos);
}

static int local_addr(struct cm_id *c, struct sockaddr_storage *ret)
{
    return rnic_ep_local_addr(c->ep, ret);
}

static int peer_addr(struct cm_id *c, struct sockaddr_storage *ret)
{
    return rnic_ep_peer_addr(c->ep, ret);
}

const struct cm_way cm_stream_way = {
    .listens_beside = true,
    .bind = bind_ep,
    .listen = listen_ep,
    .init_qp_attr = init_qp_attr,
    .connect = connect_ep,
    .establish = establish_ep,
    .accept = accept_ep,
    .reject = reject_ep,
    .disconnect = disconnect_ep,
    .destroy = destroy_ep,
    .set_tos = set_tos,
    .local_addr = local_addr,
    .peer_addr = peer_addr,
};
