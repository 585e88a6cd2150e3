#include "host/control.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cgroup/memory.h"
#include "control/process.h"
#include "descriptor/descriptor.h"
#include "host/clock.h"
#include "host/devices.h"
#include "host/pressure.h"
#include "rnic/reads.h"
#include "rnic/rnic.h"
#include "rnic/stat.h"

enum { REQUEST_MAX_LEN = 64, CONTROL_STACK_LEN = 128 * 1024, CONTROL_BACKLOG = 8 };

struct control {
    struct rnic *_Atomic *rnics; // DEVICE_WIRE_COUNT, NULL where one is not up
    int fd;
    struct pressure pressure;
};
static struct control control = {
    .fd = -1,
    .pressure = {.fds = {-1, -1}, .events = {.fd = -1, .stall_fd = -1}},
};

// Raw system calls, since a preloaded socket library may stand before libc's.
static int control_listen(void)
{
    const struct process self = {.uid = getuid(), .pid = getpid()};
    struct sockaddr_un addr;
    socklen_t len = process_address(&self, &addr);
    int fd =
        descriptor_above_standard((int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd < 0) {
        return -1;
    }
    if (syscall(SYS_bind, fd, &addr, len) != 0 || syscall(SYS_listen, fd, CONTROL_BACKLOG) != 0) {
        syscall(SYS_close, fd);
        return -1;
    }
    return fd;
}

static bool peer_is_allowed(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    return syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == getuid() || peer.uid == 0);
}

// False: it is no command.
static bool reads_command(struct rnic *rnic, const char *request)
{
    unsigned octets;
    char memory[8];
    if (strcmp(request, "reads allotment auto\n") == 0) {
        rnic_reads_release_allotment(rnic);
    } else if (sscanf(request, "reads allotment %10u", &octets) == 1) {
        rnic_reads_set_allotment(rnic, octets);
    } else if (sscanf(request, "reads memory %7s", memory) == 1) {
        rnic_reads_set_memory(rnic, RNIC_MEMORY_TOLD, strcmp(memory, "short") == 0);
    } else {
        return strcmp(request, "reads\n") == 0;
    }
    return true;
}

// Carries out a request at each device and writes its answer. Nothing is written for what is no
// request.
static void serve(const struct control *own, const char *request, FILE *out)
{
    struct rnic *rnics[DEVICE_WIRE_COUNT];
    const unsigned count = devices_up(own->rnics, rnics);
    const bool is_stat = strcmp(request, "stat\n") == 0;
    for (unsigned i = 0; i < count; i++) {
        if (is_stat) {
            stat_write(rnics[i], out);
        } else if (reads_command(rnics[i], request)) {
            stat_write_reads(rnics[i], out);
        }
    }
}

static void answer(const struct control *own, int fd)
{
    // A client that says nothing, or does not read, holds only this thread, and not for long.
    struct timeval limit = {.tv_sec = 2};
    syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    char request[REQUEST_MAX_LEN] = {0};
    long got = syscall(SYS_read, fd, request, sizeof request - 1);
    if (got <= 0) {
        return;
    }
    char *text = NULL;
    size_t text_len = 0;
    FILE *out = open_memstream(&text, &text_len);
    if (out == NULL) {
        return;
    }
    serve(own, request, out);
    fclose(out);
    for (size_t sent = 0; sent < text_len;) {
        long n = syscall(SYS_sendto, fd, text + sent, text_len - sent, MSG_NOSIGNAL, NULL, 0);
        if (n <= 0) {
            break;
        }
        sent += (size_t)n;
    }
    free(text);
}

static void accept_one(struct control *own)
{
    int fd =
        descriptor_above_standard((int)syscall(SYS_accept4, own->fd, NULL, NULL, SOCK_CLOEXEC));
    if (fd < 0) {
        struct timespec pause = {.tv_nsec = 100000000};
        nanosleep(&pause, NULL); // out of descriptors, most likely
        return;
    }
    if (peer_is_allowed(fd)) {
        answer(own, fd);
    }
    syscall(SYS_close, fd);
}

static void pressure_tell(const struct control *own)
{
    struct rnic *rnics[DEVICE_WIRE_COUNT];
    const unsigned count = devices_up(own->rnics, rnics);
    for (unsigned i = 0; i < count; i++) {
        rnic_reads_set_memory(rnics[i], RNIC_MEMORY_SENSED, own->pressure.is_short);
    }
}

static void *control_main(void *arg)
{
    struct control *own = arg;
    for (;;) {
        struct pollfd fds[1 + PRESSURE_SOURCE_COUNT] = {{.fd = own->fd, .events = POLLIN}};
        pressure_poll_set(&own->pressure, fds + 1);
        syscall(SYS_poll, fds, 1 + PRESSURE_SOURCE_COUNT,
                pressure_timeout_ms(&own->pressure, host_clock(NULL)));
        if (pressure_look(&own->pressure, fds + 1, host_clock(NULL))) {
            pressure_tell(own);
        }
        if ((fds[0].revents & POLLIN) != 0) {
            accept_one(own);
        }
    }
    return NULL;
}

void control_start(struct rnic *_Atomic rnics[DEVICE_WIRE_COUNT], bool senses_pressure)
{
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    control.rnics = rnics;
    control.fd = control_listen();
    if (senses_pressure) {
        struct cgroup_memory group;
        cgroup_memory_find("/proc/self", &group);
        pressure_open(&control.pressure, &group);
    }
    if (control.fd < 0 && !pressure_is_told(&control.pressure)) {
        return;
    }
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, CONTROL_STACK_LEN);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, &attr, control_main, &control) != 0) {
        control_abandon();
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
}

void control_abandon(void)
{
    if (control.fd >= 0) {
        syscall(SYS_close, control.fd);
        control.fd = -1;
    }
    pressure_close(&control.pressure);
}
