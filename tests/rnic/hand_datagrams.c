#include "tests/rnic/hand_datagrams.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "link/datagram/slot.h"

enum { FIRST_OF_IPV6 = 100, SLOT = 7, NET_UNREACHED = 99, BUFFER_LEN = 1 << 20 };

struct in6_addr hand_addr(unsigned n)
{
    struct in6_addr addr = {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 10}};
    if (n >= FIRST_OF_IPV6) {
        addr = (struct in6_addr){.s6_addr = {0xfe, 0x80}};
    }
    addr.s6_addr[15] = (uint8_t)n;
    return addr;
}

unsigned hand_addr_number(const struct in6_addr *addr)
{
    return addr->s6_addr[15];
}

static struct hand_datagrams *of(const struct datagram_link *link)
{
    return (struct hand_datagrams *)(uintptr_t)link;
}

static void note(struct hand_datagrams *l, const char *what, const struct in6_addr *addr,
                 uint32_t scope_id)
{
    size_t len = strlen(l->log);
    len +=
        (size_t)snprintf(l->log + len, sizeof l->log - len, "%s %u", what, hand_addr_number(addr));
    if (scope_id != 0) {
        len += (size_t)snprintf(l->log + len, sizeof l->log - len, "%%%u", scope_id);
    }
    snprintf(l->log + len, sizeof l->log - len, " ");
}

static int hand_open(struct datagram_link *link, const struct in6_addr *local, uint32_t scope_id)
{
    const bool is_refused = hand_addr_number(local) == of(link)->refused;
    note(of(link), is_refused ? "refuse" : "open", local, scope_id);
    return is_refused ? -EADDRINUSE : 0;
}

static void hand_close(struct datagram_link *link, const struct in6_addr *local, uint32_t scope_id)
{
    note(of(link), "close", local, scope_id);
}

static int hand_route(struct datagram_link *link, const struct in6_addr *remote, uint32_t scope_id,
                      struct in6_addr *ret_local)
{
    if (hand_addr_number(remote) == NET_UNREACHED) {
        return -ENETUNREACH;
    }
    note(of(link), "route", remote, scope_id);
    *ret_local = hand_addr(1);
    return 0;
}

static uint32_t hand_len_max(struct datagram_link *link, const struct datagram_path *path)
{
    return DATAGRAM_LEN_MAX;
}

static int hand_join(struct datagram_link *link, const struct in6_addr *group,
                     const struct in6_addr *local, uint32_t scope_id)
{
    const bool is_refused = hand_addr_number(local) == of(link)->refused;
    note(of(link), is_refused ? "refuse" : "join", local, scope_id);
    return is_refused ? -ENODEV : 0;
}

static void hand_leave(struct datagram_link *link, const struct in6_addr *group,
                       const struct in6_addr *local, uint32_t scope_id)
{
    note(of(link), "leave", local, scope_id);
}

static bool hand_has_room(struct datagram_link *link, const struct datagram_tx *tx)
{
    return !(tx->is_sent_once && of(link)->is_receiver_full);
}

static int hand_serve(struct datagram_link *link, uint64_t service, const struct in6_addr *local)
{
    note(of(link), of(link)->serve_error != 0 ? "refuse" : "serve", local, (uint32_t)service);
    return of(link)->serve_error;
}

static void hand_unserve(struct datagram_link *link, uint64_t service, const struct in6_addr *local)
{
    note(of(link), "unserve", local, (uint32_t)service);
}

static bool hand_is_served(struct datagram_link *link, uint64_t service,
                           const struct in6_addr *local)
{
    return of(link)->is_served;
}

static void hand_bequeath(struct datagram_link *link, uint32_t place, const struct datagram_tx *tx)
{
}

static void hand_revoke(struct datagram_link *link, uint32_t place)
{
}

static void append(struct hand_packet *p, struct span octets)
{
    if (octets.len > sizeof p->octets - p->len) {
        abort();
    }
    memcpy(p->octets + p->len, octets.ptr, octets.len);
    p->len += octets.len;
}

