#include "node/ddm/lock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>

enum { LOCK_TRIES = 100, LOCK_TRY_NS = 10000000 };

// Somebody else's lock is given up soon if its process is ending, and otherwise refused.
static int take_fresh(int fd, int how)
{
    struct timespec wait = {.tv_nsec = LOCK_TRY_NS};
    for (unsigned i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, how | LOCK_NB) == 0) {
            return 0;
        }
        if (errno != EWOULDBLOCK) {
            return -errno;
        }
        nanosleep(&wait, NULL);
    }
    return -EBUSY;
}

int lock_take(int fd, const struct ddm_host *host, const char *driver)
{
    int how = host->read_only ? LOCK_SH : LOCK_EX;
    if (!host->is_restart) {
        return take_fresh(fd, how);
    }
    if (flock(fd, how | LOCK_NB) == 0) {
        return 0;
    }
    char line[96];
    snprintf(line, sizeof line, "%s: waiting for the I/O that an earlier process left behind",
             driver);
    host->say(host->ctx, line);
    while (flock(fd, how) != 0) {
        if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}
