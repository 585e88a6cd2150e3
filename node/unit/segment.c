#include "node/unit/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static int map(int fd, uint64_t len, void *place, struct segment *ret)
{
    int how = MAP_SHARED | (place != NULL ? MAP_FIXED : 0);
    void *ptr = mmap(place, len, PROT_READ | PROT_WRITE, how, fd, 0);
    if (ptr == MAP_FAILED) {
        int error = -errno;
        close(fd);
        return error;
    }
    *ret = (struct segment){.ptr = ptr, .len = len, .fd = fd};
    return 0;
}

int segment_create(const char *name, uint64_t len, struct segment *ret)
{
    return segment_create_at(name, len, NULL, ret);
}

int segment_create_at(const char *name, uint64_t len, void *place, struct segment *ret)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return -errno;
    }
    if (ftruncate(fd, (off_t)len) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return map(fd, len, place, ret);
}

int segment_open(int fd, struct segment *ret)
{
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &status) != 0) {
        close(fd);
        return -EPERM;
    }
    return map(fd, (uint64_t)status.st_size, NULL, ret);
}

void segment_close(struct segment *segment)
{
    if (segment->ptr != NULL) {
        munmap(segment->ptr, segment->len);
        close(segment->fd);
    }
    *segment = (struct segment){.fd = -1};
}
