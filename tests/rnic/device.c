#include "tests/rnic/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "host/clock.h"
#include "link/socket.h"
#include "rnic/ep/ep.h"
#include "rnic/post.h"
#include "rnic/stat.h"

/* ---- devices --------------------------------------------------------------------------------- */

struct rnic_config device_config(void)
{
    return (struct rnic_config){
        .crc = true,
        .extensions = true,
        .peer_to_peer = true,
        .mpa_revision = 2,
        .rnr_store_len = 256 * 1024,
        .read_contexts = 128,
        .read_allotment_len = 256 * 1024,
        .read_turn_len = 128 * 1024,
        .read_timeout_ns = 30 * NS_PER_S,
        .rnr_timeout_ns = 8 * NS_PER_S,
        .mpa_timeout_ns = DEVICE_PATIENCE_NS,
    };
}

void device_open(struct device *d, const struct rnic_config *config, duration_ns peer_timeout_ns)
{
    device_open_traced(d, config, peer_timeout_ns, NULL);
}

void device_open_traced(struct device *d, const struct rnic_config *config,
                        duration_ns peer_timeout_ns, struct trace *trace)
{
    const struct link_socket_config link_config = {.peer_timeout_ns = peer_timeout_ns};
    struct link *link;
    assert_int_equal(link_socket_create(&link_config, &link), 0);
    device_open_over(d, config, link, trace);
}

void device_open_over(struct device *d, const struct rnic_config *config, struct link *link,
                      struct trace *trace)
{
    struct rnic_parts parts = {
        .config = *config, .clock = host_clock, .trace = trace, .link = link};
    assert_int_equal(getrandom(parts.stag_key, sizeof parts.stag_key, 0), sizeof parts.stag_key);
    device_open_parts(d, &parts);
}

void device_open_parts(struct device *d, const struct rnic_parts *parts)
{
    const struct cq_port quiet = {0};
    assert_int_equal(rnic_create(parts, &d->rnic), 0);
    d->buf = calloc(1, DEVICE_BUF_LEN);
    assert_non_null(d->buf);
    assert_int_equal(rnic_pd_alloc(d->rnic, &d->pd), 0);
    device_register(d);
    assert_int_equal(rnic_cq_create(d->rnic, 4096, &quiet, &d->cq), 0);
}

void device_register(struct device *d)
{
    assert_int_equal(rnic_region_register(d->rnic, d->pd, d->buf, DEVICE_BUF_LEN, (uintptr_t)d->buf,
                                          MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE |
                                              MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_ATOMIC,
                                          &d->stag),
                     0);
}

void device_close(struct device *d)
{
    assert_int_equal(rnic_cq_destroy(d->cq), 0);
    assert_int_equal(rnic_region_deregister(d->rnic, d->stag), 0);
    assert_int_equal(rnic_pd_dealloc(d->rnic, d->pd), 0);
    const struct rnic_live live = rnic_live(d->rnic);
    assert_int_equal(live.pds, 0);
    assert_int_equal(live.regions, 0);
    assert_int_equal(live.windows, 0);
    assert_int_equal(live.sinks, 0);
    assert_int_equal(live.qps, 0);
    assert_int_equal(live.cqs, 0);
    assert_int_equal(live.endpoints, 0);
    rnic_destroy(d->rnic);
    free(d->buf);
}

uint64_t device_count(struct device *d, const char *name)
{
    char *text = NULL, key[100];
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    stat_write(d->rnic, out);
    fclose(out);
    snprintf(key, sizeof key, "\"%s\":", name);
    uint64_t sum = 0;
    for (const char *at = text; (at = strstr(at, key)) != NULL; at++) {
        sum += strtoull(at + strlen(key), NULL, 10);
    }
    free(text);
    return sum;
}

