// The server of queue pairs before verbs, a connection manager, a manager of transfers and a loop
// of the test's: each call is written down, and any of them can fail. Programs that include this
// are linked with -Wl,--wrap=dlsym.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "node/fabric/fabric.h"
#include "node/fabric/pair.h"
#include "node/loop/loop.h"

enum { STAGE_LOG_MAX = 8192, STAGE_WC_MAX = 64, STAGE_EVENT_MAX = 8, STAGE_MANAGERS = 1000 };

struct stage_cq {
    struct ibv_cq cq;
    struct ibv_wc wcs[STAGE_WC_MAX];
    unsigned wc_count;
    int polls; // what poll says, if not 0
};

struct loop_watch {
    int fd;
    void (*on_ready)(void *ctx, uint32_t events);
    void *ctx;
};

static struct {
    char log[STAGE_LOG_MAX];
    const char *fails; // the call that does not work, ...
    unsigned fails_at; // ... from this time on
    unsigned times;    // that it was called
    int error;         // what it says then
    int alive;         // what was made and not destroyed
    instant_ns now;
    struct ibv_context verbs;
    struct ibv_device device;
    unsigned cap_flags;
    bool has_oneshot, can_drive, sends_well;
    bool has_more; // what the protocol's send says
    bool is_over, takes_requests;
    struct rdma_cm_event *events[STAGE_EVENT_MAX];
    unsigned event_count;
    struct stage_cq *cq_events[STAGE_EVENT_MAX];
    unsigned cq_event_count;
    int may_wait;
    bool gives_way;
    enum weft_rdma_refusal refusal;
    uint64_t descriptors; // each manager's
    struct loop_member *member;
    char said[STAGE_LOG_MAX];
    int pipe[2];
} at;

__attribute__((format(printf, 1, 2))) static void stage_note(const char *format, ...)
{
    size_t len = strlen(at.log);
    va_list args;
    va_start(args, format);
    vsnprintf(at.log + len, sizeof at.log - len, format, args);
    va_end(args);
    assert_true(strlen(at.log) < sizeof at.log - 1);
}

// Whether this call works.
static bool stage_goes(const char *call)
{
    if (at.fails != NULL && strcmp(at.fails, call) == 0 && at.times++ >= at.fails_at) {
        errno = at.error;
        return false;
    }
    return true;
}

#define assert_log(text)                   \
    do {                                   \
        assert_string_equal(at.log, text); \
        at.log[0] = '\0';                  \
    } while (0)

/* ---- verbs ----------------------------------------------------------------------------------- */

static int stage_poll(struct ibv_cq *cq, int count, struct ibv_wc *ret)
{
    struct stage_cq *c = (struct stage_cq *)cq;
    int taken = 0;
    if (c->polls != 0) {
        return c->polls;
    }
    while (c->wc_count > 0 && taken < count) {
        ret[taken++] = c->wcs[0];
        c->wc_count--;
        memmove(&c->wcs[0], &c->wcs[1], c->wc_count * sizeof c->wcs[0]);
    }
    return taken;
}

static int stage_arm(struct ibv_cq *cq, int solicited_only)
{
    assert_int_equal(solicited_only, 0);
    stage_note("arm%d ", cq->cqe);
    return stage_goes("arm") ? 0 : ENOMEM;
}

static int stage_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    for (; wr != NULL; wr = wr->next) {
        stage_note("wr%d%s ", (int)wr->wr_id, (wr->send_flags & IBV_SEND_SIGNALED) ? "!" : "");
    }
    return stage_goes("post") ? 0 : ENOMEM;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *verbs, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int vector)
{
    stage_note("cq%d ", cqe);
    assert_int_equal(vector, 0);
    if (!stage_goes("cq")) {
        return NULL;
    }
    struct stage_cq *c = calloc(1, sizeof *c);
    c->cq =
        (struct ibv_cq){.context = verbs, .channel = channel, .cq_context = cq_context, .cqe = cqe};
    at.alive++;
    return &c->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    stage_note("-cq%d ", cq->cqe);
    at.alive--;
    free(cq);
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *verbs)
{
    stage_note("pd ");
    if (!stage_goes("pd")) {
        return NULL;
    }
    at.alive++;
    return calloc(1, sizeof(struct ibv_pd));
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    stage_note("-pd ");
    at.alive--;
    free(pd);
    return 0;
}

