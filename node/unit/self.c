#include "node/unit/self.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

static void descriptors_add(posix_spawn_file_actions_t *actions, const struct self_process *process)
{
    posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (process->log_fd >= 0) {
        posix_spawn_file_actions_adddup2(actions, process->log_fd, STDERR_FILENO);
    } else {
        posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    }
    for (int i = 0; i < process->count; i++) {
        posix_spawn_file_actions_adddup2(actions, process->fds[i], process->first + i);
    }
}

int self_spawn(const struct self_process *process, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    descriptors_add(&actions, process);
    int error =
        posix_spawn(ret_pid, "/proc/self/exe", &actions, &attributes, process->argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -error;
}

void self_ignore_signals(void)
{
    static const int ignored[] = {SIGINT, SIGHUP, SIGPIPE, SIGQUIT, SIGXFSZ};
    for (unsigned i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        signal(ignored[i], SIG_IGN);
    }
}
