// A network of the process's own, a namespace in which it may make devices, for tests of what
// network interfaces do.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

extern char **environ;

// `ip` with these words. False: it is not there, or it failed.
static inline bool own_network_ip(const char *words)
{
    char line[300], *argv[20] = {"ip"}, *save = NULL;
    int count = 1, status;
    pid_t pid;
    snprintf(line, sizeof line, "%s", words);
    for (char *word = strtok_r(line, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        argv[count++] = word;
    }
    return posix_spawnp(&pid, "ip", NULL, NULL, argv, environ) == 0 &&
           waitpid(pid, &status, 0) == pid && status == 0;
}

// Several at once, a line each, by one process. False: one of them failed.
static inline bool own_network_ips(const char *lines)
{
    char words[64];
    const int fd = memfd_create("ip", 0);
    snprintf(words, sizeof words, "-batch /proc/self/fd/%d", fd);
    const bool is_done = fd >= 0 && write(fd, lines, strlen(lines)) == (ssize_t)strlen(lines) &&
                         lseek(fd, 0, SEEK_SET) == 0 && own_network_ip(words);
    close(fd);
    return is_done;
}

static inline bool own_network_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool is_written = fd >= 0 && write(fd, text, strlen(text)) >= 0;
    close(fd);
    return is_written;
}

// From now on the process is in it, with `lo` up. NULL, or why it cannot be.
static inline const char *own_network_enter(void)
{
    char map[64];
    snprintf(map, sizeof map, "0 %u 1", geteuid());
    if (geteuid() == 0) {
        if (unshare(CLONE_NEWNET) != 0) {
            return "no network namespace";
        }
    } else if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 ||
               !own_network_write("/proc/self/setgroups", "deny") ||
               !own_network_write("/proc/self/uid_map", map)) {
        return "no user namespace";
    }
    return own_network_ip("link set lo up") ? NULL : "no program ip, or not allowed to use it";
}

// Skips the test that runs unless `why_not` is NULL.
static inline void own_network_skip(const char *why_not)
{
    if (why_not != NULL) {
        print_message("SKIP: %s\n", why_not);
        skip();
    }
}
