// The port of a device whose queue pairs are carried by packets: its addresses, as who asks finds
// them, and who is told when they are others.

#include "base/list.h"
#include "base/port_datagram.h"
#include "rnic/internal.h"
#include "rnic/rnic.h"

// That of a device of streams never changes. Who is told something holds the lock already.
struct rnic_port rnic_port(struct rnic *rnic)
{
    if (rnic->shard.packets.link == NULL || shard_is_held(&rnic->shard)) {
        return rnic->port;
    }
    rnic_enter(rnic);
    const struct rnic_port port = rnic->port;
    rnic_leave(rnic, 0);
    return port;
}

int rnic_port_find(const struct rnic_port *port, const struct in6_addr *addr)
{
    for (unsigned i = 0; i < port->addr_count; i++) {
        if (rnic_addr_is_set(&port->addrs[i]) && IN6_ARE_ADDR_EQUAL(&port->addrs[i].addr, addr)) {
            return (int)i;
        }
    }
    return -1;
}

void rnic_port_watch(struct rnic *rnic, struct rnic_port_watch *watch)
{
    rnic_enter(rnic);
    list_push_tail(&rnic->port_watches, &watch->link);
    rnic_leave(rnic, 0);
}

void rnic_port_unwatch(struct rnic *rnic, struct rnic_port_watch *watch)
{
    rnic_enter(rnic);
    list_remove(&watch->link);
    rnic_leave(rnic, 0);
}

uint8_t rnic_hop_limit(const struct rnic *rnic, const struct in6_addr *remote)
{
    enum { OF_STREAMS = 64 }; // what paths of the connection manager say, which carry no packet
    const struct datagram_link *link = rnic->shard.packets.link;
    return link == NULL ? OF_STREAMS
                        : datagram_hop_limit(link, &(struct datagram_path){.remote = *remote});
}
