// RDMA: Sends by queue pairs that share a completion queue and a shared receive queue, as programs
// with many connections have them.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/ends.h"
#include "bench/scale.h"

enum {
    RECEIVE_COUNT = 64,
    CQ_LEN = 1024,
    RESOLVE_LIMIT_MS = 10000,
    RETRIES = 7, // RNR: for ever
};

// What all connections of the process share.
static struct {
    struct rdma_event_channel *channel;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_mr *mr;
    uint8_t *memory;
    struct rdma_cm_id **ids; // by the connection's number
} own;

// A request or answer begins with the number of its connection.
static uint8_t *slot(uint64_t number)
{
    return own.memory + number * SCALE_REQUEST_LEN;
}

static void post_receive(uint64_t number)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)slot(number), .length = SCALE_REQUEST_LEN, .lkey = own.mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;
    if (ibv_post_srq_recv(own.srq, &wr, &bad) != 0) {
        bench_fail("ibv_post_srq_recv");
    }
}

static void post_send(struct ibv_qp *qp, const void *message)
{
    struct ibv_sge sge = {.addr = (uintptr_t)message, .length = SCALE_REQUEST_LEN};
    struct ibv_send_wr wr = {.wr_id = RECEIVE_COUNT,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED},
                       *bad;
    if (ibv_post_send(qp, &wr, &bad) != 0) {
        bench_fail("ibv_post_send");
    }
}

// Once, on the device of the first connection.
static void create_shared(struct ibv_context *device)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = RECEIVE_COUNT, .max_sge = 1}};
    own.memory = calloc(RECEIVE_COUNT, SCALE_REQUEST_LEN);
    own.pd = ibv_alloc_pd(device);
    own.cq = ibv_create_cq(device, CQ_LEN, NULL, NULL, 0);
    own.srq = own.pd != NULL ? ibv_create_srq(own.pd, &attr) : NULL;
    own.mr = own.pd != NULL ? ibv_reg_mr(own.pd, own.memory, RECEIVE_COUNT * SCALE_REQUEST_LEN,
                                         IBV_ACCESS_LOCAL_WRITE)
                            : NULL;
    if (own.cq == NULL || own.srq == NULL || own.mr == NULL) {
        bench_fail("what the connections share");
    }
    for (uint64_t i = 0; i < RECEIVE_COUNT; i++) {
        post_receive(i);
    }
}

static void create_qp(struct rdma_cm_id *id)
{
    if (own.pd == NULL) {
        create_shared(id->verbs);
    }
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .send_cq = own.cq,
        .recv_cq = own.cq,
        .srq = own.srq,
        .cap = {.max_send_wr = SCALE_DEPTH,
                .max_send_sge = 1,
                .max_inline_data = SCALE_REQUEST_LEN},
    };
    if (rdma_create_qp(id, own.pd, &attr) != 0) {
        bench_fail("rdma_create_qp");
    }
}

// The next event; the caller acknowledges it.
static struct rdma_cm_event *next_event(void)
{
    struct rdma_cm_event *event;
    if (rdma_get_cm_event(own.channel, &event) != 0) {
        bench_fail("rdma_get_cm_event");
    }
    return event;
}

static void begin(unsigned count)
{
    own.ids = calloc(count, sizeof(struct rdma_cm_id *));
    own.channel = rdma_create_event_channel();
    if (own.ids == NULL || own.channel == NULL) {
        bench_fail("rdma_create_event_channel");
    }
}

// Takes what has come; how many messages. A server sends them back.
static unsigned take_messages(bool is_server)
{
    struct ibv_wc wc[SCALE_DEPTH];
    const int count = ibv_poll_cq(own.cq, SCALE_DEPTH, wc);
    unsigned taken = 0;
    for (int i = 0; i < count; i++) {
        if (wc[i].status != IBV_WC_SUCCESS) {
            fprintf(stderr, "bench-scale: verbs: %s\n", ibv_wc_status_str(wc[i].status));
            exit(1);
        }
        if (wc[i].opcode == IBV_WC_RECV) {
            uint32_t connection;
            memcpy(&connection, slot(wc[i].wr_id), sizeof connection);
            if (is_server) {
                post_send(own.ids[connection]->qp, slot(wc[i].wr_id));
            }
            post_receive(wc[i].wr_id);
            taken++;
        }
    }
    return taken;
}

