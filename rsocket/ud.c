// A local address: its queue pair of datagrams, the places of messages out and in, completions.

#include <netinet/in.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "rsocket/datagram.h"
#include "rsocket/kernel_epoll.h"
#include "rsocket/rsocket.h"

enum { GRH_LEN = 40, RECEIVE_LEN = GRH_LEN + RS_MESSAGE_LEN, RESOLVE_TIMEOUT_MS = 2000 };

enum { PORT_NUM = 1, HOP_LIMIT = 64 };

// wr_id: the place, with this bit for messages in.
static const uint64_t wr_is_receive = 1ULL << 32;

static uint8_t *send_place(const struct rs_ud *ud, unsigned index)
{
    return ud->memory + (size_t)index * RS_MESSAGE_LEN;
}

static uint8_t *receive_place(const struct rs_ud *ud, unsigned index)
{
    return send_place(ud, ud->send_count) + (size_t)index * RECEIVE_LEN;
}

static int receive_post(struct rs_ud *ud, unsigned index)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)receive_place(ud, index), .length = RECEIVE_LEN, .lkey = ud->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_is_receive | index, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;
    int error = ibv_post_recv(ud->id->qp, &wr, &bad);
    return error == 0 ? 0 : rs_fail(error);
}

/* ---- addresses ------------------------------------------------------------------------------- */

// RoCE: the address itself, IPv4 as ::ffff:a.b.c.d.
static union ibv_gid gid_of(const struct sockaddr *addr)
{
    const struct in6_addr octets = sockaddr_octets(addr);
    union ibv_gid gid;
    memcpy(gid.raw, &octets, sizeof gid.raw);
    return gid;
}

// Of the id's address, which need not be the program's: a loopback address stands for the device.
static int gid_index_find(struct rs_ud *ud, const struct ibv_port_attr *port)
{
    const union ibv_gid own = gid_of(rdma_get_local_addr(ud->id));
    for (int i = 0; i < port->gid_tbl_len && i <= UINT8_MAX; i++) {
        union ibv_gid gid;
        if (ibv_query_gid(ud->id->verbs, PORT_NUM, i, &gid) == 0 &&
            memcmp(gid.raw, own.raw, sizeof gid.raw) == 0) {
            ud->sgid_index = (uint8_t)i;
            return 0;
        }
    }
    return rs_fail(EADDRNOTAVAIL);
}

struct ibv_ah *rs_ud_ah_create(const struct rs_ud *ud, const struct sockaddr *peer)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = PORT_NUM};
    struct rdma_cm_id *asked;
    if (rdma_create_id(NULL, &asked, NULL, RDMA_PS_UDP) != 0) {
        return NULL;
    }
    struct sockaddr *to = (struct sockaddr *)(uintptr_t)peer;
    struct ibv_ah *ah = NULL;
    if (rdma_resolve_addr(asked, NULL, to, RESOLVE_TIMEOUT_MS) == 0) {
        attr.grh.dgid = gid_of(rdma_get_peer_addr(asked));
        attr.grh.sgid_index = ud->sgid_index;
        attr.grh.hop_limit = HOP_LIMIT;
        ah = ibv_create_ah(ud->id->pd, &attr);
    }
    int saved = errno;
    rdma_destroy_id(asked);
    errno = saved;
    return ah;
}

/* ---- creation -------------------------------------------------------------------------------- */

static uint16_t count_fit(uint16_t wanted, uint32_t ring_len, int most)
{
    uint32_t count = ring_len / RS_MESSAGE_LEN;
    count = count < wanted ? count : wanted;
    count = count < (uint32_t)most ? count : (uint32_t)most;
    return count > 0 ? (uint16_t)count : 1;
}

