// Two queue pairs of one process, connected over loopback by the device's endpoints.
#pragma once

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>

#include "host/process.h"
#include "rnic/rnic.h"
#include "tests/verbs/bench.h"

struct pair {
    struct bench a, b; // a connects, b accepts
    struct rnic *rnic;
    struct rnic_ep *listener, *ep_a, *ep_b;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned established_count, disconnected_count;
    bool has_failed;
};

static inline void pair_on_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct pair *p = ctx;
    pthread_mutex_lock(&p->lock);
    switch (event->type) {
    case RNIC_EP_CONNECT_REQUEST:
        p->ep_b = event->new_ep;
        *event->new_ep_port = (struct rnic_ep_port){.on_event = pair_on_event, .ctx = p};
        break;
    case RNIC_EP_ESTABLISHED:
        p->established_count++;
        break;
    case RNIC_EP_DISCONNECTED:
        p->disconnected_count++;
        break;
    default:
        p->has_failed = true;
        break;
    }
    pthread_cond_broadcast(&p->cond);
    pthread_mutex_unlock(&p->lock);
}

// Waits until `condition`, which reads `p`, or something has failed.
#define PAIR_WAIT(p, condition)                        \
    do {                                               \
        pthread_mutex_lock(&(p)->lock);                \
        while (!(condition) && !(p)->has_failed) {     \
            pthread_cond_wait(&(p)->cond, &(p)->lock); \
        }                                              \
        pthread_mutex_unlock(&(p)->lock);              \
        assert_false((p)->has_failed);                 \
    } while (0)

static inline void pair_connect(struct pair *p)
{
    const struct rnic_ep_port port = {.on_event = pair_on_event, .ctx = p};
    const struct rnic_ep_params params = {.ird = 4, .ord = 4};
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_storage addr;
    int error;
    p->rnic = host_rnic(DEVICE_WIRE_IWARP, NULL, &error);
    assert_non_null(p->rnic);
    assert_int_equal(rnic_ep_bind(p->rnic, (struct sockaddr *)&any, 0, &port, &p->listener), 0);
    assert_int_equal(rnic_ep_listen(p->listener, 1), 0);
    assert_int_equal(rnic_ep_local_addr(p->listener, &addr), 0);
    assert_int_equal(rnic_ep_bind(p->rnic, NULL, 0, &port, &p->ep_a), 0);
    assert_int_equal(rnic_ep_connect(p->ep_a, (struct sockaddr *)&addr,
                                     rnic_qp_find(p->rnic, p->a.qp->qp_num), &params),
                     0);
    PAIR_WAIT(p, p->ep_b != NULL);
    assert_int_equal(rnic_ep_accept(p->ep_b, rnic_qp_find(p->rnic, p->b.qp->qp_num), &params), 0);
    PAIR_WAIT(p, p->established_count == 2);
}

static inline void pair_init(struct pair *p)
{
    memset(p, 0, sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->cond, NULL);
    bench_init(&p->a);
    bench_init(&p->b);
}

// The queue pairs may have been replaced, not removed.
static inline void pair_fini(struct pair *p)
{
    rnic_ep_destroy(p->ep_a);
    rnic_ep_destroy(p->ep_b);
    rnic_ep_destroy(p->listener);
    bench_fini(&p->a);
    bench_fini(&p->b);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->cond);
}

static inline void pair_post_recv(struct bench *b, uint64_t wr_id, uint32_t offset, uint32_t length)
{
    struct ibv_sge sge = bench_sge(b, offset, length);
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_recv(b->qp, &wr, &bad), 0);
}

// Posts one signalled work request with one element and waits for its success.
static inline struct ibv_wc pair_post_send(struct bench *b, struct ibv_send_wr wr,
                                           struct ibv_sge sge)
{
    struct ibv_send_wr *bad;
    wr.send_flags |= IBV_SEND_SIGNALED;
    if (sge.length > 0) {
        wr.sg_list = &sge;
        wr.num_sge = 1;
    }
    assert_int_equal(ibv_post_send(b->qp, &wr, &bad), 0);
    struct ibv_wc wc = bench_poll(b->cq);
    if (wc.status != IBV_WC_SUCCESS) {
        fail_msg("%s: %s", "work request", ibv_wc_status_str(wc.status));
    }
    assert_int_equal(wc.wr_id, wr.wr_id);
    return wc;
}
