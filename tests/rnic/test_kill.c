// Two processes of one host that write to each other, read from each other and send, through memory
// of both and past it, until one of them is killed at a random instant: its connections end as by a
// reset, others go on, and nothing of it is left. WEFT_SOAK=1 makes it 10,000 kills.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/prng.h"
#include "host/clock.h"
#include "link/local/local.h"
#include "link/socket.h"
#include "tests/link/descriptors.h"
#include "tests/rnic/device.h"

enum {
    KILLS = 200,
    KILLS_SOAK = 10000,
    BATCH = 20, // victims that are begun before this process has any thread
    RECEIVES = 16,
    RECEIVE_LEN = 256,
    SENDS_AT = 60 * 1024, // in a buffer: receives; before it what the other side writes and reads
    LONG_LEN = 16 * 1024,
    DELAY_MAX_US = 3000,
};

// How an end finds the memory of the other.
struct told {
    in_port_t port;
    uint32_t stag;
    uint8_t *buf;
};

struct victim {
    pid_t process;
    struct told told;
};

static struct prng prng;

static void open_device(struct device *d)
{
    const struct link_socket_config socket_config = {.peer_timeout_ns = DEVICE_PATIENCE_NS};
    const struct link_local_config local_config = {.ring_len = LINK_LOCAL_RING_LEN,
                                                   .linger_ns = LINK_LOCAL_LINGER_NS,
                                                   .clock = host_clock,
                                                   .rights = KEY_MAY_READ | KEY_MAY_WRITE};
    struct rnic_parts parts = {.config = device_config(), .clock = host_clock};
    parts.config.crc = false;
    assert_int_equal(link_socket_create(&socket_config, &parts.link), 0);
    assert_int_equal(link_local_wrap(parts.link, &local_config, &parts.link), 0);
    assert_int_equal(getrandom(parts.stag_key, sizeof parts.stag_key, 0), sizeof parts.stag_key);
    device_open_parts(d, &parts);
}

static struct device device_of(const struct told *told)
{
    return (struct device){.stag = told->stag, .buf = told->buf};
}

static void post_receives(struct end *e)
{
    for (unsigned i = 0; i < RECEIVES; i++) {
        end_post_recv(e, i, SENDS_AT + i * RECEIVE_LEN, RECEIVE_LEN);
    }
}

/* ---- traffic --------------------------------------------------------------------------------- */

// One of what programs do. False: the connection is over.
static bool step(struct end *e, const struct device *peer, struct prng *own)
{
    static const struct {
        enum wqe_opcode opcode;
        uint32_t len;
    } kinds[] = {{WQE_RDMA_WRITE, 64}, {WQE_RDMA_WRITE, 4096},    {WQE_RDMA_WRITE, LONG_LEN},
                 {WQE_RDMA_READ, 512}, {WQE_RDMA_READ, LONG_LEN}, {WQE_SEND, 64}};
    const unsigned kind = (unsigned)prng_below(own, sizeof kinds / sizeof *kinds);
    end_post_send(e, kinds[kind].opcode, 0, kinds[kind].len, peer, LONG_LEN);
    for (;;) {
        struct cqe cqe = device_poll(e->device);
        if (cqe.status != WC_SUCCESS) {
            return false;
        }
        if (cqe.opcode != WC_RECV) {
            return true;
        }
        uint32_t i = (uint32_t)cqe.wr_id;
        end_post_recv(e, i, SENDS_AT + i * RECEIVE_LEN, RECEIVE_LEN);
    }
}

// Who is killed: learns where the other's memory is by the first Send.
static void be_victim(int fd)
{
    static struct device device;
    static struct end listener, passive;
    struct sockaddr_in addr;
    struct told peer;
    struct prng own;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prng_init(&own, (uint64_t)getpid());
    open_device(&device);
    end_listen(&listener, &device, &addr);
    const struct told told = {.port = addr.sin_port, .stag = device.stag, .buf = device.buf};
    assert_int_equal(write(fd, &told, sizeof told), sizeof told);
    end_init(&passive, &device);
    post_receives(&passive);
    while (!end_has_event(&listener)) { // its turn comes when those before it have been killed
        pause_ms(1);
    }
    end_take_request(&passive, &listener);
    end_accept(&passive);
    struct cqe first = device_poll(&device);
    memcpy(&peer, device.buf + SENDS_AT + first.wr_id * RECEIVE_LEN, sizeof peer);
    end_post_recv(&passive, first.wr_id, SENDS_AT + (uint32_t)first.wr_id * RECEIVE_LEN,
                  RECEIVE_LEN);
    const struct device remote = device_of(&peer);
    while (step(&passive, &remote, &own)) {
    }
    for (;;) {
        pause();
    }
}

