#include "node/ddm/lock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>

enum { LOCK_TRIES = 100, LOCK_TRY_NS = 10000000 };

static int how_of(const struct ddm_host *host)
{
    return host->read_only ? LOCK_SH : LOCK_EX;
}

int lock_try(int fd, const struct ddm_host *host)
{
    if (flock(fd, how_of(host) | LOCK_NB) == 0) {
        return 0;
    }
    return errno == EWOULDBLOCK ? -EBUSY : -errno;
}

int lock_wait(int fd, const struct ddm_host *host)
{
    while (flock(fd, how_of(host)) != 0) {
        if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

// Somebody else's lock is given up soon if its process is ending, and otherwise refused.
static int take_fresh(int fd, const struct ddm_host *host)
{
    struct timespec pause = {.tv_nsec = LOCK_TRY_NS};
    int error = -EBUSY;
    for (unsigned i = 0; i < LOCK_TRIES && (error = lock_try(fd, host)) == -EBUSY; i++) {
        nanosleep(&pause, NULL);
    }
    return error;
}

int lock_take(int fd, const struct ddm_host *host, const char *driver)
{
    if (!host->is_restart) {
        return take_fresh(fd, host);
    }
    if (lock_try(fd, host) == 0) {
        return 0;
    }
    char line[96];
    snprintf(line, sizeof line, "%s: waiting for the I/O that an earlier process left behind",
             driver);
    host->say(host->ctx, line);
    return lock_wait(fd, host);
}
