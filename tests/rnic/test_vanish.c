// A peer that vanishes without a word is found within the peer time-out, its work requests are
// flushed and the program is told; connections on which nothing happens cost no CPU time.
//
// The peer is another process in a network namespace of its own, and vanishes by the cable.

#include <errno.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rnic/ep/ep.h"
#include "tests/rnic/device.h"

enum {
    IDLE_COUNT = 50,
    IDLE_US_MAX = 5000,
    SECONDS_MAX = 10,
    PEER_PORT = 4791,
    STORE_LEN = 4096,
    SEND_LEN = 1024
};

// Without it the kernel would go on for a quarter of an hour, and the test lose its patience.
#define PEER_TIMEOUT_NS (2 * NS_PER_S)

/* ---- idle ------------------------------------------------------------------------------------ */

static uint64_t cpu_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static uint64_t cpu_us_of_a_second(void)
{
    const uint64_t before = cpu_us();
    pause_ms(1000);
    return cpu_us() - before;
}

// On a busy host the threads may come to what is left to do after the connections were made in the
// first of these seconds only.
static void test_idle_connections_use_no_cpu_time(void **state)
{
    static struct end actives[IDLE_COUNT], passives[IDLE_COUNT];
    struct rnic_config config = device_config();
    struct device device;
    struct end listener;
    struct sockaddr_in addr;
    device_open(&device, &config, 10 * NS_PER_S);
    end_listen(&listener, &device, &addr);
    for (unsigned i = 0; i < IDLE_COUNT; i++) {
        end_init(&actives[i], &device);
        end_init(&passives[i], &device);
        ends_connect(&actives[i], &passives[i], &listener, &addr);
        end_post_recv(&passives[i], i, 0, 64);
    }
    uint64_t used = IDLE_US_MAX;
    for (unsigned i = 0; i < SECONDS_MAX && used >= IDLE_US_MAX; i++) {
        used = cpu_us_of_a_second();
    }
    print_message("%u idle connections: %u us of CPU time in a second\n", IDLE_COUNT,
                  (unsigned)used);
    assert_true(used < IDLE_US_MAX);
    for (unsigned i = 0; i < IDLE_COUNT; i++) {
        end_fini(&actives[i]);
        end_fini(&passives[i]);
    }
    end_fini(&listener);
    device_close(&device);
}

/* ---- vanishing ------------------------------------------------------------------------------- */

// Connections when the cable is cut: on one nothing happens, one has work under way, and one is not
// read any more, since the peer's Sends find no receive and the store for them is full.
enum { IDLE, BUSY, PAUSED, END_COUNT };
struct ends {
    struct device device;
    struct end of[END_COUNT];
};

static void ends_open(struct ends *p)
{
    struct rnic_config config = device_config();
    config.rnr_store_len = STORE_LEN;
    config.rnr_timeout_ns = 0;
    device_open(&p->device, &config, PEER_TIMEOUT_NS);
    for (unsigned i = 0; i < END_COUNT; i++) {
        end_init(&p->of[i], &p->device);
    }
}

static void expect_found(struct ends *p)
{
    for (unsigned i = 0; i < END_COUNT; i++) {
        end_take(&p->of[i], RNIC_EP_DISCONNECTED);
        assert_int_equal(rnic_qp_state(p->of[i].qp), QP_ERR);
    }
    assert_int_equal(device_count(&p->device, "by_timeout"), END_COUNT);
}

static void expect_flushed(struct ends *p, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_not_equal(device_poll(&p->device).status, 0);
    }
}

static void ends_close(struct ends *p)
{
    for (unsigned i = 0; i < END_COUNT; i++) {
        end_fini(&p->of[i]);
    }
}

// A line for the shell. False: it failed, or there is no shell.
static bool may_run(const char *command)
{
    char *const argv[] = {"sh", "-c", (char *)(uintptr_t)command, NULL};
    pid_t child;
    int status;
    return posix_spawnp(&child, "sh", NULL, NULL, argv, environ) == 0 &&
           waitpid(child, &status, 0) == child && status == 0;
}

