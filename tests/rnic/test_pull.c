// Reads whose octets are copied out of the memory of the peer's process, here the same one, and
// Writes whose octets are put into it: without any lock, so that whatever a copy waits for nobody
// else does.

#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/port_push.h"
#include "host/clock.h"
#include "link/local/local.h"
#include "link/socket.h"
#include "rnic/puller.h"
#include "tests/rnic/device.h"

enum { LEN = 8192, AT = 4096, WRITE_LEN = 256, PATIENCE_MS = 50 };

static struct push_ops ops; // the link's, but for `copy` and `put`
static unsigned (*real_copy)(const struct pull_run *run);
static bool (*real_put)(const struct push_aimed *push);
static bool is_writing;               // the test is about Writes
static atomic_bool is_held;           // copies begin, and wait
static _Atomic instant_ns stopped_ns; // what the devices' clock says; 0: it goes
static sem_t begun, may_go_on;

// As one of a page that has to be fetched first.
static void wait_if_held(void)
{
    if (atomic_load(&is_held)) {
        sem_post(&begun);
        sem_wait(&may_go_on);
    }
}

static unsigned held_copy(const struct pull_run *run)
{
    wait_if_held();
    return real_copy(run);
}

static bool held_put(const struct push_aimed *push)
{
    wait_if_held();
    return real_put(push);
}

static instant_ns clock_of(void *ctx)
{
    instant_ns at_ns = atomic_load(&stopped_ns);
    return at_ns != 0 ? at_ns : host_clock(ctx);
}

static void open_device(struct device *d)
{
    const struct link_socket_config socket_config = {.peer_timeout_ns = DEVICE_PATIENCE_NS};
    const struct link_local_config local_config = {.ring_len = LINK_LOCAL_RING_LEN,
                                                   .clock = host_clock,
                                                   .rights = KEY_MAY_READ |
                                                             (is_writing ? KEY_MAY_WRITE : 0)};
    struct rnic_parts parts = {.config = device_config(), .clock = clock_of};
    struct link *link;
    parts.config.crc = false;
    assert_int_equal(link_socket_create(&socket_config, &link), 0);
    assert_int_equal(link_local_wrap(link, &local_config, &link), 0);
    ops = *link->pushes;
    real_copy = ops.copy;
    real_put = ops.put;
    ops.copy = held_copy;
    ops.put = held_put;
    link->pushes = &ops;
    parts.link = link;
    assert_int_equal(getrandom(parts.stag_key, sizeof parts.stag_key, 0), sizeof parts.stag_key);
    device_open_parts(d, &parts);
}

// Two devices, and two connections between them.
struct world {
    struct device a, b;
    struct end listener, active[2], passive[2];
};

// For as many Reads at a time as are copied together.
static void connect_deep(struct end *active, struct end *passive, struct end *listener,
                         const struct sockaddr_in *addr)
{
    const struct rnic_ep_params deep = {.ird = PULL_RUN_MAX, .ord = PULL_RUN_MAX};
    end_bind(active);
    assert_int_equal(rnic_ep_connect(active->ep, (const struct sockaddr *)addr, active->qp, &deep),
                     0);
    end_take_request(passive, listener);
    assert_int_equal(rnic_ep_accept(passive->ep, passive->qp, &deep), 0);
    end_take(active, RNIC_EP_ESTABLISHED);
    end_take(passive, RNIC_EP_ESTABLISHED);
}

static int begin_either(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct sockaddr_in addr;
    atomic_store(&is_held, false);
    atomic_store(&stopped_ns, 0);
    sem_init(&begun, 0, 0);
    sem_init(&may_go_on, 0, 0);
    open_device(&w->a);
    open_device(&w->b);
    end_listen(&w->listener, &w->b, &addr);
    for (unsigned i = 0; i < 2; i++) {
        end_init(&w->active[i], &w->a);
        end_init(&w->passive[i], &w->b);
        connect_deep(&w->active[i], &w->passive[i], &w->listener, &addr);
    }
    for (unsigned i = 0; i < DEVICE_BUF_LEN; i++) {
        w->b.buf[i] = (uint8_t)(i * 13 + i / 256);
    }
    *state = w;
    return 0;
}

static int begin(void **state)
{
    is_writing = false;
    return begin_either(state);
}

static int begin_writing(void **state)
{
    is_writing = true;
    return begin_either(state);
}

