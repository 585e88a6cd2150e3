// Read windows: files that the host reads beside an RTA, as far as the page cache has them.
//
// What an RTA hands over is a stranger's. It must be a file that the RTA itself can read, of a file
// system that says when it would have to wait; nothing else is done with it before that is known.
// Then it is opened anew: nothing that the RTA does to its own file description, such as bypassing
// the cache, is then done to the host's.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "node/host/agent.h"
#include "node/unit/channel.h"

// Asks no server of files.
static bool is_file(int fd)
{
    struct statx status;
    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 &&
           S_ISREG(status.stx_mode);
}

static int64_t read_at_once(int fd, uint64_t offset, void *data, uint32_t len)
{
    struct iovec iov = {.iov_base = data, .iov_len = len};
    return preadv2(fd, &iov, 1, (off_t)offset, RWF_NOWAIT);
}

// Is there an answer, be it "not now"?
static bool knows_waiting(int fd)
{
    char octet;
    return read_at_once(fd, 0, &octet, sizeof octet) >= 0 || errno == EAGAIN;
}

int host_window_open(int handed)
{
    char path[32];
    int own = -1;
    if (is_file(handed) && knows_waiting(handed)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", handed);
        own = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    }
    channel_drop(handed);
    return own;
}

bool host_window_read(void *ctx, int fd, uint64_t offset, void *data, uint32_t len)
{
    return read_at_once(fd, offset, data, len) == (int64_t)len;
}