void pause_ms(unsigned ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

bool device_waits_for_count(struct device *d, const char *name, uint64_t count)
{
    instant_ns deadline_ns = host_clock(NULL) + DEVICE_PATIENCE_NS;
    while (device_count(d, name) < count) {
        if (host_clock(NULL) > deadline_ns) {
            return false;
        }
        pause_ms(1);
    }
    return true;
}

bool device_waits_for_endpoints(struct device *d, uint32_t count)
{
    instant_ns deadline_ns = host_clock(NULL) + DEVICE_PATIENCE_NS;
    while (rnic_live(d->rnic).endpoints != count) {
        if (host_clock(NULL) > deadline_ns) {
            return false;
        }
        pause_ms(1);
    }
    return true;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void on_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct mailbox *m = ctx;
    pthread_mutex_lock(&m->lock);
    if (m->count - m->taken == MAILBOX_LEN) {
        abort(); // a test takes what comes
    }
    m->events[m->count % MAILBOX_LEN] = *event;
    m->eps[m->count % MAILBOX_LEN] = ep;
    m->count++;
    if (event->type == RNIC_EP_CONNECT_REQUEST) { // until somebody takes it
        *event->new_ep_port = (struct rnic_ep_port){.on_event = on_event, .ctx = m};
    }
    pthread_cond_broadcast(&m->cond);
    pthread_mutex_unlock(&m->lock);
}

static void mailbox_init(struct mailbox *m)
{
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->cond, NULL);
}

bool end_is_paused(struct end *e)
{
    rnic_enter(e->device->rnic);
    bool is_paused = e->ep->in.is_paused;
    rnic_leave(e->device->rnic, 0);
    return is_paused;
}

struct rnic_ep_port end_port(struct end *e)
{
    return (struct rnic_ep_port){.on_event = on_event, .ctx = &e->mailbox};
}

struct rnic_ep_event end_take_any(struct end *e, struct rnic_ep **ret_ep)
{
    struct mailbox *m = &e->mailbox;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(DEVICE_PATIENCE_NS / NS_PER_S);
    pthread_mutex_lock(&m->lock);
    while (m->count == m->taken && pthread_cond_timedwait(&m->cond, &m->lock, &until) == 0) {
    }
    bool has_event = m->count != m->taken;
    struct rnic_ep_event event = m->events[m->taken % MAILBOX_LEN];
    *ret_ep = m->eps[m->taken % MAILBOX_LEN];
    m->taken += has_event;
    pthread_mutex_unlock(&m->lock);
    assert_true(has_event);
    return event;
}

struct rnic_ep_event end_take(struct end *e, enum rnic_ep_event_type type)
{
    struct rnic_ep *ep;
    struct rnic_ep_event event = end_take_any(e, &ep);
    assert_int_equal(event.type, type);
    return event;
}

bool end_has_event(struct end *e)
{
    pthread_mutex_lock(&e->mailbox.lock);
    bool has_event = e->mailbox.count != e->mailbox.taken;
    pthread_mutex_unlock(&e->mailbox.lock);
    return has_event;
}

/* ---- ends ------------------------------------------------------------------------------------ */

static struct rnic_qp *qp_make(struct device *d, bool is_addressable)
{
    const struct rnic_qp_init init = {
        .pd = d->pd,
        .send_cq = d->cq,
        .recv_cq = d->cq,
        .max_send_wr = DEVICE_DEPTH,
        .max_recv_wr = DEVICE_DEPTH,
        .max_send_sge = 1,
        .max_recv_sge = 1,
        .is_addressable = is_addressable,
    };
    struct rnic_qp *qp;
    assert_int_equal(rnic_qp_create(d->rnic, &init, &qp), 0);
    return qp;
}

struct rnic_qp *device_qp(struct device *d)
{
    return qp_make(d, false);
}

void end_init_with(struct end *e, struct device *device, struct rnic_qp *qp)
{
    memset(e, 0, sizeof *e);
    e->device = device;
    mailbox_init(&e->mailbox);
    e->qp = qp;
}

void end_init(struct end *e, struct device *device)
{
    end_init_with(e, device, qp_make(device, false));
}

void end_init_addressable(struct end *e, struct device *device)
{
    end_init_with(e, device, qp_make(device, true));
}

void end_fini(struct end *e)
{
    if (e->ep != NULL) {
        rnic_ep_destroy(e->ep);
    }
    if (e->qp != NULL) {
        rnic_qp_destroy(e->qp);
    }
    pthread_mutex_destroy(&e->mailbox.lock);
    pthread_cond_destroy(&e->mailbox.cond);
}

