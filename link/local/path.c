// By which way a stream's octets go, and from where on.

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "base/errno_name.h"
#include "base/list.h"
#include "base/port_link.h"
#include "base/trace.h"
#include "link/local/channel.h"
#include "link/local/door.h"
#include "link/local/doorbell.h"
#include "link/local/memory.h"
#include "link/local/octet_ring.h"
#include "link/local/stream.h"
#include "link/sys.h"
#include "net/addr.h"

// How the stream is known at doors. False: it is not connected, or of another family.
static bool flow_of(const struct local_stream *s, struct net_flow *ret)
{
    struct sockaddr_storage local, peer;
    *ret = (struct net_flow){0};
    return link_local_addr(s->forward.inner, &local) == 0 &&
           link_peer_addr(s->forward.inner, &peer) == 0 &&
           net_addr_from_sockaddr((struct sockaddr *)&local, &ret->local, &ret->local_port,
                                  &ret->scope) &&
           net_addr_from_sockaddr((struct sockaddr *)&peer, &ret->remote, &ret->remote_port, NULL);
}

// An address is this host's if something can be bound to it.
static bool is_of_this_host(const struct net_addr *addr, uint32_t scope)
{
    struct sockaddr_storage at;
    int family = net_addr_is_ipv4(addr) ? AF_INET : AF_INET6;
    net_addr_to_sockaddr(addr, 0, scope, family, &at);
    int fd = sys_socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    socklen_t len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    int error = sys_bind(fd, (struct sockaddr *)&at, len);
    sys_close(fd);
    return error == 0;
}

// Whatever the peer says: it is a number of his own.
static uint32_t number_of(uint64_t said)
{
    return (uint32_t)(said % DOORBELL_NUMBERS);
}

/* ---- both sides ------------------------------------------------------------------------------ */

static void enter_memory(struct local_stream *s)
{
    const struct octet_ring tx = local_memory_ring(&s->memory, s->side);
    const struct octet_ring rx = local_memory_ring(&s->memory, local_other_side(s->side));
    struct local_link *l = local_link_at(s);
    octet_ring_writer_init(&s->tx, &tx);
    octet_ring_reader_init(&s->rx, &rx);
    s->path = LOCAL_PATH_MEMORY;
    l->in_memory_count++;
    s->forward.base.facts |= LINK_IS_OF_HOST;
    link_want_out(s->forward.inner, false);
    l->counters.streams++;
    TRACE(l->config.trace, TRACE_LINK, "stream through memory, rings of %u octets", tx.len);
    local_attend(s);
}

void local_path_settle_for_tcp(struct local_stream *s)
{
    s->path = LOCAL_PATH_TCP;
    s->forward.base.facts &= ~(unsigned)(LINK_IS_OF_HOST | LINK_LENDS);
    local_memory_release(&s->memory);
    local_stream_part(s);
}

/* ---- who connects ---------------------------------------------------------------------------- */

// The reader of what the peer will send sleeps from the beginning: TCP is all that is looked at.
static void fall_asleep_unseen(struct local_stream *s)
{
    const struct octet_ring rx = local_memory_ring(&s->memory, LOCAL_PASSIVE);
    octet_ring_reader_init(&s->rx, &rx);
    octet_ring_reader_sleep(&s->rx);
}

// Memory with our number in it, and a channel for the stream, at a door that has been found.
static int hand_over(struct local_stream *s, const struct net_flow *flow, int door)
{
    struct local_link *l = local_link_at(s);
    struct local_channel *c;
    int error = local_channel_open(l, flow, s->process, &c);
    if (error != 0) {
        return error;
    }
    local_arm(l, c);
    error = local_stream_join(s, c);
    if (error != 0) {
        local_channel_leave(c);
        return error;
    }
    error = local_door_offer(door, flow, l->config.ring_len, &c->means, &s->memory);
    if (error != 0) {
        local_stream_part(s);
        return error;
    }
    atomic_store_explicit(local_memory_word(&s->memory, LOCAL_MEMORY_ACTIVE_NUMBER), s->number,
                          memory_order_release);
    return 0;
}

static int offer(struct local_stream *s, const struct net_flow *flow)
{
    int door = local_door_knock(flow, &s->process);
    if (door < 0) {
        return door;
    }
    int error = hand_over(s, flow, door);
    sys_close(door);
    return error;
}

void local_path_offer(struct local_stream *s)
{
    struct local_link *l = local_link_at(s);
    struct net_flow flow;
    if (!flow_of(s, &flow) || (!net_addr_equal(&flow.local, &flow.remote) &&
                               !is_of_this_host(&flow.remote, flow.scope))) {
        return;
    }
    int error = offer(s, &flow);
    if (error != 0) {
        l->counters.offers_failed += error != -ECONNREFUSED && error != -EPERM;
        TRACE(l->config.trace, TRACE_LINK, "no memory is handed over: %s", errno_name(-error));
        return;
    }
    s->side = LOCAL_ACTIVE;
    s->path = LOCAL_PATH_OFFERED;
    s->forward.base.facts |= LINK_IS_OF_HOST;
    l->counters.offers_sent++;
    fall_asleep_unseen(s);
}