static void run(const char *command)
{
    if (!may_run(command)) {
        fail_msg("%s", command);
    }
}

static void say(int fd)
{
    assert_int_equal(write(fd, "x", 1), 1);
}

static void hear(int fd)
{
    char octet;
    assert_int_equal(read(fd, &octet, 1), 1);
}

// The peer: serves, cuts the cable when it is told to, and finds the other side gone as well.
static void peer_main(int from, int to)
{
    struct ends p;
    struct end listener;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PEER_PORT)};
    hear(from); // the cable is laid
    run("ip addr add 10.9.0.2/24 dev wv1 && ip link set wv1 up");
    ends_open(&p);
    end_listen_at(&listener, &p.device, &at);
    say(to);
    for (unsigned i = 0; i < END_COUNT; i++) {
        end_take_request(&p.of[i], &listener);
        end_accept(&p.of[i]);
        end_take(&p.of[i], RNIC_EP_ESTABLISHED);
        end_post_recv(&p.of[i], i, 0, 64);
    }
    for (unsigned len = 0; len <= STORE_LEN; len += SEND_LEN) {
        end_post_send(&p.of[PAUSED], WQE_SEND, 0, SEND_LEN, NULL, 0);
        assert_int_equal(device_poll(&p.device).status, 0); // the kernel has taken it
    }
    hear(from);
    run("ip link set wv1 down");
    say(to);
    expect_found(&p);
    expect_flushed(&p, END_COUNT);
    ends_close(&p);
    end_fini(&listener);
    device_close(&p.device);
    exit(0);
}

// Where the test may not do what it needs, it says so.
static pid_t peer_start(int *ret_from, int *ret_to)
{
    int up[2], down[2];
    if (unshare(CLONE_NEWNET) != 0) {
        print_message("SKIP: no network namespace of its own: %s\n", strerror(errno));
        skip();
    }
    if (!may_run("ip link set lo up")) {
        print_message("SKIP: ip(8) is not there, or may not change a namespace of ours\n");
        skip();
    }
    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(down), 0);
    pid_t peer = fork();
    assert_true(peer >= 0);
    if (peer == 0) {
        assert_int_equal(unshare(CLONE_NEWNET), 0);
        say(up[1]);
        peer_main(down[0], up[1]);
    }
    *ret_from = up[0];
    *ret_to = down[1];
    return peer;
}

static void test_peer_that_vanishes_is_found(void **state)
{
    int from, to, status;
    char command[128];
    struct ends p;
    const struct sockaddr_in server = {
        .sin_family = AF_INET, .sin_port = htons(PEER_PORT), .sin_addr = {htonl(0x0a090002)}};
    pid_t peer = peer_start(&from, &to);
    hear(from); // it is in its own namespace
    snprintf(command, sizeof command,
             "ip link add wv0 type veth peer name wv1 netns %d && "
             "ip addr add 10.9.0.1/24 dev wv0 && ip link set wv0 up",
             (int)peer);
    run(command);
    say(to);
    hear(from); // it listens
    ends_open(&p);
    for (unsigned i = 0; i < END_COUNT; i++) {
        end_connect(&p.of[i], &server);
        end_take(&p.of[i], RNIC_EP_ESTABLISHED);
    }
    while (!end_is_paused(&p.of[PAUSED])) {
        pause_ms(1);
    }
    say(to);
    hear(from); // the cable is cut
    end_post_send(&p.of[BUSY], WQE_SEND, 0, 32, NULL, 0);
    end_post_send(&p.of[BUSY], WQE_RDMA_READ, 0, 32, &p.device, 0);
    expect_found(&p);
    assert_int_equal(device_poll(&p.device).wr_id, WQE_SEND); // the kernel had taken it
    expect_flushed(&p, 1);
    ends_close(&p);
    device_close(&p.device);
    assert_int_equal(waitpid(peer, &status, 0), peer);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_connections_use_no_cpu_time),
        cmocka_unit_test(test_peer_that_vanishes_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
