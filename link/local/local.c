#include "link/local/local.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/errno_name.h"
#include "base/list.h"
#include "link/link_forward.h"
#include "link/link_none.h"
#include "link/local/channel.h"
#include "link/local/door.h"
#include "link/local/keys.h"
#include "link/local/memory.h"
#include "link/local/octet_ring.h"
#include "link/local/stream.h"
#include "link/rest.h"
#include "net/addr.h"

/* ---- streams --------------------------------------------------------------------------------- */

static struct local_stream *stream_new(struct local_link *l, void *owner)
{
    struct list_link *rested = rest_take(&l->rest);
    struct local_stream *s =
        rested != NULL ? LIST_ENTRY(rested, struct local_stream, link) : malloc(sizeof *s);
    if (s != NULL) {
        *s = (struct local_stream){.forward.base = {.link = &l->forward.base,
                                                    .owner = owner,
                                                    .facts = l->forward.base.facts},
                                   .wants_in = true,
                                   .door.fd = -1};
        list_push_tail(&l->streams, &s->link);
        list_init(&s->listener_link);
        list_init(&s->awake_link);
        list_init(&s->stuck_link);
        list_init(&s->admitted_link);
    }
    return s;
}

// Who writes past it just now, without a lock, names it and its memory still.
static void stream_leave(struct local_stream *s)
{
    local_unlist(s);
    local_gate_close(s);
    list_remove(&s->listener_link);
    local_door_close(&s->door);
    local_stream_part(s);
    local_link_at(s)->in_memory_count -= s->path == LOCAL_PATH_MEMORY;
    s->path = LOCAL_PATH_TCP;
    s->forward.base.owner = NULL;
    list_remove(&s->link);
    s->is_departed = true;
    if (s->pushing_by == NULL && s->leaver == 0) {
        local_stream_rest(s);
    }
}

static int local_bind(struct link *link, const struct sockaddr *addr, unsigned flags, void *owner,
                      struct link_stream **ret)
{
    struct local_link *l = local_link_of(link);
    struct local_stream *s = stream_new(l, owner);
    if (s == NULL) {
        return -ENOMEM;
    }
    int error = link_bind(l->forward.inner, addr, flags, s, &s->forward.inner);
    if (error != 0) {
        stream_leave(s);
        return error;
    }
    *ret = &s->forward.base;
    return 0;
}

// Without a door all comes by TCP.
static void open_door(struct local_stream *s)
{
    struct local_link *l = local_link_at(s);
    struct sockaddr_storage at;
    struct net_flow place = {0};
    int error = link_local_addr(s->forward.inner, &at);
    if (error == 0 && net_addr_from_sockaddr((struct sockaddr *)&at, &place.local,
                                             &place.local_port, &place.scope)) {
        error = local_door_open(&s->door, &place);
    }
    if (error != 0) {
        TRACE(l->config.trace, TRACE_LINK, "no door: %s", errno_name(-error));
        return;
    }
    s->door_port = place.local_port;
    list_push_tail(&l->listeners, &s->listener_link);
}

static int local_listen(struct link_stream *stream, int backlog)
{
    struct local_stream *s = local_stream_of(stream);
    int error = link_listen(s->forward.inner, backlog);
    if (error == 0 && s->door.fd < 0) {
        open_door(s);
    }
    return error;
}

static int local_accept(struct link_stream *listener, struct link_stream **ret)
{
    struct local_stream *s = stream_new(local_link_of(listener->link), NULL);
    if (s == NULL) {
        return -ENOMEM;
    }
    int error = link_accept(local_stream_of(listener)->forward.inner, &s->forward.inner);
    if (error != 0) {
        stream_leave(s);
        return error;
    }
    s->forward.inner->owner = s;
    s->path = LOCAL_PATH_ASKED;
    *ret = &s->forward.base;
    return 0;
}

static int local_connect(struct link_stream *stream, const struct sockaddr *peer)
{
    struct local_stream *s = local_stream_of(stream);
    int error = link_connect(s->forward.inner, peer);
    s->is_connecting |= error == -EINPROGRESS;
    return error;
}

// What was sent is in the peer's memory too: it reads that before TCP's end. TCP's own end would
// keep the port of whoever closes first in TIME-WAIT, which is to be the one that ended the stream;
// where both ends have been told nothing can come late, and TCP is reset.
static void local_close(struct link_stream *stream, bool abort)
{
    struct local_stream *s = local_stream_of(stream);
    bool is_reset = abort;
    if (s->path == LOCAL_PATH_MEMORY) {
        if (abort || !s->is_shut) {
            atomic_store_explicit(local_memory_end(&s->memory, s->side),
                                  abort ? LOCAL_END_ABORTED : LOCAL_END_SHUT, memory_order_seq_cst);
        }
        is_reset |= local_peer_end(s) == LOCAL_END_SHUT;
    }
    link_close(s->forward.inner, is_reset);
    stream_leave(s);
}

/* ---- the link -------------------------------------------------------------------------------- */

static void each_counter(const struct local_counters *c, counter_each each, void *ctx)
{
#define X(name, text) each(ctx, "local." #name, c->name);
    LINK_LOCAL_COUNTERS(X)
#undef X
}

