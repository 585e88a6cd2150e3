// The addresses of a device of packets: those of the host, as they are when it is opened, and as
// they come and go.

#include <net/if.h>
#include <string.h>

#include "base/device_wire.h"
#include "base/sockaddr.h"
#include "verbs/front.h"
#include "view/address.h"

STATIC_CHECK((int)VIEW_ADDRESS_MAX <= (int)RNIC_ADDR_MAX);

static struct rnic_addr addr_of(const struct view_address *a)
{
    return (struct rnic_addr){
        .addr = a->addr, .scope_id = a->scope_id, .interface = if_nametoindex(a->interface)};
}

/* ---- coming and going ------------------------------------------------------------------------ */

// False: that cannot be found out.
static bool drop_gone(struct rnic_port *port)
{
    struct view_address all[RNIC_ADDR_MAX];
    for (unsigned i = 0; i < port->addr_count; i++) {
        all[i] = (struct view_address){.addr = port->addrs[i].addr};
    }
    if (!view_addresses_look(all, port->addr_count)) {
        return false;
    }
    for (unsigned i = 0; i < port->addr_count; i++) {
        port->addrs[i] =
            all[i].interface[0] != '\0' ? addr_of(&all[i]) : (struct rnic_addr){.scope_id = 0};
    }
    return true;
}

// To the first place that is empty.
static void add(struct rnic_port *port, const struct rnic_addr *addr)
{
    unsigned i = 0;
    while (i < port->addr_count && rnic_addr_is_set(&port->addrs[i])) {
        i++;
    }
    if (i < RNIC_ADDR_MAX) {
        port->addrs[i] = *addr;
        port->addr_count = i < port->addr_count ? port->addr_count : i + 1;
    }
}

// The host's own, where there are no others, are those of a device that was opened then: a host may
// be without any for a moment.
// Of an interface with shorter packets than the port's nothing is taken, as at the beginning.
static void add_new(struct rnic_port *port, const struct identity *identity)
{
    struct view_address all[VIEW_ADDRESS_MAX];
    const unsigned count = view_addresses_find(identity, all);
    for (unsigned i = 0; i < count; i++) {
        const unsigned mtu = view_interface_mtu(all[i].interface);
        const struct rnic_addr addr = addr_of(&all[i]);
        if (rnic_port_find(port, &addr.addr) < 0 && !gid_octets_are_loopback(&addr.addr) &&
            FRONT_MTU_LEN(identity_active_mtu(identity, mtu)) >= port->path_mtu) {
            add(port, &addr);
        }
    }
}

static void follow(struct rnic_port *port)
{
    if (drop_gone(port)) {
        add_new(port, identity_of(DEVICE_WIRE_ROCE));
    }
}

/* ---- the beginning --------------------------------------------------------------------------- */

struct rnic_port front_port_find(const struct identity *identity)
{
    struct view_address all[VIEW_ADDRESS_MAX];
    struct rnic_port port = {.addr_count = view_addresses_find(identity, all), .follow = follow};
    const enum ibv_mtu mtu = identity_active_mtu(identity, view_interface_mtu(all[0].interface));
    port.path_mtu = FRONT_MTU_LEN(mtu);
    for (unsigned i = 0; i < port.addr_count; i++) {
        port.addrs[i] = addr_of(&all[i]);
    }
    return port;
}
