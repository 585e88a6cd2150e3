#include "tests/cm/loopback.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct sockaddr_in loopback_addr(uint16_t port)
{
    const char *own_addr = getenv("WEFT_TEST_ADDR");
    in_addr_t addr = own_addr != NULL ? inet_addr(own_addr) : htonl(INADDR_LOOPBACK);
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = addr};
}

void bound_open(struct end *bound)
{
    struct sockaddr_in addr = loopback_addr(0);
    bound->channel = rdma_create_event_channel();
    assert_non_null(bound->channel);
    assert_int_equal(rdma_create_id(bound->channel, &bound->id, bound, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(bound->id, (struct sockaddr *)&addr), 0);
}

void listener_open(struct end *listener)
{
    bound_open(listener);
    assert_int_equal(rdma_listen(listener->id, 0), 0);
}

void qp_open(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
    };
    assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

void active_resolve(struct end *active, uint16_t port)
{
    struct sockaddr_in addr = loopback_addr(port);
    active->channel = rdma_create_event_channel();
    assert_non_null(active->channel);
    assert_int_equal(rdma_create_id(active->channel, &active->id, active, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(active->id, NULL, (struct sockaddr *)&addr, 1000), 0);
    assert_int_equal(event_take(active->channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    assert_int_equal(rdma_resolve_route(active->id, 1000), 0);
    assert_int_equal(event_take(active->channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
}

void active_open(struct end *active, uint16_t port)
{
    active_resolve(active, port);
    qp_open(active->id);
}

void end_close(struct end *end)
{
    if (end->id != NULL) {
        if (end->id->qp != NULL) {
            rdma_destroy_qp(end->id);
        }
        assert_int_equal(rdma_destroy_id(end->id), 0);
        end->id = NULL;
    }
    if (end->channel != NULL) {
        rdma_destroy_event_channel(end->channel);
        end->channel = NULL;
    }
}

struct rdma_cm_event *event_expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;
    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    return event;
}

int event_take(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = event_expect(channel, type);
    int status = event->status;
    assert_int_equal(rdma_ack_cm_event(event), 0);
    return status;
}

bool event_waits(struct rdma_event_channel *channel)
{
    struct pollfd readable = {.fd = channel->fd, .events = POLLIN};
    return poll(&readable, 1, 0) == 1;
}

void loopback_request(struct loopback *l)
{
    memset(l, 0, sizeof *l);
    listener_open(&l->listener);
    active_open(&l->active, rdma_get_src_port(l->listener.id));
    assert_int_equal(rdma_connect(l->active.id, NULL), 0);
    struct rdma_cm_event *event = event_expect(l->listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    l->passive = event->id;
    rdma_ack_cm_event(event);
}

void loopback_open(struct loopback *l)
{
    loopback_request(l);
    qp_open(l->passive);
    assert_int_equal(rdma_accept(l->passive, NULL), 0);
    assert_int_equal(event_take(l->listener.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    assert_int_equal(event_take(l->active.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
}

void loopback_close(struct loopback *l)
{
    struct end passive = {.id = l->passive};
    end_close(&passive);
    end_close(&l->active);
    end_close(&l->listener);
}