bool local_path_follow(struct local_stream *s)
{
    uint64_t accepted = atomic_load_explicit(local_memory_word(&s->memory, LOCAL_MEMORY_ACCEPTED),
                                             memory_order_acquire);
    if (accepted == 0) {
        return false;
    }
    s->peer_number = number_of(accepted - 1);
    atomic_store_explicit(local_memory_word(&s->memory, LOCAL_MEMORY_SWITCHED), s->tcp_out + 1,
                          memory_order_seq_cst);
    enter_memory(s);
    s->forward.base.facts |= LINK_LENDS;
    return true;
}

/* ---- who accepts ----------------------------------------------------------------------------- */

static void offer_drop(struct local_link *l, struct local_waiting_offer *w)
{
    list_remove(&w->link);
    l->offer_count--;
    local_memory_release(&w->offer.memory);
    local_channel_leave(w->channel);
    free(w);
}

// Whose connection never says anything goes first.
static int offer_keep(struct local_link *l, const struct local_offer *offer)
{
    struct local_waiting_offer *w = malloc(sizeof *w);
    if (w == NULL) {
        return -ENOMEM;
    }
    *w = (struct local_waiting_offer){.offer = *offer};
    int error = local_channel_take(l, offer, &w->channel);
    if (error != 0) {
        free(w);
        return error;
    }
    local_arm(l, w->channel);
    if (l->offer_count == LOCAL_OFFERS_MAX) {
        l->counters.offers_refused++;
        offer_drop(l, LIST_ENTRY(l->offers.next, struct local_waiting_offer, link));
    }
    list_push_tail(&l->offers, &w->link);
    l->offer_count++;
    return 0;
}

static void take_in_one(struct local_link *l, struct local_offer *offer, int error)
{
    bool has_memory = error == 0;
    l->counters.offers_received++;
    if (error == 0) {
        error = offer_keep(l, offer);
    }
    if (error == 0) {
        return;
    }
    if (has_memory) {
        local_memory_release(&offer->memory);
    }
    l->counters.offers_refused++;
    TRACE(l->config.trace, TRACE_LINK, "refused memory: %s", errno_name(-error));
}

// All that waited at the door when the look began, the one whose connection speaks among them. Who
// comes meanwhile waits for the next look, so nobody who knocks without end holds us.
static void look_behind(struct local_link *l, struct local_door *door)
{
    struct local_offer offer;
    unsigned left = LOCAL_DOOR_LOOK;
    int error;
    while ((error = local_door_take(door, &left, &offer)) != -EAGAIN) {
        take_in_one(l, &offer, error);
    }
    if (left == 0 && l->counters.looks_cut++ == 0) {
        TRACE(l->config.trace, TRACE_LINK, "somebody knocks at a door without end");
    }
}

// At the doors of this port.
static void take_in(struct local_link *l, uint16_t port)
{
    for (struct list_link *at = l->listeners.next; at != &l->listeners; at = at->next) {
        struct local_stream *listener = LIST_ENTRY(at, struct local_stream, listener_link);
        if (listener->door_port == port) {
            look_behind(l, &listener->door);
        }
    }
}

static struct local_waiting_offer *offer_for(struct local_link *l, const struct net_flow *flow)
{
    for (struct list_link *at = l->offers.prev; at != &l->offers; at = at->prev) {
        struct local_waiting_offer *w = LIST_ENTRY(at, struct local_waiting_offer, link);
        if (memcmp(&w->offer.flow, flow, sizeof *flow) == 0) {
            return w;
        }
    }
    return NULL;
}

static void use_memory(struct local_stream *s)
{
    _Atomic uint64_t *number = local_memory_word(&s->memory, LOCAL_MEMORY_ACTIVE_NUMBER);
    s->side = LOCAL_PASSIVE;
    s->peer_number = number_of(atomic_load_explicit(number, memory_order_relaxed));
    atomic_store_explicit(local_memory_word(&s->memory, LOCAL_MEMORY_ACCEPTED), 1 + s->number,
                          memory_order_seq_cst);
    enter_memory(s);
}

void local_path_accept(struct local_stream *s)
{
    struct local_link *l = local_link_at(s);
    struct net_flow flow;
    s->path = LOCAL_PATH_TCP;
    if (list_is_empty(&l->listeners) || !flow_of(s, &flow)) {
        return;
    }
    take_in(l, flow.local_port);
    struct local_waiting_offer *w = offer_for(l, &flow);
    if (w == NULL) {
        return;
    }
    if (local_stream_join(s, w->channel) == 0) {
        w->channel->user_count++; // the offer's, which goes
        s->memory = w->offer.memory;
        s->process = w->offer.process;
        w->offer.memory.base = NULL;
        use_memory(s);
    }
    offer_drop(l, w);
}

void local_path_forget_offers(struct local_link *l)
{
    while (l->offer_count > 0) {
        offer_drop(l, LIST_ENTRY(l->offers.next, struct local_waiting_offer, link));
    }
}