/* ---- the server ------------------------------------------------------------------------------ */

static void listen_on_any_port(unsigned count, int port_fd)
{
    struct rdma_cm_id *listener;
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    begin(count);
    if (rdma_create_id(own.channel, &listener, NULL, RDMA_PS_TCP) != 0 ||
        rdma_bind_addr(listener, (struct sockaddr *)&addr) != 0 ||
        rdma_listen(listener, SCALE_CONNECTING_MAX) != 0) {
        bench_fail("rdma_listen");
    }
    const uint16_t port = rdma_get_src_port(listener);
    if (write(port_fd, &port, sizeof port) != sizeof port) {
        bench_fail("write");
    }
}

// The client's private data is the number that it gives the connection.
static void accept_one(const struct rdma_cm_event *event, unsigned count)
{
    struct rdma_conn_param param = {.rnr_retry_count = RETRIES};
    uint32_t number;
    memcpy(&number, event->param.conn.private_data, sizeof number);
    if (number >= count) {
        bench_fail("private data");
    }
    own.ids[number] = event->id;
    create_qp(event->id);
    if (rdma_accept(event->id, &param) != 0) {
        bench_fail("rdma_accept");
    }
}

static void serve(unsigned count, int port_fd)
{
    listen_on_any_port(count, port_fd);
    for (unsigned established = 0; established < count;) {
        struct rdma_cm_event *event = next_event();
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            accept_one(event, count);
        } else if (event->event == RDMA_CM_EVENT_ESTABLISHED) {
            established++;
        } else {
            bench_fail(rdma_event_str(event->event));
        }
        rdma_ack_cm_event(event);
    }
    for (;;) {
        take_messages(true);
    }
}

/* ---- the client ------------------------------------------------------------------------------ */

static void start_connecting(unsigned number, struct sockaddr_in *addr)
{
    struct rdma_cm_id **id = &own.ids[number];
    if (rdma_create_id(own.channel, id, (void *)(uintptr_t)number, RDMA_PS_TCP) != 0 ||
        rdma_resolve_addr(*id, NULL, (struct sockaddr *)addr, RESOLVE_LIMIT_MS) != 0) {
        bench_fail("rdma_resolve_addr");
    }
}

// The next step of a connection that is being made; true: it is made.
static bool go_on_connecting(const struct rdma_cm_event *event)
{
    const uint32_t number = (uint32_t)(uintptr_t)event->id->context;
    struct rdma_conn_param param = {.private_data = &number,
                                    .private_data_len = sizeof number,
                                    .retry_count = RETRIES,
                                    .rnr_retry_count = RETRIES};
    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(event->id, RESOLVE_LIMIT_MS) != 0) {
            bench_fail("rdma_resolve_route");
        }
        return false;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        create_qp(event->id);
        if (rdma_connect(event->id, &param) != 0) {
            bench_fail("rdma_connect");
        }
        return false;
    case RDMA_CM_EVENT_ESTABLISHED:
        return true;
    default:
        bench_fail(rdma_event_str(event->event));
    }
}

static void connect_all(unsigned count, int port_fd)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    begin(count);
    if (read(port_fd, &addr.sin_port, sizeof addr.sin_port) != sizeof addr.sin_port) {
        bench_fail("read");
    }
    unsigned started = 0;
    for (unsigned established = 0; established < count;) {
        while (started < count && started - established < SCALE_CONNECTING_MAX) {
            start_connecting(started++, &addr);
        }
        struct rdma_cm_event *event = next_event();
        established += go_on_connecting(event);
        rdma_ack_cm_event(event);
    }
}

static void request(unsigned connection)
{
    uint8_t message[SCALE_REQUEST_LEN] = {0};
    const uint32_t number = connection;
    memcpy(message, &number, sizeof number);
    post_send(own.ids[connection]->qp, message);
}

static unsigned answers(void)
{
    return take_messages(false);
}

const struct scale_carrier scale_verbs = {.name = "verbs",
                                          .serve = serve,
                                          .connect = connect_all,
                                          .request = request,
                                          .answers = answers};
