// How ids connect where packets carry queue pairs: by InfiniBand's connection manager. A port is
// held by a socket of the system's, so that two programs of a host cannot have the same one. Those
// of connections are not TCP's: valkey listens at one number on both.

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/wildcard.h"
#include "cm/cm.h"
#include "descriptor/descriptor.h"

struct cm_packet {
    const struct cm_device *device;
    struct rnic_conn *conn; // NULL until it listens or connects
    int port_fd;            // -1: none
    struct sockaddr_storage local, peer;
};

static const enum rdma_cm_event_type program_types[IBCM_EVENT_COUNT] = {
    [IBCM_EVENT_CONNECT_REQUEST] = RDMA_CM_EVENT_CONNECT_REQUEST,
    [IBCM_EVENT_CONNECT_RESPONSE] = RDMA_CM_EVENT_CONNECT_RESPONSE,
    [IBCM_EVENT_ESTABLISHED] = RDMA_CM_EVENT_ESTABLISHED,
    [IBCM_EVENT_REJECTED] = RDMA_CM_EVENT_REJECTED,
    [IBCM_EVENT_UNREACHABLE] = RDMA_CM_EVENT_UNREACHABLE,
    [IBCM_EVENT_DISCONNECTED] = RDMA_CM_EVENT_DISCONNECTED,
    [IBCM_EVENT_TIMEWAIT_EXIT] = RDMA_CM_EVENT_TIMEWAIT_EXIT,
};

static struct cm_packet *packet_new(const struct cm_device *device)
{
    struct cm_packet *packet = calloc(1, sizeof *packet);
    if (packet != NULL) {
        packet->device = device;
        packet->port_fd = -1;
    }
    return packet;
}

static enum ip_cm_port_space port_space(const struct cm_id *c)
{
    if (c->id.ps == RDMA_PS_IB) {
        return IP_CM_PS_IB;
    }
    return c->id.qp_type == IBV_QPT_UD ? IP_CM_PS_UDP : IP_CM_PS_TCP;
}

/* ---- events ---------------------------------------------------------------------------------- */

static uint8_t keep_data(struct cm_event *event, struct span data)
{
    memcpy(event->private_data, data.ptr, data.len);
    return (uint8_t)data.len;
}

static void copy_conn(struct cm_event *event, const struct ibcm_event *e)
{
    struct rdma_conn_param *param = &event->event.param.conn;
    param->private_data_len = keep_data(event, e->private_data);
    param->private_data = param->private_data_len > 0 ? event->private_data : NULL;
    param->responder_resources = e->peer->initiator_depth;
    param->initiator_depth = e->peer->responder_resources;
    param->flow_control = e->peer->has_flow_control;
    param->retry_count = e->peer->retry_count;
    param->rnr_retry_count = e->peer->rnr_retry_count;
    param->srq = e->peer->has_srq;
    param->qp_num = e->peer->qp_num;
}

// To the other end of a connection, from the GID of this one.
static struct ibv_ah_attr ah_attr_to(const struct cm_id *c, const struct ibcm_ends *ends)
{
    const struct rnic_port port = rnic_port(c->device->rnic);
    const int gid_index = rnic_port_find(&port, &ends->local);
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
    attr.grh.sgid_index = gid_index > 0 ? (uint8_t)gid_index : 0;
    memcpy(&attr.grh.dgid, &ends->remote, sizeof attr.grh.dgid);
    return attr;
}

static void copy_datagram(const struct cm_id *c, struct cm_event *event, const struct ibcm_event *e)
{
    struct rdma_ud_param *param = &event->event.param.ud;
    param->private_data_len = keep_data(event, e->private_data);
    param->private_data = param->private_data_len > 0 ? event->private_data : NULL;
    param->qp_num = e->peer->qp_num;
    param->qkey = e->peer->qkey;
    param->ah_attr = ah_attr_to(c, &e->ends);
    param->ah_attr.grh.hop_limit = rnic_hop_limit(c->device->rnic, &e->ends.remote);
}

// A refused datagram service is an address that cannot be reached, with SIDR's status.
static enum rdma_cm_event_type type_of(const struct rnic_conn_event *event)
{
    const struct ibcm_event *e = event->what;
    const bool is_unserved = e->is_datagram && e->type == IBCM_EVENT_REJECTED;
    return event->error != 0 ? RDMA_CM_EVENT_CONNECT_ERROR
           : is_unserved     ? RDMA_CM_EVENT_UNREACHABLE
                             : program_types[e->type];
}

