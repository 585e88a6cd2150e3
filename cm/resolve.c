// Binding, and resolving addresses and routes. The RNIC is present at every address of the host, so
// resolving is a question to the routing table and is answered at once; the events follow in the
// order that programs wait for.

#include <string.h>

#include "cm/cm.h"

/* ---- binding --------------------------------------------------------------------------------- */

// Takes the address (NULL: any, when connecting) and shows it with the port that it got.
static int endpoint_bind(struct cm_id *c, const struct sockaddr *addr)
{
    const struct cm_device *device = cm_device_choose(c, addr);
    if (device == NULL) {
        return -1;
    }
    struct sockaddr_storage local = {0};
    if (addr != NULL) {
        memcpy(&local, addr, sockaddr_len(addr));
        cm_device_local(device, &local);
    }
    int error = device->way->bind(c, device, addr != NULL ? (struct sockaddr *)&local : NULL);
    if (error != 0) {
        return cm_result(error);
    }
    if (c->options.has_tos) {
        device->way->set_tos(c, c->options.tos);
    }
    if (addr != NULL) {
        cm_id_show_addresses(c);
    }
    return 0;
}

static int bind_and_use(struct cm_id *c, const struct sockaddr *addr)
{
    if (endpoint_bind(c, addr) != 0) {
        return -1;
    }
    // A wildcard address is no device's: `verbs` stays NULL, as programs expect of it.
    return sockaddr_is_any(&c->id.route.addr.src_addr) ? 0 : cm_id_use_device(c);
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    struct cm_id *c = cm_id_of(id);
    if (sockaddr_len(addr) == 0) {
        return cm_fail(EINVAL);
    }
    enum cm_state before;
    if (cm_id_claim(c, CM_CALL_BIND, &before) != 0) {
        return -1;
    }
    if (bind_and_use(c, addr) != 0) {
        cm_id_unclaim(c, CM_CALL_BIND, before);
        return -1;
    }
    return 0;
}

/* ---- resolving ------------------------------------------------------------------------------- */

static int resolve(struct cm_id *c, enum cm_state before, const struct sockaddr *src,
                   const struct sockaddr *dst)
{
    struct sockaddr_storage to = {0}, route_src;
    memcpy(&to, dst, sockaddr_len(dst));
    if (cm_device_route(c, &to, &route_src) != 0) {
        return -1;
    }
    // Without an address of the program's choice the port, too, is left to the moment of
    // connecting.
    bool is_chosen = src != NULL && (!sockaddr_is_any(src) || sockaddr_port(src) != 0);
    if (before == CM_IDLE && !cm_id_has_address(c) &&
        endpoint_bind(c, is_chosen ? src : NULL) != 0) {
        return -1;
    }
    struct sockaddr_storage *shown = &c->id.route.addr.src_storage;
    in_port_t port = sockaddr_port((const struct sockaddr *)shown);
    if (shown->ss_family == AF_UNSPEC || sockaddr_is_any((const struct sockaddr *)shown)) {
        *shown = sockaddr_unmapped((const struct sockaddr *)&route_src);
        sockaddr_set_port((struct sockaddr *)shown, port);
    }
    c->id.route.addr.dst_storage = to;
    return cm_id_use_device(c);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
                      int timeout_ms)
{
    struct cm_id *c = cm_id_of(id);
    if (sockaddr_len(dst_addr) == 0 || (src_addr != NULL && sockaddr_len(src_addr) == 0)) {
        return cm_fail(EINVAL);
    }
    const struct sockaddr *src = src_addr != NULL ? src_addr : &id->route.addr.src_addr;
    if (src->sa_family != AF_UNSPEC && src->sa_family != dst_addr->sa_family) {
        return cm_fail(EINVAL);
    }
    const bool is_sync = c->is_sync;
    enum cm_state before;
    if (cm_id_claim(c, CM_CALL_RESOLVE_ADDR, &before) != 0) {
        return -1;
    }
    if (resolve(c, before, src_addr, dst_addr) != 0 ||
        cm_event_post(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0) != 0) {
        cm_id_unclaim(c, CM_CALL_RESOLVE_ADDR, before);
        return -1;
    }
    return cm_event_complete(c, is_sync);
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    struct cm_id *c = cm_id_of(id);
    const bool is_sync = c->is_sync;
    enum cm_state before;
    if (cm_id_claim(c, CM_CALL_RESOLVE_ROUTE, &before) != 0) {
        return -1;
    }
    if (cm_id_show_path(c) != 0 || cm_event_post(c, RDMA_CM_EVENT_ROUTE_RESOLVED, 0) != 0) {
        cm_id_unclaim(c, CM_CALL_RESOLVE_ROUTE, before);
        return -1;
    }
    return cm_event_complete(c, is_sync);
}
