#include "node/discovery/envoy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/unit/self.h"

enum { REPORT_BATCH = 64 }; // before others have their turn

static const duration_ns pause_first_ns = 1 * NS_PER_S, pause_last_ns = 60 * NS_PER_S;

extern char **environ;

struct envoy {
    struct loop *loop;
    struct order task;
    envoy_on_report *on_report;
    envoy_on_end *on_end;
    void *ctx;
    struct loop_member member;
    pid_t pid; // 0: none runs
    int pidfd, channel;
    struct loop_watch *exit_watch, *channel_watch;
    instant_ns start_at;
    duration_ns pause_ns;
};

/* ---- the end --------------------------------------------------------------------------------- */

static void fd_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

static void process_close(struct envoy *envoy)
{
    loop_unwatch(envoy->exit_watch);
    loop_unwatch(envoy->channel_watch);
    envoy->exit_watch = envoy->channel_watch = NULL;
    fd_close(&envoy->pidfd);
    fd_close(&envoy->channel);
    envoy->pid = 0;
}

static void ended(struct envoy *envoy, const char *how)
{
    process_close(envoy);
    envoy->start_at = instant_after(loop_now(envoy->loop), envoy->pause_ns);
    envoy->pause_ns = envoy->pause_ns * 2 < pause_last_ns ? envoy->pause_ns * 2 : pause_last_ns;
    envoy->on_end(envoy->ctx, how);
}

static void on_exit_of_process(void *ctx, uint32_t events)
{
    struct envoy *envoy = ctx;
    siginfo_t info = {0};
    char how[64] = "its process has ended";
    if (waitid(P_PID, (id_t)envoy->pid, &info, WEXITED) == 0) {
        snprintf(how, sizeof how, "its process was ended by %s %d",
                 info.si_code != CLD_EXITED ? "signal" : "status", info.si_status);
    }
    ended(envoy, how);
}

void envoy_kill(struct envoy *envoy)
{
    if (envoy->pid > 0) {
        kill(envoy->pid, SIGKILL);
    }
    loop_unwatch(envoy->channel_watch); // it is heard no more
    envoy->channel_watch = NULL;
}

void envoy_is_well(struct envoy *envoy)
{
    envoy->pause_ns = pause_first_ns;
}

/* ---- what is said ---------------------------------------------------------------------------- */

static void report_take(struct envoy *envoy, struct report *report)
{
    report->where[sizeof report->where - 1] = '\0';
    report->target[sizeof report->target - 1] = '\0';
    report->text[sizeof report->text - 1] = '\0';
    envoy->on_report(envoy->ctx, report);
}

static void on_channel(void *ctx, uint32_t events)
{
    struct envoy *envoy = ctx;
    struct report report;
    ssize_t got = sizeof report;
    for (unsigned i = 0; i < REPORT_BATCH && envoy->channel_watch != NULL && got > 0; i++) {
        got = recv(envoy->channel, &report, sizeof report, MSG_DONTWAIT);
        if (got == sizeof report) {
            report_take(envoy, &report);
        } else if (got >= 0 || (errno != EAGAIN && errno != EINTR)) {
            envoy_kill(envoy); // its end is told of by the other descriptor
        }
    }
}

static bool send_order(struct envoy *envoy, const struct order *order)
{
    return send(envoy->channel, order, sizeof *order, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof *order;
}

bool envoy_tell(struct envoy *envoy, enum order_kind kind)
{
    const struct order order = {.kind = kind};
    return envoy->pid > 0 && send_order(envoy, &order);
}

/* ---- the beginning --------------------------------------------------------------------------- */

// It has nothing to say to anybody but the host, to whom it says it by the socket.
static int spawn_with(int channel, pid_t *ret_pid)
{
    char *argv[] = {"weft", ENVOY_PROCESS_COMMAND, NULL};
    return self_spawn(
        &(struct self_process){
            .argv = argv, .log_fd = -1, .fds = &channel, .first = ENVOY_FD_CHANNEL, .count = 1},
        ret_pid);
}

static int process_start(struct envoy *envoy)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return -errno;
    }
    envoy->channel = pair[0];
    int theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, ENVOY_FD_CHANNEL + 1);
    close(pair[1]);
    int error = theirs >= 0 ? spawn_with(theirs, &envoy->pid) : -errno;
    fd_close(&theirs);
    if (error != 0) {
        envoy->pid = 0;
        return error;
    }
    envoy->pidfd = (int)syscall(SYS_pidfd_open, envoy->pid, 0);
    envoy->exit_watch = loop_watch(envoy->loop, envoy->pidfd, EPOLLIN, on_exit_of_process, envoy);
    envoy->channel_watch = loop_watch(envoy->loop, envoy->channel, EPOLLIN, on_channel, envoy);
    bool is_good = envoy->exit_watch != NULL && envoy->channel_watch != NULL &&
                   send_order(envoy, &envoy->task);
    return is_good ? 0 : -ENOMEM;
}

static void process_stop(struct envoy *envoy)
{
    if (envoy->pid > 0) {
        kill(envoy->pid, SIGKILL);
        waitpid(envoy->pid, NULL, 0);
    }
    process_close(envoy);
}

static instant_ns next_deadline(void *ctx)
{
    return ((struct envoy *)ctx)->start_at;
}

static void on_deadline(void *ctx, instant_ns now)
{
    struct envoy *envoy = ctx;
    envoy->start_at = INSTANT_NEVER;
    int error = process_start(envoy);
    if (error != 0) {
        process_stop(envoy);
        ended(envoy, strerror(-error));
    }
}

struct envoy *envoy_create(struct loop *loop, const struct order *task, envoy_on_report *on_report,
                           envoy_on_end *on_end, void *ctx)
{
    struct envoy *envoy = calloc(1, sizeof *envoy);
    if (envoy == NULL) {
        return NULL;
    }
    *envoy = (struct envoy){.loop = loop,
                            .task = *task,
                            .on_report = on_report,
                            .on_end = on_end,
                            .ctx = ctx,
                            .pidfd = -1,
                            .channel = -1,
                            .pause_ns = pause_first_ns};
    envoy->member = (struct loop_member){
        .ctx = envoy, .next_deadline = next_deadline, .on_deadline = on_deadline};
    loop_join(loop, &envoy->member);
    return envoy;
}

void envoy_destroy(struct envoy *envoy)
{
    if (envoy == NULL) {
        return;
    }
    loop_leave(envoy->loop, &envoy->member);
    process_stop(envoy);
    free(envoy);
}