// As cma_ib_handler of Linux (cma.c) has it, and of CONNECT_ERROR librdmacm.
static int status_of(const struct rnic_conn_event *event)
{
    const struct ibcm_event *e = event->what;
    const bool is_end = e->type == IBCM_EVENT_UNREACHABLE || e->type == IBCM_EVENT_DISCONNECTED;
    if (event->error != 0) {
        return event->error;
    }
    if (e->type == IBCM_EVENT_REJECTED) {
        return (int)e->reason;
    }
    return is_end && e->is_silent ? -ETIMEDOUT : 0;
}

static void on_event(void *ctx, const struct rnic_conn_event *from);

// Without memory the connection is let go, and refused.
static void adopt(struct cm_id *c, const void *from)
{
    const struct rnic_conn_event *event = from;
    const struct ibcm_event *e = event->what;
    c->device = c->listener->packet->device;
    c->packet = packet_new(c->device);
    if (c->packet == NULL) {
        return;
    }
    c->packet->conn = event->new_conn;
    c->packet->local = sockaddr_of_octets(&e->ends.local, htons(e->port));
    c->packet->peer = sockaddr_of_octets(&e->ends.remote, htons(e->peer->source_port));
    *event->new_conn_port = (struct rnic_conn_port){.on_event = on_event, .ctx = c};
}

// A connection's port; `ctx` is the id.
static void on_event(void *ctx, const struct rnic_conn_event *from)
{
    struct cm_id *c = ctx;
    const struct ibcm_event *e = from->what;
    if (!cm_id_is_alive(c)) {
        return;
    }
    struct cm_event *event = cm_event_new(c, type_of(from), status_of(from));
    if (event == NULL) {
        return;
    }
    if (e->is_datagram) {
        copy_datagram(c, event, e);
    } else {
        copy_conn(event, e);
    }
    cm_event_tell(c, event, adopt, from);
}

/* ---- addresses ------------------------------------------------------------------------------- */

// UDP-Lite has ports of its own, and hardly anybody uses them. A system without it (Linux gives it
// up) has TCP's taken.
static int port_socket(const struct cm_id *c, int family)
{
    if (c->id.qp_type == IBV_QPT_UD) {
        return descriptor_of_socket(family, SOCK_DGRAM, 0);
    }
    const int fd = descriptor_of_socket(family, SOCK_DGRAM, IPPROTO_UDPLITE);
    return fd >= 0 ? fd : descriptor_of_socket(family, SOCK_STREAM, 0);
}

// What holds the port may be connections that have ended (TIME-WAIT), which may be replaced; who is
// bound, or listens, has not said so.
static int port_bind(int fd, const struct sockaddr *addr, int reuse)
{
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    if (bind(fd, addr, sockaddr_len(addr)) == 0) {
        return 0;
    }
    if (errno != EADDRINUSE) {
        return -errno;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const int error = bind(fd, addr, sockaddr_len(addr)) == 0 ? 0 : -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    return error;
}

// The device's addresses are the host's, or those of an interface that it has for itself, of which
// the kernel knows nothing.
static void port_allow(int fd, const struct cm_device *device, const struct sockaddr *addr)
{
    const struct rnic_port port = rnic_port(device->rnic);
    const struct in6_addr octets = sockaddr_octets(addr);
    const int yes = 1;
    if (rnic_port_find(&port, &octets) >= 0) {
        setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &yes, sizeof yes); // of both families
    }
}

