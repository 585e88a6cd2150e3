#include "bench/ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READS_OUTSTANDING = 128, RESOLVE_LIMIT_MS = 2000, RETRIES = 7 /* RNR: for ever */ };

void bench_fail(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
    exit(1);
}

// Where the two meet. The devices of a kernel have addresses of their own.
static struct sockaddr_in end_addr(void)
{
    const char *text = getenv("WEFT_BENCH_ADDR");
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (text != NULL && inet_pton(AF_INET, text, &addr.sin_addr) != 1) {
        errno = EINVAL;
        bench_fail("WEFT_BENCH_ADDR");
    }
    return addr;
}

// As many segments as are asked for, or as the device has.
static void limit_to_device(struct bench_end *end)
{
    struct ibv_device_attr device;
    if (ibv_query_device(end->id->verbs, &device) != 0) {
        bench_fail("ibv_query_device");
    }
    if (end->cap.max_send_sge > (uint32_t)device.max_sge) {
        end->cap.max_send_sge = (uint32_t)device.max_sge;
    }
}

static void end_prepare(struct bench_end *end)
{
    limit_to_device(end);
    struct ibv_qp_init_attr attr = {.cap = end->cap, .qp_type = IBV_QPT_RC};
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (rdma_create_qp(end->id, NULL, &attr) != 0) {
        bench_fail("rdma_create_qp");
    }
    if (end->memory == NULL) {
        if (posix_memalign((void **)&end->memory, 4096, end->memory_len) != 0) {
            bench_fail("posix_memalign");
        }
        memset(end->memory, 0, end->memory_len);
    }
    end->mr = ibv_reg_mr(end->id->pd, end->memory, end->memory_len, access);
    if (end->mr == NULL) {
        bench_fail("ibv_reg_mr");
    }
}

// Waits for the event, which must be of this type, and takes what it brings.
static void expect(struct bench_end *end, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;
    if (rdma_get_cm_event(end->channel, &event) != 0) {
        bench_fail("rdma_get_cm_event");
    }
    if (event->event != type) {
        fprintf(stderr, "%s: %s instead of %s\n", program_invocation_short_name,
                rdma_event_str(event->event), rdma_event_str(type));
        exit(1);
    }
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        end->id = event->id;
    }
    if (type == RDMA_CM_EVENT_ESTABLISHED && event->param.conn.private_data_len > 0) {
        memcpy(&end->peer, event->param.conn.private_data, sizeof end->peer);
    }
    rdma_ack_cm_event(event);
}

void end_listen(struct bench_end *end, int port_fd)
{
    struct rdma_cm_id *listener;
    struct sockaddr_in addr = end_addr();
    end->channel = rdma_create_event_channel();
    if (rdma_create_id(end->channel, &listener, NULL, RDMA_PS_TCP) != 0 ||
        rdma_bind_addr(listener, (struct sockaddr *)&addr) != 0 || rdma_listen(listener, 1) != 0) {
        bench_fail("rdma_listen");
    }
    uint16_t port = rdma_get_src_port(listener);
    if (write(port_fd, &port, sizeof port) != sizeof port) {
        bench_fail("write");
    }
    expect(end, RDMA_CM_EVENT_CONNECT_REQUEST);
    end_prepare(end);
}

void end_accept(struct bench_end *end)
{
    struct bench_target own = {.addr = (uintptr_t)end->memory, .rkey = end->mr->rkey};
    struct rdma_conn_param param = {.private_data = &own,
                                    .private_data_len = sizeof own,
                                    .responder_resources = READS_OUTSTANDING,
                                    .initiator_depth = READS_OUTSTANDING,
                                    .rnr_retry_count = RETRIES};
    if (rdma_accept(end->id, &param) != 0) {
        bench_fail("rdma_accept");
    }
    expect(end, RDMA_CM_EVENT_ESTABLISHED);
}

void end_connect(struct bench_end *end, int port_fd)
{
    struct sockaddr_in addr = end_addr();
    uint16_t port;
    if (read(port_fd, &port, sizeof port) != sizeof port) {
        bench_fail("read");
    }
    addr.sin_port = port;
    end->channel = rdma_create_event_channel();
    if (rdma_create_id(end->channel, &end->id, NULL, RDMA_PS_TCP) != 0 ||
        rdma_resolve_addr(end->id, NULL, (struct sockaddr *)&addr, RESOLVE_LIMIT_MS) != 0) {
        bench_fail("rdma_resolve_addr");
    }
    expect(end, RDMA_CM_EVENT_ADDR_RESOLVED);
    if (rdma_resolve_route(end->id, RESOLVE_LIMIT_MS) != 0) {
        bench_fail("rdma_resolve_route");
    }
    expect(end, RDMA_CM_EVENT_ROUTE_RESOLVED);
    end_prepare(end);
    struct rdma_conn_param param = {.responder_resources = READS_OUTSTANDING,
                                    .initiator_depth = READS_OUTSTANDING,
                                    .retry_count = RETRIES,
                                    .rnr_retry_count = RETRIES};
    if (rdma_connect(end->id, &param) != 0) {
        bench_fail("rdma_connect");
    }
    expect(end, RDMA_CM_EVENT_ESTABLISHED);
}

void end_disconnect(struct bench_end *end)
{
    rdma_disconnect(end->id);
    rdma_destroy_qp(end->id);
    ibv_dereg_mr(end->mr);
    rdma_destroy_id(end->id);
    rdma_destroy_event_channel(end->channel);
}
