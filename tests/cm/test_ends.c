// How a process ends whose connections are those of the RoCE device: its peers are told, as a
// card's kernel tells them, whether it exits, leaves by _exit or is killed.

#include <errno.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"
#include "tests/verbs/roce.h"

enum { PEER_TIMEOUT_S = 60, TOLD_TIMEOUT_MS = 20000, QUIET_MS = 50 };

/* ---- the peer, in a process of its own ------------------------------------------------------- */

// Connects, and ends as it is to, when it is told to.
static int peer(const char *addr, const char *port, const char *how)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = (in_addr_t)strtoul(addr, NULL, 16),
        .sin_port = (in_port_t)strtoul(port, NULL, 16),
    };
    struct rdma_cm_id *id;
    alarm(PEER_TIMEOUT_S);
    sigset_t end;
    int which;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigprocmask(SIG_BLOCK, &end, NULL);
    if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0 ||
        rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000) != 0 ||
        rdma_resolve_route(id, 1000) != 0) {
        return 1;
    }
    qp_open(id);
    if (rdma_connect(id, NULL) != 0) {
        return 2;
    }
    if (strcmp(how, "answered") == 0) {
        struct rdma_cm_event *event;
        _exit(rdma_get_cm_event(id->channel, &event) == 0 &&
                      event->event == RDMA_CM_EVENT_DISCONNECTED
                  ? 0
                  : 3);
    }
    sigwait(&end, &which);
    if (strcmp(how, "_exit") == 0) {
        _exit(0);
    }
    return 0;
}

