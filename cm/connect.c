// Connections: listening, connecting, accepting, rejecting, ending. Each call checks what rdma-core
// and its kernel half check, moves the id on, and leaves the rest to the RNIC; the events come back
// through event.c.

#include <string.h>

#include "base/retries.h"
#include "cm/cm.h"

/* ---- parameters ------------------------------------------------------------------------------ */

// Depths: 0xFF stands for the device's maximum, and so does a missing param. Datagrams have none.
static int check_params(const struct cm_id *c, const struct rdma_conn_param *param,
                        const struct cm_device *device)
{
    if (c->id.qp_type == IBV_QPT_UD) {
        return 0;
    }
    if (param == NULL) {
        return c->id.qp != NULL ? 0 : cm_fail(EINVAL);
    }
    if (param->responder_resources != RDMA_MAX_RESP_RES &&
        param->responder_resources > device->max_rd_atom) {
        return cm_fail(EINVAL);
    }
    if (param->initiator_depth != RDMA_MAX_INIT_DEPTH &&
        param->initiator_depth > device->max_rd_atom) {
        return cm_fail(EINVAL);
    }
    return 0;
}

static uint8_t depth_wanted(uint8_t given, uint8_t otherwise)
{
    return given != UINT8_MAX ? given : otherwise;
}