static bool hand_put(struct datagram_link *link, const struct datagram_tx *tx)
{
    struct hand_datagrams *l = of(link);
    if (l->room == 0) {
        return false;
    }
    if (l->out_count == HAND_PACKET_MAX) {
        abort(); // a test takes what it has sent
    }
    l->room--;
    struct hand_packet *p = &l->out[l->out_count++];
    *p = (struct hand_packet){.path = *tx->path};
    append(p, tx->head);
    for (unsigned i = 0; i < tx->piece_count; i++) {
        append(p, tx->pieces[i]);
    }
    p->len += tx->pad_len;
    return true;
}

static bool hand_flush(struct datagram_link *link)
{
    struct hand_datagrams *l = of(link);
    l->flush_count++;
    if (!l->is_stuck) {
        l->room = l->room_per_flush;
    }
    return !l->is_stuck;
}

static void hand_look_around(struct datagram_link *link)
{
}

static unsigned hand_poll(struct datagram_link *link, instant_ns now)
{
    struct hand_datagrams *l = of(link);
    const unsigned said = l->said | (l->in_count > 0 ? DATAGRAM_READY_IN : 0);
    l->said = 0;
    return said;
}

static unsigned hand_receive(struct datagram_link *link, struct datagram_rx *ret, unsigned max,
                             instant_ns now)
{
    struct hand_datagrams *l = of(link);
    const unsigned count = l->in_count < max ? l->in_count : max;
    memcpy(ret, l->in, count * sizeof ret[0]);
    l->in_count -= count;
    memmove(l->in, l->in + count, l->in_count * sizeof l->in[0]);
    return count;
}

static bool hand_hand_on(struct datagram_link *link, const struct datagram_rx *rx, unsigned slot)
{
    const struct in6_addr number = {.s6_addr = {[15] = (uint8_t)slot}};
    note(of(link), slot == DATAGRAM_SLOT_ALL ? "hand on to all" : "hand on", &number, 0);
    return of(link)->is_handed_on;
}

static uint64_t hand_receive_buffer_len(const struct datagram_link *link)
{
    return BUFFER_LEN;
}

static instant_ns hand_next_deadline(struct datagram_link *link)
{
    return INSTANT_NEVER;
}

static bool hand_may_wait(struct datagram_link *link)
{
    return true;
}

static void hand_wait(struct datagram_link *link, duration_ns timeout_ns)
{
}

static void hand_wake(struct datagram_link *link)
{
}

static void hand_counters(const struct datagram_link *link, counter_each each, void *ctx)
{
    each(ctx, "hand_flushes", of(link)->flush_count);
}

static void hand_abandon(struct datagram_link *link)
{
    of(link)->is_abandoned = true;
}

static void hand_destroy(struct datagram_link *link)
{
    of(link)->is_destroyed = true;
}

static const struct datagram_link_ops ops = {
    .name = "hand",
    .open = hand_open,
    .close = hand_close,
    .route = hand_route,
    .len_max = hand_len_max,
    .join = hand_join,
    .leave = hand_leave,
    .has_room = hand_has_room,
    .serve = hand_serve,
    .unserve = hand_unserve,
    .is_served = hand_is_served,
    .bequeath = hand_bequeath,
    .revoke = hand_revoke,
    .put = hand_put,
    .flush = hand_flush,
    .look_around = hand_look_around,
    .poll = hand_poll,
    .receive = hand_receive,
    .hand_on = hand_hand_on,
    .receive_buffer_len = hand_receive_buffer_len,
    .next_deadline = hand_next_deadline,
    .may_wait = hand_may_wait,
    .wait = hand_wait,
    .wake = hand_wake,
    .counters = hand_counters,
    .abandon = hand_abandon,
    .destroy = hand_destroy,
};

struct hand_datagrams *hand_datagrams_begin(void)
{
    static struct hand_datagrams hand;
    hand = (struct hand_datagrams){.base = {.ops = &ops},
                                   .room = HAND_PACKET_MAX,
                                   .room_per_flush = HAND_PACKET_MAX,
                                   .is_handed_on = true};
    datagram_slot_take(&hand.base, SLOT);
    return &hand;
}