static void local_packet_counters(const struct link *link, counter_each each, void *ctx)
{
    const struct local_link *l = (const struct local_link *)link;
    struct local_counters counters = l->counters;
    const struct list_link *at;
    for (at = l->listeners.next; at != &l->listeners; at = at->next) {
        counters.offers_refused +=
            LIST_ENTRY(at, const struct local_stream, listener_link)->door.stranger_count;
    }
    each_counter(&counters, each, ctx);
    link_forward_packet_counters(link, each, ctx);
}

// The memory is not the child's (MADV_DONTFORK).
static void local_abandon(struct link *link)
{
    struct local_link *l = local_link_of(link);
    for (struct list_link *at = l->streams.next; at != &l->streams; at = at->next) {
        struct local_stream *s = LIST_ENTRY(at, struct local_stream, link);
        local_unlist(s);
        local_door_close(&s->door);
        list_remove(&s->admitted_link);
        s->lets_in = false;
        l->in_memory_count -= s->path == LOCAL_PATH_MEMORY;
        s->path = LOCAL_PATH_TCP;
        s->memory.base = NULL;
    }
    for (struct list_link *at = l->leaving.next; at != &l->leaving; at = at->next) {
        LIST_ENTRY(at, struct local_stream, admitted_link)->memory.base = NULL;
    }
    local_gate_forget_leavers(l);
    for (struct list_link *at = l->channels.next; at != &l->channels; at = at->next) {
        local_channel_abandon(LIST_ENTRY(at, struct local_channel, link));
    }
    local_own_keys_abandon(&l->own_keys);
    for (struct list_link *at = l->peers.next; at != &l->peers; at = at->next) {
        LIST_ENTRY(at, struct local_peer_keys, link)->shown = NULL;
    }
    for (struct list_link *at = l->offers.next; at != &l->offers; at = at->next) {
        LIST_ENTRY(at, struct local_waiting_offer, link)->offer.memory.base = NULL;
    }
    link_abandon(l->forward.inner);
}

static void local_destroy(struct link *link)
{
    struct local_link *l = local_link_of(link);
    struct list_link *at;
    while (!list_is_empty(&l->streams)) {
        local_close(&LIST_ENTRY(l->streams.next, struct local_stream, link)->forward.base, true);
    }
    local_gate_forget_leavers(l);
    local_path_forget_offers(l);
    while (!list_is_empty(&l->peers)) {
        local_gate_forget_peer(l, LIST_ENTRY(l->peers.next, struct local_peer_keys, link));
    }
    local_own_keys_destroy(&l->own_keys);
    link_destroy(l->forward.inner);
    while ((at = list_pop_head(&l->rest.streams)) != NULL) {
        free(LIST_ENTRY(at, struct local_stream, link));
    }
    free(l);
}

static const struct link_ops local_ops = {
    .name = "local",
    .bind = local_bind,
    .listen = local_listen,
    .accept = local_accept,
    .connect = local_connect,
    .connect_result = local_connect_result,
    .recv = local_recv,
    .borrow = local_borrow,
    .give_back = local_give_back,
    .set_place = link_none_set_place,
    .resume = link_none_resume,
    .send = local_send,
    .unsettled = link_forward_unsettled,
    .want_out = local_want_out,
    .want_in = local_want_in,
    .shutdown = local_shutdown,
    .close = local_close,
    .local_addr = link_forward_local_addr,
    .peer_addr = link_forward_peer_addr,
    .emss = link_forward_emss,
    .set_tos = link_forward_set_tos,
    .route = link_forward_route,
    .poll = local_poll,
    .next_deadline = local_next_deadline,
    .may_wait = local_may_wait,
    .wait = local_wait,
    .rise = local_rise,
    .wake = link_forward_wake,
    .descriptor = link_forward_descriptor,
    .stream_counters = link_forward_stream_counters,
    .packet_counters = local_packet_counters,
    .is_busy = link_forward_is_busy,
    .abandon = local_abandon,
    .destroy = local_destroy,
};

static const struct push_ops local_push_ops = {
    .mirror = local_gate_mirror,
    .revoke = local_gate_revoke,
    .admit = local_gate_admit,
    .expel = local_gate_expel,
    .has_left = local_gate_has_left,
    .aim = local_push_aim,
    .put = local_push_put,
    .conclude = local_push_conclude,
    .locate = local_pull_locate,
    .copy = local_pull_copy,
    .confirm = local_pull_confirm,
};

int link_local_wrap(struct link *inner, const struct link_local_config *config, struct link **ret)
{
    CHECK(octet_ring_len_is_good(config->ring_len) && config->ring_len >= LOCAL_MEMORY_PAGE);
    struct local_link *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return -ENOMEM;
    }
    link_forward_init(&l->forward, &local_ops, inner);
    l->config = *config;
    l->stuck_until_ns = INSTANT_NEVER;
    list_init(&l->streams);
    list_init(&l->listeners);
    list_init(&l->offers);
    list_init(&l->channels);
    list_init(&l->awake);
    list_init(&l->stuck);
    list_init(&l->peers);
    list_init(&l->admitted);
    list_init(&l->leaving);
    l->own_keys.fd = -1;
    l->forward.base.pushes = config->rights != 0 ? &local_push_ops : NULL;
    rest_init(&l->rest);
    *ret = &l->forward.base;
    return 0;
}
