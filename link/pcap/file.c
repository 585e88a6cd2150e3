#include "link/pcap/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "link/sys.h"

// In the octet order of the machine, as readers expect.
struct pcap_header {
    uint32_t magic;
    uint16_t major, minor;
    int32_t zone;
    uint32_t accuracy, snap_len, link_type;
};
STATIC_CHECK(sizeof(struct pcap_header) == 24);

struct pcap_record {
    uint32_t seconds, nanoseconds, captured_len, wire_len;
};
STATIC_CHECK(sizeof(struct pcap_record) == 16);

enum { PCAP_MAGIC_NS = 0xa1b23c4d, PCAP_LINK_TYPE_RAW = 101 };

static void path_expand(const char *path, char *ret, size_t len)
{
    size_t at = 0;
    while (*path != '\0' && at + 1 < len) {
        if (path[0] == '%' && path[1] == 'p') {
            int digits = snprintf(ret + at, len - at, "%d", (int)getpid());
            at += (size_t)digits < len - at ? (size_t)digits : len - at - 1;
            path += 2;
        } else {
            ret[at++] = *path++;
        }
    }
    ret[at] = '\0';
}

// A descriptor of the file, locked and empty; -EWOULDBLOCK when another process is writing it. A
// pipe or device has neither lock nor length, and is taken as it is.
static int open_locked(const char *path)
{
    int fd = sys_open_own(path, 0);
    if (fd < 0) {
        return fd;
    }
    if (sys_flock(fd, LOCK_EX | LOCK_NB) == -EWOULDBLOCK) {
        sys_close(fd);
        return -EWOULDBLOCK;
    }
    sys_ftruncate(fd, 0);
    return fd;
}

int pcap_file_open(struct pcap_file *f, const char *path)
{
    char expanded[PATH_MAX], other[PATH_MAX + 16];
    path_expand(path, expanded, sizeof expanded);
    f->fd = open_locked(expanded);
    if (f->fd == -EWOULDBLOCK) {
        snprintf(other, sizeof other, "%s.%d", expanded, (int)getpid());
        f->fd = open_locked(other);
    }
    if (f->fd < 0) {
        return f->fd;
    }
    f->error = 0;
    struct pcap_header header = {.magic = PCAP_MAGIC_NS,
                                 .major = 2,
                                 .minor = 4,
                                 .snap_len = PCAP_SNAP_LEN,
                                 .link_type = PCAP_LINK_TYPE_RAW};
    memcpy(f->buffer, &header, sizeof header);
    f->len = sizeof header;
    pcap_file_flush(f);
    return f->error;
}

void pcap_file_put(struct pcap_file *f, const struct iovec *iov, unsigned count)
{
    size_t len = 0;
    struct timespec t;
    for (unsigned i = 0; i < count; i++) {
        len += iov[i].iov_len;
    }
    CHECK(len <= PCAP_SNAP_LEN);
    clock_gettime(CLOCK_REALTIME, &t);
    struct pcap_record record = {.seconds = (uint32_t)t.tv_sec,
                                 .nanoseconds = (uint32_t)t.tv_nsec,
                                 .captured_len = (uint32_t)len,
                                 .wire_len = (uint32_t)len};
    if (PCAP_BUFFER_LEN - f->len < sizeof record + len) {
        pcap_file_flush(f);
    }
    memcpy(f->buffer + f->len, &record, sizeof record);
    f->len += sizeof record;
    for (unsigned i = 0; i < count; i++) {
        if (iov[i].iov_len > 0) {
            memcpy(f->buffer + f->len, iov[i].iov_base, iov[i].iov_len);
            f->len += iov[i].iov_len;
        }
    }
}

void pcap_file_flush(struct pcap_file *f)
{
    size_t done = 0;
    while (done < f->len && f->error == 0) {
        ssize_t len = sys_write(f->fd, f->buffer + done, f->len - done);
        if (len >= 0) {
            done += (size_t)len;
        } else if (len != -EINTR) {
            f->error = (int)len;
        }
    }
    f->len = 0;
}

void pcap_file_close(struct pcap_file *f)
{
    if (f->fd >= 0) {
        sys_close(f->fd);
    }
    f->fd = -1;
    f->error = f->error == 0 ? -EBADF : f->error;
}
