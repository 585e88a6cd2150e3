// Opening and closing the device, and the operations that the header's inline functions call
// through the context. Operations left NULL answer EOPNOTSUPP by themselves.

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "descriptor/descriptor.h"
#include "host/process.h"
#include "verbs/front.h"
#include "view/place.h"
#include "view/wires.h"

// The calls that existed before the extended context; with one of those they are never used.
static int compat_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    return ibv_query_device(context, attr);
}

static const struct ibv_context_ops context_ops = {
    ._compat_query_device = compat_query_device,
    .alloc_mw = front_alloc_mw,
    .bind_mw = front_bind_mw,
    .dealloc_mw = front_dealloc_mw,
    .poll_cq = front_poll_cq,
    .post_recv = front_post_recv,
    .post_send = front_post_send,
    .post_srq_recv = front_post_srq_recv,
    .req_notify_cq = front_req_notify_cq,
};

static void context_fill(struct front_context *front, struct ibv_device *device)
{
    front->verbs = (struct verbs_context){
        .advise_mr = front_advise_mr,
        .alloc_parent_domain = front_alloc_parent_domain,
        .alloc_td = front_alloc_td,
        .create_cq_ex = front_create_cq_ex,
        .create_qp_ex = front_create_qp_ex,
        .dealloc_td = front_dealloc_td,
        .modify_cq = front_modify_cq,
        .query_device_ex = front_query_device_ex,
        .query_port = front_query_port,
        .query_rt_values = front_query_rt_values,
        .sz = sizeof front->verbs,
        .context =
            {
                .device = device,
                .ops = context_ops,
                .async_fd = front->async.fd,
                .num_comp_vectors = FRONT_COMP_VECTOR_COUNT,
                .abi_compat = __VERBS_ABI_IS_EXTENDED,
            },
    };
    pthread_mutex_init(&front->verbs.context.mutex, NULL);
    pthread_mutex_init(&front->own_addr_lock, NULL);
}

static struct rnic *rnic_of(struct ibv_device *device, int *ret_error)
{
    const struct front_device *front = front_device_of(device);
    if (front->identity->has_streams) {
        return host_rnic(front->wire, NULL, ret_error);
    }
    const struct rnic_port port = front_port_find(front->identity);
    return host_rnic(front->wire, &port, ret_error);
}

static void port_watch(struct front_context *front)
{
    event_source_init(&front->gid_change, front, IBV_EVENT_GID_CHANGE);
    front->port_watch = (struct rnic_port_watch){.on_change = front_port_on_change, .ctx = front};
    list_init(&front->port_watch.link);
    rnic_port_watch(front->rnic, &front->port_watch);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    int error;
    place_make(view_wires()); // programs can do without
    struct rnic *rnic = rnic_of(device, &error);
    if (rnic == NULL) {
        return front_null(-error);
    }
    struct front_context *front = calloc(1, sizeof *front);
    if (front == NULL) {
        return front_null(ENOMEM);
    }
    front->rnic = rnic;
    atomic_init(&front->user_count, 1);
    error = event_queue_init(&front->async);
    if (error != 0) {
        goto free_front;
    }
    // Nothing is commanded through it; programs duplicate it or look at it, so it is a real one.
    int cmd_fd = descriptor_above_standard(eventfd(0, EFD_CLOEXEC));
    if (cmd_fd < 0) {
        error = errno;
        goto fini_async;
    }
    context_fill(front, device);
    front->verbs.context.cmd_fd = cmd_fd;
    port_watch(front);
    return &front->verbs.context;

fini_async:
    event_queue_fini(&front->async);
free_front:
    free(front);
    return front_null(error);
}

void front_context_release(struct ibv_context *context)
{
    struct front_context *front = front_context_of(context);
    if (atomic_fetch_sub(&front->user_count, 1) == 1) {
        event_queue_fini(&front->async);
        pthread_mutex_destroy(&context->mutex);
        pthread_mutex_destroy(&front->own_addr_lock);
        free(front);
    }
}

int ibv_close_device(struct ibv_context *context)
{
    struct front_context *front = front_context_of(context);
    if (front_is_alive(context)) {
        rnic_port_unwatch(front->rnic, &front->port_watch);
    }
    close(context->cmd_fd);
    front_context_release(context);
    return 0;
}
