#include "link/local/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "link/sys.h"

static const int seals_wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static size_t memory_len(uint32_t ring_len)
{
    return LOCAL_MEMORY_OCTETS + 2 * (size_t)ring_len;
}

// The child of a fork has no business with its parent's streams.
static int map(int fd, uint32_t ring_len, struct local_memory *ret)
{
    void *base;
    int error = sys_map_shared(fd, memory_len(ring_len), &base);
    if (error == 0) {
        *ret = (struct local_memory){.base = base, .ring_len = ring_len};
    }
    return error;
}

int local_memory_create(uint32_t ring_len, struct local_memory *ret, int *ret_fd)
{
    int fd = sys_memfd_create("weft-stream", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return fd;
    }
    int error = sys_ftruncate(fd, memory_len(ring_len));
    if (error == 0) {
        error = sys_fcntl(fd, F_ADD_SEALS, seals_wanted);
    }
    if (error == 0) {
        error = map(fd, ring_len, ret);
    }
    if (error != 0) {
        sys_close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

int local_memory_adopt(int fd, uint32_t ring_len, struct local_memory *ret)
{
    int seals = sys_fcntl(fd, F_GET_SEALS, 0);
    if (seals < 0 || (seals & seals_wanted) != seals_wanted || !octet_ring_len_is_good(ring_len) ||
        sys_file_len(fd) != (int64_t)memory_len(ring_len)) {
        return -EINVAL;
    }
    return map(fd, ring_len, ret);
}

void local_memory_release(struct local_memory *m)
{
    if (m->base != NULL) {
        munmap(m->base, memory_len(m->ring_len));
    }
    m->base = NULL;
}

struct octet_ring local_memory_ring(const struct local_memory *m, enum local_side side)
{
    bool is_active = side == LOCAL_ACTIVE;
    return (struct octet_ring){
        .control = m->base + (is_active ? LOCAL_MEMORY_ACTIVE_RING : LOCAL_MEMORY_PASSIVE_RING),
        .octets = m->base + LOCAL_MEMORY_OCTETS + (is_active ? 0 : m->ring_len),
        .len = m->ring_len,
    };
}
