// Domains: of protection, of threads, and parent domains, which name one of each.

#include <stdlib.h>

#include "verbs/front.h"

static struct front_pd *front_pd_of(struct ibv_pd *pd)
{
    return (struct front_pd *)pd;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    if (!front_is_alive(context)) {
        return front_null(EIO);
    }
    struct front_pd *front = calloc(1, sizeof *front);
    if (front == NULL) {
        return front_null(ENOMEM);
    }
    front->pd.context = context;
    int error = rnic_pd_alloc(front_context_of(context)->rnic, &front->pd.handle);
    if (error != 0) {
        free(front);
        return front_null(-error);
    }
    front->as_made = front->pd;
    front_context_hold(context);
    return &front->pd;
}

// What a parent domain kept alive may go before it.
static void parent_release(struct front_pd *front)
{
    atomic_fetch_sub(&front->domain->parent_count, 1);
    if (front->td != NULL) {
        atomic_fetch_sub(&front->td->parent_count, 1);
    }
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    struct front_pd *front = front_pd_of(pd);
    int error = 0;
    if (!front_pd_is_known(pd)) {
        return front_fail(ENOENT);
    }
    if (atomic_load(&front->parent_count) > 0 || atomic_load(&front->ah_count) > 0) {
        return front_fail(EBUSY);
    }
    if (front->domain != NULL) {
        parent_release(front);
    } else if (front_is_alive(pd->context)) {
        error = rnic_pd_dealloc(front_context_of(pd->context)->rnic, pd->handle);
    }
    if (error != 0) {
        return front_fail(-error);
    }
    front_context_release(pd->context);
    free(front);
    return 0;
}

struct ibv_td *front_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    if (attr->comp_mask != 0) {
        return front_null(EINVAL);
    }
    struct front_td *front = calloc(1, sizeof *front);
    if (front == NULL) {
        return front_null(ENOMEM);
    }
    front->td.context = context;
    front_context_hold(context);
    return &front->td;
}

int front_dealloc_td(struct ibv_td *td)
{
    struct front_td *front = (struct front_td *)td;
    if (atomic_load(&front->parent_count) > 0) {
        return front_fail(EBUSY);
    }
    front_context_release(td->context);
    free(front);
    return 0;
}

// What an attribute of newer headers asks for is for guests whose memory a device cannot reach.
enum { PARENT_ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2 };

// 0 or a positive errno. The program's own allocators would have to be asked for rings that are not
// made here.
static int parent_check(const struct ibv_context *context,
                        const struct ibv_parent_domain_init_attr *attr)
{
    const uint32_t harmless =
        IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | PARENT_ALLOW_CC_UNPROTECTED_ALLOC;
    if (attr->pd == NULL || attr->pd->context != context ||
        (attr->td != NULL && attr->td->context != context)) {
        return EINVAL;
    }
    if (!front_pd_is_known(attr->pd)) {
        return ENOENT;
    }
    return (attr->comp_mask & ~harmless) != 0 ? EOPNOTSUPP : 0;
}

struct ibv_pd *front_alloc_parent_domain(struct ibv_context *context,
                                         struct ibv_parent_domain_init_attr *attr)
{
    int error = parent_check(context, attr);
    if (error != 0) {
        return front_null(error);
    }
    struct front_pd *front = calloc(1, sizeof *front);
    if (front == NULL) {
        return front_null(ENOMEM);
    }
    front->pd = (struct ibv_pd){.context = context, .handle = attr->pd->handle};
    front->as_made = front->pd;
    front->domain = front_pd_of(attr->pd);
    front->td = (struct front_td *)attr->td;
    atomic_fetch_add(&front->domain->parent_count, 1);
    if (front->td != NULL) {
        atomic_fetch_add(&front->td->parent_count, 1);
    }
    front_context_hold(context);
    return &front->pd;
}
