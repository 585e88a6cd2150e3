// Threads of one process at everything at the same time: posting, polling, arming and waiting,
// registering, making and ending queue pairs and connections, forking. No event may be lost: who
// arms, polls an empty queue and then waits is woken. WEFT_SOAK=1 makes it a million rounds.

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sanitized.h"
#include "tests/cm/loopback.h"

enum {
    ROUNDS = 40000, // arm, poll, wait; of both flows together
    ROUNDS_SOAK = 1000000,
    DEPTH = 16,
    MESSAGE_LEN = 64,
    EVENT_LOST_MS = 30000, // a machine may be slow, but not so slow
    CHILDREN_MAX = 100,
};

static atomic_uint rounds_done, slept_count;
static atomic_bool is_over; // the flows have come to their end

// Children of a process with threads may start threads of their own: that is what is tested.
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

static void pause_us(unsigned us)
{
    struct timespec pause = {.tv_nsec = (long)us * 1000};
    nanosleep(&pause, NULL);
}

/* ---- one end of a connection with a completion channel --------------------------------------- */

struct side {
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_srq *srq; // NULL: none
    struct ibv_mr *mr;
    uint8_t buf[2 * MESSAGE_LEN]; // what is sent, what is received
};

static void side_open(struct side *s, struct rdma_cm_id *id, bool has_srq)
{
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = DEPTH, .max_sge = 1}};
    s->id = id;
    s->pd = ibv_alloc_pd(id->verbs);
    s->channel = ibv_create_comp_channel(id->verbs);
    s->cq = ibv_create_cq(id->verbs, 4 * DEPTH, s, s->channel, 0);
    s->srq = has_srq ? ibv_create_srq(s->pd, &srq_attr) : NULL;
    s->mr = ibv_reg_mr(s->pd, s->buf, sizeof s->buf, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(s->mr);
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .send_cq = s->cq,
        .recv_cq = s->cq,
        .srq = s->srq,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
    };
    assert_int_equal(rdma_create_qp(id, s->pd, &attr), 0);
}

static void side_close(struct side *s)
{
    rdma_destroy_qp(s->id);
    assert_int_equal(rdma_destroy_id(s->id), 0);
    assert_int_equal(s->srq != NULL ? ibv_destroy_srq(s->srq) : 0, 0);
    assert_int_equal(ibv_destroy_cq(s->cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(s->channel), 0);
    assert_int_equal(ibv_dereg_mr(s->mr), 0);
    assert_int_equal(ibv_dealloc_pd(s->pd), 0);
}

static void side_receive(struct side *s)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)(s->buf + MESSAGE_LEN), .length = MESSAGE_LEN, .lkey = s->mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    int error =
        s->srq != NULL ? ibv_post_srq_recv(s->srq, &wr, &bad) : ibv_post_recv(s->id->qp, &wr, &bad);
    assert_int_equal(error, 0);
}

static void side_send(struct side *s)
{
    struct ibv_sge sge = {.addr = (uintptr_t)s->buf, .length = MESSAGE_LEN, .lkey = s->mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED,
                             .sg_list = &sge,
                             .num_sge = 1},
                       *bad;
    assert_int_equal(ibv_post_send(s->id->qp, &wr, &bad), 0);
}

// The round that must not lose an event. Returns the opcode of the completion.
static enum ibv_wc_opcode side_wait(struct side *s)
{
    struct ibv_wc wc;
    for (;;) {
        assert_int_equal(ibv_req_notify_cq(s->cq, 0), 0);
        atomic_fetch_add(&rounds_done, 1);
        if (ibv_poll_cq(s->cq, 1, &wc) == 1) {
            break;
        }
        struct pollfd readable = {.fd = s->channel->fd, .events = POLLIN};
        struct ibv_cq *cq;
        void *context;
        if (poll(&readable, 1, EVENT_LOST_MS) != 1) {
            fail_msg("no event after %u rounds", atomic_load(&rounds_done));
        }
        assert_int_equal(ibv_get_cq_event(s->channel, &cq, &context), 0);
        assert_ptr_equal(context, s);
        ibv_ack_cq_events(cq, 1);
        atomic_fetch_add(&slept_count, 1);
    }
    if (wc.status != IBV_WC_SUCCESS) {
        fail_msg("completion: %s", ibv_wc_status_str(wc.status));
    }
    return wc.opcode;
}

/* ---- flows: two threads and a connection ----------------------------------------------------- */

struct flow {
    struct end listener;
    struct rdma_event_channel *channel;
    struct side active, passive;
    unsigned message_count;
};

