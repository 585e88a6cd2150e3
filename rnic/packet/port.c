// The addresses that packets leave from and come to: those of the host, which come and go while the
// device is open.

#include <errno.h>
#include <netinet/in.h>

#include "base/check.h"
#include "base/list.h"
#include "base/port_datagram.h"
#include "rnic/internal.h"
#include "rnic/packet/group.h"
#include "rnic/packet/packet.h"
#include "rnic/shard.h"

static int open_one(struct shard *shard, const struct rnic_addr *a)
{
    return datagram_open(shard->packets.link, &a->addr, a->scope_id);
}

// The first is what programs take who choose none: without it there is no device. One behind it
// that cannot be had is left out: it has gone meanwhile, or is somebody else's.
int packet_port_open(struct shard *shard, const struct rnic_port *port)
{
    struct rnic_port *own = &shard->rnic->port;
    *own = (struct rnic_port){.path_mtu = port->path_mtu, .follow = port->follow};
    int error = port->addr_count > 0 ? open_one(shard, &port->addrs[0]) : -EADDRNOTAVAIL;
    if (error != 0) {
        return error;
    }
    own->addrs[own->addr_count++] = port->addrs[0];
    for (unsigned i = 1; i < port->addr_count; i++) {
        if (open_one(shard, &port->addrs[i]) == 0) {
            own->addrs[own->addr_count++] = port->addrs[i];
        }
    }
    return 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

static bool is_same(const struct rnic_addr *a, const struct rnic_addr *b)
{
    return IN6_ARE_ADDR_EQUAL(&a->addr, &b->addr) && a->scope_id == b->scope_id;
}

static bool is_same_port(const struct rnic_port *a, const struct rnic_port *b)
{
    bool is_same_so_far = a->addr_count == b->addr_count;
    for (unsigned i = 0; is_same_so_far && i < a->addr_count; i++) {
        is_same_so_far = is_same(&a->addrs[i], &b->addrs[i]);
    }
    return is_same_so_far;
}

static void close_gone(struct shard *shard, const struct rnic_port *next)
{
    const struct rnic_port *own = &shard->rnic->port;
    for (unsigned i = 0; i < RNIC_ADDR_MAX; i++) {
        const struct rnic_addr *a = &own->addrs[i];
        if (rnic_addr_is_set(a) && !is_same(a, &next->addrs[i])) {
            datagram_close(shard->packets.link, &a->addr, a->scope_id);
        }
    }
}

// One that cannot be had is none: IPv6's may be tried for duplicates still, and the host tells
// again when that is over.
static void open_new(struct shard *shard, struct rnic_port *next)
{
    const struct rnic_port *own = &shard->rnic->port;
    for (unsigned i = 0; i < RNIC_ADDR_MAX; i++) {
        struct rnic_addr *a = &next->addrs[i];
        if (rnic_addr_is_set(a) && !is_same(a, &own->addrs[i]) && open_one(shard, a) != 0) {
            *a = (struct rnic_addr){.scope_id = 0};
        }
    }
    while (next->addr_count > 1 && !rnic_addr_is_set(&next->addrs[next->addr_count - 1])) {
        next->addr_count--;
    }
}

void packet_port_follow(struct shard *shard)
{
    struct rnic *rnic = shard->rnic;
    const struct rnic_port before = rnic->port;
    struct rnic_port next = before;
    CHECK(shard_is_held(shard));
    if (before.follow == NULL) {
        return;
    }
    before.follow(&next);
    if (is_same_port(&before, &next)) {
        return;
    }
    packet_groups_leave(rnic);
    close_gone(shard, &next);
    open_new(shard, &next);
    rnic->port = next;
    packet_groups_join(rnic);
    if (is_same_port(&before, &next)) {
        return;
    }
    for (struct list_link *l = rnic->port_watches.next; l != &rnic->port_watches; l = l->next) {
        const struct rnic_port_watch *watch = LIST_ENTRY(l, struct rnic_port_watch, link);
        watch->on_change(watch->ctx);
    }
}
