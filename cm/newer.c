// Calls of rdma-core 57 that older headers do not have: events of the program's own, and addresses
// looked up with an event for an answer.

#include <string.h>

#include "cm/cm.h"

enum { ADDRINFO_SA = 0x10 }; // ask the subnet administrator, whom Ethernet has not

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status,
                        uint64_t arg)
{
    struct cm_id *c = cm_id_of(id);
    if ((unsigned)type != CM_EVENT_USER) {
        return cm_fail(EINVAL);
    }
    if (!cm_id_is_alive(c)) {
        return cm_fail(EIO);
    }
    struct cm_event *event = cm_event_new(c, type, status);
    if (event == NULL) {
        return cm_fail(ENOMEM);
    }
    memcpy(&event->event.param, &arg, sizeof arg);
    return cm_event_put(c, event);
}

static bool begin(struct cm_id *c)
{
    cm_lock();
    const bool is_free = !c->is_resolving;
    c->is_resolving = true;
    cm_unlock();
    return is_free;
}

// What was found, NULL: nothing, and it may be tried again.
static void end(struct cm_id *c, struct rdma_addrinfo *found)
{
    cm_lock();
    c->is_resolving = found != NULL;
    c->resolved = found;
    cm_unlock();
}

// As rdma-core's does, the call itself looks up, and fails where nothing is found: the event says
// that the answer is there.
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
                          const struct rdma_addrinfo *hints)
{
    struct cm_id *c = cm_id_of(id);
    if (id == NULL) {
        return cm_fail(EINVAL);
    }
    if (!cm_id_is_alive(c)) {
        return cm_fail(EIO);
    }
    if (hints != NULL && hints->ai_flags & ADDRINFO_SA) {
        return cm_fail(ENOTSUP);
    }
    if (!begin(c)) {
        return cm_fail(EBUSY);
    }
    struct rdma_addrinfo *found = NULL;
    int error = rdma_getaddrinfo(node, service, hints, &found);
    end(c, found);
    if (error != 0) {
        return error == -1 ? -1 : cm_fail(ENODATA);
    }
    const bool is_sync = c->is_sync;
    if (cm_event_post(c, (enum rdma_cm_event_type)CM_EVENT_ADDRINFO_RESOLVED, 0) != 0) {
        return -1;
    }
    return cm_event_complete(c, is_sync);
}

int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **ret)
{
    struct cm_id *c = cm_id_of(id);
    if (id == NULL || ret == NULL) {
        return cm_fail(EINVAL);
    }
    if (!cm_id_is_alive(c)) {
        return cm_fail(EIO);
    }
    cm_lock();
    struct rdma_addrinfo *found = c->resolved;
    if (found != NULL) {
        c->resolved = NULL;
        c->is_resolving = false;
    }
    cm_unlock();
    if (found == NULL) {
        return cm_fail(ENOENT);
    }
    *ret = found;
    return 0;
}