static int port_hold(struct cm_id *c, const struct cm_device *device, const struct sockaddr *addr,
                     int *ret_fd)
{
    const int reuse = c->options.reuse_addr, only = c->options.v6_only;
    const int fd = port_socket(c, addr->sa_family);
    if (fd < 0) {
        return -errno;
    }
    if (addr->sa_family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    }
    port_allow(fd, device, addr);
    const int error = port_bind(fd, addr, reuse);
    if (error != 0) {
        close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

static int port_take(struct cm_id *c, const struct cm_device *device, struct cm_packet *packet,
                     const struct sockaddr *addr)
{
    int error = port_hold(c, device, addr, &packet->port_fd);
    if (error == 0) {
        socklen_t len = sizeof packet->local;
        getsockname(packet->port_fd, (struct sockaddr *)&packet->local, &len);
    }
    return error;
}

// Connecting, a port is only shown: nobody connects to it. Who has it on streams has it here too.
static int bind_packet(struct cm_id *c, const struct cm_device *device, const struct sockaddr *addr)
{
    struct cm_packet *packet = packet_new(device);
    if (packet == NULL) {
        return -ENOMEM;
    }
    if (addr != NULL && c->ep != NULL) {
        packet->local = sockaddr_unmapped(addr);
    } else if (addr != NULL) {
        int error = port_take(c, device, packet, addr);
        if (error != 0) {
            free(packet);
            return error;
        }
    }
    c->packet = packet;
    return 0;
}

// Who has none is given one that is free, as it connects: shown and not held, since to hold it
// would cost each connection a descriptor.
static int port_show(struct cm_id *c)
{
    struct sockaddr_storage *shown = &c->id.route.addr.src_storage, own;
    socklen_t len = sizeof own;
    int fd;
    if (sockaddr_port((const struct sockaddr *)shown) != 0) {
        return 0;
    }
    int error = port_hold(c, c->device, (const struct sockaddr *)shown, &fd);
    if (error == 0) {
        getsockname(fd, (struct sockaddr *)&own, &len);
        sockaddr_set_port((struct sockaddr *)shown, sockaddr_port((const struct sockaddr *)&own));
        close(fd);
    }
    return error;
}

static int local_addr(struct cm_id *c, struct sockaddr_storage *ret)
{
    *ret = c->packet->local;
    return ret->ss_family != AF_UNSPEC ? 0 : -EINVAL;
}

static int peer_addr(struct cm_id *c, struct sockaddr_storage *ret)
{
    *ret = c->packet->peer;
    return ret->ss_family != AF_UNSPEC ? 0 : -ENOTCONN;
}

/* ---- calls ----------------------------------------------------------------------------------- */

// As of sockets: no IPv6 for who is bound to 0.0.0.0, and IPv4 for who is bound to ::, unless it
// has said that it is for its own family alone.
static struct in6_addr listening_place(const struct cm_id *c, const struct sockaddr *local)
{
    if (!sockaddr_is_any(local)) {
        return sockaddr_octets(local);
    }
    if (local->sa_family == AF_INET) {
        return wildcard_of_ipv4();
    }
    return c->options.v6_only ? wildcard_of_ipv6() : wildcard_of_both();
}

static int listen_packet(struct cm_id *c, int backlog)
{
    const struct sockaddr *local = (const struct sockaddr *)&c->packet->local;
    const struct in6_addr octets = listening_place(c, local);
    const struct rnic_conn_port events = {.on_event = on_event, .ctx = c};
    return rnic_conn_listen(c->packet->device->rnic, port_space(c), ntohs(sockaddr_port(local)),
                            &octets, backlog, &events, &c->packet->conn);
}

static struct ibcm_params params_of(const struct cm_id *c, const struct cm_params *params)
{
    return (struct ibcm_params){
        .qp_num = params->qp_num,
        .qkey = IP_CM_QKEY,
        .responder_resources = params->responder_resources,
        .initiator_depth = params->initiator_depth,
        .retry_count = params->retry_count,
        .rnr_retry_count = params->rnr_retry_count,
        .has_flow_control = params->has_flow_control,
        .has_srq = params->has_srq,
        .ack_timeout = c->options.has_ack_timeout ? c->options.ack_timeout : 0,
        .traffic_class = c->options.has_tos ? c->options.tos : 0,
        .private_data = span_of(params->data, params->data_len),
    };
}

static int connect_packet(struct cm_id *c, struct rnic_qp *qp, const struct cm_params *params)
{
    const struct rdma_addr *addr = &c->id.route.addr;
    const struct rnic_conn_port events = {.on_event = on_event, .ctx = c};
    const struct ibcm_params said = params_of(c, params);
    const int error = port_show(c);
    if (error != 0) {
        return error;
    }
    const struct ibcm_target target = {
        .ends = {.local = sockaddr_octets(&addr->src_addr),
                 .remote = sockaddr_octets(&addr->dst_addr)},
        .ps = port_space(c),
        .port = ntohs(sockaddr_port(&addr->dst_addr)),
        .source_port = ntohs(sockaddr_port(&addr->src_addr)),
    };
    if (c->id.qp_type == IBV_QPT_UD) {
        return rnic_conn_resolve(c->device->rnic, &target, said.private_data, &events,
                                 &c->packet->conn);
    }
    return rnic_conn_connect(c->device->rnic, &target, qp, &said, &events, &c->packet->conn);
}

/* ---- queue pairs of the program's own -------------------------------------------------------- */

static int attr_to_receive(const struct cm_id *c, struct ibv_qp_attr *attr,
                           const struct ibcm_agreement *a, const struct ibcm_ends *ends)
{
    attr->path_mtu = (enum ibv_mtu)a->path_mtu;
    attr->dest_qp_num = a->dest_qp_num;
    attr->rq_psn = a->rq_psn;
    attr->max_dest_rd_atomic = a->max_dest_rd_atomic;
    attr->min_rnr_timer = RNIC_CONN_MIN_RNR_TIMER;
    attr->ah_attr = ah_attr_to(c, ends);
    attr->ah_attr.grh.flow_label = a->flow_label;
    attr->ah_attr.grh.hop_limit =
        a->hop_limit != 0 ? a->hop_limit : rnic_hop_limit(c->device->rnic, &ends->remote);
    attr->ah_attr.grh.traffic_class = a->traffic_class;
    return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static int attr_to_send(struct ibv_qp_attr *attr, const struct ibcm_agreement *a)
{
    attr->sq_psn = a->sq_psn;
    attr->max_rd_atomic = a->max_rd_atomic;
    attr->timeout = a->ack_timeout;
    attr->retry_cnt = a->retry_count;
    attr->rnr_retry = a->rnr_retry_count;
    return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT |
           IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
}

// As Linux's ib_cm has it (cm_init_qp_rtr_attr and cm_init_qp_rts_attr in cm.c).
static int init_qp_attr(struct cm_id *c, struct ibv_qp_attr *attr, int *ret_mask)
{
    struct ibcm_agreement a;
    struct ibcm_ends ends;
    if (c->packet == NULL || c->packet->conn == NULL) {
        return -EINVAL;
    }
    int error = rnic_conn_agreement(c->packet->conn, &a, &ends);
    if (error == 0) {
        *ret_mask = attr->qp_state == IBV_QPS_RTR ? attr_to_receive(c, attr, &a, &ends)
                                                  : attr_to_send(attr, &a);
    }
    return error;
}

static int establish_packet(struct cm_id *c)
{
    return rnic_conn_establish(c->packet->conn);
}

static int notify_packet(struct cm_id *c)
{
    if (c->packet == NULL || c->packet->conn == NULL) {
        return -EINVAL;
    }
    const int error = rnic_conn_notify(c->packet->conn);
    return error == -ENOTCONN ? -EINVAL : error;
}

// A queue pair that the program has made itself it moves itself too, and whether there is one of
// the number that it says is its own affair (cmtime says none).
static int accept_packet(struct cm_id *c, struct rnic_qp *qp, const struct cm_params *params)
{
    const struct ibcm_params said = params_of(c, params);
    const bool has_own = c->id.qp != NULL;
    if (has_own && qp == NULL) {
        return -EINVAL;
    }
    return rnic_conn_accept(c->packet->conn, has_own ? qp : NULL, &said);
}

static int reject_packet(struct cm_id *c, const void *data, uint16_t data_len, bool for_ece)
{
    const enum ibcm_reason why = for_ece ? IBCM_REASON_VENDOR_OPTION : IBCM_REASON_CONSUMER;
    const unsigned reason =
        c->id.qp_type == IBV_QPT_UD ? (unsigned)IBCM_SIDR_REJECTED : (unsigned)why;
    return rnic_conn_reject(c->packet->conn, reason, span_of(data, data_len));
}

static int disconnect_packet(struct cm_id *c)
{
    if (c->id.qp_type == IBV_QPT_UD) {
        return -EINVAL;
    }
    const bool has_any = c->packet != NULL && c->packet->conn != NULL;
    return has_any ? rnic_conn_disconnect(c->packet->conn) : 0;
}

static void take_end(struct cm_id *c)
{
    rnic_conn_take_end(c->packet->conn);
}

static void destroy_packet(struct cm_id *c)
{
    struct cm_packet *packet = c->packet;
    if (packet == NULL) {
        return;
    }
    if (packet->conn != NULL) {
        rnic_conn_destroy(packet->conn);
    }
    if (packet->port_fd >= 0) {
        close(packet->port_fd);
    }
    c->packet = NULL;
    free(packet);
}

// Taken when it connects; who is asked answers as the peer asked.
static int set_tos(struct cm_id *c, uint8_t tos)
{
    return 0;
}

const struct cm_way cm_packet_way = {
    .has_datagrams = true,
    .has_path_records = true,
    .has_own_addresses = true,
    .ends_by_program = true,
    .bind = bind_packet,
    .listen = listen_packet,
    .init_qp_attr = init_qp_attr,
    .connect = connect_packet,
    .establish = establish_packet,
    .notify = notify_packet,
    .accept = accept_packet,
    .reject = reject_packet,
    .disconnect = disconnect_packet,
    .take_end = take_end,
    .destroy = destroy_packet,
    .set_tos = set_tos,
    .local_addr = local_addr,
    .peer_addr = peer_addr,
};