static int end(void **state)
{
    struct world *w = *state;
    atomic_store(&stopped_ns, 0);
    for (unsigned i = 0; i < 2; i++) {
        if (w->active[i].qp != NULL) {
            end_fini(&w->active[i]);
        }
        end_fini(&w->passive[i]);
    }
    end_fini(&w->listener);
    device_close(&w->a);
    device_close(&w->b);
    free(w);
    return 0;
}

static void post_read(struct world *w, unsigned i)
{
    end_post_send(&w->active[i], WQE_RDMA_READ, AT, LEN, &w->b, 0);
}

static void expect_read(struct world *w)
{
    struct cqe cqe = device_poll(&w->a);
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_int_equal(cqe.opcode, WC_RDMA_READ);
    assert_memory_equal(w->a.buf + AT, w->b.buf, LEN);
}

// Reads go by the stream until the peer has let this end in, and while its thread drives.
static void pull_one(struct world *w, unsigned i)
{
    uint64_t before = device_count(&w->a, "local.pulls");
    instant_ns deadline_ns = host_clock(NULL) + DEVICE_PATIENCE_NS;
    while (device_count(&w->a, "local.pulls") == before) {
        assert_true(host_clock(NULL) < deadline_ns);
        memset(w->a.buf + AT, 0, LEN);
        post_read(w, i);
        expect_read(w);
    }
}

/* ---- one of either kind ---------------------------------------------------------------------- */

static void post_write(struct world *w, unsigned i)
{
    for (unsigned k = 0; k < WRITE_LEN; k++) {
        w->a.buf[k]++;
    }
    end_post_send(&w->active[i], WQE_RDMA_WRITE, 0, WRITE_LEN, &w->b, AT);
}

static void expect_write(struct world *w)
{
    struct cqe cqe = device_poll(&w->a);
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_int_equal(cqe.opcode, WC_RDMA_WRITE);
}

static void post_one(struct world *w, unsigned i)
{
    is_writing ? post_write(w, i) : post_read(w, i);
}

static void expect_one(struct world *w)
{
    is_writing ? expect_write(w) : expect_read(w);
}

// Likewise.
static void push_one(struct world *w, unsigned i)
{
    uint64_t before = device_count(&w->a, "local.pushes");
    instant_ns deadline_ns = host_clock(NULL) + DEVICE_PATIENCE_NS;
    while (device_count(&w->a, "local.pushes") == before) {
        assert_true(host_clock(NULL) < deadline_ns);
        post_write(w, i);
        expect_write(w);
        pause_ms(1); // the peer's thread goes to sleep
    }
}

// One whose copy has begun in a thread of the program's, and stays there.
static void *begin_held(void *arg)
{
    struct world *w = arg;
    post_one(w, 0);
    return NULL;
}

static pthread_t hold_one(struct world *w)
{
    pthread_t thread;
    is_writing ? push_one(w, 0) : pull_one(w, 0);
    atomic_store(&is_held, true);
    for (;;) {
        assert_int_equal(pthread_create(&thread, NULL, begin_held, w), 0);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        if (sem_timedwait(&begun, &until) == 0) {
            break;
        }
        pthread_join(thread, NULL); // it went by the stream
        expect_one(w);
    }
    atomic_store(&is_held, false);
    return thread;
}

static void go_on(pthread_t thread)
{
    sem_post(&may_go_on);
    pthread_join(thread, NULL);
}

/* ---- what comes ------------------------------------------------------------------------------ */

static void octets_come_without_the_peers_help(void **state)
{
    struct world *w = *state;
    pull_one(w, 0);
    assert_true(device_count(&w->a, "pulled_reads") > 0);
    assert_int_equal(device_count(&w->b, "pulled_reads"), 0);
}

static void octets_go_without_the_peers_help(void **state)
{
    struct world *w = *state;
    push_one(w, 0);
    assert_true(device_count(&w->a, "pushed_writes") > 0);
    assert_memory_equal(w->b.buf + AT, w->a.buf, WRITE_LEN);
}

