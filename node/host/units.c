// Processes of RTAs: this program again, with a bus, a socket and two bells.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "node/bus/ring.h"
#include "node/cta/cta.h"
#include "node/host/agent.h"
#include "node/host/config.h"
#include "node/host/host.h"
#include "node/loop/loop.h"
#include "node/uma/uma.h"
#include "node/unit/channel.h"
#include "node/unit/process.h"
#include "node/unit/runner.h"
#include "node/unit/segment.h"
#include "node/unit/self.h"

enum { MESSAGE_BATCH = 64 }; // of one unit, before others have their turn

extern char **environ;

/* ---- the bus --------------------------------------------------------------------------------- */

static bool port_send(void *ctx, const struct frame *frame)
{
    struct host_unit *unit = ctx;
    return unit->is_running && bus_send(&unit->bus, frame);
}

static void port_ring(void *ctx)
{
    struct host_unit *unit = ctx;
    if (unit->is_running && bus_should_ring(&unit->bus)) {
        ssize_t written = write(unit->bell_rta, "", 1);
        (void)written; // a full pipe rings as well
    }
}

static bool port_receive(void *ctx, struct frame *ret)
{
    struct host_unit *unit = ctx;
    return unit->is_running && bus_receive(&unit->bus, ret);
}

struct frame_port host_unit_bus(void *ctx, uint32_t number)
{
    struct host *host = ctx;
    host->units[number].host = host;
    host->units[number].number = number;
    host->unit_end = host->unit_end > number ? host->unit_end : number + 1;
    return (struct frame_port){
        .ctx = &host->units[number], .send = port_send, .ring = port_ring, .receive = port_receive};
}

static void on_bell(void *ctx, uint32_t events)
{
    // Watched by edges; the end of the batch looks at the bus.
}

void host_units_receive(struct host *host, instant_ns now)
{
    for (unsigned i = 0; i < host->unit_end; i++) {
        struct host_unit *unit = &host->units[i];
        if (!unit->is_running) {
            continue;
        }
        cta_on_bus(host->cta, i, now);
        if (unit->is_running && bus_is_broken(&unit->bus)) {
            uma_for_cta.on_unit_broken(host->uma, i, "it spoiled the bus");
        }
    }
}

bool host_units_sleep(struct host *host)
{
    bool may_sleep = true;
    for (unsigned i = 0; i < host->unit_end; i++) {
        if (host->units[i].is_running) {
            may_sleep &= bus_sleep(&host->units[i].bus);
        }
    }
    return may_sleep;
}