static uint8_t smaller_of(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

// The program's private data behind the prefix that its endpoint was created with.
static int join_private_data(const struct cm_id *c, const struct rdma_conn_param *param,
                             uint8_t *buf, uint16_t *ret_len)
{
    memcpy(buf, c->prefix, c->prefix_len);
    *ret_len = c->prefix_len;
    if (param == NULL || param->private_data == NULL) {
        return 0;
    }
    if (param->private_data_len > CM_PRIVATE_DATA_MAX_LEN - c->prefix_len) {
        return cm_fail(EINVAL);
    }
    memcpy(buf + c->prefix_len, param->private_data, param->private_data_len);
    *ret_len = (uint16_t)(c->prefix_len + param->private_data_len);
    return 0;
}

// The RNIC's QP for the id's own or for the number that the program gave.
static struct rnic_qp *qp_of(const struct cm_id *c)
{
    return rnic_qp_find(c->device->rnic, c->id.qp != NULL ? c->id.qp->qp_num : c->qp_num);
}

// What the program says; the queue pair's number is noted.
static int fill_params(struct cm_id *c, const struct rdma_conn_param *param, struct cm_params *ret)
{
    *ret = (struct cm_params){.retry_count = RETRIES_MAX, .rnr_retry_count = RETRIES_MAX};
    if (join_private_data(c, param, ret->data, &ret->data_len) != 0) {
        return -1;
    }
    if (param != NULL) {
        ret->retry_count = param->retry_count < RETRIES_MAX ? param->retry_count : RETRIES_MAX;
        ret->rnr_retry_count =
            param->rnr_retry_count < RETRIES_MAX ? param->rnr_retry_count : RETRIES_MAX;
        ret->has_flow_control = param->flow_control != 0;
        ret->has_srq = c->id.qp != NULL ? c->id.qp->srq != NULL : param->srq != 0;
        ret->qp_num = param->qp_num;
    }
    c->qp_num = ret->qp_num;
    return 0;
}

// How many requests may be outstanding each way. Without a wish of the program's: the most.
static void choose_depths(struct cm_id *c, const struct rdma_conn_param *param,
                          uint8_t initiator_most, uint8_t responder_most, struct cm_params *params)
{
    uint8_t unsaid = UINT8_MAX;
    c->initiator_depth =
        depth_wanted(param != NULL ? param->initiator_depth : unsaid, initiator_most);
    c->responder_resources =
        depth_wanted(param != NULL ? param->responder_resources : unsaid, responder_most);
    params->initiator_depth = c->initiator_depth;
    params->responder_resources = c->responder_resources;
}

// Datagrams, where the device has none.
static int check_service(const struct cm_id *c, const struct cm_device *device)
{
    bool is_datagram = c->id.qp_type == IBV_QPT_UD;
    return is_datagram && !device->way->has_datagrams ? cm_fail(EOPNOTSUPP) : 0;
}

/* ---- listening ------------------------------------------------------------------------------- */

// Peers come by the wire that they choose. Where the other cannot be had, who listens on this one
// is not kept from it.
static void listen_beside(struct cm_id *c, int backlog)
{
    struct sockaddr_storage local;
    if (c->device->way->local_addr(c, &local) != 0) {
        return;
    }
    const struct sockaddr *addr = (const struct sockaddr *)&local;
    const struct cm_device *beside = cm_device_beside(c, addr);
    if (beside == NULL || beside->way->bind(c, beside, addr) != 0) {
        return;
    }
    c->beside = beside;
    if (beside->way->listen(c, backlog) != 0) {
        beside->way->destroy(c);
        c->beside = NULL;
    }
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    struct cm_id *c = cm_id_of(id);
    if (!cm_id_has_address(c) && c->state == CM_IDLE) {
        struct sockaddr_in any = {.sin_family = AF_INET};
        if (rdma_bind_addr(id, (struct sockaddr *)&any) != 0) {
            return -1;
        }
    }
    const struct cm_device *device = cm_device_of(c);
    if (device == NULL || check_service(c, device) != 0) {
        return -1;
    }
    enum cm_state before;
    if (cm_id_claim(c, CM_CALL_LISTEN, &before) != 0) {
        return -1;
    }
    int error = device->way->listen(c, backlog);
    if (error != 0) {
        cm_id_unclaim(c, CM_CALL_LISTEN, before);
        return cm_result(error);
    }
    listen_beside(c, backlog);
    return 0;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static int connect_id(struct cm_id *c, const struct rdma_conn_param *param,
                      const struct cm_device *device)
{
    struct cm_params params;
    if (fill_params(c, param, &params) != 0) {
        return -1;
    }
    struct rnic_qp *qp = NULL;
    if (c->id.qp != NULL && (qp = qp_of(c)) == NULL) {
        return cm_fail(EINVAL);
    }
    choose_depths(c, param, device->max_rd_atom, device->max_rd_atom, &params);
    const uint8_t prefix_len = c->prefix_len;
    c->prefix_len = 0; // before its event: whoever takes that may destroy the id
    int error = device->way->connect(c, qp, &params);
    if (error != 0) {
        c->prefix_len = prefix_len;
    }
    return cm_result(error);
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    struct cm_id *c = cm_id_of(id);
    const struct cm_device *device = cm_device_of(c);
    if (device == NULL || check_params(c, param, device) != 0) {
        return -1;
    }
    if (check_service(c, device) != 0) {
        return -1;
    }
    const bool is_sync = c->is_sync;
    enum cm_state before;
    if (cm_id_claim(c, CM_CALL_CONNECT, &before) != 0) {
        return -1;
    }
    if (connect_id(c, param, device) != 0) {
        cm_id_unclaim(c, CM_CALL_CONNECT, before);
        return -1;
    }
    return cm_event_complete(c, is_sync);
}

int rdma_establish(struct rdma_cm_id *id)
{
    struct cm_id *c = cm_id_of(id);
    if (id->qp != NULL) {
        return cm_fail(EINVAL);
    }
    const struct cm_device *device = cm_device_of(c);
    enum cm_state before;
    if (device == NULL || cm_id_claim(c, CM_CALL_ESTABLISH, &before) != 0) {
        return -1;
    }
    int result = cm_result(device->way->establish(c));
    if (result != 0) {
        cm_id_unclaim(c, CM_CALL_ESTABLISH, before);
    }
    return result;
}

/* ---- answering ------------------------------------------------------------------------------- */

static int accept_id(struct cm_id *c, const struct rdma_conn_param *param,
                     const struct cm_device *device)
{
    struct cm_params params;
    if (fill_params(c, param, &params) != 0) {
        return -1;
    }
    // At most what both the peer and the device can do.
    choose_depths(c, param, smaller_of(c->initiator_depth, device->max_rd_atom),
                  smaller_of(c->responder_resources, device->max_rd_atom), &params);
    return cm_result(device->way->accept(c, qp_of(c), &params));
}

// Who resolves a port of datagrams is answered, and that is all: nothing is established.
static int accept_is_over(struct cm_id *c)
{
    cm_lock();
    c->state = c->state == CM_ACCEPTING ? CM_ESTABLISHED : c->state;
    cm_unlock();
    return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    struct cm_id *c = cm_id_of(id);
    const struct cm_device *device = cm_device_of(c);
    if (device == NULL || check_params(c, param, device) != 0) {
        return -1;
    }
    const bool is_sync = c->is_sync;
    const bool is_datagrams = id->qp_type == IBV_QPT_UD;
    enum cm_state before;
    if (cm_id_claim(c, CM_CALL_ACCEPT, &before) != 0) {
        return -1;
    }
    if (accept_id(c, param, device) != 0) {
        cm_id_unclaim(c, CM_CALL_ACCEPT, before);
        return -1;
    }
    return is_datagrams ? accept_is_over(c) : cm_event_complete(c, is_sync);
}

static int reject(struct cm_id *c, const void *private_data, uint8_t private_data_len, bool for_ece)
{
    enum cm_state before;
    if (cm_id_claim(c, CM_CALL_REJECT, &before) != 0) {
        return -1;
    }
    uint16_t len = private_data != NULL ? private_data_len : 0;
    int result = cm_result(c->device->way->reject(c, private_data, len, for_ece));
    if (result != 0) {
        cm_id_unclaim(c, CM_CALL_REJECT, before);
    }
    return result;
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
    return reject(cm_id_of(id), private_data, private_data_len, false);
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
    return reject(cm_id_of(id), private_data, private_data_len, true);
}

/* ---- ending ---------------------------------------------------------------------------------- */

enum end_kind {
    END_REFUSED, // nothing that could end
    END_ORDERLY, // what was posted leaves first, then FIN; DISCONNECTED follows
    END_OVER,    // it was never accepted
    END_TOLD,    // the peer was first, DISCONNECTED was or will be delivered; or it has failed
};

static const enum end_kind end_kinds[CM_STATE_COUNT] = {
    [CM_CONNECTING] = END_ORDERLY,  [CM_REPLIED] = END_ORDERLY, [CM_ACCEPTING] = END_ORDERLY,
    [CM_ESTABLISHED] = END_ORDERLY, [CM_REQUESTED] = END_OVER,  [CM_CLOSED] = END_TOLD,
    [CM_DISCONNECTED] = END_TOLD,
};

// A synchronous call waits for DISCONNECTED, unless that has been seen or cannot come.
static bool must_wait_for_end(struct cm_id *c, enum end_kind kind)
{
    cm_lock();
    bool waits = kind == END_ORDERLY || !list_is_empty(&cm_channel_of(c->id.channel)->events);
    waits = waits && !c->is_end_told;
    cm_unlock();
    return waits;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
    struct cm_id *c = cm_id_of(id);
    if (!cm_id_is_alive(c)) {
        return cm_fail(EIO);
    }
    if (id->verbs == NULL) {
        return cm_fail(EINVAL);
    }
    const bool is_sync = c->is_sync;
    cm_lock();
    enum end_kind kind = end_kinds[c->state];
    cm_unlock();
    if (kind == END_REFUSED) {
        return cm_fail(EINVAL);
    }
    const bool is_left = kind == END_TOLD && c->device->way->ends_by_program;
    if (kind == END_ORDERLY || is_left) {
        int error = c->device->way->disconnect(c);
        if (error != 0) {
            return cm_result(error);
        }
    }
    return is_sync && must_wait_for_end(c, kind) ? cm_event_complete(c, is_sync) : 0;
}

// Nothing has to be told to an iWARP connection: its first FPDU has told it. What comes to a queue
// pair of the program's own on RoCE the device does not know to be of the connection.
int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
    struct cm_id *c = cm_id_of(id);
    if (!cm_id_is_alive(c)) {
        return cm_fail(EIO);
    }
    if (id->verbs == NULL) {
        return cm_fail(EINVAL);
    }
    if (c->device->way->notify == NULL) {
        return 0;
    }
    return event == IBV_EVENT_COMM_EST ? cm_result(c->device->way->notify(c)) : cm_fail(EINVAL);
}