// All that a Write has brought, to its last octet, whichever way either goes.
static void a_read_sees_the_writes_before_it(void **state)
{
    struct world *w = *state;
    pull_one(w, 0);
    for (uint32_t len = 1; len <= 4096; len += 1 + len / 16) {
        for (uint32_t i = 0; i < len; i++) {
            w->a.buf[i] = (uint8_t)(i + len);
        }
        memset(w->a.buf + 3 * AT, 0, len);
        end_post_send(&w->active[0], WQE_RDMA_WRITE, 0, len, &w->b, AT);
        end_post_send(&w->active[0], WQE_RDMA_READ, 3 * AT, len, &w->b, AT);
        assert_int_equal(device_poll(&w->a).opcode, WC_RDMA_WRITE);
        assert_int_equal(device_poll(&w->a).opcode, WC_RDMA_READ);
        assert_memory_equal(w->a.buf + 3 * AT, w->a.buf, len);
    }
}

// Who spins on memory sees the last octet behind all others, whichever way the Write goes.
static void a_write_of_any_length_is_whole_when_its_last_octet_is_there(void **state)
{
    struct world *w = *state;
    push_one(w, 0);
    for (uint32_t len = 1; len <= DEVICE_BUF_LEN / 2; len += 1 + len / 64) {
        const uint8_t octet = (uint8_t)(len % 255 + 1);
        const uint8_t *at = w->b.buf + len % 9;
        memset(w->b.buf, 0, len + 9);
        memset(w->a.buf, octet, len);
        end_post_send(&w->active[0], WQE_RDMA_WRITE, 0, len, &w->b, len % 9);
        instant_ns deadline_ns = host_clock(NULL) + DEVICE_PATIENCE_NS;
        while (__atomic_load_n(&at[len - 1], __ATOMIC_ACQUIRE) != octet) {
            assert_true(host_clock(NULL) < deadline_ns);
        }
        for (uint32_t i = 0; i < len; i++) {
            assert_int_equal(__atomic_load_n(&at[i], __ATOMIC_RELAXED), octet);
        }
        expect_write(w);
    }
    assert_true(device_count(&w->a, "local.pushes") > 1);
}

static void a_key_that_is_taken_back_during_the_copy_fails_the_read(void **state)
{
    struct world *w = *state;
    pthread_t thread = hold_one(w);
    uint32_t stag = w->b.stag;
    assert_int_equal(rnic_region_deregister(w->b.rnic, stag), 0); // waits for nobody
    go_on(thread);
    assert_int_equal(device_poll(&w->a).status, WC_REM_ACCESS_ERR);
    assert_int_equal(rnic_region_register(w->b.rnic, w->b.pd, w->b.buf, DEVICE_BUF_LEN,
                                          (uintptr_t)w->b.buf, MEM_ACCESS_REMOTE_READ, &w->b.stag),
                     0);
}

/* ---- who copies ------------------------------------------------------------------------------ */

static uint64_t pulls(struct world *w)
{
    return device_count(&w->a, "local.pulls");
}

static uint64_t requests(struct world *w)
{
    return device_count(&w->a, "out.rdma_read_request.messages");
}

// Time stands still, long behind the last copy.
static void stop_clock(struct world *w)
{
    struct shard *shard = &w->a.rnic->shard;
    pull_one(w, 0);
    atomic_store(&stopped_ns, host_clock(NULL) + NS_PER_S);
    shard_lock(shard);
    shard->pull_patience_ns = PULLER_PATIENCE_MIN_NS;
    shard_unlock(shard);
}

// Posted while another thread drives, which then finds the Read, as the background thread does.
static void post_beside_a_driver(struct world *w)
{
    struct shard *shard = &w->a.rnic->shard;
    shard_lock(shard);
    post_read(w, 0);
    shard_run(shard, clock_of(NULL));
    shard_unlock(shard);
}

// As the background thread, which may do the same at any time.
static void pass_after(struct world *w, duration_ns d)
{
    struct shard *shard = &w->a.rnic->shard;
    atomic_fetch_add(&stopped_ns, d);
    shard_lock(shard);
    shard_run(shard, clock_of(NULL));
    shard_unlock(shard);
}

static void what_another_thread_finds_is_left_for_who_polls(void **state)
{
    struct world *w = *state;
    stop_clock(w);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t pulls_before = pulls(w), requests_before = requests(w);
        atomic_fetch_add(&stopped_ns, NS_PER_S);
        memset(w->a.buf + AT, 0, LEN);
        post_beside_a_driver(w);
        expect_read(w);
        assert_int_equal(pulls(w), pulls_before + 1);
        assert_int_equal(requests(w), requests_before);
    }
}