static int sizes_fit(struct rs_ud *ud, const struct rs_options *options)
{
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    int error = ibv_query_device(ud->id->verbs, &device);
    error = error == 0 ? ibv_query_port(ud->id->verbs, PORT_NUM, &port) : error;
    if (error != 0) {
        return rs_fail(error);
    }
    ud->send_count = count_fit(options->sq_size, options->send_ring_len, device.max_qp_wr);
    ud->receive_count = count_fit(options->rq_size, options->recv_ring_len, device.max_qp_wr);
    ud->message_max = 128U << port.active_mtu;
    ud->inline_len = options->inline_len;
    return gid_index_find(ud, &port);
}

static int qp_open(struct rs_ud *ud, int epoll_fd)
{
    struct rdma_cm_id *id = ud->id;
    id->recv_cq_channel = id->send_cq_channel = ibv_create_comp_channel(id->verbs);
    if (id->recv_cq_channel == NULL) {
        return -1;
    }
    fcntl(id->recv_cq_channel->fd, F_SETFL, O_NONBLOCK);
    id->recv_cq = id->send_cq =
        ibv_create_cq(id->verbs, ud->send_count + ud->receive_count, ud, id->recv_cq_channel, 0);
    if (id->recv_cq == NULL) {
        return -1;
    }
    struct ibv_qp_init_attr attr = {
        .qp_context = ud,
        .send_cq = id->send_cq,
        .recv_cq = id->recv_cq,
        .qp_type = IBV_QPT_UD,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = ud->send_count,
                .max_recv_wr = ud->receive_count,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = ud->inline_len},
    };
    if (rdma_create_qp(id, NULL, &attr) != 0) {
        return -1;
    }
    ud->inline_len = attr.cap.max_inline_data;
    struct epoll_event event = {.events = EPOLLIN};
    return kernel_epoll_ctl(epoll_fd, EPOLL_CTL_ADD, id->recv_cq_channel->fd, &event);
}

static int memory_open(struct rs_ud *ud)
{
    const size_t len =
        (size_t)ud->send_count * RS_MESSAGE_LEN + (size_t)ud->receive_count * RECEIVE_LEN;
    ud->memory = malloc(len);
    ud->idle = calloc(ud->send_count, sizeof *ud->idle);
    ud->messages = calloc(ud->receive_count, sizeof *ud->messages);
    if (ud->memory == NULL || ud->idle == NULL || ud->messages == NULL) {
        return rs_fail(ENOMEM);
    }
    while (ud->idle_count < ud->send_count) {
        ud->idle[ud->idle_count] = ud->idle_count;
        ud->idle_count++;
    }
    ud->mr = rdma_reg_msgs(ud->id, ud->memory, len);
    return ud->mr != NULL ? 0 : -1;
}

static int receives_post(struct rs_ud *ud)
{
    for (unsigned i = 0; i < ud->receive_count; i++) {
        ud->messages[i].ud = ud;
        if (receive_post(ud, i) != 0) {
            return -1;
        }
    }
    return 0;
}

// As if to send to itself: that finds the device and its address where a loopback address stands
// for them, which binding would not. The port is the UDP socket's.
static int device_find(struct rs_ud *ud, const struct sockaddr *own)
{
    return rdma_resolve_addr(ud->id, NULL, (struct sockaddr *)(uintptr_t)own, RESOLVE_TIMEOUT_MS);
}

struct rs_ud *rs_ud_create(const struct sockaddr *own, const struct rs_options *options,
                           int epoll_fd)
{
    struct rs_ud *ud = calloc(1, sizeof *ud);
    if (ud == NULL) {
        return NULL;
    }
    list_init(&ud->link);
    memcpy(&ud->own, own, sockaddr_len(own));
    ud->header_len = rs_datagram_header_emit(own, ud->header);
    if (rdma_create_id(NULL, &ud->id, ud, RDMA_PS_UDP) != 0) {
        free(ud);
        return NULL;
    }
    if (device_find(ud, own) != 0 || sizes_fit(ud, options) != 0 || qp_open(ud, epoll_fd) != 0 ||
        memory_open(ud) != 0 || receives_post(ud) != 0) {
        int saved = errno;
        rs_ud_destroy(ud);
        errno = saved;
        return NULL;
    }
    return ud;
}

