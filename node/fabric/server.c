// The listeners, what happens to connections, and the turns that the loop gives them.

#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/deadlines.h"
#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "listen/address.h"
#include "node/fabric/fabric.h"
#include "node/fabric/pair.h"
#include "node/interface/uma_tts.h"
#include "node/loop/loop.h"

enum { BACKLOG = 128 };

/* ---- events ---------------------------------------------------------------------------------- */

static void on_pair_event(struct fabric_pair *p, enum rdma_cm_event_type type)
{
    switch (type) {
    case RDMA_CM_EVENT_ESTABLISHED:
        p->state = p->state == FABRIC_ACCEPTING ? FABRIC_UP : p->state;
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        p->is_disconnected = true;
        break;
    default:
        break;
    }
    fabric_touch(p);
}

static void on_event(struct fabric *fabric, struct rdma_cm_event *event)
{
    struct rdma_cm_id *id = event->id;
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        bool is_taken = fabric->protocol->on_request(fabric->parts.ctx, event);
        rdma_ack_cm_event(event);
        if (!is_taken) {
            fabric->counters.rejected++;
            rdma_destroy_id(id);
        }
        return;
    }
    if (id->context != NULL) { // a listener has none
        on_pair_event(id->context, event->event);
    }
    rdma_ack_cm_event(event);
}

static void on_channel(void *ctx, uint32_t events)
{
    struct fabric *fabric = ctx;
    struct rdma_cm_event *event;
    while (fabric->channel != NULL && rdma_get_cm_event(fabric->channel, &event) == 0) {
        on_event(fabric, event);
    }
}

/* ---- the listeners --------------------------------------------------------------------------- */

void fabric_close(struct fabric *fabric)
{
    while (fabric->listener_count > 0) {
        rdma_destroy_id(fabric->listeners[--fabric->listener_count].id);
    }
}

static int listen_fail(const char *listen, struct why *ret_why, const char *what)
{
    int error = errno;
    why_say(ret_why, "%.48s: %s: %s", listen, what, strerror(error));
    return -error;
}

// What there is of an earlier try stays.
static int channel_open(struct fabric *fabric)
{
    if (fabric->channel_watch != NULL) {
        return 0;
    }
    if (fabric->channel == NULL) {
        fabric->channel = rdma_create_event_channel();
    }
    if (fabric->channel == NULL) {
        return -1;
    }
    fcntl(fabric->channel->fd, F_SETFL, fcntl(fabric->channel->fd, F_GETFL) | O_NONBLOCK);
    fabric->channel_watch =
        loop_watch(fabric->parts.loop, fabric->channel->fd, EPOLLIN, on_channel, fabric);
    return fabric->channel_watch != NULL ? 0 : -1;
}

// Over sockets an RDMA listener is one of TCP's, so the port may be that of another protocol here.
static const char *bind_reason(int error)
{
    if (error == EADDRNOTAVAIL) {
        return "no RDMA device has this address";
    }
    return error == EADDRINUSE
               ? "somebody listens at this port (RDMA over TCP and TCP itself want two)"
               : "cannot have this address";
}

// Of 0 the id listens; of an error it is still the caller's.
static int listen_at(struct rdma_cm_id *id, const char *listen, struct sockaddr *addr,
                     struct why *ret_why)
{
    if (rdma_bind_addr(id, addr) != 0) {
        return listen_fail(listen, ret_why, bind_reason(errno));
    }
    if (rdma_listen(id, BACKLOG) != 0) {
        return listen_fail(listen, ret_why,
                           errno == EADDRINUSE ? bind_reason(errno) : "cannot listen");
    }
    return 0;
}

static int listener_open(struct fabric *fabric, const char *listen, struct why *ret_why)
{
    struct fabric_listener *l = &fabric->listeners[fabric->listener_count];
    struct sockaddr_storage addr;
    int error = address_resolve(listen, fabric->protocol->default_port, &addr, ret_why);
    if (error != 0) {
        return error;
    }
    if (channel_open(fabric) != 0 ||
        rdma_create_id(fabric->channel, &l->id, NULL, RDMA_PS_TCP) != 0) {
        return listen_fail(listen, ret_why, "there is no RDMA device to listen with");
    }
    error = listen_at(l->id, listen, (struct sockaddr *)&addr, ret_why);
    if (error != 0) {
        rdma_destroy_id(l->id);
        return error;
    }
    address_end_of(rdma_get_local_addr(l->id), &l->end);
    fabric->listener_count++;
    return 0;
}