static struct ibv_mr *stage_mr(void *addr, size_t len, unsigned access)
{
    static uint32_t lkey = 100;
    stage_note("mr%zu/%zx/%x ", (uintptr_t)addr & 0xffff, len, access);
    if (!stage_goes("mr")) {
        return NULL;
    }
    struct ibv_mr *mr = calloc(1, sizeof *mr);
    mr->lkey = lkey++;
    at.alive++;
    return mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    return stage_mr(addr, len, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                                unsigned access)
{
    return stage_mr(addr, len, access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    stage_note("-mr ");
    at.alive--;
    free(mr);
    return 0;
}

int ibv_query_device(struct ibv_context *verbs, struct ibv_device_attr *ret)
{
    ret->device_cap_flags = at.cap_flags;
    return stage_goes("query") ? 0 : ENOMEM;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *verbs)
{
    stage_note("channel ");
    if (!stage_goes("channel")) {
        return NULL;
    }
    struct ibv_comp_channel *channel = calloc(1, sizeof *channel);
    assert_int_equal(pipe(at.pipe), 0);
    channel->fd = at.pipe[0];
    at.alive++;
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    stage_note("-channel ");
    close(at.pipe[0]);
    close(at.pipe[1]);
    at.alive--;
    free(channel);
    return 0;
}

static int stage_cq_event(struct ibv_cq **ret_cq, void **ret_context)
{
    if (at.cq_event_count == 0) {
        return -1;
    }
    *ret_cq = &at.cq_events[--at.cq_event_count]->cq;
    *ret_context = (*ret_cq)->cq_context;
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **ret_cq, void **ret_context)
{
    return stage_cq_event(ret_cq, ret_context);
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    stage_note("ack%u ", count);
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_REM_ACCESS_ERR ? "remote access error" : "another status";
}

/* ---- the connection manager ------------------------------------------------------------------ */

static struct rdma_cm_id *stage_id(const char *host)
{
    struct rdma_cm_id *id = calloc(1, sizeof *id);
    struct sockaddr_in *peer = (struct sockaddr_in *)&id->route.addr.dst_addr;
    peer->sin_family = AF_INET;
    peer->sin_port = htons(77);
    assert_int_equal(inet_pton(AF_INET, host, &peer->sin_addr), 1);
    at.alive++;
    return id;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    stage_note("qp%u/%u/%u/%u/%d ", attr->cap.max_send_wr, attr->cap.max_recv_wr,
               attr->cap.max_send_sge, attr->cap.max_recv_sge, attr->qp_type == IBV_QPT_RC);
    assert_true(attr->send_cq != NULL && attr->recv_cq != NULL && attr->send_cq != attr->recv_cq);
    if (!stage_goes("qp")) {
        return -1;
    }
    id->qp = calloc(1, sizeof *id->qp);
    id->qp->context = &at.verbs;
    at.alive++;
    return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    stage_note("-qp ");
    free(id->qp);
    id->qp = NULL;
    at.alive--;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    stage_note("accept ");
    return stage_goes("accept") ? 0 : -1;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
    stage_note("disconnect ");
    return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **ret, void *context,
                   enum rdma_port_space ps)
{
    stage_note("id ");
    assert_int_equal(ps, RDMA_PS_TCP);
    assert_null(context);
    if (!stage_goes("id")) {
        return -1;
    }
    *ret = stage_id("9.9.9.9");
    return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    stage_note("-id ");
    at.alive--;
    free(id);
    return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    id->route.addr.src_sin = *(struct sockaddr_in *)addr;
    stage_note("bind%u ", ntohs(id->route.addr.src_sin.sin_port));
    return stage_goes("bind") ? 0 : -1;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    stage_note("listen%d ", backlog);
    return stage_goes("listen") ? 0 : -1;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
    stage_note("events ");
    if (!stage_goes("events")) {
        return NULL;
    }
    struct rdma_event_channel *channel = calloc(1, sizeof *channel);
    channel->fd = open("/dev/null", O_RDWR);
    at.alive++;
    return channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    stage_note("-events ");
    close(channel->fd);
    free(channel);
    at.alive--;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **ret)
{
    if (at.event_count == 0) {
        errno = EAGAIN;
        return -1;
    }
    *ret = at.events[--at.event_count];
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    stage_note("acked ");
    return 0;
}

/* ---- the manager of transfers ---------------------------------------------------------------- */

int weft_rdma_manager_create(const struct weft_rdma_manager_attr *attr,
                             struct weft_rdma_manager **ret)
{
    stage_note("manager%u/%u ", attr->descriptor_count, (unsigned)attr->quantum_len);
    assert_non_null(attr->qp);
    if (!stage_goes("manager")) {
        errno = 0; // it says so by its result
        return -ENOSPC;
    }
    *ret = calloc(1, 8);
    at.alive++;
    return 0;
}

int weft_rdma_manager_destroy(struct weft_rdma_manager *manager)
{
    stage_note("-manager ");
    at.alive--;
    free(manager);
    return 0;
}

void weft_rdma_manager_flush(struct weft_rdma_manager *manager)
{
    stage_note("flush ");
}

void weft_rdma_manager_counters(const struct weft_rdma_manager *manager,
                                struct weft_rdma_counters *ret)
{
    ret->descriptor_count = at.descriptors;
}

bool weft_rdma_manager_on_wc(struct weft_rdma_manager *manager, const struct ibv_wc *wc)
{
    return wc->wr_id >= STAGE_MANAGERS;
}

enum weft_rdma_refusal weft_rdma_request_submit(struct weft_rdma_manager *manager,
                                                struct weft_rdma_request *request, unsigned flags)
{
    stage_note("submit ");
    assert_int_equal(flags, WEFT_RDMA_MORE);
    return at.refusal;
}

const char *weft_rdma_refusal_str(enum weft_rdma_refusal refusal)
{
    return "refused so";
}

/* ---- the loop -------------------------------------------------------------------------------- */

struct loop_watch *loop_watch(struct loop *loop, int fd, uint32_t events,
                              void (*on_ready)(void *ctx, uint32_t events), void *ctx)
{
    stage_note("watch%s ", (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0 ? "" : "-blocking");
    assert_int_equal(events, 1); // EPOLLIN
    if (!stage_goes("watch")) {
        return NULL;
    }
    struct loop_watch *watch = calloc(1, sizeof *watch);
    *watch = (struct loop_watch){fd, on_ready, ctx};
    at.alive++;
    return watch;
}

void loop_unwatch(struct loop_watch *watch)
{
    if (watch != NULL) {
        stage_note("-watch ");
        at.alive--;
        free(watch);
    }
}

void loop_join(struct loop *loop, struct loop_member *member)
{
    at.member = member;
    at.alive++;
}

void loop_leave(struct loop *loop, struct loop_member *member)
{
    assert_ptr_equal(member, at.member);
    at.member = NULL;
    at.alive--;
}

instant_ns loop_now(const struct loop *loop)
{
    return at.now;
}

instant_ns loop_clock(void)
{
    return at.now;
}

bool loop_give_way(struct lookout *lookout, instant_ns now)
{
    assert_true(now == at.now);
    return at.gives_way;
}

/* ---- who drives ------------------------------------------------------------------------------ */

static int stage_drive_begin(struct ibv_comp_channel *channel)
{
    stage_note("drive ");
    return stage_goes("drive") ? channel->fd : -1;
}

static void stage_drive_end(struct ibv_comp_channel *channel)
{
    stage_note("-drive ");
}

static void stage_drive_pass(struct ibv_comp_channel *channel)
{
    stage_note("pass ");
}

static void stage_drive_rise(struct ibv_comp_channel *channel)
{
    stage_note("rise ");
}

static int stage_drive_event(struct ibv_comp_channel *channel, struct ibv_cq **ret_cq,
                             void **ret_context)
{
    return stage_cq_event(ret_cq, ret_context);
}

static int stage_drive_may_wait(struct ibv_comp_channel *channel)
{
    stage_note("may-wait ");
    return at.may_wait;
}

void *__wrap_dlsym(void *object, const char *name);
void *__wrap_dlsym(void *object, const char *name)
{
    static const struct {
        const char *name;
        void *call;
    } drive[] = {
        {"weft_drive_begin", (void *)stage_drive_begin},
        {"weft_drive_end", (void *)stage_drive_end},
        {"weft_drive_pass", (void *)stage_drive_pass},
        {"weft_drive_rise", (void *)stage_drive_rise},
        {"weft_drive_event", (void *)stage_drive_event},
        {"weft_drive_may_wait", (void *)stage_drive_may_wait},
    };
    for (unsigned i = 0; at.can_drive && i < sizeof drive / sizeof drive[0]; i++) {
        if (strcmp(drive[i].name, name) == 0) {
            return drive[i].call;
        }
    }
    return at.has_oneshot && strstr(name, "drive") == NULL ? (void *)stage_note : NULL;
}

/* ---- a protocol ------------------------------------------------------------------------------ */

static struct fabric fabric;

static bool proto_on_request(void *ctx, const struct rdma_cm_event *event)
{
    assert_ptr_equal(ctx, &at);
    stage_note("request ");
    return at.takes_requests;
}

static void proto_on_received(struct fabric_pair *p, const struct ibv_wc *wc, instant_ns now)
{
    assert_true(now == at.now);
    stage_note("received%d ", (int)wc->wr_id);
}

static void proto_on_sent(struct fabric_pair *p, const struct ibv_wc *wc)
{
    stage_note("sent%d ", (int)wc->wr_id);
    if (!list_is_empty(&p->sending)) {
        list_pop_head(&p->sending);
    }
}

static void proto_receives_post(struct fabric_pair *p)
{
    stage_note("post ");
}

static void proto_retry(struct fabric_pair *p, instant_ns now)
{
    stage_note("retry ");
}

static bool proto_send(struct fabric_pair *p, instant_ns now)
{
    stage_note("send ");
    return at.has_more;
}

static void proto_await(struct fabric_pair *p, instant_ns now)
{
    stage_note("await ");
}

static void proto_close(struct fabric_pair *p, instant_ns now)
{
    stage_note("close ");
}

static void proto_abandon(struct fabric_pair *p, instant_ns now)
{
    stage_note("abandon ");
}

static bool proto_is_over(struct fabric_pair *p)
{
    stage_note("over? ");
    return at.is_over;
}

static void proto_destroy(struct fabric_pair *p)
{
    stage_note("destroy ");
    at.alive--;
    free(p);
}

static const struct fabric_protocol protocol = {
    .name = "proto",
    .late = "it says nothing",
    .default_port = "4420",
    .pair_max = 6,
    .on_request = proto_on_request,
    .on_received = proto_on_received,
    .on_sent = proto_on_sent,
    .receives_post = proto_receives_post,
    .retry = proto_retry,
    .send = proto_send,
    .await = proto_await,
    .close = proto_close,
    .abandon = proto_abandon,
    .is_over = proto_is_over,
    .destroy = proto_destroy,
};

static void stage_say(void *ctx, const char *host, const char *line)
{
    size_t len = strlen(at.said);
    assert_ptr_equal(ctx, &fabric);
    snprintf(at.said + len, sizeof at.said - len, "[%s] %s\n", host, line);
}

/* ---- made ------------------------------------------------------------------------------------ */

static uint32_t stage_generations[NODE_UNIT_COUNT_MAX];
static bool stage_is_pinned;

static void stage_begin(unsigned pair_max)
{
    memset(&at, 0, sizeof at);
    memset(stage_generations, 0, sizeof stage_generations);
    stage_is_pinned = false;
    at.now = 1000 * NS_PER_S;
    at.is_over = true;
    at.error = ENOSPC;
    at.verbs.device = &at.device;
    at.verbs.ops.poll_cq = stage_poll;
    at.verbs.ops.req_notify_cq = stage_arm;
    at.verbs.ops.post_send = stage_post;
    const struct fabric_parts parts = {
        .listen = {.count = 2, .of = {"127.0.0.1:5", "127.0.0.2"}},
        .pool = {.ptr = (void *)(uintptr_t)0x10000, .len = 0x40, .generations = stage_generations},
        .pool_is_pinned = &stage_is_pinned,
        .patience_ns = 30 * NS_PER_S,
        .pair_max = pair_max,
        .say = stage_say,
        .say_ctx = &fabric,
        .ctx = &at,
    };
    fabric_init(&fabric, &protocol, &parts);
}

// Nothing is left.
static void stage_end(void)
{
    fabric_fini(&fabric);
    assert_int_equal(at.alive, 0);
    assert_null(at.member);
}