static void what_nobody_comes_for_goes_by_the_stream(void **state)
{
    struct world *w = *state;
    stop_clock(w);
    uint64_t pulls_before = pulls(w), requests_before = requests(w);
    post_beside_a_driver(w);
    pass_after(w, PULLER_PATIENCE_MIN_NS - 1);
    assert_int_equal(requests(w), requests_before);
    pass_after(w, 1);
    assert_int_equal(requests(w), requests_before + 1);
    expect_read(w);
    assert_int_equal(pulls(w), pulls_before);
}

// The background thread wakes up for it by itself.
static void nobody_has_to_look(void **state)
{
    struct world *w = *state;
    stop_clock(w);
    uint64_t requests_before = requests(w);
    instant_ns deadline_ns = host_clock(NULL) + DEVICE_PATIENCE_NS;
    post_beside_a_driver(w);
    while (atomic_load(&w->a.rnic->shard.asleep_until_ns) == 0) {
        assert_true(host_clock(NULL) < deadline_ns);
    }
    atomic_fetch_add(&stopped_ns, PULLER_PATIENCE_MIN_NS);
    assert_true(
        device_waits_for_count(&w->a, "out.rdma_read_request.messages", requests_before + 1));
    expect_read(w);
}

static void who_comes_back_is_waited_for_twice_as_long(void **state)
{
    struct world *w = *state;
    stop_clock(w);
    post_beside_a_driver(w);
    expect_read(w);
    uint64_t requests_before = requests(w);
    post_beside_a_driver(w);
    pass_after(w, 2 * PULLER_PATIENCE_MIN_NS - 1);
    assert_int_equal(requests(w), requests_before);
    pass_after(w, 1);
    assert_int_equal(requests(w), requests_before + 1);
    expect_read(w);
    post_beside_a_driver(w); // and not so long behind that
    pass_after(w, PULLER_PATIENCE_MIN_NS);
    assert_int_equal(requests(w), requests_before + 2);
    expect_read(w);
}

// Those who only peek hold a lock that a copy may not be made under.
static void who_cannot_copy_does_not_wait_for_who_can(void **state)
{
    struct world *w = *state;
    stop_clock(w);
    uint64_t requests_before = requests(w);
    post_beside_a_driver(w);
    rnic_cq_poll_begin(w->a.cq);
    rnic_cq_peek(w->a.cq);
    rnic_cq_poll_end(w->a.cq); // then or, if the background thread was at it, soon
    assert_true(
        device_waits_for_count(&w->a, "out.rdma_read_request.messages", requests_before + 1));
    expect_read(w);
}

/* ---- how many calls -------------------------------------------------------------------------- */

static uint64_t pull_calls(struct world *w)
{
    return device_count(&w->a, "local.pull_calls");
}

static void expect_reads(struct world *w, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        expect_read(w);
    }
}

static void reads_that_wait_are_copied_by_one_call(void **state)
{
    struct world *w = *state;
    struct shard *shard = &w->a.rnic->shard;
    stop_clock(w);
    uint64_t pulls_before = pulls(w), calls_before = pull_calls(w);
    memset(w->a.buf + AT, 0, LEN);
    shard_lock(shard);
    for (unsigned i = 0; i < PULL_RUN_MAX; i++) {
        post_read(w, 0);
    }
    shard_run(shard, clock_of(NULL));
    shard_unlock(shard);
    expect_reads(w, PULL_RUN_MAX);
    assert_int_equal(pulls(w), pulls_before + PULL_RUN_MAX);
    assert_int_equal(pull_calls(w), calls_before + 1);
}

// As programs do that keep a queue full: most of what they post waits for their next look.
static void reads_that_are_posted_in_a_row_share_calls(void **state)
{
    struct world *w = *state;
    stop_clock(w);
    uint64_t pulls_before = pulls(w), calls_before = pull_calls(w), requests_before = requests(w);
    enum { ROUNDS = 20 };
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (unsigned k = 0; k < PULL_RUN_MAX; k++) {
            post_read(w, 0);
        }
        expect_reads(w, PULL_RUN_MAX);
    }
    assert_int_equal(pulls(w), pulls_before + ROUNDS * PULL_RUN_MAX);
    assert_int_equal(requests(w), requests_before);
    assert_true(pull_calls(w) - calls_before <= ROUNDS * PULL_RUN_MAX / 2);
}

// Who posts one and waits for it does not wait for others.
static void a_read_alone_is_copied_where_it_is_posted(void **state)
{
    struct world *w = *state;
    stop_clock(w);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t pulls_before = pulls(w), calls_before = pull_calls(w);
        post_read(w, 0);
        expect_read(w);
        assert_int_equal(pulls(w), pulls_before + 1);
        assert_int_equal(pull_calls(w), calls_before + 1);
    }
}