void rs_ud_destroy(struct rs_ud *ud)
{
    list_remove(&ud->link);
    if (ud->id->qp != NULL) {
        rdma_destroy_qp(ud->id);
    } else if (ud->id->recv_cq_channel != NULL) { // opening it failed in between
        ibv_destroy_comp_channel(ud->id->recv_cq_channel);
        ud->id->recv_cq_channel = ud->id->send_cq_channel = NULL;
    }
    if (ud->mr != NULL) {
        ibv_dereg_mr(ud->mr);
    }
    rdma_destroy_id(ud->id);
    free(ud->messages);
    free(ud->idle);
    free(ud->memory);
    free(ud);
}

/* ---- sending --------------------------------------------------------------------------------- */

int rs_ud_send(struct rs_ud *ud, struct ibv_ah *ah, uint32_t qpn, struct rs_source *source)
{
    const uint16_t index = ud->idle[ud->idle_count - 1];
    uint8_t *place = send_place(ud, index);
    struct ibv_sge sge = {.addr = (uintptr_t)place,
                          .length = (uint32_t)(ud->header_len + source->left),
                          .lkey = ud->mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = index,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND,
                                   .wr.ud = {ah, qpn, RDMA_UDP_QKEY}};
    memcpy(place, ud->header, ud->header_len);
    rs_source_copy(source, place + ud->header_len, source->left);
    if (sge.length <= ud->inline_len) {
        wr.send_flags = IBV_SEND_INLINE;
    }
    int error = ibv_post_send(ud->id->qp, &wr, &bad);
    if (error != 0) {
        return rs_fail(error);
    }
    ud->idle_count--;
    return 0;
}

/* ---- completions ----------------------------------------------------------------------------- */

// What is no message of ours is dropped, as what finds no receive is.
static void take_receive(struct rs_ud *ud, const struct ibv_wc *wc, struct list_link *received)
{
    struct rs_message *m = &ud->messages[(uint32_t)wc->wr_id];
    const uint8_t *octets = receive_place(ud, (uint32_t)wc->wr_id) + GRH_LEN;
    size_t header_len = 0;
    if (wc->status == IBV_WC_SUCCESS && wc->byte_len >= GRH_LEN) {
        header_len = rs_datagram_header_parse(octets, wc->byte_len - GRH_LEN, &m->sender);
    }
    if (header_len == 0) {
        receive_post(ud, (uint32_t)wc->wr_id);
        return;
    }
    m->octets = (uint8_t *)(uintptr_t)octets + header_len;
    m->len = wc->byte_len - GRH_LEN - header_len;
    list_push_tail(received, &m->link);
}

struct look {
    struct rs_ud *ud;
    struct list_link *received;
};

static void on_completion(void *ctx, const struct ibv_wc *wc)
{
    const struct look *look = ctx;
    if ((wc->wr_id & wr_is_receive) != 0) {
        take_receive(look->ud, wc, look->received);
    } else {
        look->ud->idle[look->ud->idle_count++] = (uint16_t)wc->wr_id;
    }
}

bool rs_ud_progress(struct rs_ud *ud, struct list_link *received, bool *ret_has_more)
{
    struct look look = {ud, received};
    return rs_look(ud->id->recv_cq, on_completion, &look, ret_has_more) > 0;
}

bool rs_ud_arm(struct rs_ud *ud)
{
    if (ud->is_armed) {
        return false;
    }
    ud->is_armed = ibv_req_notify_cq(ud->id->recv_cq, 0) == 0;
    return ud->is_armed;
}

void rs_ud_take_event(struct rs_ud *ud)
{
    struct ibv_cq *cq;
    void *context;
    if (ud->is_armed && ibv_get_cq_event(ud->id->recv_cq_channel, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        ud->is_armed = false;
    }
}

void rs_ud_give_back(struct rs_ud *ud, struct rs_message *message)
{
    receive_post(ud, (unsigned)(message - ud->messages));
}
