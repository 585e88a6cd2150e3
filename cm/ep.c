// Endpoints: an id with its QP in one call, for programs that want to wait in their calls.

#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"

enum { RESOLVE_TIMEOUT_MS = 2000 };

// Those of the program, which are of one device.
static bool has_objects(const struct ibv_qp_init_attr *attr)
{
    return attr != NULL && (attr->send_cq != NULL || attr->recv_cq != NULL || attr->srq != NULL);
}

static int passive_ep(struct rdma_cm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                      const struct ibv_qp_init_attr *attr)
{
    if (rdma_bind_addr(id, res->ai_src_addr) != 0) {
        return -1;
    }
    if (pd != NULL) {
        id->pd = pd;
    }
    cm_id_of(id)->is_tied = pd != NULL || has_objects(attr);
    if (attr == NULL) {
        return 0;
    }
    // Kept for the connections that rdma_get_request will hand out.
    struct ibv_qp_init_attr *kept = malloc(sizeof *kept);
    if (kept == NULL) {
        return cm_fail(ENOMEM);
    }
    *kept = *attr;
    kept->qp_type = (enum ibv_qp_type)res->ai_qp_type;
    cm_id_of(id)->qp_init_attr = kept;
    return 0;
}

static int active_ep(struct rdma_cm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                     struct ibv_qp_init_attr *attr)
{
    struct cm_id *c = cm_id_of(id);
    if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, RESOLVE_TIMEOUT_MS) != 0 ||
        rdma_resolve_route(id, RESOLVE_TIMEOUT_MS) != 0) {
        return -1;
    }
    if (attr != NULL) {
        attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
        if (rdma_create_qp(id, pd, attr) != 0) {
            return -1;
        }
    }
    if (res->ai_connect_len > sizeof c->prefix) {
        return cm_fail(EINVAL);
    }
    if (res->ai_connect_len > 0) {
        memcpy(c->prefix, res->ai_connect, res->ai_connect_len);
        c->prefix_len = (uint8_t)res->ai_connect_len;
    }
    return 0;
}

int rdma_create_ep(struct rdma_cm_id **ret, struct rdma_addrinfo *res, struct ibv_pd *pd,
                   struct ibv_qp_init_attr *attr)
{
    struct rdma_cm_id *id;
    if (cm_id_create(NULL, NULL, (enum rdma_port_space)res->ai_port_space,
                     (enum ibv_qp_type)res->ai_qp_type, &id) != 0) {
        return -1;
    }
    bool is_passive = (res->ai_flags & RAI_PASSIVE) != 0;
    int result = is_passive ? passive_ep(id, res, pd, attr) : active_ep(id, res, pd, attr);
    if (result != 0) {
        int saved = errno;
        rdma_destroy_ep(id);
        return cm_fail(saved);
    }
    *ret = id;
    return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
    if (id->qp != NULL) {
        rdma_destroy_qp(id);
    }
    if (id->srq != NULL) {
        rdma_destroy_srq(id);
    }
    rdma_destroy_id(id);
}

// The errno for an event that is no connection request, 0 for one.
static int request_error(const struct rdma_cm_event *event)
{
    if (event->event == RDMA_CM_EVENT_REJECTED) {
        return ECONNREFUSED;
    }
    if (event->status != 0) {
        return abs(event->status);
    }
    return event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? 0 : EINVAL;
}

// The listener's default is of the wire on which it first listened.
static struct ibv_pd *domain_for(const struct rdma_cm_id *listen, const struct rdma_cm_id *id)
{
    return listen->pd != NULL && listen->pd->context == id->verbs ? listen->pd : NULL;
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **ret)
{
    struct cm_id *listener = cm_id_of(listen);
    if (!listener->is_sync) {
        return cm_fail(EINVAL);
    }
    if (listen->event != NULL) {
        rdma_ack_cm_event(listen->event);
        listen->event = NULL;
    }
    struct rdma_cm_event *event;
    if (rdma_get_cm_event(listen->channel, &event) != 0) {
        return -1;
    }
    int error = request_error(event);
    if (error != 0) {
        listen->event = event;
        return cm_fail(error);
    }
    if (listener->qp_init_attr != NULL) {
        struct ibv_qp_init_attr attr = *listener->qp_init_attr;
        if (rdma_create_qp(event->id, domain_for(listen, event->id), &attr) != 0) {
            // The program never learns of the id, so the peer is turned away here.
            error = errno;
            rdma_destroy_id(event->id);
            rdma_ack_cm_event(event);
            return cm_fail(error);
        }
    }
    event->id->event = event;
    *ret = event->id;
    return 0;
}