/* ---- a copy that does not come to its end ---------------------------------------------------- */

static void others_go_on_meanwhile(void **state)
{
    struct world *w = *state;
    uint8_t other[64];
    uint32_t stag;
    pthread_t thread = hold_one(w);
    post_one(w, 1);
    expect_one(w); // and so polling is not held up
    end_post_recv(&w->passive[1], 7, 0, 64);
    end_post_send(&w->active[1], WQE_SEND, 0, 64, &w->b, 0);
    assert_int_equal(device_poll(&w->b).status, WC_SUCCESS);
    assert_int_equal(device_poll(&w->a).status, WC_SUCCESS);
    assert_int_equal(rnic_region_register(w->a.rnic, w->a.pd, other, sizeof other, (uintptr_t)other,
                                          MEM_ACCESS_LOCAL_WRITE, &stag),
                     0);
    assert_int_equal(rnic_region_deregister(w->a.rnic, stag), 0);
    go_on(thread);
    expect_one(w);
}

struct call {
    struct world *world;
    void (*make)(struct world *w);
    atomic_bool is_done;
};

static void *call_main(void *arg)
{
    struct call *c = arg;
    c->make(c->world);
    atomic_store(&c->is_done, true);
    return NULL;
}

// While the copy is held it does not return; behind that it does.
static void expect_to_wait(struct world *w, void (*make)(struct world *w))
{
    struct call c = {.world = w, .make = make};
    pthread_t caller, thread = hold_one(w);
    assert_int_equal(pthread_create(&caller, NULL, call_main, &c), 0);
    pause_ms(PATIENCE_MS);
    bool was_done = atomic_load(&c.is_done);
    go_on(thread);
    pthread_join(caller, NULL);
    assert_false(was_done);
}

static void deregister(struct world *w)
{
    assert_int_equal(rnic_region_deregister(w->a.rnic, w->a.stag), 0);
}

static void who_takes_its_memory_back_waits_for_it(void **state)
{
    struct world *w = *state;
    expect_to_wait(w, deregister);
    assert_int_equal(rnic_region_register(w->a.rnic, w->a.pd, w->a.buf, DEVICE_BUF_LEN,
                                          (uintptr_t)w->a.buf, MEM_ACCESS_LOCAL_WRITE, &w->a.stag),
                     0);
}

static void destroy(struct world *w)
{
    end_fini(&w->active[0]);
    w->active[0].qp = NULL;
}

static void who_destroys_its_queue_pair_waits_for_it(void **state)
{
    expect_to_wait(*state, destroy);
}

static void reset(struct world *w)
{
    assert_int_equal(rnic_qp_modify(w->active[0].qp, QP_RESET), 0);
}

static void who_resets_its_queue_pair_waits_for_it(void **state)
{
    expect_to_wait(*state, reset);
}

// Its memory is being written to, or read: it is not the program's before that is over.
static void a_connection_that_ends_flushes_behind_the_copy(void **state)
{
    struct world *w = *state;
    struct cqe cqe;
    pthread_t thread = hold_one(w);
    assert_int_equal(rnic_qp_modify(w->passive[0].qp, QP_ERR), 0);
    end_take(&w->passive[0], RNIC_EP_DISCONNECTED);
    pause_ms(PATIENCE_MS);
    assert_int_equal(rnic_cq_poll(w->a.cq, &cqe, 1), 0);
    go_on(thread);
    assert_int_equal(device_poll(&w->a).status, WC_WR_FLUSH_ERR);
}

/* ---- a peer that dies ------------------------------------------------------------------------ */

enum { KILLS = 12 };

// A process of its own that serves Reads, begun before this one has any device.
struct server {
    pid_t process;
    struct device device; // as far as who connects has to know it
    struct sockaddr_in addr;
};

struct told {
    in_port_t port;
    uint32_t stag;
    uint8_t *buf;
};

static void serve(int fd)
{
    static struct device device;
    static struct end listener, passive;
    struct sockaddr_in addr;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_device(&device);
    memset(device.buf, 0x5a, DEVICE_BUF_LEN);
    end_listen(&listener, &device, &addr);
    const struct told told = {.port = addr.sin_port, .stag = device.stag, .buf = device.buf};
    assert_int_equal(write(fd, &told, sizeof told), sizeof told);
    end_init(&passive, &device);
    end_take_request(&passive, &listener);
    end_accept(&passive);
    for (;;) {
        pause();
    }
}