static void flow_open(struct flow *f, bool has_srq, unsigned message_count)
{
    memset(f, 0, sizeof *f);
    f->message_count = message_count;
    listener_open(&f->listener);
    struct sockaddr_in addr = loopback_addr(rdma_get_src_port(f->listener.id));
    struct rdma_cm_id *id;
    f->channel = rdma_create_event_channel();
    assert_int_equal(rdma_create_id(f->channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000), 0);
    event_take(f->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(id, 1000), 0);
    event_take(f->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    side_open(&f->active, id, false);
    side_receive(&f->active);
    assert_int_equal(rdma_connect(id, NULL), 0);
    struct rdma_cm_event *event = event_expect(f->listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    side_open(&f->passive, event->id, has_srq);
    side_receive(&f->passive);
    rdma_ack_cm_event(event);
    assert_int_equal(rdma_accept(f->passive.id, NULL), 0);
    event_take(f->listener.channel, RDMA_CM_EVENT_ESTABLISHED);
    event_take(f->channel, RDMA_CM_EVENT_ESTABLISHED);
}

static void flow_close(struct flow *f)
{
    assert_int_equal(rdma_disconnect(f->active.id), 0);
    event_take(f->listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    event_take(f->channel, RDMA_CM_EVENT_DISCONNECTED);
    side_close(&f->active);
    side_close(&f->passive);
    end_close(&f->listener);
    rdma_destroy_event_channel(f->channel);
}

// Every message waits for the answer to the last.
static void ping_pong(struct side *s, unsigned count, bool is_first)
{
    if (is_first) {
        side_send(s);
    }
    for (unsigned received = 0, sent = is_first; received < count || sent > 0;) {
        if (side_wait(s) == IBV_WC_SEND) {
            sent--;
            continue;
        }
        received++;
        assert_int_equal(s->buf[MESSAGE_LEN], (uint8_t)received);
        bool is_last = received == count;
        if (!is_last) {
            side_receive(s);
        }
        if (!is_first || !is_last) {
            s->buf[0] = (uint8_t)(received + is_first);
            side_send(s);
            sent++;
        }
    }
}

static void *ping_active(void *arg)
{
    struct flow *f = arg;
    f->active.buf[0] = 1;
    ping_pong(&f->active, f->message_count, true);
    return NULL;
}

static void *ping_passive(void *arg)
{
    struct flow *f = arg;
    ping_pong(&f->passive, f->message_count, false);
    return NULL;
}

// Messages one way, as many as the queue holds; the other side posts one receive at a time, so
// that they often come before their receive.
static void *stream_active(void *arg)
{
    struct flow *f = arg;
    for (unsigned sent = 0, complete = 0; complete < f->message_count;) {
        if (sent < f->message_count && sent - complete < DEPTH) {
            side_send(&f->active);
            sent++;
            continue;
        }
        side_wait(&f->active);
        complete++;
    }
    return NULL;
}

static void *stream_passive(void *arg)
{
    struct flow *f = arg;
    for (unsigned received = 1; received <= f->message_count; received++) {
        assert_int_equal(side_wait(&f->passive), IBV_WC_RECV);
        side_receive(&f->passive);
    }
    return NULL;
}

// Several threads post to one queue pair and poll one completion queue.
static atomic_uint crowd_free = DEPTH, crowd_posted, crowd_complete;

static void crowd_post(struct side *s)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
    unsigned before = atomic_load(&crowd_free);
    if (before > 0 && atomic_compare_exchange_strong(&crowd_free, &before, before - 1)) {
        assert_int_equal(ibv_post_send(s->id->qp, &wr, &bad), 0);
        atomic_fetch_add(&crowd_posted, 1);
    }
}

static void *crowd(void *arg)
{
    struct flow *f = arg;
    struct ibv_wc wc[4];
    while (!atomic_load(&is_over)) {
        crowd_post(&f->active);
        int count = ibv_poll_cq(f->active.cq, 4, wc);
        for (int i = 0; i < count; i++) {
            assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
        }
        atomic_fetch_add(&crowd_complete, (unsigned)count);
        atomic_fetch_add(&crowd_free, (unsigned)count);
        if (count == 0) {
            pause_us(50); // the machine is not theirs alone
        }
    }
    return NULL;
}

static void crowd_finish(struct flow *f)
{
    struct ibv_wc wc;
    while (atomic_load(&crowd_complete) < atomic_load(&crowd_posted)) {
        atomic_fetch_add(&crowd_complete, (unsigned)ibv_poll_cq(f->active.cq, 1, &wc));
    }
    assert_int_equal(ibv_poll_cq(f->active.cq, 1, &wc), 0);
}

/* ---- what goes on beside --------------------------------------------------------------------- */

static struct ibv_context *context;

static void *register_memory(void *arg)
{
    static uint8_t memory[64 * 1024];
    struct ibv_pd *pd = ibv_alloc_pd(context);
    while (!atomic_load(&is_over)) {
        struct ibv_mr *mr[8];
        for (unsigned i = 0; i < 8; i++) {
            mr[i] = ibv_reg_mr(pd, memory, sizeof memory >> i,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
            assert_non_null(mr[i]);
        }
        for (unsigned i = 0; i < 8; i++) {
            assert_int_equal(ibv_dereg_mr(mr[i]), 0);
        }
        pause_us(100);
    }
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    return NULL;
}

// A queue pair comes, is filled, fails, and goes; its receives are flushed.
static void *make_queue_pairs(void *arg)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0);
    while (!atomic_load(&is_over)) {
        struct ibv_qp_init_attr init = {
            .qp_type = IBV_QPT_RC,
            .send_cq = cq,
            .recv_cq = cq,
            .cap = {.max_send_wr = 1, .max_recv_wr = DEPTH, .max_recv_sge = 1},
        };
        struct ibv_qp *qp = ibv_create_qp(pd, &init);
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
        assert_int_equal(
            ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            0);
        struct ibv_recv_wr wr = {.wr_id = qp->qp_num}, *bad;
        for (unsigned i = 0; i < DEPTH; i++) {
            assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
        }
        attr.qp_state = IBV_QPS_ERR;
        assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
        for (unsigned flushed = 0; flushed < DEPTH / 2;) { // the others go with the queue pair
            struct ibv_wc wc;
            if (ibv_poll_cq(cq, 1, &wc) == 1) {
                assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
                assert_int_equal(wc.wr_id, qp->qp_num);
                flushed++;
            }
        }
        assert_int_equal(ibv_destroy_qp(qp), 0);
        pause_us(200);
    }
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    return NULL;
}

static void connect_once(void)
{
    struct loopback l;
    loopback_open(&l);
    assert_int_equal(rdma_disconnect(l.active.id), 0);
    event_take(l.active.channel, RDMA_CM_EVENT_DISCONNECTED);
    event_take(l.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    loopback_close(&l);
}

static void *connect_and_disconnect(void *arg)
{
    while (!atomic_load(&is_over)) {
        connect_once();
        pause_us(500);
    }
    return NULL;
}

// What a child does. ThreadSanitizer does not support threads in the child of a threaded parent
// (its own locks may be held there for ever: one child in some thousands hung), so under it a
// child only shows that the fork hooks and the other threads get on; the plain build opens the
// device anew.
static void child_main(void)
{
#if !IS_THREAD_SANITIZED
    connect_once();
#endif
}

// Children find the device anew, whatever other threads were at when they were made.
static void *make_children(void *arg)
{
#if IS_ADDRESS_SANITIZED
    print_message(
        "no children: a lock of AddressSanitizer's allocator may be held for ever there\n");
    return NULL;
#endif
    for (unsigned i = 0; i < CHILDREN_MAX && !atomic_load(&is_over); i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(60); // a child that hangs is a failure
            child_main();
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0) {
            fail_msg("child %u: status %#x", i, status);
        }
        pause_us(2000);
    }
    return NULL;
}

/* ---- the test -------------------------------------------------------------------------------- */

struct worker {
    void *(*main)(void *);
    void *arg;
    pthread_t thread;
};

static void workers_start(struct worker *workers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_create(&workers[i].thread, NULL, workers[i].main, workers[i].arg),
                         0);
    }
}