static pid_t peer_start(struct sockaddr_in to, const char *how)
{
    char addr[16], port[16];
    snprintf(addr, sizeof addr, "%x", to.sin_addr.s_addr);
    snprintf(port, sizeof port, "%x", to.sin_port);
    const pid_t pid = fork();
    if (pid == 0) {
        setenv("WEFT_WIRE", "roce", 1);
        execl("/proc/self/exe", "test_ends", addr, port, how, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void peer_end(pid_t pid, int signal)
{
    assert_int_equal(kill(pid, signal), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- the listener ---------------------------------------------------------------------------- */

static struct end listener;
static struct sockaddr_in at;

static int listener_make(void **state)
{
    union ibv_gid gid;
    struct ibv_context *context = roce_open();
    assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
    at.sin_family = AF_INET;
    memcpy(&at.sin_addr, gid.raw + 12, sizeof at.sin_addr);
    assert_int_equal(ibv_close_device(context), 0);
    listener.channel = rdma_create_event_channel();
    assert_non_null(listener.channel);
    assert_int_equal(rdma_create_id(listener.channel, &listener.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(listener.id, (struct sockaddr *)&at), 0);
    assert_int_equal(rdma_listen(listener.id, 0), 0);
    at.sin_port = rdma_get_src_port(listener.id);
    return 0;
}

static int listener_end(void **state)
{
    end_close(&listener);
    return 0;
}

static struct end accepted(void)
{
    struct rdma_cm_event *event = event_expect(listener.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct end passive = {.id = event->id};
    rdma_ack_cm_event(event);
    qp_open(passive.id);
    assert_int_equal(rdma_accept(passive.id, NULL), 0);
    assert_int_equal(event_take(listener.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    return passive;
}

static bool is_told_anything(int timeout_ms)
{
    struct pollfd it = {.fd = listener.channel->fd, .events = POLLIN};
    return poll(&it, 1, timeout_ms) == 1;
}

// Of this connection, and no other.
static void expect_disconnected(const struct end *passive)
{
    assert_true(is_told_anything(TOLD_TIMEOUT_MS));
    struct rdma_cm_event *event = event_expect(listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    assert_ptr_equal(event->id, passive->id);
    rdma_ack_cm_event(event);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_the_peer_of_a_process_that_is_killed_is_told(void **state)
{
    const pid_t pid = peer_start(at, "exit");
    struct end passive = accepted();
    peer_end(pid, SIGKILL);
    expect_disconnected(&passive);
    end_close(&passive);
}

static void test_the_peer_of_a_process_that_leaves_by__exit_is_told(void **state)
{
    const pid_t pid = peer_start(at, "_exit");
    struct end passive = accepted();
    peer_end(pid, SIGTERM);
    expect_disconnected(&passive);
    end_close(&passive);
}

// It says so itself, where nobody else is there to do it, and waits for the answer: that is among
// what it has counted at its very end.
static bool has_counted(const char *stats_path, const char *what)
{
    static char text[1 << 16];
    FILE *f = fopen(stats_path, "re");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return strstr(text, what) != NULL;
}

static void test_the_peer_of_a_process_that_exits_is_told(void **state)
{
    char path[] = "/tmp/weft-test-ends-XXXXXX";
    close(mkstemp(path));
    setenv("WEFT_STATS_FILE", path, 1);
    const pid_t pid = peer_start(at, "exit");
    struct end passive = accepted();
    peer_end(pid, SIGTERM);
    unsetenv("WEFT_STATS_FILE");
    expect_disconnected(&passive);
    assert_true(has_counted(path, "\"cm.received.drep\":1"));
    unlink(path);
    end_close(&passive);
}

// Nobody is there to say it again by the peer's time.
static void test_the_peer_of_a_process_that_exits_is_told_though_it_is_lost_twice(void **state)
{
    char path[] = "/tmp/weft-test-ends-XXXXXX";
    close(mkstemp(path));
    setenv("WEFT_STATS_FILE", path, 1);
    setenv("WEFT_FAULT", "loss=60%,side=out,seed=9", 1); // the third and fourth that it sends
    const pid_t pid = peer_start(at, "exit");
    unsetenv("WEFT_FAULT");
    struct end passive = accepted();
    peer_end(pid, SIGTERM);
    unsetenv("WEFT_STATS_FILE");
    expect_disconnected(&passive);
    assert_false(has_counted(path, "\"cm.sent.dreq\":1")); // nor 2: they were lost
    assert_false(has_counted(path, "\"cm.sent.dreq\":2"));
    assert_true(has_counted(path, "\"cm.received.drep\":1"));
    unlink(path);
    end_close(&passive);
}

static void test_of_two_processes_the_one_that_lives_keeps_its_connection(void **state)
{
    const pid_t first = peer_start(at, "exit");
    struct end one = accepted();
    const pid_t second = peer_start(at, "exit");
    struct end other = accepted();
    peer_end(first, SIGKILL);
    expect_disconnected(&one);
    end_close(&one);
    assert_false(is_told_anything(QUIET_MS));
    peer_end(second, SIGKILL);
    expect_disconnected(&other);
    end_close(&other);
}

// Its answer is lost with it, and what asks for it again comes to us: who is left on the host says
// that nobody is there any more, as a card's kernel does.
static void test_who_disconnects_from_a_process_that_is_gone_is_answered(void **state)
{
    int status = -1;
    setenv("WEFT_FAULT", "delay=400ms,side=out", 1);
    const pid_t pid = peer_start(at, "answered");
    unsetenv("WEFT_FAULT");
    struct end passive = accepted();
    assert_int_equal(rdma_disconnect(passive.id), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    expect_disconnected(&passive);
    end_close(&passive);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_peer_of_a_process_that_is_killed_is_told),
        cmocka_unit_test(test_the_peer_of_a_process_that_leaves_by__exit_is_told),
        cmocka_unit_test(test_the_peer_of_a_process_that_exits_is_told),
        cmocka_unit_test(test_the_peer_of_a_process_that_exits_is_told_though_it_is_lost_twice),
        cmocka_unit_test(test_of_two_processes_the_one_that_lives_keeps_its_connection),
        cmocka_unit_test(test_who_disconnects_from_a_process_that_is_gone_is_answered),
    };
    if (argc == 4) {
        return peer(argv[1], argv[2], argv[3]);
    }
    roce_port_of_own();
    return cmocka_run_group_tests_name("cm/ends", tests, listener_make, listener_end);
}