static void server_begin(struct server *s)
{
    struct told told;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    s->process = fork();
    assert_true(s->process >= 0);
    if (s->process == 0) {
        serve(fds[1]);
    }
    assert_int_equal(read(fds[0], &told, sizeof told), sizeof told);
    close(fds[0]);
    close(fds[1]);
    s->device = (struct device){.stag = told.stag, .buf = told.buf};
    s->addr = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = told.port};
}

static void *kill_soon(void *arg)
{
    const struct server *s = arg;
    pause_ms(2 + (unsigned)s->process % 5);
    kill(s->process, SIGKILL);
    return NULL;
}

// What comes is whole, or says that it is not.
static void read_until_it_is_killed(struct end *e, struct server *s)
{
    struct device *d = e->device;
    unsigned status = WC_SUCCESS;
    pthread_t killer;
    assert_int_equal(pthread_create(&killer, NULL, kill_soon, s), 0);
    while (status == WC_SUCCESS) {
        memset(d->buf, 0, DEVICE_BUF_LEN);
        end_post_send(e, WQE_RDMA_READ, 0, DEVICE_BUF_LEN, &s->device, 0);
        status = device_poll(d).status;
        for (unsigned at = 0; at < DEVICE_BUF_LEN && status == WC_SUCCESS; at += 509) {
            assert_int_equal(d->buf[at], 0x5a);
        }
    }
    pthread_join(killer, NULL);
    assert_int_equal(waitpid(s->process, NULL, 0), s->process);
}

static void a_peer_that_is_killed_is_a_reset(void **state)
{
    static struct server servers[KILLS];
    struct device device;
    atomic_store(&is_held, false);
    for (unsigned i = 0; i < KILLS; i++) {
        server_begin(&servers[i]);
    }
    open_device(&device);
    for (unsigned i = 0; i < KILLS; i++) {
        struct end e;
        end_init(&e, &device);
        end_connect(&e, &servers[i].addr);
        end_take(&e, RNIC_EP_ESTABLISHED);
        read_until_it_is_killed(&e, &servers[i]);
        end_fini(&e);
    }
    assert_true(device_count(&device, "local.pulls") > 0);
    device_close(&device);
}

#define PULL_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
#define PUSH_TEST(test)                                \
    {                                                  \
        "push: " #test, test, begin_writing, end, NULL \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        PULL_TEST(octets_come_without_the_peers_help),
        PULL_TEST(a_read_sees_the_writes_before_it),
        PULL_TEST(a_key_that_is_taken_back_during_the_copy_fails_the_read),
        PULL_TEST(what_another_thread_finds_is_left_for_who_polls),
        PULL_TEST(what_nobody_comes_for_goes_by_the_stream),
        PULL_TEST(nobody_has_to_look),
        PULL_TEST(who_comes_back_is_waited_for_twice_as_long),
        PULL_TEST(who_cannot_copy_does_not_wait_for_who_can),
        PULL_TEST(reads_that_wait_are_copied_by_one_call),
        PULL_TEST(reads_that_are_posted_in_a_row_share_calls),
        PULL_TEST(a_read_alone_is_copied_where_it_is_posted),
        PULL_TEST(others_go_on_meanwhile),
        PULL_TEST(who_takes_its_memory_back_waits_for_it),
        PULL_TEST(who_destroys_its_queue_pair_waits_for_it),
        PULL_TEST(who_resets_its_queue_pair_waits_for_it),
        PULL_TEST(a_connection_that_ends_flushes_behind_the_copy),
        PUSH_TEST(octets_go_without_the_peers_help),
        PUSH_TEST(a_read_sees_the_writes_before_it),
        PUSH_TEST(a_write_of_any_length_is_whole_when_its_last_octet_is_there),
        PUSH_TEST(others_go_on_meanwhile),
        PUSH_TEST(who_takes_its_memory_back_waits_for_it),
        PUSH_TEST(who_destroys_its_queue_pair_waits_for_it),
        PUSH_TEST(who_resets_its_queue_pair_waits_for_it),
        PUSH_TEST(a_connection_that_ends_flushes_behind_the_copy),
        cmocka_unit_test(a_peer_that_is_killed_is_a_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
