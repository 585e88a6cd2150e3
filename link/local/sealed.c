#include "link/local/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "link/sys.h"

static const int seals_wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static int map(int fd, size_t len, uint8_t **ret)
{
    void *memory;
    int error = sys_map_shared(fd, len, &memory);
    if (error == 0) {
        *ret = memory;
    }
    return error;
}

int local_sealed_create(const char *name, size_t len, uint8_t **ret, int *ret_fd)
{
    int fd = sys_memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return fd;
    }
    int error = sys_ftruncate(fd, len);
    if (error == 0) {
        error = sys_fcntl(fd, F_ADD_SEALS, seals_wanted);
    }
    if (error == 0) {
        error = map(fd, len, ret);
    }
    if (error != 0) {
        sys_close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

int local_sealed_adopt(int fd, size_t len, uint8_t **ret)
{
    int seals = sys_fcntl(fd, F_GET_SEALS, 0);
    if (seals < 0 || (seals & seals_wanted) != seals_wanted || sys_file_len(fd) != (int64_t)len) {
        return -EINVAL;
    }
    return map(fd, len, ret);
}

void local_sealed_release(uint8_t *memory, size_t len)
{
    if (memory != NULL) {
        munmap(memory, len);
    }
}