void host_units_wake(struct host *host)
{
    for (unsigned i = 0; i < host->unit_end; i++) {
        if (host->units[i].is_running) {
            bus_wake(&host->units[i].bus);
        }
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void fd_close(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

static void unit_close(struct host_unit *unit)
{
    unit->is_running = false;
    loop_unwatch(unit->exit_watch);
    loop_unwatch(unit->channel_watch);
    loop_unwatch(unit->bell_watch);
    unit->exit_watch = unit->channel_watch = unit->bell_watch = NULL;
    host_unit_log_close(unit);
    fd_close(unit->pidfd);
    fd_close(unit->channel);
    fd_close(unit->bell_rta);
    fd_close(unit->bell_cta);
    unit->pidfd = unit->channel = unit->bell_rta = unit->bell_cta = -1;
    segment_close(&unit->bus_memory);
    unit->pid = 0;
}

static void on_exit_of_process(void *ctx, uint32_t events)
{
    struct host_unit *unit = ctx;
    struct host *host = unit->host;
    siginfo_t info = {0};
    char how[64] = "its process has ended";
    if (waitid(P_PID, (id_t)unit->pid, &info, WEXITED) == 0) {
        bool is_signal = info.si_code != CLD_EXITED;
        snprintf(how, sizeof how, "its process was ended by %s %d", is_signal ? "signal" : "status",
                 info.si_status);
    }
    unit_close(unit);
    uma_on_exit(host->uma, unit->number, how, loop_now(host->loop));
}

static void on_runner_end(void *ctx)
{
    struct host_unit *unit = ctx;
    eventfd_write(unit->pidfd, 1); // ended from the loop, not from within the runner
}

static void on_exit_of_runner(void *ctx, uint32_t events)
{
    struct host_unit *unit = ctx;
    struct host *host = unit->host;
    runner_destroy(unit->runner);
    unit->runner = NULL;
    unit_close(unit);
    uma_on_exit(host->uma, unit->number, "ended", loop_now(host->loop));
}

void host_unit_kill(void *ctx, uint32_t number)
{
    struct host_unit *unit = &((struct host *)ctx)->units[number];
    if (unit->pid > 0) {
        kill(unit->pid, SIGKILL);
    } else if (unit->runner != NULL) {
        eventfd_write(unit->pidfd, 1);
    }
}

// At once, wherever it lives; nobody is told.
static void rta_end(struct host_unit *unit)
{
    if (unit->runner != NULL) {
        runner_destroy(unit->runner);
        unit->runner = NULL;
    }
    if (unit->pid > 0) {
        kill(unit->pid, SIGKILL);
        waitpid(unit->pid, NULL, 0);
    }
}

void host_units_close(struct host *host)
{
    for (unsigned i = 0; i < host->unit_end; i++) {
        rta_end(&host->units[i]);
        if (host->units[i].is_running) {
            unit_close(&host->units[i]);
        }
    }
}

/* ---- the socket ------------------------------------------------------------------------------ */

int host_unit_send(void *ctx, uint32_t number, const struct unit_message *message, int keepsake)
{
    struct host_unit *unit = &((struct host *)ctx)->units[number];
    if (!unit->is_running || unit->channel_watch == NULL) {
        return -EPIPE;
    }
    int error = channel_send(unit->channel, message, keepsake);
    if (error == -EAGAIN) {
        loop_watch_change(unit->channel_watch, EPOLLIN | EPOLLOUT);
    }
    return error;
}

// What a DDM hands over for its successor is memory: other descriptors could do anything when they
// are used or closed.
static bool is_memory(int fd)
{
    return fcntl(fd, F_GET_SEALS) >= 0;
}

// No process of weft says such things: it is listened to no longer.
static void break_unit(struct host_unit *unit, const char *why)
{
    loop_unwatch(unit->channel_watch);
    unit->channel_watch = NULL;
    uma_for_cta.on_unit_broken(unit->host->uma, unit->number, why);
}

static void on_message(struct host_unit *unit, const struct unit_message *message, int fd)
{
    bool is_window = fd >= 0 && message->is_window != 0;
    if (fd >= 0 && !is_window && !is_memory(fd)) {
        channel_drop(fd);
        break_unit(unit, "it handed over a descriptor that is no memory");
        return;
    }
    uma_on_message(unit->host->uma, unit->number, message, is_window ? host_window_open(fd) : fd,
                   loop_now(unit->host->loop));
}

static void on_channel(void *ctx, uint32_t events)
{
    struct host_unit *unit = ctx;
    struct host *host = unit->host;
    struct unit_message message;
    int keepsake = -1, got = 1;
    if ((events & EPOLLOUT) != 0) {
        loop_watch_change(unit->channel_watch, EPOLLIN);
        uma_on_writable(host->uma, unit->number, loop_now(host->loop));
    }
    for (unsigned i = 0; i < MESSAGE_BATCH && unit->channel_watch != NULL && got > 0; i++) {
        got = channel_receive(unit->channel, &message, &keepsake);
        if (got > 0) {
            on_message(unit, &message, keepsake);
        }
    }
    if (unit->channel_watch == NULL || got > 0 || got == -EAGAIN || got == -EINTR) {
        return;
    }
    if (got == -EPROTO) {
        break_unit(unit, "it sent what is no message, or descriptors that it may not send");
        return;
    }
    loop_unwatch(unit->channel_watch);
    unit->channel_watch = NULL;
    host_unit_kill(host, unit->number);
}

/* ---- the beginning --------------------------------------------------------------------------- */

// A copy that is above the numbers which the process is to have.
static int raise_fd(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, UNIT_FD_END);
}

static int spawn_with(struct host_unit *unit, const int sources[], int log, pid_t *ret_pid)
{
    struct uma_unit_status status;
    uma_unit_status(unit->host->uma, unit->number, &status);
    char *argv[] = {"weft", UNIT_PROCESS_COMMAND, (char *)status.name, NULL};
    return self_spawn(&(struct self_process){.argv = argv,
                                             .log_fd = log,
                                             .fds = sources,
                                             .first = UNIT_FD_CHANNEL,
                                             .count = UNIT_FD_END - UNIT_FD_CHANNEL},
                      ret_pid);
}

static int process_spawn(struct host_unit *unit, int channel, int bell_rta)
{
    int sources[] = {raise_fd(channel), raise_fd(unit->host->pool.parts[unit->number].fd),
                     raise_fd(unit->bus_memory.fd), raise_fd(bell_rta), raise_fd(unit->bell_cta)};
    int log = host_unit_log_open(unit);
    bool has_all = log >= 0;
    for (unsigned i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        has_all &= sources[i] >= 0;
    }
    int error = has_all ? spawn_with(unit, sources, log, &unit->pid) : -EMFILE;
    for (unsigned i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        fd_close(sources[i]);
    }
    fd_close(log);
    close(channel);
    close(bell_rta);
    if (error != 0) {
        unit->pid = 0;
        return error;
    }
    unit->pidfd = (int)syscall(SYS_pidfd_open, unit->pid, 0);
    unit->exit_watch = loop_watch(unit->host->loop, unit->pidfd, EPOLLIN, on_exit_of_process, unit);
    return unit->exit_watch != NULL ? 0 : -ENOMEM;
}

static int runner_spawn(struct host_unit *unit, int channel, int bell_rta)
{
    struct runner_parts parts = {.loop = unit->host->loop,
                                 .channel = channel,
                                 .bell_rta = bell_rta,
                                 .bell_cta = raise_fd(unit->bell_cta),
                                 .pool = unit->host->pool.parts[unit->number],
                                 .bus = unit->bus_memory,
                                 .is_in_host = true,
                                 .on_end = on_runner_end,
                                 .ctx = unit};
    unit->pidfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    unit->exit_watch = loop_watch(unit->host->loop, unit->pidfd, EPOLLIN, on_exit_of_runner, unit);
    unit->runner = runner_create(&parts);
    return unit->runner != NULL && unit->exit_watch != NULL ? 0 : -ENOMEM;
}

// The other side may do what it likes to a descriptor that is of one file description with the
// host's: let it block, fill it. So the host rings by a pipe, whose writing end is its own alone,
// and of the other bell it only asks whether it rings.
static int connections_make(struct host_unit *unit, int *ret_channel, int *ret_bell_rta)
{
    int pair[2] = {-1, -1}, bell[2] = {-1, -1};
    unit->pidfd = unit->channel = unit->bell_rta = unit->bell_cta = -1;
    int error = channel_pair(pair);
    if (error == 0 && pipe2(bell, O_CLOEXEC | O_NONBLOCK) != 0) {
        error = -errno;
    }
    unit->channel = pair[0];
    unit->bell_rta = bell[1];
    unit->bell_cta = error == 0 ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    if (error == 0 && unit->bell_cta < 0) {
        error = -errno;
    }
    if (error == 0) {
        error = segment_create("weft-bus", sizeof(struct bus_memory), &unit->bus_memory);
    }
    if (error != 0) {
        fd_close(pair[1]);
        fd_close(bell[0]);
        unit_close(unit);
        return error;
    }
    *ret_channel = pair[1];
    *ret_bell_rta = bell[0];
    return 0;
}

static bool is_in_host(const struct host *host, uint32_t number)
{
    struct uma_unit_status status;
    return host->config->rta == HOST_RTA_HOST || (uma_unit_status(host->uma, number, &status) &&
                                                  strcmp(status.name, CONFIG_HOST_UNIT) == 0);
}

int host_unit_spawn(void *ctx, uint32_t number)
{
    struct host *host = ctx;
    struct host_unit *unit = &host->units[number];
    int channel, bell_rta;
    int error = connections_make(unit, &channel, &bell_rta);
    if (error != 0) {
        return error;
    }
    bus_end_init(&unit->bus, unit->bus_memory.ptr, true);
    unit->is_running = true;
    unit->channel_watch = loop_watch(host->loop, unit->channel, EPOLLIN, on_channel, unit);
    unit->bell_watch = loop_watch(host->loop, unit->bell_cta, EPOLLIN | EPOLLET, on_bell, unit);
    error = is_in_host(host, number) ? runner_spawn(unit, channel, bell_rta)
                                     : process_spawn(unit, channel, bell_rta);
    if (error == 0 && (unit->channel_watch == NULL || unit->bell_watch == NULL)) {
        error = -ENOMEM;
    }
    if (error != 0) {
        rta_end(unit);
        unit_close(unit);
    }
    return error;
}
