// A captive node serves one command and ends with it. The command's environment says where.

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/host/agent.h"
#include "node/loop/loop.h"
#include "node/uma/uma.h"

extern char **environ;

static void on_exit_of_command(void *ctx, uint32_t events)
{
    struct host *host = ctx;
    siginfo_t info = {0};
    int status = EXIT_FAILURE;
    if (waitid(P_PID, (id_t)host->captive_pid, &info, WEXITED) == 0) {
        status = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
    }
    host->captive_pid = 0;
    host_captive_close(host);
    host_end(host, status);
}

// uri: the first volume's, as nbdkit has it; uris: all of them. Through the first address of the
// first TTS, and of those that this one has.
static void captive_environment_set(struct host *host)
{
    const struct resource_table *table = uma_resources(host->uma);
    char uri[HOST_URI_MAX], *uris = NULL;
    for (size_t i = 0; i < table->count && host->tts_count > 0; i++) {
        char *longer = NULL;
        if (!host_uri(host, 0, &table->rows[i], 0, uri)) {
            continue; // it is for other protocols
        }
        if (asprintf(&longer, "%s%s%s", uris != NULL ? uris : "", uris != NULL ? " " : "", uri) <
            0) {
            break;
        }
        if (uris == NULL) {
            setenv("uri", uri, 1);
        }
        free(uris);
        uris = longer;
    }
    setenv("uris", uris != NULL ? uris : "", 1);
    free(uris);
}

int host_captive_start(struct host *host)
{
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    captive_environment_set(host);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    int error = posix_spawnp(&host->captive_pid, host->config->captive[0], NULL, &attributes,
                             host->config->captive, environ);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) {
        host->captive_pid = 0;
        return -error;
    }
    host->captive_fd = (int)syscall(SYS_pidfd_open, host->captive_pid, 0);
    host->captive_watch =
        loop_watch(host->loop, host->captive_fd, EPOLLIN, on_exit_of_command, host);
    return host->captive_watch != NULL ? 0 : -ENOMEM;
}

void host_captive_close(struct host *host)
{
    loop_unwatch(host->captive_watch);
    host->captive_watch = NULL;
    if (host->captive_pid > 0) {
        kill(host->captive_pid, SIGTERM);
        waitpid(host->captive_pid, NULL, 0);
        host->captive_pid = 0;
    }
    if (host->captive_fd >= 0) {
        close(host->captive_fd);
        host->captive_fd = -1;
    }
}
