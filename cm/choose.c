// Which device an id uses, and what it shows of it. Connections take streams, unless there is none
// (WEFT_WIRE=roce): then packets. Datagrams take packets, where the address is one of that
// device's: elsewhere they meet their refusal where an iWARP device gives it.

#include <string.h>

#include "cm/cm.h"

static bool has_address(const struct cm_device *d, const struct sockaddr *addr)
{
    const struct rnic_port *port = rnic_port(d->rnic);
    const struct in6_addr octets = cm_addr_octets(addr);
    for (unsigned i = 0; i < port->addr_count; i++) {
        if (IN6_ARE_ADDR_EQUAL(&port->addrs[i].addr, &octets)) {
            return true;
        }
    }
    return false;
}

static const struct cm_device *device_for_datagrams(const struct sockaddr *local)
{
    const struct cm_device *d = cm_device_open(DEVICE_WIRE_ROCE);
    bool fits = d != NULL && (local == NULL || cm_addr_is_any(local) || has_address(d, local));
    return fits ? d : NULL;
}

const struct cm_device *cm_device_choose(struct cm_id *c, const struct sockaddr *local)
{
    if (c->device == NULL && c->id.qp_type == IBV_QPT_UD) {
        c->device = device_for_datagrams(local);
    }
    if (c->device == NULL) {
        c->device = cm_device_open(DEVICE_WIRE_IWARP);
    }
    if (c->device == NULL) {
        c->device = cm_device_open(DEVICE_WIRE_ROCE);
    }
    return c->device;
}

const struct cm_device *cm_device_of(struct cm_id *c)
{
    return cm_device_choose(c, NULL);
}

int cm_device_route(struct cm_id *c, const struct sockaddr *dst, struct sockaddr_storage *ret_src)
{
    if (c->device == NULL && c->id.qp_type == IBV_QPT_UD) {
        const struct cm_device *d = device_for_datagrams(NULL);
        if (d != NULL && rnic_route(d->rnic, dst, ret_src) == 0 &&
            cm_device_choose(c, (const struct sockaddr *)ret_src) == d) {
            return 0;
        }
    }
    const struct cm_device *d = cm_device_of(c);
    return d != NULL ? cm_result(rnic_route(d->rnic, dst, ret_src)) : -1;
}

int cm_id_use_device(struct cm_id *c)
{
    const struct cm_device *device = cm_device_of(c);
    if (device == NULL) {
        return -1;
    }
    if (c->id.verbs == NULL) {
        c->id.verbs = device->verbs;
        c->id.pd = device->pd;
        c->id.port_num = 1;
        c->id.route.addr.addr.ibaddr.pkey = 0xffff; // the only one there is
        ibv_query_gid(device->verbs, 1, 0, &c->id.route.addr.addr.ibaddr.sgid);
    }
    return 0;
}

void cm_id_show_addresses(struct cm_id *c)
{
    struct sockaddr_storage addr;
    if (c->device->way->local_addr(c, &addr) == 0) {
        cm_addr_copy(&c->id.route.addr.src_storage, (const struct sockaddr *)&addr);
    }
    if (c->device->way->peer_addr(c, &addr) == 0) {
        cm_addr_copy(&c->id.route.addr.dst_storage, (const struct sockaddr *)&addr);
    }
}
