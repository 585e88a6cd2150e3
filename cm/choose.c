// Which device an id uses, and what it shows of it. Connections take streams, unless there is none
// (WEFT_WIRE=roce): then packets. Who listens on streams listens on packets too, where the address
// is one of that device's. Datagrams take packets, where it is or stands for that device: elsewhere
// they meet their refusal where an iWARP device gives it.

#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"

static bool has_address(const struct cm_device *d, const struct sockaddr *addr)
{
    const struct rnic_port port = rnic_port(d->rnic);
    const struct in6_addr octets = sockaddr_octets(addr);
    return rnic_port_find(&port, &octets) >= 0;
}

// To Linux's rdma_cm a loopback address is that of no net, and stands for the devices there are. So
// it is here where packets come to the device's own addresses alone.
static bool stands_for_device(const struct cm_device *d, const struct sockaddr *addr)
{
    return sockaddr_is_loopback(addr) && d->way->has_own_addresses && !has_address(d, addr);
}

static const struct cm_device *device_for_datagrams(const struct sockaddr *local)
{
    const struct cm_device *d = cm_device_open(DEVICE_WIRE_ROCE);
    bool fits = d != NULL && (local == NULL || sockaddr_is_any(local) || has_address(d, local) ||
                              stands_for_device(d, local));
    return fits ? d : NULL;
}

// All devices have the same first address, and loopback ones only where that is one.
static bool has_loopback(const struct cm_device *d)
{
    union ibv_gid gid;
    struct in6_addr octets;
    if (ibv_query_gid(d->verbs, 1, 0, &gid) != 0) {
        return false;
    }
    memcpy(&octets, gid.raw, sizeof octets);
    return gid_octets_are_loopback(&octets);
}

// What stands for a device on this wire is one of this host alone on the other. For such an address
// the device is not even opened: a server for its own host needs no descriptors for it.
const struct cm_device *cm_device_beside(const struct cm_id *c, const struct sockaddr *local)
{
    if (!c->device->way->listens_beside || c->is_tied ||
        (sockaddr_is_loopback(local) && !has_loopback(c->device))) {
        return NULL;
    }
    const struct cm_device *d = cm_device_try(DEVICE_WIRE_ROCE);
    return d != NULL && (sockaddr_is_any(local) || has_address(d, local)) ? d : NULL;
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

void cm_device_local(const struct cm_device *device, struct sockaddr_storage *addr)
{
    if (stands_for_device(device, (const struct sockaddr *)addr)) {
        const struct sockaddr_storage any = {.ss_family = addr->ss_family};
        const in_port_t port = sockaddr_port((const struct sockaddr *)addr);
        *addr = any;
        sockaddr_set_port((struct sockaddr *)addr, port);
    }
}

// Who asks for no address asks for this host, as with TCP, and to rdma_cm for the device.
static bool leads_back(const struct cm_device *d, const struct sockaddr *dst)
{
    return (sockaddr_is_any(dst) && d->way->has_own_addresses) || stands_for_device(d, dst);
}

static int route_by(const struct cm_device *d, struct sockaddr_storage *dst,
                    struct sockaddr_storage *ret_src)
{
    const struct rnic_port port = rnic_port(d->rnic);
    bool is_own = leads_back(d, (const struct sockaddr *)dst);
    for (unsigned i = 0; is_own && i < port.addr_count; i++) {
        const struct sockaddr_storage own =
            sockaddr_of_octets(&port.addrs[i].addr, sockaddr_port((const struct sockaddr *)dst));
        if (rnic_addr_is_set(&port.addrs[i]) && own.ss_family == dst->ss_family) {
            *dst = own;
            break;
        }
    }
    return rnic_route(d->rnic, (const struct sockaddr *)dst, ret_src);
}

int cm_device_route(struct cm_id *c, struct sockaddr_storage *dst, struct sockaddr_storage *ret_src)
{
    if (c->device == NULL && c->id.qp_type == IBV_QPT_UD) {
        const struct cm_device *d = device_for_datagrams(NULL);
        if (d != NULL && route_by(d, dst, ret_src) == 0 &&
            cm_device_choose(c, (const struct sockaddr *)ret_src) == d) {
            return 0;
        }
    }
    const struct cm_device *d = cm_device_of(c);
    return d != NULL ? cm_result(route_by(d, dst, ret_src)) : -1;
}

// That of its own address, where it has one that is the device's.
static int gid_index_of(const struct cm_id *c)
{
    const struct in6_addr local = sockaddr_octets(&c->id.route.addr.src_addr);
    const struct rnic_port port = rnic_port(c->device->rnic);
    const int index = rnic_port_find(&port, &local);
    return index >= 0 ? index : 0;
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
        ibv_query_gid(device->verbs, 1, gid_index_of(c), &c->id.route.addr.addr.ibaddr.sgid);
    }
    if (c->id.route.addr.dst_addr.sa_family != AF_UNSPEC) {
        const struct in6_addr peer = sockaddr_octets(&c->id.route.addr.dst_addr);
        memcpy(&c->id.route.addr.addr.ibaddr.dgid, &peer, sizeof peer);
    }
    return 0;
}

static struct ibv_sa_path_rec path_of(const struct cm_id *c, const struct ibv_port_attr *port)
{
    enum { EXACTLY = 2, PACKET_LIFETIME = 16 }; // 268 ms, as Linux has it on RoCE
    const struct rdma_ib_addr *addr = &c->id.route.addr.addr.ibaddr;
    const struct in6_addr peer = sockaddr_octets(&c->id.route.addr.dst_addr);
    return (struct ibv_sa_path_rec){
        .dgid = addr->dgid,
        .sgid = addr->sgid,
        .hop_limit = rnic_hop_limit(c->device->rnic, &peer),
        .traffic_class = c->options.has_tos ? c->options.tos : 0,
        .reversible = 1,
        .numb_path = 1,
        .pkey = addr->pkey,
        .mtu_selector = EXACTLY,
        .mtu = (uint8_t)port->active_mtu,
        .rate_selector = EXACTLY,
        .rate = IBV_RATE_100_GBPS, // four lanes of 25 Gbit/s
        .packet_life_time_selector = EXACTLY,
        .packet_life_time = PACKET_LIFETIME,
    };
}

int cm_id_show_path(struct cm_id *c)
{
    struct ibv_port_attr port;
    if (!c->device->way->has_path_records || c->id.route.path_rec != NULL) {
        return 0;
    }
    const int error = ibv_query_port(c->device->verbs, c->id.port_num, &port);
    if (error != 0) {
        return cm_fail(error);
    }
    c->id.route.path_rec = malloc(sizeof *c->id.route.path_rec);
    if (c->id.route.path_rec == NULL) {
        return cm_fail(ENOMEM);
    }
    *c->id.route.path_rec = path_of(c, &port);
    c->id.route.num_paths = 1;
    return 0;
}

void cm_id_show_addresses(struct cm_id *c)
{
    struct sockaddr_storage addr;
    if (c->device->way->local_addr(c, &addr) == 0) {
        c->id.route.addr.src_storage = sockaddr_unmapped((const struct sockaddr *)&addr);
    }
    if (c->device->way->peer_addr(c, &addr) == 0) {
        c->id.route.addr.dst_storage = sockaddr_unmapped((const struct sockaddr *)&addr);
    }
}
