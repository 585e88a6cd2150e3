// Two rsockets are made, connected, used and closed, and the Nth allocation of the program's thread
// fails, for every N: the call that could not be done says ENOMEM, or the connection ends; nothing
// is left behind, and the next pair is as any other.
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/interposed_memory.h"

// Until all is kept that is kept of what has ended: streams (link/rest.h), channels (cm/channel.c).
enum { WARM_LIVES = 300 };
enum { ALLOCATIONS_MAX = 1000, WAIT_MS = 10000, MESSAGE_LEN = 64 };

static struct life {
    int listener, active, passive;
    struct sockaddr_in addr;
    const char *failed; // which step
    bool was_refused;   // an allocation was, whoever made it
} life;

static int waited(int fd, short events)
{
    struct pollfd at = {.fd = fd, .events = events};
    const int count = rpoll(&at, 1, WAIT_MS);
    if (count == 0) {
        fail_msg("nothing comes of it");
    }
    return count > 0 ? 0 : -1;
}

// What became of a connection whose other end had no memory is no matter of errno.
static int ended_or(ssize_t result, ssize_t wanted)
{
    if (result >= 0 && result != wanted) {
        errno = ENOMEM;
    }
    if (errno == ECONNRESET || errno == ECONNREFUSED || errno == ENOTCONN || errno == EPIPE) {
        errno = ENOMEM;
    }
    return result == wanted ? 0 : -1;
}

/* ---- the steps ------------------------------------------------------------------------------- */

static int open_one(int *ret)
{
    *ret = rsocket(AF_INET, SOCK_STREAM, 0);
    return *ret >= 0 ? rfcntl(*ret, F_SETFL, O_NONBLOCK) : -1;
}

static int listener(void)
{
    return open_one(&life.listener);
}

static int bind_listener(void)
{
    socklen_t len = sizeof life.addr;
    life.addr =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return rbind(life.listener, (struct sockaddr *)&life.addr, len) != 0
               ? -1
               : rgetsockname(life.listener, (struct sockaddr *)&life.addr, &len);
}

static int listen_there(void)
{
    return rlisten(life.listener, 1);
}

static int active(void)
{
    return open_one(&life.active);
}

static int connect_active(void)
{
    const int result = rconnect(life.active, (struct sockaddr *)&life.addr, sizeof life.addr);
    return result != 0 && errno == EINPROGRESS ? 0 : ended_or(result, 0);
}

// A request for which there is no memory is refused, and the listener hears nothing of it.
static int accept_passive(void)
{
    struct pollfd at[] = {{.fd = life.listener, .events = POLLIN},
                          {.fd = life.active, .events = POLLOUT}};
    do {
        if (rpoll(at, 2, WAIT_MS) < 0) {
            return -1;
        }
        life.passive = raccept(life.listener, NULL, NULL);
    } while (life.passive < 0 && errno == EAGAIN && (at[1].revents & (POLLERR | POLLHUP)) == 0);
    errno = life.passive < 0 && errno == EAGAIN ? ENOMEM : errno;
    return life.passive < 0 ? -1 : rfcntl(life.passive, F_SETFL, O_NONBLOCK);
}

static int connected(void)
{
    int error = 0;
    socklen_t len = sizeof error;
    if (waited(life.active, POLLOUT) != 0 ||
        rgetsockopt(life.active, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        return -1;
    }
    errno = error;
    return ended_or(error != 0 ? -1 : 0, 0);
}

static int send_there(void)
{
    char octets[MESSAGE_LEN] = {0};
    return ended_or(rsend(life.active, octets, sizeof octets, 0), sizeof octets);
}

static int receive_there(void)
{
    char octets[MESSAGE_LEN];
    return waited(life.passive, POLLIN) != 0
               ? -1
               : ended_or(rrecv(life.passive, octets, sizeof octets, 0), sizeof octets);
}

static const struct step {
    const char *name;
    int (*take)(void);
} steps[] = {
    {"listener", listener},   {"bind", bind_listener},     {"listen", listen_there},
    {"active end", active},   {"connect", connect_active}, {"accept", accept_passive},
    {"connected", connected}, {"send", send_there},        {"receive", receive_there},
};

/* ---- lives ----------------------------------------------------------------------------------- */

static void life_end(void)
{
    const int fds[] = {life.active, life.passive, life.listener};
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0) {
            assert_int_equal(rclose(fds[i]), 0);
        }
    }
}

// Whether it came to its end.
static bool live(uint64_t fails_at)
{
    life = (struct life){.listener = -1, .active = -1, .passive = -1};
    memory_fail_at(fails_at);
    for (const struct step *s = steps; s < steps + sizeof steps / sizeof *steps; s++) {
        errno = 0;
        if (s->take() != 0) {
            life.failed = s->name;
            break;
        }
    }
    const int error = errno;
    life.was_refused = memory_has_failed();
    memory_fail_at(0);
    if (life.failed != NULL && error != ENOMEM) {
        fail_msg("allocation %u: %s: %s", (unsigned)fails_at, life.failed, strerror(error));
    }
    life_end();
    return life.failed == NULL;
}

// What the device's thread gives back comes a moment later.
static void expect_blocks(int64_t count, uint64_t fails_at)
{
    for (unsigned i = 0; i < 2000 && memory_blocks != count; i++) {
        usleep(1000);
    }
    if (memory_blocks != count) {
        fail_msg("allocation %u: %s: %d blocks more", (unsigned)fails_at,
                 life.failed != NULL ? life.failed : "all was done", (int)(memory_blocks - count));
    }
}

static void who_gets_no_memory_says_so_and_keeps_none(void **state)
{
    for (unsigned i = 0; i < WARM_LIVES; i++) {
        assert_true(live(ALLOCATIONS_MAX));
    }
    const int64_t blocks = memory_blocks;
    uint64_t call = 0;
    unsigned failures = 0;
    do {
        failures += !live(++call);
        expect_blocks(blocks, call);
    } while (life.was_refused && call < ALLOCATIONS_MAX);
    assert_false(life.was_refused);
    assert_true(failures > sizeof steps / sizeof *steps);
    assert_true(live(0));
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        setenv("WEFT_WIRE", argv[1], 1);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_gets_no_memory_says_so_and_keeps_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