static void workers_join(struct worker *workers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
    }
}

static unsigned rounds_wanted(void)
{
    return getenv("WEFT_SOAK") != NULL ? ROUNDS_SOAK : ROUNDS;
}

// Whatever one flow loses here nobody finds by chance: the other one is asleep too, or not there.
static void test_no_event_is_lost_while_all_else_is_quiet(void **state)
{
    struct flow ping, stream;
    flow_open(&ping, false, rounds_wanted() / 8);
    struct worker pings[] = {{ping_active, &ping}, {ping_passive, &ping}};
    workers_start(pings, 2);
    workers_join(pings, 2);
    flow_close(&ping);
    flow_open(&stream, true, rounds_wanted() / 4);
    struct worker streams[] = {{stream_active, &stream}, {stream_passive, &stream}};
    workers_start(streams, 2);
    workers_join(streams, 2);
    flow_close(&stream);
}

static void test_no_event_is_lost_whatever_else_goes_on(void **state)
{
    unsigned rounds = rounds_wanted();
    struct flow ping, stream, writes;
    flow_open(&ping, false, rounds / 8); // four completions for each message and its answer
    flow_open(&stream, true, rounds / 4);
    flow_open(&writes, false, 0);
    context = ping.active.id->verbs;
    struct worker flows[] = {
        {ping_active, &ping},
        {ping_passive, &ping},
        {stream_active, &stream},
        {stream_passive, &stream},
    };
    struct worker others[] = {
        {register_memory, NULL}, {make_queue_pairs, NULL}, {connect_and_disconnect, NULL},
        {make_children, NULL},   {crowd, &writes},         {crowd, &writes},
    };
    workers_start(others, 6);
    workers_start(flows, 4);
    workers_join(flows, 4);
    atomic_store(&is_over, true);
    workers_join(others, 6);
    crowd_finish(&writes);
    assert_true(atomic_load(&rounds_done) >= rounds);
    print_message("%u rounds, %u of them slept\n", atomic_load(&rounds_done),
                  atomic_load(&slept_count));
    flow_close(&ping);
    flow_close(&stream);
    flow_close(&writes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_event_is_lost_while_all_else_is_quiet),
        cmocka_unit_test(test_no_event_is_lost_whatever_else_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