static void victim_begin(struct victim *v)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    v->process = fork();
    assert_true(v->process >= 0);
    if (v->process == 0) {
        be_victim(fds[1]);
    }
    assert_int_equal(read(fds[0], &v->told, sizeof v->told), sizeof v->told);
    close(fds[0]);
    close(fds[1]);
}

/* ---- the kill -------------------------------------------------------------------------------- */

struct sentence {
    pid_t process;
    duration_ns after_ns;
};

static void *execute(void *arg)
{
    const struct sentence *s = arg;
    instant_ns until_ns = instant_after(host_clock(NULL), s->after_ns);
    while (host_clock(NULL) < until_ns) {
    }
    kill(s->process, SIGKILL);
    return NULL;
}

static void tell_where(struct end *e)
{
    struct device *d = e->device;
    const struct told own = {.stag = d->stag, .buf = d->buf};
    memcpy(d->buf, &own, sizeof own);
    end_post_send(e, WQE_SEND, 0, sizeof own, d, 0);
    assert_int_equal(device_poll(d).status, WC_SUCCESS);
}

static void work_until_it_is_killed(struct device *d, const struct victim *v)
{
    const struct sockaddr_in addr = {
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = v->told.port};
    const struct device remote = device_of(&v->told);
    struct sentence sentence = {v->process, prng_below(&prng, DELAY_MAX_US * NS_PER_US)};
    pthread_t executioner;
    struct end e;
    end_init(&e, d);
    post_receives(&e);
    end_connect(&e, &addr);
    end_take(&e, RNIC_EP_ESTABLISHED);
    tell_where(&e);
    assert_int_equal(pthread_create(&executioner, NULL, execute, &sentence), 0);
    while (step(&e, &remote, &prng)) {
    }
    pthread_join(executioner, NULL);
    assert_int_equal(waitpid(v->process, NULL, 0), v->process);
    end_take(&e, RNIC_EP_DISCONNECTED);
    end_fini(&e);
    struct cqe cqe;
    while (rnic_cq_poll(d->cq, &cqe, 1) > 0) { // the others are flushed, too
    }
}

// Another connection of the same device, to a process that lives.
static void a_batch_of_kills(struct victim *victims, uint64_t *passed)
{
    struct device device, other;
    struct end listener, active, passive;
    struct sockaddr_in addr;
    for (unsigned i = 0; i < BATCH; i++) {
        victim_begin(&victims[i]);
    }
    open_device(&device);
    open_device(&other);
    end_listen(&listener, &other, &addr);
    end_init(&active, &device);
    end_init(&passive, &other);
    ends_connect(&active, &passive, &listener, &addr);
    for (unsigned i = 0; i < BATCH; i++) {
        work_until_it_is_killed(&device, &victims[i]);
        end_post_send(&active, WQE_RDMA_WRITE, 0, LONG_LEN, &other, 0);
        end_post_send(&active, WQE_RDMA_READ, LONG_LEN, LONG_LEN, &other, 0);
        assert_int_equal(device_poll(&device).status, WC_SUCCESS);
        assert_int_equal(device_poll(&device).status, WC_SUCCESS);
        assert_memory_equal(device.buf, device.buf + LONG_LEN, LONG_LEN);
    }
    passed[0] += device_count(&device, "local.pulls");
    passed[1] += device_count(&device, "local.pushes");
    assert_int_equal(device_count(&device, "local.broken"), 0);
    end_fini(&active);
    end_fini(&passive);
    end_fini(&listener);
    device_close(&device);
    device_close(&other);
}

static void a_peer_that_is_killed_anywhere_is_a_reset_and_leaves_nothing(void **state)
{
    static struct victim victims[BATCH];
    const unsigned count = getenv("WEFT_SOAK") != NULL ? KILLS_SOAK : KILLS;
    uint64_t passed[2] = {0};
    prng_init(&prng, 12);
    descriptors_note();
    for (unsigned i = 0; i < count; i += BATCH) {
        a_batch_of_kills(victims, passed);
        descriptors_check();
    }
    assert_true(passed[0] > 0 && passed[1] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_is_killed_anywhere_is_a_reset_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