void end_listen(struct end *listener, struct device *device, struct sockaddr_in *ret_addr)
{
    *ret_addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    end_listen_at(listener, device, ret_addr);
}

void end_listen_at(struct end *listener, struct device *device, struct sockaddr_in *at)
{
    struct sockaddr_storage addr;
    memset(listener, 0, sizeof *listener);
    listener->device = device;
    mailbox_init(&listener->mailbox);
    const struct rnic_ep_port port = end_port(listener);
    assert_int_equal(
        rnic_ep_bind(device->rnic, (const struct sockaddr *)at, 0, &port, &listener->ep), 0);
    assert_int_equal(rnic_ep_listen(listener->ep, 0), 0);
    assert_int_equal(rnic_ep_local_addr(listener->ep, &addr), 0);
    memcpy(at, &addr, sizeof *at);
}

static const struct rnic_ep_params params = {.ird = 2, .ord = 2};

void end_bind(struct end *e)
{
    const struct rnic_ep_port port = end_port(e);
    assert_int_equal(rnic_ep_bind(e->device->rnic, NULL, 0, &port, &e->ep), 0);
}

void end_connect(struct end *e, const struct sockaddr_in *to)
{
    end_bind(e);
    assert_int_equal(rnic_ep_connect(e->ep, (const struct sockaddr *)to, e->qp, &params), 0);
}

void end_take_request(struct end *e, struct end *listener)
{
    e->ep = end_take(listener, RNIC_EP_CONNECT_REQUEST).new_ep;
    const struct rnic_ep_port port = end_port(e);
    rnic_ep_set_port(e->ep, &port);
}

void end_accept(struct end *e)
{
    assert_int_equal(rnic_ep_accept(e->ep, e->qp, &params), 0);
}

void ends_connect(struct end *active, struct end *passive, struct end *listener,
                  const struct sockaddr_in *addr)
{
    end_connect(active, addr);
    end_take_request(passive, listener);
    end_accept(passive);
    end_take(active, RNIC_EP_ESTABLISHED);
    end_take(passive, RNIC_EP_ESTABLISHED);
}

/* ---- work ------------------------------------------------------------------------------------ */

void end_post_recv(struct end *e, uint64_t wr_id, uint32_t offset, uint32_t len)
{
    struct rnic_rq_cursor cursor;
    rnic_rq_begin(&cursor, e->qp);
    struct recv_wqe *wqe = rnic_rq_slot(&cursor);
    assert_non_null(wqe);
    wqe->wr_id = wr_id;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){
        .addr = (uintptr_t)e->device->buf + offset, .length = len, .lkey = e->device->stag};
    rnic_rq_commit(&cursor);
    rnic_rq_end(&cursor);
}

void end_post_send(struct end *e, enum wqe_opcode opcode, uint32_t offset, uint32_t len,
                   const struct device *remote, uint32_t remote_offset)
{
    struct rnic_sq_cursor cursor;
    rnic_sq_begin(&cursor, e->qp);
    struct send_wqe *wqe = rnic_sq_slot(&cursor);
    assert_non_null(wqe);
    wqe->wr_id = opcode;
    wqe->opcode = opcode;
    wqe->flags = WQE_SIGNALED;
    wqe->imm_or_inv = 0;
    wqe->rkey = remote != NULL ? remote->stag : 0;
    wqe->remote_addr = remote != NULL ? (uintptr_t)remote->buf + remote_offset : 0;
    wqe->sge_count = 1;
    wqe->length = len;
    wqe->sge[0] = (struct sge){
        .addr = (uintptr_t)e->device->buf + offset, .length = len, .lkey = e->device->stag};
    rnic_sq_commit(&cursor);
    rnic_sq_end(&cursor);
}

struct cqe device_poll(struct device *d)
{
    struct cqe cqe;
    instant_ns deadline_ns = host_clock(NULL) + DEVICE_PATIENCE_NS;
    int count;
    while ((count = rnic_cq_poll(d->cq, &cqe, 1)) == 0) {
        assert_true(host_clock(NULL) < deadline_ns);
    }
    assert_int_equal(count, 1);
    return cqe;
}
