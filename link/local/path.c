// By which way a stream's octets go, and from where on.

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/port_link.h"
#include "base/trace.h"
#include "link/local/door.h"
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

/* ---- both sides ------------------------------------------------------------------------------ */

static void enter_memory(struct local_stream *s)
{
    const struct octet_ring tx = local_memory_ring(&s->memory, s->side);
    const struct octet_ring rx = local_memory_ring(&s->memory, local_other_side(s->side));
    struct local_link *l = local_link_at(s);
    octet_ring_writer_init(&s->tx, &tx);
    octet_ring_reader_init(&s->rx, &rx);
    s->path = LOCAL_PATH_MEMORY;
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
}

/* ---- who connects ---------------------------------------------------------------------------- */

// The reader of what the peer will send sleeps from the beginning: TCP is all that is looked at.
static void fall_asleep_unseen(struct local_stream *s)
{
    const struct octet_ring rx = local_memory_ring(&s->memory, LOCAL_PASSIVE);
    octet_ring_reader_init(&s->rx, &rx);
    octet_ring_reader_sleep(&s->rx);
}

void local_path_offer(struct local_stream *s)
{
    struct local_link *l = local_link_at(s);
    struct net_flow flow;
    if (!flow_of(s, &flow) || (!net_addr_equal(&flow.local, &flow.remote) &&
                               !is_of_this_host(&flow.remote, flow.scope))) {
        return;
    }
    int error = local_door_offer(&flow, l->config.ring_len, &s->memory, &s->process);
    if (error != 0) {
        l->counters.offers_failed += error != -ECONNREFUSED && error != -EPERM;
        TRACE(l->config.trace, TRACE_LINK, "no memory is handed over: %s", strerrorname_np(-error));
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
    _Atomic uint64_t *accepted = local_memory_word(&s->memory, LOCAL_MEMORY_ACCEPTED);
    if (atomic_load_explicit(accepted, memory_order_acquire) == 0) {
        return false;
    }
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
    free(w);
}

// Whose connection never says anything goes first.
static void offer_keep(struct local_link *l, const struct local_offer *offer)
{
    struct local_waiting_offer *w = malloc(sizeof *w);
    if (w == NULL) {
        struct local_memory memory = offer->memory;
        local_memory_release(&memory);
        l->counters.offers_refused++;
        return;
    }
    if (l->offer_count == LOCAL_OFFERS_MAX) {
        l->counters.offers_refused++;
        offer_drop(l, LIST_ENTRY(l->offers.next, struct local_waiting_offer, link));
    }
    w->offer = *offer;
    list_push_tail(&l->offers, &w->link);
    l->offer_count++;
}

// All that wait at the doors of this port.
static void take_in(struct local_link *l, uint16_t port)
{
    for (struct list_link *at = l->listeners.next; at != &l->listeners; at = at->next) {
        struct local_stream *listener = LIST_ENTRY(at, struct local_stream, listener_link);
        struct local_offer offer;
        int error;
        if (listener->door_port != port) {
            continue;
        }
        while ((error = local_door_take(&listener->door, &offer)) != -EAGAIN) {
            l->counters.offers_received++;
            if (error == 0) {
                offer_keep(l, &offer);
            } else {
                l->counters.offers_refused++;
                TRACE(l->config.trace, TRACE_LINK, "refused memory: %s", strerrorname_np(-error));
            }
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
    s->memory = w->offer.memory;
    s->process = w->offer.process;
    w->offer.memory.base = NULL;
    offer_drop(l, w);
    s->side = LOCAL_PASSIVE;
    atomic_store_explicit(local_memory_word(&s->memory, LOCAL_MEMORY_ACCEPTED), 1,
                          memory_order_seq_cst);
    enter_memory(s);
}

void local_path_forget_offers(struct local_link *l)
{
    while (l->offer_count > 0) {
        offer_drop(l, LIST_ENTRY(l->offers.next, struct local_waiting_offer, link));
    }
}