int fabric_listen(struct fabric *fabric, struct why *ret_why)
{
    const struct addresses *listen = &fabric->parts.listen;
    for (unsigned i = 0; i < listen->count; i++) {
        int error = listener_open(fabric, listen->of[i], ret_why);
        if (error != 0) {
            fabric_close(fabric);
            return error;
        }
    }
    return 0;
}

/* ---- a member of the loop -------------------------------------------------------------------- */

static void on_batch_end(void *ctx, instant_ns now)
{
    struct fabric *fabric = ctx;
    struct list_link batch;
    list_move_all(&batch, &fabric->dirty);
    for (struct list_link *l; (l = list_pop_head(&batch)) != NULL;) {
        struct fabric_pair *p = LIST_ENTRY(l, struct fabric_pair, dirty_link);
        if (fabric_pair_update(p, now)) {
            fabric_touch(p);
        }
    }
}

static bool may_sleep(void *ctx)
{
    struct fabric *fabric = ctx;
    return fabric_devices_may_sleep(fabric) && list_is_empty(&fabric->dirty);
}

static void on_wake(void *ctx)
{
    fabric_devices_wake(ctx);
}

static instant_ns next_deadline(void *ctx)
{
    const struct fabric *fabric = ctx;
    return deadlines_next(&fabric->deadlines);
}

// Completions that have come meanwhile are looked at before anybody is judged.
static void on_deadline(void *ctx, instant_ns now)
{
    struct fabric *fabric = ctx;
    struct deadline *d;
    while ((d = deadlines_take_due(&fabric->deadlines, now)) != NULL) {
        fabric_touch(DEADLINE_ENTRY(d, struct fabric_pair, deadline));
    }
}

void fabric_init(struct fabric *fabric, const struct fabric_protocol *protocol,
                 const struct fabric_parts *parts)
{
    *fabric = (struct fabric){.protocol = protocol, .parts = *parts};
    list_init(&fabric->devices);
    list_init(&fabric->pairs);
    list_init(&fabric->dirty);
    fabric->member = (struct loop_member){.ctx = fabric,
                                          .on_batch_end = on_batch_end,
                                          .may_sleep = may_sleep,
                                          .on_wake = on_wake,
                                          .next_deadline = next_deadline,
                                          .on_deadline = on_deadline};
    loop_join(parts->loop, &fabric->member);
}

void fabric_fini(struct fabric *fabric)
{
    fabric_close(fabric);
    while (!list_is_empty(&fabric->pairs)) {
        fabric_pair_destroy(LIST_ENTRY(fabric->pairs.next, struct fabric_pair, link),
                            loop_now(fabric->parts.loop));
    }
    while (!list_is_empty(&fabric->devices)) {
        fabric_device_destroy(LIST_ENTRY(fabric->devices.next, struct fabric_device, link));
    }
    loop_unwatch(fabric->channel_watch);
    if (fabric->channel != NULL) {
        rdma_destroy_event_channel(fabric->channel);
    }
    loop_leave(fabric->parts.loop, &fabric->member);
}

struct fabric_counters fabric_counters(const struct fabric *fabric)
{
    struct fabric_counters counters = fabric->counters;
    for (const struct list_link *l = fabric->pairs.next; l != &fabric->pairs; l = l->next) {
        struct weft_rdma_counters manager;
        weft_rdma_manager_counters(LIST_ENTRY(l, struct fabric_pair, link)->manager, &manager);
        counters.descriptors += manager.descriptor_count;
    }
    return counters;
}

void fabric_figures(const struct fabric *fabric, tts_figure *figure, void *figure_ctx)
{
    struct fabric_counters c = fabric_counters(fabric);
    figure(figure_ctx, "connections", TTS_GAUGE, fabric->pair_count);
#define X(name, text) figure(figure_ctx, #name, TTS_COUNTER, c.name);
    FABRIC_COUNTERS(X)
#undef X
}
