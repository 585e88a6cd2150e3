// A process that has closed its standard input, output and error, as daemons do: what the libraries
// open has none of these numbers, which the program uses again as it likes.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DAEMON_LIMIT_S = 60, STANDARD_COUNT = 3, GAVE_NUMBER = 10 };

static inline void daemon_begin(void)
{
    alarm(DAEMON_LIMIT_S);
    for (int fd = 0; fd < STANDARD_COUNT; fd++) {
        close(fd);
    }
}

// 0, or which of the three is open.
static inline int standard_in_use(void)
{
    for (int fd = 0; fd < STANDARD_COUNT; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) {
            return GAVE_NUMBER + fd;
        }
    }
    return 0;
}

// How the test's own program ends as another process, with one argument; -1: it cannot be run.
static inline int daemon_status(const char *what)
{
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "test_daemon", what, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
